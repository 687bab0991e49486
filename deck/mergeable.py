"""What merging a task's accepted work would bring, and why a person should look at it first.

Owns the look before a merge. Rules (contracts/deck.md section 1.10): the commit is the one that was
accepted, and still on its role's branch; another role's file, or work beneath it that was not
accepted, or a main tree that was switched to another branch, goes to a person whatever the team
file says; the digest commits to the commit, its diff and the branch it lands on, so that an
approval outlives a main tree that moves on and nothing else. Git and the board are
read, nothing is changed. Used by `deck.landing`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from deck import merges
from deck.board import Commit, State, Task
from deck.branches import branch_of, is_ancestor, named
from deck.desk import Desk
from deck.entries import CommitState, MergeState, TaskState
from deck.merges import Change
from deck.moves import OPEN
from deck.worktrees import WorktreeError, Worktrees

#: What a person is shown of a diff; the file beside it has all (contracts/deck.md section 1.6).
SHOWN_BYTES: Final = 512 << 10
#: Landings that are not over.
UNDECIDED: Final = (MergeState.WAITING, MergeState.GATED)


@dataclass(frozen=True, slots=True)
class Proposal:
    """What would be merged for a task, and why a person has to look; "" where none has to."""

    commit: str
    change: Change
    digest: str
    #: The branch it would land on.
    target: str
    why: str = ""

    def because(self, why: str) -> Proposal:
        """Return it with one more reason to look."""
        return replace(self, why="; ".join(part for part in (why.rstrip("."), self.why) if part))


async def propose(
    desk: Desk, git: Worktrees, task: Task, commit: str, expected: str = ""
) -> Proposal | None:
    """Return what a commit would bring for a task, None when there is nothing. `expected` is the
    branch that the main tree should be on. Raises GitError."""
    if not await asyncio.to_thread(git.holds, task.role, commit):
        raise WorktreeError(
            f"the branch {branch_of(task.role)} was rewritten after this work was accepted"
        )
    change = await asyncio.to_thread(merges.change, git.main, commit)
    if change is None:
        return None
    whys = [_foreign(desk, git, task, change)]
    whys.append(await asyncio.to_thread(_unaccepted, desk.state, git, task, commit))
    target = await asyncio.to_thread(merges.target, git.main)
    if expected and target != expected:
        whys.append(f"the main tree is on {target or 'no branch'} now, and was on {expected}")
    digest = await asyncio.to_thread(_digest, desk, change, target)
    return Proposal(commit, change, digest, target, "; ".join(why for why in whys if why))


def _digest(desk: Desk, change: Change, target: str) -> str:
    parts = (os.fsencode(target), change.base.encode(), change.commit.encode(), change.text)
    return desk.texts.commit(b"".join(len(part).to_bytes(8, "big") + part for part in parts))


def _foreign(desk: Desk, git: Worktrees, task: Task, change: Change) -> str:
    """Say which files of other roles the change touches; the names are git's own."""
    inside = os.path.relpath(os.path.realpath(desk.directory), git.main.top)
    # As the team file says and as the team still works: a reload may be half way between.
    roles = dict.fromkeys((*desk.config.roles, *(seat.role for seat in desk.team)))
    touched = [
        f"{path} ({role.name})"
        for role in roles
        if role.name != task.role
        for owned in role.owns_files
        for path in change.paths
        if path == (mine := os.path.normpath(os.path.join(inside, owned)))
        or path.startswith(mine + "/")
    ]
    every = named(dict.fromkeys(touched))
    return f"it changes files of other roles: {every}" if touched else ""


def _unaccepted(state: State, git: Worktrees, task: Task, commit: str) -> str:
    """Say which work that was not accepted lies beneath a commit on its branch. Blocks."""
    head = git.main.head() or ""
    found = {
        below.task: None
        for below in beneath(state, task)
        if not _is_accepted(state, below.task)
        and is_ancestor(git.main, below.head, commit)
        and not is_ancestor(git.main, below.head, head)
    }
    return f"it also brings {', '.join(found)}, which was not accepted" if found else ""


def last_commit(state: State, task_id: str) -> Commit | None:
    """Return what became of a task's work when it was last to be committed."""
    return next((one for one in reversed(state.commits) if one.task == task_id), None)


def beneath(state: State, task: Task) -> Iterator[Commit]:
    """Yield the commits of other tasks that lie beneath a task's own on its role's branch, and for
    each task whose own commit failed the one that has taken its work along."""
    mine = [one for one in state.commits if one.role == task.role]
    places = [place for place, one in enumerate(mine) if one.task == task.id]
    before, left = "", dict[str, Commit]()
    for one in mine[: places[-1] + 1 if places else len(mine)]:
        if not one.head:
            left[one.task] = one
            continue
        if one.state is CommitState.MADE:
            left.pop(one.task, None)
            yield from (replace(other, head=one.head) for other in left.values())
            left.clear()
        # A clean tree adds nothing, but for what the role has committed itself.
        if one.task != task.id and one.head != before:
            yield one
        before = one.head


def ahead(state: State, task: Task) -> str:
    """Return which earlier work of the same role has to be settled before a task's merge, as far
    as it will settle itself or by a gate; else ""."""
    order = {one.task: place for place, one in enumerate(state.commits)}
    for below in beneath(state, task):
        other, landing = state.tasks[below.task], state.landings.get(below.task)
        if other.state in OPEN and other.state is not TaskState.TIMED_OUT:
            return f"waits for {other.id}, which is {other.state}"
        undecided = landing is not None and landing.state in UNDECIDED
        if undecided and order[other.id] < order.get(task.id, len(order)):
            return f"waits for the merge of {other.id}"
    return ""


def _is_accepted(state: State, task_id: str) -> bool:
    task, landing = state.tasks[task_id], state.landings.get(task_id)
    rejected = landing is not None and landing.state is MergeState.REJECTED
    return task.state is TaskState.REPORTED and not task.judges and not rejected


def words(task: Task, label: str, found: Proposal, path: Path) -> str:
    """Return what a person is shown: what it is, why it waits, and the diff."""
    text, whole = found.change.text, len(found.change.text)
    by_hand = f"git diff {found.change.base} {found.commit}"
    if whole > SHOWN_BYTES:
        text = text[:SHOWN_BYTES] + f"\n… {whole - SHOWN_BYTES} more bytes: {by_hand}\n".encode()
    head = [
        f"Merge {task.id} of {task.role} into {found.target or 'the main tree'}: {label}",
        f"branch {branch_of(task.role)}, commit {found.commit}",
        f"the diff below is that of `{by_hand}`; a copy is in {path}",
        *([f"why it waits: {found.why}"] if found.why else []),
    ]
    return "\n".join(head) + "\n\n" + text.decode("utf-8", "replace")
