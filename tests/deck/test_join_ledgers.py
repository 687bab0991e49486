"""A deck and its gateway, both real: two ledgers that tell one story, joined by session and task.

The agents are the harness's, but for one habit: for each task they call their model through the
gateway, as the task says how often; then they report and, as agents do, call once more.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deck_harness import AGENT, DeckRig, agent_role
from gateway_harness import Gateway

from deck.protocol import Verb
from shared.ledger import verify_path
from shared.ledger.texts import read_text

CALL = r'''
import json, urllib.request, urllib.error
def model(text):
    """One call; its receipt says which record it became."""
    body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": text}]}
    base = os.environ["ANTHROPIC_BASE_URL"]
    request = urllib.request.Request(
        base + "/v1/messages", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.headers["X-Audit-Receipt"].split(";")[1]
    except urllib.error.HTTPError as no:
        return f"HTTP {no.code}"
'''
#: The harness's agent, calling its model before the report and once after it.
CALLING = AGENT.replace("def choragos(*args):", CALL + "\ndef choragos(*args):").replace(
    '        if "report" in habits:\n',
    '        name = re.search(r"Task id: (\\S+)", open(task[1]).read())[1]\n'
    "        for _ in range(3):\n"
    '            note(f"call {name} {model(name)}")\n'
    '        if "report" in habits:\n',
)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    started = Gateway(tmp_path / "gw", "http://127.0.0.1:1").start("--offline")
    yield started
    assert started.process is not None
    if started.process.poll() is None:
        started.stop()


@pytest.fixture
def rig(tmp_path: Path, gateway: Gateway) -> Iterator[DeckRig]:
    made = DeckRig(tmp_path)
    (made.dir / "agent.py").write_text(CALLING)
    made.env["SPHRAGIS_HOME"] = str(gateway.home)
    yield made
    made.close()


def team(rig: DeckRig, gateway: Gateway, *roles: dict[str, object]) -> None:
    addr = gateway.url.removeprefix("http://")
    rig.team(*roles, tail=f'[sphragis]\nenabled = true\naddr = "{addr}"\n')


def deck_records(rig: DeckRig) -> list[dict[str, Any]]:
    found = []
    for path in sorted((rig.state_dir / "ledger" / "segments").glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            record = json.loads(line)
            if "cp" not in record:
                found.append(record)
    return found


def ops(records: list[dict[str, Any]], task: str = "") -> list[str]:
    return [
        record["ext"]["op"] + (f":{record['ext']['state']}" if "state" in record["ext"] else "")
        for record in records
        if "op" in record.get("ext", {}) and task in ("", record.get("task"))
    ]


def test_both_ledgers_tell_one_story_of_each_task(rig: DeckRig, gateway: Gateway) -> None:
    roles = [agent_role("lead"), agent_role("coder", "report"), agent_role("tester", "report")]
    team(rig, gateway, *roles)
    rig.serve("--sphragis")
    rig.wait_idle("lead", "coder", "tester")
    for role in ("coder", "tester", "coder"):
        assert rig.delegate(role, f"work for {role}")["state"] == "queued"
    for task in ("T1", "T2", "T3"):
        rig.wait_task(task, "reported")
    rig.wait(lambda: not any(json_tasks(gateway)))
    assert rig.cli("kill").returncode == 0
    gateway.stop()

    deck, calls = deck_records(rig), gateway.records()
    (run,) = {record["run"] for record in deck if record.get("run")}
    requests = {str(record["seq"]): record for record in calls if record["type"] == "request"}
    told = [line.split() for role in ("coder", "tester") for line in rig.seen(role)]
    made = [(words[1], words[2]) for words in told if words[:1] == ["call"]]
    assert len(made) == len(requests) == 9
    for task, seq in made:
        # The agent knows what it worked on; the record has to say the same.
        assert (requests[seq]["run"], requests[seq]["task"]) == (run, task)
    outcomes = {r["ref"]: r for r in calls if r["type"] == "outcome"}
    for request in requests.values():
        outcome = outcomes[request["seq"]]
        assert (outcome["run"], outcome["task"]) == (request["run"], request["task"])
        assert outcome["actor"]["role"] == request["actor"]["role"]

    story = sorted(
        (r for r in deck + calls if r.get("task") == "T3" and r.get("run") == run),
        key=lambda record: record["ts"],
    )
    kinds = [r["ext"].get("op") or r["type"] for r in story]
    assert kinds[0] == "task-added"
    stamped, typed = kinds.index("delegate"), kinds.index("task-moved")
    assert stamped < typed < kinds.index("request") < kinds.index("report-added")
    assert {"coder"} == {r["actor"]["role"] for r in story if r["type"] == "request"}
    assert verify_path(rig.state_dir / "ledger").exit_code == 0
    assert verify_path(gateway.home / "ledger").exit_code == 0


def json_tasks(gateway: Gateway) -> list[str]:
    """The tasks the gateway has stamped now."""
    from gateway.control_client import ask

    status = ask(gateway.home, "/v1/status")
    return [task for one in status["sessions"] for task in one["roles"].values() if task]


def test_a_resumed_deck_stamps_again_after_a_kill(rig: DeckRig, gateway: Gateway) -> None:
    team(rig, gateway, agent_role("lead"), agent_role("coder", "busy", "report"))
    rig.serve("--sphragis")
    rig.wait_idle("lead", "coder")
    rig.delegate("coder", "long work")
    rig.wait_task("T1", "picked-up", "submitted")
    rig.wait(lambda: json_tasks(gateway) == ["T1"])
    os.kill(rig.pid(), signal.SIGKILL)
    rig.serve("--sphragis", "--resume")
    assert rig.task("T1")["state"] == "lost"
    rig.wait(lambda: json_tasks(gateway) == [])
    (rig.dir / "rested").touch()
    rig.wait_idle("coder")
    rig.send(Verb.AGAIN, id="T1")
    rig.wait_task("T1", "reported")
    stamps = [r for r in gateway.records() if r.get("action", {}).get("name") == "stamp"]
    given = [r for r in stamps if r["type"] == "delegate"]
    assert [r["task"] for r in given] == ["T1", "T1"]
    assert len({r["ext"]["by"]["pid"] for r in given}) == 2
    assert len({r["run"] for r in given}) == 1


ATTACK = r"""
import json, os, sys
from pathlib import Path
from gateway.control_client import GatewayError, ask
home = Path(sys.argv[1])
if "detached" in sys.argv:
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    for name in [n for n in os.environ if n.startswith("CHORAGOS")]:
        del os.environ[name]
    os.execv(sys.executable, [sys.executable, __file__, sys.argv[1], "free"])
run = ask(home, "/v1/status")["sessions"][0]["session"]
said = []
for path, body in (
    ("/v1/stamp", {"session": run, "role": "coder", "task": "T99"}),
    ("/v1/stamp", {"session": "mine", "role": "coder", "task": "T99"}),
    ("/v1/rotate-key", {}),
    ("/v1/seal", {}),
    ("/v1/erase", {"subject": "coder"}),
):
    try:
        ask(home, path, body)
        said.append("done")
    except GatewayError as no:
        said.append(getattr(no, "code", "?"))
Path("attack-" + sys.argv[-1]).write_text(" ".join(said))
"""


def test_an_agent_cannot_stamp_erase_or_rotate(rig: DeckRig, gateway: Gateway) -> None:
    (rig.dir / "attack.py").write_text(ATTACK)
    command = f"{sys.executable} attack.py {gateway.home}"
    habit = "import subprocess\n" + CALLING.replace(
        '        if "report" in habits:\n',
        f'        subprocess.run("{command} plain; {command} detached", shell=True)\n'
        '        if "report" in habits:\n',
        1,
    )
    (rig.dir / "agent.py").write_text(habit)
    team(rig, gateway, agent_role("lead"), agent_role("coder", "report"))
    rig.serve("--sphragis")
    rig.wait_idle("lead", "coder")
    rig.delegate("coder", "try it")
    rig.wait_task("T1", "reported")
    for name in ("attack-plain", "attack-free"):
        said = rig.wait(
            lambda name=name: (rig.dir / name).exists() and (rig.dir / name).read_text()
        )
        assert said.split() == ["inside_team"] * 4 + [said.split()[4]]
        assert said.split()[4] in ("inside_team", "unknown")
    records = gateway.records()
    assert {r["task"] for r in records if r["type"] == "request"} == {"T1"}
    denied = [r for r in records if r["type"] == "deny"]
    assert len(denied) >= 8
    assert {r["ext"]["by"]["uid"] for r in denied} == {os.getuid()}
    assert not [r for r in records if r["type"] in ("key_rotate", "seal", "erase")]


def test_an_older_gateway_without_a_socket_gets_the_task_all_the_same(
    rig: DeckRig, gateway: Gateway
) -> None:
    rig.env["SPHRAGIS_HOME"] = str(rig.dir)
    team(rig, gateway, agent_role("lead"), agent_role("coder", "report"))
    rig.serve("--sphragis")
    rig.wait_idle("lead", "coder")
    rig.delegate("coder", "work")
    rig.wait_task("T1", "reported")
    assert [r.get("task") for r in gateway.records() if r["type"] == "request"] == [None] * 3
    failed = [r["ext"] for r in deck_records(rig) if r["ext"].get("op") == "stamp-failed"]
    assert [one["state"] for one in failed] == ["absent"]
    assert "stamp not taken" in rig.events()


def test_a_gateway_that_does_not_answer_a_stamp_holds_the_task_back(
    rig: DeckRig, gateway: Gateway
) -> None:
    import socket

    home = rig.short / "mute"
    home.mkdir()
    rig.env["SPHRAGIS_HOME"] = str(home)
    team(rig, gateway, agent_role("lead"), agent_role("coder", "report"))
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(home / "control.sock"))
        mute.listen()
        rig.serve("--sphragis")
        rig.wait_idle("lead", "coder")
        rig.delegate("coder", "work")
        rig.wait(lambda: "does not take the stamp" in json.dumps(rig.status()), 20)
        assert rig.task("T1")["state"] == "queued"
        time.sleep(0.5)
        assert rig.task("T1")["state"] == "queued"
    (home / "control.sock").unlink()
    rig.wait_task("T1", "reported")


def test_every_change_of_the_deck_is_on_its_record(rig: DeckRig, gateway: Gateway) -> None:
    rig.git()
    roles = [agent_role("lead"), agent_role("coder", "report", approve=True)]
    roles[1]["args"] = [*list(roles[1]["args"]), "--api-key", "sk-abcdefghijkl"]  # type: ignore[call-overload]
    team(rig, gateway, *roles)
    rig.serve("--sphragis")
    rig.wait_idle("lead", "coder")
    rig.delegate("coder", "gated work")
    assert rig.cli("approve", "G1", "--reason", "looks right").returncode == 0
    assert rig.cli("approve", "G1").returncode != 0
    rig.wait_task("T1", "reported")
    rig.wait(lambda: "checkpoint-taken" in ops(deck_records(rig)))
    time.sleep(0.5)
    (rig.dir / "new.txt").write_text("later")
    rig.cli("rollback", "T1", "--whole", "--force", "--yes")
    assert rig.cli("kill").returncode == 0
    rig.cli("checkpoints", "prune", "--keep", "0")
    records = deck_records(rig)
    told = set(ops(records))
    for op in (
        "session-started:fresh",
        "config-set",
        "enforcement-changed:on",
        "brief-set",
        "role-starting",
        "role-started",
        "gate-opened",
        "gate-decided:approved",
        "denied:approve",
        "checkpoint-taken",
        "rollback-begun",
        "rollback-ended",
        "role-stopping",
        "role-stopped",
        "session-stopped",
        "checkpoints-pruned",
    ):
        assert op in told, (op, sorted(told))
    opened = next(r for r in records if r["type"] == "gate_open")
    decided = next(r for r in records if r["type"] == "gate_decision")
    assert opened["action"]["args_c"] == decided["action"]["args_c"]
    assert decided["gate"] == {"approver": "operator", "id": "G1", "state": "approved"}
    assert decided["ext"]["reason"] == "looks right"
    assert opened["task"] == decided["task"] == "T1"
    stopped = next(r for r in records if r["type"] == "stop")
    assert stopped["actor"]["role"] == "operator"
    config = next(r for r in records if r["ext"].get("op") == "config-set")
    text = read_text(rig.state_dir / "ledger", config["ext"]["digest"]).decode()
    assert json.loads(text)["roles"][1]["approve"] is True
    assert "sk-abcdefghijkl" not in text
    assert verify_path(rig.state_dir / "ledger").exit_code == 0


def test_a_role_spends_the_key_that_the_gateway_holds_by_a_key_of_its_own(
    rig: DeckRig, tmp_path: Path
) -> None:
    gateway = Gateway(
        tmp_path / "held",
        "http://127.0.0.1:1",
        anthropic_api_key="sk-ant-held-0123456789abcdef",
        require_client_key="true",
    ).start("--offline")
    try:
        rig.env["SPHRAGIS_HOME"] = str(gateway.home)
        rig.env["ANTHROPIC_API_KEY"] = "sk-ant-of-the-user"
        with_key = CALLING.replace(
            '{"content-type": "application/json"}',
            '{"content-type": "application/json", "x-api-key": os.environ["ANTHROPIC_API_KEY"]}',
        )
        (rig.dir / "agent.py").write_text(with_key)
        team(rig, gateway, agent_role("lead"), agent_role("coder", "report"))
        rig.serve("--sphragis")
        rig.wait_idle("lead", "coder")
        assert rig.delegate("coder", "work")["state"] == "queued"
        rig.wait_task("T1", "reported")
        calls = [line.split()[2] for line in rig.seen("coder") if line.startswith("call T1")]
        assert len(calls) == 3
        assert all(seq.isdigit() for seq in calls)
        assert rig.cli("kill").returncode == 0
    finally:
        gateway.stop()
