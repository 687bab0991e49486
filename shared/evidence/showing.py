"""Looking at kept evidence: show it to an operator, count it, check that it is all there.

Invariants: showing is itself recorded, durably, before a byte is shown; counting and checking
change nothing and need no key, so they work beside a running gateway and without its keys. What
was erased is told as such, with the record that says so. Called by the gateway's control
interface and verbs.
"""

from __future__ import annotations

import base64
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from shared.evidence import records
from shared.evidence.errors import EvidenceError
from shared.evidence.requests import optional_text, required_text
from shared.evidence.sealing import commitment
from shared.evidence.store import FOLDER, EvidenceStore, path_of
from shared.evidence.stores import Stores
from shared.ledger import Ledger

#: Bytes shown in one answer; a task may hold hundreds of payloads.
MAX_SHOWN: Final = 32 << 20
#: Seconds after which a file that no record names is counted as left over.
SETTLED: Final = 600.0


def show(ledger: Ledger, stores: Stores, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payloads of record `seq`, or of all records of `task`, in base64, each with its
    record and media type; `operator` is recorded. Raises EvidenceError."""
    operator = required_text(request, "operator")
    task, seq = optional_text(request, "task"), request.get("seq")
    if bool(task) == (seq is not None):
        raise EvidenceError("Name what to show: --seq N, or --task T.")
    if seq is not None and (type(seq) is not int or seq < 0):
        raise EvidenceError("--seq must be the number of a record.")
    found = _found(stores.ledger_dir, seq, task)
    what = f"record {seq}" if seq is not None else f"task {task}"
    if not found:
        raise EvidenceError(f"No evidence is kept for {what}.")
    fields = {
        "actor": {"role": "operator"},
        "action": {"kind": "evidence_show", "target": what},
        "ext": {
            "format": "evidence",
            "user": operator,
            "count": len(found),
            "records": [record["seq"] for record in found][:1_000],
        },
    }
    receipt = ledger.append("export", fields).result()
    if stores.keys.exists:
        stores.keys.open()
    present = {item.keyid for item in stores.keys.all()} if stores.keys.exists else set()
    named = {str(entry.get("keyid")) for record in found for entry in records.entries_of(record)}
    gone = {} if named <= present else records.erased_keys(stores.ledger_dir)
    budget, items = MAX_SHOWN, []
    for record in found:
        for entry in records.entries_of(record):
            budget -= records.size_of(entry)
            items.append(_item(stores, record, entry, gone, fits=budget >= 0))
    return {"items": items, "recorded": receipt.seq}


def _found(directory: Path, seq: int | None, task: str) -> list[dict[str, Any]]:
    """Return the records with evidence that were asked for; one is looked up without reading on."""
    if seq is None:
        every = records.records(directory, records.EVIDENCE)
        return [record for record in every if record.get("task") == task]
    first = next(records.records(directory, start=seq), None)
    return [first] if first is not None and records.entries_of(first) else []


def _item(
    stores: Stores,
    record: Mapping[str, Any],
    entry: Mapping[str, Any],
    gone: Mapping[str, int],
    *,
    fits: bool,
) -> dict[str, Any]:
    item: dict[str, Any] = {
        "seq": record["seq"],
        "type": record["type"],
        "media": entry.get("media"),
        "bytes": entry.get("bytes"),
    }
    keyid = str(entry.get("keyid"))
    if keyid in gone:
        return {**item, "state": f"erased by {gone[keyid]}"}
    if not fits:
        return {**item, "state": "left out: ask for this record alone"}
    try:
        data = stores.store.read(record, entry) if stores.keys.exists else None
    except (EvidenceError, ValueError) as wrong:
        return {**item, "state": str(wrong)}
    if data is None:
        return {**item, "state": "its key is gone, and no record says that it was erased"}
    return {**item, "state": "shown", "data": base64.b64encode(data).decode("ascii")}


def fates(directory: Path, record: dict[str, Any]) -> list[str]:
    """Return a sentence for each payload that a record names: whether it is there, was erased and
    by which record, or is lost. Needs no key. Raises EvidenceError when the log cannot be read."""
    entries = records.entries_of(record)
    if not entries:
        return []
    gone = records.erased_keys(directory)
    store = EvidenceStore(directory)
    said = []
    for entry in entries:
        what = f"A payload ({entry.get('media')}, {entry.get('bytes')} bytes) was kept"
        keyid = str(entry.get("keyid"))
        state = _state(store, str(entry.get("c")), erased=keyid in gone)
        if keyid in gone:
            said.append(f"{what} and erased by record {gone[keyid]}.")
        elif state is State.OK:
            said.append(f"{what}; `sphragis evidence show --seq {record['seq']}` opens it.")
        else:
            said.append(
                f"{what}; its file {'is missing' if state is State.MISSING else 'changed'}."
            )
    return said


class State(StrEnum):
    """What became of a payload that a record names."""

    OK = "ok"
    ERASED = "erased"
    MISSING = "missing"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found: how many payloads are in each state, a sentence for each that is not as
    it should be, and how many files no record names."""

    states: Mapping[State, int]
    findings: tuple[str, ...]
    orphans: int

    @property
    def exit_code(self) -> int:
        """0 all is there or erased by a record, 1 something was changed, 2 something is missing."""
        if self.states.get(State.CHANGED):
            return 1
        return 2 if self.states.get(State.MISSING) else 0


def check(directory: Path) -> Checked:
    """Compare the evidence files of the ledger in `directory` with what its records name.

    Raises EvidenceError when the ledger cannot be read.
    """
    store, folder = EvidenceStore(directory), directory / FOLDER
    gone = records.erased_keys(directory)
    states: Counter[State] = Counter()
    findings: list[str] = []
    known: set[str] = set()
    for record in records.records(directory, records.EVIDENCE):
        for entry in records.entries_of(record):
            seq, c = record["seq"], str(entry.get("c"))
            known.add(c)
            state = _state(store, c, erased=str(entry.get("keyid")) in gone)
            states[state] += 1
            if state in {State.MISSING, State.CHANGED}:
                word = "is missing" if state is State.MISSING else "was changed"
                findings.append(f"The kept payload of record {seq} {word} ({c[:16]}).")
    settled = time.time() - SETTLED
    orphans = 0
    for path, _ in store.files() if folder.is_dir() else ():
        if path.stem not in known and path.stat().st_mtime < settled:
            orphans += 1
    return Checked(dict(states), tuple(findings), orphans)


def _state(store: EvidenceStore, c: str, *, erased: bool) -> State:
    try:
        path_of(Path(), c)
    except ValueError:
        return State.CHANGED
    blob = store.blob(c)
    if blob is None:
        return State.ERASED if erased else State.MISSING
    return State.OK if commitment(blob) == c else State.CHANGED


def stats(directory: Path, keys_file: Path) -> dict[str, Any]:
    """Count the evidence of a ledger: payloads and bytes by kind of record, files, keys by class
    of retention, and erased keys; no key is needed. Raises EvidenceError."""
    payloads: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for record in records.records(directory, records.EVIDENCE):
        for entry in records.entries_of(record):
            payloads[record["type"]] += 1
            sizes[record["type"]] += records.size_of(entry)
    files = [path for path, _ in EvidenceStore(directory).files()]
    groups = list(_groups(keys_file))
    return {
        "payloads": dict(payloads),
        "bytes": dict(sizes),
        "files": len(files),
        "file_bytes": sum(path.stat().st_size for path in files),
        "keys": dict(Counter(retention or "none" for _, retention in groups)),
        "subjects": len({subject for subject, _ in groups}),
        "erased_keys": len(records.erased_keys(directory)),
    }


def _groups(keys_file: Path) -> Iterator[tuple[str, str]]:
    if not keys_file.exists():
        return
    try:
        db = sqlite3.connect(f"file:{keys_file}?mode=ro", uri=True, timeout=10.0)
        try:
            yield from db.execute("SELECT subject_c, retention FROM deks").fetchall()
        finally:
            db.close()
    except sqlite3.Error as wrong:
        raise EvidenceError(f"The evidence keys {keys_file} cannot be read ({wrong}).") from None


def as_json(checked: Checked) -> str:
    """Return a check as one line of JSON."""
    return json.dumps(
        {
            "states": {str(state): count for state, count in checked.states.items()},
            "findings": list(checked.findings),
            "orphans": checked.orphans,
        }
    )
