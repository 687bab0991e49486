"""Putting originals back in place of tokens: in whole texts, in streams, in streamed JSON.

Pure: `lookup` answers from memory. Invariants: for any chunking the output equals restoring the whole
text; a token the lookup does not know stays as it is; text that cannot become a token is never
held back, and what is held is at most `MAX_TOKEN` characters. A restored value is never looked at
again, so a value that looks like a token cannot pull out another.
Used by wire stream transformers and by `restore_response`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final

from gateway.redaction.tokens import TOKEN, TOKEN_BEGINNING

Lookup = Callable[[str], str | None]

#: Where an escape, a quote or a token may be: all that matters inside streamed JSON.
_JSON_MARK: Final = re.compile(rf"\\u[0-9a-fA-F]{{4}}|\\.|\"|{TOKEN.pattern}", re.DOTALL)
#: An escape sequence the text ends in the middle of.
_OPEN_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")


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


def restore_argument(text: str, lookup: Mapping[str, str] | Lookup) -> str:
    """Restore one string of a tool's input. A string that holds JSON itself stays valid JSON:
    originals inside its strings are escaped for it."""
    if "[" not in text:
        return text
    if text.lstrip()[:1] not in ("{", "["):
        return restore_text(text, lookup)
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return restore_text(text, lookup)
    return restore_json(text, lookup)


def restore_json(text: str, lookup: Mapping[str, str] | Lookup) -> str:
    """Restore tokens in the text of a JSON document; the result is valid JSON."""
    stream = JsonFragmentRestorer(lookup)
    return stream.feed(text) + stream.flush()


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


class JsonFragmentRestorer:
    """Restores the text of a JSON document that arrives in pieces (`partial_json`, `arguments`).

    An original is escaped for the string it lands in: once in a string of the document, once more
    when that string itself holds a JSON document and the token is in one of its strings.
    """

    def __init__(self, lookup: Mapping[str, str] | Lookup) -> None:
        self._lookup = as_lookup(lookup)
        self._held = ""
        self._place = _JsonPlace()

    @property
    def held(self) -> str:
        """What waits for the next piece."""
        return self._held

    def feed(self, piece: str) -> str:
        """Take the next piece; return all text that is final."""
        text = self._held + piece
        cut = _held_from(text)
        self._held = text[cut:]
        return self._restore(text[:cut])

    def flush(self) -> str:
        """The document has ended: return what was held."""
        held, self._held = self._held, ""
        return held

    def _restore(self, text: str) -> str:
        parts: list[str] = []
        at = 0
        for match in _JSON_MARK.finditer(text):
            mark = match.group()
            self._place.plain(text, at, match.start())
            if mark[0] != "[":
                parts.append(text[at : match.end()])
                self._place.mark(mark)
            else:
                value = self._lookup(mark)
                parts.append(text[at : match.start()])
                parts.append(mark if value is None else self._place.escaped(value))
                self._place.plain(mark, 0, len(mark))
            at = match.end()
        self._place.plain(text, at, len(text))
        parts.append(text[at:])
        return "".join(parts)


def _held_from(text: str) -> int:
    """Where the part begins that must wait: an open escape or a possible token, else the end."""
    escape = _OPEN_ESCAPE.search(text, max(0, len(text) - 6))
    if escape is not None and _is_open(text, escape.start()):
        return escape.start()
    opening = text.rfind("[")
    if opening >= 0 and TOKEN_BEGINNING.match(text, opening):
        return opening
    return len(text)


def _is_open(text: str, backslash: int) -> bool:
    """A backslash starts an escape unless the one before it does (an odd run of them)."""
    before = backslash
    while before > 0 and text[before - 1] == "\\":
        before -= 1
    return (backslash - before) % 2 == 0


class _JsonPlace:
    """Where in a JSON text we are: outside strings, in one, or in a string of a nested document."""

    def __init__(self) -> None:
        self._inside = False
        self._nested: bool | None = None  # None until the string's first character is seen
        self._nested_inside = False
        self._nested_escape = False

    def plain(self, text: str, start: int, end: int) -> None:
        """Text without quotes and escapes."""
        if not self._inside or start == end:
            return
        if self._nested is None:
            stripped = text[start:end].lstrip()
            if stripped:
                self._nested = stripped[0] in "{["
        self._nested_escape = False

    def mark(self, mark: str) -> None:
        """A quote or an escape sequence."""
        if mark == '"':
            self._inside = not self._inside
            self._nested = None
            self._nested_inside = self._nested_escape = False
            return
        if not self._inside:
            return
        if self._nested is None and mark not in ("\\n", "\\t", "\\r"):
            self._nested = False
        if not self._nested:
            return
        if self._nested_escape:
            self._nested_escape = False
        elif mark == '\\"':
            self._nested_inside = not self._nested_inside
        elif mark == "\\\\":
            self._nested_escape = self._nested_inside

    def escaped(self, value: str) -> str:
        """Return `value` as it must be written here."""
        if self._inside and self._nested and self._nested_inside:
            value = _json_escaped(value)
        return _json_escaped(value)


def _json_escaped(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]
