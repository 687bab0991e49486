"""What can go wrong with a ledger, each with the sentence its user reads.

Invariant: `str(error)` is one plain sentence that says what is wrong, where, and what to do; it
never holds a value taken from a record. Raised by every module of this package; callers show
the sentence as it is.
"""

from __future__ import annotations


class LedgerError(Exception):
    """Any trouble with a ledger; the text is for the person who runs the program."""


class LedgerLocked(LedgerError):
    """Another program writes to this ledger."""


class LedgerCorrupt(LedgerError):
    """Committed records are damaged: the log refuses to go on."""


class LedgerRollback(LedgerError):
    """The log holds fewer records than it once published: the log refuses to go on."""


class LedgerLow(LedgerError):
    """The disk is nearly full: only what closes open work is recorded until there is space."""


class LedgerFailed(LedgerError):
    """The writer stopped after an error; nothing more is accepted until a restart."""


class LedgerClosed(LedgerError):
    """The ledger was closed; nothing more is accepted."""


class RecordRefused(LedgerError):
    """A record that cannot be stored as it is; nothing was written."""


class NoteRefused(LedgerError):
    """A signed note, a checkpoint or a key that is malformed or not signed by the expected key."""
