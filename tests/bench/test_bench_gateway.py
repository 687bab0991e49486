"""What the gateway adds to a call, and how fast its health answers while it scans.

Every figure stands beside a peer of the same run: the provider called directly, the idle gateway,
or the limit that existing decks set. Nothing here asserts a time.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from bench_peers import family, memory_mb
from bench_table import Row, show
from coding_session import bodies
from gateway_harness import Gateway, Provider, Seen, answer_by_rule, begin_stream, running

from gateway.offline import message_events, plan_answer

pytestmark = pytest.mark.bench

#: What existing decks give `/metrics` before they stop all delegation, in ms.
DECK_LIMIT_MS = 500.0
#: Our own bar for health while 16 large requests are scanned, in ms.
OWN_LIMIT_MS = 50.0

#: Bar for the loop's lag with four sessions, 99th percentile, in ms.
LAG_LIMIT_MS = 10.0
#: Events by which a streamed text may come later than the provider sent it.
EVENTS_LATE = 1.0
FIRST_TEXT = re.compile(rb'"text_delta", ?"text": ?"[^"]|"text": ?"[^"]+", ?"type": ?"text_delta"')
STREAMS = 20
#: All copies of a large body in all processes at once, as a multiple of the body.
LARGE_LIMIT = 12.0

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


async def probe(session: aiohttp.ClientSession, gateway: Gateway) -> float:
    """The time of a request that the gateway answers without any work."""
    began = time.perf_counter()
    async with session.get(f"{gateway.url}/healthz") as answer:
        await answer.read()
    return (time.perf_counter() - began) * 1000


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
    rows: list[Row] = []
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
            beside = f"provider alone {figures[0]:.2f} ms"
            rows += (
                Row(f"new, {size:,} bytes", figures[1] - figures[0], "ms", beside=beside),
                Row(f"the same again, {size:,} bytes", figures[2] - figures[0], "ms"),
            )
    show("added to one call, p50", rows)


async def test_when_the_first_streamed_text_arrives(gateway: Gateway, provider: Provider) -> None:
    """The provider sends one more event only when the last one had time to arrive; counted are the
    events it had sent beyond the one with the first text when the client saw a text."""
    late: list[float] = []
    for text in ("Done", "Write to [EMAIL_", "[", "see https://example.com/a?b=c"):
        for _ in range(STREAMS // 4):
            late.append(await events_late(gateway, provider, text))
    provider.seen.clear()
    provider.script = answer_by_rule
    beside = f"{len(late)} streams, mean {sum(late) / len(late):.2f}"
    show(
        "first streamed text, beyond the provider's own",
        (Row("events late, worst", max(late), "events", EVENTS_LATE, beside=beside),),
    )


async def events_late(gateway: Gateway, provider: Provider, text: str) -> float:
    """Events sent after the first with a text, until the client had a text."""
    sent, arrived = 0, threading.Event()

    async def pieces(request: web.Request, seen: Seen) -> web.StreamResponse:
        nonlocal sent
        response = await begin_stream(request)
        for event in message_events(plan_answer(seen.document), "msg_1"):
            if b"text_delta" in event:
                break
            await response.write(event)
        for number in range(12):
            delta = {"type": "text_delta", "text": text if not number else f" word {number}"}
            data = {"type": "content_block_delta", "index": 0, "delta": delta}
            await response.write(
                f"event: content_block_delta\ndata: {json.dumps(data)}\n\n".encode()
            )
            sent += 1
            if await asyncio.to_thread(arrived.wait, 0.1):
                break
        return response

    provider.script = pieces
    raw = {"model": "m", "max_tokens": 9, "stream": True}
    raw["messages"] = [{"role": "user", "content": "go on"}]
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{gateway.url}/v1/messages", json=raw) as answer,
    ):
        got = b""
        async for chunk in answer.content.iter_any():
            got += chunk
            if FIRST_TEXT.search(got):
                count = sent
                arrived.set()
                return float(count - 1)
    raise AssertionError("no text arrived")


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
    rate = 16 * 2.0 / (max(took) / 1000)
    show(
        f"/metrics while 16 bodies of 2 MB are scanned ({len(busy)} scrapes)",
        (
            Row("idle, p50", quantile(idle, 0.5), "ms"),
            Row("scanning, p50", quantile(busy, 0.5), "ms"),
            Row("scanning, p99", quantile(busy, 0.99), "ms"),
            Row(
                "scanning, worst",
                max(busy),
                "ms",
                OWN_LIMIT_MS,
                beside=f"decks stop all work at {DECK_LIMIT_MS:.0f} ms; {rate:.1f} MB/s scanned",
            ),
        ),
    )


async def test_how_long_the_loop_is_held_by_four_sessions(
    gateway: Gateway, provider: Provider
) -> None:
    """What a tiny request waits for: the loop, and this client's own share of the cores."""
    provider.script = at_once
    bodies_of = [bodies(30, salt=f"lag{n} ", start=200_000) for n in range(4)]
    async with aiohttp.ClientSession() as session:

        async def work(sent: list[bytes]) -> None:
            for raw in sent:
                await call(session, gateway.url, raw)

        idle = [await probe(session, gateway) for _ in range(200)]
        sessions = [asyncio.ensure_future(work(sent)) for sent in bodies_of]
        busy = []
        while not all(one.done() for one in sessions):
            busy.append(await probe(session, gateway))
            await asyncio.sleep(0.005)
        for one in sessions:
            await one
    provider.seen.clear()
    lag = quantile(busy, 0.99) - quantile(idle, 0.5)
    show(
        f"the gateway's loop while four sessions work at once ({len(busy)} probes)",
        (
            Row("idle probe, p50", quantile(idle, 0.5), "ms"),
            Row("idle probe, p99", quantile(idle, 0.99), "ms"),
            Row("waited longer than idle, p50", quantile(busy, 0.5) - quantile(idle, 0.5), "ms"),
            Row("waited longer than idle, p99", lag, "ms", LAG_LIMIT_MS),
        ),
    )


async def test_memory_with_bodies_of_64_megabytes(gateway: Gateway, provider: Provider) -> None:
    provider.script = at_once
    assert gateway.process is not None
    pids = family(gateway.process.pid)
    before = sum(memory_mb(pid)[1] for pid in pids)
    highest = before
    raw = large_body(62_000_000)
    async with aiohttp.ClientSession() as session:
        began = time.perf_counter()
        calls = [asyncio.ensure_future(call(session, gateway.url, raw)) for _ in range(2)]
        while not all(one.done() for one in calls):
            highest = max(highest, sum(memory_mb(pid)[1] for pid in pids))
            await asyncio.sleep(0.1)
        # On a busy machine a scan may take longer than it may; the memory it took counts the same.
        ended = await asyncio.gather(*calls, return_exceptions=True)
        seconds = time.perf_counter() - began
    provider.seen.clear()
    after = sum(memory_mb(pid)[1] for pid in pids)
    size = 2 * len(raw) / 1e6
    show(
        f"two bodies of {len(raw) / 1e6:.0f} MB at once ({seconds:.1f} s, "
        f"{sum(isinstance(one, float) for one in ended)} scanned in time)",
        (
            Row("before", before, "MB"),
            Row("at most", highest, "MB"),
            Row("at most, times what was sent", (highest - before) / size, "x", LARGE_LIMIT),
            Row("afterwards", after, "MB"),
        ),
    )


def large_body(size: int) -> bytes:
    """One message, with values far apart: it is the memory that is measured, not the rules."""
    plain = PROSE.partition(" Ask ")[0] + "\n"
    piece = plain * 40 + PROSE
    text = piece * (size // len(piece))
    document = {
        "model": "claude-test-1",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": text}],
    }
    return json.dumps(document).encode()
