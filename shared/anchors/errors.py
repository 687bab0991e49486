"""What can go wrong on the way out, each with the sentence its user reads.

Invariant: `str(error)` is one plain sentence; it holds no answer of a remote party, which may hold
anything. `Alarm` is the one kind that a retry cannot put right. Raised by every module here.
"""

from __future__ import annotations


class AnchorError(Exception):
    """An anchor could not be made now; trying again later is right."""


class Alarm(AnchorError):
    """Somebody outside holds another history of this ledger than the ledger itself.

    `code` is the finding a verifier would give: `fork` or `rolled_back`.
    """

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
