"""A real deck for tests: real processes, PTYs, sockets and git; only agents and gateway are ours.

`DeckRig` owns a temporary project and everything that was started in it. `FakeGateway` answers as
a gateway does and can be turned not ready. `AGENT` is an agent CLI of fifty lines whose arguments
choose how it behaves.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from preloaded import Running
from preloaded_deck import CHORAGOS

from deck.protocol import Command, Verb
from deck.sessions import SessionError, SessionPaths, exchange, paths_for

AGENT = r"""
import os, re, signal, subprocess, sys, time
role, habits = os.environ["CHORAGOS_ROLE"], set(sys.argv[1:])
def say(text):
    sys.stdout.write(text); sys.stdout.flush()
def state(name, extra=""):
    if "mute" not in habits:
        say(f"\x1b]7501;state={name}:app=fake{extra}\x07")
def note(line):
    with open(f"seen-{role}.txt", "a") as file:
        file.write(line + "\n")
def choragos(*args):
    return subprocess.run([sys.executable, "-m", "deck.cli", *args], capture_output=True, text=True)
if "stubborn" in habits:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
if "grandchild" in habits:
    code = (
        "import os,time;os.setsid();os.fork() and os._exit(0);"
        "open('daemon.pid','w').write(str(os.getpid()));time.sleep(600)"
    )
    subprocess.Popen([sys.executable, "-c", code]).wait()
say(f"fake {role}\r\n> ")
if "blocked" in habits and not os.path.exists("answered"):
    state("blocked", ":kind=permission")
    say("Do you want to proceed? 1. Yes 2. No ")
    while not os.path.exists("answered"):
        time.sleep(0.05)
    say("\r\n> ")
state("idle")
while True:
    line = sys.stdin.readline()
    if not line:
        break
    line = line.strip()
    note(line)
    task = re.search(r"Read (\S+/tasks/(T\d+)\.md)", line)
    if task:
        state("working")
        order = re.search(r"^!(.*)$", open(task[1]).read(), re.M)
        if order:
            done = choragos(*order[1].split("|"))
            note(f"rc={done.returncode} {done.stdout.strip()} {done.stderr.strip()}")
        if "crash" in habits and not os.path.exists("crashed"):
            open("crashed", "w").close()
            sys.exit(7)
        if "report" in habits:
            text = open(task[1]).read()
            name = re.search(r"Task id: (\S+)", text)[1]
            done = choragos("work-done", "--id", name, "--task", f"{role} did {name}")
            note(f"rc={done.returncode}")
        if "busy" in habits:
            while not os.path.exists("rested"):
                time.sleep(0.05)
    say("> ")
    state("idle")
"""


def agent_role(name: str, *habits: str, **keys: object) -> dict[str, object]:
    """A role of the team file that runs the fake agent."""
    return {"name": name, "command": sys.executable, "args": ["agent.py", *habits], **keys}


class DeckRig:
    """One project directory with its own runtime and state directories."""

    def __init__(self, base: Path) -> None:
        self.dir = base / "project"
        self.dir.mkdir()
        # Socket paths are short; pytest's directories are not.
        self.short = Path(tempfile.mkdtemp(prefix="chor-", dir="/tmp"))
        self.env = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(base),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "XDG_RUNTIME_DIR": str(self.short),
            "XDG_STATE_HOME": str(base / "state"),
            "CHORAGOS_AUDIT_RESERVE_MIB": "0",
        }
        (self.dir / "agent.py").write_text(AGENT)

    @property
    def paths(self) -> SessionPaths:
        return paths_for(str(self.dir), self.env)

    @property
    def state_dir(self) -> Path:
        return self.dir / ".choragos"

    def team(self, *roles: dict[str, object], tail: str = "") -> None:
        """Write the team file; the first role starts."""
        text = ""
        for index, role in enumerate(roles):
            text += "[[roles]]\n"
            for key, value in {"start": index == 0, "prompt_template": "Work.", **role}.items():
                text += f"{key} = {json.dumps(value)}\n"
        (self.dir / ".choragos.toml").write_text(text + tail)

    def git(self) -> None:
        for command in (["init", "-q"], ["add", "agent.py"]):
            subprocess.run(["git", *command], cwd=self.dir, check=True, capture_output=True)

    def cli(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run one command line; a deck that it starts is one that was started for real."""
        if args[:1] != ("serve",):
            return self._forked("deck.cli:main", *args, **env)
        return self._started(*args, **env)

    def _started(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "deck.cli", *args],
            cwd=self.dir,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def serve(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Start the session, which is there at the end."""
        done = self._forked(
            "preloaded_deck:detached", "serve", "--detach", *(args or ("--no-sphragis",))
        )
        assert done.returncode == 0, done.stderr
        return done

    def _forked(self, entry: str, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        whole = {**self.env, **env}
        if not CHORAGOS.fits(args, whole):
            return self._started(*args, **env)
        name = self.short.name
        return CHORAGOS.run(entry, args, cwd=self.dir, env=whole, timeout=120, name=name)

    def program(self, text: str, *args: str) -> subprocess.Popen[bytes] | Running:
        """Start a program of ours by its text, in a session of its own, with nobody listening."""
        if not CHORAGOS.fits((text, *args), self.env):
            return subprocess.Popen(
                [sys.executable, "-c", text, *args],
                cwd=self.dir,
                env=self.env,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        with open(os.devnull, "wb") as nobody:
            out = nobody.fileno()
            name, line = self.short.name, [text, *args]
            return CHORAGOS.start(
                "preloaded:program", line, cwd=self.dir, env=self.env, out=out, err=out, name=name
            )

    def send(self, verb: Verb, **fields: Any) -> dict[str, Any]:
        return exchange(self.paths.socket, Command(verb, **fields))

    def delegate(self, role: str, task: str, **fields: Any) -> dict[str, Any]:
        ack = self.send(Verb.DELEGATE, to=(role,), task=task, **fields)
        target: dict[str, Any] = ack["targets"][0]
        return target

    def status(self) -> dict[str, Any]:
        return self.send(Verb.STATUS)

    def task(self, task_id: str) -> dict[str, Any]:
        row: dict[str, Any] = next(t for t in self.status()["tasks"] if t["id"] == task_id)
        return row

    def role(self, name: str) -> dict[str, Any]:
        row: dict[str, Any] = next(r for r in self.status()["roles"] if r["name"] == name)
        return row

    def wait(self, condition: Callable[[], Any], seconds: float = 30.0) -> Any:
        """Return the first true value of a condition; fail with the board otherwise."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if value := condition():
                    return value
            except (SessionError, OSError, StopIteration):
                pass
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds:g} s\n{self.evidence()}")

    def wait_task(self, task_id: str, *states: str, seconds: float = 30.0) -> dict[str, Any]:
        row: dict[str, Any] = self.wait(
            lambda: (t := self.task(task_id))["state"] in states and t, seconds
        )
        return row

    def wait_idle(self, *names: str) -> None:
        for name in names:
            self.wait(lambda name=name: self.role(name)["state"] == "idle")

    def seen(self, role: str) -> list[str]:
        """The lines a fake agent has read."""
        path = self.dir / f"seen-{role}.txt"
        return path.read_text().splitlines() if path.exists() else []

    def events(self) -> str:
        return (self.state_dir / "logs" / "events.log").read_text()

    def pid(self) -> int:
        return int(json.loads(self.paths.sidecar.read_text())["pid"])

    def evidence(self) -> str:
        parts = []
        for name in ("logs/events.log", "logs/server.log", "logs/crash.log"):
            path = self.state_dir / name
            if path.exists():
                parts.append(f"--- {name}\n{path.read_text()[-4000:]}")
        for path in sorted(self.dir.glob("seen-*.txt")):
            parts.append(f"--- {path.name}\n{path.read_text()[-1500:]}")
        try:
            parts.append(json.dumps(self.status(), indent=1)[-4000:])
        except (SessionError, OSError) as gone:
            parts.append(str(gone))
        return "\n".join(parts)

    def close(self) -> None:
        """Stop the session if there is one, then whatever still carries its mark."""
        if self.paths.sidecar.exists():
            self.cli("kill")
        for pid in self.marked():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.short, ignore_errors=True)

    def marked(self) -> list[int]:
        """Living processes that belong to this rig's deck, by their environment, or by their name
        if they were forked."""
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            try:
                environ = Path(f"/proc/{name}/environ").read_bytes()
                stat = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            mine = f"XDG_RUNTIME_DIR={self.short}\0".encode() in environ + b"\0"
            named = stat[stat.index("(") + 1 : stat.rindex(")")] == self.short.name
            if (mine or named) and stat[stat.rindex(")") + 2] not in "ZX":
                found.append(int(name))
        return found


class FakeGateway:
    """Health, readiness and usage over HTTP. `mode`: ready, down (503), go (no /readyz), slow."""

    def __init__(self) -> None:
        self.mode = "ready"
        self.metrics = ""
        rig = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if rig.mode == "slow":
                    time.sleep(1.0)
                status, body = rig.answer(self.path)
                data = body.encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def addr(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def answer(self, path: str) -> tuple[int, str]:
        if path == "/readyz" and self.mode != "go":
            ready = self.mode == "ready"
            reasons = [] if ready else ["ledger not writable"]
            return (200 if ready else 503), json.dumps({"ready": ready, "reasons": reasons})
        if path == "/metrics":
            return (503 if self.mode == "down" else 200), self.metrics
        return 404, "no such path"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
