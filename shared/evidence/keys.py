"""dek.db: the data keys of kept evidence, each wrapped by one key that lies elsewhere.

Owns the tables, the wrapping (AES-256-GCM, bound to the key's id), the change of the wrapping key,
and the journal of erasures. Guarantees: no data key, salt or name is ever on the disk in the
clear; `shred` deletes keys and wraps the rest anew in one transaction, and a kill at any moment
leaves a file that one of the two wrapping keys opens, which `open` finds out; the old wrapping key
is overwritten and removed then. Only the program that has the ledger open writes here, so there is
one writer. Every method blocks; safe from any thread. Called by `store` and `erase`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from shared.evidence.errors import EvidenceError
from shared.evidence.retention import DAY_US, Kept, Retention
from shared.evidence.sealing import KEYID_BYTES, DataKey
from shared.keyfile import KEY_BYTES, KeyFileError, KeyPlace, KeySource, read_key, read_or_make_key

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS deks (
    keyid TEXT PRIMARY KEY, subject_c TEXT NOT NULL, session_c TEXT NOT NULL,
    day INTEGER NOT NULL, retention TEXT NOT NULL, until INTEGER NOT NULL,
    created INTEGER NOT NULL, wrapped BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS deks_by_group ON deks (subject_c, session_c, day, retention);
CREATE TABLE IF NOT EXISTS erasures (
    request TEXT PRIMARY KEY, state TEXT NOT NULL, plan TEXT NOT NULL);
"""
_NONCE: Final = 12
_CHECK: Final = b"sphragis evidence"
#: Data keys held in memory; one that is needed again is unwrapped again.
_CACHED: Final = 1024


@dataclass(frozen=True, slots=True)
class Group:
    """Payloads that share a key: one subject, one session, one day (since 1970, UTC), one class of
    retention. Subject and session are keyed hashes."""

    subject_c: str
    session_c: str
    day: int
    retention: Retention

    @property
    def until(self) -> int:
        """Until when the class holds all of it, in microseconds since 1970."""
        return self.retention.until((self.day + 1) * DAY_US)


@dataclass(frozen=True, slots=True)
class Erasure:
    """One erasure that began: its request, how far it came, and what it is to do."""

    request: str
    state: str
    plan: dict[str, Any]


class KeyStore:
    """One dek.db and the key that wraps its keys."""

    def __init__(
        self, path: Path, keys: KeySource, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._keys = keys
        self._clock = clock
        # Owned by whoever holds the lock:
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._wrapper: AESGCM | None = None
        self._kek_id = ""
        self._cache: dict[str, DataKey] = {}
        self._newest: dict[Group, str] = {}

    @property
    def path(self) -> Path:
        """The database."""
        return self._path

    @property
    def place(self) -> KeyPlace:
        """Where the wrapping key comes from."""
        return self._keys.place

    @property
    def described(self) -> str:
        """The place of the wrapping key, for sentences."""
        return self._keys.described()

    @property
    def exists(self) -> bool:
        """Whether anything was ever kept here."""
        return self._path.exists()

    @property
    def kek_id(self) -> str:
        """Name of the wrapping key in force: 16 hex digits of a hash."""
        return self._kek_id

    def open(self) -> None:
        """Open or create the database and its wrapping key. Raises EvidenceError."""
        with self._lock:
            if self._db is not None:
                return
            fresh = not self._path.exists() or self._path.stat().st_size == 0
            try:
                key = self._first_key(fresh=fresh)
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
                self._db = _connect(self._path)
                with self._writing() as db:
                    for statement in filter(str.strip, _TABLES.split(";")):
                        db.execute(statement)
                self._use(key)
            except KeyFileError as wrong:
                self.close()
                raise EvidenceError(str(wrong)) from None
            except OSError as wrong:
                self.close()
                raise EvidenceError(
                    f"The evidence keys {self._path} cannot be opened ({wrong.strerror}); check "
                    "owner, rights and disk."
                ) from None
            except EvidenceError:
                self.close()
                raise

    def close(self) -> None:
        """Close; safe to call twice. The keys in memory are forgotten."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None
            self._cache.clear()
            self._newest.clear()
            self._wrapper = None

    # -- data keys -------------------------------------------------------------------------------

    def key_for(self, group: Group) -> DataKey:
        """Return the key of a group, made and durable if it is new. Raises EvidenceError."""
        with self._lock:
            keyid = self._newest.get(group)
            if keyid is not None and keyid in self._cache:
                return self._cache[keyid]
            with self._writing() as db:
                row = db.execute(
                    "SELECT keyid, wrapped FROM deks WHERE subject_c = ? AND session_c = ? "
                    "AND day = ? AND retention = ? AND until = ?",
                    (
                        group.subject_c,
                        group.session_c,
                        group.day,
                        group.retention.name,
                        group.until,
                    ),
                ).fetchone()
                key = self._unwrap(*row) if row is not None else self._insert(db, group)
            self._remember(key)
            self._newest[group] = key.keyid
            if len(self._newest) > _CACHED:
                del self._newest[next(iter(self._newest))]
            return key

    def key(self, keyid: str) -> DataKey | None:
        """Return a key by its id, None when there is none (any more). Raises EvidenceError."""
        with self._lock:
            if keyid in self._cache:
                return self._cache[keyid]
            row = self._read("SELECT keyid, wrapped FROM deks WHERE keyid = ?", keyid).fetchone()
            return None if row is None else self._unwrap(*row)

    def all(self) -> list[Kept]:
        """Return every group that has a key, oldest first. Raises EvidenceError."""
        with self._lock:
            rows = self._read(
                "SELECT keyid, subject_c, session_c, created, retention, until FROM deks "
                "ORDER BY created, keyid"
            ).fetchall()
        return [Kept(*row) for row in rows]

    def _insert(self, db: sqlite3.Connection, group: Group) -> DataKey:
        key = DataKey(
            secrets.token_hex(KEYID_BYTES),
            secrets.token_bytes(KEY_BYTES),
            secrets.token_bytes(KEY_BYTES),
        )
        db.execute(
            "INSERT INTO deks VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                key.keyid,
                group.subject_c,
                group.session_c,
                group.day,
                group.retention.name,
                group.until,
                int(self._clock() * 1_000_000),
                _wrap(self._sealer(), key.keyid.encode(), key.key + key.salt),
            ),
        )
        return key

    def _remember(self, key: DataKey) -> None:
        self._cache[key.keyid] = key
        if len(self._cache) > _CACHED:
            del self._cache[next(iter(self._cache))]

    # -- erasures --------------------------------------------------------------------------------

    def begin(self, request: str, plan: Mapping[str, Any]) -> None:
        """Keep the plan of an erasure, durably. Raises EvidenceError when there is one already."""
        with self._lock, self._writing() as db:
            db.execute("INSERT INTO erasures VALUES (?, 'planned', ?)", (request, json.dumps(plan)))

    def advance(self, request: str, state: str, plan: Mapping[str, Any]) -> None:
        """Note how far an erasure came."""
        with self._lock, self._writing() as db:
            db.execute(
                "UPDATE erasures SET state = ?, plan = ? WHERE request = ?",
                (state, json.dumps(plan), request),
            )

    def erasure(self, request: str) -> Erasure | None:
        """Return an erasure by its request."""
        with self._lock:
            row = self._read("SELECT * FROM erasures WHERE request = ?", request).fetchone()
        return None if row is None else Erasure(row[0], row[1], json.loads(row[2]))

    def unfinished(self) -> list[Erasure]:
        """Return the erasures that began and did not end."""
        with self._lock:
            rows = self._read("SELECT * FROM erasures WHERE state != 'done'").fetchall()
        return [Erasure(request, state, json.loads(plan)) for request, state, plan in rows]

    def shred(
        self,
        erasure: Erasure,
        keyids: Collection[str],
        new_key_file: Path | None,
        *,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Delete keys, wrap the rest with a new key, and note it, in one transaction; then make
        the new key the key, and destroy the old one where it is a file. The plan gets the names of
        both keys. `progress` is told each step, for tests. Raises EvidenceError."""
        with self._lock:
            new = self._new_key(new_key_file)
            progress("new_kek")
            plan = {**erasure.plan, "kek": {"old": self._kek_id, "new": _name_of(new)}}
            wrapper = AESGCM(new)
            with self._writing() as db:
                db.executemany("DELETE FROM deks WHERE keyid = ?", [(k,) for k in keyids])
                rows = db.execute("SELECT keyid, wrapped FROM deks").fetchall()
                for keyid, wrapped in rows:
                    key = self._unwrap(keyid, wrapped)
                    again = _wrap(wrapper, keyid.encode(), key.key + key.salt)
                    db.execute("UPDATE deks SET wrapped = ? WHERE keyid = ?", (again, keyid))
                check = _wrap(wrapper, _CHECK, _CHECK)
                db.execute("UPDATE facts SET value = ? WHERE name = 'check'", (check,))
                db.execute(
                    "UPDATE erasures SET state = 'shredded', plan = ? WHERE request = ?",
                    (json.dumps(plan), erasure.request),
                )
                progress("in_transaction")
            self._cache.clear()
            self._newest.clear()
            self._wrapper, self._kek_id = wrapper, _name_of(new)
            progress("committed")
            self._finish_rotation(progress)
            self.compact()

    def compact(self) -> None:
        """Write the database anew, so that nothing deleted is left between its pages."""
        with self._lock, _sentences(self._path):
            self._connection().execute("VACUUM")

    # -- the wrapping key ------------------------------------------------------------------------

    def _first_key(self, *, fresh: bool) -> bytes:
        """The key, made where nothing was ever kept."""
        if self._keys.place is KeyPlace.FILE and not self._keys.file.exists():
            if self._keys.next_file.exists():  # a kill came between the two renames
                return read_key(self._keys.next_file)
            if not fresh:
                raise EvidenceError(
                    f"The key file {self._keys.file} is missing but {self._path} exists; put the "
                    "key back: without it nothing that was kept can be read."
                )
        return self._keys.read_or_make()

    def _use(self, key: bytes) -> None:
        """Take the key that opens the database, and end a change of keys that was cut short."""
        row = self._read("SELECT value FROM facts WHERE name = 'check'").fetchone()
        if row is None:
            check = _wrap(AESGCM(key), _CHECK, _CHECK)
            with self._writing() as db:
                db.execute("INSERT INTO facts VALUES ('check', ?)", (check,))
        else:
            check = row[0]
        keys = [key]
        if self._keys.place is KeyPlace.FILE and self._keys.next_file.exists():
            with contextlib.suppress(KeyFileError):
                keys.append(read_key(self._keys.next_file))
        for candidate in keys:
            if _opens(candidate, check):
                self._wrapper, self._kek_id = AESGCM(candidate), _name_of(candidate)
                self._finish_rotation()
                return
        raise EvidenceError(
            f"The key from {self._keys.described()} does not belong to {self._path}; use the key "
            "it was made with."
        )

    def check_new_key(self, new_key_file: Path | None) -> None:
        """Find out whether a new wrapping key can be had, before anything rests on it; the file
        that is named for it is made. Raises EvidenceError."""
        with self._lock:
            self._new_key(new_key_file)

    def _new_key(self, new_key_file: Path | None) -> bytes:
        if self._keys.place is not KeyPlace.FILE:
            if new_key_file is None:
                raise EvidenceError(
                    f"The evidence key comes from {self._keys.described()}; name the file of the "
                    "new key with --new-key-file."
                )
            return _key_of(new_key_file)
        if new_key_file is not None:
            raise EvidenceError(
                f"The evidence key is in {self._keys.file}, where the new one will be; leave "
                "--new-key-file."
            )
        _destroy(self._keys.next_file)  # of an attempt that was cut short before it counted
        return _key_of(self._keys.next_file)

    def _finish_rotation(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """Put the next key in the key's place if it is the one in force; destroy the other."""
        if self._keys.place is not KeyPlace.FILE:
            return
        file, following = self._keys.file, self._keys.next_file
        old = file.with_name(f"{file.name}.old")
        with _sentences(self._path):
            if following.exists():
                if _name_of(_key_of(following)) != self._kek_id:
                    _destroy(following)
                    return
                if file.exists():
                    os.rename(file, old)
                    progress("old_aside")
                os.rename(following, file)
                _sync_directory(file.parent)
                progress("new_in_place")
            if old.exists():
                _destroy(old)
                progress("old_destroyed")

    # -- parts of the above ----------------------------------------------------------------------

    def _sealer(self) -> AESGCM:
        if self._wrapper is None:
            raise EvidenceError("The evidence keys are not open; start the program again.")
        return self._wrapper

    def _unwrap(self, keyid: str, wrapped: bytes) -> DataKey:
        try:
            both = _unwrap(self._sealer(), keyid.encode(), wrapped)
        except InvalidTag:
            raise EvidenceError(
                f"A key in {self._path} was altered; restore the file from a backup."
            ) from None
        return DataKey(keyid, both[:KEY_BYTES], both[KEY_BYTES:])

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            raise EvidenceError("The evidence keys are not open; start the program again.")
        return self._db

    def _read(self, query: str, *values: str) -> sqlite3.Cursor:
        with _sentences(self._path):
            return self._connection().execute(query, values)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it is durable afterwards, or none."""
        db = self._connection()
        with _sentences(self._path):
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")


def _connect(path: Path) -> sqlite3.Connection:
    """A rollback journal and not a write-ahead file: what was deleted then stands in no second
    file once the transaction has ended."""
    with _sentences(path):
        db = sqlite3.connect(path, timeout=10.0, isolation_level=None, check_same_thread=False)
        for pragma in (
            "journal_mode = DELETE",
            "synchronous = EXTRA",
            "secure_delete = ON",
            "temp_store = MEMORY",
        ):
            db.execute(f"PRAGMA {pragma}")
    return db


@contextlib.contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """SQLite's words are about the file; ours say what to do."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise EvidenceError("This request is known already; give it another id.") from None
    except sqlite3.Error as wrong:
        raise EvidenceError(
            f"The evidence keys {path} cannot be used ({wrong}); check the disk and the file's "
            "rights, or restore it from a backup."
        ) from None
    except OSError as wrong:
        raise EvidenceError(
            f"The evidence key cannot be changed ({wrong.strerror}); check the disk and rights of "
            f"{path.parent}."
        ) from None


def _wrap(wrapper: AESGCM, bound: bytes, secret: bytes) -> bytes:
    nonce = secrets.token_bytes(_NONCE)
    return nonce + wrapper.encrypt(nonce, secret, bound)


def _unwrap(wrapper: AESGCM, bound: bytes, wrapped: bytes) -> bytes:
    """Raises InvalidTag."""
    return wrapper.decrypt(wrapped[:_NONCE], wrapped[_NONCE:], bound)


def _opens(key: bytes, check: bytes) -> bool:
    try:
        return _unwrap(AESGCM(key), _CHECK, check) == _CHECK
    except (InvalidTag, ValueError):
        return False


def _name_of(key: bytes) -> str:
    return hashlib.sha256(b"sphragis evidence kek\0" + key).hexdigest()[:16]


def _key_of(path: Path) -> bytes:
    try:
        return read_or_make_key(path)
    except KeyFileError as wrong:
        raise EvidenceError(str(wrong)) from None


def _destroy(path: Path) -> None:
    """Overwrite a key file and remove it; a disk that remaps blocks may keep the old ones, which
    is why everything is wrapped anew as well."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        size = os.fstat(fd).st_size
        os.pwrite(fd, bytes(size), 0)
        os.fsync(fd)
    finally:
        os.close(fd)
    path.unlink()
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
