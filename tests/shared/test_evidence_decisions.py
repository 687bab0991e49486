"""Holds and retention decide about every deletion: pure, and the same whatever the order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.evidence.errors import EvidenceError
from shared.evidence.holds import Hold, active, fold, shown
from shared.evidence.requests import flag, optional_text, required_text, time_of
from shared.evidence.retention import (
    CLASSES,
    DAY_US,
    Kept,
    Retention,
    decide,
    holding,
    sentence,
)

subjects = st.sampled_from(["a", "b", "c"])
times = st.integers(0, 100)
kept = st.builds(
    Kept,
    keyid=st.sampled_from(["k1", "k2", "k3"]),
    subject_c=subjects,
    session_c=subjects,
    created=times,
    retention=st.sampled_from(["", "ai-act"]),
    until=times,
    records=st.lists(st.integers(0, 50), max_size=8),
)
holds = st.builds(
    Hold,
    id=st.sampled_from(["h1", "h2"]),
    subject_c=st.sampled_from(["", "a", "b"]),
    session_c=st.sampled_from(["", "a"]),
    reason=st.just("r"),
    until=times,
    seq=st.just(1),
)


@given(st.lists(kept, max_size=6), st.lists(holds, max_size=4), times)
def test_what_may_go_is_held_by_nothing_and_what_must_stay_by_something(
    items: list[Kept], placed: list[Hold], now: int
) -> None:
    blocked = decide(items, placed, now)
    stays = [
        item
        for item in items
        if (item.retention and now < item.until)
        or any(
            (hold.until == 0 or now < hold.until)
            and hold.subject_c in ("", item.subject_c)
            and hold.session_c in ("", item.session_c)
            for hold in placed
        )
    ]
    assert [found.keyid for found in blocked] == [item.keyid for item in stays]


@given(kept, st.lists(holds, min_size=1, max_size=3), times)
def test_a_hold_comes_before_the_class(item: Kept, placed: list[Hold], now: int) -> None:
    found = holding(item, placed, now)
    forbids = [h for h in placed if h.is_active(now) and h.covers(item.subject_c, item.session_c)]
    if forbids:
        assert found is not None
        assert found.reason.startswith("the hold")


@given(kept, st.lists(holds, max_size=3), times, times)
def test_time_alone_never_forbids_what_was_allowed(
    item: Kept, placed: list[Hold], now: int, later: int
) -> None:
    if holding(item, placed, now) is None and later >= now:
        assert holding(item, placed, later) is None


@given(st.lists(kept, min_size=1, max_size=5), st.lists(holds, max_size=3), times)
def test_a_refusal_is_one_sentence_with_reason_end_and_records(
    items: list[Kept], placed: list[Hold], now: int
) -> None:
    blocked = decide(items, placed, now)
    if blocked:
        said = sentence(blocked, "The erasure")
        assert said.startswith("The erasure was refused: the ")
        assert said.endswith(".")
        assert "\n" not in said
        assert "until " in said
        assert any(item.reason in said for item in blocked)


def record(seq: int, name: str, state: str, **ext: Any) -> dict[str, Any]:
    return {"seq": seq, "type": "hold", "ext": {"id": name, "state": state, **ext}}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["h1", "h2", "h3"]), st.sampled_from(["placed", "released"]), times
        ),
        max_size=12,
    ),
    times,
)
def test_holds_are_what_their_records_add_up_to(
    steps: list[tuple[str, str, int]], now: int
) -> None:
    records = [record(n, name, state, until=until) for n, (name, state, until) in enumerate(steps)]
    expected = {}
    for name, state, until in steps:
        if state == "released":
            expected.pop(name, None)
        else:
            expected[name] = until
    assert {h.id: h.until for h in fold(records).values()} == expected
    in_force = {name for name, until in expected.items() if until == 0 or now < until}
    assert {hold.id for hold in active(records, now)} == in_force
    assert {item["id"] for item in shown(records, now) if item["state"] == "placed"} == in_force


@pytest.mark.parametrize(
    "strange",
    [
        {"seq": 1, "type": "request"},
        {"seq": 1, "type": "hold"},
        {"seq": 1, "type": "hold", "ext": []},
        {"seq": 1, "type": "hold", "ext": {"id": 3}},
    ],
)
def test_records_that_are_no_holds_are_passed_over(strange: dict[str, Any]) -> None:
    assert fold([strange]) == {}


def test_a_hold_with_strange_fields_holds_everything() -> None:
    found = fold([record(1, "h", "placed", scope="x", until="soon")])["h"]
    assert found.covers("anybody", "any session")
    assert found.is_active(10**18)


def test_a_class_counts_from_the_end_of_the_day() -> None:
    assert Retention().until(5 * DAY_US) == 0
    assert Retention("ai-act", 200).until(5 * DAY_US) == 205 * DAY_US
    assert CLASSES["ai-act"] >= 183
    assert CLASSES["sec-17a-4"] >= 3 * 365


@pytest.mark.parametrize(
    ("read", "request_", "named"),
    [
        (required_text, {}, "--before-all is missing"),
        (required_text, {"before_all": "  "}, "--before-all is missing"),
        (optional_text, {"before_all": "a\nb"}, "one line of text"),
        (optional_text, {"before_all": 7}, "one line of text"),
        (optional_text, {"before_all": "x" * 1001}, "one line of text"),
        (flag, {"before_all": "yes"}, "true or false"),
        (time_of, {"before_all": "31.1.2027"}, "a date such as"),
        (time_of, {"before_all": "2027-02-30"}, "a date such as"),
    ],
)
def test_a_field_that_cannot_be_read_is_named_and_not_quoted(
    read: Any, request_: dict[str, Any], named: str
) -> None:
    with pytest.raises(EvidenceError, match=named) as wrong:
        read(request_, "before_all")
    assert "xxx" not in str(wrong.value)


def test_a_date_is_its_beginning_in_utc() -> None:
    assert time_of({"before": "1970-01-02"}, "before") == DAY_US
    assert time_of({}, "before") is None
