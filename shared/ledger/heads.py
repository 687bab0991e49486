"""What leaves the writer behind: HEAD, cosignatures, and the leaves for whoever keeps tiles.

Invariants: HEAD never goes back, and holds the log's signature of its checkpoint first, then
cosignatures of exactly that checkpoint; leaves are handed on in order, without a hole, and only
once they are durable. Nothing here is on the way of a record. Called by `log`: the head thread,
and any thread that brings cosignatures.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from shared.ledger.checkpoint import Checkpoint, parse_checkpoint, split_note
from shared.ledger.directory import read_head
from shared.ledger.errors import LedgerError, NoteRefused
from shared.ledger.segment import ANCHORS, HEAD
from shared.ledger.storage import Disk, reason

Leaves = Callable[[int, bytes], None]
_LOGGER: Final = logging.getLogger(__name__)


class Heads:
    """HEAD and the cosignatures of one log."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        """Nothing is read before `resume`."""
        self._directory = directory
        self._disk = disk
        # Owned by whoever holds `_gate`: the published note, without cosignatures.
        self._gate = threading.Lock()
        self._note = ""

    def resume(self, newest: str) -> None:
        """Take HEAD as it is, if it is for the `newest` note: its cosignatures stay."""
        if newest and read_head(self._directory).startswith(newest):
            self._note = newest

    def publish(self, note: str) -> None:
        """Let HEAD hold `note`: what it names can no longer vanish unseen. Raises OSError."""
        with self._gate:
            if note and note != self._note:
                self._disk.replace(self._directory / HEAD, note.encode())
                self._note = note

    def add_cosignatures(self, size: int, lines: Sequence[str]) -> None:
        """Keep signature lines, with or without newline, for the checkpoint of `size` records.

        Raises NoteRefused when a line is none, LedgerError when the disk refuses.
        """
        new = [line.rstrip("\n") for line in lines]
        for line in new:
            split_note(f"x\n\n{line}\n")
        path = self._directory / ANCHORS / f"{size}.cosig"
        try:
            with self._gate:
                path.parent.mkdir(mode=0o700, exist_ok=True)
                self._disk.sync_directory(self._directory)
                kept = path.read_text("utf-8").splitlines() if path.exists() else []
                merged = _merge(kept, new)
                self._disk.replace(path, "".join(f"{line}\n" for line in merged).encode())
                if _checkpoint_of(self._note, size) is not None:
                    self._keep_checkpoint(path.with_suffix(".checkpoint"))
                    note = self._note + "".join(f"{line}\n" for line in merged)
                    self._disk.replace(self._directory / HEAD, note.encode())
        except OSError as error:
            raise LedgerError(
                f"The cosignatures of {size} records could not be kept in {path} "
                f"({reason(error)}); the records are safe, ask for them again."
            ) from error

    def _keep_checkpoint(self, path: Path) -> None:
        if not path.exists():
            self._disk.replace(path, self._note.encode())


def _checkpoint_of(note: str, size: int) -> Checkpoint | None:
    try:
        found = parse_checkpoint(split_note(note)[0])
    except NoteRefused:
        return None
    return found if found.size == size else None


def _merge(kept: Iterable[str], new: Iterable[str]) -> list[str]:
    """Return the lines, one for each key: a newer one takes the place of an older one."""
    lines: dict[tuple[str, bytes], str] = {}
    for line in (*kept, *new):
        (name, blob), *_ = split_note(f"x\n\n{line}\n")[1]
        lines[name, blob[:4]] = line
    return list(lines.values())


class _Feed:
    """One taker of leaves, and those it has not got yet."""

    __slots__ = ("callback", "first", "waiting")

    def __init__(self, callback: Leaves, first: int) -> None:
        self.callback = callback
        self.first = first
        self.waiting: list[bytes] = []


class LeafFeed:
    """Hands durable leaves on, outside of the writer."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._feeds: list[_Feed] = []

    def add(self, callback: Leaves, size: Callable[[], int]) -> int:
        """Register a taker; return the index of the first leaf it will get: the log's `size`."""
        with self._gate:
            feed = _Feed(callback, size())
            self._feeds.append(feed)
            return feed.first

    def put(self, leaves: bytes, also: Callable[[], None]) -> None:
        """Take the leaves of a batch; `also` makes the batch visible, in the same moment."""
        with self._gate:
            also()
            for feed in self._feeds:
                feed.waiting.append(leaves)

    def deliver(self) -> None:
        """Hand on what waits. A taker that raises is left out from then on: it has a hole."""
        for feed in list(self._feeds):
            with self._gate:
                leaves, feed.waiting = b"".join(feed.waiting), []
                first, feed.first = feed.first, feed.first + len(leaves) // 32
            if not leaves:
                continue
            try:
                feed.callback(first, leaves)
            except Exception as error:
                _LOGGER.warning("a taker of leaves failed and gets no more: %s", reason(error))
                with self._gate:
                    self._feeds.remove(feed)
