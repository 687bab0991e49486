"""One injected line, step by step, against a simulated terminal and a clock that the test owns."""

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from deck.pane.keys import (
    CLEARING,
    ENTER,
    ENTER_DELAY_SECONDS,
    PASTE_END,
    PASTE_START,
)
from deck.pane.sight import Sight, View
from deck.pane.status import PaneState
from deck.pane.typing import (
    BOOT_INJECTIONS,
    Done,
    LineKind,
    OutcomeKind,
    Step,
    Typist,
    Wait,
    Write,
)

LINE = "Read .choragos/worker-task-coder.md for your task."


class Agent:
    """A make-believe agent: a transcript, a composer, and habits to be met."""

    def __init__(self, *, swallow: int = 0, echo: bool = True, paste: bool = False) -> None:
        self.transcript: list[str] = ["welcome"]
        self.input = ""
        self.swallow = swallow
        self.echo = echo
        self.state = PaneState.IDLE
        self.certain = False
        self.paste = paste
        self.person = False
        self.facts = 0
        self.received: list[bytes] = []
        self.submitted: list[str] = []
        self.width = 60
        self.boxed = False
        self.limit: int | None = None
        self.deaf = False
        self.reading = True
        self.waiting: list[bytes] = []
        self.left = False

    def write(self, data: bytes) -> None:
        self.received.append(data)
        if not self.reading:
            self.waiting.append(data)
        elif not self.deaf:
            self.take(data)

    def wake(self) -> None:
        """Begin to read: what has waited arrives at once, so an Enter in it is a line break."""
        self.reading = True
        for data in self.waiting:
            self.take(data if data != b"\r" else b" ")
        self.waiting.clear()

    def take(self, data: bytes) -> None:
        if data in CLEARING:
            if data == b"\x15":
                self.input, self.left = "", False
            return
        text = data.decode().replace("\x1b[200~", "").replace("\x1b[201~", "")
        if text == "\r":
            if self.swallow:
                self.swallow -= 1
                return
            self.submitted.append(self.input)
            if self.echo:
                self.transcript.append(f"> {self.input}")
            self.input = ""
            return
        self.input += text

    def view(self) -> View:
        shown = self.input if self.echo else ""
        room = self.width - 4 if self.boxed else self.width
        body = "> " + shown
        parts = [body[i : i + room] for i in range(0, len(body), room)] or [""]
        cursor = (len(self.transcript) + len(parts) - 1, len(parts[-1]))
        if self.boxed:
            rows = ["╭" + "─" * (self.width - 2) + "╮"]
            rows += [f"│ {p:<{room}} │" for p in parts]
            rows += ["╰" + "─" * (self.width - 2) + "╯"]
            cursor = (cursor[0] + 1, cursor[1] + 2)
        else:
            rows = parts
        return View(
            rows=(*self.transcript, *rows),
            cursor=cursor,
            state=self.state,
            certain=self.certain,
            bracketed_paste=self.paste,
            person_typing=self.person,
            facts=self.facts,
            line_limit=self.limit,
            unread=sum(map(len, self.waiting)),
            leftover=self.left,
        )


def drive(
    typist: Typist, agent: Agent, now: float = 0.0, until: float = 60.0
) -> tuple[Done | None, float]:
    """Run the clock until the line is done or time is up."""
    while now < until:
        action = typist.step(now, agent.view())
        if isinstance(action, Write):
            agent.write(action.data)
        elif isinstance(action, Wait):
            assert action.seconds > 0
            now += action.seconds
        else:
            return action, now
    return None, now


def finished(typist: Typist, agent: Agent) -> Done:
    done, _ = drive(typist, agent)
    assert done is not None
    return done


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("paste", [False, True])
def test_text_and_enter_are_two_writes_and_the_line_is_proved(boxed: bool, paste: bool) -> None:
    agent = Agent(paste=paste)
    agent.boxed = boxed
    typist = Typist(LINE * 3, LineKind.TASK, 0.0)
    done, now = drive(typist, agent)
    assert done is not None
    assert done.outcome.kind is OutcomeKind.DELIVERED
    assert done.outcome.verified
    text = (LINE * 3).encode()
    assert agent.received == [b"\x1b[200~" + text + b"\x1b[201~" if paste else text, b"\r"]
    assert agent.submitted == [LINE * 3]
    assert 0.2 <= now < 0.6
    assert typist.step_reached is Step.PICKED_UP


def test_an_enter_that_was_swallowed_is_repeated_once() -> None:
    agent = Agent(swallow=1)
    done = finished(Typist(LINE, LineKind.TASK, 0.0), agent)
    assert (done.outcome.kind, done.outcome.enters) == (OutcomeKind.DELIVERED, 2)
    assert agent.submitted == [LINE]


def test_a_redraw_that_hides_the_input_for_a_moment_proves_nothing() -> None:
    agent = Agent(swallow=1)
    typist = Typist(LINE, LineKind.TASK, 0.0)
    now, entered = 0.0, 0.0
    done = None
    while done is None:
        view = agent.view()
        if agent.received.count(b"\r") == 1 and 0.05 < now - entered < 0.15:
            view = replace(view, rows=("welcome",), cursor=(0, 0))
        action = typist.step(now, view)
        if isinstance(action, Write):
            agent.write(action.data)
            entered = now
        elif isinstance(action, Wait):
            now += action.seconds
        else:
            done = action
    assert (done.outcome.kind, done.outcome.enters) == (OutcomeKind.DELIVERED, 2)
    assert agent.submitted == [LINE]


def test_enter_waits_for_the_text_to_show_in_an_agent_that_is_slow_to_draw() -> None:
    agent = Agent()
    agent.echo = False
    typist = Typist(LINE, LineKind.TASK, 0.0)
    _, now = drive(typist, agent, until=1.5)
    assert agent.received == [LINE.encode()]
    agent.echo = True
    done, end = drive(typist, agent, now)
    assert done is not None
    assert (done.outcome.kind, done.outcome.enters) == (OutcomeKind.DELIVERED, 1)
    assert end < now + 0.5


def test_a_line_left_standing_in_the_input_is_known_to_stand_there() -> None:
    typist = Typist(LINE, LineKind.TASK, 0.0)
    finished(typist, Agent(swallow=9))
    assert typist.stands
    typist = Typist(LINE, LineKind.TASK, 0.0)
    finished(typist, Agent())
    assert not typist.stands


def test_an_enter_is_never_sent_a_third_time() -> None:
    agent = Agent(swallow=9)
    done = finished(Typist(LINE, LineKind.TASK, 0.0), agent)
    assert done.outcome.kind is OutcomeKind.UNVERIFIED
    assert "still stands" in done.outcome.reason
    assert agent.received.count(b"\r") == 2
    assert len(agent.received) == 3


@pytest.mark.parametrize(
    "state",
    [PaneState.BLOCKED, PaneState.BOOTING, PaneState.PAUSED, PaneState.SILENT],
)
@pytest.mark.parametrize("kind", list(LineKind))
def test_nothing_is_written_while_the_pane_cannot_take_a_line(
    state: PaneState, kind: LineKind
) -> None:
    agent = Agent()
    agent.state = state
    typist = Typist(LINE, kind, 0.0)
    done, now = drive(typist, agent, until=600)
    assert done is None
    assert agent.received == []
    assert state.value in typist.held
    agent.state = PaneState.IDLE
    done, _ = drive(typist, agent, now, now + 30)
    assert done is not None
    assert done.outcome.verified


def test_a_busy_agent_that_says_so_keeps_the_line_waiting() -> None:
    agent = Agent()
    agent.state, agent.certain = PaneState.WORKING, True
    done, _ = drive(Typist(LINE, LineKind.TASK, 0.0), agent, until=600)
    assert done is None
    assert agent.received == []


def test_a_screen_that_merely_moves_is_not_believed_for_ever() -> None:
    agent = Agent()
    agent.state = PaneState.WORKING
    done, now = drive(Typist(LINE, LineKind.TASK, 0.0), agent, until=60)
    assert done is not None
    assert 20 <= now < 22


def test_a_persons_unfinished_line_is_not_written_into() -> None:
    agent = Agent()
    agent.person = True
    typist = Typist(LINE, LineKind.TASK, 0.0)
    done, now = drive(typist, agent, until=30)
    assert done is None
    assert agent.received == []
    assert "person" in typist.held
    agent.person = False
    assert drive(typist, agent, now)[0] is not None


def test_enter_is_not_sent_into_a_dialog_that_opened_in_between() -> None:
    agent = Agent()
    typist = Typist(LINE, LineKind.TASK, 0.0)
    action = typist.step(0.0, agent.view())
    assert isinstance(action, Write)
    agent.write(action.data)
    agent.state = PaneState.BLOCKED
    done, now = drive(typist, agent, 0.01, 100)
    assert done is None
    assert agent.received == [LINE.encode()]
    agent.state = PaneState.IDLE
    done, _ = drive(typist, agent, now, now + 10)
    assert done is not None
    assert agent.submitted == [LINE]
    assert done.outcome.injections == 1


def test_a_text_that_the_dialog_swallowed_is_typed_again_when_it_has_closed() -> None:
    agent = Agent()
    typist = Typist(LINE, LineKind.TASK, 0.0)
    assert isinstance(typist.step(0.0, agent.view()), Write)
    agent.state = PaneState.BLOCKED
    _, now = drive(typist, agent, 0.01, 5)
    agent.state = PaneState.IDLE
    done, _ = drive(typist, agent, now, now + 10)
    assert done is not None
    assert agent.submitted == [LINE]
    assert done.outcome.injections == 2


def test_a_second_enter_is_not_sent_when_a_dialog_answers_the_first() -> None:
    agent = Agent(swallow=1)
    typist = Typist(LINE, LineKind.TASK, 0.0)
    now = 0.0
    while not agent.received.count(b"\r"):
        action = typist.step(now, agent.view())
        if isinstance(action, Write):
            agent.write(action.data)
        else:
            assert isinstance(action, Wait)
            now += action.seconds
    agent.state = PaneState.BLOCKED
    done, _ = drive(typist, agent, now, now + 60)
    assert done is not None
    assert agent.received.count(b"\r") == 1
    assert "blocked" in done.outcome.reason


def test_a_boot_line_that_was_dropped_is_typed_again_and_never_a_third_time() -> None:
    agent = Agent()
    agent.deaf = True
    typist = Typist(LINE, LineKind.BOOT, 0.0)
    _, now = drive(typist, agent, until=2.5)
    agent.deaf = False
    done, _ = drive(typist, agent, now)
    assert done is not None
    assert (done.outcome.kind, done.outcome.injections) == (OutcomeKind.DELIVERED, 2)
    assert agent.submitted == [LINE]
    deaf = Agent()
    deaf.deaf = True
    done = finished(Typist(LINE, LineKind.BOOT, 0.0), deaf)
    assert (done.outcome.kind, done.outcome.injections) == (OutcomeKind.UNVERIFIED, 2)


def test_enter_waits_until_the_text_has_been_read() -> None:
    agent = Agent()
    agent.reading = False
    typist = Typist(LINE, LineKind.BOOT, 0.0)
    done, now = drive(typist, agent, until=9)
    assert done is None
    assert agent.received == [LINE.encode()]
    agent.wake()
    done, _ = drive(typist, agent, now)
    assert done is not None
    assert (done.outcome.kind, done.outcome.injections) == (OutcomeKind.DELIVERED, 1)
    assert agent.submitted == [LINE]


def test_an_agent_that_never_reads_is_given_up_without_a_second_copy() -> None:
    agent = Agent()
    agent.reading = False
    done, now = drive(Typist(LINE, LineKind.BOOT, 0.0), agent)
    assert done is not None
    assert done.outcome.kind is OutcomeKind.UNVERIFIED
    assert "does not read" in done.outcome.reason
    assert agent.received == [LINE.encode()]
    assert 30 <= now < 31


def test_an_agent_that_takes_over_its_terminal_late_gets_one_enter_more() -> None:
    agent = Agent()
    agent.limit = 4095
    typist = Typist(LINE, LineKind.BOOT, 0.0)
    now = 0.0
    while not agent.received.count(b"\r"):
        action = typist.step(now, agent.view())
        if isinstance(action, Write):
            agent.reading = action.data != b"\r"  # the terminal's own echo shows the text
            agent.write(action.data)
        else:
            assert isinstance(action, Wait)
            now += action.seconds
    done, now = drive(typist, agent, now, now + 4)
    assert done is None
    agent.limit = None
    agent.wake()
    done, _ = drive(typist, agent, now, now + 10)
    assert done is not None
    assert done.outcome.enters == 2
    assert [text.strip() for text in agent.submitted] == [LINE]


def test_a_task_that_never_showed_is_not_typed_twice() -> None:
    agent = Agent(echo=False)
    done = finished(Typist(LINE, LineKind.TASK, 0.0), agent)
    assert done.outcome.kind is OutcomeKind.UNVERIFIED
    assert "never seen" in done.outcome.reason
    assert agent.submitted == [LINE]


def test_the_agents_own_word_proves_a_line_that_never_showed() -> None:
    agent = Agent(echo=False)
    typist = Typist(LINE, LineKind.TASK, 0.0)
    now = 0.0
    done = None
    while done is None:
        action = typist.step(now, agent.view())
        if isinstance(action, Write):
            agent.write(action.data)
            agent.facts += action.data == b"\r"
        elif isinstance(action, Wait):
            now += action.seconds
        else:
            done = action
    assert done.outcome.verified


def test_an_agent_that_exits_ends_the_line_at_once() -> None:
    agent = Agent()
    agent.state = PaneState.EXITED
    assert finished(Typist(LINE, LineKind.TASK, 0.0), agent).outcome.kind is OutcomeKind.REFUSED


@pytest.mark.parametrize("line", ["", "  \r\n ", "\x1b\x07"])
def test_an_empty_line_is_refused(line: str) -> None:
    done = finished(Typist(line, LineKind.TASK, 0.0), Agent())
    assert done.outcome.kind is OutcomeKind.REFUSED
    assert "empty" in done.outcome.reason


def test_a_line_that_the_terminal_would_cut_is_refused() -> None:
    agent = Agent()
    agent.limit = 4095
    done = finished(Typist("x" * 4096, LineKind.TASK, 0.0), agent)
    assert done.outcome.kind is OutcomeKind.REFUSED
    assert agent.received == []


def test_a_spinner_below_the_input_does_not_pass_for_a_submission() -> None:
    agent = Agent()
    agent.input = LINE
    before = agent.view()
    moved = replace(before, rows=(*before.rows, "✻ 12 tips"), cursor=(0, 0))
    moved_on = replace(before, rows=(*before.rows, "✶ 13 tips"), cursor=(0, 0))
    assert not Sight(LINE, moved_on).left_since(Sight(LINE, moved))


def test_what_a_person_left_in_the_input_is_cleared_before_a_line_is_typed() -> None:
    agent = Agent()
    agent.input = "half a thought"
    agent.left = True
    done = finished(Typist(LINE, LineKind.TASK, 0.0), agent)
    assert done.outcome.verified
    assert agent.received == [*CLEARING, LINE.encode(), b"\r"]
    assert agent.submitted == [LINE]


def test_nothing_is_cleared_into_a_dialog_that_opens_meanwhile() -> None:
    agent = Agent()
    agent.left = True
    typist = Typist(LINE, LineKind.TASK, 0.0)
    assert typist.step(0.0, agent.view()) == Write(CLEARING[0])
    agent.state = PaneState.BLOCKED
    done, now = drive(typist, agent, 0.01, 5)
    assert done is None
    assert not typist.under_way
    assert agent.received == []
    agent.state = PaneState.IDLE
    assert drive(typist, agent, now)[0] is not None
    assert agent.submitted == [LINE]


def test_the_terminals_echo_from_before_the_agent_took_over_is_not_its_input() -> None:
    agent = Agent()
    agent.limit, agent.deaf = 4095, True
    typist = Typist(LINE, LineKind.BOOT, 0.0)
    now = 0.0
    while not agent.received.count(b"\r"):
        action = typist.step(now, agent.view())
        if isinstance(action, Write):
            agent.write(action.data)
            if action.data != b"\r":
                agent.transcript.append(LINE)  # the terminal's own echo; the agent drops the text
        else:
            assert isinstance(action, Wait)
            now += action.seconds
    agent.limit, agent.deaf = None, False
    done, _ = drive(typist, agent, now, now + 20)
    assert done is not None
    assert (done.outcome.kind, done.outcome.injections) == (OutcomeKind.DELIVERED, 2)
    assert agent.submitted == [LINE]


_CANNOT_TAKE_A_LINE = (PaneState.BLOCKED, PaneState.BOOTING, PaneState.PAUSED)


class Whims(RuleBasedStateMachine):
    """One line, an agent that does anything at any time, and what must hold whatever it does."""

    def __init__(self) -> None:
        super().__init__()
        self.agent = Agent()
        self.typist: Typist | None = None
        self.now = 0.0
        self.written: list[tuple[float, bytes]] = []
        self.done: Done | None = None

    @initialize(kind=st.sampled_from(list(LineKind)), words=st.text(min_size=1, max_size=60))
    def begin(self, kind: LineKind, words: str) -> None:
        self.typist = Typist(words, kind, 0.0)

    @rule(
        state=st.sampled_from([s for s in PaneState if s is not PaneState.EXITED]),
        certain=st.booleans(),
    )
    def change_state(self, state: PaneState, certain: bool) -> None:
        self.agent.state, self.agent.certain = state, certain

    @rule(paste=st.booleans(), person=st.booleans(), left=st.booleans())
    def change_input(self, paste: bool, person: bool, left: bool) -> None:
        self.agent.paste, self.agent.person, self.agent.left = paste, person, left

    @rule(
        deaf=st.booleans(),
        echo=st.booleans(),
        reading=st.booleans(),
        limit=st.sampled_from([None, 4095, 20]),
    )
    def change_habits(self, deaf: bool, echo: bool, reading: bool, limit: int | None) -> None:
        self.agent.deaf, self.agent.echo, self.agent.limit = deaf, echo, limit
        if reading:
            self.agent.wake()
        else:
            self.agent.reading = False

    @rule(swallow=st.integers(0, 3))
    def swallow(self, swallow: int) -> None:
        self.agent.swallow = swallow

    @rule()
    def say_something(self) -> None:
        self.agent.facts += 1

    @rule()
    def redraw(self) -> None:
        self.agent.transcript.append(f"✻ {self.now}")

    @rule(seconds=st.floats(0.01, 40))
    def go_on(self, seconds: float) -> None:
        until = self.now + seconds
        while self.done is None and self.now < until and self.typist is not None:
            view = self.agent.view()
            action = self.typist.step(self.now, view)
            if isinstance(action, Write):
                self.check(action.data, view)
                self.agent.write(action.data)
                self.written.append((self.now, action.data))
            elif isinstance(action, Wait):
                assert action.seconds > 0
                self.now += action.seconds
            else:
                self.done = action

    def check(self, data: bytes, view: View) -> None:
        assert view.state not in _CANNOT_TAKE_A_LINE
        if data in CLEARING:
            assert view.leftover
            assert not view.person_typing
        elif data == ENTER:
            before, last = self.written[-1]
            if last != ENTER:
                assert self.now - before >= ENTER_DELAY_SECONDS - 1e-9
        else:
            assert b"\r" not in data
            assert data.startswith(PASTE_START) == view.bracketed_paste
            bare = data.removeprefix(PASTE_START).removesuffix(PASTE_END)
            assert view.line_limit is None or len(bare) <= view.line_limit

    @invariant()
    def is_bounded(self) -> None:
        texts = [data for _, data in self.written if data != ENTER and data not in CLEARING]
        enters = [data for _, data in self.written if data == ENTER]
        assert len(texts) <= BOOT_INJECTIONS
        assert len(enters) <= len(texts) + 1

    @invariant()
    def what_is_proved_was_submitted(self) -> None:
        if self.done is not None and self.done.outcome.verified:
            assert any(data == ENTER for _, data in self.written)


TestWhims = Whims.TestCase
TestWhims.settings = settings(max_examples=120, stateful_step_count=25, deadline=None)
