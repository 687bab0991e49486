"""The rules of the terminal engine on pyte, one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from terminal_screens import check_invariants, screen_of

from deck.pane.terminal.cells import PLAIN, Attr, Style
from deck.pane.terminal.history import cells_of, pack
from deck.pane.terminal.rendition import apply_sgr, sgr
from deck.pane.terminal.reports import parse_program_status
from deck.pane.terminal.screen import Screen
from deck.pane.terminal.widths import clusters


def test_an_overlong_string_is_swallowed_and_text_after_it_is_kept() -> None:
    screen = screen_of(b"\x1b]52;c;" + b"A" * 200_000 + b"\x07after")
    assert screen.rows()[0] == "after"


def test_an_unterminated_string_is_given_up_in_the_end() -> None:
    screen = screen_of(b"\x1bP" + b"A" * (5 * 1024 * 1024) + b"\r\nback")
    assert any(row.endswith("back") for row in screen.rows())


def test_each_query_is_answered_exactly_once_and_in_order() -> None:
    queries = b"\x1b]7501;?\x07\x1b[c\x1b[>c\x1b[5n\x1b[6n\x1b[?2026$p\x1b[>0q\x1b]11;?\x1b\\"
    replies = screen_of(queries).replies
    assert replies[0] == b"\x1b]7501;?\x07"
    assert [r[:4] for r in replies[1:4]] == [b"\x1b[?6", b"\x1b[>1", b"\x1b[0n"]
    assert replies[4] == b"\x1b[1;1R"
    assert replies[5] == b"\x1b[?2026;2$y"
    assert replies[6].startswith(b"\x1bP>|choragos")
    assert replies[7].startswith(b"\x1b]11;rgb:")
    assert len(replies) == 8


@pytest.mark.parametrize("query", [b"\x1b[21t", b"\x1b[20t", b"\x1b]52;c;?\x07", b"\x1b[?u"])
def test_queries_whose_answer_would_type_into_the_program_get_none(query: bytes) -> None:
    assert screen_of(b"\x1b]0;rm -rf\x07" + query).replies == []


def test_a_flood_of_queries_in_one_read_is_answered_up_to_a_bound() -> None:
    assert len(screen_of(b"\x1b[6n" * 10_000).replies) == 256


def test_a_failing_reply_channel_does_not_stop_the_output() -> None:
    def broken(_: bytes) -> None:
        raise OSError("gone")

    screen = Screen(20, 3, on_reply=broken)
    screen.feed(b"a\x1b[cb")
    assert screen.rows()[0] == "ab"


@pytest.mark.parametrize(
    ("text", "columns", "cells"),
    [
        ("⚠️x", 3, ["⚠️", "", "x"]),
        ("👨‍👩‍👧x", 3, ["👨‍👩‍👧", "", "x"]),
        ("👍🏽x", 3, ["👍🏽", "", "x"]),
        ("🇩🇪x", 3, ["🇩🇪", "", "x"]),
        ("e\u0301x", 2, ["e\u0301", "x"]),
        ("a\u200bx", 2, ["a\u200b", "x"]),
        ("日x", 3, ["日", "", "x"]),
    ],
)
def test_a_cluster_takes_one_cell_or_two_and_the_text_goes_on(
    text: str, columns: int, cells: list[str]
) -> None:
    screen = screen_of(text.encode())
    assert screen.grid[0].chars[: len(cells)] == cells
    assert screen.cursor.x == columns
    assert clusters(text) == [c for c in cells if c]


def test_writing_over_half_of_a_wide_character_blanks_the_other_half() -> None:
    for column in (1, 2):
        screen = screen_of("日本".encode() + f"\x1b[1;{column}Hx".encode())
        check_invariants(screen)
        assert screen.rows()[0].replace(" ", "") == "x本"


def test_the_alternate_screen_has_no_history_and_gives_the_primary_one_back() -> None:
    screen = screen_of(b"one\r\ntwo\x1b[?1049h" + b"alt\r\n" * 100)
    assert screen.alternate
    assert len(screen.history) == 0
    screen.feed(b"\x1b[?1049l")
    assert screen.rows()[:2] == ["one", "two"]
    assert (screen.cursor.y, screen.cursor.x) == (1, 3)


def test_history_keeps_the_last_lines_with_their_styles() -> None:
    screen = Screen(20, 2, history=3)
    screen.feed(b"a\r\n\x1b[31mb\x1b[0mc\r\nd\r\ne\r\nf\r\ng")
    assert [line.text for line in screen.history] == ["bc", "d", "e"]
    assert screen.history[0].spans()[0] == (1, Style(fg=1))
    assert screen.history.pushed == 4
    assert screen.last_lines(4) == ["d", "e", "f", "g"]


def test_erasing_saved_lines_leaves_the_screen() -> None:
    screen = Screen(20, 2, history=10)
    screen.feed(b"a\r\nb\r\nc\x1b[3J")
    assert list(screen.history) == []
    assert screen.rows() == ["b", "c"]


def test_a_row_tells_that_it_changed_and_others_do_not() -> None:
    screen = screen_of(b"a\r\nb\r\nc")
    before = screen.versions()
    screen.feed(b"\x1b[2;1Hx")
    changed = [y for y, (a, b) in enumerate(zip(before, screen.versions(), strict=True)) if a != b]
    assert changed == [1]


def test_a_title_holds_no_control_characters_and_has_a_bound() -> None:
    assert screen_of("\x1b]0;a\u202eb\x07".encode()).title == "a b"
    assert len(screen_of(b"\x1b]2;" + b"x" * 4000 + b"\x07").title) == 256


def test_notifications_and_bells_are_kept_for_the_listener() -> None:
    screen = screen_of(b"\x1b]9;done\x07\a\x1b]777;notify;a;b\x07\x1b]9;4;1;50\x07")
    assert list(screen.notifications) == ["done", "notify;a;b"]
    assert screen.bells == 1


@pytest.mark.parametrize(
    ("body", "state", "kind", "message"),
    [
        ("state=working:app=codex", "working", "", ""),
        ("blocked:app=claude-code:kind=permission:msg=YXBwcm92ZSBCYXNoOiB0b3VjaA==", "blocked",
         "permission", "approve Bash: touch"),
        ("state=blocked:kind=question:msg=%%%", "blocked", "question", ""),
        ("state=blocked:msg=G1szMW14Cg==", "blocked", "", "[31mx"),
    ],
)  # fmt: skip
def test_a_program_status_report_becomes_a_clean_signal(
    body: str, state: str, kind: str, message: str
) -> None:
    signal = parse_program_status(body)
    assert signal is not None
    assert (signal.state, signal.kind, signal.message) == (state, kind, message)


@pytest.mark.parametrize("body", ["", "state=", "state=flying", "app=x", "?x"])
def test_a_report_without_a_known_state_is_no_signal(body: str) -> None:
    assert parse_program_status(body) is None


def test_the_signal_is_cleared_on_request_and_on_reset() -> None:
    screen = screen_of(b"\x1b]7501;state=working\x07")
    assert screen.signal is not None
    screen.feed(b"\x1b]7501;state=clear\x07")
    assert screen.signal is None
    assert screen.signal_count == 2


STYLES = "0 1 2 4 4:3 7 22 24 31 97 104 38;5;200 48;2;1;2;3 58:2::9:8:7 39 49 59 53"


@given(st.lists(st.sampled_from(STYLES.split()), max_size=8).map(";".join))
def test_a_style_written_out_and_read_again_is_the_same(body: str) -> None:
    style = apply_sgr(PLAIN, body)
    assert apply_sgr(Style(fg=5, attrs=int(Attr.BOLD)), sgr(style)[2:-1]) == style


def test_a_packed_line_gives_its_cells_back() -> None:
    screen = screen_of("\x1b[1ma日\x1b[0mb⚠️ \x1b[41m  ".encode(), columns=20)
    chars, styles = cells_of(pack(screen.grid[0]))
    row = screen.grid[0]
    assert chars == row.chars[: len(chars)]
    assert styles == row.styles[: len(styles)]


def test_a_synchronized_update_is_reported_while_it_lasts() -> None:
    screen = screen_of(b"\x1b[?2026h")
    assert screen.synchronized
    screen.feed(b"\x1b[?2026l")
    assert not screen.synchronized


def test_a_resize_that_changes_nothing_changes_nothing() -> None:
    screen = screen_of(b"abc")
    before = screen.versions()
    screen.resize(24, 80)
    assert screen.versions() == before


def logical(screen: Screen) -> str:
    """History and screen as text, soft wraps joined."""
    lines = [(line.text, line.wrapped) for line in screen.history]
    lines += [("".join(r.chars[: r.used()]), bool(r.wrapped)) for r in screen.grid]
    return "".join(text if wrapped else f"{text}\n" for text, wrapped in lines).rstrip("\n")


def test_a_wide_character_that_did_not_fit_leaves_no_blank_when_the_screen_grows() -> None:
    screen = screen_of("abcd日x".encode(), columns=5)
    assert screen.rows()[:2] == ["abcd", "日x"]
    screen.resize(24, 20)
    assert screen.rows()[0] == "abcd日x"


def test_a_real_blank_before_a_wide_character_stays_when_the_screen_grows() -> None:
    screen = screen_of("abcd 日x".encode(), columns=5)
    screen.resize(24, 20)
    assert screen.rows()[0] == "abcd 日x"


def test_an_emoji_selector_at_the_edge_takes_its_character_to_the_next_row() -> None:
    screen = screen_of("xxxx⚠️ y".encode(), columns=5)
    assert screen.rows()[:2] == ["xxxx", "⚠️ y"]
    check_invariants(screen)


def test_shrinking_and_growing_again_loses_nothing_that_was_soft_wrapped() -> None:
    text = "\n".join(f"{n} " + "wide 日本 and ⚠️ plain " * 5 for n in range(40))
    screen = screen_of(text.replace("\n", "\r\n").encode(), columns=80, lines=10)
    before = logical(screen)
    for lines, columns in ((10, 33), (3, 7), (10, 80), (20, 200)):
        screen.resize(lines, columns)
        check_invariants(screen)
        assert logical(screen) == before


def test_leaving_the_alternate_screen_twice_moves_the_cursor_to_where_it_was_saved() -> None:
    screen = screen_of(b"ab\x1b[?1049hxyz\x1b[?1049l\r\n\r\n\x1b[?1049l")
    assert (screen.cursor.y, screen.cursor.x) == (0, 2)


def test_entering_the_alternate_screen_again_clears_it_and_keeps_the_primary_one() -> None:
    screen = screen_of(b"one\x1b[?1049h\x1b[Hold\x1b[?1049h")
    assert screen.rows()[0] == ""
    screen.feed(b"\x1b[?1049l")
    assert screen.rows()[0] == "one"


def test_clearing_the_alternate_screen_by_entering_it_again_cancels_a_pending_wrap() -> None:
    screen = screen_of(b"x" * 20 + b"\x1b[?1049h\x1b[?1049hab", columns=20)
    assert (screen.rows()[0].strip(), screen.rows()[1]) == ("a", "b")


def test_a_program_cannot_make_the_terminal_remember_modes_without_end() -> None:
    screen = Screen(20, 3)
    for mode in range(5000):
        screen.feed(b"\x1b[?%ds" % mode)
    assert len(screen.saved_modes) < 50


def test_neighbors_that_would_join_are_drawn_apart_for_a_late_viewer() -> None:
    screen = screen_of("日\0🏻x 🇩\0🇪".encode())
    late = screen_of(screen.snapshot())
    assert late.grid[0].chars == screen.grid[0].chars
