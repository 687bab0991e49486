"""A file that somebody asked for by name: it appears whole and private, or not at all.

Owns where the bytes go meanwhile and what takes the name at the end. Invariants: a link is
followed, so that what it leads to is what changes; a device or a pipe is written to and never
replaced by a file; what stood there stays until the new content is complete. Called by whatever
takes an `--output`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

#: Characters of the target's name in the name of the file aside, so that it fits wherever the
#: target does.
_NAMED: Final = 40


def takes_place(path: Path) -> bool:
    """Tell whether a file made for `path` gets its name; a device or a pipe is only written to.

    Raises OSError, for a directory as well.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return True
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return stat.S_ISREG(mode)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write to; it is at `path`, readable by its owner alone, once the block has
    ended without an error. Raises OSError."""
    if not takes_place(path):
        with path.open("wb") as sink:
            yield sink
        return
    target = Path(os.path.realpath(path))
    aside = target.with_name(f".{target.name[:_NAMED]}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as sink:
            yield sink
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)
