"""Keeps a process off the network, for good.

A scanning worker has no business there: it reads what must not leave. Libraries it may load for an
operator (language models, recognizers) would fetch what they miss, silently. Invariant: once
`forbid_network` was called, a name look-up or a connection raises `NetworkForbidden`; sockets of
this machine that have a path are left alone. Called by `worker` before anything else is loaded.
"""

from __future__ import annotations

import sys
from typing import Any, Final

_ASKS: Final = frozenset(
    {
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "socket.gethostbyaddr",
        "socket.getnameinfo",
    }
)
_SENDS: Final = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind"})


class NetworkForbidden(ConnectionError):
    """Something in this process asked for the network."""

    def __init__(self) -> None:
        super().__init__("This process may not use the network.")


def forbid_network() -> None:
    """Refuse every use of the network by this process from now on; cannot be undone."""
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _ASKS:
        raise NetworkForbidden
    if event in _SENDS and isinstance(arguments[1], tuple):
        raise NetworkForbidden
