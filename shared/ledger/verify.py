"""Verification: given the files and what one holds outside, say whether the log is what it was.

Reads a log directory, a copy of one, a single segment file, or a proof bundle, and changes
nothing. `inspection` judges the files, `walk` the lines, `tail` their links and the tree, `rules`
what records say, `claims` what is known from outside; here is decided what there is to verify, and
with which key. Raises nothing on any content; exit codes of contracts/ledger.md section 2.10.
Called by the verify commands.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from shared.ledger.bundle import is_bundle, verify_bundle
from shared.ledger.checkpoint import (
    VerifierKey,
    open_note,
    parse_checkpoint,
    parse_checkpoint_line,
    parse_vkey,
)
from shared.ledger.claims import EvidenceRefused, Outside, collect, judge, run_receipts
from shared.ledger.errors import NoteRefused
from shared.ledger.inspection import (
    Inspection,
    Meter,
    Progress,
    Source,
    part,
    small_text,
    vkey_or_none,
)
from shared.ledger.run_receipt import recount
from shared.ledger.segment import (
    HEAD,
    LOCK,
    LOG_JSON,
    MAX_RUN,
    SCHEMA,
    SEGMENTS,
    first_of,
    list_segments,
    read_lines,
)
from shared.ledger.signatures import SignatureHelpers
from shared.ledger.storage import reason
from shared.ledger.verdict import Finding, Status, Verdict
from shared.ledger.walk import Walker

__all__ = ["Finding", "Outside", "Status", "Verdict", "verify_path"]

#: From this size on, helpers check signatures: below, starting them takes longer.
HELPED_BYTES: Final = 8 << 20
_NOTHING: Final = Outside()
_LOG_ID: Final = re.compile(r"[0-9a-fA-F]{64}")


def verify_path(
    path: Path,
    *,
    vkey: str | None = None,
    vkeys: Sequence[str] = (),
    log_id: str = "",
    outside: Outside = _NOTHING,
    progress: Progress | None = None,
) -> Verdict:
    """Verify the log at `path`: its directory (or a copy), one segment file, or a proof bundle.

    `vkey` and `vkeys` are public keys from a place the caller trusts; each must be one that the
    log signed with. `log_id` is the leaf hash of record 0 in hex. `outside` is whatever else the
    caller holds. `progress` is called with (bytes read, bytes in all). Never raises for any
    content.
    """
    texts = [*([vkey] if vkey is not None else []), *vkeys]
    try:
        given = [parse_vkey(text) for text in texts]
    except NoteRefused as error:
        return _usage("bad_vkey", str(error))
    if log_id and not _LOG_ID.fullmatch(log_id):
        return _usage("bad_evidence", "A log id is the 64 hex digits of the hash of record 0.")
    try:
        if path.is_file() and is_bundle(path):
            receipts = run_receipts(outside)
            return verify_bundle(
                path, vkeys=texts, witnesses=outside.witnesses, run_receipts=receipts
            )
        source = _find(path)
        if isinstance(source, Verdict):
            return source
        return _verify(source, given, log_id, outside, progress or _no_progress)
    except (EvidenceRefused, NoteRefused) as error:
        return _usage("bad_evidence", str(error))
    except OSError as error:
        return _usage(
            "unreadable", f"{path} cannot be read ({reason(error)}); check the path and its mode."
        )


def _no_progress(done: int, total: int) -> None:
    del done, total


def _usage(code: str, sentence: str) -> Verdict:
    return Verdict(Status.USAGE, findings=(Finding(code, None, sentence, Status.USAGE),))


# -- what there is ---------------------------------------------------------------------------------


def _find(path: Path) -> Source | Verdict:
    if path.is_dir():
        return _find_directory(path)
    if not path.exists():
        return _usage("no_such_path", f"{path} does not exist; give the directory of a ledger.")
    if not path.is_file():
        return _usage("not_a_ledger", f"{path} is not a file or directory of a ledger.")
    if not _looks_like_segment(path):
        return _usage("not_a_ledger", f"{path} is not a segment of a ledger.")
    source = Source([part(path)], None)
    folder = path.parent.parent
    if first_of(path) is not None and (folder / LOG_JSON).is_file():
        _read_identity(folder, source)
    return source


def _looks_like_segment(path: Path) -> bool:
    if first_of(path) is not None:
        return True
    with path.open("rb") as file:
        start = file.read(MAX_RUN)
    return b'"prev":"' in start or b'{"cp":"' in start


def _find_directory(directory: Path) -> Source | Verdict:
    if directory.name == SEGMENTS and (directory.parent / LOG_JSON).is_file():
        directory = directory.parent
    known = [directory / name for name in (LOG_JSON, SEGMENTS, HEAD, LOCK)]
    if not any(item.exists() for item in known):
        return _usage(
            "not_a_ledger",
            f"{directory} is not a ledger: it has neither {LOG_JSON} nor {SEGMENTS}.",
        )
    source = Source([], directory)
    source.live = _is_live(directory)
    _read_identity(directory, source)
    # HEAD before the segments: a log that is being written may only be ahead of it.
    _read_head(directory, source)
    source.segments = [part(path) for path in list_segments(directory)]
    return source


def _is_live(directory: Path) -> bool:
    """Tell whether a program has the log open."""
    try:
        fd = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _read_identity(directory: Path, source: Source) -> None:
    try:
        identity = json.loads(small_text(directory / LOG_JSON))
        if type(identity["vkeys"]) is not list:
            raise TypeError
        keys = [parse_vkey(vkey) for vkey in identity["vkeys"]]
        if any(key.name != identity["origin"] for key in keys) or not keys:
            raise TypeError
    except FileNotFoundError:
        source.findings.add("log_json_missing", None, f"{LOG_JSON} is missing.", Status.INCOMPLETE)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, NoteRefused):
        source.findings.add("log_json_changed", None, f"{LOG_JSON} cannot be read: it was changed.")
    else:
        source.identity = identity


def _read_head(directory: Path, source: Source) -> None:
    try:
        source.head_note = small_text(directory / HEAD)
        source.head = parse_checkpoint(source.head_note[: source.head_note.find("\n\n") + 1])
    except FileNotFoundError:
        source.findings.add(
            "head_missing",
            None,
            f"{HEAD} is missing: it cannot be told whether records were cut off the end.",
            Status.INCOMPLETE,
        )
    except (OSError, UnicodeDecodeError, NoteRefused):
        source.findings.add("head_changed", None, f"{HEAD} cannot be read: it was changed.")


# -- which key -------------------------------------------------------------------------------------


def _introduce(source: Source, given: Sequence[VerifierKey]) -> Verdict | None:
    """Set the key that the log begins with and that of its first segment: from record 0, from
    log.json, or as given; compare the first two on the way."""
    genesis, first_note = _peek(source)
    identity = source.identity
    if identity is not None and genesis is not None and not _is_same(identity, genesis):
        source.findings.add(
            "log_json_changed",
            0,
            f"{LOG_JSON} and record 0 do not say the same about this log: one of them was changed.",
        )
    elif (identity or genesis or {"schema": SCHEMA}).get("schema") != SCHEMA:
        return _usage(
            "unknown_schema",
            "The ledger was written by another version of this program, in another format; "
            "verify it with that version.",
        )
    source.segment_key = vkey_or_none(genesis.get("segment_key")) if genesis is not None else None
    named = [key for each in (identity, genesis) for key in _vkeys(each)]
    candidates = [*named, *given]
    source.key = candidates[0] if candidates else None
    if source.key is not None and genesis is not None and source.key in _vkeys(genesis)[:1]:
        return None  # record 0 names the key that signed it; another one is a stranger's
    for key in candidates:
        with contextlib.suppress(NoteRefused):
            open_note(first_note, [key])
            source.key = key
            break
    return None


def _is_same(identity: dict[str, Any], genesis: dict[str, Any]) -> bool:
    """log.json may have gained keys since; nothing else changes."""
    first = identity | {"vkeys": identity["vkeys"][:1]}
    return first == genesis


def _vkeys(identity: dict[str, Any] | None) -> list[VerifierKey]:
    vkeys = identity.get("vkeys") if identity is not None else None
    found = map(vkey_or_none, vkeys if type(vkeys) is list else [])
    return [key for key in found if key is not None]


def _peek(source: Source) -> tuple[dict[str, Any] | None, str]:
    """Return what record 0 says about the log, and the first checkpoint found."""
    genesis, note = None, ""
    if not source.segments:
        return None, ""
    part = source.segments[0]
    with part.path.open("rb") as file:
        for lines, _ in read_lines(file, min(part.size, 4 * MAX_RUN)):
            for line in lines:
                with contextlib.suppress(ValueError, RecursionError, NoteRefused):
                    value = orjson.loads(line)
                    if type(value) is not dict:
                        continue
                    if value.get("type") == "genesis" and type(value.get("ext")) is dict:
                        genesis = genesis or value["ext"]
                    elif "cp" in value and not note:
                        note = parse_checkpoint_line(line)
    return genesis, note


# -- the verification ------------------------------------------------------------------------------


def _verify(
    source: Source,
    given: Sequence[VerifierKey],
    log_id: str,
    outside: Outside,
    progress: Progress,
) -> Verdict:
    findings = source.findings
    if not source.segments:
        findings.add("empty", None, "The log has no records.", Status.INCOMPLETE)
        return _verdict(source, None)
    refusal = _introduce(source, given)
    if refusal is not None:
        return refusal
    if source.key is None:
        findings.add(
            "key_missing",
            None,
            "There is no public key to verify with: neither log.json nor record 0 has one; "
            "give the log's vkey.",
            Status.INCOMPLETE,
        )
        return _verdict(source, None)
    claims = collect(outside, source.directory, findings)
    sizes = {claim.checkpoint.size for claim in claims} | {1}
    if source.head is not None:
        sizes.add(source.head.size)
    inspection = _inspect(source, sizes, progress)
    walker = inspection.walker
    for claim in claims:
        judge(claim, walker, source.findings)
        if source.directory is not None:
            keys = walker.chain.at(claim.checkpoint.size)
            for found in recount(source.directory, claim.note, keys):
                source.findings.add(found.code, found.seq, found.sentence, found.means)
    _check_identity(source, walker, given, log_id)
    return _verdict(source, walker)


def _inspect(source: Source, sizes: set[int], progress: Progress) -> Inspection:
    """Follow the log, with helpers for the signatures if it is large."""
    total = sum(each.size for each in source.segments)
    if source.key is not None and total >= HELPED_BYTES:
        before = source.findings.copy()
        files = [(each.path, each.size) for each in source.segments]
        with contextlib.suppress(OSError), SignatureHelpers(source.key, files) as helpers:
            offer = helpers.offer if len(helpers) else None
            inspection = Inspection(source, Meter(total, progress), offer)
            inspection.walker.tail.watch.ask(sizes)
            inspection.run()
            if helpers.all_good():
                return inspection
        source.findings = before
    inspection = Inspection(source, Meter(total, progress), None)
    inspection.walker.tail.watch.ask(sizes)
    inspection.run()
    return inspection


def _check_identity(
    source: Source, walker: Walker, given: Sequence[VerifierKey], log_id: str
) -> None:
    """Compare the log with what pins it from outside: its keys and its record 0."""
    findings = source.findings
    for key in given:
        if key not in walker.chain:
            findings.add(
                "key_unknown",
                None,
                f"The log was never signed with the given key {key.vkey()}: it is another log, or "
                "it was rewritten and signed by someone else.",
            )
    if not log_id:
        return
    first = walker.tail.watch.seen.get(1)
    if first is None:
        sentence = "Record 0 is not here, so the log id cannot be compared."
        findings.add("log_id_unknown", None, sentence, Status.INCOMPLETE)
    elif first.root.hex() != log_id.lower():
        sentence = "Record 0 is not the one that the log id names: it is another log."
        findings.add("log_id_mismatch", 0, sentence)


def _verdict(source: Source, walker: Walker | None) -> Verdict:
    findings = source.findings
    root = walker.tail.root() if walker else None
    return Verdict(
        status=findings.status(),
        records=walker.records if walker else 0,
        findings=tuple(sorted(findings, key=_by_record)),
        notes=tuple(findings.notes),
        more=findings.more,
        origin=walker.origin if walker else "",
        root=root.hex() if root else "",
        checkpoint=walker.tail.note if walker else "",
        vkey=source.key.vkey() if source.key else "",
    )


def _by_record(finding: Finding) -> int:
    """The log as a whole first, then record by record."""
    return -1 if finding.seq is None else finding.seq
