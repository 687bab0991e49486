"""The line that a person has begun in a pane and perhaps not finished, by the keys that were sent.

Owns the rule when such a line is over: by a key that submits or drops it; one that nobody goes on
with is given up after a while, but still stands in the input. Pure. Called by `pane`, so that
nothing is typed into the middle of it, and what is left of it is cleared first.
"""

from __future__ import annotations

from typing import Final

from deck.pane.keys import PASTE_START

# A person's unfinished line is left alone this long after the last key.
PERSON_SECONDS: Final = 60.0


class HumanLine:
    """Whether a person has begun a line in this pane and not finished it."""

    _CLOSING = frozenset(b"\r\n\x03\x04\x15\x1a")

    def __init__(self) -> None:
        self._length = 0
        self._at = float("-inf")

    def feed(self, data: bytes, now: float, *, working: bool = False) -> None:
        """Bytes the person sent. Enter, ^C, ^D, ^U, ^Z and a lone ESC end the line.

        Not so an ESC while the agent works: several then put the prompt back into the input.
        """
        self._at = now
        if data == b"\x1b":
            self._length = int(working)
            return
        pasted = data.startswith(PASTE_START)
        if data.startswith(b"\x1b") and not pasted:
            return  # a cursor or function key
        for byte in data:
            if byte in self._CLOSING and not pasted:
                self._length = 0
            elif byte in (0x08, 0x7F):
                self._length = max(0, self._length - 1)
            elif byte >= 0x20:
                self._length += 1

    def clear(self) -> None:
        """Forget the line: what was typed went elsewhere."""
        self._length = 0

    def open_at(self, now: float) -> bool:
        return self._length > 0 and now - self._at < PERSON_SECONDS

    def left_at(self, now: float) -> bool:
        """Whether a line was begun and given up."""
        return self._length > 0 and not self.open_at(now)
