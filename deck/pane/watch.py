"""What has been seen of an agent: the last whole picture of its screen, and what it said of itself.

Owns the difference between output and news. Invariants: a screen that its program is still drawing
(mode 2026) is not looked at, but for a short time only; footers and other chrome never count as a
change; a title or a signal is news once. Pure: told when something was written and what time it is.
Called by `pane`, which judges the state by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from deck.pane.status import DEFAULT_CHROME, Signal, is_chrome, title_shows_work
from deck.pane.terminal.engine import Engine

# A synchronized update (mode 2026) may hide the screen from us for this long, not longer:
# a child that dies inside one would otherwise freeze its state.
SYNC_LIMIT_SECONDS: Final = 0.15


class Watch:
    """The watch over one run of an agent, from `now` on."""

    def __init__(self, screen: Engine, chrome_markers: Iterable[str], now: float) -> None:
        self._screen = screen
        #: The screen may differ from the picture.
        self.written = True
        self.rows: tuple[str, ...] = ()
        #: The rows that count: neither blank nor chrome.
        self.picture: tuple[str, ...] = ()
        #: When the picture last changed.
        self.changed_at = now
        #: How often the agent has said that it works.
        self.facts = 0
        #: What its hooks said last.
        self.hook: Signal | None = None
        self._title = ""
        self._signals = 0
        self._sync_since: float | None = None
        self.ignore(chrome_markers)

    def ignore(self, chrome_markers: Iterable[str]) -> None:
        """Take rows with these marks for chrome from now on, besides those that always are."""
        self.chrome = (*DEFAULT_CHROME, *(marker.lower() for marker in chrome_markers))
        self.written = True

    def hear(self, said: Iterable[Signal]) -> None:
        """Take what the agent's hooks have said since the last time."""
        for signal in said:
            self.hook = signal
            self.facts += signal.state == "working"

    def look(self, now: float) -> str | None:
        """Take a new picture if something was written and no update is half done.

        Returns the title if it is a new one.
        """
        if self.mid_update(now) or not self.written:
            return None
        self.written = False
        self.rows = tuple(self._screen.rows())
        picture = tuple(row for row in self.rows if row and not is_chrome(row, self.chrome))
        if picture != self.picture:
            self.picture = picture
            self.changed_at = now
        if self._screen.signal_count != self._signals:
            self._signals = self._screen.signal_count
            signal = self._screen.signal
            self.facts += signal is not None and signal.state != "idle"
        if self._screen.title == self._title:
            return None
        self._title = self._screen.title
        self.facts += title_shows_work(self._title)
        return self._title

    def mid_update(self, now: float) -> bool:
        """Whether the screen is half drawn, by the program's own word and for a short time only."""
        if not self._screen.synchronized:
            self._sync_since = None
            return False
        if self._sync_since is None:
            self._sync_since = now
        return now - self._sync_since < SYNC_LIMIT_SECONDS
