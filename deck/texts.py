"""Task, report and screen texts, kept beside the journal and never inside it.

Owns `.choragos/texts/`. A ledger leaf cannot be erased, so it holds only a keyed commitment of
each text (contracts/ledger.md section 2.9); the text itself is a file of ours, named by its
commitment and durable before the record that refers to it. Invariant: what `get` returns is what
was committed, or nothing. `deck.session` writes through it, faces read through it.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

from deck.plain_files import read_own, replace_own
from deck.protocol import one_line
from shared.ledger.commitment import commit, load_commitment_key
from shared.paths import private_dir

#: Most are a line or two; of those that are long only a few stay in memory.
CACHE_ENTRIES: Final = 1024
CACHE_CHARS: Final = 8 << 20
#: What a board shows of each is read again for every status; a line has 400 characters at most.
LINES: Final = 1 << 14
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
        self._lock = threading.Lock()
        # Guarded by the lock where they change.
        self._cache: dict[str, str] = {}
        self._cached_chars = 0
        self._lines: dict[str, str] = {}

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
        if (known := self._cache.get(reference)) is not None:
            return known
        try:
            data = read_own(self._directory / reference, MAX_BYTES)
        except OSError:
            return None
        if commit(self._key, data) != reference:
            return None
        text = data.decode("utf-8", "replace")
        self._remember(reference, text)
        return text

    def line(self, reference: str) -> str | None:
        """Return a text in one line, or None when it is gone or was changed. Blocks for what was
        neither put nor asked for before."""
        if (known := self._lines.get(reference)) is not None:
            return known
        text = self.get(reference)
        return None if text is None else one_line(text)

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
        line = one_line(text)
        with self._lock:
            self._lines[reference] = line
            if len(self._lines) > LINES:
                del self._lines[next(iter(self._lines))]
            self._cached_chars += len(text) - len(self._cache.pop(reference, ""))
            self._cache[reference] = text
            while len(self._cache) > CACHE_ENTRIES or self._cached_chars > CACHE_CHARS:
                self._cached_chars -= len(self._cache.pop(next(iter(self._cache))))

    def _sync_directory(self) -> None:
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
