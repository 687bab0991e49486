"""What a terminal cell holds: styles, rows of cells, packed history, character widths. Pure.

Invariants of a row: `chars` and `styles` have one entry per column; a wide character stands in its
first column and leaves the empty string in the second; a row's `version` is new after every change,
unique over the screen, so a viewer redraws exactly the rows whose version it has not drawn.
Called by `screen` and by whoever draws it.
"""

from __future__ import annotations

import re
import struct
from enum import IntFlag
from functools import lru_cache
from typing import Final, NamedTuple

from wcwidth import wcwidth

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


class Row:
    """One line of cells. `wrapped`: its text goes on in the next row (a soft wrap)."""

    __slots__ = ("chars", "styles", "version", "wide", "wrapped")

    def __init__(self, columns: int, style: Style, version: int) -> None:
        self.chars = [" "] * columns
        self.styles = [style] * columns
        self.wide = False
        self.wrapped = False
        self.version = version

    def text(self) -> str:
        """The row's text, right-trimmed."""
        return "".join(self.chars).rstrip()

    def text_cells(self) -> list[str]:
        """The cells up to the last one that is not blank."""
        used = len(self.chars)
        while used and self.chars[used - 1] == " ":
            used -= 1
        return self.chars[:used]

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


# A run of one style in a packed line: length, colors, flags, underline, number of its link.
_RUN: Final = struct.Struct("<HiiiBBH")


class Line(NamedTuple):
    """A row packed for history: its text and its runs of style, nothing for a plain one."""

    text: str
    wrapped: bool = False
    runs: bytes = b""
    links: tuple[str, ...] = ()

    def spans(self) -> list[tuple[int, Style]]:
        """(length, style) from the left; what follows the last one is plain."""
        return [
            (count, Style(fg, bg, attrs, underline, line, self.links[link - 1] if link else ""))
            for count, fg, bg, line, attrs, underline, link in _RUN.iter_unpack(self.runs)
        ]


def pack(row: Row) -> Line:
    """The row as a history line. Trailing plain blanks are dropped unless the row is wrapped."""
    joined = "".join(row.chars)
    text = joined if row.wrapped else joined.rstrip(" ")
    styles = row.styles
    if styles.count(PLAIN) == len(styles):
        return Line(text, row.wrapped)
    runs: list[bytes] = []
    links: list[str] = []
    start, current = 0, styles[0]
    for column, style in enumerate(styles):
        if style is not current and style != current:
            runs.append(_pack_run(column - start, current, links))
            start, current = column, style
    if current != PLAIN:
        runs.append(_pack_run(len(styles) - start, current, links))
    return Line(text, row.wrapped, b"".join(runs), tuple(links))


def _pack_run(count: int, style: Style, links: list[str]) -> bytes:
    fg, bg, attrs, underline, line, link = style
    if link and link not in links:
        links.append(link)
    number = links.index(link) + 1 if link else 0
    return _RUN.pack(count, fg, bg, line, attrs, underline, number)


def cells_of(line: Line) -> tuple[list[str], list[Style]]:
    """A history line as cells again, as many columns as it needs."""
    chars: list[str] = []
    for cluster in clusters(line.text):
        chars.append(cluster)
        if cluster_width(cluster) == 2:
            chars.append("")
    styles: list[Style] = []
    for count, style in line.spans():
        styles += [style] * count
    missing = len(styles) - len(chars)
    if missing > 0:
        chars += [" "] * missing
    else:
        styles += [PLAIN] * -missing
    return chars, styles


# -- widths -----------------------------------------------------------------------------------

ZWJ: Final = "\u200d"
VS16: Final = "\ufe0f"
# No real cluster is longer; a flood of combining marks stays bounded.
CLUSTER_LIMIT: Final = 32

# Runs that are certainly one column a character: Latin, Greek, Cyrillic, punctuation, arrows, box
# drawing, blocks, braille. Soft hyphen and everything with emoji presentation are left out.
SINGLE = re.compile(
    "[ -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e"
    "\u2190-\u2199\u2200-\u22ff\u2500-\u259f\u25a0-\u25fc\u2800-\u28ff]+"
)


@lru_cache(maxsize=8192)
def char_width(c: str) -> int:
    """Columns of one character: 0 joins the one before it, 2 is wide."""
    if "\U0001f1e6" <= c <= "\U0001f1ff":
        return 2  # a flag letter; the second of a pair joins the first
    return max(0, wcwidth(c))


def is_emoji_modifier(c: str) -> bool:
    return "\U0001f3fb" <= c <= "\U0001f3ff"


def is_flag_letter(c: str) -> bool:
    return "\U0001f1e6" <= c <= "\U0001f1ff"


def joins(cluster: str, c: str) -> bool:
    """Whether `c` continues the cluster before it instead of taking a cell of its own.

    One rule for the whole deck (terminal and pages): zero-width characters, what follows a joiner
    after an emoji, skin tones after a wide character, and the second letter of a flag.
    """
    if char_width(c) == 0:
        return True
    if cluster.endswith(ZWJ) and len(cluster) > 1:
        return char_width(c) == 2 or c in "\u2640\u2642\u2695\u2696\u2708\u2764\u2620\u26a7"
    if is_emoji_modifier(c):
        return char_width(cluster[0]) == 2 or VS16 in cluster
    return is_flag_letter(c) and len(cluster) == 1 and is_flag_letter(cluster)


def cluster_width(cluster: str) -> int:
    """Columns of a cluster: its first character's, two once an emoji selector widens it."""
    width = char_width(cluster[0])
    if width == 1 and VS16 in cluster[1:2]:
        return 2
    return width


def clusters(text: str) -> list[str]:
    """Text cut into what takes a cell (or two) each."""
    if text.isascii():
        return list(text)
    found: list[str] = []
    for c in text:
        if found and joins(found[-1], c) and len(found[-1]) < CLUSTER_LIMIT:
            found[-1] += c
        else:
            found.append(c)
    return found
