"""Lines that have left the screen at the top, packed: text, and runs of style where there are any.

Owns the format of a packed line and the bound on how many are kept. Invariants: a packed line gives
its cells back exactly; a plain line of 60 characters costs about 200 bytes, so that ten thousand
of them stay near 2 MB. `pushed` counts lines ever pushed, which is what a viewer that is scrolled
back follows. Called by `grid`, `reflow` and whoever draws history.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from deck.pane.terminal.cells import PLAIN, Row, Style, Wrap
from deck.pane.terminal.widths import cluster_width, clusters

# A run of one style in a packed line: length, colors, flags, underline, number of its link.
_RUN: Final = struct.Struct("<HiiiBBH")


class Line(NamedTuple):
    """A row packed for history: its text and its runs of style, nothing for a plain one."""

    text: str
    wrapped: bool = False
    runs: bytes = b""
    links: tuple[str, ...] = ()

    def spans(self) -> list[tuple[int, Style]]:
        """(length, style) from the left; what follows the last one is plain."""
        return [
            (count, Style(fg, bg, attrs, underline, line, self.links[link - 1] if link else ""))
            for count, fg, bg, line, attrs, underline, link in _RUN.iter_unpack(self.runs)
        ]


def pack(row: Row) -> Line:
    """The row as a history line. Trailing plain blanks are dropped unless the row is wrapped."""
    wrapped = bool(row.wrapped)
    chars, styles = row.chars, row.styles
    if row.wrapped is Wrap.SHORT:
        chars, styles = chars[: row.used()], styles[: row.used()]
    text = "".join(chars) if wrapped else "".join(chars).rstrip(" ")
    if styles.count(PLAIN) == len(styles):
        return Line(text, wrapped)
    runs: list[bytes] = []
    links: list[str] = []
    start, current = 0, styles[0]
    for column, style in enumerate(styles):
        if style is not current and style != current:
            runs.append(_pack_run(column - start, current, links))
            start, current = column, style
    if current != PLAIN:
        runs.append(_pack_run(len(styles) - start, current, links))
    return Line(text, wrapped, b"".join(runs), tuple(links))


def _pack_run(count: int, style: Style, links: list[str]) -> bytes:
    fg, bg, attrs, underline, line, link = style
    if link and link not in links:
        links.append(link)
    number = links.index(link) + 1 if link else 0
    return _RUN.pack(count, fg, bg, line, attrs, underline, number)


def cells_of(line: Line) -> tuple[list[str], list[Style]]:
    """A history line as cells again, as many columns as it needs."""
    chars: list[str] = []
    for cluster in clusters(line.text):
        chars.append(cluster)
        if cluster_width(cluster) == 2:
            chars.append("")
    styles: list[Style] = []
    for count, style in line.spans():
        styles += [style] * count
    missing = len(styles) - len(chars)
    if missing > 0:
        chars += [" "] * missing
    else:
        styles += [PLAIN] * -missing
    return chars, styles


class History:
    """The last `limit` packed lines, oldest first."""

    __slots__ = ("_lines", "pushed")

    def __init__(self, limit: int) -> None:
        self._lines: deque[Line] = deque(maxlen=max(0, limit))
        self.pushed = 0

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[Line]:
        return iter(self._lines)

    def __reversed__(self) -> Iterator[Line]:
        return reversed(self._lines)

    def __getitem__(self, index: int) -> Line:
        return self._lines[index]

    def push(self, row: Row) -> None:
        """Take a row that left the screen; the oldest line goes when there is no room."""
        if self._lines.maxlen:
            self._lines.append(pack(row))
        self.pushed += 1

    def take_unfinished(self) -> list[Line]:
        """Take back the newest lines that go on in the first row of the screen, oldest first."""
        taken: list[Line] = []
        while self._lines and self._lines[-1].wrapped:
            taken.append(self._lines.pop())
        self.pushed -= len(taken)
        taken.reverse()
        return taken

    def clear(self) -> None:
        """Forget all lines; the count of those ever pushed stands."""
        self._lines.clear()
