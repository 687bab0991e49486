"""The file of another deck, however it was written: it is taken over whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from deck.entries import Entry, Op
from deck.recall import entries_of
from deck.replay import replay
from deck.session_file import SESSION_FILE, VERSION, BadSessionFile, read_snapshot
from shared.ledger.record import copy_fields

TEXTS = st.text(st.characters(), max_size=20) | st.just("\ud800") | st.just("x" * 5000)
NUMBERS = st.integers(0, 1 << 80) | st.integers(0, 30)
ROWS = st.fixed_dictionaries(
    {
        "k": st.just("delegate"),
        "id": st.integers(1, 5).map(lambda number: f"T{number}"),
        "to": TEXTS,
        "t": TEXTS,
        "f": TEXTS,
        "at": NUMBERS,
        "d": st.booleans(),
        "da": NUMBERS,
    }
)
GATES = st.fixed_dictionaries(
    {
        "cmd": st.fixed_dictionaries({"cmd": st.just("delegate"), "task": TEXTS, "brief": TEXTS}),
        "to": TEXTS,
        "at": NUMBERS,
    }
)


@settings(max_examples=300, deadline=None)
@example([{"k": "delegate", "id": "T1", "at": 1 << 70}], [])
@example([{"k": "delegate", "id": "T1", "at": 1, "to": "\ud800"}], [])
@example([{"k": "delegate", "id": "T1", "at": 1, "f": "x" * 70_000}], [])
@given(st.lists(ROWS, max_size=4), st.lists(GATES, max_size=3))
def test_what_is_read_of_it_can_be_recorded_to_the_end(
    tmp_path_factory: Any, rows: list[Any], gates: list[Any]
) -> None:
    place: Path = tmp_path_factory.mktemp("other")
    document = {
        "version": VERSION,
        "task_seq": len(rows),
        "roster": [],
        "board": rows,
        "gates": gates,
    }
    (place / SESSION_FILE).write_text(json.dumps(document))
    try:
        found = read_snapshot(place)
    except BadSessionFile:
        return
    assert found is not None
    start = Entry(Op.SESSION_STARTED, 1, run="r", state="fresh")
    entries = [start, *entries_of(found, lambda _: "0" * 64)]
    for entry in entries:
        copy_fields({"ext": entry.as_ext()})
    replay(entries)
