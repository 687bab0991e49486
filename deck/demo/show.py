"""The demo's report on the terminal: headings, statements, pictures side by side, the checklist.

Owns the drawing and nothing else: it is handed finished facts and never decides whether one holds.
Originals are red, tokens green, everywhere. Called by the story.
"""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from deck.demo.evidence import TOKEN

#: Where the output is not a terminal, rich would guess 80; three panels want more.
_PLAIN_WIDTH: Final = 120
_SIDE_BY_SIDE_MIN: Final = 100
_EXCERPT_LINES: Final = 12


@dataclass(slots=True)
class Show:
    """The report as it is told. `originals` are the values to paint red."""

    console: Console
    originals: tuple[str, ...] = ()
    started: float = field(default_factory=time.monotonic)
    held: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    _steps: int = 0

    def title(self, subtitle: str) -> None:
        self.console.print()
        self.console.print(Text("Choragos: a team behind a gateway", style="bold"))
        self.console.print(Text(subtitle, style="dim"))

    def step(self, heading: str) -> None:
        """Begin a part of the story."""
        self._steps += 1
        seconds = time.monotonic() - self.started
        self.console.print()
        self.console.print(
            Rule(
                Text.assemble(
                    (f" {self._steps} ", "bold black on cyan"),
                    (f" {heading} ", "bold cyan"),
                    (f"{seconds:4.1f} s ", "dim"),
                ),
                align="left",
                style="cyan",
            )
        )

    def prose(self, text: str) -> None:
        self.console.print(self.paint(text))

    def shell(self, line: str) -> None:
        """Print a command to copy; it is never wrapped."""
        self.console.print(Text(f"  {line}", style="bold"), soft_wrap=True)

    def statement(self, text: str, *, holds: bool, detail: str = "") -> None:
        """Print a checked statement and remember it for the checklist."""
        (self.held if holds else self.failed).append(text)
        line = Text.assemble(self._mark(holds=holds), self.paint(text))
        if detail:
            line.append("  ").append_text(Text(detail, style="dim"))
        self.console.print(line)

    def command(self, line: str, said: str, code: int, *, lines: int = 8) -> None:
        """Print a command as it was run, what it said and its exit code."""
        self.console.print(Text.assemble(("$ ", "bold"), (line, "bold")))
        shown = said.splitlines()
        output = [self.paint(each) for each in shown[:lines]]
        if len(shown) > lines:
            output.append(Text(f"… {len(shown) - lines} more lines", style="dim"))
        output.append(Text(f"exit {code}", style="dim" if code == 0 else "yellow"))
        self.console.print(Padding(Group(*output), (0, 0, 0, 2)))

    def side_by_side(self, role: str, panels: Sequence[tuple[str, str]]) -> None:
        """Show texts beside each other (below each other where the terminal is narrow)."""
        boxes: list[RenderableType] = [
            Panel(self.paint(text), title=title, title_align="left", border_style="dim")
            for title, text in panels
        ]
        self.console.print(Text(role, style="bold"))
        if self.console.width < _SIDE_BY_SIDE_MIN:
            self.console.print(Group(*boxes))
            return
        grid = Table.grid(expand=True)
        for _ in boxes:
            grid.add_column(ratio=1)
        grid.add_row(*boxes)
        self.console.print(grid)

    def table(
        self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], right: int = 99
    ) -> None:
        """Print a table; columns from index `right` on are aligned to the right."""
        table = Table(title=title, title_justify="left", title_style="bold", header_style="cyan")
        for index, name in enumerate(columns):
            table.add_column(name, justify="right" if index >= right else "left")
        for row in rows:
            table.add_row(*(self.paint(cell) for cell in row))
        self.console.print(table)

    def diff(self, path: str, before: str, after: str) -> None:
        """Show what a file was and is, as a unified diff."""
        names = (f"{path} (T1's work)", f"{path} (now)")
        old, new = before.splitlines(), after.splitlines()
        for line in difflib.unified_diff(old, new, *names, n=1, lineterm=""):
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
            self.console.print(Text("  " + line, style=style))

    def failure(self, expected: str, came: str, log_name: str, tail: Sequence[str]) -> None:
        """Show why the story stopped: what was expected, what came, the end of the log."""
        body = Text.assemble(("expected  ", "bold"), expected, "\n", ("came      ", "bold"), came)
        if tail:
            body.append(f"\n\nthe end of {log_name}:\n", style="bold")
            body.append("\n".join(tail), style="dim")
        self.console.print(Panel(body, title="the story stops here", border_style="red"))

    def checklist(self) -> None:
        """Print every statement once more, with the count and the time."""
        seconds = time.monotonic() - self.started
        self.step("What was checked")
        both = [(True, text) for text in self.held] + [(False, text) for text in self.failed]
        lines = [Text.assemble(self._mark(holds=ok), self.paint(text)) for ok, text in both]
        if self.console.width >= _SIDE_BY_SIDE_MIN:
            half = (len(lines) + 1) // 2
            grid = Table.grid(expand=True, padding=(0, 2, 0, 0))
            grid.add_column(ratio=1)
            grid.add_column(ratio=1)
            grid.add_row(Group(*lines[:half]), Group(*lines[half:]))
            self.console.print(grid)
        else:
            self.console.print(Group(*lines))
        style = "bold red" if self.failed else "bold green"
        total = len(self.held) + len(self.failed)
        verdict = f"{len(self.held)} of {total} statements held, {seconds:.1f} s"
        self.console.print()
        self.console.print(Text(verdict, style=style))

    def _mark(self, *, holds: bool) -> tuple[str, str]:
        if self.console.options.ascii_only:
            return ("ok  ", "green") if holds else ("NOT ", "bold red")
        return ("✓ ", "bold green") if holds else ("✗ ", "bold red")

    def paint(self, text: str) -> Text:
        """Return the text with originals in red and tokens in green."""
        painted = Text(text, overflow="fold")
        for value in self.originals:
            painted.highlight_words([value], style="bold red")
        painted.highlight_regex(TOKEN.pattern, style="bold green")
        return painted


def console() -> Console:
    """Return the console to tell the story on: the terminal's width, or enough for the panels."""
    plain = Console()
    if plain.is_terminal or os.environ.get("COLUMNS"):
        return plain
    return Console(width=_PLAIN_WIDTH)


def excerpt(text: str, words: Iterable[str]) -> str:
    """Return the lines of `text` that hold one of `words` or a token, others folded into `…`."""
    wanted = list(words)
    shown: list[str] = []
    for line in text.splitlines():
        if TOKEN.search(line) or any(word in line for word in wanted):
            shown.append(line if len(line) <= 400 else line[:400] + "…")
        elif shown and shown[-1] != "…" and line.strip():
            shown.append("…")
        if len(shown) >= _EXCERPT_LINES:
            break
    while shown and shown[-1] == "…":
        shown.pop()
    return "\n".join(shown)
