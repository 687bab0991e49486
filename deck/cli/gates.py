"""`choragos gates`, `approve`, `reject`: a person decides what may be handed out.

Owns these verbs' options and output. They work only from outside the team: the deck refuses them
to anything that runs in a pane (contracts/deck.md section 2.3).
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from deck.cli.work import Json, send
from deck.protocol import Command, Verb

GateId = Annotated[str, typer.Argument(help="A gate's id, like G3.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the ledger.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.command("gates")(gates)
    app.command("approve")(approve)
    app.command("reject")(reject)


def gates(
    every: Annotated[bool, typer.Option("--all", help="Show decided gates too.")] = False,
    as_json: Json = False,
) -> None:
    """List what waits for an approval."""
    rows = [g for g in send(Command(Verb.GATES)).get("gates", []) if every or g["state"] == "open"]
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    if not rows:
        typer.echo("no gates" if every else "no open gates")
    for row in rows:
        brief = f"  brief {row['brief']}" if row["brief"] else ""
        decided = "" if row["state"] == "open" else f"  {row['state']} by {row['approver']}"
        typer.echo(
            f"{row['id']}  {row['task']} -> {row['role']}  {row['label']}{brief}"
            f"  hash {row['hash'][:12]}{decided}"
        )


def approve(gate: GateId, reason: Reason = "", as_json: Json = False) -> None:
    """Let a gated task go, exactly as it was when the gate opened."""
    _decide(Command(Verb.APPROVE, id=gate, reason=reason), as_json)


def reject(gate: GateId, reason: Reason = "", as_json: Json = False) -> None:
    """Refuse a gated task; the start role is told to revise it."""
    _decide(Command(Verb.REJECT, id=gate, reason=reason), as_json)


def _decide(command: Command, as_json: bool) -> None:
    ack = send(command)
    if as_json:
        typer.echo(json.dumps(ack, ensure_ascii=False))
    else:
        typer.echo(f"{ack.get('gate')} {ack.get('decision')}: {ack.get('id')}")
