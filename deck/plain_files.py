"""Files of ours in places where agents can write: opened so that nothing else is done by it.

Owns how such files are read, replaced and added to. Invariants: nothing but a regular file is
opened, so no pipe holds a thread up for ever and no device is read without end; never more than a
limit is read; what is replaced is first written whole into a new file beside it, so neither a link
nor a name that somebody has taken leads to another file. Errors are OSErrors with their sentence.
Blocking. Used wherever the deck opens a file of the project by a name that is known beforehand.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


class NotPlain(OSError):
    """It is no regular file, or larger than any that belongs there."""


def read_plain(path: Path, limit: int, *, flags: int = 0, dir_fd: int | None = None) -> bytes:
    """Return the bytes of a regular file of at most `limit` bytes; `flags` are further ones of
    open(2). Raises OSError, NotPlain where it is none or larger."""
    # Without O_NONBLOCK a pipe that nobody writes to would be waited for.
    how = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags
    descriptor = os.open(path, how, dir_fd=dir_fd)
    with os.fdopen(descriptor, "rb") as file:
        _check(descriptor, path)
        if os.fstat(descriptor).st_size > limit:
            raise NotPlain(errno.EFBIG, f"it is larger than {limit} bytes", str(path))
        data = file.read(limit + 1)
    if len(data) > limit:
        raise NotPlain(errno.EFBIG, f"it is larger than {limit} bytes", str(path))
    return data


def read_own(path: Path, limit: int, *, dir_fd: int | None = None) -> bytes:
    """Return the bytes of a file of ours, which is no link. Raises OSError as `read_plain`."""
    return read_plain(path, limit, flags=os.O_NOFOLLOW, dir_fd=dir_fd)


def replace_own(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o600,
    is_durable: bool = False,
    dir_fd: int | None = None,
) -> None:
    """Put a new file with these bytes in a place in one step; `is_durable`: they are on the disk
    before it has its name. Raises OSError."""
    beside = path.with_name(f".{path.name[:200]}.{secrets.token_hex(8)}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, mode, dir_fd=dir_fd)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if is_durable:
                file.flush()
                os.fdatasync(descriptor)
        os.rename(beside, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=dir_fd)
        raise


def open_to_add(path: Path) -> int:
    """Return a descriptor that adds to a file of ours, made 0600 if need be. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as failure:
        if failure.errno == errno.ENXIO:
            # A pipe that nobody reads, or a socket.
            raise NotPlain(errno.EINVAL, "it is no regular file", str(path)) from None
        raise
    try:
        _check(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check(descriptor: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise NotPlain(errno.EINVAL, "it is no regular file", str(path))
