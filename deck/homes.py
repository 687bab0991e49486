"""The role's own directory: where it is, and what the deck puts there before the program starts.

Owns these files. Rules: nothing of the user's is read or written; a first-run file is written only
where there is none, since from then on it belongs to the program; the deck's own files are written
anew at each start; all of it is 0600 in 0700, because a program keeps its login there. The place is
that of the egress wall, so that a role has one home with and without it. `deck.seats` calls
`equip` from a worker thread; `deck.roster` asks where things are.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from deck import briefs
from deck.agents import Adapter, Seating
from deck.pane.errors import PaneStartError
from shared.paths import UnsafeDirectory, private_dir, state_dir


class HomeError(PaneStartError):
    """A role's own directory cannot be used; the text says why and what to do."""


def role_home(environ: Mapping[str, str], session: str, role: str) -> Path:
    """Return the role's own directory, which need not exist yet."""
    base = environ.get("XDG_STATE_HOME") or str(
        Path(environ.get("HOME") or Path.home()) / ".local" / "state"
    )
    # Names that differ only in what file names cannot hold are still two roles.
    digest = hashlib.sha256(role.encode("utf-8", "surrogateescape")).hexdigest()[:6]
    name = f"{briefs.safe_name(role)[:48]}-{digest}"
    return Path(base) / "choragos" / "homes" / session / name


def equip(adapter: Adapter, seating: Seating, environ: Mapping[str, str]) -> None:
    """Write what the program needs to find in the role's directory. Raises HomeError."""
    files = adapter.files(seating)
    first = adapter.first_run(seating) if seating.own else {}
    if not files and not first and not seating.own:
        return
    try:
        state_dir("choragos", environ)
        private_dir(seating.home.parent.parent)
        private_dir(seating.home.parent)
        private_dir(seating.home)
        for below in adapter.home_env.values() if seating.own else ():
            _make(seating.home, Path(below))
        for name, text in first.items():
            _write(seating.home, name, text, os.O_EXCL)
        for name, text in files.items():
            _write(seating.home, name, text, os.O_TRUNC)
    except UnsafeDirectory as problem:
        raise HomeError(str(problem)) from None
    except OSError as problem:
        raise HomeError(
            f"the role's own directory {seating.home} cannot be written ({problem.strerror}); "
            "make room there, or set XDG_STATE_HOME to another place"
        ) from None


def _make(home: Path, below: Path) -> None:
    """Make a directory below the home, following no link that the role may have put there."""
    place = home
    for part in below.parts:
        place = private_dir(place / part)


def _write(home: Path, name: str, text: str, how: int) -> None:
    _make(home, Path(name).parent)
    # The role may have put a pipe there that nobody reads.
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | how
    try:
        descriptor = os.open(home / name, flags, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
