"""The gatekeeper: opens gates of every kind, takes decisions, and lets follow what follows.

Owns the life of a gate. Invariants: a gate is decided once, by its id, by an operator; an approval
holds only for what the gate was opened about (`deck.gates.digest`), anything else voids it; the
decision is durable before its effect. What a gate of one kind is about, and what follows from its
decision, is told by whoever serves that kind. `deck.session` dispatches the verbs here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from deck.board import Decision, Entry, Gate, GateKind, IllegalMove, Op
from deck.callers import Caller
from deck.desk import Desk
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
    #: Carries out a decision: the decided gate, the reason, the decision's record on its way.
    follow: Callable[[Gate, str, Durable], Awaitable[None]]


@dataclass(slots=True)
class Gatekeeper:
    """The gates of one session. Used from one event loop."""

    desk: Desk
    _rules: dict[GateKind, Rules] = field(default_factory=dict)

    def serve(self, kind: GateKind, rules: Rules) -> None:
        """Let gates of a kind follow these rules."""
        self._rules[kind] = rules

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
        person looks at, `why` says why a person has to.
        """
        gate_id = self.desk.state.next_gate_id()
        entry = Entry(
            Op.GATE_OPENED,
            self.desk.now(),
            id=gate_id,
            task=task,
            role=role,
            state="" if kind is GateKind.ENTRY else kind,
            ref=digest,
            path=path,
            shown=shown,
            reason=why,
        )
        return gate_id, self.desk.journal.record(entry)

    def ring(self, gate_id: str, role: str, label: str) -> None:
        """Tell people that a gate waits for them."""
        self.desk.hook("on_gate", self.desk.config.ui.on_gate, role, label)

    async def decide(self, command: Command, caller: Caller) -> bytes:
        """Approve or reject a gate; an approval holds only for what was shown."""
        desk = self.desk
        gate = desk.state.gates.get(command.id)
        if gate is None:
            return error(f"There is no gate {command.id[:20]!r}; see `choragos gates`.")
        if gate.decision is not Decision.OPEN:
            why = f"{gate.id} was {gate.decision} already; a gate is decided once."
            return await self._denied(command, caller, why)
        rules = self._rules[gate.kind]
        decision, why = Decision.REJECTED, command.reason
        if command.verb is Verb.APPROVE:
            decision, why = await self._verify(rules, gate, command.reason)
        if decision is Decision.APPROVED and (obstacle := rules.obstacle(gate)):
            return error(f"{obstacle}; {gate.id} stays open until then.")
        try:
            durable = desk.journal.record(
                Entry(
                    Op.GATE_DECIDED,
                    desk.now(),
                    id=gate.id,
                    task=gate.task,
                    state=decision,
                    sender=caller.name,
                    reason=why,
                    # What was decided about: the same as when the gate opened.
                    ref=gate.digest,
                )
            )
        except IllegalMove as race:
            return await self._denied(command, caller, str(race))
        await rules.follow(desk.state.gates[gate.id], why, durable)
        await durable
        if decision is Decision.VOID:
            return error(f"{gate.id} is void: {why}")
        return ok(gate=gate.id, id=gate.task, decision=str(decision))

    async def _verify(self, rules: Rules, gate: Gate, reason: str) -> tuple[Decision, str]:
        try:
            present = await rules.present(gate)
        except Changed as changed:
            return Decision.VOID, str(changed)
        if present != gate.digest:
            return Decision.VOID, "what it is about was changed since the gate opened"
        return Decision.APPROVED, reason

    async def _denied(self, command: Command, caller: Caller, why: str) -> bytes:
        """Record a decision that cannot count, and say why."""
        desk = self.desk
        await desk.record(
            Entry(
                Op.DENIED,
                desk.now(),
                sender=caller.name,
                state=command.verb,
                reason=why,
                task=desk.state.gates[command.id].task,
            )
        )
        return error(why)

    async def tick(self) -> None:
        """What time does to gates; called once a second."""
