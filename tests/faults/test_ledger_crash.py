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
from collections.abc import Iterator
from pathlib import Path

import pytest
from quick_disk import QuickDisk

from shared.ledger import Ledger, LedgerCorrupt, LedgerError, LedgerRollback, verify_path
from shared.ledger.checkpoint import Signer
from shared.ledger.entry import Entry
from shared.ledger.keys import KeyRing
from shared.ledger.recovery import recover
from shared.ledger.segment import QUARANTINE, list_segments
from shared.ledger.storage import Disk

ORIGIN = "audit.example.org/crash"
#: How often the ledger is killed; all of them with KILLS=1000.
KILLS = int(os.environ.get("KILLS", "40"))
#: After so many kills the log is compared as a whole and a new one begun.
KILLS_A_LOG = 100
#: How many records the log of the torn tests has before its last batch, and in all.
GOOD, ALL = 5, 7

#: Starts a process that appends, from one that has imported everything: a start takes
#: milliseconds. Eight threads append and tell each acknowledged record to whoever reads their
#: output; small segments, and in every second process changes of the log key, so that kills also
#: land in the middle of sealing and of both rotations.
SERVER = f"""
import os, sys, threading, time
from pathlib import Path
from shared.ledger import Ledger

def append(home):
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
    while True:
        time.sleep(0.04)
        if os.getpid() % 2:
            ledger.rotate_key()

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        append(Path(line.strip()))
    os.write(1, b"pid %d\\n" % pid)
    os.waitpid(pid, 0)
    os.write(1, b"ended\\n")
"""


def open_log(home: Path, disk: Disk | None = None) -> Ledger:
    return Ledger.open(home / "log", keys=home / "keys", origin=ORIGIN, disk=disk)


class Killer:
    """Lets the ledger run in another process and kills it from outside."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._rest = b""

    def __enter__(self) -> Killer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(30)

    def _lines(self, seconds: float) -> Iterator[bytes]:
        """Yield the lines that come within so many seconds."""
        assert self._server.stdout is not None
        deadline = time.monotonic() + seconds
        while True:
            *lines, self._rest = self._rest.split(b"\n")
            yield from lines
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._server.stdout], [], [], left)[0]:
                return
            piece = os.read(self._server.stdout.fileno(), 1 << 16)
            assert piece, "the server of processes is gone"
            self._rest += piece

    def run_and_kill(
        self, home: Path, seconds: float, *, from_ready: bool
    ) -> list[tuple[int, str]]:
        """Let it append, kill it so long after it was ready (or begun), and return what it was told
        is durable."""
        assert self._server.stdin is not None
        self._server.stdin.write(f"{home}\n".encode())
        said: list[bytes] = []
        waiting_for = b"ready" if from_ready else b"pid"
        for line in self._lines(60):
            said.append(line)
            if line.startswith(waiting_for):
                break
        pid = next(int(line.split()[1]) for line in said if line.startswith(b"pid"))
        said += self._lines(seconds)
        os.kill(pid, signal.SIGKILL)
        for line in self._lines(60):
            if line == b"ended":
                break
            said.append(line)
        pairs = (line.split() for line in said if line[:1].isdigit())
        return [(int(seq), leaf.decode()) for seq, leaf in pairs]


def stored_leaves(log: Path) -> dict[int, str]:
    stored: dict[int, str] = {}
    for path in list_segments(log):
        for line in path.read_bytes().splitlines():
            record = json.loads(line)
            if "seq" in record:
                stored[record["seq"]] = hashlib.sha256(b"\x00" + line).hexdigest()
    return stored


def test_no_acknowledged_record_is_lost_by_kill_9(tmp_path: Path) -> None:
    chance = random.Random(1)
    acknowledged: dict[int, str] = {}
    kills = told = torn_tails = 0
    with Killer() as killer:
        while kills < KILLS:
            home = tmp_path / str(kills // KILLS_A_LOG)
            home.mkdir(exist_ok=True)
            early = chance.random() < 0.25  # while it opens
            pause = chance.uniform(0.0, 0.03 if early else 0.1)
            for seq, leaf in killer.run_and_kill(home, pause, from_ready=not early):
                assert acknowledged.setdefault(seq, leaf) == leaf, "a number was given twice"
            kills += 1
            if kills % KILLS_A_LOG and kills < KILLS:
                continue
            Ledger.open(
                home / "log", keys=home / "keys", origin=ORIGIN, close_open_requests=True
            ).close()
            stored = stored_leaves(home / "log")
            assert {seq: stored.get(seq) for seq in acknowledged} == acknowledged
            verdict = verify_path(home / "log")
            assert verdict.exit_code == 0, verdict
            assert verdict.records == len(stored)
            told += len(acknowledged)
            torn_tails += len(list((home / "log" / QUARANTINE).glob("*")))
            acknowledged.clear()
            shutil.rmtree(home)
    print(f"{kills} kills, {told} records acknowledged, {torn_tails} torn ends, 0 lost")
    assert told > 100


@pytest.fixture(scope="module", params=["one key", "two keys"])
def torn(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, bytes, int]:
    """A log, the bytes of its segment, and where its last batch begins. HEAD is one batch old,
    as it may be after a crash. With two keys, the log key has just been changed."""
    home = tmp_path_factory.mktemp("torn")
    ledger = open_log(home, QuickDisk())
    ledger._commit([Entry("journal", {"ext": {"n": n}}) for n in range(2)])
    if request.param == "two keys":
        ledger.rotate_key()
    while ledger.size < GOOD:
        ledger._commit([Entry("journal", {})])
    ledger._publish_head()
    start = ledger._committed.offset
    ledger._commit([Entry("journal", {"ext": {"n": n}}) for n in range(ALL - GOOD)])
    ledger._heads._note = ledger.checkpoint  # the crash comes before HEAD follows
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
def signers_of(home: Path) -> list[Signer]:
    return KeyRing(home / "keys", ORIGIN, Disk()).signers()


def recovered(home: Path) -> tuple[int, int]:
    """Return (records, offset) of the last good state, as a start would find it."""
    state = recover(home / "log", *signers_of(home))
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


def test_each_flipped_bit_of_head_is_refused_unless_it_makes_one_signature_anothers(
    torn: tuple[Path, bytes, int],
) -> None:
    home, data, _ = torn
    set_up(torn, data)
    head = (home / "HEAD").read_bytes()
    text, signatures = head.split(b"\n\n")
    for at in range(len(head)):
        changed = bytearray(head)
        changed[at] ^= 1
        (home / "log" / "HEAD").write_bytes(changed)
        try:
            recovered(home)
        except LedgerCorrupt:
            continue
        # The name or id of one of two keys is now one that nobody knows, as a witness's would be.
        assert changed.startswith(text + b"\n\n")
        assert signatures.count(b"\n") == 2
