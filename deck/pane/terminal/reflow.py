"""A screen at another size: soft-wrapped lines are wrapped anew, the alternate screen is cut.

Invariants: no character of the primary screen is lost by making it smaller, rows that no longer fit
go to history; the cursor stays on the character it was on and on the screen; a wide character is
never cut. Called by `screen`.
"""

from __future__ import annotations

from typing import NamedTuple

from deck.pane.terminal.cells import PLAIN, Row, Style, Wrap
from deck.pane.terminal.grid import MAX_SIZE, Grid
from deck.pane.terminal.history import cells_of


class _Place(NamedTuple):
    y: int
    x: int


def resize(g: Grid, lines: int, columns: int) -> None:
    """Give the grid another size (1 to MAX_SIZE each way). Margins go; the rest stays."""
    lines, columns = max(1, min(lines, MAX_SIZE)), max(1, min(columns, MAX_SIZE))
    if (lines, columns) == (g.lines, g.columns):
        return
    blank, g.blank = g.blank, PLAIN
    old_columns, g.columns = g.columns, columns
    # A pending wrap is the place behind the last column.
    at = _Place(g.cursor.y, g.cursor.x + g.pending_wrap)
    if g.primary is None:
        g.grid, at = _refit(g, g.grid, lines, old_columns, at)
    else:
        saved = g.primary_saved
        g.primary, there = _refit(g, g.primary, lines, old_columns, _Place(saved.y, saved.x))
        g.primary_saved = saved._replace(y=there.y, x=there.x)
        g.grid = _crop(g, g.grid, lines, at.y)
    g.lines = lines
    g.blank = blank
    g.margins = None
    g.set_region()
    g.tabstops = {t for t in g.tabstops if t < min(columns, old_columns)} | set(
        range((old_columns + 7) // 8 * 8, columns, 8)
    )
    g.move(at.y, at.x)
    g.pending_wrap = at.x >= columns and g.primary is None
    g.joinable = False


def _crop(g: Grid, rows: list[Row], lines: int, y: int) -> list[Row]:
    """The alternate screen at another size: cut and padded, nothing wrapped."""
    if len(rows) > lines:
        drop = min(len(rows) - lines, max(0, y - lines + 1))
        rows = rows[drop : drop + lines]
    for row in rows:
        _fit(g, row)
    return rows + [g.new_row() for _ in range(lines - len(rows))]


def _fit(g: Grid, row: Row) -> None:
    width = len(row.chars)
    if width > g.columns:
        row.split(g.columns)
        del row.chars[g.columns :]
        del row.styles[g.columns :]
    elif width < g.columns:
        row.chars += [" "] * (g.columns - width)
        row.styles += [PLAIN] * (g.columns - width)
    row.wrapped = Wrap.NO
    g.touch(row)


def _refit(
    g: Grid, rows: list[Row], lines: int, old_columns: int, at: _Place
) -> tuple[list[Row], _Place]:
    """Rows of the primary screen for a new size; returns them with the cursor's new place."""
    if old_columns != g.columns:
        rows, at = _rewrap(g, rows, at)
    last = max([at.y, *(i for i, row in enumerate(rows) if row.text())])
    rows = rows[: last + 1]
    excess = len(rows) - lines
    if excess > 0:
        # The cursor's row stays visible; what is above goes to history.
        drop = min(excess, max(0, at.y))
        for row in rows[:drop]:
            g.history.push(row)
        rows = rows[drop : drop + lines]
        at = at._replace(y=at.y - drop)
    return rows + [g.new_row() for _ in range(lines - len(rows))], at


def _rewrap(g: Grid, rows: list[Row], at: _Place) -> tuple[list[Row], _Place]:
    """Join soft-wrapped rows (those in history too, as far as they reach) and cut them anew."""
    fresh: list[Row] = []
    place = _Place(0, 0)
    chars: list[str] = []
    styles: list[Style] = []
    mark: int | None = None
    for line in g.history.take_unfinished():
        more, looks = cells_of(line)
        chars += more
        styles += looks
    for index, row in enumerate(rows):
        used = row.used()
        if index == at.y:
            mark = len(chars) + at.x
            used = max(used, min(at.x, len(row.chars)))
        chars += row.chars[:used]
        styles += row.styles[:used]
        if row.wrapped and index < len(rows) - 1:
            continue
        cut, found = _cut(g, chars, styles, mark)
        if found is not None:
            place = found._replace(y=len(fresh) + found.y)
        fresh += cut
        chars, styles, mark = [], [], None
    return fresh, place


def _cut(
    g: Grid, chars: list[str], styles: list[Style], mark: int | None
) -> tuple[list[Row], _Place | None]:
    """One logical line as rows; `mark` is an offset in it whose new place is returned."""
    rows: list[Row] = []
    at: _Place | None = None
    start = 0
    while True:
        stop = min(start + g.columns, len(chars))
        if stop < len(chars) and not chars[stop] and stop - 1 > start:
            stop -= 1  # a wide character goes to the next row whole
        row = _row_of(g, chars[start:stop], styles[start:stop])
        row.wrapped = Wrap.FULL if stop - start == g.columns else Wrap.SHORT
        rows.append(row)
        if mark is not None and (start <= mark < stop or stop >= len(chars)) and at is None:
            at = _Place(len(rows) - 1, min(max(mark - start, 0), g.columns))
        if stop >= len(chars):
            row.wrapped = Wrap.NO
            return rows, at
        start = stop


def _row_of(g: Grid, chars: list[str], styles: list[Style]) -> Row:
    row = g.new_row()
    row.chars[: len(chars)] = chars
    row.styles[: len(styles)] = styles
    row.wide = "" in chars
    if g.columns == 1 and row.wide:
        row.chars[0] = " "
    return row
