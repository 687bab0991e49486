"""What can be seen of a pane, and where in it a line stands. Pure.

Owns the comparison of a text with a screen that wraps it, frames it, redraws it in pieces or shows
it as "[pasted text]". Invariant: white space, borders and glyphs that move on their own never make
a difference; a line has left the agent's input only if it was there in the sight before. Called by
`typing`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from deck.pane.status import PaneState

# A line is known again by so much of its beginning and its end, in so many of the last rows.
VERIFY_CHARS: Final = 24
VERIFY_ROWS: Final = 40

# What a composer draws around its text: borders, and the mark it opens a line with.
_FRAME = re.compile(r"[\u2500-\u259f|\s\x00]+")
_MOVING = re.compile(r"[\d\u2800-\u28ff◐-◓✦✳✶✻✽·•∗*]+")


@dataclass(frozen=True, slots=True)
class View:
    """What can be seen of a pane at one instant.

    `certain`: the state comes from a signal, not from looking. `facts` counts the agent's own
    reports of work (OSC 7501, title). `line_limit` is the most bytes the terminal takes in one
    line, None in raw mode, when it takes any number. `unread`: bytes the agent has been sent and
    has not read; in line mode only finished lines count.
    """

    rows: tuple[str, ...]
    cursor: tuple[int, int]
    state: PaneState
    certain: bool
    bracketed_paste: bool
    person_typing: bool
    facts: int
    line_limit: int | None = None
    unread: int = 0
    #: Something a person has left in the input would be submitted with the line.
    leftover: bool = False


def squeeze(text: str) -> str:
    """Text without white space and without box borders: what stays equal however it is wrapped."""
    return _FRAME.sub("", text)


def _last_visible(rows: tuple[str, ...]) -> list[str]:
    return [row for row in rows if row.strip()][-VERIFY_ROWS:]


def squeezed_page(rows: tuple[str, ...]) -> str:
    """The last visible rows as one text, squeezed."""
    return "".join(squeeze(row) for row in _last_visible(rows))


class Sight:
    """Where a line stands on the screen; two sights tell whether it was submitted in between."""

    def __init__(self, line: str, view: View) -> None:
        bare = squeeze(line)
        head, tail = bare[:VERIFY_CHARS], bare[-VERIFY_CHARS:]
        rows = [text for row in _last_visible(view.rows) if (text := squeeze(row))]
        page = "".join(rows)
        last = page.rfind(tail) if tail else -1
        self.shown = last >= 0
        self.visible = self.shown or (bool(head) and head in page)
        # What follows the line, without the glyphs that move on their own, and on how many rows.
        self.below = _MOVING.sub("", page[last + len(tail) :]) if self.shown else ""
        self.rows_below = _rows_after(rows, last + len(tail)) if self.shown else 0
        self.count = page.count(tail) if tail else 0
        self.at_cursor = self.shown and (
            _ends_at_cursor(tail, view) or _ends_above_cursor(tail, view)
        )
        self.collapsed = not self.shown and "pasted" in page[-400:].lower()

    def left_since(self, before: Sight) -> bool:
        """Whether the line was in the input in `before` and is no longer there now."""
        if before.at_cursor:
            return not self.at_cursor
        if before.shown:
            moved_up = self.rows_below > before.rows_below and self.below != before.below
            return not self.shown or moved_up
        return before.collapsed and not self.collapsed


def _rows_after(rows: list[str], place: int) -> int:
    """How many rows come after the one in which offset `place` of their joined text ends."""
    end = 0
    for index, row in enumerate(rows):
        end += len(row)
        if end >= place:
            return len(rows) - index - 1
    return 0


def _ends_at_cursor(tail: str, view: View) -> bool:
    y, x = view.cursor
    if not 0 <= y < len(view.rows):
        return False
    text = squeeze(view.rows[y][:x])
    if not text:
        return False  # the cursor stands on a line of its own
    for above in range(y - 1, max(-1, y - 6), -1):
        if len(text) >= len(tail):
            break
        text = squeeze(view.rows[above]) + text
    return text.endswith(tail)


def _ends_above_cursor(tail: str, view: View) -> bool:
    """Whether Enter was taken for a line break: the cursor is on a new row of the same input."""
    y, x = view.cursor
    if view.line_limit is not None or x == 0 or not 0 < y < len(view.rows):
        return False
    if squeeze(view.rows[y][:x]):
        return False
    above = replace(view, cursor=(y - 1, len(view.rows[y - 1])))
    return _ends_at_cursor(tail, above)
