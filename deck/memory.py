"""The project's memory: one file that outlives sessions, written by agents and by people.

Owns the name `.choragos/memory.md` and the question whether there is anything in it. Invariant:
the deck never writes, moves or removes it; a start role is only told to read it
(contracts/deck.md section 1.13). `deck.briefing` asks.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final

MEMORY_FILE: Final = "memory.md"


def is_remembered(state_dir: Path) -> bool:
    """Tell whether the project has a memory to read: a file with something in it. Blocks."""
    return has_text(state_dir / MEMORY_FILE)


def has_text(path: Path) -> bool:
    """Tell whether a path is a regular file that is not empty. Blocks."""
    try:
        info = path.stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(info.st_mode) and info.st_size > 0
