"""Finding records in the segment files of a log without reading all of them.

Reads only, takes no lock and needs no index: a number is found by halving (lines stand in the
order of their numbers), a word by a search over the mapped bytes (a gigabyte a second, where
parsing does 0.1). Works beside a running writer: what a file holds when it is first touched is
what is seen. Nothing found here is believed; callers verify it against a signed root. Called by
`tiles`, `proofs`, `bundle`, `run_receipt`.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import orjson

from shared.ledger.checkpoint import is_checkpoint_line, parse_checkpoint_line
from shared.ledger.errors import LedgerCorrupt, LedgerError, NoteRefused
from shared.ledger.segment import HEAD, first_of, list_segments
from shared.ledger.storage import reason

_CP: Final = b'\n{"cp":"'
_REF: Final = rb'"ref":([0-9]{1,16})[,}]'
#: Bytes read at first when lines are wanted, mostly one, and at most, when it is many.
_BLOCK: Final = 1 << 12
_MAX_BLOCK: Final = 1 << 20


def _every(match: re.Match[bytes]) -> bool:
    return True


class RecordGone(LedgerError):
    """A record that this log does not hold: never written, pruned, or lost."""


class Archive:
    """The segments of one log. Use as a context manager: it maps files."""

    def __init__(self, directory: Path) -> None:
        """Look at the log in `directory`. Raises LedgerError when there is none to read."""
        self.directory = directory
        self._maps: dict[Path, mmap.mmap | bytes] = {}
        try:
            self._segments = [(first_of(path) or 0, path) for path in list_segments(directory)]
        except OSError as error:
            raise self._unreadable(error) from error
        if not self._segments:
            raise LedgerError(f"{directory} holds no records; give the directory of a ledger.")

    def __enter__(self) -> Self:
        """Return the archive itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the files go."""
        for data in self._maps.values():
            if isinstance(data, mmap.mmap):
                data.close()
        self._maps.clear()

    @property
    def first(self) -> int:
        """The number of the first record that is kept; more than 0 in a pruned log."""
        return self._segments[0][0]

    def line(self, seq: int) -> bytes:
        """Return the exact line of record `seq`. Raises RecordGone when there is none."""
        for line in self.lines(seq, seq + 1):
            return line
        raise RecordGone(f"{self.directory} holds no record {seq}; its first is {self.first}.")

    def lines(self, first: int, end: int) -> Iterator[bytes]:
        """Yield the lines of the records `first` to `end - 1` in order, as far as there are any.

        Raises RecordGone when `first` is before the first record kept, LedgerCorrupt when a
        number is out of order.
        """
        if first < self.first:
            raise RecordGone(
                f"Record {first} is not kept any more in {self.directory}: the log was pruned up "
                f"to record {self.first}."
            )
        expected = first
        for index, (start, path) in enumerate(self._segments):
            following = self._segments[index + 1][0] if index + 1 < len(self._segments) else end
            if following <= expected or start >= end:
                continue
            data = self._data(path)
            for line in _lines_from(data, _offset_of(data, expected)):
                if expected >= end:
                    return
                if b'"seq":%d,' % expected not in line:
                    raise LedgerCorrupt(
                        f"Record {expected} is not where it belongs in {path}; run `sphragis "
                        "verify` on the ledger."
                    )
                yield line
                expected += 1

    def search(
        self,
        pattern: bytes,
        *,
        start: int = 0,
        end: int | None = None,
        wanted: Callable[[re.Match[bytes]], bool] = _every,
    ) -> Iterator[tuple[int, dict[str, Any], bytes]]:
        """Yield (number, record, line) of each record from `start` on, below `end`, whose bytes
        match the regular expression `pattern` in a place that is `wanted`. What the match means
        is for the caller to judge."""
        sought = re.compile(pattern)
        for index, (_, path) in enumerate(self._segments):
            if index + 1 < len(self._segments) and self._segments[index + 1][0] <= start:
                continue
            data = self._data(path)
            at = _offset_of(data, start)
            while (match := sought.search(data, at)) is not None:
                if not wanted(match):
                    at = match.end()
                    continue
                line, at = _line_around(data, match.start())
                record = _record(line)
                if record is None or record["seq"] < start:
                    continue
                if end is not None and record["seq"] >= end:
                    return
                yield record["seq"], record, line

    def newest_note(self) -> str:
        """Return the newest checkpoint: the last whole checkpoint line, or else HEAD.

        Raises LedgerError when there is none.
        """
        for _, path in reversed(self._segments):
            data = self._data(path)
            at = len(data)
            while (at := data.rfind(_CP, 0, at)) >= 0:
                stop = data.find(b"\n", at + 1)
                if stop < 0:
                    continue
                try:
                    return parse_checkpoint_line(bytes(data[at + 1 : stop]))
                except NoteRefused:
                    continue
        try:
            return (self.directory / HEAD).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise LedgerError(
                f"{self.directory} has no checkpoint yet, so nothing can be proved; try again "
                "once a record was written."
            ) from error

    def _data(self, path: Path) -> mmap.mmap | bytes:
        data = self._maps.get(path)
        if data is None:
            try:
                with path.open("rb") as file:
                    empty = path.stat().st_size == 0
                    data = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError) as error:
                raise self._unreadable(error) from error
            self._maps[path] = data
        return data

    def _unreadable(self, error: BaseException) -> LedgerError:
        return LedgerError(
            f"The ledger {self.directory} cannot be read ({reason(error)}); check its owner and "
            "mode."
        )


def outcomes_of(
    archive: Archive, requests: Collection[int], end: int
) -> Iterator[tuple[int, dict[str, Any], bytes]]:
    """Yield (number, record, line) of the first outcome of each of `requests`, below `end`."""
    left = set(requests)
    if not left:
        return
    found = archive.search(
        _REF, start=min(left) + 1, end=end, wanted=lambda match: int(match[1]) in left
    )
    for seq, record, line in found:
        ref = record.get("ref")
        if record.get("type") == "outcome" and type(ref) is int and ref in left:
            left.discard(ref)
            yield seq, record, line
            if not left:
                return


def _record(line: bytes) -> dict[str, Any] | None:
    if is_checkpoint_line(line):
        return None
    try:
        record = orjson.loads(line)
        return record if type(record) is dict and type(record["seq"]) is int else None
    except (ValueError, KeyError, RecursionError):
        return None


def _line_around(data: mmap.mmap | bytes, at: int) -> tuple[bytes, int]:
    """Return the line that holds offset `at`, and where the next one begins."""
    begin = data.rfind(b"\n", 0, at) + 1
    stop = data.find(b"\n", at)
    stop = len(data) if stop < 0 else stop
    return bytes(data[begin:stop]), stop + 1


def _lines_from(data: mmap.mmap | bytes, at: int) -> Iterator[bytes]:
    """Yield the whole record lines from offset `at` on, a growing block at a time."""
    span = _BLOCK
    while at < len(data):
        stop = data.rfind(b"\n", at, at + span)
        if stop < 0 and at + span >= len(data):
            return
        for line in data[at : max(stop, at)].split(b"\n"):
            if line and not is_checkpoint_line(line):
                yield line
        at, span = max(stop + 1, at), min(2 * span, _MAX_BLOCK) if stop >= 0 else 2 * span


def _offset_of(data: mmap.mmap | bytes, seq: int) -> int:
    """Return where the first record with a number of at least `seq` begins, or the end."""
    low, high = 0, len(data)
    while low < high:
        middle = (low + high) // 2
        begin, found = _first_from(data, middle)
        if found is None or found >= seq:
            high = middle
        else:
            low = begin + 1
    return _first_from(data, low)[0]


def _first_from(data: mmap.mmap | bytes, at: int) -> tuple[int, int | None]:
    """Return the first record line that begins at offset `at` or later, and its number."""
    begin = data.find(b"\n", at - 1) + 1 if at > 0 else 0
    while begin < len(data) and (begin > 0 or at == 0):
        line, following = _line_around(data, begin)
        record = _record(line)
        if record is not None:
            return begin, record["seq"]
        begin = following
    return len(data), None
