"""Verification: given the files and one public key, say whether the log is what was signed.

Reads a log directory, a copy of one, or a single segment file, and changes nothing. Checks the
bytes, numbers, links and times of every record, the root and signature of every checkpoint,
seals, HEAD, and log.json against the first record. Raises nothing on any content; exit codes of
contracts/ledger.md section 2.10. Called by the programs' verify commands.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from shared.ledger.checkpoint import (
    Checkpoint,
    VerifierKey,
    open_note,
    parse_checkpoint,
    parse_checkpoint_line,
    parse_vkey,
)
from shared.ledger.errors import NoteRefused
from shared.ledger.segment import (
    HEAD,
    LOCK,
    LOG_JSON,
    MAX_RUN,
    NO_SEAL,
    SEGMENTS,
    Position,
    Seal,
    first_of,
    list_segments,
    parse_seal,
    read_lines,
    seal_digest,
    seal_path,
)
from shared.ledger.signatures import SignatureHelpers
from shared.ledger.storage import reason
from shared.ledger.verdict import Finding, Findings, Status, Verdict
from shared.ledger.walk import Walker

__all__ = ["Finding", "Status", "Verdict", "verify_path"]

Progress = Callable[[int, int], None]
#: From this size on, helpers check signatures: below, starting them takes longer.
HELPED_BYTES: Final = 8 << 20
#: No file that is not a segment is larger than this.
_SMALL: Final = 1 << 20
#: More than this many unanswered requests are summed up in one finding.
_LISTED: Final = 20


@dataclass(frozen=True, slots=True)
class _Part:
    """A segment file as it was when the verification began; a log may go on being written."""

    path: Path
    size: int
    sealed: bool


def _part(path: Path) -> _Part:
    # First the seal, then the size: once there is a seal, the file does not grow any more.
    sealed = seal_path(path).exists()
    return _Part(path, path.stat().st_size, sealed)


@dataclass(slots=True)
class _Source:
    """What is to be verified, as it was when the verification began."""

    segments: list[_Part]
    directory: Path | None
    identity: dict[str, Any] | None = None
    head: Checkpoint | None = None
    head_note: str = ""
    live: bool = False
    key: VerifierKey | None = None
    findings: Findings = field(default_factory=Findings)


def verify_path(
    path: Path, *, vkey: str | None = None, progress: Progress | None = None
) -> Verdict:
    """Verify the log at `path`: its directory (or a copy), or one segment file.

    The public key is `vkey`, or else the one in log.json, or else the one in the first record.
    `progress` is called with (bytes read, bytes in all). Never raises for any content.
    """
    given = None
    if vkey is not None:
        try:
            given = parse_vkey(vkey)
        except NoteRefused as error:
            return _usage("bad_vkey", str(error))
    try:
        source = _find(path)
        if isinstance(source, Verdict):
            return source
        return _verify(source, given, progress or _no_progress)
    except OSError as error:
        return _usage(
            "unreadable", f"{path} cannot be read ({reason(error)}); check the path and its mode."
        )


def _no_progress(done: int, total: int) -> None:
    del done, total


def _usage(code: str, sentence: str) -> Verdict:
    return Verdict(Status.USAGE, findings=(Finding(code, None, sentence, Status.USAGE),))


# -- what there is ---------------------------------------------------------------------------------


def _find(path: Path) -> _Source | Verdict:
    if path.is_dir():
        return _find_directory(path)
    if not path.exists():
        return _usage("no_such_path", f"{path} does not exist; give the directory of a ledger.")
    if not path.is_file():
        return _usage("not_a_ledger", f"{path} is not a file or directory of a ledger.")
    if not _looks_like_segment(path):
        return _usage("not_a_ledger", f"{path} is not a segment of a ledger.")
    source = _Source([_part(path)], None)
    folder = path.parent.parent
    if first_of(path) is not None and (folder / LOG_JSON).is_file():
        _read_identity(folder, source)
    return source


def _looks_like_segment(path: Path) -> bool:
    if first_of(path) is not None:
        return True
    with path.open("rb") as file:
        start = file.read(MAX_RUN)
    return b'"prev":"' in start or b'{"cp":"' in start


def _find_directory(directory: Path) -> _Source | Verdict:
    if directory.name == SEGMENTS and (directory.parent / LOG_JSON).is_file():
        directory = directory.parent
    known = [directory / name for name in (LOG_JSON, SEGMENTS, HEAD, LOCK)]
    if not any(item.exists() for item in known):
        return _usage(
            "not_a_ledger",
            f"{directory} is not a ledger: it has neither {LOG_JSON} nor {SEGMENTS}.",
        )
    source = _Source([], directory)
    source.live = _is_live(directory)
    _read_identity(directory, source)
    # HEAD before the segments: a log that is being written may only be ahead of it.
    _read_head(directory, source)
    source.segments = [_part(path) for path in list_segments(directory)]
    return source


def _is_live(directory: Path) -> bool:
    """Tell whether a program has the log open."""
    try:
        fd = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _small_text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_SMALL).decode("utf-8")


def _read_identity(directory: Path, source: _Source) -> None:
    try:
        identity = json.loads(_small_text(directory / LOG_JSON))
        if type(identity["origin"]) is not str or type(identity["vkeys"]) is not list:
            raise TypeError
        for vkey in identity["vkeys"]:
            parse_vkey(vkey)
    except FileNotFoundError:
        source.findings.add("log_json_missing", None, f"{LOG_JSON} is missing.", Status.INCOMPLETE)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, NoteRefused):
        source.findings.add("log_json_changed", None, f"{LOG_JSON} cannot be read: it was changed.")
    else:
        source.identity = identity


def _read_head(directory: Path, source: _Source) -> None:
    try:
        source.head_note = _small_text(directory / HEAD)
        source.head = parse_checkpoint(source.head_note[: source.head_note.find("\n\n") + 1])
    except FileNotFoundError:
        source.findings.add(
            "head_missing",
            None,
            f"{HEAD} is missing: it cannot be told whether records were cut off the end.",
            Status.INCOMPLETE,
        )
    except (OSError, UnicodeDecodeError, NoteRefused):
        source.findings.add("head_changed", None, f"{HEAD} cannot be read: it was changed.")


# -- which key -------------------------------------------------------------------------------------


def _choose_key(source: _Source, given: VerifierKey | None) -> VerifierKey | None:
    """Return the key to verify with; compare log.json with the first record on the way."""
    genesis, first_note = _peek(source)
    named = _first_vkey(source.identity)
    recorded = _first_vkey(genesis)
    if source.identity is not None and genesis is not None and genesis != source.identity:
        source.findings.add(
            "log_json_changed",
            0,
            f"{LOG_JSON} and record 0 do not say the same about this log: one of them was changed.",
        )
    if given is not None:
        return given
    candidates = [key for key in (named, recorded) if key is not None]
    for key in candidates:
        with contextlib.suppress(NoteRefused):
            open_note(first_note, [key])
            return key
    return candidates[0] if candidates else None


def _first_vkey(identity: dict[str, Any] | None) -> VerifierKey | None:
    try:
        return parse_vkey(identity["vkeys"][0]) if identity is not None else None
    except (NoteRefused, KeyError, IndexError, TypeError, AttributeError):
        return None


def _peek(source: _Source) -> tuple[dict[str, Any] | None, str]:
    """Return what record 0 says about the log, and the first checkpoint found."""
    genesis, note = None, ""
    if not source.segments:
        return None, ""
    part = source.segments[0]
    with part.path.open("rb") as file:
        for lines, _ in read_lines(file, min(part.size, 4 * MAX_RUN)):
            for line in lines:
                with contextlib.suppress(ValueError, RecursionError, NoteRefused):
                    value = orjson.loads(line)
                    if type(value) is not dict:
                        continue
                    if value.get("type") == "genesis" and type(value.get("ext")) is dict:
                        genesis = genesis or value["ext"]
                    elif "cp" in value and not note:
                        note = parse_checkpoint_line(line)
    return genesis, note


# -- the walk --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Meter:
    """Counts the bytes read and tells whoever watches."""

    total: int
    report: Progress
    done: int = 0

    def add(self, count: int) -> None:
        self.done += count
        self.report(min(self.done, self.total), self.total)


def _verify(source: _Source, given: VerifierKey | None, progress: Progress) -> Verdict:
    findings = source.findings
    if not source.segments:
        findings.add("empty", None, "The log has no records.", Status.INCOMPLETE)
        return _verdict(source, None)
    key = source.key = _choose_key(source, given)
    if key is None:
        findings.add(
            "key_missing",
            None,
            "There is no public key to verify with: neither log.json nor record 0 has one; "
            "give the log's vkey.",
            Status.INCOMPLETE,
        )
    _check_head_signature(source)
    total = sum(part.size for part in source.segments)
    if key is not None and total >= HELPED_BYTES:
        before = findings.copy()
        with contextlib.suppress(OSError), SignatureHelpers(key) as helpers:
            walker = _walk(source, _Meter(total, progress), helpers.offer)
            if helpers.all_good():
                return _verdict(source, walker)
        source.findings = before
    return _verdict(source, _walk(source, _Meter(total, progress), None))


def _walk(
    source: _Source, meter: _Meter, give_away: Callable[[bytes, bytes], bool] | None
) -> Walker:
    """Follow all segments and judge what they add up to."""
    walker = Walker(source.key, Position(), source.findings, give_away)
    if source.head is not None:
        walker.watch.add(source.head.size)
    previous = NO_SEAL
    for part in source.segments:
        last = part is source.segments[-1]
        previous = _begin_segment(source, walker, part.path, previous)
        _walk_segment(part, walker, meter)
        walker.finish(*((source.head, source.head_note) if last else ()))
        previous = _end_segment(source, walker, part, previous, last=last)
    _conclude(source, walker)
    return walker


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _begin_segment(source: _Source, walker: Walker, path: Path, previous: str) -> str:
    """Start where the file's name says; over a gap, with what the seal before it signs. Return
    the digest that the next seal must name as the previous one."""
    start = first_of(path)
    if start is None:
        start = _first_seq(path)
    if start == walker.expected:
        return previous
    if source.directory is None:
        code, sentence = "starts_later", f"What is before record {start} was not given."
    else:
        code = "segment_missing"
        sentence = f"The segment with the records {walker.expected} to {start - 1} is missing."
    source.findings.add(code, walker.expected, sentence, Status.INCOMPLETE)
    found = _seal_ending_at(path, start, source.key)
    if found is None:
        walker.resume_blind(start)
        return NO_SEAL
    seal, digest = found
    walker.resume(seal.position())
    walker.lost_records = True
    return digest


def _first_seq(path: Path) -> int:
    with path.open("rb") as file:
        line = file.readline(MAX_RUN)
    try:
        seq = orjson.loads(line)["seq"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0
    return seq if type(seq) is int and seq >= 0 else 0


def _seal_ending_at(path: Path, size: int, key: VerifierKey | None) -> tuple[Seal, str] | None:
    """Return the good seal that ends where `path` starts, if there is one beside it."""
    if key is None:
        return None
    for candidate in sorted(path.parent.glob("*.seal")):
        try:
            note = _small_text(candidate)
            seal = parse_seal(open_note(note, [key]))
            seal.position()
        except (OSError, UnicodeDecodeError, NoteRefused):
            continue
        if seal.size == size and seal.origin == key.name:
            return seal, seal_digest(note)
    return None


def _walk_segment(part: _Part, walker: Walker, meter: _Meter) -> None:
    with part.path.open("rb") as file:
        before = 0
        for lines, unfinished in read_lines(file, part.size):
            walker.feed(lines, unfinished)
            meter.add(file.tell() - before)
            before = file.tell()


def _end_segment(source: _Source, walker: Walker, part: _Part, previous: str, *, last: bool) -> str:
    """Compare a segment with its seal; return the digest that the next seal must name."""
    findings, path, sealed = source.findings, part.path, seal_path(part.path)
    if not part.sealed:
        if not last and source.directory is not None:
            findings.add(
                "seal_missing", None, f"The seal {sealed.name} is missing.", Status.INCOMPLETE
            )
        return NO_SEAL
    try:
        note = _small_text(sealed)
        seal = parse_seal(open_note(note, [source.key] if source.key else []))
        position = seal.position()
    except (OSError, UnicodeDecodeError, NoteRefused):
        findings.add(
            "seal_changed",
            None,
            f"The seal {sealed.name} was changed: it is not what the log signed.",
        )
        return NO_SEAL
    if seal.origin != walker.origin or seal.first != (first_of(path) or 0):
        findings.add("seal_changed", None, f"The seal {sealed.name} is for another segment.")
    elif seal.sha256 != _file_digest(path):
        findings.add(
            "segment_changed",
            None,
            f"The file {path.name} is not the one that its seal signs, byte for byte.",
        )
    elif seal.size != walker.expected or seal.root != walker.root():
        findings.add(
            "seal_mismatch",
            None,
            f"The seal {sealed.name} does not fit the records of its segment.",
        )
    if previous not in (NO_SEAL, seal.previous):
        findings.add(
            "seal_mismatch", None, f"The seal {sealed.name} does not follow the seal before it."
        )
    if not last:
        walker.resume(position)
    return seal_digest(note)


# -- the end ---------------------------------------------------------------------------------------


def _check_head_signature(source: _Source) -> None:
    if source.head is None or source.key is None:
        return
    try:
        open_note(source.head_note, [source.key])
    except NoteRefused:
        source.head = None
        source.findings.add(
            "head_changed", None, f"{HEAD} was changed: its signature is not by the log's key."
        )


def _conclude(source: _Source, walker: Walker) -> None:
    findings = source.findings
    _check_head(source, walker)
    if walker.unsigned > 0:
        first = walker.signed.size if walker.signed else 0
        sentence = (
            f"The records from {first} to {walker.expected - 1} have no good checkpoint after them."
        )
        if source.live:
            findings.note("unsigned_tail", first, sentence)
        else:
            findings.add("unsigned_tail", first, sentence, Status.INCOMPLETE)
    if walker.expected == 0:
        findings.add("empty", None, "The log has no records.", Status.INCOMPLETE)
    _check_answers(source, walker)


def _check_head(source: _Source, walker: Walker) -> None:
    head, findings = source.head, source.findings
    if head is None:
        return
    if head.size > walker.expected:
        findings.add(
            "records_removed",
            walker.expected,
            f"{HEAD} shows that {head.size} records were published, the log has "
            f"{walker.expected}: the records from {walker.expected} on were removed.",
        )
        return
    root = walker.roots.get(head.size)
    if root is None and head.size == walker.expected:
        root = walker.root()
    if root is not None and root != head.root:
        findings.add(
            "head_mismatch",
            head.size - 1,
            f"{HEAD} signs another history of the first {head.size} records than this log has.",
        )
    elif root is None and len(findings) == 0:
        findings.add(
            "head_mismatch",
            head.size - 1,
            f"No checkpoint in the log is for the {head.size} records that {HEAD} signs.",
        )


def _check_answers(source: _Source, walker: Walker) -> None:
    unanswered = walker.unanswered
    doubt = " It may be in a record that was lost." if walker.lost_records else ""
    doubt = doubt or " It may still be running."
    for seq in unanswered[:_LISTED]:
        sentence = f"Request {seq} has no outcome."
        if source.live or walker.lost_records:
            source.findings.note("request_unanswered", seq, f"{sentence}{doubt}")
        else:
            source.findings.add("request_unanswered", seq, sentence, Status.INCOMPLETE)
    if len(unanswered) > _LISTED:
        source.findings.note(
            "more_unanswered", None, f"{len(unanswered) - _LISTED} more requests have no outcome."
        )


def _verdict(source: _Source, walker: Walker | None) -> Verdict:
    findings = source.findings
    root = walker.root() if walker else None
    return Verdict(
        status=findings.status(),
        records=walker.records if walker else 0,
        findings=tuple(sorted(findings, key=_by_record)),
        notes=tuple(findings.notes),
        more=findings.more,
        origin=walker.origin if walker else "",
        root=root.hex() if root else "",
        checkpoint=walker.note if walker else "",
        vkey=source.key.vkey() if source.key else "",
    )


def _by_record(finding: Finding) -> int:
    """The log as a whole first, then record by record."""
    return -1 if finding.seq is None else finding.seq
