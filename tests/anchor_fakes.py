"""What the tests of anchors share: a log that exists only as leaves and a key, and free ports."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from shared.ledger.checkpoint import Checkpoint, Signer
from shared.ledger.merkle import consistency_proof, leaf_hash, root_of

ORIGIN = "log.example.org/one"


class PaperLog:
    """A log on paper: leaves in memory, and a key that signs whatever a test wants."""

    def __init__(self, origin: str = ORIGIN, seed: bytes = b"l" * 32, salt: str = "") -> None:
        self.origin = origin
        self.signer = Signer(origin, seed)
        self.salt = salt

    def leaves(self, size: int) -> list[bytes]:
        return [leaf_hash(f"{self.salt if n > 2 else ''}{n}".encode()) for n in range(size)]

    def root(self, size: int) -> bytes:
        return root_of(self.leaves(size))

    def note(self, size: int) -> str:
        return self.signer.sign(Checkpoint(self.origin, size, self.root(size)).text())

    def proof(self, old: int, new: int) -> list[bytes]:
        return consistency_proof(self.leaves(new), old)


def seed_of(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def signature_lines(note: str) -> Sequence[str]:
    return note.rpartition("\n\n")[2].splitlines()
