"""The verification of a proof bundle: what its files show, each doubt by name.

Owns the rules that the docstring of `bundle` lists. Invariant: a record counts only when its
bytes lead through its proof to a root that a trusted key signed; the manifest and the README are
compared, never trusted. Raises nothing on any content. Called through `bundle.verify_bundle`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from shared.ledger.bundle import (
    FORMAT,
    LEFT_OUT,
    MANIFEST,
    BundledLog,
    NotABundle,
    Unpacked,
    manifest_bytes,
    seq_of,
    unpack,
)
from shared.ledger.checkpoint import (
    Checkpoint,
    VerifierKey,
    open_note,
    parse_checkpoint,
    parse_vkey,
    split_note,
)
from shared.ledger.errors import LedgerError, NoteRefused
from shared.ledger.key_chain import rotation, rotations_in
from shared.ledger.merkle import leaf_hash
from shared.ledger.proofs import ProofRefused, parse_tlog_proof
from shared.ledger.record import LineRefused, parse
from shared.ledger.run_receipt import compare, open_run_receipt
from shared.ledger.storage import reason
from shared.ledger.verdict import Finding, Findings, Status, Verdict

_KEYS = ("bundle", "files", "logs", "selection")
_WHY = frozenset({"selected", "pair", "policy", "key", "identity"})


@dataclass(slots=True)
class _Log:
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
        where = f" (log {self.origin or self.number})" if self.number else ""
        self.findings.add(code, seq, f"{sentence}{where}", means)


def check_bundle(
    path: Path, vkeys: Sequence[str], witnesses: Sequence[str], run_receipts: Sequence[str] = ()
) -> Verdict:
    """Return the verdict on the bundle at `path`; see `bundle.verify_bundle`."""
    try:
        given = [parse_vkey(vkey) for vkey in vkeys]
        cosigners = _cosigners(witnesses)
    except LedgerError as error:
        return _usage("bad_vkey", str(error))
    try:
        bundle = unpack(path)
    except NotABundle as error:
        return _usage("not_a_bundle", str(error))
    except OSError as error:
        return _usage(
            "unreadable", f"{path} cannot be read ({reason(error)}); check the path and its mode."
        )
    findings = Findings()
    manifest = _manifest(bundle, findings)
    _check_files(bundle, manifest, findings)
    left_out = "texts" in manifest
    logs = [_Log(number, bundle.logs[number], findings, left_out) for number in sorted(bundle.logs)]
    if not logs:
        findings.add("empty", None, "The bundle holds no log.", Status.INCOMPLETE)
    for log in logs:
        _check_log(log, given, cosigners)
    for receipt in run_receipts:
        _check_run_receipt(logs, receipt, findings)
    if not any(code == "manifest_changed" for code in _codes(findings)):
        _check_manifest(manifest, logs, findings)
    return _verdict(findings, logs)


def _cosigners(witnesses: Sequence[str]) -> list[Any]:
    if not witnesses:
        return []
    from shared.anchors.cosignature import parse_cosigner_vkey

    return [parse_cosigner_vkey(vkey) for vkey in witnesses]


def _usage(code: str, sentence: str) -> Verdict:
    return Verdict(Status.USAGE, findings=(Finding(code, None, sentence, Status.USAGE),))


def _codes(findings: Findings) -> set[str]:
    return {finding.code for finding in findings}


def _verdict(findings: Findings, logs: Sequence[_Log]) -> Verdict:
    first = logs[0] if logs else None
    checkpoint = first.checkpoint if first else None
    return Verdict(
        status=findings.status(),
        records=sum(len(log.records) for log in logs),
        findings=tuple(sorted(findings, key=lambda found: -1 if found.seq is None else found.seq)),
        notes=tuple(findings.notes),
        more=findings.more,
        origin=first.origin if first else "",
        root=checkpoint.root.hex() if checkpoint else "",
        checkpoint=first.note if first else "",
        vkey=first.trusted[0].vkey() if first and first.trusted else "",
    )


# -- the files and the manifest --------------------------------------------------------------------


def _manifest(bundle: Unpacked, findings: Findings) -> Mapping[str, Any]:
    """Return the manifest, or an empty one when it cannot be read."""
    data = bundle.members[MANIFEST]
    try:
        value = orjson.loads(data or b"")
        if manifest_bytes(value) != data or value["bundle"] != FORMAT or not _is_shaped(value):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        findings.add("manifest_changed", None, f"{MANIFEST} cannot be read: it was changed.")
        return {}
    return dict(value)


def _is_shaped(value: Any) -> bool:
    chosen = value["selection"]
    return (
        set(value) in ({*_KEYS}, {*_KEYS, "texts"})
        and value.get("texts", LEFT_OUT) == LEFT_OUT
        and all(type(digest) is str for digest in value["files"].values())
        and set(chosen) == {"seqs", "sessions", "tasks"}
        and all(type(items) is list for items in chosen.values())
        and all(_is_log(entry) for entry in value["logs"])
    )


def _is_log(entry: Any) -> bool:
    return (
        set(entry) == {"origin", "records", "root", "size"}
        and all(number.isdecimal() for number in entry["records"])
        and set(entry["records"].values()) <= _WHY
    )


def _check_files(bundle: Unpacked, manifest: Mapping[str, Any], findings: Findings) -> None:
    listed = manifest.get("files")
    for name in bundle.odd:
        findings.add("file_unlisted", None, f"{_shown(name)} does not belong into a bundle.")
    for name, data in bundle.members.items():
        seq = seq_of(name)
        if data is None:
            findings.add("file_changed", seq, f"{name} was changed: it cannot be read.")
        elif listed is None or name == MANIFEST:
            continue
        elif name not in listed:
            findings.add("file_unlisted", seq, f"{name} is not in the list of {MANIFEST}.")
        elif hashlib.sha256(data).hexdigest() != listed[name]:
            findings.add("file_changed", seq, f"{name} is not the file that {MANIFEST} lists.")
    for name in listed or ():
        if name not in bundle.members:
            findings.add("file_missing", None, f"{_shown(name)} is missing.", Status.INCOMPLETE)


def _shown(name: str) -> str:
    return name if name.isascii() and name.isprintable() and len(name) < 100 else "A file"


def _check_manifest(manifest: Mapping[str, Any], logs: Sequence[_Log], findings: Findings) -> None:
    """Compare what the manifest says with what is there."""

    def changed(what: str, seq: int | None = None) -> None:
        findings.add("manifest_changed", seq, f"{MANIFEST} was changed: {what}.")

    entries = manifest["logs"]
    if [log.number for log in logs] != list(range(len(entries))):
        changed("it does not list the logs that are here")
        return
    for log, entry in zip(logs, entries, strict=True):
        point = log.checkpoint
        said = (entry["origin"], entry["size"], entry["root"])
        if point is not None and said != (point.origin, point.size, point.root.hex()):
            changed("it names another checkpoint than the one that is here")
        if not {str(seq) for seq in log.files.records} <= set(entry["records"]):
            changed("it does not list the records that are here")
        for number, why in entry["records"].items():
            record = log.records.get(int(number))
            if record is not None and (why == "selected") is not _is_selected(record, manifest):
                changed(f"record {number} is not what it says", int(number))


def _is_selected(record: Mapping[str, Any], manifest: Mapping[str, Any]) -> bool:
    chosen = manifest["selection"]
    return (
        record["seq"] in chosen["seqs"]
        or record.get("task") in chosen["tasks"]
        or record.get("run") in chosen["sessions"]
    )


# -- one log ---------------------------------------------------------------------------------------


def _check_log(log: _Log, given: Sequence[VerifierKey], cosigners: Sequence[Any]) -> None:
    _read_identity(log)
    _read_checkpoint(log)
    _trust(log, given)
    _check_checkpoint(log)
    _check_proofs(log)
    _check_anchors(log, cosigners)
    _check_pairs(log)
    _check_policies(log)
    _check_texts(log)


def _read_identity(log: _Log) -> None:
    try:
        value = orjson.loads(log.files.identity or b"")
        if type(value["origin"]) is not str or type(value["vkeys"]) is not list:
            raise TypeError
        log.origin, log.vkeys = value["origin"], [parse_vkey(vkey) for vkey in value["vkeys"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, NoteRefused):
        log.add("log_json_changed", None, "log.json cannot be read: it was changed or left out.")


def _read_checkpoint(log: _Log) -> None:
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


def _trust(log: _Log, given: Sequence[VerifierKey]) -> None:
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


def _chain(log: _Log, known: Sequence[VerifierKey]) -> list[VerifierKey]:
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


def _rotations(log: _Log, line: bytes | None) -> list[tuple[VerifierKey, VerifierKey]]:
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


def _check_checkpoint(log: _Log) -> None:
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


def _check_proofs(log: _Log) -> None:
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


def _check_proof(log: _Log, seq: int, line: bytes, data: bytes) -> None:
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


# -- what was sent away ----------------------------------------------------------------------------


def _check_anchors(log: _Log, cosigners: Sequence[Any]) -> None:
    point = log.checkpoint
    if point is None:
        return
    stamped = log.files.anchors.get((point.size, "checkpoint"))
    for (size, kind), data in sorted(log.files.anchors.items()):
        if data is None:
            continue
        if size != point.size:
            log.add("anchor_changed", None, f"{size}.{kind} is not about this checkpoint.")
        elif kind == "checkpoint":
            _check_anchored_note(log, data)
        elif kind == "cosig":
            if not data.strip() or not set(data.splitlines()) <= set(
                log.note.encode().splitlines()
            ):
                log.add("cosignature_bad", None, "The cosignatures are not on the checkpoint.")
        elif stamped is None or hashlib.sha256(stamped).digest() not in data:
            log.add("stamp_bad", None, f"The stamp {size}.{kind} is not for the checkpoint.")
    _check_cosignatures(log, cosigners)


def _check_anchored_note(log: _Log, data: bytes) -> None:
    try:
        text = open_note(data.decode("utf-8"), log.trusted) if log.trusted else ""
        good = not log.trusted or parse_checkpoint(text) == log.checkpoint
    except (UnicodeDecodeError, NoteRefused):
        good = False
    if not good:
        log.add("anchor_changed", None, "The stamped checkpoint is not the one of the proofs.")


def _check_cosignatures(log: _Log, cosigners: Sequence[Any]) -> None:
    if not cosigners:
        if any(kind == "cosig" for _, kind in log.files.anchors):
            log.findings.note(
                "cosignatures_unchecked",
                None,
                f"The checkpoint of {log.origin} carries cosignatures; give the witnesses' public "
                "keys to have them checked.",
            )
        return
    from shared.anchors.cosignature import verify_cosignatures

    try:
        found = verify_cosignatures(log.note, cosigners)
    except NoteRefused:
        log.add("cosignature_bad", None, "A cosignature does not fit the checkpoint.")
        return
    for cosignature in found:
        log.findings.note(
            "cosigned",
            None,
            f"{cosignature.name} saw this checkpoint of {log.origin} at Unix time "
            f"{cosignature.time}.",
        )
    if not found:
        log.findings.note(
            "not_cosigned", None, f"No given witness cosigned this checkpoint of {log.origin}."
        )


# -- between the records ---------------------------------------------------------------------------


def _check_pairs(log: _Log) -> None:
    here, answered = log.files.records.keys() | log.files.proofs.keys(), set[int]()
    for seq, record in sorted(log.records.items()):
        if record["type"] != "outcome":
            continue
        ref = record.get("ref")
        request = log.records.get(ref) if type(ref) is int else None
        if type(ref) is int and ref < seq and ref not in here:
            log.add(
                "outcome_unpaired",
                seq,
                f"Record {seq} is the outcome of record {ref}, which is not here.",
                Status.INCOMPLETE,
            )
        elif type(ref) is int and ref < seq and request is None:
            continue  # the request itself was found wanting
        elif request is None or request["type"] != "request" or ref in answered:
            log.add("outcome_unpaired", seq, f"Record {seq} is the outcome of no open request.")
        elif type(ref) is int and ref >= seq:
            log.add("outcome_unpaired", seq, f"Record {seq} is the outcome of a later request.")
        if type(ref) is int:
            answered.add(ref)
    for seq, record in sorted(log.records.items()):
        if record["type"] == "request" and seq not in answered:
            log.add(
                "request_unanswered", seq, f"Request {seq} has no outcome here.", Status.INCOMPLETE
            )


def _check_policies(log: _Log) -> None:
    known: set[str] = set()
    for seq, record in sorted(log.records.items()):
        digest = _digest(record, "policy")
        if record["type"] == "policy_set":
            known.add(digest)
        elif digest and digest not in known:
            log.add(
                "policy_unknown",
                seq,
                f"Record {seq} was decided under a policy that no earlier record here sets.",
                Status.INCOMPLETE,
            )


def _check_texts(log: _Log) -> None:
    named = {digest: seq for seq, digest in texts_named(log.records)}
    why = (
        f"; {MANIFEST} says that the texts were left out on purpose, so ask for this one if you "
        "need it"
        if log.texts_left_out
        else ""
    )
    for digest, seq in named.items():
        if digest not in log.files.texts:
            log.add(
                "text_missing",
                seq,
                f"The text that record {seq} names by its digest is not here{why}.",
                Status.INCOMPLETE,
            )
    for digest, data in log.files.texts.items():
        if data is not None and hashlib.sha256(data).hexdigest() != digest:
            log.add("text_changed", named.get(digest), "A text is not the one its digest names.")


# -- whether it is all -----------------------------------------------------------------------------


def _check_run_receipt(logs: Sequence[_Log], note: str, findings: Findings) -> None:
    for log in logs:
        try:
            _, receipt = open_run_receipt(note, log.trusted)
        except NoteRefused:
            continue
        own = [
            (seq, record)
            for seq, record in sorted(log.records.items())
            if seq < receipt.size and record.get("run") == receipt.run
        ]
        asked = {seq for seq, record in own if record["type"] == "request"}
        own += [
            (seq, record)
            for seq, record in sorted(log.records.items())
            if seq < receipt.size
            and record.get("run") != receipt.run
            and record["type"] == "outcome"
            and type(record.get("ref")) is int
            and record["ref"] in asked
        ]
        for found in compare(receipt, own):
            findings.add(found.code, found.seq, found.sentence, found.means)
        return
    findings.add(
        "receipt_mismatch", None, "A run receipt is by none of the keys of the logs in here."
    )


def texts_named(records: Mapping[int, Mapping[str, Any]]) -> list[tuple[int, str]]:
    """Return (record number, digest) of each text that policy_set and config_set records name."""
    named = []
    for seq, record in sorted(records.items()):
        field_ = {"policy_set": "policy", "config_set": "ext"}.get(record["type"])
        digest = _digest(record, field_) if field_ else ""
        if digest:
            named.append((seq, digest))
    return named


def _digest(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    digest = value.get("digest") if type(value) is dict else None
    return digest if type(digest) is str else ""
