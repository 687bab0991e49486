"""Ollama, Bedrock and Anthropic's batches through a real gateway, with official clients where they
work without a signature."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx
import pytest
from aiohttp import web
from botocore.eventstream import EventStreamBuffer
from gateway_harness import Gateway, Provider, Seen, leaks, running

from gateway.wire.event_stream import encode, encode_headers

MAIL = "jane.probe@leak-canary.org"
KEY = "ghp_" + "a1B2c3D4e5F6" * 3
CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[Provider]:
    provider = Provider()
    provider.start()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def gateway(
    shared_provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    url = shared_provider.url
    home = tmp_path_factory.mktemp("others") / "home"
    with running(home, url, ollama_base_url=url, bedrock_base_url=url) as started:
        yield started


@pytest.fixture
def provider(shared_provider: Provider) -> Iterator[Provider]:
    shared_provider.seen.clear()
    before = shared_provider.script
    yield shared_provider
    shared_provider.script = before


def token_in(seen: Seen) -> str:
    """The token of the mail in what the provider received."""
    text = seen.body.decode()
    start = text.index("[EMAIL_")
    return text[start : text.index("]", start) + 1]


def answering(write: Callable[[str], Any], media: str = "application/json") -> Any:
    """A provider that answers with what `write` makes of the token it was sent."""

    async def script(_: web.Request, seen: Seen) -> web.StreamResponse:
        answer = write(token_in(seen) if b"[EMAIL_" in seen.body else "")
        if isinstance(answer, bytes):
            return web.Response(body=answer, content_type=media)
        return web.json_response(answer)

    return script


def streaming(write: Callable[[str], list[bytes]], media: str) -> Any:
    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": media})
        await response.prepare(request)
        for piece in write(token_in(seen)):
            await response.write(piece)
            await asyncio.sleep(0.001)
        return response

    return script


def client(gateway: Gateway, **headers: str) -> httpx.Client:
    return httpx.Client(base_url=f"{gateway.url}/agent/coder", headers=headers, timeout=30)


def pieces(text: str, size: int = 3) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


# -- Ollama ---


def ollama_lines(token: str) -> list[bytes]:
    lines: list[dict[str, Any]] = [
        {"model": "m", "message": {"role": "assistant", "content": piece}, "done": False}
        for piece in pieces(f"Write to {token} now.")
    ]
    lines.append({"model": "m", "message": {"role": "assistant", "content": "", "tool_calls": [
        {"function": {"name": "send", "arguments": {"to": token}}}]}, "done": False})  # fmt: skip
    lines.append({"model": "m", "message": {"role": "assistant", "content": ""}, "done": True,
                  "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 7})  # fmt: skip
    return [json.dumps(line).encode() + b"\n" for line in lines]


@pytest.mark.parametrize("media", ["application/json", "application/x-www-form-urlencoded"])
def test_ollama_chat_streams_by_default_and_needs_no_key(
    gateway: Gateway, provider: Provider, media: str
) -> None:
    provider.script = streaming(ollama_lines, "application/x-ndjson")
    body = {"model": "m", "messages": [{"role": "user", "content": f"Mail {MAIL} with {KEY}"}]}
    with (
        client(gateway) as http,
        http.stream(
            "POST", "/api/chat", content=json.dumps(body), headers={"content-type": media}
        ) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in answer.iter_lines()]
    assert "".join(line["message"]["content"] for line in lines) == f"Write to {MAIL} now."
    (calls,) = [line["message"]["tool_calls"] for line in lines if "tool_calls" in line["message"]]
    assert calls[0]["function"]["arguments"] == {"to": MAIL}
    assert lines[-1]["done"] is True
    (seen,) = provider.seen
    assert seen.header("content-type") == ["application/json"]
    assert seen.header("authorization") == []
    assert leaks([MAIL, KEY], provider.seen) == []
    outcome = gateway.outcome_of(request_seq(gateway))["outcome"]
    assert outcome["status"] == "ok"


def request_seq(gateway: Gateway) -> int:
    return int([r for r in gateway.records() if r["type"] == "request"][-1]["seq"])


def test_ollama_generate_embed_and_lists(gateway: Gateway, provider: Provider) -> None:
    with client(gateway) as http:
        provider.script = answering(lambda token: {"response": f"to {token}", "done": True})
        answer = http.post("/api/generate", json={"model": "m", "prompt": MAIL, "stream": False})
        assert answer.json() == {"response": f"to {MAIL}", "done": True}
        provider.script = answering(lambda _: {"embeddings": [[0.25, -1e-7]]})
        assert http.post("/api/embed", json={"model": "m", "input": [MAIL]}).json() == {
            "embeddings": [[0.25, -1e-7]]
        }
        for path in ("/api/tags", "/api/ps", "/api/version"):
            provider.script = answering(lambda _: {"models": []})
            assert http.get(path).json() == {"models": []}
    assert leaks([MAIL], provider.seen) == []


def test_ollama_calls_that_change_the_server_are_refused_in_its_shape(
    gateway: Gateway, provider: Provider
) -> None:
    with client(gateway) as http:
        answer = http.post("/api/pull", json={"model": "m"})
    assert answer.status_code == 403
    assert set(answer.json()) == {"error"}
    assert answer.headers["x-should-retry"] == "false"
    assert provider.seen == []


def test_an_ollama_stream_that_is_cut_is_cut_for_the_client(
    gateway: Gateway, provider: Provider
) -> None:
    provider.script = streaming(lambda token: ollama_lines(token)[:4], "application/x-ndjson")
    body = {"model": "m", "messages": [{"role": "user", "content": MAIL}]}
    with client(gateway) as http, pytest.raises(httpx.RemoteProtocolError):
        http.post("/api/chat", json=body)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://evil.example:11434"])
@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded"])
def test_a_foreign_web_page_cannot_use_the_gateway_without_asking(
    gateway: Gateway, provider: Provider, origin: str, media: str
) -> None:
    body = json.dumps({"model": "m", "prompt": "hi"})
    with client(gateway, origin=origin) as http:
        answer = http.post("/api/generate", content=body, headers={"content-type": media})
    assert answer.status_code == 403
    assert provider.seen == []


def test_a_web_page_of_this_machine_can(gateway: Gateway, provider: Provider) -> None:
    provider.script = answering(lambda _: {"response": "x", "done": True})
    body = json.dumps({"model": "m", "prompt": "hi", "stream": False})
    with client(gateway, origin="http://localhost:3000") as http:
        answer = http.post("/api/generate", content=body, headers={"content-type": "text/plain"})
    assert answer.status_code == 200


# -- Bedrock ---


def message(kind: str, payload: Any) -> bytes:
    headers = {
        ":event-type": kind,
        ":content-type": "application/json",
        ":message-type": "event",
    }
    return encode(encode_headers(headers), json.dumps(payload).encode())


def converse_events(token: str) -> list[bytes]:
    def delta(index: int, **delta: Any) -> bytes:
        return message("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})

    arguments = json.dumps({"to": token})
    return [
        message("messageStart", {"role": "assistant"}),
        *(delta(0, text=piece) for piece in pieces(f"Write to {token} now.")),
        message("contentBlockStop", {"contentBlockIndex": 0}),
        *(delta(1, toolUse={"input": piece}) for piece in pieces(arguments)),
        message("contentBlockStop", {"contentBlockIndex": 1}),
        message("messageStop", {"stopReason": "tool_use"}),
        message("metadata", {"usage": {"inputTokens": 1, "outputTokens": 2}}),
    ]


def claude_chunks(token: str) -> list[bytes]:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x",
            "content": [], "stop_reason": None, "stop_sequence": None,
            "usage": {"input_tokens": 3, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0,
           "delta": {"type": "text_delta", "text": piece}}
          for piece in pieces(f"Write to {token} now.")),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
         "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]  # fmt: skip
    return [
        message("chunk", {"bytes": base64.b64encode(json.dumps(event).encode()).decode()})
        for event in events
    ]


def test_converse_streams_with_checksums_that_botocore_accepts(
    gateway: Gateway, provider: Provider
) -> None:
    provider.script = streaming(converse_events, "application/vnd.amazon.eventstream")
    body = {"messages": [{"role": "user", "content": [{"text": f"Mail {MAIL} with {KEY}"}]}]}
    with client(gateway, authorization="Bearer bedrock-key") as http:
        answer = http.post(f"/model/{CLAUDE}/converse-stream", json=body)
    assert answer.status_code == 200
    buffer = EventStreamBuffer()
    buffer.add_data(answer.content)
    text, arguments = "", ""
    for item in buffer:
        delta = json.loads(item.payload).get("delta", {})
        text += delta.get("text", "")
        arguments += delta.get("toolUse", {}).get("input", "")
    assert text == f"Write to {MAIL} now."
    assert json.loads(arguments) == {"to": MAIL}
    (seen,) = provider.seen
    assert seen.target == f"/model/{CLAUDE}/converse-stream"
    assert seen.header("authorization") == ["Bearer bedrock-key"]
    assert leaks([MAIL, KEY], provider.seen) == []
    assert gateway.outcome_of(request_seq(gateway))["outcome"]["status"] == "ok"
    # The answer names no model, so the one that was asked for is charged.
    metrics = gateway.get("/metrics")[1].decode()
    assert f'model="{CLAUDE}",direction="output"}} 2' in metrics


def sdk(gateway: Gateway) -> anthropic.AnthropicBedrock:
    return anthropic.AnthropicBedrock(
        api_key="bedrock-key",
        aws_region="us-east-1",
        base_url=f"{gateway.url}/agent/coder",
        max_retries=0,
    )


def asked(**more: Any) -> dict[str, Any]:
    return {
        "model": CLAUDE,
        "max_tokens": 64,
        "messages": [{"role": "user", "content": f"Mail {MAIL} with {KEY}"}],
        **more,
    }


def test_the_official_bedrock_client_streams_a_restored_message(
    gateway: Gateway, provider: Provider
) -> None:
    provider.script = streaming(claude_chunks, "application/vnd.amazon.eventstream")
    with sdk(gateway) as http:
        events = list(http.messages.create(**asked(stream=True)))
    text = "".join(e.delta.text for e in events if e.type == "content_block_delta")
    assert text == f"Write to {MAIL} now."
    assert events[-1].type == "message_stop"
    (seen,) = provider.seen
    assert seen.target == f"/model/{CLAUDE}/invoke-with-response-stream"
    assert leaks([MAIL, KEY], provider.seen) == []


def test_the_official_bedrock_client_reads_a_whole_message(
    gateway: Gateway, provider: Provider
) -> None:
    provider.script = answering(
        lambda token: {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x",
            "content": [{"type": "text", "text": f"to {token}"}], "stop_reason": "end_turn",
            "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 4}}
    )  # fmt: skip
    with sdk(gateway) as http:
        answer = http.messages.create(**asked())
    assert answer.content[0].text == f"to {MAIL}"
    assert "anthropic_version" in provider.seen[0].document
    assert leaks([MAIL, KEY], provider.seen) == []


def test_a_signed_request_is_refused_with_a_clear_text(
    gateway: Gateway, provider: Provider
) -> None:
    signature = "AWS4-HMAC-SHA256 Credential=AKIA/20260101/us-east-1/bedrock/aws4_request"
    with client(gateway, authorization=signature) as http:
        answer = http.post(f"/model/{CLAUDE}/converse", json={"messages": []})
    assert answer.status_code == 403
    assert "bearer token" in answer.json()["message"]
    assert provider.seen == []


def test_a_broken_event_stream_never_ends_cleanly(gateway: Gateway, provider: Provider) -> None:
    def broken(token: str) -> list[bytes]:
        events = converse_events(token)
        return [*events[:4], events[4][:-1] + b"\0"]

    provider.script = streaming(broken, "application/vnd.amazon.eventstream")
    body = {"messages": [{"role": "user", "content": [{"text": MAIL}]}]}
    with (
        client(gateway, authorization="Bearer k") as http,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        http.post(f"/model/{CLAUDE}/converse-stream", json=body)


def test_a_guardrail_header_reaches_the_provider_and_a_value_in_one_is_refused(
    gateway: Gateway, provider: Provider
) -> None:
    provider.script = answering(lambda _: {"output": {"message": {"content": []}}})
    body = {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}
    with client(gateway, authorization="Bearer k") as http:
        path = f"/model/{CLAUDE}/converse"
        name = "x-amzn-bedrock-guardrailidentifier"
        assert http.post(path, json=body, headers={name: "gr-1"}).status_code == 200
        assert http.post(path, json=body, headers={name: MAIL}).status_code == 403
    assert [seen.header(name) for seen in provider.seen] == [["gr-1"]]


# -- Anthropic batches and models ---


def test_the_official_client_runs_a_batch_whose_results_come_through_the_gateway(
    gateway: Gateway, provider: Provider
) -> None:
    token = ""

    async def script(_: web.Request, seen: Seen) -> web.StreamResponse:
        nonlocal token
        path = seen.target.partition("?")[0]
        if path.endswith("/results"):
            message = {
                "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x",
                "content": [{"type": "text", "text": f"to {token}"}], "stop_reason": "end_turn",
                "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
            }  # fmt: skip
            lines = [
                json.dumps({"custom_id": n, "result": {"type": "succeeded", "message": message}})
                for n in "ab"
            ]
            return web.Response(text="\n".join(lines) + "\n", content_type="application/x-jsonl")
        if seen.method == "POST" and seen.body:
            token = token_in(seen)
        batch = {
            "id": "msgbatch_1", "type": "message_batch", "processing_status": "ended",
            "request_counts": {"processing": 0, "succeeded": 2, "errored": 0, "canceled": 0,
                               "expired": 0},
            "created_at": "2026-11-01T00:00:00Z", "expires_at": "2026-11-02T00:00:00Z",
            "results_url": "https://api.anthropic.com/v1/messages/batches/msgbatch_1/results",
        }  # fmt: skip
        if seen.method == "DELETE":
            batch = {"id": "msgbatch_1", "type": "message_batch_deleted"}
        if seen.method == "GET" and path.endswith("/batches"):
            return web.json_response({"data": [batch], "has_more": False})
        return web.json_response(batch)

    provider.script = script
    requests = [
        {"custom_id": name, "params": {k: v for k, v in asked().items() if k != "model"}
         | {"model": "claude-sonnet-4-5"}}
        for name in "ab"
    ]  # fmt: skip
    with anthropic.Anthropic(
        api_key="key-1", base_url=f"{gateway.url}/agent/coder", max_retries=0
    ) as http:
        batches = http.messages.batches
        assert batches.create(requests=requests).id == "msgbatch_1"
        results = list(batches.results("msgbatch_1"))
        assert [result.custom_id for result in results] == ["a", "b"]
        assert [result.result.message.content[0].text for result in results] == [f"to {MAIL}"] * 2
        assert batches.cancel("msgbatch_1").id == "msgbatch_1"
        assert next(iter(batches.list(limit=5))).id == "msgbatch_1"
        assert batches.delete("msgbatch_1").id == "msgbatch_1"
    assert leaks([MAIL, KEY], provider.seen) == []
    assert len(provider.seen) == 6


def test_the_official_client_lists_models(gateway: Gateway, provider: Provider) -> None:
    model = {"id": "claude-x", "type": "model", "display_name": "X",
             "created_at": "2026-01-01T00:00:00Z"}  # fmt: skip
    provider.script = answering(
        lambda _: {"data": [model], "has_more": False, "first_id": "x", "last_id": "x"}
    )
    with anthropic.Anthropic(
        api_key="key-1", base_url=f"{gateway.url}/agent/coder", max_retries=0
    ) as http:
        assert [found.id for found in http.models.list(limit=10)] == ["claude-x"]
        provider.script = answering(lambda _: model)
        assert http.models.retrieve("claude-x").id == "claude-x"
    assert [seen.target for seen in provider.seen] == ["/v1/models?limit=10", "/v1/models/claude-x"]
