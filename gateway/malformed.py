"""Answers to bytes that are not an HTTP request, and to what the server library cannot serve.

The library's own answers quote the bytes it choked on, which may be a prompt, and have no shape a
model client can show. Invariant: what a client sends is never quoted back; every such answer is in
a provider's error shape, closes the connection and is recorded like any other refusal.
Owns also the short way of what is a call: from the listener to its handler, past the application.
Called by `gateway.app`, whose runner this is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_urldispatcher import UrlMappingMatchInfo

from gateway.admission import Refused
from gateway.wire.errors import ErrorKind, Family, error_body

#: Answers one refusal: records it and returns the response.
Refuse = Callable[[web.BaseRequest, Refused], Awaitable[web.StreamResponse]]

Handler = Callable[[Any], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Direct:
    """Beginnings of paths that one handler serves, and the route that leads to it as well."""

    paths: tuple[str, ...]
    route: web.AbstractRoute
    serve: Callable[[web.Request], Awaitable[web.StreamResponse]]


#: Bytes of a request line or header line: the longest header seen from a real client has 748
#: (contracts/clients.md section 3).
MAX_LINE: Final = 8190


class Runner(web.AppRunner):
    """An application's runner that gives what is not HTTP to `refuse`."""

    __slots__ = ("_direct", "_refuse")

    def __init__(
        self, app: web.Application, refuse: Refuse, direct: Direct | None = None, **kwargs: Any
    ) -> None:
        super().__init__(app, max_line_size=MAX_LINE, max_field_size=MAX_LINE, **kwargs)
        self._refuse = refuse
        self._direct = direct

    async def _make_server(self) -> web.Server:
        # The library has no public place for this; its version is pinned and a test watches it.
        made = await super()._make_server()
        handler = made.request_handler
        return _Server(
            handler if self._direct is None else _directly(self.app, self._direct, handler),
            self._refuse,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            loop=made._loop,
            **made._kwargs,
        )


def _directly(app: web.Application, direct: Direct, handler: Handler) -> Handler:
    """Serve what begins with one of the paths of `direct` without looking for a route: the way
    through the application takes a twentieth of a small call. What the application does beside is
    done here too: signals belong to the route, and a client that waits to be told to go on is
    left to the application."""
    route = UrlMappingMatchInfo({}, direct.route)
    route.add_app(app)
    route.freeze()
    paths, serve = direct.paths, direct.serve

    def handle(request: Any) -> Awaitable[web.StreamResponse]:
        if not request.raw_path.startswith(paths) or "expect" in request.headers:
            return handler(request)
        request._match_info = route
        return serve(request)

    return handle


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
