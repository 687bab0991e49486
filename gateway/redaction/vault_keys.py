"""Which key the vault is sealed with, and its change to another one.

Owns the sealed constant that names the key, and the places where a key may be by now. Guarantees:
each transaction checks, within itself, which key is in force, so any number of processes may use
one file while one of them changes the key; a kill at any moment of `rotate` leaves a vault that one
of the two keys opens, and `settle` finds out which. Every method blocks. Called by `vault_store`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.engine import Connection

from gateway.redaction.vault_database import ENTRIES, FACTS, Database, VaultError
from gateway.redaction.vault_seal import KEY_CHECK, Sealer
from shared.keyfile import (
    KEY_VARIABLE,
    KeyFileError,
    KeyPlace,
    KeySource,
    read_key,
    read_or_make_key,
)

_KEY_CHECK_OF: Final = select(FACTS.c.value).where(FACTS.c.name == KEY_CHECK)
#: Rows sealed anew in one statement.
_ROTATE_BATCH: Final = 2_000

#: Writes down, in the transaction of a change, what a change of so many entries owes the ledger.
Owe = Callable[[Connection, int], None]


class VaultKeys:
    """The key in force of one vault; `keys` is where it is looked for."""

    def __init__(self, database: Database, keys: KeySource) -> None:
        self._database = database
        self._path = database.path
        self._keys = keys
        self._sealer: Sealer | None = None
        #: The sealed constant of the key in force, as it was when this key was read.
        self._check: bytes = b""

    def read(self) -> None:
        """Read the key, which is made where nothing was ever sealed. Raises VaultError."""
        self._sealer = Sealer(_key(self._first_key), self._path)

    def settle(self) -> None:
        """The first start seals a constant; a key that cannot open it is not this vault's key. A
        change of keys that was killed is finished. Raises VaultError."""
        assert self._sealer is not None
        with self._database.transaction(writes=True) as connection:
            check = _key_check_of(connection)
            if check is None:
                check = self._sealer.key_check()
                connection.execute(insert(FACTS).values(name=KEY_CHECK, value=check))
        self._use_key_of(check)
        if self._keys.place is KeyPlace.FILE and self._keys.next_file.exists():
            idle = contextlib.suppress(VaultError)  # else somebody is at it just now
            with idle, self._only_one():
                self._finish_rotation()

    # -- transactions -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def writing(self) -> Iterator[tuple[Connection, Sealer]]:
        """A transaction that no other process writes beside, and the sealer in force."""
        with self._database.transaction(writes=True) as connection:
            yield connection, self._in_force(connection)

    @contextlib.contextmanager
    def reading(self) -> Iterator[tuple[Connection, Sealer]]:
        """A view of one moment, and the sealer of that moment."""
        with self._database.transaction() as connection:
            yield connection, self._in_force(connection)

    def _in_force(self, connection: Connection) -> Sealer:
        check = _key_check_of(connection)
        if check is None:
            raise VaultError(
                f"The vault {self._path} is damaged (it names no key); restore it from a backup."
            )
        return self._use_key_of(check)

    def _use_key_of(self, check: bytes) -> Sealer:
        """Have the key that opens `check`: the one we hold, or what its places hold by now. A kill,
        or another process at work, may leave the right one in the next key's file."""
        assert self._sealer is not None
        if check == self._check:
            return self._sealer
        if self._sealer.opens(check):
            self._check = check
            return self._sealer
        readers: list[Callable[[], bytes]] = [self._keys.read]
        if self._keys.place is KeyPlace.FILE:
            readers.append(lambda: read_key(self._keys.next_file))
        for _ in range(2):  # the next key may become the key while we look
            for reader in readers:
                with contextlib.suppress(KeyFileError):
                    found = Sealer(reader(), self._path)
                    if found.opens(check):
                        self._sealer, self._check = found, check
                        return found
        raise VaultError(
            f"The key does not belong to the vault {self._path}; use the key it was made with "
            f"({KEY_VARIABLE} or {self._keys.file}), or move the vault away to start anew."
        )

    # -- the key's places -------------------------------------------------------------------------

    def _first_key(self) -> bytes:
        """The key, made where nothing was ever sealed."""
        fresh = not (self._path.exists() and self._path.stat().st_size > 0)
        if self._keys.place is KeyPlace.FILE and not self._keys.file.exists() and not fresh:
            raise VaultError(
                f"The key file {self._keys.file} is missing but the vault {self._path} exists; "
                "put the key back, or move the vault away to start an empty one."
            )
        return self._keys.read_or_make()

    # -- the change -------------------------------------------------------------------------------

    def rotate(self, new_key: bytes | None, owe: Owe) -> int:
        """Seal everything anew, with `new_key` or with a new key file; return how many originals.
        One transaction decides; the key file follows. Raises VaultError."""
        with self._only_one():
            if new_key is None:
                if self._keys.place is not KeyPlace.FILE:
                    raise VaultError(
                        f"The vault's key comes from {self._keys.described()}; name the file of "
                        "the new key with --new-key-file."
                    )
                self._finish_rotation()
                self._keys.next_file.unlink(missing_ok=True)
                new_key = _key(partial(read_or_make_key, self._keys.next_file))
            count = self._seal_anew(Sealer(new_key, self._path), owe)
            if self._keys.place is KeyPlace.FILE and self._keys.next_file.exists():
                self._finish_rotation()
        return count

    def _seal_anew(self, new: Sealer, owe: Owe) -> int:
        """The switch from one key to the other: all rows and the constant, or none."""
        count = 0
        query = select(ENTRIES.c.owner, ENTRIES.c.token, ENTRIES.c.sealed).where(
            ENTRIES.c.sealed.is_not(None)
        )
        change = (
            update(ENTRIES)
            .where(ENTRIES.c.owner == bindparam("o"), ENTRIES.c.token == bindparam("t"))
            .values(sealed=bindparam("s"))
        )
        with self.writing() as (connection, old):
            rows = connection.execute(query).fetchall()
            for start in range(0, len(rows), _ROTATE_BATCH):
                changes = []
                for owner, token, sealed in rows[start : start + _ROTATE_BATCH]:
                    again = new.seal(owner, token, old.unseal(owner, token, sealed))
                    changes.append({"o": owner, "t": token, "s": again})
                connection.execute(change, changes)
                count += len(changes)
            check = new.key_check()
            connection.execute(update(FACTS).where(FACTS.c.name == KEY_CHECK).values(value=check))
            owe(connection, count)
        self._sealer, self._check = new, check
        return count

    def _finish_rotation(self) -> None:
        """Put the next key in the key's place if it is the one the vault is sealed with."""
        if not self._keys.next_file.exists():
            return
        with self._database.transaction() as connection:
            check = _key_check_of(connection)
        next_key = _key(partial(read_key, self._keys.next_file))
        if check is not None and Sealer(next_key, self._path).opens(check):
            os.replace(self._keys.next_file, self._keys.file)
            _sync_directory(self._keys.file.parent)

    @contextlib.contextmanager
    def _only_one(self) -> Iterator[None]:
        """Hold a lock that the kernel lets go of with the process. Raises VaultError where another
        process holds it."""
        path = self._path.with_name(f"{self._path.name}.rotate")
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


def _key(read: Callable[[], bytes]) -> bytes:
    """Read a key. Raises VaultError."""
    try:
        return read()
    except KeyFileError as error:
        raise VaultError(str(error)) from None


def _key_check_of(connection: Connection) -> bytes | None:
    check: bytes | None = connection.execute(_KEY_CHECK_OF).scalar()
    return check


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
