"""Handoffs: the start role writes down where things stand, and the session ends or goes on.

Owns the verb `handoff` and when its document counts as written (contracts/deck.md section 1.13):
newer than the request, not empty, and the same for two seconds, so that a half-written one is
never taken; after two minutes the session ends without it. Invariant: the control loop never
waits for it; the handover is on record before the session ends. `deck.session` dispatches here,
`deck.recall` reads what was handed over.
"""

from __future__ import annotations

import asyncio
import shlex
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deck import briefs
from deck.callers import Caller
from deck.config import ConfigError
from deck.desk import Desk
from deck.entries import Entry, Op
from deck.memory import MEMORY_FILE
from deck.protocol import Command, error, ok
from deck.team_reader import CONFIG_NAME, load_config

#: How long the start role may take (contracts/deck.md section 1.13).
HANDOFF_SECONDS: Final = 120.0
#: A document that has not changed for so long is whole.
STABLE_SECONDS: Final = 2.0
LOOK_SECONDS: Final = 0.25
#: The kernel stamps files with a clock that may be this much behind (one tick, and more under
#: load).
CLOCK_SLACK_NS: Final = 50_000_000

REQUEST: Final = (
    f"Hand this session over: first add what is worth keeping to {briefs.STATE_DIR}/{MEMORY_FILE}, "
    f"then write to {briefs.STATE_DIR}/{briefs.HANDOFF_FILE} the goal, what is done, what is open "
    "(task ids) and what comes next. Delegate nothing more; the session ends when that file is "
    "complete."
)


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as one look finds it."""

    size: int
    changed_ns: int
    inode: int


@dataclass(slots=True)
class Settling:
    """Tells from looks at a file whether the document that was asked for is there and whole."""

    before: Seen | None
    asked_ns: int
    _last: Seen | None = None
    _since: float = 0.0

    def is_whole(self, seen: Seen | None, now: float) -> bool:
        """Take one look; `now` in seconds of a clock that only goes forward."""
        if seen != self._last:
            self._last, self._since = seen, now
        if seen is None or seen.size == 0 or seen == self.before:
            return False
        fresh = seen.changed_ns >= self.asked_ns - CLOCK_SLACK_NS
        return fresh and now - self._since >= STABLE_SECONDS


@dataclass(slots=True)
class Handoffs:
    """The handoffs of one session."""

    desk: Desk
    #: Asks the session to end, in somebody's name.
    stop: Callable[[str], None]
    seconds: float = HANDOFF_SECONDS
    _under_way: bool = False

    async def handoff(self, command: Command, caller: Caller) -> bytes:
        """Ask the start role for its document; the session ends later, the answer comes now."""
        if self._under_way:
            return error("A handoff is under way already; the session ends when it is done.")
        if command.next_config:
            problem = await asyncio.to_thread(self._problem_with, command.next_config)
            if problem:
                return error(problem)
        self._under_way = True
        desk = self.desk
        try:
            await desk.record(
                Entry(Op.HANDOFF_BEGUN, desk.now(), sender=caller.name, path=command.next_config)
            )
        except BaseException:
            self._under_way = False
            raise
        config = command.next_config or None
        desk.events.write("INFO", "handoff requested", **{"from": caller.name}, config=config)
        desk.job(self._hand_over(command.next_config or desk.state.config, caller.name))
        return ok(
            document=f"{briefs.STATE_DIR}/{briefs.HANDOFF_FILE}",
            resume=self._resume(command.next_config or desk.state.config),
        )

    def _resume(self, config: str) -> str:
        return resume_command(config, str(self.desk.directory / CONFIG_NAME))

    def _problem_with(self, path: str) -> str:
        if not Path(path).is_absolute():
            return f"The next team file {path[:200]} has to be given with its whole path."
        try:
            load_config(Path(path), self.desk.directory)
        except ConfigError as bad:
            return str(bad)
        return ""

    async def _hand_over(self, config: str, sender: str) -> None:
        desk = self.desk
        try:
            written = await self._document_written()
            why = "" if written else f"no document within {self.seconds:g} s"
            await desk.record(
                Entry(
                    Op.HANDOFF_ENDED,
                    desk.now(),
                    sender=sender,
                    path=config,
                    done=written,
                    reason=why,
                )
            )
        finally:
            self._under_way = False
        how = self._resume(config)
        desk.events.write("INFO", "handoff done", document=written, reason=why or None)
        desk.farewell = f"handed over; go on with `{how}`"
        self.stop(sender)

    async def _document_written(self) -> bool:
        desk = self.desk
        if not desk.start_seat.available:
            desk.events.write("WARN", "handoff without a document", reason="start role exited")
            return False
        document = desk.state_dir / briefs.HANDOFF_FILE
        settling = Settling(await asyncio.to_thread(look_at, document), time.time_ns())
        desk.notify(REQUEST)
        clock = asyncio.get_running_loop().time
        until = clock() + self.seconds
        while clock() < until:
            await asyncio.sleep(LOOK_SECONDS)
            if settling.is_whole(await asyncio.to_thread(look_at, document), clock()):
                desk.events.write("INFO", "handoff document written", file=str(document))
                return True
        desk.events.write("WARN", "handoff timed out", after=f"{self.seconds:g}s")
        return False


def look_at(path: Path) -> Seen | None:
    """Return a file as it is now; None when there is no regular file. Blocks."""
    try:
        info = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(info.st_mode):
        return None
    return Seen(info.st_size, info.st_mtime_ns, info.st_ino)


def resume_command(config: str, default: str = "") -> str:
    """Return the command that goes on with a session of a team file; the built-in team ("") and
    the `default` file need not be named."""
    named = "" if config in ("", default) else f" --config {shlex.quote(config)}"
    return f"choragos serve --resume{named}"
