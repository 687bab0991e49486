"""Reload and roster changes: the running team converges on its team file.

Owns the guardrails (contracts/deck.md sections 1.10 and 1.15). Invariants: a role with a task or a
gate is never respawned or removed under it; the start role stays; what only a restart can change
is said and not half done. `deck.session` dispatches `reload` and `roster-add` here.
"""

from __future__ import annotations

from dataclasses import dataclass

from deck.callers import Caller
from deck.desk import Desk
from deck.gatekeeper import Gatekeeper
from deck.protocol import Command, error


@dataclass(slots=True)
class Reloading:
    """The team of one session, as it changes."""

    desk: Desk
    gatekeeper: Gatekeeper

    async def reload(self, command: Command, caller: Caller) -> bytes:
        """Read the team file again and converge on it."""
        return error("reload is not supported yet; restart the session instead.")

    async def roster_add(self, command: Command, caller: Caller) -> bytes:
        """Take the proposal of a new role."""
        return error("roster-add is not supported yet; restart the session instead.")
