"""The directory of a log: its lock, its identity, what it published last.

Invariant: one program at a time writes to a directory (flock on LOCK for its whole life), and
log.json names the origin and the public keys that every checkpoint in it is signed with. Every
error says in one sentence what to do. Called by `log` when it opens, and by `repair`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from shared.ledger.checkpoint import Signer
from shared.ledger.errors import LedgerCorrupt, LedgerError, LedgerLocked
from shared.ledger.keys import KeyRing
from shared.ledger.merkle import leaf_hash
from shared.ledger.segment import (
    HEAD,
    LOCK,
    LOG_JSON,
    MAX_RUN,
    SCHEMA,
    list_segments,
    segment_path,
)
from shared.ledger.storage import Disk, reason
from shared.paths import UnsafeDirectory, private_dir

#: How long a start waits between looks at a lock that is taken, in seconds.
LOCK_PAUSES: Final = (0.01, 0.03, 0.06)


def boot_id() -> str:
    """Return what tells this run of the machine from all others."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:  # not Linux: a new identity per start is still true
        return str(uuid.uuid4())


def take_lock(directory: Path) -> int:
    """Make the directory and lock it for this process; return the lock's descriptor.

    Raises LedgerLocked when another program holds it, LedgerError when the directory is unusable.
    """
    try:
        private_dir(directory)
        fd = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except UnsafeDirectory as error:
        raise LedgerError(str(error)) from error
    except OSError as error:
        raise LedgerError(
            f"The ledger directory {directory} cannot be used ({reason(error)}); check its owner "
            "and mode, or choose another place."
        ) from error
    if not _flock(fd):
        holder = _holder(fd)
        os.close(fd)
        raise LedgerLocked(
            f"The ledger {directory} is in use by {holder}; stop that program first."
        )
    who = {"boot": boot_id(), "host": socket.gethostname(), "pid": os.getpid()}
    with contextlib.suppress(OSError):  # only a courtesy to whoever finds the lock taken
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(who).encode() + b"\n", 0)
    return fd


def _flock(fd: int) -> bool:
    """Take the lock. A verification holds it for a moment to see whether the log is live, so one
    refusal is not yet an answer."""
    for pause in (*LOCK_PAUSES, None):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if pause is not None:
                time.sleep(pause)
    return False


def _holder(fd: int) -> str:
    try:
        return f"process {int(json.loads(os.pread(fd, 4096, 0))['pid'])}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def load_identity(
    directory: Path,
    keys: KeyRing,
    origin: str,
    disk: Disk,
    clock: Callable[[], tuple[int, int]],
) -> list[Signer]:
    """Return the log's signers, writing log.json (and the first keys) for a new log.

    Raises LedgerError when the directory or key belongs to another log, LedgerCorrupt when
    log.json is lost or damaged.
    """
    path = directory / LOG_JSON
    if path.exists():
        identity = read_log_json(directory)
        if identity["origin"] != origin:
            raise LedgerError(
                f"The ledger {directory} belongs to {identity['origin']}, not to {origin}; "
                "use its own directory for each program."
            )
        signers = keys.signers()
        if not {signer.key.vkey() for signer in signers}.intersection(identity["vkeys"]):
            raise LedgerError(
                f"The signing key in {keys.directory} is not the one that {path} names; restore "
                "the ledger's own key from a backup."
            )
        return signers
    if list_segments(directory) or (directory / HEAD).exists():
        raise LedgerCorrupt(
            f"{path} is missing although the ledger has records; restore it from a backup."
        )
    signer = keys.create()
    identity = {
        "created": clock()[0],
        "origin": origin,
        "schema": SCHEMA,
        "segment_key": keys.make_segment(0).key.vkey(),
        "vkeys": [signer.key.vkey()],
    }
    write_log_json(directory, identity, disk)
    return [signer]


def write_log_json(directory: Path, identity: Mapping[str, Any], disk: Disk) -> None:
    """Store the identity, durably. Raises OSError."""
    data = orjson.dumps(identity, option=orjson.OPT_SORT_KEYS) + b"\n"
    disk.replace(directory / LOG_JSON, data)


def read_log_json(directory: Path) -> dict[str, Any]:
    """Return the identity in log.json. Raises LedgerCorrupt when it cannot be read as one,
    LedgerError when it is of another version of the format."""
    path = directory / LOG_JSON
    try:
        identity = json.loads(path.read_bytes())
        vkeys = identity["vkeys"]
        texts = [identity["origin"], *vkeys]
        schema = identity["schema"]
        if schema == SCHEMA:
            texts.append(identity["segment_key"])
        if type(vkeys) is not list or type(schema) is not int or not vkeys:
            raise ValueError
        if any(type(text) is not str for text in texts):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LedgerCorrupt(
            f"{path} cannot be read as the identity of a ledger of this version; restore it "
            "from a backup."
        ) from error
    if schema != SCHEMA:
        raise LedgerError(
            f"The ledger {directory} has format {schema}, this program writes format {SCHEMA}; "
            "move the directory and its keys away to begin a new ledger, and verify the old one "
            "with the version that wrote it."
        )
    return dict(identity)


def log_id(directory: Path) -> str:
    """Return the log id: the leaf hash, in hex, of record 0; empty when it was never written or
    was pruned. Raises OSError."""
    path = segment_path(directory, 0)
    if not path.exists():
        return ""
    with path.open("rb") as file:
        line = file.readline(MAX_RUN)
    return leaf_hash(line[:-1]).hex() if line.endswith(b"\n") else ""


def read_head(directory: Path) -> str:
    """Return the published checkpoint as it is stored, or an empty text."""
    try:
        return (directory / HEAD).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
