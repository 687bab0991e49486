"""One batch that is entirely as it should be: the fast path of every reader.

Pure. `follow` takes the record lines of one batch and answers with where the log stands behind
them, or None when anything at all is unusual; the caller then goes line by line and names what
it is. Everything the slow path refuses is refused here too, but for fractional numbers: they
cannot hide a change (the stored bytes are hashed), and looking for them costs a third of the
speed. Called by `recovery` and `walk`.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import orjson

from shared.ledger.merkle import Frontier
from shared.ledger.record import TYPE_NAMES, VERSION
from shared.ledger.segment import Position

#: Most records in one batch; all that wait are taken, nobody waits for company
#: (contracts/ledger.md section 2.2).
BATCH_LIMIT: Final = 1024

_CANONICAL: Final = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_INT: Final = {int}


@dataclass(frozen=True, slots=True)
class Batch:
    """A good batch: its records, which types they have, and the state behind it."""

    records: list[dict[str, Any]]
    types: Set[str]
    frontier: Frontier
    tip: str
    ts: int


def follow(lines: Sequence[bytes], position: Position) -> Batch | None:
    """Return the batch of record `lines` (without newlines) that follows `position`, or None
    when a line is not canonical, or numbers, links, types or times do not follow."""
    try:
        records = [orjson.loads(line) for line in lines]
        if [orjson.dumps(record, option=_CANONICAL) for record in records] != lines:
            return None
        leaves = [sha256(b"\x00" + line).digest() for line in lines]
        links = [leaf.hex() for leaf in leaves]
        if [record["prev"] for record in records] != [position.tip, *links[:-1]]:
            return None
        first = position.size
        numbers = [record["seq"] for record in records]
        times = [record["ts"] for record in records]
        versions = [record["v"] for record in records]
        types = {record["type"] for record in records}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if numbers != list(range(first, first + len(lines))) or set(map(type, numbers)) != _INT:
        return None
    if set(map(type, times)) != _INT or times[0] < position.ts or sorted(times) != times:
        return None
    if set(versions) != {VERSION} or set(map(type, versions)) != _INT or not types <= TYPE_NAMES:
        return None
    frontier = position.frontier.copy()
    frontier.extend(leaves)
    return Batch(records, types, frontier, links[-1], times[-1])
