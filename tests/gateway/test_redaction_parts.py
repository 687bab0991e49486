"""A very long text is read in parts, and nothing at their borders is missed."""

from __future__ import annotations

from coding_session import invented, public_text

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy_file import load_policy

POLICY = load_policy()
KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "MIIEpAIBAAKCAQEAx8Zq0p3JcW9kYt5uVb7nRr2hL4fGd1sQ\n" * 12
    + "-----END RSA PRIVATE KEY-----\n"
)


def long_text(size: int) -> str:
    """Source code with values among it, at distances that share no factor with a part's size."""
    code = public_text()
    pieces = [
        f"{code[at : at + 1913]}\n{KEY if at % 5 == 0 else invented(at)}"
        for at in range(0, size, 1913)
    ]
    return "".join(pieces)[:size]


def test_reading_in_parts_finds_what_reading_at_once_finds() -> None:
    text = long_text(300_000)
    whole = Detector(POLICY).find(text)
    for part in (40_000, 40_001, 77_777):
        assert Detector(POLICY, part=part).find(text) == whole
    assert len(whole) > 300


def test_a_value_that_begins_in_one_part_and_ends_in_the_next_is_one_find() -> None:
    part = 70_000
    detector = Detector(POLICY, part=part)
    for value in ("maria.lopez@example.com", KEY.strip(), "GB82 WEST 1234 5698 7654 32"):
        for before in (1, len(value) // 2, len(value) - 1):
            text = f"{'x ' * ((part - before) // 2)} {value} {'y ' * 70_000}"
            found = detector.find(text)
            assert [text[span.start : span.end] for span in found] == [value]
