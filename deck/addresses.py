"""The gateway's address: what `addr` in `[sphragis]` may be, and where clients call it.

Owns the form of an address. Invariant: an address to listen on (`:8787`, the wildcard) is called at
loopback; what has no host and port is told apart before anything tries to reach it. Pure. Called by
`deck.team_reader`, which warns, and by `deck.gateway`, which calls.
"""

from __future__ import annotations

import re
from typing import Final

HOST_CHARS: Final = 253
_HOST: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\]")
_PORT: Final = re.compile(r"[0-9]{1,5}")


def called_at(addr: str) -> tuple[str, str]:
    """Return host and port that clients call for `addr`; whatever it is, nothing is raised."""
    host, _, port = addr.rpartition(":")
    # `:port` and the wildcard are addresses to listen on, not to call.
    return ("127.0.0.1" if host in ("", "0.0.0.0", "[::]") else host), port  # noqa: S104


def is_address(addr: str) -> bool:
    """Tell whether `addr` has a host that can be one and a port between 1 and 65535."""
    host, port = called_at(addr)
    if len(host) > HOST_CHARS or not _HOST.fullmatch(host) or not _PORT.fullmatch(port):
        return False
    return ":" in addr and 0 < int(port) < 65536
