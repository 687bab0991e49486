"""The samples of Anthropic, Ollama and Bedrock: nothing planted in them leaves, and nothing else
is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from wire_fakes import FakeRedactor

from gateway import routing, wire
from gateway.coverage import anthropic, bedrock, ollama
from gateway.coverage.canaries import leaked
from gateway.coverage.matrix import ENCODINGS, Request, applies, clean, planted, positions
from gateway.coverage.sample import MARK, Sample
from gateway.redaction.job import ScanJob, ScanRefused, ScanResult
from gateway.redaction.policy_file import load_policy
from gateway.redaction.scanner import Scanner
from gateway.wire.schema import Reading
from gateway.wire.strictjson import dumps, loads

SAMPLES = [*anthropic.SAMPLES, *ollama.SAMPLES, *bedrock.SAMPLES]
WITH_BODY = [sample for sample in SAMPLES if sample.body is not None]

Scan = Callable[[Sample, Request], ScanResult]


def name_of(sample: Sample) -> str:
    return f"{sample.method} {sample.path}".replace(MARK, "x")


def route_of(sample: Sample, request: Request) -> routing.Route:
    path, _, query = request.path.partition("?")
    route = routing.match(sample.method, path, query, dict(sample.headers))
    assert isinstance(route, routing.Route), getattr(route, "message", "")
    return route


@pytest.fixture(scope="module")
def scan() -> Scan:
    scanner = Scanner(load_policy(None), b"k" * 32)

    def run(sample: Sample, request: Request) -> ScanResult:
        route = route_of(sample, request)
        return scanner.run(
            ScanJob(
                wire=route.wire,
                body=request.body,
                content_type=request.headers.get("content-type", ""),
                content_encoding=request.headers.get("content-encoding", ""),
                scope="role/coder",
                params=dict(route.params),
                extra=dict(sample.headers),
            )
        )

    return run


@pytest.mark.parametrize("sample", SAMPLES, ids=name_of)
def test_a_sample_goes_to_its_format_and_passes_unchanged(scan: Scan, sample: Sample) -> None:
    request = clean(sample)
    assert route_of(sample, request).wire == sample.wire
    out = scan(sample, request)
    assert out.counts == {}
    if request.expected is None:
        assert loads(out.body or b"{}") == loads(request.body or b"{}")
    else:
        assert out.body == dumps(request.expected)


@pytest.mark.parametrize("sample", WITH_BODY, ids=name_of)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_nothing_planted_in_a_sample_leaves(scan: Scan, sample: Sample, encoding: str) -> None:
    chosen = [
        position
        for position in positions(sample)
        if not position.place.startswith(("path", "query", "header"))
        and applies(position, encoding)
        # Quotes planted in a JSON text in base64 would break it, and it would be refused.
        and not (position.place.endswith("body base64") and encoding.startswith("json"))
    ]
    if not chosen:
        return
    request = planted(chosen, encoding)
    out = scan(sample, request)
    for number, values in request.planted.items():
        assert not leaked(values, out.body), positions(sample)[number].place


@pytest.mark.parametrize("sample", SAMPLES, ids=name_of)
def test_what_is_planted_in_a_request_line_is_refused(scan: Scan, sample: Sample) -> None:
    for position in positions(sample):
        if position.place.startswith(("path", "query")):
            with pytest.raises(ScanRefused):
                scan(sample, planted([position], "plain"))


def marked(node: Any) -> Any:
    """A sample with a canary for every mark, those in base64 left as they are."""
    if isinstance(node, str):
        return node.replace(MARK, "CANARY0001Z")
    if isinstance(node, list):
        return [marked(item) for item in node]
    if isinstance(node, dict):
        return {name.replace(MARK, "CANARY0002Z"): marked(value) for name, value in node.items()}
    return node


@pytest.mark.parametrize("sample", WITH_BODY, ids=name_of)
def test_every_mark_at_once_is_redacted_and_again_changes_nothing(sample: Sample) -> None:
    document = loads(sample.body) if isinstance(sample.body, bytes) else sample.body
    body = dumps(marked(document))
    format_ = wire.get(sample.wire)
    once = format_.redact_body(body, "", Reading(FakeRedactor()), {})
    assert b"CANARY" not in once.body
    assert format_.redact_body(once.body, "", Reading(FakeRedactor()), {}).body == once.body


@pytest.mark.parametrize("sample", WITH_BODY, ids=name_of)
def test_a_body_without_findings_comes_back_byte_for_byte(sample: Sample) -> None:
    class FindsNothing(FakeRedactor):
        def text(self, s: str) -> str:
            return s

    document = loads(sample.body) if isinstance(sample.body, bytes) else sample.body
    body = dumps(document)
    out = wire.get(sample.wire).redact_body(body, "", Reading(FindsNothing()), {})
    assert out.body == body
