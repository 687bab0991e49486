"""`choragos doctor`: will this team run here; one line a check, exit 1 if one failed.

Owns the verb's options and nothing else: the checks are in `deck.doctor`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from deck.cli.failure import fail, here


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("doctor")(doctor)


def doctor(
    config: Annotated[Path | None, typer.Option("--config", help="Team file to check.")] = None,
) -> None:
    """Check the team file, the programs, the terminal, the gateway and git."""
    from deck.doctor import Level, collect, diagnose

    findings = diagnose(collect(config, here(), os.environ))
    for finding in findings:
        typer.echo(finding.line())
    failed = sum(finding.level is Level.FAIL for finding in findings)
    if failed:
        fail(f"{failed} check(s) failed")
