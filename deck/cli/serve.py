"""`choragos serve`: run the team, in the foreground with a live board or detached.

Owns the flags and the detached child's start. Invariant: `--detach` returns 0 only when the
session can take work, and 1 with the child's own sentence otherwise. The process around a session
is `deck.host`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from deck.cli.failure import fail
from deck.plain_files import open_to_add
from deck.protocol import Command, Verb
from deck.sessions import (
    NoSession,
    SessionError,
    SessionPaths,
    control_socket,
    exchange,
    in_words,
    read_sidecar,
)

#: A gateway may take 30 s to come up before roles are started.
DETACH_SECONDS: Final = 90.0
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
    from deck import host

    try:
        options = host.prepare(
            config, sphragis, resume=resume, mode="server" if headless else "tui"
        )
    except host.CannotServe as problem:
        fail(problem)
    if detach:
        _detach(options.paths, host.arguments(config, sphragis, resume=resume))
        return
    if headless or not sys.stdout.isatty():
        raise typer.Exit(host.run(options))
    from deck.cli.live import LiveBoard

    raise typer.Exit(host.run(options, LiveBoard))


# -- detached -----------------------------------------------------------------------------------


def _detach(paths: SessionPaths, arguments: list[str]) -> None:
    log = Path(paths.directory) / _LOGS / "server.log"
    try:
        exchange(control_socket(paths), Command(Verb.PING))
    except NoSession:
        pass
    except SessionError as error:
        fail(error)
    else:
        fail("a session already runs for this directory; stop it with `choragos kill`")
    child, start = _spawn(log, arguments)
    problem = _wait_until_running(paths, child)
    if problem is not None:
        fail(_reason_in(log, start) or f"{problem}; what it said is in {log}")
    typer.echo(f"session started  pid {child.pid}  log {log}")
    _tell_of_start(paths)
    typer.echo("look at it with `choragos board`, stop it with `choragos kill`")


def _tell_of_start(paths: SessionPaths) -> None:
    """What was lost, or can be gone on with, and a gateway that is not there, are said at once."""
    try:
        status = exchange(paths.socket, Command(Verb.STATUS))
    except SessionError:
        return
    notices, gateway = status.get("notices"), status.get("gateway")
    for notice in notices if isinstance(notices, list) else ():
        typer.echo(f"note: {notice}", err=True)
    if isinstance(gateway, dict) and not gateway.get("up"):
        _warn_of_gateway(gateway)


def _warn_of_gateway(gateway: dict[str, Any]) -> None:
    """A team that cannot be given work, or whose prompts go out unscanned, is said at once."""
    reason = gateway.get("reason")
    if not gateway.get("on"):
        why = f" ({reason})" if gateway.get("wanted") else ""
        typer.echo(f"warning: the team runs without a gateway, unscanned{why}", err=True)
    else:
        what = "delegations are refused" if gateway.get("fail_closed") else "work goes on unscanned"
        typer.echo(f"warning: the gateway is not ready: {reason}; {what} until it is", err=True)


def _spawn(log: Path, arguments: list[str]) -> tuple[subprocess.Popen[bytes], int]:
    """Start the child in a session of its own; return it and where its output begins."""
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = open_to_add(log)
    except OSError as failure:
        fail(in_words(failure, log.parent.parent))
    try:
        start = os.fstat(descriptor).st_size
        child = subprocess.Popen(
            [sys.executable, *arguments],
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
            runs = exchange(paths.socket, Command(Verb.PING), 1.0).get("phase") == "running"
        except SessionError:
            runs = False
        # Of two that were started at once, one answers and the other is about to say so.
        if runs and ((found := read_sidecar(paths.sidecar)) is None or found.pid == child.pid):
            return None
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
