"""What waits for the writer, and what it gets back.

Owns the receipt and the ways a waiter is answered: a plain future from any thread, or an asyncio
future through its loop, one wake-up per loop and batch. Called by `log` and `writer`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

import orjson

from shared.ledger.errors import LedgerError
from shared.ledger.record import CALLER_FIELDS, MAX_DEPTH, copy_fields

#: Records up to this size are far from every limit.
_PLAIN_MOST: Final = 8192
#: What may be a number with a fraction.
_MAYBE_FLOAT: Final = re.compile(rb"[:,\[]-?[0-9]+[.eE]")


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


def copied(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `record.copy_fields` does, and raise what it raises. Nearly every record holds
    plain values only: written and read back they are the same, and that takes a fifth of the
    time. Any other is left to `copy_fields`."""
    try:
        line = orjson.dumps(fields, option=orjson.OPT_STRICT_INTEGER)
    except TypeError:
        return copy_fields(fields)
    if (
        len(line) > _PLAIN_MOST
        or not line.isascii()
        or line.count(b"{") + line.count(b"[") > MAX_DEPTH
        or _MAYBE_FLOAT.search(line) is not None
    ):
        return copy_fields(fields)
    copy: dict[str, Any] = orjson.loads(line)
    for name, value in copy.items():
        if CALLER_FIELDS.get(name) is not type(value):
            return copy_fields(fields)
    # What JSON writes as something else (a tuple, a date, NaN) is not the same any more.
    return copy if copy == fields else copy_fields(fields)


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
