"""Who holds the gateway's address: whose program it is, and whether it is this home's gateway.

Owns two facts the kernel tells and no answer over the network can fake: the user and the process
behind a listening port, and the process behind the gateway's control socket. Reads `/proc`, which
only Linux has; elsewhere nothing is known and nothing is claimed. `deck.facts` calls it.
"""

from __future__ import annotations

import os
import pwd
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LISTEN: Final = "0A"
_UCRED: Final = struct.Struct("3i")
_CONNECT_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Holder:
    """Who listens on a port: `pid` 0 when the process belongs to another user."""

    uid: int
    pid: int = 0

    @property
    def user(self) -> str:
        """The user's name, or its number."""
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)


def holder_of(port: int) -> Holder | None:
    """Return who listens on a TCP port of this machine, or None when that cannot be seen."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                return Holder(int(fields[7]), _process_with(f"socket:[{fields[9]}]"))
    return None


def process_behind(path: Path) -> int:
    """Return the process that listens on a Unix socket, 0 when none does or it cannot be seen."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return 0
    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(_CONNECT_SECONDS)
            asking.connect(os.fspath(path))
            peer = asking.getsockopt(socket.SOL_SOCKET, option, _UCRED.size)
    except OSError:
        return 0
    return int(_UCRED.unpack(peer)[0])


def _process_with(descriptor: str) -> int:
    for directory in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):
            for entry in os.scandir(directory):
                with suppress(OSError):
                    if os.readlink(entry.path) == descriptor:
                        return int(directory.parent.name)
    return 0
