"""How fast the ledger is, beside the plain system calls it cannot do without.

Every figure is a ratio to a peer measured in the same run and interleaved with it: a shared disk
is bimodal, so absolute figures are printed and never asserted.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest
from rich.console import Console
from rich.table import Table

from shared.ledger import Ledger, ledger_verify, verify_path
from shared.ledger.checkpoint import load_signer
from shared.ledger.log import _Entry
from shared.ledger.recovery import recover
from shared.ledger.segment import list_segments
from shared.ledger.storage import Disk
from shared.ledger.texts import keep_text

pytestmark = pytest.mark.bench

ORIGIN = "audit.example.org/bench"
ROUNDS = 5
RECORDS = 100_000
WRITERS = 64

REQUEST: dict[str, Any] = {
    "action": {"args_c": "a" * 64, "kind": "model.call", "name": "POST", "target": "/v1/messages"},
    "actor": {"agent": "worker", "key": "k1", "role": "worker"},
    "id": "req_0123456789abcdef",
    "model": {"name": "claude-sonnet-4", "provider": "anthropic"},
    "policy": {"decision": "allow", "digest": "d" * 64, "id": "base", "version": "1"},
    "run": "0123abcd",
    "task": "T3",
}


class MemoryDisk(Disk):
    """For building a large log: nothing needs to reach the platter."""

    def sync(self, fd: int) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Timing:
    """The latencies of one run, in milliseconds, and its rate per second."""

    p50: float
    p99: float
    rate: float


def timing(spans: list[float], seconds: float) -> Timing:
    ordered = sorted(spans)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return Timing(statistics.median(ordered) * 1e3, p99 * 1e3, len(spans) / seconds)


def timed(action: Callable[[], object], count: int) -> Timing:
    spans = []
    begin = time.perf_counter()
    for _ in range(count):
        start = time.perf_counter()
        action()
        spans.append(time.perf_counter() - start)
    return timing(spans, time.perf_counter() - begin)


def raw_write(path: Path, count: int) -> Timing:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    data = b"x" * 900

    def action() -> None:
        os.write(fd, data)
        os.fdatasync(fd)

    try:
        return timed(action, count)
    finally:
        os.close(fd)


def one_writer(ledger: Ledger, count: int) -> Timing:
    return timed(lambda: ledger.append("request", REQUEST).result(), count)


def many_writers(ledger: Ledger, each: int) -> Timing:
    spans: list[float] = []

    async def writer() -> None:
        for _ in range(each):
            start = time.perf_counter()
            await ledger.append_async("request", REQUEST)
            spans.append(time.perf_counter() - start)

    async def run() -> None:
        await asyncio.gather(*(writer() for _ in range(WRITERS)))

    begin = time.perf_counter()
    asyncio.run(run())
    return timing(spans, time.perf_counter() - begin)


def show(title: str, rows: list[tuple[str, ...]], head: tuple[str, ...]) -> None:
    table = Table(title=title)
    for name in head:
        table.add_column(name, justify="left" if name == head[0] else "right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def test_appends_cost_little_more_than_the_sync_they_wait_for(tmp_path: Path) -> None:
    raws, ones, manys = [], [], []
    with Ledger.open(tmp_path / "log", keys=tmp_path / "keys", origin=ORIGIN) as ledger:
        for _ in range(ROUNDS):
            raws.append(raw_write(tmp_path / "raw", 150))
            ones.append(one_writer(ledger, 150))
            manys.append(many_writers(ledger, 50))
        size = ledger.size
    stored = list_segments(tmp_path / "log")[0].stat().st_size / size
    rows = [
        (name, f"{t.p50:.3f}", f"{t.p99:.3f}", f"{t.rate:,.0f}", f"{t.rate / raw.rate:.1f}x")
        for raw, one, many in zip(raws, ones, manys, strict=True)
        for name, t in (
            ("raw write + fdatasync", raw),
            ("ledger, 1 writer", one),
            (f"ledger, {WRITERS} writers", many),
        )
    ]
    show("Appends", rows, ("what", "p50 ms", "p99 ms", "per second", "to raw"))
    added = min(one.p50 - raw.p50 for raw, one in zip(raws, ones, strict=True))
    best = max(many.rate for many in manys)
    bars = [
        ("1 writer, added p50", f"{added:.3f} ms", "0.3 ms"),
        (f"{WRITERS} writers", f"{best:,.0f}/s", "15,000/s"),
        ("mean stored record", f"{stored:,.0f} B", "1,100 B"),
    ]
    show("Bars", bars, ("what", "here", "bar"))
    assert min(one.p50 / raw.p50 for raw, one in zip(raws, ones, strict=True)) <= 4
    assert max(many.rate / raw.rate for raw, many in zip(raws, manys, strict=True)) >= 4
    assert stored <= 1100


def build(home: Path, records: int = RECORDS) -> Path:
    ledger = Ledger.open(home / "log", keys=home / "keys", origin=ORIGIN, disk=MemoryDisk())
    digest = keep_text(home / "log", b"the policy")
    policy = REQUEST["policy"] | {"digest": digest}
    ledger._commit([_Entry("policy_set", {"policy": policy})])
    for start in range(ledger.size, records, 64):
        outcome = {"dur_us": 1_234_567, "http": 200, "status": "ok"}
        ledger._commit(
            [
                _Entry("request", REQUEST | {"policy": policy})
                if n % 2 == 0
                else _Entry("outcome", {"outcome": outcome, "ref": start + n - 1})
                for n in range(64)
            ]
        )
    ledger.close()
    return home / "log"


def hash_and_parse(path: Path) -> None:
    """The least any verifier does: hash and parse each line."""
    for line in path.read_bytes().splitlines():
        sha256(b"\x00" + line).digest()
        orjson.loads(line)


def spent(action: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that passed and the seconds of processor time that `action` took."""
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - cpu


def test_verification_and_start_stay_within_a_few_times_of_hashing_and_parsing(
    tmp_path: Path,
) -> None:
    log = build(tmp_path)
    segment = list_segments(log)[0]
    signer = load_signer(tmp_path / "keys", ORIGIN, create=False)
    verdict = verify_path(log)
    assert verdict.exit_code == 0
    actions: dict[str, tuple[str, Callable[[], object]]] = {
        "hash and parse each line": ("", lambda: hash_and_parse(segment)),
        "verify, all signatures": ("200,000", lambda: verify_path(log)),
        "start-up scan": ("150,000", lambda: recover(log, signer)),
    }
    spans: dict[str, list[tuple[float, float]]] = {name: [] for name in actions}
    for _ in range(ROUNDS):
        for name, (_, action) in actions.items():
            spans[name].append(spent(action))
    # Processor time: the other programs of a shared machine do not count against the ledger.
    floor, *costs = (min(cpu for _, cpu in spans[name]) for name in actions)
    rows = [
        (
            name,
            f"{verdict.records / min(wall for wall, _ in spans[name]):,.0f}",
            f"{verdict.records / cost:,.0f}",
            f"{cost / floor:.1f}x",
            bar,
        )
        for (name, (bar, _)), cost in zip(actions.items(), [floor, *costs], strict=True)
    ]
    show("Reading", rows, ("what", "records/s", "per CPU second", "to the floor", "bar"))
    assert max(costs) <= 4 * floor


MILLION = 1_000_000
MEBIBYTE = 1 << 20
#: The package with all signatures, and the single file without any package at all.
HIGHEST = re.compile(r"VmHWM:\s+([0-9]+) kB")
BY_PACKAGE = (
    "import sys; from gateway.cli import main; "
    "sys.argv = ['sphragis', 'verify', sys.argv[1]]; main()"
)


@dataclass(frozen=True, slots=True)
class Run:
    """One process: seconds that passed, seconds of processor time, and peak memory in bytes."""

    wall: float
    cpu: float
    peak: int


def run(*command: str) -> Run:
    """Run a Python program to its good end, in the repository."""
    begin, peak = time.perf_counter(), 0
    with subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.DEVNULL, cwd=Path(__file__).parents[2]
    ) as process:
        # Not ru_maxrss: a process starts with the peak of the one it was forked from.
        state = Path(f"/proc/{process.pid}/status")
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            peak = max([peak, *(int(kib) << 10 for kib in HIGHEST.findall(state.read_text()))])
            time.sleep(0.02)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    wall = time.perf_counter() - begin
    return Run(wall, usage.ru_utime + usage.ru_stime, peak)


def hash_and_parse_slowly(path: Path) -> None:
    """The least a verifier without packages does."""
    with path.open("rb") as file:
        for line in file:
            sha256(b"\x00" + line[:-1]).digest()
            json.loads(line)


def test_a_million_records_are_verified_in_seconds_and_little_memory(tmp_path: Path) -> None:
    log = build(tmp_path, MILLION)
    _, floor = spent(lambda: hash_and_parse_slowly(list_segments(log)[0]))
    single = run("-I", "-S", ledger_verify.__file__, str(log))
    package = run("-c", BY_PACKAGE, str(log))
    rows = [
        (
            name,
            f"{each.wall:.1f} s",
            f"{MILLION / each.wall:,.0f}",
            f"{MILLION / each.cpu:,.0f}",
            bar,
            f"{each.peak / MEBIBYTE:.0f} MiB",
        )
        for name, each, bar in (
            ("ledger_verify.py, standard library", single, "150,000"),
            ("sphragis verify, all signatures", package, "200,000"),
        )
    ]
    head = ("1,000,000 records", "time", "records/s", "per CPU second", "bar", "peak")
    show("Verifying (bars: 7 s, 100 MiB)", rows, head)
    assert max(single.peak, package.peak) <= 100 * MEBIBYTE
    assert single.cpu <= 2.5 * floor
    assert package.cpu <= 2.5 * floor
