from __future__ import annotations

import base64
import json
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck.demo.canaries import Canary, demo_canaries, disguises, iban, luhn_complete, sightings


def test_the_demo_values_are_well_formed_and_cover_every_kind() -> None:
    values = {c.name: c.value for c in demo_canaries()}
    assert list(values) == ["e-mail", "phone", "card", "IBAN", "database password", "API key"]
    digits = [int(c) for c in values["card"] if c.isdigit()]
    doubled = [d * 2 - 9 * (d > 4) if i % 2 else d for i, d in enumerate(reversed(digits))]
    assert len(digits) == 16
    assert sum(doubled) % 10 == 0
    turned = values["IBAN"][4:] + values["IBAN"][:4]
    assert int("".join(str(int(c, 36)) for c in turned)) % 97 == 1


def test_check_digits_follow_the_published_examples() -> None:
    assert luhn_complete("7992739871") == "79927398713"
    assert iban("GB", "WEST12345698765432") == "GB82WEST12345698765432"


@given(
    st.binary(max_size=40),
    st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=8, max_size=40),
    st.binary(max_size=40),
)
def test_a_value_is_seen_in_base64_whatever_stands_around_it(
    before: bytes, value: str, after: bytes
) -> None:
    canary = (Canary("x", value),)
    packed = before + value.encode() + after
    assert sightings(base64.b64encode(packed), canary)
    assert sightings(base64.urlsafe_b64encode(packed), canary)
    assert sightings(packed.hex().encode(), canary)


@pytest.mark.parametrize("canary", demo_canaries(), ids=lambda c: c.name)
@pytest.mark.parametrize(
    "write",
    [
        str,
        str.upper,
        json.dumps,
        lambda v: json.dumps({"inner": json.dumps(v)}),
        urllib.parse.quote,
        urllib.parse.quote_plus,
        lambda v: base64.b32encode(v.encode()).decode(),
        lambda v: "".join(c for c in v if c.isalnum()) if v[0] in "+4D" else v,
    ],
)
def test_each_demo_value_is_seen_however_it_is_written(canary: Canary, write) -> None:
    seen = sightings(f"x={write(canary.value)};".encode(), (canary,))
    assert [s.name for s in seen][:1] == [canary.name]


def test_a_harmless_text_shows_nothing() -> None:
    text = b"[EMAIL_x7k2m9qd] [PHONE_aaaaaaaa] tide lantern quay +44 20 0000 0000 " * 50
    assert sightings(text, demo_canaries()) == []


def test_no_disguise_is_too_short_to_mean_anything() -> None:
    for canary in demo_canaries():
        for encoding, needle in disguises(canary.value):
            assert len(needle) >= 6, (canary.name, encoding)
