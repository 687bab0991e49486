"""Bodies nobody planned for: mutated samples of every format, through the scanner itself.

Whatever comes out holds no planted value and is a document again; everything else is a refusal
with a code and a sentence, and none takes much longer than its like. `make fuzz` runs 20,000 bodies
for each format; the suite a few, and some of them through a running gateway.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from gateway_harness import Gateway, Provider, Seen, running

from gateway import wire
from gateway.coverage.canaries import Canary, fresh, fresh_word, leaked
from gateway.coverage.matrix import samples
from gateway.coverage.sample import MARK, Sample
from gateway.redaction.job import ScanJob, ScanRefused
from gateway.redaction.policy_file import load_policy
from gateway.redaction.scanner import Scanner
from gateway.routing import Route, match

#: Bodies for each format, shared among its samples.
BODIES = int(os.environ.get("FUZZ_BODIES", "100"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
#: What one body may take of the processor, in medians of the bodies of its sample; a median below
#: the floor, in seconds, counts as that: most bodies of some samples are refused at once.
PATIENCE, FLOOR = 20, 0.01
#: Bodies sent through a running gateway, and the seconds in which each must be answered.
SENT = 150
ANSWERED = 60
JSON_SAMPLES = [
    sample for sample in samples() if sample.body is not None and not isinstance(sample.body, bytes)
]

BYTE_SAMPLES = [sample for sample in samples() if isinstance(sample.body, bytes)]


class Mutator:
    """One body: a sample with canaries at some marks and a few changes of its structure."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.planted: list[str] = []

    def canary(self, make: Callable[[], Canary] = fresh) -> str:
        made = make()
        self.planted += made.values
        return made.text

    def text(self) -> str:
        """A text with a canary in one of the ways people and programs write texts."""
        text = self.canary()
        ways: list[Callable[[str], str]] = [
            str,
            lambda t: json.dumps({"a": [t]}),
            lambda t: json.dumps(json.dumps({"a": t})),
            lambda t: "\n".join(["x" * 90, t, "y"]),
            lambda t: f"```json\n{json.dumps({'k': t})}\n```",
            lambda t: "".join(f"\\u{ord(c):04x}" for c in t),
            lambda t: t.replace("@", "%40"),
            lambda t: f"<b>{t}</b>",
            lambda t: f"{t}]]>\\",
            lambda t: "\U0001f600" + t + "\u202e",
        ]
        return self.chance.choice(ways)(text)

    def fill(self, text: str) -> str:
        parts = text.split(MARK)
        out = [parts[0]]
        for part in parts[1:]:
            out += [self.text() if self.chance.random() < 0.3 else "word", part]
        return "".join(out)

    def junk(self, depth: int = 0) -> Any:
        """Some JSON value with a canary in it, or not."""
        pick = self.chance.randrange(9 if depth < 3 else 5)
        match pick:
            case 0:
                return self.text()
            case 1:
                return self.chance.choice([None, True, 0, -1, 1e300, 10**40, "", "x"])
            case 2:
                return self.canary(fresh_word)
            case 3 | 4:
                return "plain"
            case 5 | 6:
                return [self.junk(depth + 1) for _ in range(self.chance.randrange(3))]
            case _:
                keys = [self.canary(fresh_word) if self.chance.random() < 0.2 else "k"]
                keys += self.chance.sample(["type", "text", "content", "name", "id", "url"], 2)
                return {key: self.junk(depth + 1) for key in keys}

    def body(self, node: Any) -> Any:
        if self.chance.random() < 0.02:
            return self.junk()
        if isinstance(node, str):
            return self.fill(node)
        if isinstance(node, list):
            items = [self.body(item) for item in node if self.chance.random() > 0.05]
            if self.chance.random() < 0.04:
                items.append(self.junk())
            return items
        if isinstance(node, dict):
            members = {
                self.fill(name): self.body(value)
                for name, value in node.items()
                if self.chance.random() > 0.04
            }
            if self.chance.random() < 0.05:
                members[self.canary(fresh_word)] = self.junk()
            if self.chance.random() < 0.03:
                members[self.chance.choice(list(members) or ["x"])] = self.junk()
            return members
        return node

    def bytes(self, template: bytes) -> bytes:
        """A form or lines of JSON with canaries at some marks, and a few changes of its bytes: each
        keeps to the structure, so that no canary is broken in two."""
        # Lines may be joined: nothing may stand so close to a canary that it is another value.
        parts = template.decode().split(MARK)
        whole = parts[0]
        for part in parts[1:]:
            whole += (f"{self.canary()} " if self.chance.random() < 0.4 else "word") + part
        lines = re.split(r"(\r?\n)", whole)
        for _ in range(self.chance.randrange(4)):
            at = self.chance.randrange(len(lines))
            change = self.chance.choice(
                [
                    lambda line: "",
                    lambda line: line + line,
                    lambda line: line.swapcase() if "--" in line else line,
                    lambda line: line.replace('"', "'", 2),
                    lambda line: line.replace(":", "", 1),
                    lambda line: f" {line}",
                    lambda line: line + "\ufeff",
                    lambda line: "\n" if line == "\r\n" else line,
                    lambda line: f"{line} {self.canary()} ",
                ]
            )
            lines[at] = change(lines[at])
        raw = "".join(lines).encode()
        # Zeros and what is no UTF-8 make the whole part opaque, which the policy lets pass.
        if self.chance.random() < 0.2:
            at = self.chance.randrange(len(raw) + 1)
            raw = raw[:at] + self.chance.choice([b"\r", b"--", b'"', b"\\"]) + raw[at:]
        return raw[: self.chance.randrange(len(raw) + 1)] if self.chance.random() < 0.1 else raw


def mutated(sample: Sample, number: int) -> tuple[bytes, Mutator]:
    """The body of a number, and what was planted in it."""
    mutator = Mutator(random.Random(f"{SEED} {sample.wire} {sample.path} {number}"))
    if isinstance(sample.body, bytes):
        return mutator.bytes(sample.body), mutator
    return json.dumps(mutator.body(sample.body)).encode(), mutator


@pytest.fixture(scope="module")
def scanner() -> Scanner:
    scanner = Scanner(load_policy(), b"k" * 32)
    scanner.warm()
    return scanner


@pytest.mark.parametrize("sample", JSON_SAMPLES, ids=lambda s: f"{s.wire} {s.path[-40:]}")
def test_no_body_leaks_and_none_breaks_the_scanner(scanner: Scanner, sample: Sample) -> None:
    assert wire.get(sample.wire).name == sample.wire
    share = sum(other.wire == sample.wire for other in JSON_SAMPLES)
    look_for_leaks(scanner, sample, BODIES // share + 1)


@pytest.mark.parametrize("number", range(len(BYTE_SAMPLES)))
def test_no_form_and_no_lines_leak_or_break_the_scanner(scanner: Scanner, number: int) -> None:
    look_for_leaks(scanner, BYTE_SAMPLES[number], BODIES // len(BYTE_SAMPLES) + 1)


def look_for_leaks(scanner: Scanner, sample: Sample, bodies: int) -> None:
    took: list[float] = []
    for number in range(bodies):
        raw, mutator = mutated(sample, number)
        job = ScanJob(sample.wire, raw, content_type=sample.media_type, scope="role/r")
        began = time.process_time()
        said = forwarded_or_refused(scanner, job)
        took.append(time.process_time() - began)
        if isinstance(said, ScanRefused):
            assert said.code != "scanner_failed", (said.sentence, number)
            said = said.sentence.encode()
        elif said and not isinstance(sample.body, bytes):
            json.loads(said)
        assert not leaked(tuple(mutator.planted), said), (sample.wire, number)
    slow = [number for number, seconds in enumerate(took) if seconds > allowed(took)]
    for number in slow:
        raw, _ = mutated(sample, number)
        # Other values, because what was clean is remembered; the least of a few, because the
        # collector and other tests take their time from anybody.
        again = min(alone(sample, raw) for _ in range(3))
        assert again <= allowed(took), (sample.wire, number, again, statistics.median(took))


def allowed(took: list[float]) -> float:
    """The most one body may take, in seconds of the processor."""
    return PATIENCE * max(statistics.median(took), FLOOR)


def alone(sample: Sample, raw: bytes) -> float:
    """The seconds a body takes a scanner that knows nothing of it."""
    scanner = Scanner(load_policy(), b"k" * 32)
    scanner.warm()
    job = ScanJob(sample.wire, raw, content_type=sample.media_type, scope="role/r")
    began = time.process_time()
    forwarded_or_refused(scanner, job)
    return time.process_time() - began


def forwarded_or_refused(scanner: Scanner, job: ScanJob) -> bytes | ScanRefused:
    try:
        return scanner.run(job).body
    except ScanRefused as refused:
        return refused


@pytest.mark.parametrize("sample", samples(), ids=lambda s: f"{s.method} {s.wire} {s.path[-40:]}")
def test_every_sample_is_a_call_that_is_forwarded(sample: Sample) -> None:
    path, _, query = sample.path.replace(MARK, "word").partition("?")
    found = match(sample.method, path, query, sample.headers)
    assert isinstance(found, Route), found
    assert found.wire == sample.wire


# -- through a running gateway --------------------------------------------------------------------


async def answer_nothing(request: web.Request, seen: Seen) -> web.StreamResponse:
    return web.Response(body=b"{}", content_type="application/json")


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider(script=answer_nothing)
    provider.start()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def gateway(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home: Path = tmp_path_factory.mktemp("fuzz") / "home"
    with running(home, provider.url, upstream_base_url=provider.url) as started:
        yield started


def test_mutated_bodies_are_answered_through_a_gateway_and_none_leaks(
    gateway: Gateway, provider: Provider
) -> None:
    """502 is the gateway's own word for an answer of the provider that is none of the format."""
    chance = random.Random(SEED)
    bodies = [sample for sample in samples() if sample.body is not None]
    forwarded = 0
    for number in range(SENT):
        sample = bodies[number % len(bodies)] if number < len(bodies) else chance.choice(bodies)
        raw, mutator = mutated(sample, 1_000_000 + number)
        provider.seen.clear()
        status, said = send(gateway, sample, raw)
        where = (sample.wire, sample.path, number, status, said[:300])
        assert 200 <= status < 500 or status == 502, where
        assert status == 200 or said, where
        forwarded += len(provider.seen)
        for seen in provider.seen:
            assert not leaked(tuple(mutator.planted), seen.everything), where
        assert not leaked(tuple(mutator.planted), said), where
    assert forwarded > SENT // 3
    assert gateway.get("/readyz")[0] == 200


def send(gateway: Gateway, sample: Sample, raw: bytes) -> tuple[int, bytes]:
    """Status and body of the answer; a gateway that hangs is a TimeoutError."""
    connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=ANSWERED)
    given = {name: value.replace(MARK, "word") for name, value in sample.headers.items()}
    headers = {"content-type": sample.media_type, **given}
    try:
        path = sample.path.replace(MARK, "word")
        connection.request(sample.method, path, raw, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
