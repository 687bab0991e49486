"""Segments and seals: the names and the read side of the files under `segments/`.

Owns the file names (first record number in 20 digits), the text of a seal, and reading a file
as lines without loading it. Invariant: a seal says everything needed to go on from the end of
its segment (tree, last leaf, last time, open requests), so a start reads only what is not
sealed. Called by `log`, `recovery`, `verify`.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from shared.ledger.errors import NoteRefused
from shared.ledger.merkle import Frontier
from shared.ledger.record import NO_PREV

SEGMENTS: Final = "segments"
QUARANTINE: Final = "quarantine"
LOG_JSON: Final = "log.json"
HEAD: Final = "HEAD"
LOCK: Final = "LOCK"
REPAIR: Final = "REPAIR"
ANCHORS: Final = "anchors"
SCHEMA: Final = 2

#: What a seal's first line adds to the origin.
SEAL_SUFFIX: Final = "/segment"
NO_SEAL: Final = "0" * 64

#: Lines are at most 60 KiB; a longer run of bytes without a newline is damage, not a line.
MAX_RUN: Final = 1 << 17
_CHUNK: Final = 1 << 20
_NAME: Final = re.compile(r"([0-9]{20})\.jsonl")
_SEAL_NAME: Final = re.compile(r"[0-9]{20}\.seal")


def segment_path(directory: Path, first: int) -> Path:
    """Return the path of the segment whose first record is number `first`."""
    return directory / SEGMENTS / f"{first:020d}.jsonl"


def seal_path(segment: Path) -> Path:
    """Return the path of the seal beside a segment."""
    return segment.with_suffix(".seal")


def list_seals(directory: Path) -> list[Path]:
    """Return the paths of the seals of a log in order."""
    folder = directory / SEGMENTS
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _SEAL_NAME.fullmatch(path.name))


def first_of(segment: Path) -> int | None:
    """Return the first record number that a segment's name tells, or None."""
    match = _NAME.fullmatch(segment.name)
    return int(match[1]) if match else None


def list_segments(directory: Path) -> list[Path]:
    """Return the segments of a log in order."""
    folder = directory / SEGMENTS
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))


@dataclass(slots=True)
class Position:
    """Where a reader or the writer stands: everything that depends on the records before.

    Owned by one thread at a time; `copy` before handing out.
    """

    frontier: Frontier = field(default_factory=Frontier)
    tip: str = NO_PREV
    ts: int = 0
    open_requests: set[int] = field(default_factory=set)

    @property
    def size(self) -> int:
        """How many records there are; the next one gets this number."""
        return self.frontier.size

    def copy(self) -> Position:
        """Return an independent copy."""
        return Position(self.frontier.copy(), self.tip, self.ts, set(self.open_requests))

    def note_pairing(self, seq: int, kind: object, ref: object) -> None:
        """Follow the two phases: a request opens, the outcome that names it closes."""
        if kind == "request":
            self.open_requests.add(seq)
        elif kind == "outcome" and type(ref) is int:
            self.open_requests.discard(ref)


@dataclass(frozen=True, slots=True)
class Seal:
    """The end of a segment: which records, which bytes, and where the next segment starts."""

    origin: str
    first: int
    size: int
    root: bytes
    sha256: str
    previous: str
    tip: str
    ts: int
    frontier: tuple[bytes, ...]
    open_requests: tuple[int, ...]

    def text(self) -> str:
        """Return the text that is signed."""
        peaks = ",".join(base64.b64encode(peak).decode() for peak in self.frontier)
        waiting = ",".join(map(str, self.open_requests))
        return (
            f"{self.origin}{SEAL_SUFFIX}\n"
            f"first {self.first}\nlast {self.size - 1}\nsize {self.size}\n"
            f"root {base64.b64encode(self.root).decode()}\n"
            f"sha256 {self.sha256}\nprevious {self.previous}\n"
            f"tip {self.tip}\nts {self.ts}\nfrontier {peaks}\nopen {waiting}\n"
        )

    def position(self) -> Position:
        """Return where the next segment starts. Raises NoteRefused when the parts disagree."""
        try:
            frontier = Frontier(self.size, self.frontier)
        except ValueError as error:
            raise NoteRefused("The seal's frontier does not fit its size.") from error
        if frontier.root() != self.root:
            raise NoteRefused("The seal's frontier does not give its root.")
        return Position(frontier, self.tip, self.ts, set(self.open_requests))


def parse_seal(text: str) -> Seal:
    """Return the seal of a note's text. Raises NoteRefused unless it is byte-exact ours."""
    lines = text.split("\n")
    origin, fields = lines[0].removesuffix(SEAL_SUFFIX), dict(_fields(lines[1:]))
    try:
        seal = Seal(
            origin=origin,
            first=int(fields["first"]),
            size=int(fields["size"]),
            root=base64.b64decode(fields["root"]),
            sha256=fields["sha256"],
            previous=fields["previous"],
            tip=fields["tip"],
            ts=int(fields["ts"]),
            frontier=tuple(map(base64.b64decode, _list(fields["frontier"]))),
            open_requests=tuple(map(int, _list(fields["open"]))),
        )
    except (KeyError, ValueError) as error:
        raise NoteRefused("The text is not a seal.") from error
    if seal.text() != text:
        raise NoteRefused("The seal is not in the canonical form.")
    return seal


def last_lines(segment: Path) -> list[bytes]:
    """Return the last lines of a segment file, without newlines; the first may be a part."""
    with segment.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - MAX_RUN))
        return file.read().splitlines()


def last_record(segment: Path) -> bytes:
    """Return the line of the last record of a sealed segment file, or nothing when there is none.
    A seal stands alone in its batch, so it is within the last two lines."""
    lines = reversed(last_lines(segment))
    return next((line for line in lines if not line.startswith(b'{"cp":')), b"")


def _fields(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, _, value = line.partition(" ")
        yield name, value


def _list(text: str) -> list[str]:
    return text.split(",") if text else []


def seal_digest(note: str) -> str:
    """Return what the next seal names as the previous one: SHA-256 of the signed note."""
    return hashlib.sha256(note.encode()).hexdigest()


def read_lines(file: BinaryIO, end: int) -> Iterator[tuple[list[bytes], bytes]]:
    """Yield the lines of `file` up to offset `end`, about a mebibyte at a time, as (lines without
    their newlines, unfinished). `unfinished` is empty but for bytes that no newline ends: at the
    end of the file, or a run that is too long for a line."""
    left, rest = end - file.tell(), b""
    while left > 0:
        chunk = file.read(min(_CHUNK, left))
        if not chunk:
            break
        left -= len(chunk)
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        if len(rest) > MAX_RUN:
            yield lines, rest
            rest = b""
        elif lines:
            yield lines, b""
    if rest:
        yield [], rest
