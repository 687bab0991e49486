"""All that an agent's process has started, as one: who belongs to it, holding it, ending it.

Owns membership and the order of signals. Invariants: a member is found by the process session, by
descent and by the CHORAGOS_PANE mark in its environment, so what left the session is found too; a
stranger with a reused pid is never one; an end is not reported before nothing is left or the
kernel refused, and it says who was ended and how. Censuses are shared: many panes that stop at
once cost two looks at the process table. Called by `process`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from deck.pane.process_table import (
    ProcessRef,
    process_table,
    read_variable,
    send_signal,
    still_there,
)
from deck.pane.threads import in_thread

PANE_MARK: Final = "CHORAGOS_PANE"
POLL_SECONDS: Final = 0.05  # contract 1.6
KILL_SECONDS: Final = 2.0  # contract 1.6: reap bound
HANG_UP_SECONDS: Final = 0.5


class EndedBy(StrEnum):
    """What it took to end a process."""

    TERM = "SIGTERM"
    KILL = "SIGKILL"


@dataclass(frozen=True, slots=True)
class Ended:
    pid: int
    name: str
    by: EndedBy


@dataclass(frozen=True, slots=True)
class StopProof:
    """Who was ended by `stop` and how. `survivors` could not be ended: the kernel refused."""

    ended: tuple[Ended, ...]
    survivors: tuple[Ended, ...]

    def __str__(self) -> str:
        if not self.ended and not self.survivors:
            return "nothing was left to end"
        parts = [f"{e.name}[{e.pid}] {e.by}" for e in self.ended]
        text = f"ended {len(self.ended)}: {', '.join(parts)}" if parts else "ended 0"
        if self.survivors:
            text += f"; still alive: {', '.join(f'{s.name}[{s.pid}]' for s in self.survivors)}"
        return text


@dataclass(frozen=True, slots=True)
class Census:
    """The living processes at one instant, and the pane marks they carry."""

    table: Mapping[int, ProcessRef]
    marks: Mapping[int, str]


def take_census() -> Census:
    """Look at every process. Blocking for some milliseconds: run it in a thread."""
    me = os.getpid()
    table = {pid: ref for pid, ref in process_table().items() if pid != me and not ref.is_dead}
    return Census(table, {pid: mark for pid in table if (mark := read_variable(pid, PANE_MARK))})


def members_of(
    leader: ProcessRef, pane_id: str, census: Census, known: Iterable[ProcessRef] = ()
) -> dict[int, ProcessRef]:
    """All processes of a pane: its session, its descendants, and whoever carries its mark. Pure.

    `known` are members found earlier: they and their descendants count, wherever they are now. The
    kernel gives a pid away again only when no session bears it any more, so a stranger with the
    leader's pid means that the session is gone, and the stranger's own session is not ours.
    """
    table = census.table
    found = {ref.pid for ref in known if (now := table.get(ref.pid)) and now.started == ref.started}
    namesake = table.get(leader.pid)
    if namesake is None or namesake.started == leader.started:
        found |= {pid for pid, ref in table.items() if leader.pid in (pid, ref.session)}
    if pane_id:
        found |= {pid for pid, mark in census.marks.items() if mark == pane_id}
    growing = True
    while growing:
        more = {pid for pid, ref in table.items() if ref.parent in found and pid not in found}
        found |= more
        growing = bool(more)
    return {pid: table[pid] for pid in found}


class _Surveyor:
    """Takes censuses in a thread; whoever asks while one runs shares the next one.

    Fifty panes that stop at once then cost two looks at the process table, not fifty.
    """

    _of_loop: ClassVar[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Surveyor]] = (
        weakref.WeakKeyDictionary()
    )

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._next: asyncio.Task[Census] | None = None

    @classmethod
    async def census(cls) -> Census:
        """A census begun after this call."""
        surveyor = cls._of_loop.setdefault(asyncio.get_running_loop(), cls())
        if surveyor._next is None:
            surveyor._next = asyncio.create_task(surveyor._take())
        return await asyncio.shield(surveyor._next)

    async def _take(self) -> Census:
        async with self._lock:
            self._next = None
            return await in_thread(take_census)


class ProcessTree:
    """The processes of one pane: `leader` and whatever came of it, or carries `mark`."""

    def __init__(self, leader: ProcessRef, mark: str) -> None:
        self._leader = leader
        self._mark = mark

    async def members(self, known: Iterable[ProcessRef] = ()) -> dict[int, ProcessRef]:
        """The living processes of this pane, found in a thread."""
        return members_of(self._leader, self._mark, await _Surveyor.census(), known)

    async def suspend(self) -> None:
        """SIGSTOP the whole tree. Repeated until no new process appears."""
        await self._signal_all(signal.SIGSTOP)

    async def resume(self) -> None:
        """SIGCONT the whole tree."""
        await self._signal_all(signal.SIGCONT)

    async def _signal_all(self, number: int) -> None:
        """Parents first when they are stopped and last when they go on: a shell that saw its job
        stop would take it for the user's wish, and go on to the next command."""
        done: set[tuple[int, int]] = set()
        for _ in range(5):
            fresh = [r for r in (await self.members()).values() if (r.pid, r.started) not in done]
            if not fresh:
                return
            is_stop = number == signal.SIGSTOP
            for ref in sorted(fresh, key=lambda r: (r.started, r.pid), reverse=not is_stop):
                send_signal(ref, number)
                done.add((ref.pid, ref.started))

    async def end(self, grace: float) -> StopProof:
        """SIGTERM (and SIGCONT) everything, wait up to `grace` seconds, SIGKILL the rest."""
        asked = await self.members()
        for ref in asked.values():
            send_signal(ref, signal.SIGTERM)
            send_signal(ref, signal.SIGCONT)
        await self._wait(asked.values(), grace)
        killed = await self._kill(asked)
        return _proof(asked, killed, still_there(killed.values()))

    async def _wait(self, asked: Iterable[ProcessRef], grace: float) -> None:
        """Wait until all have ended, but not longer than `grace` seconds."""
        deadline = time.monotonic() + grace
        hang_up = time.monotonic() + min(HANG_UP_SECONDS, grace / 2)
        left = still_there(asked)
        while left and time.monotonic() < deadline:
            await asyncio.sleep(POLL_SECONDS / 2)
            left = still_there(left)
            if hang_up and time.monotonic() >= hang_up:
                # Interactive shells ignore SIGTERM; they obey the hang-up of their terminal.
                hang_up = 0.0
                for ref in left:
                    send_signal(ref, signal.SIGHUP)

    async def _kill(self, asked: Mapping[int, ProcessRef]) -> dict[int, ProcessRef]:
        """SIGKILL whatever is found until nothing is; new forks are found in the next round."""
        killed: dict[int, ProcessRef] = {}
        deadline = time.monotonic() + KILL_SECONDS
        while True:
            left = await self.members([*asked.values(), *killed.values()])
            if not left or time.monotonic() > deadline:
                return killed
            for ref in left.values():
                send_signal(ref, signal.SIGKILL)
            killed.update(left)
            await asyncio.sleep(0.01)


def _proof(
    asked: Mapping[int, ProcessRef],
    killed: Mapping[int, ProcessRef],
    survivors: Sequence[ProcessRef],
) -> StopProof:
    alive = {ref.pid for ref in survivors}
    everyone = {**asked, **killed}
    ended = [
        Ended(pid, ref.name, EndedBy.KILL if pid in killed else EndedBy.TERM)
        for pid, ref in sorted(everyone.items())
        if pid not in alive
    ]
    rest = [Ended(ref.pid, ref.name, EndedBy.KILL) for ref in survivors]
    return StopProof(tuple(ended), tuple(rest))
