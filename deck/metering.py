"""When tokens are counted: every 30 s, around each task, when somebody looks, and at the end.

Owns the session's use of `deck.usage`: scrape, add up, journal, price, write the `tokens` lines the
report reads (contracts/deck.md section 1.12). The totals are part of the journal, so they never
go down over a crash.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from deck.board import Task
from deck.desk import Desk
from deck.entries import Entry, Op
from deck.pricing import Tokens, cost_usd, price_of, round_cost
from deck.usage import Baseline, Scrape, UsageMeter

#: Figures this old are shown as they are: people look once a second.
FRESH_SECONDS: Final = 1.0


@dataclass(slots=True)
class Metering:
    """The token totals of one session."""

    desk: Desk
    _meter: UsageMeter = field(default_factory=lambda: UsageMeter(Baseline.STARTED))
    #: Readings are taken one after another: an older one added after a newer one would look like
    #: counters that began again, and be counted twice.
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    _read_at: float = float("-inf")
    #: Called after each count; never raises.
    counted: Callable[[], Awaitable[None]] | None = None

    async def start(self, baseline: Baseline, saved: str) -> None:
        """Begin to count; `saved` are the totals of a resumed run as the journal holds them."""
        self._meter = UsageMeter(baseline)
        if saved:
            self._meter.resume(json.loads(saved))
        if baseline is Baseline.ATTACHED:
            await self.take()

    async def take(self) -> None:
        """Read the counters; a change is journaled and is one `tokens` line for each role."""
        if not self.desk.gateway.enforced:
            return
        async with self._reading:
            scrape = await self.desk.gateway.scrape()
            self._read_at = asyncio.get_running_loop().time()
            if scrape is not None:
                self._add(scrape)
        if self.counted is not None:
            await self.counted()

    async def refresh(self) -> None:
        """Read the counters for somebody who looks, unless that was done a moment ago."""
        if asyncio.get_running_loop().time() - self._read_at > FRESH_SECONDS:
            await self.take()

    def _add(self, scrape: Scrape) -> None:
        before = {role: self._meter.total(role) for role in self.desk.seats}
        self._meter.observe(scrape)
        changed = [role for role in self.desk.seats if self._meter.total(role) != before[role]]
        if not changed:
            return
        totals = json.dumps(self._meter.as_json(), separators=(",", ":"))
        self.desk.note(Entry(Op.USAGE_TAKEN, self.desk.now(), reason=totals))
        for role in changed:
            self._log("tokens", self._meter.total(role), self.cost(role), role=role)

    async def begin(self, task: Task) -> None:
        """Mark the delivery of a task."""
        await self.take()
        self._meter.begin_task(task.id, task.role)

    async def end(self, task: Task | None) -> None:
        """Mark the end of a task, if the report named one, and log what it used."""
        await self.take()
        used = self._meter.end_task(task.id) if task is not None else None
        if task is not None and used is not None and used.total.total:
            cost = cost_usd(self.desk.config.pricing, used.by_model)
            self._log("task tokens", used.total, cost, id=task.id, to=task.role)

    def row(self, role: str) -> dict[str, Any]:
        """Return a role's totals and cost for the board."""
        used, cost = self._meter.total(role), self.cost(role)
        return {
            "role": role,
            "in": used.input,
            "out": used.output,
            "cache_creation": used.cache_creation,
            "cache_read": used.cache_read,
            "cost_usd": None if cost is None else float(round_cost(cost)),
        }

    def cost(self, role: str) -> Decimal | None:
        """Return what a role has cost in this session in US dollars; None when none of the models
        it used has a price."""
        return cost_usd(self.desk.config.pricing, self._meter.by_model(role))

    def unpriced(self, role: str) -> tuple[str, ...]:
        """Return the models a role used in this session that have no price."""
        pricing = self.desk.config.pricing
        return tuple(m for m in self._meter.by_model(role) if price_of(pricing, m) is None)

    def _log(self, msg: str, used: Tokens, cost: Decimal | None, **which: str) -> None:
        self.desk.events.write(
            "INFO",
            msg,
            **which,
            **{"in": used.input, "out": used.output},
            cache_creation=used.cache_creation,
            cache_read=used.cache_read,
            cost=None if cost is None else round_cost(cost),
        )
