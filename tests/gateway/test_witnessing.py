"""The verbs `witness`, `anchor` and `neighbors` as a user runs them, and a gateway with anchors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from anchor_fakes import LocalAuthority, serve_http
from anchor_service import Service
from gateway_harness import Gateway, Provider, running, sphragis_forked

from shared.anchors.cosignature import parse_cosigner_vkey, verify_cosignatures
from shared.anchors.neighbors import Announcement, anchor_records, announce, neighbors_dir
from shared.ledger import Ledger, parse_vkey

ORIGIN = "audit.example.org/gateway"


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    made = Provider()
    made.start()
    yield made
    made.stop()


def sphragis(home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if "SPHRAGIS" not in name}
    env = clean | {"SPHRAGIS_HOME": str(home), "COLUMNS": "100"}
    return sphragis_forked(*map(str, arguments), env=env)


def grown(base: Path, count: int = 10) -> Path:
    with Ledger.open(base / "log", keys=base / "keys", origin=ORIGIN) as ledger:
        for _ in range(count):
            ledger.append("deny", {}).result(10)
    return base / "log"


def vkey_of(log: Path) -> str:
    return str(json.loads((log / "log.json").read_bytes())["vkeys"][-1])


class Program:
    """`sphragis witness serve` as a process."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "gateway.cli", "witness", "serve", "--dir", directory),
                *("--listen", "127.0.0.1:0", *arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.vkey = self.process.stdout.readline().strip()
        self.line = self.process.stderr.readline().strip()
        self.url = self.line.rpartition(" ")[2]

    def stop(self) -> int:
        self.process.terminate()
        code = self.process.wait(30)
        self.process.communicate()
        return code


def test_a_witness_is_named_run_asked_and_stopped(tmp_path: Path) -> None:
    log = grown(tmp_path)
    made = sphragis(tmp_path, "witness", "key", "--dir", tmp_path / "w", "--name", "w.example.org")
    assert made.returncode == 0, made.stderr
    key = parse_cosigner_vkey(made.stdout)
    program = Program(tmp_path / "w", "--log", vkey_of(log))
    assert program.vkey == key.vkey()
    assert "witness of 1 logs" in program.line
    asked = ("witness", "client", "--witness", program.url, "--witness-key", program.vkey, log)
    done = sphragis(tmp_path, *asked)
    assert done.returncode == 0, done.stderr
    [found] = verify_cosignatures(done.stdout, [key])
    assert (log / "anchors" / "11.cosig").read_text() == found.line + "\n"
    assert done.stdout.startswith((log / "anchors" / "11.checkpoint").read_text())
    (tmp_path / "kept").write_text(done.stdout)
    outside = ("--cosignature", tmp_path / "kept", "--witness", program.vkey)
    checked = sphragis(tmp_path, "verify", log, *outside)
    assert checked.returncode == 0, checked.stderr
    second = sphragis(
        tmp_path, "witness", "serve", "--dir", tmp_path / "w", "--log", vkey_of(log),
        "--listen", "127.0.0.1:0",
    )  # fmt: skip
    assert second.returncode == 1
    assert "Another witness" in second.stderr
    assert program.stop() == 0


def test_a_fork_makes_the_client_fail_with_the_sentence(tmp_path: Path) -> None:
    log = grown(tmp_path)
    service = Service(tmp_path / "w", {ORIGIN: [parse_vkey(vkey_of(log))]})
    shutil.copytree(log, tmp_path / "copy")
    grown(tmp_path)
    vkey = service.target.key.vkey()
    asked = ("witness", "client", "--witness", service.url, "--witness-key", vkey)
    assert sphragis(tmp_path, *asked, log).returncode == 0
    back = sphragis(tmp_path, *asked, tmp_path / "copy")
    assert back.returncode == 1
    assert "it was rolled back or there are two of it" in back.stderr
    service.close()


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (("witness", "key", "--dir", "{}/w"), "give the witness a name"),
        (("witness", "key", "--dir", "{}/w", "--name", "a b"), "one word"),
        (("witness", "serve", "--dir", "{}/w", "--name", "w", "--log", "nonsense"), "vkey"),
        (("witness", "client", "--witness", "http://x", "--witness-key", "y", "{}"), "witness key"),
        (("anchor", "{}"), "No authority is named"),
        (("anchor", "{}", "--tsa", "http://127.0.0.1:1"), "log.json"),
        (("neighbors", "x", "{}"), "no records"),
    ],
)
def test_what_is_called_wrongly_is_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], wrong: str
) -> None:
    done = sphragis(tmp_path, *(argument.format(tmp_path) for argument in arguments))
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert wrong in done.stderr
    assert done.stdout == ""


def test_a_stamp_on_demand(tmp_path: Path) -> None:
    log, authority = grown(tmp_path), LocalAuthority(tmp_path / "tsa")
    with serve_http(authority.answer) as url:
        done = sphragis(tmp_path, "anchor", log, "--tsa", url, "--tsa-ca", authority.ca)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("stamped 11 records at 20")
    stamp = ("--tsr", log / "anchors" / "11.tsr", "--tsa-ca", authority.ca)
    checked = sphragis(tmp_path, "verify", log, *stamp)
    assert checked.returncode == 0, checked.stderr


def test_recorded_heads_are_printed_and_written(tmp_path: Path) -> None:
    other = grown(tmp_path / "other")
    with Ledger.open(tmp_path / "log", keys=tmp_path / "keys", origin="test/one") as ledger:
        note = (other / "HEAD").read_text()
        ext = {"kind": "neighbor", "origin": ORIGIN, "size": 11, "root": "", "note": note}
        ledger.append("anchor", {"ext": ext}).result(10)
    log = tmp_path / "log"
    assert sphragis(tmp_path, "neighbors", ORIGIN, log).stdout == note
    sphragis(tmp_path, "neighbors", ORIGIN, log, "-o", tmp_path / "priors")
    [file] = (tmp_path / "priors").iterdir()
    assert file.name == "0001-11.checkpoint"
    assert file.read_text() == note


# -- a running gateway ----------------------------------------------------------------------------


def until(holds: Callable[[], object], patience: float = 30.0) -> None:
    deadline = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.05)


def anchors_of(gateway: Gateway) -> dict[str, dict[str, object]]:
    state = json.loads(gateway.get("/ui/state")[1])
    return {entry["kind"]: entry for entry in state["ledger"]["anchors"]}


def test_a_gateway_sends_its_head_everywhere(tmp_path: Path, provider: Provider) -> None:
    home, authority = tmp_path / "home", LocalAuthority(tmp_path / "tsa")
    with running(home, provider.url):
        pass  # a first run, so that its key is known
    service = Service(
        tmp_path / "w", {key.name: [key] for key in [parse_vkey(vkey_of(home / "ledger"))]}
    )
    with (
        serve_http(authority.answer) as tsa,
        running(
            home,
            provider.url,
            witnesses=f"{service.url} {service.target.key.vkey()}",
            tsa_url=tsa,
            tsa_ca_file=str(authority.ca),
            head_file=str(tmp_path / "heads"),
            head_note_file=str(tmp_path / "HEAD"),
            head_command=f"sh -c 'cat > {tmp_path}/got'",
            head_seconds="0.2",
        ) as gateway,
    ):
        head = home / "ledger" / "HEAD"
        until(lambda: "\u2014 witness.example.org " in head.read_text())
        until(lambda: list((home / "ledger" / "anchors").glob("*.tsr")))
        until(lambda: all((tmp_path / name).exists() for name in ("heads", "HEAD", "got")))
        until(
            lambda: all(e["size"] for kind, e in anchors_of(gateway).items() if kind != "neighbor")
        )
        assert sorted(anchors_of(gateway)) == ["copy", "neighbor", "rfc3161", "witness"]
        assert gateway.get("/readyz")[0] == 200
    service.close()


def last_size(log: Path) -> tuple[str, str]:
    """Return the type of the newest record, and how many records HEAD is over."""
    lines = sorted((log / "segments").glob("*.jsonl"))[-1].read_text().splitlines()
    newest = next(json.loads(line) for line in reversed(lines) if not line.startswith('{"cp":'))
    return newest["type"], (log / "HEAD").read_text().split("\n")[1]


def test_the_head_over_the_stop_record_is_copied_out(tmp_path: Path, provider: Provider) -> None:
    home = tmp_path / "home"
    with running(
        home,
        provider.url,
        head_file=str(tmp_path / "heads"),
        head_note_file=str(tmp_path / "HEAD"),
        head_command=f"sh -c 'cat > {tmp_path}/got'",
        head_seconds="3600",
    ) as gateway:
        until(lambda: all((tmp_path / name).exists() for name in ("heads", "HEAD", "got")))
        assert gateway.stop() == 0
    kind, size = last_size(home / "ledger")
    assert kind == "stop"
    head = (home / "ledger" / "HEAD").read_text()
    assert (tmp_path / "HEAD").read_text() == (tmp_path / "got").read_text() == head
    assert (tmp_path / "heads").read_text().splitlines()[-1].split(" ")[1] == size


def test_a_copy_that_hangs_delays_the_stop_by_two_seconds_at_most(
    tmp_path: Path, provider: Provider
) -> None:
    home, pids = tmp_path / "home", tmp_path / "pids"
    (tmp_path / "hook").write_text(f"#!/bin/sh\necho $$ >> {pids}\nexec sleep 600\n")
    (tmp_path / "hook").chmod(0o755)
    with running(
        home,
        provider.url,
        head_command=str(tmp_path / "hook"),
        head_file=str(tmp_path / "heads"),
        head_seconds="3600",
    ) as gateway:
        until(lambda: pids.exists() and (tmp_path / "heads").exists())
        began = time.monotonic()
        assert gateway.stop() == 0
        # Two seconds for the copies, one for the last look at neighbors, and the stop itself.
        assert time.monotonic() - began < 2.25 + 1.25 + 4
    _, size = last_size(home / "ledger")
    assert (tmp_path / "heads").read_text().splitlines()[-1].split(" ")[1] == size
    assert "an earlier head has not ended" in gateway.log.read_text()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids.read_text().split()))


def test_a_gateway_serves_while_nobody_outside_answers(tmp_path: Path, provider: Provider) -> None:
    from shared.anchors.cosignature import Cosigner

    vkey = Cosigner("gone.example.org", b"g" * 32).key.vkey()
    with (
        serve_http(lambda _: time.sleep(60) or b"") as slow,
        running(
            tmp_path / "home",
            provider.url,
            witnesses=f"http://127.0.0.1:1 {vkey}",
            tsa_url=slow,
            head_file="/nowhere/heads",
            head_seconds="0.2",
        ) as gateway,
    ):
        until(lambda: anchors_of(gateway).get("witness", {}).get("failures"))
        until(lambda: anchors_of(gateway)["copy"]["failures"])
        assert "cannot be asked" in str(anchors_of(gateway)["witness"]["trouble"])
        assert gateway.get("/readyz")[0] == 200
        told = gateway.get("/metrics")[1].decode()
        assert 'sphragis_anchor_failures{kind="witness",name="gone.example.org"}' in told
        began = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - began < 10
    assert "warning: witness gone.example.org" in gateway.log.read_text()


def test_a_gateway_whose_witness_knows_another_history_is_not_ready(
    tmp_path: Path, provider: Provider
) -> None:
    home = tmp_path / "home"
    with running(home, provider.url):
        pass
    shutil.copytree(home, tmp_path / "copy")
    key = parse_vkey(vkey_of(home / "ledger"))
    service = Service(tmp_path / "w", {key.name: [key]})
    settings = {"witnesses": f"{service.url} {service.target.key.vkey()}", "head_seconds": "0.2"}
    with running(home, provider.url, **settings) as gateway:
        common = int((tmp_path / "copy" / "ledger" / "HEAD").read_text().split("\n")[1])
        until(lambda: int(str(anchors_of(gateway)["witness"]["size"])) > common)
    rolled = Gateway(tmp_path / "copy", provider.url, **settings).start(wait=False)
    until(lambda: rolled._address() and b"two of it" in rolled.get("/readyz")[1])
    assert rolled.get("/readyz")[0] == 503
    rolled.stop()
    [ext] = [r["ext"] for r in anchor_records(tmp_path / "copy" / "ledger") if "alarm" in r["ext"]]
    assert ext["alarm"] in {"rolled_back", "fork"}
    service.close()


def test_two_gateways_record_each_other_and_a_rollback_shows(
    tmp_path: Path, provider: Provider
) -> None:
    """One is rolled back from a copy; alone it looks intact, but the other's record shows it."""
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}

    def gateway(name: str) -> Gateway:
        made = Gateway(tmp_path / name, provider.url)
        made._environment |= state
        return made

    def recorded() -> list[dict[str, object]]:
        return [record["ext"] for record in anchor_records(tmp_path / "one" / "ledger")]

    def size(name: str) -> int:
        return int((tmp_path / name / "ledger" / "HEAD").read_text().split("\n")[1])

    one, two = gateway("one").start(), gateway("two").start()
    until(lambda: len(recorded()) == 1)
    two.stop()
    shutil.copytree(tmp_path / "two", tmp_path / "copy")
    one.stop()
    two.start()
    until(lambda: size("two") > size("copy"))
    one.start()  # a fresh start records what changed at once
    until(lambda: int(str(recorded()[-1]["size"])) > size("copy"))
    two.stop()
    shutil.rmtree(tmp_path / "two")
    shutil.move(tmp_path / "copy", tmp_path / "two")
    until(lambda: any("alarm" in ext for ext in recorded()))
    assert recorded()[-1]["alarm"] == "rolled_back"
    assert one.get("/readyz")[0] == 200  # the neighbor's trouble, not ours
    one.stop()
    origin = str(json.loads((tmp_path / "two" / "ledger" / "log.json").read_bytes())["origin"])
    priors = sphragis(tmp_path / "one", "neighbors", origin)
    assert priors.stdout.count(origin + "\n") >= 3
    sphragis(tmp_path / "one", "neighbors", origin, "-o", tmp_path / "priors")
    newest = max((tmp_path / "priors").iterdir(), key=lambda path: int(path.stem.split("-")[1]))
    ledger = tmp_path / "two" / "ledger"
    assert sphragis(tmp_path, "verify", ledger).returncode == 0
    judged = sphragis(tmp_path, "verify", ledger, "--prior", newest)
    assert judged.returncode == 1
    assert "rolled_back" in judged.stderr


def test_neighbors_can_be_turned_off(tmp_path: Path, provider: Provider) -> None:
    with running(tmp_path / "home", provider.url, neighbors="false") as gateway:
        place = neighbors_dir({"XDG_STATE_HOME": str(tmp_path / "home-state")})
        announce(place, Announcement("test/x", str(tmp_path / "x"), "v", 1))
        time.sleep(0.5)
        assert "neighbor" not in anchors_of(gateway)
        assert [path.name for path in place.iterdir()] != []
