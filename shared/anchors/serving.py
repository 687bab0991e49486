"""The witness as an HTTP service: bounded bodies, bounded waits, one answer per request.

Owns the listener; decides nothing (`witness` does). Invariants: no request takes more than
`MAX_REQUEST` bytes or `PATIENCE` seconds to arrive, and no more than `MAX_CALLS` are in work, so
that a stranger cannot fill the memory of a machine that may stand open to others; an error of the
disk is a 500 without a cosignature. Called by `gateway.verbs.witnessing`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from shared.anchors.witness import MAX_REQUEST, TEXT_TYPE, Witness

ADD_CHECKPOINT: Final = "/add-checkpoint"
#: Seconds for a request to arrive, header and body each.
PATIENCE: Final = 10.0
MAX_CALLS: Final = 64
MAX_CONNECTIONS: Final = 512
#: Longest request line or header line in bytes.
MAX_LINE: Final = 4096

Say = Callable[[str], None]


def application(witness: Witness, say: Say) -> web.Application:
    """Return the service; `say` gets a line for every failure of the disk."""
    calls = asyncio.Semaphore(MAX_CALLS)

    async def add_checkpoint(request: web.Request) -> web.Response:
        if calls.locked():
            return _text(503, "The witness is busy; try again.", {"retry-after": "1"})
        async with calls:
            body = await _body(request)
            if body is None:
                return _text(413, f"The request is longer than {MAX_REQUEST} bytes.")
            try:
                answer = await asyncio.to_thread(witness.add_checkpoint, body)
            except OSError as error:
                say(f"error: nothing was cosigned: {error.strerror or type(error).__name__}")
                return _text(500, "The witness cannot store its state; nothing was cosigned.")
        return web.Response(
            status=answer.code,
            body=answer.body.encode(),
            headers={"content-type": answer.content_type},
        )

    app = web.Application(client_max_size=MAX_REQUEST + 1)
    app.router.add_post(ADD_CHECKPOINT, add_checkpoint)
    return app


async def _body(request: web.Request) -> bytes | None:
    """Return the body, or None when it is too long. Raises HTTPRequestTimeout."""
    if (request.content_length or 0) > MAX_REQUEST:
        return None
    try:
        async with asyncio.timeout(PATIENCE):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        return None
    except TimeoutError:
        raise web.HTTPRequestTimeout from None


def _text(status: int, sentence: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        status=status,
        body=f"{sentence}\n".encode(),
        headers={"content-type": TEXT_TYPE, **(headers or {})},
    )


class Runner(web.AppRunner):
    """A runner whose connections are few and must ask for something soon."""

    async def _make_server(self) -> web.Server:
        # The library has no public place for this; its version is pinned and a test watches it.
        made = await super()._make_server()
        return _Server(
            made.request_handler,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            loop=made._loop,
            **made._kwargs,
        )


class _Server(web.Server):
    def __call__(self) -> RequestHandler:
        return _Impatient(self, loop=self._loop, **self._kwargs)


class _Impatient(RequestHandler):
    __slots__ = ("_asked", "_timer")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._give_up)
        if len(self._manager.connections if self._manager else ()) > MAX_CONNECTIONS:
            self._give_up()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._messages or self._current_request is not None:
            self._timer.cancel()

    def _give_up(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)


async def start_witness(
    witness: Witness, host: str, port: int, say: Say
) -> tuple[web.AppRunner, str]:
    """Listen; return the runner, whose `cleanup` ends it, and the base URL. Raises OSError."""
    runner = Runner(
        application(witness, say),
        access_log=None,
        handle_signals=False,
        keepalive_timeout=75.0,
        shutdown_timeout=2.0,
        lingering_time=1.0,
        max_line_size=MAX_LINE,
        max_field_size=MAX_LINE,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError:
        await runner.cleanup()
        raise
    bound: Any = runner.addresses[0]
    shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
    return runner, f"http://{shown}:{bound[1]}"
