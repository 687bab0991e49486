"""Undo of one task: which files it changed, what putting them back would meet, and doing it.

Owns the plan and its execution. Invariants: nothing is written before everything was checked and
the workspace as it is was kept as `pre-rollback-<id>`; only files change, never HEAD, index,
branches, stash or ignored files; a path is put back only if the task changed it and nobody
changed it since; a file that is in no snapshot is never overwritten or deleted; submodules and
repositories inside the repository are left alone.

Whose change it was: between two neighboring snapshots the tasks then open are known. A path that
changed while one task alone was at work is that task's. Of those that only changed while several
were at work nothing is guessed: they are left alone and said, with what the tasks' texts hint at,
unless the caller asks to overwrite. What an undo or a merge changed is no task's work. A file that
appeared while no task was open is never deleted without being asked for. An undo whose process
died is finished by undoing to the same checkpoint, or taken back by undoing to its own.
The command line calls this through Checkpoints; the files are moved by `deck.restore`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from deck.checkpoints import LOST_SUBJECT, Checkpoint, Checkpoints, Kind
from deck.gitrepo import Difference, Entry, GitError, GitRepo
from deck.restore import (
    Change,
    HalfWay,
    RollbackBusy,
    RollbackFailed,
    Turn,
    UnderWay,
    parents_of,
    staged,
    sweep,
    turn,
)
from deck.traces import Traces

__all__ = [
    "Change",
    "Finding",
    "Outcome",
    "Overlap",
    "Plan",
    "RollbackBusy",
    "RollbackConflict",
    "RollbackFailed",
    "RollbackIncomplete",
    "RollbackInterrupted",
    "RollbackStale",
    "Scope",
]

_LISTED: Final = 5
#: What the deck itself does to a working tree.
_OF_THE_DECK: Final = (Kind.UNDO, Kind.MERGE)


class Scope(Enum):
    """What an undo covers."""

    #: The paths the task changed.
    TASK = "task"
    #: Every path: the workspace becomes what it was.
    WHOLE = "whole"


class Overlap(Enum):
    """What happens to paths that others changed later, or may have changed."""

    REFUSE = "refuse"
    OVERWRITE = "overwrite"


class RollbackConflict(GitError):
    """Paths of the task were changed again since; nothing was done."""


class RollbackStale(GitError):
    """Files changed between the plan and its execution; nothing was done."""


class RollbackInterrupted(GitError):
    """An earlier undo did not come to its end; that one first."""


class RollbackIncomplete(GitError):
    """The undo stopped half way or did not have the planned effect."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One path the undo does not touch, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What an undo would do. With conflicts it will not be carried out."""

    target: Checkpoint
    scope: Scope
    now_tree: str
    changes: tuple[Change, ...]
    conflicts: tuple[Finding, ...] = ()
    left_alone: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    #: The checkpoint of an interrupted undo that this one finishes or takes back.
    resumes: Checkpoint | None = None
    #: Paths that such an undo had deleted already; their directories may be left hollow.
    deleted_before: tuple[str, ...] = ()

    @property
    def has_nothing_to_do(self) -> bool:
        """Whether the workspace already is what the undo would make it."""
        return not self.changes and not self.conflicts and self.resumes is None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an undo did; `undo` is the checkpoint that takes it back, None if nothing changed."""

    undo: Checkpoint | None
    restored: int
    deleted: int


@dataclass(frozen=True, slots=True)
class _Window:
    """The time a task was open: from its delivery to its end; `end` None means still open."""

    start: Checkpoint
    end: Checkpoint | None

    def covers(self, first: int, last: int) -> bool:
        return self.start.at <= first and (self.end is None or self.end.at >= last)

    def meets(self, other: _Window) -> bool:
        return (self.end is None or self.end.at > other.start.at) and (
            other.end is None or other.end.at > self.start.at
        )


@dataclass(slots=True)
class _Evidence:
    """Paths by who was at work when they changed."""

    alone: set[str] = field(default_factory=set)
    together: dict[str, set[str]] = field(default_factory=dict)
    later: dict[str, set[str]] = field(default_factory=dict)


def make_plan(store: Checkpoints, target: Checkpoint, scope: Scope, overlap: Overlap) -> Plan:
    """Return what undoing to `target` would change. Raises GitError.

    A checkpoint that is not the start of anything (an end, a merge that failed) is always whole.
    """
    with turn(store.repo) as held:
        halfway = _under_way(store, held)
    if halfway is not None:
        return _resumption(store, target, *halfway)
    repo = store.repo
    now_tree = repo.write_workspace_tree()
    history = store.history()
    ours = [found for found in history if found.deck == target.deck]
    window = _window(target, ours)
    if target.kind in _OF_THE_DECK and window.end is None:
        scope = Scope.WHOLE
    if scope is Scope.WHOLE or target.kind is Kind.DONE:
        return _plan_of_everything(repo, target, history, now_tree, overlap)
    notes = _head_note(repo, target) + _end_note(window)
    evidence = _gather(repo, window, ours, now_tree)
    end_tree = window.end.tree if window.end else now_tree
    candidates = repo.differences(target.tree, end_tree)
    mine, doubtful = _attribute(candidates, target, evidence, Traces(store.directory))
    together = {name for f in candidates for name in evidence.together.get(f.path, ())}
    if together:
        notes += (
            f"{_list_of(together)} worked at the same time; only what {target.name} changed while "
            "it was alone is surely its work.",
        )
    if overlap is Overlap.OVERWRITE:
        mine, doubtful = mine + [found for found, _ in doubtful], []
    since = {found.path: found for found in repo.differences(end_tree, now_tree)}
    wanted, conflicts = _against_now(mine, since, evidence, overlap)
    changes, blocked = _possible(repo, wanted)
    left = [
        Finding(found.path, reason)
        for found, reason in doubtful
        if _now(found, since) != found.before
    ]
    return Plan(
        target, scope, now_tree, changes, tuple(conflicts), (*left, *blocked), notes
    )  # fmt: skip


def _plan_of_everything(
    repo: GitRepo,
    target: Checkpoint,
    history: tuple[Checkpoint, ...],
    now_tree: str,
    overlap: Overlap,
) -> Plan:
    wanted: list[Change] = []
    left: list[Finding] = []
    differing = repo.differences(now_tree, target.tree)
    appeared = {found.path for found in differing if found.after is None}
    if appeared and overlap is Overlap.REFUSE:
        appeared -= _made_by_tasks(repo, target, history, now_tree)
    else:
        appeared = set()
    for found in differing:
        if found.path in appeared:
            reason = "it appeared while no task was open; --force deletes it too"
            left.append(Finding(found.path, reason))
        else:
            wanted.append(Change(found.path, found.after, found.before))
    changes, blocked = _possible(repo, wanted)
    return Plan(
        target, Scope.WHOLE, now_tree, changes, (), (*left, *blocked), _head_note(repo, target)
    )  # fmt: skip


def _made_by_tasks(
    repo: GitRepo, target: Checkpoint, history: tuple[Checkpoint, ...], now_tree: str
) -> set[str]:
    """Return the paths that appeared last while a task of any deck was open, or by an undo."""
    windows = [
        _window(start, [found for found in history if found.deck == start.deck])
        for start in history
        if start.kind in (Kind.DELIVERY, *_OF_THE_DECK)
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


def _under_way(store: Checkpoints, held: Turn) -> tuple[UnderWay, Checkpoint] | None:
    """Return the undo whose process ended before it did, and the checkpoint it made first."""
    began = held.under_way()
    if began is None:
        return None
    if store.repo.holds(began.goal_tree):
        for found in store.history():
            if found.name == began.name and found.at > began.at and found.tree == began.now_tree:
                return began, found
    held.end()  # it had not touched a file, or what it was about is long gone
    return None


def _resumption(store: Checkpoints, target: Checkpoint, began: UnderWay, undo: Checkpoint) -> Plan:
    """Return the plan that finishes an interrupted undo, or takes back what it had done."""
    repo = store.repo
    aim = _of_ref(store, began.target)
    if target.ref == undo.ref:
        origin, wanted_tree = began.goal_tree, undo.tree
        note = "this takes back the rollback that was interrupted."
    elif target.ref == began.target or (aim is not None and aim.name == target.name):
        origin, wanted_tree = undo.tree, began.goal_tree
        note = "this finishes the rollback that was interrupted."
    else:
        raise RollbackInterrupted(_interrupted(aim, began, undo))
    now_tree = repo.write_workspace_tree()
    since = {found.path: found for found in repo.differences(wanted_tree, now_tree)}
    wanted: list[Change] = []
    left: list[Finding] = []
    deleted: list[str] = []
    for found in repo.differences(origin, wanted_tree):
        if found.after is None:
            deleted.append(found.path)
        now = since[found.path].after if found.path in since else found.after
        if now == found.after:
            continue
        if now is None or now == found.before:
            wanted.append(Change(found.path, found.after, now))
        else:
            left.append(Finding(found.path, "changed since the rollback was interrupted"))
    changes, blocked = _possible(repo, wanted)
    return Plan(
        target,
        Scope.TASK,
        now_tree,
        changes,
        left_alone=(*left, *blocked),
        notes=(note,),
        resumes=undo,
        deleted_before=tuple(deleted),
    )


def _of_ref(store: Checkpoints, ref: str) -> Checkpoint | None:
    return next((found for found in store.history() if found.ref == ref), None)


def _interrupted(aim: Checkpoint | None, began: UnderWay, undo: Checkpoint) -> str:
    # By its full name where the short one means the newer checkpoint.
    to = began.target.rsplit("/", 1)[-1] if aim is None or aim.name == undo.name else aim.name
    return (
        f"a rollback to {to} was interrupted; finish it with `choragos rollback {to}`, or take it "
        f"back with `choragos rollback {undo.name}`."
    )


def apply_plan(store: Checkpoints, plan: Plan) -> Outcome:
    """Put the planned paths back, after keeping the workspace as it is.

    Raises RollbackConflict, RollbackStale, RollbackBusy or RollbackFailed with nothing changed,
    RollbackIncomplete otherwise.
    """
    if plan.conflicts:
        raise RollbackConflict(
            f"{_list_of(found.path for found in plan.conflicts)} changed again after "
            f"{plan.target.name}; nothing was rolled back: look at those files, or use --force to "
            "overwrite them."
        )
    if not plan.changes and plan.resumes is None:
        return Outcome(None, 0, 0)
    with store.lock, turn(store.repo) as held:
        halfway = _under_way(store, held)
        if (halfway[1] if halfway else None) != plan.resumes:
            raise RollbackStale(
                "another rollback ran while this one was being confirmed; nothing was rolled "
                "back: run it again."
            )
        return _apply(store, plan, held)


def _apply(store: Checkpoints, plan: Plan, held: Turn) -> Outcome:
    repo, paths = store.repo, {change.path for change in plan.changes}
    tree = repo.write_workspace_tree()
    moved = [f.path for f in repo.differences(plan.now_tree, tree) if f.path in paths]
    if moved:
        raise RollbackStale(
            f"{_list_of(moved)} changed while the rollback was being confirmed; nothing was rolled "
            "back: run it again."
        )
    goal = repo.compose(tree, {change.path: change.wanted for change in plan.changes})
    with staged(repo, goal, plan.changes) as stage:
        undo = plan.resumes or _begin(store, plan, held, tree, goal)
        try:
            stage.put_in_place()
        except HalfWay as failure:
            raise RollbackIncomplete(_half_way(str(failure), plan, undo)) from None
        except BaseException:
            if plan.resumes is None:
                # Every file is as it was, so there is no undo to take back.
                store.forget(undo)
                held.end()
            raise
        deletions = [change.path for change in plan.changes if change.wanted is None]
        sweep(repo, [*deletions, *plan.deleted_before], plan.target.at / 1e9)
    try:
        # What others did meanwhile is not in it, so that it never counts as done by the undo.
        store.record(f"{undo.name}-done", f"{undo.name} -> workspace: after rollback", goal)
        held.end()
        done = repo.write_workspace_tree()
    except (GitError, OSError) as failure:
        raise RollbackIncomplete(_half_way(str(failure), plan, undo)) from None
    wrong = [found.path for found in repo.differences(goal, done) if found.path in paths]
    if wrong:
        raise RollbackIncomplete(
            f"{_list_of(wrong)} could not be put back, or changed at the same moment; look there, "
            f"or take the rollback back with `choragos rollback {undo.name}`."
        )
    deleted = sum(change.wanted is None for change in plan.changes)
    return Outcome(undo, len(plan.changes) - deleted, deleted)


def _begin(store: Checkpoints, plan: Plan, held: Turn, tree: str, goal: str) -> Checkpoint:
    """Note the undo and keep the workspace as it is; return that checkpoint."""
    name = f"pre-rollback-{plan.target.task_id}"
    newest = max((found.at for found in store.history()), default=0)
    held.begin(UnderWay(plan.target.ref, name, tree, goal, newest))
    subject = f"{name} -> workspace: before rollback to {plan.target.name}"
    try:
        return store.record(name, subject, tree)
    except BaseException:
        held.end()
        raise


def _window(start: Checkpoint, ours: list[Checkpoint]) -> _Window:
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
        return _Window(start, max(ends, key=lambda found: found.at))
    nexts = [
        found
        for found in ours
        if start.kind is Kind.DELIVERY
        and found.kind is Kind.DELIVERY
        and found.at > start.at
        and (found.name == start.name or (start.role and found.role == start.role))
    ]
    return _Window(start, min(nexts, key=lambda found: found.at, default=None))


def _end_note(window: _Window) -> tuple[str, ...]:
    task, end = window.start.task_id, window.end
    if end is None:
        until = "since its delivery"
    elif end.subject.endswith(LOST_SUBJECT):
        until = "until its loss was noticed"
    else:
        return ()
    return (f"{task} has not reported; what changed {until} counts as its work.",)


def _gather(repo: GitRepo, window: _Window, ours: list[Checkpoint], now_tree: str) -> _Evidence:
    """Sort the paths changed since the task began by who was at work then."""
    tasks = [_window(f, ours) for f in ours if f.kind is Kind.DELIVERY]
    others_work = [_window(f, ours) for f in ours if f.kind in _OF_THE_DECK]
    evidence = _Evidence()
    since = [found for found in ours if found.at >= window.start.at]
    for start, end, differences in _segments(repo, since, now_tree):
        changed = {found.path for found in differences}
        if any(one.end is not None and one.covers(start, end) for one in others_work):
            if window.start.kind in _OF_THE_DECK and window.covers(start, end):
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


def _attribute(
    candidates: list[Difference], target: Checkpoint, evidence: _Evidence, traces: Traces
) -> tuple[list[Difference], list[tuple[Difference, str]]]:
    """Split the paths that differ over a task's time into its own and the doubtful ones."""
    mine: list[Difference] = []
    doubtful: list[tuple[Difference, str]] = []
    for found in candidates:
        others = evidence.together.get(found.path, set())
        if others:
            everyone = {*others, target.name}
            reason = f"{_list_of(everyone)} were at work together when it changed"
            naming = [task for task in everyone if traces.score(task, found.path)]
            if naming:
                reason += f"; named in the texts of {_list_of(naming)}"
            doubtful.append((found, reason))
        elif found.path in evidence.alone:
            mine.append(found)
    return mine, doubtful


def _against_now(
    mine: list[Difference],
    since: Mapping[str, Difference],
    evidence: _Evidence,
    overlap: Overlap,
) -> tuple[list[Change], list[Finding]]:
    """Compare the task's paths with the workspace: what to put back, what changed again since."""
    wanted: list[Change] = []
    conflicts: list[Finding] = []
    for found in mine:
        now = _now(found, since)
        if now == found.before:
            continue
        if now == found.after or overlap is Overlap.OVERWRITE:
            wanted.append(Change(found.path, found.before, now))
            continue
        tasks = evidence.later.get(found.path, set())
        reason = f"changed later by {_list_of(tasks)}" if tasks else "changed later"
        conflicts.append(Finding(found.path, reason))
    return wanted, conflicts


def _now(found: Difference, since: Mapping[str, Difference]) -> Entry | None:
    later = since.get(found.path)
    return later.after if later is not None else found.after


def _possible(
    repo: GitRepo, wanted: list[Change]
) -> tuple[tuple[Change, ...], tuple[Finding, ...]]:
    """Split changes into those that can be made and those that something is in the way of."""
    changes: list[Change] = []
    blocked: list[Finding] = []
    deletions = {change.path for change in wanted if change.wanted is None}
    for change in wanted:
        reason = _obstacle(repo.top, change, deletions)
        if reason is None:
            changes.append(change)
        else:
            blocked.append(Finding(change.path, reason))
    return tuple(changes), tuple(blocked)


def _obstacle(top: Path, change: Change, deletions: set[str]) -> str | None:
    """Return why a change cannot be made without touching what no snapshot holds, or None."""
    if any(entry is not None and entry.is_gitlink for entry in (change.wanted, change.now)):
        return "it is a repository of its own"
    for parent in parents_of(change.path):
        place = top / parent
        if (place / ".git").exists():
            return f"{parent} is a repository of its own"
        if os.path.lexists(place) and (place.is_symlink() or not place.is_dir()):
            if parent in deletions and change.wanted is not None:
                return None
            return f"{parent} is not a directory"
    place = top / change.path
    if place.is_dir() and not place.is_symlink():
        if change.wanted is None or not _holds_only(place, change.path, deletions):
            return "a directory with other files is in its place"
    elif change.now is None and os.path.lexists(place):
        return "a file that git ignores is in its place"
    return None


def _holds_only(directory: Path, relative: str, deletions: set[str]) -> bool:
    for folder, names, files in os.walk(directory):
        inside = os.path.relpath(folder, directory)
        prefix = relative if inside == "." else f"{relative}/{inside}"
        links = [name for name in names if os.path.islink(os.path.join(folder, name))]
        if any(f"{prefix}/{name}" not in deletions for name in (*files, *links)):
            return False
    return True


def _half_way(said: str, plan: Plan, undo: Checkpoint) -> str:
    to = plan.target.name
    if to == undo.name:
        to = plan.target.ref.rsplit("/", 1)[-1]
    return (
        f"the rollback stopped half way ({said.rstrip('.')}); finish it with `choragos rollback "
        f"{to}`, or take it back with `choragos rollback {undo.name}`."
    )


def _head_note(repo: GitRepo, target: Checkpoint) -> tuple[str, ...]:
    head = repo.head()
    if head == target.head:
        return ()
    was, now = (sha[:10] if sha else "no commit" for sha in (target.head, head))
    return (f"HEAD moved since then ({was} to {now}); commits stay, only files change.",)


def _note(table: dict[str, set[str]], paths: Iterable[str], names: set[str]) -> None:
    for path in paths:
        table.setdefault(path, set()).update(names)


def _list_of(names: Iterable[str]) -> str:
    every = sorted(set(names))
    shown = ", ".join(every[:_LISTED])
    return f"{shown} and {len(every) - _LISTED} more" if len(every) > _LISTED else shown
