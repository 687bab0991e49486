"""The log: one writer thread, group commit, one durable write before any acknowledgement.

Owns the directory of a ledger while it is open (flock on LOCK) and who may write when.
Guarantees: (1) a receipt exists only for a record that a completed fdatasync covers, together
with the signed checkpoint over it; (2) records are written in the order they were accepted;
(3) a full disk makes the log LOW: requests are refused, what closes open work or makes room is
written from the reserve, and the log goes on by itself; (4) any other exception in the writer,
whatever its kind, makes the log FAILED: every waiter gets an error and nothing more is accepted
until a restart; (5) a failed fdatasync is never retried. The gateway and the deck hold one Ledger
each; contracts/ledger.md sections 2.2 and 2.5 are the rule.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import orjson

from shared.ledger.batch import BATCH_LIMIT
from shared.ledger.checkpoint import Signer, check_name, is_checkpoint_line
from shared.ledger.directory import load_identity, read_log_json, take_lock
from shared.ledger.disk_space import NoSpace, Space
from shared.ledger.entry import Entry, Receipt, copied
from shared.ledger.errors import LedgerCorrupt, LedgerError, RecordRefused
from shared.ledger.heads import Heads, LeafFeed, Leaves
from shared.ledger.keys import KeyRing
from shared.ledger.record import OWN_TYPES, RecordType
from shared.ledger.recovery import Recovered, quarantine, recover, sealed_digests
from shared.ledger.scribe import DISK_LOW, Limits, LogState, Scribe
from shared.ledger.segment import HEAD, REPAIR, first_of, list_segments, read_lines
from shared.ledger.storage import Disk, is_full, reason
from shared.ledger.writer import SegmentWriter

__all__ = ["Ledger", "LogState", "Receipt"]

SEGMENT_BYTES: Final = 256 << 20
SEGMENT_SECONDS: Final = 24 * 3600
#: How often HEAD follows the log (section 2.4).
HEAD_SECONDS: Final = 1.0
#: How often a ledger that has nothing to record says that it is alive (section 2.5).
HEARTBEAT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Committed:
    """What readers may see: replaced as a whole after each durable batch."""

    size: int
    note: str
    segment: int
    offset: int
    #: SHA-256 of the active segment up to `offset`, and which seal is the last one.
    sha256: bytes
    previous_seal: str

    @classmethod
    def of(cls, at: Recovered) -> _Committed:
        """Return what is durable where the writer stands."""
        return cls(
            at.position.size, at.note, at.first, at.offset, at.digest.digest(), at.previous_seal
        )


def system_clock() -> tuple[int, int]:
    """Return (UTC, time since boot including sleep), both in microseconds."""
    return time.time_ns() // 1000, time.clock_gettime_ns(_BOOT_CLOCK) // 1000


#: What tests hand to `_commit`, to decide what a batch holds.
_Entry = Entry
_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


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
        limits: Limits,
        space: Space,
    ) -> None:
        """Use `Ledger.open`."""
        self._directory = directory
        self._disk = disk
        self._lock_fd = lock_fd
        self._closing = threading.Lock()
        # Replaced as a whole by the writer, read by anyone:
        self._committed = _Committed.of(recovered)
        self._heads = Heads(directory, disk)
        self._leaves = LeafFeed()
        self._space = space
        self._writer = SegmentWriter(
            directory, keys, signers, recovered, disk=disk, clock=clock, durable=self._show
        )
        self._scribe = Scribe(
            directory, self._writer, space, limits=limits, clock=clock, changed=self._moved
        )
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
            limits=Limits(segment_bytes, segment_seconds, heartbeat_seconds),
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
        limits: Limits,
        room: tuple[int, int] = (0, 0),
        close_open_requests: bool = False,
        loss: Mapping[str, Any] | None = None,
        repairing: bool = False,
        lock_fd: int = -1,
    ) -> Ledger:
        """Do `open`. `repair` brings its lock and the `recover` record of an accepted `loss`."""
        check_name(origin)
        lock_fd = take_lock(directory) if lock_fd < 0 else lock_fd
        ledger = None
        try:
            if not repairing:
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
        self._space.make_room()
        at, key = self._writer.at, None
        if loss is not None and "segment_key" in loss:
            key = keys.load_segment(at.first, loss["segment_key"])
        torn = quarantine(self._directory, at, self._disk)
        self._writer.begin(key)
        first: list[Entry] = []
        if self._writer.at.position.size == 0:
            first.append(Entry(RecordType.GENESIS, {"ext": read_log_json(self._directory)}))
        if loss is not None:
            first.append(Entry(RecordType.RECOVER, {"ext": dict(loss)}))
        first += [
            Entry(
                RecordType.RECOVER,
                {"ext": {"bytes": tail.bytes, "file": tail.name, "sha256": tail.sha256}},
            )
            for tail in torn
            if loss is None or tail.name != loss["file"]
        ]
        if close_open_requests:
            first += [
                Entry(
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
        self._scribe.start()
        _open_ledgers.add(self)
        self._herald.start()

    # -- for callers ---------------------------------------------------------------------------

    def append(
        self, type: str, fields: Mapping[str, Any], *, pressing: bool = False
    ) -> Future[Receipt]:
        """Queue a record; the future gives its receipt once it is durable. One that is `pressing`
        is taken even while the disk is low: it says what is in force, or leads to more room.

        The future cannot be cancelled: an accepted record is written, unless the disk turns out
        to be full. Its callbacks run in the writer thread and must be short. Raises
        RecordRefused, LedgerLow, LedgerFailed or LedgerClosed at once; the future raises
        LedgerLow or LedgerFailed.
        """
        waiter: Future[Receipt] = Future()
        waiter.set_running_or_notify_cancel()
        entry = Entry(_caller_type(type), copied(fields), waiter, pressing=pressing)
        self._scribe.submit(entry)
        return waiter

    async def append_async(
        self, type: str, fields: Mapping[str, Any], *, pressing: bool = False
    ) -> Receipt:
        """Record from a coroutine; returns when the record is durable. `pressing` as in `append`.

        Cancelling the wait does not take the record back. Raises RecordRefused, LedgerLow,
        LedgerFailed or LedgerClosed.
        """
        return await self.append_soon(type, fields, pressing=pressing)

    def append_soon(
        self, type: str, fields: Mapping[str, Any], *, pressing: bool = False
    ) -> asyncio.Future[Receipt]:
        """Queue a record from the thread of a running loop; that loop's future gives the receipt
        once the record is durable. Raises at once, and the future, what `append` does."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Receipt] = loop.create_future()
        entry = Entry(_caller_type(type), copied(fields), waiter, loop, pressing=pressing)
        self._scribe.submit(entry)
        return waiter

    def records(self, start: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the records committed when the iteration starts, from number `start` on, or from
        the first that is left when older ones were pruned.

        Reads the files; holds one block in memory. Raises LedgerCorrupt when a file is not what
        was written, at the end of that file at the latest: what was yielded is good only once the
        iteration ends, or goes on with another file.
        """
        committed = self._committed
        digests = sealed_digests(self._directory, committed.previous_seal)
        digests[committed.segment] = committed.sha256.hex()
        segments = [
            path for path in list_segments(self._directory) if _first(path) <= committed.segment
        ]
        for index, path in enumerate(segments):
            if index + 1 < len(segments) and _first(segments[index + 1]) <= start:
                continue
            first = _first(path)
            end = committed.offset if first == committed.segment else None
            yield from _records_of(path, end, start, digests.get(first, ""))

    def rotate_key(self) -> str:
        """Change to a new signing key; return its vkey. The old key signs every checkpoint beside
        the new one until the segment ends, then its private half is destroyed.

        Blocks until the record is durable. Raises LedgerLow, LedgerFailed or LedgerClosed.
        """
        return self._scribe.do(self._writer.rotate_key)

    def seal_now(self) -> str:
        """Seal the active segment; return the checkpoint over it, which HEAD then holds.

        Blocks until it is durable. Raises LedgerLow, LedgerFailed or LedgerClosed.
        """

        def seal() -> str:
            if not self._writer.must_seal:
                self._writer.rotate()
            self._moved()
            return self._writer.at.note

        return self._scribe.do(seal)

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
        return self._scribe.state

    @property
    def failure(self) -> str | None:
        """Why the log failed, or why it is LOW, as a sentence; None while all is well."""
        return self._scribe.failure

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
        with self._closing:
            if self._lock_fd < 0:
                return
            lock_fd, self._lock_fd = self._lock_fd, -1
        self._scribe.stop()
        self._herald.join()
        if not self._scribe.failed:
            try:
                self._publish_head()
            except Exception as error:
                self._scribe.refuse_more(error, HEAD)
        self._leaves.deliver()
        self._writer.close()
        with contextlib.suppress(OSError):
            os.close(lock_fd)
        self._scribe.state = LogState.CLOSED
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

    # -- what is durable -----------------------------------------------------------------------

    def _commit(self, entries: Sequence[Entry]) -> list[Receipt]:
        return self._scribe.commit(entries)

    def _show(self, first: int, leaves: bytes) -> None:
        """Let readers see a batch that is durable, and hand on its leaves."""
        del first
        self._leaves.put(leaves, self._show_position)

    def _show_position(self) -> None:
        self._committed = _Committed.of(self._writer.at)

    def _moved(self) -> None:
        """Let readers see a new segment, and publish HEAD over the sealed one; on a full disk the
        head thread goes on trying."""
        self._show_position()
        try:
            self._publish_head()
        except OSError as error:
            if not is_full(error):
                raise

    def _keep_head(self) -> None:
        while not self._scribe.over.wait(HEAD_SECONDS):
            cause = ""
            try:
                self._publish_head()
                cause = DISK_LOW if self._space.is_low() else ""
            except BaseException as error:
                if not is_full(error):
                    self._scribe.refuse_more(error, HEAD)
                    return
                cause = "disk_full"
            if cause:
                self._scribe.ask_low(cause)
            self._leaves.deliver()

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


def _records_of(path: Path, end: int | None, start: int, digest: str) -> Iterator[dict[str, Any]]:
    seen = sha256()
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size if end is None else end
        for lines, unfinished in read_lines(file, size):
            seen.update(b"\n".join([*lines, unfinished]))
            try:
                for line in lines:
                    if not is_checkpoint_line(line):
                        record = orjson.loads(line)
                        if record["seq"] >= start:
                            yield record
            except (ValueError, KeyError, TypeError) as error:
                raise _damaged(path) from error
    if seen.hexdigest() != digest:
        raise _damaged(path)


def _damaged(path: Path) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"{path} was damaged after it was written; run `sphragis verify` on the ledger to see "
        "which record, and restore it from a backup."
    )


# -- forks -----------------------------------------------------------------------------------------

_open_ledgers: weakref.WeakSet[Ledger] = weakref.WeakSet()


def _after_fork() -> None:
    """In a forked child there is no writer, and the inherited lock must not outlive the parent."""
    for ledger in list(_open_ledgers):
        fd, ledger._lock_fd = ledger._lock_fd, -1
        ledger._closing = threading.Lock()
        ledger._scribe.forget()
        with contextlib.suppress(OSError):
            os.close(fd)
        with contextlib.suppress(OSError):
            ledger._writer.close()
    _open_ledgers.clear()


os.register_at_fork(after_in_child=_after_fork)
