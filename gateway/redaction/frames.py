"""Messages between the gateway and its scanning workers: a JSON head and raw bytes, both counted.

No pickle, so that neither side can be made to run what the other sends. Owns the counts and the
worker's side, which blocks and needs no event loop: a worker does not load what a loop is made of.
The gateway's side is `channel`.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Final

import orjson

#: Bytes of the head and of the body, in front of both.
COUNTS: Final = struct.Struct(">IQ")
#: Heads hold originals and header values; bodies are limited where they are decoded.
MAX_HEAD: Final = 256 * 1024 * 1024
MAX_BODY: Final = 1024 * 1024 * 1024
#: Messages up to this size are received together with what follows them.
SMALL: Final = 1 << 16


class FramesEnded(Exception):
    """The other side is gone."""


class Frames:
    """The worker's side of one connection: blocks, and takes all that has come with one call."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = bytearray(SMALL)
        #: Where in the buffer the next message begins, and where what has come ends.
        self._at = self._end = 0

    def send(self, head: dict[str, Any], body: bytes = b"") -> None:
        """Send one message. Raises FramesEnded."""
        encoded = orjson.dumps(head)
        start = COUNTS.pack(len(encoded), len(body)) + encoded
        try:
            if len(body) < SMALL:
                self._sock.sendall(start + body)
            else:
                self._sock.sendall(start)
                self._sock.sendall(body)
        except OSError as error:
            raise FramesEnded from error

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """Wait for one message. Raises FramesEnded; TimeoutError where the socket has a timeout."""
        while self._end - self._at < COUNTS.size:
            self._more()
        head_size, body_size = COUNTS.unpack_from(self._buffer, self._at)
        if head_size > MAX_HEAD or body_size > MAX_BODY:
            raise FramesEnded
        self._at += COUNTS.size
        head = orjson.loads(self._take(head_size))
        return head, self._take(body_size)

    def _take(self, size: int) -> bytes:
        have = min(size, self._end - self._at)
        first = bytes(memoryview(self._buffer)[self._at : self._at + have])
        self._at += have
        if have == size:
            return first
        whole = bytearray(size)
        whole[:have] = first
        view = memoryview(whole)
        while have < size:
            have += self._read_into(view[have:])
        return bytes(whole)

    def _more(self) -> None:
        """Read on behind what is left, which is moved to the front."""
        left = self._end - self._at
        self._buffer[:left] = self._buffer[self._at : self._end]
        self._at, self._end = 0, left
        self._end += self._read_into(memoryview(self._buffer)[left:])

    def _read_into(self, view: memoryview) -> int:
        try:
            got = self._sock.recv_into(view)
        except TimeoutError:
            raise
        except OSError as error:
            raise FramesEnded from error
        if not got:
            raise FramesEnded
        return got
