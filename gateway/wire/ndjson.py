"""Newline-delimited JSON: a stream in which each line is one document.

Owns the cutting of bytes in any chunking into lines. Each frame carries its raw bytes, line end
included, and those of all frames together are the stream, so a line that needs no change is passed
on untouched. A line that is no document (an empty one) has none and passes as it came.
Called by the stream transformers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.wire.base import WireRefused
from gateway.wire.sse import MAX_EVENT
from gateway.wire.stream import Frame
from gateway.wire.strictjson import read_answer, write_answer


@dataclass(frozen=True, slots=True)
class NdjsonFrame:
    """A line with its end."""

    raw: bytes
    document: Any

    def rewritten(self, document: Any) -> bytes:
        """Return the line with another document in it."""
        return write_answer(document) + self._end

    @property
    def plain(self) -> str | None:
        """The line, when it is no document."""
        line = self.raw.removesuffix(self._end)
        return line.decode("utf-8", "replace") if self.document is None else None

    def retold(self, text: str) -> bytes:
        """Return the line with another text in it."""
        return text.encode() + self._end

    @property
    def _end(self) -> bytes:
        return b"\r\n" if self.raw.endswith(b"\r\n") else b"\n"


class NdjsonFraming:
    """Feed bytes, read lines. Keeps at most one unfinished line."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> Sequence[Frame]:
        """Return the lines that `data` completes. Raises WireRefused when one is too large."""
        self._buffer += data
        frames: list[Frame] = []
        while (end := self._buffer.find(b"\n", self._searched)) >= 0:
            raw = bytes(self._buffer[: end + 1])
            del self._buffer[: end + 1]
            self._searched = 0
            frames.append(NdjsonFrame(raw, _document(raw)))
        self._searched = len(self._buffer)
        if len(self._buffer) > MAX_EVENT:
            raise WireRefused(
                "event_too_large", f"The provider sent a line of more than {MAX_EVENT} bytes."
            )
        return frames

    def close(self) -> Sequence[Frame]:
        """Return a last line without its end, if it is a whole document."""
        raw, self._buffer, self._searched = bytes(self._buffer), bytearray(), 0
        document = _document(raw)
        return [] if document is None else [NdjsonFrame(raw, document)]

    def write(self, document: Any) -> bytes:
        """Return a new line."""
        return write_answer(document) + b"\n"


def _document(raw: bytes) -> Any:
    if not raw.strip():
        return None
    try:
        return read_answer(raw)
    except WireRefused:
        return None
