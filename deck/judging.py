"""Judging: what a verdict says, what follows from it, and what a judge and a builder are told.

Owns the form of a verdict and the course of a loop (contracts/deck.md section 1.10). Invariants:
only a first line of exactly the dictated form is a score, everything else is none; a loop passes
on a score that reaches the mark and on nothing else; whatever is no score, and whatever happens to
judge or builder, ends in a gate. Pure: `deck.review` reads files, keeps the loops and acts.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from deck import briefs
from deck.board import State
from deck.config import Role
from deck.entries import LoopState, TaskState
from deck.protocol import one_line

#: A longer verdict is read this far (contracts/deck.md section 1.6).
VERDICT_BYTES: Final = 64 << 10
#: Who the deck is as the sender of a judge's task (contracts/deck.md section 1.10).
DECK: Final = "choragos"

_VERDICT: Final = re.compile(r"VERDICT: (10|[0-9])/10")
#: Of a task's text as the judge reads it; a longer one is in the builder's own task file.
_TASK_CHARS: Final = 20_000


class Step(Enum):
    """What a verdict leads to."""

    PASS = auto()
    REVISE = auto()
    GATE = auto()


@dataclass(frozen=True, slots=True)
class Bar:
    """What a role's work has to reach, and in how many rounds at most."""

    score: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Ruling:
    """A step and why, in words for the board."""

    step: Step
    why: str


def score_of(data: bytes) -> int | None:
    """Return the score in the bytes of a verdict file, or None when there is none to be read.

    The first line that is not blank has to be `VERDICT: <0-10>/10`; a byte order mark, blanks
    around the line and any line ending are let pass. Only the first VERDICT_BYTES count, and a
    line that goes on beyond them is none.
    """
    head = data[:VERDICT_BYTES]
    text = head.decode("utf-8-sig", "replace")
    lines = text.split("\n")
    if len(data) > len(head):
        # The last one may go on.
        lines = lines[:-1]
    first = next((line.strip() for line in lines if line.strip()), "")
    found = _VERDICT.fullmatch(first)
    return int(found.group(1)) if found else None


def ruling(score: int | None, round_: int, bar: Bar) -> Ruling:
    """Return what follows from the verdict of a round, counted from 1."""
    if score is None:
        return Ruling(Step.GATE, "the verdict does not begin with a line `VERDICT: <0-10>/10`")
    said = f"{score}/10, where {bar.score} is needed"
    if score >= bar.score:
        return Ruling(Step.PASS, f"{score}/10")
    if round_ < bar.rounds:
        return Ruling(Step.REVISE, said)
    rounds = "1 round" if round_ == 1 else f"{round_} rounds"
    return Ruling(Step.GATE, f"not good enough after {rounds}: {said}")


def trouble(state: State, task_id: str, *, judge_runs: bool, builder_runs: bool) -> str:
    """Return why the loop of a task cannot go on by itself, or "" when it can.

    A judge's task that ran out of time always goes to a person, whatever its role's
    `timeout_action` says.
    """
    loop = state.loops[task_id]
    if loop.state is LoopState.REVISING:
        builder = state.tasks[task_id]
        if builder.state is TaskState.REFUSED:
            return f"{builder.id} was refused"
        gone = builder.state is TaskState.LOST and not builder_runs
        return f"{builder.role} is gone and cannot revise it" if gone else ""
    if loop.state is not LoopState.JUDGING:
        return ""
    judged = state.tasks.get(loop.judge_task)
    if judged is None:
        return f"{loop.judge} was not asked"
    if judged.state is TaskState.TIMED_OUT:
        return f"{loop.judge} gave no verdict in time"
    if judged.state in (TaskState.LOST, TaskState.REFUSED):
        return f"{loop.judge} cannot judge it: {judged.reason or judged.state}"
    return "" if judge_runs else f"{loop.judge} is not running"


def verdict_name(task_id: str, round_: int) -> str:
    """Return the name of the file in which a judge has to write, relative to `.choragos`."""
    return f"judge-verdict-{task_id}-r{round_}.md"


def judge_task_name(judge: str) -> str:
    """Return the name existing judges read: always a copy of the judge's latest task."""
    return f"judge-task-{briefs.safe_name(judge)}.md"


@dataclass(frozen=True, slots=True)
class Docket:
    """What a judge is told: its own task's id, whose work of which task, and where to write."""

    id: str
    builder: str
    task: str
    round: int
    text: str
    brief: str
    summary: str
    report: str
    verdict: str
    #: Where the work is, when not in the project itself, and the commit that would be merged.
    place: str = ""
    commit: str = ""


def judge_file(judge: Role, docket: Docket, owners: briefs.Owners) -> str:
    """Return the text of a judge's task file, in the order of contracts/deck.md section 1.5."""
    where = f" The work is in {docket.place}." if docket.place else ""
    if docket.commit:
        # Its files may be others by then: the role goes on working there.
        where += (
            f"\nWhat you judge is its commit {docket.commit}, and nothing else is merged; files "
            f"there may have\nchanged since. Look at it with `git show {docket.commit[:12]}` or "
            "`git log -p`."
        )
    opening = (
        f"Judge what {docket.builder} did for {docket.task}, round {docket.round}.{where} Look at\n"
        "the work itself, not only at what is said about it. Change nothing: you judge."
    )
    done = (
        f'choragos work-done --id {docket.id} --task "<one line: your verdict>" '
        f"--report {shlex.quote(docket.verdict)}"
    )
    return briefs.join_sections(
        judge.prompt_template,
        briefs.ownership(owners, judge.name),
        f"## Task\nTask id: {docket.id}\n\n{opening}",
        f"## What {docket.builder} was asked\n{_asked(docket)}",
        f"## What {docket.builder} reported\n{_reported(docket)}",
        "## Verdict\n"
        f"Write your verdict to this file: {docket.verdict}\n\n"
        "Its first line is this and nothing else, with a whole number from 0 to 10:\n\n"
        "    VERDICT: <number>/10\n\n"
        "Nothing stands around that line: no heading, no emphasis, no quotes. Below it write what\n"
        f"is wrong and what has to change; {docket.builder} reads that next.",
        "## When done\nRun this command exactly once, after the file is written:\n\n    " + done,
    )


def revision(text: str, round_: int, score: str, critique: str) -> str:
    """Return a task's text with what its builder is told about the round to come."""
    told = (
        f"This is round {round_}. A judge read your last work and did not accept it ({score}).\n"
        f"Read the critique first: {one_line(critique, 4096)}\n"
        "Then change what it asks for, and report again with the command below."
    )
    return f"{text}\n\n{told}" if text.strip() else told


def _asked(docket: Docket) -> str:
    text = docket.text.strip()
    if len(text) > _TASK_CHARS:
        text = (
            text[:_TASK_CHARS] + f"\n… (the rest is in .choragos/{briefs.task_name(docket.task)})"
        )
    parts = [f"Read the full brief: {docket.brief}"] if docket.brief else []
    return "\n\n".join([*parts, *([_quoted(text)] if text else [])])


def _reported(docket: Docket) -> str:
    parts = [_quoted(one_line(docket.summary))] if docket.summary.strip() else []
    if docket.report:
        parts.append(f"Full report: read {one_line(docket.report, 4096)}")
    return "\n\n".join(parts) or "Nothing."


def _quoted(text: str) -> str:
    """What others wrote is quoted, so that no line of it reads as a section of this file."""
    return "\n".join(f"> {line}" for line in text.splitlines())
