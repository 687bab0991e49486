"""The vault's file: one SQLite database in which each original is sealed on its own.

Owns the tables (through SQLAlchemy, so that another database needs no new code), the sealing, and
the change of keys; every method blocks. Guarantees: what `put_all` stored survives a kill -9 or a
power cut; an original opens only with the key and only as that of its own owner and token
(AES-256-GCM authenticates them); one token of a scope never stands for two values; a kill at any
moment of `rotate` leaves a vault that one of the two keys opens, and `open` finds out which. Any
number of processes may use one file: each write first checks, in its own transaction, which key is
in force.
Called by `vault` in one thread, and by the `sphragis vault` verbs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Index,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DatabaseError, IntegrityError, SQLAlchemyError

from gateway.redaction import owed
from gateway.redaction.owed import Debt, Owed
from gateway.redaction.tokens import TOKEN, kind_of
from gateway.redaction.vouching import NEWEST
from shared.keyfile import (
    KEY_VARIABLE,
    KeyFileError,
    KeyPlace,
    KeySource,
    read_key,
    read_or_make_key,
)

T = TypeVar("T")

_metadata: Final = MetaData()
#: Who introduced which token. `mark` is a keyed digest of the value (see `tokens`), `sealed` the
#: value itself, or NULL where it is never given back.
_entries: Final = Table(
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
_vouched: Final = Table(
    "vouched",
    _metadata,
    Column("scope", String(128), primary_key=True),
    Column("digest", String(32), primary_key=True),
    Column("created", BigInteger, nullable=False, index=True),  # nanoseconds since 1970, UTC
)
_facts: Final = Table(
    "facts",
    _metadata,
    Column("name", String(32), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

# New values run these; to build a statement takes as long as to run it.
_ROWS_OF: Final = select(
    _entries.c.owner,
    _entries.c.token,
    _entries.c.mark,
    _entries.c.sealed.is_not(None).label("has_value"),
).where(
    _entries.c.scope == bindparam("scope"),
    _entries.c.token.in_(bindparam("tokens", expanding=True)),
)
_INSERT: Final = insert(_entries)
_KEY_CHECK: Final = "key_check"
_KEY_CHECK_OF: Final = select(_facts.c.value).where(_facts.c.name == _KEY_CHECK)

#: First byte of every sealed value; the rest is a 12-byte nonce and AES-256-GCM ciphertext with
#: tag.
_FORMAT: Final = b"\x01"
_NONCE: Final = 12
#: Tokens asked for in one statement; SQLite allows 999 variables in its oldest builds.
_BATCH: Final = 500
#: Rows sealed anew in one statement.
_ROTATE_BATCH: Final = 2_000
#: Seconds that another program gets to make a new file.
_WAL_SECONDS: Final = 5.0
_SQLITE_MAGIC: Final = b"SQLite format 3\0"
#: What the row of a stand-in's own text holds instead of a mark: the text stands for itself.
ITSELF: Final = b"itself"


class VaultError(Exception):
    """The vault cannot be used; the text says why and what to do."""


class TokenTaken(VaultError):
    """A token is already another value's. `owners` maps it to that value's mark, `alike` all other
    stand-ins of its kind to theirs: scan again with both in `ScanJob.taken`, and the new value gets
    another token."""

    def __init__(self, owners: dict[str, str], alike: dict[str, str]) -> None:
        super().__init__("A token is already in use for another value; scan the call again.")
        self.owners = owners
        self.alike = alike


@dataclass(frozen=True, slots=True)
class NewEntry:
    """One token to store: its kind, the mark of its value (32 hex digits), and the value where it
    may be given back."""

    kind: str
    mark: str
    value: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Introduced:
    """The tokens of `scope` that one call of `owner` introduced."""

    owner: str
    scope: str
    new: Mapping[str, NewEntry]


class _Found:
    """What the vault holds of some tokens of one scope: the marks of their values, and who has
    them (and whether with a value)."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self.marks: dict[str, bytes] = {}
        self.owned: dict[tuple[str, str], bool] = {}
        for owner, token, mark, has_value in rows:
            self.owned[(owner, token)] = has_value
            if mark is not None:
                self.marks[token] = mark

    def taken(self, new: Mapping[str, NewEntry]) -> dict[str, str]:
        """Return the tokens that stand for another value, to its mark."""
        return {
            token: mark.hex()
            for token, entry in new.items()
            if (mark := self.marks.get(token)) is not None and mark.hex() != entry.mark
        }


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
    """One vault file and its key."""

    def __init__(
        self, path: Path, keys: KeySource, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._keys = keys
        self._clock = clock
        self._engine: Engine | None = None
        self._seal: AESGCM | None = None
        #: The sealed constant of the key in force, as it was when this key was read.
        self._check: bytes = b""

    def open(self) -> None:
        """Open or create the vault and its key. Raises VaultError with one sentence."""
        self._refuse_foreign_file()
        try:
            self._seal = AESGCM(self._first_key())
        except KeyFileError as error:
            raise VaultError(str(error)) from None
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._path.chmod(0o600)
        except OSError as error:
            raise VaultError(
                f"The vault {self._path} cannot be opened ({error.strerror}); "
                "choose a place you can write."
            ) from None
        self._engine = _sqlite(self._path)
        try:
            with self._connected(writes=True) as connection:
                _metadata.create_all(connection)
                owed.prepare(connection)
            self._check_key()
            self._adopt_old_entries()
        except SQLAlchemyError as error:
            self.close()
            raise VaultError(_database_sentence(self._path, error)) from None
        except VaultError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    # -- entries ----------------------------------------------------------------------------------

    def put_all(self, calls: Sequence[Introduced]) -> list[TokenTaken | None]:
        """Store what several calls introduced in one transaction, so that they share its cost;
        return, for each, what kept all of its tokens out. Raises VaultError."""
        with self._writing() as connection:
            found = {
                scope: _Found(self._rows_of(connection, scope, tokens))
                for scope, tokens in _by_scope(calls).items()
            }
            outcomes: list[TokenTaken | None] = []
            rows: list[dict[str, Any]] = []
            for call in calls:
                there = found[call.scope]
                taken = there.taken(call.new)
                if taken:
                    alike = self._others_alike(connection, call.scope, taken, call.new)
                    outcomes.append(TokenTaken(taken, alike))
                    continue
                outcomes.append(None)
                rows += self._missing(connection, call, there)
            if rows:
                connection.execute(_INSERT, rows)
        return outcomes

    def _missing(
        self, connection: Connection, call: Introduced, there: _Found
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows `call` needs, and note that they are there."""
        now = int(self._clock())
        for token, entry in call.new.items():
            has_value = there.owned.get((call.owner, token))
            sealed = None
            if has_value is None or (entry.value is not None and not has_value):
                sealed = self._sealed_or_none(call.owner, token, entry.value)
                there.owned[(call.owner, token)] = sealed is not None
            if has_value is None:
                there.marks[token] = bytes.fromhex(entry.mark)
                yield {
                    "owner": call.owner,
                    "token": token,
                    "scope": call.scope,
                    "kind": entry.kind,
                    "mark": there.marks[token],
                    "sealed": sealed,
                    "created": now,
                }
            elif sealed is not None:  # known as not to be given back until now
                row = (_entries.c.owner == call.owner) & (_entries.c.token == token)
                connection.execute(update(_entries).where(row).values(sealed=sealed))

    def claim(self, owner: str, scope: str, texts: Mapping[str, str]) -> set[str]:
        """Note texts (to their kinds) that look like stand-ins and that `owner` wrote itself, so
        that none of them becomes a stand-in of another value later; return those that already are
        one, for whomever."""
        with self._writing() as connection:
            rows = self._rows_of(connection, scope, texts)
            foreign = {row.token for row in rows if row.mark != ITSELF}
            own = {row.token for row in rows if row.owner == owner}
            missing = [t for t in texts if t not in foreign and t not in own]
            now = int(self._clock())
            if missing:
                connection.execute(
                    insert(_entries),
                    [
                        {
                            "owner": owner,
                            "token": text,
                            "scope": scope,
                            "kind": texts[text],
                            "mark": ITSELF,
                            "sealed": None,
                            "created": now,
                        }
                        for text in missing
                    ],
                )
            return foreign - own

    def read(self, owner: str, tokens: Iterable[str] | None = None) -> dict[str, Entry]:
        """Return what `owner` introduced: all of it, or those of `tokens`."""
        query = select(
            _entries.c.token,
            _entries.c.kind,
            _entries.c.sealed,
            _entries.c.mark,
            _entries.c.created,
        ).where(_entries.c.owner == owner)
        found: dict[str, Entry] = {}
        with self._reading() as connection:
            parts = (
                [query]
                if tokens is None
                else [query.where(_entries.c.token.in_(part)) for part in _batches(tokens)]
            )
            for part in parts:
                for token, kind, sealed, mark, created in connection.execute(part):
                    value = None if sealed is None else self._opened(_aad(owner, token), sealed)
                    found[token] = Entry(kind, value, mark.hex() if mark else "", created)
        return found

    def owners(self) -> list[str]:
        """Return everybody who introduced something."""
        query = select(_entries.c.owner).distinct().order_by(_entries.c.owner)
        with self._reading() as connection:
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
            (_entries.c.kind == kind) & (_entries.c.created <= now - seconds)
            for kind, seconds in lifetimes.items()
            if seconds is not None
        ]
        if default is not None:
            rest = _entries.c.kind.not_in(list(lifetimes))
            old.append(rest & (_entries.c.created <= now - default))
        gone: list[tuple[str, str]] = []
        if not old:
            return gone
        with self._writing() as connection:
            for condition in old:
                query = select(_entries.c.owner, _entries.c.token).where(condition)
                found = [(row.owner, row.token) for row in connection.execute(query)]
                if found:
                    connection.execute(delete(_entries).where(condition))
                    gone += found
            if gone and (due := debt()) is not None:
                owed.note(connection, due, len(gone), self._clock())
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
            # A role's sessions go with the role.
            sessions = _entries.c.owner.startswith(f"{owner}/session/", autoescape=True)
            conditions.append((_entries.c.owner == owner) | sessions)
        if token is not None:
            conditions.append(_entries.c.token == token)
        if not conditions and not values:
            raise ValueError("nothing to erase was named")
        with self._writing() as connection:
            erased = 0
            if values:
                for row_owner, row_token in self._holding(connection, conditions, set(values)):
                    which = (_entries.c.owner == row_owner) & (_entries.c.token == row_token)
                    erased += connection.execute(delete(_entries).where(which)).rowcount
            else:
                erased = connection.execute(delete(_entries).where(*conditions)).rowcount
            if owner is not None and token is None and not values:
                sessions = _vouched.c.scope.startswith(f"{owner}/session/", autoescape=True)
                which = (_vouched.c.scope == owner) | sessions
                connection.execute(delete(_vouched).where(which))
            if debt is not None:
                owed.note(connection, debt, erased, self._clock())
        self._truncate()
        return erased

    def stats(self) -> Stats:
        """Count what is there."""
        with self._reading() as connection:
            by_kind = select(_entries.c.kind, func.count(), func.count(_entries.c.sealed)).group_by(
                _entries.c.kind
            )
            rows = [tuple(row) for row in connection.execute(by_kind)]
            owners = connection.execute(
                select(func.count(func.distinct(_entries.c.owner)))
            ).scalar_one()
            oldest = connection.execute(select(func.min(_entries.c.created))).scalar()
        return Stats(
            entries={kind: count for kind, count, _ in rows},
            originals={kind: count for kind, _, count in rows if count},
            owners=owners,
            oldest=oldest,
            size=self._path.stat().st_size,
        )

    # -- signed text ------------------------------------------------------------------------------

    def read_vouched(self, owner: str) -> list[str]:
        """Return the newest digests of signed text handed to `owner`, oldest first."""
        query = (
            select(_vouched.c.digest)
            .where(_vouched.c.scope == owner)
            .order_by(_vouched.c.created.desc())
            .limit(NEWEST)
        )
        with self._connected() as connection:
            return [row.digest for row in connection.execute(query)][::-1]

    def put_vouched(self, owner: str, digest: str) -> None:
        """Remember one digest."""
        row = {"scope": owner, "digest": digest, "created": time.time_ns()}
        known_already = contextlib.suppress(IntegrityError)
        with known_already, self._connected(writes=True) as connection:
            connection.execute(insert(_vouched).values(row))

    # -- keys -------------------------------------------------------------------------------------

    def rotate(self, new_key: bytes | None = None, *, debt: Debt | None = None) -> int:
        """Seal everything anew, with `new_key` (where the key is not in a file, the caller must
        have it kept first) or with a new key file; return how many originals. One transaction
        decides; the key file follows, and `open` finishes it after a kill in between. `debt` is
        the record that this needs."""
        with _only_one(self._path.with_name(f"{self._path.name}.rotate")):
            if new_key is None:
                if self._keys.place is not KeyPlace.FILE:
                    raise VaultError(
                        f"The vault's key comes from {self._keys.described()}; name the file of "
                        "the new key with --new-key-file."
                    )
                self._finish_rotation()
                self._keys.next_file.unlink(missing_ok=True)
                new_key = read_or_make_key(self._keys.next_file)
            count = self._seal_anew(AESGCM(new_key), debt)
            if self._keys.place is KeyPlace.FILE and self._keys.next_file.exists():
                self._finish_rotation()
        self._truncate()
        return count

    def _seal_anew(self, new: AESGCM, debt: Debt | None) -> int:
        """The switch from one key to the other: all rows and the constant, or none."""
        count = 0
        query = select(_entries.c.owner, _entries.c.token, _entries.c.sealed).where(
            _entries.c.sealed.is_not(None)
        )
        change = (
            update(_entries)
            .where(_entries.c.owner == bindparam("o"), _entries.c.token == bindparam("t"))
            .values(sealed=bindparam("s"))
        )
        with self._writing() as connection:
            rows = connection.execute(query).fetchall()
            for start in range(0, len(rows), _ROTATE_BATCH):
                changes = []
                for owner, token, sealed in rows[start : start + _ROTATE_BATCH]:
                    value = self._opened(_aad(owner, token), sealed)
                    again = _seal(new, _aad(owner, token), value)
                    changes.append({"o": owner, "t": token, "s": again})
                connection.execute(change, changes)
                count += len(changes)
            check = _seal(new, _KEY_CHECK.encode(), _KEY_CHECK)
            connection.execute(
                update(_facts).where(_facts.c.name == _KEY_CHECK).values(value=check)
            )
            if debt is not None:
                owed.note(connection, debt, count, self._clock())
        self._seal, self._check = new, check
        return count

    def _finish_rotation(self) -> None:
        """Put the next key in the key's place if it is the one the vault is sealed with."""
        if not self._keys.next_file.exists():
            return
        with self._connected() as connection:
            check = _key_check_of(connection)
        if check is not None and _opens(AESGCM(read_key(self._keys.next_file)), check):
            os.replace(self._keys.next_file, self._keys.file)
            _sync_directory(self._keys.file.parent)

    def _first_key(self) -> bytes:
        """The key, made where nothing was ever sealed."""
        fresh = not (self._path.exists() and self._path.stat().st_size > 0)
        if self._keys.place is KeyPlace.FILE and not self._keys.file.exists() and not fresh:
            raise VaultError(
                f"The key file {self._keys.file} is missing but the vault {self._path} exists; "
                "put the key back, or move the vault away to start an empty one."
            )
        return self._keys.read_or_make()

    def _check_key(self) -> None:
        """The first start seals a constant; a key that cannot open it is not this vault's key."""
        assert self._seal is not None
        with self._connected(writes=True) as connection:
            check = _key_check_of(connection)
            if check is None:
                check = _seal(self._seal, _KEY_CHECK.encode(), _KEY_CHECK)
                connection.execute(insert(_facts).values(name=_KEY_CHECK, value=check))
        self._use_key_of(check)
        if self._keys.place is KeyPlace.FILE and self._keys.next_file.exists():
            idle = contextlib.suppress(VaultError)  # else somebody is at it just now
            with idle, _only_one(self._path.with_name(f"{self._path.name}.rotate")):
                self._finish_rotation()

    def _use_key_of(self, check: bytes) -> None:
        """Have the key that opens `check`: the one we hold, or what its places hold by now. A kill,
        or another process at work, may leave the right one in the next key's file."""
        assert self._seal is not None
        if check == self._check:
            return
        if _opens(self._seal, check):
            self._check = check
            return
        readers: list[Callable[[], bytes]] = [self._keys.read]
        if self._keys.place is KeyPlace.FILE:
            readers.append(lambda: read_key(self._keys.next_file))
        for _ in range(2):  # the next key may become the key while we look
            for reader in readers:
                with contextlib.suppress(KeyFileError):
                    seal = AESGCM(reader())
                    if _opens(seal, check):
                        self._seal, self._check = seal, check
                        return
        raise VaultError(
            f"The key does not belong to the vault {self._path}; use the key it was made with "
            f"({KEY_VARIABLE} or {self._keys.file}), or move the vault away to start anew."
        )

    # -- parts of the above -----------------------------------------------------------------------

    def _rows_of(self, connection: Connection, scope: str, tokens: Iterable[str]) -> list[Any]:
        rows: list[Any] = []
        for part in _batches(tokens):
            rows += connection.execute(_ROWS_OF, {"scope": scope, "tokens": part})
        return rows

    def _others_alike(
        self,
        connection: Connection,
        scope: str,
        taken: Mapping[str, str],
        new: Mapping[str, NewEntry],
    ) -> dict[str, str]:
        """Stand-ins are few: with one that is taken, tell all of its kind, or the next try may
        well be taken too."""
        kinds = {new[token].kind for token in taken if not token.startswith("[")}
        if not kinds:
            return {}
        query = select(_entries.c.token, _entries.c.mark).where(
            _entries.c.scope == scope, _entries.c.kind.in_(kinds), _entries.c.mark.is_not(None)
        )
        return {
            row.token: row.mark.hex()
            for row in connection.execute(query)
            if not row.token.startswith("[")
        }

    def _holding(
        self, connection: Connection, conditions: Sequence[Any], values: set[str]
    ) -> list[tuple[str, str]]:
        query = select(_entries.c.owner, _entries.c.token, _entries.c.sealed).where(
            _entries.c.sealed.is_not(None), *conditions
        )
        return [
            (row.owner, row.token)
            for row in connection.execute(query)
            if self._opened(_aad(row.owner, row.token), row.sealed) in values
        ]

    def _adopt_old_entries(self) -> None:
        """Vaults of earlier versions kept originals only, in a table of their own."""
        assert self._engine is not None
        if not inspect(self._engine).has_table("originals"):
            return
        old = Table("originals", MetaData(), autoload_with=self._engine)
        with self._connected(writes=True) as connection:
            for row in connection.execute(select(old)).fetchall():
                with contextlib.suppress(IntegrityError), connection.begin_nested():
                    connection.execute(
                        insert(_entries).values(
                            owner=row.scope,
                            token=row.token,
                            scope=row.scope,
                            kind=kind_of(row.token) if TOKEN.fullmatch(row.token) else "",
                            sealed=row.sealed,
                            created=row.created,
                        )
                    )
            connection.execute(delete(old))

    def _truncate(self) -> None:
        """Empty the write-ahead file, where what was deleted may still stand; another process that
        reads just now keeps it for a while."""
        assert self._engine is not None
        with contextlib.suppress(SQLAlchemyError, sqlite3.Error):
            connection = self._engine.raw_connection()
            try:
                connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                connection.close()

    # -- transactions -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A transaction that no other process writes beside, under the key in force."""
        with self._connected(writes=True) as connection:
            self._use_key_in_force(connection)
            yield connection

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        """A view of one moment, under the key of that moment."""
        with self._connected() as connection:
            self._use_key_in_force(connection)
            yield connection

    def _use_key_in_force(self, connection: Connection) -> None:
        check = _key_check_of(connection)
        if check is None:
            raise VaultError(
                f"The vault {self._path} is damaged (it names no key); restore it from a backup."
            )
        self._use_key_of(check)

    @contextlib.contextmanager
    def _connected(self, *, writes: bool = False) -> Iterator[Connection]:
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
            raise VaultError(_database_sentence(self._path, error)) from None

    # -- sealing ----------------------------------------------------------------------------------

    def _sealed_or_none(self, owner: str, token: str, value: str | None) -> bytes | None:
        assert self._seal is not None
        return None if value is None else _seal(self._seal, _aad(owner, token), value)

    def _opened(self, aad: bytes, sealed: bytes) -> str:
        assert self._seal is not None
        if sealed[:1] != _FORMAT:
            raise VaultError(
                f"The vault {self._path} was written by a newer program; update this one."
            )
        try:
            return _open(self._seal, aad, sealed)
        except InvalidTag:
            raise VaultError(
                f"An entry of the vault {self._path} was altered or sealed with another key; "
                "restore the file from a backup."
            ) from None

    def _refuse_foreign_file(self) -> None:
        try:
            with self._path.open("rb") as file:
                head = file.read(len(_SQLITE_MAGIC))
        except FileNotFoundError:
            return
        except OSError as error:
            raise VaultError(
                f"The vault {self._path} cannot be read ({error.strerror}); "
                "correct its owner and rights."
            ) from None
        if head and head != _SQLITE_MAGIC:
            raise VaultError(
                f"The vault {self._path} is not a vault of this program (not an SQLite file); "
                "move it away, or set another vault path."
            )


def _seal(seal: AESGCM, aad: bytes, value: str) -> bytes:
    nonce = secrets.token_bytes(_NONCE)
    return _FORMAT + nonce + seal.encrypt(nonce, value.encode("utf-8", "surrogatepass"), aad)


def _open(seal: AESGCM, aad: bytes, sealed: bytes) -> str:
    """Raises InvalidTag."""
    nonce, body = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
    return seal.decrypt(nonce, body, aad).decode("utf-8", "surrogatepass")


def _opens(seal: AESGCM, check: bytes) -> bool:
    try:
        return _open(seal, _KEY_CHECK.encode(), check) == _KEY_CHECK
    except (InvalidTag, ValueError):
        return False


def _key_check_of(connection: Connection) -> bytes | None:
    check: bytes | None = connection.execute(_KEY_CHECK_OF).scalar()
    return check


def _aad(owner: str, token: str) -> bytes:
    """`owner|token`; a token holds no `|`, so the last one separates them."""
    return f"{owner}|{token}".encode()


def _by_scope(calls: Iterable[Introduced]) -> dict[str, set[str]]:
    tokens: dict[str, set[str]] = {}
    for call in calls:
        tokens.setdefault(call.scope, set()).update(call.new)
    return tokens


def _batches(tokens: Iterable[str]) -> Iterator[list[str]]:
    ordered = sorted(tokens)
    for start in range(0, len(ordered), _BATCH):
        yield ordered[start : start + _BATCH]


class Debts:
    """What the vault at `path` owes one ledger. Needs no key, and never makes a vault."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._engine = _sqlite(path)

    def of(self, ledger: str) -> list[Owed]:
        """Return the changes that this ledger does not have yet, oldest first. Raises
        VaultError."""
        try:
            return owed.read(self._engine, ledger)
        except SQLAlchemyError as error:
            raise VaultError(_database_sentence(self._path, error)) from None

    def settle(self, one: Owed) -> None:
        """Forget a change whose record is durable. Raises VaultError."""
        try:
            owed.settle(self._engine, one.debt.id)
        except SQLAlchemyError as error:
            raise VaultError(_database_sentence(self._path, error)) from None

    def close(self) -> None:
        """Close the file."""
        self._engine.dispose()


@contextlib.contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold a lock that the kernel lets go of with the process. Raises VaultError where another
    process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise VaultError(
            "Another program changes the vault's key just now; wait until it is done."
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


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


def _database_sentence(path: Path, error: SQLAlchemyError) -> str:
    """SQLite's own words are about the file, never about what is in it (parameters are hidden)."""
    reason = str(error.orig) if isinstance(error, DatabaseError) else type(error).__name__
    if "not a database" in reason or "malformed" in reason:
        return (
            f"The vault {path} is damaged ({reason}); restore it from a backup or move it away "
            "to start an empty one."
        )
    return f"The vault {path} cannot be used ({reason}); check the disk and the file's rights."
