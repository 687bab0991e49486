"""Which owned files changed, and what that means; real files, no session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck.board import Report, State, Task
from deck.entries import ReportState, TaskState
from deck.ownership import (
    ABSENT,
    UNREADABLE,
    Taken,
    Verdict,
    changed,
    file_hash,
    parse,
    take,
    verdict,
)

HELLO = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    return place


def now(place: Path, path: str = "a") -> str:
    return take(place, [path])[path]


def test_a_file_is_known_by_the_sha_256_of_its_bytes_and_absence_is_a_value(place: Path) -> None:
    assert now(place) == ABSENT
    (place / "a").write_text("hello")
    assert now(place) == HELLO
    assert now(place, "a/b") == UNREADABLE
    assert now(place, "no/such") == ABSENT


@pytest.mark.parametrize("name", ["ü ber.txt", "a\nb", "*", "[x]", "-rf", " "])
def test_names_are_literal(place: Path, name: str) -> None:
    (place / "other").write_text("x")
    assert now(place, name) == ABSENT
    (place / name).write_text("hello")
    assert now(place, name) == HELLO


def test_what_is_no_file_cannot_be_compared(place: Path) -> None:
    (place / "directory").mkdir()
    os.mkfifo(place / "pipe")
    (place / "loop").symlink_to("loop")
    (place / "nowhere").symlink_to("missing")
    for name in ("directory", "pipe", "loop", "nowhere", "nul\0"):
        assert now(place, name) == UNREADABLE, name
    assert take(place / "gone", ["a"]) == {"a": UNREADABLE}


def test_a_link_counts_itself_and_is_not_followed_out(place: Path) -> None:
    (place / "b").write_text("hello")
    (place / "a").symlink_to("b")
    assert now(place) == f"{HELLO} by link b"
    outside = place.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("hello")
    (place / "out").symlink_to(outside / "secret")
    (place / "dir").symlink_to(outside)
    assert now(place, "out") == UNREADABLE
    assert now(place, "dir/secret") == UNREADABLE
    # A neighbor whose name begins alike is outside as well.
    (place.parent / "project2").mkdir()
    (place.parent / "project2" / "x").write_text("hello")
    (place / "near").symlink_to(place.parent / "project2" / "x")
    assert now(place, "near") == UNREADABLE


def test_a_place_reached_by_a_link_is_the_same_place(place: Path) -> None:
    (place / "a").write_text("hello")
    other = place.parent / "other-name"
    other.symlink_to(place)
    assert now(other) == HELLO


def test_a_file_that_may_not_be_read_is_not_known_to_be_the_same(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "a").write_text("hello")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert file_hash(str(place / "a")) == UNREADABLE


values = st.sampled_from([ABSENT, UNREADABLE, "aa", "bb"])
files = st.dictionaries(st.sampled_from("abcd"), values)


@given(before=st.none() | files, after=files)
def test_only_what_surely_is_the_same_is_unchanged(
    before: dict[str, str] | None, after: dict[str, str]
) -> None:
    taken = None if before is None else Taken(1, before)
    found = changed(taken, after)
    for path, value in after.items():
        same = before is not None and before.get(path) == value and value != UNREADABLE
        assert (path in found) == (not same)


@given(st.integers(0, 2**53), files)
def test_what_was_taken_is_read_back(at: int, held: dict[str, str]) -> None:
    assert parse(Taken(at, held).as_text()) == Taken(at, held)


@pytest.mark.parametrize(
    "text", [None, "", "{}", "[]", '{"at": 1}', '{"at": "x", "files": {}}', "]"]
)
def test_what_was_not_taken_is_nothing(text: str | None) -> None:
    assert parse(text) is None


def work(state: TaskState, delivered: int, closed: int, role: str = "writer") -> Task:
    return Task("T2", role, "lead", state, 0, delivered_at=delivered, closed_at=closed)


@pytest.mark.parametrize(
    ("other", "shared"),
    [
        (work(TaskState.PICKED_UP, 5, 0), True),
        (work(TaskState.PICKED_UP, 50, 0), False),
        (work(TaskState.REPORTED, 5, 15), True),
        (work(TaskState.REPORTED, 5, 9), False),
        (work(TaskState.LOST, 5, 15), True),
        (work(TaskState.TIMED_OUT, 5, 0), False),
        (work(TaskState.QUEUED, 0, 0), False),
        (work(TaskState.IN_REVIEW, 5, 0), False),
        (work(TaskState.PICKED_UP, 5, 0, "coder"), False),
    ],
)
def test_only_an_owner_at_work_in_that_time_may_have_done_it(other: Task, shared: bool) -> None:
    mine = Task("T1", "coder", "lead", TaskState.IN_REVIEW, 0, delivered_at=10)
    reports = {"R1": Report("R1", "T2", "writer", ReportState.HELD, 8)}
    state = State(tasks={"T1": mine, "T2": other}, reports=reports)
    expected = Verdict.SHARED if shared else Verdict.VIOLATION
    assert verdict(state, mine, 10, 20, ["writer"]) is expected
    assert verdict(state, mine, 10, 20, ["writer", "third"]) is Verdict.VIOLATION
    assert verdict(state, mine, 10, 20, []) is Verdict.CLEAN
