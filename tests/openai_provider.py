"""A model provider that speaks OpenAI's calls by a rule, for `gateway_harness.Provider`.

It says what it was told; a line `@tool NAME {json}` in the last user message makes it call that
tool; a tool's result it repeats. So whatever comes back to the client was in the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from aiohttp import web
from gateway_harness import Seen, begin_stream

_TOOL = re.compile(r"@tool (\w+) (\{.*\})")
_SIZE = 3
USAGE = {
    "prompt_tokens": 50,
    "completion_tokens": 20,
    "total_tokens": 70,
    "prompt_tokens_details": {"cached_tokens": 30},
    "completion_tokens_details": {"reasoning_tokens": 4},
}


async def answer_openai(request: web.Request, seen: Seen) -> web.StreamResponse:
    """Answer any of the calls."""
    path = seen.target.partition("?")[0]
    if path.endswith("/chat/completions"):
        return await chat_answer(request, seen.document, planned(seen.document))
    if path.endswith("/completions"):
        prompt = seen.document["prompt"]
        choice = {"index": 0, "text": f"{prompt}!", "logprobs": None, "finish_reason": "stop"}
        return web.json_response({**_head("text_completion"), "choices": [choice], "usage": USAGE})
    if path.endswith("/embeddings"):
        given = seen.document["input"]
        rows = [
            {"object": "embedding", "index": at, "embedding": [0.25, -1.5e-05, len(text)]}
            for at, text in enumerate(given if isinstance(given, list) else [given])
        ]
        usage = {"prompt_tokens": 3, "total_tokens": 3}
        return web.json_response({"object": "list", "data": rows, "model": "e", "usage": usage})
    if path.endswith("/moderations"):
        row = {"flagged": False, "categories": {}, "category_scores": {}}
        return web.json_response({"id": "modr-1", "model": "m", "results": [row]})
    if "/models" in path:
        model = {"id": "gpt-5.1", "object": "model", "created": 1, "owned_by": "test"}
        is_list = path.endswith("/models")
        return web.json_response({"object": "list", "data": [model]} if is_list else model)
    return web.json_response({"error": {"message": "no such call", "type": "x"}}, status=404)


async def chat_answer(
    request: web.Request, document: dict[str, Any], message: dict[str, Any]
) -> web.StreamResponse:
    """Answer a chat request with a message, whole or in pieces."""
    reason = "tool_calls" if "tool_calls" in message else "stop"
    count = document.get("n") or 1
    if document.get("stream") is not True:
        choices = [
            {"index": index, "message": message, "logprobs": None, "finish_reason": reason}
            for index in range(count)
        ]
        return web.json_response({**_head("chat.completion"), "choices": choices, "usage": USAGE})
    response = await begin_stream(request)
    rows = zip(*(list(_deltas(message)) for _ in range(count)), strict=True)
    for row in rows:
        for index, delta in enumerate(row):
            await _send(response, [{"index": index, "delta": delta, "finish_reason": None}])
    for index in range(count):
        await _send(response, [{"index": index, "delta": {}, "finish_reason": reason}])
    if (document.get("stream_options") or {}).get("include_usage"):
        await _send(response, [], usage=USAGE)
    await response.write(b"data: [DONE]\n\n")
    return response


async def _send(response: web.StreamResponse, choices: list[Any], **members: Any) -> None:
    chunk = {**_head("chat.completion.chunk"), "choices": choices, **members}
    await response.write(f"data: {json.dumps(chunk)}\n\n".encode())


def planned(document: dict[str, Any]) -> dict[str, Any]:
    """The message that answers a chat request."""
    last = document["messages"][-1]
    text = text_of(last.get("content"))
    if last["role"] == "tool":
        return {"role": "assistant", "content": f"The tool said: {text}"}
    calls = [
        {
            "id": f"call_{'0aB' * 7}{number:03d}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for number, (name, arguments) in enumerate(_TOOL.findall(text))
    ]
    if calls:
        return {"role": "assistant", "content": None, "tool_calls": calls}
    return {"role": "assistant", "content": f"You said: {text}"}


def text_of(content: Any) -> str:
    """The text of a message's content."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "" if message["content"] else None}
    for piece in _pieces(message["content"] or ""):
        yield {"content": piece}
    for number, call in enumerate(message.get("tool_calls", ())):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield {"tool_calls": [{**call, "index": number, "function": function}]}
        for piece in _pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": number, "function": {"arguments": piece}}]}


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _SIZE):
        yield text[start : start + _SIZE]


def _head(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1764000000, "model": "gpt-5.1"}
