"""Going on after a loss: what would be lost is shown, moved aside and recorded, never dropped.

Owns `sphragis repair`'s two steps. Invariants: nothing is changed before somebody accepts the
loss and says why; every byte that leaves the log is in quarantine first; the log opens again only
with a `recover` record that says how many records it once had, so a repair can never hide a loss;
a repair that is cut off is finished by the next one (the file REPAIR holds its plan). A backup is
always better. Called by `gateway.verbs.repairing`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from shared.ledger.checkpoint import VerifierKey, open_note, parse_checkpoint
from shared.ledger.directory import read_head, read_log_json, take_lock
from shared.ledger.errors import LedgerCorrupt, LedgerError, LedgerRollback, NoteRefused
from shared.ledger.keys import KeyRing
from shared.ledger.log import SEGMENT_BYTES, SEGMENT_SECONDS, Ledger, system_clock
from shared.ledger.record import RecordType
from shared.ledger.recovery import (
    Recovered,
    anchored_sizes,
    known_keys,
    largest_commit,
    last_sealed,
    recover,
    scan,
)
from shared.ledger.scribe import Limits
from shared.ledger.segment import (
    HEAD,
    QUARANTINE,
    REPAIR,
    first_of,
    list_seals,
    list_segments,
    parse_seal,
    segment_path,
)
from shared.ledger.storage import Disk, reason

#: A published note with more cosignatures than this is kept in quarantine only.
_MAX_HEAD: Final = 16 << 10
_COPY: Final = 1 << 20

__all__ = ["Damage", "Repair", "opened"]


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with a log and what going on would cost.

    `problem` is the sentence of the refused start, empty when there is nothing to repair. `kept`
    records stay; `committed` is the largest number of records that anything signed speaks of, and
    `known_by` names what does. `cut` bytes leave the segment file that goes on; `moved` are the
    files that go to quarantine as a whole, relative to the directory.
    """

    problem: str = ""
    kept: int = 0
    committed: int = 0
    known_by: tuple[str, ...] = ()
    cut: int = 0
    moved: tuple[str, ...] = ()
    begun: bool = False

    @property
    def lost(self) -> int:
        """How many committed records are lost, as far as is known."""
        return self.committed - self.kept


@dataclass(slots=True)
class _Plan:
    """What REPAIR holds: the `recover` record and the steps before it."""

    ext: dict[str, Any]
    first: int
    offset: int
    folder: str
    moved: list[str] = field(default_factory=list)


@contextlib.contextmanager
def opened(directory: Path, keys: Path, *, disk: Disk | None = None) -> Iterator[Repair]:
    """Lock a log for looking at its damage and repairing it.

    Raises LedgerLocked while another program holds it, LedgerError when it is no ledger.
    """
    if not (directory / "log.json").exists():
        raise LedgerError(f"{directory} is not a ledger: it has no log.json.")
    lock_fd = take_lock(directory)
    repair = Repair(directory, keys, lock_fd, disk or Disk())
    try:
        yield repair
    except OSError as error:
        raise LedgerError(
            f"The repair of {directory} stopped ({reason(error)}); nothing is lost, run it again "
            "when the disk is well."
        ) from error
    finally:
        repair.unlock()


class Repair:
    """One look at a damaged log, and its repair. Use `opened`."""

    def __init__(self, directory: Path, keys: Path, lock_fd: int, disk: Disk) -> None:
        """Use `opened`."""
        self._directory = directory
        self._origin = str(read_log_json(directory)["origin"])
        self._keys = KeyRing(keys, self._origin, disk)
        self._lock_fd = lock_fd
        self._disk = disk

    def unlock(self) -> None:
        """Give the lock back, unless the repair passed it on."""
        fd, self._lock_fd = self._lock_fd, -1
        if fd >= 0:
            os.close(fd)

    # -- looking -------------------------------------------------------------------------------

    def look(self) -> Damage:
        """Say what is wrong and what would be lost; change nothing. Raises LedgerError for what
        no repair can mend: a lost log.json or key."""
        if (plan := self._plan_begun()) is not None:
            ext = plan.ext
            return Damage(
                "A repair was begun and cut off.",
                int(ext["lost_from"]),
                int(ext["committed"]),
                cut=int(ext["bytes"]),
                moved=tuple(plan.moved),
                begun=True,
            )
        signers = self._keys.signers()
        try:
            state = recover(self._directory, *signers)
        except (LedgerCorrupt, LedgerRollback) as error:
            return self._damage(str(error))[0]
        if self._can_seal(state):
            return Damage()
        path = self._keys.segment_path(state.first)
        return self._damage(
            f"The key {path} that must seal the ledger is lost, as when only the ledger came back "
            "from a backup."
        )[0]

    def _can_seal(self, state: Recovered) -> bool:
        """Tell whether the keys are there that this segment's end needs."""
        return self._keys.has_segment(state.first, state.segment_key) and (
            not state.next_key or self._keys.has_segment(state.position.size, state.next_key)
        )

    def _damage(self, problem: str) -> tuple[Damage, Recovered]:
        known = known_keys(self._directory, self._keys.signers())
        state = self._good_end(known)
        path = segment_path(self._directory, state.first)
        cut = path.stat().st_size - state.offset if path.exists() else 0
        kept = state.position.size
        witnesses = self._witnesses(known, state)
        committed = max([kept, *witnesses.values()])
        known_by = tuple(name for name, size in witnesses.items() if size > kept)
        moved = tuple(self._to_move(state, known))
        return Damage(problem, kept, committed, known_by, cut, moved), state

    def _good_end(self, known: Sequence[VerifierKey]) -> Recovered:
        """Return the last state that the log can go on from."""
        for before_seal in (False, True):
            state = _good_start(self._directory, known)
            path = segment_path(self._directory, state.first)
            if path.exists():
                scan(path, state, self._keys.signers(), before_seal=before_seal)
            if not state.next_key or self._can_seal(state):
                break  # else: its seal is lost and cannot be made again, so it goes on unsealed
        return state

    def _witnesses(self, known: Sequence[VerifierKey], state: Recovered) -> dict[str, int]:
        """Return what speaks of how many records: HEAD, anchors, seals, checkpoints."""
        found = {}
        if (head := _signed_size(read_head(self._directory), known)) is not None:
            found[HEAD] = head
        for size, paths in anchored_sizes(self._directory).items():
            found.update({f"anchors/{path.name}": size for path in paths})
        for path in list_segments(self._directory):
            first = first_of(path) or 0
            if first >= state.first:
                offset = state.offset if first == state.first else 0
                size = largest_commit(path, offset, [*known, *state.keys])
                found[f"segments/{path.name}"] = max(size, first)
        for path in list_seals(self._directory):
            with contextlib.suppress(NoteRefused, OSError, UnicodeDecodeError):
                found[f"segments/{path.name}"] = parse_seal(
                    open_note(path.read_text("utf-8"), known)
                ).size
        return found

    def _to_move(self, state: Recovered, known: Sequence[VerifierKey]) -> Iterator[str]:
        """Yield what contradicts the records that are kept."""
        kept, root = state.position.size, state.position.frontier.root()
        head = read_head(self._directory)
        if (self._directory / HEAD).exists() and not _agrees(head, known, kept, root):
            yield HEAD
        for size, paths in anchored_sizes(self._directory).items():
            note = self._directory / "anchors" / f"{size}.checkpoint"
            text = note.read_text("utf-8", "replace") if note in paths else ""
            if size > kept or (size == kept and text and not _agrees(text, known, kept, root)):
                yield from (f"anchors/{path.name}" for path in paths)
        for path in list_segments(self._directory):
            if (first_of(path) or 0) > state.first:
                yield f"segments/{path.name}"
        for path in list_seals(self._directory):
            if int(path.stem) >= state.first:
                yield f"segments/{path.name}"

    # -- repairing -----------------------------------------------------------------------------

    def accept_loss(self, why: str, operator: str) -> int:
        """Move what is damaged aside, record the loss, and return the number of that record.

        Raises LedgerError when there is nothing to repair or a key is gone that cannot be
        replaced, OSError when the disk refuses: then run it again.
        """
        plan = self._plan_begun() or self._make_plan(why, operator)
        self._carry_out(plan)
        lock_fd, self._lock_fd = self._lock_fd, -1
        recorded = self._recorded(plan)
        with Ledger._open(
            self._directory,
            self._keys.directory,
            self._origin,
            disk=self._disk,
            clock=system_clock,
            limits=Limits(SEGMENT_BYTES, SEGMENT_SECONDS, 0.0),
            loss=None if recorded else plan.ext,
            repairing=True,
            lock_fd=lock_fd,
        ) as ledger:
            number = ledger.size - 1
            self._disk.unlink(self._directory / REPAIR)
            self._disk.sync_directory(self._directory)
        if ledger.failure is not None:
            raise LedgerError(ledger.failure)
        return number

    def _make_plan(self, why: str, operator: str) -> _Plan:
        damage = self.look()
        if not damage.problem:
            raise LedgerError(f"The ledger {self._directory} needs no repair; it opens as it is.")
        damage, state = self._damage(damage.problem)
        at_hand = {signer.key for signer in self._keys.signers()}
        if not at_hand.issuperset(state.keys):
            raise LedgerError(
                f"The log key that signed the last good record of {self._directory} is gone, so "
                "nothing can follow it; keep the directory as it is and begin a new ledger."
            )
        path = segment_path(self._directory, state.first)
        digest, size = hashlib.sha256(), 0
        if damage.cut:
            with path.open("rb") as file:
                file.seek(state.offset)
                while piece := file.read(_COPY):
                    digest.update(piece)
                    size += len(piece)
        head = read_head(self._directory)
        known = known_keys(self._directory, self._keys.signers())
        if len(head) > _MAX_HEAD or _signed_size(head, known) is None:
            head = ""
        folder = self._new_folder(state)
        ext: dict[str, Any] = {
            "accepted_loss": True,
            "bytes": size,
            "committed": damage.committed,
            "file": f"{folder}/{path.name}" if size else "",
            "head": head,
            "lost_from": damage.kept,
            "moved": list(damage.moved),
            "operator": operator,
            "reason": why,
            "sha256": digest.hexdigest(),
        }
        if not self._keys.has_segment(state.first, state.segment_key):
            # The segment was sealed once, so its key is gone; this record names the new one.
            ext["segment_key"] = self._keys.make_segment(state.first).key.vkey()
        plan = _Plan(ext, state.first, state.offset, folder, list(damage.moved))
        data = {
            "ext": ext,
            "first": plan.first,
            "folder": folder,
            "moved": plan.moved,
            "offset": plan.offset,
        }
        self._disk.replace(self._directory / REPAIR, orjson.dumps(data))
        return plan

    def _new_folder(self, state: Recovered) -> str:
        number = 0
        while True:
            name = f"repair-{state.position.size}.{number}"
            if not (self._directory / QUARANTINE / name).exists():
                return name
            number += 1

    def _plan_begun(self) -> _Plan | None:
        path = self._directory / REPAIR
        if not path.exists():
            return None
        try:
            data = orjson.loads(path.read_bytes())
            return _Plan(data["ext"], data["first"], data["offset"], data["folder"], data["moved"])
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerCorrupt(
                f"{path} is damaged, so the repair that it was for cannot be finished; restore "
                "the ledger from a backup."
            ) from error

    def _carry_out(self, plan: _Plan) -> None:
        """Do the steps of a plan that are not done yet."""
        folder = self._directory / QUARANTINE / plan.folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._disk.sync_directory(folder.parent.parent)
        self._disk.sync_directory(folder.parent)
        path = segment_path(self._directory, plan.first)
        tail = folder / path.name
        if not self._recorded(plan):
            if plan.ext["bytes"] and path.stat().st_size > plan.offset:
                self._disk.replace(tail, _bytes_behind(path, plan.offset), mode=0o440)
            if path.exists():
                self._disk.chmod(path, 0o600)
            fd = self._disk.open_append(path)
            try:
                self._disk.sync_directory(path.parent)
                if path.stat().st_size > plan.offset:
                    self._disk.truncate(fd, plan.offset)
                self._disk.settle(fd)
            finally:
                os.close(fd)
        for name in plan.moved:
            source = self._directory / name
            if source.exists() and not self._recorded(plan):
                self._disk.rename(source, folder / Path(name).name)
                self._disk.sync_directory(source.parent)
        self._disk.sync_directory(folder)

    def _recorded(self, plan: _Plan) -> bool:
        """Tell whether the `recover` record of a plan is in the log already."""
        path = segment_path(self._directory, plan.first)
        if not path.exists():
            return False
        with path.open("rb") as file:
            file.seek(plan.offset)
            lines = file.read(1 << 17).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                record = orjson.loads(line)
                if record["type"] == RecordType.RECOVER and record["ext"] == plan.ext:
                    return True
        return False


def _bytes_behind(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read()


def _signed_size(note: str, known: Sequence[VerifierKey]) -> int | None:
    try:
        return parse_checkpoint(open_note(note, known)).size
    except NoteRefused:
        return None


def _agrees(note: str, known: Sequence[VerifierKey], kept: int, root: bytes) -> bool:
    """Tell whether a note may stay beside the `kept` records."""
    try:
        found = parse_checkpoint(open_note(note, known))
    except NoteRefused:
        return False
    return found.size < kept or (found.size == kept and found.root == root)


def _good_start(directory: Path, known: Sequence[VerifierKey]) -> Recovered:
    """Return where the segment begins up to which seals and files are whole."""
    with contextlib.suppress(LedgerCorrupt):
        return last_sealed(directory, known)
    state = last_sealed(directory, known, seals=[])
    kept = []
    left = [first_of(path) for path in list_segments(directory)]
    for path in list_seals(directory):
        segment = path.with_suffix(".jsonl")
        pruned = bool(left) and (first_of(segment) or 0) < (left[0] or 0)
        if not pruned and not segment.exists():
            break
        kept.append(path)
        try:
            state = last_sealed(directory, known, seals=kept)
        except LedgerCorrupt:
            break
    return state
