"""What is known from outside of a log: earlier checkpoints, receipts, cosignatures, stamps.

Each becomes a claim: that the log once signed this root at this size, at the latest at this time.
A log that has another root there, or fewer records, was changed, rolled back or forked, whoever
holds its key now. Invariant: a claim counts only once its own signature was verified. Pure but
for reading the named files and running `openssl ts`. Called by `verify`.
"""

from __future__ import annotations

import calendar
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import orjson

from shared.ledger.checkpoint import (
    Checkpoint,
    VerifierKey,
    open_note,
    parse_checkpoint,
    split_note,
)
from shared.ledger.errors import NoteRefused
from shared.ledger.merkle import HASH_BYTES
from shared.ledger.run_receipt import SUFFIX as RUN_RECEIPT_SUFFIX
from shared.ledger.run_receipt import is_run_receipt
from shared.ledger.segment import ANCHORS
from shared.ledger.verdict import Findings, Status
from shared.ledger.walk import Walker
from shared.ledger.watch import Seen

#: How far two clocks may be apart, in microseconds.
TOLERANCE_US: Final = 600 * 1_000_000
#: No evidence file is larger than this.
_SMALL: Final = 1 << 20
_STAMP_TIME: Final = re.compile(rb"Time stamp: (\w+ +\d+ [\d:]+)(?:\.\d+)? (\d+) GMT")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,15}")


@dataclass(frozen=True, slots=True)
class Outside:
    """What the caller holds: files of earlier checkpoints, receipts (or files of them),
    cosignature files with the vkey of each witness, RFC 3161 stamps and their authority."""

    priors: Sequence[Path] = ()
    receipts: Sequence[str] = ()
    cosignatures: Sequence[Path] = ()
    witnesses: Sequence[str] = ()
    stamps: Sequence[Path] = ()
    authority: Path | None = None


class EvidenceRefused(ValueError):
    """A piece of evidence that is not one; the text says which."""


@dataclass(frozen=True, slots=True)
class Claim:
    """That the log signed `checkpoint`, not after `when` (microseconds). `code` is what it means
    when the log disagrees; `what` names the evidence. `signature` is a receipt's; else `note`
    carries it. A claim that is `broken` is not what its maker signed."""

    code: str
    what: str
    checkpoint: Checkpoint
    note: str = ""
    signature: bytes = b""
    when: int | None = None
    broken: bool = False

    def is_by(self, keys: Sequence[VerifierKey]) -> bool:
        """Tell whether one of the log's keys in force at that size signed it."""
        if self.broken or not keys or self.checkpoint.origin != keys[0].name:
            return False
        if self.note:
            try:
                open_note(self.note, keys)
            except NoteRefused:
                return False
            return True
        text, blob = self.checkpoint.text().encode(), self.signature
        return any(blob[:4] == key.key_id and key.accepts(text, blob[4:]) for key in keys)


def collect(outside: Outside, directory: Path | None, findings: Findings) -> list[Claim]:
    """Return all claims. Raises EvidenceRefused when a given file is not what it should be."""
    claims = [] if directory is None else list(_anchors(directory, findings))
    for path in outside.priors:
        claims.append(_note_claim("prior_mismatch", f"the checkpoint {path.name}", path))
    for text in outside.receipts:
        claims += _receipts(text)
    for path, vkey in zip(outside.cosignatures, outside.witnesses, strict=False):
        claims.append(_cosigned(path, vkey))
    for path in outside.stamps:
        claims += _stamped(path, directory, outside.authority, findings)
    return claims


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_SMALL).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EvidenceRefused(f"{path} cannot be read as text; check the file.") from error


def _note_claim(code: str, what: str, path: Path) -> Claim:
    note = _read(path)
    try:
        return Claim(code, what, parse_checkpoint(split_note(note)[0]), note=note)
    except NoteRefused as error:
        raise EvidenceRefused(f"{path} is not a signed checkpoint; check the file.") from error


def _anchors(directory: Path, findings: Findings) -> Iterator[Claim]:
    """The log's own published checkpoints."""
    for path in sorted((directory / ANCHORS).glob("*.checkpoint")):
        try:
            yield _note_claim("prior_mismatch", f"the anchor {path.name}", path)
        except EvidenceRefused:
            findings.add(
                "prior_mismatch", None, f"The anchor {path.name} was changed: it cannot be read."
            )


def _receipts(text: str) -> list[Claim]:
    """One receipt, or a file with one per line."""
    content = text if text.count(";") == 4 else _receipt_file(text)
    if is_run_receipt(content):
        return [_run_receipt(content)]
    return [_receipt(line) for line in content.split("\n") if line.strip()]


def run_receipts(outside: Outside) -> list[str]:
    """Return the run receipts among the receipts. Raises EvidenceRefused."""
    files = [text for text in outside.receipts if text.count(";") != 4]
    return [content for text in files if is_run_receipt(content := _receipt_file(text))]


def _receipt_file(text: str) -> str:
    """Return what is in the file of this name. Raises EvidenceRefused."""
    try:
        return _read(Path(text))
    except (EvidenceRefused, ValueError) as error:  # ValueError: no name of a file at all
        shown = text if text.isprintable() and len(text) <= 200 else f"{len(text)} characters"
        raise EvidenceRefused(
            f"{shown} is neither a receipt nor a file that can be read; a receipt looks like "
            "origin;seq;size;root;signature, as in the header X-Audit-Receipt of an answer."
        ) from error


def _run_receipt(note: str) -> Claim:
    """A run receipt as evidence of its size and root; `run_receipt` counts its records."""
    name, _, content = split_note(note)[0].partition("\n")
    try:
        value = orjson.loads(content)
        size, root = value["size"], bytes.fromhex(value["root"])
        if type(size) is not int or size < 1 or len(root) != HASH_BYTES:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EvidenceRefused("The run receipt cannot be read; check the file.") from error
    checkpoint = Checkpoint(name.removesuffix(RUN_RECEIPT_SUFFIX), size, root)
    return Claim("receipt_mismatch", f"the run receipt of {size} records", checkpoint, note=note)


def _receipt(line: str) -> Claim:
    parts = line.strip().split(";")
    refusal = EvidenceRefused("A receipt looks like origin;seq;size;root;signature; check it.")
    if len(parts) != 5 or not all(_NUMBER.fullmatch(part) for part in parts[1:3]):
        raise refusal
    origin, seq, size, root, signature = parts
    from shared.anchors.cosignature import decode_base64

    blob = decode_base64(signature)
    if not re.fullmatch(f"[0-9a-fA-F]{{{2 * HASH_BYTES}}}", root) or blob is None:
        raise refusal
    return Claim(
        "receipt_mismatch",
        f"the receipt of record {seq}",
        Checkpoint(origin, int(size), bytes.fromhex(root)),
        signature=blob,
        broken=int(seq) >= int(size),
    )


def _cosigned(path: Path, vkey: str) -> Claim:
    from shared.anchors.cosignature import parse_cosigner_vkey, verify_cosignatures

    claim = _note_claim("fork", f"the cosigned checkpoint {path.name}", path)
    witness = parse_cosigner_vkey(vkey)
    try:
        times = [found.time for found in verify_cosignatures(claim.note, [witness])]
    except NoteRefused:
        return replace(claim, code="cosignature_bad", broken=True)
    if not times:
        raise EvidenceRefused(
            f"{path} has no cosignature by {witness.name}; give the file with that witness's line, "
            "or another witness's public key."
        )
    return replace(claim, when=min(times) * 1_000_000)


def _stamped(
    path: Path, directory: Path | None, authority: Path | None, findings: Findings
) -> list[Claim]:
    """An RFC 3161 stamp over the bytes of the checkpoint file of the same name, which is beside
    it or among the log's anchors."""
    data = path.with_suffix(".checkpoint")
    if not data.exists() and directory is not None:
        data = directory / ANCHORS / data.name
    command = ["openssl", "ts", "-verify", "-data", str(data), "-in", str(path), "-CAfile"]
    command.append(str(authority or ""))
    show = ["openssl", "ts", "-reply", "-in", str(path), "-text"]
    try:
        good = subprocess.run(command, capture_output=True, check=False).returncode == 0
        shown = subprocess.run(show, capture_output=True, check=False).stdout
    except OSError:
        findings.add(
            "stamp_unchecked",
            None,
            "The time stamp was not checked: the program openssl is not installed.",
            Status.INCOMPLETE,
        )
        return []
    match = _STAMP_TIME.search(shown)
    if not good or match is None:
        findings.add(
            "stamp_bad",
            None,
            f"The time stamp {path.name} is not by the given authority for its checkpoint file.",
        )
        return []
    moment = time.strptime(b" ".join(match.groups()).decode("ascii"), "%b %d %H:%M:%S %Y")
    claim = _note_claim("prior_mismatch", f"the stamped checkpoint {data.name}", data)
    when = calendar.timegm(moment) * 1_000_000
    return [replace(claim, when=when)]


def judge(claim: Claim, walker: Walker, findings: Findings) -> None:
    """Compare a claim with the log."""
    size, root = claim.checkpoint.size, claim.checkpoint.root
    if not claim.is_by(walker.chain.at(size)):
        sentence = (
            f"The signature of {claim.what} is not good: it was changed or is of another log."
        )
        findings.add(claim.code, None, sentence)
        return
    seen = walker.tail.watch.seen.get(size)
    if size > walker.expected or (seen is not None and seen.root != root):
        _contradiction(claim, walker, findings)
    elif seen is None:
        findings.note(
            "not_comparable",
            None,
            f"The log no longer has what {claim.what} (for {size} records) could be compared with.",
        )
    if claim.when is not None and seen is not None and _time_differs(seen, claim.when):
        findings.add(
            "time_contradicted",
            size,
            f"The times of the records around number {size} do not fit the time that "
            f"{claim.what} was signed at: the clock of the log was wrong or set.",
            Status.INCOMPLETE,
        )


def _contradiction(claim: Claim, walker: Walker, findings: Findings) -> None:
    size = claim.checkpoint.size
    if any(kept < size <= committed for kept, committed in walker.rules.losses):
        findings.add(
            "records_lost",
            None,
            f"The log lost records that {claim.what} vouches for; a `recover` record admits it.",
            Status.INCOMPLETE,
        )
    elif size > walker.expected:
        findings.add(
            "rolled_back",
            None,
            f"The log has {walker.expected} records, but {claim.what} is for {size}: the end was "
            "cut off or an old copy was put back.",
        )
    else:
        findings.add(
            claim.code,
            None,
            f"The log tells another history of its first {size} records than {claim.what}.",
        )


def _time_differs(seen: Seen, when: int) -> bool:
    late = seen.before is not None and seen.before > when + TOLERANCE_US
    early = seen.after is not None and seen.after < when - TOLERANCE_US
    return late or early
