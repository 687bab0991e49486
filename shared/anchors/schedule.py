"""When anchors are made: one task beside an open ledger, for the gateway and the deck alike.

Owns the running of the jobs, their retries and the status that people see. Invariants: the loop of
the program never waits for a network, a disk or a program, because each step runs in a thread of
its own that nothing waits for at the end, but for the last heads, and for these a bounded time; one
way out that hangs does not hold up another; a record is written only for what a reader of the
ledger needs, never for each success, so that anchoring an idle ledger does not make it grow.
Called by the gateway and by the deck.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from shared.anchors.config import AnchorConfig
from shared.anchors.errors import Alarm, AnchorError
from shared.anchors.head_jobs import CopyJob, WitnessJob
from shared.anchors.job import Channel, Job, Say
from shared.anchors.neighbor_job import NeighborJob
from shared.anchors.programs import end_programs
from shared.anchors.stamp_jobs import stamp_jobs
from shared.ledger import Ledger, LedgerError
from shared.ledger.storage import reason

T = TypeVar("T")

#: Longest pause after failures, in seconds.
MAX_PAUSE: Final = 600.0
#: Seconds that the end of a program waits for the last look at the neighbors, before its own last
#: record, and for the last head to be copied out, behind it. Together well below the 5 s that a
#: deck gives its gateway from SIGTERM to SIGKILL.
LAST_LOOK_SECONDS: Final = 1.0
LAST_HEAD_SECONDS: Final = 2.0


@dataclass(slots=True)
class AnchorStatus:
    """How all ways out fare."""

    channels: list[Channel] = field(default_factory=list)
    #: What was at work, for the last heads.
    jobs: tuple[Job, ...] = field(default=(), repr=False)

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
    jobs = _jobs(ledger, config, say)
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
    jobs = [job for job in status.jobs if isinstance(job, NeighborJob)]
    await _in_time([(job.channel, partial(job.last_look, seconds)) for job in jobs], say, seconds)


async def send_last_heads(
    status: AnchorStatus, say: Say, seconds: float = LAST_HEAD_SECONDS
) -> None:
    """Copy out the last head, and announce it to the neighbors: for after the ledger was closed.
    Takes at most about `seconds`, whatever hangs, and never raises."""
    jobs = [job for job in status.jobs if isinstance(job, NeighborJob | CopyJob)]
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


async def _keep(job: Job, say: Say) -> None:
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


def _pause(job: Job, failures: int) -> float:
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


def _jobs(ledger: Ledger, config: AnchorConfig, say: Say) -> list[Job]:
    jobs: list[Job] = [WitnessJob(ledger, one, config.head_seconds) for one in config.witnesses]
    jobs += [CopyJob(ledger, copy, config.head_seconds) for copy in config.copies]
    jobs += stamp_jobs(ledger, config, say)
    if config.neighbors is not None:
        jobs.append(NeighborJob(ledger, config.neighbors, config.look_seconds, say))
    return jobs
