"""Space on the disk of a log: the reserve, the low-water mark, and when there is room again.

Invariant: the reserve is real space, so a log that finds its disk full can still write what
closes its open work (outcomes, `gap`, `stop`). It is given up when there is no other room and
taken back before the log accepts requests again. Called by `log`, by the writer thread only (the
mark also by the head thread).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from shared.ledger.record import MAX_LINE
from shared.ledger.storage import Disk, is_full

#: What the gateway and the deck keep aside (contracts/ledger.md section 2.5).
RESERVE_BYTES: Final = 64 << 20
RESERVE: Final = "reserve"
#: Less than this above the mark is no reason to go on: the longest record and its checkpoint.
ROOM_BYTES: Final = MAX_LINE + 4096
#: How often a log whose disk is low looks for space, in seconds.
LOOK_SECONDS: Final = 1.0


class NoSpace(Exception):
    """A step failed only because the disk is full, and left everything as it was before."""


@contextlib.contextmanager
def full_disk_is_no_failure() -> Iterator[None]:
    """Turn an error that only says that the disk is full into NoSpace."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise NoSpace from error
        raise


class Space:
    """The reserve and the mark of one log."""

    def __init__(self, directory: Path, disk: Disk, reserve_bytes: int, low_water: int) -> None:
        """Both sizes are bytes; 0 means none."""
        self._directory = directory
        self._path = directory / RESERVE
        self._disk = disk
        self._reserve = reserve_bytes
        self._low_water = low_water

    def is_low(self) -> bool:
        """Tell whether the free space is below the mark."""
        return self._low_water > 0 and self._free() < self._low_water

    def is_roomy(self) -> bool:
        """Tell whether there is space for the reserve and for going on above the mark."""
        return self._free() >= self._low_water + ROOM_BYTES + self._missing()

    def is_only_reserve(self) -> bool:
        """Tell whether the reserve takes all the space that there is."""
        return self._reserve > 0 and self._free() < ROOM_BYTES

    def make_room(self) -> None:
        """Give up the reserve if there is no room for a single record: a start owes some. Raises
        OSError."""
        if self._missing() == 0 and self._free() < ROOM_BYTES:
            self.give_up_reserve()

    def keep_reserve(self) -> None:
        """Have the reserve on the disk. Raises NoSpace or OSError."""
        if self._missing() == 0:
            return
        with full_disk_is_no_failure():
            self._clear()
            try:
                fd = self._disk.create(self._path, 0o600)
                try:
                    self._disk.allocate(fd, self._reserve)
                finally:
                    os.close(fd)
                self._disk.sync_directory(self._directory)
            except OSError:
                with contextlib.suppress(OSError):
                    self._clear()
                raise

    def give_up_reserve(self) -> None:
        """Free the reserve's space. Raises OSError."""
        self._clear()

    def _clear(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._disk.unlink(self._path)

    def _missing(self) -> int:
        if self._reserve == 0:
            return 0
        try:
            return 0 if self._path.stat().st_size == self._reserve else self._reserve
        except OSError:
            return self._reserve

    def _free(self) -> int:
        return self._disk.free_bytes(self._directory)
