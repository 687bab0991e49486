"""Running somebody's program once: an argument list, bytes in, bytes out, never for ever.

Invariants: no shell reads the arguments; the program gets no input but what it is given, runs in a
group of its own that is ended as a whole when its time is over, and what it prints is bounded.
What it says on standard error is never shown, because it may quote anything. Blocking. Called by
`tsa`, `ots` and `copies`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shared.anchors.errors import AnchorError

#: Seconds a program gets.
TIMEOUT: Final = 20.0
#: Bytes of its output that are read: a time stamp with all its certificates has less than 20 kB.
MAX_OUTPUT: Final = 1 << 20


class ProgramEnded(AnchorError):
    """The program ran to its end and said, by its exit status, that it did not do it."""

    def __init__(self, name: str, status: int) -> None:
        super().__init__(f"The program {name} ended with status {status}.")
        self.status = status


#: What runs just now, so that the end of the program leaves none of it behind.
_running: Final[set[subprocess.Popen[bytes]]] = set()


def run_program(
    command: Sequence[str], data: bytes = b"", *, timeout: float = TIMEOUT, cwd: Path | None = None
) -> bytes:
    """Run `command` with `data` on its standard input and return what it prints.

    Raises ProgramEnded when its exit status is not 0, AnchorError when it cannot be run, prints too
    much or takes more than `timeout` seconds.
    """
    name = Path(command[0]).name
    # Files in place of pipes: a child that keeps a pipe open cannot make us wait.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed:
        given.write(data)
        given.seek(0)
        try:
            process = subprocess.Popen(
                list(command),
                stdin=given,
                stdout=printed,
                stderr=subprocess.DEVNULL,
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            raise AnchorError(
                f"The program {name} cannot be run ({error.strerror or type(error).__name__})."
            ) from None
        _running.add(process)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AnchorError(f"The program {name} took more than {timeout:g} seconds.") from None
        finally:
            _running.discard(process)
            _end(process)
        if status != 0:
            raise ProgramEnded(name, status)
        if printed.seek(0, os.SEEK_END) > MAX_OUTPUT:
            raise AnchorError(f"The program {name} printed more than {MAX_OUTPUT} bytes.")
        printed.seek(0)
        return printed.read()


def end_programs() -> None:
    """End all that runs: the program that started it ends."""
    for process in list(_running):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program's whole group; what it left behind has no more to do."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
