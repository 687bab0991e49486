"""The report of a run: who was given what, how long it took, what it cost; from the event log.

Owns the reading of `delegate`, `work-done`, `tokens` and `budget exceeded` events and the two
forms of the report, text and JSON (contracts/deck.md section 1.12; the JSON only ever gains
keys). A report covers the last run in the file, from its `deck starting` on, unless all runs are
asked for; token counts are running totals of their run, so the last one of each run counts. Pure;
`choragos report` calls it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any, Final

from deck.durations import format_duration
from deck.events import Event
from deck.pricing import Tokens, format_cost, format_tokens, sum_tokens

_STARTING: Final = "deck starting"
_HEADINGS: Final = ("ROLE", "TASKS", "DONE", "BUSY", "AVG", "FIRST", "LAST", "TOKENS", "COST")
_NONE: Final = "-"


class NoEvents(Exception):
    """There is nothing to report on; the message says so."""


class Runs(Enum):
    """Which runs of the deck in one file a report covers."""

    LAST = "last"
    ALL = "all"


@dataclass(slots=True)
class TaskRow:
    """One delegation: times are the log's; tokens and cost where the deck knew them."""

    id: str
    role: str
    source: str
    delegated: datetime
    reported: datetime | None = None
    tokens: Tokens | None = None
    cost: Decimal | None = None

    @property
    def busy(self) -> float | None:
        """Seconds from delegation to report."""
        if self.reported is None:
            return None
        return (self.reported - self.delegated).total_seconds()


@dataclass(slots=True)
class RoleRow:
    """One role: its tasks, and what it used in each run."""

    name: str
    tasks: list[TaskRow] = field(default_factory=list)
    first: datetime | None = None
    last: datetime | None = None
    tokens_by_run: dict[int, Tokens] = field(default_factory=dict)
    cost_by_run: dict[int, Decimal] = field(default_factory=dict)
    budget: Decimal | None = None

    def touch(self, time: datetime) -> None:
        """Note that the role was seen at `time`."""
        self.first = self.first or time
        self.last = time

    @property
    def done(self) -> int:
        """How many of its tasks were reported."""
        return sum(task.reported is not None for task in self.tasks)

    @property
    def busy(self) -> float | None:
        """Seconds spent on reported tasks, None when there is none."""
        spent = [task.busy for task in self.tasks if task.busy is not None]
        return sum(spent) if spent else None

    @property
    def average(self) -> float | None:
        """Seconds per reported task, None when there is none."""
        return self.busy / self.done if self.busy is not None else None

    @property
    def tokens(self) -> Tokens | None:
        """What it used over the runs, None when no count was logged."""
        return sum_tokens(self.tokens_by_run.values()) if self.tokens_by_run else None

    @property
    def cost(self) -> Decimal | None:
        """US dollars over the runs, None when no cost was logged."""
        return sum(self.cost_by_run.values(), Decimal(0)) if self.cost_by_run else None


@dataclass(frozen=True, slots=True)
class Report:
    """What happened, by role in the order they were first seen."""

    start: datetime
    end: datetime
    directory: str | None
    roles: tuple[RoleRow, ...]

    @property
    def open_tasks(self) -> int:
        """How many delegations were never reported."""
        return sum(len(role.tasks) - role.done for role in self.roles)

    def as_text(self) -> str:
        """Return the table with its header and footers, ending in a newline."""
        started = self.start.strftime("%Y-%m-%d %H:%M:%S")
        wall = format_duration((self.end - self.start).total_seconds())
        header = [f"run {started}", f"wall {wall}", *([self.directory] if self.directory else [])]
        lines = [" · ".join(header), "", *_table([_HEADINGS, *map(_cells, self.roles)])]
        if self.open_tasks:
            lines += ["", f"{self.open_tasks} task(s) never reported work-done"]
        lines += [
            f"budget exceeded: {role.name} ({format_cost(role.budget)})"
            for role in self.roles
            if role.budget is not None
        ]
        return "\n".join(lines) + "\n"

    def as_json(self) -> str:
        """Return the report as JSON with two-space indent, ending in a newline."""
        document = {
            "start": _stamp(self.start),
            "end": _stamp(self.end),
            "wall_seconds": _seconds((self.end - self.start).total_seconds()),
            "dir": self.directory,
            "open_tasks": self.open_tasks,
            "roles": [_role_json(role) for role in self.roles],
            "tasks": [_task_json(task) for task in self._by_time()],
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    def _by_time(self) -> list[TaskRow]:
        return sorted(
            (task for role in self.roles for task in role.tasks), key=lambda task: task.delegated
        )


def build_report(events: Sequence[Event], runs: Runs = Runs.LAST) -> Report:
    """Return the report of the last run in `events`, or of all. Raises NoEvents."""
    if not events:
        raise NoEvents("there are no events to report on yet")
    starts = [index for index, event in enumerate(events) if event.msg == _STARTING]
    if runs is Runs.LAST and starts:
        events = events[starts[-1] :]
    builder = _Builder()
    for event in events:
        builder.take(event)
    directories = [e.fields["dir"] for e in events if e.msg == _STARTING and e.fields.get("dir")]
    return Report(
        start=events[0].time,
        end=max(events[-1].time, events[0].time),
        directory=directories[-1] if directories else None,
        roles=tuple(builder.roles.values()),
    )


class _Builder:
    """Takes events in order and keeps the rows."""

    def __init__(self) -> None:
        self.roles: dict[str, RoleRow] = {}
        self._run = 0
        self._resumed = False
        self._tasks: dict[str, list[TaskRow]] = {}

    def take(self, event: Event) -> None:
        role = event.fields.get("role")
        if role:
            self._role(role).touch(event.time)
        match event.msg:
            case "deck starting":
                self._run += 1
                self._resumed = False
            case "session resumed":
                self._resumed = True
            case "delegate":
                self._delegate(event)
            case "work-done":
                self._work_done(event)
            case "tokens" if role:
                self._tokens(self._role(role), event)
            case "task tokens":
                self._task_tokens(event)
            case "budget exceeded" if role:
                self._role(role).budget = _amount(event.fields.get("budget"))

    def _role(self, name: str) -> RoleRow:
        return self.roles.setdefault(name, RoleRow(name))

    def _delegate(self, event: Event) -> None:
        role, task_id = event.fields.get("to"), event.fields.get("id", "")
        if not role:
            return
        row = self._role(role)
        row.touch(event.time)
        waiting = self._tasks.get(task_id, [])
        if self._resumed and waiting and waiting[-1].role == role and not waiting[-1].reported:
            # A resumed run says again what it goes on with.
            return
        task = TaskRow(task_id, role, event.fields.get("from", ""), event.time)
        row.tasks.append(task)
        self._tasks.setdefault(task_id, []).append(task)

    def _work_done(self, event: Event) -> None:
        for task in reversed(self._tasks.get(event.fields.get("id", ""), [])):
            if task.reported is None:
                task.reported = event.time
                self._role(task.role).touch(event.time)
                return

    def _tokens(self, row: RoleRow, event: Event) -> None:
        row.tokens_by_run[self._run] = _counts(event)
        cost = _amount(event.fields.get("cost"))
        if cost is not None:
            row.cost_by_run[self._run] = cost

    def _task_tokens(self, event: Event) -> None:
        tasks = self._tasks.get(event.fields.get("id", ""), [])
        if tasks:
            tasks[-1].tokens = _counts(event)
            tasks[-1].cost = _amount(event.fields.get("cost"))


def _counts(event: Event) -> Tokens:
    return Tokens(
        input=_count(event, "in"),
        output=_count(event, "out"),
        cache_creation=_count(event, "cache_creation"),
        cache_read=_count(event, "cache_read"),
    )


def _count(event: Event, name: str) -> int:
    text = event.fields.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _amount(text: str | None) -> Decimal | None:
    try:
        amount = Decimal((text or "").removeprefix("$"))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() else None


def _cells(role: RoleRow) -> tuple[str, ...]:
    used = role.tokens
    return (
        role.name,
        str(len(role.tasks)),
        str(role.done),
        _NONE if role.busy is None else format_duration(role.busy),
        _NONE if role.average is None else format_duration(role.average),
        _clock(role.first),
        _clock(role.last),
        "n/a" if used is None else f"↑{format_tokens(used.sent)} ↓{format_tokens(used.output)}",
        _NONE if role.cost is None else format_cost(role.cost),
    )


def _table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    cells = list(rows)
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADINGS))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _clock(time: datetime | None) -> str:
    return _NONE if time is None else time.strftime("%H:%M:%S")


def _stamp(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat(timespec="milliseconds")


def _seconds(value: float | None) -> float | int | None:
    if value is None:
        return None
    rounded = round(value, 3)
    return int(rounded) if rounded == int(rounded) else rounded


def _tokens_json(tokens: Tokens | None) -> dict[str, int] | None:
    if tokens is None:
        return None
    return {
        "in": tokens.input,
        "out": tokens.output,
        "cache_creation": tokens.cache_creation,
        "cache_read": tokens.cache_read,
    }


def _usd(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)


def _role_json(role: RoleRow) -> dict[str, Any]:
    return {
        "role": role.name,
        "tasks": len(role.tasks),
        "done": role.done,
        "busy_seconds": _seconds(role.busy),
        "avg_seconds": _seconds(role.average),
        "first": _stamp(role.first),
        "last": _stamp(role.last),
        "tokens": _tokens_json(role.tokens),
        "cost_usd": _usd(role.cost),
        "budget_usd": _usd(role.budget),
    }


def _task_json(task: TaskRow) -> dict[str, Any]:
    return {
        "id": task.id,
        "role": task.role,
        "from": task.source,
        "delegated": _stamp(task.delegated),
        "reported": _stamp(task.reported),
        "busy_seconds": _seconds(task.busy),
        "tokens": _tokens_json(task.tokens),
        "cost_usd": _usd(task.cost),
    }
