"""Answers whose JSON is not to the letter, or that are no JSON: restored as far as possible.

A request like that is refused; an answer is passed on, because a client would have read it too.
"""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from botocore.eventstream import EventStreamBuffer
from wire_fakes import restorers, restoring, token_of

from gateway import wire
from gateway.wire import WireRefused
from gateway.wire.event_stream import encode, event_head
from gateway.wire.stream import Run
from gateway.wire.strictjson import loads, read_answer, write_answer
from gateway.wire.walk import restore_string

MAIL = 'CANARY0001 "q" \\ Z'
A = token_of(MAIL)
ORIGINALS = {A: MAIL}
SSE, NDJSON = "text/event-stream", "application/x-ndjson"
STREAMS = [
    "anthropic.messages", "anthropic.complete", "vertex.anthropic", "openai.chat", "azure.chat",
    "vertex.mistral", "openai.completions", "openai.responses", "gemini.stream", "vertex.stream",
    "ollama.chat",
]  # fmt: skip


def streamed(format_: str, media: str, data: bytes) -> bytes:
    transformer = wire.get(format_).new_stream(restorers(ORIGINALS), lambda _a, _b: None, media)
    out = [transformer.feed(data[at : at + 1]) for at in range(len(data))]
    return b"".join([*out, transformer.close()])


@pytest.mark.parametrize(
    ("written", "again"),
    [
        (b'{"a":NaN,"b":[Infinity,-Infinity]}', None),
        (rb'{"a":"\ud83d x","b":["\ude00"]}', None),
        (rb'{"a":"\ud83d\ude00"}', '{"a":"\U0001f600"}'.encode()),
        (b'\xef\xbb\xbf{"a":1.50,"b":1234567890123456789}', b'{"a":1.50,"b":1234567890123456789}'),
        (b'{"a":1,"b":2,"a":3}', b'{"a":3,"b":2}'),
        (b'{"a":"\xff"}', '{"a":"\ufffd"}'.encode()),
        (rb'{"\ud83d":1}', '{"\ufffd":1}'.encode()),
    ],
)  # fmt: skip
def test_what_only_a_strict_reader_minds_is_read_and_written_again(
    written: bytes, again: bytes | None
) -> None:
    assert write_answer(read_answer(written)) == (again or written)


@pytest.mark.parametrize("data", [b"", b"{", b'{"a":1} x', b"\xff\xfe{}", b"[" * 200 + b"]" * 200])
def test_what_no_reader_takes_is_refused(data: bytes) -> None:
    with pytest.raises(WireRefused):
        read_answer(data)


@pytest.mark.parametrize("format_", STREAMS)
def test_events_without_json_are_restored_as_text(format_: str) -> None:
    stream = f"event: odd\r\nid: 1\r\ndata: see {A}\r\ndata: and {A}\r\n\r\n"
    out = streamed(format_, SSE, stream.encode() + b": end\r\n\r\n")
    assert out.decode() == stream.replace(A, MAIL) + ": end\r\n\r\n"


@pytest.mark.parametrize("format_", STREAMS)
def test_an_event_with_broken_json_gets_its_originals_escaped(format_: str) -> None:
    out = streamed(format_, SSE, f'data: {{"text": "to {A}", oops\n\n'.encode())
    assert out.decode() == f'data: {{"text": "to {json.dumps(MAIL)[1:-1]}", oops\n\n'


@pytest.mark.parametrize("format_", STREAMS)
def test_an_event_nobody_knows_is_restored_whole(format_: str) -> None:
    data = json.dumps({"later": [A, {"type": ["odd"], "note": A}], "n": 1.50, A: json.dumps([A])})
    out = streamed(format_, SSE, f"retry: 3\ndata: {data}\n\n".encode())
    assert out.startswith(b"retry: 3\ndata: ")
    found = json.loads(out.removeprefix(b"retry: 3\ndata: "))
    assert found["later"] == [MAIL, {"type": ["odd"], "note": MAIL}]
    assert json.loads(next(v for v in found.values() if isinstance(v, str))) == [MAIL]


def test_lines_and_messages_without_json_are_restored_as_text() -> None:
    assert (
        streamed("ollama.chat", NDJSON, f"see {A}\r\n\n".encode()) == f"see {MAIL}\r\n\n".encode()
    )
    message = encode(event_head("later"), f"see {A}".encode())
    buffer = EventStreamBuffer()
    buffer.add_data(
        streamed("bedrock.converse_stream", "application/vnd.amazon.eventstream", message)
    )
    assert [m.payload for m in buffer] == [f"see {MAIL}".encode()]


def test_half_a_character_does_not_keep_a_token_in_the_text() -> None:
    chunk = '{"choices":[{"index":0,"delta":{"content":"%s"},"logprob":-Infinity}]}'
    stream = f"data: {chunk % (chr(92) + 'ud83d ' + A[:6])}\n\ndata: {chunk % A[6:]}\n\n"
    out = streamed("openai.chat", SSE, f"{stream}data: [DONE]\n\n".encode()).decode()
    documents = [json.loads(line[6:]) for line in out.splitlines() if line.startswith("data: {")]
    text = "".join(d["choices"][0]["delta"]["content"] for d in documents)
    assert text == f"\ud83d {MAIL}"
    assert out.count("-Infinity") == len(documents)


def test_a_completion_of_an_earlier_version_names_no_type() -> None:
    pieces = [*[A[at : at + 3] for at in range(0, len(A), 3)], ""]
    events = [
        {"completion": piece, "stop_reason": None if piece else "stop_sequence"} for piece in pieces
    ]
    stream = "".join(f"event: completion\ndata: {json.dumps(event)}\n\n" for event in events)
    transformer = wire.get("anthropic.complete").new_stream(restorers(ORIGINALS))
    out = (transformer.feed(stream.encode()) + transformer.close()).decode()
    found = [json.loads(line[6:]) for line in out.splitlines() if line.startswith("data: ")]
    assert "".join(event["completion"] for event in found) == MAIL
    assert transformer.complete


def spelled(text: str, which: str) -> str:
    return "".join(f"\\u{ord(char):04x}" if char in which else char for char in text)


@pytest.mark.parametrize("which", ["[", "]", "[]", "_", A, "E7"])
@pytest.mark.parametrize("original", [MAIL, '"', "\\", "\n", "\U0001d4b3\U0001f600", "\u00e9"])
def test_a_token_that_tool_arguments_spell_in_escapes_is_restored_wherever_it_is_cut(
    which: str, original: str
) -> None:
    token = spelled(A, which)
    written = f'{{"a\\\\":"\\n{token}\\u00e9\\\\u005b\\u003c","b":["\\\\{token}"]}}'
    meant = {"a\\": f"\n{original}\u00e9\\u005b<", "b": [f"\\{original}"]}
    for size in (1, 2, 3, 5, len(written)):
        for start in range(size):
            run = Run(restorers({A: original}), must_be_json=True)
            cuts = [0, *range(start or size, len(written), size), len(written)]
            pieces = [written[a:b] for a, b in pairwise(cuts)]
            assert json.loads("".join([*map(run.feed, pieces), run.flush()])) == meant
    assert json.loads(restore_string(written, restoring({A: original}))) == meant


def test_an_escape_in_tool_arguments_holds_no_piece_back() -> None:
    run = Run(restorers(ORIGINALS), must_be_json=True)
    pieces = ['{"a":"', "\\", "n", "\\", "\\", "x\\", '"', '"', "}"]
    assert [run.feed(piece) for piece in pieces] == pieces
    assert not run.held


def test_the_end_of_arguments_spelled_in_escapes_says_what_their_pieces_said() -> None:
    written = f'{{"a":"\\n{spelled(A, "[E]")}"}}'
    place = {"item_id": "i", "output_index": 0}
    kind = "response.function_call_arguments"
    events = [{"type": f"{kind}.delta", **place, "delta": piece} for piece in written]
    events.append({"type": f"{kind}.done", **place, "arguments": written})
    stream = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
    out = streamed("openai.responses", SSE, stream.encode()).decode()
    found = [json.loads(line[6:]) for line in out.splitlines() if line.startswith("data: ")]
    assert len(found) == len(events)
    pieces = "".join(event["delta"] for event in found[:-1])
    assert json.loads(pieces) == json.loads(found[-1]["arguments"]) == {"a": f"\n{MAIL}"}


def test_a_cut_escape_at_the_end_of_tool_arguments_comes_out_as_it_was() -> None:
    for written in ('{"a":"\\', '{"a":"\\u', '{"a":"\\u00', '{"a":"\\u005', '{"a":"\\u005b'):
        run = Run(restorers(ORIGINALS), must_be_json=True)
        out = "".join([*map(run.feed, written), run.flush()])
        assert out in (written, written.replace("\\u005b", "["))


@pytest.mark.parametrize("format_", STREAMS)
def test_a_name_in_data_nobody_knows_is_restored(format_: str) -> None:
    data = json.dumps({"later": {"by": [{A: A, "n": {"x": 1}}]}, "@type": "odd"})
    out = streamed(format_, SSE, f"data: {data}\n\n".encode())
    found = json.loads(out.removeprefix(b"data: "))
    assert found == {"later": {"by": [{MAIL: MAIL, "n": {"x": 1}}]}, "@type": "odd"}


@pytest.mark.parametrize("format_", ["anthropic.messages", "openai.chat", "gemini.generate"])
def test_a_whole_answer_in_which_nothing_changes_keeps_its_bytes(format_: str) -> None:
    data = b'{ "a" : [ 1.50, "\\u00e9" ],\n "b": "x" }\n'
    answer = wire.get(format_).restore_body(data, "application/json", restoring(ORIGINALS))
    assert answer.body == data


def test_requests_are_still_read_strictly() -> None:
    for data in (b'{"a":1,"a":2}', rb'{"a":"\ud83d"}', b'{"a":NaN}', b'\xef\xbb\xbf{"a":1}'):
        with pytest.raises(WireRefused):
            loads(data)
