"""A port for a server that a test starts later, or twice."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """Return a port nobody listens on, below those the system gives to outgoing connections: one
    of those could be taken by any other test before the server opens it."""
    for port in random.SystemRandom().sample(range(10_000, 20_000), 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free between 10000 and 20000")
