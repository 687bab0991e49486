"""The dearest text for each rule: a search over what the rules themselves look for.

Repeats the rules' own literals and pieces of their forms, alone, glued in twos and with what may
stand between, to 20 KB; the dearest for each rule are measured again at 100 KB. The bar is for one
rule and 100 KB. `HOSTILE_SEEDS` is how many literals take part. Nothing here asserts a time.
"""

from __future__ import annotations

import heapq
import itertools
import os
import random
import time
from collections.abc import Callable, Iterator

import pytest
from bench_table import Row, show

from gateway.redaction.detectors import labeled
from gateway.redaction.detectors.base import HIDDEN, Rule, Source
from gateway.redaction.detectors.engine import RULES, Detector
from gateway.redaction.detectors.escapes import read_through
from gateway.redaction.policy_file import load_policy

pytestmark = pytest.mark.bench

SEEDS = int(os.environ.get("HOSTILE_SEEDS", "150"))
FIRST_SIZE, FULL_SIZE = 20_000, 100_000
LIMIT_MS = 100.0
AGAIN = 4

#: Pieces that forms are made of, and rows of what they nearly match.
PIECES = (
    "a", "A", "1", "12", "1 ", "1.", "1-", "12 ", "123 ", "1234 ", "12345 ", "1234567 ", "aA1",
    "A ", "Aa ", "A, ", "A\n", "a@", "a@b.", "@a.", "%40", "<", "<<", "A<<", "\\", "\\n",
    "\\\\u0041", "%41", "&#64;", "&amp;", "_1", "-", "--", "-----", "=", "==", ":", "::", "1:",
    "a:", "://", "://a", "://a:b@", "http://", "eyJ", "eyJhbGciOi", "sk-", "ghp_",
    "-----BEGIN PRIVATE KEY-----\n", "AAAA\n", "-----END PRIVATE KEY-----\n", "0x", "0x1",
    "00:11:", "00-11-", "1a2b.", "bc1q", "xpub", "4A", "1A", "'", '"', "`", '"a": ', '{"a":', "[",
    "(", "((", "{", "${", "#", "\t", " ", "\n", "\n\n", "\r\n", ", ", ",", ";", "|", "| a ",
    "a,b\n", "name,email\n", "dob|ssn\n", "(name) values (1),", "+1 ", "+", "00", "(1) ", "01 23 ",
    "12 Main ", "12 Main Street ", "Main Street 12, ", ", NY 12345", "1234 AB ", "12, 1234 A",
    "Apt. 1 ", "Suite 1\n", "rue de la ", "Hauptstraße 1 ", "SW1A 1AA ", "1AA ", "password=",
    "password: ", "password is ", "PASSWORD=a ", "api_key='", "token ", "secret\n", "key=",
    "the password for the box is ", "login: a/", "Cookie: a=b; ", "Bearer ", "Authorization: ",
    "curl -u a:", "mysql -p", "kind: Secret\ndata:\n a: b\n", "Dear ", "Dear Maria ",
    "Maria Lopez ", "From: Maria ", "Maria <a@b.c> ", "Maria,a@b.c\n", "name: Maria ",
    "my name is ", "van de ", "é", "ß", "İ", HIDDEN, HIDDEN + " ", "[EMAIL_ABCDEFGHIJ] ",
    "GB82 WEST 1234 ", "GB82", "DE123456789 ", "AB123456C ", "123456-1234 ", "4242 4242 4242 ",
    "8.8.8.8 ", "1.2.3.", "2a02:", "fe80::1 ", "dob: 1.1.1980 ",
    "idnumber<<<", "chpasswd <<<", "parola=", "pwd\n", "\npwd:", "pw, ", "pw? ", "cookie=",
    '.feed("', 'name="', 'имя="', "οδός,", "адрес,", "medicalrec.1", "nato a 1 ", "né ", "dn\n",
    "sk_", "sk_prod_", "Main Street 12, 1", ", NY 12345 1 ",
)  # fmt: skip
GLUE = ("", " ", "\n", "=", ": ", ",", "1", "A", '"', "-", "/", "@")


def units(rules: list[Rule]) -> Iterator[str]:
    """Yield what is repeated."""
    chance = random.Random(11)
    literals = {
        word
        for rule in rules
        if (triggers := rule.triggers()) is not None
        for word in triggers.literals
    }
    chosen = chance.sample(sorted(literals), min(SEEDS, len(literals)))
    names = [f"{value.words[0]} " for value in labeled.VALUES]
    seeds = list(dict.fromkeys((*PIECES, *chosen, *names)))
    yield from seeds
    for seed in seeds:
        yield from (seed + glue for glue in chance.sample(GLUE, 3))
    for first, second in itertools.islice(_pairs(seeds, chance), 3 * len(seeds)):
        yield first + second


def _pairs(seeds: list[str], chance: random.Random) -> Iterator[tuple[str, str]]:
    while True:
        yield chance.choice(seeds), chance.choice(seeds)


def cost_ms(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1000


def readers() -> dict[str, Callable[[str], object]]:
    """What reads a text by itself: the rules, reading through escapes, and all of it."""
    policy = load_policy()
    detector = Detector(policy)
    found: dict[str, Callable[[str], object]] = {}
    for kind in RULES:
        rule = kind(policy)
        found[kind.__name__] = lambda text, rule=rule: list(rule.spans(Source(text)))  # type: ignore[misc]
    found["escapes"] = lambda text: read_through(Source(text))
    found["(all together)"] = detector.find
    return found


def test_the_dearest_text_for_each_rule() -> None:
    policy = load_policy()
    repeated = list(units([kind(policy) for kind in RULES]))
    rows = []
    for name, reader in readers().items():
        reader("warm 12 Main Street a@b.gr 4242 4242 4242 4242")
        dearest: list[tuple[float, str]] = []
        for unit in repeated:
            text = unit * (FIRST_SIZE // len(unit) + 1)
            heapq.heappush(dearest, (cost_ms(lambda: reader(text)), unit))  # noqa: B023
            if len(dearest) > AGAIN:
                heapq.heappop(dearest)
        worst, unit = max(
            (
                min(cost_ms(lambda: reader(u * (FULL_SIZE // len(u) + 1))) for _ in range(2)),  # noqa: B023
                u,
            )
            for _, u in dearest
        )
        together = name.startswith("(")
        rows.append(
            Row(
                f"{name}: {unit!r}"[:60],
                worst,
                "ms",
                None if together else LIMIT_MS,
            )
        )
    show(f"the dearest 100 KB for each rule, of {len(repeated)} texts", rows)
