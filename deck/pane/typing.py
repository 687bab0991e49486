"""How one line is typed into an agent and proved submitted. Pure: views in, actions out.

Owns the rules of injection: nothing is written while the pane is booting, paused, busy, blocked
by a dialog, or holds a person's unfinished line; what a person has left behind in the input (a line
given up, or the prompt that Esc brings back) is cleared first; text and Enter are separate writes
200 ms apart; Enter is not sent into a dialog that opened in between; after Enter the text must have
left the input (`sight`) or the agent must have said something, else Enter goes out once more, never
twice. The result says what was proved, not what was hoped. Driven by `pane`, which does the writing
and the waiting.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from deck.pane.keys import (
    CLEARING,
    ENTER,
    ENTER_DELAY_SECONDS,
    PASTE_END,
    PASTE_START,
    sanitize,
)
from deck.pane.sight import VERIFY_CHARS, Sight, View, squeeze, squeezed_page
from deck.pane.status import PaneState

# Enter waits until the text is on the screen: a busy agent reads late, and would take text and
# Enter for one paste however far apart they were written. One that shows nothing gets it after all.
SHOW_SECONDS: Final = 2.0
SHOWN_FOR_SECONDS: Final = 0.1
# How long after Enter the agent may take to react before Enter is repeated.
CONFIRM_SECONDS: Final = 1.5
# The text must stay away this long: a screen that is redrawn in pieces (Gemini CLI, which has no
# mode 2026) shows the input without it for a moment.
LEFT_SECONDS: Final = 0.15
# Contract 1.7: a boot line must be visible within this, else it is typed again, twice in all.
VERIFY_SECONDS: Final = 3.0
BOOT_INJECTIONS: Final = 2
# A screen that merely moves (a clock, an animation) is not believed to be work for ever.
HINT_PATIENCE_SECONDS: Final = 20.0
# An agent that starts slowly (measured: 9 s for a first start of codex) or is busy reads late.
UNREAD_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.05
CLEAR_SECONDS: Final = 0.1


#: States in which a key goes astray, or answers what it was not meant for.
_SHUT: Final = (PaneState.BLOCKED, PaneState.PAUSED, PaneState.BOOTING)


class LineKind(StrEnum):
    """Why a line is typed: a boot brief (verified, retyped once), a task, or a notice."""

    BOOT = "boot"
    TASK = "task"
    NOTICE = "notice"


class Step(StrEnum):
    """How far a line has come; each is reached at most once, in this order."""

    QUEUED = "queued"
    TYPED = "typed"
    SUBMITTED = "submitted"
    PICKED_UP = "picked-up"


class OutcomeKind(StrEnum):
    """DELIVERED: seen leaving the input. UNVERIFIED: not proved. REFUSED: not submitted."""

    DELIVERED = "delivered"
    UNVERIFIED = "unverified"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a line. `reason` is the sentence for the board, empty when delivered.

    `injections` and `enters` count how often the text and Enter were written.
    """

    kind: OutcomeKind
    reason: str
    injections: int = 0
    enters: int = 0

    @property
    def verified(self) -> bool:
        return self.kind is OutcomeKind.DELIVERED


@dataclass(frozen=True, slots=True)
class Write:
    """Send these bytes to the agent, then step again."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Step again after this many seconds, or sooner when something changes."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Done:
    outcome: Outcome


Action = Write | Wait | Done


class _Phase(Enum):
    HOLDING = 1
    TYPED = 2
    ENTERED = 3
    OVER = 4


class Typist:
    """The life of one injected line. Call `step` with the time and a view; do what it says."""

    def __init__(self, line: str, kind: LineKind, now: float) -> None:
        self.line = sanitize(line)
        self.kind = kind
        self.step_reached = Step.QUEUED
        self.held = ""
        self.enters = 0
        self.injections = 0
        self._phase = _Phase.HOLDING
        self._since = now
        self._hint_since: float | None = None
        self._before: Sight | None = None
        self._rows: tuple[str, ...] = ()
        self._facts = 0
        self._seen = False
        self._left_since: float | None = None
        self._written_at = now
        self._line_mode = False
        self._cleared = 0
        #: The text was left standing in the agent's input.
        self.stands = False
        self._count = 0
        self._shown_at: float | None = None
        # The page up to the terminal's own echo of the line, from before the agent took over.
        self._echo = ""

    @property
    def under_way(self) -> bool:
        """Whether bytes of this line have been written and its fate is not decided."""
        return self._phase in (_Phase.TYPED, _Phase.ENTERED) or self._cleared > 0

    def abandon(self, reason: str) -> Outcome:
        """The pane is gone: what can still be said about the line."""
        self._phase = _Phase.OVER
        kind = OutcomeKind.UNVERIFIED if self.enters else OutcomeKind.REFUSED
        return Outcome(kind, reason, self.injections, self.enters)

    def step(self, now: float, view: View) -> Action:
        """The next thing to do. After a Write call again at once, after a Wait when it is over."""
        if view.state is PaneState.EXITED:
            return Done(self.abandon("the agent has exited"))
        if self._phase is _Phase.HOLDING:
            return self._hold(now, view)
        if self._phase is _Phase.TYPED:
            return self._typed(now, view)
        return self._entered(now, view)

    # -- before the first byte

    def _hold(self, now: float, view: View) -> Action:
        if not self.line:
            return self._done(OutcomeKind.REFUSED, "the line is empty")
        if reason := self._too_long(view):
            return self._done(OutcomeKind.REFUSED, reason)
        self.held = self._obstacle(now, view)
        if self.held:
            self._cleared = 0
            return Wait(POLL_SECONDS * 2)
        if self._cleared and (left := self._since + CLEAR_SECONDS - now) > 0:
            return Wait(left)
        if view.leftover and self._cleared < len(CLEARING):
            self._cleared += 1
            self._since = now
            return Write(CLEARING[self._cleared - 1])
        return self._write_text(now, view)

    def _too_long(self, view: View) -> str:
        """Why the terminal would silently cut the line; empty if it would not."""
        size = len(self.line.encode())
        if view.line_limit is None or size <= view.line_limit:
            return ""
        return f"the line has {size} bytes; the agent's terminal takes {view.line_limit}"

    def _obstacle(self, now: float, view: View) -> str:
        """Why the line may not be typed now; empty if it may."""
        if view.person_typing:
            return "a person is typing in the pane"
        if self._cleared and view.state is PaneState.WORKING and not view.certain:
            return ""  # it is the clearing that moves the screen
        if view.state is PaneState.IDLE:
            self._hint_since = None
            return ""
        if view.state is PaneState.WORKING and not view.certain:
            if self.kind is LineKind.BOOT:
                return ""  # the pane has come to rest once: that is all a boot line waits for
            if self._hint_since is None:
                self._hint_since = now
            if now - self._hint_since >= HINT_PATIENCE_SECONDS:
                return ""
        else:
            self._hint_since = None
        return f"the pane is {view.state}"

    def _write_text(self, now: float, view: View) -> Action:
        self._phase = _Phase.TYPED
        self._since = self._written_at = now
        self._line_mode = view.line_limit is not None
        self._rows = view.rows
        self._count = Sight(self.line, view).count
        self._shown_at = None
        self.injections += 1
        self._cleared = 0
        self.held = ""
        self._reach(Step.TYPED)
        text = self.line.encode("utf-8", "replace")
        return Write(PASTE_START + text + PASTE_END if view.bracketed_paste else text)

    def _write_again(self, now: float, view: View) -> Action:
        if reason := self._too_long(view):
            return self._done(OutcomeKind.UNVERIFIED, reason)
        return self._write_text(now, view)

    # -- between text and Enter

    def _typed(self, now: float, view: View) -> Action:
        left = self._since + ENTER_DELAY_SECONDS - now
        if left > 0:
            # What shows meanwhile has been shown that long when Enter's time has come.
            shows = not self.held and view.state not in _SHUT
            if shows and self._still_unseen(now, Sight(self.line, view)):
                return Wait(min(left, POLL_SECONDS))
            return Wait(left)
        if view.state in _SHUT:
            # The dialog may have swallowed the text: look again once it is gone.
            self.held = f"the pane is {view.state}"
            return Wait(POLL_SECONDS * 2)
        late = now - self._written_at >= UNREAD_SECONDS
        if view.unread and view.line_limit is None:
            # It would meet Enter in one read, which several agents take for a line break.
            self._since = now
            return self._give_up(view) if late else Wait(POLL_SECONDS)
        if self.held and view.rows != self._rows and not late:
            self._rows, self._since = view.rows, now
            return Wait(POLL_SECONDS)
        sight = Sight(self.line, view)
        if self.held:
            if not self._arrived(sight, view) and self.injections < BOOT_INJECTIONS:
                if view.state is not PaneState.IDLE:
                    return Wait(POLL_SECONDS * 2)
                return self._write_again(now, view)
            self.held = ""
        if not late and self._still_unseen(now, sight):
            return Wait(POLL_SECONDS)
        self._seen = self._seen or sight.visible
        self._before = sight
        self._facts = view.facts
        self._line_mode = view.line_limit is not None
        if self._line_mode:
            self._remember_echo(view)
        return self._press(now)

    def _still_unseen(self, now: float, sight: Sight) -> bool:
        """Whether Enter has to wait for the text to show."""
        if sight.at_cursor or sight.collapsed or sight.count > self._count:
            self._shown_at = now if self._shown_at is None else self._shown_at
            return now < self._shown_at + SHOWN_FOR_SECONDS
        return now < self._written_at + SHOW_SECONDS

    def _arrived(self, sight: Sight, view: View) -> bool:
        """Whether the text stands in the agent's input, and not just where the terminal echoed it
        before the agent took over: Gemini CLI leaves the echo there and throws the text away."""
        if not self._echo or sight.at_cursor:
            return sight.shown or sight.collapsed
        page = squeezed_page(view.rows)
        if not page.startswith(self._echo):
            return sight.shown or sight.collapsed
        return squeeze(self.line)[-VERIFY_CHARS:] in page[len(self._echo) :] or sight.collapsed

    def _remember_echo(self, view: View) -> None:
        page, tail = squeezed_page(view.rows), squeeze(self.line)[-VERIFY_CHARS:]
        last = page.rfind(tail) if tail else -1
        self._echo = page[: last + len(tail)] if last >= 0 else ""

    def _press(self, now: float) -> Action:
        self._phase = _Phase.ENTERED
        self._left_since = None
        self._since = self._written_at = now
        self.enters += 1
        self._reach(Step.SUBMITTED)
        return Write(ENTER)

    # -- after Enter

    def _entered(self, now: float, view: View) -> Action:
        assert self._before is not None
        if view.unread:
            self._since = now
            late = now - self._written_at >= UNREAD_SECONDS
            return self._give_up(view) if late else Wait(POLL_SECONDS)
        if self._line_mode and view.line_limit is None and self.enters <= self.injections:
            # The agent took over its terminal only now, so its Enter arrived as a line break.
            self._phase = _Phase.TYPED
            self._since = now
            self.held = "the agent has just taken over its terminal"
            return Wait(POLL_SECONDS)
        sight = Sight(self.line, view)
        self._seen = self._seen or sight.visible
        reacted = view.facts != self._facts
        left = sight.left_since(self._before)
        if not left:
            self._left_since = None
        elif self._left_since is None:
            self._left_since = now
        if reacted or (left and (self._seen or self.kind is not LineKind.BOOT)):
            if (
                not reacted
                and self._left_since is not None
                and now < self._left_since + LEFT_SECONDS
            ):
                return Wait(POLL_SECONDS)
            self._reach(Step.PICKED_UP)
            return self._done(OutcomeKind.DELIVERED, "")
        waited = now - self._since
        if waited < CONFIRM_SECONDS or view.state in _SHUT:
            if waited >= VERIFY_SECONDS * 2:
                return self._give_up(view)
            return Wait(POLL_SECONDS)
        if self._before.shown or self._before.collapsed:
            # The text still stands in the input: the agent took no notice of Enter.
            return self._press(now) if self.enters <= self.injections else self._give_up(view)
        return self._unseen(now, view, waited)

    def _unseen(self, now: float, view: View, waited: float) -> Action:
        """The text never showed. A boot line is typed again; another may have arrived unseen."""
        if self.kind is LineKind.BOOT:
            if waited < VERIFY_SECONDS:
                return Wait(POLL_SECONDS)
            if self.injections < BOOT_INJECTIONS and not self._seen:
                if view.state not in (PaneState.IDLE, PaneState.WORKING):
                    return Wait(POLL_SECONDS * 2)
                return self._write_again(now, view)
        if self._seen:
            self._reach(Step.PICKED_UP)
            return self._done(OutcomeKind.DELIVERED, "")
        return self._give_up(view)

    def _give_up(self, view: View) -> Action:
        self.stands = Sight(self.line, view).at_cursor
        if view.state in _SHUT:
            reason = f"the pane became {view.state} while the line was being submitted"
        elif view.unread:
            reason = "the agent does not read its input; the line waits there"
        elif self._seen:
            reason = "the text still stands in the agent's input after a second Enter"
        else:
            reason = "the text was written but never seen on the agent's screen"
        return self._done(OutcomeKind.UNVERIFIED, reason)

    def _done(self, kind: OutcomeKind, reason: str) -> Done:
        self._phase = _Phase.OVER
        return Done(Outcome(kind, reason, self.injections, self.enters))

    def _reach(self, step: Step) -> None:
        order = list(Step)
        if order.index(step) > order.index(self.step_reached):
            self.step_reached = step
