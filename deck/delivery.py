"""Delivery: the lines on their way into one role's pane, in order, each only into a pane at rest.

Owns the queue of a seat. Invariants: lines go out strictly in order, one at a time; a task is
recorded as typed, durably, before its first byte is typed, so a crash can lose sight of a delivery
but never repeat one; a fresh process reads its brief before anything else; nothing is handed out
while the gateway is not ready; a line that cannot go out stays queued and says why. Time drives
it, not edges: it looks again until the line is out. `deck.seats` makes one for each seat.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from deck import briefs
from deck.board import Task
from deck.desk import Desk
from deck.entries import Entry, Op, ReportState, TaskState
from deck.journal import JournalFailed
from deck.moves import IN_FLIGHT, TASK_MOVES
from deck.pane.pane import Pane
from deck.pane.status import PaneState
from deck.pane.typing import LineKind, Outcome, OutcomeKind, Step

if TYPE_CHECKING:
    from deck.seats import Seat

#: How often a waiting line is looked at again.
LOOK_SECONDS: Final = 0.1
#: A gateway that is down is asked again this often while a task waits for it.
GATEWAY_LOOK_SECONDS: Final = 1.0
#: A screen that merely moves is not believed to be work for longer than this.
MOVING_PATIENCE_SECONDS: Final = 20.0
#: Deliveries of one line before it is given up.
MAX_TRIES: Final = 3
#: Notices that wait for one reader: whoever makes the deck complain without end must not fill the
#: reader's day. Everything a notice tells is in the event log too.
MAX_NOTICES: Final = 40
MORE_NOTICES: Final = "more has happened than is told here; see .choragos/logs/events.log."


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A task on its way; `ready` resolves when record and task file are in place."""

    id: str
    ready: Awaitable[object] | None = None


@dataclass(frozen=True, slots=True)
class ReportLine:
    """A report on its way to the start role; `ready` resolves when its record is durable."""

    id: str
    text: str
    ready: Awaitable[object] | None = None


@dataclass(frozen=True, slots=True)
class NoticeLine:
    """A line from the deck itself."""

    text: str


@dataclass(frozen=True, slots=True)
class BootLine:
    """The pointer to the role's brief; always first in a fresh pane."""


Line = BootLine | TaskLine | ReportLine | NoticeLine


@dataclass(slots=True)
class Delivery:
    """The queue of one seat. `held` says why its next line waits."""

    seat: Seat
    held: str = ""
    #: A task was typed into the process that runs now.
    worked: bool = False
    #: When that process was started, in microseconds UTC.
    begun_at: int = 0
    _lines: deque[Line] = field(default_factory=deque)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def _desk(self) -> Desk:
        return self.seat.desk

    @property
    def _pane(self) -> Pane | None:
        return self.seat.pane

    @property
    def waiting(self) -> int:
        """Lines queued and not yet handed to the pane."""
        return len(self._lines)

    def put(self, line: Line) -> None:
        """Queue a line; a notice that waits already, or is one too many, is not queued."""
        if isinstance(line, NoticeLine):
            waiting = [other for other in self._lines if isinstance(other, NoticeLine)]
            if len(waiting) >= MAX_NOTICES:
                line = NoticeLine(MORE_NOTICES)
            if line in waiting:
                return
        self._lines.append(line)
        self._wake.set()

    def begin(self) -> None:
        """A process was started: its brief goes before everything that waits."""
        self.worked = False
        self.begun_at = self._desk.now()
        self._lines = deque(line for line in self._lines if not isinstance(line, BootLine))
        self._lines.appendleft(BootLine())
        self._wake.set()

    def clear(self) -> None:
        """Drop what waits: nobody will read it."""
        self._lines.clear()

    async def run(self) -> None:
        """Deliver for ever; ends when nothing can be recorded any more."""
        while True:
            while not self._lines:
                self._wake.clear()
                await self._wake.wait()
            line = self._lines.popleft()
            try:
                await self._deliver(line)
            except JournalFailed as failure:
                self.held = str(failure)
                self._desk.events.write(
                    "ERROR", "journal failed", role=self.seat.name, err=self.held
                )
                return
            except Exception as fault:
                await self._drop(line, fault)
            self.held = ""

    async def _drop(self, line: Line, fault: Exception) -> None:
        """A fault of ours in one line must not hold up the next, nor pass unseen."""
        asyncio.get_running_loop().call_exception_handler(
            {
                "message": f"a line for {self.seat.name} could not be delivered",
                "exception": fault,
            }
        )
        task = self._desk.state.tasks.get(line.id) if isinstance(line, TaskLine) else None
        if task is not None and TaskState.LOST in TASK_MOVES[task.state]:
            await self._desk.move(task, TaskState.LOST, "the deck failed to deliver it")

    async def _deliver(self, line: Line) -> None:
        if isinstance(line, TaskLine):
            await self._deliver_task(line)
        elif isinstance(line, ReportLine):
            await self._deliver_report(line)
        elif isinstance(line, NoticeLine):
            await self._deliver_notice(line)
        else:
            await self._deliver_boot()

    async def _deliver_boot(self) -> None:
        line = briefs.boot_line(self.seat.boot_file, self.seat.files)
        outcome = await self._type(self._pane, line, LineKind.BOOT)
        if outcome.injections > 1:
            self._desk.events.write("WARN", "boot injection retry", role=self.seat.name)
        if not outcome.verified:
            self._desk.events.write(
                "WARN", "boot injection unverified", role=self.seat.name, reason=outcome.reason
            )

    async def _deliver_notice(self, line: NoticeLine) -> None:
        for _ in range(MAX_TRIES):
            if not await self._when_free(lambda: self.seat.available):
                return
            outcome = await self._type(self._pane, f"[choragos] {line.text}", LineKind.NOTICE)
            if outcome.kind is not OutcomeKind.REFUSED:
                return

    # -- tasks ----------------------------------------------------------------------------------

    async def _deliver_task(self, line: TaskLine) -> None:
        if line.ready is not None:
            await line.ready
        tried = False
        while (task := self._queued_task(line.id)) is not None:
            # The tries of one delivery are one task to a role that starts anew for each.
            if not tried and not await self._made_fresh(task):
                return
            try:
                if not await self._when_free(lambda: self._queued_task(line.id) is not None, task):
                    return
                await self.seat.before_delivery(task)
                if self._queued_task(line.id) is None:
                    return
                pane = self._pane
                paused = self.seat.name in self._desk.state.paused
                if pane is None or self._brief_waits() or self.seat.coming or paused:
                    # It was, or is being, started anew meanwhile, or its budget has paused it.
                    continue
                await self._move(task.id, TaskState.TYPED)
                tried = self.worked = True
            finally:
                self.seat.stamped(task)
            outcome = await self._type(
                pane,
                briefs.task_line(task.id, self.seat.files),
                LineKind.TASK,
                lambda step: self._step(line.id, step),
            )
            await self._settle(task.id, outcome, pane)

    def _queued_task(self, task_id: str) -> Task | None:
        task = self._desk.state.tasks.get(task_id)
        return task if task is not None and task.state is TaskState.QUEUED else None

    def is_stale(self, task: Task) -> bool:
        """Tell whether the process was there before the task, or has had another one: a role that
        starts anew for each task is not handed it then (contracts/deck.md section 1.2)."""
        return self.worked or self.begun_at < task.at

    async def _made_fresh(self, task: Task) -> bool:
        """Start a role with `fresh` anew for this task, unless it was started for it.

        Waits until what it did before is reported, or it would be lost. False when the task is not
        wanted any more.
        """
        moving_since: float | None = None
        loop = asyncio.get_running_loop()
        while self.seat.role.fresh and self.is_stale(task):
            if self._queued_task(task.id) is None:
                return False
            moving_since = (moving_since or loop.time()) if self._merely_moves() else None
            patient = moving_since is None or loop.time() - moving_since < MOVING_PATIENCE_SECONDS
            self.held = self._unfinished(patient)
            if self.held:
                await asyncio.sleep(LOOK_SECONDS)
            elif not await self.seat.begin_anew(task):
                return False
        return self._queued_task(task.id) is not None

    def _unfinished(self, patient: bool) -> str:
        """Why the process may not be ended yet to begin anew, "" when it may."""
        name = self.seat.name
        for earlier in self._desk.state.in_flight(name):
            return f"{earlier.id} is not reported yet, and {name} starts anew for each task"
        state = self._pane.state if self._pane is not None else PaneState.EXITED
        # Whatever it asks now is about nothing that is still wanted.
        if state is PaneState.BLOCKED or not patient:
            return ""
        return self._obstacle()

    async def _settle(self, task_id: str, outcome: Outcome, pane: Pane | None) -> None:
        """Record how an injection ended; a refused one goes back to the queue, a few times."""
        task = self._desk.state.tasks[task_id]
        gone = not self.seat.alive and pane is self._pane
        if outcome.kind is OutcomeKind.DELIVERED or gone:
            # After an exit the exit rules decide about everything in flight.
            return
        name = self.seat.name
        self._desk.events.write(
            "WARN", "task injection unverified", id=task_id, to=name, reason=outcome.reason
        )
        if outcome.kind is OutcomeKind.UNVERIFIED:
            if task.state in (TaskState.TYPED, TaskState.SUBMITTED):
                await self._move(task_id, TaskState.SUBMITTED, outcome.reason)
        elif task.state is TaskState.TYPED and task.tries < MAX_TRIES:
            await self._move(task_id, TaskState.QUEUED, outcome.reason)
        elif task.state is TaskState.TYPED:
            await self._move(task_id, TaskState.LOST, outcome.reason)
            self._desk.notify(f"{task_id} could not be handed to {name}: {outcome.reason}.")

    def _step(self, task_id: str, step: Step) -> None:
        """The pane's word on how far a line has come; recorded, not waited for."""
        state = {Step.SUBMITTED: TaskState.SUBMITTED, Step.PICKED_UP: TaskState.PICKED_UP}.get(step)
        task = self._desk.state.tasks[task_id]
        if state is not None and task.state in IN_FLIGHT and state in TASK_MOVES[task.state]:
            self._desk.note(self._desk.moved(task, state))

    # -- reports --------------------------------------------------------------------------------

    async def _deliver_report(self, line: ReportLine) -> None:
        def waits() -> bool:
            report = self._desk.state.reports.get(line.id)
            return report is not None and report.state is ReportState.QUEUED

        if line.ready is not None:
            await line.ready
        reason = ""
        for _ in range(MAX_TRIES):
            if not await self._when_free(waits):
                return
            pane = self._pane
            await self.move_report(line.id, ReportState.TYPED)
            outcome = await self._type(pane, line.text, LineKind.NOTICE)
            # Whoever exits while the line is being submitted has hardly read it.
            unread = pane is None or (not outcome.verified and not pane.alive)
            if outcome.kind is not OutcomeKind.REFUSED and not unread:
                await self.move_report(line.id, ReportState.DELIVERED, outcome.reason)
                return
            reason = outcome.reason
            await self.move_report(line.id, ReportState.QUEUED, reason)
        await self.move_report(line.id, ReportState.KEPT, reason)

    async def move_report(self, report_id: str, state: ReportState, reason: str = "") -> None:
        """Move a report and wait until that is durable. Raises IllegalMove or JournalFailed."""
        await self._desk.record(
            Entry(Op.REPORT_MOVED, self._desk.now(), id=report_id, state=state, reason=reason)
        )

    # -- when a line may go out -----------------------------------------------------------------

    async def _type(
        self,
        pane: Pane | None,
        text: str,
        kind: LineKind,
        on_step: Callable[[Step], None] | None = None,
    ) -> Outcome:
        if pane is None:
            return Outcome(OutcomeKind.REFUSED, f"{self.seat.name} has not been started")
        return await pane.inject(text, kind=kind, on_step=on_step)

    async def _when_free(self, wanted: Callable[[], bool], task: Task | None = None) -> bool:
        """Wait until a line may be typed: the pane at rest and, for a task, the gateway ready.

        False as soon as the line is not wanted any more.
        """
        moving_since: float | None = None
        loop = asyncio.get_running_loop()
        while wanted():
            if self._brief_waits():
                # The role was started again while this line waited: its brief comes first.
                self._lines.popleft()
                await self._deliver_boot()
            moving_since = (moving_since or loop.time()) if self._merely_moves() else None
            patient = moving_since is None or loop.time() - moving_since < MOVING_PATIENCE_SECONDS
            self.held = self._obstacle() if patient else ""
            if not self.held and task is not None:
                self.held = await self._gateway_obstacle(task)
                if self.held:
                    await asyncio.sleep(GATEWAY_LOOK_SECONDS)
                    continue
            if not self.held:
                return wanted()
            await asyncio.sleep(LOOK_SECONDS)
        return False

    def _brief_waits(self) -> bool:
        return self.seat.alive and bool(self._lines) and isinstance(self._lines[0], BootLine)

    async def _gateway_obstacle(self, task: Task) -> str:
        gateway = self._desk.gateway
        if gateway.fail_closed:
            readiness = await gateway.probe()
            if not readiness.ready:
                return f"the gateway is not ready: {readiness.reason}"
            if not self.seat.routed:
                name = self.seat.name
                return (
                    f"{name} was started without the gateway's address; "
                    f"`choragos restart {name}` gives it one"
                )
        return await self.seat.stamp(task)

    def _merely_moves(self) -> bool:
        status = self._pane.status if self._pane is not None else None
        return (
            status is not None and status.state is PaneState.WORKING and not status.source.is_fact
        )

    def _obstacle(self) -> str:
        name, pane = self.seat.name, self._pane
        if self.seat.coming:
            return f"{name} is being started anew"
        if pane is None or not pane.alive:
            return f"{name} is not running"
        if pane.state is PaneState.IDLE:
            return ""
        if pane.state is PaneState.BLOCKED:
            return f"{name} waits for an answer: {pane.status.question}"
        return f"{name} is {pane.state}"

    async def _move(self, task_id: str, state: TaskState, reason: str = "") -> None:
        await self._desk.move(self._desk.state.tasks[task_id], state, reason)
