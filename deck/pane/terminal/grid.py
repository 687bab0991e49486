"""The cells of a terminal and everything that decides where the next character lands.

Built on pyte's Screen (its cursor, tab stops, title and margins); cells and history are ours.
Owns the state; what changes it are the modules beside this one, and the primitives here that they
share: move, scroll, shift, blank. Invariants: the cursor is inside the screen and a pending wrap is
a flag; a wide character is never half overwritten; every changed row has a new version. Called by
`writing`, `movement`, `editing`, `modes`, `reflow` and `screen`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import pyte

from deck.pane.terminal.cells import DEFAULT_COLOR, PLAIN, Row, Style, Wrap
from deck.pane.terminal.history import History

MAX_SIZE: Final = 1000
INSERT: Final = 4
NEW_LINE: Final = 20
ORIGIN: Final = 6
AUTOWRAP: Final = 7
CURSOR_SHOWN: Final = 25


class Saved(NamedTuple):
    """What DECSC keeps. `g0` and `g1`: whether that set is line drawing."""

    y: int = 0
    x: int = 0
    style: Style = PLAIN
    origin: bool = False
    g0: bool = False
    g1: bool = False
    shifted: bool = False


class Grid(pyte.Screen):
    """`columns` x `lines` cells with `history` packed lines above them."""

    def __init__(self, columns: int, lines: int, history: int) -> None:
        self._stamp = 0
        self.history = History(history)
        super().__init__(max(1, min(columns, MAX_SIZE)), max(1, min(lines, MAX_SIZE)))
        self.mode = set()  # pyte keeps private modes here; ours are in `private`

    def reset(self) -> None:
        """RIS: everything to its start; the history stays."""
        self.mode = set()
        self.private: set[int] = {AUTOWRAP, CURSOR_SHOWN}
        self.saved_modes: dict[int, bool] = {}
        self.margins = None
        self.title = ""
        self.icon_name = ""
        self.cursor = pyte.screens.Cursor(0, 0)
        self.cursor_shape = 0
        # The last character filled the row; the next one begins a new row first.
        self.pending_wrap = False
        self.style = PLAIN
        # What erased cells look like: the background of `style`, nothing else.
        self.blank = PLAIN
        # Whether G0 and G1 are line drawing, and whether G1 is in use.
        self.drawing = [False, False]
        self.shifted = False
        self.saved = Saved()
        # The rows of the primary screen while the alternate one shows.
        self.primary: list[Row] | None = None
        self.primary_saved = Saved()
        # The last character drawn, for REP, and whether the next one may join it.
        self.last = ""
        self.joinable = False
        self.tabstops = set(range(8, self.columns, 8))
        self.grid = [self.new_row() for _ in range(self.lines)]
        self.set_region()

    # -- rows -----------------------------------------------------------------------------------

    def new_row(self) -> Row:
        """An empty row in the color of erased cells."""
        self._stamp += 1
        return Row(self.columns, self.blank, self._stamp)

    def touch(self, row: Row) -> None:
        """Say that the row has changed."""
        self._stamp += 1
        row.version = self._stamp

    def set_style(self, style: Style) -> None:
        """The look of the next character, and so of the next erased cell."""
        self.style = style
        self.blank = PLAIN if style.bg == DEFAULT_COLOR else Style(bg=style.bg)

    def break_run(self) -> None:
        """What comes next neither joins nor repeats the last character."""
        self.joinable = False
        self.last = ""

    # -- places ---------------------------------------------------------------------------------

    def set_region(self) -> None:
        """Take over the margins, which pyte keeps as one pair or none."""
        margins = self.margins
        self.top = margins.top if margins else 0
        self.bottom = margins.bottom if margins else self.lines - 1

    def move(self, y: int, x: int) -> None:
        """The cursor to a place, or as near as the screen allows."""
        self.cursor.y = max(0, min(y, self.lines - 1))
        self.cursor.x = max(0, min(x, self.columns - 1))
        self.pending_wrap = False

    def goto(self, y: int, x: int) -> None:
        """The cursor to a place as programs name it: within the margins in origin mode."""
        if ORIGIN in self.private:
            y = min(y + self.top, self.bottom)
        self.move(y, x)

    def index(self) -> None:
        """Down one row, scrolling at the bottom margin."""
        if self.cursor.y == self.bottom:
            self.scroll_up(1)
        elif self.cursor.y < self.lines - 1:
            self.cursor.y += 1

    def reverse_index(self) -> None:
        """Up one row, scrolling at the top margin."""
        self.pending_wrap = False
        if self.cursor.y == self.top:
            self.scroll_down(self.top, 1)
        elif self.cursor.y > 0:
            self.cursor.y -= 1

    # -- scrolling and shifting -----------------------------------------------------------------

    def scroll_up(self, count: int) -> None:
        """Scroll the region up; one that begins at the top of the primary screen feeds history."""
        gone = self.take_up(self.top, count)
        if self.top == 0 and self.primary is None:
            for row in gone:
                self.history.push(row)

    def take_up(self, top: int, count: int) -> list[Row]:
        """Move the rows from `top` to the bottom margin up; returns those that fell out."""
        grid, bottom = self.grid, self.bottom
        count = min(count, bottom - top + 1)
        gone = grid[top : top + count]
        for _ in gone:  # nearly always one
            del grid[top]
            grid.insert(bottom, self.new_row())
        if top > 0:
            grid[top - 1].wrapped = Wrap.NO
        return gone

    def scroll_down(self, top: int, count: int) -> None:
        """Move the rows from `top` to the bottom margin down; the last ones are gone."""
        grid, bottom = self.grid, self.bottom
        count = min(count, bottom - top + 1)
        del grid[bottom + 1 - count : bottom + 1]
        grid[top:top] = [self.new_row() for _ in range(count)]
        grid[bottom].wrapped = Wrap.NO
        if top > 0:
            grid[top - 1].wrapped = Wrap.NO

    def open_gap(self, row: Row, x: int, count: int) -> None:
        """Insert blanks at x; what is pushed over the edge is lost."""
        count = min(count, self.columns - x)
        if count <= 0:
            return
        row.split(x)
        row.split(self.columns - count)
        row.chars[x:x] = [" "] * count
        row.styles[x:x] = [self.blank] * count
        del row.chars[self.columns :]
        del row.styles[self.columns :]
        row.wrapped = Wrap.NO
        self.touch(row)

    def close_gap(self, row: Row, x: int, count: int) -> None:
        """Delete characters at x; blanks come in at the edge."""
        count = min(count, self.columns - x)
        row.split(x)
        row.split(x + count)
        del row.chars[x : x + count]
        del row.styles[x : x + count]
        row.chars += [" "] * count
        row.styles += [self.blank] * count
        row.wrapped = Wrap.NO
        self.touch(row)
