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
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from deck.pane.status import Signal, plain
from deck.pane.terminal.cells import Style
from deck.pane.terminal.ghostty_cells import GhosttyHistory, Picture, text_of
from deck.pane.terminal.grid import MAX_SIZE
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
from deck.pane.terminal.strings import TITLE_LIMIT

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
# History is compressed after this much output: 10,000 lines then take 3 MB instead of 12, for a
# pause of 4 ms each time.
COMPRESS_EVERY: Final = 512 * 1024
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


def answer_for(reply: bytes) -> bytes:
    """What the program is told where the library would say `reply`; empty for nothing."""
    if _AS_GIVEN.fullmatch(reply):
        return reply
    return next((ours for shape, ours in _OURS if shape.fullmatch(reply)), b"")


def _dark(_: object, __: object, scheme: Any) -> bool:
    scheme[0] = _lib.GHOSTTY_COLOR_SCHEME_DARK
    return True


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
        self._picture = Picture(self._terminal)
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
            all_of_it = _lib.GHOSTTY_TERMINAL_COMPRESSION_MODE_FULL
            _lib.ghostty_terminal_compress(self._handle, all_of_it, result)
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
        title, body = text_of(note.title), text_of(note.body)
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
        return plain(text_of(self._terminal.get("title", "GhosttyString")), TITLE_LIMIT)

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
