"""Making a proof bundle: which records belong to a question, and what must come with them.

Owns the selection (by task, session or number) and the choice of the checkpoint.
Invariants: nothing of a record that was not chosen is put into the bundle; every proof was
verified when it was made; the log is only read, without its lock, so a writer may go on. Called
by the programs' `proof` command; `bundle` describes the layout.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from shared.ledger.bundle import (
    ANCHOR_KINDS,
    CHECKPOINT,
    FORMAT,
    LEFT_OUT,
    MANIFEST,
    README,
    VERIFIER,
    anchor_name,
    manifest_bytes,
    pack,
    record_name,
    text_name,
)
from shared.ledger.bundle_readme import readme
from shared.ledger.bundle_records import texts_named
from shared.ledger.checkpoint import Checkpoint, split_note
from shared.ledger.directory import read_head
from shared.ledger.errors import LedgerError, NoteRefused
from shared.ledger.key_chain import rotations_in
from shared.ledger.lookup import RecordGone, outcomes_of
from shared.ledger.proofs import Prover
from shared.ledger.segment import ANCHORS, LOG_JSON
from shared.ledger.storage import reason
from shared.ledger.texts import TextMissing, read_text
from shared.whole_file import whole_file

_SETTERS: Final = rb'"type":"(?:policy_set|key_rotate)"|"rotations":'
_DASH: Final = "\u2014 "


class NothingToProve(LedgerError):
    """No record belongs to the question."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The question: the records of these tasks and sessions, and those with these numbers."""

    tasks: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    seqs: tuple[int, ...] = ()

    def words(self) -> str:
        """Return the question in words."""
        parts = [f"task {task}" for task in self.tasks]
        parts += [f"session {session}" for session in self.sessions]
        parts += [f"record {seq}" for seq in self.seqs]
        return ", ".join(parts)

    def asks_for(self, record: Mapping[str, Any]) -> bool:
        """Tell whether a record was asked for."""
        return (
            record["seq"] in self.seqs
            or record.get("task") in self.tasks
            or record.get("run") in self.sessions
        )


@dataclass(frozen=True, slots=True)
class LogPart:
    """What a bundle will hold of one log. `why` and `lines` are by record number."""

    origin: str
    checkpoint: Checkpoint
    why: Mapping[int, str]
    files: Mapping[str, bytes]
    texts_missing: int
    anchored: bool
    tiles_wrong: bool


@dataclass(frozen=True, slots=True)
class Made:
    """A finished bundle."""

    data: bytes
    logs: tuple[LogPart, ...]

    @property
    def records(self) -> int:
        """How many records are in it."""
        return sum(len(log.why) for log in self.logs)


@dataclass(slots=True)
class _Chosen:
    """Records gathered so far: lines, contents, and why each is there."""

    lines: dict[int, bytes] = field(default_factory=dict)
    records: dict[int, dict[str, Any]] = field(default_factory=dict)
    why: dict[int, str] = field(default_factory=dict)

    def add(self, why: str, record: dict[str, Any], line: bytes) -> None:
        seq = record["seq"]
        if seq not in self.lines:
            self.lines[seq], self.records[seq], self.why[seq] = line, record, why


def make_bundle(
    directories: Sequence[Path],
    selection: Selection,
    *,
    verifier: bytes | None = None,
    with_texts: bool = True,
) -> Made:
    """Return the bundle that answers `selection` from the logs in `directories`.

    A log without a record for it is left out. Without `with_texts`, so are the policy and settings
    texts: a policy may hold terms that its reader must not see. `verifier` is the text of
    `ledger_verify.py`; the one beside this module by default. Raises NothingToProve, or
    LedgerError when a log cannot be read or its records do not give the signed root.
    """
    if len(directories) > 1 and selection.seqs:
        raise LedgerError("A record number names a record of one ledger; give only that ledger.")
    parts: list[LogPart] = []
    for directory in directories:
        part = _part(directory, selection, len(parts), with_texts=with_texts)
        if part is not None:
            parts.append(part)
    if not parts:
        raise NothingToProve(
            f"There is no record of {selection.words()} in {', '.join(map(str, directories))}; "
            "`sphragis log` shows what there is."
        )
    verifier = _verifier() if verifier is None else verifier
    members = {name: data for part in parts for name, data in part.files.items()}
    members[README] = readme(
        selection.words(), parts, has_verifier=bool(verifier), has_texts=with_texts
    ).encode()
    if verifier:
        members[VERIFIER] = verifier
    members[MANIFEST] = _manifest(selection, parts, members, with_texts=with_texts)
    return Made(pack(members), tuple(parts))


def write_bundle(path: Path, made: Made) -> None:
    """Write a bundle to a file. Raises LedgerError."""
    write_private(path, made.data)


def write_private(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, readable to its owner only. Raises LedgerError."""
    try:
        with whole_file(path) as file:
            file.write(data)
    except OSError as error:
        raise LedgerError(
            f"{path} cannot be written ({reason(error)}); name another file."
        ) from error


def _verifier() -> bytes:
    path = Path(__file__).with_name(VERIFIER)
    return path.read_bytes() if path.is_file() else b""


# -- which records ---------------------------------------------------------------------------------


def _part(
    directory: Path, selection: Selection, number: int, *, with_texts: bool
) -> LogPart | None:
    with Prover(directory) as prover:
        newest = prover.newest()
        size = prover.check(newest).size
        chosen = _Chosen()
        _gather(prover, selection, size, chosen)
        if not chosen.lines:
            return None
        _add_pairs(prover, size, chosen)
        _add_setters(prover, size, chosen)
        if prover.archive.first == 0:
            line = prover.archive.line(0)
            chosen.add("identity", orjson.loads(line), line)
        note, anchors = _checkpoint_for(prover, max(chosen.lines) + 1, newest)
        files = _files(prover, number, chosen, note, anchors)
        texts, missing = _texts(directory, number, chosen) if with_texts else ({}, 0)
        return LogPart(
            origin=prover.origin,
            checkpoint=prover.check(note),
            why=dict(sorted(chosen.why.items())),
            files={**files, **texts},
            texts_missing=missing,
            anchored=bool(anchors) or is_cosigned(note, prover.origin),
            tiles_wrong=prover.tiles_wrong,
        )


def _gather(prover: Prover, selection: Selection, size: int, chosen: _Chosen) -> None:
    """Add the records that were asked for."""
    archive = prover.archive
    for seq in selection.seqs:
        if seq >= size:
            raise NothingToProve(f"There is no record {seq}: the log has {size} records.")
        line = archive.line(seq)
        chosen.add("selected", orjson.loads(line), line)
    words = [("task", task) for task in selection.tasks]
    words += [("run", session) for session in selection.sessions]
    for name, value in words:
        # A record is canonical JSON, so there is one spelling to look for.
        pattern = re.escape(orjson.dumps({name: value})[1:-1])
        for _, record, line in archive.search(pattern, end=size):
            if record.get(name) == value:
                chosen.add("selected", record, line)


def _add_pairs(prover: Prover, size: int, chosen: _Chosen) -> None:
    """Add the other half of each request, outcome, opened and decided gate."""
    records = list(chosen.records.values())
    for record in records:
        if record["type"] == "outcome" and type(record.get("ref")) is int:
            _add_line(prover, record["ref"], chosen)
    answered = {record.get("ref") for record in records if record["type"] == "outcome"}
    asked = {record["seq"] for record in records if record["type"] == "request"} - answered
    for _, record, line in outcomes_of(prover.archive, asked, size):
        chosen.add("pair", record, line)
    _add_gates(prover, size, records, chosen)


def _add_line(prover: Prover, seq: int, chosen: _Chosen) -> None:
    try:
        line = prover.archive.line(seq)
        chosen.add("pair", orjson.loads(line), line)
    except RecordGone:
        return  # pruned; the verifier of the bundle says that it is not here


def _add_gates(
    prover: Prover, size: int, records: Iterable[Mapping[str, Any]], chosen: _Chosen
) -> None:
    """Gate numbers may begin again in another session, so a half pairs with the nearest other."""
    opened = {_gate(record) for record in records if record["type"] == "gate_open"}
    decided = {_gate(record) for record in records if record["type"] == "gate_decision"}
    halves = [r for r in records if r["type"].startswith("gate_") and _gate(r)[1] is not None]
    for half in halves:
        if _gate(half) in opened & decided:
            continue
        pattern = re.escape(orjson.dumps({"id": _gate(half)[1]})[1:-1])
        others = [
            (seq, record, line)
            for seq, record, line in prover.archive.search(pattern, end=size)
            if record["type"] in ("gate_open", "gate_decision")
            and record["type"] != half["type"]
            and _gate(record) == _gate(half)
        ]
        if half["type"] == "gate_open":
            others = [other for other in others if other[0] > half["seq"]][:1]
        else:
            others = [other for other in others if other[0] < half["seq"]][-1:]
        for _, record, line in others:
            chosen.add("pair", record, line)


def _gate(record: Mapping[str, Any]) -> tuple[Any, Any]:
    gate = record.get("gate")
    name = gate.get("id") if type(gate) is dict else None
    return record.get("run"), name if type(name) is str else None


def _add_setters(prover: Prover, size: int, chosen: _Chosen) -> None:
    """Add every key rotation, what prunings carry on of older ones, and for each decision the
    policy_set that was in force."""
    carriers: list[tuple[dict[str, Any], bytes]] = []
    last: dict[str, tuple[int, dict[str, Any], bytes]] = {}
    decisions = sorted(
        (seq, digest)
        for seq, record in chosen.records.items()
        if record["type"] != "policy_set" and (digest := _policy_digest(record))
    )
    for seq, record, line in [*prover.archive.search(_SETTERS, end=size), (size, {}, b"")]:
        while decisions and decisions[0][0] < seq:
            setter = last.get(decisions.pop(0)[1])
            if setter is not None:
                chosen.add("policy", setter[1], setter[2])
        if record.get("type") == "key_rotate":
            chosen.add("key", record, line)
        elif record.get("type") == "policy_set":
            last[_policy_digest(record)] = seq, record, line
        elif record.get("type") == "erase":
            carriers.append((record, line))
    _add_carriers(carriers, chosen)


def _add_carriers(carriers: list[tuple[dict[str, Any], bytes]], chosen: _Chosen) -> None:
    """Add the newest records of prunings that together carry on every rotation."""
    known: set[str] = set()
    for record, line in reversed(carriers):
        ext = record.get("ext")
        carried = rotations_in([ext]) if type(ext) is dict else []
        notes = {str(one.get("note")) for one in carried if type(one) is dict}
        if not notes <= known:
            chosen.add("key", record, line)
            known |= notes


def _policy_digest(record: Mapping[str, Any]) -> str:
    policy = record.get("policy")
    digest = policy.get("digest") if type(policy) is dict else None
    return digest if type(digest) is str else ""


# -- which checkpoint ------------------------------------------------------------------------------


def _checkpoint_for(prover: Prover, least: int, newest: str) -> tuple[str, dict[str, bytes]]:
    """Return the note that all proofs will be for, and what is kept about it, by kind.

    Of the checkpoints over all chosen records: the one that most others witnessed or stamped, of
    these the earliest, because it bounds the time of the records best; HEAD for the newest.
    """
    folder, limit = prover.archive.directory / ANCHORS, prover.check(newest).size
    best: tuple[tuple[int, int], str, dict[str, bytes]] | None = None
    for size in sorted(_anchored_sizes(folder)):
        if not least <= size <= limit:
            continue
        kinds = _read_anchors(folder, size)
        note = _whole_note(prover, size, kinds)
        if note is not None and len(kinds) > 1:
            rank = len(kinds), -size
            if best is None or rank > best[0]:
                best = rank, note, kinds
    if best is not None:
        return best[1], best[2]
    head = read_head(prover.archive.directory)
    with contextlib.suppress(NoteRefused):
        size = prover.check(head).size
        if size == limit or (least <= size <= limit and is_cosigned(head, prover.origin)):
            return head, {}
    return newest, {}


def is_cosigned(note: str, origin: str) -> bool:
    """Tell whether others than the log signed a note."""
    return any(name != origin for name, _ in split_note(note)[1])


def _anchored_sizes(folder: Path) -> list[int]:
    try:
        names = [path.stem for path in folder.glob("*.checkpoint")]
    except OSError:
        return []
    return [int(name) for name in names if re.fullmatch(r"[1-9][0-9]{0,15}", name)]


def _read_anchors(folder: Path, size: int) -> dict[str, bytes]:
    kinds = {}
    for kind in ANCHOR_KINDS:
        try:
            kinds[kind] = (folder / f"{size}.{kind}").read_bytes()
        except OSError:
            continue
    return kinds


def _whole_note(prover: Prover, size: int, kinds: dict[str, bytes]) -> str | None:
    """Return the anchored checkpoint with its cosignatures, if all of it is as it should be."""
    try:
        note = kinds.get("checkpoint", b"").decode("utf-8")
        if prover.check(note).size != size:
            return None
        for line in kinds.get("cosig", b"").decode("utf-8").splitlines():
            note += f"{line}\n" if line.startswith(_DASH) and f"\n{line}\n" not in note else ""
        prover.check(note)
    except (NoteRefused, UnicodeDecodeError):
        return None
    digest = hashlib.sha256(kinds["checkpoint"]).digest()
    for kind in ("tsr", "ots"):
        if digest not in kinds.get(kind, digest):
            del kinds[kind]  # not for this checkpoint: it would only raise doubt
    return note


# -- the files -------------------------------------------------------------------------------------


def _files(
    prover: Prover, number: int, chosen: _Chosen, note: str, anchors: Mapping[str, bytes]
) -> dict[str, bytes]:
    point = prover.check(note)
    files = {
        f"logs/{number}/{LOG_JSON}": (prover.archive.directory / LOG_JSON).read_bytes(),
        f"logs/{number}/{CHECKPOINT}": note.encode(),
    }
    for kind, data in anchors.items():
        files[anchor_name(number, point.size, kind)] = data
    for seq, line in chosen.lines.items():
        proof = prover.inclusion(seq, note, line)
        files[record_name(number, seq, "json")] = line
        files[record_name(number, seq, "tlog-proof")] = proof.text().encode()
    return files


def _texts(directory: Path, number: int, chosen: _Chosen) -> tuple[dict[str, bytes], int]:
    """Return the texts that the chosen records name, and how many the log does not have."""
    files, missing = {}, 0
    for digest in {digest for _, digest in texts_named(chosen.records)}:
        try:
            files[text_name(number, digest)] = read_text(directory, digest)
        except TextMissing:
            missing += 1
    return files, missing


def _manifest(
    selection: Selection,
    parts: Sequence[LogPart],
    members: Mapping[str, bytes],
    *,
    with_texts: bool,
) -> bytes:
    left_out = {} if with_texts else {"texts": LEFT_OUT}
    return manifest_bytes(
        {
            **left_out,
            "bundle": FORMAT,
            "files": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
            "logs": [
                {
                    "origin": part.origin,
                    "records": {str(seq): why for seq, why in part.why.items()},
                    "root": part.checkpoint.root.hex(),
                    "size": part.checkpoint.size,
                }
                for part in parts
            ],
            "selection": {
                "seqs": sorted(set(selection.seqs)),
                "sessions": sorted(set(selection.sessions)),
                "tasks": sorted(set(selection.tasks)),
            },
        }
    )
