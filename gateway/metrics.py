"""The figures a scrape reads: counters of calls, refusals, redactions and time.

Invariants: `render` answers from memory and begins with the usage family, whose text is a wire
contract (`shared.telemetry`); every label value comes from a closed or capped set, so that no
client can grow the scrape; no label holds text of a call. The registry is private, so a process
may hold several gateways (tests do). Written by the pipeline, read by `gateway.health`.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.registry import Collector

from gateway.usage import UsageMeter

#: Bucket bounds in seconds, those of existing gateways (contracts/gateway.md section 1).
BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
#: Path labels of existing gateways; everything else is `other`.
PATHS: Final = (
    "/v1/messages/count_tokens",
    "/v1/messages/batches",
    "/v1/messages",
    "/v1/complete",
    "/v1/chat/completions",
    "/v1/responses",
)
#: Kinds and reasons come from policy files and code; a cap keeps a mistake there small.
MAX_LABELS: Final = 100
OTHER: Final = "other"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_Metric = TypeVar("_Metric", Counter, Histogram)

# A `_created` series per counter doubles the scrape and no reader of ours wants it.
disable_created_metrics()  # type: ignore[no-untyped-call]


def path_label(path: str) -> str:
    """Return the `path` label of an upstream path."""
    bare = path.partition("?")[0]
    return bare if bare in PATHS else OTHER


class Metrics:
    """All counters of one gateway."""

    def __init__(self, usage: UsageMeter) -> None:
        self._usage = usage
        self._registry = CollectorRegistry()
        registry = self._registry
        self._requests = Counter(
            "sphragis_requests",
            "Calls forwarded to a provider.",
            ["path", "upstream"],
            registry=registry,
        )
        self._responses = Counter(
            "sphragis_responses",
            "Answers to clients, by class of status.",
            ["path", "code"],
            registry=registry,
        )
        self._redactions = Counter(
            "sphragis_redactions",
            "Values replaced, by kind.",
            ["kind", "direction"],
            registry=registry,
        )
        self._refused = Counter(
            "sphragis_refused",
            "Calls refused by the gateway, by reason.",
            ["reason"],
            registry=registry,
        )
        self._append_failures = Counter(
            "sphragis_audit_append_failures",
            "Records the ledger could not take.",
            registry=registry,
        )
        self._evidence_lost = Counter(
            "sphragis_evidence_failures",
            "Payloads that the policy wants kept and that could not be.",
            registry=registry,
        )
        self._upstream_errors = Counter(
            "sphragis_upstream_errors",
            "Calls that the provider did not answer or broke off.",
            registry=registry,
        )
        self._duration = Histogram(
            "sphragis_upstream_request_duration_seconds",
            "Seconds from forwarding to the provider's answer headers.",
            ["path"],
            buckets=BUCKETS,
            registry=registry,
        )
        self._in_flight = Gauge(
            "sphragis_calls_in_flight", "Calls being served now.", registry=registry
        )
        self._restored = Counter(
            "sphragis_restored", "Tokens put back into answers.", registry=registry
        )
        self._foreign = Counter(
            "sphragis_foreign_tokens",
            "Tokens met that stand for nothing their reader or sender introduced.",
            ["direction"],
            registry=registry,
        )
        self._children: dict[tuple[str, ...], Counter | Histogram] = {}
        self._kinds: set[str] = set()
        self._reasons: set[str] = set()
        # What the console shows; the same events, without walking the registry.
        self.calls = 0
        self.refused = 0
        self.redacted: Tally[str] = Tally()

    def request(self, path: str, upstream: str) -> None:
        """Count one call on its way to `upstream`."""
        self.calls += 1
        self._child(self._requests, path_label(path), upstream).inc()

    def response(self, path: str, status: int) -> None:
        """Count one answer to a client."""
        self._child(self._responses, path_label(path), f"{status // 100}xx").inc()

    def redactions(self, counts: Mapping[str, int], direction: str = "request") -> None:
        """Count replaced values; `direction` is `request` or `response`."""
        for kind, number in counts.items():
            label = _capped(kind, self._kinds)
            self.redacted[label] += number
            self._child(self._redactions, label, direction).inc(number)

    def refusal(self, reason: str) -> None:
        """Count one refused call."""
        self.refused += 1
        self._refused.labels(_capped(reason, self._reasons)).inc()

    def append_failure(self) -> None:
        """Count a record the ledger did not take."""
        self._append_failures.inc()

    def evidence_failure(self) -> None:
        """Count a payload that could not be kept as evidence."""
        self._evidence_lost.inc()

    def upstream_error(self) -> None:
        """Count a call the provider failed."""
        self._upstream_errors.inc()

    def upstream_time(self, path: str, seconds: float) -> None:
        """Note the seconds to a provider's answer headers."""
        self._child(self._duration, path_label(path)).observe(seconds)

    def restored(self, number: int) -> None:
        """Count tokens put back into an answer."""
        self._restored.inc(number)

    def foreign_tokens(self, number: int, direction: str) -> None:
        """Count tokens of others; `direction` is `request` or `response`."""
        if number:
            self._foreign.labels(direction).inc(number)

    def watch_calls(self, number: Callable[[], int]) -> None:
        """Ask `number` how many calls are being served whenever somebody wants to know."""
        self._in_flight.set_function(number)

    def _child(self, metric: _Metric, *labels: str) -> _Metric:
        """Return the series of `labels`; looking it up in the metric takes checks and a lock."""
        key = (metric._name, *labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = metric.labels(*labels)
        return child  # type: ignore[return-value]

    def watch(self, collector: Collector) -> None:
        """Let `render` ask `collector` as well."""
        self._registry.register(collector)

    def render(self) -> bytes:
        """Return the whole scrape, usage family first."""
        return self._usage.render().encode("ascii") + generate_latest(self._registry)


def _capped(value: str, known: set[str]) -> str:
    if value in known:
        return value
    if len(known) >= MAX_LABELS:
        return OTHER
    known.add(value)
    return value
