"""A day of a team in minutes: who works, what goes wrong, and what must be true afterwards.

Owns the programs of a simulated life: an agent that reports, forgets, dies or is late as its task
says, and a gateway stand-in that can be killed. `Life` hands out work to a real deck and lets
misfortune happen by chance; time is compressed only by short limits in the team file. What the
agents read and what they were told by acks is in their logs, so that the board can be held
against it. Driven by `tests/faults/test_deck_life.py`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deck_harness import DeckRig
from ports import free_port

from deck.protocol import Command, Verb
from deck.sessions import SessionError, exchange

AGENT = r"""
import json, os, re, signal, socket, sys, time
role, habits = os.environ["CHORAGOS_ROLE"], set(sys.argv[1:])
log = os.open(f"life-{role}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
if "stubborn" in habits:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
def note(**what):
    os.write(log, (json.dumps({"agent": os.getpid(), **what}) + "\n").encode())
def state(name):
    os.write(1, f"\x1b]7501;state={name}:app=life\x07".encode())
def send(**command):
    for _ in range(3):
        try:
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(6)
                line.connect(os.environ["CHORAGOS_SOCK"])
                line.sendall(json.dumps(command).encode())
                ack = b""
                while chunk := line.recv(65536):
                    ack += chunk
            if ack:
                return json.loads(ack)
        except OSError:
            pass
        time.sleep(0.2)
    return {}
def report(task, text, **more):
    ack = send(cmd="work-done", id=task, task=text, **more)
    if ack.get("status") == "ok":
        note(acked=ack["report"], task=task, text=text, resolved=ack["resolved"], **more)
    return ack
def work(task, text):
    habit = re.search(r"life:(\S+)", text)
    habit = habit[1] if habit else "plain"
    first = not os.path.exists(f"tried/{task}")
    open(f"tried/{task}", "w").close()
    note(took=task, habit=habit, first=first)
    mine = f"{task} done by {role} {os.getpid()} {time.time_ns()}"
    if habit == "dies" and first:
        os._exit(3)
    if habit == "silent" and first:
        return
    if habit == "late" and first:
        time.sleep(float(os.environ["LIFE_LIMIT"]) * 1.3)
    if habit == "chatty":
        for n in range(60):
            os.write(1, f"\x1b[3{n % 8}mstep {n} of many\x1b[0m\r\n".encode())
    if habit == "stranger":
        other = re.search(r"other:(\S+)", text)[1]
        note(stranger=other, ack=send(cmd="work-done", id=other, task="not mine"))
    if habit == "anonymous":
        report("", mine + " (no id)")
    if habit == "file":
        path = os.path.abspath(f"report-{task}.md")
        with open(path, "w") as file:
            file.write(mine)
        report(task, mine, report=path)
    else:
        report(task, mine)
    if habit == "twice":
        report(task, mine + " (again)")
    if habit == "reports-and-dies" and first:
        os._exit(5)
os.write(1, b"life\r\n> ")
state("idle")
rest = b""
while True:
    while b"\n" not in rest:
        if os.path.exists("enough") and "leads" in habits:
            sys.exit(0)
        try:
            data = os.read(0, 4096)
        except OSError:
            data = b""
        if not data:
            if "stubborn" in habits:
                time.sleep(600)
            sys.exit(0)
        rest += data
    line, rest = rest.split(b"\n", 1)
    line = line.decode("utf-8", "replace").strip()
    state("working")
    note(line=line)
    task = re.search(r"Read (\S+/tasks/(T\d+)\.md)", line)
    if task:
        work(task[2], open(task[1]).read())
    os.write(1, b"> ")
    state("idle")
"""

GATEWAY = r"""
import http.server, json, sys, time
started, calls = time.time(), 0
class Stand(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        global calls
        calls += 1
        if self.path == "/readyz":
            body = json.dumps({"ready": True, "reasons": []})
        elif self.path == "/metrics":
            body = f"process_start_time_seconds {started}\n" + "".join(
                f'sphragis_tokens_total{{agent="w{n}",model="m",direction="input"}} {calls * n}\n'
                for n in range(1, 4)
            )
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())
    def log_message(self, *_):
        pass
class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
Server(("127.0.0.1", int(sys.argv[1])), Stand).serve_forever()
"""

#: What a task asks of its agent, and how often.
HABITS = {
    "plain": 50,
    "file": 10,
    "twice": 6,
    "anonymous": 5,
    "chatty": 6,
    "stranger": 4,
    "dies": 3,
    "reports-and-dies": 3,
    "late": 3,
    "silent": 3,
}
#: Open tasks of one role before more are only handed out in a burst.
WAITING = 5
BURST = 200
#: Delegations under way at once, bursts apart.
CALLERS = 6


@dataclass(slots=True)
class Sample:
    """The deck at one moment: resident KiB, descriptors, records of its journal."""

    rss: int
    fds: int
    records: int


@dataclass(slots=True)
class Life:
    """One team and what happens to it. `total` delegations are asked for."""

    rig: DeckRig
    total: int
    workers: int
    chance: random.Random
    #: By id: the label of each delegation whose ack was read and said so.
    accepted: dict[str, str] = field(default_factory=dict)
    #: Labels whose ack was never read: on the board at most once.
    unknown: set[str] = field(default_factory=set)
    refused: Counter[str] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    reused: list[str] = field(default_factory=list)
    asked: int = 0
    #: Of one process, when it had warmed up and before it ended.
    warm: Sample | None = None
    last: Sample | None = None
    _gateway: subprocess.Popen[bytes] | None = None
    _gateway_back: float = 0.0
    _frozen: dict[int, float] = field(default_factory=dict)
    _port: int = 0
    _open: dict[str, str] = field(default_factory=dict)
    _looked: float = 0.0
    _busy_until: float = 0.0
    _calls: set[Future[None]] = field(default_factory=set)
    _counting: threading.Lock = field(default_factory=threading.Lock)
    _roles: dict[str, int] = field(default_factory=dict)

    # -- the team -------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """The workers that take work without asking anybody."""
        return [f"w{number}" for number in range(self.workers)]

    @property
    def limit(self) -> int:
        """Seconds a task may take."""
        return 2 if self.total >= 500 else 1

    def begin(self) -> None:
        """Write the team, start the gateway, serve."""
        rig = self.rig
        (rig.dir / "life.py").write_text(AGENT)
        (rig.dir / "gateway.py").write_text(GATEWAY)
        (rig.dir / "tried").mkdir()
        self._port = free_port()
        tail = f'[sphragis]\nenabled = true\naddr = "127.0.0.1:{self._port}"\n'
        rig.env["LIFE_LIMIT"] = str(self.limit)
        roles = [self._role("lead", "leads"), *(self._worker(n) for n in range(self.workers))]
        rig.team(*roles, self._role("signed", approve=True, timeout=f"{self.limit}s"), tail=tail)
        self.start_gateway()
        self.serve()

    def _worker(self, number: int) -> dict[str, object]:
        # In a short life ending such agents after each crash would take most of the time.
        habits = ("stubborn",) if number % 5 == 4 and self.total >= 500 else ()
        action = "restart" if number % 4 == 1 else "notify"
        return self._role(f"w{number}", *habits, timeout=f"{self.limit}s", timeout_action=action)

    def _role(self, name: str, *habits: str, **keys: object) -> dict[str, object]:
        role = {
            "name": name,
            "command": sys.executable,
            "args": ["-S", "-E", "life.py", *habits],
            "restart": "on-failure",
            "restart_retries": 1_000_000,
            **keys,
        }
        if name == f"w{self.workers - 1}":
            del role["restart"]  # whoever kills this one ends it until the next deck
        return role

    def serve(self) -> None:
        """Start the deck over what is left of the last one."""
        self.rig.serve("--sphragis")
        self.happened["served"] += 1

    def start_gateway(self) -> None:
        """Start the stand-in on its port."""
        self._gateway = subprocess.Popen(
            [sys.executable, "-S", "-E", "gateway.py", str(self._port)],
            cwd=self.rig.dir,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError("the gateway stand-in did not start")

    def kill_gateway(self) -> None:
        """End the stand-in at once."""
        if self._gateway is not None:
            self._gateway.kill()
            self._gateway.wait()
            self._gateway = None

    def kill_deck(self) -> None:
        """End the deck at once and serve again."""
        pid = self.rig.pid()
        os.kill(pid, signal.SIGKILL)
        self.rig.wait(lambda: not runs(pid))
        if self._gateway is None:
            self.start_gateway()
        self.serve()
        # What is open now has to be looked up: nothing known is not nothing open.
        self._open.clear()
        self._looked = 0.0

    # -- work -----------------------------------------------------------------------------------

    def live(self) -> None:
        """Hand out everything; misfortune happens meanwhile, at moments drawn beforehand."""
        plan = self._plan()
        with ThreadPoolExecutor(CALLERS) as callers:
            while self.asked < self.total:
                while plan and self.asked >= plan[0][0]:
                    self._happen(plan.pop(0)[1])
                self._mend()
                self.care()
                if len(self._calls) >= CALLERS or not self._hand_out(callers):
                    time.sleep(0.02)

    def _plan(self) -> list[tuple[int, str]]:
        """What happens after how many delegations. The last fifth of the deck's life is one
        process's, so that its memory can be held against itself."""
        total, chance = self.total, self.chance
        often = {
            "kill an agent": total // 25,
            "freeze an agent": total // 50,
            "kill the gateway": total // 60,
            "burst": total // 1000,
        }
        plan = [
            (chance.randrange(total * 9 // 10), what)
            for what, count in often.items()
            for _ in range(max(1, count))
        ]
        for _ in range(max(1, total // 150)):
            plan.append((chance.randrange(total // 10, total * 7 // 10), "kill the deck"))
        return sorted([*plan, (total * 8 // 10, "sample")])

    def _happen(self, what: str) -> None:
        self.happened[what] += 1
        now = time.monotonic()
        if what == "kill the deck":
            self.kill_deck()
        elif what == "sample":
            self.warm = self.sample()
        elif what == "burst":
            self._burst(min(BURST, self.total // 3))
        elif what == "kill the gateway":
            self.kill_gateway()
            self._gateway_back = now + self.chance.uniform(0.1, 2.0)
        elif agents := sorted(pid for pid in self._roles.values() if pid):
            pid = self.chance.choice(agents)
            if what == "kill an agent":
                signal_one(pid, signal.SIGKILL)
            else:
                signal_one(pid, signal.SIGSTOP)
                self._frozen[pid] = now + self.chance.uniform(0.2, 3.0)

    def _mend(self) -> None:
        """What was frozen goes on, and a gateway comes back."""
        now = time.monotonic()
        for pid, until in list(self._frozen.items()):
            if now >= until:
                del self._frozen[pid]
                signal_one(pid, signal.SIGCONT)
        if self._gateway is None and now >= self._gateway_back:
            self.start_gateway()

    def _hand_out(self, callers: ThreadPoolExecutor) -> bool:
        """Hand out one task to one or a few roles that are not full; False if all are."""
        if time.monotonic() < self._busy_until:
            return False
        waiting = Counter(list(self._open.values()))
        free = [name for name in self.names if waiting[name] < WAITING]
        if not free:
            return False
        if self.chance.random() < 0.02:
            free = ["signed"]
        count = 1 if self.chance.random() < 0.8 else self.chance.randint(1, 4)
        roles = tuple(self.chance.sample(free, min(count, len(free))))
        call = callers.submit(self._ask, roles)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return True

    def _burst(self, count: int) -> None:
        """Many at once, from many callers."""
        targets = [(self.names[n % self.workers],) for n in range(count)]
        with ThreadPoolExecutor(24) as pool:
            list(pool.map(self._ask, targets))

    def _ask(self, roles: tuple[str, ...]) -> None:
        habit = self.chance.choices(list(HABITS), list(HABITS.values()))[0]
        label = f"job {len(self.accepted)}.{self.chance.getrandbits(48):x} life:{habit}"
        if habit == "stranger":
            foreign = [task for task, role in list(self._open.items()) if role not in roles]
            label += f" other:{foreign[0]}" if foreign else " other:T0"
        try:
            ack = exchange(self.rig.paths.socket, Command(Verb.DELEGATE, to=roles, task=label), 8.0)
        except SessionError:
            ack = {}
        with self._counting:
            self._count(roles, label, ack)

    def _count(self, roles: tuple[str, ...], label: str, ack: dict[str, Any]) -> None:
        if "targets" not in ack:
            self.unknown.add(label)
            self.asked += len(roles)
        for target in ack.get("targets", ()):
            if target["state"] == "refused":
                self.refused[reason_kind(target["reason"])] += 1
                self._busy_until = time.monotonic() + 0.1
                continue
            self.asked += 1
            if target["id"] in self.accepted:
                self.reused.append(target["id"])
            self.accepted[target["id"]] = label
            self._open[target["id"]] = target["to"]

    def care(self) -> list[dict[str, Any]]:
        """What an operator does: look once a second, offer again, approve; returns what is open."""
        now = time.monotonic()
        if now - self._looked < 0.5:
            return [{"id": task} for task in list(self._open)]
        self._looked = now
        try:
            board = self.rig.status()
        except SessionError:
            return [{}]
        self._roles = {role["name"]: role["pid"] for role in board["roles"]}
        rows = [t for t in board["tasks"] if t["state"] not in ("reported", "refused")]
        self._open = {row["id"]: row["role"] for row in rows}
        for row in rows:
            if row["state"] in ("lost", "timed-out") and self.chance.random() < 0.5:
                self._send(Verb.AGAIN, id=row["id"])
            elif row["state"] == "gated":
                verb = Verb.REJECT if self.chance.random() < 0.3 else Verb.APPROVE
                self._send(verb, id=row["gate"], reason="seen")
        return rows

    def _send(self, verb: Verb, **fields: Any) -> None:
        try:
            self.rig.send(verb, **fields)
        except SessionError:
            self.happened["no ack"] += 1

    def calm(self) -> None:
        """No more misfortune; what was stopped goes on."""
        for pid in self._frozen:
            signal_one(pid, signal.SIGCONT)
        self._frozen.clear()
        if self._gateway is None:
            self.start_gateway()

    def settle(self, seconds: float) -> None:
        """Wait until nothing is open, offering again what was lost; a role that is gone for good
        comes back with a new deck."""
        self.calm()
        deadline, mortal = time.monotonic() + seconds, self.names[-1]
        while rows := self.care():
            if time.monotonic() > deadline:
                raise AssertionError(f"still open: {rows[:5]}\n{self.rig.evidence()}")
            stuck = all(row.get("role") == mortal for row in rows)
            if stuck and self._roles and not self._roles[mortal]:
                self.last = self.last or self.sample()
                self.kill_deck()
            time.sleep(0.05)
        self.last = self.last or self.sample()

    # -- facts ----------------------------------------------------------------------------------

    def sample(self) -> Sample:
        """What the deck takes now."""
        pid = self.rig.pid()
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        fds = len(os.listdir(f"/proc/{pid}/fd"))
        return Sample(pages * os.sysconf("SC_PAGE_SIZE") // 1024, fds, self.records())

    def records(self) -> int:
        """How many records the journal has."""
        return int(self.rig.status()["journal"]["records"])

    def zombies(self) -> list[int]:
        """Dead children of the deck that nobody has collected."""
        deck, found = self.rig.pid(), []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    stat = Path(f"/proc/{name}/stat").read_text()
                except OSError:
                    continue
                fields = stat[stat.rindex(")") + 2 :].split()
                if fields[0] == "Z" and int(fields[1]) == deck:
                    found.append(int(name))
        return found

    def said(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (role, line) of everything the agents have noted, in each agent's order."""
        for path in sorted(self.rig.dir.glob("life-*.jsonl")):
            for line in path.read_text().splitlines():
                yield path.stem.removeprefix("life-"), json.loads(line)


def reason_kind(reason: str) -> str:
    """A refusal's sentence without what differs from one to the next."""
    return reason.split(":")[0].split("(")[0].strip()[:60]


def signal_one(pid: int, number: signal.Signals) -> None:
    """Signal a process that may be gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def runs(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"
