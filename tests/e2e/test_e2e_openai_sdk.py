"""The official openai SDK through a running gateway: every call it has, on OpenAI and on Azure."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from aiohttp import web
from gateway_harness import Gateway, Provider, Seen, begin_stream, leaks, running
from openai_provider import answer_openai

from deck.demo.canaries import demo_canaries

CANARIES = demo_canaries()
VALUE = {c.name: c.value for c in CANARIES}
PERSONAL = [c.value for c in CANARIES if not c.secret]
EVERY = [c.value for c in CANARIES]
PROMPT = (
    f"Write to {VALUE['e-mail']} or call {VALUE['phone']}; card {VALUE['card']}, "
    f"account {VALUE['IBAN']}.\nDATABASE_PASSWORD={VALUE['database password']}\n"
    f"PAYMENTS_API_KEY={VALUE['API key']}\n"
)
ASK = [{"role": "user", "content": PROMPT}]
SAVE = {
    "type": "function",
    "function": {
        "name": "save",
        "description": f"Save a contact such as {VALUE['e-mail']}.",
        "parameters": {
            "type": "object",
            "properties": {"contact": {"type": "object", "default": {"card": VALUE["card"]}}},
        },
    },
}
CONTACT = {"email": VALUE["e-mail"], "phones": [VALUE["phone"]], "say": 'He said "hi"\n\\'}


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[Provider]:
    provider = Provider(answer_openai)
    provider.start()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def gateway(
    shared_provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    url = shared_provider.url
    with running(
        tmp_path_factory.mktemp("openai") / "home",
        url,
        openai_base_url=url,
        azure_base_url=url,
        google_base_url=url,
    ) as started:
        yield started


@pytest.fixture
def provider(shared_provider: Provider) -> Iterator[Provider]:
    """The provider; whatever it received in a test held no canary."""
    shared_provider.seen.clear()
    yield shared_provider
    shared_provider.script = answer_openai
    assert leaks(EVERY, shared_provider.seen) == []


@pytest.fixture
def client(gateway: Gateway, provider: Provider) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{gateway.url}/agent/sdk/v1", api_key="key-1", max_retries=0, timeout=60
    ) as made:
        yield made


@pytest.fixture
def azure(gateway: Gateway, provider: Provider) -> Iterator[openai.AzureOpenAI]:
    with openai.AzureOpenAI(
        azure_endpoint=f"{gateway.url}/agent/azure",
        api_version="2024-10-21",
        api_key="azure-key",
        max_retries=0,
        timeout=60,
    ) as made:
        yield made


def chunk_of(text: str) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**head, "choices": [choice]}


def assert_restored(text: str | None) -> None:
    assert text is not None
    for value in PERSONAL:
        assert value in text


def test_a_whole_answer_is_restored(client: openai.OpenAI, provider: Provider) -> None:
    answer = client.chat.completions.create(model="gpt-5.1", messages=ASK, user=PERSONAL[0])
    assert_restored(answer.choices[0].message.content)
    (seen,) = provider.seen
    assert seen.target == "/v1/chat/completions"
    assert seen.header("authorization") == ["Bearer key-1"]


@pytest.mark.parametrize("count", [1, 2])
def test_a_streamed_answer_is_restored_choice_by_choice(
    client: openai.OpenAI, provider: Provider, count: int
) -> None:
    texts = [""] * count
    stream = client.chat.completions.create(
        model="gpt-5.1",
        messages=ASK,
        n=count,
        stream=True,
        stream_options={"include_usage": True},
    )
    usage = None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    for text in texts:
        assert_restored(text)
    assert usage is not None
    assert usage.total_tokens == 70


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_runs_with_the_originals_and_its_result_stays_at_home(
    client: openai.OpenAI, provider: Provider, streamed: bool
) -> None:
    text = "Save them.\n" + "\n".join(
        f"@tool save {json.dumps({'contact': contact})}" for contact in (CONTACT, {"b": [PROMPT]})
    )
    messages: list[Any] = [{"role": "user", "content": text}]
    options: dict[str, Any] = {"model": "gpt-5.1", "tools": [SAVE]}
    if streamed:
        with client.chat.completions.stream(**options, messages=messages) as stream:
            for _ in stream:
                pass
            message = stream.get_final_completion().choices[0].message
    else:
        answer = client.chat.completions.create(**options, messages=messages)
        message = answer.choices[0].message
    assert message.tool_calls is not None
    first, second = (json.loads(call.function.arguments) for call in message.tool_calls)
    assert first == {"contact": CONTACT}
    assert_restored(second["contact"]["b"][0])
    messages.append(message.model_dump(exclude_none=True))
    for call in message.tool_calls:
        messages.append({"role": "tool", "tool_call_id": call.id, "content": PROMPT})
    again = client.chat.completions.create(**options, messages=messages)
    assert_restored(again.choices[0].message.content)
    one, two = (seen.document["messages"] for seen in provider.seen)
    assert one == two[: len(one)], "the forwarded beginning of a conversation must not change"


def test_embeddings_moderations_and_old_completions(
    client: openai.OpenAI, provider: Provider
) -> None:
    vectors = client.embeddings.create(
        model="text-embedding-3-small", input=[PROMPT, "plain"], encoding_format="float"
    )
    assert [row.embedding[:2] for row in vectors.data] == [[0.25, -1.5e-05]] * 2
    moderation = client.moderations.create(input=[{"type": "text", "text": PROMPT}])
    assert moderation.results[0].flagged is False
    completion = client.completions.create(model="gpt-3.5-turbo-instruct", prompt=PROMPT)
    assert_restored(completion.choices[0].text)
    assert len(provider.seen) == 3


def test_models_are_listed_and_found(client: openai.OpenAI, provider: Provider) -> None:
    assert [model.id for model in client.models.list()] == ["gpt-5.1"]
    assert client.models.retrieve("gpt-5.1").id == "gpt-5.1"
    assert [seen.body for seen in provider.seen] == [b"", b""]


def test_usage_is_counted_for_the_role_without_what_was_cached(
    gateway: Gateway, provider: Provider
) -> None:
    with openai.OpenAI(
        base_url=f"{gateway.url}/agent/counted/v1", api_key="key-1", max_retries=0
    ) as client:
        client.chat.completions.create(model="gpt-5.1", messages=ASK)
        for _ in client.chat.completions.create(
            model="gpt-5.1", messages=ASK, stream=True, stream_options={"include_usage": True}
        ):
            pass
    lines = gateway.get("/metrics")[1].decode().splitlines()
    found = {line.split('direction="')[1].split('"')[0]: line.split()[-1] for line in lines
             if line.startswith('sphragis_tokens_total{agent="counted"')}  # fmt: skip
    assert {name: float(value) for name, value in found.items()} == {
        "input": 40.0, "output": 40.0, "cache_read": 60.0,
    }  # fmt: skip


def test_azure_is_called_as_azure(azure: openai.AzureOpenAI, provider: Provider) -> None:
    answer = azure.chat.completions.create(model="my-gpt", messages=ASK)
    assert_restored(answer.choices[0].message.content)
    text = ""
    for chunk in azure.chat.completions.create(model="my-gpt", messages=ASK, stream=True):
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert_restored(text)
    azure.embeddings.create(model="my-vectors", input=PROMPT, encoding_format="float")
    assert [seen.target for seen in provider.seen] == [
        "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21",
        "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21",
        "/openai/deployments/my-vectors/embeddings?api-version=2024-10-21",
    ]
    for seen in provider.seen:
        assert seen.header("api-key") == ["azure-key"]
        assert seen.header("authorization") == []


def test_googles_compatible_endpoint_is_called_at_google(
    gateway: Gateway, provider: Provider
) -> None:
    with openai.OpenAI(
        base_url=f"{gateway.url}/agent/g/v1beta/openai/", api_key="goog", max_retries=0
    ) as client:
        answer = client.chat.completions.create(model="gemini-2.5-flash", messages=ASK)
        assert_restored(answer.choices[0].message.content)
        client.models.list()
    assert [seen.target for seen in provider.seen] == [
        "/v1beta/openai/chat/completions",
        "/v1beta/openai/models",
    ]
    assert provider.seen[0].header("authorization") == ["Bearer goog"]


def test_a_refusal_is_a_typed_error_after_one_try(gateway: Gateway, provider: Provider) -> None:
    with openai.OpenAI(
        base_url=f"{gateway.url}/agent/sdk/v1", api_key="key-1", max_retries=3
    ) as client:
        with pytest.raises(openai.PermissionDeniedError) as refused:
            client.chat.completions.create(
                model="gpt-5.1",
                messages=[{"role": "user", "content": [{"type": "hologram", "x": PROMPT}]}],  # type: ignore[list-item]
            )
        assert "messages[0].content[0]" in refused.value.message
        assert refused.value.code == "gateway_refused"
        with pytest.raises(openai.PermissionDeniedError) as refused:
            client.embeddings.create(model="m", input=[[1, 2, 3]])
        assert "send it as text" in refused.value.message
        with pytest.raises(openai.PermissionDeniedError):
            client.images.generate(prompt=PROMPT)
    assert refused.value.response.headers["x-should-retry"] == "false"
    assert provider.seen == []


def test_a_providers_error_is_typed_and_restored(client: openai.OpenAI, provider: Provider) -> None:
    async def refuse(request: web.Request, seen: Seen) -> web.StreamResponse:
        text = seen.document["messages"][0]["content"]
        error = {"message": f"bad: {text}", "type": "invalid_request_error", "code": "bad"}
        return web.json_response({"error": error}, status=400)

    provider.script = refuse
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="gpt-5.1", messages=ASK)
    assert VALUE["e-mail"] in wrong.value.message
    assert wrong.value.code == "bad"


def test_an_error_inside_a_stream_reaches_the_client(
    client: openai.OpenAI, provider: Provider
) -> None:
    async def fail(request: web.Request, seen: Seen) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(
            b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m",'
            b'"choices":[{"index":0,"delta":{"content":"half"},"finish_reason":null}]}\n\n'
            b'data: {"error":{"message":"overloaded","type":"server_error"}}\n\n'
        )
        return response

    provider.script = fail
    pieces = []

    def read() -> None:
        for chunk in client.chat.completions.create(model="m", messages=ASK, stream=True):
            pieces.append(chunk.choices[0].delta.content)

    with pytest.raises(openai.APIError) as wrong:
        read()
    assert pieces == ["half"]
    assert "overloaded" in wrong.value.message


def test_the_first_text_arrives_while_the_provider_is_still_speaking(
    client: openai.OpenAI, provider: Provider
) -> None:
    heard = threading.Event()

    async def speak(request: web.Request, seen: Seen) -> web.StreamResponse:
        response = await begin_stream(request)
        token = seen.document["messages"][0]["content"].split()[-1]
        # Cut in the middle of the token, in pieces of three bytes and with CRLF.
        for piece in ("First ", token[:5], f"{token[5:]} and ", "done"):
            event = f"data: {json.dumps(chunk_of(piece))}\r\n\r\n".encode()
            for start in range(0, len(event), 3):
                await response.write(event[start : start + 3])
            await asyncio.to_thread(heard.wait, 20)
            assert heard.is_set(), "the client did not hear the first text"
        await response.write(b"data: [DONE]\r\n\r\n")
        return response

    provider.script = speak
    text = ""
    ask = f"Write to {VALUE['e-mail']}"
    for chunk in client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": ask}], stream=True
    ):
        text += chunk.choices[0].delta.content or ""
        heard.set()
    assert text == f"First {VALUE['e-mail']} and done"


async def test_the_asynchronous_client_works_too(gateway: Gateway, provider: Provider) -> None:
    async with openai.AsyncOpenAI(
        base_url=f"{gateway.url}/agent/sdk/v1", api_key="key-1", max_retries=0
    ) as client:
        text = ""
        async for chunk in await client.chat.completions.create(
            model="gpt-5.1", messages=ASK, stream=True
        ):
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert_restored(text)
