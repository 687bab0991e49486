"""32-byte keys: in files, read or made on first start; in a variable; from a command's output.

Owns the file format (base64, or exactly 32 raw bytes, as existing installations have), its rights
(0600), and where a key that seals other things is looked for. Invariants: a key file appears whole
or not at all, and two programs that start at once end with the same key; neither a key nor what a
key command said is ever in a message. Used by the vault, by kept evidence, and by whoever starts
the scanning workers.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
import subprocess
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

KEY_BYTES: Final = 32
KEY_VARIABLE: Final = "SPHRAGIS_VAULT_KEY"
#: Seconds a key command may take: key services answer in one or two, or ask a person.
COMMAND_SECONDS: Final = 30.0


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


class KeyPlace(StrEnum):
    """Where a key comes from."""

    VARIABLE = "variable"
    COMMAND = "command"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where a key is: the variable's value if given, else what a command prints, else a file.
    `command` is a program and its arguments; no shell sees them. `variable` and `setting` are what
    an operator calls the two first places."""

    file: Path
    given: str | None = field(default=None, repr=False)
    command: tuple[str, ...] = field(default=(), repr=False)
    variable: str = KEY_VARIABLE
    setting: str = "vault_key_command"

    @property
    def place(self) -> KeyPlace:
        """The place that counts."""
        if self.given:
            return KeyPlace.VARIABLE
        return KeyPlace.COMMAND if self.command else KeyPlace.FILE

    @property
    def next_file(self) -> Path:
        """Where a change of keys keeps the new key until everything is sealed with it."""
        return self.file.with_name(f"{self.file.name}.next")

    def described(self) -> str:
        """Name the place, for sentences."""
        if self.place is KeyPlace.VARIABLE:
            return f"the variable {self.variable}"
        if self.place is KeyPlace.COMMAND:
            return "the key command"
        return str(self.file)

    def read(self) -> bytes:
        """Return the key. Raises KeyFileError."""
        if self.given:
            return decode_key(self.given, source=f"The variable {self.variable}")
        if self.command:
            return _ask(self.command, self.setting)
        return read_key(self.file)

    def read_or_make(self) -> bytes:
        """Return the key; a missing file is made. Raises KeyFileError."""
        return read_or_make_key(self.file) if self.place is KeyPlace.FILE else self.read()


def _ask(command: tuple[str, ...], setting: str) -> bytes:
    """Run the key command: its output is the key, its complaints are not ours to print."""
    name = Path(command[0]).name[:64]
    try:
        done = subprocess.run(  # the operator's own program, without a shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise KeyFileError(
            f"The key command {name} gave no key within {COMMAND_SECONDS:g} seconds; run it by "
            "hand to see why."
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise KeyFileError(
            f"The key command {name} cannot be run ({reason}); correct {setting}."
        ) from None
    if done.returncode != 0:
        raise KeyFileError(
            f"The key command {name} ended with code {done.returncode}; run it by hand to see why."
        )
    if len(done.stdout) == KEY_BYTES:
        return done.stdout
    source = f"The output of the key command {name}"
    return decode_key(done.stdout[:4096].decode("ascii", "replace"), source=source)


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
