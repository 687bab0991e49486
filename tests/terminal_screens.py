"""Screens for tests: making them, comparing them, and the files that describe them."""

from pathlib import Path

import pytest

from deck.pane.terminal.screen import Screen

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "terminal"
need_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no terminal test data in {DATA}")


def captures() -> list[str]:
    """Names of the recordings of real agents."""
    return sorted(p.name for p in (DATA / "captures").glob("*.bin")) if DATA.is_dir() else []


def capture(name: str) -> bytes:
    """The bytes an agent wrote to a terminal of 120 x 40."""
    return (DATA / "captures" / name).read_bytes()


def screen_of(data: bytes, columns: int = 80, lines: int = 24) -> Screen:
    screen = Screen(columns, lines, history=1000)
    screen.feed(data)
    return screen


def picture(screen: Screen) -> tuple[object, ...]:
    """Everything a program or a person can tell two screens apart by."""
    return (
        screen.display,
        [row.styles for row in screen.grid],
        [row.wrapped for row in screen.grid],
        (screen.cursor.y, screen.cursor.x, screen.pending_wrap),
        screen.style,
        screen.title,
        sorted(screen.private),
        sorted(screen.mode),
        b"".join(screen.replies),
        list(screen.history),
        screen.signal,
        screen.bells,
        screen.alternate,
        list(screen.notifications),
    )


def check_invariants(screen: Screen) -> None:
    assert len(screen.grid) == screen.lines
    assert 0 <= screen.cursor.y < screen.lines
    assert 0 <= screen.cursor.x < screen.columns
    for row in screen.grid:
        assert len(row.chars) == len(row.styles) == screen.columns
        for x, cell in enumerate(row.chars):
            if not cell:
                assert x > 0
                assert row.chars[x - 1] not in ("", " ")
        assert row.wide or "" not in row.chars
