"""The verification of a proof bundle: what its files show, each doubt by name.

Owns the order of the rules that the docstring of `bundle` lists, and the verdict on all of them.
Invariant: a record counts only when its bytes lead through its proof to a root that a trusted key
signed; the manifest and the README are compared, never trusted. Raises nothing on any content.
The files are judged by `bundle_manifest`, each log by `bundle_log`, `bundle_anchors` and
`bundle_records`. Called through `bundle.verify_bundle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared.ledger.bundle import NotABundle, unpack
from shared.ledger.bundle_anchors import check_anchors
from shared.ledger.bundle_log import JudgedLog, prove
from shared.ledger.bundle_manifest import check_files, check_manifest, read_manifest
from shared.ledger.bundle_records import check_pairs, check_policies, check_run_receipt, check_texts
from shared.ledger.checkpoint import VerifierKey, parse_vkey
from shared.ledger.errors import LedgerError
from shared.ledger.storage import reason
from shared.ledger.verdict import Finding, Findings, Status, Verdict


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
    manifest = read_manifest(bundle, findings)
    check_files(bundle, manifest, findings)
    left_out = "texts" in manifest
    logs = [
        JudgedLog(number, bundle.logs[number], findings, left_out) for number in sorted(bundle.logs)
    ]
    if not logs:
        findings.add("empty", None, "The bundle holds no log.", Status.INCOMPLETE)
    for log in logs:
        _check_log(log, given, cosigners)
    for receipt in run_receipts:
        check_run_receipt(logs, receipt, findings)
    if all(found.code != "manifest_changed" for found in findings):
        check_manifest(manifest, logs, findings)
    return _verdict(findings, logs)


def _cosigners(witnesses: Sequence[str]) -> list[Any]:
    if not witnesses:
        return []
    from shared.anchors.cosignature import parse_cosigner_vkey

    return [parse_cosigner_vkey(vkey) for vkey in witnesses]


def _usage(code: str, sentence: str) -> Verdict:
    return Verdict(Status.USAGE, findings=(Finding(code, None, sentence, Status.USAGE),))


def _check_log(log: JudgedLog, given: Sequence[VerifierKey], cosigners: Sequence[Any]) -> None:
    prove(log, given)
    check_anchors(log, cosigners)
    check_pairs(log)
    check_policies(log)
    check_texts(log)


def _verdict(findings: Findings, logs: Sequence[JudgedLog]) -> Verdict:
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
