"""Event streams: any chunking gives the same events, and raw bytes add up to the stream."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.wire.sse import SseEvent, SseParser, serialise


def parse(stream: bytes, cuts: list[int] | None = None) -> list[SseEvent]:
    parser = SseParser()
    events: list[SseEvent] = []
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts or []), len(stream)]
    for start, end in pairwise(edges):
        events += parser.feed(stream[start:end])
    return events + parser.close()


def seen(events: list[SseEvent]) -> list[tuple[str, str | None, str | None]]:
    # Blank lines say nothing, and the second half of one may come late.
    return [(event.event, event.data, event.id) for event in events if event.raw.strip()]


ENDS = st.sampled_from(["\n", "\r\n", "\r"])
LINES = st.sampled_from(
    [
        "event: a",
        "data: x",
        "data:y",
        "data",
        "data: é\u2028",
        "id: 7",
        ": note",
        "retry: 1",
        "",
        "x",
    ]
)


@given(st.lists(st.tuples(LINES, ENDS), max_size=25), st.lists(st.integers(0, 400), max_size=30))
@settings(max_examples=400, deadline=None)
def test_chunking_never_changes_the_events(lines: list[tuple[str, str]], cuts: list[int]) -> None:
    stream = "".join(line + end for line, end in lines).encode()
    whole = parse(stream)
    pieces = parse(stream, cuts)
    assert seen(pieces) == seen(whole)


@given(st.lists(st.tuples(LINES, ENDS), max_size=25), st.lists(st.integers(0, 400), max_size=30))
@settings(max_examples=200, deadline=None)
def test_the_raw_bytes_of_the_events_add_up_to_the_stream(
    lines: list[tuple[str, str]], cuts: list[int]
) -> None:
    stream = "".join(line + end for line, end in lines).encode()
    assert b"".join(event.raw for event in parse(stream, cuts)) == stream


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_one_byte_at_a_time_gives_whole_events(end: str) -> None:
    stream = end.join(["event: e", "data: é1", "data: 2", "", ""]).encode()
    events = parse(stream, list(range(len(stream))))
    assert [(event.event, event.data) for event in events if event.data] == [("e", "é1\n2")]


def test_one_leading_space_of_a_value_is_dropped_and_no_more() -> None:
    assert parse(b"data:  x\n\n")[0].data == " x"


def test_a_byte_order_mark_at_the_start_is_not_part_of_the_first_field() -> None:
    assert parse(b"\xef\xbb\xbfdata: x\n\n")[0].data == "x"


def test_a_comment_block_is_an_event_without_data() -> None:
    assert parse(b": ping\n\n") == [SseEvent("", None, None, b": ping\n\n")]


def test_an_event_cut_off_by_the_end_is_handed_out_by_close_only() -> None:
    parser = SseParser()
    assert parser.feed(b"event: e\ndata: x") == []
    assert [(event.event, event.data) for event in parser.close()] == [("e", "x")]
    assert parser.close() == []


def test_serialised_events_read_back_as_they_were() -> None:
    (event,) = parse(serialise("name", "a\nb\r\nc", "9"))
    assert (event.event, event.data, event.id) == ("name", "a\nb\nc", "9")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_other_data_leaves_every_other_line_as_it_is(end: str) -> None:
    lines = [
        "\ufeff: note",
        "retry: 5",
        "data: old",
        "id: 7",
        "later: x",
        "data: lines",
        "event: a",
    ]
    stream = (end.join(lines) + end + end).encode()
    (event,) = parse(stream)
    kept = [line for line in lines if not line.startswith("data")]
    kept[2:2] = ["data: new", "data: text"]
    assert event.with_data("new\ntext") == (end.join(kept) + end + end).encode()


def test_an_event_of_a_stream_with_crlf_is_not_cut_within_its_last_line_end() -> None:
    parser = SseParser()
    stream = b"data: 1\r\n\r\ndata: 2\r\n\r\n"
    events = [event for at in range(len(stream)) for event in parser.feed(stream[at : at + 1])]
    assert [event.raw for event in events] == [b"data: 1\r\n\r\n", b"data: 2\r\n\r\n"]
    assert parser.close() == []


def test_a_stream_with_crlf_that_ends_within_a_line_end_ends_its_event() -> None:
    parser = SseParser()
    assert parser.feed(b"data: 1\r\n\r") == []
    assert [event.data for event in parser.close()] == ["1"]
