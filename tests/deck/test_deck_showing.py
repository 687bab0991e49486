"""What `show` tells of a gate or a task, however large and odd what agents left is."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import example, given
from hypothesis import strategies as st
from review_bench import OPERATOR, Bench

from deck import showing, texts, view
from deck.config import Role
from deck.protocol import Command, Verb
from deck.texts import TextStore

TEAM = (Role("lead", start=True), Role("coder"), Role("tester", approve=True))
LARGE = 16 << 20
#: Of texts, in characters.
SIZES = (10, 400, 700, 5_000, 0, 999, 1_000, 1_001, 3)


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = await Bench.open(tmp_path, TEAM)
    yield bench
    await bench.close()


async def shown(bench: Bench, what: str) -> dict[str, Any]:
    command = Command(Verb.SHOW, id=what)
    found: dict[str, Any] = json.loads(
        await showing.show(bench.desk, bench.keeper, command, OPERATOR)
    )
    return found


async def reported(bench: Bench, body: bytes) -> str:
    """A task whose report is a file with that content."""
    task = await bench.given("coder")
    file = bench.directory / f"{task}.md"
    file.write_bytes(body)
    await bench.report("coder", task, "see there", str(file))
    return task


async def worst_stall(bench: Bench, what: str) -> float:
    """The least, over five times, of the longest time that the loop did not turn: other work on
    the machine only makes it longer."""
    found = []
    for _ in range(5):
        late = [0.0]
        watch = asyncio.ensure_future(_turning(late))
        await shown(bench, what)
        watch.cancel()
        found.append(max(late))
    return min(found)


async def _turning(late: list[float]) -> None:
    while True:
        before = time.monotonic()
        await asyncio.sleep(0)
        late.append(time.monotonic() - before)


def one_decode(body: bytes) -> float:
    """How long a decoder, called once, keeps everybody waiting."""
    took = []
    for _ in range(3):
        before = time.monotonic()
        body.decode("utf-8", "replace")
        took.append(time.monotonic() - before)
    return min(took)


#: The first two are what the decoder takes longest for.
HOSTILE = {
    "no text at all": random.Random(8).randbytes(1 << 16) * (LARGE >> 16),
    "bytes that begin nothing": b"\xff" * LARGE,
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_hostile_report_does_not_keep_the_loop(bench: Bench, kind: str) -> None:
    body = HOSTILE[kind]
    task = await reported(bench, body)
    assert await worst_stall(bench, task) < one_decode(body) / 2


async def test_a_gate_on_a_hostile_brief_does_not_keep_the_loop(bench: Bench) -> None:
    body = HOSTILE["no text at all"]
    brief = bench.directory / "brief.md"
    brief.write_bytes(body)
    order = Command(Verb.DELEGATE, to=("tester",), task="x", brief=str(brief), reads_ack=True)
    await bench.work.delegate(order, OPERATOR)
    gate = bench.the_gate().id
    assert await worst_stall(bench, gate) < one_decode(body) / 2
    told = await shown(bench, gate)
    assert told["gate"]["changed"] == ""
    brief.write_bytes(body[:-1] + b"!")
    told = await shown(bench, gate)
    assert "was changed" in told["gate"]["changed"]


async def test_all_is_shown_or_said_to_be_cut(bench: Bench) -> None:
    task = await reported(bench, "\N{SNOWMAN}".encode() * (LARGE // 3))
    for number in range(3):
        file = bench.directory / f"late-{number}.md"
        file.write_text("late\n")
        await bench.report("coder", task, "later", str(file))
    parts = (await shown(bench, task))["parts"]
    assert sum(len(part["text"]) for part in parts) == showing.MAX_SHOWN_CHARS
    whole = {part["title"]: part["text"] for part in parts if not part["cut"]}
    assert whole["report R4"] == "late\n"
    assert whole["report R2"] == "late\n"
    first = [part for part in parts if part["title"] == "report R1"]
    assert [part["cut"] for part in first] == [False, True]


async def test_where_there_is_no_room_left_nothing_more_is_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await reported(bench, b"first\n")
    for _ in range(20):
        large = bench.directory / "large.md"
        large.write_bytes(b"x" * LARGE)
        await bench.report("coder", task, "later", str(large))
    read: list[str] = []
    real = showing.read_brief
    monkeypatch.setattr(showing, "read_brief", lambda path: read.append(path) or real(path))
    parts = (await shown(bench, task))["parts"]
    assert len(read) == 1
    assert len(parts) == 1 + 2 * 21
    assert sum(part["cut"] for part in parts) == len(parts) - 2
    assert sum(len(part["text"]) for part in parts) == showing.MAX_SHOWN_CHARS


@given(
    st.lists(st.binary(max_size=5) | st.text(max_size=3).map(str.encode), max_size=8),
    st.integers(0, 40),
    st.integers(1, 7),
)
@example([b"\xf0\x9f\x98\x80"], 1, 1)
@example([b"\xf0\x9f\x98"], 3, 2)
def test_the_beginning_of_a_file_is_that_of_its_text(
    pieces: list[bytes], room: int, size: int
) -> None:
    body = b"".join(pieces)
    whole = body.decode("utf-8", "replace")
    before, showing._SLICE = showing._SLICE, size  # type: ignore[misc]
    try:
        assert showing._beginning(body, room) == (whole[:room], len(whole) > room)
        assert showing._is_part(body, f"a{whole}b")
        assert not showing._is_part(body + b"?", whole)
    finally:
        showing._SLICE = before  # type: ignore[misc]


async def test_what_a_status_says_of_large_reports_waits_for_no_disk(bench: Bench) -> None:
    task = await bench.given("coder", "x" * 100_000)
    for number in range(20):
        await bench.report("coder", task, f"{number} {'y' * 300_000}")
    again = await bench.reopened()
    try:
        view.read_ahead(again.desk)
        for text in (again.directory / ".choragos" / "texts").iterdir():
            text.unlink()
        labels = [row["label"] for row in view._reports(again.desk)]
        assert [label[:3] for label in labels] == [f"{number} y"[:3] for number in range(20)]
        assert again.desk.label(again.task(task)) == "x" * 399 + "…"
    finally:
        await again.close()


def test_large_texts_do_not_all_stay_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "CACHE_CHARS", 1_000)
    monkeypatch.setattr(texts, "LINES", 4)
    store = TextStore(tmp_path / "texts", tmp_path / "keys")
    names = {store.put(str(number) * size): number for number, size in enumerate(SIZES)}
    for _ in range(2):
        for name, number in names.items():
            assert store.get(name) == str(number) * SIZES[number]
            assert (store.line(name) or "")[:9] == (str(number) * SIZES[number])[:9]
            held = sum(map(len, store._cache.values()))
            assert held == store._cached_chars <= 1_000
            assert len(store._lines) <= 4
