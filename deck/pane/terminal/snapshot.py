"""A screen written out as bytes for a viewer that joins late.

Invariant: a fresh terminal of the same size that reads them has this picture, these modes and this
cursor, and may read the program's next bytes. Called by every engine's `snapshot`.
"""

from __future__ import annotations

from itertools import groupby

from deck.pane.terminal.cells import PLAIN, Row, Style
from deck.pane.terminal.grid import AUTOWRAP, CURSOR_SHOWN, ORIGIN, Grid
from deck.pane.terminal.modes import ALTERNATE, SYNCHRONIZED
from deck.pane.terminal.rendition import sgr
from deck.pane.terminal.widths import joins


def snapshot(g: Grid) -> bytes:
    """Bytes that draw the grid on a fresh terminal of its size."""
    # Nothing wraps while rows are put in their places.
    out = ["\x1bc\x1b[?7l"]
    if g.primary is not None:
        out += [paint(g.primary), "\x1b[?1049h"]
    out.append(paint(g.grid) + "\x1b[?7h")
    if g.margins is not None:
        out.append(f"\x1b[{g.top + 1};{g.bottom + 1}r")
    out += _modes(g)
    if g.title:
        out.append(f"\x1b]2;{g.title}\x1b\\")
    if g.cursor_shape:
        out.append(f"\x1b[{g.cursor_shape} q")
    out.append(f"\x1b[{g.cursor.y + 1};{g.cursor.x + 1}H")
    if ORIGIN in g.private:
        row = max(0, g.cursor.y - g.top) + 1
        out.append(f"\x1b[?6h\x1b[{row};{g.cursor.x + 1}H")
    out.append(_look(g.style))
    out += [f"\x1b{side}0" for side, drawing in zip("()", g.drawing, strict=True) if drawing]
    if g.shifted:
        out.append("\x0e")
    return "".join(out).encode()


def _modes(g: Grid) -> list[str]:
    on = sorted(g.private - ALTERNATE - {ORIGIN, AUTOWRAP, CURSOR_SHOWN, SYNCHRONIZED})
    off = [mode for mode in (AUTOWRAP, CURSOR_SHOWN) if mode not in g.private]
    return [
        *(f"\x1b[?{mode}h" for mode in on),
        *(f"\x1b[?{mode}l" for mode in off),
        *(f"\x1b[{mode}h" for mode in sorted(g.mode)),
    ]


def paint(rows: list[Row]) -> str:
    """Every row at its place, from the default rendition and back to it."""
    out = []
    for y, row in enumerate(rows):
        parts = []
        stop = 0
        for style, run in groupby(row.styles):
            start, stop = stop, stop + len(list(run))
            text = _text(row, y, start, stop)
            if style == PLAIN and stop == len(row.chars):
                text = text.rstrip(" ")
            if text:
                parts.append(_look(style) + text)
        if parts:
            out += [f"\x1b[{y + 1}H", *parts, "\x1b]8;;\x1b\\\x1b[0m"]
    return "".join(out)


def _text(row: Row, y: int, start: int, stop: int) -> str:
    """The characters of some columns; where one would join its neighbor, placed by its column."""
    text = "".join(row.chars[start:stop])
    if text.isascii():
        return text
    chars = []
    for x in range(start, stop):
        cluster = row.chars[x]
        before = (row.chars[x - 1] or row.chars[x - 2]) if x else ""
        if cluster and before and joins(before, cluster[0]):
            chars.append(f"\x1b[{y + 1};{x + 1}H")
        chars.append(cluster)
    return "".join(chars)


def _look(style: Style) -> str:
    return f"\x1b]8;;{style.link}\x1b\\{sgr(style)}"
