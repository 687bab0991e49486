"""Modes, margins, the saved cursor and the alternate screen.

Owns which modes exist here; DECRQM says of any other that it is not recognized. Invariants: the
alternate screen has no history and gives the primary one back as it was; the two keep a saved
cursor each; margins are a pair of rows at least two apart or none. Called through `screen`'s table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyte

from deck.pane.terminal.cells import PLAIN
from deck.pane.terminal.grid import AUTOWRAP, CURSOR_SHOWN, INSERT, NEW_LINE, ORIGIN, Grid, Saved
from deck.pane.terminal.movement import Params

APPLICATION_CURSOR: Final = 1
BRACKETED_PASTE: Final = 2004
SYNCHRONIZED: Final = 2026
SAVE_CURSOR: Final = 1048
ALTERNATE: Final = frozenset((47, 1047, 1049))
MOUSE: Final = (1003, 1002, 1000, 9)
ANSI_MODES: Final = frozenset((INSERT, NEW_LINE))
PRIVATE_MODES: Final = frozenset(
    (1, 3, 5, 6, 7, 9, 12, 25, 45, 47, 66, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016,
     1047, 1048, 1049, 2004, 2026, 2031)
)  # fmt: skip


def save_cursor(g: Grid) -> None:
    """DECSC."""
    g.saved = Saved(
        g.cursor.y, g.cursor.x, g.style, ORIGIN in g.private, g.drawing[0], g.drawing[1], g.shifted
    )


def restore_cursor(g: Grid) -> None:
    """DECRC."""
    saved = g.saved
    g.move(saved.y, saved.x)
    g.set_style(saved.style)
    g.drawing = [saved.g0, saved.g1]
    g.shifted = saved.shifted
    (g.private.add if saved.origin else g.private.discard)(ORIGIN)


def designate(g: Grid, body: str) -> None:
    """SCS: G0 or G1 to line drawing or to letters."""
    g.drawing[body[0] == ")"] = body[1] == "0"


def private_state(g: Grid, mode: int) -> int:
    """What DECRQM says of a private mode: 1 set, 2 reset, 0 not recognized."""
    if mode in ALTERNATE:
        return 1 if g.primary is not None else 2
    if mode in PRIVATE_MODES:
        return 1 if mode in g.private else 2
    return 0


def ansi_state(g: Grid, mode: int) -> int:
    """The same for the modes without a question mark."""
    return (1 if mode in g.mode else 2) if mode in ANSI_MODES else 0


def _decstbm(g: Grid, p: Params) -> None:
    top = (p[0] or 1) - 1
    bottom = (p[1] if len(p) > 1 and p[1] else g.lines) - 1
    bottom = min(bottom, g.lines - 1)
    if top >= bottom:
        return
    whole = top == 0 and bottom == g.lines - 1
    g.margins = None if whole else pyte.screens.Margins(top, bottom)
    g.set_region()
    g.goto(0, 0)


def _sm(g: Grid, p: Params) -> None:
    g.mode.update(m for m in p if m in ANSI_MODES)


def _rm(g: Grid, p: Params) -> None:
    g.mode.difference_update(p)


def _decset(g: Grid, p: Params) -> None:
    for mode in p:
        _set_private(g, mode)


def _decrst(g: Grid, p: Params) -> None:
    for mode in p:
        _reset_private(g, mode)


def _set_private(g: Grid, mode: int) -> None:
    if mode == SAVE_CURSOR:
        save_cursor(g)
    elif mode in ALTERNATE:
        _enter_alternate(g, mode)
    elif mode in PRIVATE_MODES:
        g.private.add(mode)
        if mode == ORIGIN:
            g.goto(0, 0)


def _reset_private(g: Grid, mode: int) -> None:
    if mode == SAVE_CURSOR:
        restore_cursor(g)
    elif mode in ALTERNATE:
        _leave_alternate(g, mode)
    else:
        g.private.discard(mode)
        if mode == ORIGIN:
            g.goto(0, 0)
        elif mode == AUTOWRAP:
            g.pending_wrap = False


def _enter_alternate(g: Grid, mode: int) -> None:
    if mode == 1049:
        save_cursor(g)
    if g.primary is not None:
        if mode == 1049:  # entered again: cleared, as xterm does
            g.grid = [g.new_row() for _ in range(g.lines)]
            g.pending_wrap = False
        return
    g.primary, g.primary_saved = g.grid, g.saved
    g.saved = Saved()
    g.private.add(mode)
    g.grid = [g.new_row() for _ in range(g.lines)]


def _leave_alternate(g: Grid, mode: int) -> None:
    if g.primary is not None:
        g.grid, g.primary = g.primary, None
        g.private -= ALTERNATE
        for row in g.grid:
            g.touch(row)
        g.saved = g.primary_saved
    if mode == 1049:  # also where there is nothing to leave, as xterm does
        restore_cursor(g)


def _xtsave(g: Grid, p: Params) -> None:
    for mode in p:
        if mode in PRIVATE_MODES:
            g.saved_modes[mode] = mode in g.private


def _xtrestore(g: Grid, p: Params) -> None:
    for mode in p:
        if mode in g.saved_modes:
            (_set_private if g.saved_modes[mode] else _reset_private)(g, mode)


def _decstr(g: Grid, _: Params) -> None:
    """Soft reset: modes and rendition, not the screen."""
    g.mode.clear()
    g.private -= {ORIGIN, APPLICATION_CURSOR}
    g.private |= {AUTOWRAP, CURSOR_SHOWN}
    g.margins = None
    g.set_region()
    g.set_style(PLAIN)
    g.drawing, g.shifted = [False, False], False
    g.saved = Saved()


def _decscusr(g: Grid, p: Params) -> None:
    g.cursor_shape = p[0] if p[0] <= 6 else 0


CSI: Final[Mapping[str, Callable[[Grid, Params], None]]] = {
    "h": _sm, "l": _rm, "?h": _decset, "?l": _decrst, "?s": _xtsave, "?r": _xtrestore,
    "r": _decstbm, "s": lambda g, _: save_cursor(g), "u": lambda g, _: restore_cursor(g),
    "!p": _decstr, " q": _decscusr,
}  # fmt: skip
