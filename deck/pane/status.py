"""What state an agent is in, from what can be known about it. Pure: evidence in, status out.

The order is a law: the process first (exited, paused), then what the agent says of itself (OSC
7501, then its hooks), then its window title, then the text on its screen, and last whether the
screen moves at all. A hook is not told of every end of a turn, so a later title contradicts it.
A screen that shows an open dialog is never called idle, whatever else was said: a line typed there
would answer it. The evidence a state was chosen on is kept with it. Called by `pane`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

# Contract 1.6 / 1.8.
WORKING_WINDOW_SECONDS: Final = 2.0
BOOT_MIN_SECONDS: Final = 1.0
BOOT_QUIET_SECONDS: Final = 1.2
# An agent that has drawn nothing at all is given this long before it counts as started.
BOOT_BLANK_SECONDS: Final = 3.0
# An agent whose screen never rests (a clock, an animation) counts as started after this long.
BOOT_MAX_SECONDS: Final = 20.0
# A known agent that has not shown its prompt by now is judged like an unknown one: its marks may
# have changed with a version we have not measured (first starts take up to 10 s).
BOOT_KNOWN_MAX_SECONDS: Final = 45.0
# "Working" by its own word, but not one cell moved for this long: silent, not idle.
SILENT_SECONDS: Final = 30.0
WINDOW_ROWS: Final = 14
QUESTION_LIMIT: Final = 240

# Contract 1.8: rows of the agents' own footers, which move without meaning anything.
DEFAULT_CHROME: Final = (
    "for agents",
    "for shortcuts",
    "lazy:full",
    "release-notes",
    "auto-update",
)
# Contract 1.8: what a pane that waits for a person shows.
WAITING_MARKERS: Final = (
    "esc to cancel",
    "do you want to proceed",
    "allow access",
    "(y/n)",
    "[y/n]",
    "press enter to continue",
    # Further wordings measured in current clients (their permission and trust dialogs).
    "do you want to create",
    "do you want to make this edit",
    "would you like to run the following command",
    "allow execution of",
    "waiting for user confirmation",
    "do you trust the",
    "do you trust this",
)


class PaneState(StrEnum):
    """The states a pane can be in; the values are shown to people and written to logs."""

    BOOTING = "booting"
    IDLE = "idle"
    WORKING = "working"
    BLOCKED = "blocked"
    PAUSED = "paused"
    EXITED = "exited"
    SILENT = "silent"


class Source(StrEnum):
    """Where a state was read from, strongest first."""

    PROCESS = "process"
    SIGNAL = "signal"
    HOOK = "hook"
    TITLE = "title"
    SCREEN = "screen"
    ACTIVITY = "activity"

    @property
    def is_fact(self) -> bool:
        """Whether the agent or the kernel said so, rather than a look at its screen."""
        return self in (Source.PROCESS, Source.SIGNAL, Source.HOOK, Source.TITLE)


@dataclass(frozen=True, slots=True)
class Marks:
    """What one agent program shows of itself, beside what all of them show.

    `takes_over`: it puts the terminal into raw mode before it reads; `pastes`: it has asked for
    bracketed paste by then, too. `ready` is a row of its screen once it takes input. `questions`
    (lower case) are parts of rows that ask a person, `working` of a row that says a turn runs.
    """

    takes_over: bool = False
    pastes: bool = False
    ready: re.Pattern[str] | None = None
    working: re.Pattern[str] | None = None
    questions: tuple[str, ...] = ()

    @property
    def know_ready(self) -> bool:
        """Whether there is a sign that it takes input."""
        return self.takes_over or self.pastes or self.ready is not None

    def are_ready(self, rows: Sequence[str], *, raw: bool, paste: bool) -> bool:
        """Whether everything is there that the agent shows once it takes input."""
        if (self.takes_over and not raw) or (self.pastes and not paste):
            return False
        return self.ready is None or any(self.ready.search(row) for row in rows)


NO_MARKS: Final = Marks()


@dataclass(frozen=True, slots=True)
class Signal:
    """The last OSC 7501 report: state, kind (of a block), application, message (cleaned)."""

    state: str
    kind: str = ""
    app: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """A state, where it was read, the words it was read from, the open question, and since when."""

    state: PaneState
    source: Source
    evidence: str
    question: str
    since: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything `classify` looks at. `quiet` is seconds since a cell last changed."""

    exit: str | None
    paused: bool
    signal: Signal | None
    title: str
    rows: Sequence[str]
    cursor: tuple[int, int]
    quiet: float
    booted: bool
    input_prompts: Sequence[str] = ()
    marks: Marks = NO_MARKS
    hook: Signal | None = None


class BootClock:
    """Decides once per run that the agent has started: contract 1.7, on cells instead of bytes."""

    def __init__(self, started: float) -> None:
        self.started = started
        self._booted = False

    def booted(
        self,
        now: float,
        changed_at: float,
        drawn: bool,
        signal: Signal | None,
        ready: bool | None = None,
    ) -> bool:
        """True from the first moment the agent can be typed to; stays true.

        `ready` is what a known agent shows of it, None for an unknown one. What is typed before
        it reads is lost: Gemini CLI throws it away and has "Ready" in its title already then.
        """
        if self._booted:
            return True
        age, quiet = now - self.started, now - changed_at
        said_ready = signal is not None and signal.state in ("idle", "done", "blocked")
        if age < BOOT_MIN_SECONDS:
            return False
        if ready is False and not said_ready and age < BOOT_KNOWN_MAX_SECONDS:
            return False
        if said_ready or age >= BOOT_MAX_SECONDS:
            self._booted = True
        elif drawn:
            self._booted = quiet >= BOOT_QUIET_SECONDS
        else:
            self._booted = age >= BOOT_BLANK_SECONDS
        return self._booted


_DRAWN = re.compile("[\u2500-\u25ff\u2800-\u28ff]")
_BORDER = re.compile(r"[\u2500-\u257f|]+")
# "(esc to cancel, 12s)", "2s · esc to cancel": a turn that runs and may be cancelled, no question.
_CANCEL_RUNNING = re.compile(
    r"\(esc to cancel(?:,|$)"
    r"|\((?:\d+[mh] ?)*\d+ ?s\b[^()]*esc to cancel"
    r"|\d+ ?s *[·•,] *esc to cancel"
)
_WORKING_TEXT = re.compile(r"esc (?:again )?(?:to )?interrupt|\bretrying in \d+|\bworking\.\.\.")
_OPTION = re.compile(r"^[\s❯›●○◉>*]*(?:\d+[.)]\s|\[?(?:yes|no|allow|deny|reject|approve)\b)", re.I)
_SELECTED = re.compile(r"^\s*[❯›●◉▶→>]\s*\S")
# A shell or composer prompt with nothing after it: whatever is asked above it is over.
_EMPTY_PROMPT = re.compile(r"(?:^|[^\d\s]|\s)[>❯›$#%]\s*$")
_QUOTED = re.compile(r"^\s*(?:\d+\s+)?(?:[-+]\s?\S|>{1,3}\s\S|//|#\s|\*\s|\"\"\")")
_TITLE_BLOCKED = re.compile(r"action required|✋", re.I)
_TITLE_WORKING = re.compile(r"^\W*[\u2801-\u28ff◐◑◒◓✦]")
_TITLE_IDLE = re.compile(r"^\W*[✳◇]")


def title_shows_work(title: str) -> bool:
    """Whether a window title says that a turn runs or waits for a person."""
    return bool(_TITLE_WORKING.search(title) or _TITLE_BLOCKED.search(title))


@lru_cache(maxsize=8192)
def is_chrome(row: str, markers: tuple[str, ...]) -> bool:
    """Whether a row is decoration (contract 1.8): a footer text, or mostly boxes and braille.

    `markers` are lower-cased.
    """
    low = row.lower()
    if any(marker in low for marker in markers):
        return True
    ink = sum(map(len, row.split()))
    return ink > 0 and len(_DRAWN.findall(row)) * 2 >= ink


def plain(text: str, limit: int = QUESTION_LIMIT) -> str:
    """Text of an agent made safe to show: no control characters, one line, bounded."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    clean = " ".join(_BORDER.sub(" ", clean).split())
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


@dataclass(frozen=True, slots=True)
class Dialog:
    """An open question. `strong`: it offers options and one is selected, so it is no quotation."""

    marker: str
    question: str
    strong: bool


def find_dialog(
    rows: Sequence[str],
    cursor: tuple[int, int],
    input_prompts: Sequence[str] = (),
    questions: Sequence[str] = (),
) -> Dialog | None:
    """The question the screen asks, if it asks one now.

    A marker of contract 1.8 in the last 14 non-blank rows counts, unless the cursor stands after an
    empty prompt below it and its options, or the row is a quotation (a diff, a comment, a list)
    without options and the cursor is elsewhere: a question in a shown document asks nobody.
    """
    numbered = [(y, row) for y, row in enumerate(rows) if row.strip()][-WINDOW_ROWS:]
    own = [p.lower() for p in input_prompts if p]
    for index in range(len(numbered) - 1, -1, -1):
        y, row = numbered[index]
        low = _CANCEL_RUNNING.sub("", row.lower())
        configured = next((m for m in own if m in low), None)
        marker = configured or next((m for m in (*questions, *WAITING_MARKERS) if m in low), None)
        if marker is None:
            continue
        around = [(at, _BORDER.sub(" ", r)) for at, r in numbered[max(0, index - 8) :]]
        options = [(at, r) for at, r in around if _OPTION.match(r)]
        strong = len(options) >= 2 and any(_SELECTED.match(r) for _, r in options)
        if _is_over(max([y, *(at for at, _ in options)]), rows, cursor):
            continue
        if not strong and configured is None and cursor[0] != y and _is_quoted(row, marker):
            continue
        return Dialog(marker, _question(numbered, index), strong or configured is not None)
    return None


def _is_over(last: int, rows: Sequence[str], cursor: tuple[int, int]) -> bool:
    """Whether the question is answered: the cursor is at an empty prompt below row `last`."""
    y, x = cursor
    if not last < y < len(rows):
        return False
    return _EMPTY_PROMPT.search(_BORDER.sub(" ", rows[y][:x])) is not None


def _is_quoted(row: str, marker: str) -> bool:
    """Whether a row shows the marker as part of a document."""
    bare = _BORDER.sub(" ", row).lower()
    return bool(_QUOTED.match(bare)) or f"`{marker}" in bare or f'"{marker}' in bare


def _question(numbered: Sequence[tuple[int, str]], index: int) -> str:
    """The words to show: the nearest row at or above the marker that asks, and what it asks about.

    What it asks about (a command, a path) stands between the asking row and the first option.
    """
    rows = [plain(row) for _, row in numbered]
    first = max(0, index - 10)
    asking = [i for i in range(index, first - 1, -1) if rows[i].endswith("?")]
    asking += [i for i in range(index, first - 1, -1) if "?" in rows[i]]
    if not asking:
        return rows[index]
    words = [rows[asking[0]]]
    for row in rows[asking[0] + 1 : index]:
        if _OPTION.match(row):
            break
        words.append(row)
    return plain(" ".join(words))


def _asked(rows: Sequence[str]) -> str:
    """The question at the end of a screen that is known to ask one, "" where no row asks: then
    nothing in it can be mistaken for a quotation."""
    numbered = [(y, row) for y, row in enumerate(rows) if row.strip()][-WINDOW_ROWS:]
    asking = [i for i, (_, row) in enumerate(numbered) if plain(row).endswith("?")]
    return _question(numbered, asking[-1]) if asking else ""


def classify(e: Evidence, now: float) -> Status:
    """The state of a pane. `now` becomes `since`; the caller keeps an older equal one."""

    def status(state: PaneState, source: Source, evidence: str, question: str = "") -> Status:
        return Status(state, source, plain(evidence), plain(question), now)

    if e.exit is not None:
        return status(PaneState.EXITED, Source.PROCESS, e.exit)
    if e.paused:
        return status(PaneState.PAUSED, Source.PROCESS, "stopped by SIGSTOP")
    dialog = find_dialog(e.rows, e.cursor, e.input_prompts, e.marks.questions)
    said = e.signal.state if e.signal is not None else ""
    if said == "blocked" and e.signal is not None:
        shown = dialog.question if dialog else _asked(e.rows)
        question = e.signal.message or shown or e.signal.kind or "a question"
        return status(
            PaneState.BLOCKED, Source.SIGNAL, f"OSC 7501 blocked {e.signal.kind}", question
        )
    if _TITLE_BLOCKED.search(e.title) and said not in ("working", "idle", "done"):
        question = dialog.question if dialog else plain(e.title)
        return status(PaneState.BLOCKED, Source.TITLE, plain(e.title), question)
    if dialog is not None and e.hook is not None and e.hook.state == "blocked":
        return status(PaneState.BLOCKED, Source.HOOK, e.hook.message, dialog.question)
    if dialog is not None and (dialog.strong or not said):
        return status(PaneState.BLOCKED, Source.SCREEN, dialog.marker, dialog.question)
    if not e.booted:
        return status(PaneState.BOOTING, Source.ACTIVITY, "does not take input yet")
    return _by_word(e, now) or _by_screen(e, now)


def _by_word(e: Evidence, now: float) -> Status | None:
    """What a started agent without a question says of itself, None when it says nothing."""

    def status(state: PaneState, source: Source, evidence: str) -> Status:
        return Status(state, source, plain(evidence), "", now)

    said = e.signal.state if e.signal is not None else ""
    if said == "working":
        return _busy(e, status(PaneState.WORKING, Source.SIGNAL, "OSC 7501 working"))
    if said in ("idle", "done", "error"):
        return status(PaneState.IDLE, Source.SIGNAL, f"OSC 7501 {said}")
    hook = e.hook.state if e.hook is not None else ""
    title_works, title_rests = _TITLE_WORKING.search(e.title), _TITLE_IDLE.search(e.title)
    if hook == "idle" and not title_works:
        return status(PaneState.IDLE, Source.HOOK, "its hook says idle")
    # An interrupted turn ends without a word from the hooks.
    if hook == "working" and not title_rests and e.quiet < SILENT_SECONDS:
        return status(PaneState.WORKING, Source.HOOK, "its hook says working")
    if title_works:
        return _busy(e, status(PaneState.WORKING, Source.TITLE, e.title))
    return status(PaneState.IDLE, Source.TITLE, e.title) if title_rests else None


def _by_screen(e: Evidence, now: float) -> Status:
    for row in [r for r in e.rows if r.strip()][-WINDOW_ROWS:]:
        low = row.lower()
        found = _WORKING_TEXT.search(low) or _CANCEL_RUNNING.search(low)
        found = found or (e.marks.working and e.marks.working.search(low))
        if found and not _QUOTED.match(row):
            words = plain(found.group())
            return _busy(e, Status(PaneState.WORKING, Source.SCREEN, words, "", now))
    if e.quiet < WORKING_WINDOW_SECONDS:
        return Status(PaneState.WORKING, Source.ACTIVITY, "the screen changes", "", now)
    return Status(PaneState.IDLE, Source.ACTIVITY, "the screen is at rest", "", now)


def _busy(e: Evidence, working: Status) -> Status:
    if e.quiet < SILENT_SECONDS:
        return working
    return Status(
        PaneState.SILENT,
        working.source,
        f"{working.evidence}, but the screen has been still",
        "",
        working.since,
    )
