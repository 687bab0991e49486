"""The other ledgers of this machine: each one's heads are recorded in the others.

Owns the directory where open ledgers announce themselves, and one ledger's view of the others.
Invariants: a head is recorded only when its signature is by the key first seen for its origin, or
by one that a `key_rotate` record leads to; a head that is smaller than, or does not grow out of,
one recorded before is recorded as an alarm, with the signed note, so that the record is evidence;
two idle ledgers do not keep each other growing (see `Observer._is_worth_a_record`). What it knows
comes from its own records; the file beside the announcement only saves reading them all.
Blocking; called off the loop by `neighbor_job`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from shared.anchors.files import Head, head_of
from shared.ledger.checkpoint import VerifierKey, open_note, parse_vkey
from shared.ledger.directory import read_head
from shared.ledger.errors import LedgerError, NoteRefused
from shared.ledger.key_chain import rotations_in
from shared.ledger.lookup import Archive
from shared.ledger.proofs import ProofRefused, Prover
from shared.ledger.segment import LOG_JSON, list_segments
from shared.paths import private_dir, state_dir

KIND: Final = "neighbor"
#: Seconds between two records about one neighbor: as often as an idle log has its own heartbeat.
RECORD_SECONDS: Final = 60.0
#: Seconds between two records about a neighbor that only has heartbeats and anchors of its own.
IDLE_SECONDS: Final = 600.0
#: How much of the end of a neighbor's log is read to see whether it was idle: two dozen records.
TAIL_BYTES: Final = 1 << 15

_ENTRY: Final = ".ledger.json"
_SEEN: Final = ".seen.json"
#: Types that a log writes when nothing happens.
_IDLE_TYPES: Final = frozenset({"anchor", "heartbeat"})


def neighbors_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the private directory in which the ledgers of this user announce themselves."""
    return private_dir(state_dir("choragos", environ) / "ledgers")


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a ledger says of itself. `pid` is 0 once it was closed; `note` is the head that it had
    when it was last closed, empty before."""

    origin: str
    directory: str
    vkey: str
    pid: int
    note: str = ""


def announce(place: Path, ledger: Announcement) -> None:
    """Say that a ledger is there (pid: of the process that has it open). Raises OSError."""
    _write_json(place / f"{_name(ledger.origin)}{_ENTRY}", asdict(ledger))


def announced(place: Path) -> Iterator[Announcement]:
    """Yield the ledgers that were announced; what is not an announcement is passed over."""
    for path in sorted(place.glob(f"*{_ENTRY}")):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            value = json.loads(path.read_bytes())
            entry = Announcement(
                str(value["origin"]),
                str(value["directory"]),
                str(value["vkey"]),
                int(value["pid"]),
                str(value.get("note", "")),
            )
            if path.name == f"{_name(entry.origin)}{_ENTRY}" and entry.directory.startswith("/"):
                yield entry


def retract(place: Path, origin: str) -> None:
    """Forget an announcement."""
    (place / f"{_name(origin)}{_ENTRY}").unlink(missing_ok=True)


def _name(origin: str) -> str:
    return hashlib.sha256(origin.encode()).hexdigest()[:32]


def _write_json(path: Path, value: object) -> None:
    """Replace a file of this machine's present state: nothing that must survive a power cut."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(value, sort_keys=True), "utf-8")
    temporary.rename(path)


@dataclass(frozen=True, slots=True)
class Pinned:
    """What is recorded of a neighbor: its key, and the newest head it was seen with."""

    vkey: str
    size: int
    root: str
    note: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """Something to record about a neighbor. `alarm` is empty, or `rolled_back`, `fork`,
    `key_changed` or `gone`; `sentence` is for people."""

    ext: dict[str, object]
    alarm: str = ""
    sentence: str = ""


class Observer:
    """One ledger's view of the others. Used from one thread at a time."""

    def __init__(
        self,
        place: Path,
        origin: str,
        known: Callable[[], Iterable[Mapping[str, Any]]],
        clock: Callable[[], float] = time.monotonic,
        *,
        record_seconds: float = RECORD_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`known` gives the `anchor` records of this ledger; it is called when nothing shorter
        tells what was recorded."""
        self._place = place
        self._origin = origin
        self._clock = clock
        self._record_seconds = record_seconds
        self._idle_seconds = idle_seconds
        self._recorded_at: dict[str, float] = {}
        #: Heads at a close that were found gone and recorded so, in this run.
        self._contradicted: set[str] = set()
        self._seen_path = place / f"{_name(origin)}{_SEEN}"
        self._pins = self._read_seen()
        if self._pins is None:
            self._pins = pins_of(known())

    @property
    def pins(self) -> Mapping[str, Pinned]:
        """What is known of each neighbor, by origin."""
        return self._pins or {}

    def look(self, *, last: bool = False) -> list[Sighting]:
        """Return what is to be recorded now: at the `last` look all that moved. `settle` each once
        it is recorded."""
        found = []
        for entry in announced(self._place):
            if entry.origin == self._origin:
                continue
            # Nobody looks again before this one, or that one, moves on.
            sighting = self._look_at(entry, at_once=last or entry.pid == 0)
            if sighting is not None:
                found.append(sighting)
        return found

    def settle(self, sighting: Sighting) -> None:
        """Take note that a sighting is durable in our ledger."""
        assert self._pins is not None
        origin = str(sighting.ext["origin"])
        self._recorded_at[origin] = self._clock()
        if sighting.alarm == "gone":
            retract(self._place, origin)
            self._pins.pop(origin, None)
        else:
            self._pins[origin] = _pin_of(sighting.ext)
        with contextlib.suppress(OSError):
            _write_json(
                self._seen_path, {key: asdict(pinned) for key, pinned in self._pins.items()}
            )

    def _look_at(self, entry: Announcement, *, at_once: bool) -> Sighting | None:
        pinned = self.pins.get(entry.origin)
        directory = Path(entry.directory)
        if not (directory / LOG_JSON).exists():
            return self._gone(entry, pinned)
        try:
            vkey, alarm = _key_of(entry, pinned)
            head = head_of(read_head(directory), [parse_vkey(vkey)])
        except NoteRefused:
            return None  # no head yet, or one by a key that is not announced yet
        if head.checkpoint.origin != entry.origin:
            return None
        seen = _seen(head, vkey)
        if lost := self._lost_since_closed(entry, head, vkey, pinned):
            return _alarm(seen, lost, "rolled_back", "has not the records that it was closed with")
        if pinned is None:
            return Sighting(seen)
        if alarm:
            return _alarm(seen, pinned, "key_changed", "is signed by a key that no record names")
        if (head.size, head.checkpoint.root.hex()) == (pinned.size, pinned.root):
            return None
        return self._compare(directory, head, seen, pinned, at_once=at_once)

    def _lost_since_closed(
        self, entry: Announcement, head: Head, vkey: str, pinned: Pinned | None
    ) -> Pinned | None:
        """Return the head that a neighbor was closed with, if it is newer than what is recorded
        and the neighbor has fewer records, or others, by now. Told once in a run."""
        if not entry.note or entry.note in self._contradicted:
            return None
        try:
            closed = head_of(entry.note, [parse_vkey(vkey)])
        except NoteRefused:
            return None
        same = closed.checkpoint.root == head.checkpoint.root
        held = pinned is not None and closed.size <= pinned.size
        if held or head.size > closed.size or (head.size == closed.size and same):
            return None
        self._contradicted.add(entry.note)
        return Pinned(vkey, closed.size, closed.checkpoint.root.hex(), closed.note)

    def _compare(
        self,
        directory: Path,
        head: Head,
        seen: dict[str, object],
        pinned: Pinned,
        *,
        at_once: bool,
    ) -> Sighting | None:
        if head.size < pinned.size:
            return _alarm(seen, pinned, "rolled_back", "has fewer records than it had")
        if head.size == pinned.size:
            return _alarm(seen, pinned, "fork", "has another history than it had")
        if not self._is_worth_a_record(directory, head, pinned, at_once=at_once):
            return None
        try:
            with Prover(directory) as prover:
                prover.consistency(pinned.note, head.note)
        except ProofRefused:
            return _alarm(seen, pinned, "fork", "has another history than it had")
        except LedgerError:
            return None  # it is being moved or pruned; the next look tells
        return Sighting(seen)

    def _is_worth_a_record(
        self, directory: Path, head: Head, pinned: Pinned, *, at_once: bool
    ) -> bool:
        """Decide whether a head that moved is recorded now.

        Growth of nothing but anchors is never worth one, or two idle ledgers would answer each
        other for ever; with heartbeats in it, it is, but seldom; anything else is at once. When
        either is closed, `at_once`, nothing is put off.
        """
        if at_once:
            types = _types_since(directory, pinned.size)
            return types is None or types != {"anchor"}
        last = self._recorded_at.get(head.checkpoint.origin)
        passed = self._clock() - last if last is not None else float("inf")
        if passed < self._record_seconds:
            return False
        types = _types_since(directory, pinned.size)
        if types is None or types - _IDLE_TYPES:
            return True
        return "heartbeat" in types and passed >= self._idle_seconds

    def _gone(self, entry: Announcement, pinned: Pinned | None) -> Sighting | None:
        if pinned is None:
            retract(self._place, entry.origin)
            return None
        ext = {"kind": KIND, "origin": entry.origin, "size": 0, "root": "", "vkey": pinned.vkey}
        return _alarm(ext, pinned, "gone", "is not where it was")

    def _read_seen(self) -> dict[str, Pinned] | None:
        try:
            value = json.loads(self._seen_path.read_bytes())
            return {str(origin): Pinned(**fields) for origin, fields in value.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return None


def _seen(head: Head, vkey: str) -> dict[str, object]:
    return {"kind": KIND, **head.ext(), "vkey": vkey, "note": head.note}


def _pin_of(ext: Mapping[str, Any]) -> Pinned:
    return Pinned(str(ext["vkey"]), int(ext["size"]), str(ext["root"]), str(ext["note"]))


def _alarm(seen: dict[str, object], pinned: Pinned, code: str, what: str) -> Sighting:
    was = {"size": pinned.size, "root": pinned.root, "vkey": pinned.vkey, "note": pinned.note}
    sentence = (
        f"The ledger {seen['origin']} on this machine {what}; keep a copy of it and run "
        "`sphragis verify` on it with the heads that this ledger recorded."
    )
    return Sighting({**seen, "alarm": code, "was": was}, code, sentence)


# -- keys -----------------------------------------------------------------------------------------


def _key_of(entry: Announcement, pinned: Pinned | None) -> tuple[str, bool]:
    """Return the vkey that the neighbor's head must be signed with, and whether nothing leads to
    it from the one that is pinned."""
    if pinned is None or entry.vkey == pinned.vkey:
        return entry.vkey, False
    reached = follow_rotations(Path(entry.directory), entry.origin, pinned.vkey)
    return entry.vkey, entry.vkey not in reached


def follow_rotations(directory: Path, origin: str, vkey: str) -> list[str]:
    """Return the vkeys that the log's `key_rotate` records lead to from `vkey`, itself first, and
    what the records of prunings carry on of older ones.

    Each step counts only when the record's note is signed by both the old and the new key.
    """
    chain, steps = [vkey], list[tuple[int, dict[str, Any]]]()
    with contextlib.suppress(LedgerError), Archive(directory) as archive:
        for seq, record, _ in archive.search(rb'"type":"key_rotate"|"rotations":'):
            ext = record.get("ext")
            if not isinstance(ext, dict):
                continue
            if record.get("type") == "key_rotate":
                steps.append((seq, ext))
            elif record.get("type") == "erase":
                carried = [one for one in rotations_in([ext]) if isinstance(one, dict)]
                steps += [(one["seq"], one) for one in carried if type(one.get("seq")) is int]
    for seq, ext in sorted(steps, key=lambda step: step[0]):
        new = _rotated(ext, origin, seq, chain[-1])
        if new:
            chain.append(new)
    return chain


def _rotated(ext: Mapping[str, Any], origin: str, seq: int, old: str) -> str:
    new, note = ext.get("new"), ext.get("note")
    if ext.get("old") != old or type(new) is not str or type(note) is not str:
        return ""
    try:
        keys: list[VerifierKey] = [parse_vkey(old), parse_vkey(new)]
        for key in keys:
            if open_note(note, [key]) != f"{origin}/key-rotate\n{seq}\n{new}\n":
                return ""
    except NoteRefused:
        return ""
    return new


# -- reading --------------------------------------------------------------------------------------


def _types_since(directory: Path, size: int) -> set[str] | None:
    """Return the types of the records from number `size` on, or None when the end of the newest
    segment does not reach that far back."""
    try:
        path = list_segments(directory)[-1]
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - TAIL_BYTES))
            lines = file.read().split(b"\n")
        if end > TAIL_BYTES:
            del lines[0]
        del lines[-1:]
        records = [json.loads(line) for line in lines if not line.startswith(b'{"cp":')]
        if not records or records[0]["seq"] > size:
            return None
        return {str(record["type"]) for record in records if record["seq"] >= size}
    except (OSError, IndexError, ValueError, KeyError, TypeError):
        return None


def pins_of(records: Iterable[Mapping[str, Any]]) -> dict[str, Pinned]:
    """Return what a ledger's `anchor` records tell of each neighbor: the last head recorded."""
    pins: dict[str, Pinned] = {}
    for record in records:
        ext = record.get("ext")
        if record.get("type") != "anchor" or not isinstance(ext, Mapping):
            continue
        if ext.get("kind") != KIND:
            continue
        with contextlib.suppress(KeyError, TypeError, ValueError):
            if ext.get("alarm") == "gone":
                pins.pop(str(ext["origin"]), None)
            else:
                pins[str(ext["origin"])] = _pin_of(ext)
    return pins


def heads_recorded(records: Iterable[Mapping[str, Any]], origin: str) -> list[str]:
    """Return the signed notes of the log `origin` that these records quote, oldest first: each is
    a prior checkpoint for `sphragis verify --prior`."""
    notes = []
    for record in records:
        ext = record.get("ext")
        if record.get("type") != "anchor" or not isinstance(ext, Mapping):
            continue
        if ext.get("origin") == origin and isinstance(ext.get("note"), str):
            was = ext.get("was")
            if isinstance(was, Mapping) and isinstance(was.get("note"), str):
                notes.append(str(was["note"]))
            notes.append(str(ext["note"]))
    return list(dict.fromkeys(notes))


def anchor_records(directory: Path) -> Iterator[dict[str, Any]]:
    """Yield the `anchor` records of the log in `directory`. Raises LedgerError."""
    with Archive(directory) as archive:
        for _, record, _ in archive.search(rb'"type":"anchor"'):
            if record.get("type") == "anchor":
                yield record
