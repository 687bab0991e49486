"""Checkpoints: what the log commits to, as C2SP signed notes.

Owns the note format (C2SP signed-note: text, blank line, `— name base64(key id || signature)`),
the checkpoint text (C2SP tlog-checkpoint: origin, size, root), verifier keys (vkey) and the
checkpoint line inside a segment. Invariant: every reader compares bytes after re-encoding, so
there is one spelling of each note we wrote. Called by `log`, `segment`, `recovery`, `verify`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shared.ledger.errors import LedgerError, NoteRefused
from shared.ledger.merkle import HASH_BYTES
from shared.ledger.storage import Disk, create_secret

KEY_NAME: Final = "ledger.key"
#: C2SP signed-note signature type of Ed25519.
ED25519: Final = 0x01
#: x/mod sumdb/note refuses more; the C2SP text asks for at least 16.
MAX_SIGNATURES: Final = 100
#: A note that we write has one signature and is about 200 bytes long.
MAX_NOTE: Final = 1 << 16

_DASH: Final = "\u2014 "
_CP_START: Final = b'{"cp":"'
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,15}")


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key with the name it signs under."""

    name: str
    key_id: bytes
    public: bytes

    def vkey(self) -> str:
        """Return the C2SP text form: name+key id+base64(type || key)."""
        blob = base64.b64encode(bytes([ED25519]) + self.public).decode()
        return f"{self.name}+{self.key_id.hex()}+{blob}"

    def accepts(self, text: bytes, signature: bytes) -> bool:
        """Tell whether `signature` (64 bytes) is this key's signature of `text`."""
        try:
            _public_key(self.public).verify(signature, text)
        except (InvalidSignature, ValueError):
            return False
        return True


@lru_cache(maxsize=16)
def _public_key(public: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public)


class Signer:
    """The private key of a log. Kept apart from the log so that another signer can take its
    place; the key itself never leaves this object."""

    __slots__ = ("_private", "key")

    def __init__(self, name: str, seed: bytes) -> None:
        """Make the signer of `name` from the 32-byte Ed25519 seed."""
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.key = verifier_key(name, self._private.public_key().public_bytes_raw())

    def line(self, text: str) -> str:
        """Return the signature line, with its newline, of `text`, which must end in a newline."""
        signature = self.key.key_id + self._private.sign(text.encode())
        return f"{_DASH}{self.key.name} {base64.b64encode(signature).decode()}\n"

    def sign(self, text: str) -> str:
        """Return the signed note of `text`, which must end in a newline."""
        return f"{text}\n{self.line(text)}"


def sign_all(text: str, signers: Iterable[Signer]) -> str:
    """Return the note of `text` with one signature line of each signer, in their order."""
    return f"{text}\n{''.join(signer.line(text) for signer in signers)}"


def check_name(name: str) -> str:
    """Return `name` if it may name a key or a log. Raises NoteRefused otherwise (C2SP: not empty,
    no spaces, no plus)."""
    if not name or "+" in name or any(c.isspace() or not c.isprintable() for c in name):
        raise NoteRefused(
            "The origin of a ledger must be one word without spaces, plus signs or control "
            "characters, such as audit.example.org/gateway."
        )
    return name


def verifier_key(name: str, public: bytes) -> VerifierKey:
    """Return the verifier key of an Ed25519 public key (32 bytes) under `name`."""
    digest = hashlib.sha256(check_name(name).encode() + b"\n" + bytes([ED25519]) + public)
    return VerifierKey(name, digest.digest()[:4], public)


def parse_vkey(text: str) -> VerifierKey:
    """Return the key of a vkey text. Raises NoteRefused when any part does not fit the others."""
    refusal = NoteRefused(
        "The public key is not a vkey; it looks like name+8 hex digits+base64, as in log.json."
    )
    name, plus, rest = text.strip().partition("+")
    key_id, second, blob = rest.partition("+")
    if not (name and plus and second) or not re.fullmatch(r"[0-9a-f]{8}", key_id):
        raise refusal
    raw = _strict_base64(blob)
    if raw is None or len(raw) != 33 or raw[0] != ED25519:
        raise refusal
    key = verifier_key(name, raw[1:])
    if key.key_id.hex() != key_id:
        raise refusal
    return key


def load_signer(keys: Path, origin: str, *, create: bool, disk: Disk | None = None) -> Signer:
    """Return the signer whose key is in `<keys>/ledger.key`, made (0600) when `create` is set.

    Raises LedgerError when the key is missing, unreadable or belongs to another log.
    """
    path = keys / KEY_NAME
    if not create and not path.exists():
        raise LedgerError(
            f"The signing key {path} is missing but the ledger exists; restore the key from a "
            "backup, or move the ledger directory away to begin a new one."
        )
    text = create_secret(path, lambda: new_private_key(origin), disk=disk or Disk())
    return signer_of(text, origin, path)


def signer_of(text: str, name: str, path: Path) -> Signer:
    """Return the signer of the private key `text`, read from `path`. Raises LedgerError when it is
    not a key or not one of `name`."""
    owner, seed = _parse_private_key(text, path)
    if owner != name:
        raise LedgerError(f"The signing key {path} is for another log; use the one of {name}.")
    return Signer(owner, seed)


def new_private_key(name: str) -> str:
    """Return a new Ed25519 key as the text of a key file: PRIVATE+KEY+name+key id+base64."""
    private = Ed25519PrivateKey.generate()
    key = verifier_key(name, private.public_key().public_bytes_raw())
    blob = base64.b64encode(bytes([ED25519]) + private.private_bytes_raw()).decode()
    return f"PRIVATE+KEY+{name}+{key.key_id.hex()}+{blob}"


def _parse_private_key(text: str, path: Path) -> tuple[str, bytes]:
    match = re.fullmatch(r"PRIVATE\+KEY\+([^+\s]+)\+([0-9a-f]{8})\+(\S+)", text)
    raw = _strict_base64(match[3]) if match else None
    if match is None or raw is None or len(raw) != 33 or raw[0] != ED25519:
        raise LedgerError(f"{path} is not a ledger key; restore it from a backup.")
    if Signer(match[1], raw[1:]).key.key_id.hex() != match[2]:
        raise LedgerError(f"{path} is damaged; restore it from a backup.")
    return match[1], raw[1:]


def _strict_base64(text: str) -> bytes | None:
    """Decode base64 that has exactly one spelling; None for anything else."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.b64encode(raw).decode() == text else None


def open_note(note: str, keys: Iterable[VerifierKey]) -> str:
    """Return the text of a note signed by at least one of `keys`; unknown signatures are ignored.

    Raises NoteRefused when the note is malformed, a known key's signature is wrong, or no known
    key signed it.
    """
    text, signatures = split_note(note)
    known = {(key.name, key.key_id): key for key in keys}
    accepted = False
    for name, blob in signatures:
        key = known.get((name, blob[:4]))
        if key is None:
            continue
        if not key.accepts(text.encode(), blob[4:]):
            raise NoteRefused(f"The signature by {name} does not fit the text it is under.")
        accepted = True
    if not accepted:
        raise NoteRefused("The note carries no signature by the expected key.")
    return text


def split_note(note: str) -> tuple[str, Sequence[tuple[str, bytes]]]:
    """Return the text of a note (with its last newline) and its signatures (name, key id ||
    signature), unverified. Raises NoteRefused when the note is malformed."""
    malformed = NoteRefused("The text is not a signed note.")
    if len(note) > MAX_NOTE or _CONTROL.search(note):
        raise malformed
    cut = note.rfind("\n\n")
    if cut < 0 or not note.endswith("\n"):
        raise malformed
    text, lines = note[: cut + 1], note[cut + 2 : -1].split("\n")
    if len(lines) > MAX_SIGNATURES:
        raise malformed
    signatures = []
    for line in lines:
        name, space, blob = line.removeprefix(_DASH).partition(" ")
        raw = _strict_base64(blob)
        if not line.startswith(_DASH) or not (name and space) or raw is None or len(raw) < 5:
            raise malformed
        if "+" in name or any(c.isspace() for c in name):
            raise malformed
        signatures.append((name, raw))
    return text, signatures


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a log commits to: `size` records with the tree root `root`."""

    origin: str
    size: int
    root: bytes

    def text(self) -> str:
        """Return the C2SP checkpoint text; no extension lines, witnesses refuse them."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"


def parse_checkpoint(text: str) -> Checkpoint:
    """Return the checkpoint of a note's text. Raises NoteRefused when it is not one of ours:
    three lines, canonical size, canonical base64 of 32 bytes."""
    lines = text.split("\n")
    if len(lines) == 4 and lines[3] == "" and lines[0] and _SIZE.fullmatch(lines[1]):
        root = _strict_base64(lines[2])
        if root is not None and len(root) == HASH_BYTES:
            return Checkpoint(lines[0], int(lines[1]), root)
    raise NoteRefused("The text is not a checkpoint.")


def checkpoint_line(note: str) -> bytes:
    """Return the line (without newline) that carries a signed checkpoint inside a segment."""
    return orjson.dumps({"cp": note})


def is_checkpoint_line(line: bytes) -> bool:
    """Tell whether a line claims to be a checkpoint; no record starts like this."""
    return line.startswith(_CP_START)


def checkpoints_in(lines: Sequence[bytes]) -> list[int]:
    """Return which of `lines` claim to be checkpoints."""
    return [index for index, line in enumerate(lines) if line.startswith(_CP_START)]


def parse_checkpoint_line(line: bytes) -> str:
    """Return the note of a checkpoint line. Raises NoteRefused unless the line is byte-exact what
    `checkpoint_line` writes."""
    try:
        value = orjson.loads(line)
    except (ValueError, RecursionError) as error:
        raise NoteRefused("The checkpoint line is not JSON.") from error
    note = value.get("cp") if type(value) is dict else None
    if type(note) is not str or checkpoint_line(note) != line:
        raise NoteRefused("The checkpoint line is not in the canonical form.")
    return note
