"""The files under `<log>/anchors`: what was sent out, and what came back for it.

Owns the names: `<size>.checkpoint` is the note with only the log's signatures, and `<size>.cosig`,
`.tsr` and `.ots` are what others answered for exactly those bytes. Invariant: a checkpoint file is
never replaced by other bytes, so that what points at it stays true. Called by `client`, `tsa`,
`ots` and the one-shot verbs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shared.anchors.errors import AnchorError
from shared.anchors.witness import verified_note
from shared.ledger.checkpoint import (
    Checkpoint,
    VerifierKey,
    open_note,
    parse_checkpoint,
    parse_vkey,
)
from shared.ledger.directory import read_head, read_log_json
from shared.ledger.storage import Disk

ANCHORS: Final = "anchors"
CHECKPOINT: Final = ".checkpoint"
COSIGNATURES: Final = ".cosig"
TIME_STAMP: Final = ".tsr"
OPEN_TIME_STAMP: Final = ".ots"
#: Cosigned checkpoints that are kept in any case, and the seconds of which only the last is kept.
#: A busy log gets one every ten seconds: without this, 17,000 files a day.
NEWEST_KEPT: Final = 64
SPAN_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True)
class Head:
    """A checkpoint that is to leave the machine: the note, with the log's signatures only."""

    checkpoint: Checkpoint
    note: str

    @property
    def size(self) -> int:
        """How many records it covers."""
        return self.checkpoint.size

    def ext(self) -> dict[str, object]:
        """Return what an `anchor` record says of it."""
        checkpoint = self.checkpoint
        return {
            "origin": checkpoint.origin,
            "size": checkpoint.size,
            "root": checkpoint.root.hex(),
        }


def log_keys(directory: Path) -> list[VerifierKey]:
    """Return the keys in log.json. Raises LedgerError."""
    return [parse_vkey(vkey) for vkey in read_log_json(directory)["vkeys"]]


def head_of(note: str, keys: Iterable[VerifierKey]) -> Head:
    """Return the head that `note` publishes. Raises NoteRefused when none of `keys` signed it."""
    trusted = list(keys)
    return Head(parse_checkpoint(open_note(note, trusted)), verified_note(note, trusted))


def published_head(directory: Path) -> Head:
    """Return the newest head of the log in `directory`, open or not. Raises LedgerError."""
    return head_of(read_head(directory), log_keys(directory))


def anchor_path(directory: Path, size: int, suffix: str) -> Path:
    """Return the path of an anchor for the first `size` records."""
    return directory / ANCHORS / f"{size}{suffix}"


def keep_checkpoint(directory: Path, head: Head) -> Path:
    """Store the checkpoint that anchors of its size are for, and return its path.

    Another note of the same tree keeps its place (a signature more changes the bytes). Raises
    AnchorError when the one that is there is of another tree, OSError when it cannot be written.
    """
    path = anchor_path(directory, head.size, CHECKPOINT)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        if path.read_bytes().startswith(head.checkpoint.text().encode()):
            return path
        raise AnchorError(
            f"{path} is of another history than the ledger; run `sphragis verify` on it."
        )
    Disk().replace(path, head.note.encode(), mode=0o440)
    return path


def keep_answer(directory: Path, size: int, suffix: str, data: bytes) -> Path:
    """Store what somebody answered for `<size>.checkpoint`. Raises OSError."""
    path = anchor_path(directory, size, suffix)
    Disk().replace(path, data, mode=0o440)
    return path


def keep_cosignatures(directory: Path, size: int, lines: Sequence[str]) -> Path:
    """Add cosignature lines to `<size>.cosig`, the newest of each witness only. Raises OSError."""
    path = anchor_path(directory, size, COSIGNATURES)
    kept = {}
    with contextlib.suppress(FileNotFoundError):
        kept = {_key_of(line): line for line in path.read_text("utf-8").splitlines() if line}
    kept |= {_key_of(line): line for line in lines}
    text = "".join(f"{line}\n" for line in kept.values())
    return keep_answer(directory, size, COSIGNATURES, text.encode())


def _key_of(line: str) -> tuple[str, str]:
    """Return the name and (the first characters of base64 that are only) the key id of a line."""
    name, _, blob = line.removeprefix("\u2014 ").partition(" ")
    return name, blob[:5]


def sizes_with(directory: Path, suffix: str) -> Iterator[int]:
    """Yield the sizes for which there is an anchor with `suffix`."""
    with contextlib.suppress(FileNotFoundError):
        for path in (directory / ANCHORS).iterdir():
            if path.suffix == suffix and path.stem.isdecimal():
                yield int(path.stem)


def thin_out(directory: Path, *, newest: int = NEWEST_KEPT, span: int = SPAN_SECONDS) -> int:
    """Remove cosigned checkpoints that say nothing any more, and return how many.

    A witness's later cosignature covers its earlier ones, so of those that nobody stamped the
    `newest` are kept, and of the older ones the last in each `span` seconds. Raises OSError.
    """
    stamped = {*sizes_with(directory, TIME_STAMP), *sizes_with(directory, OPEN_TIME_STAMP)}
    sizes = sorted(set(sizes_with(directory, COSIGNATURES)) - stamped)[:-newest]
    last: dict[int, int] = {}
    for size in sizes:
        path = anchor_path(directory, size, COSIGNATURES)
        last[int(path.stat().st_mtime) // span] = size
    removed = set(sizes) - set(last.values())
    for size in removed:
        for suffix in (COSIGNATURES, CHECKPOINT):
            anchor_path(directory, size, suffix).unlink(missing_ok=True)
    return len(removed)
