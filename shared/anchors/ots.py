"""OpenTimestamps: a proof that leads to a Bitcoin block, made by its own program `ots`.

Owns the call of the program and the `.ots` file; nothing of the format but its first bytes, because
the program's license asks for distance and its proofs are for its own verifier. Invariant: without
the program this is one note and nothing else. The proof is pending for hours until a calendar has
it in a block: `ots upgrade` and `ots verify` finish it. Blocking; called by `schedule`.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shared.anchors.errors import AnchorError
from shared.anchors.files import OPEN_TIME_STAMP, Head, keep_answer, keep_checkpoint
from shared.anchors.programs import run_program

PROGRAM: Final = "ots"
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
    digest = hashlib.sha256(data).digest()
    if proof[: len(MAGIC) + len(digest)] != MAGIC + digest:
        raise AnchorError("The proof by ots is not for the checkpoint's bytes.")
    keep_answer(directory, head.size, OPEN_TIME_STAMP, proof)
    sha256 = hashlib.sha256(proof).hexdigest()
    return {"kind": "ots", **head.ext(), "state": "pending", "sha256": sha256}
