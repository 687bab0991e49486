"""Answers to bytes that are not an HTTP request, and to what the server library cannot serve.

The library's own answers quote the bytes it choked on, which may be a prompt, and have no shape a
model client can show. Invariant: what a client sends is never quoted back; every such answer is in
a provider's error shape, closes the connection and is recorded like any other refusal.
Called by `gateway.app`, whose runner this is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler

from gateway.admission import Refused
from gateway.wire.errors import ErrorKind, Family, error_body

#: Answers one refusal: records it and returns the response.
Refuse = Callable[[web.BaseRequest, Refused], Awaitable[web.StreamResponse]]

#: Bytes of a request line or header line: the longest header seen from a real client has 748
#: (contracts/clients.md section 3).
MAX_LINE: Final = 8190


class Runner(web.AppRunner):
    """An application's runner that gives what is not HTTP to `refuse`."""

    __slots__ = ("_refuse",)

    def __init__(self, app: web.Application, refuse: Refuse, **kwargs: Any) -> None:
        super().__init__(app, max_line_size=MAX_LINE, max_field_size=MAX_LINE, **kwargs)
        self._refuse = refuse

    async def _make_server(self) -> web.Server:
        # The library has no public place for this; its version is pinned and a test watches it.
        made = await super()._make_server()
        return _Server(
            made.request_handler,
            self._refuse,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            loop=made._loop,
            **made._kwargs,
        )


class _Server(web.Server):
    def __init__(self, handler: Any, refuse: Refuse, **kwargs: Any) -> None:
        super().__init__(handler, **kwargs)
        self.refuse = refuse

    def __call__(self) -> RequestHandler:
        return _Protocol(self, loop=self._loop, **self._kwargs)


class _Protocol(RequestHandler):
    __slots__ = ("_refuse",)

    def __init__(self, manager: _Server, **kwargs: Any) -> None:
        super().__init__(manager, **kwargs)
        self._refuse = manager.refuse

    def _make_error_handler(
        self, err_info: Any
    ) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        too_long = isinstance(err_info.exc, LineTooLong)

        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            response = await self._refuse(request, _not_http(too_long=too_long))
            response.force_close()
            return response

        return handler

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what no handler answered; nothing of the call is repeated."""
        self.log_exception("unanswered", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun and cannot become another one")
        response = web.Response(
            status=status,
            body=error_body(
                Family.ANTHROPIC, status, ErrorKind.INTERNAL, "The gateway failed on this call."
            ),
            content_type="application/json",
        )
        response.force_close()
        return response


def _not_http(*, too_long: bool) -> Refused:
    sentence = (
        f"A line of the request, its target or one header, is longer than {MAX_LINE} bytes; "
        "send a shorter one."
        if too_long
        else "The request is not HTTP/1.1 as the standard asks (request line, header or body "
        "framing) and was not forwarded; correct the client or what stands before the gateway."
    )
    return Refused("http_syntax", sentence, status=400, kind=ErrorKind.INVALID)
