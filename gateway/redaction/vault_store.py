"""The vault on disk: what is kept of each token, who asks for it, and when it goes.

Owns what may be done with a vault, each as one transaction under the key in force, with the note of
what a change owes the ledger (`owed`) within it. Guarantees: what `put_all` stored survives a
kill -9 or a power cut; what was erased is gone from the disk; any number of processes may use one
file. The file is `vault_database`, the keys are `vault_keys`, what comes in is `vault_entries`.
Every method blocks. Called by `vault` in one thread, and by the verbs that change a vault.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Column, delete, func, insert, select
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from gateway.redaction import owed
from gateway.redaction.owed import Debt
from gateway.redaction.vault_database import (
    ENTRIES,
    VOUCHED,
    Database,
    VaultError,
    adopt_old_entries,
    make_tables,
)
from gateway.redaction.vault_entries import Introduced, TokenTaken, batches, claim, introduce
from gateway.redaction.vault_keys import VaultKeys
from gateway.redaction.vault_seal import Sealer
from gateway.redaction.vouching import NEWEST
from shared.keyfile import KeySource


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored token. `value` is None where nothing is given back; `mark` is empty where none was
    kept; `created` in seconds since 1970."""

    kind: str
    value: str | None = field(repr=False)
    mark: str
    created: int


@dataclass(frozen=True, slots=True)
class Stats:
    """What a vault holds: entries and originals by kind, owners, and the oldest entry's time."""

    entries: Mapping[str, int]
    originals: Mapping[str, int]
    owners: int
    oldest: int | None
    size: int


class Store:
    """One vault file and its key; `clock` tells seconds since 1970."""

    def __init__(
        self, path: Path, keys: KeySource, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._database = Database(path)
        self._keys = VaultKeys(self._database, keys)

    def open(self) -> None:
        """Open or create the vault and its key. Raises VaultError with one sentence."""
        self._database.refuse_foreign_file()
        self._keys.read()
        self._database.make_file()
        self._database.open()
        try:
            with self._database.transaction(writes=True) as connection:
                make_tables(connection)
                owed.prepare(connection)
            self._keys.settle()
            adopt_old_entries(self._database)
        except VaultError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._database.close()

    # -- entries ----------------------------------------------------------------------------------

    def put_all(self, calls: Sequence[Introduced]) -> list[TokenTaken | None]:
        """Store what several calls introduced in one transaction, so that they share its cost;
        return, for each, what kept all of its tokens out. Raises VaultError."""
        with self._keys.writing() as (connection, sealer):
            return introduce(connection, sealer, calls, int(self._clock()))

    def claim(self, owner: str, scope: str, texts: Mapping[str, str]) -> set[str]:
        """Note texts (to their kinds) that look like stand-ins and that `owner` wrote itself, so
        that none of them becomes a stand-in of another value later; return those that already are
        one, for whomever."""
        with self._keys.writing() as (connection, _):
            return claim(connection, owner, scope, texts, int(self._clock()))

    def read(self, owner: str, tokens: Iterable[str] | None = None) -> dict[str, Entry]:
        """Return what `owner` introduced: all of it, or those of `tokens`."""
        query = select(
            ENTRIES.c.token,
            ENTRIES.c.kind,
            ENTRIES.c.sealed,
            ENTRIES.c.mark,
            ENTRIES.c.created,
        ).where(ENTRIES.c.owner == owner)
        found: dict[str, Entry] = {}
        with self._keys.reading() as (connection, sealer):
            parts = (
                [query]
                if tokens is None
                else [query.where(ENTRIES.c.token.in_(part)) for part in batches(tokens)]
            )
            for part in parts:
                for token, kind, sealed, mark, created in connection.execute(part):
                    value = None if sealed is None else sealer.unseal(owner, token, sealed)
                    found[token] = Entry(kind, value, mark.hex() if mark else "", created)
        return found

    def owners(self) -> list[str]:
        """Return everybody who introduced something."""
        query = select(ENTRIES.c.owner).distinct().order_by(ENTRIES.c.owner)
        with self._keys.reading() as (connection, _):
            return [row.owner for row in connection.execute(query)]

    def expire(
        self,
        lifetimes: Mapping[str, int | None],
        default: int | None,
        debt: Callable[[], Debt | None] = lambda: None,
    ) -> list[tuple[str, str]]:
        """Delete entries older than their kind's lifetime in seconds (None: kept); return the
        (owner, token) of each. `debt` is asked where any went: the record that this needs."""
        now = int(self._clock())
        old: list[Any] = [
            (ENTRIES.c.kind == kind) & (ENTRIES.c.created <= now - seconds)
            for kind, seconds in lifetimes.items()
            if seconds is not None
        ]
        if default is not None:
            rest = ENTRIES.c.kind.not_in(list(lifetimes))
            old.append(rest & (ENTRIES.c.created <= now - default))
        gone: list[tuple[str, str]] = []
        if not old:
            return gone
        with self._keys.writing() as (connection, _):
            for condition in old:
                query = select(ENTRIES.c.owner, ENTRIES.c.token).where(condition)
                found = [(row.owner, row.token) for row in connection.execute(query)]
                if found:
                    connection.execute(delete(ENTRIES).where(condition))
                    gone += found
            if gone:
                self._owe(debt(), connection, len(gone))
        return gone

    def erase(
        self,
        *,
        owner: str | None = None,
        token: str | None = None,
        values: Sequence[str] = (),
        debt: Debt | None = None,
    ) -> int:
        """Delete what an owner introduced, a token, or originals with one of `values` (of one owner
        where both are given); return how many entries. Their bytes are overwritten. `debt` is the
        record that this needs."""
        conditions: list[Any] = []
        if owner is not None:
            conditions.append(_is_of(ENTRIES.c.owner, owner))
        if token is not None:
            conditions.append(ENTRIES.c.token == token)
        if not conditions and not values:
            raise ValueError("nothing to erase was named")
        with self._keys.writing() as (connection, sealer):
            erased = 0
            if values:
                holding = _holding(connection, sealer, conditions, set(values))
                for row_owner, row_token in holding:
                    which = (ENTRIES.c.owner == row_owner) & (ENTRIES.c.token == row_token)
                    erased += connection.execute(delete(ENTRIES).where(which)).rowcount
            else:
                erased = connection.execute(delete(ENTRIES).where(*conditions)).rowcount
            if owner is not None and token is None and not values:
                connection.execute(delete(VOUCHED).where(_is_of(VOUCHED.c.scope, owner)))
            self._owe(debt, connection, erased)
        self._database.forget_deleted()
        return erased

    def stats(self) -> Stats:
        """Count what is there."""
        with self._keys.reading() as (connection, _):
            by_kind = select(ENTRIES.c.kind, func.count(), func.count(ENTRIES.c.sealed)).group_by(
                ENTRIES.c.kind
            )
            rows = [tuple(row) for row in connection.execute(by_kind)]
            owners = connection.execute(
                select(func.count(func.distinct(ENTRIES.c.owner)))
            ).scalar_one()
            oldest = connection.execute(select(func.min(ENTRIES.c.created))).scalar()
        return Stats(
            entries={kind: count for kind, count, _ in rows},
            originals={kind: count for kind, _, count in rows if count},
            owners=owners,
            oldest=oldest,
            size=self._database.path.stat().st_size,
        )

    # -- signed text ------------------------------------------------------------------------------

    def read_vouched(self, owner: str) -> list[str]:
        """Return the newest digests of signed text handed to `owner`, oldest first."""
        query = (
            select(VOUCHED.c.digest)
            .where(VOUCHED.c.scope == owner)
            .order_by(VOUCHED.c.created.desc())
            .limit(NEWEST)
        )
        with self._database.transaction() as connection:
            return [row.digest for row in connection.execute(query)][::-1]

    def put_vouched(self, owner: str, digest: str) -> None:
        """Remember one digest."""
        row = {"scope": owner, "digest": digest, "created": time.time_ns()}
        known_already = contextlib.suppress(IntegrityError)
        with known_already, self._database.transaction(writes=True) as connection:
            connection.execute(insert(VOUCHED).values(row))

    # -- keys -------------------------------------------------------------------------------------

    def rotate(self, new_key: bytes | None = None, *, debt: Debt | None = None) -> int:
        """Seal everything anew, with `new_key` (where the key is not in a file, the caller must
        have it kept first) or with a new key file; return how many originals. One transaction
        decides; the key file follows, and `open` finishes it after a kill in between. `debt` is
        the record that this needs. Raises VaultError."""
        count = self._keys.rotate(new_key, partial(self._owe, debt))
        self._database.forget_deleted()
        return count

    def _owe(self, debt: Debt | None, connection: Connection, count: int) -> None:
        """Note, in the transaction of a change of `count` entries, the record that it needs."""
        if debt is not None:
            owed.note(connection, debt, count, self._clock())


def _is_of(column: Column[str], owner: str) -> Any:
    """Whether a row is of `owner`, or of one of its sessions: these go with the role. Not LIKE,
    for which SQLite takes capitals and small letters for the same, and role names do not."""
    sessions = f"{owner}/session/"
    return (column == owner) | (func.substr(column, 1, len(sessions)) == sessions)


def _holding(
    connection: Connection, sealer: Sealer, conditions: Sequence[Any], values: set[str]
) -> list[tuple[str, str]]:
    query = select(ENTRIES.c.owner, ENTRIES.c.token, ENTRIES.c.sealed).where(
        ENTRIES.c.sealed.is_not(None), *conditions
    )
    return [
        (row.owner, row.token)
        for row in connection.execute(query)
        if sealer.unseal(row.owner, row.token, row.sealed) in values
    ]
