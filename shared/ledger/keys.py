"""The private keys of a log: the log key, its successor, and one seal key for each segment.

Owns the files `ledger.key`, `ledger-next.key` and `segment-<first record, 20 digits>.key` under
the keys directory. Invariants: a key is durable before a record names it; a segment's key is
gone once the segment is sealed, so whoever steals the keys today cannot seal yesterday again; an
old log key is gone once nothing needs its signature. Every step can be cut off by a crash: the
log says which keys are in force, `settle` makes the files follow. Called by `log` and `writer`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shared.ledger.checkpoint import (
    KEY_NAME,
    Signer,
    VerifierKey,
    load_signer,
    new_private_key,
    signer_of,
)
from shared.ledger.errors import LedgerError
from shared.ledger.storage import Disk, reason

#: The key that a rotation has made and that signs beside the old one until the segment ends.
NEXT_KEY_NAME: Final = "ledger-next.key"
#: What the name of a seal key adds to the origin.
SEAL_KEY_SUFFIX: Final = "/seal"
_SEGMENT_KEY: Final = re.compile(r"segment-([0-9]{20})\.key(\.tmp)?")


class KeyRing:
    """The key files of one log; used by whoever holds the log's lock."""

    def __init__(self, directory: Path, origin: str, disk: Disk) -> None:
        """`directory` need not exist yet."""
        self.directory = directory
        self._origin = origin
        self._disk = disk

    # -- log keys ------------------------------------------------------------------------------

    def create(self) -> Signer:
        """Return the log key, making it if there is none. Raises LedgerError."""
        return load_signer(self.directory, self._origin, create=True, disk=self._disk)

    def signers(self) -> list[Signer]:
        """Return the log keys there are: one, or the old and the new one of a rotation.

        Raises LedgerError when there is none. One that cannot be read is passed over while the
        other is good: a crash may have come between the old one's end and the new one's name.
        """
        found: list[Signer] = []
        refusal: LedgerError | None = None
        try:
            found.append(load_signer(self.directory, self._origin, create=False))
        except LedgerError as error:
            refusal = error
        path = self.directory / NEXT_KEY_NAME
        if path.exists():
            with contextlib.suppress(LedgerError):
                found.append(self._load(path, self._origin))
        if not found and refusal is not None:
            raise refusal
        return found

    def make_next(self) -> Signer:
        """Make the log key that will follow, durably. Raises OSError."""
        return self._make(self.directory / NEXT_KEY_NAME, self._origin)

    def settle(self, keys: Sequence[VerifierKey]) -> None:
        """Leave exactly the log keys that are in force: `keys` as the log says. Raises OSError, or
        LedgerError when a key in force cannot be read; nothing is destroyed then."""
        following, current = self.directory / NEXT_KEY_NAME, self.directory / KEY_NAME
        self._clear(following.with_name(f"{NEXT_KEY_NAME}.tmp"))
        if len(keys) > 1 or not following.exists():
            return
        if self._holds(current, keys[0]):
            self._disk.destroy(following)  # no record names it: its rotation never happened
            return
        if self._load(following, self._origin).key != keys[0]:
            raise LedgerError(f"{current} and {following} are not the keys that the ledger names.")
        if current.exists():
            self._disk.blank(current)
        self._disk.rename(following, current)
        self._disk.sync_directory(self.directory)

    def _holds(self, path: Path, key: VerifierKey) -> bool:
        try:
            return self._load(path, self._origin).key == key
        except (LedgerError, FileNotFoundError):
            return False

    # -- segment keys --------------------------------------------------------------------------

    def segment_path(self, first: int) -> Path:
        """Return where the key of the segment that begins with record `first` is kept."""
        return self.directory / f"segment-{first:020d}.key"

    def make_segment(self, first: int) -> Signer:
        """Make the key of a segment, durably; it replaces one that no record named. Raises
        OSError."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._make(self.segment_path(first), self._origin + SEAL_KEY_SUFFIX)

    def load_segment(self, first: int, vkey: str) -> Signer:
        """Return the key of a segment; `vkey` is what the log names for it, empty when the record
        that does was pruned. Raises LedgerError when it is lost or another one."""
        path = self.segment_path(first)
        advice = (
            "restore the keys directory as it was; if the key is lost for good, `sphragis repair` "
            "goes on with a new one and records that."
        )
        if not path.exists():
            raise LedgerError(f"The key {path} that must seal the ledger is missing; {advice}")
        signer = self._load(path, self._origin + SEAL_KEY_SUFFIX)
        if vkey and signer.key.vkey() != vkey:
            raise LedgerError(f"The key {path} is not the one that the ledger names; {advice}")
        return signer

    def has_segment(self, first: int, vkey: str) -> bool:
        """Tell whether the key of a segment is still there."""
        try:
            self.load_segment(first, vkey)
        except LedgerError:
            return False
        return True

    def retire_segments(self, *keep: int) -> None:
        """Destroy every segment key but those of the segments `keep`. Raises OSError."""
        if not self.directory.is_dir():
            return
        for path in sorted(self.directory.iterdir()):
            match = _SEGMENT_KEY.fullmatch(path.name)
            if match and (match[2] or int(match[1]) not in keep):
                self._disk.destroy(path)

    # -- files ---------------------------------------------------------------------------------

    def _make(self, path: Path, name: str) -> Signer:
        text = new_private_key(name)
        self._disk.replace(path, f"{text}\n".encode())
        return signer_of(text, name, path)

    def _load(self, path: Path, name: str) -> Signer:
        try:
            text = path.read_text("ascii").strip()
        except FileNotFoundError:
            raise
        except (OSError, UnicodeDecodeError) as error:
            raise LedgerError(
                f"The key file {path} cannot be used ({reason(error)}); check its owner and mode."
            ) from error
        return signer_of(text, name, path)

    def _clear(self, path: Path) -> None:
        if path.exists():
            self._disk.destroy(path)
