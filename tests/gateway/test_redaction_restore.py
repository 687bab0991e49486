"""Restoring gives the same text whole or in pieces, and holds back only what it must."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.redaction.restore import StreamRestorer, restore_text
from gateway.redaction.stand_ins import MAX_STAND_IN, shapes_of
from gateway.redaction.tokens import MAX_TOKEN, TOKEN_BEGINNING, Tokenizer

OURS = Tokenizer(b"k" * 32, "ours")
THEIRS = Tokenizer(b"k" * 32, "theirs")
VALUES = ["jane@corp.example", 'a "quoted" \\ value\n', "Ünï çødé", "[EMAIL_", ""]
KNOWN = {OURS.token(kind, v): v for v in VALUES for kind in ("EMAIL", "IBAN", "MY_KIND")}
FOREIGN = [THEIRS.token("EMAIL", v) for v in VALUES]

pieces_of_text = st.lists(
    st.one_of(
        st.sampled_from(sorted(KNOWN)),
        st.sampled_from(FOREIGN),
        st.sampled_from([f"\\{t[:-1]}\\]" for t in (*KNOWN, *FOREIGN)]),
        st.sampled_from(
            ["[", "]", "[EMAIL", "[EMAIL_", "[EMAIL_0123abcd", "arr[i]", "[[", "_", " ", "\\"]
        ),
        st.text(max_size=8),
    ),
    max_size=12,
).map("".join)


def chunked(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(c % (len(text) + 1) for c in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


@given(pieces_of_text, st.lists(st.integers(0, 10_000), max_size=20))
def test_any_chunking_gives_what_restoring_the_whole_gives(text: str, cuts: list[int]) -> None:
    restorer = StreamRestorer(KNOWN)
    out = "".join(restorer.feed(piece) for piece in chunked(text, cuts)) + restorer.flush()
    assert out == restore_text(text, KNOWN)


@given(pieces_of_text)
def test_one_character_at_a_time_holds_only_a_possible_token(text: str) -> None:
    restorer = StreamRestorer(KNOWN.get)
    for c in text:
        restorer.feed(c)
        beginning = restorer.held.removeprefix("\\").removesuffix("\\")
        assert beginning == "" or TOKEN_BEGINNING.fullmatch(beginning)
        assert len(restorer.held) < MAX_TOKEN + 2


def test_text_that_cannot_become_a_token_is_never_delayed() -> None:
    restorer = StreamRestorer(KNOWN)
    for piece in ("plain ", "x[0] = [a", "]", "[EMAIL-", "[email", "日本語" * 100, "[1", "[A B"):
        assert restorer.feed(piece) == piece


def test_unknown_and_foreign_tokens_stay() -> None:
    text = " ".join([*FOREIGN, "[EMAIL_0123abcd]"])
    assert restore_text(text, KNOWN) == text


def test_brackets_that_markdown_escapes_go_with_the_token() -> None:
    token = OURS.token("EMAIL", VALUES[0])
    body = token[1:-1]
    assert restore_text(f"to \\[{body}\\], `{token}`", KNOWN) == f"to {VALUES[0]}, `{VALUES[0]}`"
    for kept in (
        f"\\\\[{body}\\]",
        f"[{body}\\]",
        f"\\[{body.lower()}\\]",
        f"[{body.upper()}]",
        f"[{body} ]",
        f"[{body[:-1]}]",
        body,
        f"\\[{FOREIGN[0][1:-1]}\\]",
    ):
        assert restore_text(kept, KNOWN) == kept
    assert restore_text(f"\\{token}", KNOWN) == f"\\{VALUES[0]}"


SHAPES = shapes_of(("CARD", "EMAIL", "IP", "PHONE"))
STAND_INS = {
    OURS.stand_in(kind, value): value
    for kind, value in [
        ("IP", "81.2.69.142"),
        ("IP", "2a02:8109::17"),
        ("CARD", "4111 1111 1111 1111"),
        ("CARD", "5105105105105100"),
        ("CARD", "3714-496353-98431"),
        ("EMAIL", "jane@corp.example"),
        ("PHONE", "+44 20 7946 1234"),
        ("PHONE", "0161 715 1234"),
        ("PHONE", "(415) 867 5309"),
        ("PHONE", "+49 30 901820"),
    ]
}
text_with_stand_ins = st.lists(
    st.one_of(
        st.sampled_from(sorted(STAND_INS)),
        st.sampled_from(sorted(STAND_INS)).flatmap(
            lambda s: st.integers(0, len(s)).map(lambda at: s[:at])
        ),
        st.sampled_from(sorted(KNOWN)),
        st.sampled_from([*" .,:-+@\\[]x0145", "4242", "198.51.100.", "+1 ", "2001:db8::"]),
    ),
    max_size=8,
).map("".join)


@given(text_with_stand_ins, st.lists(st.integers(0, 10_000), max_size=20))
def test_stand_ins_come_back_under_any_chunking(text: str, cuts: list[int]) -> None:
    known = KNOWN | STAND_INS
    restorer = StreamRestorer(known, SHAPES)
    out = "".join(restorer.feed(piece) for piece in chunked(text, cuts)) + restorer.flush()
    assert out == restore_text(text, known, SHAPES)


@given(text_with_stand_ins)
def test_what_is_held_for_a_stand_in_is_bounded(text: str) -> None:
    restorer = StreamRestorer(STAND_INS, SHAPES)
    for c in text:
        restorer.feed(c)
        assert len(restorer.held) <= 2 * MAX_STAND_IN + MAX_TOKEN


@pytest.mark.parametrize("stand_in", sorted(STAND_INS))
def test_a_stand_in_is_restored_only_where_it_stands_alone(stand_in: str) -> None:
    value = STAND_INS[stand_in]
    for before, after in [("", ""), ("x = '", "'"), ("(", ")."), ("to ", "."), ("", ", ")]:
        text = f"{before}{stand_in}{after}"
        assert restore_text(text, STAND_INS, SHAPES) == f"{before}{value}{after}"
    for text in (f"1{stand_in}", f"{stand_in}7"):
        assert restore_text(text, STAND_INS, SHAPES) == text
    assert restore_text(stand_in, STAND_INS) == stand_in


def test_a_restored_value_is_not_looked_at_again() -> None:
    inner = OURS.token("EMAIL", "secret")
    outer = OURS.token("EMAIL", "outer")
    assert restore_text(outer, {outer: f"x {inner}", inner: "never"}) == f"x {inner}"
    restorer = StreamRestorer({outer: "[EMAIL_", inner: "never"})
    assert (
        restorer.feed(outer) + restorer.feed(inner[7:]) + restorer.flush() == "[EMAIL_" + inner[7:]
    )
