"""`choragos serve`: run the team, in the foreground with a live board or detached.

Owns the process around a session: flags, signals, the detached child, the crash log. Invariant:
`--detach` returns 0 only when the session can take work, and 1 with the child's own sentence
otherwise; whatever ends the deck, agents end with it and the socket is gone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Coroutine
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from deck.cli.failure import fail
from deck.protocol import Command, Verb
from deck.sessions import (
    NoSession,
    SessionError,
    SessionExists,
    SessionPaths,
    exchange,
    paths_for,
    working_directory,
)

if TYPE_CHECKING:
    from deck.session import Options, Session

#: A gateway may take 30 s to come up before roles are started.
DETACH_SECONDS: Final = 90.0
BOARD_SECONDS: Final = 1.0
_LOGS: Final = Path(".choragos") / "logs"


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(context_settings={"ignore_unknown_options": False})(serve)


def serve(
    config: Annotated[str | None, typer.Option("--config", help="The team file.")] = None,
    sphragis: Annotated[
        bool | None,
        typer.Option("--sphragis/--no-sphragis", help="Require the gateway, or run without it."),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Run in the background.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the last board.")] = False,
    headless: Annotated[bool, typer.Option("--headless", hidden=True)] = False,
) -> None:
    """Run the team of this directory."""
    options = _options(config, sphragis, resume, "server" if headless else "tui")
    if detach:
        _detach(options.paths, _child_arguments(config, sphragis, resume))
        return
    raise typer.Exit(_run(_serve(options, show_board=not headless and sys.stdout.isatty())))


def _options(config: str | None, flag: bool | None, resume: bool, mode: str) -> Options:
    from deck.config import ConfigError, load_config
    from deck.roster import NotOnPath, find_program, unenforced
    from deck.session import Options

    try:
        directory = working_directory()
        team = load_config(Path(config) if config is not None else None, Path(directory))
        for warning in (*team.warnings, *unenforced(team)):
            typer.echo(f"warning: {warning}", err=True)
        for role in team.roles:
            find_program(role, os.environ)
        return Options(team, paths_for(directory), flag, resume, mode)
    except (ConfigError, NotOnPath, SessionError) as error:
        fail(error)


# -- detached -----------------------------------------------------------------------------------


def _detach(paths: SessionPaths, arguments: list[str]) -> None:
    log = Path(paths.directory) / _LOGS / "server.log"
    try:
        exchange(paths.socket, Command(Verb.PING))
    except NoSession:
        pass
    except SessionError as error:
        fail(error)
    else:
        fail("a session already runs for this directory; stop it with `choragos kill`")
    child, start = _spawn(log, arguments)
    problem = _wait_until_running(paths, child)
    if problem is not None:
        fail(_reason_in(log, start) or problem)
    typer.echo(f"session started  pid {child.pid}  log {log}")
    _warn_of_gateway(paths)
    typer.echo("look at it with `choragos board`, stop it with `choragos kill`")


def _warn_of_gateway(paths: SessionPaths) -> None:
    """A team that cannot be given work, or whose prompts go out unscanned, is said at once."""
    try:
        gateway = exchange(paths.socket, Command(Verb.STATUS)).get("gateway")
    except SessionError:
        return
    if not isinstance(gateway, dict) or gateway.get("up"):
        return
    reason = gateway.get("reason")
    if not gateway.get("on"):
        why = f" ({reason})" if gateway.get("wanted") else ""
        typer.echo(f"warning: the team runs without a gateway, unscanned{why}", err=True)
    else:
        what = "delegations are refused" if gateway.get("fail_closed") else "work goes on unscanned"
        typer.echo(f"warning: the gateway is not ready: {reason}; {what} until it is", err=True)


def _child_arguments(config: str | None, flag: bool | None, resume: bool) -> list[str]:
    arguments = ["serve", "--headless"]
    if config is not None:
        arguments += ["--config", config]
    if flag is not None:
        arguments.append("--sphragis" if flag else "--no-sphragis")
    return [*arguments, "--resume"] if resume else arguments


def _spawn(log: Path, arguments: list[str]) -> tuple[subprocess.Popen[bytes], int]:
    """Start the child in a session of its own; return it and where its output begins."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        start = os.fstat(descriptor).st_size
        child = subprocess.Popen(
            [sys.executable, "-m", "deck.cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    return child, start


def _wait_until_running(paths: SessionPaths, child: subprocess.Popen[bytes]) -> str | None:
    """Return None once the session takes work, else why it does not."""
    deadline = time.monotonic() + DETACH_SECONDS
    while time.monotonic() < deadline:
        status = child.poll()
        if status is not None:
            return f"the session ended at once (exit {status})"
        try:
            if exchange(paths.socket, Command(Verb.PING), 1.0).get("phase") == "running":
                return None
        except SessionError:
            pass
        time.sleep(0.05)
    child.terminate()
    return f"the session did not come up within {DETACH_SECONDS:g} s and was stopped"


def _reason_in(log: Path, start: int) -> str:
    """Return the child's last error sentence."""
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode("utf-8", "replace").splitlines()
    said = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return said[-1] if said else ""


# -- in this process ----------------------------------------------------------------------------


def _run(work: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


async def _serve(options: Options, *, show_board: bool) -> int:
    from deck.journal import JournalFailed
    from deck.pane.process import PaneError
    from deck.roster import NotOnPath
    from deck.session import Session
    from shared.ledger import LedgerError

    session = Session(options)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: _note_fault(options.paths, context))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, session.request_stop)
    try:
        try:
            if await _started(session):
                await _until_stopped(session, show_board=show_board)
        finally:
            await session.stop()
    except (SessionError, NotOnPath, JournalFailed, LedgerError, PaneError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        return 1
    except Exception:
        path = _write_crash(options.paths, traceback.format_exc())
        typer.echo(f"error: the deck crashed; agents were stopped, details in {path}", err=True)
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


async def _until_stopped(session: Session, *, show_board: bool) -> None:
    if not show_board:
        await session.run()
        return
    from deck.cli.live import LiveBoard

    board = LiveBoard(session.status())
    board.start()
    stopped = asyncio.ensure_future(session.run())
    while not stopped.done():
        await asyncio.wait([stopped], timeout=BOARD_SECONDS)
        board.show(session.status())
    await asyncio.to_thread(board.finish)


def _note_fault(paths: SessionPaths, context: dict[str, Any]) -> None:
    """A fault in one callback or task: noted in full, the session goes on."""
    fault = context.get("exception")
    trace = "".join(traceback.format_exception(fault)) if fault else ""
    _write_crash(paths, f"{context.get('message')}\n{trace}")


def _write_crash(paths: SessionPaths, text: str) -> Path:
    path = Path(paths.directory) / _LOGS / "crash.log"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write(f"{datetime.now().astimezone().isoformat()} pid {os.getpid()}\n{text}\n")
    return path


__all__ = ["SessionExists", "register", "serve"]
