"""The usage line reads the same in every deck, whatever a role or model is called."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.telemetry import (
    DIRECTIONS,
    USAGE_LINE,
    UsageKey,
    model_label,
    parse_usage,
    render_usage,
)

roles = st.from_regex(r"\A[A-Za-z0-9._-]{1,64}\Z")
keys = st.builds(
    UsageKey, agent=roles, model=st.text(max_size=90), direction=st.sampled_from(DIRECTIONS)
)


@given(st.dictionaries(keys, st.integers(min_value=0, max_value=10**15), max_size=12))
def test_every_line_written_matches_the_contract_and_is_read_back(
    totals: dict[UsageKey, int],
) -> None:
    text = render_usage(totals)
    samples = [line for line in text.split("\n") if line and not line.startswith("#")]
    assert all(USAGE_LINE.match(line) for line in samples)

    expected: dict[UsageKey, int] = {}
    for key, count in totals.items():
        if count:
            seen = UsageKey(key.agent, model_label(key.model), key.direction)
            expected[seen] = expected.get(seen, 0) + count
    assert parse_usage(text) == expected
    assert len(samples) == len(expected)


def test_other_label_orders_extra_labels_and_timestamps_are_not_usage_lines() -> None:
    assert (
        parse_usage(
            'sphragis_tokens_total{agent="a",direction="input",model="m"} 1\n'
            'sphragis_tokens_total{agent="a",model="m",direction="input",task="T1"} 1\n'
            'sphragis_tokens_total{agent="a",model="m",direction="input"} 1 1700000000\n'
            'sphragis_tokens_total{agent="",model="m",direction="input"} 1\n'
            'sphragis_tokens_total{agent="a",model="m",direction="sideways"} 1\n'
            'sphragis_tokens_total{agent="a",model="m",direction="input"} 1e-05\n'
            'sphragis_tokens_total{agent="a",model="m",direction="input"} 9e999\n'
        )
        == {}
    )


def test_numbers_in_exponent_form_are_read() -> None:
    line = 'sphragis_tokens_total{agent="a",model="m",direction="output"} 1.5e+06\n'
    assert parse_usage(line) == {UsageKey("a", "m", "output"): 1_500_000}
