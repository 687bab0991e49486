"""The system's processes: what the kernel says of each, and a signal to exactly one of them.

Owns the reading of `/proc`. Invariant: a process is its pid and its start time together, so a
process that got a reused pid is never taken for another and never signalled. Where there is no
`/proc` the table is empty. Reading the whole of it blocks for milliseconds: in a thread. Called by
`tree` and `process`, and by `deck.processes` for what the session asks.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProcessRef:
    """A process, unmistakably: its pid and its start time in kernel ticks."""

    pid: int
    started: int
    name: str
    session: int
    parent: int
    state: str

    @property
    def is_dead(self) -> bool:
        """Whether it has ended and only its row is left."""
        return self.state in ("Z", "X")


def read_process(pid: int) -> ProcessRef | None:
    """One row of the process table, or None if there is no such process. Linux."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            line = file.read()
    except OSError:
        return None
    opening, closing = line.find(b"("), line.rfind(b")")
    rest = line[closing + 2 :].split()
    name = line[opening + 1 : closing].decode("utf-8", "replace")
    return ProcessRef(
        pid, int(rest[19]), name, int(rest[3]), int(rest[1]), rest[0].decode("ascii", "replace")
    )


def process_table() -> dict[int, ProcessRef]:
    """Every process one may see. Blocking for a few milliseconds: run it in a thread."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return {}
    return {pid: ref for pid in pids if (ref := read_process(pid)) is not None}


def read_variable(pid: int, name: str) -> str:
    """Return a variable of the environment that a process was started with.

    "" when it is not set, or not for us to read.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            data = file.read()
    except OSError:
        return ""
    key = f"{name}=".encode()
    start = 0 if data.startswith(key) else data.find(b"\0" + key) + 1
    if not data.startswith(key, start):
        return ""
    return data[start + len(key) :].split(b"\0", 1)[0].decode("utf-8", "replace")


def send_signal(ref: ProcessRef, number: int) -> None:
    """Send a signal to exactly this process, never to a later one with the same pid."""
    try:
        fd = os.pidfd_open(ref.pid)
    except (OSError, AttributeError):
        return
    try:
        now = read_process(ref.pid)
        if now is not None and now.started == ref.started:
            signal.pidfd_send_signal(fd, number)
    except OSError:
        pass
    finally:
        os.close(fd)


def still_there(refs: Iterable[ProcessRef]) -> list[ProcessRef]:
    """Return those of `refs` that have not ended."""
    return [
        ref
        for ref in refs
        if (now := read_process(ref.pid)) is not None
        and now.started == ref.started
        and not now.is_dead
    ]
