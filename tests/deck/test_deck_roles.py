"""What an operator does to running roles: pause, resume, restart, answer, enforce."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from deck_harness import DeckRig, FakeGateway, agent_role

from deck.config import Role
from deck.entries import Entry, Op, TaskState
from deck.pane.answering import NoAnswer, key_bytes
from deck.protocol import Verb
from deck.replay import replay
from deck.supervision import overdue

#: Asks twice, each time with a line of its own; then works as the other agent does.
ASKER = r"""
import os, sys, termios, tty
def say(text):
    sys.stdout.write(text); sys.stdout.flush()
say("asker\r\n> \x1b]7501;state=idle:app=fake\x07")
heard = open("heard.txt", "a")
for line in sys.stdin:
    print(line.strip(), file=heard, flush=True)
    if "/tasks/" not in line:
        continue
    say("\x1b]7501;state=blocked:app=fake:kind=permission\x07")
    say("Do you want to proceed? Type the name of the branch: ")
    print("answer:" + sys.stdin.readline().strip(), file=heard, flush=True)
    old = termios.tcgetattr(0)
    tty.setraw(0)
    say("\x1b]7501;state=blocked:app=fake:kind=permission\x07Overwrite it? 1. Yes 2. No ")
    print("key:" + repr(os.read(0, 64)), file=heard, flush=True)
    print("key:" + repr(os.read(0, 64)), file=heard, flush=True)
    termios.tcsetattr(0, termios.TCSANOW, old)
    say("\r\n> \x1b]7501;state=idle:app=fake\x07")
"""


def pair(rig: DeckRig, *habits: str, tail: str = "", **keys: object) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder", *habits, **keys), tail=tail)


def entries(rig: DeckRig, op: str) -> list[dict[str, object]]:
    found = []
    for path in sorted((rig.state_dir / "ledger" / "segments").glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            ext = json.loads(line).get("ext")
            if isinstance(ext, dict) and ext.get("op") == op:
                found.append(ext)
    return found


def order(rig: DeckRig, role: str, line: str) -> None:
    assert rig.delegate(role, f"!{line}")["state"] == "queued"


def state_of(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat[stat.rindex(")") + 2]


# -- rules --------------------------------------------------------------------------------------


def test_the_clock_of_a_paused_role_stands_still_and_its_pause_is_credited() -> None:
    role = Role("coder", timeout=10.0)
    before = [
        Entry(Op.SESSION_STARTED, 1, run="r"),
        Entry(Op.TASK_ADDED, 2, id="T1", role="coder"),
        Entry(Op.TASK_MOVED, 1_000_000, id="T1", state=TaskState.TYPED),
        Entry(Op.ROLE_PAUSED, 5_000_000, role="coder"),
    ]
    assert not list(overdue(replay(before), lambda _: role, 10**12))
    after = replay([*before, Entry(Op.ROLE_RESUMED, 105_000_000, role="coder")])
    assert not list(overdue(after, lambda _: role, 110_999_999))
    assert [task.id for task in overdue(after, lambda _: role, 111_000_000)] == ["T1"]


def test_a_pause_does_not_outlive_the_deck() -> None:
    paused = [Entry(Op.SESSION_STARTED, 1, run="r"), Entry(Op.ROLE_PAUSED, 2, role="coder")]
    assert replay(paused).paused
    assert not replay([*paused, Entry(Op.SESSION_STARTED, 3, state="resumed")]).paused


def test_keys_are_named_and_cursor_keys_follow_the_programs_mode() -> None:
    assert key_bytes("enter", application=False) == b"\r"
    assert key_bytes("ESC", application=False) == b"\x1b"
    assert key_bytes("down", application=False) == b"\x1b[B"
    assert key_bytes("down", application=True) == b"\x1bOB"
    assert key_bytes("2", application=False) == b"2"
    for bad in ("", "\x1b", "f13", "yes"):
        with pytest.raises(NoAnswer, match="is no key"):
            key_bytes(bad, application=False)


# -- pause and resume ---------------------------------------------------------------------------


def test_a_paused_role_stands_still_gets_nothing_typed_and_then_goes_on(rig: DeckRig) -> None:
    pair(rig, "report", timeout="1500ms")
    rig.serve()
    rig.wait_idle("coder")
    pid = rig.role("coder")["pid"]
    assert rig.cli("pause", "coder", "--reason", "lunch").stdout == "coder is paused\n"
    rig.wait(lambda: state_of(pid) == "T")
    assert rig.role("coder")["state"] == "paused"
    assert 'msg="role paused" role=coder' in rig.events()
    again = rig.cli("pause", "coder")
    assert (again.returncode, "paused already" in again.stderr) == (1, True)
    assert rig.delegate("coder", "x")["state"] == "queued"
    time.sleep(0.6)
    row = rig.task("T1")
    assert (row["state"], row["reason"]) == ("queued", "coder is paused")
    assert not any("T1" in line for line in rig.seen("coder"))
    assert rig.cli("resume", "coder").stdout == "coder goes on\n"
    rig.wait_task("T1", "reported")
    assert 'msg="role resumed" role=coder' in rig.events()
    assert "not paused" in rig.cli("resume", "coder").stderr
    assert "no role 'codre'; the roles are orchestrator, coder" in rig.cli("pause", "codre").stderr
    (paused,) = entries(rig, "role-paused")
    assert (paused["role"], paused["sender"], paused["reason"]) == ("coder", "operator", "lunch")


def test_a_paused_role_that_is_killed_is_not_paused_any_more(rig: DeckRig) -> None:
    pair(rig, restart="on-failure")
    rig.serve()
    rig.wait_idle("coder")
    rig.send(Verb.PAUSE, id="coder")
    os.kill(rig.role("coder")["pid"], signal.SIGKILL)
    rig.wait(lambda: "msg=auto-restart role=coder" in rig.events())
    rig.wait_idle("coder")
    assert rig.send(Verb.RESUME, id="coder")["status"] == "error"


# -- restart ------------------------------------------------------------------------------------


def test_a_restart_ends_all_of_a_role_and_offers_what_it_held(rig: DeckRig) -> None:
    pair(rig, "busy", "grandchild")
    rig.serve()
    rig.wait_idle("coder")
    daemon = int(rig.wait((rig.dir / "daemon.pid").read_text))
    rig.delegate("coder", "one")
    rig.wait_task("T1", "picked-up")
    rig.delegate("coder", "two")
    old = rig.role("coder")["pid"]
    done = rig.cli("restart", "coder", "--json")
    ack = json.loads(done.stdout)
    assert (ack["status"], ack["again"], ack["lost"]) == ("ok", ["T1"], [])
    assert ack["pid"] not in (0, old)
    assert str(old) in ack["proof"] or "ended" in ack["proof"]
    assert not Path(f"/proc/{daemon}/cwd").exists() or state_of(daemon) in "ZX"
    assert 'msg="role restarted" role=coder' in rig.events()
    assert "again=T1" in rig.events()
    (rig.dir / "rested").touch()
    rig.wait(lambda: len(rig.seen("coder")) >= 5)
    brief, *tasks = rig.seen("coder")[2:]
    assert "coder-brief.md" in brief
    assert {line.split("/")[2][:2] for line in tasks} == {"T1", "T2"}


def test_a_restart_brings_back_a_role_that_was_given_up(rig: DeckRig) -> None:
    pair(rig, "crash")
    rig.serve()
    rig.wait_idle("coder")
    rig.delegate("coder", "x")
    rig.wait_task("T1", "lost")
    rig.wait(lambda: rig.delegate("coder", "y")["state"] == "refused")
    done = rig.cli("restart", "coder")
    assert done.returncode == 0
    assert "lost, offer them with `choragos again`: T1" in done.stdout
    rig.wait_idle("coder")
    assert rig.role("coder")["restarts"] == 0
    assert rig.cli("again", "T1").returncode == 0
    rig.wait_task("T1", "submitted", "picked-up")


def test_a_restart_that_fails_says_so_and_loses_nothing_unseen(rig: DeckRig) -> None:
    program = rig.dir / "agent"
    program.write_text(f"#!/bin/sh\nexec {agent_role('x')['command']} agent.py busy\n")
    program.chmod(0o755)
    rig.team(agent_role("orchestrator"), {"name": "coder", "command": str(program)})
    rig.serve()
    rig.wait_idle("coder")
    rig.delegate("coder", "one")
    rig.wait_task("T1", "picked-up")
    rig.delegate("coder", "two")
    program.unlink()
    failed = rig.cli("restart", "coder")
    assert failed.returncode == 1
    assert "is not on PATH" in failed.stderr
    assert [t["state"] for t in rig.status()["tasks"]] == ["lost", "lost"]
    assert rig.delegate("coder", "three")["state"] == "refused"


def test_a_stream_of_work_survives_restarts_in_its_midst(rig: DeckRig) -> None:
    pair(rig, "report")
    rig.serve()
    rig.wait_idle("coder")
    ids = [rig.delegate("coder", f"job {number}")["id"] for number in range(8)]
    for wanted in ("T2", "T4"):
        rig.wait_task(wanted, "picked-up", "reported", seconds=60)
        assert rig.send(Verb.RESTART, id="coder")["status"] == "ok"
    for task_id in ids:
        rig.wait_task(task_id, "reported", seconds=60)
    lines = [line for line in rig.seen("coder") if "Read" in line]
    assert all(line.count("Read .choragos/") == 1 for line in lines)
    assert sum("coder-brief.md" in line for line in lines) == 3
    assert {f"T{n}" for n in range(1, 9)} == {
        line.split("/")[-1].split(".")[0] for line in lines if "tasks/" in line
    }


# -- answer -------------------------------------------------------------------------------------


def test_a_question_is_answered_by_task_id_and_only_while_it_stands(rig: DeckRig) -> None:
    (rig.dir / "asker.py").write_text(ASKER)
    rig.team(
        agent_role("orchestrator"),
        {**agent_role("coder"), "args": ["asker.py"]},
    )
    rig.serve()
    rig.wait_idle("coder")
    early = rig.cli("answer", "coder", "main")
    assert (early.returncode, "asks nothing; nothing was typed" in early.stderr) == (1, True)
    rig.delegate("coder", "x")
    rig.wait(lambda: "Type the name" in rig.role("coder")["question"])
    assert rig.task("T1")["question"]
    done = rig.cli("answer", "T1", "feature/s3cret")
    assert done.returncode == 0, done.stderr
    rig.wait(lambda: "answer:feature/s3cret" in heard(rig))
    rig.wait(lambda: rig.role("coder")["state"] == "blocked")
    assert rig.cli("answer", "coder", "--keys", "down,enter").returncode == 0
    rig.wait(lambda: [line for line in heard(rig) if line.startswith("key:")][1:])
    keys = [line for line in heard(rig) if line.startswith("key:")]
    assert keys == [r"key:b'\x1b[B'", r"key:b'\r'"]
    answers = entries(rig, "answered")
    assert [a.get("task", "") for a in answers] == ["T1", ""]
    assert "s3cret" not in json.dumps(answers)
    assert all(str(a["ref"]) for a in answers)
    rig.send(Verb.WORK_DONE, id="T1", task="done")
    assert "T1 is reported" in rig.cli("answer", "T1", "yes").stderr


def heard(rig: DeckRig) -> list[str]:
    path = rig.dir / "heard.txt"
    return path.read_text().splitlines() if path.exists() else []


# -- enforcement --------------------------------------------------------------------------------


def guarded(gateway: FakeGateway) -> str:
    return f'[sphragis]\nenabled = true\naddr = "{gateway.addr}"\n'


def test_enforcement_goes_off_for_a_reason_only_and_on_at_once(
    rig: DeckRig, gateway: FakeGateway
) -> None:
    pair(rig, tail=guarded(gateway))
    rig.serve("--sphragis")
    rig.wait_idle("coder")
    gateway.mode = "down"
    assert rig.delegate("coder", "x")["state"] == "refused"
    assert "needs a reason" in rig.cli("enforce", "off").stderr
    assert rig.status()["gateway"]["on"]
    off = rig.cli("enforce", "off", "--reason", "the gateway is being moved")
    assert (off.returncode, off.stdout) == (0, "enforcement is off\n")
    assert not rig.status()["gateway"]["on"]
    assert 'msg="sphragis enforcement off" from=operator reason="the gateway' in rig.events()
    assert rig.delegate("coder", "y")["state"] == "queued"
    assert rig.cli("enforce", "on").stdout == "enforcement is on\n"
    assert rig.delegate("coder", "z")["state"] == "refused"
    assert rig.cli("enforce", "on").stdout == "enforcement was already on\n"
    changes = [(e["state"], e["sender"]) for e in entries(rig, "enforcement-changed")][1:]
    assert changes == [("off", "operator"), ("on", "operator")]


def test_enforcement_that_comes_later_gives_no_work_to_roles_without_the_address(
    rig: DeckRig, gateway: FakeGateway
) -> None:
    pair(rig, tail=guarded(gateway))
    rig.serve()
    rig.wait_idle("coder")
    on = rig.cli("enforce", "on")
    assert "until `choragos restart`: orchestrator, coder" in on.stderr
    rig.delegate("coder", "x")
    rig.wait(lambda: "without the gateway's address" in rig.task("T1")["reason"])
    assert rig.cli("restart", "coder").returncode == 0
    rig.wait_task("T1", "submitted", "picked-up")


def test_enforcement_stays_where_the_team_file_promises_it(
    rig: DeckRig, gateway: FakeGateway
) -> None:
    pair(rig, tail=guarded(gateway) + "require_routing = true\n", env_deny=["*_API_KEY"])
    rig.serve("--sphragis")
    refused = rig.cli("enforce", "off", "--reason", "because")
    assert refused.returncode == 1
    assert "require_routing = true for orchestrator" in refused.stderr
    assert rig.status()["gateway"]["on"]


# -- who may ------------------------------------------------------------------------------------


def test_none_of_it_works_from_inside_a_pane(rig: DeckRig) -> None:
    pair(rig)
    rig.serve()
    rig.wait_idle("orchestrator")
    for line in ("pause|coder", "restart|coder", "answer|coder|y", "enforce|off|--reason|x"):
        order(rig, "orchestrator", line)
        verb = line.partition("|")[0]
        said = f"Only an operator may use {verb}"
        rig.wait(lambda said=said: any(said in seen for seen in rig.seen("orchestrator")))
    assert rig.role("coder")["state"] == "idle"
    assert {e["state"] for e in entries(rig, "denied")} == {"pause", "restart", "answer", "enforce"}
