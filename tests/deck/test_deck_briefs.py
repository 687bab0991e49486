"""What agents read: who owns what, who begins anew, where a resumed session stands."""

from __future__ import annotations

from pathlib import Path

from deck import briefs
from deck.board import State
from deck.config import Role
from deck.entries import Entry, GateKind, Op, TaskState
from deck.memory import is_remembered
from deck.recap import recap
from deck.replay import replay

LEAD = Role("lead", prompt_template="Lead.", owns_files=("PLAN.md",))
CODER = Role("coder", prompt_template="Code.", owns_files=("src/a b.py", "api.md"))
FRESH = Role("ux review", prompt_template="Look.", fresh=True, approve=True)
OWNERS = briefs.owners_of([LEAD, CODER, FRESH])


def headings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("## ")]


def test_everybody_reads_who_owns_which_file() -> None:
    brief = briefs.worker_brief(CODER, OWNERS)
    assert headings(brief) == ["## File ownership", "## Protocol"]
    assert (
        brief.index("You own") < brief.index("- `src/a b.py`\n") < brief.index("- `PLAN.md`: lead")
    )
    task = briefs.task_file(FRESH, briefs.Assignment("T1", "x"), OWNERS)
    assert headings(task) == ["## File ownership", "## Task", "## When done"]
    assert "You own" not in task
    assert "- `api.md`: coder\n" in task
    assert "- `api.md`: coder\n" in briefs.orchestrator_context(
        LEAD, [CODER], briefs.Standing(owners=OWNERS)
    )


def test_a_team_without_owned_files_reads_nothing_about_them() -> None:
    assert "ownership" not in briefs.worker_brief(Role("coder"), {})


def test_a_role_with_a_checkout_is_told_what_keeps_its_branch_usable() -> None:
    brief = briefs.worker_brief(Role("ux review", worktree=True))
    assert headings(brief) == ["## Protocol", "## Your checkout"]
    assert "on the branch choragos/ux-review." in brief


def test_the_whole_context_has_the_contracts_order() -> None:
    standing = briefs.Standing(
        owners=OWNERS, propose=True, recap="## Recap\nx", handoff=True, memory=True
    )
    text = briefs.orchestrator_context(LEAD, [CODER, FRESH], standing)
    assert headings(text) == [
        "## File ownership", "## Available agents", "## Delegation protocol", "## Fresh agents",
        "## Team changes", "## Important", "## Recap", "## Handover", "## Project memory",
    ]  # fmt: skip
    assert "- ux review: Look. (fresh: starts anew for each task; each task waits" in text
    assert "- ux review: .choragos/handoff-ux-review.md" in text
    assert "choragos roster add --name" in text
    assert ".choragos/handoff-session.md" in text
    assert ".choragos/memory.md" in text


def test_a_fresh_role_is_pointed_at_what_its_last_process_left() -> None:
    assignment = briefs.Assignment("T2", "label", "/p/brief.md", "/p/.choragos/handoff-x.md")
    text = briefs.task_file(FRESH, assignment)
    assert text.index("brief.md\n\nlabel\n\n") < text.index("handoff-x.md") < text.index("## When")


def test_a_role_that_works_elsewhere_gets_whole_paths() -> None:
    assert briefs.task_line("T3", "/p/.choragos") == "Read /p/.choragos/tasks/T3.md for your task."
    assert briefs.boot_line("a-brief.md", "/p/.choragos").startswith(
        "Read /p/.choragos/a-brief.md "
    )


def test_only_a_file_with_something_in_it_is_a_memory(tmp_path: Path) -> None:
    assert not is_remembered(tmp_path)
    (tmp_path / "memory.md").touch()
    assert not is_remembered(tmp_path)
    (tmp_path / "memory.md").write_text("the tests need a database\n")
    assert is_remembered(tmp_path)


def board(*moves: tuple[str, TaskState]) -> State:
    entries = [Entry(Op.SESSION_STARTED, 1, run="r")]
    for number, _ in enumerate(moves, 1):
        entries.append(Entry(Op.TASK_ADDED, 2, id=f"T{number}", role="coder"))
    for number, (_, state) in enumerate(moves, 1):
        if state is not TaskState.QUEUED:
            entries.append(Entry(Op.TASK_MOVED, 3, id=f"T{number}", state=TaskState.TYPED))
            entries.append(Entry(Op.TASK_MOVED, 3, id=f"T{number}", state=state))
    return replay(entries)


def test_a_recap_names_at_most_ten_ids_and_counts_gates_and_finished_work() -> None:
    moves = [("", TaskState.SUBMITTED)] * 12 + [("", TaskState.LOST), ("", TaskState.REPORTED)]
    state = board(*moves)
    assert "T9, T10 and 2 more" in recap(state)
    assert "delegate them again: T13" in recap(state)
    assert recap(state).endswith("- reported: 1")
    assert recap(replay([])) == ""


def test_a_recap_tells_of_open_gates_and_exceeded_budgets() -> None:
    gated = Entry(Op.TASK_ADDED, 2, id="T1", role="coder", state=TaskState.GATED)
    state = replay(
        [
            Entry(Op.SESSION_STARTED, 1, run="r"),
            gated,
            Entry(Op.GATE_OPENED, 3, id="G1", task="T1", ref="x"),
            Entry(Op.GATE_OPENED, 3, id="G2", state=GateKind.ROSTER, ref="y"),
            Entry(Op.BUDGET_EXCEEDED, 4, role="coder", digest="$5.00"),
        ]
    )
    text = recap(state)
    assert "gates that a person has to decide: 2" in text
    assert "over its budget: coder ($5.00)" in text
