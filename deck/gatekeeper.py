"""The gatekeeper: opens gates of every kind, takes decisions, and lets follow what follows.

Owns the life of a gate. Invariants: a gate is decided once, by its id, by those who may
(`deck.approvals`); an approval holds only for what the gate was opened about
(`deck.gates.digest`), anything else voids it, and so does time; the decision is durable before its
effect. What a gate of one kind is about, and what follows from its decision, is told by whoever
serves that kind. `deck.session` dispatches the verbs here and calls `tick`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from deck import gates
from deck.approvals import Ballot, Panel, Refused
from deck.approvers import DECK_NAME
from deck.board import Gate
from deck.callers import Caller
from deck.desk import Desk
from deck.entries import Decision, Entry, GateKind, Op
from deck.gate_watch import GateWatch
from deck.journal import JournalFailed
from deck.moves import IllegalMove
from deck.protocol import Command, Verb, error, ok

#: A durable record on its way.
Durable = asyncio.Future[Any]


class Changed(Exception):
    """What a gate was opened about is not there any more; the text says what changed."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What one kind of gate is about, told by whoever opens such gates."""

    #: Why the gate cannot be approved right now and stays open; "" when it can.
    obstacle: Callable[[Gate], str]
    #: The commitment to what the gate is about, as it is now. Raises Changed.
    present: Callable[[Gate], Awaitable[str]]
    #: Carries out a decision and tells the start role of all but an approval: the decided gate,
    #: the reason, the decision's record on its way.
    follow: Callable[[Gate, str, Durable], Awaitable[None]]
    #: Whether a file at the gate's path with these bytes is what the gate is about; None where the
    #: path is no part of that.
    holds: Callable[[Gate, bytes], Awaitable[bool]] | None = None


@dataclass(slots=True)
class Gatekeeper:
    """The gates of one session. Used from one event loop."""

    desk: Desk
    #: Who decides. Fixed from the start: a team file that is changed later adds nobody.
    panel: Panel = field(init=False)
    watch: GateWatch = field(init=False)
    _rules: dict[GateKind, Rules] = field(default_factory=dict)
    _rung: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Take the panel from the team file as it is now."""
        self.panel = Panel.of(self.desk.config)
        self.watch = GateWatch(self.desk, self._change_of)

    def serve(self, kind: GateKind, rules: Rules) -> None:
        """Let gates of a kind follow these rules."""
        self._rules[kind] = rules

    # -- opening --------------------------------------------------------------------------------

    def open(
        self,
        kind: GateKind,
        digest: str,
        *,
        task: str = "",
        role: str = "",
        path: str = "",
        shown: str = "",
        why: str = "",
    ) -> tuple[str, Durable]:
        """Open a gate; return its id and its record on its way. No await, so that whatever else is
        recorded in the same step has the next place. Raises IllegalMove or JournalFailed.

        `digest` commits to what is approved, `path` and `shown` (a text in the store) are what a
        person looks at, `why` says why a person has to. Once it is durable, on_gate is rung.
        """
        gate_id, now = self.desk.state.next_gate_id(), self.desk.now()
        entry = Entry(
            Op.GATE_OPENED,
            now,
            id=gate_id,
            task=task,
            role=role,
            state="" if kind is GateKind.ENTRY else kind,
            ref=digest,
            path=path,
            shown=shown,
            reason=why,
            until=now + self.panel.expire if self.panel.expire else 0,
            count=self.needed(role, task),
        )
        durable = self.desk.journal.record(entry)
        self.desk.job(self._ring_when(gate_id, durable))
        return gate_id, durable

    def needed(self, role: str, task: str) -> int:
        """Return how many approvals a gate about this role and task needs. A team file that was
        changed and reloaded may ask for more than the one at the start, never for less."""
        about = self.desk.state.tasks.get(task)
        roles = (role, about.role if about is not None else "")
        least = Panel.of(self.desk.config).needed(*roles)
        return self.panel.needed(*roles, least=least)

    async def _ring_when(self, gate_id: str, durable: Durable) -> None:
        # Whoever waits for the record must not lose it with this job.
        await asyncio.shield(durable)
        gate = self.desk.state.gates[gate_id]
        task = self.desk.state.tasks.get(gate.task)
        label = self.desk.label(task) if task is not None else gate.why
        self.ring(gate_id, gate.role or (task.role if task is not None else ""), label)

    def ring(self, gate_id: str, role: str, label: str) -> None:
        """Tell people that a gate waits for them, once for each gate."""
        if gate_id not in self._rung:
            self._rung.add(gate_id)
            self.desk.hook("on_gate", self.desk.config.ui.on_gate, role, label)

    # -- deciding -------------------------------------------------------------------------------

    async def decide(self, command: Command, caller: Caller) -> bytes:
        """Approve or reject a gate; an approval holds only for what was shown."""
        desk = self.desk
        gate = desk.state.gates.get(command.id)
        if gate is None:
            return error(f"There is no gate {command.id[:20]!r}; see `choragos gates`.")
        if gate.decision is not Decision.OPEN:
            why = f"{gate.id} was {gate.decision} already; a gate is decided once."
            if gate.decision is Decision.VOID:
                why = f"{gate.id} is void: {gate.reason}"
            return await self._denied(command, caller, why)
        if stale := self.panel.staleness(desk.state.run, gate, desk.now()):
            await self._void(gate, stale)
            return error(f"{gate.id} is void: {stale}")
        ballot = _ballot(command, caller)
        try:
            voter = self.panel.voter(desk.state.run, gate, ballot, desk.now())
        except Refused as refused:
            return await self._denied(command, caller, str(refused))
        if ballot.decision is Decision.APPROVED:
            rules = self._rules.get(gate.kind)
            if rules is None:
                return error(f"{gate.id} is of a kind that this deck does not serve: {gate.kind}.")
            if changed := await self._changed(rules, gate):
                return await self._voided(gate, changed, voter, command, caller)
            if obstacle := rules.obstacle(gate):
                return error(f"{obstacle}; {gate.id} stays open until then.")
        return await self._count(gate.id, ballot, voter, command, caller)

    async def _count(
        self, gate_id: str, ballot: Ballot, voter: str, command: Command, caller: Caller
    ) -> bytes:
        """Record a ballot against the gate as it is by now, and let follow what follows."""
        desk, gate = self.desk, self.desk.state.gates[gate_id]
        about = desk.state.tasks.get(gate.task)
        try:
            entry = self.panel.ruling(
                gate, ballot, voter, about.role if about is not None else "", desk.now()
            )
            durable = desk.journal.record(entry)
        except (Refused, IllegalMove) as refused:
            return await self._denied(command, caller, str(refused))
        gate = desk.state.gates[gate_id]
        if entry.op is Op.GATE_VOTED:
            await durable
            desk.events.write("INFO", "gate vote", gate=gate.id, by=voter, needed=gate.needed)
            return ok(**self._told(gate, "voted"))
        await self._follow(gate, ballot.reason, durable)
        return ok(**self._told(gate, str(gate.decision)))

    def _told(self, gate: Gate, decision: str) -> dict[str, Any]:
        return {
            "gate": gate.id,
            "id": gate.task,
            "decision": decision,
            "kind": str(gate.kind),
            "role": gate.role,
            "needed": gate.needed,
            "approvals": [given.approver for given in gate.approvals],
        }

    async def misfit(self, gate: Gate, body: bytes | None) -> str:
        """Return in words why what a person is shown is not what an open gate is about, or "";
        `body` is what was read at the gate's path, None where nothing was."""
        rules = self._rules.get(gate.kind)
        if rules is None or gate.decision is not Decision.OPEN:
            return ""
        if body is not None and rules.holds is not None and not await rules.holds(gate, body):
            return f"{gate.path} is not what the gate was opened about"
        return await self._changed(rules, gate)

    async def _change_of(self, gate: Gate) -> str:
        return await self.misfit(gate, None)

    async def _changed(self, rules: Rules, gate: Gate) -> str:
        try:
            present = await rules.present(gate)
        except Changed as changed:
            return str(changed)
        same = gates.still_valid(gate, present) is Decision.APPROVED
        return "" if same else "what it is about was changed since the gate opened"

    async def _voided(
        self, gate: Gate, why: str, voter: str, command: Command, caller: Caller
    ) -> bytes:
        try:
            await self._void(gate, why, voter)
        except IllegalMove as race:
            return await self._denied(command, caller, str(race))
        return error(f"{gate.id} is void: {why}")

    async def _void(self, gate: Gate, why: str, sender: str = DECK_NAME) -> None:
        """End an open gate without an approval. Raises IllegalMove or JournalFailed."""
        entry = Entry(
            Op.GATE_DECIDED,
            self.desk.now(),
            id=gate.id,
            task=gate.task,
            state=Decision.VOID,
            sender=sender,
            reason=why,
            ref=gate.digest,
        )
        durable = self.desk.journal.record(entry)
        self.desk.events.write("WARN", "gate void", gate=gate.id, kind=gate.kind, reason=why)
        await self._follow(self.desk.state.gates[gate.id], why, durable)

    async def drop(self, gate: Gate, why: str) -> None:
        """Void an open gate whose matter is gone; one that is decided is left as it is. Raises
        JournalFailed."""
        with contextlib.suppress(IllegalMove):
            await self._void(gate, why)

    async def _follow(self, gate: Gate, why: str, durable: Durable) -> None:
        self.desk.changed_gates.pop(gate.id, None)
        rules = self._rules.get(gate.kind)
        if rules is not None:
            await rules.follow(gate, why, durable)
        else:
            self.desk.notify(f"{gate.id} ({gate.kind}) was {gate.decision}. {why}")
        await durable

    async def _denied(self, command: Command, caller: Caller, why: str) -> bytes:
        """Record a decision that cannot count, and say why."""
        desk = self.desk
        await desk.record(
            Entry(
                Op.DENIED,
                desk.now(),
                id=command.id,
                sender=caller.name,
                state=command.verb,
                reason=why,
                task=desk.state.gates[command.id].task,
            )
        )
        desk.events.write(
            "WARN", "command refused", cmd=command.verb, **{"from": caller.name}, reason=why
        )
        return error(why)

    # -- what time does -------------------------------------------------------------------------

    async def tick(self) -> None:
        """Void what cannot stay open, and notice what changed under an open gate; called once a
        second. Never raises."""
        waiting = [g for g in self.desk.state.gates.values() if g.decision is Decision.OPEN]
        for gate in waiting:
            if stale := self.panel.staleness(self.desk.state.run, gate, self.desk.now()):
                self.desk.job(self._end(gate, stale))
        await self.watch.look(waiting)

    async def _end(self, gate: Gate, why: str) -> None:
        try:
            await self._void(gate, why)
        except (IllegalMove, JournalFailed):
            # Decided meanwhile; or nothing can be recorded now, and the next tick tries again.
            return


def _ballot(command: Command, caller: Caller) -> Ballot:
    return Ballot(
        decision=Decision.APPROVED if command.verb is Verb.APPROVE else Decision.REJECTED,
        caller=caller.name,
        reason=command.reason,
        approver=command.approver,
        sig=command.sig,
        signed_at=command.signed_at,
    )
