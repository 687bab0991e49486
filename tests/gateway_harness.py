"""A real gateway process and a scriptable model provider on real sockets, for tests and benches.

The provider runs in a thread of the test process, so that tests can look at every byte it
received; the gateway is a subprocess that is started, stopped and killed like a user's.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from aiohttp import web
from preloaded import Preloaded, Running

from gateway.offline import count_tokens, message_events, message_json, plan_answer

#: `sphragis` from a process that has loaded what `sphragis serve` loads.
SPHRAGIS = Preloaded(
    "gateway.cli",
    "gateway.app",
    "uvloop",
    "sqlalchemy.dialects.sqlite",
    "typer._adapters",
    "encodings.idna",
)

#: Seconds until a started gateway must be ready, on a machine that is busy with other tests.
START_PATIENCE = 90.0


@dataclass(frozen=True)
class Seen:
    """One request as the provider received it."""

    method: str
    target: str
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def everything(self) -> bytes:
        lines = [name + b": " + value for name, value in self.headers]
        return b"\n".join([f"{self.method} {self.target}".encode(), *lines, b"", self.body])

    def header(self, name: str) -> list[str]:
        wanted = name.lower().encode()
        return [value.decode() for key, value in self.headers if key.lower() == wanted]


Script = Callable[[web.Request, Seen], Awaitable[web.StreamResponse]]


async def answer_by_rule(request: web.Request, seen: Seen) -> web.StreamResponse:
    """Answer as the built-in offline provider does."""
    if "/v1/messages/count_tokens" in seen.target:
        return web.json_response({"input_tokens": count_tokens(seen.document)})
    answer = plan_answer(seen.document)
    if seen.document.get("stream") is not True:
        return web.Response(
            body=message_json(answer, "msg_1"),
            content_type="application/json",
            headers={"request-id": "req_1"},
        )
    response = await begin_stream(request)
    for event in message_events(answer, "msg_1"):
        await response.write(event)
    return response


async def begin_stream(request: web.Request) -> web.StreamResponse:
    """Send the headers of an event stream."""
    response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    return response


@dataclass
class Provider:
    """The provider; `script` decides its answers."""

    script: Script = answer_by_rule
    seen: list[Seen] = field(default_factory=list)
    url: str = ""
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def start(self) -> None:
        ready = threading.Event()

        async def serve() -> web.AppRunner:
            app = web.Application(client_max_size=1 << 30)
            app.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(
                app,
                auto_decompress=False,
                access_log=None,
                handler_cancellation=True,
                shutdown_timeout=0.2,
            )
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            return runner

        def run() -> None:
            asyncio.set_event_loop(self._loop)
            self._runner = self._loop.run_until_complete(serve())
            ready.set()
            self._loop.run_forever()
            self._loop.run_until_complete(self._runner.cleanup())
            self._loop.close()

        self._thread = threading.Thread(target=run, name="provider", daemon=True)
        self._thread.start()
        assert ready.wait(10)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        seen = Seen(request.method, request.raw_path, list(request.raw_headers), body)
        self.seen.append(seen)
        return await self.script(request, seen)


class Gateway:
    """One home directory and the gateway process that works in it, if one is running."""

    _numbers = count(1)

    def __init__(self, home: Path, upstream: str, **settings: str) -> None:
        self.home = home
        self.log = home.parent / f"{home.name}-{next(self._numbers)}.log"
        self._environment = (
            {name: value for name, value in os.environ.items() if not name.startswith("SPHRAGIS_")}
            | {
                "SPHRAGIS_HOME": str(home),
                # Its own: gateways of one user record each other's heads.
                "XDG_STATE_HOME": str(home.parent / f"{home.name}-state"),
                "SPHRAGIS_LISTEN_ADDR": "127.0.0.1:0",
                "SPHRAGIS_ANTHROPIC_BASE_URL": upstream,
                "SPHRAGIS_SCAN_WORKERS": "1",
                "SPHRAGIS_AUDIT_RESERVE_MIB": "0",
            }
            | {f"SPHRAGIS_{key.upper()}": value for key, value in settings.items()}
        )
        self.process: subprocess.Popen[bytes] | Running | None = None
        self.url = ""

    def start(self, *arguments: str, wait: bool = True, afresh: bool = False) -> Gateway:
        """Start it, from a process that has loaded it or `afresh` in an interpreter of its own."""
        line = ["serve", *arguments]
        with self.log.open("ab") as log:
            if afresh or not SPHRAGIS.fits(line, self._environment):
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "gateway.cli", *line],
                    env=self._environment,
                    stderr=log,
                    stdout=log,
                    stdin=subprocess.DEVNULL,
                )
            else:
                self.process = SPHRAGIS.start(
                    "gateway.cli:main",
                    line,
                    cwd=Path.cwd(),
                    env=self._environment,
                    out=log.fileno(),
                    err=log.fileno(),
                )
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_PATIENCE
        while time.monotonic() < deadline:
            assert self.process is not None
            if self.process.poll() is not None:
                raise AssertionError(f"the gateway ended: {self.log.read_text()}")
            if self._address() and self.get("/readyz")[0] == 200:
                return
            time.sleep(0.05)
        raise AssertionError(f"the gateway is not ready: {self.log.read_text()}")

    def _address(self) -> bool:
        try:
            pid, _, address = (self.home / "sphragis.pid").read_text().splitlines()
        except (OSError, ValueError):
            return False
        assert self.process is not None
        if int(pid) != self.process.pid:
            return False
        self.url = f"http://{address}"
        return True

    def stop(self) -> int:
        """SIGTERM; return the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(30)

    def kill(self) -> None:
        """SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def get(self, path: str) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=5) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read()
        except (urllib.error.URLError, OSError):
            return 0, b""

    def records(self) -> list[dict[str, Any]]:
        """The ledger's records, read from its files."""
        found = []
        for path in sorted((self.home / "ledger" / "segments").glob("*.jsonl")):
            for line in path.read_bytes().splitlines():
                if line.startswith(b"{") and not line.startswith(b'{"cp"'):
                    found.append(json.loads(line))
        return found

    def outcome_of(self, request_seq: int, patience: float = 10.0) -> dict[str, Any]:
        """The outcome record of a request record, waiting for it if need be."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            for record in self.records():
                if record["type"] == "outcome" and record["ref"] == request_seq:
                    return record
            time.sleep(0.05)
        raise AssertionError(f"no outcome for {request_seq}")


@contextmanager
def running(home: Path, upstream: str, *arguments: str, **settings: str) -> Iterator[Gateway]:
    """A gateway that is ready, stopped at the end of the block."""
    gateway = Gateway(home, upstream, **settings)
    try:
        yield gateway.start(*arguments)
    finally:
        if gateway.process is not None and gateway.process.poll() is None:
            gateway.kill() if sys.exc_info()[0] else gateway.stop()


def sphragis_forked(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run one command line of `sphragis` in a process that need not load it again."""
    if SPHRAGIS.fits(arguments, env):
        return SPHRAGIS.run("gateway.cli:main", arguments, cwd=Path.cwd(), env=env, timeout=120)
    return subprocess.run(
        [sys.executable, "-m", "gateway.cli", *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def encodings(canary: str) -> Iterator[bytes]:
    """Every form a text could leave in: raw, escaped, quoted, hex, base64 at each alignment."""
    raw = canary.encode()
    yield raw
    yield json.dumps(canary)[1:-1].encode()
    yield json.dumps(json.dumps(canary))[3:-3].encode()
    yield urllib.parse.quote(canary, safe="").encode()
    yield urllib.parse.quote_plus(canary).encode()
    yield raw.hex().encode()
    for shift in range(3):
        # Cut off the characters that depend on what stands before and after.
        encoded = base64.b64encode(b"\0" * shift + raw)
        start, end = (0, 2, 3)[shift], (len(raw) + shift) // 3 * 4
        yield encoded[start:end]
        yield base64.urlsafe_b64encode(b"\0" * shift + raw)[start:end]


def leaks(canaries: list[str], seen: list[Seen]) -> list[str]:
    """Those canaries of which the provider received any form."""
    haystack = b"\n".join(item.everything for item in seen)
    lowered = haystack.lower()
    found = []
    for canary in canaries:
        forms = set(encodings(canary))
        if any(form in haystack for form in forms) or canary.lower().encode() in lowered:
            found.append(canary)
    return found
