"""Streamed responses: restored across any chunking, each event the provider's, in its order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import restorers, restoring, token_of

from gateway import wire
from gateway.wire.base import Usage
from gateway.wire.formats.openai_responses_stream import ResponsesStream
from gateway.wire.sse import SseParser, serialise

FORMAT = wire.get("openai.responses")
MAIL = "CANARY0001Z"
NASTY = 'CANARY0002 "q" \\ \n\t{x} é\U0001f600 Z'
ORIGINALS = {token_of(MAIL): MAIL, token_of(NASTY): NASTY}
A, B = token_of(MAIL), token_of(NASTY)
UNKNOWN = "[EMAIL_zzzzzzzz]"
SEAL = "gAAAAAB" + "x_-9" * 80
USAGE = {
    "input_tokens": 50,
    "input_tokens_details": {"cached_tokens": 20},
    "output_tokens": 8,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 58,
}

#: Item type, the event its pieces come in, the member they fill.
STREAMED = {
    "function_call": ("function_call_arguments", "arguments"),
    "mcp_call": ("mcp_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
    "code_interpreter_call": ("code_interpreter_call_code", "code"),
}


def pieces(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def response(output: list[dict[str, Any]], status: str, **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-6-sol",
        "status": status,
        "instructions": f"Write to {A}",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": USAGE if status != "in_progress" else None,
        **more,
    }


def events(items: list[dict[str, Any]], size: int, end: str = "completed") -> list[dict[str, Any]]:
    """What a provider sends for these items, in deltas of `size`."""
    found: list[dict[str, Any]] = [
        {"type": "response.created", "response": response([], "in_progress")},
        {"type": "response.in_progress", "response": response([], "in_progress")},
    ]
    for index, item in enumerate(items):
        found += item_events(item, index, size)
    found.append({"type": f"response.{end}", "response": response(items, end)})
    return [{**event, "sequence_number": number} for number, event in enumerate(found)]


def item_events(item: dict[str, Any], index: int, size: int) -> Iterator[dict[str, Any]]:
    kind = item["type"]
    at = {"item_id": item["id"], "output_index": index}
    name, member = STREAMED.get(kind, ("", ""))
    empty: dict[str, Any] = {"message": {"content": []}, "reasoning": {"summary": []}}.get(kind, {})
    start = {**item, **empty, **({member: ""} if member else {})}
    yield {"type": "response.output_item.added", "output_index": index, "item": start}
    for number, part in enumerate(item.get("content", ()) if kind == "message" else ()):
        yield from part_events(part, {**at, "content_index": number}, size)
    for number, part in enumerate(item.get("summary", ())):
        here = {**at, "summary_index": number}
        event = "response.reasoning_summary"
        yield {"type": f"{event}_part.added", **here, "part": {**part, "text": ""}}
        for piece in pieces(part["text"], size):
            yield {"type": f"{event}_text.delta", **here, "delta": piece}
        yield {"type": f"{event}_text.done", **here, "text": part["text"]}
        yield {"type": f"{event}_part.done", **here, "part": part}
    if member:
        for piece in pieces(item[member], size):
            yield {"type": f"response.{name}.delta", **at, "delta": piece}
        yield {"type": f"response.{name}.done", **at, member: item[member]}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def part_events(part: dict[str, Any], at: dict[str, Any], size: int) -> Iterator[dict[str, Any]]:
    member = "refusal" if part["type"] == "refusal" else "text"
    name = "refusal" if part["type"] == "refusal" else "output_text"
    more = {"logprobs": []} if name == "output_text" else {}
    yield {"type": "response.content_part.added", **at, "part": {**part, member: ""}}
    for piece in pieces(part[member], size):
        yield {"type": f"response.{name}.delta", **at, "delta": piece, **more}
    for number, annotation in enumerate(part.get("annotations", ())):
        yield {"type": "response.output_text.annotation.added", **at, "annotation": annotation,
               "annotation_index": number}  # fmt: skip
    yield {"type": f"response.{name}.done", **at, member: part[member], **more}
    yield {"type": "response.content_part.done", **at, "part": part}


def sse(documents: list[dict[str, Any]], end: str = "\n") -> bytes:
    text = b"".join(
        serialise(event["type"], json.dumps(event, ensure_ascii=False)) for event in documents
    ).decode()
    return text.replace("\n", end).encode()


def chunks(stream: bytes, cuts: list[int]) -> Iterator[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    for start, end in pairwise(edges):
        yield stream[start:end]


def transform(stream: bytes, cuts: list[int] | None = None) -> tuple[bytes, ResponsesStream]:
    transformer = FORMAT.new_stream(restorers(ORIGINALS))
    assert isinstance(transformer, ResponsesStream)
    out = b"".join(transformer.feed(chunk) for chunk in chunks(stream, cuts or []))
    return out + transformer.close(), transformer


def read(stream: bytes) -> list[dict[str, Any]]:
    parser = SseParser()
    found = []
    for event in [*parser.feed(stream), *parser.close()]:
        assert event.data is not None
        document = json.loads(event.data)
        assert event.event == document["type"]
        found.append(document)
    return found


def text(name: str, *texts: str) -> dict[str, Any]:
    parts = [{"type": "output_text", "text": each, "annotations": []} for each in texts]
    return {"type": "message", "id": name, "role": "assistant", "status": "completed",
            "content": parts}  # fmt: skip


def call(name: str, arguments: str, kind: str = "function_call") -> dict[str, Any]:
    member = STREAMED[kind][1]
    made = {"type": kind, "id": name, "call_id": f"call_{name}", "name": "f", member: arguments}
    return {**made, "status": "completed"}


ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "encrypted_content": SEAL,
     "summary": [{"type": "summary_text", "text": f"about {A} and {B}"}]},
    text("msg_1", f"Dear {A}, [EMAIL_ [x] {B}{A} {UNKNOWN} é[[{A}]", json.dumps({"a": B, "n": [A]}),
         "ends in [EMAIL_x", f"{A}", "[", f"[x] see {A}, and \\[{A[1:-1]}\\]"),
    {"type": "message", "id": "msg_2", "role": "assistant", "status": "completed", "content": [
        {"type": "refusal", "refusal": f"I will not write to {A}: [EMAIL"},
        {"type": "output_text", "text": f"See {A} [", "annotations": [
            {"type": "url_citation", "title": A, "url": f"https://x/{A}", "start_index": 0,
             "end_index": 4}]}]},
    call("fc_1", json.dumps({"to": A, "body": B, "deep": json.dumps({B: [B]})})),
    call("fc_2", json.dumps([A, "[EMAIL_"]) + "[EMAIL"),
    call("mcp_1", json.dumps({B: A}), "mcp_call"),
    call("ctc_1", f"*** Begin Patch\n+{B}\n+{A}\n*** End Patch [", "custom_tool_call"),
    call("ci_1", f"print('{A}', [x for x in '{B}'])[", "code_interpreter_call"),
]  # fmt: skip


def accumulated(found: list[dict[str, Any]]) -> dict[tuple[Any, ...], str]:
    """What the deltas of each run add up to."""
    sums: dict[tuple[Any, ...], str] = {}
    for event in found:
        if event["type"].endswith(".delta"):
            key = (event["type"].removesuffix(".delta"), event["output_index"],
                   event.get("content_index", event.get("summary_index")))  # fmt: skip
            sums[key] = sums.get(key, "") + event["delta"]
    return sums


def finals(found: list[dict[str, Any]]) -> dict[tuple[Any, ...], str]:
    """What the `done` event of each run says."""
    members = ("text", "refusal", "arguments", "input", "code")
    return {
        (event["type"].removesuffix(".done"), event["output_index"],
         event.get("content_index", event.get("summary_index"))): event[member]
        for event in found if event["type"].endswith(".done")
        for member in members if member in event
    }  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_every_text_is_restored_and_its_deltas_add_up_to_it(size: int) -> None:
    sent = events(ITEMS, size)
    found = read(transform(sse(sent))[0])
    assert accumulated(found) == finals(found)
    restore = restoring(ORIGINALS)
    for key, said in finals(found).items():
        if "reasoning" in key[0]:
            assert A in said
            continue
        before = finals(sent)[key]
        if before.startswith(("{", "[")) or "arguments" in key[0]:
            continue
        assert said == restore(before)
    assert json.loads(finals(found)["response.function_call_arguments", 3, None]) == {
        "to": MAIL,
        "body": NASTY,
        "deep": json.dumps({NASTY: [NASTY]}, ensure_ascii=False),
    } or json.loads(
        json.loads(finals(found)["response.function_call_arguments", 3, None])["deep"]
    ) == {NASTY: [NASTY]}
    assert json.loads(finals(found)["response.mcp_call_arguments", 5, None]) == {NASTY: MAIL}


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_numbers_are_the_providers_and_items_and_parts_agree(size: int) -> None:
    sent = events(ITEMS, size)
    found = read(transform(sse(sent))[0])
    numbers = [event["sequence_number"] for event in found]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(len(sent)))
    output = found[-1]["response"]["output"]
    said = finals(found)
    for event in found:
        if event["type"] == "response.output_item.done":
            assert event["item"] == output[event["output_index"]]
        if event["type"] == "response.content_part.done":
            part = output[event["output_index"]]["content"][event["content_index"]]
            assert event["part"] == part
    assert output[1]["content"][0]["text"] == said["response.output_text", 1, 0]
    assert output[3]["arguments"] == said["response.function_call_arguments", 3, None]
    assert output[0] == ITEMS[0], "a thought, or its seal, was touched"
    assert found[0]["response"]["instructions"] == f"Write to {MAIL}"


def test_an_event_is_added_only_where_another_stood_before_the_end_of_the_text() -> None:
    sent = events(ITEMS, 5)
    found = read(transform(sse(sent))[0])
    extra = len(found) - len(sent)
    assert extra == 1  # the citation between the last piece and the end of msg_2
    repeated = [a for a, b in pairwise(found) if a["sequence_number"] == b["sequence_number"]]
    assert [event["type"] for event in repeated] == ["response.output_text.annotation.added"]
    without = [item for item in ITEMS if item["id"] != "msg_2"]
    sent = events(without, 5)
    assert len(read(transform(sse(sent))[0])) == len(sent)


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 40),
    cuts=st.lists(st.integers(0, 1 << 20), max_size=40),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_any_chunking_gives_the_same_bytes(size: int, cuts: list[int], end: str) -> None:
    stream = sse(events(ITEMS, size), end)
    whole, _ = transform(stream)
    assert transform(stream, cuts)[0] == whole


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_deltas_of_any_text_add_up_to_what_the_end_says(data: st.DataObject) -> None:
    bits = st.sampled_from(
        [A, B, UNKNOWN, "[", "]", "\\", "\\[", "{", '{"a": "', '"', "[EMAIL_", " ", "x", "é", "\n",
         json.dumps({"k": A}), json.dumps(json.dumps([B]))]
    )  # fmt: skip
    said = "".join(data.draw(st.lists(bits, min_size=1, max_size=12)))
    size = data.draw(st.integers(1, 30))
    items = [text("msg_1", said), *(call(f"x{n}", said, kind) for n, kind in enumerate(STREAMED))]
    found = read(transform(sse(events(items, size)))[0])
    assert accumulated(found) == finals(found)
    output = found[-1]["response"]["output"]
    assert [event["item"] for event in found if event["type"].endswith("item.done")] == output


def test_parallel_items_do_not_mix() -> None:
    first, second = A[:7], A[7:]
    at = [{"item_id": f"fc_{n}", "output_index": n} for n in (0, 1)]
    name = "response.function_call_arguments"
    arguments = [f'{{"a":"{A}"}}', f'{{"b":"x{A}"}}']
    sent = [
        *({"type": "response.output_item.added", "output_index": n,
           "item": {"type": "function_call", "id": f"fc_{n}", "arguments": ""}} for n in (0, 1)),
        {"type": f"{name}.delta", **at[0], "delta": '{"a":"' + first},
        {"type": f"{name}.delta", **at[1], "delta": '{"b":"x' + first},
        {"type": f"{name}.delta", **at[0], "delta": second + '"}'},
        {"type": f"{name}.done", **at[0], "arguments": arguments[0]},
        {"type": f"{name}.delta", **at[1], "delta": second + '"}'},
        {"type": f"{name}.done", **at[1], "arguments": arguments[1]},
    ]  # fmt: skip
    found = read(transform(sse([{**e, "sequence_number": n} for n, e in enumerate(sent)]))[0])
    assert (
        accumulated(found)
        == finals(found)
        == {
            (name, 0, None): f'{{"a":"{MAIL}"}}',
            (name, 1, None): f'{{"b":"x{MAIL}"}}',
        }
    )


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_runs_interleaved_in_any_way_add_up_and_end_in_order(data: st.DataObject) -> None:
    said = [f"Dear {A}, [EMAIL_", json.dumps({"to": [A, B]}), f"+{B}[", f"{A}"]
    kinds = ["output_text", "function_call_arguments", "custom_tool_call_input", "refusal"]
    members = ["text", "arguments", "input", "refusal"]
    queues: list[list[dict[str, Any]]] = []
    for index, (kind, text_, member) in enumerate(zip(kinds, said, members, strict=True)):
        at: dict[str, Any] = {"item_id": f"i_{index}", "output_index": index}
        if kind in ("output_text", "refusal"):
            at["content_index"] = 0
        size = data.draw(st.integers(1, 9))
        deltas = [{"type": f"response.{kind}.delta", **at, "delta": p} for p in pieces(text_, size)]
        queues.append([*deltas, {"type": f"response.{kind}.done", **at, member: text_}])
    sent: list[dict[str, Any]] = []
    while any(queues):
        queue = data.draw(st.sampled_from([queue for queue in queues if queue]))
        sent.append({**queue.pop(0), "sequence_number": len(sent)})
    found = read(transform(sse(sent))[0])
    assert accumulated(found) == finals(found)
    numbers = [event["sequence_number"] for event in found]
    assert numbers == sorted(numbers)
    ended: set[Any] = set()
    for event in found:
        place = event["output_index"]
        assert place not in ended, "text after its end"
        ended |= {place} if event["type"].endswith(".done") else set()
    assert finals(found)["response.output_text", 0, 0] == f"Dear {MAIL}, [EMAIL_"


def test_shell_commands_and_their_output_are_restored_piece_by_piece() -> None:
    at = {"output_index": 0, "command_index": 1}
    sent: list[dict[str, Any]] = [
        {"type": "response.shell_call_command.added", **at, "command": "mail " + A[:4]},
        {"type": "response.shell_call_command.delta", **at, "delta": A[4:9]},
        {"type": "response.shell_call_command.delta", **at, "delta": A[9:] + " ["},
        {"type": "response.shell_call_command.done", **at, "command": f"mail {A} ["},
        {"type": "response.shell_call_output_content.delta", **at,
         "delta": {"stdout": A[:5], "stderr": B[:6]}},
        {"type": "response.shell_call_output_content.delta", **at,
         "delta": {"stdout": A[5:], "stderr": B[6:]}},
        {"type": "response.shell_call_output_content.done", **at,
         "output": [{"stdout": A, "stderr": B}]},
    ]  # fmt: skip
    found = read(transform(sse(sent))[0])
    assert len(found) == len(sent)
    command = found[0]["command"] + found[1]["delta"] + found[2]["delta"]
    assert command == found[3]["command"] == f"mail {MAIL} ["
    for name, value in (("stdout", MAIL), ("stderr", NASTY)):
        assert found[4]["delta"][name] + found[5]["delta"][name] == value
        assert found[6]["output"][0][name] == value


def test_what_nothing_changed_in_passes_as_the_same_bytes() -> None:
    plain = [text("msg_1", "Nothing to see [here]."), call("fc_1", '{"a": [1, "[x]"]}')]
    stream = sse(events(plain, 1000)).replace(A.encode(), b"nobody")
    stream = b": comment\n\n" + stream.replace(b'"type"', b' "type" ')
    assert transform(stream)[0] == stream


def test_pictures_and_sound_pass_untouched() -> None:
    sent = [
        {"type": "response.image_generation_call.partial_image", "partial_image_b64": "aGk=" + A},
        {"type": "response.audio.delta", "delta": "aGk="},
        {"type": "response.audio.transcript.delta", "delta": A[:5]},
        {"type": "response.audio.transcript.delta", "delta": A[5:]},
        {"type": "response.audio.transcript.done"},
    ]
    found = read(transform(sse(sent))[0])
    assert found[:2] == sent[:2]
    assert found[2]["delta"] + found[3]["delta"] == MAIL


def test_text_waits_for_one_event_and_no_longer() -> None:
    transformer = FORMAT.new_stream(restorers(ORIGINALS))
    sent = events([text("msg_1", f"Dear Sir, {A}")], 1000)
    first = next(index for index, event in enumerate(sent) if event["type"].endswith("delta"))
    sent[first]["delta"] = "Dear Sir, [EMA"
    for event in sent[:first]:
        assert transformer.feed(sse([event])) != b""
    assert transformer.feed(sse([sent[first]])) == b""
    assert b"Dear Sir, " in transformer.feed(sse([{**sent[first], "delta": "IL_"}]))
    plain = FORMAT.new_stream(restorers(ORIGINALS))
    assert b"Dear" in plain.feed(sse([{**sent[first], "delta": "Dear"}]))


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_a_stream_that_breaks_off_gives_its_text_and_no_end(cut: int) -> None:
    sent = events([text("msg_1", f"Dear {A}, [EMA")], 4)
    deltas = [n for n, event in enumerate(sent) if event["type"].endswith("delta")]
    found, transformer = transform(sse(sent[: deltas[-1] + 1])[:-cut])
    assert not transformer.complete
    assert b"response.completed" not in found
    said = accumulated(read(found))["response.output_text", 0, 0]
    assert said.startswith(f"Dear {MAIL}, ")


@pytest.mark.parametrize(
    ("end", "more", "reason", "error"),
    [
        ("completed", {}, "completed", None),
        ("incomplete", {"incomplete_details": {"reason": "max_output_tokens"}},
         "max_output_tokens", None),
        ("failed", {"error": {"code": "server_error", "message": f"no {A}"}}, "failed",
         "server_error"),
    ],
)  # fmt: skip
def test_what_the_record_needs_is_read_from_the_end(
    end: str, more: dict[str, Any], reason: str, error: str | None
) -> None:
    sent = events([text("msg_1", "x")], 5, end)
    sent[-1]["response"].update(more)
    found, transformer = transform(sse(sent))
    assert transformer.complete
    assert (transformer.stop_reason, transformer.error) == (reason, error)
    assert transformer.usage == Usage(input=30, output=8, cache_read=20)
    assert transformer.model == "gpt-6-sol"
    assert A.encode() not in found or error is None


@pytest.mark.parametrize(
    ("event", "word"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": f"slow {A}"},
         "rate_limit_exceeded"),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": A}},
         "invalid_request_error"),
        ({"type": "error", "message": A}, "error"),
    ],
)  # fmt: skip
def test_an_error_is_noted_and_its_message_restored(event: dict[str, Any], word: str) -> None:
    found, transformer = transform(sse([event]))
    assert transformer.error == word
    assert not transformer.complete
    assert MAIL.encode() in found


@pytest.mark.parametrize(
    "event",
    [
        {"type": 7},
        {"delta": A},
        {"type": "response.output_text.delta", "delta": 5, "output_index": []},
        {"type": "response.output_text.delta", "delta": A, "output_index": [], "content_index": {}},
        {"type": "response.output_item.added", "item": None},
        {"type": "response.content_part.added", "part": {"text": 1}},
        {"type": "response.completed", "response": None},
        {"type": "response.completed"},
        {"type": "response.later.delta", "delta": {"text": A, "n": 1}},
        [A],
    ],
)
def test_odd_events_break_nothing(event: Any) -> None:
    raw = serialise("x", json.dumps(event))
    found, _ = transform(raw + raw)
    assert found.count(b"event:") == 2


# -- the official SDK --------------------------------------------------------------------------


def sdk_events(stream: bytes) -> tuple[list[Any], Any]:
    """What the official SDK makes of the bytes: its events and the final response."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    with (
        openai.OpenAI(
            api_key="k",
            base_url="http://test/v1",
            max_retries=0,
            http_client=openai.DefaultHttpxClient(transport=httpx2.MockTransport(answer)),
        ) as client,
        client.responses.stream(model="gpt-6-sol", input="x") as streamed,
    ):
        found = list(streamed)
        return found, streamed.get_final_response()


@pytest.mark.parametrize("size", [1, 6, 1000])
def test_the_official_sdk_reads_every_item(size: int) -> None:
    restored, _ = transform(sse(events(ITEMS, size)))
    found, final = sdk_events(restored)
    snapshots = {
        (event.output_index, event.content_index): event.snapshot
        for event in found
        if event.type == "response.output_text.delta"
    }
    for (output, content), snapshot in snapshots.items():
        assert final.output[output].content[content].text == snapshot
    assert final.output[1].content[0].text.startswith(f"Dear {MAIL}, ")
    assert json.loads(final.output[3].arguments)["body"] == NASTY
    assert final.output[0].encrypted_content == SEAL
    assert final.usage.input_tokens == 50
