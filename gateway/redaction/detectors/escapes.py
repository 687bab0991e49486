"""Reading through escapes: `\\n+44 20 …` in source code, `%0A` in a URL, `&#64;` in a page.

A value often stands in a text inside a text, where the last letter of an escape touches it and
hides where it begins, or where one of its own characters is written as an escape. `read_through`
gives the text as its reader will see it, and the way back from there. Invariants: pure and linear;
every span that comes back covers whole escapes, so what surrounds it stays as well-formed as it
was; only ASCII characters are decoded, nothing is decoded twice. Called by the engine.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Final

from gateway.redaction.spans import Span

#: Any number of backslashes: each level of quoting doubles them.
_ESCAPE: Final = re.compile(
    r"\\+(?:u00(?P<u>[0-7][0-9a-fA-F])|x(?P<x>[0-7][0-9a-fA-F])|(?P<letter>[nrtbfv]))"
    r"|%(?P<percent>[0-7][0-9a-fA-F])"
    r"|&(?:#(?P<decimal>\d{1,3})|#[xX](?P<hex>[0-7]?[0-9a-fA-F])"
    r"|(?P<name>amp|quot|apos|lt|gt|nbsp|commat|plus));"
)
_LETTERS: Final = {"n": "\n", "r": "\r", "t": "\t", "b": " ", "f": " ", "v": " "}
_NAMES: Final = {
    "amp": "&",
    "quot": '"',
    "apos": "'",
    "lt": "<",
    "gt": ">",
    "nbsp": " ",
    "commat": "@",
    "plus": "+",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """A text with its escapes read. `_ends[i]` and `_shifts[i]`: from the view's offset `_ends[i]`
    on, the original is `_shifts[i]` characters further."""

    text: str
    _ends: tuple[int, ...]
    _shifts: tuple[int, ...]

    def back(self, span: Span) -> Span:
        """Return the span in the original text; escapes at its edges belong to it."""
        return replace(span, start=self._original(span.start), end=self._original(span.end))

    def _original(self, offset: int) -> int:
        index = bisect_right(self._ends, offset) - 1
        return offset + (self._shifts[index] if index >= 0 else 0)


def read_through(text: str) -> Reading | None:
    """Return the text with its escapes read, or None when there are none."""
    if "\\" not in text and "%" not in text and "&" not in text:
        return None
    parts: list[str] = []
    ends: list[int] = []
    shifts: list[int] = []
    at = length = 0
    for found in _ESCAPE.finditer(text):
        char = _decoded(found)
        if char is None:
            continue
        parts += (text[at : found.start()], char)
        at = found.end()
        length += len(parts[-2]) + 1
        ends.append(length)
        shifts.append(at - length)
    if not parts:
        return None
    parts.append(text[at:])
    return Reading("".join(parts), tuple(ends), tuple(shifts))


def _decoded(found: re.Match[str]) -> str | None:
    if letter := found["letter"]:
        return _LETTERS[letter]
    if name := found["name"]:
        return _NAMES[name]
    if decimal := found["decimal"]:
        code = int(decimal)
    else:
        code = int(found["u"] or found["x"] or found["percent"] or found["hex"], 16)
    if code in (0x09, 0x0A, 0x0D) or 0x20 <= code < 0x7F:
        return chr(code)
    return None
