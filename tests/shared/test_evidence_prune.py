"""Pruning takes old segments away and nothing that proofs, holds or duties need."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from shared.evidence.errors import EvidenceBlocked, EvidenceError
from shared.evidence.holds import hold
from shared.evidence.prune import finish, level0_tiles, prune
from shared.evidence.retention import DAY_US
from shared.evidence.stores import Stores, stores_in
from shared.ledger import Ledger, load_commitment_key
from shared.ledger.checkpoint import open_note, parse_vkey
from shared.ledger.lookup import Archive
from shared.ledger.proofs import Prover
from shared.ledger.segment import list_segments
from shared.ledger.tiles import tile_path

NOW = 20_000 * DAY_US
ASK = {"basis": "storage limit", "operator": "op"}


class Clock:
    def __init__(self) -> None:
        self.us = NOW

    def __call__(self) -> tuple[int, int]:
        self.us += 1_000
        return self.us, self.us

    def seconds(self) -> float:
        return self.us / 1_000_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


def opened(folder: Path, clock: Clock) -> Ledger:
    return Ledger.open(
        folder / "log",
        keys=folder / "keys",
        origin="prune.test",
        segment_bytes=60_000,
        clock=clock,
    )


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> Iterator[Ledger]:
    log = opened(tmp_path, clock)
    yield log
    log.close()


@pytest.fixture
def stores(tmp_path: Path, clock: Clock, ledger: Ledger) -> Stores:
    key = load_commitment_key(tmp_path / "keys")
    return stores_in(tmp_path / "log", tmp_path / "keys", key, clock=clock.seconds)


def fill(ledger: Ledger, count: int, **fields: Any) -> list[int]:
    """Append records and seal what there is; return their numbers."""
    seqs: list[int] = []
    for start in range(0, count, 100):
        numbers = range(start, min(start + 100, count))
        waiting = [ledger.append("journal", {"ext": {"n": n}, **fields}) for n in numbers]
        seqs += [future.result().seq for future in waiting]
    ledger.seal_now()
    return seqs


def test_what_is_left_proves_as_before(
    ledger: Ledger, stores: Stores, clock: Clock, tmp_path: Path
) -> None:
    fill(ledger, 700)
    old_note = ledger.checkpoint
    clock.us += 40 * DAY_US
    fill(ledger, 500)
    before = list_segments(ledger.directory)
    answer = prune(ledger, stores, {**ASK, "keep_days": 30})
    assert answer["seq"] is not None
    size = answer["size"]
    assert 256 < size <= 710
    assert list_segments(ledger.directory) == before[answer["segments"] :]
    assert all(path.with_suffix(".seal").exists() for path in before[:-1])
    assert all((index + 1) * 256 > size for _, index in level0_tiles(ledger.directory))
    erase = next(r for r in ledger.records() if r["type"] == "erase")
    assert erase["action"] == {"kind": "prune"}
    assert erase["ext"]["size"] == erase["ext"]["last_kept_first"] == size
    note = ledger.checkpoint
    keys = [parse_vkey(ledger.vkey)]
    with Archive(ledger.directory) as archive, Prover(ledger.directory) as prover:
        assert archive.first == size
        for seq in (size, size + 1, 800, erase["seq"]):
            line = archive.line(seq)
            proof = prover.inclusion(seq, note, line)
            assert proof.verify(line, keys).size == ledger.size
        assert prover.consistency(old_note, note).holds()
    ledger.close()
    clock.us += 1
    with opened(tmp_path, clock) as again:
        assert next(again.records())["seq"] == size
        again.append("journal", {"ext": {}}).result()
        assert prune(again, stores, {**ASK, "keep_days": 30})["segments"] == 0


def test_what_leads_from_an_older_key_to_the_log_is_carried_on(
    ledger: Ledger, stores: Stores, clock: Clock
) -> None:
    vkeys = [ledger.vkey]
    for _ in range(2):
        vkeys.append(ledger.rotate_key())
        fill(ledger, 5)
        clock.us += 2 * DAY_US
        answer = prune(ledger, stores, {**ASK, "keep_days": 1})
        assert answer["key_changes"] == len(vkeys) - 1
        fill(ledger, 5)
    (*_, last) = (record for record in ledger.records() if record["type"] == "erase")
    carried = last["ext"]["rotations"]
    assert [(one["old"], one["new"]) for one in carried] == list(pairwise(vkeys))
    for one in carried:
        both = [parse_vkey(one["old"]), parse_vkey(one["new"])]
        for key in both:
            assert one["new"] in open_note(one["note"], [key])


def test_nothing_young_and_nothing_unsealed_goes(ledger: Ledger, stores: Stores) -> None:
    fill(ledger, 300)
    assert prune(ledger, stores, {**ASK, "keep_days": 1})["segments"] == 0
    last = list_segments(ledger.directory)[-1]
    prune(ledger, stores, {**ASK, "before": "2999-01-01"})
    assert list_segments(ledger.directory) == [last]


def test_a_dry_run_tells_and_changes_nothing(ledger: Ledger, stores: Stores) -> None:
    fill(ledger, 300)
    size, before = ledger.size, list_segments(ledger.directory)
    told = prune(ledger, stores, {**ASK, "before": "2999-01-01", "dry_run": True})
    assert told["segments"] > 0
    assert told["seq"] is None
    assert (ledger.size, list_segments(ledger.directory)) == (size, before)


def blocked(ledger: Ledger, stores: Stores) -> str:
    before = list_segments(ledger.directory)
    with pytest.raises(EvidenceBlocked) as wrong:
        prune(ledger, stores, {**ASK, "before": "2999-01-01"})
    assert list_segments(ledger.directory) == before
    denied = [r for r in ledger.records() if r["type"] == "deny"]
    assert denied[-1]["action"] == {"kind": "prune"}
    return str(wrong.value)


def test_a_hold_stops_it_until_it_is_released(ledger: Ledger, stores: Stores) -> None:
    fill(ledger, 300)
    ask = {"id": "case-1", "reason": "claim", "operator": "op"}
    hold(ledger, stores, {**ask, "do": "place", "subject": "somebody"})
    assert '"case-1" forbids it until it is released' in blocked(ledger, stores)
    with pytest.raises(EvidenceError, match="is there already"):
        hold(ledger, stores, {**ask, "do": "place", "all": True})
    hold(ledger, stores, {**ask, "do": "release"})
    assert prune(ledger, stores, {**ASK, "before": "2999-01-01"})["segments"] > 0
    with pytest.raises(EvidenceError, match="There is no hold"):
        hold(ledger, stores, {**ask, "do": "release"})


def test_a_hold_ends_on_its_day(ledger: Ledger, stores: Stores, clock: Clock) -> None:
    fill(ledger, 300)
    ask = {"do": "place", "id": "h", "reason": "r", "operator": "o", "all": True}
    hold(ledger, stores, {**ask, "until": "2024-10-10"})
    assert "until 2024-10-10" in blocked(ledger, stores)
    clock.us += 10 * DAY_US
    assert prune(ledger, stores, {**ASK, "before": "2999-01-01"})["segments"] > 0


def test_a_retention_class_stops_it_until_its_end(
    ledger: Ledger, stores: Stores, clock: Clock
) -> None:
    seqs = fill(ledger, 3, retention={"class": "sec-17a-4", "until": NOW + 1096 * DAY_US})
    fill(ledger, 300)
    said = blocked(ledger, stores)
    assert 'the retention class "sec-17a-4" forbids it until 2027-10-05' in said
    assert ", ".join(map(str, seqs)) in said
    clock.us += 1096 * DAY_US
    assert prune(ledger, stores, {**ASK, "before": "2999-01-01"})["segments"] > 0


def test_a_request_without_outcome_stops_it(ledger: Ledger, stores: Stores) -> None:
    seq = ledger.append("request", {"id": "c"}).result().seq
    fill(ledger, 300)
    said = blocked(ledger, stores)
    assert (
        f"a request that has no outcome yet forbids it until it has one for record {seq}." in said
    )
    ledger.append("outcome", {"ref": seq, "outcome": {"status": "ok"}}).result()
    assert prune(ledger, stores, {**ASK, "before": "2999-01-01"})["segments"] > 0


GATE = {"run": "s1", "gate": {"id": "G1", "state": "open"}}
DECK_GATE = {"run": "s1", "ext": {"op": "gate-opened", "id": "G1"}}


@pytest.mark.parametrize("gate", [GATE, DECK_GATE])
def test_a_gate_without_decision_stops_it(
    ledger: Ledger, stores: Stores, gate: dict[str, Any]
) -> None:
    seq = ledger.append("gate_open", gate).result().seq
    fill(ledger, 300)
    sentence = f"a gate that is not decided yet forbids it until it is decided for record {seq}."
    assert sentence in blocked(ledger, stores)
    other = {**gate, "run": "s2"}
    ledger.append("gate_decision", other).result()
    assert sentence in blocked(ledger, stores), "of another run"
    decided = {**gate, "gate": {**gate.get("gate", {}), "state": "rejected"}}
    if "gate" not in gate:
        decided = {"run": "s1", "ext": {"op": "gate-decided", "id": "G1", "state": "void"}}
    ledger.append("gate_decision", decided).result()
    assert prune(ledger, stores, {**ASK, "before": "2999-01-01"})["segments"] > 0


def test_a_gate_that_is_opened_again_later_stops_nothing(ledger: Ledger, stores: Stores) -> None:
    ledger.append("gate_open", GATE).result()
    ledger.append("gate_decision", GATE).result()
    fill(ledger, 300)
    ledger.append("gate_open", GATE).result()
    assert prune(ledger, stores, {**ASK, "before": "2999-01-01"})["segments"] > 0


def stamp(task: str, role: str = "coder") -> dict[str, Any]:
    action = {"kind": "control", "name": "stamp", "target": role}
    return {"run": "s1", "task": task, "action": action}


@pytest.mark.parametrize("end", ["revoke", "delegate"])
def test_a_delegation_in_force_stops_it(ledger: Ledger, stores: Stores, end: str) -> None:
    seq = ledger.append("delegate", stamp("T1")).result().seq
    fill(ledger, 300)
    ledger.append("revoke", stamp("T1", "reviewer")).result()
    sentence = f"a delegation that is in force forbids it until it is revoked for record {seq}."
    assert sentence in blocked(ledger, stores)
    stores.delegated = frozenset({("s1", "coder")})
    assert sentence in blocked(ledger, stores)
    ledger.append(end, stamp("T2")).result()
    assert prune(ledger, stores, {**ASK, "before": "2999-01-01"})["segments"] > 0


def test_a_stamp_of_a_deck_that_is_gone_stops_nothing_where_that_is_known(
    ledger: Ledger, stores: Stores
) -> None:
    ledger.append("delegate", stamp("T1")).result()
    fill(ledger, 300)
    blocked(ledger, stores)
    stores.delegated = frozenset({("s2", "coder"), ("s1", "reviewer")})
    assert prune(ledger, stores, {**ASK, "before": "2999-01-01"})["segments"] > 0


@pytest.mark.parametrize("by_record", [True, False])
def test_a_delegation_to_no_role_lasts_until_it_is_revoked(
    ledger: Ledger, stores: Stores, by_record: bool
) -> None:
    stores.delegated = frozenset()
    seq = ledger.append("delegate", {"run": "s1", "task": "T1"}).result().seq
    fill(ledger, 300)
    assert f"for record {seq}." in blocked(ledger, stores)
    ledger.append("delegate", {"run": "s1", "task": "T2"}).result()
    assert f"for record {seq}." in blocked(ledger, stores)
    ledger.append("revoke", {"ref": seq} if by_record else {"run": "s1", "task": "T1"}).result()
    assert prune(ledger, stores, {**ASK, "before": "2999-01-01"})["segments"] > 0


def test_the_record_of_a_refusal_names_each_reason(ledger: Ledger, stores: Stores) -> None:
    seqs = [
        ledger.append("request", {"id": "c"}).result().seq,
        ledger.append("gate_open", GATE).result().seq,
        ledger.append("delegate", stamp("T1")).result().seq,
    ]
    fill(ledger, 300)
    assert "(and 2 other reason(s))." in blocked(ledger, stores)
    denied = [r for r in ledger.records() if r["type"] == "deny"][-1]["ext"]
    assert denied["reasons"] == [
        "a delegation that is in force",
        "a gate that is not decided yet",
        "a request that has no outcome yet",
    ]
    assert denied["records"] == seqs


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        ({}, "Name what to prune"),
        ({"before": "2999-01-01", "keep_days": 3}, "Name what to prune"),
        ({"keep_days": 0}, "at least 1"),
        ({"keep_days": "3"}, "at least 1"),
        ({"before": "soon"}, "a date such as"),
    ],
)
def test_a_wish_that_is_unclear_is_refused(
    ledger: Ledger, stores: Stores, request_: dict[str, Any], named: str
) -> None:
    with pytest.raises(EvidenceError, match=named):
        prune(ledger, stores, {**ASK, **request_})
    with pytest.raises(EvidenceError, match="--basis is missing"):
        prune(ledger, stores, {"operator": "o", "keep_days": 1})


def test_finishing_takes_what_a_kill_left(ledger: Ledger, stores: Stores) -> None:
    fill(ledger, 700)
    folder = ledger.directory
    first = list_segments(folder)[0]
    data = first.read_bytes()

    def die(step: str) -> None:
        if step == "segment_gone":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prune(ledger, stores, {**ASK, "before": "2999-01-01"}, progress=die)
    assert not first.exists()
    first.write_bytes(data)
    (folder / tile_path(0, 0)).parent.mkdir(parents=True, exist_ok=True)
    (folder / tile_path(0, 0)).write_bytes(b"\0" * 8192)
    assert finish(folder) > 2
    assert finish(folder) == 0
    assert len(list_segments(folder)) == 1


def test_a_pruning_that_was_never_recorded_removes_nothing(ledger: Ledger, stores: Stores) -> None:
    fill(ledger, 300)

    def die(step: str) -> None:
        assert step == "marked"
        raise KeyboardInterrupt

    before = list_segments(ledger.directory)
    with pytest.raises(KeyboardInterrupt):
        prune(ledger, stores, {**ASK, "before": "2999-01-01"}, progress=die)
    assert finish(ledger.directory) == 0
    assert list_segments(ledger.directory) == before
    assert prune(ledger, stores, {**ASK, "before": "2999-01-01"})["segments"] > 0
