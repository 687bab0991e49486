"""The control socket of a running gateway: stamps, operators, and those who are neither.

This process plays the deck: it stamps, so its children count as a team of agents.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gateway_harness import Gateway, Provider, running, sphragis_forked

from gateway.control import _clear
from gateway.control_client import ControlRefused, NoGateway, ask
from gateway.errors import GatewayError
from gateway.listening import StartError
from gateway.unix_path import reachable
from shared.ledger import verify_path
from shared.ledger.texts import list_texts, read_text

KEY = "sk-control-0123456789abcdef"


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider()
    provider.start()
    yield provider
    provider.stop()


@contextmanager
def started(provider: Provider, folder: Path) -> Iterator[Gateway]:
    # Deeper than a socket's path may be long.
    home = folder / ("deep" * 20) / "home"
    home.parent.mkdir()
    with running(home, provider.url, anthropic_api_key=KEY) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def shared(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with started(provider, tmp_path_factory.mktemp("control")) as gateway:
        yield gateway


@pytest.fixture
def alone(provider: Provider, tmp_path: Path) -> Iterator[Gateway]:
    """A gateway for a test that stops or breaks it."""
    with started(provider, tmp_path) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared: Gateway) -> Iterator[Gateway]:
    """The shared gateway without stamps; `of_type` sees only what the test causes."""
    _before[shared.home] = len(shared.records())
    yield shared
    for one in ask(shared.home, "/v1/status")["sessions"]:
        for role in one["roles"]:
            stamp(shared, role, None, session=one["session"])
    del _before[shared.home]


_before: dict[Path, int] = {}


def call(
    gateway: Gateway, role: str, path: str = "/v1/messages", **more: Any
) -> tuple[int, Any, str]:
    document = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hello"}]}
    request = urllib.request.Request(
        f"{gateway.url}/agent/{role}{path}",
        json.dumps({**document, **more}).encode(),
        {"content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers, refused.read().decode()


def stamp(gateway: Gateway, role: str, task: str | None, session: str = "run-1") -> dict[str, Any]:
    return ask(gateway.home, "/v1/stamp", {"session": session, "role": role, "task": task})


def by_child(gateway: Gateway, path: str, body: dict[str, Any], **environ: str) -> str:
    """Ask from a child process; return its answer or the code it was refused with."""
    code = (
        "import json,sys;from pathlib import Path;from gateway.control_client import *\n"
        "try: print(json.dumps(ask(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))))\n"
        "except ControlRefused as no: print(no.code)\n"
    )
    line = [sys.executable, "-c", code, str(gateway.home), path, json.dumps(body)]
    done = subprocess.run(
        line, capture_output=True, text=True, check=True, env={**os.environ, **environ}
    )
    return done.stdout.strip()


def of_type(gateway: Gateway, *kinds: str) -> list[dict[str, Any]]:
    records = gateway.records()[_before.get(gateway.home, 0) :]
    return [record for record in records if record["type"] in kinds]


def test_every_record_of_a_call_carries_the_session_and_task_of_its_role(gateway: Gateway) -> None:
    call(gateway, "coder")
    stamp(gateway, "coder", "")
    stamp(gateway, "coder", "T1")
    call(gateway, "coder")
    call(gateway, "other")
    stamp(gateway, "coder", "T2")
    call(gateway, "coder", stream=True)
    call(gateway, "coder", "/v1/nothing")
    stamp(gateway, "coder", "")
    call(gateway, "coder")
    seqs = [record["seq"] for record in of_type(gateway, "request")]
    gateway.outcome_of(seqs[-1])
    joins = [(r.get("run"), r.get("task")) for r in of_type(gateway, "request")]
    assert joins == [
        (None, None),
        ("run-1", "T1"),
        (None, None),
        ("run-1", "T2"),
        ("run-1", None),
    ]
    outcomes = {r["ref"]: (r.get("run"), r.get("task")) for r in of_type(gateway, "outcome")}
    assert [outcomes[seq] for seq in seqs] == joins
    (denied,) = of_type(gateway, "deny")
    assert (denied["run"], denied["task"], denied["actor"]["role"]) == ("run-1", "T2", "coder")


def test_a_stamp_is_recorded_before_the_calls_it_is_on_with_who_said_so(gateway: Gateway) -> None:
    stamp(gateway, "coder", "T1")
    stamp(gateway, "coder", "T1")
    call(gateway, "coder")
    stamp(gateway, "coder", None)
    given, taken = of_type(gateway, "delegate"), of_type(gateway, "revoke")
    assert len(given) == len(taken) == 1
    assert given[0]["seq"] < of_type(gateway, "request")[0]["seq"] < taken[0]["seq"]
    by = given[0]["ext"]["by"]
    assert (by["pid"], by["uid"]) == (os.getpid(), os.getuid())
    assert by["program"]
    assert (given[0]["run"], given[0]["task"]) == ("run-1", "T1")
    assert given[0]["action"]["target"] == "coder"


def test_every_answer_to_a_recorded_call_names_its_record(
    alone: Gateway, provider: Provider
) -> None:
    gateway = alone
    for more in ({}, {"stream": True}):
        _, headers, _ = call(gateway, "coder", **more)
        request = of_type(gateway, "request")[-1]
        assert headers["X-Audit-Receipt"].split(";")[1] == str(request["seq"])
    for path in ("/v1/nothing", "/v1/messages/batches/%00"):
        status, headers, _ = call(gateway, "coder", path)
        assert status in (403, 404)
        assert headers["X-Audit-Receipt"].split(";")[1] == str(of_type(gateway, "deny")[-1]["seq"])
    with socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2]))) as raw:
        raw.sendall(b"no HTTP at all\r\n\r\n")
        garbage = raw.recv(65536).lower()
    assert b"x-audit-receipt: " in garbage
    status, headers, _ = call(gateway, "no%2Frole")
    assert headers["X-Audit-Receipt"].split(";")[1] == str(of_type(gateway, "deny")[-1]["seq"])
    provider.stop()
    try:
        status, headers, _ = call(gateway, "coder")
        assert status == 502
        request = of_type(gateway, "request")[-1]
        assert headers["X-Audit-Receipt"].split(";")[1] == str(request["seq"])
    finally:
        provider._loop = asyncio.new_event_loop()
        provider.start()


def test_a_team_cannot_stamp_nor_operate_its_gateway(gateway: Gateway) -> None:
    """Its processes descend from the deck, whatever their environment says."""
    stamp(gateway, "coder", "T1")
    clean = {"CHORAGOS_ROLE": "", "CHORAGOS_SEAT": ""}
    theirs = {"session": "run-1", "role": "coder", "task": "T9"}
    for path, body in (
        ("/v1/stamp", theirs),
        ("/v1/stamp", {**theirs, "session": "run-2"}),
        ("/v1/seal", {}),
        ("/v1/rotate-key", {}),
    ):
        assert by_child(gateway, path, body, **clean) == "inside_team"
    call(gateway, "coder")
    assert of_type(gateway, "request")[-1]["task"] == "T1"
    denied = of_type(gateway, "deny")
    assert [r["action"]["name"] for r in denied] == ["stamp", "stamp", "seal", "rotate-key"]
    assert all(r["outcome"]["status"] == "refused" for r in denied)
    assert all(r["ext"]["by"]["pid"] != os.getpid() for r in denied)
    assert not of_type(gateway, "seal", "key_rotate")


def test_the_mark_of_a_seat_is_enough_to_be_no_operator(gateway: Gateway) -> None:
    assert by_child(gateway, "/v1/seal", {}, CHORAGOS_SEAT="ab12:coder") == "inside_team"
    marked = {"session": "r", "role": "a", "task": "T1"}
    assert by_child(gateway, "/v1/stamp", marked, CHORAGOS_ROLE="coder") == "inside_team"
    assert json.loads(by_child(gateway, "/v1/status", {}, CHORAGOS_ROLE="coder"))["ready"] is True


def test_only_the_first_process_stamps_a_session_and_its_successor_after_it(
    gateway: Gateway,
) -> None:
    theirs = {"session": "run-7", "role": "coder", "task": "T1"}
    assert json.loads(by_child(gateway, "/v1/stamp", theirs))["task"] == "T1"
    # That child has ended: this process may follow it, and then nobody else.
    stamp(gateway, "coder", "T2", session="run-7")
    assert by_child(gateway, "/v1/stamp", theirs) == "inside_team"


def test_an_operators_change_is_recorded_before_and_after(gateway: Gateway) -> None:
    answer = ask(gateway.home, "/v1/seal")
    assert answer["size"] > 0
    assert len(of_type(gateway, "seal")) == 1
    asked, done = of_type(gateway, "journal")
    assert (asked["action"]["name"], asked["ext"]["step"]) == ("seal", "asked")
    assert (done["ref"], done["ext"]["step"]) == (asked["seq"], "done")
    assert asked["ext"]["by"]["pid"] == os.getpid()


def test_a_new_key_signs_from_then_on(gateway: Gateway) -> None:
    old = ask(gateway.home, "/v1/checkpoint")["vkey"]
    new = ask(gateway.home, "/v1/rotate-key")["vkey"]
    assert new != old
    assert len(of_type(gateway, "key_rotate")) == 1
    call(gateway, "coder")


def test_what_is_no_request_is_refused_with_a_sentence(gateway: Gateway) -> None:
    for path, body, code in (
        ("/v1/nothing", {}, "unknown"),
        ("/v2/seal", {}, "unknown"),
        ("/v1/stamp", {"session": "s", "role": 7, "task": ""}, "shape"),
        ("/v1/stamp", {"session": "s", "role": "a", "task": "not a name"}, "stamp_refused"),
        ("/v1/stamp", {"session": "s", "role": "a", "task": "", "address": "h:1"}, "wrong_gateway"),
        ("/v1/stamp", {"session": "x" * (2 << 20)}, "too_large"),
    ):
        with pytest.raises(ControlRefused) as refused:
            ask(gateway.home, path, body)
        assert refused.value.code == code
        assert str(refused.value)
    with reachable(gateway.home / "control.sock") as path, socket.socket(socket.AF_UNIX) as raw:
        raw.connect(path)
        raw.sendall(b"POST /v1/seal HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\n[1]")
        assert b" 400 " in raw.recv(65536).split(b"\r\n")[0]
    assert not of_type(gateway, "seal")


def test_status_and_checkpoint_are_for_everybody_of_this_user(gateway: Gateway) -> None:
    stamp(gateway, "coder", "T1")
    status = ask(gateway.home, "/v1/status")
    assert status["ready"] is True
    assert f"http://{status['address']}" == gateway.url
    assert status["sessions"] == [
        {"session": "run-1", "pid": os.getpid(), "alive": True, "roles": {"coder": "T1"}}
    ]
    note = ask(gateway.home, "/v1/checkpoint")["checkpoint"]
    assert note.startswith(status["origin"])
    info = (gateway.home / "control.sock").lstat()
    assert info.st_mode & 0o777 == 0o600


def test_a_killed_gateway_knows_the_stamps_again_and_replaces_its_socket(alone: Gateway) -> None:
    gateway = alone
    stamp(gateway, "coder", "T1")
    gateway.kill()
    with pytest.raises(NoGateway):
        ask(gateway.home, "/v1/status")
    gateway.start()
    call(gateway, "coder")
    assert of_type(gateway, "request")[-1]["task"] == "T1"
    gateway.stop()
    assert not (gateway.home / "control.sock").exists()


def test_a_socket_that_was_cleaned_away_comes_back(gateway: Gateway) -> None:
    (gateway.home / "control.sock").unlink()
    wait_for((gateway.home / "control.sock").exists)
    stamp(gateway, "coder", "T1")
    call(gateway, "coder")
    assert of_type(gateway, "request")[-1]["task"] == "T1"


def test_a_living_socket_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with reachable(path) as short, socket.socket(socket.AF_UNIX) as living:
        living.bind(short)
        living.listen()
        with pytest.raises(StartError, match="Another program"):
            _clear(path, short)
        living.close()
        _clear(path, short)
    assert not path.exists()
    path.write_text("mine")
    with pytest.raises(StartError, match="not a socket"):
        _clear(path, str(path))


def test_no_gateway_is_told_apart_from_one_that_fails(tmp_path: Path) -> None:
    with pytest.raises(NoGateway, match="sphragis serve"):
        ask(tmp_path / "nowhere", "/v1/status")
    with socket.socket(socket.AF_UNIX) as mute, reachable(tmp_path / "control.sock") as path:
        mute.bind(path)
        mute.listen()
        with pytest.raises(GatewayError, match="does not answer"):
            ask(tmp_path, "/v1/status", patience=0.2)


def test_policy_and_settings_are_kept_whole_under_their_digests_without_a_key(
    gateway: Gateway,
) -> None:
    ledger = gateway.home / "ledger"
    _before[gateway.home] = 0
    (policy,) = of_type(gateway, "policy_set")
    text = read_text(ledger, policy["policy"]["digest"])
    assert hashlib.sha256(text).hexdigest() == policy["policy"]["digest"]
    assert b"[kinds]" in text
    assert len(policy["ext"]["detectors"]["sha256"]) == 64
    (config,) = of_type(gateway, "config_set")
    kept = json.loads(read_text(ledger, config["ext"]["digest"]))
    assert kept["anthropic_api_key"] == "(set)"
    assert kept["openai_api_key"] is None
    assert kept["home"] == str(gateway.home)
    assert len(list_texts(ledger)) == 2
    for path in ledger.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes()


# -- what is open keeps its segment ---


def test_a_segment_with_a_delegation_in_force_is_not_pruned(
    provider: Provider, tmp_path: Path
) -> None:
    old = {"before": "2200-01-01", "basis": "storage limit", "operator": "op"}
    named = "a delegation that is in force forbids it until it is revoked for record "

    def prune_closed() -> tuple[int, str]:
        line = ["prune", "--before", "2200-01-01", "--basis", "b"]
        env = {**os.environ, "SPHRAGIS_HOME": str(tmp_path / "home")}
        done = sphragis_forked(*line, env=env)
        return done.returncode, done.stderr

    with running(tmp_path / "home", provider.url) as gateway:
        stamp(gateway, "coder", "T1")
        ask(gateway.home, "/v1/seal")
        with pytest.raises(ControlRefused, match=named):
            ask(gateway.home, "/v1/prune", old)
        assert gateway.stop() == 0
        code, said = prune_closed()
        assert (code, named in said) == (1, True), "the deck, this process, still lives"
        gateway.start()
        stamp(gateway, "coder", None)
        by_child(gateway, "/v1/stamp", {"session": "run-2", "role": "coder", "task": "T9"})
        ask(gateway.home, "/v1/seal")
        with pytest.raises(ControlRefused, match=named):
            ask(gateway.home, "/v1/prune", old)  # its deck died just now: calls still carry T9
        assert gateway.stop() == 0
    assert prune_closed() == (0, "")
    verdict = verify_path(tmp_path / "home" / "ledger")
    assert verdict.exit_code == 0, verdict.findings


# -- a disk with little space ---


def test_a_nearly_full_disk_stops_calls_with_a_sentence_and_lets_them_go_on_by_itself(
    provider: Provider, tmp_path: Path
) -> None:
    free_mib = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize >> 20
    if free_mib < 2048:
        pytest.skip("the disk of the tests has too little space to make it look full")
    low = str(free_mib - 512)
    filler = tmp_path / "filler"
    with running(tmp_path / "home", provider.url, disk_low_water_mib=low) as gateway:
        assert call(gateway, "coder")[0] == 200
        ask(gateway.home, "/v1/seal")
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 1024 << 20)
        try:
            wait_for(lambda: gateway.get("/readyz")[0] == 503)
            size = len(gateway.records())
            status, headers, body = call(gateway, "coder")
            assert (status, "X-Audit-Receipt" in headers) == (503, False)
            assert "nearly full" in body
            assert b"nearly full" in gateway.get("/readyz")[1]
            assert gateway.get("/metrics")[0] == 503
            with pytest.raises(ControlRefused, match="nearly full"):
                stamp(gateway, "coder", "T1")
            assert len(gateway.records()) - size <= 1  # the ledger's own word at most
            old = {"before": "2200-01-01", "basis": "the disk is full", "operator": "op"}
            assert ask(gateway.home, "/v1/prune", old)["segments"] == 1
        finally:
            filler.unlink()
        wait_for(lambda: gateway.get("/readyz")[0] == 200)
        stamp(gateway, "coder", "T1")
        assert call(gateway, "coder")[0] == 200
        assert of_type(gateway, "request")[-1]["task"] == "T1"


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.1)
