"""The deck's questions to a gateway, answered by scripted transports."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from pathlib import Path

import httpx
import pytest

from deck.config import SphragisConfig
from deck.gateway import Gateway


def asked(answers: dict[str, httpx.Response | Exception | float], seen: list[str]) -> Gateway:
    async def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.path)
        answer = answers.get(request.url.path, httpx.Response(404))
        if isinstance(answer, float):
            await asyncio.sleep(answer)
            return httpx.Response(200)
        if isinstance(answer, Exception):
            raise answer
        return answer

    config = SphragisConfig(enabled=True, addr=":8787")
    return Gateway(config, log=Path("x"), environ={}, transport=httpx.MockTransport(handle))


def not_ready(*reasons: object) -> httpx.Response:
    return httpx.Response(503, text=json.dumps({"ready": False, "reasons": list(reasons)}))


@pytest.mark.parametrize(
    ("answers", "ready", "reason", "paths"),
    [
        ({"/readyz": httpx.Response(200)}, True, "", ["/readyz"]),
        ({"/metrics": httpx.Response(200)}, True, "", ["/readyz", "/metrics"]),
        ({"/metrics": httpx.Response(503)}, False, "it answers 503", ["/readyz", "/metrics"]),
        ({"/readyz": not_ready("disk full", "no policy")}, False, "disk full, no policy", None),
        ({"/readyz": httpx.Response(503, text="<html>")}, False, "it answers 503", None),
        ({"/readyz": httpx.Response(405), "/metrics": httpx.Response(200)}, True, "", None),
        ({"/readyz": httpx.Response(500), "/metrics": httpx.Response(200)}, False, "500", None),
        ({"/readyz": httpx.Response(200, text='{"ready": false}')}, False, "it answers 200", None),
        ({"/readyz": httpx.Response(200, text="<html>")}, True, "", None),
        ({"/readyz": httpx.Response(302)}, False, "it answers 302", None),
        ({"/readyz": not_ready("a\x1b[31m\nb")}, False, "a[31mb", None),
        ({"/readyz": httpx.ConnectError("no")}, False, "does not answer", None),
        ({"/readyz": AttributeError("getpeername")}, False, "does not answer", None),
        ({"/readyz": 5.0}, False, "within 500 ms", None),
    ],
)
async def test_readiness_is_a_fresh_answer_or_a_reason(
    answers: dict[str, httpx.Response | Exception | float],
    ready: bool,
    reason: str,
    paths: list[str] | None,
) -> None:
    seen: list[str] = []
    gateway = asked(answers, seen)
    found = await gateway.probe()
    assert found.ready == ready
    assert reason in found.reason
    assert paths is None or seen == paths
    await gateway.probe()
    assert len(seen) > 1


async def test_usage_is_read_only_from_a_whole_good_answer() -> None:
    line = 'sphragis_tokens_total{agent="a",model="m",direction="input"} 7\n'
    for response, expected in (
        (httpx.Response(200, text=line), [7]),
        (httpx.Response(503, text=line), None),
        (httpx.Response(200, text=line + "x" * (2 << 20)), [7]),
    ):
        scrape = await asked({"/metrics": response}, []).scrape()
        assert (scrape and list(scrape.counters.values())) == expected


@pytest.mark.parametrize(
    ("addr", "url"),
    [
        (":8787", "http://127.0.0.1:8787"),
        ("0.0.0.0:1", "http://127.0.0.1:1"),
        ("[::]:1", "http://127.0.0.1:1"),
        ("localhost:9", "http://localhost:9"),
        ("[::1]:9", "http://[::1]:9"),
    ],
)
def test_an_address_to_listen_on_becomes_one_to_call(addr: str, url: str) -> None:
    gateway = Gateway(SphragisConfig(addr=addr), log=Path("x"), environ={})
    assert gateway.url == url
    assert gateway.role_url("coder") == f"{url}/agent/coder"
    assert gateway.role_url("x" * 65) == url


async def test_a_start_that_fails_is_told_with_the_programs_exit(tmp_path: Path) -> None:
    program = tmp_path / "gw"
    program.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    program.chmod(0o755)
    config = SphragisConfig(enabled=True, addr="127.0.0.1:1", command=str(program))
    gateway = Gateway(config, log=tmp_path / "gw.log", environ={"PATH": "/bin"})
    children = []
    found = await gateway.ensure(children.append)
    assert not found.ready
    assert "serve ended with 3" in found.reason
    assert (tmp_path / "gw.log").read_text() == "broken\n"
    assert len(children) == 1
    await gateway.stop()


@pytest.mark.parametrize(
    "address",
    [
        "gateway",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:notaport",
        "127.0.0.1:0",
        "127.0.0.1:99999",
        "127.0.0.1:８７８７",
        "http://127.0.0.1:8787",
        "a..b:8787",
        "a b:8787",
        "::1:8787",
        f"{'n' * 300}:8787",
    ],
)
async def test_what_is_no_address_is_never_ready_and_never_started(address: str) -> None:
    config = SphragisConfig(enabled=True, addr=address, command="sh")
    gateway = Gateway(config, log=Path("x"), environ={"PATH": "/usr/bin:/bin"})
    started: list[object] = []
    for found in (await gateway.probe(), await gateway.ensure(started.append)):
        assert not found.ready
        assert "like 127.0.0.1:8787" in found.reason
    assert await gateway.scrape() is None
    assert not started
    await gateway.stop()


@pytest.mark.parametrize("address", ["localhost:1", "[::1]:1", ":1", "0.0.0.0:1", "my_host.lan.:1"])
def test_what_is_an_address_is_taken(address: str) -> None:
    gateway = Gateway(SphragisConfig(addr=address), log=Path("x"), environ={})
    assert not gateway.bad_address


async def test_an_existing_gateway_has_500_ms_for_its_own_answer() -> None:
    """It is asked for `/readyz` first, which it does not have; that must not cost its time."""

    async def handle(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.3)
        return httpx.Response(200 if request.url.path == "/metrics" else 404)

    gateway = Gateway(
        SphragisConfig(enabled=True), log=Path("x"), environ={},
        transport=httpx.MockTransport(handle),
    )  # fmt: skip
    assert (await gateway.probe()).ready


async def test_a_gateway_that_is_gone_the_moment_it_was_reached_is_no_fault_of_ours() -> None:
    def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = writer.get_extra_info("socket")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()

    server = await asyncio.start_server(reset, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    config = SphragisConfig(enabled=True, addr=f"127.0.0.1:{port}")
    gateway = Gateway(config, log=Path("x"), environ={})
    async with server:
        for _ in range(100):
            assert not (await gateway.probe()).ready
            assert await gateway.scrape() is None
    await gateway.stop()
    broken = asked({"/metrics": AttributeError("getpeername")}, [])
    assert await broken.scrape() is None
