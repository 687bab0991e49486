"""The writer thread: what it takes from its queue, when it refuses, and what it does when idle.

Owns the queue and the state of a log. Invariants: whoever waits gets an answer, whatever happens
in this thread; the state leaves LOW only when the `gap` record that says what was refused is
durable; FAILED is for ever. The steps themselves are `writer`'s. Called by `log`.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from shared.ledger.batch import BATCH_LIMIT
from shared.ledger.disk_space import LOOK_SECONDS, NoSpace, Space
from shared.ledger.entry import Entry, Order, Receipt, acknowledge, reject
from shared.ledger.errors import LedgerClosed, LedgerError, LedgerFailed, LedgerLow
from shared.ledger.record import RecordType
from shared.ledger.segment import segment_path
from shared.ledger.storage import reason
from shared.ledger.writer import SegmentWriter

#: How often an idle writer looks at the age of its segment.
IDLE_SECONDS: Final = 60.0
#: Why a log is LOW: little room is left. Any other cause is a write that found none.
DISK_LOW: Final = "disk_low"
#: What is still recorded while the disk is low: it closes what is open, says why nothing more is
#: accepted, or makes room (a pruning is an `erase`).
LOW_TYPES: Final = frozenset(
    {
        RecordType.OUTCOME,
        RecordType.GAP,
        RecordType.STOP,
        RecordType.DENY,
        RecordType.ERASE,
        RecordType.HOLD,
        RecordType.RECOVER,
    }
)


class LogState(StrEnum):
    """OPEN accepts records; LOW (the disk is nearly full) only those of LOW_TYPES and what is
    pressing, and goes back to OPEN by itself; FAILED and CLOSED never accept any again."""

    OPEN = "open"
    LOW = "low"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Limits:
    """When segments end and how long silence may last; bytes and seconds."""

    segment_bytes: int
    segment_seconds: float
    heartbeat_seconds: float


@dataclass(slots=True)
class _Shortage:
    """Why and since when requests are refused, and how many were."""

    cause: str
    begun: int
    refused: int = 0


def _fits_low(entry: Entry) -> bool:
    return entry.pressing or entry.type in LOW_TYPES


class Scribe:
    """The writer thread of one log."""

    def __init__(
        self,
        directory: Path,
        writer: SegmentWriter,
        space: Space,
        *,
        limits: Limits,
        clock: Callable[[], tuple[int, int]],
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when the log stands at another place without a new record: at a
        seal, behind which HEAD follows at once."""
        self._directory = directory
        self._limits = limits
        self._clock = clock
        self._changed = changed
        # Owned by the writer thread (by `open` before it starts):
        self._writer = writer
        self._space = space
        self._batch: Sequence[Entry | Order] = ()
        self._order: Order | None = None
        self._last_record = time.monotonic()
        self._last_look = 0.0
        # Owned by whoever holds `_gate`: the state, putting into the queue while it is accepted,
        # and counting what is refused.
        self._gate = threading.Lock()
        self.state = LogState.OPEN
        self._failure: str | None = None
        self._shortage: _Shortage | None = None
        self._queue: queue.SimpleQueue[Entry | Order | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        #: Set once nothing more is written: the thread ended or was told to.
        self.over = threading.Event()

    # -- for the log ---------------------------------------------------------------------------

    def start(self) -> None:
        """Take care of the reserve and start the thread."""
        try:
            self._space.keep_reserve()
            full = self._space.is_only_reserve()
        except NoSpace:
            full = True
        if full:
            # The program has files of its own to write at a start.
            self.become_low("disk_full")
        self._thread.start()

    def stop(self) -> None:
        """Accept nothing more, write what was accepted, end the thread."""
        with self._gate:
            if self.state in (LogState.OPEN, LogState.LOW):
                self.state = LogState.CLOSED
            self._queue.put(None)
        self.over.set()
        self._thread.join()

    def forget(self) -> None:
        """Be closed in a forked child, where there is no thread."""
        self._gate = threading.Lock()
        self.state = LogState.CLOSED

    @property
    def failure(self) -> str | None:
        """Why the log failed, or why it is LOW; None while all is well."""
        if self._failure is None and self.state is LogState.LOW:
            return self._low_sentence()
        return self._failure

    @property
    def failed(self) -> bool:
        """Whether the log failed at any time, even if it was closed since."""
        return self._failure is not None

    def submit(self, entry: Entry) -> None:
        """Queue a record. Raises LedgerLow, LedgerFailed or LedgerClosed."""
        with self._gate:
            if self.state is LogState.OPEN or (self.state is LogState.LOW and _fits_low(entry)):
                self._queue.put(entry)
                return
            if self.state is LogState.LOW and self._shortage is not None:
                self._shortage.refused += 1
            raise self._refusal()

    def do(self, action: Callable[[], str]) -> str:
        """Have the thread do something between two batches; wait for it. Raises LedgerLow,
        LedgerFailed or LedgerClosed."""
        order = Order(action)
        with self._gate:
            if self.state is not LogState.OPEN:
                raise self._refusal()
            self._queue.put(order)
        return order.result.result()

    def _refusal(self) -> LedgerError:
        if self._failure is not None:
            return LedgerFailed(self._failure)
        if self.state is LogState.LOW:
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
                    self._record([one for one in work if isinstance(one, Entry)])
                self._batch = ()
                self._tend()
        except BaseException as error:
            # Not only OSError: an exception that ends this thread would leave its waiters
            # waiting for ever.
            self._fail(error)

    def _take(self) -> Sequence[Entry | Order] | None:
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
        if self.state is LogState.LOW:
            return LOOK_SECONDS
        limits, quiet = self._limits, time.monotonic() - self._last_record
        patience = min(IDLE_SECONDS, max(limits.segment_seconds, 0.01))
        if limits.heartbeat_seconds > 0:
            patience = min(patience, max(limits.heartbeat_seconds - quiet, 0.001))
        return patience

    def _record(self, entries: list[Entry]) -> None:
        """Write a batch and answer its waiters; on a full disk only what may not be left out."""
        if self.state is LogState.LOW:
            entries = self._turn_away(entries)
        try:
            self._answer(entries)
        except NoSpace:
            self.become_low("disk_full")
            entries = self._turn_away(entries)
            try:
                self._answer(entries)
            except NoSpace:
                reject(entries, LedgerLow(self._low_sentence()))

    def _answer(self, entries: list[Entry]) -> None:
        if entries:
            if self._writer.must_seal:
                self._finish_seal()
            acknowledge(entries, self.commit(entries))

    def _turn_away(self, entries: list[Entry]) -> list[Entry]:
        """Refuse what a log that is LOW does not record; return the rest."""
        kept = [entry for entry in entries if _fits_low(entry)]
        refused = [entry for entry in entries if not _fits_low(entry)]
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
            self.become_low("disk_full")
            reject([order], LedgerLow(self._low_sentence()))

    def commit(self, entries: Sequence[Entry]) -> list[Receipt]:
        """Write the entries and make them durable; the clock of idleness begins again."""
        receipts = self._writer.commit(entries)
        self._last_record = time.monotonic()
        return receipts

    def _tend(self) -> None:
        """Do what time or size asks for: a heartbeat, the next segment, an end of LOW."""
        if self.state is LogState.FAILED:
            return  # HEAD could not be written; what was accepted is, nothing else
        try:
            if self.state is LogState.LOW:
                self._look_for_space()
            every = self._limits.heartbeat_seconds
            if 0 < every <= time.monotonic() - self._last_record:
                self._last_record = time.monotonic()
                beat = {"every_us": int(every * 1_000_000)}
                self._answer([Entry(RecordType.HEARTBEAT, {"ext": beat})])
            if self._writer.must_seal:
                self._finish_seal()
            elif self._rotation_due():
                self._rotate()
        except NoSpace:
            self.become_low("disk_full")

    def refuse_more(self, error: BaseException, name: str) -> str:
        """Become FAILED, keeping the first reason; return the sentence."""
        with self._gate:
            if self._failure is None:
                self._failure = (
                    f"The ledger {self._directory} stopped: writing {name} failed "
                    f"({reason(error)}); check the disk, then restart the program."
                )
            self.state = LogState.FAILED
            return self._failure

    def _fail(self, error: BaseException) -> None:
        """End the writer: refuse new records and answer everybody who waits."""
        name = segment_path(self._directory, self._writer.at.first).name
        sentence = self.refuse_more(error, name)
        self.over.set()
        waiting = [*self._batch, *filter(None, [self._order])]
        with contextlib.suppress(queue.Empty):
            while True:
                entry = self._queue.get_nowait()
                if entry is not None:
                    waiting.append(entry)
        reject(waiting, LedgerFailed(sentence))

    # -- a disk that is nearly full ------------------------------------------------------------

    def ask_low(self, cause: str) -> None:
        """Let the writer thread see to a disk that another thread found low."""

        def become_low() -> str:
            self.become_low(cause)
            return ""

        with self._gate:
            if self.state is LogState.OPEN:
                self._queue.put(Order(become_low))

    def become_low(self, cause: str) -> None:
        """Refuse requests and say so in the log. The reserve goes once there is no other room, so
        that a disk that fills up behind the mark still leaves it for the next start."""
        if cause != DISK_LOW:
            self._space.give_up_reserve()
        with self._gate:
            if self.state is not LogState.OPEN:
                return
            self.state = LogState.LOW
            self._shortage = _Shortage(cause, self._clock()[0])
        self._last_look = time.monotonic()
        begun = {"cause": cause, "state": "begun"}
        try:
            self._gap(begun)
        except NoSpace:
            self._space.give_up_reserve()
            with contextlib.suppress(NoSpace):
                self._gap(begun)

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
            if self.state is LogState.LOW:
                self.state = LogState.OPEN

    def _gap(self, ext: Mapping[str, Any]) -> None:
        self._answer([Entry(RecordType.GAP, {"ext": dict(ext)})])

    # -- segments ------------------------------------------------------------------------------

    def _rotation_due(self) -> bool:
        writer, limits = self._writer, self._limits
        return writer.at.offset >= limits.segment_bytes or (
            writer.age_us >= limits.segment_seconds * 1_000_000
        )

    def _rotate(self) -> None:
        self._writer.rotate()
        self._changed()

    def _finish_seal(self) -> None:
        self._writer.finish_seal()
        self._changed()
