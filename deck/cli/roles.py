"""The verbs for a running team: pause, resume, restart, answer, enforce, reload, roster add.

Owns these verbs' options and the sentences they print. All but `roster add` work only from outside
the team: the deck refuses them to whatever runs in a pane (contracts/deck.md section 2.3).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from deck.cli.errands import send
from deck.cli.failure import fail
from deck.cli.work import Json
from deck.protocol import Command, Verb

RoleName = Annotated[str, typer.Argument(metavar="ROLE", help="A role of the team.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the ledger.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.command("pause")(pause)
    app.command("resume")(resume)
    app.command("restart")(restart)
    app.command("answer")(answer)
    app.command("enforce")(enforce)
    app.command("reload")(reload)
    roster = typer.Typer(help="Propose a new role.", no_args_is_help=True)
    roster.command("add")(roster_add)
    # Another command beside `add` keeps `add` a word of its own.
    roster.callback()(_roster)
    app.add_typer(roster, name="roster")


def pause(role: RoleName, reason: Reason = "", as_json: Json = False) -> None:
    """Stop a role where it is, with everything it runs; its work waits."""
    _print(send(Command(Verb.PAUSE, id=role, reason=reason)), as_json, f"{role} is paused")


def resume(role: RoleName, reason: Reason = "", as_json: Json = False) -> None:
    """Let a paused role go on."""
    _print(send(Command(Verb.RESUME, id=role, reason=reason)), as_json, f"{role} goes on")


def restart(role: RoleName, as_json: Json = False) -> None:
    """End a role's process and start it anew; also one that has exited for good."""
    ack = send(Command(Verb.RESTART, id=role))
    going_on = f"{role} is being started anew; see .choragos/logs/events.log"
    done = f"{role} was started anew, pid {ack.get('pid')}"
    _print(ack, as_json, going_on if ack.get("going_on") else done)
    if as_json:
        return
    if again := _words(ack, "again"):
        typer.echo(f"queued again: {again}")
    if lost := _words(ack, "lost"):
        typer.echo(f"lost, offer them with `choragos again`: {lost}")


def answer(
    target: Annotated[
        str, typer.Argument(metavar="TASK|ROLE", help="Whose question, like T3 or coder.")
    ],
    text: Annotated[str, typer.Argument(help="The answer; Enter follows it.")] = "",
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--keys",
            "--key",
            help="Keys instead, repeated or by commas: enter, esc, tab, up, down, y, 2, …",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Answer the question that a role's pane shows."""
    presses = tuple(key for item in keys or () for key in _keys(item))
    if not text.strip() and not presses:
        fail("answer needs a text or --keys")
    ack = send(Command(Verb.ANSWER, id=target, task=text, keys=presses))
    _print(ack, as_json, f"answered {ack.get('role')}; it is {ack.get('state')} now")
    if not as_json and text.strip() and not ack.get("enter"):
        typer.echo("note: the text alone changed the question, so Enter was not sent", err=True)


def _keys(item: str) -> list[str]:
    return [item] if item == "," else [key.strip() for key in item.split(",") if key.strip()]


def enforce(
    state: Annotated[str, typer.Argument(metavar="on|off", help="on or off.")],
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Turn the gateway's enforcement on or off for the running session."""
    if state not in ("on", "off"):
        fail('enforce takes "on" or "off"')
    ack = send(Command(Verb.ENFORCE, id=state, reason=reason))
    said = "is" if ack.get("changed") else "was already"
    _print(ack, as_json, f"enforcement {said} {state}")
    if as_json:
        return
    if state == "off" and ack.get("changed"):
        typer.echo("warning: work goes out whether or not the gateway is ready", err=True)
    if state == "on" and ack.get("changed") and not ack.get("up"):
        typer.echo(
            "warning: the gateway is not ready; delegations are refused until it is", err=True
        )
    if unrouted := _words(ack, "unrouted"):
        typer.echo(
            f"warning: started without the gateway's address, so no work goes to them until "
            f"`choragos restart`: {unrouted}",
            err=True,
        )


def reload(as_json: Json = False) -> None:
    """Read the team file again and converge on it."""
    ack = send(Command(Verb.RELOAD))
    if as_json:
        typer.echo(json.dumps(ack, ensure_ascii=False))
        return
    typer.echo("reload requested; the outcome is in .choragos/logs/events.log")
    for what in ("added", "removed", "respawned", "changed"):
        if words := _words(ack, what):
            typer.echo(f"{what}: {words}")
    for change in ack.get("gates", ()):
        typer.echo(f"warning: {change}", err=True)
    for row in _rows(ack, "skipped"):
        typer.echo(f"note: {row.get('role')} skipped: {row.get('why')}", err=True)
    for row in _rows(ack, "failed"):
        typer.echo(f"error: {row.get('role')}: {row.get('why')}", err=True)
    if sections := _words(ack, "needs_restart"):
        typer.echo(f"note: changes that a restart of the session takes up: {sections}", err=True)
    if ack.get("going_on"):
        typer.echo("note: roles are still being started; see .choragos/logs/events.log", err=True)
    if _rows(ack, "failed"):
        raise typer.Exit(1)


def _roster() -> None:
    """Propose a new role."""


def roster_add(  # noqa: PLR0917 - its options, one by one
    name: Annotated[str, typer.Option("--name", help="The new role's name.")] = "",
    command: Annotated[str, typer.Option("--command", help="Its program.")] = "",
    arg: Annotated[
        list[str] | None, typer.Option("--arg", help="An argument; repeat it for more.")
    ] = None,
    model: Annotated[str, typer.Option("--model", help="Its model.")] = "",
    prompt_template: Annotated[
        str, typer.Option("--prompt-template", help="What the role is and does.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Propose a new role for the team."""
    if not name.strip() or not command.strip():
        fail("roster add needs --name <role> and --command <program>")
    ack = send(
        Command(
            Verb.ROSTER_ADD,
            role_name=name,
            role_command=command,
            role_args=tuple(arg or ()),
            role_model=model,
            role_prompt=prompt_template,
        )
    )
    if as_json:
        typer.echo(json.dumps(ack, ensure_ascii=False))
        return
    typer.echo("roster add requested; the outcome lands in the orchestrator's pane")
    if gate := ack.get("gate"):
        typer.echo(f"note: waits for an approval: choragos approve {gate}", err=True)


def _print(ack: Mapping[str, Any], as_json: bool, words: str) -> None:
    typer.echo(json.dumps(ack, ensure_ascii=False) if as_json else words)


def _words(ack: Mapping[str, Any], key: str) -> str:
    found = ack.get(key)
    return ", ".join(map(str, found)) if isinstance(found, list) else ""


def _rows(ack: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = ack.get(key)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
