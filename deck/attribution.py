"""Whose change it was: which task changed a path, by the snapshots taken around it.

Owns the rule. Between two neighboring snapshots the tasks then open are known; a path that changed
while one task alone was at work is that task's. Of those that only changed while several were at
work nothing is guessed: they are doubtful, with what the tasks' texts hint at. What an undo or a
merge changed is no task's work. Reads git and changes nothing. Called by `deck.rollback_plan`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from deck.checkpoints import Checkpoint, Kind
from deck.gitrepo import Difference, GitRepo
from deck.traces import Traces

_LISTED: Final = 5
#: What the deck itself does to a working tree.
OF_THE_DECK: Final = (Kind.UNDO, Kind.MERGE)


@dataclass(frozen=True, slots=True)
class Window:
    """The time a task was open: from its delivery to its end; `end` None means still open."""

    start: Checkpoint
    end: Checkpoint | None

    def covers(self, first: int, last: int) -> bool:
        """Whether the task was open for all of this time."""
        return self.start.at <= first and (self.end is None or self.end.at >= last)


@dataclass(slots=True)
class Evidence:
    """Paths by who was at work when they changed."""

    alone: set[str] = field(default_factory=set)
    together: dict[str, set[str]] = field(default_factory=dict)
    later: dict[str, set[str]] = field(default_factory=dict)


def window_of(start: Checkpoint, ours: list[Checkpoint]) -> Window:
    """Return when the task of `start` was open, by the snapshots of its deck.

    Without an end of its own a task ended when its role, or its id, was next given work.
    """
    again = min((f.at for f in ours if f.name == start.name and f.at > start.at), default=None)
    ends = [
        found
        for found in ours
        if found.name == f"{start.name}-done"
        and found.at > start.at
        and (again is None or found.at < again)
    ]
    if ends:
        # A task sent back for another round ends more than once; the last end counts.
        return Window(start, max(ends, key=lambda found: found.at))
    nexts = [
        found
        for found in ours
        if start.kind is Kind.DELIVERY
        and found.kind is Kind.DELIVERY
        and found.at > start.at
        and (found.name == start.name or (start.role and found.role == start.role))
    ]
    return Window(start, min(nexts, key=lambda found: found.at, default=None))


def gather(repo: GitRepo, window: Window, ours: list[Checkpoint], now_tree: str) -> Evidence:
    """Sort the paths changed since the task began by who was at work then."""
    tasks = [window_of(f, ours) for f in ours if f.kind is Kind.DELIVERY]
    others_work = [window_of(f, ours) for f in ours if f.kind in OF_THE_DECK]
    evidence = Evidence()
    since = [found for found in ours if found.at >= window.start.at]
    for start, end, differences in _segments(repo, since, now_tree):
        changed = {found.path for found in differences}
        if any(one.end is not None and one.covers(start, end) for one in others_work):
            if window.start.kind in OF_THE_DECK and window.covers(start, end):
                evidence.alone |= changed
            continue
        open_tasks = {task.start.name for task in tasks if task.covers(start, end)}
        others = open_tasks - {window.start.name}
        if window.end is not None and start >= window.end.at:
            _note(evidence.later, changed, others)
        elif window.covers(start, end):
            if others:
                _note(evidence.together, changed, others)
            else:
                evidence.alone |= changed
    return evidence


def _segments(
    repo: GitRepo, snapshots: list[Checkpoint], now_tree: str
) -> Iterator[tuple[int, int, list[Difference]]]:
    """Yield start, end and what changed between neighboring snapshots, the last being now."""
    points = [(found.at, found.tree) for found in sorted(snapshots, key=lambda f: f.at)]
    if points:
        points.append((points[-1][0] + 1, now_tree))
    for (start, before), (end, after) in itertools.pairwise(points):
        changed = repo.differences(before, after)
        if changed:
            yield start, end, changed


def attribute(
    candidates: list[Difference], target: Checkpoint, evidence: Evidence, traces: Traces
) -> tuple[list[Difference], list[tuple[Difference, str]]]:
    """Split the paths that differ over a task's time into its own and the doubtful ones."""
    mine: list[Difference] = []
    doubtful: list[tuple[Difference, str]] = []
    for found in candidates:
        others = evidence.together.get(found.path, set())
        if others:
            everyone = {*others, target.name}
            reason = f"{list_of(everyone)} were at work together when it changed"
            naming = [task for task in everyone if traces.score(task, found.path)]
            if naming:
                reason += f"; named in the texts of {list_of(naming)}"
            doubtful.append((found, reason))
        elif found.path in evidence.alone:
            mine.append(found)
    return mine, doubtful


def made_by_tasks(
    repo: GitRepo, target: Checkpoint, history: tuple[Checkpoint, ...], now_tree: str
) -> set[str]:
    """Return the paths that appeared last while a task of any deck was open, or by an undo."""
    windows = [
        window_of(start, [found for found in history if found.deck == start.deck])
        for start in history
        if start.kind in (Kind.DELIVERY, *OF_THE_DECK)
    ]
    # A merge that failed left nothing open.
    windows = [w for w in windows if w.start.kind is not Kind.MERGE or w.end is not None]
    made: set[str] = set()
    since = [found for found in history if found.at >= target.at]
    for start, end, changed in _segments(repo, since, now_tree):
        new = {found.path for found in changed if found.before is None}
        if any(window.covers(start, end) for window in windows):
            made |= new
        else:
            made -= new
    return made


def _note(table: dict[str, set[str]], paths: Iterable[str], names: set[str]) -> None:
    for path in paths:
        table.setdefault(path, set()).update(names)


def list_of(names: Iterable[str]) -> str:
    """Return names as words for a sentence, the first few of many."""
    every = sorted(set(names))
    shown = ", ".join(every[:_LISTED])
    return f"{shown} and {len(every) - _LISTED} more" if len(every) > _LISTED else shown
