"""Every system call of the ledger that can fail, in one place, so that tests can make it fail.

Guarantees of `Disk`: after `write` returns, all bytes were handed to the kernel; after `sync`
returns, they survive a power cut; after `replace` returns, the file holds the old or the new
content, whatever happens, and survives a power cut. An OSError passes through unchanged and
nothing is retried. Called by `log`, `segment`, `recovery`, `checkpoint`, `commitment`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from shared.ledger.errors import LedgerError


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

    def replace(self, path: Path, data: bytes, *, mode: int = 0o600) -> None:
        """Replace the content of `path` atomically and durably."""
        temporary = path.with_name(path.name + ".tmp")
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            self.write(fd, data)
            self.sync(fd)
        finally:
            os.close(fd)
        self.rename(temporary, path)
        self.sync_directory(path.parent)


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
                os.link(temporary, path)
            temporary.unlink()
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
