"""Texts that records name by digest: policies and settings, kept beside the log.

Owns `<log>/texts/`: one read-only file for each text, named by the SHA-256 of its bytes in hex.
Invariants: a text is durable before `keep_text` returns, so a record that names it never stands
alone after a crash; what `read_text` returns is what the digest says, or an error. Nothing that
must be erasable belongs here, and no secret: a text is shown to whoever checks the log.
Called by both programs before a `policy_set` or `config_set` record; read by proofs and by verbs.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

from shared.ledger.errors import LedgerError
from shared.ledger.storage import Disk, reason

#: The directory of the texts within a log.
TEXTS: Final = "texts"
#: Policies and team files take kilobytes; a list of terms takes at most 4 MiB.
MAX_TEXT: Final = 16 << 20
_NAME: Final = re.compile(r"[0-9a-f]{64}")


class TextMissing(LedgerError):
    """The log has no text of this digest."""


class TextChanged(LedgerError):
    """The kept bytes are not those the digest names."""


def keep_text(directory: Path, data: bytes, *, disk: Disk | None = None) -> str:
    """Keep `data` durably beside the log in `directory` and return its digest. Blocks.

    A text that is kept already is left as it is if its bytes are right, and written anew if not.
    Raises LedgerError when it is too large or cannot be written.
    """
    if len(data) > MAX_TEXT:
        raise LedgerError(
            f"A text of {len(data)} bytes is too large to be kept with the ledger; the limit is "
            f"{MAX_TEXT} bytes: shorten it."
        )
    disk = disk or Disk()
    digest = hashlib.sha256(data).hexdigest()
    folder = directory / TEXTS
    path = folder / digest
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
            disk.sync_directory(directory)
        if not _holds(path, data):
            disk.replace(path, data, mode=0o440)
    except OSError as error:
        raise LedgerError(
            f"The ledger's text {path} cannot be written ({reason(error)}); check the disk's free "
            "space and the owner of the directory."
        ) from error
    return digest


def read_text(directory: Path, digest: str) -> bytes:
    """Return the text of a digest. Raises TextMissing, or TextChanged when its bytes are others."""
    path = directory / TEXTS / digest
    if not _NAME.fullmatch(digest):
        raise TextMissing("A text is named by 64 hex digits, and this is no such name.")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TEXT + 1)
    except OSError as error:
        raise TextMissing(
            f"The ledger has no text {digest} ({reason(error)}); restore {path} from a backup."
        ) from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise TextChanged(f"The text {path} was changed after it was kept; restore it.")
    return data


def list_texts(directory: Path) -> list[str]:
    """Return the digests of the kept texts, sorted; other files are passed over."""
    try:
        names = [path.name for path in (directory / TEXTS).iterdir()]
    except FileNotFoundError:
        return []
    return sorted(name for name in names if _NAME.fullmatch(name))


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False
