"""`choragos ls` and `choragos kill`: the sessions of this user.

Owns these verbs' output (contracts/deck.md section 1.3). `kill` returns when the session is
really gone: socket, sidecar and agents.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from deck.cli.errands import TOKEN_ENV, send
from deck.cli.failure import fail
from deck.protocol import Command, Verb
from deck.sessions import (
    SessionError,
    Sidecar,
    control_socket,
    exchange,
    is_alive,
    live_sessions,
    paths_for,
    read_sidecar,
    working_directory,
)

#: Agents get 5 s, a gateway another 5, then everything is killed; beyond this something is wrong.
STOP_SECONDS = 30.0


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.command("ls")(ls)
    app.command("kill")(kill)
    app.command("handoff")(handoff)


def ls() -> None:
    """List the running sessions."""
    from deck.durations import format_duration

    found = _live()
    for one in found:
        up = format_duration((datetime.now(UTC) - one.started).total_seconds())
        typer.echo(f"{one.id}  pid {one.pid}  up {up}  {one.directory}")
    if not found:
        typer.echo("no running sessions")


def kill(
    every: Annotated[bool, typer.Option("--all", help="Stop every session of yours.")] = False,
) -> None:
    """Stop the session of this directory: its agents, its gateway if it started one."""
    if every:
        found = _live()
        failures = [problem for one in found if (problem := _stop_one(one))]
        if not found:
            typer.echo("no running sessions")
        if failures:
            fail("; ".join(failures))
        return
    try:
        paths = paths_for(working_directory())
        sidecar = read_sidecar(paths.sidecar)
        _shutdown(control_socket(paths), sidecar)
    except SessionError as error:
        fail(error)
    typer.echo("session stopped")


def handoff(
    config: Annotated[
        str | None, typer.Option("--config", help="The team file the next session runs with.")
    ] = None,
) -> None:
    """Let the start role write down where things stand, then end the session for the next one."""
    from deck.config import ConfigError
    from deck.team_reader import load_config

    following = os.path.abspath(config) if config is not None else ""
    if following:
        try:
            load_config(Path(following), Path(following).parent)
        except ConfigError as problem:
            fail(problem)
    ack = send(Command(Verb.HANDOFF, next_config=following))
    typer.echo(f"handoff requested: the start role writes {ack.get('document')}")
    typer.echo(f"when the session has ended, go on with `{ack.get('resume')}`")


def _live() -> list[Sidecar]:
    try:
        return live_sessions()
    except SessionError as error:
        fail(error)


def _stop_one(one: Sidecar) -> str:
    try:
        _shutdown(one.socket, one)
    except SessionError as error:
        return f"{one.id}: {error}"
    typer.echo(f"stopped {one.id} ({one.directory})")
    return ""


def _shutdown(socket: Path, sidecar: Sidecar | None) -> None:
    ack = exchange(socket, Command(Verb.SHUTDOWN, token=os.environ.get(TOKEN_ENV, "")))
    if ack.get("status") == "error":
        raise SessionError(str(ack.get("reason")))
    deadline = time.monotonic() + STOP_SECONDS
    while time.monotonic() < deadline:
        gone = not socket.exists() or not is_alive(socket)
        if gone and (sidecar is None or not _runs(sidecar.pid)):
            return
        time.sleep(0.05)
    raise SessionError(f"the session has not stopped within {STOP_SECONDS:g} s; see its server.log")


def _runs(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return text[text.rindex(")") + 2] not in "ZX"
