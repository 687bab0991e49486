"""Tokens used, by role, model and direction: what budgets and cost reports are made of.

Invariants: counts only grow; they come from what the provider reported, under the model id that
the provider returned; the number of series is capped, because roles come from client paths.
Written by the pipeline once per answer, read by `gateway.metrics` and the console.
"""

from __future__ import annotations

from typing import Final, Protocol

from shared.telemetry import Direction, UsageKey, render_usage

#: 2,000 series of at most 190 bytes stay well inside the first MiB, which is all that decks read.
MAX_SERIES: Final = 2_000
OTHER: Final = "other"


class TokenCounts(Protocol):
    """What a wire format read from an answer, in tokens."""

    @property
    def input(self) -> int: ...
    @property
    def output(self) -> int: ...
    @property
    def cache_creation(self) -> int: ...
    @property
    def cache_read(self) -> int: ...


class UsageMeter:
    """Cumulative token counts of this process."""

    def __init__(self) -> None:
        self._totals: dict[UsageKey, int] = {}

    def add(self, role: str, model: str, usage: TokenCounts) -> None:
        """Add the tokens of one answer. `role` is path-safe or empty."""
        counts: dict[Direction, int] = {
            "input": usage.input,
            "output": usage.output,
            "cache_creation": usage.cache_creation,
            "cache_read": usage.cache_read,
        }
        for direction, count in counts.items():
            if count <= 0:
                continue
            key = UsageKey(role, model, direction)
            if key not in self._totals and len(self._totals) >= MAX_SERIES:
                key = UsageKey(OTHER, OTHER, direction)
            self._totals[key] = self._totals.get(key, 0) + count

    def render(self) -> str:
        """Return the usage family as exposition text."""
        return render_usage(self._totals)

    def by_role(self) -> dict[str, dict[str, int]]:
        """Return tokens by role, then direction."""
        roles: dict[str, dict[str, int]] = {}
        for key, count in self._totals.items():
            directions = roles.setdefault(key.agent, {})
            directions[key.direction] = directions.get(key.direction, 0) + count
        return roles
