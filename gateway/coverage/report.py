"""What a person, or a program, sees of the matrix. Called by `sphragis coverage`."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gateway.coverage.matrix import BAD, ENCODINGS, Outcome
from gateway.coverage.run import CLEAN, Cell, Report, run_matrix
from gateway.routing import calls
from gateway.settings import load_settings

_LETTERS: Final = {Outcome.REDACTED: "+", Outcome.REFUSED: "r", Outcome.LEAKED: "L"}
_STYLES: Final = {
    Outcome.REDACTED: "green",
    Outcome.REFUSED: "cyan",
    Outcome.LEAKED: "bold red",
    Outcome.ALTERED: "bold red",
    Outcome.BLOCKED: "bold red",
}


def print_routes() -> None:
    """Print the calls that are forwarded, one a line, whole however narrow the terminal is."""
    known = calls()
    widths = [max(len(call[column]) for call in known) for column in (0, 2, 3)]
    for method, template, provider, wire in known:
        names = zip((method, provider, wire), widths, strict=True)
        print("  ".join([*(name.ljust(width) for name, width in names), template]))


def print_coverage(
    *, url: str | None, listen: str, config: Path | None, as_json: bool, every: bool
) -> int:
    """Run the matrix and print it. Returns 0 when nothing leaked, else 1. Raises GatewayError."""
    settings, _ = load_settings(config)
    report = asyncio.run(run_matrix(url, listen, settings))
    if as_json:
        print(_as_json(report))
    else:
        _print(report, every=every)
    return 1 if report.bad else 0


def _as_json(report: Report) -> str:
    cells = [
        {
            "format": cell.wire,
            "position": cell.place,
            "encoding": cell.encoding,
            "outcome": cell.outcome.lower(),
            **({"sentence": cell.sentence} if cell.sentence else {}),
        }
        for cell in report.cells
    ]
    return json.dumps(
        {"positions": report.places, "bad": len(report.bad), "cells": cells}, ensure_ascii=False
    )


def _print(report: Report, *, every: bool) -> None:
    console = Console()
    cells = report.cells
    _print_sums(console, "format", [(cell.wire, cell) for cell in cells])
    _print_sums(console, "encoding", [(cell.encoding, cell) for cell in cells])
    if every:
        _print_places(console, cells)
    for cell in report.bad:
        console.print(
            f"[bold red]{cell.outcome}[/] {cell.wire}  {cell.place}  ({cell.encoding})  "
            f"{cell.sentence}",
            highlight=False,
        )
    formats = len({cell.wire for cell in cells})
    verdict = "[bold red]NOT SAFE[/]" if report.bad else "[bold green]nothing leaked[/]"
    refused = sum(cell.outcome is Outcome.REFUSED for cell in cells)
    console.print(
        f"{verdict}: {formats} formats, {report.places} positions, {len(cells)} cells, "
        f"{refused} refused, {len(report.bad)} bad",
        highlight=False,
    )


def _print_sums(console: Console, heading: str, rows: list[tuple[str, Cell]]) -> None:
    table = Table(header_style="bold")
    table.add_column(heading, no_wrap=True)
    for name in ("positions", "cells", "redacted", "refused", "bad"):
        table.add_column(name, justify="right")
    for name in dict.fromkeys(name for name, _ in rows):
        cells = [cell for known, cell in rows if known == name]
        outcomes = Counter(cell.outcome for cell in cells)
        places = {(cell.wire, cell.place) for cell in cells if cell.encoding != CLEAN}
        bad = sum(outcomes[outcome] for outcome in BAD)
        table.add_row(
            name,
            str(len(places)),
            str(len(cells)),
            f"[green]{outcomes[Outcome.REDACTED]}[/]",
            f"[cyan]{outcomes[Outcome.REFUSED]}[/]",
            f"[bold red]{bad}[/]" if bad else "0",
        )
    console.print(table)


def _print_places(console: Console, cells: list[Cell]) -> None:
    """One line for each position, one letter for each encoding."""
    console.print(f"[dim]one letter for each of {', '.join(ENCODINGS)}:[/]", highlight=False)
    legend = ", ".join(f"[{_STYLES[o]}]{_LETTERS[o]}[/] {o.lower()}" for o in _LETTERS)
    console.print(f"[dim]{legend}, - has no meaning there[/]", highlight=False)
    rows: dict[tuple[str, str], dict[str, Outcome]] = {}
    for cell in cells:
        if cell.encoding != CLEAN:
            rows.setdefault((cell.wire, cell.place), {})[cell.encoding] = cell.outcome
    for (wire, place), found in rows.items():
        letters = [
            f"[{_STYLES[found[e]]}]{_LETTERS[found[e]]}[/]" if e in found else "[dim]-[/]"
            for e in ENCODINGS
        ]
        console.print(f"{''.join(letters)}  {wire}  {escape(place)}", highlight=False)
