"""Who used how many tokens in this session, from a gateway whose counters are its own.

Owns the session's totals. The gateway counts from its own start, is shared by decks and may
restart; this turns its scrapes into totals that begin with the session and never go down.
Rules: what a gateway had counted before the session attached to it is a baseline, not ours; a
gateway's counters never fall or vanish while it runs, so one that did means a restart and all
count from zero again; a gateway that names its start time is believed instead. A task's usage is
the role's total when it ended less the total when it began. Pure; the session feeds and reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from deck.pricing import Tokens, sum_tokens
from shared.telemetry import DIRECTIONS, UsageKey, parse_usage

_STARTED: Final = re.compile(r"^process_start_time_seconds ([0-9.eE+]+)$", re.MULTILINE)


class Baseline(Enum):
    """What the first scrape of a session means."""

    #: The gateway ran before: what it has counted so far is not this session's.
    ATTACHED = "attached"
    #: The session started the gateway: everything it counts is this session's.
    STARTED = "started"


@dataclass(frozen=True, slots=True)
class Scrape:
    """One reading of a gateway: its counters, and its start time where it tells it."""

    counters: Mapping[UsageKey, int]
    started: str | None = None


@dataclass(frozen=True, slots=True)
class TaskUsage:
    """What one task used, by model; `open` while it has not ended."""

    role: str
    by_model: Mapping[str, Tokens]
    open: bool

    @property
    def total(self) -> Tokens:
        """The sum over the models."""
        return sum_tokens(self.by_model.values())


@dataclass(frozen=True, slots=True)
class _Task:
    role: str
    began: Mapping[str, Tokens]
    ended: Mapping[str, Tokens] | None = None


def read_scrape(exposition: str) -> Scrape:
    """Return the reading in the text of a gateway's `/metrics` answer."""
    found = _STARTED.search(exposition)
    return Scrape(parse_usage(exposition), found.group(1) if found else None)


class UsageMeter:
    """The totals of one session. Not thread-safe: one owner."""

    def __init__(self, baseline: Baseline) -> None:
        self._baseline = baseline
        self._last: dict[UsageKey, int] | None = None
        self._started: str | None = None
        self._totals: dict[UsageKey, int] = {}
        self._tasks: dict[str, _Task] = {}

    def observe(self, scrape: Scrape) -> None:
        """Add what a successful scrape shows since the one before.

        Only whole answers of a gateway count: a failed or cut one must not be passed.
        """
        if self._last is None:
            ours = self._baseline is Baseline.STARTED
            self._last = {} if ours else dict(scrape.counters)
        elif self._has_restarted(scrape):
            self._last = {}
        for key, count in scrape.counters.items():
            grown = count - self._last.get(key, 0)
            if grown > 0:
                self._totals[key] = self._totals.get(key, 0) + grown
        self._last = dict(scrape.counters)
        self._started = scrape.started

    def roles(self) -> tuple[str, ...]:
        """Return the roles that used anything, sorted."""
        return tuple(sorted({key.agent for key in self._totals}))

    def by_model(self, role: str) -> dict[str, Tokens]:
        """Return what a role used in this session, by model."""
        counts: dict[str, dict[str, int]] = {}
        for key, count in self._totals.items():
            if key.agent == role:
                counts.setdefault(key.model, {})[key.direction] = count
        return {model: Tokens(**directions) for model, directions in sorted(counts.items())}

    def total(self, role: str) -> Tokens:
        """Return what a role used in this session, over all models."""
        return sum_tokens(self.by_model(role).values())

    def begin_task(self, task_id: str, role: str) -> None:
        """Mark the delivery of a task; scrape and `observe` first to be exact."""
        self._tasks[task_id] = _Task(role, self.by_model(role))

    def end_task(self, task_id: str) -> TaskUsage | None:
        """Mark the end of a task and return its usage; None for one that never began.

        A task that ends again (another round) counts up to its last end.
        """
        task = self._tasks.get(task_id)
        if task is None:
            return None
        self._tasks[task_id] = _Task(task.role, task.began, self.by_model(task.role))
        return self.task(task_id)

    def task(self, task_id: str) -> TaskUsage | None:
        """Return what a task used so far; None for one that never began."""
        task = self._tasks.get(task_id)
        if task is None:
            return None
        now = task.ended if task.ended is not None else self.by_model(task.role)
        used = {model: tokens - task.began.get(model, Tokens()) for model, tokens in now.items()}
        return TaskUsage(
            task.role,
            {model: tokens for model, tokens in used.items() if tokens.total},
            task.ended is None,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the totals for the journal; `resume` takes them."""
        return {
            "totals": [[k.agent, k.model, k.direction, n] for k, n in sorted(
                self._totals.items(), key=lambda item: (item[0].agent, item[0].model,
                                                        item[0].direction))],
        }  # fmt: skip

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Go on from the totals of a session that was resumed; call before the first scrape.

        What the gateway counted between the two is not known to be ours and is left out.
        """
        for agent, model, direction, count in saved.get("totals", []):
            if direction in DIRECTIONS:
                key = UsageKey(str(agent), str(model), direction)
                self._totals[key] = self._totals.get(key, 0) + int(count)

    def _has_restarted(self, scrape: Scrape) -> bool:
        if scrape.started is not None and self._started is not None:
            return scrape.started != self._started
        last = self._last or {}
        return any(scrape.counters.get(key, 0) < count for key, count in last.items())
