"""The built-in offline provider: a model provider that needs no network, key or account.

Owns a small HTTP service that answers the Anthropic Messages API by rule. It sees only what a
gateway forwarded to it, so its answers and its record file show exactly what would have left
the machine.

Invariants: answers are a pure function of the request document (`plan_answer`); streams are cut
into 3 to 7 character pieces so that whatever the answer holds straddles events; every request
is written to the record file before it is answered. Called by `sphragis offline-provider` and
`sphragis serve --offline`, and by tests.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, cycle
from pathlib import Path
from typing import IO, Any, Final

import orjson
from aiohttp import web

from gateway.errors import GatewayError

#: Piece lengths of streamed text, in characters: clients were seen to cut arguments into
#: 7-character pieces (contracts/clients.md section 3); shorter ones hurt more.
PIECES: Final = (3, 7, 4, 6, 5)
#: The rule of thumb for tokens where no tokenizer is at hand.
CHARS_PER_TOKEN: Final = 4
#: What the provider takes in one body: above the gateway's own limit.
BODY_LIMIT: Final = 128 << 20
#: A line of the prompt that makes the provider call a tool: `@tool NAME {json object}`.
DIRECTIVE: Final = re.compile(r"^[ \t]*@tool[ \t]+([A-Za-z0-9_.:-]{1,128})[ \t]+(\{.*\})[ \t]*$")

MODELS: Final = ("claude-offline-large", "claude-offline-small")


class RecordError(GatewayError):
    """The record file cannot be opened."""


class BadRequest(Exception):
    """The request is not one the Messages API would take; carries the sentence of the answer."""


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A text block of an answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolBlock:
    """A tool call of an answer."""

    id: str
    name: str
    input: dict[str, Any]


Block = TextBlock | ToolBlock


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole answer: its blocks, why it stopped and what it is said to have cost (tokens)."""

    model: str
    blocks: tuple[Block, ...]
    stop_reason: str
    input_tokens: int
    output_tokens: int


def plan_answer(document: Any) -> Answer:
    """Decide the answer to one Messages request.

    The last prompt (a user message that brings no tool result, and the system messages after it)
    may hold `@tool` lines; after n tool results since that prompt, line n+1 is called; without a
    line left, or without any, the answer is text that quotes what was received. Raises BadRequest.
    """
    messages = _messages(document)
    prompt, notes, results = _last_prompt(messages)
    directives = list(_directives("\n".join([*prompt, *notes])))
    blocks: tuple[Block, ...]
    if len(results) < len(directives):
        name, arguments = directives[len(results)]
        call = ToolBlock(f"toolu_offline_{len(messages):04d}", name, arguments)
        blocks, stop = (call,), "tool_use"
    else:
        said = prompt[-1] if prompt else ""
        text = f"You said: {said}"
        if results:
            text = f"Done. The tool answered: {results[-1]}"
        blocks, stop = (TextBlock(text),), "end_turn"
    return Answer(
        model=str(document["model"]),
        blocks=blocks,
        stop_reason=stop,
        input_tokens=count_tokens(document),
        output_tokens=sum(_tokens(_text_of(block)) for block in blocks),
    )


def count_tokens(document: Any) -> int:
    """Count what `count_tokens` answers: characters of the model's input, by four, rounded up."""
    parts = {key: document[key] for key in ("system", "messages", "tools") if key in document}
    return _tokens(json.dumps(parts, ensure_ascii=False))


def message_json(answer: Answer, message_id: str) -> bytes:
    """Return the answer as one JSON body."""
    content = [_block_json(block) for block in answer.blocks]
    return orjson.dumps(
        {
            **_envelope(answer, message_id),
            "content": content,
            "stop_reason": answer.stop_reason,
            "usage": _usage(answer.input_tokens, answer.output_tokens),
        }
    )


def message_events(answer: Answer, message_id: str) -> Iterator[bytes]:
    """Yield the answer as server-sent events, one framed event at a time."""
    start = {
        **_envelope(answer, message_id),
        "content": [],
        "usage": _usage(answer.input_tokens, 1),
    }
    yield _event("message_start", message=start)
    yield _event("ping")
    lengths = cycle(PIECES)
    for index, block in enumerate(answer.blocks):
        yield from _block_events(index, block, lengths)
    yield _event(
        "message_delta",
        delta={"stop_reason": answer.stop_reason, "stop_sequence": None},
        usage=_usage(answer.input_tokens, answer.output_tokens),
    )
    yield _event("message_stop")


def build_app(record: Path | None = None, *, delay: float = 0.0) -> web.Application:
    """Return the provider as an aiohttp application.

    `record`: JSON lines file (made 0600) that gets every request received; `delay`: seconds
    between two streamed events.
    """
    provider = _Provider(_open_record(record) if record else None, delay)
    app = web.Application(client_max_size=BODY_LIMIT)
    app.router.add_route("*", "/{path:.*}", provider.handle)

    async def close(_: web.Application) -> None:
        provider.close()

    app.on_cleanup.append(close)
    return app


async def start_provider(
    host: str, port: int, *, record: Path | None = None, delay: float = 0.0
) -> tuple[web.AppRunner, str]:
    """Serve the provider on `host:port` (port 0 = any free one); return its runner and base URL.

    Raises OSError when the address cannot be had, RecordError when the record file cannot.
    """
    runner = web.AppRunner(
        build_app(record, delay=delay),
        auto_decompress=False,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=1.0,
    )
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    try:
        await site.start()
    except OSError:
        await runner.cleanup()
        raise
    bound = runner.addresses[0]
    shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
    return runner, f"http://{shown}:{bound[1]}"


class _Provider:
    """Answers requests; the only state is the record file and a counter for ids."""

    def __init__(self, record: IO[bytes] | None, delay: float) -> None:
        self._record = record
        self._delay = delay
        self._numbers = count(1)

    def close(self) -> None:
        if self._record is not None:
            self._record.close()
            self._record = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self._write_record(request, body)
        number = next(self._numbers)
        headers = {"request-id": f"req_offline_{number:06d}"}
        try:
            return await self._answer(request, body, f"msg_offline_{number:06d}", headers)
        except BadRequest as wrong:
            return web.Response(
                status=400,
                body=_error("invalid_request_error", str(wrong)),
                content_type="application/json",
                headers=headers,
            )

    async def _answer(
        self, request: web.Request, body: bytes, message_id: str, headers: dict[str, str]
    ) -> web.StreamResponse:
        path = request.path.rstrip("/")
        if request.method in {"GET", "HEAD"} and path == "/v1/models":
            return _json(_models(), headers)
        if request.method in {"GET", "HEAD"} and path in {"", "/api/hello"}:
            return web.Response(text="ok", headers=headers)
        if request.method == "POST" and path == "/v1/messages/count_tokens":
            document = _parse(body)
            _messages(document)
            return _json(orjson.dumps({"input_tokens": count_tokens(document)}), headers)
        if request.method == "POST" and path == "/v1/messages":
            document = _parse(body)
            answer = plan_answer(document)
            if document.get("stream") is True:
                return await self._stream(request, answer, message_id, headers)
            return _json(message_json(answer, message_id), headers)
        return web.Response(
            status=404,
            body=_error("not_found_error", "The offline provider has no such path."),
            content_type="application/json",
            headers=headers,
        )

    async def _stream(
        self, request: web.Request, answer: Answer, message_id: str, headers: dict[str, str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={
                **headers,
                "content-type": "text/event-stream; charset=utf-8",
                "cache-control": "no-cache",
            }
        )
        await response.prepare(request)
        for event in message_events(answer, message_id):
            await response.write(event)
            await asyncio.sleep(self._delay)
        await response.write_eof()
        return response

    def _write_record(self, request: web.Request, body: bytes) -> None:
        if self._record is None:
            return
        entry: dict[str, Any] = {
            "time": time.time(),
            "method": request.method,
            "path": request.raw_path,
            "headers": {name.lower(): value for name, value in request.headers.items()},
        }
        try:
            entry["body"] = body.decode("utf-8")
        except UnicodeDecodeError:
            entry["body"] = ""
            entry["body_base64"] = base64.b64encode(body).decode("ascii")
        # json, not orjson: header values may hold surrogate escapes, which orjson refuses.
        self._record.write(json.dumps(entry).encode("ascii") + b"\n")
        self._record.flush()


def _open_record(path: Path) -> IO[bytes]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as wrong:
        raise RecordError(
            f"The record file {path} cannot be written: {wrong.strerror}; choose another place."
        ) from wrong
    return os.fdopen(descriptor, "ab")


def _parse(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as wrong:
        raise BadRequest("The body is not JSON.") from wrong
    if not isinstance(document, dict):
        raise BadRequest("The body must be a JSON object.")
    return document


def _messages(document: Any) -> list[dict[str, Any]]:
    if not isinstance(document, dict) or not isinstance(document.get("model"), str):
        raise BadRequest("model: Field required")
    messages = document.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages: at least one message is required")
    if not all(isinstance(message, dict) for message in messages):
        raise BadRequest("messages: every message must be an object")
    return messages


def _last_prompt(
    messages: list[dict[str, Any]],
) -> tuple[list[str], list[str], list[str]]:
    """Return the text blocks of the last prompt and, from after it, the texts of system messages
    (where agents put what their hooks add to a prompt) and of tool results."""
    notes: list[str] = []
    results: list[str] = []
    for message in reversed(messages):
        texts, brought = _split_content(message.get("content"))
        if message.get("role") == "system":
            notes[:0] = texts
        elif message.get("role") != "user":
            continue
        elif brought:
            results[:0] = brought
        elif texts:
            return texts, notes, results
    return [], notes, results


def _split_content(content: Any) -> tuple[list[str], list[str]]:
    if isinstance(content, str):
        return [content], []
    texts: list[str] = []
    results: list[str] = []
    for block in content if isinstance(content, list) else []:
        if not isinstance(block, dict):
            continue
        if block.get("type") == "text":
            texts.append(str(block.get("text", "")))
        elif block.get("type") == "tool_result":
            inner, _ = _split_content(block.get("content"))
            results.append("\n".join(inner))
    return texts, results


def _directives(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in text.splitlines():
        found = DIRECTIVE.match(line)
        if found is None:
            continue
        try:
            arguments = orjson.loads(found[2])
        except orjson.JSONDecodeError:
            continue
        yield found[1], arguments


def _block_events(index: int, block: Block, lengths: Iterator[int]) -> Iterator[bytes]:
    if isinstance(block, TextBlock):
        start: dict[str, Any] = {"type": "text", "text": ""}
        kind, member, whole = "text_delta", "text", block.text
    else:
        start = {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
        kind, member, whole = "input_json_delta", "partial_json", _text_of(block)
    yield _event("content_block_start", index=index, content_block=start)
    for piece in _pieces(whole, lengths):
        yield _event("content_block_delta", index=index, delta={"type": kind, member: piece})
    yield _event("content_block_stop", index=index)


def _pieces(text: str, lengths: Iterator[int]) -> Iterator[str]:
    at = 0
    while at < len(text):
        length = next(lengths)
        yield text[at : at + length]
        at += length


def _block_json(block: Block) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}


def _text_of(block: Block) -> str:
    if isinstance(block, TextBlock):
        return block.text
    return orjson.dumps(block.input).decode()


def _envelope(answer: Answer, message_id: str) -> dict[str, Any]:
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "stop_reason": None,
        "stop_sequence": None,
    }


def _usage(input_tokens: int, output_tokens: int) -> dict[str, int]:
    return {
        "input_tokens": input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output_tokens,
    }


def _tokens(text: str) -> int:
    return -(-len(text) // CHARS_PER_TOKEN)


def _event(kind: str, **members: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), orjson.dumps({"type": kind, **members}))


def _json(body: bytes, headers: dict[str, str]) -> web.Response:
    return web.Response(body=body, content_type="application/json", headers=headers)


def _models() -> bytes:
    data = [
        {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": "2026-01-01T00:00:00Z",
        }
        for name in MODELS
    ]
    return orjson.dumps(
        {"data": data, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}
    )


def _error(kind: str, message: str) -> bytes:
    return orjson.dumps({"type": "error", "error": {"type": kind, "message": message}})
