"""A role's commit on its way into the main tree, by git alone: what it changes, what is in the way.

Owns the merge. Invariants: nothing begins while the main tree has changes of its own or is in the
middle of something; no file that git does not keep is overwritten, ignored ones included; what ends
in a conflict is taken back at once; a merge commit is the deck's own, whatever the user's settings.
No hook runs: the user's hooks have seen the content when it was committed. Blocking; `deck.merging`
calls it in threads.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deck.branches import is_ancestor, last_lines, named, unmerged
from deck.gitrepo import USERS_FILES, Difference, GitError, GitRepo
from deck.plain_files import read_plain

#: What a working tree that is in the middle of something has in its git directory.
_UNDER_WAY: Final = (
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("BISECT_LOG", "bisect"),
)
_SUBJECT: Final = "choragos: merge "
#: What git notes of a merge; its message lists the files in conflict.
_NOTE_BYTES: Final = 16 << 20


class MergeRefused(GitError):
    """Nothing was merged; the main tree is as it was."""


class MergeBusy(MergeRefused):
    """Another git is at work in the main tree, or was until now: worth another look."""


class MergeStuck(GitError):
    """The main tree was left in the middle of a merge; the message says how to get out."""


@dataclass(frozen=True, slots=True)
class Change:
    """What merging a commit would bring: since the main tree's last commit in common."""

    base: str
    commit: str
    paths: tuple[str, ...]
    text: bytes


def subject(role: str, task_id: str) -> str:
    """Return the subject of a merge commit (contracts/deck.md section 1.10)."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in role).split())
    return f"{_SUBJECT}{flat} ({task_id})"


def target(main: GitRepo) -> str:
    """Return the branch that a merge would land on, "" when the main tree is on none."""
    at = main.attempt("symbolic-ref", "-q", "--short", "HEAD").stdout
    return os.fsdecode(at.removesuffix(b"\n"))


def change(main: GitRepo, commit: str) -> Change | None:
    """Return what merging would bring, None when there is nothing. Raises MergeRefused."""
    head = main.head() or ""
    if is_ancestor(main, commit, head):
        return None
    base = main.attempt("merge-base", head, commit).stdout.decode().strip()
    if not base:
        raise MergeRefused("the branch has no commit in common with the main tree.")
    paths = tuple(found.path for found in main.differences(base, commit))
    if not paths:
        return None
    return Change(base, commit, paths, main.plain_diff(base, commit))


def obstacle(main: GitRepo, commit: str) -> str:
    """Return why a commit cannot be merged now, as far as can be told without trying; else ""."""
    for name, what in _UNDER_WAY:
        if main.git_path(name).exists():
            return f"the main tree is in the middle of a {what}; finish or abort it first"
    if not target(main):
        return "the main tree is on no branch; switch to the one the work shall land on"
    if dirty := _tracked_changes(main):
        return f"the main tree has changes that are not committed: {named(dirty)}"
    found = change(main, commit)
    if found is not None and (lost := _overwritten(main, found)):
        return (
            f"files that git does not keep would be overwritten: {named(lost)}; move them away or "
            "commit them"
        )
    return ""


def merge(main: GitRepo, commit: str, title: str) -> str:
    """Merge a commit into the main tree and return the merge commit.

    Raises MergeRefused with the main tree as it was (MergeBusy: for now), or MergeStuck.
    """
    # A merge that finds the index locked leaves its MERGE_HEAD, which then cannot be taken back;
    # and what another git is writing looks like files in the way.
    if (lock := main.git_path("index.lock")).exists():
        raise MergeBusy(
            f"another git is at work in the main tree; if none is, it was killed: remove {lock}."
        )
    if reason := obstacle(main, commit):
        raise MergeRefused(f"{reason}.")
    before = main.head()
    try:
        done = main.attempt(
            "merge", "--no-ff", "--no-edit", "--no-gpg-sign", "-q", "-m", title, commit
        )
        said = last_lines(done.stderr) or last_lines(done.stdout)
        reason = "" if done.returncode == 0 else said or "git gave no reason"
    except GitError as failure:
        reason = str(failure).rstrip(".")
    after = main.head()
    if not reason and after and after != before:
        return after
    if conflicts := unmerged(main):
        reason = f"it conflicts with the main tree in {named(conflicts)}"
    if (under_way := unfinished(main)) is not None and under_way[0] == commit:
        abort(main)
    if "index.lock" in reason:
        raise MergeBusy(f"{reason}.")
    if not reason and after and is_ancestor(main, commit, after):
        raise MergeBusy("another git has just merged it.")
    raise MergeRefused(f"{reason or 'git merged nothing'}.")


def unfinished(main: GitRepo) -> tuple[str, str] | None:
    """Return commit and subject of a merge the main tree is in the middle of, or None."""
    try:
        commit = _first_line(main.git_path("MERGE_HEAD"))
        said = _first_line(main.git_path("MERGE_MSG"))
    except OSError:
        return None
    return commit, said


def _first_line(path: Path) -> str:
    text = read_plain(path, _NOTE_BYTES).decode("utf-8", "replace")
    return text.split("\n", 1)[0].strip()


def abort(main: GitRepo) -> None:
    """Take back a merge that did not come to its end. Raises MergeStuck."""
    done = main.attempt("merge", "--abort")
    if done.returncode != 0 or unfinished(main) is not None:
        raise MergeStuck(
            f"the main tree {main.top} is in the middle of a merge that could not be taken back "
            f"({last_lines(done.stderr)}); run `git merge --abort` there."
        )


def merge_of(main: GitRepo, commit: str, title: str) -> str:
    """Return the deck's merge commit in the main tree's history that brought a commit, else ""."""
    layout = "--format=%H%x00%P%x00%s"
    raw = main.run("log", "--merges", "--ancestry-path", layout, f"{commit}..HEAD")
    for line in raw.decode("utf-8", "replace").splitlines():
        made, parents, said = line.split("\0", 2)
        if said == title and commit in parents.split()[1:]:
            return made
    return ""


def last_merge(main: GitRepo, role: str) -> str:
    """Return the last merge commit of a role's work in the main tree's history, else ""."""
    begin = subject(role, "").removesuffix(")")
    raw = main.run("log", "-1", "--merges", "--format=%H", "--fixed-strings", f"--grep={begin}")
    return raw.decode().strip()


def _tracked_changes(main: GitRepo) -> list[str]:
    raw = main.run(
        "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no",
        "--ignore-submodules=dirty", "--", *USERS_FILES,
    )  # fmt: skip
    return [os.fsdecode(row[3:]) for row in raw.split(b"\0") if row]


def _overwritten(main: GitRepo, found: Change) -> list[str]:
    """Return what lies in the main tree, known to no commit, where the merge would write."""
    against = main.differences(main.head() or "", found.commit)
    gone = {one.path for one in against if one.after is None}
    brought = set(found.paths)
    return [
        path
        for path in (one.path for one in against if _is_new(one) and one.path in brought)
        if _in_the_way(main.top, path, gone)
    ]


def _is_new(one: Difference) -> bool:
    return one.before is None


def _in_the_way(top: Path, path: str, gone: set[str]) -> bool:
    parts = path.split("/")
    for depth in range(1, len(parts)):
        parent = "/".join(parts[:depth])
        place = top / parent
        if os.path.lexists(place) and (place.is_symlink() or not place.is_dir()):
            return parent not in gone
    place = top / path
    if not os.path.lexists(place):
        return False
    if place.is_symlink() or not place.is_dir():
        return True
    return any(
        os.path.relpath(os.path.join(folder, name), top) not in gone
        for folder, _, names in os.walk(place)
        for name in names
    )
