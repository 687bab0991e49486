"""`choragos gates`, `show`, `approve`, `reject`: a person looks at what waits, and decides.

Owns these verbs' options and output. They decide only from outside the team: the deck refuses that
to anything that runs in a pane (contracts/deck.md section 2.3). With approvers in the session the
decision is signed here, by a key whose passphrase is asked for after what is decided was printed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from deck.cli.errands import ask, send
from deck.cli.failure import fail
from deck.cli.passphrase import ask_passphrase
from deck.cli.show import show, visible
from deck.cli.work import Json
from deck.protocol import Command, Verb

if TYPE_CHECKING:
    from rich.console import RenderableType

GateId = Annotated[str, typer.Argument(help="A gate's id, like G3.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the ledger.")]
As = Annotated[
    str, typer.Option("--as", help="Which approver decides; not needed with one key here.")
]
KeyDir = Annotated[
    Path | None, typer.Option("--key-dir", help="Where the approver's key is, if elsewhere.")
]
_COLUMNS: Final = ("gate", "about", "of", "role", "approvals", "label", "note")
#: What follows from a decision, for each kind of gate.
_FOLLOWS: Final[Mapping[tuple[str, str], str]] = {
    ("roster", "approved"): "{role} may join the team",
    ("roster", "rejected"): "{role} does not join the team",
    ("judge", "approved"): "the result of {id} is accepted",
    ("judge", "rejected"): "the result of {id} is not accepted",
    ("ownership", "approved"): "the result of {id} is accepted",
    ("ownership", "rejected"): "the result of {id} is not accepted",
    ("merge", "approved"): "the branch of {id} goes to its merge, see `choragos worktrees`",
    ("merge", "rejected"): "the branch of {id} is kept and not merged",
}


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.command("gates")(gates)
    app.command("show")(show)
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
    elif sys.stdout.isatty():
        from rich.console import Console

        Console().print(table(rows))
    else:
        for row in rows:
            typer.echo(in_a_line(row))


def table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return gates as a table for a terminal."""
    from deck.cli.live import render_rows

    cells = [
        (
            row["id"],
            row["what"],
            row["task"],
            row["role"],
            row["progress"],
            row["label"],
            _note(row) or row["brief"] or row["path"],
        )
        for row in rows
    ]
    return render_rows(_COLUMNS, cells)


def in_a_line(row: Mapping[str, Any]) -> str:
    """Return a gate in one line; that of a task has the form it always had."""
    about = f"{row['task']} -> {row['role']}" if row["task"] else row["role"]
    label = row["label"] if row["kind"] == "entry" else f"{row['what']}: {row['label']}"
    brief = f"  brief {row['brief']}" if row["brief"] else ""
    progress = f"  {row['progress']}" if row["progress"] else ""
    note = f"  {why}" if (why := _note(row)) else ""
    return visible(
        f"{row['id']}  {about}  {label}{brief}  hash {row['hash'][:12]}{progress}{note}",
        lines=False,
    )


def _note(row: Mapping[str, Any]) -> str:
    if row["state"] != "open":
        why = f": {row['reason']}" if row["reason"] else ""
        return f"{row['state']} by {row['approver']}{why}"
    if row["changed"]:
        return f"cannot be approved: {row['changed']}"
    return left(row["until"])


def left(until: int) -> str:
    """Return how long a gate stays open, in words; "" when it stays."""
    from deck.durations import format_age

    return f"expires in {format_age(until / 1e6 - time.time())}" if until else ""


def approve(
    gate: GateId, reason: Reason = "", name: As = "", key_dir: KeyDir = None, as_json: Json = False
) -> None:
    """Let what a gate holds go on, exactly as it was when the gate opened."""
    _decide(Command(Verb.APPROVE, id=gate, reason=_text(reason)), name, key_dir, as_json)


def reject(
    gate: GateId, reason: Reason = "", name: As = "", key_dir: KeyDir = None, as_json: Json = False
) -> None:
    """Refuse what a gate holds; the start role is told."""
    _decide(Command(Verb.REJECT, id=gate, reason=_text(reason)), name, key_dir, as_json)


def _text(reason: str) -> str:
    """What is signed must be what arrives: an argument need not be UTF-8, a command is."""
    return reason.encode("utf-8", "replace").decode()


def _decide(command: Command, name: str, key_dir: Path | None, as_json: bool) -> None:
    found = ask(Command(Verb.SHOW, id=command.id))
    row, signers = found.get("gate"), found.get("signers")
    # What the deck refuses in any case is sent all the same: the attempt belongs on record.
    if isinstance(row, dict) and not found.get("objection"):
        command = replace(command, id=row["id"])
        if row["state"] == "open" and signers:
            command = _signed(command, found, name, key_dir)
        elif row["state"] == "open" and name:
            command = replace(command, approver=name)
    ack = send(command)
    if as_json:
        typer.echo(json.dumps(ack, ensure_ascii=False))
    else:
        typer.echo(said(ack))


def _signed(command: Command, found: Mapping[str, Any], name: str, key_dir: Path | None) -> Command:
    """Show what is decided, ask for the passphrase, and sign."""
    from deck.approvals import Statement, sign
    from deck.approver_keys import KeyProblem, key_directory, open_key

    directory, row = key_directory(key_dir), found["gate"]
    name = name or _only_key(directory, found["signers"])
    if name not in found["signers"]:
        fail(
            f"{name} was no approver when this session started; {row['id']} is decided by "
            f"{', '.join(found['signers'])}"
        )
    verb = "approves" if command.verb is Verb.APPROVE else "rejects"
    typer.echo(f"{name} {verb} {_summary(row)}", err=True)
    try:
        key = open_key(directory, name, ask_passphrase(f"passphrase of {name}"))
    except KeyProblem as problem:
        fail(problem)
    statement = Statement(
        run=str(found["run"]),
        gate=row["id"],
        kind=row["kind"],
        digest=row["hash"],
        decision="approved" if command.verb is Verb.APPROVE else "rejected",
        reason=command.reason,
        signed_at=time.time_ns() // 1000,
    )
    return replace(command, approver=name, sig=sign(key, statement), signed_at=statement.signed_at)


def _only_key(directory: Path, signers: list[str]) -> str:
    from deck.approver_keys import key_names

    here = key_names(directory)
    fitting = [name for name in here if name in signers]
    if len(here) == 1:
        return here[0]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        fail(f"the keys of {', '.join(fitting)} are here; say who decides with --as")
    return fail(
        f"no key of {', '.join(signers)} is in {directory}; make one with `choragos approver "
        "add NAME`, or say where it is with --key-dir"
    )


def _summary(row: Mapping[str, Any]) -> str:
    lines = [f"{row['id']}: {row['what']}"]
    for title, value in (
        ("task", f"{row['task']}  {row['label']}".strip()),
        ("role", row["role"]),
        ("why", row["why"]),
        ("brief", row["brief"]),
        ("file", row["path"]),
        ("digest", row["hash"]),
        ("approvals", row["progress"]),
        ("changed", row["changed"]),
    ):
        if value:
            lines.append(f"  {title:<10} {value}")
    return "\n".join(visible(line, lines=False) for line in lines)


def said(ack: Mapping[str, Any]) -> str:
    """Return in words what a decision led to."""
    gate, decision = ack.get("gate"), ack.get("decision")
    if decision == "voted":
        given = ", ".join(ack.get("approvals", []))
        count = len(ack.get("approvals", []))
        return f"{gate} {count} of {ack.get('needed')} approvals ({given}); it needs another person"
    follows = _FOLLOWS.get((str(ack.get("kind")), str(decision)), "{id}")
    return f"{gate} {decision}: " + follows.format(id=ack.get("id"), role=ack.get("role"))
