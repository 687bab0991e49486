"""The ledgers of one machine record each other: growth, idleness, rollback, forks, keys."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from shared.anchors.neighbors import (
    Announcement,
    Observer,
    Sighting,
    anchor_records,
    announce,
    announced,
    follow_rotations,
    heads_recorded,
    neighbors_dir,
    pins_of,
)
from shared.ledger import Ledger, open_note, parse_checkpoint, parse_vkey, verify_path
from shared.ledger.checkpoint import Signer
from shared.ledger.directory import read_head


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class House:
    """One machine: a directory of announcements, ledgers by name, and what each has seen."""

    def __init__(self, base: Path) -> None:
        self.base, self.clock = base, Clock()
        self.place = neighbors_dir({"XDG_STATE_HOME": str(base / "state")})
        self.ledgers: dict[str, Ledger] = {}
        self.observers: dict[str, Observer] = {}

    def open(self, name: str) -> Ledger:
        ledger = Ledger.open(
            self.base / name, keys=self.base / f"{name}-keys", origin=f"test/{name}"
        )
        self.ledgers[name] = ledger
        entry = Announcement(ledger.origin, str(ledger.directory), ledger.vkey, 1)
        announce(self.place, entry)
        self.observers[name] = self.observer(name)
        return ledger

    def observer(self, name: str) -> Observer:
        ledger = self.ledgers[name]
        return Observer(
            self.place, ledger.origin, lambda: anchor_records(ledger.directory), self.clock
        )

    def close(self, name: str) -> None:
        self.ledgers.pop(name).close()

    def look(self, name: str) -> list[Sighting]:
        """What `name` records now, recorded."""
        for ledger in self.ledgers.values():
            ledger._heads.publish(ledger.checkpoint)
        found = self.observers[name].look()
        for sighting in found:
            self.ledgers[name].append("anchor", {"ext": sighting.ext}).result(10)
            self.observers[name].settle(sighting)
        return found

    def anchors(self, name: str) -> list[dict[str, Any]]:
        return [record["ext"] for record in anchor_records(self.base / name)]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    made.open("a")
    made.open("b")
    yield made
    for name in list(made.ledgers):
        made.close(name)


def work(ledger: Ledger, count: int = 1, kind: str = "request") -> None:
    for _ in range(count):
        ledger.append(kind, {}).result(10)


def test_a_head_is_recorded_with_its_signed_note(house: House) -> None:
    work(house.ledgers["b"], 5)
    [sighting] = house.look("a")
    [ext] = house.anchors("a")
    assert ext == sighting.ext
    assert (ext["kind"], ext["origin"], ext["size"]) == ("neighbor", "test/b", 6)
    text = open_note(ext["note"], [parse_vkey(ext["vkey"])])
    assert parse_checkpoint(text).root.hex() == ext["root"]
    assert sighting.alarm == ""


def test_a_ledger_does_not_record_itself(house: House) -> None:
    assert {ext["origin"] for ext in (s.ext for s in house.look("a"))} == {"test/b"}


def test_a_head_is_recorded_at_most_once_a_minute_and_only_when_it_changed(house: House) -> None:
    assert len(house.look("a")) == 1
    house.clock.now += 600
    assert house.look("a") == []
    work(house.ledgers["b"])
    assert len(house.look("a")) == 1
    for _ in range(59):
        house.clock.now += 1
        work(house.ledgers["b"])
        assert house.look("a") == []
    house.clock.now += 1
    assert len(house.look("a")) == 1


def closed(house: House, name: str, note: str = "") -> None:
    ledger = house.ledgers[name]
    announce(house.place, Announcement(ledger.origin, str(ledger.directory), ledger.vkey, 0, note))


def test_the_head_of_a_closed_ledger_is_recorded_without_delay(house: House) -> None:
    house.look("a")
    work(house.ledgers["b"])
    assert house.look("a") == []
    closed(house, "b")
    assert [sighting.alarm for sighting in house.look("a")] == [""]
    assert house.look("a") == []


def test_a_ledger_that_lost_what_it_was_closed_with_is_an_alarm_though_nobody_looked_then(
    house: House,
) -> None:
    work(house.ledgers["b"], 2)
    house.look("a")
    house.close("b")
    shutil.copytree(house.base / "b", house.base / "old")
    ledger = house.open("b")
    work(ledger, 3)
    house.close("b")
    note = read_head(house.base / "b")
    announce(house.place, Announcement("test/b", str(house.base / "b"), ledger.vkey, 0, note))
    shutil.rmtree(house.base / "b")
    shutil.move(house.base / "old", house.base / "b")
    [sighting] = house.look("a")
    assert sighting.alarm == "rolled_back"
    assert sighting.ext["was"]["note"] == note  # type: ignore[index]
    assert house.look("a") == []


def test_a_note_that_the_ledger_did_not_sign_says_nothing(house: House) -> None:
    house.look("a")
    closed(house, "b", read_head(house.base / "a"))
    assert house.look("a") == []


def test_two_idle_ledgers_do_not_keep_each_other_growing(house: House) -> None:
    for _ in range(500):
        house.look("a")
        house.look("b")
        house.clock.now += 60
    assert [ledger.size for ledger in house.ledgers.values()] == [2, 2]


def test_heartbeats_alone_are_recorded_seldom(house: House) -> None:
    for _ in range(100):
        for name in ("a", "b"):
            work(house.ledgers[name], kind="heartbeat")
            house.look(name)
        house.clock.now += 60
    assert 9 <= len(house.anchors("a")) <= 12


def test_much_growth_is_recorded_even_if_its_end_is_idle(house: House) -> None:
    house.look("a")
    work(house.ledgers["b"], 40)
    work(house.ledgers["b"], 120, kind="heartbeat")
    house.clock.now += 60
    assert [sighting.alarm for sighting in house.look("a")] == [""]


def roll_back(house: House, name: str) -> None:
    """Write on, stop, put an older copy back, start again."""
    house.close(name)
    shutil.copytree(house.base / name, house.base / "copy")
    work(house.open(name), 10)
    house.look("a")
    house.close(name)
    shutil.rmtree(house.base / name)
    shutil.move(house.base / "copy", house.base / name)


def test_a_ledger_rolled_back_from_a_copy_is_an_alarm_in_the_other(house: House) -> None:
    work(house.ledgers["b"], 5)
    house.look("a")
    house.clock.now += 60
    roll_back(house, "b")
    house.open("b")
    [sighting] = house.look("a")
    assert sighting.alarm == "rolled_back"
    assert "fewer records" in sighting.sentence
    ext = house.anchors("a")[-1]
    assert (ext["alarm"], ext["size"], ext["was"]["size"]) == ("rolled_back", 6, 16)
    # Recorded once; from then on the log is followed from where it is.
    house.clock.now += 60
    assert house.look("a") == []
    work(house.ledgers["b"])
    house.clock.now += 60
    assert [s.alarm for s in house.look("a")] == [""]


def test_a_rollback_is_seen_while_the_log_is_closed(house: House) -> None:
    work(house.ledgers["b"], 5)
    house.look("a")
    house.clock.now += 60
    roll_back(house, "b")
    assert [s.alarm for s in house.look("a")] == ["rolled_back"]


@pytest.mark.parametrize("more", [10, 25], ids=["same size", "longer"])
def test_another_history_is_an_alarm_in_the_other(house: House, more: int) -> None:
    work(house.ledgers["b"], 5)
    house.look("a")
    house.clock.now += 60
    roll_back(house, "b")
    work(house.open("b"), more, kind="deny")
    [sighting] = house.look("a") or ([house.clock.__setattr__("now", 9e9)] and house.look("a"))
    assert sighting.alarm == "fork"


def test_what_was_recorded_shows_the_rollback_to_a_verifier(house: House) -> None:
    work(house.ledgers["b"], 5)
    house.look("a")
    house.clock.now += 60
    roll_back(house, "b")
    house.open("b")
    house.look("a")
    notes = heads_recorded(anchor_records(house.base / "a"), "test/b")
    sizes = [
        parse_checkpoint(open_note(n, [parse_vkey(house.ledgers["b"].vkey)])).size for n in notes
    ]
    assert sizes == [6, 16]
    assert verify_path(house.base / "b").exit_code == 0  # alone, it looks intact


def test_a_restarted_observer_knows_what_was_recorded(house: House) -> None:
    work(house.ledgers["b"], 5)
    house.look("a")
    before = dict(house.observers["a"].pins)
    for seen in house.place.glob("*.seen.json"):
        assert house.observer("a").pins == before
        seen.unlink()
    assert house.observer("a").pins == before
    house.observers["a"] = house.observer("a")
    assert house.look("a") == []


def test_a_damaged_memory_is_read_anew_from_the_records(house: House) -> None:
    house.look("a")
    before = dict(house.observers["a"].pins)
    for seen in house.place.glob("*.seen.json"):
        seen.write_text('{"test/b": {"size": 1}}')
    assert house.observer("a").pins == before


def test_a_ledger_that_is_gone_is_recorded_once(house: House) -> None:
    house.look("a")
    house.close("b")
    shutil.rmtree(house.base / "b")
    assert [s.alarm for s in house.look("a")] == ["gone"]
    assert house.look("a") == []
    assert [entry.origin for entry in announced(house.place)] == ["test/a"]
    assert pins_of(anchor_records(house.base / "a")) == {}


def test_another_key_without_a_rotation_is_an_alarm(house: House) -> None:
    work(house.ledgers["b"], 5)
    house.look("a")
    house.close("b")
    shutil.rmtree(house.base / "b")
    shutil.rmtree(house.base / "b-keys")
    work(house.open("b"), 30)
    [sighting] = house.look("a")
    assert sighting.alarm == "key_changed"
    assert sighting.ext["was"] != sighting.ext["vkey"]


def test_a_head_by_a_key_that_was_not_announced_is_not_recorded(house: House) -> None:
    entry = next(e for e in announced(house.place) if e.origin == "test/b")
    forged = Signer("test/b", b"f" * 32).key.vkey()
    announce(house.place, Announcement(entry.origin, entry.directory, forged, 1))
    assert house.look("a") == []


def rotation(old: Signer, new: Signer, seq: int, text: str = "") -> dict[str, str]:
    text = text or f"test/b/key-rotate\n{seq}\n{new.key.vkey()}\n"
    second = new.sign(text).rpartition("\n\n")[2]
    return {"old": old.key.vkey(), "new": new.key.vkey(), "note": old.sign(text) + second}


def paper_log(directory: Path, *rotations: dict[str, str]) -> Path:
    """The file of a log whose records from number 1 on are `rotations`."""
    records = [{"seq": 0, "type": "genesis"}]
    records += [
        {"seq": seq, "type": "key_rotate", "ext": ext} for seq, ext in enumerate(rotations, 1)
    ]
    path = directory / "segments" / f"{0:020}.jsonl"
    path.parent.mkdir(parents=True)
    lines = [orjson.dumps(record, option=orjson.OPT_SORT_KEYS) + b"\n" for record in records]
    path.write_bytes(b"".join(lines))
    return directory


def test_a_key_is_followed_through_rotations_signed_by_both(tmp_path: Path) -> None:
    one, two, three = (Signer("test/b", bytes([n]) * 32) for n in (1, 2, 3))
    log = paper_log(tmp_path / "log", rotation(one, two, 1), rotation(two, three, 2))
    chain = [signer.key.vkey() for signer in (one, two, three)]
    assert follow_rotations(log, "test/b", chain[0]) == chain
    assert follow_rotations(log, "test/b", chain[1]) == chain[1:]


def test_a_rotated_key_is_no_alarm(house: House) -> None:
    b = house.ledgers["b"]
    work(b, 5)
    house.look("a")
    b.rotate_key()
    house.clock.now += 60
    assert [sighting.alarm for sighting in house.look("a")] == [""]
    announce(house.place, Announcement(b.origin, str(b.directory), b.vkey, 1))
    b.seal_now()
    b.rotate_key()
    b.seal_now()
    announce(house.place, Announcement(b.origin, str(b.directory), b.vkey, 1))
    work(b)
    house.clock.now += 60
    assert [sighting.alarm for sighting in house.look("a")] == [""]
    assert house.observers["a"].pins["test/b"].vkey == b.vkey


@pytest.mark.parametrize(
    "spoil",
    [
        lambda ext: ext | {"note": ext["note"].rpartition("\u2014")[0]},
        lambda ext: ext | {"note": ext["note"].replace("\n1\n", "\n2\n")},
        lambda ext: ext | {"note": ""},
        lambda ext: ext | {"old": ext["new"]},
        lambda ext: ext | {"new": ext["old"]},
        lambda ext: {},
    ],
)
def test_a_rotation_that_is_not_signed_by_both_leads_nowhere(tmp_path: Path, spoil: Any) -> None:
    one, two = Signer("test/b", b"1" * 32), Signer("test/b", b"2" * 32)
    log = paper_log(tmp_path / "log", spoil(rotation(one, two, 1)))
    assert follow_rotations(log, "test/b", one.key.vkey()) == [one.key.vkey()]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"origin": "x"}', b"\xff", b'{"origin":1,"directory":2}']
)
def test_what_is_no_announcement_is_passed_over(house: House, content: bytes) -> None:
    (house.place / "stray.ledger.json").write_bytes(content)
    assert {entry.origin for entry in announced(house.place)} == {"test/a", "test/b"}


def test_an_announcement_under_another_s_name_is_passed_over(house: House) -> None:
    path = next(house.place.glob("*.ledger.json"))
    value = orjson.loads(path.read_bytes()) | {"origin": "test/c"}
    path.write_bytes(orjson.dumps(value))
    assert len(list(announced(house.place))) == 1


def test_the_directory_is_closed_to_others(house: House) -> None:
    assert house.place.stat().st_mode & 0o077 == 0
