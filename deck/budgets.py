"""Budgets: a role that has cost more than its team file allows is noticed, or paused.

Owns when a budget fires (contracts/deck.md section 1.10): on each count of tokens, once, and again
only after the role was within it. `deck.session` asks after each count.
"""

from __future__ import annotations

from dataclasses import dataclass

from deck.desk import Desk
from deck.metering import Metering
from deck.operating import Operating


@dataclass(slots=True)
class Budgets:
    """The budgets of one session."""

    desk: Desk
    metering: Metering
    operating: Operating

    async def check(self) -> None:
        """Compare what each role has cost with what it may."""
