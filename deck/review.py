"""The review of finished work: what stands between a report and its acceptance.

Owns the order of the steps: the work is committed (worktree), checked (owned files), judged, and
only then accepted, reported to the start role and merged. Invariants: a report under review is
held, in plain sight; whatever cannot be settled without a person opens a gate; after a crash no
work is accepted that was not accepted before. `deck.work` hands in reports; `deck.loops` knows the
judges, `deck.settling` the endings.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from deck.board import Report, Task
from deck.desk import Desk
from deck.entries import Decision, Entry, LoopState, Op, ReportState, TaskState
from deck.gatekeeper import Gatekeeper, Rules
from deck.journal import JournalFailed
from deck.loops import Loops
from deck.merging import Merging
from deck.moves import TASK_MOVES, IllegalMove
from deck.ownership import Taken, Verdict
from deck.protocol import one_line
from deck.settling import Changes, Hands, Settling


@dataclass(frozen=True, slots=True)
class Reception:
    """Where a report goes first, and why there."""

    state: ReportState
    reason: str = ""


@dataclass(slots=True)
class Review:
    """The reviews of one session."""

    desk: Desk
    gatekeeper: Gatekeeper
    merging: Merging
    settling: Settling = field(init=False)
    loops: Loops = field(init=False)
    #: Reviews that a fault of ours cut short, by the task under review.
    _interrupted: dict[str, Exception] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Set up the parts."""
        self.settling = Settling(self.desk, self.gatekeeper, self.merging)
        self.loops = Loops(self.desk, self.settling, self.merging)

    def employ(self, hands: Hands) -> None:
        """Say who makes tasks and brings reports."""
        self.settling.hands = hands

    def rules(self) -> Rules:
        """Return what gates about results are about."""
        return self.settling.rules()

    # -- deliveries and reports -----------------------------------------------------------------

    def wanted(self, task: Task) -> bool:
        """Tell whether a report of this task is held until it has been looked at."""
        if task.judges:
            return False
        role = self.settling.role(task.role)
        if task.id in self.desk.state.loops or task.owned_ref or self.settling.owners(task.role):
            return True
        return role is not None and (bool(role.judge) or self.merging.place(role) is not None)

    def reception(self, task: Task) -> Reception | None:
        """Return where a report of this task goes; None: nothing stands before it.

        A report that comes while its task is under review, before a revision was handed out, or
        after the decision, is kept and not passed on: it would look like accepted work.
        """
        loop = self.desk.state.loops.get(task.judges or task.id)
        if task.judges:
            waited = loop is not None and loop.judge_task == task.id
            late = not waited or loop is None or loop.state is not LoopState.JUDGING
            return Reception(ReportState.DELIVERED, "it came too late to count" if late else "")
        if not self.wanted(task):
            return None
        revising = loop is not None and loop.state is LoopState.REVISING
        if revising and task.state is TaskState.QUEUED:
            why = f"{task.id} is to be revised, and that was not handed out yet"
            return Reception(ReportState.WITHHELD, why)
        if task.state is TaskState.IN_REVIEW or TaskState.IN_REVIEW not in TASK_MOVES[task.state]:
            return Reception(ReportState.WITHHELD, f"{task.id} was {task.state} already")
        return Reception(ReportState.HELD)

    async def begin(self, task: Task) -> None:
        """Note what a later check compares with; called before each delivery, never raises.

        What was noted at the first delivery stands: a task handed out again is still compared
        with what was there before anybody worked on it.
        """
        try:
            if task.judges:
                await self.loops.clear(task)
            if (owners := self.settling.owners(task.role)) and not task.owned_ref:
                at = self.desk.now()
                taken = Taken(at, await self.settling.take_owned(task.role, owners))
                ref = await asyncio.to_thread(self.desk.texts.put, taken.as_text())
                await self.desk.record(
                    Entry(Op.OWNED_TAKEN, self.desk.now(), id=task.id, role=task.role, ref=ref)
                )
        except (OSError, JournalFailed, IllegalMove) as failure:
            self.desk.events.write(
                "WARN", "ownership", id=task.id, verdict="unknown", reason=str(failure)
            )

    async def look(self, report_id: str) -> None:
        """Note at once what a later step compares; never raises."""
        report = self.desk.state.reports[report_id]
        task = self.desk.state.tasks.get(report.task)
        if task is not None and (task.judges or report.state is ReportState.HELD):
            await self.loops.look(task, report)
            await self.settling.look(task, report)

    async def take(self, report_id: str) -> None:
        """Go through the steps with the task of a report, if it has any before it."""
        report = self.desk.state.reports[report_id]
        task = self.desk.state.tasks.get(report.task)
        if task is None:
            return
        reviewed = task.judges or task.id
        async with self.settling.turn(reviewed):
            try:
                await self._take(task, report)
            except Exception as fault:
                self._interrupted[reviewed] = fault
                raise
            finally:
                self.settling.forget(report)
                self.loops.forget(report)

    async def _take(self, task: Task, report: Report) -> None:
        if task.judges:
            await self.merging.commit(task, self._summary(report))
            await self.loops.hear(task, report)
        elif self._is_waited_for(report):
            await self._look_at(self.desk.state.tasks[task.id], report)

    def _is_waited_for(self, report: Report) -> bool:
        """Whether a report is the one that its task's review begins with."""
        task, loop = self.desk.state.tasks[report.task], self.desk.state.loops.get(report.task)
        held = self.settling.held(task.id)
        looked_at = loop is not None and loop.state is not LoopState.REVISING
        if looked_at or self.settling.open_gate(task) is not None:
            return False
        return task.state is TaskState.IN_REVIEW and held is not None and held.id == report.id

    async def _look_at(self, task: Task, report: Report) -> None:
        await self.settling.supersede(task, report)
        if problem := await self.merging.commit(task, self._summary(report)):
            await self.settling.gate(task, f"it could not be committed: {problem}")
            return
        found = await self.settling.changes(task, report)
        self._tell_changes(task, found)
        role = self.settling.role(task.role)
        if found.verdict is Verdict.VIOLATION:
            await self.settling.gate(task, f"it changed files of other roles: {found}", found)
        elif task.id in self.desk.state.loops or (role is not None and role.judge):
            await self.loops.ask(task)
        else:
            await self.settling.accept(task)

    def _summary(self, report: Report) -> str:
        return one_line(self.desk.texts.get(report.text_ref) or "")

    def _tell_changes(self, task: Task, found: Changes) -> None:
        """Files that their owner may have changed are said and nothing more."""
        if found.verdict is Verdict.CLEAN:
            return
        shared = found.verdict is Verdict.SHARED
        self.desk.events.write(
            "WARN",
            "ownership",
            id=task.id,
            **{"from": task.role},
            verdict="warn" if shared else "violation",
            files=one_line(",".join(found.foreign)),
            reason=one_line(str(found)),
        )
        if shared:
            self.desk.notify(
                f"{task.id} of {task.role} was at work while files of others changed: {found}; "
                "their owners were at work too, so it counts."
            )

    # -- time and crashes -----------------------------------------------------------------------

    async def tick(self) -> None:
        """Take to a person what does not go on by itself; called once a second."""
        if self.desk.journal.failure is None:
            for task_id in list(self._interrupted):
                fault = self._interrupted.pop(task_id)
                self.desk.job(self._after_fault(task_id, fault))
        for task_id in self.loops.stuck():
            if not self.settling.turn(task_id).locked():
                self.desk.job(self._give_up(task_id))
        self._close_unneeded()

    async def _after_fault(self, task_id: str, fault: Exception) -> None:
        """A review that the ledger cut short is no different from one cut short by a crash; any
        other fault would only come again, so a person decides."""
        cause = f"its review was cut short ({one_line(str(fault)) or type(fault).__name__})"
        async with self.settling.turn(task_id):
            task = self.desk.state.tasks[task_id]
            try:
                if isinstance(fault, JournalFailed):
                    await self._go_on(task, cause)
                else:
                    await self.settling.gate(task, cause)
            except JournalFailed as failure:
                self._interrupted[task_id] = failure

    async def _give_up(self, task_id: str) -> None:
        async with self.settling.turn(task_id):
            task, why = self.desk.state.tasks[task_id], self.loops.trouble(task_id)
            if why and task.state is TaskState.REFUSED:
                await self.settling.refuse(task, task.reason or why)
            elif why:
                await self.settling.gate(task, why)
        self._close_unneeded()

    def _close_unneeded(self) -> None:
        for task in self.loops.unneeded():
            why = f"{task.judges} does not wait for it any more"
            self.desk.note(self.desk.moved(task, TaskState.REFUSED, why))

    async def resume(self) -> None:
        """Go on, after a start, with the reviews that an earlier run left open: what was decided
        is carried out, what was in doubt goes to a person, and only a report that nobody had
        looked at yet begins its review again."""
        for task_id in self._unfinished():
            async with self.settling.turn(task_id):
                await self._resumed(self.desk.state.tasks[task_id])
        self._close_unneeded()

    async def _resumed(self, task: Task) -> None:
        """Whatever is wrong with one review, the deck starts; a person then decides about it."""
        try:
            await self._go_on(task, "the deck stopped")
        except JournalFailed:
            raise
        except Exception as fault:
            self._interrupted[task.id] = fault
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"the review of {task.id} could not go on", "exception": fault}
            )

    def _unfinished(self) -> list[str]:
        """Return the tasks whose review has not come to its end, oldest first."""
        state = self.desk.state
        waiting = {r.task for r in state.reports.values() if r.state is ReportState.HELD}
        over = (LoopState.ACCEPTED, LoopState.REJECTED)
        waiting |= {loop.task for loop in state.loops.values() if loop.state not in over}
        waiting |= {task.id for task in state.open_tasks() if task.state is TaskState.IN_REVIEW}
        return [task_id for task_id in state.tasks if task_id in waiting]

    async def _go_on(self, task: Task, cause: str) -> None:
        loop = self.desk.state.loops.get(task.id)
        held, gate = self.settling.held(task.id), self.settling.result_gate(task)
        decided = loop.state if loop is not None else None
        over = (TaskState.REPORTED, TaskState.REFUSED)
        if held is None and task.state in over:
            return
        # A task's own end counts before that of its loop.
        refused = task.state is TaskState.REFUSED or decided is LoopState.REJECTED
        if refused and task.state is not TaskState.REPORTED:
            await self.settling.refuse(task, task.reason or "its review ended so")
        elif task.state is TaskState.REPORTED or decided is LoopState.ACCEPTED:
            await self.settling.accept(task)
        elif gate is not None and gate.decision is not Decision.OPEN:
            await self.settling.follow(gate, gate.reason)
        elif gate is not None:
            await asyncio.gather(*self.settling.waits(task, gate.id, gate.why))
        elif loop is None and held is not None and task.state is TaskState.IN_REVIEW:
            await self._begin_again(task, held)
        elif why := self._doubt(task, cause):
            found = await self.settling.changes(task, held) if held is not None else None
            await self.settling.gate(task, why, found)

    async def _begin_again(self, task: Task, held: Report) -> None:
        if self.settling.owners(task.role) and not task.owned_ref:
            await self.settling.gate(task, "the deck does not know which files it changed")
        else:
            self.desk.job(self.take(held.id))

    def _doubt(self, task: Task, cause: str) -> str:
        """Return why a review that was under way is in doubt, "" when it goes on as it was."""
        loop = self.desk.state.loops.get(task.id)
        if loop is None:
            lost = f"{cause} while it was under review"
            return lost if task.state is TaskState.IN_REVIEW else ""
        if loop.state is LoopState.GATED:
            return loop.reason or "its review was in doubt"
        if loop.state is LoopState.REVISING:
            unread = (TaskState.QUEUED, TaskState.TIMED_OUT)
            return "" if task.state in unread else f"{cause} in round {loop.round}"
        judged = self.desk.state.tasks.get(loop.judge_task)
        unread = (TaskState.QUEUED, TaskState.GATED)
        waits = judged is not None and judged.state in unread
        return "" if waits else f"{cause} while {loop.judge} judged it"
