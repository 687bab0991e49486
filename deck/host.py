"""The process around a session: signals, the crash log, and the program of a detached deck.

Owns how a deck ends. Invariant: whatever ends it, its agents end with it and the socket is gone;
a fault is one sentence for the user and the details in `.choragos/logs/crash.log`. No face and no
command line is loaded here, so that a detached deck stays small: `python -m deck.host` runs it.
Called by `deck.cli.serve`, which gives it a board to draw on in the foreground.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

from deck.board import State
from deck.briefs import STATE_DIR
from deck.budgets import uncountable
from deck.config import Config, ConfigError
from deck.journal import JournalFailed
from deck.pane.errors import PaneError
from deck.plain_files import open_to_add
from deck.recall import objection
from deck.roster import NotOnPath, find_program, unenforced
from deck.routing import NotRouted
from deck.session import Options, Session
from deck.session_file import BadSessionFile, read_snapshot
from deck.sessions import (
    SessionError,
    SessionPaths,
    in_words,
    paths_for,
    working_directory,
)
from deck.team_reader import load_config
from shared.ledger import LedgerError
from shared.paths import UnsafeDirectory

BOARD_SECONDS: Final = 1.0
LOGS: Final = Path(".choragos") / "logs"
#: A session that cannot be: their text is the sentence for the user.
_REFUSALS: Final = (
    SessionError,
    NotOnPath,
    NotRouted,
    JournalFailed,
    LedgerError,
    PaneError,
    UnsafeDirectory,
)


class Board(Protocol):
    """A face that shows a session while it runs in the foreground."""

    def start(self) -> None:
        """Begin to draw."""

    def show(self, status: Mapping[str, Any]) -> None:
        """Draw this status from now on."""

    def finish(self) -> None:
        """Draw the last status and end. May block for a moment."""


class CannotServe(Exception):
    """The team cannot be run here; the text is the sentence for the user."""


def prepare(config: str | None, flag: bool | None, *, resume: bool, mode: str) -> Options:
    """Return how to run the team of the working directory, and print what it warns of.

    `config` is a path or None for the default; `flag` an explicit --sphragis or --no-sphragis.
    Raises CannotServe.
    """
    try:
        directory = working_directory()
        team = load_config(Path(config) if config is not None else None, Path(directory))
        for warning in (*team.warnings, *unenforced(team), *uncountable(team)):
            _say(f"warning: {warning}")
        try:
            for role in team.roles:
                find_program(role, os.environ)
        except NotOnPath as missing:
            other = _other_team(Path(directory) / STATE_DIR, team) if resume else ""
            raise CannotServe(other or str(missing)) from missing
        return Options(team, paths_for(directory), flag, resume, mode)
    except (ConfigError, NotOnPath, SessionError) as error:
        raise CannotServe(str(error)) from error


def _other_team(state_dir: Path, team: Config) -> str:
    """Return why the last session cannot be gone on with, if it ran with another team file: whoever
    forgot --config has no use for what is missing in the wrong one."""
    try:
        last = read_snapshot(state_dir)
    except BadSessionFile:
        return ""
    return objection(State(config=last.config), team, handed_over=True) if last is not None else ""


def run(options: Options, board: Callable[[Mapping[str, Any]], Board] | None = None) -> int:
    """Run a session to its end and return the exit status; `board` makes the face to show it."""
    if options.ask is None and sys.stdin.isatty() and sys.stderr.isatty():
        options = replace(options, ask=_ask)
    work = _serve(options, board)
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


async def _serve(options: Options, board: Callable[[Mapping[str, Any]], Board] | None) -> int:
    session = Session(options)
    loop = asyncio.get_running_loop()
    faults = Faults(options.paths)
    loop.set_exception_handler(lambda _, context: faults.note(context))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, session.request_stop)
    try:
        try:
            if await _started(session):
                for notice in session.notices:
                    _say(f"note: {notice}")
                await _until_stopped(session, board)
        finally:
            await session.stop()
        if session.farewell:
            _say(session.farewell)
    except OSError as error:
        _say(f"error: {in_words(error, Path(options.paths.directory) / LOGS.parent)}")
        return 1
    except _REFUSALS as error:
        _say(f"error: {error}")
        return 1
    except Exception:
        path = _write_crash(options.paths, traceback.format_exc())
        _say(f"error: the deck crashed; agents were stopped, details in {path}")
        return 1
    return 0


async def _started(session: Session) -> bool:
    """Start the session; False when it was asked to stop before it was up."""
    stopped = asyncio.ensure_future(session.run())
    start = asyncio.ensure_future(session.start())
    await asyncio.wait([start, stopped], return_when=asyncio.FIRST_COMPLETED)
    if not start.done():
        start.cancel()
        await asyncio.wait([start])
    stopped.cancel()
    if start.cancelled():
        return False
    start.result()
    return True


async def _until_stopped(
    session: Session, make: Callable[[Mapping[str, Any]], Board] | None
) -> None:
    if make is None:
        await session.run()
        return
    board = make(session.status())
    board.start()
    stopped = asyncio.ensure_future(session.run())
    while not stopped.done():
        await asyncio.wait([stopped], timeout=BOARD_SECONDS)
        board.show(session.status())
    await asyncio.to_thread(board.finish)


async def _ask(sentence: str) -> bool:
    """Ask at the terminal; no answer, or any but yes, is no. No thread waits for the keyboard, so
    that a signal still ends the deck."""
    print(f"{sentence}; go on with it? [y/N] ", end="", file=sys.stderr, flush=True)
    loop, keyboard = asyncio.get_running_loop(), sys.stdin.fileno()
    readable = asyncio.Event()
    loop.add_reader(keyboard, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(keyboard)
    return os.read(keyboard, 1024).strip().lower() in (b"y", b"yes")


class Faults:
    """Faults in one callback or task, after which the session goes on: the first at each place in
    full, the others counted, for what fails each second would fill the disk."""

    def __init__(self, paths: SessionPaths) -> None:
        self._paths = paths
        self._seen: Counter[tuple[object, ...]] = Counter()

    def note(self, context: Mapping[str, Any]) -> None:
        """Take up what an event loop says of a fault."""
        fault, message = context.get("exception"), context.get("message")
        frames = traceback.extract_tb(fault.__traceback__) if fault else ()
        kind = (message, type(fault), *((frame.filename, frame.lineno) for frame in frames))
        self._seen[kind] += 1
        times = self._seen[kind]
        if times == 1:
            trace = "".join(traceback.format_exception(fault)) if fault else ""
            _write_crash(self._paths, f"{message}\n{trace}")
        elif str(times).strip("0") == "1":  # ten, a hundred, a thousand
            _write_crash(self._paths, f"{message}, as above: {times} times by now\n")


def _write_crash(paths: SessionPaths, text: str) -> Path:
    path = Path(paths.directory) / LOGS / "crash.log"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = open_to_add(path)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write(f"{datetime.now().astimezone().isoformat()} pid {os.getpid()}\n{text}\n")
    return path


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


# -- the detached deck's own program ------------------------------------------------------------


def arguments(config: str | None, flag: bool | None, *, resume: bool) -> list[str]:
    """Return the command line, after the interpreter, of a detached deck; `main` reads it.

    `-P`: a project that has a package named like one of ours must not take its place.
    """
    line = ["-P", "-m", "deck.host", f"--resume={resume:d}"]
    if flag is not None:
        line.append(f"--sphragis={flag:d}")
    return line if config is None else [*line, f"--config={config}"]


def main(line: Sequence[str]) -> int:
    """Run the session that `arguments` describes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    given = dict(argument.removeprefix("--").split("=", 1) for argument in line)
    flag = None if "sphragis" not in given else given["sphragis"] == "1"
    resume = given.get("resume") == "1"
    try:
        options = prepare(given.get("config"), flag, resume=resume, mode="server")
    except CannotServe as problem:
        _say(f"error: {problem}")
        return 1
    return run(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
