"""A streamed JSON array: any chunking, brackets and commas kept, elements as they come."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.wire.base import WireRefused
from gateway.wire.json_array import JsonArrayFraming
from gateway.wire.stream import Frame

ELEMENTS: list[Any] = [
    {"a": 'quote " and \\ [ ] { } , é\U0001f600', "b": [1, {"c": []}]},
    {},
    [],
    [[1], "]"],
    "text, with ] and \\\" in it",
    12,
    None,
    True,
]  # fmt: skip


def frames(stream: bytes, cuts: list[int]) -> tuple[list[Frame], JsonArrayFraming]:
    framing = JsonArrayFraming()
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    found: list[Frame] = []
    for start, end in pairwise(edges):
        found += framing.feed(stream[start:end])
    return [*found, *framing.close()], framing


def written(separator: str, start: str, end: str) -> bytes:
    texts = [json.dumps(element, ensure_ascii=False) for element in ELEMENTS]
    return (start + separator.join(texts) + end).encode()


@given(
    st.sampled_from([",", ",\r\n", "\n,\n", " , "]),
    st.sampled_from(["[", "[\n", " [ "]),
    st.sampled_from(["]", "\n]\n", " ] \r\n"]),
    st.lists(st.integers(0, 9999), max_size=30),
)
@settings(max_examples=150, deadline=None)
def test_elements_are_the_same_whatever_the_chunks(
    separator: str, start: str, end: str, cuts: list[int]
) -> None:
    stream = written(separator, start, end)
    found, framing = frames(stream, cuts)
    assert b"".join(frame.raw for frame in found) == stream
    assert [f.document for f in found if f.raw.strip() not in (b"", b"]")] == ELEMENTS
    assert framing.closed


def test_every_byte_by_itself_gives_the_same_elements() -> None:
    stream = written(",", "[", "]")
    found, _ = frames(stream, list(range(len(stream))))
    assert b"".join(frame.raw for frame in found) == stream


def test_an_object_leaves_with_its_last_byte() -> None:
    framing = JsonArrayFraming()
    assert framing.feed(b'[{"a":{"b":1}') == []
    (frame,) = framing.feed(b"}")
    assert frame.raw == b'[{"a":{"b":1}}'
    assert frame.rewritten({"x": 1}) == b'[{"x":1}'
    assert not framing.closed
    assert framing.write({"y": 2}) == b',{"y":2}'


def test_a_rewritten_and_an_added_element_keep_the_array_legal() -> None:
    framing = JsonArrayFraming()
    first, second, end = framing.feed(b'[{"a":1}\n,\r\n{"b":2}\n]\n')[:3]
    out = first.rewritten({"a": 9}) + framing.write({"held": 1}) + second.raw
    out += framing.write({"held": 2}) + end.raw
    assert json.loads(out) == [{"a": 9}, {"held": 1}, {"b": 2}, {"held": 2}]


def test_an_array_cut_off_is_not_closed() -> None:
    found, framing = frames(b'[{"a":1},{"b":', [])
    assert [frame.document for frame in found] == [{"a": 1}]
    assert not framing.closed


def test_one_object_is_one_element() -> None:
    found, framing = frames(b' {"error": {"code": 500}}\n', [3, 9])
    assert found[0].document == {"error": {"code": 500}}
    assert framing.single
    assert framing.closed


def test_an_element_that_is_no_json_keeps_its_bytes() -> None:
    found, _ = frames(b'[{"a" 1},{bad},{"b":1}]', [])
    assert [frame.document for frame in found[:3]] == [None, None, {"b": 1}]


@pytest.mark.parametrize("stream", [b"data: {}", b"[1] 2", b"{} {}", b"<html>", b"]", b"[]]"])
def test_what_is_no_array_is_refused(stream: bytes) -> None:
    with pytest.raises(WireRefused) as refused:
        frames(stream, [])
    assert refused.value.code == "json_array"


def test_an_endless_element_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.wire.json_array.MAX_EVENT", 100)
    framing = JsonArrayFraming()
    framing.feed(b'[{"a":"')
    with pytest.raises(WireRefused) as refused:
        framing.feed(b"x" * 200)
    assert refused.value.code == "event_too_large"


@pytest.mark.parametrize("cuts", [[], [1], [2, 3, 4]])
def test_a_byte_order_mark_passes(cuts: list[int]) -> None:
    stream = b'\xef\xbb\xbf[{"a":1}]'
    found, framing = frames(stream, cuts)
    assert [frame.document for frame in found if frame.document is not None] == [{"a": 1}]
    assert b"".join(frame.raw for frame in found) == stream
    assert framing.closed
