"""Alive, ready and why not: what decks, balancers and people ask.

Invariant: every answer comes from memory; nothing here waits for a disk, a lock or a worker,
because existing decks give `/metrics` 500 ms and then stop all delegation
(contracts/gateway.md section 2). `/metrics` answers 503 while not ready, because those decks read
nothing else. Called by `gateway.app`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import orjson
from aiohttp import web

from gateway.metrics import CONTENT_TYPE, Metrics
from shared import __version__

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
