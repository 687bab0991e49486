"""Judge loops: a judge is asked, its verdict read, and its builder sent back, until it is settled.

Owns the course of each loop (contracts/deck.md section 1.10) by the rules of `deck.judging`.
Invariants: each step is on record before its effect; only the report of the very task that the
judge was given counts, once; a verdict is read from the file that was dictated or that the judge
itself named in the project, and what lies there before the judge begins is removed; whatever does
not go on by itself goes to a person. Used by `deck.review`, with the turn of the builder's task.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from deck import briefs, gates, judging, ownership
from deck.board import Report, Task
from deck.desk import Desk
from deck.entries import Entry, LoopState, Op, TaskState
from deck.judging import DECK, Bar, Docket, Step
from deck.mergeable import last_commit
from deck.merging import Merging
from deck.moves import TASK_MOVES
from deck.settling import Order, Settling

#: Those that still go on by themselves.
_GOING = (LoopState.JUDGING, LoopState.REVISING)


class NoVerdict(Exception):
    """There is no verdict to be read; the text says why, to follow "because"."""


@dataclass(slots=True)
class Loops:
    """The judge loops of one session."""

    desk: Desk
    settling: Settling
    merging: Merging
    #: Loops seen in trouble once: what a restart is about to mend looks the same for a moment.
    _doubted: set[str] = field(default_factory=set)
    #: Verdicts by the report that brought them, until they are ruled on.
    _read: dict[str, tuple[Path, bytes]] = field(default_factory=dict)

    # -- what agents read -----------------------------------------------------------------------

    def judge_text(self, task: Task) -> str:
        """Return the file of a judge's task. Blocks on the text store."""
        desk, builder = self.desk, self.desk.state.tasks[task.judges]
        report = self.settling.held(builder.id)
        role, place = self.settling.role(builder.role), None
        if role is not None:
            place = self.merging.place(role)
        made = last_commit(self.desk.state, builder.id)
        docket = Docket(
            id=task.id,
            builder=builder.role,
            task=builder.id,
            round=task.round,
            text=desk.texts.get(builder.text_ref) or "",
            brief=builder.brief,
            summary=(desk.texts.get(report.text_ref) or "") if report else "",
            report=report.path if report else "",
            verdict=self._dictated(task),
            place=str(place or ""),
            commit=made.head if place is not None and made is not None else "",
        )
        owners = briefs.owners_of([seat.role for seat in desk.team])
        return judging.judge_file(desk.seats[task.role].role, docket, owners)

    def _dictated(self, task: Task) -> str:
        """A judge that works elsewhere needs the whole path."""
        role = self.settling.role(task.role)
        name = judging.verdict_name(task.judges, task.round)
        elsewhere = role is not None and self.merging.place(role) is not None
        return str(self.desk.state_dir / name) if elsewhere else f"{briefs.STATE_DIR}/{name}"

    def builder_text(self, task: Task, text: str) -> str:
        """Return a task's text, with the critique while it is being revised."""
        loop = self.desk.state.loops.get(task.id)
        if loop is None or loop.state is not LoopState.REVISING:
            return text
        return judging.revision(text, loop.round, loop.reason, loop.path)

    def round_of(self, task: Task) -> tuple[str, int]:
        """Return in which loop, by its builder's task, and which round of it a task is handed
        out; ("", 0) outside of any."""
        loop = self.desk.state.loops.get(task.id)
        if task.judges:
            return task.judges, task.round
        return (task.id, loop.round) if loop is not None else ("", 0)

    # -- steps ----------------------------------------------------------------------------------

    async def ask(self, task: Task) -> None:
        """Give a task's work to its judge, in the round that is next."""
        desk, role = self.desk, self.settling.role(task.role)
        before = desk.state.loops.get(task.id)
        seat = desk.seats.get(role.judge) if role is not None and role.judge else None
        if role is None or seat is None or not seat.available:
            judge = (role.judge if role is not None else "") or "its judge"
            await self.settling.gate(task, f"{judge} is not running")
            return
        round_ = before.round if before is not None else 1
        label = f"Judge {task.id}, round {round_}: {desk.label(task)}"
        text_ref = await asyncio.to_thread(desk.texts.put, label)
        digest = ""
        if seat.role.approve:
            digest = await asyncio.to_thread(gates.digest, desk.texts, label, "")
        order = Order(DECK, text_ref, digest=digest, judges=task.id, round=round_)
        # From here on without a pause: the judge's task and its loop have one order.
        judge_id = desk.state.next_task_id()
        made = self.settling.hands.accept(seat.name, order)
        if isinstance(made, str):
            await self.settling.gate(task, made)
            return
        verdict = desk.state_dir / judging.verdict_name(task.id, round_)
        moved = desk.journal.record(
            Entry(
                Op.LOOP_MOVED,
                desk.now(),
                id=task.id,
                state=LoopState.JUDGING,
                role=seat.name,
                task=judge_id,
                count=round_,
                path=str(verdict),
            )
        )
        judged = f"judged by {seat.name}, round {round_}"
        in_review = desk.journal.record(desk.moved(task, TaskState.IN_REVIEW, judged))
        if before is None:
            desk.events.write(
                "INFO",
                "judge loop started",
                id=task.id,
                judge=seat.name,
                rounds=role.judge_rounds,
                **{"pass": role.judge_pass},
            )
        await asyncio.gather(moved, in_review, made)

    async def hear(self, judged: Task, report: Report) -> None:
        """Take the report of a judge's task; only one that its loop waits for counts."""
        desk, loop = self.desk, self.desk.state.loops.get(judged.judges)
        if loop is None or loop.state is not LoopState.JUDGING or loop.judge_task != judged.id:
            desk.events.write("WARN", "judge", id=judged.judges, judge=judged.role, verdict="late")
            return
        task = desk.state.tasks[judged.judges]
        found = await self.settling.changes(judged, report)
        if found.verdict is ownership.Verdict.VIOLATION:
            await self.settling.gate(
                task, f"{judged.role}, who judges, changed files: {found}", found
            )
            return
        try:
            read = self._read.get(report.id)
            path, data = read if read is not None else await self._verdict_of(judged, report)
        except NoVerdict as none:
            self._tell(task, judged, None, "none")
            await self.settling.gate(task, str(none))
            return
        text = data[: judging.VERDICT_BYTES].decode("utf-8", "replace")
        ref = await asyncio.to_thread(desk.texts.put, text)
        await self._rule(task, judged, judging.score_of(data), path, ref)

    async def _rule(
        self, task: Task, judged: Task, score: int | None, path: Path, ref: str
    ) -> None:
        role, desk = self.settling.role(task.role), self.desk
        bar = Bar(role.judge_pass, role.judge_rounds) if role is not None else Bar(11, 0)
        ruled = judging.ruling(score, judged.round, bar)
        self._tell(task, judged, score, ruled.step.name.lower())
        if ruled.step is Step.PASS:
            await self.settling.accept(task, ref)
            return
        seat = desk.seats.get(task.role)
        if ruled.step is Step.REVISE and seat is not None and seat.available:
            await self._revise(task, judged, ruled.why, path, ref)
            return
        why = ruled.why
        if ruled.step is Step.REVISE:
            why = f"{task.role} is gone and cannot revise it ({ruled.why})"
        # What the person is shown is the text as it was judged.
        await desk.record(
            Entry(
                Op.LOOP_MOVED,
                desk.now(),
                id=task.id,
                state=LoopState.GATED,
                reason=why,
                path=str(path),
                ref=ref,
            )
        )
        await self.settling.gate(task, why)

    async def _revise(self, task: Task, judged: Task, why: str, path: Path, ref: str) -> None:
        """Send a task back to its builder; no approval is asked for again."""
        desk, round_ = self.desk, judged.round + 1
        moved = desk.journal.record(
            Entry(
                Op.LOOP_MOVED,
                desk.now(),
                id=task.id,
                state=LoopState.REVISING,
                count=round_,
                path=str(path),
                reason=why,
                ref=ref,
            )
        )
        queued = desk.journal.record(desk.moved(task, TaskState.QUEUED, f"round {round_}: {why}"))
        made = self.settling.hands.queue(desk.seats[task.role], task.id, queued)
        desk.events.write("INFO", "judge retry", id=task.id, round=round_, to=task.role)
        await asyncio.gather(moved, queued, made)
        if desk.state.tasks[task.id].state is TaskState.IN_REVIEW:
            await self.settling.gate(desk.state.tasks[task.id], "its task file cannot be written")

    def _tell(self, task: Task, judged: Task, score: int | None, verdict: str) -> None:
        self.desk.events.write(
            "INFO",
            "judge",
            id=task.id,
            judge=judged.role,
            round=judged.round,
            score=score,
            verdict=verdict,
        )

    # -- the verdict's file ---------------------------------------------------------------------

    async def clear(self, judged: Task) -> None:
        """Remove what lies in the place of a verdict before its judge has begun. Raises OSError."""
        path = self.desk.state_dir / judging.verdict_name(judged.judges, judged.round)
        if await asyncio.to_thread(os.path.lexists, path):
            await asyncio.to_thread(path.unlink)
            self.desk.events.write(
                "WARN", "judge verdict removed", id=judged.judges, round=judged.round
            )

    async def look(self, judged: Task, report: Report) -> None:
        """Read a verdict as its judge reports, before anybody else can change it much."""
        loop = self.desk.state.loops.get(judged.judges)
        if loop is not None and loop.judge_task == judged.id and loop.state is LoopState.JUDGING:
            with contextlib.suppress(NoVerdict):
                self._read[report.id] = await self._verdict_of(judged, report)

    def forget(self, report: Report) -> None:
        """Drop a verdict that was read and is not needed any more."""
        self._read.pop(report.id, None)

    async def _verdict_of(self, judged: Task, report: Report) -> tuple[Path, bytes]:
        dictated = self.desk.state_dir / judging.verdict_name(judged.judges, judged.round)
        return await asyncio.to_thread(self._verdict, dictated, report)

    def _verdict(self, dictated: Path, report: Report) -> tuple[Path, bytes]:
        """Return the file that a judge's report is about, and its bytes, up to one more than
        count. Blocks. Raises NoVerdict."""
        path = Path(report.path) if report.path else dictated
        root = os.path.realpath(self.desk.directory)
        try:
            real = os.path.realpath(path, strict=True)
            if path != dictated and os.path.commonpath([root, real]) != root:
                raise NoVerdict(f"the judge's report {path} is outside the project")
            # A link in the dictated place is not followed.
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(path if path == dictated else real, flags)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise NoVerdict(f"{path}, where the verdict should be, is no regular file")
                if path != dictated and _opened(descriptor, real) != real:
                    raise NoVerdict(f"the judge's report {path} was replaced as it was opened")
                return path, file.read(judging.VERDICT_BYTES + 1)
        except (OSError, ValueError) as failure:
            why = failure.strerror if isinstance(failure, OSError) else "not a path"
            raise NoVerdict(f"the verdict cannot be read from {path}: {why}") from None

    # -- time -----------------------------------------------------------------------------------

    def stuck(self) -> list[str]:
        """Return the tasks whose loops cannot go on by themselves, once that is sure; called once
        a second."""
        found = []
        for loop in self.desk.state.loops.values():
            if loop.state not in _GOING or not self.trouble(loop.task):
                self._doubted.discard(loop.task)
                continue
            judged = self.desk.state.tasks.get(loop.judge_task)
            timed_out = judged is not None and judged.state is TaskState.TIMED_OUT
            if timed_out or loop.task in self._doubted:
                found.append(loop.task)
            self._doubted.add(loop.task)
        return found

    def trouble(self, task_id: str) -> str:
        """Return why the loop of a task cannot go on by itself, or "" when it can."""
        state = self.desk.state
        return judging.trouble(
            state,
            task_id,
            judge_runs=self._runs(state.loops[task_id].judge),
            builder_runs=self._runs(state.tasks[task_id].role),
        )

    def _runs(self, role: str) -> bool:
        seat = self.desk.seats.get(role)
        return seat is not None and seat.available

    def unneeded(self) -> list[Task]:
        """Return judges' tasks that still wait to be done although no loop waits for them."""
        found = []
        for task in self.desk.state.tasks.values():
            waiting = task.state in (TaskState.QUEUED, TaskState.LOST, TaskState.TIMED_OUT)
            if task.judges and waiting and TaskState.REFUSED in TASK_MOVES[task.state]:
                loop = self.desk.state.loops.get(task.judges)
                if (
                    loop is None
                    or loop.state is not LoopState.JUDGING
                    or loop.judge_task != task.id
                ):
                    found.append(task)
        return found


def _opened(descriptor: int, path: str) -> str:
    """Return which file a descriptor is of: a directory on the way to it may have become a link
    to a place that the judge cannot read itself. Without `/proc` the path is believed."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return path
