"""What the deck needs of a terminal, and the choice of who does it.

Owns the interface that panes, faces and tests use; nothing outside this package may ask more of an
engine. Invariants: an engine that cannot be had is replaced by the one on pyte, which is always
there, and the reason can be told to the user. Called by `pane` and by the reader of the config.
"""

from __future__ import annotations

import importlib.util
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from deck.pane.status import Signal
from deck.pane.terminal.cells import Style
from deck.pane.terminal.history import Line
from deck.pane.terminal.screen import Screen


class EngineKind(StrEnum):
    """Which engine reads a pane's output."""

    PYTE = "pyte"
    GHOSTTY = "ghostty"


class Cursor(Protocol):
    """A place on the screen, from 0."""

    @property
    def y(self) -> int: ...
    @property
    def x(self) -> int: ...


class Lines(Protocol):
    """History, oldest first. `pushed` counts lines that ever went there, kept or not."""

    @property
    def pushed(self) -> int: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Line: ...


class Engine(Protocol):
    """A terminal. `feed` never raises, and any split of the bytes gives the same screen."""

    @property
    def lines(self) -> int: ...
    @property
    def columns(self) -> int: ...

    def feed(self, data: bytes) -> None:
        """Take the next output bytes; answers to queries leave before this returns."""

    def resize(self, lines: int, columns: int) -> None:
        """Change the size; soft-wrapped text is wrapped anew and none is lost."""

    def rows(self) -> list[str]:
        """The visible rows, right-trimmed."""

    def cells(self, y: int) -> tuple[list[str], list[Style]]:
        """A row's clusters and styles, one a column; a wide one is followed by an empty string."""

    def versions(self) -> list[int]:
        """One number a row, changed when the row is."""

    def last_lines(self, n: int) -> list[str]:
        """The last n non-blank rows of history and screen, oldest first."""

    def snapshot(self) -> bytes:
        """Bytes that draw this screen, modes and cursor on a fresh terminal of the same size."""

    @property
    def history(self) -> Lines: ...
    @property
    def cursor(self) -> Cursor: ...
    @property
    def cursor_visible(self) -> bool: ...
    @property
    def title(self) -> str: ...
    @property
    def alternate(self) -> bool: ...
    @property
    def bracketed_paste(self) -> bool: ...
    @property
    def synchronized(self) -> bool:
        """Whether an update is half drawn; its reader has to bound how long it believes that."""
        ...

    @property
    def application_cursor(self) -> bool: ...
    @property
    def mouse_mode(self) -> int:
        """9, 1000, 1002, 1003 or 0."""
        ...

    @property
    def signal(self) -> Signal | None: ...
    @property
    def signal_count(self) -> int: ...
    @property
    def bells(self) -> int: ...
    @property
    def notifications(self) -> deque[str]: ...


EngineMaker = Callable[[int, int, int, Callable[[bytes], None] | None], Engine]


def _ghostty() -> EngineMaker | None:
    """The adapter of libghostty-vt, or None where it does not load (a wrong version included)."""
    try:
        from deck.pane.terminal.ghostty import GhosttyScreen
    except (ImportError, OSError, AttributeError):
        return None
    return GhosttyScreen


def missing(kind: EngineKind) -> str:
    """The rest of a sentence about an engine that cannot be had here; empty if it can."""
    if kind is EngineKind.PYTE or _ghostty() is not None:
        return ""
    if importlib.util.find_spec("pyghostty") is None:
        return (
            'is "ghostty", which is not installed; using "pyte" '
            "(to have it: pip install 'choragos[ghostty]')"
        )
    return 'is "ghostty", whose library does not load on this machine; using "pyte"'


def make_engine(
    kind: EngineKind,
    columns: int,
    lines: int,
    history: int,
    on_reply: Callable[[bytes], None] | None = None,
) -> Engine:
    """A fresh terminal. One that is not installed or does not load is replaced by pyte's."""
    made = _ghostty() if kind is EngineKind.GHOSTTY else None
    return (made or Screen)(columns, lines, history, on_reply)
