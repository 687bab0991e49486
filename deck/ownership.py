"""Owned files: what they held when a task was delivered, and which of them hold something else now.

Owns the comparison behind `owns_files` (contracts/deck.md section 1.10). Invariants: paths are
literal; a file that is not there is a value like any other; what cannot be read, or leads out of
the place that is compared, is never known to be the same; no link out of the place is followed,
and nothing but a regular file is opened. Blocking: `deck.review` calls it in a thread.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final

from deck.board import State, Task
from deck.entries import TaskState

ABSENT: Final = "absent"
#: Two of these are not known to be equal.
UNREADABLE: Final = "unreadable"

_CHUNK: Final = 1 << 20
#: What is larger is not read: a file without content can have any size, and would keep a thread
#: for years. A second or so for each look.
MAX_BYTES: Final = 512 << 20


@dataclass(frozen=True, slots=True)
class Taken:
    """What owned files held at a time (microseconds UTC): path to hash, ABSENT or UNREADABLE."""

    at: int
    files: Mapping[str, str]

    def as_text(self) -> str:
        """Return it for the text store; `parse` takes it."""
        return json.dumps({"at": self.at, "files": dict(self.files)}, sort_keys=True)


class Verdict(Enum):
    """What changed files of others amount to."""

    CLEAN = auto()
    #: Their owner was at work too, so nobody can tell whose change it was.
    SHARED = auto()
    VIOLATION = auto()


def parse(text: str | None) -> Taken | None:
    """Return what `as_text` wrote; None for a text that is gone or is something else."""
    try:
        found = json.loads(text or "")
        return Taken(int(found["at"]), {str(k): str(v) for k, v in found["files"].items()})
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def take(place: Path, paths: Iterable[str]) -> dict[str, str]:
    """Return what each path below `place` holds now. Blocks; never raises for a file."""
    try:
        root = os.path.realpath(place, strict=True)
    except OSError:
        return dict.fromkeys(paths, UNREADABLE)
    return {path: _value(root, path) for path in paths}


def changed(before: Taken | None, now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths that do not surely hold what they held; all of them without a `before`."""
    known = before.files if before is not None else {}
    return tuple(
        path
        for path, value in now.items()
        if value == UNREADABLE or known.get(path, UNREADABLE) != value
    )


def verdict(state: State, task: Task, since: int, until: int, owners: Iterable[str]) -> Verdict:
    """Return what it means that files of these owners changed while `task` was at work, between
    two times (microseconds UTC): whether each owner had a task of its own in that time."""
    names = set(owners)
    if not names:
        return Verdict.CLEAN
    at_work = {
        other.role
        for other in state.tasks.values()
        if other.id != task.id and _was_at_work(state, other, since, until)
    }
    return Verdict.SHARED if names <= at_work else Verdict.VIOLATION


def _was_at_work(state: State, task: Task, since: int, until: int) -> bool:
    # One that ran out of time is not believed to be at work any more.
    if task.state is TaskState.TIMED_OUT or not task.delivered_at:
        return False
    ended = task.closed_at
    if task.state is TaskState.IN_REVIEW:
        # Its role was done when it reported, however long a person then thinks about it.
        reported = [report.at for report in state.reports.values() if report.task == task.id]
        ended = max(reported, default=0)
    return task.delivered_at <= until and (not ended or ended >= since)


def _value(root: str, path: str) -> str:
    name = os.path.join(root, path)
    try:
        # Absent only where nothing at all has the name: a link to nothing is something.
        link = os.readlink(name) if stat.S_ISLNK(os.lstat(name).st_mode) else ""
        found = os.path.realpath(name, strict=True)
    except FileNotFoundError:
        return UNREADABLE if os.path.lexists(name) else ABSENT
    except (OSError, ValueError):
        return UNREADABLE
    if os.path.commonpath([root, found]) != root:
        return UNREADABLE
    digest = file_hash(found)
    return f"{digest} by link {link}" if link and digest != UNREADABLE else digest


def file_hash(path: str) -> str:
    """Return the SHA-256 of a regular file in hexadecimal, ABSENT or UNREADABLE. Blocks."""
    # Without O_NONBLOCK a pipe in a file's place would hold the deck up.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
                return UNREADABLE
            hashed, left = hashlib.sha256(), MAX_BYTES
            while chunk := file.read(_CHUNK):
                hashed.update(chunk)
                left -= len(chunk)
                if left < 0:
                    # It grows faster than it is read.
                    return UNREADABLE
    except FileNotFoundError:
        return ABSENT
    except (OSError, ValueError):
        return UNREADABLE
    return hashed.hexdigest()
