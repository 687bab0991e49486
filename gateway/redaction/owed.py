"""What the vault owes the ledger: the record of each change that was made to it.

Owns one table of the vault's file. Invariant: the line that says what was changed is written in
the same transaction as the change, so neither is ever there without the other; it goes only once
the record is durable. It names nobody and holds no value, so it is read without the vault's key.
A line is for one ledger, because several gateways may share a vault. Written by `vault_store`,
read and settled by `gateway.vault_changes`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sqlalchemy import BigInteger, Column, MetaData, String, Table, delete, insert, inspect, select
from sqlalchemy.engine import Connection, Row

from gateway.redaction.vault_database import Database

_metadata: Final = MetaData()
_owed: Final = Table(
    "owed",
    _metadata,
    Column("id", String(32), primary_key=True),
    Column("ledger", String(255), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("change", String(16), nullable=False),
    Column("what", String(40), nullable=False),
    Column("operator", String(200), nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("changed", BigInteger, nullable=False),  # microseconds since 1970, UTC
)


@dataclass(frozen=True, slots=True)
class Debt:
    """The record that a change will need in the ledger named `ledger` (its origin), which has at
    least `size` records by now. `change` is `erase`, `expire` or `vault_key`, `what` the kind of
    wish, `operator` who asked; `for_nothing` whether a change of no entry needs a record, too."""

    ledger: str
    size: int
    change: str
    what: str = ""
    operator: str = ""
    for_nothing: bool = True
    id: str = field(default_factory=lambda: secrets.token_hex(16))


@dataclass(frozen=True, slots=True)
class Owed:
    """A change that was made: of how many entries, and when (microseconds since 1970)."""

    debt: Debt
    count: int
    changed: int


def prepare(connection: Connection) -> None:
    """Make the table where there is none."""
    _metadata.create_all(connection)


def note(connection: Connection, debt: Debt, count: int, now: float) -> None:
    """Write down, in the transaction of the change, what it owes; `now` in seconds since 1970."""
    if not count and not debt.for_nothing:
        return
    row = {
        "id": debt.id,
        "ledger": debt.ledger[:255],
        "size": debt.size,
        "change": debt.change[:16],
        "what": debt.what[:40],
        "operator": debt.operator[:200],
        "count": count,
        "changed": int(now * 1_000_000),
    }
    connection.execute(insert(_owed).values(row))


class Debts:
    """What the vault at `path` owes one ledger. Needs no key, and never makes a vault."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path)
        self._database.open()

    def of(self, ledger: str) -> list[Owed]:
        """Return the changes that this ledger does not have yet, oldest first. Raises
        VaultError."""
        with self._database.transaction() as connection:
            if not inspect(connection).has_table(_owed.name):
                return []
            query = (
                select(_owed).where(_owed.c.ledger == ledger).order_by(_owed.c.changed, _owed.c.id)
            )
            return [_read(row) for row in connection.execute(query)]

    def settle(self, one: Owed) -> None:
        """Forget a change whose record is durable. Raises VaultError."""
        with self._database.transaction(writes=True) as connection:
            connection.execute(delete(_owed).where(_owed.c.id == one.debt.id))

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _read(row: Row[Any]) -> Owed:
    found = row._mapping
    debt = Debt(
        found["ledger"],
        found["size"],
        found["change"],
        found["what"],
        found["operator"],
        id=found["id"],
    )
    return Owed(debt, found["count"], found["changed"])
