"""Streamed answers: restored across any chunking, legally framed, honest about how they ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import anthropic
import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import restorers, restoring, token_of

from gateway import wire
from gateway.wire.base import Usage
from gateway.wire.formats.anthropic_stream import AnthropicStream
from gateway.wire.nesting import JsonPrefix
from gateway.wire.sse import SseParser, serialise

FORMAT = wire.get("anthropic.messages")
MAIL = "CANARY0001Z"
NASTY = 'CANARY0002 "q" \\ \n\t{x} é\U0001f600 Z'
ORIGINALS = {token_of(MAIL): MAIL, token_of(NASTY): NASTY}
A, B = token_of(MAIL), token_of(NASTY)
UNKNOWN = "[EMAIL_zzzzzzzz]"


def sse(document: dict[str, Any], end: str = "\n") -> bytes:
    text = serialise(document["type"], json.dumps(document, ensure_ascii=False)).decode()
    return text.replace("\n", end).encode()


def pieces(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def message_events(blocks: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """The events a provider sends for a message of these blocks, in deltas of `size`."""
    events: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {
                "id": "msg_01",
                "type": "message",
                "role": "assistant",
                "model": "claude-x",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {
                    "input_tokens": 11,
                    "output_tokens": 1,
                    "cache_creation_input_tokens": 5,
                    "cache_read_input_tokens": 7,
                },
            },
        },
        {"type": "ping"},
    ]
    for index, block in enumerate(blocks):
        events += block_events(block, index, size)
    return [
        *events,
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 40},
        },
        {"type": "message_stop"},
    ]


def block_events(block: dict[str, Any], index: int, size: int) -> Iterator[dict[str, Any]]:
    kind = block["type"]
    empty = {"text": {"text": ""}, "tool_use": {"input": {}}, "thinking": {"thinking": ""}}
    start = {**block, **empty.get(kind, {})}
    start.pop("signature", None)
    if kind == "thinking":
        start["signature"] = ""
    yield {"type": "content_block_start", "index": index, "content_block": start}
    deltas: list[dict[str, Any]] = []
    if kind == "text":
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"], size)]
    elif kind == "tool_use":
        text = json.dumps(block["input"], ensure_ascii=False)
        deltas = [{"type": "input_json_delta", "partial_json": p} for p in pieces(text, size)]
    elif kind == "thinking":
        deltas = [
            {"type": "thinking_delta", "thinking": p} for p in pieces(block["thinking"], size)
        ]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def chunks(stream: bytes, cuts: list[int]) -> Iterator[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    for start, end in pairwise(edges):
        yield stream[start:end]


def transform(stream: bytes, cuts: list[int] | None = None) -> tuple[bytes, AnthropicStream]:
    transformer = FORMAT.new_stream(restorers(ORIGINALS))
    assert isinstance(transformer, AnthropicStream)
    out = b"".join(transformer.feed(chunk) for chunk in chunks(stream, cuts or []))
    return out + transformer.close(), transformer


def sdk_message(stream: bytes) -> dict[str, Any]:
    """What the official SDK makes of the bytes."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    with (
        anthropic.Anthropic(
            api_key="k",
            base_url="http://test",
            max_retries=0,
            http_client=anthropic.DefaultHttpxClient(transport=httpx2.MockTransport(answer)),
        ) as client,
        client.messages.stream(
            model="claude-x", max_tokens=9, messages=[{"role": "user", "content": "x"}]
        ) as streamed,
    ):
        for _event in streamed:
            pass
        return streamed.get_final_message().model_dump(mode="json", exclude_none=True)


BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": f"about {A}", "signature": "c2ln"},
    {"type": "text", "text": f"Dear {A}, [EMAIL_ [x] {B}{A} {UNKNOWN} é[[{A}]"},
    {"type": "text", "text": json.dumps({"answer": B, "n": [A]})},
    {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "Write",
        "input": {
            "file_path": f"/tmp/{A}",
            "content": json.dumps({"deep": [B, json.dumps({"deeper": f"<{B}>"})]}),
            "list": [f"{B}", f"[EMAIL_{A}"],
            B: 1,
        },
    },
    {"type": "text", "text": f"ends with {A}"},
    {"type": "text", "text": "ends with a beginning [EMAIL_0"},
]
ANSWER = {
    "id": "msg_01",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": BLOCKS,
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 11, "output_tokens": 40},
}


def expected_content() -> list[dict[str, Any]]:
    restored = FORMAT.restore_response(ANSWER, restoring(ORIGINALS))
    content: list[dict[str, Any]] = restored["content"]
    return content


def test_a_whole_answer_is_restored_but_what_was_signed() -> None:
    content = expected_content()
    assert content[0] == BLOCKS[0]
    assert content[1]["text"].startswith(f"Dear {MAIL}, [EMAIL_ [x] {NASTY}{MAIL} {UNKNOWN}")
    assert json.loads(content[2]["text"]) == {"answer": NASTY, "n": [MAIL]}
    tool = content[3]["input"]
    assert tool["list"] == [NASTY, f"[EMAIL_{MAIL}"]
    assert tool[NASTY] == 1
    deep = json.loads(tool["content"])["deep"]
    assert deep[0] == NASTY
    assert json.loads(deep[1]) == {"deeper": f"<{NASTY}>"}


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 16, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_official_sdk_reads_the_restored_message(size: int, end: str) -> None:
    stream = b"".join(sse(event, end) for event in message_events(BLOCKS, size))
    out, transformer = transform(stream)
    message = sdk_message(out)
    assert [dict(block) for block in message["content"]] == expected_content()
    assert transformer.complete
    assert transformer.usage == Usage(11, 40, 5, 7)
    assert (transformer.model, transformer.stop_reason) == ("claude-x", "tool_use")


@given(st.integers(1, 9), st.lists(st.integers(0, 20_000), max_size=60))
@settings(max_examples=60, deadline=None)
def test_chunking_never_changes_a_byte_of_the_output(size: int, cuts: list[int]) -> None:
    stream = b"".join(sse(event) for event in message_events(BLOCKS, size))
    assert transform(stream, cuts)[0] == transform(stream)[0]


def test_one_byte_at_a_time_with_crlf_gives_the_sdk_the_same_message() -> None:
    stream = b"".join(sse(event, "\r\n") for event in message_events(BLOCKS, 3))
    out, _ = transform(stream, list(range(len(stream))))
    assert [dict(block) for block in sdk_message(out)["content"]] == expected_content()


def test_a_stream_without_tokens_keeps_its_bytes() -> None:
    blocks = [
        {"type": "text", "text": "plain [x] é\U0001f600"},
        {"type": "tool_use", "id": "toolu_1", "name": "n", "input": {"a": [1.0, "[b]"]}},
    ]
    events = message_events(blocks, 1000)
    stream = b": note\n\n" + b"".join(sse(event, "\r\n") for event in events)
    stream += b'event: later\ndata: {"type":"later","x":1e0}\n\ndata: not json\n\n'
    assert transform(stream)[0] == stream


@pytest.mark.parametrize("text", [A, "x [", "x [EMAIL_", f"x [{A[:-1]}", "{[", '{"a":"' + A[:-1]])
@pytest.mark.parametrize("size", [1, 4, 999])
def test_held_text_goes_out_before_the_stop_of_its_own_block(text: str, size: int) -> None:
    events = message_events(
        [{"type": "text", "text": "first"}, {"type": "text", "text": text}], size
    )
    out, _ = transform(b"".join(sse(event) for event in events))
    parsed = [json.loads(event.data or "null") for event in SseParser().feed(out)]
    names = [event.event for event in SseParser().feed(out)]
    assert names == [document["type"] for document in parsed]
    shown = ["", ""]
    stopped: set[int] = set()
    for document in parsed:
        if document["type"] == "content_block_delta":
            assert document["index"] not in stopped
            shown[document["index"]] += document["delta"]["text"]
        elif document["type"] == "content_block_stop":
            stopped.add(document["index"])
    assert shown == ["first", restoring(ORIGINALS)(text)]


def test_blocks_that_interleave_do_not_mix_their_text() -> None:
    events = []
    for left, right in zip(pieces(A, 3), pieces(B, 3), strict=False):
        for index, piece in enumerate((left, right)):
            delta = {"type": "text_delta", "text": piece}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
    events += [{"type": "content_block_stop", "index": index} for index in (1, 0)]
    out, _ = transform(b"".join(sse(event) for event in events))
    shown = ["", ""]
    for event in SseParser().feed(out):
        document = json.loads(event.data or "")
        if document["type"] == "content_block_delta":
            shown[document["index"]] += document["delta"]["text"]
    assert shown == [MAIL, NASTY]


def test_text_is_delayed_only_while_it_may_become_a_token() -> None:
    transformer = FORMAT.new_stream(restorers(ORIGINALS))
    delta = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "Hi "},
    }
    assert transformer.feed(sse(delta)) == sse(delta)


@pytest.mark.parametrize(
    "delta",
    [
        {"type": "thinking_delta", "thinking": A},
        {"type": "signature_delta", "signature": A},
        {"type": "compaction_delta", "content": A, "encrypted_content": "e"},
    ],
)
def test_signed_deltas_pass_byte_for_byte(delta: dict[str, Any]) -> None:
    stream = sse({"type": "content_block_delta", "index": 0, "delta": delta}, "\r\n")
    assert transform(stream)[0] == stream


def test_unknown_deltas_of_a_signed_block_pass_byte_for_byte() -> None:
    block = {"type": "thinking", "thinking": "", "signature": ""}
    delta = {"type": "later_delta", "text": A}
    stream = sse({"type": "content_block_start", "index": 0, "content_block": block})
    stream += sse({"type": "content_block_delta", "index": 0, "delta": delta}, "\r\n")
    assert transform(stream)[0] == stream


@pytest.mark.parametrize(
    "event",
    [
        {"type": "later_event", "note": A, "list": [{"type": ["string", "null"], "text": A}]},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "later_delta", "text": A}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": ["odd"], "text": A}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": ["odd"], "text": A}},
        {"type": "content_block_start", "index": "0", "content_block": {"type": "text", "text": A}},
        {"type": "message_stop", "note": A},
        {"note": A},
        [A],
        A,
    ],
)
def test_events_nobody_knows_are_restored_whole(event: Any) -> None:
    data = json.dumps(event)
    out = transform(f"event: odd\r\ndata: {data}\r\n\r\n".encode())[0]
    head, end = b"event: odd\r\ndata: ", b"\r\n\r\n"
    assert out.startswith(head)
    assert out.endswith(end)
    assert json.loads(out.removeprefix(head)) == json.loads(data.replace(A, MAIL))


def test_text_held_in_a_block_leaves_before_another_kind_of_delta() -> None:
    deltas = [
        {"type": "text_delta", "text": "see [EMAIL_"},
        {"type": "input_json_delta", "partial_json": "{}"},
    ]
    stream = b"".join(
        sse({"type": "content_block_delta", "index": 0, "delta": delta}) for delta in deltas
    )
    out = [json.loads(event.data or "") for event in SseParser().feed(transform(stream)[0])]
    assert "".join(event["delta"].get("text", "") for event in out) == "see [EMAIL_"
    assert out[-1]["delta"] == deltas[-1]


@pytest.mark.parametrize("kind", ["thinking", "redacted_thinking", "compaction"])
def test_signed_blocks_pass_byte_for_byte(kind: str) -> None:
    block = {"type": kind, "thinking": A, "data": A, "content": A, "signature": A}
    stream = sse({"type": "content_block_start", "index": 0, "content_block": block})
    assert transform(stream)[0] == stream


def test_citations_and_server_results_are_restored_whole() -> None:
    citation = {"type": "char_location", "cited_text": f"x {A}", "encrypted_index": A}
    delta = {"type": "citations_delta", "citation": citation}
    result = {"type": "web_search_tool_result", "content": [{"title": A, "encrypted_content": A}]}
    out, _ = transform(
        sse({"type": "content_block_delta", "index": 0, "delta": delta})
        + sse({"type": "content_block_start", "index": 1, "content_block": result})
    )
    first, second = [json.loads(event.data or "") for event in SseParser().feed(out)]
    assert first["delta"]["citation"] == {**citation, "cited_text": f"x {MAIL}"}
    assert second["content_block"]["content"] == [{"title": MAIL, "encrypted_content": A}]


def test_an_upstream_that_dies_leaves_an_incomplete_stream() -> None:
    events = message_events([{"type": "text", "text": "one two [EMAIL_0"}], 100)[:4]
    stream = b"".join(sse(event) for event in events)
    out, transformer = transform(stream + b'event: message_stop\ndata: {"type":"message_s')
    assert not transformer.complete
    assert b"message_stop" not in out
    texts = [
        json.loads(event.data or "")["delta"]["text"]
        for event in SseParser().feed(out)
        if event.event == "content_block_delta"
    ]
    assert "".join(texts) == "one two [EMAIL_0"


def test_a_last_event_without_its_blank_line_counts_when_it_is_whole() -> None:
    out, transformer = transform(b'event: message_stop\ndata: {"type":"message_stop"}')
    assert transformer.complete
    assert out == b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


def test_an_error_event_passes_and_is_remembered_after_the_text_before_it() -> None:
    delta = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "a ["},
    }
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}
    out, transformer = transform(sse(delta) + sse(error))
    assert transformer.error == "overloaded_error"
    assert not transformer.complete
    names = [event.event for event in SseParser().feed(out)]
    assert names == ["content_block_delta", "content_block_delta", "error"]
    assert out.endswith(sse(error))


def test_usage_is_the_largest_of_the_cumulative_counts() -> None:
    _, transformer = transform(
        sse(
            {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 9}}}
        )
        + sse({"type": "message_delta", "usage": {"input_tokens": 8, "output_tokens": 4}})
        + sse({"type": "message_delta", "usage": {"output_tokens": True, "input_tokens": -1}})
        + sse({"type": "message_delta", "usage": None})
    )
    assert transformer.usage == Usage(input=8, output=9)


def test_keep_alive_is_a_whole_event_of_the_api() -> None:
    (ping,) = SseParser().feed(FORMAT.keep_alive)
    assert (ping.event, ping.data) == ("ping", '{"type": "ping"}')


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text('ab"\\[]{}:,\n é', max_size=6)
    | st.sampled_from([A, B, f"<{B}>", f"[{A}", UNKNOWN]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text('ab"\\', max_size=3), inner, max_size=3)
        | st.lists(inner, max_size=3).map(json.dumps)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text("ab", max_size=2), JSON_VALUES, max_size=4), st.integers(1, 12))
@settings(max_examples=300, deadline=None)
def test_streamed_tool_arguments_restore_to_what_a_whole_answer_would(
    value: dict[str, Any], size: int
) -> None:
    block = {"type": "tool_use", "id": "toolu_1", "name": "n", "input": value}
    out, _ = transform(b"".join(sse(event) for event in message_events([block], size)))
    joined = "".join(
        json.loads(event.data or "")["delta"]["partial_json"]
        for event in SseParser().feed(out)
        if event.event == "content_block_delta"
    )
    expected = FORMAT.restore_response({"content": [block]}, restoring(ORIGINALS))
    assert json.loads(joined) == expected["content"][0]["input"]


@given(JSON_VALUES, st.integers(1, 9), st.booleans())
@settings(max_examples=300, deadline=None)
def test_a_json_prefix_reader_ends_outside_every_string(value: Any, size: int, ascii: bool) -> None:
    place = JsonPrefix(must_be_json=True)
    for piece in pieces(json.dumps(value, ensure_ascii=ascii, indent=1), size):
        place.feed(piece)
    assert not place.broken
    assert place.depth == 0


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("", 0),
        ('{"a', 1),
        ('{"a":"', 1),
        ('{"a":"x\\', 1),
        ('{"a":"x\\"', 1),
        ('{"a":"x"', 0),
        ('{"a":"{\\"b\\":\\"', 2),
        ('{"a":"{\\"b\\":\\"c\\"', 1),
        ('{"a":"[\\u0022', 2),
        ('{"a":"[x, \\"', 1),
        ('{"a":"say \\"', 1),
        ('{"a":" [1.5,null,\\"', 2),
        ('["{\\"b\\":\\"[\\\\\\"', 3),
        ("Hello {", 0),
        ('[x "', 0),
        ('{"a":1}}"', 0),
        ('{"a":1}\n{"b":"', 1),
        ('{"a":1} and "', 0),
    ],
)
def test_the_depth_of_a_place_is_the_number_of_open_strings(text: str, depth: int) -> None:
    place = JsonPrefix(must_be_json=False)
    for char in text:
        place.feed(char)
    assert place.depth == depth


def test_signed_texts_are_told_before_the_bytes_that_end_them_and_match_the_whole_answer() -> None:
    events = [
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "thinking_delta", "thinking": "let me "},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "thinking_delta", "thinking": "see"},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "signature_delta", "signature": "EqQB"},
        },
        {"type": "content_block_stop", "index": 0},
    ]
    told: list[tuple[str, str]] = []
    transformer = FORMAT.new_stream(restorers(ORIGINALS), lambda *pair: told.append(pair))
    for event in events[:-1]:
        transformer.feed(serialise(str(event["type"]), json.dumps(event)))
    assert told == []
    transformer.feed(serialise("content_block_stop", json.dumps(events[-1])))
    assert told == [("let me see", "EqQB")]
    whole = {"content": [{"type": "thinking", "thinking": "let me see", "signature": "EqQB"}]}
    assert list(FORMAT.signed_texts(whole)) == told


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_pieces_of_a_delta_nobody_knows_yet_are_one_text(size: int) -> None:
    value = "CANARY0009Z"
    token = token_of(value)
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "narration"}}
    events: list[dict[str, Any]] = [start]
    for number, piece in enumerate(pieces(f"to {token} and {token}", size)):
        delta = {"type": "narration_delta", "narration": piece, "at": number}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    events += [{"type": "content_block_stop", "index": 0}, {"type": "message_stop"}]
    stream = wire.get("anthropic.messages").new_stream(restorers({token: value}))
    out = stream.feed(b"".join(map(sse, events))) + stream.close()
    read = [json.loads(event.data or "") for event in SseParser().feed(out)]
    deltas = [event["delta"] for event in read if event["type"] == "content_block_delta"]
    assert "".join(delta["narration"] for delta in deltas) == f"to {value} and {value}"
    assert [delta["at"] for delta in deltas if "at" in delta] == list(range(len(events) - 3))
