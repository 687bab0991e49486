"""The README of a proof bundle: what it proves and what not, for someone who knows none of this.

Pure. Invariant: it claims nothing that the verification of the bundle does not show. Called by
`bundle_make`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from shared.ledger.bundle import VERIFIER

if TYPE_CHECKING:
    from shared.ledger.bundle_make import LogPart

_WHY_WORDS: Final = {
    "selected": "asked for",
    "pair": "the other half of one of them (a request and its outcome, a gate and its decision)",
    "policy": "the policy that was in force for one of them",
    "key": "a change of the log's signing key, or a pruning that carries on such changes",
    "identity": "record 0, which names the log and its key",
}


def readme(
    question: str, parts: Sequence[LogPart], *, has_verifier: bool, has_texts: bool = True
) -> str:
    """Return the README of a bundle that answers `question` with these parts of logs."""
    keys = " ".join("--vkey 'KEY'" for _ in parts)
    lines = [
        f"Proof of {question}",
        "",
        "What is in here",
        "",
        *(line for part in parts for line in _about(part)),
        *(_TEXTS if has_texts else _NO_TEXTS),
        "",
        "How to check it",
        "",
        "You need Python 3.11 or later, nothing else, and no network:",
        "",
        *([f"    unzip bundle.zip {VERIFIER}"] if has_verifier else []),
        f"    python3 {VERIFIER} bundle.zip {keys}",
        "",
        "KEY is the public key of the log. Get it from somebody you trust, not from this file. The",
        "answer is OK, TAMPERED or INCOMPLETE with a list of what is wrong; the exit code is 0 for",
        "OK, 1 for tampered with, 2 for something missing, 3 for a wrong call.",
        *_about_verifier(has_verifier=has_verifier),
        "",
        *_MEANING,
        *(_TEXTS_MEAN if has_texts else ()),
        *_LIMITS,
        *_anchoring(parts),
    ]
    return "\n".join(lines) + "\n"


def _about(part: LogPart) -> list[str]:
    lines = [
        f"From the log {part.origin}, as it was when it had {part.checkpoint.size} records:",
        "",
    ]
    for why, words in _WHY_WORDS.items():
        count = list(part.why.values()).count(why)
        if count:
            lines.append(f"    {count} record{'s' if count > 1 else ''}: {words}")
    if part.texts_missing:
        lines.append(f"    {part.texts_missing} text(s) that a record names are not in the log")
    return [*lines, ""]


def _about_verifier(*, has_verifier: bool) -> list[str]:
    if not has_verifier:
        return [f"{VERIFIER} comes with the program that wrote this; it is one readable file."]
    return [
        f"{VERIFIER} is in this zip: one file that can be read in an hour. Whoever gave you the",
        "bundle could have changed it, so if that matters take it from the program's own release.",
    ]


_MEANING: Final = (
    "What this proves",
    "",
    "    Each record in here was in the log, at its number, byte for byte as it is here, when the",
    "    log's key signed the checkpoint. Nobody changed, moved or invented it since then without",
    "    that key.",
)
_TEXTS: Final = (
    "The policies in here are whole, as the records name them by their SHA-256. A policy may list",
    "terms of its owner, such as names of clients: treat the bundle as you would treat those.",
)
_NO_TEXTS: Final = (
    "The texts of the policies and settings were left out on purpose: they may hold terms that are",
    "not for every reader. The records still name each by its SHA-256, so the verifier answers",
    "INCOMPLETE (text_missing) for each; anything else it finds is another matter. Who gave you",
    "this can show you a text later: its SHA-256 must be the one that the record names.",
)
_TEXTS_MEAN: Final = ("    The policy texts are exactly those that the records name.",)
_LIMITS: Final = (
    "",
    "What this cannot prove",
    "",
    "    That nothing else belongs to the question: a bundle shows what is there, not what is not.",
    "    The whole log shows that, and so does the run receipt of a session.",
    "    That what was recorded is true, or that everything that happened was recorded: traffic",
    "    that never reached the program is in no log.",
    "    That the log had only one history. Whoever holds the key can sign two. Cosignatures,",
    "    stamps and receipts that others hold show which one they saw.",
    "    The time of a record, beyond the times in cosignatures and stamps: the clock is the",
    "    log's own.",
    "",
)


def _anchoring(parts: Sequence[LogPart]) -> list[str]:
    lines = ["Who else saw the checkpoint", ""]
    for part in parts:
        if part.anchored:
            lines.append(
                f"    {part.origin}: witnesses or stamps are in here\n"
                "    with the checkpoint; the records are older than these."
            )
        else:
            lines.append(
                f"    {part.origin}: nobody yet.\n"
                "    Ask for a newer bundle once a checkpoint was witnessed or stamped."
            )
    return lines
