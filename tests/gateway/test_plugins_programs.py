"""Operators' recognizers in the programs themselves: these load only parts of Presidio at first,
unlike the process the other tests of recognizers run in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_harness import Gateway, Provider, running

from gateway.redaction.policy_file import load_policy

BIN = Path(sys.executable).parent / "sphragis"
RECOGNIZERS = """
recognizers:
  - name: Ticket
    supported_entity: TICKET
    patterns:
      - {name: ticket, regex: 'TCK-\\d{5}', score: 0.8}
  - EmailRecognizer
"""
BADGE = """
from presidio_analyzer.pattern_recognizer import PatternRecognizer
from presidio_analyzer import Pattern
class Badge(PatternRecognizer):
    def __init__(self):
        super().__init__("BADGE", patterns=[Pattern("b", r"ACME-[0-9]{3}", 0.9)])
"""
#: A module that is imported well and breaks the scanner all the same.
BREAKS = """
import gateway.wire
from presidio_analyzer import EntityRecognizer
def fail(name):
    raise KeyError(name)
class Breaks(EntityRecognizer):
    def __init__(self):
        super().__init__(supported_entities=["X"])
        gateway.wire.get = fail
    def load(self): pass
    def analyze(self, text, entities, nlp_artifacts): return []
"""


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    provider.start()
    yield provider
    provider.stop()


def own_policy(folder: Path, line: str) -> Path:
    text = load_policy().text
    at = text.index("[kinds]")
    path = folder / "own.toml"
    path.write_text(f"{text[:at]}{line}\n{text[at:]}")
    return path


@pytest.fixture
def by_file(tmp_path: Path) -> Path:
    (tmp_path / "rec.yaml").write_text(RECOGNIZERS)
    return own_policy(tmp_path, 'recognizers_file = "rec.yaml"')


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package beside the others of the program, as an installer leaves it."""
    site = tmp_path / "site"
    info = site / "acme_badges-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-badges\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[choragos.recognizers]\nbadge = acme_badges:Badge\n")
    (site / "acme_badges.py").write_text(BADGE)
    monkeypatch.setenv("PYTHONPATH", str(site))


def scan(text: str, home: Path, *arguments: str) -> list[tuple[str, int]]:
    """Kind and length of what `sphragis scan` finds."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPHRAGIS_")}
    done = subprocess.run(
        [str(BIN), "scan", "-", "--json", *arguments],
        input=text.encode(),
        capture_output=True,
        timeout=120,
        check=False,
        env={**clean, "SPHRAGIS_HOME": str(home)},
    )
    assert done.returncode in (0, 1), done.stderr.decode()
    finds = [json.loads(line) for line in done.stdout.splitlines()]
    return [(find["kind"], find["length"]) for find in finds]


def ask(gateway: Gateway, text: str) -> str:
    body = {"model": "m-1", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(
        f"{gateway.url}/v1/messages",
        json.dumps(body).encode(),
        {"content-type": "application/json", "anthropic-version": "2023-06-01"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


def test_scan_reads_the_recognizers_file_of_the_policy(by_file: Path, tmp_path: Path) -> None:
    found = scan("see TCK-12345 or a.b@corp.com", tmp_path / "home", "--policy", str(by_file))
    assert found == [("TICKET", 9), ("EMAIL", 12)]


def test_the_gateway_reads_the_recognizers_file_of_the_policy(
    by_file: Path, tmp_path: Path, provider: Provider
) -> None:
    with running(tmp_path / "home", provider.url, policy_file=str(by_file)) as gateway:
        ask(gateway, "see TCK-12345")
    (seen,) = provider.seen
    assert b"12345" not in seen.body
    assert b"[TICKET_" in seen.body


@pytest.mark.usefixtures("installed")
def test_scan_asks_the_recognizers_of_installed_packages(tmp_path: Path) -> None:
    assert scan("see ACME-123", tmp_path / "home") == [("BADGE", 8)]


@pytest.mark.usefixtures("installed")
def test_the_gateway_asks_the_recognizers_of_installed_packages(
    tmp_path: Path, provider: Provider
) -> None:
    with running(tmp_path / "home", provider.url) as gateway:
        ask(gateway, "see ACME-123")
    (seen,) = provider.seen
    assert b"ACME-123" not in seen.body
    assert b"[BADGE_" in seen.body


def test_a_gateway_whose_scans_all_fail_is_not_ready_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "breaks.py").write_text(textwrap.dedent(BREAKS))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    policy = own_policy(tmp_path, 'recognizers = ["breaks:Breaks"]')
    gateway = Gateway(tmp_path / "home", "http://127.0.0.1:1", policy_file=str(policy))
    gateway.start(wait=False)
    try:
        deadline = time.monotonic() + 60
        said = b""
        while b"cannot start" not in said and time.monotonic() < deadline:
            time.sleep(0.05)
            status, said = gateway.get("/readyz") if gateway._address() else (0, b"")
        assert status == 503
        assert b"The scanner cannot start: its first request" in said
        assert gateway.get("/metrics")[0] == 503
    finally:
        gateway.stop()
