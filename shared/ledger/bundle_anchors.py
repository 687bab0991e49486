"""What a proof bundle holds of a checkpoint's way out: its published note, cosignatures, stamps.

Owns the comparison with the checkpoint that the proofs are for. Invariant: nothing here makes a
record count; it only tells who else saw the checkpoint, or that a file is about something else.
Pure. Called by `bundle_check`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from shared.ledger.bundle_log import JudgedLog
from shared.ledger.checkpoint import open_note, parse_checkpoint
from shared.ledger.errors import NoteRefused


def check_anchors(log: JudgedLog, cosigners: Sequence[Any]) -> None:
    """Judge what is kept about the checkpoint; `cosigners` are the keys of the witnesses."""
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


def _check_anchored_note(log: JudgedLog, data: bytes) -> None:
    try:
        text = open_note(data.decode("utf-8"), log.trusted) if log.trusted else ""
        good = not log.trusted or parse_checkpoint(text) == log.checkpoint
    except (UnicodeDecodeError, NoteRefused):
        good = False
    if not good:
        log.add("anchor_changed", None, "The stamped checkpoint is not the one of the proofs.")


def _check_cosignatures(log: JudgedLog, cosigners: Sequence[Any]) -> None:
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
