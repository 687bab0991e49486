"""Running on a loop and listening: what both servers of this package share.

Owns the choice of event loop, the stop signals and the sentence for an address that cannot be
had. Called by `gateway.app`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Coroutine
from typing import Any

from gateway.errors import GatewayError


class StartError(GatewayError):
    """The program cannot start; the sentence says why and what to do."""


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` to its end on uvloop where there is one, else on asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


def stop_event() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set; call it on the loop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


def unlistenable(host: str, port: int, wrong: OSError) -> StartError:
    """Return the error for a listener that the system refused."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if wrong.errno == errno.EADDRINUSE:
        return StartError(
            f"{place} is in use by another program; stop it or choose another listen_addr."
        )
    if wrong.errno == errno.EACCES:
        return StartError(f"{place} may not be opened by this user; choose a port above 1023.")
    reason = os.strerror(wrong.errno) if wrong.errno else "the name is not known here"
    return StartError(f"{place} cannot be listened on ({reason}); choose another listen_addr.")
