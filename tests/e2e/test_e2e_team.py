"""A real Claude Code in its own terminal, as a role of a team: booted, handed a task, reporting."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
from world_board import role, task, usage

from deck.demo import world as worlds
from deck.demo.canaries import sightings
from deck.demo.world import World

pytestmark = pytest.mark.client

KEY = "offline-key-0123"
HELD = {
    "SPHRAGIS_ANTHROPIC_API_KEY": "sk-ant-held-0123456789abcdef",
    "SPHRAGIS_REQUIRE_CLIENT_KEY": "true",
}
#: The offline model reads its lines from the prompt; this hook adds the file a prompt names.
HOOK = r"""
import json, re, sys
named = re.search(r"Read (\S+\.md)", json.load(sys.stdin)["prompt"])
if named:
    print(open(named.group(1)).read())
"""
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
command = "{claude}"
args = {args}
prompt_template = "You write code."
"""


@pytest.fixture
def world() -> Iterator[World]:
    made = worlds.create()
    yield made
    assert made.end() == []


def start_team(world: World, claude: Path, *args: str, held: bool = False) -> None:
    """`held`: the gateway holds the provider's key, and no role has one but its own."""
    home = Path(world.env["HOME"])
    # What a person would have answered in the dialogs of a first run.
    answered = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [] if held else [KEY], "rejected": []},
        "projects": {str(world.repo): {"hasTrustDialogAccepted": True}},
    }
    (home / ".claude.json").write_text(json.dumps(answered))
    (home / "hook.py").write_text(HOOK)
    hook = {"type": "command", "command": f"{sys.executable} {home / 'hook.py'}"}
    (home / ".claude").mkdir()
    settings = {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}
    (home / ".claude" / "settings.json").write_text(json.dumps(settings))
    world.env.update(
        **(HELD if held else {"ANTHROPIC_API_KEY": KEY}),
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_AUTOUPDATER="1",
        CLAUDE_CODE_MAX_RETRIES="1",
        IS_SANDBOX="1",
        HTTPS_PROXY="http://127.0.0.1:9",
        NO_PROXY="127.0.0.1,localhost",
    )
    team = TEAM.format(
        addr=world.addr, python=sys.executable, claude=claude, args=json.dumps(list(args))
    )
    (world.repo / ".choragos.toml").write_text(team)
    world.start_gateway()
    world.start_deck()
    world.wait(lambda: role(world, "coder")["state"] == "idle", "Claude Code to be ready", 60)


def call(name: str, **arguments: str) -> str:
    return f"@tool {name} {json.dumps(arguments)}"


def test_claude_code_takes_a_task_in_its_terminal_and_reports_it(
    claude: Path, world: World
) -> None:
    start_team(
        world,
        claude,
        *("--permission-mode", "acceptEdits", "--allowedTools", "Bash(choragos:*)"),
        held=True,
    )
    email, phone = (canary.value for canary in world.canaries[:2])
    target = world.repo / "contact.txt"
    text = f"{email}\n{phone}\n"
    work = "\n".join(
        [
            "Save the contact.",
            call("Write", file_path=str(target), content=text),
            call(
                "Bash",
                command="choragos work-done --id T1 --task 'T1: saved'",
                description="report",
            ),
        ]
    )
    world.must("choragos", "delegate", "--to", "coder", "--task", work)
    world.wait(lambda: task(world, "T1")["state"] == "reported", "T1 to be reported", 60)
    assert target.read_text() == text
    assert sightings(world.record.read_bytes(), world.canaries) == []
    world.wait(
        lambda: world.has_event("msg=work-done", "id=T1 ", "from=coder"),
        "the event of the report",
        10,
    )
    world.wait(lambda: usage(world)["in"], "its tokens to be counted", 10)
    world.must("sphragis", "verify", str(world.gateway_home / "ledger"))


class Watch(threading.Thread):
    """What the deck says of a role, and by what evidence, each time that changes."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(daemon=True)
        self._world, self._name = world, name
        self._over = threading.Event()
        self.seen: list[tuple[str, str]] = []

    def run(self) -> None:
        while not self._over.wait(0.1):
            row = role(self._world, self._name)
            now = (row["state"], row["evidence"].partition(":")[0])
            if not self.seen or self.seen[-1] != now:
                self.seen.append(now)

    def end(self) -> list[str]:
        """Stop looking; return the states that Claude Code's own signals (OSC 7501) told of."""
        self._over.set()
        self.join()
        return [state for state, source in self.seen if source == "signal"]


def test_a_permission_question_is_shown_nothing_is_typed_into_it_and_it_is_answered_by_task_id(
    claude: Path, world: World
) -> None:
    start_team(world, claude, "--permission-mode", "default")
    watch = Watch(world, "coder")
    watch.start()
    ask = call("Bash", command="touch asked.txt", description="make a file")
    world.must("choragos", "delegate", "--to", "coder", "--task", f"Make it.\n{ask}")
    blocked = world.wait(
        lambda: row if (row := role(world, "coder"))["state"] == "blocked" else None,
        "Claude Code to ask for permission",
        60,
    )
    assert "touch asked.txt" in blocked["question"]
    world.must("choragos", "delegate", "--to", "coder", "--task", "Something else.")
    with pytest.raises(worlds.NotSo):
        world.wait(lambda: task(world, "T2")["state"] != "queued", "a typed task", 5)
    assert role(world, "coder")["state"] == "blocked"
    assert not (world.repo / "asked.txt").exists()
    world.must("choragos", "answer", "T1", "--keys", "1")
    world.wait((world.repo / "asked.txt").exists, "the permitted command to run", 30)
    # T2 is typed now, so it works again after the question.
    world.wait(lambda: task(world, "T2")["state"] != "queued", "the second task", 60)
    told = watch.end()
    # The offline model may work for less than the time between two looks, or be seen to.
    rests = [state for state, _ in groupby(state for state in told if state != "working")]
    assert rests[:3] == ["idle", "blocked", "idle"]
    assert "working" in told
