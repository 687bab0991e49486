"""kill -9 of the deck at any moment: what was accepted is on the next board, nobody is orphaned."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

from deck_harness import DeckRig, agent_role
from ports import free_port

from deck.entries import Entry, Op, TaskState
from deck.journal import Journal
from deck.protocol import Command, Verb
from deck.sessions import SessionError, exchange
from deck.texts import TextStore
from shared.ledger import verify_path
from shared.paths import private_dir, state_dir


def kill(rig: DeckRig) -> None:
    pid = rig.pid()
    os.kill(pid, signal.SIGKILL)
    rig.wait(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def test_the_next_deck_shows_the_same_board_and_ends_the_orphans(rig: DeckRig) -> None:
    rig.team(
        agent_role("orchestrator"),
        agent_role("coder", "busy", "stubborn"),
        agent_role("tester", "report"),
        agent_role("release", approve=True),
    )
    rig.serve()
    rig.wait_idle("coder", "tester")
    rig.delegate("coder", "long work")
    rig.wait_task("T1", "picked-up")
    rig.delegate("coder", "waits behind it")
    rig.delegate("tester", "quick work")
    rig.wait_task("T3", "reported")
    rig.delegate("release", "ship it")
    orphan = rig.role("coder")["pid"]
    kill(rig)
    assert rig.paths.socket.exists()
    assert _runs(orphan)

    rig.serve()
    assert not _runs(orphan)
    states = {t["id"]: t["state"] for t in rig.status()["tasks"]}
    assert (states["T1"], states["T3"], states["T4"]) == ("lost", "reported", "gated")
    assert "the deck crashed while coder worked on it" in rig.task("T1")["reason"]
    assert rig.task("T1")["label"] == "long work"
    # What had been accepted but not handed out goes out now; what was lost does not by itself.
    rig.wait_task("T2", "submitted", "picked-up")
    (rig.dir / "rested").touch()
    context = (rig.state_dir / "orchestrator-context.md").read_text()
    assert "delegate them again: T1" in context
    assert rig.delegate("tester", "more")["id"] == "T5"
    assert rig.cli("approve", "G1").returncode == 0
    rig.wait_task("T4", "submitted", "picked-up")
    assert rig.cli("again", "T1").returncode == 0
    rig.wait_task("T1", "submitted", "picked-up")
    assert "orphans ended" in rig.events()
    rig.cli("kill")
    assert rig.marked() == []
    assert verify_path(rig.state_dir / "ledger").exit_code == 0


def test_a_report_that_was_acknowledged_is_never_lost(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator", "blocked"), agent_role("coder"))
    rig.serve()
    rig.wait_idle("coder")
    assert rig.send(Verb.WORK_DONE, task="found the bug")["status"] == "ok"
    kill(rig)
    rig.serve()
    assert [r["label"] for r in rig.status()["reports"]] == ["found the bug"]
    (rig.dir / "answered").touch()
    rig.wait(lambda: "A worker reports: found the bug" in rig.seen("orchestrator"))


def test_whatever_was_acknowledged_before_a_kill_is_on_the_board_after_it(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder", "report"), agent_role("tester"))
    chance = random.Random(11)
    acked: dict[str, str] = {}
    reported: set[str] = set()
    for round_number in range(6):
        rig.serve()
        stop = threading.Event()
        worker = threading.Thread(target=_load, args=(rig, stop, acked, reported, round_number))
        worker.start()
        time.sleep(chance.uniform(0.05, 1.2))
        kill(rig)
        stop.set()
        worker.join(10)
    rig.serve()
    board = {t["id"]: t for t in rig.status()["tasks"]}
    assert set(acked) <= set(board)
    assert all(board[task]["label"] == label for task, label in acked.items())
    assert all(board[task]["state"] == "reported" for task in reported)
    ids = [int(task[1:]) for task in board]
    assert ids == list(range(1, len(ids) + 1))
    rig.cli("kill")
    assert rig.marked() == []
    assert verify_path(rig.state_dir / "ledger").exit_code == 0


def test_a_decision_that_was_acknowledged_takes_effect_though_the_deck_is_killed_at_once(
    rig: DeckRig,
) -> None:
    """From wherever it came; and one that cannot count is never acknowledged."""
    rig.team(agent_role("orchestrator"), agent_role("release", approve=True))
    rig.serve()
    for text in ("by command", "by socket", "refused"):
        rig.delegate("release", text)
    rig.wait(lambda: [t["state"] for t in rig.status()["tasks"]] == ["gated"] * 3)
    assert rig.cli("approve", "G1").returncode == 0
    assert rig.send(Verb.APPROVE, id="G2")["decision"] == "approved"
    assert rig.cli("reject", "G3", "--reason", "no").returncode == 0
    kill(rig)
    assert rig.cli("approve", "G3").returncode == 1
    rig.serve()
    for task in ("T1", "T2"):
        rig.wait_task(task, "submitted", "picked-up")
    assert rig.task("T3")["state"] == "refused"
    for command in (("approve", "G1"), ("approve", "G3"), ("reject", "G2"), ("approve", "G9")):
        late = rig.cli(*command)
        assert (late.returncode, late.stdout) == (1, "")
        assert late.stderr.strip()
    assert rig.send(Verb.APPROVE, id="G3")["status"] == "error"
    assert {g["id"]: g["state"] for g in rig.send(Verb.GATES)["gates"]} == {
        "G1": "approved",
        "G2": "approved",
        "G3": "rejected",
    }


async def test_a_crash_between_a_gated_task_and_its_gate_leaves_it_gated(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("release", approve=True))
    keys = private_dir(state_dir("choragos", rig.env) / "keys" / rig.paths.id)
    journal = Journal.open(
        rig.state_dir / "ledger", keys=keys, origin=f"choragos.local/deck/{rig.paths.id}"
    )
    text = TextStore(rig.state_dir / "texts", keys).put("ship it")
    journal.record(Entry(Op.SESSION_STARTED, 1, run="r"))
    await journal.record(
        Entry(Op.TASK_ADDED, 2, id="T1", role="release", ref=text, state=TaskState.GATED)
    )
    journal.close()
    rig.serve()
    assert rig.task("T1")["state"] == "gated"
    assert rig.cli("approve", "G1").returncode == 0
    rig.wait_task("T1", "submitted", "picked-up")


def _load(
    rig: DeckRig, stop: threading.Event, acked: dict[str, str], reported: set[str], number: int
) -> None:
    count = 0
    # Few enough that the board shows them all.
    while not stop.is_set() and count < 30:
        count += 1
        label = f"round {number} job {count}"
        role = "coder" if count % 2 else "tester"
        try:
            ack = exchange(rig.paths.socket, Command(Verb.DELEGATE, to=(role,), task=label), 2.0)
            for target in ack.get("targets", []):  # type: ignore[attr-defined]
                if target["state"] == "queued":
                    acked[target["id"]] = label
                    if count % 5 == 0:
                        done = Command(Verb.WORK_DONE, task="early", id=target["id"])
                        if exchange(rig.paths.socket, done, 2.0).get("resolved"):
                            reported.add(target["id"])
        except SessionError:
            time.sleep(0.01)


def test_a_gateway_of_a_killed_deck_is_taken_back_and_stopped_in_the_end(
    rig: DeckRig, tmp_path: Path
) -> None:
    program = tmp_path / "gw"
    program.write_text(
        "#!/usr/bin/env python3\n"
        "import http.server, os\n"
        "open('gw.pid', 'w').write(str(os.getpid()))\n"
        "host, port = os.environ['SPHRAGIS_LISTEN_ADDR'].rsplit(':', 1)\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.send_header('content-length', '0')\n"
        "        self.end_headers()\n"
        "http.server.ThreadingHTTPServer((host, int(port)), H).serve_forever()\n"
    )
    program.chmod(0o755)
    port = free_port()
    tail = f'[sphragis]\nenabled = true\ncommand = "{program}"\naddr = "127.0.0.1:{port}"\n'
    rig.team(agent_role("orchestrator"), tail=tail)
    rig.serve("--sphragis")
    gateway = int((rig.dir / "gw.pid").read_text())
    kill(rig)
    assert _runs(gateway)
    rig.serve("--sphragis")
    assert int((rig.dir / "gw.pid").read_text()) == gateway
    rig.cli("kill")
    assert not _runs(gateway)
