"""`choragos worktrees`: the checkout of each role, how its branch stands, and its last merge.

Owns the verb and its table. It looks and changes nothing; no session is needed. The work is in
`deck.worktrees`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import typer

from deck.cli.failure import fail, here
from deck.cli.work import Json

if TYPE_CHECKING:
    from deck.worktrees import Worktrees

_COLUMNS = ("ROLE", "BRANCH", "AHEAD", "BEHIND", "UNCOMMITTED", "LAST MERGE", "NOTE")


@dataclass(frozen=True, slots=True)
class _Row:
    role: str
    branch: str
    path: str
    ahead: int | None = None
    behind: int | None = None
    uncommitted: int | None = None
    last_merge: str = ""
    note: str = ""

    def cells(self) -> list[str]:
        counts = (self.ahead, self.behind, self.uncommitted)
        shown = ["-" if one is None else str(one) for one in counts]
        return [self.role, self.branch, *shown, self.last_merge[:12] or "-", self.note]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("worktrees")(worktrees)


def worktrees(as_json: Json = False) -> None:
    """Show the worktree of each role that has one, and how its branch stands."""
    from deck.branches import clashes
    from deck.config import ConfigError
    from deck.gitrepo import GitError
    from deck.team_reader import load_config
    from deck.worktrees import Worktrees

    try:
        roles = [role.name for role in load_config(None, here()).roles if role.worktree]
        if clash := clashes(roles):
            fail(clash)
        rows = list(_rows(Worktrees(here()), roles))
    except (ConfigError, GitError) as problem:
        fail(problem)
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=2))
    elif not rows:
        typer.echo("no worktrees; set worktree = true on a role to give it one")
    else:
        _print([list(_COLUMNS), *(row.cells() for row in rows)])


def _rows(trees: Worktrees, roles: list[str]) -> Iterator[_Row]:
    known = {trees.place(role).name for role in roles}
    for role in roles:
        yield _row(trees, role, "")
    for name in trees.kept():
        if name not in known:
            yield _row(trees, name, "no role of the team works here")


def _row(trees: Worktrees, role: str, note: str) -> _Row:
    from deck.branches import branch_of
    from deck.gitrepo import GitError
    from deck.merges import last_merge
    from deck.worktrees import Origin

    branch, path = branch_of(role), str(trees.place(role))
    try:
        if trees.look(role) is not Origin.REUSED:
            return _Row(role, branch, path, note="made when the session starts")
        stands = trees.standing(role)
        last = last_merge(trees.main, role)
    except GitError as problem:
        return _Row(role, branch, path, note=str(problem))
    return _Row(role, branch, path, stands.ahead, stands.behind, stands.uncommitted, last, note)


def _print(rows: list[list[str]]) -> None:
    plain = [["".join(c if c.isprintable() else "?" for c in cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in plain) for i in range(len(plain[0]))]
    for row in plain:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
