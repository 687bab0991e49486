"""What the journal's entries do to tasks: delegated, delivered, reported, judged, merged.

Owns the life of a task on the board, with its reports, its loop and its landing. Invariants: only
moves of `deck.moves` are made; a gated task is queued by the approval of its gate and nothing
else; a report ends its task, or opens its review, at most once and never raises for a task that
is over. Pure. Called by `deck.replay`, and by `deck.gate_moves` for what follows from a decision.
"""

from __future__ import annotations

from dataclasses import replace

from deck.board import Commit, Landing, Loop, Report, State, Task, changed, with_row
from deck.entries import (
    CommitState,
    Decision,
    Entry,
    LoopState,
    MergeState,
    ReportState,
    TaskState,
)
from deck.moves import (
    LOOP_MOVES,
    MERGE_MOVES,
    OPEN,
    REPORT_MOVES,
    TASK_MOVES,
    IllegalMove,
    member,
)

_T = TaskState
_R = ReportState


def task_added(state: State, entry: Entry) -> State:
    """A task is given out: queued, or waiting for its gate."""
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
    return with_row(state, "tasks", task.id, task)


def task_moved(state: State, entry: Entry) -> State:
    """A task comes into its next state; one that is gated only by its approval."""
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
    return with_row(state, "tasks", task.id, moved)


def _is_approved(state: State, task: Task) -> bool:
    gate = state.gates.get(task.gate)
    return gate is not None and gate.decision is Decision.APPROVED


def report_added(state: State, entry: Entry) -> State:
    """A report comes in; it ends its task, or opens its review, if that is open."""
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
    state = with_row(state, "reports", report.id, report)
    if first is _R.WITHHELD:
        # It came while nobody asked for one: it is kept, and changes nothing.
        return state
    task = state.tasks.get(entry.task)
    follow = _T.IN_REVIEW if first is _R.HELD else _T.REPORTED
    if task is None or task.state is _T.IN_REVIEW or follow not in TASK_MOVES[task.state]:
        return state
    closed_at = 0 if follow in OPEN else entry.at
    resolved = replace(task, state=follow, reason="", closed_at=closed_at)
    return with_row(state, "tasks", task.id, resolved)


def report_moved(state: State, entry: Entry) -> State:
    """A report comes into its next state."""
    report = state.reports.get(entry.id)
    if report is None:
        raise IllegalMove(f"There is no report {entry.id}.")
    target = _report_state(entry.state)
    if target not in REPORT_MOVES[report.state]:
        raise IllegalMove(f"{report.id} is {report.state} and cannot become {target}.")
    moved = replace(report, state=target, reason=entry.reason)
    return with_row(state, "reports", report.id, moved)


def owned_taken(state: State, entry: Entry) -> State:
    """What the files owned by others held when the task was delivered."""
    task = state.tasks.get(entry.id)
    if task is None:
        raise IllegalMove(f"There is no task {entry.id}.")
    return with_row(state, "tasks", task.id, replace(task, owned_ref=entry.ref))


def loop_moved(state: State, entry: Entry) -> State:
    """The judging of a task comes into its next state; what is not said stays."""
    if entry.id not in state.tasks:
        raise IllegalMove(f"There is no task {entry.id}.")
    target = member(LoopState, entry.state, "a state of a loop")
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
    return with_row(state, "loops", loop.task, loop)


def merge_moved(state: State, entry: Entry) -> State:
    """The merging of a task comes into its next state."""
    task = state.tasks.get(entry.id)
    if task is None:
        raise IllegalMove(f"There is no task {entry.id}.")
    target = member(MergeState, entry.state, "a state of a merge")
    before = state.landings.get(entry.id)
    if target not in MERGE_MOVES[before.state if before else None]:
        raise IllegalMove(f"The merge of {entry.id} cannot become {target}.")
    commit = entry.digest or (before.commit if before else "")
    landing = Landing(task.id, entry.role or task.role, target, commit, entry.reason)
    return with_row(state, "landings", task.id, landing)


def worktree_committed(state: State, entry: Entry) -> State:
    """What became of a task's work when it was to be committed."""
    if entry.id not in state.tasks:
        raise IllegalMove(f"There is no task {entry.id}.")
    outcome = member(CommitState, entry.state, "an outcome of a commit")
    commit = Commit(entry.id, entry.role, outcome, entry.digest, entry.reason)
    return changed(state, commits=(*state.commits, commit))


def _task_state(name: str) -> TaskState:
    return member(TaskState, name, "a state of a task")


def _report_state(name: str) -> ReportState:
    return member(ReportState, name, "a state of a report")
