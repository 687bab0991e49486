"""The deck's side of the gateway: is it ready, start it, stop it, what was used.

Owns the gateway process when this deck started it; a gateway that was already there is used and
never stopped. Invariant: `probe` asks freshly each time and gives each question 500 ms, so work is
handed out only on a present fact, never on a remembered one. Readiness is `GET /readyz`; a
gateway without that path is ready when `GET /metrics` answers 200 (contracts/gateway.md
section 2). `deck.session` calls it; the two programs share nothing but HTTP.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from deck import processes
from deck.addresses import called_at, is_address
from deck.board import Child
from deck.config import GatewayMode, SphragisConfig
from deck.lean_httpx import httpx
from deck.plain_files import open_to_add
from deck.programs import find_own
from deck.usage import Scrape, read_scrape
from shared.paths import is_path_safe_role
from shared.telemetry import SCRAPE_LIMIT_BYTES

#: Existing decks give a health probe this long (contracts/deck.md section 1.6).
PROBE_SECONDS: Final = 0.5
SCRAPE_SECONDS: Final = 1.0
#: 40 tries of a probe and a pause, as existing decks (contracts/gateway.md section 2).
START_TRIES: Final = 40
START_PAUSE_SECONDS: Final = 0.25
STOP_GRACE_SECONDS: Final = 5.0
#: A stamp is a durable record of the gateway, so it takes as long as its disk.
STAMP_SECONDS: Final = 2.0
#: The gateway's control socket, in its home (SPHRAGIS_HOME).
CONTROL_SOCKET: Final = "control.sock"
#: Bytes a socket's path may have: 108 with the final NUL on Linux, 104 on macOS.
MAX_SOCKET_PATH: Final = 103
#: A readiness answer is small; more of it is not read.
READINESS_LIMIT_BYTES: Final = 64 << 10
REASON_CHARS: Final = 200
#: How servers say that they do not have `/readyz`.
NO_SUCH_PATH: Final = (400, 404, 405, 501)
BAD_ADDRESS: Final = "addr in [sphragis] must be a host and a port, like 127.0.0.1:8787"

#: AttributeError: what httpx's own libraries raise over a connection that is gone the moment it was
#: made, because they ask a socket that is not there any more for its peer.
_NO_ANSWER: Final = (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, AttributeError)


@dataclass(frozen=True, slots=True)
class Readiness:
    """One probe's answer; `reason` is a clause that completes "the gateway is not ready: …"."""

    ready: bool
    reason: str = ""


class StampKind(StrEnum):
    """What became of a stamp: taken; no control socket (an older gateway); refused for good; or
    failed, which may pass."""

    TAKEN = "taken"
    ABSENT = "absent"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Stamped:
    """One stamp's answer, with a clause that says why it was not taken."""

    kind: StampKind
    reason: str = ""


class Gateway:
    """The gateway of one session. Used from one event loop."""

    def __init__(
        self,
        config: SphragisConfig,
        *,
        log: Path,
        environ: Mapping[str, str] = os.environ,
        transport: httpx.AsyncBaseTransport | None = None,
        control: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`log` receives the output of a gateway started here. `transport` and `control` (for
        the control socket) are for tests."""
        self.config = config
        self.enforced = config.mode is not GatewayMode.OFF
        self.last = Readiness(ready=False, reason="not asked yet")
        #: The providers whose key the gateway holds, as it last said.
        self.managed: frozenset[str] = frozenset()
        self._role_keys: dict[str, str] = {}
        self._log = log
        self._control = control
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None
        self._child: Child | None = None
        self._loaded = False
        self.host, self.port = called_at(config.addr)
        #: Why `addr` is not an address: such a gateway is never ready, as with existing decks.
        self.bad_address = "" if is_address(config.addr) else BAD_ADDRESS
        self._client = httpx.AsyncClient(
            base_url="" if self.bad_address else self.url,
            trust_env=False,
            follow_redirects=False,
            # Plain HTTP only: loading the system's certificates would cost megabytes for nothing.
            verify=False,
            limits=httpx.Limits(max_keepalive_connections=0),
            transport=transport,
        )

    @property
    def url(self) -> str:
        """The address clients use, without a path."""
        return f"http://{self.host}:{self.port}"

    @property
    def fail_closed(self) -> bool:
        """Whether work is refused while the gateway is not ready."""
        return self.enforced and self.config.fail_closed

    @property
    def child(self) -> Child | None:
        """The gateway process that is ours to stop, if any."""
        return self._child

    def role_url(self, role: str) -> str:
        """Return the base URL of a role: with `/agent/<role>` when the name allows it."""
        return f"{self.url}/agent/{role}" if is_path_safe_role(role) else self.url

    async def probe(self) -> Readiness:
        """Ask now whether the gateway is ready; at most 500 ms a question. Never raises."""
        if self.bad_address:
            self.last = Readiness(False, self.bad_address)
            return self.last
        try:
            self.last = await self._ask()
        except TimeoutError:
            self.last = Readiness(False, f"no answer from {self.url} within 500 ms")
        except _NO_ANSWER:
            self.last = Readiness(False, f"{self.url} does not answer")
        return self.last

    async def _ask(self) -> Readiness:
        # Each question has the whole time: an existing gateway needs two.
        async with asyncio.timeout(PROBE_SECONDS):
            status, body = await self._get("/readyz", READINESS_LIMIT_BYTES)
        if status in NO_SUCH_PATH:
            async with asyncio.timeout(PROBE_SECONDS):
                status, body = await self._get("/metrics", 0)
        answer = _readiness(body)
        if status == 200 and answer.get("ready") is not False:
            return Readiness(True)
        return Readiness(False, _reason(answer) or f"it answers {status}")

    async def scrape(self) -> Scrape | None:
        """Return a reading of the token counters, or None when there is none within 1 s."""
        try:
            async with asyncio.timeout(SCRAPE_SECONDS):
                status, body = await self._get("/metrics", SCRAPE_LIMIT_BYTES)
        except (TimeoutError, *_NO_ANSWER):
            return None
        return read_scrape(body.decode("utf-8", "replace")) if status == 200 else None

    async def _load(self) -> None:
        """Load what httpx loads at its first connection: on the loop it would hold up everybody
        for tens of milliseconds."""
        if not self._loaded:
            await asyncio.to_thread(_load_networking)
            self._loaded = True

    async def _get(self, path: str, limit: int) -> tuple[int, bytes]:
        await self._load()
        async with self._client.stream("GET", path) as response:
            body = bytearray()
            if limit:
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) >= limit:
                        break
            return response.status_code, bytes(body[:limit])

    @property
    def control_socket(self) -> Path:
        """Where a gateway of this environment listens for stamps."""
        home = self._environ.get("SPHRAGIS_HOME") or "~/.sphragis"
        if home.startswith("~/") and self._environ.get("HOME"):
            return Path(self._environ["HOME"]) / home[2:] / CONTROL_SOCKET
        return Path(home).expanduser() / CONTROL_SOCKET

    def role_key(self, role: str) -> str:
        """Return the key that a role shows to a gateway which holds the providers' keys. It is
        made anew in each session, and the gateway is told its digest only."""
        return self._role_keys.setdefault(role, f"choragos-{secrets.token_hex(24)}")

    async def stamp(self, session: str, role: str, task: str | None) -> Stamped:
        """Tell the gateway what a role works on: a task, "" for none, None when the role is gone.
        Never raises."""
        body = {
            "session": session,
            "role": role,
            "task": task,
            "key": hashlib.sha256(self.role_key(role).encode()).hexdigest(),
            "address": f"{self.host}:{self.port}",
        }
        path = self.control_socket
        try:
            with _reachable(path) as short:
                async with asyncio.timeout(STAMP_SECONDS):
                    status, answer = await self._post(short, "/v1/stamp", body)
        except TimeoutError:
            return Stamped(StampKind.FAILED, f"no answer within {STAMP_SECONDS:g} s")
        except (httpx.ConnectError, FileNotFoundError, NotADirectoryError):
            return Stamped(StampKind.ABSENT, f"no gateway listens on {path}")
        except _NO_ANSWER as wrong:
            return Stamped(StampKind.FAILED, f"it does not answer ({type(wrong).__name__})")
        if status == 200:
            self.managed = _managed(answer)
            return Stamped(StampKind.TAKEN)
        told = _error_message(answer) or f"it answers {status}"
        return Stamped(StampKind.FAILED if status >= 500 else StampKind.REFUSED, told)

    async def _post(self, socket: str, path: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        await self._load()
        # A connection for each: stamps are as rare as tasks.
        transport = self._control or httpx.AsyncHTTPTransport(uds=socket, verify=False)
        async with (
            httpx.AsyncClient(
                base_url="http://gateway", trust_env=False, transport=transport
            ) as client,
            client.stream("POST", path, json=body) as response,
        ):
            data = bytearray()
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) >= READINESS_LIMIT_BYTES:
                    break
            return response.status_code, bytes(data[:READINESS_LIMIT_BYTES])

    def adopt(self, child: Child | None) -> None:
        """Take back a gateway that an earlier, crashed deck of this session had started."""
        if child is not None and processes.is_alive(child):
            self._child = child

    async def ensure(self, started: Callable[[Child], None]) -> Readiness:
        """Attach to a ready gateway or start one and wait for it.

        `started` is told the process as soon as there is one. With `enabled` unset and neither a
        gateway nor its program there, the gateway is switched off for this session.
        """
        readiness = await self.probe()
        if readiness.ready or (not self.bad_address and await self.listens()):
            return readiness
        program = find_own(self.config.command, self._environ)
        if program is not None and self.bad_address:
            return readiness
        if program is None:
            if self.config.mode is GatewayMode.SOFT:
                self.enforced = False
            self.last = Readiness(
                False, f"{self.config.command} is not on PATH and nothing answers at {self.url}"
            )
            return self.last
        try:
            started(self._spawn(program))
        except OSError as error:
            self.last = Readiness(False, f"{program} cannot be started: {error.strerror}")
            return self.last
        return await self._wait_until_ready()

    async def listens(self) -> bool:
        """Tell whether something holds the port, ready or not: starting a second one would only
        fail."""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                _, writer = await asyncio.open_connection(self.host.strip("[]"), int(self.port))
        except (TimeoutError, OSError, ValueError):
            return False
        writer.close()
        return True

    def _spawn(self, program: str) -> Child:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        environ = {k: v for k, v in self._environ.items() if not k.startswith("CHORAGOS_")}
        # The host stays in: a bare port would ask an existing gateway for every interface.
        environ["SPHRAGIS_LISTEN_ADDR"] = f"{self.host}:{self.port}"
        descriptor = open_to_add(self._log)
        try:
            self._process = subprocess.Popen(  # the program the user configured
                [program, "serve"],
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                env=environ,
                start_new_session=True,
            )
        finally:
            os.close(descriptor)
        self._child = processes.child(self._process.pid)
        return self._child

    async def _wait_until_ready(self) -> Readiness:
        for _ in range(START_TRIES):
            readiness = await self.probe()
            if readiness.ready:
                return readiness
            if self._process is not None and self._process.poll() is not None:
                self._child = None
                self.last = Readiness(
                    False,
                    f"{self.config.command} serve ended with {self._process.returncode}; "
                    f"see {self._log}",
                )
                return self.last
            await asyncio.sleep(START_PAUSE_SECONDS)
        return self.last

    def reap(self) -> bool:
        """Collect our gateway if it has ended; True when it has just been found dead."""
        if self._child is None:
            return False
        if self._process is not None:
            ended = self._process.poll() is not None
        else:
            ended = not processes.is_alive(self._child)
        if ended:
            self._child = None
        return ended

    async def stop(self) -> None:
        """Stop the gateway if it is ours: SIGTERM, grace, SIGKILL. Then close the client."""
        if self._child is not None:
            await self._signal_until_gone(self._child)
            self._child = None
        if self._loaded:
            await self._client.aclose()

    async def _signal_until_gone(self, child: Child) -> None:
        for number, patience in ((signal.SIGTERM, STOP_GRACE_SECONDS), (signal.SIGKILL, 2.0)):
            processes.signal_group(child, number)
            deadline = asyncio.get_running_loop().time() + patience
            while asyncio.get_running_loop().time() < deadline:
                if self.reap():
                    return
                await asyncio.sleep(0.05)


def _load_networking() -> None:
    for name in ("anyio._backends._asyncio", "httpcore._backends.auto", "httpcore._backends.anyio"):
        with suppress(ImportError):
            importlib.import_module(name)


@contextmanager
def _reachable(path: Path) -> Iterator[str]:
    """Yield a path for a socket that is short enough for the kernel, through its directory's
    descriptor where the path itself is too long. Raises OSError."""
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH or not Path("/proc/self/fd").exists():
        yield os.fspath(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def _error_message(body: bytes) -> str:
    """Return the sentence of a control answer, without its end: it becomes a clause."""
    told = _readiness(body).get("error")
    text = str(told.get("message", "")) if isinstance(told, dict) else ""
    return "".join(c for c in text if c.isprintable())[:REASON_CHARS].rstrip(".")


def _managed(body: bytes) -> frozenset[str]:
    """Return which providers' keys the gateway says it holds; older gateways say nothing."""
    told = _readiness(body).get("managed")
    return frozenset(map(str, told)) if isinstance(told, list) else frozenset()


def _readiness(body: bytes) -> dict[str, Any]:
    """Return a readiness answer, `{}` for what is not one."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _reason(answer: Mapping[str, Any]) -> str:
    """Return the reasons of a readiness answer as one clause, free of control characters."""
    reasons = answer.get("reasons")
    if not isinstance(reasons, list):
        return ""
    text = ", ".join(str(reason) for reason in reasons)
    return "".join(c for c in text if c.isprintable())[:REASON_CHARS]
