"""Numbers, addresses and names in the forms links, trailers, networks and mails write them in."""

from __future__ import annotations

import pytest

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy_file import load_policy


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(load_policy())


def found(detector: Detector, text: str) -> list[tuple[str, str]]:
    return [(span.kind, text[span.start : span.end]) for span in detector.find(text)]


@pytest.mark.parametrize("sign", ["", "# ", "// ", " * ", "> ", "+", "+# ", "-- ", ";; ", "/* "])
@pytest.mark.parametrize("word", ["Signed-off-by", "Reviewed-by", "Co-authored-by", "Acked-by"])
def test_a_trailer_names_somebody_behind_any_sign(detector: Detector, sign: str, word: str) -> None:
    text = f"x = 1\n{sign}{word}: Jane Roe <jane.roe@kestrel.com>\n"
    assert found(detector, text) == [("NAME", "Jane Roe"), ("EMAIL", "jane.roe@kestrel.com")]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("PASSPORT", "PP No @", "533380006"), ("PASSPORT", "PP No: @ issued", "533380006"),
        ("PHONE", "https://wa.me/@", "14155552671"), ("PHONE", "wa.me/@", "306941234567"),
        ("PHONE", "tel:@", "14155552671"), ("PHONE", '<a href="tel:@">', "2101234567"),
        ("PHONE", "https://api.whatsapp.com/send?phone=@&x=1", "14155552671"),
        ("PHONE", "sms:@?body=x", "14155552671"), ("IP", "allow @/24;", "93.184.216.0"),
        ("IP", "@/32", "93.184.216.34"), ("IP", "@/48", "2a02:587:4400::"),
        ("CARD", "@", "4 5 3 9 5 7 8 7 6 3 6 2 1 4 8 6"),
        ("CARD", "my card is @.", "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"),
        ("EMAIL", "@", "kate=40x.com"), ("EMAIL", "To: @ rest", "kate=40example.org"),
    ],
)  # fmt: skip
def test_values_are_found_in_these_forms(
    detector: Detector, kind: str, text: str, value: str
) -> None:
    assert found(detector, text.replace("@", value)) == [(kind, value)]


@pytest.mark.parametrize(
    "text",
    [
        "8.0.0.0/8", "81.2.0.0/16", "10.0.0.0/24", "0.0.0.0/0", "192.0.2.0/24", "2000::/3",
        "width=40px.css a=40.com x=40e.js", "# Written by Jane for the parser", "tel:123",
        "1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6", "0 0 1 0 0 1 1 0 1 0 0 1 0 1 0 1",
    ],
)  # fmt: skip
def test_networks_sums_and_rows_stay(detector: Detector, text: str) -> None:
    assert found(detector, text) == []
