"""`choragos` from a process that has loaded it (see `preloaded`).

Owns which modules are loaded, and the one difference: a deck that is detached from here is forked
where the command line starts another interpreter. Called by `deck_harness`; `detached` runs in the
process that was forked.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

from preloaded import Preloaded, call, leave

CHORAGOS: Final = Preloaded(
    "preloaded_deck", "deck.cli.verbs", "deck.host", "typer._adapters", "rich.table", "csv"
)


def detached() -> None:
    """`choragos serve --detach`, whose deck is a fork."""
    from deck.cli import main, serve

    serve._spawn = _spawn  # type: ignore[assignment]
    main()


def _spawn(log: Path, arguments: list[str]) -> tuple[_Child, int]:
    from deck import host

    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    descriptor = os.open(log, flags, 0o600)
    start = os.fstat(descriptor).st_size
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.closerange(3, 1024)
        leave(call(host.main, arguments[3:]))
    os.close(descriptor)
    return _Child(pid), start


class _Child:
    """The forked deck, as the command line that waits for it looks at it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        pid, ended = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(ended) if pid else None

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)
