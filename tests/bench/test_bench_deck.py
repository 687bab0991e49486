"""How fast a deck hands work out and how much memory it takes, beside its own limits."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bench_table import Row, show
from deck_harness import DeckRig, agent_role

from deck.protocol import Verb

pytestmark = pytest.mark.bench

#: From `delegate` to the line read by an idle agent, the wait before Enter included.
VISIBLE_SECONDS = 0.6
#: A detached deck with five idle panes.
SERVER_MB = 60.0
ROUNDS = 15
NAMES = ("ant", "bee", "cat", "dog")


def test_an_idle_pane_has_its_line_well_within_the_limit(tmp_path: Path) -> None:
    rig = DeckRig(tmp_path)
    try:
        rig.git()
        rig.team(agent_role("orchestrator"), *(agent_role(name) for name in NAMES))
        rig.serve()
        rig.wait_idle("orchestrator", *NAMES)
        idle = memory(rig.pid())
        pings = sorted(timed(lambda: rig.send(Verb.PING)) for _ in range(100))
        by_socket = sorted(
            visible(rig, name, lambda name=name: rig.delegate(name, "x"))
            for _ in range(ROUNDS)
            for name in NAMES
        )
        by_command = sorted(
            visible(rig, name, lambda name=name: command(rig, name))
            for _ in range(ROUNDS)
            for name in NAMES
        )
        begun = time.monotonic()
        for number in range(25):
            rig.send(Verb.DELEGATE, to=NAMES, task=f"job {number}")
        accepted = time.monotonic() - begun
        rig.wait(lambda: all(len(rig.seen(name)) == 1 + 2 * ROUNDS + 25 for name in NAMES), 120)
        delivered = time.monotonic() - begun
    finally:
        rig.close()
    ms = 1000
    show(
        "deck",
        [
            *(
                Row(f"{what}, {share}", value * ms, "ms", VISIBLE_SECONDS * ms)
                for what, seen in (
                    ("delegate by socket to line read by an idle agent", by_socket),
                    ("choragos delegate to line read by an idle agent", by_command),
                )
                for share, value in (("p50", seen[len(seen) // 2]), ("p95", p95(seen)))
            ),
            Row("ping, p95", p95(pings) * ms, "ms", 500.0),
            Row("one of 100 delegations accepted, durable", accepted / 100 * ms, "ms", 200.0),
            # Enter is sent 200 ms after the text, so no pane can take lines faster than that.
            Row("one of 25 lines into one pane", delivered / 25 * ms, "ms", None),
            Row(
                "detached deck with five idle panes, resident",
                idle["Rss"],
                "MB",
                SERVER_MB,
                beside=f"Pss {idle['Pss']:.1f} MB, private {idle['Private']:.1f} MB",
            ),
        ],
    )
    assert p95(by_socket) / VISIBLE_SECONDS < 5


def test_an_errand_costs_little_more_than_the_interpreter(tmp_path: Path) -> None:
    rig = DeckRig(tmp_path)
    try:
        rig.team(agent_role("orchestrator"), agent_role("ant"))
        rig.serve()
        rig.wait_idle("orchestrator", "ant")
        bare = cpu([sys.executable, "-c", "pass"], rig)
        errand = cpu([*choragos(rig), "work-done", "--task", "x"], rig)
        long_way = cpu([*choragos(rig), "gates"], rig)
    finally:
        rig.close()
    rows = [
        Row("python -c pass", bare * 1000, "ms CPU"),
        Row("choragos work-done", errand * 1000, "ms CPU", 150.0),
        Row("choragos gates", long_way * 1000, "ms CPU"),
    ]
    show("what a verb costs", rows)


def choragos(rig: DeckRig) -> list[str]:
    """The console script where it is installed, as agents run it."""
    script = Path(sys.executable).with_name("choragos")
    return [str(script)] if script.exists() else [sys.executable, "-m", "deck.cli"]


def command(rig: DeckRig, name: str) -> None:
    """Delegate as people and agents do."""
    line = [*choragos(rig), "delegate", "--to", name, "--task", "x"]
    subprocess.run(line, cwd=rig.dir, env=rig.env, check=True, stdout=subprocess.DEVNULL)


def visible(rig: DeckRig, name: str, act: Callable[[], object]) -> float:
    """Seconds from the beginning of an act until the agent has read one more line."""
    rig.wait(lambda: rig.role(name)["state"] == "idle")
    before = len(rig.seen(name))
    begun = time.monotonic()
    act()
    while len(rig.seen(name)) == before:
        time.sleep(0.005)
    return time.monotonic() - begun


def timed(action: Callable[[], object]) -> float:
    begun = time.monotonic()
    action()
    return time.monotonic() - begun


def cpu(line: list[str], rig: DeckRig) -> float:
    """The median CPU time of a program, in seconds."""
    spent = []
    for _ in range(7):
        child = subprocess.Popen(
            line, cwd=rig.dir, env=rig.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = status
        spent.append(used.ru_utime + used.ru_stime)
    return sorted(spent)[len(spent) // 2]


def p95(ordered: list[float]) -> float:
    return ordered[int(len(ordered) * 0.95)]


def memory(pid: int) -> dict[str, float]:
    """MB a process has in memory: resident, its share of it, and its alone."""
    found = {"Rss": 0.0, "Pss": 0.0, "Private": 0.0}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        name, _, value = line.partition(":")
        for wanted in found:
            if name == wanted or (wanted == "Private" and name.startswith("Private_")):
                found[wanted] += int(value.split()[0]) / 1024
    return found
