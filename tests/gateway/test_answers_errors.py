"""Answers that are no streams, or not the ones that were asked for, through a real gateway."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from aiohttp import web
from gateway_harness import Gateway, Provider, Script, Seen, running

MAIL = "jane.probe@leak-canary.org"
TOKEN = re.compile(r"\[EMAIL_[0-9a-z]{8}\]")
TEXT = f"Write to {MAIL}."

#: A path of each family, a body, and what the client says it is allowed to do.
CALLS: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "anthropic": (
        "/v1/messages",
        {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": TEXT}]},
        {"x-api-key": "k", "anthropic-version": "2023-06-01"},
    ),
    "chat": (
        "/v1/chat/completions",
        {"model": "gpt-x", "messages": [{"role": "user", "content": TEXT}]},
        {"authorization": "Bearer k"},
    ),
    "responses": (
        "/v1/responses",
        {"model": "gpt-x", "input": TEXT, "stream": True},
        {"authorization": "Bearer k"},
    ),
    "gemini": (
        "/v1beta/models/gemini-x:streamGenerateContent",
        {"contents": [{"parts": [{"text": TEXT}]}]},
        {"x-goog-api-key": "k"},
    ),
    "ollama": (
        "/api/chat",
        {"model": "m", "messages": [{"role": "user", "content": TEXT}], "stream": False},
        {},
    ),
    "bedrock": (
        "/model/m/converse-stream",
        {"messages": [{"role": "user", "content": [{"text": TEXT}]}]},
        {"authorization": "Bearer k"},
    ),
}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider()
    provider.start()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def gateway(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("answers") / "home"
    with running(home, provider.url, upstream_base_url=provider.url) as started:
        yield started


def answering(body: str, media: str | None, status: int = 200, **headers: str) -> Script:
    """A provider whose answer is `body` with the client's token at each `@`."""

    async def script(_: web.Request, seen: Seen) -> web.StreamResponse:
        found = TOKEN.search(seen.body.decode())
        assert found is not None
        data = body.replace("@", found.group()).encode()
        sent = headers | ({"content-type": media} if media else {})
        return web.Response(body=data, status=status, headers=sent)

    return script


def ask(gateway: Gateway, call: str) -> httpx.Response:
    path, body, headers = CALLS[call]
    return httpx.post(f"{gateway.url}/agent/coder{path}", json=body, headers=headers, timeout=30)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("body", "media"),
    [
        ("<html>busy @</html>", "text/html; charset=utf-8"),
        ("upstream busy @", "text/plain"),
        ("upstream busy @", None),
        ('{"error": ', "application/json"),
        ("", "application/json"),
    ],
)
def test_an_error_nobody_can_read_keeps_its_status_and_when_to_come_again(
    gateway: Gateway, provider: Provider, call: str, body: str, media: str | None
) -> None:
    provider.script = answering(body, media, 503, **{"retry-after": "7"})
    answer = ask(gateway, call)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "7"
    assert "busy" not in answer.text
    assert answer.content == b"" if body == "" else answer.json()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "media",
    [
        "application/json",
        "application/problem+json",
        "text/event-stream; charset=utf-8",
        "text/plain",
        "text/html",
        None,
    ],
)
def test_an_error_in_json_is_restored_whatever_it_is_declared_as(
    gateway: Gateway, provider: Provider, call: str, media: str | None
) -> None:
    # Some servers put a byte order mark in front of what they declare as JSON.
    mark = "\ufeff" if media == "application/json" else ""
    provider.script = answering(mark + '{"error": {"message": "no @"}}', media, 429)
    answer = ask(gateway, call)
    assert answer.status_code == 429
    assert answer.json() == {"error": {"message": f"no {MAIL}"}}


@pytest.mark.parametrize("call", ["anthropic", "chat", "responses", "gemini"])
def test_an_error_told_in_an_event_is_restored_and_keeps_its_status(
    gateway: Gateway, provider: Provider, call: str
) -> None:
    body = 'event: error\ndata: {"type": "error", "error": {"message": "no @"}}\n\n'
    provider.script = answering(body, "text/event-stream", 529, **{"retry-after": "7"})
    answer = ask(gateway, call)
    assert answer.status_code == 529
    assert answer.headers["retry-after"] == "7"
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.text.startswith("event: error\ndata: {")
    assert f"no {MAIL}" in answer.text


@pytest.mark.parametrize("call", ["anthropic", "chat", "responses", "gemini", "ollama", "bedrock"])
def test_a_whole_answer_comes_back_also_where_a_stream_was_asked_for(
    gateway: Gateway, provider: Provider, call: str
) -> None:
    odd = (
        '{"text": "to @ \\ud83d", "score": -Infinity, "big": 12345678901234567890, "a": 1, "a": 2}'
    )
    provider.script = answering(odd, "application/json")
    answer = ask(gateway, call)
    assert answer.status_code == 200
    assert answer.text.startswith(
        f'{{"text":"to {MAIL} \\ud83d","score":-Infinity,"big":1234567890'
    )


@pytest.mark.parametrize("call", ["anthropic", "chat", "ollama"])
def test_a_stream_nobody_asked_for_is_restored(
    gateway: Gateway, provider: Provider, call: str
) -> None:
    event = "data: %s\n\n"
    body, media = {
        "anthropic": (
            event
            % '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"@"}}'
            + event % '{"type":"message_stop"}',
            "text/event-stream",
        ),
        "chat": (
            event % '{"choices":[{"index":0,"delta":{"content":"@"}}]}' + event % "[DONE]",
            "text/event-stream",
        ),
        "ollama": (
            '{"message":{"content":"@"},"done":false}\n{"message":{"content":""},"done":true}\n',
            "application/x-ndjson",
        ),
    }[call]
    provider.script = answering(body, media)
    answer = ask(gateway, call)
    assert answer.headers["content-type"] == media
    check(answer)


@pytest.mark.parametrize("media", [None, "text/plain; charset=utf-8", "application/octet-stream"])
def test_a_stream_that_was_asked_for_may_be_declared_as_anything(
    gateway: Gateway, provider: Provider, media: str | None
) -> None:
    event = '{"type":"response.output_text.delta","output_index":0,"delta":"@"}'
    end = '{"type":"response.completed","response":{}}'
    provider.script = answering(f"data: {event}\n\ndata: {end}\n\n", media)
    check(ask(gateway, "responses"))
    provider.script = answering(f"data: {event}\n\n", media)
    with pytest.raises(httpx.RemoteProtocolError):
        ask(gateway, "responses")
    provider.script = answering("busy @", media)
    assert ask(gateway, "responses").status_code == 502


def check(answer: httpx.Response) -> None:
    assert answer.status_code == 200
    assert answer.text.count(MAIL) == 1
    assert json.dumps(MAIL) in answer.text
    assert not TOKEN.search(answer.text)


@pytest.mark.parametrize("call", CALLS)
def test_an_answer_in_an_encoding_nobody_reads_is_said_to_be_unreadable(
    gateway: Gateway, provider: Provider, call: str
) -> None:
    provider.script = answering("{}", "application/json", **{"content-encoding": "compress"})
    answer = ask(gateway, call)
    assert answer.status_code == 502
    assert "cannot be decoded" in answer.text
