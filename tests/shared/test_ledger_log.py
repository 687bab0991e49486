"""The log as its callers see it: receipts, batches, segments, HEAD, restarts, refusals."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from shared.ledger import (
    Ledger,
    LedgerClosed,
    LedgerCorrupt,
    LedgerError,
    LedgerFailed,
    LedgerLocked,
    LedgerRollback,
    LogState,
    Receipt,
    RecordRefused,
    open_note,
    parse_checkpoint,
    parse_vkey,
    verify_path,
)
from shared.ledger.record import encode
from shared.ledger.segment import list_segments, seal_path
from shared.ledger.storage import Disk

ORIGIN = "audit.example.org/test"


class HeldDisk(Disk):
    """A disk whose syncs can be held back, so that a test decides what is in a batch."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.held = threading.Event()
        self.writes: list[bytes] = []

    def write(self, fd: int, data: bytes) -> None:
        self.writes.append(data)
        super().write(fd, data)

    def sync(self, fd: int) -> None:
        self.held.set()
        self.go.wait()
        super().sync(fd)


class Clock:
    """A clock that only a test moves."""

    def __init__(self) -> None:
        self.now = 1_764_433_568_000_000

    def __call__(self) -> tuple[int, int]:
        return self.now, 5


def open_log(home: Path, **options: Any) -> Ledger:
    return Ledger.open(home / "log", keys=home / "keys", origin=ORIGIN, **options)


def types(ledger: Ledger) -> list[str]:
    return [record["type"] for record in ledger.records()]


def batch(ledger: Ledger, disk: HeldDisk, count: int, type_: str = "journal") -> list[Receipt]:
    """Append one record alone, then `count` records that share a batch."""
    disk.held.clear()
    disk.go.clear()
    first = ledger.append("journal", {})
    assert disk.held.wait(10)
    rest = [ledger.append(type_, {"ext": {"n": n}}) for n in range(count)]
    disk.go.set()
    return [first.result(10), *(future.result(10) for future in rest)]


def test_a_new_log_has_its_files_private_and_its_identity_in_record_zero(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        genesis = next(ledger.records())
    log = tmp_path / "log"
    identity = json.loads((log / "log.json").read_text())
    assert genesis["ext"] == identity
    assert genesis["seq"] == 0
    assert genesis["prev"] == "0" * 64
    assert identity["vkeys"] == [ledger.vkey]
    assert identity["origin"] == ORIGIN
    assert stat.S_IMODE(log.stat().st_mode) == 0o700
    for path in log.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    assert [path.name for path in list_segments(log)] == ["0" * 20 + ".jsonl"]


def test_a_receipt_is_the_signed_state_of_the_file(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        receipt = ledger.append("request", {"task": "T1"}).result(10)
        lines = list_segments(tmp_path / "log")[0].read_bytes().splitlines()
        key = parse_vkey(ledger.vkey)
    signed = parse_checkpoint(open_note(receipt.checkpoint, [key]))
    assert (signed.origin, signed.size, signed.root.hex()) == (ORIGIN, 2, receipt.root)
    assert json.loads(lines[-1]) == {"cp": receipt.checkpoint}
    record = json.loads(lines[-2])
    assert encode(record) == lines[-2]
    assert (record["seq"], record["type"], record["task"]) == (receipt.seq, "request", "T1")
    origin, seq, size, root, signature = receipt.header().split(";")
    assert (origin, seq, size, root) == (ORIGIN, "1", "2", receipt.root)
    assert signature in receipt.checkpoint
    assert "\n" not in receipt.header()


def test_records_that_wait_together_share_one_write_and_one_checkpoint(tmp_path: Path) -> None:
    disk = HeldDisk()
    with open_log(tmp_path, disk=disk) as ledger:
        before = len(disk.writes)
        receipts = batch(ledger, disk, 50)
        written = [data for data in disk.writes[before:] if data.startswith(b"{")]
    assert len(written) == 2
    assert {receipt.size for receipt in receipts[1:]} == {52}
    assert len({receipt.checkpoint for receipt in receipts[1:]}) == 1
    assert [receipt.seq for receipt in receipts] == list(range(1, 52))
    assert written[1].count(b'{"cp":') == 1


def test_more_records_than_a_batch_holds_are_all_written_in_order(tmp_path: Path) -> None:
    disk = HeldDisk()
    with open_log(tmp_path, disk=disk) as ledger:
        receipts = batch(ledger, disk, 2500)
        numbers = [record["ext"]["n"] for record in ledger.records(2)]
    assert numbers == list(range(2500))
    assert [receipt.seq for receipt in receipts] == list(range(1, 2502))
    assert verify_path(tmp_path / "log").exit_code == 0


def test_nobody_gets_a_receipt_before_the_sync(tmp_path: Path) -> None:
    disk = HeldDisk()
    with open_log(tmp_path, disk=disk) as ledger:
        disk.held.clear()
        disk.go.clear()
        future = ledger.append("journal", {})
        assert disk.held.wait(10)
        assert not future.done()
        assert ledger.size == 1
        assert types(ledger) == ["genesis"]
        disk.go.set()
        assert future.result(10).seq == 1
        assert ledger.size == 2


async def test_coroutines_get_their_receipts_with_one_wake_up_per_batch(tmp_path: Path) -> None:
    disk = HeldDisk()
    with open_log(tmp_path, disk=disk) as ledger:
        loop = asyncio.get_running_loop()
        calls, original = [], loop.call_soon_threadsafe

        def counted(callback: Callable[..., object], *args: Any, **options: Any) -> asyncio.Handle:
            calls.append(callback)
            return original(callback, *args, **options)

        loop.call_soon_threadsafe = counted  # type: ignore[assignment,method-assign]
        disk.held.clear()
        disk.go.clear()
        first = asyncio.create_task(ledger.append_async("journal", {}))
        await asyncio.to_thread(disk.held.wait, 10)
        rest = [asyncio.create_task(ledger.append_async("journal", {})) for _ in range(40)]
        await asyncio.sleep(0)
        calls.clear()
        disk.go.set()
        receipts = await asyncio.gather(first, *rest)
        loop.call_soon_threadsafe = original  # type: ignore[method-assign]
    assert [receipt.seq for receipt in receipts] == list(range(1, 42))
    assert len([call for call in calls if call.__name__ == "_resolve"]) == 2


async def test_a_cancelled_wait_leaves_the_record_and_the_log_whole(tmp_path: Path) -> None:
    disk = HeldDisk()
    with open_log(tmp_path, disk=disk) as ledger:
        disk.go.clear()
        task = asyncio.create_task(ledger.append_async("journal", {"task": "gone"}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        disk.go.set()
        receipt = await ledger.append_async("journal", {})
        assert [record.get("task") for record in ledger.records(1)] == ["gone", None]
        assert receipt.seq == 2


def test_a_future_cannot_be_cancelled_because_the_record_is_written(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        future = ledger.append("journal", {})
        assert not future.cancel()
        assert future.result(10).seq == 1


def test_a_waiter_whose_loop_is_gone_stops_nobody(tmp_path: Path) -> None:
    disk = HeldDisk()
    with open_log(tmp_path, disk=disk) as ledger:
        disk.go.clear()

        async def leave() -> None:
            task = asyncio.create_task(ledger.append_async("journal", {}))
            await asyncio.sleep(0)
            task.cancel()

        asyncio.run(leave())
        disk.go.set()
        assert ledger.append("journal", {}).result(10).seq == 2


def test_many_threads_lose_nothing(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        seen: list[int] = []

        def work() -> None:
            seen.extend(ledger.append("journal", {}).result(10).seq for _ in range(25))

        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(seen) == list(range(1, 401))
    assert verify_path(tmp_path / "log").records == 401


def test_what_is_refused_is_refused_at_once_and_writes_nothing(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        for type_, fields in (
            ("journal", {"ext": {"x": 0.5}}),
            ("nonsense", {}),
            ("genesis", {}),
            ("recover", {}),
            ("journal", {"ext": {"x": "y" * 70_000}}),
        ):
            with pytest.raises(RecordRefused):
                ledger.append(type_, fields)
        assert ledger.size == 1
        assert ledger.append("journal", {}).result(10).seq == 1


def test_after_close_appends_are_refused_and_what_was_accepted_is_there(tmp_path: Path) -> None:
    ledger = open_log(tmp_path)
    futures = [ledger.append("journal", {}) for _ in range(300)]
    ledger.close()
    ledger.close()
    assert [future.result(0).seq for future in futures] == list(range(1, 301))
    assert ledger.state is LogState.CLOSED
    assert ledger.failure is None
    with pytest.raises(LedgerClosed):
        ledger.append("journal", {})
    assert verify_path(tmp_path / "log").exit_code == 0
    key = parse_vkey(ledger.vkey)
    head = parse_checkpoint(open_note((tmp_path / "log" / "HEAD").read_text(), [key]))
    assert head.size == 301


def test_a_restart_goes_on_where_the_log_ended(tmp_path: Path) -> None:
    for turn in range(4):
        with open_log(tmp_path) as ledger:
            assert ledger.size == 1 + turn
            assert ledger.append("journal", {}).result(10).seq == 1 + turn
    assert verify_path(tmp_path / "log").exit_code == 0


def test_records_can_be_read_from_any_number_on(tmp_path: Path) -> None:
    clock = Clock()
    with open_log(tmp_path, segment_bytes=2000, clock=clock) as ledger:
        for n in range(30):
            ledger.append("journal", {"ext": {"n": n}}).result(10)
        size = ledger.size
        assert len(list_segments(tmp_path / "log")) > 3
        everything = list(ledger.records())
        assert [record["seq"] for record in everything] == list(range(size))
        for start in range(size + 2):
            assert list(ledger.records(start)) == everything[start:]


def test_what_is_read_is_what_was_written_or_it_is_said(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_bytes=2000, clock=Clock()) as ledger:
        for n in range(30):
            ledger.append("journal", {"ext": {"n": n}}).result(10)
        *sealed, active = list_segments(tmp_path / "log")
        for path in (sealed[0], sealed[-1], active):
            body = path.read_bytes()
            path.chmod(0o600)
            # A number is another one: each line is a record still, and no link is looked at.
            path.write_bytes(body.replace(b'"mono":5', b'"mono":6', 1))
            with pytest.raises(LedgerCorrupt, match=path.name):
                list(ledger.records())
            path.write_bytes(body)
        seal = seal_path(sealed[1])
        note = seal.read_bytes()
        seal.chmod(0o600)
        seal.write_bytes(note.replace(b"sha256 ", b"sha256 0", 1))
        with pytest.raises(LedgerCorrupt, match="was changed or removed"):
            list(ledger.records())
        seal.write_bytes(note)
        assert len(list(ledger.records())) == ledger.size


@pytest.mark.parametrize("kept", ["key", "identity", "empty segment"])
def test_a_crash_while_the_log_is_made_is_finished_at_the_next_start(
    tmp_path: Path, kept: str
) -> None:
    open_log(tmp_path).close()
    log = tmp_path / "log"
    (log / "HEAD").unlink()
    segment = list_segments(log)[0]
    segment.write_bytes(b"")
    if kept != "empty segment":
        segment.unlink()
    if kept == "key":
        (log / "log.json").unlink()
    with open_log(tmp_path) as ledger:
        assert types(ledger) == ["genesis"]
    assert verify_path(log).exit_code == 0


# -- HEAD ------------------------------------------------------------------------------------------


def test_head_follows_the_log_within_seconds(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        receipt = ledger.append("journal", {}).result(10)
        deadline = time.monotonic() + 10
        while (tmp_path / "log" / "HEAD").read_text() != receipt.checkpoint:
            assert time.monotonic() < deadline
            time.sleep(0.05)


# -- segments --------------------------------------------------------------------------------------


def test_a_full_segment_is_sealed_read_only_and_the_next_one_goes_on(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_bytes=3000) as ledger:
        for _ in range(20):
            ledger.append("journal", {}).result(10)
    *sealed, active = list_segments(tmp_path / "log")
    assert len(sealed) >= 2
    for path in sealed:
        assert stat.S_IMODE(path.stat().st_mode) == 0o440
        assert stat.S_IMODE(seal_path(path).stat().st_mode) == 0o440
        last = path.read_bytes().splitlines()[-2]
        assert json.loads(last)["type"] == "seal"
    assert not seal_path(active).exists()
    assert verify_path(tmp_path / "log").exit_code == 0
    with open_log(tmp_path) as ledger:
        ledger.append("journal", {}).result(10)
    assert verify_path(tmp_path / "log").exit_code == 0


def test_a_segment_is_sealed_when_it_is_a_day_old(tmp_path: Path) -> None:
    clock = Clock()
    with open_log(tmp_path, clock=clock) as ledger:
        ledger.append("journal", {}).result(10)
        clock.now += 24 * 3600 * 1_000_000
        ledger.append("journal", {}).result(10)
        ledger.append("journal", {}).result(10)
        assert types(ledger) == ["genesis", "journal", "journal", "seal", "journal"]
    assert [path.name for path in list_segments(tmp_path / "log")] == [
        f"{0:020d}.jsonl",
        f"{4:020d}.jsonl",
    ]


def test_open_requests_cross_a_seal(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_bytes=1) as ledger:
        request = ledger.append("request", {}).result(10)
        ledger.append("journal", {}).result(10)
    with open_log(tmp_path, segment_bytes=1, close_open_requests=True) as ledger:
        outcomes = [record for record in ledger.records() if record["type"] == "outcome"]
    assert [outcome["ref"] for outcome in outcomes] == [request.seq]
    assert verify_path(tmp_path / "log").exit_code == 0


# -- restart duties --------------------------------------------------------------------------------


def test_requests_left_open_are_closed_as_unknown_when_asked(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        answered = ledger.append("request", {}).result(10)
        ledger.append("request", {}).result(10)
        ledger.append("outcome", {"ref": answered.seq, "outcome": {"status": "ok"}}).result(10)
    with open_log(tmp_path) as ledger:
        assert types(ledger)[-1] == "outcome"
        assert ledger.size == 4
    with open_log(tmp_path, close_open_requests=True) as ledger:
        last = list(ledger.records())[-1]
        assert ledger.size == 5
    assert last["ref"] == 2
    assert last["outcome"] == {"status": "unknown", "cause": "restart"}
    with open_log(tmp_path, close_open_requests=True) as ledger:
        assert ledger.size == 5


def test_a_clock_that_steps_back_is_recorded_not_corrected(tmp_path: Path) -> None:
    clock = Clock()
    with open_log(tmp_path, clock=clock) as ledger:
        ledger.append("journal", {}).result(10)
        clock.now -= 3_000_000
        ledger.append("journal", {}).result(10)
    clock.now -= 1
    with open_log(tmp_path, clock=clock) as ledger:
        ledger.append("journal", {}).result(10)
        records = list(ledger.records())
    assert [record["type"] for record in records] == [
        "genesis",
        "journal",
        "clock_step",
        "journal",
        "clock_step",
        "journal",
    ]
    assert records[2]["ext"]["from"] - records[2]["ext"]["to"] == 3_000_000
    assert records[3]["ts"] == records[2]["ts"] < records[1]["ts"]
    verdict = verify_path(tmp_path / "log")
    assert verdict.exit_code == 0, verdict


# -- refusals --------------------------------------------------------------------------------------


def test_a_second_writer_is_refused_by_name_and_the_first_goes_on(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        with pytest.raises(LedgerLocked, match=rf"process {os.getpid()}; stop that program"):
            open_log(tmp_path)
        ledger.append("journal", {}).result(10)
    open_log(tmp_path).close()


def test_a_forked_child_neither_writes_nor_keeps_the_lock(tmp_path: Path) -> None:
    ledger = open_log(tmp_path)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - the child's lines are not counted
        try:
            ledger.append("journal", {})
        except LedgerClosed:
            os.write(write, b"refused")
        time.sleep(30)
        os._exit(0)
    try:
        assert os.read(read, 100) == b"refused"
        ledger.append("journal", {}).result(10)
        ledger.close()
        open_log(tmp_path).close()
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)


def test_another_origin_or_key_is_refused(tmp_path: Path) -> None:
    open_log(tmp_path).close()
    with pytest.raises(LedgerError, match=r"belongs to audit\.example\.org/test"):
        Ledger.open(tmp_path / "log", keys=tmp_path / "keys", origin="other")
    with pytest.raises(LedgerError, match=r"signing key .* is missing"):
        Ledger.open(tmp_path / "log", keys=tmp_path / "none", origin=ORIGIN)
    Ledger.open(tmp_path / "log2", keys=tmp_path / "keys2", origin=ORIGIN).close()
    with pytest.raises(LedgerError, match="is not the one that"):
        Ledger.open(tmp_path / "log", keys=tmp_path / "keys2", origin=ORIGIN)
    open_log(tmp_path).close()


def test_a_lost_identity_is_refused(tmp_path: Path) -> None:
    open_log(tmp_path).close()
    (tmp_path / "log" / "log.json").write_text("{}")
    with pytest.raises(LedgerCorrupt, match="cannot be read as the identity"):
        open_log(tmp_path)
    (tmp_path / "log" / "log.json").unlink()
    with pytest.raises(LedgerCorrupt, match="is missing although"):
        open_log(tmp_path)


def test_a_log_that_was_emptied_or_rolled_back_is_refused(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        ledger.append("journal", {}).result(10)
    segment = list_segments(tmp_path / "log")[0]
    old = segment.read_bytes()
    with open_log(tmp_path) as ledger:
        ledger.append("journal", {}).result(10)
    for content in (old, b""):
        segment.write_bytes(content)
        with pytest.raises(LedgerRollback, match="were published in HEAD"):
            open_log(tmp_path)
        assert segment.read_bytes() == content
    segment.unlink()
    with pytest.raises(LedgerRollback):
        open_log(tmp_path)


def test_a_missing_segment_or_seal_is_refused(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_bytes=1500) as ledger:
        for _ in range(12):
            ledger.append("journal", {}).result(10)
    first, second, *_ = list_segments(tmp_path / "log")
    kept = second.read_bytes()
    second.unlink()
    with pytest.raises(LedgerCorrupt, match="is missing"):
        open_log(tmp_path)
    second.write_bytes(kept)
    seal = seal_path(first)
    text = seal.read_text()
    seal.chmod(0o600)
    seal.write_text(text.replace("first 0", "first 1"))
    with pytest.raises(LedgerCorrupt, match="damaged or not signed"):
        open_log(tmp_path)
    seal.unlink()
    with pytest.raises(LedgerCorrupt, match=r"The seal .* is missing"):
        open_log(tmp_path)
    seal.write_text(text)
    open_log(tmp_path).close()


def test_a_directory_that_cannot_be_made_is_one_plain_sentence(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a file")
    with pytest.raises(LedgerError) as caught:
        open_log(tmp_path)
    assert str(tmp_path / "log") in str(caught.value)
    assert "\n" not in str(caught.value)


# -- failures --------------------------------------------------------------------------------------


class Surprise(BaseException):
    """Not an OSError, not even an Exception."""


class BreakingDisk(HeldDisk):
    """Raises when told to, at a write or a sync."""

    def __init__(self) -> None:
        super().__init__()
        self.error: BaseException | None = None

    def sync(self, fd: int) -> None:
        super().sync(fd)
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("error", [Surprise(), RuntimeError("x"), MemoryError(), OSError(5, "EIO")])
def test_any_exception_in_the_writer_answers_everybody_and_stops_the_log(
    tmp_path: Path, error: BaseException
) -> None:
    disk = BreakingDisk()
    ledger = open_log(tmp_path, disk=disk)
    disk.held.clear()
    disk.go.clear()
    futures: list[Future[Receipt]] = [ledger.append("journal", {})]
    assert disk.held.wait(10)
    disk.error = error
    futures += [ledger.append("journal", {}) for _ in range(2000)]

    async def wait() -> None:
        tasks = [asyncio.create_task(ledger.append_async("journal", {})) for _ in range(20)]
        await asyncio.sleep(0)
        disk.go.set()
        for task in tasks:
            with pytest.raises(LedgerFailed):
                await asyncio.wait_for(task, 10)

    asyncio.run(wait())
    for future in futures:
        with pytest.raises(LedgerFailed, match=r"stopped: writing .* failed"):
            future.result(10)
    assert ledger.state is LogState.FAILED
    with pytest.raises(LedgerFailed):
        ledger.append("journal", {})
    ledger.close()
    assert ledger.failure is not None
    disk.error = None
    with open_log(tmp_path) as again:
        again.append("journal", {}).result(10)
    assert verify_path(tmp_path / "log").exit_code == 0


def test_a_head_that_cannot_be_written_stops_the_log_and_answers_what_was_accepted(
    tmp_path: Path,
) -> None:
    class NoRename(Disk):
        broken = False

        def rename(self, old: Path, new: Path) -> None:
            if self.broken:
                raise OSError(5, "Input/output error")
            super().rename(old, new)

    disk = NoRename()
    ledger = open_log(tmp_path, disk=disk)
    disk.broken = True
    ledger.append("journal", {}).result(10)
    deadline = time.monotonic() + 10
    while ledger.state is LogState.OPEN:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with pytest.raises(LedgerFailed, match="writing HEAD failed"):
        ledger.append("journal", {})
    ledger.close()
    disk.broken = False
    open_log(tmp_path).close()
    assert verify_path(tmp_path / "log").exit_code == 0
