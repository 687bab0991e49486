"""Who speaks and what they may do: pure, given what the kernel says."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck import processes
from deck.board import Child, State
from deck.callers import Caller, Kind, Peer, identify, objection, peer_of
from deck.entries import Entry, Op, TaskState
from deck.protocol import Command, Verb
from deck.replay import replay

PANES = {100: "orchestrator", 200: "coder"}
DECK = 50


def who(
    *ancestors: int, mark: str = "", token: str | None = None, traceable: bool = True
) -> Caller:
    peer = Peer(ancestors[0] if ancestors else 0, ancestors, mark, traceable)
    return identify(peer, panes=PANES, deck_pid=DECK, session="s1", token_role=token)


def test_a_process_below_a_pane_is_its_role_whatever_token_it_shows() -> None:
    assert who(300, 250, 200, DECK, 1).name == "coder"
    assert who(300, 250, 200, DECK, 1, token="orchestrator").name == "coder"


def test_a_process_from_outside_is_an_operator() -> None:
    assert who(900, 800, 1).kind is Kind.OPERATOR
    assert who(900, 800, 1, mark="other:coder").kind is Kind.OPERATOR


def test_a_mark_or_a_token_lowers_a_process_from_outside_to_its_role() -> None:
    assert who(900, 1, mark="s1:coder") == Caller(Kind.ROLE, "coder", 900)
    assert who(900, 1, token="coder") == Caller(Kind.ROLE, "coder", 900)


def test_what_descends_from_the_deck_or_cannot_be_traced_is_never_an_operator() -> None:
    assert who(900, DECK, 1).kind is Kind.NOBODY
    assert who(DECK, 1).kind is Kind.NOBODY
    assert who().kind is Kind.NOBODY
    assert who(900, DECK, 1, token="coder").name == "coder"


@given(
    st.lists(st.sampled_from([1, DECK, 100, 200, 300, 400]), unique=True, max_size=5),
    st.sampled_from(["", "s1:coder", "s2:coder", "s1:"]),
    st.sampled_from([None, "coder", "orchestrator"]),
)
def test_nothing_that_touches_the_team_is_ever_an_operator(
    ancestors: list[int], mark: str, token: str | None
) -> None:
    caller = who(*ancestors, mark=mark, token=token)
    inside = bool({DECK, 100, 200} & set(ancestors)) or mark == "s1:coder" or token is not None
    assert not (inside and caller.kind is Kind.OPERATOR)


STATE = replay(
    [
        Entry(Op.SESSION_STARTED, 1, run="r"),
        Entry(Op.TASK_ADDED, 2, id="T1", role="coder", state=TaskState.QUEUED),
        Entry(Op.TASK_ADDED, 3, id="T2", role="reviewer", state=TaskState.QUEUED),
    ]
)


LEADING = (Verb.DELEGATE, Verb.ROSTER_ADD, Verb.HANDOFF, Verb.WORK_DONE, Verb.NOTE)


def allowed(caller: Caller, verb: Verb, task_id: str = "") -> bool:
    return objection(caller, Command(verb, id=task_id), STATE, "orchestrator") is None


def test_each_verb_has_those_who_may_use_it() -> None:
    operator, nobody = Caller(Kind.OPERATOR), Caller(Kind.NOBODY, pid=7)
    start, worker = Caller(Kind.ROLE, "orchestrator"), Caller(Kind.ROLE, "coder")
    for verb in Verb:
        assert allowed(operator, verb)
        reading = verb in (Verb.PING, Verb.STATUS, Verb.GATES)
        assert allowed(nobody, verb) == reading
        # What is shown may hold texts: only to somebody.
        reading = reading or verb is Verb.SHOW
        leading = verb in LEADING
        assert allowed(start, verb) == (reading or leading)
        assert allowed(worker, verb) == (reading or verb in (Verb.WORK_DONE, Verb.NOTE))


@pytest.mark.parametrize(("task", "fits"), [("T1", True), ("T2", False), ("", True), ("T9", True)])
def test_a_worker_reports_its_own_tasks_and_unknown_ones(task: str, fits: bool) -> None:
    assert allowed(Caller(Kind.ROLE, "coder"), Verb.WORK_DONE, task) == fits


def test_this_process_is_traced_to_the_root_and_a_dead_one_to_nothing() -> None:
    peer = peer_of(os.getpid())
    assert peer.ancestors[0] == os.getpid()
    assert os.getppid() in peer.ancestors
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    assert peer_of(dead.pid).ancestors == ()


def test_a_reused_pid_is_not_taken_for_the_process_that_was() -> None:
    me = processes.child(os.getpid())
    assert processes.is_alive(me)
    assert not processes.is_alive(Child(me.pid, me.born + 1))


def test_the_empty_board_objects_to_nobodys_report() -> None:
    assert objection(Caller(Kind.ROLE, "x"), Command(Verb.WORK_DONE), State(), "o") is None
