"""What is in the way of putting a path back, on the disk as it is now.

Owns the rule that a file that is in no snapshot is never overwritten or deleted, and that
submodules and repositories inside the repository are left alone. Looks and changes nothing. Called
by `deck.rollback_plan` for each change it would make.
"""

from __future__ import annotations

import os
from pathlib import Path

from deck.restore import Change, parents_of


def obstacle(top: Path, change: Change, deletions: set[str]) -> str | None:
    """Return why a change cannot be made without touching what no snapshot holds, or None."""
    if any(entry is not None and entry.is_gitlink for entry in (change.wanted, change.now)):
        return "it is a repository of its own"
    for parent in parents_of(change.path):
        place = top / parent
        if (place / ".git").exists():
            return f"{parent} is a repository of its own"
        if os.path.lexists(place) and (place.is_symlink() or not place.is_dir()):
            if parent in deletions and change.wanted is not None:
                return None
            return f"{parent} is not a directory"
    place = top / change.path
    if place.is_dir() and not place.is_symlink():
        if change.wanted is None or not _holds_only(place, change.path, deletions):
            return "a directory with other files is in its place"
    elif change.now is None and os.path.lexists(place):
        return "a file that git ignores is in its place"
    return None


def _holds_only(directory: Path, relative: str, deletions: set[str]) -> bool:
    for folder, names, files in os.walk(directory):
        inside = os.path.relpath(folder, directory)
        prefix = relative if inside == "." else f"{relative}/{inside}"
        links = [name for name in names if os.path.islink(os.path.join(folder, name))]
        if any(f"{prefix}/{name}" not in deletions for name in (*files, *links)):
            return False
    return True
