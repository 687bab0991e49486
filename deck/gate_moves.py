"""What the journal's entries do to gates: opened, approved by one of several, decided.

Owns the life of a gate on the board. Invariants: a gate is decided once; nobody's approval counts
twice; an approval counts only before the gate's time is over; a gate is approved by as many as it
needs, never fewer. Holds for every replay, so a resumed run is not more permissive than before.
Pure. Called by `deck.replay`; who may decide is checked by `deck.approvals` before.
"""

from __future__ import annotations

from dataclasses import replace

from deck.board import Approval, Gate, State, with_row
from deck.entries import Decision, Entry, GateKind, Op, TaskState
from deck.moves import IllegalMove, member
from deck.task_moves import task_moved


def gate_opened(state: State, entry: Entry) -> State:
    """A gate is opened, on a task or on the roster."""
    kind = member(GateKind, entry.state or GateKind.ENTRY, "a kind of gate")
    task = state.tasks.get(entry.task)
    if kind is GateKind.ENTRY and (task is None or task.state is not TaskState.GATED or task.gate):
        raise IllegalMove(f"{entry.task or 'No task'} is not waiting for a gate.")
    if kind is not GateKind.ROSTER and task is None:
        raise IllegalMove(f"There is no task {entry.task} for a {kind} gate.")
    if entry.id != state.next_gate_id():
        raise IllegalMove(f"The next gate is {state.next_gate_id()}, not {entry.id}.")
    gate = Gate(
        id=entry.id,
        task=entry.task,
        digest=entry.ref,
        at=entry.at,
        kind=kind,
        role=entry.role,
        path=entry.path,
        shown=entry.shown,
        why=entry.reason,
        until=entry.until,
        needed=entry.count or 1,
    )
    state = with_row(state, "gates", gate.id, gate)
    if task is None:
        return state
    return with_row(state, "tasks", task.id, replace(task, gate=gate.id))


def _open_gate(state: State, gate_id: str) -> Gate:
    gate = state.gates.get(gate_id)
    if gate is None:
        raise IllegalMove(f"There is no gate {gate_id}.")
    if gate.decision is not Decision.OPEN:
        raise IllegalMove(f"{gate.id} was {gate.decision} already; a gate is decided once.")
    return gate


def gate_voted(state: State, entry: Entry) -> State:
    """One of several approvals that a gate needs is given."""
    gate = _open_gate(state, entry.id)
    _check_vote(gate, entry)
    # A session that asks for more approvals than the one that opened the gate gets them.
    needed = max(gate.needed, entry.count)
    if len(gate.approvals) + 1 >= needed:
        raise IllegalMove(f"{gate.id} needs no further approval than this; it is decided by it.")
    voted = replace(gate, needed=needed, approvals=(*gate.approvals, _approval(entry)))
    return with_row(state, "gates", gate.id, voted)


def gate_decided(state: State, entry: Entry) -> State:
    """A gate is decided; a task that waited for it is queued or refused."""
    gate = _open_gate(state, entry.id)
    decision = member(Decision, entry.state, "a decision")
    if decision is Decision.OPEN:
        raise IllegalMove(f"{gate.id} is open already.")
    if decision is Decision.APPROVED:
        gate = _with_last_approval(gate, entry)
    decided = replace(gate, decision=decision, approver=entry.sender, reason=entry.reason)
    state = with_row(state, "gates", gate.id, decided)
    if gate.kind is not GateKind.ENTRY:
        # What follows is recorded by whoever opened it.
        return state
    follow = TaskState.QUEUED if decision is Decision.APPROVED else TaskState.REFUSED
    move = Entry(
        op=Op.TASK_MOVED,
        at=entry.at,
        id=gate.task,
        state=follow,
        reason="" if decision is Decision.APPROVED else f"{gate.id} {decision}",
    )
    return task_moved(state, move)


def _with_last_approval(gate: Gate, entry: Entry) -> Gate:
    _check_vote(gate, entry)
    if len(gate.approvals) + 1 < gate.needed:
        raise IllegalMove(f"{gate.id} needs {gate.needed} approvals.")
    return replace(gate, approvals=(*gate.approvals, _approval(entry)))


def _check_vote(gate: Gate, entry: Entry) -> None:
    """Raise IllegalMove for a second approval by the same person, or one that comes too late."""
    if any(given.approver == entry.sender for given in gate.approvals):
        raise IllegalMove(f"{entry.sender} has approved {gate.id} already; it needs another.")
    if gate.until and entry.at >= gate.until:
        raise IllegalMove(f"{gate.id} has expired; it cannot be approved any more.")


def _approval(entry: Entry) -> Approval:
    return Approval(entry.sender, entry.at, entry.reason, entry.sig, entry.signed_at)
