"""The board on a terminal: `choragos board`, and the live view of a foreground `serve`.

Owns the drawing (rich); every fact comes from the session's `status`. A view is never needed for
the session to work.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import typer

from deck.cli.work import Json, send
from deck.protocol import Command, Verb

if TYPE_CHECKING:
    from rich.console import RenderableType

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
    "reported": "bold green",
    "lost": "bold red",
    "timed-out": "bold red",
    "refused": "red",
}
_TASKS_SHOWN: Final = 30
FINISH_SECONDS: Final = 1.0


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("board")(board)


def board(as_json: Json = False) -> None:
    """Show roles, tasks, gateway and cost of this directory's session."""
    status = send(Command(Verb.STATUS))
    if as_json:
        typer.echo(json.dumps(status, ensure_ascii=False, indent=2))
        return
    from rich.console import Console

    Console().print(render(status))


def render(status: Mapping[str, Any]) -> RenderableType:
    """Return the board of one `status` answer."""
    from rich.console import Group

    parts: list[RenderableType] = [_header(status), _roles(status)]
    if status["tasks"]:
        parts.append(_tasks(status))
    parts += _notes(status)
    return Group(*parts)


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
        from rich.live import Live

        with Live(render(self._status), auto_refresh=False) as view:
            while not self._over:
                self._changed.wait()
                self._changed.clear()
                view.update(render(self._status), refresh=True)


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
    from rich.table import Table

    from deck.pricing import format_tokens

    table = Table("role", "state", "pid", "waiting", "tokens", "cost", "note", expand=False)
    usage = {row["role"]: row for row in status["usage"]}
    for role in status["roles"]:
        used = usage.get(role["name"], {})
        up = sum(used.get(key, 0) for key in ("in", "cache_creation", "cache_read"))
        tokens = f"↑{format_tokens(up)} ↓{format_tokens(used.get('out', 0))}"
        table.add_row(
            _plain(role["name"]),
            _state(role["state"]),
            str(role["pid"] or "-"),
            str(role["waiting"] or "-"),
            tokens if up or used.get("out") else "-",
            _cost(used.get("cost_usd")),
            _plain(role["question"] or role["exit"] or role["held"]),
        )
    return table


def _tasks(status: Mapping[str, Any]) -> RenderableType:
    from rich.table import Table

    table = Table("id", "role", "state", "from", "age", "task", "note", expand=False)
    for task in status["tasks"][-_TASKS_SHOWN:]:
        table.add_row(
            task["id"],
            _plain(task["role"]),
            _state(task["state"]),
            _plain(task["from"]),
            _age(task["at"]),
            _plain(task["label"]),
            _plain(task["reason"] or task.get("question", "")),
        )
    return table


def _notes(status: Mapping[str, Any]) -> list[RenderableType]:
    from rich.text import Text

    said: list[tuple[str, str]] = []
    hidden = len(status["tasks"]) - _TASKS_SHOWN
    if hidden > 0:
        said.append((f"{hidden} earlier tasks not shown; --json has all", "dim"))
    said += [
        (f"{gate['id']} waits: choragos approve {gate['id']}  ({gate['label']})", "yellow")
        for gate in status["gates"]
        if gate["state"] == "open"
    ]
    said += [
        (f"{report['id']} kept from {report['from']}: {report['label']}", "yellow")
        for report in status["reports"]
        if report["state"] == "kept"
    ]
    if status["journal"]["failure"]:
        said.append((f"ledger: {status['journal']['failure']}", "bold red"))
    return [Text(line, style) for line, style in said]


def _state(name: str) -> RenderableType:
    from rich.text import Text

    return Text(name, _STATE_STYLE.get(name, ""))


def _plain(text: str) -> RenderableType:
    """Text from agents is shown as it is, never read as markup."""
    from rich.text import Text

    return Text("".join(c if c.isprintable() else " " for c in text))


def _cost(amount: float | None) -> str:
    from decimal import Decimal

    from deck.pricing import format_cost

    return "-" if amount is None else format_cost(Decimal(str(amount)))


def _age(at: int) -> str:
    from deck.durations import format_age

    return format_age(datetime.now(UTC).timestamp() - at / 1_000_000)
