"""`choragos report`: what the last run did, from its event log.

Owns the verb's options and nothing else: the report is in `deck.report`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from deck.cli.failure import fail

DEFAULT_LOG: Final = Path(".choragos/logs/events.log")


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("report")(report)


def report(
    path: Annotated[Path, typer.Argument(help="The event log.")] = DEFAULT_LOG,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    every_run: Annotated[
        bool, typer.Option("--all", help="All runs in the file, not only the last.")
    ] = False,
) -> None:
    """Show tasks, times, tokens and cost by role."""
    from deck.events import parse_events
    from deck.report import NoEvents, Runs, build_report

    if path.is_char_device() or path.is_block_device():
        fail(f"{path} is a device, which may have no end; name an event log")
    try:
        found = build_report(parse_events(path), Runs.ALL if every_run else Runs.LAST)
    except FileNotFoundError:
        fail(f"{path} does not exist; run `choragos serve` here first, or name another event log")
    except OSError as failure:
        fail(f"{path} cannot be read: {failure.strerror}")
    except NoEvents as problem:
        fail(f"{path}: {problem}")
    typer.echo(found.as_json() if as_json else found.as_text(), nl=False)
