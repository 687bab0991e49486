"""The verbs `repair`, `key rotate` and `key show` as an operator runs them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gateway.cli import run
from shared.ledger import Ledger, LedgerCorrupt, parse_vkey
from shared.ledger.directory import log_id
from shared.ledger.segment import list_segments

ORIGIN = "test/log"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPHRAGIS_HOME", str(tmp_path))
    with open_log(tmp_path) as log:
        for number in range(5):
            log.append("journal", {"ext": {"n": number}}).result(10)
    return tmp_path


def open_log(home: Path) -> Ledger:
    return Ledger.open(home / "ledger", keys=home / "keys", origin=ORIGIN)


def damage(home: Path) -> None:
    path = list_segments(home / "ledger")[0]
    path.write_bytes(path.read_bytes().replace(b'{"n":2}', b'{"n":7}'))


def test_a_good_ledger_is_left_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["repair", str(home / "ledger")]) == 0
    assert "needs no repair" in capsys.readouterr().out


def test_the_loss_is_shown_first_and_accepted_only_with_a_reason(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(home)
    before = list_segments(home / "ledger")[0].read_bytes()
    assert run(["repair", str(home / "ledger")]) == 1
    told = capsys.readouterr().out
    assert "kept: 3 records" in told
    assert "lost: 3 records that were committed (3 to 5)" in told
    assert "move: HEAD" in told
    assert "Nothing was changed" in told
    assert run(["repair", str(home / "ledger"), "--accept-loss"]) == 1
    assert "--reason" in capsys.readouterr().err
    assert list_segments(home / "ledger")[0].read_bytes() == before
    with pytest.raises(LedgerCorrupt):
        open_log(home)
    accepted = ["--accept-loss", "--reason", "disk 3 broke", "--operator", "ann"]
    assert run(["repair", str(home / "ledger"), *accepted]) == 0
    assert "Record 3 says what was lost" in capsys.readouterr().out
    with open_log(home) as log:
        last = list(log.records())[-1]
    assert (last["seq"], last["type"]) == (3, "recover")
    assert (last["ext"]["reason"], last["ext"]["operator"]) == ("disk 3 broke", "ann")


def test_a_ledger_in_use_is_not_repaired(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_log(home):
        assert run(["repair", str(home / "ledger")]) == 1
        assert "is in use by" in capsys.readouterr().err


def test_the_key_of_a_closed_ledger_is_changed_and_shown(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["key", "rotate"]) == 0
    new = capsys.readouterr().out.splitlines()[-1].removeprefix("vkey: ")
    assert parse_vkey(new).name == ORIGIN
    assert run(["key", "show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["origin"] == ORIGIN
    assert shown["log_id"] == log_id(home / "ledger")
    assert len(shown["vkeys"]) == 2
    assert shown["vkey"] == new
    assert run(["key", "show", str(home / "ledger")]) == 0
    told = capsys.readouterr().out
    assert new in told
    assert "PRIVATE" not in told
    with open_log(home) as log:
        assert log.vkey == new
        log.append("journal", {}).result(10)


def test_what_is_no_ledger_or_no_gateways_is_one_sentence(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (
        ["repair", str(home / "none")],
        ["key", "show", str(home / "none")],
        ["key", "rotate", str(home / "none")],
    ):
        assert run(arguments) == 1
        told = capsys.readouterr().err
        assert told.startswith("error: ")
        assert told.count("\n") == 1
    with open_log(home):  # locked, and no gateway answers on its socket
        for where in ([], [os.path.relpath(home / "ledger")]):
            assert run(["key", "rotate", *where]) == 1
            told = capsys.readouterr().err
            assert told.startswith("error: ")
            assert "is in use by" not in told  # the gateway was asked
