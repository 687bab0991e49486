"""Bytes of a terminal to tokens: text, controls, escape, CSI and string sequences. Pure.

Owns the grammar of ECMA-48 as terminals really speak it: private prefixes and intermediates, string
states (OSC, DCS, APC, PM, SOS) with length bounds, CAN, SUB and ESC abort whatever is under way.
Invariants: `feed` never raises; however the bytes are split, the sink sees the same characters in
the same order (text and controls may arrive in smaller pieces); memory is bounded. Called by
`screen`.
"""

from __future__ import annotations

import codecs
import re
from enum import Enum
from typing import Final, Protocol

# Longer bodies are read to their end and dropped. No real sequence comes near either.
CSI_LIMIT: Final = 256
ESC_LIMIT: Final = 8
# A string is kept up to here (OSC 52 and titles fit; images do not) and swallowed beyond it; after
# the second bound an unterminated string is given up, so that text is not lost for ever.
STRING_LIMIT: Final = 8192
STRING_ABANDON: Final = 4 * 1024 * 1024


class Sink(Protocol):
    """Receives tokens. Bodies are what stands between introducer and terminator."""

    def text(self, run: str) -> None:
        """Printable characters, zero-width ones included."""

    def controls(self, run: str) -> None:
        """One or more C0 or C1 control characters (never ESC)."""

    def escape(self, body: str) -> None:
        """Intermediates and final of an escape sequence."""

    def csi(self, body: str) -> None:
        """Prefix, parameters, intermediates and final of a control sequence; always well formed."""

    def string(self, kind: str, body: str) -> None:
        """A complete string; kind is `]` (OSC), `P` (DCS), `_` (APC), `^` (PM) or `X` (SOS)."""


# The whole of ordinary output in one pass of the regex engine. The last group takes everything from
# the first sequence that is incomplete or unusual; the state machine below reads that one sequence.
_FAST = re.compile(
    r"([^\x00-\x1f\x7f-\x9f]+)"
    r"|([\x00-\x1a\x1c-\x1f\x7f-\x9f]+)"
    r"|\x1b\[([<-?]?[0-9:;]*[ -/]*[@-~])"
    r"|\x1b\]([^\x00-\x1f\x7f-\x9f]{0,4096})(?:\x07|\x1b\\)"
    r"|\x1b([ -/]*[0-OQ-WYZ`-~])"
    r"|(\x1b[\s\S]*)"
)
_CSI_SHAPE = re.compile(r"[<-?]?[0-9:;]*[ -/]*[@-~]")
_STRING_STOP: Final = {
    "]": re.compile(r"[\x07\x18\x1a\x1b\x9c]"),
    "P": re.compile(r"[\x18\x1a\x1b\x9c]"),
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class _State(Enum):
    GROUND = 0
    ESCAPE = 1
    CSI = 2
    STRING = 3
    STRING_ESCAPE = 4


class Tokenizer:
    """The incremental reader of one terminal's output."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._state = _State.GROUND
        self._body = ""
        self._kind = ""
        self._pieces: list[str] = []
        self._kept = 0
        self._swallowed = 0

    def feed(self, data: bytes) -> None:
        """Read the next bytes. Any bytes, any split."""
        text = self._decoder.decode(data)
        position = 0
        while position < len(text):
            if self._state is _State.GROUND:
                position = self._ground(text, position)
            elif self._state is _State.STRING:
                position = self._string(text, position)
            else:
                self._one(text[position])
                position += 1

    # -- ordinary output

    def _ground(self, text: str, position: int) -> int:
        sink = self._sink
        part = text if position == 0 else text[position:]
        for run, control, csi, osc, escape, rest in _FAST.findall(part):
            if run:
                sink.text(run)
            elif csi:
                if len(csi) <= CSI_LIMIT:
                    sink.csi(csi)
            elif control:
                sink.controls(control)
            elif escape:
                if len(escape) <= ESC_LIMIT:
                    sink.escape(escape)
            elif rest:
                self._state = _State.ESCAPE
                self._body = ""
                return len(text) - len(rest) + 1
            else:
                sink.string("]", osc)
        return len(text)

    # -- one sequence, character by character

    def _one(self, c: str) -> None:
        if self._state is _State.STRING_ESCAPE:
            if c == "\\":
                self._end_string()
                return
            # ESC ends a string that was not terminated; what follows is a sequence of its own.
            self._state, self._body = _State.ESCAPE, ""
            self._pieces.clear()
        if c == "\x1b":
            self._state, self._body = _State.ESCAPE, ""
        elif c in "\x18\x1a":
            self._state = _State.GROUND
        elif c < "\x20" or c == "\x7f":
            if c != "\x7f":
                self._sink.controls(c)  # a control inside a sequence acts at once
        elif c > "\x7f":
            self._state = _State.GROUND
            (self._sink.controls if c < "\xa0" else self._sink.text)(c)
        elif self._state is _State.ESCAPE:
            self._escape(c)
        else:
            self._csi(c)

    def _escape(self, c: str) -> None:
        if not self._body and c == "[":
            self._state = _State.CSI
            return
        if not self._body and c in "]PX^_":
            self._state, self._kind = _State.STRING, c
            self._pieces.clear()
            self._kept = self._swallowed = 0
            return
        if len(self._body) <= ESC_LIMIT:
            self._body += c
        if c >= "0":
            self._state = _State.GROUND
            if len(self._body) <= ESC_LIMIT:
                self._sink.escape(self._body)

    def _csi(self, c: str) -> None:
        if len(self._body) <= CSI_LIMIT:
            self._body += c
        if c >= "@":
            self._state = _State.GROUND
            if len(self._body) <= CSI_LIMIT and _CSI_SHAPE.fullmatch(self._body):
                self._sink.csi(self._body)

    # -- strings

    def _string(self, text: str, position: int) -> int:
        stop = _STRING_STOP.get(self._kind, _STRING_STOP["P"]).search(text, position)
        end = stop.start() if stop else len(text)
        room = STRING_ABANDON - self._swallowed
        if end - position > room:
            self._state = _State.GROUND
            self._pieces.clear()
            return position + room
        if end > position:
            self._swallow(text[position:end])
        if stop is None:
            return end
        c = stop.group()
        if c == "\x1b":
            self._state = _State.STRING_ESCAPE
        elif c in "\x18\x1a":
            self._state = _State.GROUND
            self._pieces.clear()
        else:
            self._end_string()
        return end + 1

    def _swallow(self, piece: str) -> None:
        self._swallowed += len(piece)
        if self._kept <= STRING_LIMIT:
            self._pieces.append(piece)
            self._kept += len(piece)

    def _end_string(self) -> None:
        self._state = _State.GROUND
        body = _CONTROL.sub("", "".join(self._pieces))
        self._pieces.clear()
        if self._kept <= STRING_LIMIT:
            self._sink.string(self._kind, body)
