"""Commitments: what a record says about content it does not hold.

A plain hash of guessable text gives the text away to anyone who can guess it, so records carry
a keyed hash instead. Owns the commitment key: 32 bytes in `<keys>/commitment.key`, mode 0600,
made on first use, never written anywhere else. Called by the gateway and the deck before append.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from shared.ledger.errors import LedgerError
from shared.ledger.storage import Disk, create_secret

KEY_NAME: Final = "commitment.key"
KEY_BYTES: Final = 32


def load_commitment_key(keys: Path, *, disk: Disk | None = None) -> bytes:
    """Return the commitment key of the directory `keys`, making it (0600) if there is none.

    Raises LedgerError when the file cannot be read or is not a key.
    """
    import secrets

    path = keys / KEY_NAME
    text = create_secret(path, lambda: secrets.token_hex(KEY_BYTES), disk=disk or Disk())
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise LedgerError(f"{path} is not a commitment key; restore it from a backup.")
    return key


def commit(key: bytes, data: bytes) -> str:
    """Return the commitment to `data`: 64 hex digits of HMAC-SHA256(key, 03 || data).

    The prefix byte keeps it apart from leaves (00), nodes (01) and sealed evidence (02).
    Raises ValueError when the key is not 32 bytes.
    """
    if len(key) != KEY_BYTES:
        raise ValueError("the commitment key must be 32 bytes")
    begun, ending = _begun(key)
    inner, outer = begun.copy(), ending.copy()
    inner.update(data)
    outer.update(inner.digest())
    return str(outer.hexdigest())


@lru_cache(maxsize=4)
def _begun(key: bytes) -> tuple[Any, Any]:
    """Return the two hashes of an HMAC (RFC 2104) behind the key, the first behind the prefix too:
    to copy them takes a fifth of the time that a small HMAC does."""
    block = key.ljust(hashlib.sha256().block_size, b"\0")
    inner, outer = (hashlib.sha256(bytes(byte ^ pad for byte in block)) for pad in (0x36, 0x5C))
    inner.update(b"\x03")
    return inner, outer
