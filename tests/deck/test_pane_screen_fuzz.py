"""The terminal under any bytes, any split, any size. TERMINAL_FUZZ_CASES sets how many."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from terminal_screens import check_invariants, picture

from deck.pane.terminal.engine import EngineKind, make_engine, missing
from deck.pane.terminal.screen import Screen

CASES = int(os.environ.get("TERMINAL_FUZZ_CASES", "400"))

NUMBERS = ["", "0", "1", "2", "3", "5", "7", "38", "48", "2004", "1049", "6", "4:3", "99999"]
WHOLE = (
    b"\r\n|\n|\t|\b|\x1b7|\x1b8|\x1bM|\x1bD|\x1bE|\x1bc|\x1b#8|\x1b(0|\x1b(B|\x0e|\x0f|\x1b[4h|\x1b[4l"
    b"|\x1b[?7l|\x1b[?7h|\x1b[?1049h|\x1b[?1049l|\x1b[?47h|\x1b[?47l|\x1b]0;t\x07|\x1b]2;x|\x1bP+q41\x1b\\"
    b"|\x1b_G|\x1b\\|\x18|\x1a|\x1b|\x1b[|\x1b]7501;state=working\x07|\x1b]7501;?\x07|\x9c|\xc2\x9b"
    b"|\x1b[3;7r|\x1b[?6h|\x1b[2J|\x1b[K|\x1b[5b|\x1b]8;;http://a\x07|xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
).split(b"|")
PIECES = st.one_of(
    st.binary(min_size=1, max_size=6),
    st.text(alphabet="abc é日⚠\ufe0f\u200d👩👍🏽🇩🇪e\u0301│⣿\u200b\xa0", max_size=8).map(str.encode),
    st.builds(
        lambda pre, nums, inter, fin: f"\x1b[{pre}{nums}{inter}{fin}".encode(),
        st.sampled_from(["", "?", ">", "<", "="]),
        st.lists(st.sampled_from(NUMBERS), max_size=4).map(";".join),
        st.sampled_from(["", "", "", " ", "!", "$", "'"]),
        st.sampled_from([chr(c) for c in range(0x40, 0x7F)]),
    ),
    st.sampled_from(WHOLE),
)
STREAM = st.lists(PIECES, max_size=40).map(b"".join)


@settings(max_examples=CASES, deadline=None)
@given(STREAM, st.integers(1, 20), st.integers(1, 12))
def test_any_bytes_leave_a_sound_screen_and_one_byte_at_a_time_the_same_one(
    data: bytes, columns: int, lines: int
) -> None:
    whole, single = Screen(columns, lines, 50), Screen(columns, lines, 50)
    whole.feed(data)
    for i in range(len(data)):
        single.feed(data[i : i + 1])
    check_invariants(whole)
    # A flood of queries within one feed is answered up to a bound; here it is far away.
    assert picture(whole) == picture(single)


@pytest.mark.skipif(bool(missing(EngineKind.GHOSTTY)), reason="pyghostty is not installed")
@settings(max_examples=max(1, CASES // 4), deadline=None)
@given(STREAM, st.integers(1, 20), st.integers(1, 12))
def test_the_other_engine_takes_any_bytes_and_any_split_too(
    data: bytes, columns: int, lines: int
) -> None:
    whole, single = (make_engine(EngineKind.GHOSTTY, columns, lines, 50) for _ in range(2))
    whole.feed(data)
    for i in range(len(data)):
        single.feed(data[i : i + 1])
    assert whole.rows() == single.rows()
    assert whole.cursor == single.cursor
    assert (whole.title, whole.signal, whole.bells) == (single.title, single.signal, single.bells)
    for y in range(lines):
        chars, styles = whole.cells(y)
        assert len(chars) == len(styles) == columns


@settings(max_examples=max(1, CASES // 2), deadline=None)
@given(STREAM, st.integers(2, 20), st.integers(2, 12))
def test_a_snapshot_draws_the_same_screen_for_whoever_joins_late(
    data: bytes, columns: int, lines: int
) -> None:
    screen, late = Screen(columns, lines, 50), Screen(columns, lines, 50)
    screen.feed(data + b"\x18")
    late.feed(screen.snapshot())
    assert late.rows() == screen.rows()
    assert (late.cursor.y, late.cursor.x) == (screen.cursor.y, screen.cursor.x)
    assert [row.styles for row in late.grid] == [row.styles for row in screen.grid]
    assert late.style == screen.style
    assert late.private - {2026} == screen.private - {2026, 47, 1047, 1049} | (
        {1049} if screen.alternate else set()
    )
    assert (late.mode, late.margins, late.title) == (screen.mode, screen.margins, screen.title)
    assert late.drawing == screen.drawing
    assert late.shifted == screen.shifted


def test_a_late_viewer_is_drawn_no_row_wider_than_the_screen() -> None:
    """U+FFFD becomes two columns wide by what follows it; the program wrote it without wrapping."""
    screen, late = Screen(2, 2, 50), Screen(2, 2, 50)
    screen.feed(b"\x1b[?7l \x80\xef\xb8\x8f")
    late.feed(screen.snapshot())
    assert late.rows() == screen.rows()


@settings(max_examples=max(1, CASES // 2), deadline=None)
@given(
    st.lists(
        st.one_of(STREAM, st.tuples(st.integers(1, 30), st.integers(1, 12))),
        max_size=8,
    )
)
def test_any_bytes_and_sizes_in_turn_leave_a_sound_screen(steps: list[object]) -> None:
    screen = Screen(12, 6, 50)
    for step in steps:
        if isinstance(step, bytes):
            screen.feed(step)
        else:
            assert isinstance(step, tuple)
            screen.resize(step[1], step[0])
        check_invariants(screen)


@settings(max_examples=max(1, CASES // 3), deadline=None)
@given(
    st.lists(st.text(alphabet="abcdefgh", min_size=1, max_size=60), min_size=1, max_size=6),
    st.lists(st.integers(3, 40), min_size=1, max_size=4),
)
def test_soft_wrapped_text_survives_every_change_of_width(
    texts: list[str], widths: list[int]
) -> None:
    screen = Screen(20, 50, 200)
    screen.feed("\r\n".join(texts).encode())
    for width in widths:
        screen.resize(50, width)
    rows = [(line.text, line.wrapped) for line in screen.history]
    rows += [(row.text(), bool(row.wrapped)) for row in screen.grid]
    lines: list[str] = []
    joining = False
    for text, wrapped in rows:
        lines[-1:] = [lines[-1] + text] if joining else [*lines[-1:], text]
        joining = wrapped
    assert [line for line in lines if line] == texts
    before_cursor = screen.grid[screen.cursor.y].chars[: screen.cursor.x + screen.pending_wrap]
    assert before_cursor[-1] == texts[-1][-1]
