"""Whatever happens in whatever order, a gate lets go only what enough people approved."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fake_desk import FakeDesk, started, team
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from deck.approvals import FRESH_SECONDS, Statement, sign
from deck.approvers import public_text
from deck.board import Gate
from deck.callers import Caller, Kind
from deck.config import Config, GatesConfig
from deck.entries import Decision, Entry, GateKind, Op, TaskState
from deck.gatekeeper import Changed, Durable, Gatekeeper, Rules
from deck.protocol import Command, Verb
from deck.replay import replay

PEOPLE = ("alice", "bob", "carol")
KEYS = {name: Ed25519PrivateKey.generate() for name in (*PEOPLE, "mallory")}
PUBLIC = {n: public_text(k.public_key().public_bytes_raw()) for n, k in KEYS.items()}
EXPIRE = 60 * 1_000_000
FORGERIES = (
    "unsigned", "another's key", "another gate", "another digest", "another reason",
    "another decision", "another run", "another kind", "long ago", "far ahead", "no base64",
)  # fmt: skip


class Gates(RuleBasedStateMachine):
    gates = Bundle("gates")

    @initialize(
        target=gates,
        approvals=st.sampled_from([1, 2, 2, 3]),
        expires=st.sampled_from([False, False, True]),
        kinds=st.lists(st.sampled_from(list(GateKind)), min_size=2, max_size=3),
    )
    def begin(self, approvals: int, expires: bool, kinds: list[GateKind]) -> Any:
        self.loop = asyncio.new_event_loop()
        self.approvals, self.expires = approvals, expires
        self.desk: FakeDesk = started(self.config(PEOPLE))
        #: What each gate is about now, and what it was about when it opened.
        self.world: dict[str, str] = {}
        self.opened: dict[str, str] = {}
        self.blocked = False
        self.valid: dict[str, set[str]] = {}
        self.panel: tuple[str, ...] = PEOPLE
        self.released: list[str] = []
        self.keeper = self.keep()
        return multiple(*(self.open_one(kind) for kind in kinds))

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()

    def config(self, people: tuple[str, ...]) -> Config:
        return team(
            approvers={name: PUBLIC[name] for name in people},
            gates=GatesConfig(expire=60.0 if self.expires else None, approvals=self.approvals),
        )

    def keep(self) -> Gatekeeper:
        keeper = Gatekeeper(self.desk.as_desk)
        for kind in GateKind:
            keeper.serve(kind, Rules(self.obstacle, self.present, self.follow))
        return keeper

    def obstacle(self, gate: Gate) -> str:
        return "coder is not running" if self.blocked else ""

    async def present(self, gate: Gate) -> str:
        if not self.world[gate.id]:
            raise Changed("it is gone")
        return self.world[gate.id]

    async def follow(self, gate: Gate, why: str, durable: Durable) -> None:
        await durable
        if gate.decision is Decision.APPROVED:
            self.released.append(gate.id)

    def run(self, work: Any) -> Any:
        async def steps() -> Any:
            result = await work
            await self.desk.settle()
            return result

        return self.loop.run_until_complete(steps())

    # -- what happens ---------------------------------------------------------------------------

    @precondition(lambda self: len(self.world) < 4)
    @rule(target=gates, kind=st.sampled_from(list(GateKind)))
    def open(self, kind: GateKind) -> str:
        return self.open_one(kind)

    def open_one(self, kind: GateKind) -> str:
        async def work() -> str:
            task = self.desk.state.next_task_id()
            gated = kind is GateKind.ENTRY
            await self.desk.record(
                Entry(
                    Op.TASK_ADDED,
                    self.desk.clock,
                    id=task,
                    role="coder",
                    state=TaskState.GATED if gated else TaskState.QUEUED,
                )
            )
            digest = f"digest {task}"
            gate, durable = self.keeper.open(
                kind, digest, task="" if kind is GateKind.ROSTER else task
            )
            self.world[gate] = self.opened[gate] = digest
            self.valid[gate] = set()
            await durable
            return gate

        gate: str = self.run(work())
        return gate

    @rule(gate=gates, now=st.sampled_from(["as before", "other", ""]))
    def change(self, gate: str, now: str) -> None:
        self.world[gate] = self.opened[gate] if now == "as before" else now

    @rule(blocked=st.sampled_from([False, False, True]))
    def block(self, blocked: bool) -> None:
        self.blocked = blocked

    @rule(seconds=st.sampled_from([1, 5, 45]))
    def wait(self, seconds: int) -> None:
        self.desk.clock += seconds * 1_000_000
        self.run(self.keeper.tick())
        for gate in self.desk.state.gates.values():
            late = bool(gate.until) and self.desk.clock >= gate.until
            assert not (late and gate.decision is Decision.OPEN)

    @rule(seconds=st.sampled_from([5, 45]))
    def wait_without_a_tick(self, seconds: int) -> None:
        self.desk.clock += seconds * 1_000_000

    @rule(people=st.sampled_from([PEOPLE, ("alice", "bob"), ("bob", "carol"), ("carol",), ()]))
    def crash(self, people: tuple[str, ...]) -> None:
        self.desk = self.desk.crashed(self.config(people))
        self.panel = people
        self.keeper = self.keep()

    @rule(gate=gates, who=st.sampled_from(PEOPLE))
    def approve(self, gate: str, who: str) -> None:
        before = self.desk.state.gates[gate]
        late = bool(before.until) and self.desk.clock >= before.until
        self.deliver(gate, who, Verb.APPROVE, "")
        after = self.desk.state.gates[gate]
        assert after.decision is not Decision.OPEN or not late
        if after.decision is Decision.APPROVED and before.decision is Decision.OPEN:
            assert {given.approver for given in after.approvals} <= set(self.panel)
            assert self.world[gate] == self.opened[gate]
        if who in self.panel and self.can_be_approved(before):
            self.valid[gate].add(who)
            enough = len(self.valid[gate]) >= self.needed(before)
            possible = self.needed(before) <= len(self.panel)
            assert (after.decision is Decision.APPROVED) == (enough and possible)

    @rule(gate=gates, who=st.sampled_from(PEOPLE))
    def reject(self, gate: str, who: str) -> None:
        before = self.desk.state.gates[gate]
        self.deliver(gate, who, Verb.REJECT, "")
        if before.decision is Decision.OPEN and who in self.panel:
            decided = self.desk.state.gates[gate].decision
            assert decided in (Decision.REJECTED, Decision.VOID)

    @rule(gate=gates, who=st.sampled_from(list(KEYS)), how=st.sampled_from(FORGERIES))
    def forge(self, gate: str, who: str, how: str) -> None:
        before = self.desk.state.gates[gate]
        answer = self.deliver(gate, who, Verb.APPROVE, how)
        assert answer["status"] == "error"
        after = self.desk.state.gates[gate]
        assert after == before or after.decision is Decision.VOID

    # -- how -----------------------------------------------------------------------------------

    def needed(self, gate: Gate) -> int:
        return max(gate.needed, self.approvals)

    def can_be_approved(self, gate: Gate) -> bool:
        late = bool(gate.until) and self.desk.clock >= gate.until
        strangers = {given.approver for given in gate.approvals} - set(self.panel)
        unchanged = self.world[gate.id] == self.opened[gate.id]
        is_open = gate.decision is Decision.OPEN
        possible = self.needed(gate) <= len(self.panel)
        return is_open and not (late or strangers or self.blocked) and unchanged and possible

    def deliver(self, gate: str, who: str, verb: Verb, how: str) -> dict[str, Any]:
        present = self.desk.state.gates[gate]
        statement = Statement(
            run=self.desk.state.run,
            gate=gate,
            kind=present.kind,
            digest=present.digest,
            decision="approved" if verb is Verb.APPROVE else "rejected",
            reason="fine",
            signed_at=self.desk.clock,
        )
        off = (FRESH_SECONDS + 1) * 1_000_000
        signed_at = {"long ago": self.desk.clock - off, "far ahead": self.desk.clock + off}.get(
            how, self.desk.clock
        )
        changes: dict[str, Any] = {
            "another gate": {"gate": gate + "0"},
            "another digest": {"digest": "other"},
            "another reason": {"reason": "not fine"},
            "another decision": {"decision": "rejected" if verb is Verb.APPROVE else "approved"},
            "another run": {"run": "run-0"},
            "another kind": {"kind": "other"},
        }.get(how, {"signed_at": max(signed_at, 0)})
        statement = replace(statement, **changes)
        others = [name for name in KEYS if name != who]
        sig = sign(KEYS[others[0] if how == "another's key" else who], statement)
        command = Command(
            verb,
            id=gate,
            reason="fine",
            approver=who,
            sig={"unsigned": "", "no base64": "%" + sig[1:]}.get(how, sig),
            signed_at=statement.signed_at,
        )
        answer: dict[str, Any] = json.loads(
            self.run(self.keeper.decide(command, Caller(Kind.OPERATOR)))
        )
        return answer

    # -- what must hold ------------------------------------------------------------------------

    @invariant()
    def only_enough_valid_approvals_release(self) -> None:
        if not hasattr(self, "desk"):
            return
        assert len(self.released) == len(set(self.released))
        for gate in self.desk.state.gates.values():
            approved = gate.decision is Decision.APPROVED
            assert approved == (gate.id in self.released)
            if approved:
                names = [given.approver for given in gate.approvals]
                assert len(set(names)) == len(names) >= max(gate.needed, self.approvals)
                assert set(names) <= self.valid[gate.id]
            task = self.desk.state.tasks.get(gate.task)
            if gate.kind is GateKind.ENTRY and task is not None:
                assert approved == (task.state is TaskState.QUEUED)

    @invariant()
    def a_replay_shows_the_same(self) -> None:
        if hasattr(self, "desk"):
            assert replay(self.desk.journal.entries) == self.desk.state


TestGates = Gates.TestCase
TestGates.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
