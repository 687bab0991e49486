"""Speed and size of the terminal engine beside pyte's own screens, and of panes on real terminals.

MB/s are of CPU time; peers read the same bytes in the same run.
"""

import asyncio
import gc
import importlib.util
import os
import random
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyte
import pytest
from bench_table import Row, show
from terminal_screens import capture, captures

from deck.pane import Pane, PaneSpec
from deck.pane.terminal.engine import EngineKind, make_engine, missing
from deck.pane.terminal.screen import Screen

pytestmark = pytest.mark.bench

WORDS = ("alpha", "beta", "return", "function", "self.value", "0x1f", "the", "quick", "brown")
CHUNK = 4095  # what one read of a PTY gives


def corpus(name: str, size: int) -> bytes:
    """Bytes as agents write them: log lines, a color per word, full repaints, ink frames."""
    dice = random.Random(7)
    parts: list[str] = []
    length = count = 0
    while length < size:
        count += 1
        if name == "plain":
            part = " ".join(dice.choices(WORDS, k=dice.randint(3, 18))) + "\r\n"
        elif name == "sgr":
            words = (
                f"\x1b[38;2;{dice.randrange(256)};{dice.randrange(256)};9m{word}\x1b[0m"
                for word in dice.choices(WORDS, k=10)
            )
            part = " ".join(words) + "\r\n"
        elif name == "redraw":
            rows = (
                f"\x1b[{y + 1};1H\x1b[3{y % 8}m│ {dice.choice(WORDS):<50} ── {'words':<40}"
                for y in range(40)
            )
            part = "\x1b[H" + "".join(rows) + "\x1b[0m"
        else:
            part = (
                "\x1b[2K\x1b[1A" * 6 + "\x1b[2K\x1b[G\x1b[38;5;174m✻\x1b[39m \x1b[1mThinking…"
                f"\x1b[22m \x1b[2m({count}s · esc to interrupt)\x1b[22m\r\n\r\n╭{'─' * 100}╮\r\n"
                f"│ \x1b[2m>\x1b[22m some text  │\r\n╰{'─' * 100}╯\r\n  ? for shortcuts\r\n"
            )
        parts.append(part)
        length += len(part)
    return "".join(parts).encode()


def speed(feed: Callable[[bytes], object], data: bytes) -> float:
    """MB of input a second of CPU time."""
    started = time.process_time()
    for i in range(0, len(data), CHUNK):
        feed(data[i : i + CHUNK])
    return len(data) / 1e6 / (time.process_time() - started)


#: Corpus: the least MB of it a second of CPU time, and the least times pyte's HistoryScreen.
BARS = {"plain": (5.0, 10.0), "redraw": (2.0, None), "sgr": (1.2, 2.5), "ink": (2.0, 4.0)}


def test_the_engine_beside_pyte_on_the_same_bytes() -> None:
    rows: list[Row] = []
    speed(Screen(120, 40).feed, corpus("ink", 100_000))
    for name, (least, times) in BARS.items():
        data = corpus(name, 2_000_000)
        ours = speed(Screen(120, 40, 10_000).feed, data)
        history = pyte.HistoryScreen(120, 40, history=10_000)
        slow = speed(pyte.ByteStream(history).feed, data[:150_000])
        stock = speed(pyte.ByteStream(pyte.Screen(120, 40)).feed, data[:300_000])
        beside = f"HistoryScreen {slow:.2f}, Screen {stock:.2f}"
        if importlib.util.find_spec("pyghostty"):
            fast = make_engine(EngineKind.GHOSTTY, 120, 40, 10_000)
            beside += f", ghostty {speed(fast.feed, data):.0f}"
        rows.append(Row(f"{name}: read and kept", ours, "MB/s CPU", least, True, beside))
        rows.append(Row(f"{name}: beside HistoryScreen", ours / slow, "x", times, True))
    show("terminal engine", rows)


def test_recorded_agents_are_read_and_looked_at() -> None:
    if not captures():
        pytest.skip("no recordings beside this tree")
    rows: list[Row] = []
    for kind in EngineKind:
        if missing(kind):
            continue
        size, started = 0, time.process_time()
        for name in captures():
            screen = make_engine(kind, 120, 40, 10_000)
            data = capture(name)
            size += len(data)
            for i in range(0, len(data), CHUNK):
                screen.feed(data[i : i + CHUNK])
                screen.rows()  # as a pane does, at most once a read
        spent = time.process_time() - started
        rows.append(Row(f"{len(captures())} recordings by {kind}", size / 1e6 / spent, "MB/s CPU"))
    show("recordings, each read followed by a look at the screen", rows)


def held(name: str) -> float:
    """MB that a pane with 10,000 lines of this kind holds."""
    data = corpus(name, 1_500_000 if name == "plain" else 3_000_000)
    gc.collect()
    tracemalloc.start()
    screen = Screen(120, 40, 10_000)
    for i in range(0, len(data), CHUNK):
        screen.feed(data[i : i + CHUNK])
    gc.collect()
    size = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    assert len(screen.history) == 10_000
    return size


def test_ten_thousand_lines_fit_in_their_budget() -> None:
    limits = {"plain": 6.0, "sgr": 16.0}
    rows = [Row(f"10,000 lines, {name}", held(name), "MB", bar) for name, bar in limits.items()]
    show("memory of a pane", rows)
    assert all(row.holds for row in rows)


def waited_for_a_core() -> float:
    """Seconds this thread has stood in the queue for a core: other work's fault, not ours."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


async def stall(seconds: float, worst: list[float]) -> None:
    """Record how late the loop wakes, less the time it waited for a core, until cancelled."""
    while True:
        before, queued = time.monotonic(), waited_for_a_core()
        await asyncio.sleep(seconds)
        late = time.monotonic() - before - seconds
        worst.append(max(0.0, late - (waited_for_a_core() - queued)))


def spec_of(*argv: str, engine: EngineKind = EngineKind.PYTE) -> PaneSpec:
    env = {"PATH": os.environ["PATH"], "TERM": "xterm"}
    return PaneSpec("bench", argv, Path("/"), env, engine=engine)


async def test_fifty_panes_start_and_stop_beside_a_loop_that_keeps_turning() -> None:
    late: list[float] = []
    watch = asyncio.create_task(stall(0.001, late))
    panes = [Pane(spec_of("sh", "-c", "echo ready; exec sleep 600")) for _ in range(50)]
    await asyncio.sleep(0.05)
    late.clear()
    for pane in panes:
        await pane.start()
        await asyncio.sleep(0)
    starting, late[:] = list(late), []
    while not all("ready" in pane.rows() for pane in panes):
        await asyncio.sleep(0.01)
    late.clear()
    proofs = await asyncio.gather(*(pane.stop(2) for pane in panes))
    watch.cancel()
    assert all(proof.survivors == () for proof in proofs)
    rows: list[Row] = []
    for name, values in (("start", starting), ("stop", late)):
        beside = f"p95 {sorted(values)[int(len(values) * 0.95)] * 1e3:.1f}"
        worst = max(values) * 1e3
        rows.append(Row(f"50 panes {name}: worst stall", worst, "ms", 20.0, beside=beside))
    show("stall of the loop", rows)


@pytest.mark.parametrize("kind", list(EngineKind))
async def test_five_panes_at_200_kb_a_second_are_read_to_the_last_byte(kind: EngineKind) -> None:
    if problem := missing(kind):
        pytest.skip(problem)
    writer = (
        "import os,time\n"
        "line=b'\\x1b[32mwords of an agent\\x1b[0m at work on something long and dull\\r\\n'*70\n"
        "t=time.time()\n"
        "for i in range(250):\n"
        " os.write(1,line[:4000]); d=t+i*.02-time.time()\n"
        " if d>0: time.sleep(d)\n"
        "os.write(1,b'\\r\\nend of it')"
    )
    panes = [Pane(spec_of("python3", "-S", "-c", writer, engine=kind)) for _ in range(5)]
    seen = [0] * 5

    def count(index: int) -> Callable[[Pane, bytes], None]:
        def add(_: Pane, data: bytes) -> None:
            seen[index] += len(data)

        return add

    cpu, began = time.process_time(), time.monotonic()
    for index, pane in enumerate(panes):
        pane.on_output = count(index)
        await pane.start()
    while any(pane.alive for pane in panes):
        await asyncio.sleep(0.05)
    wall = time.monotonic() - began
    share = (time.process_time() - cpu) / wall
    beside = f"{sum(seen) / 1e6:.2f} MB in {wall:.1f} s by {kind}"
    row = Row("5 panes x 200 KB/s", share * 100, "% of a core", 50.0, beside=beside)
    show("steady output", [row])
    assert all(pane.tail(1) == ["end of it"] for pane in panes)
    assert min(seen) >= 250 * 4000
    for pane in panes:
        await pane.stop(0)
