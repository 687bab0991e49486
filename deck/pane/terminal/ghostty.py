"""libghostty-vt behind the deck's interface: the optional fast engine, and the oracle of tests.

The library reads the bytes; this adapter keeps the deck's rules around it. Invariants: every answer
to the program passes `_reply`, which gives the deck's identity and drops what the deck does not
offer or never tells (titles, clipboard, palette, graphics, the kitty keyboard); nothing raised by a
callback leaves `feed`. Importing it raises ImportError or OSError where the library is missing, so
only `engine` imports it.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import weakref
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from deck.pane.status import Signal, plain
from deck.pane.terminal.cells import DEFAULT_COLOR, PLAIN, RGB, Attr, Row, Style, Wrap
from deck.pane.terminal.grid import MAX_SIZE
from deck.pane.terminal.history import Line, pack
from deck.pane.terminal.modes import (
    APPLICATION_CURSOR,
    BRACKETED_PASTE,
    MOUSE,
    SYNCHRONIZED,
)
from deck.pane.terminal.replies import (
    NAME_AND_VERSION,
    PRIMARY_ATTRIBUTES,
    SECONDARY_ATTRIBUTES,
    Replies,
)
from deck.pane.terminal.reports import Reports
from deck.pane.terminal.strings import LINK_LIMIT, TITLE_LIMIT

# Typed as Any: the package has no stubs and need not be there.
_vt: Any = importlib.import_module("pyghostty")
_core: Any = importlib.import_module("pyghostty.core")
_ffi: Any = _vt.ffi
_lib: Any = _vt.lib

FOREGROUND: Final = (0xE5, 0xE5, 0xE5)
BACKGROUND: Final = (0, 0, 0)
# The library drops whole pages of history; a page of a narrow screen holds fewer lines than this.
PAGE_LINES: Final = 1024
# What a line of history may take before it is compressed: 8 bytes a cell, styles beside them.
BYTES_PER_CELL: Final = 16
# History is compressed, a step at a time, after this much output.
COMPRESS_EVERY: Final = 128 * 1024
STRING_LIMIT: Final = 8192
GRAPHEMES: Final = 2027

# Answers that leave as the library gives them: status, position, modes, size in cells, colors.
_AS_GIVEN: Final = re.compile(
    rb"\x1b\[0n|\x1b\[\d+;\d+R|\x1b\[\??\d+;\d\$y|\x1b\[8;\d+;\d+t|\x1b\[\?997;\dn"
    rb"|\x1b\]1[01];[^\x1b\x07]*(?:\x07|\x1b\\)"
)
_OURS: Final = (
    (re.compile(rb"\x1b\[\?\d[\d;]*c"), PRIMARY_ATTRIBUTES.encode()),
    (re.compile(rb"\x1b\[>[\d;]*c"), SECONDARY_ATTRIBUTES.encode()),
    (re.compile(rb"\x1bP>\|[^\x1b]*\x1b\\"), f"\x1bP>|{NAME_AND_VERSION}\x1b\\".encode()),
    (re.compile(rb"\x1bP[01]\$r[^\x1b]*\x1b\\"), b"\x1bP0$r\x1b\\"),
)
_FLAGS: Final = (
    ("bold", Attr.BOLD), ("faint", Attr.DIM), ("italic", Attr.ITALIC), ("blink", Attr.BLINK),
    ("inverse", Attr.REVERSE), ("invisible", Attr.HIDDEN), ("strikethrough", Attr.STRIKE),
    ("overline", Attr.OVERLINE),
)  # fmt: skip


def answer_for(reply: bytes) -> bytes:
    """What the program is told where the library would say `reply`; empty for nothing."""
    if _AS_GIVEN.fullmatch(reply):
        return reply
    return next((ours for shape, ours in _OURS if shape.fullmatch(reply)), b"")


class Place(NamedTuple):
    """The cursor's place, from 0."""

    y: int
    x: int


class GhosttyScreen:
    """A terminal of `columns` x `lines` cells and `history` lines; `Engine` says the rest."""

    def __init__(
        self,
        columns: int,
        lines: int,
        history: int = 10_000,
        on_reply: Callable[[bytes], None] | None = None,
    ) -> None:
        columns, lines = max(1, min(columns, MAX_SIZE)), max(1, min(lines, MAX_SIZE))
        self.reports = Reports()
        self._replies = Replies(on_reply)
        self._terminal = _vt.Terminal(columns, lines, history, FOREGROUND, BACKGROUND)
        self._limit = history
        self.history = GhosttyHistory(self._terminal, history)
        self._picture = _Picture(self._terminal)
        self._until_compression = COMPRESS_EVERY
        self._keep: list[Any] = []
        self._set_up()
        self._bound_history()

    def _set_up(self) -> None:
        terminal = self._terminal
        terminal.on_reply(self._reply)
        terminal.on_unknown_sequence(self._unknown, STRING_LIMIT)
        self._set("KITTY_IMAGE_STORAGE_LIMIT", "uint64_t*", 0)
        # Clusters share a cell without being asked for, as in the other engine.
        self._set("MODE_DEFAULT", "GhosttyTerminalModeConfig*", (GRAPHEMES, True))
        _lib.ghostty_terminal_reset(self._handle)
        self._on("BELL", "GhosttyTerminalBellFn", self._bell)
        self._on("SIZE", "GhosttyTerminalSizeFn", self._size)
        self._on("COLOR_SCHEME", "GhosttyTerminalColorSchemeFn", _dark)
        self._on("DESKTOP_NOTIFICATION", "GhosttyTerminalDesktopNotificationFn", self._notified)

    def _set(self, option: str, kind: str, value: object) -> None:
        number = getattr(_lib, f"GHOSTTY_TERMINAL_OPT_{option}")
        _lib.ghostty_terminal_set(self._handle, number, _ffi.new(kind, value))

    def _on(self, option: str, kind: str, function: Callable[..., Any]) -> None:
        callback = _ffi.callback(kind, function, onerror=lambda *_: None)
        self._keep.append(callback)  # the library holds only a pointer
        number = getattr(_lib, f"GHOSTTY_TERMINAL_OPT_{option}")
        _lib.ghostty_terminal_set(self._handle, number, callback)

    @property
    def _handle(self) -> Any:
        return self._terminal._t[0]

    def _bound_history(self) -> None:
        """By lines, not by bytes; the library's own bound keeps far fewer."""
        room = (self._limit + PAGE_LINES) * self.columns * BYTES_PER_CELL
        self._set("SCROLLBACK_MAX_LINES", "size_t*", self._limit + PAGE_LINES if self._limit else 0)
        self._set("SCROLLBACK_MAX_BYTES", "size_t*", room if self._limit else 0)

    # -- what comes in --------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take the next output bytes. Never raises, whatever they are."""
        self._replies.begin()
        mark = self.history.mark()
        with contextlib.suppress(Exception):  # only callbacks raise, and only ours are set
            self._terminal.feed(data)
        self.history.count_since(mark)
        self._picture.stale = True
        self._until_compression -= len(data)
        if self._until_compression <= 0:
            self._until_compression = COMPRESS_EVERY
            result = _ffi.new("GhosttyTerminalCompressionResult*")
            step = _lib.GHOSTTY_TERMINAL_COMPRESSION_MODE_INCREMENTAL
            _lib.ghostty_terminal_compress(self._handle, step, result)
        self._replies.flush()

    def resize(self, lines: int, columns: int) -> None:
        """Change the size; the library wraps the primary screen anew."""
        lines, columns = max(1, min(lines, MAX_SIZE)), max(1, min(columns, MAX_SIZE))
        if (lines, columns) != (self.lines, self.columns):
            mark = self.history.mark()
            self._terminal.resize(columns, lines)
            self.history.count_since(mark)
            self._bound_history()
            self._picture.stale = True

    def _reply(self, reply: bytes) -> None:
        if answer := answer_for(reply):
            self._replies.add(answer)

    def _unknown(self, sequence: Any) -> None:
        number, _, rest = sequence.content.decode("utf-8", "replace").partition(";")
        if sequence.kind != "osc" or sequence.truncated:
            return
        if number == "7501":
            answer = self.reports.program_status(rest)
            if answer:
                self._replies.add(answer.encode())
        elif number == "99":
            self.reports.notify(rest)

    def _bell(self, *_: object) -> None:
        self.reports.bells += 1

    def _size(self, _: object, __: object, size: Any) -> bool:
        size.rows, size.columns = self.lines, self.columns
        size.cell_width, size.cell_height = 8, 16
        return True

    def _notified(self, _: object, __: object, note: Any) -> None:
        title, body = _text(note.title), _text(note.body)
        self.reports.notify(f"{title}: {body}" if title else body)

    # -- what callers see -----------------------------------------------------------------------

    @property
    def columns(self) -> int:
        return int(self._terminal.get("cols"))

    @property
    def lines(self) -> int:
        return int(self._terminal.get("rows"))

    def rows(self) -> list[str]:
        """The visible rows, right-trimmed."""
        return [row.text() for row in self._picture.rows()]

    def cells(self, y: int) -> tuple[list[str], list[Style]]:
        """A row's clusters and styles, one a column; a wide one is followed by an empty string."""
        row = self._picture.row(y)
        return row.chars, row.styles

    def versions(self) -> list[int]:
        """One number a row, changed when the row is."""
        return [row.version for row in self._picture.rows()]

    def last_lines(self, n: int) -> list[str]:
        """The last n non-blank rows of history and screen, oldest first."""
        found = [text for text in self.rows() if text]
        older: list[str] = []
        if not self.alternate:
            for index in range(len(self.history) - 1, -1, -1):
                if len(found) + len(older) >= n:
                    break
                if text := self.history[index].text.rstrip():
                    older.append(text)
        return [*reversed(older), *found][-n:] if n > 0 else []

    def snapshot(self) -> bytes:
        """Bytes that draw this screen, modes and cursor; not the primary one behind it."""
        options = _core.init_sized("GhosttyFormatterTerminalOptions")
        options.emit = _lib.GHOSTTY_FORMATTER_FORMAT_VT
        extra, screen = options.extra, options.extra.screen
        extra.modes = extra.scrolling_region = extra.tabstops = True
        screen.cursor = screen.style = screen.hyperlink = screen.charsets = True
        shown = _core.init_sized("GhosttySelection")
        shown.start = self._terminal.ref(0, 0)[0]
        shown.end = self._terminal.ref(self.columns - 1, self.lines - 1)[0]
        options.selection = shown
        formatter = _ffi.new("GhosttyFormatter*")
        _lib.ghostty_formatter_terminal_new(_ffi.NULL, formatter, self._handle, options[0])
        try:
            drawn: str = _core.read_buf(
                lambda b, size, n: _lib.ghostty_formatter_format_buf(formatter[0], b, size, n)
            )
        finally:
            _lib.ghostty_formatter_free(formatter[0])
        title = f"\x1b]2;{self.title}\x1b\\" if self.title else ""
        return f"\x1bc{title}{drawn}".encode()

    @property
    def replies(self) -> list[bytes]:
        """Answers that nobody has sent."""
        return self._replies.waiting

    @property
    def cursor(self) -> Place:
        x, y = self._terminal.cursor
        return Place(y, x)

    @property
    def cursor_visible(self) -> bool:
        return bool(self._terminal.get("cursor_visible", "bool"))

    @property
    def title(self) -> str:
        return plain(_text(self._terminal.get("title", "GhosttyString")), TITLE_LIMIT)

    @property
    def alternate(self) -> bool:
        """Whether the program is on the alternate screen."""
        screen = self._terminal.get("active_screen", "GhosttyTerminalScreen")
        return bool(screen == _lib.GHOSTTY_TERMINAL_SCREEN_ALTERNATE)

    @property
    def bracketed_paste(self) -> bool:
        return bool(self._terminal.mode(BRACKETED_PASTE))

    @property
    def synchronized(self) -> bool:
        return bool(self._terminal.mode(SYNCHRONIZED))

    @property
    def application_cursor(self) -> bool:
        return bool(self._terminal.mode(APPLICATION_CURSOR))

    @property
    def mouse_mode(self) -> int:
        """The mouse mode asked for: 9, 1000, 1002, 1003 or 0."""
        return next((m for m in MOUSE if self._terminal.mode(m)), 0)

    @property
    def signal(self) -> Signal | None:
        """The program's own word on its state."""
        return self.reports.signal

    @property
    def signal_count(self) -> int:
        return self.reports.signal_count

    @property
    def bells(self) -> int:
        return self.reports.bells

    @property
    def notifications(self) -> deque[str]:
        return self.reports.notifications


class GhosttyHistory:
    """The lines above the screen, read from the library when asked for."""

    def __init__(self, terminal: Any, limit: int) -> None:
        self._terminal = terminal
        self._limit = limit
        self.pushed = 0

    def _held(self) -> int:
        return int(self._terminal.get("scrollback_rows", "size_t"))

    def __len__(self) -> int:
        return min(self._held(), self._limit)

    def __getitem__(self, index: int) -> Line:
        size = len(self)
        if not -size <= index < size:
            raise IndexError(index)
        y = self._held() - size + index % size
        return pack(_read_history(self._terminal, y))

    def mark(self) -> Any:
        """A reference to the top row of the screen, wherever it will go."""
        tracked = _ffi.new("GhosttyTrackedGridRef*")
        _TRACK(self._terminal._t[0], _point("ACTIVE", 0), tracked)
        return tracked

    def count_since(self, tracked: Any) -> None:
        """Count the lines that went into history since the mark, and let go of it."""
        where = _ffi.new("GhosttyPointCoordinate*")
        found = _lib.ghostty_tracked_grid_ref_point(
            tracked[0], _lib.GHOSTTY_POINT_TAG_SCREEN, where
        )
        gone = self._held() - (where.y if found == _lib.GHOSTTY_SUCCESS else 0)
        self.pushed += max(0, gone)
        _lib.ghostty_tracked_grid_ref_free(tracked[0])


class _Picture:
    """The visible rows as cells. Only rows the library calls dirty are read again.

    Text is read when the screen is looked at, styles when somebody asks for cells: panes look far
    more often than viewers draw, and a style costs several calls into the library.
    """

    def __init__(self, terminal: Any) -> None:
        self.stale = True
        self._terminal = terminal
        self._rows: list[Row] = []
        self._unstyled: set[int] = set()
        self._stamp = 0
        self._state = _ffi.new("GhosttyRenderState*")
        self._iterator = _ffi.new("GhosttyRenderStateRowIterator*")
        self._cells = _ffi.new("GhosttyRenderStateRowCells*")
        _lib.ghostty_render_state_new(_ffi.NULL, self._state)
        _lib.ghostty_render_state_row_iterator_new(_ffi.NULL, self._iterator)
        _lib.ghostty_render_state_row_cells_new(_ffi.NULL, self._cells)
        weakref.finalize(self, _free, self._state, self._iterator, self._cells)

    def rows(self) -> list[Row]:
        """The rows as they are now; styles may be those of an earlier look."""
        if not self.stale:
            return self._rows
        self.stale = False
        _lib.ghostty_render_state_update(self._state[0], self._terminal._t[0])
        columns, lines = self._terminal.size
        if len(self._rows) != lines or len(self._rows[0].chars) != columns:
            self._rows = [Row(columns, PLAIN, 0) for _ in range(lines)]
        self._rewind()
        y = _ffi.new("uint16_t*")
        while _lib.ghostty_render_state_row_iterator_next_dirty(self._iterator[0], y):
            self._stamp += 1
            self._read_text(self._rows[y[0]])
            self._unstyled.add(y[0])
        _lib.ghostty_render_state_clean(self._state[0])
        return self._rows

    def row(self, y: int) -> Row:
        """One row as it is now, styles included."""
        rows = self.rows()
        if y % len(rows) in self._unstyled:
            self._rewind()
            for at, row in enumerate(rows):
                _lib.ghostty_render_state_row_iterator_next(self._iterator[0])
                if at in self._unstyled:
                    self._read_styles(row, at)
            self._unstyled.clear()
        return rows[y]

    def _rewind(self) -> None:
        _lib.ghostty_render_state_get(
            self._state[0], _lib.GHOSTTY_RENDER_STATE_DATA_ROW_ITERATOR, self._iterator
        )

    def _raw(self, row: Row) -> list[int]:
        """The cells of the row the iterator is at, as numbers; `_cells` then holds that row."""
        view = _ffi.new("GhosttyCellsView*")
        get = _lib.ghostty_render_state_row_get
        get(self._iterator[0], _lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS_RAW, view)
        get(self._iterator[0], _lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS, self._cells)
        raw: list[int] = _ffi.unpack(view.ptr, min(view.len, len(row.chars)))
        return raw

    def _read_text(self, row: Row) -> None:
        raw = self._raw(row)
        chars = [_character(cell) for cell in raw]
        for x, c in enumerate(chars):
            if c == _CLUSTER:
                chars[x] = self._cluster(x)
        row.chars[: len(chars)] = chars
        row.wide = "" in chars
        row.version = self._stamp

    def _cluster(self, x: int) -> str:
        buffer, room = _ffi.new("GhosttyBuffer*"), _ffi.new("uint8_t[]", 512)
        buffer.ptr, buffer.cap = room, 512
        _lib.ghostty_render_state_row_cells_select(self._cells[0], x)
        utf8 = _lib.GHOSTTY_RENDER_STATE_ROW_CELLS_DATA_GRAPHEMES_UTF8
        _lib.ghostty_render_state_row_cells_get(self._cells[0], utf8, buffer)
        return _ffi.buffer(room, buffer.len)[:].decode("utf-8", "replace") or " "

    def _read_styles(self, row: Row, y: int) -> None:
        # Equal raw cells of one row look alike, but for their links.
        seen: dict[int, Style] = {0: PLAIN}
        for x, raw in enumerate(self._raw(row)):
            style = seen.get(raw)
            if style is None:
                look = _core.init_sized("GhosttyStyle")
                _lib.ghostty_render_state_row_cells_select(self._cells[0], x)
                _lib.ghostty_render_state_row_cells_get(
                    self._cells[0], _lib.GHOSTTY_RENDER_STATE_ROW_CELLS_DATA_STYLE, look
                )
                style = _style(look, raw)
                if _LINKED(raw):
                    style = style._replace(link=_link(self._terminal.ref(x, y)))
                else:
                    seen[raw] = style
            row.styles[x] = style


# Looked up now: a look-up takes a lock, and the collector may run `_free` while it is held.
_FREE_CELLS: Final = _lib.ghostty_render_state_row_cells_free
_FREE_ITERATOR: Final = _lib.ghostty_render_state_row_iterator_free
_FREE_STATE: Final = _lib.ghostty_render_state_free


def _free(state: Any, iterator: Any, cells: Any) -> None:
    _FREE_CELLS(cells[0])
    _FREE_ITERATOR(iterator[0])
    _FREE_STATE(state[0])


def _dark(_: object, __: object, scheme: Any) -> bool:
    scheme[0] = _lib.GHOSTTY_COLOR_SCHEME_DARK
    return True


def _text(value: Any) -> str:
    return _ffi.buffer(value.ptr, value.len)[:].decode("utf-8", "replace") if value.len else ""


def _cell_fact(key: str, kind: str) -> Callable[[int], int]:
    """A reader of one fact of a raw cell."""
    number, out = getattr(_lib, f"GHOSTTY_CELL_DATA_{key}"), _ffi.new(kind)

    def read(raw: int) -> int:
        _lib.ghostty_cell_get(raw, number, out)
        return int(out[0])

    return read


_CODEPOINT: Final = _cell_fact("CODEPOINT", "uint32_t*")
_CONTENT: Final = _cell_fact("CONTENT_TAG", "GhosttyCellContentTag*")
_WIDE: Final = _cell_fact("WIDE", "GhosttyCellWide*")
_LINKED: Final = _cell_fact("HAS_HYPERLINK", "bool*")
_PALETTE: Final = _cell_fact("COLOR_PALETTE", "uint8_t*")


# Stands for a cell whose characters do not fit into its number.
_CLUSTER: Final = "cluster"


@lru_cache(maxsize=16384)
def _character(raw: int) -> str:
    if _WIDE(raw) == _lib.GHOSTTY_CELL_WIDE_SPACER_TAIL:
        return ""
    content = _CONTENT(raw)
    if content == _lib.GHOSTTY_CELL_CONTENT_CODEPOINT_GRAPHEME:
        return _CLUSTER
    if content >= _lib.GHOSTTY_CELL_CONTENT_BG_COLOR_PALETTE:
        return " "
    return chr(_CODEPOINT(raw) or 32)


def _color(color: Any) -> int:
    if color.tag == _lib.GHOSTTY_STYLE_COLOR_PALETTE:
        return int(color.value.palette)
    if color.tag == _lib.GHOSTTY_STYLE_COLOR_RGB:
        return _packed(color.value.rgb)
    return DEFAULT_COLOR


def _packed(rgb: Any) -> int:
    return RGB | int(rgb.r) << 16 | int(rgb.g) << 8 | int(rgb.b)


def _style(look: Any, raw: int) -> Style:
    attrs = sum(int(flag) for name, flag in _FLAGS if getattr(look, name))
    background = _color(look.bg_color)
    content = _CONTENT(raw)
    if content == _lib.GHOSTTY_CELL_CONTENT_BG_COLOR_PALETTE:  # erased with a background
        background = _PALETTE(raw)
    elif content == _lib.GHOSTTY_CELL_CONTENT_BG_COLOR_RGB:
        out = _ffi.new("GhosttyColorRgb*")
        _lib.ghostty_cell_get(raw, _lib.GHOSTTY_CELL_DATA_COLOR_RGB, out)
        background = _packed(out)
    underline_color = _color(look.underline_color)
    return Style(_color(look.fg_color), background, attrs, look.underline, underline_color)


def _link(ref: Any) -> str:
    uri: str = _core.read_buf(
        lambda b, size, n: _lib.ghostty_grid_ref_hyperlink_uri(ref, b, size, n)
    )
    return uri if len(uri) <= LINK_LIMIT else ""


_TRACK: Final = _core.union_fn(
    "ghostty_terminal_grid_ref_track",
    "GhosttyResult(*)(GhosttyTerminal, GhosttyPointS, GhosttyTrackedGridRef*)",
)


def _point(tag: str, y: int) -> Any:
    point = _ffi.new("GhosttyPointS*")
    point.tag = getattr(_lib, f"GHOSTTY_POINT_TAG_{tag}")
    point.value.x, point.value.y = 0, y
    return point[0]


def _read_history(terminal: Any, y: int) -> Row:
    """A row of history as cells, one call a cell: only viewers that scroll back ask for it."""
    columns = terminal.get("cols")
    row = Row(columns, PLAIN, 0)
    raw, flags, wrapped = _ffi.new("GhosttyCell*"), _ffi.new("GhosttyRow*"), _ffi.new("bool*")
    for x in range(columns):
        ref = terminal.ref(x, y, "history")
        _lib.ghostty_grid_ref_cell(ref, raw)
        look = _core.init_sized("GhosttyStyle")
        _lib.ghostty_grid_ref_style(ref, look)
        row.chars[x], row.styles[x] = _character(raw[0]), _style(look, raw[0])
        if row.chars[x] == _CLUSTER:
            points, count = _ffi.new("uint32_t[]", 64), _ffi.new("size_t*")
            _lib.ghostty_grid_ref_graphemes(ref, points, 64, count)
            row.chars[x] = "".join(chr(points[i]) for i in range(min(count[0], 64)))
        if _LINKED(raw[0]):
            row.styles[x] = row.styles[x]._replace(link=_link(ref))
        if x == 0:
            _lib.ghostty_grid_ref_row(ref, flags)
            _lib.ghostty_row_get(flags[0], _lib.GHOSTTY_ROW_DATA_WRAP, wrapped)
    row.wide = "" in row.chars
    row.wrapped = Wrap.FULL if wrapped[0] else Wrap.NO
    return row
