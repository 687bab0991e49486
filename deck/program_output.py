"""What a program says, taken up to a limit and a time: git, and the hooks and filters it starts.

Owns the reading of both its outputs. Invariant: a program that says without end takes no memory
without end: of what is only told to a person the beginning and the end are kept, and where all is
needed, more than the limit is an error. Blocking. `deck.gitrepo` calls it.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections import deque
from typing import IO, Final, Protocol

_CHUNK: Final = 1 << 16


class TooMuch(Exception):
    """The program said more than may be kept."""


class Sink(Protocol):
    """Takes what a program says."""

    def take(self, data: bytes) -> None:
        """Take some more. Raises TooMuch."""

    def said(self) -> bytes:
        """Return what is kept."""


class Whole:
    """Keeps everything, up to a limit in bytes."""

    def __init__(self, limit: int) -> None:
        self._parts: list[bytes] = []
        self._left = limit

    def take(self, data: bytes) -> None:
        """Take some more. Raises TooMuch."""
        self._left -= len(data)
        if self._left < 0:
            raise TooMuch
        self._parts.append(data)

    def said(self) -> bytes:
        """Return all of it."""
        return b"".join(self._parts)


class Ends:
    """Keeps the beginning and the end, at least `limit` bytes of each."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._kept = 0
        self._is_cut = False

    def take(self, data: bytes) -> None:
        """Take some more; what is in the middle goes."""
        room = max(0, self._limit - len(self._head))
        self._head += data[:room]
        if rest := data[room:]:
            self._tail.append(rest)
            self._kept += len(rest)
        while self._kept - len(self._tail[0] if self._tail else b"") > self._limit:
            self._kept -= len(self._tail.popleft())
            self._is_cut = True

    def said(self) -> bytes:
        """Return what is kept, in two parts on lines of their own where something is missing."""
        gap = b"\n[...]\n" if self._is_cut else b""
        return bytes(self._head) + gap + b"".join(self._tail)


def converse(
    process: subprocess.Popen[bytes], stdin: bytes, seconds: float, out: Sink, err: Sink
) -> tuple[bytes, bytes]:
    """Give a program its input, take what it says until it has ended; return what was kept.

    All three of its streams are pipes. Raises TooMuch or subprocess.TimeoutExpired, with the
    program still there to be ended.
    """
    until, left = time.monotonic() + seconds, memoryview(stdin)
    with selectors.DefaultSelector() as selector:
        for stream, sink in ((process.stdout, out), (process.stderr, err)):
            _register(selector, stream, selectors.EVENT_READ, sink)
        _register(selector, process.stdin, selectors.EVENT_WRITE, None)
        while selector.get_map():
            for key, _ in selector.select(_remaining(process, until, seconds)):
                sink = key.data
                if sink is None:
                    left = _give(key.fd, left)
                    over = not left
                else:
                    data = os.read(key.fd, _CHUNK)
                    over = not data
                    sink.take(data)
                if over:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
            _remaining(process, until, seconds)
    process.wait(_remaining(process, until, seconds))
    return out.said(), err.said()


def _register(
    selector: selectors.BaseSelector, stream: IO[bytes] | None, event: int, sink: Sink | None
) -> None:
    assert stream is not None, "all streams are pipes"
    os.set_blocking(stream.fileno(), False)
    selector.register(stream, event, sink)


def _give(descriptor: int, left: memoryview) -> memoryview:
    """Write some of the input and return the rest, nothing once nobody reads it any more."""
    if not left:
        return left
    try:
        return left[os.write(descriptor, left[:_CHUNK]) :]
    except BrokenPipeError:
        return left[:0]


def _remaining(process: subprocess.Popen[bytes], until: float, seconds: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise subprocess.TimeoutExpired(process.args, seconds)
    return left
