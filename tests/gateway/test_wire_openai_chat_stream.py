"""Streamed chat answers: restored across any chunking, choice by choice, legally framed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, pairwise, zip_longest
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import restorers, restoring, token_of

from gateway import wire
from gateway.wire.base import Usage
from gateway.wire.formats.openai_chat_stream import OpenAiStream
from gateway.wire.sse import SseParser

FORMAT = wire.get("openai.chat")
MAIL = "CANARY0001Z"
NASTY = 'CANARY0002 "q" \\ \n\t{x} é\U0001f600 Z'
ORIGINALS = {token_of(MAIL): MAIL, token_of(NASTY): NASTY}
A, B = token_of(MAIL), token_of(NASTY)
UNKNOWN = "[EMAIL_zzzzzzzz]"
SEAL = "c2VhbA" * 40
DONE = b"data: [DONE]\n\n"


def chunk(*choices: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1764000000,
        "model": "gpt-5.1-2026",
        "system_fingerprint": "fp_1",
        "choices": list(choices),
        **members,
    }


def choice(index: int, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}


def tool(index: int, **members: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, **members}]}


def sse(document: Any, end: str = "\n") -> bytes:
    return f"data: {json.dumps(document, ensure_ascii=False)}{end}{end}".encode()


def pieces(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def choice_deltas(index: int, text: str, calls: list[str], size: int) -> Iterator[dict[str, Any]]:
    """What a provider sends for one choice: text, a refusal, parallel calls piece by piece."""
    yield choice(index, role="assistant", content="", refusal=None)
    for piece in pieces(f"about {A}", size):
        yield choice(index, reasoning_content=piece)
    for piece in pieces(text, size):
        yield choice(index, content=piece)
    for piece in pieces(f"no: {B}", size):
        yield choice(index, refusal=piece)
    for number, _ in enumerate(calls):
        name = {"name": "save", "arguments": ""}
        yield choice(
            index, **tool(number, id=f"call_{index}{number}", type="function", function=name)
        )
    interleaved = zip_longest(*(pieces(arguments, size) for arguments in calls))
    for number, piece in chain.from_iterable(enumerate(row) for row in interleaved):
        if piece:
            yield choice(index, **tool(number, function={"arguments": piece}))
    yield choice(index, "tool_calls")


TEXTS = [
    f"Dear {A}, [EMAIL_ [x] {B}{A} {UNKNOWN} é[[{A}]",
    f"ends with {A}",
    "ends with a beginning [EMAIL_0",
    json.dumps({"answer": B, "n": [A]}),
]
CALLS = [
    json.dumps({"to": A, "list": [B, f"[EMAIL_{A}"], B: 1}, ensure_ascii=False),
    json.dumps({"content": json.dumps({"deep": [B, json.dumps({"deeper": f"<{B}>"})]})}),
]
USAGE = {
    "prompt_tokens": 30,
    "completion_tokens": 12,
    "total_tokens": 42,
    "prompt_tokens_details": {"cached_tokens": 20},
}


def stream_of(size: int, texts: list[str] = TEXTS, end: str = "\n") -> bytes:
    """All choices at once, their chunks interleaved as providers send them."""
    rows = zip_longest(*(choice_deltas(n, text, CALLS, size) for n, text in enumerate(texts)))
    events = [chunk(delta) for row in rows for delta in row if delta is not None]
    events.append(chunk(usage=USAGE))
    return b"".join(sse(event, end) for event in events) + DONE.replace(b"\n", end.encode())


def chunks(stream: bytes, cuts: list[int]) -> Iterator[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    for start, end in pairwise(edges):
        yield stream[start:end]


def transform(
    stream: bytes, cuts: list[int] | None = None, name: str = "openai.chat"
) -> tuple[bytes, OpenAiStream]:
    transformer = wire.get(name).new_stream(restorers(ORIGINALS))
    assert isinstance(transformer, OpenAiStream)
    out = b"".join(transformer.feed(part) for part in chunks(stream, cuts or []))
    return out + transformer.close(), transformer


def documents(stream: bytes) -> list[dict[str, Any]]:
    found = []
    for event in SseParser().feed(stream):
        if event.data and event.data != "[DONE]":
            found.append(json.loads(event.data))
    return found


def joined(stream: bytes) -> dict[tuple[Any, ...], str]:
    """The text of every run, put together as a client does."""
    runs: dict[tuple[Any, ...], str] = {}

    def add(key: tuple[Any, ...], text: Any) -> None:
        if isinstance(text, str):
            runs[key] = runs.get(key, "") + text

    for document in documents(stream):
        for item in document.get("choices", []):
            at, delta = item["index"], item.get("delta", {})
            add((at, "text"), item.get("text"))
            for name in ("content", "refusal", "reasoning_content"):
                add((at, name), delta.get(name))
            add((at, "function_call"), (delta.get("function_call") or {}).get("arguments"))
            for call in delta.get("tool_calls") or []:
                slot = call.get("index")
                add((at, "tool", slot), (call.get("function") or {}).get("arguments"))
                add((at, "custom", slot), (call.get("custom") or {}).get("input"))
    return runs


def sdk_completion(stream: bytes) -> Any:
    """What the official SDK makes of the bytes."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    with (
        openai.OpenAI(
            api_key="k",
            base_url="http://test/v1",
            max_retries=0,
            http_client=openai.DefaultHttpxClient(transport=httpx2.MockTransport(answer)),
        ) as client,
        client.chat.completions.stream(
            model="gpt-5.1", messages=[{"role": "user", "content": "x"}], n=len(TEXTS)
        ) as streamed,
    ):
        for _event in streamed:
            pass
        return streamed.get_final_completion()


def restored_arguments() -> list[Any]:
    answer = {
        "choices": [
            {"message": {"tool_calls": [{"function": {"arguments": text}} for text in CALLS]}}
        ]
    }
    message = FORMAT.restore_response(answer, restoring(ORIGINALS))["choices"][0]["message"]
    return [json.loads(call["function"]["arguments"]) for call in message["tool_calls"]]


def restored_text(text: str) -> str:
    answer = {"choices": [{"message": {"content": text}}]}
    found: str = FORMAT.restore_response(answer, restoring(ORIGINALS))["choices"][0]["message"][
        "content"
    ]
    return found


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_choice_and_call_is_restored_and_reads_like_a_whole_answer(
    size: int, end: str
) -> None:
    out, transformer = transform(stream_of(size, end=end))
    runs = joined(out)
    for index, text in enumerate(TEXTS):
        assert runs[index, "content"] == restored_text(text)
        assert runs[index, "refusal"] == f"no: {NASTY}"
        assert runs[index, "reasoning_content"] == f"about {A}"
        assert [json.loads(runs[index, "tool", n]) for n in (0, 1)] == restored_arguments()
    assert transformer.complete
    assert transformer.error is None
    assert transformer.usage == Usage(10, 12, 0, 20)
    assert (transformer.model, transformer.stop_reason) == ("gpt-5.1-2026", "tool_calls")


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_official_sdk_reads_the_restored_answer(size: int) -> None:
    completion = sdk_completion(transform(stream_of(size))[0])
    assert [item.index for item in completion.choices] == list(range(len(TEXTS)))
    for item, text in zip(completion.choices, TEXTS, strict=True):
        assert item.message.content == restored_text(text)
        assert item.message.refusal == f"no: {NASTY}"
        calls = item.message.tool_calls
        assert [json.loads(call.function.arguments) for call in calls] == restored_arguments()
        assert item.finish_reason == "tool_calls"
    assert completion.usage.total_tokens == 42


WHOLE = {size: stream_of(size, TEXTS[:2]) for size in (1, 2, 5, 9)}
EXPECTED = {size: transform(stream)[0] for size, stream in WHOLE.items()}


@given(st.sampled_from(list(WHOLE)), st.lists(st.integers(0, 200_000), max_size=40))
@settings(max_examples=30, deadline=None)
def test_chunking_never_changes_a_byte_of_the_output(size: int, cuts: list[int]) -> None:
    assert transform(WHOLE[size], cuts)[0] == EXPECTED[size]


def test_one_byte_at_a_time_changes_nothing() -> None:
    stream = stream_of(4, TEXTS[:2])
    assert transform(stream, list(range(len(stream))))[0] == transform(stream)[0]


def test_a_stream_without_tokens_passes_as_the_same_bytes() -> None:
    events = [
        b": OPENROUTER PROCESSING\r\n\r\n",
        sse(chunk(choice(0, role="assistant", content=""), obfuscation="xyz"), "\r\n"),
        b'data: {"choices": [ ], "prompt_filter_results": [{"prompt_index": 0}]}\n\n',
        sse(chunk(choice(0, content="plain ü words ] and }"))),
        b"event: message\nid: 7\ndata: " + json.dumps(chunk(choice(0, "stop"))).encode() + b"\n\n",
        sse(chunk(usage=USAGE)),
        DONE,
    ]
    assert transform(b"".join(events))[0] == b"".join(events)


def test_what_was_held_leaves_before_the_choice_is_finished() -> None:
    out, _ = transform(
        sse(chunk(choice(1, content="at [EMAIL_"), service_tier="flex"))
        + sse(chunk(choice(0, "stop")))
        + sse(chunk(choice(1, "stop")))
        + DONE
    )
    first, other, held, last = documents(out)
    assert first["choices"][0]["delta"] == {"content": "at "}
    assert other["choices"][0] == choice(0, "stop")
    assert held == chunk(choice(1, content="[EMAIL_"), service_tier="flex")
    assert last["choices"][0] == choice(1, "stop")


def test_a_last_piece_in_the_finishing_chunk_is_whole() -> None:
    out, _ = transform(
        sse(chunk(choice(0, content=A[:4]))) + sse(chunk(choice(0, "length", content="x[")))
    )
    assert joined(out)[0, "content"] == A[:4] + "x["
    assert documents(out)[-1]["choices"][0]["finish_reason"] == "length"


def test_text_held_when_the_provider_breaks_off_is_sent_but_nothing_is_completed() -> None:
    out, transformer = transform(sse(chunk(choice(0, content="so [EMAIL_"))) + b"data: {cut")
    assert joined(out)[0, "content"] == "so [EMAIL_"
    assert not transformer.complete
    assert b"[DONE]" not in out


def test_an_end_marker_without_a_blank_line_ends_the_stream() -> None:
    out, transformer = transform(sse(chunk(choice(0, content="a ["))) + b"data: [DONE]")
    assert transformer.complete
    assert out.endswith(b"data: [DONE]\n\n")
    assert joined(out)[0, "content"] == "a ["


@pytest.mark.parametrize(
    ("event", "word"),
    [
        ({"error": {"message": f"no {A}", "type": "server_error", "code": "x"}}, "server_error"),
        ({"error": {"message": f"no {A}", "code": "rate_limit_exceeded"}}, "rate_limit_exceeded"),
        ({"error": f"no {A}"}, "error"),
        ({"object": "error", "message": f"no {A}", "type": "BadRequest"}, "BadRequest"),
        (chunk(choice(0, "error", content=""), error={"code": 502, "message": f"no {A}"}), "error"),
    ],
)
def test_an_error_in_the_stream_is_restored_and_noted(event: dict[str, Any], word: str) -> None:
    out, transformer = transform(sse(chunk(choice(0, content="x [EMAIL_"))) + sse(event))
    assert transformer.error == word
    assert not transformer.complete
    assert MAIL in json.dumps(documents(out)[-1])
    assert joined(out)[0, "content"] == "x [EMAIL_"


def test_log_probabilities_and_reasoning_stay_as_they_are() -> None:
    logprobs = {"content": [{"token": A, "logprob": -0.5, "bytes": [91], "top_logprobs": []}]}
    details = [{"type": "reasoning.text", "text": A, "index": 0}]
    event = chunk(
        {**choice(0, content=A, reasoning=A, reasoning_details=details), "logprobs": logprobs}
    )
    (out,) = documents(transform(sse(event))[0])
    assert out["choices"][0]["logprobs"] == logprobs
    assert out["choices"][0]["delta"] == {
        "content": MAIL,
        "reasoning": A,
        "reasoning_details": details,
    }


def test_a_custom_tool_and_an_old_function_call_are_restored() -> None:
    events = [
        *(choice(0, **tool(0, type="custom", custom={"input": p})) for p in pieces(f"x {B} [", 3)),
        *(choice(1, function_call={"arguments": p}) for p in pieces(json.dumps({"to": B}), 3)),
        choice(0, "tool_calls"),
        choice(1, "function_call"),
    ]
    runs = joined(transform(b"".join(sse(chunk(event)) for event in events) + DONE)[0])
    assert runs[0, "custom", 0] == f"x {NASTY} ["
    assert json.loads(runs[1, "function_call"]) == {"to": NASTY}


def test_calls_that_share_a_number_do_not_mix() -> None:
    """As Google's compatible endpoint sends parallel calls: all of them number 0."""
    whole = json.dumps({"to": A})
    one = {"index": 0, "id": "function-call-1", "type": "function", "function": {"name": "a"}}
    two = {**one, "id": "function-call-2", "function": {"name": "b", "arguments": whole}}
    one = {**one, "function": {"name": "a", "arguments": whole[:12]}}
    out, _ = transform(
        sse(chunk(choice(0, tool_calls=[one])))
        + sse(chunk(choice(0, tool_calls=[two])))
        + sse(chunk(choice(0, tool_calls=[one, two])))
        + sse(chunk(choice(0, "stop")))
    )
    calls = [
        call
        for document in documents(out)
        for item in document["choices"]
        for call in item["delta"].get("tool_calls", [])
    ]
    named_b = [call for call in calls if call["function"].get("name") == "b"]
    assert [json.loads(call["function"]["arguments"]) for call in named_b] == [{"to": MAIL}] * 2


def test_content_in_parts_and_a_transcript_are_restored() -> None:
    def part(text: str) -> list[dict[str, Any]]:
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": A}]}
        return [thinking, {"type": "text", "text": text}]

    events = [chunk(choice(0, content=part(piece))) for piece in pieces(f"to {A}!", 4)]
    events += [
        chunk(choice(0, audio={"id": "audio_1", "data": "AAAA", "transcript": piece}))
        for piece in pieces(f"say {A} ", 4)
    ]
    out = documents(transform(b"".join(sse(event) for event in events))[0])
    deltas = [document["choices"][0]["delta"] for document in out]
    texts = [d["content"][1]["text"] for d in deltas if "content" in d]
    assert "".join(texts) == f"to {MAIL}!"
    assert all(d["content"][0]["thinking"][0]["text"] == A for d in deltas if "content" in d)
    assert "".join(d["audio"]["transcript"] for d in deltas if "audio" in d) == f"say {MAIL} "


def test_a_signed_thought_is_told_once_its_signature_is_there() -> None:
    told: list[tuple[str, str]] = []
    transformer = FORMAT.new_stream(restorers(ORIGINALS), lambda *pair: told.append(pair))
    for piece in pieces(f"thinking of {A}", 5):
        detail = {"type": "reasoning.text", "text": piece, "index": 0}
        event = sse(chunk(choice(0, reasoning_details=[detail])))
        assert transformer.feed(event) == event
    assert told == []
    seal = {"type": "reasoning.text", "signature": SEAL, "index": 0}
    event = sse(chunk(choice(0, reasoning_details=[seal])))
    assert transformer.feed(event) == event
    assert told == [(f"thinking of {A}", SEAL)]


def test_data_over_several_lines_is_one_document() -> None:
    text = json.dumps(chunk(choice(0, content=A)), indent=1)
    event = "".join(f"data: {line}\n" for line in text.split("\n")) + "\n"
    assert joined(transform(event.encode())[0])[0, "content"] == MAIL


def test_the_first_text_is_not_delayed() -> None:
    transformer = FORMAT.new_stream(restorers(ORIGINALS))
    assert b"Hello" in transformer.feed(sse(chunk(choice(0, content="Hello"))))


def test_old_completions_stream_their_texts() -> None:
    events = [
        {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m",
         "choices": [{"index": index, "text": piece, "logprobs": None, "finish_reason": None}]}
        for row in zip_longest(*(list(pieces(text, 3)) for text in TEXTS), fillvalue="")
        for index, piece in enumerate(row)
    ]  # fmt: skip
    stream = b"".join(sse(event) for event in events) + DONE
    out, transformer = transform(stream, name="openai.completions")
    runs = joined(out)
    for index, text in enumerate(TEXTS):
        assert runs[index, "text"] == restored_text(text)
    assert transformer.complete
    held = [d for d in documents(out) if d["choices"][0]["text"].startswith("[EMAIL_0")]
    assert held[0]["choices"][0]["index"] == 2
    assert held[0]["object"] == "text_completion"


SMALL = st.recursive(
    st.none() | st.integers(0, 3) | st.sampled_from(["", A, A[:5], A[5:], "stop", "text"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["choices", "delta", "index", "content", "tool_calls", "function", "custom",
                         "arguments", "input", "finish_reason", "error", "usage", "audio", "type",
                         "transcript", "text", "id", "reasoning_details"]),
        inner,
        max_size=5,
    ),
    max_leaves=15,
)  # fmt: skip


@given(st.lists(SMALL, max_size=5))
@settings(max_examples=150, deadline=None)
def test_no_chunk_of_any_shape_breaks_the_stream(events: list[Any]) -> None:
    stream = b"".join(sse(event) for event in events)
    out, _ = transform(stream)
    for event in SseParser().feed(out):
        json.loads(event.data or "null")


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_pieces_of_a_text_nobody_knows_yet_are_one_text(size: int) -> None:
    value = "CANARY0009Z"
    token = token_of(value)
    events = [chunk(choice(0, narration=piece)) for piece in pieces(f"{token}, {token}", size)]
    stream = wire.get("openai.chat").new_stream(restorers({token: value}))
    out = stream.feed(b"".join(map(sse, [*events, chunk(choice(0, "stop"))]))) + stream.close()
    deltas = [document["choices"][0]["delta"] for document in documents(out)]
    assert "".join(delta.get("narration", "") for delta in deltas) == f"{value}, {value}"
