"""Each change of the vault gets its record, whatever is killed in between.

Owns the content of those records and the way from the vault's own note of a change (see
`redaction.owed`) to the ledger. Invariants: the note is as durable as the change; it goes once its
record is durable, and a record that is there already is not written again; whoever has the ledger
open does it, so one at a time. Called at the start of a gateway, after an expiry, and when a verb
has changed the vault.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gateway.logs import where
from shared.evidence import records
from shared.evidence.errors import EvidenceError
from shared.ledger import Ledger, LedgerError, RecordType, parse_checkpoint
from shared.ledger.directory import read_head, read_log_json

if TYPE_CHECKING:
    from gateway.redaction.owed import Debt, Owed
    from gateway.settings import Settings

#: What a change is recorded as.
_TYPES: Final = {
    "erase": RecordType.ERASE,
    "expire": RecordType.ERASE,
    "vault_key": RecordType.CONFIG_SET,
}
_BASIS: Final = {"erase": "vault erase", "expire": "its lifetime in the policy ended"}
#: Seconds between two looks for what a verb that was killed has left. What the gateway changes
#: itself is recorded at once.
EVERY: Final = 600.0
#: Who asked where nobody did.
PROGRAM: Final = "sphragis"

_one_at_a_time: Final = threading.Lock()


def due(settings: Settings, change: str, what: str, operator: str) -> Debt | None:
    """Return what a change of the vault owes the ledger of the settings, or None where there is
    no ledger: a vault may be used without one. Where the program itself asks (as part of an
    erasure), only what changed something is worth a record. Raises LedgerError."""
    directory = settings.ledger_dir
    if not (directory / "log.json").exists():
        return None
    from gateway.redaction.owed import Debt

    origin = str(read_log_json(directory)["origin"])
    size, asked = _size_at_least(directory), operator != PROGRAM
    return Debt(origin, size, change, what, operator, for_nothing=asked)


def settle(ledger: Ledger, vault_file: Path) -> list[int]:
    """Record what the vault owes this ledger; return the numbers of the records. Blocking.

    Raises EvidenceError when the vault or the ledger cannot be read, LedgerError when the ledger
    takes no record; what is owed stays owed then.
    """
    if not vault_file.exists():
        return []
    from gateway.redaction.owed import Debts
    from gateway.redaction.vault_database import VaultError

    with _one_at_a_time:
        debts = Debts(vault_file)
        try:
            waiting = debts.of(ledger.origin)
            there = _recorded(ledger.directory, waiting)
            seqs = []
            for one in waiting:
                seq = there.get(_id(one))
                if seq is None:
                    # It has happened by now, so a disk that is low is no reason to leave it out.
                    kind, fields = _record_of(one)
                    seq = ledger.append(kind, fields, pressing=True).result().seq
                debts.settle(one)
                seqs.append(seq)
        except VaultError as wrong:
            raise EvidenceError(str(wrong)) from wrong
        finally:
            debts.close()
    return seqs


async def run_settling(
    work: Callable[[], list[int]], wanted: asyncio.Event, say: Callable[[str], None]
) -> None:
    """Do `work` (a `settle`) whenever it is wanted, and now and then, until cancelled; `say` gets
    a line when it begins to fail."""
    failed = False
    while True:
        wanted.clear()
        told = ""
        try:
            await asyncio.to_thread(work)
        except (EvidenceError, LedgerError) as wrong:
            told = str(wrong)
        except Exception as error:
            told = f"internal error, {where(error)}"
        if told and not failed:
            say(f"warning: changes of the vault are not recorded yet: {told}")
        failed = bool(told)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EVERY):
                await wanted.wait()


def _id(one: Owed) -> str:
    return f"vault-{one.debt.id}"


def _record_of(one: Owed) -> tuple[RecordType, dict[str, Any]]:
    debt = one.debt
    ext: dict[str, Any] = {
        "change": debt.change,
        "changed": one.changed,
        "count": one.count,
        "operator": debt.operator,
    }
    kind = _TYPES.get(debt.change, RecordType.ERASE)
    if kind is RecordType.ERASE:
        ext |= {"keys": [], "basis": _BASIS.get(debt.change, ""), "what": debt.what}
    fields = {
        "id": _id(one),
        "actor": {"role": PROGRAM if debt.operator == PROGRAM else "operator"},
        "action": {"kind": "vault", "name": debt.change},
        "ext": ext,
    }
    return kind, fields


def _recorded(directory: Path, waiting: Iterable[Owed]) -> dict[str, int]:
    """Return which of these have their record, and its number: a kill may have come between the
    record and the end of the note."""
    sizes = {_id(one): one.debt.size for one in waiting}
    if not sizes:
        return {}
    words = [b'"id":"%s"' % name.encode() for name in sizes]
    found = records.records(directory, *words, start=min(sizes.values()))
    return {str(record.get("id")): record["seq"] for record in found}


def _size_at_least(directory: Path) -> int:
    """Return how many records the published head has; 0 where there is none to read."""
    try:
        head = read_head(directory)
        return parse_checkpoint(head[: head.index("\n\n") + 1]).size
    except (LedgerError, ValueError):
        return 0
