"""A streamed JSON array: bytes in any chunking to its elements, and back.

Owns the brackets and commas of one array whose elements arrive one by one (Gemini without
`alt=sse`). Each frame is an element with what stands before it, so that the raw bytes of all frames
are the stream; an element leaves as soon as its last byte is here. A new element needs a comma,
which is right because elements are only ever added after the first one was sent. A stream that is a
single object is taken for one element. Called by the stream transformers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.wire.base import WireRefused
from gateway.wire.sse import MAX_EVENT
from gateway.wire.stream import Frame
from gateway.wire.strictjson import read_answer, write_answer

#: What changes the depth of an element, or opens a string in it.
_STRUCTURE: Final = re.compile(rb'["{}\[\],]')
#: The three bytes that some servers begin with.
_BYTE_ORDER_MARK: Final = "\xef\xbb\xbf"
#: What ends a string, or escapes the byte after it.
_IN_STRING: Final = re.compile(rb'["\\]')


@dataclass(frozen=True, slots=True)
class ArrayFrame:
    """An element and the bytes before it, or such bytes alone."""

    lead: bytes
    text: bytes = b""
    document: Any = None

    @property
    def raw(self) -> bytes:
        """The bytes as they came."""
        return self.lead + self.text

    def rewritten(self, document: Any) -> bytes:
        """Return the bytes with another element."""
        return self.lead + write_answer(document)

    @property
    def plain(self) -> str | None:
        """None: what is no document here are brackets and space."""
        return None

    def retold(self, text: str) -> bytes:
        """Return the bytes as they came: they hold no text."""
        return self.raw


class JsonArrayFraming:
    """Feed bytes, read elements. Keeps at most one unfinished element."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0  # everything before was looked at
        self._start = -1  # of the element being read
        self._depth = 0
        self._in_string = False
        self._is_open = False
        #: True once the array, or the only object, has ended.
        self.closed = False
        #: True when the stream is one object and no array.
        self.single = False

    def feed(self, data: bytes) -> Sequence[Frame]:
        """Return the elements that `data` completes. Raises WireRefused for what is no array of
        JSON and for an element that is too large."""
        self._buffer += data
        frames: list[Frame] = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        if len(self._buffer) > MAX_EVENT:
            raise WireRefused(
                "event_too_large", f"The provider sent an element of more than {MAX_EVENT} bytes."
            )
        return frames

    def close(self) -> Sequence[Frame]:
        """Return nothing: an element or array cut off by the end is not whole."""
        return ()

    def write(self, document: Any) -> bytes:
        """Return a new element, to follow one that was sent."""
        return b"," + write_answer(document)

    def _next(self) -> Frame | None:
        if self._start < 0 and not self._begin():
            return self._rest() if self.closed else None
        return self._element()

    def _begin(self) -> bool:
        """Go to the first byte of the next element; False when it is not here."""
        while self._at < len(self._buffer):
            char = chr(self._buffer[self._at])
            if char in " \t\r\n" or (self._is_open and not self.closed and char == ","):
                pass
            elif not self._is_open and char in _BYTE_ORDER_MARK:
                pass  # in pieces, as it may come
            elif self.closed or (not self._is_open and char not in "[{"):
                raise _no_array()
            elif char == "]":
                self.closed = True
            elif self._is_open or char == "{":
                self.single = self.single or not self._is_open
                self._is_open = True
                return self._open()
            else:
                self._is_open = True
            self._at += 1
        return False

    def _open(self) -> bool:
        self._start = self._at
        self._depth = 0
        return True

    def _element(self) -> Frame | None:
        """Read on in the element; return it when its end is here."""
        while True:
            pattern = _IN_STRING if self._in_string else _STRUCTURE
            found = pattern.search(self._buffer, self._at)
            if found is None:
                self._at = len(self._buffer)
                return None
            char, after = found.group(), found.end()
            if char == b"\\":
                if after == len(self._buffer):
                    self._at = found.start()
                    return None
                self._at = after + 1
                continue
            if self._depth == 0 and not self._in_string and char in b",]":
                return self._take(found.start())  # the end of a number or word
            self._at = after
            if char == b'"':
                self._in_string = not self._in_string
            elif char in b"{[":
                self._depth += 1
            elif char in b"}]":
                self._depth -= 1
            if self._depth <= 0 and not self._in_string and char != b",":
                return self._take(after)

    def _take(self, end: int) -> Frame:
        lead, text = bytes(self._buffer[: self._start]), bytes(self._buffer[self._start : end])
        del self._buffer[:end]
        self._at, self._start = 0, -1
        self.closed = self.single
        try:
            return ArrayFrame(lead, text, read_answer(text))
        except WireRefused:
            return ArrayFrame(lead, text)

    def _rest(self) -> Frame | None:
        """Return the closing bracket and white space after it."""
        if not self._buffer:
            return None
        frame = ArrayFrame(bytes(self._buffer))
        self._buffer.clear()
        self._at = 0
        return frame


def _no_array() -> WireRefused:
    return WireRefused("json_array", "The provider's stream is not an array of JSON objects.")
