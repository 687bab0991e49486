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

from shared.ledger.commitment import commit, load_commitment_key
from shared.paths import private_dir

#: Texts are read again for every status; more than a board shows need not stay in memory.
CACHE_ENTRIES: Final = 1024


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
        if not path.exists():
            temporary = path.with_name(f".{reference}.{os.getpid()}.{id(data)}")
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fdatasync(file.fileno())
                temporary.rename(path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
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
            data = (self._directory / reference).read_bytes()
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
