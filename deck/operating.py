"""What an operator does to a running role: pause, resume, restart, answer; and enforcement.

Owns these verbs. Invariants: only an operator uses them (`deck.callers`), each is on record before
its effect, and turning enforcement off takes a reason (contracts/deck.md section 2).
`deck.session` dispatches here.
"""

from __future__ import annotations

from dataclasses import dataclass

from deck.board import Entry, Op
from deck.callers import Caller
from deck.desk import Desk
from deck.protocol import Command, error


@dataclass(slots=True)
class Operating:
    """The operator's hand on one session."""

    desk: Desk

    async def pause(self, command: Command, caller: Caller) -> bytes:
        """Stop every process of a role without ending it."""
        return error("pause is not supported yet.")

    async def pause_role(self, role: str, reason: str, sender: str = "") -> str:
        """Pause a role for whoever may, a person or its budget; return why that cannot be, or "".
        Raises JournalFailed."""
        seat = self.desk.seats.get(role)
        if seat is None or seat.pane is None or not seat.alive:
            return f"{role} is not running"
        if role not in self.desk.state.paused:
            await self.desk.record(
                Entry(Op.ROLE_PAUSED, self.desk.now(), role=role, reason=reason, sender=sender)
            )
            self.desk.events.write("INFO", "role paused", role=role, reason=reason)
        await seat.pane.pause()
        return ""

    async def resume(self, command: Command, caller: Caller) -> bytes:
        """Let a paused role go on."""
        return error("resume is not supported yet.")

    async def restart(self, command: Command, caller: Caller) -> bytes:
        """End a role's process and start it anew."""
        return error("restart is not supported yet.")

    async def answer(self, command: Command, caller: Caller) -> bytes:
        """Type an answer into a pane that shows a question."""
        return error("answer is not supported yet.")

    async def enforce(self, command: Command, caller: Caller) -> bytes:
        """Turn the gateway's enforcement on or off."""
        return error("enforce is not supported yet.")
