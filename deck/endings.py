"""The end of a role's process: what is lost with it, whether it comes back, what stays to be read.

Owns the exit rules of a seat. Invariants: an exit is on record with what was in the process's hands
and its last screen; a role comes back for failures only, after growing pauses and up to its cap;
where it does not come back nothing waits for it in silence; an end that was asked for is left to
whoever asked. Made by `deck.seats`, one for each seat.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from deck import transcripts
from deck.config import Restart
from deck.desk import Desk
from deck.entries import Entry, Op, ReportState, TaskState
from deck.moves import IN_FLIGHT
from deck.pane.errors import PaneError
from deck.pane.pane import Pane
from deck.pane.process import ExitStatus
from deck.roster import NotOnPath
from deck.supervision import Exit, may_restart
from deck.transcripts import Transcript

if TYPE_CHECKING:
    from deck.seats import Seat

#: Pause before a restart: grows with each, so a broken agent cannot spin.
RESTART_PAUSES: Final = (0.5, 2.0, 5.0)
LAST_SCREEN_ROWS: Final = 40
#: What an agent that has exited left behind gets this long to end.
LEFTOVER_GRACE_SECONDS: Final = 0.5
#: What can go wrong when a role's process is started.
START_ERRORS: Final = (PaneError, NotOnPath, OSError)
#: What a process may still be at: a task that ran out of time, too.
IN_ITS_HANDS: Final = IN_FLIGHT | {TaskState.TIMED_OUT}


@dataclass(slots=True)
class Endings:
    """The ends of one seat's processes."""

    seat: Seat
    #: The deck itself ends it because a task ran out of time.
    timed_out: bool = False
    #: Lost in an exit, and offered again once the role is back.
    owed: list[str] = field(default_factory=list)
    _log: Transcript = field(init=False)
    #: Held while the log is written, in whatever thread.
    _writing: threading.Lock = field(default_factory=threading.Lock)
    #: The pane whose end is in the log.
    _transcribed: Pane | None = None
    _said: str = ""

    def __post_init__(self) -> None:
        self._log = Transcript(self._desk.state_dir / "logs", self.seat.name)

    @property
    def _desk(self) -> Desk:
        return self.seat.desk

    def exited(self, pane: Pane, status: ExitStatus) -> None:
        """Take up an exit that nobody asked for."""
        if pane is self.seat.pane and pane is not self.seat.ended and not self.seat.stopping:
            # Set at once: a delegation that arrives now must know whether the role comes back.
            ended = Exit(status.code, status.signal, timed_out=self.timed_out)
            self.timed_out = False
            self.seat.restarting = may_restart(self.seat.role, ended, self.seat.restarts)
            self._desk.job(self._after_exit(pane, ended))

    async def _after_exit(self, pane: Pane, ended: Exit) -> None:
        self._desk.events.write(
            "WARN" if ended.failed else "INFO",
            "pane exited",
            role=self.seat.name,
            status=str(ended),
        )
        async with self.seat.life:
            if pane is self.seat.ended or pane is not self.seat.pane:
                # Somebody was quicker: it has been started anew, or removed.
                return
            reason = f"{self.seat.name} has exited ({ended})"
            lost = [task_id for task_id, _ in await self.lose(pane, reason, IN_FLIGHT)]
            await self._desk.record(
                Entry(Op.ROLE_EXITED, self._desk.now(), role=self.seat.name, reason=str(ended))
            )
            await self.seat.unpause(reason)
            await pane.stop(LEFTOVER_GRACE_SECONDS)
            await asyncio.to_thread(self.write_transcript, pane)
            if not self.seat.restarting:
                await self.give_up(reason, lost, ended)
                return
            if ended.timed_out:
                lost += [
                    task.id
                    for task in self._desk.state.open_tasks(self.seat.name)
                    if task.state is TaskState.TIMED_OUT
                ]
            self.owed = lost
            pause = self.pause()
            self.seat.restarts += 1
        self._desk.events.write(
            "WARN", "auto-restart", role=self.seat.name, attempt=self.seat.restarts, exit=str(ended)
        )
        await asyncio.sleep(pause)
        async with self.seat.life:
            if pane is self.seat.pane and pane is not self.seat.ended:
                await self._restart(ended)

    async def _restart(self, ended: Exit) -> None:
        owed, self.owed = self.owed, []
        try:
            await self.seat.spawn()
        except START_ERRORS as error:
            self._desk.events.write("ERROR", "restart failed", role=self.seat.name, err=str(error))
            await self.give_up(f"{self.seat.name} has exited ({ended})", owed, ended)
            return
        for task_id in owed:
            await self.seat.offer_again(task_id, f"again after restart {self.seat.restarts}")

    def pause(self) -> float:
        """Return how long to wait before the next start, in seconds."""
        return RESTART_PAUSES[min(self.seat.restarts, len(RESTART_PAUSES) - 1)]

    async def lose(
        self, pane: Pane, reason: str, states: Collection[TaskState]
    ) -> list[tuple[str, TaskState]]:
        """Move what is in a pane's hands to lost, with its last screen; return what it was."""
        state = self._desk.state
        found = [t for t in state.open_tasks(self.seat.name) if t.state in states]
        if not found:
            return []
        rows = "\n".join(pane.tail(LAST_SCREEN_ROWS))
        screen = await asyncio.to_thread(self._desk.texts.put, rows)
        flown = []
        for task in found:
            present = self._desk.state.tasks[task.id]
            if present.state in states:
                await self._desk.move(present, TaskState.LOST, reason, screen)
                flown.append((task.id, present.state))
        return flown

    async def give_up(
        self, reason: str, lost: Collection[str] = (), ended: Exit | None = None
    ) -> None:
        """The role does not come back: nothing may wait for it in silence."""
        capped = self.seat.restarts >= self.seat.role.restart_retries
        if (
            ended is not None
            and ended.failed
            and capped
            and self.seat.role.restart is not Restart.NEVER
        ):
            self._desk.events.write("ERROR", "auto-restart cap reached", role=self.seat.name)
        gone = list(lost)
        over = (TaskState.QUEUED, TaskState.TIMED_OUT)
        for task in list(self._desk.state.open_tasks(self.seat.name)):
            present = self._desk.state.tasks[task.id]
            if present.state in over:
                await self._desk.move(present, TaskState.LOST, reason)
                gone.append(task.id)
        for report in list(self._desk.state.reports.values()):
            if self.seat.is_start and report.state in (ReportState.QUEUED, ReportState.TYPED):
                await self.seat.delivery.move_report(report.id, ReportState.KEPT, reason)
        self.seat.delivery.clear()
        words = f"; lost: {', '.join(gone)}" if gone else ""
        self._desk.notify(f"{reason}{words}. Delegations to it are refused.")

    def write_transcript(self, pane: Pane) -> None:
        """Put what the pane showed into the role's log, once its process has ended. Blocks."""
        rows = pane.tail(pane.spec.history)
        with self._writing:
            self._transcribed = pane
            self._write(rows, f"{self._desk.directory} ended", ended=True)

    async def keep_transcript(self) -> None:
        """Put what the running pane shows into the role's log if it may have changed."""
        pane = self.seat.pane
        if pane is None or not pane.alive or pane.idle_seconds > 2 * transcripts.FLUSH_SECONDS:
            return
        await asyncio.to_thread(self._keep, pane, pane.tail(transcripts.RUNNING_ROWS))

    def _keep(self, pane: Pane, rows: list[str]) -> None:
        with self._writing:
            # It may have ended meanwhile, and its end is in the log already.
            if pane is not self._transcribed:
                self._write(rows, f"{self._desk.directory} at", ended=False)

    def _write(self, rows: list[str], heading: str, *, ended: bool) -> None:
        """A log that cannot be written is said once, and ends nothing."""
        try:
            self._log.write(rows, heading, ended=ended)
        except OSError as failure:
            if str(failure) != self._said:
                self._said = str(failure)
                self._desk.events.write(
                    "WARN", "transcript not written", role=self.seat.name, err=str(failure)
                )
