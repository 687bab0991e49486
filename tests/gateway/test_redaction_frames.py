"""Messages between gateway and workers arrive whole and in order, however the bytes are cut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.redaction.channel import Channel
from gateway.redaction.frames import Frames, FramesEnded

SIZES = st.sampled_from((0, 1, 11, 12, 500, 65_523, 65_524, 65_536, 70_000, 200_001))


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written += data

    def abort(self) -> None:
        self.aborted = True


def connected() -> tuple[Channel, Wire, list[tuple[bytes, bytes]]]:
    got: list[tuple[bytes, bytes]] = []
    channel = Channel(lambda head, body: got.append((head, body)), lambda: None)
    wire: Any = Wire()
    channel.connection_made(wire)
    return channel, wire, got


def feed(channel: Channel, data: bytes, cuts: Sequence[int]) -> None:
    """Hand `data` over as a loop would: as much as fits, and no more than the next cut."""
    at = 0
    number = 0
    while at < len(data):
        place = channel.get_buffer(-1)
        size = min(len(place), cuts[number % len(cuts)], len(data) - at)
        place[:size] = data[at : at + size]
        channel.buffer_updated(size)
        at += size
        number += 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=5),
    st.lists(st.sampled_from((1, 7, 12, 4096, 65_536, 1 << 20)), min_size=1, max_size=4),
)
def test_messages_survive_every_way_of_being_cut(
    sizes: list[tuple[int, int]], cuts: list[int]
) -> None:
    if 1 in cuts and sum(map(sum, sizes)) > 200_000:
        cuts = [cut if cut > 1 else 4096 for cut in cuts]
    sender, wire, _ = connected()
    sent = []
    for number, (head, body) in enumerate(sizes):
        message = {"n": number, "x": "h" * head}, bytes([number]) * body
        sender.send(*message)
        sent.append(message)
    channel, _, got = connected()
    feed(channel, bytes(wire.written), cuts)
    assert [body for _, body in got] == [body for _, body in sent]
    assert [len(head) for head, _ in got] == [len(str(h).replace(" ", "")) for h, _ in sent]


def test_a_message_that_claims_an_absurd_size_ends_the_connection() -> None:
    channel, wire, got = connected()
    feed(channel, b"\xff" * 12, [12])
    assert wire.aborted
    assert got == []


def test_both_sides_of_the_border_understand_each_other() -> None:
    ours, theirs = socket.socketpair()
    body = bytes(range(256)) * 1000
    with ours, theirs:
        writer = threading.Thread(target=Frames(theirs).send, args=({"a": "é"}, body))
        writer.start()
        channel, wire, got = connected()
        while not got:
            feed(channel, ours.recv(50_000), [50_000])
        writer.join()
        assert got == [('{"a":"é"}'.encode(), body)]
        channel.send({"b": 1}, body[:10])
        ours.sendall(wire.written)
        assert Frames(theirs).receive() == ({"b": 1}, body[:10])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=5),
    st.lists(st.sampled_from((7, 12, 4096, 65_536, 1 << 20)), min_size=1, max_size=4),
)
def test_the_worker_reads_messages_however_they_are_cut(
    sizes: list[tuple[int, int]], cuts: list[int]
) -> None:
    sender, wire, _ = connected()
    sent = []
    for number, (head, body) in enumerate(sizes):
        message = {"n": number, "x": "h" * head}, bytes([number]) * body
        sender.send(*message)
        sent.append(message)
    ours, theirs = socket.socketpair()
    with theirs:
        frames = Frames(theirs)

        def write() -> None:
            at = number = 0
            while at < len(wire.written):
                ours.sendall(wire.written[at : at + cuts[number % len(cuts)]])
                at += cuts[number % len(cuts)]
                number += 1
            ours.close()

        writer = threading.Thread(target=write)
        writer.start()
        got = [frames.receive() for _ in sent]
        writer.join()
        assert got == sent
        with pytest.raises(FramesEnded):
            frames.receive()
