"""`choragos delegate`, `work-done`, `again`: how agents and people hand work out and report it.

Owns these verbs' options; the first two are carried out by `deck.cli.errands`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from deck.cli import errands
from deck.cli.errands import send
from deck.cli.failure import fail
from deck.protocol import EVERY_LOST, Command, Verb

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
    errands.delegate(to or (), task, brief, as_json=as_json)


def work_done(
    task: Annotated[str, typer.Option("--task", help="One line: what was done.")] = "",
    report: Annotated[str, typer.Option("--report", help="File with the full outcome.")] = "",
    done: Annotated[bool, typer.Option("--done", help="The whole assignment is complete.")] = False,
    task_id: Annotated[str, typer.Option("--id", help="The id in the task file.")] = "",
    as_json: Json = False,
) -> None:
    """Report a task, or with --done the whole assignment."""
    errands.work_done(task, report, task_id, done=done, as_json=as_json)


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
