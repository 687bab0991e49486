"""The AWS event stream codec against botocore's, and what is broken is refused."""

from __future__ import annotations

import itertools
import json
import struct
from typing import Any
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import restorers

from gateway import wire
from gateway.wire.base import WireRefused
from gateway.wire.event_stream import (
    EventMessage,
    EventStreamFraming,
    EventStreamParser,
    encode,
    encode_headers,
    event_head,
)

NAMES = st.text("abc:-é", min_size=1, max_size=20)
HEADERS = st.dictionaries(NAMES, st.text(max_size=40), max_size=5)
MESSAGES = st.lists(st.tuples(HEADERS, st.binary(max_size=300)), max_size=6)


def by_botocore(data: bytes) -> list[tuple[dict[str, Any], bytes]]:
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [(message.headers, message.payload) for message in buffer]


def parse(data: bytes, cuts: list[int] | None = None) -> list[EventMessage]:
    parser = EventStreamParser()
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts or [])})
    found: list[EventMessage] = []
    for start, end in itertools.pairwise(edges):
        found += parser.feed(data[start:end])
    return found


@given(MESSAGES, st.lists(st.integers(0, 5000), max_size=20))
@settings(max_examples=150, deadline=None)
def test_what_we_write_botocore_reads_and_so_do_we_in_any_chunking(
    messages: list[tuple[dict[str, str], bytes]], cuts: list[int]
) -> None:
    data = b"".join(encode(encode_headers(headers), payload) for headers, payload in messages)
    assert by_botocore(data) == messages
    ours = parse(data, cuts)
    assert [(dict(message.headers), message.payload) for message in ours] == messages
    assert b"".join(message.raw for message in ours) == data


def typed(name: bytes, kind: int, value: bytes) -> bytes:
    return bytes((len(name),)) + name + bytes((kind,)) + value


def test_headers_of_every_type_are_stepped_over_as_botocore_does() -> None:
    head = b"".join(
        (
            typed(b"t", 0, b""),
            typed(b"f", 1, b""),
            typed(b"byte", 2, b"\x01"),
            typed(b"short", 3, b"\0\x02"),
            typed(b"int", 4, b"\0\0\0\x03"),
            typed(b"long", 5, b"\0" * 7 + b"\x04"),
            typed(b"bytes", 6, b"\0\x02ab"),
            typed(b":event-type", 7, b"\0\x05chunk"),
            typed(b"time", 8, b"\0" * 8),
            typed(b"uuid", 9, bytes(16)),
        )
    )
    data = encode(head, b"{}")
    (theirs,) = by_botocore(data)
    (ours,) = parse(data)
    assert ours.headers == {":event-type": "chunk"} == {":event-type": theirs[0][":event-type"]}
    assert ours.head == head


@given(st.integers(0, 200), st.integers(1, 255))
@settings(max_examples=150, deadline=None)
def test_a_message_with_any_byte_changed_is_refused_or_unfinished(place: int, change: int) -> None:
    data = bytearray(encode(encode_headers({":event-type": "chunk"}), b'{"bytes":"aGk="}' * 4))
    data[place % len(data)] ^= change
    try:
        assert parse(bytes(data)) == []
    except WireRefused as refused:
        assert refused.code == "event_stream"  # noqa: PT017


@pytest.mark.parametrize("kind", [10, 255])
def test_a_header_of_an_unknown_type_is_refused(kind: int) -> None:
    with pytest.raises(WireRefused):
        parse(encode(typed(b"x", kind, b""), b""))


@pytest.mark.parametrize("head", [b"\x05ab", typed(b"x", 7, b"\0\x09ab"), typed(b"x", 4, b"\0")])
def test_headers_that_run_over_their_end_are_refused(head: bytes) -> None:
    with pytest.raises(WireRefused):
        parse(encode(head, b""))


@pytest.mark.parametrize(("total", "head"), [(15, 0), (1 << 30, 0), (1 << 29, 1 << 20), (40, 100)])
def test_lengths_beyond_reason_are_refused_at_once(total: int, head: int) -> None:
    prelude = struct.pack("!II", total, head)
    with pytest.raises(WireRefused):
        parse(prelude + struct.pack("!I", crc32(prelude)))


def test_a_frame_is_named_by_its_event_and_rewritten_under_the_same_headers() -> None:
    head = encode_headers({":message-type": "event", ":event-type": "messageStop", "x": "y"})
    framing = EventStreamFraming()
    (frame,) = framing.feed(encode(head, b'{"stopReason":"end_turn"}'))
    assert frame.document == {"messageStop": {"stopReason": "end_turn"}}
    (theirs,) = by_botocore(frame.rewritten({"messageStop": {"stopReason": "other"}}))
    assert theirs[0] == {":message-type": "event", ":event-type": "messageStop", "x": "y"}
    assert json.loads(theirs[1]) == {"stopReason": "other"}
    (new,) = by_botocore(framing.write({"metadata": {"a": 1}}))
    assert new[0][":event-type"] == "metadata"
    assert list(framing.close()) == []


@pytest.mark.parametrize("size", [1, 20, 1 << 20])
def test_what_came_before_a_broken_message_is_passed_on(size: int) -> None:
    good = encode(event_head("messageStart"), b'{"role":"assistant"}')
    bad = bytearray(good)
    bad[-1] ^= 1
    stream = good + good + bytes(bad) + good
    transformer = wire.get("bedrock.converse_stream").new_stream(restorers({}))
    out: list[bytes] = []

    def play() -> None:
        for at in range(0, len(stream), size):
            out.append(transformer.feed(stream[at : at + size]))
        transformer.close()

    with pytest.raises(WireRefused):
        play()
    assert b"".join(out) == good + good
    assert not transformer.complete
