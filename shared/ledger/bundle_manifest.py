"""The manifest of a proof bundle, and the list of files in it.

Owns the shape of `manifest.json` (see `bundle`) and its comparison with what is there. Invariant:
the manifest is not signed, so it helps to name what is wrong and nothing rests on it; whatever it
holds, reading it raises nothing. Pure. Called by `bundle_check`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from shared.ledger.bundle import FORMAT, LEFT_OUT, MANIFEST, Unpacked, manifest_bytes, seq_of
from shared.ledger.bundle_log import JudgedLog
from shared.ledger.verdict import Findings, Status

_KEYS: Final = ("bundle", "files", "logs", "selection")
#: How a record number is written; longer ones cannot be of a record.
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,15}")
_WHY: Final = frozenset({"selected", "pair", "policy", "key", "identity"})


def read_manifest(bundle: Unpacked, findings: Findings) -> Mapping[str, Any]:
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
        and all(_NUMBER.fullmatch(number) for number in entry["records"])
        and set(entry["records"].values()) <= _WHY
    )


def check_files(bundle: Unpacked, manifest: Mapping[str, Any], findings: Findings) -> None:
    """Compare the members with the list of them, if there is one that can be read."""
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


def check_manifest(
    manifest: Mapping[str, Any], logs: Sequence[JudgedLog], findings: Findings
) -> None:
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
