"""Worktrees in a session: each role's own checkout, its commits, and how they reach the main tree.

Owns the use of `deck.worktrees` by a session. Invariants (contracts/deck.md section 1.10): only
accepted work is merged, after a checkpoint; what cannot be merged cleanly, or touches another
role's files, waits for a person; nothing uncommitted is ever lost. `deck.session` prepares,
`deck.review` commits and lands.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deck.board import Task
from deck.config import Config, Role
from deck.desk import Desk
from deck.gatekeeper import Gatekeeper
from deck.snapshots import Snapshots


@dataclass(slots=True)
class Merging:
    """The worktrees and merges of one session."""

    desk: Desk
    gatekeeper: Gatekeeper
    snapshots: Snapshots

    async def prepare(self, config: Config) -> None:
        """Refuse to start what cannot work, and make the worktrees. Raises SessionError."""

    def place(self, role: Role) -> Path | None:
        """Return the directory in which a role works, or None for the project itself."""
        return None

    async def commit(self, task: Task, summary: str) -> str:
        """Commit what a role with a worktree did for a task; return why that failed, or ""."""
        return ""

    async def land(self, task: Task) -> None:
        """Merge the accepted work of a task as its role's `merge` says."""

    async def resume(self) -> None:
        """Go on, after a start, with the merges that an earlier run left open."""
