"""A seat: one role at work. Its process, how it is started, started anew and ended.

Owns the life of the process. Invariants: a seat has at most one process at a time, and what
changes that happens one after the other; a process is ended with everything it started, with
proof, before the next one runs; nothing that was in its hands is lost unseen: it is offered again
or shown as lost. `deck.session` and `deck.reloading` make the seats; what is typed is
`deck.delivery`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from deck import briefs
from deck.agents import adapter_for
from deck.board import IN_FLIGHT, Entry, Op, ReportState, Task, TaskState
from deck.config import Restart, Role
from deck.delivery import Delivery, NoticeLine, ReportLine, TaskLine
from deck.desk import Desk
from deck.homes import equip
from deck.pane.hooks import HookFile
from deck.pane.pane import Pane, PaneSpec
from deck.pane.process import ExitStatus, PaneError
from deck.pane.status import Status
from deck.pane.terminal.engine import EngineKind
from deck.processes import child
from deck.protocol import one_line
from deck.roster import Credential, NotOnPath, Surroundings, command_line, environment, seating
from deck.supervision import Exit, may_restart

#: Pause before a restart: grows with each, so a broken agent cannot spin.
RESTART_PAUSES: Final = (0.5, 2.0, 5.0)
LAST_SCREEN_ROWS: Final = 40
#: What an agent that has exited left behind gets this long to end.
LEFTOVER_GRACE_SECONDS: Final = 0.5
#: A process that is ended for the next one gets this long: whoever asked waits for at most 5 s.
RENEW_GRACE_SECONDS: Final = 2.0
#: What can go wrong when a role's process is started.
START_ERRORS: Final = (PaneError, NotOnPath, OSError)
_IN_ITS_HANDS: Final = IN_FLIGHT | {TaskState.TIMED_OUT}


@dataclass(frozen=True, slots=True)
class Renewal:
    """What ending a process and starting the next one meant for its tasks."""

    #: Queued again.
    again: tuple[str, ...] = ()
    #: Lost; a person decides about them.
    lost: tuple[str, ...] = ()
    #: Who was ended, and how.
    proof: str = ""


@dataclass(slots=True)
class Seat:
    """One role."""

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
    restarts: int = 0
    #: Its process is to be started anew: the last one ends, or a pause goes by.
    restarting: bool = False
    #: Its process is being started. Apart from `restarting`, which the exit rules set again for a
    #: process that ends at once.
    starting: bool = False
    stopping: bool = False
    #: Taken out of the team; the name stays, for reports that come late.
    removed: bool = False
    #: Its process was told the gateway's address.
    routed: bool = False
    delivery: Delivery = field(init=False)
    _delivering: bool = False
    _timed_out: bool = False
    #: One change of the process at a time.
    _life: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: The pane whose end is ours: the exit rules leave it alone.
    _ended: Pane | None = None
    #: Lost in an exit, and offered again once the role is back.
    _owed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.delivery = Delivery(self)

    # -- facts ----------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The role's name."""
        return self.role.name

    @property
    def alive(self) -> bool:
        """Whether the role's process runs."""
        return self.pane is not None and self.pane.alive

    @property
    def available(self) -> bool:
        """Whether work can be queued: it runs, or is about to."""
        return not self.removed and (self.alive or self.coming or self.pane is None)

    @property
    def coming(self) -> bool:
        """Whether a process is about to run, or is just being started."""
        return self.restarting or self.starting

    @property
    def held(self) -> str:
        """Why its next line waits."""
        return self.delivery.held

    @property
    def waiting(self) -> int:
        """Lines queued and not yet handed to the pane."""
        return self.delivery.waiting

    @property
    def files(self) -> str:
        """The deck's directory as the role names it: one that works elsewhere needs the whole
        path (contracts/deck.md section 1.5)."""
        return briefs.STATE_DIR if self.place(self.role) is None else str(self.desk.state_dir)

    # -- lines ----------------------------------------------------------------------------------

    def put_task(self, task_id: str, ready: Awaitable[object] | None = None) -> None:
        """Queue a task; it goes out after `ready`."""
        self.delivery.put(TaskLine(task_id, ready))

    def put_report(self, report_id: str, text: str, ready: Awaitable[object] | None) -> None:
        """Queue the line that tells of a report; it goes out after `ready`."""
        self.delivery.put(ReportLine(report_id, text, ready))

    def put_notice(self, text: str) -> None:
        """Queue a line from the deck."""
        self.delivery.put(NoticeLine(text))

    async def offer_again(self, task_id: str, reason: str) -> bool:
        """Queue a lost or timed-out task once more; False when it is neither."""
        task = self.desk.state.tasks.get(task_id)
        if task is None or task.state not in (TaskState.LOST, TaskState.TIMED_OUT):
            return False
        await self.desk.move(task, TaskState.QUEUED, reason)
        self.put_task(task_id)
        return True

    # -- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Spawn the role's process and begin to deliver. Raises PaneError, NotOnPath or OSError."""
        async with self._life:
            if self.stopping:
                self.restarting = False
                raise PaneError("the session is stopping")
            await self._spawn()
        if not self._delivering:
            self._delivering = True
            self.desk.job(self.delivery.run())

    async def _spawn(self) -> None:
        self.restarting, self.starting = False, True
        try:
            await self._run()
        finally:
            self.starting = False

    async def _run(self) -> None:
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
        self.routed = seat.url is not None
        await self.desk.record(Entry(Op.ROLE_STARTING, self.desk.now(), role=self.name))
        await pane.start()
        self.delivery.begin()
        one = child(pane.pid or 0)
        self.desk.events.write("INFO", "boot", role=self.name, pid=one.pid)
        await self.desk.record(
            Entry(Op.ROLE_STARTED, self.desk.now(), role=self.name, pid=one.pid, born=one.born)
        )

    async def stop(self, grace: float) -> None:
        """End the role and everything it started; the desk has ended its deliveries before."""
        self.stopping = True
        async with self._life:
            if self.pane is None:
                return
            was_alive = self.alive
            # Not waited for: a journal that cannot be written must not keep an agent running.
            self.desk.note(Entry(Op.ROLE_STOPPING, self.desk.now(), role=self.name))
            proof = await self.pane.stop(grace)
            self._note_stopped(str(proof))
            if was_alive:
                await asyncio.to_thread(self._write_transcript, self.pane)

    async def end_for_timeout(self, grace: float) -> None:
        """End the process because a task ran out of time; the exit rules bring it back."""
        self._timed_out = True
        if self.pane is not None:
            await self.pane.stop(grace)

    async def renew(self, reason: str, *, reset: bool = False) -> Renewal:
        """End the process, if there is one, and start it anew; what was in its hands is offered
        again, what had run out of time is shown as lost. `reset` forgets earlier restarts.

        Raises PaneError, NotOnPath or OSError: the role is then given up like one that exited for
        good.
        """
        async with self._life:
            if reset:
                self.restarts = 0
            try:
                again, lost, proof = await self._replace(reason)
            except START_ERRORS as failure:
                await self._give_up(f"{self.name} could not be started anew ({failure})")
                raise
            offered = [
                task_id for task_id in again if await self.offer_again(task_id, f"again: {reason}")
            ]
            return Renewal(tuple(offered), tuple(lost), proof)

    async def give_up(self, reason: str) -> None:
        """Show as lost what waits for a role that could not be started."""
        async with self._life:
            await self._give_up(reason)

    async def begin_anew(self, task: Task) -> bool:
        """Start a fresh role anew for a task; while that fails the task stays queued and says why.
        False when the role had to be given up."""
        desk = self.desk
        async with self._life:
            if not self.delivery.worked:
                return True
            while True:
                desk.events.write("INFO", "fresh respawn", role=self.name, id=task.id)
                try:
                    await self._replace(f"{self.name} was started anew for {task.id}")
                    return True
                except START_ERRORS as failure:
                    why = f"{self.name} could not be started anew for it: {failure}"
                desk.events.write("ERROR", "restart failed", role=self.name, err=why)
                queued = desk.state.tasks[task.id]
                if queued.state is TaskState.QUEUED:
                    await desk.move(queued, TaskState.QUEUED, one_line(why))
                if self.restarts >= self.role.restart_retries or not self.role.restart:
                    await self._give_up(why)
                    return False
                self.restarts += 1
                await asyncio.sleep(self._pause())

    async def _replace(self, reason: str) -> tuple[list[str], list[str], str]:
        """End what runs and start anew; return what was in flight, what had timed out, the proof.
        `_life` is held."""
        proof, again, lost = "", self._owed, list[str]()
        self._owed = []
        # Work that is handed out meanwhile waits for the new process.
        self.restarting = True
        try:
            if self.pane is not None:
                pane = self._ended = self.pane
                flown = await self._lose(pane, reason, _IN_ITS_HANDS)
                proof = await self._end(pane)
                # What was typed while it ended.
                flown += await self._lose(pane, reason, IN_FLIGHT)
                again += [task_id for task_id, was in flown if was in IN_FLIGHT]
                lost = [task_id for task_id, was in flown if was not in IN_FLIGHT]
            await self._unpause(reason)
            if self.stopping or self.removed:
                why = "was removed from the team" if self.removed else "ends with the session"
                raise PaneError(f"{self.name} {why}")
            await self._spawn()
        except BaseException:
            self.restarting = False
            raise
        return again, lost, proof

    async def remove(self, reason: str) -> list[str]:
        """End the process of a role that has left the team; return what is lost with it.

        Whoever removes it has set `removed`, so that nothing is queued for it any more.
        """
        async with self._life:
            lost: list[str] = []
            self.restarting = False
            if self.pane is not None:
                pane = self._ended = self.pane
                lost = [task_id for task_id, _ in await self._lose(pane, reason, _IN_ITS_HANDS)]
                await self._end(pane)
                lost += [task_id for task_id, _ in await self._lose(pane, reason, _IN_ITS_HANDS)]
            await self._unpause(reason)
            await self.desk.record(
                Entry(Op.ROLE_EXITED, self.desk.now(), role=self.name, reason=reason)
            )
            self.delivery.clear()
            return lost

    async def _end(self, pane: Pane) -> str:
        """End a pane and everything it started, on record; return the proof."""
        await self.desk.record(Entry(Op.ROLE_STOPPING, self.desk.now(), role=self.name))
        was_alive = pane.alive
        proof = str(await pane.stop(RENEW_GRACE_SECONDS))
        self._note_stopped(proof)
        if was_alive:
            await asyncio.to_thread(self._write_transcript, pane)
        return one_line(proof)

    def _note_stopped(self, proof: str) -> None:
        self.desk.events.write("INFO", "role stopped", role=self.name, proof=proof)
        self.desk.note(
            Entry(Op.ROLE_STOPPED, self.desk.now(), role=self.name, reason=one_line(proof))
        )

    async def _unpause(self, reason: str) -> None:
        """A process that has ended is not paused, nor will be the next one."""
        if self.name in self.desk.state.paused:
            await self.desk.record(
                Entry(Op.ROLE_RESUMED, self.desk.now(), role=self.name, reason=reason)
            )

    # -- the end of a process -------------------------------------------------------------------

    def _status(self, pane: Pane, status: Status) -> None:
        if pane is self.pane:
            self.on_status(self, status)

    def _exited(self, pane: Pane, status: ExitStatus) -> None:
        if pane is self.pane and pane is not self._ended and not self.stopping:
            # Set at once: a delegation that arrives now must know whether the role comes back.
            ended = Exit(status.code, status.signal, timed_out=self._timed_out)
            self._timed_out = False
            self.restarting = may_restart(self.role, ended, self.restarts)
            self.desk.job(self._after_exit(pane, ended))

    async def _after_exit(self, pane: Pane, ended: Exit) -> None:
        self.desk.events.write(
            "WARN" if ended.failed else "INFO", "pane exited", role=self.name, status=str(ended)
        )
        async with self._life:
            if pane is self._ended or pane is not self.pane:
                # Somebody was quicker: it has been started anew, or removed.
                return
            reason = f"{self.name} has exited ({ended})"
            lost = [task_id for task_id, _ in await self._lose(pane, reason, IN_FLIGHT)]
            await self.desk.record(
                Entry(Op.ROLE_EXITED, self.desk.now(), role=self.name, reason=str(ended))
            )
            await self._unpause(reason)
            await pane.stop(LEFTOVER_GRACE_SECONDS)
            await asyncio.to_thread(self._write_transcript, pane)
            if not self.restarting:
                await self._give_up(reason, lost, ended)
                return
            if ended.timed_out:
                lost += [
                    task.id
                    for task in self.desk.state.open_tasks(self.name)
                    if task.state is TaskState.TIMED_OUT
                ]
            self._owed = lost
            pause = self._pause()
            self.restarts += 1
        self.desk.events.write(
            "WARN", "auto-restart", role=self.name, attempt=self.restarts, exit=str(ended)
        )
        await asyncio.sleep(pause)
        async with self._life:
            if pane is self.pane and pane is not self._ended:
                await self._restart(ended)

    async def _restart(self, ended: Exit) -> None:
        owed, self._owed = self._owed, []
        try:
            await self._spawn()
        except START_ERRORS as error:
            self.desk.events.write("ERROR", "restart failed", role=self.name, err=str(error))
            await self._give_up(f"{self.name} has exited ({ended})", owed, ended)
            return
        for task_id in owed:
            await self.offer_again(task_id, f"again after restart {self.restarts}")

    def _pause(self) -> float:
        return RESTART_PAUSES[min(self.restarts, len(RESTART_PAUSES) - 1)]

    async def _lose(
        self, pane: Pane, reason: str, states: Collection[TaskState]
    ) -> list[tuple[str, TaskState]]:
        """Move what is in a pane's hands to lost, with its last screen; return what it was."""
        state = self.desk.state
        found = [t for t in state.open_tasks(self.name) if t.state in states]
        if not found:
            return []
        rows = "\n".join(pane.tail(LAST_SCREEN_ROWS))
        screen = await asyncio.to_thread(self.desk.texts.put, rows)
        flown = []
        for task in found:
            present = self.desk.state.tasks[task.id]
            if present.state in states:
                await self.desk.move(present, TaskState.LOST, reason, screen)
                flown.append((task.id, present.state))
        return flown

    async def _give_up(
        self, reason: str, lost: Collection[str] = (), ended: Exit | None = None
    ) -> None:
        """The role does not come back: nothing may wait for it in silence."""
        capped = self.restarts >= self.role.restart_retries
        if ended is not None and ended.failed and capped and self.role.restart is not Restart.NEVER:
            self.desk.events.write("ERROR", "auto-restart cap reached", role=self.name)
        gone = list(lost)
        over = (TaskState.QUEUED, TaskState.TIMED_OUT)
        for task in list(self.desk.state.open_tasks(self.name)):
            present = self.desk.state.tasks[task.id]
            if present.state in over:
                await self.desk.move(present, TaskState.LOST, reason)
                gone.append(task.id)
        for report in list(self.desk.state.reports.values()):
            if self.is_start and report.state in (ReportState.QUEUED, ReportState.TYPED):
                await self.delivery.move_report(report.id, ReportState.KEPT, reason)
        self.delivery.clear()
        words = f"; lost: {', '.join(gone)}" if gone else ""
        self.desk.notify(f"{reason}{words}. Delegations to it are refused.")

    def _write_transcript(self, pane: Pane) -> None:
        """Append what the pane showed to the role's log, as text, with one header per run."""
        path = self.desk.state_dir / "logs" / f"{briefs.safe_name(self.name)}.log"
        stamp = datetime.now().astimezone().isoformat(timespec="seconds")
        rows = "\n".join(pane.tail(pane.spec.history))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(f"=== {self.name} {self.desk.directory} ended {stamp}\n{rows}\n")
