"""The gatekeeper: expiry, changes, votes, signatures, bells, and gates of every kind."""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fake_desk import FakeDesk, started, team

from deck.approvals import Panel, Statement, is_signed, progress, sign
from deck.approvers import BadApprover, check_name, public_key, public_text
from deck.board import Approval, Gate
from deck.callers import Caller, Kind
from deck.config import Config, GatesConfig
from deck.durations import parse_duration
from deck.entries import Decision, Entry, GateKind, Op, TaskState
from deck.gatekeeper import Changed, Durable, Gatekeeper, Rules
from deck.gates import KIND_WORDS, BriefUnreadable, read_brief
from deck.journal import JournalFailed
from deck.moves import IllegalMove
from deck.protocol import Command, Verb
from deck.replay import apply

A = "A" * 43
OPERATOR = Caller(Kind.OPERATOR)
KEYS = {name: Ed25519PrivateKey.generate() for name in ("alice", "bob")}
PUBLIC = {n: public_text(k.public_key().public_bytes_raw()) for n, k in KEYS.items()}


class Served:
    """A gatekeeper whose gates are about `now`, for as long as nothing is in the way."""

    def __init__(self, config: Config, desk: FakeDesk | None = None) -> None:
        self.desk = desk or started(config)
        self.keeper = Gatekeeper(self.desk.as_desk)
        self.now: str | Changed = "digest"
        self.obstacle = ""
        self.looked = 0
        self.followed: list[tuple[str, Decision, str]] = []
        for kind in GateKind:
            self.keeper.serve(kind, Rules(lambda _: self.obstacle, self.present, self.follow))

    async def present(self, gate: Gate) -> str:
        self.looked += 1
        if isinstance(self.now, Changed):
            raise self.now
        return self.now

    async def follow(self, gate: Gate, why: str, durable: Durable) -> None:
        self.followed.append((gate.id, gate.decision, why))

    async def open(self, kind: GateKind = GateKind.ENTRY, **about: str) -> str:
        task = self.desk.state.next_task_id()
        state = TaskState.GATED if kind is GateKind.ENTRY else TaskState.QUEUED
        brief = about.pop("brief", "")
        entry = Entry(Op.TASK_ADDED, 2, id=task, role="coder", state=state, path=brief)
        await self.desk.record(entry)
        gate, durable = self.keeper.open(kind, "digest", task=task, **about)
        await durable
        await self.desk.settle()
        return gate

    async def decide(self, verb: Verb, gate: str, **fields: Any) -> dict[str, Any]:
        raw = await self.keeper.decide(Command(verb, id=gate, **fields), OPERATOR)
        await self.desk.settle()
        answer: dict[str, Any] = json.loads(raw)
        return answer

    async def sign(self, name: str, gate: str, verb: Verb = Verb.APPROVE) -> dict[str, Any]:
        return await self.decide(verb, gate, **self.signed(name, gate, verb))

    def signed(self, name: str, gate: str, verb: Verb) -> dict[str, Any]:
        present = self.desk.state.gates[gate]
        statement = Statement(
            run="run-1",
            gate=gate,
            kind=present.kind,
            digest=present.digest,
            decision="approved" if verb is Verb.APPROVE else "rejected",
            reason="",
            signed_at=self.desk.clock,
        )
        return {
            "approver": name,
            "sig": sign(KEYS[name], statement),
            "signed_at": statement.signed_at,
        }

    async def tick(self, seconds: float = 1) -> None:
        self.desk.clock += round(seconds * 1_000_000)
        await self.keeper.tick()
        await self.desk.settle()

    def denials(self) -> list[str]:
        return [e.reason for e in self.desk.journal.entries if e.op is Op.DENIED]

    def gate(self, name: str) -> Gate:
        return self.desk.state.gates[name]


def expiring(text: str = "8h", **keys: Any) -> Config:
    return team(gates=GatesConfig(expire=parse_duration(text)), **keys)


def signed_team(approvals: int = 1, **keys: Any) -> Config:
    return team(approvers=dict(PUBLIC), gates=GatesConfig(approvals=approvals), **keys)


EVERY_KIND = pytest.mark.parametrize("kind", list(GateKind))


@EVERY_KIND
async def test_a_gate_open_for_too_long_is_void_and_what_follows_is_told(kind: GateKind) -> None:
    rig = Served(expiring("8h"))
    gate = await rig.open(kind)
    await rig.tick(8 * 3600 - 2)
    assert rig.gate(gate).decision is Decision.OPEN
    await rig.tick(2)
    void = rig.gate(gate)
    assert (void.decision, void.approver, void.reason) == (
        Decision.VOID, "choragos", "expired after 8h",
    )  # fmt: skip
    assert rig.followed == [(gate, Decision.VOID, "expired after 8h")]
    if kind is GateKind.ENTRY:
        assert rig.desk.state.tasks["T1"].state is TaskState.REFUSED
    await rig.tick()
    assert len(rig.followed) == 1


async def test_an_approval_between_expiry_and_the_tick_is_refused_and_voids() -> None:
    rig = Served(expiring("90m"))
    gate = await rig.open()
    rig.desk.clock += 90 * 60 * 1_000_000
    late = await rig.decide(Verb.APPROVE, gate)
    assert late == {"status": "error", "reason": "G1 is void: expired after 1h30m"}
    assert rig.gate(gate).approver == "choragos"


async def test_expiry_survives_a_crash_and_a_team_file_without_it() -> None:
    rig = Served(expiring("1h"))
    gate = await rig.open()
    after = Served(team(), rig.desk.crashed(team()))
    await after.tick(3600)
    assert after.gate(gate).reason == "expired after 1h"
    assert after.followed == [(gate, Decision.VOID, "expired after 1h")]


async def test_a_gate_without_a_limit_stays_open() -> None:
    rig = Served(team())
    gate = await rig.open()
    await rig.tick(365 * 86400)
    assert rig.gate(gate).decision is Decision.OPEN


def test_the_board_itself_takes_no_approval_of_an_expired_gate() -> None:
    state = started(team()).state
    for entry in (
        Entry(Op.TASK_ADDED, 2, id="T1", role="coder", state=TaskState.GATED),
        Entry(Op.GATE_OPENED, 3, id="G1", task="T1", ref="d", until=10),
    ):
        state = apply(state, entry)
    for op in (Op.GATE_DECIDED, Op.GATE_VOTED):
        with pytest.raises(IllegalMove, match="expired"):
            apply(state, Entry(op, 10, id="G1", state="approved", sender="a", count=2))
    assert apply(state, Entry(Op.GATE_DECIDED, 10, id="G1", state="void", sender="choragos"))


async def test_a_ledger_that_fails_meanwhile_leaves_the_gate_to_the_next_tick() -> None:
    rig = Served(expiring("1s"))
    gate = await rig.open()
    rig.desk.journal.failure = JournalFailed("the disk is full")
    await rig.tick(2)
    assert rig.gate(gate).decision is Decision.OPEN
    rig.desk.journal.failure = None
    await rig.tick()
    assert rig.gate(gate).decision is Decision.VOID


# -- what changes under an open gate ------------------------------------------------------------


async def test_a_changed_brief_is_seen_before_a_person_decides_and_told_once(
    tmp_path: Path,
) -> None:
    rig = Served(team())
    brief = tmp_path / "brief.md"
    brief.write_text("do it")
    gate = await rig.open(brief=str(brief))
    await rig.tick()
    await rig.tick()
    assert (rig.looked, rig.desk.changed_gates) == (1, {})
    rig.now = "other"
    brief.write_text("do that")
    await rig.tick()
    await rig.tick()
    assert rig.looked == 2
    assert rig.desk.changed_gates == {gate: "what it is about was changed since the gate opened"}
    assert len(rig.desk.notices) == 1
    assert rig.gate(gate).decision is Decision.OPEN
    rig.now = Changed("its brief is gone")
    brief.unlink()
    await rig.tick()
    void = await rig.decide(Verb.APPROVE, gate)
    assert void["reason"] == "G1 is void: its brief is gone"
    assert rig.gate(gate).decision is Decision.VOID
    assert rig.desk.changed_gates == {}


async def test_a_brief_that_is_again_what_it_was_can_be_approved(tmp_path: Path) -> None:
    rig = Served(team())
    brief = tmp_path / "brief.md"
    brief.write_text("do it")
    gate = await rig.open(brief=str(brief))
    rig.now = "other"
    await rig.tick()
    assert gate in rig.desk.changed_gates
    rig.now = "digest"
    brief.write_text("do it")
    await rig.tick()
    assert rig.desk.changed_gates == {}
    rig.now = "other again"
    brief.write_text("do that")
    await rig.tick()
    assert gate in rig.desk.changed_gates
    assert len(rig.desk.notices) == 1, "an agent that goes to and fro fills no pane"
    rig.now = "digest"
    assert (await rig.decide(Verb.APPROVE, gate))["decision"] == "approved"


async def test_the_file_of_a_result_gate_is_watched_too(tmp_path: Path) -> None:
    rig = Served(team())
    report = tmp_path / "report.md"
    report.write_text("done")
    gate = await rig.open(GateKind.JUDGE, path=str(report))
    await rig.tick()
    rig.now = "other"
    os.utime(report, (time.time() + 5, time.time() + 5))
    await rig.tick()
    assert gate in rig.desk.changed_gates


def test_a_brief_that_became_a_pipe_holds_nobody_up(tmp_path: Path) -> None:
    pipe = tmp_path / "brief.md"
    os.mkfifo(pipe)
    with pytest.raises(BriefUnreadable, match="no regular file"):
        read_brief(str(pipe))


# -- who decides --------------------------------------------------------------------------------


async def test_without_approvers_an_operator_decides_unsigned() -> None:
    rig = Served(team())
    gate = await rig.open()
    assert (await rig.decide(Verb.APPROVE, gate, reason="fine"))["status"] == "ok"
    assert (rig.gate(gate).approver, rig.gate(gate).reason) == ("operator", "fine")


@EVERY_KIND
@pytest.mark.parametrize("verb", [Verb.APPROVE, Verb.REJECT])
async def test_with_approvers_nothing_is_decided_unsigned(kind: GateKind, verb: Verb) -> None:
    rig = Served(signed_team())
    gate = await rig.open(kind)
    answer = await rig.decide(verb, gate)
    assert answer["reason"] == (
        f"G1 takes the signature of an approver (alice, bob): choragos {verb} G1 --as NAME."
    )
    assert rig.gate(gate).decision is Decision.OPEN
    assert rig.denials() == [answer["reason"]]
    assert (await rig.sign("bob", gate, verb))["status"] == "ok"
    decided = rig.desk.journal.entries[-1]
    assert (decided.op, decided.sender) == (Op.GATE_DECIDED, "bob")
    assert decided.sig
    assert decided.signed_at == rig.desk.clock


async def test_a_signature_that_does_not_fit_is_refused_with_the_reason() -> None:
    rig = Served(signed_team())
    gate, other = await rig.open(), await rig.open()
    good = rig.signed("alice", gate, Verb.APPROVE)
    for change, says in (
        ({"approver": "bob"}, "not that of bob over G1"),
        ({"approver": "mallory"}, "mallory was no approver when this session started"),
        ({"signed_at": good["signed_at"] - 301_000_000}, "not made within 5 minutes"),
        ({"signed_at": good["signed_at"] + 1}, "not that of alice"),
        ({"reason": "other"}, "not that of alice"),
        ({"sig": "AAAA"}, "not that of alice"),
        ({"sig": "ä"}, "not that of alice"),
    ):
        answer = await rig.decide(Verb.APPROVE, gate, **{**good, **change})
        assert says in answer["reason"]
    for verb, name in ((Verb.REJECT, gate), (Verb.APPROVE, other)):
        assert "not that of alice" in (await rig.decide(verb, name, **good))["reason"]
    assert len(rig.denials()) == 9
    assert (await rig.decide(Verb.APPROVE, gate, **good))["decision"] == "approved"
    again = await rig.decide(Verb.APPROVE, gate, **good)
    assert "decided once" in again["reason"]


async def test_a_team_file_changed_later_adds_nobody_to_a_running_deck() -> None:
    rig = Served(team(approvers={"alice": PUBLIC["alice"]}))
    gate = await rig.open()
    rig.desk.config = team(approvers=dict(PUBLIC))
    assert "no approver" in (await rig.sign("bob", gate))["reason"]
    rig.desk.config = team()
    assert "takes the signature" in (await rig.decide(Verb.APPROVE, gate))["reason"]


async def test_a_signature_for_a_session_that_cannot_check_it_does_not_count() -> None:
    rig = Served(team())
    gate = await rig.open()
    assert "without [approvers]" in (await rig.sign("alice", gate))["reason"]
    assert rig.gate(gate).decision is Decision.OPEN


# -- more than one ------------------------------------------------------------------------------


@EVERY_KIND
async def test_two_approvals_are_of_two_people(kind: GateKind) -> None:
    rig = Served(signed_team(approvals=2))
    gate = await rig.open(kind)
    first = await rig.sign("alice", gate)
    assert (first["decision"], first["approvals"], first["needed"]) == ("voted", ["alice"], 2)
    assert progress(rig.gate(gate)) == "1 of 2 (alice)"
    assert rig.followed == []
    assert "alice has approved G1 already" in (await rig.sign("alice", gate))["reason"]
    after = Served(signed_team(approvals=2), rig.desk.crashed(signed_team(approvals=2)))
    second = await after.sign("bob", gate)
    assert second["decision"] == "approved"
    assert progress(after.gate(gate)) == "2 of 2 (alice, bob)"
    assert after.followed == [(gate, Decision.APPROVED, "")]


async def test_one_rejection_decides() -> None:
    rig = Served(signed_team(approvals=2))
    gate = await rig.open()
    await rig.sign("alice", gate)
    assert (await rig.sign("bob", gate, Verb.REJECT))["decision"] == "rejected"


async def test_a_role_asks_for_more_and_never_for_less() -> None:
    config = team(approvers=dict(PUBLIC))
    more = replace(config.roles[1], approvals=2)
    rig = Served(replace(config, roles=(config.roles[0], more)))
    assert rig.gate(await rig.open()).needed == 2
    # By a reload, a file that asks for less.
    rig.desk.config = config
    assert rig.gate(await rig.open()).needed == 2
    fewer = Panel(dict(PUBLIC), approvals=2, by_role={"coder": 1})
    assert fewer.needed("coder") == 2


async def test_a_gate_of_an_earlier_start_needs_what_the_present_one_asks_for_as_well() -> None:
    rig = Served(signed_team())
    gate = await rig.open()
    config = signed_team(approvals=2)
    after = Served(config, rig.desk.crashed(config))
    assert (await after.sign("alice", gate))["decision"] == "voted"
    assert (await after.sign("bob", gate))["decision"] == "approved"
    rig = Served(signed_team(approvals=2))
    gate = await rig.open()
    less = Served(team(), rig.desk.crashed(team()))
    answer = await less.decide(Verb.APPROVE, gate)
    assert "needs 2 approvals, and this session has no approvers" in answer["reason"]
    assert less.gate(gate).decision is Decision.OPEN


async def test_a_vote_of_somebody_who_is_no_approver_any_more_voids_the_gate() -> None:
    rig = Served(signed_team(approvals=2))
    gate = await rig.open()
    await rig.sign("alice", gate)
    other = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    config = team(approvers={**PUBLIC, "alice": public_text(other)}, gates=GatesConfig(approvals=2))
    after = Served(config, rig.desk.crashed(config))
    await after.tick()
    assert after.gate(gate).decision is Decision.VOID
    assert "alice, who approved it, is no approver" in after.gate(gate).reason


# -- obstacles, bells, kinds --------------------------------------------------------------------


@EVERY_KIND
@pytest.mark.parametrize("approvals", [1, 2])
async def test_what_cannot_be_done_now_does_not_use_a_gate_up(
    kind: GateKind, approvals: int
) -> None:
    rig = Served(signed_team(approvals=approvals))
    gate = await rig.open(kind)
    rig.obstacle = "coder is not running"
    answer = await rig.sign("alice", gate)
    assert answer["reason"] == "coder is not running; G1 stays open until then."
    assert rig.gate(gate) == replace(rig.gate(gate), decision=Decision.OPEN, approvals=())
    rig.obstacle = ""
    assert (await rig.sign("alice", gate))["status"] == "ok"


@EVERY_KIND
async def test_the_hook_is_rung_once_for_each_gate_of_every_kind(kind: GateKind) -> None:
    rig = Served(team())
    gate = await rig.open(kind)
    rig.keeper.ring(gate, "coder", "again")
    assert rig.desk.hooks == [("on_gate", "coder", "label of T1")]


async def test_a_proposed_role_rings_with_its_reason() -> None:
    rig = Served(team())
    _, durable = rig.keeper.open(GateKind.ROSTER, "digest", role="tester", why="wants a tester")
    await durable
    await rig.desk.settle()
    assert rig.desk.hooks == [("on_gate", "tester", "wants a tester")]


def test_every_kind_has_words() -> None:
    assert set(KIND_WORDS) == set(GateKind)


async def test_two_decisions_at_once_are_one_decision() -> None:
    rig = Served(team())
    gate = await rig.open()
    answers = await asyncio.gather(*(rig.decide(Verb.APPROVE, gate) for _ in range(3)))
    assert sorted(answer["status"] for answer in answers) == ["error", "error", "ok"]
    assert len(rig.followed) == 1


# -- names, keys, statements --------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "operator", "choragos", "unknown", "-a", ".", "../x", "a b", "ä", "x" * 65, "a\n"]
)
def test_some_names_are_no_approvers(name: str) -> None:
    with pytest.raises(BadApprover):
        check_name(name)


@pytest.mark.parametrize(
    "key",
    ["", "ed25519:", "ed25519:AAAA", f"rsa:{A}=", f"{A}=", f"ed25519:{A}==", f"ed25519:{A}=\n"],
)
def test_a_key_is_32_bytes_of_base64_behind_its_kind(key: str) -> None:
    with pytest.raises(BadApprover):
        public_key(key)


def test_a_statement_is_one_canonical_json_object() -> None:
    statement = Statement("r", "G1", GateKind.MERGE, "d", Decision.APPROVED, 'say "yes"\n', 7)
    assert statement.as_bytes() == (
        b'{"context":"choragos gate decision v1","decision":"approved","digest":"d",'
        b'"gate":"G1","kind":"merge","reason":"say \\"yes\\"\\n","run":"r","signed_at":7}'
    )
    sig = sign(KEYS["alice"], statement)
    assert is_signed(PUBLIC["alice"], statement, sig)
    assert not is_signed(PUBLIC["bob"], statement, sig)
    assert not is_signed("", statement, sig)


def test_a_vote_keeps_its_signature_on_the_board() -> None:
    state = started(team()).state
    for entry in (
        Entry(Op.TASK_ADDED, 2, id="T1", role="coder", state=TaskState.GATED),
        Entry(Op.GATE_OPENED, 3, id="G1", task="T1", ref="d", count=2),
        Entry(Op.GATE_VOTED, 4, id="G1", sender="alice", reason="ok", sig="s", signed_at=4),
    ):
        state = apply(state, Entry.from_ext(entry.as_ext()))
    assert state.gates["G1"].approvals == (Approval("alice", 4, "ok", "s", 4),)


async def test_a_file_that_is_not_what_the_gate_is_about_is_told_to_whoever_looks() -> None:
    rig = Served(team())

    async def holds(gate: Gate, body: bytes) -> bool:
        return body == b"the diff"

    rules = Rules(lambda _: "", rig.present, rig.follow, holds)
    rig.keeper.serve(GateKind.MERGE, rules)
    gate = rig.gate(await rig.open(GateKind.MERGE, path="/p/merge.diff"))
    assert await rig.keeper.misfit(gate, b"the diff") == ""
    assert await rig.keeper.misfit(gate, None) == ""
    other = await rig.keeper.misfit(gate, b"another diff")
    assert other == "/p/merge.diff is not what the gate was opened about"
    rig.now = "other"
    assert "was changed" in await rig.keeper.misfit(gate, b"the diff")
    assert "was changed" in await rig.keeper.misfit(gate, None)


async def test_a_gate_is_dropped_once_and_a_decided_one_stays_as_it_is() -> None:
    rig = Served(team())
    gate = await rig.open(GateKind.MERGE)
    await rig.keeper.drop(rig.gate(gate), "its role was removed")
    assert (rig.gate(gate).decision, rig.gate(gate).approver) == (Decision.VOID, "choragos")
    await rig.keeper.drop(rig.gate(gate), "again")
    assert rig.gate(gate).reason == "its role was removed"
