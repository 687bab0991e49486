"""What an operator does to a running role: pause, resume, restart, answer; and enforcement.

Owns these verbs. Invariants: only an operator uses them (`deck.callers`), each is on record before
its effect, an answer only by its commitment; what was in the hands of a role that is started anew
is offered again or shown; turning enforcement off takes a reason and breaks no promise of the team
file (contracts/deck.md section 2). `deck.session` dispatches here, `deck.budgets` pauses.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from deck.callers import Caller
from deck.desk import Desk
from deck.endings import START_ERRORS
from deck.entries import Entry, Op, TaskState
from deck.metering import Metering
from deck.moves import IN_FLIGHT
from deck.pane.answering import NoAnswer, answer, check
from deck.pane.errors import PaneError
from deck.pane.pane import Pane
from deck.protocol import Command, error, ok
from deck.seats import Seat
from deck.stamping import Stamping
from deck.usage import Baseline

#: A worker that ran out of time may still show the question it waits with.
_ANSWERABLE: Final = IN_FLIGHT | {TaskState.TIMED_OUT}


#: Whoever asked has 5 s for the whole exchange.
RESTART_PATIENCE_SECONDS: Final = 4.0


class _NoSuch(Exception):
    """What a command names is not there; the text says so."""


@dataclass(slots=True)
class Operating:
    """The operator's hand on one session."""

    desk: Desk
    metering: Metering
    stamping: Stamping

    # -- pause and resume -----------------------------------------------------------------------

    async def pause(self, command: Command, caller: Caller) -> bytes:
        """Stop every process of a role without ending it."""
        try:
            seat = self._seat(_name(command))
        except _NoSuch as wrong:
            return error(str(wrong))
        if seat.name in self.desk.state.paused:
            return error(
                f"{seat.name} is paused already; `choragos resume {seat.name}` lets it go on."
            )
        why = await self.hold(seat, caller.name, command.reason)
        return error(f"{why}.") if why else ok(role=seat.name, state="paused")

    async def hold(self, seat: Seat, sender: str, reason: str) -> str:
        """Pause a role for whoever may, a person or its budget; return why that cannot be, or "".

        What is delegated to it waits and its time limits stand still. Raises JournalFailed.
        """
        desk, role = self.desk, seat.name
        if seat.pane is None or not seat.alive:
            return f"{role} is not running"
        if role not in desk.state.paused:
            await desk.record(
                Entry(Op.ROLE_PAUSED, desk.now(), role=role, reason=reason, sender=sender)
            )
            desk.events.write("INFO", "role paused", role=role, reason=reason or None)
        await seat.pane.pause()
        return ""

    async def resume(self, command: Command, caller: Caller) -> bytes:
        """Let a paused role go on."""
        desk = self.desk
        try:
            seat = self._seat(_name(command))
        except _NoSuch as wrong:
            return error(str(wrong))
        if seat.name not in desk.state.paused:
            return error(f"{seat.name} is not paused.")
        entry = Entry(
            Op.ROLE_RESUMED, desk.now(), role=seat.name, sender=caller.name, reason=command.reason
        )
        await desk.record(entry)
        if seat.pane is not None:
            await seat.pane.resume()
        desk.events.write("INFO", "role resumed", role=seat.name, **{"from": caller.name})
        return ok(role=seat.name, state="resumed")

    # -- restart --------------------------------------------------------------------------------

    async def restart(self, command: Command, caller: Caller) -> bytes:
        """End a role's process and start it anew."""
        try:
            seat = self._seat(_name(command))
        except _NoSuch as wrong:
            return error(str(wrong))
        restarting = asyncio.ensure_future(self._restart(seat, caller))
        done, _ = await asyncio.wait({restarting}, timeout=RESTART_PATIENCE_SECONDS)
        if done:
            return restarting.result()
        # Carried to its end by itself: it takes longer than whoever asked may wait.
        self.desk.job(_finished(restarting))
        return ok(role=seat.name, going_on=True)

    async def _restart(self, seat: Seat, caller: Caller) -> bytes:
        desk = self.desk
        why = f"{seat.name} was restarted by {caller.name}"
        try:
            renewed = await seat.renew(why, reset=True)
        except START_ERRORS as failure:
            desk.events.write("ERROR", "restart failed", role=seat.name, err=str(failure))
            return error(
                f"{seat.name} could not be started again: {_clause(failure)}. What was in its "
                "hands is lost; see `choragos board`."
            )
        desk.events.write(
            "INFO",
            "role restarted",
            role=seat.name,
            **{"from": caller.name},
            again=",".join(renewed.again) or None,
            lost=",".join(renewed.lost) or None,
        )
        lost = [t.id for t in desk.state.tasks.values() if _is_lost(t.role, t.state, seat.name)]
        pid = seat.pane.pid if seat.pane is not None else 0
        return ok(role=seat.name, pid=pid, again=renewed.again, lost=lost, proof=renewed.proof)

    # -- answer ---------------------------------------------------------------------------------

    async def answer(self, command: Command, caller: Caller) -> bytes:
        """Type an answer into a pane that shows a question."""
        desk = self.desk
        try:
            seat, task_id = self._asking(command.id)
            if seat.pane is None:
                raise NoAnswer(f"{seat.name} is not running")
            check(seat.pane, command.task, command.keys)
            await self._record_answer(seat.name, task_id, command, caller, seat.pane)
            done = await answer(seat.pane, command.task, command.keys)
        except _NoSuch as wrong:
            return error(str(wrong))
        except (NoAnswer, PaneError) as wrong:
            return error(f"{wrong}.")
        desk.events.write("INFO", "question answered", role=seat.name, id=task_id or None)
        return ok(role=seat.name, id=task_id, enter=done.entered, state=str(done.state))

    async def _record_answer(
        self, role: str, task_id: str, command: Command, caller: Caller, pane: Pane
    ) -> None:
        """What is on a screen, and what is typed there, may be secret: only commitments."""
        desk = self.desk
        said = "\0".join((command.task, *command.keys)).encode("utf-8", "replace")
        question = pane.status.question.encode("utf-8", "replace")
        await desk.record(
            Entry(
                Op.ANSWERED,
                desk.now(),
                role=role,
                sender=caller.name,
                task=task_id,
                ref=desk.texts.commit(said),
                shown=desk.texts.commit(question),
            )
        )

    def _asking(self, name: str) -> tuple[Seat, str]:
        """Return the seat that a task or a role names, and the task. Raises _NoSuch."""
        task = self.desk.state.tasks.get(name)
        if task is None:
            return self._seat(name), ""
        if task.state not in _ANSWERABLE:
            raise _NoSuch(
                f"{task.id} is {task.state}, so what {task.role} asks is not about it; answer "
                f"{task.role} by its name if you mean to."
            )
        return self._seat(task.role), task.id

    # -- enforcement ----------------------------------------------------------------------------

    async def enforce(self, command: Command, caller: Caller) -> bytes:
        """Turn the gateway's enforcement on or off."""
        desk, wanted = self.desk, command.id
        if wanted not in ("on", "off"):
            return error('enforce takes "on" or "off".')
        if objection := self.objection(command):
            desk.events.write("WARN", "enforcement not changed", reason=objection)
            denied = Entry(
                Op.DENIED, desk.now(), sender=caller.name, state=command.verb, reason=objection
            )
            await desk.record(denied)
            return error(objection)
        if desk.gateway.enforced == (wanted == "on"):
            return ok(enforcement=wanted, changed=False)
        await desk.record(
            Entry(
                Op.ENFORCEMENT_CHANGED,
                desk.now(),
                sender=caller.name,
                state=wanted,
                reason=command.reason,
            )
        )
        desk.events.write(
            "WARN" if wanted == "off" else "INFO",
            f"sphragis enforcement {wanted}",
            **{"from": caller.name},
            reason=command.reason or None,
        )
        if wanted == "off":
            await self._turn_off()
            return ok(enforcement=wanted, changed=True)
        unrouted = await self._turn_on()
        return ok(enforcement=wanted, changed=True, up=desk.gateway.last.ready, unrouted=unrouted)

    def objection(self, command: Command) -> str:
        """Return why enforcement may not be changed so, "" when it may."""
        if command.id == "on":
            return ""
        if not command.reason.strip():
            return (
                "Turning enforcement off needs a reason, which is kept: "
                '`choragos enforce off --reason "<why>"`.'
            )
        if self.desk.config.approvers:
            return (
                "The team file names approvers, and nobody signs for this; say enabled = false in "
                "[sphragis] and start the session again to work without the gateway."
            )
        for role in self.desk.config.roles:
            promise = "require_routing" if role.require_routing else "wall"
            if role.require_routing or role.wall:
                return (
                    f"The team file says {promise} = true for {role.name}, which needs the "
                    "gateway; take that out and restart the session to work without it."
                )
        return ""

    async def _turn_off(self) -> None:
        # What was used under enforcement is counted before the counting stops.
        await self.metering.take()
        self.desk.gateway.enforced = False

    async def _turn_on(self) -> list[str]:
        """Enforce from now on; return the roles that were started without the gateway's address.

        They keep running and get no work until they are restarted.
        """
        desk, gateway = self.desk, self.desk.gateway
        seats = [seat for seat in desk.seats.values() if not seat.removed]
        gateway.enforced = True
        readiness = await gateway.probe()
        if not any(seat.routed for seat in seats):
            # What a gateway counted before it was ours is not ours.
            await self.metering.start(Baseline.ATTACHED, desk.state.usage)
        self.stamping.join(seat.name for seat in seats)
        if not readiness.ready and gateway.child is None:
            desk.job(self._bring_up())
        return [seat.name for seat in seats if seat.alive and not seat.routed]

    async def _bring_up(self) -> None:
        desk, gateway = self.desk, self.desk.gateway
        readiness = await gateway.ensure(
            lambda one: desk.note(Entry(Op.GATEWAY_STARTED, desk.now(), pid=one.pid, born=one.born))
        )
        # An operator has said so: it does not go off again by itself where nothing answers.
        gateway.enforced = True
        if readiness.ready:
            desk.events.write("INFO", "gateway ready", addr=gateway.url)
        else:
            desk.events.write("ERROR", "gateway start failed", reason=readiness.reason)

    # -- names ----------------------------------------------------------------------------------

    def _seat(self, name: str) -> Seat:
        seat = self.desk.seats.get(name)
        present = [one.name for one in self.desk.seats.values() if not one.removed]
        if seat is None:
            raise _NoSuch(f"There is no role {name[:64]!r}; the roles are {', '.join(present)}.")
        if seat.removed:
            raise _NoSuch(f"{name} was removed from the team; the roles are {', '.join(present)}.")
        return seat


async def _finished(work: asyncio.Future[bytes]) -> None:
    await work


def _name(command: Command) -> str:
    return command.id or next(iter(command.to), "")


def _is_lost(role: str, state: TaskState, wanted: str) -> bool:
    return role == wanted and state is TaskState.LOST


def _clause(failure: Exception) -> str:
    return str(failure).rstrip(".")
