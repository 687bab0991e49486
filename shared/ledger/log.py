"""The log: one writer thread, group commit, one durable write before any acknowledgement.

Owns the directory of a ledger while it is open (flock on LOCK) and every byte written to it.
Guarantees: (1) a receipt exists only for a record that a completed fdatasync covers, together
with the signed checkpoint over it; (2) records are written in the order they were accepted;
(3) any exception in the writer, whatever its kind, makes the log FAILED: every waiter gets an
error and nothing more is accepted until a restart; (4) a failed fdatasync is never retried.
The gateway and the deck hold one Ledger each; contracts/ledger.md section 2.2 is the rule.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import orjson

from shared.ledger.batch import BATCH_LIMIT
from shared.ledger.checkpoint import Checkpoint, Signer, check_name, checkpoint_line
from shared.ledger.directory import boot_id, load_identity, read_head, read_log_json, take_lock
from shared.ledger.errors import (
    LedgerClosed,
    LedgerCorrupt,
    LedgerError,
    LedgerFailed,
    RecordRefused,
)
from shared.ledger.merkle import leaf_hash
from shared.ledger.record import OWN_TYPES, VERSION, RecordType, copy_fields, encode
from shared.ledger.recovery import Recovered, quarantine, recover
from shared.ledger.segment import (
    HEAD,
    Seal,
    first_of,
    list_segments,
    read_lines,
    seal_digest,
    seal_path,
    segment_path,
)
from shared.ledger.storage import Disk, reason

SEGMENT_BYTES: Final = 256 << 20
SEGMENT_SECONDS: Final = 24 * 3600
#: How often HEAD follows the log (section 2.4).
HEAD_SECONDS: Final = 1.0
#: How often an idle writer looks at the age of its segment.
IDLE_SECONDS: Final = 60.0


class LogState(StrEnum):
    """OPEN accepts records; LOW (the disk is nearly full) only outcome, gap, stop and deny, and goes
    back to OPEN by itself; FAILED and CLOSED never accept any again."""

    OPEN = "open"
    LOW = "low"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The proof that a record is durable; valid evidence as long as someone keeps it.

    `leaf` and `root` are hex, `size` is the number of records under `root`, `checkpoint` is the
    signed note.
    """

    seq: int
    leaf: str
    size: int
    root: str
    checkpoint: str

    def header(self) -> str:
        """Return the value of an X-Audit-Receipt header: origin;seq;size;root;sig, where root is
        hex and sig is the base64 of the note's last signature line."""
        origin = self.checkpoint.partition("\n")[0]
        signature = self.checkpoint.rstrip("\n").rpartition(" ")[2]
        return f"{origin};{self.seq};{self.size};{self.root};{signature}"


class _Entry:
    """One record that waits for the writer, and who waits for it."""

    __slots__ = ("fields", "loop", "type", "waiter")

    def __init__(
        self,
        type_: str,
        fields: dict[str, Any],
        waiter: Future[Receipt] | asyncio.Future[Receipt] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.type = type_
        self.fields = fields
        self.waiter = waiter
        self.loop = loop


@dataclass(frozen=True, slots=True)
class _Committed:
    """What readers may see: replaced as a whole after each durable batch."""

    size: int
    note: str
    segment: int
    offset: int


def system_clock() -> tuple[int, int]:
    """Return (UTC, time since boot including sleep), both in microseconds."""
    return time.time_ns() // 1000, time.clock_gettime_ns(_BOOT_CLOCK) // 1000


_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Ledger:
    """An open log. Make one with `Ledger.open`; all public methods are safe from any thread."""

    def __init__(
        self,
        directory: Path,
        signer: Signer,
        recovered: Recovered,
        lock_fd: int,
        *,
        disk: Disk,
        clock: Callable[[], tuple[int, int]],
        segment_bytes: int,
        segment_seconds: float,
    ) -> None:
        """Use `Ledger.open`."""
        self._directory = directory
        self._signer = signer
        self._disk = disk
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._segment_us = int(segment_seconds * 1_000_000)
        self._boot = boot_id()
        self._lock_fd = lock_fd
        # Owned by the writer thread (by `open` before it starts):
        self._at = recovered
        self._fd = -1
        self._batch: Sequence[_Entry] = ()
        # Owned by whoever holds `_gate`: the state, and putting into the queue while OPEN.
        self._gate = threading.Lock()
        self._state = LogState.OPEN
        self._failure: str | None = None
        self._queue: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        # Replaced as a whole by the writer, read by anyone:
        self._committed = _Committed(
            recovered.position.size, recovered.note, recovered.first, recovered.offset
        )
        # Owned by whoever holds `_head_gate`:
        self._head_gate = threading.Lock()
        self._head_note = ""
        self._stop = threading.Event()
        self._writer = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._herald = threading.Thread(target=self._keep_head, name="ledger-head", daemon=True)

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        keys: Path,
        origin: str,
        close_open_requests: bool = False,
        segment_bytes: int = SEGMENT_BYTES,
        segment_seconds: float = SEGMENT_SECONDS,
        heartbeat_seconds: float = 0.0,
        reserve_bytes: int = 0,
        low_water_bytes: int = 0,
        disk: Disk | None = None,
        clock: Callable[[], tuple[int, int]] = system_clock,
    ) -> Ledger:
        """Open the log in `directory`, making it if there is none, and start its writer.

        `keys` is the directory of the signing key, best on another volume. `origin` names the
        log in every checkpoint and never changes. With `close_open_requests`, each request
        without outcome gets one: status unknown, cause restart.

        Raises LedgerLocked, LedgerCorrupt, LedgerRollback or LedgerError; nothing is changed
        when a damaged log is refused.
        """
        disk = disk or Disk()
        check_name(origin)
        lock_fd = take_lock(directory)
        ledger = None
        try:
            signer = load_identity(directory, keys, origin, disk, clock)
            recovered = recover(directory, signer)
            ledger = cls(
                directory,
                signer,
                recovered,
                lock_fd,
                disk=disk,
                clock=clock,
                segment_bytes=segment_bytes,
                segment_seconds=segment_seconds,
            )
            ledger._begin(close_open_requests=close_open_requests)
        except BaseException as error:
            if ledger is not None and ledger._fd >= 0:
                os.close(ledger._fd)
            os.close(lock_fd)
            if isinstance(error, OSError):
                raise LedgerError(
                    f"The ledger {directory} cannot be written ({reason(error)}); check the "
                    "disk's free space and the owner of the directory, then start again."
                ) from error
            raise
        return ledger

    def _begin(self, *, close_open_requests: bool) -> None:
        """Repair a torn end, write the records that a start owes, and start the threads."""
        torn = quarantine(self._directory, self._at, self._disk)
        self._open_segment()
        first = []
        if self._at.position.size == 0:
            first.append(_Entry(RecordType.GENESIS, {"ext": read_log_json(self._directory)}))
        elif self._at.last_type == RecordType.SEAL:
            self._seal()
        first += [
            _Entry(
                RecordType.RECOVER,
                {"ext": {"bytes": tail.bytes, "file": tail.name, "sha256": tail.sha256}},
            )
            for tail in torn
        ]
        if close_open_requests:
            first += [
                _Entry(
                    RecordType.OUTCOME,
                    {"ref": seq, "outcome": {"cause": "restart", "status": "unknown"}},
                )
                for seq in sorted(self._at.position.open_requests)
            ]
        for start in range(0, len(first), BATCH_LIMIT):
            self._commit(first[start : start + BATCH_LIMIT])
        self._head_note = read_head(self._directory)
        self._publish_head()
        _open_ledgers.add(self)
        self._writer.start()
        self._herald.start()

    # -- for callers ---------------------------------------------------------------------------

    def append(self, type: str, fields: Mapping[str, Any]) -> Future[Receipt]:
        """Queue a record; the future gives its receipt once it is durable.

        The future cannot be cancelled: an accepted record is written. Its callbacks run in the
        writer thread and must be short. Raises RecordRefused, LedgerFailed or LedgerClosed at
        once; the future raises LedgerFailed.
        """
        waiter: Future[Receipt] = Future()
        waiter.set_running_or_notify_cancel()
        self._submit(_Entry(_caller_type(type), copy_fields(fields), waiter))
        return waiter

    async def append_async(self, type: str, fields: Mapping[str, Any]) -> Receipt:
        """Record from a coroutine; returns when the record is durable.

        Cancelling the wait does not take the record back. Raises RecordRefused, LedgerFailed or
        LedgerClosed.
        """
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Receipt] = loop.create_future()
        self._submit(_Entry(_caller_type(type), copy_fields(fields), waiter, loop))
        return await waiter

    def records(self, start: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the records committed when the iteration starts, from number `start` on.

        Reads the files; holds one block in memory. Raises LedgerCorrupt when a sealed file was
        damaged after it was written.
        """
        committed = self._committed
        segments = [
            path for path in list_segments(self._directory) if _first(path) <= committed.segment
        ]
        for index, path in enumerate(segments):
            if index + 1 < len(segments) and _first(segments[index + 1]) <= start:
                continue
            active = _first(path) == committed.segment
            yield from _records_of(path, committed.offset if active else None, start)

    def rotate_key(self) -> str:
        """Change to a new signing key; return its vkey. Blocks until the record is durable."""
        raise NotImplementedError

    def seal_now(self) -> str:
        """Seal the active segment; return the checkpoint over it. Blocks until it is durable."""
        raise NotImplementedError

    def add_cosignatures(self, size: int, lines: Sequence[str]) -> None:
        """Keep cosignature lines for the checkpoint of `size` records, in anchors/ and HEAD."""
        raise NotImplementedError

    def on_leaves(self, callback: Callable[[int, bytes], None]) -> int:
        """Have `callback` called with (first index, concatenated 32-byte leaves) of what became
        durable, in order, in the head thread; return the index of the first leaf it will get."""
        raise NotImplementedError

    @property
    def state(self) -> LogState:
        """Whether records are accepted."""
        return self._state

    @property
    def failure(self) -> str | None:
        """Why the log failed, as a sentence, or None."""
        return self._failure

    @property
    def size(self) -> int:
        """How many records are durable."""
        return self._committed.size

    @property
    def checkpoint(self) -> str:
        """The newest signed checkpoint."""
        return self._committed.note

    @property
    def origin(self) -> str:
        """The name of the log."""
        return self._signer.key.name

    @property
    def vkey(self) -> str:
        """The public key that auditors need."""
        return self._signer.key.vkey()

    @property
    def directory(self) -> Path:
        """Where the log is."""
        return self._directory

    def close(self) -> None:
        """Write what was accepted, publish HEAD, release the lock. Never raises; a failure on
        the way is in `failure`. Further calls do nothing."""
        with self._gate:
            if self._lock_fd < 0:
                return
            lock_fd, self._lock_fd = self._lock_fd, -1
            if self._state is LogState.OPEN:
                self._state = LogState.CLOSED
            self._queue.put(None)
        self._stop.set()
        self._writer.join()
        self._herald.join()
        if self._failure is None:
            try:
                self._publish_head()
            except Exception as error:
                self._refuse_more(error, HEAD)
        for fd in (self._fd, lock_fd):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._state = LogState.CLOSED
        _open_ledgers.discard(self)

    def __enter__(self) -> Self:
        """Return the ledger itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    # -- the writer ----------------------------------------------------------------------------

    def _submit(self, entry: _Entry) -> None:
        with self._gate:
            if self._state is LogState.OPEN:
                self._queue.put(entry)
                return
            raise self._refusal()

    def _refusal(self) -> LedgerError:
        if self._failure is not None:
            return LedgerFailed(self._failure)
        return LedgerClosed(f"The ledger {self._directory} is closed; nothing was recorded.")

    def _run(self) -> None:
        try:
            while (entries := self._take()) is not None:
                if entries:
                    self._batch = entries
                    receipts = self._commit(entries)
                    _acknowledge(entries, receipts)
                    self._batch = ()
                if self._rotation_due():
                    self._rotate()
        except BaseException as error:
            # Not only OSError: an exception that ends this thread would leave its waiters
            # waiting for ever.
            self._fail(error)

    def _take(self) -> list[_Entry] | None:
        """Return all that waits, an empty list after an idle time, None at the end."""
        try:
            entry = self._queue.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            return []
        if entry is None:
            return None
        entries = [entry]
        while len(entries) < BATCH_LIMIT:
            try:
                entry = self._queue.get_nowait()
            except queue.Empty:
                break
            if entry is None:
                self._queue.put(None)  # nothing can follow it: the state is CLOSED
                break
            entries.append(entry)
        return entries

    def _commit(self, entries: Sequence[_Entry]) -> list[Receipt]:
        """Write the entries and their checkpoint, make them durable, return their receipts."""
        at, position = self._at, self._at.position
        ts, mono = self._clock()
        lines: list[bytes] = []
        if ts < position.ts:
            # Order is `seq`, never time; the true value stays and this record explains it.
            step = {"from": position.ts, "mono": mono, "to": ts}
            self._add(_Entry(RecordType.CLOCK_STEP, {"ext": step}), ts, mono, lines)
        leaves = [(position.size, self._add(entry, ts, mono, lines)) for entry in entries]
        size, root = position.size, position.frontier.root()
        note = self._signer.sign(Checkpoint(self.origin, size, root).text())
        lines.append(checkpoint_line(note))
        data = b"\n".join(lines) + b"\n"
        self._write(data)
        at.digest.update(data)
        at.offset += len(data)
        at.note = note
        self._committed = _Committed(size, note, at.first, at.offset)
        hex_root = root.hex()
        return [Receipt(seq, leaf, size, hex_root, note) for seq, leaf in leaves]

    def _add(self, entry: _Entry, ts: int, mono: int, lines: list[bytes]) -> str:
        """Append the line of one record; return its leaf hash in hex."""
        at, position = self._at, self._at.position
        seq, record = position.size, entry.fields
        record["v"] = VERSION
        record["seq"] = seq
        record["prev"] = position.tip
        record["ts"] = ts
        record["mono"] = mono
        record["boot"] = self._boot
        record["type"] = entry.type
        line = encode(record)
        lines.append(line)
        leaf = leaf_hash(line)
        position.frontier.append(leaf)
        position.tip, position.ts = leaf.hex(), ts
        position.note_pairing(seq, entry.type, record.get("ref"))
        at.last_type = entry.type
        at.first_ts = at.first_ts or ts
        return position.tip

    def _write(self, data: bytes) -> None:
        try:
            self._disk.write(self._fd, data)
        except OSError:
            # Cut the unfinished batch off; if that fails too, the next start finds a torn end.
            with contextlib.suppress(OSError):
                self._disk.truncate(self._fd, self._at.offset)
            raise
        self._disk.sync(self._fd)

    def _refuse_more(self, error: BaseException, name: str) -> str:
        """Become FAILED, keeping the first reason; return the sentence."""
        with self._gate:
            if self._failure is None:
                self._failure = (
                    f"The ledger {self._directory} stopped: writing {name} failed "
                    f"({reason(error)}); check the disk, then restart the program."
                )
            self._state = LogState.FAILED
            return self._failure

    def _fail(self, error: BaseException) -> None:
        """End the writer: refuse new records and answer everybody who waits."""
        sentence = self._refuse_more(error, segment_path(self._directory, self._at.first).name)
        self._stop.set()
        waiting = list(self._batch)
        with contextlib.suppress(queue.Empty):
            while True:
                entry = self._queue.get_nowait()
                if entry is not None:
                    waiting.append(entry)
        _reject(waiting, sentence)

    # -- segments and HEAD ---------------------------------------------------------------------

    def _open_segment(self) -> None:
        path = segment_path(self._directory, self._at.first)
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o700)
            self._disk.sync_directory(self._directory)
        fd = self._disk.open_append(path)
        self._fd, old = fd, self._fd
        if old >= 0:
            os.close(old)
        self._disk.sync_directory(path.parent)

    def _rotation_due(self) -> bool:
        at = self._at
        if at.position.size == at.first:
            return False
        return at.offset >= self._segment_bytes or (
            self._clock()[0] - at.first_ts >= self._segment_us
        )

    def _rotate(self) -> None:
        ext = {"first": self._at.first, "previous": self._at.previous_seal}
        self._commit([_Entry(RecordType.SEAL, {"ext": ext})])
        self._seal()
        self._publish_head()

    def _seal(self) -> None:
        """Sign the finished segment, make it read-only and begin the next one."""
        at, position = self._at, self._at.position
        path = segment_path(self._directory, at.first)
        seal = Seal(
            origin=self.origin,
            first=at.first,
            size=position.size,
            root=position.frontier.root(),
            sha256=at.digest.hexdigest(),
            previous=at.previous_seal,
            tip=position.tip,
            ts=position.ts,
            frontier=position.frontier.peaks(),
            open_requests=tuple(sorted(position.open_requests)),
        )
        note = self._signer.sign(seal.text())
        self._disk.replace(seal_path(path), note.encode(), mode=0o440)
        path.chmod(0o440)
        self._at = Recovered(
            first=position.size,
            position=position,
            note=at.note,
            previous_seal=seal_digest(note),
        )
        self._open_segment()
        self._committed = _Committed(position.size, at.note, position.size, 0)

    def _keep_head(self) -> None:
        while not self._stop.wait(HEAD_SECONDS):
            try:
                self._publish_head()
            except BaseException as error:
                self._refuse_more(error, HEAD)
                return

    def _publish_head(self) -> None:
        """Let HEAD hold the newest checkpoint: what it names can no longer vanish unseen."""
        with self._head_gate:
            note = self._committed.note
            if note and note != self._head_note:
                self._disk.replace(self._directory / HEAD, note.encode())
                self._head_note = note


def _caller_type(name: str) -> str:
    try:
        kind = RecordType(name)
    except ValueError:
        raise RecordRefused(
            "There is no such record type; use one of shared.ledger.RecordType."
        ) from None
    if kind in OWN_TYPES:
        raise RecordRefused(f'Records of type "{kind.value}" are written by the ledger itself.')
    return kind.value


def _acknowledge(entries: Sequence[_Entry], receipts: Sequence[Receipt]) -> None:
    """Give each waiter its receipt: one wake-up per event loop and batch."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Receipt], Receipt]]] = {}
    for entry, receipt in zip(entries, receipts, strict=True):
        waiter = entry.waiter
        if isinstance(waiter, Future):
            waiter.set_result(receipt)
        elif waiter is not None and entry.loop is not None:
            by_loop.setdefault(entry.loop, []).append((waiter, receipt))
    for loop, pairs in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, pairs)


def _resolve(pairs: Sequence[tuple[asyncio.Future[Receipt], Receipt]]) -> None:
    for waiter, receipt in pairs:
        if not waiter.done():
            waiter.set_result(receipt)


def _reject(entries: Sequence[_Entry], sentence: str) -> None:
    """Give each waiter that has no answer yet an error."""
    for entry in entries:
        waiter = entry.waiter
        if isinstance(waiter, Future):
            if not waiter.done():
                waiter.set_exception(LedgerFailed(sentence))
        elif waiter is not None and entry.loop is not None:
            with contextlib.suppress(RuntimeError):
                entry.loop.call_soon_threadsafe(_reject_one, waiter, sentence)


def _reject_one(waiter: asyncio.Future[Receipt], sentence: str) -> None:
    if not waiter.done():
        waiter.set_exception(LedgerFailed(sentence))


def _first(path: Path) -> int:
    first = first_of(path)
    assert first is not None
    return first


def _records_of(path: Path, end: int | None, start: int) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size if end is None else end
        for lines, _ in read_lines(file, size):
            for line in lines:
                try:
                    record = orjson.loads(line)
                    if "cp" not in record and record["seq"] >= start:
                        yield record
                except (ValueError, KeyError, TypeError) as error:
                    raise LedgerCorrupt(
                        f"{path} was damaged after it was written; run `sphragis verify` on the "
                        "ledger to see which record, and restore it from a backup."
                    ) from error


# -- forks -----------------------------------------------------------------------------------------

_open_ledgers: weakref.WeakSet[Ledger] = weakref.WeakSet()


def _after_fork() -> None:
    """In a forked child there is no writer, and the inherited lock must not outlive the parent."""
    for ledger in list(_open_ledgers):
        fd, ledger._lock_fd = ledger._lock_fd, -1
        ledger._gate = threading.Lock()
        ledger._state = LogState.CLOSED
        for inherited in (fd, ledger._fd):
            with contextlib.suppress(OSError):
                os.close(inherited)
    _open_ledgers.clear()


os.register_at_fork(after_in_child=_after_fork)
