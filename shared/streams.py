"""The three standard streams of a program, made fit before it says anything.

Owns what is done about a stream that was closed, one that cannot spell a character, and what is
printed when output fails. Invariants: what belongs on standard error never lands in standard
output, which happens by itself once the first is closed; no file the program opens later takes the
place of a closed stream; output that was lost is told. Called by `gateway.cli` and `deck.cli`
before anything is printed.
"""

from __future__ import annotations

import contextlib
import enum
import io
import os
import sys


class ClosedOutput(enum.IntEnum):
    """What is done with what is printed to a standard output that was closed."""

    #: Its loss is an error, as with every program that copies something (`echo >&-`).
    REFUSES = os.O_RDONLY
    #: It goes nowhere: what the command did is what counts.
    SWALLOWS = os.O_WRONLY


def make_whole(output: ClosedOutput = ClosedOutput.REFUSES) -> None:
    """Open what was closed and let every character through, as `?` if need be."""
    for number, mode in ((0, os.O_RDONLY), (1, output), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken, which is this one: they are tried in order.
            os.open(os.devnull, mode)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - lives as long as we
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def print_as_utf8() -> None:
    """Have standard output written as UTF-8 whatever the locale says: JSON is nothing else."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")


def drop_output() -> None:
    """Turn to the null device what is still unwritten: Python would complain of it at exit."""
    with contextlib.suppress(OSError, ValueError):  # a stand-in for standard output has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def failure_line(sentence: object) -> str:
    """Return `error: …`, the one line in which a command fails, without anything that a terminal
    would obey: a sentence may name a file, and a file may be called anything."""
    line = f"error: {' '.join(str(sentence).split())}"
    if line.isprintable():
        return line
    from shared.ledger.plain import harmless  # takes longer to load than most failures to say

    return harmless(line)
