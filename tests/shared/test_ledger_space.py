"""A disk that is nearly full: what is refused, what is still written, and going on by itself."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shared.ledger import (
    Ledger,
    LedgerError,
    LedgerFailed,
    LedgerLow,
    LogState,
    verify_path,
)
from shared.ledger.disk_space import RESERVE
from shared.ledger.storage import Disk

ORIGIN = "audit.example.org/space"
MIB = 1 << 20


class SmallDisk(Disk):
    """A disk with so much room, all of it counted here: the reserve and what the log writes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.reserved = 0

    def write_some(self, fd: int, data: bytes) -> int:
        if len(data) > self.room - self.reserved:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= len(data)
        return super().write_some(fd, data)

    def allocate(self, fd: int, size: int) -> None:
        if size > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.reserved = size
        os.ftruncate(fd, size)

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        if path.name == RESERVE:
            self.reserved = 0

    def free_bytes(self, directory: Path) -> int:
        return max(self.room - self.reserved, 0)

    def sync(self, fd: int) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass


def open_log(home: Path, **options: Any) -> Ledger:
    return Ledger.open(home / "log", keys=home / "keys", origin=ORIGIN, **options)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def fill(ledger: Ledger) -> int:
    """Append until the log refuses; return how many were acknowledged."""
    for n in range(100_000):
        try:
            ledger.append("request", {"ext": {"n": n}}).result(10)
        except LedgerLow:
            return n
    raise AssertionError("the disk never filled up")


def test_a_log_without_the_option_keeps_no_reserve(tmp_path: Path) -> None:
    with open_log(tmp_path):
        assert not (tmp_path / "log" / RESERVE).exists()


def test_a_full_disk_refuses_requests_records_what_is_open_and_goes_on_by_itself(
    tmp_path: Path,
) -> None:
    disk = SmallDisk(3 * MIB)
    with open_log(tmp_path, disk=disk, reserve_bytes=2 * MIB) as ledger:
        assert (tmp_path / "log" / RESERVE).stat().st_size == 2 * MIB
        count = fill(ledger)
        assert count > 500
        assert ledger.state is LogState.LOW
        assert "goes on by itself" in (ledger.failure or "")
        assert not (tmp_path / "log" / RESERVE).exists()
        for kind in ("request", "journal", "start"):
            with pytest.raises(LedgerLow):
                ledger.append(kind, {})
        with pytest.raises(LedgerLow):
            ledger.seal_now()
        last = ledger.append("outcome", {"ref": 1, "outcome": {"status": "ok"}}).result(10)
        assert ledger.append("deny", {}).result(10).seq == last.seq + 1
        disk.room += 20 * MIB
        wait_for(lambda: ledger.state is LogState.OPEN)
        assert ledger.failure is None
        assert (tmp_path / "log" / RESERVE).stat().st_size == 2 * MIB
        ledger.append("request", {}).result(10)
        gaps = [record["ext"] for record in ledger.records() if record["type"] == "gap"]
        assert ledger.size == 1 + count + len(gaps) + 3
    assert [gap["state"] for gap in gaps] == ["begun", "ended"]
    assert {gap["cause"] for gap in gaps} == {"disk_full"}
    assert gaps[1]["refused"] == 4
    assert gaps[1]["begun"] > 0


def test_without_any_room_everything_is_refused_and_the_gap_is_told_afterwards(
    tmp_path: Path,
) -> None:
    disk = SmallDisk(MIB)
    with open_log(tmp_path, disk=disk) as ledger:
        fill(ledger)
        disk.room = 0
        future = ledger.append("outcome", {"ref": 1})
        with pytest.raises(LedgerLow):
            future.result(10)
        disk.room = 20 * MIB
        wait_for(lambda: ledger.state is LogState.OPEN)
        ledger.append("outcome", {"ref": 1}).result(10)
        assert [r["ext"]["state"] for r in ledger.records() if r["type"] == "gap"][-1] == "ended"


def test_below_the_mark_the_log_is_low_before_any_write_fails(tmp_path: Path) -> None:
    disk = SmallDisk(20 * MIB)
    with open_log(tmp_path, disk=disk, low_water_bytes=8 * MIB) as ledger:
        ledger.append("request", {}).result(10)
        disk.room = 7 * MIB
        wait_for(lambda: ledger.state is LogState.LOW)
        with pytest.raises(LedgerLow):
            ledger.append("request", {})
        disk.room = 8 * MIB + 100  # above the mark, but without room to go on
        time.sleep(1.2)
        assert ledger.state is LogState.LOW
        disk.room = 9 * MIB
        wait_for(lambda: ledger.state is LogState.OPEN)
        gaps = [record["ext"] for record in ledger.records() if record["type"] == "gap"]
    assert [gap["cause"] for gap in gaps] == ["disk_low", "disk_low"]
    assert gaps[1]["refused"] == 1
    with open_log(tmp_path, close_open_requests=True):
        pass
    assert verify_path(tmp_path / "log").exit_code == 0


def test_a_log_that_is_low_closes_and_opens_again(tmp_path: Path) -> None:
    disk = SmallDisk(2 * MIB)
    ledger = open_log(tmp_path, disk=disk, reserve_bytes=MIB)
    fill(ledger)
    ledger.append("stop", {}).result(10)
    ledger.close()
    assert ledger.state is LogState.CLOSED
    with open_log(tmp_path, disk=disk, reserve_bytes=50 * MIB) as again:
        assert again.state is LogState.LOW  # there is no room for such a reserve
        disk.room = 100 * MIB
        wait_for(lambda: again.state is LogState.OPEN)
    with open_log(tmp_path, close_open_requests=True):
        pass
    assert verify_path(tmp_path / "log").exit_code == 0


def test_below_the_mark_what_makes_room_or_presses_is_recorded(tmp_path: Path) -> None:
    disk = SmallDisk(20 * MIB)
    with open_log(tmp_path, disk=disk, low_water_bytes=8 * MIB) as ledger:
        disk.room = 7 * MIB
        wait_for(lambda: ledger.state is LogState.LOW)
        ledger.append("erase", {"action": {"kind": "prune"}}).result(10)
        ledger.append("hold", {"ext": {"id": "h"}}).result(10)
        ledger.append("journal", {}, pressing=True).result(10)
        asyncio.run(ledger.append_async("start", {}, pressing=True))
        with pytest.raises(LedgerLow):
            ledger.append("journal", {})
        assert ledger.state is LogState.LOW
        kinds = [record["type"] for record in ledger.records()]
    assert kinds == ["genesis", "gap", "erase", "hold", "journal", "start"]
    assert verify_path(tmp_path / "log").exit_code == 0


def test_below_the_mark_the_reserve_stays_until_there_is_no_other_room(tmp_path: Path) -> None:
    disk, reserve = SmallDisk(20 * MIB), tmp_path / "log" / RESERVE
    with open_log(tmp_path, disk=disk, reserve_bytes=MIB, low_water_bytes=8 * MIB) as ledger:
        disk.room = 7 * MIB
        wait_for(lambda: ledger.state is LogState.LOW)
        ledger.append("stop", {}).result(10)
        assert reserve.exists()
    disk.room = MIB + 100  # somebody else filled the rest
    with open_log(tmp_path, disk=disk, reserve_bytes=MIB, low_water_bytes=8 * MIB) as again:
        assert not reserve.exists()
        assert again.state is LogState.LOW
        again.append("erase", {"action": {"kind": "prune"}}).result(10)
        disk.room += 20 * MIB
        wait_for(lambda: again.state is LogState.OPEN)
        assert reserve.exists()
        disk.room = 8 * MIB
        wait_for(lambda: again.state is LogState.LOW)
        assert reserve.exists()
        disk.room = MIB + 100
        again.append("deny", {}).result(10)
        assert not reserve.exists()
        assert [record["type"] for record in again.records()][-1] == "deny"
    assert verify_path(tmp_path / "log").exit_code == 0


def test_a_start_on_a_full_disk_uses_the_reserve_for_what_it_owes(tmp_path: Path) -> None:
    disk = SmallDisk(8 * MIB)
    with open_log(tmp_path, disk=disk, reserve_bytes=MIB) as ledger:
        ledger.append("request", {}).result(10)
    disk.room = MIB + 100  # somebody else filled the rest
    with open_log(tmp_path, disk=disk, reserve_bytes=MIB, close_open_requests=True) as again:
        assert again.state is LogState.LOW
        assert [r["type"] for r in again.records(2)] == ["outcome", "gap"]
        again.append("stop", {}).result(10)
    assert verify_path(tmp_path / "log").exit_code == 0


def test_a_start_on_a_full_disk_is_one_plain_sentence(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"cannot be (written|used)"):
        open_log(tmp_path, disk=SmallDisk(100))


@pytest.mark.parametrize("sealing", ["key", "record", "seal", "segment"])
def test_a_disk_that_fills_up_while_a_segment_is_sealed_loses_nothing(
    tmp_path: Path, sealing: str
) -> None:
    class Full(SmallDisk):
        """Full from the given step of a rotation on."""

        armed = False

        def _check(self, hit: bool) -> None:
            if self.armed and hit:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def create(self, path: Path, mode: int) -> int:
            self._check(sealing == "key" and path.name.startswith("segment-"))
            self._check(sealing == "seal" and path.name.endswith(".seal.tmp"))
            return super().create(path, mode)

        def open_append(self, path: Path) -> int:
            self._check(sealing == "segment")
            return super().open_append(path)

        def write_some(self, fd: int, data: bytes) -> int:
            self._check(sealing == "record" and b'"type":"seal"' in data)
            return super().write_some(fd, data)

        def free_bytes(self, directory: Path) -> int:
            return 0 if self.armed else super().free_bytes(directory)

    disk = Full(100 * MIB)
    with open_log(tmp_path, disk=disk) as ledger:
        ledger.append("journal", {}).result(10)
        disk.armed = True
        with pytest.raises(LedgerLow):
            ledger.seal_now()
        assert ledger.state is LogState.LOW
        disk.armed = False
        wait_for(lambda: ledger.state is LogState.OPEN)
        ledger.append("journal", {}).result(10)
        ledger.seal_now()
        ledger.append("journal", {}).result(10)
    verdict = verify_path(tmp_path / "log")
    assert verdict.exit_code == 0, verdict
    with open_log(tmp_path) as again:
        again.append("journal", {}).result(10)


def test_a_head_that_does_not_fit_is_written_once_it_does(tmp_path: Path) -> None:
    class NoHead(SmallDisk):
        full = False

        def rename(self, old: Path, new: Path) -> None:
            if self.full and new.name == "HEAD":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            super().rename(old, new)

        def free_bytes(self, directory: Path) -> int:
            return 0 if self.full else super().free_bytes(directory)

    disk = NoHead(100 * MIB)
    with open_log(tmp_path, disk=disk) as ledger:
        disk.full = True
        ledger.append("journal", {}).result(10)
        wait_for(lambda: ledger.state is LogState.LOW)
        disk.full = False
        wait_for(lambda: ledger.state is LogState.OPEN)
        wait_for(lambda: (tmp_path / "log" / "HEAD").read_text() == ledger.checkpoint)
    assert verify_path(tmp_path / "log").exit_code == 0


@pytest.mark.parametrize("where", ["sync", "truncate"])
def test_no_space_at_a_sync_or_an_error_while_cutting_off_is_a_failure(
    tmp_path: Path, where: str
) -> None:
    class Bad(Disk):
        armed = False

        def write_some(self, fd: int, data: bytes) -> int:
            if self.armed and where == "truncate":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write_some(fd, data)

        def truncate(self, fd: int, size: int) -> None:
            if self.armed:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            super().truncate(fd, size)

        def sync(self, fd: int) -> None:
            if self.armed and where == "sync":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    disk = Bad()
    ledger = open_log(tmp_path, disk=disk)
    disk.armed = True
    with pytest.raises(LedgerFailed, match="No space left"):
        ledger.append("outcome", {"ref": 0}).result(10)
    assert ledger.state is LogState.FAILED
    ledger.close()
    open_log(tmp_path).close()
