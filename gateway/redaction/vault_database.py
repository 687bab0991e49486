"""The vault's file: one SQLite database, its tables and the transactions on it.

Owns the tables (through SQLAlchemy, so that another database needs no new code), what makes a
commit durable, and the sentences about what is wrong with the file. Guarantees: what a transaction
committed survives a kill -9 or a power cut; one that writes begins as such, so that no other
process writes beside it; what was deleted is overwritten; the file of another program is left
alone. Knows no key. Every method blocks. Called by `vault_store`, `vault_keys` and `owed`.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Index,
    LargeBinary,
    MetaData,
    String,
    Table,
    create_engine,
    delete,
    event,
    insert,
    inspect,
    select,
)
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DatabaseError, IntegrityError, SQLAlchemyError

from gateway.redaction.tokens import TOKEN, kind_of

_metadata: Final = MetaData()
#: Who introduced which token. `mark` is a keyed digest of the value (see `tokens`), `sealed` the
#: value itself, or NULL where it is never given back.
ENTRIES: Final = Table(
    "entries",
    _metadata,
    Column("owner", String(128), primary_key=True),
    Column("token", String(64), primary_key=True),
    Column("scope", String(128), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("mark", LargeBinary, nullable=True),
    Column("sealed", LargeBinary, nullable=True),
    Column("created", BigInteger, nullable=False),  # seconds since 1970, UTC
    Index("entries_by_token", "scope", "token"),
    Index("entries_by_age", "kind", "created"),
)
#: Digests of signed text that was handed out (see `vouching`); `scope` is the owner.
VOUCHED: Final = Table(
    "vouched",
    _metadata,
    Column("scope", String(128), primary_key=True),
    Column("digest", String(32), primary_key=True),
    Column("created", BigInteger, nullable=False, index=True),  # nanoseconds since 1970, UTC
)
#: What is true of the vault as a whole, by name.
FACTS: Final = Table(
    "facts",
    _metadata,
    Column("name", String(32), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

#: Seconds that another program gets to make a new file.
_WAL_SECONDS: Final = 5.0
_SQLITE_MAGIC: Final = b"SQLite format 3\0"


class VaultError(Exception):
    """The vault cannot be used; the text says why and what to do."""


class Database:
    """The database in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._engine: Engine | None = None

    def make_file(self) -> None:
        """Make the file where there is none, and close it to others. Raises VaultError."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self.path.chmod(0o600)
        except OSError as error:
            raise VaultError(
                f"The vault {self.path} cannot be opened ({error.strerror}); "
                "choose a place you can write."
            ) from None

    def open(self) -> None:
        """Be ready for transactions; the file is read with the first of them."""
        self._engine = _sqlite(self.path)

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    @contextlib.contextmanager
    def transaction(self, *, writes: bool = False) -> Iterator[Connection]:
        """All or nothing of what is done in the block: beside no other that `writes`, or a view of
        one moment. Raises VaultError; IntegrityError is the caller's own."""
        if self._engine is None:
            raise VaultError("The vault is not open; start the gateway again.")
        try:
            with self._engine.connect() as plain:
                connection = plain.execution_options(vault_writes=writes)
                with connection.begin():
                    yield connection
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            raise VaultError(database_sentence(self.path, error)) from None

    def forget_deleted(self) -> None:
        """Empty the write-ahead file, where what was deleted may still stand; another process that
        reads just now keeps it for a while."""
        assert self._engine is not None
        with contextlib.suppress(SQLAlchemyError, sqlite3.Error):
            connection = self._engine.raw_connection()
            try:
                connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                connection.close()

    def refuse_foreign_file(self) -> None:
        """Raise VaultError when the file is there and is no SQLite file."""
        try:
            with self.path.open("rb") as file:
                head = file.read(len(_SQLITE_MAGIC))
        except FileNotFoundError:
            return
        except OSError as error:
            raise VaultError(
                f"The vault {self.path} cannot be read ({error.strerror}); "
                "correct its owner and rights."
            ) from None
        if head and head != _SQLITE_MAGIC:
            raise VaultError(
                f"The vault {self.path} is not a vault of this program (not an SQLite file); "
                "move it away, or set another vault path."
            )


def make_tables(connection: Connection) -> None:
    """Make the tables that are not there yet."""
    _metadata.create_all(connection)


def adopt_old_entries(database: Database) -> None:
    """Vaults of earlier versions kept originals only, in a table of their own."""
    with database.transaction() as connection:
        if not inspect(connection).has_table("originals"):
            return
        old = Table("originals", MetaData(), autoload_with=connection)
    with database.transaction(writes=True) as connection:
        for row in connection.execute(select(old)).fetchall():
            with contextlib.suppress(IntegrityError), connection.begin_nested():
                connection.execute(
                    insert(ENTRIES).values(
                        owner=row.scope,
                        token=row.token,
                        scope=row.scope,
                        kind=kind_of(row.token) if TOKEN.fullmatch(row.token) else "",
                        sealed=row.sealed,
                        created=row.created,
                    )
                )
        connection.execute(delete(old))


def _sqlite(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}", hide_parameters=True)

    @event.listens_for(engine, "connect")
    def _durable(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # `_begin` says which kind of transaction it is
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout = 10000")
        _use_wal(cursor)
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA secure_delete = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("vault_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _use_wal(cursor: sqlite3.Cursor) -> None:
    """Two programs that open a new file at once both change its mode; SQLite tells the second that
    it is locked without waiting, whatever its busy timeout."""
    until = time.monotonic() + _WAL_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.01)
        else:
            return


def database_sentence(path: Path, error: SQLAlchemyError) -> str:
    """SQLite's own words are about the file, never about what is in it (parameters are hidden)."""
    reason = str(error.orig) if isinstance(error, DatabaseError) else type(error).__name__
    if "not a database" in reason or "malformed" in reason:
        return (
            f"The vault {path} is damaged ({reason}); restore it from a backup or move it away "
            "to start an empty one."
        )
    return f"The vault {path} cannot be used ({reason}); check the disk and the file's rights."
