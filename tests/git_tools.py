"""Git for tests: a command as a made-up user, with none of the settings of this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

SETTINGS = '[protocol "file"]\n\tallow = always\n[init]\n\tdefaultBranch = main\n'


def git(where: Path, *arguments: str) -> str:
    """Run one git command and return its output. Raises CalledProcessError."""
    done = subprocess.run(
        ["git", "-c", "user.name=u", "-c", "user.email=u@example.org", *arguments],
        cwd=where,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode("utf-8", "surrogateescape")
