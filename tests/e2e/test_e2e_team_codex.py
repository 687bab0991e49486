"""A real Codex in its own terminal, as a role of a team: booted, handed a task, reporting."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from gateway_harness import Provider, Seen, answer_by_rule, begin_stream, leaks
from responses_provider import events, text_of
from world_board import role, task

from deck.demo import world as worlds
from deck.demo.world import World

pytestmark = pytest.mark.client

TEAM = """
[sphragis]
enabled = true
addr = "{addr}"

[[roles]]
name = "lead"
command = "{python}"
args = ["-m", "deck.demo.agent"]
start = true
prompt_template = "You lead."

[[roles]]
name = "coder"
command = "{codex}"
args = ["-s", "{sandbox}", "-a", "{asks}"]
prompt_template = "You write code."
"""
ESCALATED = {
    "cmd": "touch asked.txt",
    "sandbox_permissions": "require_escalated",
    "justification": "Make the file?",
}
CONFIG = """\
model = "gpt-test"

[projects."{repo}"]
trust_level = "trusted"
"""
ACTS = {"sandbox": "danger-full-access", "asks": "never"}
ASKS = {"sandbox": "read-only", "asks": "on-request"}
_TOOL = re.compile(r"^@tool (\w+) (\{.*\})$", re.MULTILINE)


def call(number: int, name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}",
            "name": name, "arguments": arguments, "status": "completed"}  # fmt: skip


def planned(document: dict[str, Any]) -> dict[str, Any]:
    """Read the file a prompt names, then make the calls that stand in it, one after another."""
    since: list[str] = []
    prompt = ""
    for item in document["input"]:
        if item.get("role") == "user":
            since, prompt = [], text_of(item.get("content"))
        elif item.get("type") == "function_call_output":
            since.append(text_of(item["output"]))
    named = re.search(r"Read (\S+\.md)", prompt)
    if named and not since and document.get("tools"):
        return call(0, "exec_command", json.dumps({"cmd": f"cat {named[1]}"}))
    calls = _TOOL.findall(since[0]) if since else []
    if since and len(since) <= len(calls):
        return call(len(since), *calls[len(since) - 1])
    part = {"type": "output_text", "text": "Done.", "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}


async def answer(request: web.Request, seen: Seen) -> web.StreamResponse:
    """Speak both APIs: the lead is a program of our own that speaks Anthropic's."""
    if "/v1/responses" not in seen.target:
        return await answer_by_rule(request, seen)
    response = await begin_stream(request)
    for number, event in enumerate(events([planned(seen.document)], seen.document)):
        data = json.dumps({**event, "sequence_number": number})
        await response.write(f"event: {event['type']}\ndata: {data}\n\n".encode())
    return response


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider(answer)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def world() -> Iterator[World]:
    made = worlds.create()
    yield made
    assert made.end() == []


def start_team(world: World, codex: Path, provider: Provider, *, asks: bool = False) -> None:
    home = Path(world.env["HOME"]) / ".codex"
    home.mkdir()
    (home / "config.toml").write_text(CONFIG.format(repo=world.repo))
    (home / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": "offline-key"}))
    world.env.update(HTTPS_PROXY="http://127.0.0.1:9", NO_PROXY="127.0.0.1,localhost")
    team = TEAM.format(
        addr=world.addr, python=sys.executable, codex=codex, **(ASKS if asks else ACTS)
    )
    (world.repo / ".choragos.toml").write_text(team)
    with world.gateway_log.open("ab") as log:
        world.gateway = subprocess.Popen(
            ["sphragis", "serve"],
            cwd=world.root,
            env={**world.env, "SPHRAGIS_UPSTREAM_BASE_URL": provider.url},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    world.wait(world._gateway_is_ready, "the gateway to be ready", 60, world.gateway_log)
    world.start_deck()
    world.wait(lambda: role(world)["state"] == "idle", "Codex to be ready", 60)


def test_codex_takes_a_task_in_its_terminal_and_reports_it(
    codex: Path, world: World, provider: Provider
) -> None:
    start_team(world, codex, provider)
    email, phone = (canary.value for canary in world.canaries[:2])
    work = "\n".join(
        f"@tool exec_command {json.dumps({'cmd': command}, ensure_ascii=False)}"
        for command in (
            f"printf '%s;' '{email}' '{phone}' > contact.txt",
            "choragos work-done --id T1 --task 'T1: saved'",
        )
    )
    world.must("choragos", "delegate", "--to", "coder", "--task", f"Save the contact.\n{work}")
    world.wait(lambda: task(world, "T1")["state"] == "reported", "T1 to be reported", 60)
    assert (world.repo / "contact.txt").read_text() == f"{email};{phone};"
    assert leaks([email, phone], provider.seen) == []
    world.wait(
        lambda: world.has_event("msg=work-done", "id=T1 ", "from=coder"),
        "the event of the report",
        10,
    )
    calls = [seen for seen in provider.seen if "/v1/responses" in seen.target]
    assert {seen.header("authorization")[0] for seen in calls} == {"Bearer offline-key"}
    world.must("sphragis", "verify", str(world.gateway_home / "ledger"))
    assert not any("app-server" in line for line in world.living().values())


def test_a_permission_question_is_shown_nothing_is_typed_into_it_and_it_is_answered_by_task_id(
    codex: Path, world: World, provider: Provider
) -> None:
    start_team(world, codex, provider, asks=True)
    ask = f"@tool exec_command {json.dumps(ESCALATED)}"
    world.must("choragos", "delegate", "--to", "coder", "--task", f"Make it.\n{ask}")
    # It signals that it is blocked before its screen says why.
    world.wait(
        lambda: "touch asked.txt" in (row := role(world))["question"] and row["state"] == "blocked",
        "Codex to ask for permission",
        60,
    )
    world.must("choragos", "delegate", "--to", "coder", "--task", "Something else.")
    with pytest.raises(worlds.NotSo):
        world.wait(lambda: task(world, "T2")["state"] != "queued", "a typed task", 3)
    assert not (world.repo / "asked.txt").exists()
    world.must("choragos", "answer", "T1", "--keys", "y")
    world.wait((world.repo / "asked.txt").exists, "the permitted command to run", 30)
    world.wait(lambda: task(world, "T2")["state"] != "queued", "the second task", 60)
