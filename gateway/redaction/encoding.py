"""Undoing `Content-Encoding`, with a limit on what may come out.

Pure. Invariant: either the whole body is decoded, or the call is refused; never more than `limit`
bytes are held. Called by the scanning worker.
"""

from __future__ import annotations

import zlib
from typing import Final

import brotli
import zstandard

from gateway.redaction.job import ScanRefused

#: Largest decoded body (contracts/gateway.md section 3.2).
MAX_BODY: Final = 64 * 1024 * 1024

#: Encodings may be stacked; nobody sends more than two.
_MAX_LAYERS: Final = 2
_GZIP: Final = 16 + zlib.MAX_WBITS
#: Bytes taken out of a brotli stream at once.
_PIECE: Final = 1 << 20
#: Bytes put into a zstd stream at once; a block makes at most 128 KiB of as little as 4 bytes.
_ZSTD_STEP: Final = 1 << 8
#: Largest zstd window: what decoders must support (RFC 8878 section 3.1.1.1.2).
_WINDOW: Final = 8 << 20


def decode_body(body: bytes, content_encoding: str, *, limit: int = MAX_BODY) -> bytes:
    """Return the plain body. Raises ScanRefused: unsupported_encoding, bad_encoding, too_large."""
    layers = [name.strip().lower() for name in content_encoding.split(",")]
    layers = [name for name in layers if name not in ("", "identity")]
    if len(layers) > _MAX_LAYERS:
        raise ScanRefused(
            "unsupported_encoding", "The body is compressed more than twice; send it uncompressed."
        )
    if len(body) > limit:
        raise _too_large(limit)
    for name in reversed(layers):
        if name in ("gzip", "x-gzip"):
            body = _inflate(body, (_GZIP,), limit)
        elif name == "deflate":
            # RFC 9110 means the zlib format; some clients send the bare stream.
            body = _inflate(body, (zlib.MAX_WBITS, -zlib.MAX_WBITS), limit)
        elif name == "br":
            body = _brotli(body, limit)
        elif name in ("zstd", "zst"):
            body = _zstd(body, limit)
        else:
            raise ScanRefused(
                "unsupported_encoding",
                f"The body's content encoding{f' {name}' if name in _NAMED else ''} cannot be read "
                "here; send it uncompressed, or with gzip, deflate, br or zstd.",
            )
    return body


def _inflate(body: bytes, formats: tuple[int, ...], limit: int) -> bytes:
    for wbits in formats:
        try:
            return _inflate_as(body, wbits, limit)
        except zlib.error:
            continue
    raise _damaged()


def _inflate_as(body: bytes, wbits: int, limit: int) -> bytes:
    """A gzip body may be several members one after another; anything else behind it is refused."""
    parts: list[bytes] = []
    size = 0
    rest = body
    while rest:
        inflater = zlib.decompressobj(wbits)
        part = inflater.decompress(rest, limit - size + 1)
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        if not inflater.eof:
            raise _damaged()
        parts.append(part)
        rest = inflater.unused_data
        if rest and wbits != _GZIP:
            raise _damaged()
    if not parts:
        raise _damaged()
    return b"".join(parts)


def _brotli(body: bytes, limit: int) -> bytes:
    inflater = brotli.Decompressor()
    parts: list[bytes] = []
    size = 0
    rest = body
    try:
        while not inflater.is_finished():
            part = inflater.process(rest, output_buffer_limit=_PIECE)
            rest = b""
            size += len(part)
            if size > limit:
                raise _too_large(limit)
            if not part and not inflater.is_finished() and inflater.can_accept_more_data():
                raise _damaged()  # it wants more, and there is none
            parts.append(part)
    except brotli.error:
        # Bytes behind the end are an error too: the provider might read them.
        raise _damaged() from None
    return b"".join(parts)


def _zstd(body: bytes, limit: int) -> bytes:
    """A zstd body may be several frames one after another (RFC 8878 section 3)."""
    parts: list[bytes] = []
    size = 0
    rest = body
    try:
        while rest:
            inflater = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
            for at in range(0, len(rest), _ZSTD_STEP):
                part = inflater.decompress(rest[at : at + _ZSTD_STEP])
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                parts.append(part)
                if inflater.eof:
                    rest = inflater.unused_data + rest[at + _ZSTD_STEP :]
                    break
            else:
                raise _damaged()
    except zstandard.ZstdError:
        raise _damaged() from None
    if not body:
        raise _damaged()
    return b"".join(parts)


def _damaged() -> ScanRefused:
    return ScanRefused(
        "bad_encoding",
        "The body cannot be decompressed as its content encoding says; send it uncompressed.",
    )


def _too_large(limit: int) -> ScanRefused:
    return ScanRefused(
        "body_too_large",
        f"The body is larger than {limit // (1024 * 1024)} MiB once decompressed; "
        "start a new conversation or send less at once.",
    )


#: Encodings that exist and may be named to the client; any other text is its own.
_NAMED: Final = frozenset({"compress", "x-compress", "aws-chunked", "lz4", "snappy"})
