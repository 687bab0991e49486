"""A brief that a person approved is the brief that is read, whatever becomes of its file."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from review_bench import Bench

from deck.callers import Caller, Kind
from deck.config import Role
from deck.entries import TaskState
from deck.protocol import Command, Verb

TEAM = (Role("lead", start=True), Role("coder", approve=True), Role("other"))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = await Bench.open(tmp_path, TEAM)
    yield bench
    await bench.desk.cancel_jobs()


async def delegate(bench: Bench, role: str, brief: Path) -> str:
    command = Command(Verb.DELEGATE, to=(role,), task="do it", brief=str(brief), reads_ack=True)
    ack = json.loads(await bench.work.delegate(command, Caller(Kind.ROLE, "lead")))
    return str(ack["targets"][0]["id"])


def write(bench: Bench, text: str) -> Path:
    brief = bench.directory / "brief.md"
    brief.write_text(text)
    return brief


def named(bench: Bench, task_id: str) -> Path:
    """The brief that the role is told to read."""
    text = bench.file(f"tasks/{task_id}.md")
    (line,) = (one for one in text.splitlines() if one.startswith("Read the full brief first: "))
    return Path(line.partition(": ")[2])


async def test_what_was_approved_is_read_even_if_the_file_is_changed_later(bench: Bench) -> None:
    brief = write(bench, "paint the shed\n")
    task = await delegate(bench, "coder", brief)
    assert await bench.decide(bench.the_gate()) == "approved"
    brief.write_text("burn it down\n")
    assert named(bench, task).read_text() == "paint the shed\n"
    again = await bench.reopened()
    try:
        # A deck that goes on files it anew.
        await again.resume()
        await again.hand_out("coder")
        assert named(again, task).read_text() == "paint the shed\n"
        brief.unlink()
        await again.lose(task)
        command = Command(Verb.AGAIN, id=task)
        assert json.loads(await again.work.again(command, Caller(Kind.OPERATOR)))["status"] == "ok"
        assert named(again, task).read_text() == "paint the shed\n"
    finally:
        await again.close()


async def test_a_copy_that_was_changed_is_made_anew_or_the_task_refused(bench: Bench) -> None:
    brief = write(bench, "paint the shed\n")
    task = await delegate(bench, "coder", brief)
    await bench.decide(bench.the_gate())
    copy = named(bench, task)
    copy.write_text("burn it down\n")
    again = await bench.reopened()
    try:
        await again.resume()
        await again.hand_out("coder")
        assert named(again, task).read_text() == "paint the shed\n"
        copy.write_text("burn it down\n")
        brief.write_text("burn it down\n")
    finally:
        final = await again.reopened()
    try:
        await final.desk.move(final.task(task), TaskState.LOST)
        await final.desk.move(final.task(task), TaskState.QUEUED)
        await final.work.queue(final.desk.seats["coder"], task)
        assert final.task(task).state is TaskState.REFUSED
        assert "is not what G1 approved any more" in final.task(task).reason
    finally:
        await final.close()


async def test_a_link_in_the_place_of_the_copy_leads_nowhere(bench: Bench) -> None:
    victim = bench.directory / "mine.txt"
    victim.write_text("the user's own\n")
    place = bench.directory / ".choragos" / "tasks" / "T1-brief.md"
    os.symlink(victim, place)
    task = await delegate(bench, "coder", write(bench, "paint the shed\n"))
    await bench.decide(bench.the_gate())
    assert named(bench, task).read_text() == "paint the shed\n"
    assert victim.read_text() == "the user's own\n"
    await bench.close()


async def test_a_brief_that_nobody_had_to_approve_is_read_where_it_is(bench: Bench) -> None:
    brief = write(bench, "paint the shed\n")
    task = await delegate(bench, "other", brief)
    assert named(bench, task) == brief
    await bench.close()
