"""Proof bundles: the records of one task, provable to a stranger who sees nothing else.

Owns the zip that `sphragis proof` writes and its verification. Invariants: a bundle holds no byte
of a record that was not asked for or needed to judge one that was; every proof in it was verified
before it was written; the same log and question give the same bytes. Reading takes no lock and
changes nothing. Called by the programs' `proof` and `verify` commands; `ledger_verify.py` reads
the same layout with the standard library alone.

Layout (format 1; every member stored without compression, all names ASCII, no directories):

    README.txt                        what this proves, what it cannot, how to check it
    manifest.json                     below; canonical JSON and a newline
    ledger_verify.py                  the verifier, when the maker had one
    logs/<i>/log.json                 the log's log.json, byte for byte; i = 0, 1, ... without gaps
    logs/<i>/checkpoint               signed note: log signatures, then cosignature lines. All
                                      proofs of this log are for exactly this size and root
    logs/<i>/records/<n>.json         a record: the exact line, without newline (the leaf is its
                                      SHA-256 behind a zero byte); n = its number, 20 digits
    logs/<i>/records/<n>.tlog-proof   C2SP tlog-proof v1 of it; no extra line; the note in it is
                                      byte for byte the file `checkpoint`
    logs/<i>/anchors/<size>.checkpoint|.cosig|.tsr|.ots
                                      what the log keeps about this very checkpoint, byte for byte;
                                      size = the checkpoint's. The stamps are over `.checkpoint`,
                                      whose text is that of `checkpoint`
    logs/<i>/texts/<sha256>           a policy or settings text that a record names by its digest

manifest.json is
    {"bundle": 1,
     "files": {<every other member>: <sha256 hex>},
     "logs": [{"origin", "records": {<seq decimal>: why}, "root": hex, "size"}],
     "selection": {"seqs": [..], "sessions": [..], "tasks": [..]},
     "texts": "left_out"}               only when the maker was told to leave the texts out
why is one of: selected (asked for: by number, or its `task` or `run` is in the selection), pair
(the request of an outcome or the other way round, the opening of a gate or its decision), policy
(the policy_set that put a named text in force), key (key_rotate, and the erase record of a
pruning that carries on `ext.rotations`), identity (record 0).
The manifest is not signed: it helps to name what is wrong, nothing rests on it. Texts that were
left out on purpose are missing all the same (`text_missing`), only the sentence is another.

Rules of verification, by code; what is not said to be incomplete is tampering. Not a zip file or
without a manifest: `not_a_bundle` (usage). A member whose bytes cannot be read or are not those of
`files`: `file_changed`; listed and absent: `file_missing` (incomplete); there and not listed, there
twice, compressed, or of no name above: `file_unlisted`; a manifest that is not as above or not
about these logs and records: `manifest_changed`. Of each log: `log.json` unreadable:
`log_json_changed`; a checkpoint that is no note or whose signature does not fit:
`checkpoint_changed`; signed by no key that a given key leads to through the rotations of the `key`
records here: `key_unknown`; no key given while others were: `key_missing` (incomplete). A proof
without a record or the other way round: `proof_missing` (incomplete); malformed or for another
checkpoint or number: `proof_changed`; bytes and proof that do not give the root: `record_changed`.
An anchor that is not of this checkpoint: `anchor_changed`; a cosignature or stamp that does not
fit: `cosignature_bad`, `stamp_bad`. Between the records here: an outcome whose request is here but
is none, is later or has an outcome already: `outcome_unpaired`, whose request is not here:
`outcome_unpaired` (incomplete); a request without outcome: `request_unanswered` (incomplete); a
decision under a digest that no earlier policy_set here names: `policy_unknown` (incomplete); a
text named by a policy_set or config_set here: `text_missing` (incomplete) or `text_changed`.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from shared.ledger.texts import TEXTS

if TYPE_CHECKING:
    from shared.ledger.verdict import Verdict

FORMAT: Final = 1
#: The manifest's word for texts that the maker left out on purpose.
LEFT_OUT: Final = "left_out"
README: Final = "README.txt"
MANIFEST: Final = "manifest.json"
VERIFIER: Final = "ledger_verify.py"
CHECKPOINT: Final = "checkpoint"
ANCHOR_KINDS: Final = ("checkpoint", "cosig", "tsr", "ots")
_MEMBER: Final = re.compile(
    r"README\.txt|manifest\.json|ledger_verify\.py|logs/(0|[1-9][0-9]{0,3})/(?:log\.json|checkpoint|"
    r"records/([0-9]{20})\.(json|tlog-proof)|anchors/(0|[1-9][0-9]{0,15})\.(checkpoint|cosig|tsr|ots)|"
    r"texts/([0-9a-f]{64}))"
)
#: The same question gives the same bytes: no member has a time of its own.
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)


class NotABundle(ValueError):
    """The file is not a proof bundle at all."""


@dataclass(slots=True)
class BundledLog:
    """What a bundle holds of one log, unverified. None stands for bytes that cannot be read."""

    identity: bytes | None = None
    checkpoint: bytes | None = None
    records: dict[int, bytes | None] = field(default_factory=dict)
    proofs: dict[int, bytes | None] = field(default_factory=dict)
    anchors: dict[tuple[int, str], bytes | None] = field(default_factory=dict)
    texts: dict[str, bytes | None] = field(default_factory=dict)


@dataclass(slots=True)
class Unpacked:
    """The members of a bundle, sorted out and unverified. `odd` are names that do not belong."""

    members: dict[str, bytes | None] = field(default_factory=dict)
    logs: dict[int, BundledLog] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)


def record_name(log: int, seq: int, kind: str) -> str:
    """Return the name of a record ("json") or of its proof ("tlog-proof")."""
    return f"logs/{log}/records/{seq:020d}.{kind}"


def anchor_name(log: int, size: int, kind: str) -> str:
    """Return the name of what is kept about a checkpoint; `kind` is one of ANCHOR_KINDS."""
    return f"logs/{log}/anchors/{size}.{kind}"


def text_name(log: int, digest: str) -> str:
    """Return the name of a text."""
    return f"logs/{log}/{TEXTS}/{digest}"


def seq_of(name: str) -> int | None:
    """Return the number of the record that a member is about, if it is about one."""
    match = _MEMBER.fullmatch(name)
    return int(match[2]) if match and match[2] else None


def manifest_bytes(value: Mapping[str, Any]) -> bytes:
    """Return the one spelling of a manifest."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS) + b"\n"


def pack(members: Mapping[str, bytes]) -> bytes:
    """Return the zip of `members`: the README first, then by name; equal input, equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members, key=lambda name: (name != README, name)):
            info = zipfile.ZipInfo(name, _NO_TIME)
            info.create_system, info.external_attr = 3, 0o100444 << 16
            archive.writestr(info, members[name])
    return buffer.getvalue()


def unpack(path: Path) -> Unpacked:
    """Return what is in the bundle at `path`. Raises NotABundle or OSError; anything wrong inside
    is for the verification to name."""
    found = Unpacked()
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                _take(found, archive, info)
    except (zipfile.BadZipFile, NotImplementedError, UnicodeError, ValueError) as error:
        raise NotABundle(
            f"{path} is not a proof bundle: it cannot be read as a zip file."
        ) from error
    if MANIFEST not in found.members:
        raise NotABundle(f"{path} is not a proof bundle: it has no {MANIFEST}.")
    return found


def _take(found: Unpacked, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    name, match = info.filename, _MEMBER.fullmatch(info.filename)
    if match is None or name in found.members or info.compress_type != zipfile.ZIP_STORED:
        found.odd.append(name)
        return
    data = _read(archive, info)
    found.members[name] = data
    if match[1] is None:
        return
    log = found.logs.setdefault(int(match[1]), BundledLog())
    if match[2] is not None:
        (log.records if match[3] == "json" else log.proofs)[int(match[2])] = data
    elif match[4] is not None:
        log.anchors[int(match[4]), match[5]] = data
    elif match[6] is not None:
        log.texts[match[6]] = data
    elif name.endswith("/checkpoint"):
        log.checkpoint = data
    else:
        log.identity = data


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes | None:
    try:
        data = archive.read(info)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError):
        return None
    return data if len(data) == info.file_size else None


def is_bundle(path: Path) -> bool:
    """Tell whether the file at `path` is meant to be a bundle: it begins like a zip file."""
    try:
        with path.open("rb") as file:
            return path.is_file() and file.read(4) == b"PK\x03\x04"
    except OSError:
        return False


def verify_bundle(
    path: Path,
    *,
    vkeys: Sequence[str] = (),
    witnesses: Sequence[str] = (),
    run_receipts: Sequence[str] = (),
) -> Verdict:
    """Verify the bundle at `path`. Never raises for any content.

    `vkeys` are the public keys of its logs (C2SP vkeys, any key of a log's chain); without any,
    the bundle's own are used and a note says so. `witnesses` are the vkeys of witnesses whose
    cosignatures are checked. `run_receipts` are signed run receipts: the bundle must hold exactly
    the records of the session that they count (`receipt_mismatch`).
    """
    from shared.ledger.bundle_check import check_bundle

    return check_bundle(path, vkeys, witnesses, run_receipts)
