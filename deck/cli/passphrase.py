"""How a verb gets a passphrase: from the terminal without an echo, or from a script's file.

Owns the asking. Invariant: a passphrase is never an argument, never echoed, never printed, and
never read from a pipe by accident: without a terminal only the named file counts. While it is in
memory, other processes of the same account, agents among them, cannot read that memory (Linux).
"""

from __future__ import annotations

import getpass
import os
import sys
from typing import Final

from deck.cli.failure import fail

#: prctl(2): no debugger, no core file, no reader of /proc/PID/mem but root.
_PR_SET_DUMPABLE: Final = 4


def ask_passphrase(prompt: str, *, twice: bool = False) -> str:
    """Return the passphrase, or end the program with what is missing."""
    from deck.approver_keys import PASSPHRASE_ENV, KeyProblem, passphrase_file

    _close_memory()
    try:
        told = passphrase_file()
    except KeyProblem as problem:
        fail(problem)
    if told is not None:
        return told
    if not _has_terminal():
        fail(
            "there is no terminal to ask for the passphrase on; run this in one, or put the "
            f"passphrase into a file of mode 0600 and name it in {PASSPHRASE_ENV}"
        )
    first = getpass.getpass(f"{prompt}: ")
    if twice and getpass.getpass(f"{prompt}, again: ") != first:
        fail("the two passphrases differ; nothing was made")
    return first


def _close_memory() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
