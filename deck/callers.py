"""Who speaks on the control socket, and what they may do (law 7, contracts/deck.md section 2.3).

Owns the rules. Invariant: doubt lowers, never raises. A process below a pane is that role,
whatever token it shows; a process below the deck but below no pane is at most the role of its
token; one that cannot be traced is nobody; only what comes from outside the deck, without a
seat's mark, is an operator. Pure given the facts of `deck.processes`; `deck.server` asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from deck import processes
from deck.board import State
from deck.protocol import Command, Verb


class Kind(Enum):
    """The three kinds of speaker."""

    OPERATOR = auto()
    ROLE = auto()
    NOBODY = auto()


@dataclass(frozen=True, slots=True)
class Caller:
    """One speaker; `role` is empty unless the kind is ROLE."""

    kind: Kind
    role: str = ""
    pid: int = 0

    @property
    def name(self) -> str:
        """The name written in records: the role, `operator`, or `unknown`."""
        if self.kind is Kind.ROLE:
            return self.role
        return "operator" if self.kind is Kind.OPERATOR else "unknown"


@dataclass(frozen=True, slots=True)
class Peer:
    """What the kernel says about the other end of a connection."""

    pid: int
    ancestors: tuple[int, ...]
    mark: str
    #: Without `/proc` a peer cannot be traced; then the token alone tells roles apart.
    traceable: bool = True
    #: It came through the door of the egress wall, which no operator uses.
    seat_only: bool = False


def peer_of(pid: int) -> Peer:
    """Gather the facts about a peer process; its nearest marked ancestor gives the mark."""
    chain = processes.ancestors(pid)
    marks = (processes.seat_mark(ancestor) for ancestor in chain)
    return Peer(
        pid=pid,
        ancestors=tuple(chain),
        mark=next((mark for mark in marks if mark), ""),
        traceable=processes.can_trace(),
    )


def identify(
    peer: Peer,
    *,
    panes: Mapping[int, str],
    deck_pid: int,
    session: str,
    token_role: str | None,
) -> Caller:
    """Return who a peer is. `panes` maps pane pids to roles; `token_role` is the role whose
    token was shown, or None."""
    for pid in peer.ancestors:
        if pid in panes:
            return Caller(Kind.ROLE, panes[pid], peer.pid)
        if pid == deck_pid:
            break
    owner, _, role = peer.mark.partition(":")
    if owner == session and role:
        return Caller(Kind.ROLE, role, peer.pid)
    untraceable = not peer.ancestors and peer.traceable
    if token_role is not None:
        return Caller(Kind.ROLE, token_role, peer.pid)
    if untraceable or peer.seat_only or deck_pid in peer.ancestors:
        return Caller(Kind.NOBODY, pid=peer.pid)
    return Caller(Kind.OPERATOR, pid=peer.pid)


def objection(caller: Caller, command: Command, state: State, start_role: str) -> str | None:
    """Return why a caller may not give a command, as a sentence, or None when it may."""
    verb = command.verb
    if verb in (Verb.PING, Verb.STATUS, Verb.GATES):
        return None
    if caller.kind is Kind.OPERATOR:
        return None
    if caller.kind is Kind.NOBODY:
        return (
            f"The sender of this {verb} (pid {caller.pid}) cannot be traced to a role or to an "
            "operator; run the command directly from the pane or from a shell outside the team."
        )
    if verb is Verb.SHOW:
        return None
    if verb is Verb.NOTE:
        # Whoever makes such a change makes it with git; the record says who it was.
        return None
    if verb is Verb.WORK_DONE:
        return _report_objection(caller.role, command.id, state)
    if verb in (Verb.DELEGATE, Verb.ROSTER_ADD, Verb.HANDOFF):
        if caller.role == start_role:
            return None
        return f"Only {start_role} may use {verb}; {caller.role} may report with work-done."
    return f"Only an operator may use {verb}; {caller.role} runs inside the team."


def _report_objection(role: str, task_id: str, state: State) -> str | None:
    task = state.tasks.get(task_id)
    if task is None or task.role == role:
        return None
    return f"{task_id} was given to {task.role}; {role} may report only its own tasks."
