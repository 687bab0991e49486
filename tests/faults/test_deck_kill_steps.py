"""kill -9 of the deck at one exact step: the record is durable and its effect has not happened, or
the record was not written at all. Each time the next deck shows a board that is true.

The deck under test is the real program, told by a wrapper at which record it kills itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from deck_harness import DeckRig, FakeGateway, agent_role
from preloaded import Running

from deck.protocol import Verb
from deck.sessions import SessionError
from shared.ledger import verify_path

#: Runs a deck that ends itself by SIGKILL before or after the first record of a kind is durable.
DYING = """
import os, signal, sys, time
from deck.journal import Journal
op, state, when = sys.argv[1:4]
def hit(entry):
    return entry.op == op and (not state or entry.state == state)
def die():
    os.kill(os.getpid(), signal.SIGKILL)
record, durable = Journal.record, Journal._durable
def dying_record(self, entry):
    if when == "before" and hit(entry):
        # What was noted before it is written by another thread.
        time.sleep(0.3)
        die()
    return record(self, entry)
async def dying_durable(self, entry, waiter):
    receipt = await waiter
    if when == "after" and hit(entry):
        die()
    done = __import__("asyncio").get_running_loop().create_future()
    done.set_result(receipt)
    return await durable(self, entry, done)
Journal.record, Journal._durable = dying_record, dying_durable
import deck.host as host
sys.exit(host.main(sys.argv[4:]))
"""


def dies_at(
    rig: DeckRig, step: tuple[str, str, str], *flags: str
) -> subprocess.Popen[bytes] | Running:
    deck = rig.program(DYING, *step, "--resume=0", *(flags or ("--sphragis=0",)))
    rig.wait(lambda: deck.poll() is not None or rig.status()["phase"] == "running")
    return deck


def tried(work: Callable[[], Any]) -> Any:
    """The deck may die before it answers."""
    try:
        return work()
    except (SessionError, OSError, KeyError):
        return None


def fell(deck: subprocess.Popen[bytes] | Running) -> bool:
    return deck.wait(40) == -signal.SIGKILL


def sound(rig: DeckRig) -> None:
    """Nobody is orphaned and the evidence is whole."""
    assert rig.cli("kill").returncode == 0
    assert rig.marked() == []
    assert verify_path(rig.state_dir / "ledger").exit_code == 0


@pytest.mark.parametrize(
    ("step", "state", "typed"),
    [
        (("task-added", "", "before"), None, {0, 1}),  # the next task has its number
        (("task-added", "", "after"), "delivered", {1}),
        (("task-moved", "typed", "before"), "delivered", {1}),
        (("task-moved", "typed", "after"), "lost", {0}),
        (
            ("task-moved", "submitted", "after"),
            "lost",
            {0, 1},
        ),  # a dying terminal takes unread lines
        (("task-moved", "picked-up", "after"), "lost", {1}),
    ],
)
def test_a_delegation_is_on_the_next_board_exactly_once(
    rig: DeckRig, step: tuple[str, str, str], state: str | None, typed: set[int]
) -> None:
    """Before its record a task was never accepted; after it, it goes out once or is lost."""
    rig.team(agent_role("orchestrator"), agent_role("coder", "busy"))
    deck = dies_at(rig, step)
    rig.wait_idle("coder")
    ack = tried(lambda: rig.delegate("coder", "one"))
    assert fell(deck)
    started = rig.serve()
    assert "the last session crashed" in started.stderr
    tasks = rig.status()["tasks"]
    if state is None:
        assert (tasks, ack) == ([], None)
        assert rig.delegate("coder", "two")["id"] == "T1"
    elif state == "lost":
        assert [task["state"] for task in tasks] == ["lost"]
        assert "choragos again --all" in started.stderr
    else:
        rig.wait_task("T1", "submitted", "picked-up")
        assert rig.delegate("coder", "two")["id"] == "T2"
    assert sum("tasks/T1.md" in line for line in rig.seen("coder")) in typed
    sound(rig)


@pytest.mark.parametrize(
    ("step", "reported"),
    [
        (("report-added", "", "before"), False),
        (("report-added", "", "after"), True),
        (("report-moved", "typed", "after"), True),
        (("report-moved", "delivered", "before"), True),
    ],
)
def test_a_report_is_lost_only_if_it_was_never_acknowledged(
    rig: DeckRig, step: tuple[str, str, str], reported: bool
) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"))
    deck = dies_at(rig, step)
    rig.wait_idle("coder")
    rig.delegate("coder", "one")
    rig.wait_task("T1", "submitted", "picked-up")
    ack = tried(lambda: rig.send(Verb.WORK_DONE, id="T1", task="it works"))
    assert fell(deck)
    rig.serve()
    if reported:
        assert rig.task("T1")["state"] == "reported"
        rig.wait(lambda: "A worker reports: it works" in rig.seen("orchestrator"))
    else:
        assert not ack
        assert rig.task("T1")["state"] == "lost"
        # The worker's late word counts.
        assert rig.send(Verb.WORK_DONE, id="T1", task="it works")["resolved"]
    sound(rig)


@pytest.mark.parametrize(
    ("step", "approved"),
    [
        (("gate-opened", "", "before"), False),
        (("gate-opened", "", "after"), False),
        (("gate-decided", "approved", "before"), False),
        (("gate-decided", "approved", "after"), True),
    ],
)
def test_nothing_goes_out_that_was_not_approved_and_what_was_does(
    rig: DeckRig, step: tuple[str, str, str], approved: bool
) -> None:
    rig.team(agent_role("orchestrator"), agent_role("release", approve=True))
    deck = dies_at(rig, step)
    rig.wait_idle("release")
    tried(lambda: rig.delegate("release", "ship it"))
    tried(lambda: rig.send(Verb.APPROVE, id="G1"))
    assert fell(deck)
    rig.serve()
    if not approved and not rig.status()["tasks"]:
        # Task and gate are one step; here neither had been written.
        assert step == ("gate-opened", "", "before")
        return
    if not approved:
        assert rig.task("T1")["state"] == "gated"
        rig.wait_idle("release")
        assert not any("T1" in line for line in rig.seen("release"))
        assert rig.cli("approve", "G1").returncode == 0
    rig.wait_task("T1", "submitted", "picked-up")
    sound(rig)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_budget_that_fired_still_holds_and_one_that_was_about_to_fires(
    rig: DeckRig, when: str
) -> None:
    gateway = FakeGateway()
    tail = f'[sphragis]\nenabled = true\naddr = "{gateway.addr}"\n[pricing."m"]\ninput = 10.0\n'
    coder = agent_role("coder", budget="1.00", budget_action="pause")
    rig.team(agent_role("orchestrator"), coder, tail=tail)
    deck = dies_at(rig, ("budget-exceeded", "", when), "--sphragis=1")
    rig.wait_idle("coder")
    line = 'sphragis_tokens_total{{agent="coder",model="m-1",direction="input"}} {}\n'
    gateway.metrics = line.format(150_000)
    # Looking counts, at most once a second.
    rig.wait(lambda: not tried(rig.status))
    assert fell(deck)
    rig.serve("--sphragis")
    if when == "before":
        # What had been counted is on record, and the next count sees it.
        gateway.metrics = line.format(150_001)
    rig.wait(lambda: rig.role("coder")["state"] == "paused")
    row = rig.status()["usage"][1]
    assert (row["cost_usd"], row["exceeded"]) == (1.5, True)
    sound(rig)
    gateway.close()


def test_a_handover_that_was_under_way_is_a_crash_and_a_finished_one_is_not(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"))
    deck = dies_at(rig, ("handoff-ended", "", "before"))
    rig.wait_idle("orchestrator")
    assert rig.send(Verb.HANDOFF)["status"] == "ok"
    rig.wait(lambda: any("Hand this session over" in s for s in rig.seen("orchestrator")))
    (rig.state_dir / "handoff-session.md").write_text("All is well.\n")
    assert fell(deck)
    assert "the last session crashed" in rig.serve().stderr
    assert "handoff-session.md" not in (rig.state_dir / "orchestrator-context.md").read_text()
    os.kill(rig.pid(), signal.SIGKILL)


def test_a_command_that_was_not_answered_is_not_told_as_done(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"))
    deck = dies_at(rig, ("report-added", "", "before"))
    said = rig.cli("work-done", "--task", "it works")
    assert (said.returncode, said.stdout) == (1, "")
    assert "ended before it answered" in said.stderr
    assert fell(deck)
