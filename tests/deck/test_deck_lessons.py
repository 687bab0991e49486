"""Faults met in comparable decks, each with an agent or a program that provokes it."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deck_harness import DeckRig, agent_role
from ports import free_port

import deck
from deck.protocol import Verb

#: Ends well when it is asked to end, and works only on what it is given the second time.
POLITE = """
import os, re, signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
open(f"env-{os.getpid()}.txt", "w").write(os.environ.get("ANTHROPIC_BASE_URL", "none"))
sys.stdout.write("> \\x1b]7501;state=idle:app=fake\\x07"); sys.stdout.flush()
for line in sys.stdin:
    task = re.search(r"tasks/(T\\d+)\\.md", line)
    if task and os.path.exists(f"tried-{task[1]}"):
        work_done = [sys.executable, "-m", "deck.cli", "work-done", "--id", task[1], "--task", "x"]
        subprocess.run(work_done, check=True)
    elif task:
        open(f"tried-{task[1]}", "w").close()
    sys.stdout.write("> \\x1b]7501;state=idle:app=fake\\x07"); sys.stdout.flush()
"""

#: Writes down how it was started.
CAREFUL = """
import json, os, sys, time
names = sorted(name for name in os.environ if name not in ("CHORAGOS_TOKEN", "LINES", "COLUMNS"))
with open(f"part-{time.time_ns()}", "w") as file:
    json.dump([sys.argv, names], file)
os.rename(file.name, file.name.replace("part-", "began-"))
sys.stdout.write("> \\x1b]7501;state=idle:app=fake\\x07"); sys.stdout.flush()
for line in sys.stdin:
    sys.stdout.write("> \\x1b]7501;state=idle:app=fake\\x07"); sys.stdout.flush()
"""

#: A gateway that takes its time to start, and says how it was started and ended.
SLOW_GATEWAY = """#!/usr/bin/env python3
import http.server, os, signal, sys, time
open("gateway.addr", "w").write(os.environ["SPHRAGIS_LISTEN_ADDR"])
def end(*_):
    open("gateway.ended", "w").write("SIGTERM")
    os._exit(0)
signal.signal(signal.SIGTERM, end)
while not os.path.exists("gateway.go"):
    time.sleep(0.02)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path in ("/readyz", "/metrics") else 404)
        self.send_header("content-length", "0")
        self.end_headers()
host, port = os.environ["SPHRAGIS_LISTEN_ADDR"].rsplit(":", 1)
http.server.ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
"""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[DeckRig]:
    rig = DeckRig(tmp_path)
    (rig.dir / "polite.py").write_text(POLITE)
    yield rig
    rig.close()


def test_while_the_gateway_starts_reports_are_taken_and_it_starts_and_ends_as_configured(
    rig: DeckRig, tmp_path: Path
) -> None:
    program = tmp_path / "slow-gateway"
    program.write_text(SLOW_GATEWAY)
    program.chmod(0o755)
    address = f"127.0.0.1:{free_port()}"
    tail = f'[sphragis]\nenabled = true\ncommand = "{program}"\naddr = "{address}"\n'
    rig.team(agent_role("orchestrator"), agent_role("coder"), tail=tail)
    starting = threading.Thread(target=lambda: rig.serve("--sphragis"))
    starting.start()
    rig.wait(lambda: rig.send(Verb.PING)["phase"] == "starting")
    ack = rig.send(Verb.WORK_DONE, task="done before anybody was ready")
    refused = rig.delegate("coder", "too early")
    (rig.dir / "gateway.go").touch()
    starting.join(30)
    assert ack["status"] == "ok"
    assert (refused["state"], refused["id"]) == ("refused", "")
    rig.wait(lambda: any("before anybody was ready" in s for s in rig.seen("orchestrator")))
    assert (rig.dir / "gateway.addr").read_text() == address
    assert rig.cli("kill").returncode == 0
    assert (rig.dir / "gateway.ended").read_text() == "SIGTERM"


def test_an_agent_that_ends_well_when_a_task_is_overdue_comes_back_with_its_task_and_address(
    rig: DeckRig,
) -> None:
    port = free_port()
    # A soft gateway that is not there: enforcement is off, and the address stays what it was.
    polite = {
        "name": "polite",
        "command": sys.executable,
        "args": ["polite.py"],
        "timeout": "1s",
        "timeout_action": "restart",
        "restart": "on-failure",
    }
    rig.team(agent_role("orchestrator"), polite, tail=f'[sphragis]\naddr = "127.0.0.1:{port}"\n')
    rig.serve()
    rig.wait_idle("polite")
    rig.delegate("polite", "needs two tries")
    rig.wait_task("T1", "reported")
    assert rig.role("polite")["restarts"] == 1
    # Killed, it comes back with the same surroundings too.
    os.kill(rig.role("polite")["pid"], signal.SIGKILL)
    rig.wait(lambda: len(list(rig.dir.glob("env-*.txt"))) == 3)
    rig.wait_idle("polite")
    found = {path.read_text() for path in rig.dir.glob("env-*.txt")}
    assert len(found) == 1


def test_a_start_that_asks_something_unknown_holds_up_that_role_alone(rig: DeckRig) -> None:
    asks = "print('New terms apply to you (v7). Type AGREE'); input(); print('thanks'); input()"
    odd = {"name": "odd", "command": sys.executable, "args": ["-c", asks]}
    rig.team(agent_role("orchestrator"), odd, agent_role("coder", "report"))
    rig.serve()
    rig.delegate("coder", "goes on")
    rig.wait_task("T1", "reported")
    assert rig.role("odd")["pid"]
    rig.delegate("odd", "waits for a person")
    assert rig.status()["phase"] == "running"


def test_roles_that_rest_and_never_say_anything_get_their_task_and_their_report(
    rig: DeckRig,
) -> None:
    """No change of a state sets off a delivery: there is none."""
    rig.team(agent_role("orchestrator", "mute"), agent_role("coder", "mute", "report"))
    rig.serve()
    rig.wait(lambda: rig.seen("orchestrator") and rig.seen("coder"))
    rig.wait_idle("orchestrator", "coder")
    for number in (1, 2):
        rig.wait(lambda: rig.role("coder")["seconds"] > 2 and rig.role("coder")["state"] == "idle")
        rig.delegate("coder", f"job {number}")
        rig.wait_task(f"T{number}", "reported")
        told = f"coder did T{number}"
        rig.wait(lambda told=told: any(told in line for line in rig.seen("orchestrator")))
    rig.wait(lambda: [r["state"] for r in rig.status()["reports"]] == ["delivered"] * 2)
    assert len([line for line in rig.seen("orchestrator") if "coder did" in line]) == 2


def test_a_role_comes_back_as_the_team_file_has_it_whatever_brought_it_back(
    rig: DeckRig, tmp_path: Path
) -> None:
    """Its arguments, with them its permission mode, and what it sees of the environment."""
    (rig.dir / "careful.py").write_text(CAREFUL)
    careful = {
        "name": "careful",
        "command": sys.executable,
        "args": ["careful.py", "--permission-mode=plan", "--deny", "Bash(rm *)"],
        "restart": "on-failure",
        "env_allow": ["VISIBLE"],
    }
    rig.env |= {"VISIBLE": "1", "HIDDEN": "1"}
    rig.team(agent_role("orchestrator"), careful)

    def starts() -> list[str]:
        return [path.read_text() for path in sorted(rig.dir.glob("began-*"))]

    rig.serve()
    rig.wait_idle("careful")
    os.kill(rig.role("careful")["pid"], signal.SIGKILL)
    rig.wait(lambda: len(starts()) == 2)
    rig.wait_idle("careful")
    assert rig.cli("restart", "careful").returncode == 0
    rig.wait(lambda: len(starts()) == 3)
    rig.wait_idle("careful")
    deck_pid = rig.pid()
    os.kill(deck_pid, signal.SIGKILL)
    rig.wait(lambda: not Path(f"/proc/{deck_pid}/fd").exists() or is_zombie(deck_pid))
    rig.serve("--no-sphragis", "--resume")
    rig.wait(lambda: len(starts()) == 4)
    first, *others = starts()
    assert "--permission-mode=plan" in first
    assert "VISIBLE" in first
    assert "HIDDEN" not in first
    assert others == [first] * 3


def is_zombie(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat[stat.rindex(")") + 2] in "ZX"


def test_a_git_that_is_slow_stops_nobody_else(rig: DeckRig, tmp_path: Path) -> None:
    rig.git()
    slow = tmp_path / "bin"
    slow.mkdir()
    real = next(p for p in ("/usr/bin/git", "/bin/git", "/usr/local/bin/git") if os.path.exists(p))
    (slow / "git").write_text(f'#!/bin/sh\n[ -e {rig.dir}/slow ] && sleep 0.3\nexec {real} "$@"\n')
    (slow / "git").chmod(0o755)
    rig.env["PATH"] = f"{slow}{os.pathsep}{rig.env['PATH']}"
    rig.team(agent_role("orchestrator"), agent_role("coder"))
    rig.serve()
    rig.wait_idle("coder")
    (rig.dir / "slow").touch()
    begun = time.monotonic()
    rig.delegate("coder", "behind a slow checkpoint")
    waits = []
    while rig.task("T1")["state"] == "queued":
        before = time.monotonic()
        rig.send(Verb.PING)
        waits.append(time.monotonic() - before)
    took = time.monotonic() - begun
    (rig.dir / "slow").unlink()
    rig.wait_task("T1", "submitted", "picked-up")
    # One that waited for git would have waited as long as all of it took.
    assert took > 0.5
    assert max(waits) < took / 2


def test_nothing_of_the_deck_asks_for_less_care_or_sends_work_away() -> None:
    """No bypass of a client's permissions anywhere, and no git verb that reaches another place."""
    careless = re.compile(
        r"dangerously|bypassPermissions|--yolo|--full-auto|acceptEdits|--auto-approve"
    )
    away = re.compile(r"""["'](?:push|fetch|pull|ls-remote|send-pack)["']""")
    sources = (p for p in Path(deck.__file__).parent.rglob("*") if p.suffix in (".py", ".toml"))
    texts = {path.name: path.read_text() for path in sources}
    found = [name for name, text in texts.items() if careless.search(text) or away.search(text)]
    assert found == []


def test_nothing_of_the_deck_listens_where_a_web_page_could_reach_it() -> None:
    """No TCP but the door of a walled role, which is in a network of that role's own."""
    network = re.compile(r"AF_INET|start_server|HTTPServer|create_server")
    sources = Path(deck.__file__).parent
    names = {str(p.relative_to(sources)) for p in sources.rglob("*.py")}
    found = {name for name in names if network.search((sources / name).read_text())}
    assert found <= {"wall/inside.py", "wall/proof.py", "demo/world.py"}
