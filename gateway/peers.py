"""Who is at the other end of the control socket: facts from the kernel, and what they allow.

Owns the reading of SO_PEERCRED and of `/proc`, and the one rule of who is no operator: a process
below a deck that stamps here, or one whose environment (or that of any process above it) carries
the mark of a deck's seat. Doubt lowers, never raises: what cannot be traced is no operator.
Invariant: a process is named by pid and start moment together, so that a reused pid is another
process. Called by `gateway.control`.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.pidfile import start_moment

#: What a deck puts into the environment of every process of a role (the deck's `SEAT_MARK` and
#: `ROLE_ENV`; the two programs share no code).
DECK_MARKS: Final = (b"CHORAGOS_SEAT=", b"CHORAGOS_ROLE=")
#: struct ucred: pid, uid, gid (unix(7)).
_UCRED: Final = struct.Struct("3i")
MAX_ANCESTORS: Final = 256
#: A process names itself; more than this of it is not written down.
MAX_PROGRAM: Final = 32


@dataclass(frozen=True, slots=True)
class Process:
    """One process; `started` tells it from every other with the same pid."""

    pid: int
    started: str

    @property
    def alive(self) -> bool:
        """Whether that very process still runs."""
        return start_moment(self.pid) == self.started


@dataclass(frozen=True, slots=True)
class Peer:
    """One caller: `above` are its ancestors, nearest first; `marked` tells whether it or one of
    them carries a deck's mark; `program` is what it calls itself."""

    process: Process
    uid: int
    program: str = ""
    above: tuple[Process, ...] = field(default=())
    marked: bool = False
    traced: bool = True

    def as_ext(self) -> dict[str, Any]:
        """Return who this is, for a record."""
        return {"uid": self.uid, "pid": self.process.pid, "program": self.program}


def peer_of(connection: socket.socket) -> Peer:
    """Return the facts about the process that opened a unix connection."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(raw)
    started = start_moment(pid) if pid > 0 else None
    own = _environ(pid) if started else None
    if started is None or own is None:
        return Peer(Process(pid, started or ""), uid, traced=False)
    above = tuple(_ancestors(pid))
    marked = _is_marked(own) or any(_is_marked(_environ(one.pid) or b"") for one in above)
    return Peer(Process(pid, started), uid, _program(pid), above, marked)


def stranger(peer: Peer) -> str | None:
    """Return why a peer is not served at all, as a sentence, or None."""
    if peer.uid in (os.getuid(), 0):
        return None
    return f"This gateway belongs to user {os.getuid()}; user {peer.uid} is not served."


def bound(peer: Peer, is_deck: Callable[[Process], bool]) -> str | None:
    """Return why a peer is neither an operator nor a deck, as a sentence, or None when it may be.

    `is_deck` tells whether a process is a deck that stamps here.
    """
    if not peer.traced:
        return (
            f"The caller (pid {peer.process.pid}) cannot be traced to an operator; run the command "
            "from a shell outside the team."
        )
    if peer.marked or any(is_deck(one) for one in peer.above if one != peer.process):
        return (
            f"The caller (pid {peer.process.pid}) runs inside a deck's team, and a team does not "
            "operate its own gateway; run the command from a shell outside the team."
        )
    return None


def _ancestors(pid: int) -> list[Process]:
    found: list[Process] = []
    seen = {pid}
    while len(found) < MAX_ANCESTORS:
        pid = _parent(pid)
        if pid <= 0 or pid in seen:
            break
        seen.add(pid)
        started = start_moment(pid)
        if started is None:
            break
        found.append(Process(pid, started))
    return found


def _parent(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        # The name may hold anything but ends with the last parenthesis; the parent is the second
        # field after it (proc(5)).
        return int(stat[stat.rindex(b")") + 2 :].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _environ(pid: int) -> bytes | None:
    """Return a process's environment as it began, or None when it cannot be seen."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None


def _is_marked(environ: bytes) -> bool:
    return any(item.startswith(DECK_MARKS) for item in environ.split(b"\0"))


def _program(pid: int) -> str:
    try:
        name = Path(f"/proc/{pid}/comm").read_text("utf-8", "replace")
    except OSError:
        return ""
    return "".join(c for c in name if c.isascii() and c.isprintable())[:MAX_PROGRAM]
