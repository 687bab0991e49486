"""The ledger: an append-only log of records that a stranger can verify.

Owns the format and the files of contracts/ledger.md. Invariant: a record that was acknowledged
is durable, is under a signed checkpoint, and cannot be changed, removed or reordered without the
verifier naming it. The gateway and the deck each keep one; nothing here knows of either.
"""

from shared.ledger.checkpoint import Checkpoint, open_note, parse_checkpoint, parse_vkey
from shared.ledger.commitment import commit, load_commitment_key
from shared.ledger.errors import (
    LedgerClosed,
    LedgerCorrupt,
    LedgerError,
    LedgerFailed,
    LedgerLocked,
    LedgerLow,
    LedgerRollback,
    NoteRefused,
    RecordRefused,
)
from shared.ledger.log import Ledger, LogState, Receipt
from shared.ledger.record import RecordType
from shared.ledger.verify import Finding, Status, Verdict, verify_path

__all__ = [
    "Checkpoint",
    "Finding",
    "Ledger",
    "LedgerClosed",
    "LedgerCorrupt",
    "LedgerError",
    "LedgerFailed",
    "LedgerLocked",
    "LedgerLow",
    "LedgerRollback",
    "LogState",
    "NoteRefused",
    "Receipt",
    "RecordRefused",
    "RecordType",
    "Status",
    "Verdict",
    "commit",
    "load_commitment_key",
    "open_note",
    "parse_checkpoint",
    "parse_vkey",
    "verify_path",
]
