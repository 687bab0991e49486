"""The demo's own small world: one temporary directory, one environment, the processes in it.

Owns everything the demo makes on this machine. Invariants: no process gets the user's HOME,
credentials, proxies or provider variables; every path is short enough for a unix socket; every
process, however far detached, carries the mark of this run in its environment, and `end` looks for
that mark, stops what is left, says what it was and removes the directory. Called by the story and
by the end-to-end tests, which break things in it.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import httpx

from deck.demo import project
from deck.demo.canaries import Canary, demo_canaries

T = TypeVar("T")

#: Passed on from the user's environment; everything else is left behind.
_PASSED: Final = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "SHELL", "PYTHONPATH")
_MARK: Final = "CHORAGOS_DEMO_MARK"
#: A unix socket path holds 107 bytes on Linux and 103 on macOS; ours adds about 55 to the root.
_ROOT_MAX: Final = 45
_STARTUP_S: Final = 30.0
_STOP_S: Final = 10.0
_QUIET_LOOKS: Final = 3


class NotSo(Exception):
    """Something the demo waited for or relied on did not come.

    Carries what was expected, what came instead, and the log that may tell why.
    """

    def __init__(self, expected: str, came: str, log: Path | None = None) -> None:
        super().__init__(f"expected {expected}; {came}")
        self.expected = expected
        self.came = came
        self.log = log


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished command."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str
    home: str

    @property
    def line(self) -> str:
        """The command as one would type it in the demo's world, where HOME is its own."""
        return " ".join(
            "~" + part.removeprefix(self.home)
            if part.startswith(self.home + "/")
            else shlex.quote(part)
            for part in self.argv
        )

    @property
    def said(self) -> str:
        """Everything it printed, what went wrong first."""
        return "\n".join(part.strip() for part in (self.err, self.out) if part.strip())


@dataclass(slots=True)
class World:
    """A repository, a gateway and a deck, in one temporary directory."""

    root: Path
    mark: str
    port: int
    env: dict[str, str]
    canaries: tuple[Canary, ...]
    gateway: subprocess.Popen[bytes] | None = None
    deck_started: bool = False
    survivors: list[str] = field(default_factory=list)

    @property
    def repo(self) -> Path:
        return self.root / "shop"

    @property
    def trace(self) -> Path:
        return self.root / "trace"

    @property
    def record(self) -> Path:
        """What the offline provider received, one JSON object per request."""
        return self.root / "provider.jsonl"

    @property
    def gateway_home(self) -> Path:
        return Path(self.env["SPHRAGIS_HOME"])

    @property
    def gateway_log(self) -> Path:
        return self.root / "gateway.log"

    @property
    def events(self) -> Path:
        return self.repo / ".choragos" / "logs" / "events.log"

    @property
    def addr(self) -> str:
        return f"127.0.0.1:{self.port}"

    # -- commands ---------------------------------------------------------------------------

    def run(self, *argv: str, timeout: float = 30.0) -> Ran:
        """Run a command in the repository, in this world's environment."""
        try:
            done = subprocess.run(
                argv,
                cwd=self.repo,
                env=self.env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NotSo(
                f"`{shlex.join(argv)}` to end", f"it ran longer than {timeout:.0f} s"
            ) from None
        return Ran(
            tuple(argv),
            done.returncode,
            done.stdout.decode("utf-8", "replace"),
            done.stderr.decode("utf-8", "replace"),
            self.env["HOME"],
        )

    def must(self, *argv: str, timeout: float = 30.0) -> Ran:
        """Run a command that has to succeed. Raises NotSo with what it said when it does not."""
        ran = self.run(*argv, timeout=timeout)
        if ran.code != 0:
            raise NotSo(f"`{ran.line}` to succeed", f"it ended with exit {ran.code}: {ran.said}")
        return ran

    # -- the gateway ------------------------------------------------------------------------

    def start_gateway(self) -> None:
        """Start `sphragis serve` with the offline provider and wait until it is ready."""
        with self.gateway_log.open("ab") as log:
            self.gateway = subprocess.Popen(
                ["sphragis", "serve", "--offline", "--offline-record", str(self.record)],
                cwd=self.root,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.wait(self._gateway_is_ready, "the gateway to be ready", _STARTUP_S, self.gateway_log)

    def _gateway_is_ready(self) -> bool:
        if self.gateway is not None and self.gateway.poll() is not None:
            raise NotSo(
                "the gateway to be ready",
                f"it ended with exit {self.gateway.returncode}",
                self.gateway_log,
            )
        try:
            return self.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def get(self, path: str) -> httpx.Response:
        """GET a path of the gateway, past any proxy. Raises httpx.HTTPError."""
        return httpx.get(f"http://{self.addr}{path}", timeout=2.0, trust_env=False)

    def stop_gateway(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop the gateway with a signal and wait for its end."""
        if self.gateway is None:
            return
        if self.gateway.poll() is None:
            self.gateway.send_signal(how)
        try:
            self.gateway.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.gateway.kill()
            self.gateway.wait()
            raise NotSo(
                f"the gateway to stop on {how.name}", "it did not", self.gateway_log
            ) from None
        finally:
            self.gateway = None

    # -- the deck ---------------------------------------------------------------------------

    def start_deck(self) -> Ran:
        """Start the team in the background."""
        self.deck_started = True
        return self.must("choragos", "serve", "--detach", timeout=_STARTUP_S)

    def stop_deck(self) -> None:
        """Stop the team with `choragos kill`; one that is only starting is waited for."""
        if not self.deck_started:
            return
        self.deck_started = False
        deadline = time.monotonic() + _STOP_S
        while (ran := self.run("choragos", "kill", timeout=_STARTUP_S)).code != 0:
            if not self._deck_runs():
                return  # it never came up, so there is nothing to stop
            if time.monotonic() > deadline:
                raise NotSo("`choragos kill` to succeed", ran.said)
            time.sleep(0.2)

    def _deck_runs(self) -> bool:
        return any(re.search(r"(deck\.cli|choragos) serve", c) for c in self.living().values())

    def event_lines(self) -> list[str]:
        """Return the deck's event log so far."""
        try:
            return self.events.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def has_event(self, *words: str) -> bool:
        """Tell whether one line of the event log holds all of `words`."""
        return any(all(word in line for word in words) for line in self.event_lines())

    # -- time -------------------------------------------------------------------------------

    def wait(
        self, ask: Callable[[], T | None], what: str, seconds: float, log: Path | None = None
    ) -> T:
        """Ask again and again until the answer is true; return it. Raises NotSo after `seconds`.

        Asking takes a third of the time at most: who is waited for needs the processor, too.
        """
        deadline = time.monotonic() + seconds
        while True:
            asked = time.monotonic()
            answer = ask()
            if answer:
                return answer
            if time.monotonic() > deadline:
                raise NotSo(what, f"it did not come within {seconds:.0f} s", log or self.events)
            time.sleep(max(0.05, 2 * (time.monotonic() - asked)))

    # -- the end ----------------------------------------------------------------------------

    def living(self) -> dict[int, str]:
        """Return every process that carries this run's mark, pid to command line."""
        return {
            pid: command
            for pid, environ, command in _processes()
            if self.mark.encode() in environ and pid != os.getpid()
        }

    def end(self) -> list[str]:
        """Stop everything, remove the directory; return the processes that had to be killed.

        A process is counted as left over when it is still there after its program was stopped in
        the ordinary way.
        """
        for stop in (self.stop_deck, self.stop_gateway):
            try:
                stop()
            except NotSo as wrong:
                self.survivors.append(str(wrong))
        deadline = time.monotonic() + 2.0
        while self.living() and time.monotonic() < deadline:
            time.sleep(0.05)
        for pid, command in self.living().items():
            self.survivors.append(f"process {pid}: {command}")
        quiet = 0
        # A process between fork and exec is not seen: believe only several looks in a row.
        while quiet < _QUIET_LOOKS:
            left = self.living()
            quiet = 0 if left else quiet + 1
            for pid in left:
                _kill(pid)
            time.sleep(0.05)
        shutil.rmtree(self.root, ignore_errors=True)
        return self.survivors

    def leave_up(self) -> tuple[Path, Path]:
        """Write two scripts for after the demo: one opens a shell in this world (or runs what it
        is given), one ends everything. Return their paths."""
        look, end = self.root / "look.sh", self.root / "end.sh"
        variables = {**self.env, "DEMO": str(self.root)}
        given = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        repo, root = shlex.quote(str(self.repo)), shlex.quote(str(self.root))
        look.write_text(f'cd {repo} || exit 1\nexec env -i {given} TERM="$TERM" /bin/sh "$@"\n')
        stop = "choragos kill; sphragis stop"
        end.write_text(f"sh {shlex.quote(str(look))} -c {shlex.quote(stop)} && rm -r {root}\n")
        return look, end


def create() -> World:
    """Make the directory, the environment and the repository; start nothing yet."""
    base = tempfile.gettempdir()
    if len(os.fsencode(base)) + len("/choragos-demo-12345678") > _ROOT_MAX:
        base = "/tmp"  # noqa: S108 - mkdtemp makes a private directory in it
    root = Path(tempfile.mkdtemp(prefix="choragos-demo-", dir=base))
    mark = secrets.token_hex(16)
    for name in ("home", "run", "tmp", "trace", "shop"):
        (root / name).mkdir(mode=0o700)
    port = _free_port()
    world = World(root, mark, port, _environment(root, mark, port), demo_canaries())
    try:
        _make_repository(world)
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise
    return world


def _environment(root: Path, mark: str, port: int) -> dict[str, str]:
    programs = Path(sys.executable).parent
    path = os.environ.get("PATH", os.defpath)
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    coverage = {k: v for k, v in os.environ.items() if k.startswith(("COVERAGE_", "COV_CORE_"))}
    return {
        **passed,
        **coverage,
        "PATH": f"{programs}{os.pathsep}{path}",
        "HOME": str(root / "home"),
        "TMPDIR": str(root / "tmp"),
        "XDG_RUNTIME_DIR": str(root / "run"),
        "TERM": "xterm-256color",
        "PYTHONUNBUFFERED": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "SPHRAGIS_HOME": str(root / "home" / ".sphragis"),
        "SPHRAGIS_LISTEN_ADDR": f"127.0.0.1:{port}",
        "ANTHROPIC_API_KEY": "offline",
        "CHORAGOS_DEMO_TRACE": str(root / "trace"),
        _MARK: mark,
    }


def _make_repository(world: World) -> None:
    for name, text in project.repository().items():
        path = world.repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    who = ("-c", "user.name=Demo", "-c", "user.email=demo@localhost")
    world.must("git", "-c", "init.defaultBranch=main", "init", "--quiet")
    world.must("git", "add", "--all")
    world.must("git", *who, "commit", "--quiet", "--message", "The shop as it stands")
    programs = Path(sys.executable).parent
    team = project.team_file(
        python=sys.executable,
        sphragis=str(programs / "sphragis"),
        addr=world.addr,
        canaries=world.canaries,
    )
    (world.repo / ".choragos.toml").write_text(team, encoding="utf-8")


def _free_port() -> int:
    """Return a port nobody listens on, below those the system gives to outgoing connections:
    one of those could be taken again before the gateway opens it, or while it is stopped."""
    for port in random.sample(range(20_000, 30_000), 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise NotSo("a free port", "none between 20000 and 30000")


def _processes() -> Iterable[tuple[int, bytes, str]]:
    """Yield (pid, environment bytes, command line) of the processes we may look into."""
    if not Path("/proc/self/environ").exists():
        yield from _processes_by_ps()
        return
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environ = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        yield int(entry.name), environ, command.strip()


def _processes_by_ps() -> Iterable[tuple[int, bytes, str]]:
    listed = subprocess.run(
        ["ps", "eww", "-A", "-o", "pid=,command="], capture_output=True, check=False
    )
    for line in listed.stdout.splitlines():
        pid, _, command = line.strip().partition(b" ")
        if pid.isdigit():
            yield int(pid), command, command.decode(errors="replace")[:200]


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
