"""The one place where deck state changes: a durable entry first, its effect after (law 6).

Owns the deck's ledger directory and the current `State`. Invariant: `record` validates an entry
against the board, queues it for the ledger's single writer and applies it, in one step of the
event loop, so memory and log have the same order; callers await the returned future before any
effect outside the process (typing, acks, signals, files agents read). Once the ledger fails,
nothing more is recorded and every waiter is told: the deck then hands out nothing (law 2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from deck.board import State
from deck.entries import Decision, Entry, Op, TaskState
from deck.replay import apply, replay
from shared.ledger import Ledger, LedgerError, LogState, Receipt, RecordRefused
from shared.ledger.errors import LedgerLow
from shared.ledger.texts import keep_text, read_text
from shared.ledger.tiles import TileWriter

#: The ledger's own record types where one fits (contracts/ledger.md section 2.1).
RECORD_TYPE: Final[Mapping[Op, str]] = MappingProxyType(
    {
        Op.SESSION_STARTED: "start",
        Op.SESSION_STOPPED: "stop",
        Op.TASK_ADDED: "delegate",
        Op.DENIED: "deny",
        Op.GATE_OPENED: "gate_open",
        Op.GATE_DECIDED: "gate_decision",
        Op.CONFIG_SET: "config_set",
        Op.BRIEF_SET: "config_set",
        Op.ENFORCEMENT_CHANGED: "config_set",
        Op.RELOADED: "config_set",
    }
)
DEFAULT_TYPE: Final = "journal"
_FRESH_START: Final = (Op.SESSION_STARTED, "fresh")
#: Their `id` is a task's.
_ABOUT_A_TASK: Final = frozenset(
    {
        Op.TASK_ADDED,
        Op.TASK_MOVED,
        Op.OWNED_TAKEN,
        Op.LOOP_MOVED,
        Op.WORKTREE_COMMITTED,
        Op.MERGE_MOVED,
    }
)
#: Recorded while the disk is low, too: what a start must say about what is in force, which
#: processes run, and what is lost. So a deck on such a disk starts; only new work is refused.
PRESSING: Final = frozenset(
    {
        Op.SESSION_STARTED,
        Op.CONFIG_SET,
        Op.BRIEF_SET,
        Op.ENFORCEMENT_CHANGED,
        Op.GATEWAY_STARTED,
        Op.GATEWAY_STOPPED,
        Op.ROLE_STARTING,
        Op.ROLE_STARTED,
        Op.ROLE_EXITED,
        Op.ROLE_STOPPING,
        Op.ROLE_STOPPED,
        Op.ROLE_PAUSED,
        Op.ROLE_RESUMED,
        Op.ROLE_REMOVED,
        # A full disk must not let a role go on spending.
        Op.BUDGET_EXCEEDED,
        Op.HANDOFF_ENDED,
    }
)
#: A deck mostly waits for each record, so nearly each has a signed checkpoint of its own, and a
#: start checks every signature of the segment that is not sealed: 3,000 of them, at 55 us each,
#: are what a person does not notice. Sealed ones are hashed as they are read.
SEGMENT_BYTES: Final = 2 << 20
#: Told of each entry once it is durable, with the board as it then is.
Watcher = Callable[[Entry, State], None]


class JournalFailed(Exception):
    """The journal cannot be opened, or an entry not be written; the text says why."""


class Journal:
    """State plus the ledger it is a replay of. Used from one event loop only."""

    def __init__(self, ledger: Ledger, state: State) -> None:
        self._ledger = ledger
        self._state = state
        self._failure: str | None = None
        self._watchers: list[Watcher] = []

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        keys: Path,
        origin: str,
        heartbeat_seconds: float = 0.0,
        reserve_bytes: int = 0,
        low_water_bytes: int = 0,
    ) -> Journal:
        """Open or create the log and replay it; the last three are those of `Ledger.open`. Raises
        JournalFailed with the ledger's sentence."""
        try:
            ledger = Ledger.open(
                directory,
                keys=keys,
                origin=origin,
                heartbeat_seconds=heartbeat_seconds,
                segment_bytes=SEGMENT_BYTES,
                reserve_bytes=reserve_bytes,
                low_water_bytes=low_water_bytes,
            )
        except (LedgerError, OSError) as error:
            raise JournalFailed(f"The deck's ledger cannot be opened: {error}") from error
        ledger.on_leaves(TileWriter(directory).add)
        try:
            state = replay(entries_of(from_a_beginning(ledger.records())))
        except Exception as error:
            ledger.close()
            raise JournalFailed(
                f"The journal in {directory} does not replay ({error}); move .choragos aside to "
                "start afresh, and keep it: it is evidence."
            ) from error
        return cls(ledger, state)

    @property
    def state(self) -> State:
        """The present board."""
        return self._state

    @property
    def failure(self) -> str | None:
        """Why nothing can be recorded any more, or None."""
        return self._failure or self._ledger.failure

    @property
    def ledger(self) -> Ledger:
        """The ledger itself, for what is beside the journal: its head, its neighbors."""
        return self._ledger

    @property
    def size(self) -> int:
        """How many records are durable."""
        return self._ledger.size

    def watch(self, watcher: Watcher) -> None:
        """Let `watcher` be told of each entry from now on, on the event loop."""
        self._watchers.append(watcher)

    def keep(self, text: bytes) -> str:
        """Keep a text durably with the ledger and return its digest. Blocks. Raises
        JournalFailed."""
        try:
            return keep_text(self._ledger.directory, text)
        except LedgerError as error:
            raise JournalFailed(f"The deck's ledger cannot be written: {error}") from error

    def kept(self, digest: str) -> bytes:
        """Return a text that was kept with the ledger, empty when it is not there any more or was
        changed. Blocks."""
        try:
            return read_text(self._ledger.directory, digest)
        except LedgerError:
            return b""

    def record(self, entry: Entry) -> asyncio.Future[Receipt]:
        """Apply an entry and return a future that resolves when it is durable.

        Raises IllegalMove when the board forbids it and JournalFailed when the log is closed or
        broken; the future raises JournalFailed when writing fails.
        """
        # With little disk left the ledger still takes a stop, a refusal and what is pressing.
        if self.failure is not None and self._ledger.state is not LogState.LOW:
            raise JournalFailed(f"The deck's ledger cannot be written: {self.failure}")
        following = apply(self._state, entry)
        try:
            waiter = self._ledger.append(
                RECORD_TYPE.get(entry.op, DEFAULT_TYPE),
                _fields(entry, following),
                pressing=_is_pressing(entry),
            )
        except RecordRefused as error:
            # This one record has no place in a ledger; the ledger itself is sound.
            raise JournalFailed(f"The deck cannot record this: {error}") from error
        except LedgerLow as error:
            # It passes when there is space again; until then nothing is handed out.
            raise JournalFailed(f"The deck's ledger takes no records: {error}") from error
        except LedgerError as error:
            self._failure = str(error)
            raise JournalFailed(f"The deck's ledger cannot be written: {error}") from error
        self._state = following
        return asyncio.ensure_future(self._durable(entry, asyncio.wrap_future(waiter)))

    async def _durable(self, entry: Entry, waiter: asyncio.Future[Receipt]) -> Receipt:
        try:
            receipt = await waiter
        except LedgerError as error:
            self._failure = str(error)
            raise JournalFailed(f"The deck's ledger cannot be written: {error}") from error
        for watcher in self._watchers:
            watcher(entry, self._state)
        return receipt

    def close(self) -> None:
        """Write the head and release the lock. Blocks on the disk."""
        self._ledger.close()


def _is_pressing(entry: Entry) -> bool:
    lost = entry.op is Op.TASK_MOVED and entry.state == TaskState.LOST
    void = entry.op is Op.GATE_DECIDED and entry.state == Decision.VOID
    return lost or void or entry.op in PRESSING


def entries_of(records: Iterator[dict[str, Any]]) -> Iterator[Entry]:
    """Yield the journal entries among ledger records; the ledger's own records are passed over."""
    for record in records:
        ext = record.get("ext")
        if isinstance(ext, dict) and "op" in ext:
            yield Entry.from_ext(ext)


def from_a_beginning(records: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the records of a ledger, or from the first fresh start on when older ones are gone: a
    board without its beginning would not know who was refused, paused or over budget.

    Raises JournalFailed when there is no such start.
    """
    first = next(records, None)
    if first is None or first["seq"] == 0:
        yield from () if first is None else chain((first,), records)
        return
    for record in chain((first,), records):
        ext = record.get("ext")
        if isinstance(ext, dict) and (ext.get("op"), ext.get("state")) == _FRESH_START:
            yield from chain((record,), records)
            return
    raise JournalFailed(f"the beginning of the last run, before record {first['seq']}, is gone")


def _fields(entry: Entry, state: State) -> dict[str, Any]:
    """Return the record of an entry: `run`, `task` and `actor.role` join it with those of the
    gateway, the entry itself is in `ext`."""
    fields: dict[str, Any] = {
        "action": {"kind": "deck", "name": str(entry.op)},
        "actor": {"agent": "choragos"},
        "ext": entry.as_ext(),
        "run": state.run,
    }
    if task := _task_of(entry, state):
        fields["task"] = task
    if entry.id:
        fields["id"] = entry.id
    if role := entry.sender or entry.role:
        fields["actor"]["role"] = role
    if entry.role:
        fields["action"]["target"] = entry.role
    if entry.ref:
        fields["action"]["args_c"] = entry.ref
    if entry.op is Op.GATE_OPENED:
        fields["gate"] = {"id": entry.id, "state": "open"}
    elif entry.op in (Op.GATE_DECIDED, Op.GATE_VOTED):
        # One of several approvals is no decision yet.
        decision = entry.state if entry.op is Op.GATE_DECIDED else "open"
        fields["gate"] = {"id": entry.id, "state": decision, "approver": entry.sender}
    return fields


def _task_of(entry: Entry, state: State) -> str:
    if entry.op in _ABOUT_A_TASK:
        return entry.id
    if entry.task:
        return entry.task
    if entry.op in (Op.GATE_DECIDED, Op.GATE_VOTED):
        return state.gates[entry.id].task
    report = state.reports.get(entry.id) if entry.op is Op.REPORT_MOVED else None
    return report.task if report is not None else ""
