"""The start of an agent: a program made the leader of its own session on a new pseudo-terminal.

Owns what can go wrong then, told as a sentence for the user. Invariant: a start that fails, or
that nobody waits for any more, leaves no child and no open file. The work is done in a thread, so
that no start holds up the loop. Called by `process`.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deck.pane.errors import PaneStartError
from deck.pane.threads import in_thread


@dataclass(frozen=True, slots=True)
class Launched:
    """A child on its terminal: `master` is our side of it, `terminal` its name."""

    child: subprocess.Popen[bytes]
    master: int
    terminal: str


async def launch(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], size: tuple[int, int]
) -> Launched:
    """Start `argv` on a terminal of `size` (rows, columns).

    Raises PaneStartError: command not found or not executable, directory missing, no PTY left.
    """
    if not argv:
        raise PaneStartError("the role has no command; set `command` in the configuration")
    start = in_thread(_launch, list(argv), cwd, dict(env), size)
    try:
        return await asyncio.shield(start)
    except asyncio.CancelledError:
        start.add_done_callback(_undo)
        raise


def set_size(fd: int, size: tuple[int, int]) -> None:
    """Set the size (rows, columns) of the terminal behind `fd`."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))


def _take_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _launch(argv: list[str], cwd: Path, env: dict[str, str], size: tuple[int, int]) -> Launched:
    """Start the child. Runs in a thread.

    `setsid --ctty` (util-linux) makes the session and takes the terminal without a fork of our own
    memory, so the cost does not grow with the deck; elsewhere the child does both before its exec.
    """
    if not cwd.is_dir():
        raise PaneStartError(f"the directory {cwd} does not exist; {argv[0]} cannot start there")
    command = _find(argv[0], cwd, env)
    try:
        master, slave = os.openpty()
    except OSError as error:
        raise PaneStartError(f"no terminal is left to run {argv[0]}: {error.strerror}") from None
    helper = shutil.which("setsid") if sys.platform.startswith("linux") else None
    try:
        set_size(master, size)
        os.set_blocking(master, False)
        terminal = os.ttyname(slave)
        child = subprocess.Popen(
            [helper, "--ctty", command, *argv[1:]] if helper else argv,
            stdin=slave, stdout=slave, stderr=slave, cwd=cwd, env=env,
            preexec_fn=None if helper else _take_terminal,  # noqa: PLW1509
        )  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        os.close(master)
        raise PaneStartError(f"{argv[0]} could not be started: {error}") from None
    finally:
        os.close(slave)
    return Launched(child, master, terminal)


def _undo(start: asyncio.Future[Launched]) -> None:
    """Nobody waits for this start any more: end what it began."""
    if start.cancelled() or start.exception() is not None:
        return
    launched = start.result()
    os.close(launched.master)
    launched.child.kill()
    threading.Thread(target=launched.child.wait, daemon=True).start()


def _find(command: str, cwd: Path, env: Mapping[str, str]) -> str:
    """The file that `command` names, as the child would find it. Raises PaneStartError."""
    if "/" in command:
        path = cwd / command
        if not path.is_file():
            raise PaneStartError(f"{command} does not exist; correct `command`")
        if not os.access(path, os.X_OK):
            raise PaneStartError(f"{command} may not be executed; check its permissions")
        return command
    found = shutil.which(command, path=env.get("PATH", os.defpath))
    if found is None:
        raise PaneStartError(
            f"{command} is not on PATH; install it or correct `command` in the configuration"
        )
    return command
