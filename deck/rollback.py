"""Undo of one task: which files it changed, what putting them back would meet, and doing it.

Owns the plan and its execution. Invariants: nothing is written before everything was checked and
the workspace as it is was kept as `pre-rollback-<id>`; only files change, never HEAD, index,
branches, stash or ignored files; a path is put back only if the task changed it and nobody
changed it since; a file that is in no snapshot is never overwritten or deleted; submodules and
repositories inside the repository are left alone.

Whose change it was: between two neighboring snapshots the tasks then open are known. A path that
changed while one task alone was at work is that task's. Of those that only changed while several
were at work, a path is the task's whose texts alone name it; and where every other task has
changes of its own and this one has none, the rest is this one's. What is still in doubt is left
alone and said, unless the caller asks to overwrite. What an undo itself changed is no task's
work. The command line and the session call this through Checkpoints.
"""

from __future__ import annotations

import itertools
import os
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from deck.checkpoints import Checkpoint, Checkpoints, Kind
from deck.gitrepo import Difference, Entry, GitError, GitRepo
from deck.traces import Traces

#: File times come from the kernel's tick, up to 10 ms behind the clock that stamps snapshots.
_TICK_SECONDS: Final = 0.01
_LISTED: Final = 5
_EXECUTABLE: Final = "100755"
_REGULAR: Final = ("100644", _EXECUTABLE)


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


class RollbackIncomplete(GitError):
    """The undo stopped half way or did not have the planned effect."""


@dataclass(frozen=True, slots=True)
class Change:
    """One path to put back: what it should be and what it is; None means absent."""

    path: str
    wanted: Entry | None
    now: Entry | None


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

    @property
    def has_nothing_to_do(self) -> bool:
        """Whether the workspace already is what the undo would make it."""
        return not self.changes and not self.conflicts


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
    others_alone: dict[str, set[str]] = field(default_factory=dict)
    later: dict[str, set[str]] = field(default_factory=dict)


def make_plan(store: Checkpoints, target: Checkpoint, scope: Scope, overlap: Overlap) -> Plan:
    """Return what undoing to `target` would change. Raises GitError.

    A checkpoint that is not the start of anything (before a merge, an end) is always whole.
    """
    repo = store.repo
    now_tree = repo.write_workspace_tree()
    notes = _head_note(repo, target)
    ours = [found for found in store.history() if found.deck == target.deck]
    window = _window(target, ours)
    if target.kind is Kind.UNDO and window.end is None:
        scope = Scope.WHOLE
    if scope is Scope.WHOLE or target.kind in (Kind.DONE, Kind.MERGE):
        wanted = [
            Change(found.path, found.after, found.before)
            for found in repo.differences(now_tree, target.tree)
        ]
        changes, blocked = _possible(repo, wanted)
        return Plan(target, Scope.WHOLE, now_tree, changes, (), blocked, notes)
    if window.end is None:
        notes += (
            f"{target.task_id} has not reported; what changed since its delivery counts as its "
            "work.",
        )
    evidence = _gather(repo, window, ours, now_tree)
    end_tree = window.end.tree if window.end else now_tree
    candidates = repo.differences(target.tree, end_tree)
    mine, doubtful = _attribute(candidates, target, evidence, Traces(store.directory))
    together = {name for f in candidates for name in evidence.together.get(f.path, ())}
    if together:
        notes += (
            f"{_list_of(together)} worked at the same time; files are divided by what each changed "
            "alone and by what its task names.",
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


def apply_plan(store: Checkpoints, plan: Plan) -> Outcome:
    """Put the planned paths back, after keeping the workspace as it is.

    Raises RollbackConflict or RollbackStale with nothing changed, RollbackIncomplete otherwise.
    """
    if plan.conflicts:
        raise RollbackConflict(
            f"{_list_of(found.path for found in plan.conflicts)} changed again after "
            f"{plan.target.name}; nothing was rolled back: look at those files, or use --force to "
            "overwrite them."
        )
    if not plan.changes:
        return Outcome(None, 0, 0)
    with store.lock:
        return _apply(store, plan)


def _apply(store: Checkpoints, plan: Plan) -> Outcome:
    repo, paths = store.repo, {change.path for change in plan.changes}
    tree = repo.write_workspace_tree()
    moved = [f.path for f in repo.differences(plan.now_tree, tree) if f.path in paths]
    if moved:
        raise RollbackStale(
            f"{_list_of(moved)} changed while the rollback was being confirmed; nothing was rolled "
            "back: run it again."
        )
    name = f"pre-rollback-{plan.target.task_id}"
    undo = store.record(name, f"{name} -> workspace: before rollback to {plan.target.name}", tree)
    try:
        _carry_out(repo, plan)
        after = store.create(f"{name}-done", f"{name} -> workspace: after rollback")
    except (GitError, OSError) as failure:
        raise RollbackIncomplete(_half_way(failure, undo)) from None
    _verify(repo, plan, undo, after)
    deleted = sum(change.wanted is None for change in plan.changes)
    return Outcome(undo, len(plan.changes) - deleted, deleted)


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


def _gather(repo: GitRepo, window: _Window, ours: list[Checkpoint], now_tree: str) -> _Evidence:
    """Sort the paths changed since the task or one beside it began by who was at work then."""
    tasks = [_window(f, ours) for f in ours if f.kind is Kind.DELIVERY]
    undos = [_window(f, ours) for f in ours if f.kind is Kind.UNDO]
    beside = [task for task in tasks if task.start != window.start and task.meets(window)]
    first = min([window.start.at, *(task.start.at for task in beside)])
    evidence = _Evidence()
    for start, end, changed in _segments(repo, [f for f in ours if f.at >= first], now_tree):
        if any(undo.end is not None and undo.covers(start, end) for undo in undos):
            if window.start.kind is Kind.UNDO and window.covers(start, end):
                evidence.alone |= changed
            continue
        open_tasks = {task.start.name for task in tasks if task.covers(start, end)}
        others = open_tasks - {window.start.name}
        if window.end is not None and start >= window.end.at:
            _note(evidence.later, changed, others)
        if not window.covers(start, end):
            if len(others) == 1 and others <= {task.start.name for task in beside}:
                _note(evidence.others_alone, changed, others)
        elif others:
            _note(evidence.together, changed, others)
        else:
            evidence.alone |= changed
    return evidence


def _segments(
    repo: GitRepo, snapshots: list[Checkpoint], now_tree: str
) -> Iterator[tuple[int, int, set[str]]]:
    """Yield start, end and changed paths between neighboring snapshots, the last being now."""
    points = [(found.at, found.tree) for found in sorted(snapshots, key=lambda f: f.at)]
    if points:
        points.append((points[-1][0] + 1, now_tree))
    for (start, before), (end, after) in itertools.pairwise(points):
        changed = {found.path for found in repo.differences(before, after)}
        if changed:
            yield start, end, changed


def _attribute(
    candidates: list[Difference], target: Checkpoint, evidence: _Evidence, traces: Traces
) -> tuple[list[Difference], list[tuple[Difference, str]]]:
    """Split the paths that differ over a task's time into its own and the doubtful ones."""
    mine: list[Difference] = []
    theirs: list[tuple[Difference, set[str]]] = []
    shared: list[tuple[Difference, set[str]]] = []
    for found in candidates:
        others = evidence.together.get(found.path, set())
        owners = evidence.others_alone.get(found.path, set()) & others
        alone = found.path in evidence.alone
        named = _named(found.path, target.name, others, traces)
        if alone and not owners:
            mine.append(found)
        elif owners and not alone:
            theirs.append((found, owners))
        elif others and not alone and named == target.name:
            mine.append(found)
        elif others and not alone and named is not None:
            theirs.append((found, {named}))
        elif others:
            shared.append((found, others))
    explained = set().union(*evidence.others_alone.values(), *(who for _, who in theirs))
    if not mine and all(others <= explained for _, others in shared):
        mine, shared = [found for found, _ in shared], []
    doubtful = [(found, f"taken as the work of {_list_of(who)}") for found, who in theirs]
    doubtful += [
        (found, f"{_list_of({*who, target.name})} were at work together when it changed")
        for found, who in shared
    ]
    return mine, doubtful


def _named(path: str, name: str, others: set[str], traces: Traces) -> str | None:
    """Return the one task of several at work whose texts name the path best, or None."""
    if not others:
        return None
    scores = {task: traces.score(task, path) for task in (name, *others)}
    best = max(scores.values())
    first = [task for task, score in scores.items() if score == best]
    return first[0] if best and len(first) == 1 else None


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
    for parent in _parents(change.path):
        place = top / parent
        if (place / ".git").exists():
            return f"{parent} is a repository of its own"
        if os.path.lexists(place) and (place.is_symlink() or not place.is_dir()):
            if parent in deletions and change.wanted is not None:
                break
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


def _carry_out(repo: GitRepo, plan: Plan) -> None:
    deletions = [change.path for change in plan.changes if change.wanted is None]
    writes = [change for change in plan.changes if change.wanted is not None]
    modes = {change.path: _mode(repo.top / change.path) for change in writes}
    for path in deletions:
        (repo.top / path).unlink(missing_ok=True)
    _remove_new_directories(repo.top, deletions, plan.target.at / 1e9 - _TICK_SECONDS)
    for change in writes:
        _remove_empty_tree(repo.top / change.path)
    repo.checkout(plan.target.tree, [change.path for change in writes])
    for change in writes:
        _keep_permissions(repo.top / change.path, change.wanted, modes[change.path])


def _remove_new_directories(top: Path, deleted: Iterable[str], since: float) -> None:
    """Remove the directories left without any file that did not exist when the task began."""
    parents = {parent for path in deleted for parent in _parents(path)}
    for parent in sorted(parents, key=lambda path: path.count("/"), reverse=True):
        place = top / parent
        if place.is_symlink() or not place.is_dir() or not _is_new(place, since):
            continue
        for folder, _, _ in os.walk(place, topdown=False):
            with suppress(OSError):  # a file may appear in it at any moment; then it stays
                if not os.listdir(folder) and _is_new(Path(folder), since):
                    Path(folder).rmdir()


def _is_new(place: Path, since: float) -> bool:
    born = _birth_time(place)
    return born is None or born >= since


def _birth_time(place: Path) -> float | None:
    """Return when a directory was made, or None where the system does not say."""
    try:
        born = getattr(place.stat(), "st_birthtime", None)
        if born is not None:
            return float(born)
        said = subprocess.run(
            ["stat", "-c", "%.9W", "--", str(place)],
            capture_output=True,
            check=True,
            timeout=10,
        ).stdout
        return float(said) or None
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _remove_empty_tree(place: Path) -> None:
    """Remove a directory in the way, which by now holds nothing but directories."""
    if place.is_symlink() or not place.is_dir():
        return
    for folder, _, _ in os.walk(place, topdown=False):
        Path(folder).rmdir()


def _mode(place: Path) -> int | None:
    try:
        found = place.lstat().st_mode
    except OSError:
        return None
    return stat.S_IMODE(found) if stat.S_ISREG(found) else None


def _keep_permissions(place: Path, wanted: Entry | None, mode: int | None) -> None:
    """Give a rewritten file the permissions it had, but for the execute bits, which git keeps."""
    if wanted is None or wanted.mode not in _REGULAR or mode is None:
        return
    plain = mode & ~0o111
    place.chmod(plain | (plain & 0o444) >> 2 if wanted.mode == _EXECUTABLE else plain)


def _verify(repo: GitRepo, plan: Plan, undo: Checkpoint, after: Checkpoint) -> None:
    done = {found.path: found.after for found in repo.differences(undo.tree, after.tree)}
    wrong = [c.path for c in plan.changes if done.get(c.path, c.now) != c.wanted]
    if wrong:
        raise RollbackIncomplete(
            f"{_list_of(wrong)} could not be put back, or changed at the same moment; look there, "
            f"or take the rollback back with `choragos rollback {undo.name}`."
        )


def _half_way(failure: Exception, undo: Checkpoint) -> str:
    said = failure.strerror if isinstance(failure, OSError) else str(failure).rstrip(".")
    return (
        f"the rollback stopped half way ({said}); take it back with "
        f"`choragos rollback {undo.name} --whole`."
    )


def _head_note(repo: GitRepo, target: Checkpoint) -> tuple[str, ...]:
    head = repo.head()
    if head == target.head:
        return ()
    was, now = (sha[:10] if sha else "no commit" for sha in (target.head, head))
    return (f"HEAD moved since then ({was} to {now}); commits stay, only files change.",)


def _parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _note(table: dict[str, set[str]], paths: Iterable[str], names: set[str]) -> None:
    for path in paths:
        table.setdefault(path, set()).update(names)


def _list_of(names: Iterable[str]) -> str:
    every = sorted(set(names))
    shown = ", ".join(every[:_LISTED])
    return f"{shown} and {len(every) - _LISTED} more" if len(every) > _LISTED else shown
