"""A provider that speaks every API agents use, by one rule, for `gateway_harness.Provider`.

The lines `@tool NAME {json}` of the last prompt are carried out one after another, one for each
answer of a tool; after the last it says what that tool answered. A prompt that only names a file
(`Read x.md`) has the file read first and its lines carried out. `@@SECRET@@` in the arguments is
what the provider knows of a secret: the last token of that kind it was sent.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import gemini_provider
from aiohttp import web
from gateway_harness import Seen, begin_stream
from openai_provider import chat_answer, text_of
from responses_provider import SEAL, events

from gateway.offline import Answer, TextBlock, ToolBlock, message_events, message_json

_TOOL = re.compile(r"^[ \t]*@tool[ \t]+(\w+)[ \t]+(\{.*\})[ \t]*$", re.MULTILINE)
_FILE = re.compile(r"Read (\S+\.md)")
_KNOWN = re.compile(r"@@([A-Z_]+)@@")
#: How a file is shown by those agents that are handed their task in one.
_SHELLS = {"run_shell_command": "command", "exec_command": "cmd", "bash": "command"}


@dataclass(frozen=True)
class Turn:
    """What one request asks: the last prompt, what tools answered since, the tools there are."""

    prompt: str
    results: list[str]
    tools: list[str]
    #: All that was sent, for what the provider knows.
    body: str


@dataclass(frozen=True)
class Step:
    """What the provider does next: a call, or (without a name) text."""

    name: str
    text: str

    @property
    def arguments(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text)
        return found


def planned(turn: Turn) -> Step:
    """Decide the answer to a request."""
    named = _FILE.search(turn.prompt)
    shell = next((name for name in _SHELLS if name in turn.tools), None) if named else None
    lines, results = turn.prompt, turn.results
    if named and shell:
        if not results:
            return Step(shell, json.dumps({_SHELLS[shell]: f"cat {named[1]}"}))
        lines, *results = results
    calls = _TOOL.findall(lines) if turn.tools else []
    if len(results) < len(calls):
        name, arguments = calls[len(results)]
        return Step(name, _KNOWN.sub(lambda kind: known(kind[1], turn.body), arguments))
    said = f"The tool said: {turn.results[-1]}" if turn.results else f"You said: {turn.prompt}"
    return Step("", said)


def known(kind: str, body: str) -> str:
    """The last token of a kind in what the provider was sent; the kind's name without one."""
    tokens = re.findall(rf"\[{kind}_[a-z0-9]+\]", body)
    return tokens[-1] if tokens else kind


async def answer_every_api(request: web.Request, seen: Seen) -> web.StreamResponse:
    """Answer a call in the API it is made in."""
    path = seen.target.partition("?")[0]
    if path.endswith("/chat/completions"):
        return await _chat(request, seen)
    if path.endswith("/responses"):
        return await _responses(request, seen)
    if path.endswith("/messages"):
        return await _anthropic(request, seen)
    if path.endswith("/messages/count_tokens"):
        return web.json_response({"input_tokens": len(seen.body) // 4})
    if path.endswith((":generateContent", ":streamGenerateContent")):
        return await _gemini(request, seen)
    return web.json_response({"error": {"message": "no such call", "type": "x"}}, status=404)


async def _chat(request: web.Request, seen: Seen) -> web.StreamResponse:
    document = seen.document
    prompt, results = "", list[str]()
    for message in document["messages"]:
        if message["role"] == "user":
            prompt, results = text_of(message.get("content")), []
        elif message["role"] == "tool":
            results.append(text_of(message.get("content")))
    tools = [tool["function"]["name"] for tool in document.get("tools") or []]
    step = planned(Turn(prompt, results, tools, seen.body.decode()))
    message: dict[str, Any] = {"role": "assistant", "content": step.text}
    if step.name:
        function = {"name": step.name, "arguments": step.text}
        identity = f"call_{'0aB' * 7}{len(seen.body):06d}"
        call = {"id": identity, "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return await chat_answer(request, document, message)


async def _responses(request: web.Request, seen: Seen) -> web.StreamResponse:
    document = seen.document
    prompt, results = "", list[str]()
    for item in document["input"]:
        if item.get("role") == "user":
            prompt, results = text_of(item.get("content")), []
        elif str(item.get("type", "")).endswith("_output"):
            results.append(text_of(item["output"]))
    tools = [str(tool.get("name")) for tool in document.get("tools") or []]
    step = planned(Turn(prompt, results, tools, seen.body.decode()))
    count = len(document["input"])
    thought = {"type": "summary_text", "text": f"They want: {prompt[:200]}"}
    items: list[dict[str, Any]] = [
        {"type": "reasoning", "id": f"rs_{count}", "summary": [thought], "encrypted_content": SEAL}
    ]
    if step.name:
        call = {"type": "function_call", "id": f"fc_{count}", "call_id": f"call_{count}"}
        items.append(
            {**call, "name": step.name, "arguments": step.text, "status": "completed"}
        )  # fmt: skip
    else:
        part = {"type": "output_text", "text": step.text, "annotations": []}
        said = {"type": "message", "id": f"msg_{count}", "role": "assistant"}
        items.append({**said, "status": "completed", "content": [part]})
    response = await begin_stream(request)
    for number, event in enumerate(events(items, document)):
        data = json.dumps({**event, "sequence_number": number})
        await response.write(f"event: {event['type']}\ndata: {data}\n\n".encode())
    return response


async def _anthropic(request: web.Request, seen: Seen) -> web.StreamResponse:
    document = seen.document
    prompt, results = "", list[str]()
    for message in document["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        brought = [b for b in blocks if b["type"] == "tool_result"]
        if message["role"] != "user":
            continue
        if brought:
            results += [text_of(block.get("content")) for block in brought]
        else:
            prompt = "\n".join(block.get("text", "") for block in blocks)
            results = []
    tools = [str(tool.get("name")) for tool in document.get("tools") or []]
    step = planned(Turn(prompt, results, tools, seen.body.decode()))
    # Claude Code joins answers of one id; the size tells those of one conversation apart.
    number = f"{len(seen.body):024d}"
    identity, message_id = f"toolu_{number}", f"msg_{number}"
    block = ToolBlock(identity, step.name, step.arguments) if step.name else TextBlock(step.text)
    reason = "tool_use" if step.name else "end_turn"
    answer = Answer(document["model"], (block,), reason, len(seen.body) // 4, 9)
    if document.get("stream") is not True:
        return web.Response(body=message_json(answer, message_id), content_type="application/json")
    response = await begin_stream(request)
    for event in message_events(answer, message_id):
        await response.write(event)
    return response


async def _gemini(request: web.Request, seen: Seen) -> web.StreamResponse:
    document = seen.document
    config = document.get("generationConfig") or {}
    if config.get("responseMimeType") == "application/json":
        return await gemini_provider.answer_by_rule(request, seen)
    prompt, results = "", list[str]()
    for content in document["contents"]:
        parts = content["parts"]
        brought = [p["functionResponse"] for p in parts if "functionResponse" in p]
        if brought:
            results += [str(one["response"].get("output", one["response"])) for one in brought]
        elif content.get("role") == "user":
            prompt, results = "\n".join(part.get("text", "") for part in parts), []
    tools = [
        declared["name"]
        for tool in document.get("tools") or []
        for declared in tool.get("functionDeclarations") or []
    ]
    step = planned(Turn(prompt, results, tools, seen.body.decode()))
    parts = [{"text": step.text}]
    if step.name:
        call = {"name": step.name, "args": step.arguments}
        thought = {"text": f"I will call {step.name}.", "thought": True}
        parts = [thought, {"functionCall": call, "thoughtSignature": gemini_provider.SIGNATURE}]
    if request.path.endswith(":generateContent"):
        return web.json_response(gemini_provider.chunk(*parts, finish="STOP"))
    return await gemini_provider.streamed(request, parts)
