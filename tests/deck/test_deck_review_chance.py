"""Reviews under whatever comes: agents that report twice, late or not at all, roles that end and
come back, people who decide, and a deck that crashes; without panes, by chance from fixed seeds."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from review_bench import Bench

from deck.callers import Caller, Kind
from deck.config import Role
from deck.entries import Decision, LoopState, Op, ReportState, TaskState
from deck.moves import IN_FLIGHT
from deck.protocol import Command, Verb

TEAM = (
    Role("lead", start=True),
    Role("coder", judge="critic", judge_rounds=2),
    Role("helper"),
    Role("critic"),
    Role("writer", owns_files=("SPEC",)),
)
WORKERS = ("coder", "helper", "writer")
VERDICTS = ("VERDICT: 9/10\n", "VERDICT: 2/10\n", "VERDICT: 2/10\n", "fine\n")
STEPS = 40


class Chance:
    """One life of a team; each step is drawn."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench, self.draw = bench, random.Random(seed)
        self.faults: list[str] = []
        self.watch()

    def watch(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, told: self.faults.append(repr(told)))

    async def step(self) -> None:
        steps: list[tuple[int, Callable[[], Awaitable[Any]]]] = [
            (3, self.delegate),
            (6, self.hand_out),
            (5, self.report),
            (4, self.judge),
            (2, self.spoil),
            (2, self.end_role),
            (2, self.begin_role),
            (1, self.time_out),
            (2, self.again),
            (3, self.decide),
            (3, self.tick),
            (1, self.crash),
        ]
        (chosen,) = self.draw.choices([step for _, step in steps], [weight for weight, _ in steps])
        await chosen()
        if self.draw.random() < 0.7:
            await self.bench.settle()

    async def delegate(self) -> None:
        await self.bench.delegate(self.draw.choice(WORKERS))

    async def hand_out(self) -> None:
        role = self.draw.choice((*WORKERS, "critic", "coder", "critic"))
        chair = self.bench.chairs[role]
        if not chair.available:
            return
        while chair.tasks:
            await self.bench.settle()
            if self.bench.task(chair.tasks[0][0]).state is TaskState.QUEUED:
                await self.bench.hand_out(role)
                return
            chair.tasks.pop(0)

    async def report(self) -> None:
        tasks = [t for t in self.bench.state.tasks.values() if not t.judges]
        at_work = [t for t in tasks if t.state in IN_FLIGHT] or tasks
        if tasks:
            task = self.draw.choice(at_work if self.draw.random() < 0.8 else tasks)
            command = Command(Verb.WORK_DONE, id=task.id, task=f"{task.id} is done")
            await self.bench.work.work_done(command, Caller(Kind.ROLE, task.role))

    async def judge(self) -> None:
        asked = [t for t in self.bench.state.tasks.values() if t.judges and t.state in IN_FLIGHT]
        if not asked:
            return
        task = asked[0]
        name = f".choragos/judge-verdict-{task.judges}-r{task.round}.md"
        (self.bench.directory / name).write_text(self.draw.choice(VERDICTS))
        command = Command(Verb.WORK_DONE, id=task.id, task="judged")
        await self.bench.work.work_done(command, Caller(Kind.ROLE, "critic"))

    async def spoil(self) -> None:
        (self.bench.directory / "SPEC").write_text(str(self.draw.random()))

    async def end_role(self) -> None:
        chair = self.bench.chairs[self.draw.choice(("coder", "critic"))]
        chair.available = False
        for task in list(self.bench.state.open_tasks(chair.name)):
            present = self.bench.task(task.id)
            if present.state in (*IN_FLIGHT, TaskState.QUEUED, TaskState.TIMED_OUT):
                await self.bench.lose(task.id)
        chair.tasks.clear()

    async def begin_role(self) -> None:
        for chair in self.bench.chairs.values():
            chair.available = True

    async def time_out(self) -> None:
        for task in list(self.bench.state.in_flight()):
            await self.bench.desk.move(task, TaskState.TIMED_OUT, "no report in time")

    async def again(self) -> None:
        lost = (TaskState.LOST, TaskState.TIMED_OUT)
        for task in list(self.bench.state.tasks.values()):
            chair = self.bench.chairs[task.role]
            if self.bench.task(task.id).state in lost and chair.available:
                await chair.offer_again(task.id, "again")

    async def decide(self) -> None:
        if gates := self.bench.open_gates():
            verb = self.draw.choice((Verb.APPROVE, Verb.REJECT))
            command = Command(verb, id=self.draw.choice(gates).id)
            json.loads(await self.bench.keeper.decide(command, Caller(Kind.OPERATOR)))

    async def tick(self) -> None:
        await self.bench.review.tick()

    async def crash(self) -> None:
        self.bench = await self.bench.reopened()
        self.watch()
        await self.bench.resume()

    # -- what always holds --------------------------------------------------------------------

    def check(self) -> None:
        assert self.faults == []
        state = self.bench.state
        for task in state.tasks.values():
            held = [
                report
                for report in state.reports.values()
                if report.task == task.id and report.state is ReportState.HELD
            ]
            loop = state.loops.get(task.id)
            if task.state is TaskState.IN_REVIEW:
                assert held, f"{task} has nothing to accept"
                assert self.goes_on(task.id), f"{task} hangs: {loop}"
            if task.state in (TaskState.REPORTED, TaskState.REFUSED):
                assert not held, f"{task} is over and {held} waits"
                over = (None, LoopState.ACCEPTED, LoopState.REJECTED)
                assert (loop.state if loop else None) in over
            if task.state is TaskState.REPORTED and not task.judges:
                assert task.role != "coder" or loop is not None, f"{task} was never judged"

    def goes_on(self, task_id: str) -> bool:
        state, loop = self.bench.state, self.bench.state.loops.get(task_id)
        if any(gate.task == task_id for gate in self.bench.open_gates()):
            return True
        judged = state.tasks.get(loop.judge_task) if loop is not None else None
        waits = (*IN_FLIGHT, TaskState.QUEUED)
        return (
            loop is not None
            and loop.state is LoopState.JUDGING
            and (judged is not None and judged.state in waits)
        )

    async def end(self) -> None:
        """Whatever state it is in, people can bring it to an end."""
        for _ in range(40):
            await self.begin_role()
            await self.tick()
            await self.tick()
            await self.again()
            for role in (*WORKERS, "critic"):
                while self.bench.chairs[role].tasks:
                    await self.hand_out_next(role)
            await self.bench.settle()
            for task in list(self.bench.state.in_flight()):
                if task.judges:
                    await self.judge()
                else:
                    command = Command(Verb.WORK_DONE, id=task.id, task="done")
                    await self.bench.work.work_done(command, Caller(Kind.ROLE, task.role))
                await self.bench.settle()
            for gate in self.bench.open_gates():
                await self.bench.decide(gate, Verb.REJECT)
            self.check()
            if not list(self.bench.state.open_tasks()):
                return
        raise AssertionError(list(self.bench.state.open_tasks()))

    async def hand_out_next(self, role: str) -> None:
        task_id = self.bench.chairs[role].tasks[0][0]
        if self.bench.task(task_id).state is TaskState.QUEUED:
            await self.bench.hand_out(role)
        else:
            self.bench.chairs[role].tasks.pop(0)


# A crash forgets jobs that had not begun.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("seed", range(12))
async def test_whatever_comes_nothing_hangs_and_nothing_counts_that_was_not_accepted(
    tmp_path: Path, seed: int
) -> None:
    chance = Chance(await Bench.open(tmp_path, TEAM), seed)
    try:
        for _ in range(STEPS):
            await chance.step()
        await chance.bench.settle()
        for _ in range(3):
            await chance.tick()
            await chance.bench.settle()
        chance.check()
        await chance.end()
        decided = {
            entry.id
            for entry in await chance.bench.entries()
            if entry.op is Op.GATE_DECIDED and entry.state == Decision.APPROVED
        }
        for loop in chance.bench.state.loops.values():
            task = chance.bench.task(loop.task)
            if task.state is TaskState.REPORTED:
                last = chance.bench.desk.texts.get(loop.verdict) or ""
                assert task.gate in decided or last.startswith("VERDICT: 9/10")
    finally:
        await chance.bench.close()
