"""What a log holds when it is opened, and the repair of a torn end.

Owns the rules of contracts/ledger.md section 2.3. Reads from the previous seal on; the log is
good up to the last checkpoint line that (a) is byte-exact canonical, (b) has the size and root
of the records before it and (c) carries this log's signature. Bytes behind it are a torn write,
kept in quarantine, unless a later valid checkpoint shows that they were committed: then nothing
is touched and the start is refused. Memory is flat. Called by `log` only, under its lock.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from shared.ledger.batch import BATCH_LIMIT, Batch, follow
from shared.ledger.checkpoint import (
    Checkpoint,
    Signer,
    checkpoints_in,
    open_note,
    parse_checkpoint,
    parse_checkpoint_line,
)
from shared.ledger.errors import LedgerCorrupt, LedgerError, LedgerRollback, NoteRefused
from shared.ledger.merkle import leaf_hash
from shared.ledger.record import LineRefused, parse
from shared.ledger.segment import (
    HEAD,
    NO_SEAL,
    QUARANTINE,
    Position,
    Seal,
    first_of,
    list_segments,
    parse_seal,
    read_lines,
    seal_digest,
    seal_path,
    segment_path,
)
from shared.ledger.storage import Disk, reason

#: A checkpoint line anywhere in damaged bytes, even glued to something else.
_CP_ANYWHERE: Final = re.compile(rb'\{"cp":"[^"\x00-\x1f]{1,65536}"\}')
_RUNBOOK: Final = (
    "keep a copy of the directory, run `sphragis verify` on it to see which record, "
    "and restore the ledger from a backup or move it away to begin a new one."
)


@dataclass(slots=True)
class Recovered:
    """The state at the last good checkpoint of the active segment."""

    first: int
    position: Position
    offset: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    note: str = ""
    first_ts: int = 0
    last_type: str = ""
    previous_seal: str = NO_SEAL
    #: What stands in place of the very last newline, when only that did not reach the disk.
    instead_of_newline: bytes | None = None


@dataclass(frozen=True, slots=True)
class Torn:
    """A torn end that was moved to quarantine and still needs its `recover` record. Without a
    name, nothing was moved: only the last newline had to be written again."""

    name: str
    bytes: int
    sha256: str


def recover(directory: Path, signer: Signer) -> Recovered:
    """Return the last good state of the log in `directory`, changing nothing.

    Raises LedgerCorrupt, LedgerRollback or LedgerError with the sentence to show.
    """
    try:
        state = _last_sealed(directory, signer)
        path = segment_path(directory, state.first)
        if path.exists():
            _scan(path, state, signer)
        _check_head(directory, state, signer)
    except OSError as error:
        raise LedgerError(
            f"The ledger {directory} cannot be read ({reason(error)}); check its owner and disk."
        ) from error
    return state


def _last_sealed(directory: Path, signer: Signer) -> Recovered:
    """Walk the seals and return where the active segment starts."""
    state = Recovered(first=0, position=Position())
    segments = list_segments(directory)
    for path in segments:
        if first_of(path) != state.first:
            raise LedgerCorrupt(
                f"The segment {segment_path(directory, state.first)} is missing; {_RUNBOOK}"
            )
        if not seal_path(path).exists():
            if path != segments[-1]:
                raise LedgerCorrupt(f"The seal {seal_path(path)} is missing; {_RUNBOOK}")
            break
        seal, note = _read_seal(path, signer)
        if seal.first != state.first or seal.previous != state.previous_seal:
            raise LedgerCorrupt(f"The seal {seal_path(path)} is for another segment; {_RUNBOOK}")
        state = Recovered(
            first=seal.size,
            position=seal.position(),
            previous_seal=seal_digest(note),
            note=state.note,
        )
    return state


def _read_seal(path: Path, signer: Signer) -> tuple[Seal, str]:
    try:
        note = seal_path(path).read_text("utf-8")
        seal = parse_seal(open_note(note, [signer.key]))
        seal.position()
    except (NoteRefused, UnicodeDecodeError) as error:
        raise LedgerCorrupt(
            f"The seal {seal_path(path)} is damaged or not signed by this log; {_RUNBOOK}"
        ) from error
    if seal.origin != signer.key.name:
        raise LedgerCorrupt(f"The seal {seal_path(path)} is of another log; {_RUNBOOK}")
    return seal, note


def _scan(path: Path, state: Recovered, signer: Signer) -> None:
    """Move `state` to the last good checkpoint of the segment at `path`."""
    end = path.stat().st_size
    reader = _Reader(state, signer)
    with path.open("rb") as file:
        for lines, unfinished in read_lines(file, end):
            if not reader.feed(lines):
                break
            if unfinished:
                reader.finish(unfinished, end)
                break
    if state.offset < end and state.instead_of_newline is None:
        _refuse_later_commit(path, state, signer)


class _Reader:
    """Follows batches; `state` moves only at a good checkpoint."""

    def __init__(self, state: Recovered, signer: Signer) -> None:
        self.state = state
        self._signer = signer
        self._lines: list[bytes] = []

    def feed(self, lines: Sequence[bytes]) -> bool:
        """Take the next lines; False means that something cannot follow what is before it."""
        start = 0
        for index in checkpoints_in(lines):
            self._lines += lines[start:index]
            if not self._checkpoint(lines[index]):
                return False
            start = index + 1
        self._lines += lines[start:]
        return len(self._lines) <= BATCH_LIMIT + 1  # the writer may add a clock_step

    def finish(self, unfinished: bytes, end: int) -> None:
        """Take the last bytes of the file if they are a whole checkpoint but for the newline: all
        that was signed is there, and a second signature for the same size must not arise."""
        for body in (unfinished, unfinished[:-1]):
            if checkpoints_in([body]) and self._checkpoint(body):
                extra = unfinished[len(body) :]
                assert self.state.offset - 1 + len(extra) == end
                self.state.instead_of_newline = extra
                return

    def _checkpoint(self, line: bytes) -> bool:
        lines, position = self._lines, self.state.position
        batch = _follow(lines, position)
        if batch is None:
            return False
        frontier = batch.frontier
        expected = Checkpoint(self._signer.key.name, frontier.size, frontier.root()).text()
        try:
            note = parse_checkpoint_line(line)
            if not note.startswith(expected + "\n"):
                return False
            # Ed25519 gives one signature per text, so signing again (32 us) and comparing bytes
            # proves as much as verifying (108 us); another signer's line is verified.
            if self._signer.sign(expected) != note:
                open_note(note, [self._signer.key])
        except NoteRefused:
            return False
        self._accept(batch, b"\n".join([*lines, line, b""]), note)
        lines.clear()
        return True

    def _accept(self, batch: Batch, taken: bytes, note: str) -> None:
        state, position, records = self.state, self.state.position, batch.records
        state.offset += len(taken)
        state.digest.update(taken)
        state.note = note
        position.frontier, position.tip, position.ts = batch.frontier, batch.tip, batch.ts
        for record in records:
            position.note_pairing(record["seq"], record["type"], record.get("ref"))
        state.last_type = records[-1]["type"]
        state.first_ts = state.first_ts or records[0]["ts"]


def _follow(lines: Sequence[bytes], position: Position) -> Batch | None:
    """Return the batch after `position`; a step back of the clock is no reason to refuse it."""
    batch = follow(lines, position) if lines else None
    if batch is not None or not lines:
        return batch
    try:
        records = [parse(line) for line in lines]
    except LineRefused:
        return None
    frontier, tip = position.frontier.copy(), position.tip
    for line, record in zip(lines, records, strict=True):
        if record["seq"] != frontier.size or record["prev"] != tip:
            return None
        leaf = leaf_hash(line)
        frontier.append(leaf)
        tip = leaf.hex()
    return Batch(records, frontier, tip, records[-1]["ts"])


def _refuse_later_commit(path: Path, state: Recovered, signer: Signer) -> None:
    """Raise LedgerCorrupt when a checkpoint behind the damage shows that it was committed."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for note in _notes_from(data, state.offset):
            try:
                found = parse_checkpoint(open_note(note, [signer.key]))
            except NoteRefused:
                continue
            if found.size > state.position.size and found.origin == signer.key.name:
                raise LedgerCorrupt(
                    f"{path} is damaged behind byte {state.offset} (record "
                    f"{state.position.size} or its checkpoint), although {found.size} records "
                    f"were committed; {_RUNBOOK}"
                )


def _notes_from(data: mmap.mmap, offset: int) -> Iterator[str]:
    for match in _CP_ANYWHERE.finditer(data, offset):
        try:
            yield parse_checkpoint_line(match[0])
        except NoteRefused:
            continue


def _check_head(directory: Path, state: Recovered, signer: Signer) -> None:
    """Raise LedgerRollback when the log once published more records than it holds."""
    path = directory / HEAD
    if not path.exists():
        return
    try:
        head = parse_checkpoint(open_note(path.read_text("utf-8"), [signer.key]))
    except (NoteRefused, UnicodeDecodeError) as error:
        raise LedgerCorrupt(
            f"{path} is damaged or not signed by this log, so it cannot be told whether records "
            f"are missing; {_RUNBOOK}"
        ) from error
    if head.size > state.position.size:
        raise LedgerRollback(
            f"The ledger {directory} holds {state.position.size} good records but {head.size} "
            f"were published in {path.name}: the end was removed, damaged or an old copy was put "
            f"back; {_RUNBOOK}"
        )
    if head.size == state.position.size and head.root != state.position.frontier.root():
        raise LedgerRollback(
            f"The ledger {directory} differs from what it published in {path.name}; {_RUNBOOK}"
        )


def quarantine(directory: Path, state: Recovered, disk: Disk) -> list[Torn]:
    """Move a torn end out of the active segment; return every torn end at this offset that has
    no `recover` record yet (a crash may come between the two).

    Raises OSError when the disk refuses; nothing is lost then.
    """
    path = segment_path(directory, state.first)
    folder = directory / QUARANTINE
    if state.instead_of_newline is not None:
        _cut(path, state.offset - 1, b"\n", disk)
        extra = state.instead_of_newline
        return [Torn("", len(extra), hashlib.sha256(extra).hexdigest())]
    if path.exists() and path.stat().st_size > state.offset:
        folder.mkdir(mode=0o700, exist_ok=True)
        disk.sync_directory(directory)
        with path.open("rb") as file:
            file.seek(state.offset)
            _keep(folder, state, file.read(), disk)
        _cut(path, state.offset, b"", disk)
    if not folder.is_dir():
        return []
    kept = sorted(folder.glob(f"{_stem(state)}*"))
    return [_torn(file) for file in kept if not file.name.endswith(".tmp")]


def _cut(path: Path, size: int, then: bytes, disk: Disk) -> None:
    """Cut a segment to `size` bytes, write `then`, and make it durable."""
    fd = disk.open_append(path)
    try:
        disk.truncate(fd, size)
        if then:
            disk.write(fd, then)
        disk.sync(fd)
    finally:
        os.close(fd)


def _stem(state: Recovered) -> str:
    return f"{state.first:020d}-{state.offset}."


def _keep(folder: Path, state: Recovered, tail: bytes, disk: Disk) -> None:
    """Store a torn end under a name of its own, unless a crash left it there already."""
    number = 0
    while (path := folder / f"{_stem(state)}{number}").exists():
        if path.read_bytes() == tail:
            return
        number += 1
    disk.replace(path, tail)


def _torn(path: Path) -> Torn:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Torn(path.name, path.stat().st_size, digest)
