"""The scanning pool over real processes, with a wire format small enough to read."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.redaction.policy_file import load_policy, parse_policy
from gateway.redaction.vault import Vault
from gateway.redaction.workers import ScanJob, ScanPool, ScanRefused, scan_and_keep

KEY = b"k" * 32
WIRE = """
import json, time
from gateway.wire.body import RedactedBody
class Refused(Exception):
    def __init__(self, code, sentence):
        super().__init__(sentence); self.code = code; self.sentence = sentence
class Plain:
    name = "plain"
    def redact_body(self, body, content_type, reading, params):
        doc, redactor = json.loads(body), reading.redactor
        if doc.get("sleep"): time.sleep(doc["sleep"])
        if doc.get("bad"): raise Refused("unknown_block", "There is a block nobody knows.")
        if doc.get("boom"): raise KeyError(doc["boom"])
        doc["texts"] = [redactor.text(t) for t in doc.get("texts", [])]
        for message in doc.get("messages", []):
            message["content"] = redactor.text(message["content"])
        return RedactedBody(
            json.dumps(doc, separators=(",", ":")).encode(), "application/json",
            doc.get("model", ""), bool(doc.get("stream")),
        )
def get(name): return Plain()
"""


@pytest.fixture
def wire_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    package = tmp_path / "fakewire"
    package.mkdir()
    (package / "__init__.py").write_text(WIRE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "fakewire"


@pytest_asyncio.fixture
async def pool(wire_package: str) -> AsyncIterator[ScanPool]:
    pool = ScanPool(load_policy(), KEY, 1, wire_package=wire_package)
    await pool.start()
    await asyncio.wait_for(pool.wait_ready(), 60)
    yield pool
    await pool.stop()


def job(*texts: str, scope: str = "builder", encoding: str = "", **more: object) -> ScanJob:
    body = json.dumps({"model": "m-1", "texts": texts, **more}).encode()
    if encoding == "gzip":
        body = gzip.compress(body)
    elif encoding == "deflate":
        body = zlib.compress(body)
    return ScanJob("plain", body, encoding, scope=scope)


async def gone(pid: int) -> bool:
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        await asyncio.sleep(0.05)
    return False


async def test_a_call_comes_back_redacted_counted_and_with_its_originals(pool: ScanPool) -> None:
    result = await pool.run(job("write to bob@corp.example", stream=True))
    document = json.loads(result.body)
    assert "bob@corp.example" not in result.body.decode()
    assert result.counts == {"EMAIL": 1}
    assert result.model == "m-1"
    assert result.stream is True
    (token,) = result.originals
    assert result.originals[token] == "bob@corp.example"
    assert document["texts"] == [f"write to {token}"]


async def test_secrets_are_hidden_and_not_among_what_may_be_given_back(pool: ScanPool) -> None:
    result = await pool.run(job("DB_PASSWORD=Kestrel9321x"))
    assert b"Kestrel" not in result.body
    assert result.counts == {"SECRET": 1}
    assert result.originals == {}


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_compressed_bodies_are_scanned_and_sent_on_plain(
    pool: ScanPool, encoding: str
) -> None:
    result = await pool.run(job("bob@corp.example", encoding=encoding))
    assert result.counts == {"EMAIL": 1}
    json.loads(result.body)


async def test_values_beside_the_body_are_named_when_they_hold_something(pool: ScanPool) -> None:
    plain = job("nothing")
    result = await pool.run(
        ScanJob(
            "plain",
            plain.body,
            scope="builder",
            extra={"x-user": "bob@corp.example", "x-id": "7"},
        )
    )
    assert result.extra_hits == {"x-user"}
    assert result.counts == {}


async def test_what_the_wire_format_refuses_is_refused_with_its_sentence(pool: ScanPool) -> None:
    with pytest.raises(ScanRefused) as refused:
        await pool.run(job("x", bad=True))
    assert refused.value.code == "unknown_block"
    assert refused.value.sentence == "There is a block nobody knows."


async def test_an_unforeseen_error_is_refused_without_quoting_the_call(pool: ScanPool) -> None:
    with pytest.raises(ScanRefused) as refused:
        await pool.run(job("x", boom="bob@corp.example"))
    assert refused.value.code == "scanner_failed"
    assert "bob" not in refused.value.sentence
    assert (await pool.run(job("still here"))).counts == {}


async def test_what_cannot_be_handed_to_a_worker_is_refused_and_costs_no_other_call(
    pool: ScanPool,
) -> None:
    for extra in ({"user-agent": "caf\udce9"}, {"caf\udce9": "x"}):
        with pytest.raises(ScanRefused) as refused:
            await pool.run(dataclasses.replace(job("x"), extra=extra))
        assert refused.value.code == "scanner_failed"
        assert "caf" not in refused.value.sentence
    assert (await asyncio.wait_for(pool.run(job("still here")), 20)).body


async def test_the_loop_keeps_turning_while_a_worker_is_busy(pool: ScanPool) -> None:
    scan = asyncio.ensure_future(pool.run(job("x", sleep=0.5)))
    turns = 0
    while not scan.done():
        await asyncio.sleep(0.01)
        turns += 1
    await scan
    assert turns > 10


async def test_a_killed_worker_costs_its_call_only_and_is_replaced(pool: ScanPool) -> None:
    (first,) = pool.pids
    busy = asyncio.ensure_future(pool.run(job("x", sleep=30)))
    waiting = asyncio.ensure_future(pool.run(job("bob@corp.example")))
    await asyncio.sleep(0.3)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(ScanRefused) as refused:
        await busy
    assert refused.value.code == "scanner_unavailable"
    assert "not forwarded" in refused.value.sentence
    assert (await asyncio.wait_for(waiting, 60)).counts == {"EMAIL": 1}
    assert pool.ready
    assert pool.pids != [first]


async def test_an_idle_workers_death_costs_no_call(pool: ScanPool) -> None:
    (first,) = pool.pids
    os.kill(first, signal.SIGKILL)
    assert await gone(first)
    while pool.ready:
        await asyncio.sleep(0.01)
    assert (await asyncio.wait_for(pool.run(job("bob@corp.example")), 60)).counts == {"EMAIL": 1}


async def test_a_scan_that_takes_too_long_is_refused_and_its_worker_replaced(
    wire_package: str,
) -> None:
    pool = ScanPool(load_policy(), KEY, 1, wire_package=wire_package, scan_seconds=0.3)
    await pool.start()
    try:
        with pytest.raises(ScanRefused) as refused:
            await pool.run(job("x", sleep=30))
        assert refused.value.code == "scanner_timeout"
        assert (await asyncio.wait_for(pool.run(job("a")), 60)).counts == {}
    finally:
        await pool.stop()


async def test_too_many_waiting_calls_are_refused_not_held(
    pool: ScanPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.redaction.workers.QUEUE_JOBS", 2)
    calls = [asyncio.ensure_future(pool.run(job("x", sleep=0.2))) for _ in range(5)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    refused = [o for o in outcomes if isinstance(o, ScanRefused)]
    assert [r.code for r in refused] == ["scanner_busy"] * 2


async def test_a_caller_that_leaves_does_not_disturb_the_others(pool: ScanPool) -> None:
    first = asyncio.ensure_future(pool.run(job("x", sleep=0.3)))
    leaving = asyncio.ensure_future(pool.run(job("y")))
    staying = asyncio.ensure_future(pool.run(job("bob@corp.example")))
    await asyncio.sleep(0.05)
    leaving.cancel()
    await first
    assert (await staying).counts == {"EMAIL": 1}


async def test_stopping_leaves_no_process_and_refuses_what_comes(wire_package: str) -> None:
    pool = ScanPool(load_policy(), KEY, 2, wire_package=wire_package)
    await pool.start()
    await asyncio.wait_for(pool.wait_ready(), 60)
    pids = pool.pids
    busy = asyncio.ensure_future(pool.run(job("x", sleep=30)))
    await asyncio.sleep(0.1)
    await pool.stop()
    for pid in pids:
        assert await gone(pid)
    with pytest.raises(ScanRefused):
        await busy
    with pytest.raises(ScanRefused) as refused:
        await pool.run(job("x"))
    assert refused.value.code == "scanner_unavailable"
    assert not pool.ready


async def test_a_pool_that_cannot_start_says_why(wire_package: str) -> None:
    policy = parse_policy(
        'id = "p"\nversion = "1"\nrecognizers = ["no_such_module:Thing"]',
        source="p",
        directory=None,
    )
    pool = ScanPool(policy, KEY, 1, wire_package=wire_package)
    await pool.start()
    try:
        with pytest.raises(ScanRefused) as refused:
            await asyncio.wait_for(pool.run(job("x")), 60)
        assert "no_such_module:Thing" in refused.value.sentence
        assert not pool.ready
        assert pool.failure == refused.value.sentence
    finally:
        await pool.stop()


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (('doc.get("boom")', "True"), "could not be scanned (KeyError)"),
        (("redactor.text(message", "str(message"), "would have been forwarded with a value in it"),
        (('redactor.text(message["content"])', "''"), "forwarded without its token"),
    ],
)
async def test_a_worker_that_does_not_protect_a_first_request_takes_no_calls(
    wire_package: str, tmp_path: Path, broken: tuple[str, str], said: str
) -> None:
    (tmp_path / "fakewire" / "__init__.py").write_text(WIRE.replace(*broken))
    pool = ScanPool(load_policy(), KEY, 1, wire_package=wire_package)
    await pool.start()
    try:
        with pytest.raises(ScanRefused) as refused:
            await asyncio.wait_for(pool.run(job("x")), 60)
        assert said in refused.value.sentence
        assert refused.value.sentence.startswith("The scanner cannot start: its first request")
        assert "trial.request" not in refused.value.sentence
        assert not pool.ready
    finally:
        await pool.stop()


async def test_workers_die_with_a_gateway_that_is_killed(wire_package: str, tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import asyncio, json, sys
        from gateway.redaction.policy_file import load_policy
        from gateway.redaction.workers import ScanJob, ScanPool
        async def main():
            pool = ScanPool(load_policy(), b"k" * 32, 2, wire_package="fakewire")
            await pool.start()
            while len(pool.pids) < 2: await asyncio.sleep(0.01)
            await pool.wait_ready()
            busy = asyncio.ensure_future(pool.run(ScanJob("plain", b'{"sleep": 60}', "", "a")))
            await asyncio.sleep(0.2)
            print(json.dumps(pool.pids), flush=True)
            await busy
        asyncio.run(main())
        """
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert parent.stdout is not None
    try:
        pids = json.loads(await asyncio.to_thread(parent.stdout.readline))
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    for pid in pids:
        assert await gone(pid)


async def test_what_may_come_back_is_on_disk_before_the_result_is_handed_out(
    pool: ScanPool, tmp_path: Path
) -> None:
    vault = Vault(tmp_path / "vault.db", tmp_path / "vault.key", environ={})
    vault.open()
    result = await scan_and_keep(pool, vault, job("bob@corp.example"))
    vault.close()
    again = Vault(tmp_path / "vault.db", tmp_path / "vault.key", environ={})
    again.open()
    assert dict(await again.load("builder")) == result.originals
    again.close()


async def test_a_token_that_is_another_values_leads_to_a_longer_one(
    pool: ScanPool, tmp_path: Path
) -> None:
    vault = Vault(tmp_path / "vault.db", tmp_path / "vault.key", environ={})
    vault.open()
    (short,) = (await pool.run(job("bob@corp.example"))).originals
    await vault.put("builder", {short: "someone@else.example"}, {short: "00" * 16})
    first = await scan_and_keep(pool, vault, job("bob@corp.example"))
    second = await scan_and_keep(pool, vault, job("again bob@corp.example"))
    (longer,) = first.originals
    assert longer == next(iter(second.originals))
    assert longer.startswith(short[:-1])
    assert len(longer) == len(short) + 4
    view = vault.view("builder")
    assert view[short] == "someone@else.example"
    assert view[longer] == "bob@corp.example"
    vault.close()


async def test_the_pool_reports_how_long_a_scan_took(pool: ScanPool) -> None:
    before = time.perf_counter()
    result = await pool.run(job("x" * 10_000))
    assert 0 < result.scan_us <= (time.perf_counter() - before) * 1e6


async def test_calls_given_ahead_each_get_their_own_answer(pool: ScanPool) -> None:
    jobs = [job(f"user{n}@corp.example", "x" * (n % 7 * 20_000)) for n in range(60)]
    results = await asyncio.gather(*(pool.run(one) for one in jobs))
    for number, result in enumerate(results):
        assert list(result.originals.values()) == [f"user{number}@corp.example"]


async def test_calls_behind_a_stuck_one_go_to_another_worker(wire_package: str) -> None:
    pool = ScanPool(load_policy(), KEY, 1, wire_package=wire_package, scan_seconds=0.5)
    await pool.start()
    try:
        await asyncio.wait_for(pool.wait_ready(), 60)
        (first,) = pool.pids
        stuck = asyncio.ensure_future(pool.run(job("x", sleep=30)))
        behind = [asyncio.ensure_future(pool.run(job(f"u{n}@corp.example"))) for n in range(6)]
        with pytest.raises(ScanRefused) as refused:
            await stuck
        assert refused.value.code == "scanner_timeout"
        for result in await asyncio.wait_for(asyncio.gather(*behind), 60):
            assert result.counts == {"EMAIL": 1}
        assert pool.pids != [first]
        assert pool.waiting == 0
    finally:
        await pool.stop()
