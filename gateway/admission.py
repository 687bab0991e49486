"""The door: what is checked before a call's body is looked at, and the reading of that body.

Owns the limits (calls at once, bytes of a body, bytes held by all bodies) and `Refused`, the way
every part of the pipeline says no. Invariant: nothing here forwards; whatever is not clearly
acceptable raises. Called by `gateway.pipeline`.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from aiohttp import StreamReader, web
from aiohttp.http_exceptions import PayloadEncodingError

from gateway.wire.errors import ErrorKind

if TYPE_CHECKING:
    from gateway.health import Readiness

#: Seconds a client may be silent while it sends a body; all clients seen send it in one go.
BODY_IDLE: Final = 30.0
#: Bytes of bodies in memory at once, over all calls: sixteen of the largest.
HELD_LIMIT: Final = 1 << 30


class Refused(Exception):
    """The call is not forwarded. `str()` is the sentence the client shows; it repeats no value.

    status: HTTP status of the answer; kind: its word in the native error shape; code: stable word
    for the record and the metric; retry: whether trying the same again may work.
    """

    def __init__(
        self,
        code: str,
        sentence: str,
        *,
        status: int = 403,
        kind: ErrorKind = ErrorKind.REFUSED,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(sentence)
        self.code = code
        self.status = status
        self.kind = kind
        self.retry_after = retry_after

    @property
    def retry(self) -> bool:
        """Whether the client should try again."""
        return self.retry_after is not None


def busy(sentence: str, code: str = "busy", retry_after: int = 1) -> Refused:
    """Return the refusal of a call that may come back soon."""
    return Refused(code, sentence, status=503, kind=ErrorKind.UNAVAILABLE, retry_after=retry_after)


def unavailable(sentence: str, code: str) -> Refused:
    """Return the refusal of a call while something needs a person's hand."""
    return Refused(code, sentence, status=503, kind=ErrorKind.UNAVAILABLE)


def check_ready(readiness: Readiness, problem: str | None) -> None:
    """Refuse all calls while the gateway cannot serve one as it must; `problem` is why none can be
    recorded. Raises Refused."""
    if problem:
        raise unavailable(f"The gateway takes no calls: {problem}", "audit_unavailable")
    reasons = readiness.reasons()
    if not reasons:
        return
    if lasting := readiness.lasting():
        raise unavailable(f"The gateway takes no calls: {lasting[0]}", "not_ready")
    raise busy(f"The gateway takes no calls yet: {reasons[0]}", "not_ready")


def check_host(host: str) -> None:
    """Refuse a name that is not this machine's own: with a provider key of the gateway's own, a web
    page that points its name here could spend it. Raises Refused."""
    if not names_this_machine(host):
        raise Refused(
            "host",
            "The gateway answers only under 127.0.0.1 or localhost while it holds the "
            "provider's key; correct the client's base URL.",
        )


def check_provider(provider: str, address: str | None) -> None:
    """Refuse a call to a provider whose address nobody has set. Raises Refused."""
    if address is None:
        raise Refused(
            "provider_unset",
            f"The gateway knows no address of {provider}; set {provider}_base_url in its settings.",
        )


def check_expectation(value: str) -> None:
    """Refuse a condition on the answer other than the one HTTP knows. Raises Refused."""
    if value.strip().lower() not in ("", "100-continue"):
        raise Refused(
            "expectation",
            "The Expect header asks for something this gateway does not do; leave the header out.",
        )


def check_transfer(value: str) -> None:
    """Refuse a transfer encoding beside `chunked`, which nobody has undone. Raises Refused."""
    if value.strip().lower() not in ("", "chunked"):
        raise Refused(
            "transfer_encoding",
            "The body is sent in a transfer encoding that this gateway does not undo; send it "
            "with Content-Length, or chunked and nothing else.",
        )


def unreadable(headers: Mapping[str, str]) -> set[str]:
    """Return the names of headers whose values are not ASCII text, which nobody reads alike."""
    return {name for name, value in headers.items() if not value.isascii()}


def check_content_type(value: str, wanted: Collection[str]) -> None:
    """Refuse a body that is not declared as one of the `wanted` media types. Raises Refused.

    JSON must be UTF-8. A call that has no body needs no declaration.
    """
    if value in wanted:
        return
    media, *parameters = (part.strip().lower() for part in value.split(";"))
    if not wanted and not value:
        return
    charsets = [p.partition("=")[2].strip('" ') for p in parameters if p.startswith("charset")]
    if media in wanted and all(charset in {"utf-8", "utf8"} for charset in charsets):
        return
    if not wanted:
        return  # whatever it is declared as: a body that is not empty is refused by the format
    raise Refused(
        "content_type",
        f"The gateway scans only {' or '.join(sorted(wanted))} bodies on this path; send that, "
        "with Content-Type saying so.",
    )


def check_origin(origin: str, content_type: str) -> None:
    """Refuse what a web page of another machine can send without the browser asking us first: a
    body that is not declared as JSON. Raises Refused."""
    if not origin or content_type.partition(";")[0].strip().lower() == "application/json":
        return
    if not names_this_machine(origin.partition("://")[2]):
        raise Refused(
            "origin",
            "The request comes from a web page of another address and its body is not declared as "
            "JSON; send it with Content-Type: application/json.",
        )


class Admission:
    """Counts what is inside and refuses what would not fit."""

    def __init__(self, *, max_calls: int, body_limit: int) -> None:
        self._max_calls = max_calls
        self._body_limit = body_limit
        self._calls = 0
        self._held = 0
        self._inside = _Inside(self)

    @property
    def calls(self) -> int:
        """Calls inside now."""
        return self._calls

    def enter(self) -> _Inside:
        """Count one call while the block that this opens is run. Raises Refused when the house is
        full."""
        if self._calls >= self._max_calls:
            raise busy(f"The gateway is serving {self._calls} calls, its limit; try again soon.")
        return self._inside

    def body(self, request: web.Request) -> _Held:
        """Read the body as sent (not decompressed) and count it while the block needs it.

        Entering raises Refused.
        """
        return _Held(self, request)

    async def _read(self, request: web.Request, held: _Held) -> bytes:
        if (request.content_length or 0) > self._body_limit:
            raise self._too_large()
        chunks: list[bytes] = []
        content = request.content
        while not content.at_eof() and (chunk := await _next_chunk(content)):
            held.size += len(chunk)
            self._held += len(chunk)
            if held.size > self._body_limit:
                raise self._too_large()
            if self._held > HELD_LIMIT:
                raise busy("The gateway holds as many bytes as it may; try again soon.")
            chunks.append(chunk)
        return b"".join(chunks)

    def _too_large(self) -> Refused:
        # 403, not 413: the most used client replaces the message of a 413 by its own
        # (contracts/clients.md section 4).
        return Refused(
            "body_too_large",
            f"The request body is larger than {self._body_limit >> 20} MiB, the gateway's limit; "
            "send less at once or raise body_limit_mib.",
            kind=ErrorKind.TOO_LARGE,
        )


class _Inside:
    """Counts calls of an `Admission`; one serves all of them."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def __enter__(self) -> None:
        self._admission._calls += 1

    def __exit__(self, *_: object) -> None:
        self._admission._calls -= 1


class _Held:
    """One body in memory; `size` counts what was read of it."""

    def __init__(self, admission: Admission, request: web.Request) -> None:
        self._admission = admission
        self._request = request
        self.size = 0

    async def __aenter__(self) -> bytes:
        try:
            return await self._admission._read(self._request, self)
        except BaseException:
            self._admission._held -= self.size
            raise

    async def __aexit__(self, *_: object) -> None:
        self._admission._held -= self.size


async def _next_chunk(content: StreamReader) -> bytes:
    try:
        if chunk := content.read_nowait():
            return chunk  # nothing to wait for
        async with asyncio.timeout(BODY_IDLE):
            return await content.readany()
    except TimeoutError:
        raise Refused(
            "body_timeout",
            f"The request body stopped arriving for {BODY_IDLE:g} seconds; send it again.",
            status=408,
            kind=ErrorKind.INVALID,
        ) from None
    except PayloadEncodingError:
        raise Refused(
            "body_framing", "The request body is not framed as HTTP asks; correct the client."
        ) from None


def names_this_machine(host: str) -> bool:
    """Tell whether a Host header names this machine by itself, not by some name in the DNS that
    a web page could have pointed here."""
    name = host.rpartition("]")[0][1:] if host.startswith("[") else host.partition(":")[0]
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
