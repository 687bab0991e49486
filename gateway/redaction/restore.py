"""Putting originals back in place of tokens, in whole texts and in streams.

Pure: `lookup` answers from memory. Invariants: for any chunking the output equals restoring the
whole text; a token the lookup does not know stays as it is; text that cannot become a token is
never held back, and what is held is at most `MAX_TOKEN` characters. A restored value is never
looked at again, so a value that looks like a token cannot pull out another. Text inside a JSON
string needs its originals escaped: there the lookup escapes them, once per string around the
token, as the wire format knows (`gateway.wire.nesting`). Used by the pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gateway.redaction.tokens import TOKEN, TOKEN_BEGINNING

Lookup = Callable[[str], str | None]


def as_lookup(known: Mapping[str, str] | Lookup) -> Lookup:
    """Accept a mapping or a function."""
    return known.get if isinstance(known, Mapping) else known


def restore_text(text: str, lookup: Mapping[str, str] | Lookup) -> str:
    """Replace every token `lookup` knows by its original; everything else stays."""
    if "[" not in text:
        return text
    find = as_lookup(lookup)

    def original(match: re.Match[str]) -> str:
        value = find(match.group())
        return match.group() if value is None else value

    return TOKEN.sub(original, text)


class StreamRestorer:
    """Restores plain text that arrives in pieces."""

    def __init__(self, lookup: Mapping[str, str] | Lookup) -> None:
        self._lookup = as_lookup(lookup)
        self._held = ""

    @property
    def held(self) -> str:
        """What waits for the next piece: the beginning of a possible token, or nothing."""
        return self._held

    def feed(self, piece: str) -> str:
        """Take the next piece; return all text that is final."""
        text = self._held + piece
        self._held = ""
        if "[" not in text:
            return text
        opening = text.rfind("[")
        if TOKEN_BEGINNING.match(text, opening):
            self._held = text[opening:]
            text = text[:opening]
        return restore_text(text, self._lookup)

    def flush(self) -> str:
        """The text has ended: return what was held, as it is."""
        held, self._held = self._held, ""
        return held
