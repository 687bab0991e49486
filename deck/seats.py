"""A seat: one role at work. Its process, how it is started, started anew and ended.

Owns the life of the process. Invariants: a seat has at most one process at a time, and what
changes that happens one after the other; a process is ended with everything it started, with
proof, before the next one runs; nothing that was in its hands is lost unseen: it is offered again
or shown as lost. `deck.session` and `deck.reloading` make the seats; what is typed is
`deck.delivery`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deck import briefs
from deck.agents import adapter_for
from deck.board import Task
from deck.config import Role
from deck.delivery import Delivery, NoticeLine, ReportLine, TaskLine
from deck.desk import Desk
from deck.endings import IN_ITS_HANDS, START_ERRORS, Endings
from deck.entries import Entry, Op, TaskState
from deck.homes import equip
from deck.moves import IN_FLIGHT
from deck.pane.errors import PaneError
from deck.pane.hooks import HookFile
from deck.pane.pane import Pane, PaneSpec
from deck.pane.status import Status
from deck.pane.terminal.engine import EngineKind
from deck.processes import child
from deck.protocol import one_line
from deck.roster import Credential, Surroundings, command_line, environment, seating

#: A process that is ended for the next one gets this long: whoever asked waits for at most 5 s.
RENEW_GRACE_SECONDS: Final = 2.0


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
    endings: Endings = field(init=False)
    _delivering: bool = False
    #: One change of the process at a time.
    life: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: The pane whose end is ours: the exit rules leave it alone.
    ended: Pane | None = None

    def __post_init__(self) -> None:
        self.delivery = Delivery(self)
        self.endings = Endings(self)

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
        async with self.life:
            if self.stopping:
                self.restarting = False
                raise PaneError("the session is stopping")
            await self.spawn()
        if not self._delivering:
            self._delivering = True
            self.desk.job(self.delivery.run())

    async def spawn(self) -> None:
        """Start the process; `life` is held. Raises PaneError, NotOnPath or OSError."""
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
        self.pane = pane = Pane(spec, on_status=self._status, on_exit=self.endings.exited)
        self.routed = seat.url is not None
        self.endings.timed_out = False
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
        async with self.life:
            if self.pane is None:
                return
            was_alive = self.alive
            # Not waited for: a journal that cannot be written must not keep an agent running.
            self.desk.note(Entry(Op.ROLE_STOPPING, self.desk.now(), role=self.name))
            proof = await self.pane.stop(grace)
            self._note_stopped(str(proof))
            if was_alive:
                await asyncio.to_thread(self.endings.write_transcript, self.pane)

    async def end_for_timeout(self, grace: float) -> None:
        """End the process because a task ran out of time; the exit rules bring it back."""
        self.endings.timed_out = True
        if self.pane is not None:
            await self.pane.stop(grace)

    async def renew(self, reason: str, *, reset: bool = False) -> Renewal:
        """End the process, if there is one, and start it anew; what was in its hands is offered
        again, what had run out of time is shown as lost. `reset` forgets earlier restarts.

        Raises PaneError, NotOnPath or OSError: the role is then given up like one that exited for
        good.
        """
        async with self.life:
            if reset:
                self.restarts = 0
            try:
                again, lost, proof = await self._replace(reason)
            except START_ERRORS as failure:
                await self.endings.give_up(f"{self.name} could not be started anew ({failure})")
                raise
            offered = [
                task_id for task_id in again if await self.offer_again(task_id, f"again: {reason}")
            ]
            return Renewal(tuple(offered), tuple(lost), proof)

    async def give_up(self, reason: str) -> None:
        """Show as lost what waits for a role that could not be started."""
        async with self.life:
            await self.endings.give_up(reason)

    async def begin_anew(self, task: Task) -> bool:
        """Start a fresh role anew for a task; while that fails the task stays queued and says why.
        False when the role had to be given up."""
        desk = self.desk
        async with self.life:
            if not self.delivery.is_stale(task):
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
                    await self.endings.give_up(why)
                    return False
                self.restarts += 1
                await asyncio.sleep(self.endings.pause())

    async def _replace(self, reason: str) -> tuple[list[str], list[str], str]:
        """End what runs and start anew; return what was in flight, what had timed out, the proof.
        `life` is held."""
        proof, again, lost = "", self.endings.owed, list[str]()
        self.endings.owed = []
        # Work that is handed out meanwhile waits for the new process.
        self.restarting = True
        try:
            if self.pane is not None:
                pane = self.ended = self.pane
                flown = await self.endings.lose(pane, reason, IN_ITS_HANDS)
                proof = await self._end(pane)
                # What was typed while it ended.
                flown += await self.endings.lose(pane, reason, IN_FLIGHT)
                again += [task_id for task_id, was in flown if was in IN_FLIGHT]
                lost = [task_id for task_id, was in flown if was not in IN_FLIGHT]
            await self.unpause(reason)
            if self.stopping or self.removed:
                why = "was removed from the team" if self.removed else "ends with the session"
                raise PaneError(f"{self.name} {why}")
            await self.spawn()
        except BaseException:
            self.restarting = False
            raise
        return again, lost, proof

    async def remove(self, reason: str) -> list[str]:
        """End the process of a role that has left the team; return what is lost with it.

        Whoever removes it has set `removed`, so that nothing is queued for it any more.
        """
        async with self.life:
            lost: list[str] = []
            self.restarting = False
            if self.pane is not None:
                pane = self.ended = self.pane
                lost = [
                    task_id for task_id, _ in await self.endings.lose(pane, reason, IN_ITS_HANDS)
                ]
                await self._end(pane)
                lost += [
                    task_id for task_id, _ in await self.endings.lose(pane, reason, IN_ITS_HANDS)
                ]
            await self.unpause(reason)
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
            await asyncio.to_thread(self.endings.write_transcript, pane)
        return one_line(proof)

    def _note_stopped(self, proof: str) -> None:
        self.desk.events.write("INFO", "role stopped", role=self.name, proof=proof)
        self.desk.note(
            Entry(Op.ROLE_STOPPED, self.desk.now(), role=self.name, reason=one_line(proof))
        )

    async def unpause(self, reason: str) -> None:
        """A process that has ended is not paused, nor will be the next one."""
        if self.name in self.desk.state.paused:
            await self.desk.record(
                Entry(Op.ROLE_RESUMED, self.desk.now(), role=self.name, reason=reason)
            )

    # -- what the pane says ---------------------------------------------------------------------

    def _status(self, pane: Pane, status: Status) -> None:
        if pane is self.pane:
            self.on_status(self, status)
