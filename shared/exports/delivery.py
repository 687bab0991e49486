"""Sending an OTLP export to an endpoint over HTTP, with a bounded number of tries.

Owns what counts as delivered: 2xx without rejected records. Retries are those that the OTLP
specification names (429, 502, 503, 504 and broken connections), waiting longer each time or as
long as the receiver asks, up to a limit. Invariant: no header or query of the endpoint is in any
error, because tokens live there. Called by `gateway.exporting`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

import orjson

from shared.exports.registry import ExportRefused

if TYPE_CHECKING:
    import httpx

TRIES: Final = 5
#: Seconds before the second try; doubled for each further one.
FIRST_PAUSE: Final = 0.5
MAX_PAUSE: Final = 30.0
TIMEOUT: Final = 30.0
_AGAIN: Final = frozenset({429, 502, 503, 504})
#: The variable that OpenTelemetry programs read headers from: `name=value,name=value`.
HEADERS_VARIABLE: Final = "OTEL_EXPORTER_OTLP_HEADERS"


def check_endpoint(endpoint: str) -> str:
    """Return the URL to post logs to; a bare host gets OTLP's own path. Raises ExportRefused."""
    try:
        parts = urlsplit(endpoint)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        good = False
    if not good:
        raise ExportRefused("The endpoint is not an http or https URL; write http://HOST:4318.")
    path = parts.path if parts.path not in ("", "/") else "/v1/logs"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def shown(endpoint: str) -> str:
    """Return an endpoint without what may be secret in it."""
    parts = urlsplit(endpoint)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def send(
    file: IO[bytes],
    endpoint: str,
    *,
    transport: httpx.BaseTransport | None = None,
    pause: Callable[[float], object] = time.sleep,
) -> int:
    """Post each line of `file`; return how many records the receiver rejected.

    Raises ExportRefused when a request was not taken after all tries.
    """
    import httpx

    url, rejected = check_endpoint(endpoint), 0
    headers = {"content-type": "application/json", **dict(_headers())}
    try:
        with httpx.Client(transport=transport, timeout=TIMEOUT, headers=headers) as client:
            for number, line in enumerate(file, start=1):
                answer = _post(client, url, line.rstrip(b"\n"), pause)
                if not answer.is_success:
                    raise ExportRefused(
                        f"{shown(url)} answered {answer.status_code} to request {number} of the "
                        "export; the requests before it were delivered."
                    )
                rejected += _rejected(answer.content)
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise ExportRefused(
            f"{shown(url)} cannot be reached ({type(error).__name__}); check the endpoint."
        ) from error
    return rejected


def _post(
    client: httpx.Client, url: str, body: bytes, pause: Callable[[float], object]
) -> httpx.Response:
    import httpx

    wait = FIRST_PAUSE
    for left in range(TRIES - 1, -1, -1):
        try:
            answer = client.post(url, content=body)
            if answer.status_code not in _AGAIN or not left:
                return answer
            asked = answer.headers.get("retry-after", "")
            delay = float(asked) if asked.isdigit() else wait
        except httpx.TransportError:
            if not left:
                raise
            delay = wait
        pause(min(delay, MAX_PAUSE))
        wait *= 2
    raise AssertionError("unreachable: the last try returns or raises")


def _headers() -> Iterator[tuple[str, str]]:
    for part in os.environ.get(HEADERS_VARIABLE, "").split(","):
        name, equals, value = part.partition("=")
        if equals and name.strip():
            yield name.strip().lower(), unquote(value.strip())


def _rejected(body: bytes) -> int:
    try:
        answer: Any = orjson.loads(body)
        return max(int(answer["partialSuccess"]["rejectedLogRecords"]), 0)
    except (ValueError, KeyError, TypeError):
        return 0
