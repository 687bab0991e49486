"""Much at once and bad moments: nobody's queue is filled, and nobody is turned away in between."""

from __future__ import annotations

import os
import signal
import time

from deck_harness import DeckRig, agent_role

from deck.delivery import MAX_NOTICES, MORE_NOTICES
from deck.protocol import Verb


def test_refusals_without_end_become_a_few_notices_and_each_is_told_once(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator", "blocked"), agent_role("coder"))
    rig.serve()
    rig.wait(lambda: rig.role("orchestrator")["state"] == "blocked")
    for _ in range(30):
        rig.send(Verb.DELEGATE, to=("codre",), task="the same mistake")
    assert rig.role("orchestrator")["waiting"] <= 2
    for number in range(150):
        rig.send(Verb.DELEGATE, to=(f"nobody{number}",), task="another mistake")
    assert rig.role("orchestrator")["waiting"] <= MAX_NOTICES + 2
    assert rig.events().count("delegate target unavailable") == 180
    assert rig.send(Verb.WORK_DONE, task="a report comes through")["status"] == "ok"
    (rig.dir / "answered").touch()
    rig.wait(lambda: sum("codre refused" in line for line in rig.seen("orchestrator")) == 1)
    assert not any(MORE_NOTICES in line for line in rig.seen("orchestrator")[:2])


def test_a_report_typed_into_a_start_role_that_dies_is_told_to_the_next(rig: DeckRig) -> None:
    rig.team(
        agent_role("orchestrator", restart="on-failure", restart_retries=9), agent_role("coder")
    )
    rig.serve()
    rig.wait(lambda: rig.seen("orchestrator") and rig.role("orchestrator")["state"] == "idle")
    lead = rig.role("orchestrator")["pid"]
    # It neither reads nor answers any more, and then dies with the line in its terminal.
    os.kill(lead, signal.SIGSTOP)
    rig.send(Verb.WORK_DONE, task="the only report")
    rig.wait(lambda: rig.status()["reports"][0]["state"] == "typed")
    os.kill(lead, signal.SIGKILL)
    rig.wait(lambda: "A worker reports: the only report" in rig.seen("orchestrator"))
    rig.wait(lambda: rig.status()["reports"][0]["state"] == "delivered")


def test_a_role_that_is_being_started_again_takes_work_all_the_while(rig: DeckRig) -> None:
    rig.team(
        agent_role("orchestrator"),
        agent_role("coder", "report", restart="on-failure", restart_retries=9),
    )
    rig.serve()
    states: list[str] = []
    for _ in range(2):
        rig.wait_idle("coder")
        os.kill(rig.role("coder")["pid"], signal.SIGKILL)
        before = rig.role("coder")["restarts"]
        rig.wait(lambda before=before: rig.role("coder")["restarts"] > before)
        deadline = time.monotonic() + 10
        while rig.role("coder")["state"] in ("exited", "booting") and time.monotonic() < deadline:
            states.append(rig.delegate("coder", "meanwhile")["state"])
            time.sleep(0.003)
            if len(states) % 40 == 0:
                time.sleep(0.1)
    assert set(states) == {"queued"}
