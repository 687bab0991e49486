"""What the records of a proof bundle say about each other, and whether they are all.

Owns the pairs of requests and outcomes, the policies that decisions name, the texts that records
name by digest, and the comparison with a run receipt. Invariant: only proven records are judged,
and what is not here is said to be incomplete, not tampered with. Pure. Called by `bundle_check`,
and by `bundle_make` for the texts that come along.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from shared.ledger.bundle import MANIFEST
from shared.ledger.bundle_log import JudgedLog
from shared.ledger.errors import NoteRefused
from shared.ledger.run_receipt import compare, open_run_receipt
from shared.ledger.verdict import Findings, Status


def check_pairs(log: JudgedLog) -> None:
    """Judge whether each outcome has its request, and each request its one outcome."""
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


def check_policies(log: JudgedLog) -> None:
    """Judge whether each decision names a policy that a record here put in force before."""
    known: set[str] = set()
    for seq, record in sorted(log.records.items()):
        digest = _digest(record, "policy")
        if record["type"] == "policy_set":
            known.add(digest)
        elif digest and digest not in known and record["policy"].get("decision"):
            log.add(
                "policy_unknown",
                seq,
                f"Record {seq} was decided under a policy that no earlier record here sets.",
                Status.INCOMPLETE,
            )


def check_texts(log: JudgedLog) -> None:
    """Judge whether the texts that records name are here, and are what their digests say."""
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


def check_run_receipt(logs: Sequence[JudgedLog], note: str, findings: Findings) -> None:
    """Judge whether the records here are exactly those that a signed run receipt counts."""
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
