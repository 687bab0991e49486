"""The log: one writer thread, group commit, one durable write before any acknowledgement.

Owns the directory of a ledger while it is open (flock on LOCK) and who may write when.
Guarantees: (1) a receipt exists only for a record that a completed fdatasync covers, together
with the signed checkpoint over it; (2) records are written in the order they were accepted;
(3) a full disk makes the log LOW: requests are refused, what closes open work is written from
the reserve, and the log goes on by itself; (4) any other exception in the writer, whatever its
kind, makes the log FAILED: every waiter gets an error and nothing more is accepted until a
restart; (5) a failed fdatasync is never retried. The gateway and the deck hold one Ledger each;
contracts/ledger.md sections 2.2 and 2.5 are the rule.
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
from shared.ledger.checkpoint import Signer, check_name
from shared.ledger.directory import load_identity, read_log_json, take_lock
from shared.ledger.disk_space import LOOK_SECONDS, NoSpace, Space
from shared.ledger.entry import Entry as _Entry
from shared.ledger.entry import Order, Receipt, acknowledge, reject
from shared.ledger.errors import (
    LedgerClosed,
    LedgerCorrupt,
    LedgerError,
    LedgerFailed,
    LedgerLow,
    RecordRefused,
)
from shared.ledger.heads import Heads, LeafFeed, Leaves
from shared.ledger.keys import KeyRing
from shared.ledger.record import OWN_TYPES, RecordType, copy_fields
from shared.ledger.recovery import Recovered, quarantine, recover
from shared.ledger.segment import HEAD, REPAIR, first_of, list_segments, read_lines, segment_path
from shared.ledger.storage import Disk, is_full, reason
from shared.ledger.writer import SegmentWriter

__all__ = ["Ledger", "LogState", "Receipt"]

SEGMENT_BYTES: Final = 256 << 20
SEGMENT_SECONDS: Final = 24 * 3600
#: How often HEAD follows the log (section 2.4).
HEAD_SECONDS: Final = 1.0
#: How often an idle writer looks at the age of its segment.
IDLE_SECONDS: Final = 60.0
#: How often a ledger that has nothing to record says that it is alive (section 2.5).
HEARTBEAT_SECONDS: Final = 60.0
#: What is still recorded while the disk is low: it closes what is open, or says why nothing more
#: is accepted.
LOW_TYPES: Final = frozenset({RecordType.OUTCOME, RecordType.GAP, RecordType.STOP, RecordType.DENY})


class LogState(StrEnum):
    """OPEN accepts records; LOW (the disk is nearly full) only outcome, gap, stop and deny, and goes
    back to OPEN by itself; FAILED and CLOSED never accept any again."""

    OPEN = "open"
    LOW = "low"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class _Committed:
    """What readers may see: replaced as a whole after each durable batch."""

    size: int
    note: str
    segment: int
    offset: int


@dataclass(slots=True)
class _Shortage:
    """Why and since when requests are refused, and how many were."""

    cause: str
    begun: int
    refused: int = 0


def system_clock() -> tuple[int, int]:
    """Return (UTC, time since boot including sleep), both in microseconds."""
    return time.time_ns() // 1000, time.clock_gettime_ns(_BOOT_CLOCK) // 1000


_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True)
class _Limits:
    """When segments end and how long silence may last; bytes and seconds."""

    segment_bytes: int
    segment_seconds: float
    heartbeat_seconds: float


class Ledger:
    """An open log. Make one with `Ledger.open`; all public methods are safe from any thread."""

    def __init__(
        self,
        directory: Path,
        keys: KeyRing,
        signers: Sequence[Signer],
        recovered: Recovered,
        lock_fd: int,
        *,
        disk: Disk,
        clock: Callable[[], tuple[int, int]],
        limits: _Limits,
        space: Space,
    ) -> None:
        """Use `Ledger.open`."""
        self._directory = directory
        self._disk = disk
        self._clock = clock
        self._limits = limits
        self._lock_fd = lock_fd
        # Owned by the writer thread (by `open` before it starts):
        self._writer = SegmentWriter(
            directory, keys, signers, recovered, disk=disk, clock=clock, durable=self._show
        )
        self._space = space
        self._batch: Sequence[_Entry | Order] = ()
        self._order: Order | None = None
        self._last_record = time.monotonic()
        self._last_look = 0.0
        # Owned by whoever holds `_gate`: the state, putting into the queue while it is accepted,
        # and counting what is refused.
        self._gate = threading.Lock()
        self._state = LogState.OPEN
        self._failure: str | None = None
        self._shortage: _Shortage | None = None
        self._queue: queue.SimpleQueue[_Entry | Order | None] = queue.SimpleQueue()
        # Replaced as a whole by the writer, read by anyone:
        self._committed = _Committed(
            recovered.position.size, recovered.note, recovered.first, recovered.offset
        )
        self._heads = Heads(directory, disk)
        self._leaves = LeafFeed()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
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

        `keys` is the directory of the private keys, best on another volume. `origin` names the
        log in every checkpoint and never changes. With `close_open_requests`, each request
        without outcome gets one: status unknown, cause restart. A `heartbeat` record is written
        after each idle `heartbeat_seconds` (0: never). `reserve_bytes` are kept aside for what
        must be written when the disk is full; below `low_water_bytes` of free space the log is
        LOW (0: only when a write finds the disk full).

        Raises LedgerLocked, LedgerCorrupt, LedgerRollback or LedgerError; nothing is changed
        when a damaged log is refused.
        """
        return cls._open(
            directory,
            keys,
            origin,
            disk=disk or Disk(),
            clock=clock,
            limits=_Limits(segment_bytes, segment_seconds, heartbeat_seconds),
            room=(reserve_bytes, low_water_bytes),
            close_open_requests=close_open_requests,
        )

    @classmethod
    def _open(
        cls,
        directory: Path,
        keys: Path,
        origin: str,
        *,
        disk: Disk,
        clock: Callable[[], tuple[int, int]],
        limits: _Limits,
        room: tuple[int, int] = (0, 0),
        close_open_requests: bool = False,
        loss: Mapping[str, Any] | None = None,
        lock_fd: int = -1,
    ) -> Ledger:
        """Do `open`. `repair` brings its lock and the `recover` record of an accepted `loss`."""
        check_name(origin)
        lock_fd = take_lock(directory) if lock_fd < 0 else lock_fd
        ledger = None
        try:
            if loss is None:
                _refuse_half_repaired(directory)
            ring = KeyRing(keys, origin, disk)
            signers = load_identity(directory, ring, origin, disk, clock)
            ledger = cls(
                directory,
                ring,
                signers,
                recover(directory, *signers),
                lock_fd,
                disk=disk,
                clock=clock,
                limits=limits,
                space=Space(directory, disk, *room),
            )
            ledger._begin(ring, loss, close_open_requests=close_open_requests)
        except BaseException as error:
            if ledger is not None:
                ledger._writer.close()
            os.close(lock_fd)
            if isinstance(error, (OSError, NoSpace)):
                cause = error.__cause__ if isinstance(error, NoSpace) else error
                raise LedgerError(
                    f"The ledger {directory} cannot be written ({reason(cause or error)}); check "
                    "the disk's free space and the owner of the directory, then start again."
                ) from error
            raise
        return ledger

    def _begin(
        self, keys: KeyRing, loss: Mapping[str, Any] | None, *, close_open_requests: bool
    ) -> None:
        """Repair a torn end, write the records that a start owes, and start the threads."""
        at, key = self._writer.at, None
        if loss is not None and "segment_key" in loss:
            key = keys.load_segment(at.first, loss["segment_key"])
        torn = quarantine(self._directory, at, self._disk)
        self._writer.begin(key)
        first: list[_Entry] = []
        if self._writer.at.position.size == 0:
            first.append(_Entry(RecordType.GENESIS, {"ext": read_log_json(self._directory)}))
        if loss is not None:
            first.append(_Entry(RecordType.RECOVER, {"ext": dict(loss)}))
        first += [
            _Entry(
                RecordType.RECOVER,
                {"ext": {"bytes": tail.bytes, "file": tail.name, "sha256": tail.sha256}},
            )
            for tail in torn
            if loss is None or tail.name != loss["file"]
        ]
        if close_open_requests:
            first += [
                _Entry(
                    RecordType.OUTCOME,
                    {"ref": seq, "outcome": {"cause": "restart", "status": "unknown"}},
                )
                for seq in sorted(self._writer.at.position.open_requests)
            ]
        for start in range(0, len(first), BATCH_LIMIT):
            self._commit(first[start : start + BATCH_LIMIT])
        self._show_position()
        self._heads.resume(self._committed.note)
        self._publish_head()
        try:
            self._space.keep_reserve()
        except NoSpace:
            self._become_low("disk_full")
        _open_ledgers.add(self)
        self._thread.start()
        self._herald.start()

    # -- for callers ---------------------------------------------------------------------------

    def append(self, type: str, fields: Mapping[str, Any]) -> Future[Receipt]:
        """Queue a record; the future gives its receipt once it is durable.

        The future cannot be cancelled: an accepted record is written, unless the disk turns out
        to be full. Its callbacks run in the writer thread and must be short. Raises
        RecordRefused, LedgerLow, LedgerFailed or LedgerClosed at once; the future raises
        LedgerLow or LedgerFailed.
        """
        waiter: Future[Receipt] = Future()
        waiter.set_running_or_notify_cancel()
        self._submit(_Entry(_caller_type(type), copy_fields(fields), waiter))
        return waiter

    async def append_async(self, type: str, fields: Mapping[str, Any]) -> Receipt:
        """Record from a coroutine; returns when the record is durable.

        Cancelling the wait does not take the record back. Raises RecordRefused, LedgerLow,
        LedgerFailed or LedgerClosed.
        """
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Receipt] = loop.create_future()
        self._submit(_Entry(_caller_type(type), copy_fields(fields), waiter, loop))
        return await waiter

    def records(self, start: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the records committed when the iteration starts, from number `start` on, or from
        the first that is left when older ones were pruned.

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
        """Change to a new signing key; return its vkey. The old key signs every checkpoint beside
        the new one until the segment ends, then its private half is destroyed.

        Blocks until the record is durable. Raises LedgerLow, LedgerFailed or LedgerClosed.
        """
        return self._do(self._writer.rotate_key)

    def seal_now(self) -> str:
        """Seal the active segment; return the checkpoint over it, which HEAD then holds.

        Blocks until it is durable. Raises LedgerLow, LedgerFailed or LedgerClosed.
        """

        def seal() -> str:
            if not self._writer.must_seal:
                self._writer.rotate()
            note = self._writer.at.note
            self._show_position()
            self._publish_head()
            return note

        return self._do(seal)

    def add_cosignatures(self, size: int, lines: Sequence[str]) -> None:
        """Keep cosignature lines for the checkpoint of `size` records: in anchors/<size>.cosig,
        and in HEAD while it holds that checkpoint. A key's newer line replaces its older one.

        The signatures themselves are the caller's to check. Blocks. Raises NoteRefused for what
        is no signature line, LedgerError when the disk refuses.
        """
        self._heads.add_cosignatures(size, lines)

    def on_leaves(self, callback: Leaves) -> int:
        """Have `callback` called with (first index, concatenated 32-byte leaves) of what became
        durable, in order, in the head thread, about each second and before `close` returns.

        Returns the index of the first leaf it will get. A callback that raises gets no more.
        """
        return self._leaves.add(callback, lambda: self._committed.size)

    @property
    def state(self) -> LogState:
        """Whether records are accepted."""
        return self._state

    @property
    def failure(self) -> str | None:
        """Why the log failed, or why it is LOW, as a sentence; None while all is well."""
        if self._failure is None and self._state is LogState.LOW:
            return self._low_sentence()
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
        return self._writer.origin

    @property
    def vkey(self) -> str:
        """The newest public key."""
        return self.vkeys[-1]

    @property
    def vkeys(self) -> tuple[str, ...]:
        """All public log keys, oldest first; an auditor who has any of them can verify."""
        return self._writer.at.chain

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
            if self._state in (LogState.OPEN, LogState.LOW):
                self._state = LogState.CLOSED
            self._queue.put(None)
        self._stop.set()
        self._thread.join()
        self._herald.join()
        if self._failure is None:
            try:
                self._publish_head()
            except Exception as error:
                self._refuse_more(error, HEAD)
        self._leaves.deliver()
        self._writer.close()
        with contextlib.suppress(OSError):
            os.close(lock_fd)
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
            if self._state is LogState.OPEN or (
                self._state is LogState.LOW and entry.type in LOW_TYPES
            ):
                self._queue.put(entry)
                return
            if self._state is LogState.LOW and self._shortage is not None:
                self._shortage.refused += 1
            raise self._refusal()

    def _do(self, action: Callable[[], str]) -> str:
        """Have the writer thread do something between two batches; wait for it."""
        order = Order(action)
        with self._gate:
            if self._state is not LogState.OPEN:
                raise self._refusal()
            self._queue.put(order)
        return order.result.result()

    def _refusal(self) -> LedgerError:
        if self._failure is not None:
            return LedgerFailed(self._failure)
        if self._state is LogState.LOW:
            return LedgerLow(self._low_sentence())
        return LedgerClosed(f"The ledger {self._directory} is closed; nothing was recorded.")

    def _low_sentence(self) -> str:
        return (
            f"The disk of the ledger {self._directory} is nearly full, so nothing new is accepted; "
            "free some space on it and the ledger goes on by itself."
        )

    def _run(self) -> None:
        try:
            while (work := self._take()) is not None:
                self._batch = work
                if work and isinstance(work[0], Order):
                    self._obey(work[0])
                elif work:
                    self._record([one for one in work if isinstance(one, _Entry)])
                self._batch = ()
                self._tend()
        except BaseException as error:
            # Not only OSError: an exception that ends this thread would leave its waiters
            # waiting for ever.
            self._fail(error)

    def _take(self) -> Sequence[_Entry | Order] | None:
        """Return all that waits, or one order; nothing after an idle time, None at the end."""
        if self._order is not None:
            order, self._order = self._order, None
            return [order]
        try:
            entry = self._queue.get(timeout=self._patience())
        except queue.Empty:
            return []
        if entry is None:
            return None
        if isinstance(entry, Order):
            return [entry]
        entries = [entry]
        while len(entries) < BATCH_LIMIT:
            try:
                entry = self._queue.get_nowait()
            except queue.Empty:
                break
            if entry is None:
                self._queue.put(None)  # nothing can follow it: the state is CLOSED
                break
            if isinstance(entry, Order):
                self._order = entry
                break
            entries.append(entry)
        return entries

    def _patience(self) -> float:
        """Return how many seconds the writer may wait for records before it looks around."""
        if self._state is LogState.LOW:
            return LOOK_SECONDS
        limits, quiet = self._limits, time.monotonic() - self._last_record
        patience = min(IDLE_SECONDS, max(limits.segment_seconds, 0.01))
        if limits.heartbeat_seconds > 0:
            patience = min(patience, max(limits.heartbeat_seconds - quiet, 0.001))
        return patience

    def _record(self, entries: list[_Entry]) -> None:
        """Write a batch and answer its waiters; on a full disk only what may not be left out."""
        if self._state is LogState.LOW:
            entries = self._turn_away(entries)
        try:
            self._answer(entries)
        except NoSpace:
            self._become_low("disk_full")
            entries = self._turn_away(entries)
            try:
                self._answer(entries)
            except NoSpace:
                reject(entries, LedgerLow(self._low_sentence()))

    def _answer(self, entries: list[_Entry]) -> None:
        if entries:
            if self._writer.must_seal:
                self._finish_seal()
            acknowledge(entries, self._commit(entries))

    def _turn_away(self, entries: list[_Entry]) -> list[_Entry]:
        """Refuse what a log that is LOW does not record; return the rest."""
        kept = [entry for entry in entries if entry.type in LOW_TYPES]
        refused = [entry for entry in entries if entry.type not in LOW_TYPES]
        with self._gate:
            if self._shortage is not None:
                self._shortage.refused += len(refused)
        reject(refused, LedgerLow(self._low_sentence()))
        self._batch = kept
        return kept

    def _obey(self, order: Order) -> None:
        try:
            if self._writer.must_seal:
                self._finish_seal()
            order.result.set_result(order.action())
        except NoSpace:
            self._become_low("disk_full")
            reject([order], LedgerLow(self._low_sentence()))

    def _commit(self, entries: Sequence[_Entry]) -> list[Receipt]:
        """Write the entries and make them durable; the clock of idleness begins again."""
        receipts = self._writer.commit(entries)
        self._last_record = time.monotonic()
        return receipts

    def _show(self, first: int, leaves: bytes) -> None:
        """Let readers see a batch that is durable, and hand on its leaves."""
        del first
        self._leaves.put(leaves, self._show_position)

    def _show_position(self) -> None:
        at = self._writer.at
        self._committed = _Committed(at.position.size, at.note, at.first, at.offset)

    def _tend(self) -> None:
        """Do what time or size asks for: a heartbeat, the next segment, an end of LOW."""
        try:
            if self._state is LogState.LOW:
                self._look_for_space()
            every = self._limits.heartbeat_seconds
            if 0 < every <= time.monotonic() - self._last_record:
                self._last_record = time.monotonic()
                beat = {"every_us": int(every * 1_000_000)}
                self._answer([_Entry(RecordType.HEARTBEAT, {"ext": beat})])
            if self._writer.must_seal:
                self._finish_seal()
            elif self._rotation_due():
                self._rotate()
        except NoSpace:
            self._become_low("disk_full")

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
        name = segment_path(self._directory, self._writer.at.first).name
        sentence = self._refuse_more(error, name)
        self._stop.set()
        waiting = [*self._batch, *filter(None, [self._order])]
        with contextlib.suppress(queue.Empty):
            while True:
                entry = self._queue.get_nowait()
                if entry is not None:
                    waiting.append(entry)
        reject(waiting, LedgerFailed(sentence))

    # -- a disk that is nearly full ------------------------------------------------------------

    def _become_low(self, cause: str) -> None:
        """Refuse requests, give up the reserve, and say so in the log while there is room."""
        self._space.give_up_reserve()
        with self._gate:
            if self._state is not LogState.OPEN:
                return
            self._state = LogState.LOW
            self._shortage = _Shortage(cause, self._clock()[0])
        self._last_look = time.monotonic()
        with contextlib.suppress(NoSpace):
            self._gap({"cause": cause, "state": "begun"})

    def _look_for_space(self) -> None:
        """Go back to OPEN once there is room for the reserve and the `gap` record that says what
        was refused."""
        now, shortage = time.monotonic(), self._shortage
        if now - self._last_look < LOOK_SECONDS or shortage is None:
            return
        self._last_look = now
        if not self._space.is_roomy():
            return
        try:
            self._space.keep_reserve()
            self._gap(
                {
                    "begun": shortage.begun,
                    "cause": shortage.cause,
                    "refused": shortage.refused,
                    "state": "ended",
                }
            )
        except NoSpace:
            self._space.give_up_reserve()
            return
        with self._gate:
            self._shortage = None
            if self._state is LogState.LOW:
                self._state = LogState.OPEN

    def _gap(self, ext: Mapping[str, Any]) -> None:
        self._answer([_Entry(RecordType.GAP, {"ext": dict(ext)})])

    # -- segments and HEAD ---------------------------------------------------------------------

    def _rotation_due(self) -> bool:
        writer, limits = self._writer, self._limits
        return writer.at.offset >= limits.segment_bytes or (
            writer.age_us >= limits.segment_seconds * 1_000_000
        )

    def _rotate(self) -> None:
        self._writer.rotate()
        self._show_position()
        self._publish_from_writer()

    def _finish_seal(self) -> None:
        self._writer.finish_seal()
        self._show_position()

    def _publish_from_writer(self) -> None:
        """Publish HEAD; on a full disk the head thread goes on trying."""
        try:
            self._publish_head()
        except OSError as error:
            if not is_full(error):
                raise

    def _keep_head(self) -> None:
        while not self._stop.wait(HEAD_SECONDS):
            cause = ""
            try:
                self._publish_head()
                cause = "disk_low" if self._space.is_low() else ""
            except BaseException as error:
                if not is_full(error):
                    self._refuse_more(error, HEAD)
                    return
                cause = "disk_full"
            if cause:
                self._ask_low(cause)
            self._leaves.deliver()

    def _ask_low(self, cause: str) -> None:
        """Let the writer thread see to a disk that is low."""

        def become_low() -> str:
            self._become_low(cause)
            return ""

        with self._gate:
            if self._state is LogState.OPEN:
                self._queue.put(Order(become_low))

    def _publish_head(self) -> None:
        """Let HEAD hold the newest checkpoint: what it names can no longer vanish unseen."""
        self._heads.publish(self._committed.note)


def _refuse_half_repaired(directory: Path) -> None:
    if (directory / REPAIR).exists():
        raise LedgerCorrupt(
            f"A repair of the ledger {directory} was begun and cut off; run `sphragis repair` on "
            "it again to finish it."
        )


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
        with contextlib.suppress(OSError):
            os.close(fd)
        with contextlib.suppress(OSError):
            ledger._writer.close()
    _open_ledgers.clear()


os.register_at_fork(after_in_child=_after_fork)
