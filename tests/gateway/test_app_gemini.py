"""The official google-genai SDK, and plain HTTP, through a running gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gemini_provider
import httpx
import pytest
from aiohttp import web
from gateway_harness import Gateway, Provider, Seen, begin_stream, leaks, running
from google import genai
from google.genai import errors, types
from google.oauth2 import credentials

MAIL = "jane.doe@example.com"
PHONE = "+30 210 123 4567"
CARD = "4539 1488 0343 6467"
CANARIES = [MAIL, PHONE, CARD]
PROMPT = f"Write to {MAIL} or call {PHONE}; the card is {CARD}."
MODEL = gemini_provider.MODEL
KEY = "AIza-test-key"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Provider]]:
    provider = Provider(gemini_provider.answer_by_rule)
    provider.start()
    home = tmp_path_factory.mktemp("gateway") / "home"
    addresses = {"google_base_url": provider.url, "vertex_base_url": provider.url}
    with running(home, provider.url, **addresses) as gateway:
        yield gateway, provider
    provider.stop()


@pytest.fixture
def gateway(parts: tuple[Gateway, Provider]) -> Gateway:
    return parts[0]


@pytest.fixture
def provider(parts: tuple[Gateway, Provider]) -> Iterator[Provider]:
    provider = parts[1]
    provider.seen.clear()
    provider.script = gemini_provider.answer_by_rule
    yield provider
    assert leaks(CANARIES, provider.seen) == []


def client_of(gateway: Gateway, version: str | None = None) -> genai.Client:
    options = types.HttpOptions(base_url=f"{gateway.url}/agent/coder", api_version=version)
    return genai.Client(api_key=KEY, http_options=options)


@pytest.fixture(params=["v1", "v1beta", None])
def client(request: pytest.FixtureRequest, gateway: Gateway) -> Iterator[genai.Client]:
    made = client_of(gateway, request.param)
    yield made
    made.close()


def test_a_whole_answer_is_restored(client: genai.Client, provider: Provider) -> None:
    answer = client.models.generate_content(
        model=MODEL,
        contents=PROMPT,
        config=types.GenerateContentConfig(
            system_instruction=f"You work for {MAIL}.", stop_sequences=[f"stop {MAIL}"]
        ),
    )
    assert answer.text == f"You said: {PROMPT}"
    assert answer.usage_metadata is not None
    assert provider.seen[-1].header("x-goog-api-key") == [KEY]


def test_a_streamed_answer_is_restored(client: genai.Client, provider: Provider) -> None:
    stream = client.models.generate_content_stream(model=MODEL, contents=PROMPT)
    found = list(stream)
    assert "".join(chunk.text or "" for chunk in found) == f"You said: {PROMPT}"
    assert len(found) > 5
    assert found[-1].candidates is not None
    assert found[-1].candidates[0].finish_reason == types.FinishReason.STOP


def test_a_function_is_called_with_the_originals_and_its_answer_stays_here(
    client: genai.Client, provider: Provider
) -> None:
    saved: list[tuple[str, str]] = []

    def save(name: str, note: str) -> dict[str, str]:
        """Save a contact."""
        saved.append((name, note))
        return {"output": f"saved {name} for {PHONE}"}

    note = f'He said "call {PHONE}"\n\\'
    call = json.dumps({"name": MAIL, "note": note})
    answer = client.models.generate_content(
        model=MODEL,
        contents=f"Save it.\n@tool save {call}",
        config=types.GenerateContentConfig(tools=[save]),
    )
    assert saved == [(MAIL, note)]
    assert f"saved {MAIL} for {PHONE}" in (answer.text or "")
    history = provider.seen[-1].document["contents"]
    signatures = [part["thoughtSignature"] for turn in history for part in turn["parts"]
                  if "thoughtSignature" in part]  # fmt: skip
    assert signatures == [gemini_provider.SIGNATURE]


def test_a_chat_sends_the_same_beginning_on_every_turn(
    client: genai.Client, provider: Provider
) -> None:
    chat = client.chats.create(model=MODEL)
    for turn in range(3):
        text = "".join(c.text or "" for c in chat.send_message_stream(f"{turn}: {PROMPT}"))
        assert text == f"You said: {turn}: {PROMPT}"
    bodies = [json.dumps(seen.document["contents"])[:-1] for seen in provider.seen]
    assert bodies[1].startswith(bodies[0])
    assert bodies[2].startswith(bodies[1])


def test_counting_embedding_and_models(client: genai.Client, provider: Provider) -> None:
    assert (client.models.count_tokens(model=MODEL, contents=PROMPT).total_tokens or 0) > 0
    embedded = client.models.embed_content(model="gemini-embedding-001", contents=[PROMPT, MAIL])
    assert embedded.embeddings
    assert [model.name for model in client.models.list()] == [f"models/{MODEL}"]
    assert client.models.get(model=MODEL).display_name == "Flash"
    assert [seen.method for seen in provider.seen[-2:]] == ["GET", "GET"]


async def test_the_asynchronous_client_streams_too(gateway: Gateway, provider: Provider) -> None:
    client = client_of(gateway).aio
    found = [
        chunk.text or ""
        async for chunk in await client.models.generate_content_stream(model=MODEL, contents=PROMPT)
    ]
    assert "".join(found) == f"You said: {PROMPT}"


def test_a_refusal_is_an_error_of_the_sdk(client: genai.Client, provider: Provider) -> None:
    with pytest.raises(errors.ClientError) as refused:
        client.models.generate_content(model=f"for-{MAIL}", contents="hi")
    assert (refused.value.code, refused.value.status) == (403, "PERMISSION_DENIED")
    assert "request line" in (refused.value.message or "")
    assert MAIL not in str(refused.value)
    assert provider.seen == []


def test_an_error_of_the_provider_reaches_the_sdk(client: genai.Client, provider: Provider) -> None:
    async def fail(_: web.Request, seen: Seen) -> web.StreamResponse:
        token = seen.document["contents"][0]["parts"][0]["text"]
        error = {"error": {"code": 429, "message": f"no {token}", "status": "RESOURCE_EXHAUSTED"}}
        return web.json_response(error, status=429)

    provider.script = fail
    with pytest.raises(errors.ClientError) as failed:
        client.models.generate_content(model=MODEL, contents=MAIL)
    assert (failed.value.code, failed.value.status) == (429, "RESOURCE_EXHAUSTED")
    assert failed.value.message == f"no {MAIL}"


def test_usage_is_counted_without_what_was_cached(gateway: Gateway, provider: Provider) -> None:
    options = types.HttpOptions(base_url=f"{gateway.url}/agent/counted")
    with genai.Client(api_key=KEY, http_options=options) as client:
        client.models.generate_content(model=MODEL, contents="hi")
        list(client.models.generate_content_stream(model=MODEL, contents="hi"))
    _, metrics = gateway.get("/metrics")
    lines = [line for line in metrics.decode().splitlines() if 'agent="counted"' in line]
    counted = {line.split('direction="')[1].split('"')[0]: line.split()[-1] for line in lines}
    assert float(counted["input"]) == 60
    assert float(counted["output"]) == 24


# -- plain HTTP --------------------------------------------------------------------------------


def post(gateway: Gateway, path: str, body: Any, **headers: str) -> httpx.Response:
    return httpx.post(
        f"{gateway.url}/agent/plain{path}",
        json=body,
        headers={"x-goog-api-key": KEY, **headers},
        trust_env=False,
        timeout=60,
    )


def ask(text: str = PROMPT) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": text}]}]}


def text_of(documents: list[dict[str, Any]]) -> str:
    return "".join(
        part.get("text", "")
        for document in documents
        for part in document["candidates"][0]["content"]["parts"]
    )


def test_a_streamed_array_is_restored_and_stays_an_array(
    gateway: Gateway, provider: Provider
) -> None:
    answer = post(gateway, f"/v1beta/models/{MODEL}:streamGenerateContent", ask())
    assert answer.headers["content-type"].startswith("application/json")
    assert text_of(answer.json()) == f"You said: {PROMPT}"


def test_the_first_element_of_an_array_comes_before_the_last_is_written(
    gateway: Gateway, provider: Provider
) -> None:
    waiting: list[web.StreamResponse] = []

    async def begin(request: web.Request, _: Seen) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        waiting.append(response)
        await response.write(b"[" + json.dumps(gemini_provider.chunk({"text": "Hi"})).encode())
        while len(waiting) < 2:
            await asyncio.sleep(0.01)
        last = gemini_provider.chunk({"text": "!"}, finish="STOP")
        await response.write(b"," + json.dumps(last).encode() + b"]")
        return response

    provider.script = begin
    url = f"{gateway.url}/agent/plain/v1beta/models/{MODEL}:streamGenerateContent"
    with httpx.stream("POST", url, json=ask(), trust_env=False, timeout=60) as answer:
        chunks = answer.iter_bytes()
        first = next(chunks)
        assert b"Hi" in first
        waiting.append(web.StreamResponse())  # only now may the provider go on
        assert text_of(json.loads(first + b"".join(chunks))) == "Hi!"


@pytest.mark.parametrize("query", ["", "?alt=sse"])
def test_a_stream_that_breaks_off_does_not_end_cleanly(
    gateway: Gateway, provider: Provider, query: str
) -> None:
    async def cut(request: web.Request, _: Seen) -> web.StreamResponse:
        text = json.dumps(gemini_provider.chunk({"text": "so far"}))
        if query:
            response = await begin_stream(request)
            await response.write(f"data: {text}\n\n".encode())
        else:
            response = web.StreamResponse(headers={"content-type": "application/json"})
            await response.prepare(request)
            await response.write(f"[{text}".encode())
        return response

    provider.script = cut
    with pytest.raises(httpx.RemoteProtocolError):
        post(gateway, f"/v1beta/models/{MODEL}:streamGenerateContent{query}", ask())


def test_a_stream_where_none_was_asked_for_is_the_providers_fault(
    gateway: Gateway, provider: Provider
) -> None:
    async def events(request: web.Request, _: Seen) -> web.StreamResponse:
        response = await begin_stream(request)
        await response.write(b"data: {}\n\n")
        return response

    provider.script = events
    answer = post(gateway, f"/v1beta/models/{MODEL}:generateContent", ask())
    assert answer.status_code == 502
    assert "not one that the gateway can read" in answer.json()["error"]["message"]


def test_a_key_in_the_query_goes_on_in_the_header(gateway: Gateway, provider: Provider) -> None:
    answer = httpx.get(f"{gateway.url}/v1beta/models?key={KEY}&pageSize=3", trust_env=False)
    assert answer.status_code == 200
    assert provider.seen[-1].header("x-goog-api-key") == [KEY]
    assert KEY not in provider.seen[-1].target


def test_vertex_takes_gemini_and_anthropic_bodies(gateway: Gateway, provider: Provider) -> None:
    home = "/v1/projects/p-1/locations/global/publishers"
    bearer = {"authorization": "Bearer ya29.x"}
    answer = post(gateway, f"{home}/google/models/{MODEL}:generateContent", ask(), **bearer)
    assert text_of([answer.json()]) == f"You said: {PROMPT}"
    assert provider.seen[-1].header("authorization") == ["Bearer ya29.x"]
    assert provider.seen[-1].header("x-goog-api-key") == []

    async def message(_: web.Request, seen: Seen) -> web.StreamResponse:
        text = seen.document["messages"][0]["content"]
        return web.json_response(
            {"type": "message", "model": "claude-x", "content": [{"type": "text", "text": text}],
             "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 4}}
        )  # fmt: skip

    provider.script = message
    body = {"anthropic_version": "vertex-2023-10-16", "max_tokens": 9,
            "messages": [{"role": "user", "content": PROMPT}]}  # fmt: skip
    path = f"{home}/anthropic/models/claude-sonnet-4-5@20250929:rawPredict"
    answer = post(gateway, path, body, **bearer)
    assert answer.json()["content"][0]["text"] == PROMPT
    assert provider.seen[-1].document["anthropic_version"] == "vertex-2023-10-16"


@pytest.mark.parametrize("express", [True, False])
def test_the_sdk_of_vertex_streams_through_the_gateway(
    gateway: Gateway, provider: Provider, express: bool
) -> None:
    options = types.HttpOptions(base_url=f"{gateway.url}/agent/coder")
    who: dict[str, Any] = {"api_key": KEY}
    if not express:
        token = credentials.Credentials("ya29.token")  # type: ignore[no-untyped-call]
        who = {"credentials": token, "project": "p-1", "location": "global"}
    with genai.Client(vertexai=True, http_options=options, **who) as client:
        stream = client.models.generate_content_stream(model=MODEL, contents=PROMPT)
        assert "".join(chunk.text or "" for chunk in stream) == f"You said: {PROMPT}"
    last = provider.seen[-1]
    if express:
        assert last.header("x-goog-api-key") == [KEY]
        assert last.header("authorization") == []
    else:
        assert last.header("authorization") == ["Bearer ya29.token"]
        assert "/projects/p-1/locations/global/publishers/google/models/" in last.target


def test_without_an_address_of_vertex_the_answer_says_which_setting_is_missing(
    tmp_path: Path, provider: Provider
) -> None:
    with running(tmp_path / "home", provider.url) as gateway:
        path = "/v1/projects/p/locations/l/publishers/google/models/g:generateContent"
        answer = post(gateway, path, ask("hi"))
    assert answer.status_code == 403
    assert answer.headers["x-should-retry"] == "false"
    assert "vertex_base_url" in answer.json()["error"]["message"]
