"""The terminal engine: conformance files, gap probes, recordings, and properties under fuzz."""

import importlib.util
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deck.pane.terminal.cells import PLAIN, Attr, Style
from deck.pane.terminal.history import cells_of, pack
from deck.pane.terminal.rendition import apply_sgr, color_hex, sgr
from deck.pane.terminal.reports import parse_program_status
from deck.pane.terminal.screen import Screen
from deck.pane.terminal.widths import clusters

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "terminal"
FIXTURES = DATA / "xtermjs_escape_sequence_files"
# The fixtures' own project skips these five: they need what no multiplexer pane has.
SKIPPED = ("t0055", "t0084", "t0101", "t0103", "t0504")
need_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no terminal test data in {DATA}")


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


# -- files ------------------------------------------------------------------------------------


def fixture_names() -> list[str]:
    names = sorted(p.stem for p in FIXTURES.glob("*.in")) if FIXTURES.is_dir() else []
    return [n for n in names if not n.startswith(SKIPPED)]


@need_data
@pytest.mark.parametrize("name", fixture_names())
def test_an_escape_sequence_file_gives_the_screen_that_xterm_gives(name: str) -> None:
    data = (FIXTURES / f"{name}.in").read_bytes().replace(b"\n", b"\r\n")
    wanted = (FIXTURES / f"{name}.text").read_text(encoding="utf-8").split("\n")[:25]
    wanted = [line.rstrip() for line in wanted] + [""] * (25 - len(wanted))
    assert screen_of(data, 80, 25).rows() == wanted


def probes() -> list[tuple[str, object, object]]:
    path = DATA / "probes_82.py"
    if not path.is_file():
        return []
    spec = importlib.util.spec_from_file_location("terminal_probes", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.P)


def probe_holds(screen: Screen, check: object) -> bool:
    first = screen.grid[0].styles[0]
    if callable(check):
        cursor = (screen.cursor.x, screen.cursor.y)
        return bool(check(screen.rows(), cursor, b"".join(screen.replies)))
    if check == "style_plain":
        return screen.rows()[0] == "X" and first._replace(underline_color=-1) == PLAIN
    if check == "dim":
        return bool(first.attrs & Attr.DIM)
    if check == "title":
        return screen.title == "T" and screen.icon_name == "T"
    if check == "bce":
        return screen.grid[0].styles[40].bg == 1
    assert isinstance(check, str)
    return screen.rows()[0] == "X" and color_hex(first.fg) == check[2:]


@need_data
@pytest.mark.parametrize(("name", "data", "check"), probes())
def test_a_known_weak_spot_of_terminal_engines_is_not_one_of_ours(
    name: str, data: object, check: object
) -> None:
    screen = Screen(80, 24, history=1000)
    for chunk in data if isinstance(data, list) else [data]:
        if isinstance(chunk, tuple):
            screen.resize(chunk[2], chunk[1])
        else:
            screen.feed(chunk)
    assert probe_holds(screen, check), (name, screen.rows()[:3], screen.replies)
    check_invariants(screen)


def captures() -> list[str]:
    return sorted(p.name for p in (DATA / "captures").glob("*.bin")) if DATA.is_dir() else []


@need_data
@pytest.mark.parametrize("name", captures())
def test_a_recorded_agent_draws_the_same_however_its_bytes_are_split(name: str) -> None:
    data = (DATA / "captures" / name).read_bytes()[:120_000]
    whole, pieces, odd = (Screen(120, 40, 2000) for _ in range(3))
    whole.feed(data)
    for i in range(0, len(data), 97):
        pieces.feed(data[i : i + 97])
    for i in range(0, len(data), 4095):
        odd.feed(data[i : i + 4095])
    assert picture(whole) == picture(odd) == picture(pieces)
    check_invariants(whole)


@need_data
def test_a_recorded_agent_leaves_no_escape_garbage_on_the_screen() -> None:
    index = json.loads((DATA / "captures" / "index.json").read_text())
    assert index
    for name in captures():
        screen = Screen(120, 40, 2000)
        screen.feed((DATA / "captures" / name).read_bytes())
        text = "\n".join(screen.rows())
        assert "\x1b" not in text
        for garbage in ("+q4d73", "[?", "4;2m", "38:2"):
            assert garbage not in text, name


# -- fuzz -------------------------------------------------------------------------------------

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


@settings(max_examples=400, deadline=None)
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


@settings(max_examples=200, deadline=None)
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


@settings(max_examples=200, deadline=None)
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


@settings(max_examples=150, deadline=None)
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
    logical: list[str] = []
    joining = False
    for row in screen.grid:
        logical[-1:] = [logical[-1] + row.text()] if joining else [*logical[-1:], row.text()]
        joining = row.wrapped
    lines = [*(line.text for line in screen.history), *logical]
    assert [line for line in lines if line] == texts
    before_cursor = screen.grid[screen.cursor.y].chars[: screen.cursor.x + screen.pending_wrap]
    assert before_cursor[-1] == texts[-1][-1]


# -- rules ------------------------------------------------------------------------------------


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
    assert screen.history_pushed == 4
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
