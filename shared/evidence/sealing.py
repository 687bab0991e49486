"""Sealing one payload: AES-256-GCM, and the two commitments that a record holds of it.

Owns the bytes of an evidence file: 01, key id (16 bytes), nonce (12 bytes), ciphertext with tag.
What is authenticated besides: the key id, the record's id and kind, and the media type, each with
its length, so that a file cannot be shown as that of another record. `c` is SHA-256(02 || file),
`mac` is HMAC-SHA256(salt, payload). Pure. Called by `store`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from shared.evidence.errors import EvidenceError

FORMAT: Final = b"\x01"
KEYID_BYTES: Final = 16
NONCE_BYTES: Final = 12
#: What a file has before its ciphertext.
HEADER_BYTES: Final = len(FORMAT) + KEYID_BYTES + NONCE_BYTES


@dataclass(frozen=True, slots=True)
class DataKey:
    """The key and the salt of one subject and group; both are gone once it is erased."""

    keyid: str
    key: bytes = field(repr=False)
    salt: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Label:
    """Which record a payload belongs to: the record's id, its type, and the media type."""

    record: str
    kind: str
    media: str

    def aad(self, keyid: bytes) -> bytes:
        """Return what is authenticated beside the payload."""
        parts = [text.encode() for text in (self.record, self.kind, self.media)]
        return FORMAT + keyid + b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def seal(data: bytes, key: DataKey, label: Label) -> bytes:
    """Return the bytes of the evidence file of a payload."""
    keyid, nonce = bytes.fromhex(key.keyid), secrets.token_bytes(NONCE_BYTES)
    return FORMAT + keyid + nonce + AESGCM(key.key).encrypt(nonce, data, label.aad(keyid))


def unseal(blob: bytes, key: DataKey, label: Label) -> bytes:
    """Return the payload of an evidence file. Raises EvidenceError when it is not that of this
    record or was altered."""
    keyid = bytes.fromhex(key.keyid)
    nonce = blob[HEADER_BYTES - NONCE_BYTES : HEADER_BYTES]
    try:
        if blob[: HEADER_BYTES - NONCE_BYTES] != FORMAT + keyid:
            raise InvalidTag
        return AESGCM(key.key).decrypt(nonce, blob[HEADER_BYTES:], label.aad(keyid))
    except (InvalidTag, ValueError):
        raise EvidenceError(
            "The kept payload was altered, or is not the one of this record; restore the file "
            "from a backup."
        ) from None


def keyid_of(head: bytes) -> str | None:
    """Return the key id that the first bytes of an evidence file name, or None."""
    if len(head) < HEADER_BYTES or head[:1] != FORMAT:
        return None
    return head[1 : 1 + KEYID_BYTES].hex()


def commitment(blob: bytes) -> str:
    """Return `c`, the name of an evidence file: 64 hex digits of SHA-256(02 || file)."""
    digest = hashlib.sha256(b"\x02")
    digest.update(blob)
    return digest.hexdigest()


def mac_of(data: bytes, salt: bytes) -> str:
    """Return the keyed hash of a payload that its record holds, 64 hex digits."""
    return hmac.new(salt, data, hashlib.sha256).hexdigest()
