"""The board as a person sees it: readable on any terminal, and what waits for them in sight."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest
from deck_harness import DeckRig, agent_role
from rich.console import Console

from deck.cli.live import render, render_evidence, render_live

LONG = "Implement the parser for [bold]every[/bold] key, with tests, and say what was hard " * 3


def role(name: str, **fields: Any) -> dict[str, Any]:
    row = {"name": name, "state": "idle", "pid": 1234567, "waiting": 0, "question": "", "exit": ""}
    return {**row, "held": "", **fields}


def task(number: int, state: str, **fields: Any) -> dict[str, Any]:
    at = int(time.time() * 1e6)
    row = {"id": f"T{number}", "role": "coder", "state": state, "from": "orchestrator", "at": at}
    return {**row, "label": LONG, "reason": "", **fields}


def status(tasks: list[dict[str, Any]], gates: int = 0) -> dict[str, Any]:
    return {
        "dir": "/w",
        "phase": "running",
        "finished": False,
        "gateway": {"on": True, "up": True, "url": "http://127.0.0.1:8787", "reason": ""},
        "roles": [role("orchestrator"), role("coder", state="blocked", question=f"{LONG} (y/n)")],
        "tasks": tasks,
        "usage": [{"role": "coder", "in": 1_234_567, "out": 99_999, "cost_usd": 12.3456}],
        "gates": [{"id": f"G{n}", "state": "open", "label": LONG} for n in range(1, gates + 1)],
        "reports": [],
        "journal": {"failure": None},
    }


def drawn(renderable: Any, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(renderable)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 200])
def test_ids_states_and_names_are_whole_and_each_row_is_one_line(width: int) -> None:
    tasks = [task(1, "picked-up"), task(22, "timed-out", reason=LONG), task(333, "gated")]
    lines = drawn(render(status(tasks)), width)
    assert all(len(line) <= width for line in lines)
    for row in tasks:
        (line,) = [line for line in lines if line.startswith(f"{row['id']} ")]
        assert f" {row['state']} " in line
        assert " orchestrator " in line
    text = "\n".join(lines)
    assert "1234567" in text
    assert "$12.35" in text
    assert "[bold]" in text or width < 200


def test_the_status_of_a_role_names_what_it_was_read_from_and_since_when() -> None:
    found = status([])
    found["roles"][0] |= {"seconds": 75.0, "evidence": "signal: OSC 7501 idle"}
    found["roles"][1] |= {"seconds": 3.0, "evidence": f"screen: {LONG}"}
    lines = drawn(render_evidence(found), 100)
    (lead,) = [line for line in lines if line.startswith("orchestrator ")]
    assert " idle " in lead
    assert " 1m " in lead
    assert "signal: OSC 7501 idle" in lead
    assert all(len(line) <= 100 for line in lines)
    assert len(lines) == 4


@pytest.mark.parametrize("height", [10, 24, 45])
def test_on_a_low_terminal_finished_work_gives_way_to_what_waits(height: int) -> None:
    tasks = [task(n, "reported" if n % 4 else "lost") for n in range(1, 41)]
    lines = drawn(render_live(status(tasks, gates=2), height), 100)
    assert sum(line.startswith("T") for line in lines) >= 3
    assert "T40 " in "\n".join(lines)
    if height > 20:
        assert any("choragos approve G2" in line for line in lines[:height])
        assert len(lines) <= height
    assert any("more task(s)" in line for line in lines)
    if height == 24:
        shown = [line for line in lines if line.startswith("T")]
        assert all("lost" in line for line in shown)


def test_nothing_is_hidden_where_there_is_room() -> None:
    lines = drawn(render(status([task(n, "reported") for n in range(30)])), 100)
    assert sum(line.startswith("T") for line in lines) == 30
    assert not any("more task(s)" in line for line in lines)


def test_ctrl_c_in_the_foreground_stops_the_deck_and_restores_the_terminal(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"))
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    deck = subprocess.Popen(
        [sys.executable, "-m", "deck.cli", "serve", "--no-sphragis"],
        cwd=rig.dir, env=rig.env, stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True,
    )  # fmt: skip
    rig.wait(lambda: rig.status()["phase"] == "running")
    rig.wait(lambda: not termios.tcgetattr(theirs)[3] & termios.ECHO)
    deck.send_signal(signal.SIGINT)
    seen = b""
    while select.select([ours], [], [], 0.2)[0] or deck.poll() is None:
        if select.select([ours], [], [], 0)[0]:
            seen += os.read(ours, 65536)
    assert deck.returncode == 0
    assert b"Traceback" not in seen
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l"), "the cursor is shown again"
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("seconds", [0.02, 0.06, 0.12, 0.2, 0.3, 0.45])
def test_ctrl_c_before_the_deck_is_up_is_no_traceback(rig: DeckRig, seconds: float) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"))
    deck = subprocess.Popen(
        [str(Path(sys.executable).with_name("choragos")), "serve", "--no-sphragis"],
        cwd=rig.dir, env=rig.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(0.1 + seconds)
    deck.send_signal(signal.SIGINT)
    _, said = deck.communicate(timeout=60)
    assert "Traceback" not in said
    assert rig.marked() == []


def test_a_task_of_which_nobody_kept_when_has_no_age() -> None:
    lines = drawn(render(status([task(1, "refused", at=0, label="", reason="")])), 80)
    (line,) = [line for line in lines if line.startswith("T1 ")]
    assert line.split() == ["T1", "coder", "refused", "orchestrator", "-"]
