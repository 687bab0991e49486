"""Roles that start anew for each task."""

from __future__ import annotations

import time
from pathlib import Path

from deck_harness import DeckRig, agent_role

from deck.protocol import Verb


def test_each_task_has_a_process_of_its_own_which_is_told_what_the_last_one_left(
    rig: DeckRig,
) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder", "report", fresh=True))
    started = rig.cli("serve", "--detach", "--no-sphragis")
    assert "fresh" not in started.stderr
    rig.wait_idle("coder")
    first = rig.role("coder")["pid"]
    rig.delegate("coder", "one")
    rig.wait_task("T1", "reported")
    # It had been there before the task.
    between = rig.role("coder")["pid"]
    assert between not in (0, first)
    (rig.state_dir / "handoff-coder.md").write_text("the tests need a database\n")
    rig.delegate("coder", "two")
    rig.wait_task("T2", "reported")
    second = rig.role("coder")["pid"]
    assert second not in (0, first, between)
    rig.wait(lambda: not Path(f"/proc/{between}").exists())
    names = [line.split("/")[-1].split(" ")[0] for line in rig.seen("coder") if "Read" in line]
    assert names == ["coder-brief.md", "coder-brief.md", "T1.md", "coder-brief.md", "T2.md"]
    assert "handoff" not in (rig.state_dir / "tasks" / "T1.md").read_text()
    assert "handoff-coder.md" in (rig.state_dir / "tasks" / "T2.md").read_text()
    assert (
        "- coder: Work. (fresh: starts anew for each task)"
        in (rig.state_dir / "orchestrator-context.md").read_text()
    )
    assert rig.events().count('msg="fresh respawn" role=coder id=T1') == 1
    assert rig.events().count('msg="fresh respawn" role=coder id=T2') == 1
    assert rig.role("coder")["restarts"] == 0


def test_nothing_is_ended_that_is_not_reported_yet(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder", fresh=True))
    rig.serve()
    rig.wait_idle("coder")
    first = rig.role("coder")["pid"]
    rig.delegate("coder", "one")
    rig.wait_task("T1", "submitted", "picked-up")
    assert rig.role("coder")["pid"] != first
    first = rig.role("coder")["pid"]
    rig.delegate("coder", "two")
    said = "T1 is not reported yet, and coder starts anew for each task"
    rig.wait(lambda: rig.task("T2")["reason"] == said)
    time.sleep(0.5)
    assert rig.role("coder")["pid"] == first
    rig.send(Verb.WORK_DONE, id="T1", task="done")
    rig.wait_task("T2", "submitted", "picked-up")
    assert rig.role("coder")["pid"] != first


def test_a_role_that_cannot_start_anew_keeps_its_task_in_plain_sight(rig: DeckRig) -> None:
    program = rig.dir / "agent"
    program.write_text(f"#!/bin/sh\nexec {agent_role('x')['command']} agent.py report\n")
    program.chmod(0o755)
    role = {"name": "coder", "command": str(program), "fresh": True}
    rig.team(agent_role("orchestrator"), {**role, "restart": "on-failure", "restart_retries": 2})
    rig.serve()
    rig.wait_idle("coder")
    rig.delegate("coder", "one")
    rig.wait_task("T1", "reported")
    text = program.read_text()
    program.unlink()
    rig.delegate("coder", "two")
    row = rig.wait(lambda: "anew" in (t := rig.task("T2"))["reason"] and t)
    assert (row["state"], "is not on PATH" in row["reason"]) == ("queued", True)
    rig.wait_task("T2", "lost")
    assert "is not on PATH" in rig.task("T2")["reason"]
    assert rig.delegate("coder", "three")["state"] == "refused"
    program.write_text(text)
    program.chmod(0o755)
    assert rig.cli("restart", "coder").returncode == 0
    assert rig.cli("again", "T2").returncode == 0
    rig.wait_task("T2", "reported")
