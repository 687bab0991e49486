"""Phone numbers as countries write them, with no word beside them; cards and IPs in odd forms."""

from __future__ import annotations

import re

import pytest

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy_file import load_policy

FOUND = [
    ("PHONE", "«06 12 34 56 78»"),
    ("PHONE", "«0612345678»"),
    ("PHONE", "Anna;«612 345 678»;Madrid"),
    ("PHONE", "«07911 123456»"),
    ("PHONE", "«020 7946 0958»"),
    ("PHONE", "«089/12345678»"),
    ("PHONE", "«+49 (0)89 123456-78»"),
    ("PHONE", "«0176-12345678»"),
    ("PHONE", "('Eva','«601 123 456»')"),
    ("PHONE", "phone,«+48 512 349 826»"),
    ("PHONE", "«(212) 555-0147»"),
    ("PHONE", "tel:«+1-201-555-0123»"),
    ("PHONE", "dzwoń «512 349 826»"),
    ("PHONE", "«0471 23 45 67»"),
    ("PHONE", "«06-12345678»"),
    ("PHONE", "«044 668 18 00»"),
    ("CARD", "«4242.4242.4242.4242»"),
    ("CARD", "«5555 5555 5555 4444»"),
    ("CARD", "«3782 822463 10005»"),
    ("CARD", "«6200000000000005»"),
    ("CARD", "«2223 0031 2200 3222»"),
    ("IP", '"ip": "«5.2.1.1»"'),
    ("IP", "«8.8.4.4»:53"),
    ("IBAN", "«de89 3704 0044 0532 0130 00»"),
]

#: A phone number is among what is found.
PHONES = [
    "Das Büro: 0612345678 heute",
    "x, 0172362448, y",
    "('Anna', '612 345 678')",
    "Anna;0475 12 34 56;x",
    "Ottilie, 06 30 123 4567",
    "NL 06-12345678 ok",
    "020-1234567",
    "0171/1234567",
    "06 1234 5678",
    "347 1234567",
    "91 123 45 67",
    "699 12 34 56",
    "Anna,21 23 45 67,x",
    '"5123 4567"',
    "0664 1234567",
    "040 1234567",
    "tel:+44-20-7946-0958",
    "0721 234 567",
    "+33 6 12 34 56 78",
    "0033 6 12 34 56 78",
    "+1 (415) 555-2671 ext. 5",
    "1-800-555-0199",
    "415.555.2671",
    "210 1234567",
    "phone: 2101234567",
    "087 123 4567",
    "09 1234567",
    "01632 960001",
    "+48 512 349 826",
    "512 349 826",
    "Jan Nowak 512-349-826",
    "+420 601 123 456",
    "601 123 456",
    "912 345 678",
    "0049-171-1234567",
    "08-123 456 78",
    "070-123 45 67",
    "0903 123 456",
    "031 123 456",
    "+353871234567",
    "0151 12345678",
    "tel:0201234567",
]

LEFT_ALONE = [
    "0123456789",
    "total 612 345 678 bytes",
    "id 0612345678",
    "1 234 567 890",
    "2023-01-01 12:00:00",
    "0755",
    "0x0612345678",
    "order 0612345678",
    "12 34 56 78 90 12",
    "01 02 03 04 05 06 07",
    "1699999999",
    "192.168.100.200",
    "3.141592653",
    "0.612345678",
    "978-3-16-148410-0",
    "invoice 601 123 456",
    "0000000000",
    "10:20:30",
    "[601, 123, 456]",
    "601 123 456 EUR",
    "commit 0612345678ab",
    "v06.12.34",
    "52.520008, 13.404954",
    "lat 52.5200 lon 13.4049",
    "0644 permissions",
    "5000-1234",
    "4242 **** **** 4242",
    "**** 4242",
    "4242.4242.4242.4243",
    "OID 2.5.29.35",
    "'/cts/Drama/09006251100.asf'",
    "sections 8.2.4.44",
]


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(load_policy())


def is_exactly_found(detector: Detector, kind: str, line: str) -> bool:
    """Whether the one thing found in `line` is what stands between the marks."""
    before, value, _ = re.split("[«»]", line)
    text = line.replace("«", "").replace("»", "")
    wanted = (kind, len(before), len(before) + len(value))
    return [(span.kind, span.start, span.end) for span in detector.find(text)] == [wanted]


@pytest.mark.parametrize(("kind", "line"), FOUND, ids=[line for _, line in FOUND])
def test_a_number_and_nothing_else_is_found(detector: Detector, kind: str, line: str) -> None:
    assert is_exactly_found(detector, kind, line)


@pytest.mark.parametrize("text", PHONES)
def test_a_phone_is_known_by_how_it_is_written(detector: Detector, text: str) -> None:
    assert "PHONE" in [span.kind for span in detector.find(text)]


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_other_numbers_are_left_alone(detector: Detector, text: str) -> None:
    assert detector.find(text) == []
