"""Cells and history read out of libghostty-vt.

Owns the translation of the library's rows and styles into the deck's. Invariants: a row is read
again only when the library calls it dirty; nothing the library hands out is kept past the next
write to its terminal. Called by `ghostty`.
"""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from deck.pane.terminal.cells import DEFAULT_COLOR, PLAIN, RGB, Attr, Row, Style, Wrap
from deck.pane.terminal.history import Line, pack
from deck.pane.terminal.strings import LINK_LIMIT

_vt: Any = importlib.import_module("pyghostty")
_core: Any = importlib.import_module("pyghostty.core")
_ffi: Any = _vt.ffi
_lib: Any = _vt.lib

_FLAGS: Final = (
    ("bold", Attr.BOLD), ("faint", Attr.DIM), ("italic", Attr.ITALIC), ("blink", Attr.BLINK),
    ("inverse", Attr.REVERSE), ("invisible", Attr.HIDDEN), ("strikethrough", Attr.STRIKE),
    ("overline", Attr.OVERLINE),
)  # fmt: skip


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

    def mark(self) -> tuple[int, Any]:
        """Which screen shows, and a reference to its top row, wherever that will go."""
        tracked = _ffi.new("GhosttyTrackedGridRef*")
        _TRACK(self._terminal._t[0], _point("ACTIVE", 0), tracked)
        return self._shown(), tracked

    def _shown(self) -> int:
        return int(self._terminal.get("active_screen", "GhosttyTerminalScreen"))

    def count_since(self, mark: tuple[int, Any]) -> None:
        """Count the lines that went into history since the mark, and let go of it.

        A feed that changes between the screens counts none: the reference is to the other one.
        """
        shown, tracked = mark
        where = _ffi.new("GhosttyPointCoordinate*")
        found = _lib.ghostty_tracked_grid_ref_point(
            tracked[0], _lib.GHOSTTY_POINT_TAG_SCREEN, where
        )
        gone = self._held() - (where.y if found == _lib.GHOSTTY_SUCCESS else 0)
        if shown == self._shown():
            self.pushed += max(0, gone)
        _lib.ghostty_tracked_grid_ref_free(tracked[0])


class Picture:
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


def text_of(value: Any) -> str:
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
