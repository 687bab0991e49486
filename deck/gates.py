"""Gates: what a person approves, and that nothing else is then done.

Owns the digest of an approval. Invariant: a decision names a gate by id, is made once, by an
operator, and holds only for the very text and brief that were there when the gate opened
(contracts/deck.md section 2.4); a changed brief voids the gate. Called by `deck.session`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from deck.board import Decision, Gate
from deck.texts import TextStore

#: Briefs are read whole to commit to them; larger ones are not for reading by a person.
MAX_BRIEF_BYTES: Final = 16 << 20


class BriefUnreadable(Exception):
    """The brief cannot be read any more, so there is nothing to approve."""


def digest(texts: TextStore, text: str, brief: str) -> str:
    """Return the commitment to a task's text and its brief's present content. Blocks.

    The parts are framed by length, so text cannot move from one to the other. Raises
    BriefUnreadable.
    """
    body = b""
    if brief:
        try:
            with Path(brief).open("rb") as file:
                body = file.read(MAX_BRIEF_BYTES + 1)
        except OSError as error:
            raise BriefUnreadable(f"{brief} cannot be read: {error.strerror}") from error
        if len(body) > MAX_BRIEF_BYTES:
            raise BriefUnreadable(f"{brief} is larger than {MAX_BRIEF_BYTES >> 20} MiB")
    parts = (text.encode("utf-8", "replace"), brief.encode("utf-8", "replace"), body)
    return texts.commit(b"".join(len(part).to_bytes(8, "big") + part for part in parts))


def still_valid(gate: Gate, present: str) -> Decision:
    """Return what an approval of `gate` amounts to now: approved, or void if anything changed."""
    return Decision.APPROVED if gate.digest == present else Decision.VOID
