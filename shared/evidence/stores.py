"""Everything an operation on evidence works with, opened when it is first needed.

Owns the names of people and sessions as the ledger knows them: keyed hashes, never the names.
Invariant: nothing here creates a file before something is kept or erased. Made by the gateway,
once for its life, or by a command that has the ledger to itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from shared.evidence.keys import KeyStore
from shared.evidence.store import EvidenceStore
from shared.keyfile import KeySource
from shared.ledger import Ledger
from shared.ledger.commitment import commit
from shared.ledger.storage import Disk

KEYS_NAME: Final = "dek.db"
KEK_NAME: Final = "evidence.key"
KEK_VARIABLE: Final = "SPHRAGIS_EVIDENCE_KEY"
KEK_SETTING: Final = "evidence_key_command"


@dataclass(frozen=True, slots=True)
class OtherMemory:
    """Another place that knows values of a subject (the vault). `owners` returns whom it would
    forget for a subject and a session, `forget` forgets them and returns how many entries went,
    `settle` records the changes that it has noted and the ledger does not have yet."""

    owners: Callable[[str, str], list[str]] = lambda _subject, _session: []
    forget: Callable[[list[str]], int] = lambda _owners: 0
    settle: Callable[[Ledger], list[int]] = lambda _ledger: []


@dataclass(slots=True)
class Stores:
    """The evidence of the ledger in `ledger_dir`; `tenant_key` hides names (32 bytes). `delegated`:
    which (session, role) has a task now, None where nobody can tell."""

    ledger_dir: Path
    keys: KeyStore
    store: EvidenceStore
    tenant_key: bytes = field(repr=False)
    other: OtherMemory = field(default_factory=OtherMemory)
    clock: Callable[[], float] = time.time
    delegated: frozenset[tuple[str, str]] | None = None

    def now(self) -> int:
        """Return the time in microseconds since 1970."""
        return int(self.clock() * 1_000_000)

    def subject_c(self, subject: str) -> str:
        """Return how the ledger names a subject: 64 hex digits."""
        return commit(self.tenant_key, b"subject\0" + subject.encode("utf-8", "surrogatepass"))

    def session_c(self, session: str) -> str:
        """Return how evidence names a session: 64 hex digits, empty for no session."""
        if not session:
            return ""
        return commit(self.tenant_key, b"session\0" + session.encode("utf-8", "surrogatepass"))

    def close(self) -> None:
        """Close what was opened."""
        self.keys.close()


def stores_in(
    ledger_dir: Path,
    keys_dir: Path,
    tenant_key: bytes,
    *,
    key_file: Path | None = None,
    key_command: tuple[str, ...] = (),
    other: OtherMemory | None = None,
    disk: Disk | None = None,
    clock: Callable[[], float] = time.time,
) -> Stores:
    """Return the stores of a ledger whose keys are in `keys_dir`, best on another volume. The
    wrapping key is in the variable SPHRAGIS_EVIDENCE_KEY, or what `key_command` prints, or in
    `key_file`."""
    source = KeySource(
        key_file or keys_dir / KEK_NAME,
        os.environ.get(KEK_VARIABLE),
        key_command,
        KEK_VARIABLE,
        KEK_SETTING,
    )
    keys = KeyStore(keys_dir / KEYS_NAME, source, clock=clock)
    store = EvidenceStore(ledger_dir, keys, disk=disk)
    return Stores(ledger_dir, keys, store, tenant_key, other or OtherMemory(), clock)
