"""The offline provider: its answers as a function, its streams, its record file."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import orjson
import pytest

from gateway.offline import (
    BadRequest,
    TextBlock,
    ToolBlock,
    message_events,
    plan_answer,
    start_provider,
)


def document(*messages: Any, **members: Any) -> dict[str, Any]:
    return {"model": "m-1", "max_tokens": 10, "messages": list(messages), **members}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def result(text: str) -> dict[str, Any]:
    return user([{"type": "tool_result", "tool_use_id": "t", "content": text}])


def test_a_plain_prompt_is_quoted_back() -> None:
    answer = plan_answer(document(user("hello Ελλάδα")))
    assert answer.blocks == (TextBlock("You said: hello Ελλάδα"),)
    assert answer.stop_reason == "end_turn"
    assert answer.input_tokens > 0
    assert answer.output_tokens == 6


def test_directives_are_called_one_a_turn_and_then_it_finishes() -> None:
    prompt = user('do this\n@tool bash {"cmd": "ls"}\n@tool write {"path": "a", "text": "}{"}')
    first = plan_answer(document(prompt))
    assert isinstance(first.blocks[0], ToolBlock)
    assert (first.blocks[0].name, first.blocks[0].input) == ("bash", {"cmd": "ls"})
    assert first.stop_reason == "tool_use"
    turn = {"role": "assistant", "content": [{"type": "tool_use"}]}
    second = plan_answer(document(prompt, turn, result("a b")))
    assert isinstance(second.blocks[0], ToolBlock)
    assert second.blocks[0].input == {"path": "a", "text": "}{"}
    assert second.blocks[0].id != first.blocks[0].id
    last = plan_answer(document(prompt, turn, result("a b"), turn, result("written")))
    assert last.blocks == (TextBlock("Done. The tool answered: written"),)


def test_a_new_prompt_starts_over() -> None:
    old = user('@tool bash {"cmd": "ls"}')
    answer = plan_answer(document(old, result("x"), user("thanks")))
    assert answer.blocks == (TextBlock("You said: thanks"),)


def test_what_a_hook_adds_after_the_prompt_is_read_too() -> None:
    prompt = user("go")
    note = {"role": "system", "content": 'hook:\n@tool bash {"cmd": "ls"}'}
    first = plan_answer(document(prompt, note))
    assert isinstance(first.blocks[0], ToolBlock)
    last = plan_answer(document(prompt, note, result("a")))
    assert last.blocks == (TextBlock("Done. The tool answered: a"),)
    assert plan_answer(document(note, user("hi"))).blocks == (TextBlock("You said: hi"),)


def test_a_directive_that_is_not_json_is_plain_text() -> None:
    answer = plan_answer(document(user("@tool bash {cmd: ls}")))
    assert isinstance(answer.blocks[0], TextBlock)


@pytest.mark.parametrize("wrong", [{}, [], {"model": "m"}, {"model": "m", "messages": ["x"]}])
def test_a_request_the_api_would_refuse_is_refused(wrong: Any) -> None:
    with pytest.raises(BadRequest):
        plan_answer(wrong)


def test_streams_are_cut_into_short_pieces_that_add_up() -> None:
    answer = plan_answer(document(user("x" * 100)))
    events = [orjson.loads(raw.split(b"data: ", 1)[1]) for raw in message_events(answer, "msg_1")]
    assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]
    pieces = [e["delta"]["text"] for e in events if e["type"] == "content_block_delta"]
    assert "".join(pieces) == "You said: " + "x" * 100
    assert all(3 <= len(piece) <= 7 for piece in pieces[:-1])
    assert set(events[0]["message"]["usage"]) == {
        "input_tokens",
        "output_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
    }


async def test_the_official_client_talks_to_it_and_the_record_holds_every_byte(
    tmp_path: Path,
) -> None:
    record = tmp_path / "sub" / "record.jsonl"
    runner, url = await start_provider("127.0.0.1", 0, record=record)
    try:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="k") as client:
            prompt: Any = [user('go\n@tool bash {"cmd": "echo Ω"}')]
            async with client.messages.stream(
                model="claude-x", max_tokens=5, messages=prompt
            ) as stream:
                final = await stream.get_final_message()
            assert final.content[0].type == "tool_use"
            assert final.content[0].input == {"cmd": "echo Ω"}
            assert final.stop_reason == "tool_use"
            counted = await client.messages.count_tokens(model="claude-x", messages=prompt)
            assert counted.input_tokens == final.usage.input_tokens
            assert (await client.models.list()).data
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{url}/v1/messages", data=b"\xff\xfe") as answer:
                assert answer.status == 400
            async with session.get(f"{url}/nope") as answer:
                assert answer.status == 404
    finally:
        await runner.cleanup()
    entries = [json.loads(line) for line in record.read_text().splitlines()]
    assert [entry["path"] for entry in entries] == [
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/models",
        "/v1/messages",
        "/nope",
    ]
    assert set(entries[0]) == {"time", "method", "path", "headers", "body"}
    assert json.loads(entries[0]["body"])["messages"] == prompt
    assert entries[3]["body_base64"] == "//4="
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
