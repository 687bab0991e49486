"""The verbs that move work: delegate, work-done, again; and the gate before a task.

Owns what each does, in which order, and what its ack says. Invariants: a record is durable before
its effect and before its ack; ids, queues and journal have one order; a delegation is refused when
the gateway is not ready at that moment, a report never is; what is approved is what was shown.
Who may call is decided before, by `deck.callers`. `deck.session` dispatches here.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from dataclasses import dataclass, field
from typing import Final

from deck import briefing, briefs, gates, judging
from deck.board import Gate, Task
from deck.callers import Caller
from deck.desk import Desk
from deck.durations import format_duration
from deck.entries import Decision, Entry, GateKind, Op, ReportState, TaskState
from deck.gatekeeper import Changed, Durable, Gatekeeper, Rules
from deck.merging import Merging
from deck.metering import Metering
from deck.plain_files import replace_own
from deck.protocol import (
    EVERY_LOST,
    Command,
    Target,
    TargetState,
    Verb,
    delegate_ack,
    error,
    ok,
    one_line,
    parse_ack,
)
from deck.recall import lost_tasks
from deck.review import Reception, Review
from deck.seats import Seat
from deck.settling import Order
from deck.snapshots import Snapshots

#: A line that is typed has to fit a terminal's input line, 4095 bytes.
REPORT_PATH_CHARS: Final = 600


@dataclass(slots=True)
class Work:
    """The work of one session."""

    desk: Desk
    snapshots: Snapshots
    metering: Metering
    gatekeeper: Gatekeeper
    review: Review
    merging: Merging
    _filing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        """Let the review hand out its own tasks and bring what it has accepted."""
        self.review.employ(self)

    # -- delegate -------------------------------------------------------------------------------

    async def delegate(self, command: Command, caller: Caller) -> bytes:
        """Make one task for each target that can take it."""
        if not command.to:
            return error("delegate needs at least one role in `to`.")
        if not command.task.strip() and not command.brief:
            return error("delegate needs a task or a brief.")
        brief = self._brief(command.brief)
        refusal = brief if isinstance(brief, briefs.BadAttachment) else await self.closed(command)
        if refusal:
            targets = [await self._refuse(name, caller, str(refusal)) for name in command.to]
            names = one_line(", ".join(command.to), 200)
            self.desk.notify(f"delegation to {names} refused: {refusal}")
            return delegate_ack(tuple(targets))
        text_ref = await asyncio.to_thread(self.desk.texts.put, command.task)
        digest = await self._digest_if_gated(command, str(brief))
        # One synchronous pass: ids, order of the queues and order of the journal agree.
        order = Order(caller.name, text_ref, str(brief), digest)
        accepted = [self.accept(name, order) for name in command.to]
        targets = [
            await (self._refuse(name, caller, one) if isinstance(one, str) else one)
            for name, one in zip(command.to, accepted, strict=True)
        ]
        refused = [t for t in targets if t.state is TargetState.REFUSED]
        if refused and not command.reads_ack:
            said = "; ".join(f"delegation to {t.to} refused: {t.reason}" for t in refused)
            self.desk.notify(said)
        return delegate_ack(tuple(targets))

    def _brief(self, path: str) -> str | briefs.BadAttachment:
        if not path:
            return ""
        try:
            return str(briefs.attachment(path, "brief", self.desk.directory))
        except briefs.BadAttachment as bad:
            return bad

    async def closed(self, command: Command) -> str:
        """Return why nothing can be handed out now, asked freshly; "" when it can."""
        if not self.desk.gateway.fail_closed:
            return ""
        readiness = await self.desk.gateway.probe()
        if readiness.ready:
            return ""
        self.desk.events.write(
            "WARN",
            "dispatch refused: gateway down",
            cmd=command.verb,
            to=one_line(",".join(command.to)),
            reason=readiness.reason,
        )
        return (
            f"the gateway is not ready: {readiness.reason}. Nothing was handed out; start the "
            "gateway, then delegate again"
        )

    async def _digest_if_gated(self, command: Command, brief: str) -> str:
        seats = (self.desk.seats.get(name) for name in command.to)
        if not any(seat is not None and seat.role.approve for seat in seats):
            return ""
        return await asyncio.to_thread(gates.digest, self.desk.texts, command.task, brief)

    def accept(self, name: str, order: Order) -> asyncio.Future[Target] | str:
        """Make a task for one target, or return why not. No await: see `delegate`."""
        desk = self.desk
        seat = desk.seats.get(name)
        if seat is None:
            present = ", ".join(one.name for one in desk.team)
            return f"there is no role {name[:64]!r}; the roles are {present}"
        if seat.removed:
            return f"{name} was removed from the team"
        if not seat.available:
            return f"{name} has exited ({desk.state.exits.get(name, 'not restarted')})"
        task_id, gated = desk.state.next_task_id(), seat.role.approve
        durable: Durable = desk.journal.record(
            Entry(
                Op.TASK_ADDED,
                desk.now(),
                id=task_id,
                role=name,
                sender=order.sender,
                state=TaskState.GATED if gated else TaskState.QUEUED,
                path=order.brief,
                ref=order.text_ref,
                task=order.judges,
                count=order.round,
            )
        )
        if name in desk.state.paused:
            desk.events.write(
                "WARN",
                "delegate to paused role: it waits until the role is resumed",
                id=task_id,
                to=name,
            )
        if not gated:
            return self.queue(seat, task_id, durable)
        gate_id, opened = self.gatekeeper.open(GateKind.ENTRY, order.digest, task=task_id)
        return asyncio.ensure_future(self._hold(task_id, gate_id, asyncio.gather(durable, opened)))

    def queue(
        self, seat: Seat, task_id: str, durable: Durable | None = None
    ) -> asyncio.Future[Target]:
        """Put a task into its role's queue; it goes out once record and file are in place."""
        prepared = asyncio.ensure_future(self._prepare(task_id, durable))
        seat.put_task(task_id, prepared)
        return prepared

    async def _prepare(self, task_id: str, durable: Durable | None) -> Target:
        """Once the record is durable: the task file, the event line, the answer."""
        if durable is not None:
            await durable
        desk = self.desk
        task = desk.state.tasks[task_id]
        # One after the other: the copy for old readers must end as the latest one.
        async with self._filing:
            try:
                await self._file(task)
            except OSError as failure:
                reason = f"its task file cannot be written: {failure.strerror}"
                # Work that was done once goes to a person.
                done = task.id in desk.state.loops
                await desk.move(task, TaskState.IN_REVIEW if done else TaskState.REFUSED, reason)
                return Target(task.role, task.id, TargetState.REFUSED, reason)
            loop, round_ = self.review.loops.round_of(task)
            self.desk.events.write(
                "INFO",
                "delegate",
                id=task.id,
                **{"from": judging.DECK if loop else task.sender},
                to=task.role,
                task=desk.label(task),
                brief=None if loop else task.brief,
                loop=loop or None,
                round=round_ or None,
            )
        return Target(task.role, task.id, TargetState.QUEUED)

    async def _file(self, task: Task) -> None:
        """Write a task's own file and the copy for old readers. Raises OSError."""
        file = await asyncio.to_thread(self._file_of, task)
        latest = judging.judge_task_name if task.judges else briefs.latest_task_name
        for name in (briefs.task_name(task.id), latest(task.role)):
            await asyncio.to_thread(briefs.write, self.desk.state_dir, name, file)

    async def refresh(self, task: Task) -> None:
        """Write the task file of a role that starts anew for each task once more: the process
        before may have left word for the next one. Never raises."""
        seat = self.desk.seats.get(task.role)
        if seat is None or not seat.role.fresh:
            return
        try:
            async with self._filing:
                await self._file(task)
        except OSError as failure:
            self.desk.events.write("WARN", "task file not written", id=task.id, err=str(failure))

    def _file_of(self, task: Task) -> str:
        """Return the text of a task's file. Blocks."""
        desk = self.desk
        if task.judges:
            return self.review.loops.judge_text(task)
        text = desk.texts.get(task.text_ref)
        brief = self._brief_of(task, text or "")
        if text is None:
            text = "(the text of this task was lost; ask for it again)"
        text = self.review.loops.builder_text(task, text)
        assignment = briefs.Assignment(task.id, text, brief)
        return briefing.task_text(desk, desk.seats[task.role], assignment)

    def _brief_of(self, task: Task, text: str) -> str:
        """Return where a role reads a task's brief: of one that people approved a copy, for the
        file that they saw can be changed until it is read. Blocks. Raises OSError."""
        about = (g for g in self.desk.state.gates.values() if g.task == task.id)
        gate = next((g for g in about if g.kind is GateKind.ENTRY), None)
        if not task.brief or gate is None or gate.decision is not Decision.APPROVED:
            return task.brief
        copy = self.desk.state_dir / briefs.approved_brief_name(task.id)
        for place in (str(copy), task.brief):
            with contextlib.suppress(gates.BriefUnreadable):
                body = gates.read_brief(place)
                if gates.digest_of(self.desk.texts, text, task.brief, body) == gate.digest:
                    if place == task.brief:
                        copy.parent.mkdir(exist_ok=True)
                        replace_own(copy, body, mode=0o644)
                    return str(copy)
        raise OSError(errno.EINVAL, f"its brief is not what {gate.id} approved any more")

    async def _hold(self, task_id: str, gate_id: str, durable: Durable) -> Target:
        await durable
        task = self.desk.state.tasks[task_id]
        label = self.desk.label(task)
        self.desk.events.write(
            "INFO", "delegate gated", id=task_id, gate=gate_id, to=task.role, task=label
        )
        self.gatekeeper.ring(gate_id, task.role, label)
        reason = f"waits for an approval: choragos approve {gate_id}"
        return Target(task.role, task_id, TargetState.GATED, reason)

    async def _refuse(self, name: str, caller: Caller, reason: str) -> Target:
        await self.desk.record(
            Entry(
                Op.DENIED,
                self.desk.now(),
                role=name,
                sender=caller.name,
                state=Verb.DELEGATE,
                reason=reason,
            )
        )
        self.desk.events.write("WARN", "delegate target unavailable", to=name, reason=reason)
        return Target(name, "", TargetState.REFUSED, reason)

    # -- work-done ------------------------------------------------------------------------------

    async def work_done(self, command: Command, caller: Caller) -> bytes:
        """Take a report: durable first, then the ack, then its way to the start role."""
        if not command.task.strip() and not command.report:
            return error("work-done needs a task or a report.")
        desk = self.desk
        path, problem = self._report_path(command.report)
        text_ref = await asyncio.to_thread(desk.texts.put, command.task)
        before = desk.state.tasks.get(command.id)
        # The start role needs no news of what it did itself.
        own = caller.role == desk.start_name and (before is None or before.role == caller.role)
        usual = Reception(ReportState.DELIVERED if own else ReportState.QUEUED)
        special = self.review.reception(before) if before is not None else None
        first, why = (special or usual).state, (special or usual).reason
        report_id = desk.state.next_report_id()
        durable: Durable = desk.journal.record(
            Entry(
                Op.REPORT_ADDED,
                desk.now(),
                id=report_id,
                task=command.id,
                role=caller.name,
                sender=caller.name,
                state=first,
                path=path,
                ref=text_ref,
                done=command.done,
                reason=why or problem,
            )
        )
        after = desk.state.tasks.get(command.id)
        resolved = after is not before
        if first is ReportState.QUEUED:
            self.bring(report_id, durable)
            if (kept := desk.state.reports[report_id]).state is ReportState.KEPT:
                first = kept.state
                why = f"{kept.reason}; it gets the report once it runs again"
        await durable
        self._log_report(command, caller, before, path)
        more: dict[str, object] = {"reason": why} if why else {}
        if first is ReportState.WITHHELD:
            self._tell_withheld(before, report_id, why)
        if command.done and caller.name in (desk.start_name, "operator"):
            more |= await self._finish(caller)
        desk.job(self._close(after if resolved else None, report_id))
        return ok(report=report_id, resolved=resolved, state=str(first), **more)

    def _log_report(self, command: Command, caller: Caller, task: Task | None, path: str) -> None:
        self.desk.events.write(
            "INFO",
            "work-done",
            id=command.id,
            **{"from": caller.name},
            to=judging.DECK if task is not None and task.judges else self.desk.start_name,
            done=command.done,
            task=one_line(command.task),
            report=path,
        )

    def _tell_withheld(self, task: Task | None, report_id: str, why: str) -> None:
        """A report that came after the decision is not passed on, but not hushed up either."""
        if task is not None and task.state in (TaskState.REPORTED, TaskState.REFUSED):
            said = f"{task.role} reported {task.id} once more ({report_id}), not passed on: {why}."
            self.desk.notify(said)

    async def _finish(self, caller: Caller) -> dict[str, object]:
        """The start role says that all is done; what is still under review is said to it."""
        desk = self.desk
        await desk.record(Entry(Op.FINISHED, desk.now(), sender=caller.name))
        waiting = [t.id for t in desk.state.open_tasks() if t.state is TaskState.IN_REVIEW]
        if not waiting:
            return {}
        desk.events.write("WARN", "finished with open reviews", ids=",".join(waiting))
        desk.notify(f"still under review, so not counted as done: {', '.join(waiting)}")
        return {"open_reviews": waiting}

    def _report_path(self, report: str) -> tuple[str, str]:
        """A report is never refused for its file; what is wrong with it is shown."""
        if not report:
            return "", ""
        try:
            return str(briefs.attachment(report, "report", self.desk.directory)), ""
        except briefs.BadAttachment as bad:
            return report, str(bad)

    def bring(self, report_id: str, durable: Durable | None = None) -> None:
        """Put a report into the start role's queue, or keep it when there is nobody to read it."""
        desk = self.desk
        report, seat = desk.state.reports[report_id], desk.start_seat
        if seat.available:
            text = one_line(desk.texts.get(report.text_ref) or "")
            path = one_line(report.path, REPORT_PATH_CHARS)
            seat.put_report(report_id, briefs.report_line(text, path), durable)
            return
        reason = f"{seat.name} has exited"
        desk.note(
            Entry(Op.REPORT_MOVED, desk.now(), id=report_id, state=ReportState.KEPT, reason=reason)
        )

    async def bring_kept(self) -> None:
        """Bring the reports that nobody was there to read, oldest first: there is a reader again.
        Raises JournalFailed."""
        desk = self.desk
        for report in list(desk.state.reports.values()):
            if report.state is ReportState.KEPT:
                await desk.record(
                    Entry(Op.REPORT_MOVED, desk.now(), id=report.id, state=ReportState.QUEUED)
                )
                self.bring(report.id)

    async def _close(self, task: Task | None, report_id: str) -> None:
        await self.review.look(report_id)
        if task is not None:
            await self.snapshots.after(task)
        await self.metering.end(task)
        await self.review.take(report_id)

    # -- gates and second chances ---------------------------------------------------------------

    async def reopen_gates(self) -> None:
        """Open the gate of each gated task that a crash left without one."""
        desk = self.desk
        for task in list(desk.state.open_tasks()):
            if task.state is not TaskState.GATED or task.gate:
                continue
            try:
                text = desk.texts.get(task.text_ref) or ""
                digest = await asyncio.to_thread(gates.digest, desk.texts, text, task.brief)
            except gates.BriefUnreadable as gone:
                await desk.move(task, TaskState.REFUSED, str(gone))
                continue
            _, opened = self.gatekeeper.open(GateKind.ENTRY, digest, task=task.id)
            await opened

    def rules(self) -> Rules:
        """Return what a gate before a task is about."""
        return Rules(self._obstacle, self._present, self._follow)

    def _obstacle(self, gate: Gate) -> str:
        task = self.desk.state.tasks[gate.task]
        seat = self.desk.seats.get(task.role)
        return "" if seat is not None and seat.available else f"{task.role} is not running"

    async def _present(self, gate: Gate) -> str:
        task = self.desk.state.tasks[gate.task]
        text = self.desk.texts.get(task.text_ref)
        if text is None:
            raise Changed("its text was changed or removed since the gate opened")
        try:
            found = await asyncio.to_thread(gates.digest, self.desk.texts, text, task.brief)
        except gates.BriefUnreadable as gone:
            raise Changed(str(gone)) from None
        if found != gate.digest:
            raise Changed("its brief was changed since the gate opened")
        return found

    async def _follow(self, gate: Gate, why: str, durable: Durable) -> None:
        desk, task = self.desk, self.desk.state.tasks[gate.task]
        if gate.decision is Decision.APPROVED:
            await self.queue(desk.seats[task.role], task.id, durable)
            waited = format_duration((desk.now() - gate.at) / 1_000_000)
            desk.events.write("INFO", "delegate approved", id=task.id, waited=waited)
            return
        await durable
        desk.events.write("INFO", "delegate rejected", id=task.id, to=task.role, reason=why)
        if gate.decision is Decision.VOID:
            said = f"{task.id} for {task.role} could not be approved: {why}; delegate it again."
        else:
            said = f"{task.id} for {task.role} was {gate.decision}; revise it. {why}".rstrip()
        desk.notify(said)

    async def again(self, command: Command, caller: Caller) -> bytes:
        """Offer a lost or timed-out task to its role once more."""
        if command.id == EVERY_LOST:
            return await self._all_again(caller)
        task = self.desk.state.tasks.get(command.id)
        if task is None:
            return error(f"There is no task {command.id[:20]!r}; see `choragos board`.")
        seat = self.desk.seats.get(task.role)
        if seat is None or not seat.available:
            return error(f"{task.role} is not running; {task.id} cannot be offered again.")
        if refusal := await self.closed(Command(Verb.DELEGATE, to=(task.role,))):
            return error(refusal)
        if task.state in (TaskState.LOST, TaskState.TIMED_OUT):
            # It may be from another deck or long ago, and the team has changed since.
            async with self._filing:
                await self._file(task)
        if not await seat.offer_again(task.id, f"offered again by {caller.name}"):
            present = self.desk.state.tasks[task.id].state
            return error(f"{task.id} is {present}; only lost or timed-out tasks can go again.")
        return ok(id=task.id, state="queued")

    async def _all_again(self, caller: Caller) -> bytes:
        """Offer every lost task once more, oldest first; one that cannot go says why."""
        told = []
        for task_id in lost_tasks(self.desk.state):
            answer = parse_ack(await self.again(Command(Verb.AGAIN, id=task_id), caller))
            state = "queued" if answer.get("status") == "ok" else "refused"
            told.append({"id": task_id, "state": state, "reason": answer.get("reason", "")})
        return ok(tasks=told)
