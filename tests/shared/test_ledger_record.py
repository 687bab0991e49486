"""Records: the exact bytes, what is refused at append, and what the strict reader refuses."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import orjson
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from shared.ledger import RecordRefused, RecordType
from shared.ledger.record import (
    CALLER_FIELDS,
    MAX_LINE,
    LineRefused,
    copy_fields,
    encode,
    parse,
)

GOOD: dict[str, Any] = {
    "v": 1,
    "seq": 3,
    "prev": "ab" * 32,
    "ts": 1_764_433_568_000_000,
    "mono": 5,
    "boot": "b",
    "type": "request",
    "task": "T3",
}

_keys = st.text(st.characters(codec="ascii"), max_size=12)
_leaves = (
    st.text(max_size=20)
    | st.integers(min_value=-(2**53) + 1, max_value=2**53 - 1)
    | st.booleans()
    | st.none()
)
_values = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_keys, _values, max_size=6))
def test_the_stored_bytes_are_the_jcs_bytes(ext: dict[str, Any]) -> None:
    record = {**GOOD, **copy_fields({"ext": ext})}
    assert encode(record) == rfc8785.dumps(record)


@given(st.dictionaries(_keys, _values, max_size=6))
def test_a_written_record_reads_back_the_same(ext: dict[str, Any]) -> None:
    record = {**GOOD, **copy_fields({"ext": ext})}
    assert parse(encode(record)) == record


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_a_record_or_refused(line: bytes) -> None:
    try:
        record = parse(line)
    except LineRefused:
        return
    assert encode(record) == line


@given(st.integers(0, 400), st.binary(min_size=1, max_size=2))
def test_a_changed_line_that_still_parses_is_still_canonical(at: int, piece: bytes) -> None:
    line = encode(GOOD)
    at %= len(line)
    changed = line[:at] + piece + line[at + 1 :]
    try:
        record = parse(changed)
    except LineRefused:
        return
    assert encode(record) == changed


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":1,"a":2}',
        encode(GOOD).replace(b'"task":"T3"', b'"task":"T3","task":"T4"'),
        encode(GOOD).replace(b'"task":"T3"', b'"task": "T3"'),
        encode(GOOD).replace(b'"task":"T3"', b'"task":"\\u0054\\u0033"'),
        encode(GOOD).replace(b'"task":"T3"', b'"task":"\xff"'),
        encode(GOOD).replace(b'"mono":5', b'"mono":5.0'),
        encode(GOOD).replace(b'"mono":5', b'"mono":5.25'),
        encode(GOOD).replace(b'"mono":5', b'"mono":1e300'),
        encode(GOOD).replace(b'"mono":5', b'"mono":9007199254740993'),
        encode(GOOD).replace(b'"mono":5', b'"mono":05'),
        encode(GOOD).replace(b'"mono":5', b'"mono":-0'),
        encode(GOOD).replace(b'"v":1', b'"v":2'),
        encode(GOOD).replace(b'"v":1', b'"v":1.0'),
        encode(GOOD).replace(b'"v":1', b'"v":true'),
        encode(GOOD).replace(b',"v":1', b""),
        encode(GOOD).replace(b'"seq":3', b'"seq":-3'),
        encode(GOOD).replace(b'"type":"request"', b'"type":"nonsense"'),
        encode(GOOD) + b" ",
        b"\xef\xbb\xbf" + encode(GOOD),
        b"[" * 5000 + b"]" * 5000,
        b"[1]",
        b"null",
        b"",
    ],
)
def test_the_reader_refuses(line: bytes) -> None:
    with pytest.raises(LineRefused):
        parse(line)


class Color(StrEnum):
    RED = "red"


def test_enumerations_tuples_and_absent_values_have_a_place() -> None:
    copied = copy_fields({"task": Color.RED, "run": None, "ext": {"list": (1, Color.RED, None)}})
    assert copied == {"task": "red", "ext": {"list": [1, "red", None]}}
    assert type(copied["task"]) is str


def test_the_copy_is_not_touched_by_later_changes() -> None:
    inner: dict[str, Any] = {"list": [1]}
    copied = copy_fields({"ext": inner})
    inner["list"].append(2)
    assert copied == {"ext": {"list": [1]}}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"ext": {"cost": 0.5}}, 'field "ext" holds a fractional number'),
        ({"ext": {"cost": float("nan")}}, "fractional number"),
        ({"ext": {"n": 2**53}}, "2^53"),
        ({"ext": {"n": -(2**53)}}, "2^53"),
        ({"ext": {"ключ": 1}}, "not plain ASCII"),
        ({"ext": {1: 1}}, "not plain ASCII"),
        ({"ext": {"b": b"x"}}, "holds a bytes"),
        ({"ext": {"text": "\ud800"}}, "not valid Unicode"),
        ({"ext": {"text": "x" * MAX_LINE}}, "the limit is 61440"),
        ({"seq": 4}, "set by the ledger"),
        ({"note": "x"}, 'no field "note"'),
        ({"task": 3}, "must be text, not int"),
        ({"ref": "3"}, "must be a whole number"),
        ({"ref": True}, "must be a whole number"),
        ({"action": []}, "must be an object"),
        ({"obo": {}}, "must be a list"),
    ],
)
def test_append_refuses_what_has_no_exact_place(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(RecordRefused, match=says.replace("^", r"\^")):
        copy_fields(fields)


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RecordRefused, match="nested too deeply"):
        copy_fields({"ext": {"deep": deep}})


def test_refusals_never_quote_the_content() -> None:
    secret = "alice@example.org"
    for fields in ({secret: 1}, {"ext": {"é" + secret: 1}}, {"task": {secret: secret}}):
        with pytest.raises(RecordRefused) as caught:
            copy_fields(fields)
        assert secret not in str(caught.value)


def test_the_largest_accepted_record_fits_a_line() -> None:
    low, high = 1, MAX_LINE
    while low < high:  # the largest text that is accepted
        middle = (low + high + 1) // 2
        try:
            copy_fields({"ext": {"t": "x" * middle}})
            low = middle
        except RecordRefused:
            high = middle - 1
    record = copy_fields({"ext": {"t": "x" * low}})
    largest = {"v": 1, "seq": 2**53 - 1, "ts": 2**53 - 1, "mono": 2**53 - 1, "boot": "b" * 36}
    record |= largest | {"prev": "f" * 64, "type": max(RecordType, key=len).value}
    assert len(encode(record)) <= MAX_LINE
    assert low > MAX_LINE - 500


def test_all_types_and_fields_of_the_format_are_there() -> None:
    assert {kind.value for kind in RecordType} == {
        "genesis",
        "start",
        "stop",
        "request",
        "outcome",
        "deny",
        "gate_open",
        "gate_decision",
        "delegate",
        "revoke",
        "policy_set",
        "config_set",
        "key_rotate",
        "seal",
        "anchor",
        "erase",
        "hold",
        "export",
        "recover",
        "clock_step",
        "heartbeat",
        "gap",
        "journal",
    }
    assert set(CALLER_FIELDS) == {
        "id",
        "ref",
        "task",
        "run",
        "tenant",
        "actor",
        "obo",
        "action",
        "policy",
        "gate",
        "evidence",
        "model",
        "outcome",
        "retention",
        "ext",
    }


def test_strings_are_framed_so_text_cannot_move_between_fields() -> None:
    first = encode({**GOOD, "task": "a\nb", "run": "c"})
    second = encode({**GOOD, "task": "a", "run": "b\nc"})
    assert first != second
    assert b"\n" not in first
    assert orjson.loads(first)["task"] == "a\nb"
