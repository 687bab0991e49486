"""Lines of a log that cannot be read: what they look like, and which line break made them so.

Owns the recognition of a line break that was added or removed, since the bytes around it are still
those that were signed. Invariant: lines are called mended only when what comes out is the very
record that is expected next, or a checkpoint. Pure. Called by `walk`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from shared.ledger.checkpoint import is_checkpoint_line, parse_checkpoint_line
from shared.ledger.errors import NoteRefused
from shared.ledger.record import LineRefused, parse

_GLUED: Final = re.compile(rb'\}.?(?=\{")', re.DOTALL)
#: Places in one line at which a line break may have been; more of them would say nothing more.
_MAX_SEAMS: Final = 64
_PREV: Final = re.compile(rb'"prev":"([0-9a-f]{64})"')
_LIKE_CHECKPOINT: Final = re.compile(
    rb'^.?\{?"?cp"|^\{"..":"|\xe2\x80\x94 [^ ]+ [A-Za-z0-9+/]{80}', re.S
)


@dataclass(frozen=True, slots=True)
class Mended:
    """The lines as they were, and the finding that says what was done to them."""

    lines: tuple[bytes, ...]
    code: str
    seq: int
    sentence: str


def mend(junk: Sequence[bytes], expected: int) -> Mended | None:
    """Return what unreadable lines were, if a line break is all that is wrong with them;
    `expected` is the number of the record that comes next."""
    joined = b"".join(junk)
    if not joined or (len(junk) > 1 and _fits(joined, expected)):
        return _added(joined, expected)
    if len(junk) != 1:
        return None
    for match in itertools.islice(_GLUED.finditer(joined), _MAX_SEAMS):
        left, right = joined[: match.start() + 1], joined[match.end() :]
        if _fits(left, expected) and is_readable(right):
            sentence = f"The line break at record {expected} was changed or removed."
            return Mended((left, right), "line_break_removed", expected, sentence)
    return None


def _added(joined: bytes, expected: int) -> Mended:
    if is_checkpoint_line(joined):
        seq = max(expected - 1, 0)
        sentence = f"A line break was added in the checkpoint after record {seq}."
    else:
        seq, sentence = expected, f"A line break was added at record {expected}."
    return Mended((joined,) if joined else (), "line_break_added", seq, sentence)


def _fits(body: bytes, expected: int) -> bool:
    """Tell whether a line is a checkpoint or the very record that is expected next."""
    if is_checkpoint_line(body):
        return is_readable(body)
    try:
        return bool(parse(body)["seq"] == expected)
    except LineRefused:
        return False


def is_readable(body: bytes) -> bool:
    """Tell whether a line is a record or a checkpoint."""
    try:
        if is_checkpoint_line(body):
            parse_checkpoint_line(body)
        else:
            parse(body)
    except (LineRefused, NoteRefused):
        return False
    return True


def looks_like_checkpoint(body: bytes) -> bool:
    """Tell whether an unreadable line was rather a checkpoint than a record."""
    return _LIKE_CHECKPOINT.search(body) is not None


def named_leaf(body: bytes) -> str | None:
    """Return the leaf that an unreadable record names for the one before it, if it still does."""
    match = _PREV.search(body)
    return match[1].decode() if match else None
