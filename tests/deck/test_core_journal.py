"""The journal on a real ledger: state is its replay, and a broken log stops the work."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import deck.journal
from deck.entries import Entry, Op, TaskState
from deck.gates import BriefUnreadable, digest
from deck.journal import Journal, JournalFailed
from deck.moves import IllegalMove
from deck.texts import TextStore
from shared.ledger import verify_path
from shared.ledger.segment import list_segments, seal_path
from shared.ledger.words import describe


def opened(base: Path) -> Journal:
    return Journal.open(base / "ledger", keys=base / "keys", origin="deck.test/x")


def start(journal: Journal) -> asyncio.Future[object]:
    return journal.record(Entry(Op.SESSION_STARTED, 1, run="r", state="fresh"))  # type: ignore[return-value]


async def test_what_was_recorded_is_there_again_after_reopening(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    await start(journal)
    for number in range(1, 51):
        journal.record(
            Entry(
                Op.TASK_ADDED,
                2,
                id=f"T{number}",
                role="coder",
                sender="operator",
                ref="ab",
                path="/b",
            )
        )
        last = journal.record(
            Entry(Op.TASK_MOVED, 3, id=f"T{number}", state=TaskState.TYPED, reason="why")
        )
    await last
    before = journal.state
    journal.close()
    again = opened(tmp_path)
    assert again.state == before
    assert again.size == 102
    again.close()
    assert verify_path(tmp_path / "ledger").exit_code == 0


async def test_an_illegal_change_is_neither_applied_nor_written(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    await start(journal)
    size, state = journal.size, journal.state
    with pytest.raises(IllegalMove):
        journal.record(Entry(Op.TASK_MOVED, 3, id="T1", state=TaskState.LOST))
    await asyncio.sleep(0)
    assert (journal.size, journal.state) == (size, state)
    journal.close()


async def test_a_record_too_large_is_refused_and_the_next_is_written(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    await start(journal)
    with pytest.raises(JournalFailed, match="cannot record this"):
        journal.record(Entry(Op.DENIED, 2, reason="x" * 100_000))
    assert journal.state.denials == 0
    await journal.record(Entry(Op.DENIED, 2, reason="x"))
    assert journal.failure is None
    journal.close()


async def test_both_halves_of_a_gate_are_records_of_its_task(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    await start(journal)
    task = Entry(Op.TASK_ADDED, 2, id="T1", role="coder", ref="0" * 64, state="gated")
    for entry in (
        task,
        Entry(Op.GATE_OPENED, 3, id="G1", task="T1", ref="1" * 64),
        Entry(Op.GATE_DECIDED, 4, id="G1", state="approved", sender="anna"),
    ):
        await journal.record(entry)
    records = list(journal.ledger.records())
    assert {record["type"] for record in records if record.get("task") == "T1"} == {
        "delegate",
        "gate_open",
        "gate_decision",
    }
    assert describe(records[-1]) == "gate G1 approved for T1 by anna"
    signed = {**records[-1], "ext": {**records[-1]["ext"], "sig": "AA=="}}
    assert describe(signed) == "gate G1 approved for T1 with the signature of anna"
    journal.close()


async def test_a_second_deck_cannot_open_the_same_journal(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    with pytest.raises(JournalFailed, match="cannot be opened"):
        opened(tmp_path)
    journal.close()


async def test_after_closing_nothing_is_recorded(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    await start(journal)
    state = journal.state
    journal.close()
    with pytest.raises(JournalFailed, match="cannot be written"):
        journal.record(Entry(Op.FINISHED, 4))
    assert journal.state == state


def test_a_text_is_what_was_committed_or_nothing(tmp_path: Path) -> None:
    store = TextStore(tmp_path / "texts", tmp_path / "keys")
    reference = store.put("a secret plan\ud800")
    assert store.get("") == ""
    assert store.put("a secret plan?") == reference
    fresh = TextStore(tmp_path / "texts", tmp_path / "keys")
    assert fresh.get(reference) == "a secret plan?"
    file = tmp_path / "texts" / reference
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("another plan")
    assert TextStore(tmp_path / "texts", tmp_path / "keys").get(reference) is None
    assert TextStore(tmp_path / "texts", tmp_path / "keys").get("0" * 64) is None


def test_the_digest_of_a_gate_covers_text_brief_and_which_is_which(tmp_path: Path) -> None:
    store = TextStore(tmp_path / "texts", tmp_path / "keys")
    brief = tmp_path / "b.md"
    brief.write_text("do it")
    first = digest(store, "label", str(brief))
    assert digest(store, "label", str(brief)) == first
    assert digest(store, "labe", str(brief)) != first
    brief.write_text("do that")
    assert digest(store, "label", str(brief)) != first
    with pytest.raises(BriefUnreadable):
        digest(store, "label", str(tmp_path / "gone.md"))


# -- a ledger of many segments ---------------------------------------------------------------------


async def long_run(base: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tasks refused at their gates, and a role over its budget, in segments of a few records."""
    monkeypatch.setattr(deck.journal, "SEGMENT_BYTES", 3_000)
    journal = opened(base)
    await start(journal)
    await journal.record(Entry(Op.BUDGET_EXCEEDED, 2, role="coder", digest="$1"))
    for number in range(1, 13):
        at = Entry(Op.TASK_ADDED, 3, id=f"T{number}", role="coder", ref="ab", state="gated")
        await journal.record(at)
        await journal.record(Entry(Op.GATE_OPENED, 4, id=f"G{number}", task=f"T{number}", ref="cd"))
        refusal = Entry(Op.GATE_DECIDED, 5, id=f"G{number}", state="rejected", sender="anna")
        await journal.record(refusal)
    journal.close()
    assert len(list_segments(base / "ledger")) > 5
    return base / "ledger"


async def test_a_long_run_in_many_segments_is_the_same_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await long_run(tmp_path, monkeypatch)
    again = opened(tmp_path)
    assert len(again.state.gates) == 12
    assert {gate.decision for gate in again.state.gates.values()} == {"rejected"}
    assert again.state.exceeded == {"coder": "$1"}
    again.close()
    assert verify_path(ledger).exit_code == 0


async def test_a_refusal_turned_into_an_approval_in_a_sealed_segment_is_no_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await long_run(tmp_path, monkeypatch)
    sealed = list_segments(ledger)[:-1]
    for path in sealed:
        body = path.read_bytes()
        path.chmod(0o600)
        path.write_bytes(body.replace(b'"rejected"', b'"approved"'))
        if path.read_bytes() != body:
            with pytest.raises(JournalFailed, match="was damaged after it was written"):
                opened(tmp_path)
        path.write_bytes(body)
    opened(tmp_path).close()


async def test_any_changed_byte_of_any_segment_is_found_before_the_board_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await long_run(tmp_path, monkeypatch)
    chance = random.Random(41)
    for path in list_segments(ledger)[:-1]:
        body = path.read_bytes()
        path.chmod(0o600)
        for _ in range(4):
            place = chance.randrange(len(body))
            changed = bytes([body[place] ^ 1 << chance.randrange(8)])
            path.write_bytes(body[:place] + changed + body[place + 1 :])
            with pytest.raises(JournalFailed):
                opened(tmp_path)
        path.write_bytes(body[: chance.randrange(len(body))])
        with pytest.raises(JournalFailed):
            opened(tmp_path)
        path.write_bytes(body)
    opened(tmp_path).close()


async def test_a_run_whose_beginning_was_removed_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await long_run(tmp_path, monkeypatch)
    journal = opened(tmp_path)
    await journal.record(Entry(Op.SESSION_STARTED, 6, run="r2", state="fresh"))
    await journal.record(Entry(Op.BUDGET_EXCEEDED, 7, role="tester", digest="$2"))
    journal.close()
    before = list_segments(ledger)
    before[0].unlink()
    # As after a pruning: what is left begins in the middle of a run, and another follows.
    again = opened(tmp_path)
    assert (again.state.run, again.state.exceeded) == ("r2", {"tester": "$2"})
    for _ in range(12):
        await again.record(Entry(Op.BUDGET_EXCEEDED, 8, role="coder", digest="$3"))
    again.close()
    for path in before[1:]:
        path.unlink()
    left = list_segments(ledger)
    assert left
    assert all(seal_path(path).exists() for path in before)
    with pytest.raises(JournalFailed, match="the beginning of the last run"):
        opened(tmp_path)


async def test_a_ledger_of_one_large_segment_is_sealed_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deck.journal, "SEGMENT_BYTES", 1 << 30)
    journal = opened(tmp_path)
    await start(journal)
    for _ in range(20):
        await journal.record(Entry(Op.DENIED, 2, reason="x"))
    journal.close()
    monkeypatch.setattr(deck.journal, "SEGMENT_BYTES", 3_000)
    again = opened(tmp_path)
    await again.record(Entry(Op.DENIED, 3, reason="y"))
    again.close()
    first, _ = list_segments(tmp_path / "ledger")
    assert seal_path(first).exists()
    last = opened(tmp_path)
    assert last.state.denials == 21
    last.close()
