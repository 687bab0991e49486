"""A scripted Gemini provider for tests: it repeats what it is told, and calls tools when asked.

Sees only what the gateway forwarded. A line `@tool NAME {json}` in the last message becomes a
function call; a function's answer and any other text is repeated. Streams are cut into short
pieces, as events or as a JSON array, so that whatever an answer holds straddles them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import cycle
from typing import Any

from aiohttp import web
from gateway_harness import Seen

DIRECTIVE = re.compile(r"^[ \t]*@tool[ \t]+([A-Za-z0-9_]+)[ \t]+(\{.*\})[ \t]*$", re.MULTILINE)
SIGNATURE = "Cp8BAVSoXO4Qm2" * 24
MODEL = "gemini-3-flash"
USAGE = {
    "promptTokenCount": 50,
    "cachedContentTokenCount": 20,
    "candidatesTokenCount": 7,
    "thoughtsTokenCount": 5,
    "totalTokenCount": 62,
}


async def answer_by_rule(request: web.Request, seen: Seen) -> web.StreamResponse:
    """Answer one call of the API."""
    path = request.path
    document = json.loads(seen.body) if seen.body else {}
    if path.endswith(":countTokens"):
        return web.json_response({"totalTokens": len(seen.body) // 4})
    if path.endswith((":embedContent", ":batchEmbedContents")):
        return web.json_response({"embeddings": [{"values": [0.5, 0.25]}]})
    if request.method == "GET":
        model = {"name": f"models/{MODEL}", "displayName": "Flash", "inputTokenLimit": 9}
        return web.json_response({"models": [model]} if path.endswith("/models") else model)
    parts = plan(document)
    if path.endswith(":generateContent"):
        return web.json_response(chunk(*parts, finish="STOP", usageMetadata=USAGE))
    return await streamed(request, parts)


async def streamed(request: web.Request, parts: list[dict[str, Any]]) -> web.StreamResponse:
    """Send the parts in pieces, as events or as an array."""
    events = request.query.get("alt") == "sse"
    kind = "text/event-stream" if events else "application/json; charset=UTF-8"
    response = web.StreamResponse(headers={"content-type": kind})
    await response.prepare(request)
    documents = [*(chunk(piece) for part in parts for piece in pieces(part))]
    documents.append(chunk({"text": ""}, finish="STOP", usageMetadata=USAGE))
    for number, document in enumerate(documents):
        text = json.dumps(document, indent=None if events else 1)
        before = "data: " if events else ",\r\n" if number else "["
        after = "\r\n\r\n" if events else "\n"
        await response.write(f"{before}{text}{after}".encode())
    if not events:
        await response.write(b"]\n")
    return response


def plan(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of the answer to a request."""
    contents = document.get("contents") or [{}]
    parts = contents[-1].get("parts") or [{}]
    config = document.get("generationConfig") or {}
    if config.get("responseMimeType") == "application/json":
        choice = {"reasoning": "simple", "model_choice": "flash", "complexity_score": 10,
                  "complexity_reasoning": "simple"}  # fmt: skip
        return [{"text": json.dumps(choice)}]
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    if results:
        return [{"text": f"The tool said: {json.dumps(results[-1].get('response'))}"}]
    said = "\n".join(part.get("text", "") for part in parts)
    found = DIRECTIVE.findall(said)
    if found:
        thought = {"text": f"I will call {found[-1][0]}.", "thought": True}
        call = {"name": found[-1][0], "args": json.loads(found[-1][1])}
        return [thought, {"functionCall": call, "thoughtSignature": SIGNATURE}]
    return [{"text": f"You said: {said}"}]


def chunk(*parts: dict[str, Any], finish: str = "", **more: Any) -> dict[str, Any]:
    """Return a whole answer, or a piece of one."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": MODEL, "responseId": "r1", **more}


def pieces(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Cut a text part into short ones; other parts come whole."""
    if "text" not in part:
        yield part
        return
    sizes, start = cycle((3, 7, 4, 6, 5)), 0
    while start < len(part["text"]):
        size = next(sizes)
        yield {**part, "text": part["text"][start : start + size]}
        start += size
