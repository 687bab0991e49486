"""The official openai SDK's Responses and Conversations through a running gateway, and on Azure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pydantic
import pytest
from gateway_harness import Gateway, Provider, leaks, running
from responses_provider import SEAL, answer_responses

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
MODEL = "gpt-6-sol"
CONTACT = {"email": VALUE["e-mail"], "phones": [VALUE["phone"]], "say": 'He said "hi"\n\\'}
SAVE: dict[str, Any] = {
    "type": "function",
    "name": "save",
    "description": f"Save a contact such as {VALUE['e-mail']}.",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {"contact": {"type": "object", "default": {"card": VALUE["card"]}}},
    },
}


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[Provider]:
    provider = Provider(answer_responses)
    provider.start()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def gateway(
    shared_provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    url = shared_provider.url
    home = tmp_path_factory.mktemp("responses") / "home"
    with running(home, url, openai_base_url=url, azure_base_url=url) as started:
        yield started


@pytest.fixture
def provider(shared_provider: Provider) -> Iterator[Provider]:
    """The provider; whatever it received in a test held no canary."""
    shared_provider.seen.clear()
    yield shared_provider
    assert leaks(EVERY, shared_provider.seen) == []


@pytest.fixture
def client(gateway: Gateway) -> Iterator[openai.OpenAI]:
    url = f"{gateway.url}/agent/sdk/v1"
    with openai.OpenAI(base_url=url, api_key="k", max_retries=0, timeout=60) as made:
        yield made


def assert_restored(text: str) -> None:
    for value in PERSONAL:
        assert value in text
    for value in EVERY:
        assert value in PERSONAL or value not in text


def test_a_whole_answer_is_restored_and_a_thought_is_not(client: Any, provider: Provider) -> None:
    answer = client.responses.create(
        model=MODEL, input=PROMPT, instructions=PROMPT, metadata={"for": VALUE["e-mail"]}
    )
    assert_restored(answer.output_text)
    assert_restored(answer.instructions)
    assert answer.metadata == {"for": VALUE["e-mail"]}
    thought = answer.output[0]
    assert VALUE["e-mail"] not in thought.summary[0].text
    assert thought.encrypted_content == SEAL


def test_a_streamed_answer_is_restored_in_pieces_and_as_a_whole(
    client: Any, provider: Provider
) -> None:
    pieces, numbers, ends = [], [], []
    with client.responses.stream(model=MODEL, input=PROMPT) as stream:
        for event in stream:
            numbers.append(event.sequence_number)
            if event.type == "response.output_text.delta":
                pieces.append(event.delta)
            elif event.type == "response.output_text.done":
                ends.append(event.text)
        final = stream.get_final_response()
    assert_restored("".join(pieces))
    assert ["".join(pieces)] == ends == [final.output_text]
    assert numbers == list(range(len(numbers)))
    assert VALUE["e-mail"] not in final.output[0].summary[0].text


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_gets_the_originals_and_its_result_stays_redacted(
    client: Any, provider: Provider, streamed: bool
) -> None:
    turns: list[Any] = [
        {"role": "user", "content": f"Save it. @tool save {json.dumps({'contact': CONTACT})}"}
    ]
    options: dict[str, Any] = {"model": MODEL, "tools": [SAVE], "store": False}
    if streamed:
        with client.responses.stream(input=turns, **options) as stream:
            first = stream.get_final_response()
    else:
        first = client.responses.create(input=turns, **options)
    (call,) = (item for item in first.output if item.type == "function_call")
    assert json.loads(call.arguments) == {"contact": CONTACT}
    turns += [item.to_dict() for item in first.output]
    turns.append({"type": "function_call_output", "call_id": call.call_id, "output": PROMPT})
    assert_restored(client.responses.create(input=turns, **options).output_text)
    one, two = (json.dumps(seen.document["input"]) for seen in provider.seen)
    assert two.startswith(one.removesuffix("]"))
    assert SEAL in two


@pytest.mark.parametrize("streamed", [False, True])
def test_a_custom_tool_gets_the_originals_as_they_are(
    client: Any, provider: Provider, streamed: bool
) -> None:
    patch = f"*** Begin Patch\n+{VALUE['e-mail']}\n*** End Patch"
    options = {
        "model": MODEL,
        "input": f"Go. @custom patch {json.dumps(patch)}",
        "tools": [
            {"type": "custom", "name": "patch", "description": f"As {VALUE['e-mail']} does."}
        ],
    }
    if streamed:
        with client.responses.stream(**options) as stream:
            deltas = [e.delta for e in stream if e.type == "response.custom_tool_call_input.delta"]
            answer = stream.get_final_response()
        assert "".join(deltas) == patch
    else:
        answer = client.responses.create(**options)
    assert answer.output[-1].input == patch


def test_a_parsed_answer_has_the_originals(client: Any, provider: Provider) -> None:
    class Said(pydantic.BaseModel):
        """What the model returns."""

        said: str = pydantic.Field(description=f"As {VALUE['e-mail']} says it.")

    call = json.dumps({"said": f'"{VALUE["e-mail"]}" \\'})
    parsed = client.responses.parse(
        model=MODEL,
        input=f"Go. @tool Said {call}",
        tools=[openai.pydantic_function_tool(Said)],
    )
    assert parsed.output[-1].parsed_arguments.said == f'"{VALUE["e-mail"]}" \\'


def test_every_other_call_of_the_api_works(client: Any, provider: Provider) -> None:
    counted = client.responses.input_tokens.count(model=MODEL, input=PROMPT)
    assert counted.input_tokens == 11
    compacted = client.responses.compact(model=MODEL, input=[{"role": "user", "content": PROMPT}])
    assert compacted.output[-1].encrypted_content == SEAL
    assert VALUE["e-mail"] in json.dumps(compacted.to_dict())
    assert client.responses.retrieve("resp_1").output_text == "stored"
    events = client.responses.retrieve("resp_1", stream=True, starting_after=0)
    assert [event.type for event in events][-1] == "response.completed"
    assert client.responses.cancel("resp_1").status == "cancelled"
    client.responses.delete("resp_1")
    client.conversations.create(items=[{"role": "user", "content": PROMPT}])
    assert [(seen.method, seen.target) for seen in provider.seen] == [
        ("POST", "/v1/responses/input_tokens"),
        ("POST", "/v1/responses/compact"),
        ("GET", "/v1/responses/resp_1"),
        ("GET", "/v1/responses/resp_1?starting_after=0&stream=true"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/v1/conversations"),
    ]


def test_a_value_in_a_path_is_refused_once(client: Any, provider: Provider) -> None:
    with pytest.raises(openai.PermissionDeniedError) as refused:
        client.with_options(max_retries=3).responses.retrieve(VALUE["card"].replace(" ", ""))
    assert "request line" in str(refused.value)
    assert refused.value.response.headers["x-should-retry"] == "false"
    assert provider.seen == []


def test_an_item_of_an_unknown_type_is_refused_with_its_place(
    client: Any, provider: Provider
) -> None:
    with pytest.raises(openai.PermissionDeniedError, match=r"input\[1\]"):
        client.responses.create(
            model=MODEL, input=[{"role": "user", "content": "x"}, {"type": "later_call"}]
        )
    assert provider.seen == []


def test_tokens_of_a_stream_are_counted_for_the_role(gateway: Gateway, provider: Provider) -> None:
    url = f"{gateway.url}/agent/sdk-usage/v1"
    with openai.OpenAI(base_url=url, api_key="k", max_retries=0) as made:
        for streamed in (False, True):
            answer = made.responses.create(model=MODEL, input="x", stream=streamed)
            if streamed:
                list(answer)
        made.responses.retrieve("resp_1")
    lines = gateway.get("/metrics")[1].decode().splitlines()
    counted = {
        direction: line.rpartition(" ")[2]
        for direction in ("input", "output", "cache_read")
        for line in lines
        if 'agent="sdk-usage"' in line and f'direction="{direction}"' in line
    }
    assert {name: float(count) for name, count in counted.items()} == {
        "input": 40.0,
        "output": 40.0,
        "cache_read": 60.0,
    }


def test_azure_is_asked_with_its_own_key_and_version(gateway: Gateway, provider: Provider) -> None:
    with openai.AzureOpenAI(
        azure_endpoint=f"{gateway.url}/agent/sdk",
        api_key="azure-key",
        api_version="2025-04-01-preview",
        max_retries=0,
    ) as made:
        assert_restored(made.responses.create(model=MODEL, input=PROMPT).output_text)
    (seen,) = provider.seen
    assert seen.target == "/openai/responses?api-version=2025-04-01-preview"
    assert seen.header("api-key") == ["azure-key"]
