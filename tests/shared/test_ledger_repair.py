"""Repair: what is lost is shown, moved to quarantine and recorded, and a cut-off repair ends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from quick_disk import QuickDisk

from shared.ledger import (
    Ledger,
    LedgerCorrupt,
    LedgerError,
    LedgerLocked,
    LedgerRollback,
    verify_path,
)
from shared.ledger.repair import opened
from shared.ledger.segment import QUARANTINE, list_seals, list_segments
from shared.ledger.storage import Disk

ORIGIN = "audit.example.org/repair"


def open_log(home: Path, **options: Any) -> Ledger:
    options.setdefault("disk", QuickDisk())
    return Ledger.open(home / "log", keys=home / "keys", origin=ORIGIN, **options)


def add(ledger: Ledger, count: int) -> None:
    for n in range(count):
        ledger.append("journal", {"ext": {"n": n}}).result(10)


def repair(home: Path, disk: Disk | None = None) -> int:
    with opened(home / "log", home / "keys", disk=disk or QuickDisk()) as work:
        return work.accept_loss("the disk broke", "tester")


def loss(home: Path) -> dict[str, Any]:
    with open_log(home) as ledger:
        (found,) = [r["ext"] for r in ledger.records() if r["type"] == "recover"]
    return dict(found)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.chmod(0o600)
    path.write_bytes(data)


def moved_bytes(home: Path) -> bytes:
    folder = home / "log" / QUARANTINE
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_a_good_log_needs_no_repair(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        add(ledger, 3)
        with (
            pytest.raises(LedgerLocked, match="is in use by"),
            opened(tmp_path / "log", tmp_path / "keys"),
        ):
            pass
    with opened(tmp_path / "log", tmp_path / "keys") as work:
        assert not work.look().problem
        with pytest.raises(LedgerError, match="needs no repair"):
            work.accept_loss("why", "me")
    with pytest.raises(LedgerError, match="not a ledger"), opened(tmp_path / "x", tmp_path):
        pass
    assert verify_path(tmp_path / "log").exit_code == 0


def test_damage_in_the_active_segment_is_shown_first_and_recorded_when_accepted(
    tmp_path: Path,
) -> None:
    with open_log(tmp_path) as ledger:
        add(ledger, 2)
        kept, offset = ledger.size, ledger._committed.offset
        add(ledger, 5)
        note = ledger.checkpoint
    path = list_segments(tmp_path / "log")[0]
    flip(path, offset + 30)
    before = path.read_bytes()
    with pytest.raises(LedgerCorrupt, match="sphragis repair"):
        open_log(tmp_path)
    with opened(tmp_path / "log", tmp_path / "keys") as work:
        damage = work.look()
    assert (damage.kept, damage.committed, damage.lost) == (kept, 8, 5)
    assert damage.cut == len(before) - offset
    assert "HEAD" in damage.known_by
    assert damage.moved == ("HEAD",)
    assert path.read_bytes() == before
    assert repair(tmp_path) == kept
    ext = loss(tmp_path)
    assert ext["accepted_loss"] is True
    assert (ext["lost_from"], ext["committed"], ext["bytes"]) == (kept, 8, damage.cut)
    assert (ext["reason"], ext["operator"], ext["head"]) == ("the disk broke", "tester", note)
    assert (tmp_path / "log" / QUARANTINE / ext["file"]).read_bytes() == before[offset:]
    assert note.encode() in moved_bytes(tmp_path)
    with open_log(tmp_path) as ledger:
        add(ledger, 1)
        ledger.seal_now()
    assert verify_path(tmp_path / "log").exit_code == 0


def test_a_log_that_was_rolled_back_goes_on_and_says_so(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        add(ledger, 2)
    path = list_segments(tmp_path / "log")[0]
    old = path.read_bytes()
    with open_log(tmp_path) as ledger:
        add(ledger, 3)
        note = ledger.checkpoint
        ledger._heads.publish(note)
        ledger.add_cosignatures(6, [])
    path.write_bytes(old)
    with pytest.raises(LedgerRollback):
        open_log(tmp_path)
    with opened(tmp_path / "log", tmp_path / "keys") as work:
        damage = work.look()
    assert (damage.kept, damage.lost, damage.cut) == (3, 3, 0)
    assert set(damage.moved) == {"HEAD", "anchors/6.checkpoint", "anchors/6.cosig"}
    repair(tmp_path)
    ext = loss(tmp_path)
    assert (ext["bytes"], ext["file"], ext["committed"], ext["head"]) == (0, "", 6, note)
    assert verify_path(tmp_path / "log").exit_code == 0


@pytest.mark.parametrize("content", ["", "garbage\n", "a\n1\nb\n\n— a b\n"])
def test_a_head_that_cannot_be_read_is_moved_aside(tmp_path: Path, content: str) -> None:
    with open_log(tmp_path) as ledger:
        add(ledger, 2)
    (tmp_path / "log" / "HEAD").write_text(content)
    with pytest.raises(LedgerCorrupt):
        open_log(tmp_path)
    repair(tmp_path)
    ext = loss(tmp_path)
    assert (ext["lost_from"], ext["committed"], ext["head"]) == (3, 3, "")
    assert verify_path(tmp_path / "log").exit_code == 0


def three_segments(home: Path) -> None:
    with open_log(home) as ledger:
        for _ in range(3):
            add(ledger, 2)
            ledger.seal_now()
        add(ledger, 2)


@pytest.mark.parametrize("what", ["seal gone", "seal changed", "segment gone", "last segment gone"])
def test_a_loss_inside_sealed_segments_goes_on_with_a_new_segment_key(
    tmp_path: Path, what: str
) -> None:
    three_segments(tmp_path)
    log = tmp_path / "log"
    second, last = list_segments(log)[1], list_segments(log)[-1]
    if what == "seal gone":
        list_seals(log)[1].unlink()
    elif what == "seal changed":
        flip(list_seals(log)[1], 120)
    elif what == "segment gone":
        second.unlink()
    else:
        last.unlink()
    with pytest.raises((LedgerCorrupt, LedgerRollback)):
        open_log(tmp_path)
    number = repair(tmp_path)
    ext = loss(tmp_path)
    assert ext["lost_from"] == number
    assert ext["committed"] == 12
    assert ("segment_key" in ext) is (what != "last segment gone")
    with open_log(tmp_path) as ledger:
        add(ledger, 1)
        ledger.seal_now()
        add(ledger, 1)
    with open_log(tmp_path) as ledger:
        assert [record["seq"] for record in ledger.records()] == list(range(ledger.size))


@pytest.mark.parametrize("sealed", [False, True])
def test_a_ledger_from_a_backup_without_its_keys_goes_on_with_a_new_segment_key(
    tmp_path: Path, sealed: bool
) -> None:
    with open_log(tmp_path) as ledger:
        add(ledger, 2)
    shutil.copytree(tmp_path / "log", tmp_path / "backup")
    with open_log(tmp_path) as ledger:
        ledger.seal_now()
        add(ledger, 2)
        if sealed:
            ledger.seal_now()
    shutil.rmtree(tmp_path / "log")
    shutil.copytree(tmp_path / "backup", tmp_path / "log")
    with pytest.raises(LedgerError, match=r"is missing; .*sphragis repair"):
        open_log(tmp_path)
    assert repair(tmp_path) == 3
    ext = loss(tmp_path)
    assert (ext["lost_from"], ext["committed"]) == (3, 3)  # nobody here knows better
    assert "segment_key" in ext
    with open_log(tmp_path) as ledger:
        ledger.seal_now()
        add(ledger, 1)
    open_log(tmp_path).close()


def test_a_rotation_that_was_lost_gives_the_log_back_to_the_old_key(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        add(ledger, 2)
        old, offset = ledger.vkey, ledger._committed.offset
        ledger.rotate_key()
        add(ledger, 2)
    flip(list_segments(tmp_path / "log")[0], offset + 40)
    repair(tmp_path)
    with open_log(tmp_path) as ledger:
        assert ledger.vkeys == (old,)
    assert json.loads((tmp_path / "log" / "log.json").read_text())["vkeys"] == [old]
    assert not (tmp_path / "keys" / "ledger-next.key").exists()


def test_when_the_key_of_the_last_good_record_is_gone_nothing_is_touched(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        add(ledger, 2)
        offset = ledger._committed.offset
        ledger.rotate_key()
        ledger.seal_now()
        add(ledger, 1)
    log = tmp_path / "log"
    flip(list_segments(log)[0], offset + 40)
    list_seals(log)[0].unlink()
    before = {path: path.read_bytes() for path in log.rglob("*") if path.is_file()}
    with pytest.raises(LedgerError, match="begin a new ledger"):
        repair(tmp_path)
    del before[log / "LOCK"]
    assert {path: path.read_bytes() for path in before} == before


class Cut(Exception):
    """The machine goes off."""


class Dying(Disk):
    """Dies at the n-th step."""

    def __init__(self, at: int) -> None:
        self.left = at

    def _step(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Cut

    def write_some(self, fd: int, data: bytes) -> int:
        self._step()
        return super().write_some(fd, data)

    def sync(self, fd: int) -> None:
        self._step()

    def sync_directory(self, path: Path) -> None:
        self._step()

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        super().rename(old, new)

    def truncate(self, fd: int, size: int) -> None:
        self._step()
        super().truncate(fd, size)

    def unlink(self, path: Path) -> None:
        self._step()
        super().unlink(path)


def recorded(home: Path) -> bool:
    """Tell whether the repair is over: the log says what was lost and nothing is left to do."""
    last = list_segments(home / "log")[-1].read_bytes()
    return b'"accepted_loss":true' in last and not (home / "log" / "REPAIR").exists()


def test_a_repair_that_is_cut_off_anywhere_is_finished_and_never_forgotten(tmp_path: Path) -> None:
    three_segments(tmp_path / "0")
    log = tmp_path / "0" / "log"
    list_seals(log)[1].unlink()
    cut_off = 0
    for at in range(1, 200):
        home = tmp_path / str(at)
        shutil.copytree(tmp_path / "0", home)
        try:
            repair(home, Dying(at))
        except Cut:
            cut_off += 1
            if recorded(home):
                break  # only the very last sync is missing
            with pytest.raises((LedgerCorrupt, LedgerRollback)):
                open_log(home)  # no way round the repair
            with opened(home / "log", home / "keys") as work:
                if work.look().begun:
                    assert work.look().committed == 12
            repair(home)
        ext = loss(home)
        assert (ext["committed"], ext["reason"]) == (12, "the disk broke")
        assert not (home / "log" / "REPAIR").exists()
        shutil.rmtree(home)
    assert cut_off > 20
