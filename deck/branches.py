"""Branches of roles: their names, what is in what, and how git's answers are said in one line.

Owns the naming rule of contracts/deck.md section 1.10 and small questions to git that making,
merging and showing worktrees share. Names come with NUL separators, never split. Questions block
and change nothing. Used by `deck.worktrees`, `deck.merges`, `deck.mergeable` and faces.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from deck.briefs import safe_name
from deck.gitrepo import GitRepo

BRANCHES: Final = "choragos/"
HEADS: Final = "refs/heads/"

#: Of what a refused commit said, its end is what tells.
_LAST_LINES: Final = 6
_LAST_CHARS: Final = 600
_NAMED: Final = 5


def branch_of(role: str) -> str:
    """Return the name of a role's branch."""
    return BRANCHES + safe_name(role)


def clashes(roles: Iterable[str]) -> str:
    """Return a sentence when two roles would share a worktree, else ""."""
    taken: dict[str, str] = {}
    for role in roles:
        # Some file systems do not tell upper from lower case.
        other = taken.setdefault(safe_name(role).casefold(), role)
        if other != role:
            return (
                f"roles {other!r} and {role!r} would share the worktree {safe_name(role)}; give "
                "one of them another name."
            )
    return ""


def is_ancestor(repo: GitRepo, commit: str, of: str) -> bool:
    """Tell whether all of `commit` is in `of`."""
    return repo.attempt("merge-base", "--is-ancestor", commit, of).returncode == 0


def unmerged(repo: GitRepo) -> list[str]:
    """Return the paths in conflict in a working tree. Raises GitError."""
    rows = repo.run("ls-files", "-u", "-z").split(b"\0")
    return list(dict.fromkeys(os.fsdecode(row.partition(b"\t")[2]) for row in rows if row))


def named(paths: Iterable[str]) -> str:
    """Return paths in one line, the first few of them, none able to break that line."""
    every = list(paths)
    shown = ", ".join(path if path.isprintable() else ascii(path) for path in every[:_NAMED])
    return f"{shown} and {len(every) - _NAMED} more" if len(every) > _NAMED else shown


def last_lines(said: bytes) -> str:
    """Return the end of what a program said, in one line."""
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines()]
    text = " | ".join([line for line in lines if line][-_LAST_LINES:])
    return "".join(c if c.isprintable() else " " for c in text)[-_LAST_CHARS:]
