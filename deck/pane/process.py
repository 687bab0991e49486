"""The agent's process on its pseudo-terminal: its output, its input, and how it ended.

Invariants: no call here blocks the event loop; the child's exit status is known exactly once (by
pidfd, never by waiting for any child) and told after its last output; nothing written is lost to a
partial write, and what waits for an agent that does not read is bounded. Starting is done by
`launch`, holding and ending all that the agent started by `tree`. Called by `pane`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import signal
import struct
import subprocess
import termios
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deck.pane.errors import InputOverflow
from deck.pane.launch import launch, set_size
from deck.pane.process_table import ProcessRef, read_process
from deck.pane.threads import in_thread
from deck.pane.tree import KILL_SECONDS, PANE_MARK, ProcessTree, StopProof

# One read returns at most 4095 bytes of a Linux PTY; several are taken per wake within this budget.
READ_SIZE: Final = 65536
DRAIN_BYTES: Final = 64 * 1024
DRAIN_SECONDS: Final = 0.004
# What a person or a deck may have queued for an agent that does not read.
INPUT_LIMIT: Final = 8 * 1024 * 1024
# Linux: a line in canonical mode loses what is beyond 4095 bytes and its end, without an error.
CANONICAL_LIMIT: Final = 4095


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a process ended: `code` is None when `signal` ended it. `str()` is for people."""

    code: int | None
    signal: int | None = None

    @property
    def failed(self) -> bool:
        return self.code != 0

    def __str__(self) -> str:
        if self.signal is None:
            return f"exit {self.code}"
        try:
            return f"killed by {signal.Signals(self.signal).name}"
        except ValueError:
            return f"killed by signal {self.signal}"


def _unseen(pid: int, name: str) -> ProcessRef:
    """A child on a system without a readable process table."""
    return ProcessRef(pid, 0, name, pid, os.getpid(), "")


class PaneProcess:
    """One child on one PTY. `on_exit` runs once, after the last `on_output`, both on the loop."""

    def __init__(
        self, *, on_output: Callable[[bytes], None], on_exit: Callable[[ExitStatus], None]
    ) -> None:
        self._on_output = on_output
        self._on_exit = on_exit
        self.pid: int | None = None
        self.exit_status: ExitStatus | None = None
        self._child: subprocess.Popen[bytes] | None = None
        #: All that it started; None before the start.
        self.tree: ProcessTree | None = None
        self._master = -1
        self._terminal = ""
        self._pidfd = -1
        self._input: deque[memoryview] = deque()
        self._queued = 0
        self._writing = False
        self._reading = False
        self._size = (0, 0)
        self._gone = asyncio.Event()
        self._last_slices = 0

    async def spawn(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], rows: int, cols: int
    ) -> None:
        """Start the child as leader of its own session on the PTY, size already set.

        Raises PaneStartError: command not found or not executable, directory missing, no PTY left.
        """
        self._size = (rows, cols)
        launched = await launch(argv, cwd, env, self._size)
        self._child, self._master = launched.child, launched.master
        self._terminal = launched.terminal
        self.pid = launched.child.pid
        # Still ours to wait for, so its row cannot be another's.
        leader = read_process(self.pid) or _unseen(self.pid, argv[0])
        self.tree = ProcessTree(leader, env.get(PANE_MARK, ""))
        self._watch()

    # -- output

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        assert self.pid is not None
        loop.add_reader(self._master, self._readable)
        self._reading = True
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except (OSError, AttributeError):
            threading.Thread(target=self._wait_in_thread, args=(loop,), daemon=True).start()
            return
        loop.add_reader(self._pidfd, self._child_ended)

    def _wait_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._child is not None
        self._child.wait()
        try:
            loop.call_soon_threadsafe(self._child_ended)
        except RuntimeError:  # the loop is closed
            return

    def _readable(self) -> None:
        self._drain(DRAIN_BYTES, DRAIN_SECONDS)

    def poll_output(self) -> None:
        """Take now what the child has already written, so that a decision rests on it."""
        self._drain(DRAIN_BYTES, DRAIN_SECONDS)

    def _drain(self, budget: int, seconds: float) -> bool:
        """Read and hand on what is there, within a budget. Returns whether more may be waiting."""
        deadline = time.monotonic() + seconds
        while self._reading and budget > 0 and time.monotonic() < deadline:
            try:
                data = os.read(self._master, READ_SIZE)
            except BlockingIOError:
                return False
            except InterruptedError:
                continue
            except OSError:  # EIO: the last holder of the terminal is gone
                data = b""
            if not data:
                self._stop_reading()
                return False
            budget -= len(data)
            self._on_output(data)
        return self._reading

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            asyncio.get_running_loop().remove_reader(self._master)

    # -- end

    def _child_ended(self) -> None:
        assert self._child is not None
        code = self._child.poll()
        if code is None:
            return
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self._finish(ExitStatus(code) if code >= 0 else ExitStatus(None, -code))

    def _finish(self, status: ExitStatus) -> None:
        """Take the last output in slices, so that a flood before the end does not hold the loop."""
        if self._drain(DRAIN_BYTES, DRAIN_SECONDS) and self._pending_output():
            asyncio.get_running_loop().call_soon(self._finish, status)
            return
        self._close_input()
        self.exit_status = status
        self._gone.set()
        self._on_exit(status)

    def _pending_output(self) -> bool:
        """Whether to go on: a grandchild that writes for ever must not keep us here."""
        self._last_slices += 1
        return self._last_slices < 64

    def _close_input(self) -> None:
        self._input.clear()
        self._queued = 0
        if self._writing:
            self._writing = False
            asyncio.get_running_loop().remove_writer(self._master)

    async def close(self) -> None:
        """Give the terminal back; safe to call twice. The kernel hangs a terminal up while it is
        closed, which takes milliseconds: fifty of them would hold up the loop."""
        if self._master < 0:
            return
        self._stop_reading()
        self._close_input()
        master, self._master = self._master, -1
        await in_thread(os.close, master)

    # -- input

    @property
    def queued(self) -> int:
        """Bytes accepted by `write` that the terminal has not taken yet."""
        return self._queued

    def write(self, data: bytes) -> None:
        """Queue bytes for the agent, all of them. Raises InputOverflow beyond 8 MiB unread."""
        if not data or self._master < 0 or self.exit_status is not None:
            return
        if self._queued + len(data) > INPUT_LIMIT:
            raise InputOverflow(
                f"the agent does not read its input: {self._queued} bytes are waiting already"
            )
        self._input.append(memoryview(bytes(data)))
        self._queued += len(data)
        if not self._writing:
            self._flush()

    def _flush(self) -> None:
        while self._input:
            head = self._input[0]
            try:
                count = os.write(self._master, head)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                self._close_input()
                return
            self._queued -= count
            if count < len(head):
                self._input[0] = head[count:]
            else:
                self._input.popleft()
        wanted = bool(self._input)
        if wanted != self._writing:
            loop = asyncio.get_running_loop()
            self._writing = wanted
            if wanted:
                loop.add_writer(self._master, self._flush)
            else:
                loop.remove_writer(self._master)

    def unread(self) -> int:
        """Bytes written that the child has not read: in line mode of finished lines, else all."""
        if self._master < 0 or not self._terminal:
            return 0
        try:
            # Opened for a moment: holding it would hide the end of the last process on it.
            fd = os.open(self._terminal, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return 0
        try:
            count: int = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0]
        except OSError:
            return self._queued
        finally:
            os.close(fd)
        return count + self._queued

    def line_limit(self) -> int | None:
        """The most bytes one line may have: the terminal's in canonical mode, else None."""
        try:
            local_flags = termios.tcgetattr(self._master)[3]
        except (termios.error, OSError, ValueError):
            return None
        return CANONICAL_LIMIT if local_flags & termios.ICANON else None

    # -- size

    def resize(self, rows: int, cols: int) -> None:
        """Set the terminal's size. The child gets SIGWINCH only if it really changed."""
        if self._master < 0 or (rows, cols) == self._size:
            return
        self._size = (rows, cols)
        set_size(self._master, self._size)

    # -- all that it started

    async def suspend(self) -> None:
        """SIGSTOP everything the agent has started."""
        if self.tree is not None:
            await self.tree.suspend()

    async def resume(self) -> None:
        """SIGCONT everything the agent has started."""
        if self.tree is not None:
            await self.tree.resume()

    async def stop(self, grace: float) -> StopProof:
        """End everything, SIGKILL after `grace` seconds, and give the PTY back.

        For a child that has exited it ends what the child left behind.
        """
        if self.tree is None:
            return StopProof((), ())
        proof = await self.tree.end(grace)
        if self.exit_status is None and not proof.survivors:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), KILL_SECONDS)
        await self.close()
        return proof
