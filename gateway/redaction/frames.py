"""Messages between the gateway and its scanning workers: a JSON head and raw bytes, both counted.

No pickle, so that neither side can be made to run what the other sends. Blocking; used by `workers`
(in a thread per worker) and by `worker`.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Final

import orjson

_COUNTS: Final = struct.Struct(">IQ")
#: Heads hold originals and header values; bodies are limited where they are decoded.
_MAX_HEAD: Final = 256 * 1024 * 1024
_MAX_BODY: Final = 1024 * 1024 * 1024


class FramesEnded(Exception):
    """The other side is gone."""


def send(sock: socket.socket, head: dict[str, Any], body: bytes = b"") -> None:
    """Send one message. Raises FramesEnded."""
    encoded = orjson.dumps(head)
    try:
        sock.sendall(_COUNTS.pack(len(encoded), len(body)) + encoded)
        if body:
            sock.sendall(body)
    except OSError as error:
        raise FramesEnded from error


def receive(sock: socket.socket) -> tuple[dict[str, Any], bytes]:
    """Wait for one message. Raises FramesEnded; TimeoutError where the socket has a timeout."""
    head_size, body_size = _COUNTS.unpack(_exactly(sock, _COUNTS.size))
    if head_size > _MAX_HEAD or body_size > _MAX_BODY:
        raise FramesEnded
    head = orjson.loads(_exactly(sock, head_size))
    return head, bytes(_exactly(sock, body_size)) if body_size else b""


def _exactly(sock: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    at = 0
    while at < size:
        try:
            got = sock.recv_into(view[at:])
        except TimeoutError:
            raise
        except OSError as error:
            raise FramesEnded from error
        if not got:
            raise FramesEnded
        at += got
    return data
