"""What a deck tells its gateway about tasks, with a scripted control socket; what it keeps of its
settings; and what the command line puts on the deck's record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from deck.board import State
from deck.config import SphragisConfig
from deck.entries import Entry, Op, TaskState
from deck.gateway import Gateway, StampKind
from deck.journal import Journal
from deck.notes import noted
from deck.recorded import config_text, told_arguments
from deck.replay import replay
from deck.stamping import Stamping
from deck.team_reader import parse_config

ADDRESS = "127.0.0.1:8787"


@dataclass
class Script:
    """A gateway's control socket: what it was told, and how it answers."""

    answer: Callable[[], httpx.Response] = lambda: httpx.Response(200, json={})
    told: list[tuple[str, str | None]] = field(default_factory=list)

    async def handle(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        assert (body["session"], body["address"]) == ("run-1", ADDRESS)
        self.told.append((body["role"], body["task"]))
        await asyncio.sleep(0)
        return self.answer()


@dataclass
class FakeDesk:
    """What stamping needs of a desk; the journal is a real one."""

    journal: Journal
    gateway: Gateway
    seats: dict[str, Any]
    lines: list[str] = field(default_factory=list)
    jobs: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def state(self) -> State:
        return self.journal.state

    @property
    def events(self) -> FakeDesk:
        return self

    def write(self, level: str, message: str, **_: object) -> None:
        self.lines.append(f"{level} {message}")

    def now(self) -> int:
        return 1

    def note(self, entry: Entry) -> None:
        self.journal.record(entry)

    def job(self, work: Any) -> None:
        self.jobs.append(asyncio.ensure_future(work))

    async def record(self, op: Op, at: int = 1, **fields: Any) -> None:
        await self.journal.record(Entry(op, at, **fields))
        await asyncio.sleep(0)
        await asyncio.gather(*self.jobs)
        self.jobs.clear()


@pytest.fixture
async def script() -> Script:
    return Script()


@pytest.fixture
async def desk(tmp_path: Path, script: Script) -> AsyncIterator[FakeDesk]:
    journal = Journal.open(tmp_path / "ledger", keys=tmp_path / "keys", origin="deck.test/x")
    await journal.record(Entry(Op.SESSION_STARTED, 1, run="run-1", state="fresh"))
    for number in (1, 2):
        await journal.record(Entry(Op.TASK_ADDED, 1, id=f"T{number}", role="coder", sender="lead"))
    gateway = Gateway(
        SphragisConfig(enabled=True, addr=ADDRESS),
        log=tmp_path / "log",
        environ={},
        control=httpx.MockTransport(script.handle),
    )
    yield FakeDesk(journal, gateway, {"lead": None, "coder": None, "bad/name": None})
    journal.close()


def stamping_of(desk: FakeDesk) -> Stamping:
    return Stamping(desk)  # type: ignore[arg-type]


async def test_roles_are_named_first_and_tasks_stamped_from_delivery_to_report(
    desk: FakeDesk, script: Script
) -> None:
    stamping = stamping_of(desk)
    await stamping.start()
    assert script.told == [("coder", ""), ("lead", "")]
    script.told.clear()
    assert await stamping.before(desk.state.tasks["T1"]) == ""
    await desk.record(Op.TASK_MOVED, id="T1", state=TaskState.TYPED)
    stamping.after(desk.state.tasks["T1"])
    await desk.record(Op.TASK_MOVED, id="T1", state=TaskState.PICKED_UP)
    assert script.told == [("coder", "T1")]
    # The next one is on its way while the first is reported: the late news must not take it back.
    await stamping.before(desk.state.tasks["T2"])
    await desk.record(Op.REPORT_ADDED, id="R1", task="T1", role="coder")
    await desk.record(Op.TASK_MOVED, at=2, id="T2", state=TaskState.TYPED)
    stamping.after(desk.state.tasks["T2"])
    assert script.told == [("coder", "T1"), ("coder", "T2")]
    await desk.record(Op.TASK_MOVED, id="T2", state=TaskState.LOST, reason="gone")
    assert script.told[2:] == [("coder", "")]
    await stamping.leave()
    assert sorted(script.told[3:], key=str) == [("coder", None), ("lead", None)]


async def test_an_older_task_is_stamped_again_when_the_newer_one_is_over(
    desk: FakeDesk, script: Script
) -> None:
    stamping = stamping_of(desk)
    await stamping.start()
    for at, task in ((1, "T1"), (2, "T2")):
        await stamping.before(desk.state.tasks[task])
        await desk.record(Op.TASK_MOVED, at=at, id=task, state=TaskState.TYPED)
        stamping.after(desk.state.tasks[task])
    script.told.clear()
    await desk.record(Op.REPORT_ADDED, id="R1", task="T2", role="coder")
    assert script.told == [("coder", "T1")]


async def test_a_gateway_that_fails_holds_the_task_and_gets_the_stamp_later(
    desk: FakeDesk, script: Script
) -> None:
    stamping = stamping_of(desk)
    await stamping.start()
    script.answer = lambda: httpx.Response(503, json={"error": {"message": "The disk is full."}})
    why = await stamping.before(desk.state.tasks["T1"])
    assert why == "the gateway does not take the stamp of T1: The disk is full"
    assert desk.lines == ["WARN stamp not taken"]
    for _ in range(3):
        assert await stamping.before(desk.state.tasks["T1"]) == why
    assert desk.lines == ["WARN stamp not taken"]
    script.answer = lambda: httpx.Response(200, json={})
    assert await stamping.before(desk.state.tasks["T1"]) == ""
    assert desk.lines[-1] == "INFO gateway takes stamps again"


@pytest.mark.parametrize("status", [403, 404, 409])
async def test_a_refusal_is_on_record_and_holds_nothing_back(
    desk: FakeDesk, script: Script, status: int
) -> None:
    stamping = stamping_of(desk)
    script.answer = lambda: httpx.Response(status, json={"error": {"message": "Not you."}})
    await stamping.start()
    assert await stamping.before(desk.state.tasks["T1"]) == ""
    await asyncio.sleep(0.05)
    await desk.record(Op.DENIED)
    found = [r["ext"] for r in desk.journal._ledger.records() if "ext" in r]
    failed = [ext for ext in found if ext.get("op") == "stamp-failed"]
    assert {ext["state"] for ext in failed} == {"refused"}
    assert {ext["reason"] for ext in failed} == {"Not you"}
    assert "T1" in {ext.get("task") for ext in failed}


async def test_what_a_gateway_forgot_is_told_again(desk: FakeDesk, script: Script) -> None:
    stamping = stamping_of(desk)
    await stamping.start()
    script.told.clear()
    stamping.tick()
    assert desk.jobs == []
    stamping.again()
    desk.gateway.last = type(desk.gateway.last)(True)
    stamping.tick()
    await asyncio.gather(*desk.jobs)
    assert script.told == [("coder", ""), ("lead", "")]


async def test_no_socket_is_told_from_one_that_does_not_answer(tmp_path: Path) -> None:
    import socket

    config = SphragisConfig(enabled=True, addr=ADDRESS)
    environ = {"SPHRAGIS_HOME": str(tmp_path / ("long" * 30))}
    gateway = Gateway(config, log=tmp_path / "log", environ=environ)
    assert (await gateway.stamp("r", "a", "T1")).kind is StampKind.ABSENT
    gateway = Gateway(config, log=tmp_path / "log", environ={"HOME": str(tmp_path)})
    assert gateway.control_socket == tmp_path / ".sphragis" / "control.sock"
    gateway = Gateway(config, log=tmp_path / "log", environ={"SPHRAGIS_HOME": str(tmp_path)})
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "control.sock"))
        assert (await gateway.stamp("r", "a", "T1")).kind is StampKind.ABSENT
        mute.listen()
        failed = await gateway.stamp("r", "a", "T1")
        assert (failed.kind, failed.reason) == (StampKind.FAILED, "no answer within 2 s")


# -- what is kept of the settings ---


def test_kept_settings_hold_no_secret(tmp_path: Path) -> None:
    team = b"""
[[roles]]
name = "coder"
command = "agent"
args = ["--api-key", "hunter2", "--token=abc", "--model", "m-1", "API_KEY=sk-ant-12345678"]
prompt_template = "a private plan"
env_allow = ["HOME"]
[roles.env]
PASSWORD = "hunter2"
[ui]
on_gate = "curl https://hooks.example/services/T0/B0/zzz"
"""
    text = config_text(parse_config(team, tmp_path / "t.toml")).decode()
    kept = json.loads(text)
    for secret in ("hunter2", "abc", "sk-ant", "private plan", "zzz"):
        assert secret not in text
    (role,) = kept["roles"]
    assert role["args"][3:5] == ["--model", "m-1"]
    assert kept["ui"]["on_gate"] == "curl (set)"
    assert role["env_allow"] == ["HOME"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--token", "x", "y"], ["--token", "(set)", "y"]),
        (["--token", "--verbose"], ["--token", "--verbose"]),
        (["-H", "Authorization: Bearer abcdefgh12345678"], None),
        (["https://me:pw@host/x"], ["https://(set)@host/x"]),
        (["ghp_0123456789abcdef"], ["(set)"]),
        (["--max-tokens", "5", "src/main.py"], ["--max-tokens", "(set)", "src/main.py"]),
    ],
)
def test_arguments_are_told_without_their_secrets(
    arguments: list[str], told: list[str] | None
) -> None:
    found = told_arguments(arguments)
    assert "abcdefgh12345678" not in " ".join(found)
    assert told is None or found == told


# -- what the command line does ---


def test_a_note_is_of_a_few_kinds_and_names_its_task() -> None:
    entry = noted("rollback-begun", "pre-rollback-T3", "whole\nthing", 5, "coder")
    assert entry is not None
    assert (entry.op, entry.task, entry.sender) == (Op.ROLLBACK_BEGUN, "T3", "coder")
    assert entry.reason == "whole thing"
    assert noted("session-stopped", "T3", "", 5, "coder") is None
    pruned = noted("checkpoints-pruned", "", "", 5, "operator")
    assert pruned is not None
    assert pruned.task == ""


def test_journals_without_the_new_entries_replay_and_the_new_ones_change_no_board() -> None:
    old = [Entry(Op.SESSION_STARTED, 1, run="r", state="fresh"), Entry(Op.DENIED, 2)]
    board = replay(old)
    new = [
        Entry(op, 3)
        for op in Op
        if op.name.startswith(("CONFIG", "BRIEF", "ENFORCE", "STAMP", "CHECKPOINT", "ROLLBACK"))
        or op in (Op.ROLE_STARTING, Op.ROLE_STOPPING, Op.ROLE_STOPPED)
    ]
    assert len(new) == 11
    assert replay([*old, *new]) == board
