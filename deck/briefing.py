"""Briefing the team: what each role reads when its process starts, as the team and board now are.

Owns the writing of boot briefs and of the start role's context into `.choragos`. Invariant: what a
role reads is on record, by the commitment of its text, before the file is there to be read.
`deck.session` briefs the whole team at the start, a reload whoever joins or begins anew.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from deck import briefs
from deck.desk import Desk
from deck.entries import Entry, Op
from deck.memory import has_text, is_remembered
from deck.recap import recap
from deck.seats import Seat


@dataclass(slots=True)
class Briefing:
    """The briefs of one session."""

    desk: Desk

    async def brief_team(self, *, resumed: bool) -> None:
        """Write every seat's file; a resumed run's start role is told where the board stands."""
        standing = await self.standing(resumed=resumed)
        for seat in self.desk.team:
            await self.brief(seat, standing)

    async def brief(self, seat: Seat, standing: briefs.Standing | None = None) -> None:
        """Write one seat's file; without `standing` a start role is told where things stand now.

        Raises JournalFailed or OSError.
        """
        desk, owners = self.desk, self.owners()
        if seat.boot_file == briefs.ORCHESTRATOR_FILE:
            told = standing or await self.standing(resumed=True)
            workers = [one.role for one in desk.team if not one.is_start]
            text = briefs.orchestrator_context(seat.role, workers, told)
        else:
            text = briefs.worker_brief(seat.role, owners)
        ref = await asyncio.to_thread(desk.texts.put, text)
        await desk.record(
            Entry(Op.BRIEF_SET, desk.now(), role=seat.name, path=seat.boot_file, ref=ref)
        )
        await asyncio.to_thread(briefs.write, desk.state_dir, seat.boot_file, text)

    async def standing(self, *, resumed: bool) -> briefs.Standing:
        """Return what the start role is told besides the team."""
        desk = self.desk
        told = briefs.Standing(
            owners=self.owners(),
            propose=desk.config.roster.propose and desk.config.path is not None,
            memory=await asyncio.to_thread(is_remembered, desk.state_dir),
        )
        if not resumed:
            return told
        document = desk.state_dir / briefs.HANDOFF_FILE
        there = desk.state.handed_over and await asyncio.to_thread(has_text, document)
        return replace(told, recap=recap(desk.state), handoff=there)

    def owners(self) -> dict[str, str]:
        """Return who owns which file in the team as it is now."""
        return briefs.owners_of([seat.role for seat in self.desk.team])


def task_text(desk: Desk, seat: Seat, assignment: briefs.Assignment) -> str:
    """Return the text of a task file for a seat: with the map of owned files and, for a fresh
    role, what its last process left for it. Blocks."""
    role, left = seat.role, desk.state_dir / briefs.fresh_handoff_name(seat.name)
    if role.fresh and has_text(left):
        assignment = replace(assignment, handoff=str(left))
    return briefs.task_file(role, assignment, Briefing(desk).owners())
