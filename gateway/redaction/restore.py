"""Putting originals back in place of tokens, in whole texts and in streams.

Pure: `lookup` answers from memory. Invariants: for any chunking the output equals restoring the
whole text; a token the lookup does not know stays as it is; text that cannot become a token is
never held back, and what is held is bounded. Only exact tokens are restored: one in capitals or cut
short stays, for a guess could be another's. The one liberty taken is Markdown's: the backslashes of
`\\[EMAIL_x7k2m9qd\\]` go with the brackets (in JSON a lone backslash before a bracket cannot be).
Stand-ins are looked for only where the policy makes any. A restored value is never looked at again,
so a value that looks like a token cannot pull out another. Text inside a JSON string needs its
originals escaped: there the lookup escapes them, once per string around the token, as the wire
format knows (`gateway.wire.nesting`); what stands behind a stand-in needs none. Used by the
pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from gateway.redaction.stand_ins import MAX_STAND_IN, Shapes
from gateway.redaction.tokens import TOKEN, TOKEN_BEGINNING

Lookup = Callable[[str], str | None]

#: A token, or one whose last bracket is escaped; beginning with a bracket, it is searched fast.
_TOKENS: Final = re.compile(rf"{TOKEN.pattern[:-2]}\\?\]")
#: What the beginning of an escaped one looks like, from its backslash on.
_ESCAPED_BEGINNING: Final = re.compile(rf"\\{TOKEN_BEGINNING.pattern[:-2]}\\?\Z")


def as_lookup(known: Mapping[str, str] | Lookup) -> Lookup:
    """Accept a mapping or a function."""
    return known.get if isinstance(known, Mapping) else known


def restore_text(
    text: str, lookup: Mapping[str, str] | Lookup, shapes: Shapes | None = None
) -> str:
    """Replace every token (and stand-in of `shapes`) `lookup` knows; everything else stays."""
    if shapes is None and "[" not in text:
        return text
    return _restored(text, 0, len(text), as_lookup(lookup), shapes)


class StreamRestorer:
    """Restores plain text that arrives in pieces."""

    __slots__ = ("_before", "_held", "_lookup", "_shapes")

    def __init__(self, lookup: Mapping[str, str] | Lookup, shapes: Shapes | None = None) -> None:
        self._lookup = as_lookup(lookup)
        self._shapes = shapes
        self._held = ""
        #: The character before what is held: whether it may begin a token depends on that.
        self._before = ""

    @property
    def held(self) -> str:
        """What waits for the next piece: the beginning of a possible token, or nothing."""
        return self._held

    def feed(self, piece: str) -> str:
        """Take the next piece; return all text that is final."""
        if not piece:
            return ""
        text = self._before + self._held + piece
        start = len(self._before)
        cut = _token_beginning(text, start)
        if self._shapes is not None:
            cut = _stand_in_beginning(text, start, cut, self._shapes)
        self._held = text[cut:]
        if cut > start:
            self._before = text[cut - 1]
        return _restored(text, start, cut, self._lookup, self._shapes)

    def flush(self) -> str:
        """The text has ended: return what was held, restored where it turned out to be whole."""
        text, start = self._before + self._held, len(self._before)
        self._held = self._before = ""
        return _restored(text, start, len(text), self._lookup, self._shapes)


def _restored(text: str, start: int, end: int, lookup: Lookup, shapes: Shapes | None) -> str:
    """Return `text[start:end]` restored. What stands around it tells what is whole; the caller
    sees to it that nothing recognized goes beyond `end`."""
    if shapes is None and text.find("[", start, end) < 0:
        return text[start:end]
    parts: list[str] = []
    at = start
    for match in _pattern(shapes).finditer(text, start):
        if match.end() > end:
            break
        found, begins = match.group(), match.start()
        if found[-2:] == "\\]":
            begins -= 1
            if not _is_escape(text, begins, start):
                continue
            found = f"{found[:-2]}]"
        value = lookup(found)
        if value is not None:
            parts += (text[at:begins], value)
            at = match.end()
    parts.append(text[at:end])
    return "".join(parts)


@cache
def _pattern(shapes: Shapes | None) -> re.Pattern[str]:
    if shapes is None:
        return _TOKENS
    return re.compile(f"{_TOKENS.pattern}|{shapes.whole.pattern}", re.ASCII)


def _token_beginning(text: str, start: int) -> int:
    """Return where a token may have begun that the next piece ends, or the end of the text."""
    opening = text.rfind("[", start)
    if opening >= 0:
        if TOKEN_BEGINNING.match(text, opening):
            return opening - 1 if _is_escape(text, opening - 1, start) else opening
        if _is_escape(text, opening - 1, start) and _ESCAPED_BEGINNING.match(text, opening - 1):
            return opening - 1
    last = len(text) - 1
    return last if _is_escape(text, last, start) else len(text)


def _is_escape(text: str, at: int, start: int) -> bool:
    """Whether a lone backslash stands there."""
    return at >= start and text[at] == "\\" and (at == 0 or text[at - 1] != "\\")


def _stand_in_beginning(text: str, start: int, cut: int, shapes: Shapes) -> int:
    """The same for stand-ins: `cut`, or what lies before it."""
    window = max(start, len(text) - MAX_STAND_IN - 1)
    if found := shapes.beginning.search(text, window):
        cut = min(cut, found.start())
    for match in shapes.whole.finditer(text, max(start, cut - MAX_STAND_IN)):
        if match.start() < cut < match.end():
            return match.start()
    return cut
