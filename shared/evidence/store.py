"""The files of kept evidence: `<log>/evidence/<c[:2]>/<c>.bin`, one for each payload.

Guarantees: when `keep` returns, the ciphertext is durable, so the record that names it may be
written; a payload is read back only as that of its own record; while `alone` is held nothing new
is kept, so an erasure cannot be overtaken by a payload under a key it deletes. Every method
blocks; safe from any thread. Called by the gateway's keeper, `erase` and `showing`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from shared.evidence.errors import EvidenceError
from shared.evidence.keys import Group, KeyStore
from shared.evidence.sealing import (
    HEADER_BYTES,
    Label,
    commitment,
    keyid_of,
    mac_of,
    seal,
    unseal,
)
from shared.ledger.storage import Disk, reason

FOLDER: Final = "evidence"
SUFFIX: Final = ".bin"


class EvidenceStore:
    """The evidence of one ledger."""

    def __init__(
        self, directory: Path, keys: KeyStore | None = None, *, disk: Disk | None = None
    ) -> None:
        """`directory` is the ledger's; without `keys` files can be counted and compared only."""
        self._folder = directory / FOLDER
        self._keys = keys
        self._disk = disk or Disk()
        self._gate = _Gate()
        self._made: set[Path] = set()

    def keep(self, data: bytes, group: Group, label: Label, redactions: int) -> dict[str, Any]:
        """Seal a payload and make it durable; return its entry for the record's `evidence`.

        Raises EvidenceError when it cannot be kept.
        """
        with self._gate.shared():
            key = self._with_keys().key_for(group)
            blob = seal(data, key, label)
            c = commitment(blob)
            path = path_of(self._folder, c)
            try:
                self._make_folder(path.parent)
                self._disk.replace(path, blob, mode=0o440)
            except OSError as wrong:
                raise EvidenceError(
                    f"The payload cannot be kept in {self._folder} ({reason(wrong)}); check the "
                    "disk's free space and the owner of the directory."
                ) from None
        return {
            "c": c,
            "mac": mac_of(data, key.salt),
            "bytes": len(data),
            "keyid": key.keyid,
            "media": label.media,
            "redactions": redactions,
        }

    def read(self, record: Mapping[str, Any], entry: Mapping[str, Any]) -> bytes | None:
        """Return the payload that an entry of a record names; None when its key is gone.

        Raises EvidenceError when the file is missing, altered, or of another record.
        """
        key = self._with_keys().key(str(entry.get("keyid")))
        if key is None:
            return None
        c = str(entry.get("c"))
        blob = self.blob(c)
        if blob is None:
            raise EvidenceError(
                f"The kept payload of record {record.get('seq')} is missing; restore "
                f"{self._folder} from a backup."
            )
        if commitment(blob) != c:
            raise EvidenceError(
                f"The kept payload of record {record.get('seq')} was altered; restore "
                f"{self._folder} from a backup."
            )
        media = str(entry.get("media"))
        data = unseal(blob, key, Label(str(record.get("id")), str(record.get("type")), media))
        if mac_of(data, key.salt) != entry.get("mac"):
            raise EvidenceError(
                f"The kept payload of record {record.get('seq')} is not the one it committed to."
            )
        return data

    def blob(self, c: str) -> bytes | None:
        """Return the bytes of an evidence file, None when there is none. Raises EvidenceError."""
        try:
            return path_of(self._folder, c).read_bytes()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as wrong:
            raise EvidenceError(
                f"A file in {self._folder} cannot be read ({reason(wrong)}); check its owner."
            ) from None

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """Wait until nothing is being kept, and keep it so for the block."""
        return self._gate.alone()

    def sweep(self, keyids: Collection[str]) -> int:
        """Delete every file sealed with one of the keys, durably; return how many. What a kill
        left half written goes too. Raises EvidenceError."""
        gone = 0
        try:
            for folder in self.folders():
                before = gone
                for path, keyid in _files(folder):
                    if keyid in keyids or path.suffix == ".tmp":
                        path.unlink()
                        gone += 1
                if gone > before:
                    self._disk.sync_directory(folder)
        except OSError as wrong:
            raise EvidenceError(
                f"The files in {self._folder} cannot be deleted ({reason(wrong)}); check owner "
                "and disk, then run the same command again."
            ) from None
        return gone

    def folders(self) -> list[Path]:
        """Return the directories that hold evidence files."""
        if not self._folder.is_dir():
            return []
        return sorted(path for path in self._folder.iterdir() if path.is_dir())

    def files(self) -> Iterator[tuple[Path, str | None]]:
        """Yield each file and the id of the key it is sealed with."""
        for folder in self.folders():
            yield from _files(folder)

    def _with_keys(self) -> KeyStore:
        if self._keys is None:
            raise EvidenceError("The evidence keys are not open; start the program again.")
        return self._keys

    def _make_folder(self, folder: Path) -> None:
        if folder in self._made:
            return
        for path in (self._folder, folder):
            if not path.is_dir():
                path.mkdir(mode=0o700, exist_ok=True)
                self._disk.sync_directory(path.parent)
        self._made.add(folder)


def path_of(folder: Path, c: str) -> Path:
    """Return where the evidence file of a commitment is. Raises ValueError when it is none."""
    if len(c) != 64 or not set(c) <= set("0123456789abcdef"):
        raise ValueError("not a commitment")
    return folder / c[:2] / f"{c}{SUFFIX}"


def _files(folder: Path) -> Iterator[tuple[Path, str | None]]:
    for path in sorted(folder.iterdir()):
        if path.suffix not in {SUFFIX, ".tmp"}:
            continue
        with path.open("rb") as file:
            yield path, keyid_of(file.read(HEADER_BYTES))


class _Gate:
    """Many may keep at a time; whoever is alone waits for them and keeps others out."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._closed)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._closed)
            self._closed = True
            self._changed.wait_for(lambda: self._inside == 0)
        try:
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()
