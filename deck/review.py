"""The review of finished work: what stands between a report and its acceptance.

Owns the order of the steps: the work is committed (worktree), checked (owned files), judged, and
only then accepted, reported to the start role and merged. Invariants: a report under review is
held, in plain sight; whatever cannot be settled without a person opens a gate; after a crash no
work is accepted that was not accepted before. `deck.work` hands in reports.
"""

from __future__ import annotations

from dataclasses import dataclass

from deck.board import Task
from deck.desk import Desk
from deck.gatekeeper import Gatekeeper
from deck.merging import Merging


@dataclass(slots=True)
class Review:
    """The reviews of one session."""

    desk: Desk
    gatekeeper: Gatekeeper
    merging: Merging

    def wanted(self, task: Task) -> bool:
        """Tell whether a report of this task is held until it has been looked at."""
        return False

    async def begin(self, task: Task) -> None:
        """Note what a later check compares with; called before each delivery, never raises."""

    async def take(self, report_id: str) -> None:
        """Go through the steps with the task of a held report."""

    async def resume(self) -> None:
        """Go on, after a start, with the reviews that an earlier run left open."""
