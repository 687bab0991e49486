"""What every terminal engine promises, told to each of them, and how one is chosen."""

import asyncio
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deck.config import Engine as EngineSetting
from deck.pane import Pane, PaneSpec, PaneState
from deck.pane.terminal import engine as engines
from deck.pane.terminal.cells import Attr, Style
from deck.pane.terminal.engine import Engine, EngineKind, make_engine, missing
from deck.pane.terminal.history import Line
from deck.pane.terminal.screen import Screen
from deck.team_reader import parse_config

HAS_GHOSTTY = importlib.util.find_spec("pyghostty") is not None
need_ghostty = pytest.mark.skipif(not HAS_GHOSTTY, reason="pyghostty is not installed")
KINDS = [EngineKind.PYTE, pytest.param(EngineKind.GHOSTTY, marks=need_ghostty)]
ROLE = '[[roles]]\nname = "solo"\ncommand = "sh"\n'


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> EngineKind:
    return EngineKind(request.param)


@pytest.fixture
def make(kind: EngineKind) -> Callable[..., Engine]:
    def made(columns: int = 40, lines: int = 6, history: int = 100, **more: object) -> Engine:
        return make_engine(kind, columns, lines, history, **more)  # type: ignore[arg-type]

    return made


class Program:
    """The other end: collects what the terminal answers."""

    def __init__(self, make: Callable[..., Engine]) -> None:
        self.heard: list[bytes] = []
        self.terminal = make(on_reply=self.heard.append)

    def ask(self, question: bytes) -> bytes:
        self.heard.clear()
        self.terminal.feed(question)
        return b"".join(self.heard)


# -- pictures -----------------------------------------------------------------------------------


def test_text_colors_and_attributes_become_cells(make: Callable[..., Engine]) -> None:
    screen = make()
    screen.feed("\x1b[1;31mred\x1b[0m 日\x1b[2;4:3;38:2::1:2:3mx\x1b[0m".encode())
    chars, styles = screen.cells(0)
    assert screen.rows()[0] == "red 日x"
    assert chars[:7] == ["r", "e", "d", " ", "日", "", "x"]
    assert styles[0] == Style(fg=1, attrs=int(Attr.BOLD))
    assert styles[6] == Style(fg=0x1010203, attrs=int(Attr.DIM), underline=3)
    assert len(chars) == len(styles) == screen.columns


def test_a_link_is_kept_with_its_cells(make: Callable[..., Engine]) -> None:
    screen = make()
    screen.feed(b"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\.")
    styles = screen.cells(0)[1]
    assert [style.link for style in styles[:5]] == ["http://a"] * 4 + [""]


def test_clusters_share_a_cell(make: Callable[..., Engine]) -> None:
    screen = make()
    screen.feed("👨‍👩‍👧|🇩🇪|👍🏽|⚠️|e\u0301".encode())
    clusters = [c for c in screen.cells(0)[0] if c.strip()]
    assert clusters == ["👨‍👩‍👧", "|", "🇩🇪", "|", "👍🏽", "|", "⚠️", "|", "e\u0301"]


def test_only_rows_that_changed_say_so(make: Callable[..., Engine]) -> None:
    screen = make()
    screen.feed(b"a\r\nb\r\nc\r\nd")
    before = screen.versions()
    screen.feed(b"\x1b[2;1Hx")
    after = screen.versions()
    assert before[1] != after[1]
    assert before[0] == after[0]
    assert before[4:] == after[4:]


def test_a_viewer_that_joins_late_sees_the_same_screen(make: Callable[..., Engine]) -> None:
    screen = make()
    screen.feed("\x1b]2;work\x07one\r\n\x1b[31mtwo 日\x1b[0m\x1b[?2004h\x1b[?1h\x1b[3;5Hx".encode())
    late = Screen(screen.columns, screen.lines)
    late.feed(screen.snapshot())
    assert late.rows() == screen.rows()
    assert (late.cursor.y, late.cursor.x) == (screen.cursor.y, screen.cursor.x)
    assert (late.bracketed_paste, late.application_cursor) == (True, True)
    assert late.title == "work"
    assert late.cells(1)[1][0] == Style(fg=1)


# -- history and size ---------------------------------------------------------------------------


def test_history_keeps_its_bound_and_counts_what_went_by(make: Callable[..., Engine]) -> None:
    screen = make(lines=2, history=30)
    screen.feed(b"".join(b"line %d\r\n" % n for n in range(100)))
    assert len(screen.history) == 30
    assert screen.history.pushed == 99
    assert [screen.history[n].text for n in (0, -1)] == ["line 69", "line 98"]
    assert screen.last_lines(3) == ["line 97", "line 98", "line 99"]


def test_history_keeps_styles(make: Callable[..., Engine]) -> None:
    screen = make(lines=2)
    screen.feed("\x1b[31m日a\x1b[0m\r\n\r\n\r\n".encode())
    line = screen.history[0]
    assert isinstance(line, Line)
    assert line.text.replace("\0", "") == "日a"
    assert line.spans()[0] == (3, Style(fg=1))


def test_ten_thousand_lines_are_really_kept(make: Callable[..., Engine]) -> None:
    screen = make(columns=120, lines=40, history=10_000)
    screen.feed(b"".join(b"%d and some words behind it\r\n" % n for n in range(15_000)))
    assert len(screen.history) == 10_000
    assert screen.history[0].text.startswith(f"{15_000 - 39 - 10_000} and")


def test_making_the_screen_smaller_loses_no_text(make: Callable[..., Engine]) -> None:
    screen = make(columns=40, lines=6)
    words = [f"word{n}" for n in range(60)]
    screen.feed(" ".join(words).encode())
    for lines, columns in ((6, 13), (3, 9), (6, 40)):
        screen.resize(lines, columns)
        kept = [screen.history[n].text for n in range(len(screen.history))]
        text = "".join(line.ljust(columns) for line in [*kept, *screen.rows()])
        assert all(
            word in text.replace(" ", "") for word in ("word0word1", "word30word31", "word59")
        )
    assert (screen.lines, screen.columns) == (6, 40)


def test_the_alternate_screen_has_no_history_and_gives_the_primary_one_back(
    make: Callable[..., Engine],
) -> None:
    screen = make()
    screen.feed(b"shell$ \x1b[?1049h\x1b[H" + b"drawn\r\n" * 50)
    assert (screen.alternate, len(screen.history)) == (True, 0)
    screen.feed(b"\x1b[?1049l")
    assert (screen.alternate, screen.rows()[0]) == (False, "shell$")


def test_a_visit_to_the_alternate_screen_counts_no_lines(make: Callable[..., Engine]) -> None:
    screen = make(lines=3)
    screen.feed(b"a\r\nb\r\nc\r\nd\r\ne")
    assert screen.history.pushed == 2
    for part in (b"\x1b[?1049h", b"x\r\n" * 20, b"\x1b[?1049l", b"\r\nf"):
        screen.feed(part)
    assert (screen.history.pushed, len(screen.history)) == (3, 3)


# -- answers ------------------------------------------------------------------------------------

QUESTIONS = [
    (b"\x1b[c", b"\x1b[?62;22c"),
    (b"\x1b[>c", b"\x1b[>1;10;0c"),
    (b"\x1b[5n", b"\x1b[0n"),
    (b"\x1b[2;3H\x1b[6n", b"\x1b[2;3R"),
    (b"\x1b[?2004$p", b"\x1b[?2004;2$y"),
    (b"\x1b[?25$p", b"\x1b[?25;1$y"),
    (b"\x1b[4$p", b"\x1b[4;2$y"),
    (b"\x1b[>q", b"\x1bP>|choragos(1)\x1b\\"),
    (b"\x1b]10;?\x1b\\", b"\x1b]10;rgb:e5e5/e5e5/e5e5\x1b\\"),
    (b"\x1b]11;?\x1b\\", b"\x1b]11;rgb:0000/0000/0000\x1b\\"),
    (b"\x1b[?996n", b"\x1b[?997;1n"),
    (b"\x1b[18t", b"\x1b[8;6;40t"),
    (b"\x1bP$qm\x1b\\", b"\x1bP0$r\x1b\\"),
    (b"\x1b]7501;?\x07", b"\x1b]7501;?\x07"),
]


@pytest.mark.parametrize(("question", "answer"), QUESTIONS)
def test_a_question_is_answered_once_however_it_arrives(
    make: Callable[..., Engine], question: bytes, answer: bytes
) -> None:
    program = Program(make)
    assert program.ask(question) == answer
    program = Program(make)
    assert b"".join(program.ask(question[i : i + 1]) for i in range(len(question))) == answer


@pytest.mark.parametrize(
    "question",
    [
        b"\x1b]0;rm -rf\x07\x1b[21t", b"\x1b[20t", b"\x1b]52;c;?\x07", b"\x1b]52;p;?\x1b\\",
        b"\x1b]4;1;?\x07", b"\x1b[?u", b"\x1b[14t", b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\",
        b"\x05",
    ],
)  # fmt: skip
def test_what_is_not_offered_or_would_type_into_the_program_is_not_answered(
    make: Callable[..., Engine], question: bytes
) -> None:
    assert Program(make).ask(question) == b""


def test_the_status_probe_comes_before_the_attributes_asked_for_after_it(
    make: Callable[..., Engine],
) -> None:
    assert Program(make).ask(b"\x1b]7501;?\x07\x1b[c") == b"\x1b]7501;?\x07\x1b[?62;22c"


def test_a_flood_of_questions_is_answered_up_to_a_bound(make: Callable[..., Engine]) -> None:
    assert Program(make).ask(b"\x1b[5n" * 10_000) == b"\x1b[0n" * 256


def test_an_answer_that_cannot_be_sent_stops_nothing(make: Callable[..., Engine]) -> None:
    def broken(_: bytes) -> None:
        raise OSError("gone")

    screen = make(on_reply=broken)
    screen.feed(b"a\x1b[cb")
    assert screen.rows()[0] == "ab"


# -- reports and modes --------------------------------------------------------------------------


def test_a_status_report_a_bell_a_message_and_a_title_reach_the_deck(
    make: Callable[..., Engine],
) -> None:
    screen = make()
    screen.feed(
        b"\x1b]7501;blocked:app=x:kind=permission:msg=b2s=\x07\a\x1b]9;done\x07\x1b]0;T\x07"
    )
    assert screen.signal is not None
    assert (screen.signal.state, screen.signal.kind, screen.signal.message) == (
        "blocked",
        "permission",
        "ok",
    )
    assert (screen.signal_count, screen.bells, screen.title) == (1, 1, "T")
    assert list(screen.notifications) == ["done"]
    screen.feed(b"\x1b]7501;state=clear\x07")
    assert screen.signal is None


def test_modes_the_deck_acts_on_are_known(make: Callable[..., Engine]) -> None:
    screen = make()
    assert not screen.bracketed_paste
    assert not screen.synchronized
    assert not screen.application_cursor
    assert (screen.mouse_mode, screen.cursor_visible) == (0, True)
    screen.feed(b"\x1b[?2004;2026;1;1002h\x1b[?25l")
    assert screen.bracketed_paste
    assert screen.synchronized
    assert screen.application_cursor
    assert (screen.mouse_mode, screen.cursor_visible) == (1002, False)


def test_strings_are_swallowed_with_bounds(make: Callable[..., Engine]) -> None:
    screen = make()
    screen.feed(b"\x1b_Gq;AAAA\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\\x1bPq#1\x1b\\a")
    screen.feed(b"\x1b]52;c;" + b"A" * 3_000_000 + b"\x07b\x1b]0;cut\x18c\x1b]2;x\x1b[2;1Hd")
    assert screen.rows()[:2] == ["abc", "d"]


# -- the choice ---------------------------------------------------------------------------------


def test_a_team_runs_on_pyte_unless_it_says_otherwise() -> None:
    config = parse_config(ROLE.encode(), Path("x.toml"))
    assert config.ui.engine is EngineSetting.PYTE
    assert PaneSpec("a", ("sh",), Path("/"), {}).engine is EngineKind.PYTE


@need_ghostty
def test_a_team_may_ask_for_ghostty() -> None:
    config = parse_config((ROLE + '[ui]\nengine = "ghostty"\n').encode(), Path("x.toml"))
    assert (config.ui.engine, config.warnings) == (EngineSetting.GHOSTTY, ())
    assert not isinstance(make_engine(EngineKind.GHOSTTY, 10, 2, 5), Screen)


@pytest.mark.parametrize(
    ("found", "words"),
    [(None, "pip install 'choragos[ghostty]'"), ("somewhere", "does not load on this machine")],
)
def test_an_engine_that_cannot_be_had_is_a_warning_and_pyte(
    monkeypatch: pytest.MonkeyPatch, found: str | None, words: str
) -> None:
    monkeypatch.setitem(sys.modules, "deck.pane.terminal.ghostty", None)
    monkeypatch.setattr(engines.importlib.util, "find_spec", lambda _: found)
    config = parse_config((ROLE + '[ui]\nengine = "ghostty"\n').encode(), Path("x.toml"))
    assert config.ui.engine is EngineSetting.PYTE
    assert len(config.warnings) == 1
    assert words in config.warnings[0]
    assert missing(EngineKind.PYTE) == ""
    assert isinstance(make_engine(EngineKind.GHOSTTY, 10, 2, 5), Screen)


def test_an_unknown_engine_is_a_warning_and_pyte() -> None:
    config = parse_config((ROLE + '[ui]\nengine = "vt52"\n').encode(), Path("x.toml"))
    assert config.ui.engine is EngineSetting.PYTE
    assert '"pyte" or "ghostty"' in config.warnings[0]


# -- on a real terminal -------------------------------------------------------------------------

ASKING = r"""
import os, select, tty
tty.setraw(0)
os.write(1, b"\x1b]7501;?\x07\x1b[c\x1b[6n")
heard = b""
while select.select([0], [], [], 1.0)[0]: heard += os.read(0, 4096)
os.write(1, repr(heard).encode() + b"\r\nend")
"""


@pytest.mark.parametrize("watched", ["watched", "unwatched"])
async def test_a_program_hears_each_answer_once_whether_or_not_anybody_watches(
    kind: EngineKind, watched: str
) -> None:
    spec = PaneSpec(
        "asking",
        (sys.executable, "-S", "-c", ASKING),
        Path("/"),
        {"PATH": os.environ["PATH"], "TERM": "xterm-256color"},
        engine=kind,
    )
    seen = bytearray()
    pane = Pane(spec)
    if watched == "watched":
        pane.on_output = lambda _, data: seen.extend(data)
    await pane.start()
    async with asyncio.timeout(20):
        while pane.alive or pane.tail(1) != ["end"]:
            await asyncio.sleep(0.02)
    said = repr(b"\x1b]7501;?\x07\x1b[?62;22c\x1b[1;1R")
    assert "".join(pane.rows()).startswith(said)
    await pane.stop(0)


UNFINISHED = r"""
import os, time
os.write(1, "\x1b[?2026hDo you want to proceed?\r\n\u276f 1. Yes\r\n  2. No\r\n".encode())
time.sleep(60)
"""


async def test_an_update_that_never_ends_hides_the_screen_for_a_moment_only(
    kind: EngineKind,
) -> None:
    spec = PaneSpec(
        "unfinished",
        (sys.executable, "-S", "-c", UNFINISHED),
        Path("/"),
        {"PATH": os.environ["PATH"], "TERM": "xterm-256color"},
        engine=kind,
    )
    pane = Pane(spec)
    await pane.start()
    async with asyncio.timeout(20):
        while pane.state is not PaneState.BLOCKED:
            await asyncio.sleep(0.02)
    assert pane.screen.synchronized
    await pane.stop(0)
