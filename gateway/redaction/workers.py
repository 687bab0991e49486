"""The scanning workers: processes that keep the event loop free of CPU work.

Owns the worker processes, one thread for each (it waits on the pipe, so the loop never does), and
the queue before them. Invariants: a call is scanned or refused, never passed unscanned; a worker's
death costs only the call it was scanning; at most `QUEUE_JOBS` calls and `QUEUE_BYTES` wait; after
`stop`, or the gateway's own death, no worker is left. All state is changed on the event loop.
Called by the pipeline (`run`), health (`ready`) and wiring (`start`, `stop`).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.redaction.frames import FramesEnded, receive, send
from gateway.redaction.job import ScanJob, ScanRefused, ScanResult
from gateway.redaction.policy import Policy
from gateway.redaction.scanner import WIRE_PACKAGE
from gateway.redaction.vault import TokenTaken, Vault
from gateway.redaction.worker import job_head

__all__ = ["ScanJob", "ScanPool", "ScanRefused", "ScanResult", "scan_and_keep"]

#: Calls that may wait for a worker; more means the machine is too slow for its load.
QUEUE_JOBS: Final = 256
#: Bytes of bodies that may wait: four of the largest.
QUEUE_BYTES: Final = 256 * 1024 * 1024
#: Longest scan in seconds: 64 MiB at 1.6 MB/s is 42 s; beyond this the worker is stuck.
SCAN_SECONDS: Final = 120.0
#: Longest start of a worker in seconds, on a busy machine (1.5 s on an idle one).
START_SECONDS: Final = 90.0
#: Each worker holds about 120 MB; more of them than this do not make one gateway faster.
MAX_WORKERS: Final = 8
#: Wait before a worker that died early is started again, doubling up to the second figure.
RESTART_SECONDS: Final = (0.1, 5.0)

_BOOT: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from gateway.redaction.worker import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)
#: The only variables a worker sees; keys and credentials in the environment are not its business.
_ENVIRONMENT: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")

_UNAVAILABLE: Final = (
    "The scanner stopped while it worked on this call, so the call was not forwarded; try again."
)


class ScanPool:
    """`size` worker processes that scan under `policy` with token key `key` (32 bytes)."""

    def __init__(
        self,
        policy: Policy,
        key: bytes,
        size: int | None = None,
        *,
        wire_package: str = WIRE_PACKAGE,
        scan_seconds: float = SCAN_SECONDS,
    ) -> None:
        self._config = {
            "policy": policy.text,
            "source": f"'{policy.id}'",
            "terms": list(policy.terms),
            "key": base64.b64encode(key).decode(),
            "wire_package": wire_package,
        }
        self._size = size or max(1, min(MAX_WORKERS, os.cpu_count() or 1))
        self._scan_seconds = scan_seconds
        self._workers: list[_Worker] = []
        self._idle: set[_Worker] = set()
        self._waiting: deque[_Entry] = deque()
        self._waiting_bytes = 0
        self._ready = asyncio.Event()
        self._stopping = False
        self._failure: str | None = None

    async def start(self) -> None:
        """Start the workers and return at once; `ready` tells when the first one is warm."""
        loop = asyncio.get_running_loop()
        self._workers = [
            _Worker(index, self, loop, self._config, self._scan_seconds)
            for index in range(self._size)
        ]
        for worker in self._workers:
            worker.start()

    async def stop(self) -> None:
        """Refuse what waits, end the workers, and return when no process is left."""
        self._stopping = True
        self._ready.clear()
        while self._waiting:
            self._fail(self._waiting.popleft(), _stopped())
        await asyncio.gather(*(asyncio.to_thread(worker.end) for worker in self._workers))
        # What the threads reported while ending is still on its way to this loop.
        await asyncio.sleep(0)
        self._workers = []

    @property
    def ready(self) -> bool:
        """Whether at least one worker is warm."""
        return self._ready.is_set()

    @property
    def failure(self) -> str | None:
        """Why the workers cannot start, in one sentence, or None."""
        return self._failure

    @property
    def pids(self) -> list[int]:
        """Process ids of the living workers."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    @property
    def waiting(self) -> int:
        """How many calls wait for a worker."""
        return len(self._waiting)

    async def wait_ready(self) -> None:
        """Return when the first worker is warm."""
        await self._ready.wait()

    async def run(self, job: ScanJob) -> ScanResult:
        """Scan one call. Raises ScanRefused; its codes are the scanner's, the wire format's, and
        scanner_unavailable, scanner_busy, scanner_timeout. Never blocks the loop."""
        if self._stopping or not self._workers:
            raise _stopped()
        if self._failure is not None and not self.ready:
            raise ScanRefused("scanner_unavailable", self._failure)
        future: asyncio.Future[ScanResult] = asyncio.get_running_loop().create_future()
        entry = _Entry(job, future, zlib.crc32(job.scope.encode()) % self._size)
        worker = self._choose(entry)
        if worker is not None:
            self._give(worker, entry)
        else:
            self._queue(entry)
        return await future

    # -- on the loop ------------------------------------------------------------------------------

    def _choose(self, entry: _Entry) -> _Worker | None:
        """Prefer the worker that saw this scope before: its cache knows the conversation."""
        if not self._idle:
            return None
        home = self._workers[entry.home]
        return home if home in self._idle else min(self._idle, key=lambda w: w.index)

    def _queue(self, entry: _Entry) -> None:
        size = len(entry.job.body)
        if len(self._waiting) >= QUEUE_JOBS or self._waiting_bytes + size > QUEUE_BYTES:
            raise ScanRefused(
                "scanner_busy", "Too many calls wait to be scanned; try again in a moment."
            )
        self._waiting.append(entry)
        self._waiting_bytes += size

    def _give(self, worker: _Worker, entry: _Entry) -> None:
        self._idle.discard(worker)
        worker.give(entry)

    def _became_idle(self, worker: _Worker) -> None:
        """A worker is warm, or has finished a call."""
        if self._stopping:
            return
        self._failure = None
        self._idle.add(worker)
        self._ready.set()
        while self._waiting and self._idle:
            entry = self._next_for(worker)
            if entry.future.done():  # its caller has gone
                continue
            self._give(worker, entry)
            return

    def _next_for(self, worker: _Worker) -> _Entry:
        """The oldest call; among the first few, one that belongs to this worker goes before."""
        chosen = 0
        for position in range(min(4, len(self._waiting))):
            if self._waiting[position].home == worker.index:
                chosen = position
                break
        entry = self._waiting[chosen]
        del self._waiting[chosen]
        self._waiting_bytes -= len(entry.job.body)
        return entry

    def _lost(self, worker: _Worker, reason: str | None) -> None:
        """A worker died; its thread starts another."""
        self._idle.discard(worker)
        if all(not other.warm for other in self._workers):
            self._ready.clear()
            if reason is not None:
                self._failure = reason
                while self._waiting:
                    self._fail(self._waiting.popleft(), ScanRefused("scanner_unavailable", reason))

    def _finish(self, entry: _Entry, outcome: ScanResult | ScanRefused) -> None:
        if entry.future.done():
            return
        if isinstance(outcome, ScanRefused):
            entry.future.set_exception(outcome)
        else:
            entry.future.set_result(outcome)

    def _fail(self, entry: _Entry, refused: ScanRefused) -> None:
        self._waiting_bytes -= len(entry.job.body)
        self._finish(entry, refused)


async def scan_and_keep(pool: ScanPool, vault: Vault | None, job: ScanJob) -> ScanResult:
    """Scan a call and store what may be given back, durably, before returning. Where a token turns
    out to be another value's, scan again with that known. Raises ScanRefused, VaultError."""
    for _ in range(4):
        result = await pool.run(job)
        if vault is None or not result.originals:
            return result
        try:
            await vault.put(job.scope, result.originals)
        except TokenTaken as taken:
            job = replace(job, taken=job.taken | taken.owners)
        else:
            return result
    raise ScanRefused("tokens_exhausted", "No free token is left for a value of this call.")


@dataclass(eq=False, slots=True)
class _Entry:
    job: ScanJob
    future: asyncio.Future[ScanResult]
    home: int


class _Worker:
    """One worker process and the thread that talks to it."""

    def __init__(
        self,
        index: int,
        pool: ScanPool,
        loop: asyncio.AbstractEventLoop,
        config: dict[str, Any],
        scan_seconds: float,
    ) -> None:
        self.index = index
        self.warm = False
        self._pool = pool
        self._loop = loop
        self._config = config
        self._scan_seconds = scan_seconds
        self._entry: _Entry | None = None
        self._ending = threading.Event()
        self._wake_out, self._wake_in = socket.socketpair()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._live, name=f"scan-{index}", daemon=True)

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    def start(self) -> None:
        self._thread.start()

    def give(self, entry: _Entry) -> None:
        """Called on the loop, only while this worker is idle."""
        self._entry = entry
        self._wake()

    def end(self) -> None:
        """Blocking: end the process and the thread."""
        self._ending.set()
        self._wake()
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()  # it holds nothing that could be lost
        self._thread.join()
        self._wake_in.close()
        self._wake_out.close()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_in.send(b"x")

    # -- in the thread ----------------------------------------------------------------------------

    def _live(self) -> None:
        pause, longest = RESTART_SECONDS
        while not self._ending.is_set():
            started = time.monotonic()
            reason = self._one_life()
            self.warm = False
            entry, self._entry = self._entry, None
            if entry is not None:
                refused = ScanRefused("scanner_unavailable", reason or _UNAVAILABLE)
                self._call(self._pool._finish, entry, refused)
            self._call(self._pool._lost, self, reason)
            if time.monotonic() - started > 10 * longest:
                pause = RESTART_SECONDS[0]
            self._ending.wait(pause)
            pause = min(longest, pause * 2)

    def _one_life(self) -> str | None:
        """From the start of a process to its end; returns why it could not start, if so."""
        ours, theirs = socket.socketpair()
        with ours:
            try:
                with theirs:
                    self._process = _spawn(theirs)
            except OSError as error:
                return f"The scanner cannot be started ({error.strerror}); free some memory."
            try:
                if self._ending.is_set():
                    return None
                return self._talk(ours)
            except (FramesEnded, TimeoutError):
                return None
            finally:
                self._process.kill()
                self._process.wait()

    def _talk(self, sock: socket.socket) -> str | None:
        sock.settimeout(START_SECONDS)
        send(sock, self._config)
        head, _ = receive(sock)
        if "failed" in head:
            return f"The scanner cannot start: {head['failed']}"
        self.warm = True
        self._call(self._pool._became_idle, self)
        while self._wait(sock):
            entry = self._entry
            if entry is None:
                continue
            outcome = self._scan(sock, entry)
            self._entry = None
            self._call(self._pool._finish, entry, outcome)
            if isinstance(outcome, ScanRefused) and outcome.code == "scanner_timeout":
                return None  # it still works on that call; only its end frees the processor
            self._call(self._pool._became_idle, self)
        return None

    def _wait(self, sock: socket.socket) -> bool:
        """Wait for a call, the end, or the death of an idle worker; False for the last two."""
        poll = select.poll()  # select() cannot see the descriptors of a busy gateway (over 1023)
        poll.register(self._wake_out, select.POLLIN)
        poll.register(sock, select.POLLIN)
        readable = {descriptor for descriptor, _ in poll.poll()}
        if self._wake_out.fileno() in readable:
            self._wake_out.recv(64)
        return not self._ending.is_set() and sock.fileno() not in readable

    def _scan(self, sock: socket.socket, entry: _Entry) -> ScanResult | ScanRefused:
        sock.settimeout(self._scan_seconds)
        try:
            send(sock, job_head(entry.job), entry.job.body)
            head, body = receive(sock)
        except TimeoutError:
            return ScanRefused(
                "scanner_timeout",
                f"The call could not be scanned within {self._scan_seconds:g} seconds and was not "
                "forwarded; send less at once.",
            )
        if "code" in head:
            return ScanRefused(head["code"], head["sentence"])
        return ScanResult(body=body, **(head | {"extra_hits": set(head["extra_hits"])}))

    def _call(self, function: Any, *arguments: Any) -> None:
        """Run `function` on the loop; a loop that is closed needs no answers."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)


def _spawn(theirs: socket.socket) -> subprocess.Popen[bytes]:
    """A fresh interpreter, not a fork: the gateway has threads, and its memory is none of the
    worker's business. `-P` keeps the current directory off the import path."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    path = json.dumps([entry or os.getcwd() for entry in sys.path])
    arguments = [path, str(theirs.fileno()), str(os.getpid())]
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _BOOT, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(theirs.fileno(),),
        env=environment,
        close_fds=True,
    )


def _stopped() -> ScanRefused:
    return ScanRefused("scanner_unavailable", "The gateway is stopping; try again in a moment.")
