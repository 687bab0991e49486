"""Pruning: sealed segments whose time is over go, and every proof about the rest stays.

Owns what is removed: segment files and level-0 tiles wholly below the new beginning; seals and
upper tiles stay, because proofs about later records need them (C2SP tlog-tiles, pruning). A mark
and then the record are durable before the first file goes; a kill in between is mended by the next
prune or the next start, which look for the mark and need not read the log. A hold, a retention
class, kept evidence or what is still open in it (see `unfinished`) stops it before anything is
changed. Called by the gateway's control interface and verbs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from shared.evidence import holds, records
from shared.evidence.erase import refuse
from shared.evidence.errors import EvidenceBlocked, EvidenceError
from shared.evidence.requests import flag, required_text, time_of
from shared.evidence.retention import DAY_US, Blocked, sentence
from shared.evidence.stores import Stores
from shared.evidence.unfinished import unfinished
from shared.ledger import Ledger, LedgerError, NoteRefused
from shared.ledger.segment import (
    SEGMENTS,
    Seal,
    first_of,
    list_segments,
    parse_seal,
    seal_digest,
    seal_path,
)
from shared.ledger.storage import Disk, reason
from shared.ledger.tiles import TILE, WIDTH, rebuild

#: Says that a pruning has begun.
MARK: Final = "pruning"
#: Key changes that one record carries on: each takes about 700 bytes of its 60 KiB.
MAX_ROTATIONS: Final = 60


@dataclass(frozen=True, slots=True)
class Sealed:
    """A segment that was finished, with its seal and the seal's signed note."""

    path: Path
    seal: Seal
    note: str


def prune(
    ledger: Ledger,
    stores: Stores,
    request: Mapping[str, Any],
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Remove the sealed segments that ended before `before` (a date) or `keep_days` days ago;
    `basis` and `operator` are recorded. With `dry_run` nothing is changed. `progress` is told each
    step, for tests.

    Raises EvidenceBlocked when something forbids it, EvidenceError otherwise.
    """
    before = _before(stores, request)
    basis, operator = required_text(request, "basis"), required_text(request, "operator")
    dry = flag(request, "dry_run")
    if not dry:
        finish(stores.ledger_dir)
    going = _going(stores.ledger_dir, before)
    if not going:
        return {
            "segments": 0,
            "records": 0,
            "seq": None,
            "dry_run": dry,
            "key_changes": 0,
            "blocked": "",
        }
    first, last = first_of(going[0].path) or 0, going[-1]
    blocked = list(_blocked(stores, going))
    answer: dict[str, Any] = {
        "segments": len(going),
        "records": last.seal.size - first,
        "size": last.seal.size,
        "dry_run": dry,
        "seq": None,
        "key_changes": len(rotations := _rotations(stores.ledger_dir, last.seal.size)),
        "blocked": sentence(blocked, "The pruning") if blocked else "",
    }
    if dry:
        return answer
    if blocked:
        refuse(ledger, "prune", operator, blocked)
        raise EvidenceBlocked(answer["blocked"])
    _complete_tiles(stores.ledger_dir)
    ext = {
        "first": first,
        "size": last.seal.size,
        "root": last.seal.root.hex(),
        "seal_sha256": seal_digest(last.note),
        "last_kept_first": last.seal.size,
        "basis": basis,
        "operator": operator,
        **({"rotations": rotations[-MAX_ROTATIONS:]} if rotations else {}),
    }
    _mark(stores.ledger_dir, ledger.size)
    progress("marked")
    fields = {"actor": {"role": "operator"}, "action": {"kind": "prune"}, "ext": ext}
    answer["seq"] = ledger.append("erase", fields).result().seq
    progress("recorded")
    _remove(stores.ledger_dir, last.seal.size, progress)
    _unmark(stores.ledger_dir)
    return answer


def finish(directory: Path) -> int:
    """Remove what a recorded pruning left when it was cut short; return how many files went. One
    that was never recorded is forgotten. Raises EvidenceError."""
    begun = _marked(directory)
    if begun is None:
        return 0
    size = max(
        (
            record["ext"]["last_kept_first"]
            for record in records.records(directory, records.ERASE, start=begun)
            if is_prune(record)
        ),
        default=0,
    )
    gone = _remove(directory, size, lambda _: None) if size else 0
    _unmark(directory)
    return gone


def _mark(directory: Path, size: int) -> None:
    """Note that a pruning begins when the log has `size` records."""
    try:
        Disk().replace(directory / MARK, b"%d\n" % size)
    except OSError as wrong:
        raise EvidenceError(
            f"{directory / MARK} cannot be written ({reason(wrong)}); check the disk."
        ) from None


def _marked(directory: Path) -> int | None:
    """Return how many records there were when an unfinished pruning began, or None."""
    try:
        text = (directory / MARK).read_text("ascii")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        text = ""
    return int(text) if text.strip().isdigit() else 0


def _unmark(directory: Path) -> None:
    (directory / MARK).unlink(missing_ok=True)
    Disk().sync_directory(directory)


def is_prune(record: Mapping[str, Any]) -> bool:
    """Tell whether a record is that of a pruning."""
    action, ext = record.get("action"), record.get("ext")
    return (
        record.get("type") == "erase"
        and isinstance(action, Mapping)
        and action.get("kind") == "prune"
        and isinstance(ext, Mapping)
        and type(ext.get("last_kept_first")) is int
    )


def _before(stores: Stores, request: Mapping[str, Any]) -> int:
    date, days = time_of(request, "before"), request.get("keep_days")
    if (date is None) == (days is None):
        raise EvidenceError("Name what to prune: --before DATE, or --keep-days N.")
    if date is not None:
        return date
    if type(days) is not int or days < 1:
        raise EvidenceError("--keep-days must be a number of days, at least 1.")
    return stores.now() - days * DAY_US


def _going(directory: Path, before: int) -> list[Sealed]:
    """Return the sealed segments at the beginning that ended before a time."""
    found = []
    for path in list_segments(directory):
        if not seal_path(path).exists():
            break
        sealed = _sealed(path)
        if sealed.seal.ts >= before:
            break
        found.append(sealed)
    return found


def _sealed(path: Path) -> Sealed:
    """Read a seal; whether it is the log's own is the verifier's question, not ours."""
    try:
        note = seal_path(path).read_text("utf-8")
        return Sealed(path, parse_seal(note[: note.find("\n\n") + 1]), note)
    except (OSError, UnicodeDecodeError, NoteRefused):
        raise EvidenceError(
            f"The seal {seal_path(path)} cannot be read; run `sphragis verify` on the ledger."
        ) from None


def _blocked(stores: Stores, going: list[Sealed]) -> Iterator[Blocked]:
    """Yield what forbids removing these segments."""
    now, size = stores.now(), going[-1].seal.size
    directory = stores.ledger_dir
    for hold in holds.active(records.records(directory, records.HOLD), now):
        yield Blocked("", f'the hold "{hold.id}"', hold.until, [])
    present = _keys_present(stores)
    classes: dict[str, tuple[int, list[int]]] = {}
    evidence: list[int] = []
    for record in records.records(directory, records.RETENTION, records.EVIDENCE):
        seq = record["seq"]
        if seq >= size:
            break
        retention = record.get("retention")
        if isinstance(retention, dict) and type(retention.get("until")) is int:
            name, until = str(retention.get("class")), retention["until"]
            if until > now:
                latest, seqs = classes.get(name, (0, []))
                classes[name] = (max(latest, until), [*seqs, seq] if len(seqs) < 6 else seqs)
        if any(entry.get("keyid") in present for entry in records.entries_of(record)):
            evidence.append(seq)
    for name, (until, seqs) in classes.items():
        yield Blocked("", f'the retention class "{name}"', until, seqs)
    if evidence:
        yield Blocked("", "evidence that is kept and not erased", 0, evidence, "it is erased")
    yield from unfinished(directory, going[-1].seal, stores.delegated)


def _rotations(directory: Path, size: int) -> list[dict[str, Any]]:
    """Return the changes of the log's key before record `size`, and those that prunings before
    it carried on: their notes, which old and new key signed, lead from an older key to the log."""
    found: list[dict[str, Any]] = []
    for record in records.records(directory, records.ROTATION, records.ERASE):
        if record["seq"] >= size:
            break
        ext = record.get("ext")
        if not isinstance(ext, Mapping):
            continue
        if record["type"] == "key_rotate":
            found.append({"seq": record["seq"], **ext})
        elif is_prune(record):
            found += [one for one in ext.get("rotations", ()) if isinstance(one, dict)]
    return sorted(found, key=lambda one: int(one["seq"]))


def _keys_present(stores: Stores) -> set[str]:
    if not stores.keys.exists:
        return set()
    stores.keys.open()
    return {item.keyid for item in stores.keys.all()}


def _complete_tiles(directory: Path) -> None:
    """Have every upper tile that proofs will need, while the records are still there."""
    try:
        rebuild(directory)
    except (OSError, LedgerError) as wrong:
        why = str(wrong) if isinstance(wrong, LedgerError) else reason(wrong)
        raise EvidenceError(f"The tiles that later proofs need cannot be written: {why}") from None


def _remove(directory: Path, size: int, progress: Callable[[str], None]) -> int:
    """Delete the segments and level-0 tiles wholly below record `size`, oldest first."""
    disk, gone = Disk(), 0
    try:
        for path in list_segments(directory):
            first = first_of(path)
            if first is None or first >= size:
                break
            path.unlink()
            gone += 1
            progress("segment_gone")
        if gone:
            disk.sync_directory(directory / SEGMENTS)
        for path, index in level0_tiles(directory):
            if (index + 1) * WIDTH <= size:
                path.unlink()
                gone += 1
                progress("tile_gone")
        _drop_empty(directory / TILE / "0")
    except OSError as wrong:
        raise EvidenceError(
            f"A pruned file of {directory} cannot be removed ({reason(wrong)}); check its owner "
            "and attributes, then run the same command again."
        ) from None
    return gone


def level0_tiles(directory: Path) -> list[tuple[Path, int]]:
    """Return the level-0 tiles that are there, full or partial, with their index."""
    folder = directory / TILE / "0"
    found = []
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        parts = path.relative_to(folder).parts
        if parts[-2:-1] and parts[-2].endswith(".p"):
            parts = (*parts[:-2], parts[-2].removesuffix(".p"))
        digits = "".join(part.removeprefix("x") for part in parts)
        if path.is_file() and digits.isdigit():
            found.append((path, int(digits)))
    return found


def _drop_empty(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True) if folder.is_dir() else ():
        if path.is_dir():
            with contextlib.suppress(OSError):  # it still holds tiles
                path.rmdir()
