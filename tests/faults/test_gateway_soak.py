"""Mixed load while scanning workers are killed: nothing leaves unredacted, nothing unrecorded.

A few seconds in the suite; `make soak` runs it for ten minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import aiohttp
from aiohttp import web
from gateway_harness import Gateway, Provider, Seen
from yarl import URL

from gateway.coverage.canaries import leaked
from gateway.coverage.matrix import Request, applies, clean, planted, positions, samples
from shared.ledger import verify_path

SECONDS = float(os.environ.get("SOAK_SECONDS", "6"))
CLIENTS = 12
#: Seconds between two kills.
PAUSE = 0.4


def workers_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children]


def requests(chance: random.Random) -> list[Request]:
    """Some of everything: clean and planted, all formats, all encodings."""
    found: list[Request] = []
    for sample in samples():
        found.append(clean(sample))
        places = positions(sample)
        for position in chance.sample(places, min(4, len(places))):
            encoding = chance.choice(["plain", "gzip", "zstd", "escapes", "json in json"])
            found.append(planted([position], encoding if applies(position, encoding) else "plain"))
    return found


async def test_nothing_is_lost_while_workers_die(tmp_path: Path) -> None:
    provider = Provider()
    provider.start()
    planted_in: dict[str, tuple[str, ...]] = {}
    forwarded: Counter[bool] = Counter()

    async def takes_all(request: web.Request, seen: Seen) -> web.StreamResponse:
        values = planted_in.get(request.headers.get("x-app", ""), ())
        forwarded[leaked(values, seen.everything)] += 1
        provider.seen.clear()
        return web.json_response({})

    provider.script = takes_all
    gateway = Gateway(tmp_path / "home", provider.url, upstream_base_url=provider.url)
    gateway._environment["SPHRAGIS_SCAN_WORKERS"] = "2"
    gateway.start()
    try:
        statuses = await load(gateway, SECONDS, planted_in)
    finally:
        code = gateway.stop()
        provider.stop()
    assert code == 0
    assert statuses[200] > 0
    assert not [status for status in statuses if status not in (200, 403, 404, 413, 503)], statuses
    records = gateway.records()
    intents = {record["seq"] for record in records if record["type"] == "request"}
    outcomes = [record for record in records if record["type"] == "outcome"]
    assert sorted(record["ref"] for record in outcomes) == sorted(intents)
    assert forwarded[True] == 0
    # What a dead worker held never left; what left was recorded before.
    assert statuses[200] <= forwarded[False] <= len(intents)
    assert verify_path(tmp_path / "home" / "ledger").exit_code == 0


async def load(
    gateway: Gateway, seconds: float, planted_in: dict[str, tuple[str, ...]]
) -> Counter[int]:
    statuses: Counter[int] = Counter()
    until = time.monotonic() + seconds
    chance = random.Random(7)
    async with aiohttp.ClientSession() as session:

        async def client(number: int) -> None:
            mine = random.Random(number)
            while time.monotonic() < until:
                for request in mine.sample(requests(mine), 20):
                    if time.monotonic() > until:
                        return
                    name = f"soak {len(planted_in)}"
                    planted_in[name] = request.values
                    statuses[await send(session, gateway, request, name)] += 1

        async def killer() -> None:
            assert gateway.process is not None
            answered = 0
            while time.monotonic() < until - 1:
                await asyncio.sleep(PAUSE)
                if statuses[200] == answered:
                    continue  # a worker needs longer than this to start on a busy machine
                answered = statuses[200]
                victims = await asyncio.to_thread(workers_of, gateway.process.pid)
                if victims:
                    os.kill(chance.choice(victims), signal.SIGKILL)

        await asyncio.gather(killer(), *(client(number) for number in range(CLIENTS)))
    return statuses


async def send(
    session: aiohttp.ClientSession, gateway: Gateway, request: Request, name: str
) -> int:
    target = URL(f"{gateway.url}/agent/soak{request.path}", encoded=True)
    headers = {"authorization": "Bearer soak", "x-app": name, **request.headers}
    async with session.request(
        request.method,
        target,
        headers=headers,
        data=request.body or None,
        skip_auto_headers=("content-type",),
    ) as answer:
        said = await answer.read()
    assert not leaked(request.values, said) or answer.status == 200
    json.loads(said or b"{}")
    return answer.status
