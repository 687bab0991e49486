"""Landing: how accepted work of a worktree gets into the main tree, or waits for a person.

Owns the queue of merges and their gates (contracts/deck.md section 1.10). Invariants: one merge at
a time, each after a checkpoint; what is merged is the very commit that was accepted, and it brings
no other work that was not; a diff that touches another role's file, and whatever git refuses, goes
to a person; an approval holds for the diff that was shown; after a crash a merge is recognized,
taken back or asked about again, never repeated. A branch is never deleted. Used by `deck.merging`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deck import briefs, merges
from deck.board import Gate, Landing, Task
from deck.branches import branch_of
from deck.config import Merge
from deck.desk import Desk
from deck.entries import Decision, Entry, GateKind, MergeState, Op, TaskState
from deck.gatekeeper import Changed, Durable, Gatekeeper, Rules
from deck.gitrepo import GitError
from deck.mergeable import UNDECIDED, Proposal, ahead, last_commit, propose, words
from deck.merges import MergeBusy, MergeRefused
from deck.plain_files import replace_own
from deck.protocol import one_line
from deck.snapshots import Snapshots
from deck.worktrees import WorktreeError

if TYPE_CHECKING:
    from deck.merging import Merging

#: How often work that waits for earlier work of its role looks again.
LOOK_SECONDS: Final = 0.2
_LOCK_TRIES: Final = 10
_LOCK_SECONDS: Final = 1.0


@dataclass(slots=True)
class Landings:
    """The merges of one session. Used from one event loop."""

    desk: Desk
    gatekeeper: Gatekeeper
    snapshots: Snapshots
    merging: Merging
    #: One merge at a time.
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Tasks whose merge was interrupted.
    _doubted: set[str] = field(default_factory=set)

    async def land(self, task: Task) -> None:
        """Merge the accepted work of a task, or take it to a person."""
        landing = self.desk.state.landings.get(task.id)
        if landing is not None and landing.state is not MergeState.FAILED:
            return
        made = last_commit(self.desk.state, task.id)
        await self._move(task, MergeState.WAITING, "", made.head if made else "")
        await self._go(task)

    async def _go(self, task: Task) -> None:
        said = ""
        while why := ahead(self.desk.state, task):
            if why != said:
                await self._move(task, MergeState.WAITING, why)
            said = why
            await asyncio.sleep(LOOK_SECONDS)
        async with self._turn:
            try:
                await self._decide(task)
            except (GitError, OSError) as problem:
                await self._fail(task, str(problem))

    async def _decide(self, task: Task) -> None:
        found = await self._propose(task)
        if found is None:
            await self._nothing(task)
            return
        mode = self._mode(task.role)
        if mode is Merge.MANUAL:
            branch = branch_of(task.role)
            await self._skip(task, f"merge = manual; when you want it: git merge --no-ff {branch}")
        elif mode is Merge.GATE or found.why:
            await self._gate(task, found)
        else:
            await self._merge_or_ask(task, found)

    async def _merge_or_ask(self, task: Task, found: Proposal) -> None:
        for left in reversed(range(_LOCK_TRIES)):
            try:
                await self._merge(task, found)
                return
            except MergeRefused as refused:
                if not left or not isinstance(refused, MergeBusy):
                    await self._gate(task, found.because(str(refused)))
                    return
            # Another git is at work in the main tree: a person's, or of a deck that was killed.
            await asyncio.sleep(_LOCK_SECONDS)
            again = await self._propose(task)
            if again is None:
                await self._nothing(task)
                return
            found = again

    def _mode(self, role_name: str) -> Merge:
        role = self.merging.role(role_name)
        # Of a role that is gone nobody says any more how its work shall land.
        return role.merge if role is not None and role.worktree else Merge.GATE

    async def _propose(self, task: Task) -> Proposal | None:
        """Return what a task would bring, None when there is nothing. Raises GitError."""
        commit = await self._commit(task)
        git, expected = await self.merging.git(), self.merging.main_branch
        found = await propose(self.desk, git, task, commit, expected)
        if found is not None and task.id in self._doubted:
            return found.because("an earlier merge of it was interrupted")
        return found

    async def _commit(self, task: Task) -> str:
        """Return the accepted commit; work that could not be committed before is tried again."""
        landing = self.desk.state.landings.get(task.id)
        if landing is not None and landing.commit:
            return landing.commit
        if problem := await self.merging.commit(task, ""):
            raise WorktreeError(problem)
        made = last_commit(self.desk.state, task.id)
        if made is None or not made.head:
            raise WorktreeError("its work was never committed")
        await self._move(task, MergeState.WAITING, "", made.head)
        return made.head

    # -- merging --------------------------------------------------------------------------------

    async def _merge(self, task: Task, found: Proposal) -> None:
        """Take a checkpoint and merge. Raises MergeRefused or another GitError."""
        git = await self.merging.git()
        before = await self.snapshots.before_merge(task)
        title = merges.subject(task.role, task.id)
        made = await asyncio.to_thread(merges.merge, git.main, found.commit, title)
        await self._merged(task, made)
        if before is not None:
            await self.snapshots.after_merge(task, before, made)

    async def _merged(self, task: Task, merge: str) -> None:
        await self._move(task, MergeState.MERGED, f"commit {merge[:12]}")
        self.desk.events.write("INFO", "merged", id=task.id, role=task.role, commit=merge)

    async def _nothing(self, task: Task) -> None:
        """There is nothing to merge: it was nothing, or an earlier run of the deck has merged it
        and did not live to say so."""
        if merge := await self._merge_of(task):
            await self._merged(task, merge)
        else:
            await self._skip(task, "nothing to merge")

    async def _merge_of(self, task: Task) -> str:
        commit, title = self.desk.state.landings[task.id].commit, merges.subject(task.role, task.id)
        if not commit:
            return ""
        git = await self.merging.git()
        return await asyncio.to_thread(merges.merge_of, git.main, commit, title)

    async def _skip(self, task: Task, why: str) -> None:
        await self._move(task, MergeState.SKIPPED, why)
        self.desk.events.write("INFO", "merge skipped", id=task.id, role=task.role, reason=why)

    async def _fail(self, task: Task, why: str) -> None:
        """Nothing was merged; the start role is told how it can be, and the branch stays."""
        await self._move(task, MergeState.FAILED, one_line(why))
        self.desk.events.write("WARN", "merge failed", id=task.id, role=task.role, reason=why)
        self._tell(task, why)

    def _tell(self, task: Task, why: str) -> None:
        self.desk.notify(
            f"{task.id} of {task.role} is not merged: {why.rstrip('.')}. Its branch "
            f"{branch_of(task.role)} is kept."
        )

    async def _move(self, task: Task, state: MergeState, why: str, commit: str = "") -> None:
        await self.desk.record(self._moved(task, state, why, commit))

    def _moved(self, task: Task, state: MergeState, why: str, commit: str = "") -> Entry:
        return Entry(
            Op.MERGE_MOVED,
            self.desk.now(),
            id=task.id,
            role=task.role,
            state=state,
            reason=one_line(why),
            digest=commit,
        )

    # -- gates ----------------------------------------------------------------------------------

    async def _gate(self, task: Task, found: Proposal) -> None:
        """Let a person look at the diff; `merge-<role>.diff` keeps it whole."""
        desk = self.desk
        path = desk.state_dir / f"merge-{briefs.safe_name(task.role)}.diff"
        await asyncio.to_thread(_write, path, found.change.text)
        text = words(task, desk.label(task), found, path)
        shown = await asyncio.to_thread(desk.texts.put, text)
        gate_id, opened = self.gatekeeper.open(
            GateKind.MERGE,
            found.digest,
            task=task.id,
            role=task.role,
            path=str(path),
            shown=shown,
            why=one_line(found.why),
        )
        waits = f"waits for {gate_id}" + (f": {found.why}" if found.why else "")
        moved = desk.journal.record(self._moved(task, MergeState.GATED, waits, found.commit))
        await asyncio.gather(opened, moved)
        desk.events.write(
            "INFO", "merge gate", id=task.id, role=task.role, gate=gate_id, reason=found.why or None
        )

    def rules(self) -> Rules:
        """Return what gates before a merge are about."""
        return Rules(lambda _: "", self._present, self._follow, self._holds)

    async def _holds(self, gate: Gate, body: bytes) -> bool:
        """Agents can write to the file with the diff, which is there for people only."""
        try:
            found = await self._propose(self.desk.state.tasks[gate.task])
        except (GitError, OSError):
            return False
        return found is not None and found.change.text == body

    async def _present(self, gate: Gate) -> str:
        try:
            found = await self._propose(self.desk.state.tasks[gate.task])
        except (GitError, OSError) as problem:
            raise Changed(str(problem)) from None
        if found is None:
            raise Changed("there is nothing to merge any more")
        return found.digest

    async def _follow(self, gate: Gate, why: str, durable: Durable) -> None:
        await durable
        self.desk.events.write(
            "INFO",
            "merge gate resolved",
            id=gate.task,
            gate=gate.id,
            decision=gate.decision,
            by=gate.approver,
            reason=why or None,
        )
        # Whoever decided does not wait for git.
        self.desk.job(self._carry_out(gate, why))

    async def _carry_out(self, gate: Gate, why: str) -> None:
        async with self._turn:
            task = self.desk.state.tasks[gate.task]
            landing = self.desk.state.landings.get(task.id)
            if landing is None or landing.state is not MergeState.GATED:
                return
            if gate.decision is Decision.REJECTED:
                await self._reject(task, gate, why)
                return
            try:
                await self._after(task, gate, why)
            except (GitError, OSError) as problem:
                await self._fail(task, str(problem))

    async def _reject(self, task: Task, gate: Gate, why: str) -> None:
        said = f"{gate.id} was rejected. {why}".rstrip()
        await self._move(task, MergeState.REJECTED, said)
        self._tell(task, said)

    async def _after(self, task: Task, gate: Gate, why: str) -> None:
        """After an approval the merge; after a void gate another one about what there is now."""
        found = await self._propose(task)
        if found is None:
            await self._nothing(task)
        elif found.digest != gate.digest:
            await self._gate(task, found.because(f"it was changed since {gate.id} opened"))
        elif gate.decision is Decision.APPROVED:
            await self._merge(task, found)
            self.desk.notify(f"{task.id} of {task.role} was merged after {gate.id}.")
        else:
            await self._fail(task, f"{gate.id} is void: {why}")

    # -- after a crash --------------------------------------------------------------------------

    async def resume(self) -> None:
        """Go on with what an earlier run left open; never with more than was decided on record."""
        state = self.desk.state
        undecided = [one for one in state.landings.values() if one.state in UNDECIDED]
        forgotten = [task for task in state.tasks.values() if self._is_forgotten(task)]
        if not undecided and not forgotten:
            return
        try:
            await self._take_back(undecided)
        except (GitError, OSError) as problem:
            self.desk.events.write("ERROR", "merge failed", reason=str(problem))
        for landing in undecided:
            self.desk.job(self._again(state.tasks[landing.task]))
        for task in forgotten:
            self.desk.job(self.land(task))

    def _is_forgotten(self, task: Task) -> bool:
        """Whether a task was accepted, and the crash came before its merge was on record."""
        state = self.desk.state
        committed = last_commit(state, task.id) is not None
        accepted = task.state is TaskState.REPORTED and not task.judges
        return committed and accepted and task.id not in state.landings

    async def _take_back(self, undecided: list[Landing]) -> None:
        """Take back a merge of ours that the main tree is in the middle of, after a checkpoint of
        what it looks like: somebody may have begun to resolve it."""
        git = await self.merging.git()
        under_way = await asyncio.to_thread(merges.unfinished, git.main)
        for one in undecided:
            if under_way != (one.commit, merges.subject(one.role, one.task)):
                continue
            self._doubted.add(one.task)
            if await self.snapshots.before_merge(self.desk.state.tasks[one.task]) is not None:
                await asyncio.to_thread(merges.abort, git.main)
                self.desk.events.write("WARN", "merge interrupted", id=one.task, role=one.role)

    async def _again(self, task: Task) -> None:
        landing = self.desk.state.landings[task.id]
        try:
            merge = await self._merge_of(task)
        except (GitError, OSError) as problem:
            await self._fail(task, str(problem))
            return
        gate = self._gate_of(task)
        if merge:
            await self._merged(task, merge)
        elif gate is not None and gate.decision is Decision.OPEN:
            if landing.state is MergeState.WAITING:
                await self._move(task, MergeState.GATED, f"waits for {gate.id}")
        elif landing.state is MergeState.WAITING:
            await self._go(task)
        elif gate is not None and gate.decision is Decision.REJECTED:
            await self._reject(task, gate, gate.reason)
        else:
            await self._ask_again(task)

    async def _ask_again(self, task: Task) -> None:
        async with self._turn:
            try:
                found = await self._propose(task)
                if found is None:
                    await self._nothing(task)
                else:
                    await self._gate(task, found.because("the deck stopped before it was merged"))
            except (GitError, OSError) as problem:
                await self._fail(task, str(problem))

    def _gate_of(self, task: Task) -> Gate | None:
        about = [
            gate
            for gate in self.desk.state.gates.values()
            if gate.task == task.id and gate.kind is GateKind.MERGE
        ]
        return about[-1] if about else None


def _write(path: Path, data: bytes) -> None:
    # Agents can write where it lies, and it holds what they wrote.
    replace_own(path, data, mode=0o644)
