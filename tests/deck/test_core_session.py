"""A whole deck, driven from outside: CLI and socket in, files, ledger and panes out."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from deck_harness import DeckRig, FakeGateway, agent_role
from ports import free_port

from deck.events import parse_events
from deck.protocol import Verb
from shared.ledger import verify_path


def pair(rig: DeckRig, *habits: str, tail: str = "", **keys: object) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder", *habits, **keys), tail=tail)


def guarded(gateway: FakeGateway) -> str:
    return f'[sphragis]\nenabled = true\naddr = "{gateway.addr}"\n'


def records(rig: DeckRig, kind: str) -> list[dict[str, object]]:
    lines = []
    for path in sorted((rig.state_dir / "ledger" / "segments").glob("*.jsonl")):
        lines += [json.loads(line) for line in path.read_bytes().splitlines()]
    return [line for line in lines if line.get("type") == kind]


def test_work_goes_out_and_comes_back(rig: DeckRig) -> None:
    rig.git()
    pair(rig, "report", owns="")
    started = rig.serve()
    assert re.search(r"pid \d+", started.stdout)
    assert "server.log" in started.stdout
    assert "choragos kill" in started.stdout

    done = rig.cli("delegate", "--to", "coder", "--task", "count the lines")
    assert (done.returncode, done.stdout) == (0, "delegated to coder\n")
    rig.wait_task("T1", "reported")
    rig.wait(lambda: "A worker reports: coder did T1" in rig.seen("orchestrator"))

    text = (rig.state_dir / "tasks" / "T1.md").read_text()
    assert text == (rig.state_dir / "worker-task-coder.md").read_text()
    sections = [line for line in text.splitlines() if line.startswith("## ")]
    assert sections == ["## Task", "## When done"]
    assert "Task id: T1\n\ncount the lines" in text
    assert "choragos work-done --id T1" in text
    assert "Read .choragos/tasks/T1.md for your task." in rig.seen("coder")
    assert rig.seen("coder")[0].startswith("Read .choragos/coder-brief.md for your role")
    assert rig.seen("orchestrator")[0].startswith("Read .choragos/orchestrator-context.md")
    listing = ["git", "for-each-ref", "refs/choragos"]
    refs = subprocess.run(listing, cwd=rig.dir, capture_output=True, text=True, check=True).stdout
    assert re.search(r"/\d+-T1\n", refs)
    rig.wait(lambda: "checkpoint task=T1" in rig.events() and "T1-done" in rig.events())

    events = {event.msg: event.fields for event in parse_events(rig.state_dir / "logs/events.log")}
    assert events["delegate"] == {
        "id": "T1", "from": "operator", "to": "coder", "task": "count the lines", "brief": "",
    }  # fmt: skip
    assert events["work-done"]["from"] == "coder"
    assert rig.cli("kill").stdout == "session stopped\n"
    assert verify_path(rig.state_dir / "ledger").exit_code == 0


def test_the_runtime_files_are_those_of_the_contract(rig: DeckRig) -> None:
    pair(rig)
    rig.serve()
    paths = rig.paths
    assert paths.socket == rig.short / f"choragos-{os.getuid()}" / f"{paths.id}.sock"
    assert stat.S_IMODE(paths.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths.sidecar.stat().st_mode) == 0o600
    sidecar = json.loads(paths.sidecar.read_text())
    assert set(sidecar) == {"pid", "dir", "started", "socket"}
    assert sidecar["dir"] == str(rig.dir)
    line = rig.cli("ls").stdout
    assert re.fullmatch(
        rf"{paths.id}  pid {sidecar['pid']}  up \d+s  {re.escape(str(rig.dir))}\n", line
    )
    assert rig.cli("kill", "--all").stdout == f"stopped {paths.id} ({rig.dir})\n"
    assert not paths.socket.exists()
    assert not paths.sidecar.exists()
    assert rig.cli("ls").stdout == "no running sessions\n"
    assert rig.cli("kill", "--all").stdout == "no running sessions\n"
    gone = rig.cli("kill")
    assert (gone.returncode, gone.stderr[:7]) == (1, "error: ")


def test_what_cannot_be_handed_out_is_refused_and_says_why(rig: DeckRig) -> None:
    pair(rig)
    rig.serve()
    typo = rig.cli("delegate", "--to", "codre,coder", "--task", "x")
    assert typo.returncode == 1
    assert typo.stdout == "delegated to coder\n"
    assert "no role 'codre'; the roles are orchestrator, coder" in typo.stderr
    prose = rig.cli("delegate", "--to", "coder", "--brief", "please do it")
    assert prose.returncode == 1
    assert "takes the path of a file" in prose.stderr
    (rig.dir / "empty.md").touch()
    assert "is empty" in rig.cli("delegate", "--to", "coder", "--brief", "empty.md").stderr
    assert "not a regular file" in rig.cli("delegate", "--to", "coder", "--brief", ".").stderr
    assert "needs --to" in rig.cli("delegate", "--task", "x").stderr
    raw = rig.delegate("coder", "", brief="/nowhere/x.md")
    assert (raw["state"], raw["id"]) == ("refused", "")
    as_json = json.loads(rig.cli("delegate", "--to", "nobody", "--task", "x", "--json").stdout)
    assert as_json["targets"][0]["state"] == "refused"
    assert len(records(rig, "deny")) == 3


def test_a_brief_is_pointed_at_by_its_absolute_path(rig: DeckRig) -> None:
    pair(rig)
    rig.serve()
    (rig.dir / "brief.md").write_text("All of it.\n")
    assert rig.cli("delegate", "--to", "coder", "--brief", "brief.md").returncode == 0
    row = rig.wait_task("T1", "submitted", "picked-up")
    assert row["label"] == "brief.md"
    assert f"{rig.dir}/brief.md" in (rig.state_dir / "tasks" / "T1.md").read_text()


def test_there_is_one_deck_for_a_directory(rig: DeckRig) -> None:
    pair(rig)
    rig.serve()
    pid = rig.pid()
    for args in (["serve", "--detach", "--no-sphragis"], ["serve", "--no-sphragis"]):
        second = rig.cli(*args)
        assert second.returncode == 1
        assert "already runs for this directory" in second.stderr
    assert rig.pid() == pid
    assert rig.send(Verb.PING)["status"] == "ok"


def test_a_stale_socket_is_cleared_and_a_file_in_its_place_is_not(rig: DeckRig) -> None:
    pair(rig)
    path = rig.paths.socket
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()
    rig.serve()
    rig.cli("kill")
    path.write_text("mine")
    failed = rig.cli("serve", "--detach", "--no-sphragis")
    assert failed.returncode == 1
    assert "is not a socket" in failed.stderr
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("command", "config", "says"),
    [
        ("no-such-agent", "", "role coder: the command 'no-such-agent' is not on PATH"),
        ("sh", "oops", "correct the TOML"),
    ],
)
def test_detach_fails_with_the_reason_in_one_sentence(
    rig: DeckRig, command: str, config: str, says: str
) -> None:
    rig.team(agent_role("orchestrator"), {"name": "coder", "command": command}, tail=config)
    failed = rig.cli("serve", "--detach", "--no-sphragis")
    assert failed.returncode == 1
    assert says in failed.stderr
    assert failed.stderr.count("\n") == 1
    assert not rig.paths.socket.exists()


def test_a_child_that_fails_after_the_fork_is_reported_by_its_parent(rig: DeckRig) -> None:
    pair(rig)
    (rig.state_dir / "ledger").mkdir(parents=True)
    (rig.state_dir / "ledger" / "log.json").write_text("{}")
    failed = rig.cli("serve", "--detach", "--no-sphragis")
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: The deck's ledger cannot be opened")
    assert not rig.paths.socket.exists()


def test_nothing_goes_out_without_the_gateway_and_no_report_is_lost(
    rig: DeckRig, gateway: FakeGateway
) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"), tail=guarded(gateway))
    rig.serve("--sphragis")
    rig.wait_idle("orchestrator", "coder")
    assert rig.delegate("coder", "one")["state"] == "queued"
    rig.wait_task("T1", "submitted", "picked-up")

    gateway.mode = "down"
    refused = rig.cli("delegate", "--to", "coder", "--task", "two")
    assert refused.returncode == 1
    assert "the gateway is not ready: ledger not writable" in refused.stderr
    assert 'msg="dispatch refused: gateway down" cmd=delegate to=coder' in rig.events()
    assert [r["ext"]["role"] for r in records(rig, "deny")] == ["coder"]  # type: ignore[index]
    rig.wait(
        lambda: any("[choragos] delegation to coder refused" in s for s in rig.seen("orchestrator"))
    )
    assert len(rig.status()["tasks"]) == 1

    done = rig.cli("work-done", "--id", "T1", "--task", "one is done")
    assert (done.returncode, done.stdout) == (0, "reported to orchestrator\n")
    assert rig.task("T1")["state"] == "reported"
    rig.wait(lambda: "A worker reports: one is done" in rig.seen("orchestrator"))

    gateway.mode = "ready"
    assert rig.delegate("coder", "two")["id"] == "T2"
    rig.wait_task("T2", "submitted", "picked-up")


@pytest.mark.parametrize("mode", ["slow", "gone"])
def test_a_gateway_that_does_not_answer_in_time_is_not_ready(
    rig: DeckRig, gateway: FakeGateway, mode: str
) -> None:
    pair(rig, tail=guarded(gateway))
    rig.serve("--sphragis")
    if mode == "gone":
        gateway.close()
    gateway.mode = mode
    assert rig.delegate("coder", "x")["state"] == "refused"
    if mode == "slow":
        gateway.mode = "ready"


def test_an_existing_gateway_without_readyz_is_judged_by_its_metrics(
    rig: DeckRig, gateway: FakeGateway
) -> None:
    gateway.mode = "go"
    pair(rig, tail=guarded(gateway))
    rig.serve("--sphragis")
    assert rig.delegate("coder", "x")["state"] == "queued"
    assert rig.status()["gateway"]["up"]


def test_a_task_queued_while_the_gateway_fails_waits_for_it(
    rig: DeckRig, gateway: FakeGateway
) -> None:
    pair(rig, "blocked", tail=guarded(gateway))
    rig.serve("--sphragis")
    assert rig.delegate("coder", "x")["state"] == "queued"
    gateway.mode = "down"
    (rig.dir / "answered").touch()
    rig.wait(lambda: "gateway is not ready" in rig.task("T1")["reason"])
    assert not any("T1" in line for line in rig.seen("coder"))
    gateway.mode = "ready"
    rig.wait_task("T1", "submitted", "picked-up")


def test_tokens_are_read_from_the_gateway_and_priced(rig: DeckRig, gateway: FakeGateway) -> None:
    gateway.metrics = _usage(1000, 500)
    prices = '[pricing."m"]\ninput = 10.0\noutput = 20.0\n'
    rig.team(agent_role("orchestrator"), agent_role("coder"), tail=guarded(gateway) + prices)
    rig.serve("--sphragis")
    gateway.metrics = _usage(101_000, 50_500)
    rig.cli("work-done", "--task", "counted")
    usage = rig.wait(lambda: [u for u in rig.status()["usage"] if u["in"]])
    assert usage == [
        {"role": "coder", "in": 100_000, "out": 50_000, "cache_creation": 0, "cache_read": 0,
         "cost_usd": 2.0},
    ]  # fmt: skip
    assert "msg=tokens role=coder in=100000 out=50000" in rig.events()
    assert "cost=2.0000" in rig.events()


def _usage(sent: int, received: int) -> str:
    line = 'sphragis_tokens_total{{agent="coder",model="m-1",direction="{}"}} {}\n'
    return line.format("input", sent) + line.format("output", received)


def test_a_gateway_is_started_and_stopped_only_if_it_was_not_there(
    rig: DeckRig, tmp_path: Path
) -> None:
    program = tmp_path / "gw"
    program.write_text(
        "#!/usr/bin/env python3\n"
        "import http.server, os\n"
        "host, port = os.environ['SPHRAGIS_LISTEN_ADDR'].rsplit(':', 1)\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200 if self.path == '/metrics' else 404)\n"
        "        self.send_header('content-length', '0'); self.end_headers()\n"
        "http.server.ThreadingHTTPServer((host, int(port)), H).serve_forever()\n"
    )
    program.chmod(0o755)
    port = free_port()
    tail = f'[sphragis]\nenabled = true\ncommand = "{program}"\naddr = "127.0.0.1:{port}"\n'
    rig.team(agent_role("orchestrator"), tail=tail)
    rig.serve("--sphragis")
    assert rig.status()["gateway"]["up"]
    assert rig.cli("kill").returncode == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1)


def test_a_session_that_is_still_starting_can_be_stopped(rig: DeckRig, tmp_path: Path) -> None:
    program = tmp_path / "gw"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    tail = f'[sphragis]\nenabled = true\ncommand = "{program}"\naddr = "127.0.0.1:1"\n'
    rig.team(agent_role("orchestrator"), tail=tail)
    deck = subprocess.Popen(
        ["python3", "-m", "deck.cli", "serve", "--headless"], cwd=rig.dir, env=rig.env
    )
    rig.wait(lambda: rig.send(Verb.PING).get("phase") == "starting")
    # A report is taken already; what is handed out depends on the gateway, as ever.
    assert rig.send(Verb.WORK_DONE, task="early")["status"] == "ok"
    assert rig.delegate("orchestrator", "x")["state"] == "refused"
    assert rig.cli("kill").returncode == 0
    assert deck.wait(10) == 0
    assert rig.marked() == []


def test_a_soft_gateway_that_is_nowhere_is_switched_off_and_a_required_one_is_not(
    rig: DeckRig,
) -> None:
    nowhere = 'command = "no-such-gateway"\naddr = "127.0.0.1:1"\n'
    rig.team(agent_role("orchestrator"), agent_role("coder"), tail=f"[sphragis]\n{nowhere}")
    assert rig.cli("serve", "--detach").returncode == 0
    assert not rig.status()["gateway"]["on"]
    assert "sphragis auto-off" in rig.events()
    assert rig.delegate("coder", "x")["state"] == "queued"
    rig.cli("kill")
    assert rig.cli("serve", "--detach", "--sphragis=true").returncode == 0
    assert rig.delegate("coder", "x")["state"] == "refused"
    rig.cli("kill")
    assert rig.cli("serve", "--detach", "--sphragis=false").returncode == 0
    assert rig.delegate("coder", "x")["state"] == "queued"


def test_nothing_is_typed_into_a_dialog(rig: DeckRig) -> None:
    pair(rig, "blocked")
    rig.serve()
    rig.wait(lambda: rig.role("coder")["state"] == "blocked")
    rig.delegate("coder", "x")
    time.sleep(1.5)
    row = rig.task("T1")
    assert row["state"] == "queued"
    assert rig.seen("coder") == []
    (rig.dir / "answered").touch()
    rig.wait_task("T1", "submitted", "picked-up")
    assert rig.seen("coder")[0].startswith("Read .choragos/coder-brief.md")


def test_a_busy_role_gets_its_next_task_when_it_rests(rig: DeckRig) -> None:
    pair(rig, "busy")
    rig.serve()
    rig.wait_idle("coder")
    rig.delegate("coder", "one")
    rig.wait_task("T1", "picked-up")
    rig.delegate("coder", "two")
    time.sleep(1.0)
    row = rig.task("T2")
    assert (row["state"], "working" in row["reason"]) == ("queued", True)
    (rig.dir / "rested").touch()
    rig.wait_task("T2", "submitted", "picked-up")


def test_two_hundred_delegations_arrive_in_order_and_none_is_merged_or_lost(rig: DeckRig) -> None:
    names = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"]
    rig.team(agent_role("orchestrator"), *(agent_role(name) for name in names))
    rig.serve()
    ids: dict[str, list[str]] = {name: [] for name in names}
    for number in range(25):
        ack = rig.send(Verb.DELEGATE, to=tuple(names), task=f"job {number}")
        for target in ack["targets"]:
            ids[target["to"]].append(target["id"])
    assert sorted(int(t[1:]) for group in ids.values() for t in group) == list(range(1, 201))
    expected = {n: [f"Read .choragos/tasks/{t}.md for your task." for t in ids[n]] for n in names}
    rig.wait(
        lambda: all(len(rig.seen(n)) > 25 and rig.seen(n)[1:] == expected[n] for n in names), 150
    )
    assert len(rig.send(Verb.STATUS)["tasks"]) == 200


def test_a_worker_reports_only_its_own_work_and_hands_out_none(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"), agent_role("reviewer"))
    rig.serve()
    rig.wait_idle("coder", "reviewer")
    rig.delegate("reviewer", "look")
    rig.wait_task("T1", "submitted", "picked-up")
    for line, says in (
        ("delegate|--to|reviewer|--task|x", "Only orchestrator may use delegate"),
        ("work-done|--id|T1|--task|forged", "T1 was given to reviewer"),
        ("approve|G1", "Only an operator may use approve"),
        ("kill", "Only an operator may use shutdown"),
    ):
        _order(rig, "coder", line)
        rig.wait(
            lambda says=says: any(says in s and s.startswith("rc=1") for s in rig.seen("coder"))
        )
    assert rig.task("T1")["state"] in ("submitted", "picked-up")
    assert {r["actor"]["role"] for r in records(rig, "deny")} == {"coder"}  # type: ignore[index]
    _order(rig, "coder", "work-done|--id|T99|--task|late news")
    rig.wait(lambda: "A worker reports: late news" in rig.seen("orchestrator"))
    _order(rig, "orchestrator", "delegate|--to|coder|--task|y")
    rig.wait(lambda: any(t["from"] == "orchestrator" for t in rig.status()["tasks"]))
    _order(rig, "orchestrator", "work-done|--done|--task|all of it")
    rig.wait(lambda: rig.status()["finished"])
    assert not any("all of it" in s for s in rig.seen("orchestrator") if s.startswith("A worker"))


def _order(rig: DeckRig, role: str, line: str) -> None:
    """Make an agent run a command: the fake agent obeys a task that starts with `!`."""
    assert rig.delegate(role, f"!{line}")["state"] == "queued"


def test_a_double_fork_or_a_stolen_token_does_not_make_an_operator(rig: DeckRig) -> None:
    hide = (
        "import os,subprocess,sys,time\n"
        "if os.fork(): time.sleep(600)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "time.sleep(1.5)\n"
        "env={k:v for k,v in os.environ.items() if k not in ('CHORAGOS_SEAT','CHORAGOS_PANE')}\n"
        "def run(name, **more):\n"
        "    p=subprocess.run([sys.executable,'-m','deck.cli','delegate','--to','coder',"
        "'--task','x'],env={**env, **more},capture_output=True,text=True)\n"
        "    open(name,'w').write(f'{p.returncode} {p.stderr}')\n"
        "if len(sys.argv) > 1: os.execve(sys.executable,[sys.executable,sys.argv[0]],env)\n"
        "run('hidden.txt')\n"
    )
    (rig.dir / "hide.py").write_text(hide)
    rig.team(
        agent_role("orchestrator"),
        agent_role("coder"),
        {"name": "sneak", "command": "python3", "args": ["hide.py"]},
    )
    rig.serve()
    said = rig.wait(
        lambda: (rig.dir / "hidden.txt").exists() and (rig.dir / "hidden.txt").read_text()
    )
    assert said.startswith("1 ")
    assert rig.status()["tasks"] == []


def test_a_gated_task_goes_only_after_an_approval_of_what_was_shown(rig: DeckRig) -> None:
    pair(rig, "report", approve=True)
    rig.serve()
    (rig.dir / "brief.md").write_text("deploy staging\n")
    for _ in range(3):
        done = rig.cli("delegate", "--to", "coder", "--brief", "brief.md", "--task", "deploy")
        assert (done.returncode, done.stdout) == (0, "delegated to coder\n")
        assert "choragos approve G" in done.stderr
    assert [g["id"] for g in json.loads(rig.cli("gates", "--json").stdout)] == ["G1", "G2", "G3"]
    assert rig.cli("reject", "G2", "--reason", "not today").returncode == 0
    assert rig.cli("approve", "G1", "--reason", "fine").returncode == 0
    rig.wait_task("T1", "reported")
    assert rig.task("T2")["state"] == "refused"
    (rig.dir / "brief.md").write_text("deploy production\n")
    void = rig.cli("approve", "G3")
    assert void.returncode == 1
    assert "changed since the gate opened" in void.stderr
    assert rig.task("T3")["state"] == "refused"
    assert "decided once" in rig.cli("approve", "G2").stderr
    assert "no gate" in rig.cli("approve", "G9").stderr
    decided = records(rig, "gate_decision")
    assert [(r["gate"]["id"], r["gate"]["state"]) for r in decided] == [  # type: ignore[index]
        ("G2", "rejected"), ("G1", "approved"), ("G3", "void"),
    ]  # fmt: skip
    assert all(r["gate"]["approver"] == "operator" for r in decided)  # type: ignore[index]
    rig.wait(lambda: any("not today" in line for line in rig.seen("orchestrator")))


def test_a_dead_worker_loses_its_task_in_plain_sight(rig: DeckRig) -> None:
    pair(rig, "crash")
    rig.serve()
    rig.wait_idle("coder")
    rig.delegate("coder", "x")
    row = rig.wait_task("T1", "lost")
    assert "coder has exited (status 7)" in row["reason"]
    assert "fake coder" in row["screen"]
    rig.wait(lambda: any("lost: T1" in line for line in rig.seen("orchestrator")))
    assert "coder has exited" in rig.delegate("coder", "y")["reason"]
    assert 'msg="pane exited" role=coder' in rig.events()


def test_a_failed_role_is_started_again_and_gets_its_task_back(rig: DeckRig) -> None:
    pair(rig, "crash", "report", restart="on-failure")
    rig.serve()
    rig.wait_idle("coder")
    rig.delegate("coder", "x")
    rig.wait_task("T1", "reported", seconds=40)
    assert "msg=auto-restart role=coder attempt=1" in rig.events()
    assert sum("T1.md" in line for line in rig.seen("coder")) == 2


def test_a_role_killed_with_work_waiting_reads_its_brief_first_and_then_all_of_it(
    rig: DeckRig,
) -> None:
    pair(rig, "busy", restart="on-failure")
    rig.serve()
    rig.wait_idle("coder")
    rig.delegate("coder", "one")
    rig.wait_task("T1", "picked-up")
    rig.delegate("coder", "two")
    os.kill(rig.role("coder")["pid"], signal.SIGKILL)
    rig.wait(lambda: rig.task("T1")["state"] == "lost")
    assert rig.delegate("coder", "three")["state"] == "queued"
    (rig.dir / "rested").touch()
    rig.wait(lambda: len(rig.seen("coder")) == 6)
    brief, *tasks = rig.seen("coder")[2:]
    assert "coder-brief.md" in brief
    assert sorted(re.findall(r"T\d", " ".join(tasks))) == ["T1", "T2", "T3"]


def test_a_role_that_always_fails_is_given_up_after_its_retries(rig: DeckRig) -> None:
    rig.team(
        agent_role("orchestrator"),
        {"name": "coder", "command": "false", "restart": "on-failure", "restart_retries": 2},
    )
    rig.serve()
    rig.wait(lambda: "auto-restart cap reached" in rig.events(), 40)
    assert rig.events().count("msg=auto-restart ") == 2
    assert rig.delegate("coder", "x")["state"] == "refused"


def test_a_task_without_a_report_times_out_once_and_a_late_report_counts(rig: DeckRig) -> None:
    pair(rig, timeout="2s")
    rig.serve()
    rig.wait_idle("coder")
    rig.delegate("coder", "x")
    rig.wait_task("T1", "timed-out")
    time.sleep(2.5)
    assert rig.events().count("delegate timeout") == 1
    rig.cli("work-done", "--id", "T1", "--task", "late")
    assert rig.task("T1")["state"] == "reported"


def test_a_timeout_can_restart_the_role_and_offers_the_task_again(rig: DeckRig) -> None:
    pair(rig, "busy", timeout="2s", timeout_action="restart")
    rig.serve()
    rig.wait_idle("coder")
    rig.delegate("coder", "x")
    rig.wait(lambda: sum("T1.md" in line for line in rig.seen("coder")) == 2, 40)


def test_a_report_for_a_start_role_that_is_gone_is_kept(rig: DeckRig) -> None:
    rig.team({"name": "orchestrator", "command": "true"}, agent_role("coder", "report"))
    rig.serve()
    rig.wait(lambda: rig.role("orchestrator")["state"] == "exited")
    rig.delegate("coder", "x")
    rig.wait_task("T1", "reported")
    report = rig.wait(lambda: [r for r in rig.status()["reports"] if r["state"] == "kept"])
    assert report[0]["label"] == "coder did T1"
    assert "R1 kept from coder: coder did T1" in rig.cli("board").stdout


def test_kill_ends_everything_the_agents_started(rig: DeckRig) -> None:
    pair(rig, "stubborn", "grandchild")
    rig.serve()
    rig.wait_idle("coder")
    daemon = int(rig.wait((rig.dir / "daemon.pid").read_text))
    assert daemon in rig.marked()
    assert rig.cli("kill").returncode == 0
    assert rig.marked() == []


def test_a_crash_of_the_deck_leaves_a_log_a_clean_socket_and_no_orphan(rig: DeckRig) -> None:
    pair(rig)
    crash = (
        "import deck.host as s\n"
        "async def boom(session, board): raise RuntimeError('bug')\n"
        "s._until_stopped = boom\n"
        "import sys; sys.argv = ['choragos', 'serve', '--no-sphragis', '--headless']\n"
        "from deck.cli import main; main()\n"
    )
    done = subprocess.run(
        ["python3", "-c", crash],
        cwd=rig.dir,
        env=rig.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "the deck crashed; agents were stopped" in done.stderr
    assert "RuntimeError: bug" in (rig.state_dir / "logs" / "crash.log").read_text()
    assert rig.marked() == []
    assert not rig.paths.socket.exists()


def test_a_socket_that_was_cleaned_away_comes_back(rig: DeckRig) -> None:
    pair(rig)
    rig.serve()
    shutil.rmtree(rig.paths.socket.parent)
    rig.wait(lambda: rig.send(Verb.PING).get("phase") == "running")
    assert str(rig.dir) in rig.cli("ls").stdout
    assert stat.S_IMODE(rig.paths.socket.stat().st_mode) == 0o600
    assert rig.cli("kill").returncode == 0


def test_a_deck_ends_with_its_project(rig: DeckRig) -> None:
    pair(rig)
    rig.serve()
    shutil.rmtree(rig.dir)
    rig.wait(lambda: not rig.marked())
    assert not rig.paths.socket.exists()


def test_sigterm_stops_a_foreground_deck_like_kill(rig: DeckRig) -> None:
    pair(rig)
    deck = subprocess.Popen(
        ["python3", "-m", "deck.cli", "serve", "--no-sphragis"],
        cwd=rig.dir,
        env=rig.env,
        stdout=subprocess.DEVNULL,
    )
    rig.wait(lambda: rig.send(Verb.PING).get("phase") == "running")
    deck.terminate()
    assert deck.wait(20) == 0
    assert rig.marked() == []
    assert not rig.paths.sidecar.exists()


def test_a_ledger_that_cannot_be_written_stops_the_work_and_says_so(rig: DeckRig) -> None:
    pair(rig)
    rig.serve()
    rig.wait(lambda: rig.seen("coder"))  # its brief
    rig.wait_idle("coder")
    resource.prlimit(rig.pid(), resource.RLIMIT_FSIZE, (1, 1))
    refused = rig.cli("delegate", "--to", "coder", "--task", "x")
    assert refused.returncode == 1
    rig.wait(lambda: rig.status()["journal"]["failure"])
    again = rig.cli("delegate", "--to", "coder", "--task", "x")
    assert (again.returncode, again.stdout) == (1, "")
    assert "ledger cannot be written" in again.stderr
    report = rig.cli("work-done", "--task", "done")
    assert (report.returncode, report.stdout) == (1, "")
    assert len(rig.seen("coder")) == 1
    assert rig.cli("kill").returncode == 0


def test_roles_whose_names_look_alike_do_not_share_a_brief(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("a b"), agent_role("a-b"))
    rig.serve()
    rig.wait(lambda: rig.seen("a b") and rig.seen("a-b"))
    assert ".choragos/a-b-brief.md" in rig.seen("a b")[0]
    assert ".choragos/a-b-2-brief.md" in rig.seen("a-b")[0]


def test_a_project_with_packages_named_like_ours_runs_none_of_its_code(rig: DeckRig) -> None:
    for name in ("deck", "shared", "gateway", "httpx", "json"):
        (rig.dir / name).mkdir()
        (rig.dir / name / "__init__.py").write_text("open('ran', 'w').close(); raise SystemExit(9)")
    rig.team({"name": "o", "command": "cat"}, {"name": "coder", "command": "cat"})
    program = [str(Path(sys.executable).with_name("choragos")), "serve", "--detach"]
    done = subprocess.run(
        [*program, "--no-sphragis"], cwd=rig.dir, env=rig.env, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert rig.send(Verb.SHUTDOWN)["status"] == "ok"
    rig.wait(lambda: not rig.paths.sidecar.exists())
    assert not (rig.dir / "ran").exists()


@pytest.mark.parametrize("how", ["moved", "copied"])
def test_a_project_that_was_moved_or_copied_begins_a_ledger_of_its_own(
    rig: DeckRig, how: str
) -> None:
    pair(rig, "report")
    rig.serve()
    rig.cli("delegate", "--to", "coder", "--task", "x")
    rig.wait_task("T1", "reported")
    rig.cli("kill")
    there = rig.dir.with_name("elsewhere")
    if how == "moved":
        rig.dir.rename(there)
    else:
        shutil.copytree(rig.dir, there)
    rig.dir = there
    rig.serve()
    assert rig.delegate("coder", "y")["id"] == "T1"
    assert 'msg="ledger set aside"' in rig.events()
    (old,) = rig.state_dir.glob("ledger-of-*")
    assert verify_path(old).exit_code == 0
    rig.cli("kill")
    assert verify_path(rig.state_dir / "ledger").exit_code == 0


def test_a_session_on_another_socket_is_found_without_naming_it(rig: DeckRig) -> None:
    pair(rig)
    own = str(rig.short / "own.sock")
    assert rig.cli("serve", "--detach", "--no-sphragis", CHORAGOS_SOCK=own).returncode == 0
    assert rig.cli("delegate", "--to", "coder", "--task", "x").returncode == 0
    assert "already runs" in rig.cli("serve", "--detach", "--no-sphragis").stderr
    assert rig.cli("kill").stdout == "session stopped\n"


def test_every_stale_sidecar_is_deleted_by_ls(rig: DeckRig) -> None:
    """A process that has the pid by now does not make a session live."""
    folder = rig.paths.sidecar.parent
    for name, pid in (("aaaaaaaa", os.getpid()), ("bbbbbbbb", 2**22 + 1), ("cccccccc", "x")):
        text = {"pid": pid, "dir": "/w", "started": "2026-01-01T00:00:00.123456789Z"}
        (folder / f"{name}.json").write_text(json.dumps({**text, "socket": f"{folder}/no.sock"}))
    (folder / "dddddddd.json").write_text("{")
    assert rig.cli("ls").stdout == "no running sessions\n"
    assert list(folder.glob("*.json")) == []


def test_a_file_where_the_decks_directory_should_be_is_named(rig: DeckRig) -> None:
    pair(rig)
    rig.state_dir.touch()
    for arguments in (("serve", "--no-sphragis"), ("serve", "--detach", "--no-sphragis")):
        done = rig.cli(*arguments)
        assert done.returncode == 1
        assert str(rig.state_dir) in done.stderr
        assert "Errno" not in done.stderr


def test_git_sees_nothing_of_the_decks_own_files(rig: DeckRig) -> None:
    rig.git()
    pair(rig, "report")
    rig.serve()
    rig.cli("delegate", "--to", "coder", "--task", "x")
    rig.wait_task("T1", "reported")
    status = ["git", "status", "--short", "--untracked-files=all"]
    shown = subprocess.run(status, cwd=rig.dir, capture_output=True, text=True, check=True).stdout
    assert "?? .choragos.toml" in shown
    assert ".choragos/" not in shown
    rig.cli("kill")
    (rig.state_dir / ".gitignore").write_text("logs/\n")
    rig.serve()
    assert (rig.state_dir / ".gitignore").read_text() == "logs/\n"


def test_tasks_given_at_once_are_filed_in_the_order_of_their_ids(rig: DeckRig) -> None:
    """The copy for old readers ends as the latest task, and no writer trips over another."""
    pair(rig)
    rig.serve()
    ack = rig.send(Verb.DELEGATE, to=("coder", "orchestrator") * 20, task="at once")
    assert {target["state"] for target in ack["targets"]} == {"queued"}
    for role, last in (("coder", "T39"), ("orchestrator", "T40")):
        assert f"Task id: {last}\n" in (rig.state_dir / f"worker-task-{role}.md").read_text()
    ids = re.findall(r"msg=delegate id=(T\d+)", rig.events())
    assert ids == [f"T{number}" for number in range(1, 41)]


@pytest.mark.parametrize("name", ["n" * 250, "ü/../x", "a b\tc", ".", '"; rm -rf', "-"])
def test_any_role_name_can_be_given_work(rig: DeckRig, name: str) -> None:
    rig.team(agent_role("orchestrator"), {"name": name, "command": "cat"})
    rig.serve()
    done = rig.cli("delegate", f"--to={name}", "--task", "x")
    assert (done.returncode, done.stdout) == (0, f"delegated to {name}\n")
    assert rig.role(name)["state"] != "exited"


def test_a_team_without_its_gateway_is_told_to_the_person_who_starts_it(rig: DeckRig) -> None:
    pair(rig, tail='[sphragis]\naddr = "127.0.0.1:1"\ncommand = "no-such-gateway"\n')
    soft = rig.cli("serve", "--detach")
    assert (soft.returncode, soft.stderr[:8]) == (0, "warning:")
    assert "unscanned" in soft.stderr
    rig.cli("kill")
    hard = rig.cli("serve", "--detach", "--sphragis")
    assert "not ready" in hard.stderr
    assert "delegations are refused" in hard.stderr
    rig.cli("kill")
    assert rig.cli("serve", "--detach", "--no-sphragis").stderr.count("unscanned") == 1


def test_the_board_is_shown_as_a_table_and_as_json(rig: DeckRig) -> None:
    pair(rig)
    rig.serve()
    rig.delegate("coder", "[bold]not markup[/bold]")
    shown = rig.cli("board", COLUMNS="160").stdout
    assert "[bold]not markup[/bold]" in shown
    status = json.loads(rig.cli("board", "--json").stdout)
    assert {"roles", "tasks", "gateway", "usage"} <= set(status)
    assert {"name", "state", "pid", "question"} <= set(status["roles"][0])
    assert {"on", "up", "reason"} <= set(status["gateway"])
    assert set(status["usage"][0]) == {
        "role", "in", "out", "cache_creation", "cache_read", "cost_usd",
    }  # fmt: skip


def test_after_a_clean_stop_a_run_starts_afresh_unless_it_is_resumed(rig: DeckRig) -> None:
    pair(rig)
    rig.serve()
    rig.wait_idle("coder")
    rig.delegate("coder", "x")
    rig.wait_task("T1", "picked-up")
    rig.cli("kill")
    rig.serve("--no-sphragis", "--resume")
    assert rig.task("T1")["state"] == "lost"
    assert rig.delegate("coder", "y")["id"] == "T2"
    context = (rig.state_dir / "orchestrator-context.md").read_text()
    assert "delegate them again: T1" in context
    assert rig.cli("again", "T1").returncode == 0
    rig.wait_task("T1", "submitted", "picked-up")
    rig.cli("kill")
    rig.serve()
    assert rig.status()["tasks"] == []
    assert rig.delegate("coder", "z")["id"] == "T1"
