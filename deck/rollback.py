"""Carrying out the plan of an undo.

Owns the execution. Invariants: nothing is written before everything was checked again and the
workspace as it is was kept as `pre-rollback-<id>`; only files change, never HEAD, index, branches,
stash or ignored files; what was planned is what is done, or the undo says that it stopped half way
and how to go on. The command line calls this through Checkpoints; the files are moved by
`deck.restore`, what is to be moved is decided by `deck.rollback_plan`.
"""

from __future__ import annotations

from dataclasses import dataclass

from deck.attribution import list_of
from deck.checkpoints import Checkpoint, Checkpoints
from deck.gitrepo import GitError
from deck.restore import HalfWay, Turn, UnderWay, staged, sweep, turn
from deck.rollback_plan import Plan, under_way_of


class RollbackConflict(GitError):
    """Paths of the task were changed again since; nothing was done."""


class RollbackStale(GitError):
    """Files changed between the plan and its execution; nothing was done."""


class RollbackIncomplete(GitError):
    """The undo stopped half way or did not have the planned effect."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an undo did; `undo` is the checkpoint that takes it back, None if nothing changed."""

    undo: Checkpoint | None
    restored: int
    deleted: int


def apply_plan(store: Checkpoints, plan: Plan) -> Outcome:
    """Put the planned paths back, after keeping the workspace as it is.

    Raises RollbackConflict, RollbackStale, RollbackBusy or RollbackFailed with nothing changed,
    RollbackIncomplete otherwise.
    """
    if plan.conflicts:
        raise RollbackConflict(
            f"{list_of(found.path for found in plan.conflicts)} changed again after "
            f"{plan.target.name}; nothing was rolled back: look at those files, or use --force to "
            "overwrite them."
        )
    if not plan.changes and plan.resumes is None:
        return Outcome(None, 0, 0)
    with store.lock, turn(store.repo) as held:
        halfway = under_way_of(store, held)
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
            f"{list_of(moved)} changed while the rollback was being confirmed; nothing was rolled "
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
            f"{list_of(wrong)} could not be put back, or changed at the same moment; look there, "
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


def _half_way(said: str, plan: Plan, undo: Checkpoint) -> str:
    to = plan.target.name
    if to == undo.name:
        to = plan.target.ref.rsplit("/", 1)[-1]
    return (
        f"the rollback stopped half way ({said.rstrip('.')}); finish it with `choragos rollback "
        f"{to}`, or take it back with `choragos rollback {undo.name}`."
    )
