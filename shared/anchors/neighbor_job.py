"""Looking at the other ledgers of this machine, and being seen by them.

Owns the one observer of a ledger and its announcement. Invariants: an observer is used by one
thread at a time; a sighting is settled only once its record is durable; the announcement stays
when the ledger is closed, since a log that is closed can be rolled back like any other. Blocking;
run by `schedule`.
"""

from __future__ import annotations

import contextlib
import os
import threading
from functools import partial
from pathlib import Path

from shared.anchors.errors import AnchorError
from shared.anchors.files import published_head
from shared.anchors.job import Channel, Say, record_anchor
from shared.anchors.neighbors import Announcement, Observer, anchor_records, announce, announced
from shared.ledger import Ledger


class NeighborJob:
    def __init__(self, ledger: Ledger, place: Path, period: float, say: Say) -> None:
        self.channel = Channel("neighbor", "ledgers of this machine")
        self.period = self.first_pause = period
        self._ledger = ledger
        self._place = place
        self._say = say
        self._observer: Observer | None = None
        self._announced = ""
        self._ended = False
        #: An observer is for one thread at a time.
        self._turn = threading.Lock()

    def step(self) -> int | None:
        with self._turn:
            self._look()
        return None

    def last_look(self, seconds: float) -> None:
        """Record all heads that moved."""
        if not self._turn.acquire(timeout=seconds):
            raise AnchorError("An earlier look has not ended.")
        try:
            self._look(last=True)
        finally:
            self._turn.release()

    def last_head(self, seconds: float) -> None:
        """Say with which head the ledger was closed, for a neighbor that is not there now."""
        del seconds
        self._announce(0, published_head(self._ledger.directory).note)

    def _look(self, *, last: bool = False) -> None:
        if self._ledger.vkey != self._announced and not self._ended:
            self._announce(os.getpid())
        if self._observer is None:
            known = partial(anchor_records, self._ledger.directory)
            self._observer = Observer(self._place, self._ledger.origin, known)
        alarm = self.channel.alarm
        for sighting in self._observer.look(last=last):
            record_anchor(self._ledger, sighting.ext)
            self._observer.settle(sighting)
            if sighting.alarm:
                alarm = sighting.sentence
                self._say(f"warning: {sighting.sentence}")
        self.channel.alarm = alarm
        self.channel.size = len(self._observer.pins)

    def _announce(self, pid: int, note: str = "") -> None:
        ledger = self._ledger
        directory = str(ledger.directory.absolute())
        if not note:  # what it was closed with stays true
            before = (one.note for one in announced(self._place) if one.origin == ledger.origin)
            note = next(before, "")
        announce(self._place, Announcement(ledger.origin, directory, ledger.vkey, pid, note))
        self._announced = ledger.vkey

    def end(self) -> None:
        # The announcement stays: a log that is closed can be rolled back like any other.
        self._ended = True
        with contextlib.suppress(OSError):
            self._announce(0)
