"""What the ledger is told about a call: intent, outcome, refusal; and about the gateway itself.

Owns the content of the records (contracts/ledger.md sections 2.1 and 2.6). Invariants: no text of
a call and no plain hash of it is ever in a record, only keyed commitments; client-chosen strings
appear only where they were scanned; `intent` returns only once its record is durable; a text that
a record names by digest is durable before the record. Called by `gateway.pipeline`,
`gateway.bookkeeping`, `gateway.app` and `gateway.control`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from gateway.credentials import Credential
from gateway.evidence import NOTHING, Collector, KeptNow
from gateway.metrics import Metrics
from gateway.redaction.job import ScanResult
from gateway.redaction.policy import Policy
from gateway.stamps import Change, Stamp
from gateway.usage import TokenCounts
from shared import __version__
from shared.ledger import Ledger, LedgerError, LogState, Receipt
from shared.ledger.commitment import commit
from shared.ledger.texts import keep_text

#: Longest model name recorded; the longest real ids have 60 characters.
MAX_MODEL: Final = 128
#: Bytes above which a commitment is made in a thread: SHA-256 does about 1 GB/s, so the loop is
#: never held for more than a millisecond (contracts/ledger.md section 4).
OFF_LOOP: Final = 1 << 20
#: Characters of a sentence that a record holds.
MAX_REASON: Final = 500
RECEIPT_HEADER: Final = "X-Audit-Receipt"

#: A stamp that only brings a role's key is told apart.
_STAMP: Final = {Change.KEY: "role-key"}


class AuditUnavailable(Exception):
    """The ledger did not take a record; the sentence says what to do."""


class Caller(Protocol):
    """Who calls and what: the facts known before a body is read."""

    @property
    def id(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def wire(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def credential(self) -> Credential | None: ...
    @property
    def stamp(self) -> Stamp: ...


@dataclass(slots=True)
class Outcome:
    """How a call ended; filled in while it is served, recorded once.

    status: `ok`, `provider_error`, `client_abort`, `cut`, `upstream_error`, `stopped` or `failed`;
    http: the status the client saw; usage in tokens; `restored` and `foreign` count the tokens put
    back and those of others; `digest` runs over the provider's body.
    """

    status: str = "failed"
    http: int = 0
    cause: str = ""
    stop: str | None = None
    model: str | None = None
    usage: TokenCounts | None = None
    restored: int = 0
    foreign: int = 0
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    #: What keeps the provider's body, if the policy wants it kept, and of which media type it is.
    collector: Collector | None = None
    media: str = ""

    def saw(self, data: bytes) -> None:
        """Take in the next piece of the provider's body."""
        self.size += len(data)
        self.digest.update(data)
        if self.collector is not None:
            self.collector.add(data)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a start is recorded with: `settings_text` is kept whole under its digest, `settings` is
    in the record itself; `detectors` and `models` say which rules and language models find values.
    """

    settings_text: bytes
    settings: Mapping[str, Any]
    detectors: Mapping[str, str]
    models: Sequence[Mapping[str, str]] = ()


class Audit:
    """Writes this gateway's records."""

    def __init__(self, ledger: Ledger, policy: Policy, key: bytes, metrics: Metrics) -> None:
        self._ledger = ledger
        self._policy = policy
        self._key = key
        self._metrics = metrics

    @property
    def problem(self) -> str | None:
        """Why no call can be recorded now, as a sentence, or None. From memory."""
        return problem_of(self._ledger)

    async def intent(self, call: Caller, scan: ScanResult, kept: KeptNow = NOTHING) -> Receipt:
        """Record what is about to be sent, and what was kept of it, durably. Raises
        AuditUnavailable."""
        commitment = await self._commit(scan.body)
        return await self._durable("request", self._intent(call, scan, commitment, kept))

    def intent_soon(self, call: Caller, scan: ScanResult) -> asyncio.Future[Receipt]:
        """The same for a body of at most `OFF_LOOP` bytes of which nothing was kept, as a future
        of the running loop. Raises at once, and the future, LedgerError."""
        fields = self._intent(call, scan, commit(self._key, scan.body), NOTHING)
        return self._ledger.append_soon("request", fields)

    def _intent(
        self, call: Caller, scan: ScanResult, commitment: str, kept: KeptNow
    ) -> dict[str, Any]:
        fields = self._who(call)
        fields["policy"] = self._policy_fields("allow")
        fields["action"]["args_c"] = commitment
        fields["model"] = {"provider": call.provider, "name": scan.model[:MAX_MODEL]}
        fields["ext"] = {
            "bytes": len(scan.body),
            "stream": scan.stream,
            "redactions": dict(scan.counts),
            "opaque": dict(scan.opaque),
            "scan_us": scan.scan_us,
        }
        if scan.foreign:
            fields["ext"]["foreign_tokens"] = scan.foreign
        if scan.extra_hits:
            fields["ext"]["headers_left_out"] = sorted(scan.extra_hits)
        if call.stamp.doubt:
            fields["ext"]["stamp"] = call.stamp.doubt
        if kept is not NOTHING:
            fields |= kept.fields()
            fields["ext"] |= kept.ext()
        return fields

    async def deny(self, call: Caller, code: str, http: int) -> Receipt:
        """Record a refusal, durably. Raises AuditUnavailable."""
        fields = self._who(call)
        fields["policy"] = self._policy_fields("deny", [code])
        fields["outcome"] = {"status": "refused", "http": http}
        return await self._durable("deny", fields)

    def outcome(
        self,
        call: Caller,
        receipt: Receipt,
        outcome: Outcome,
        dur_us: int,
        kept: KeptNow = NOTHING,
    ) -> None:
        """Record how a call ended; returns at once, the record follows within a commit."""
        fields: dict[str, Any] = {
            "id": call.id,
            "ref": receipt.seq,
            "outcome": _outcome_fields(outcome, dur_us, commit(self._key, outcome.digest.digest())),
            "ext": {"bytes": outcome.size, "restored": outcome.restored, **kept.ext()},
            "actor": {"role": call.role},
            **kept.fields(),
            **_joins(call.stamp),
        }
        if outcome.foreign:
            fields["ext"]["foreign_tokens"] = outcome.foreign
        if outcome.model:
            fields["model"] = {"provider": call.provider, "name": outcome.model[:MAX_MODEL]}
        self._later("outcome", fields)

    async def started(self, setup: Setup) -> None:
        """Record the start, the settings and the policy in force, by the digests of their texts,
        which are kept first. Raises AuditUnavailable."""
        config = await self._keep(setup.settings_text)
        policy_text = await self._keep(self._policy.deciding)
        # Pressing: a gateway whose disk is low starts and is not ready, so that it can be asked to
        # make room.
        program = {"program": "sphragis", "version": __version__}
        await self._durable("start", {"ext": program}, pressing=True)
        settings = {"digest": config, "settings": dict(setup.settings)}
        await self._durable("config_set", {"ext": settings}, pressing=True)
        policy = self._policy_fields("set")
        policy["engine"] = "sphragis"
        policy["digest"] = policy_text
        extra: dict[str, Any] = {"detectors": dict(setup.detectors)}
        if setup.models:
            extra["models"] = [dict(model) for model in setup.models]
        await self._durable("policy_set", {"policy": policy, "ext": extra}, pressing=True)

    async def stopped(self, reason: str) -> None:
        """Record an orderly stop. Raises AuditUnavailable."""
        await self._durable("stop", {"ext": {"reason": reason}})

    # -- the control socket ----------------------------------------------------------------------

    async def stamped(
        self, by: Mapping[str, Any], session: str, role: str, task: str, change: Change
    ) -> None:
        """Record that a role works on another task, or on none, durably. Raises
        AuditUnavailable."""
        kind = {Change.TASK: "delegate", Change.CLEARED: "revoke"}.get(change, "journal")
        await self._durable(
            kind,
            {
                **_joins(Stamp(session, task)),
                "actor": {"agent": by["program"]},
                "action": {"kind": "control", "name": _STAMP.get(change, "stamp"), "target": role},
                "ext": {"by": dict(by)},
            },
        )

    async def operation(self, by: Mapping[str, Any], name: str) -> Receipt:
        """Record that an operator asks for something, durably; while the disk is low too, because
        it may be what makes room. Raises AuditUnavailable."""
        return await self._durable("journal", _control(by, name, {"step": "asked"}), pressing=True)

    async def operated(self, by: Mapping[str, Any], name: str, asked: Receipt, wrong: str) -> None:
        """Record how that ended, durably; `wrong` is empty when it was done. Raises
        AuditUnavailable."""
        fields = _control(by, name, {"step": "done" if not wrong else "failed"})
        fields["ref"] = asked.seq
        if wrong:
            fields["ext"]["reason"] = wrong[:MAX_REASON]
        await self._durable("journal", fields, pressing=True)

    async def refused(self, by: Mapping[str, Any], name: str, code: str) -> None:
        """Record an attempt on the control socket that was refused. Raises AuditUnavailable."""
        fields = _control(by, name, {"code": code})
        fields["outcome"] = {"status": "refused", "http": 403}
        await self._durable("deny", fields)

    # -- how it is written -----------------------------------------------------------------------

    async def _keep(self, text: bytes) -> str:
        try:
            return await asyncio.to_thread(keep_text, self._ledger.directory, text)
        except LedgerError as wrong:
            raise AuditUnavailable(str(wrong)) from wrong

    async def _commit(self, data: bytes) -> str:
        if len(data) > OFF_LOOP:
            return await asyncio.to_thread(commit, self._key, data)
        return commit(self._key, data)

    async def _durable(
        self, kind: str, fields: Mapping[str, Any], *, pressing: bool = False
    ) -> Receipt:
        try:
            return await self._ledger.append_async(kind, fields, pressing=pressing)
        except LedgerError as wrong:
            self._metrics.append_failure()
            raise AuditUnavailable(str(wrong)) from wrong

    def _later(self, kind: str, fields: Mapping[str, Any]) -> None:
        try:
            self._ledger.append(kind, fields).add_done_callback(self._check)
        except LedgerError:
            self._metrics.append_failure()

    def _check(self, done: Future[Receipt]) -> None:
        if done.cancelled() or done.exception() is not None:
            self._metrics.append_failure()

    def _who(self, call: Caller) -> dict[str, Any]:
        actor: dict[str, Any] = {"role": call.role}
        if call.credential is not None:
            actor["key"] = commit(self._key, call.credential.value.encode())[:16]
        action = {"kind": "model_call", "name": call.wire, "target": call.target}
        return {"id": call.id, "actor": actor, "action": action, **_joins(call.stamp)}

    def _policy_fields(self, decision: str, rules: list[str] | None = None) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "id": self._policy.id,
            "version": self._policy.version,
            "digest": self._policy.digest,
            "decision": decision,
        }
        if rules:
            fields["rules"] = rules
        return fields


def problem_of(ledger: Ledger) -> str | None:
    """Return why a ledger takes no calls, as a sentence, or None."""
    if ledger.state is LogState.OPEN:
        return None
    return ledger.failure or "The ledger is closed."


def _joins(stamp: Stamp) -> dict[str, str]:
    """Return what the records of a deck and of a gateway are joined by, as far as it is known."""
    known = {"run": stamp.run, "task": stamp.task}
    return {name: value for name, value in known.items() if value}


def _control(by: Mapping[str, Any], name: str, ext: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "actor": {"agent": by["program"]},
        "action": {"kind": "control", "name": name},
        "ext": {"by": dict(by), **ext},
    }


def _outcome_fields(outcome: Outcome, dur_us: int, answer_c: str) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "status": outcome.status,
        "http": outcome.http,
        "dur_us": dur_us,
        "answer_c": answer_c,
    }
    if outcome.cause:
        fields["cause"] = outcome.cause
    if outcome.stop:
        fields["stop"] = outcome.stop[:MAX_MODEL]
    if outcome.usage is not None:
        fields["usage"] = {
            "input": outcome.usage.input,
            "output": outcome.usage.output,
            "cache_creation": outcome.usage.cache_creation,
            "cache_read": outcome.usage.cache_read,
        }
    return fields
