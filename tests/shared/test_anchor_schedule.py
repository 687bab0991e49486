"""The task beside an open ledger: what it sends, what it records, what it says when it cannot."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anchor_fakes import LocalAuthority, LocalCalendar, serve_calendar, serve_http
from anchor_service import KEY, Service

from shared.anchors import ots
from shared.anchors.client import WitnessTarget
from shared.anchors.config import AnchorConfig
from shared.anchors.copies import CommandCopy, FileCopy, NoteCopy
from shared.anchors.cosignature import verify_cosignatures
from shared.anchors.errors import AnchorError
from shared.anchors.files import keep_answer, keep_checkpoint, published_head
from shared.anchors.neighbors import anchor_records, announced, neighbors_dir
from shared.anchors.ots import find_program, stamp_head
from shared.anchors.schedule import (
    AnchorStatus,
    look_once_more,
    run_anchors,
    send_last_heads,
)
from shared.anchors.stamp_jobs import UpgradeJob
from shared.anchors.tsa import Authority
from shared.ledger import Ledger, LogState, parse_vkey, verify_path

ORIGIN = "audit.example.org/gateway"


def opened(base: Path, name: str = "log", origin: str = ORIGIN) -> Ledger:
    return Ledger.open(base / name, keys=base / f"{name}-keys", origin=origin)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with opened(tmp_path) as made:
        work(made, 10)
        made._heads.publish(made.checkpoint)  # else a second later
        yield made


def work(ledger: Ledger, count: int = 1) -> None:
    for future in [ledger.append("deny", {}) for _ in range(count)]:
        future.result(10)


class Running:
    """The task, its status and what it said."""

    def __init__(self, ledger: Ledger, **config: Any) -> None:
        self.status, self.said = AnchorStatus(), list[str]()
        quick = {"head_seconds": 0.05, "look_seconds": 0.05} | config
        work = run_anchors(ledger, AnchorConfig(**quick), self.status, self.said.append)
        self.task = asyncio.ensure_future(work)

    async def until(self, holds: Callable[[], object], patience: float = 20.0) -> None:
        deadline = time.monotonic() + patience
        while not holds():
            assert not self.task.done(), self.task
            assert time.monotonic() < deadline, (self.status, self.said)
            await asyncio.sleep(0.02)

    def channel(self, kind: str) -> dict[str, Any]:
        none = {"size": 0, "failures": 0, "trouble": "none yet"}
        found = (entry for entry in self.status.snapshot() if entry["kind"] == kind)
        return next(found, none)


@contextlib.asynccontextmanager
async def running(ledger: Ledger, **config: Any) -> AsyncIterator[Running]:
    made = Running(ledger, **config)
    try:
        yield made
    finally:
        made.task.cancel()
        await asyncio.wait([made.task])


def anchors(ledger: Ledger) -> list[dict[str, Any]]:
    return [record["ext"] for record in anchor_records(ledger.directory)]


async def test_a_witness_cosigns_what_head_names_and_it_is_recorded_once(
    tmp_path: Path, ledger: Ledger
) -> None:
    service = Service(tmp_path / "w", {ORIGIN: [parse_vkey(ledger.vkey)]})

    def cosigned() -> bool:
        note = (ledger.directory / "HEAD").read_text()
        text = f"\n{ledger.size}\n"
        return text in note and bool(verify_cosignatures(note, [KEY.key]))

    async with running(ledger, witnesses=(service.target,)) as task:
        await task.until(cosigned)
        work(ledger, 5)
        await task.until(cosigned)
        await asyncio.sleep(0.3)
        size = ledger.size
        await asyncio.sleep(0.5)
        assert ledger.size == size  # an idle log stays idle
    assert [(ext["kind"], ext["name"]) for ext in anchors(ledger)] == [
        ("witness", "witness.example.org")
    ]
    sizes = {path.stem for path in (ledger.directory / "anchors").glob("*.cosig")}
    assert sizes == {path.stem for path in (ledger.directory / "anchors").glob("*.checkpoint")}
    assert verify_path(ledger.directory).exit_code == 0
    service.close()


async def test_a_witness_with_another_history_is_an_alarm_a_line_and_one_record(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as ledger:
        work(ledger, 10)
        key = parse_vkey(ledger.vkey)
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    service = Service(tmp_path / "w", {ORIGIN: [key]})
    with opened(tmp_path) as ledger:
        work(ledger, 10)
        async with running(ledger, witnesses=(service.target,)) as task:
            await task.until(lambda: task.channel("witness")["size"] > 11)
            assert task.status.alarm() is None
    shutil.rmtree(tmp_path / "log")
    shutil.move(tmp_path / "copy", tmp_path / "log")
    with opened(tmp_path) as ledger:
        async with running(ledger, witnesses=(service.target,)) as task:
            await task.until(task.status.alarm)
            assert "rolled back" in str(task.status.alarm())
            await task.until(lambda: task.channel("witness")["failures"] >= 3)
            assert [line for line in task.said if "rolled back" in line] == task.said[:1]
        found = [ext["alarm"] for ext in anchors(ledger) if "alarm" in ext]
        assert found == ["rolled_back"]
        assert ledger.state is LogState.OPEN
    service.close()


async def test_an_authority_stamps_at_once_and_after_each_seal(
    tmp_path: Path, ledger: Ledger
) -> None:
    authority = LocalAuthority(tmp_path / "tsa")
    with serve_http(authority.answer) as url:
        config = Authority(url=url, ca_file=authority.ca)
        async with running(ledger, authority=config) as task:
            await task.until(lambda: task.channel("rfc3161")["size"] == 11)
            work(ledger, 3)
            await asyncio.sleep(0.3)
            assert len(list((ledger.directory / "anchors").glob("*.tsr"))) == 1
            ledger.seal_now()
            await task.until(lambda: task.channel("rfc3161")["size"] > 11)
            size = task.channel("rfc3161")["size"]
    assert (ledger.directory / "anchors" / f"{size}.tsr").exists()
    assert [ext["size"] for ext in anchors(ledger)] == [11, size]
    async with running(ledger, authority=Authority(url="http://127.0.0.1:1")) as task:
        await asyncio.sleep(0.3)  # the hour is not over: nobody is asked
        assert task.channel("rfc3161")["failures"] == 0


async def test_stamps_are_made_each_period(tmp_path: Path, ledger: Ledger) -> None:
    authority = LocalAuthority(tmp_path / "tsa")
    config = Authority(command=authority.command())
    async with running(ledger, authority=config, stamp_seconds=0.2) as task:
        await task.until(lambda: len(anchors(ledger)) >= 3)


async def test_copies_get_each_head_and_only_when_it_moved(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "heads"
    async with running(ledger, copies=(FileCopy(path),)) as task:
        await task.until(lambda: path.exists() and path.read_text())
        await asyncio.sleep(0.3)
        assert len(path.read_text().splitlines()) == 1
        work(ledger)
        await task.until(lambda: len(path.read_text().splitlines()) == 2)
    assert [line.split(" ")[1] for line in path.read_text().splitlines()] == ["11", "12"]
    assert anchors(ledger) == []


async def test_what_fails_is_said_once_retried_ever_slower_and_said_when_it_works_again(
    tmp_path: Path, ledger: Ledger
) -> None:
    path = tmp_path / "later" / "heads"
    async with running(ledger, copies=(FileCopy(path),)) as task:
        await task.until(lambda: task.channel("copy")["failures"] >= 3)
        assert "cannot be copied" in task.channel("copy")["trouble"]
        assert len(task.said) == 1
        path.parent.mkdir()
        await task.until(lambda: task.channel("copy")["trouble"] == "")
        assert len(task.said) == 2
        assert task.said[1].endswith("works again")
    assert task.status.alarm() is None


async def test_what_hangs_holds_up_neither_the_loop_nor_the_others_nor_the_end(
    tmp_path: Path, ledger: Ledger
) -> None:
    go = threading.Event()
    with serve_http(lambda _: b"" if go.wait(60) else None) as url:
        hanging = WitnessTarget(url, KEY.key)
        sleeper = CommandCopy(("sleep", "60"))
        began, ticks = time.monotonic(), 0
        async with running(
            ledger,
            witnesses=(hanging,),
            authority=Authority(url=url),
            copies=(sleeper, FileCopy(tmp_path / "heads")),
        ) as task:
            await task.until((tmp_path / "heads").exists)
            for _ in range(20):
                await asyncio.sleep(0.005)
                ticks += 1
            work(ledger, 5)
        assert ticks == 20
        assert time.monotonic() - began < 8
        go.set()
    assert ledger.state is LogState.OPEN


async def test_the_last_head_is_copied_once_more_after_the_ledger_was_closed(
    tmp_path: Path, ledger: Ledger
) -> None:
    path, note = tmp_path / "heads", tmp_path / "note"
    keep = f"cat > {tmp_path}/kept.new && mv {tmp_path}/kept.new {tmp_path}/kept"
    copies = (FileCopy(path), NoteCopy(note), CommandCopy(("sh", "-c", keep)))
    async with running(ledger, copies=copies, head_seconds=60.0) as task:
        await task.until(lambda: [one.size for one in task.status.channels] == [11] * 3)
    ledger.append("stop", {"ext": {"reason": "signal"}}).result(10)
    ledger.close()
    said: list[str] = []
    await send_last_heads(task.status, said.append)
    last = (ledger.directory / "HEAD").read_text()
    assert last.split("\n")[1] == "12"
    assert note.read_text() == (tmp_path / "kept").read_text() == last
    assert [line.split(" ")[1] for line in path.read_text().splitlines()] == ["11", "12"]
    await send_last_heads(task.status, said.append)
    assert len(path.read_text().splitlines()) == 2
    assert said == []


async def test_a_last_head_that_cannot_be_copied_in_time_is_said_and_waited_for_no_longer(
    tmp_path: Path, ledger: Ledger
) -> None:
    pid, path = tmp_path / "pid", tmp_path / "heads"
    hanging = CommandCopy(("sh", "-c", f"echo $$ > {pid}; sleep 60"))
    late = CommandCopy(("sh", "-c", f'grep -qx 11 || {{ echo $$ >> "{pid}s"; sleep 60; }}'))
    missing = FileCopy(tmp_path / "nowhere" / "heads")
    async with running(
        ledger, copies=(hanging, late, FileCopy(path), missing), head_seconds=60.0
    ) as task:
        await task.until(lambda: pid.exists() and pid.read_text() and task.status.channels[1].size)
        await task.until(path.exists)
    ledger.append("stop", {"ext": {"reason": "signal"}}).result(10)
    ledger.close()
    said: list[str] = []
    began = time.monotonic()
    await send_last_heads(task.status, said.append, 0.5)
    assert time.monotonic() - began < 3
    assert path.read_text().splitlines()[-1].split(" ")[1] == "12"
    assert len(said) == 3
    assert "an earlier head has not ended" in said[0]
    assert "more than 0." in said[1]
    assert "cannot be copied" in said[2]
    for line in (pid.read_text() + Path(f"{pid}s").read_text()).split():
        await task_gone(int(line))


async def task_gone(pid: int) -> None:
    """Wait until a process is no more, or waits for nobody but its parent."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].startswith("Z"):
                return
        except FileNotFoundError:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{pid} still runs")


async def test_what_hangs_in_a_copy_is_followed_by_newer_heads_only(
    tmp_path: Path, ledger: Ledger
) -> None:
    """A copy of an older head that comes late never replaces the last one."""
    kept, go = tmp_path / "kept", tmp_path / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.02; done"
    slow = f"cat > {tmp_path}/in.$$; {wait}; mv {tmp_path}/in.$$ {kept}"
    async with running(
        ledger, copies=(CommandCopy(("sh", "-c", slow)),), head_seconds=60.0
    ) as task:
        await task.until(lambda: list(tmp_path.glob("in.*")))
    ledger.append("stop", {"ext": {"reason": "signal"}}).result(10)
    ledger.close()
    last = asyncio.ensure_future(send_last_heads(task.status, task.said.append, 10.0))
    await asyncio.sleep(0.1)
    go.touch()
    await last
    assert kept.read_text() == (ledger.directory / "HEAD").read_text()
    assert task.said == []


async def test_the_last_heads_of_two_ledgers_that_are_closed_are_in_each_others_reach(
    tmp_path: Path,
) -> None:
    place = neighbors_dir({"XDG_STATE_HOME": str(tmp_path / "state")})
    one, two = opened(tmp_path, "a", "test/a"), opened(tmp_path, "b", "test/b")
    work(one, 3)
    work(two, 4)
    async with running(one, neighbors=place) as first, running(two, neighbors=place) as second:
        await first.until(lambda: anchors(one) and anchors(two))
        second.task.cancel()
        await asyncio.wait([second.task])
        work(one)  # within the minute: not recorded but at the last look
        one._heads.publish(one.checkpoint)
        await look_once_more(second.status, second.said.append)
        assert anchors(two)[-1]["size"] == one.size
        two.append("stop", {"ext": {"reason": "signal"}}).result(10)
        size = two.size
        two.close()
        await send_last_heads(second.status, second.said.append)
        # Closed: its last head is recorded at the next look, not after a minute.
        await first.until(lambda: anchors(one)[-1]["size"] == size)
    one.append("stop", {"ext": {"reason": "signal"}}).result(10)
    one.close()
    await send_last_heads(first.status, first.said.append)
    [entry] = [entry for entry in announced(place) if entry.origin == "test/a"]
    assert (entry.pid, entry.note) == (0, (one.directory / "HEAD").read_text())
    assert first.said + second.said == []
    assert verify_path(one.directory).exit_code == verify_path(two.directory).exit_code == 0


async def test_two_ledgers_record_each_other_and_come_to_rest(tmp_path: Path) -> None:
    place = neighbors_dir({"XDG_STATE_HOME": str(tmp_path / "state")})
    with opened(tmp_path, "a", "test/a") as one, opened(tmp_path, "b", "test/b") as two:
        work(one, 3)
        work(two, 4)
        async with running(one, neighbors=place) as first, running(two, neighbors=place) as second:
            await first.until(lambda: anchors(one) and anchors(two))
            await asyncio.sleep(1.5)
            assert len(anchors(one)) + len(anchors(two)) == 2
            assert first.channel("neighbor")["size"] == second.channel("neighbor")["size"] == 1
        assert [json.loads(path.read_text())["pid"] for path in place.glob("*.ledger.json")] == [
            0,
            0,
        ]
        assert {ext["origin"] for ext in anchors(one)} == {"test/b"}
        assert {ext["origin"] for ext in anchors(two)} == {"test/a"}


async def test_without_the_program_ots_there_is_one_note(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    async with running(ledger, ots=True) as task:
        await asyncio.sleep(0.2)
    assert len(task.said) == 1
    assert "not installed" in task.said[0]
    assert task.status.snapshot() == []


@pytest.fixture
def with_ots(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("otsclient")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def states(ledger: Ledger) -> list[tuple[int, str]]:
    return [(ext["size"], ext["state"]) for ext in anchors(ledger) if ext["kind"] == "ots"]


@pytest.mark.usefixtures("with_ots")
async def test_pending_proofs_are_completed_by_themselves_and_recorded_once(
    ledger: Ledger,
) -> None:
    with serve_calendar(LocalCalendar()) as calendar:
        settings = {"ots": True, "calendars": (calendar.url,), "upgrade_seconds": 0.1}
        async with running(ledger, **settings) as task:
            await task.until(lambda: states(ledger) == [(11, "pending")])
            await task.until(lambda: len(calendar.asked) >= 2)
            assert [c["failures"] for c in task.status.snapshot()] == [0, 0], (
                "pending is no failure"
            )
            calendar.mined = True
            await task.until(lambda: len(states(ledger)) == 2)
            asked = len(calendar.asked)
            await asyncio.sleep(0.5)
            assert len(calendar.asked) == asked
        async with running(ledger, **settings):
            await asyncio.sleep(0.5)
        assert len(calendar.asked) == asked, "the next start knows"
        assert states(ledger) == [(11, "pending"), (11, "complete")]
        assert task.said == []
    assert verify_path(ledger.directory).exit_code == 0


@pytest.mark.usefixtures("with_ots")
async def test_a_stamp_that_was_made_by_hand_is_completed_at_the_start_too(
    ledger: Ledger,
) -> None:
    with serve_calendar(LocalCalendar()) as calendar:
        head = published_head(ledger.directory)
        stamp_head(ledger.directory, head, str(find_program()), [calendar.url])
        calendar.mined = True
        async with running(ledger, ots=True, calendars=(calendar.url,)) as task:
            await task.until(lambda: (11, "complete") in states(ledger))


async def test_a_proof_that_cannot_be_upgraded_is_told_and_lets_the_others_go(
    tmp_path: Path, ledger: Ledger
) -> None:
    for size in (3, 5, 7):
        place = ledger.directory / "anchors"
        place.mkdir(exist_ok=True)
        (place / f"{size}.ots").write_bytes(b"pending")
    asked: list[int] = []

    def upgrade(size: int) -> dict[str, object] | None:
        asked.append(size)
        if size == 3:
            raise AnchorError("it is broken.")
        return {"kind": "ots", "size": size, "state": "complete"} if size == 7 else None

    job = UpgradeJob(ledger, upgrade, 60.0)
    for _ in range(2):
        with pytest.raises(AnchorError, match=r"proof of 3 records .* broken"):
            job.step()
    assert asked == [3, 5, 7, 3, 5]
    assert states(ledger) == [(7, "complete")]
    os.utime(place / "5.ots", (0, 0))
    (place / "3.ots").unlink()
    with pytest.raises(AnchorError, match=r"proof of 5 records .* pending after 7 days"):
        job.step()
    assert asked == [3, 5, 7, 3, 5, 5]
    (place / "3.ots").write_bytes(b"pending")
    job.end()
    assert job.step() is None
    assert asked == [3, 5, 7, 3, 5, 5]
    assert UpgradeJob(ledger, lambda _: None, 60.0)._settled({3, 5, 7}) == {7}


@pytest.mark.parametrize("step", ["program", "kept", "recorded"])
def test_a_kill_while_a_proof_is_upgraded_leaves_one_record_and_a_whole_proof(
    tmp_path: Path, step: str
) -> None:
    with opened(tmp_path) as ledger:
        work(ledger, 3)
    place = tmp_path / "log"
    head = published_head(place)
    data = keep_checkpoint(place, head).read_bytes()
    pending = ots.MAGIC + hashlib.sha256(data).digest() + b"pending"
    keep_answer(place, head.size, ".ots", pending)
    program = tmp_path / "ots"
    program.write_text(
        '#!/bin/sh\nfor last; do :; done\ngrep -q whole "$last" || echo whole >> "$last"\n'
    )
    program.chmod(0o755)

    def once(die: str) -> None:
        with opened(tmp_path) as ledger:

            def upgrade(size: int) -> dict[str, object] | None:
                if die == "program":
                    os.kill(os.getpid(), signal.SIGKILL)
                ext = ots.upgrade_proof(place, size, str(program))
                if die == "kept":
                    os.kill(os.getpid(), signal.SIGKILL)
                return ext

            UpgradeJob(ledger, upgrade, 60.0).step()
            if die == "recorded":
                os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            once(step)
        os._exit(70)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    proof = (place / "anchors" / f"{head.size}.ots").read_bytes()
    assert proof == pending + (b"" if step == "program" else b"whole\n")
    for _ in range(2):
        once("")
        assert (place / "anchors" / f"{head.size}.ots").read_bytes() == pending + b"whole\n"
        with opened(tmp_path) as ledger:
            assert states(ledger) == [(head.size, "complete")]
    assert verify_path(place).exit_code == 0


async def test_a_closed_ledger_is_no_error_of_the_program(tmp_path: Path) -> None:
    place = neighbors_dir({"XDG_STATE_HOME": str(tmp_path / "state")})
    with opened(tmp_path, "b", "test/b"):
        one = opened(tmp_path, "a", "test/a")
        async with running(one, neighbors=place, copies=(FileCopy(tmp_path / "heads"),)) as task:
            await task.until((tmp_path / "heads").exists)
            one.close()
            await asyncio.sleep(0.3)
            assert not task.task.done()
            assert "please report" not in str(task.said)
