"""The replay: what each entry of the journal makes of the board.

Owns the table from operation to function, and the entries about the run itself, its processes and
its roles. Invariant: `apply(state, entry)` is pure and total over the entries it accepts; a move
that the tables do not allow raises `IllegalMove` before anything is written (law 6). To add an
operation: one function and one line in the table; it changes the state by `changed` and `with_row`
only. `deck.journal` applies entries as they are recorded, and replays those of a whole ledger.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from deck.board import Child, Draft, Handoff, State, changed
from deck.entries import Entry, Op
from deck.gate_moves import gate_decided, gate_opened, gate_voted
from deck.moves import IllegalMove
from deck.task_moves import (
    loop_moved,
    merge_moved,
    owned_taken,
    report_added,
    report_moved,
    task_added,
    task_moved,
    worktree_committed,
)


def apply(state: State, entry: Entry) -> State:
    """Return the state after one entry. Raises IllegalMove when the tables forbid it."""
    return _APPLY[entry.op](state, entry)


def replay(entries: Iterable[Entry]) -> State:
    """Return the state a whole journal leads to. Raises IllegalMove like `apply`."""
    state: State = Draft()
    for entry in entries:
        state = apply(state, entry)
    assert type(state) is Draft, "every entry leaves a draft one"
    return state.finished_board()


def _session_started(state: State, entry: Entry) -> State:
    """A resumed run keeps the board; any other run starts an empty one."""
    if entry.state == "resumed":
        handed = state.handoff is not None and state.handoff.written
        return changed(
            state,
            running=True,
            children={},
            exits={},
            paused={},
            finished=False,
            handoff=None,
            handed_over=handed or state.handed_over,
        )
    empty = type(state)
    return empty(run=entry.run, running=True, gateway=state.gateway, settings=state.settings)


def _session_stopped(state: State, entry: Entry) -> State:
    return changed(state, running=False, children={})


def _role_paused(state: State, entry: Entry) -> State:
    if entry.role in state.paused:
        raise IllegalMove(f"{entry.role} is paused already.")
    return changed(state, paused={**state.paused, entry.role: entry.at})


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
    return changed(state, paused=paused, tasks={**state.tasks, **credited})


def _budget_exceeded(state: State, entry: Entry) -> State:
    return changed(state, exceeded={**state.exceeded, entry.role: entry.digest})


def _budget_rearmed(state: State, entry: Entry) -> State:
    exceeded = {role: cap for role, cap in state.exceeded.items() if role != entry.role}
    return changed(state, exceeded=exceeded)


def _config_set(state: State, entry: Entry) -> State:
    return changed(state, config=entry.path, settings=entry.digest or state.settings)


def _handoff_ended(state: State, entry: Entry) -> State:
    return changed(state, handoff=Handoff(entry.path, written=entry.done))


def _denied(state: State, entry: Entry) -> State:
    return changed(state, denials=state.denials + 1)


def _role_started(state: State, entry: Entry) -> State:
    exits = {role: why for role, why in state.exits.items() if role != entry.role}
    child = Child(entry.pid, entry.born)
    roster = {**state.roster, entry.role: False}
    children = {**state.children, entry.role: child}
    return changed(state, children=children, exits=exits, roster=roster)


def _role_removed(state: State, entry: Entry) -> State:
    return changed(state, roster={**state.roster, entry.role: True})


def _role_exited(state: State, entry: Entry) -> State:
    children = {role: child for role, child in state.children.items() if role != entry.role}
    return changed(state, children=children, exits={**state.exits, entry.role: entry.reason})


def _gateway_started(state: State, entry: Entry) -> State:
    return changed(state, gateway=Child(entry.pid, entry.born))


def _gateway_stopped(state: State, entry: Entry) -> State:
    return changed(state, gateway=None)


def _finished(state: State, entry: Entry) -> State:
    return changed(state, finished=True)


def _usage_taken(state: State, entry: Entry) -> State:
    return changed(state, usage=entry.reason)


def _on_record_only(state: State, entry: Entry) -> State:
    """A change of something outside the board, which only has to be known later."""
    return state


_APPLY: Final = MappingProxyType(
    {
        Op.SESSION_STARTED: _session_started,
        Op.SESSION_STOPPED: _session_stopped,
        Op.TASK_ADDED: task_added,
        Op.TASK_MOVED: task_moved,
        Op.REPORT_ADDED: report_added,
        Op.REPORT_MOVED: report_moved,
        Op.GATE_OPENED: gate_opened,
        Op.GATE_DECIDED: gate_decided,
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
        Op.GATE_VOTED: gate_voted,
        Op.OWNED_TAKEN: owned_taken,
        Op.LOOP_MOVED: loop_moved,
        Op.WORKTREE_MADE: _on_record_only,
        Op.WORKTREE_COMMITTED: worktree_committed,
        Op.MERGE_MOVED: merge_moved,
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
