"""Task, report and screen texts, kept beside the journal and never inside it.

Owns `.choragos/texts/`. A ledger leaf cannot be erased, so it holds only a keyed commitment of
each text (contracts/ledger.md section 2.9); the text itself is a file of ours, named by its
commitment and durable before the record that refers to it. Invariant: what `get` returns is what
was committed, or nothing. `deck.session` writes through it, faces read through it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from deck.plain_files import read_own, replace_own
from shared.ledger.commitment import commit, load_commitment_key
from shared.paths import private_dir

#: Texts are read again for every status; more than a board shows need not stay in memory.
CACHE_ENTRIES: Final = 1024
#: Far above every text: a command has 1 MiB, a diff that is shown half as much.
MAX_BYTES: Final = 16 << 20


class TextStore:
    """Texts by commitment. The methods block on the disk: call `put` in a thread."""

    def __init__(self, directory: Path, keys: Path) -> None:
        """`directory` is made 0700; the commitment key in `keys` is made on first use.

        Raises LedgerError or OSError.
        """
        self._directory = private_dir(directory)
        self._key = load_commitment_key(keys)
        self._cache: dict[str, str] = {}

    def put(self, text: str) -> str:
        """Store a text durably and return its commitment, its name from now on. Raises OSError."""
        data = text.encode("utf-8", "replace")
        reference = commit(self._key, data)
        path = self._directory / reference
        if not self._holds(path, data):
            replace_own(path, data, is_durable=True)
            self._sync_directory()
        self._remember(reference, text)
        return reference

    def get(self, reference: str) -> str | None:
        """Return the text committed as `reference`, or None when it is gone or was changed."""
        if not reference:
            return ""
        if reference in self._cache:
            return self._cache[reference]
        try:
            data = read_own(self._directory / reference, MAX_BYTES)
        except OSError:
            return None
        if commit(self._key, data) != reference:
            return None
        text = data.decode("utf-8", "replace")
        self._remember(reference, text)
        return text

    def commit(self, data: bytes) -> str:
        """Return the keyed commitment of bytes that are not stored."""
        return commit(self._key, data)

    def _holds(self, path: Path, data: bytes) -> bool:
        try:
            return read_own(path, len(data)) == data
        except OSError:
            # Not there, or something else: a text that is named must be there.
            return False

    def _remember(self, reference: str, text: str) -> None:
        if len(self._cache) >= CACHE_ENTRIES:
            del self._cache[next(iter(self._cache))]
        self._cache[reference] = text

    def _sync_directory(self) -> None:
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
