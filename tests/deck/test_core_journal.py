"""The journal on a real ledger: state is its replay, and a broken log stops the work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from deck.entries import Entry, Op, TaskState
from deck.gates import BriefUnreadable, digest
from deck.journal import Journal, JournalFailed
from deck.moves import IllegalMove
from deck.texts import TextStore
from shared.ledger import verify_path
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
