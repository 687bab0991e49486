"""The vault: which original a token stands for, sealed on disk.

Owns one SQLite database (through SQLAlchemy, so that another database needs no new code) and the
memory of what it read. Guarantees: `put` returns only after the mapping is on disk and would
survive a kill -9 or a power cut; an original is readable only with the key, and only as the
original of its own scope and token (they are authenticated with it); a token never changes its
original. Blocking work runs in one thread of the vault's own; `view` answers from memory, for
streams. Called by the pipeline: `load` and `put` before forwarding, `view` while restoring.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    LargeBinary,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    insert,
    select,
)
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DatabaseError, IntegrityError, SQLAlchemyError

from gateway.redaction.keyfile import KeyFileError, decode_key, read_key, read_or_make_key
from gateway.redaction.vouching import NEWEST

T = TypeVar("T")

KEY_VARIABLE: Final = "SPHRAGIS_VAULT_KEY"

_metadata: Final = MetaData()
_originals: Final = Table(
    "originals",
    _metadata,
    Column("scope", String(128), primary_key=True),
    Column("token", String(64), primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
    Column("created", BigInteger, nullable=False),  # seconds since 1970, UTC
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

#: First byte of every sealed value; the rest is a 12-byte nonce and AES-256-GCM ciphertext with
#: tag.
_FORMAT: Final = b"\x01"
_NONCE: Final = 12
_KEY_CHECK: Final = "key_check"
#: Tokens asked for in one statement; SQLite allows 999 variables in its oldest builds.
_BATCH: Final = 500
_SQLITE_MAGIC: Final = b"SQLite format 3\0"


class VaultError(Exception):
    """The vault cannot be used; the text says why and what to do."""


class TokenTaken(VaultError):
    """A token is already another value's. `owners` maps it to that value: scan again with it in
    `ScanJob.taken`, and the new value gets a longer token."""

    def __init__(self, owners: dict[str, str]) -> None:
        super().__init__("A token is already in use for another value; scan the call again.")
        self.owners = owners


class Vault:
    """One vault file. `environ` is where the key may be given instead of a key file."""

    def __init__(
        self, path: Path, keyfile: Path, *, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._path = path
        self._keyfile = keyfile
        self._given_key = environ.get(KEY_VARIABLE)
        self._engine: Engine | None = None
        self._seal: AESGCM | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._memory: dict[str, dict[str, str]] = {}
        self._loaded: set[str] = set()
        #: Digests by scope, oldest first.
        self._vouched: dict[str, dict[str, None]] = {}

    def open(self) -> None:
        """Open or create the vault and its key; blocking. Raises VaultError with one sentence."""
        self._refuse_foreign_file()
        try:
            self._seal = AESGCM(self._key())
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
            _metadata.create_all(self._engine)
            self._check_key()
        except SQLAlchemyError as error:
            self._engine.dispose()
            raise VaultError(_database_sentence(self._path, error)) from None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vault")

    def close(self) -> None:
        """Finish what was accepted and close; blocking; safe to call twice."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)
            self._thread = None
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
        self._memory.clear()
        self._vouched.clear()
        self._loaded.clear()

    @property
    def is_open(self) -> bool:
        """Whether values can be stored and read."""
        return self._thread is not None

    async def put(self, scope: str, originals: Mapping[str, str]) -> None:
        """Store `originals` (token to value) durably. Raises TokenTaken and stores nothing when a
        token already stands for another value, VaultError when the disk refuses."""
        known = self._memory.get(scope, {})
        new = {token: value for token, value in originals.items() if known.get(token) != value}
        if new:
            stored = await self._in_thread(lambda: self._put(scope, new))
            self._memory.setdefault(scope, {}).update(stored)

    async def load(self, scope: str) -> Mapping[str, str]:
        """Read the scope's mapping into memory (once) and return its view."""
        if scope not in self._loaded:
            rows = await self._in_thread(lambda: self._read(scope, None))
            self._memory.setdefault(scope, {}).update(rows)
            self._loaded.add(scope)
        return self.view(scope)

    async def lookup(self, scope: str, tokens: Iterable[str]) -> dict[str, str]:
        """Return the originals of those `tokens` that the scope owns."""
        wanted = set(tokens)
        known = self._memory.setdefault(scope, {})
        missing = wanted - known.keys()
        if missing:
            known.update(await self._in_thread(lambda: self._read(scope, missing)))
        return {token: known[token] for token in wanted if token in known}

    async def vouched(self, scope: str) -> list[str]:
        """Return the newest digests of signed text that `scope` was handed out."""
        known = self._vouched.get(scope)
        if known is None:
            rows = await self._in_thread(lambda: self._read_vouched(scope))
            known = self._vouched.setdefault(scope, {})
            known |= dict.fromkeys([*rows, *known])
        digests = list(known)
        for forgotten in digests[:-NEWEST]:
            known.pop(forgotten, None)
        return digests[-NEWEST:]

    def vouch(self, scope: str, digest: str) -> None:
        """Remember that the text of `digest` was handed out (see `vouching`); from any thread.

        The next request finds it; the disk follows. A digest that does not get there is no leak:
        after a restart its text is read like any other.
        """
        known = self._vouched.get(scope)
        if known is not None:
            known[digest] = None
        if self._thread is not None:
            self._thread.submit(self._put_vouched, scope, digest)

    def view(self, scope: str) -> Mapping[str, str]:
        """Return a live, read-only mapping of what is in memory for `scope`; never blocks."""
        return _View(self._memory.setdefault(scope, {}))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            raise VaultError("The vault is not open; start the gateway again.")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except SQLAlchemyError as error:
            raise VaultError(_database_sentence(self._path, error)) from None

    # -- blocking, in the vault's thread ---------------------------------------------------------

    def _put(self, scope: str, originals: Mapping[str, str]) -> Mapping[str, str]:
        """Insert what is missing. A second writer may insert the same token between our look and
        our insert; then look once more."""
        for attempt in (1, 2):
            existing = self._read(scope, set(originals))
            taken = {t: v for t, v in existing.items() if originals[t] != v}
            if taken:
                raise TokenTaken(taken)
            now = int(time.time())
            rows = [
                {
                    "scope": scope,
                    "token": token,
                    "sealed": self._sealed(_aad(scope, token), value),
                    "created": now,
                }
                for token, value in originals.items()
                if token not in existing
            ]
            if not rows:
                return originals
            try:
                with self._connection() as connection, connection.begin():
                    connection.execute(insert(_originals), rows)
            except IntegrityError:
                if attempt == 2:
                    raise
            else:
                return originals
        raise AssertionError("unreachable")

    def _read(self, scope: str, tokens: set[str] | None) -> dict[str, str]:
        query = select(_originals.c.token, _originals.c.sealed).where(_originals.c.scope == scope)
        rows: list[tuple[str, bytes]] = []
        with self._connection() as connection:
            if tokens is None:
                rows = [(r.token, r.sealed) for r in connection.execute(query)]
            else:
                ordered = sorted(tokens)
                for start in range(0, len(ordered), _BATCH):
                    part = query.where(_originals.c.token.in_(ordered[start : start + _BATCH]))
                    rows += [(r.token, r.sealed) for r in connection.execute(part)]
        return {token: self._opened(_aad(scope, token), sealed) for token, sealed in rows}

    def _read_vouched(self, scope: str) -> list[str]:
        query = (
            select(_vouched.c.digest)
            .where(_vouched.c.scope == scope)
            .order_by(_vouched.c.created.desc())
            .limit(NEWEST)
        )
        with self._connection() as connection:
            return [row.digest for row in connection.execute(query)][::-1]

    def _put_vouched(self, scope: str, digest: str) -> None:
        row = {"scope": scope, "digest": digest, "created": time.time_ns()}
        known_already = contextlib.suppress(IntegrityError)
        with known_already, self._connection() as connection, connection.begin():
            connection.execute(insert(_vouched).values(row))

    def _connection(self) -> Connection:
        if self._engine is None:
            raise VaultError("The vault is not open; start the gateway again.")
        return self._engine.connect()

    # -- sealing ----------------------------------------------------------------------------------

    def _sealed(self, aad: bytes, value: str) -> bytes:
        assert self._seal is not None
        nonce = secrets.token_bytes(_NONCE)
        return _FORMAT + nonce + self._seal.encrypt(nonce, value.encode(), aad)

    def _opened(self, aad: bytes, sealed: bytes) -> str:
        assert self._seal is not None
        if sealed[:1] != _FORMAT:
            raise VaultError(
                f"The vault {self._path} was written by a newer program; update this one."
            )
        nonce, body = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
        try:
            return self._seal.decrypt(nonce, body, aad).decode()
        except InvalidTag:
            raise VaultError(
                f"An entry of the vault {self._path} was altered or sealed with another key; "
                "restore the file from a backup."
            ) from None

    def _key(self) -> bytes:
        if self._given_key:
            return decode_key(self._given_key, source=f"The variable {KEY_VARIABLE}")
        if self._keyfile.exists():
            return read_key(self._keyfile)
        if self._path.exists() and self._path.stat().st_size > 0:
            raise VaultError(
                f"The key file {self._keyfile} is missing but the vault {self._path} exists; "
                "put the key back, or move the vault away to start an empty one."
            )
        return read_or_make_key(self._keyfile)

    def _check_key(self) -> None:
        """The first start seals a constant; a key that cannot open it is not this vault's key."""
        aad = _KEY_CHECK.encode()
        with self._connection() as connection, connection.begin():
            row = connection.execute(select(_facts.c.value).where(_facts.c.name == _KEY_CHECK))
            sealed = row.scalar()
            if sealed is None:
                sealed = self._sealed(aad, _KEY_CHECK)
                try:
                    connection.execute(insert(_facts).values(name=_KEY_CHECK, value=sealed))
                except IntegrityError:  # another gateway opened the same new vault just now
                    return
        try:
            self._opened(aad, sealed)
        except VaultError:
            raise VaultError(
                f"The key does not belong to the vault {self._path}; use the key it was made with "
                f"({KEY_VARIABLE} or {self._keyfile}), or move the vault away to start anew."
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


class _View(Mapping[str, str]):
    """Read-only window on one scope's memory."""

    def __init__(self, memory: dict[str, str]) -> None:
        self._memory = memory

    def __getitem__(self, token: str) -> str:
        return self._memory[token]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._memory))

    def __len__(self) -> int:
        return len(self._memory)

    def __repr__(self) -> str:
        return f"<{len(self)} originals>"


def _aad(scope: str, token: str) -> bytes:
    """`scope|token`; a token holds no `|`, so the last one separates them."""
    return f"{scope}|{token}".encode()


def _sqlite(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}", hide_parameters=True)

    @event.listens_for(engine, "connect")
    def _durable(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout = 10000")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.close()

    return engine


def _database_sentence(path: Path, error: SQLAlchemyError) -> str:
    """SQLite's own words are about the file, never about what is in it (parameters are hidden)."""
    reason = str(error.orig) if isinstance(error, DatabaseError) else type(error).__name__
    if "not a database" in reason or "malformed" in reason:
        return (
            f"The vault {path} is damaged ({reason}); restore it from a backup or move it away "
            "to start an empty one."
        )
    return f"The vault {path} cannot be used ({reason}); check the disk and the file's rights."
