"""The plan of an undo: which files it would put back, which it leaves alone, and why.

Owns the plan. Invariants: a path is put back only if the task changed it (`deck.attribution`),
nobody changed it since, and nothing is in the way (`deck.obstacles`); what is not put back is said
with its reason. Doubtful paths are left alone unless the caller asks to overwrite; a file that
appeared while no task was open is never deleted without being asked for. An undo whose process died
is finished by undoing to the same checkpoint, or taken back by undoing to its own. Writes nothing
but git objects. The command line calls this through Checkpoints; `deck.rollback` carries it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from deck.attribution import (
    OF_THE_DECK,
    Evidence,
    Window,
    attribute,
    gather,
    list_of,
    made_by_tasks,
    window_of,
)
from deck.checkpoints import LOST_SUBJECT, Checkpoint, Checkpoints, Kind
from deck.gitrepo import Difference, Entry, GitError, GitRepo
from deck.obstacles import obstacle
from deck.restore import Change, Turn, UnderWay, turn
from deck.traces import Traces


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


class RollbackInterrupted(GitError):
    """An earlier undo did not come to its end; that one first."""


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


def make_plan(store: Checkpoints, target: Checkpoint, scope: Scope, overlap: Overlap) -> Plan:
    """Return what undoing to `target` would change. Raises GitError.

    A checkpoint that is not the start of anything (an end, a merge that failed) is always whole.
    """
    with turn(store.repo) as held:
        halfway = under_way_of(store, held)
    if halfway is not None:
        return _resumption(store, target, *halfway)
    repo = store.repo
    now_tree = repo.write_workspace_tree()
    history = store.history()
    ours = [found for found in history if found.deck == target.deck]
    window = window_of(target, ours)
    if target.kind in OF_THE_DECK and window.end is None:
        scope = Scope.WHOLE
    if scope is Scope.WHOLE or target.kind is Kind.DONE:
        return _plan_of_everything(repo, target, history, now_tree, overlap)
    notes = _head_note(repo, target) + _end_note(window)
    evidence = gather(repo, window, ours, now_tree)
    end_tree = window.end.tree if window.end else now_tree
    candidates = repo.differences(target.tree, end_tree)
    mine, doubtful = attribute(candidates, target, evidence, Traces(store.directory))
    together = {name for f in candidates for name in evidence.together.get(f.path, ())}
    if together:
        notes += (
            f"{list_of(together)} worked at the same time; only what {target.name} changed while "
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
        appeared -= made_by_tasks(repo, target, history, now_tree)
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


def under_way_of(store: Checkpoints, held: Turn) -> tuple[UnderWay, Checkpoint] | None:
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


def _end_note(window: Window) -> tuple[str, ...]:
    task, end = window.start.task_id, window.end
    if end is None:
        until = "since its delivery"
    elif end.subject.endswith(LOST_SUBJECT):
        until = "until its loss was noticed"
    else:
        return ()
    return (f"{task} has not reported; what changed {until} counts as its work.",)


def _against_now(
    mine: list[Difference],
    since: Mapping[str, Difference],
    evidence: Evidence,
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
        reason = f"changed later by {list_of(tasks)}" if tasks else "changed later"
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
        reason = obstacle(repo.top, change, deletions)
        if reason is None:
            changes.append(change)
        else:
            blocked.append(Finding(change.path, reason))
    return tuple(changes), tuple(blocked)


def _head_note(repo: GitRepo, target: Checkpoint) -> tuple[str, ...]:
    head = repo.head()
    if head == target.head:
        return ()
    was, now = (sha[:10] if sha else "no commit" for sha in (target.head, head))
    return (f"HEAD moved since then ({was} to {now}); commits stay, only files change.",)
