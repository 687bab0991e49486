"""Worktrees and merges in a session without panes: real git, journal, gates and checkpoints."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from git_tools import git
from hypothesis import given
from hypothesis import strategies as st
from review_bench import Bench, Branches

from deck import merges
from deck.agents import adapter_for
from deck.board import Commit, Gate, Landing
from deck.config import Config, Home, Merge, Role, SphragisConfig
from deck.entries import CommitState, Decision, GateKind, MergeState, TaskState
from deck.gateway import Gateway
from deck.mergeable import ahead, beneath
from deck.merging import Merging
from deck.protocol import Verb
from deck.roster import Credential, Surroundings, environment, seating
from deck.sessions import SessionError
from deck.snapshots import Snapshots
from deck.undoing import MergedAlready, choose

pytestmark = pytest.mark.usefixtures("own_git_settings")

LEAD = Role(name="lead", command="sh", start=True)
CODER = Role(name="coder", command="sh", worktree=True, merge=Merge.AUTO)
OTHER = Role(name="tester", command="sh", worktree=True, merge=Merge.AUTO)


class Stand:
    """What the review is given before there is a `Merging`, and passes everything on to it."""

    def __init__(self) -> None:
        self.real: Merging | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


@dataclass
class Yard:
    """A project in git with a team that works in worktrees."""

    bench: Bench
    merging: Merging
    snapshots: Snapshots

    @classmethod
    async def over(cls, bench: Bench) -> Yard:
        bench.desk.environ = {**bench.environ, **_environ()}
        snapshots = Snapshots(bench.desk)
        merging = Merging(bench.desk, bench.keeper, snapshots)
        cast(Any, bench.branches).real = merging
        cast(Any, bench.work).snapshots = snapshots
        bench.keeper.serve(GateKind.MERGE, merging.rules())
        await snapshots.start()
        await merging.prepare(bench.config)
        return cls(bench, merging, snapshots)

    @property
    def top(self) -> Path:
        return self.bench.directory

    def side(self, role: str = "coder") -> Path:
        return self.top / ".choragos" / "worktrees" / role

    def head(self, where: Path | None = None) -> str:
        return git(where or self.top, "rev-parse", "HEAD").strip()

    async def begin(self, role: str = "coder") -> str:
        task_id = await self.bench.delegate(role)
        task_id, ready = self.bench.chairs[role].tasks.pop(0)
        if ready is not None:
            await ready
        task = self.bench.task(task_id)
        await self.merging.before(task)
        await self.snapshots.before(task)
        for state in (TaskState.TYPED, TaskState.SUBMITTED, TaskState.PICKED_UP):
            await self.bench.desk.move(self.bench.task(task_id), state)
        return task_id

    async def do(self, role: str = "coder", **files: str) -> str:
        """Let a role do a task: it writes files and reports."""
        task_id = await self.begin(role)
        for name, text in files.items():
            (self.side(role) / f"{name}.txt").write_text(text)
        await self.bench.report(role, task_id, f"did {task_id}")
        return task_id

    def state(self, task_id: str) -> MergeState:
        return self.bench.state.landings[task_id].state

    def reason(self, task_id: str) -> str:
        return self.bench.state.landings[task_id].reason

    def gate(self) -> Gate:
        return self.bench.the_gate()

    def save(self, name: str, text: str = "by the user\n") -> str:
        (self.top / name).write_text(text)
        git(self.top, "add", name)
        git(self.top, "commit", "-qm", name)
        return self.head()

    async def crashed(self) -> Yard:
        self.merging.close()
        return await Yard.over(await self.bench.reopened())

    async def resumed(self) -> Yard:
        again = await self.crashed()
        await again.bench.resume()
        await again.merging.resume()
        await again.bench.settle()
        return again

    def notices(self) -> str:
        return "\n".join(self.bench.chairs["lead"].notices)

    def events(self, *names: str) -> list[str]:
        return [name for name in names if self.bench.events(name)]


def _environ() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k == "PATH" or k.startswith("GIT_CONFIG")}


Opener = Callable[..., Awaitable[Yard]]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opener]:
    yards: list[Yard] = []

    async def open_yard(*roles: Role) -> Yard:
        project = tmp_path / "project"
        project.mkdir()
        git(project, "init", "-q")
        (project / "kept.txt").write_text("kept\n")
        (project / "owned.txt").write_text("owned\n")
        git(project, "add", "-A")
        git(project, "commit", "-qm", "first")
        team = (LEAD, *(roles or (CODER,)))
        yards.append(await Yard.over(await Bench.open(tmp_path, team, cast(Branches, Stand()))))
        return yards[0]

    yield open_yard
    for yard in yards:
        yard.merging.close()
        await yard.bench.close()


# -- preparing ----------------------------------------------------------------------------------


async def test_a_team_that_needs_worktrees_does_not_start_without_a_repository(
    tmp_path: Path,
) -> None:
    bench = await Bench.open(tmp_path, (LEAD, CODER))
    merging = Merging(bench.desk, bench.keeper, Snapshots(bench.desk))
    with pytest.raises(SessionError, match="run `git init` there and commit"):
        await merging.prepare(bench.config)
    twins = Config((LEAD, CODER, replace(CODER, name="Coder")))
    with pytest.raises(SessionError, match="would share the worktree"):
        await merging.prepare(twins)
    await merging.prepare(Config((LEAD,)))
    assert merging.place(CODER) is None
    await bench.close()


async def test_preparing_says_where_each_role_works_and_can_be_done_again(opened: Opener) -> None:
    yard = await opened(CODER, Role(name="plain", command="sh"))
    assert yard.merging.place(CODER) == yard.side()
    assert yard.merging.place(Role(name="plain", command="sh")) is None
    config = replace(yard.bench.config, roles=(*yard.bench.config.roles, OTHER))
    await yard.merging.prepare(config)
    assert yard.merging.place(OTHER) == yard.side("tester")
    assert len(yard.bench.events("worktree ready")) == 2


def test_a_program_is_told_to_trust_the_checkout_it_works_in(tmp_path: Path) -> None:
    around = Surroundings(
        session="s",
        socket="sock",
        environ={"PATH": "/bin", "PWD": str(tmp_path)},
        gateway=Gateway(SphragisConfig(enabled=False), log=tmp_path / "log"),
        directory=tmp_path,
        place=lambda role: tmp_path / "side" if role.worktree else None,
    )
    claude = replace(CODER, command="claude", home=Home.OWN)
    seat = seating(claude, around)
    assert seat.project == tmp_path / "side"
    assert str(tmp_path / "side") in "".join(adapter_for("claude").first_run(seat).values())
    assert environment(claude, Credential(), around)["PWD"] == str(tmp_path / "side")
    assert seating(LEAD, around).project == tmp_path


# -- the modes ----------------------------------------------------------------------------------


async def test_auto_merges_accepted_work_after_a_checkpoint(opened: Opener) -> None:
    yard = await opened()
    task = await yard.do(a="by coder\n")
    assert (yard.top / "a.txt").read_text() == "by coder\n"
    assert yard.state(task) is MergeState.MERGED
    shown = git(yard.top, "show", "-s", "--format=%s|%an", "HEAD", "HEAD^2").split("\n")
    assert shown[0] == "choragos: merge coder (T1)|choragos"
    assert shown[1] == "choragos: T1 did T1|choragos"
    refs = git(yard.top, "for-each-ref", "--format=%(refname)", "refs/choragos").split()
    assert [ref.split("-", 1)[1] for ref in sorted(refs)][-2:] == ["T1-merge", "T1-merge-done"]
    assert yard.events("worktree commit", "merged", "merge gate") == ["worktree commit", "merged"]


async def test_the_next_task_begins_from_the_present_main_tree(opened: Opener) -> None:
    yard = await opened()
    await yard.do(a="a")
    head = yard.save("user.txt")
    await yard.begin()
    assert yard.head(yard.side()) == head
    assert (yard.side() / "user.txt").exists()


async def test_a_task_handed_out_again_goes_on_from_where_it_was(opened: Opener) -> None:
    yard = await opened()
    task = await yard.begin()
    before = yard.head(yard.side())
    yard.save("user.txt")
    await yard.merging.before(yard.bench.task(task))
    assert yard.head(yard.side()) == before


async def test_the_next_task_waits_until_the_work_before_it_is_committed(opened: Opener) -> None:
    yard = await opened()
    first = await yard.begin()
    second = await yard.bench.delegate("coder")
    async with yard.merging.turn("coder"):  # the commit waits
        report = asyncio.ensure_future(yard.bench.report("coder", first))
        while yard.bench.task(first).state is not TaskState.IN_REVIEW:
            await asyncio.sleep(0.01)
        ready = asyncio.ensure_future(yard.merging.before(yard.bench.task(second)))
        await asyncio.sleep(0.3)
        assert not ready.done()
    await asyncio.gather(report, ready)
    assert yard.bench.state.commits[0].task == first


async def test_nothing_to_merge_is_said(opened: Opener) -> None:
    yard = await opened()
    task = await yard.do()
    assert (yard.state(task), yard.reason(task)) == (MergeState.SKIPPED, "nothing to merge")
    assert yard.events("worktree clean", "merge skipped") == ["worktree clean", "merge skipped"]


async def test_manual_leaves_the_branch_and_names_the_command(opened: Opener) -> None:
    yard = await opened(replace(CODER, merge=Merge.MANUAL))
    task = await yard.do(a="a")
    assert yard.state(task) is MergeState.SKIPPED
    assert "git merge --no-ff choragos/coder" in yard.reason(task)
    assert not (yard.top / "a.txt").exists()


async def test_a_gate_shows_the_diff_and_an_approval_merges_it(opened: Opener) -> None:
    yard = await opened(replace(CODER, merge=Merge.GATE))
    task = await yard.do(a="by coder\n")
    gate = yard.gate()
    assert (gate.kind, gate.task, gate.role) == (GateKind.MERGE, task, "coder")
    assert yard.state(task) is MergeState.GATED
    assert "+by coder" in yard.bench.shown(gate)
    assert gate.path == str(yard.top / ".choragos" / "merge-coder.diff")
    assert gate.path in yard.bench.shown(gate)
    shown = Path(gate.path).read_bytes()
    assert b"+by coder" in shown
    assert await yard.bench.keeper.misfit(gate, shown) == ""
    assert "is not what the gate" in await yard.bench.keeper.misfit(gate, shown + b"+more\n")
    yard.save("unrelated.txt")
    assert await yard.bench.decide(gate) == "approved"
    assert yard.state(task) is MergeState.MERGED
    assert (yard.top / "a.txt").exists()
    assert "T1 of coder was merged after G1" in yard.notices()


async def test_a_rejection_keeps_the_branch_and_later_work_on_it_needs_a_person(
    opened: Opener,
) -> None:
    yard = await opened(replace(CODER, merge=Merge.GATE))
    first = await yard.do(a="a")
    await yard.bench.decide(yard.gate(), Verb.REJECT, "not like this")
    assert yard.state(first) is MergeState.REJECTED
    assert "not like this. Its branch choragos/coder is kept" in yard.notices()
    yard.bench.desk.config = replace(yard.bench.config, roles=(LEAD, CODER))
    second = await yard.do(b="b")
    assert yard.state(second) is MergeState.GATED
    assert "it also brings T1, which was not accepted" in yard.gate().why


async def test_a_rewritten_branch_voids_the_approval(opened: Opener) -> None:
    yard = await opened(replace(CODER, merge=Merge.GATE))
    task = await yard.do(a="a")
    (yard.side() / "a.txt").write_text("something else")
    git(yard.side(), "commit", "-qam", "x", "--amend")
    said = await yard.bench.decide(yard.gate())
    assert "was rewritten after this work was accepted" in said
    assert yard.state(task) is MergeState.FAILED
    assert not (yard.top / "a.txt").exists()
    assert "T1 of coder is not merged" in yard.notices()


async def test_a_main_tree_that_changes_the_diff_voids_the_approval_and_asks_again(
    opened: Opener,
) -> None:
    yard = await opened(replace(CODER, merge=Merge.GATE))
    await yard.do(a="a")
    await yard.bench.decide(yard.gate(), Verb.REJECT)
    task = await yard.do(b="b")
    assert "a.txt" in yard.bench.shown(yard.gate())
    git(yard.top, "merge", "-q", "--no-ff", "choragos/coder^")
    said = await yard.bench.decide(yard.gate())
    assert said == "G2 is void: what it is about was changed since the gate opened"
    gate = yard.gate()
    assert gate.why == "it was changed since G2 opened"
    assert "a.txt" not in yard.bench.shown(gate)
    await yard.bench.decide(gate)
    assert yard.state(task) is MergeState.MERGED


async def test_a_main_tree_on_another_branch_is_asked_about_and_voids_an_approval(
    opened: Opener,
) -> None:
    yard = await opened()
    git(yard.top, "switch", "-qc", "release")
    task = await yard.do(a="a")
    gate = yard.gate()
    assert gate.why == "the main tree is on release now, and was on main"
    assert "Merge T1 of coder into release" in yard.bench.shown(gate)
    git(yard.top, "switch", "-q", "main")
    assert "was changed since the gate opened" in await yard.bench.decide(gate)
    assert "into main" in yard.bench.shown(yard.gate())
    await yard.bench.decide(yard.gate())
    assert yard.state(task) is MergeState.MERGED
    assert git(yard.top, "log", "-1", "--format=%s", "release") == "first\n"


# -- what goes to a person whatever the mode ----------------------------------------------------


async def test_work_on_another_roles_file_goes_to_a_person(opened: Opener) -> None:
    owner = Role(name="owner", command="sh", owns_files=("owned.txt", "ünï \t.txt"))
    yard = await opened(CODER, owner)
    yard.bench.chairs["owner"].role = Role(name="owner", command="sh")
    task = await yard.do(**{"owned": "mine now", "ünï \t": "x"})
    assert yard.state(task) is MergeState.GATED
    assert "it changes files of other roles: owned.txt (owner), " in yard.gate().why
    assert "xfc" in yard.gate().why or "ünï" in yard.gate().why
    await yard.bench.decide(yard.gate())
    assert (yard.top / "owned.txt").read_text() == "mine now"


async def test_changes_in_the_main_tree_go_to_a_person_who_may_try_again(opened: Opener) -> None:
    yard = await opened()
    (yard.top / "kept.txt").write_text("half done")
    task = await yard.do(a="a")
    gate = yard.gate()
    assert "changes that are not committed: kept.txt" in gate.why
    await yard.bench.decide(gate)
    assert yard.state(task) is MergeState.FAILED
    assert "Its branch choragos/coder is kept" in yard.notices()
    assert (yard.top / "kept.txt").read_text() == "half done"
    assert yard.bench.state.gates[gate.id].decision is Decision.APPROVED


async def test_conflicts_are_listed_and_the_main_tree_is_as_it_was(opened: Opener) -> None:
    yard = await opened()
    task = await yard.begin()
    (yard.side() / "kept.txt").write_text("by coder")
    head = yard.save("kept.txt")
    await yard.bench.report("coder", task)
    assert "conflicts with the main tree in kept.txt" in yard.gate().why
    assert (yard.head(), git(yard.top, "status", "--porcelain", "-uno")) == (head, "")


async def test_a_hook_that_fails_stops_the_review_until_it_passes(opened: Opener) -> None:
    yard = await opened()
    hook = yard.top / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho lint is bad\nexit 1\n")
    hook.chmod(0o755)
    task = await yard.do(a="a")
    assert "lint is bad" in yard.gate().why
    assert yard.bench.task(task).state is TaskState.IN_REVIEW
    assert yard.bench.chairs["lead"].reports == []
    hook.unlink()
    await yard.bench.decide(yard.gate())
    assert yard.state(task) is MergeState.MERGED
    assert (yard.top / "a.txt").exists()


async def test_accepted_although_a_hook_fails_again_is_told_as_not_merged(opened: Opener) -> None:
    yard = await opened()
    hook = yard.top / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho lint is bad\nexit 1\n")
    hook.chmod(0o755)
    task = await yard.do(a="a")
    await yard.bench.decide(yard.gate())
    assert yard.state(task) is MergeState.FAILED
    assert "lint is bad" in yard.notices()
    assert (yard.side() / "a.txt").exists()


# -- several at once ----------------------------------------------------------------------------


async def test_one_roles_merges_wait_for_each_other_and_others_do_not(opened: Opener) -> None:
    yard = await opened(replace(CODER, merge=Merge.GATE), OTHER)
    first = await yard.do(a="a")
    second = await yard.begin()
    (yard.side() / "b.txt").write_text("b")
    report = asyncio.ensure_future(yard.bench.report("coder", second))
    while second not in yard.bench.state.landings:
        await asyncio.sleep(0.02)
    while not yard.reason(second):
        await asyncio.sleep(0.02)
    assert yard.reason(second) == "waits for the merge of T1"
    gate = yard.gate()
    command = asyncio.ensure_future(yard.bench.decide(gate))
    await asyncio.gather(report, command)
    assert yard.state(first) is MergeState.MERGED
    assert yard.state(second) is MergeState.GATED
    assert "+b" in yard.bench.shown(yard.gate())
    assert "a.txt" not in yard.bench.shown(yard.gate())
    third = await yard.do("tester", c="c")
    assert yard.state(third) is MergeState.MERGED


def _state(*commits: Commit, **tasks: TaskState) -> Any:
    from deck.board import State, Task

    board = {name: Task(name, "coder", "lead", state, 1) for name, state in tasks.items()}
    return State(tasks=board, commits=commits)


def test_what_lies_beneath_a_commit_is_the_work_of_others_before_it() -> None:
    made, clean, failed = CommitState.MADE, CommitState.CLEAN, CommitState.FAILED
    state = _state(
        Commit("T1", "coder", made, "c1"),
        Commit("T2", "coder", clean, "c1"),
        Commit("T3", "coder", failed),
        Commit("T9", "tester", made, "x1"),
        Commit("T4", "coder", made, "c4"),
        Commit("T5", "coder", made, "c5"),
        T1=TaskState.REPORTED,
        T2=TaskState.REPORTED,
        T3=TaskState.REFUSED,
        T4=TaskState.REPORTED,
        T5=TaskState.IN_REVIEW,
    )
    under = [(one.task, one.head) for one in beneath(state, state.tasks["T4"])]
    assert under == [("T1", "c1"), ("T3", "c4")]
    assert ahead(state, state.tasks["T4"]) == ""
    going = _state(*state.commits, **{name: t.state for name, t in state.tasks.items()})
    going.tasks["T1"] = replace(going.tasks["T1"], state=TaskState.QUEUED)
    assert ahead(going, going.tasks["T4"]) == "waits for T1, which is queued"


@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.sampled_from(list(CommitState)), st.integers(0, 9)),
        max_size=12,
    )
)
def test_accepted_work_never_waits_in_a_circle(rows: list[tuple[int, CommitState, int]]) -> None:
    commits = tuple(
        Commit(f"T{task}", "coder", state, "" if state is CommitState.FAILED else f"c{head}")
        for task, state, head in rows
    )
    names = {one.task for one in commits}
    state = _state(*commits, **dict.fromkeys(names, TaskState.REPORTED))
    waiting = {name: Landing(name, "coder", MergeState.WAITING) for name in names}
    while waiting:
        free = [n for n in waiting if not ahead(replace(state, landings=waiting), state.tasks[n])]
        assert free
        del waiting[free[0]]


# -- crashes ------------------------------------------------------------------------------------


async def test_a_merge_that_came_through_before_a_crash_is_recognized(opened: Opener) -> None:
    yard = await opened(replace(CODER, merge=Merge.GATE))
    task = await yard.do(a="a")
    commit = yard.bench.state.landings[task].commit
    git(yard.top, "merge", "--no-ff", "-q", "-m", merges.subject("coder", task), commit)
    yard = await yard.resumed()
    assert yard.state(task) is MergeState.MERGED
    yard.merging.close()
    await yard.bench.close()


async def test_a_merge_cut_off_in_the_middle_is_taken_back_and_asked_about(opened: Opener) -> None:
    yard = await opened(replace(CODER, merge=Merge.GATE))
    task = await yard.do(a="a")
    commit = yard.bench.state.landings[task].commit
    git(yard.top, "merge", "--no-ff", "--no-commit", "-m", merges.subject("coder", task), commit)
    (yard.top / "kept.txt").write_text("resolved by hand")
    yard = await yard.resumed()
    assert not (yard.top / "a.txt").exists()
    assert merges.unfinished((await yard.merging.git()).main) is None
    assert yard.state(task) is MergeState.GATED
    kept = choose(yard.top, f"{task}-merge")
    shown = git(yard.top, "show", f"{kept.target.commit}:kept.txt")
    assert shown == "resolved by hand"
    yard.merging.close()
    await yard.bench.close()


async def test_an_approval_that_was_not_carried_out_is_asked_for_again(opened: Opener) -> None:
    yard = await opened(replace(CODER, merge=Merge.GATE))
    task = await yard.do(a="a")
    async with yard.merging.landings._turn:
        command = asyncio.ensure_future(yard.bench.decide(yard.gate()))
        while yard.bench.state.gates["G1"].decision is Decision.OPEN:
            await asyncio.sleep(0.01)
        command.cancel()
        await yard.bench.desk.cancel_jobs()
    yard = await yard.resumed()
    assert yard.state(task) is MergeState.GATED
    assert "the deck stopped before it was merged" in yard.gate().why
    assert not (yard.top / "a.txt").exists()
    await yard.bench.decide(yard.gate())
    assert yard.state(task) is MergeState.MERGED
    yard.merging.close()
    await yard.bench.close()


async def test_accepted_work_whose_merge_was_not_begun_lands_after_the_crash(
    opened: Opener,
) -> None:
    yard = await opened()
    task = await yard.begin()
    (yard.side() / "a.txt").write_text("a")
    yard.merging.landings = cast(Any, Branches())  # takes it and does nothing
    await yard.bench.report("coder", task)
    assert yard.bench.task(task).state is TaskState.REPORTED
    yard = await yard.resumed()
    assert yard.state(task) is MergeState.MERGED
    yard.merging.close()
    await yard.bench.close()


# -- undo ---------------------------------------------------------------------------------------


async def test_unmerged_work_is_undone_in_the_worktree(opened: Opener) -> None:
    yard = await opened(replace(CODER, merge=Merge.MANUAL))
    (yard.top / "kept.txt").write_text("the user is at work")
    task = await yard.do(kept="by coder", new="new")
    choice = choose(yard.top, task)
    plan = choice.store.plan_rollback(choice.target)
    outcome = choice.store.rollback(plan)
    assert (outcome.restored, outcome.deleted) == (1, 1)
    assert (yard.side() / "kept.txt").read_text() == "kept\n"
    assert (yard.top / "kept.txt").read_text() == "the user is at work"
    assert "worktree" in choice.notes[0]
    again = choose(yard.top, f"pre-rollback-{task}")
    again.store.rollback(again.store.plan_rollback(again.target))
    assert (yard.side() / "kept.txt").read_text() == "by coder"


async def test_merged_work_is_undone_in_the_main_tree_and_nothing_else_is(opened: Opener) -> None:
    yard = await opened(CODER, OTHER)
    task = await yard.do(kept="by coder", new="new")
    await yard.do("tester", other="other")
    (yard.top / "user.txt").write_text("the user's")
    choice = choose(yard.top, task)
    merge = git(yard.top, "log", "-1", "--format=%H", "--grep=(T1)").strip()
    assert f"git revert -m 1 {merge[:12]}" in choice.notes[0]
    plan = choice.store.plan_rollback(choice.target)
    assert sorted(change.path for change in plan.changes) == ["kept.txt", "new.txt"]
    choice.store.rollback(plan)
    assert (yard.top / "kept.txt").read_text() == "kept\n"
    assert not (yard.top / "new.txt").exists()
    assert (yard.top / "other.txt").exists()
    assert (yard.top / "user.txt").exists()
    assert (yard.side() / "new.txt").exists()
    choice.store.prune(0)
    with pytest.raises(Exception, match="there is no checkpoint"):
        choose(yard.top, task)


async def test_a_merge_without_its_checkpoint_names_the_commit_to_revert(opened: Opener) -> None:
    yard = await opened()
    task = await yard.do(a="a")
    for ref in git(yard.top, "for-each-ref", "--format=%(refname)", "refs/choragos").split():
        if ref.endswith(("-merge", "-merge-done")):
            git(yard.top, "update-ref", "-d", ref)
    with pytest.raises(MergedAlready, match="git revert -m 1 "):
        choose(yard.top, task)


async def test_a_merge_meanwhile_is_not_the_work_of_a_task_in_the_main_tree(
    opened: Opener,
) -> None:
    yard = await opened(CODER, Role(name="plain", command="sh"))
    mine = await yard.begin("plain")
    (yard.top / "mine.txt").write_text("mine")
    await yard.do(a="a")
    await yard.bench.report("plain", mine)
    await yard.bench.settle()
    choice = choose(yard.top, mine)
    plan = choice.store.plan_rollback(choice.target)
    assert [change.path for change in plan.changes] == ["mine.txt"]


async def test_a_deck_in_a_subdirectory_knows_its_files_in_the_branch(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    git(tmp_path, "init", "-q")
    (project / "owned.txt").write_text("owned\n")
    (tmp_path / "owned.txt").write_text("not the deck's\n")
    git(tmp_path, "add", "project", "owned.txt")
    git(tmp_path, "commit", "-qm", "first")
    owner = Role(name="owner", command="sh", owns_files=("owned.txt",))
    team = (LEAD, CODER, owner)
    yard = await Yard.over(await Bench.open(tmp_path, team, cast(Branches, Stand())))
    yard.bench.chairs["owner"].role = Role(name="owner", command="sh")
    place = yard.merging.place(CODER)
    assert place == yard.side() / "project"
    free = await yard.begin()
    (yard.side() / "owned.txt").write_text("by coder\n")
    await yard.bench.report("coder", free)
    assert yard.state(free) is MergeState.MERGED
    owned = await yard.begin()
    (place / "owned.txt").write_text("by coder\n")
    await yard.bench.report("coder", owned)
    assert yard.gate().why == "it changes files of other roles: project/owned.txt (owner)"
    await yard.bench.decide(yard.gate())
    assert (project / "owned.txt").read_text() == "by coder\n"
    choice = choose(project, owned)
    plan = choice.store.plan_rollback(choice.target)
    assert [change.path for change in plan.changes] == ["project/owned.txt"]
    yard.merging.close()
    await yard.bench.close()
