"""A model provider that speaks OpenAI Responses by a rule, for `gateway_harness.Provider`.

It says what it was told. A line `@tool NAME {json}` in the last user message makes it call that
function, `@custom NAME "json text"` a custom tool; a tool's result it repeats. Every answer begins
with a reasoning that quotes the prompt, under a seal. So whatever comes back was in the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from aiohttp import web
from gateway_harness import Seen, begin_stream

_TOOL = re.compile(r"@(tool|custom) (\w+) (\{.*\}|\".*\")")
_SIZE = 3
SEAL = "gAAAAAB" + "x_-9" * 80
USAGE = {
    "input_tokens": 50,
    "input_tokens_details": {"cached_tokens": 30},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 70,
}


async def answer_responses(request: web.Request, seen: Seen) -> web.StreamResponse:
    """Answer any of the calls."""
    path = seen.target.partition("?")[0]
    if not re.search(r"/(?:responses|conversations)(?:/|$)", path):
        return web.json_response({"error": {"message": "no such call", "type": "x"}}, status=404)
    if seen.method == "DELETE":
        return web.json_response({"id": "resp_1", "object": "response", "deleted": True})
    if path.endswith("/input_tokens"):
        return web.json_response({"object": "response.input_tokens", "input_tokens": 11})
    if path.endswith("/compact"):
        sealed = {"type": "compaction", "id": "cmp_1", "encrypted_content": SEAL}
        output = [_said(text_of(item["content"])) for item in seen.document["input"]] + [sealed]
        whole = {"id": "resp_1", "object": "response.compaction", "created_at": 1}
        return web.json_response({**whole, "output": output, "usage": USAGE})
    if seen.method == "GET" and "stream=true" not in seen.target:
        return web.json_response(_response([_said("stored")], "completed", {}))
    if not path.endswith("/responses") and seen.method == "POST":
        return web.json_response(_response([], "cancelled", {}))
    document = seen.document if seen.body else {"input": "again"}
    items = planned(document)
    if document.get("stream") is not True and "stream=true" not in seen.target:
        return web.json_response(_response(items, "completed", document))
    response = await begin_stream(request)
    for number, event in enumerate(events(items, document)):
        event["sequence_number"] = number
        line = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
        await response.write(line.encode())
    return response


def planned(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The items that answer a request."""
    given = document["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    last = items[-1]
    asked = [item for item in items if item.get("role") == "user"]
    prompt = text_of(asked[-1].get("content")) if asked else ""
    thought = {"type": "summary_text", "text": f"They want: {prompt}"}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [thought], "encrypted_content": SEAL}
    if str(last.get("type", "")).endswith("_output"):
        return [reasoning, _said(f"The tool said: {text_of(last['output'])}")]
    calls = [
        _call(number, kind, name, given) for number, (kind, name, given) in
        enumerate(_TOOL.findall(prompt))
    ]  # fmt: skip
    return [reasoning, *(calls or [_said(f"You said: {prompt}")])]


def text_of(content: Any) -> str:
    """The text of a message or of a tool's output."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def events(items: list[dict[str, Any]], asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of a streamed answer."""
    for state in ("created", "in_progress"):
        yield {"type": f"response.{state}", "response": _response([], "in_progress", asked)}
    for index, item in enumerate(items):
        at = {"item_id": item["id"], "output_index": index}
        yield {"type": "response.output_item.added", "output_index": index, "item": _empty(item)}
        yield from _inside(item, at)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": _response(items, "completed", asked)}


def _inside(item: dict[str, Any], at: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if item["type"] == "message":
        at, part = {**at, "content_index": 0}, item["content"][0]
        text = "response.output_text"
        yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
        for piece in _pieces(part["text"]):
            yield {"type": f"{text}.delta", **at, "delta": piece, "logprobs": []}
        yield {"type": f"{text}.done", **at, "text": part["text"], "logprobs": []}
        yield {"type": "response.content_part.done", **at, "part": part}
    elif item["type"] == "reasoning":
        at, part = {**at, "summary_index": 0}, item["summary"][0]
        text = "response.reasoning_summary_text"
        yield {"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}}
        for piece in _pieces(part["text"]):
            yield {"type": f"{text}.delta", **at, "delta": piece}
        yield {"type": f"{text}.done", **at, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", **at, "part": part}
    else:
        member, name = _MEMBERS[item["type"]]
        for piece in _pieces(item[member]):
            yield {"type": f"response.{name}.delta", **at, "delta": piece}
        yield {"type": f"response.{name}.done", **at, member: item[member]}


_MEMBERS = {
    "function_call": ("arguments", "function_call_arguments"),
    "custom_tool_call": ("input", "custom_tool_call_input"),
}


def _empty(item: dict[str, Any]) -> dict[str, Any]:
    blank: dict[str, Any] = {"message": {"content": []}, "reasoning": {"summary": []}}.get(
        item["type"], {}
    )
    return {**item, **blank, **({_MEMBERS[item["type"]][0]: ""} if not blank else {})}


def _call(number: int, kind: str, name: str, given: str) -> dict[str, Any]:
    call = {"call_id": f"call_{'0aB' * 7}{number:03d}", "name": name, "status": "completed"}
    if kind == "custom":
        return {
            "type": "custom_tool_call",
            "id": f"ctc_{number}",
            "input": json.loads(given),
            **call,
        }
    return {"type": "function_call", "id": f"fc_{number}", "arguments": given, **call}


def _said(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return {**message, "content": [part]}


def _response(items: list[Any], status: str, asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1764000000,
        "model": "gpt-6-sol",
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": asked.get("instructions"),
        "metadata": asked.get("metadata"),
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": USAGE if status == "completed" else None,
    }


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _SIZE):
        yield text[start : start + _SIZE]
