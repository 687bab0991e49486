"""Whose files an undo is about: those of the main tree, or of a role's own checkout.

Owns the choice. Rules: a task of a role without a worktree is undone in the main tree; one of a
role with a worktree in its checkout, until it is merged; from then on what its merge brought is
taken out of the main tree. Reads git and changes nothing. `choragos rollback` calls it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deck import merges
from deck.briefs import STATE_DIR
from deck.checkpoints import Checkpoint, CheckpointNotFound, Checkpoints, GitError, Kind
from deck.worktrees import WORKTREES_DIR


class MergedAlready(GitError):
    """The work is in the main tree's history, and no checkpoint shows the time before."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What to go back to, in which working tree, and what the user should know of that."""

    store: Checkpoints
    target: Checkpoint
    notes: tuple[str, ...] = ()


def choose(directory: Path, wanted: str) -> Choice:
    """Return what undoing `wanted` (a task id, a checkpoint's name or ref) is about.

    Raises CheckpointNotFound, MergedAlready or another GitError.
    """
    main = Checkpoints(directory)
    found = main.find(wanted)
    if main.shows(found):
        return Choice(main, found)
    is_task = found.kind is Kind.DELIVERY and wanted == found.name
    if is_task and (merged := _merged(main, found)) is not None:
        return merged
    for store in _checkouts(directory):
        if not store.shows(found):
            continue
        if is_task and (commit := _merge_commit(main, found)):
            raise MergedAlready(
                f"{found.name} was merged into the main tree, and the checkpoint before that is "
                f"gone; take it out with `git revert -m 1 {commit}`."
            )
        notes = [f"the files are those of the worktree {store.repo.top}"]
        if is_task:
            notes.append("what was committed stays on its branch; reject its merge to keep it out")
        return Choice(store, found, tuple(notes))
    raise CheckpointNotFound(
        f"checkpoint {wanted} is of another working tree of this repository, or of a worktree that "
        "is gone; run this in the directory of its deck."
    )


def _merged(main: Checkpoints, delivery: Checkpoint) -> Choice | None:
    """Return the choice of a task that was merged since its delivery."""
    name = f"{delivery.name}-merge"
    ours = [one for one in main.list() if main.shows(one) and one.at > delivery.at]
    before = next((one for one in ours if one.name == name), None)
    after = next((one for one in ours if one.name == f"{name}-done"), None)
    if before is None or after is None or after.at < before.at:
        return None
    return Choice(
        main,
        before,
        (
            f"{delivery.name} was merged by {after.head}; this puts the main tree's files back, "
            f"`git revert -m 1 {(after.head or '')[:12]}` does it with a commit; the worktree "
            "keeps them as they are.",
        ),
    )


def _merge_commit(main: Checkpoints, delivery: Checkpoint) -> str:
    """Return the merge commit of a task in the main tree's history, by its subject and time."""
    title = merges.subject(delivery.role, delivery.name)
    raw = main.repo.run(
        "log", "-1", "--merges", "--format=%H %ct", "--fixed-strings", f"--grep={title}"
    ).decode()
    commit, _, at = raw.strip().partition(" ")
    # Task ids begin anew in each run.
    return commit if commit and int(at) >= delivery.epoch else ""


def _checkouts(directory: Path) -> Iterator[Checkpoints]:
    place = directory / STATE_DIR / WORKTREES_DIR
    for checkout in sorted(place.iterdir()) if place.is_dir() else ():
        try:
            yield Checkpoints(checkout, deck=directory)
        except GitError:
            continue
