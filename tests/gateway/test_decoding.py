"""Packed answers are read as they arrive, whatever they are packed with."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gateway.decoding import Undecodable, decoder_of


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def brotlied(data: bytes) -> bytes:
    packed: bytes = brotli.compress(data, quality=3)  # type: ignore[no-untyped-call]
    return packed


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "bare deflate": ("deflate", bare),
    "br": ("br", brotlied),
    "zstd": ("zstd", zstandard.compress),
    "zstd in gzip": ("zstd, gzip", lambda data: gzip.compress(zstandard.compress(data))),
    "br in zstd": ("br,identity,zstd", lambda data: zstandard.compress(brotlied(data))),
}


def unpacked(encoding: str, data: bytes, step: int) -> tuple[bytes, bool]:
    decoder = decoder_of(encoding)
    assert decoder is not None
    pieces = [
        piece for at in range(0, len(data), step) for piece in decoder.feed(data[at : at + step])
    ]
    assert b"" not in pieces
    return b"".join(pieces), decoder.is_complete


@pytest.mark.parametrize("packer", PACKERS)
@given(data=st.binary(max_size=3000), step=st.integers(1, 3000))
def test_an_answer_is_read_however_it_is_cut(packer: str, data: bytes, step: int) -> None:
    encoding, pack = PACKERS[packer]
    assert unpacked(encoding, pack(data), step) == (data, True)
    assert unpacked(encoding, pack(data * 200), step) == (data * 200, True)


@pytest.mark.parametrize("step", [1, 100, 10_000])
@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_packed_answers_may_stand_one_behind_another(name: str, step: int) -> None:
    _, pack = PACKERS[name]
    assert unpacked(name, pack(b"one ") + pack(b"two") + pack(b""), step) == (b"one two", True)


@pytest.mark.parametrize("step", [1, 10_000])
@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_what_stands_behind_the_end_is_left_out(name: str, step: int) -> None:
    assert unpacked(name, PACKERS[name][1](b"all") + b"\0\0 more", step) == (b"all", True)


@pytest.mark.parametrize("packer", PACKERS)
def test_an_answer_that_breaks_off_is_not_complete(packer: str) -> None:
    encoding, pack = PACKERS[packer]
    assert not unpacked(encoding, pack(bytes(range(256)) * 40)[:-3], 50)[1]


@pytest.mark.parametrize("packer", PACKERS)
def test_a_little_that_holds_much_comes_in_pieces(packer: str) -> None:
    encoding, pack = PACKERS[packer]
    decoder = decoder_of(encoding)
    assert decoder is not None
    sizes = [len(piece) for piece in decoder.feed(pack(bytes(24 << 20)))]
    assert sum(sizes) == 24 << 20
    assert max(sizes) <= 8 << 20
    assert decoder.is_complete


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_what_a_provider_flushes_is_given_out(name: str) -> None:
    pack: Callable[[bytes], bytes]
    if name == "zstd":
        zstd = zstandard.ZstdCompressor().compressobj()
        pack = lambda data: zstd.compress(data) + zstd.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)  # noqa: E731
    elif name == "br":
        br = brotli.Compressor()
        pack = lambda data: br.process(data) + br.flush()  # noqa: E731
    else:
        zipper = zlib.compressobj(wbits=zlib.MAX_WBITS + (16 if name == "gzip" else 0))
        pack = lambda data: zipper.compress(data) + zipper.flush(zlib.Z_SYNC_FLUSH)  # noqa: E731
    decoder = decoder_of(name)
    assert decoder is not None
    for number in range(300):
        event = b"data: %d\n\n" % number * (number % 7 + 1)
        assert b"".join(decoder.feed(pack(event))) == event


@pytest.mark.parametrize("encoding", ["", "identity", " Identity ,"])
def test_a_plain_answer_needs_no_reader(encoding: str) -> None:
    assert decoder_of(encoding) is None


@pytest.mark.parametrize("encoding", ["compress", "gzip, aws-chunked", "gzip,gzip,gzip", "*"])
def test_an_encoding_nobody_reads_is_told(encoding: str) -> None:
    with pytest.raises(Undecodable):
        decoder_of(encoding)


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_bytes_that_are_not_packed_are_told(name: str) -> None:
    with pytest.raises(Undecodable):
        unpacked(name, b'{"a": "not packed at all"}', 5)


def test_a_window_larger_than_decoders_must_have_is_told() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(Undecodable):
        unpacked("zstd", packer.compress(b"x" * 999) + packer.flush(), 999)
