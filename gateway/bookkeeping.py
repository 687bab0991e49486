"""The two records of a call that goes out, and what is counted of it.

Owns the order of what is kept and recorded. Invariants: the intent is durable before anything is
sent, and the payload before the record that names it; every intent gets one outcome, also where the
client left while it was recorded; what cannot be recorded is refused. What the records say is
`gateway.audit`'s. Called by `gateway.pipeline`.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from gateway.admission import busy, unavailable
from gateway.audit import OFF_LOOP, Audit, AuditUnavailable, Outcome
from gateway.call import Call
from gateway.evidence import Evidence, EvidenceUnavailable
from gateway.metrics import Metrics
from gateway.redaction.job import ScanResult
from gateway.usage import UsageMeter
from shared.ledger import LedgerError, Receipt


class Bookkeeping:
    """Records calls in one ledger, and what is kept of them beside it."""

    def __init__(
        self, audit: Audit, evidence: Evidence, metrics: Metrics, usage: UsageMeter
    ) -> None:
        self._audit = audit
        self._evidence = evidence
        self._metrics = metrics
        self._usage = usage

    async def intend(self, call: Call, scan: ScanResult) -> Receipt:
        """Record the intent. A client that leaves meanwhile leaves a finished pair of records.
        Raises Refused."""
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
                self.finish(call, Outcome(status="client_abort"))
            raise

    def _recording(self, call: Call, scan: ScanResult) -> asyncio.Future[Receipt]:
        """Begin to record the intent; a task of its own only where there is more to wait for."""
        if self._evidence.is_on or len(scan.body) > OFF_LOOP:
            return asyncio.ensure_future(self._keep_and_record(call, scan))
        return self._audit.intent_soon(call, scan)

    async def _keep_and_record(self, call: Call, scan: ScanResult) -> Receipt:
        """The payload is durable before the record that names it."""
        found = sum(scan.counts.values())
        kept = await self._evidence.request(
            call.id, call.owner, scan.body, scan.content_type, found
        )
        return await self._audit.intent(call, scan, kept)

    def finish(self, call: Call, outcome: Outcome) -> None:
        """Record how a call ended; returns at once. `call.receipt` is that of its intent."""
        assert call.receipt is not None
        record = partial(self._audit.outcome, call, call.receipt, outcome, call.dur_us)
        self._evidence.answer(call.id, call.owner, outcome.collector, outcome.media, record)
        # Bedrock's answers name no model; that of the path was read before anything left.
        model = outcome.model or (call.model if call.provider == "bedrock" else "")
        if outcome.usage is not None and model:
            self._usage.add(call.role, model, outcome.usage)
        if outcome.restored:
            self._metrics.restored(outcome.restored)
        self._metrics.foreign_tokens(outcome.foreign, "response")
