"""What a terminal cell holds: styles and rows of cells. Pure.

Invariants of a row: `chars` and `styles` have one entry per column; a wide character stands in its
first column and leaves the empty string in the second; a row's `version` is new after every change,
unique over the screen, so a viewer redraws exactly the rows whose version it has not drawn.
Called by all of the terminal and by whoever draws it.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final, NamedTuple

DEFAULT_COLOR: Final = -1
# Colors are -1 (default), 0..255 (palette) or RGB plus this bit.
RGB: Final = 0x1000000


class Attr(IntFlag):
    """Rendition flags of a cell."""

    NONE = 0
    BOLD = 1
    DIM = 2
    ITALIC = 4
    BLINK = 8
    REVERSE = 16
    HIDDEN = 32
    STRIKE = 64
    OVERLINE = 128


class Style(NamedTuple):
    """How a cell looks. `underline`: 0 none, 1 single, 2 double, 3 curly, 4 dotted, 5 dashed."""

    fg: int = DEFAULT_COLOR
    bg: int = DEFAULT_COLOR
    attrs: int = 0
    underline: int = 0
    underline_color: int = DEFAULT_COLOR
    link: str = ""


PLAIN: Final = Style()


class Wrap(IntEnum):
    """Whether a row's text goes on in the next row (a soft wrap)."""

    NO = 0
    FULL = 1
    #: Its last column is blank: the wide character that comes next did not fit.
    SHORT = 2


class Row:
    """One line of cells."""

    __slots__ = ("chars", "styles", "version", "wide", "wrapped")

    def __init__(self, columns: int, style: Style, version: int) -> None:
        self.chars = [" "] * columns
        self.styles = [style] * columns
        self.wide = False
        self.wrapped = Wrap.NO
        self.version = version

    def text(self) -> str:
        """The row's text, right-trimmed."""
        return "".join(self.chars).rstrip()

    def used(self) -> int:
        """Columns its text takes: all before a soft wrap, else up to the last character."""
        used = len(self.chars)
        if self.wrapped:
            return used - 1 if self.wrapped is Wrap.SHORT and self.chars[-1] == " " else used
        while used and self.chars[used - 1] == " ":
            used -= 1
        return used

    def fill(self, start: int, stop: int, style: Style) -> None:
        """Blank the columns start..stop-1; a wide character cut in half is blanked whole."""
        if self.wide:
            self.split(start)
            self.split(stop)
        count = stop - start
        self.chars[start:stop] = [" "] * count
        self.styles[start:stop] = [style] * count

    def split(self, column: int) -> None:
        """Make `column` a border between characters: a wide one across it becomes two blanks."""
        if 0 < column < len(self.chars) and not self.chars[column]:
            self.chars[column - 1] = self.chars[column] = " "
