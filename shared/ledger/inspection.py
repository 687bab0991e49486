"""One inspection: the segments of a log followed in order, their seals, and what they add up to.

Owns the judgement on files: which segments there are, what their seals sign (with the log's key
and the segment's own, which the record before named), HEAD, kept texts, gaps. A gap at the
beginning that an `erase` record of pruning explains is a note; any other is a missing segment.
Raises OSError alone. Called by `verify`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from shared.ledger.checkpoint import Checkpoint, VerifierKey, open_note, parse_vkey
from shared.ledger.errors import NoteRefused
from shared.ledger.key_chain import KeyChain, rotations_in
from shared.ledger.segment import (
    HEAD,
    MAX_RUN,
    NO_SEAL,
    Position,
    Seal,
    first_of,
    parse_seal,
    read_lines,
    seal_digest,
    seal_path,
)
from shared.ledger.texts import TEXTS
from shared.ledger.verdict import Findings, Status
from shared.ledger.walk import Walker

Progress = Callable[[int, int], None]
#: No file that is not a segment is larger than this.
SMALL: Final = 1 << 20
#: More than this many unanswered requests are summed up in one finding.
_LISTED: Final = 20
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Part:
    """A segment file as it was when the verification began; a log may go on being written."""

    path: Path
    size: int
    sealed: bool


def part(path: Path) -> Part:
    """Return the segment file at `path` as it is now."""
    # First the seal, then the size: once there is a seal, the file does not grow any more.
    sealed = seal_path(path).exists()
    return Part(path, path.stat().st_size, sealed)


@dataclass(frozen=True, slots=True)
class Gap:
    """Records that are not there; `seal` is the digest of the seal that ends them, if it is."""

    first: int
    end: int
    seal: str


@dataclass(slots=True)
class Source:
    """What is to be verified, as it was when the verification began."""

    segments: list[Part]
    directory: Path | None
    identity: dict[str, Any] | None = None
    head: Checkpoint | None = None
    head_note: str = ""
    live: bool = False
    key: VerifierKey | None = None
    segment_key: VerifierKey | None = None
    findings: Findings = field(default_factory=Findings)


def small_text(path: Path) -> str:
    """Return the text of a small file. Raises OSError, UnicodeDecodeError."""
    with path.open("rb") as file:
        return file.read(SMALL).decode("utf-8")


@dataclass(slots=True)
class Meter:
    """Counts the bytes read and tells whoever watches."""

    total: int
    report: Progress
    done: int = 0

    def add(self, count: int) -> None:
        """Count `count` more bytes."""
        self.done += count
        self.report(min(self.done, self.total), self.total)


class Inspection:
    """Follows all segments of a source."""

    def __init__(
        self,
        source: Source,
        meter: Meter,
        give_away: Callable[[bytes, bytes], bool] | None,
    ) -> None:
        """`give_away` may take signatures for checking elsewhere (see `Walker`)."""
        self._source = source
        self._findings = source.findings
        self._meter = meter
        self.chain = KeyChain(source.key)
        self.walker = Walker(self.chain, Position(), source.findings, give_away)
        #: The key of the segment being read, when the record that names it was read.
        self._segment_key = source.segment_key
        #: The digest that the next seal must name as the previous one, when known.
        self._previous: str | None = NO_SEAL
        self._gaps: list[Gap] = []

    def run(self) -> None:
        """Follow the segments and judge what they add up to."""
        segments = self._source.segments
        for each in segments:
            last = each is segments[-1]
            self._begin(each.path)
            self._follow(each)
            if last and self._head_is_signed():
                self.walker.finish(self._source.head, self._source.head_note)
            else:
                self.walker.finish()
            self._end(each, last=last)
        self._conclude()

    # -- segments ------------------------------------------------------------------------------

    def _begin(self, path: Path) -> None:
        """Start where the file's name says; over a gap, with what the seal before it signs."""
        start, walker = first_of(path), self.walker
        if start is None:
            start = _first_seq(path)
        if start == walker.expected:
            return
        if self._source.directory is None:
            sentence = f"What is before record {start} was not given."
            self._findings.add("starts_later", walker.expected, sentence, Status.INCOMPLETE)
        found = self._seal_ending_at(path, start)
        self._gaps.append(Gap(walker.expected, start, found[1] if found else ""))
        self._segment_key = self._previous = None
        walker.rules.partial = True
        if found is None:
            walker.resume_blind(start)
        else:
            walker.resume(found[0].position())
            self._previous = found[1]

    def _seal_ending_at(self, path: Path, size: int) -> tuple[Seal, str] | None:
        """Return the good seal that ends where `path` starts, if there is one beside it."""
        for candidate in sorted(path.parent.glob("*.seal")):
            try:
                note = small_text(candidate)
                seal = parse_seal(open_note(note, self.chain.at(size)))
                seal.position()
            except (OSError, UnicodeDecodeError, NoteRefused):
                continue
            if seal.size == size and seal.origin == self.chain.origin:
                return seal, seal_digest(note)
        return None

    def _follow(self, each: Part) -> None:
        """Feed a segment to the walker."""
        with each.path.open("rb") as file:
            before = 0
            for lines, unfinished in read_lines(file, each.size):
                if unfinished and self._is_being_written(each, file.tell()):
                    sentence = "The last line is being written while the log is read."
                    self._findings.note("torn_tail", None, sentence)
                    unfinished = b""  # noqa: PLW2901
                self.walker.feed(lines, unfinished)
                self._meter.add(file.tell() - before)
                before = file.tell()

    def _is_being_written(self, each: Part, offset: int) -> bool:
        """Tell whether a line without its end is one that the program is just writing."""
        last = each is self._source.segments[-1]
        return self._source.live and last and not each.sealed and offset >= each.size

    def _end(self, each: Part, *, last: bool) -> None:
        """Compare a segment with its seal and go on to the keys of the next one."""
        if each.sealed:
            self._previous = self._check_seal(each, last=last)
        elif not last:
            self._previous = None
            if self._source.directory is not None:
                name = seal_path(each.path).name
                sentence = f"The seal {name} is missing."
                self._findings.add("seal_missing", None, sentence, Status.INCOMPLETE)
        if each.sealed or not last:
            self.chain.end_segment(self.walker.expected)
            self._segment_key = vkey_or_none(self.walker.tail.next_seal_key)
            self.walker.rules.segment_key = None

    def _check_seal(self, each: Part, *, last: bool) -> str | None:
        """Return the digest that the next seal must name, when the seal is signed."""
        walker, name = self.walker, seal_path(each.path).name
        first = first_of(each.path) or 0
        try:
            note = small_text(seal_path(each.path))
            seal = parse_seal(open_note(note, self.chain.at(walker.expected)))
            named = vkey_or_none(walker.rules.segment_key) or self._segment_key
            if named is not None:
                open_note(note, [named])
            position = seal.position()
        except (OSError, UnicodeDecodeError, NoteRefused):
            sentence = (
                f"The seal {name} was changed: it is not signed by both the log and its segment."
            )
            self._findings.add("seal_changed", None, sentence)
            return None
        if seal.origin != walker.origin or seal.first != first:
            self._findings.add("seal_changed", None, f"The seal {name} is for another segment.")
            return None
        if seal.sha256 != _file_digest(each.path):
            self._findings.add(
                "segment_changed",
                None,
                f"The file {each.path.name} is not the one that its seal signs, byte for byte.",
            )
        elif not self._fits(seal):
            self._findings.add(
                "seal_mismatch",
                None,
                f"The seal {name} does not fit the records of its segment.",
            )
        if self._previous not in (None, seal.previous):
            sentence = f"The seal {name} does not follow the seal before it."
            self._findings.add("seal_mismatch", None, sentence)
        if not last:
            walker.resume(position)
        return seal_digest(note)

    def _fits(self, seal: Seal) -> bool:
        walker, root = self.walker, self.walker.tail.root()
        if root is None:
            return seal.size == walker.expected
        here = (walker.expected, root, walker.tail.tip, walker.rules.ts)
        fits = here == (seal.size, seal.root, seal.tip, seal.ts)
        return fits and (walker.lost_records or walker.unanswered == list(seal.open_requests))

    # -- the end -------------------------------------------------------------------------------

    def _conclude(self) -> None:
        source, findings, walker = self._source, self._findings, self.walker
        if source.directory is not None:
            self._check_gaps()
            self._check_texts(source.directory)
        self._check_head()
        if walker.tail.unsigned > 0:
            first = walker.tail.signed.size if walker.tail.signed else 0
            sentence = (
                f"The records from {first} to {walker.expected - 1} have no good checkpoint "
                "after them."
            )
            if source.live:
                findings.note("unsigned_tail", first, sentence)
            else:
                findings.add("unsigned_tail", first, sentence, Status.INCOMPLETE)
        if walker.expected == 0:
            findings.add("empty", None, "The log has no records.", Status.INCOMPLETE)
        self._check_answers()

    def _check_gaps(self) -> None:
        for gap in self._gaps:
            span = f"the records {gap.first} to {gap.end - 1}"
            explained = any(
                each.get("size") == gap.end and each.get("seal_sha256") == gap.seal
                for each in self.walker.rules.pruned
            )
            if gap.first == 0 and gap.seal and explained:
                sentence = f"The log was pruned: {span} were removed, as an erase record says."
                self._findings.note("pruned", gap.end, sentence)
                self.chain.carry(rotations_in(self.walker.rules.pruned), gap.end)
            else:
                sentence = f"The segment with {span} is missing."
                self._findings.add("segment_missing", gap.first, sentence, Status.INCOMPLETE)

    def _check_texts(self, directory: Path) -> None:
        for digest, seq in self.walker.rules.texts.items():
            try:
                if not _DIGEST.fullmatch(digest):
                    raise FileNotFoundError
                data = (directory / TEXTS / digest).read_bytes()
            except OSError:
                sentence = f"The text that record {seq} names is not kept beside the log."
                self._findings.add("text_missing", seq, sentence, Status.INCOMPLETE)
                continue
            if hashlib.sha256(data).hexdigest() != digest:
                sentence = f"The text that record {seq} names was changed."
                self._findings.add("text_changed", seq, sentence)

    def _head_is_signed(self) -> bool:
        head = self._source.head
        try:
            return head is not None and bool(
                open_note(self._source.head_note, self.chain.at(head.size))
            )
        except NoteRefused:
            return False

    def _check_head(self) -> None:
        head, findings, walker = self._source.head, self._findings, self.walker
        if head is None:
            return
        if not self._head_is_signed():
            sentence = f"{HEAD} was changed: its signature is not by the log's key."
            findings.add("head_changed", None, sentence)
            return
        if head.size > walker.expected:
            findings.add(
                "records_removed",
                walker.expected,
                f"{HEAD} shows that {head.size} records were published, the log has "
                f"{walker.expected}: the records from {walker.expected} on were removed.",
            )
            return
        seen = walker.tail.watch.seen.get(head.size)
        if seen is not None and seen.root != head.root:
            findings.add(
                "head_mismatch",
                head.size - 1,
                f"{HEAD} signs another history of the first {head.size} records than this log has.",
            )
        elif seen is None and any(gap.first < head.size < gap.end for gap in self._gaps):
            sentence = f"{HEAD} is for {head.size} records, and the last of them are not here."
            findings.note("not_comparable", None, sentence)
        elif seen is None and len(findings) == 0:
            findings.add(
                "head_mismatch",
                head.size - 1,
                f"No checkpoint in the log is for the {head.size} records that {HEAD} signs.",
            )

    def _check_answers(self) -> None:
        unanswered, lost = self.walker.unanswered, self.walker.lost_records
        doubt = " It may be in a record that was lost." if lost else " It may still be running."
        for seq in unanswered[:_LISTED]:
            sentence = f"Request {seq} has no outcome."
            if self._source.live or lost:
                self._findings.note("request_unanswered", seq, f"{sentence}{doubt}")
            else:
                self._findings.add("request_unanswered", seq, sentence, Status.INCOMPLETE)
        if len(unanswered) > _LISTED:
            more = len(unanswered) - _LISTED
            self._findings.note("more_unanswered", None, f"{more} more requests have no outcome.")


def vkey_or_none(text: object) -> VerifierKey | None:
    """Return the key of a vkey text, or None when it is not one."""
    try:
        return parse_vkey(text) if type(text) is str else None
    except NoteRefused:
        return None


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _first_seq(path: Path) -> int:
    with path.open("rb") as file:
        line = file.readline(MAX_RUN)
    try:
        seq = orjson.loads(line)["seq"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0
    return seq if type(seq) is int and seq >= 0 else 0
