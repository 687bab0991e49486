"""Undoing the `Content-Encoding` of an answer while it arrives.

Owns the readers of gzip, deflate, br and zstd, alone or stacked. Invariants: what is read of a
piece is given out at once, so that an event a provider flushed is not held; no piece given out is
larger than a few MiB, however little it was packed into. Pure; called by `upstream`. (A request's
body, which comes whole, is unpacked by `redaction.encoding`.)
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final, Protocol

import brotli
import zstandard

#: Encodings may be stacked; nobody sends more than two.
_MAX_LAYERS: Final = 2
#: Bytes given out at once by gzip, deflate and br.
_PIECE: Final = 1 << 18
#: Bytes put into a zstd stream at once; a block makes at most 128 KiB of as little as 4 bytes.
_ZSTD_STEP: Final = 1 << 8
#: Largest zstd window: what decoders must support (RFC 8878 section 3.1.1.1.2).
_WINDOW: Final = 8 << 20
_GZIP: Final = 16 + zlib.MAX_WBITS
_GZIP_MAGIC: Final = b"\x1f"
#: Low half of the first byte of a zlib stream (RFC 1950 section 2.2).
_DEFLATE: Final = 8


class Undecodable(Exception):
    """The bytes are not what their encoding says, or in one that is not read here."""


class Decoder(Protocol):
    """Reads one answer."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is begun and unfinished."""
        ...

    def feed(self, data: bytes, /) -> Iterator[bytes]:
        """Yield what `data` brings, in pieces; take all of them before the next call.

        Raises Undecodable.
        """
        ...


def decoder_of(content_encoding: str) -> Decoder | None:
    """Return the reader of an answer with this header, or None when it is plain.

    Raises Undecodable.
    """
    names = [name.strip().lower() for name in content_encoding.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if len(names) > _MAX_LAYERS or not _READERS.keys() >= set(names):
        raise Undecodable
    decoder: Decoder | None = None
    for name in reversed(names):
        reader = _READERS[name]()
        decoder = reader if decoder is None else _Stacked(decoder, reader)
    return decoder


class _Stacked:
    """One encoding within another."""

    def __init__(self, outer: Decoder, inner: Decoder) -> None:
        self._outer, self._inner = outer, inner

    @property
    def is_complete(self) -> bool:
        return self._outer.is_complete and self._inner.is_complete

    def feed(self, data: bytes) -> Iterator[bytes]:
        for piece in self._outer.feed(data):
            yield from self._inner.feed(piece)


class _Members(ABC):
    """A format whose streams may stand one behind another. What stands behind the last and is
    none is left out, as all clients do."""

    def __init__(self) -> None:
        self._has_begun = self._is_open = self._is_over = False

    @property
    def is_complete(self) -> bool:
        return not self._is_open

    def feed(self, data: bytes) -> Iterator[bytes]:
        more = data != b"" and not self._is_over
        try:
            while more:
                if not self._is_open:
                    self._is_over = self._has_begun and not self._goes_on(data)
                    if self._is_over:
                        return
                    self._has_begun = self._is_open = True
                    self._begin(data)
                piece, data, more = self._read(data)
                if piece:
                    yield piece
                if self._has_ended():
                    self._is_open = False
                    more = data != b""
        except (zlib.error, brotli.error, zstandard.ZstdError):
            raise Undecodable from None

    @abstractmethod
    def _begin(self, data: bytes) -> None:
        """Open a stream that begins with `data`."""

    @abstractmethod
    def _read(self, data: bytes) -> tuple[bytes, bytes, bool]:
        """Return a piece, the bytes not taken yet, and whether there is more to read of them or
        of what was taken."""

    @abstractmethod
    def _has_ended(self) -> bool: ...

    @abstractmethod
    def _goes_on(self, data: bytes) -> bool:
        """Whether `data`, behind the end of a stream, begins another."""


class _Gzip(_Members):
    def _begin(self, data: bytes) -> None:
        self._inflater = zlib.decompressobj(_GZIP)

    def _read(self, data: bytes) -> tuple[bytes, bytes, bool]:
        piece = self._inflater.decompress(data, _PIECE)
        rest = self._inflater.unused_data or self._inflater.unconsumed_tail
        # A full piece may have left something inside that no byte is needed for.
        return piece, rest, rest != b"" or len(piece) == _PIECE

    def _has_ended(self) -> bool:
        return self._inflater.eof

    def _goes_on(self, data: bytes) -> bool:
        return data.startswith(_GZIP_MAGIC)


class _Deflate(_Gzip):
    """RFC 9110 means the zlib format; some servers send the bare stream."""

    def _begin(self, data: bytes) -> None:
        is_wrapped = data[0] & 0xF == _DEFLATE
        self._inflater = zlib.decompressobj(zlib.MAX_WBITS if is_wrapped else -zlib.MAX_WBITS)

    def _goes_on(self, data: bytes) -> bool:
        return False


class _Brotli(_Members):
    def _begin(self, data: bytes) -> None:
        self._inflater = brotli.Decompressor()

    def _read(self, data: bytes) -> tuple[bytes, bytes, bool]:
        piece = self._inflater.process(data, output_buffer_limit=_PIECE)
        # After a piece there may be another inside, whatever it says of taking more.
        return piece, b"", piece != b"" or not self._inflater.can_accept_more_data()

    def _has_ended(self) -> bool:
        return bool(self._inflater.is_finished())

    def _goes_on(self, data: bytes) -> bool:
        return False


class _Zstd(_Members):
    def _begin(self, data: bytes) -> None:
        decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
        self._inflater = decompressor.decompressobj()

    def _read(self, data: bytes) -> tuple[bytes, bytes, bool]:
        step, rest = data[:_ZSTD_STEP], data[_ZSTD_STEP:]
        piece = self._inflater.decompress(step)
        if self._inflater.eof:
            rest = self._inflater.unused_data + rest
        return piece, rest, rest != b""

    def _has_ended(self) -> bool:
        return self._inflater.eof

    def _goes_on(self, data: bytes) -> bool:
        return True


_READERS: Final[dict[str, type[_Members]]] = {
    "gzip": _Gzip,
    "x-gzip": _Gzip,
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _Zstd,
    "zst": _Zstd,
}
