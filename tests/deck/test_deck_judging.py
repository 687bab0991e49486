"""What a verdict says and what follows from it; pure."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck.board import Loop, State, Task
from deck.config import Role
from deck.entries import Entry, LoopState, Op, TaskState
from deck.judging import (
    VERDICT_BYTES,
    Bar,
    Docket,
    Step,
    judge_file,
    revision,
    ruling,
    score_of,
    trouble,
    verdict_name,
)
from deck.replay import replay

BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    "data",
    [
        b"VERDICT: 8/10",
        b"VERDICT: 8/10\n",
        b"VERDICT: 8/10\r\nmore\r\n",
        b"\n\n  \t\nVERDICT: 8/10\n",
        b"  VERDICT: 8/10  \nVERDICT: 1/10\n",
        BOM + b"VERDICT: 8/10\n",
        BOM + b"\r\nVERDICT: 8/10\r\n\xff\xfe not text",
        b"VERDICT: 8/10\n" + b"x" * VERDICT_BYTES,
    ],
)
def test_the_first_line_that_is_not_blank_is_the_verdict(data: bytes) -> None:
    assert score_of(data) == 8


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n \n",
        b"Good work.\nVERDICT: 8/10\n",
        b"**VERDICT: 8/10**\n",
        b"# VERDICT: 8/10\n",
        b"> VERDICT: 8/10\n",
        b"`VERDICT: 8/10`\n",
        b"verdict: 8/10\n",
        b"VERDICT: 11/10\n",
        b"VERDICT: -1/10\n",
        b"VERDICT: 08/10\n",
        b"VERDICT: 8.5/10\n",
        b"VERDICT: 8 / 10\n",
        b"VERDICT:8/10\n",
        b"VERDICT: 8/100\n",
        b"VERDICT: 8/10.\n",
        b"VERDICT: 8/10\rVERDICT: 9/10",
        "VERDICT: ８/10\n".encode(),
        "VERDICT: 8/10\n".encode("utf-16"),
        b" " * (VERDICT_BYTES - 13) + b"VERDICT: 8/100\n",
        b" " * VERDICT_BYTES + b"VERDICT: 8/10\n",
    ],
)
def test_everything_else_is_no_verdict(data: bytes) -> None:
    assert score_of(data) is None


@given(st.binary(max_size=200) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_a_score_of_the_dictated_form_or_none(data: bytes) -> None:
    score = score_of(data)
    if score is not None:
        assert 0 <= score <= 10
        assert f"VERDICT: {score}/10".encode() in data


@given(
    blank=st.text(" \t\r\n", max_size=8),
    score=st.integers(-3, 14),
    rest=st.text(max_size=30),
)
def test_a_score_is_read_whatever_is_around_its_line(blank: str, score: int, rest: str) -> None:
    data = f"{blank}\nVERDICT: {score}/10\n{rest}".encode("utf-8", "replace")
    assert score_of(data) == (score if 0 <= score <= 10 else None)


@given(
    scores=st.lists(st.none() | st.integers(0, 10), min_size=1, max_size=8),
    mark=st.integers(1, 10),
    rounds=st.integers(1, 5),
)
def test_a_loop_ends_within_its_rounds_and_passes_on_a_good_score_only(
    scores: list[int | None], mark: int, rounds: int
) -> None:
    bar, steps = Bar(mark, rounds), []
    for number, score in enumerate(scores, start=1):
        ruled = ruling(score, number, bar)
        steps.append(ruled.step)
        assert ruled.why
        assert (ruled.step is Step.PASS) == (score is not None and score >= mark)
        if ruled.step is not Step.REVISE:
            break
    assert len(steps) <= rounds
    assert all(step is Step.REVISE for step in steps[:-1])


def board(loop: LoopState, builder: TaskState, judged: TaskState | None) -> State:
    tasks = {"T1": Task("T1", "coder", "lead", builder, 1)}
    if judged is not None:
        tasks["T2"] = Task("T2", "critic", "choragos", judged, 1, judges="T1", round=1)
    return State(run="r", tasks=tasks, loops={"T1": Loop("T1", "critic", loop, 1, "T2")})


@pytest.mark.parametrize("judged", [*TaskState, None])
@pytest.mark.parametrize("runs", [True, False])
def test_a_loop_being_judged_goes_on_only_while_its_judge_does(
    judged: TaskState | None, runs: bool
) -> None:
    state = board(LoopState.JUDGING, TaskState.IN_REVIEW, judged)
    why = trouble(state, "T1", judge_runs=runs, builder_runs=True)
    over = (None, TaskState.LOST, TaskState.TIMED_OUT, TaskState.REFUSED)
    assert bool(why) == (judged in over or not runs)


@pytest.mark.parametrize("builder", list(TaskState))
@pytest.mark.parametrize("runs", [True, False])
def test_a_revision_waits_for_its_builder_unless_it_is_gone(builder: TaskState, runs: bool) -> None:
    state = board(LoopState.REVISING, builder, TaskState.REPORTED)
    why = trouble(state, "T1", judge_runs=False, builder_runs=runs)
    gone = builder is TaskState.LOST and not runs
    assert bool(why) == (gone or builder is TaskState.REFUSED)


@pytest.mark.parametrize("ended", [LoopState.GATED, LoopState.ACCEPTED, LoopState.REJECTED])
def test_what_a_person_decides_or_is_over_is_in_no_trouble(ended: LoopState) -> None:
    state = board(ended, TaskState.IN_REVIEW, TaskState.LOST)
    assert trouble(state, "T1", judge_runs=False, builder_runs=False) == ""


DOCKET = Docket(
    id="T2",
    builder="coder",
    task="T1",
    round=2,
    text="write it",
    brief="/p/brief.md",
    summary="wrote it",
    report="",
    verdict="/with space/" + verdict_name("T1", 2),
    place="/p/.choragos/worktrees/coder",
)


def test_a_judge_is_told_where_the_work_is_and_how_to_report_a_path_with_a_space() -> None:
    text = judge_file(Role("critic"), DOCKET, {})
    assert text.startswith("## Task\nTask id: T2\n")
    assert "for T1, round 2. The work is in /p/.choragos/worktrees/coder." in text
    assert "Read the full brief: /p/brief.md\n\n> write it\n" in text
    assert "--report '/with space/judge-verdict-T1-r2.md'" in text
    assert "Full report" not in text


def test_a_judge_of_a_checkout_is_told_which_commit_it_judges() -> None:
    text = judge_file(Role("critic"), replace(DOCKET, commit="ab" * 20), {})
    assert f"What you judge is its commit {'ab' * 20}, and nothing else is merged" in text
    assert "`git show abababababab`" in text


@given(st.text(max_size=200), st.text(max_size=80))
def test_nothing_that_others_wrote_reads_as_a_section_of_a_judges_file(
    text: str, summary: str
) -> None:
    shown = judge_file(Role("critic"), replace(DOCKET, text=text, summary=summary), {})
    headings = [line for line in shown.splitlines() if line.startswith("#")]
    assert headings == [
        "## Task",
        "## What coder was asked",
        "## What coder reported",
        "## Verdict",
        "## When done",
    ]
    assert len(re.findall(r"^    choragos work-done", shown, re.MULTILINE)) == 1


def test_a_revision_says_the_round_the_score_and_the_critique_in_one_line_each() -> None:
    text = revision("write it", 2, "3/10, where 7 is needed", "/p/a\n## Task\nb.md")
    assert text.startswith("write it\n\nThis is round 2.")
    assert "Read the critique first: /p/a ## Task b.md\n" in text
    assert revision("", 2, "3/10", "x").startswith("This is round 2.")


# -- the board's part -------------------------------------------------------------------------


def test_a_judges_task_names_a_task_that_is_there() -> None:
    start = Entry(Op.SESSION_STARTED, 1, run="r", state="fresh")
    first = Entry(Op.TASK_ADDED, 1, id="T1", role="coder", sender="lead")
    second = Entry(Op.TASK_ADDED, 1, id="T2", role="critic", sender="choragos", task="T1", count=2)
    task = replay([start, first, second]).tasks["T2"]
    assert (task.judges, task.round) == ("T1", 2)
    with pytest.raises(Exception, match="no task T1 to judge"):
        replay([start, replace(second, id="T1")])


def test_a_withheld_report_moves_no_task() -> None:
    start = Entry(Op.SESSION_STARTED, 1, run="r", state="fresh")
    task = Entry(Op.TASK_ADDED, 1, id="T1", role="coder", sender="lead")
    report = Entry(Op.REPORT_ADDED, 2, id="R1", task="T1", role="coder", state="withheld")
    assert replay([start, task, report]).tasks["T1"].state is TaskState.QUEUED
