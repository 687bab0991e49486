"""The board's state machine: pure, and the replay of its journal whatever happens."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from deck.board import CLOSED_ROWS_SHOWN, State
from deck.entries import Decision, Entry, Op, ReportState, TaskState
from deck.moves import IN_FLIGHT, OPEN, REPORT_MOVES, TASK_MOVES, IllegalMove
from deck.replay import apply, replay

started = Entry(Op.SESSION_STARTED, at=1, run="r1", state="fresh")


def board(*entries: Entry) -> State:
    return replay([started, *entries])


def added(task: str = "T1", role: str = "coder", state: TaskState = TaskState.QUEUED) -> Entry:
    return Entry(Op.TASK_ADDED, at=2, id=task, role=role, sender="orchestrator", state=state)


def moved(state: TaskState, task: str = "T1", at: int = 3) -> Entry:
    return Entry(Op.TASK_MOVED, at=at, id=task, state=state)


def test_a_task_goes_from_queued_to_reported() -> None:
    state = board(
        added(),
        moved(TaskState.TYPED, at=10),
        moved(TaskState.SUBMITTED),
        moved(TaskState.PICKED_UP),
        Entry(Op.REPORT_ADDED, at=20, id="R1", task="T1", role="coder"),
    )
    task = state.tasks["T1"]
    assert (task.state, task.delivered_at, task.closed_at) == (TaskState.REPORTED, 10, 20)
    assert not list(state.open_tasks())


@pytest.mark.parametrize("late", [TaskState.LOST, TaskState.TIMED_OUT])
def test_a_late_report_still_counts(late: TaskState) -> None:
    state = board(added(), moved(TaskState.TYPED), moved(late))
    state = apply(state, Entry(Op.REPORT_ADDED, at=9, id="R1", task="T1", role="coder"))
    assert state.tasks["T1"].state is TaskState.REPORTED


@pytest.mark.parametrize("task", ["", "T9", "nonsense"])
def test_a_report_of_no_known_task_is_a_row_that_resolves_nothing(task: str) -> None:
    state = board(added(), Entry(Op.REPORT_ADDED, at=9, id="R1", task=task, role="coder"))
    assert state.reports["R1"].task == task
    assert state.tasks["T1"].state is TaskState.QUEUED


def test_a_second_report_of_the_same_task_is_kept_and_changes_nothing() -> None:
    report = Entry(Op.REPORT_ADDED, at=9, id="R1", task="T1", role="coder")
    again = Entry(Op.REPORT_ADDED, at=11, id="R2", task="T1", role="coder")
    state = board(added(), moved(TaskState.TYPED), report, again)
    assert list(state.reports) == ["R1", "R2"]
    assert state.tasks["T1"].closed_at == 9


@pytest.mark.parametrize("before", list(TaskState))
@pytest.mark.parametrize("after", list(TaskState))
def test_only_the_moves_of_the_table_are_possible(before: TaskState, after: TaskState) -> None:
    state = board(added())
    task = state.tasks["T1"]
    forced = State(run="r1", tasks={"T1": type(task)(**{**_fields(task), "state": before})})
    if before is TaskState.GATED and after is TaskState.QUEUED:
        with pytest.raises(IllegalMove, match="nothing else releases it"):
            apply(forced, moved(after))
    elif after in TASK_MOVES[before]:
        assert apply(forced, moved(after)).tasks["T1"].state is after
    else:
        with pytest.raises(IllegalMove, match="cannot become"):
            apply(forced, moved(after))


def _fields(value: object) -> dict[str, object]:
    return {name: getattr(value, name) for name in type(value).__slots__}  # type: ignore[attr-defined]


def test_the_tables_cover_every_state() -> None:
    assert set(TASK_MOVES) == set(TaskState)
    assert set(REPORT_MOVES) == set(ReportState)
    assert {TaskState.REPORTED, TaskState.REFUSED, TaskState.LOST}.isdisjoint(OPEN)


def test_a_gate_is_decided_once_and_by_its_id() -> None:
    state = board(
        added(state=TaskState.GATED),
        Entry(Op.GATE_OPENED, at=3, id="G1", task="T1", ref="aa"),
        Entry(Op.GATE_DECIDED, at=4, id="G1", state="approved", sender="operator", reason="fine"),
    )
    assert state.tasks["T1"].state is TaskState.QUEUED
    assert state.gates["G1"].decision is Decision.APPROVED
    with pytest.raises(IllegalMove, match="decided once"):
        apply(state, Entry(Op.GATE_DECIDED, at=5, id="G1", state="rejected", sender="operator"))
    with pytest.raises(IllegalMove, match="no gate G2"):
        apply(state, Entry(Op.GATE_DECIDED, at=5, id="G2", state="approved"))


def test_a_rejected_gate_refuses_the_task() -> None:
    state = board(
        added(state=TaskState.GATED),
        Entry(Op.GATE_OPENED, at=3, id="G1", task="T1", ref="aa"),
        Entry(Op.GATE_DECIDED, at=4, id="G1", state="rejected", sender="operator"),
    )
    assert state.tasks["T1"].state is TaskState.REFUSED


def test_ids_are_never_reused_within_a_run_and_start_again_with_a_fresh_one() -> None:
    state = board(added("T1"), added("T2"))
    with pytest.raises(IllegalMove, match="next task is T3"):
        apply(state, added("T2"))
    resumed = apply(state, Entry(Op.SESSION_STARTED, at=9, run="r2", state="resumed"))
    assert resumed.next_task_id() == "T3"
    assert apply(state, Entry(Op.SESSION_STARTED, at=9, run="r2")).next_task_id() == "T1"


def test_open_rows_never_leave_the_view() -> None:
    entries = [added(f"T{n}") for n in range(1, 500)]
    entries += [moved(TaskState.REFUSED, f"T{n}") for n in range(10, 500)]
    rows = board(*entries).rows()
    assert [task.id for task in rows[:9]] == [f"T{n}" for n in range(1, 10)]
    assert len(rows) == 9 + CLOSED_ROWS_SHOWN


def test_open_gates_never_leave_the_view_and_decided_ones_do_in_the_end() -> None:
    entries = []
    for n in range(1, 300):
        entries.append(added(f"T{n}", state=TaskState.GATED))
        entries.append(Entry(Op.GATE_OPENED, at=3, id=f"G{n}", task=f"T{n}", ref="aa"))
        if n > 5:
            decided = Entry(Op.GATE_DECIDED, at=4, id=f"G{n}", state="rejected", sender="anna")
            entries.append(decided)
    shown = [gate.id for gate in board(*entries).gate_rows()]
    assert shown[:5] == [f"G{n}" for n in range(1, 6)]
    assert shown[5:] == [f"G{n}" for n in range(300 - CLOSED_ROWS_SHOWN, 300)]


texts = st.text(max_size=8)


@given(
    st.builds(
        Entry,
        op=st.sampled_from(Op),
        at=st.integers(0, 2**52),
        id=texts,
        role=texts,
        state=texts,
        reason=texts,
        done=st.booleans(),
        pid=st.integers(0, 2**22),
    )
)
def test_an_entry_survives_the_ledger(entry: Entry) -> None:
    assert Entry.from_ext(json.loads(json.dumps(entry.as_ext()))) == entry


@given(st.dictionaries(st.sampled_from(["op", "at", "id", "x"]), st.integers() | texts))
def test_a_foreign_record_is_no_entry(ext: dict[str, object]) -> None:
    ext["op"] = "fly"
    with pytest.raises(ValueError, match="no journal entry"):
        Entry.from_ext(ext)


class Life(RuleBasedStateMachine):
    """Random work on a board; after every step the journal replays to the same board."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.state = State()
        self.clock = 0

    def do(self, op: Op, **fields: object) -> bool:
        self.clock += 1
        entry = Entry(op, at=self.clock, **fields)  # type: ignore[arg-type]
        try:
            self.state = apply(self.state, entry)
        except IllegalMove:
            return False
        self.entries.append(entry)
        return True

    @initialize()
    def start(self) -> None:
        assert self.do(Op.SESSION_STARTED, run="r", state="fresh")

    @rule(role=st.sampled_from(["coder", "reviewer"]), gated=st.booleans())
    def delegate(self, role: str, gated: bool) -> None:
        state = TaskState.GATED if gated else TaskState.QUEUED
        assert self.do(Op.TASK_ADDED, id=self.state.next_task_id(), role=role, state=state)
        if gated:
            task = f"T{len(self.state.tasks)}"
            assert self.do(Op.GATE_OPENED, id=self.state.next_gate_id(), task=task, ref="aa")

    @precondition(lambda self: self.state.tasks)
    @rule(data=st.data(), after=st.sampled_from(TaskState))
    def move(self, data: st.DataObject, after: TaskState) -> None:
        task = data.draw(st.sampled_from(list(self.state.tasks)))
        before = self.state.tasks[task].state
        released = before is TaskState.GATED and after is TaskState.QUEUED
        allowed = after in TASK_MOVES[before] and not released
        assert self.do(Op.TASK_MOVED, id=task, state=after) == allowed

    @rule(number=st.integers(0, 5))
    def report(self, number: int) -> None:
        assert self.do(Op.REPORT_ADDED, id=self.state.next_report_id(), task=f"T{number}")

    @precondition(lambda self: self.state.gates)
    @rule(data=st.data(), decision=st.sampled_from(Decision))
    def decide(self, data: st.DataObject, decision: Decision) -> None:
        gate = self.state.gates[data.draw(st.sampled_from(list(self.state.gates)))]
        held = self.state.tasks[gate.task].state is TaskState.GATED
        open_gate = gate.decision is Decision.OPEN and held
        done = self.do(Op.GATE_DECIDED, id=gate.id, state=decision, sender="operator")
        assert done == (open_gate and decision is not Decision.OPEN)

    @rule()
    def crash_and_resume(self) -> None:
        for task in list(self.state.in_flight()):
            assert self.do(Op.TASK_MOVED, id=task.id, state=TaskState.LOST)
        assert self.do(Op.SESSION_STARTED, run="r", state="resumed")
        assert not list(self.state.in_flight())

    @invariant()
    def the_board_is_the_replay(self) -> None:
        assert replay(self.entries) == self.state

    @invariant()
    def nothing_typed_lacks_a_clock(self) -> None:
        assert all(t.delivered_at for t in self.state.tasks.values() if t.state in IN_FLIGHT)

    @invariant()
    def no_gated_task_is_ever_typed_without_an_approval(self) -> None:
        for gate in self.state.gates.values():
            task = self.state.tasks[gate.task]
            if gate.decision is not Decision.APPROVED and task.state in IN_FLIGHT:
                raise AssertionError(f"{task.id} was typed without {gate.id}")


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_the_board_knows_the_team_file_and_who_was_in_the_team() -> None:
    state = board(
        Entry(Op.CONFIG_SET, at=2, path="/p/a.toml"),
        Entry(Op.ROLE_STARTED, at=3, role="lead"),
        Entry(Op.ROLE_STARTED, at=3, role="coder"),
        Entry(Op.ROLE_REMOVED, at=4, role="coder"),
        Entry(Op.ROLE_STARTED, at=5, role="tester"),
    )
    assert (state.config, list(state.roster.items())) == (
        "/p/a.toml",
        [("lead", False), ("coder", True), ("tester", False)],
    )
    assert board().roster == {}


def test_a_handover_is_remembered_until_a_run_starts_afresh() -> None:
    resumed = Entry(Op.SESSION_STARTED, at=8, run="r1", state="resumed")
    handed = Entry(Op.HANDOFF_ENDED, at=3, path="/p/b.toml", done=True)
    state = board(handed)
    assert state.handoff is not None
    assert (state.handoff.config, state.handoff.written) == ("/p/b.toml", True)
    state = apply(state, resumed)
    assert (state.handoff, state.handed_over) == (None, True)
    assert apply(state, resumed).handed_over
    assert not apply(state, started).handed_over
    assert not replay([started, Entry(Op.HANDOFF_ENDED, at=3), resumed]).handed_over


def test_a_board_replayed_in_place_is_the_one_made_step_by_step() -> None:
    """Every table and field that an entry can move, over two runs."""
    entries = [
        started,
        Entry(Op.GATEWAY_STARTED, at=2, pid=7, born=9),
        Entry(Op.CONFIG_SET, at=2, path="/p/a.toml", digest="d"),
        Entry(Op.ROLE_STARTED, at=2, role="coder", pid=3, born=4),
        added(),
        added("T2", state=TaskState.GATED),
        Entry(Op.GATE_OPENED, at=3, id="G1", task="T2", ref="aa", count=2),
        Entry(Op.GATE_VOTED, at=4, id="G1", sender="anna"),
        Entry(Op.GATE_DECIDED, at=5, id="G1", state="approved", sender="ben"),
        Entry(Op.OWNED_TAKEN, at=5, id="T1", ref="bb"),
        moved(TaskState.TYPED, at=6),
        Entry(Op.ROLE_PAUSED, at=7, role="coder"),
        Entry(Op.ROLE_RESUMED, at=9, role="coder"),
        Entry(Op.REPORT_ADDED, at=10, id="R1", task="T1", role="coder", state="held"),
        Entry(Op.LOOP_MOVED, at=10, id="T1", state="judging", role="critic"),
        Entry(Op.LOOP_MOVED, at=11, id="T1", state="accepted"),
        Entry(Op.REPORT_MOVED, at=11, id="R1", state="queued"),
        Entry(Op.WORKTREE_COMMITTED, at=12, id="T1", role="coder", state="committed", digest="c"),
        Entry(Op.MERGE_MOVED, at=12, id="T1", state="waiting", digest="c"),
        Entry(Op.BUDGET_EXCEEDED, at=13, role="coder", digest="$1"),
        Entry(Op.BUDGET_REARMED, at=14, role="coder"),
        Entry(Op.USAGE_TAKEN, at=14, reason="{}"),
        Entry(Op.DENIED, at=14),
        Entry(Op.ROLE_EXITED, at=15, role="coder", reason="exit 0"),
        Entry(Op.ROLE_REMOVED, at=15, role="coder"),
        Entry(Op.HANDOFF_ENDED, at=16, path="/p/b.toml", done=True),
        Entry(Op.FINISHED, at=16),
        Entry(Op.SESSION_STOPPED, at=17, run="r1"),
        Entry(Op.SESSION_STARTED, at=18, run="r1", state="resumed"),
        Entry(Op.SESSION_STARTED, at=19, run="r2", state="fresh"),
        Entry(Op.GATEWAY_STOPPED, at=20),
        added(role="tester"),
    ]
    state = State()
    for number, entry in enumerate(entries):
        before, kept = state, copy.deepcopy(state)
        state = apply(state, entry)
        assert before == kept, f"{entry.op} changed a board that others hold"
        replayed = replay(entries[: number + 1])
        assert replayed == state
        assert type(replayed) is State
