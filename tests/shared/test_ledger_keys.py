"""The keys of a log: a seal key for each segment, a log key that can be changed, and a crash
between any two steps of either."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from quick_disk import QuickDisk

from shared.ledger import (
    Ledger,
    LedgerError,
    LogState,
    open_note,
    parse_checkpoint,
    parse_vkey,
    verify_path,
)
from shared.ledger.checkpoint import split_note
from shared.ledger.segment import last_record, list_seals, list_segments
from shared.ledger.storage import Disk

ORIGIN = "audit.example.org/keys"


def open_log(home: Path, **options: Any) -> Ledger:
    options.setdefault("disk", QuickDisk())
    return Ledger.open(home / "log", keys=home / "keys", origin=ORIGIN, **options)


def key_files(home: Path) -> set[str]:
    return {path.name for path in (home / "keys").iterdir()}


def add(ledger: Ledger, count: int = 1) -> None:
    for n in range(count):
        ledger.append("journal", {"ext": {"n": n}}).result(10)


def signers_of(note: str) -> list[bytes]:
    return [blob[:4] for _, blob in split_note(note)[1]]


def records(home: Path) -> list[dict[str, Any]]:
    lines = [
        line for path in list_segments(home / "log") for line in path.read_bytes().split(b"\n")
    ]
    return [json.loads(line) for line in lines if line and not line.startswith(b'{"cp":')]


# -- segment keys ----------------------------------------------------------------------------------


def test_a_seal_is_signed_by_the_log_key_and_by_the_segments_own(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        for _ in range(3):
            add(ledger, 2)
            ledger.seal_now()
        log_key = parse_vkey(ledger.vkey)
    named = json.loads((tmp_path / "log" / "log.json").read_text())["segment_key"]
    assert records(tmp_path)[0]["ext"]["segment_key"] == named
    for seal in list_seals(tmp_path / "log"):
        key = parse_vkey(named)
        assert key.name == f"{ORIGIN}/seal"
        note = seal.read_text()
        assert signers_of(note) == [log_key.key_id, key.key_id]
        assert open_note(note, [log_key]) == open_note(note, [key])
        named = json.loads(last_record(seal.with_suffix(".jsonl")))["ext"]["next_key"]


def test_the_key_of_a_sealed_segment_is_gone(tmp_path: Path) -> None:
    contents = set()
    with open_log(tmp_path) as ledger:
        for turn in range(3):
            (mine,) = key_files(tmp_path) - {"ledger.key"}
            assert mine == f"segment-{ledger.size - 1 if turn == 0 else ledger.size:020d}.key"
            path = tmp_path / "keys" / mine
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            contents.add(path.read_bytes())
            add(ledger)
            ledger.seal_now()
            assert not path.exists()
    assert len(contents) == 3
    left = b"".join(path.read_bytes() for path in (tmp_path / "keys").iterdir())
    assert not any(content.strip() in left for content in contents)


def test_a_key_is_overwritten_before_it_is_removed(tmp_path: Path) -> None:
    seen: list[bytes] = []

    class Watching(QuickDisk):
        def unlink(self, path: Path) -> None:
            if path.name.startswith("segment-") and path.suffix == ".key":
                seen.append(path.read_bytes())
            super().unlink(path)

    with open_log(tmp_path, disk=Watching()) as ledger:
        ledger.seal_now()
    assert len(seen) == 1
    assert set(seen[0]) == {0}


def test_a_lost_or_strange_segment_key_is_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        ledger.seal_now()
        add(ledger)
    (path,) = (tmp_path / "keys").glob("segment-*")
    kept = path.read_bytes()
    with open_log(tmp_path / "other") as other:
        other.seal_now()
    (strange,) = (tmp_path / "other" / "keys").glob("segment-*")
    path.write_bytes(strange.read_bytes())
    with pytest.raises(LedgerError, match="is not the one that the ledger names"):
        open_log(tmp_path)
    path.unlink()
    with pytest.raises(LedgerError, match="that must seal the ledger is missing"):
        open_log(tmp_path)
    path.write_bytes(kept)
    open_log(tmp_path).close()
    assert verify_path(tmp_path / "log").exit_code == 0


def test_seal_now_returns_the_checkpoint_over_the_sealed_segment(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        add(ledger, 3)
        note = ledger.seal_now()
        assert parse_checkpoint(open_note(note, [parse_vkey(ledger.vkey)])).size == ledger.size
        assert (tmp_path / "log" / "HEAD").read_text() == note == ledger.checkpoint
        add(ledger)
    with open_log(tmp_path) as again:
        again.seal_now()
    with open_log(tmp_path) as third:
        assert parse_checkpoint(third.checkpoint[: third.checkpoint.find("\n\n") + 1]).size > 5


# -- the log key -----------------------------------------------------------------------------------


def test_both_keys_sign_until_the_segment_ends_then_the_old_one_is_gone(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        add(ledger)
        old_file = (tmp_path / "keys" / "ledger.key").read_bytes()
        old = parse_vkey(ledger.vkey)
        new = parse_vkey(ledger.rotate_key())
        assert ledger.vkeys == (old.vkey(), new.vkey())
        assert signers_of(ledger.checkpoint) == [old.key_id, new.key_id]
    with open_log(tmp_path) as ledger:  # the overlap outlives a restart
        add(ledger)
        assert signers_of(ledger.checkpoint) == [old.key_id, new.key_id]
        receipt = ledger.append("journal", {}).result(10)
        assert receipt.header().endswith(receipt.checkpoint.rstrip().rpartition(" ")[2])
        ledger.seal_now()
        add(ledger)
        assert signers_of(ledger.checkpoint) == [new.key_id]
        assert ledger.vkey == new.vkey()
    assert signers_of(list_seals(tmp_path / "log")[0].read_text())[:2] == [old.key_id, new.key_id]
    left = b"".join(path.read_bytes() for path in (tmp_path / "keys").iterdir())
    assert old_file.strip() not in left
    assert "ledger-next.key" not in key_files(tmp_path)
    with open_log(tmp_path) as ledger:
        add(ledger)
        assert signers_of(ledger.checkpoint) == [new.key_id]


def test_a_rotation_record_carries_both_signatures_over_its_own_number(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        old = parse_vkey(ledger.vkey)
        new = parse_vkey(ledger.rotate_key())
    (record,) = [record for record in records(tmp_path) if record["type"] == "key_rotate"]
    assert (record["ext"]["old"], record["ext"]["new"]) == (old.vkey(), new.vkey())
    text = f"{ORIGIN}/key-rotate\n{record['seq']}\n{new.vkey()}\n"
    assert open_note(record["ext"]["note"], [old]) == text
    assert open_note(record["ext"]["note"], [new]) == text
    assert signers_of(record["ext"]["note"]) == [old.key_id, new.key_id]
    identity = json.loads((tmp_path / "log" / "log.json").read_text())
    assert identity["vkeys"] == [old.vkey(), new.vkey()]
    assert records(tmp_path)[0]["ext"]["vkeys"] == [old.vkey()]


def test_a_rotation_behind_a_clock_that_stepped_back_names_its_own_number(tmp_path: Path) -> None:
    now = [1_764_433_568_000_000]
    with open_log(tmp_path, clock=lambda: (now[0], 5)) as ledger:
        now[0] -= 10
        ledger.rotate_key()
        now[0] -= 10
        ledger.seal_now()
        now[0] -= 10
        ledger.seal_now()
    kinds = [record["type"] for record in records(tmp_path)]
    assert kinds == ["genesis", *["clock_step", "key_rotate"], *["clock_step", "seal"] * 2]
    rotated = records(tmp_path)[2]
    assert f"\n{rotated['seq']}\n" in rotated["ext"]["note"]
    with open_log(tmp_path, clock=lambda: (now[0], 5)) as ledger:
        add(ledger)


def test_a_second_rotation_ends_the_first_ones_overlap(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        keys = [ledger.vkey, ledger.rotate_key(), ledger.rotate_key(), ledger.rotate_key()]
        assert list(ledger.vkeys) == keys
        assert len(signers_of(ledger.checkpoint)) == 2
    assert len(list_seals(tmp_path / "log")) == 2
    with open_log(tmp_path) as ledger:
        assert list(ledger.vkeys) == keys
        ledger.seal_now()
        assert list(ledger.vkeys) == keys


def test_callers_cannot_write_a_rotation_themselves(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger, pytest.raises(LedgerError, match="by the ledger itself"):
        ledger.append("key_rotate", {})


def test_orders_to_a_closed_log_are_refused(tmp_path: Path) -> None:
    ledger = open_log(tmp_path)
    ledger.close()
    for order in (ledger.seal_now, ledger.rotate_key):
        with pytest.raises(LedgerError, match="is closed"):
            order()
    assert ledger.state is LogState.CLOSED


# -- crashes: the directory as a kill -9 before each step would leave it ---------------------------


@dataclass(frozen=True, slots=True)
class Step:
    call: str
    name: str


class Snapshots(Disk):
    """Copies everything before each step, once it is told to."""

    def __init__(self, home: Path, to: Path) -> None:
        self.home, self.to = home, to
        self.steps: list[Step] = []
        self.on = False

    def _step(self, call: str, path: Path | None = None) -> None:
        if self.on:
            shutil.copytree(self.home, self.to / str(len(self.steps)))
            self.steps.append(Step(call, path.name if path else ""))

    def open_append(self, path: Path) -> int:
        self._step("open", path)
        return super().open_append(path)

    def create(self, path: Path, mode: int) -> int:
        self._step("create", path)
        return super().create(path, mode)

    def write_some(self, fd: int, data: bytes) -> int:
        self._step("write")
        return super().write_some(fd, data)

    def sync(self, fd: int) -> None:
        self._step("sync")

    def sync_directory(self, path: Path) -> None:
        self._step("sync_directory", path)

    def rename(self, old: Path, new: Path) -> None:
        self._step("rename", new)
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        self._step("unlink", path)
        super().unlink(path)

    def chmod(self, path: Path, mode: int) -> None:
        self._step("chmod", path)
        super().chmod(path, mode)


@dataclass(frozen=True, slots=True)
class Crashes:
    """All the states that a crash in the middle of something leaves."""

    states: Path
    steps: list[Step]

    def at(self, wanted: Step) -> list[Path]:
        return [self.states / str(n) for n, step in enumerate(self.steps) if step == wanted]


def crashes(home: Path, action: Callable[[Ledger], object]) -> Crashes:
    disk = Snapshots(home / "home", home / "states")
    ledger = open_log(home / "home", disk=disk)
    add(ledger, 2)
    ledger._scribe.over.set()  # HEAD stays behind: no step of its own comes in between
    ledger._herald.join()
    disk.on = True
    action(ledger)
    disk.on = False
    ledger.close()
    return Crashes(disk.to, disk.steps)


def rotate_then_seal(ledger: Ledger) -> None:
    ledger.rotate_key()
    add(ledger)
    ledger.seal_now()


@pytest.fixture(scope="module")
def sealing(tmp_path_factory: pytest.TempPathFactory) -> Crashes:
    return crashes(tmp_path_factory.mktemp("sealing"), lambda ledger: ledger.seal_now())


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Crashes:
    return crashes(tmp_path_factory.mktemp("changing"), rotate_then_seal)


def goes_on(home: Path) -> list[str]:
    """Open what a crash left, use it, seal it; return the types of its records."""
    with open_log(home) as ledger:
        add(ledger)
        kinds = [record["type"] for record in ledger.records()]
        ledger.seal_now()
        add(ledger)
        expected = {"ledger.key", f"segment-{ledger.size - 1:020d}.key"}
        assert key_files(home) == expected
    for segment, seal in zip(list_segments(home / "log"), list_seals(home / "log"), strict=False):
        assert stat.S_IMODE(segment.stat().st_mode) == 0o440
        assert stat.S_IMODE(seal.stat().st_mode) == 0o440
    verdict = verify_path(home / "log")
    assert verdict.exit_code == 0, verdict
    return kinds


def first(number: int) -> str:
    return f"segment-{number:020d}.key"


SEAL, SEGMENT, FOLLOWING = f"{0:020d}.seal", f"{0:020d}.jsonl", f"{4:020d}.jsonl"


@pytest.mark.parametrize(
    ("step", "kinds"),
    [
        pytest.param(Step("create", first(4) + ".tmp"), [], id="before the next key is made"),
        pytest.param(Step("rename", first(4)), [], id="next key made but without its name"),
        pytest.param(Step("create", SEAL + ".tmp"), ["seal"], id="seal record durable, no seal"),
        pytest.param(Step("rename", SEAL), ["seal"], id="seal signed but without its name"),
        pytest.param(Step("chmod", SEGMENT), ["seal"], id="sealed, segment still writable"),
        pytest.param(Step("unlink", first(0)), ["seal"], id="segment key blanked, not removed"),
        pytest.param(Step("open", FOLLOWING), ["seal"], id="old key gone, next segment not made"),
    ],
)
def test_a_crash_while_a_segment_is_sealed_is_made_good(
    sealing: Crashes, tmp_path: Path, step: Step, kinds: list[str]
) -> None:
    (state,) = sealing.at(step)
    shutil.copytree(state, tmp_path / "home")
    assert goes_on(tmp_path / "home") == ["genesis", "journal", "journal", *kinds, "journal"]


NEXT = "ledger-next.key"


@pytest.mark.parametrize(
    ("step", "index", "rotated"),
    [
        pytest.param(Step("rename", NEXT), 0, False, id="new key made but without its name"),
        pytest.param(Step("create", "log.json.tmp"), 0, True, id="record durable, log.json older"),
        pytest.param(Step("rename", "log.json"), 0, True, id="new log.json without its name"),
        pytest.param(Step("create", first(6) + ".tmp"), 0, True, id="both keys in force"),
        pytest.param(Step("rename", SEAL), 0, True, id="segment ended, its seal without a name"),
        pytest.param(Step("chmod", SEGMENT), 0, True, id="sealed, old key still there"),
        pytest.param(Step("rename", "ledger.key"), 0, True, id="old key blanked, new one waits"),
    ],
)
def test_a_crash_while_the_log_key_changes_is_made_good(
    changing: Crashes, tmp_path: Path, step: Step, index: int, rotated: bool
) -> None:
    state = changing.at(step)[index]
    shutil.copytree(state, tmp_path / "home")
    assert ("key_rotate" in goes_on(tmp_path / "home")) is rotated
    with open_log(tmp_path / "home") as ledger:
        assert len(ledger.vkeys) == 1 + rotated
    identity = json.loads((tmp_path / "home" / "log" / "log.json").read_text())
    assert identity["vkeys"] == list(ledger.vkeys)


@pytest.mark.parametrize("what", ["sealing", "changing"])
def test_a_crash_before_any_step_at_all_is_made_good(
    request: pytest.FixtureRequest, what: str, tmp_path: Path
) -> None:
    found: Crashes = request.getfixturevalue(what)
    assert len(found.steps) > 15
    for number, step in enumerate(found.steps):
        home = tmp_path / str(number)
        shutil.copytree(found.states / str(number), home)
        assert "genesis" in goes_on(home), step
