"""A review whose records end differently than any deck would write: the next deck starts, and what
was refused anywhere is not accepted."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from review_bench import Bench

from deck.config import Role
from deck.entries import Entry, LoopState, Op, ReportState, TaskState
from deck.moves import LOOP_MOVES, TASK_MOVES
from deck.settling import Settling

TEAM = (Role("lead", start=True), Role("coder", judge="critic"), Role("critic"))
#: What may come after a task that its judge was asked about, by the tables alone.
LOOP_ENDS = (None, *sorted(LOOP_MOVES[LoopState.JUDGING]))
TASK_ENDS = (None, *sorted(TASK_MOVES[TaskState.IN_REVIEW]))


async def asked(tmp_path: Path) -> tuple[Bench, list[Entry]]:
    bench = await Bench.open(tmp_path, TEAM)
    await bench.given("coder")
    await bench.report("coder", "T1")
    assert bench.loop() is LoopState.JUDGING
    return bench, await bench.entries()


@pytest.mark.parametrize(("loop", "task"), list(itertools.product(LOOP_ENDS, TASK_ENDS)))
async def test_however_a_journal_ends_the_next_deck_starts_and_accepts_nothing_refused(
    tmp_path: Path, loop: LoopState | None, task: TaskState | None
) -> None:
    bench, entries = await asked(tmp_path)
    at = entries[-1].at + 1
    if loop is not None:
        entries.append(Entry(Op.LOOP_MOVED, at, id="T1", state=loop, role="critic"))
    if task is not None:
        entries.append(Entry(Op.TASK_MOVED, at, id="T1", role="coder", state=task))
    again = await bench.reopened(entries)
    try:
        await again.resume()
        await again.tick(3)
        held = again.report_states()[0]
        refused = task is TaskState.REFUSED or loop is LoopState.REJECTED
        if refused and task is not TaskState.REPORTED:
            assert again.task("T1").state is TaskState.REFUSED
            assert held is ReportState.WITHHELD
        elif task is not TaskState.REPORTED and loop is not LoopState.ACCEPTED:
            # Nobody has accepted it: whatever else holds, it is not told as done.
            assert held is ReportState.HELD
            assert again.task("T1").state is not TaskState.REPORTED
    finally:
        await again.close()


async def test_a_review_that_cannot_go_on_keeps_no_deck_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, _ = await asked(tmp_path)
    await bench.hand_out("critic")
    again = await bench.reopened(await bench.entries())

    async def broken(*_: Any) -> None:
        raise RuntimeError("a fault of ours")

    whole = Settling.changes
    try:
        monkeypatch.setattr(Settling, "changes", broken)
        await again.resume()
        monkeypatch.setattr(Settling, "changes", whole)
        await again.tick(2)
        assert again.the_gate().why
        assert again.report_states() == [ReportState.HELD]
    finally:
        await again.close()
