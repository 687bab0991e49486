"""The prefilter never loses a find: with it and without it, the same spans come out."""

from __future__ import annotations

import ast
import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.redaction.detectors.base import Source
from gateway.redaction.detectors.engine import Detector
from gateway.redaction.detectors.prefilter import SHORT
from gateway.redaction.policy_file import load_policy, parse_policy

POLICY = parse_policy(
    load_policy().text,
    source="'base'",
    directory=None,
    terms=("Blue Harbour", "İzmir Işık", "+++x", "naïve"),
)
GLANCING = Detector(POLICY)
READING = Detector(POLICY, short=0)
EXAMPLES = int(os.environ.get("PREFILTER_EXAMPLES", "400"))
#: Halves of surrogate pairs never reach the rules.
HALVES = re.compile("[\ud800-\udfff]")
HERE = Path(__file__).resolve()
DATA = HERE.parents[2].parent / "shared" / "data" / "redaction"

#: One of each kind, in forms that hold as little as possible besides.
SAMPLES = (
    "a@b.gr", "a%40b.gr", "a&#64;b.gr", "a\\u0040b.gr", "+442079460958", "(06712) 635593",
    "4242424242424242", "GB82WEST12345698765432", "078-05-1120", "SSN 078051120", "8.8.8.8",
    "2a02:587::1", "3c:22:fb:1a:2b:3c", "fe:cd:ba:fe:cd:ba", "mac 3c22fb1a2b3c", "AB123456C",
    "RSSMRA85T10A562S", "X1234567L", "ABCPE1234F", "85.07.30-033.28", "131052-308T",
    "DE136695976", "ATU13585627", "<<", "0x52908400098527886E0F7030069857D2E4169EE7",
    "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", "12 Baker Street", "Hauptstraße 12", "ul. Cicha 86",
    "P.O. Box 12", "Boston, MA 02110", "SW1A 1AA", "PESEL 44051401359", "dob: 1980-02-01",
    "passport K1234567", "mrn: 12345678", "zip: 35350", "name: Jane Doe", "Dear Maria Lopez,",
    "Reviewed-by: Jane Doe", "Jane Doe <", "\u216eARIA", "password=Kx9!tundra", "pwd: Wint3rsun",
    "psk=Wint3rsun1", "-----BEGIN PRIVATE KEY-----", "Bearer abcdef0123456789", "://u:Wint3r@h",
    "&sig=Zm9vYmFyMTIzNDU2Nzg5MA", "AKIAIOSFODNN7ABCDEFG", "ghp_" + "a1B2" * 9,
    "Cookie: sid=a8f5f167f44f4964e6c998d", "sshpass -p Wint3r99", "kind: Secret", "PIN is 4711",
    "das Passwort lautet Wint3rsun!", "Blue Harbour", "İzmir Işık", "+++x", "naïve", "K", "ſecret",
)  # fmt: skip
GLUE = (" ", "", "\n", ": ", "=", '"', "'", ",", "\\n", "/", "-", "_", "@", ".", "%20", "\t", "<")

literals = sorted(
    {
        literal
        for rule in READING._rules
        if (triggers := rule.triggers()) is not None
        for literal in triggers.literals
    }
)
pieces = st.one_of(
    st.sampled_from(SAMPLES),
    st.sampled_from(literals),
    st.sampled_from(SAMPLES).map(str.upper),
    st.sampled_from(SAMPLES).map(str.lower),
    st.text(max_size=6),
    st.from_regex(re.compile(r"[0-9 ./+-]{1,14}", re.ASCII), fullmatch=True),
    st.from_regex(re.compile(r"[A-Za-z0-9]{1,24}", re.ASCII), fullmatch=True),
)
texts = st.lists(st.tuples(pieces, st.sampled_from(GLUE)), max_size=6).map(
    lambda parts: "".join(piece + glue for piece, glue in parts)[:SHORT]
)


@given(texts, st.sampled_from(("value", "password", "phoneNumber", "ssn", "pan", "ip", "name")))
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_short_text_gives_the_same_finds_with_and_without_it(text: str, key: str) -> None:
    assert GLANCING.find(text) == READING.find(text)
    assert GLANCING.find_value(key, text) == READING.find_value(key, text)


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_sample_alone_and_in_other_letters_gives_the_same_finds(sample: str) -> None:
    for text in (sample, sample.upper(), sample.lower(), sample.title(), f"x {sample} y"):
        assert GLANCING.find(text) == READING.find(text)


def test_the_lines_of_the_development_sets_give_the_same_finds() -> None:
    if not DATA.is_dir():
        pytest.skip("the development sets (../shared/data/redaction) are not here")
    lines = [text for text in _texts(DATA) if 0 < len(text) <= SHORT]
    chosen = random.Random(7).sample(lines, min(len(lines), 10 * EXAMPLES))
    lost = sum(GLANCING.find(text) != READING.find(text) for text in chosen)
    assert chosen
    assert lost == 0


def test_every_text_in_the_tests_of_the_detectors_gives_the_same_finds() -> None:
    """Whoever adds a form adds a case, so a form without its trigger is noticed here."""
    texts = {
        line
        for path in sorted(HERE.parent.glob("test_*.py"))
        if path.name.startswith(("test_detect", "test_redaction"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for line in (node.value, *node.value.splitlines())
        if 3 < len(line) <= SHORT
    }
    for path in sorted((HERE.parent / "cases").rglob("*")):
        if path.is_file():
            texts.update(line for line in path.read_text().splitlines() if 3 < len(line) <= SHORT)
    whole = [text for text in sorted(texts) if text.isascii() or not HALVES.search(text)]
    lost = [text for text in whole if GLANCING.find(text) != READING.find(text)]
    assert not lost


def test_a_word_of_an_enumeration_is_shown_to_no_rule() -> None:
    assert GLANCING._wanted(Source("ephemeral")) == 0


def test_a_long_text_is_shown_to_every_rule() -> None:
    assert GLANCING._wanted(Source("x" * (SHORT + 1))) == -1


def _texts(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.stat().st_size > 8_000_000:
            continue
        try:
            content = path.read_text()
        except UnicodeDecodeError:
            continue
        for line in content.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                row = line
            yield from _strings(row)


def _strings(row: object) -> Iterator[str]:
    if isinstance(row, str):
        yield row
    elif isinstance(row, dict | list):
        for member in row.values() if isinstance(row, dict) else row:
            yield from _strings(member)
