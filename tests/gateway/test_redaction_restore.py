"""Restoring gives the same text whole or in pieces, and holds back only what it must."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gateway.redaction.restore import StreamRestorer, restore_text
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
        st.sampled_from(
            ["[", "]", "[EMAIL", "[EMAIL_", "[EMAIL_0123abcd", "arr[i]", "[[", "_", " "]
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
        assert restorer.held == "" or TOKEN_BEGINNING.fullmatch(restorer.held)
        assert len(restorer.held) < MAX_TOKEN


def test_text_that_cannot_become_a_token_is_never_delayed() -> None:
    restorer = StreamRestorer(KNOWN)
    for piece in ("plain ", "x[0] = [a", "]", "[EMAIL-", "[email", "日本語" * 100, "[1", "[A B"):
        assert restorer.feed(piece) == piece


def test_unknown_and_foreign_tokens_stay() -> None:
    text = " ".join([*FOREIGN, "[EMAIL_0123abcd]"])
    assert restore_text(text, KNOWN) == text


def test_a_restored_value_is_not_looked_at_again() -> None:
    inner = OURS.token("EMAIL", "secret")
    outer = OURS.token("EMAIL", "outer")
    assert restore_text(outer, {outer: f"x {inner}", inner: "never"}) == f"x {inner}"
    restorer = StreamRestorer({outer: "[EMAIL_", inner: "never"})
    assert (
        restorer.feed(outer) + restorer.feed(inner[7:]) + restorer.flush() == "[EMAIL_" + inner[7:]
    )
