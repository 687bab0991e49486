"""Server-sent events: bytes in any chunking to whole events, and back.

Owns the line rules of the event stream format (WHATWG HTML, section 9.2): LF, CRLF or CR line
ends, comments, several `data` lines, a byte order mark at the very start. Each event carries its
raw bytes, and the raw bytes of all events put together are the stream, so an event that needs no
change is passed on untouched. Decoding happens per event, so a split UTF-8 sequence is whole again.
Called by the stream transformers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.wire.base import WireRefused

#: Largest single event held in memory: a provider event is a few KB, a base64 result a few MB.
MAX_EVENT: Final = 64 * 1024 * 1024

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_LINE_ENDS: Final = re.compile(r"\r\n|\n|\r")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event. `event` is empty when no name was sent; `raw` ends with the blank line.

    `data` is None for a block of comments or fields without data.
    """

    event: str
    data: str | None
    id: str | None
    raw: bytes

    def with_data(self, data: str) -> bytes:
        """Return the event's bytes with other data; every other line stays as it is."""
        out: list[bytes] = []
        is_written = False
        for line, end in _lines(self.raw):
            if line.removeprefix(_BYTE_ORDER_MARK).partition(b":")[0] != b"data":
                out += (line, end)
            elif not is_written:
                is_written = True
                out += [b"data: " + new.encode() + end for new in _LINE_ENDS.split(data)]
        return b"".join(out)


def serialise(event: str, data: str, id: str | None = None) -> bytes:
    """Return the bytes of an event; `data` may hold line ends."""
    lines = [f"event: {event}"] if event else []
    if id is not None:
        lines.append(f"id: {id}")
    lines += [f"data: {line}" for line in _LINE_ENDS.split(data)]
    return ("\n".join(lines) + "\n\n").encode()


class SseParser:
    """Feed bytes, read events. Keeps at most one unfinished event."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._line_start = 0
        self._searched = 0
        self._lines: list[bytes] = []
        self._at_start = True
        self._swallow_lf = False
        self._is_crlf = False

    def feed(self, data: bytes) -> list[SseEvent]:
        """Return the events that `data` completes. Raises WireRefused when one is too large."""
        self._buffer += data
        events: list[SseEvent] = []
        while (line := self._next_line()) is not None:
            if line:
                self._lines.append(line)
            else:
                events.append(self._take())
        if len(self._buffer) > MAX_EVENT:
            raise WireRefused(
                "event_too_large", f"The provider sent an event of more than {MAX_EVENT} bytes."
            )
        return events

    def close(self) -> list[SseEvent]:
        """Return the event that the end of the stream leaves without its blank line, if any."""
        rest = bytes(self._buffer[self._line_start :])
        if rest:
            self._lines.append(rest.removesuffix(b"\r"))
        self._line_start = len(self._buffer)
        if self._lines:
            return [self._take()]
        # The second half of a line end whose event has left.
        return [SseEvent("", None, None, bytes(self._buffer))] if self._buffer else []

    def _next_line(self) -> bytes | None:
        if self._swallow_lf and self._line_start < len(self._buffer):
            # The second half of a CRLF that was split between two chunks.
            if self._buffer[self._line_start] == 0x0A:
                self._line_start += 1
                self._is_crlf = True
                self._searched = max(self._searched, self._line_start)
            self._swallow_lf = False
        found = _LINE_END.search(self._buffer, self._searched)
        if found is None:
            self._searched = len(self._buffer)
            return None
        is_cr_last = found.group() == b"\r" and found.end() == len(self._buffer)
        if is_cr_last and self._is_crlf:
            # Half a line end, in all likelihood. Some clients do not take one in two pieces.
            self._searched = found.start()
            return None
        self._is_crlf = found.group() == b"\r\n"
        line = bytes(self._buffer[self._line_start : found.start()])
        if self._at_start:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            self._at_start = False
        self._swallow_lf = is_cr_last
        self._line_start = self._searched = found.end()
        return line

    def _take(self) -> SseEvent:
        raw = bytes(self._buffer[: self._line_start])
        del self._buffer[: self._line_start]
        self._line_start = self._searched = 0
        lines, self._lines = self._lines, []
        return _event(lines, raw)


def _lines(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield each line of an event with its end."""
    at = 0
    for found in _LINE_END.finditer(raw):
        yield raw[at : found.start()], found.group()
        at = found.end()


def _event(lines: list[bytes], raw: bytes) -> SseEvent:
    name, identifier = "", None
    data: list[str] = []
    for line in lines:
        field, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "id" and "\0" not in value:
            identifier = value
    return SseEvent(name, "\n".join(data) if data else None, identifier, raw)
