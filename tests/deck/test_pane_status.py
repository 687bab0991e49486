"""States from evidence alone, and the screens that must not be mistaken."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck.agents import adapter_for
from deck.pane.status import (
    DEFAULT_CHROME,
    BootClock,
    Evidence,
    Marks,
    PaneState,
    Signal,
    Source,
    classify,
    find_dialog,
    is_chrome,
    plain,
)
from deck.pane.terminal.screen import Screen


def evidence(
    *rows: str,
    cursor: tuple[int, int] | None = None,
    signal: Signal | None = None,
    title: str = "",
    quiet: float = 60.0,
    booted: bool = True,
    paused: bool = False,
    exit: str | None = None,
    prompts: tuple[str, ...] = (),
    marks: Marks = Marks(),  # noqa: B008 - a frozen value
    hook: Signal | None = None,
) -> Evidence:
    place = cursor if cursor is not None else (max(0, len(rows) - 1), len(rows[-1]) if rows else 0)
    return Evidence(exit, paused, signal, title, rows, place, quiet, booted, prompts, marks, hook)


def state(e: Evidence) -> PaneState:
    return classify(e, 0.0).state


CLAUDE_DIALOG = (
    "● Bash(touch x)",
    "╭──────────────────────────────────╮",
    "│ Bash command                     │",
    "│   touch x                        │",
    "│ Do you want to proceed?          │",
    "│ ❯ 1. Yes                         │",
    "│   2. Yes, and don't ask again    │",
    "│   3. No                          │",
    "╰──────────────────────────────────╯",
    " Esc to cancel · Tab to amend",
)


def test_the_order_is_exited_paused_blocked_working_idle() -> None:
    dialog = evidence(*CLAUDE_DIALOG, quiet=0.1)
    assert state(evidence(*CLAUDE_DIALOG, exit="exit 0", paused=True)) is PaneState.EXITED
    assert state(evidence(*CLAUDE_DIALOG, paused=True)) is PaneState.PAUSED
    assert state(dialog) is PaneState.BLOCKED
    assert state(evidence("text", quiet=0.1)) is PaneState.WORKING
    assert state(evidence("text", quiet=2.1)) is PaneState.IDLE


def test_the_question_is_kept_with_the_state() -> None:
    status = classify(evidence(*CLAUDE_DIALOG), 5.0)
    assert status.question == "Do you want to proceed?"
    assert status.since == 5.0
    assert status.source is Source.SCREEN


@pytest.mark.parametrize(
    "rows",
    [
        ("Overwrite? (y/n) ",),
        ("Continue [Y/n] or [y/N]",),
        ("Press Enter to continue",),
        ("Allow execution of [Shell]?", "● 1. Allow once", "  2. No (esc)"),
        ("Would you like to run the following command?", "› 1. Yes, proceed (y)", "  2. No"),
        ("Do you trust the files in this folder?", "❯ No, exit", "  Yes, proceed"),
        ("Agent wants network. Allow access?", "", ""),
        ("edit", *("─" * 20 for _ in range(3)), "Esc to cancel"),
    ],
)
def test_a_waiting_screen_is_blocked(rows: tuple[str, ...]) -> None:
    assert state(evidence(*rows)) is PaneState.BLOCKED
    assert state(evidence(*rows, booted=False, quiet=0)) is PaneState.BLOCKED


@pytest.mark.parametrize(
    "rows",
    [
        ("+    print('Overwrite? (y/n)')", "-    ask()", "$ "),
        ("> the docs say: press enter to continue", "❯ "),
        ("The tool prints `do you want to proceed` and waits.", "Done.", "❯ "),
        ("Overwrite? (y/n) y", "done", "user@host:~$ "),
        ("  Thinking... (esc to cancel, 12s)",),
        ("  (2s · esc to cancel)",),
        ("  ⠇ Rebooting the humor module... (1s · ↑ 4 tokens · esc to cancel)",),
    ],
)
def test_a_quoted_or_answered_question_is_not_a_dialog(rows: tuple[str, ...]) -> None:
    assert state(evidence(*rows)) is not PaneState.BLOCKED


def test_a_dialog_that_was_answered_is_over_once_the_prompt_is_back() -> None:
    rows = (*CLAUDE_DIALOG[4:8], "ok", "> ")
    assert state(evidence(*rows, cursor=(5, 2))) is PaneState.IDLE
    assert state(evidence(*rows[:5], cursor=(4, 2))) is PaneState.BLOCKED


def test_a_list_beside_a_quoted_question_is_no_dialog_when_the_agent_says_it_is_idle() -> None:
    rows = ("The tool asks (y/n) here:", "1. Yes continues", "2. No stops", "done")
    assert state(evidence(*rows, signal=Signal("idle"))) is PaneState.IDLE
    assert state(evidence(*rows)) is PaneState.BLOCKED


def test_a_question_that_scrolled_out_of_the_last_fourteen_rows_asks_nobody() -> None:
    rows = ("Overwrite? (y/n)", *(f"line {i}" for i in range(14)))
    assert find_dialog(rows, (14, 7)) is None
    assert find_dialog(rows[:14], (13, 7)) is not None


def test_a_role_may_name_its_own_prompts() -> None:
    rows = ("Shall I go on, captain?", "more")
    assert state(evidence(*rows)) is PaneState.IDLE
    assert state(evidence(*rows, prompts=("shall I GO on",))) is PaneState.BLOCKED


def test_the_agents_own_signal_beats_title_and_screen() -> None:
    working, idle = Signal("working"), Signal("idle")
    assert state(evidence("x", signal=working, title="✳ Claude Code")) is PaneState.SILENT
    assert state(evidence("x", signal=working, quiet=5)) is PaneState.WORKING
    assert state(evidence("moving", signal=idle, quiet=0, title="◐ Claude")) is PaneState.IDLE
    assert state(evidence("see (y/n) above", signal=idle)) is PaneState.IDLE
    blocked = Signal("blocked", "permission", "codex", "approve Bash: touch x")
    status = classify(evidence("x", signal=blocked), 0)
    assert (status.state, status.question) == (PaneState.BLOCKED, "approve Bash: touch x")


def test_hooks_come_after_the_agents_signal_and_before_the_screen() -> None:
    working, idle = Signal("working"), Signal("idle")
    assert classify(evidence("x", hook=working, quiet=5), 0).source is Source.HOOK
    assert state(evidence("x", hook=working, quiet=5)) is PaneState.WORKING
    assert state(evidence("moves", hook=idle, quiet=0)) is PaneState.IDLE
    assert state(evidence("x", hook=working, signal=idle)) is PaneState.IDLE
    assert state(evidence("x", hook=idle, booted=False)) is PaneState.BOOTING


def test_a_hook_that_never_heard_the_end_of_a_turn_does_not_pin_the_state() -> None:
    working = Signal("working")
    assert state(evidence("x", hook=working, quiet=5, title="✳ Claude Code")) is PaneState.IDLE
    assert state(evidence("x", hook=working, quiet=31)) is PaneState.IDLE
    assert state(evidence("x", hook=Signal("idle"), title="◐ Claude", quiet=1)) is PaneState.WORKING


@pytest.mark.parametrize(
    ("rows", "question"),
    [
        (("> Do you want to proceed?", " 1. Yes", " 2. No", ""), "> Do you want to proceed?"),
        (("old?", "Run `make`?", "", "  ❯ Yes", "    No"), "Run `make`?"),
        (("● working on it", "| May I delete build/?"), "May I delete build/?"),
        (("nothing that asks",), "permission"),
        ((), "permission"),
    ],
)
def test_a_signal_that_only_says_blocked_takes_its_question_from_the_screen(
    rows: tuple[str, ...], question: str
) -> None:
    status = classify(evidence(*rows, signal=Signal("blocked", "permission", "fake", "")), 0)
    assert (status.state, status.question) == (PaneState.BLOCKED, question)


def test_a_hook_that_says_blocked_counts_while_the_question_is_there() -> None:
    asks = Signal("blocked", message="Claude needs your permission to use Bash")
    status = classify(evidence(*CLAUDE_DIALOG, hook=asks), 0)
    assert (status.state, status.source) == (PaneState.BLOCKED, Source.HOOK)
    assert status.question == "Do you want to proceed?"
    assert state(evidence("> ", hook=asks)) is PaneState.IDLE


@given(st.text(), st.text(), st.sampled_from(["blocked", "working", "idle", "odd"]))
def test_what_an_agent_says_is_shown_as_one_bounded_line(kind: str, text: str, said: str) -> None:
    for e in (
        evidence("x", signal=Signal(said, kind, "app", text * 50), title=text),
        evidence(*CLAUDE_DIALOG, hook=Signal(said, kind, "app", text * 50)),
    ):
        status = classify(e, 0)
        for shown in (status.evidence, status.question):
            assert len(shown) <= 240
            assert all(c.isprintable() for c in shown)


def test_an_open_dialog_with_options_is_blocked_whatever_the_agent_said_before() -> None:
    for said in ("idle", "done", "working"):
        assert state(evidence(*CLAUDE_DIALOG, signal=Signal(said))) is PaneState.BLOCKED
    assert state(evidence(*CLAUDE_DIALOG, title="✳ Claude Code")) is PaneState.BLOCKED


def test_the_question_names_what_it_is_about() -> None:
    rows = (
        "  Would you like to run the following command?",
        "",
        "  Reason: needs it",
        "  $ touch x",
        "",
        "› 1. Yes, proceed (y)",
        "  2. No (esc)",
        "  Press enter to confirm or esc to cancel",
    )
    status = classify(evidence(*rows), 0)
    assert status.question == (
        "Would you like to run the following command? Reason: needs it $ touch x"
    )


CAPTURES = Path(__file__).resolve().parents[2].parent / "shared" / "data/terminal/captures"


@pytest.mark.skipif(not CAPTURES.is_dir(), reason=f"no recordings in {CAPTURES}")
@pytest.mark.parametrize(
    ("name", "size", "expected", "words"),
    [
        ("codex-permission.bin", 9962, PaneState.BLOCKED, "$ touch"),
        ("gemini-permission.bin", 17975, PaneState.BLOCKED, "Allow execution of [Shell]?"),
        ("qwen24-permission.bin", 255442, PaneState.BLOCKED, "Allow execution of: 'touch'?"),
        ("codex-firstrun-noconfig.bin", 10**9, PaneState.BLOCKED, ""),
        ("opencode-working.bin", 30000, PaneState.WORKING, ""),
        ("pi-working.bin", 20000, PaneState.WORKING, ""),
        ("codex-submit.bin", 10**9, PaneState.IDLE, ""),
        ("gemini-submit.bin", 10**9, PaneState.IDLE, ""),
        ("qwen24-submit.bin", 10**9, PaneState.IDLE, ""),
        ("opencode-submit.bin", 10**9, PaneState.IDLE, ""),
        ("pi-submit.bin", 10**9, PaneState.IDLE, ""),
    ],
)
def test_recorded_agents_are_in_the_state_their_scene_says(
    name: str, size: int, expected: PaneState, words: str
) -> None:
    screen = Screen(120, 40, 100)
    screen.feed((CAPTURES / name).read_bytes()[:size])
    place = (screen.cursor.y, screen.cursor.x)
    e = evidence(*screen.rows(), cursor=place, signal=screen.signal, title=screen.title, quiet=5)
    status = classify(e, 0)
    assert status.state is expected
    assert words in status.question


@pytest.mark.skipif(not CAPTURES.is_dir(), reason=f"no recordings in {CAPTURES}")
@pytest.mark.parametrize(
    ("name", "size", "ready"),
    [
        ("codex-submit.bin", 10**9, True),
        ("codex-firstrun-noconfig.bin", 10**9, False),
        ("gemini-submit.bin", 10**9, True),
        ("gemini-submit.bin", 200, False),
        ("opencode-submit.bin", 10**9, True),
        ("opencode-submit.bin", 1500, False),
        ("pi-submit.bin", 10**9, True),
        ("qwen24-submit.bin", 10**9, True),
    ],
)
def test_recorded_agents_show_that_they_are_ready_by_their_own_marks(
    name: str, size: int, ready: bool
) -> None:
    screen = Screen(120, 40, 100)
    screen.feed((CAPTURES / name).read_bytes()[:size])
    marks = adapter_for(name.split("-")[0].rstrip("24")).marks
    found = marks.are_ready(screen.rows(), raw=True, paste=screen.bracketed_paste)
    assert found is ready


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("[ ! ] Action Required | work", PaneState.BLOCKED),
        ("[ . ] Action Required | work", PaneState.BLOCKED),
        ("✋  Action Required", PaneState.BLOCKED),
        ("⠋ thinking | work", PaneState.WORKING),
        ("◐ Claude Code", PaneState.WORKING),
        ("✦  Working…", PaneState.WORKING),
        ("✳ Claude Code", PaneState.IDLE),
        ("◇  Ready", PaneState.IDLE),
        ("some directory", PaneState.WORKING),
    ],
)
def test_window_titles_of_known_agents(title: str, expected: PaneState) -> None:
    assert state(evidence("x", title=title, quiet=1.0)) is expected


def test_a_long_silent_call_is_silent_and_not_idle() -> None:
    row = "✻ Pondering… (esc to interrupt)"
    assert state(evidence(row, quiet=10)) is PaneState.WORKING
    assert state(evidence(row, quiet=31)) is PaneState.SILENT
    assert state(evidence("x", signal=Signal("working"), quiet=31)) is PaneState.SILENT


def test_a_pane_is_booting_until_it_has_come_to_rest_once() -> None:
    clock = BootClock(100.0)
    assert not clock.booted(100.9, 99.0, True, None)
    assert not clock.booted(102.0, 101.0, True, None)
    assert clock.booted(102.3, 101.0, True, None)
    assert clock.booted(102.4, 102.4, True, None)
    assert state(evidence("x", booted=False)) is PaneState.BOOTING


def test_an_agent_that_draws_nothing_or_never_rests_is_started_in_the_end() -> None:
    assert not BootClock(0.0).booted(2.9, 0.0, False, None)
    assert BootClock(0.0).booted(3.0, 0.0, False, None)
    assert not BootClock(0.0).booted(19.0, 19.0, True, None)
    assert BootClock(0.0).booted(20.0, 20.0, True, None)
    assert BootClock(0.0).booted(1.0, 1.0, True, Signal("idle"))


def test_a_known_agent_is_booting_until_it_shows_that_it_takes_input() -> None:
    clock = BootClock(0.0)
    assert not clock.booted(30.0, 1.0, True, None, False)
    assert clock.booted(30.1, 1.0, True, None, True)
    assert clock.booted(30.2, 30.2, True, None, False)
    assert BootClock(0.0).booted(3.0, 3.0, True, Signal("idle"), False)


def test_a_known_agent_whose_marks_have_changed_is_judged_like_an_unknown_one_in_the_end() -> None:
    clock = BootClock(0.0)
    assert not clock.booted(44.9, 1.0, True, None, False)
    assert clock.booted(45.0, 1.0, True, None, False)


def test_everything_an_agent_shows_when_it_is_ready_must_be_there() -> None:
    marks = Marks(takes_over=True, pastes=True, ready=re.compile("type your message"))
    rows = ["> type your message"]
    assert marks.are_ready(rows, raw=True, paste=True)
    assert not marks.are_ready(rows, raw=False, paste=True)
    assert not marks.are_ready(rows, raw=True, paste=False)
    assert not marks.are_ready(["loading"], raw=True, paste=True)
    assert not Marks().know_ready


def test_the_marks_of_one_program_mean_nothing_for_another() -> None:
    asks = Marks(questions=("(y)es/(n)o",), working=re.compile("crunching"))
    row = "Add a.py to the chat? (Y)es/(N)o [Yes]:"
    assert state(evidence(row, marks=asks)) is PaneState.BLOCKED
    assert state(evidence(row)) is PaneState.IDLE
    assert state(evidence("Crunching tokens", "", marks=asks, quiet=5)) is PaneState.WORKING
    assert state(evidence("Crunching tokens", "", quiet=5)) is PaneState.IDLE


@pytest.mark.parametrize(
    ("row", "chrome"),
    [
        ("  ? for shortcuts", True),
        ("╭──────────╮", True),
        ("⣾ ⣽", True),
        ("│ > text │", False),
        ("Release-Notes: 2.1", True),
        ("plain text", False),
        ("", False),
    ],
)
def test_footers_and_frames_are_chrome(row: str, chrome: bool) -> None:
    assert is_chrome(row, DEFAULT_CHROME) is chrome


@given(st.text())
def test_shown_text_is_one_printable_bounded_line(text: str) -> None:
    shown = plain(text)
    assert len(shown) <= 240
    assert all(c.isprintable() for c in shown)


@given(
    st.lists(st.text(alphabet="abc (y/n)?│❯1.>$ ", max_size=30), max_size=20).map(tuple),
    st.tuples(st.integers(-2, 30), st.integers(0, 40)),
    st.text(max_size=10),
)
def test_any_evidence_gives_a_state(
    rows: tuple[str, ...], cursor: tuple[int, int], title: str
) -> None:
    assert state(evidence(*rows, cursor=cursor, title=title)) in PaneState
