"""Reload: the running team converges on its team file.

Owns how a plan of `deck.convergence` is checked and carried out (contracts/deck.md section 1.15).
Invariants: what is in force is on record before anything follows from it, and is exchanged in one
step of the event loop; a file that cannot be taken whole changes nothing; a role that leaves loses
nothing unseen, and its name stays for reports that come late. `deck.session` dispatches `reload`
here, `deck.proposals` lets a role join.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from deck.briefing import Briefing
from deck.callers import Caller
from deck.config import Config, ConfigError, Role
from deck.convergence import Plan, converge, objection
from deck.desk import Desk
from deck.endings import START_ERRORS
from deck.entries import Decision, Entry, GateKind, Op, TaskState
from deck.gate_rules import differences
from deck.gatekeeper import Durable, Gatekeeper
from deck.merging import Merging
from deck.pane.errors import PaneError
from deck.protocol import Command, Verb, error, ok, one_line
from deck.recorded import config_text
from deck.roster import NotOnPath, find_program
from deck.routing import NotRouted, refuse_unrouted
from deck.seats import Seat
from deck.sessions import SessionError
from deck.stamping import Stamping
from deck.team import Team

#: Whoever asked has 5 s for the whole exchange; what takes longer is told by the event log.
PATIENCE_SECONDS: Final = 4.0
#: What is left of it in any case for roles to be started.
LEAST_PATIENCE_SECONDS: Final = 0.5
#: Work may be handed out while a plan is checked; then it is made anew.
PLANS: Final = 5


class CannotReload(Exception):
    """The team cannot become that of the file; the text is a clause that says why."""


@dataclass(slots=True)
class Reloading:
    """The changes of one session's team. Used from one event loop."""

    desk: Desk
    gatekeeper: Gatekeeper
    merging: Merging
    stamping: Stamping
    briefing: Briefing
    #: Reads the team file again. Blocks. Raises ConfigError.
    read: Callable[[], Config]
    team: Team | None = None
    #: One change of the team at a time.
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _carrying: asyncio.Task[None] | None = None

    async def reload(self, command: Command, caller: Caller) -> bytes:
        """Read the team file again and converge on it."""
        desk = self.desk
        if desk.config.path is None:
            return await self._refuse(
                caller,
                "the built-in team has no file; write one with `choragos init` and start the "
                "session again",
            )
        try:
            async with self._turn:
                new = await asyncio.to_thread(self.read)
                if why := objection(desk.config, new):
                    raise CannotReload(why)
                before = config_text(desk.config)
                plan, failed, going_on = await self._converge(new, caller.name)
        except (ConfigError, CannotReload) as wrong:
            return await self._refuse(caller, str(wrong).rstrip("."))
        gates = differences(before, config_text(desk.config))
        for change in gates:
            desk.events.write("WARN", "gate rules changed", change=change)
        return ok(
            gates=gates,
            added=plan.added,
            removed=plan.removed,
            respawned=plan.respawned,
            changed=plan.changed,
            skipped=[{"role": one.role, "why": one.why} for one in plan.skipped],
            needs_restart=plan.needs_restart,
            failed=[{"role": role, "why": why} for role, why in failed.items()],
            going_on=going_on,
        )

    async def join(self, role: Role, source: bytes, sender: str, write: Callable[[], None]) -> str:
        """Take one more role into the team, and nothing else of the file, whose text is `source`
        once `write` (which blocks) has been called, after all checks; return why its process does
        not run, "" when it does. Raises CannotReload."""
        async with self._turn:
            config = self.desk.config
            if config.role(role.name) is not None:
                raise CannotReload(f"there is a role named {role.name} already")
            one_more = replace(config, roles=(*config.roles, role), source=source)
            _, failed, _ = await self._converge(one_more, sender, write)
        return failed.get(role.name, "")

    async def _refuse(self, caller: Caller, why: str) -> bytes:
        said = one_line(why, 1000)
        self.desk.events.write("WARN", f"reload: {said}", **{"from": caller.name})
        denied = Entry(
            Op.DENIED, self.desk.now(), sender=caller.name, state=Verb.RELOAD, reason=said
        )
        await self.desk.record(denied)
        return error(f"Nothing was changed: {said}.")

    # -- planning -------------------------------------------------------------------------------

    async def _converge(
        self, new: Config, sender: str, write: Callable[[], None] | None = None
    ) -> tuple[Plan, dict[str, str], bool]:
        """Return what was planned, which roles could not be started and why, and whether roles
        are still being started. `_turn` is held. Raises CannotReload."""
        desk, loop = self.desk, asyncio.get_running_loop()
        until = loop.time() + PATIENCE_SECONDS
        if self._carrying is not None:
            await asyncio.wait({self._carrying}, timeout=PATIENCE_SECONDS)
            if not self._carrying.done():
                raise CannotReload("the change before is still going on; try again in a moment")
        for _ in range(PLANS):
            plan = converge(desk.config, new, self._busy)
            await self._check(plan)
            digest = await asyncio.to_thread(desk.journal.keep, config_text(plan.config))
            if converge(desk.config, new, self._busy) == plan:
                break
        else:
            raise CannotReload("work is handed out faster than the team can change; try again")
        if write is not None:
            await asyncio.to_thread(write)
        await asyncio.gather(*self._exchange(plan, digest, sender))
        failed: dict[str, str] = {}
        self._carrying = job = desk.job(self._carry_out(plan, failed))
        patience = max(LEAST_PATIENCE_SECONDS, until - loop.time())
        _, pending = await asyncio.wait({job}, timeout=patience)
        return plan, dict(failed), bool(pending)

    def _busy(self, name: str) -> str:
        """Why a role's process may not be ended for a change of its settings."""
        state, seat = self.desk.state, self.desk.seats[name]
        if name in state.paused:
            return f"it is paused; `choragos resume {name}` first"
        for task in state.open_tasks(name):
            return f"{task.id} is {task.state}; reload again once it is over"
        for gate in state.gates.values():
            about = gate.role or (state.tasks[gate.task].role if gate.task in state.tasks else "")
            if gate.decision is Decision.OPEN and (seat.is_start or about == name):
                return f"{gate.id} waits for a decision; reload again once it is made"
        return ""

    async def _check(self, plan: Plan) -> None:
        """Keep for those who join or begin anew what a start keeps. Raises CannotReload."""
        desk = self.desk
        begins = {*plan.added, *plan.respawned}
        roles = [role for role in plan.config.roles if role.name in begins]
        assert self.team is not None, "the session has made its team"
        try:
            for role in roles:
                find_program(role, desk.environ)
            refuse_unrouted(plan.config, desk.environ, enforced=desk.gateway.enforced)
            if any(role.worktree for role in roles):
                await self.merging.prepare(plan.config)
            await self.team.wall.admit(roles)
        except (NotOnPath, NotRouted, SessionError, PaneError, OSError) as wrong:
            raise CannotReload(str(wrong).rstrip(".")) from wrong

    def _exchange(self, plan: Plan, digest: str, sender: str) -> list[Durable]:
        """Put the new team on record and in force, in one step of the loop: no await."""
        desk, now = self.desk, self.desk.now()
        if desk.journal.failure is not None:
            raise CannotReload(f"it could not be recorded: {desk.journal.failure}")
        entries = [
            Entry(
                Op.CONFIG_SET,
                now,
                sender=sender,
                path=str(plan.config.path or ""),
                ref=desk.texts.commit(plan.config.source),
                digest=digest,
            )
        ]
        for op, names in (
            (Op.ROLE_REMOVED, plan.removed),
            (Op.ROLE_ADDED, plan.added),
            (Op.ROLE_CHANGED, (*plan.respawned, *plan.changed)),
        ):
            entries += [Entry(op, now, role=name, sender=sender) for name in names]
        entries.append(Entry(Op.RELOADED, now, sender=sender, reason=_words(plan)))
        durable: list[Durable] = [desk.journal.record(entry) for entry in entries]
        desk.config = plan.config
        for name in plan.removed:
            desk.seats[name].removed = True
        for role in plan.config.roles:
            self._seat(role, plan)
        return durable

    def _seat(self, role: Role, plan: Plan) -> None:
        assert self.team is not None, "the session has made its team"
        if role.name in plan.added:
            self.team.seat(role)
            return
        seat = self.desk.seats[role.name]
        seat.role = role
        if role.name in plan.respawned:
            # Work that is handed out from now on waits for the new process.
            seat.restarting = True
        elif seat.pane is not None:
            seat.pane.read_by(role.input_prompts, role.chrome_markers)

    # -- carrying out ---------------------------------------------------------------------------

    async def _carry_out(self, plan: Plan, failed: dict[str, str]) -> None:
        desk = self.desk
        await asyncio.gather(*(self._remove(desk.seats[name]) for name in plan.removed))
        if plan.added or plan.removed or plan.changed or plan.respawned:
            await self._brief()
        begins = {
            **{name: self._add(desk.seats[name]) for name in plan.added},
            **{name: self._respawn(desk.seats[name]) for name in plan.respawned},
        }
        found = zip(begins, await asyncio.gather(*begins.values()), strict=True)
        failed.update({name: why for name, why in found if why})
        if plan.added or plan.removed:
            changes = ", ".join([*(f"+{n}" for n in plan.added), *(f"-{n}" for n in plan.removed)])
            desk.notify(f"Team changed: {changes}. Read {self._context()} again for the list.")
        for skip in plan.skipped:
            desk.events.write("WARN", "reload: role skipped", role=skip.role, reason=skip.why)
        if plan.needs_restart:
            sections = ",".join(plan.needs_restart)
            desk.events.write("WARN", "reload: needs a restart", sections=sections)
        desk.events.write(
            "INFO",
            "reload applied",
            added=",".join(plan.added),
            removed=",".join(plan.removed),
            respawned=",".join(plan.respawned),
            changed=",".join(plan.changed) or None,
            failed=",".join(failed) or None,
        )

    async def _brief(self) -> None:
        """Without their new briefs the roles still have the ones before."""
        try:
            await self.briefing.brief_team(resumed=True)
        except OSError as failure:
            self.desk.events.write("ERROR", "briefs not written", err=str(failure))

    def _context(self) -> str:
        return f"{self.desk.start_seat.files}/{self.desk.start_seat.boot_file}"

    async def _add(self, seat: Seat) -> str:
        self._say_wall(seat)
        await self.stamping.admit(seat.name)
        self.desk.events.write("INFO", "role added", role=seat.name)
        try:
            await seat.start()
        except START_ERRORS as failure:
            return await self._give_up(seat, f"it could not be started: {failure}")
        return ""

    def _say_wall(self, seat: Seat) -> None:
        if seat.role.wall:
            self.desk.events.write("INFO", "wall proved", role=seat.name)

    async def _respawn(self, seat: Seat) -> str:
        self._say_wall(seat)
        try:
            await seat.renew(f"the settings of {seat.name} were changed", reset=True)
        except START_ERRORS as failure:
            self.desk.events.write("ERROR", "restart failed", role=seat.name, err=str(failure))
            return f"it could not be started anew: {failure}"
        return ""

    async def _give_up(self, seat: Seat, why: str) -> str:
        self.desk.events.write("ERROR", "start failed", role=seat.name, err=one_line(why))
        await seat.give_up(f"{seat.name}: {one_line(why)}")
        return why

    async def _remove(self, seat: Seat) -> None:
        """End a role that has left the team, with its gates and all that waits for it."""
        desk = self.desk
        why = f"{seat.name} was removed from the team"
        for gate in list(desk.state.gates.values()):
            task = desk.state.tasks.get(gate.task)
            about = gate.role or (task.role if task is not None else "")
            if about == seat.name and gate.kind is not GateKind.ROSTER:
                await self.gatekeeper.drop(gate, why)
        refused = []
        for task in list(desk.state.open_tasks(seat.name)):
            present = desk.state.tasks[task.id]
            if present.state is TaskState.QUEUED:
                await desk.move(present, TaskState.REFUSED, why)
                refused.append(task.id)
        lost = await seat.remove(why)
        await self.stamping.dismiss(seat.name)
        desk.events.write(
            "INFO",
            "role removed",
            role=seat.name,
            refused=",".join(refused) or None,
            lost=",".join(lost) or None,
        )
        if refused or lost:
            said = [f"lost: {', '.join(lost)}"] if lost else []
            said += [f"refused: {', '.join(refused)}"] if refused else []
            desk.notify(f"{why}; {'; '.join(said)}.")


def _words(plan: Plan) -> str:
    parts: tuple[tuple[str, Iterable[str]], ...] = (
        ("added", plan.added),
        ("removed", plan.removed),
        ("respawned", plan.respawned),
        ("changed", plan.changed),
        ("skipped", [skip.role for skip in plan.skipped]),
        ("needs restart", plan.needs_restart),
    )
    said = [f"{what}: {', '.join(names)}" for what, names in parts if list(names)]
    return one_line("; ".join(said), 2000) or "nothing to change"
