"""Printable characters into cells: wrapping, wide characters, clusters that share a cell.

Runs of one-column characters go in whole (this alone is several times pyte's speed); everything
else goes one by one. Invariant: text drawn a character at a time gives the same cells as text
drawn at once. Called by `screen` for output and by `editing` for REP.
"""

from __future__ import annotations

from typing import Final

from deck.pane.terminal.cells import Row, Wrap
from deck.pane.terminal.grid import AUTOWRAP, INSERT, Grid
from deck.pane.terminal.widths import (
    CLUSTER_LIMIT,
    SINGLE,
    VS16,
    char_width,
    joins,
    takes_emoji_selector,
)

_DRAWING: Final = str.maketrans(
    "`abcdefghijklmnopqrstuvwxyz{|}~_",
    "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·\u00a0",
)


def write(g: Grid, run: str) -> None:
    """Draw printable characters at the cursor."""
    if g.drawing[g.shifted]:
        run = run.translate(_DRAWING)
    if run.isascii():
        _put(g, run)
        return
    position, end = 0, len(run)
    while position < end:
        found = SINGLE.match(run, position)
        if found is not None:
            _put_after(g, found.group())
            position = found.end()
        else:
            _put_one(g, run[position])
            position += 1


def write_again(g: Grid, count: int) -> None:
    """Draw the last character `count` more times: REP."""
    cluster = g.last
    if not cluster or not char_width(cluster[0]):
        return
    count = min(count, g.columns * g.lines)
    if len(cluster) == 1 and char_width(cluster) == 1:
        _put(g, cluster * count)
        return
    for _ in range(count):
        g.joinable = False
        for c in cluster:
            _put_one(g, c)


def _put_after(g: Grid, run: str) -> None:
    """Like `_put`, for a run whose first character may still belong to an open cluster."""
    if g.joinable and _join(g, run[0]):
        run = run[1:]
    if run:
        _put(g, run)


def _put(g: Grid, run: str) -> None:
    """Draw characters of one column each."""
    cursor, columns, style, grid = g.cursor, g.columns, g.style, g.grid
    g.joinable = True
    g.last = run[-1]
    while run:
        if g.pending_wrap:
            if AUTOWRAP in g.private:
                _wrap_line(g, Wrap.FULL)
            else:
                run = run[-1]
            g.pending_wrap = False
        x = cursor.x
        part = run[: columns - x]
        count = len(part)
        run = run[count:]
        row = grid[cursor.y]
        if INSERT in g.mode:
            g.open_gap(row, x, count)
        end = x + count
        if row.wide:
            row.split(x)
            row.split(end)
        row.chars[x:end] = part
        row.styles[x:end] = [style] * count
        g.touch(row)
        if end < columns:
            cursor.x = end
        else:
            cursor.x = columns - 1
            g.pending_wrap = True


def _put_one(g: Grid, c: str) -> None:
    """Draw one character of any width; it may join the one before it."""
    if g.joinable and _join(g, c):
        return
    width = char_width(c)
    if width == 0:
        return
    if width == 1 or g.columns < 2:
        _put(g, c if width == 1 else " ")
        return
    cursor = g.cursor
    if g.pending_wrap or cursor.x == g.columns - 1:
        if AUTOWRAP in g.private:
            if not g.pending_wrap:
                g.grid[cursor.y].fill(cursor.x, g.columns, g.blank)
            _wrap_line(g, Wrap.FULL if g.pending_wrap else Wrap.SHORT)
        else:  # no room and no next row: xterm draws nothing
            g.break_run()
            return
        g.pending_wrap = False
    _place_wide(g, c)


def _place_wide(g: Grid, cluster: str) -> None:
    row, x = g.grid[g.cursor.y], g.cursor.x
    if INSERT in g.mode:
        g.open_gap(row, x, 2)
    row.split(x)
    row.split(x + 2)
    row.chars[x : x + 2] = (cluster, "")
    row.styles[x : x + 2] = (g.style, g.style)
    row.wide = True
    g.touch(row)
    g.joinable = True
    g.last = cluster
    _go_behind(g, x + 2)


def _go_behind(g: Grid, x: int) -> None:
    """The cursor behind what was just drawn, where the row has such a place."""
    g.pending_wrap = x >= g.columns
    g.cursor.x = min(x, g.columns - 1)


def _join(g: Grid, c: str) -> bool:
    """Let `c` continue the character just drawn, if it does."""
    row = g.grid[g.cursor.y]
    x = g.cursor.x if g.pending_wrap else g.cursor.x - 1
    if x > 0 and not row.chars[x]:
        x -= 1
    cluster = row.chars[x] if x >= 0 else ""
    if not cluster or not joins(cluster, c):
        return False
    if len(cluster) >= CLUSTER_LIMIT:
        return True
    g.touch(row)
    grown = cluster + c
    if c == VS16 and len(cluster) == 1 and char_width(cluster) == 1:
        _widen(g, row, x, grown)
    else:
        row.chars[x] = grown
    g.last = grown
    return True


def _widen(g: Grid, row: Row, x: int, cluster: str) -> None:
    """An emoji selector makes a narrow character wide; at the edge it goes to the next row."""
    if not takes_emoji_selector(cluster[0]) or g.columns < 2:
        row.chars[x] = cluster
        return
    if x + 1 >= g.columns:
        if AUTOWRAP not in g.private:
            row.chars[x] = cluster
            return
        row.fill(x, g.columns, g.blank)
        _wrap_line(g, Wrap.SHORT)
        _place_wide(g, cluster)
        return
    row.split(x + 2)
    row.chars[x : x + 2] = (cluster, "")
    row.styles[x + 1] = row.styles[x]
    row.wide = True
    _go_behind(g, x + 2)


def _wrap_line(g: Grid, how: Wrap) -> None:
    g.grid[g.cursor.y].wrapped = how
    g.cursor.x = 0
    g.index()
