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
from typing import Final, TypeVar

from deck.entries import (
    CommitState,
    Decision,
    Entry,
    GateKind,
    LoopState,
    MergeState,
    Op,
    ReportState,
    TaskState,
)

#: Closed rows beyond this many leave the view, never open ones (contracts/deck.md section 1.6).
CLOSED_ROWS_SHOWN: Final = 200


#: Tasks typed into a pane and not yet over: what a dead pane or a dead deck loses.
IN_FLIGHT: Final = frozenset({TaskState.TYPED, TaskState.SUBMITTED, TaskState.PICKED_UP})
#: Tasks somebody still has to do something about.
OPEN: Final = IN_FLIGHT | {
    TaskState.GATED,
    TaskState.QUEUED,
    TaskState.TIMED_OUT,
    TaskState.IN_REVIEW,
}

_T = TaskState
#: A report ends a task, or opens its review.
_BACK: Final = (_T.REPORTED, _T.IN_REVIEW)
#: The whole delivery machine. `typed -> queued` is the one retry after a failed injection;
#: `lost -> queued` offers the task again; late reports of lost or timed-out work count; a move to
#: the same state only changes the reason shown.
TASK_MOVES: Final[Mapping[TaskState, frozenset[TaskState]]] = MappingProxyType(
    {
        _T.GATED: frozenset({_T.QUEUED, _T.REFUSED}),
        _T.QUEUED: frozenset({_T.QUEUED, _T.TYPED, _T.LOST, _T.REFUSED, *_BACK}),
        _T.TYPED: frozenset({_T.QUEUED, _T.SUBMITTED, _T.PICKED_UP, _T.LOST, _T.TIMED_OUT, *_BACK}),
        _T.SUBMITTED: frozenset({_T.SUBMITTED, _T.PICKED_UP, _T.LOST, _T.TIMED_OUT, *_BACK}),
        _T.PICKED_UP: frozenset({_T.LOST, _T.TIMED_OUT, *_BACK}),
        # What nobody needs any more (a judge's task whose loop went to a person) is refused.
        _T.TIMED_OUT: frozenset({_T.QUEUED, _T.LOST, _T.REFUSED, *_BACK}),
        _T.LOST: frozenset({_T.QUEUED, _T.REFUSED, *_BACK}),
        # Back to the queue for another round, accepted, or not accepted.
        _T.IN_REVIEW: frozenset({_T.IN_REVIEW, _T.QUEUED, _T.REPORTED, _T.REFUSED}),
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
        _R.HELD: frozenset({_R.QUEUED, _R.DELIVERED, _R.KEPT, _R.WITHHELD}),
        _R.DELIVERED: frozenset(),
        _R.WITHHELD: frozenset(),
    }
)
_L = LoopState
LOOP_MOVES: Final[Mapping[LoopState | None, frozenset[LoopState]]] = MappingProxyType(
    {
        None: frozenset({_L.JUDGING, _L.GATED}),
        # Rejected without a gate: its task was refused meanwhile, with its role perhaps.
        _L.JUDGING: frozenset({_L.REVISING, _L.GATED, _L.ACCEPTED, _L.REJECTED}),
        _L.REVISING: frozenset({_L.JUDGING, _L.GATED, _L.REJECTED}),
        _L.GATED: frozenset({_L.ACCEPTED, _L.REJECTED}),
        _L.ACCEPTED: frozenset(),
        _L.REJECTED: frozenset(),
    }
)
_M = MergeState
MERGE_MOVES: Final[Mapping[MergeState | None, frozenset[MergeState]]] = MappingProxyType(
    {
        None: frozenset({_M.WAITING, _M.SKIPPED}),
        # A move to the same state only changes the reason shown.
        _M.WAITING: frozenset({_M.WAITING, _M.GATED, _M.MERGED, _M.SKIPPED, _M.FAILED}),
        _M.GATED: frozenset({_M.GATED, _M.MERGED, _M.SKIPPED, _M.FAILED, _M.REJECTED}),
        _M.FAILED: frozenset({_M.WAITING}),
        _M.MERGED: frozenset(),
        _M.SKIPPED: frozenset(),
        _M.REJECTED: frozenset(),
    }
)


class IllegalMove(Exception):
    """An entry that the board's tables do not allow in the present state."""


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
        handed = state.handoff is not None and state.handoff.written
        return replace(
            state,
            running=True,
            children={},
            exits={},
            paused={},
            finished=False,
            handoff=None,
            handed_over=handed or state.handed_over,
        )
    return State(run=entry.run, running=True, gateway=state.gateway, settings=state.settings)


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
        judges=entry.task,
        round=entry.count if entry.task else 0,
    )
    if task.judges and task.judges not in state.tasks:
        raise IllegalMove(f"There is no task {task.judges} to judge.")
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
    if first not in (_R.QUEUED, _R.DELIVERED, _R.HELD, _R.WITHHELD):
        raise IllegalMove(f"A new report is queued, held, withheld or delivered, not {first}.")
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
    if first is _R.WITHHELD:
        # It came while nobody asked for one: it is kept, and changes nothing.
        return state
    task = state.tasks.get(entry.task)
    follow = _T.IN_REVIEW if first is _R.HELD else _T.REPORTED
    if task is None or task.state is _T.IN_REVIEW or follow not in TASK_MOVES[task.state]:
        return state
    closed_at = 0 if follow in OPEN else entry.at
    resolved = replace(task, state=follow, reason="", closed_at=closed_at)
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
    kind = _member(GateKind, entry.state or GateKind.ENTRY, "a kind of gate")
    task = state.tasks.get(entry.task)
    if kind is GateKind.ENTRY and (task is None or task.state is not _T.GATED or task.gate):
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
    state = replace(state, gates={**state.gates, gate.id: gate})
    if task is None:
        return state
    return replace(state, tasks={**state.tasks, task.id: replace(task, gate=gate.id)})


def _open_gate(state: State, gate_id: str) -> Gate:
    gate = state.gates.get(gate_id)
    if gate is None:
        raise IllegalMove(f"There is no gate {gate_id}.")
    if gate.decision is not Decision.OPEN:
        raise IllegalMove(f"{gate.id} was {gate.decision} already; a gate is decided once.")
    return gate


def _gate_voted(state: State, entry: Entry) -> State:
    gate = _open_gate(state, entry.id)
    if any(given.approver == entry.sender for given in gate.approvals):
        raise IllegalMove(f"{entry.sender} has approved {gate.id} already; it needs another.")
    _still_in_time(gate, entry)
    # A session that asks for more approvals than the one that opened the gate gets them.
    needed = max(gate.needed, entry.count)
    if len(gate.approvals) + 1 >= needed:
        raise IllegalMove(f"{gate.id} needs no further approval than this; it is decided by it.")
    voted = replace(gate, needed=needed, approvals=(*gate.approvals, _approval(entry)))
    return replace(state, gates={**state.gates, gate.id: voted})


def _gate_decided(state: State, entry: Entry) -> State:
    gate = _open_gate(state, entry.id)
    decision = _member(Decision, entry.state, "a decision")
    if decision is Decision.OPEN:
        raise IllegalMove(f"{gate.id} is open already.")
    if decision is Decision.APPROVED:
        gate = _with_last_approval(gate, entry)
    decided = replace(gate, decision=decision, approver=entry.sender, reason=entry.reason)
    state = replace(state, gates={**state.gates, gate.id: decided})
    if gate.kind is not GateKind.ENTRY:
        # What follows is recorded by whoever opened it.
        return state
    follow = _T.QUEUED if decision is Decision.APPROVED else _T.REFUSED
    move = Entry(
        op=Op.TASK_MOVED,
        at=entry.at,
        id=gate.task,
        state=follow,
        reason="" if decision is Decision.APPROVED else f"{gate.id} {decision}",
    )
    return _task_moved(state, move)


def _with_last_approval(gate: Gate, entry: Entry) -> Gate:
    if any(given.approver == entry.sender for given in gate.approvals):
        raise IllegalMove(f"{entry.sender} has approved {gate.id} already; it needs another.")
    _still_in_time(gate, entry)
    if len(gate.approvals) + 1 < gate.needed:
        raise IllegalMove(f"{gate.id} needs {gate.needed} approvals.")
    return replace(gate, approvals=(*gate.approvals, _approval(entry)))


def _still_in_time(gate: Gate, entry: Entry) -> None:
    if gate.until and entry.at >= gate.until:
        raise IllegalMove(f"{gate.id} has expired; it cannot be approved any more.")


def _approval(entry: Entry) -> Approval:
    return Approval(entry.sender, entry.at, entry.reason, entry.sig, entry.signed_at)


def _owned_taken(state: State, entry: Entry) -> State:
    task = state.tasks.get(entry.id)
    if task is None:
        raise IllegalMove(f"There is no task {entry.id}.")
    return replace(state, tasks={**state.tasks, task.id: replace(task, owned_ref=entry.ref)})


def _loop_moved(state: State, entry: Entry) -> State:
    if entry.id not in state.tasks:
        raise IllegalMove(f"There is no task {entry.id}.")
    target = _member(LoopState, entry.state, "a state of a loop")
    before = state.loops.get(entry.id)
    if target not in LOOP_MOVES[before.state if before else None]:
        raise IllegalMove(f"The loop of {entry.id} cannot become {target}.")
    loop = Loop(
        task=entry.id,
        judge=entry.role or (before.judge if before else ""),
        state=target,
        round=entry.count or (before.round if before else 1),
        judge_task=entry.task or (before.judge_task if before else ""),
        path=entry.path or (before.path if before else ""),
        reason=entry.reason,
        verdict=entry.ref or (before.verdict if before else ""),
    )
    return replace(state, loops={**state.loops, loop.task: loop})


def _merge_moved(state: State, entry: Entry) -> State:
    task = state.tasks.get(entry.id)
    if task is None:
        raise IllegalMove(f"There is no task {entry.id}.")
    target = _member(MergeState, entry.state, "a state of a merge")
    before = state.landings.get(entry.id)
    if target not in MERGE_MOVES[before.state if before else None]:
        raise IllegalMove(f"The merge of {entry.id} cannot become {target}.")
    commit = entry.digest or (before.commit if before else "")
    landing = Landing(task.id, entry.role or task.role, target, commit, entry.reason)
    return replace(state, landings={**state.landings, task.id: landing})


def _worktree_committed(state: State, entry: Entry) -> State:
    if entry.id not in state.tasks:
        raise IllegalMove(f"There is no task {entry.id}.")
    outcome = _member(CommitState, entry.state, "an outcome of a commit")
    commit = Commit(entry.id, entry.role, outcome, entry.digest, entry.reason)
    return replace(state, commits=(*state.commits, commit))


def _role_paused(state: State, entry: Entry) -> State:
    if entry.role in state.paused:
        raise IllegalMove(f"{entry.role} is paused already.")
    return replace(state, paused={**state.paused, entry.role: entry.at})


def _role_resumed(state: State, entry: Entry) -> State:
    """The time spent paused does not count against a task's limit."""
    since = state.paused.get(entry.role)
    if since is None:
        raise IllegalMove(f"{entry.role} is not paused.")
    credited = {
        task.id: replace(
            task, delivered_at=task.delivered_at + entry.at - max(since, task.delivered_at)
        )
        for task in state.in_flight(entry.role)
    }
    paused = {role: at for role, at in state.paused.items() if role != entry.role}
    return replace(state, paused=paused, tasks={**state.tasks, **credited})


def _budget_exceeded(state: State, entry: Entry) -> State:
    return replace(state, exceeded={**state.exceeded, entry.role: entry.digest})


def _budget_rearmed(state: State, entry: Entry) -> State:
    exceeded = {role: cap for role, cap in state.exceeded.items() if role != entry.role}
    return replace(state, exceeded=exceeded)


def _config_set(state: State, entry: Entry) -> State:
    return replace(state, config=entry.path, settings=entry.digest or state.settings)


def _handoff_ended(state: State, entry: Entry) -> State:
    return replace(state, handoff=Handoff(entry.path, written=entry.done))


def _denied(state: State, entry: Entry) -> State:
    return replace(state, denials=state.denials + 1)


def _role_started(state: State, entry: Entry) -> State:
    exits = {role: why for role, why in state.exits.items() if role != entry.role}
    child = Child(entry.pid, entry.born)
    roster = {**state.roster, entry.role: False}
    children = {**state.children, entry.role: child}
    return replace(state, children=children, exits=exits, roster=roster)


def _role_removed(state: State, entry: Entry) -> State:
    return replace(state, roster={**state.roster, entry.role: True})


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


_Member = TypeVar("_Member", bound=StrEnum)


def _member(kind: type[_Member], name: str, what: str) -> _Member:
    try:
        return kind(name)
    except ValueError:
        raise IllegalMove(f"{name!r} is not {what}.") from None


def _task_state(name: str) -> TaskState:
    return _member(TaskState, name, "a state of a task")


def _report_state(name: str) -> ReportState:
    return _member(ReportState, name, "a state of a report")


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
        Op.CONFIG_SET: _config_set,
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
        Op.GATE_VOTED: _gate_voted,
        Op.OWNED_TAKEN: _owned_taken,
        Op.LOOP_MOVED: _loop_moved,
        Op.WORKTREE_MADE: _on_record_only,
        Op.WORKTREE_COMMITTED: _worktree_committed,
        Op.MERGE_MOVED: _merge_moved,
        Op.ROLE_PAUSED: _role_paused,
        Op.ROLE_RESUMED: _role_resumed,
        Op.ROLE_ADDED: _on_record_only,
        Op.ROLE_REMOVED: _role_removed,
        Op.ROLE_CHANGED: _on_record_only,
        Op.RELOADED: _on_record_only,
        Op.BUDGET_EXCEEDED: _budget_exceeded,
        Op.BUDGET_REARMED: _budget_rearmed,
        Op.HANDOFF_BEGUN: _on_record_only,
        Op.HANDOFF_ENDED: _handoff_ended,
        Op.ANSWERED: _on_record_only,
    }
)
