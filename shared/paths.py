"""Where files live: runtime sockets, per-user state, and the checks both need.

Invariant: every directory handed out here exists, belongs to the user and is closed to others
(0700), so a socket or key inside cannot be reached or replaced by another account.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

#: A role that may appear in a URL path or label (contracts/gateway.md section 1).
ROLE_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


class UnsafeDirectory(Exception):
    """A directory that must be private belongs to someone else or is open to others."""


def expanded(path: str | Path) -> Path:
    """Return a path with `~` and `~name` as a shell has them.

    Raises FileNotFoundError where nobody has that name: a folder that is called `~name` is not
    what was meant, and would be made.
    """
    found = Path(os.path.expanduser(path))
    if str(found).startswith("~") and not found.exists():
        raise FileNotFoundError(errno.ENOENT, "nobody has this name", str(path))
    return found


def is_path_safe_role(name: str) -> bool:
    """Tell whether a role name can be used as `/agent/<role>` in a URL."""
    return ROLE_NAME.fullmatch(name) is not None


def private_dir(path: Path) -> Path:
    """Create `path` (0700) if needed and return it.

    Raises UnsafeDirectory when it exists but is owned by another user or open to others; the
    mode of a directory of ours is tightened rather than refused.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = path.lstat()
    if not stat.S_ISDIR(info.st_mode):
        raise UnsafeDirectory(f"{path} is not a directory; remove it and start again.")
    if info.st_uid != os.getuid():
        raise UnsafeDirectory(
            f"{path} belongs to user {info.st_uid}, not to you; remove it or choose another place."
        )
    if stat.S_IMODE(info.st_mode) & 0o077:
        path.chmod(0o700)
    return path


def runtime_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the per-user runtime directory: `$XDG_RUNTIME_DIR` or the temp dir, plus
    `choragos-<uid>` (contracts/deck.md section 1.1)."""
    base = environ.get("XDG_RUNTIME_DIR") or environ.get("TMPDIR") or tempfile.gettempdir()
    return private_dir(Path(base) / f"choragos-{os.getuid()}")


def state_dir(app: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return `$XDG_STATE_HOME/<app>` (default `~/.local/state/<app>`), created private."""
    base = environ.get("XDG_STATE_HOME") or str(
        Path(environ.get("HOME") or Path.home()) / ".local" / "state"
    )
    return private_dir(Path(base) / app)


def session_id(directory: str) -> str:
    """Return the 8 hex digits that name the session of a working directory.

    `directory` is the raw `getcwd()` string; symlinks are not resolved
    (contracts/deck.md section 1.1).
    """
    return hashlib.sha256(directory.encode("utf-8", "surrogateescape")).hexdigest()[:8]
