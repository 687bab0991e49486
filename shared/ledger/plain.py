"""Stored text made fit for people: harmless to a terminal, cut to a length, joined to sentences.

Owns the form in which anything from a record may reach a terminal: nothing that a terminal obeys
and nothing that reverses or hides what is read. Invariant: any value, of any type, becomes text;
nothing here raises. Pure. Called by `words`, `deck_words`, `meaning`, `shared.exports` and
`sphragis log`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shared.ledger.selecting import at

Record = Mapping[str, Any]

#: Longest piece of stored text inside a sentence.
PIECE: Final = 80


def harmless(value: object, limit: int = 0) -> str:
    """Return a value as text that a terminal only shows.

    Every character that Unicode does not call printable (controls, line breaks, what reverses or
    hides text, surrogates, odd spaces) becomes its visible escape; what is longer than `limit`
    (if any) ends in an ellipsis.
    """
    if type(value) is str:
        text = value
    else:
        text = "" if value is None else str(value).lower() if type(value) is bool else str(value)
    if limit and len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escape(one) for one in text)


def _escape(character: str) -> str:
    code = ord(character)
    return (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )


def piece(record: Record, *path: str) -> str:
    """Return what stands at a path of a record, as a short harmless text."""
    value = at(record, *path)
    if isinstance(value, (dict, list)):
        return f"{len(value)} item(s)"
    return harmless(value, PIECE)


def join(*parts: str) -> str:
    """Return the parts that are not empty, a space between."""
    return " ".join(part for part in parts if part)


def given(before: str, value: str) -> str:
    """Return the value behind a word, or nothing for an empty value."""
    return f"{before} {value}" if value else ""


def counted(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def because(reason: str) -> str:
    """Return a reason in brackets, or nothing."""
    return f"({reason})" if reason else ""
