"""The way to a provider: one session, allow-listed headers, exactly one credential.

Invariants: a header reaches the provider, or the client, only if it is on a list here; redirects
are never followed; no proxy, cookie or netrc of the environment is used; every wait ends. Failures
become `UpstreamFailed`, whose sentence names no value of the call. Called by `gateway.pipeline`.
"""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from gateway.credentials import Credential
from gateway.decoding import Decoder, Undecodable, decoder_of
from shared import __version__

#: Client headers that go to the provider. Each was seen from a real client or is in the API's
#: reference; their values are scanned like text. Anything else stays here.
REQUEST_HEADERS: Final = re.compile(
    r"accept|user-agent|x-app|idempotency-key|x-client-request-id|x-claude-code-session-id"
    r"|anthropic-(?:version|beta|workspace-id|dangerous-direct-browser-access)|x-stainless-[a-z-]+"
    r"|openai-(?:organization|project|beta)|originator|version|session-id|session_id|thread-id"
    r"|x-session-id|x-codex-[a-z-]+|conversation_id|x-goog-(?:api-client|user-project)"
    r"|x-ms-client-request-id|http-referer|x-title|x-amzn-bedrock-[a-z-]+"
)
#: Provider headers that go to the client.
RESPONSE_HEADERS: Final = re.compile(
    r"content-type|request-id|x-request-id|retry-after|retry-after-ms|x-should-retry"
    r"|anthropic-ratelimit-[a-z0-9-]+|anthropic-(?:organization-id|priority-[a-z-]+)"
    r"|openai-(?:processing-ms|organization|version|model)|x-ratelimit-[a-z0-9-]+"
    r"|x-codex-[a-z0-9-]+|x-models-etag|x-reasoning-included"
    r"|x-amzn-requestid|x-amzn-errortype|x-amzn-bedrock-[a-z-]+|x-ms-region|apim-request-id"
)
#: Longest header value passed on: the longest seen is 748 bytes (contracts/clients.md section 3).
MAX_HEADER: Final = 8 << 10
#: Largest whole (not streamed) answer taken into memory.
MAX_ANSWER: Final = 128 << 20
#: Largest body written at once: the kernel takes it in less than a millisecond.
ONE_WRITE: Final = 1 << 20
#: Seconds an idle connection is kept: shorter than what load balancers commonly allow (60 s),
#: so that a call is not sent into a connection that is just being closed.
KEEP_ALIVE: Final = 30.0


class UpstreamFailed(Exception):
    """The provider did not answer, or broke off; `str()` is the sentence for the client.

    status and headers: what the client gets if nothing was sent yet; cause: stable word for the
    record.
    """

    def __init__(
        self,
        cause: str,
        sentence: str,
        status: int = 502,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.cause = cause
        self.status = status
        self.headers = headers or {}


def request_headers(client: Mapping[str, str]) -> dict[str, str]:
    """Return those of a client's headers that may be forwarded, without the credential.

    A header sent several times is one list (RFC 9110 section 5.3), which the provider gets whole.
    """
    found: dict[str, str] = {}
    for sent_as, value in client.items():
        if name := _request_name(sent_as):
            found[name] = f"{found[name]}, {value}" if name in found else value
    return {name: value for name, value in found.items() if len(value) <= MAX_HEADER}


def response_headers(provider: Mapping[str, str]) -> dict[str, str]:
    """Return those of a provider's headers that may be passed to the client."""
    return {
        name: value
        for sent_as, value in provider.items()
        if (name := _response_name(sent_as)) and len(value) <= MAX_HEADER
    }


#: The same few names come with every call.
_NAMES_KNOWN: Final = 512


@lru_cache(maxsize=_NAMES_KNOWN)
def _request_name(sent_as: str) -> str:
    """Return a header's name as it is forwarded, or nothing."""
    name = sent_as.lower()
    return name if REQUEST_HEADERS.fullmatch(name) else ""


@lru_cache(maxsize=_NAMES_KNOWN)
def _response_name(sent_as: str) -> str:
    name = sent_as.lower()
    return name if RESPONSE_HEADERS.fullmatch(name) else ""


class Answer:
    """A provider's answer whose body has not been read. Close it, whatever happens."""

    def __init__(self, response: aiohttp.ClientResponse, decoder: Decoder | None = None) -> None:
        self._response = response
        self._decoder = decoder
        self._decoded: Iterator[bytes] = iter(())
        self.status = response.status
        self.headers = response_headers(response.headers)
        self.media_type = response.content_type.lower()

    async def chunk(self) -> bytes:
        """Return the next piece, decompressed, or nothing at the end. Raises UpstreamFailed."""
        if self._decoder is None:
            return await self._received()
        try:
            while not (piece := next(self._decoded, b"")):
                if not (data := await self._received()):
                    return b""
                self._decoded = self._decoder.feed(data)
        except Undecodable as wrong:
            raise _undecodable(self.status, self.headers) from wrong
        # A little may hold much: others get their turn between two pieces of it.
        await asyncio.sleep(0)
        return piece

    async def _received(self) -> bytes:
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as wrong:
            raise _broken(wrong) from wrong

    async def whole(self) -> bytes:
        """Return the whole body. Raises UpstreamFailed."""
        pieces: list[bytes] = []
        size = 0
        content, decoder = self._response.content, self._decoder
        # A small answer has come with its headers.
        while (decoder is not None or not content.at_eof()) and (piece := await self.chunk()):
            size += len(piece)
            if size > MAX_ANSWER:
                raise UpstreamFailed(
                    "too_large", f"The provider's answer is larger than {MAX_ANSWER >> 20} MiB."
                )
            pieces.append(piece)
        if decoder is not None and not decoder.is_complete:
            raise _broken(aiohttp.ClientPayloadError())
        return b"".join(pieces)

    def close(self) -> None:
        """Give the connection back if the body was read to its end, else cut it."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


class Upstream:
    """The session to all providers."""

    def __init__(self, *, connect_timeout: float, read_timeout: float) -> None:
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=connect_timeout, sock_read=read_timeout
        )
        self._connect_timeout = connect_timeout
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._timeout,
            skip_auto_headers=("user-agent", "content-type"),
            auto_decompress=False,
            trust_env=False,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        credential: Credential | None,
        body: bytes,
        content_type: str,
        stream: bool,
    ) -> Answer:
        """Send one request and return the answer once its headers are here.

        `url` is used exactly as given; `headers` come from `request_headers`. Raises
        UpstreamFailed.
        """
        assert self._session is not None, "used outside of its context"
        sent = {"user-agent": f"sphragis/{__version__}", **headers}
        # A compressed stream would arrive in lumps; a whole answer may as well be small.
        sent["accept-encoding"] = "identity" if stream else "gzip, deflate"
        if credential is not None:
            sent[credential.header] = credential.value
        if body:
            sent["content-type"] = content_type
        try:
            response = await self._session.request(
                method,
                URL(url, encoded=True),
                headers=sent,
                data=_payload(body),
                allow_redirects=False,
            )
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as wrong:
            raise self._failed(wrong, url) from wrong
        if 300 <= response.status < 400:
            response.close()
            raise UpstreamFailed(
                "redirect",
                "The provider answered with a redirect, which the gateway does not follow; "
                "correct the provider's base URL.",
            )
        try:
            return Answer(response, _decoder(response))
        except Undecodable as wrong:
            response.close()
            raise _undecodable(response.status, response_headers(response.headers)) from wrong

    def _failed(self, wrong: Exception, url: str) -> UpstreamFailed:
        place = urlsplit(url).netloc
        if isinstance(wrong, aiohttp.ConnectionTimeoutError):
            return UpstreamFailed(
                "connect_timeout",
                f"{place} could not be reached within {self._connect_timeout:g} seconds.",
                504,
            )
        if isinstance(wrong, TimeoutError):
            return _broken(wrong)
        if isinstance(wrong, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
            return UpstreamFailed("tls", f"The certificate of {place} is not trusted here.")
        if isinstance(wrong, aiohttp.ClientConnectorError):
            return UpstreamFailed(
                "connect", f"{place} cannot be reached; is the provider's address right and up?"
            )
        return _broken(wrong)


def _decoder(response: aiohttp.ClientResponse) -> Decoder | None:
    """Raises Undecodable."""
    encodings = response.headers.getall("content-encoding", None)
    return decoder_of(",".join(encodings)) if encodings else None


def _undecodable(status: int, headers: Mapping[str, str]) -> UpstreamFailed:
    failed = status >= 400
    return UpstreamFailed(
        "encoding",
        f"The provider answered {status} with something that cannot be decoded: it is not packed "
        "as it says, or in a way that nobody asked for.",
        status if failed else 502,
        headers if failed else None,
    )


def _payload(body: bytes) -> aiohttp.BytesPayload | io.BytesIO | None:
    """A large body goes in pieces: one write of it would hold the event loop. A small one is told
    to be bytes, so that nobody has to find out."""
    if len(body) > ONE_WRITE:
        return io.BytesIO(body)
    return aiohttp.BytesPayload(body) if body else None


def _broken(wrong: BaseException) -> UpstreamFailed:
    if isinstance(wrong, asyncio.TimeoutError | TimeoutError):
        return UpstreamFailed("timeout", "The provider stopped answering.", 504)
    if isinstance(wrong, aiohttp.ClientResponseError | aiohttp.ClientPayloadError):
        return UpstreamFailed("cut", "The provider's answer broke off or cannot be decoded.")
    return UpstreamFailed("cut", "The provider closed the connection before it had answered.")
