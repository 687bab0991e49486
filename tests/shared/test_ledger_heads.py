"""What the log does on its own and hands on: heartbeats, idle seals, cosignatures, leaves; and
what it holds against its end when it starts."""

from __future__ import annotations

import itertools
import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shared.ledger import (
    Ledger,
    LedgerCorrupt,
    LedgerError,
    LedgerRollback,
    NoteRefused,
    verify_path,
)
from shared.ledger.checkpoint import Signer
from shared.ledger.merkle import leaf_hash
from shared.ledger.segment import list_seals, list_segments
from shared.ledger.storage import Disk

ORIGIN = "audit.example.org/heads"


def open_log(home: Path, **options: Any) -> Ledger:
    return Ledger.open(home / "log", keys=home / "keys", origin=ORIGIN, **options)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def cosign(name: str, note: str, seed: int = 7) -> str:
    """A signature line of another party; who made it is not the ledger's to judge."""
    return Signer(name, bytes([seed]) * 32).line(note[: note.find("\n\n") + 1])


# -- heartbeats and idle seals ---------------------------------------------------------------------


def test_an_idle_log_says_that_it_is_alive(tmp_path: Path) -> None:
    with open_log(tmp_path, heartbeat_seconds=0.1) as ledger:
        wait_for(lambda: ledger.size >= 4)
        beats = [record for record in ledger.records() if record["type"] == "heartbeat"]
    assert {json.dumps(beat["ext"]) for beat in beats} == {'{"every_us": 100000}'}
    gaps = [later["mono"] - earlier["mono"] for earlier, later in itertools.pairwise(beats)]
    assert all(gap >= 90_000 for gap in gaps)
    assert verify_path(tmp_path / "log").exit_code == 0


def test_a_busy_log_and_a_log_without_the_option_write_no_heartbeats(tmp_path: Path) -> None:
    with open_log(tmp_path, heartbeat_seconds=30.0) as ledger:
        for _ in range(20):
            ledger.append("journal", {}).result(10)
    with open_log(tmp_path) as ledger:
        time.sleep(0.1)
        assert {record["type"] for record in ledger.records()} == {"genesis", "journal"}


def test_an_idle_log_is_sealed_when_its_time_comes_even_without_a_record(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_seconds=0.15):
        wait_for(lambda: len(list_seals(tmp_path / "log")) >= 3)
    with open_log(tmp_path) as ledger:
        kinds = [record["type"] for record in ledger.records()]
    assert kinds[0] == "genesis"
    assert set(kinds[1:]) == {"seal"}
    assert verify_path(tmp_path / "log").exit_code == 0


# -- cosignatures ----------------------------------------------------------------------------------


def test_cosignatures_are_kept_beside_the_log_and_in_head_while_it_is_newest(
    tmp_path: Path,
) -> None:
    with open_log(tmp_path) as ledger:
        note = ledger.seal_now()
        size = ledger.size
        one, two = cosign("w1.example", note), cosign("w2.example", note, 8)
        ledger.add_cosignatures(size, [one])
        ledger.add_cosignatures(size, [two.rstrip("\n"), one])
        anchors = tmp_path / "log" / "anchors"
        assert (anchors / f"{size}.cosig").read_text() == one + two
        assert (anchors / f"{size}.checkpoint").read_text() == note
        head = tmp_path / "log" / "HEAD"
        assert head.read_text() == note + one + two
    with open_log(tmp_path) as ledger:
        assert head.read_text() == note + one + two  # a restart leaves them
        ledger.append("journal", {}).result(10)
        newer = ledger.seal_now()
        ledger.add_cosignatures(size, [cosign("w3.example", note, 9)])
        assert head.read_text() == newer
        assert len((anchors / f"{size}.cosig").read_text().splitlines()) == 3
    assert verify_path(tmp_path / "log").exit_code == 0


def test_a_newer_line_of_a_key_takes_the_place_of_its_older_one(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        note = ledger.seal_now()
        name, blob = cosign("w1.example", note).split(" ")[1:]
        other = cosign("w1.example", "something else\n\n")
        ledger.add_cosignatures(ledger.size, [f"\u2014 {name} {blob}"])
        ledger.add_cosignatures(ledger.size, [other])
        assert (tmp_path / "log" / "HEAD").read_text() == note + other


def test_what_is_no_signature_line_is_refused(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        note = ledger.seal_now()
        for line in ("", "hello", "\u2014 name", f"{cosign('w', note)}\n{cosign('w', note)} x"):
            with pytest.raises(NoteRefused):
                ledger.add_cosignatures(ledger.size, [line])
        assert not (tmp_path / "log" / "anchors").exists()


def test_cosignatures_that_cannot_be_stored_are_an_error_and_no_failure(tmp_path: Path) -> None:
    class NoAnchors(Disk):
        def create(self, path: Path, mode: int) -> int:
            if path.parent.name == "anchors":
                raise OSError(5, "Input/output error")
            return super().create(path, mode)

    with open_log(tmp_path, disk=NoAnchors()) as ledger:
        note = ledger.seal_now()
        with pytest.raises(LedgerError, match="ask for them again"):
            ledger.add_cosignatures(ledger.size, [cosign("w", note)])
        ledger.append("journal", {}).result(10)


# -- leaves ----------------------------------------------------------------------------------------


def test_leaves_are_handed_on_in_order_without_a_hole_outside_of_the_writer(
    tmp_path: Path,
) -> None:
    taken: list[tuple[int, bytes]] = []
    threads = set()

    def take(first: int, leaves: bytes) -> None:
        threads.add(threading.current_thread().name)
        taken.append((first, leaves))

    with open_log(tmp_path) as ledger:
        ledger.append("journal", {}).result(10)
        begins = ledger.on_leaves(take)
        for _ in range(30):
            ledger.append("journal", {}).result(10)
        wait_for(lambda: bool(taken))
        ledger.seal_now()
        size = ledger.size
    assert begins == 2
    at = begins
    for first, leaves in taken:
        assert first == at
        at += len(leaves) // 32
    assert at == size
    assert "ledger-writer" not in threads
    lines = [
        line
        for path in list_segments(tmp_path / "log")
        for line in path.read_bytes().splitlines()
        if not line.startswith(b'{"cp":')
    ]
    joined = b"".join(leaves for _, leaves in taken)
    assert joined == b"".join(leaf_hash(line) for line in lines[begins:])


def test_a_taker_that_raises_is_left_out_and_harms_nobody(tmp_path: Path) -> None:
    calls, good = [], []

    def broken(first: int, leaves: bytes) -> None:
        calls.append(first)
        raise RuntimeError("no")

    with open_log(tmp_path) as ledger:
        ledger.on_leaves(broken)
        ledger.on_leaves(lambda first, leaves: good.append(first))
        ledger.append("journal", {}).result(10)
        wait_for(lambda: bool(good))
        ledger.append("journal", {}).result(10)
        wait_for(lambda: len(good) == 2)
    assert calls == [1]
    assert ledger.failure is None


# -- what a start compares -------------------------------------------------------------------------


def test_a_log_of_the_first_format_is_refused_with_a_sentence(tmp_path: Path) -> None:
    open_log(tmp_path).close()
    path = tmp_path / "log" / "log.json"
    identity = json.loads(path.read_text())
    assert identity["schema"] == 2
    del identity["segment_key"]
    path.write_text(json.dumps({**identity, "schema": 1}))
    with pytest.raises(LedgerError, match="has format 1, this program writes format 2"):
        open_log(tmp_path)


@pytest.mark.parametrize("kind", ["cosig", "checkpoint", "tsr", "ots"])
def test_a_log_shorter_than_what_others_have_signed_is_refused(tmp_path: Path, kind: str) -> None:
    with open_log(tmp_path) as ledger:
        ledger.append("journal", {}).result(10)
    shutil.copytree(tmp_path / "log", tmp_path / "old")
    with open_log(tmp_path) as ledger:
        ledger.append("journal", {}).result(10)
        size, note = ledger.size, ledger.checkpoint
    shutil.rmtree(tmp_path / "log")
    shutil.copytree(tmp_path / "old", tmp_path / "log")
    anchors = tmp_path / "log" / "anchors"
    anchors.mkdir()
    (anchors / f"{size}.{kind}").write_text(note)
    with pytest.raises(LedgerRollback, match=f"{size}.{kind} is for {size}.*sphragis repair"):
        open_log(tmp_path)
    (anchors / f"{size}.{kind}").unlink()
    open_log(tmp_path).close()


def test_a_log_that_differs_from_its_own_anchor_is_refused(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        ledger.append("journal", {}).result(10)
    shutil.copytree(tmp_path / "log", tmp_path / "old")
    with open_log(tmp_path) as ledger:
        size, note = ledger.append("journal", {}).result(10).size, ledger.checkpoint
    shutil.rmtree(tmp_path / "log")
    shutil.copytree(tmp_path / "old", tmp_path / "log")
    with open_log(tmp_path) as ledger:
        ledger.append("journal", {"task": "another"}).result(10)
    (tmp_path / "log" / "anchors").mkdir()
    (tmp_path / "log" / "anchors" / f"{size}.checkpoint").write_text(note)
    with pytest.raises(LedgerRollback, match="differs from what it anchored"):
        open_log(tmp_path)


def test_a_pruned_log_opens_goes_on_and_is_read_from_its_first_record_left(
    tmp_path: Path,
) -> None:
    with open_log(tmp_path) as ledger:
        for _ in range(4):
            ledger.append("journal", {}).result(10)
            ledger.seal_now()
        ledger.append("journal", {}).result(10)
        everything = list(ledger.records())
    for path in list_segments(tmp_path / "log")[:2]:
        path.unlink()
    left = int(list_segments(tmp_path / "log")[0].stem)
    with open_log(tmp_path) as ledger:
        assert list(ledger.records()) == everything[left:]
        assert list(ledger.records(left + 1)) == everything[left + 1 :]
        assert ledger.append("journal", {}).result(10).seq == len(everything)
        ledger.seal_now()
    for path in list_segments(tmp_path / "log")[:-1]:
        path.unlink()
    with open_log(tmp_path) as ledger:
        assert ledger.append("journal", {}).result(10).seq == ledger.size - 1
        ledger.seal_now()
        ledger.append("journal", {}).result(10)
    list_segments(tmp_path / "log")[0].unlink()
    list_segments(tmp_path / "log")[0].unlink()
    with pytest.raises(LedgerCorrupt, match="is missing"):
        open_log(tmp_path)


def test_without_its_anchors_and_head_a_changed_seal_is_still_found(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        for _ in range(3):
            ledger.append("journal", {}).result(10)
            ledger.seal_now()
    for seal in list_seals(tmp_path / "log"):
        text = seal.read_text()
        seal.chmod(0o600)
        for changed in (text.replace("ts ", "ts 1"), text[:-20], "", text + text):
            seal.write_text(changed)
            with pytest.raises(LedgerCorrupt, match=r"sphragis repair"):
                open_log(tmp_path)
        seal.write_text(text)
    open_log(tmp_path).close()
