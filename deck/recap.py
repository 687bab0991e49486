"""Where a session stands, in the words a start role reads when it begins anew.

Owns the recap of the board (contracts/deck.md section 1.5): what still works, what waits, what is
lost and has to be handed out again. Pure. `deck.briefing` puts it into the orchestrator's context,
`deck.recall` tells people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from deck.board import State, Task
from deck.entries import Decision, LoopState, TaskState
from deck.moves import IN_FLIGHT

#: More ids than this are counted, not named.
RECAP_IDS: Final = 10

_SAID: Final = {
    TaskState.LOST: "lost, their workers are gone; delegate them again",
    TaskState.TIMED_OUT: "out of time, without a report",
    TaskState.QUEUED: "queued, will be handed out",
    TaskState.IN_REVIEW: "reported, being looked at before they count",
    TaskState.GATED: "waiting for an approval",
}


def recap(state: State) -> str:
    """Return the section that tells a start role where the board stands; empty for an empty one."""
    if not state.tasks:
        return ""
    working = [task.id for task in state.tasks.values() if task.state in IN_FLIGHT]
    lines = [f"- in their workers' hands, will be reported: {ids(working)}"] if working else []
    for task_state, words in _SAID.items():
        found = [task.id for task in state.tasks.values() if told_state(state, task) is task_state]
        if found:
            lines.append(f"- {words}: {ids(found)}")
    gates = sum(gate.decision is Decision.OPEN for gate in state.gates.values())
    if gates:
        lines.append(f"- gates that a person has to decide: {gates}")
    lines += [f"- over its budget: {role} ({cap})" for role, cap in state.exceeded.items()]
    done = sum(task.state is TaskState.REPORTED for task in state.tasks.values())
    return "\n".join(["## Where the session stands", *lines, f"- reported: {done}"])


def told_state(state: State, task: Task) -> TaskState | None:
    """What a start role is told a task is. The deck's own tasks are not for it to hand out again,
    nor is one whose judging goes on, or to a person."""
    if task.state is not TaskState.LOST:
        return task.state
    if task.judges:
        return None
    loop = state.loops.get(task.id)
    judged = loop is not None and loop.state is LoopState.REVISING
    return TaskState.IN_REVIEW if judged else TaskState.LOST


def ids(found: Sequence[str]) -> str:
    """Return ids in one line; of many only the first and how many more there are."""
    more = f" and {len(found) - RECAP_IDS} more" if len(found) > RECAP_IDS else ""
    return ", ".join(found[:RECAP_IDS]) + more
