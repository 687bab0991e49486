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
_DIRECTIONS: Final[tuple[Direction, ...]] = ("input", "output", "cache_creation", "cache_read")


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
        #: Tokens by role and model, in the order of `_DIRECTIONS`.
        self._totals: dict[tuple[str, str], list[int]] = {}
        self._series = 0

    def add(self, role: str, model: str, usage: TokenCounts) -> None:
        """Add the tokens of one answer. `role` is path-safe or empty."""
        counts = (usage.input, usage.output, usage.cache_creation, usage.cache_read)
        totals = self._totals.get((role, model))
        for place, count in enumerate(counts):
            if count <= 0:
                continue
            if totals is not None and totals[place]:
                totals[place] += count
            elif self._series < MAX_SERIES:
                self._begin(role, model)[place] += count
                totals = self._totals[role, model]
            else:
                self._begin(OTHER, OTHER)[place] += count

    def _begin(self, role: str, model: str) -> list[int]:
        """Return the totals that get a series more, or those of all others."""
        self._series += 1
        return self._totals.setdefault((role, model), [0] * len(_DIRECTIONS))

    def render(self) -> str:
        """Return the usage family as exposition text."""
        return render_usage(
            {
                UsageKey(role, model, direction): count
                for (role, model), counts in self._totals.items()
                for direction, count in zip(_DIRECTIONS, counts, strict=True)
                if count
            }
        )

    def by_role(self) -> dict[str, dict[str, int]]:
        """Return tokens by role, then direction."""
        roles: dict[str, dict[str, int]] = {}
        for (role, _), counts in self._totals.items():
            directions = roles.setdefault(role, {})
            for direction, count in zip(_DIRECTIONS, counts, strict=True):
                if count:
                    directions[direction] = directions.get(direction, 0) + count
        return roles
