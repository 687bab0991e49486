"""Sealing: how one value is written into the vault, and read again.

Owns the format of a sealed value and of the constant by which a vault names its key. Invariant: an
original opens only with the key and only as that of its own owner and token, since AES-256-GCM
authenticates both; no error holds a value. Pure but for random nonces. Called by `vault_keys`,
`vault_entries` and `vault_store`.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.redaction.vault_database import VaultError

#: Name of the sealed constant, and the constant.
KEY_CHECK: Final = "key_check"
#: First byte of every sealed value; the rest is a 12-byte nonce and AES-256-GCM ciphertext with
#: tag.
_FORMAT: Final = b"\x01"
_NONCE: Final = 12


class Sealer:
    """Seals with one key (32 bytes) the values of the vault at `path`."""

    def __init__(self, key: bytes, path: Path) -> None:
        self._cipher = AESGCM(key)
        self._path = path

    def seal(self, owner: str, token: str, value: str) -> bytes:
        """Return `value` sealed as that of `owner` and `token`."""
        return self._sealed(_aad(owner, token), value)

    def unseal(self, owner: str, token: str, sealed: bytes) -> str:
        """Return the value. Raises VaultError where it was altered, is another's, or was sealed
        with another key or by a newer program."""
        if sealed[:1] != _FORMAT:
            raise VaultError(
                f"The vault {self._path} was written by a newer program; update this one."
            )
        try:
            return self._opened(_aad(owner, token), sealed)
        except InvalidTag:
            raise VaultError(
                f"An entry of the vault {self._path} was altered or sealed with another key; "
                "restore the file from a backup."
            ) from None

    def key_check(self) -> bytes:
        """Return the constant that only this key opens."""
        return self._sealed(KEY_CHECK.encode(), KEY_CHECK)

    def opens(self, check: bytes) -> bool:
        """Tell whether this key sealed the constant."""
        try:
            return self._opened(KEY_CHECK.encode(), check) == KEY_CHECK
        except (InvalidTag, ValueError):
            return False

    def _sealed(self, aad: bytes, value: str) -> bytes:
        nonce = secrets.token_bytes(_NONCE)
        return (
            _FORMAT
            + nonce
            + self._cipher.encrypt(nonce, value.encode("utf-8", "surrogatepass"), aad)
        )

    def _opened(self, aad: bytes, sealed: bytes) -> str:
        nonce, body = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
        return self._cipher.decrypt(nonce, body, aad).decode("utf-8", "surrogatepass")


def _aad(owner: str, token: str) -> bytes:
    """`owner|token`; a token holds no `|`, so the last one separates them."""
    return f"{owner}|{token}".encode()
