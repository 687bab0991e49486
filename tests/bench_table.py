"""The one table all benches print: what was measured, the figure, its bar, and whether it holds.

A bar is a promise (README); a missed one is marked and fails nothing, because other work on the
machine shifts every figure. The processor's time, where it is known, is shifted less.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Row:
    """`bar` is the most `value` may be, the least where `least` says so; None: no promise."""

    what: str
    value: float
    unit: str
    bar: float | None = None
    least: bool = False
    beside: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether the figure is within its bar; None where there is none."""
        if self.bar is None:
            return None
        return self.value >= self.bar if self.least else self.value <= self.bar


#: All rows shown by this run, for the table at its end.
ALL: list[Row] = []


def show(title: str, rows: Iterable[Row]) -> None:
    """Print one bench's rows and keep those with a bar for the end."""
    shown = list(rows)
    ALL.extend(row for row in shown if row.bar is not None)
    Console(width=110).print(_table(title, shown))


def show_all() -> None:
    """Print every figure that has a bar."""
    if ALL:
        missed = sum(row.holds is False for row in ALL)
        # Builds of one version differ by a third in speed.
        build = f"Python {platform.python_version()} by {platform.python_compiler()}"
        title = f"all bars of this run: {len(ALL) - missed} of {len(ALL)} hold; {build}"
        Console(width=110).print(_table(title, ALL))


def _table(title: str, rows: Iterable[Row]) -> Table:
    table = Table(title=escape(title), title_justify="left")
    table.add_column("what", ratio=1)
    for name in ("value", "bar", ""):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("beside")
    for row in rows:
        sign = "" if row.bar is None else ("≥ " if row.least else "≤ ")
        mark = {None: "", True: "[green]ok[/]", False: "[red]FAIL[/]"}[row.holds]
        bar = "" if row.bar is None else f"{sign}{_figure(row.bar)} {row.unit}"
        table.add_row(escape(row.what), f"{_figure(row.value)} {row.unit}", bar, mark, row.beside)
    return table


def _figure(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
