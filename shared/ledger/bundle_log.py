"""One log of a proof bundle: which keys may sign, and which records are proven.

Owns the steps from bytes to records that can be believed: the log's name and keys, its checkpoint,
the chain of keys through its rotations, the proof of each record. Invariant: a record is in
`records` only when its bytes lead through its proof to a root that a trusted key signed, or when
the findings say why that root cannot be believed. Pure. Called by `bundle_check`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from shared.ledger.bundle import BundledLog
from shared.ledger.checkpoint import (
    Checkpoint,
    VerifierKey,
    open_note,
    parse_checkpoint,
    parse_vkey,
    split_note,
)
from shared.ledger.errors import NoteRefused
from shared.ledger.key_chain import rotation, rotations_in
from shared.ledger.merkle import leaf_hash
from shared.ledger.proofs import ProofRefused, parse_tlog_proof
from shared.ledger.record import LineRefused, parse
from shared.ledger.verdict import Findings, Status


@dataclass(slots=True)
class JudgedLog:
    """One log of the bundle while it is judged."""

    number: int
    files: BundledLog
    findings: Findings
    texts_left_out: bool = False
    origin: str = ""
    vkeys: list[VerifierKey] = field(default_factory=list)
    note: str = ""
    checkpoint: Checkpoint | None = None
    trusted: list[VerifierKey] = field(default_factory=list)
    records: dict[int, dict[str, Any]] = field(default_factory=dict)

    def add(
        self, code: str, seq: int | None, sentence: str, means: Status = Status.TAMPERED
    ) -> None:
        """Add a finding; with several logs, its sentence says which one it is about."""
        where = f" (log {self.origin or self.number})" if self.number else ""
        self.findings.add(code, seq, f"{sentence}{where}", means)


def prove(log: JudgedLog, given: Sequence[VerifierKey]) -> None:
    """Fill in what is proven of `log`; `given` are the keys that the caller trusts, of any log."""
    _read_identity(log)
    _read_checkpoint(log)
    _trust(log, given)
    _check_checkpoint(log)
    _check_proofs(log)


def _read_identity(log: JudgedLog) -> None:
    try:
        value = orjson.loads(log.files.identity or b"")
        if type(value["origin"]) is not str or type(value["vkeys"]) is not list:
            raise TypeError
        log.origin, log.vkeys = value["origin"], [parse_vkey(vkey) for vkey in value["vkeys"]]
        if not log.vkeys or any(key.name != log.origin for key in log.vkeys):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, NoteRefused):
        log.add("log_json_changed", None, "log.json cannot be read: it was changed or left out.")


def _read_checkpoint(log: JudgedLog) -> None:
    try:
        log.note = (log.files.checkpoint or b"").decode("utf-8")
        log.checkpoint = parse_checkpoint(split_note(log.note)[0])
    except (UnicodeDecodeError, NoteRefused):
        log.note = ""
        log.add("checkpoint_changed", None, "The checkpoint was changed or left out.")
        return
    log.origin = log.origin or log.checkpoint.origin
    if log.checkpoint.origin != log.origin:
        log.add("checkpoint_changed", None, "The checkpoint is of another log.")


def _trust(log: JudgedLog, given: Sequence[VerifierKey]) -> None:
    """Decide which keys may sign: the given one of this log, and those its rotations lead to."""
    known = [key for key in given if key.name == log.origin]
    if given and not known:
        log.add(
            "key_missing",
            None,
            "No public key was given for this log, so nothing in it can be believed.",
            Status.INCOMPLETE,
        )
        return
    if not known:
        known = log.vkeys[:1]
        log.findings.note(
            "key_from_bundle",
            None,
            f"The public key of {log.origin} is the bundle's own; compare it with one from a "
            "place you trust.",
        )
    log.trusted = _chain(log, known)


def _chain(log: JudgedLog, known: Sequence[VerifierKey]) -> list[VerifierKey]:
    """Follow the key rotations from the known keys, forward and back."""
    steps = [step for line in log.files.records.values() for step in _rotations(log, line)]
    chain, grown = list(known), True
    while grown:
        grown = False
        for pair in steps:
            if any(key in chain for key in pair) and not all(key in chain for key in pair):
                chain += [key for key in pair if key not in chain]
                grown = True
    return chain


def _rotations(log: JudgedLog, line: bytes | None) -> list[tuple[VerifierKey, VerifierKey]]:
    """Return the old and the new key of each rotation in a record that both of them signed: a
    `key_rotate` record's own, or those that the record of a pruning carries on."""
    if line is None or (b'"type":"key_rotate"' not in line and b'"rotations":' not in line):
        return []
    try:
        record = parse(line)
    except LineRefused:
        return []
    found = [record]
    if record["type"] == "erase" and type(record.get("ext")) is dict:
        carried = [one for one in rotations_in([record["ext"]]) if type(one) is dict]
        found = [{"seq": one.get("seq"), "ext": one} for one in carried]
    elif record["type"] != "key_rotate":
        return []
    return [pair for each in found if (pair := rotation(each, log.origin))]


def _check_checkpoint(log: JudgedLog) -> None:
    if log.checkpoint is None or not log.trusted:
        return
    trusted = {(key.name, key.key_id) for key in log.trusted}
    signers = {(name, blob[:4]) for name, blob in split_note(log.note)[1]}
    if not trusted & signers:
        log.add(
            "key_unknown",
            None,
            "The checkpoint is signed by a key that the given public key does not lead to.",
        )
        return
    try:
        open_note(log.note, log.trusted)
    except NoteRefused:
        log.add("checkpoint_changed", None, "The checkpoint is not what the log signed.")


def _check_proofs(log: JudgedLog) -> None:
    files = log.files
    for seq in sorted(files.records.keys() | files.proofs.keys()):
        line, proof = files.records.get(seq), files.proofs.get(seq)
        if seq not in files.records or seq not in files.proofs:
            what = "its proof" if seq in files.records else "the record itself"
            log.add("proof_missing", seq, f"Of record {seq}, {what} is missing.", Status.INCOMPLETE)
        elif line is None or proof is None:
            continue  # file_changed says so
        else:
            _check_proof(log, seq, line, proof)


def _check_proof(log: JudgedLog, seq: int, line: bytes, data: bytes) -> None:
    try:
        proof = parse_tlog_proof(data.decode("utf-8"))
        if proof.index != seq or proof.note.encode() != log.files.checkpoint or proof.extra:
            raise ProofRefused("for something else")
    except (ProofRefused, UnicodeDecodeError):
        log.add(
            "proof_changed",
            seq,
            f"The proof of record {seq} is not one for this record and checkpoint.",
        )
        return
    if log.checkpoint is None:
        return
    if not proof.shows(leaf_hash(line), log.checkpoint):
        log.add(
            "record_changed",
            seq,
            f"Record {seq} or its proof was changed: they do not lead to the signed root.",
        )
        return
    try:
        record = parse(line)
    except LineRefused as error:
        log.add("record_changed", seq, f"Record {seq} is not a record: {error}.")
        return
    if record["seq"] != seq:
        log.add("record_changed", seq, f"Record {seq} gives another record number.")
        return
    log.records[seq] = record
