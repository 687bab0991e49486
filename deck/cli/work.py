"""`choragos delegate`, `work-done`, `again`: how agents and people hand work out and report it.

Owns these verbs' options and the sentences they print. The ack decides: a refused target is exit 1
with the reason on stderr, so neither an agent nor a script can take a refusal for a delivery.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from deck import briefs
from deck.cli.failure import fail
from deck.protocol import EVERY_LOST, Command, Verb
from deck.sessions import (
    SessionError,
    control_socket,
    exchange,
    paths_for,
    working_directory,
)

TOKEN_ENV = "CHORAGOS_ROLE_TOKEN"  # noqa: S105 - the name of a variable

Json = Annotated[bool, typer.Option("--json", help="Print the deck's answer as JSON.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.command("delegate")(delegate)
    app.command("work-done")(work_done)
    app.command("again")(again)


def delegate(
    to: Annotated[
        list[str] | None, typer.Option("--to", help="Role; repeat it or separate by commas.")
    ] = None,
    task: Annotated[str, typer.Option("--task", help="The task, or a label for the brief.")] = "",
    brief: Annotated[str, typer.Option("--brief", help="File with the full task.")] = "",
    as_json: Json = False,
) -> None:
    """Hand a task to one or more roles."""
    roles = tuple(name.strip() for item in to or () for name in item.split(",") if name.strip())
    if not roles:
        fail("delegate needs --to <role>")
    if not task.strip() and not brief:
        fail("delegate needs --task <text> or --brief <file>")
    ack = send(Command(Verb.DELEGATE, to=roles, task=task, brief=_file(brief, "brief")))
    if as_json:
        typer.echo(json.dumps(ack, ensure_ascii=False))
    targets = _targets(ack)
    accepted = [str(t.get("to")) for t in targets if t.get("state") != "refused"]
    refused = [t for t in targets if t.get("state") == "refused"]
    if not targets:
        # An existing deck says only that it heard.
        accepted = list(roles)
    if accepted and not as_json:
        typer.echo(f"delegated to {', '.join(accepted)}")
    for target in targets:
        if target.get("state") == "gated":
            typer.echo(f"note: {target.get('id')} {target.get('reason')}", err=True)
    for target in refused:
        typer.echo(f"error: {target.get('to')} refused: {target.get('reason')}", err=True)
    if refused:
        raise typer.Exit(1)


def work_done(
    task: Annotated[str, typer.Option("--task", help="One line: what was done.")] = "",
    report: Annotated[str, typer.Option("--report", help="File with the full outcome.")] = "",
    done: Annotated[bool, typer.Option("--done", help="The whole assignment is complete.")] = False,
    task_id: Annotated[str, typer.Option("--id", help="The id in the task file.")] = "",
    as_json: Json = False,
) -> None:
    """Report a task, or with --done the whole assignment."""
    if not task.strip() and not report:
        fail("work-done needs --task <text> or --report <file>")
    ack = send(
        Command(Verb.WORK_DONE, task=task, report=_file(report, "report"), done=done, id=task_id)
    )
    typer.echo(json.dumps(ack, ensure_ascii=False) if as_json else "reported to orchestrator")


def again(
    task_id: Annotated[str, typer.Argument(help="A lost or timed-out task, like T3.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Every lost task.")] = False,
    as_json: Json = False,
) -> None:
    """Offer a lost or timed-out task to its role once more, or all lost ones."""
    if bool(task_id) == every:
        fail("again needs the id of a task, or --all for every lost one")
    ack = send(Command(Verb.AGAIN, id=EVERY_LOST if every else task_id))
    if as_json:
        typer.echo(json.dumps(ack, ensure_ascii=False))
    elif not every:
        typer.echo(f"{task_id} is queued again")
    refused = _tell_again(ack, quiet=as_json) if every else False
    if refused:
        raise typer.Exit(1)


def _tell_again(ack: dict[str, Any], *, quiet: bool) -> bool:
    """Say which of the lost tasks go again; True when one of them does not."""
    tasks = [t for t in ack.get("tasks", ()) if isinstance(t, dict)]
    queued = [str(t.get("id")) for t in tasks if t.get("state") == "queued"]
    if not quiet:
        typer.echo(f"queued again: {', '.join(queued)}" if queued else "no task was queued again")
    for task in tasks:
        if task.get("state") != "queued":
            typer.echo(f"error: {task.get('id')}: {task.get('reason')}", err=True)
    return len(queued) < len(tasks)


def ask(command: Command) -> dict[str, Any]:
    """Send a command to the session of this directory and return its ack, whatever it says."""
    from dataclasses import replace

    try:
        command = replace(command, token=os.environ.get(TOKEN_ENV, ""), reads_ack=True)
        return exchange(control_socket(paths_for(working_directory())), command)
    except SessionError as error:
        fail(error)


def send(command: Command) -> dict[str, Any]:
    """Send a command to the session of this directory; an error ack ends the program with 1."""
    ack = ask(command)
    if ack.get("status") == "error":
        fail(ack.get("reason") or "the deck refused without a reason")
    return ack


def _file(path: str, what: str) -> str:
    if not path:
        return ""
    try:
        return str(briefs.attachment(path, what, Path(working_directory())))
    except (briefs.BadAttachment, SessionError) as bad:
        fail(bad)


def _targets(ack: dict[str, Any]) -> list[dict[str, Any]]:
    targets = ack.get("targets")
    return [t for t in targets if isinstance(t, dict)] if isinstance(targets, list) else []
