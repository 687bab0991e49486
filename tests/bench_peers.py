"""A model provider and a client that cost almost nothing, so that a bench measures the gateway.

The provider is a process of its own (`python bench_peers.py`): raw HTTP/1.1 on asyncio, one fixed
answer. The client keeps connections open and sends ready-made bytes. Both understand only what
they need: a Content-Length or chunked body, no pipelining.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway.listening import run_loop

ANSWER = (
    b'{"id":"msg_1","type":"message","role":"assistant","model":"claude-test-1","content":'
    b'[{"type":"text","text":"Done, as asked."}],"stop_reason":"end_turn","stop_sequence":null,'
    b'"usage":{"input_tokens":512,"output_tokens":9}}'
)
_HEADERS = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nrequest-id: req_1\r\n"
    b"content-length: %d\r\n\r\n"
)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_TICKS = os.sysconf("SC_CLK_TCK")


class _Messages(asyncio.Protocol):
    """Collects HTTP messages of either direction; `whole` is told of each complete one."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._wanted: int | None = None
        self._chunked = False

    def connection_made(self, transport: Any) -> None:  # uvloop's is no asyncio.Transport
        self.transport: asyncio.Transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        if self._wanted is None and not self._chunked:
            end = self.data.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self.data[: end + 2])
            length = _LENGTH.search(head)
            self._chunked = _CHUNKED.search(head) is not None
            self._wanted = end + 4 + (int(length.group(1)) if length else 0)
        if self.data.endswith(b"0\r\n\r\n") if self._chunked else len(self.data) == self._wanted:
            self._wanted, self._chunked = None, False
            message, self.data = self.data, bytearray()
            self.whole(bytes(message))

    def whole(self, message: bytes) -> None:
        raise NotImplementedError


class _Provider(_Messages):
    def whole(self, message: bytes) -> None:
        self.transport.write(_HEADERS % len(ANSWER) + ANSWER)


class Connection(_Messages):
    """One client connection; `send` returns the status and the milliseconds until the answer."""

    def __init__(self) -> None:
        super().__init__()
        self._waiter: asyncio.Future[bytes] | None = None

    @classmethod
    async def open(cls, base: str) -> Connection:
        host, _, port = base.removeprefix("http://").partition(":")
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, host, int(port))
        return connection

    async def send(self, raw: bytes) -> tuple[int, float]:
        self._waiter = asyncio.get_running_loop().create_future()
        began = time.perf_counter()
        self.transport.write(raw)
        answer = await self._waiter
        return int(answer[9:12]), (time.perf_counter() - began) * 1000

    def whole(self, message: bytes) -> None:
        assert self._waiter is not None
        self._waiter.set_result(message)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(exc or ConnectionResetError())

    def close(self) -> None:
        self.transport.close()


def request(body: bytes, role: str = "", path: str = "/v1/messages") -> bytes:
    """The bytes of one call, with the headers of a usual client."""
    place = f"/agent/{role}{path}" if role else path
    head = (
        f"POST {place} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: application/json\r\n"
        "content-type: application/json\r\nuser-agent: claude-cli/2.1.332 (external, cli)\r\n"
        "x-api-key: sk-test-key\r\nanthropic-version: 2023-06-01\r\nx-app: cli\r\n"
        "x-stainless-lang: js\r\nx-stainless-os: Linux\r\nx-stainless-runtime: node\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def flood(
    base: str, requests: Sequence[bytes], connections: int
) -> tuple[float, list[float]]:
    """Send `requests` over so many connections at once; return seconds and each call's ms."""
    waiting = iter(requests)
    took: list[float] = []

    async def one(connection: Connection) -> None:
        for raw in waiting:
            status, ms = await connection.send(raw)
            assert status == 200, status
            took.append(ms)

    opened = [await Connection.open(base) for _ in range(connections)]
    began = time.perf_counter()
    await asyncio.gather(*(one(connection) for connection in opened))
    seconds = time.perf_counter() - began
    for connection in opened:
        connection.close()
    return seconds, took


@contextmanager
def provider() -> Iterator[str]:
    """Run the provider; the base URL."""
    process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().decode().strip()
    finally:
        process.kill()
        process.wait()


def family(pid: int) -> list[int]:
    """A process and everything below it."""
    found = [pid]
    for parent in found:
        try:
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            for task in Path(f"/proc/{parent}/task").iterdir():
                children += (task / "children").read_text().split()
        except OSError:
            continue
        found += [child for child in dict.fromkeys(map(int, children)) if child not in found]
    return found


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system time of processes so far."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident and proportional megabytes of one process."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = dict(re.findall(r"^(Rss|Pss): +(\d+) kB", text, re.MULTILINE))
    return int(found["Rss"]) / 1024, int(found["Pss"]) / 1024


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Provider, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    run_loop(_serve())
