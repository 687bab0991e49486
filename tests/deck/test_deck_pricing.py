"""Pricing and usage: longest prefix, exact sums, amounts as text, totals that never go down."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck.config import Price
from deck.pricing import Tokens, cost_usd, format_cost, format_tokens, price_of
from deck.usage import Baseline, Scrape, UsageMeter, read_scrape
from shared.telemetry import UsageKey, render_usage

CHEAP = Price(input=Decimal(1), output=Decimal(5))
DEAR = Price(
    input=Decimal(5),
    output=Decimal(25),
    cache_read=Decimal("0.5"),
    cache_creation=Decimal("6.25"),
)
names = st.text("abc-", max_size=6)


def test_the_longest_prefix_sets_the_price() -> None:
    pricing = {"claude": CHEAP, "claude-opus": DEAR}
    assert price_of(pricing, "claude-opus-4-8") is DEAR
    assert price_of(pricing, "claude-haiku") is CHEAP
    assert price_of(pricing, "gpt") is None


@given(st.dictionaries(names, st.just(CHEAP), max_size=6), names)
def test_no_longer_prefix_is_ever_passed_over(pricing: dict[str, Price], model: str) -> None:
    fitting = [prefix for prefix in pricing if model.startswith(prefix)]
    assert (price_of(pricing, model) is None) == (not fitting)


def test_all_four_directions_are_billed() -> None:
    tokens = Tokens(input=1_000_000, output=2_000_000, cache_creation=400_000, cache_read=200_000)
    assert cost_usd({"m": DEAR}, {"m-1": tokens}) == Decimal("57.6")
    assert cost_usd({"m": DEAR}, {"other": tokens}) is None
    assert cost_usd({}, {"m": tokens}) is None
    assert cost_usd({"m": DEAR}, {"m": Tokens(), "other": tokens}) == 0


@given(st.lists(st.integers(0, 10**9), min_size=4, max_size=4))
def test_a_cost_is_exact(counts: list[int]) -> None:
    tokens = Tokens(*counts)
    halves = Tokens(*(n // 2 for n in counts)), Tokens(*(n - n // 2 for n in counts))
    whole = cost_usd({"": DEAR}, {"m": tokens})
    parts = [cost_usd({"": DEAR}, {"m": half}) for half in halves]
    assert whole == sum((part for part in parts if part is not None), Decimal(0))


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0", "$0.0000"),
        ("0.00421", "$0.0042"),
        ("0.0099", "$0.0099"),
        ("0.01", "$0.01"),
        ("1.005", "$1.01"),
        ("12", "$12.00"),
    ],
)
def test_under_one_cent_four_decimals_are_shown(amount: str, shown: str) -> None:
    assert format_cost(Decimal(amount)) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1k"),
        (1_500, "1.5k"),
        (9_960, "10k"),
        (902_000, "902k"),
        (999_499, "999k"),
        (999_500, "1M"),
        (1_240_000, "1.2M"),
        (31_000_000, "31M"),
    ],
)
def test_counts_are_short(count: int, shown: str) -> None:
    assert format_tokens(count) == shown


def key(role: str = "coder", model: str = "m", direction: str = "input") -> UsageKey:
    return UsageKey(role, model, direction)  # type: ignore[arg-type]


def test_an_attached_gateways_earlier_counts_are_not_ours() -> None:
    meter = UsageMeter(Baseline.ATTACHED)
    meter.observe(Scrape({key(): 1_000}))
    assert meter.total("coder") == Tokens()
    meter.observe(Scrape({key(): 1_250, key("reviewer"): 30}))
    assert meter.total("coder").input == 250
    assert meter.total("reviewer").input == 30
    assert meter.roles() == ("coder", "reviewer")


def test_a_gateway_we_started_is_counted_from_its_start() -> None:
    meter = UsageMeter(Baseline.STARTED)
    meter.observe(Scrape({key(): 1_000}))
    assert meter.total("coder").input == 1_000


def test_a_restarted_gateway_goes_on_from_where_it_was() -> None:
    meter = UsageMeter(Baseline.ATTACHED)
    for counters in ({key(): 100}, {key(): 160}, {key(): 20}, {}, {key(): 5}):
        meter.observe(Scrape(counters))
    assert meter.total("coder").input == 60 + 20 + 5


def test_a_restart_is_seen_by_the_start_time_even_when_counters_grew() -> None:
    meter = UsageMeter(Baseline.STARTED)
    meter.observe(Scrape({key(): 100}, started="1.7e9"))
    meter.observe(Scrape({key(): 500}, started="1.8e9"))
    assert meter.total("coder").input == 600


@given(
    st.lists(
        st.one_of(st.just(None), st.lists(st.integers(0, 50), min_size=2, max_size=2)), max_size=12
    )
)
def test_totals_never_go_down_and_miss_nothing_when_restarts_are_told(
    steps: list[list[int] | None],
) -> None:
    meter = UsageMeter(Baseline.STARTED)
    counters, used, started, previous = [0, 0], 0, 0, 0
    for step in steps:
        if step is None:
            counters, started = [0, 0], started + 1
        else:
            counters = [a + b for a, b in zip(counters, step, strict=True)]
            used += sum(step)
        shown = {key(): counters[0], key(direction="output"): counters[1]}
        meter.observe(Scrape({k: n for k, n in shown.items() if n}, started=str(started)))
        total = meter.total("coder").total
        assert total >= previous
        previous = total
    assert previous == used


def test_a_scrape_is_read_from_the_text_of_the_metrics_page() -> None:
    text = render_usage({key(): 7}) + "process_start_time_seconds 1.75e+09\nother 1\n"
    assert read_scrape(text) == Scrape({key(): 7}, "1.75e+09")


def test_a_task_is_charged_what_its_role_used_meanwhile() -> None:
    meter = UsageMeter(Baseline.STARTED)
    meter.observe(Scrape({key(): 10}))
    meter.begin_task("T1", "coder")
    meter.observe(Scrape({key(): 50, key(model="n"): 5, key("reviewer"): 99}))
    running = meter.task("T1")
    assert running is not None
    assert running.open
    done = meter.end_task("T1")
    meter.observe(Scrape({key(): 500, key(model="n"): 5, key("reviewer"): 99}))
    assert done is not None
    assert done.by_model == {"m": Tokens(input=40), "n": Tokens(input=5)}
    assert meter.task("T1") == done
    assert meter.end_task("T9") is None


def test_totals_survive_a_resume() -> None:
    meter = UsageMeter(Baseline.STARTED)
    meter.observe(Scrape({key(): 10, key(direction="output"): 3}))
    again = UsageMeter(Baseline.ATTACHED)
    again.resume(meter.as_json())
    again.observe(Scrape({key(): 14}))
    again.observe(Scrape({key(): 15}))
    assert again.total("coder") == Tokens(input=11, output=3)
