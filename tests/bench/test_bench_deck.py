"""How fast a deck hands work out, beside its own limits in the same run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from deck_harness import DeckRig, agent_role
from rich.console import Console
from rich.table import Table

from deck.protocol import Verb

pytestmark = pytest.mark.bench

#: From `delegate` to the line in an idle pane, the wait before Enter included.
VISIBLE_LIMIT_SECONDS = 0.6
ROUNDS = 15
NAMES = ("ant", "bee", "cat", "dog")


def test_an_idle_pane_has_its_line_well_within_the_limit(tmp_path: Path) -> None:
    rig = DeckRig(tmp_path)
    try:
        rig.git()
        rig.team(agent_role("orchestrator"), *(agent_role(name) for name in NAMES))
        rig.serve()
        rig.wait_idle("orchestrator", *NAMES)
        pings = sorted(_timed(lambda: rig.send(Verb.PING)) for _ in range(100))
        seen = sorted(_visible(rig, name) for _ in range(ROUNDS) for name in NAMES)
        begun = time.monotonic()
        for number in range(25):
            rig.send(Verb.DELEGATE, to=NAMES, task=f"job {number}")
        accepted = time.monotonic() - begun
        rig.wait(lambda: all(len(rig.seen(name)) == 1 + ROUNDS + 25 for name in NAMES), 120)
        delivered = time.monotonic() - begun
    finally:
        rig.close()
    table = Table("measure", "value", "limit", "ratio", title="deck")
    p95 = seen[int(len(seen) * 0.95)]
    for name, value, limit in (
        (
            "delegate to line read by an idle agent, p50",
            seen[len(seen) // 2],
            VISIBLE_LIMIT_SECONDS,
        ),
        ("delegate to line read by an idle agent, p95", p95, VISIBLE_LIMIT_SECONDS),
        ("ping, p95", pings[95], 0.5),
        ("one of 100 delegations accepted, durable", accepted / 100, 0.2),
        # Enter is sent 200 ms after the text, so no pane can take lines faster than that.
        ("one of 25 lines into one pane", delivered / 25, 0.2),
    ):
        table.add_row(
            name, f"{value * 1000:.1f} ms", f"{limit * 1000:.0f} ms", f"{value / limit:.2f}"
        )
    Console(width=100).print(table)
    assert p95 / VISIBLE_LIMIT_SECONDS < 5


def _visible(rig: DeckRig, name: str) -> float:
    before = len(rig.seen(name))
    begun = time.monotonic()
    rig.delegate(name, "x")
    while len(rig.seen(name)) == before:
        time.sleep(0.005)
    return time.monotonic() - begun


def _timed(action: object) -> float:
    begun = time.monotonic()
    assert callable(action)
    action()
    return time.monotonic() - begun
