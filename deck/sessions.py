"""Where a session is found: its id, its sockets, its sidecar, and whether it lives.

Owns the runtime files of contracts/deck.md section 1.1. Invariant: a socket that answers is never
unlinked, and a directory has at most one deck: its lock is held for the deck's whole life, and a
crash releases it. `deck.server` claims, the CLI looks up.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from deck.protocol import (
    EXCHANGE_SECONDS,
    MAX_COMMAND_BYTES,
    Command,
    Verb,
    encode_command,
    parse_ack,
)
from shared.paths import UnsafeDirectory, runtime_dir, session_id

SOCKET_ENV: Final = "CHORAGOS_SOCK"
#: Linux allows 108 bytes with the final NUL, macOS 104.
MAX_SOCKET_PATH: Final = 103
#: Between two tries to connect where too many wait already.
CROWD_PAUSE_SECONDS: Final = 0.02
#: Acks carry at most a board; more is not one of ours.
MAX_ACK_BYTES: Final = 16 * MAX_COMMAND_BYTES


class SessionError(Exception):
    """No session, or one in the way; the text says which and what to do."""


class NoSession(SessionError):
    """Nothing answers where the session should be."""


class SessionExists(SessionError):
    """A deck already runs for this directory."""


@dataclass(frozen=True, slots=True)
class SessionPaths:
    """The runtime files of one working directory."""

    id: str
    directory: str
    socket: Path
    sidecar: Path
    lock: Path


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What `ls` shows of a session."""

    id: str
    pid: int
    directory: str
    started: datetime
    socket: Path


def working_directory() -> str:
    """Return the raw `getcwd()` string that names a session. Raises SessionError."""
    try:
        return os.getcwd()
    except OSError:
        raise SessionError("The working directory no longer exists; change to one.") from None


def paths_for(directory: str, environ: Mapping[str, str] = os.environ) -> SessionPaths:
    """Return the runtime files for a working directory; only the control socket follows
    `CHORAGOS_SOCK`. Raises SessionError when the runtime directory cannot be trusted."""
    base, name = _runtime_dir(environ), session_id(directory)
    override = environ.get(SOCKET_ENV)
    return SessionPaths(
        id=name,
        directory=directory,
        socket=Path(override) if override else base / f"{name}.sock",
        sidecar=base / f"{name}.json",
        lock=base / f"{name}.lock",
    )


def control_socket(paths: SessionPaths, environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the session of a directory listens: a deck that was started with
    `CHORAGOS_SOCK` is found without it too, by its sidecar."""
    if environ.get(SOCKET_ENV) or paths.socket.exists():
        return paths.socket
    sidecar = read_sidecar(paths.sidecar)
    return sidecar.socket if sidecar is not None else paths.socket


def exchange(path: Path, command: Command, seconds: float = EXCHANGE_SECONDS) -> dict[str, object]:
    """Send one command and return its ack; an unreadable ack is `{}`.

    Raises NoSession when nothing listens and SessionError when the exchange breaks off.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(seconds)
        try:
            _connect(connection, path, seconds)
        except (FileNotFoundError, ConnectionRefusedError):
            raise NoSession(
                "no session for this directory; start one with `choragos serve --detach`, or run "
                "the command from the directory of the session"
            ) from None
        except OSError as error:
            raise SessionError(f"{path} cannot be reached: {_why_not(path, error)}") from None
        try:
            # A command that is refused before its end is not taken, and the ack says why.
            with contextlib.suppress(BrokenPipeError):
                connection.sendall(encode_command(command))
            return parse_ack(_read_line(connection))
        except OSError as error:
            raise SessionError(
                f"the session at {path} did not answer within {seconds:g} s "
                f"({error.strerror or type(error).__name__})"
            ) from None


def _connect(connection: socket.socket, path: Path, seconds: float) -> None:
    """Connect; where too many others wait to be seen, Linux refuses at once: ask again until then.
    Raises OSError."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection.connect(os.fspath(path))
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(CROWD_PAUSE_SECONDS)


def is_alive(path: Path, seconds: float = 1.0) -> bool:
    """Tell whether something answers a ping on a socket. A connection that is accepted and then
    left unanswered counts as alive: a busy deck must not be taken for a dead one."""
    try:
        exchange(path, Command(Verb.PING), seconds)
    except NoSession:
        return False
    except SessionError:
        return path.exists()
    return True


def claim(paths: SessionPaths) -> int:
    """Take the directory for one deck and clear away what a dead one left; return the lock.

    Raises SessionExists, or SessionError when the socket's path cannot be used. Closing the
    returned descriptor gives the directory up.
    """
    if len(os.fsencode(paths.socket)) > MAX_SOCKET_PATH:
        raise SessionError(
            f"The socket path {paths.socket} is longer than {MAX_SOCKET_PATH} bytes; set "
            f"{SOCKET_ENV} to a shorter path."
        )
    lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SessionExists(_already(paths)) from None
        _clear_socket(paths)
        paths.sidecar.unlink(missing_ok=True)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _why_not(path: Path, error: OSError) -> str:
    if error.strerror is not None:
        return error.strerror
    # Python itself refuses what does not fit the kernel's address (108 bytes with its end).
    return (
        f"its path is {len(os.fsencode(path))} bytes long and a socket's may have 107; "
        f"set XDG_RUNTIME_DIR or {SOCKET_ENV} to a shorter path"
    )


def in_words(error: OSError, state: Path) -> str:
    """Return what the system did not let a session do, and what to do about it; `state` is where
    the session keeps its files."""
    what = f"{error.filename or 'the deck'}: {error.strerror or type(error).__name__}"
    if not Path(os.fsdecode(error.filename or "")).is_relative_to(state):
        return what
    return f"{what}; the deck keeps its files in {state}: make that a directory you can write to"


def bind(path: Path) -> socket.socket:
    """Return a listening socket at `path`, closed to other users from its first moment."""
    listener = socket.socket(socket.AF_UNIX)
    previous = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
    except OSError as error:
        listener.close()
        raise SessionError(f"The socket {path} cannot be made: {_why_not(path, error)}.") from error
    finally:
        os.umask(previous)
    path.chmod(0o600)
    listener.listen(512)
    listener.setblocking(False)
    return listener


def write_sidecar(paths: SessionPaths) -> None:
    """Write the file that `ls` reads (0600, atomically)."""
    started = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    document = {
        "pid": os.getpid(),
        "dir": paths.directory,
        "started": started,
        "socket": os.fspath(paths.socket),
    }
    temporary = paths.sidecar.with_suffix(".json.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump(document, file)
    temporary.rename(paths.sidecar)


def live_sessions(environ: Mapping[str, str] = os.environ) -> list[Sidecar]:
    """Return the sessions of this user that answer, oldest first; stale sidecars are deleted."""
    found = []
    for path in _runtime_dir(environ).glob("*.json"):
        sidecar = read_sidecar(path)
        if sidecar is not None and is_alive(sidecar.socket):
            found.append(sidecar)
        else:
            # A deck whose socket was cleaned away writes both anew.
            path.unlink(missing_ok=True)
    return sorted(found, key=lambda sidecar: sidecar.started)


def read_sidecar(path: Path) -> Sidecar | None:
    """Return a sidecar's content, or None when it is missing or not one."""
    try:
        document = json.loads(path.read_bytes())
        return Sidecar(
            id=path.stem,
            pid=int(document["pid"]),
            directory=str(document["dir"]),
            started=datetime.fromisoformat(document["started"]),
            socket=Path(document["socket"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _runtime_dir(environ: Mapping[str, str]) -> Path:
    try:
        return runtime_dir(environ)
    except UnsafeDirectory as unsafe:
        raise SessionError(str(unsafe)) from unsafe
    except OSError as error:
        raise SessionError(
            f"The runtime directory {error.filename} cannot be made: {error.strerror}; set "
            "XDG_RUNTIME_DIR to a directory of yours."
        ) from error


def _clear_socket(paths: SessionPaths) -> None:
    try:
        info = paths.socket.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(info.st_mode):
        raise SessionError(f"{paths.socket} exists and is not a socket; move it away.")
    if is_alive(paths.socket):
        raise SessionExists(_already(paths))
    paths.socket.unlink(missing_ok=True)


def _already(paths: SessionPaths) -> str:
    sidecar = read_sidecar(paths.sidecar)
    who = f" (pid {sidecar.pid})" if sidecar else ""
    return (
        f"a session already runs for this directory{who}; look at it with `choragos board` or "
        "stop it with `choragos kill`"
    )


def _read_line(connection: socket.socket) -> bytes:
    data = bytearray()
    while not data.endswith(b"\n") and len(data) < MAX_ACK_BYTES:
        chunk = connection.recv(65536)
        if not chunk:
            break
        data += chunk
    return bytes(data)
