"""The last screens of workers, kept where a crash of the deck cannot take them.

Owns `.choragos/screens`. While a role has a task in its hands, what its pane shows is copied there
when it has changed, at most once a second and off the loop, and before a stop ends the workers; so
a task that a kill -9 or a stop of the deck loses can be shown with the screen its worker had.
Invariants: files are private (0600), bounded, whole, and gone as soon as nothing is in flight. They
are not synced: they outlive the deck, not the machine. `deck.session` runs it, `deck.recall` reads
what is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deck import briefs
from deck.desk import Desk
from deck.entries import TaskState
from deck.moves import IN_FLIGHT
from deck.plain_files import read_own, replace_own
from deck.seats import Seat
from shared.paths import UnsafeDirectory, private_dir

LOOK_SECONDS: Final = 1.0
#: As many as of a worker whose process has ended.
SCREEN_ROWS: Final = 40
#: Tasks that end with their worker's process; one out of time may still be reported.
WITH_A_WORKER: Final = IN_FLIGHT | {TaskState.TIMED_OUT}
#: A screen of 40 rows of 120 cells has 5 KB; more than this is cut.
MAX_BYTES: Final = 64 * 1024


@dataclass(slots=True)
class Screens:
    """The copies of one session's screens."""

    desk: Desk
    #: When each role's copy was made, by the loop's clock.
    _kept: dict[str, float] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        """Where the copies are."""
        return self.desk.state_dir / "screens"

    async def keep_for_ever(self) -> None:
        """Keep the copies up to date; a disk that does not take them is tried again."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.keep_if_possible()

    async def keep_if_possible(self) -> None:
        """Bring the copies up to date, unless the disk does not take them."""
        with contextlib.suppress(OSError, UnsafeDirectory):
            await self.keep()

    async def keep(self) -> None:
        """Copy what has changed, drop what nobody needs. Raises OSError or UnsafeDirectory."""
        tasks = self.desk.state.tasks.values()
        at_work = {task.role for task in tasks if task.state in WITH_A_WORKER}
        changed: dict[str, str] = {}
        for seat in list(self.desk.seats.values()):
            if seat.name in at_work and seat.pane is not None and self._has_changed(seat):
                changed[file_name(seat.name)] = "\n".join(seat.pane.tail(SCREEN_ROWS))
                # Fifty busy panes in one go would hold up the loop for milliseconds.
                await asyncio.sleep(0)
        idle = [role for role in self._kept if role not in at_work]
        for role in idle:
            del self._kept[role]
        if changed or idle:
            gone = [file_name(role) for role in idle]
            await asyncio.to_thread(_store, self.directory, changed, gone)

    def _has_changed(self, seat: Seat) -> bool:
        """Tell whether a pane has changed since its copy, and count it as copied now."""
        now = asyncio.get_running_loop().time()
        copied = self._kept.get(seat.name)
        if not seat.alive or seat.pane is None:
            return False
        if copied is not None and seat.pane.idle_seconds > now - copied + LOOK_SECONDS:
            return False
        self._kept[seat.name] = now
        return True

    def left(self, role: str) -> str:
        """Return the screen that an earlier deck left of a role, "" when there is none. Blocks."""
        try:
            with _opened(self.directory) as directory:
                data = read_own(Path(file_name(role)), MAX_BYTES, dir_fd=directory)
        except OSError:
            return ""
        return data.decode("utf-8", "replace")

    def clear(self) -> None:
        """Remove every copy. Blocks."""
        with contextlib.suppress(OSError), _opened(self.directory) as directory:
            for name in os.listdir(directory):
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=directory)


def file_name(role: str) -> str:
    """Return the name of a role's copy; names that look alike as file names do not share one."""
    safe = briefs.safe_name(role)
    if safe == role:
        return safe
    return f"{safe}.{hashlib.sha256(role.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _store(directory: Path, changed: dict[str, str], gone: list[str]) -> None:
    private_dir(directory)
    with _opened(directory) as place:
        for name, text in changed.items():
            replace_own(Path(name), text.encode("utf-8", "replace")[-MAX_BYTES:], dir_fd=place)
        for name in gone:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=place)


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    """Yield the directory itself: a link in its place, put there by an agent, would lead to files
    of the user's that are none of ours to read, replace or remove. Raises OSError."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(directory, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
