"""The demo from its start to its end, whatever happens in between.

Owns how it ends. Invariants: no process and no file of a run is left behind, unless the user asked
to keep the session; cleaning up is not interrupted; the exit code is 0 only if every statement of
the story held, and a failure is shown with what came instead. Called by `choragos demo`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from deck.demo import project
from deck.demo import world as worlds
from deck.demo.show import Show, console
from deck.demo.story import Story
from deck.demo.world import NotSo, World

_LOG_TAIL_LINES: Final = 15


class Interrupted(Exception):
    """The user, or the system, asked the demo to end."""


def run(*, keep: bool) -> int:
    """Tell the story on this terminal; return the exit code.

    With `keep` the session stays up at the end and the commands to look around are printed.
    """
    show = Show(console())
    show.title("everything below is real but the model provider, which is built in and local")
    try:
        with _signals_as_interruptions():
            code = _tell(show, keep=keep)
    except NotSo as wrong:
        _explain(show, wrong)
        code = 1
    except Interrupted:
        return 130
    return 1 if show.failed and code == 0 else code


def _tell(show: Show, *, keep: bool) -> int:
    world = worlds.create()
    code, kept = 1, keep
    try:
        Story(world, show).tell()
        code = 0
    except NotSo as wrong:
        _explain(show, wrong)
    except Interrupted:
        show.prose("\nInterrupted; stopping everything.")
        code, kept = 130, False
    except (OSError, LookupError, ValueError, TypeError) as wrong:
        came = f"{type(wrong).__name__}: {wrong}"
        _explain(show, NotSo("the demo to understand what it found", came, world.events))
    finally:
        if not kept:
            with _signals_ignored():
                _say_what_is_left(show, world, world.end())
    show.checklist()
    if kept:
        _say_how_to_look_around(show, world)
    return code


def _explain(show: Show, wrong: NotSo) -> None:
    if wrong.expected not in show.failed:
        show.failed.append(wrong.expected)
    tail: list[str] = []
    if wrong.log is not None and wrong.log.exists():
        tail = wrong.log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
    show.failure(wrong.expected, wrong.came, wrong.log.name if wrong.log else "", tail)


def _say_what_is_left(show: Show, world: World, leftovers: list[str]) -> None:
    show.step("The end")
    show.statement(
        "no process of this run is left",
        holds=not leftovers,
        detail="; ".join(leftovers),
    )
    show.statement(f"{world.root} is removed", holds=not world.root.exists())


def _say_how_to_look_around(show: Show, world: World) -> None:
    look, end = world.leave_up()
    show.step("The session is still up")
    show.prose("This opens a shell in it:")
    show.shell(f"sh {look}")
    show.table(
        "where you can say",
        ["command", "what it shows"],
        [
            ("choragos board", "roles, tasks, the gateway"),
            ("choragos report", "tasks, times, tokens and cost of each role"),
            ("choragos checkpoints", "what can be rolled back"),
            (
                f"choragos delegate --to coder --brief {project.BRIEF_CHANGES}",
                "gives the coder something to do",
            ),
            ("less .choragos/logs/events.log", "what the deck did"),
            ('less "$DEMO/provider.jsonl"', "what the provider received"),
            ('less "$DEMO/trace/coder.jsonl"', "what the coder sent and got back"),
            ('less "$DEMO/gateway.log"', "what the gateway said"),
            ('sphragis verify "$SPHRAGIS_HOME/ledger"', "the gateway's ledger"),
        ],
    )
    show.prose("To end it and remove everything:")
    show.shell(f"sh {end}")


@contextmanager
def _signals_as_interruptions() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise Interrupted

    with _signals(interrupt):
        yield


@contextmanager
def _signals_ignored() -> Iterator[None]:
    """Cleaning up is not interrupted: it is bounded, and what it leaves would stay."""
    with _signals(signal.SIG_IGN):
        yield


@contextmanager
def _signals(handler: Callable[..., None] | signal.Handlers) -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)
