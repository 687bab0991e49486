"""The `sphragis` command as users and existing decks run it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_harness import Gateway, running
from ports import free_port

from gateway import pidfile
from gateway.cli import run
from shared import __version__

BIN = Path(sys.executable).parent / "sphragis"


def sphragis(*arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPHRAGIS_")}
    return subprocess.run(
        [str(BIN), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**clean, "SPHRAGIS_HOME": str(home), **environment},
    )


def one_sentence(result: subprocess.CompletedProcess[str], code: int = 1) -> str:
    assert result.returncode == code, result
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert last.endswith(".")
    assert "Traceback" not in result.stderr
    return last


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("cli") / "home"
    with running(home, "http://127.0.0.1:1") as started:
        yield started


@pytest.mark.parametrize("arguments", [["--version"], ["-v"], ["version"]])
def test_the_version_is_one_line(tmp_path: Path, arguments: list[str]) -> None:
    result = sphragis(*arguments, home=tmp_path)
    assert (result.returncode, result.stdout) == (0, f"sphragis {__version__}\n")


def test_the_version_loads_nothing_heavy() -> None:
    code = (
        "import sys, gateway.cli\n"
        "heavy = {'aiohttp', 'pydantic', 'sqlalchemy', 'presidio_analyzer', 'cryptography',"
        " 'prometheus_client', 'rich'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "arguments",
    [["nope"], ["serve", "--nope"], ["serve", "extra"], ["offline-provider", "--listen"]],
)
def test_a_wrong_call_is_one_sentence(tmp_path: Path, arguments: list[str]) -> None:
    one_sentence(sphragis(*arguments, home=tmp_path))


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_the_verbs(tmp_path: Path, option: str) -> None:
    result = sphragis(option, home=tmp_path)
    assert result.returncode == 0
    for verb in ("serve", "stop", "status", "verify", "offline-provider", "version"):
        assert verb in result.stdout


def test_an_address_in_use_is_one_sentence_and_leaves_no_ledger_behind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = sphragis("serve", "--listen", address, home=tmp_path / "h")
    assert f"{address} is in use" in one_sentence(result)
    assert not (tmp_path / "h" / "ledger").exists()


def test_a_second_gateway_on_the_same_home_is_refused(gateway: Gateway) -> None:
    result = sphragis("serve", "--listen", "127.0.0.1:0", home=gateway.home)
    assert "ledger" in one_sentence(result)
    assert gateway.get("/readyz")[0] == 200


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("SPHRAGIS_LISTEN_ADDR", "0.0.0.0:0", "other machines"),
        ("SPHRAGIS_NER_URL", "http://127.0.0.1:1", "ner_url"),
        ("SPHRAGIS_EU_PACK", "enabled", "SPHRAGIS_EU_PACK"),
        ("SPHRAGIS_CONFIG", "/nowhere/x.toml", "/nowhere/x.toml"),
        ("SPHRAGIS_POLICY_FILE", "/nowhere/p.toml", "/nowhere/p.toml"),
        ("SPHRAGIS_CUSTOM_TERMS_FILE", "/nowhere/terms", "/nowhere/terms"),
        ("SPHRAGIS_VAULT_KEY", "too-short", "SPHRAGIS_VAULT_KEY"),
        ("SPHRAGIS_AUDIT_LOG_PATH", "/proc/none/ledger", "/proc/none"),
    ],
)
def test_a_setting_that_cannot_be_honored_stops_the_start(
    tmp_path: Path, name: str, value: str, expected: str
) -> None:
    result = sphragis(
        "serve", home=tmp_path / "h", **{"SPHRAGIS_LISTEN_ADDR": "127.0.0.1:0", name: value}
    )
    assert expected in one_sentence(result)


def test_an_option_without_its_partner_is_told(tmp_path: Path) -> None:
    result = sphragis("serve", "--offline-record", str(tmp_path / "r"), home=tmp_path)
    assert "--offline" in one_sentence(result)


def test_status_and_stop_speak_the_truth(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert "No gateway" in one_sentence(sphragis("status", home=home))
    assert "No gateway" in sphragis("stop", home=home).stdout
    gateway = Gateway(home, "http://127.0.0.1:1").start(afresh=True)
    assert gateway.process is not None
    status = sphragis("status", home=home)
    assert status.returncode == 0
    assert f"pid {gateway.process.pid}" in status.stdout
    stopped = sphragis("stop", home=home)
    assert (stopped.returncode, gateway.process.wait(10)) == (0, 0)
    assert "Stopped" in stopped.stdout
    assert not (home / "sphragis.pid").exists()
    assert [record["type"] for record in gateway.records()] == [
        "genesis",
        "start",
        "config_set",
        "policy_set",
        "stop",
    ]
    assert "No gateway" in one_sentence(sphragis("status", home=home))


@pytest.mark.parametrize("started", ["", "unknown\n127.0.0.1:1\n", "boot/1\n127.0.0.1:1\n"])
def test_stop_never_signals_a_stranger_with_a_reused_pid(tmp_path: Path, started: str) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        (tmp_path / "sphragis.pid").write_text(f"{stranger.pid}\n{started}")
        result = sphragis("stop", home=tmp_path)
        assert "No gateway" in result.stdout
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_stop_says_so_when_the_process_does_not_end(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time; from pathlib import Path; from gateway import pidfile\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "pidfile.write(Path(sys.argv[1]), '127.0.0.1:1'); print('up', flush=True); time.sleep(60)"
    )
    path = tmp_path / "sphragis.pid"
    stubborn = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    try:
        assert stubborn.stdout is not None
        assert stubborn.stdout.readline() == b"up\n"
        assert "has not ended" in one_sentence(sphragis("stop", "--patience", "0.3", home=tmp_path))
        found = pidfile.read(path)
        assert found is not None
        assert found.pid == stubborn.pid
    finally:
        stubborn.kill()
        stubborn.wait()
        stubborn.stdout.close()
    assert pidfile.read(path) is None


def test_sigint_stops_like_sigterm(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "home", "http://127.0.0.1:1").start(afresh=True)
    assert gateway.process is not None
    gateway.process.send_signal(signal.SIGINT)
    assert gateway.process.wait(20) == 0
    assert gateway.records()[-1]["type"] == "stop"


def test_the_port_answers_long_before_the_scanner_is_warm(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "home", "http://127.0.0.1:1").start(wait=False, afresh=True)
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not gateway._address():
            time.sleep(0.01)
        assert gateway.get("/healthz") == (200, b"ok")
        status, raw = gateway.get("/readyz")
        assert status == 503
        state = json.loads(raw)
        assert state["ready"] is False
        assert state["reasons"]
        assert gateway.get("/metrics")[0] == 503
        gateway.wait_ready()
    finally:
        gateway.stop()


def test_a_start_in_the_way_of_existing_decks_works(tmp_path: Path) -> None:
    """They exec `sphragis serve` with the host dropped, poll /metrics, and end it with SIGKILL."""
    port = free_port()
    gateway = Gateway(tmp_path / "home", "http://127.0.0.1:1", listen_addr=f":{port}")
    gateway.start(wait=False)
    gateway.url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and gateway.get("/metrics")[0] != 200:
            time.sleep(0.25)
        assert gateway.get("/metrics")[0] == 200
    finally:
        gateway.kill()
    assert sphragis("verify", str(gateway.home / "ledger"), home=gateway.home).returncode == 0


# -- verify ---


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    from shared.ledger import Ledger

    with Ledger.open(tmp_path / "ledger", keys=tmp_path / "keys", origin="test/log") as log:
        for number in range(5):
            log.append("heartbeat", {"ext": {"n": number}}).result()
    return tmp_path / "ledger"


def test_verify_says_ok_root_and_checkpoint(ledger: Path, tmp_path: Path) -> None:
    result = sphragis("verify", str(ledger), home=tmp_path)
    assert result.returncode == 0
    first, second, *rest = result.stdout.splitlines()
    assert first == "OK: 6 records, chain intact"
    assert second.startswith("merkle_root: ")
    assert len(bytes.fromhex(second.split()[1])) == 32
    assert "  test/log" in rest
    as_json = json.loads(sphragis("verify", str(ledger), "--json", home=tmp_path).stdout)
    assert as_json["status"] == "ok"
    assert as_json["records"] == 6


def test_verify_names_the_record_that_was_changed(ledger: Path, tmp_path: Path) -> None:
    segment = next((ledger / "segments").glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes().replace(b'{"n":2}', b'{"n":7}'))
    result = sphragis("verify", str(ledger), home=tmp_path)
    assert result.returncode == 1
    assert result.stdout == ""
    assert "record 3" in result.stderr.lower()


def test_verify_wrongly_called_exits_3(tmp_path: Path, ledger: Path) -> None:
    one_sentence(sphragis("verify", home=tmp_path), 3)
    one_sentence(sphragis("verify", "--nope", str(ledger), home=tmp_path), 3)
    one_sentence(sphragis("verify", str(tmp_path / "none"), home=tmp_path), 3)
    one_sentence(sphragis("verify", str(ledger), "--vkey", "rubbish", home=tmp_path), 3)
    head = str(ledger / "HEAD")
    for words in (["--cosignature", head], ["--witness", "w"], ["--tsr", head]):
        one_sentence(sphragis("verify", str(ledger), *words, home=tmp_path), 3)


def test_verify_takes_nothing_that_a_bundle_cannot_be_checked_against(
    tmp_path: Path, ledger: Path
) -> None:
    bundle, head = str(tmp_path / "b.zip"), str(ledger / "HEAD")
    made = sphragis("proof", "--ledger", str(ledger), "--seq", "1", "-o", bundle, home=tmp_path)
    assert made.returncode == 0
    assert sphragis("verify", bundle, home=tmp_path).returncode == 0
    receipt = "o;1;2;00;AA=="
    for option, value in (("--prior", head), ("--receipt", receipt), ("--log-id", "0" * 64)):
        result = sphragis("verify", bundle, option, value, home=tmp_path)
        one_sentence(result, 3)
        assert f"{option} is about a whole ledger" in result.stderr


def test_verify_with_another_key_is_not_ok(ledger: Path, tmp_path: Path) -> None:
    from shared.ledger import Ledger

    with Ledger.open(tmp_path / "l2", keys=tmp_path / "k2", origin="test/log") as other:
        vkey = other.vkey
    assert sphragis("verify", str(ledger), "--vkey", vkey, home=tmp_path).returncode != 0


def test_run_returns_the_code_without_ending_the_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["version"]) == 0
    assert run([]) == 0
    assert run(["nope"]) == 1
    assert capsys.readouterr().err.startswith("error: ")
