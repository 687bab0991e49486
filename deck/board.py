"""The board: every task, report, gate and role of a run, as the deck remembers them.

Owns `State` and the rows in it, and what is read off them. Invariant: all of it is immutable but
for a `Draft`, which only the replay of a whole journal holds; a state is only ever made by
`deck.replay` from the one before and an entry of the journal, so the board is the replay of the
journal (law 6). Ids are never reused within a run. Everybody who has to know something about the
run reads it here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, TypeVar

from deck.entries import (
    CommitState,
    Decision,
    GateKind,
    LoopState,
    MergeState,
    ReportState,
    TaskState,
)
from deck.moves import IN_FLIGHT, OPEN

#: Closed rows beyond this many leave the view, never open ones (contracts/deck.md section 1.6).
CLOSED_ROWS_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Task:
    """One delegated piece of work."""

    id: str
    role: str
    sender: str
    state: TaskState
    at: int
    text_ref: str = ""
    brief: str = ""
    reason: str = ""
    gate: str = ""
    screen_ref: str = ""
    delivered_at: int = 0
    closed_at: int = 0
    tries: int = 0
    #: What the files owned by others held at delivery, in the text store.
    owned_ref: str = ""
    #: The task whose work this one judges, and in which round of its loop; made by the deck.
    judges: str = ""
    round: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """One `work-done`. `task` is the id the worker named, known or not."""

    id: str
    task: str
    role: str
    state: ReportState
    at: int
    text_ref: str = ""
    path: str = ""
    done: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Approval:
    """One person's yes to a gate that needs more than one."""

    approver: str
    at: int
    reason: str = ""
    #: As in the entry that holds it: a later start looks at it again.
    sig: str = ""
    signed_at: int = 0


@dataclass(frozen=True, slots=True)
class Gate:
    """One decision a person has to make. `digest` commits to what is approved; `role` is the
    role it is about where that is not the task's; `path` and `shown` (a reference into the text
    store) are what a person looks at; `why` says why it was opened; `until` is 0 or the time
    (microseconds UTC) after which it is void."""

    id: str
    task: str
    digest: str
    at: int
    decision: Decision = Decision.OPEN
    approver: str = ""
    reason: str = ""
    kind: GateKind = GateKind.ENTRY
    role: str = ""
    path: str = ""
    shown: str = ""
    why: str = ""
    until: int = 0
    needed: int = 1
    approvals: tuple[Approval, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """The judging of one task: `task` is the builder's, `judge_task` the judge's present one."""

    task: str
    judge: str
    state: LoopState
    round: int = 1
    judge_task: str = ""
    path: str = ""
    reason: str = ""
    #: The text of the last verdict, in the store.
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Landing:
    """The merging of one accepted task; `commit` is the head of the role's branch then."""

    task: str
    role: str
    state: MergeState
    commit: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Commit:
    """What became of the work of a task when it was to be committed; `head` is the head of the
    role's branch then, empty when that failed."""

    task: str
    role: str
    state: CommitState
    head: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Child:
    """A process of ours: `born` is its start time in kernel ticks, so a reused pid is seen."""

    pid: int
    born: int


@dataclass(frozen=True, slots=True)
class Handoff:
    """A session that was handed over: with which team file the next one goes on, and whether the
    start role has written its document."""

    config: str
    written: bool


@dataclass(frozen=True, slots=True)
class State:
    """Everything the deck must remember about one run."""

    run: str = ""
    running: bool = False
    tasks: Mapping[str, Task] = field(default_factory=dict)
    reports: Mapping[str, Report] = field(default_factory=dict)
    gates: Mapping[str, Gate] = field(default_factory=dict)
    children: Mapping[str, Child] = field(default_factory=dict)
    exits: Mapping[str, str] = field(default_factory=dict)
    gateway: Child | None = None
    finished: bool = False
    denials: int = 0
    #: The session's token totals as the usage meter writes them.
    usage: str = ""
    #: By the id of the builder's task.
    loops: Mapping[str, Loop] = field(default_factory=dict)
    landings: Mapping[str, Landing] = field(default_factory=dict)
    #: Of the roles with worktrees, oldest first: one for each report.
    commits: tuple[Commit, ...] = ()
    #: Since when a role is paused, in microseconds UTC.
    paused: Mapping[str, int] = field(default_factory=dict)
    #: The budget, as written, that a role has exceeded.
    exceeded: Mapping[str, str] = field(default_factory=dict)
    #: The team file in force, "" for the built-in team, and its roles in the order they came:
    #: True for one that is gone.
    config: str = ""
    #: The digest of the settings that the last start put on record; the run before may have.
    settings: str = ""
    roster: Mapping[str, bool] = field(default_factory=dict)
    #: How the run was handed over; None once it goes on, or when it was not.
    handoff: Handoff | None = None
    #: The run went on from a handover whose document is there to read.
    handed_over: bool = False

    def next_task_id(self) -> str:
        """Return the id the next task gets: T1, T2, …"""
        return f"T{len(self.tasks) + 1}"

    def next_report_id(self) -> str:
        """Return the id the next report gets: R1, R2, …"""
        return f"R{len(self.reports) + 1}"

    def next_gate_id(self) -> str:
        """Return the id the next gate gets: G1, G2, …"""
        return f"G{len(self.gates) + 1}"

    def open_tasks(self, role: str | None = None) -> Iterator[Task]:
        """Yield tasks that are not over, oldest first, of one role or of all."""
        for task in self.tasks.values():
            if task.state in OPEN and role in (None, task.role):
                yield task

    def in_flight(self, role: str | None = None) -> Iterator[Task]:
        """Yield tasks that are in a pane's hands, oldest first."""
        for task in self.tasks.values():
            if task.state in IN_FLIGHT and role in (None, task.role):
                yield task

    def rows(self) -> list[Task]:
        """Return the tasks to show: all that are open or lost, and the latest closed ones."""
        closed = [
            t.id for t in self.tasks.values() if t.state in (TaskState.REPORTED, TaskState.REFUSED)
        ]
        hidden = set(closed[: max(0, len(closed) - CLOSED_ROWS_SHOWN)])
        return [task for task in self.tasks.values() if task.id not in hidden]

    def gate_rows(self) -> list[Gate]:
        """Return the gates to show: all that are open, and the latest decided ones."""
        decided = [gate.id for gate in self.gates.values() if gate.decision is not Decision.OPEN]
        hidden = set(decided[: max(0, len(decided) - CLOSED_ROWS_SHOWN)])
        return [gate for gate in self.gates.values() if gate.id not in hidden]


_State = TypeVar("_State", bound=State)
#: The tables of the board that grow with the run.
Table = Literal["tasks", "reports", "gates", "loops", "landings"]


class Draft(State):
    """A board in the making, held by a replay and nobody else: `changed` and `with_row` move it in
    place. With a new copy of every row for each entry, a long journal would take hours to read."""

    __slots__ = ()

    def finished_board(self) -> State:
        """Return the board as it is now; the draft is not used any more."""
        return State(**{row.name: getattr(self, row.name) for row in fields(State)})


def changed(state: _State, **values: Any) -> _State:
    """Return the state with other values in the fields named."""
    if type(state) is not Draft:
        return replace(state, **values)
    for name, value in values.items():
        object.__setattr__(state, name, value)
    return state


def with_row(state: _State, table: Table, key: str, row: object) -> _State:
    """Return the state with `row` under `key` in one of its tables."""
    rows: dict[str, object] = getattr(state, table)
    if type(state) is not Draft:
        more: dict[str, Any] = {table: {**rows, key: row}}
        return replace(state, **more)
    rows[key] = row
    return state
