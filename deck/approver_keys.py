"""An approver's private key on a person's machine: one file, opened by a passphrase.

Owns `$XDG_CONFIG_HOME/choragos/approvers/NAME.pem`: the line for the team file, then the key.
Invariants: the key is PKCS#8, encrypted with what scrypt makes of the passphrase; the file has
mode 0600 and is never overwritten; the passphrase is nowhere but in memory. Agents of the same
account can read the file: the passphrase is what they lack, so short ones are refused. Used by
`deck.cli.approver` and `deck.cli.gates`; the deck itself holds public keys only.
"""

from __future__ import annotations

import base64
import os
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from deck.approvers import BadApprover, check_name, public_text
from deck.team_file import approver_line

#: Who holds the file may guess as fast as they can compute.
PASSPHRASE_CHARS: Final = 12
#: The passphrase in a file, for scripts.
PASSPHRASE_ENV: Final = "CHORAGOS_APPROVER_PASSPHRASE_FILE"  # noqa: S105 - the name of a variable
SUFFIX: Final = ".pem"
#: The cost that OWASP's Password Storage Cheat Sheet lists for 16 MiB; OpenSSL's programs take up
#: to 32 MiB, so they open these files too.
_COST, _BLOCK, _LANES = 1 << 14, 8, 5
_MAX_FILE: Final = 64 << 10
_MAX_LINE: Final = 512
_LABEL: Final = "ENCRYPTED PRIVATE KEY"
# Object identifiers, as DER: PBES2 (RFC 8018), scrypt (RFC 7914), AES-256-CBC.
_PBES2: Final = bytes.fromhex("06092a864886f70d01050d")
_SCRYPT: Final = bytes.fromhex("06092b06010401da47040b")
_AES_CBC: Final = bytes.fromhex("060960864801650304012a")
_INTEGER, _OCTETS, _SEQUENCE = 0x02, 0x04, 0x30


class KeyProblem(Exception):
    """A key cannot be made, found or opened; the text says why and what to do."""


def key_directory(given: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """Return where approvers' keys are: the directory given, or the user's own."""
    if given is not None:
        return given
    home = environ.get("HOME") or str(Path.home())
    return Path(environ.get("XDG_CONFIG_HOME") or f"{home}/.config") / "choragos" / "approvers"


def key_names(directory: Path) -> list[str]:
    """Return the names of the approvers whose keys are in a directory, sorted."""
    try:
        found = sorted(path.stem for path in directory.iterdir() if path.suffix == SUFFIX)
    except OSError:
        return []
    return [name for name in found if _is_name(name)]


def check_passphrase(passphrase: str) -> None:
    """Raise KeyProblem when a passphrase is too short to keep a key."""
    if len(passphrase) < PASSPHRASE_CHARS:
        raise KeyProblem(
            f"The passphrase is shorter than {PASSPHRASE_CHARS} characters; whoever can read the "
            "key file could guess it. Take several words."
        )


def public_line(directory: Path, name: str) -> str:
    """Return the line for the team file that a key's file begins with, or ""."""
    try:
        with (directory / f"{name}{SUFFIX}").open("rb") as file:
            line = file.readline(_MAX_LINE).decode().strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return line if line.startswith(approver_line(name, "")[:-1]) else ""


def store_key(directory: Path, name: str, key: Ed25519PrivateKey, passphrase: str) -> Path:
    """Write a key, encrypted, and return its file. Blocks for the cost of the passphrase. Raises
    KeyProblem, also when there is such a file already."""
    check_passphrase(passphrase)
    path = directory / f"{check_name(name)}{SUFFIX}"
    line = approver_line(name, public_text(key.public_key().public_bytes_raw()))
    text = f"{line}\n".encode() + encrypted(key, passphrase)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise KeyProblem(
            f"{path} exists already and is not overwritten; take another name, or move that file "
            "away if nobody signs with it any more."
        ) from None
    except OSError as failure:
        raise KeyProblem(f"{path} cannot be written: {failure.strerror}.") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
    except OSError as failure:
        # Half a key would be in the way of the next attempt.
        path.unlink(missing_ok=True)
        raise KeyProblem(f"{path} cannot be written: {failure.strerror}.") from None
    return path


def encrypted(key: Ed25519PrivateKey, passphrase: str) -> bytes:
    """Return a key as encrypted PKCS#8 in PEM.

    Written by hand because the library's own writer stretches the passphrase with 2,048 rounds
    of PBKDF2, half a millisecond, which a stolen file would not withstand, and lets nobody choose
    (cryptography 45 to 50: rounds are for OpenSSH, which needs another package, and PKCS #12). It
    reads this form. A test tells when that has changed.
    """
    salt, start = os.urandom(16), os.urandom(16)
    secret = Scrypt(salt=salt, length=32, n=_COST, r=_BLOCK, p=_LANES).derive(_bytes(passphrase))
    plain = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    padder = padding.PKCS7(128).padder()
    cipher = Cipher(algorithms.AES(secret), modes.CBC(start)).encryptor()
    hidden = cipher.update(padder.update(plain) + padder.finalize()) + cipher.finalize()
    cost = _der(_SEQUENCE, _der(_OCTETS, salt), _number(_COST), _number(_BLOCK), _number(_LANES))
    scheme = _der(
        _SEQUENCE,
        _der(_SEQUENCE, _SCRYPT, cost),
        _der(_SEQUENCE, _AES_CBC, _der(_OCTETS, start)),
    )
    document = _der(_SEQUENCE, _der(_SEQUENCE, _PBES2, scheme), _der(_OCTETS, hidden))
    lines = "\n".join(textwrap.wrap(base64.b64encode(document).decode(), 64))
    return f"-----BEGIN {_LABEL}-----\n{lines}\n-----END {_LABEL}-----\n".encode()


def open_key(directory: Path, name: str, passphrase: str) -> Ed25519PrivateKey:
    """Return an approver's key. Blocks for the cost of the passphrase. Raises KeyProblem."""
    path = directory / f"{name}{SUFFIX}"
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_FILE)
    except OSError as failure:
        raise KeyProblem(
            f"There is no key of {name} at {path} ({failure.strerror}); make one with `choragos "
            f"approver add {name}`, or say where it is with --key-dir."
        ) from None
    if f"BEGIN {_LABEL}".encode() not in text:
        raise KeyProblem(f"{path} is not an encrypted key; restore it, or make another approver.")
    try:
        key = load_pem_private_key(text, _bytes(passphrase))
    except (ValueError, TypeError):
        raise KeyProblem(f"The passphrase does not open {path}.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyProblem(f"{path} holds a key of another kind; approvers sign with Ed25519.")
    return key


def passphrase_file(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the passphrase that a script has put into a file, or None when it names none.
    Raises KeyProblem."""
    named = environ.get(PASSPHRASE_ENV)
    if not named:
        return None
    try:
        with Path(named).open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise KeyProblem(f"{named} can be read by others; set its mode to 0600.")
            data = file.read(_MAX_FILE)
        return data.decode().removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError):
        raise KeyProblem(f"{named}, named by {PASSPHRASE_ENV}, cannot be read.") from None


def _is_name(name: str) -> bool:
    try:
        check_name(name)
    except BadApprover:
        return False
    return True


def _bytes(passphrase: str) -> bytes:
    return passphrase.encode("utf-8", "surrogateescape")


def _der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    size = len(body)
    if size < 0x80:
        return bytes([tag, size]) + body
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + body


def _number(value: int) -> bytes:
    return _der(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))
