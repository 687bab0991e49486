"""The scanning workers: processes that keep the event loop free of CPU work.

Owns the worker processes, what each of them was given, and the queue before them. Invariants: a
call is scanned or refused, never passed unscanned; a worker's death costs only the call it was
scanning (small ones that waited behind it go to another); at most `QUEUE_JOBS` calls and
`QUEUE_BYTES` wait; after `stop`, or the gateway's own death, no worker is left. All state is
changed on the event loop, which sends and receives without blocking; one thread starts and reaps
the processes. Called by the pipeline (`run`), health (`ready`) and wiring (`start`, `stop`).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import zlib
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from gateway.logs import say, where
from gateway.redaction.channel import Channel
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
#: Calls and bytes a worker may hold, so that the next small call is there when one is done.
AHEAD_JOBS: Final = 4
AHEAD_BYTES: Final = 64 * 1024
#: Room in a worker's pipe: most bodies go through it without a wait for the other side.
_PIPE_BYTES: Final = 1 << 20
#: Answers' heads above this many bytes are parsed in a thread: about a millisecond each.
_LARGE_HEAD: Final = 256 * 1024
#: Scans of a call whose tokens turn out to be another value's; each one knows more of them.
_TRIES: Final = 6
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
            "directory": str(policy.directory) if policy.directory is not None else "",
            "terms": list(policy.terms),
            "key": base64.b64encode(key).decode(),
            "wire_package": wire_package,
        }
        self._size = size or max(1, min(MAX_WORKERS, os.cpu_count() or 1))
        self._scan_seconds = scan_seconds
        self._workers: list[_Worker] = []
        self._waiting: deque[_Entry] = deque()
        self._waiting_bytes = 0
        self._ready = asyncio.Event()
        self._stopping = False
        self._failure: str | None = None
        # The kernel ends a worker with the thread that started it: this one lives until `stop`.
        self._keeper = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scan-keeper")

    async def start(self) -> None:
        """Start the workers and return at once; `ready` tells when the first one is warm."""
        self._workers = [
            _Worker(index, self, self._config, self._scan_seconds, self._keeper)
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
        await asyncio.gather(*(worker.end() for worker in self._workers))
        self._workers = []
        await asyncio.to_thread(self._keeper.shutdown)

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
        """How many calls wait for a worker, or behind another call in one."""
        return len(self._waiting) + sum(max(0, len(w.given) - 1) for w in self._workers)

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
        entry = _Entry(job, future, zlib.crc32(job.whose.encode()) % self._size)
        worker = self._choose(entry)
        if worker is not None:
            worker.give(entry)
        else:
            self._queue(entry)
        return await future

    # -- on the loop ------------------------------------------------------------------------------

    def _choose(self, entry: _Entry) -> _Worker | None:
        """Prefer the worker that saw this scope before: its cache knows the conversation."""
        home = self._workers[entry.home]
        if home.idle:
            return home
        for worker in self._workers:
            if worker.idle:
                return worker
        if self._waiting or self.waiting >= QUEUE_JOBS:
            return None  # those came first
        return next((w for w in (home, *self._workers) if w.has_room(entry)), None)

    def _queue(self, entry: _Entry) -> None:
        size = len(entry.job.body)
        if self.waiting >= QUEUE_JOBS or self._waiting_bytes + size > QUEUE_BYTES:
            raise ScanRefused(
                "scanner_busy", "Too many calls wait to be scanned; try again in a moment."
            )
        self._waiting.append(entry)
        self._waiting_bytes += size

    def _became_warm(self, worker: _Worker) -> None:
        if self._stopping:
            return
        self._failure = None
        self._ready.set()
        self._refill(worker)

    def _refill(self, worker: _Worker) -> None:
        """A worker is warm, or has finished a call."""
        while self._waiting and not self._stopping:
            entry = self._next_for(worker)
            if entry.future.done():  # its caller has gone
                continue
            if not worker.idle and not worker.has_room(entry):
                self._put_back([entry])
                return
            worker.give(entry)

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

    def _put_back(self, entries: Iterable[_Entry]) -> None:
        for entry in reversed(list(entries)):
            self._waiting.appendleft(entry)
            self._waiting_bytes += len(entry.job.body)

    def _lost(self, worker: _Worker, reason: str | None, untouched: Iterable[_Entry]) -> None:
        """A worker died and is started again; `untouched` are calls it had not begun."""
        self._put_back(untouched)
        if self._stopping:
            while self._waiting:
                self._fail(self._waiting.popleft(), _stopped())
            return
        if all(not other.warm for other in self._workers):
            self._ready.clear()
            if reason is not None:
                self._failure = reason
                while self._waiting:
                    self._fail(self._waiting.popleft(), ScanRefused("scanner_unavailable", reason))
        for other in self._workers:
            if other.warm:
                self._refill(other)

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
    if vault is None:
        return await pool.run(job)
    if known := vault.contested(job.scope):
        job = replace(job, taken=known | job.taken)
    for _ in range(_TRIES):
        result = await pool.run(job)
        try:
            await vault.put(
                job.whose, result.originals, result.marks, scope=job.scope, kinds=result.kinds
            )
        except TokenTaken as taken:
            job = replace(job, taken=job.taken | taken.alike | taken.owners)
            continue
        if not result.met:
            return result
        foreign = await vault.foreign(job.whose, result.met, scope=job.scope, kinds=result.met)
        return replace(result, foreign=len(foreign))
    raise ScanRefused("tokens_exhausted", "No free token is left for a value of this call.")


@dataclass(eq=False, slots=True)
class _Entry:
    job: ScanJob
    future: asyncio.Future[ScanResult]
    home: int


class _Worker:
    """One worker process after another, and what the present one was given."""

    def __init__(
        self,
        index: int,
        pool: ScanPool,
        config: dict[str, Any],
        scan_seconds: float,
        keeper: ThreadPoolExecutor,
    ) -> None:
        self.index = index
        self.warm = False
        #: The first is being scanned, the others lie in its pipe.
        self.given: deque[_Entry] = deque()
        self._given_bytes = 0
        self._pool = pool
        self._config = config
        self._scan_seconds = scan_seconds
        self._keeper = keeper
        self._ending = asyncio.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._over: asyncio.Future[str | None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    @property
    def idle(self) -> bool:
        return self.warm and not self.given

    def has_room(self, entry: _Entry) -> bool:
        """Whether a call may wait in the pipe of this worker: it and those before it are small."""
        size = self._given_bytes + len(entry.job.body)
        return self.warm and len(self.given) < AHEAD_JOBS and size <= AHEAD_BYTES

    def start(self) -> None:
        self._task = asyncio.create_task(self._live(), name=f"scan-{self.index}")

    def give(self, entry: _Entry) -> None:
        """Send a call to this worker, which is idle or has room."""
        assert self._channel is not None
        try:
            self._channel.send(job_head(entry.job), entry.job.body)
        except Exception as error:  # nothing was sent
            self._pool._finish(entry, _unsendable(error))
            return
        self.given.append(entry)
        self._given_bytes += len(entry.job.body)
        if len(self.given) == 1:
            self._watch(self._scan_seconds)

    async def end(self) -> None:
        """End the process and wait until it is gone."""
        self._ending.set()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()  # it holds nothing that could be lost
        self._end_life(None)
        if self._task is not None:
            await self._task

    # -- one life after another -------------------------------------------------------------------

    async def _live(self) -> None:
        pause, longest = RESTART_SECONDS
        while not self._ending.is_set():
            started = time.monotonic()
            try:
                reason = await self._one_life()
            except Exception as error:
                # Whatever it is, the next worker must start: a pool without any never answers.
                reason = None
                say(f"a scanning worker is started anew: {where(error)}")
            self._bury(reason)
            if time.monotonic() - started > 10 * longest:
                pause = RESTART_SECONDS[0]
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), pause)
            pause = min(longest, pause * 2)

    async def _one_life(self) -> str | None:
        """From the start of a process to its end; returns why it could not start, if so."""
        loop = asyncio.get_running_loop()
        try:
            process, ours = await loop.run_in_executor(self._keeper, _spawn)
        except OSError as error:
            return f"The scanner cannot be started ({error.strerror}); free some memory."
        self._process = process
        self._over = loop.create_future()
        try:
            if self._ending.is_set():
                ours.close()
                return None
            _, self._channel = await loop.create_unix_connection(
                lambda: Channel(self._received, lambda: self._end_life(None)), sock=ours
            )
            self._watch(START_SECONDS)
            self._channel.send(self._config)
            return await self._over
        finally:
            self._watch(None)
            if self._channel is not None:
                self._channel.close()
            process.kill()
            await loop.run_in_executor(self._keeper, process.wait)

    def _bury(self, reason: str | None) -> None:
        """Refuse the call that was being scanned; give those behind it back."""
        self.warm, self._channel, self._over = False, None, None
        given, self.given, self._given_bytes = self.given, deque(), 0
        if given:
            refused = ScanRefused("scanner_unavailable", reason or _UNAVAILABLE)
            self._pool._finish(given.popleft(), refused)
        self._pool._lost(self, reason, given)

    def _end_life(self, reason: str | None) -> None:
        self.warm = False
        if self._over is not None and not self._over.done():
            self._over.set_result(reason)

    def _watch(self, seconds: float | None) -> None:
        """Expect the next message within so many seconds, or none."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._too_late)

    def _too_late(self) -> None:
        if self.given:
            refused = ScanRefused(
                "scanner_timeout",
                f"The call could not be scanned within {self._scan_seconds:g} seconds and was not "
                "forwarded; send less at once.",
            )
            self._pool._finish(self.given[0], refused)
        self._end_life(None)  # it still works on that call; only its end frees the processor

    def _received(self, head: bytes, body: bytes) -> None:
        if self._over is None or self._over.done():
            return  # what a lost worker still said is not waited for any more
        if not self.warm:
            self._watch(None)
            said = orjson.loads(head)
            if "failed" in said:
                self._end_life(f"The scanner cannot start: {said['failed']}")
                return
            self.warm = True
            self._pool._became_warm(self)
            return
        entry = self.given.popleft()
        self._given_bytes -= len(entry.job.body)
        self._watch(self._scan_seconds if self.given else None)
        if len(head) > _LARGE_HEAD:
            decoding = asyncio.get_running_loop().run_in_executor(None, _outcome, head, body)
            decoding.add_done_callback(lambda done: self._pool._finish(entry, done.result()))
        else:
            self._pool._finish(entry, _outcome(head, body))
        self._pool._refill(self)


def _outcome(head: bytes, body: bytes) -> ScanResult | ScanRefused:
    said = orjson.loads(head)
    if "code" in said:
        return ScanRefused(said["code"], said["sentence"])
    return ScanResult(body=body, **(said | {"extra_hits": set(said["extra_hits"])}))


def _spawn() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a worker; return it and our end of its pipe. Raises OSError."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _PIPE_BYTES)
    with theirs:
        try:
            process = _interpreter(theirs)
        except BaseException:
            ours.close()
            raise
    ours.setblocking(False)
    return process, ours


def _interpreter(theirs: socket.socket) -> subprocess.Popen[bytes]:
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


def _unsendable(error: Exception) -> ScanRefused:
    if isinstance(error, TypeError):  # the head cannot be written as JSON
        return ScanRefused(
            "scanner_failed",
            "The call holds bytes outside of its body that are not text, so they cannot be "
            "scanned, and was not forwarded; send header values as plain ASCII.",
        )
    say(f"a call could not be given to a scanning worker: {where(error)}")
    return ScanRefused("scanner_unavailable", _UNAVAILABLE)


def _stopped() -> ScanRefused:
    return ScanRefused("scanner_unavailable", "The gateway is stopping; try again in a moment.")
