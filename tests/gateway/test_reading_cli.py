"""`sphragis log` and `sphragis export` as people run them, with a real gateway and without."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from gateway_harness import Gateway, Provider, running, sphragis_forked
from reading_logs import EVERY_KIND, NOON, open_log, request, sample

from gateway.cli import run
from shared.ledger import Ledger, verify_path
from shared.ledger.merkle import leaf_hash
from shared.ledger.reading import read
from shared.ledger.selecting import Filter

BIN = Path(sys.executable).parent / "sphragis"
EMAIL = "erika.mustermann@example.org"


def environment(home: Path, **more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPHRAGIS_")}
    return {**clean, "SPHRAGIS_HOME": str(home), "TZ": "UTC", **more}


def sphragis(*arguments: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return sphragis_forked(*arguments, env=environment(home, **more))


def one_sentence(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 1, result
    [line] = result.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert line.endswith(".")
    return line


def call(gateway: Gateway, role: str) -> None:
    body = {
        "model": "claude-sonnet-5",
        "max_tokens": 50,
        "messages": [{"role": "user", "content": f"write to {EMAIL}"}],
    }
    asked = urllib.request.Request(
        f"{gateway.url}/agent/{role}/v1/messages",
        json.dumps(body).encode(),
        {
            "content-type": "application/json",
            "x-api-key": "sk-ant-test",
            "anthropic-version": "2023-06-01",
        },
    )
    with urllib.request.urlopen(asked, timeout=30) as answer:
        answer.read()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    provider = Provider()
    provider.start()
    home = tmp_path_factory.mktemp("reading") / "home"
    with running(home, provider.url) as started:
        for role in ("coder", "coder", "reviewer"):
            call(started, role)
        for record in started.records():
            if record["type"] == "request":
                started.outcome_of(record["seq"])
        yield started
    provider.stop()


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for tests that change nothing."""
    return home_with_log(tmp_path_factory.mktemp("shared") / "home")


@pytest.fixture
def closed_home(tmp_path: Path) -> Path:
    """A home with a ledger that nobody holds."""
    return home_with_log(tmp_path / "home")


def home_with_log(home: Path) -> Path:
    home.mkdir()
    sample(home / "ledger")
    (home / "ledger-keys").rename(home / "keys")
    return home


def records_in(home: Path) -> list[dict[str, Any]]:
    return [item.record for item in read(home / "ledger", Filter())]


# -- log -------------------------------------------------------------------------------------------


def test_the_log_of_a_running_gateway_is_read_beside_it(gateway: Gateway) -> None:
    result = sphragis("log", "-n", "0", home=gateway.home)
    assert result.returncode == 0, result
    lines = result.stdout.splitlines()
    assert "\t" not in result.stdout
    assert "\x1b" not in result.stdout
    assert re.search(
        r"call to anthropic, model claude-sonnet-5; 1 value replaced \(1 EMAIL\)",
        lines[4] + lines[5] + lines[6],
    )
    assert EMAIL not in result.stdout


def test_a_filter_by_role_brings_requests_with_their_ends(gateway: Gateway) -> None:
    result = sphragis("log", "--role", "reviewer", "--json", home=gateway.home)
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["record"]["type"] for one in found] == ["request", "outcome"]
    assert found[1]["record"]["ref"] == found[0]["record"]["seq"]


def test_an_empty_answer_says_so_beside_the_answer(shared_home: Path) -> None:
    result = sphragis("log", "--role", "nobody", home=shared_home)
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == "No record matches.\n"
    result = sphragis("log", "--role", "nobody", "--json", home=shared_home)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_json_lines_hold_the_exact_record_and_its_leaf(gateway: Gateway) -> None:
    result = sphragis("log", "--json", home=gateway.home)
    for line in result.stdout.splitlines():
        leaf, record = re.fullmatch(r'\{"leaf":"([0-9a-f]{64})","record":(.*)\}', line).groups()  # type: ignore[union-attr]
        assert leaf_hash(record.encode()).hex() == leaf


def test_one_record_is_explained_with_its_end_and_its_proof(gateway: Gateway) -> None:
    seq = next(record["seq"] for record in gateway.records() if record["type"] == "request")
    told = sphragis("log", "show", str(seq), home=gateway.home).stdout
    for part in (
        "before a byte left for the provider",
        "role coder",
        "1 value replaced (1 EMAIL)",
        "answered (200)",
        "said allow",
        "its text is in ",
        "checkpoint",
        "sphragis proof",
    ):
        assert part in told, told
    end = gateway.outcome_of(seq)["seq"]
    assert (
        f"record {seq}: call to anthropic"
        in sphragis("log", "show", str(end), home=gateway.home).stdout
    )


def test_every_kind_of_record_can_be_explained(
    shared_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seq, (kind, _) in enumerate(EVERY_KIND, start=1):
        assert run(["log", "show", str(seq), "--ledger", str(shared_home / "ledger")]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert f"record  {seq}, written 2026-11-29" in out, kind
        for heading in ("what", "meaning", "who", "leaf", "checkpoint", "to prove it"):
            assert f"{heading:>12}  " in out


def test_figures_are_told_by_role_and_day(gateway: Gateway) -> None:
    text = sphragis("log", "stats", home=gateway.home).stdout
    assert re.search(r"^coder +2 +0 +2 ", text, re.M), text
    told = json.loads(sphragis("log", "stats", "--json", home=gateway.home).stdout)
    assert told["roles"]["coder"]["calls"] == 2
    assert told["roles"]["reviewer"]["redactions"] == {"EMAIL": 1}
    assert told["open_requests"] == []
    assert told["files"]["segments"] == 1


def test_following_shows_new_records_and_ends_at_ctrl_c(gateway: Gateway) -> None:
    follower = subprocess.Popen(
        [str(BIN), "log", "-f", "-n", "1", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(gateway.home),
    )
    assert follower.stdout is not None
    first = json.loads(follower.stdout.readline())["record"]["seq"]
    call(gateway, "lead")
    later = [json.loads(follower.stdout.readline())["record"] for _ in range(2)]
    assert [record["seq"] for record in later] == [first + 1, first + 2]
    assert later[0]["actor"]["role"] == "lead"
    follower.send_signal(signal.SIGINT)
    _, errors = follower.communicate(timeout=20)
    assert (follower.returncode, errors) == (0, "")


def test_a_terminal_gets_a_table(shared_home: Path) -> None:
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [str(BIN), "log"],
        stdout=follower,
        stderr=follower,
        env=environment(shared_home, COLUMNS="140", TERM="xterm-256color"),
    )
    os.close(follower)
    seen = bytearray()
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        seen += piece
    assert process.wait(60) == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", seen.decode())
    assert "what happened" in text
    assert "refused POST /v1/odd for unknown_route" in text
    assert all(len(line.rstrip()) <= 140 for line in text.splitlines())


def test_hostile_text_does_not_reach_the_terminal_as_commands(tmp_path: Path) -> None:
    with open_log(tmp_path / "ledger") as ledger:
        ledger.append(
            "request",
            request(
                1, "\x1b]0;owned\x07", "T\u202e1", model={"provider": "p\nq", "name": "\x9b2J"}
            ),
        ).result()
    for arguments in (["log"], ["log", "show", "1"], ["log", "stats"]):
        result = sphragis(*arguments, "--ledger", str(tmp_path / "ledger"), home=tmp_path)
        assert result.returncode == 0, result
        assert all(line.isprintable() for line in result.stdout.splitlines()), result.stdout


def test_the_log_of_a_deck_is_found_from_its_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".choragos").mkdir(parents=True)
    sample(project / ".choragos" / "ledger")
    told = sphragis("log", "--deck", str(project), "--task", "T2", home=tmp_path).stdout
    assert "task T2 for coder from lead, waits for a gate" in told
    assert "gate G1 approved for T2 by you" in told


def test_reading_does_not_disturb_a_writer(tmp_path: Path) -> None:
    directory = tmp_path / "ledger"
    with open_log(directory, segment_bytes=20_000) as ledger:
        done = threading.Event()

        def write() -> None:
            number = 0
            while not done.is_set():
                number += 1
                ledger.append("request", request(number)).result()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(3):
                result = sphragis("log", "--json", "--ledger", str(directory), home=tmp_path)
                assert result.returncode == 0, result
                numbers = [json.loads(line)["record"]["seq"] for line in result.stdout.splitlines()]
                assert numbers == list(range(len(numbers)))
        finally:
            done.set()
            writer.join()
        assert ledger.failure is None


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["log", "--kind", "outcom"], "the nearest is outcome"),
        (["log", "--since", "soon"], "is not understood"),
        (["log", "--seq", "x"], "looks like 17"),
        (["log", "show", "999"], "There is no record 999"),
        (["log", "--ledger", "/nowhere"], "There is no ledger at /nowhere"),
        (["log", "--deck", "/"], "No deck has worked in /"),
        (["log", "--ledger", "a", "--deck", "b"], "not both"),
        (["log", "stats", "--ledger", "/nowhere"], "There is no ledger"),
        (["export", "--format", "csv"], "There is no format 'csv'"),
        (["export", "--format", "cef", "--endpoint", "http://127.0.0.1:1"], "Only --format otlp"),
        (["export", "--format", "otlp", "--endpoint", "nonsense"], "not an http or https URL"),
        (["export", "--format", "otlp", "--endpoint", "http://127.0.0.1:1", "-o", "x"], "not both"),
        (["export", "--format", "tlog-tiles"], "name it with -o"),
        (["export", "--format", "tlog-tiles", "--role", "x", "-o", "x"], "leave the filters out"),
        (["export", "--format", "cef", "-o", "/nowhere/x"], "cannot be written"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    shared_home: Path,
    arguments: list[str],
    part: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SPHRAGIS_HOME", str(shared_home))
    assert run(arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.endswith(".\n")
    assert err.count("\n") == 1
    assert part in err
    assert len(records_in(shared_home)) == 1 + len(EVERY_KIND)


# -- export ----------------------------------------------------------------------------------------


def test_an_export_beside_a_gateway_is_recorded_by_it(gateway: Gateway, tmp_path: Path) -> None:
    target = tmp_path / "calls.cef"
    result = sphragis(
        "export", "-F", "cef", "--role", "coder", "-o", str(target), home=gateway.home
    )
    assert result.returncode == 0, result
    assert result.stdout == ""
    [record] = [one for one in gateway.records() if one["type"] == "export"][-1:]
    assert record["ext"]["sha256"] == hashlib.sha256(target.read_bytes()).hexdigest()
    assert record["ext"]["filter"] == {"roles": ["coder"]}
    assert record["ext"]["count"] == 4
    assert record["ext"]["uid"] == os.getuid()
    assert record["ext"]["user"]
    assert record["ext"]["to"] == "calls.cef"
    assert f"recorded as {record['seq']} in " in result.stderr


def test_an_export_without_a_gateway_opens_the_ledger_itself(closed_home: Path) -> None:
    result = sphragis("export", "-F", "ocsf", home=closed_home)
    assert result.returncode == 0, result
    record = records_in(closed_home)[-1]
    assert record["type"] == "export"
    assert record["ext"]["sha256"] == hashlib.sha256(result.stdout.encode()).hexdigest()
    assert len(result.stdout.splitlines()) == record["ext"]["count"] == 20


def test_an_export_that_cannot_be_recorded_is_not_made(closed_home: Path, tmp_path: Path) -> None:
    shutil.rmtree(closed_home / "keys")
    target = tmp_path / "out.cef"
    sentence = one_sentence(sphragis("export", "-F", "cef", "-o", str(target), home=closed_home))
    assert "The export was not made, because it cannot be recorded: " in sentence
    assert not target.exists()
    assert not list(tmp_path.glob(".out.cef*"))
    assert sphragis("export", "-F", "cef", home=closed_home).stdout == ""


def test_a_ledger_that_another_program_holds_is_not_exported_unrecorded(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with open_log(home / "ledger"):
        (home / "keys").symlink_to(home / "ledger-keys")
        sentence = one_sentence(sphragis("export", "-F", "cef", home=home))
    assert "is in use by process" in sentence


def test_the_export_of_a_decks_log_is_recorded_there(tmp_path: Path) -> None:
    origin, state = "choragos.local/deck/0a1b2c3d", tmp_path / "state"
    keys = state / "choragos" / "keys" / "0a1b2c3d"
    ledger = tmp_path / "project" / ".choragos" / "ledger"
    ledger.parent.mkdir(parents=True)
    with Ledger.open(ledger, keys=keys, origin=origin) as deck:
        deck.append("journal", {"ext": {"op": "finished", "at": NOON}}).result()
    more = {"XDG_STATE_HOME": str(state)}
    result = sphragis(
        "export", "-F", "cef", "--deck", str(tmp_path / "project"), home=tmp_path / "h", **more
    )
    assert result.returncode == 0, result
    assert result.stderr.count(origin) == 1
    told = sphragis(
        "log", "--deck", str(tmp_path / "project"), "-n", "1", home=tmp_path / "h"
    ).stdout
    assert "2 records exported as cef" in told


def test_the_export_of_a_running_decks_log_is_recorded_by_the_gateway(
    gateway: Gateway, tmp_path: Path
) -> None:
    origin, state = "choragos.local/deck/0a1b2c3e", tmp_path / "state"
    keys = state / "choragos" / "keys" / "0a1b2c3e"
    with Ledger.open(tmp_path / "ledger", keys=keys, origin=origin):
        result = sphragis(
            *("export", "-F", "cef", "--deck", str(tmp_path)),
            home=gateway.home,
            XDG_STATE_HOME=str(state),
        )
    assert result.returncode == 0, result
    record = [one for one in gateway.records() if one["type"] == "export"][-1]
    assert record["ext"]["origin"] == origin


def test_the_export_of_a_foreign_copy_is_recorded_in_the_gateways_own_ledger(
    gateway: Gateway, tmp_path: Path
) -> None:
    copy = sample(tmp_path / "copy")
    result = sphragis("export", "-F", "cef", "--ledger", str(copy), home=gateway.home)
    assert result.returncode == 0, result
    record = [one for one in gateway.records() if one["type"] == "export"][-1]
    assert record["ext"]["origin"] == "sphragis/0123456789abcdef"
    alone = sphragis("export", "-F", "cef", "--ledger", str(copy), home=tmp_path / "nothing")
    assert "there is no ledger of this gateway" in one_sentence(alone)
    assert alone.stdout == ""


def test_a_whole_native_export_verifies(gateway: Gateway, tmp_path: Path) -> None:
    target = tmp_path / "log.jsonl"
    assert sphragis("export", "-F", "jsonl", "-o", str(target), home=gateway.home).returncode == 0
    verdict = verify_path(target)
    assert verdict.findings == ()
    assert verdict.records > 8


def test_tiles_are_written_as_a_directory(closed_home: Path, tmp_path: Path) -> None:
    target = tmp_path / "tiles"
    result = sphragis("export", "-F", "tlog-tiles", "-o", str(target), home=closed_home)
    assert result.returncode == 0, result
    assert (target / "checkpoint").read_text().split("\n")[1] == "20"
    assert (target / "tile").is_dir()
    assert (
        "20 records exported as tlog-tiles" in sphragis("log", "-n", "1", home=closed_home).stdout
    )


class _Receiver(BaseHTTPRequestHandler):
    bodies: list[bytes] = []
    refusals = 1

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        cls = type(self)
        busy = cls.refusals > 0
        cls.refusals -= busy
        if not busy:
            cls.bodies.append(body)
        self.send_response(503 if busy else 200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        pass


def test_an_otlp_endpoint_gets_what_was_recorded(closed_home: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}"
        result = sphragis("export", "-F", "otlp", "--endpoint", endpoint, home=closed_home)
    finally:
        server.shutdown()
        server.server_close()
    assert result.returncode == 0, result
    sent = b"".join(body + b"\n" for body in _Receiver.bodies)
    record = records_in(closed_home)[-1]
    assert record["ext"]["sha256"] == hashlib.sha256(sent).hexdigest()
    assert record["ext"]["to"] == f"{endpoint}"


def test_the_command_line_loads_nothing_of_this_before_it_is_asked() -> None:
    heavy = ("rich", "httpx", "shared.ledger", "shared.exports", "gateway.log_view")
    code = f"import sys, gateway.cli; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stdout.strip() == b"[]"
