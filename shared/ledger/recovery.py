"""What a log holds when it is opened, and the repair of a torn end.

Owns the rules of contracts/ledger.md section 2.3. Reads from the last seal on; the log is good
up to the last checkpoint line that (a) is byte-exact canonical, (b) has the size and root of the
records before it and (c) carries the signature of each log key in force. Bytes behind it are a
torn write, kept in quarantine, unless a later valid checkpoint shows that they were committed:
then nothing is touched and the start is refused. Memory is flat. Called by `log`, under its
lock, and by `repair`.
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

import orjson

from shared.ledger.batch import BATCH_LIMIT, Batch, follow
from shared.ledger.checkpoint import (
    Checkpoint,
    Signer,
    VerifierKey,
    checkpoints_in,
    open_note,
    parse_checkpoint,
    parse_checkpoint_line,
    parse_vkey,
    sign_all,
    split_note,
)
from shared.ledger.directory import read_log_json
from shared.ledger.errors import LedgerCorrupt, LedgerError, LedgerRollback, NoteRefused
from shared.ledger.merkle import leaf_hash
from shared.ledger.record import LineRefused, RecordType, parse
from shared.ledger.segment import (
    ANCHORS,
    HEAD,
    LOG_JSON,
    NO_SEAL,
    QUARANTINE,
    Position,
    Seal,
    first_of,
    last_lines,
    last_record,
    list_seals,
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
    "keep a copy of the directory, run `sphragis verify` on it to see which record, and restore "
    "the ledger from a backup; only if there is none, `sphragis repair` goes on without what is "
    "lost and records that."
)
_ANCHOR: Final = re.compile(r"(0|[1-9][0-9]{0,15})\.(checkpoint|cosig|tsr|ots)")


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
    #: The log keys that sign the next checkpoint: one, or the old and the new one until the
    #: segment of a key rotation ends.
    keys: tuple[VerifierKey, ...] = ()
    #: All log keys so far, the newest last.
    chain: tuple[str, ...] = ()
    #: The vkey that seals the active segment; empty when the record that names it was pruned.
    segment_key: str = ""
    #: The vkey for the segment after this one, once this one ends in its `seal` record.
    next_key: str = ""
    #: What stands in place of the very last newline, when only that did not reach the disk.
    instead_of_newline: bytes | None = None


@dataclass(frozen=True, slots=True)
class Torn:
    """A torn end that was moved to quarantine and still needs its `recover` record. Without a
    name, nothing was moved: only the last newline had to be written again."""

    name: str
    bytes: int
    sha256: str


def recover(directory: Path, *signers: Signer) -> Recovered:
    """Return the last good state of the log in `directory`, changing nothing. `signers` are the
    log keys at hand; the public ones come from log.json.

    Raises LedgerCorrupt, LedgerRollback or LedgerError with the sentence to show.
    """
    try:
        known = known_keys(directory, signers)
        state = last_sealed(directory, known)
        path = segment_path(directory, state.first)
        if path.exists() and scan(path, state, signers):
            _refuse_later_commit(path, state, known)
        _check_head(directory, state, known)
        _check_anchors(directory, state, known)
    except OSError as error:
        raise LedgerError(
            f"The ledger {directory} cannot be read ({reason(error)}); check its owner and disk."
        ) from error
    return state


def known_keys(directory: Path, signers: Sequence[Signer] = ()) -> list[VerifierKey]:
    """Return the log keys that log.json names, oldest first, then those only at hand: a rotation
    may have been cut off before log.json was written. Raises LedgerCorrupt."""
    try:
        keys = [parse_vkey(vkey) for vkey in read_log_json(directory)["vkeys"]]
    except NoteRefused as error:
        raise LedgerCorrupt(
            f"{directory / LOG_JSON} names a public key that is none; restore it from a backup."
        ) from error
    return keys + [signer.key for signer in signers if signer.key not in keys]


def last_sealed(
    directory: Path, known: Sequence[VerifierKey], *, seals: Sequence[Path] | None = None
) -> Recovered:
    """Follow the seals and return where the active segment starts.

    Seals name each other by hash, so the signature of the last one covers all. Segment files may
    be missing at the front, where they were pruned. Raises LedgerCorrupt. A repair gives the
    `seals` it wants to keep; what else there is does not matter then.
    """
    identity = read_log_json(directory)
    state = Recovered(
        first=0, position=Position(), keys=(known[0],), chain=(known[0].vkey(),),
        segment_key=identity["segment_key"],
    )  # fmt: skip
    chosen, seals = seals is not None, list_seals(directory) if seals is None else seals
    notes = _linked(seals, known)
    for path, (seal, note) in zip(seals, notes, strict=True):
        _check_place(path, seal, state)
        state.first, state.previous_seal = seal.size, seal_digest(note)
    if not chosen:
        _check_files(directory, state.first, bool(seals))
    if seals:
        seal, note = notes[-1]
        state.position = seal.position()
        newest = max(index for index, key in enumerate(known) if _signed_by(note, key))
        state.keys = (known[newest],)
        state.chain = tuple(key.vkey() for key in known[: newest + 1])
        state.segment_key = _named_next(seals[-1].with_suffix(".jsonl"))
        state.note = _last_note(seals[-1].with_suffix(".jsonl"), seal)
    return state


def _linked(seals: Sequence[Path], known: Sequence[VerifierKey]) -> list[tuple[Seal, str]]:
    """Read the seals from the last to the first: each names the hash of the one before it."""
    read: list[tuple[Seal, str]] = []
    for path in reversed(seals):
        try:
            note = path.read_text("utf-8")
            if read and seal_digest(note) != read[-1][0].previous:
                raise NoteRefused("The next seal names another one.")
            text = split_note(note)[0] if read else open_note(note, known)
            seal = parse_seal(text)
            seal.position()
        except (NoteRefused, UnicodeDecodeError) as error:
            if read and (missing := _gap_after(path, read[-1][0])):
                raise LedgerCorrupt(f"The seal {missing} is missing; {_RUNBOOK}") from error
            raise LedgerCorrupt(
                f"The seal {path} is damaged or not signed by this log; {_RUNBOOK}"
            ) from error
        if seal.origin != known[0].name:
            raise LedgerCorrupt(f"The seal {path} is of another log; {_RUNBOOK}")
        read.append((seal, note))
    return read[::-1]


def sealed_digests(directory: Path, last: str) -> dict[int, str]:
    """Return the SHA-256 of each sealed segment by its first record, from the seals. `last` is
    the digest of the newest seal, as a start has found it: each names the one before, so no
    signature need be looked at again. Raises LedgerCorrupt."""
    found: dict[int, str] = {}
    for path in reversed(list_seals(directory)):
        try:
            note = path.read_text("utf-8")
            if seal_digest(note) != last:
                raise NoteRefused("The next seal names another one.")
            seal = parse_seal(split_note(note)[0])
        except (OSError, NoteRefused, UnicodeDecodeError) as error:
            raise LedgerCorrupt(f"The seal {path} was changed or removed; {_RUNBOOK}") from error
        found[seal.first], last = seal.sha256, seal.previous
    return found


def _gap_after(path: Path, following: Seal) -> Path | None:
    """Return which seal is missing between the one at `path` and the `following` one."""
    try:
        seal = parse_seal(split_note(path.read_text("utf-8"))[0])
    except (NoteRefused, UnicodeDecodeError):
        return None
    return path.with_name(f"{seal.size:020d}.seal") if seal.size != following.first else None


def _check_place(path: Path, seal: Seal, state: Recovered) -> None:
    if seal.first != state.first:
        missing = path.with_name(f"{state.first:020d}.seal")
        raise LedgerCorrupt(f"The seal {missing} is missing; {_RUNBOOK}")
    if path.stem != f"{seal.first:020d}" or seal.previous != state.previous_seal:
        raise LedgerCorrupt(f"The seal {path} is for another segment; {_RUNBOOK}")


def _check_files(directory: Path, active: int, sealed: bool) -> None:
    """Raise LedgerCorrupt unless each segment from the first that is left has its place."""
    there = [_first(path) for path in list_segments(directory)]
    if there and there[-1] > active:
        missing = seal_path(segment_path(directory, active))
        raise LedgerCorrupt(f"The seal {missing} is missing; {_RUNBOOK}")
    wanted = [_first(path.with_suffix(".jsonl")) for path in list_seals(directory)]
    left = [first for first in wanted if there and first >= there[0]]
    lost = sorted(set(left) - set(there)) or sorted(set(there) - {*wanted, active})
    if lost:
        raise LedgerCorrupt(
            f"The segment {segment_path(directory, lost[0])} is missing; {_RUNBOOK}"
        )
    if sealed and not there:
        raise LedgerCorrupt(f"The segment {segment_path(directory, active)} is missing; {_RUNBOOK}")


def _first(path: Path) -> int:
    first = first_of(path)
    assert first is not None
    return first


def _last_note(segment: Path, seal: Seal) -> str:
    """Return the checkpoint over the whole of a sealed segment, or nothing when it was pruned."""
    try:
        note = parse_checkpoint_line(last_lines(segment)[-1])
    except (OSError, IndexError, NoteRefused):
        return ""
    text = Checkpoint(seal.origin, seal.size, seal.root).text()
    return note if note.startswith(text + "\n") else ""


def _signed_by(note: str, key: VerifierKey) -> bool:
    try:
        open_note(note, [key])
    except NoteRefused:
        return False
    return True


def _named_next(segment: Path) -> str:
    """Return the vkey that the last record of a sealed segment names, or nothing when the segment
    was pruned or that record cannot be read (the verifier says so)."""
    try:
        return str(orjson.loads(last_record(segment))["ext"]["next_key"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def scan(
    path: Path, state: Recovered, signers: Sequence[Signer], *, before_seal: bool = False
) -> bool:
    """Move `state` to the last good checkpoint of the segment at `path`, or to the one before its
    `seal` record; tell whether there are bytes behind it."""
    end = path.stat().st_size
    reader = _Reader(state, signers, before_seal=before_seal)
    with path.open("rb") as file:
        for lines, unfinished in read_lines(file, end):
            if not reader.feed(lines):
                break
            if unfinished:
                reader.finish(unfinished, end)
                break
    return state.offset < end and state.instead_of_newline is None


class _Reader:
    """Follows batches; `state` moves only at a good checkpoint."""

    def __init__(
        self, state: Recovered, signers: Sequence[Signer], *, before_seal: bool = False
    ) -> None:
        self.state = state
        self._before_seal = before_seal
        self._private = {signer.key: signer for signer in signers}
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
        keys = _keys_after(batch, self.state)
        if not keys or (self._before_seal and batch.records[-1]["type"] == RecordType.SEAL):
            return False
        frontier = batch.frontier
        expected = Checkpoint(keys[0].name, frontier.size, frontier.root()).text()
        try:
            note = parse_checkpoint_line(line)
            if not note.startswith(expected + "\n"):
                return False
            # Ed25519 gives one signature per text, so signing again (32 us) and comparing bytes
            # proves as much as verifying (108 us); another signer's line is verified.
            at_hand = [self._private[key] for key in keys if key in self._private]
            if len(at_hand) < len(keys) or sign_all(expected, at_hand) != note:
                for key in keys:
                    open_note(note, [key])
        except NoteRefused:
            return False
        self._accept(batch, b"\n".join([*lines, line, b""]), note)
        self._follow_keys(keys, batch)
        lines.clear()
        return True

    def _follow_keys(self, keys: tuple[VerifierKey, ...], batch: Batch) -> None:
        state, last = self.state, batch.records[-1]
        if keys != state.keys:
            state.keys, state.chain = keys, (*state.chain, keys[-1].vkey())
        state.next_key = ""
        if last["type"] == RecordType.SEAL:
            state.next_key = str(last["ext"]["next_key"])
        for record in batch.records:
            if record["type"] == RecordType.RECOVER and "segment_key" in record["ext"]:
                # An accepted loss inside a sealed segment: the key that sealed it is gone.
                state.segment_key = str(record["ext"]["segment_key"])

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
    types = {record["type"] for record in records}
    return Batch(records, types, frontier, tip, records[-1]["ts"])


def _keys_after(batch: Batch, state: Recovered) -> tuple[VerifierKey, ...]:
    """Return the log keys that sign from this batch on; none when a record about keys is wrong."""
    keys = state.keys
    try:
        for record in batch.records:
            if record["type"] == RecordType.KEY_ROTATE:
                if len(keys) != 1 or record["ext"]["old"] != keys[0].vkey():
                    return ()
                keys = (keys[0], parse_vkey(record["ext"]["new"]))
            elif record["type"] == RecordType.SEAL:
                parse_vkey(record["ext"]["next_key"])
            elif record["type"] == RecordType.RECOVER:
                parse_vkey(record["ext"].get("segment_key") or keys[0].vkey())
    except (KeyError, TypeError, AttributeError, NoteRefused):
        return ()
    return keys if all(key.name == keys[0].name for key in keys) else ()


def _refuse_later_commit(path: Path, state: Recovered, known: Sequence[VerifierKey]) -> None:
    """Raise LedgerCorrupt when a checkpoint behind the damage shows that it was committed."""
    size = largest_commit(path, state.offset, [*known, *state.keys])
    if size > state.position.size:
        raise LedgerCorrupt(
            f"{path} is damaged behind byte {state.offset} (record {state.position.size} or its "
            f"checkpoint), although {size} records were committed; {_RUNBOOK}"
        )


def largest_commit(path: Path, offset: int, known: Sequence[VerifierKey]) -> int:
    """Return the largest size that a signed checkpoint behind `offset` is for, or 0."""
    largest = 0
    if path.stat().st_size == 0:
        return 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for note in _notes_from(data, offset):
            try:
                found = parse_checkpoint(open_note(note, known))
            except NoteRefused:
                continue
            if found.origin == known[0].name:
                largest = max(largest, found.size)
    return largest


def _notes_from(data: mmap.mmap, offset: int) -> Iterator[str]:
    for match in _CP_ANYWHERE.finditer(data, offset):
        try:
            yield parse_checkpoint_line(match[0])
        except NoteRefused:
            continue


def _check_head(directory: Path, state: Recovered, known: Sequence[VerifierKey]) -> None:
    """Raise LedgerRollback when the log once published more records than it holds."""
    path = directory / HEAD
    if not path.exists():
        return
    try:
        head = parse_checkpoint(open_note(path.read_text("utf-8"), known))
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


def anchored_sizes(directory: Path) -> dict[int, list[Path]]:
    """Return the files under `anchors/` by the size of the checkpoint that each is about."""
    found: dict[int, list[Path]] = {}
    folder = directory / ANCHORS
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if match := _ANCHOR.fullmatch(path.name):
            found.setdefault(int(match[1]), []).append(path)
    return found


def _check_anchors(directory: Path, state: Recovered, known: Sequence[VerifierKey]) -> None:
    """Raise LedgerRollback when others have seen and signed more than the log holds."""
    anchored = anchored_sizes(directory)
    newest = max(anchored, default=0)
    if newest > state.position.size:
        raise LedgerRollback(
            f"The ledger {directory} holds {state.position.size} good records but "
            f"{ANCHORS}/{anchored[newest][0].name} is for {newest}: the end was removed, damaged "
            f"or an old copy was put back; {_RUNBOOK}"
        )
    path = directory / ANCHORS / f"{state.position.size}.checkpoint"
    if newest == 0 or newest != state.position.size or path not in anchored[newest]:
        return
    try:
        anchor = parse_checkpoint(open_note(path.read_text("utf-8"), known))
    except (NoteRefused, UnicodeDecodeError):
        return  # not the log's own word; the verifier names it
    if (anchor.size, anchor.root) != (state.position.size, state.position.frontier.root()):
        raise LedgerRollback(
            f"The ledger {directory} differs from what it anchored in {ANCHORS}/{path.name}; "
            f"{_RUNBOOK}"
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
        disk.settle(fd)
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
