"""What a log has begun and not ended: requests, gates, delegations.

Invariant: whatever began in the part of a log that is to go and has not ended anywhere in the log
is found, because its end would lose its beginning. A stamp (which role works on which task) of a
deck that is no more has no end in the log; whoever knows what is stamped now says so. Called by
`prune`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from shared.evidence import records
from shared.evidence.retention import Blocked
from shared.ledger.segment import Seal


def unfinished(
    directory: Path, seal: Seal, delegated: Collection[tuple[str, str]] | None
) -> Iterator[Blocked]:
    """Yield what began before the end of a sealed segment and is open to this day. `delegated` are
    the (session, role) that have a task now; None counts each that was never taken back.

    Raises EvidenceError when the log cannot be read.
    """
    if waiting := _requests(directory, seal):
        yield Blocked("", "a request that has no outcome yet", 0, waiting, "it has one")
    if waiting := _gates(directory, seal.size):
        yield Blocked("", "a gate that is not decided yet", 0, waiting, "it is decided")
    if waiting := _delegations(directory, seal.size, delegated):
        yield Blocked("", "a delegation that is in force", 0, waiting, "it is revoked")


def _requests(directory: Path, seal: Seal) -> list[int]:
    waiting = set(seal.open_requests)
    if waiting:
        for record in records.records(directory, records.OUTCOME, start=seal.size):
            if record["type"] == "outcome":
                waiting.discard(record.get("ref"))
    return sorted(waiting)


def _gates(directory: Path, size: int) -> list[int]:
    """A gate is known by its run and its id, in `gate` or, in a deck's log, in `ext`."""
    opened: dict[tuple[str, str], int] = {}
    for record in records.records(directory, *records.GATES):
        gate = _part(record, "gate") or _part(record, "ext")
        name = (str(record.get("run")), str(gate.get("id")))
        if record["type"] == "gate_open":
            opened[name] = record["seq"]
        elif record["type"] == "gate_decision":
            opened.pop(name, None)
    return sorted(seq for seq in opened.values() if seq < size)


def _delegations(
    directory: Path, size: int, delegated: Collection[tuple[str, str]] | None
) -> list[int]:
    """A delegation to a role lasts until the role of that run gets another task or none; one that
    names no role until its task is revoked; either until a `revoke` that names its record."""
    given: dict[tuple[str, ...], int] = {}
    for record in records.records(directory, *records.DELEGATIONS):
        action, run = _part(record, "action"), str(record.get("run"))
        role = action.get("target")
        if type(role) is str:
            name: tuple[str, ...] = (run, role)
        else:
            name = (run, "", str(record.get("task")))
        if record["type"] == "delegate":
            is_over = (
                delegated is not None and action.get("name") == "stamp" and name not in delegated
            )
            given.pop(name, None)
            if not is_over:
                given[name] = record["seq"]
        elif record["type"] == "revoke":
            ref = record.get("ref")
            if type(ref) is int:
                given = {name: seq for name, seq in given.items() if seq != ref}
            else:
                given.pop(name, None)
    return sorted(seq for seq in given.values() if seq < size)


def _part(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = record.get(name)
    return value if isinstance(value, dict) else {}
