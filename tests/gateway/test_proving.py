"""`sphragis proof` and `sphragis receipt`: the questions, the answers, what is refused."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from synthetic_log import SIGNER, SyntheticLog, task_records

from gateway import cli
from shared.ledger import Ledger, Status
from shared.ledger.bundle import verify_bundle
from shared.ledger.checkpoint import parse_vkey
from shared.ledger.proofs import Prover
from shared.ledger.run_receipt import check_run_receipt, make_run_receipt, open_run_receipt
from shared.ledger.texts import keep_text
from shared.ledger.tiles import tile_path


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SyntheticLog:
    """A gateway's own ledger with one task in it."""
    monkeypatch.setenv("SPHRAGIS_HOME", str(tmp_path))
    monkeypatch.setenv("SPHRAGIS_AUDIT_LOG_PATH", str(tmp_path / "log"))
    monkeypatch.chdir(tmp_path)
    log = SyntheticLog(tmp_path / "log")
    log.fill(600)
    log.add(task_records("T3", 6, first=log.frontier.size, digest="ab" * 32))
    return log


def test_a_task_becomes_a_bundle(
    log: SyntheticLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["proof", "--task", "T3", "-o", "t3.zip"]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("t3.zip: 7 records for task T3, ")
    assert "nobody outside" in output.err
    verdict = verify_bundle(tmp_path / "t3.zip", vkeys=[SIGNER.key.vkey()])
    assert {finding.code for finding in verdict.findings} == {"policy_unknown"}


def test_policy_texts_come_along_unless_they_must_not(
    log: SyntheticLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = keep_text(log.directory, b'terms = ["Client Canary"]')
    log.add([{"type": "policy_set", "policy": {"id": "own", "digest": digest}}])
    log.add(task_records("T4", 6, first=log.frontier.size, digest=digest))
    assert cli.run(["proof", "--task", "T4"]) == 0
    assert "--without-texts" in capsys.readouterr().err
    assert b"Client Canary" in (tmp_path / "bundle.zip").read_bytes()
    assert cli.run(["proof", "--task", "T4", "--without-texts"]) == 0
    assert "--without-texts" not in capsys.readouterr().err
    assert b"Client Canary" not in (tmp_path / "bundle.zip").read_bytes()
    verdict = verify_bundle(tmp_path / "bundle.zip", vkeys=[SIGNER.key.vkey()])
    assert {finding.code for finding in verdict.findings} == {"text_missing"}


def test_other_ledgers_and_questions(log: SyntheticLog, tmp_path: Path) -> None:
    elsewhere = SyntheticLog(tmp_path / "deck")
    elsewhere.add([{"task": "T3", "run": "s"}])
    both = ["--ledger", str(log.directory), "--ledger", str(elsewhere.directory)]
    assert cli.run(["proof", "--task", "T3", *both]) == 0
    assert verify_bundle(tmp_path / "bundle.zip").records == 9
    assert cli.run(["proof", "--seq", "1", "--seq", "2", "--session", "s"]) == 0
    assert verify_bundle(tmp_path / "bundle.zip").status is Status.OK


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Name what to prove"),
        (["--task", "T9"], "no record of task T9"),
        (["--seq", "100000"], "no record 100000"),
        (["--task", "T3", "--consistency", "x"], "Name what to prove"),
        (["--task", "T3", "--to", "x"], "--to works only"),
        (["--rebuild-tiles", "--without-texts"], "--without-texts is about a bundle"),
        (["--consistency", "nothing"], "cannot be read as a checkpoint"),
        (["--task", "T3", "--ledger", "nowhere"], "nowhere"),
        (["--task", "T3", "-o", "no/such/place.zip"], "cannot be written"),
    ],
)
def test_a_wrong_question_is_one_sentence(
    arguments: list[str], words: str, log: SyntheticLog, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["proof", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert words in error
    assert error.count("\n") == 1


def test_growth_since_a_kept_checkpoint_is_proved(
    log: SyntheticLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = sorted(log.notes)
    (tmp_path / "old").write_text(log.notes[sizes[2]])
    (tmp_path / "new").write_text(log.notes[sizes[5]])
    assert cli.run(["proof", "--consistency", "old"]) == 0
    output = capsys.readouterr()
    assert output.out.startswith(f"old {sizes[2]}\n")
    assert "The proof holds" in output.err
    assert cli.run(["proof", "--consistency", "old", "--to", "new", "-o", "growth"]) == 0
    assert (tmp_path / "growth").read_text().endswith(log.notes[sizes[5]])
    assert cli.run(["proof", "--consistency", "new", "--to", "old"]) == 1
    assert "records were removed" in capsys.readouterr().err


def test_a_log_that_did_not_grow_from_the_checkpoint_is_named(
    log: SyntheticLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fork = SyntheticLog(tmp_path / "fork")
    fork.add([{"task": "another"}])
    (tmp_path / "old").write_text(fork.note)
    assert cli.run(["proof", "--consistency", "old"]) == 1
    assert "do not belong to one history" in " ".join(capsys.readouterr().err.split())


def test_damaged_tiles_are_told_and_made_anew(
    log: SyntheticLog, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["proof", "--rebuild-tiles"]) == 0
    tile = log.directory / tile_path(0, 1)
    good = tile.read_bytes()
    tile.write_bytes(bytes([1]) * len(good))
    assert cli.run(["proof", "--seq", "300"]) == 0
    assert "tree's files" in capsys.readouterr().err
    assert cli.run(["proof", "--seq", "300", "--rebuild-tiles"]) == 0
    assert "tree's files" not in capsys.readouterr().err
    assert tile.read_bytes() == good


def test_a_receipt_that_counts_wrongly_is_named_by_verify(
    log: SyntheticLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Prover(log.directory) as prover:
        note = make_run_receipt(prover, "run-T3", SIGNER, made=1)
    assert '"request":3' in note
    text = note.partition("\n\n")[0].replace('"request":3', '"request":4') + "\n"
    (tmp_path / "good").write_text(note)
    (tmp_path / "wrong").write_text(SIGNER.sign(text))
    assert cli.run(["proof", "--session", "run-T3"]) == 0
    for path in (str(log.directory), "bundle.zip"):
        for name in ("good", "wrong"):
            capsys.readouterr()
            arguments = ["verify", path, "--json", "--receipt", name]
            cli.run([*arguments, "--vkey", SIGNER.key.vkey()])
            found = orjson.loads(capsys.readouterr().out)["findings"]
            assert ("receipt_mismatch" in {each["code"] for each in found}) is (name == "wrong")


def test_a_receipt_of_a_session_beside_the_writer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, keys = tmp_path / "log", tmp_path / "keys"
    where = ["--ledger", str(home), "--keys", str(keys)]
    with Ledger.open(home, keys=keys, origin="audit.example.org/test") as ledger:
        ledger.append("request", {"run": "s1", "task": "T3"}).result()
        assert cli.run(["receipt", "--session", "s1", *where]) == 0
        note = capsys.readouterr().out
        _, receipt = open_run_receipt(note, [parse_vkey(ledger.vkey)])
        assert receipt.counts == {"request": 1}
        assert receipt.open == (receipt.first,)
        with Prover(home) as prover:
            assert check_run_receipt(receipt, prover) == []
        file = tmp_path / "receipt"
        assert cli.run(["receipt", "--session", "s1", "-o", str(file), *where]) == 0
        assert file.read_text().startswith("audit.example.org/test/run-receipt\n")
        bundle = str(tmp_path / "s1.zip")
        for again in (str(home), bundle):
            if again == bundle:
                assert (
                    cli.run(["proof", "--session", "s1", "--ledger", str(home), "-o", again]) == 0
                )
            capsys.readouterr()
            cli.run(["verify", again, "--json", "--receipt", str(file), "--vkey", ledger.vkey])
            codes = {found["code"] for found in orjson.loads(capsys.readouterr().out)["findings"]}
            assert "receipt_mismatch" not in codes
        for wrong in (["--session", "s2", *where], ["--session", "s1", *where[:2]]):
            assert cli.run(["receipt", *wrong]) == 1
