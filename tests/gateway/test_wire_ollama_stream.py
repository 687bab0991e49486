"""Ollama's answers: lines restored across any chunking, in order, honest about their end."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import restorers, restoring, token_of

from gateway import wire
from gateway.wire.base import Usage, WireRefused
from gateway.wire.body import JsonFormat
from gateway.wire.formats.ollama import NDJSON
from gateway.wire.ndjson import NdjsonFraming

CHAT = wire.get("ollama.chat")
GENERATE = wire.get("ollama.generate")
MAIL = "CANARY0001Z"
NASTY = 'CANARY0002 "q" \\ \n\t{x} é\U0001f600 Z'
ORIGINALS = {token_of(MAIL): MAIL, token_of(NASTY): NASTY}
A, B = token_of(MAIL), token_of(NASTY)
UNKNOWN = "[EMAIL_zzzzzzzz]"
HEAD = {"model": "llama3.2", "created_at": "2026-11-01T00:00:00Z"}
END = {"done": True, "done_reason": "stop", "prompt_eval_count": 26, "eval_count": 298}
TEXT = f"To {A}, not {UNKNOWN} [x] [EMAIL_ but {B}{A} é\U0001f600!"
SHOWN = f"To {MAIL}, not {UNKNOWN} [x] [EMAIL_ but {NASTY}{MAIL} é\U0001f600!"


def pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def chat(content: str, **members: Any) -> dict[str, Any]:
    return {**HEAD, "message": {"role": "assistant", "content": content, **members}, "done": False}


def chat_lines(size: int) -> list[dict[str, Any]]:
    call = {"function": {"name": "send", "arguments": {"to": A, B: [f"<{B}>"]}}}
    return [
        *(chat("", thinking=piece) for piece in pieces(f"about {A}", size)),
        *(chat(piece) for piece in pieces(TEXT, size)),
        chat("", tool_calls=[call]),
        {**HEAD, "message": {"role": "assistant", "content": ""}, **END},
    ]


def ndjson(lines: list[dict[str, Any]], end: bytes = b"\n") -> bytes:
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + end for line in lines)


def transform(data: bytes, cuts: list[int] | None = None, format_: Any = CHAT) -> tuple[bytes, Any]:
    stream = format_.new_stream(restorers(ORIGINALS), media_type=NDJSON)
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts or [])})
    out = [stream.feed(data[a:b]) for a, b in itertools.pairwise(edges)]
    return b"".join([*out, stream.close()]), stream


def read(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_text_and_tool_calls_come_back_and_thinking_keeps_its_tokens(size: int, end: bytes) -> None:
    out, stream = transform(ndjson(chat_lines(size), end))
    lines = read(out)
    assert "".join(line["message"]["content"] for line in lines) == SHOWN
    assert "".join(line["message"].get("thinking", "") for line in lines) == f"about {A}"
    (calls,) = [line["message"]["tool_calls"] for line in lines if "tool_calls" in line["message"]]
    assert calls[0]["function"]["arguments"] == {"to": MAIL, NASTY: [f"<{NASTY}>"]}
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert stream.complete
    assert stream.error is None
    assert (stream.model, stream.stop_reason, stream.usage) == ("llama3.2", "stop", Usage(26, 298))


@given(st.integers(1, 9), st.lists(st.integers(0, 20_000), max_size=40))
@settings(max_examples=60, deadline=None)
def test_chunking_never_changes_a_byte(size: int, cuts: list[int]) -> None:
    data = ndjson(chat_lines(size))
    assert transform(data, cuts)[0] == transform(data)[0]


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_generate_is_restored_and_its_context_is_left_alone(size: int) -> None:
    lines: list[dict[str, Any]] = [
        {**HEAD, "response": piece, "done": False} for piece in pieces(TEXT, size)
    ]
    lines.append({**HEAD, "response": "", "context": [1, 2, 128009], **END})
    out, stream = transform(ndjson(lines), format_=GENERATE)
    got = read(out)
    assert "".join(line["response"] for line in got) == SHOWN
    assert got[-1]["context"] == [1, 2, 128009]
    assert stream.complete


def test_held_text_leaves_before_the_tool_call_after_it() -> None:
    out, _ = transform(ndjson([chat("see [EMA"), chat("", tool_calls=[{"function": {}}])]))
    texts = [line["message"] for line in read(out)]
    assert "".join(message["content"] for message in texts[:-1]) == "see [EMA"
    assert "tool_calls" in texts[-1]


def test_the_last_line_carries_what_was_still_held() -> None:
    last = {**HEAD, "message": {"role": "assistant", "content": ""}, **END}
    out, _ = transform(ndjson([chat("see [EMA"), last]))
    assert "".join(line["message"]["content"] for line in read(out)) == "see [EMA"
    assert read(out)[-1]["done"] is True


def test_lines_without_tokens_keep_their_bytes() -> None:
    data = b' {"done": false ,"message":{"content":"plain", "n": 1.0}}\r\n\n' + ndjson([chat("x")])
    assert transform(data)[0] == data


def test_text_is_delayed_only_while_it_may_become_a_token() -> None:
    stream = CHAT.new_stream(restorers(ORIGINALS), media_type=NDJSON)
    assert read(stream.feed(ndjson([chat("plain ")])))[0]["message"]["content"] == "plain "
    assert stream.feed(ndjson([chat(A[:6])])) == b""
    assert read(stream.feed(ndjson([chat(A[6:])])))[0]["message"]["content"] == MAIL


def test_an_end_without_done_is_no_completion_and_loses_no_text() -> None:
    out, stream = transform(ndjson([chat("see [EMA")]) + b'{"model":"l')
    assert [line["message"]["content"] for line in read(out)] == ["see ", "[EMA"]
    assert all(line["done"] is False for line in read(out))
    assert not stream.complete


def test_a_last_line_without_its_end_counts_when_it_is_whole() -> None:
    data = ndjson(chat_lines(5))
    out, stream = transform(data.rstrip(b"\n"))
    assert stream.complete
    assert read(out) == read(transform(data)[0])


def test_an_error_line_is_restored_and_remembered_after_the_text_before_it() -> None:
    out, stream = transform(ndjson([chat("see [EMA"), {"error": f"no room for {A}"}]))
    assert stream.error == "error"
    assert [line.get("error") for line in read(out)] == [None, None, f"no room for {MAIL}"]


def test_a_whole_answer_is_restored_but_its_thinking() -> None:
    answer = {
        **HEAD,
        "message": {"role": "assistant", "content": TEXT, "thinking": A,
                    "tool_calls": [{"function": {"arguments": {B: A}}}]},
        **END,
    }  # fmt: skip
    whole = CHAT.restore_body(json.dumps(answer).encode(), "application/json", restoring(ORIGINALS))
    got = json.loads(whole.body)
    assert got["message"]["content"] == SHOWN
    assert got["message"]["thinking"] == A
    assert got["message"]["tool_calls"][0]["function"]["arguments"] == {NASTY: MAIL}
    assert (whole.usage, whole.stop_reason, whole.model) == (Usage(26, 298), "stop", "llama3.2")


@pytest.mark.parametrize(
    ("document", "streams"), [({}, True), ({"stream": True}, True), ({"stream": False}, False)]
)
def test_an_answer_streams_unless_the_request_says_no(
    document: dict[str, Any], streams: bool
) -> None:
    assert isinstance(CHAT, JsonFormat)
    assert CHAT.wants_stream(document) is streams
    embed = wire.get("ollama.embed")
    assert isinstance(embed, JsonFormat)
    assert embed.wants_stream(document) is False


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.wire.ndjson.MAX_EVENT", 100)
    framing = NdjsonFraming()
    with pytest.raises(WireRefused):
        framing.feed(b"x" * 101)
