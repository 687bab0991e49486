"""The terminal an agent believes it has: cells, cursor, modes, history, answers to its queries.

Built on pyte's Screen (its cursor, tab stops, mode set and margins); cells, history and the reading
of bytes are ours, because pyte raises on real output, loses text and has no alternate screen.
Invariants: `feed` never raises; any split of the bytes gives the same screen; a wide character is
never half overwritten; the pending wrap is a flag, so the cursor is always inside the screen; each
query is answered once, through `on_reply`, whether or not anybody watches. Called by `pane`.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import pyte

from deck.pane.cells import (
    CLUSTER_LIMIT,
    DEFAULT_COLOR,
    PLAIN,
    SINGLE,
    VS16,
    Line,
    Row,
    Style,
    cells_of,
    char_width,
    joins,
    pack,
)
from deck.pane.rendition import MAX_PARAMS, apply_sgr, sgr
from deck.pane.status import Signal, plain
from deck.pane.tokenizer import Tokenizer

NAME_AND_VERSION: Final = "choragos(1)"
MAX_SIZE: Final = 1000
MAX_PARAM: Final = 65535
TITLE_LIMIT: Final = 256
CACHE_LIMIT: Final = 4096
# More answers than this in one feed is a flood, not a question; the rest are dropped.
REPLIES_PER_FEED: Final = 256
FOREGROUND_REPLY: Final = "rgb:e5e5/e5e5/e5e5"
BACKGROUND_REPLY: Final = "rgb:0000/0000/0000"

_DRAWING: Final = str.maketrans(
    "`abcdefghijklmnopqrstuvwxyz{|}~_",
    "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·\u00a0",
)

# Private modes this screen knows; DECRQM says of others that they are not recognized.
_PRIVATE_MODES: Final = frozenset(
    (1, 3, 5, 6, 7, 9, 12, 25, 45, 47, 66, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016,
     1047, 1048, 1049, 2004, 2026, 2031)
)  # fmt: skip
_ALTERNATE: Final = frozenset((47, 1047, 1049))


class _Saved(NamedTuple):
    y: int
    x: int
    style: Style
    origin: bool
    g0: bool
    g1: bool
    shifted: bool


_HOME: Final = _Saved(0, 0, PLAIN, False, False, False, False)


class Screen(pyte.Screen):
    """A terminal screen of `columns` x `lines` with `history` packed lines above it.

    `on_reply` receives the bytes to send back to the program, once a feed at most. Without it they
    collect in `replies`.
    """

    def __init__(
        self,
        columns: int,
        lines: int,
        history: int = 10_000,
        on_reply: Callable[[bytes], None] | None = None,
    ) -> None:
        self._stamp = 0
        self.history: deque[Line] = deque(maxlen=max(0, history))
        # Lines ever pushed into history: a viewer that is scrolled back follows it.
        self.history_pushed = 0
        self.replies: list[bytes] = []
        self._on_reply = on_reply
        self._answered = 0
        self._parsed: dict[
            str, tuple[Callable[[tuple[int, ...]], None] | None, tuple[int, ...]]
        ] = {}
        self._styles: dict[tuple[Style, str], Style] = {}
        self.signal: Signal | None = None
        self.signal_count = 0
        self.bells = 0
        # OSC 9, 777 and 99 texts, cleaned, newest last: for the listener to take and clear.
        self.notifications: deque[str] = deque(maxlen=16)
        self._tokenizer = Tokenizer(self)
        self._dispatch = self._table()
        self._actions = self._control_table()
        super().__init__(max(1, min(columns, MAX_SIZE)), max(1, min(lines, MAX_SIZE)))
        self.mode = set()  # pyte keeps private modes here; ours are in `private`

    # -- what callers see ---------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take the next output bytes. Never raises, whatever they are."""
        self._answered = 0
        self._tokenizer.feed(data)
        if self._on_reply is not None and self.replies:
            answer = b"".join(self.replies)
            self.replies.clear()
            with contextlib.suppress(
                Exception
            ):  # an answer that cannot be sent is no reason to stop
                self._on_reply(answer)

    def rows(self) -> list[str]:
        """The visible rows, right-trimmed."""
        return [row.text() for row in self.grid]

    def last_lines(self, n: int) -> list[str]:
        """The last n non-blank rows of history and screen, oldest first."""
        found = [text for text in self.rows() if text]
        if len(found) < n and not self.alternate:
            for line in reversed(self.history):
                if len(found) >= n:
                    break
                if text := line.text.rstrip():
                    found.insert(0, text)
        return found[-n:] if n > 0 else []

    def versions(self) -> list[int]:
        """One number a row, changed when the row is: what a viewer has to redraw."""
        return [row.version for row in self.grid]

    @property
    def display(self) -> list[str]:
        """The visible rows at full width, as pyte gives them."""
        return ["".join(row.chars) for row in self.grid]

    @property
    def alternate(self) -> bool:
        """Whether the program is on the alternate screen."""
        return self._primary is not None

    @property
    def bracketed_paste(self) -> bool:
        return 2004 in self.private

    @property
    def synchronized(self) -> bool:
        """Whether the program is in the middle of an update (mode 2026)."""
        return 2026 in self.private

    @property
    def application_cursor(self) -> bool:
        return 1 in self.private

    @property
    def mouse_mode(self) -> int:
        """The mouse mode asked for: 9, 1000, 1002, 1003 or 0."""
        return next((m for m in (1003, 1002, 1000, 9) if m in self.private), 0)

    @property
    def cursor_visible(self) -> bool:
        return 25 in self.private

    @property
    def style(self) -> Style:
        """The style the next character gets."""
        return self._style

    def snapshot(self) -> bytes:
        """Bytes that give a fresh terminal of the same size this picture, these modes, this cursor.

        For a viewer that joins late: what it reads next continues from here.
        """
        out = ["\x1bc"]
        if self._primary is not None:
            out += [self._paint(self._primary), "\x1b[?1049h"]
        out.append(self._paint(self.grid))
        if self.margins is not None:
            out.append(f"\x1b[{self._top + 1};{self._bottom + 1}r")
        on = sorted(self.private - _ALTERNATE - {6, 7, 25, 2026})
        out += [f"\x1b[?{mode}h" for mode in on]
        out += [f"\x1b[?{mode}l" for mode in (7, 25) if mode not in self.private]
        out += [f"\x1b[{mode}h" for mode in sorted(self.mode)]
        if self.title:
            out.append(f"\x1b]2;{self.title}\x1b\\")
        if self.cursor_shape:
            out.append(f"\x1b[{self.cursor_shape} q")
        out.append(f"\x1b[{self.cursor.y + 1};{self.cursor.x + 1}H")
        if 6 in self.private:
            row = max(0, self.cursor.y - self._top) + 1
            out.append(f"\x1b[?6h\x1b[{row};{self.cursor.x + 1}H")
        out.append(_link_code(self._style) + sgr(self._style))
        out += [f"\x1b{side}0" for side, set_ in zip("()", self._drawing, strict=True) if set_]
        if self._shifted:
            out.append("\x0e")
        return "".join(out).encode()

    def _paint(self, grid: list[Row]) -> str:
        """Every row of a grid at its place, from the default rendition and back to it."""
        out = []
        for y, row in enumerate(grid):
            line = pack(row)
            if not line.text and not line.runs:
                continue
            out.append(f"\x1b[{y + 1}H")
            chars = row.chars
            start = 0
            for count, style in [*line.spans(), (len(chars), PLAIN)]:
                stop = min(start + count, len(chars))
                text = "".join(chars[start:stop])
                if style == PLAIN and stop == len(chars):
                    text = text.rstrip(" ")
                if text:
                    out.append(f"{_link_code(style)}{sgr(style)}{text}")
                start = stop
            out.append("\x1b]8;;\x1b\\\x1b[0m")
        return "".join(out)

    # -- life ---------------------------------------------------------------------------------

    def reset(self) -> None:
        """RIS: everything to its start; the history stays."""
        self.mode = set()
        self.private: set[int] = {7, 25}
        self._saved_modes: dict[int, bool] = {}
        self.margins = None
        self.title = ""
        self.icon_name = ""
        self.cursor = pyte.screens.Cursor(0, 0)
        self._style = PLAIN
        self._blank = PLAIN
        self._wrap = False
        self._drawing = [False, False]
        self._shifted = False
        self._saved: _Saved = _HOME
        self._primary: list[Row] | None = None
        self._primary_saved: _Saved = _HOME
        self._last = ""
        self._joinable = False
        self.cursor_shape = 0
        self.tabstops = set(range(8, self.columns, 8))
        self.grid = [self._new_row() for _ in range(self.lines)]
        self._region()

    def _new_row(self) -> Row:
        self._stamp += 1
        return Row(self.columns, self._blank, self._stamp)

    def _touch(self, row: Row) -> None:
        self._stamp += 1
        row.version = self._stamp

    def _region(self) -> None:
        margins = self.margins
        self._top = margins.top if margins else 0
        self._bottom = margins.bottom if margins else self.lines - 1

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Change the size. Soft-wrapped lines of the primary screen are wrapped anew."""
        lines = max(1, min(lines or self.lines, MAX_SIZE))
        columns = max(1, min(columns or self.columns, MAX_SIZE))
        if (lines, columns) == (self.lines, self.columns):
            return
        blank, self._blank = self._blank, PLAIN
        # A pending wrap is the place behind the last column.
        y, x = self.cursor.y, self.cursor.x + self._wrap
        old_columns = self.columns
        self.columns = columns
        if self._primary is None:
            self.grid, y, x = self._refit(self.grid, lines, old_columns, y, x)
        else:
            saved = self._primary_saved
            self._primary, sy, sx = self._refit(self._primary, lines, old_columns, saved.y, saved.x)
            self._primary_saved = saved._replace(y=sy, x=sx)
            self.grid = self._crop(self.grid, lines, y)
            y = min(y, lines - 1)
        self.lines = lines
        self._blank = blank
        self.margins = None
        self._region()
        self.tabstops = {t for t in self.tabstops if t < min(columns, old_columns)} | set(
            range((old_columns + 7) // 8 * 8, columns, 8)
        )
        self.cursor.y, self.cursor.x = min(y, lines - 1), min(x, columns - 1)
        self._wrap = x >= columns and self._primary is None
        self._joinable = False

    def _crop(self, grid: list[Row], lines: int, y: int) -> list[Row]:
        """The alternate screen at another size: cut and padded, nothing wrapped."""
        if len(grid) > lines:
            drop = min(len(grid) - lines, max(0, y - lines + 1))
            grid = grid[drop : drop + lines]
        for row in grid:
            self._fit_row(row)
        return grid + [self._new_row() for _ in range(lines - len(grid))]

    def _fit_row(self, row: Row) -> None:
        width = len(row.chars)
        if width > self.columns:
            row.split(self.columns)
            del row.chars[self.columns :]
            del row.styles[self.columns :]
        elif width < self.columns:
            row.chars += [" "] * (self.columns - width)
            row.styles += [PLAIN] * (self.columns - width)
        row.wrapped = False
        self._touch(row)

    def _refit(
        self, grid: list[Row], lines: int, old_columns: int, y: int, x: int
    ) -> tuple[list[Row], int, int]:
        """Rows of the primary screen for a new size; returns them with the cursor's new place."""
        if old_columns != self.columns:
            grid, y, x = self._reflow(grid, y, x)
        last = max([y, *(i for i, row in enumerate(grid) if row.text())])
        grid = grid[: last + 1]
        excess = len(grid) - lines
        if excess > 0:
            # The cursor's row stays visible; what is above goes to history.
            drop = excess if y >= excess else max(0, y)
            for row in grid[:drop]:
                self._push(row)
            grid = grid[drop : drop + lines]
            y -= drop
        return grid + [self._new_row() for _ in range(lines - len(grid))], y, x

    def _reflow(self, grid: list[Row], y: int, x: int) -> tuple[list[Row], int, int]:
        """Join soft-wrapped rows (those in history too, as far as they reach) and cut them anew."""
        columns = self.columns
        head: list[Line] = []
        while self.history and self.history[-1].wrapped:
            head.insert(0, self.history.pop())
            self.history_pushed -= 1
        fresh: list[Row] = []
        place = (0, 0)
        chars: list[str] = []
        styles: list[Style] = []
        mark: int | None = None
        for line in head:
            more, looks = cells_of(line)
            chars += more
            styles += looks
        for index, row in enumerate(grid):
            used = len(row.chars) if row.wrapped else len(row.text_cells())
            if index == y:
                mark = len(chars) + x
                used = max(used, min(x, len(row.chars)))
            chars += row.chars[:used]
            styles += row.styles[:used]
            if row.wrapped and index < len(grid) - 1:
                continue
            cut, at = self._cut(chars, styles, columns, mark)
            if at is not None:
                place = (len(fresh) + at[0], at[1])
            fresh += cut
            chars, styles, mark = [], [], None
        return fresh, place[0], place[1]

    def _cut(
        self, chars: list[str], styles: list[Style], columns: int, mark: int | None
    ) -> tuple[list[Row], tuple[int, int] | None]:
        """One logical line as rows; `mark` is an offset in it whose new place is returned."""
        rows: list[Row] = []
        at: tuple[int, int] | None = None
        start = 0
        while True:
            stop = min(start + columns, len(chars))
            if stop < len(chars) and not chars[stop] and stop - 1 > start:
                stop -= 1  # a wide character goes to the next row whole
            row = self._new_row()
            row.chars[: stop - start] = chars[start:stop]
            row.styles[: stop - start] = styles[start:stop]
            row.wide = "" in row.chars
            if columns == 1 and row.wide:
                row.chars[0] = " "
            rows.append(row)
            if mark is not None and (start <= mark < stop or stop >= len(chars)) and at is None:
                at = (len(rows) - 1, min(max(mark - start, 0), columns))
            if stop >= len(chars):
                return rows, at
            row.wrapped = True
            start = stop

    # -- text ---------------------------------------------------------------------------------

    def text(self, run: str) -> None:
        """Draw printable characters at the cursor."""
        if self._drawing[self._shifted]:
            run = run.translate(_DRAWING)
        if run.isascii():
            self._put(run)
            return
        position, end = 0, len(run)
        while position < end:
            found = SINGLE.match(run, position)
            if found is not None:
                self._put_after(found.group())
                position = found.end()
            else:
                self._put_one(run[position])
                position += 1

    def draw(self, data: str) -> None:
        """pyte's name for `text`."""
        self.text(data)

    def _put_after(self, run: str) -> None:
        """Like `_put`, for a run whose first character may still belong to an open cluster."""
        if self._joinable and self._join(run[0]):
            run = run[1:]
        if run:
            self._put(run)

    def _put(self, run: str) -> None:
        """Draw characters of one column each."""
        cursor, columns, style = self.cursor, self.columns, self._style
        grid = self.grid
        self._joinable = True
        self._last = run[-1]
        autowrap = 7 in self.private
        while run:
            if self._wrap:
                if autowrap:
                    self._wrap_line()
                else:
                    run = run[-1]
                self._wrap = False
            x = cursor.x
            room = columns - x
            part = run if len(run) <= room else run[:room]
            run = run[len(part) :]
            count = len(part)
            row = grid[cursor.y]
            if 4 in self.mode:
                self._open_gap(row, x, count)
            end = x + count
            if row.wide:
                row.split(x)
                row.split(end)
            row.chars[x:end] = part
            row.styles[x:end] = [style] * count
            self._stamp += 1
            row.version = self._stamp
            if end < columns:
                cursor.x = end
            else:
                cursor.x = columns - 1
                self._wrap = True

    def _put_one(self, c: str) -> None:
        """Draw one character of any width; it may join the one before it."""
        if self._joinable and self._join(c):
            return
        width = char_width(c)
        if width == 0:
            return
        if width == 1 or self.columns < 2:
            self._put(c if width == 1 else " ")
            return
        cursor = self.cursor
        if self._wrap or cursor.x == self.columns - 1:
            if 7 in self.private:
                if not self._wrap:
                    self.grid[cursor.y].fill(cursor.x, self.columns, self._blank)
                self._wrap_line()
            else:
                cursor.x = self.columns - 2
            self._wrap = False
        self._place_wide(c)

    def _place_wide(self, cluster: str) -> None:
        cursor, row = self.cursor, self.grid[self.cursor.y]
        x = cursor.x
        if 4 in self.mode:
            self._open_gap(row, x, 2)
        row.split(x)
        row.split(x + 2)
        row.chars[x : x + 2] = (cluster, "")
        row.styles[x : x + 2] = (self._style, self._style)
        row.wide = True
        self._touch(row)
        self._joinable = True
        self._last = cluster
        if x + 2 < self.columns:
            cursor.x = x + 2
        else:
            cursor.x = self.columns - 1
            self._wrap = True

    def _join(self, c: str) -> bool:
        """Let `c` continue the character just drawn, if it does."""
        row = self.grid[self.cursor.y]
        x = self.cursor.x if self._wrap else self.cursor.x - 1
        if x > 0 and not row.chars[x]:
            x -= 1
        cluster = row.chars[x] if x >= 0 else ""
        if not cluster or not joins(cluster, c):
            return False
        if len(cluster) >= CLUSTER_LIMIT:
            return True
        self._touch(row)
        grown = cluster + c
        if c == VS16 and len(cluster) == 1 and char_width(cluster) == 1:
            self._widen(row, x, grown)
        else:
            row.chars[x] = grown
        self._last = grown
        return True

    def _widen(self, row: Row, x: int, cluster: str) -> None:
        """An emoji selector makes a narrow character wide, if there is room for it on the row."""
        if not char_is_emoji_base(cluster[0]) or x + 1 >= self.columns or self._wrap:
            row.chars[x] = cluster
            return
        row.split(x + 2)
        row.chars[x : x + 2] = (cluster, "")
        row.styles[x + 1] = row.styles[x]
        row.wide = True
        if x + 2 < self.columns:
            self.cursor.x = x + 2
        else:
            self.cursor.x = self.columns - 1
            self._wrap = True

    def _open_gap(self, row: Row, x: int, count: int) -> None:
        """Insert blanks at x; what is pushed over the edge is lost."""
        count = min(count, self.columns - x)
        if count <= 0:
            return
        row.split(x)
        row.split(self.columns - count)
        row.chars[x:x] = [" "] * count
        row.styles[x:x] = [self._blank] * count
        del row.chars[self.columns :]
        del row.styles[self.columns :]
        row.wrapped = False
        self._touch(row)

    def _close_gap(self, row: Row, x: int, count: int) -> None:
        """Delete characters at x; blanks come in at the edge."""
        count = min(count, self.columns - x)
        row.split(x)
        row.split(x + count)
        del row.chars[x : x + count]
        del row.styles[x : x + count]
        row.chars += [" "] * count
        row.styles += [self._blank] * count
        row.wrapped = False
        self._touch(row)

    def _wrap_line(self) -> None:
        self.grid[self.cursor.y].wrapped = True
        self.cursor.x = 0
        self.index()

    # -- controls -----------------------------------------------------------------------------

    def controls(self, run: str) -> None:
        """Act on C0 (and C1) characters."""
        self._break()
        if run == "\r\n":
            self.cursor.x = 0
            self._wrap = False
            self.index()
            return
        for c in run:
            action = self._actions.get(c)
            if action is not None:
                action()

    def _control_table(self) -> dict[str, Callable[[], None]]:
        return {
            "\r": self.carriage_return, "\n": self.linefeed, "\v": self.linefeed,
            "\f": self.linefeed, "\b": self.backspace, "\t": self.tab, "\a": self.bell,
            "\x0e": self.shift_out, "\x0f": self.shift_in, "\x84": self.index,
            "\x85": self.next_line, "\x88": self.set_tab_stop, "\x8d": self.reverse_index,
        }  # fmt: skip

    def carriage_return(self) -> None:
        self.cursor.x = 0
        self._wrap = False

    def linefeed(self) -> None:
        """Down one row; to the first column too in new-line mode."""
        self._wrap = False
        self.index()
        if 20 in self.mode:
            self.cursor.x = 0

    def backspace(self) -> None:
        self._wrap = False
        self.cursor.x = max(0, self.cursor.x - 1)

    def tab(self) -> None:
        self._tab(1)

    def bell(self, *_: object) -> None:
        self.bells += 1

    def shift_out(self) -> None:
        self._shifted = True

    def shift_in(self) -> None:
        self._shifted = False

    def _break(self) -> None:
        """What comes next neither joins nor repeats the last character."""
        self._joinable = False
        self._last = ""

    def index(self) -> None:
        """Down one row, scrolling at the bottom margin."""
        if self.cursor.y == self._bottom:
            self._scroll_up(1)
        elif self.cursor.y < self.lines - 1:
            self.cursor.y += 1

    def reverse_index(self) -> None:
        """Up one row, scrolling at the top margin."""
        self._wrap = False
        if self.cursor.y == self._top:
            self._scroll_down(1)
        elif self.cursor.y > 0:
            self.cursor.y -= 1

    def next_line(self) -> None:
        self.cursor.x = 0
        self._wrap = False
        self.index()

    def _push(self, row: Row) -> None:
        self.history.append(pack(row))
        self.history_pushed += 1

    def _scroll_up(self, count: int) -> None:
        """Scroll the region up; one that begins at the top of the primary screen feeds history."""
        grid, top, bottom = self.grid, self._top, self._bottom
        count = min(count, bottom - top + 1)
        keep = top == 0 and self._primary is None and self.history.maxlen != 0
        for _ in range(count):
            row = grid.pop(top)
            if keep:
                self._push(row)
            elif top > 0:
                grid[top - 1].wrapped = False
            self._stamp += 1
            grid.insert(bottom, Row(self.columns, self._blank, self._stamp))

    def _scroll_down(self, count: int) -> None:
        grid, top, bottom = self.grid, self._top, self._bottom
        for _ in range(min(count, bottom - top + 1)):
            grid.pop(bottom)
            grid.insert(top, self._new_row())
        if bottom < self.lines:
            grid[bottom].wrapped = False

    def _tab(self, count: int) -> None:
        if self._wrap:
            return
        x = self.cursor.x
        stops = sorted(t for t in self.tabstops if t > x)
        self.cursor.x = stops[count - 1] if count <= len(stops) else self.columns - 1

    # -- escape sequences ---------------------------------------------------------------------

    def escape(self, body: str) -> None:
        """Act on ESC plus intermediates and a final."""
        self._break()
        if body == "7":
            self._save()
        elif body == "8":
            self._restore()
        elif body == "D":
            self._wrap = False
            self.index()
        elif body == "E":
            self.next_line()
        elif body == "H":
            self.tabstops.add(self.cursor.x)
        elif body == "M":
            self.reverse_index()
        elif body == "c":
            self.reset()
            self.signal = None
        elif body == "#8":
            self._alignment()
        elif len(body) == 2 and body[0] in "()":
            self._drawing[body[0] == ")"] = body[1] == "0"

    def _alignment(self) -> None:
        self.margins = None
        self._region()
        for row in self.grid:
            row.chars[:] = "E" * self.columns
            row.styles[:] = [PLAIN] * self.columns
            row.wide = row.wrapped = False
            self._touch(row)
        self._move(0, 0)

    def _snapshot(self) -> _Saved:
        return _Saved(
            self.cursor.y, self.cursor.x, self._style, 6 in self.private,
            self._drawing[0], self._drawing[1], self._shifted,
        )  # fmt: skip

    def _save(self) -> None:
        self._saved = self._snapshot()

    def _restore(self) -> None:
        self._recall(self._saved)

    def _recall(self, saved: _Saved) -> None:
        self.cursor.y = min(saved.y, self.lines - 1)
        self.cursor.x = min(saved.x, self.columns - 1)
        self._wrap = False
        self._set_style(saved.style)
        self._drawing = [saved.g0, saved.g1]
        self._shifted = saved.shifted
        (self.private.add if saved.origin else self.private.discard)(6)

    # -- control sequences --------------------------------------------------------------------

    def csi(self, body: str) -> None:
        """Act on a control sequence; unknown ones are ignored."""
        final = body[-1]
        if final == "m" and body[0] not in "<=>?" and body[-2:-1] not in _INTERMEDIATES:
            self._render(body)
            return
        if final != "b":
            self._break()
        parsed = self._parsed.get(body)
        if parsed is None:
            parsed = self._parse(body)
        handler, params = parsed
        if handler is not None:
            handler(params)

    def _parse(self, body: str) -> tuple[Callable[[tuple[int, ...]], None] | None, tuple[int, ...]]:
        prefix = body[0] if body[0] in "<=>?" else ""
        numbers = body[len(prefix) :].rstrip(
            "@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"
        )
        digits = numbers.rstrip(" !\"#$%&'()*+,-./")
        key = prefix + body[len(prefix) + len(digits) :]
        params = tuple(
            min(int(part.split(":", 1)[0] or 0), MAX_PARAM)
            for part in digits.split(";")[:MAX_PARAMS]
        )
        if len(self._parsed) >= CACHE_LIMIT:
            self._parsed.clear()
        parsed = (self._dispatch.get(key), params)
        self._parsed[body] = parsed
        return parsed

    def _table(self) -> dict[str, Callable[[tuple[int, ...]], None]]:
        return {
            "@": self._ich, "A": self._cuu, "B": self._cud, "C": self._cuf, "D": self._cub,
            "E": self._cnl, "F": self._cpl, "G": self._cha, "H": self._cup, "I": self._cht,
            "J": self._ed, "K": self._el, "L": self._il, "M": self._dl, "P": self._dch,
            "S": self._su, "T": self._sd, "X": self._ech, "Z": self._cbt, "^": self._sd,
            "`": self._cha, "a": self._cuf, "b": self._rep, "c": self._da1, "d": self._vpa,
            "e": self._vpr, "f": self._cup, "g": self._tbc, "h": self._sm,
            "l": self._rm, "n": self._dsr, "r": self._decstbm,
            "s": lambda _: self._save(), "u": lambda _: self._restore(),
            "?h": self._decset, "?l": self._decrst, "?n": self._dsr_private, "?s": self._xtsave,
            "?r": self._xtrestore, "?J": self._ed, "?K": self._el, "?u": self._kitty_query,
            ">c": self._da2, ">q": self._xtversion, "?$p": self._decrqm, "$p": self._rqm,
            "!p": self._decstr, " @": self._sl, " A": self._sr, "'}": self._decic,
            "'~": self._decdc,
             " q": self._decscusr, "t": self._winops,
        }  # fmt: skip

    # cursor

    def _move(self, y: int, x: int) -> None:
        self.cursor.y = max(0, min(y, self.lines - 1))
        self.cursor.x = max(0, min(x, self.columns - 1))
        self._wrap = False

    def _cuu(self, p: tuple[int, ...]) -> None:
        limit = self._top if self.cursor.y >= self._top else 0
        self._move(max(limit, self.cursor.y - (p[0] or 1)), self.cursor.x)

    def _cud(self, p: tuple[int, ...]) -> None:
        limit = self._bottom if self.cursor.y <= self._bottom else self.lines - 1
        self._move(min(limit, self.cursor.y + (p[0] or 1)), self.cursor.x)

    def _cuf(self, p: tuple[int, ...]) -> None:
        self._move(self.cursor.y, self.cursor.x + (p[0] or 1))

    def _cub(self, p: tuple[int, ...]) -> None:
        self._move(self.cursor.y, self.cursor.x - (p[0] or 1))

    def _cnl(self, p: tuple[int, ...]) -> None:
        self._cud(p)
        self.cursor.x = 0

    def _cpl(self, p: tuple[int, ...]) -> None:
        self._cuu(p)
        self.cursor.x = 0

    def _cha(self, p: tuple[int, ...]) -> None:
        self._move(self.cursor.y, (p[0] or 1) - 1)

    def _vpa(self, p: tuple[int, ...]) -> None:
        self._goto((p[0] or 1) - 1, self.cursor.x)

    def _vpr(self, p: tuple[int, ...]) -> None:
        self._move(self.cursor.y + (p[0] or 1), self.cursor.x)

    def _cup(self, p: tuple[int, ...]) -> None:
        column = p[1] if len(p) > 1 else 1
        self._goto((p[0] or 1) - 1, (column or 1) - 1)

    def _goto(self, y: int, x: int) -> None:
        if 6 in self.private:
            y = min(y + self._top, self._bottom)
        self._move(y, x)

    def _cht(self, p: tuple[int, ...]) -> None:
        self._tab(p[0] or 1)

    def _cbt(self, p: tuple[int, ...]) -> None:
        stops = sorted((t for t in self.tabstops if t < self.cursor.x), reverse=True)
        count = p[0] or 1
        self._move(self.cursor.y, stops[count - 1] if count <= len(stops) else 0)

    def _tbc(self, p: tuple[int, ...]) -> None:
        if p[0] == 0:
            self.tabstops.discard(self.cursor.x)
        elif p[0] == 3:
            self.tabstops.clear()

    # erasing and shifting

    def _ed(self, p: tuple[int, ...]) -> None:
        y = self.cursor.y
        if p[0] == 0:
            self._el((0,))
            self._erase_rows(y + 1, self.lines)
        elif p[0] == 1:
            self._erase_rows(0, y)
            self._el((1,))
        elif p[0] == 2:
            self._erase_rows(0, self.lines)
        elif p[0] == 3:
            self.history.clear()
        self._wrap = False

    def _erase_rows(self, start: int, stop: int) -> None:
        for y in range(start, stop):
            self.grid[y] = self._new_row()
        if 0 < start < stop:
            self.grid[start - 1].wrapped = False

    def _el(self, p: tuple[int, ...]) -> None:
        row, x = self.grid[self.cursor.y], self.cursor.x
        if p[0] == 0:
            row.fill(x, self.columns, self._blank)
            row.wrapped = False
        elif p[0] == 1:
            row.fill(0, x + 1, self._blank)
        elif p[0] == 2:
            row.fill(0, self.columns, self._blank)
            row.wrapped = False
        self._touch(row)
        self._wrap = False

    def _ech(self, p: tuple[int, ...]) -> None:
        row, x = self.grid[self.cursor.y], self.cursor.x
        row.fill(x, min(self.columns, x + (p[0] or 1)), self._blank)
        self._touch(row)
        self._wrap = False

    def _ich(self, p: tuple[int, ...]) -> None:
        self._open_gap(self.grid[self.cursor.y], self.cursor.x, p[0] or 1)
        self._wrap = False

    def _dch(self, p: tuple[int, ...]) -> None:
        self._close_gap(self.grid[self.cursor.y], self.cursor.x, p[0] or 1)
        self._wrap = False

    def _il(self, p: tuple[int, ...]) -> None:
        self._shift_lines(p[0] or 1, self._scroll_down)

    def _dl(self, p: tuple[int, ...]) -> None:
        self._shift_lines(p[0] or 1, self._scroll_up)

    def _shift_lines(self, count: int, scroll: Callable[[int], None]) -> None:
        """Scroll from the cursor's row to the bottom margin; never into history."""
        y = self.cursor.y
        if not self._top <= y <= self._bottom:
            return
        top, primary = self._top, self._primary
        self._top = y
        if primary is None:
            self._primary = []  # no history for deleted lines
        scroll(count)
        self._top, self._primary = top, primary
        self._move(y, 0)

    def _su(self, p: tuple[int, ...]) -> None:
        self._scroll_up(p[0] or 1)

    def _sd(self, p: tuple[int, ...]) -> None:
        if len(p) < 5:  # five parameters: mouse tracking
            self._scroll_down(p[0] or 1)

    def _sl(self, p: tuple[int, ...]) -> None:
        self._shift_columns(0, p[0] or 1, self._close_gap)

    def _sr(self, p: tuple[int, ...]) -> None:
        self._shift_columns(0, p[0] or 1, self._open_gap)

    def _decic(self, p: tuple[int, ...]) -> None:
        self._shift_columns(self.cursor.x, p[0] or 1, self._open_gap)

    def _decdc(self, p: tuple[int, ...]) -> None:
        self._shift_columns(self.cursor.x, p[0] or 1, self._close_gap)

    def _shift_columns(self, x: int, count: int, shift: Callable[[Row, int, int], None]) -> None:
        """Open or close columns at x in every row between the margins, if the cursor is there."""
        if self._top <= self.cursor.y <= self._bottom:
            for row in self.grid[self._top : self._bottom + 1]:
                shift(row, x, count)

    def _rep(self, p: tuple[int, ...]) -> None:
        if self._last and char_width(self._last[0]):
            self.text_again(self._last, min(p[0] or 1, self.columns * self.lines))

    def text_again(self, cluster: str, count: int) -> None:
        """Draw the last character again: REP."""
        if len(cluster) == 1 and char_width(cluster) == 1:
            self._put(cluster * count)
            return
        for _ in range(count):
            self._joinable = False
            for c in cluster:
                self._put_one(c)

    # margins and modes

    def _decstbm(self, p: tuple[int, ...]) -> None:
        top = (p[0] or 1) - 1
        bottom = (p[1] if len(p) > 1 and p[1] else self.lines) - 1
        bottom = min(bottom, self.lines - 1)
        if top >= bottom:
            return
        whole = top == 0 and bottom == self.lines - 1
        self.margins = None if whole else pyte.screens.Margins(top, bottom)
        self._region()
        self._goto(0, 0)

    def _sm(self, p: tuple[int, ...]) -> None:
        self.mode.update(m for m in p if m in (4, 20))

    def _rm(self, p: tuple[int, ...]) -> None:
        self.mode.difference_update(p)

    def _decset(self, p: tuple[int, ...]) -> None:
        for mode in p:
            self._set_private(mode)

    def _decrst(self, p: tuple[int, ...]) -> None:
        for mode in p:
            self._reset_private(mode)

    def _set_private(self, mode: int) -> None:
        if mode == 1048:
            self._save()
        elif mode in _ALTERNATE:
            self._enter_alternate(mode)
        elif mode in _PRIVATE_MODES:
            self.private.add(mode)
            if mode == 6:
                self._goto(0, 0)

    def _reset_private(self, mode: int) -> None:
        if mode == 1048:
            self._restore()
        elif mode in _ALTERNATE:
            self._leave_alternate(mode)
        else:
            self.private.discard(mode)
            if mode == 6:
                self._goto(0, 0)
            elif mode == 7:
                self._wrap = False

    def _enter_alternate(self, mode: int) -> None:
        if self._primary is not None:
            return
        if mode == 1049:
            self._save()
        self._primary, self._primary_saved = self.grid, self._saved
        self._saved = _HOME
        self.private.add(mode)
        self.grid = [self._new_row() for _ in range(self.lines)]

    def _leave_alternate(self, mode: int) -> None:
        if self._primary is None:
            return
        self.grid, self._primary = self._primary, None
        self.private -= _ALTERNATE
        for row in self.grid:
            self._touch(row)
        self._saved = self._primary_saved
        if mode == 1049:
            self._restore()

    def _xtsave(self, p: tuple[int, ...]) -> None:
        for mode in p:
            self._saved_modes[mode] = mode in self.private

    def _xtrestore(self, p: tuple[int, ...]) -> None:
        for mode in p:
            if mode in self._saved_modes:
                (self._set_private if self._saved_modes[mode] else self._reset_private)(mode)

    def _decstr(self, _: tuple[int, ...]) -> None:
        """Soft reset: modes and rendition, not the screen."""
        self.mode.clear()
        self.private.discard(6)
        self.private.discard(1)
        self.private.update((7, 25))
        self.margins = None
        self._region()
        self._set_style(PLAIN)
        self._drawing, self._shifted = [False, False], False
        self._saved = _HOME

    def _decscusr(self, p: tuple[int, ...]) -> None:
        self.cursor_shape = p[0] if p[0] <= 6 else 0

    # rendition

    def _set_style(self, style: Style) -> None:
        self._style = style
        self._blank = PLAIN if style.bg == DEFAULT_COLOR else Style(bg=style.bg)

    def _render(self, body: str) -> None:
        key = (self._style, body)
        style = self._styles.get(key)
        if style is None:
            style = apply_sgr(self._style, body[:-1])
            if len(self._styles) >= CACHE_LIMIT:
                self._styles.clear()
            self._styles[key] = style
        self._style = style
        self._blank = PLAIN if style.bg == DEFAULT_COLOR else Style(bg=style.bg)

    # answers

    def _answer(self, text: str) -> None:
        self._answered += 1
        if self._answered > REPLIES_PER_FEED:
            return
        self.replies.append(text.encode())

    def _da1(self, p: tuple[int, ...]) -> None:
        if p[0] == 0:
            self._answer("\x1b[?62;22c")

    def _da2(self, p: tuple[int, ...]) -> None:
        if p[0] == 0:
            self._answer("\x1b[>1;10;0c")

    def _xtversion(self, p: tuple[int, ...]) -> None:
        if p[0] == 0:
            self._answer(f"\x1bP>|{NAME_AND_VERSION}\x1b\\")

    def _position(self) -> str:
        y = self.cursor.y - (self._top if 6 in self.private else 0)
        return f"{y + 1};{self.cursor.x + 1}"

    def _dsr(self, p: tuple[int, ...]) -> None:
        if p[0] == 5:
            self._answer("\x1b[0n")
        elif p[0] == 6:
            self._answer(f"\x1b[{self._position()}R")

    def _dsr_private(self, p: tuple[int, ...]) -> None:
        if p[0] == 6:
            self._answer(f"\x1b[?{self._position()};1R")
        elif p[0] == 996:
            self._answer("\x1b[?997;1n")  # dark

    def _decrqm(self, p: tuple[int, ...]) -> None:
        mode = p[0]
        state = 0
        if mode in _ALTERNATE:
            state = 1 if self._primary is not None else 2
        elif mode in _PRIVATE_MODES:
            state = 1 if mode in self.private else 2
        self._answer(f"\x1b[?{mode};{state}$y")

    def _rqm(self, p: tuple[int, ...]) -> None:
        state = (1 if p[0] in self.mode else 2) if p[0] in (4, 20) else 0
        self._answer(f"\x1b[{p[0]};{state}$y")

    def _kitty_query(self, _: tuple[int, ...]) -> None:
        """The kitty keyboard protocol is not offered; silence says so."""

    def _winops(self, p: tuple[int, ...]) -> None:
        """Only the size in cells is told; a title report would type into the program."""
        if p[0] == 18:
            self._answer(f"\x1b[8;{self.lines};{self.columns}t")

    # strings

    def string(self, kind: str, body: str) -> None:
        """Act on an OSC or DCS; APC, PM and SOS are swallowed."""
        self._break()
        if kind == "P":
            if body.startswith("$q"):
                self._answer("\x1bP0$r\x1b\\")
            elif body.startswith("+q"):
                self._answer("\x1bP0+r\x1b\\")
            return
        if kind != "]":
            return
        number, _, rest = body.partition(";")
        if number in ("0", "2"):
            self.title = plain(rest, TITLE_LIMIT)
        if number in ("0", "1"):
            self.icon_name = plain(rest, TITLE_LIMIT)
        elif number == "8":
            self._link(rest)
        elif number in ("10", "11") and rest == "?":
            color = FOREGROUND_REPLY if number == "10" else BACKGROUND_REPLY
            self._answer(f"\x1b]{number};{color}\x1b\\")
        elif number in ("9", "777", "99"):
            if not rest.startswith("4;"):  # a progress bar, not a message
                self.notifications.append(plain(rest))
        elif number == "7501":
            self._program_status(rest)

    def _link(self, rest: str) -> None:
        target = rest.partition(";")[2]
        self._set_style(self._style._replace(link=target if len(target) <= 2048 else ""))

    def _program_status(self, rest: str) -> None:
        """OSC 7501: the probe is answered with its own bytes; a report becomes the signal."""
        if rest == "?":
            self._answer("\x1b]7501;?\a")
            return
        signal = parse_program_status(rest)
        if signal is None:
            return
        self.signal_count += 1
        self.signal = None if signal.state == "clear" else signal


_INTERMEDIATES: Final = frozenset(" !\"#$%&'()*+,-./")
_SIGNAL_STATES: Final = frozenset(("idle", "working", "done", "blocked", "error", "clear"))


def parse_program_status(rest: str) -> Signal | None:
    """The body of an OSC 7501 report, or None if it reports no state.

    The message is untrusted text of the agent: it is bounded and stripped of control characters.
    """
    fields: dict[str, str] = {}
    for part in rest.replace(";", ":").split(":"):
        key, equals, value = part.partition("=")
        if equals:
            fields.setdefault(key, value)
    state = fields.get("state", "")
    if not state:
        head = rest.partition(":")[0]
        state = head if "=" not in head else ""
    if state not in _SIGNAL_STATES:
        return None
    message = ""
    encoded = fields.get("msg") or fields.get("title") or ""
    try:
        raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
        message = plain(raw.decode("utf-8", "replace"))
    except (binascii.Error, ValueError):
        message = ""
    return Signal(
        state, plain(fields.get("kind", ""), 32), plain(fields.get("app", ""), 32), message
    )


def _link_code(style: Style) -> str:
    return f"\x1b]8;;{style.link}\x1b\\"


def char_is_emoji_base(c: str) -> bool:
    """Whether an emoji selector makes this character two columns wide."""
    return c >= "\u203c" and not "\u2500" <= c <= "\u259f"
