"""Control characters and sequences that move the cursor, and the tab stops.

One function a sequence, one line in a table each. Invariants: relative moves stop at the margins
when they begin inside them, absolute ones count from the top margin in origin mode. Called through
`screen`'s tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from deck.pane.terminal.grid import NEW_LINE, Grid

Params = tuple[int, ...]


def carriage_return(g: Grid) -> None:
    """CR."""
    g.cursor.x = 0
    g.pending_wrap = False


def line_feed(g: Grid) -> None:
    """LF, VT, FF: down one row; to the first column too in new-line mode."""
    g.pending_wrap = False
    g.index()
    if NEW_LINE in g.mode:
        g.cursor.x = 0


def next_line(g: Grid) -> None:
    """NEL."""
    carriage_return(g)
    g.index()


def down(g: Grid) -> None:
    """IND."""
    g.pending_wrap = False
    g.index()


def backspace(g: Grid) -> None:
    """BS."""
    g.pending_wrap = False
    g.cursor.x = max(0, g.cursor.x - 1)


def set_tab_stop(g: Grid) -> None:
    """HTS."""
    g.tabstops.add(g.cursor.x)


def tab(g: Grid) -> None:
    """HT."""
    _tab(g, 1)


def _tab(g: Grid, count: int) -> None:
    if g.pending_wrap:
        return
    stops = sorted(t for t in g.tabstops if t > g.cursor.x)
    g.cursor.x = stops[count - 1] if count <= len(stops) else g.columns - 1


def _shift_out(g: Grid) -> None:
    g.shifted = True


def _shift_in(g: Grid) -> None:
    g.shifted = False


def _cuu(g: Grid, p: Params) -> None:
    limit = g.top if g.cursor.y >= g.top else 0
    g.move(max(limit, g.cursor.y - (p[0] or 1)), g.cursor.x)


def _cud(g: Grid, p: Params) -> None:
    limit = g.bottom if g.cursor.y <= g.bottom else g.lines - 1
    g.move(min(limit, g.cursor.y + (p[0] or 1)), g.cursor.x)


def _cuf(g: Grid, p: Params) -> None:
    g.move(g.cursor.y, g.cursor.x + (p[0] or 1))


def _cub(g: Grid, p: Params) -> None:
    g.move(g.cursor.y, g.cursor.x - (p[0] or 1))


def _cnl(g: Grid, p: Params) -> None:
    _cud(g, p)
    g.cursor.x = 0


def _cpl(g: Grid, p: Params) -> None:
    _cuu(g, p)
    g.cursor.x = 0


def _cha(g: Grid, p: Params) -> None:
    g.move(g.cursor.y, (p[0] or 1) - 1)


def _vpa(g: Grid, p: Params) -> None:
    g.goto((p[0] or 1) - 1, g.cursor.x)


def _vpr(g: Grid, p: Params) -> None:
    g.move(g.cursor.y + (p[0] or 1), g.cursor.x)


def _cup(g: Grid, p: Params) -> None:
    column = p[1] if len(p) > 1 else 1
    g.goto((p[0] or 1) - 1, (column or 1) - 1)


def _cht(g: Grid, p: Params) -> None:
    _tab(g, p[0] or 1)


def _cbt(g: Grid, p: Params) -> None:
    stops = sorted((t for t in g.tabstops if t < g.cursor.x), reverse=True)
    count = p[0] or 1
    g.move(g.cursor.y, stops[count - 1] if count <= len(stops) else 0)


def _tbc(g: Grid, p: Params) -> None:
    if p[0] == 0:
        g.tabstops.discard(g.cursor.x)
    elif p[0] == 3:
        g.tabstops.clear()


CONTROLS: Final[Mapping[str, Callable[[Grid], None]]] = {
    "\r": carriage_return, "\n": line_feed, "\v": line_feed, "\f": line_feed,
    "\b": backspace, "\t": tab, "\x0e": _shift_out, "\x0f": _shift_in,
    "\x84": down, "\x85": next_line, "\x88": set_tab_stop, "\x8d": Grid.reverse_index,
}  # fmt: skip

ESCAPES: Final[Mapping[str, Callable[[Grid], None]]] = {
    "D": down, "E": next_line, "H": set_tab_stop, "M": Grid.reverse_index,
}  # fmt: skip

CSI: Final[Mapping[str, Callable[[Grid, Params], None]]] = {
    "A": _cuu, "B": _cud, "C": _cuf, "D": _cub, "E": _cnl, "F": _cpl, "G": _cha, "H": _cup,
    "I": _cht, "Z": _cbt, "`": _cha, "a": _cuf, "d": _vpa, "e": _vpr, "f": _cup, "g": _tbc,
}  # fmt: skip
