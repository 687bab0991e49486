"""A deck without panes for tests of reviews: desk, journal, gatekeeper, work and review are real,
seats are stand-ins that the test moves by hand. `Bench.reopened` is a crash and a resumed run."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from deck.board import Gate, State, Task
from deck.callers import Caller, Kind
from deck.config import Config, Role, SphragisConfig
from deck.desk import Desk
from deck.entries import Decision, Entry, GateKind, LoopState, Op, ReportState, TaskState
from deck.events import Event, parse_events
from deck.gatekeeper import Gatekeeper
from deck.journal import entries_of
from deck.protocol import Command, Verb
from deck.review import Review
from deck.sessions import paths_for
from deck.settling import RESULT_GATES
from deck.work import Work

OPERATOR = Caller(Kind.OPERATOR)


@dataclass
class Chair:
    """A seat without a process."""

    role: Role
    desk: Desk
    available: bool = True
    removed: bool = False
    pane: None = None
    held: str = ""
    tasks: list[tuple[str, Awaitable[object] | None]] = field(default_factory=list)
    reports: list[tuple[str, str]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.role.name

    def put_task(self, task_id: str, ready: Awaitable[object] | None = None) -> None:
        self.tasks.append((task_id, ready))

    def put_report(self, report_id: str, text: str, ready: object) -> None:
        self.reports.append((report_id, text))

    def put_notice(self, text: str) -> None:
        self.notices.append(text)

    async def offer_again(self, task_id: str, reason: str) -> bool:
        await self.desk.move(self.desk.state.tasks[task_id], TaskState.QUEUED, reason)
        self.put_task(task_id)
        return True


class Quiet:
    """Snapshots and metering that only count."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def after(self, task: Task) -> None:
        self.ended.append(task.id)

    async def end(self, task: Task | None) -> None:
        return


@dataclass
class Branches:
    """Worktrees that are only said to be there."""

    places: dict[str, Path] = field(default_factory=dict)
    problem: str = ""
    committed: list[str] = field(default_factory=list)
    landed: list[str] = field(default_factory=list)

    def place(self, role: Role) -> Path | None:
        return self.places.get(role.name)

    async def commit(self, task: Task, summary: str) -> str:
        self.committed.append(task.id)
        return self.problem

    async def land(self, task: Task) -> None:
        self.landed.append(task.id)


@dataclass
class Bench:
    """One project with a team."""

    directory: Path
    config: Config
    environ: dict[str, str]
    desk: Desk
    branches: Branches
    quiet: Quiet
    keeper: Gatekeeper
    review: Review
    work: Work
    chairs: dict[str, Chair]

    @classmethod
    async def open(
        cls, base: Path, roles: Sequence[Role], branches: Branches | None = None
    ) -> Bench:
        directory = base / "project"
        directory.mkdir(exist_ok=True)
        environ = {
            "XDG_RUNTIME_DIR": str(base),
            "XDG_STATE_HOME": str(base / "state"),
            "CHORAGOS_AUDIT_RESERVE_MIB": "0",
        }
        bench = await cls._begin(
            directory,
            Config(tuple(roles), SphragisConfig(enabled=False)),
            environ,
            branches or Branches(),
        )
        await bench.desk.record(Entry(Op.SESSION_STARTED, bench.desk.now(), run="r", state="fresh"))
        return bench

    @classmethod
    async def _begin(
        cls, directory: Path, config: Config, environ: dict[str, str], branches: Branches
    ) -> Bench:
        paths = paths_for(str(directory), environ)
        desk = await asyncio.to_thread(Desk.open, config, paths, environ)
        keeper, quiet, any_branches = Gatekeeper(desk), Quiet(), cast(Any, branches)
        review = Review(desk, keeper, any_branches)
        any_quiet = cast(Any, quiet)
        work = Work(desk, any_quiet, any_quiet, keeper, review, any_branches)
        keeper.serve(GateKind.ENTRY, work.rules())
        for kind in RESULT_GATES:
            keeper.serve(kind, review.rules())
        chairs = {role.name: Chair(role, desk) for role in config.roles}
        desk.seats.update(cast(Any, chairs))
        return cls(directory, config, environ, desk, branches, quiet, keeper, review, work, chairs)

    async def close(self) -> None:
        await self.desk.cancel_jobs()
        await asyncio.to_thread(self.desk.close)

    # -- what the parts of a session do ---------------------------------------------------------

    @property
    def state(self) -> State:
        return self.desk.state

    def task(self, task_id: str) -> Task:
        return self.state.tasks[task_id]

    async def settle(self) -> None:
        """Let everything in the background come to its end."""
        while jobs := list(self.desk._jobs):
            await asyncio.gather(*jobs)

    async def delegate(self, role: str, text: str = "do it") -> str:
        command = Command(Verb.DELEGATE, to=(role,), task=text, reads_ack=True)
        ack = json.loads(await self.work.delegate(command, Caller(Kind.ROLE, "lead")))
        return str(ack["targets"][0]["id"])

    async def hand_out(self, role: str) -> str:
        """Do what a seat does with its next task, and return its id."""
        task_id, ready = self.chairs[role].tasks.pop(0)
        if ready is not None:
            await ready
        await self.review.begin(self.task(task_id))
        for state in (TaskState.TYPED, TaskState.SUBMITTED, TaskState.PICKED_UP):
            await self.desk.move(self.task(task_id), state)
        return task_id

    async def given(self, role: str, text: str = "do it") -> str:
        task_id = await self.delegate(role, text)
        assert await self.hand_out(role) == task_id
        return task_id

    async def report(
        self, role: str, task_id: str, text: str = "done", path: str = "", done: bool = False
    ) -> dict[str, Any]:
        command = Command(Verb.WORK_DONE, id=task_id, task=text, report=path, done=done)
        ack: dict[str, Any] = json.loads(
            await self.work.work_done(command, Caller(Kind.ROLE, role))
        )
        await self.settle()
        return ack

    async def judge(self, judge: str, verdict: str, path: str = "") -> str:
        """Let a judge do its next task: it writes a verdict and reports."""
        task_id = await self.hand_out(judge)
        task = self.task(task_id)
        file = path or f".choragos/judge-verdict-{task.judges}-r{task.round}.md"
        (self.directory / file).write_text(verdict)
        await self.report(judge, task_id, "judged", file)
        return task_id

    async def lose(self, task_id: str, why: str = "its role has exited (status 7)") -> None:
        await self.desk.move(self.task(task_id), TaskState.LOST, why)

    async def tick(self, times: int = 1) -> None:
        for _ in range(times):
            await self.review.tick()
            await self.settle()

    async def decide(self, gate: Gate, verb: Verb = Verb.APPROVE, reason: str = "") -> str:
        command = Command(verb, id=gate.id, reason=reason)
        ack = json.loads(await self.keeper.decide(command, OPERATOR))
        await self.settle()
        return str(ack.get("decision") or ack["reason"])

    def open_gates(self) -> list[Gate]:
        return [gate for gate in self.state.gates.values() if gate.decision is Decision.OPEN]

    def the_gate(self) -> Gate:
        (gate,) = self.open_gates()
        return gate

    def shown(self, gate: Gate) -> str:
        return self.desk.texts.get(gate.shown) or ""

    def loop(self, task_id: str = "T1") -> LoopState:
        return self.state.loops[task_id].state

    def report_states(self) -> list[ReportState]:
        return [report.state for report in self.state.reports.values()]

    def events(self, msg: str) -> list[Event]:
        found = parse_events(self.directory / ".choragos" / "logs" / "events.log")
        return [event for event in found if event.msg == msg]

    def file(self, name: str) -> str:
        return (self.directory / ".choragos" / name).read_text()

    # -- crashes --------------------------------------------------------------------------------

    async def entries(self) -> list[Entry]:
        """Everything in the journal so far."""
        return list(entries_of(self.desk.journal.ledger.records()))

    async def reopened(self, entries: Sequence[Entry] | None = None) -> Bench:
        """Return the deck after a crash; with `entries` as if only those had been written."""
        await self.close()
        if entries is not None:
            shutil.rmtree(self.directory / ".choragos" / "ledger")
        again = await self._begin(self.directory, self.config, self.environ, self.branches)
        for entry in entries or ():
            await again.desk.record(entry)
        return again

    async def resume(self) -> None:
        """What a session does when it goes on with a run that crashed."""
        desk = self.desk
        await desk.record(Entry(Op.SESSION_STARTED, desk.now(), run="r", state="resumed"))
        for task in list(desk.state.in_flight()):
            await self.lose(task.id, "the deck crashed")
        for task in list(desk.state.tasks.values()):
            if task.state is TaskState.QUEUED:
                self.work.queue(desk.seats[task.role], task.id)
        for report in list(desk.state.reports.values()):
            if report.state is ReportState.QUEUED:
                self.work.bring(report.id)
        await self.review.resume()
        await self.settle()
