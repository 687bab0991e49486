"""Gates: what a person approves, and that nothing else is then done.

Owns the digest of an approval, and what each kind of gate is called. Invariant: a decision names
a gate by id, is made once, and holds only for the very text and brief that were there when the
gate opened (contracts/deck.md section 2.4). Called by `deck.gatekeeper`, by whoever opens gates,
and by faces for the words.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from deck.board import Gate
from deck.entries import Decision, GateKind
from deck.texts import TextStore

#: Briefs are read whole to commit to them; larger ones are not for reading by a person.
MAX_BRIEF_BYTES: Final = 16 << 20

#: What a person decides, in words.
KIND_WORDS: Final[Mapping[GateKind, str]] = MappingProxyType(
    {
        GateKind.ENTRY: "task",
        GateKind.ROSTER: "new role",
        GateKind.JUDGE: "result that its judge did not settle",
        GateKind.OWNERSHIP: "result that did not pass its checks",
        GateKind.MERGE: "merge",
    }
)


class BriefUnreadable(Exception):
    """The brief cannot be read any more, so there is nothing to approve."""


def digest(texts: TextStore, text: str, brief: str) -> str:
    """Return the commitment to a task's text and its brief's present content. Blocks.

    Raises BriefUnreadable.
    """
    return digest_of(texts, text, brief, read_brief(brief) if brief else b"")


def digest_of(texts: TextStore, text: str, brief: str, body: bytes) -> str:
    """Return the commitment to a task's text, the path of its brief and these bytes of it.

    The parts are framed by length, so text cannot move from one to the other.
    """
    parts = (text.encode("utf-8", "replace"), brief.encode("utf-8", "replace"), body)
    return texts.commit(b"".join(len(part).to_bytes(8, "big") + part for part in parts))


def read_brief(path: str) -> bytes:
    """Return the bytes of a brief. Blocks on the disk only: what is no file, a pipe that nobody
    writes to, is not waited for. Raises BriefUnreadable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise BriefUnreadable(f"{path} is no regular file any more")
            is_small = found.st_size <= MAX_BRIEF_BYTES
            body = file.read(MAX_BRIEF_BYTES + 1) if is_small else b""
    except OSError as error:
        raise BriefUnreadable(f"{path} cannot be read: {error.strerror}") from error
    if not is_small or len(body) > MAX_BRIEF_BYTES:
        raise BriefUnreadable(f"{path} is larger than {MAX_BRIEF_BYTES >> 20} MiB")
    return body


def still_valid(gate: Gate, present: str) -> Decision:
    """Return what an approval of `gate` amounts to now: approved, or void if anything changed."""
    return Decision.APPROVED if gate.digest == present else Decision.VOID
