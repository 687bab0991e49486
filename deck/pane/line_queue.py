"""The lines that wait to be typed into a pane, and a person's keys between them.

Owns the order of everything that is written into an agent's input. Invariants: lines go out in the
order they came (a boot line first), one at a time; bytes from a person never fall between the text
of a line and its Enter, they are held back and written after it; every future of `put` is resolved.
Touches no terminal: it is given what it sees and what it writes with. Called by `pane`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from deck.pane.errors import PaneError
from deck.pane.human_line import HumanLine
from deck.pane.keys import CLEARING
from deck.pane.sight import View
from deck.pane.status import PaneState
from deck.pane.typing import Done, LineKind, Outcome, Step, Typist, Write

# After a line the agent gets this long to say that it works, before the next line is considered.
BETWEEN_LINES_SECONDS: Final = 0.3
# The soonest that a waiting line is looked at again.
_SOONEST_SECONDS: Final = 0.001

StepCallback = Callable[[Step], None]


@dataclass(slots=True)
class _Pending:
    typist: Typist
    future: asyncio.Future[Outcome]
    on_step: StepCallback | None
    reported: Step = Step.QUEUED


class LineQueue:
    """The queue of one run of an agent.

    `view` says what can be seen of the pane now; `write` sends bytes to the agent and may raise
    PaneError; `call` calls a listener that may fail.
    """

    def __init__(
        self,
        view: Callable[[], View],
        write: Callable[[bytes], None],
        call: Callable[..., None],
        clock: Callable[[], float],
    ) -> None:
        self._view = view
        self._write = write
        self._call = call
        self._clock = clock
        self._waiting: deque[_Pending] = deque()
        self._active: _Pending | None = None
        self._next_line_at = 0.0
        self._human = HumanLine()
        self._held_keys: list[bytes] = []
        # A line of ours was left in the agent's input.
        self._stands = False

    # -- facts

    @property
    def active(self) -> bool:
        """Whether a line has been taken from the queue and is not finished."""
        return self._active is not None

    @property
    def pending(self) -> int:
        """Lines accepted and not yet finished."""
        return len(self._waiting) + self.active

    @property
    def held_reason(self) -> str:
        """Why the line at the head has not gone out yet; empty if none waits."""
        head = self._active or (self._waiting[0] if self._waiting else None)
        return head.typist.held if head else ""

    @property
    def person_typing(self) -> bool:
        """Whether a person is in the middle of a line."""
        return self._human.open_at(self._clock())

    @property
    def leftover(self) -> bool:
        """Whether something stands in the agent's input that the next line would be merged with."""
        return self._stands or self._human.left_at(self._clock())

    # -- what comes in

    def put(
        self, line: str, kind: LineKind, on_step: StepCallback | None
    ) -> asyncio.Future[Outcome]:
        """Queue a line; the future resolves to what became of it and never raises."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        pending = _Pending(Typist(line, kind, self._clock()), future, on_step)
        if kind is not LineKind.BOOT:
            self._waiting.append(pending)
            return future
        if self._active is not None and not self._active.typist.under_way:
            self._waiting.appendleft(self._active)
            self._active = None
        self._waiting.appendleft(pending)
        return future

    def person(self, data: bytes, state: PaneState) -> None:
        """Write a person's keys, or hold them back while a line is under way.

        Not so while a dialog has opened: the line waits for its answer.
        """
        blocked = state is PaneState.BLOCKED
        if self._active is not None and self._active.typist.under_way and not blocked:
            self._held_keys.append(data)
            return
        if blocked:
            self._human.clear()  # keys that answer a dialog begin no line
        else:
            working = state in (PaneState.WORKING, PaneState.SILENT)
            self._human.feed(data, self._clock(), working=working)
        self._write(data)

    def fail_all(self, reason: str) -> None:
        """The agent is gone: every line gets its outcome, and held keys are dropped."""
        waiting = [*([self._active] if self._active else []), *self._waiting]
        self._waiting.clear()
        self._active = None
        self._held_keys.clear()
        for pending in waiting:
            if not pending.future.done():
                pending.future.set_result(pending.typist.abandon(reason))

    # -- what goes out

    def drive(self) -> float | None:
        """Go on with the line under way, or begin the next one.

        Returns after how many seconds to call again, None when no line waits.
        """
        while True:
            if self._active is None:
                if not self._waiting:
                    return None
                if (left := self._next_line_at - self._clock()) > 0:
                    return left
                self._active = self._waiting.popleft()
            pending = self._active
            if pending.future.cancelled() and not pending.typist.under_way:
                self._active = None
                continue
            action = pending.typist.step(self._clock(), self._view())
            self._announce(pending)
            if isinstance(action, Write):
                self._send(pending, action.data)
            elif isinstance(action, Done):
                self._finish(pending, action.outcome)
            else:
                return max(action.seconds, _SOONEST_SECONDS)

    def _send(self, pending: _Pending, data: bytes) -> None:
        try:
            self._write(data)
        except PaneError as error:
            self._finish(pending, pending.typist.abandon(str(error)))
            return
        if data == CLEARING[-1]:
            self._human.clear()
            self._stands = False

    def _announce(self, pending: _Pending) -> None:
        step = pending.typist.step_reached
        if step is not pending.reported:
            pending.reported = step
            self._call(pending.on_step, step)

    def _finish(self, pending: _Pending, outcome: Outcome) -> None:
        # The next line must not be merged with what this one left in the input.
        self._stands = self._stands or pending.typist.stands
        self._active = None
        self._next_line_at = self._clock() + BETWEEN_LINES_SECONDS
        if not pending.future.done():
            pending.future.set_result(outcome)
        held, self._held_keys = self._held_keys, []
        state = self._view().state if held else PaneState.IDLE
        for data in held:
            with contextlib.suppress(PaneError):
                self.person(data, state)
