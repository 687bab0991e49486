"""Speed of the rules beside Presidio's own recognizers, and what the cache saves."""

from __future__ import annotations

import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bench_table import Row, show

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy_file import load_policy
from gateway.redaction.redactor import Redactor, SpanCache
from gateway.redaction.tokens import Tokenizer

pytestmark = pytest.mark.bench

SIZE = 400_000
#: Megabytes in a second on one core, and a turn of such a size
#: in which nothing is new.
SCAN_LIMIT_MB = 2.0
AGAIN_LIMIT_MS = 3.0


def mixed_text(size: int) -> str:
    """Source code with invented personal values and secrets among it."""
    library = Path(sysconfig.get_path("stdlib"))
    code = "".join((library / f"{n}.py").read_text() for n in ("argparse", "inspect", "typing"))
    line = (
        "2026-03-01T10:11:12Z INFO login ok user=jane{0}@corp.example ip=81.2.{0}.142 "
        "tel +44 20 7946 0{0}\n"
        "DB_PASSWORD=x{0}kk2zz\n"
    )
    parts = []
    for at in range(0, len(code), 4000):
        parts += (code[at : at + 4000], "\n", line.format(100 + at // 4000))
    text = "".join(parts)
    return (text * (size // len(text) + 1))[:size]


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def test_the_rules_are_many_times_faster_than_the_stock_recognizers() -> None:
    from presidio_analyzer.predefined_recognizers import (
        CreditCardRecognizer,
        IbanRecognizer,
        IpRecognizer,
        PhoneRecognizer,
        UsSsnRecognizer,
    )

    text = mixed_text(SIZE)
    blocks = [text[i : i + 8000] for i in range(0, len(text), 8000)]
    policy = load_policy()
    detector = Detector(policy)
    detector.find(text[:20_000])
    ours = seconds(lambda: [detector.find(block) for block in blocks])
    # The stock e-mail recognizer is left out: it reaches for the network.
    stock = [
        CreditCardRecognizer(),
        IbanRecognizer(),
        IpRecognizer(),
        PhoneRecognizer(),
        UsSsnRecognizer(),
    ]
    few = blocks[:10]
    theirs = seconds(
        lambda: [r.analyze(b, r.supported_entities, None) for r in stock for b in few]
    ) * (len(blocks) / len(few))

    cache = SpanCache()

    def turn() -> None:
        redactor = Redactor(
            detector, Tokenizer(b"k" * 32, "r"), policy, scope="r", rules="1", cache=cache
        )
        for block in blocks:
            redactor.text(block)

    cold, warm = seconds(turn), seconds(turn)
    stock_speed = SIZE / 1e6 / theirs
    show(
        "scanning 400 KB of mixed text on one core (processor time)",
        (
            Row(
                "all our rules: values, addresses, names, secrets",
                SIZE / 1e6 / ours,
                "MB/s",
                SCAN_LIMIT_MB,
                least=True,
                beside=f"stock Presidio {stock_speed:.2f} MB/s",
            ),
            Row("stock Presidio: card, IBAN, IP, phone, SSN only", stock_speed, "MB/s"),
            Row(
                "our rules, times stock Presidio",
                theirs / ours,
                "x",
                beside="stock: 5 kinds of value, ours: all",
            ),
            Row("a turn seen for the first time", cold * 1000, "ms"),
            Row("the same turn again", warm * 1000, "ms", AGAIN_LIMIT_MS),
        ),
    )
    assert ours < theirs / 2
    assert warm < cold / 10
