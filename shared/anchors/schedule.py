"""When anchors are made: one task beside an open ledger, for the gateway and the deck alike.

Owns the periods, the retries and the status that people see. Invariants: the loop of the program
never waits for a network, a disk or a program, because each step runs in a thread of its own that
nothing waits for at the end, but for the last heads, and for these a bounded time; one way out
that hangs does not hold up another; a record is written only for what a reader of the ledger
needs, never for each success, so that anchoring an idle ledger does not make it grow.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from shared.anchors.errors import Alarm, AnchorError
from shared.anchors.files import (
    OPEN_TIME_STAMP,
    TIME_STAMP,
    Head,
    anchor_path,
    keep_checkpoint,
    published_head,
    sizes_with,
    thin_out,
)
from shared.anchors.neighbors import (
    Announcement,
    Observer,
    anchor_records,
    announce,
    announced,
)
from shared.anchors.programs import end_programs
from shared.ledger import Ledger, LedgerError, RecordType
from shared.ledger.segment import SEGMENTS, first_of, list_segments
from shared.ledger.storage import reason

if TYPE_CHECKING:
    from shared.anchors.client import WitnessTarget
    from shared.anchors.copies import Copy
    from shared.anchors.tsa import Authority

T = TypeVar("T")
Say = Callable[[str], None]

#: Seconds between two heads of a growing log that go to witnesses and copies. HEAD itself follows
#: every second; ten of them in one are as good against a rollback and ten times cheaper.
HEAD_SECONDS: Final = 10.0
#: Seconds between two time stamps (contracts/ledger.md section 2.8).
STAMP_SECONDS: Final = 3600.0
#: Seconds between two times that calendars are asked for the rest of pending proofs: a block comes
#: every ten minutes, a calendar's own transaction every few hours.
UPGRADE_SECONDS: Final = 3600.0
#: Proofs asked for at a time: a day's, at one an hour.
UPGRADES: Final = 24
#: Days after which a proof that is still pending is told: something is wrong with its calendars or
#: with the program, whose exit status does not tell them apart.
PENDING_DAYS: Final = 7
#: Seconds between two looks at the neighbors, and at whether a stamp is due.
LOOK_SECONDS: Final = 5.0
#: Longest pause after failures, in seconds.
MAX_PAUSE: Final = 600.0
#: First pause after a failed stamp.
STAMP_PAUSE: Final = 30.0
#: Seconds that our own writer gets for an `anchor` record.
RECORD_TIMEOUT: Final = 30.0
#: Seconds that the end of a program waits for the last look at the neighbors, before its own last
#: record, and for the last head to be copied out, behind it. Together well below the 5 s that a
#: deck gives its gateway from SIGTERM to SIGKILL.
LAST_LOOK_SECONDS: Final = 1.0
LAST_HEAD_SECONDS: Final = 2.0
#: How many cosignatures between two looks for files that are no longer needed.
THIN_EVERY: Final = 64


@dataclass(frozen=True, slots=True)
class AnchorConfig:
    """What is wanted; everything is off by default. Times in seconds."""

    witnesses: tuple[WitnessTarget, ...] = ()
    authority: Authority | None = None
    ots: bool = False
    calendars: tuple[str, ...] = ()
    copies: tuple[Copy, ...] = ()
    #: The directory where the ledgers of this machine announce themselves.
    neighbors: Path | None = None
    head_seconds: float = HEAD_SECONDS
    stamp_seconds: float = STAMP_SECONDS
    upgrade_seconds: float = UPGRADE_SECONDS
    look_seconds: float = LOOK_SECONDS


@dataclass(slots=True)
class Channel:
    """One way out and how it fares. Written by its own job, read by anyone."""

    kind: str
    name: str
    size: int = 0
    at: int = 0
    failures: int = 0
    trouble: str = ""
    alarm: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return what the console shows: `at` is Unix seconds of the last success."""
        return {
            "kind": self.kind,
            "name": self.name,
            "size": self.size,
            "at": self.at,
            "failures": self.failures,
            "trouble": self.trouble,
            "alarm": self.alarm,
        }


@dataclass(slots=True)
class AnchorStatus:
    """How all ways out fare."""

    channels: list[Channel] = field(default_factory=list)
    #: What was at work, for the last heads.
    jobs: tuple[_Job, ...] = field(default=(), repr=False)

    def snapshot(self) -> list[dict[str, Any]]:
        """Return one object per way out."""
        return [channel.as_json() for channel in self.channels]

    def alarm(self) -> str | None:
        """Return the sentence of a history that somebody outside contradicts, or None.

        What befell a neighbor is that neighbor's trouble, and only shown.
        """
        for channel in self.channels:
            if channel.alarm and channel.kind != "neighbor":
                return channel.alarm
        return None


async def run_anchors(ledger: Ledger, config: AnchorConfig, status: AnchorStatus, say: Say) -> None:
    """Anchor `ledger` as `config` says until cancelled; `say` gets a line for every change from
    good to bad and back. Never raises but for the cancellation."""
    jobs = [job for job in _jobs(ledger, config, say) if job is not None]
    status.channels[:] = [job.channel for job in jobs]
    status.jobs = tuple(jobs)
    try:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(_keep(job, say))
    finally:
        for job in jobs:
            job.end()


async def look_once_more(
    status: AnchorStatus, say: Say, seconds: float = LAST_LOOK_SECONDS
) -> None:
    """Record the newest heads of the neighbors, before the ledger's own last record; for after
    `run_anchors`. Takes at most about `seconds` and never raises."""
    jobs = [job for job in status.jobs if isinstance(job, _NeighborJob)]
    await _in_time([(job.channel, partial(job.last_look, seconds)) for job in jobs], say, seconds)


async def send_last_heads(
    status: AnchorStatus, say: Say, seconds: float = LAST_HEAD_SECONDS
) -> None:
    """Copy out the last head, and announce it to the neighbors: for after the ledger was closed.
    Takes at most about `seconds`, whatever hangs, and never raises."""
    jobs = [job for job in status.jobs if isinstance(job, _NeighborJob | _CopyJob)]
    await _in_time([(job.channel, partial(job.last_head, seconds)) for job in jobs], say, seconds)
    end_programs()


async def _in_time(
    work: Sequence[tuple[Channel, Callable[[], None]]], say: Say, seconds: float
) -> None:
    """Do all of it side by side; say what failed, or did not come to its end in time."""
    if not work:
        return
    tasks = [asyncio.ensure_future(_in_thread(one)) for _, one in work]
    # What ends by itself when its time is over gets the moment that this takes.
    await asyncio.wait(tasks, timeout=seconds + 0.25)
    for (channel, _), task in zip(work, tasks, strict=True):
        error = task.exception() if task.done() else None
        if isinstance(error, AnchorError | LedgerError):
            trouble = str(error)
        elif error is not None:
            trouble = f"It failed ({type(error).__name__})."
        else:
            trouble = "" if task.done() else f"It did not end within {seconds:g} seconds."
        task.cancel()
        if trouble:
            say(f"warning: {channel.kind} {channel.name}: the last head: {trouble}")


class _Job(Protocol):
    """One way out: `step` does what is due, blocking, and returns the size it brought out, or
    None when nothing was due."""

    channel: Channel
    period: float
    first_pause: float

    def step(self) -> int | None: ...

    def end(self) -> None: ...


async def _keep(job: _Job, say: Say) -> None:
    channel = job.channel
    while True:
        trouble = ""
        try:
            size = await _in_thread(job.step)
            if size is not None:
                channel.size, channel.at, channel.alarm = size, int(time.time()), ""
        except Alarm as alarm:
            trouble = str(alarm)
        except (AnchorError, LedgerError) as error:
            trouble = str(error)
        except OSError as error:
            trouble = f"A file or socket failed ({reason(error)})."
        except Exception as error:
            trouble = f"An error of this program ({type(error).__name__}); please report it."
        _tell(channel, trouble, say)
        channel.failures = channel.failures + 1 if trouble else 0
        channel.trouble = trouble
        await asyncio.sleep(_pause(job, channel.failures))


def _tell(channel: Channel, trouble: str, say: Say) -> None:
    if trouble and not channel.failures:
        say(f"warning: {channel.kind} {channel.name}: {trouble}")
    elif channel.failures and not trouble:
        say(f"{channel.kind} {channel.name}: works again")


def _pause(job: _Job, failures: int) -> float:
    if not failures:
        return job.period
    grown: float = job.first_pause * 2 ** min(failures - 1, 20)
    return min(grown, max(MAX_PAUSE, job.first_pause))


async def _in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread that the end of the program does not wait for, unlike asyncio's."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[T] = loop.create_future()

    def settle(set_it: Callable[[], None]) -> None:
        if not waiter.done():
            set_it()

    def run() -> None:
        try:
            outcome = partial(waiter.set_result, work())
        except BaseException as error:
            outcome = partial(waiter.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, name="anchor", daemon=True).start()
    return await waiter


def _jobs(ledger: Ledger, config: AnchorConfig, say: Say) -> Sequence[_Job | None]:
    jobs: list[_Job | None] = [
        _WitnessJob(ledger, target, config.head_seconds) for target in config.witnesses
    ]
    jobs += [_CopyJob(ledger, copy, config.head_seconds) for copy in config.copies]
    if config.authority is not None:
        name = config.authority.name
        stamp = partial(_stamp, ledger, config.authority)
        jobs.append(_StampJob(ledger, Channel("rfc3161", name), TIME_STAMP, stamp, config))
    if config.ots:
        jobs += _ots_jobs(ledger, config, say)
    if config.neighbors is not None:
        jobs.append(_NeighborJob(ledger, config.neighbors, config.look_seconds, say))
    return jobs


def _record(ledger: Ledger, ext: dict[str, object]) -> None:
    """Write an `anchor` record and wait until it is durable. Raises LedgerError, AnchorError."""
    try:
        ledger.append(RecordType.ANCHOR, {"ext": ext}).result(RECORD_TIMEOUT)
    except TimeoutError:
        raise AnchorError("The ledger's writer is busy; trying again.") from None


class _WitnessJob:
    def __init__(self, ledger: Ledger, target: WitnessTarget, period: float) -> None:
        from shared.anchors.client import WitnessClient

        self.channel = Channel("witness", target.name)
        self.period = self.first_pause = period
        self._ledger = ledger
        self._client = WitnessClient(target, ledger.directory)
        self._count = 0

    def step(self) -> int | None:
        # The published head, not the newest checkpoint: HEAD then carries the cosignature.
        newest = partial(published_head, self._ledger.directory)
        if newest().size == self.channel.size:
            return None
        try:
            cosigned = self._client.submit(newest)
        except Alarm as alarm:
            self._raise_alarm(alarm)
            raise
        size = cosigned.head.size
        keep_checkpoint(self._ledger.directory, cosigned.head)
        self._ledger.add_cosignatures(size, [cosigned.cosignature.line])
        if not self._count:
            # Once a run: who witnesses this log. Each cosignature is in its own file.
            when = {"time": cosigned.cosignature.time}
            _record(self._ledger, self._ext() | cosigned.head.ext() | when)
        self._count += 1
        if self._count % THIN_EVERY == 0:
            thin_out(self._ledger.directory)
        return size

    def _raise_alarm(self, alarm: Alarm) -> None:
        known, self.channel.alarm = self.channel.alarm, str(alarm)
        if not known:
            head = published_head(self._ledger.directory)
            with contextlib.suppress(LedgerError, AnchorError):
                _record(self._ledger, self._ext() | head.ext() | {"alarm": alarm.code})

    def _ext(self) -> dict[str, object]:
        target = self._client.target
        return {"kind": "witness", "name": target.name, "vkey": target.key.vkey()}

    def end(self) -> None:
        pass


class _CopyJob:
    def __init__(self, ledger: Ledger, copy: Copy, period: float) -> None:
        self.channel = Channel("copy", copy.name)
        self.period = self.first_pause = period
        self._ledger = ledger
        self._copy = copy
        #: One at a time, so that an older head never comes after a newer one.
        self._turn = threading.Lock()
        self._sent = 0

    def step(self) -> int | None:
        with self._turn:
            head = published_head(self._ledger.directory)
            if head.size == self._sent:
                return None
            self._copy.send(head)
            self._sent = head.size
            return head.size

    def last_head(self, seconds: float) -> None:
        """Copy the head that the closed ledger has, unless it went out before."""
        until = time.monotonic() + seconds
        if not self._turn.acquire(timeout=seconds):
            raise AnchorError("The copy of an earlier head has not ended.")
        try:
            head = published_head(self._ledger.directory)
            if head.size != self._sent:
                self._copy.send(head, max(until - time.monotonic(), 0.1))
                self._sent = head.size
        finally:
            self._turn.release()

    def end(self) -> None:
        pass


class _StampJob:
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
            _record(self._ledger, self._stamp(head))
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


def _stamp(ledger: Ledger, authority: Authority, head: Head) -> dict[str, object]:
    from shared.anchors.tsa import stamp_head

    return stamp_head(ledger.directory, head, authority).ext()


def _ots_jobs(ledger: Ledger, config: AnchorConfig, say: Say) -> list[_Job | None]:
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
        _StampJob(ledger, Channel("ots", "calendars"), OPEN_TIME_STAMP, stamp, config),
        _UpgradeJob(ledger, upgrade, config.upgrade_seconds),
    ]


class _UpgradeJob:
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
                _record(self._ledger, ext)
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


class _NeighborJob:
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
            _record(self._ledger, sighting.ext)
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
