"""The life of one call, top to bottom: `Pipeline._serve` is the whole story.

Invariants: what is forwarded is what the scanner wrote anew; no byte leaves before the intent
record is durable; every intent gets an outcome, whatever happens, including a client that goes
away; a stream that the provider did not finish never ends cleanly for the client. Decides order
only; each step lives in its own module. Called by `gateway.app` for every path that is not its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from gateway import answering, routing, wire
from gateway.admission import (
    Admission,
    Refused,
    check_content_type,
    check_expectation,
    check_host,
    check_origin,
    check_provider,
    check_ready,
    check_transfer,
    unavailable,
)
from gateway.audit import RECEIPT_HEADER, Audit, AuditUnavailable, Outcome
from gateway.bookkeeping import Bookkeeping
from gateway.call import Call
from gateway.client_keys import check_client_key
from gateway.credentials import credential_of, held_key
from gateway.evidence import Evidence
from gateway.health import Readiness
from gateway.logs import say, where
from gateway.metrics import Metrics
from gateway.redaction.job import ScanResult
from gateway.redaction.policy import Policy, ScopeRule
from gateway.redaction.scopes import scope_of, session_of
from gateway.redaction.stand_ins import shapes_of
from gateway.redaction.vault import Originals, Vault, VaultError
from gateway.redaction.vouching import digest
from gateway.redaction.workers import ScanPool
from gateway.scanning import Scanning
from gateway.settings import Settings
from gateway.stamps import Stamps
from gateway.upstream import Answer, Upstream, UpstreamFailed, request_headers
from gateway.usage import UsageMeter
from gateway.wire.errors import NO_RETRY, ErrorKind, Family, error_body

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
#: Refusals without a record: there is no ledger to write it to, or too little room in it.
_UNRECORDED: Final = frozenset({"not_ready", "busy", "audit_unavailable"})


@dataclass(frozen=True, slots=True)
class Parts:
    """What a pipeline works with."""

    settings: Settings
    policy: Policy
    admission: Admission
    readiness: Readiness
    pool: ScanPool
    vault: Vault
    audit: Audit
    upstream: Upstream
    metrics: Metrics
    usage: UsageMeter
    stopping: asyncio.Event
    stamps: Stamps
    evidence: Evidence
    token_key: bytes = field(repr=False)
    #: Digests of the keys that clients may show for any role.
    client_keys: frozenset[str] = frozenset()


class Pipeline:
    """Serves calls, one `handle` each, at the same time."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._metrics = parts.metrics
        self._audit = parts.audit
        self._holds_keys = parts.settings.holds_keys
        self._by_session = parts.policy.scope is ScopeRule.SESSION
        self._shapes = shapes_of(parts.policy.stand_ins())
        self._scanning = Scanning(parts.policy, parts.pool, parts.vault, parts.metrics)
        self._books = Bookkeeping(parts.audit, parts.evidence, parts.metrics, parts.usage)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one request of any path and method."""
        raw_path, _, raw_query = request.raw_path.partition("?")
        seen = {
            name: value
            for name in routing.HEADERS_USED
            if (value := request.headers.get(name)) is not None
        }
        found = routing.match(request.method, raw_path, raw_query, seen)
        if isinstance(found, routing.LocalAnswer):
            return web.Response(status=found.status, body=found.body)
        method = request.method if request.method in METHODS else "OTHER"
        call = Call(found, method, stamp=self._parts.stamps.of(found.role))
        try:
            with self._parts.admission.enter():
                response = await self._serve(call, found, request)
        except Refused as refused:
            response = await self._refuse(call, request, refused)
        except ConnectionResetError:
            raise  # nobody is left to answer
        except Exception as error:
            say(f"internal error in {call.id}: {where(error)}")
            response = self._internal_error(call, request)
        self._metrics.response(call.path, response.status)
        return response

    async def refuse_malformed(
        self, request: web.BaseRequest, refused: Refused
    ) -> web.StreamResponse:
        """Refuse what is not an HTTP request, with a record and an answer like any other."""
        found = routing.Refusal(
            refused.code, refused.status, refused.kind, Family.ANTHROPIC, str(refused)
        )
        call = Call(found, "OTHER")
        response = await self._refuse(call, request, refused)
        self._metrics.response(call.path, response.status)
        return response

    async def _serve(
        self, call: Call, route: routing.Route | routing.Refusal, request: web.Request
    ) -> web.StreamResponse:
        """Admit, read, scan, seal, record, forward, restore, record."""
        if isinstance(route, routing.Refusal):
            raise _unlisted(route)
        self._admit(call, route, request)
        headers = request_headers(request.headers)
        async with self._parts.admission.body(request) as body:
            scan = await self._scanning.scan(
                call,
                route,
                headers,
                body,
                encoding=",".join(request.headers.getall("content-encoding", [])),
                media=request.headers.get("content-type", ""),
            )
        if scan.extra_hits:
            headers = {
                name: value for name, value in headers.items() if name not in scan.extra_hits
            }
        originals = await self._originals(call)
        call.receipt = await self._books.intend(call, scan)
        outcome = Outcome(collector=self._parts.evidence.collector())
        try:
            answer = await self._forward(call, route, headers, scan)
            call.streams, call.model = scan.stream, scan.model
            del scan  # a large body is not held while the answer is streamed
            try:
                return await self._answer(call, request, answer, originals, outcome)
            finally:
                answer.close()
        except UpstreamFailed as failed:
            return self._upstream_failed(call, failed, outcome)
        except asyncio.CancelledError:
            outcome.status = "stopped" if self._parts.stopping.is_set() else "client_abort"
            raise
        except ConnectionResetError:
            outcome.status = "client_abort"
            raise
        finally:
            self._books.finish(call, outcome)

    # -- before anything leaves ------------------------------------------------------------------

    def _admit(self, call: Call, route: routing.Route, request: web.Request) -> None:
        """Learn whose the call is, and refuse what can be refused before its body is read."""
        settings, headers = self._parts.settings, request.headers
        check_ready(self._parts.readiness, self._audit.problem)
        if self._holds_keys:
            check_host(headers.get("host", ""))
        check_provider(route.provider, settings.upstream_for(route.provider))
        session = session_of(headers) if self._by_session else ""
        call.scope = scope_of(self._parts.policy, call.role, session)
        call.owner = self._parts.evidence.owner_of(call.role, call.stamp.run, headers)
        call.credential = credential_of(route.provider, headers, route.key)
        if settings.require_client_key and settings.key_for(route.provider) is not None:
            shown = call.credential.value if call.credential is not None else ""
            check_client_key(shown, self._parts.client_keys, self._parts.stamps.keys_of(call.role))
        check_expectation(headers.get("expect", ""))
        check_transfer(headers.get("transfer-encoding", ""))
        content_type = headers.get("content-type", "")
        check_content_type(content_type, wire.get(route.wire).request_types)
        check_origin(headers.get("origin", ""), content_type)

    async def _originals(self, call: Call) -> Originals:
        try:
            return await self._parts.vault.load(call.scope.owner)
        except VaultError as wrong:
            raise unavailable(str(wrong), "vault") from wrong

    async def _forward(
        self,
        call: Call,
        route: routing.Route,
        headers: Mapping[str, str],
        scan: ScanResult,
    ) -> Answer:
        settings = self._parts.settings
        base = settings.upstream_for(route.provider)
        assert base is not None, "checked before anything was read"
        key = settings.key_for(route.provider)
        override = settings.upstream_base_url is not None
        self._metrics.request(call.path, "override" if override else call.provider)
        began = time.monotonic()
        answer = await self._parts.upstream.send(
            route.method,
            base + route.target,
            headers=headers,
            credential=call.credential if key is None else held_key(route.provider, key),
            body=scan.body,
            content_type=scan.content_type,
            stream=scan.stream,
        )
        self._metrics.upstream_time(call.path, time.monotonic() - began)
        return answer

    # -- the way back ----------------------------------------------------------------------------

    async def _answer(
        self,
        call: Call,
        request: web.Request,
        answer: Answer,
        originals: Originals,
        outcome: Outcome,
    ) -> web.StreamResponse:
        outcome.http, outcome.media = answer.status, answer.media_type
        outcome.status = "ok" if answer.status < 400 else "provider_error"

        def signed(text: str, signature: str) -> None:
            seal = digest(self._parts.token_key, call.scope.owner, text, signature)
            self._parts.vault.vouch(call.scope.owner, seal)

        restoring = answering.Restoring(
            originals if self._parts.settings.auto_reveal else {},
            outcome,
            signed,
            owns=originals.owns,
            shapes=self._shapes,
        )
        format_ = wire.get(call.wire)
        headers = self._headers(call, answer.headers)
        stream_type = answering.stream_type(answer, format_, asked=call.streams)
        if stream_type is not None:
            response = web.StreamResponse(status=answer.status, headers=headers)
            pieces = answering.streamed(answer, format_, restoring, stream_type)
            await self._stream(call, request, response, pieces, outcome)
            return response
        body = await answering.whole(answer, format_, restoring)
        return web.Response(status=answer.status, body=body, headers=headers)

    async def _stream(
        self,
        call: Call,
        request: web.Request,
        response: web.StreamResponse,
        pieces: AsyncGenerator[bytes, None],
        outcome: Outcome,
    ) -> None:
        """Write the pieces; until the first one is here, the client can still get an error."""
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    if not call.answering:
                        call.answering = True
                        await response.prepare(request)
                    await response.write(piece)
        except UpstreamFailed as failed:
            if not call.answering:
                raise
            self._cut(request, outcome, failed)

    def _cut(self, request: web.Request, outcome: Outcome, failed: UpstreamFailed) -> None:
        """Break the client's connection: an end it could take for a clean one would be a lie."""
        outcome.status, outcome.cause = "cut", failed.cause
        self._metrics.upstream_error()
        _abort(request)

    # -- endings ---------------------------------------------------------------------------------

    def _upstream_failed(
        self, call: Call, failed: UpstreamFailed, outcome: Outcome
    ) -> web.StreamResponse:
        self._metrics.upstream_error()
        outcome.status, outcome.cause, outcome.http = "upstream_error", failed.cause, failed.status
        return self._error(call, failed.status, ErrorKind.UPSTREAM, str(failed), failed.headers)

    async def _refuse(
        self, call: Call, request: web.BaseRequest, refused: Refused
    ) -> web.StreamResponse:
        self._metrics.refusal(refused.code)
        if refused.code not in _UNRECORDED:
            try:
                call.receipt = await self._audit.deny(call, refused.code, refused.status)
            except AuditUnavailable as wrong:
                refused = unavailable(str(wrong), "audit_unavailable")
        headers = {} if refused.retry else dict(NO_RETRY)
        if refused.retry_after is not None:
            headers["retry-after"] = str(refused.retry_after)
        response = self._error(call, refused.status, refused.kind, str(refused), headers)
        if not request.content.is_eof():
            response.force_close()
        return response

    def _internal_error(self, call: Call, request: web.Request) -> web.StreamResponse:
        self._metrics.refusal("internal")
        if call.answering:
            _abort(request)
            raise ConnectionResetError
        return self._error(
            call,
            500,
            ErrorKind.INTERNAL,
            f"The gateway failed on this call; its log names {call.id}.",
            {},
        )

    def _error(
        self, call: Call, status: int, kind: ErrorKind, sentence: str, headers: Mapping[str, str]
    ) -> web.Response:
        body = error_body(call.family, status, kind, sentence, call.id)
        all_headers = self._headers(call, {**headers, "content-type": "application/json"})
        return web.Response(status=status, body=body, headers=all_headers)

    def _headers(self, call: Call, headers: Mapping[str, str]) -> dict[str, str]:
        receipt = {RECEIPT_HEADER: call.receipt.header()} if call.receipt is not None else {}
        return {**headers, **receipt}


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _unlisted(refusal: routing.Refusal) -> Refused:
    return Refused(
        refusal.code, refusal.message, status=refusal.status, kind=ErrorKind(refusal.kind)
    )
