"""Disk faults under the ledger: each ends clean or FAILED, never silent.

Errors are injected at the n-th write, sync, rename or truncation through the one layer that
makes these calls, by the kernel through strace where that is possible, and by a disk that is
really full where one can be mounted.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

from shared.ledger import (
    Ledger,
    LedgerError,
    LedgerFailed,
    LogState,
    Receipt,
    verify_path,
)
from shared.ledger.storage import Disk

ORIGIN = "audit.example.org/faults"


class FaultyDisk(Disk):
    """Fails the n-th call of one kind. A short write stores a part, then fails as a full disk
    does; `then` says whether later calls of the kind fail as well."""

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

    def write_some(self, fd: int, data: bytes) -> int:
        if self._hit("write"):
            if self.short:
                super().write_some(fd, data[: len(data) // 2])
            raise OSError(self.code, os.strerror(self.code))
        return super().write_some(fd, data)

    def sync(self, fd: int) -> None:
        if self.fired and self.call == "sync":
            self.syncs_after += 1
        if self._hit("sync"):
            raise OSError(self.code, os.strerror(self.code))

    def sync_directory(self, path: Path) -> None:
        if self._hit("sync_directory"):
            raise OSError(self.code, os.strerror(self.code))

    def rename(self, old: Path, new: Path) -> None:
        if self._hit("rename"):
            raise OSError(self.code, os.strerror(self.code))
        super().rename(old, new)


class ShortDisk(Disk):
    """Every write stores one to seven bytes only, which is allowed and no error."""

    def write_some(self, fd: int, data: bytes) -> int:
        return super().write_some(fd, data[: 1 + len(data) % 7])

    def sync(self, fd: int) -> None:
        pass


def open_log(home: Path, disk: Disk | None = None) -> Ledger:
    return Ledger.open(
        home / "log", keys=home / "keys", origin=ORIGIN, disk=disk, segment_bytes=4000
    )


def append_until_failure(ledger: Ledger, count: int) -> list[Receipt]:
    """Append, and return what was acknowledged."""
    acknowledged = []
    for n in range(count):
        try:
            future: Future[Receipt] = ledger.append("journal", {"ext": {"n": n}})
            acknowledged.append(future.result(10))
        except LedgerFailed:
            break
    return acknowledged


CASES = [
    *[("write", at, code, short) for at in range(1, 26, 3) for code in (errno.EIO, errno.ENOSPC)
      for short in (False, True)],
    *[("sync", at, errno.EIO, False) for at in range(1, 26, 2)],
    *[("sync_directory", at, errno.EIO, False) for at in range(1, 12)],
    *[("rename", at, errno.ENOSPC, False) for at in range(1, 8)],
]  # fmt: skip


@pytest.mark.parametrize(("call", "at", "code", "short"), CASES)
def test_an_injected_fault_ends_clean_or_failed(
    tmp_path: Path, call: str, at: int, code: int, short: bool
) -> None:
    disk = FaultyDisk(call, at, code, short=short)
    acknowledged: list[Receipt] = []
    try:
        ledger = open_log(tmp_path, disk)
    except LedgerError:
        assert disk.fired
    else:
        acknowledged = append_until_failure(ledger, 20)
        failed = ledger.state is LogState.FAILED
        if len(acknowledged) < 20:
            assert failed
            with pytest.raises(LedgerFailed):
                ledger.append("journal", {})
        ledger.close()
        if disk.fired:
            assert ledger.failure is not None
            assert os.strerror(code) in ledger.failure
        else:
            assert ledger.failure is None
    with open_log(tmp_path) as again:
        records = list(again.records())
        for receipt in acknowledged:
            assert records[receipt.seq]["ext"] == {"n": records[receipt.seq]["ext"]["n"]}
        again.append("journal", {}).result(10)
    verdict = verify_path(tmp_path / "log")
    assert verdict.exit_code == 0, verdict


def test_a_failed_sync_is_never_tried_again(tmp_path: Path) -> None:
    disk = FaultyDisk("sync", 9, errno.EIO)
    ledger = open_log(tmp_path, disk)
    acknowledged = append_until_failure(ledger, 50)
    ledger.close()
    assert disk.fired
    assert len(acknowledged) < 50
    assert disk.syncs_after == 0


def test_a_write_error_cuts_the_unfinished_batch_off(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        append_until_failure(ledger, 2)
    segment = tmp_path / "log" / "segments" / f"{0:020d}.jsonl"
    before = segment.read_bytes()
    ledger = open_log(tmp_path, FaultyDisk("write", 1, errno.ENOSPC, short=True))
    assert append_until_failure(ledger, 1) == []
    ledger.close()
    assert segment.read_bytes() == before


def test_short_writes_are_completed(tmp_path: Path) -> None:
    with open_log(tmp_path, ShortDisk()) as ledger:
        assert len(append_until_failure(ledger, 5)) == 5
    assert verify_path(tmp_path / "log").exit_code == 0


CHILD = f"""
import sys
from pathlib import Path
from shared.ledger import Ledger, LedgerError
home = Path(sys.argv[1])
try:
    ledger = Ledger.open(home / "log", keys=home / "keys", origin={ORIGIN!r}, segment_bytes=4000)
    for n in range(int(sys.argv[2])):
        receipt = ledger.append("journal", {{"ext": {{"n": n}}}}).result(20)
        print(receipt.seq, n, flush=True)
    ledger.close()
    print("failure" if ledger.failure else "clean", flush=True)
except LedgerError as error:
    print("refused:", error, flush=True)
"""


def strace() -> str | None:
    """Return a strace that may trace children here."""
    path = shutil.which("strace")
    if path is None:
        return None
    probe = subprocess.run(
        [path, "-f", "-e", "trace=fdatasync", "-o", "/dev/null", "true"],
        capture_output=True,
        check=False,
    )
    return path if probe.returncode == 0 else None


@pytest.mark.parametrize(
    "fault",
    [
        "fdatasync:error=EIO:when=12",
        "fdatasync:error=EIO:when=5",
        "ftruncate:error=EIO:when=1",
        "rename:error=ENOSPC:when=3",
        "fsync:error=EIO:when=6",
        "pwrite64:error=ENOSPC:when=1",
        "fdatasync:signal=SIGKILL:when=14",
        "rename:signal=SIGKILL:when=4",
        "fchmodat,chmod:signal=SIGKILL:when=1",
    ],
)
def test_a_fault_from_the_kernel_ends_clean_or_failed(tmp_path: Path, fault: str) -> None:
    tracer = strace()
    if tracer is None:
        pytest.skip("strace is not installed or may not trace here")
    call = fault.partition(":")[0]
    result = subprocess.run(
        [tracer, "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={fault}",
         sys.executable, "-c", CHILD, str(tmp_path), "30"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    lines = result.stdout.splitlines()
    acknowledged = [line.split() for line in lines if line[:1].isdigit()]
    killed = "SIGKILL" in fault
    if not killed:
        assert lines, result.stderr
        finished = lines[-1]
        assert finished in ("clean", "failure") or finished.startswith("refused:"), result.stderr
        if len(acknowledged) < 30:
            assert finished != "clean"
    with open_log(tmp_path) as ledger:
        records = list(ledger.records())
    for seq, n in acknowledged:
        assert records[int(seq)]["ext"] == {"n": int(n)}
    verdict = verify_path(tmp_path / "log")
    assert verdict.exit_code == 0, verdict


def test_a_really_full_disk_refuses_and_resumes_when_there_is_space(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(mount)],
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    try:
        ballast = mount / "ballast"
        ballast.write_bytes(bytes(40_000))
        home = {"keys": tmp_path / "keys", "origin": ORIGIN}
        ledger = Ledger.open(mount / "log", **home)  # type: ignore[arg-type]
        acknowledged = append_until_failure(ledger, 2000)
        ledger.close()
        assert 50 < len(acknowledged) < 2000
        assert "No space left on device" in (ledger.failure or "")
        ballast.unlink()
        with Ledger.open(mount / "log", **home) as again:  # type: ignore[arg-type]
            assert again.size >= 1 + len(acknowledged)
            again.append("journal", {}).result(10)
        assert verify_path(mount / "log").exit_code == 0
    finally:
        subprocess.run(["umount", str(mount)], check=False)
