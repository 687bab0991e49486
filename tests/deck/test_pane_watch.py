"""What counts as news on an agent's screen, told apart from mere output."""

from __future__ import annotations

from deck.pane.status import Signal
from deck.pane.terminal.engine import Engine, EngineKind, make_engine
from deck.pane.watch import SYNC_LIMIT_SECONDS, Watch


def watched() -> tuple[Engine, Watch]:
    screen = make_engine(EngineKind.PYTE, 40, 4, 100, lambda _: None)
    return screen, Watch(screen, ("tokens left",), 0.0)


def show(screen: Engine, watch: Watch, data: bytes, now: float) -> str | None:
    screen.feed(data)
    watch.written = True
    return watch.look(now)


def test_chrome_that_changes_is_no_change_of_the_picture() -> None:
    screen, watch = watched()
    show(screen, watch, b"hello\r\n", 1.0)
    assert watch.changed_at == 1.0
    show(screen, watch, b"12 tokens left", 2.0)
    assert watch.changed_at == 1.0
    assert "12 tokens left" in watch.rows
    show(screen, watch, b"\r\nmore", 3.0)
    assert watch.changed_at == 3.0


def test_a_screen_that_is_still_drawn_is_not_looked_at_but_for_a_short_time_only() -> None:
    screen, watch = watched()
    show(screen, watch, b"\x1b[?2026hhalf", 1.0)
    assert watch.rows == ()
    assert watch.mid_update(1.0)
    watch.look(1.1 + SYNC_LIMIT_SECONDS)
    assert watch.rows[0] == "half"


def test_a_title_is_news_once() -> None:
    screen, watch = watched()
    assert show(screen, watch, b"\x1b]2;building\x07", 1.0) == "building"
    assert show(screen, watch, b"on", 2.0) is None


def test_what_hooks_say_is_kept_and_only_work_counts_as_a_fact() -> None:
    _, watch = watched()
    idle, working = Signal("idle"), Signal("working")
    watch.hear([working, idle])
    assert (watch.facts, watch.hook) == (1, idle)
