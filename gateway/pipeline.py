"""The life of one call, top to bottom: `Pipeline._serve` is the whole story.

Invariants: what is forwarded is what the scanner wrote anew; no byte leaves before the intent
record is durable; every intent gets an outcome, whatever happens, including a client that goes
away; a stream that the provider did not finish never ends cleanly for the client. Decides order
only; each step lives in its own module. Called by `gateway.app` for every path that is not its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from aiohttp import web

from gateway import answering, routing, wire
from gateway.admission import (
    Admission,
    Refused,
    busy,
    check_content_type,
    check_expectation,
    check_origin,
    check_transfer,
    names_this_machine,
    unavailable,
    unreadable,
)
from gateway.audit import OFF_LOOP, RECEIPT_HEADER, Audit, AuditUnavailable, Outcome
from gateway.client_keys import admits
from gateway.credentials import Credential, credential_of, held_key
from gateway.evidence import Evidence, EvidenceUnavailable, Owner
from gateway.health import Readiness
from gateway.logs import say, where
from gateway.metrics import Metrics
from gateway.redaction.job import ScanJob, ScanRefused, ScanResult
from gateway.redaction.policy import ForeignTokens, Policy, ScopeRule
from gateway.redaction.scopes import Scope, scope_of, session_of
from gateway.redaction.stand_ins import shapes_of
from gateway.redaction.vault import Originals, Vault, VaultError
from gateway.redaction.vouching import digest, may_hold_signed
from gateway.redaction.workers import ScanPool, scan_and_keep
from gateway.settings import Settings
from gateway.stamps import NO_STAMP, Stamp, Stamps
from gateway.upstream import Answer, Upstream, UpstreamFailed, request_headers
from gateway.usage import UsageMeter
from gateway.wire.errors import NO_RETRY, ErrorKind, Family, error_body
from shared.ledger import LedgerError, Receipt

#: Headers that change what the provider does. One that holds a protected value refuses the call;
#: any other is left out, because clients send ids there that only look like such a value.
API_HEADERS: Final = ("anthropic-", "openai-beta", "x-amzn-bedrock-")
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NOBODY: Final = Scope("", "")
_OWNERLESS: Final = Owner()
#: Refusals without a record: there is no ledger to write it to, or too little room in it.
_UNRECORDED: Final = frozenset({"not_ready", "busy", "audit_unavailable"})
#: Scan failures that the same call may survive a moment later.
_PASSING: Final = frozenset({"scanner_unavailable", "scanner_busy"})


class _Ids:
    """Random names of calls, made of random bytes that are fetched for many calls at once: asking
    the system for each would let another thread in between."""

    def __init__(self) -> None:
        self._fetched: list[str] = []

    def next(self) -> str:
        """Return 24 hex digits."""
        if not self._fetched:
            digits = secrets.token_hex(_ID_BYTES * 64)
            size = 2 * _ID_BYTES
            self._fetched = [digits[at : at + size] for at in range(0, len(digits), size)]
        return self._fetched.pop()


_ID_BYTES: Final = 12
_ids: Final = _Ids()


@dataclass(slots=True)
class Call:
    """One request on its way, forwarded or refused; see `gateway.audit.Caller`."""

    found: routing.Route | routing.Refusal
    method: str
    id: str = field(default_factory=lambda: f"call_{_ids.next()}")
    began: float = field(default_factory=time.monotonic)
    #: Which tokens its values get, and whose they are.
    scope: Scope = _NOBODY
    #: Whose its payloads are, where they are kept.
    owner: Owner = _OWNERLESS
    credential: Credential | None = None
    #: Which session and task the role was on when the call came.
    stamp: Stamp = NO_STAMP
    receipt: Receipt | None = None
    #: Whether the client asked for a stream, and of which model.
    streams: bool = False
    model: str = ""
    #: Whether the client already has the beginning of an answer.
    answering: bool = False

    @property
    def role(self) -> str:
        """The role of the path, or an empty string."""
        return self.found.role

    @property
    def family(self) -> Family:
        """Whose error shape and provider this is."""
        return self.found.family

    @property
    def provider(self) -> str:
        """The provider's name; for a refused path, that of the family it looks like."""
        if isinstance(self.found, routing.Route):
            return self.found.provider
        return str(self.found.family)

    @property
    def wire(self) -> str:
        """Name of the wire format, or an empty string."""
        return self.found.wire if isinstance(self.found, routing.Route) else ""

    @property
    def path(self) -> str:
        """Path at the provider, without query and values; safe to record and label."""
        return self.found.shown if isinstance(self.found, routing.Route) else self.found.path

    @property
    def target(self) -> str:
        """Method and path."""
        return f"{self.method} {self.path}"

    @property
    def dur_us(self) -> int:
        """Microseconds since the call came."""
        return int((time.monotonic() - self.began) * 1_000_000)


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
        self._check_ready()
        self._check_host(request)
        self._check_provider(route)
        session = session_of(request.headers) if self._by_session else ""
        call.scope = scope_of(self._parts.policy, call.role, session)
        call.owner = self._parts.evidence.owner_of(call.role, call.stamp.run, request.headers)
        call.credential = credential_of(route.provider, request.headers, route.key)
        self._check_client_key(call, route)
        check_expectation(request.headers.get("expect", ""))
        check_transfer(request.headers.get("transfer-encoding", ""))
        content_type = request.headers.get("content-type", "")
        check_content_type(content_type, wire.get(route.wire).request_types)
        check_origin(request.headers.get("origin", ""), content_type)
        headers = request_headers(request.headers)
        async with self._parts.admission.body(request) as body:
            scan = await self._scan(call, route, request, headers, body)
        if scan.extra_hits:
            headers = {
                name: value for name, value in headers.items() if name not in scan.extra_hits
            }
        originals = await self._originals(call)
        call.receipt = await self._intend(call, scan)
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
            self._finish(call, outcome)

    # -- before anything leaves ------------------------------------------------------------------

    def _check_ready(self) -> None:
        if problem := self._audit.problem:
            raise unavailable(f"The gateway takes no calls: {problem}", "audit_unavailable")
        reasons = self._parts.readiness.reasons()
        if not reasons:
            return
        if lasting := self._parts.readiness.lasting():
            raise unavailable(f"The gateway takes no calls: {lasting[0]}", "not_ready")
        raise busy(f"The gateway takes no calls yet: {reasons[0]}", "not_ready")

    def _check_host(self, request: web.Request) -> None:
        """With a provider key of our own, a web page that points its name here could spend it."""
        if self._holds_keys and not names_this_machine(request.headers.get("host", "")):
            raise Refused(
                "host",
                "The gateway answers only under 127.0.0.1 or localhost while it holds the "
                "provider's key; correct the client's base URL.",
            )

    def _check_provider(self, route: routing.Route) -> None:
        if self._parts.settings.upstream_for(route.provider) is None:
            raise Refused(
                "provider_unset",
                f"The gateway knows no address of {route.provider}; set "
                f"{route.provider}_base_url in its settings.",
            )

    def _check_client_key(self, call: Call, route: routing.Route) -> None:
        """A provider key that the gateway holds is spent only for who shows a key of its own."""
        settings = self._parts.settings
        if not settings.require_client_key or settings.key_for(route.provider) is None:
            return
        shown = call.credential.value if call.credential is not None else ""
        keys = self._parts.stamps.keys_of(call.role)
        if not admits(shown, self._parts.client_keys, keys):
            raise Refused(
                "client_key",
                "The gateway holds the provider's key and takes calls only with a key of its own: "
                "the one its deck gives this role, or one of client_keys_file.",
                status=401,
                kind=ErrorKind.UNAUTHENTICATED,
            )

    async def _scan(
        self,
        call: Call,
        route: routing.Route,
        request: web.Request,
        headers: dict[str, str],
        body: bytes,
    ) -> ScanResult:
        foreign = unreadable(headers)
        self._check_headers(foreign)
        encoding = ",".join(request.headers.getall("content-encoding", []))
        try:
            vouched = await self._parts.vault.vouched(call.scope.owner)
            if vouched and not may_hold_signed(body, encoding):
                vouched = []
            job = ScanJob(
                wire=call.wire,
                body=body,
                content_encoding=encoding,
                content_type=request.headers.get("content-type", ""),
                scope=call.scope.tokens,
                owner=call.scope.owner,
                params=dict(route.params),
                extra={n: v for n, v in headers.items() if n not in foreign}
                if foreign
                else headers,
                vouched=vouched,
            )
            scan = await scan_and_keep(self._parts.pool, self._parts.vault, job)
        except ScanRefused as refused:
            if refused.code in _PASSING:
                raise busy(refused.sentence, refused.code) from refused
            raise Refused(refused.code, refused.sentence) from refused
        except VaultError as wrong:
            raise unavailable(str(wrong), "vault") from wrong
        self._check_headers(scan.extra_hits)
        scan.extra_hits.update(foreign)
        self._metrics.redactions(scan.counts)
        self._check_foreign(scan.foreign)
        return scan

    def _check_foreign(self, number: int) -> None:
        """Tokens that their sender never introduced may be a try at other people's values."""
        self._metrics.foreign_tokens(number, "request")
        if number and self._parts.policy.foreign_tokens is ForeignTokens.REFUSE:
            raise Refused(
                "foreign_tokens",
                f"The request holds {number} token(s) that stand for nothing this role sent "
                "through this gateway, which the policy refuses; remove them.",
            )

    def _check_headers(self, withheld: set[str]) -> None:
        if not withheld:
            return
        needed = [name for name in sorted(withheld) if name.startswith(API_HEADERS)]
        if needed:
            raise Refused(
                "header_value",
                f"The request header {needed[0]} holds a value that the policy protects, or that "
                "is not plain text, and a header cannot be rewritten; remove it from the header.",
            )

    async def _originals(self, call: Call) -> Originals:
        try:
            return await self._parts.vault.load(call.scope.owner)
        except VaultError as wrong:
            raise unavailable(str(wrong), "vault") from wrong

    async def _intend(self, call: Call, scan: ScanResult) -> Receipt:
        """Record the intent. A client that leaves meanwhile leaves a finished pair of records."""
        try:
            recording = self._recording(call, scan)
            return await asyncio.shield(recording)
        except (AuditUnavailable, LedgerError) as wrong:
            if isinstance(wrong, LedgerError):
                self._metrics.append_failure()
            raise unavailable(str(wrong), "audit_unavailable") from wrong
        except EvidenceUnavailable as wrong:
            refuse = busy if wrong.passing else unavailable
            raise refuse(str(wrong), "evidence_unavailable") from wrong
        except asyncio.CancelledError:
            with contextlib.suppress(AuditUnavailable, EvidenceUnavailable, LedgerError):
                call.receipt = await recording
                self._finish(call, Outcome(status="client_abort"))
            raise

    def _recording(self, call: Call, scan: ScanResult) -> asyncio.Future[Receipt]:
        """Begin to record the intent; a task of its own only where there is more to wait for."""
        if self._parts.evidence.is_on or len(scan.body) > OFF_LOOP:
            return asyncio.ensure_future(self._keep_and_record(call, scan))
        return self._audit.intent_soon(call, scan)

    async def _keep_and_record(self, call: Call, scan: ScanResult) -> Receipt:
        """The payload is durable before the record that names it."""
        found = sum(scan.counts.values())
        kept = await self._parts.evidence.request(
            call.id, call.owner, scan.body, scan.content_type, found
        )
        return await self._audit.intent(call, scan, kept)

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

    def _finish(self, call: Call, outcome: Outcome) -> None:
        assert call.receipt is not None
        record = partial(self._audit.outcome, call, call.receipt, outcome, call.dur_us)
        self._parts.evidence.answer(call.id, call.owner, outcome.collector, outcome.media, record)
        # Bedrock's answers name no model; that of the path was read before anything left.
        model = outcome.model or (call.model if call.provider == "bedrock" else "")
        if outcome.usage is not None and model:
            self._parts.usage.add(call.role, model, outcome.usage)
        if outcome.restored:
            self._metrics.restored(outcome.restored)
        self._metrics.foreign_tokens(outcome.foreign, "response")

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
