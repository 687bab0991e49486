"""What a terminal agent does with the bytes typed at it: one line editor, no I/O.

Owns the demo agent's input: echo, Enter, erase, bracketed paste (a pasted newline stays text) and
escape sequences that mean nothing here. Bytes in, echo and finished lines out, in any chunking.
Called by the demo agent's loop.
"""

from __future__ import annotations

import codecs
import enum
from dataclasses import dataclass, field
from typing import Final

PASTE_BEGINS: Final = "\x1b[200~"
PASTE_ENDS: Final = "\x1b[201~"


class EndOfInput(Exception):
    """The user closed the conversation (Ctrl-D on an empty line)."""


class _Mode(enum.Enum):
    TYPED = enum.auto()
    PASTED = enum.auto()


@dataclass(slots=True)
class LineEditor:
    """The line being typed. `feed` returns what to echo and the lines that were entered."""

    _text: str = ""
    _mode: _Mode = _Mode.TYPED
    _escape: str = ""
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    def feed(self, data: bytes) -> tuple[str, list[str]]:
        """Take typed bytes; return (echo, entered lines). Raises EndOfInput on Ctrl-D."""
        echo: list[str] = []
        lines: list[str] = []
        for char in self._decoder.decode(data):
            if self._escape or char == "\x1b":
                self._take_escape(char)
            elif char in "\r\n" and self._mode is _Mode.TYPED:
                if self._text.strip():
                    lines.append(self._text)
                    echo.append("\n")
                self._text = ""
            else:
                echo.append(self._take(char))
        return "".join(echo), lines

    def _take_escape(self, char: str) -> None:
        self._escape += char
        if self._escape == PASTE_BEGINS:
            self._mode = _Mode.PASTED
        elif self._escape == PASTE_ENDS:
            self._mode = _Mode.TYPED
        elif len(self._escape) == 2 and char not in "[O":
            self._escape = ""
            return
        ended = len(self._escape) > 2 and "@" <= char <= "~"
        if ended or len(self._escape) > 32:
            self._escape = ""

    def _take(self, char: str) -> str:
        if self._mode is _Mode.PASTED and char in "\r\n":
            self._text += "\n"
            return "\n"
        if char == "\x04" and not self._text:
            raise EndOfInput
        if char in "\x15\x03":
            erased, self._text = len(self._text), ""
            return "\b \b" * erased
        if char in "\x7f\b":
            if not self._text:
                return ""
            self._text = self._text[:-1]
            return "\b \b"
        if char < " " and char != "\t":
            return ""
        self._text += char
        return char
