"""How fast a log is read and exported, beside the standard parser on the same lines."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import pytest
from bench_table import Row, show
from reading_logs import open_log, outcome, request

from shared.exports import FORMATS, Selection, facts_of, find_format
from shared.ledger.log import system_clock
from shared.ledger.reading import find, read, tail
from shared.ledger.segment import list_segments
from shared.ledger.selecting import Filter
from shared.ledger.stats import collect

RECORDS = 100_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bench") / "log"
    with open_log(directory, clock=system_clock, segment_bytes=16 << 20) as ledger:
        waiting = []
        for number in range(RECORDS // 2):
            role = "rare" if number % 100 == 0 else ("coder", "reviewer", "lead")[number % 3]
            # The genesis record is number 0, seals take a number each: refs are near enough.
            waiting.append(ledger.append("request", request(number, role, f"T{number % 50}")))
            waiting.append(ledger.append("outcome", outcome(2 * number + 1)))
        for future in waiting:
            future.result()
    return directory


def seconds(work: Callable[[], object]) -> float:
    """The best of three: other work on the machine only makes it longer."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def drain(items: object) -> int:
    return sum(1 for _ in items)  # type: ignore[attr-defined]


@pytest.mark.bench
def test_reading_beside_the_standard_parser(log: Path) -> None:
    lines = [line for path in list_segments(log) for line in path.read_bytes().splitlines()]
    parse = seconds(lambda: [json.loads(line) for line in lines])
    rare = Filter(roles=frozenset({"rare"}))
    works: dict[str, tuple[Callable[[], object], float | None]] = {
        "log, every record": (lambda: drain(read(log, Filter())), 1.0),
        "log --role, one record in 100": (lambda: drain(read(log, rare)), 0.3),
        "log --kind deny, none": (lambda: drain(read(log, Filter(kinds=frozenset({"deny"})))), 0.2),
        "log -n 50": (lambda: tail(log, Filter(), 50), 0.05),
        "log show N in the middle": (lambda: find(log, RECORDS // 2), 0.1),
        "log stats": (lambda: collect(read(log, Filter()), UTC), 5.0),
    }
    rows = []
    for what, (work, bar) in works.items():
        took = seconds(work)
        rows.append(Row(what, took / parse, "× json.loads", bar, beside=f"{took * 1000:,.0f} ms"))
    show(f"reading {RECORDS:,} records (json.loads of them: {parse * 1000:,.0f} ms)", rows)


@pytest.mark.bench
def test_exporting_beside_the_standard_parser(log: Path) -> None:
    lines = [line for path in list_segments(log) for line in path.read_bytes().splitlines()]
    parse = seconds(lambda: [json.loads(line) for line in lines])
    rows = []
    for name in FORMATS:

        def export(name: str = name) -> int:
            selection = Selection(log, Filter())
            return sum(map(len, find_format(name).render(facts_of(log), selection)))

        began = time.process_time()
        size = export()
        took = time.process_time() - began
        beside = f"{RECORDS / took:,.0f} records/s, {size / RECORDS:,.0f} B each"
        rows.append(Row(f"export {name}", took / parse, "× json.loads", 12.0, beside=beside))
    tracemalloc.start()
    drain(Selection(log, Filter()).items())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    rows.append(Row("most memory while reading all", peak / 2**20, "MiB", 16.0))
    show(f"exporting {RECORDS:,} records", rows)
