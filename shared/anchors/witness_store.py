"""A witness's memory: one signed note per origin, replaced whole, never lost without a word.

Layout: `<dir>/logs/<sha256 of the origin>.note` (the newest checkpoint with the log's signature),
`<dir>/known` (the names of all those files), `<dir>/LOCK`. Invariants: one process at a time; what
`put` returned from is durable; a file that is damaged, or gone although `known` names it, stops
the start, because a witness that forgot would cosign a second history. Called by `serving`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from shared.ledger.checkpoint import Checkpoint, VerifierKey, open_note, parse_checkpoint
from shared.ledger.errors import LedgerError, NoteRefused
from shared.ledger.storage import Disk, reason
from shared.paths import UnsafeDirectory, private_dir

LOGS: Final = "logs"
KNOWN: Final = "known"
LOCK: Final = "LOCK"
_NOTE: Final = ".note"


class WitnessStore:
    """The open memory; `get` and `put` are called under the witness's lock."""

    def __init__(
        self,
        directory: Path,
        logs: Mapping[str, Sequence[VerifierKey]],
        *,
        disk: Disk | None = None,
    ) -> None:
        """Lock and read `directory`, making it if there is none.

        Raises LedgerError when another process has it, or when a note in it is damaged, missing or
        not by one of the keys in `logs`.
        """
        self._directory = directory
        self._disk = disk or Disk()
        self._lock = _take_lock(directory)
        try:
            private_dir(directory / LOGS)
            self._known = _read_known(directory / KNOWN)
            self._latest = _read_notes(directory / LOGS, logs)
            self._refuse_lost()
        except BaseException as error:
            os.close(self._lock)
            if isinstance(error, OSError):
                raise LedgerError(
                    f"The witness directory {directory} cannot be read ({reason(error)}); check "
                    "its owner and mode."
                ) from error
            raise

    def _refuse_lost(self) -> None:
        """A file that `known` does not name yet is of a witness that was killed between the two
        writes; the other way round, something took the file away."""
        there = {path.stem for path in (self._directory / LOGS).glob(f"*{_NOTE}")}
        if self._known - there:
            raise LedgerError(
                f"The witness in {self._directory} has lost what it knew of a log it had cosigned; "
                "restore the directory from a backup, or retire this witness: with a new "
                "directory and key it begins as another one."
            )
        self._known = there

    def get(self, origin: str) -> Checkpoint | None:
        """Return the newest checkpoint of `origin`, or None."""
        return self._latest.get(origin)

    def put(self, checkpoint: Checkpoint, note: str) -> None:
        """Keep the newest checkpoint durably. Raises OSError; then the old one still counts, and
        if the new one reached the disk after all, it counts from the next start on."""
        name = _name(checkpoint.origin)
        self._disk.replace(self._directory / LOGS / f"{name}{_NOTE}", note.encode())
        if name not in self._known:
            names = self._known | {name}
            text = "".join(f"{known}\n" for known in sorted(names))
            self._disk.replace(self._directory / KNOWN, text.encode())
            self._known = names
        self._latest[checkpoint.origin] = checkpoint

    def close(self) -> None:
        """Let another process have the directory."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _name(origin: str) -> str:
    return hashlib.sha256(origin.encode()).hexdigest()


def _take_lock(directory: Path) -> int:
    try:
        private_dir(directory)
        fd = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except UnsafeDirectory as error:
        raise LedgerError(str(error)) from error
    except OSError as error:
        raise LedgerError(
            f"The witness directory {directory} cannot be used ({reason(error)}); check its owner."
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise LedgerError(f"Another witness runs on {directory}; stop it first.") from None
    return fd


def _read_known(path: Path) -> set[str]:
    with contextlib.suppress(FileNotFoundError):
        return set(path.read_text("ascii", errors="replace").split())
    return set()


def _read_notes(
    directory: Path, logs: Mapping[str, Sequence[VerifierKey]]
) -> dict[str, Checkpoint]:
    """Return the checkpoints of the logs that are witnessed now; those of others stay as they
    are, in case they come back."""
    latest = {}
    for origin, keys in logs.items():
        path = directory / f"{_name(origin)}{_NOTE}"
        if not path.exists():
            continue
        try:
            checkpoint = parse_checkpoint(open_note(path.read_text("utf-8"), keys))
        except (NoteRefused, UnicodeDecodeError) as error:
            raise LedgerError(
                f"The witness's note {path} is damaged, or signed by none of the keys given for "
                f"{origin}; restore it from a backup, or give the key it was signed with as well."
            ) from error
        if checkpoint.origin != origin:
            raise LedgerError(f"The witness's note {path} is of another log; restore a backup.")
        latest[origin] = checkpoint
    return latest
