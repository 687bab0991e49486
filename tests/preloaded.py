"""Our own programs as processes that start from one that has loaded them.

Most of what a short run of our command lines costs is the interpreter and its imports. Here one
fresh process without threads imports them once and forks for each run: what runs is a process of
its own with its own arguments, environment, directory and output, and the same code. What a start
itself must show (`-P`, a module that was not imported, the console script, what /proc says of its
environment) is tested by starting it for real. Where there is no pidfd, and while coverage is
measured, every run is a start for real. Called by the harnesses; `python preloaded.py` is the one
that forks.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

#: Whether processes can be had this way here.
POSSIBLE: Final = hasattr(os, "pidfd_open") and not any(
    name.startswith(("COVERAGE_", "COV_CORE_")) for name in os.environ
)
#: What is said to an interpreter, which another one that starts now would hear too.
_SAID: Final = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
#: More than this does not fit one message.
_LARGEST: Final = 100_000
_PR_SET_NAME: Final = 15


class Running:
    """A process that was forked; the part of `subprocess.Popen` that the harnesses use."""

    def __init__(self, args: Sequence[str], status: int) -> None:
        self.args = args
        self.returncode: int | None = None
        self._status = status
        self._poll = selectors.DefaultSelector()
        self._poll.register(status, selectors.EVENT_READ)
        self.pid = self._number()

    def _number(self) -> int:
        told = os.read(self._status, 8)
        if len(told) != 8:
            raise AssertionError("the process that forks has ended; see its traceback")
        return int.from_bytes(told, "little", signed=True)

    def _end(self, seconds: float | None) -> int | None:
        if self.returncode is None and self._poll.select(seconds):
            self.returncode = self._number()
            self._poll.close()
            os.close(self._status)
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit status, minus the signal's number for a signal; None while it runs."""
        return self._end(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; raises `subprocess.TimeoutExpired`."""
        code = self._end(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Preloaded:
    """The process that has loaded `modules`, started when it is first needed."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self._line: socket.socket | None = None
        self._lock = threading.Lock()

    def fits(self, arguments: Sequence[str], env: Mapping[str, str]) -> bool:
        """Tell whether a run can be had this way: it needs nothing of an interpreter of its own."""
        said = {name: value for name, value in env.items() if name.startswith("PYTHON")}
        if not POSSIBLE or not said.items() <= _SAID.items():
            return False
        return len(json.dumps([list(arguments), dict(env)])) < _LARGEST

    def start(
        self,
        entry: str,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        out: int,
        err: int,
        name: str = "",
    ) -> Running:
        """Call `entry` ("module:function") in a process of its own, whose comm is `name`."""
        told, status = os.pipe()
        asked = {"entry": entry, "argv": list(arguments), "cwd": str(cwd), "env": dict(env)}
        try:
            message = json.dumps(asked | {"name": name}).encode()
            socket.send_fds(self._server(), [message], [out, err, status])
        except OSError as gone:
            os.close(told)
            raise AssertionError(self._ended()) from gone
        finally:
            os.close(status)
        return Running(arguments, told)

    def _ended(self) -> str:
        """Forget the process that forks, so that the next run has a new one."""
        with self._lock:
            if self._line is not None:
                self._line.close()
                self._line = None
        return f"the process that loads {', '.join(self._modules)} has ended; see its traceback"

    def run(
        self,
        entry: str,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        timeout: float,
        name: str = "",
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run(…, capture_output=True, text=True)` of the same command line."""
        out, err = os.memfd_create("out"), os.memfd_create("err")
        try:
            running = self.start(entry, arguments, cwd=cwd, env=env, out=out, err=err, name=name)
            try:
                code = running.wait(timeout)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
                raise
            said = [_text(descriptor) for descriptor in (out, err)]
        finally:
            os.close(out)
            os.close(err)
        return subprocess.CompletedProcess(list(arguments), code, *said)

    def _server(self) -> socket.socket:
        with self._lock:
            if self._line is None:
                self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    subprocess.Popen(
                        [sys.executable, __file__, str(theirs.fileno()), *self._modules],
                        pass_fds=[theirs.fileno()],
                        stdin=subprocess.DEVNULL,
                        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/nonexistent"},
                    )
            return self._line


def _text(descriptor: int) -> str:
    data = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    return data.decode().replace("\r\n", "\n")


# -- the process that forks ---------------------------------------------------------------------


def _serve(line: socket.socket, modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    with selectors.DefaultSelector() as waiting:
        waiting.register(line, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.data is not None:
                    _collect(waiting, *key.data)
                    continue
                message, descriptors, _, _ = socket.recv_fds(line, 4 * _LARGEST, 3)
                if not message:
                    return
                pid = os.fork()
                if pid == 0:
                    _become(json.loads(message), descriptors[:2])
                for descriptor in descriptors[:2]:
                    os.close(descriptor)
                _tell(descriptors[2], pid)
                pidfd = os.pidfd_open(pid)
                waiting.register(pidfd, selectors.EVENT_READ, (pid, pidfd, descriptors[2]))


def _collect(waiting: selectors.BaseSelector, pid: int, pidfd: int, status: int) -> None:
    _, ended = os.waitpid(pid, 0)
    _tell(status, os.waitstatus_to_exitcode(ended))
    waiting.unregister(pidfd)
    os.close(pidfd)
    os.close(status)


def _tell(status: int, number: int) -> None:
    try:
        os.write(status, number.to_bytes(8, "little", signed=True))
    except BrokenPipeError:
        return  # nobody waits for it


def _become(asked: dict[str, Any], output: Sequence[int]) -> NoReturn:
    code = 70
    try:
        for target, descriptor in enumerate(output, 1):
            os.dup2(descriptor, target)
        os.closerange(3, 1024)
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["env"])
        if asked["name"]:
            ctypes.CDLL(None).prctl(_PR_SET_NAME, asked["name"].encode(), 0, 0, 0)
        module, function = asked["entry"].split(":")
        sys.argv = [module, *asked["argv"]]
        code = call(getattr(importlib.import_module(module), function))
    except BaseException:
        traceback.print_exc()
    finally:
        leave(code)


def call(function: Any, *arguments: Any) -> int:
    """Call a program's entry point; return the status the interpreter would end with."""
    try:
        result = function(*arguments)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    return result if isinstance(result, int) else 0


def program() -> None:
    """Be the program whose text is the first argument, as `python -c`, in a session of its own."""
    os.setsid()
    text = sys.argv.pop(1)
    exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})


def leave(code: int) -> NoReturn:
    """End this process as the interpreter ends: its threads, what was registered, its output."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    finally:
        os._exit(code & 0xFF)


if __name__ == "__main__":
    # The programs' own directory first, as `python -m` has it; the harnesses' entries after it.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.modules["preloaded"] = sys.modules["__main__"]
    with socket.socket(fileno=int(sys.argv[1])) as _line:
        _serve(_line, sys.argv[2:])
