"""Real clients behind the egress wall: they start without a dialog, work, report, and get no
further than the gateway."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import test_e2e_team_codex as codex_team
from wall_tools import real_bwrap
from world_board import board, task, usage

from deck.demo import world as worlds
from deck.demo.canaries import sightings
from deck.demo.world import World

pytestmark = [
    pytest.mark.client,
    pytest.mark.skipif(sys.platform != "linux", reason="the wall is built on Linux"),
]

KEY = "offline-key-0123"
#: The offline model reads its lines from the prompt; this hook adds the file a prompt names.
HOOK = r"""
import json, re, sys
named = re.search(r"Read (\S+\.md)", json.load(sys.stdin)["prompt"])
if named:
    print(open(named.group(1)).read())
"""
#: Writes down whether a port of this machine can be reached.
REACH = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 2)
    said = "reached"
except OSError as failure:
    said = type(failure).__name__
open("reach.txt", "w").write(said)
"""
TEAM = """
[sphragis]
enabled = true
addr = "{addr}"
require_routing = true

[[roles]]
name = "lead"
command = "{python}"
args = ["-m", "deck.demo.agent"]
start = true
require_routing = false
prompt_template = "You lead."

[[roles]]
name = "coder"
command = "{claude}"
args = {args}
wall = true
prompt_template = "You write code."
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    bwrap = real_bwrap()
    made = worlds.create()
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "bwrap").symlink_to(bwrap)
    made.env["PATH"] = f"{tools}{os.pathsep}{made.env['PATH']}"
    yield made
    assert made.end() == []


def call(name: str, **arguments: str) -> str:
    return f"@tool {name} {json.dumps(arguments)}"


def named(rows: list[dict], key: str, value: str) -> dict:
    return next(row for row in rows if row[key] == value)


def test_claude_code_works_and_reports_behind_the_wall(claude: Path, world: World) -> None:
    (world.repo / "hook.py").write_text(HOOK)
    (world.repo / "reach.py").write_text(REACH)
    (world.repo / ".claude").mkdir(exist_ok=True)
    hook = {"type": "command", "command": f"{sys.executable} {world.repo / 'hook.py'}"}
    settings = {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}
    (world.repo / ".claude" / "settings.json").write_text(json.dumps(settings))
    world.env.update(ANTHROPIC_API_KEY=KEY, CLAUDE_CODE_MAX_RETRIES="1", IS_SANDBOX="1")
    args = ["--permission-mode", "acceptEdits", "--allowedTools", "Bash(choragos:*)"]
    args += ["Bash(python3:*)"]
    (world.repo / ".choragos.toml").write_text(
        TEAM.format(addr=world.addr, python=sys.executable, claude=claude, args=json.dumps(args))
    )
    world.start_gateway()
    found = world.run("choragos", "doctor").out
    assert "wall: tried from inside, the gateway is reached and nothing else is" in found
    world.start_deck()
    world.wait(
        lambda: named(board(world)["roles"], "name", "coder")["state"] == "idle",
        "Claude Code to be ready behind the wall",
        60,
    )
    email, phone = (canary.value for canary in world.canaries[:2])
    target = world.repo / "contact.txt"
    with socket.create_server(("127.0.0.1", 0)) as outside:
        outside.settimeout(0.1)
        port = outside.getsockname()[1]
        work = "\n".join(
            [
                "Save the contact.",
                call("Write", file_path=str(target), content=f"{email}\n{phone}\n"),
                call("Bash", command=f"python3 reach.py {port}", description="reach out"),
                call(
                    "Bash",
                    command="choragos work-done --id T1 --task 'T1: saved'",
                    description="report",
                ),
            ]
        )
        world.must("choragos", "delegate", "--to", "coder", "--task", work)
        world.wait(
            lambda: named(board(world)["tasks"], "id", "T1")["state"] == "reported",
            "T1 to be reported from behind the wall",
            60,
        )
        with pytest.raises(TimeoutError):
            outside.accept()
    assert (world.repo / "reach.txt").read_text() == "ConnectionRefusedError"
    assert target.read_text() == f"{email}\n{phone}\n"
    assert sightings(world.record.read_bytes(), world.canaries) == []
    world.wait(
        lambda: world.has_event("msg=work-done", "id=T1 ", "from=coder"),
        "the event of the report",
        10,
    )
    world.wait(lambda: usage(world)["in"], "its tokens to be counted", 10)


def test_codex_works_and_reports_behind_the_wall(
    codex: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = codex_team.Provider(codex_team.answer)
    made.start()
    walled = codex_team.TEAM.replace('name = "coder"', 'name = "coder"\nwall = true')
    # Its settings are in the user's home, which it does not see.
    walled = walled.replace('["-s",', '["-m", "gpt-test", "-s",')
    monkeypatch.setattr(codex_team, "TEAM", walled)
    world.env["CODEX_API_KEY"] = KEY
    (world.repo / "reach.py").write_text(REACH)
    try:
        codex_team.start_team(world, codex, made)
        with socket.create_server(("127.0.0.1", 0)) as outside:
            port = outside.getsockname()[1]
            work = "\n".join(
                f"@tool exec_command {json.dumps({'cmd': command})}"
                for command in (
                    f"python3 reach.py {port}",
                    "choragos work-done --id T1 --task 'T1: tried'",
                )
            )
            world.must("choragos", "delegate", "--to", "coder", "--task", work)
            world.wait(
                lambda: task(world, "T1")["state"] == "reported",
                "T1 to be reported from behind the wall",
                60,
            )
    finally:
        made.stop()
    assert (world.repo / "reach.txt").read_text() == "ConnectionRefusedError"
    # Its own login in the user's home was neither needed nor seen.
    own = next(Path(world.env["HOME"]).glob(".local/state/choragos/homes/*/coder-*/.codex"))
    assert not (own / "auth.json").exists()
