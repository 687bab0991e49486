"""A pane: one agent's process, its screen, its state and the queue of lines waiting to be typed.

Invariants: at most one injection is under way in a pane; bytes from a person never fall between
the text of an injected line and its Enter; nothing is typed while the pane shows a dialog, is
paused or has not finished booting; every future of `inject` is resolved, also when the agent dies.
Everything here runs on one event loop and never blocks it. Called by the session core.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from deck.pane.errors import PaneError, PaneStartError
from deck.pane.hooks import HookFile
from deck.pane.human_line import HumanLine
from deck.pane.keys import CLEARING
from deck.pane.process import ExitStatus, PaneProcess
from deck.pane.sight import View
from deck.pane.status import (
    DEFAULT_CHROME,
    NO_MARKS,
    BootClock,
    Evidence,
    Marks,
    PaneState,
    Signal,
    Source,
    Status,
    classify,
    is_chrome,
    title_shows_work,
)
from deck.pane.terminal.engine import EngineKind, make_engine
from deck.pane.tree import StopProof
from deck.pane.typing import Done, LineKind, Outcome, OutcomeKind, Step, Typist, Write

# The screen is looked at again this long after output, so that a burst is judged once.
SETTLE_SECONDS = 0.03
# Ages (working window, boot quiet time) move without output; they are looked at this often.
TICK_SECONDS = 0.25
# An injection under way is looked at this often (its own waits are multiples of this).
TYPING_TICK_SECONDS = 0.05
# After a line the agent gets this long to say that it works, before the next line is considered.
BETWEEN_LINES_SECONDS = 0.3
# A synchronized update (mode 2026) may hide the screen from us for this long, not longer:
# a child that dies inside one would otherwise freeze its state.
SYNC_LIMIT_SECONDS = 0.15
# Contract: the raw transcript reaches the disk at least this often.
LOG_FLUSH_SECONDS = 15.0

StatusCallback = Callable[["Pane", Status], None]
ExitCallback = Callable[["Pane", ExitStatus], None]
TitleCallback = Callable[["Pane", str], None]
OutputCallback = Callable[["Pane", bytes], None]
StepCallback = Callable[[Step], None]


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
    log_path: Path | None = None


@dataclass(slots=True)
class _Pending:
    typist: Typist
    future: asyncio.Future[Outcome]
    on_step: StepCallback | None
    reported: Step = Step.QUEUED


@dataclass(slots=True)
class _Log:
    """The optional raw transcript: 0600, appended, flushed by time."""

    path: Path
    buffer: bytearray = field(default_factory=bytearray)
    fd: int = -1

    def open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self.fd = os.open(self.path, flags, 0o600)
            os.fchmod(self.fd, 0o600)
        except OSError as error:
            reason = f"the transcript {self.path} cannot be written: {error.strerror}"
            raise PaneStartError(reason) from None

    def flush(self) -> None:
        if self.fd >= 0 and self.buffer:
            data, self.buffer = bytes(self.buffer), bytearray()
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self.fd, view) :]
            except OSError:  # a full disk must not stop the agent
                return

    def close(self) -> None:
        self.flush()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


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
        self._chrome = (*DEFAULT_CHROME, *(m.lower() for m in spec.chrome_markers))
        self._rows, self._cols = spec.rows, spec.cols
        self._queue: deque[_Pending] = deque()
        self._active: _Pending | None = None
        self._held_input: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0  # asked of ourselves: uvloop's handles do not tell
        self._log: _Log | None = None
        self._log_due = 0.0
        self._process: PaneProcess | None = None
        self._paused = False
        self._starting = False
        self._next_line_at = 0.0
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
        return max(0.0, self._clock() - self._changed_at)

    @property
    def pending(self) -> int:
        """Lines accepted by `inject` and not yet finished."""
        return len(self._queue) + (self._active is not None)

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

    def preview(self, n: int = 3) -> list[str]:
        """The last n rows for a card: of the last 40 non-blank rows, those without chrome."""
        kept = [r for r in self.screen.last_lines(40) if not is_chrome(r, self._chrome)]
        return kept[-n:]

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
        if self.spec.log_path is not None and self._log is None:
            log = _Log(self.spec.log_path)
            log.open()
            self._log = log
        env = {**self.spec.env, "CHORAGOS_PANE": self._pane_id}
        self._process = PaneProcess(on_output=self._output, on_exit=self._exited)
        self._started_at = self._changed_at = self._boot.started = self._clock()
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
        self._fail_all("the pane was stopped")
        self._cancel_timer()
        if self._log is not None:
            self._log.close()
            self._log = None
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
        self._chrome = (*DEFAULT_CHROME, *(m.lower() for m in chrome_markers))
        self._dirty = True

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
            self._changed_at = self._clock()
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
        loop = asyncio.get_running_loop()
        pending = _Pending(Typist(line, kind, self._clock()), loop.create_future(), on_step)
        if not self.alive:
            reason = f"{self.spec.name} is not running"
            pending.future.set_result(Outcome(OutcomeKind.REFUSED, reason))
            return pending.future
        if kind is LineKind.BOOT:
            if self._active is not None and not self._active.typist.under_way:
                self._queue.appendleft(self._active)
                self._active = None
            self._queue.appendleft(pending)
        else:
            self._queue.append(pending)
        self._arm(0.0)
        return pending.future

    def type_bytes(self, data: bytes) -> None:
        """Bytes from a person's keyboard. Held back while an injected line is under way, unless a
        dialog has opened meanwhile: the line waits for its answer.

        Raises InputOverflow if the agent has stopped reading and 8 MiB wait for it.
        """
        if self._process is None or not self.alive or not data:
            return
        blocked = self.state is PaneState.BLOCKED
        if self._active is not None and self._active.typist.under_way and not blocked:
            self._held_input.append(data)
            return
        if blocked:
            self._human.clear()  # keys that answer a dialog begin no line
        else:
            working = self.state in (PaneState.WORKING, PaneState.SILENT)
            self._human.feed(data, self._clock(), working=working)
        self._process.write(data)

    @property
    def held_reason(self) -> str:
        """Why the line at the head of the queue has not gone out yet; empty if none waits."""
        head = self._active or (self._queue[0] if self._queue else None)
        return head.typist.held if head else ""

    # -- inside -----------------------------------------------------------------------------

    def _new_run(self) -> None:
        self._pane_id = str(uuid.uuid4())
        # Set by `stop`: an exit that comes now was asked for.
        self.stopping = False
        self.screen = make_engine(
            self.spec.engine, self._cols, self._rows, self.spec.history, self._reply
        )
        self._status = Status(PaneState.BOOTING, Source.ACTIVITY, "not started", "", self._clock())
        self._boot = BootClock(self._clock())
        self._human = HumanLine()
        self._stands = False
        self._paused = False
        self._started_at = self._changed_at = self._clock()
        self._dirty = True
        self._picture: tuple[str, ...] = ()
        self._view_rows: tuple[str, ...] = ()
        self._seen_title = ""
        self._seen_signal = 0
        self._facts = 0
        self._hook: Signal | None = None
        self._sync_since: float | None = None

    def _call(self, function: Callable[..., None] | None, *args: object) -> None:
        if function is None:
            return
        try:
            function(*args)
        except Exception as error:  # a listener's fault is its own
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a pane's callback failed", "exception": error}
            )

    def _reply(self, data: bytes) -> None:
        if self._process is not None:
            self._process.write(data)

    def _output(self, data: bytes) -> None:
        self.screen.feed(data)
        self._dirty = True
        if self._log is not None:
            self._log.buffer += data
            if self._clock() >= self._log_due or len(self._log.buffer) > 256 * 1024:
                self._log.flush()
                self._log_due = self._clock() + LOG_FLUSH_SECONDS
        self._call(self.on_output, self, data)
        self._arm(SETTLE_SECONDS)

    def _exited(self, status: ExitStatus) -> None:
        self._cancel_timer()
        self._judge()
        self._fail_all(f"{self.spec.name} has exited ({status})")
        if self._log is not None:
            self._log.flush()
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
                self._arm(TYPING_TICK_SECONDS if self._active else TICK_SECONDS)
        if self._log is not None and self._log.buffer and self._clock() >= self._log_due:
            self._log.flush()
            self._log_due = self._clock() + LOG_FLUSH_SECONDS

    def _hear_hooks(self) -> None:
        """Take what the agent's hooks have said since the last look."""
        for signal in self.spec.hooks.news() if self.spec.hooks is not None else ():
            self._hook = signal
            self._facts += signal.state == "working"

    def _look(self) -> None:
        """Take a new picture of the screen if something was written and no update is half done."""
        if self._mid_update() or not self._dirty:
            return
        now = self._clock()
        self._dirty = False
        self._view_rows = tuple(self.screen.rows())
        picture = tuple(r for r in self._view_rows if r and not is_chrome(r, self._chrome))
        if picture != self._picture:
            self._picture = picture
            self._changed_at = now
        if self.screen.title != self._seen_title:
            self._seen_title = self.screen.title
            self._facts += title_shows_work(self._seen_title)
            self._call(self.on_title, self, self._seen_title)
        if self.screen.signal_count != self._seen_signal:
            self._seen_signal = self.screen.signal_count
            signal = self.screen.signal
            self._facts += signal is not None and signal.state != "idle"

    def _mid_update(self) -> bool:
        """Whether the screen is half drawn, by the program's own word and for a short time only."""
        if not self.screen.synchronized:
            self._sync_since = None
            return False
        if self._sync_since is None:
            self._sync_since = self._clock()
        return self._clock() - self._sync_since < SYNC_LIMIT_SECONDS

    def _judge(self) -> None:
        """Classify anew and tell the listener if the state or its question changed."""
        self._look()
        self._hear_hooks()
        now = self._clock()
        evidence = Evidence(
            exit=str(self.exit_status) if self.exit_status is not None else None,
            paused=self._paused,
            signal=self.screen.signal,
            title=self.screen.title,
            rows=self._view_rows,
            cursor=(self.screen.cursor.y, self.screen.cursor.x),
            quiet=now - self._changed_at,
            booted=self._boot.booted(
                now, self._changed_at, self._picture != (), self.screen.signal, self._shows_ready()
            ),
            input_prompts=self.spec.input_prompts,
            marks=self.spec.marks,
            hook=self._hook,
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
        return marks.are_ready(self._view_rows, raw=raw, paste=self.screen.bracketed_paste)

    def _type(self) -> None:
        """Drive the injection under way, or begin the next one."""
        if self.pending and self._mid_update():
            self._arm(SETTLE_SECONDS)
            return
        while True:
            if self._active is None:
                if not self._queue:
                    return
                if (left := self._next_line_at - self._clock()) > 0:
                    self._arm(left)
                    return
                self._active = self._queue.popleft()
            pending = self._active
            if pending.future.cancelled() and not pending.typist.under_way:
                self._active = None
                continue
            action = pending.typist.step(self._clock(), self._view())
            self._announce(pending)
            if isinstance(action, Write):
                try:
                    assert self._process is not None
                    self._process.write(action.data)
                    if action.data == CLEARING[-1]:
                        self._human.clear()
                        self._stands = False
                except PaneError as error:
                    self._finish(pending, pending.typist.abandon(str(error)))
                continue
            if isinstance(action, Done):
                self._finish(pending, action.outcome)
                continue
            self._arm(max(action.seconds, 0.001))
            return

    def _view(self) -> View:
        process = self._process
        return View(
            rows=self._view_rows,
            cursor=(self.screen.cursor.y, self.screen.cursor.x),
            state=self._status.state,
            certain=self._status.source.is_fact,
            bracketed_paste=self.screen.bracketed_paste,
            person_typing=self._human.open_at(self._clock()),
            facts=self._facts,
            line_limit=process.line_limit() if process is not None else None,
            unread=process.unread() if process is not None else 0,
            leftover=self._stands or self._human.left_at(self._clock()),
        )

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
        held, self._held_input = self._held_input, []
        for data in held:
            with contextlib.suppress(PaneError):
                self.type_bytes(data)

    def _fail_all(self, reason: str) -> None:
        waiting = [*([self._active] if self._active else []), *self._queue]
        self._queue.clear()
        self._active = None
        self._held_input.clear()
        for pending in waiting:
            if not pending.future.done():
                pending.future.set_result(pending.typist.abandon(reason))
