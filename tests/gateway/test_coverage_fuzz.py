"""Bodies nobody planned for: mutated samples of every format, through the scanner itself.

Whatever comes out holds no planted value and is a document again; everything else is a refusal
with a code and a sentence. `make fuzz` runs 20,000 bodies for each format; the suite a few.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from gateway import wire
from gateway.coverage.canaries import Canary, fresh, fresh_word, leaked
from gateway.coverage.matrix import samples
from gateway.coverage.sample import MARK, Sample
from gateway.redaction.job import ScanJob, ScanRefused
from gateway.redaction.policy import load_policy
from gateway.redaction.scanner import Scanner
from gateway.routing import Route, match

#: Bodies for each format, shared among its samples.
BODIES = int(os.environ.get("FUZZ_BODIES", "100"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
JSON_SAMPLES = [
    sample for sample in samples() if sample.body is not None and not isinstance(sample.body, bytes)
]


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


@pytest.fixture(scope="module")
def scanner() -> Scanner:
    return Scanner(load_policy(), b"k" * 32)


@pytest.mark.parametrize("sample", JSON_SAMPLES, ids=lambda s: f"{s.wire} {s.path[-40:]}")
def test_no_body_leaks_and_none_breaks_the_scanner(scanner: Scanner, sample: Sample) -> None:
    assert wire.get(sample.wire).name == sample.wire
    share = sum(other.wire == sample.wire for other in JSON_SAMPLES)
    for number in range(BODIES // share + 1):
        mutator = Mutator(random.Random(f"{SEED} {sample.wire} {sample.path} {number}"))
        raw = json.dumps(mutator.body(sample.body)).encode()
        job = ScanJob(wire=sample.wire, body=raw, content_type="application/json", scope="role/r")
        said = forwarded_or_refused(scanner, job)
        if isinstance(said, ScanRefused):
            assert said.code != "scanner_failed", (said.sentence, number)
            said = said.sentence.encode()
        elif said:
            json.loads(said)
        assert not leaked(tuple(mutator.planted), said), (sample.wire, number)


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
