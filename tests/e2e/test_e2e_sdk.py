"""The official anthropic SDK through the gateway: every way of calling it that agents use."""

from __future__ import annotations

import asyncio
import json

import anthropic
import pytest
from e2e_servers import Server

from deck.demo.canaries import Canary, demo_canaries

CANARIES = demo_canaries()
VALUE = {c.name: c.value for c in CANARIES}
PERSONAL = [c.value for c in CANARIES if not c.secret]
SECRET = [c.value for c in CANARIES if c.secret]
PROMPT = (
    f"Write to {VALUE['e-mail']} or call {VALUE['phone']}; card {VALUE['card']}, "
    f"account {VALUE['IBAN']}.\nDATABASE_PASSWORD={VALUE['database password']}\n"
    f"PAYMENTS_API_KEY={VALUE['API key']}\n"
)
MODEL = "claude-offline-large"
SAVE = {
    "name": "save",
    "description": "Save a contact.",
    "input_schema": {"type": "object", "properties": {"contact": {"type": "object"}}},
}


def options(server: Server, role: str = "sdk") -> dict:
    return {"base_url": server.url(role), "api_key": "offline-key", "max_retries": 0, "timeout": 60}


@pytest.fixture
def client(server: Server):
    with anthropic.Anthropic(**options(server)) as made:
        yield made


def assert_restored(text: str) -> None:
    for value in PERSONAL:
        assert value in text
    for value in SECRET:
        assert value not in text


def test_a_whole_answer_is_restored(client, server: Server) -> None:
    answer = client.messages.create(
        model=MODEL, max_tokens=1000, messages=[{"role": "user", "content": PROMPT}]
    )
    assert_restored(answer.content[0].text)
    assert answer.usage.output_tokens > 0
    server.assert_no_leak(CANARIES)


def test_a_streamed_answer_is_restored_and_no_delta_holds_a_cut_token(client, server) -> None:
    with client.messages.stream(
        model=MODEL, max_tokens=1000, messages=[{"role": "user", "content": PROMPT}]
    ) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    assert_restored("".join(pieces))
    assert final.content[0].text == "".join(pieces)
    assert final.stop_reason == "end_turn"
    server.assert_no_leak(CANARIES)


@pytest.mark.parametrize("streamed", [False, True])
def test_tool_arguments_come_back_as_valid_json_with_the_originals(
    client, server: Server, streamed: bool
) -> None:
    contact = {"email": VALUE["e-mail"], "phones": [VALUE["phone"]], "say": 'He said "hi"\n\\'}
    prompt = f"Save it.\n@tool save {json.dumps({'contact': contact})}"
    arguments = {
        "model": MODEL,
        "max_tokens": 1000,
        "tools": [SAVE],
        "messages": [{"role": "user", "content": prompt}],
    }
    if streamed:
        with client.messages.stream(**arguments) as stream:
            answer = stream.get_final_message()
    else:
        answer = client.messages.create(**arguments)
    assert answer.stop_reason == "tool_use"
    assert answer.content[0].input == {"contact": contact}
    server.assert_no_leak(CANARIES)


def test_a_conversation_with_a_tool_result_stays_redacted(client, server: Server) -> None:
    messages = [{"role": "user", "content": f"Go.\n@tool save {json.dumps({'contact': {}})}"}]
    first = client.messages.create(model=MODEL, max_tokens=1000, tools=[SAVE], messages=messages)
    call = first.content[0]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": PROMPT}
    messages += [
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
    ]
    second = client.messages.create(model=MODEL, max_tokens=1000, tools=[SAVE], messages=messages)
    assert_restored(second.content[0].text)
    server.assert_no_leak(CANARIES)


def test_values_in_system_tools_and_documents_stay_at_home(client, server: Server) -> None:
    before = len(server.received())
    tool = {**SAVE, "description": f"Save {PROMPT}"}
    document = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": PROMPT},
        "title": f"About {VALUE['e-mail']}",
        "context": PROMPT,
    }
    answer = client.messages.create(
        model=MODEL,
        max_tokens=1000,
        system=[{"type": "text", "text": PROMPT}],
        tools=[tool],
        messages=[{"role": "user", "content": [document, {"type": "text", "text": PROMPT}]}],
    )
    assert_restored(answer.content[0].text)
    assert len(server.received()) == before + 1
    server.assert_no_leak(CANARIES)


def test_counting_tokens_is_scanned_too(client, server: Server) -> None:
    counted = client.messages.count_tokens(
        model=MODEL, messages=[{"role": "user", "content": PROMPT}]
    )
    assert counted.input_tokens > 0
    assert server.received()[-1].path.endswith("/v1/messages/count_tokens")
    server.assert_no_leak(CANARIES)


def test_usage_is_counted_for_the_role(server: Server) -> None:
    with anthropic.Anthropic(**options(server, "sdk-usage")) as client:
        answers = [
            client.messages.create(
                model=MODEL, max_tokens=100, messages=[{"role": "user", "content": "hello"}]
            )
            for _ in range(3)
        ]
    used = server.usage("sdk-usage")
    assert used["input"] == sum(a.usage.input_tokens for a in answers)
    assert used["output"] == sum(a.usage.output_tokens for a in answers)


def test_a_path_the_gateway_does_not_know_is_refused_once_with_a_sentence(server: Server) -> None:
    before = len(server.received())
    with (
        anthropic.Anthropic(**{**options(server), "max_retries": 3}) as client,
        pytest.raises(anthropic.PermissionDeniedError) as refused,
    ):
        client.post("/v1/unheard/of", body={"text": PROMPT}, cast_to=object)
    assert refused.value.response.headers["x-should-retry"] == "false"
    # The unknown path itself may hold a value, so the sentence says how to see what is served.
    assert "unheard" not in str(refused.value)
    assert "sphragis coverage --routes" in str(refused.value)
    assert len(server.received()) == before


def test_a_providers_error_is_typed(client, server: Server) -> None:
    with pytest.raises(anthropic.BadRequestError, match="at least one message is required"):
        client.messages.create(model=MODEL, max_tokens=10, messages=[])
    server.assert_no_leak(CANARIES)


async def test_parallel_calls_each_get_their_own_values_back(server: Server) -> None:
    people = [Canary(str(n), f"person{n:02d}@mail{n:02d}.example.com") for n in range(64)]

    async with anthropic.AsyncAnthropic(**options(server, "sdk-parallel")) as client:

        async def ask(person: Canary) -> str:
            message = {"role": "user", "content": f"Write to {person.value} now."}
            if int(person.name) % 2:
                answer = await client.messages.create(
                    model=MODEL, max_tokens=100, messages=[message]
                )
            else:
                async with client.messages.stream(
                    model=MODEL, max_tokens=100, messages=[message]
                ) as stream:
                    answer = await stream.get_final_message()
            return answer.content[0].text

        answers = await asyncio.gather(*(ask(person) for person in people))
    for person, text in zip(people, answers, strict=True):
        assert text == f"You said: Write to {person.value} now."
    server.assert_no_leak(people)
    assert server.verify()["status"] == "ok"
