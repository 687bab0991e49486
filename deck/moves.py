"""The tables of legal moves: which state of a task, report, loop or merge may follow which.

Owns the machines, as tables; and the error for a move that is not in them, which is raised before
anything is written. Invariant: a table covers every state of its kind, so nothing is allowed by
being forgotten. `deck.replay` and its parts apply them; whoever is about to record a move may look
first whether it is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeVar

from deck.entries import LoopState, MergeState, ReportState, TaskState

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


_Member = TypeVar("_Member", bound=StrEnum)


def member(kind: type[_Member], name: str, what: str) -> _Member:
    """Return the state, or decision, called `name`. Raises IllegalMove, which says it is not
    `what` ("a state of a task")."""
    try:
        return kind(name)
    except ValueError:
        raise IllegalMove(f"{name!r} is not {what}.") from None
