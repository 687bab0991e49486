"""What the terminal says of itself, and the way its answers take to the program. Pure.

Owns the identity every engine reports and the bound on answers. Invariants: each question is
answered once, in order, whether or not anybody watches; a flood of questions is answered up to a
bound; an answer that cannot be sent stops nothing. Called by every engine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

NAME_AND_VERSION: Final = "choragos(1)"
# VT220 with color; as xterm answers, so that programs take the paths they take there.
PRIMARY_ATTRIBUTES: Final = "\x1b[?62;22c"
SECONDARY_ATTRIBUTES: Final = "\x1b[>1;10;0c"
FOREGROUND_REPLY: Final = "rgb:e5e5/e5e5/e5e5"
BACKGROUND_REPLY: Final = "rgb:0000/0000/0000"
DARK_SCHEME: Final = "\x1b[?997;1n"
# The program status probe is answered with its own bytes, whatever ended it.
STATUS_PROBE: Final = "\x1b]7501;?\a"
# More answers than this in one feed is a flood, not a question; the rest are dropped.
REPLIES_PER_FEED: Final = 256


class Replies:
    """Answers on their way to the program: sent at the end of a feed, or kept where nobody sends.

    `waiting` holds what has not been sent.
    """

    __slots__ = ("_count", "_send", "waiting")

    def __init__(self, send: Callable[[bytes], None] | None) -> None:
        self.waiting: list[bytes] = []
        self._send = send
        self._count = 0

    def begin(self) -> None:
        """A new feed begins: count its answers anew."""
        self._count = 0

    def add(self, answer: bytes) -> None:
        """Queue an answer, unless this feed has had its share."""
        self._count += 1
        if self._count <= REPLIES_PER_FEED:
            self.waiting.append(answer)

    def flush(self) -> None:
        """Send what waits, as one write."""
        if self._send is None or not self.waiting:
            return
        data = b"".join(self.waiting)
        self.waiting.clear()
        with contextlib.suppress(Exception):
            self._send(data)
