"""Making an export: written aside first, recorded, and only then let go.

Owns the order that makes an export fail closed. Invariant: nothing reaches its destination before
`record` returned, so a copy of the log that the log does not know of cannot come from here; what
was recorded is exactly what is delivered, because both are the same spooled bytes. Memory is
constant. Called by `gateway.exporting`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from shared.exports.registry import ExportRefused, LogFacts, Selection, find_format
from shared.ledger.selecting import Filter
from shared.whole_file import takes_place, whole_file

_CHUNK: Final = 1 << 20
#: Pieces are gathered to this size before a write: formats yield one record at a time.
_GATHER: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Source:
    """Which records of which log, in which format."""

    format: str
    log: LogFacts
    directory: Path
    wanted: Filter


@dataclass(frozen=True, slots=True)
class Written:
    """What an export holds: `count` records from `first` to `last`, `bytes` long."""

    format: str
    count: int
    first: int | None
    last: int | None
    bytes: int
    sha256: str

    def as_record(self, source: Source, to: str) -> dict[str, Any]:
        """Return what the `export` record says of it: which log, what was asked for, where to."""
        ext: dict[str, Any] = {
            "bytes": self.bytes,
            "count": self.count,
            "format": self.format,
            "origin": source.log.origin,
            "sha256": self.sha256,
            "to": to,
        }
        asked = source.wanted.as_record()
        if asked:
            ext["filter"] = asked
        if self.first is not None and self.last is not None:
            ext |= {"first": self.first, "last": self.last}
        return ext


#: Records an export durably and returns the number of its record, or raises.
Recorder = Callable[[Written], int]
#: Delivers the spooled bytes.
Deliver = Callable[[IO[bytes]], None]


def spool(source: Source, file: IO[bytes]) -> Written:
    """Write an export to `file`; return what it holds.

    Raises ExportRefused for an unknown format, LedgerError for a log that cannot be read, OSError
    for a disk that refuses.
    """
    selection = Selection(source.directory, source.wanted)
    digest, size = hashlib.sha256(), 0
    for piece in _gathered(find_format(source.format).render(source.log, selection)):
        file.write(piece)
        digest.update(piece)
        size += len(piece)
    file.flush()
    return Written(
        source.format, selection.count, selection.first, selection.last, size, digest.hexdigest()
    )


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    waiting, size = list[bytes](), 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _GATHER:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def to_file(source: Source, target: Path, record: Recorder) -> tuple[Written, int]:
    """Write an export to `target`, whole or not at all; return it and the record's number.

    Raises what `spool` and `record` raise, and ExportRefused when the file cannot be written.
    """
    try:
        if not takes_place(target):
            return _to_device(source, target, record)
        with whole_file(target) as file:
            written = spool(source, file)
            os.fsync(file.fileno())
            number = record(written)
    except OSError as error:
        raise _unwritable(target, error) from error
    return written, number


def _to_device(source: Source, target: Path, record: Recorder) -> tuple[Written, int]:
    def deliver(file: IO[bytes]) -> None:
        with target.open("wb") as stream:
            copy_to(stream)(file)

    return to_stream(source, deliver, record)


def to_stream(source: Source, deliver: Deliver, record: Recorder) -> tuple[Written, int]:
    """Spool an export where nobody else can read it, record it, deliver it.

    Raises what `spool`, `record` and `deliver` raise.
    """
    with tempfile.TemporaryFile() as file:
        try:
            written = spool(source, file)
        except OSError as error:
            raise _unwritable(Path(tempfile.gettempdir()), error) from error
        number = record(written)
        file.seek(0)
        deliver(file)
    return written, number


def copy_to(stream: IO[bytes]) -> Deliver:
    """Return a delivery to an open stream, such as standard output."""

    def deliver(file: IO[bytes]) -> None:
        shutil.copyfileobj(file, stream, _CHUNK)
        stream.flush()

    return deliver


def to_directory(
    name: str,
    target: Path,
    make: Callable[[Path], int],
    record: Recorder,
) -> tuple[Written, int]:
    """Let `make` fill a directory aside (it returns the number of records), record it under the
    digest of its listing, and give it its name. Raises ExportRefused when `target` is there."""
    if target.exists():
        raise ExportRefused(f"{target} is there already; name a new directory.")
    try:
        aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            count = make(aside)
            listing, size = _listing(aside)
            last = count - 1 if count else None
            digest = hashlib.sha256(listing).hexdigest()
            written = Written(name, count, 0 if count else None, last, size, digest)
            number = record(written)
            os.replace(aside, target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise _unwritable(target, error) from error
    return written, number


def _listing(folder: Path) -> tuple[bytes, int]:
    """Return `sha256  path` of each file, sorted, as `sha256sum` prints it, and all sizes."""
    lines, size = [], 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        lines.append(f"{digest}  {path.relative_to(folder).as_posix()}\n")
        size += path.stat().st_size
    return "".join(lines).encode(), size


def _unwritable(target: Path, error: OSError) -> ExportRefused:
    return ExportRefused(
        f"The export cannot be written to {target} ({error.strerror}); check the directory and "
        "the disk's free space."
    )


#: What an `export` record may say, and the type of each.
_SAID: Final[Mapping[str, type]] = {
    "bytes": int,
    "count": int,
    "filter": dict,
    "first": int,
    "format": str,
    "last": int,
    "origin": str,
    "sha256": str,
    "to": str,
}
_NEEDED: Final = frozenset({"bytes", "count", "format", "origin", "sha256", "to"})
_MAX_TEXT: Final = 1024


def check_said(ext: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a program asks to have recorded about an export, if it is that and no more.

    Raises ExportRefused. A `filter` is bounded by the size of a record.
    """
    said = {name: ext[name] for name in _SAID if name in ext}
    fits = all(
        type(value) is _SAID[name] and (type(value) is not str or len(value) <= _MAX_TEXT)
        for name, value in said.items()
    )
    if not fits or not said.keys() >= _NEEDED:
        raise ExportRefused(
            "An export is recorded with bytes, count, format, origin, sha256 and to; use "
            "`sphragis export`."
        )
    return said


def record_fields(ext: Mapping[str, Any], by: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an `export` record: what (checked) and who."""
    said = check_said(ext)
    return {
        "action": {"kind": "export", "name": said["format"], "target": said["to"]},
        "ext": {**said, **by},
    }
