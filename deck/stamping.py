"""Telling the gateway which task each role works on, so that its records carry it.

Owns what the gateway was told last. Invariants: a role is stamped before its task is typed, and
the stamp is taken back once the task is reported or lost; a gateway that does not take a stamp in
time holds the task back like one that is not ready (law 2: no record, no call), where the team
fails closed; one that has no control socket, or refuses the stamp, holds up nothing, because
waiting would not mend it, and its records then lack the task. Whatever was not taken is on record
and in the event log. Driven by the journal: `deck.session` makes it, seats ask it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from deck.board import State, Task
from deck.desk import Desk
from deck.entries import Entry, Op, TaskState
from deck.gateway import Stamped, StampKind
from deck.moves import IN_FLIGHT
from shared.paths import is_path_safe_role

#: A role may still be at a task that ran out of time.
_AT_WORK = IN_FLIGHT | {TaskState.TIMED_OUT}
_CHANGES = frozenset({Op.TASK_MOVED, Op.REPORT_ADDED})


@dataclass(slots=True)
class Stamping:
    """The stamps of one session. Used from one event loop."""

    desk: Desk
    #: What the gateway was told last, by role.
    _told: dict[str, str] = field(default_factory=dict)
    #: Tasks about to be typed: the board does not show them at work yet.
    _coming: dict[str, str] = field(default_factory=dict)
    #: Roles whose stamp the gateway did not take.
    _owed: set[str] = field(default_factory=set)
    #: One after the other, or a late answer could put an old task back.
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: How the last stamp went, of which role and task: recorded when it changes.
    _last: tuple[StampKind, str, str] = (StampKind.TAKEN, "", "")
    #: Set at the end of the session: nothing is followed any more.
    closed: bool = False

    async def start(self) -> None:
        """Name every role to the gateway, before any of them runs."""
        self.desk.journal.watch(self._noticed)
        self._owed.update(self._roles())
        await self._pay()

    async def before(self, task: Task) -> str:
        """Stamp a task that is about to be typed; return why it has to wait, "" if not."""
        if not self._concerns(task.role):
            return ""
        self._coming[task.role] = task.id
        stamped = await self._send(task.role)
        if stamped.kind is StampKind.FAILED and self.desk.gateway.fail_closed:
            self._coming.pop(task.role, None)
            return f"the gateway does not take the stamp of {task.id}: {stamped.reason}"
        return ""

    def after(self, task: Task) -> None:
        """Let the board decide again: the task was typed, or is not wanted any more."""
        self._coming.pop(task.role, None)
        self._follow(task.role)

    def again(self) -> None:
        """The gateway was away: what it was told before may be forgotten."""
        self._owed.update(self._told)
        self._told.clear()

    def join(self, roles: Iterable[str]) -> None:
        """Name to the gateway whoever is new to it, soon."""
        self._owed.update(role for role in roles if self._concerns(role))
        if not self._turn.locked():
            self.desk.job(self._pay())

    async def admit(self, role: str) -> None:
        """Name to the gateway a role that joins the team, before it runs."""
        if self._concerns(role):
            await self._send(role)

    async def dismiss(self, role: str) -> None:
        """Take a role that has left the team out of the session."""
        if self._concerns(role):
            async with self._turn:
                self._told.pop(role, None)
                self._owed.discard(role)
                await self.desk.gateway.stamp(self.desk.state.run, role, None)

    def tick(self) -> None:
        """Send what a gateway that is ready is still owed."""
        if self._owed and self.desk.gateway.last.ready and not self._turn.locked():
            self.desk.job(self._pay())

    async def leave(self) -> None:
        """Take the roles out of the session, as far as the gateway listens."""
        run, gateway = self.desk.state.run, self.desk.gateway
        for role in list(self._told):
            if (await gateway.stamp(run, role, None)).kind is not StampKind.TAKEN:
                return

    # -- following the board --------------------------------------------------------------------

    def _noticed(self, entry: Entry, state: State) -> None:
        if entry.op in _CHANGES:
            task = state.tasks.get(entry.task or entry.id)
            if task is not None:
                self._follow(task.role)

    def _follow(self, role: str) -> None:
        if self.closed or not self._concerns(role):
            return
        if self._told.get(role) != self._wanted(role):
            self.desk.job(self._settle(role))

    async def _settle(self, role: str) -> None:
        await self._send(role)

    async def _pay(self) -> None:
        for role in sorted(self._owed):
            if (await self._send(role)).kind is StampKind.FAILED:
                return

    async def _send(self, role: str) -> Stamped:
        async with self._turn:
            wanted = self._wanted(role)
            if self._told.get(role) == wanted:
                return Stamped(StampKind.TAKEN)
            stamped = await self.desk.gateway.stamp(self.desk.state.run, role, wanted)
            if stamped.kind is StampKind.TAKEN:
                self._told[role] = wanted
                self._owed.discard(role)
            else:
                self._told.pop(role, None)
                self._owed.add(role)
            self._tell(role, wanted, stamped)
            return stamped

    def _tell(self, role: str, task: str, stamped: Stamped) -> None:
        """Write down what a record of the gateway will lack; without a socket, once."""
        before, self._last = self._last, (stamped.kind, role, task)
        repeated = before[0] is stamped.kind
        if stamped.kind is StampKind.TAKEN:
            if not repeated:
                self.desk.events.write("INFO", "gateway takes stamps again", role=role, task=task)
            return
        if before == self._last or (repeated and (stamped.kind is StampKind.ABSENT or not task)):
            return
        self.desk.events.write("WARN", "stamp not taken", role=role, id=task, reason=stamped.reason)
        self.desk.note(
            Entry(
                Op.STAMP_FAILED,
                self.desk.now(),
                role=role,
                task=task,
                state=stamped.kind,
                reason=stamped.reason,
            )
        )

    def _wanted(self, role: str) -> str:
        if role in self._coming:
            return self._coming[role]
        tasks = self.desk.state.tasks.values()
        at_work = [t for t in tasks if t.role == role and t.state in _AT_WORK]
        return max(at_work, key=lambda task: task.delivered_at).id if at_work else ""

    def _concerns(self, role: str) -> bool:
        return self.desk.gateway.enforced and is_path_safe_role(role)

    def _roles(self) -> Iterable[str]:
        return (name for name in self.desk.seats if self._concerns(name))
