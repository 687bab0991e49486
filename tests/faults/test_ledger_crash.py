"""Crashes of the ledger: kill -9 under load, and every way the last batch can be torn."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shared.ledger import Ledger, LedgerCorrupt, LedgerError, LedgerRollback, verify_path
from shared.ledger.checkpoint import Signer, load_signer
from shared.ledger.log import _Entry
from shared.ledger.recovery import recover
from shared.ledger.segment import QUARANTINE, list_segments
from shared.ledger.storage import Disk

ORIGIN = "audit.example.org/crash"
ROUNDS = 20
#: How many records the log of the torn tests has before its last batch, and in all.
GOOD, ALL = 5, 7

#: Appends from eight threads and tells each acknowledged record to whoever reads its output;
#: small segments, so that kills also land in the middle of sealing.
CHILD = f"""
import os, sys, threading
from pathlib import Path
from shared.ledger import Ledger
home = Path(sys.argv[1])
ledger = Ledger.open(
    home / "log", keys=home / "keys", origin={ORIGIN!r}, close_open_requests=True,
    segment_bytes=60_000,
)
os.write(1, b"ready\\n")
def work(n):
    while True:
        receipt = ledger.append("request", {{"ext": {{"by": n}}}}).result()
        os.write(1, b"%d %s\\n" % (receipt.seq, receipt.leaf.encode()))
for n in range(8):
    threading.Thread(target=work, args=(n,)).start()
"""


class QuickDisk(Disk):
    """Power cuts are not simulated here, so nothing needs to reach the platter."""

    def sync(self, fd: int) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass


def open_log(home: Path, disk: Disk | None = None) -> Ledger:
    return Ledger.open(home / "log", keys=home / "keys", origin=ORIGIN, disk=disk)


def run_and_kill(home: Path, seconds: float) -> list[tuple[int, str]]:
    """Let a child append, kill it, return what it was told is durable."""
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(home)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    output, deadline = b"", time.monotonic() + 60
    stop_at = float("inf")
    while time.monotonic() < min(deadline, stop_at):
        if select.select([child.stdout], [], [], 0.005)[0]:
            piece = os.read(child.stdout.fileno(), 65536)
            assert piece, "the child ended by itself"
            output += piece
        if stop_at == float("inf") and b"ready\n" in output:
            stop_at = time.monotonic() + seconds
    child.send_signal(signal.SIGKILL)
    child.wait()
    output += child.stdout.read()
    child.stdout.close()
    lines = output.split(b"\n")[:-1]  # the last line may be cut
    assert b"ready" in lines
    pairs = (line.split() for line in lines if line != b"ready")
    return [(int(seq), leaf.decode()) for seq, leaf in pairs]


def test_no_acknowledged_record_is_lost_by_kill_9(tmp_path: Path) -> None:
    chance = random.Random(1)
    acknowledged: dict[int, str] = {}
    for _ in range(ROUNDS):
        for seq, leaf in run_and_kill(tmp_path, chance.uniform(0.0, 0.15)):
            assert acknowledged.setdefault(seq, leaf) == leaf, "a record number was given twice"
    Ledger.open(
        tmp_path / "log", keys=tmp_path / "keys", origin=ORIGIN, close_open_requests=True
    ).close()
    stored: dict[int, str] = {}
    for path in list_segments(tmp_path / "log"):
        for line in path.read_bytes().splitlines():
            record = json.loads(line)
            if "seq" in record:
                stored[record["seq"]] = hashlib.sha256(b"\x00" + line).hexdigest()
    assert len(acknowledged) > 100
    assert {seq: stored.get(seq) for seq in acknowledged} == acknowledged
    verdict = verify_path(tmp_path / "log")
    assert verdict.exit_code == 0, verdict
    assert verdict.records == len(stored)


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, int]:
    """A log, the bytes of its segment, and where its last batch begins. HEAD is one batch old,
    as it may be after a crash."""
    home = tmp_path_factory.mktemp("torn")
    ledger = open_log(home)
    for count in (2, 2):
        ledger._commit([_Entry("journal", {"ext": {"n": n}}) for n in range(count)])
    ledger._publish_head()
    start = ledger._at.offset
    ledger._commit([_Entry("journal", {"ext": {"n": n}}) for n in range(ALL - GOOD)])
    ledger._head_note = ledger.checkpoint  # the crash comes before HEAD follows
    ledger.close()
    return home, list_segments(home / "log")[0].read_bytes(), start


def set_up(torn: tuple[Path, bytes, int], content: bytes) -> Path:
    home, _, _ = torn
    shutil.rmtree(home / "log" / QUARANTINE, ignore_errors=True)
    segment = list_segments(home / "log")[0]
    segment.chmod(0o600)
    segment.write_bytes(content)
    if not (home / "HEAD").exists():
        shutil.copy(home / "log" / "HEAD", home / "HEAD")
    shutil.copy(home / "HEAD", home / "log" / "HEAD")
    return segment


@functools.cache
def signer_of(home: Path) -> Signer:
    return load_signer(home / "keys", ORIGIN, create=False)


def recovered(home: Path) -> tuple[int, int]:
    """Return (records, offset) of the last good state, as a start would find it."""
    state = recover(home / "log", signer_of(home))
    return state.position.size, state.offset


@pytest.mark.parametrize("kind", ["cut", "zeros", "garbage"])
def test_a_torn_last_batch_is_recovered_at_every_offset(
    torn: tuple[Path, bytes, int], kind: str
) -> None:
    home, data, start = torn
    chance = random.Random(2)
    for at in range(start, len(data)):
        length = len(data) - at
        tail = {"cut": b"", "zeros": bytes(length), "garbage": chance.randbytes(length)}[kind]
        torn_tail = data[start:at] + tail
        segment = set_up(torn, data[:start] + torn_tail)
        whole = at == len(data) - 1  # only the newline is not there: everything signed is
        assert recovered(home) == ((ALL, len(data)) if whole else (GOOD, start)), at
        if whole or at % 41 == 0:
            with open_log(home, QuickDisk()) as ledger:
                records = list(ledger.records(ALL if whole else GOOD))
            assert [record["type"] for record in records] == ["recover"] * bool(torn_tail)
            assert segment.read_bytes().startswith(data if whole else data[:start])
            assert verify_path(home / "log").exit_code == 0
        if torn_tail and at % 41 == 0:
            kept = (home / "log" / QUARANTINE / records[0]["ext"]["file"]).read_bytes()
            assert kept == torn_tail
            assert records[0]["ext"]["bytes"] == len(torn_tail)
            assert records[0]["ext"]["sha256"] == hashlib.sha256(torn_tail).hexdigest()


def test_a_crash_between_quarantine_and_its_record_is_made_good(
    torn: tuple[Path, bytes, int],
) -> None:
    home, data, start = torn

    class Stops(QuickDisk):
        """Crashes when the recover record is written, or right before the truncation."""

        def __init__(self, where: str) -> None:
            self.where = where

        def truncate(self, fd: int, size: int) -> None:
            if self.where == "truncate":
                raise OSError(5, "Input/output error")
            super().truncate(fd, size)

        def write(self, fd: int, data: bytes) -> None:
            if self.where == "write" and b'"type":"recover"' in data:
                raise OSError(5, "Input/output error")
            super().write(fd, data)

    for where in ("truncate", "write"):
        set_up(torn, data[: start + 100])
        for _ in range(2):
            with pytest.raises(LedgerError, match="Input/output error"):
                open_log(home, Stops(where))
        with open_log(home, QuickDisk()) as ledger:
            records = list(ledger.records(GOOD))
        assert [record["type"] for record in records] == ["recover"]
        assert records[0]["ext"]["bytes"] == 100
        assert verify_path(home / "log").exit_code == 0


def test_a_flipped_bit_anywhere_before_the_last_batch_refuses_the_start_and_touches_nothing(
    torn: tuple[Path, bytes, int],
) -> None:
    home, data, start = torn
    chance = random.Random(3)
    for at in range(0, start, 2):
        changed = bytearray(data)
        changed[at] ^= 1 << chance.randrange(8)
        segment = set_up(torn, bytes(changed))
        with pytest.raises((LedgerCorrupt, LedgerRollback)) as caught:
            recovered(home)
        assert str(caught.value).endswith(".")
        if at % 52 == 0:
            with pytest.raises((LedgerCorrupt, LedgerRollback)):
                open_log(home, QuickDisk())
            assert segment.read_bytes() == changed
            assert verify_path(home / "log").exit_code == 1


def test_each_flipped_bit_in_the_last_batch_is_refused_when_head_is_known(
    torn: tuple[Path, bytes, int],
) -> None:
    home, data, start = torn
    segment = set_up(torn, data)
    with open_log(home, QuickDisk()):
        pass  # HEAD now names the last batch
    head = (home / "log" / "HEAD").read_bytes()
    chance = random.Random(4)
    for at in range(start, len(data) - 1):
        changed = bytearray(data)
        changed[at] ^= 1 << chance.randrange(8)
        set_up(torn, bytes(changed))
        (home / "log" / "HEAD").write_bytes(head)
        with pytest.raises((LedgerCorrupt, LedgerRollback)):
            recovered(home)
    # The last byte of all is a newline, and what it should be is certain.
    set_up(torn, data[:-1] + b"\x0b")
    with open_log(home, QuickDisk()) as ledger:
        assert [record["type"] for record in ledger.records(ALL)] == ["recover"]
    assert segment.read_bytes().startswith(data)


def test_each_flipped_bit_of_head_is_refused(torn: tuple[Path, bytes, int]) -> None:
    home, data, _ = torn
    set_up(torn, data)
    head = (home / "HEAD").read_bytes()
    for at in range(len(head)):
        changed = bytearray(head)
        changed[at] ^= 1
        (home / "log" / "HEAD").write_bytes(changed)
        with pytest.raises(LedgerCorrupt):
            recovered(home)
