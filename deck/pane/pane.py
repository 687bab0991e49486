"""A pane: one agent's process, its screen, its state and the lines to be typed, joined on the loop.

Owns when the pane is looked at: soon after output, while a line is under way, and at least four
times a second, since ages move without output. Invariants: nothing is typed while the pane shows a
dialog, is paused or has not finished booting; every future of `inject` is resolved, also when the
agent dies; a listener that fails does not harm the pane. Everything here runs on one event loop and
never blocks it. Called by the session core.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from deck.pane.errors import PaneError
from deck.pane.hooks import HookFile
from deck.pane.line_queue import LineQueue, StepCallback
from deck.pane.process import ExitStatus, PaneProcess
from deck.pane.sight import View
from deck.pane.status import (
    NO_MARKS,
    BootClock,
    Evidence,
    Marks,
    PaneState,
    Source,
    Status,
    classify,
)
from deck.pane.terminal.engine import EngineKind, make_engine
from deck.pane.tree import PANE_MARK, StopProof
from deck.pane.typing import LineKind, Outcome, OutcomeKind
from deck.pane.watch import Watch

# The screen is looked at again this long after output, so that a burst is judged once.
SETTLE_SECONDS: Final = 0.03
# Ages (working window, boot quiet time) move without output; they are looked at this often.
TICK_SECONDS: Final = 0.25
# An injection under way is looked at this often (its own waits are multiples of this).
TYPING_TICK_SECONDS: Final = 0.05

StatusCallback = Callable[["Pane", Status], None]
ExitCallback = Callable[["Pane", ExitStatus], None]
TitleCallback = Callable[["Pane", str], None]
OutputCallback = Callable[["Pane", bytes], None]


@dataclass(frozen=True, slots=True)
class PaneSpec:
    """How to run one agent. `env` is the whole environment, already filtered by the caller."""

    name: str
    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    rows: int = 40
    cols: int = 120
    input_prompts: tuple[str, ...] = ()
    chrome_markers: tuple[str, ...] = ()
    history: int = 10_000
    engine: EngineKind = EngineKind.PYTE
    marks: Marks = NO_MARKS
    hooks: HookFile | None = None


class Pane:
    """One agent in one terminal. Make it, `await start()`, use it, `await stop()`.

    The callbacks run on the event loop and must not block; an exception in one is reported to the
    loop's exception handler and does not harm the pane.
    """

    def __init__(
        self,
        spec: PaneSpec,
        *,
        on_status: StatusCallback | None = None,
        on_exit: ExitCallback | None = None,
        on_title: TitleCallback | None = None,
        on_output: OutputCallback | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spec = spec
        self.on_status = on_status
        self.on_exit = on_exit
        self.on_title = on_title
        self.on_output = on_output
        self._clock = clock
        self._rows, self._cols = spec.rows, spec.cols
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0  # asked of ourselves: uvloop's handles do not tell
        self._process: PaneProcess | None = None
        self._paused = False
        self._starting = False
        self._new_run()

    # -- facts ------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """The state with its evidence, as last judged (at most 0.25 s old)."""
        return self._status

    @property
    def state(self) -> PaneState:
        return self._status.state

    @property
    def state_age(self) -> float:
        """Seconds since the pane came into its state."""
        return max(0.0, self._clock() - self._status.since)

    @property
    def title(self) -> str:
        return self.screen.title

    @property
    def pid(self) -> int | None:
        """The agent's process id; also its session id. None before the first start."""
        return self._process.pid if self._process else None

    @property
    def pane_id(self) -> str:
        """The value of CHORAGOS_PANE in the environment of everything this run started."""
        return self._pane_id

    @property
    def exit_status(self) -> ExitStatus | None:
        """How the agent ended; None while it runs."""
        return self._process.exit_status if self._process else None

    @property
    def alive(self) -> bool:
        return self.pid is not None and self.exit_status is None

    @property
    def idle_seconds(self) -> float:
        """Seconds since a cell of the screen (footers apart) last changed."""
        return max(0.0, self._clock() - self._watch.changed_at)

    @property
    def pending(self) -> int:
        """Lines accepted by `inject` and not yet finished."""
        return self._lines.pending

    @property
    def size(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self._rows, self._cols

    def rows(self) -> list[str]:
        """The visible rows, right-trimmed."""
        return self.screen.rows()

    def tail(self, n: int) -> list[str]:
        """The last n non-blank rows, from history and screen, oldest first."""
        return self.screen.last_lines(n)

    def snapshot(self) -> bytes:
        """Bytes that draw this screen, modes and cursor on a fresh terminal of the same size."""
        return self.screen.snapshot()

    # -- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the agent. Raises PaneStartError with the sentence for the user."""
        if self.alive or self._starting:
            raise PaneError(f"{self.spec.name} is already running")
        self._starting = True
        try:
            await self._start()
        finally:
            self._starting = False

    async def _start(self) -> None:
        self._new_run()
        env = {**self.spec.env, PANE_MARK: self._pane_id}
        self._process = PaneProcess(on_output=self._output, on_exit=self._exited)
        self._watch.changed_at = self._boot.started = self._clock()
        await self._process.spawn(self.spec.argv, self.spec.cwd, env, self._rows, self._cols)
        self._arm(TICK_SECONDS)

    async def stop(self, grace: float = 5.0) -> StopProof:
        """End the agent and everything it started; wait at most `grace` seconds, then SIGKILL.

        Returns who was ended and how. Calling it for a pane that has exited sweeps what it left.
        """
        if self._process is None:
            return StopProof(ended=(), survivors=())
        self.stopping = True
        proof = await self._process.stop(grace)
        self._cancel_timer()
        self._judge()
        self._lines.fail_all("the pane was stopped")
        self._cancel_timer()
        return proof

    async def restart(self, grace: float = 5.0) -> StopProof:
        """Stop whatever is left, then start afresh. Lines still queued are refused."""
        proof = await self.stop(grace)
        await self.start()
        return proof

    def resize(self, rows: int, cols: int) -> None:
        """Set the size; the agent hears of it only if it really changed."""
        rows, cols = max(1, rows), max(1, cols)
        if (rows, cols) == (self._rows, self._cols):
            return
        self._rows, self._cols = rows, cols
        self.screen.resize(rows, cols)
        if self._process is not None:
            self._process.resize(rows, cols)

    def read_by(self, input_prompts: tuple[str, ...], chrome_markers: tuple[str, ...]) -> None:
        """Read the screen by other marks from now on (contract 1.8)."""
        self.spec = replace(self.spec, input_prompts=input_prompts, chrome_markers=chrome_markers)
        self._watch.ignore(chrome_markers)

    async def pause(self) -> None:
        """SIGSTOP everything in the pane, foreground jobs of a shell included."""
        if self._process is not None and self.alive and not self._paused:
            self._paused = True
            await self._process.suspend()
            self._judge()

    async def resume(self) -> None:
        """SIGCONT what `pause` stopped."""
        if self._process is not None and self._paused:
            self._paused = False
            await self._process.resume()
            self._watch.changed_at = self._clock()
            self._judge()

    # -- typing -----------------------------------------------------------------------------

    def inject(
        self, line: str, *, kind: LineKind = LineKind.TASK, on_step: StepCallback | None = None
    ) -> asyncio.Future[Outcome]:
        """Queue one line to be typed and submitted. Lines go out strictly in order, one at a time.

        The line waits while the pane boots, works, is paused, shows a dialog or holds a person's
        unfinished line. The future resolves to an Outcome; it never raises. `on_step` hears typed,
        submitted and picked-up as they happen. Cancelling the future takes the line out of the
        queue if its first byte has not been written.
        """
        if not self.alive:
            refused: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            reason = f"{self.spec.name} is not running"
            refused.set_result(Outcome(OutcomeKind.REFUSED, reason))
            return refused
        future = self._lines.put(line, kind, on_step)
        self._arm(0.0)
        return future

    def type_bytes(self, data: bytes) -> None:
        """Bytes from a person's keyboard. Held back while an injected line is under way, unless a
        dialog has opened meanwhile: the line waits for its answer.

        Raises InputOverflow if the agent has stopped reading and 8 MiB wait for it.
        """
        if self.alive and data:
            self._lines.person(data, self.state)

    @property
    def held_reason(self) -> str:
        """Why the line at the head of the queue has not gone out yet; empty if none waits."""
        return self._lines.held_reason

    # -- inside -----------------------------------------------------------------------------

    def _new_run(self) -> None:
        self._pane_id = str(uuid.uuid4())
        # Set by `stop`: an exit that comes now was asked for.
        self.stopping = False
        self.screen = make_engine(
            self.spec.engine, self._cols, self._rows, self.spec.history, self._write
        )
        self._status = Status(PaneState.BOOTING, Source.ACTIVITY, "not started", "", self._clock())
        self._boot = BootClock(self._clock())
        self._paused = False
        self._watch = Watch(self.screen, self.spec.chrome_markers, self._clock())
        self._lines = LineQueue(self._view, self._write, self._call, self._clock)

    def _call(self, function: Callable[..., None] | None, *args: object) -> None:
        if function is None:
            return
        try:
            function(*args)
        except Exception as error:  # a listener's fault is its own
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a pane's callback failed", "exception": error}
            )

    def _write(self, data: bytes) -> None:
        if self._process is not None:
            self._process.write(data)

    def _output(self, data: bytes) -> None:
        self.screen.feed(data)
        self._watch.written = True
        self._call(self.on_output, self, data)
        self._arm(SETTLE_SECONDS)

    def _exited(self, status: ExitStatus) -> None:
        self._cancel_timer()
        self._judge()
        self._lines.fail_all(f"{self.spec.name} has exited ({status})")
        self._call(self.on_exit, self, status)

    def _arm(self, delay: float) -> None:
        """Make sure the pane is looked at within `delay` seconds."""
        loop = asyncio.get_running_loop()
        when = loop.time() + delay
        if self._timer is not None:
            if self._timer_due <= when:
                return
            self._timer.cancel()
        self._timer, self._timer_due = loop.call_at(when, self._tick), when

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        try:
            if self._process is not None and self.pending:
                self._process.poll_output()  # a dialog may stand in what was not read yet
            self._judge()
            self._type()
        finally:  # whatever went wrong is reported by the loop; the pane must be looked at again
            if self.alive:
                self._arm(TYPING_TICK_SECONDS if self._lines.active else TICK_SECONDS)

    def _judge(self) -> None:
        """Classify anew and tell the listener if the state or its question changed."""
        watch, now = self._watch, self._clock()
        if (title := watch.look(now)) is not None:
            self._call(self.on_title, self, title)
        if self.spec.hooks is not None:
            watch.hear(self.spec.hooks.news())
        evidence = Evidence(
            exit=str(self.exit_status) if self.exit_status is not None else None,
            paused=self._paused,
            signal=self.screen.signal,
            title=self.screen.title,
            rows=watch.rows,
            cursor=(self.screen.cursor.y, self.screen.cursor.x),
            quiet=now - watch.changed_at,
            booted=self._boot.booted(
                now, watch.changed_at, watch.picture != (), self.screen.signal, self._shows_ready()
            ),
            input_prompts=self.spec.input_prompts,
            marks=self.spec.marks,
            hook=watch.hook,
        )
        fresh = classify(evidence, now)
        old = self._status
        if (fresh.state, fresh.question) == (old.state, old.question):
            if fresh.evidence != old.evidence:
                self._status = Status(
                    fresh.state, fresh.source, fresh.evidence, fresh.question, old.since
                )
            return
        self._status = fresh
        self._call(self.on_status, self, fresh)

    def _shows_ready(self) -> bool | None:
        """What a known agent shows of whether it takes input; None for one without marks."""
        marks = self.spec.marks
        if not marks.know_ready or self._process is None:
            return None
        raw = self._process.line_limit() is None
        return marks.are_ready(self._watch.rows, raw=raw, paste=self.screen.bracketed_paste)

    def _type(self) -> None:
        """Drive the injection under way, or begin the next one."""
        if self.pending and self._watch.mid_update(self._clock()):
            self._arm(SETTLE_SECONDS)
        elif (wait := self._lines.drive()) is not None:
            self._arm(wait)

    def _view(self) -> View:
        process = self._process
        return View(
            rows=self._watch.rows,
            cursor=(self.screen.cursor.y, self.screen.cursor.x),
            state=self._status.state,
            certain=self._status.source.is_fact,
            bracketed_paste=self.screen.bracketed_paste,
            person_typing=self._lines.person_typing,
            facts=self._watch.facts,
            line_limit=process.line_limit() if process is not None else None,
            unread=process.unread() if process is not None else 0,
            leftover=self._lines.leftover,
        )
