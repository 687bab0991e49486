"""Bedrock's streamed answers, read with botocore: restored in every vendor's events."""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import restorers, restoring, token_of

from gateway import wire
from gateway.wire.base import Usage, WireRefused
from gateway.wire.event_stream import encode, encode_headers

CONVERSE = wire.get("bedrock.converse_stream")
INVOKE = wire.get("bedrock.invoke_stream")
MAIL = "CANARY0001Z"
NASTY = 'CANARY0002 "q" \\ \n\t{x} é\U0001f600 Z'
ORIGINALS = {token_of(MAIL): MAIL, token_of(NASTY): NASTY}
A, B = token_of(MAIL), token_of(NASTY)
TEXT = f"To {A}, not [EMAIL_zzzzzzzz] [x] [EMAIL_ but {B}{A} é\U0001f600!"
SHOWN = f"To {MAIL}, not [EMAIL_zzzzzzzz] [x] [EMAIL_ but {NASTY}{MAIL} é\U0001f600!"
INPUT = {"to": A, B: [f"<{B}>", "[EMAIL_"], "json": json.dumps({"deep": A})}
SIGNATURE = base64.b64encode(bytes(range(256))).decode()
METRICS = {
    "amazon-bedrock-invocationMetrics": {
        "inputTokenCount": 9,
        "outputTokenCount": 4,
        "invocationLatency": 100,
        "cacheReadInputTokenCount": 2,
    }
}


def pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def message(kind: str, payload: Any, message_type: str = "event") -> bytes:
    name = ":event-type" if message_type == "event" else ":exception-type"
    headers = {name: kind, ":content-type": "application/json", ":message-type": message_type}
    return encode(encode_headers(headers), json.dumps(payload).encode())


def chunk(document: Any) -> bytes:
    data = base64.b64encode(json.dumps(document).encode()).decode()
    return message("chunk", {"bytes": data, "p": "abcdefghij"})


def read(data: bytes) -> list[tuple[str, Any]]:
    """The events as botocore sees them; it checks every checksum."""
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    events = []
    for item in buffer:
        kind = item.headers.get(":event-type") or item.headers[":exception-type"]
        payload = json.loads(item.payload)
        if kind == "chunk":
            payload = json.loads(base64.b64decode(payload["bytes"]))
        events.append((kind, payload))
    return events


class Told:
    def __init__(self) -> None:
        self.signed: list[tuple[str, str]] = []

    def __call__(self, text: str, signature: str) -> None:
        self.signed.append((text, signature))


def transform(
    format_: Any, data: bytes, cuts: list[int] | None = None, told: Told | None = None
) -> tuple[bytes, Any]:
    stream = format_.new_stream(restorers(ORIGINALS), told or Told(), "vnd")
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts or [])})
    out = [stream.feed(data[start:end]) for start, end in itertools.pairwise(edges)]
    return b"".join([*out, stream.close()]), stream


def delta(index: int, **delta: Any) -> tuple[str, Any]:
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": delta, "p": "abc"}


def converse_events(size: int) -> list[tuple[str, Any]]:
    start = {"toolUse": {"toolUseId": "tooluse_1", "name": f"send {A}"}}
    return [
        ("messageStart", {"role": "assistant", "p": "ab"}),
        *(delta(0, reasoningContent={"text": p}) for p in pieces(f"about {A}", size)),
        delta(0, reasoningContent={"signature": SIGNATURE}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        *(delta(1, text=p) for p in pieces(TEXT, size)),
        ("contentBlockStop", {"contentBlockIndex": 1}),
        ("contentBlockStart", {"contentBlockIndex": 2, "start": start}),
        *(delta(2, toolUse={"input": p}) for p in pieces(json.dumps(INPUT), size)),
        ("contentBlockStop", {"contentBlockIndex": 2}),
        delta(3, citation={"title": A, "sourceContent": [{"text": B}]}),
        delta(3, text="see [EMA"),
        ("contentBlockStop", {"contentBlockIndex": 3}),
        ("messageStop", {"stopReason": "tool_use", "additionalModelResponseFields": {B: A}}),
        (
            "metadata",
            {
                "usage": {
                    "inputTokens": 11,
                    "outputTokens": 40,
                    "totalTokens": 63,
                    "cacheReadInputTokens": 7,
                    "cacheWriteInputTokens": 5,
                },
                "metrics": {"latencyMs": 1},
            },
        ),
    ]


def converse(size: int) -> bytes:
    return b"".join(message(kind, payload) for kind, payload in converse_events(size))


def nova(size: int) -> bytes:
    last = len(converse_events(size)) - 1
    return b"".join(
        chunk({kind: payload, **(METRICS if number == last else {})})
        for number, (kind, payload) in enumerate(converse_events(size))
    )


def check_converse(events: list[tuple[str, Any]]) -> None:
    deltas: dict[tuple[int, str], str] = {}
    stopped: set[int] = set()
    for kind, payload in events:
        if kind == "contentBlockStop":
            stopped.add(payload["contentBlockIndex"])
        if kind != "contentBlockDelta":
            continue
        index, piece = payload["contentBlockIndex"], payload["delta"]
        assert index not in stopped
        (name,) = piece
        value = piece[name]
        text = value.get("text") or value.get("input") or "" if isinstance(value, dict) else value
        deltas[index, name] = deltas.get((index, name), "") + text
    assert deltas[0, "reasoningContent"] == f"about {A}"
    assert deltas[1, "text"] == SHOWN
    tool = json.loads(deltas[2, "toolUse"])
    assert tool["to"] == MAIL
    assert tool[NASTY] == [f"<{NASTY}>", "[EMAIL_"]
    assert json.loads(tool["json"]) == {"deep": MAIL}
    assert deltas[3, "text"] == "see [EMA"
    kinds = [kind for kind, _ in events]
    assert kinds[-2:] == ["messageStop", "metadata"]
    found = dict(events)
    assert found["messageStop"]["additionalModelResponseFields"] == {NASTY: MAIL}
    assert found["contentBlockStart"]["start"]["toolUse"]["name"] == f"send {MAIL}"


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_converse_is_restored_with_legal_checksums_and_reasoning_untouched(size: int) -> None:
    told = Told()
    out, stream = transform(CONVERSE, converse(size), told=told)
    check_converse(read(out))
    assert stream.complete
    assert stream.error is None
    assert (stream.stop_reason, stream.usage) == ("tool_use", Usage(11, 40, 5, 7))
    assert told.signed == [(f"about {A}", SIGNATURE)]


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_amazons_own_models_send_the_same_events_in_chunks(size: int) -> None:
    out, stream = transform(INVOKE, nova(size))
    events = [next(iter(document.items())) for _, document in read(out)]
    check_converse(events)
    assert stream.complete
    assert stream.usage == Usage(11, 40, 5, 7)


@given(st.integers(1, 9), st.lists(st.integers(0, 60_000), max_size=40))
@settings(max_examples=40, deadline=None)
def test_chunking_never_changes_a_byte(size: int, cuts: list[int]) -> None:
    for format_, data in ((CONVERSE, converse(size)), (INVOKE, nova(size)), (INVOKE, claude(size))):
        assert transform(format_, data, cuts)[0] == transform(format_, data)[0]


def claude_events(size: int) -> list[dict[str, Any]]:
    def block(index: int, start: dict[str, Any], deltas: list[dict[str, Any]]) -> list[Any]:
        return [
            {"type": "content_block_start", "index": index, "content_block": start},
            *({"type": "content_block_delta", "index": index, "delta": d} for d in deltas),
            {"type": "content_block_stop", "index": index},
        ]

    usage = {"input_tokens": 11, "output_tokens": 1, "cache_read_input_tokens": 7}
    thinking = [{"type": "thinking_delta", "thinking": p} for p in pieces(f"about {A}", size)]
    return [
        {"type": "message_start", "message": {"model": "claude-x", "content": [], "usage": usage}},
        *block(0, {"type": "thinking", "thinking": "", "signature": ""}, [
            *thinking, {"type": "signature_delta", "signature": SIGNATURE}]),
        *block(1, {"type": "text", "text": ""},
               [{"type": "text_delta", "text": p} for p in pieces(TEXT + " [EMA", size)]),
        *block(2, {"type": "tool_use", "id": "toolu_bdrk_1", "name": "send", "input": {}},
               [{"type": "input_json_delta", "partial_json": p}
                for p in pieces(json.dumps(INPUT), size)]),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"},
         "usage": {"output_tokens": 40}},
        {"type": "message_stop", **METRICS},
    ]  # fmt: skip


def claude(size: int) -> bytes:
    return b"".join(chunk(event) for event in claude_events(size))


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_anthropic_events_are_restored_as_on_their_own_stream(size: int) -> None:
    told = Told()
    out, stream = transform(INVOKE, claude(size), told=told)
    events = [document for _, document in read(out)]
    texts = {0: "", 1: "", 2: ""}
    stopped: set[int] = set()
    for event in events:
        if event["type"] == "content_block_delta":
            assert event["index"] not in stopped
            d = event["delta"]
            texts[event["index"]] += d.get("text") or d.get("partial_json") or d.get("thinking", "")
        if event["type"] == "content_block_stop":
            stopped.add(event["index"])
    assert texts[0] == f"about {A}"
    assert texts[1] == SHOWN + " [EMA"
    assert json.loads(texts[2])[NASTY] == [f"<{NASTY}>", "[EMAIL_"]
    assert stopped == {0, 1, 2}
    assert events[-1] == {"type": "message_stop", **METRICS}
    assert told.signed == [(f"about {A}", SIGNATURE)]
    assert stream.complete
    assert (stream.model, stream.stop_reason) == ("claude-x", "tool_use")
    assert stream.usage == Usage(11, 40, 0, 7)


VENDORS: dict[str, Any] = {
    "titan": lambda t: {"outputText": t, "index": 0, "completionReason": None},
    "llama": lambda t: {"generation": t, "stop_reason": None, "prompt_token_count": 3},
    "mistral": lambda t: {"outputs": [{"text": t, "stop_reason": None}]},
    "mistral chat": lambda t: {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": t}}]
    },
    "cohere": lambda t: {"text": t, "is_finished": False, "event_type": "text-generation"},
    "jamba": lambda t: {"id": "x", "choices": [{"index": 0, "delta": {"content": t}}]},
    "older claude": lambda t: {"completion": t, "stop_reason": None, "stop": None},
}
ENDS: dict[str, Any] = {
    "titan": {"outputText": "", "index": 0, "completionReason": "FINISH"},
    "llama": {"generation": "", "stop_reason": "stop", "prompt_token_count": None},
    "mistral": {"outputs": [{"text": "", "stop_reason": "stop"}]},
    "mistral chat": {"choices": [{"index": 0, "message": {"content": ""}, "stop_reason": "stop"}]},
    "cohere": {"is_finished": True, "finish_reason": "COMPLETE", "event_type": "stream-end"},
    "jamba": {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    "older claude": {"completion": "", "stop_reason": "stop_sequence", "stop": "\n"},
}


def texts_of(document: Any) -> str:
    """Every text of a chunk, wherever its vendor puts it."""
    if isinstance(document, list):
        return "".join(texts_of(item) for item in document)
    if not isinstance(document, dict):
        return ""
    names = ("outputText", "generation", "text", "content", "completion")
    own = "".join(v for k, v in document.items() if k in names and isinstance(v, str))
    return own + "".join(texts_of(v) for v in document.values())


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_the_text_of_every_vendor_is_restored_across_chunks(vendor: str, size: int) -> None:
    parts = [VENDORS[vendor](piece) for piece in pieces(TEXT + " [EMA", size)]
    data = b"".join(chunk(part) for part in parts) + chunk(ENDS[vendor] | METRICS)
    out, stream = transform(INVOKE, data)
    events = [document for _, document in read(out)]
    assert "".join(texts_of(event) for event in events) == SHOWN + " [EMA"
    assert "amazon-bedrock-invocationMetrics" in events[-1]
    assert stream.complete
    assert stream.usage.output == 4
    assert stream.stop_reason


def test_choices_that_interleave_do_not_mix_their_text() -> None:
    def part(index: int, text: str, reason: str | None = None) -> bytes:
        choice = {"index": index, "delta": {"content": text}, "finish_reason": reason}
        return chunk({"choices": [choice]})

    data = b"".join((
        part(0, A[:5]), part(1, B[:7]), part(0, A[5:], "stop"), part(1, B[7:]), part(1, "", "stop"),
    ))  # fmt: skip
    out, _ = transform(INVOKE, data)
    shown = {0: "", 1: ""}
    for _, document in read(out):
        for choice in document["choices"]:
            shown[choice["index"]] += choice["delta"]["content"]
    assert shown == {0: MAIL, 1: NASTY}


@pytest.mark.parametrize("size", [1, 6, 1000])
def test_streamed_tool_arguments_of_a_vendor_stay_json(size: int) -> None:
    def part(arguments: str) -> bytes:
        call = {"index": 0, "function": {"arguments": arguments}}
        return chunk({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})

    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    data = chunk({"choices": [{"index": 0, "delta": {"content": "see [EMA"}}]})
    data += b"".join(part(p) for p in pieces(json.dumps(INPUT), size)) + chunk(end)
    arguments, content = "", ""
    for _, document in read(transform(INVOKE, data)[0]):
        found = document["choices"][0]["delta"]
        content += found.get("content", "")
        for call in found.get("tool_calls", []):
            assert content == "see [EMA"
            arguments += call["function"]["arguments"]
    assert json.loads(arguments)[NASTY] == [f"<{NASTY}>", "[EMAIL_"]


@pytest.mark.parametrize("size", [1, 6, 1000])
def test_streamed_tools_of_a_vendor_without_choices_and_refusals(size: int) -> None:
    def call(number: int) -> list[bytes]:
        start = {"tool_call_delta": {"index": number, "name": "save"}}
        rest = [
            {"tool_call_delta": {"index": number, "parameters": piece}}
            for piece in pieces(json.dumps(INPUT), size)
        ]
        return [chunk({"event_type": "tool-calls-chunk", **part}) for part in (start, *rest)]

    end = {"event_type": "stream-end", "is_finished": True, "finish_reason": "COMPLETE"}
    data = chunk({"text": "see [EMA"}) + b"".join(call(0) + call(1)) + chunk(end)
    arguments = {0: "", 1: ""}
    for _, document in read(transform(INVOKE, data)[0]):
        part = document.get("tool_call_delta", {})
        arguments[part.get("index", 0)] += part.get("parameters", "")
    for written in arguments.values():
        assert json.loads(written)[NASTY] == [f"<{NASTY}>", "[EMAIL_"]
    refusal = [chunk({"choices": [{"delta": {"refusal": p}}]}) for p in pieces(f"no {B}", size)]
    out, _ = transform(INVOKE, b"".join(refusal))
    found = [document["choices"][0]["delta"]["refusal"] for _, document in read(out)]
    assert "".join(found) == f"no {NASTY}"


def test_events_without_tokens_keep_their_bytes() -> None:
    events = [("messageStart", {"role": "assistant"}), delta(0, text="plain [x]"), ("later", {})]
    data = b"".join(message(kind, payload) for kind, payload in events)
    assert transform(CONVERSE, data)[0] == data
    plain = chunk({"type": "ping"}) + chunk({"outputText": "plain", "index": 0}) + chunk([1])
    assert transform(INVOKE, plain)[0] == plain


@pytest.mark.parametrize("format_", [CONVERSE, INVOKE])
def test_an_exception_is_restored_and_remembered_after_the_text_before_it(format_: Any) -> None:
    text = message(*delta(0, text="see [EMA"))
    if format_ is INVOKE:
        text = chunk({"type": "content_block_delta", "index": 0,
                      "delta": {"type": "text_delta", "text": "see [EMA"}})  # fmt: skip
    data = text + message("throttlingException", {"message": f"wait, {A}"}, "exception")
    out, stream = transform(format_, data)
    events = read(out)
    assert json.dumps(events).count("[EMA") == 1
    assert events[-1] == ("throttlingException", {"message": f"wait, {MAIL}"})
    assert stream.error == "throttlingException"
    assert not stream.complete


def test_an_upstream_that_dies_leaves_an_incomplete_stream_with_all_its_text() -> None:
    for format_, data in (
        (CONVERSE, message(*delta(0, text="see [EMA"))),
        (INVOKE, chunk({"generation": "see [EMA"})),
        (INVOKE, chunk({"type": "content_block_delta", "index": 0,
                        "delta": {"type": "text_delta", "text": "see [EMA"}})),
    ):  # fmt: skip
        out, stream = transform(format_, data + message("chunk", {})[:-3])
        assert "[EMA" in json.dumps(read(out))
        assert not stream.complete


def test_a_broken_checksum_is_refused() -> None:
    data = bytearray(converse(1000))
    data[200] ^= 1
    with pytest.raises(WireRefused):
        transform(CONVERSE, bytes(data))


def test_a_whole_converse_answer_is_restored_but_its_reasoning() -> None:
    told = Told()
    reasoning = {"reasoningText": {"text": f"about {A}", "signature": SIGNATURE}}
    answer = {
        "output": {"message": {"role": "assistant", "content": [
            {"reasoningContent": reasoning},
            {"text": TEXT},
            {"toolUse": {"toolUseId": "tooluse_1", "name": "send", "input": {"reasoning": A}}},
        ]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 1, "outputTokens": 2},
    }  # fmt: skip
    whole = wire.get("bedrock.converse").restore_body(
        json.dumps(answer).encode(), "application/json", restoring(ORIGINALS), told
    )
    content = json.loads(whole.body)["output"]["message"]["content"]
    assert content[0] == {"reasoningContent": reasoning}
    assert content[1] == {"text": SHOWN}
    assert content[2]["toolUse"]["input"] == {"reasoning": MAIL}
    assert told.signed == [(f"about {A}", SIGNATURE)]
    assert (whole.usage, whole.stop_reason) == (Usage(1, 2), "end_turn")


@pytest.mark.parametrize(
    ("answer", "usage"),
    [
        ({"type": "message", "content": [{"type": "text", "text": A}],
          "usage": {"input_tokens": 3, "output_tokens": 4}}, Usage(3, 4)),
        ({"generation": A, "prompt_token_count": 3, "generation_token_count": 4}, Usage(3, 4)),
        ({"inputTextTokenCount": 3, "results": [{"outputText": A, "tokenCount": 4}]}, Usage(3, 4)),
        ({"outputs": [{"text": A}]}, Usage()),
        ({"choices": [{"message": {"content": A}}],
          "usage": {"prompt_tokens": 3, "completion_tokens": 4}}, Usage(3, 4)),
        ({"output": {"message": {"content": [{"text": A}]}},
          "usage": {"inputTokens": 3, "outputTokens": 4}}, Usage(3, 4)),
        ({"message": f"no such model {A}"}, Usage()),
    ],
)  # fmt: skip
def test_whole_answers_of_every_vendor_are_restored(answer: dict[str, Any], usage: Usage) -> None:
    whole = wire.get("bedrock.invoke").restore_body(
        json.dumps(answer).encode(), "application/json", restoring(ORIGINALS)
    )
    assert json.loads(whole.body) == json.loads(json.dumps(answer).replace(A, MAIL))
    assert whole.usage == usage
