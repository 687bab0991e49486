"""A real Gemini CLI in its own terminal, as a role of a team: booted, handed a task, reporting."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents import ALL
from every_provider import answer_every_api
from gateway_harness import Provider, leaks
from world_board import role, task, usage

from deck.demo import world as worlds
from deck.demo.world import World

pytestmark = [
    pytest.mark.client,
    pytest.mark.skipif(not ALL, reason="only with CLIENTS=all (make clients)"),
]

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
command = "{gemini}"
args = ["--yolo"]
prompt_template = "You write code."
"""
#: What a person would have answered in the dialogs of a first run.
SETTINGS = {
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"enableAutoUpdate": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
}


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider(answer_every_api)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def world() -> Iterator[World]:
    made = worlds.create()
    yield made
    assert made.end() == []


def start_team(world: World, gemini: Path, provider: Provider) -> None:
    home = Path(world.env["HOME"]) / ".gemini"
    home.mkdir()
    (home / "settings.json").write_text(json.dumps(SETTINGS))
    world.env.update(
        GEMINI_API_KEY="offline-key",
        GEMINI_CLI_TRUST_WORKSPACE="true",
        HTTPS_PROXY="http://127.0.0.1:9",
        NO_PROXY="127.0.0.1,localhost",
    )
    team = TEAM.format(addr=world.addr, python=sys.executable, gemini=gemini)
    (world.repo / ".choragos.toml").write_text(team)
    upstream = {
        "SPHRAGIS_ANTHROPIC_BASE_URL": provider.url,
        "SPHRAGIS_GOOGLE_BASE_URL": provider.url,
    }
    with world.gateway_log.open("ab") as log:
        world.gateway = subprocess.Popen(
            ["sphragis", "serve"],
            cwd=world.root,
            env={**world.env, **upstream},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    world.wait(world._gateway_is_ready, "the gateway to be ready", 60, world.gateway_log)
    world.start_deck()
    world.wait(lambda: role(world)["state"] == "idle", "Gemini CLI to be ready", 60)


def test_gemini_takes_a_task_in_its_terminal_and_reports_it(
    gemini: Path, world: World, provider: Provider
) -> None:
    start_team(world, gemini, provider)
    email, phone = (canary.value for canary in world.canaries[:2])
    work = "\n".join(
        f"@tool run_shell_command {json.dumps({'command': command}, ensure_ascii=False)}"
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
    world.wait(lambda: usage(world)["in"], "its tokens to be counted", 10)
    world.must("sphragis", "verify", str(world.gateway_home / "ledger"))
