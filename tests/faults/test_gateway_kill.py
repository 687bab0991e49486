"""The gateway when something dies under it: itself, a scanning worker, its disk, a stop in work."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from gateway_harness import Gateway, Provider, Seen, answer_by_rule, begin_stream, leaks, running

from shared.ledger import verify_path


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    provider.start()
    yield provider
    provider.stop()


def body(text: str, **members: Any) -> dict[str, Any]:
    return {
        "model": "claude-test-1",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": text}],
        **members,
    }


async def post(gateway: Gateway, document: Any, role: str = "coder") -> tuple[int, Any, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{gateway.url}/agent/{role}/v1/messages", json=document) as answer,
    ):
        return answer.status, await answer.json(), answer.headers


def hold(release: threading.Event, came: list[int]) -> Any:
    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        came.append(1)
        await asyncio.to_thread(release.wait, 30)
        return await answer_by_rule(request, seen)

    return script


async def until(condition: Any, patience: float = 20.0) -> None:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come to pass")


async def test_after_kill_9_in_the_middle_of_calls_nothing_is_lost_or_left_open(
    provider: Provider, tmp_path: Path
) -> None:
    canaries = [f"kill{number}.probe@leak-canary.org" for number in range(8)]
    gateway = Gateway(tmp_path / "home", provider.url).start()
    status, _, _ = await post(gateway, body(f"mail {canaries[0]}"))
    assert status == 200
    token = re.findall(r"\[EMAIL_[a-z0-9]+\]", provider.seen[0].body.decode())[0]

    release, came = threading.Event(), list[int]()
    provider.script = hold(release, came)
    calls = [asyncio.ensure_future(post(gateway, body(f"to {value}"))) for value in canaries]
    await until(lambda: len(came) == len(canaries))
    gateway.kill()
    release.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, aiohttp.ClientError) for result in results)
    before = gateway.records()
    asked = [record["seq"] for record in before if record["type"] == "request"]
    assert len(asked) == 1 + len(canaries)

    provider.script = answer_by_rule
    gateway.start()
    try:
        verdict = verify_path(gateway.home / "ledger")
        assert verdict.exit_code == 0, verdict.findings
        records = gateway.records()
        assert records[: len(before)] == before
        outcomes = {r["ref"]: r["outcome"]["status"] for r in records if r["type"] == "outcome"}
        assert sorted(outcomes) == asked
        assert sorted(outcomes.values()) == ["ok"] + ["unknown"] * len(canaries)
        provider.seen.clear()
        _, answer, _ = await post(gateway, body(f"what was {token} and again {canaries[0]}"))
        assert answer["content"][0]["text"].count(canaries[0]) == 2
        assert provider.seen[0].body.decode().count(token) == 2
    finally:
        gateway.stop()
    assert leaks(canaries, provider.seen) == []
    assert verify_path(gateway.home / "ledger").exit_code == 0


async def test_kill_9_at_any_moment_of_a_stream_of_calls_leaves_a_ledger_that_verifies(
    provider: Provider, tmp_path: Path
) -> None:
    gateway = Gateway(tmp_path / "home", provider.url)
    receipts: list[tuple[int, str]] = []
    for round_ in range(3):
        gateway.start()

        async def keep_calling(number: int) -> None:
            while True:
                _, _, headers = await post(gateway, body(f"a{number}.probe@leak-canary.org"))
                parts = headers["x-audit-receipt"].split(";")
                receipts.append((int(parts[1]), parts[3]))

        calls = [asyncio.ensure_future(keep_calling(number)) for number in range(8)]
        await asyncio.sleep(0.25 + 0.11 * round_)
        gateway.kill()
        await asyncio.gather(*calls, return_exceptions=True)
        assert verify_path(gateway.home / "ledger").exit_code in {0, 2}
    gateway.start()
    gateway.stop()
    assert verify_path(gateway.home / "ledger").exit_code == 0
    types = {record["seq"]: record["type"] for record in gateway.records()}
    assert receipts
    assert all(types[seq] == "request" for seq, _ in receipts)


async def test_a_worker_killed_while_it_scans_costs_that_call_and_leaks_nothing(
    provider: Provider, tmp_path: Path
) -> None:
    canary = "worker.probe@leak-canary.org"
    with running(tmp_path / "home", provider.url) as gateway:
        assert gateway.process is not None
        large = body(" ".join(f"word{n} {canary}" for n in range(60_000)))
        call = asyncio.ensure_future(post(gateway, large))
        await asyncio.sleep(0.25)
        workers = children(gateway.process.pid)
        assert len(workers) == 1
        import os

        os.kill(workers[0], signal.SIGKILL)
        status, document, headers = await call
        assert status == 503
        assert document["type"] == "error"
        assert "x-audit-receipt" in headers
        assert provider.seen == []
        await until(lambda: gateway.get("/readyz")[0] == 200)
        status, document, _ = await post(gateway, body(f"again {canary}"))
        assert status == 200
        assert canary in document["content"][0]["text"]
        assert leaks([canary], provider.seen) == []


def children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


async def test_a_ledger_that_cannot_be_written_stops_every_call(
    provider: Provider, tmp_path: Path
) -> None:
    with running(tmp_path / "home", provider.url) as gateway:
        assert gateway.process is not None
        assert (await post(gateway, body("first")))[0] == 200
        await asyncio.sleep(1.2)  # HEAD and the outcome are written
        provider.seen.clear()
        # Every file of the process may grow to one byte: as good as a full disk.
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        status, document, headers = await post(gateway, body("second"))
        assert status == 503
        assert document["type"] == "error"
        assert "ledger" in document["error"]["message"].lower()
        assert headers["x-should-retry"] == "false"
        assert provider.seen == []
        code, raw = gateway.get("/readyz")
        assert code == 503
        assert json.loads(raw)["ready"] is False
        assert gateway.get("/metrics")[0] == 503
        assert (await post(gateway, body("third")))[0] == 503
        assert provider.seen == []
        resource.prlimit(
            gateway.process.pid,
            resource.RLIMIT_FSIZE,
            (resource.RLIM_INFINITY, resource.RLIM_INFINITY),
        )
        gateway.stop()
        gateway.start()
        assert (await post(gateway, body("fourth")))[0] == 200
    assert verify_path(gateway.home / "ledger").exit_code == 0


async def test_a_call_in_work_is_finished_when_the_gateway_is_told_to_stop(
    provider: Provider, tmp_path: Path
) -> None:
    release, came = threading.Event(), list[int]()
    provider.script = hold(release, came)
    gateway = Gateway(tmp_path / "home", provider.url).start()
    assert gateway.process is not None
    call = asyncio.ensure_future(post(gateway, body("last.probe@leak-canary.org")))
    await until(lambda: len(came) == 1)
    gateway.process.terminate()
    await asyncio.sleep(0.5)
    assert gateway.process.poll() is None
    host, port = gateway.url.removeprefix("http://").split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5).close()
    release.set()
    status, document, _ = await call
    assert status == 200
    assert "last.probe@leak-canary.org" in document["content"][0]["text"]
    assert await asyncio.to_thread(gateway.process.wait, 10) == 0
    kinds = [record["type"] for record in gateway.records()]
    assert kinds[-3:] == ["request", "outcome", "stop"]


async def test_a_call_that_does_not_end_is_cut_after_the_grace_and_recorded(
    provider: Provider, tmp_path: Path
) -> None:
    async def for_ever(request: web.Request, seen: Seen) -> web.StreamResponse:
        response = await begin_stream(request)
        while True:
            await response.write(b'event: ping\ndata: {"type": "ping"}\n\n')
            await asyncio.sleep(0.05)

    provider.script = for_ever
    gateway = Gateway(tmp_path / "home", provider.url).start()
    assert gateway.process is not None
    async with aiohttp.ClientSession() as session:
        answer = await session.post(
            f"{gateway.url}/agent/coder/v1/messages", json=body("x", stream=True)
        )
        await answer.content.readany()
        gateway.process.terminate()
        with pytest.raises(aiohttp.ClientError):
            await answer.read()
        assert await asyncio.to_thread(gateway.process.wait, 15) == 0
    records = gateway.records()
    assert [record["type"] for record in records[-3:]] == ["request", "outcome", "stop"]
    assert records[-2]["outcome"]["status"] == "stopped"
    assert verify_path(gateway.home / "ledger").exit_code == 0
