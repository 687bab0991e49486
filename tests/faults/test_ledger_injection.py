"""Disk faults under the ledger: each ends clean, LOW or FAILED, never silent.

Errors are injected at every single call that changes the disk through the one layer that makes
these calls, by the kernel through strace where that is possible, and by a disk that is really
full where one can be mounted.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Final

import pytest

from shared.ledger import (
    Ledger,
    LedgerError,
    LedgerFailed,
    LedgerLow,
    LogState,
    Receipt,
    verify_path,
)
from shared.ledger.storage import Disk

ORIGIN = "audit.example.org/faults"
#: Records of one run; a segment holds about five, and the log key changes in the middle.
COUNT: Final = 12
SEGMENT_BYTES: Final = 4000
#: How many faults of the kernel are tried; all of them with FAULTS=all, which takes minutes.
EVERY: Final = 1 if os.environ.get("FAULTS") == "all" else 12


class FaultyDisk(Disk):
    """Fails the n-th call of one kind. A short write stores a part, then fails as a full disk
    does. Nothing needs to reach the platter."""

    def __init__(self, call: str, at: int, code: int, *, short: bool = False) -> None:
        self.call, self.left, self.code, self.short = call, at, code, short
        self.fired = False
        self.syncs_after = 0

    def _hit(self, call: str) -> bool:
        if call != self.call or self.fired:
            return False
        self.left -= 1
        self.fired = self.left == 0
        return self.fired

    def _maybe(self, call: str) -> None:
        if self._hit(call):
            raise OSError(self.code, os.strerror(self.code))

    def write_some(self, fd: int, data: bytes) -> int:
        if self._hit("write"):
            if self.short:
                super().write_some(fd, data[: len(data) // 2])
            raise OSError(self.code, os.strerror(self.code))
        return super().write_some(fd, data)

    def sync(self, fd: int) -> None:
        if self.fired and self.call == "sync":
            self.syncs_after += 1
        self._maybe("sync")

    def sync_directory(self, path: Path) -> None:
        self._maybe("sync_directory")

    def rename(self, old: Path, new: Path) -> None:
        self._maybe("rename")
        super().rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        self._maybe("link")
        super().link(old, new)

    def unlink(self, path: Path) -> None:
        if path.exists():
            self._maybe("unlink")
        super().unlink(path)

    def open_append(self, path: Path) -> int:
        self._maybe("open")
        return super().open_append(path)

    def create(self, path: Path, mode: int) -> int:
        self._maybe("create")
        return super().create(path, mode)

    def chmod(self, path: Path, mode: int) -> None:
        self._maybe("chmod")
        super().chmod(path, mode)

    def allocate(self, fd: int, size: int) -> None:
        self._maybe("allocate")
        super().allocate(fd, size)


class ShortDisk(Disk):
    """Every write stores one to seven bytes only, which is allowed and no error."""

    def write_some(self, fd: int, data: bytes) -> int:
        return super().write_some(fd, data[: 1 + len(data) % 7])

    def sync(self, fd: int) -> None:
        pass


def open_log(home: Path, disk: Disk | None = None) -> Ledger:
    return Ledger.open(
        home / "log",
        keys=home / "keys",
        origin=ORIGIN,
        disk=disk,
        segment_bytes=SEGMENT_BYTES,
        reserve_bytes=4096,
    )


def append(ledger: Ledger, count: int) -> list[Receipt]:
    """Append until something is refused, and return what was acknowledged."""
    acknowledged = []
    for n in range(count):
        try:
            future: Future[Receipt] = ledger.append("journal", {"ext": {"n": n}})
            acknowledged.append(future.result(10))
        except (LedgerFailed, LedgerLow):
            break
    return acknowledged


def work(ledger: Ledger) -> list[Receipt]:
    """Do what a ledger does: records, segments, a change of the log key."""
    acknowledged = append(ledger, COUNT // 2)
    if len(acknowledged) == COUNT // 2:
        try:
            ledger.rotate_key()
        except (LedgerFailed, LedgerLow):
            return acknowledged
        acknowledged += append(ledger, COUNT - len(acknowledged))
    return acknowledged


def holds(home: Path, acknowledged: list[Receipt]) -> list[str]:
    """Open the log again, check what was acknowledged, go on; return the types of its records."""
    with open_log(home, FaultyDisk("", 0, 0)) as again:
        records = list(again.records())
        for receipt in acknowledged:
            assert records[receipt.seq]["type"] == "journal"
            assert receipt.leaf == (
                records[receipt.seq + 1]["prev"] if receipt.seq + 1 < len(records) else receipt.leaf
            )
        again.append("journal", {}).result(10)
        again.seal_now()
    verdict = verify_path(home / "log")
    assert verdict.exit_code == 0, verdict
    return [record["type"] for record in records]


def faults(call: str, code: int, *, short: bool) -> Iterator[FaultyDisk]:
    """Yield a disk for each call of a kind that the work makes."""
    for at in range(1, 500):
        disk = FaultyDisk(call, at, code, short=short)
        yield disk
        if not disk.fired:
            assert at > 1, "there is no such call"
            return


KINDS = [
    *[(call, code, False)
      for call in ("write", "create", "open", "rename", "link", "unlink", "allocate")
      for code in (errno.EIO, errno.ENOSPC)],
    *[(call, errno.EIO, False) for call in ("sync", "sync_directory", "chmod")],
    *[("write", code, True) for code in (errno.EIO, errno.ENOSPC)],
]  # fmt: skip


@pytest.mark.parametrize(("call", "code", "short"), KINDS)
def test_a_fault_at_any_call_ends_clean_low_or_failed(
    tmp_path: Path, call: str, code: int, short: bool
) -> None:
    for number, disk in enumerate(faults(call, code, short=short)):
        home = tmp_path / str(number)
        acknowledged: list[Receipt] = []
        failure: str | None = ""
        said = ""
        try:
            ledger = open_log(home, disk)
        except LedgerError as refused:
            said = str(refused)
        else:
            acknowledged = work(ledger)
            state = ledger.state
            ledger.close()
            failure = ledger.failure
            if len(acknowledged) < COUNT:
                assert state is not LogState.OPEN
            if disk.fired and code != errno.ENOSPC:
                assert failure is not None
                assert os.strerror(code) in failure
            if not disk.fired:
                assert failure is None
        if said:
            assert disk.fired
            assert os.strerror(code) in said
        kinds = holds(home, acknowledged)
        if disk.fired and failure is None and len(acknowledged) < COUNT:
            assert "gap" in kinds, "requests were refused and the log does not say so"
        shutil.rmtree(home)


def test_a_failed_sync_is_never_tried_again(tmp_path: Path) -> None:
    disk = FaultyDisk("sync", 14, errno.EIO)
    ledger = open_log(tmp_path, disk)
    acknowledged = append(ledger, 50)
    ledger.close()
    assert disk.fired
    assert len(acknowledged) < 50
    assert disk.syncs_after == 0


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_write_error_cuts_the_unfinished_batch_off(tmp_path: Path, code: int) -> None:
    with open_log(tmp_path) as ledger:
        append(ledger, 2)
    segment = tmp_path / "log" / "segments" / f"{0:020d}.jsonl"
    before = segment.read_bytes()
    ledger = open_log(tmp_path, FaultyDisk("write", 1, code, short=True))
    assert append(ledger, 1) == []
    ledger.close()
    after = segment.read_bytes()
    assert after.startswith(before)
    assert (b'"type":"gap"' in after[len(before) :]) is (code == errno.ENOSPC)
    assert b'"n":0' not in after[len(before) :]


def test_short_writes_are_completed(tmp_path: Path) -> None:
    with open_log(tmp_path, ShortDisk()) as ledger:
        assert len(append(ledger, 5)) == 5
    assert verify_path(tmp_path / "log").exit_code == 0


# -- faults from the kernel ------------------------------------------------------------------------

CHILD = f"""
import sys
from pathlib import Path
from shared.ledger import Ledger, LedgerError, LedgerLow
home = Path(sys.argv[1])
try:
    ledger = Ledger.open(
        home / "log", keys=home / "keys", origin={ORIGIN!r}, segment_bytes={SEGMENT_BYTES},
        reserve_bytes=4096,
    )
    try:
        for n in range({COUNT}):
            if n == {COUNT // 2}:
                ledger.rotate_key()
            receipt = ledger.append("journal", {{"ext": {{"n": n}}}}).result(20)
            print(receipt.seq, n, flush=True)
    except LedgerLow:
        print("low", flush=True)
    ledger.close()
    print("failure" if ledger.failure else "clean", flush=True)
except LedgerError as error:
    print("refused:", error, flush=True)
"""
CALLS: Final = (
    "openat", "write", "fdatasync", "fsync", "rename", "link", "unlink", "ftruncate",
    "chmod", "fchmodat", "fallocate", "mkdir",
)  # fmt: skip


def strace() -> str:
    """Return a strace that may trace children here, or skip."""
    path = shutil.which("strace")
    if path is not None:
        probe = subprocess.run(
            [path, "-f", "-e", "trace=fdatasync", "-o", "/dev/null", "true"],
            capture_output=True,
            check=False,
        )
        if probe.returncode == 0:
            return path
    pytest.skip("strace is not installed or may not trace here")


def child(home: Path, *tracing: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*tracing, sys.executable, "-c", CHILD, str(home)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def calls_on(home: Path) -> list[tuple[str, str]]:
    """Return each (call, path below `home`) of a run in which nothing goes wrong."""
    trace = home / "trace"
    traced = ",".join(CALLS)
    result = child(home, strace(), "-f", "-y", "-o", str(trace), "-e", f"trace={traced}")
    assert result.stdout.endswith("clean\n"), result.stderr
    found = set()
    for line in trace.read_text().splitlines():
        if match := re.match(r"\d+ +(\w+)\(", line):
            for path in re.findall(rf"{re.escape(str(home))}/([^\">]*)", line)[-1:]:
                found.add((match[1], path))
    return sorted(found)


@pytest.fixture(scope="module")
def kernel_faults(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, str]]:
    """Every (call, path, what happens there): for each call on each file an error and a kill."""
    dry = tmp_path_factory.mktemp("dry")
    # LOCK's content is a courtesy; HEAD is opened to be read again, and written if that fails.
    calls = [
        pair for pair in calls_on(dry) if "LOCK" not in pair[1] and pair != ("openat", "log/HEAD")
    ]
    assert {call for call, _ in calls} >= {"openat", "write", "fdatasync", "fsync", "rename"}
    return [
        (call, path, what)
        for call, path in calls
        for what in ("error=EIO", "error=ENOSPC", "signal=SIGKILL")
    ]


@pytest.mark.parametrize("part", range(EVERY) if EVERY == 1 else [0])
def test_a_fault_from_the_kernel_ends_clean_low_or_failed(
    tmp_path: Path, kernel_faults: list[tuple[str, str, str]], part: int
) -> None:
    tracer = strace()
    tried = kernel_faults[part::EVERY]
    assert len(tried) > 5
    for number, (call, path, what) in enumerate(tried):
        home = tmp_path / str(number)
        trace = tmp_path / "trace"
        result = child(
            home, tracer, "-f", "-o", str(trace), "-P", str(home / path),
            "-e", f"trace={call}", "-e", f"inject={call}:{what}:when=1",
        )  # fmt: skip
        lines = result.stdout.splitlines()
        hit = "(INJECTED)" in trace.read_text()
        acknowledged = [line.split() for line in lines if line[:1].isdigit()]
        where = (call, path, what, lines[-1:], result.stderr[-400:])
        if "SIGKILL" not in what:
            assert lines, where
            finished = lines[-1]
            assert finished in ("clean", "failure") or finished.startswith("refused:"), where
            if len(acknowledged) < COUNT:
                assert finished != "clean" or "low" in lines, where
            if hit and "EIO" in what:
                assert finished != "clean", where
        with open_log(home) as ledger:
            records = list(ledger.records())
        for seq, n in acknowledged:
            assert records[int(seq)]["ext"] == {"n": int(n)}, where
        verdict = verify_path(home / "log")
        assert verdict.exit_code == 0, (where, verdict)
        shutil.rmtree(home)


# -- a disk that is really full --------------------------------------------------------------------

FULL = f"""
import os, sys, time
from pathlib import Path
from shared.ledger import Ledger, LedgerLow, LogState, verify_path
mount, keys = Path(sys.argv[1]), Path(sys.argv[2])
ballast = mount / "ballast"
ballast.write_bytes(bytes(400_000))
ledger = Ledger.open(
    mount / "log", keys=keys, origin={ORIGIN!r}, reserve_bytes=200_000, segment_bytes=100_000
)
count = 0
try:
    while count < 5000:
        ledger.append("request", {{"ext": {{"n": count}}}}).result(20)
        count += 1
except LedgerLow:
    pass
assert 200 < count < 5000, count
assert ledger.state is LogState.LOW
refused = 0
for n in range(3):
    try:
        ledger.append("request", {{}})
    except LedgerLow:
        refused += 1
assert refused == 3
for n in range(100):  # what is open can still be closed
    ledger.append("outcome", {{"ref": n + 1, "outcome": {{"status": "ok"}}}}).result(20)
ballast.unlink()
deadline = time.monotonic() + 20
while ledger.state is not LogState.OPEN:
    assert time.monotonic() < deadline
    time.sleep(0.05)
ledger.append("request", {{}}).result(20)
gaps = [record["ext"] for record in ledger.records() if record["type"] == "gap"]
assert [gap["state"] for gap in gaps] == ["begun", "ended"], gaps
assert gaps[1]["refused"] == 4, gaps
ledger.close()
assert ledger.failure is None
with Ledger.open(mount / "log", keys=keys, origin={ORIGIN!r}, close_open_requests=True) as again:
    assert sum(record["type"] == "request" for record in again.records()) == count + 1
verdict = verify_path(mount / "log")
assert verdict.exit_code == 0, verdict
print("acknowledged", count)
"""


def test_a_really_full_disk_refuses_closes_what_is_open_and_goes_on_by_itself(
    tmp_path: Path,
) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    script = (
        f'mount -t tmpfs -o size=1m tmpfs "{mount}" || exit 77; '
        f'exec "{sys.executable}" -c "$1" "{mount}" "{tmp_path}/keys"'
    )
    result = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", FULL],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if result.returncode == 77 or "unshare" in result.stderr:
        pytest.skip("a small file system cannot be mounted here")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("acknowledged")
