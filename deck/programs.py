"""Where programs are found: on PATH, and beside this one.

Owns the rule that an installation works without being activated: `.venv/bin/choragos` by its full
path still finds the `sphragis` installed with it, and an agent in a pane still finds `choragos`.
Invariant: PATH always wins; the place beside is only the last one looked at. Called by
`deck.gateway`, `deck.facts` and `deck.roster`, so that all of them agree.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Final

DECK_PROGRAM: Final = "choragos"


def beside() -> str:
    """Return the directory of this installation's programs, "" when it cannot be known."""
    return os.path.dirname(sys.executable) if sys.executable else ""


def find_own(command: str, environ: Mapping[str, str]) -> str | None:
    """Return the full path of a program of ours: the one on PATH, else the one beside this one."""
    found = shutil.which(command, path=environ.get("PATH"))
    return found or (shutil.which(command, path=beside()) if beside() else None)


def with_deck_program(path: str) -> str:
    """Return a PATH on which `choragos` is found; one that has it is returned unchanged."""
    if shutil.which(DECK_PROGRAM, path=path) or not shutil.which(DECK_PROGRAM, path=beside()):
        return path
    return os.pathsep.join(part for part in (path, beside()) if part)
