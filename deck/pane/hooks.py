"""What an agent's own hooks have said: a file that they append to, read as it grows.

Owns the reading. Rules: the file is the role's and can hold anything, so only a regular file is
read, a bounded piece at each look, and what a line means is for the agent's adapter to say; a line
that says nothing is skipped. A look that finds nothing new costs one `stat`. Called by `pane`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from deck.pane.status import Signal

#: Hooks write a few bytes each; a file that grows faster is read over several looks.
LOOK_BYTES: Final = 65536
LINE_BYTES: Final = 8192


class HookFile:
    """The file of one run. `meaning` says what a line tells, or None."""

    def __init__(self, path: Path, meaning: Callable[[str], Signal | None]) -> None:
        self._path = path
        self._meaning = meaning
        self._offset = 0
        self._rest = b""

    def news(self) -> list[Signal]:
        """Return what has been said since the last call, oldest first."""
        try:
            if os.stat(self._path, follow_symlinks=False).st_size <= self._offset:
                return []
            data = self._read()
        except OSError:
            return []
        self._offset += len(data)
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-LINE_BYTES:]
        told = (self._meaning(line[:LINE_BYTES].decode("utf-8", "replace")) for line in lines)
        return [signal for signal in told if signal is not None]

    def _read(self) -> bytes:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self._path, flags)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return b""
            return os.pread(descriptor, LOOK_BYTES, self._offset)
        finally:
            os.close(descriptor)
