"""The fast way to copy a record's fields copies and refuses what the careful one does."""

from __future__ import annotations

import datetime
import uuid
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.ledger.entry import copied
from shared.ledger.errors import RecordRefused
from shared.ledger.record import copy_fields


class Word(StrEnum):
    ALLOW = "allow"


class Number(IntEnum):
    ONE = 1


class Odd(Enum):
    ONE = 1.5


plain = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 54), 1 << 54)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from([Word.ALLOW, Number.ONE, Odd.ONE, b"x", uuid.UUID(int=1), "\ud800", "1.5e3"])
    | st.just(datetime.date(2026, 1, 1))
)
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.just(1), inner, max_size=3)
        | st.dictionaries(st.just("k"), inner).map(MappingProxyType)
    ),
    max_leaves=8,
)
NAMES = ("id", "ref", "actor", "evidence", "ext", "outcome", "policy", "seq", "other")
fields = st.dictionaries(st.sampled_from(NAMES), values, max_size=4)


def said(copy: Any, given_: Any) -> object:
    try:
        return repr(copy(given_))
    except RecordRefused as refused:
        return type(refused), str(refused)


@given(fields)
def test_both_ways_give_the_same(given_: dict[str, Any]) -> None:
    fast, careful = said(copied, given_), said(copy_fields, given_)
    assert fast == careful


@pytest.mark.parametrize("depth", [29, 30, 31, 32, 33, 60, 300])
def test_nesting_is_refused_at_the_same_depth(depth: int) -> None:
    nested: Any = "x"
    for _ in range(depth):
        nested = {"a": nested}
    assert said(copied, {"ext": {"a": nested}}) == said(copy_fields, {"ext": {"a": nested}})


@pytest.mark.parametrize("size", [8000, 9000, 61_000, 70_000])
def test_size_is_refused_at_the_same_length(size: int) -> None:
    large = {"ext": {"text": "x" * size}}
    assert said(copied, large) == said(copy_fields, large)


def test_a_copy_does_not_follow_the_original() -> None:
    original: dict[str, Any] = {"id": "a", "ext": {"list": [1]}}
    copy = copied(original)
    original["ext"]["list"].append(2)
    assert copy == {"id": "a", "ext": {"list": [1]}}
