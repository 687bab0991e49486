"""Hooks of the team file while an agent makes their occasions without end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from review_bench import Bench

from deck import desk, hooks
from deck.config import Role


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = await Bench.open(tmp_path, (Role("lead", start=True),))
    yield bench
    await bench.close()


def run(bench: Bench, command: str) -> None:
    bench.desk.hook("on_gate", command, "lead", "a task")


async def test_only_so_many_hooks_run_at_a_time_and_the_others_are_told(bench: Bench) -> None:
    place = bench.directory / "ran"
    place.mkdir()
    for _ in range(20 * desk.MAX_HOOKS):
        run(bench, f"touch {place}/$$; sleep 0.2")
    await bench.settle()
    assert len(list(place.iterdir())) == desk.MAX_HOOKS
    assert len(bench.events("hook not run")) == 19 * desk.MAX_HOOKS
    run(bench, f"touch {place}/later")
    await bench.settle()
    assert (place / "later").exists()


async def test_a_hook_that_takes_too_long_ends_with_all_it_started(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "HOOK_SECONDS", 1.0)
    file = bench.directory / "pid"
    run(bench, f"sleep 600 & echo $! > {file}; wait")
    await bench.settle()
    assert bench.events("hook failed")
    pid = int(file.read_text())
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            break
        if state in "ZX":
            break
        await asyncio.sleep(0.02)
    else:
        os.kill(pid, 9)
        pytest.fail("what the hook had started still runs")
