"""The agent's process on its pseudo-terminal, and everything that process started.

Invariants: no call here blocks the event loop; every child's exit status is known exactly once (by
pidfd, never by waiting for any child); nothing written is lost to a partial write; `stop` ends the
whole process session and also what left it, found by descent and by the CHORAGOS_PANE mark in its
environment, and says who was ended. A process is only signalled if its start time still matches, so
a reused pid is never hit. Called by `pane`; `adopt_orphans` and `reap_orphans` by the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Final

# One read returns at most 4095 bytes of a Linux PTY; several are taken per wake within this budget.
READ_SIZE: Final = 65536
DRAIN_BYTES: Final = 64 * 1024
DRAIN_SECONDS: Final = 0.004
# What a person or a deck may have queued for an agent that does not read.
INPUT_LIMIT: Final = 8 * 1024 * 1024
# Linux: a line in canonical mode loses what is beyond 4095 bytes and its end, without an error.
CANONICAL_LIMIT: Final = 4095
POLL_SECONDS: Final = 0.05  # contract 1.6
KILL_SECONDS: Final = 2.0  # contract 1.6: reap bound
HANG_UP_SECONDS: Final = 0.5
PANE_MARK: Final = "CHORAGOS_PANE"
_MARK: Final = f"{PANE_MARK}=".encode()
_PR_SET_CHILD_SUBREAPER: Final = 36
# Apart from the loop's own threads, so that a slow git command never delays the end of an agent.
_threads: Final = ThreadPoolExecutor(2, thread_name_prefix="pane")


class PaneError(Exception):
    """A pane cannot do what was asked; the text says why and what to do."""


class PaneStartError(PaneError):
    """The agent could not be started."""


class InputOverflow(PaneError):
    """The agent has stopped reading its input."""


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


class EndedBy(StrEnum):
    """What it took to end a process."""

    TERM = "SIGTERM"
    KILL = "SIGKILL"


@dataclass(frozen=True, slots=True)
class ProcessRef:
    """A process, unmistakably: its pid and its start time in kernel ticks."""

    pid: int
    started: int
    name: str
    session: int
    parent: int
    state: str


@dataclass(frozen=True, slots=True)
class Ended:
    pid: int
    name: str
    by: EndedBy


@dataclass(frozen=True, slots=True)
class StopProof:
    """Who was ended by `stop` and how. `survivors` could not be ended: the kernel refused."""

    ended: tuple[Ended, ...]
    survivors: tuple[Ended, ...]

    def __str__(self) -> str:
        if not self.ended and not self.survivors:
            return "nothing was left to end"
        parts = [f"{e.name}[{e.pid}] {e.by}" for e in self.ended]
        text = f"ended {len(self.ended)}: {', '.join(parts)}" if parts else "ended 0"
        if self.survivors:
            text += f"; still alive: {', '.join(f'{s.name}[{s.pid}]' for s in self.survivors)}"
        return text


# -- the process table ------------------------------------------------------------------------


def read_process(pid: int) -> ProcessRef | None:
    """One row of the process table, or None if there is no such process. Linux."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            line = file.read()
    except OSError:
        return None
    opening, closing = line.find(b"("), line.rfind(b")")
    rest = line[closing + 2 :].split()
    name = line[opening + 1 : closing].decode("utf-8", "replace")
    return ProcessRef(
        pid, int(rest[19]), name, int(rest[3]), int(rest[1]), rest[0].decode("ascii", "replace")
    )


def process_table() -> dict[int, ProcessRef]:
    """Every process one may see. Blocking for a few milliseconds: run it in a thread."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return {}
    return {pid: ref for pid in pids if (ref := read_process(pid)) is not None}


def _read_mark(pid: int) -> str:
    """The pane a process was started in, by its environment; empty if it carries no mark."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            data = file.read()
    except OSError:
        return ""
    start = 0 if data.startswith(_MARK) else data.find(b"\0" + _MARK) + 1
    if not data.startswith(_MARK, start):
        return ""
    return data[start + len(_MARK) :].split(b"\0", 1)[0].decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Census:
    """The living processes at one instant, and the pane marks they carry."""

    table: Mapping[int, ProcessRef]
    marks: Mapping[int, str]


def take_census() -> Census:
    """Look at every process. Blocking for some milliseconds: run it in a thread."""
    me = os.getpid()
    table = {
        pid: ref
        for pid, ref in process_table().items()
        if pid != me and ref.state not in ("Z", "X")
    }
    return Census(table, {pid: mark for pid in table if (mark := _read_mark(pid))})


def members_of(
    leader: ProcessRef, pane_id: str, census: Census, known: Iterable[ProcessRef] = ()
) -> dict[int, ProcessRef]:
    """All processes of a pane: its session, its descendants, and whoever carries its mark. Pure.

    `known` are members found earlier: they and their descendants count, wherever they are now. The
    kernel gives a pid away again only when no session bears it any more, so a stranger with the
    leader's pid means that the session is gone, and the stranger's own session is not ours.
    """
    table = census.table
    found = {ref.pid for ref in known if (now := table.get(ref.pid)) and now.started == ref.started}
    namesake = table.get(leader.pid)
    if namesake is None or namesake.started == leader.started:
        found |= {pid for pid, ref in table.items() if leader.pid in (pid, ref.session)}
    if pane_id:
        found |= {pid for pid, mark in census.marks.items() if mark == pane_id}
    growing = True
    while growing:
        more = {pid for pid, ref in table.items() if ref.parent in found and pid not in found}
        found |= more
        growing = bool(more)
    return {pid: table[pid] for pid in found}


class _Surveyor:
    """Takes censuses in a thread; whoever asks while one runs shares the next one.

    Fifty panes that stop at once then cost two looks at the process table, not fifty.
    """

    _of_loop: ClassVar[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Surveyor]] = (
        weakref.WeakKeyDictionary()
    )

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._next: asyncio.Task[Census] | None = None

    @classmethod
    async def census(cls) -> Census:
        """A census begun after this call."""
        surveyor = cls._of_loop.setdefault(asyncio.get_running_loop(), cls())
        if surveyor._next is None:
            surveyor._next = asyncio.create_task(surveyor._take())
        return await asyncio.shield(surveyor._next)

    async def _take(self) -> Census:
        async with self._lock:
            self._next = None
            return await asyncio.get_running_loop().run_in_executor(_threads, take_census)


def _signal(ref: ProcessRef, number: int) -> None:
    """Send a signal to exactly this process, never to a later one with the same pid."""
    try:
        fd = os.pidfd_open(ref.pid)
    except (OSError, AttributeError):
        return
    try:
        now = read_process(ref.pid)
        if now is not None and now.started == ref.started:
            signal.pidfd_send_signal(fd, number)
    except OSError:
        pass
    finally:
        os.close(fd)


def _still_there(refs: Iterable[ProcessRef]) -> list[ProcessRef]:
    return [
        ref
        for ref in refs
        if (now := read_process(ref.pid)) is not None
        and now.started == ref.started
        and now.state not in ("Z", "X")
    ]


def adopt_orphans() -> bool:
    """Make this process the parent of what its descendants leave behind (Linux child subreaper).

    A daemon that forks twice then still descends from the deck. Returns whether the kernel agreed.
    """
    if not sys.platform.startswith("linux"):
        return False
    return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def reap_orphans(own: Collection[int] = ()) -> list[int]:
    """Collect dead processes that were adopted, and only those; returns their pids.

    A child this process started itself is left to whoever waits for it: panes' leaders are known
    here, children in our own session are passed over, and the caller names in `own` those it
    started in a session of their own.
    """
    me, own_session = os.getpid(), os.getsid(0)
    reaped = []
    for ref in process_table().values():
        if ref.parent != me or ref.state != "Z" or ref.session == own_session:
            continue
        if ref.pid in own or ref.pid in PaneProcess.leaders:
            continue
        try:
            if os.waitpid(ref.pid, os.WNOHANG)[0]:
                reaped.append(ref.pid)
        except OSError:
            continue
    return reaped


# -- starting ---------------------------------------------------------------------------------


def _set_size(fd: int, size: tuple[int, int]) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))


def _take_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _launch(
    argv: list[str], cwd: Path, env: dict[str, str], size: tuple[int, int]
) -> tuple[subprocess.Popen[bytes], int, str]:
    """Start the child; returns it, the master side and the name of its terminal. Runs in a thread.

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
        _set_size(master, size)
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
    return child, master, terminal


def _unseen(pid: int, name: str) -> ProcessRef:
    """A child on a system without a readable process table."""
    return ProcessRef(pid, 0, name, pid, os.getpid(), "")


def _undo_launch(launch: asyncio.Future[tuple[subprocess.Popen[bytes], int, str]]) -> None:
    """Nobody waits for this start any more: end what it began."""
    if launch.cancelled() or launch.exception() is not None:
        return
    child, master, _ = launch.result()
    os.close(master)
    child.kill()
    threading.Thread(target=child.wait, daemon=True).start()


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


# -- one agent --------------------------------------------------------------------------------


class PaneProcess:
    """One child on one PTY. `on_exit` runs once, after the last `on_output`, both on the loop."""

    leaders: ClassVar[set[int]] = set()

    def __init__(
        self, *, on_output: Callable[[bytes], None], on_exit: Callable[[ExitStatus], None]
    ) -> None:
        self._on_output = on_output
        self._on_exit = on_exit
        self.pid: int | None = None
        self.exit_status: ExitStatus | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._leader: ProcessRef | None = None
        self._master = -1
        self._terminal = ""
        self._pidfd = -1
        self._input: deque[memoryview] = deque()
        self._queued = 0
        self._writing = False
        self._reading = False
        self._pane_id = ""
        self._size = (0, 0)
        self._gone = asyncio.Event()
        self._last_slices = 0

    async def spawn(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], rows: int, cols: int
    ) -> None:
        """Start the child as leader of its own session on the PTY, size already set.

        Raises PaneStartError: command not found or not executable, directory missing, no PTY left.
        """
        if not argv:
            raise PaneStartError("the role has no command; set `command` in the configuration")
        self._size = (rows, cols)
        loop = asyncio.get_running_loop()
        launch = loop.run_in_executor(_threads, _launch, list(argv), cwd, dict(env), self._size)
        try:
            child, self._master, self._terminal = await asyncio.shield(launch)
        except asyncio.CancelledError:
            launch.add_done_callback(_undo_launch)
            raise
        self._child, self.pid = child, child.pid
        # Still ours to wait for, so its row cannot be another's.
        self._leader = read_process(child.pid) or _unseen(child.pid, argv[0])
        self._pane_id = env.get(PANE_MARK, "")
        PaneProcess.leaders.add(self.pid)
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

    def pause_reading(self) -> None:
        """Stop taking output; the agent blocks after about 16 KB more."""
        self._stop_reading()

    def resume_reading(self) -> None:
        if not self._reading and self._master >= 0 and self.exit_status is None:
            self._reading = True
            asyncio.get_running_loop().add_reader(self._master, self._readable)

    # -- end

    def _child_ended(self) -> None:
        assert self._child is not None
        assert self.pid is not None
        code = self._child.poll()
        if code is None:
            return
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        PaneProcess.leaders.discard(self.pid)
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
        await asyncio.get_running_loop().run_in_executor(_threads, os.close, master)

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
        _set_size(self._master, self._size)

    # -- the whole tree

    async def members(self, known: Iterable[ProcessRef] = ()) -> dict[int, ProcessRef]:
        """The living processes of this pane, found in a thread."""
        if self._leader is None:
            return {}
        return members_of(self._leader, self._pane_id, await _Surveyor.census(), known)

    async def suspend(self) -> None:
        """SIGSTOP the whole tree. Repeated until no new process appears."""
        await self._signal_all(signal.SIGSTOP)

    async def resume(self) -> None:
        """SIGCONT the whole tree."""
        await self._signal_all(signal.SIGCONT)

    async def _signal_all(self, number: int) -> None:
        """Parents first when they are stopped and last when they go on: a shell that saw its job
        stop would take it for the user's wish, and go on to the next command."""
        done: set[tuple[int, int]] = set()
        for _ in range(5):
            fresh = [r for r in (await self.members()).values() if (r.pid, r.started) not in done]
            if not fresh:
                return
            is_stop = number == signal.SIGSTOP
            for ref in sorted(fresh, key=lambda r: (r.started, r.pid), reverse=not is_stop):
                _signal(ref, number)
                done.add((ref.pid, ref.started))

    async def stop(self, grace: float) -> StopProof:
        """SIGTERM (and SIGCONT) everything, wait up to `grace` seconds, SIGKILL the rest.

        Gives the PTY back. For a child that has exited it ends what the child left behind.
        """
        if self.pid is None:
            return StopProof((), ())
        asked = await self.members()
        for ref in asked.values():
            _signal(ref, signal.SIGTERM)
            _signal(ref, signal.SIGCONT)
        deadline = time.monotonic() + grace
        hang_up = time.monotonic() + min(HANG_UP_SECONDS, grace / 2)
        left = _still_there(asked.values())
        while left and time.monotonic() < deadline:
            await asyncio.sleep(POLL_SECONDS / 2)
            left = _still_there(left)
            if hang_up and time.monotonic() >= hang_up:
                # Interactive shells ignore SIGTERM; they obey the hang-up of their terminal.
                hang_up = 0.0
                for ref in left:
                    _signal(ref, signal.SIGHUP)
        killed = await self._kill(asked)
        survivors = _still_there(killed.values())
        if self.exit_status is None and not survivors:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), KILL_SECONDS)
        await self.close()
        return _proof(asked, killed, survivors)

    async def _kill(self, asked: Mapping[int, ProcessRef]) -> dict[int, ProcessRef]:
        """SIGKILL whatever is found until nothing is; new forks are found in the next round."""
        killed: dict[int, ProcessRef] = {}
        deadline = time.monotonic() + KILL_SECONDS
        while True:
            left = await self.members([*asked.values(), *killed.values()])
            if not left or time.monotonic() > deadline:
                return killed
            for ref in left.values():
                _signal(ref, signal.SIGKILL)
            killed.update(left)
            await asyncio.sleep(0.01)


def _proof(
    asked: Mapping[int, ProcessRef],
    killed: Mapping[int, ProcessRef],
    survivors: Sequence[ProcessRef],
) -> StopProof:
    alive = {ref.pid for ref in survivors}
    everyone = {**asked, **killed}
    ended = [
        Ended(pid, ref.name, EndedBy.KILL if pid in killed else EndedBy.TERM)
        for pid, ref in sorted(everyone.items())
        if pid not in alive
    ]
    rest = [Ended(ref.pid, ref.name, EndedBy.KILL) for ref in survivors]
    return StopProof(tuple(ended), tuple(rest))
