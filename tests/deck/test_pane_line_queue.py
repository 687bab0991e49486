"""The order in which lines and a person's keys reach an agent; the clock is the test's."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from deck.pane.errors import InputOverflow
from deck.pane.keys import ENTER
from deck.pane.line_queue import LineQueue
from deck.pane.sight import View
from deck.pane.status import PaneState
from deck.pane.typing import LineKind, Outcome, OutcomeKind, Step

IDLE = View(
    rows=("> ",),
    cursor=(0, 2),
    state=PaneState.IDLE,
    certain=True,
    bracketed_paste=False,
    person_typing=False,
    facts=0,
)


class Agent:
    """Shows what is typed behind its prompt, and takes it away when Enter comes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.written: list[bytes] = []
        self.input = ""
        self.state = PaneState.IDLE
        self.is_full = False
        self.queue = LineQueue(self.view, self.write, self.call, lambda: self.now)

    def view(self) -> View:
        row = f"> {self.input}"
        return replace(
            IDLE,
            rows=(row,),
            cursor=(0, len(row)),
            state=self.state,
            person_typing=self.queue.person_typing,
            leftover=self.queue.leftover,
        )

    def write(self, data: bytes) -> None:
        if self.is_full:
            raise InputOverflow("the agent does not read its input")
        self.written.append(data)
        self.input = "" if data == ENTER else self.input + data.decode()

    def call(self, function: object, *args: object) -> None:
        if callable(function):
            function(*args)

    def put(self, line: str, kind: LineKind = LineKind.TASK) -> asyncio.Future[Outcome]:
        return self.queue.put(line, kind, None)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.queue.drive()
            self.now += 0.02


async def test_lines_go_out_one_at_a_time_in_their_order_and_a_boot_line_first() -> None:
    agent = Agent()
    first, second = agent.put("one"), agent.put("two")
    boot = agent.put("who you are", LineKind.BOOT)
    agent.pass_time(5)
    assert agent.written == [b"who you are", ENTER, b"one", ENTER, b"two", ENTER]
    assert all(line.result().verified for line in (boot, first, second))
    assert agent.queue.pending == 0


async def test_a_persons_keys_wait_until_the_line_under_way_is_submitted() -> None:
    agent = Agent()
    agent.put("one")
    agent.pass_time(0.1)
    assert agent.written == [b"one"]
    agent.queue.person(b"hello", PaneState.IDLE)
    agent.pass_time(2)
    assert agent.written == [b"one", ENTER, b"hello"]
    second = agent.put("two")
    agent.pass_time(2)
    assert not second.done()
    assert "a person" in agent.queue.held_reason


async def test_keys_for_a_dialog_are_not_held_back() -> None:
    agent = Agent()
    agent.put("one")
    agent.pass_time(0.1)
    agent.queue.person(b"y", PaneState.BLOCKED)
    assert agent.written == [b"one", b"y"]


async def test_a_line_taken_back_before_its_first_byte_is_never_written() -> None:
    agent = Agent()
    agent.state = PaneState.BLOCKED
    first, second = agent.put("one"), agent.put("two")
    agent.pass_time(1)
    first.cancel()
    agent.state = PaneState.IDLE
    agent.pass_time(3)
    assert agent.written == [b"two", ENTER]
    assert second.result().verified


async def test_an_agent_that_takes_no_more_input_and_one_that_is_gone_settle_every_line() -> None:
    agent = Agent()
    agent.is_full = True
    first = agent.put("one")
    agent.pass_time(0.1)
    assert first.result() == Outcome(
        OutcomeKind.REFUSED, "the agent does not read its input", injections=1
    )
    second = agent.put("two")
    agent.queue.fail_all("it has exited")
    assert second.result().reason == "it has exited"
    assert not agent.queue.active


async def test_a_listener_hears_of_each_step_once() -> None:
    agent = Agent()
    heard: list[Step] = []
    agent.queue.put("one", LineKind.TASK, heard.append)
    agent.pass_time(2)
    assert heard == [Step.TYPED, Step.SUBMITTED, Step.PICKED_UP]
