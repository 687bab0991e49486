"""The scan of a call: what of it was found, and whether it may go on as it is.

Owns what is given to the scanning workers and what becomes of their answer. Invariants: a header
that holds a protected value, or that nobody reads alike, is left out or refuses the call; a text
that was handed out signed is known again; what the policy refuses goes no further, and what a
worker cannot do now is told from what it will never do. Called by `gateway.pipeline`.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from gateway import routing
from gateway.admission import Refused, busy, unavailable, unreadable
from gateway.call import Call
from gateway.metrics import Metrics
from gateway.redaction.job import ScanJob, ScanRefused, ScanResult
from gateway.redaction.policy import ForeignTokens, Policy
from gateway.redaction.vault import Vault, VaultError
from gateway.redaction.vouching import may_hold_signed
from gateway.redaction.workers import ScanPool, scan_and_keep

#: Headers that change what the provider does. One that holds a protected value refuses the call;
#: any other is left out, because clients send ids there that only look like such a value.
API_HEADERS: Final = ("anthropic-", "openai-beta", "x-amzn-bedrock-")
#: Scan failures that the same call may survive a moment later.
_PASSING: Final = frozenset({"scanner_unavailable", "scanner_busy"})


class Scanning:
    """Scans calls under one policy, and keeps what they introduce."""

    def __init__(self, policy: Policy, pool: ScanPool, vault: Vault, metrics: Metrics) -> None:
        self._policy = policy
        self._pool = pool
        self._vault = vault
        self._metrics = metrics

    async def scan(
        self,
        call: Call,
        route: routing.Route,
        headers: dict[str, str],
        body: bytes,
        *,
        encoding: str,
        media: str,
    ) -> ScanResult:
        """Return what `body` and the values of `headers` were rewritten to, with the headers that
        must not go on in `extra_hits`. `encoding` and `media` are what the client says of the
        body. Raises Refused."""
        foreign = unreadable(headers)
        _check_headers(foreign)
        readable = {n: v for n, v in headers.items() if n not in foreign} if foreign else headers
        try:
            vouched = await self._vault.vouched(call.scope.owner)
            if vouched and not may_hold_signed(body, encoding):
                vouched = []
            job = ScanJob(
                wire=call.wire,
                body=body,
                content_encoding=encoding,
                content_type=media,
                scope=call.scope.tokens,
                owner=call.scope.owner,
                params=dict(route.params),
                extra=readable,
                vouched=vouched,
            )
            scan = await scan_and_keep(self._pool, self._vault, job)
        except ScanRefused as refused:
            if refused.code in _PASSING:
                raise busy(refused.sentence, refused.code) from refused
            raise Refused(refused.code, refused.sentence) from refused
        except VaultError as wrong:
            raise unavailable(str(wrong), "vault") from wrong
        _check_headers(scan.extra_hits)
        scan.extra_hits.update(foreign)
        self._metrics.redactions(scan.counts)
        self._check_foreign(scan.foreign)
        return scan

    def _check_foreign(self, number: int) -> None:
        """Tokens that their sender never introduced may be a try at other people's values."""
        self._metrics.foreign_tokens(number, "request")
        if number and self._policy.foreign_tokens is ForeignTokens.REFUSE:
            raise Refused(
                "foreign_tokens",
                f"The request holds {number} token(s) that stand for nothing this role sent "
                "through this gateway, which the policy refuses; remove them.",
            )


def _check_headers(withheld: Set[str]) -> None:
    """Refuse a call of which a header that the provider needs cannot go on."""
    if not withheld:
        return
    needed = sorted(name for name in withheld if name.startswith(API_HEADERS))
    if needed:
        raise Refused(
            "header_value",
            f"The request header {needed[0]} holds a value that the policy protects, or that "
            "is not plain text, and a header cannot be rewritten; remove it from the header.",
        )
