"""OpenTimestamps: a proof that leads to a Bitcoin block, made by its own program `ots`.

Owns the call of the program and the `.ots` file; nothing of the format but its first bytes, because
the program's license asks for distance and its proofs are for its own verifier. Invariant: without
the program this is one note and nothing else. The proof is pending for hours until a calendar has
it in a block; `upgrade_proof` then asks for the rest. Whether that block is Bitcoin's is what
`ots verify` tells, not we. Blocking; called by `stamp_jobs`.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shared.anchors.errors import AnchorError
from shared.anchors.files import (
    CHECKPOINT,
    OPEN_TIME_STAMP,
    Head,
    anchor_path,
    head_of,
    keep_answer,
    keep_checkpoint,
    log_keys,
)
from shared.anchors.programs import ProgramEnded, run_program

PROGRAM: Final = "ots"
KIND: Final = "ots"
#: With which exit status `ots upgrade` says that the calendars have no block yet.
NOT_COMPLETE: Final = 1
#: Seconds for all calendars together; the program itself waits 5 s for each.
TIMEOUT: Final = 30.0
#: What each proof begins with: 31 bytes of magic, the version, the tag of SHA-256.
MAGIC: Final = bytes.fromhex("004f70656e54696d657374616d7073000050726f6f6600bf89e2e884e892940108")


def find_program() -> str | None:
    """Return the path of the `ots` program, or None."""
    return shutil.which(PROGRAM)


def stamp_head(
    directory: Path, head: Head, program: str, calendars: Sequence[str] = ()
) -> dict[str, object]:
    """Have a head stamped, store the proof as `anchors/<size>.ots` and return the `ext` of its
    record. `calendars` are URLs; without any the program's own are asked.

    Raises AnchorError when no calendar answers or the proof is not for our bytes.
    """
    data = keep_checkpoint(directory, head).read_bytes()
    # In a directory of its own: the program writes beside the file that it stamps.
    with tempfile.TemporaryDirectory(prefix="ots-") as place:
        file = Path(place) / "checkpoint"
        file.write_bytes(data)
        urls = [part for url in calendars for part in ("-c", url)]
        run_program(
            [program, "--no-cache", "stamp", "-m", "1", *urls, str(file)],
            timeout=TIMEOUT,
            cwd=Path(place),
        )
        try:
            proof = file.with_name("checkpoint.ots").read_bytes()
        except OSError:
            raise AnchorError("The program ots left no proof.") from None
    _check(proof, data)
    keep_answer(directory, head.size, OPEN_TIME_STAMP, proof)
    return _ext(head, "pending", proof)


def upgrade_proof(
    directory: Path, size: int, program: str, calendars: Sequence[str] = ()
) -> dict[str, object] | None:
    """Have the proof `anchors/<size>.ots` completed; return the `ext` of its record, or None while
    it is pending. A complete proof stays as it is and gives its `ext` again. `calendars` are asked
    beside the program's own, where the proof names them.

    Raises AnchorError when the program fails otherwise or a file is not what it should be,
    LedgerError when the log names no keys, OSError when a file cannot be read or written.
    """
    data = anchor_path(directory, size, CHECKPOINT).read_bytes()
    path = anchor_path(directory, size, OPEN_TIME_STAMP)
    before = path.read_bytes()
    _check(before, data)
    head = head_of(data.decode("utf-8", "replace"), log_keys(directory))
    with tempfile.TemporaryDirectory(prefix="ots-") as place:
        file = Path(place) / "checkpoint.ots"
        file.write_bytes(before)
        trusted = [part for url in calendars for part in ("-l", url)]
        try:
            run_program(
                [program, "--no-cache", *trusted, "upgrade", str(file)],
                timeout=TIMEOUT,
                cwd=Path(place),
            )
        except ProgramEnded as ended:
            if ended.status == NOT_COMPLETE:
                return None
            raise
        proof = file.read_bytes()
    _check(proof, data)
    if proof != before:
        keep_answer(directory, size, OPEN_TIME_STAMP, proof)
    return _ext(head, "complete", proof)


def _check(proof: bytes, data: bytes) -> None:
    digest = hashlib.sha256(data).digest()
    if proof[: len(MAGIC) + len(digest)] != MAGIC + digest:
        raise AnchorError("The proof by ots is not for the checkpoint's bytes.")


def _ext(head: Head, state: str, proof: bytes) -> dict[str, object]:
    sha256 = hashlib.sha256(proof).hexdigest()
    return {"kind": KIND, **head.ext(), "state": state, "sha256": sha256}
