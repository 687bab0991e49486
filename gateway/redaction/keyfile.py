"""32-byte keys in files: read, or made on first start.

Owns the file format (base64, or exactly 32 raw bytes, as existing installations have) and its
rights (0600). Invariant: a key file appears whole or not at all, and two programs that start at
once end with the same key. Used by the vault and by whoever starts the scanning workers.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
from pathlib import Path
from typing import Final

KEY_BYTES: Final = 32


class KeyFileError(Exception):
    """The key cannot be used; the text says why and what to do."""


def decode_key(text: str, *, source: str) -> bytes:
    """Read a key from base64 (standard or URL alphabet). Raises KeyFileError naming `source`."""
    compact = "".join(text.split()).replace("-", "+").replace("_", "/").rstrip("=")
    try:
        key = base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise KeyFileError(f"{source} does not hold a key: it must be 32 bytes in base64.")
    return key


def read_key(path: Path) -> bytes:
    """Read the key in `path`, closing the file to others. Raises KeyFileError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise KeyFileError(f"The key file {path} is not a regular file; replace it.")
            if stat.S_IMODE(info.st_mode) & 0o077:
                os.fchmod(file.fileno(), 0o600)
            data = file.read(4096)
    except OSError as error:
        raise KeyFileError(
            f"The key file {path} cannot be read ({error.strerror}); correct its owner and rights."
        ) from None
    if len(data) == KEY_BYTES:
        return data
    return decode_key(data.decode("ascii", "replace"), source=f"The key file {path}")


def read_or_make_key(path: Path) -> bytes:
    """Return the key in `path`, making it (0600) where the file is missing. Raises KeyFileError."""
    if not path.exists():
        _make(path)
    return read_key(path)


def _make(path: Path) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass  # another program was first; its key is the key
        finally:
            temporary.unlink()
        directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise KeyFileError(
            f"The key file {path} cannot be made ({error.strerror}); choose a place you can write."
        ) from None
