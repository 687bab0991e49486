"""Questions a program asks its terminal in control sequences, each with the text of its answer.

One function a question, one line in the table each. Rules: None is silence, which says "not
offered"; nothing that a program (or its output) could have put there is ever given back: a report
of the title would type it into the program. Called through `screen`'s table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from deck.pane.terminal.grid import ORIGIN, Grid
from deck.pane.terminal.modes import ansi_state, private_state
from deck.pane.terminal.movement import Params
from deck.pane.terminal.replies import (
    DARK_SCHEME,
    NAME_AND_VERSION,
    PRIMARY_ATTRIBUTES,
    SECONDARY_ATTRIBUTES,
)


def _da1(_: Grid, p: Params) -> str | None:
    return PRIMARY_ATTRIBUTES if p[0] == 0 else None


def _da2(_: Grid, p: Params) -> str | None:
    return SECONDARY_ATTRIBUTES if p[0] == 0 else None


def _xtversion(_: Grid, p: Params) -> str | None:
    return f"\x1bP>|{NAME_AND_VERSION}\x1b\\" if p[0] == 0 else None


def _position(g: Grid) -> str:
    y = g.cursor.y - (g.top if ORIGIN in g.private else 0)
    return f"{y + 1};{g.cursor.x + 1}"


def _dsr(g: Grid, p: Params) -> str | None:
    if p[0] == 5:
        return "\x1b[0n"
    return f"\x1b[{_position(g)}R" if p[0] == 6 else None


def _dsr_private(g: Grid, p: Params) -> str | None:
    if p[0] == 6:
        return f"\x1b[?{_position(g)};1R"
    return DARK_SCHEME if p[0] == 996 else None


def _decrqm(g: Grid, p: Params) -> str:
    return f"\x1b[?{p[0]};{private_state(g, p[0])}$y"


def _rqm(g: Grid, p: Params) -> str:
    return f"\x1b[{p[0]};{ansi_state(g, p[0])}$y"


def _winops(g: Grid, p: Params) -> str | None:
    """Only the size in cells is told."""
    return f"\x1b[8;{g.lines};{g.columns}t" if p[0] == 18 else None


CSI: Final[Mapping[str, Callable[[Grid, Params], str | None]]] = {
    "c": _da1, ">c": _da2, ">q": _xtversion, "n": _dsr, "?n": _dsr_private, "?$p": _decrqm,
    "$p": _rqm, "t": _winops,
}  # fmt: skip
