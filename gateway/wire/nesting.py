"""How deep inside JSON strings a position of a growing text is: the escaping an insert needs.

A model writes tool arguments as JSON, and often writes JSON inside a string of it. An original put
there must be escaped once per enclosing string literal, and a stream shows only what came so far.
Owns an incremental reader of JSON prefixes, one per level; a level whose text stops being JSON is
dropped and counts for nothing. Pure state; called by the stream transformers.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from gateway.wire.strictjson import escape

_PLAIN: Final = re.compile(r'[^"\\]+')
_SPACE: Final = " \t\r\n"
_SCALAR: Final = frozenset("-+.0123456789eEtrufalsn")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}

#: Levels followed; each one doubles the backslashes of the level above.
_MAX_LEVELS: Final = 12


def escaped(text: str, depth: int) -> str:
    """Return `text` as it must be written inside `depth` nested JSON string literals."""
    for _ in range(depth):
        text = escape(text)
    return text


#: An escape of a JSON string: one that spells out an ASCII character, one that the next piece of
#: the text may make such, or any other.
_ESCAPE: Final = re.compile(
    r"\\u00([3-7][0-9A-Fa-f])|(\\(?:u(?:0(?:0[3-7]?)?)?)?\Z)|\\.", re.DOTALL
)
#: What tokens are made of: `\u005b` for a bracket says the same, to everyone but a search.
_OF_TOKENS: Final = re.compile(r"[][A-Za-z0-9_]")


class PlainSpelling:
    """Writes the characters of tokens plainly where a JSON text that comes in pieces spells them
    as escapes; nothing else changes, and no reader of the JSON sees a difference."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        #: The beginning of an escape that the next piece ends.
        self.held = ""

    def feed(self, piece: str) -> str:
        """Take the next piece; return what is final."""
        if not self.held and "\\" not in piece:
            return piece
        text, self.held = self.held + piece, ""
        return _ESCAPE.sub(self._spelled, text)

    def flush(self) -> str:
        """The text has ended: return what was held."""
        held, self.held = self.held, ""
        return held

    def _spelled(self, found: re.Match[str]) -> str:
        escape_ = found.group()
        if found[1] is not None:
            char = chr(int(found[1], 16))
            return char if _OF_TOKENS.match(char) else escape_
        if found[2] is not None:
            self.held = escape_
            return ""
        return escape_


def rest_of_escape(text: str) -> str:
    """Return `text`, part of a JSON string, as what follows on a backslash that is already out."""
    if text[0] == "\\":
        return text[1:]
    units = text[0].encode("utf-16-be", "surrogatepass")
    escapes = [f"u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
    return "\\".join(escapes) + text[1:]


def plainly_spelled(text: str) -> str:
    """Return a whole JSON text with the characters of tokens written plainly."""
    if "\\u00" not in text:
        return text
    spelling = PlainSpelling()
    return spelling.feed(text) + spelling.flush()


class _At(Enum):
    START = auto()  # of a text that is JSON only if it opens an object or array
    VALUE = auto()
    VALUE_OR_END = auto()
    KEY = auto()
    KEY_OR_END = auto()
    COLON = auto()
    AFTER = auto()
    SCALAR = auto()
    STRING = auto()
    ESCAPE = auto()
    UNICODE = auto()
    DONE = auto()
    BROKEN = auto()


class JsonPrefix:
    """Follows one JSON text; `depth` is the number of string literals open at its end."""

    __slots__ = ("_at", "_child", "_hex", "_is_key", "_level", "_stack", "_strict")

    def __init__(self, *, must_be_json: bool, level: int = 0) -> None:
        """`must_be_json`: the text is known to be JSON (tool arguments), whatever it opens with."""
        self._strict = must_be_json
        self._at = _At.VALUE if must_be_json else _At.START
        self._stack: list[str] = []
        self._child: JsonPrefix | None = None
        self._is_key = False
        self._hex = ""
        self._level = level

    @property
    def broken(self) -> bool:
        """True when the text turned out not to be JSON."""
        return self._at is _At.BROKEN

    @property
    def depth(self) -> int:
        """Number of times an original inserted here must be JSON-escaped."""
        if self._at in (_At.STRING, _At.ESCAPE, _At.UNICODE):
            return 1 + (self._child.depth if self._child else 0)
        # Known to be JSON and yet unreadable: escaping once is the only safe guess.
        return 1 if self._strict and self.broken else 0

    def feed(self, text: str) -> None:
        """Take more of the text."""
        position = 0
        while position < len(text) and self._at is not _At.BROKEN:
            if self._at is _At.STRING:
                run = _PLAIN.match(text, position)
                if run is not None:
                    self._content(run.group())
                    position = run.end()
                    continue
            self._take(text[position])
            position += 1

    def _take(self, char: str) -> None:
        at = self._at
        if at is _At.STRING:
            self._close_string() if char == '"' else self._move(_At.ESCAPE)
        elif at is _At.ESCAPE:
            self._escape(char)
        elif at is _At.UNICODE:
            self._unicode(char)
        elif at is _At.SCALAR and char in _SCALAR:
            return
        elif char in _SPACE:
            if at is _At.SCALAR:
                self._after()
        else:
            self._structure(char)

    def _structure(self, char: str) -> None:
        at = self._at
        if at is _At.SCALAR:
            self._after()
            at = self._at
        if at is _At.DONE and not self._strict:
            at = _At.START  # JSON lines: one text after the other
        values = (_At.VALUE, _At.VALUE_OR_END, _At.START)
        if char in "{[" and at in values:
            self._stack.append(char)
            self._move(_At.KEY_OR_END if char == "{" else _At.VALUE_OR_END)
        elif at is _At.START:
            self._move(_At.BROKEN)
        elif char == '"' and at in (*values, _At.KEY, _At.KEY_OR_END):
            self._open_string(is_key=at in (_At.KEY, _At.KEY_OR_END))
        elif char == ":" and at is _At.COLON:
            self._move(_At.VALUE)
        elif char == "," and at is _At.AFTER:
            self._move(_At.KEY if self._stack[-1] == "{" else _At.VALUE)
        elif (char == "}" and self._may_end("{", _At.KEY_OR_END)) or (
            char == "]" and self._may_end("[", _At.VALUE_OR_END)
        ):
            self._stack.pop()
            self._after()
        elif char in _SCALAR and at in values:
            self._move(_At.SCALAR)
        else:
            self._move(_At.BROKEN)

    def _may_end(self, opener: str, empty: _At) -> bool:
        return self._stack[-1:] == [opener] and self._at in (_At.AFTER, empty)

    def _open_string(self, *, is_key: bool) -> None:
        self._is_key = is_key
        nested = not is_key and self._level < _MAX_LEVELS
        self._child = JsonPrefix(must_be_json=False, level=self._level + 1) if nested else None
        self._move(_At.STRING)

    def _close_string(self) -> None:
        self._child = None
        if self._is_key:
            self._move(_At.COLON)
        else:
            self._after()

    def _content(self, decoded: str) -> None:
        if self._child is not None:
            self._child.feed(decoded)
            if self._child.broken:
                self._child = None

    def _escape(self, char: str) -> None:
        if char == "u":
            self._hex = ""
            self._move(_At.UNICODE)
            return
        self._move(_At.STRING)
        self._content(_ESCAPES.get(char, char))

    def _unicode(self, char: str) -> None:
        self._hex += char
        if len(self._hex) == 4:
            self._move(_At.STRING)
            try:
                self._content(chr(int(self._hex, 16)))
            except ValueError:
                self._move(_At.BROKEN)

    def _after(self) -> None:
        self._move(_At.AFTER if self._stack else _At.DONE)

    def _move(self, at: _At) -> None:
        self._at = at
