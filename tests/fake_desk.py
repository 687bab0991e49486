"""A desk without disk, panes and network: its journal is a list, its clock is set by the test.

`FakeDesk` has what the gatekeeper uses of a desk. `crashed` returns what a new process would find.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from deck.board import State, Task
from deck.config import Config, Role
from deck.desk import Desk
from deck.entries import Entry, Op
from deck.replay import apply, replay

START = 1_000_000_000


class FakeJournal:
    """Applies entries and keeps them."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self.entries = list(entries)
        self.state: State = replay(self.entries)
        self.failure: Exception | None = None

    def record(self, entry: Entry) -> asyncio.Future[Any]:
        if self.failure is not None:
            raise self.failure
        self.state = apply(self.state, entry)
        self.entries.append(entry)
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


class FakeEvents:
    """Keeps event lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def write(self, level: str, msg: str, **fields: Any) -> None:
        self.lines.append((msg, fields))


@dataclass
class FakeDesk:
    """What the gatekeeper needs of a desk."""

    config: Config
    journal: FakeJournal = field(default_factory=FakeJournal)
    clock: int = START
    events: FakeEvents = field(default_factory=FakeEvents)
    changed_gates: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    hooks: list[tuple[str, str, str]] = field(default_factory=list)
    jobs: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def state(self) -> State:
        return self.journal.state

    def now(self) -> int:
        return self.clock

    async def record(self, entry: Entry) -> None:
        await self.journal.record(entry)

    def notify(self, text: str) -> None:
        self.notices.append(text)

    def hook(self, name: str, command: str, role: str, task: str) -> None:
        self.hooks.append((name, role, task))

    def label(self, task: Task) -> str:
        return f"label of {task.id}"

    def job(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        self.jobs.append(asyncio.ensure_future(work))
        return self.jobs[-1]

    async def settle(self) -> None:
        """Let background jobs end."""
        while self.jobs:
            waiting, self.jobs = self.jobs, []
            await asyncio.gather(*waiting)

    def crashed(self, config: Config) -> FakeDesk:
        """Return the desk of a process that takes over with this team file."""
        return FakeDesk(config, FakeJournal(self.journal.entries), self.clock)

    @property
    def as_desk(self) -> Desk:
        return cast(Desk, self)


def started(config: Config) -> FakeDesk:
    """Return the desk of a run that has just begun."""
    return FakeDesk(config, FakeJournal([Entry(Op.SESSION_STARTED, 1, run="run-1")]))


def team(**keys: Any) -> Config:
    """Return a team of an orchestrator and a coder."""
    return Config(roles=(Role("orchestrator", start=True), Role("coder", approve=True)), **keys)
