"""Run receipts: one signed page about a session that anyone with the log can count again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from synthetic_log import ORIGIN, SIGNER, T0, SyntheticLog, task_records

from shared.ledger.checkpoint import Signer
from shared.ledger.errors import LedgerError, NoteRefused
from shared.ledger.proofs import Prover
from shared.ledger.run_receipt import (
    NoSuchRun,
    RunReceipt,
    check_run_receipt,
    is_run_receipt,
    make_run_receipt,
    open_run_receipt,
    signer_for,
)

RUN = "run-T3"


def write(directory: Path, extra: int = 0) -> SyntheticLog:
    log = SyntheticLog(directory)
    log.fill(20)
    log.add(task_records("T3", 8, first=log.frontier.size, digest="ab" * 32))  # 21 to 28
    log.add([{"type": "request", "run": RUN, "actor": {"role": "tester"}}])  # 29
    log.add([{"type": "outcome", "ref": 29, "outcome": {"status": "unknown"}}])  # 30
    log.add([{"type": "request", "run": RUN}])  # 31: open
    for kind, gate in (("gate_open", "G1"), ("gate_open", "G2"), ("gate_decision", "G1")):
        log.add([{"type": kind, "run": RUN, "gate": {"id": gate}}])  # 32 to 34
    log.add(task_records("T4", 8, first=log.frontier.size, digest="ab" * 32))
    log.add({"run": RUN} for _ in range(extra)) if extra else None
    return log


def receipt_of(directory: Path) -> tuple[str, RunReceipt]:
    with Prover(directory) as prover:
        note = make_run_receipt(prover, RUN, SIGNER, made=T0)
    return note, open_run_receipt(note, [SIGNER.key])[1]


def test_a_receipt_counts_the_session_and_names_what_is_open(tmp_path: Path) -> None:
    log = write(tmp_path / "log")
    note, receipt = receipt_of(log.directory)
    assert receipt == RunReceipt(
        run=RUN,
        first=21,
        last=34,
        counts={"request": 6, "outcome": 5, "gate_open": 2, "gate_decision": 1},
        totals={
            "redactions": {"EMAIL": 8},
            "tokens": {"coder": {"model-1": {"input_tokens": 40, "output_tokens": 20}}},
        },
        open=(31, 33),
        size=43,
        root=log.frontier.root().hex(),
        made=T0,
    )
    lines = note.split("\n")
    assert lines[0] == f"{ORIGIN}/run-receipt"
    assert orjson.loads(lines[1])["open"] == [31, 33]
    assert lines[2] == ""
    assert is_run_receipt(note)
    assert not is_run_receipt(log.note)


def test_a_receipt_holds_for_its_log_and_for_the_log_as_it_grows(tmp_path: Path) -> None:
    log = write(tmp_path / "log")
    _, receipt = receipt_of(log.directory)
    log.add([{"type": "outcome", "ref": 31}, {"run": RUN}])
    with Prover(log.directory) as prover:
        assert check_run_receipt(receipt, prover) == []


def test_a_record_that_was_added_or_taken_away_shows(tmp_path: Path) -> None:
    _, receipt = receipt_of(write(tmp_path / "one").directory)
    shorter, other = SyntheticLog(tmp_path / "two"), write(tmp_path / "three", extra=3)
    for log, code in ((shorter, "rolled_back"), (other, "")):
        with Prover(log.directory) as prover:
            assert [f.code for f in check_run_receipt(receipt, prover)] == [code] * bool(code)
    rewritten = SyntheticLog(tmp_path / "four")
    rewritten.fill(80)
    with Prover(rewritten.directory) as prover:
        assert [f.code for f in check_run_receipt(receipt, prover)] == ["receipt_mismatch"]


def test_a_receipt_that_counts_other_records_does_not_fit(tmp_path: Path) -> None:
    log = write(tmp_path / "log")
    note, receipt = receipt_of(log.directory)
    value = orjson.loads(note.split("\n")[1])
    changes: tuple[dict[str, Any], ...] = (
        {"counts": {"request": 6}},
        {"open": []},
        {"totals": {}},
        {"last": 33},
        {"run": "run-T4"},
        {"run": "nobody"},
    )
    for change in changes:
        text = orjson.dumps({**value, **change}, option=orjson.OPT_SORT_KEYS).decode()
        forged = SIGNER.sign(f"{ORIGIN}/run-receipt\n{text}\n")
        with Prover(log.directory) as prover:
            found = check_run_receipt(open_run_receipt(forged, [SIGNER.key])[1], prover)
        assert [finding.code for finding in found] == ["receipt_mismatch"], change
    assert receipt.run == RUN


def test_a_pruned_session_cannot_be_counted_again(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    log.add([{"run": RUN}])
    log.seal()
    log.fill(5)
    _, receipt = receipt_of(log.directory)
    (log.directory / "segments" / f"{0:020d}.jsonl").unlink()
    with Prover(log.directory) as prover:
        assert [f.code for f in check_run_receipt(receipt, prover)] == ["receipt_unchecked"]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("/run-receipt", "/run-receipts"),
        lambda text: text.replace(ORIGIN, "other"),
        lambda text: text.replace('"first"', '"fist"'),
        lambda text: text.replace('"first":21', '"first":"21"'),
        lambda text: text.replace('"first":21', '"first": 21'),
        lambda text: text.replace("[31,33]", '["31"]'),
        lambda text: text + "more\n",
        lambda text: text.partition("\n")[0] + "\n",
        lambda text: f"{ORIGIN}/run-receipt\n[]\n",
        lambda text: f"{ORIGIN}/run-receipt\nnull\n",
    ],
)
def test_any_other_text_is_refused(change: Any, tmp_path: Path) -> None:
    note, _ = receipt_of(write(tmp_path / "log").directory)
    text = note.partition("\n\n")[0] + "\n"
    with pytest.raises(NoteRefused):
        open_run_receipt(SIGNER.sign(change(text)), [SIGNER.key])
    with pytest.raises(NoteRefused):
        open_run_receipt(note, [Signer(ORIGIN, bytes(32)).key])


def test_a_session_that_is_not_there_is_said(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    with Prover(log.directory) as prover, pytest.raises(NoSuchRun, match="no record"):
        make_run_receipt(prover, RUN, SIGNER, made=T0)
    shutil.rmtree(tmp_path / "log" / "segments")
    with pytest.raises(LedgerError):
        Prover(log.directory)


def test_signing_needs_the_key_of_this_very_log(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    with Prover(log.directory) as prover, pytest.raises(LedgerError, match="key"):
        signer_for(prover, tmp_path / "keys")
