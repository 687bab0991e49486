"""A seat: one role at work. Its pane, the lines on their way to it, its end and its restarts.

Owns delivery. Invariants: lines of one seat go out strictly in order, one at a time, each only
into a pane at rest; a task is recorded as typed, durably, before its first byte is typed, so a
crash can lose sight of a delivery but never repeat one; nothing is handed out while the gateway
is not ready; a line that cannot go out stays queued and says why. Time drives it, not edges: a
seat looks again until the line is out. `deck.session` makes the seats and decides about tasks.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from deck import briefs
from deck.agents import adapter_for
from deck.board import IN_FLIGHT, TASK_MOVES, Entry, Op, ReportState, Task, TaskState
from deck.config import Role
from deck.desk import Desk
from deck.homes import equip
from deck.journal import JournalFailed
from deck.pane.hooks import HookFile
from deck.pane.pane import Pane, PaneSpec
from deck.pane.process import ExitStatus, PaneError
from deck.pane.status import PaneState, Status
from deck.pane.terminal.engine import EngineKind
from deck.pane.typing import LineKind, Outcome, OutcomeKind, Step
from deck.processes import child
from deck.protocol import one_line
from deck.roster import Credential, NotOnPath, Surroundings, command_line, environment, seating
from deck.supervision import Exit, may_restart

#: How often a waiting line is looked at again.
LOOK_SECONDS: Final = 0.1
#: A gateway that is down is asked again this often while a task waits for it.
GATEWAY_LOOK_SECONDS: Final = 1.0
#: A screen that merely moves is not believed to be work for longer than this.
MOVING_PATIENCE_SECONDS: Final = 20.0
#: Deliveries of one task before it is given up as lost.
MAX_TRIES: Final = 3
#: Pause before a restart: grows with each, so a broken agent cannot spin.
RESTART_PAUSES: Final = (0.5, 2.0, 5.0)
LAST_SCREEN_ROWS: Final = 40
#: What an agent that has exited left behind gets this long to end.
LEFTOVER_GRACE_SECONDS: Final = 0.5


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
class Seat:
    """One role. `held` says why its next line waits."""

    role: Role
    desk: Desk
    around: Surroundings
    boot_file: str
    is_start: bool
    #: Asked before a task is typed: tells the gateway, returns why it has to wait or "".
    stamp: Callable[[Task], Awaitable[str]]
    #: Told when a stamped task was typed, or is not typed after all.
    stamped: Callable[[Task], None]
    #: Called before each delivery of a task (checkpoint, token count); never raises.
    before_delivery: Callable[[Task], Awaitable[None]]
    #: Told when the pane's state or question changes.
    on_status: Callable[[Seat, Status], None]
    #: Where the role works, or None for the project itself.
    place: Callable[[Role], Path | None] = lambda _: None
    credential: Credential = field(default_factory=Credential)
    pane: Pane | None = None
    held: str = ""
    restarts: int = 0
    restarting: bool = False
    stopping: bool = False
    _lines: deque[Line] = field(default_factory=deque)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _timed_out: bool = False

    @property
    def name(self) -> str:
        """The role's name."""
        return self.role.name

    @property
    def files(self) -> str:
        """The deck's directory as the role names it: one that works elsewhere needs it whole."""
        return briefs.STATE_DIR if self.place(self.role) is None else str(self.desk.state_dir)

    @property
    def alive(self) -> bool:
        """Whether the role's process runs."""
        return self.pane is not None and self.pane.alive

    @property
    def available(self) -> bool:
        """Whether work can be queued: it runs, or is about to."""
        return self.alive or self.restarting or self.pane is None

    @property
    def waiting(self) -> int:
        """Lines queued and not yet handed to the pane."""
        return len(self._lines)

    def put_task(self, task_id: str, ready: Awaitable[object] | None = None) -> None:
        """Queue a task; it goes out after `ready`."""
        self._put(TaskLine(task_id, ready))

    def put_report(self, report_id: str, text: str, ready: Awaitable[object] | None) -> None:
        """Queue the line that tells of a report; it goes out after `ready`."""
        self._put(ReportLine(report_id, text, ready))

    def put_notice(self, text: str) -> None:
        """Queue a line from the deck."""
        self._put(NoticeLine(text))

    def _put(self, line: Line) -> None:
        self._lines.append(line)
        self._wake.set()

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Spawn the role's process and begin to deliver. Raises PaneError or NotOnPath."""
        await self._spawn()
        self.desk.job(self._deliver_for_ever())

    async def _spawn(self) -> None:
        adapter = adapter_for(self.role.command)
        seat = seating(self.role, self.around)
        await asyncio.to_thread(equip, adapter, seat, self.around.environ)
        argv = command_line(self.role, self.around)
        env = environment(self.role, self.credential, self.around)
        if self.role.wall and self.around.wall is not None:
            argv, env = await asyncio.to_thread(self.around.wall.enclose, self.role, argv, env)
        spec = PaneSpec(
            name=self.name,
            argv=tuple(argv),
            cwd=self.place(self.role) or self.desk.directory,
            env=env,
            input_prompts=self.role.input_prompts,
            chrome_markers=self.role.chrome_markers,
            engine=EngineKind(self.desk.config.ui.engine),
            marks=adapter.marks,
            hooks=HookFile(seat.home / adapter.hook_file, adapter.hook)
            if adapter.hook_file
            else None,
        )
        # Known before it runs: a process that ends at once must find its seat.
        self.pane = pane = Pane(spec, on_status=self._status, on_exit=self._exited)
        await self.desk.record(Entry(Op.ROLE_STARTING, self.desk.now(), role=self.name))
        await pane.start()
        self._put_first(BootLine())
        one = child(pane.pid or 0)
        self.desk.events.write("INFO", "boot", role=self.name, pid=one.pid)
        await self.desk.record(
            Entry(Op.ROLE_STARTED, self.desk.now(), role=self.name, pid=one.pid, born=one.born)
        )

    def _put_first(self, line: Line) -> None:
        self._lines.appendleft(line)
        self._wake.set()

    async def stop(self, grace: float) -> None:
        """End the role and everything it started; the desk has ended its deliveries before."""
        self.stopping = True
        if self.pane is None:
            return
        was_alive = self.alive
        # Not waited for: a journal that cannot be written must not keep an agent running.
        self.desk.note(Entry(Op.ROLE_STOPPING, self.desk.now(), role=self.name))
        proof = await self.pane.stop(grace)
        self.desk.events.write("INFO", "role stopped", role=self.name, proof=str(proof))
        self.desk.note(
            Entry(Op.ROLE_STOPPED, self.desk.now(), role=self.name, reason=one_line(str(proof)))
        )
        if was_alive:
            await asyncio.to_thread(self._write_transcript, self.pane)

    async def end_for_timeout(self, grace: float) -> None:
        """End the process because a task ran out of time; the exit rules bring it back."""
        self._timed_out = True
        if self.pane is not None:
            await self.pane.stop(grace)

    # -- delivery -----------------------------------------------------------------------------

    async def _deliver_for_ever(self) -> None:
        while True:
            while not self._lines:
                self._wake.clear()
                await self._wake.wait()
            line = self._lines.popleft()
            try:
                await self._deliver(line)
            except JournalFailed as failure:
                self.held = str(failure)
                self.desk.events.write("ERROR", "journal failed", role=self.name, err=self.held)
                return
            except Exception as fault:
                await self._drop(line, fault)
            self.held = ""

    async def _drop(self, line: Line, fault: Exception) -> None:
        """A fault of ours in one line must not hold up the next, nor pass unseen."""
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"a line for {self.name} could not be delivered", "exception": fault}
        )
        task = self.desk.state.tasks.get(line.id) if isinstance(line, TaskLine) else None
        if task is not None and TaskState.LOST in TASK_MOVES[task.state]:
            await self.desk.move(task, TaskState.LOST, "the deck failed to deliver it")

    async def _deliver(self, line: Line) -> None:
        if isinstance(line, TaskLine):
            await self._deliver_task(line)
        elif isinstance(line, ReportLine):
            await self._deliver_report(line)
        elif isinstance(line, NoticeLine):
            if await self._when_free(lambda: self.available):
                await self._type(f"[choragos] {line.text}", LineKind.NOTICE)
        else:
            await self._deliver_boot()

    async def _deliver_boot(self) -> None:
        outcome = await self._type(briefs.boot_line(self.boot_file, self.files), LineKind.BOOT)
        if outcome.injections > 1:
            self.desk.events.write("WARN", "boot injection retry", role=self.name)
        if not outcome.verified:
            self.desk.events.write(
                "WARN", "boot injection unverified", role=self.name, reason=outcome.reason
            )

    async def _deliver_task(self, line: TaskLine) -> None:
        if line.ready is not None:
            await line.ready
        while (task := self._queued_task(line.id)) is not None:
            try:
                if not await self._when_free(lambda: self._queued_task(line.id) is not None, task):
                    return
                await self.before_delivery(task)
                if self._queued_task(line.id) is None:
                    return
                await self._move(task.id, TaskState.TYPED)
            finally:
                self.stamped(task)
            outcome = await self._type(
                briefs.task_line(task.id, self.files),
                LineKind.TASK,
                lambda step: self._step(line.id, step),
            )
            await self._settle(task.id, outcome)

    def _queued_task(self, task_id: str) -> Task | None:
        task = self.desk.state.tasks.get(task_id)
        return task if task is not None and task.state is TaskState.QUEUED else None

    async def _settle(self, task_id: str, outcome: Outcome) -> None:
        """Record how an injection ended; a refused one goes back to the queue, a few times."""
        task = self.desk.state.tasks[task_id]
        if outcome.kind is OutcomeKind.DELIVERED or not self.alive:
            # After an exit the exit rules decide about everything in flight.
            return
        self.desk.events.write(
            "WARN", "task injection unverified", id=task_id, to=self.name, reason=outcome.reason
        )
        if outcome.kind is OutcomeKind.UNVERIFIED:
            if task.state in (TaskState.TYPED, TaskState.SUBMITTED):
                await self._move(task_id, TaskState.SUBMITTED, outcome.reason)
        elif task.state is TaskState.TYPED and task.tries < MAX_TRIES:
            await self._move(task_id, TaskState.QUEUED, outcome.reason)
        elif task.state is TaskState.TYPED:
            await self._move(task_id, TaskState.LOST, outcome.reason)
            self.desk.notify(f"{task_id} could not be handed to {self.name}: {outcome.reason}.")

    def _step(self, task_id: str, step: Step) -> None:
        """The pane's word on how far a line has come; recorded, not waited for."""
        state = {Step.SUBMITTED: TaskState.SUBMITTED, Step.PICKED_UP: TaskState.PICKED_UP}.get(step)
        task = self.desk.state.tasks[task_id]
        if state is not None and state in TASK_MOVES[task.state]:
            self.desk.note(self.desk.moved(task, state))

    async def _deliver_report(self, line: ReportLine) -> None:
        def waits() -> bool:
            report = self.desk.state.reports.get(line.id)
            return report is not None and report.state is ReportState.QUEUED

        if line.ready is not None:
            await line.ready
        reason = ""
        for _ in range(MAX_TRIES):
            if not await self._when_free(waits):
                return
            await self._move_report(line.id, ReportState.TYPED)
            outcome = await self._type(line.text, LineKind.NOTICE)
            if outcome.kind is not OutcomeKind.REFUSED:
                await self._move_report(line.id, ReportState.DELIVERED, outcome.reason)
                return
            reason = outcome.reason
            await self._move_report(line.id, ReportState.QUEUED, reason)
        await self._move_report(line.id, ReportState.KEPT, reason)

    async def _type(
        self, text: str, kind: LineKind, on_step: Callable[[Step], None] | None = None
    ) -> Outcome:
        if self.pane is None:
            return Outcome(OutcomeKind.REFUSED, f"{self.name} has not been started")
        return await self.pane.inject(text, kind=kind, on_step=on_step)

    async def _when_free(self, wanted: Callable[[], bool], task: Task | None = None) -> bool:
        """Wait until a line may be typed: the pane at rest and, for a task, the gateway ready.

        False as soon as the line is not wanted any more.
        """
        moving_since: float | None = None
        loop = asyncio.get_running_loop()
        while wanted():
            if self.alive and self._lines and isinstance(self._lines[0], BootLine):
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

    async def _gateway_obstacle(self, task: Task) -> str:
        if self.desk.gateway.fail_closed:
            readiness = await self.desk.gateway.probe()
            if not readiness.ready:
                return f"the gateway is not ready: {readiness.reason}"
        return await self.stamp(task)

    def _merely_moves(self) -> bool:
        status = self.pane.status if self.pane is not None else None
        return (
            status is not None and status.state is PaneState.WORKING and not status.source.is_fact
        )

    def _obstacle(self) -> str:
        if self.pane is None or not self.pane.alive:
            return f"{self.name} is not running"
        status = self.pane.status
        if status.state is PaneState.IDLE:
            return ""
        if status.state is PaneState.BLOCKED:
            return f"{self.name} waits for an answer: {status.question}"
        return f"{self.name} is {status.state}"

    # -- the end of a process -----------------------------------------------------------------

    def _status(self, pane: Pane, status: Status) -> None:
        if pane is self.pane:
            self.on_status(self, status)

    def _exited(self, pane: Pane, status: ExitStatus) -> None:
        if pane is self.pane and not self.stopping:
            # Set at once: a delegation that arrives now must know whether the role comes back.
            ended = Exit(status.code, status.signal, timed_out=self._timed_out)
            self._timed_out = False
            self.restarting = may_restart(self.role, ended, self.restarts)
            self.desk.job(self._after_exit(pane, ended))

    async def _after_exit(self, pane: Pane, ended: Exit) -> None:
        self.desk.events.write(
            "WARN" if ended.failed else "INFO", "pane exited", role=self.name, status=str(ended)
        )
        lost = await self._lose_in_flight(pane, f"{self.name} has exited ({ended})")
        await self.desk.record(
            Entry(Op.ROLE_EXITED, self.desk.now(), role=self.name, reason=str(ended))
        )
        await pane.stop(LEFTOVER_GRACE_SECONDS)
        await asyncio.to_thread(self._write_transcript, pane)
        if self.restarting:
            await self._restart(ended, lost)
        else:
            await self._give_up(ended, lost)

    async def _lose_in_flight(self, pane: Pane, reason: str) -> list[str]:
        state = self.desk.state
        lost = [task.id for task in state.in_flight(self.name)]
        screen = ""
        if lost:
            rows = "\n".join(pane.tail(LAST_SCREEN_ROWS))
            screen = await asyncio.to_thread(self.desk.texts.put, rows)
        for task_id in lost:
            if self.desk.state.tasks[task_id].state in IN_FLIGHT:
                await self._move(task_id, TaskState.LOST, reason, screen)
        return lost

    async def _restart(self, ended: Exit, lost: list[str]) -> None:
        pause = RESTART_PAUSES[min(self.restarts, len(RESTART_PAUSES) - 1)]
        self.restarts += 1
        self.desk.events.write(
            "WARN", "auto-restart", role=self.name, attempt=self.restarts, exit=str(ended)
        )
        await asyncio.sleep(pause)
        # Before the spawn: a process that ends at once decides about its own restart.
        self.restarting = False
        try:
            await self._spawn()
        except (PaneError, NotOnPath, OSError) as error:
            self.desk.events.write("ERROR", "restart failed", role=self.name, err=str(error))
            await self._give_up(ended, lost)
            return
        for task in list(self.desk.state.tasks.values()):
            timed_out = ended.timed_out and task.state is TaskState.TIMED_OUT
            if task.role == self.name and (timed_out or task.id in lost):
                await self.offer_again(task.id, f"again after restart {self.restarts}")

    async def _give_up(self, ended: Exit, lost: list[str]) -> None:
        """The role does not come back: nothing may wait for it in silence."""
        if ended.failed and self.restarts >= self.role.restart_retries and self.role.restart:
            self.desk.events.write("ERROR", "auto-restart cap reached", role=self.name)
        reason = f"{self.name} has exited ({ended})"
        over = (TaskState.QUEUED, TaskState.TIMED_OUT)
        for task in list(self.desk.state.open_tasks(self.name)):
            if self.desk.state.tasks[task.id].state in over:
                await self._move(task.id, TaskState.LOST, reason)
                lost = [*lost, task.id]
        for report in list(self.desk.state.reports.values()):
            if self.is_start and report.state in (ReportState.QUEUED, ReportState.TYPED):
                await self._move_report(report.id, ReportState.KEPT, reason)
        self._lines.clear()
        words = f"; lost: {', '.join(lost)}" if lost else ""
        self.desk.notify(f"{reason}{words}. Delegations to it are refused.")

    async def offer_again(self, task_id: str, reason: str) -> bool:
        """Queue a lost or timed-out task once more; False when it is neither."""
        task = self.desk.state.tasks.get(task_id)
        if task is None or task.state not in (TaskState.LOST, TaskState.TIMED_OUT):
            return False
        await self._move(task_id, TaskState.QUEUED, reason)
        self.put_task(task_id)
        return True

    # -- records ------------------------------------------------------------------------------

    async def _move(self, task_id: str, state: TaskState, reason: str = "", ref: str = "") -> None:
        await self.desk.move(self.desk.state.tasks[task_id], state, reason, ref)

    async def _move_report(self, report_id: str, state: ReportState, reason: str = "") -> None:
        await self.desk.record(
            Entry(Op.REPORT_MOVED, self.desk.now(), id=report_id, state=state, reason=reason)
        )

    def _write_transcript(self, pane: Pane) -> None:
        """Append what the pane showed to the role's log, as text, with one header per run."""
        path = self.desk.state_dir / "logs" / f"{briefs.safe_name(self.name)}.log"
        stamp = datetime.now().astimezone().isoformat(timespec="seconds")
        rows = "\n".join(pane.tail(pane.spec.history))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(f"=== {self.name} {self.desk.directory} ended {stamp}\n{rows}\n")
