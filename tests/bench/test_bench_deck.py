"""How fast a deck hands work out and how much memory it takes, beside its own limits."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import orjson
import pytest
from bench_table import Row, show
from deck_harness import DeckRig, agent_role

from deck.entries import Entry, Op
from deck.journal import Journal
from deck.protocol import Verb
from deck.session import Options, Session
from deck.team_reader import load_config
from shared.ledger.segment import list_segments
from shared.ledger.storage import Disk

pytestmark = pytest.mark.bench

#: From `delegate` to the line read by an idle agent, the wait before Enter included.
VISIBLE_SECONDS = 0.6
#: A detached deck with five idle panes.
SERVER_MB = 60.0
ROUNDS = 15
#: 200 KB/s for five seconds.
WRITER = r"""
import os, time
line = b"\x1b[32mwords of an agent\x1b[0m at work on something long and dull\r\n" * 70
while not os.path.exists("begin"):
    time.sleep(0.01)
began = time.time()
for i in range(250):
    os.write(1, line[:4000])
    time.sleep(max(0.0, began + i * 0.02 - time.time()))
os.write(1, b"\r\nend of it")
open("ended-" + os.environ["CHORAGOS_ROLE"], "w").close()
time.sleep(600)
"""
NAMES = ("ant", "bee", "cat", "dog")


def test_an_idle_pane_has_its_line_well_within_the_limit(tmp_path: Path) -> None:
    rig = DeckRig(tmp_path)
    try:
        rig.git()
        rig.team(agent_role("orchestrator"), *(agent_role(name) for name in NAMES))
        rig.serve()
        rig.wait_idle("orchestrator", *NAMES)
        # Only then is a pane idle: its brief was typed, and read.
        rig.wait(lambda: all(len(rig.seen(name)) == 1 for name in NAMES))
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


async def test_a_deck_of_fifty_roles_starts_and_stops_beside_a_loop_that_keeps_turning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = DeckRig(tmp_path)
    monkeypatch.chdir(rig.dir)
    quiet = {"command": "sh", "args": ["-c", "echo ready; exec sleep 600"]}
    rig.team(*({"name": f"r{number}", **quiet} for number in range(50)))
    session = Session(
        Options(
            config=load_config(None, rig.dir), paths=rig.paths, gateway_flag=False, environ=rig.env
        )
    )
    late: list[float] = []
    watch = asyncio.create_task(stall(late))
    try:
        await asyncio.sleep(0.1)
        late.clear()
        await session.start()
        starting, late[:] = list(late), []
    finally:
        await session.stop()
        watch.cancel()
        rig.close()
    show(
        "stall of a whole deck's loop",
        [
            Row(f"50 roles {what}: worst stall", max(seen) * 1000, "ms", 20.0)
            for what, seen in (("start", starting), ("stop", late))
        ],
    )


def test_five_roles_that_write_without_end_cost_half_a_core_at_most(tmp_path: Path) -> None:
    rig = DeckRig(tmp_path)
    (rig.dir / "writer.py").write_text(WRITER)
    writer = {"command": sys.executable, "args": ["-S", "writer.py"]}
    names = [f"w{number}" for number in range(5)]
    try:
        rig.team(*({"name": name, **writer} for name in names))
        rig.serve()
        before, began = spent(rig.pid()), time.monotonic()
        (rig.dir / "begin").touch()
        rig.wait(lambda: len(list(rig.dir.glob("ended-*"))) == 5, 60)
        share = (spent(rig.pid()) - before) / (time.monotonic() - began)
        rig.cli("kill")
        shown = [(rig.state_dir / "logs" / f"{name}.log").read_text() for name in names]
    finally:
        rig.close()
    show("steady output", [Row("a deck of 5 panes x 200 KB/s", share * 100, "% of a core", 50.0)])
    assert all("end of it" in text for text in shown)
    # 250 times 4,000 bytes in lines of 66, and the last in pieces: none is missing.
    assert all(text.count("words of an agent") >= 9_000 for text in shown)


#: 48,000 records.
TASKS = 8_000


async def test_a_long_run_is_resumed_about_as_fast_as_its_lines_are_hashed_and_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened() -> Journal:
        return Journal.open(tmp_path / "ledger", keys=tmp_path / "keys", origin="deck.test/x")

    monkeypatch.setattr(Disk, "sync", lambda self, fd: None)
    await lived(opened(), TASKS)
    lines = [
        line
        for path in list_segments(tmp_path / "ledger")
        for line in path.read_bytes().splitlines()
    ]
    bare = best(lambda: [orjson.loads(line) and sha256(line).digest() for line in lines])
    took = best(lambda: opened().close())
    size = sum(not line.startswith(b'{"cp"') for line in lines)
    ratio = took / bare
    beside = f"{size / took:,.0f} records/s, {took * 1000:,.0f} ms CPU"
    row = Row("open and replay, beside hash and parse", ratio, "×", 8.0, beside=beside)
    show(f"resume of {size:,} records", [row])
    assert ratio < 16


async def lived(journal: Journal, tasks: int) -> None:
    """Six records for each task; each has a signed checkpoint of its own."""
    await journal.record(Entry(Op.SESSION_STARTED, 1, run="r", state="fresh"))
    for number in range(1, tasks + 1):
        task, report = f"T{number}", f"R{number}"
        for entry in (
            Entry(Op.TASK_ADDED, 2, id=task, role="ant", sender="operator", ref="ab" * 32),
            Entry(Op.TASK_MOVED, 3, id=task, role="ant", state="typed"),
            Entry(Op.TASK_MOVED, 4, id=task, role="ant", state="submitted"),
            Entry(Op.TASK_MOVED, 5, id=task, role="ant", state="picked-up"),
            Entry(Op.REPORT_ADDED, 6, id=report, task=task, role="ant", ref="cd" * 32),
            Entry(Op.REPORT_MOVED, 7, id=report, state="typed"),
        ):
            await journal.record(entry)
    journal.close()


def best(work: Callable[[], object]) -> float:
    """CPU seconds, the least of three: other work on the machine only makes it longer."""
    spent = []
    for _ in range(3):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)


async def stall(late: list[float]) -> None:
    """Record how late the loop wakes, less the time it waited for a core, until cancelled."""
    while True:
        before, queued = time.monotonic(), waited_for_a_core()
        await asyncio.sleep(0.001)
        over = time.monotonic() - before - 0.001
        late.append(max(0.0, over - (waited_for_a_core() - queued)))


def waited_for_a_core() -> float:
    """Seconds this thread has stood in the queue for a core: other work's fault, not ours."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def spent(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
