"""What goes on while a session runs: each second, around each delivery, when a pane changes.

Owns the clock of the session. Invariants: time limits fire once, and not for what is over by then;
a fault in one step of a second keeps no other step from being taken, nor the next second; a socket
that was cleaned away comes back. `deck.session` starts it, the seats call back.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from deck import processes
from deck.board import Task
from deck.config import TimeoutAction
from deck.desk import Desk
from deck.durations import format_duration
from deck.entries import Entry, Op, TaskState
from deck.journal import JournalFailed
from deck.pane.pane import Pane
from deck.pane.status import PaneState, Status
from deck.parts import Parts
from deck.protocol import one_line
from deck.seats import Seat
from deck.server import ControlServer
from deck.sessions import SessionError, write_sidecar
from deck.supervision import overdue
from deck.transcripts import FLUSH_SECONDS
from deck.wall.wall import Wall

TICK_SECONDS: Final = 1.0
USAGE_SECONDS: Final = 30.0
CARE_EVERY_TICKS: Final = 5
#: What a role that ran out of time gets to end by itself.
TIMEOUT_GRACE_SECONDS: Final = 5.0


@dataclass(slots=True)
class Caretaker:
    """The caretaker of one running session. `end` asks for its end."""

    parts: Parts
    server: ControlServer
    wall: Wall
    end: Callable[[], None]
    gateway_was_up: bool | None = None
    _ticks: int = 0
    _said: str = ""
    #: The start role's process that has what was kept.
    _reader: Pane | None = None
    #: By role, the question its pane shows, as long as it shows one.
    _asked: dict[str, str] = field(default_factory=dict)

    @property
    def _desk(self) -> Desk:
        return self.parts.desk

    async def before_delivery(self, task: Task) -> None:
        """Do what precedes each delivery of a task; never raises."""
        parts = self.parts
        await parts.merging.before(task)
        await asyncio.gather(
            parts.snapshots.before(task),
            parts.metering.begin(task),
            parts.review.begin(task),
            parts.work.refresh(task),
        )

    async def tick_for_ever(self) -> None:
        """See to everything once a second."""
        # It may end before the first second is over.
        self._reader = self._desk.start_seat.pane
        while True:
            await asyncio.sleep(TICK_SECONDS)
            await self.tick()

    async def tick(self) -> None:
        """Do what each second needs. What fails is noted and tried again with the next one."""
        self._ticks += 1
        gates, review = self.parts.gatekeeper.tick, self.parts.review.tick
        steps = (self._ask_gateway, self._time_out_all, gates, review, self._bring, self._care)
        for step in steps:
            try:
                await step()
            except JournalFailed as failure:
                # Whoever hands out work says it; here it would be said each second.
                self._say_once(str(failure))
            except Exception as fault:
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "a step of the second failed", "exception": fault}
                )

    def _say_once(self, failure: str) -> None:
        if failure != self._said:
            self._said = failure
            self._desk.events.write("ERROR", "journal failed", err=failure)

    async def _ask_gateway(self) -> None:
        desk = self._desk
        if not desk.gateway.enforced:
            return
        await desk.gateway.probe()
        self._note_health()
        if desk.gateway.reap():
            desk.note(Entry(Op.GATEWAY_STOPPED, desk.now()))
        self.parts.stamping.tick()

    async def _time_out_all(self) -> None:
        desk = self._desk
        for task in list(overdue(desk.state, desk.config.role, desk.now())):
            # It may have been reported while the one before it was recorded.
            if desk.state.tasks[task.id] == task:
                await self._time_out(task)

    async def _bring(self) -> None:
        """Bring what was kept while the start role was gone, once it has a process anew."""
        pane = self._desk.start_seat.pane
        if pane is None or pane is self._reader or not pane.alive:
            return
        first, self._reader = self._reader is None, pane
        # What was kept before this session's first process is on its way already.
        if not first:
            await self.parts.work.bring_kept()

    async def _care(self) -> None:
        if self._ticks % CARE_EVERY_TICKS == 0:
            await asyncio.to_thread(processes.reap_inherited, self._own_children())
            await self._stay_reachable()

    async def _stay_reachable(self) -> None:
        """Bring back a control socket that was cleaned away; end with a project that is gone."""
        desk = self._desk
        if os.stat(".").st_nlink == 0:
            desk.events.write("ERROR", "project directory removed")
            self.end()
            return
        try:
            if await self.server.restore():
                write_sidecar(desk.paths)
                desk.events.write("WARN", "control socket restored", socket=str(desk.paths.socket))
            await self.wall.restore()
        except (SessionError, OSError) as failure:
            desk.events.write("ERROR", "control socket lost", err=str(failure))

    def _note_health(self) -> None:
        last = self._desk.gateway.last
        if last.ready == self.gateway_was_up:
            return
        self.gateway_was_up = last.ready
        if last.ready:
            self.parts.stamping.again()
        self._desk.events.write(
            "INFO" if last.ready else "WARN",
            "gateway health changed",
            up=last.ready,
            reason=last.reason or None,
        )

    def _own_children(self) -> list[int]:
        seats, gateway = self._desk.seats.values(), self._desk.gateway.child
        pids = [seat.pane.pid for seat in seats if seat.pane and seat.pane.pid]
        return [*pids, gateway.pid] if gateway else pids

    async def _time_out(self, task: Task) -> None:
        desk, seat = self._desk, self._desk.seats[task.role]
        limit = format_duration(seat.role.timeout or 0)
        action = seat.role.timeout_action
        await desk.move(task, TaskState.TIMED_OUT, f"no report within {limit}")
        desk.events.write(
            "WARN", "delegate timeout", id=task.id, to=task.role, after=limit, action=action
        )
        desk.hook("on_timeout", desk.config.ui.on_timeout, task.role, desk.label(task))
        desk.notify(f"{task.id} for {task.role} has had no report for {limit}.")
        if action is TimeoutAction.RESTART:
            desk.job(seat.end_for_timeout(TIMEOUT_GRACE_SECONDS))

    async def count_for_ever(self) -> None:
        """Count tokens every 30 s."""
        while True:
            await asyncio.sleep(USAGE_SECONDS)
            await self.parts.metering.take()

    async def transcribe_for_ever(self) -> None:
        """Keep what the roles' terminals show, where a crash of the deck cannot take it."""
        pause = TICK_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = FLUSH_SECONDS
            for seat in list(self._desk.seats.values()):
                await seat.endings.keep_transcript()

    def pane_status(self, seat: Seat, status: Status) -> None:
        """Take up what a pane's state means for people and for the board."""
        desk = self._desk
        before = self._asked.pop(seat.name, None)
        if status.state is PaneState.BLOCKED:
            question = self._asked[seat.name] = one_line(status.question)
            if before and (question.startswith(before) or before.startswith(question)):
                # The answer is being typed behind it: nothing new is asked.
                return
            desk.events.write("WARN", "waiting for input", role=seat.name, question=question)
            desk.hook("on_input", desk.config.ui.on_input, seat.name, "")
        elif status.state is PaneState.WORKING and status.source.is_fact:
            for task in list(desk.state.in_flight(seat.name)):
                if task.state is TaskState.SUBMITTED:
                    desk.note(desk.moved(task, TaskState.PICKED_UP))
