"""The read-only page at `/ui`: readiness, calls, tokens, redactions and the ledger's head.

Invariants: it answers from memory; it shows figures, never text of a call; it is served only to
this machine, under a Host that names this machine, so that a web page elsewhere cannot read it
by pointing its own name here. All assets ship with the package. Called by `gateway.app`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, Final

import orjson
from aiohttp import web

from gateway.admission import names_this_machine

_ASSETS: Final = {
    "/ui": ("console.html", "text/html"),
    "/ui/console.css": ("console.css", "text/css"),
    "/ui/console.js": ("console.js", "text/javascript"),
}
_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def add_routes(app: web.Application, state: Callable[[], Mapping[str, Any]]) -> None:
    """Serve the page; `state` returns what `/ui/state` answers."""

    def page(name: str, kind: str) -> Callable[[web.Request], Any]:
        body = files(__package__).joinpath(name).read_bytes()

        async def handler(request: web.Request) -> web.Response:
            _refuse_strangers(request)
            return web.Response(body=body, content_type=kind, charset="utf-8", headers=_HEADERS)

        return handler

    async def current(request: web.Request) -> web.Response:
        _refuse_strangers(request)
        return web.Response(
            body=orjson.dumps(state()), content_type="application/json", headers=_HEADERS
        )

    for path, (name, kind) in _ASSETS.items():
        app.router.add_get(path, page(name, kind))
    app.router.add_get("/ui/state", current)


def _refuse_strangers(request: web.Request) -> None:
    peer = request.transport.get_extra_info("peername") if request.transport else None
    local = isinstance(peer, tuple) and ipaddress.ip_address(peer[0]).is_loopback
    if not local or not names_this_machine(request.headers.get("host", "")):
        raise web.HTTPForbidden(
            text="The console is served only to this machine, under 127.0.0.1 or localhost."
        )
