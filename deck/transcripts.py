"""What a role's terminal showed, as text, in `.choragos/logs/<role>.log`.

Owns these files. Each run of a process has one section; it is written anew while the process runs
and once more, with all its history, when it has ended, so a crash of the deck loses at most the
last seconds (contracts/deck.md section 1.6: 15 s). Invariants: the files are private (0600), no
link is followed and no pipe waited for, what an earlier run left is never touched, and no role
writes into a log of the deck's own. `deck.endings` writes ends and what goes on.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from deck import briefs
from deck.events import EVENTS_NAME

#: How often a running role's section is written anew, in seconds.
FLUSH_SECONDS: Final = 15.0
#: Of a running process: unpacking all of a long history would hold up the loop.
RUNNING_ROWS: Final = 500
#: The deck's own logs; a role may bear such a name.
CORE_LOGS: Final = (EVENTS_NAME, f"{EVENTS_NAME}.1", "server.log", "crash.log")


def file_name(role: str) -> str:
    """Return the name of a role's log."""
    name = f"{briefs.safe_name(role)}.log"
    return f"role-{name}" if name.lower() in CORE_LOGS else name


@dataclass(slots=True)
class Transcript:
    """The log of one role. Not for two threads at once."""

    directory: Path
    role: str
    #: Where the section of the present process begins; -1 before it is written.
    _begin: int = -1

    def write(self, rows: list[str], heading: str, *, ended: bool) -> None:
        """Write the section of the present process; with `ended` the next one gets its own.

        Blocks. Raises OSError.
        """
        stamp = datetime.now().astimezone().isoformat(timespec="seconds")
        text = "\n".join((f"=== {self.role} {heading} {stamp}", *rows, ""))
        path = self.directory / file_name(self.role)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "it is no regular file", str(path))
            size = found.st_size
            # Somebody may have emptied it meanwhile.
            begin = size if self._begin < 0 else min(self._begin, size)
            file.seek(begin)
            file.write(text.encode("utf-8", "replace"))
            file.truncate()
        self._begin = -1 if ended else begin
