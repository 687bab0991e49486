"""Every record gets words, and nothing that a terminal obeys gets through them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading_logs import EVERY_KIND, op

from shared.ledger.deck_words import OPS
from shared.ledger.meaning import MEANING, leftovers, under, who
from shared.ledger.plain import harmless
from shared.ledger.record import TYPE_NAMES
from shared.ledger.words import _WORDS, decision, describe, milliseconds, moment, redacted, tokens

ROOT = Path(__file__).resolve().parents[2]

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=30)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELDS = (
    "actor",
    "action",
    "policy",
    "model",
    "outcome",
    "ext",
    "gate",
    "task",
    "id",
    "ref",
    "ts",
    "obo",
)
KEYS = (
    *(
        "role",
        "agent",
        "key",
        "kind",
        "name",
        "target",
        "decision",
        "rules",
        "digest",
        "id",
        "state",
    ),
    *(
        "approver",
        "redactions",
        "usage",
        "dur_us",
        "status",
        "http",
        "cause",
        "op",
        "reason",
        "count",
    ),
    *("from", "to", "keys", "size", "restored", "accepted_loss", "code", "step", "sender", "done"),
)
hostile_records = st.dictionaries(
    st.sampled_from(FIELDS),
    values | st.dictionaries(st.sampled_from(KEYS), values, max_size=6),
    max_size=8,
)


def is_harmless(text: str) -> bool:
    return text.isprintable()


def test_every_type_has_a_sentence_and_a_meaning() -> None:
    assert set(_WORDS) == TYPE_NAMES
    assert set(MEANING) == TYPE_NAMES


def test_every_operation_of_a_deck_has_a_sentence() -> None:
    tree = ast.parse((ROOT / "deck" / "entries.py").read_text())
    ops = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Op")
    names = {
        node.value.value
        for node in ast.walk(ops)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    }
    assert names <= set(OPS), names - set(OPS)


@pytest.mark.parametrize(("kind", "fields"), EVERY_KIND, ids=[kind for kind, _ in EVERY_KIND])
def test_a_record_of_each_kind_is_told_in_one_plain_line(kind: str, fields: dict[str, Any]) -> None:
    words = describe({"type": kind, **fields})
    assert words
    assert words.isprintable()
    assert "None" not in words
    assert "  " not in words


@given(
    kind=st.sampled_from(sorted(TYPE_NAMES)) | st.text(max_size=10) | st.integers(),
    record=hostile_records,
)
def test_no_record_is_without_words_and_none_breaks_out(
    kind: object, record: dict[str, Any]
) -> None:
    whole = {"type": kind, **record}
    for text in (describe(whole), who(whole), under(whole), decision(whole), redacted(whole)):
        assert is_harmless(text)
    assert all(is_harmless(name + value) for name, value in leftovers(whole))
    moment(whole), tokens(whole), milliseconds(whole)


@given(
    op_name=st.sampled_from(sorted(OPS)) | st.text(min_size=1),
    more=st.dictionaries(
        st.sampled_from(["id", "role", "state", "reason", "sender", "task", "pid"]), values
    ),
)
def test_no_operation_of_a_deck_is_without_words(op_name: str, more: dict[str, Any]) -> None:
    record = {"type": "journal", **op(op_name)}
    record["ext"] |= more
    assert is_harmless(describe(record))


@given(st.text())
def test_what_is_harmless_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    assert is_harmless(harmless(text))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("two\nlines\r", "two\\x0alines\\x0d"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("\x9b2J", "\\x9b2J"),
        ("\u200bhidden\U000e0041", "\\u200bhidden\\U000e0041"),
        ("ümlaut 漢字 🙂", "ümlaut 漢字 🙂"),
    ],
)
def test_what_would_act_is_shown_instead(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_a_limit_cuts_and_says_so() -> None:
    assert harmless("x" * 100, 10) == "x" * 9 + "…"


def test_a_stamp_and_an_operators_wish_are_told() -> None:
    stamp = {
        "type": "delegate",
        "task": "T3",
        "actor": {"agent": "choragos"},
        "action": {"kind": "control", "name": "stamp", "target": "coder"},
    }
    assert describe(stamp) == "coder works on T3 from here on, says choragos"
    seal = {
        "type": "journal",
        "actor": {"agent": "sphragis"},
        "action": {"kind": "control", "name": "seal"},
        "ext": {"step": "failed", "reason": "no disk"},
    }
    assert describe(seal) == "sphragis: seal failed (no disk)"
    refused = {
        "type": "deny",
        "actor": {"agent": "node"},
        "action": {"kind": "control", "name": "stamp"},
        "ext": {"code": "inside_team"},
    }
    assert (
        describe(refused) == "refused node the operation stamp on the control socket (inside_team)"
    )


def test_an_alarm_is_told_as_one() -> None:
    ext = {"kind": "neighbor", "origin": "o/1", "size": 9, "alarm": "fork"}
    assert describe({"type": "anchor", "ext": ext}) == (
        "ALARM another history than was seen before: a neighboring log at size 9 of o/1"
    )
    ext = {"kind": "witness", "origin": "o/2", "size": 9, "alarm": "new_code"}
    assert describe({"type": "anchor", "ext": ext}) == (
        "ALARM new_code: this log, said by its witness at size 9 of o/2"
    )


def test_a_refused_erasure_says_what_forbids_it() -> None:
    refused = {
        "type": "deny",
        "action": {"kind": "erase"},
        "outcome": {"status": "refused"},
        "ext": {"reasons": ['the hold "case1"', 3], "operator": "anna"},
    }
    assert describe(refused) == 'refused erase because of the hold "case1", 3'


def test_an_accepted_loss_says_how_much() -> None:
    ext = {"accepted_loss": True, "lost_from": 38, "committed": 72, "operator": "anna"}
    assert describe({"type": "recover", "ext": ext}) == (
        "a loss of 34 records was accepted from record 38 by anna"
    )
    ext = {"accepted_loss": True, "lost_from": 38, "committed": 38}
    assert describe({"type": "recover", "ext": ext}) == (
        "a loss of records was accepted from record 38"
    )


def test_a_whole_proof_and_an_expired_value_are_told() -> None:
    stamp = {"kind": "ots", "size": 9, "state": "pending"}
    told = describe({"type": "anchor", "ext": stamp})
    assert told == "OpenTimestamps took the log at size 9"
    told = describe({"type": "anchor", "ext": {**stamp, "state": "complete"}})
    assert told == "OpenTimestamps has a whole proof of the log at size 9"
    expired = {"action": {"kind": "vault"}, "ext": {"change": "expire", "count": 2}}
    assert describe({"type": "erase", **expired}) == "2 values in the vault expired"
