"""What holds for the streams of every format: any chunking, tokens cut anywhere, nothing faked.

Each `Shape` writes one answer (a text, and for most a tool call) as its provider would stream it
and as its provider would send it whole, and reads both back the way a client does.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import restorers, restoring, token_of

from gateway import wire
from gateway.redaction.restore import restore_text
from gateway.wire.base import StreamTransformer
from gateway.wire.event_stream import encode, event_head
from gateway.wire.sse import SseParser

VALUES = ("CANARY0001Z", 'CANARY0002 "q" \\ \n\t{x} é\U0001f600 Z', "a]b[c", "")
TOKENS = [token_of(value) for value in VALUES]
ORIGINALS = dict(zip(TOKENS, VALUES, strict=True))
SSE, JSON, NDJSON = "text/event-stream", "application/json", "application/x-ndjson"
AWS = "application/vnd.amazon.eventstream"
#: Text and arguments of an answer.
Said = tuple[str, Any]


@dataclass(frozen=True)
class Shape:
    """How one format says something. stream: frames of text pieces and argument pieces;
    hear: what a client makes of the documents of the frames it got; whole, hear_whole: the same
    for an answer in one document."""

    format: str
    media: str
    stream: Callable[[list[str], list[str]], list[bytes]]
    hear: Callable[[list[Any]], Said]
    whole: Callable[[str, str], Any]
    hear_whole: Callable[[Any], Said]

    @property
    def id(self) -> str:
        return f"{self.format} {self.media.rpartition('/')[2]}"

    def new(self, originals: dict[str, str]) -> StreamTransformer:
        return wire.get(self.format).new_stream(
            restorers(originals), lambda _text, _seal: None, self.media
        )


def sse(documents: list[Any], *, named: bool = False, end: str = "") -> list[bytes]:
    frames = [
        (f"event: {d['type']}\n" if named else "") + f"data: {json.dumps(d)}\n\n" for d in documents
    ]
    return [frame.encode() for frame in [*frames, *([f"data: {end}\n\n"] if end else [])]]


def lines(documents: list[Any]) -> list[bytes]:
    return [json.dumps(d).encode() + b"\n" for d in documents]


def array(documents: list[Any]) -> list[bytes]:
    frames = [json.dumps(d).encode() for d in documents]
    return [b"[" + frames[0], *[b",\r\n" + frame for frame in frames[1:]], b"\n]\n"]


def aws(documents: list[Any]) -> list[bytes]:
    return [encode(event_head(k), json.dumps(v).encode()) for d in documents for k, v in d.items()]


def chunks(documents: list[Any]) -> list[bytes]:
    packed = [base64.b64encode(json.dumps(d).encode()).decode() for d in documents]
    return aws([{"chunk": {"bytes": data, "p": "abc"}} for data in packed])


def documents_of(media: str, data: bytes) -> list[Any]:
    """Read a client's stream; a stream that is not legal fails here."""
    if media == SSE:
        events = [event.data for event in SseParser().feed(data)]
        return [json.loads(d) for d in events if d is not None and d != "[DONE]"]
    if media == JSON:
        found = json.loads(data)
        assert isinstance(found, list)
        return found
    if media == NDJSON:
        return [json.loads(line) for line in data.splitlines()]
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    messages = [(m.headers[":event-type"], json.loads(m.payload)) for m in buffer]
    return [
        json.loads(base64.b64decode(body["bytes"])) if kind == "chunk" else {kind: body}
        for kind, body in messages
    ]


# -- Anthropic ---


def anthropic_events(text: list[str], args: list[str]) -> list[Any]:
    def block(index: int, start: dict[str, Any], deltas: list[dict[str, Any]]) -> Iterator[Any]:
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}

    message = {"id": "m", "role": "assistant", "content": [], "model": "c", "usage": {}}
    tool = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
    return [
        {"type": "message_start", "message": message},
        *block(0, {"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in text]),
        {"type": "ping"},
        *block(1, tool, [{"type": "input_json_delta", "partial_json": p} for p in args]),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
        {"type": "message_stop"},
    ]


def hear_anthropic(documents: list[Any]) -> Said:
    said = ["", ""]
    is_open: dict[int, bool] = {}
    for document in documents:
        index, kind = document.get("index", -1), document["type"]
        if kind == "content_block_start":
            assert index not in is_open
            is_open[index] = True
        elif kind == "content_block_delta":
            assert is_open[index]
            delta = document["delta"]
            said[index] += delta["text"] if index == 0 else delta["partial_json"]
        elif kind == "content_block_stop":
            is_open[index] = False
    return said[0], json.loads(said[1])


def anthropic_whole(text: str, args: str) -> Any:
    tool = {"type": "tool_use", "id": "t", "name": "n", "input": json.loads(args)}
    return {"type": "message", "content": [{"type": "text", "text": text}, tool]}


def hear_anthropic_whole(document: Any) -> Said:
    return document["content"][0]["text"], document["content"][1]["input"]


# -- OpenAI ---


def chat_chunks(text: list[str], args: list[str]) -> list[Any]:
    def chunk(delta: dict[str, Any], reason: str | None = None, index: int = 0) -> Any:
        choice = {"index": index, "delta": delta, "finish_reason": reason}
        return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}

    tools = [{"index": 0, "id": "t", "function": {"name": "f", "arguments": ""}}]
    pieces = [{"tool_calls": [{"index": 0, "function": {"arguments": p}}]} for p in args]
    return [
        chunk({"role": "assistant", "content": ""}),
        *[chunk({"content": piece}) for piece in text],
        chunk({"tool_calls": tools}),
        *[chunk(piece) for piece in pieces],
        chunk({"content": "other [EMAIL_"}, index=1),
        chunk({}, "tool_calls"),
        chunk({}, "length", index=1),
        {"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": {}},
    ]


def hear_chat(documents: list[Any]) -> Said:
    text, args, other = "", "", ""
    finished: set[int] = set()
    for choice in (c for d in documents for c in d["choices"]):
        assert choice["index"] not in finished
        delta = choice["delta"]
        if choice["index"] == 0:
            text += delta.get("content") or ""
            for call in delta.get("tool_calls", ()):
                args += call["function"].get("arguments", "")
        else:
            other += delta.get("content", "")
        if choice["finish_reason"]:
            finished.add(choice["index"])
    assert other == "other [EMAIL_"
    return text, json.loads(args)


def chat_whole(text: str, args: str) -> Any:
    call = {"id": "t", "type": "function", "function": {"name": "f", "arguments": args}}
    return {"choices": [{"index": 0, "message": {"content": text, "tool_calls": [call]}}]}


def hear_chat_whole(document: Any) -> Said:
    message = document["choices"][0]["message"]
    return message["content"], json.loads(message["tool_calls"][0]["function"]["arguments"])


def completion_chunks(text: list[str], _args: list[str]) -> list[Any]:
    choices: list[dict[str, Any]] = [{"text": p, "finish_reason": None} for p in text]
    choices.append({"text": "", "finish_reason": "stop"})
    return [{"id": "c", "choices": [{"index": 0, **choice}]} for choice in choices]


def response_items(text: str, args: str) -> list[Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "n", "arguments": args}
    return [{"type": "message", "id": "i", "role": "assistant", "content": [part]}, call]


def response_events(text: list[str], args: list[str]) -> list[Any]:
    part = {"item_id": "i", "output_index": 0, "content_index": 0}
    call = {"item_id": "f", "output_index": 1}
    message, function = response_items("".join(text), "".join(args))
    empty = response_items("", "")
    written = {"type": "output_text", "text": ""}
    name = "response.function_call_arguments"
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "r", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": empty[0]},
        {"type": "response.content_part.added", **part, "part": written},
        *[{"type": "response.output_text.delta", **part, "delta": p} for p in text],
        {"type": "response.output_text.done", **part, "text": "".join(text)},
        {"type": "response.content_part.done", **part, "part": message["content"][0]},
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.output_item.added", "output_index": 1, "item": empty[1]},
        *[{"type": f"{name}.delta", **call, "delta": piece} for piece in args],
        {"type": f"{name}.done", **call, "arguments": "".join(args)},
        {"type": "response.output_item.done", "output_index": 1, "item": function},
        {"type": "response.completed", "response": {"id": "r", "output": [message, function]}},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def hear_responses(documents: list[Any]) -> Said:
    assert [d["sequence_number"] for d in documents] == list(range(len(documents)))
    said = ["", ""]
    for document in documents:
        if document["type"].endswith(".delta"):
            said[document["output_index"]] += document["delta"]
    done = {d["type"]: d for d in documents}
    assert done["response.output_text.done"]["text"] == said[0]
    assert done["response.content_part.done"]["part"]["text"] == said[0]
    assert done["response.function_call_arguments.done"]["arguments"] == said[1]
    final = done["response.completed"]["response"]["output"]
    assert [final[0]["content"][0]["text"], final[1]["arguments"]] == said
    return said[0], json.loads(said[1])


# -- Gemini, Ollama, Bedrock ---


def gemini_chunks(text: list[str], args: list[str]) -> list[Any]:
    def chunk(*parts: Any, **members: Any) -> Any:
        return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **members}]}

    call = {"functionCall": {"name": "f", "args": json.loads("".join(args))}}
    return [*[chunk({"text": p}) for p in text], chunk(call), chunk(finishReason="STOP")]


def hear_gemini(documents: list[Any]) -> Said:
    parts = [p for d in documents for p in d["candidates"][0]["content"]["parts"]]
    assert "functionCall" in parts[-1]
    return "".join(p["text"] for p in parts[:-1]), parts[-1]["functionCall"]["args"]


def gemini_whole(text: str, args: str) -> Any:
    return gemini_chunks([text], [args])[0] | {
        "candidates": [{"content": {"parts": [{"text": text}, gemini_call(args)]}}]
    }


def gemini_call(args: str) -> Any:
    return {"functionCall": {"name": "f", "args": json.loads(args)}}


def ollama_lines(text: list[str], args: list[str]) -> list[Any]:
    def line(content: str, **members: Any) -> Any:
        message = {"role": "assistant", "content": content, **members}
        return {"model": "m", "message": message, "done": False}

    call = {"function": {"name": "f", "arguments": json.loads("".join(args))}}
    return [*[line(p) for p in text], line("", tool_calls=[call]), {**line(""), "done": True}]


def hear_ollama(documents: list[Any]) -> Said:
    messages = [d["message"] for d in documents]
    (calls,) = [m["tool_calls"] for m in messages if "tool_calls" in m]
    return "".join(m["content"] for m in messages), calls[0]["function"]["arguments"]


def converse_events(text: list[str], args: list[str]) -> list[Any]:
    def block(index: int, deltas: list[dict[str, Any]]) -> Iterator[Any]:
        for delta in deltas:
            yield {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}
        yield {"contentBlockStop": {"contentBlockIndex": index}}

    tool = {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t", "name": "n"}}}
    return [
        {"messageStart": {"role": "assistant"}},
        *block(0, [{"text": piece} for piece in text]),
        {"contentBlockStart": tool},
        *block(1, [{"toolUse": {"input": piece}} for piece in args]),
        {"metadata": {"usage": {}}},
        {"messageStop": {"stopReason": "tool_use"}},
    ]


def hear_converse(documents: list[Any]) -> Said:
    said = ["", ""]
    for delta in (d["contentBlockDelta"] for d in documents if "contentBlockDelta" in d):
        index, piece = delta["contentBlockIndex"], delta["delta"]
        said[index] += piece["text"] if index == 0 else piece["toolUse"]["input"]
    return said[0], json.loads(said[1])


def converse_whole(text: str, args: str) -> Any:
    tool = {"toolUse": {"toolUseId": "t", "name": "n", "input": json.loads(args)}}
    return {"output": {"message": {"content": [{"text": text}, tool]}}}


def hear_converse_whole(document: Any) -> Said:
    content = document["output"]["message"]["content"]
    return content[0]["text"], content[1]["toolUse"]["input"]


def only_text(member: str) -> tuple[Callable[[list[Any]], Said], Callable[[Any], Said]]:
    def hear(documents: list[Any]) -> Said:
        return "".join(d[member] for d in documents), None

    return hear, lambda document: (document[member], None)


def shape(format_: str, media: str, stream: Any, *rest: Any) -> Any:
    made = Shape(format_, media, stream, *rest)
    return pytest.param(made, id=made.id)


ANTHROPIC = hear_anthropic, anthropic_whole, hear_anthropic_whole
CHAT = hear_chat, chat_whole, hear_chat_whole
GEMINI = hear_gemini, gemini_whole, lambda d: hear_gemini([d])
COMPLETION, GENERATE, TITAN = (
    only_text("completion"),
    only_text("response"),
    only_text("outputText"),
)


def completions(documents: list[Any]) -> Said:
    return "".join(c["text"] for d in documents for c in d["choices"]), None


SHAPES = [
    *[
        shape(name, SSE, lambda t, a: sse(anthropic_events(t, a), named=True), *ANTHROPIC)
        for name in ("anthropic.messages", "vertex.anthropic")
    ],
    *[
        shape(name, SSE, lambda t, a: sse(chat_chunks(t, a), end="[DONE]"), *CHAT)
        for name in ("openai.chat", "azure.chat", "vertex.mistral")
    ],
    shape(
        "openai.completions",
        SSE,
        lambda t, a: sse(completion_chunks(t, a), end="[DONE]"),
        completions,
        lambda text, _: {"choices": [{"text": text}]},
        lambda d: completions([d]),
    ),
    shape(
        "openai.responses",
        SSE,
        lambda t, a: sse(response_events(t, a), named=True),
        hear_responses,
        lambda text, args: {"output": response_items(text, args)},
        lambda d: (d["output"][0]["content"][0]["text"], json.loads(d["output"][1]["arguments"])),
    ),
    *[
        shape(name, SSE, lambda t, a: sse(gemini_chunks(t, a)), *GEMINI)
        for name in ("gemini.stream", "vertex.stream")
    ],
    shape("gemini.stream", JSON, lambda t, a: array(gemini_chunks(t, a)), *GEMINI),
    shape(
        "ollama.chat",
        NDJSON,
        lambda t, a: lines(ollama_lines(t, a)),
        hear_ollama,
        lambda text, args: (
            ollama_lines([], [args])[0]
            | {"message": {**ollama_lines([], [args])[0]["message"], "content": text}}
        ),
        lambda d: hear_ollama([d]),
    ),
    shape(
        "ollama.generate",
        NDJSON,
        lambda t, _: lines([*[{"response": p} for p in t], {"response": "", "done": True}]),
        GENERATE[0],
        lambda text, _: {"response": text},
        GENERATE[1],
    ),
    shape(
        "anthropic.complete",
        SSE,
        lambda t, _: sse(
            [
                *[{"type": "completion", "completion": p, "stop_reason": None} for p in t],
                {"type": "completion", "completion": "", "stop_reason": "stop_sequence"},
            ],
            named=True,
        ),
        COMPLETION[0],
        lambda text, _: {"type": "completion", "completion": text},
        COMPLETION[1],
    ),
    shape("bedrock.invoke_stream", AWS, lambda t, a: chunks(anthropic_events(t, a)), *ANTHROPIC),
    shape(
        "bedrock.invoke_stream",
        AWS,
        lambda t, _: chunks(
            [*[{"outputText": p} for p in t], {"outputText": "", "completionReason": "FINISH"}]
        ),
        TITAN[0],
        lambda text, _: {"outputText": text},
        TITAN[1],
    ),
    shape(
        "bedrock.converse_stream",
        AWS,
        lambda t, a: aws(converse_events(t, a)),
        hear_converse,
        converse_whole,
        hear_converse_whole,
    ),
]

ATOMS = st.sampled_from(
    [
        *TOKENS * 2,
        "[EMAIL_zzzzzzzz]",
        "[EMAIL_",
        "[[",
        "[x]",
        "]",
        "\\[",
        " ",
        "wörd ",
        "日本\U0001f600",
        "\n",
        '"q"',
        "\\",
        "{",
    ]
)
TEXTS = st.lists(ATOMS, max_size=8).map("".join)


def is_prose(text: str) -> bool:
    """Text that opens like JSON has its originals escaped, which is another test's matter."""
    return text.lstrip()[:1] not in ("{", "[")


@st.composite
def cuts(draw: st.DrawFn, text: str) -> list[str]:
    """A text in pieces: of one size, or cut anywhere."""
    size = draw(st.sampled_from([0, 1, 3, 7]))
    if size:
        return [text[at : at + size] for at in range(0, len(text), size)]
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=12)) | {0, len(text)})
    return [text[a:b] for a, b in pairwise(places)]


@st.composite
def answers(draw: st.DrawFn) -> tuple[list[str], list[str], dict[str, Any]]:
    """Pieces of a text and of arguments, and what the arguments become."""
    text = draw(TEXTS)
    plain, inner, key = draw(TEXTS), draw(TEXTS.filter(is_prose)), draw(st.sampled_from("kéß"))
    plain = plain if is_prose(plain) else f". {plain}"
    arguments = {"a": plain, key: [{"n": json.dumps({"b": inner})}], "z": 12345678901234567890}
    written = json.dumps(arguments, ensure_ascii=draw(st.booleans()))
    expected = {
        "a": restore_text(plain, ORIGINALS),
        key: [{"n": {"b": restore_text(inner, ORIGINALS)}}],
        "z": 12345678901234567890,
    }
    return draw(cuts(text)), draw(cuts(written)), expected


def opened(arguments: Any) -> Any:
    """Arguments with the JSON text inside them read."""
    return {
        name: [{"n": json.loads(item["n"])} for item in value] if isinstance(value, list) else value
        for name, value in arguments.items()
    }


@pytest.mark.parametrize("shape", SHAPES)
@given(
    answer=answers(),
    size=st.sampled_from([1, 3, 50, 1 << 20]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
@settings(max_examples=15, deadline=None)
def test_any_chunking_restores_what_a_whole_answer_would_say(
    shape: Shape, answer: tuple[list[str], list[str], dict[str, Any]], size: int, end: str
) -> None:
    text_pieces, argument_pieces, expected = answer
    stream = b"".join(shape.stream(text_pieces, argument_pieces))
    if shape.media == SSE:
        stream = stream.replace(b"\n", end.encode())
    transformer = shape.new(ORIGINALS)
    out = b"".join(transformer.feed(stream[at : at + size]) for at in range(0, len(stream), size))
    assert transformer.complete
    assert transformer.error is None
    text, arguments = shape.hear(documents_of(shape.media, out + transformer.close()))
    whole = shape.whole("".join(text_pieces), "".join(argument_pieces))
    body = wire.get(shape.format).restore_body(
        json.dumps(whole).encode(), JSON, restoring(ORIGINALS)
    )
    assert (text, arguments) == shape.hear_whole(json.loads(body.body))
    if is_prose("".join(text_pieces)):
        assert text == restore_text("".join(text_pieces), ORIGINALS)
    assert arguments is None or opened(arguments) == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_a_stream_is_complete_only_with_its_last_frame(shape: Shape) -> None:
    text = f"Write to {TOKENS[0]} now."
    frames = shape.stream([text[at : at + 3] for at in range(0, len(text), 3)], ['{"to": 1}'])
    transformer = shape.new(ORIGINALS)
    for frame in frames:
        assert not transformer.complete
        transformer.feed(frame[:-1])
        transformer.feed(frame[-1:])
    assert transformer.complete
    for count in range(len(frames)):
        cut = shape.new(ORIGINALS)
        cut.feed(b"".join(frames[:count]) + frames[count][: len(frames[count]) // 2])
        cut.close()
        assert not cut.complete


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [1, 2, 7, 1 << 20])
def test_a_stream_without_tokens_keeps_every_byte(shape: Shape, size: int) -> None:
    text = 'plain wörds 日本\U0001f600 (a) {b} "q"\n'
    arguments = json.dumps({"a": text, "b": json.dumps({"c": text})}, ensure_ascii=False)
    stream = b"".join(shape.stream(list(text), list(arguments)))
    stream = stream.replace(b"\n", b"\r\n") if shape.media == SSE else stream
    stream = stream.replace(b"other [EMAIL_", b"other (EMAIL_")
    transformer = shape.new(ORIGINALS)
    out = [transformer.feed(stream[at : at + size]) for at in range(0, len(stream), size)]
    assert b"".join([*out, transformer.close()]) == stream


@pytest.mark.parametrize("shape", SHAPES)
def test_text_that_cannot_become_a_token_waits_for_one_frame_at_most(shape: Shape) -> None:
    pieces = ["Hi ", "[", "x] ", "[[", " a", "[0", "]", "[EMAIL", " \\", "n", "[E", "E]", " end"]
    frames, without = shape.stream(pieces, ["{}"]), shape.stream([], ["{}"])
    start = next(n for n, (a, b) in enumerate(zip(frames, without, strict=False)) if a != b)
    transformer = shape.new(ORIGINALS)
    sizes = [len(transformer.feed(frame)) for frame in frames[: start + len(pieces)]]
    assert all(sizes[: start + 1]), "the first text is not held"
    assert all(a or b for a, b in pairwise(sizes))
