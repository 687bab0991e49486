"""One scanning worker's work: a job in, a redacted body out.

Pure but for the time it takes: decompress, decode strictly, let the wire module walk the document,
write it anew. Invariant: every way out is a `ScanResult` whose body came from the scanned
structure, or `ScanRefused`. Runs in the worker processes (`worker`); tests call it directly.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable
from typing import Any, Final

from gateway.redaction.encoding import decode_body
from gateway.redaction.job import ScanJob, ScanRefused, ScanResult
from gateway.redaction.policy import Action, Policy
from gateway.redaction.redactor import HASH, Finder, PolicyRefused, Redactor, SpanCache
from gateway.redaction.tokens import Tokenizer, TokensExhausted
from gateway.redaction.vouching import vouched_by
from gateway.wire.prefixes import Prefixes
from gateway.wire.schema import Reading
from gateway.wire.walk import Scanner as TextScanner

WIRE_PACKAGE: Final = "gateway.wire"
#: The request every worker is tried with, the value in it, and the score rules give such a value.
_TRIAL_WIRE: Final = "anthropic.messages"
_TRIAL_VALUE: Final = "trial.request@warm-up.example"
_TRIAL_SCORE: Final = 0.9


class TrialFailed(Exception):
    """The scanner does not do its work; the text says what became of its first request."""


class Scanner:
    """Holds what outlives a job: detectors, key, and the cache of positions."""

    def __init__(
        self,
        policy: Policy,
        key: bytes,
        *,
        finder: Finder | None = None,
        wire_package: str = WIRE_PACKAGE,
    ) -> None:
        self._policy = policy
        self._key = key
        self._cache = SpanCache()
        self._prefixes = Prefixes(HASH)
        self._wire: Any = importlib.import_module(wire_package)
        self._rules = "given"
        if finder is None:
            from gateway.redaction.detectors.engine import Detector

            finder = detector = Detector(policy)
            self._rules = detector.version
        self._finder = finder

    def warm(self) -> None:
        """Run every rule once, so that the first call does not pay for tables read on first use,
        and one whole request: a worker that takes calls has shown that it protects them.

        Raises TrialFailed.
        """
        self._finder.find(
            "mail a.b@c.example, tel +44 20 7946 0958 or 020 7946 0958, 4242 4242 4242 4242, "
            "GB82WEST12345698765432, 8.8.8.8, password = 'x1y2z3', 078-05-1120\n"
            "I met Maria Lopez yesterday. Anna, 0698765432; 601 123 456; DE136695976, 2 Mill Road\n"
            "id number 44051401458, dob 1980-01-02, VAT 136695976"
        )
        self._try_request()

    def _try_request(self) -> None:
        """Scan one request with an e-mail address in it, and look for the address."""
        message = {"role": "user", "content": f"Write to {_TRIAL_VALUE} about it."}
        document = {"model": "claude-trial-1", "max_tokens": 1, "messages": [message]}
        job = ScanJob(_TRIAL_WIRE, json.dumps(document).encode(), content_type="application/json")
        action = self._policy.rule("EMAIL").action
        try:
            result = self.run(job)
        except ScanRefused as refused:
            if refused.code == "policy_refused" and action is Action.REFUSE:
                return
            raise TrialFailed(f"its first request failed. {refused.sentence}") from None
        if self._policy.overlooks("EMAIL", _TRIAL_SCORE, _TRIAL_VALUE):
            return
        if _TRIAL_VALUE.encode() in result.body:
            raise TrialFailed("its first request would have been forwarded with a value in it.")
        if action is Action.TOKEN and not any(t.encode() in result.body for t in result.marks):
            raise TrialFailed("its first request would have been forwarded without its token.")

    def run(self, job: ScanJob) -> ScanResult:
        """Scan one call. Raises ScanRefused for everything that must not be forwarded."""
        started = time.perf_counter_ns()
        try:
            return self._run(job, started)
        except ScanRefused:
            raise
        except PolicyRefused as refused:
            raise ScanRefused("policy_refused", str(refused)) from None
        except TokensExhausted as exhausted:
            raise ScanRefused("tokens_exhausted", str(exhausted)) from None
        except RecursionError:
            raise ScanRefused(
                "too_deep", "The body is nested too deeply to be scanned; send a flatter document."
            ) from None
        except MemoryError:
            raise ScanRefused(
                "body_too_large", "The body is too large to be scanned here; send less at once."
            ) from None
        except Exception as error:
            code, sentence = getattr(error, "code", None), getattr(error, "sentence", None)
            if isinstance(code, str) and isinstance(sentence, str):
                raise ScanRefused(code, sentence) from None
            # The text of an unforeseen error may quote the call; its type cannot.
            raise ScanRefused(
                "scanner_failed",
                f"The call could not be scanned ({type(error).__name__}) and was not forwarded; "
                "report this with the request's format.",
            ) from None

    def _run(self, job: ScanJob, started: int) -> ScanResult:
        wire = self._wire.get(job.wire)
        body = decode_body(job.body, job.content_encoding)
        tokenizer = Tokenizer(self._key, job.scope, job.taken)
        redactor = self._redactor(tokenizer, job.scope)
        for name, value in job.params.items():
            if TextScanner(self._redactor(tokenizer, job.scope)).string(value) != value:
                raise ScanRefused(
                    "request_line",
                    f"The {name} in the request line holds a value that the policy protects, and a "
                    "request line cannot be rewritten; use another one.",
                )
        reading = Reading(
            redactor,
            vouched=vouched_by(self._key, job.whose, job.vouched),
            prefixes=self._prefixes,
        )
        redacted = wire.redact_body(body, job.content_type, reading, job.params)
        hits = self._hits(redactor, tokenizer, job)
        return ScanResult(
            body=redacted.body,
            content_type=redacted.media_type,
            counts=dict(redactor.counts),
            originals=redactor.originals,
            model=redacted.model,
            stream=redacted.stream,
            extra_hits=hits,
            opaque=dict(redactor.opaque_parts),
            marks=redactor.marks,
            kinds=redactor.kinds,
            met=redactor.met,
            scan_us=(time.perf_counter_ns() - started) // 1000,
        )

    def _redactor(self, tokenizer: Tokenizer, scope: str) -> Redactor:
        return Redactor(
            self._finder,
            tokenizer,
            self._policy,
            scope=scope,
            rules=self._rules,
            cache=self._cache,
        )

    def _hits(self, redactor: Redactor, tokenizer: Tokenizer, job: ScanJob) -> set[str]:
        """Return the names under which something is found. A client sends the same headers with
        every call, so that all of them are remembered as one, and each by itself."""
        pairs = [f"{len(name)} {name}{len(value)} {value}" for name, value in job.extra.items()]
        mark = redactor.mark("headers", "".join(pairs))
        if redactor.is_clean(mark):
            return set()
        beside = self._redactor(tokenizer, job.scope)
        read = TextScanner(beside).string
        hits = {name for name, value in job.extra.items() if not _is_clean(beside, value, read)}
        if not hits and not beside.touched:
            redactor.remember_clean(mark)
        return hits


def _is_clean(redactor: Redactor, value: str, read: Callable[[str], str]) -> bool:
    """Whether nothing is found in a header's value; clients send the same ones with every call."""
    mark = redactor.mark("header", value)
    if redactor.is_clean(mark):
        return True
    before = redactor.touched
    clean = read(value) == value
    if clean and redactor.touched == before:
        redactor.remember_clean(mark)
    return clean
