from __future__ import annotations

import json
import urllib.parse
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum import iban, luhn

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.detectors.escapes import read_through
from gateway.redaction.policy import load_policy
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
    reading = read_through(text)
    if reading is None:
        return
    edges = [reading.back(Span(i, i + 1, "X", 1.0, "r")) for i in range(len(reading.text))]
    assert [s.start for s in edges[1:]] == [s.end for s in edges[:-1]]
    assert edges[0].start == 0
    assert edges[-1].end == len(text)


def test_json_in_prose_stays_json_when_values_are_replaced(detector: Detector) -> None:
    inner = json.dumps({"note": f"line\n{VALUES['PHONE']}\n{VALUES['CARD']}\n"})
    prose = f'The call was {json.dumps(inner)}, "as said".'
    for span in reversed(detector.find(prose)):
        prose = prose[: span.start] + "TOKEN" + prose[span.end :]
    quoted = prose.removeprefix("The call was ").removesuffix(', "as said".')
    assert json.loads(json.loads(quoted)) == {"note": "line\nTOKEN\nTOKEN\n"}


def test_a_text_without_escapes_is_not_copied() -> None:
    assert read_through("plain, 50% & more \\ done") is None
