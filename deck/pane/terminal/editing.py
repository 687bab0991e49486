"""Sequences that erase, insert, delete, scroll and repeat.

One function a sequence, one line in the table each. Invariants: erased cells take the current
background and nothing else; deleted lines never enter history; erasing saved lines leaves the
screen. Called through `screen`'s table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from deck.pane.terminal.cells import PLAIN, Row, Wrap
from deck.pane.terminal.grid import Grid
from deck.pane.terminal.movement import Params
from deck.pane.terminal.writing import write_again


def _ed(g: Grid, p: Params) -> None:
    y = g.cursor.y
    if p[0] == 0:
        _el(g, (0,))
        _erase_rows(g, y + 1, g.lines)
    elif p[0] == 1:
        _erase_rows(g, 0, y)
        _el(g, (1,))
    elif p[0] == 2:
        _erase_rows(g, 0, g.lines)
    elif p[0] == 3:
        g.history.clear()
    g.pending_wrap = False


def _erase_rows(g: Grid, start: int, stop: int) -> None:
    for y in range(start, stop):
        g.grid[y] = g.new_row()
    if 0 < start < stop:
        g.grid[start - 1].wrapped = Wrap.NO


def _el(g: Grid, p: Params) -> None:
    row, x = g.grid[g.cursor.y], g.cursor.x
    if p[0] == 0:
        row.fill(x, g.columns, g.blank)
        row.wrapped = Wrap.NO
    elif p[0] == 1:
        row.fill(0, x + 1, g.blank)
    elif p[0] == 2:
        row.fill(0, g.columns, g.blank)
        row.wrapped = Wrap.NO
    g.touch(row)
    g.pending_wrap = False


def _ech(g: Grid, p: Params) -> None:
    row, x = g.grid[g.cursor.y], g.cursor.x
    row.fill(x, min(g.columns, x + (p[0] or 1)), g.blank)
    g.touch(row)
    g.pending_wrap = False


def _ich(g: Grid, p: Params) -> None:
    g.open_gap(g.grid[g.cursor.y], g.cursor.x, p[0] or 1)
    g.pending_wrap = False


def _dch(g: Grid, p: Params) -> None:
    g.close_gap(g.grid[g.cursor.y], g.cursor.x, p[0] or 1)
    g.pending_wrap = False


def _il(g: Grid, p: Params) -> None:
    y = g.cursor.y
    if g.top <= y <= g.bottom:
        g.scroll_down(y, p[0] or 1)
        g.move(y, 0)


def _dl(g: Grid, p: Params) -> None:
    y = g.cursor.y
    if g.top <= y <= g.bottom:
        g.take_up(y, p[0] or 1)
        g.move(y, 0)


def _su(g: Grid, p: Params) -> None:
    g.scroll_up(p[0] or 1)


def _sd(g: Grid, p: Params) -> None:
    if len(p) < 5:  # five parameters: mouse tracking
        g.scroll_down(g.top, p[0] or 1)


def _sl(g: Grid, p: Params) -> None:
    _shift_columns(g, 0, p[0] or 1, g.close_gap)


def _sr(g: Grid, p: Params) -> None:
    _shift_columns(g, 0, p[0] or 1, g.open_gap)


def _decic(g: Grid, p: Params) -> None:
    _shift_columns(g, g.cursor.x, p[0] or 1, g.open_gap)


def _decdc(g: Grid, p: Params) -> None:
    _shift_columns(g, g.cursor.x, p[0] or 1, g.close_gap)


def _shift_columns(g: Grid, x: int, count: int, shift: Callable[[Row, int, int], None]) -> None:
    """Open or close columns at x in every row between the margins, if the cursor is there."""
    if g.top <= g.cursor.y <= g.bottom:
        for row in g.grid[g.top : g.bottom + 1]:
            shift(row, x, count)


def _rep(g: Grid, p: Params) -> None:
    write_again(g, p[0] or 1)


def alignment(g: Grid) -> None:
    """DECALN: the screen full of E."""
    g.margins = None
    g.set_region()
    for row in g.grid:
        row.chars[:] = "E" * g.columns
        row.styles[:] = [PLAIN] * g.columns
        row.wide, row.wrapped = False, Wrap.NO
        g.touch(row)
    g.move(0, 0)


CSI: Final[Mapping[str, Callable[[Grid, Params], None]]] = {
    "@": _ich, "J": _ed, "K": _el, "L": _il, "M": _dl, "P": _dch, "S": _su, "T": _sd, "X": _ech,
    "^": _sd, "b": _rep, "?J": _ed, "?K": _el, " @": _sl, " A": _sr, "'}": _decic, "'~": _decdc,
}  # fmt: skip
