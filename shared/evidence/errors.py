"""What can go wrong with kept evidence, each with the sentence its user reads.

Invariant: `str(error)` is one plain sentence: what is wrong, where, what to do; it never holds a
kept text, a key, or the name of a subject. Raised by every module of this package.
"""

from __future__ import annotations


class EvidenceError(Exception):
    """Any trouble with kept evidence; the text is for the person who runs the program."""


class EvidenceBlocked(EvidenceError):
    """A hold or a retention class forbids what was asked; nothing was changed."""
