"""What goes on each second of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from deck.board import State
from deck.caretaking import Caretaker
from deck.config import Config, Role, UiConfig
from deck.entries import Entry, Op, TaskState
from deck.journal import JournalFailed
from deck.pane.status import PaneState, Source, Status
from deck.replay import apply

if TYPE_CHECKING:
    from deck.seats import Seat


class Events:
    """What was written, by its message."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def write(self, level: str, msg: str, **_: object) -> None:
        self.said.append(msg)


class Desk:
    """A desk whose records take a moment, in which a report may come."""

    def __init__(self, state: State) -> None:
        self.config = Config(roles=(Role("lead", start=True), Role("coder", timeout=1.0)))
        self.state = state
        self.events = Events()
        self.gateway = SimpleNamespace(enforced=False)
        self.seats = {"coder": SimpleNamespace(role=self.config.roles[1])}
        self.start_seat = SimpleNamespace(pane=None)
        self.then: list[Entry] = []
        self.hook: Callable[..., None] = lambda *_: None

    def now(self) -> int:
        return 10_000_000

    async def move(self, task: Any, state: TaskState, reason: str = "") -> None:
        self.state = apply(self.state, Entry(Op.TASK_MOVED, self.now(), id=task.id, state=state))
        for entry in self.then:
            self.state = apply(self.state, entry)

    def notify(self, *_: object) -> None: ...

    def label(self, task: Any) -> str:
        return str(task.id)


def caretaker(desk: Desk, gates: Any, review: Any) -> Caretaker:
    parts: Any = SimpleNamespace(
        desk=desk, gatekeeper=SimpleNamespace(tick=gates), review=SimpleNamespace(tick=review)
    )
    nobody: Any = None
    return Caretaker(parts, nobody, nobody, lambda: None)


def board(tasks: int) -> State:
    state = apply(State(), Entry(Op.SESSION_STARTED, 1, run="r"))
    for number in range(1, tasks + 1):
        state = apply(state, Entry(Op.TASK_ADDED, 2, id=f"T{number}", role="coder"))
        state = apply(state, Entry(Op.TASK_MOVED, 3, id=f"T{number}", state=TaskState.TYPED))
    return state


async def nothing() -> None: ...


def test_a_task_reported_while_another_one_times_out_does_not_time_out() -> None:
    desk = Desk(board(2))
    desk.then = [Entry(Op.REPORT_ADDED, 4, id="R1", task="T2", role="coder")]
    asyncio.run(caretaker(desk, nothing, nothing).tick())
    assert [t.state for t in desk.state.tasks.values()] == [TaskState.TIMED_OUT, TaskState.REPORTED]


def test_a_fault_in_one_step_keeps_no_other_from_being_taken() -> None:
    desk, taken, faults = Desk(board(1)), list[str](), list[object]()

    async def fails() -> None:
        raise RuntimeError("bug")

    async def review() -> None:
        taken.append("review")
        raise JournalFailed("the disk is full")

    async def two_seconds() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: faults.append(what))
        one = caretaker(desk, fails, review)
        await one.tick()
        await one.tick()

    asyncio.run(two_seconds())
    assert taken == ["review", "review"]
    assert len(faults) == 2
    assert desk.state.tasks["T1"].state is TaskState.TIMED_OUT
    assert desk.events.said.count("journal failed") == 1


def test_what_was_kept_is_brought_once_to_each_later_process_of_the_start_role() -> None:
    desk, brought = Desk(board(0)), list[str]()

    async def bring_kept() -> None:
        brought.append(desk.start_seat.pane.name)

    def process(name: str, *, alive: bool = True) -> SimpleNamespace:
        return SimpleNamespace(name=name, alive=alive)

    async def seconds() -> None:
        one = caretaker(desk, nothing, nothing)
        one.parts.work = SimpleNamespace(bring_kept=bring_kept)  # type: ignore[misc, assignment]
        first = process("first")
        for pane in (None, first, first, process("dead", alive=False), process("second")):
            desk.start_seat.pane = pane
            await one.tick()
            await one.tick()

    asyncio.run(seconds())
    assert brought == ["second"]


def test_what_was_kept_is_brought_after_a_first_process_that_ended_within_a_second() -> None:
    desk, brought = Desk(board(0)), list[str]()

    async def bring_kept() -> None:
        brought.append(desk.start_seat.pane.name)

    async def seconds() -> None:
        one = caretaker(desk, nothing, nothing)
        one.parts.work = SimpleNamespace(bring_kept=bring_kept)  # type: ignore[misc, assignment]
        desk.start_seat.pane = SimpleNamespace(name="first", alive=True)
        clock = asyncio.create_task(one.tick_for_ever())
        await asyncio.sleep(0)
        desk.start_seat.pane = SimpleNamespace(name="second", alive=True)
        await one.tick()
        clock.cancel()

    asyncio.run(seconds())
    assert brought == ["second"]


def test_a_person_is_called_once_for_a_question_while_its_answer_is_typed() -> None:
    desk, called = Desk(board(0)), list[str]()
    desk.hook = lambda *words: called.append(str(words[2]))
    desk.config = replace(desk.config, ui=UiConfig(on_input="bell"))
    care, seat = caretaker(desk, nothing, nothing), cast("Seat", SimpleNamespace(name="coder"))

    def shows(state: PaneState, question: str = "") -> None:
        care.pane_status(seat, Status(state, Source.SCREEN, "", question, 0.0))

    for question in ("Overwrite? (y/n)", "Overwrite? (y/n) n", "Overwrite? (y/n)"):
        shows(PaneState.BLOCKED, question)
    assert called == ["coder"]
    shows(PaneState.BLOCKED, "Delete? (y/n)")
    shows(PaneState.WORKING)
    shows(PaneState.BLOCKED, "Delete? (y/n)")
    assert (len(called), desk.events.said) == (3, ["waiting for input"] * 3)
    # What is asked may be seen a moment after that something is asked.
    shows(PaneState.IDLE)
    shows(PaneState.BLOCKED)
    shows(PaneState.BLOCKED, "Merge? (y/n)")
    assert len(called) == 5
