"""Tokens are functions: of key, scope, kind and value, and of nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.redaction.tokens import (
    KIND,
    LENGTHS,
    MAX_KIND,
    MAX_TOKEN,
    TOKEN,
    TOKEN_BEGINNING,
    WRITTEN,
    Tokenizer,
    TokensExhausted,
    kind_of,
)

KEY = bytes(range(32))
kinds = st.from_regex(KIND, fullmatch=True)


@example("K" * MAX_KIND, "", "")
@given(kinds, st.text(), st.text(max_size=20))
def test_a_token_has_the_form_everyone_recognizes(kind: str, value: str, scope: str) -> None:
    token = Tokenizer(KEY, scope).token(kind, value)
    assert TOKEN.fullmatch(token)
    assert len(token) <= MAX_TOKEN
    assert json.loads(json.dumps(token)) == token
    for size in range(1, len(token)):
        assert TOKEN_BEGINNING.fullmatch(token[:size])


@given(st.text(), st.text())
def test_values_and_kinds_and_scopes_do_not_mix(a: str, b: str) -> None:
    same = Tokenizer(KEY, "r").token("EMAIL", a) == Tokenizer(KEY, "r").token("EMAIL", b)
    assert same == (a == b)
    assert Tokenizer(KEY, "r").token("EMAIL", a) != Tokenizer(KEY, "s").token("EMAIL", a)
    body = Tokenizer(KEY, "r").token("EMAIL", a)[7:]
    assert body != Tokenizer(KEY, "r").token("PHONE", a)[7:]
    assert Tokenizer(KEY, "rE").token("A", a)[3:] != Tokenizer(KEY, "r").token("EA", a)[4:]


def test_another_process_makes_the_same_token() -> None:
    program = (
        "from gateway.redaction.tokens import Tokenizer;"
        "print(Tokenizer(bytes(range(32)), 'builder').token('EMAIL', 'jane@corp.example'))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert printed == Tokenizer(KEY, "builder").token("EMAIL", "jane@corp.example")


def test_another_key_makes_another_token() -> None:
    assert Tokenizer(KEY, "r").token("EMAIL", "a") != Tokenizer(KEY[::-1], "r").token("EMAIL", "a")


def test_letter_case_is_part_of_the_value() -> None:
    tokenizer = Tokenizer(KEY, "r")
    assert tokenizer.token("EMAIL", "A@b.example") != tokenizer.token("EMAIL", "a@b.example")


def test_a_taken_token_leads_to_the_next_longer_one_every_time() -> None:
    first = Tokenizer(KEY, "r")
    short = first.token("EMAIL", "a")
    longer = Tokenizer(KEY, "r", {short: "other"}).token("EMAIL", "a")
    longest = Tokenizer(KEY, "r", {short: "other", longer: "another"}).token("EMAIL", "a")
    assert [len(t) - len("[EMAIL_]") for t in (short, longer, longest)] == list(LENGTHS)
    assert longer.startswith(short[:-1])
    assert longer == Tokenizer(KEY, "r", {short: "other"}).token("EMAIL", "a")
    assert Tokenizer(KEY, "r", first.marks).token("EMAIL", "a") == short
    taken = {short: "x", longer: "y", longest: "z"}
    with pytest.raises(TokensExhausted):
        Tokenizer(KEY, "r", taken).token("EMAIL", "a")


@given(kinds, st.text(min_size=1), st.text(max_size=20))
def test_a_mark_tells_values_apart_and_is_no_part_of_the_token(
    kind: str, value: str, scope: str
) -> None:
    tokenizer = Tokenizer(KEY, scope)
    token = tokenizer.token(kind, value)
    mark = tokenizer.marks[token]
    assert len(bytes.fromhex(mark)) == 16
    again = Tokenizer(KEY, scope)
    assert again.marks == {}
    again.token(kind, value)
    assert again.marks == {token: mark}
    again.token(kind, value + "x")
    assert len(set(again.marks.values())) == 2


@pytest.mark.parametrize("other", ["Jane@corp.example", "jane@corp.example ", "ja\u0301ne@x"])
def test_every_spelling_has_a_token_of_its_own(other: str) -> None:
    tokenizer = Tokenizer(KEY, "r")
    assert tokenizer.token("EMAIL", "jane@corp.example") != tokenizer.token("EMAIL", other)
    assert tokenizer.token("EMAIL", "j\u00e1ne@x") != tokenizer.token("EMAIL", "ja\u0301ne@x")


@given(kinds, st.text(), st.text(max_size=20))
def test_a_hash_is_stable_and_no_token(kind: str, value: str, scope: str) -> None:
    hashed = Tokenizer(KEY, scope).hashed(kind, value)
    assert hashed == Tokenizer(KEY, scope).hashed(kind, value)
    assert WRITTEN.fullmatch(hashed)
    assert not TOKEN.search(hashed)
    assert hashed != Tokenizer(KEY, scope + "x").hashed(kind, value)
    assert hashed[1:].partition("#")[2][:8] != Tokenizer(KEY, scope).token(kind, value)[-9:-1]


@given(kinds, st.text())
def test_a_token_names_its_kind(kind: str, value: str) -> None:
    assert kind_of(Tokenizer(KEY, "r").token(kind, value)) == kind


@pytest.mark.parametrize(
    "text",
    ["[EMAIL_1]", "[email_0123abcd]", "[EMAIL_0123abc]", "[EMAIL_0123abcdef]", "[EMAIL_0123abcU]",
     "[_0123abcd]", "[0123abcd]", "[EMAIL-0123abcd]", "[A__0123abcd]"],
)  # fmt: skip
def test_what_only_resembles_a_token_is_none(text: str) -> None:
    assert not TOKEN.search(text)
