"""The gateway's small parts, without sockets: admission, headers, usage, metrics, readiness."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway import pidfile
from gateway.admission import (
    Admission,
    Refused,
    check_content_type,
    names_this_machine,
)
from gateway.credentials import credential_of
from gateway.health import Readiness
from gateway.logs import where
from gateway.metrics import MAX_LABELS, Metrics, path_label
from gateway.upstream import request_headers, response_headers
from gateway.usage import MAX_SERIES, UsageMeter
from shared.telemetry import SCRAPE_LIMIT_BYTES, UsageKey, parse_usage


@dataclass(frozen=True)
class Tokens:
    input: int = 0
    output: int = 0
    cache_creation: int = 0
    cache_read: int = 0


# -- admission ---


def test_the_providers_own_header_wins_over_a_bearer() -> None:
    both = credential_of("anthropic", {"x-api-key": "a", "authorization": "Bearer b"})
    assert both is not None
    assert (both.header, both.value) == ("x-api-key", "a")
    assert "secret" not in repr(credential_of("anthropic", {"x-api-key": "secret"}))
    bearer = credential_of("anthropic", {"authorization": "bearer t"})
    assert bearer is not None
    assert bearer.header == "authorization"
    assert credential_of("anthropic", {}) is None


@pytest.mark.parametrize("scheme", ["Basic eDp5", "Digest x7", "abc123"])
def test_another_scheme_is_refused_without_repeating_it(scheme: str) -> None:
    with pytest.raises(Refused) as refused:
        credential_of("anthropic", {"authorization": scheme})
    assert scheme not in str(refused.value)


@pytest.mark.parametrize(
    "value",
    ["application/json", "application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"'],
)
def test_json_in_utf8_is_accepted(value: str) -> None:
    check_content_type(value, {"application/json"})


@pytest.mark.parametrize(
    "value", ["", "text/json", "application/json; charset=latin-1", "application/jsonl", "json"]
)
def test_any_other_type_is_refused(value: str) -> None:
    with pytest.raises(Refused):
        check_content_type(value, {"application/json"})


def test_a_full_house_asks_to_come_back() -> None:
    admission = Admission(max_calls=1, body_limit=1)
    with admission.enter():
        with pytest.raises(Refused) as refused, admission.enter():
            pass
        assert refused.value.status == 503
        assert refused.value.retry
    with admission.enter():
        assert admission.calls == 1
    assert admission.calls == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8787", "localhost:1", "[::1]:1", "[::1]"])
def test_a_host_of_this_machine_is_known(host: str) -> None:
    assert names_this_machine(host)


@pytest.mark.parametrize("host", ["", "evil.example", "127.0.0.1.evil.example:1", "192.0.2.1", "["])
def test_any_other_host_is_not(host: str) -> None:
    assert not names_this_machine(host)


# -- headers ---


def test_no_header_passes_that_is_not_on_the_list() -> None:
    sent = {
        "Anthropic-Version": "v",
        "X-Stainless-OS": "Linux",
        "Cookie": "c",
        "Authorization": "Bearer k",
        "X-Api-Key": "k",
        "Host": "h",
        "Content-Encoding": "gzip",
        "Transfer-Encoding": "chunked",
        "Forwarded": "for=192.0.2.1",
        "anthropic-beta": "x" * 10_000,
    }
    assert request_headers(sent) == {"anthropic-version": "v", "x-stainless-os": "Linux"}
    got = {
        "Request-Id": "r",
        "Retry-After": "1",
        "Anthropic-Ratelimit-Tokens-Reset": "t",
        "Set-Cookie": "c",
        "Content-Encoding": "gzip",
        "Content-Length": "1",
        "Connection": "close",
        "X-Audit-Receipt": "forged",
    }
    assert set(response_headers(got)) == {
        "request-id",
        "retry-after",
        "anthropic-ratelimit-tokens-reset",
    }


# -- usage and metrics ---


def test_usage_is_added_up_by_role_and_model() -> None:
    meter = UsageMeter()
    meter.add("coder", "m-1", Tokens(input=3, output=4))
    meter.add("coder", "m-1", Tokens(input=1, cache_read=9))
    assert parse_usage(meter.render()) == {
        UsageKey("coder", "m-1", "input"): 4,
        UsageKey("coder", "m-1", "output"): 4,
        UsageKey("coder", "m-1", "cache_read"): 9,
    }
    assert meter.by_role() == {"coder": {"input": 4, "output": 4, "cache_read": 9}}


def test_no_client_can_grow_the_usage_family_beyond_what_decks_read() -> None:
    meter = UsageMeter()
    for number in range(3 * MAX_SERIES):
        meter.add(f"{number}".rjust(64, "r"), "m" * 200, Tokens(input=1, output=1))
    text = meter.render()
    assert len(text) < SCRAPE_LIMIT_BYTES
    assert sum(parse_usage(text).values()) == 6 * MAX_SERIES


def test_labels_come_from_closed_or_capped_sets() -> None:
    metrics = Metrics(UsageMeter())
    for number in range(5 * MAX_LABELS):
        metrics.refusal(f"reason{number}")
        metrics.redactions({f"KIND{number}": 1})
        metrics.request(f"/v1/{number}", "anthropic")
    text = metrics.render().decode()
    assert text.count("sphragis_refused_total{") == MAX_LABELS + 1
    assert text.count("sphragis_redactions_total{") == MAX_LABELS + 1
    assert text.count("sphragis_requests_total{") == 1
    assert "_created" not in text
    assert metrics.calls == 5 * MAX_LABELS


def test_paths_are_labelled_as_existing_gateways_do() -> None:
    assert path_label("/v1/messages?beta=true") == "/v1/messages"
    assert path_label("/v1/messages/count_tokens") == "/v1/messages/count_tokens"
    assert path_label("/v1beta/models/x:generateContent") == "other"


# -- readiness ---


def test_readiness_tells_what_passes_from_what_lasts() -> None:
    state = {"warm": "Warming up.", "disk": None}
    readiness = Readiness({"warm": lambda: state["warm"]}, {"disk": lambda: state["disk"]})
    assert readiness.reasons() == ["Warming up."]
    assert readiness.lasting() == []
    state.update(warm=None, disk="Full.")
    assert readiness.reasons() == readiness.lasting() == ["Full."]
    state["disk"] = None
    assert readiness.reasons() == []


# -- pid file and log ---


def test_a_pid_file_speaks_only_of_the_process_that_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    pidfile.write(path, "127.0.0.1:1")
    found = pidfile.read(path)
    assert found is not None
    assert (found.pid, found.address) == (os.getpid(), "127.0.0.1:1")
    assert path.stat().st_mode & 0o777 == 0o600
    pidfile.remove(path)
    assert pidfile.read(path) is None
    code = (
        "import sys; from pathlib import Path; from gateway import pidfile\n"
        "pidfile.write(Path(sys.argv[1]), 'x:1')"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert path.exists()
    assert pidfile.read(path) is None
    pidfile.remove(path)
    assert path.exists()


def test_an_error_is_logged_by_kind_and_place_never_by_its_text() -> None:
    try:
        raise ValueError("probe@leak-canary.org")
    except ValueError as error:
        told = where(error)
    assert told.startswith("ValueError in test_an_error_is_logged")
    assert "leak-canary" not in told
