"""Who may spend a provider key that the gateway holds: the keys of its own that clients present.

Owns the check. Invariant: only SHA-256 digests are kept and compared; a deck's key counts for the
one role it was made for, a key of the operator's file for any (contracts/gateway.md section 3.6).
Pure but for reading the file once. Called by `gateway.pipeline`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Final

from gateway.admission import Refused
from gateway.errors import GatewayError
from gateway.wire.errors import ErrorKind

#: Shorter ones could be guessed.
MIN_CHARS: Final = 16


class ClientKeysUnusable(GatewayError):
    """The file of client keys cannot be used; the sentence says why, and no key."""


def digest(key: str) -> str:
    """Return what is kept of a key: the SHA-256 of its UTF-8 bytes in hex."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def read_keys(path: Path | None) -> frozenset[str]:
    """Return the digests of the keys in a file: one a line, `#` begins a comment line. Blocks.

    Raises ClientKeysUnusable.
    """
    if path is None:
        return frozenset()
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as wrong:
        reason = wrong.strerror if isinstance(wrong, OSError) else "it is not UTF-8 text"
        raise ClientKeysUnusable(
            f"client_keys_file {path} cannot be read ({reason}); write one key a line there."
        ) from None
    keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    for number, key in enumerate(keys, start=1):
        if len(key) < MIN_CHARS or not key.isascii() or not key.isprintable() or " " in key:
            raise ClientKeysUnusable(
                f"client_keys_file {path}: key {number} is shorter than {MIN_CHARS} characters or "
                "holds one that no header can carry; make keys of random letters and digits."
            )
    return frozenset(map(digest, keys))


def presented(value: str) -> str:
    """Return the key in a credential's value, which may be a bearer token."""
    scheme, _, rest = value.partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else value


def check_client_key(value: str, for_any: Collection[str], for_role: Collection[str]) -> None:
    """Refuse a call that shows none of these keys, given as digests, while the gateway holds the
    provider's. Raises Refused."""
    if not admits(value, for_any, for_role):
        raise Refused(
            "client_key",
            "The gateway holds the provider's key and takes calls only with a key of its own: "
            "the one its deck gives this role, or one of client_keys_file.",
            status=401,
            kind=ErrorKind.UNAUTHENTICATED,
        )


def admits(value: str, for_any: Collection[str], for_role: Collection[str]) -> bool:
    """Tell whether a presented credential is one of these keys, given as digests.

    A digest is looked up, not compared byte by byte: how long that takes tells nothing of a key.
    """
    shown = digest(presented(value))
    return shown in for_any or shown in for_role
