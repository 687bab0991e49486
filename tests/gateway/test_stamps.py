"""The table of stamps, without processes: whose a session is and what a call is recorded with."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.peers import Peer, Process, bound
from gateway.stamps import (
    MAX_SESSIONS,
    NO_STAMP,
    ORPHAN_SECONDS,
    Change,
    Stamp,
    StampRefused,
    Stamps,
)

DECK, OTHER = Process(10, "b/1"), Process(20, "b/2")


@dataclass
class World:
    """Which processes live, and what time it is."""

    dead: set[Process] = field(default_factory=set)
    now: float = 0.0

    def stamps(self) -> Stamps:
        return Stamps(lambda one: one not in self.dead, lambda: self.now)


def test_a_call_gets_the_latest_task_of_its_role() -> None:
    stamps = World().stamps()
    assert stamps.of("coder") == NO_STAMP
    assert stamps.put(DECK, "run-1", "coder", "") is Change.NAMED
    assert stamps.of("coder") == Stamp("run-1", "")
    assert stamps.put(DECK, "run-1", "coder", "T1") is Change.TASK
    assert stamps.put(DECK, "run-1", "coder", "T1") is Change.NOTHING
    assert stamps.put(DECK, "run-1", "coder", "T2") is Change.TASK
    assert stamps.of("coder") == Stamp("run-1", "T2")
    assert stamps.of("reviewer") == NO_STAMP
    assert stamps.put(DECK, "run-1", "coder", "") is Change.CLEARED
    assert stamps.leave(DECK, "run-1", "coder") is Change.NOTHING
    assert stamps.of("coder") == NO_STAMP
    assert not stamps.is_deck(DECK)


def test_a_session_belongs_to_its_first_process_until_that_is_gone() -> None:
    world = World()
    stamps = world.stamps()
    stamps.put(DECK, "r", "coder", "T1")
    for attempt in (
        lambda: stamps.put(OTHER, "r", "coder", "T9"),
        lambda: stamps.leave(OTHER, "r", "coder"),
        # The pid alone is not the process.
        lambda: stamps.put(Process(10, "b/9"), "r", "coder", "T9"),
    ):
        with pytest.raises(StampRefused, match="process 10"):
            attempt()
    assert stamps.of("coder") == Stamp("r", "T1")
    world.dead.add(DECK)
    assert stamps.put(OTHER, "r", "coder", "T2") is Change.TASK
    assert stamps.of("coder") == Stamp("r", "T2")
    with pytest.raises(StampRefused):
        stamps.put(DECK, "r", "coder", "T3")


def test_a_dead_decks_stamps_are_in_doubt_and_then_forgotten() -> None:
    world = World()
    stamps = world.stamps()
    stamps.put(DECK, "r", "coder", "T1")
    world.dead.add(DECK)
    stamps.sweep()
    assert stamps.of("coder") == Stamp("r", "T1", "orphaned")
    world.now = ORPHAN_SECONDS + 1
    stamps.sweep()
    assert stamps.of("coder") == NO_STAMP


def test_a_role_of_two_living_decks_has_no_guessed_task() -> None:
    world = World()
    stamps = world.stamps()
    stamps.put(DECK, "r1", "coder", "T1")
    stamps.put(OTHER, "r2", "coder", "T7")
    assert stamps.of("coder") == Stamp(doubt="ambiguous")
    world.dead.add(DECK)
    stamps.sweep()
    assert stamps.of("coder") == Stamp("r2", "T7")


@pytest.mark.parametrize(
    ("session", "role", "task"),
    [("", "a", "T1"), ("s", "", "T1"), ("s", "a/b", "T1"), ("s", "a", "a b"), ("s" * 65, "a", "")],
)
def test_names_that_could_be_texts_are_refused(session: str, role: str, task: str) -> None:
    with pytest.raises(StampRefused):
        World().stamps().put(DECK, session, role, task)


def test_sessions_are_bounded_and_dead_ones_make_room() -> None:
    world = World()
    stamps = world.stamps()
    for number in range(MAX_SESSIONS):
        stamps.put(Process(100 + number, "b"), f"r{number}", "a", "")
    with pytest.raises(StampRefused, match="already"):
        stamps.put(OTHER, "one-more", "a", "")
    world.dead.add(Process(100, "b"))
    stamps.put(OTHER, "one-more", "a", "")


def test_a_restarted_gateway_knows_the_stamps_of_living_decks() -> None:
    world = World()
    before = world.stamps()
    before.put(DECK, "r", "coder", "T1")
    before.put(OTHER, "q", "tester", "T2")
    world.dead.add(OTHER)
    after = world.stamps()
    after.load(before.dump())
    assert after.of("coder") == Stamp("r", "T1")
    assert after.of("tester") == Stamp("q", "T2", "orphaned")
    with pytest.raises(StampRefused):
        after.put(OTHER, "r", "coder", "T9")


@given(st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from(["session", "pid", "started", "roles", "x"]), x)))  # fmt: skip
def test_what_is_no_dump_is_passed_over(dumped: object) -> None:
    World().stamps().load(dumped)


# -- who is an operator ---


def test_below_a_stamping_deck_nobody_is_an_operator() -> None:
    me = Process(30, "b/3")
    deck_only = {DECK}.__contains__
    assert bound(Peer(me, 0, above=(OTHER,)), deck_only) is None
    assert "team" in str(bound(Peer(me, 0, above=(OTHER, DECK)), deck_only))
    assert "team" in str(bound(Peer(me, 0, above=(OTHER,), marked=True), deck_only))
    assert "traced" in str(bound(Peer(me, 0, traced=False), deck_only))
    assert bound(Peer(DECK, 0, above=(OTHER,)), deck_only) is None
