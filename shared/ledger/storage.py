"""Every system call of the ledger that can fail, in one place, so that tests can make it fail.

Guarantees of `Disk`: after `write` returns, all bytes were handed to the kernel; after `sync`
returns, they survive a power cut; after `replace` returns, the file holds the old or the new
content, whatever happens, and survives a power cut. An OSError passes through unchanged and
nothing is retried. Called by everything in the ledger that writes.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from shared.ledger.errors import LedgerError

#: A full disk and a used-up quota: what goes away by itself once somebody frees space.
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class SyncFailed(OSError):
    """A sync that failed. Whatever the reason, it must never be taken for a disk that is merely
    full: the pages may be gone."""


def is_full(error: BaseException) -> bool:
    """Tell whether an error only says that there is no space, with nothing half done behind it."""
    return (
        isinstance(error, OSError)
        and error.errno in _NO_SPACE
        and not isinstance(error, SyncFailed)
    )


class Disk:
    """The real disk. Tests subclass it to inject errors and short writes."""

    def open_append(self, path: Path) -> int:
        """Open or create a file for appending, 0600; return its descriptor."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, fd: int, data: bytes) -> None:
        """Write all of `data`, going on after a short write."""
        written = self.write_some(fd, data)
        while written < len(data):
            data = data[written:]
            written = self.write_some(fd, data)

    def write_some(self, fd: int, data: bytes) -> int:
        """Write at least one byte of `data`; return how many."""
        return os.write(fd, data)

    def sync(self, fd: int) -> None:
        """Make the content of a file durable. An error here must never be followed by a retry:
        Linux may have dropped the pages, and a second call would report success."""
        _fdatasync(fd)

    def settle(self, fd: int) -> None:
        """Do `sync`; an error is a SyncFailed."""
        try:
            self.sync(fd)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror) from error

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(fd, size)

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file its final name, replacing another."""
        os.rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name. Raises FileExistsError when that name is taken."""
        os.link(old, new)

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        path.unlink()

    def chmod(self, path: Path, mode: int) -> None:
        """Change the mode of a file."""
        path.chmod(mode)

    def create(self, path: Path, mode: int) -> int:
        """Make a file that must not exist yet; return its descriptor."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)

    def allocate(self, fd: int, size: int) -> None:
        """Give a file `size` bytes of real space."""
        os.posix_fallocate(fd, 0, size)

    def free_bytes(self, directory: Path) -> int:
        """Return how many bytes this user may still write there."""
        space = os.statvfs(directory)
        return space.f_bavail * space.f_frsize

    def replace(self, path: Path, data: bytes, *, mode: int = 0o600) -> None:
        """Replace the content of `path` atomically and durably."""
        temporary = path.with_name(path.name + ".tmp")
        with contextlib.suppress(FileNotFoundError):
            self.unlink(temporary)
        fd = self.create(temporary, mode)
        try:
            self.write(fd, data)
            self.settle(fd)
        finally:
            os.close(fd)
        self.rename(temporary, path)
        self.sync_directory(path.parent)

    def destroy(self, path: Path) -> None:
        """Overwrite a file's bytes, durably, then remove it, durably. Copies that a file system or
        a drive keeps of its own are out of reach."""
        self.blank(path)
        self.unlink(path)
        self.sync_directory(path.parent)

    def blank(self, path: Path) -> None:
        """Overwrite a file's bytes with zeros, durably."""
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            self.write(fd, bytes(os.fstat(fd).st_size))
            self.settle(fd)
        finally:
            os.close(fd)


_fdatasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def create_secret(path: Path, make: Callable[[], str], *, disk: Disk) -> str:
    """Return the one-line secret in `path`; if there is none, store what `make` returns (0600).

    Two programs that start at once agree on one secret. Raises LedgerError when the file cannot
    be read or written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
            disk.replace(temporary, f"{make()}\n".encode())
            with contextlib.suppress(FileExistsError):
                disk.link(temporary, path)
            disk.unlink(temporary)
            disk.sync_directory(path.parent)
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(
            f"The key file {path} cannot be used ({reason(error)}); check its owner and mode."
        ) from error


def reason(error: BaseException) -> str:
    """Return why a system call failed, in the system's words, without paths or values."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
