"""The control socket as hostile, old and careless clients use it."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deck_harness import DeckRig, agent_role

from deck.protocol import Verb
from deck.sessions import SessionError, bind


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeckRig]:
    rig = DeckRig(tmp_path_factory.mktemp("socket"))
    rig.team(agent_role("orchestrator"), agent_role("coder"))
    rig.serve()
    rig.wait_idle("orchestrator", "coder")
    yield rig
    rig.close()


def raw(path: Path, *parts: bytes, close_side: bool = False, pause: float = 0.0) -> bytes:
    """Send bytes as they are and return everything that comes back."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(8)
        connection.connect(str(path))
        try:
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
            if close_side:
                connection.shutdown(socket.SHUT_WR)
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
        except (BrokenPipeError, ConnectionResetError):
            return b""
        return answer


def test_an_existing_client_gets_the_ack_it_knows(rig: DeckRig) -> None:
    line = b'{"cmd":"delegate","to":["coder"],"task":"from an old client"}\n'
    answer = raw(rig.paths.socket, line)
    assert answer.startswith(b'{"status":"ok"')
    assert answer.endswith(b"\n")
    assert json.loads(answer)["targets"][0]["state"] == "queued"


def test_an_existing_client_that_ignores_acks_hears_of_a_refusal_in_the_pane(rig: DeckRig) -> None:
    answer = raw(rig.paths.socket, b'{"cmd":"delegate","to":["codre"],"task":"typo"}\n')
    assert json.loads(answer)["status"] == "ok"
    rig.wait(lambda: any("delegation to codre refused" in s for s in rig.seen("orchestrator")))


@pytest.mark.parametrize("close_side", [True, False])
def test_neither_a_newline_nor_a_closed_side_is_needed(rig: DeckRig, close_side: bool) -> None:
    parts = [bytes([byte]) for byte in b'{"cmd":"ping"}']
    answer = raw(rig.paths.socket, *parts, close_side=close_side, pause=0.002)
    assert json.loads(answer)["status"] == "ok"


@pytest.mark.parametrize(
    "data",
    [b'{"cmd":"fly"}', b'{"cmd":"delegate","to":"coder"}', b"hello\n", b'{"cmd":', b"[]", b"\0\0"],
)
def test_what_is_no_command_gets_an_error_ack(rig: DeckRig, data: bytes) -> None:
    answer = json.loads(raw(rig.paths.socket, data, close_side=True))
    assert answer["status"] == "error"
    assert answer["reason"].endswith(".")


@pytest.mark.parametrize("size", [(1 << 20) + 1, 3 << 20, 40 << 20])
def test_a_command_that_is_too_long_is_taken_to_its_end_and_told_why(
    rig: DeckRig, size: int
) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(8)
        connection.connect(str(rig.paths.socket))
        connection.sendall(b'{"cmd":"delegate","to":["coder"],"task":"' + b"x" * size + b'"}')
        answer = json.loads(connection.recv(65536))
    assert answer["status"] == "error"
    assert "brief file" in answer["reason"]
    assert json.loads(raw(rig.paths.socket, b'{"cmd":"ping"}'))["status"] == "ok"


@pytest.mark.parametrize("verb", ["roster-add", "pause", "resume", "restart", "answer", "enforce"])
def test_a_verb_that_is_not_carried_out_says_why(rig: DeckRig, verb: str) -> None:
    answer = json.loads(raw(rig.paths.socket, json.dumps({"cmd": verb}).encode()))
    assert answer["status"] == "error"
    assert answer["reason"].endswith(".")


def test_a_report_without_or_with_an_unknown_id_is_accepted(rig: DeckRig) -> None:
    for extra in ({}, {"id": "T999"}, {"id": "../../etc"}):
        line = json.dumps({"cmd": "work-done", "task": "ok", **extra}).encode()
        answer = json.loads(raw(rig.paths.socket, line))
        assert (answer["status"], answer["resolved"]) == ("ok", False)


def test_text_that_would_break_a_terminal_or_a_log_arrives_as_one_harmless_line(
    rig: DeckRig,
) -> None:
    nasty = "done\r\n\x1b[2J\x1b]0;x\x07\u2028 level=ERROR msg=forged \x00 ünïcode 🎉"
    before = len(rig.seen("orchestrator"))
    line = json.dumps({"cmd": "work-done", "task": nasty}).encode()
    assert json.loads(raw(rig.paths.socket, line))["status"] == "ok"
    rig.wait(lambda: any("forged" in s for s in rig.seen("orchestrator")[before:]))
    seen = next(s for s in rig.seen("orchestrator") if "forged" in s)
    assert seen.startswith("A worker reports: done")
    assert all(c.isprintable() for c in seen)
    assert "\nlevel=ERROR" not in rig.events()


def test_commands_at_the_limits_do_not_stop_the_ledger(rig: DeckRig) -> None:
    path = "/" + "ü" * 4000
    for command in (
        {"cmd": "delegate", "to": ["ü" * 256] * 1000, "task": "x"},
        {"cmd": "work-done", "task": "x" * 900_000, "id": "ü" * 256, "report": path},
        {"cmd": "approve", "id": "ü" * 256, "reason": "ü" * 2000},
    ):
        answer = json.loads(raw(rig.paths.socket, json.dumps(command, ensure_ascii=False).encode()))
        assert answer["status"] in ("ok", "error")
    assert rig.status()["journal"]["failure"] is None
    rig.wait(lambda: any("/üüü" in s for s in rig.seen("orchestrator")))
    assert rig.delegate("coder", "after")["state"] == "queued"


def test_silent_clients_cost_nobody_else_anything(rig: DeckRig) -> None:
    silent = []
    for _ in range(100):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(rig.paths.socket))
        silent.append(connection)
    assert rig.send(Verb.PING)["status"] == "ok"
    silent[0].setblocking(False)
    with pytest.raises(BlockingIOError):
        silent[0].recv(4096)  # answered before even the first silent one was given up
    silent[0].settimeout(30)
    assert b"5 s" in silent[0].recv(4096)
    for connection in silent:
        connection.close()


def test_random_bytes_never_stop_the_deck(rig: DeckRig) -> None:
    chance = random.Random(7)
    valid = json.dumps({"cmd": "work-done", "task": "x", "id": "T1", "done": False}).encode()
    before = rig.pid()
    for _ in range(300):
        data = bytearray(valid if chance.random() < 0.7 else chance.randbytes(60))
        for _ in range(chance.randint(0, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        cut = chance.randrange(len(data))
        raw(rig.paths.socket, bytes(data[:cut]), bytes(data[cut:]), close_side=True)
    raw(rig.paths.socket, b'{"task":"' + b"x" * (2 << 20))
    raw(rig.paths.socket, b'{"a":' + b"[" * 100_000)
    assert rig.send(Verb.PING)["status"] == "ok"
    assert rig.pid() == before
    assert not (rig.state_dir / "logs" / "crash.log").exists()


def test_a_client_whose_command_is_refused_before_its_end_reads_why(rig: DeckRig) -> None:
    ack = rig.send(Verb.DELEGATE, to=("coder",), task="x" * (6 << 20))
    assert ack["status"] == "error"
    assert "brief file" in ack["reason"]


def test_a_socket_whose_path_is_too_long_says_what_to_do(short_dir: Path) -> None:
    path = short_dir / ("x" * 100) / "deck.sock"
    path.parent.mkdir()
    with pytest.raises(
        SessionError, match=r"bytes long .* set XDG_RUNTIME_DIR or CHORAGOS_SOCK to"
    ):
        bind(path)
