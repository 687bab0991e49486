from __future__ import annotations

import json
import urllib.parse
from html import escape
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum import iban, luhn

from gateway.redaction.detectors.base import Source
from gateway.redaction.detectors.engine import Detector
from gateway.redaction.detectors.escapes import read_through
from gateway.redaction.policy_file import load_policy
from gateway.redaction.spans import Span

CARD = "4539" + "5787" + "6362" + "148"
ACCOUNT = "50010517" + "5407324931"
VALUES = {
    "EMAIL": "e.papadaki" + "@" + "harbour.example.com",
    "PHONE": "+44 " + "20 7946 " + "0958",
    "CARD": CARD + luhn.calc_check_digit(CARD),
    "IBAN": "DE" + iban.calc_check_digits("DE00" + ACCOUNT) + ACCOUNT,
    "SSN": "536-22-" + "8741",
    "IP": "89.207." + "132.170",
    "APIKEY": "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5",
}
BEFORE = ["\\n", "\\t", "\\r\\n", "\\\\n", "\\u000a", "\\x0a", "%0A", "%20", "&#10;", "&nbsp;"]
AFTER = ["", "\\n", "\\\\n\\\\n", "\\u000a", "%0A", "&nbsp;", '\\"']


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(load_policy(None))


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("before", BEFORE)
def test_a_value_beside_an_escape_is_found_and_the_escape_stays(
    detector: Detector, kind: str, before: str
) -> None:
    value = VALUES[kind]
    for after in AFTER:
        text = f"see {before}{value}{after} end"
        found = detector.find(text)
        assert [(s.kind, text[s.start : s.end]) for s in found] == [(kind, value)], text


@pytest.mark.parametrize("kind", ["EMAIL", "PHONE", "CARD", "IBAN"])
@pytest.mark.parametrize(
    "write",
    [
        urllib.parse.quote,
        lambda v: "".join(f"\\u{ord(c):04x}" if not c.isalnum() else c for c in v),
        lambda v: "".join(f"&#{ord(c)};" if not c.isalnum() else c for c in v),
        lambda v: "".join(f"\\x{ord(c):02x}" for c in v),
        escape,
    ],
)
def test_a_value_written_in_escapes_is_found_whole(detector: Detector, kind: str, write) -> None:
    written = write(VALUES[kind])
    text = f"see {written} end"
    found = detector.find(text)
    assert [(s.kind, text[s.start : s.end]) for s in found] == [(kind, written)]


@given(st.recursive(st.text(), lambda inner: inner.map(json.dumps), max_leaves=4))
def test_the_way_back_covers_the_text_without_a_gap(text: str) -> None:
    reading = read_through(Source(text))
    if reading is None:
        return
    edges = [reading.back(Span(i, i + 1, "X", 1.0, "r")) for i in range(len(reading.text))]
    # What lies between two characters is something a reader does not see.
    for one, other in pairwise(edges):
        assert one.start < one.end <= other.start
    for char, edge in zip(reading.text, edges, strict=True):
        piece = text[edge.start : edge.end]
        alone = read_through(Source(piece))
        assert (alone.text if alone else piece) == char


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\x1b[31m", "\x1b[0m"),
        ("\x1b[1;38:5:208m\x1b[K", "\x1b[m\x1b[K"),
        ("\\u001b[31m", "\\u001b[0m"),
        ("\\x1b[31m", "\\033[0m"),
    ],
)
def test_a_value_in_the_colors_of_a_terminal_is_found_without_them(
    detector: Detector, kind: str, before: str, after: str
) -> None:
    text = f"12 lines {before}{VALUES[kind]}{after} end"
    found = detector.find(text)
    assert [(s.kind, text[s.start : s.end]) for s in found] == [(kind, VALUES[kind])]


@pytest.mark.parametrize("kind", ["PHONE", "CARD", "IP"])
@pytest.mark.parametrize("mark", ["_", "__", "*", "**", "___"])
def test_a_value_emphasized_in_markdown_is_found(detector: Detector, kind: str, mark: str) -> None:
    text = f"call {mark}{VALUES[kind]}{mark} end"
    found = detector.find(text)
    assert [(s.kind, text[s.start : s.end]) for s in found] == [(kind, VALUES[kind])]


@pytest.mark.parametrize("kind", ["PHONE", "CARD", "IP"])
@pytest.mark.parametrize("mark", ["-", "+", " "])
def test_a_value_at_the_head_of_a_diff_line_is_found(
    detector: Detector, kind: str, mark: str
) -> None:
    text = f"@@ -1,2 +1,2 @@\n{mark}{VALUES[kind]}\n"
    assert [(s.kind, text[s.start : s.end]) for s in detector.find(text)] == [(kind, VALUES[kind])]


def test_a_line_that_begins_with_a_phone_number_keeps_its_plus(detector: Detector) -> None:
    (found,) = detector.find(VALUES["PHONE"])
    assert (found.start, found.end) == (0, len(VALUES["PHONE"]))


def test_json_in_prose_stays_json_when_values_are_replaced(detector: Detector) -> None:
    inner = json.dumps({"note": f"line\n{VALUES['PHONE']}\n{VALUES['CARD']}\n"})
    prose = f'The call was {json.dumps(inner)}, "as said".'
    for span in reversed(detector.find(prose)):
        prose = prose[: span.start] + "TOKEN" + prose[span.end :]
    quoted = prose.removeprefix("The call was ").removesuffix(', "as said".')
    assert json.loads(json.loads(quoted)) == {"note": "line\nTOKEN\nTOKEN\n"}


def test_a_text_without_escapes_is_not_copied() -> None:
    assert read_through(Source("plain, 50% & more \\ done")) is None


@pytest.mark.parametrize("piece", ["\\", "_", "\x1b[1;", "&#", "-\n", "\\x1b[1", "%", "\\u001b"])
def test_hostile_texts_are_read_in_one_pass(piece: str) -> None:
    # Quadratic work on half a megabyte would take hours.
    text = piece * (500_000 // len(piece))
    reading = read_through(Source(text))
    assert reading is None or len(reading.text) <= len(text)
