"""The one place where deck state changes: a durable entry first, its effect after (law 6).

Owns the deck's ledger directory and the current `State`. Invariant: `record` validates an entry
against the board, queues it for the ledger's single writer and applies it, in one step of the
event loop, so memory and log have the same order; callers await the returned future before any
effect outside the process (typing, acks, signals, files agents read). Once the ledger fails,
nothing more is recorded and every waiter is told: the deck then hands out nothing (law 2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from deck.board import Entry, Op, State, apply
from shared.ledger import Ledger, LedgerError, Receipt, RecordRefused

#: The ledger's own record types where one fits (contracts/ledger.md section 2.1).
RECORD_TYPE: Final[Mapping[Op, str]] = MappingProxyType(
    {
        Op.SESSION_STARTED: "start",
        Op.SESSION_STOPPED: "stop",
        Op.TASK_ADDED: "delegate",
        Op.DENIED: "deny",
        Op.GATE_OPENED: "gate_open",
        Op.GATE_DECIDED: "gate_decision",
    }
)
DEFAULT_TYPE: Final = "journal"


class JournalFailed(Exception):
    """The journal cannot be opened, or an entry not be written; the text says why."""


class Journal:
    """State plus the ledger it is a replay of. Used from one event loop only."""

    def __init__(self, ledger: Ledger, state: State) -> None:
        self._ledger = ledger
        self._state = state
        self._failure: str | None = None

    @classmethod
    def open(cls, directory: Path, *, keys: Path, origin: str) -> Journal:
        """Open or create the log and replay it. Raises JournalFailed with the ledger's sentence."""
        try:
            ledger = Ledger.open(directory, keys=keys, origin=origin)
        except (LedgerError, OSError) as error:
            raise JournalFailed(f"The deck's ledger cannot be opened: {error}") from error
        try:
            state = State()
            for entry in entries_of(ledger.records()):
                state = apply(state, entry)
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
    def size(self) -> int:
        """How many records are durable."""
        return self._ledger.size

    def record(self, entry: Entry) -> asyncio.Future[Receipt]:
        """Apply an entry and return a future that resolves when it is durable.

        Raises IllegalMove when the board forbids it and JournalFailed when the log is closed or
        broken; the future raises JournalFailed when writing fails.
        """
        if self.failure is not None:
            raise JournalFailed(f"The deck's ledger cannot be written: {self.failure}")
        following = apply(self._state, entry)
        try:
            waiter = self._ledger.append(
                RECORD_TYPE.get(entry.op, DEFAULT_TYPE), _fields(entry, following.run)
            )
        except RecordRefused as error:
            # This one record has no place in a ledger; the ledger itself is sound.
            raise JournalFailed(f"The deck cannot record this: {error}") from error
        except LedgerError as error:
            self._failure = str(error)
            raise JournalFailed(f"The deck's ledger cannot be written: {error}") from error
        self._state = following
        return asyncio.ensure_future(self._durable(asyncio.wrap_future(waiter)))

    async def _durable(self, waiter: asyncio.Future[Receipt]) -> Receipt:
        try:
            return await waiter
        except LedgerError as error:
            self._failure = str(error)
            raise JournalFailed(f"The deck's ledger cannot be written: {error}") from error

    def close(self) -> None:
        """Write the head and release the lock. Blocks on the disk."""
        self._ledger.close()


def entries_of(records: Iterator[dict[str, Any]]) -> Iterator[Entry]:
    """Yield the journal entries among ledger records; the ledger's own records are passed over."""
    for record in records:
        ext = record.get("ext")
        if isinstance(ext, dict) and "op" in ext:
            yield Entry.from_ext(ext)


def _fields(entry: Entry, run: str) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "action": {"kind": "deck", "name": str(entry.op)},
        "ext": entry.as_ext(),
        "run": run,
    }
    task = entry.task or (entry.id if entry.op in (Op.TASK_ADDED, Op.TASK_MOVED) else "")
    if task:
        fields["task"] = task
    if entry.id:
        fields["id"] = entry.id
    if entry.sender:
        fields["actor"] = {"agent": "choragos", "role": entry.sender}
    if entry.role:
        fields["action"]["target"] = entry.role
    if entry.ref:
        fields["action"]["args_c"] = entry.ref
    if entry.op in (Op.GATE_OPENED, Op.GATE_DECIDED):
        gate = {"id": entry.id, "state": entry.state or "open"}
        if entry.op is Op.GATE_DECIDED:
            gate["approver"] = entry.sender
        fields["gate"] = gate
    return fields
