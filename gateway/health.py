"""Alive, ready and why not: what decks, balancers and people ask.

Invariant: every answer comes from memory; nothing here waits for a disk, a lock or a worker,
because existing decks give `/metrics` 500 ms and then stop all delegation
(contracts/gateway.md section 2). `/metrics` answers 503 while not ready, because those decks read
nothing else. Called by `gateway.app`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import orjson
from aiohttp import web

from gateway.metrics import CONTENT_TYPE, Metrics
from shared import __version__

#: Seconds between two looks at the disk.
DISK_PERIOD: Final = 2.0
MIB: Final = 1 << 20

#: A check returns the sentence of what is wrong, or None.
Check = Callable[[], str | None]


class Readiness:
    """The conditions under which calls are taken: `passing` ones come right by themselves (a start,
    a worker being replaced), `lasting` ones need somebody."""

    def __init__(self, passing: Mapping[str, Check], lasting: Mapping[str, Check]) -> None:
        self._passing = dict(passing)
        self._lasting = dict(lasting)

    def reasons(self) -> list[str]:
        """Return one sentence per condition that does not hold; empty means ready."""
        return [*_failing(self._lasting), *_failing(self._passing)]

    def lasting(self) -> list[str]:
        """Return those reasons that will not pass without a person's hand."""
        return _failing(self._lasting)


def _failing(checks: Mapping[str, Check]) -> list[str]:
    return [sentence for check in checks.values() if (sentence := check())]


class DiskWatch:
    """Free space of the file system the ledger is on, measured off the loop."""

    def __init__(self, directory: Path, low_water_mib: int) -> None:
        self._directory = directory
        self._low_water = low_water_mib
        self._free_mib: int | None = None

    def check(self) -> str | None:
        """Return the sentence of a disk too full to take calls, or None."""
        if self._free_mib is None or self._free_mib >= self._low_water:
            return None
        return (
            f"The disk of the ledger has {self._free_mib} MiB left, less than the "
            f"{self._low_water} MiB kept for finishing records; free some space."
        )

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            await self.measure()
            await asyncio.sleep(DISK_PERIOD)

    async def measure(self) -> None:
        """Measure once."""
        try:
            found = await asyncio.to_thread(os.statvfs, self._directory)
        except OSError:
            self._free_mib = 0
            return
        self._free_mib = found.f_bavail * found.f_frsize // MIB


def add_routes(app: web.Application, readiness: Readiness, metrics: Metrics) -> None:
    """Serve `/healthz`, `/readyz` and `/metrics`."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        reasons = readiness.reasons()
        body = {"ready": not reasons, "reasons": reasons, "version": __version__}
        return web.Response(
            status=503 if reasons else 200,
            body=orjson.dumps(body),
            content_type="application/json",
        )

    async def scrape(_: web.Request) -> web.Response:
        reasons = readiness.reasons()
        if reasons:
            return web.Response(status=503, text="\n".join(["not ready", *reasons, ""]))
        return web.Response(body=metrics.render(), headers={"content-type": CONTENT_TYPE})

    for path, handler in (("/healthz", healthz), ("/readyz", readyz), ("/metrics", scrape)):
        app.router.add_route("*", path, handler)
