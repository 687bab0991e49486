"""What the gateway adds to a call, and how fast its health answers while it scans.

Every figure stands beside a peer of the same run: the provider called directly, the idle gateway,
or the limit that existing decks set. Nothing here asserts a time.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from gateway_harness import Gateway, Provider, Seen, running
from rich.console import Console
from rich.table import Table

pytestmark = pytest.mark.bench

#: What existing decks give `/metrics` before they stop all delegation, in ms.
DECK_LIMIT_MS = 500.0
#: Our own bar for health while 16 large requests are scanned, in ms.
OWN_LIMIT_MS = 50.0

PROSE = (
    "The service reads the queue in order and writes one row for each message it accepted. "
    "When a row cannot be written it keeps the message, waits a little longer each time, and "
    "says so in its log. Ask maria.lopez@example.com or call +44 20 7946 0958 about it.\n"
)


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider()
    provider.start()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def gateway(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home: Path = tmp_path_factory.mktemp("bench") / "home"
    with running(home, provider.url, scan_workers="2") as started:
        yield started


def body(size: int, salt: int) -> bytes:
    """A conversation of `size` bytes whose every block is new to the gateway."""
    blocks = []
    left = size
    number = 0
    while left > 0:
        text = f"{salt}.{number} {PROSE}"[: max(left, 1)]
        blocks.append({"type": "text", "text": text})
        left -= len(text)
        number += 1
    document = {
        "model": "claude-test-1",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": blocks},
            {"role": "user", "content": "short question"},
        ],
    }
    return json.dumps(document).encode()


async def call(session: aiohttp.ClientSession, base: str, raw: bytes) -> float:
    began = time.perf_counter()
    async with session.post(
        f"{base}/v1/messages", data=raw, headers={"content-type": "application/json"}
    ) as answer:
        assert answer.status == 200, await answer.read()
        await answer.read()
    return (time.perf_counter() - began) * 1000


async def at_once(request: web.Request, seen: Seen) -> web.StreamResponse:
    """Answer without work: the provider shares this process with the scrapes that are timed."""
    return web.Response(body=b'{"type": "message", "content": []}', content_type="application/json")


async def scrape(session: aiohttp.ClientSession, gateway: Gateway) -> float:
    began = time.perf_counter()
    async with session.get(f"{gateway.url}/metrics") as answer:
        assert answer.status == 200
        await answer.read()
    return (time.perf_counter() - began) * 1000


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def test_what_the_gateway_adds_to_a_call(gateway: Gateway, provider: Provider) -> None:
    table = Table(title="one call, p50 in ms")
    for column in ("body", "calls", "provider alone", "through the gateway", "added", "repeated"):
        table.add_column(column, justify="right")
    async with aiohttp.ClientSession() as session:
        for size, count in ((2_000, 100), (500_000, 8)):
            alone, through, repeated = [], [], []
            for number in range(count):
                raw = body(size, salt=size + number)
                alone.append(await call(session, provider.url, raw))
                through.append(await call(session, gateway.url, raw))
                repeated.append(await call(session, gateway.url, raw))
                provider.seen.clear()
            figures = [quantile(values, 0.5) for values in (alone, through, repeated)]
            table.add_row(
                f"{size:,} B",
                str(count),
                f"{figures[0]:.2f}",
                f"{figures[1]:.2f}",
                f"{figures[1] - figures[0]:.2f}",
                f"+{figures[2] - figures[0]:.2f}",
            )
    Console(width=100).print(table)


async def test_health_while_sixteen_large_bodies_are_scanned(
    gateway: Gateway, provider: Provider
) -> None:
    provider.script = at_once
    async with aiohttp.ClientSession() as session:
        idle = [await scrape(session, gateway) for _ in range(100)]
        raws = [body(2_000_000, salt=10_000_000 + number) for number in range(16)]
        calls = [asyncio.ensure_future(call(session, gateway.url, raw)) for raw in raws]
        busy = []
        while not all(one.done() for one in calls):
            busy.append(await scrape(session, gateway))
            await asyncio.sleep(0.02)
        took = [await one for one in calls]
    provider.seen.clear()
    table = Table(title=f"/metrics in ms while 16 bodies of 2 MB are scanned ({len(busy)} scrapes)")
    for column in ("", "p50", "p99", "worst", "worst / deck's 500 ms", "worst / our 50 ms"):
        table.add_column(column, justify="right")
    for name, values in (("idle", idle), ("scanning", busy)):
        worst = max(values)
        table.add_row(
            name,
            f"{quantile(values, 0.5):.1f}",
            f"{quantile(values, 0.99):.1f}",
            f"{worst:.1f}",
            f"{worst / DECK_LIMIT_MS:.2f}",
            f"{worst / OWN_LIMIT_MS:.2f}",
        )
    console = Console(width=100)
    console.print(table)
    rate = 16 * 2.0 / (max(took) / 1000)
    console.print(f"scanned and forwarded: {rate:.1f} MB/s with 2 workers")
