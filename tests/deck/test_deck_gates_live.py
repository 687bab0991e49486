"""Gates in a whole deck: what a person sees and signs, what agents try, what auditors find."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from deck_harness import DeckRig, agent_role

from deck.approver_keys import PASSPHRASE_ENV, store_key
from deck.approvers import public_text
from deck.cli.verbs import run
from deck.protocol import Verb
from shared.ledger import verify_path

PASSPHRASE = "four words of mine"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[DeckRig]:
    rig = DeckRig(tmp_path)
    secret = tmp_path / "passphrase"
    secret.write_text(PASSPHRASE)
    secret.chmod(0o600)
    rig.env["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    yield rig
    rig.close()


def approvers(rig: DeckRig, *names: str) -> str:
    """Make a key for each, as `approver add` does, and return the table of the team file."""
    lines = ["[approvers]"]
    for name in names:
        key = Ed25519PrivateKey.generate()
        store_key(Path(rig.env["XDG_CONFIG_HOME"]) / "choragos/approvers", name, key, PASSPHRASE)
        lines.append(f'{name} = "{public_text(key.public_key().public_bytes_raw())}"')
    return "\n".join([*lines, ""])


class Person:
    """Somebody outside the team who knows the passphrase; runs verbs in this process."""

    def __init__(
        self, rig: DeckRig, patch: pytest.MonkeyPatch, output: pytest.CaptureFixture[str]
    ) -> None:
        self._output = output
        patch.chdir(rig.dir)
        secret = rig.dir.parent / "passphrase"
        for name, value in {**rig.env, PASSPHRASE_ENV: str(secret), "COLUMNS": "200"}.items():
            patch.setenv(name, value)

    def __call__(self, *args: str) -> str:
        """Return what a verb printed, and `error:` what it complained of."""
        with pytest.raises(SystemExit) as ended:
            run(args)
        said = self._output.readouterr()
        assert bool(ended.value.code) == ("error: " in said.err)
        return said.out + said.err


@pytest.fixture
def person(
    rig: DeckRig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Person:
    return Person(rig, monkeypatch, capsys)


def test_two_people_sign_and_an_auditor_finds_it_in_the_files(rig: DeckRig, person: Person) -> None:
    tail = approvers(rig, "alice", "bob") + "[gates]\napprovals = 2\n"
    rig.team(agent_role("orchestrator"), agent_role("coder", "report", approve=True), tail=tail)
    rig.serve()
    brief = rig.dir / "brief.md"
    brief.write_text("deploy \x1b[2Jstaging\n")
    for _ in range(3):
        rig.delegate("coder", "deploy", brief=str(brief))

    unsigned = rig.send(Verb.APPROVE, id="G1")
    assert "takes the signature of an approver (alice, bob)" in unsigned["reason"]
    assert "say who decides with --as" in person("approve", "G1")
    first = person("approve", "G1", "--as", "alice", "--reason", "looks fine — go")
    assert first.startswith("G1 1 of 2 approvals (alice); it needs another person\n")
    assert "alice approves G1: task\n  task       T1  deploy\n  role       coder" in first
    assert "alice has approved G1 already" in person("approve", "G1", "--as", "alice")
    assert "1 of 2 (alice)" in person("gates")
    assert "1 of 2 (alice)" in person("board")
    assert rig.task("T1")["state"] == "gated"

    shown = person("show", "g1")
    assert "deploy \\x1b[2Jstaging" in shown
    assert "approvals  1 of 2 (alice)" in shown
    assert "signed by  alice, bob" in shown

    os.kill(rig.pid(), 9)
    team = rig.dir / ".choragos.toml"
    team.write_text(team.read_text().replace("[gates]", '[gates]\nexpire = "9h"'))
    note = "note: changed since the last start: gates expire after 9h0m0s instead of never"
    assert note in rig.serve().stderr
    assert person("approve", "G1", "--as", "bob").startswith("G1 approved: T1\n")
    rig.wait_task("T1", "reported")
    assert person("reject", "G2", "--as", "bob").startswith("G2 rejected: T2\n")
    brief.write_text("deploy production\n")
    rig.wait(lambda: any(g["changed"] for g in rig.status()["gates"]))
    assert "cannot be approved: its brief was changed" in person("gates")
    assert "G3 cannot be approved" in person("board")
    assert "is void" in person("approve", "G3", "--as", "bob")
    told = person("show", "T1")
    for line in ("G1 approved by alice (1 of 2): looks fine", "handed to coder", "R1 from coder"):
        assert line in told
    assert "--- report R1\n  coder did T1" in told
    rig.send(Verb.SHUTDOWN)
    rig.wait(lambda: not rig.paths.sidecar.exists())
    ledger = rig.state_dir / "ledger"
    assert verify_path(ledger).exit_code == 0
    assert audit(ledger) == {
        "G1": {"alice": "approved", "bob": "approved"}, "G2": {"bob": "rejected"},
    }  # fmt: skip
    denied = [r["ext"]["reason"] for r in records(ledger) if r["type"] == "deny"]
    assert [reason.partition(" ")[0] for reason in denied] == ["G1", "alice"]


def records(ledger: Path) -> list[dict[str, Any]]:
    found = []
    for path in sorted((ledger / "segments").glob("*.jsonl")):
        found += [json.loads(line) for line in path.read_text().splitlines()]
    return [record for record in found if "seq" in record]


def audit(ledger: Path) -> dict[str, dict[str, str]]:
    """Check every signed decision as shared/ledger/FORMAT.md says; raise on what does not hold."""
    approvers: dict[str, str] = {}
    gates: dict[str, dict[str, Any]] = {}
    valid: dict[str, dict[str, str]] = {}
    for record in records(ledger):
        ext = record.get("ext", {})
        if ext.get("op") == "config-set":
            text = (ledger / "texts" / ext["digest"]).read_bytes()
            assert hashlib.sha256(text).hexdigest() == ext["digest"]
            approvers = json.loads(text)["approvers"]
        elif ext.get("op") == "gate-opened":
            gates[ext["id"]] = ext
        elif ext.get("op") in ("gate-decided", "gate-voted") and ext.get("state") != "void":
            gate = gates[ext["id"]]
            decision = ext.get("state", "approved")
            statement = {
                "context": "choragos gate decision v1",
                "run": record["run"],
                "gate": ext["id"],
                "kind": gate.get("state", "entry"),
                "digest": ext["ref"],
                "decision": decision,
                "reason": ext.get("reason", ""),
                "signed_at": ext["signed_at"],
            }
            text = json.dumps(
                statement, sort_keys=True, separators=(",", ":"), ensure_ascii=False
            ).encode()
            public = base64.b64decode(approvers[ext["sender"]].removeprefix("ed25519:"))
            key = Ed25519PublicKey.from_public_bytes(public)
            key.verify(base64.b64decode(ext["sig"]), text)
            assert ext["ref"] == gate["ref"]
            assert abs(record["ts"] - ext["signed_at"]) < 300_000_000
            valid.setdefault(ext["id"], {})[ext["sender"]] = decision
            if ext["op"] == "gate-decided" and decision == "approved":
                needed = max(gate.get("count", 1), ext.get("count", 1))
                assert len(valid[ext["id"]]) >= needed
    return valid


def test_an_expired_gate_refuses_its_task_and_the_start_role_is_told(
    rig: DeckRig, person: Person
) -> None:
    tail = '[gates]\nexpire = "2s"\n[ui]\non_gate = "echo $CHORAGOS_ROLE >> rung"\n'
    rig.team(agent_role("orchestrator"), agent_role("coder", approve=True), tail=tail)
    rig.serve()
    rig.wait_idle("orchestrator")
    rig.delegate("coder", "x")
    assert "expires in" in person("gates")
    assert rig.wait_task("T1", "refused")["reason"] == "G1 void"
    gate = rig.status()["gates"][0]
    assert (gate["approver"], gate["reason"]) == ("choragos", "expired after 2s")
    rig.wait(lambda: any("expired after 2s" in line for line in rig.seen("orchestrator")))
    assert (rig.dir / "rung").read_text() == "coder\n"
    assert "void by choragos" in person("gates", "--all")


SNEAK = r"""
import json, os, socket, subprocess, sys, time
sys.path.insert(0, os.getcwd())
keys, guess = sys.argv[1:3]
while not os.path.exists("go"):
    time.sleep(0.05)
def choragos(name, *args, env=None, via=()):
    done = subprocess.run([*via, sys.executable, "-m", "deck.cli", *args],
                          env={**os.environ, **(env or {})}, capture_output=True, text=True)
    out[name] = f"{done.returncode} {done.stdout}{done.stderr}"
def raw(name, **fields):
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(os.environ["CHORAGOS_SOCK"])
        line.sendall(json.dumps({"cmd": "approve", "id": "G1", **fields}).encode())
        out[name] = line.makefile().read()
out = {}
guessed = {"CHORAGOS_APPROVER_PASSPHRASE_FILE": guess}
choragos("token", "approve", "G1")
choragos("as", "approve", "G1", "--as", "alice", env=guessed)
choragos("reject", "reject", "G1")
choragos("key", "approve", "G1", "--as", "alice", "--key-dir", keys, env=guessed)
choragos("add", "approver", "add", "eve", env=guessed)
choragos("session", "approve", "G1", via=["setsid", "-w", "env", "-u", "CHORAGOS_ROLE_TOKEN",
         "-u", "CHORAGOS_SEAT", "-u", "CHORAGOS_PANE"])
raw("socket")
raw("forged", approver="alice", sig="A" * 86 + "==", signed_at=int(time.time() * 1e6))
if os.fork():
    while True:
        time.sleep(60)
os.setsid()
if os.fork():
    os._exit(0)
time.sleep(0.5)
env = {k: v for k, v in os.environ.items() if not k.startswith("CHORAGOS_") or k.endswith("SOCK")}
if len(sys.argv) == 3:
    open("out.json", "w").write(json.dumps(out))
    os.execve(sys.executable, [sys.executable, "sneak2.py"], env)
"""
SNEAK_2 = r"""
import json, os, subprocess, sys
out = json.load(open("out.json"))
done = subprocess.run([sys.executable, "-m", "deck.cli", "approve", "G1"],
                      capture_output=True, text=True)
out["forked"] = f"{done.returncode} {done.stdout}{done.stderr}"
open("out.new", "w").write(json.dumps(out)); os.rename("out.new", "tried.json")
"""


@pytest.mark.parametrize("signed", [True, False])
def test_an_agent_cannot_approve(rig: DeckRig, person: Person, signed: bool) -> None:
    """From a real pane: with its token, over the socket, without its marks, through a double
    fork, and with an approver's key file whose passphrase it does not know."""
    (rig.dir / "sneak.py").write_text(SNEAK)
    (rig.dir / "sneak2.py").write_text(SNEAK_2)
    guess = rig.dir / "guess"
    guess.write_text("not the passphrase")
    guess.chmod(0o600)
    tail = approvers(rig, "alice") if signed else ""
    keys = str(Path(rig.env["XDG_CONFIG_HOME"]) / "choragos/approvers")
    rig.team(
        agent_role("orchestrator"),
        agent_role("coder", approve=True),
        {"name": "sneak", "command": sys.executable, "args": ["sneak.py", keys, str(guess)]},
        tail=tail,
    )
    rig.serve()
    rig.delegate("coder", "x")
    team = (rig.dir / ".choragos.toml").read_text()
    (rig.dir / "go").touch()
    tried = json.loads(rig.wait((rig.dir / "tried.json").read_text, 60))
    role = "Only an operator may use"
    for name in ("token", "as", "reject", "key", "session", "socket", "forged"):
        assert role in tried[name], (name, tried[name])
    assert "cannot be traced" in tried["forked"]
    assert "outside the team" in tried["add"]
    assert (rig.dir / ".choragos.toml").read_text() == team
    gate = rig.status()["gates"][0]
    assert (gate["state"], gate["approvals"]) == ("open", [])
    assert rig.task("T1")["state"] == "gated"
    denied = [r for r in records(rig.state_dir / "ledger") if r["type"] == "deny"]
    assert [r["actor"]["role"] for r in denied] == ["sneak"] * 7 + ["unknown"] * 2
    # Outside the team a key without its passphrase is worth nothing either.
    if signed:
        stolen = rig.cli("approve", "G1", "--as", "alice", **{PASSPHRASE_ENV: str(guess)})
        assert (stolen.returncode, "does not open" in stolen.stderr) == (1, True)
        assert person("approve", "G1").startswith("G1 approved: T1\n")


def test_show_tells_a_role_no_file_and_is_json_on_request(rig: DeckRig, person: Person) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder", approve=True), agent_role("spy"))
    rig.serve()
    rig.wait_idle("spy")
    (rig.dir / "brief.md").write_text("the secret plan\n")
    rig.delegate("coder", "[bold]plan", brief=str(rig.dir / "brief.md"))
    told = json.loads(person("show", "G1", "--json"))
    assert [(p["title"], p["text"]) for p in told["parts"]] == [
        ("task", "[bold]plan"), ("brief", "the secret plan\n"),
    ]  # fmt: skip
    assert told["gate"]["what"] == "task"
    rig.delegate("spy", "!show|G1")
    rig.wait(lambda: any("only an operator is shown" in line for line in rig.seen("spy")))
    assert any(line.startswith("rc=0 G1") for line in rig.seen("spy"))
    text = (rig.dir / "seen-spy.txt").read_text()
    assert "secret plan" not in text
    assert person("show", "G1").startswith("G1  task, open\n")
    assert re.search(r"\n  \d{4}-\d\d-\d\dT\S+Z  given to coder by ", person("show", "T1"))
    assert "error: There is no gate or task 'X1'" in person("show", "X1")
