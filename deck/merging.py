"""Worktrees in a session: each role's own checkout, and what is committed there after each report.

Owns the use of `deck.worktrees` by a session. Invariants (contracts/deck.md section 1.10): a role
that asks for a worktree works in it or the session does not start; what a report tells of is
committed before the role gets its next task, with the user's hooks, which get no more than the
role itself has; what a hook does not take stays where it is, uncommitted and said. How commits
reach the main tree is `deck.landing`. `deck.session` prepares, `deck.review` commits and lands.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deck.board import Commit, Task
from deck.branches import clashes
from deck.config import Config, Role
from deck.desk import Desk
from deck.entries import CommitState, Entry, Op, TaskState
from deck.gatekeeper import Gatekeeper, Rules
from deck.gitrepo import HOOK_SECONDS, GitError, Hooks
from deck.landing import Landings
from deck.merges import target
from deck.pane.errors import PaneError
from deck.protocol import one_line
from deck.roster import filtered
from deck.sessions import SessionError
from deck.snapshots import Snapshots
from deck.wall.wall import Wall
from deck.worktrees import Worktree, WorktreeError, Worktrees

#: How often a delivery looks whether the work before it has been committed.
LOOK_SECONDS: Final = 0.1
#: The longest such a wait may be: a hook's time limit and some more.
PATIENCE_SECONDS: Final = HOOK_SECONDS + 60
_TITLE_CHARS: Final = 200


@dataclass(slots=True)
class Merging:
    """The worktrees of one session. Used from one event loop."""

    desk: Desk
    gatekeeper: Gatekeeper
    snapshots: Snapshots
    #: Behind it run the hooks of walled roles.
    wall: Wall | None = None
    landings: Landings = field(init=False)
    #: The branch the main tree was on when the session started.
    main_branch: str = ""
    _git: Worktrees | None = None
    _trees: dict[str, Worktree] = field(default_factory=dict)
    #: One git at a time in each checkout.
    _turns: dict[str, asyncio.Lock] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Set up the way to the main tree."""
        self.landings = Landings(self.desk, self.gatekeeper, self.snapshots, self)

    def rules(self) -> Rules:
        """Return what gates before a merge are about."""
        return self.landings.rules()

    # -- life -----------------------------------------------------------------------------------

    async def prepare(self, config: Config) -> None:
        """Refuse to start what cannot work, and make the worktrees that are not there yet. Also
        for a team that was reloaded. Raises SessionError."""
        roles = [role for role in config.roles if role.worktree]
        if not roles:
            return
        if clash := clashes(role.name for role in roles):
            raise SessionError(clash)
        try:
            git = await self.git()
            self.main_branch = self.main_branch or await asyncio.to_thread(target, git.main)
            for role in roles:
                if role.name not in self._trees:
                    await self._make(git, role)
        except (GitError, OSError) as problem:
            raise SessionError(str(problem)) from problem

    async def _make(self, git: Worktrees, role: Role) -> None:
        desk = self.desk
        tree = await asyncio.to_thread(git.make, role.name)
        await desk.record(
            Entry(
                Op.WORKTREE_MADE,
                desk.now(),
                role=role.name,
                state=tree.origin,
                path=str(tree.top),
                digest=tree.head,
                reason=one_line(tree.note),
            )
        )
        self._trees[role.name] = tree
        await self.snapshots.watch(role.name, tree.top)
        desk.events.write(
            "WARN" if tree.note else "INFO",
            "worktree ready",
            role=role.name,
            branch=tree.branch,
            path=str(tree.top),
            state=tree.origin,
            reason=one_line(tree.note) or None,
        )

    async def git(self) -> Worktrees:
        """Return the worktrees of this deck. Raises WorktreeError where there can be none."""
        if self._git is None:
            self._git = await asyncio.to_thread(Worktrees, self.desk.directory)
        return self._git

    def place(self, role: Role) -> Path | None:
        """Return the directory in which a role works, or None for the project itself."""
        tree = self._trees.get(role.name)
        return tree.cwd if tree is not None and role.worktree else None

    def role(self, name: str) -> Role | None:
        """Return a role as it works now, which a reload may not have changed yet."""
        seat = self.desk.seats.get(name)
        return seat.role if seat is not None else self.desk.config.role(name)

    def close(self) -> None:
        """Let other decks have the checkouts, which stay."""
        if self._git is not None:
            self._git.close()

    # -- around a task --------------------------------------------------------------------------

    async def before(self, task: Task) -> None:
        """Let a role begin a task only from committed work, and from the present main tree where
        nothing of its own is in the way. Called before each delivery; never raises."""
        if task.role not in self._trees or self._git is None:
            return
        waited = 0.0
        while self._is_to_be_committed(task.role) and waited < PATIENCE_SECONDS:
            await asyncio.sleep(LOOK_SECONDS)
            waited += LOOK_SECONDS
        if task.tries:
            # Handed out again, it goes on from where it was.
            return
        async with self.turn(task.role):
            try:
                problem = await asyncio.to_thread(self._git.freshen, task.role)
            except (GitError, OSError) as failure:
                problem = str(failure)
        if problem:
            self.desk.events.write(
                "WARN", "worktree behind", role=task.role, reason=one_line(problem)
            )

    def _is_to_be_committed(self, role: str) -> bool:
        """Whether a report of the role has come and its review has not got past the commit."""
        return any(
            task.state is TaskState.IN_REVIEW and not task.reason
            for task in self.desk.state.open_tasks(role)
        )

    async def commit(self, task: Task, summary: str) -> str:
        """Commit what a role with a worktree did for a task; return why that failed, or ""."""
        role, git = self.role(task.role), self._git
        if git is None or role is None or self.place(role) is None:
            return ""
        title = one_line(f"choragos: {task.id} {summary or self.desk.label(task)}", _TITLE_CHARS)
        async with self.turn(role.name):
            try:
                done = await asyncio.to_thread(git.commit, role.name, title, self._hooks(role))
            except (GitError, PaneError, OSError) as failure:
                problem = one_line(str(failure))
                await self._record(Commit(task.id, role.name, CommitState.FAILED, "", problem))
                return problem
            state = CommitState.MADE if done.is_new else CommitState.CLEAN
            await self._record(Commit(task.id, role.name, state, done.head))
        return ""

    async def _record(self, made: Commit) -> None:
        desk = self.desk
        await desk.record(
            Entry(
                Op.WORKTREE_COMMITTED,
                desk.now(),
                id=made.task,
                role=made.role,
                state=made.state,
                digest=made.head,
                reason=made.reason,
            )
        )
        failed = made.state is CommitState.FAILED
        desk.events.write(
            "WARN" if failed else "INFO",
            {
                CommitState.MADE: "worktree commit",
                CommitState.CLEAN: "worktree clean",
                CommitState.FAILED: "worktree commit failed",
            }[made.state],
            id=made.task,
            role=made.role,
            commit=made.head or None,
            err=made.reason or None,
        )

    def _hooks(self, role: Role) -> Hooks:
        """A hook may be a file in the checkout: it sees what the role sees, from where it is."""
        environ = filtered(self.desk.environ, role)
        wall = self.wall
        if not role.wall:
            return Hooks(environ)
        if wall is None:
            raise WorktreeError(f"role {role.name}: its wall is not up, so no hook can run")
        return Hooks(environ, lambda command, env: wall.enclose(role, command, env))

    def turn(self, role: str) -> asyncio.Lock:
        """Return the lock of a role's checkout."""
        return self._turns.setdefault(role, asyncio.Lock())

    # -- to the main tree -----------------------------------------------------------------------

    async def land(self, task: Task) -> None:
        """Merge the accepted work of a task as its role's `merge` says; returns when that is
        settled or waits for a person."""
        if task.role in self._trees:
            await self.landings.land(task)

    async def resume(self) -> None:
        """Go on, after a start, with the merges that an earlier run left open."""
        await self.landings.resume()
