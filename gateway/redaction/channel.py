"""The gateway's side of a connection to a scanning worker, on its event loop.

Invariants: it never blocks, and a large body is received into one buffer. What a message looks like
is in `frames`. Called by `workers`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson

from gateway.redaction.frames import COUNTS, MAX_BODY, MAX_HEAD, SMALL


class Channel(asyncio.BufferedProtocol):
    """One connection to a worker; `received(head, body)` is told of each message, `lost()` once.

    Heads are handed out as bytes: a very large one is not for the loop to parse.
    """

    def __init__(self, received: Callable[[bytes, bytes], None], lost: Callable[[], None]) -> None:
        self._received = received
        self._lost = lost
        self._transport: Any = None
        self._small = bytearray(SMALL)
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
        start = COUNTS.pack(len(encoded), len(body)) + encoded
        if len(body) < SMALL:
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
        while have - begin >= COUNTS.size:
            head_size, body_size = COUNTS.unpack_from(self._small, begin)
            if head_size > MAX_HEAD or body_size > MAX_BODY:
                self._transport.abort()
                return
            start = begin + COUNTS.size
            size = head_size + body_size
            if start + size > have:
                if COUNTS.size + size > SMALL:
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
