"""The desk: what every part of a running session shares, and how a change is written down.

Owns the opened journal, event log, text store and gateway client of one run, the seats, and the
background jobs. Invariant: `record` and `move` return when the change is durable, `note` is only
for what has already happened and needs no effect of ours. `deck.session` opens and closes it;
seats, work, metering and snapshots work with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from deck import briefs
from deck.board import State, Task
from deck.config import Config
from deck.entries import Entry, Op, TaskState
from deck.events import EVENTS_NAME, EventLog
from deck.gateway import Gateway
from deck.hooks import run_hook
from deck.journal import Journal, JournalFailed
from deck.plain_files import read_plain
from deck.protocol import one_line
from deck.sessions import SessionPaths
from deck.texts import TextStore
from shared.paths import private_dir, state_dir

if TYPE_CHECKING:
    from deck.seats import Seat


#: What the ledger of a deck is called, before the session's id.
ORIGIN: Final = "choragos.local/deck/"
#: An idle ledger says that it is alive this often; the reserve lets it say its last words on a
#: full disk, and below low water nothing is handed out (contracts/ledger.md section 2.5).
HEARTBEAT_SECONDS: Final = 60.0
RESERVE_MIB: Final = 64
LOW_WATER_MIB: Final = 64
#: Hooks that run at a time; far more than people can be told of at once.
MAX_HOOKS: Final = 32
#: Another size of the reserve in MiB; 0 for none.
RESERVE_ENV: Final = "CHORAGOS_AUDIT_RESERVE_MIB"


@dataclass(slots=True)
class Desk:
    """One run's tools. Used from one event loop."""

    config: Config
    paths: SessionPaths
    environ: Mapping[str, str]
    events: EventLog
    journal: Journal
    texts: TextStore
    gateway: Gateway
    seats: dict[str, Seat] = field(default_factory=dict)
    #: What the person who starts a session is told, and what at its end; one sentence each.
    notices: list[str] = field(default_factory=list)
    farewell: str = ""
    #: What was seen to have changed under an open gate since it opened, in words.
    changed_gates: dict[str, str] = field(default_factory=dict)
    _jobs: set[asyncio.Task[None]] = field(default_factory=set)
    _hooks: int = 0

    @classmethod
    def open(cls, config: Config, paths: SessionPaths, environ: Mapping[str, str]) -> Self:
        """Open everything durable. Blocks. Raises JournalFailed, LedgerError or OSError."""
        project = Path(paths.directory) / briefs.STATE_DIR
        project.mkdir(mode=0o755, exist_ok=True)
        (project / "tasks").mkdir(exist_ok=True)
        _keep_out_of_git(project)
        events = EventLog(project / "logs" / EVENTS_NAME)
        keys = _keys(paths, environ)
        _refuse_planted(project / "ledger")
        aside = _set_aside_foreign(project / "ledger", f"{ORIGIN}{paths.id}")
        if aside is not None:
            reason = "this project was moved or copied here from another directory"
            events.write("WARN", "ledger set aside", dir=str(aside), reason=reason)
        journal = Journal.open(
            project / "ledger",
            keys=keys,
            origin=f"{ORIGIN}{paths.id}",
            heartbeat_seconds=HEARTBEAT_SECONDS,
            reserve_bytes=_reserve_mib(environ) << 20,
            low_water_bytes=LOW_WATER_MIB << 20,
        )
        try:
            texts = TextStore(project / "texts", keys)
        except BaseException:
            journal.close()
            raise
        log = project / "logs" / "gateway.log"
        gateway = Gateway(config.sphragis, log=log, environ=environ)
        return cls(config, paths, environ, events, journal, texts, gateway)

    @property
    def state(self) -> State:
        """The present board."""
        return self.journal.state

    @property
    def directory(self) -> Path:
        """The project."""
        return Path(self.paths.directory)

    @property
    def state_dir(self) -> Path:
        """The project's `.choragos`."""
        return self.directory / briefs.STATE_DIR

    @property
    def start_name(self) -> str:
        """The role that leads."""
        return self.config.start_role.name

    @property
    def start_seat(self) -> Seat:
        """The seat of the role that leads."""
        return self.seats[self.start_name]

    @property
    def team(self) -> list[Seat]:
        """The seats of the roles that are in the team now, in their order."""
        return [seat for seat in self.seats.values() if not seat.removed]

    def now(self) -> int:
        """Return the time in microseconds UTC."""
        return time.time_ns() // 1000

    # -- writing things down --------------------------------------------------------------------

    async def record(self, entry: Entry) -> None:
        """Record a change and wait until it is durable. Raises IllegalMove or JournalFailed."""
        await self.journal.record(entry)

    def note(self, entry: Entry) -> None:
        """Record what has already happened, without waiting. Raises IllegalMove."""
        try:
            future = self.journal.record(entry)
        except JournalFailed:
            return
        future.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def move(self, task: Task, state: TaskState, reason: str = "", screen: str = "") -> None:
        """Move a task and wait until that is durable. Raises IllegalMove or JournalFailed."""
        await self.record(self.moved(task, state, reason, screen))

    def moved(self, task: Task, state: TaskState, reason: str = "", screen: str = "") -> Entry:
        """Return the entry that moves a task."""
        return Entry(
            Op.TASK_MOVED,
            self.now(),
            id=task.id,
            role=task.role,
            state=state,
            reason=reason,
            ref=screen,
        )

    # -- telling people -------------------------------------------------------------------------

    def notify(self, text: str) -> None:
        """Put a notice into the start role's queue, if there is one to read it."""
        if self.start_seat.available:
            self.start_seat.put_notice(one_line(text))

    def hook(self, name: str, command: str, role: str, task: str) -> None:
        """Run a hook of the team file in the background, if it is set. Of a flood of them, which
        an agent can make, only so many run at a time; the others are in the event log."""
        if not command:
            return
        if self._hooks >= MAX_HOOKS:
            self.events.write("WARN", "hook not run", hook=name, reason=f"{MAX_HOOKS} run already")
            return
        self._hooks += 1
        work = run_hook(
            name, command, role=role, task=task, environ=self.environ, events=self.events
        )
        self.job(work).add_done_callback(self._hook_ended)

    def _hook_ended(self, _: asyncio.Task[None]) -> None:
        self._hooks -= 1

    def label(self, task: Task) -> str:
        """Return a task in one line: its text, else the name of its brief."""
        text = self.texts.line(task.text_ref)
        if text is None:
            return "(the text of this task was changed or removed)"
        return text or Path(task.brief).name

    # -- work in the background -----------------------------------------------------------------

    def job(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something in the background until it ends or the session does; a fault in it is
        noted and harms nothing else."""
        job = asyncio.ensure_future(self._run(work))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        # One that is cancelled before its first step has not begun its work either.
        job.add_done_callback(lambda _: work.close())
        return job

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except JournalFailed as failure:
            self.events.write("ERROR", "journal failed", err=str(failure))
        except Exception as fault:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a background job of the session failed", "exception": fault}
            )

    async def cancel_jobs(self) -> None:
        """End all background jobs."""
        running = list(self._jobs)
        for job in running:
            job.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def close(self) -> None:
        """Close journal and event log. Blocks."""
        self.journal.close()
        self.events.close()


def open_closed_journal(paths: SessionPaths, environ: Mapping[str, str]) -> Journal | None:
    """Open the journal of a directory in which no deck runs, to record what is done without one;
    None when there is none. Blocks. Raises JournalFailed."""
    ledger = Path(paths.directory) / briefs.STATE_DIR / "ledger"
    if not ledger.is_dir():
        return None
    return Journal.open(ledger, keys=_keys(paths, environ), origin=f"{ORIGIN}{paths.id}")


def _keys(paths: SessionPaths, environ: Mapping[str, str]) -> Path:
    return private_dir(state_dir("choragos", environ) / "keys" / paths.id)


def _reserve_mib(environ: Mapping[str, str]) -> int:
    """Return how much disk the ledger holds back; what is no number counts as not set."""
    told = environ.get(RESERVE_ENV, "")
    return int(told) if told.isascii() and told.isdigit() and len(told) < 5 else RESERVE_MIB


def _refuse_planted(ledger: Path) -> None:
    """Find what an agent has put among the files of the ledger: reading a pipe would hold up the
    start for ever, and say nothing. Blocks. Raises JournalFailed."""
    for folder, folders, files in os.walk(ledger):
        for name in (*folders, *files):
            path = Path(folder, name)
            with contextlib.suppress(FileNotFoundError):
                kind = path.lstat().st_mode
                if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
                    raise JournalFailed(
                        f"{path} is neither a file nor a directory, so no deck has put it there; "
                        "move it away, keep it, and put back the file that belongs there from a "
                        "copy."
                    )


def _set_aside_foreign(ledger: Path, origin: str) -> Path | None:
    """Move away, whole and still verifiable, the ledger that a deck of another directory began.

    A ledger is of one place: going on with a copy would give one log two histories. Returns where
    it is now, or None if there was nothing of the kind.
    """
    try:
        began = str(json.loads(read_plain(ledger / "log.json", 1 << 20))["origin"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if began == origin or not began.startswith(ORIGIN):
        return None
    name = briefs.safe_name(began.removeprefix(ORIGIN))
    aside = ledger.with_name(f"ledger-of-{name}-{time.time_ns() // 1000}")
    ledger.rename(aside)
    return aside


def _keep_out_of_git(project: Path) -> None:
    """Our files are nobody's commit: git ignores the directory unless its owner says otherwise,
    and an ignore file that is there is the owner's word."""
    with contextlib.suppress(FileExistsError), (project / ".gitignore").open("x") as file:
        file.write("*\n")


def deck_pid() -> int:
    """Return the deck's own process id."""
    return os.getpid()
