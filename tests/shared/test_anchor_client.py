"""A real ledger and a real witness: growth, conflicts, forks, rollbacks, damage on the way."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from anchor_fakes import serve_http
from anchor_service import KEY, Service

from shared.anchors.client import WitnessClient, WitnessTarget, parse_target
from shared.anchors.cosignature import Cosigner, verify_cosignatures
from shared.anchors.errors import Alarm, AnchorError
from shared.anchors.files import Head, head_of, log_keys, published_head
from shared.anchors.witness import format_request
from shared.ledger import Ledger, NoteRefused, parse_vkey

ORIGIN = "audit.example.org/gateway"


def write(ledger: Ledger, count: int) -> None:
    for future in [ledger.append("request", {"id": f"r{n}"}) for n in range(count)]:
        future.result(10)


def opened(base: Path) -> Ledger:
    return Ledger.open(base / "log", keys=base / "keys", origin=ORIGIN)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with opened(tmp_path) as made:
        write(made, 20)
        yield made


@pytest.fixture
def service(tmp_path: Path, ledger: Ledger) -> Iterator[Service]:
    made = Service(tmp_path / "w", {ORIGIN: [parse_vkey(ledger.vkey)]})
    yield made
    made.close()


def newest_head(ledger: Ledger) -> Head:
    return head_of(ledger.checkpoint, log_keys(ledger.directory))


def newest(ledger: Ledger) -> Callable[[], Head]:
    return lambda: newest_head(ledger)


def test_each_head_is_cosigned_and_the_cosignature_verifies(
    ledger: Ledger, service: Service
) -> None:
    client = WitnessClient(service.target, ledger.directory)
    for count in (0, 1, 30, 300):
        write(ledger, count)
        cosigned = client.submit(newest(ledger))
        assert cosigned.head.size == ledger.size
        note = cosigned.head.note + cosigned.cosignature.line + "\n"
        assert verify_cosignatures(note, [KEY.key])
    client.close()


def test_a_client_that_knows_nothing_learns_where_the_witness_is(
    ledger: Ledger, service: Service
) -> None:
    WitnessClient(service.target, ledger.directory).submit(newest(ledger))
    write(ledger, 5)
    again = WitnessClient(service.target, ledger.directory)
    assert again.submit(newest(ledger)).head.size == ledger.size
    assert again.submit(newest(ledger)).head.size == ledger.size


def test_a_head_that_is_older_than_what_the_witness_saw_is_taken_anew(
    ledger: Ledger, service: Service
) -> None:
    old = newest_head(ledger)
    write(ledger, 5)
    WitnessClient(service.target, ledger.directory).submit(newest(ledger))
    heads = iter([old])
    client = WitnessClient(service.target, ledger.directory)
    assert client.submit(lambda: next(heads, newest_head(ledger))).head.size == ledger.size


def test_a_rolled_back_ledger_raises_the_alarm(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        write(ledger, 20)
        key = parse_vkey(ledger.vkey)
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    service = Service(tmp_path / "w", {ORIGIN: [key]})
    with opened(tmp_path) as ledger:
        write(ledger, 20)
        WitnessClient(service.target, ledger.directory).submit(newest(ledger))
    shutil.rmtree(tmp_path / "log")
    shutil.move(tmp_path / "copy", tmp_path / "log")
    with opened(tmp_path) as ledger:
        with pytest.raises(Alarm, match="has seen 41 records") as raised:
            WitnessClient(service.target, ledger.directory).submit(newest(ledger))
        assert raised.value.code == "rolled_back"
        write(ledger, 20)  # as long as before, another history
        with pytest.raises(Alarm) as raised:
            WitnessClient(service.target, ledger.directory).submit(newest(ledger))
        assert raised.value.code == "fork"
        write(ledger, 20)  # longer than before
        with pytest.raises(Alarm) as raised:
            WitnessClient(service.target, ledger.directory).submit(newest(ledger))
        assert raised.value.code == "fork"
    service.close()


def test_a_damaged_tile_is_no_alarm(ledger: Ledger, service: Service) -> None:
    client = WitnessClient(service.target, ledger.directory)
    client.submit(newest(ledger))
    write(ledger, 600)
    for path in ledger.directory.glob("tile/**/*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(bytes(path.stat().st_size))
    assert client.submit(newest(ledger)).head.size == ledger.size


def test_a_witness_that_does_not_know_the_ledger_is_told(tmp_path: Path, ledger: Ledger) -> None:
    stranger = Service(tmp_path / "s", {})
    with pytest.raises(AnchorError, match=r"does not know this ledger.*log\.json"):
        WitnessClient(stranger.target, ledger.directory).submit(newest(ledger))
    stranger.close()


def test_a_cosignature_by_another_key_is_not_believed(ledger: Ledger, service: Service) -> None:
    other = Cosigner(KEY.key.name, b"o" * 32)
    target = WitnessTarget(service.url, other.key)
    with pytest.raises(AnchorError, match="not signed by its key"):
        WitnessClient(target, ledger.directory).submit(newest(ledger))


def test_a_forged_cosignature_is_not_believed(ledger: Ledger) -> None:
    line = KEY.cosign("another text\n", 1)
    with serve_http(lambda _: f"{line}\n".encode()) as url:
        client = WitnessClient(WitnessTarget(url, KEY.key), ledger.directory)
        with pytest.raises(AnchorError, match="does not fit"):
            client.submit(newest(ledger))


@pytest.mark.parametrize("answer", [b"", b"\xff\xfe", b"hello\n", b"\n\n\n", b"x" * 100_000])
def test_what_makes_no_sense_is_an_error_and_never_an_alarm(answer: bytes, ledger: Ledger) -> None:
    with serve_http(lambda _: answer) as url:
        client = WitnessClient(WitnessTarget(url, KEY.key), ledger.directory)
        with pytest.raises(AnchorError) as raised:
            client.submit(newest(ledger))
    assert not isinstance(raised.value, Alarm)


def test_a_witness_that_is_gone_or_slow_is_an_error(ledger: Ledger) -> None:
    gone = WitnessTarget("http://127.0.0.1:1", KEY.key)
    with pytest.raises(AnchorError, match="cannot be asked"):
        WitnessClient(gone, ledger.directory).submit(newest(ledger))

    import threading

    go = threading.Event()
    with serve_http(lambda _: b"" if go.wait(30) else None) as url:
        slow = WitnessClient(WitnessTarget(url, KEY.key), ledger.directory, timeout=0.3)
        with pytest.raises(AnchorError, match="ReadTimeout"):
            slow.submit(newest(ledger))
        go.set()


def test_a_closed_ledger_is_submitted_by_its_head(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        write(ledger, 20)
        key, directory = parse_vkey(ledger.vkey), ledger.directory
    service = Service(tmp_path / "w", {ORIGIN: [key]})
    client = WitnessClient(service.target, directory)
    assert client.submit(lambda: published_head(directory)).head.size == 21
    service.close()


def test_the_request_holds_only_the_log_s_own_signature(ledger: Ledger) -> None:
    seen: list[bytes] = []
    with serve_http(seen.append) as url, pytest.raises(AnchorError):
        WitnessClient(WitnessTarget(url, KEY.key), ledger.directory).submit(newest(ledger))
    head = newest_head(ledger)
    assert seen == [format_request(0, [], head.note)]
    assert head.note.count("\u2014 ") == 1


@pytest.mark.parametrize("text", ["", "http://x", "ftp://x " + KEY.key.vkey(), "http://x y+z"])
def test_a_witness_setting_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(NoteRefused):
        parse_target(text)


def test_a_witness_setting_is_read() -> None:
    target = parse_target(f" https://w.example.org/x/  {KEY.key.vkey()} ")
    assert (target.url, target.key) == ("https://w.example.org/x", KEY.key)
