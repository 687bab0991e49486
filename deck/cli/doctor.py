"""`choragos doctor`: will this team run here; one line a check, exit 1 if one failed.

Owns the verb's options and nothing else: the checks are in `deck.doctor`, the bundle that
`--bundle` writes in `deck.bundle`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deck.cli.failure import fail, here

if TYPE_CHECKING:
    from deck.doctor import Finding


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("doctor")(doctor)


def doctor(
    config: Annotated[Path | None, typer.Option("--config", help="Team file to check.")] = None,
    bundle: Annotated[
        str | None,
        typer.Option(
            "--bundle",
            metavar="[=PATH]",
            help="Also write a .tar.gz for a report: findings, settings and logs, no secrets.",
        ),
    ] = None,
    transcripts: Annotated[
        bool, typer.Option("--transcripts", help="Put what the agents showed in the bundle too.")
    ] = False,
) -> None:
    """Check the team file, the programs, the terminal, the gateway, its wall and git."""
    from deck.doctor import Level, diagnose
    from deck.facts import collect

    if transcripts and bundle is None:
        fail("--transcripts is about the bundle; add --bundle")
    directory = here()
    findings = diagnose(collect(config, directory, os.environ))
    _show(findings)
    if bundle is not None:
        lines = [finding.line() for finding in findings]
        _write(Path(bundle) if bundle else None, directory, lines, config, transcripts)
    failed = sum(finding.level is Level.FAIL for finding in findings)
    if failed:
        fail(f"{failed} check(s) failed")


def _show(findings: Sequence[Finding]) -> None:
    """Print the findings: lined up and folded on a terminal, as existing decks do elsewhere."""
    from shared.screen import folded, width

    names = max(len(finding.name) for finding in findings)
    for finding in findings:
        line = finding.line() if width() is None else finding.spread(names)
        typer.echo(folded(line, len(f"OK    {' ' * names} ")))


def _write(
    path: Path | None,
    directory: Path,
    lines: list[str],
    config: Path | None,
    transcripts: bool,
) -> None:
    from deck.bundle import BundleError, default_name, write_bundle

    wanted = path if path is not None else Path(default_name(time.time()))
    try:
        members = write_bundle(
            wanted, directory, lines, os.environ, config=config, transcripts=transcripts
        )
    except BundleError as problem:
        fail(problem)
    typer.echo(f"wrote {wanted} ({', '.join(members)}); look through it before you send it")
