"""When checkpoints are taken: before a delivery, after a report, around a merge.

Owns the use of `deck.checkpoints` by a session: git runs in a thread, one at a time, and a failure
is a warning in the log, never a reason not to work (contracts/deck.md section 1.11). What a role
with a worktree does is kept from its own checkout, all else from the main tree.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from deck.board import Task
from deck.checkpoints import Checkpoint, Checkpoints, GitError, delivery_subject
from deck.desk import Desk
from deck.entries import Entry, LoopState, Op, TaskState


@dataclass(slots=True)
class Snapshots:
    """The checkpoints of one session."""

    desk: Desk
    _store: Checkpoints | None = None
    #: Of the checkouts, by role.
    _checkouts: dict[str, Checkpoints] = field(default_factory=dict)
    #: Two snapshots at once would only contend for the repository.
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Tasks delivered and not yet ended here, with their roles.
    _open: dict[str, str] = field(default_factory=dict)

    async def start(self) -> None:
        """Find the repository, end what a crash left open, prune; without one nothing is done."""
        settings = self.desk.config.checkpoints
        if not settings.enabled:
            why = "the team file says enabled = false in [checkpoints]"
            self.desk.events.write("INFO", "checkpoints disabled", reason=why)
            return
        try:
            store = await asyncio.to_thread(Checkpoints, self.desk.directory, settings.keep)
            await asyncio.to_thread(store.end_lost)
            pruned = await asyncio.to_thread(store.prune)
        except (GitError, OSError) as failure:
            self.desk.events.write("WARN", "checkpoints disabled", reason=str(failure))
            return
        self._store = store
        if pruned:
            self.desk.events.write("INFO", "checkpoints pruned", count=pruned)
            self.desk.note(
                Entry(Op.CHECKPOINTS_PRUNED, self.desk.now(), reason=f"{pruned} at the start")
            )

    async def watch(self, role: str, checkout: Path) -> None:
        """Take what a role does from its own checkout from now on."""
        if self._store is None:
            return
        keep, deck = self.desk.config.checkpoints.keep, self.desk.directory
        try:
            store = await asyncio.to_thread(Checkpoints, checkout, keep, deck=deck)
            await asyncio.to_thread(store.end_lost)
        except (GitError, OSError) as failure:
            self.desk.events.write("WARN", "checkpoints disabled", role=role, reason=str(failure))
            return
        self._checkouts[role] = store

    async def before(self, task: Task) -> None:
        """Take the snapshot that precedes a delivery. A task sent back by its judge goes on from
        its first one, so that an undo takes back every round."""
        loop = self.desk.state.loops.get(task.id)
        if loop is not None and loop.state is LoopState.REVISING:
            self._open[task.id] = task.role
            return
        subject = delivery_subject(task.id, task.role, self.desk.label(task))
        tasks = self.desk.state.tasks
        lost = [
            (open_id, self._open.pop(open_id))
            for open_id in list(self._open)
            if open_id in tasks
            and tasks[open_id].state is TaskState.LOST
            # Each is ended with the files of its own working tree.
            and self._of(self._open[open_id]) is self._of(task.role)
        ]
        self._open[task.id] = task.role
        await self._take(self._of(task.role), task.id, subject, task.id, lost)

    async def after(self, task: Task) -> None:
        """Take the snapshot of a task's end."""
        subject = delivery_subject(task.id, task.role, "done")
        self._open.pop(task.id, None)
        await self._take(self._of(task.role), f"{task.id}-done", subject, task.id)

    async def before_merge(self, task: Task) -> Checkpoint | None:
        """Take the snapshot of the main tree that precedes a merge."""
        subject = delivery_subject(task.id, task.role, "before its merge")
        return await self._take(self._store, f"{task.id}-merge", subject, task.id)

    async def after_merge(self, task: Task, before: Checkpoint, merge: str) -> None:
        """Keep what a merge brought, so that it can be undone by itself."""
        if self._store is None:
            return
        async with self._turn:
            try:
                await asyncio.to_thread(self._store.merged, before, merge)
            except (GitError, OSError) as failure:
                self.desk.events.write("WARN", "checkpoint failed", task=task.id, err=str(failure))

    def _of(self, role: str) -> Checkpoints | None:
        return self._checkouts.get(role, self._store)

    async def _take(
        self,
        store: Checkpoints | None,
        name: str,
        subject: str,
        task_id: str,
        lost: Iterable[tuple[str, str]] = (),
    ) -> Checkpoint | None:
        if store is None:
            return None
        async with self._turn:
            begun = time.monotonic()
            try:
                made = await asyncio.to_thread(store.create, name, subject, lost)
            except (GitError, OSError) as failure:
                self.desk.events.write("WARN", "checkpoint failed", task=task_id, err=str(failure))
                return None
            took = f"{(time.monotonic() - begun) * 1000:.0f}ms"
        self.desk.events.write("INFO", "checkpoint", task=task_id, ref=made.ref, took=took)
        self.desk.note(
            Entry(
                Op.CHECKPOINT_TAKEN,
                self.desk.now(),
                id=made.name,
                task=task_id,
                path=made.ref,
                reason=f"commit {made.commit}",
            )
        )
        return made
