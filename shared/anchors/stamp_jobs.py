"""Stamping heads with the time: by an RFC 3161 authority, and by OpenTimestamps calendars.

Owns when a stamp is due (at the first look, after each seal, and every `stamp_seconds`) and the
asking for the rest of pending proofs. Invariants: a head gets at most one stamp of each kind; one
proof that cannot be completed does not hold up the others; a kill between a complete proof and
its record is mended by asking again. Blocking; run by `schedule`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shared.anchors.config import AnchorConfig
from shared.anchors.errors import AnchorError
from shared.anchors.files import (
    OPEN_TIME_STAMP,
    TIME_STAMP,
    Head,
    anchor_path,
    published_head,
    sizes_with,
)
from shared.anchors.job import Channel, Job, Say, record_anchor
from shared.anchors.neighbors import anchor_records
from shared.ledger import Ledger, LedgerError
from shared.ledger.segment import SEGMENTS, first_of, list_segments
from shared.ledger.storage import reason

if TYPE_CHECKING:
    from shared.anchors.tsa import Authority

#: First pause after a failed stamp.
STAMP_PAUSE: Final = 30.0
#: Proofs asked for at a time: a day's, at one an hour.
UPGRADES: Final = 24
#: Days after which a proof that is still pending is told: something is wrong with its calendars or
#: with the program, whose exit status does not tell them apart.
PENDING_DAYS: Final = 7


def stamp_jobs(ledger: Ledger, config: AnchorConfig, say: Say) -> list[Job]:
    """Return the jobs that `config` asks for; `say` is told of one that cannot be done here."""
    jobs: list[Job] = []
    if config.authority is not None:
        name = config.authority.name
        stamp = partial(_stamp, ledger, config.authority)
        jobs.append(StampJob(ledger, Channel("rfc3161", name), TIME_STAMP, stamp, config))
    if config.ots:
        jobs += _ots_jobs(ledger, config, say)
    return jobs


def _stamp(ledger: Ledger, authority: Authority, head: Head) -> dict[str, object]:
    from shared.anchors.tsa import stamp_head

    return stamp_head(ledger.directory, head, authority).ext()


def _ots_jobs(ledger: Ledger, config: AnchorConfig, say: Say) -> list[Job]:
    from shared.anchors.ots import find_program, stamp_head, upgrade_proof

    program = find_program()
    if program is None:
        say("warning: ots is on, but the program ots is not installed: no OpenTimestamps.")
        return []
    place, calendars = ledger.directory, config.calendars

    def stamp(head: Head) -> dict[str, object]:
        return stamp_head(place, head, program, calendars)

    def upgrade(size: int) -> dict[str, object] | None:
        return upgrade_proof(place, size, program, calendars)

    return [
        StampJob(ledger, Channel("ots", "calendars"), OPEN_TIME_STAMP, stamp, config),
        UpgradeJob(ledger, upgrade, config.upgrade_seconds),
    ]


class StampJob:
    """A stamp at the first look, after each seal, and every `stamp_seconds`."""

    def __init__(
        self,
        ledger: Ledger,
        channel: Channel,
        suffix: str,
        stamp: Callable[[Head], dict[str, object]],
        config: AnchorConfig,
    ) -> None:
        self.channel = channel
        self.period = config.look_seconds
        self.first_pause = max(STAMP_PAUSE, self.period) if self.period >= 1 else self.period
        self._ledger = ledger
        self._suffix = suffix
        self._stamp = stamp
        self._every = config.stamp_seconds
        self._seals = -1
        self._next = 0.0

    def step(self) -> int | None:
        seals = _count_seals(self._ledger.directory)
        if self._seals < 0:
            self._seals, self._next = seals, self._last() + self._every
        if time.time() < self._next and seals == self._seals:
            return None
        head = published_head(self._ledger.directory)
        if not anchor_path(self._ledger.directory, head.size, self._suffix).exists():
            record_anchor(self._ledger, self._stamp(head))
        self._seals, self._next = seals, time.time() + self._every
        return head.size

    def _last(self) -> float:
        """Return when the newest stamp that there is was made, in Unix seconds, or 0."""
        directory = self._ledger.directory
        sizes = sorted(sizes_with(directory, self._suffix))
        if not sizes:
            return 0.0
        return anchor_path(directory, sizes[-1], self._suffix).stat().st_mtime

    def end(self) -> None:
        pass


def _count_seals(directory: Path) -> int:
    return sum(path.suffix == ".seal" for path in (directory / SEGMENTS).iterdir())


class UpgradeJob:
    """Asks for the rest of pending proofs, at the start and every `period`.

    What is complete is what a record says so of, so a kill between the proof and its record is
    mended by asking again: a complete proof stays as it is.
    """

    def __init__(
        self,
        ledger: Ledger,
        upgrade: Callable[[int], dict[str, object] | None],
        period: float,
    ) -> None:
        self.channel = Channel("ots", "upgrades")
        self.period = self.first_pause = period
        self._ledger = ledger
        self._upgrade = upgrade
        #: Sizes whose proof needs nothing any more; None until the records were read.
        self._done: set[int] | None = None
        #: How often each was asked for: those of a calendar that is gone let others go first.
        self._asked: dict[int, int] = {}
        self._ended = False

    def step(self) -> int | None:
        there = set(sizes_with(self._ledger.directory, OPEN_TIME_STAMP))
        if not there:
            return None
        if self._done is None:
            self._done = self._settled(there)
        pending = sorted(there - self._done, key=lambda size: (self._asked.get(size, 0), size))
        newest, trouble = 0, ""
        for size in pending[:UPGRADES]:
            if self._ended:
                break
            self._asked[size] = self._asked.get(size, 0) + 1
            try:
                ext, why = self._upgrade(size), self._late(size)
            except (AnchorError, LedgerError, OSError) as error:
                ext, why = None, reason(error) if isinstance(error, OSError) else str(error)
            if ext is not None:
                record_anchor(self._ledger, ext)
                self._done.add(size)
                newest = max(newest, size)
            elif why:
                trouble = trouble or f"The proof of {size} records is not complete: {why}"
        if trouble and not self._ended:
            raise AnchorError(trouble)
        return newest or None

    def _late(self, size: int) -> str:
        """Say so when a proof has been pending for too long."""
        path = anchor_path(self._ledger.directory, size, OPEN_TIME_STAMP)
        if time.time() - path.stat().st_mtime < PENDING_DAYS * 86_400:
            return ""
        return f"It is pending after {PENDING_DAYS} days; see what `ots upgrade` says of {path}."

    def _settled(self, there: set[int]) -> set[int]:
        """Return the sizes that a record says are complete, or of which all records were pruned."""
        directory = self._ledger.directory
        pending, complete = set[int](), set[int]()
        for record in anchor_records(directory):
            ext = record.get("ext")
            if isinstance(ext, dict) and ext.get("kind") == "ots" and type(ext.get("size")) is int:
                (complete if ext.get("state") == "complete" else pending).add(ext["size"])
        begin = first_of(list_segments(directory)[0]) or 0
        return complete | {size for size in there if size < begin and size not in pending}

    def end(self) -> None:
        self._ended = True
