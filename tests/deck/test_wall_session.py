"""A team behind the wall: real namespaces, real sockets, a deck and its agents."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from deck_harness import DeckRig, FakeGateway, agent_role
from wall_tools import real_bwrap

from deck.entries import TaskState

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the wall is built on Linux")

#: Tries one thing from inside a role and writes down what came of it.
TRY = """
import os, socket, sys, urllib.request
def attempt(what, target):
    if what == "tcp":
        host, port = target.rsplit(":", 1)
        socket.create_connection((host, int(port)), 2).close()
    elif what == "unix":
        socket.socket(socket.AF_UNIX).connect(target)
    elif what == "url":
        urllib.request.urlopen(os.environ["ANTHROPIC_BASE_URL"] + target, timeout=5)
    elif what == "list":
        return sorted(os.listdir(target))
    elif what == "write":
        open(target, "a").close()
    elif what == "move":
        os.rename(target, target + "-moved")
    elif what == "kill":
        os.kill(int(target), 0)
    elif what == "env":
        return os.environ.get(target)
    return "done"
said = []
for what, target in zip(sys.argv[1::2], sys.argv[2::2]):
    try:
        said.append(str(attempt(what, target)))
    except Exception as failure:
        said.append("no: " + str(failure))
print("; ".join(said))
"""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[DeckRig]:
    bwrap = real_bwrap()
    found = DeckRig(tmp_path)
    link = tmp_path / "bin"
    link.mkdir()
    (link / "bwrap").symlink_to(bwrap)
    found.env["PATH"] = f"{link}{os.pathsep}{found.env['PATH']}"
    (found.dir / "try.py").write_text(TRY)
    yield found
    found.close()


def attempt(rig: DeckRig, *words: str) -> str:
    """Have the walled coder run one attempt and return what it said."""
    log = rig.seen("coder")
    order = "|".join(words)
    answer = rig.delegate("coder", f"!{order}")
    assert answer["state"] in ("queued", "delivered"), answer
    said = rig.wait(lambda: [s for s in rig.seen("coder")[len(log) :] if s.startswith("rc=")])
    return str(said[0])


def start(rig: DeckRig, gateway: FakeGateway, *habits: str, **keys: object) -> None:
    rig.team(
        agent_role("lead"),
        agent_role("coder", "run", *habits, wall=True, **keys),
        tail=f'\n[sphragis]\nenabled = true\naddr = "{gateway.addr}"\n',
    )
    agent = rig.dir / "agent.py"
    text = agent.read_text()
    text = text.replace(
        'done = choragos(*order[1].split("|"))',
        'words = order[1].split("|")\n'
        '            done = choragos(*words) if words[0] != "try" else subprocess.run('
        "[sys.executable, 'try.py', *words[1:]], capture_output=True, text=True)",
    )
    agent.write_text(text)
    rig.serve("--sphragis")
    rig.wait_idle("lead", "coder")


def test_a_walled_role_reaches_the_gateway_and_nothing_else(
    rig: DeckRig, gateway: FakeGateway
) -> None:
    rig.git()
    secret = Path(rig.env["HOME"]) / ".sphragis"
    secret.mkdir()
    (secret / "vault").write_text("x")
    start(rig, gateway)
    state = Path(rig.env["XDG_STATE_HOME"]) / "choragos"
    with socket.create_server(("127.0.0.1", 0)) as other:
        tried = {
            ("url", "/v1/none"): "no: HTTP Error 404",
            ("tcp", f"127.0.0.1:{other.getsockname()[1]}"): "no: ",
            ("unix", str(rig.paths.socket)): "no: ",
            ("kill", str(rig.pid())): "no: ",
            ("list", str(secret)): "no: ",
            ("list", str(rig.state_dir / "ledger")): "[]",
            ("list", str(state)): "['homes']",
            ("write", ".choragos.toml"): "no: ",
            ("move", ".choragos.toml"): "no: ",
            ("move", ".choragos"): "no: ",
            ("write", ".git/config"): "no: ",
            ("move", ".git"): "no: ",
            ("write", "made-by-the-role"): "done",
            ("env", "HOME"): f"{state}/homes/",
        }
        said = attempt(rig, "try", *(word for pair in tried for word in pair))
    answers = said.removeprefix("rc=0 ").split("; ")
    for (question, expected), answer in zip(tried.items(), answers, strict=True):
        assert answer.startswith(expected), (question, answer)
    assert (rig.dir / "made-by-the-role").exists()


def test_a_walled_role_reports_but_is_never_an_operator(rig: DeckRig, gateway: FakeGateway) -> None:
    start(rig, gateway)
    assert "rc=0 reported" in attempt(rig, "work-done", "--id", "T1", "--task", "built")
    assert rig.task("T1")["state"] == TaskState.REPORTED
    for words in (("kill",), ("approve", "G1"), ("delegate", "--to", "lead", "--task", "x")):
        said = attempt(rig, *words)
        assert "rc=1" in said, said
    assert "command refused" in rig.events()
    assert "from=coder" in rig.events()


def test_a_walled_role_ends_with_grace_and_leaves_nothing(
    rig: DeckRig, gateway: FakeGateway
) -> None:
    start(rig, gateway, "grandchild")
    before = rig.marked()
    assert before
    assert rig.cli("kill").returncode == 0
    assert not rig.marked()
    assert not list(rig.short.glob("*/*.wall"))


def test_the_agents_of_a_killed_deck_end_with_it(rig: DeckRig, gateway: FakeGateway) -> None:
    start(rig, gateway)
    pids = [pid for pid in rig.marked() if b"CHORAGOS_ROLE=coder" in _environ(pid)]
    assert pids
    os.kill(rig.pid(), signal.SIGKILL)
    rig.wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def test_a_wall_that_cannot_be_enforced_keeps_the_team_from_starting(
    rig: DeckRig, gateway: FakeGateway
) -> None:
    rig.team(
        agent_role("lead"),
        agent_role("coder", wall=True),
        tail=f'\n[sphragis]\nenabled = true\naddr = "{gateway.addr}"\n',
    )
    refused = rig.cli("serve", "--detach", "--no-sphragis")
    assert refused.returncode == 1
    assert "its only way out is the gateway" in refused.stderr
    broken = Path(rig.env["HOME"]) / "bin" / "bwrap"
    broken.unlink()
    broken.write_text("#!/bin/sh\necho 'No permissions to create a namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    refused = rig.cli("serve", "--detach")
    assert refused.returncode == 1
    assert "role coder: wall = true cannot be enforced" in refused.stderr
    assert "No permissions" in refused.stderr
    assert not rig.marked()


def test_a_walled_role_that_dies_comes_back_behind_its_wall(
    rig: DeckRig, gateway: FakeGateway
) -> None:
    start(rig, gateway, "crash", restart="on-failure")
    rig.delegate("coder", "anything")
    rig.wait(lambda: rig.role("coder")["restarts"] == 1 and rig.role("coder")["state"] == "idle")
    rig.wait_task("T1", TaskState.PICKED_UP)
    with socket.create_server(("127.0.0.1", 0)) as other:
        said = attempt(rig, "try", "tcp", f"127.0.0.1:{other.getsockname()[1]}")
    assert said.startswith("rc=0 no: ")


def test_the_way_out_leads_to_a_gateway_that_was_started_again(
    rig: DeckRig, gateway: FakeGateway
) -> None:
    start(rig, gateway)
    port = int(gateway.addr.rpartition(":")[2])
    assert "404" in attempt(rig, "try", "url", "/x")
    gateway.close()
    with socket.create_server(("127.0.0.1", port)) as again:
        again.settimeout(30)
        answer = threading.Thread(target=_answer_teapot, args=(again,), daemon=True)
        answer.start()
        rig.wait(lambda: "418" in attempt(rig, "try", "url", "/x"))


def _answer_teapot(listener: socket.socket) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # the test is over
            return
        with connection:
            if b"/agent/coder/" in connection.recv(65536):
                connection.sendall(b"HTTP/1.0 418 I'm a teapot\r\n\r\n")
            else:
                connection.sendall(b'HTTP/1.0 200 OK\r\n\r\n{"ready": true}')


def test_a_team_that_requires_routing_does_not_start_with_a_way_past_the_gateway(
    rig: DeckRig, gateway: FakeGateway
) -> None:
    tail = f'\n[sphragis]\nenabled = true\nrequire_routing = true\naddr = "{gateway.addr}"\n'
    rig.team(agent_role("lead"), agent_role("coder", env_deny=["OPENAI_*"]), tail=tail)
    refused = rig.cli("serve", "--detach", OPENAI_API_KEY="sk-canary")
    assert refused.returncode == 1
    assert "role lead: require_routing = true, but it sees OPENAI_API_KEY" in refused.stderr
    assert "sk-canary" not in refused.stderr
    assert not rig.marked()
    off = rig.cli("serve", "--detach", "--no-sphragis")
    assert off.returncode == 1
    assert "the gateway is off" in off.stderr
    rig.serve("--sphragis")
    rig.wait_idle("lead", "coder")


def test_a_role_that_joins_later_is_behind_its_wall_or_does_not_join(
    rig: DeckRig, gateway: FakeGateway
) -> None:
    tail = f'[sphragis]\nenabled = true\naddr = "{gateway.addr}"\n'
    rig.team(agent_role("orchestrator"), tail=tail)
    rig.serve("--sphragis")
    rig.wait_idle("orchestrator")
    rig.team(agent_role("orchestrator"), agent_role("coder", wall=True), tail=tail)
    bwrap = Path(rig.env["HOME"]) / "bin" / "bwrap"
    real = bwrap.readlink()
    bwrap.unlink()
    bwrap.write_text("#!/bin/sh\nexit 1\n")
    bwrap.chmod(0o755)
    failed = rig.cli("reload")
    assert failed.returncode == 1
    assert "Nothing was changed: role coder: wall = true cannot be enforced" in failed.stderr
    assert [row["name"] for row in rig.status()["roles"]] == ["orchestrator"]
    bwrap.unlink()
    bwrap.symlink_to(real)
    done = rig.cli("reload")
    assert (done.returncode, "added: coder" in done.stdout) == (0, True)
    assert 'msg="wall proved" role=coder' in rig.events()
    rig.wait_idle("coder")
    said = attempt(rig, "pause", "orchestrator")
    assert "Only an operator may use pause" in said
