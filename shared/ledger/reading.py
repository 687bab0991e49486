"""Reading a log beside its running writer, without its lock and without keeping it in memory.

Owns the way from the files of a log to the records somebody asked for. Invariants: only committed
records are shown (those with a checkpoint line behind them), whole blocks of lines are thrown
away before one is parsed, sealed segments that end before the time asked for are not opened, and
a log whose beginning was pruned reads like any other. Verifies nothing: that is `verify`'s. Called
by `stats`, `shared.exports` and `sphragis log`.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from shared.ledger.checkpoint import is_checkpoint_line, parse_checkpoint_line
from shared.ledger.errors import LedgerCorrupt, LedgerError, NoteRefused
from shared.ledger.merkle import leaf_hash
from shared.ledger.segment import LOG_JSON, first_of, list_segments, read_lines, seal_path
from shared.ledger.selecting import Filter, Selector

#: Lines in a row without a checkpoint before the file counts as damaged: a batch has 1,024.
MAX_UNCOMMITTED: Final = 1 << 16
#: A clock may be set back inside a segment, so its last time is not quite its latest.
CLOCK_SLACK_US: Final = 3600 * 1_000_000
#: Seconds between two looks at a log that is followed: 5 `listdir` and `stat` a second.
POLL_SECONDS: Final = 0.2
#: How much of the end of a file is read first when only the last records are wanted.
_TAIL_BYTES: Final = 1 << 20
_SEAL_TS: Final = re.compile(r"^ts ([0-9]{1,16})$", re.M)
_MAX_SEAL: Final = 1 << 24


class NotFound(LedgerError):
    """There is no such log, or no such record in it."""


@dataclass(frozen=True, slots=True)
class Item:
    """One record with the exact bytes it was written in."""

    record: dict[str, Any]
    line: bytes

    @property
    def seq(self) -> int:
        """The record's number."""
        return int(self.record["seq"])

    @property
    def leaf(self) -> str:
        """The record's leaf in the tree, hex."""
        return leaf_hash(self.line).hex()


@dataclass(frozen=True, slots=True)
class Place:
    """Where to go on reading: a byte offset in a segment, behind a checkpoint line."""

    segment: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """Committed lines in order, checkpoint lines among them; the last one is a checkpoint."""

    lines: Sequence[bytes]
    after: Place


def check_log(directory: Path) -> Path:
    """Return `directory` if it holds a log. Raises NotFound."""
    if (directory / LOG_JSON).is_file() or list_segments(directory):
        return directory
    raise NotFound(f"There is no ledger at {directory}; name the directory that holds log.json.")


def blocks(
    directory: Path, start: Place | None = None, *, wanted: Filter | None = None
) -> Iterator[Block]:
    """Yield the committed lines from `start` on, about a mebibyte at a time.

    Segments that cannot hold anything `wanted` are passed over. Raises LedgerCorrupt when
    checkpoints are missing where they are due, LedgerError when a file cannot be read.
    """
    start = start or Place()
    for path in _segments(directory, start, wanted or Filter()):
        first = first_of(path) or 0
        offset = start.offset if first == start.segment else 0
        try:
            with path.open("rb") as file:
                file.seek(offset)
                yield from _blocks_of(file, os.fstat(file.fileno()).st_size, first)
        except FileNotFoundError:
            continue  # pruned since the directory was listed
        except OSError as error:
            raise LedgerError(
                f"{path} cannot be read ({error.strerror}); check its owner."
            ) from error


def _segments(directory: Path, start: Place, wanted: Filter) -> Iterator[Path]:
    """Yield the segments in order that may hold what is wanted."""
    paths = list_segments(directory)
    before: int | None = None  # the last time of the segment before
    for index, path in enumerate(paths):
        first = first_of(path) or 0
        following = first_of(paths[index + 1]) if index + 1 < len(paths) else None
        if wanted.last is not None and first > wanted.last:
            return
        if (
            before is not None
            and wanted.until is not None
            and before - CLOCK_SLACK_US > wanted.until
        ):
            return
        is_timed = wanted.since or wanted.until is not None
        before = _last_time(path) if is_timed else None
        if first < start.segment or (following is not None and following <= wanted.first):
            continue
        if before is not None and before + CLOCK_SLACK_US < wanted.since:
            continue
        yield path


def _last_time(path: Path) -> int | None:
    """Return when the last record of a sealed segment was written, from its seal."""
    try:
        with seal_path(path).open("rb") as file:
            text = file.read(_MAX_SEAL).decode("utf-8", "replace")
    except OSError:
        return None
    match = _SEAL_TS.search(text)
    return int(match[1]) if match else None


def _blocks_of(file: BinaryIO, end: int, first: int) -> Iterator[Block]:
    """Yield the blocks of one segment. Bytes behind the last checkpoint are not there yet."""
    offset, waiting = file.tell(), list[bytes]()
    for lines, _ in read_lines(file, end):
        waiting += lines
        cut = len(waiting)
        while cut and not is_checkpoint_line(waiting[cut - 1]):
            cut -= 1
        if cut:
            ready, waiting = waiting[:cut], waiting[cut:]
            offset += sum(map(len, ready)) + cut
            yield Block(ready, Place(first, offset))
        elif len(waiting) > MAX_UNCOMMITTED:
            raise _damaged(file.name)


def _damaged(name: object) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"{name} was damaged after it was written; run `sphragis verify` on the ledger to see "
        "which record, and restore it from a backup."
    )


def items_of(block: Block, selector: Selector) -> Iterator[Item]:
    """Yield the wanted records of a block. Raises LedgerCorrupt for a line that is none."""
    for line in selector.candidates(block.lines):
        if is_checkpoint_line(line):
            continue
        item = parse_item(line, block.after.segment)
        if selector.selects(item.record):
            yield item


def parse_item(line: bytes, segment: int) -> Item:
    """Return the record of a line. Raises LedgerCorrupt; `segment` names the file."""
    try:
        record = orjson.loads(line)
        if type(record["seq"]) is not int or type(record["ts"]) is not int:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(f"The segment {segment:020d}.jsonl") from error
    return Item(record, line)


def read(directory: Path, wanted: Filter, start: Place | None = None) -> Iterator[Item]:
    """Yield the wanted records in order. Holds one block in memory.

    Raises LedgerCorrupt or LedgerError.
    """
    selector = Selector(wanted)
    # An outcome is found through its request, which may be older than the time asked for.
    for block in blocks(directory, start, wanted=wanted):
        yield from items_of(block, selector)


def tail(directory: Path, wanted: Filter, count: int) -> tuple[list[Item], Place]:
    """Return the last `count` wanted records, and where to go on reading behind them.

    Reads from the end where it can: a filter that follows requests to their outcomes needs the
    whole range. Raises LedgerCorrupt or LedgerError.
    """
    end = Place()
    if wanted.names_owner:
        found: deque[Item] = deque(maxlen=count)
        selector = Selector(wanted)
        for block in blocks(directory, wanted=wanted):
            found.extend(items_of(block, selector))
            end = max(end, block.after, key=_order)
        return list(found), _end_of(directory, end)
    rest: list[Item] = []
    for path in reversed(list(_segments(directory, Place(), wanted))):
        items, after = _tail_of(path, wanted, count - len(rest))
        rest = items + rest
        end = max(end, after, key=_order)
        if len(rest) >= count:
            break
    return rest[-count:] if count else [], _end_of(directory, end)


def _order(place: Place) -> tuple[int, int]:
    return place.segment, place.offset


def _end_of(directory: Path, end: Place) -> Place:
    """Return `end`, or where the newest segment begins when nothing was read."""
    segments = list_segments(directory)
    newest = first_of(segments[-1]) if segments else None
    return Place(newest, 0) if end == Place() and newest else end


def _tail_of(path: Path, wanted: Filter, count: int) -> tuple[list[Item], Place]:
    """Read back from the end of one segment, further each time, until there are enough."""
    first, window = first_of(path) or 0, _TAIL_BYTES
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            while True:
                begin = max(0, size - window)
                file.seek(begin)
                if begin:
                    file.readline()  # the rest of a line that began earlier
                selector, found, after = (
                    Selector(wanted),
                    deque[Item](maxlen=count),
                    Place(first, 0),
                )
                for block in _blocks_of(file, size, first):
                    found.extend(items_of(block, selector))
                    after = block.after
                if begin == 0 or (len(found) >= count and after.offset):
                    return list(found), after
                window *= 8
    except OSError as error:
        raise LedgerError(f"{path} cannot be read ({error.strerror}); check its owner.") from error


def follow(
    directory: Path,
    wanted: Filter,
    start: Place,
    *,
    pause: Callable[[float], object] = time.sleep,
) -> Iterator[Item | None]:
    """Yield the wanted records as they are committed, across rotation, for ever.

    None means that all there was is read; `pause` is called after it. Raises LedgerCorrupt or
    LedgerError.
    """
    selector, place = Selector(wanted), start
    while True:
        # The directory is listed before a file is read: a segment with another behind it is whole.
        for block in blocks(directory, place):
            yield from items_of(block, selector)
            place = block.after
        yield None
        pause(POLL_SECONDS)


# -- one record ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """One record and the checkpoint that was written with it (a signed note)."""

    item: Item
    checkpoint: str
    segment: Path
    is_sealed: bool
    after: Place


def find(directory: Path, seq: int) -> Found:
    """Return record `seq`. Raises NotFound, LedgerCorrupt or LedgerError."""
    needle = b'"seq":%d,' % seq
    for block in blocks(directory, wanted=Filter(first=seq, last=seq)):
        for index, line in enumerate(block.lines):
            if needle not in line or is_checkpoint_line(line):
                continue
            item = parse_item(line, block.after.segment)
            if item.seq == seq:
                path = directory / "segments" / f"{block.after.segment:020d}.jsonl"
                note = _note_behind(block.lines, index)
                return Found(item, note, path, seal_path(path).exists(), block.after)
    raise _not_there(directory, seq)


def _note_behind(lines: Sequence[bytes], index: int) -> str:
    for line in islice(lines, index + 1, None):
        if is_checkpoint_line(line):
            try:
                return parse_checkpoint_line(line)
            except NoteRefused:
                return ""
    return ""


def _not_there(directory: Path, seq: int) -> NotFound:
    segments = list_segments(directory)
    begin = (first_of(segments[0]) or 0) if segments else 0
    if seq < begin:
        return NotFound(
            f"Record {seq} was pruned: the log keeps the records from {begin} on; a backup or "
            "an export may still have it."
        )
    return NotFound(f"There is no record {seq} in {directory}; `sphragis log -n 1` shows the last.")


def outcome_of(directory: Path, request: Found) -> Item | None:
    """Return the outcome of a request, or None while there is none."""
    needle = b'"ref":%d,' % request.item.seq
    for block in blocks(directory, Place(request.after.segment, 0)):
        for line in block.lines:
            if needle in line and b'"type":"outcome"' in line:
                item = parse_item(line, block.after.segment)
                if item.record.get("ref") == request.item.seq:
                    return item
    return None


def newest(directory: Path) -> Item | None:
    """Return the last committed record, or None for an empty log."""
    items, _ = tail(directory, Filter(), 1)
    return items[-1] if items else None
