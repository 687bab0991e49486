"""Time limits and restarts: when a task has taken too long, when a role is started again.

Pure rules over the board and the team. The clock of a time limit starts at delivery and each
task fires once (contracts/deck.md section 1.15); restarts are for failures only and are capped,
so a broken agent cannot loop. `deck.session` asks once per tick and acts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from deck.board import State, Task
from deck.config import Restart, Role
from deck.moves import IN_FLIGHT

MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: an exit code, or the signal that ended it."""

    code: int | None = None
    signal: int | None = None
    #: The deck itself ended it because a task ran out of time.
    timed_out: bool = False

    @property
    def failed(self) -> bool:
        """Whether this end counts as a failure."""
        return self.timed_out or self.code != 0

    def __str__(self) -> str:
        if self.signal is not None:
            return f"signal {self.signal}"
        return "unknown status" if self.code is None else f"status {self.code}"


def overdue(state: State, role: Callable[[str], Role | None], now: int) -> Iterator[Task]:
    """Yield tasks in a pane's hands for longer than their role's `timeout`; `now` in µs. The clock
    of a paused role stands still."""
    for task in state.tasks.values():
        if task.state not in IN_FLIGHT or not task.delivered_at or task.role in state.paused:
            continue
        seat = role(task.role)
        if seat is None or seat.timeout is None:
            continue
        if now - task.delivered_at >= seat.timeout * MICROSECONDS:
            yield task


def may_restart(role: Role, ended: Exit, attempts: int) -> bool:
    """Tell whether a role that ended so is started again after `attempts` earlier restarts.

    A role ended for a time limit whose action is `restart` comes back even without
    `restart = "on-failure"`; the cap holds for both.
    """
    if not ended.failed or attempts >= role.restart_retries:
        return False
    return ended.timed_out or role.restart is Restart.ON_FAILURE
