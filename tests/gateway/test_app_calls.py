"""Calls through a real gateway process to a real provider socket: what leaves, what comes back."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import re
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import pytest
from aiohttp import web
from gateway_harness import (
    Gateway,
    Provider,
    Seen,
    answer_by_rule,
    begin_stream,
    leaks,
    running,
)

from gateway.offline import Answer, ToolBlock, message_events, message_json, plan_answer
from shared.telemetry import USAGE_LINE

TERM = 'Project "Blue\\Heron"'


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
    folder = tmp_path_factory.mktemp("calls")
    (folder / "terms").write_text(TERM + "\n")
    with running(
        folder / "home",
        shared_provider.url,
        custom_terms_file=str(folder / "terms"),
        body_limit_mib="2",
        read_timeout="3",
    ) as started:
        yield started


@pytest.fixture
def provider(shared_provider: Provider) -> Iterator[Provider]:
    shared_provider.seen.clear()
    shared_provider.script = answer_by_rule
    yield shared_provider
    shared_provider.script = answer_by_rule


def body(text: Any = "hello", **members: Any) -> dict[str, Any]:
    return {
        "model": "claude-test-1",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": text}],
        **members,
    }


async def post(
    gateway: Gateway,
    document: Any,
    *,
    path: str = "/agent/coder/v1/messages",
    headers: dict[str, str] | None = None,
    method: str = "POST",
) -> tuple[int, dict[str, str], bytes]:
    sent = {"content-type": "application/json", "x-api-key": "key-1", **(headers or {})}
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, gateway.url + path, data=data, headers=sent) as answer,
    ):
        got = {name.lower(): value for name, value in answer.headers.items()}
        return answer.status, got, await answer.read()


def text_of(raw: bytes) -> str:
    return "".join(block.get("text", "") for block in json.loads(raw)["content"])


def last(gateway: Gateway, kind: str) -> dict[str, Any]:
    return [record for record in gateway.records() if record["type"] == kind][-1]


# -- nothing leaves unscanned ---


def canary(position: str) -> str:
    return f"{position}.probe@leak-canary.org"


POSITIONS = (
    "system", "plain", "block", "sysmsg", "toolin", "toolkey", "nested", "toolres", "toollist",
    "doctext", "docbase", "doctitle", "tooldesc", "schema", "metadata", "stopseq", "search",
)  # fmt: skip


def everywhere() -> dict[str, Any]:
    """One request with a canary in each place where a client puts text."""
    at = {position: canary(position) for position in POSITIONS}
    document = base64.b64encode(f"Contact {at['docbase']} for more".encode()).decode()
    return {
        "model": "claude-test-1",
        "max_tokens": 100,
        "system": [{"type": "text", "text": f"You serve {at['system']}"}],
        "metadata": {"user_id": at["metadata"]},
        "stop_sequences": [at["stopseq"]],
        "tools": [
            {
                "name": "mail",
                "description": f"Sends to {at['tooldesc']}",
                "input_schema": {
                    "type": "object",
                    "properties": {"to": {"type": "string", "default": at["schema"]}},
                },
            }
        ],
        "messages": [
            {"role": "user", "content": f"First {at['plain']}"},
            {"role": "system", "content": f"Note {at['sysmsg']}"},
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "tool_use",
                        "id": "toolu_1",
                        "name": "mail",
                        "input": {
                            "to": at["toolin"],
                            at["toolkey"]: 1,
                            "raw": json.dumps({"deep": [at["nested"]]}),
                        },
                    }
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": at["toolres"]},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [{"type": "text", "text": at["toollist"]}],
                    },
                    {
                        "type": "document",
                        "title": at["doctitle"],
                        "source": {
                            "type": "text",
                            "media_type": "text/plain",
                            "data": at["doctext"],
                        },
                    },
                    {
                        "type": "document",
                        "source": {
                            "type": "base64",
                            "media_type": "text/plain",
                            "data": document,
                        },
                    },
                    {
                        "type": "search_result",
                        "source": "internal",
                        "title": "t",
                        "content": [{"type": "text", "text": at["search"]}],
                    },
                ],
            },
            {"role": "user", "content": [{"type": "text", "text": f"Now {at['block']}"}]},
        ],
    }


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens?beta=true"])
async def test_no_form_of_any_value_reaches_the_provider(
    gateway: Gateway, provider: Provider, path: str
) -> None:
    status, _, raw = await post(gateway, everywhere(), path="/agent/coder" + path)
    assert status == 200, raw
    assert len(provider.seen) == 1
    assert leaks([canary(position) for position in POSITIONS], provider.seen) == []
    forwarded = provider.seen[0]
    assert len(set(re.findall(rb"\[EMAIL_[a-z0-9]+\]", forwarded.body))) >= len(POSITIONS) - 1
    assert forwarded.target == path


async def test_the_leak_search_itself_finds_every_form() -> None:
    value = canary('q"\\x')
    forms = [
        value,
        json.dumps(value),
        json.dumps(json.dumps(value)),
        value.encode().hex(),
        value.upper(),
        *[base64.b64encode(b"a" * n + value.encode() + b"z" * n).decode() for n in range(3)],
    ]
    for form in forms:
        assert leaks([value], [Seen("POST", "/", [], form.encode())]) == [value], form
        assert leaks([value], [Seen("POST", "/", [(b"x", form.encode())], b"")]) == [value]
    assert leaks([value], [Seen("POST", "/", [], b"[EMAIL_x7k2m9qd]")]) == []


async def test_a_compressed_body_is_scanned_and_sent_on_plain(
    gateway: Gateway, provider: Provider
) -> None:
    for encoding, pack in (("gzip", gzip.compress), ("deflate", zlib.compress)):
        packed = pack(json.dumps(body(f"to {canary(encoding)}")).encode())
        status, _, raw = await post(gateway, packed, headers={"content-encoding": encoding})
        assert status == 200, raw
        assert canary(encoding) in text_of(raw)
    assert leaks([canary("gzip"), canary("deflate")], provider.seen) == []
    assert provider.seen[0].header("content-encoding") == []


async def test_only_listed_headers_and_one_credential_leave(
    gateway: Gateway, provider: Provider
) -> None:
    await post(
        gateway,
        body(),
        headers={
            "authorization": "Bearer key-2",
            "cookie": "session=1",
            "x-forwarded-for": "192.0.2.1",
            "x-secret-thing": "value",
            "anthropic-version": "2023-06-01",
            "anthropic-beta": "a-1,b-2",
            "x-stainless-lang": "python",
            "connection": "keep-alive, x-secret-thing",
        },
    )
    seen = provider.seen[0]
    names = {name.decode().lower() for name, _ in seen.headers}
    assert names <= {
        "host", "content-length", "content-type", "accept", "accept-encoding", "user-agent",
        "x-api-key", "anthropic-version", "anthropic-beta", "x-stainless-lang",
    }  # fmt: skip
    assert seen.header("x-api-key") == ["key-1"]
    assert seen.header("anthropic-beta") == ["a-1,b-2"]


async def test_a_header_with_a_protected_value_is_left_out(
    gateway: Gateway, provider: Provider
) -> None:
    status, _, _ = await post(
        gateway,
        body(),
        headers={"x-client-request-id": canary("header"), "user-agent": "client/1.0"},
    )
    assert status == 200
    assert leaks([canary("header")], provider.seen) == []
    assert provider.seen[0].header("x-client-request-id") == []
    assert provider.seen[0].header("user-agent") == ["client/1.0"]
    assert last(gateway, "request")["ext"]["headers_left_out"] == ["x-client-request-id"]


async def test_a_bearer_token_alone_passes_as_it_is(gateway: Gateway, provider: Provider) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            gateway.url + "/v1/messages", json=body(), headers={"Authorization": "Bearer t-1"}
        ) as answer,
    ):
        assert answer.status == 200
    assert provider.seen[0].header("authorization") == ["Bearer t-1"]
    assert provider.seen[0].header("x-api-key") == []


async def test_the_intent_is_on_disk_before_the_provider_hears_of_the_call(
    gateway: Gateway, provider: Provider
) -> None:
    found: list[dict[str, Any]] = []

    async def look(request: web.Request, seen: Seen) -> web.StreamResponse:
        found.append(gateway.records()[-1])
        return await answer_by_rule(request, seen)

    provider.script = look
    status, headers, _ = await post(gateway, body(f"x {canary('intent')}"))
    assert status == 200
    intent = found[0]
    assert intent["type"] == "request"
    assert intent["actor"]["role"] == "coder"
    assert intent["action"]["name"] == "anthropic.messages"
    assert intent["ext"]["redactions"] == {"EMAIL": 1}
    assert len(intent["action"]["args_c"]) == 64
    assert headers["x-audit-receipt"].split(";")[1] == str(intent["seq"])
    outcome = gateway.outcome_of(intent["seq"])
    assert outcome["outcome"]["status"] == "ok"
    assert outcome["outcome"]["http"] == 200
    assert outcome["outcome"]["stop"] == "end_turn"
    assert outcome["outcome"]["usage"]["output"] > 0
    assert canary("intent").encode() not in b"".join(
        path.read_bytes() for path in (gateway.home / "ledger").rglob("*") if path.is_file()
    )


async def test_bytes_nobody_can_read_pass_by_policy_and_are_recorded(
    gateway: Gateway, provider: Provider
) -> None:
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256))).decode()
    source = {"type": "base64", "media_type": "image/png", "data": picture}
    status, headers, raw = await post(gateway, body([{"type": "image", "source": source}]))
    assert status == 200, raw
    assert provider.seen[0].document["messages"][0]["content"][0]["source"]["data"] == picture
    intent = last(gateway, "request")
    assert str(intent["seq"]) == headers["x-audit-receipt"].split(";")[1]
    assert intent["ext"]["opaque"] == {"image/png": 1}


# -- what comes back ---


async def test_values_come_back_in_a_whole_answer(gateway: Gateway, provider: Provider) -> None:
    said = f"write to {canary('whole')} about {TERM}"
    status, headers, raw = await post(gateway, body(said))
    assert status == 200
    assert text_of(raw) == f"You said: {said}"
    assert headers["request-id"] == "req_1"
    assert headers["server"] == "sphragis"
    assert leaks([canary("whole"), TERM], provider.seen) == []


@pytest.mark.parametrize("size", [50, 150_000])
async def test_values_come_back_in_answers_of_any_size(
    gateway: Gateway, provider: Provider, size: int
) -> None:
    said = f"{'x ' * size} {canary('sized')} end"
    _, _, raw = await post(gateway, body(said))
    assert text_of(raw) == f"You said: {said}"


async def call_a_tool(request: web.Request, seen: Seen) -> web.StreamResponse:
    """Stream a tool call that uses the tokens of the prompt: a mail address, then a term."""
    mail, term = re.findall(r"\[[A-Z]+_[a-z0-9]+\]", seen.body.decode())
    call = ToolBlock(
        "toolu_1", "mail", {"to": mail, "note": f"about {term}", "raw": json.dumps([term])}
    )
    answer = Answer("claude-test-1", (call,), "tool_use", 1, 1)
    if seen.document.get("stream") is not True:
        return web.Response(body=message_json(answer, "msg_1"), content_type="application/json")
    response = await begin_stream(request)
    for event in message_events(answer, "msg_1"):
        await response.write(event)
    return response


async def test_values_come_back_in_streamed_text_and_tool_arguments(
    gateway: Gateway, provider: Provider
) -> None:
    async with anthropic.AsyncAnthropic(
        base_url=gateway.url + "/agent/coder", api_key="k", max_retries=0
    ) as client:
        said = f"hello {canary('stream')} and {TERM}, bye"
        async with client.messages.stream(
            model="claude-test-1", max_tokens=9, messages=[{"role": "user", "content": said}]
        ) as stream:
            pieces = [piece async for piece in stream.text_stream]
            final = await stream.get_final_message()
        assert "".join(pieces) == f"You said: {said}"
        assert len(pieces) > 3
        assert final.stop_reason == "end_turn"
        arguments = {"to": canary("args"), "note": f"about {TERM}", "raw": json.dumps([TERM])}
        provider.script = call_a_tool
        prompt: Any = [{"role": "user", "content": f"mail {canary('args')} about {TERM}"}]
        async with client.messages.stream(
            model="claude-test-1", max_tokens=9, messages=prompt
        ) as stream:
            final = await stream.get_final_message()
        assert final.content[0].type == "tool_use"
        assert final.content[0].input == arguments
        whole = await client.messages.create(model="claude-test-1", max_tokens=9, messages=prompt)
        assert whole.content[0].type == "tool_use"
        assert whole.content[0].input == arguments
    assert leaks([canary("stream"), canary("args"), TERM], provider.seen) == []


async def test_the_official_client_works_whole_with_tools_and_counting(
    gateway: Gateway, provider: Provider
) -> None:
    async with anthropic.AsyncAnthropic(
        base_url=gateway.url + "/agent/coder", api_key="k", max_retries=0
    ) as client:
        prompt: Any = [
            {"role": "user", "content": f"go\n@tool mail {json.dumps({'to': canary('sdk')})}"}
        ]
        tools: Any = [{"name": "mail", "input_schema": {"type": "object"}}]
        first = await client.messages.create(
            model="claude-test-1", max_tokens=9, messages=prompt, tools=tools
        )
        assert first.content[0].type == "tool_use"
        assert first.content[0].input == {"to": canary("sdk")}
        prompt += [
            {"role": "assistant", "content": [b.model_dump() for b in first.content]},
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": first.content[0].id,
                        "content": f"sent to {canary('sdk')}",
                    }
                ],
            },
        ]
        second = await client.messages.create(
            model="claude-test-1", max_tokens=9, messages=prompt, tools=tools
        )
        assert second.content[0].type == "text"
        assert second.content[0].text == f"Done. The tool answered: sent to {canary('sdk')}"
        counted = await client.messages.count_tokens(model="claude-test-1", messages=prompt)
        assert counted.input_tokens > 0
        with pytest.raises(anthropic.PermissionDeniedError) as refused:
            await client.post("/v1/threads", cast_to=object, body={})
        assert "gateway" in str(refused.value).lower()
    assert leaks([canary("sdk")], provider.seen) == []


async def test_one_role_never_gets_the_values_of_another(
    gateway: Gateway, provider: Provider
) -> None:
    await post(gateway, body(canary("owner")), path="/agent/alice/v1/messages")
    token = re.findall(rb"\[EMAIL_[a-z0-9]+\]", provider.seen[-1].body)[0].decode()
    _, _, owner = await post(gateway, body(f"{token}"), path="/agent/alice/v1/messages")
    assert canary("owner") in text_of(owner)
    for stranger in ("/agent/bob/v1/messages", "/v1/messages", "/agent/Alice/v1/messages"):
        _, _, raw = await post(gateway, body(f"say {token}"), path=stranger)
        assert canary("owner").encode() not in raw
        assert token in text_of(raw)


async def test_the_same_value_gives_the_same_bytes_on_every_turn(
    gateway: Gateway, provider: Provider
) -> None:
    for _ in range(2):
        await post(gateway, everywhere())
    assert provider.seen[0].body == provider.seen[1].body


async def test_a_compressed_answer_is_read(gateway: Gateway, provider: Provider) -> None:
    async def packed(request: web.Request, seen: Seen) -> web.StreamResponse:
        raw = gzip.compress(message_json(plan_answer(seen.document), "msg_1"))
        return web.Response(
            body=raw, headers={"content-encoding": "gzip", "content-type": "application/json"}
        )

    provider.script = packed
    status, headers, raw = await post(gateway, body(canary("packed")))
    assert status == 200
    assert "content-encoding" not in headers
    assert canary("packed") in text_of(raw)


async def test_sixty_four_calls_at_once_each_get_their_own_answer(
    gateway: Gateway, provider: Provider
) -> None:
    async def one(number: int) -> None:
        said = f"call {number} of {canary(f'par{number}')}"
        role = f"role-{number % 7}"
        status, _, raw = await post(
            gateway, body(said), path=f"/agent/{role}/v1/messages", headers={}
        )
        assert status == 200, raw
        assert text_of(raw) == f"You said: {said}"

    await asyncio.gather(*(one(number) for number in range(64)))
    assert leaks([canary(f"par{number}") for number in range(64)], provider.seen) == []
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        records = gateway.records()
        asked = {record["seq"] for record in records if record["type"] == "request"}
        told = [record["ref"] for record in records if record["type"] == "outcome"]
        if sorted(told) == sorted(asked):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("some call has no outcome, or two")


# -- streams ---


def start_events(seen: Seen) -> list[bytes]:
    """The events of a long answer, up to but not including its end."""
    events = list(message_events(plan_answer(seen.document), "msg_1"))
    return events[:-3]


async def test_the_first_text_arrives_before_the_provider_has_finished(
    gateway: Gateway, provider: Provider
) -> None:
    client_has_text = threading.Event()

    async def wait_for_the_client(request: web.Request, seen: Seen) -> web.StreamResponse:
        events = list(message_events(plan_answer(seen.document), "msg_1"))
        response = await begin_stream(request)
        for event in events[:8]:
            await response.write(event)
        await asyncio.to_thread(client_has_text.wait, 10)
        for event in events[8:]:
            await response.write(event)
        return response

    provider.script = wait_for_the_client
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            gateway.url + "/agent/coder/v1/messages", json=body("x" * 200, stream=True)
        ) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        got = b""
        while b"text_delta" not in got:
            piece = await asyncio.wait_for(answer.content.readany(), 5)
            assert piece
            got += piece
        client_has_text.set()
        got += await answer.content.read()
    assert b"message_stop" in got


async def test_a_provider_that_breaks_off_never_looks_like_a_clean_end(
    gateway: Gateway, provider: Provider
) -> None:
    async def break_off(request: web.Request, seen: Seen) -> web.StreamResponse:
        response = await begin_stream(request)
        for event in start_events(seen):
            await response.write(event)
        assert request.transport is not None
        request.transport.abort()
        return response

    async def end_early(request: web.Request, seen: Seen) -> web.StreamResponse:
        response = await begin_stream(request)
        for event in start_events(seen):
            await response.write(event)
        return response

    for script in (break_off, end_early):
        provider.script = script
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                gateway.url + "/agent/coder/v1/messages", json=body("cut", stream=True)
            ) as answer,
        ):
            assert answer.status == 200
            seq = int(answer.headers["x-audit-receipt"].split(";")[1])
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        assert gateway.outcome_of(seq)["outcome"]["status"] == "cut"


async def test_an_error_inside_a_stream_is_passed_on_and_recorded(
    gateway: Gateway, provider: Provider
) -> None:
    async def fail_inside(request: web.Request, seen: Seen) -> web.StreamResponse:
        response = await begin_stream(request)
        await response.write(start_events(seen)[0])
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "full"}}
        await response.write(b"event: error\ndata: " + json.dumps(error).encode() + b"\n\n")
        return response

    provider.script = fail_inside
    status, headers, raw = await post(gateway, body("x", stream=True))
    assert status == 200
    assert b"overloaded_error" in raw
    seq = int(headers["x-audit-receipt"].split(";")[1])
    outcome = gateway.outcome_of(seq)["outcome"]
    assert (outcome["status"], outcome["cause"]) == ("provider_error", "overloaded_error")


async def test_a_client_that_leaves_closes_the_provider_too(
    gateway: Gateway, provider: Provider
) -> None:
    gone = threading.Event()

    async def talk_for_ever(request: web.Request, seen: Seen) -> web.StreamResponse:
        try:
            response = await begin_stream(request)
            await response.write(b"".join(start_events(seen)))
            while True:
                await response.write(b'event: ping\ndata: {"type": "ping"}\n\n')
                await asyncio.sleep(0.02)
        finally:
            gone.set()

    provider.script = talk_for_ever
    async with aiohttp.ClientSession() as session:
        answer = await session.post(
            gateway.url + "/agent/coder/v1/messages", json=body("bye", stream=True)
        )
        seq = int(answer.headers["x-audit-receipt"].split(";")[1])
        await answer.content.readany()
        answer.close()
    assert await asyncio.to_thread(gone.wait, 10)
    outcome = await asyncio.to_thread(gateway.outcome_of, seq)
    assert outcome["outcome"]["status"] == "client_abort"


async def test_a_client_that_leaves_before_the_answer_is_noticed(
    gateway: Gateway, provider: Provider
) -> None:
    gone, came = threading.Event(), threading.Event()

    async def think(request: web.Request, seen: Seen) -> web.StreamResponse:
        came.set()
        try:
            await asyncio.sleep(2.5)
        finally:
            gone.set()
        return web.Response(status=500)

    provider.script = think
    raw = json.dumps(body("bye")).encode()
    host, port = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(
            b"POST /agent/coder/v1/messages HTTP/1.1\r\nHost: x\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(raw)
        )
        client.sendall(raw)
        assert await asyncio.to_thread(came.wait, 10)
    assert await asyncio.to_thread(gone.wait, 10)
    seq = last(gateway, "request")["seq"]
    outcome = await asyncio.to_thread(gateway.outcome_of, seq)
    assert outcome["outcome"]["status"] == "client_abort"


async def test_a_slow_client_slows_the_provider_down(gateway: Gateway, provider: Provider) -> None:
    written = 0
    lump = b"event: ping\ndata: " + json.dumps({"type": "ping", "p": "x" * 65_000}).encode()

    async def flood(request: web.Request, seen: Seen) -> web.StreamResponse:
        nonlocal written
        response = await begin_stream(request)
        for _ in range(2_000):
            await response.write(lump + b"\n\n")
            written += len(lump)
        return response

    provider.script = flood
    async with aiohttp.ClientSession(read_bufsize=1 << 10) as session:
        answer = await session.post(
            gateway.url + "/agent/coder/v1/messages", json=body("x", stream=True)
        )
        before = -1
        while written != before:  # until nothing moves any more
            before = written
            await asyncio.sleep(0.5)
        assert 0 < written < 40_000_000
        answer.close()


# -- refusals and failures ---


REFUSED = [
    ("unknown path", "/v1/messages/x/y", {}, b"{}", 403, "path"),
    ("bad role", "/agent/a%20b/v1/messages", {}, b"{}", 404, "role"),
    ("query", "/v1/messages?key=abc", {}, b"{}", 403, "query"),
    ("no type", "/v1/messages", {"content-type": "text/plain"}, b"{}", 403, "content_type"),
    ("charset", "/v1/messages", {"content-type": "application/json; charset=utf-16"}, b"{}", 403,
     "content_type"),
    ("multipart", "/v1/messages", {"content-type": "multipart/form-data; boundary=x"}, b"--x", 403,
     "content_type"),
    ("twice", "/v1/messages", {}, b'{"model":"a","model":"b"}', 403, "duplicate_key"),
    ("not json", "/v1/messages", {}, b"hello", 403, None),
    ("empty", "/v1/messages", {}, b"", 403, None),
    ("array", "/v1/messages", {}, b"[]", 403, "not_an_object"),
    ("utf-8", "/v1/messages", {}, b'{"model":"\xff"}', 403, None),
    ("encoding", "/v1/messages", {"content-encoding": "compress"}, b"{}", 403, None),
    ("not gzip", "/v1/messages", {"content-encoding": "gzip"}, b"{}", 403, None),
    ("large", "/v1/messages", {}, b'{"a":"' + b"x" * (3 << 20) + b'"}', 403, "body_too_large"),
    ("scheme", "/v1/messages", {"x-api-key": "", "authorization": "Basic eDp5"}, b"{}", 403,
     "credential_scheme"),
    ("header", "/v1/messages", {"anthropic-beta": "probe@leak-canary.org"},
     b'{"model":"m","messages":[]}', 403, "header_value"),
    ("block", "/v1/messages", {},
     b'{"model":"m","messages":[{"role":"user","content":[{"type":"hologram"}]}]}', 403, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "headers", "raw", "status", "code"),
    [row[1:] for row in REFUSED],
    ids=[row[0] for row in REFUSED],
)
async def test_what_is_not_understood_is_refused_told_and_recorded(
    gateway: Gateway,
    provider: Provider,
    path: str,
    headers: dict[str, str],
    raw: bytes,
    status: int,
    code: str | None,
) -> None:
    got, answer_headers, answer = await post(gateway, raw, path=path, headers=headers)
    assert got == status, answer
    assert answer_headers["x-should-retry"] == "false"
    error = json.loads(answer)["error"]
    assert error["message"].endswith(".")
    assert b"leak-canary" not in answer
    if path != "/v1/embeddings":
        assert json.loads(answer)["type"] == "error"
    assert provider.seen == []
    deny = last(gateway, "deny")
    assert deny["outcome"] == {"status": "refused", "http": status}
    if code is not None:
        assert deny["policy"]["rules"] == [code]
    assert answer_headers["x-audit-receipt"].split(";")[1] == str(deny["seq"])
    metrics = gateway.get("/metrics")[1].decode()
    assert f'sphragis_refused_total{{reason="{deny["policy"]["rules"][0]}"}}' in metrics


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_another_method_is_refused(gateway: Gateway, provider: Provider, method: str) -> None:
    status, _, _ = await post(gateway, body(canary("method")), method=method)
    assert status == 403
    assert provider.seen == []


async def test_strange_request_lines_never_reach_the_provider(
    gateway: Gateway, provider: Provider
) -> None:
    host, port = gateway.url.removeprefix("http://").split(":")
    raw = json.dumps(body(canary("line"))).encode()
    for target in (
        "/v1/messages/../messages",
        "//v1/messages",
        "/v1//messages",
        "/v1/messages%0a",
        "/v1/mess%61ges",
        "/v1/messages;x",
        "/v1/messages/",
        "http://127.0.0.1:1/v1/messages",
        "/agent/../v1/messages",
        "/agent/coder/../../v1/messages",
        "/v1/messages?beta=true&beta=true",
        "*",
    ):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(raw)}\r\nConnection: close\r\n\r\n".encode()
            + raw
        )
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        assert answer.split()[1] in {b"400", b"403", b"404"}, (target, answer)
    assert provider.seen == []


async def test_a_body_that_never_ends_or_is_broken_reaches_nobody(
    gateway: Gateway, provider: Provider
) -> None:
    host, port = gateway.url.removeprefix("http://").split(":")
    head = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    for rest in (
        b"Content-Length: 500\r\n\r\n{",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"a"',
    ):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head + rest)
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.close()
        await reader.read()
    assert (await post(gateway, body("still here")))[0] == 200
    assert len(provider.seen) == 1
    assert "internal error" not in gateway.log.read_text()


async def test_a_json_error_of_the_provider_passes_with_its_headers(
    gateway: Gateway, provider: Provider
) -> None:
    async def limited(request: web.Request, seen: Seen) -> web.StreamResponse:
        token = re.findall(r"\[EMAIL_[a-z0-9]+\]", seen.body.decode())[0]
        return web.json_response(
            {"type": "error", "error": {"type": "rate_limit_error", "message": f"no {token}"}},
            status=429,
            headers={
                "retry-after": "7",
                "x-should-retry": "true",
                "anthropic-ratelimit-requests-remaining": "0",
                "set-cookie": "a=b",
                "x-internal": "1",
            },
        )

    provider.script = limited
    status, headers, raw = await post(gateway, body(canary("limited")))
    assert status == 429
    assert json.loads(raw)["error"]["message"] == f"no {canary('limited')}"
    assert headers["retry-after"] == "7"
    assert headers["x-should-retry"] == "true"
    assert headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert "set-cookie" not in headers
    assert "x-internal" not in headers
    seq = int(headers["x-audit-receipt"].split(";")[1])
    assert gateway.outcome_of(seq)["outcome"]["status"] == "provider_error"


async def html(request: web.Request, seen: Seen) -> web.StreamResponse:
    return web.Response(status=503, text="<html>secret page</html>", content_type="text/html")


async def plain(request: web.Request, seen: Seen) -> web.StreamResponse:
    return web.Response(status=200, text="secret page")


async def redirect(request: web.Request, seen: Seen) -> web.StreamResponse:
    return web.Response(status=307, headers={"location": "http://127.0.0.1:1/"})


async def hang_up(request: web.Request, seen: Seen) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def silence(request: web.Request, seen: Seen) -> web.StreamResponse:
    await asyncio.sleep(10)
    return web.Response()


async def broken_json(request: web.Request, seen: Seen) -> web.StreamResponse:
    return web.Response(body=b'{"type": "message', content_type="application/json")


async def empty_stream(request: web.Request, seen: Seen) -> web.StreamResponse:
    return await begin_stream(request)


FAILURES = [
    (html, 503),
    (plain, 502),
    (redirect, 502),
    (hang_up, 502),
    (silence, 504),
    (broken_json, 502),
    (empty_stream, 502),
]


@pytest.mark.parametrize(
    ("script", "status"), FAILURES, ids=[script.__name__ for script, _ in FAILURES]
)
async def test_a_provider_that_fails_gives_an_error_in_the_clients_own_shape(
    gateway: Gateway, provider: Provider, script: Any, status: int
) -> None:
    provider.script = script
    got, headers, raw = await post(gateway, body("x", stream=True))
    assert got == status
    document = json.loads(raw)
    assert document["type"] == "error"
    assert document["error"]["type"] == "api_error"
    assert b"secret page" not in raw
    seq = int(headers["x-audit-receipt"].split(";")[1])
    outcome = gateway.outcome_of(seq)["outcome"]
    assert outcome["status"] == "upstream_error"
    assert outcome["http"] == status


# -- the gateway's own pages ---


async def test_probes_are_answered_without_a_key(gateway: Gateway, provider: Provider) -> None:
    async with aiohttp.ClientSession() as session:
        for method, path in (
            ("HEAD", "/agent/coder"),
            ("GET", "/agent/coder/"),
            ("HEAD", "/agent/coder/api/hello"),
            ("GET", "/api/hello"),
            ("GET", "/healthz"),
            ("GET", "/readyz"),
        ):
            async with session.request(method, gateway.url + path) as answer:
                assert answer.status == 200, path
    assert gateway.get("/healthz")[1] == b"ok"
    assert provider.seen == []


async def test_the_usage_family_comes_first_in_the_form_every_deck_reads(
    gateway: Gateway, provider: Provider
) -> None:
    await post(gateway, body("count me"), path="/agent/meter.1/v1/messages")
    await post(gateway, body("count me", stream=True), path="/agent/meter.1/v1/messages")
    await post(gateway, body("write to a.b@mail.example.org"))
    status, raw = gateway.get("/metrics")
    assert status == 200
    lines = raw.decode().splitlines()
    usage = [found for line in lines if (found := USAGE_LINE.match(line))]
    mine = {m[3]: float(m[4]) for m in usage if m[1] == "meter.1"}
    assert mine["input"] > 0
    assert mine["output"] == 2 * 5
    assert {m[2] for m in usage if m[1] == "meter.1"} == {"claude-test-1"}
    first_other = next(
        i for i, line in enumerate(lines) if line and "sphragis_tokens_total" not in line
    )
    assert all("sphragis_tokens_total" not in line for line in lines[first_other:])
    text = raw.decode()
    assert 'sphragis_requests_total{path="/v1/messages",upstream="anthropic"}' in text
    assert 'sphragis_responses_total{code="2xx",path="/v1/messages"}' in text
    assert 'sphragis_redactions_total{direction="request",kind="EMAIL"}' in text
    assert "sphragis_audit_append_failures_total 0.0" in text
    assert 'sphragis_upstream_request_duration_seconds_bucket{le="0.05"' in text


async def test_the_console_shows_figures_and_only_to_this_machine(gateway: Gateway) -> None:
    async with aiohttp.ClientSession() as session:
        for path, kind in (
            ("/ui", "text/html"),
            ("/ui/console.js", "text/javascript"),
            ("/ui/console.css", "text/css"),
        ):
            async with session.get(gateway.url + path) as answer:
                assert answer.status == 200
                assert answer.content_type == kind
                assert "default-src 'none'" in answer.headers["content-security-policy"]
        async with session.get(gateway.url + "/ui/state") as answer:
            state = await answer.json()
        assert state["ready"] is True
        assert state["ledger"]["size"] > 0
        assert state["ledger"]["checkpoint"].startswith(state["ledger"]["origin"])
        rebound = {"host": "attacker.example"}
        async with session.get(gateway.url + "/ui/state", headers=rebound) as answer:
            assert answer.status == 403


def test_the_homes_files_are_closed_to_others(gateway: Gateway) -> None:
    for path in [gateway.home, *gateway.home.rglob("*")]:
        # What the ledger has finished is read-only, within a directory that is closed to others.
        finished = gateway.home / "ledger" in path.parents and path.is_file()
        assert path.stat().st_mode & (0o037 if finished else 0o077) == 0, path


def test_the_log_is_short_and_holds_no_value(gateway: Gateway) -> None:
    log = Path(gateway.log).read_text()
    assert "leak-canary" not in log
    assert "Traceback" not in log
    assert len(log.splitlines()) < 6
