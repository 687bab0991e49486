"""Who is running: the pid file, and signals that can only reach the process that wrote it.

The file holds three lines: pid, the moment that process started, the address it listens on.
Invariant: a process is only ever signalled after its start moment was found equal to the one in
the file, through a handle that cannot come to mean another process, so a stale file with a
reused pid harms nobody. Called by `gateway.cli` and `gateway.app`.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Running:
    """The gateway process a pid file speaks of."""

    pid: int
    started: str
    address: str


def write(path: Path, address: str) -> None:
    """Record this process, replacing whatever the file held (0600)."""
    temporary = path.with_name(path.name + ".tmp")
    started = start_moment(os.getpid()) or "unknown"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{os.getpid()}\n{started}\n{address}\n")
    temporary.replace(path)


def remove(path: Path) -> None:
    """Remove the file if it still speaks of this process."""
    with contextlib.suppress(OSError, ValueError):
        if int(path.read_text().split("\n", 1)[0]) == os.getpid():
            path.unlink()


def read(path: Path) -> Running | None:
    """Return the gateway that is running, or None when the file is absent, unreadable or stale."""
    try:
        lines = path.read_text().splitlines()
        found = Running(int(lines[0]), lines[1], lines[2])
    except (OSError, ValueError, IndexError):
        return None
    if found.pid <= 0 or start_moment(found.pid) != found.started:
        return None
    return found


def terminate(running: Running, patience: float) -> bool:
    """Send SIGTERM and wait up to `patience` seconds; tell whether the process is gone."""
    if not hasattr(os, "pidfd_open"):
        return _terminate_by_pid(running, patience)
    try:
        handle = os.pidfd_open(running.pid)
    except ProcessLookupError:
        return True
    try:
        if start_moment(running.pid) != running.started:
            return True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        ready, _, _ = select.select([handle], [], [], patience)
        return bool(ready)
    finally:
        os.close(handle)


def _terminate_by_pid(running: Running, patience: float) -> bool:
    if start_moment(running.pid) != running.started:
        return True
    os.kill(running.pid, signal.SIGTERM)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if start_moment(running.pid) != running.started:
            return True
        time.sleep(0.05)
    return False


def start_moment(pid: int) -> str | None:
    """Return a text that no other process with this pid can have, or None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except ProcessLookupError:
        return None
    except OSError:
        return None if Path("/proc/self/stat").exists() else _started_by_ps(pid)
    # The command name may hold anything but ends with the last parenthesis; the start time is
    # field 22, the 20th after it (proc(5)). A zombie has ended as far as a user can tell.
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in {b"Z", b"X"}:
        return None
    return f"{boot}/{fields[19].decode()}"


def _started_by_ps(pid: int) -> str | None:
    found = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return " ".join(found.stdout.split()) or None
