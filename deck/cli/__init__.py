"""The `choragos` command line; `main` is the console script's entry point.

Owns which way a command line goes: the errands that agents run many times a day go the short way
(`deck.cli.errands`), everything else through all verbs (`deck.cli.verbs`), which take a tenth of a
second to load. Ctrl-C while anything loads ends the program like any other, without a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process."""
    try:
        with _quiet():
            from shared.streams import ClosedOutput, make_whole

            make_whole(ClosedOutput.SWALLOWS)
            work = _way(sys.argv[1:])
        status: object = 0
        try:
            work()
        except SystemExit as end:
            status = 0 if end.code is None else end.code
        _deliver_answer(is_told=status != 0)
        sys.exit(status if isinstance(status, int) else 1)
    except KeyboardInterrupt:
        sys.exit(130)


def _way(arguments: Sequence[str]) -> Callable[[], None]:
    from deck.cli.errands import errand

    if (short := errand(arguments)) is not None:
        return partial(_run, short)
    from deck.cli.verbs import run

    return partial(run, arguments)


def _run(errand: Callable[[], None]) -> None:
    from deck.cli.failure import DEBUG_ENV, fail, unexpected

    try:
        errand()
    except Exception as fault:
        if os.environ.get(DEBUG_ENV):
            raise
        fail(unexpected(fault))


def _deliver_answer(*, is_told: bool) -> None:
    """Write out what was printed. A reader that has gone takes nothing back: the status says what
    became of the command, so that nobody gives it twice; a failure that was told comes first."""
    from deck.cli.failure import fail
    from shared.streams import drop_output

    try:
        sys.stdout.flush()
    except OSError as error:
        drop_output()
        if not is_told and not isinstance(error, BrokenPipeError):
            why = error.strerror or type(error).__name__
            fail(f"the command was carried out, but its answer cannot be written: {why}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Let Ctrl-C end the program as the system does, where it would be a traceback."""
    before = signal.getsignal(signal.SIGINT)
    try:
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    except ValueError:  # not the main thread
        before = None
    yield
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)
