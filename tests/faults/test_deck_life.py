"""A day of a team, compressed: nothing accepted is lost, nothing happens twice, memory stays flat.

A few dozen delegations in the suite; `make life` runs 5,000 (LIFE_DELEGATIONS, LIFE_SEED).
"""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter, defaultdict
from typing import Any

from deck_harness import DeckRig
from deck_life import Life

from deck.board import State
from deck.entries import Entry, Op, ReportState, TaskState
from deck.journal import entries_of
from deck.replay import replay
from deck.texts import TextStore
from shared.ledger import verify_path
from shared.paths import private_dir, state_dir

TOTAL = int(os.environ.get("LIFE_DELEGATIONS", "20"))
SEED = int(os.environ.get("LIFE_SEED", "20"))
WORKERS = 20 if TOTAL >= 500 else 6
#: The deck at the end beside itself when it had warmed up, the last fifth of the life before.
MEMORY_RATIO = 1.15
#: Descriptors that come and go: a connection, a client of the gateway, a file being written.
FDS_MORE = 6
#: How long reports may take to reach the lead, who reads one after the other.
READING_SECONDS = 1.0 if TOTAL < 500 else 120.0

LINES = re.compile(
    r"Read \.choragos/tasks/T\d+\.md for your task\."
    r"|Read \.choragos/\S+\.md for your role and how this team works\."
    r"|\[choragos\] [^\[]*"
    r"|A worker reports: T\d+ done by w?\w+ \d+ \d+(?: \((?:again|no id)\))?"
    r"(?: Full report: read \S+)?"
    r"|A worker reports: not mine"
)


def test_a_day_of_work_and_misfortune_loses_nothing(rig: DeckRig) -> None:
    life = Life(rig, TOTAL, WORKERS, random.Random(SEED))
    try:
        life.begin()
        life.live()
        life.settle(90.0 + TOTAL / 10)
        rig.wait(lambda: not life.zombies(), 15)
        reading = _reports_read(rig)
        board = rig.status()
    finally:
        life.kill_gateway()
    entries = _entries(rig)
    state = replay(entries)
    _show(life, state, reading)
    _the_board_holds_what_was_accepted(life, state, _texts(rig))
    _only_who_was_really_away_was_refused_work(life)
    _what_agents_were_told_is_true(life, state, _texts(rig))
    _no_line_was_merged_or_repeated(life, entries)
    _each_role_took_its_work_in_order(entries)
    _it_shows_what_the_journal_says(board, state)
    assert life.warm is not None
    assert life.last is not None
    assert life.last.rss <= life.warm.rss * MEMORY_RATIO
    assert life.last.fds <= life.warm.fds + FDS_MORE
    assert rig.cli("kill").returncode == 0
    assert rig.marked() == []
    assert verify_path(rig.state_dir / "ledger").exit_code == 0
    assert not (rig.state_dir / "logs" / "crash.log").exists()


def _reports_read(rig: DeckRig) -> bool:
    """Give the lead time to read; then it leaves, and what it has not read is kept for all to see.
    Tells whether it had read everything."""
    try:
        rig.wait(lambda: not _unread(rig), READING_SECONDS)
        return True
    except AssertionError:
        (rig.dir / "enough").touch()
        rig.wait(lambda: not _unread(rig), 120)
        return False


def _unread(rig: DeckRig) -> bool:
    lead = rig.role("lead")
    return bool(lead["waiting"]) or any(
        report["state"] in ("queued", "typed") for report in rig.status()["reports"]
    )


def _entries(rig: DeckRig) -> list[Entry]:
    records: list[dict[str, Any]] = []
    for path in sorted((rig.state_dir / "ledger" / "segments").glob("*.jsonl")):
        records += [json.loads(line) for line in path.read_bytes().splitlines()]
    return list(entries_of(iter(records)))


def _texts(rig: DeckRig) -> TextStore:
    keys = private_dir(state_dir("choragos", rig.env) / "keys" / rig.paths.id)
    return TextStore(rig.state_dir / "texts", keys)


def _the_board_holds_what_was_accepted(life: Life, state: State, texts: TextStore) -> None:
    assert life.reused == []
    assert list(state.tasks) == [f"T{n + 1}" for n in range(len(state.tasks))]
    labels = Counter(texts.get(task.text_ref) for task in state.tasks.values())
    for task_id, label in life.accepted.items():
        task = state.tasks[task_id]
        assert texts.get(task.text_ref) == label
        assert task.state in (TaskState.REPORTED, TaskState.REFUSED), task
        assert task.state is TaskState.REPORTED or task.reason, task
    # Several targets of one command share a text; what was asked once is there once for each.
    told = Counter(life.accepted.values())
    assert all(labels[label] == count for label, count in told.items())
    assert all(set(life.unknown) | set(told) >= {label} for label in labels)


def _only_who_was_really_away_was_refused_work(life: Life) -> None:
    mortal = life.names[-1]
    assert set(life.refused) <= {"the gateway is not ready", f"{mortal} has exited"}


def _what_agents_were_told_is_true(life: Life, state: State, texts: TextStore) -> None:
    lead: Counter[str] = Counter()
    acked: set[str] = set()
    for role, line in life.said():
        if "acked" in line:
            report = state.reports[line["acked"]]
            assert line["acked"] not in acked
            acked.add(line["acked"])
            assert (report.task, report.role) == (line["task"], role)
            assert texts.get(report.text_ref) == line["text"]
            assert report.path == line.get("report", "")
        elif "stranger" in line and line["stranger"] != "T0" and line["ack"]:
            assert line["ack"]["status"] == "error", line
        elif "line" in line and role == "lead":
            lead[line["line"]] += 1
    for report in state.reports.values():
        assert report.state in (ReportState.DELIVERED, ReportState.KEPT), report
        text = texts.get(report.text_ref) or ""
        if report.state is ReportState.DELIVERED and not report.reason and report.role != "lead":
            seen = [line for line in lead if line.startswith(f"A worker reports: {text}")]
            assert seen, report


def _no_line_was_merged_or_repeated(life: Life, entries: list[Entry]) -> None:
    typed = Counter(e.id for e in entries if e.op is Op.TASK_MOVED and e.state == TaskState.TYPED)
    took: Counter[str] = Counter()
    for _, line in life.said():
        if "line" in line:
            assert LINES.fullmatch(line["line"]), line["line"]
        if "took" in line:
            took[line["took"]] += 1
    assert all(count <= typed[task] for task, count in took.items())


def _each_role_took_its_work_in_order(entries: list[Entry]) -> None:
    first: dict[str, list[int]] = defaultdict(list)
    seen: set[str] = set()
    for entry in entries:
        if entry.op is not Op.TASK_MOVED or entry.id in seen:
            continue
        if entry.state == TaskState.LOST:
            # Its role ended before its turn came; whoever offers it again decides when.
            seen.add(entry.id)
        elif entry.state == TaskState.TYPED:
            seen.add(entry.id)
            if entry.role != "signed":  # in the order of the approvals
                first[entry.role].append(int(entry.id[1:]))
    assert all(ids == sorted(ids) for ids in first.values())


def _it_shows_what_the_journal_says(board: dict[str, Any], state: State) -> None:
    shown = {row["id"]: row["state"] for row in board["tasks"]}
    assert shown == {task.id: str(task.state) for task in state.rows()}
    for row in board["reports"]:
        assert row["state"] == str(state.reports[row["id"]].state)


def _show(life: Life, state: State, read: bool) -> None:
    states = Counter(str(task.state) for task in state.tasks.values())
    reports = Counter(str(report.state) for report in state.reports.values())
    tries = Counter(task.tries for task in state.tasks.values())
    print(
        f"\nseed {SEED}: asked {life.asked}, accepted {len(life.accepted)}, no ack "
        f"{len(life.unknown)}, refused {dict(life.refused)}\nhappened {dict(life.happened)}\n"
        f"tasks {dict(states)}, tries {dict(tries)}\nreports {dict(reports)}, all read: {read}\n"
        f"warm {life.warm}\nend  {life.last}"
    )
