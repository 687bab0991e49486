"""Handoffs: the start role writes down where things stand, and the session ends or goes on.

Owns the verb `handoff` and the files it is about (contracts/deck.md section 1.13). `deck.session`
dispatches here.
"""

from __future__ import annotations

from dataclasses import dataclass

from deck.callers import Caller
from deck.desk import Desk
from deck.protocol import Command, error


@dataclass(slots=True)
class Handoffs:
    """The handoffs of one session."""

    desk: Desk

    async def handoff(self, command: Command, caller: Caller) -> bytes:
        """Ask the start role for its handover document, then end the session for the next one."""
        return error("handoff is not supported yet; stop the session instead.")
