"""The engine on pyte: the terminal an agent believes it has.

Joins the parts: bytes go through `tokenizer`, text to `writing`, sequences to the functions of
`movement`, `editing`, `modes` and `queries`, strings to `strings`; answers leave through `replies`.
pyte alone raises on real output, loses text and has no alternate screen. Invariants: `feed` never
raises; any split of the bytes gives the same screen. Made by `engine`, owned by a pane.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from deck.pane.status import Signal
from deck.pane.terminal import editing, modes, movement, queries, reflow, strings
from deck.pane.terminal.cells import PLAIN, Style
from deck.pane.terminal.grid import CURSOR_SHOWN, Grid
from deck.pane.terminal.movement import Params
from deck.pane.terminal.rendition import MAX_PARAMS, apply_sgr
from deck.pane.terminal.replies import Replies
from deck.pane.terminal.reports import Reports
from deck.pane.terminal.snapshot import snapshot
from deck.pane.terminal.tokenizer import Tokenizer
from deck.pane.terminal.writing import write

MAX_PARAM: Final = 65535
CACHE_LIMIT: Final = 4096

Handler = Callable[[Grid, Params], str | None]

_SEQUENCES: Final[Mapping[str, Handler]] = {
    **movement.CSI, **editing.CSI, **modes.CSI, **queries.CSI,
}  # fmt: skip
_ESCAPES: Final[Mapping[str, Callable[[Grid], None]]] = {
    **movement.ESCAPES,
    "7": modes.save_cursor,
    "8": modes.restore_cursor,
    "#8": editing.alignment,
}
_FINALS: Final = "".join(map(chr, range(0x40, 0x7F)))
_INTERMEDIATES: Final = "".join(map(chr, range(0x20, 0x30)))
_RENDITION: Final = re.compile(r"[0-9:;]*m")


class Screen(Grid):
    """A terminal of `columns` x `lines` cells with `history` packed lines above it.

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
        self.reports = Reports()
        self._replies = Replies(on_reply)
        self._parsed: dict[str, tuple[Handler | None, Params]] = {}
        self._styles: dict[tuple[Style, str], Style] = {}
        self._tokenizer = Tokenizer(self)
        super().__init__(columns, lines, history)

    def feed(self, data: bytes) -> None:
        """Take the next output bytes. Never raises, whatever they are."""
        self._replies.begin()
        self._tokenizer.feed(data)
        self._replies.flush()

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Change the size. Soft-wrapped lines of the primary screen are wrapped anew."""
        reflow.resize(self, lines or self.lines, columns or self.columns)

    # -- what callers see -----------------------------------------------------------------------

    def rows(self) -> list[str]:
        """The visible rows, right-trimmed."""
        return [row.text() for row in self.grid]

    def cells(self, y: int) -> tuple[list[str], list[Style]]:
        """A row's clusters and styles, one a column; a wide one is followed by an empty string."""
        row = self.grid[y]
        return row.chars, row.styles

    def last_lines(self, n: int) -> list[str]:
        """The last n non-blank rows of history and screen, oldest first."""
        found = [text for text in self.rows() if text]
        older: list[str] = []
        if not self.alternate:
            for line in reversed(self.history):
                if len(found) + len(older) >= n:
                    break
                if text := line.text.rstrip():
                    older.append(text)
        return [*reversed(older), *found][-n:] if n > 0 else []

    def versions(self) -> list[int]:
        """One number a row, changed when the row is: what a viewer has to redraw."""
        return [row.version for row in self.grid]

    def snapshot(self) -> bytes:
        """Bytes that draw this picture, these modes and this cursor on a fresh terminal."""
        return snapshot(self)

    @property
    def display(self) -> list[str]:
        """The visible rows at full width, as pyte gives them."""
        return ["".join(row.chars) for row in self.grid]

    @property
    def replies(self) -> list[bytes]:
        """Answers that nobody has sent."""
        return self._replies.waiting

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
        """Messages of the program, newest last: for the listener to take and clear."""
        return self.reports.notifications

    @property
    def alternate(self) -> bool:
        """Whether the program is on the alternate screen."""
        return self.primary is not None

    @property
    def bracketed_paste(self) -> bool:
        return modes.BRACKETED_PASTE in self.private

    @property
    def synchronized(self) -> bool:
        """Whether the program is in the middle of an update (mode 2026)."""
        return modes.SYNCHRONIZED in self.private

    @property
    def application_cursor(self) -> bool:
        return modes.APPLICATION_CURSOR in self.private

    @property
    def mouse_mode(self) -> int:
        """The mouse mode asked for: 9, 1000, 1002, 1003 or 0."""
        return next((m for m in modes.MOUSE if m in self.private), 0)

    @property
    def cursor_visible(self) -> bool:
        return CURSOR_SHOWN in self.private

    # -- what the tokenizer says ----------------------------------------------------------------

    def text(self, run: str) -> None:
        """Draw printable characters at the cursor."""
        write(self, run)

    def draw(self, data: str) -> None:
        """pyte's name for `text`."""
        write(self, data)

    def controls(self, run: str) -> None:
        """Act on C0 (and C1) characters."""
        self.break_run()
        if run == "\r\n":
            self.cursor.x = 0
            movement.line_feed(self)
            return
        for c in run:
            if c == "\a":
                self.reports.bells += 1
            elif (action := movement.CONTROLS.get(c)) is not None:
                action(self)

    def escape(self, body: str) -> None:
        """Act on ESC plus intermediates and a final."""
        self.break_run()
        action = _ESCAPES.get(body)
        if action is not None:
            action(self)
        elif body == "c":
            self.reset()
            self.reports.signal = None
        elif len(body) == 2 and body[0] in "()":
            modes.designate(self, body)

    def csi(self, body: str) -> None:
        """Act on a control sequence; unknown ones are ignored."""
        if body[-1] == "m" and _RENDITION.fullmatch(body):
            self._render(body)
            return
        if body[-1] != "b":
            self.break_run()
        handler, params = self._parsed.get(body) or self._parse(body)
        if handler is not None:
            self._answer(handler(self, params))

    def string(self, kind: str, body: str) -> None:
        """Act on an OSC or DCS; APC, PM and SOS are swallowed."""
        self.break_run()
        self._answer(strings.act(self, self.reports, kind, body))

    def _parse(self, body: str) -> tuple[Handler | None, Params]:
        prefix = body[0] if body[0] in "<=>?" else ""
        digits = body[len(prefix) :].rstrip(_FINALS).rstrip(_INTERMEDIATES)
        key = prefix + body[len(prefix) + len(digits) :]
        params = tuple(
            min(int(part.split(":", 1)[0] or 0), MAX_PARAM)
            for part in digits.split(";")[:MAX_PARAMS]
        )
        if len(self._parsed) >= CACHE_LIMIT:
            self._parsed.clear()
        parsed = self._parsed[body] = (_SEQUENCES.get(key), params)
        return parsed

    def _render(self, body: str) -> None:
        if body in ("0m", "m") and not self.style.link:
            self.style = self.blank = PLAIN  # half of all SGR; it would only fill the cache
            return
        key = (self.style, body)
        style = self._styles.get(key)
        if style is None:
            style = apply_sgr(self.style, body[:-1])
            if len(self._styles) >= CACHE_LIMIT:
                self._styles.clear()
            self._styles[key] = style
        self.set_style(style)

    def _answer(self, answer: str | None) -> None:
        if answer:
            self._replies.add(answer.encode())
