"""`choragos show G3` and `show T3`: a gate or a task whole, as a person has to see it to decide.

Owns the drawing. Invariant: what agents wrote is text and nothing else: a character that a
terminal would act on, or that would hide or reorder others, is shown by its number. Long answers
go through the pager only where somebody sits at a terminal.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from deck.cli.errands import send
from deck.cli.work import Json
from deck.protocol import Command, Verb


def visible(text: str, *, lines: bool = True) -> str:
    """Return text from agents fit for a terminal: control, formatting and other unseen characters
    as `\\x1b` or `\\u202e`; with `lines`, line breaks and tabs stay."""
    kept = "\n\t" if lines else ""
    plain = text.replace("\r\n", "\n") if lines else text
    return "".join(
        c if c.isprintable() or c in kept else c.encode("unicode_escape", "surrogatepass").decode()
        for c in plain
    )


def show(
    what: Annotated[str, typer.Argument(help="The id of a gate or a task, like G3 or T3.")],
    no_pager: Annotated[
        bool, typer.Option("--no-pager", help="Print, however long it is.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show all there is about a gate or a task: what would be approved, what became of it."""
    found = send(Command(Verb.SHOW, id=what))
    if as_json:
        found.pop("status", None)
        typer.echo(json.dumps(found, ensure_ascii=False, indent=2))
        return
    printed(drawn(found), no_pager=no_pager)


def drawn(found: Mapping[str, Any]) -> str:
    """Return an answer as text, fit for a terminal."""
    lines = [*(_gate(found) if "gate" in found else _task(found)), *_parts(found)]
    return "\n".join(visible(line, lines=False) for line in lines)


def printed(text: str, *, no_pager: bool = False) -> None:
    """Print a text, through the pager where it is longer than the terminal of whoever reads it."""
    long = text.count("\n") + 2 > shutil.get_terminal_size().lines
    if long and not no_pager and sys.stdin.isatty() and sys.stdout.isatty():
        import pydoc

        pydoc.pager(text)
    else:
        typer.echo(text)


def _gate(found: Mapping[str, Any]) -> Iterator[str]:
    row = found["gate"]
    yield f"{row['id']}  {row['what']}, {_decision(row)}"
    yield from _fields(
        {
            "task": f"{row['task']}  {row['label']}" if row["task"] else "",
            "role": row["role"],
            "asked by": row["from"],
            "why": row["why"],
            "opened": _time(row["at"]),
            "expires": _time(row["until"]),
            "digest": row["hash"],
            "approvals": row["progress"],
            "signed by": ", ".join(found["signers"]),
            "changed": row["changed"],
        }
    )


def _decision(row: Mapping[str, Any]) -> str:
    if row["state"] == "open":
        return "open"
    reason = f": {row['reason']}" if row["reason"] else ""
    return f"{row['state']} by {row['approver']}{reason}"


def _task(found: Mapping[str, Any]) -> Iterator[str]:
    row = found["task"]
    yield f"{row['id']}  {row['state']}  {row['role']}"
    yield from _fields(
        {
            "asked by": row["from"],
            "reason": row["reason"],
            "question": row.get("question", ""),
            "gate": row["gate"],
        }
    )
    yield ""
    for step in found["history"]:
        yield f"  {_time(step['at']) or ' ' * 20}  {step['said']}"


def _parts(found: Mapping[str, Any]) -> Iterator[str]:
    for part in found["parts"]:
        path = f" ({part['path']})" if part["path"] else ""
        yield ""
        yield f"--- {part['title']}{path}"
        # Indented, so that no text can pass for a line of ours.
        yield from (f"  {line}" for line in visible(part["text"]).expandtabs().split("\n"))
        if part["cut"]:
            yield "--- the rest is too long to be shown here"


def _fields(fields: Mapping[str, str]) -> Iterator[str]:
    for title, value in fields.items():
        if value:
            yield f"  {title:<10} {value}"


def _time(at: int) -> str:
    if not at:
        return ""
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat(timespec="seconds")[:19] + "Z"
