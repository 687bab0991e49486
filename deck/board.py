"""The board: every task, report, gate and role of a run, and which change may follow which.

Owns `State` and the tables of legal moves. Invariant: `apply(state, entry)` is pure and total
over entries this module accepts, so the board is the replay of the journal (law 6); a move the
table does not allow raises `IllegalMove` before anything is written. Ids are never reused within
a run. `deck.journal` applies entries, `deck.session` makes them, faces only read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

#: Closed rows beyond this many leave the view, never open ones (contracts/deck.md section 1.6).
CLOSED_ROWS_SHOWN: Final = 200


class TaskState(StrEnum):
    """Where a task is between being accepted and being over (contracts/deck.md section 2.5)."""

    GATED = "gated"
    QUEUED = "queued"
    TYPED = "typed"
    SUBMITTED = "submitted"
    PICKED_UP = "picked-up"
    REPORTED = "reported"
    LOST = "lost"
    TIMED_OUT = "timed-out"
    REFUSED = "refused"


class ReportState(StrEnum):
    """Where a worker's report is on its way to the start role."""

    QUEUED = "queued"
    TYPED = "typed"
    DELIVERED = "delivered"
    KEPT = "kept"


class Decision(StrEnum):
    """What became of a gate."""

    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    VOID = "void"


class Op(StrEnum):
    """Every kind of journal entry."""

    SESSION_STARTED = "session-started"
    SESSION_STOPPED = "session-stopped"
    TASK_ADDED = "task-added"
    TASK_MOVED = "task-moved"
    REPORT_ADDED = "report-added"
    REPORT_MOVED = "report-moved"
    GATE_OPENED = "gate-opened"
    GATE_DECIDED = "gate-decided"
    DENIED = "denied"
    ROLE_STARTED = "role-started"
    ROLE_EXITED = "role-exited"
    GATEWAY_STARTED = "gateway-started"
    GATEWAY_STOPPED = "gateway-stopped"
    FINISHED = "finished"
    USAGE_TAKEN = "usage-taken"
    CONFIG_SET = "config-set"
    BRIEF_SET = "brief-set"
    ENFORCEMENT_CHANGED = "enforcement-changed"
    ROLE_STARTING = "role-starting"
    ROLE_STOPPING = "role-stopping"
    ROLE_STOPPED = "role-stopped"
    STAMP_FAILED = "stamp-failed"
    CHECKPOINT_TAKEN = "checkpoint-taken"
    CHECKPOINTS_PRUNED = "checkpoints-pruned"
    ROLLBACK_BEGUN = "rollback-begun"
    ROLLBACK_ENDED = "rollback-ended"


#: Tasks typed into a pane and not yet over: what a dead pane or a dead deck loses.
IN_FLIGHT: Final = frozenset({TaskState.TYPED, TaskState.SUBMITTED, TaskState.PICKED_UP})
#: Tasks somebody still has to do something about.
OPEN: Final = IN_FLIGHT | {TaskState.GATED, TaskState.QUEUED, TaskState.TIMED_OUT}

_T = TaskState
#: The whole delivery machine. `typed -> queued` is the one retry after a failed injection;
#: `lost -> queued` offers the task again; late reports of lost or timed-out work count; a move to
#: the same state only changes the reason shown.
TASK_MOVES: Final[Mapping[TaskState, frozenset[TaskState]]] = MappingProxyType(
    {
        _T.GATED: frozenset({_T.QUEUED, _T.REFUSED}),
        _T.QUEUED: frozenset({_T.QUEUED, _T.TYPED, _T.REPORTED, _T.LOST, _T.REFUSED}),
        _T.TYPED: frozenset(
            {_T.QUEUED, _T.SUBMITTED, _T.PICKED_UP, _T.REPORTED, _T.LOST, _T.TIMED_OUT}
        ),
        _T.SUBMITTED: frozenset({_T.SUBMITTED, _T.PICKED_UP, _T.REPORTED, _T.LOST, _T.TIMED_OUT}),
        _T.PICKED_UP: frozenset({_T.REPORTED, _T.LOST, _T.TIMED_OUT}),
        _T.TIMED_OUT: frozenset({_T.QUEUED, _T.REPORTED, _T.LOST}),
        _T.LOST: frozenset({_T.QUEUED, _T.REPORTED}),
        _T.REPORTED: frozenset(),
        _T.REFUSED: frozenset(),
    }
)
_R = ReportState
REPORT_MOVES: Final[Mapping[ReportState, frozenset[ReportState]]] = MappingProxyType(
    {
        _R.QUEUED: frozenset({_R.TYPED, _R.KEPT}),
        _R.TYPED: frozenset({_R.QUEUED, _R.DELIVERED, _R.KEPT}),
        _R.KEPT: frozenset({_R.QUEUED}),
        _R.DELIVERED: frozenset(),
    }
)


class IllegalMove(Exception):
    """An entry that the board's tables do not allow in the present state."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One change. Times are integer microseconds UTC; `ref` is the commitment of a text that
    lives in the text store, never the text itself; `digest` names a text kept with the ledger."""

    op: Op
    at: int
    id: str = ""
    role: str = ""
    sender: str = ""
    state: str = ""
    reason: str = ""
    path: str = ""
    ref: str = ""
    task: str = ""
    done: bool = False
    pid: int = 0
    born: int = 0
    run: str = ""
    digest: str = ""

    def as_ext(self) -> dict[str, Any]:
        """Return the entry as the `ext` object of a ledger record: empty fields left out."""
        ext: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if value not in ("", 0, False) or name in ("op", "at"):
                # A ledger record takes plain strings only, not enumerations of them.
                ext[name] = str(value) if isinstance(value, str) else value
        return ext

    @classmethod
    def from_ext(cls, ext: Mapping[str, Any]) -> Entry:
        """Rebuild an entry; fields of later versions are ignored. Raises ValueError if it is
        not one."""
        known = {name: ext[name] for name in cls.__slots__ if name in ext}
        try:
            known["op"] = Op(known["op"])
            return cls(**known)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError("the record holds no journal entry of this version") from error


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
class Gate:
    """One decision a person has to make. `digest` commits to what is approved."""

    id: str
    task: str
    digest: str
    at: int
    decision: Decision = Decision.OPEN
    approver: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Child:
    """A process of ours: `born` is its start time in kernel ticks, so a reused pid is seen."""

    pid: int
    born: int


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
        closed = [t.id for t in self.tasks.values() if t.state in (_T.REPORTED, _T.REFUSED)]
        hidden = set(closed[: max(0, len(closed) - CLOSED_ROWS_SHOWN)])
        return [task for task in self.tasks.values() if task.id not in hidden]


def apply(state: State, entry: Entry) -> State:
    """Return the state after one entry. Raises IllegalMove when the tables forbid it."""
    return _APPLY[entry.op](state, entry)


def replay(entries: Iterable[Entry]) -> State:
    """Return the state a whole journal leads to."""
    state = State()
    for entry in entries:
        state = apply(state, entry)
    return state


def _session_started(state: State, entry: Entry) -> State:
    """A resumed run keeps the board; any other run starts an empty one."""
    if entry.state == "resumed":
        return replace(state, running=True, children={}, exits={}, finished=False)
    return State(run=entry.run, running=True, gateway=state.gateway)


def _session_stopped(state: State, entry: Entry) -> State:
    return replace(state, running=False, children={})


def _task_added(state: State, entry: Entry) -> State:
    if entry.id != state.next_task_id():
        raise IllegalMove(f"The next task is {state.next_task_id()}, not {entry.id}.")
    first = _task_state(entry.state or _T.QUEUED)
    if first not in (_T.QUEUED, _T.GATED):
        raise IllegalMove(f"A new task is queued or gated, not {first}.")
    task = Task(
        id=entry.id,
        role=entry.role,
        sender=entry.sender,
        state=first,
        at=entry.at,
        text_ref=entry.ref,
        brief=entry.path,
    )
    return replace(state, tasks={**state.tasks, task.id: task})


def _task_moved(state: State, entry: Entry) -> State:
    task = state.tasks.get(entry.id)
    if task is None:
        raise IllegalMove(f"There is no task {entry.id}.")
    target = _task_state(entry.state)
    if target not in TASK_MOVES[task.state]:
        raise IllegalMove(f"{task.id} is {task.state} and cannot become {target}.")
    if task.state is _T.GATED and target is _T.QUEUED and not _is_approved(state, task):
        raise IllegalMove(f"{task.id} waits for {task.gate or 'a gate'}; nothing else releases it.")
    moved = replace(
        task,
        state=target,
        reason=entry.reason,
        tries=task.tries + (target is _T.TYPED),
        screen_ref=entry.ref or task.screen_ref,
        # The clock of a time limit starts when the line is handed to the pane.
        delivered_at=entry.at if target is _T.TYPED else task.delivered_at,
        closed_at=0 if target in OPEN else entry.at,
    )
    return replace(state, tasks={**state.tasks, task.id: moved})


def _is_approved(state: State, task: Task) -> bool:
    gate = state.gates.get(task.gate)
    return gate is not None and gate.decision is Decision.APPROVED


def _report_added(state: State, entry: Entry) -> State:
    if entry.id != state.next_report_id():
        raise IllegalMove(f"The next report is {state.next_report_id()}, not {entry.id}.")
    # The start role's own report needs no delivery to itself.
    first = _report_state(entry.state or _R.QUEUED)
    if first not in (_R.QUEUED, _R.DELIVERED):
        raise IllegalMove(f"A new report is queued or delivered, not {first}.")
    report = Report(
        id=entry.id,
        task=entry.task,
        role=entry.role,
        state=first,
        at=entry.at,
        text_ref=entry.ref,
        path=entry.path,
        done=entry.done,
        reason=entry.reason,
    )
    state = replace(state, reports={**state.reports, report.id: report})
    task = state.tasks.get(entry.task)
    if task is None or _T.REPORTED not in TASK_MOVES[task.state]:
        return state
    resolved = replace(task, state=_T.REPORTED, reason="", closed_at=entry.at)
    return replace(state, tasks={**state.tasks, task.id: resolved})


def _report_moved(state: State, entry: Entry) -> State:
    report = state.reports.get(entry.id)
    if report is None:
        raise IllegalMove(f"There is no report {entry.id}.")
    target = _report_state(entry.state)
    if target not in REPORT_MOVES[report.state]:
        raise IllegalMove(f"{report.id} is {report.state} and cannot become {target}.")
    moved = replace(report, state=target, reason=entry.reason)
    return replace(state, reports={**state.reports, report.id: moved})


def _gate_opened(state: State, entry: Entry) -> State:
    task = state.tasks.get(entry.task)
    if task is None or task.state is not _T.GATED or task.gate:
        raise IllegalMove(f"{entry.task or 'No task'} is not waiting for a gate.")
    if entry.id != state.next_gate_id():
        raise IllegalMove(f"The next gate is {state.next_gate_id()}, not {entry.id}.")
    gate = Gate(id=entry.id, task=task.id, digest=entry.ref, at=entry.at)
    return replace(
        state,
        gates={**state.gates, gate.id: gate},
        tasks={**state.tasks, task.id: replace(task, gate=gate.id)},
    )


def _gate_decided(state: State, entry: Entry) -> State:
    gate = state.gates.get(entry.id)
    if gate is None:
        raise IllegalMove(f"There is no gate {entry.id}.")
    if gate.decision is not Decision.OPEN:
        raise IllegalMove(f"{gate.id} was {gate.decision} already; a gate is decided once.")
    try:
        decision = Decision(entry.state)
    except ValueError:
        raise IllegalMove(f"{entry.state!r} is not a decision.") from None
    if decision is Decision.OPEN:
        raise IllegalMove(f"{gate.id} is open already.")
    decided = replace(gate, decision=decision, approver=entry.sender, reason=entry.reason)
    state = replace(state, gates={**state.gates, gate.id: decided})
    follow = _T.QUEUED if decision is Decision.APPROVED else _T.REFUSED
    move = Entry(
        op=Op.TASK_MOVED,
        at=entry.at,
        id=gate.task,
        state=follow,
        reason="" if decision is Decision.APPROVED else f"{gate.id} {decision}",
    )
    return _task_moved(state, move)


def _denied(state: State, entry: Entry) -> State:
    return replace(state, denials=state.denials + 1)


def _role_started(state: State, entry: Entry) -> State:
    exits = {role: why for role, why in state.exits.items() if role != entry.role}
    child = Child(entry.pid, entry.born)
    return replace(state, children={**state.children, entry.role: child}, exits=exits)


def _role_exited(state: State, entry: Entry) -> State:
    children = {role: child for role, child in state.children.items() if role != entry.role}
    return replace(state, children=children, exits={**state.exits, entry.role: entry.reason})


def _gateway_started(state: State, entry: Entry) -> State:
    return replace(state, gateway=Child(entry.pid, entry.born))


def _gateway_stopped(state: State, entry: Entry) -> State:
    return replace(state, gateway=None)


def _finished(state: State, entry: Entry) -> State:
    return replace(state, finished=True)


def _usage_taken(state: State, entry: Entry) -> State:
    return replace(state, usage=entry.reason)


def _on_record_only(state: State, entry: Entry) -> State:
    """A change of something outside the board, which only has to be known later."""
    return state


def _task_state(name: str) -> TaskState:
    try:
        return TaskState(name)
    except ValueError:
        raise IllegalMove(f"{name!r} is not a state of a task.") from None


def _report_state(name: str) -> ReportState:
    try:
        return ReportState(name)
    except ValueError:
        raise IllegalMove(f"{name!r} is not a state of a report.") from None


_APPLY: Final = MappingProxyType(
    {
        Op.SESSION_STARTED: _session_started,
        Op.SESSION_STOPPED: _session_stopped,
        Op.TASK_ADDED: _task_added,
        Op.TASK_MOVED: _task_moved,
        Op.REPORT_ADDED: _report_added,
        Op.REPORT_MOVED: _report_moved,
        Op.GATE_OPENED: _gate_opened,
        Op.GATE_DECIDED: _gate_decided,
        Op.DENIED: _denied,
        Op.ROLE_STARTED: _role_started,
        Op.ROLE_EXITED: _role_exited,
        Op.GATEWAY_STARTED: _gateway_started,
        Op.GATEWAY_STOPPED: _gateway_stopped,
        Op.FINISHED: _finished,
        Op.USAGE_TAKEN: _usage_taken,
        Op.CONFIG_SET: _on_record_only,
        Op.BRIEF_SET: _on_record_only,
        Op.ENFORCEMENT_CHANGED: _on_record_only,
        Op.ROLE_STARTING: _on_record_only,
        Op.ROLE_STOPPING: _on_record_only,
        Op.ROLE_STOPPED: _on_record_only,
        Op.STAMP_FAILED: _on_record_only,
        Op.CHECKPOINT_TAKEN: _on_record_only,
        Op.CHECKPOINTS_PRUNED: _on_record_only,
        Op.ROLLBACK_BEGUN: _on_record_only,
        Op.ROLLBACK_ENDED: _on_record_only,
    }
)
