"""Durations: Go's syntax read as Go reads it, and read back as it is shown."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck.durations import BadDuration, format_age, format_duration, parse_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("45m", 2700),
        ("1h30m", 5400),
        ("1.5s", 1.5),
        (".5m", 30),
        ("2.h", 7200),
        ("0", 0),
        ("+3s", 3),
        ("-1m1s", -61),
        ("100ms", 0.1),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("1m1m", 120),
    ],
)
def test_a_duration_means_what_go_says(written: str, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    "written", ["", "45", "m", "-", "1d", "1h 30m", " 1h", "1e3s", "٣s", ".s", "9999999h", "1h30"]
)
def test_anything_else_is_refused_with_advice(written: str) -> None:
    with pytest.raises(BadDuration, match="45m, 1h30m or 90s"):
        parse_duration(written)


@given(st.integers(min_value=-(10**9), max_value=10**9))
def test_what_is_shown_is_read_back(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.text(max_size=20))
def test_any_text_is_a_duration_or_bad_duration(written: str) -> None:
    with contextlib.suppress(BadDuration):
        parse_duration(written)


def test_an_age_has_one_unit() -> None:
    ages = [format_age(s) for s in (-1, 0, 5.9, 59, 60, 3599, 3600, 86_399, 86_400, 345_600)]
    assert ages == ["0s", "0s", "5s", "59s", "1m", "59m", "1h", "23h", "1d", "4d"]
