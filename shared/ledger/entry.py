"""What waits for the writer, and what it gets back.

Owns the receipt and the ways a waiter is answered: a plain future from any thread, or an asyncio
future through its loop, one wake-up per loop and batch. Called by `log` and `writer`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from shared.ledger.errors import LedgerError


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


class Entry:
    """One record that waits for the writer, and who waits for it."""

    __slots__ = ("fields", "loop", "pressing", "type", "waiter")

    def __init__(
        self,
        type_: str,
        fields: dict[str, Any],
        waiter: Future[Receipt] | asyncio.Future[Receipt] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        pressing: bool = False,
    ) -> None:
        """`fields` belongs to the entry from here on; the writer adds its own to it. What is
        `pressing` is recorded while the disk is low."""
        self.type = type_
        self.fields = fields
        self.waiter = waiter
        self.loop = loop
        self.pressing = pressing


class Order:
    """Something the writer thread is to do between two batches, and the future of its result."""

    __slots__ = ("action", "result")

    def __init__(self, action: Callable[[], str]) -> None:
        """`action` runs in the writer thread."""
        self.action = action
        self.result: Future[str] = Future()
        self.result.set_running_or_notify_cancel()


def acknowledge(entries: Sequence[Entry], receipts: Sequence[Receipt]) -> None:
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


def reject(waiting: Sequence[Entry | Order], error: LedgerError) -> None:
    """Give each waiter that has no answer yet an error of its own."""
    for one in waiting:
        waiter = one.result if isinstance(one, Order) else one.waiter
        again = type(error)(str(error))
        if isinstance(waiter, Future):
            if not waiter.done():
                waiter.set_exception(again)
        elif waiter is not None and isinstance(one, Entry) and one.loop is not None:
            with contextlib.suppress(RuntimeError):
                one.loop.call_soon_threadsafe(_reject_one, waiter, again)


def _reject_one(waiter: asyncio.Future[Receipt], error: LedgerError) -> None:
    if not waiter.done():
        waiter.set_exception(error)
