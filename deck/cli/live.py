"""The board on a terminal: `choragos board` and `status`, and the view of a foreground `serve`.

Owns the drawing (rich); every fact comes from the session's `status`. A view is never needed for
the session to work.
"""

from __future__ import annotations

import json
import sys
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import typer

from deck.cli.errands import send
from deck.cli.work import Json
from deck.protocol import Command, Verb

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_STATE_STYLE: Final = {
    "working": "green",
    "idle": "dim",
    "blocked": "bold yellow",
    "booting": "cyan",
    "exited": "red",
    "silent": "yellow",
    "queued": "cyan",
    "gated": "bold yellow",
    "typed": "blue",
    "submitted": "blue",
    "picked-up": "green",
    "in-review": "bold cyan",
    "paused": "magenta",
    "reported": "bold green",
    "lost": "bold red",
    "timed-out": "bold red",
    "refused": "red",
}
_TASKS_SHOWN: Final = 30
#: A live view on a low terminal shows at least so many tasks and lets the terminal cut the rest.
_TASKS_LEAST: Final = 3
#: Lines of the live view that are neither a role, a task nor a note: titles, rules, hint.
_FRAME_LINES: Final = 11
#: States in which nothing more happens: the first to give way when there is no room.
_OVER: Final = frozenset({"reported", "refused"})
_TEXTS: Final = ("task", "evidence", "note", "label")
_WIDEST: Final = {"role": 20, "from": 14}
FINISH_SECONDS: Final = 1.0


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("board")(board)
    app.command("status")(status)


def board(as_json: Json = False) -> None:
    """Show roles, tasks, gateway and cost of this directory's session."""
    status = send(Command(Verb.STATUS))
    if as_json:
        typer.echo(json.dumps(status, ensure_ascii=False, indent=2))
        return
    from rich.console import Console

    Console().print(render(status))


def status(as_json: Json = False) -> None:
    """Show what state each role is in, since when, and what says so."""
    found = send(Command(Verb.STATUS))
    if as_json:
        typer.echo(json.dumps(found["roles"], ensure_ascii=False, indent=2))
        return
    from rich.console import Console

    Console().print(render_evidence(found))


def render_evidence(found: Mapping[str, Any]) -> RenderableType:
    """Return the state of each role of one `status` answer with what it was read from."""
    from deck.durations import format_age

    rows = [
        (
            _plain(role["name"]),
            _state(role["state"]),
            _plain(format_age(role.get("seconds", 0.0))),
            _plain(role.get("evidence", "")),
            _plain(role["question"] or role["exit"] or role["held"]),
        )
        for role in found["roles"]
    ]
    return _table(("role", "state", "for", "evidence", "note"), rows)


def render(status: Mapping[str, Any], tasks_shown: int = _TASKS_SHOWN) -> RenderableType:
    """Return the board of one `status` answer, with at most so many tasks."""
    from rich.console import Group

    parts: list[RenderableType] = [_header(status), "", _roles(status)]
    if status["tasks"]:
        parts += ["", _tasks(status, tasks_shown)]
    if notes := _notes(status, tasks_shown):
        parts += ["", *notes]
    return Group(*parts)


def render_live(status: Mapping[str, Any], height: int) -> RenderableType:
    """Return the board for a terminal of `height` lines: what waits for a person stays in sight."""
    from rich.console import Group
    from rich.text import Text

    hint = Text("Ctrl-C stops the session and its agents", "dim")
    taken = _FRAME_LINES + len(status["roles"]) + len(_notes(status, _TASKS_SHOWN))
    room = min(max(height - taken, _TASKS_LEAST), _TASKS_SHOWN)
    return Group(render(status, room), hint)


class LiveBoard(threading.Thread):
    """Draws the latest status until it is told to finish.

    A thread of its own: a terminal that has been stopped (Ctrl-S) holds up the drawing and
    nothing else.
    """

    def __init__(self, status: Mapping[str, Any]) -> None:
        super().__init__(name="board", daemon=True)
        self._status = status
        self._changed = threading.Event()
        self._over = False

    def show(self, status: Mapping[str, Any]) -> None:
        """Draw this one from now on."""
        self._status = status
        self._changed.set()

    def finish(self) -> None:
        """Draw the last one and end; a terminal that does not take it is not waited for."""
        self._over = True
        self._changed.set()
        self.join(FINISH_SECONDS)

    def run(self) -> None:
        """The thread's work."""
        from rich.console import Console
        from rich.live import Live

        console = Console()
        with _no_echo(), Live(console=console, auto_refresh=False) as view:
            while not self._over:
                view.update(render_live(self._status, console.height), refresh=True)
                self._changed.wait()
                self._changed.clear()
            view.update(render(self._status), refresh=True)


@contextmanager
def _no_echo() -> Iterator[None]:
    """Keys pressed meanwhile, `^C` among them, must not be drawn into the board."""
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (OSError, ValueError, AttributeError, termios.error):
        yield
        return
    quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    try:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, quiet)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _header(status: Mapping[str, Any]) -> RenderableType:
    from rich.text import Text

    gateway = status["gateway"]
    text = Text.assemble((f"choragos · {status['dir']}", "bold"), f"  {status['phase']}  gateway ")
    if not gateway["on"]:
        text.append("off", "yellow")
    elif gateway["up"]:
        text.append(f"ready at {gateway['url']}", "green")
    else:
        text.append(f"not ready: {gateway['reason']}", "bold red")
    if status["finished"]:
        text.append("  assignment complete", "bold green")
    return text


def _roles(status: Mapping[str, Any]) -> RenderableType:
    from deck.pricing import format_tokens

    rows = []
    usage = {row["role"]: row for row in status["usage"]}
    for role in status["roles"]:
        used = usage.get(role["name"], {})
        up = sum(used.get(key, 0) for key in ("in", "cache_creation", "cache_read"))
        tokens = f"↑{format_tokens(up)} ↓{format_tokens(used.get('out', 0))}"
        rows.append(
            (
                _plain(role["name"]),
                _state(role["state"]),
                _plain(str(role["pid"] or "-")),
                _plain(str(role["waiting"] or "-")),
                _plain(tokens if up or used.get("out") else "-"),
                _spent(used),
                _plain(role["question"] or role["exit"] or role["held"]),
            )
        )
    return _table(("role", "state", "pid", "queue", "tokens", "cost", "note"), rows)


def _tasks(status: Mapping[str, Any], room: int) -> RenderableType:
    rows = [
        (
            _plain(task["id"]),
            _plain(task["role"]),
            _state(task["state"]),
            _plain(task["from"]),
            _plain(_age(task["at"])),
            _plain(task["label"]),
            _plain(task["reason"] or task.get("question", "") or _merge(task)),
        )
        for task in _shown(status["tasks"], room)
    ]
    return _table(("id", "role", "state", "from", "age", "task", "note"), rows)


def _merge(task: Mapping[str, Any]) -> str:
    """What became of the branch of a task that is over."""
    landing = task.get("merge")
    return f"{landing['state']}: {landing['reason']}".rstrip(": ") if landing else ""


def _shown(tasks: Sequence[Mapping[str, Any]], room: int) -> list[Mapping[str, Any]]:
    """Return the tasks there is room for, oldest first: what is over gives way to what is not."""
    surplus = max(len(tasks) - room, 0)
    gone = {row["id"] for row in [row for row in tasks if row["state"] in _OVER][:surplus]}
    return [row for row in tasks if row["id"] not in gone][-room:]


def _table(columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> RenderableType:
    """One line a row. Texts share what the other columns leave and are cut; `--json` has all."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for index, name in enumerate(columns):
        widest = max([len(name), *(row[index].cell_len for row in rows)])
        limit = _WIDEST.get(name, widest)
        # Only a column without a width of its own gives way on a narrow terminal.
        table.add_column(name, width=None if name in _TEXTS else min(widest, limit))
    for row in rows:
        table.add_row(*row)
    return table


def render_rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    """Return a table of plain texts."""
    return _table(columns, [[_plain(cell) for cell in row] for row in rows])


def _notes(status: Mapping[str, Any], tasks_shown: int) -> list[RenderableType]:
    from rich.text import Text

    said: list[tuple[str, str]] = []
    hidden = len(status["tasks"]) - tasks_shown
    if hidden > 0:
        said.append((f"{hidden} more task(s); `choragos board --json` has all", "dim"))
    said += [_waits(gate) for gate in status["gates"] if gate["state"] == "open"]
    lost = [task["id"] for task in status["tasks"] if task["state"] == "lost"]
    if lost:
        said.append((f"{len(lost)} lost ({', '.join(lost[:5])}): choragos again --all", "red"))
    said += [
        (f"{report['id']} kept from {report['from']}: {report['label']}", "yellow")
        for report in status["reports"]
        if report["state"] == "kept"
    ]
    notes: list[RenderableType] = []
    for line, style in said:
        note = _plain(line)
        note.stylize(style)
        notes.append(note)
    if status["journal"]["failure"]:
        notes.append(Text(f"ledger: {status['journal']['failure']}", "bold red"))
    return notes


def _waits(gate: Mapping[str, Any]) -> tuple[str, str]:
    """What a gate waits for, with the command that a person types next."""
    from deck.cli.gates import left

    # A deck of another version tells less.
    is_task = gate.get("kind", "entry") == "entry"
    about = gate["label"] if is_task else f"{gate['what']}: {gate['label']}"
    if changed := gate.get("changed"):
        return f"{gate['id']} cannot be approved: {changed}  ({about})", "bold red"
    extra = ", ".join(s for s in (gate.get("progress", ""), left(gate.get("until", 0))) if s)
    shown = f"  {extra}" if extra else ""
    return f"{gate['id']} waits: choragos approve {gate['id']}  ({about}){shown}", "yellow"


def _state(name: str) -> Text:
    from rich.text import Text

    return Text(name, _STATE_STYLE.get(name, ""))


def _plain(text: str) -> Text:
    """Text from agents is shown as it is, never read as markup."""
    from rich.text import Text

    shown = "".join(c if c.isprintable() else " " for c in text)
    return Text(shown, no_wrap=True, overflow="ellipsis")


def _spent(used: Mapping[str, Any]) -> Text:
    """What a role has cost and, with a budget, of how much."""
    from rich.text import Text

    budget = used.get("budget_usd")
    said = _cost(used.get("cost_usd")) + ("" if budget is None else f" of {_cost(budget)}")
    return Text(said, "bold red" if used.get("exceeded") else "", no_wrap=True)


def _cost(amount: float | None) -> str:
    from decimal import Decimal

    from deck.pricing import format_cost

    return "-" if amount is None else format_cost(Decimal(str(amount)))


def _age(at: int) -> str:
    from deck.durations import format_age

    # An earlier deck did not keep when.
    return format_age(datetime.now(UTC).timestamp() - at / 1_000_000) if at else "-"
