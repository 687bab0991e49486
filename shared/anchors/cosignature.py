"""Cosignatures: a witness's dated signature of a checkpoint (C2SP tlog-cosignature, version 1).

Owns the signed message, the 76 bytes behind a signature line (key id, time, signature), the
witness's vkey (type 0x04) and its key file. Invariant: a cosignature says "at this time, this was
the largest consistent tree I have seen under this origin", so only `witness` makes them. Pure but
for the key file. Called by `witness` and `client`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shared.ledger.checkpoint import check_name, split_note
from shared.ledger.errors import LedgerError, NoteRefused
from shared.ledger.storage import Disk, create_secret

#: C2SP signature type of an Ed25519 cosignature.
COSIGNATURE: Final = 0x04
KEY_NAME: Final = "witness.key"

_DASH: Final = "\u2014 "
#: key id, seconds since 1970, Ed25519 signature.
_BLOB_BYTES: Final = 4 + 8 + 64
#: The C2SP text's limit for the time.
_TIME_LIMIT: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class CosignerKey:
    """The public key of a witness with the name it signs under."""

    name: str
    key_id: bytes
    public: bytes

    def vkey(self) -> str:
        """Return the C2SP text form: name+key id+base64(type || key)."""
        blob = base64.b64encode(bytes([COSIGNATURE]) + self.public).decode()
        return f"{self.name}+{self.key_id.hex()}+{blob}"


@dataclass(frozen=True, slots=True)
class Cosignature:
    """One verified cosignature: who, when (Unix seconds), and the line as it stands in a note."""

    name: str
    time: int
    line: str


def cosigner_key(name: str, public: bytes) -> CosignerKey:
    """Return the key of `name` with the 32 bytes `public`. Raises NoteRefused for a bad name."""
    digest = hashlib.sha256(check_name(name).encode() + b"\n" + bytes([COSIGNATURE]) + public)
    return CosignerKey(name, digest.digest()[:4], public)


def parse_cosigner_vkey(text: str) -> CosignerKey:
    """Return the key of a witness's vkey. Raises NoteRefused when any part does not fit."""
    refusal = NoteRefused(
        "The witness key is not the vkey of a witness; it is the line that `sphragis witness key` "
        "prints: name+8 hex digits+base64."
    )
    match = re.fullmatch(r"([^+\s]+)\+([0-9a-f]{8})\+(\S+)", text.strip())
    raw = decode_base64(match[3]) if match else None
    if match is None or raw is None or len(raw) != 33 or raw[0] != COSIGNATURE:
        raise refusal
    key = cosigner_key(match[1], raw[1:])
    if key.key_id.hex() != match[2]:
        raise refusal
    return key


def signed_message(checkpoint: str, time: int) -> bytes:
    """Return the bytes that are signed: `checkpoint` is a note's text, `time` Unix seconds."""
    return f"cosignature/v1\ntime {time}\n{checkpoint}".encode()


class Cosigner:
    """The private key of a witness, which never leaves this object."""

    __slots__ = ("_private", "key")

    def __init__(self, name: str, seed: bytes) -> None:
        """Make the cosigner of `name` from the 32-byte Ed25519 seed."""
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.key = cosigner_key(name, self._private.public_key().public_bytes_raw())

    def cosign(self, checkpoint: str, time: int) -> str:
        """Return the signature line, without newline, over a checkpoint's text at `time`."""
        signature = self._private.sign(signed_message(checkpoint, time))
        blob = base64.b64encode(self.key.key_id + time.to_bytes(8, "big") + signature).decode()
        return f"{_DASH}{self.key.name} {blob}"


def load_cosigner(
    directory: Path, name: str | None = None, *, disk: Disk | None = None
) -> Cosigner:
    """Return the witness whose key is in `<directory>/witness.key`, made (0600) when there is none
    and `name` is given. Raises LedgerError when the key is missing, damaged or of another name."""
    path = directory / KEY_NAME
    if name is None and not path.exists():
        raise LedgerError(f"There is no witness key in {directory}; give the witness a name.")
    text = create_secret(path, lambda: _new_private_key(name or ""), disk=disk or Disk())
    match = re.fullmatch(r"PRIVATE\+KEY\+([^+\s]+)\+([0-9a-f]{8})\+(\S+)", text)
    raw = decode_base64(match[3]) if match else None
    if match is None or raw is None or len(raw) != 33 or raw[0] != COSIGNATURE:
        raise LedgerError(f"{path} is not the key of a witness; restore it from a backup.")
    cosigner = Cosigner(match[1], raw[1:])
    if cosigner.key.key_id.hex() != match[2]:
        raise LedgerError(f"{path} is damaged; restore it from a backup.")
    if name is not None and name != cosigner.key.name:
        raise LedgerError(f"The witness key {path} is of {cosigner.key.name}; leave the name out.")
    return cosigner


def _new_private_key(name: str) -> str:
    private = Ed25519PrivateKey.generate()
    key = cosigner_key(name, private.public_key().public_bytes_raw())
    blob = base64.b64encode(bytes([COSIGNATURE]) + private.private_bytes_raw()).decode()
    return f"PRIVATE+KEY+{name}+{key.key_id.hex()}+{blob}"


def verify_cosignatures(note: str, keys: Iterable[CosignerKey]) -> list[Cosignature]:
    """Return the cosignatures in `note` by `keys`; signatures by others are passed over.

    Raises NoteRefused when the note is malformed or a cosignature under one of the keys is wrong.
    """
    text, signatures = split_note(note)
    known = {(key.name, key.key_id): key for key in keys}
    found = []
    for name, blob in signatures:
        key = known.get((name, blob[:4]))
        if key is not None:
            found.append(_verified(key, text, blob))
    return found


def _verified(key: CosignerKey, text: str, blob: bytes) -> Cosignature:
    time = int.from_bytes(blob[4:12], "big")
    try:
        if len(blob) != _BLOB_BYTES or time >= _TIME_LIMIT:
            raise InvalidSignature
        public = Ed25519PublicKey.from_public_bytes(key.public)
        public.verify(blob[12:], signed_message(text, time))
    except (InvalidSignature, ValueError):
        raise NoteRefused(f"The cosignature by {key.name} does not fit the checkpoint.") from None
    return Cosignature(key.name, time, f"{_DASH}{key.name} {base64.b64encode(blob).decode()}")


def decode_base64(text: str) -> bytes | None:
    """Decode base64 that has exactly one spelling; None for anything else."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.b64encode(raw).decode() == text else None
