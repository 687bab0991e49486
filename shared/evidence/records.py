"""Finding the few records that speak of evidence, in a log of any length.

Invariant: only committed records are read, a line is parsed only when it holds the words looked
for, and memory stays flat. Works beside the running writer and on a pruned log. Called by the
operations of this package.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from shared.evidence.errors import EvidenceError
from shared.ledger import LedgerError
from shared.ledger.checkpoint import is_checkpoint_line
from shared.ledger.reading import Place, blocks
from shared.ledger.segment import first_of, list_segments

#: Words of canonical lines; inside a text the quotes would be escaped, so they cannot lie.
EVIDENCE: Final = b'"evidence":[{'
HOLD: Final = b'"type":"hold"'
ERASE: Final = b'"type":"erase"'
ROTATION: Final = b'"type":"key_rotate"'
OUTCOME: Final = b'"type":"outcome"'
GATES: Final = (b'"type":"gate_open"', b'"type":"gate_decision"')
DELEGATIONS: Final = (b'"type":"delegate"', b'"type":"revoke"')
RETENTION: Final = b'"retention":{'


def records(directory: Path, *words: bytes, start: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the records from number `start` on whose lines hold one of `words` (all without any).

    Raises EvidenceError when the log cannot be read.
    """
    firsts = [first for path in list_segments(directory) if (first := first_of(path)) is not None]
    begin = max((first for first in firsts if first <= start), default=0)
    try:
        for block in blocks(directory, Place(begin)):
            for line in block.lines:
                if words and not any(word in line for word in words):
                    continue
                if is_checkpoint_line(line):
                    continue
                record = orjson.loads(line)
                if record["seq"] >= start:
                    yield record
    except (LedgerError, OSError, ValueError, KeyError, TypeError) as wrong:
        reason = str(wrong) if isinstance(wrong, LedgerError) else f"{directory} cannot be read."
        raise EvidenceError(f"{reason} Run `sphragis verify` on it.") from None


def entries_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the evidence entries of a record."""
    found = record.get("evidence")
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def size_of(entry: dict[str, Any]) -> int:
    """Return how many bytes an entry says its payload has; 0 when it says nothing of use."""
    size = entry.get("bytes")
    return size if type(size) is int and size > 0 else 0


def named(directory: Path) -> dict[str, list[int]]:
    """Return the records that name evidence, by the id of its key."""
    found: dict[str, list[int]] = {}
    for record in records(directory, EVIDENCE):
        for entry in entries_of(record):
            seqs = found.setdefault(str(entry.get("keyid")), [])
            if record["seq"] not in seqs[-1:]:
                seqs.append(record["seq"])
    return found


def erased_keys(directory: Path) -> dict[str, int]:
    """Return the ids of erased keys, each with the number of the record that says so."""
    gone: dict[str, int] = {}
    for record in records(directory, ERASE):
        ext = record.get("ext")
        keys = ext.get("keys") if isinstance(ext, dict) else None
        if record["type"] == "erase" and isinstance(keys, list):
            gone.update({str(key): record["seq"] for key in keys})
    return gone
