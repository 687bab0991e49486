"""Messages between the gateway and its scanning workers: a JSON head and raw bytes, both counted.

No pickle, so that neither side can be made to run what the other sends. `Channel` is the gateway's
side, on its event loop: it never blocks, and a large body is received into one buffer. `Frames` is
the worker's side and blocks.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

import orjson

_COUNTS: Final = struct.Struct(">IQ")
#: Heads hold originals and header values; bodies are limited where they are decoded.
_MAX_HEAD: Final = 256 * 1024 * 1024
_MAX_BODY: Final = 1024 * 1024 * 1024


#: Messages up to this size are received together with what follows them.
_SMALL: Final = 1 << 16


class FramesEnded(Exception):
    """The other side is gone."""


class Channel(asyncio.BufferedProtocol):
    """One connection to a worker; `received(head, body)` is told of each message, `lost()` once.

    Heads are handed out as bytes: a very large one is not for the loop to parse.
    """

    def __init__(self, received: Callable[[bytes, bytes], None], lost: Callable[[], None]) -> None:
        self._received = received
        self._lost = lost
        self._transport: Any = None
        self._small = bytearray(_SMALL)
        self._large: bytearray | None = None
        self._head_size = 0
        self._at = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the owner."""
        self._lost()

    def send(self, head: dict[str, Any], body: bytes = b"") -> None:
        """Send one message, or let it go when the other side is gone (`lost` follows).

        Raises TypeError when `head` cannot be written as JSON; then nothing was sent.
        """
        encoded = orjson.dumps(head)
        start = _COUNTS.pack(len(encoded), len(body)) + encoded
        if len(body) < _SMALL:
            self._transport.write(start + body)
        else:
            self._transport.write(start)
            self._transport.write(body)

    def close(self) -> None:
        """End the connection at once."""
        self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Give the loop the place for what comes next."""
        return memoryview(self._small if self._large is None else self._large)[self._at :]

    def buffer_updated(self, nbytes: int) -> None:
        """Take in what came."""
        self._at += nbytes
        if self._large is None:
            self._take_small()
        elif self._at == len(self._large):
            whole = memoryview(self._large)
            self._large, self._at = None, 0
            self._received(bytes(whole[: self._head_size]), bytes(whole[self._head_size :]))

    def _take_small(self) -> None:
        """Hand out the whole messages of the small buffer; move a larger one to its own."""
        begin, have = 0, self._at
        while have - begin >= _COUNTS.size:
            head_size, body_size = _COUNTS.unpack_from(self._small, begin)
            if head_size > _MAX_HEAD or body_size > _MAX_BODY:
                self._transport.abort()
                return
            start = begin + _COUNTS.size
            size = head_size + body_size
            if start + size > have:
                if _COUNTS.size + size > _SMALL:
                    self._large = bytearray(size)
                    self._large[: have - start] = self._small[start:have]
                    self._head_size, self._at = head_size, have - start
                    return
                break
            view = self._small[start : start + size]
            begin = start + size
            self._received(bytes(view[:head_size]), bytes(view[head_size:]))
        # What is left is the beginning of a message, and the buffer must never be full.
        self._small[: have - begin] = self._small[begin:have]
        self._at = have - begin


class Frames:
    """The worker's side of one connection: blocks, and takes all that has come with one call."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = bytearray(_SMALL)
        #: Where in the buffer the next message begins, and where what has come ends.
        self._at = self._end = 0

    def send(self, head: dict[str, Any], body: bytes = b"") -> None:
        """Send one message. Raises FramesEnded."""
        encoded = orjson.dumps(head)
        start = _COUNTS.pack(len(encoded), len(body)) + encoded
        try:
            if len(body) < _SMALL:
                self._sock.sendall(start + body)
            else:
                self._sock.sendall(start)
                self._sock.sendall(body)
        except OSError as error:
            raise FramesEnded from error

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """Wait for one message. Raises FramesEnded; TimeoutError where the socket has a timeout."""
        while self._end - self._at < _COUNTS.size:
            self._more()
        head_size, body_size = _COUNTS.unpack_from(self._buffer, self._at)
        if head_size > _MAX_HEAD or body_size > _MAX_BODY:
            raise FramesEnded
        self._at += _COUNTS.size
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
