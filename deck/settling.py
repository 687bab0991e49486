"""Settling: how a review ends. Work is accepted, refused, or waits for a person.

Owns what each ending writes down and in which order, and the gates about results
(contracts/deck.md section 1.9). Invariants: a decision is durable before the report moves, and the
report is durable on its way before the task's branch is merged; a gate holds only for the very
result it was opened about; one review is changed by one hand at a time (`turn`). `deck.review` and
`deck.loops` decide which ending it is.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from deck import ownership, results
from deck.board import Gate, Report, Task
from deck.config import Role
from deck.desk import Desk
from deck.entries import Decision, Entry, GateKind, LoopState, Op, ReportState, TaskState
from deck.gatekeeper import Changed, Durable, Gatekeeper, Rules
from deck.merging import Merging
from deck.moves import LOOP_MOVES, TASK_MOVES
from deck.protocol import Target, one_line
from deck.seats import Seat

#: Why a gate opened, at most; what it is about in full is in the text that is shown.
WHY_CHARS: Final = 600
#: Gates that this module opens.
RESULT_GATES: Final = frozenset({GateKind.JUDGE, GateKind.OWNERSHIP})


@dataclass(frozen=True, slots=True)
class Order:
    """A task to be made: who asks, the references of its text, its brief, what its gate would be
    about, and, of a judge's task, whose work it judges in which round."""

    sender: str
    text_ref: str
    brief: str = ""
    digest: str = ""
    judges: str = ""
    round: int = 0


class Hands(Protocol):
    """What a review needs done with tasks and reports; `deck.work` does it."""

    def accept(self, name: str, order: Order) -> asyncio.Future[Target] | str:
        """Make a task for a role, or return why not. No await: the next records follow it."""

    def queue(
        self, seat: Seat, task_id: str, durable: Durable | None = None
    ) -> asyncio.Future[Target]:
        """Put a task into its role's queue once its record is durable."""

    def bring(self, report_id: str, durable: Durable | None = None) -> None:
        """Put a report into the start role's queue once its record is durable."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of the files of others while a task was at work."""

    verdict: ownership.Verdict
    worker: str
    foreign: Mapping[str, results.Foreign] = field(default_factory=dict)

    def __str__(self) -> str:
        return results.listed(self.foreign)


@dataclass(slots=True)
class Settling:
    """The endings of one session's reviews."""

    desk: Desk
    gatekeeper: Gatekeeper
    merging: Merging
    #: Set by `deck.work`, which needs the review itself.
    hands: Hands = field(init=False)
    _turns: dict[str, asyncio.Lock] = field(default_factory=dict)
    #: What the files of others held as a report came, by its id, until it is looked at.
    _seen: dict[str, dict[str, str]] = field(default_factory=dict)

    def turn(self, task_id: str) -> asyncio.Lock:
        """Return the lock of one task's review."""
        return self._turns.setdefault(task_id, asyncio.Lock())

    def role(self, name: str) -> Role | None:
        """Return a role as it is now, None for one that is gone."""
        seat = self.desk.seats.get(name)
        return seat.role if seat is not None else self.desk.config.role(name)

    def held(self, task_id: str) -> Report | None:
        """Return the report that waits for the end of a task's review, the latest one."""
        found = [
            report
            for report in self.desk.state.reports.values()
            if report.task == task_id and report.state is ReportState.HELD
        ]
        return found[-1] if found else None

    # -- owned files ----------------------------------------------------------------------------

    def owners(self, role: str) -> dict[str, str]:
        """Return the files that others than `role` own, each with its owner."""
        seats = [seat for seat in self.desk.team if seat.name != role]
        return {path: seat.name for seat in seats for path in seat.role.owns_files}

    async def take_owned(self, role_name: str, paths: Iterable[str]) -> dict[str, str]:
        """Return what files hold now, in the place where a role works."""
        role = self.role(role_name)
        place = (self.merging.place(role) if role is not None else None) or self.desk.directory
        return await asyncio.to_thread(ownership.take, place, list(paths))

    async def look(self, task: Task, report: Report) -> None:
        """Note what the files of others hold as a task is reported; what happens to them later is
        not its doing."""
        if owners := self.owners(task.role):
            self._seen[report.id] = await self.take_owned(task.role, owners)

    def forget(self, report: Report) -> None:
        """Drop what was noted for a report: it was looked at, or is not to be."""
        self._seen.pop(report.id, None)

    async def changes(self, task: Task, report: Report) -> Changes:
        """Compare the files of others as a task was delivered and as it was reported."""
        owners = self.owners(task.role)
        if not owners:
            return Changes(ownership.Verdict.CLEAN, task.role)
        text = await asyncio.to_thread(self.desk.texts.get, task.owned_ref)
        before = ownership.parse(text)
        seen = self._seen.get(report.id, {})
        # After a crash, or for a file that somebody owns only since then, what it holds now.
        late = [path for path in owners if path not in seen]
        now = {**seen, **(await self.take_owned(task.role, late) if late else {})}
        foreign = {
            path: results.Foreign(owners[path], now[path])
            for path in ownership.changed(before, now)
            if path in owners
        }
        since = before.at if before is not None else task.delivered_at or task.at
        names = {one.owner for one in foreign.values()}
        said = ownership.verdict(self.desk.state, task, since, report.at, names)
        return Changes(said, task.role, foreign)

    # -- endings --------------------------------------------------------------------------------

    async def accept(self, task: Task, verdict: str = "") -> None:
        """The work counts: its report goes to the start role, its branch to its merge. `verdict`
        is the reference of a judge's text."""
        report = self.held(task.id)
        own = report is not None and report.role == self.desk.start_name
        records = self._end(task, LoopState.ACCEPTED, TaskState.REPORTED, verdict=verdict)
        if report is not None:
            moved = self._move_report(report, ReportState.DELIVERED if own else ReportState.QUEUED)
            records.append(moved)
            if not own:
                self.hands.bring(report.id, moved)
        await asyncio.gather(*records)
        self.desk.job(self.merging.land(task))

    async def refuse(self, task: Task, why: str) -> None:
        """The work does not count: the start role gets the reason in place of the report."""
        records = self._end(task, LoopState.REJECTED, TaskState.REFUSED, why)
        if (report := self.held(task.id)) is not None:
            records.append(self._move_report(report, ReportState.WITHHELD, why))
        await asyncio.gather(*records)
        self.desk.notify(f"{task.id} of {task.role} was not accepted: {why}")

    def _end(
        self, task: Task, loop: LoopState, follow: TaskState, why: str = "", verdict: str = ""
    ) -> list[Durable]:
        """Record the decision, the loop's end first, as far as a crash left that to do. No
        await."""
        desk, before, records = self.desk, self.desk.state.loops.get(task.id), []
        if before is not None and loop in LOOP_MOVES[before.state]:
            entry = Entry(
                Op.LOOP_MOVED, desk.now(), id=task.id, state=loop, reason=why, ref=verdict
            )
            records.append(desk.journal.record(entry))
        if desk.state.tasks[task.id].state is not follow:
            records.append(desk.journal.record(desk.moved(task, follow, why)))
        return records

    def _move_report(self, report: Report, state: ReportState, why: str = "") -> Durable:
        return self.desk.journal.record(
            Entry(Op.REPORT_MOVED, self.desk.now(), id=report.id, state=state, reason=why)
        )

    async def supersede(self, task: Task, report: Report) -> None:
        """Withhold the reports of earlier rounds."""
        for other in list(self.desk.state.reports.values()):
            if other.task == task.id and other.state is ReportState.HELD and other.at < report.at:
                await self._move_report(other, ReportState.WITHHELD, f"{report.id} came after it")

    # -- gates ----------------------------------------------------------------------------------

    async def gate(self, task: Task, why: str, found: Changes | None = None) -> None:
        """Let a person decide about a task's work; it stays in review until then. `found` are
        changes that count against it.

        Called with the task's turn. Does nothing for a task whose review is over, or that has
        such a gate already.
        """
        desk, why = self.desk, one_line(why, WHY_CHARS)
        result = await self._result(task, found)
        loop = desk.state.loops.get(task.id)
        judged = await asyncio.to_thread(desk.texts.get, loop.verdict) if loop else ""
        words = results.words(
            task, desk.label(task), why, result, results.verdict_words(loop, judged or "")
        )
        digest = await asyncio.to_thread(desk.texts.put, result.as_text())
        shown = await asyncio.to_thread(desk.texts.put, words)
        # From here on without a pause: gate, loop and task have one order in the journal.
        task, loop = desk.state.tasks[task.id], desk.state.loops.get(task.id)
        if TaskState.IN_REVIEW not in TASK_MOVES[task.state] or self.open_gate(task) is not None:
            return
        role = self.role(task.role)
        with_judge = loop is not None or (role is not None and bool(role.judge))
        kind = GateKind.JUDGE if with_judge else GateKind.OWNERSHIP
        gate_id, opened = self.gatekeeper.open(
            kind, digest, task=task.id, path=result.path, shown=shown, why=why
        )
        await asyncio.gather(opened, *self.waits(task, gate_id, why))
        self._tell_gate(task, gate_id, kind, why, result)

    def waits(self, task: Task, gate_id: str, why: str) -> list[Durable]:
        """Record that loop and task wait for a gate, as far as that is not so yet. No await."""
        desk, loop, role = self.desk, self.desk.state.loops.get(task.id), self.role(task.role)
        judge, records = role.judge if role is not None else "", []
        if (loop is not None or judge) and LoopState.GATED in LOOP_MOVES[
            loop.state if loop else None
        ]:
            entry = Entry(
                Op.LOOP_MOVED,
                desk.now(),
                id=task.id,
                role="" if loop is not None else judge,
                state=LoopState.GATED,
                reason=why,
            )
            records.append(desk.journal.record(entry))
        in_review = desk.moved(task, TaskState.IN_REVIEW, f"waits for {gate_id}: {why}")
        return [*records, desk.journal.record(in_review)]

    def _tell_gate(
        self, task: Task, gate_id: str, kind: GateKind, why: str, result: results.Result
    ) -> None:
        if kind is GateKind.OWNERSHIP and result.foreign:
            self.desk.events.write(
                "WARN", "ownership", id=task.id, verdict="gate", gate=gate_id, reason=why
            )
            return
        msg = "judge gate" if kind is GateKind.JUDGE else "review gate"
        self.desk.events.write("WARN", msg, id=task.id, gate=gate_id, reason=why)

    def open_gate(self, task: Task) -> Gate | None:
        """Return the undecided gate about a task's result, if it has one."""
        gate = self.result_gate(task)
        return gate if gate is not None and gate.decision is Decision.OPEN else None

    def result_gate(self, task: Task) -> Gate | None:
        """Return the gate about a task's result, decided or not, if it has one."""
        gate = self.desk.state.gates.get(task.gate)
        return gate if gate is not None and gate.kind in RESULT_GATES else None

    def rules(self) -> Rules:
        """Return what gates about results are about."""
        return Rules(lambda _: "", self._present, self._follow, self._holds)

    async def _holds(self, gate: Gate, body: bytes) -> bool:
        opened = results.parse(await asyncio.to_thread(self.desk.texts.get, gate.digest))
        return opened is not None and opened.file == hashlib.sha256(body).hexdigest()

    async def _present(self, gate: Gate) -> str:
        """Commit to the very same report and files, as they are now."""
        desk, report = self.desk, self.held(gate.task)
        opened = results.parse(await asyncio.to_thread(desk.texts.get, gate.digest))
        if opened is None:
            raise Changed("what it is about was changed or removed since the gate opened")
        text = await asyncio.to_thread(desk.texts.get, report.text_ref) if report else ""
        now = await self.take_owned(opened.worker, opened.foreign)
        present = results.with_values(replace(opened, text=text or ""), now)
        present = await asyncio.to_thread(results.with_file, present)
        return desk.texts.commit(present.as_text().encode())

    async def _result(self, task: Task, found: Changes | None) -> results.Result:
        report = self.held(task.id)
        text = await asyncio.to_thread(self.desk.texts.get, report.text_ref) if report else ""
        result = results.Result(
            text=text or "",
            path=report.path if report is not None else "",
            worker=found.worker if found is not None else task.role,
            foreign=found.foreign if found is not None else {},
        )
        # A person decides about what is there now.
        now = await self.take_owned(result.worker, result.foreign)
        return await asyncio.to_thread(results.with_file, results.with_values(result, now))

    async def _follow(self, gate: Gate, why: str, durable: Durable) -> None:
        await durable
        async with self.turn(gate.task):
            await self.follow(gate, why)

    def _resolved(self, gate: Gate) -> str:
        """Return what the event of a decision is called (contracts/deck.md section 1.12)."""
        if gate.kind is GateKind.JUDGE:
            return "judge gate resolved"
        opened = results.parse(self.desk.texts.get(gate.digest))
        owned = opened is not None and bool(opened.foreign)
        return "ownership gate resolved" if owned else "review gate resolved"

    async def follow(self, gate: Gate, why: str) -> None:
        """Carry out a decided gate, also one that was decided before a crash."""
        task = self.desk.state.tasks[gate.task]
        if task.state is not TaskState.IN_REVIEW or task.gate != gate.id:
            return
        self.desk.events.write(
            "INFO",
            await asyncio.to_thread(self._resolved, gate),
            id=task.id,
            gate=gate.id,
            decision=gate.decision,
            by=gate.approver,
            reason=why,
        )
        if gate.decision is Decision.APPROVED:
            await self.accept(task)
        else:
            await self.refuse(task, one_line(f"{gate.id} is {gate.decision}. {why}").rstrip())
