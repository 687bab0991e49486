"""What an earlier session left: its file, the rules of going on, handovers, last screens."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deck_harness import DeckRig, agent_role
from hypothesis import given
from hypothesis import strategies as st

from deck.board import State
from deck.config import Config, Role
from deck.entries import Decision, Entry, GateKind, Op, TaskState
from deck.handoffs import STABLE_SECONDS, Seen, Settling
from deck.recall import entries_of, left_open, objection
from deck.replay import replay
from deck.screens import Screens, file_name
from deck.session_file import BadSessionFile, read_snapshot, snapshot

STARTED = Entry(Op.SESSION_STARTED, 1, run="r")


def texts(reference: str) -> str:
    return f"text of {reference}" if reference else ""


def full_board() -> State:
    def added(number: int, state: TaskState = TaskState.QUEUED) -> Entry:
        return Entry(
            Op.TASK_ADDED, 10 + number, id=f"T{number}", role="coder", ref=f"t{number}",
            path="/p/b.md" if number == 1 else "", state=state,
        )  # fmt: skip

    return replay(
        [
            STARTED,
            Entry(Op.CONFIG_SET, 2, path="/p/.choragos.toml"),
            Entry(Op.ROLE_STARTED, 3, role="lead"),
            Entry(Op.ROLE_STARTED, 3, role="old"),
            Entry(Op.ROLE_REMOVED, 4, role="old"),
            Entry(Op.ROLE_STARTED, 5, role="coder"),
            added(1),
            Entry(Op.TASK_MOVED, 20, id="T1", state=TaskState.TYPED),
            Entry(Op.REPORT_ADDED, 30, id="R1", task="T1", role="coder", ref="r1", done=True),
            added(2),
            Entry(Op.TASK_MOVED, 40, id="T2", state=TaskState.TYPED),
            Entry(Op.TASK_MOVED, 41, id="T2", state=TaskState.TIMED_OUT),
            added(3, TaskState.GATED),
            Entry(Op.GATE_OPENED, 50, id="G1", task="T3", ref="d"),
            Entry(Op.GATE_OPENED, 51, id="G2", state=GateKind.ROSTER, role="new", reason="asked"),
        ]
    )


# -- session.json ------------------------------------------------------------------------------


def test_the_file_has_the_keys_of_the_contract() -> None:
    document = snapshot(full_board(), texts, "lead", "2026-01-02T03:04:05+00:00")
    assert list(document) == [
        "version", "saved", "config_path", "task_seq", "roster", "board", "gates", "layout",
        "handoff",
    ]  # fmt: skip
    assert (document["version"], document["task_seq"], document["handoff"]) == (1, 3, False)
    assert document["config_path"] == "/p/.choragos.toml"
    assert document["roster"] == [
        {"name": "lead", "gone": False}, {"name": "old", "gone": True},
        {"name": "coder", "gone": False},
    ]  # fmt: skip
    first, second, report = document["board"]
    assert set(first) == {"at", "k", "id", "to", "t", "f", "d", "da", "r", "sc", "tm"}
    assert (first["k"], first["at"], first["f"]) == ("delegate", 11_000, "/p/b.md")
    assert (first["d"], first["da"], first["tm"]) == (True, 30_000, False)
    assert (second["id"], second["d"], second["tm"]) == ("T2", False, True)
    assert (report["k"], report["id"], report["to"], report["d"]) == (
        "work-done",
        "T1",
        "lead",
        True,
    )
    entry, roster = document["gates"]
    assert set(entry) == {"cmd", "to", "at", "reason", "report", "mid"}
    assert entry["cmd"]["task"] == "text of t3"
    assert (entry["to"], entry["reason"]) == ("coder", "")
    assert (roster["cmd"]["cmd"], roster["to"], roster["reason"]) == ("roster-add", "new", "asked")


def test_a_handed_over_session_names_the_next_team_file_and_has_no_layout() -> None:
    handed = Entry(Op.HANDOFF_ENDED, 60, path="/p/next.toml", done=True)
    state = replay([STARTED, Entry(Op.CONFIG_SET, 2, path="/p/a.toml"), handed])
    document = snapshot(state, texts, "lead", "")
    assert (document["handoff"], document["config_path"], document["layout"]) == (
        True, "/p/next.toml", "",
    )  # fmt: skip


def test_closed_rows_leave_the_file_and_open_ones_never_do() -> None:
    entries = [STARTED]
    for number in range(1, 301):
        entries.append(Entry(Op.TASK_ADDED, number, id=f"T{number}", role="coder"))
        if number > 1:
            state = TaskState.REPORTED
            entries.append(Entry(Op.TASK_MOVED, number, id=f"T{number}", state=state))
    document = snapshot(replay(entries), texts, "lead", "")
    ids = [row["id"] for row in document["board"]]
    assert len(ids) == 201
    assert (ids[0], ids[1], ids[-1]) == ("T1", "T101", "T300")


def test_what_is_written_is_read_again_as_reported_lost_and_refused_work(tmp_path: Path) -> None:
    document = snapshot(full_board(), texts, "lead", "")
    (tmp_path / "session.json").write_text(json.dumps(document))
    found = read_snapshot(tmp_path)
    assert found is not None
    assert (found.config, found.roles, found.last_task) == (
        "/p/.choragos.toml", ("lead", "coder"), 3,
    )  # fmt: skip
    state = replay([STARTED, *entries_of(found, lambda text: text)])
    assert [(t.id, str(t.state)) for t in state.tasks.values()] == [
        ("T1", "reported"), ("T2", "lost"), ("T3", "refused"), ("T4", "refused"),
    ]  # fmt: skip
    assert state.tasks["T1"].text_ref == "text of t1"
    assert "earlier deck was stopped while coder" in state.tasks["T2"].reason
    assert state.gates["G1"].decision is Decision.VOID
    assert state.next_task_id() == "T5"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{nope", "damaged"),
        ("[]", "damaged"),
        ('{"version": 99}', "of version 99"),
        ('{"version": 1, "task_seq": -1, "roster": []}', "damaged"),
        ('{"version": 1, "task_seq": 1, "roster": [], "board": [{"k": "delegate"}]}', "damaged"),
        ('{"version": 1, "task_seq": 100000000, "roster": []}', "damaged"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "session.json").write_text(text)
    with pytest.raises(BadSessionFile, match=says):
        read_snapshot(tmp_path)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["task_seq", "roster", "board", "gates", "k", "id", "cmd", "at"]),
        inner, max_size=5),
    max_leaves=12,
))  # fmt: skip
def test_no_content_of_the_file_raises_anything_else(
    tmp_path_factory: pytest.TempPathFactory, document: Any
) -> None:
    folder = tmp_path_factory.mktemp("snap")
    if isinstance(document, dict):
        document["version"] = 1
    (folder / "session.json").write_text(json.dumps(document))
    try:
        found = read_snapshot(folder)
    except BadSessionFile:
        return
    assert found is not None
    replay([STARTED, *entries_of(found, lambda text: text)])


# -- the rules of going on ---------------------------------------------------------------------


def team(path: str, *names: str) -> Config:
    return Config(roles=tuple(Role(name) for name in names), path=Path(path) if path else None)


def test_only_the_same_team_file_with_every_role_goes_on() -> None:
    board = full_board()
    assert objection(board, team("/p/.choragos.toml", "lead", "coder", "more")) == ""
    other = objection(board, team("/p/b.toml", "lead", "coder"))
    assert "ran with /p/.choragos.toml, and this is /p/b.toml" in other
    assert "--resume --config /p/.choragos.toml`" in other
    assert "no role 'coder'" in objection(board, team("/p/.choragos.toml", "lead"))
    assert "the built-in team" in objection(board, team("", "lead", "coder"))


def test_after_a_handover_only_its_team_file_goes_on_and_roles_may_be_gone() -> None:
    handed = Entry(Op.HANDOFF_ENDED, 60, path="/p/next.toml", done=True)
    state = replay([STARTED, Entry(Op.ROLE_STARTED, 3, role="lead"), handed])
    assert objection(state, team("/p/next.toml", "boss")) == ""
    assert "handed over to /p/next.toml" in objection(state, team("/p/.choragos.toml", "lead"))


def test_what_a_stopped_session_left_open_is_counted() -> None:
    stopped = Entry(Op.SESSION_STOPPED, 99)
    assert left_open(replay([STARTED, stopped])) == ""
    board = full_board()
    assert left_open(board) == ""
    from deck.replay import apply

    said = left_open(apply(board, stopped))
    assert said == (
        "the last session left 2 unfinished task(s) (T2, T3) and 1 report(s) that nobody has read"
    )


# -- when a document is whole ------------------------------------------------------------------

SECOND = 1_000_000_000


def test_a_document_counts_when_it_is_new_has_text_and_has_come_to_rest() -> None:
    old = Seen(size=5, changed_ns=1 * SECOND, inode=7)
    watch = Settling(old, asked_ns=10 * SECOND)
    assert not watch.is_whole(old, 0.0)
    assert not watch.is_whole(old, 50.0)
    half = Seen(size=3, changed_ns=11 * SECOND, inode=7)
    assert not watch.is_whole(half, 51.0)
    assert not watch.is_whole(half, 52.5)
    more = Seen(size=9, changed_ns=12 * SECOND, inode=7)
    assert not watch.is_whole(more, 52.9)
    assert not watch.is_whole(more, 54.8)
    assert watch.is_whole(more, 52.9 + STABLE_SECONDS)


@pytest.mark.parametrize("seen", [None, Seen(0, 20 * SECOND, 1), Seen(5, 9 * SECOND, 1)])
def test_a_missing_an_empty_and_an_older_document_never_count(seen: Seen | None) -> None:
    watch = Settling(None, asked_ns=10 * SECOND)
    assert not watch.is_whole(seen, 0.0)
    assert not watch.is_whole(seen, 100.0)


# -- last screens ------------------------------------------------------------------------------


class Showing:
    """A seat whose pane shows what the test says."""

    def __init__(self, name: str, *rows: str) -> None:
        self.name, self.alive, self.rows, self.idle_seconds = name, True, list(rows), 0.0
        self.looks = 0
        self.pane = self

    def tail(self, count: int) -> list[str]:
        self.looks += 1
        return self.rows[-count:]


async def test_a_screen_is_kept_while_a_task_is_in_flight_and_then_removed(tmp_path: Path) -> None:
    coder, idle = Showing("coder", "working on it"), Showing("a b", "nothing to do")
    added = [
        Entry(Op.TASK_ADDED, 2, id="T1", role="coder"),
        Entry(Op.TASK_MOVED, 3, id="T1", state=TaskState.TYPED),
    ]
    desk: Any = SimpleNamespace(
        state=replay([STARTED, *added]), seats={"coder": coder, "a b": idle}, state_dir=tmp_path
    )
    screens = Screens(desk)
    await screens.keep()
    path = tmp_path / "screens" / "coder"
    assert (screens.left("coder"), screens.left("a b"), idle.looks) == ("working on it", "", 0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    coder.idle_seconds = 100.0
    await screens.keep()
    assert coder.looks == 1
    coder.idle_seconds, coder.rows = 0.0, ["é" * 100_000]
    await screens.keep()
    assert path.stat().st_size <= 64 * 1024
    desk.state = replay([STARTED, *added, Entry(Op.TASK_MOVED, 4, id="T1", state=TaskState.LOST)])
    await screens.keep()
    assert list(path.parent.iterdir()) == []


def test_roles_that_look_alike_have_screens_of_their_own() -> None:
    assert file_name("coder") == "coder"
    assert len({file_name(name) for name in ("a b", "a-b", "a/b", "..", "ü")}) == 5
    assert not any(
        "/" in file_name(name) or file_name(name).startswith(".") for name in ("..", "/")
    )


# -- the whole deck ----------------------------------------------------------------------------


def kill(rig: DeckRig) -> None:
    pid = rig.pid()
    os.kill(pid, signal.SIGKILL)
    rig.wait(lambda: not Path(f"/proc/{pid}").exists())


def test_after_a_crash_the_lost_work_is_named_has_its_screen_and_goes_again_at_once(
    rig: DeckRig,
) -> None:
    tester = agent_role("tester", "busy", timeout="1s")
    rig.team(agent_role("orchestrator"), agent_role("coder", "busy"), tester)
    rig.serve()
    rig.wait_idle("coder", "tester")
    rig.delegate("coder", "one")
    rig.delegate("tester", "two")
    rig.wait_task("T1", "picked-up")
    rig.wait_task("T2", "timed-out")
    rig.wait((rig.state_dir / "screens" / "tester").exists)
    saved = json.loads((rig.state_dir / "session.json").read_text())
    assert [row["id"] for row in saved["board"]] == ["T1", "T2"]
    kill(rig)
    started = rig.serve()
    assert "note: the last session crashed; this one goes on with its board" in started.stderr
    assert "lost: T1, T2; offer them again with `choragos again --all`" in started.stderr
    row = rig.task("T1")
    assert (row["state"], "fake coder" in row["screen"]) == ("lost", True)
    assert list((rig.state_dir / "screens").iterdir()) == []
    (rig.dir / "rested").touch()
    again = rig.cli("again", "--all")
    assert (again.returncode, again.stdout) == (0, "queued again: T1, T2\n")
    rig.wait_task("T1", "submitted", "picked-up")
    rig.wait_task("T2", "submitted", "picked-up", "timed-out")
    assert rig.cli("again").returncode == 1
    assert rig.cli("again", "--all").stdout == "no task was queued again\n"


def test_a_stopped_session_is_offered_and_resumed_only_with_its_own_team(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder", "busy"))
    nothing = rig.cli("serve", "--detach", "--no-sphragis", "--resume")
    assert (nothing.returncode, "no earlier session here" in nothing.stderr) == (1, True)
    rig.serve()
    rig.wait_idle("coder")
    rig.delegate("coder", "one")
    rig.wait_task("T1", "picked-up")
    rig.cli("kill")
    whole = (rig.dir / ".choragos.toml").read_text()
    rig.team(agent_role("orchestrator"))
    dropped = rig.cli("serve", "--detach", "--no-sphragis", "--resume")
    assert (dropped.returncode, "no role 'coder'" in dropped.stderr) == (1, True)
    (rig.dir / ".choragos.toml").write_text(whole)
    (rig.dir / "other.toml").write_text(whole)
    other = rig.cli("serve", "--detach", "--no-sphragis", "--resume", "--config", "other.toml")
    assert (other.returncode, "The last session ran with" in other.stderr) == (1, True)
    # None of the refusals has ended or begun anything.
    assert "lost: T1" in rig.serve("--no-sphragis", "--resume").stderr
    assert "fake coder" in rig.task("T1")["screen"]
    rig.cli("kill")
    hint = rig.serve().stderr
    assert "the last session left 1 unfinished task(s) (T1); go on with it by" in hint
    assert rig.status()["tasks"] == []


def test_a_handover_waits_for_the_whole_document_and_the_next_team_reads_it(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"), agent_role("tester", approve=True))
    rig.serve()
    rig.wait_idle("orchestrator", "coder")
    rig.delegate("tester", "waits")
    rig.delegate("coder", "works")
    rig.wait_task("T2", "submitted", "picked-up")
    following = rig.dir / "next team.toml"
    following.write_text((rig.dir / ".choragos.toml").read_text())
    missing = rig.cli("handoff", "--config", "nowhere.toml")
    assert (missing.returncode, "no such file" in missing.stderr) == (1, True)
    document = rig.state_dir / "handoff-session.md"
    document.write_text("of an earlier session")
    asked = rig.cli("handoff", "--config", "next team.toml")
    assert asked.returncode == 0, asked.stderr
    how = f"choragos serve --resume --config '{following}'"
    assert how in asked.stdout
    assert "under way already" in rig.cli("handoff").stderr
    rig.wait(lambda: any("Hand this session over" in s for s in rig.seen("orchestrator")))
    document.write_text("half")
    time.sleep(1.0)
    document.write_text("half and the rest")
    assert rig.status()["phase"] == "running"
    rig.wait(lambda: not rig.paths.sidecar.exists(), 20)
    saved = rig.state_dir / "session.json"
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    told = json.loads(saved.read_text())
    assert (told["handoff"], told["config_path"]) == (True, str(following))
    for message in ("handoff requested", "handoff document written", "handoff done"):
        assert f'msg="{message}"' in rig.events()
    log = rig.state_dir / "logs" / "server.log"
    rig.wait(lambda: f"handed over; go on with `{how}`" in log.read_text())

    refused = rig.cli("serve", "--detach", "--no-sphragis", "--resume")
    assert "handed over to" in refused.stderr
    rig.team(agent_role("orchestrator"), agent_role("coder"))
    (rig.dir / ".choragos.toml").rename(following)
    (rig.state_dir / "memory.md").write_text("the tests need a database\n")
    rig.serve("--no-sphragis", "--resume", "--config", str(following))
    assert (rig.task("T1")["state"], rig.task("T2")["state"]) == ("refused", "lost")
    context = (rig.state_dir / "orchestrator-context.md").read_text()
    for pointer in ("delegate them again: T2", "handoff-session.md", "memory.md"):
        assert pointer in context
    assert rig.delegate("coder", "more")["id"] == "T3"
    roster = json.loads(saved.read_text())["roster"]
    assert {"name": "tester", "gone": True} in roster


def test_the_session_of_another_deck_is_taken_over(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"))
    rig.state_dir.mkdir()
    at = 1_700_000_000_000_000_000
    row = {"at": at, "k": "delegate", "to": "coder"}
    document = {
        "version": 1,
        "saved": "2026-01-01T00:00:00Z",
        "config_path": ".choragos.toml",
        "task_seq": 3,
        "roster": [{"name": "orchestrator"}, {"name": "coder"}],
        "board": [
            {**row, "id": "T2", "t": "done work", "d": True, "da": at + 5},
            {**row, "id": "T3", "t": "open work"},
        ],
        "gates": [
            {"cmd": {"cmd": "delegate", "to": ["coder"], "task": "risky"}, "to": "coder", "at": at}
        ],
    }
    (rig.state_dir / "session.json").write_text(json.dumps(document))
    shutil.copytree(rig.dir, rig.dir.with_name("other"))
    started = rig.serve("--no-sphragis", "--resume")
    assert "lost: T3; offer them again" in started.stderr
    board = {t["id"]: (t["state"], t["label"]) for t in rig.status()["tasks"]}
    assert board["T2"] == ("reported", "done work")
    assert board["T3"] == ("lost", "open work")
    assert board["T4"] == ("refused", "risky")
    assert rig.delegate("coder", "new")["id"] == "T5"
    assert rig.cli("again", "T3").returncode == 0
    rig.wait_task("T3", "submitted", "picked-up")
    rig.cli("kill")
    # Whoever begins afresh there is told of it and loses nothing.
    rig.dir = rig.dir.with_name("other")
    told = rig.serve().stderr
    assert "another deck left 1 unfinished task(s) (T3); its file is kept as" in told
    kept = json.loads((rig.state_dir / "session-earlier.json").read_text())
    assert kept == document


def at_a_terminal(rig: DeckRig) -> tuple[subprocess.Popen[bytes], int]:
    """A deck in the foreground of a terminal, as far as its question."""
    leader, follower = pty.openpty()
    deck = subprocess.Popen(
        [sys.executable, "-m", "deck.cli", "serve", "--no-sphragis", "--headless"],
        cwd=rig.dir, env=rig.env, stdin=follower, stdout=subprocess.DEVNULL, stderr=follower,
    )  # fmt: skip
    os.close(follower)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(leader, 1024)
    assert b"unfinished task(s) (T1); go on with it?" in shown
    return deck, leader


def test_at_a_terminal_a_person_is_asked_whether_to_go_on(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"))
    rig.serve()
    rig.delegate("coder", "one")
    rig.cli("kill")
    # Ended at the question, everything is as it was.
    deck, leader = at_a_terminal(rig)
    deck.terminate()
    assert deck.wait(20) == 0
    os.close(leader)
    for answer, tasks in (("y", 1), ("", 0)):
        deck, leader = at_a_terminal(rig)
        os.write(leader, f"{answer}\n".encode())
        rig.wait(lambda: rig.status()["phase"] == "running")
        assert len(rig.status()["tasks"]) == tasks
        deck.terminate()
        assert deck.wait(20) == 0
        os.close(leader)
