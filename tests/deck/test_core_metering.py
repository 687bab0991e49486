"""Tokens are counted once, however the readings overlap, and are fresh when somebody looks."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from deck.metering import Metering
from deck.usage import Baseline, Scrape
from shared.telemetry import UsageKey

KEY = UsageKey("coder", "claude-x", "input")


class SlowGateway:
    """A gateway whose counters grow by ten a reading and whose first answers arrive late."""

    enforced = True

    def __init__(self) -> None:
        self.readings = 0

    async def scrape(self) -> Scrape:
        self.readings += 1
        count = self.readings * 10
        for _ in range(20 // self.readings):
            await asyncio.sleep(0)
        return Scrape({KEY: count})


def metering_of(gateway: SlowGateway) -> tuple[Metering, list[Any]]:
    lines: list[Any] = []
    desk: Any = SimpleNamespace(
        gateway=gateway,
        seats={"coder": None},
        config=SimpleNamespace(pricing={}),
        events=SimpleNamespace(write=lambda *line, **fields: lines.append((line, fields))),
        note=lambda entry: None,
        now=lambda: 0,
    )
    return Metering(desk), lines


async def test_readings_that_overlap_are_not_counted_twice() -> None:
    gateway = SlowGateway()
    metering, _ = metering_of(gateway)
    await metering.start(Baseline.STARTED, "")
    await asyncio.gather(*(metering.take() for _ in range(8)))
    assert gateway.readings == 8
    assert metering.row("coder")["in"] == 80


async def test_a_look_reads_the_counters_and_the_next_look_a_moment_later_does_not() -> None:
    gateway = SlowGateway()
    metering, lines = metering_of(gateway)
    await metering.start(Baseline.STARTED, "")
    await metering.refresh()
    await metering.refresh()
    assert gateway.readings == 1
    assert metering.row("coder")["in"] == 10
    assert [fields["in"] for _, fields in lines] == [10]
