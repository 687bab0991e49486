"""`.choragos/session.json`: the board for tools that do not read a ledger.

Owns the form of the file (contracts/deck.md section 1.13, version 1). It is derived: the journal
is the truth, and a session goes on from the journal whatever the file says. Invariants: written
whole (0600), off the loop, at most each half second, after every change of board or gates and when
the session ends. Only where no journal is yet, the file of another deck is read, once, by
`deck.recall`; what of it is worth keeping then goes into the journal.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from deck.board import CLOSED_ROWS_SHOWN, Gate, State
from deck.desk import Desk
from deck.entries import Decision, Entry, GateKind, Op, TaskState
from deck.plain_files import read_plain, replace_own
from deck.protocol import one_line

SESSION_FILE: Final = "session.json"
VERSION: Final = 1
WRITE_SECONDS: Final = 0.5
#: More tasks than any session has had; a file that says more is damaged.
MAX_TASKS: Final = 100_000
MAX_BYTES: Final = 64 << 20
#: Longer ones are no path of this system.
MAX_NAME_CHARS: Final = 4096
_NANOSECONDS: Final = 1000
#: In nanoseconds, the year 2116: what a record can hold in microseconds, and some room.
_END_OF_TIME: Final = 1 << 62
_SCORE: Final = re.compile(r"\b(\d{1,2}/10)\b")
#: Changes that the file shows.
_SHOWN: Final = frozenset(
    {
        Op.SESSION_STARTED,
        Op.TASK_ADDED,
        Op.TASK_MOVED,
        Op.REPORT_ADDED,
        Op.GATE_OPENED,
        Op.GATE_DECIDED,
        Op.LOOP_MOVED,
        Op.ROLE_STARTED,
        Op.ROLE_REMOVED,
        Op.HANDOFF_ENDED,
    }
)


class BadSessionFile(Exception):
    """The file is not one that can be gone on from; the text says why."""


@dataclass(frozen=True, slots=True)
class Row:
    """One delegation in the file: times in nanoseconds."""

    id: str
    role: str
    text: str
    file: str
    at: int
    done: bool
    done_at: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """One delegation that waited for a person."""

    role: str
    text: str
    brief: str
    at: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a file says of an earlier session."""

    config: str
    last_task: int
    roles: tuple[str, ...]
    rows: tuple[Row, ...]
    waiting: tuple[Waiting, ...]
    handed_over: bool


# -- writing ------------------------------------------------------------------------------------


@dataclass(slots=True)
class SessionFile:
    """The file of one running session."""

    desk: Desk
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _failed: bool = False

    def start(self) -> None:
        """Write the file from now on whenever what it shows has changed."""
        self.desk.journal.watch(self._hear)
        self._changed.set()
        self.desk.job(self._write_for_ever())

    def _hear(self, entry: Entry, state: State) -> None:
        if entry.op in _SHOWN:
            self._changed.set()

    async def _write_for_ever(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self.write()
            await asyncio.sleep(WRITE_SECONDS)

    async def write(self) -> None:
        """Write the file as the board is now; that it cannot be written is said once."""
        try:
            await asyncio.to_thread(self._write, self.desk.state)
            self._failed = False
        except OSError as failure:
            if not self._failed:
                self.desk.events.write("WARN", "session snapshot failed", err=str(failure))
            self._failed = True

    def _write(self, state: State) -> None:
        saved = datetime.now().astimezone().isoformat()
        document = snapshot(state, self._text, self.desk.start_name, saved)
        path = self.desk.state_dir / SESSION_FILE
        text = json.dumps(document, ensure_ascii=True, separators=(",", ":"))
        replace_own(path, text.encode("ascii"))

    def _text(self, reference: str) -> str:
        return self.desk.texts.get(reference) or ""


def snapshot(
    state: State, text: Callable[[str], str], start_role: str, saved: str
) -> dict[str, Any]:
    """Return the file's document; `text` resolves a reference of the text store. Pure but for
    it."""
    names = list(state.roster)
    handed = state.handoff
    rows = sorted([*_task_rows(state, text), *_report_rows(state, text, start_role)], key=_at)
    closed = [row for row in rows if row["k"] == "work-done" or row.get("d")]
    hidden = {id(row) for row in closed[: max(0, len(closed) - CLOSED_ROWS_SHOWN)]}
    layout = {
        "root": {
            "leaf": True,
            "role": names.index(start_role) if start_role in names else 0,
            "vert": False,
            "ratio": 0.5,
            "a": None,
            "b": None,
        },
        "focused": names.index(start_role) if start_role in names else 0,
    }
    return {
        "version": VERSION,
        "saved": saved,
        "config_path": handed.config if handed is not None else state.config,
        "task_seq": len(state.tasks),
        "roster": [{"name": name, "gone": gone} for name, gone in state.roster.items()],
        "board": [row for row in rows if id(row) not in hidden],
        "gates": list(_gate_rows(state, text)),
        "layout": ""
        if handed is not None
        else base64.b64encode(json.dumps(layout).encode()).decode(),
        "handoff": handed is not None,
    }


def _at(row: Mapping[str, Any]) -> int:
    at: int = row["at"]
    return at


def _task_rows(state: State, text: Callable[[str], str]) -> Iterator[dict[str, Any]]:
    for task in state.rows():
        if task.state in (TaskState.GATED, TaskState.REFUSED):
            # A delegation is on that board from its delivery on.
            continue
        done, loop = task.state is TaskState.REPORTED, state.loops.get(task.id)
        score = _SCORE.search(loop.reason) if loop is not None else None
        yield {
            "at": task.at * _NANOSECONDS,
            "k": "delegate",
            "id": task.id,
            "to": task.role,
            "t": one_line(text(task.text_ref)),
            "f": task.brief,
            "d": done,
            "da": task.closed_at * _NANOSECONDS if done else 0,
            "r": loop.round if loop is not None else 0,
            "sc": score.group(1) if score is not None else "",
            "tm": task.state is TaskState.TIMED_OUT,
        }


def _report_rows(
    state: State, text: Callable[[str], str], start_role: str
) -> Iterator[dict[str, Any]]:
    for report in list(state.reports.values())[-CLOSED_ROWS_SHOWN:]:
        yield {
            "at": report.at * _NANOSECONDS,
            "k": "work-done",
            "id": report.task,
            "to": start_role,
            "t": one_line(text(report.text_ref)),
            "f": report.path,
            "d": report.done,
            "da": 0,
            "r": 0,
            "sc": "",
            "tm": False,
        }


def _gate_rows(state: State, text: Callable[[str], str]) -> Iterator[dict[str, Any]]:
    for gate in state.gates.values():
        if gate.decision is Decision.OPEN:
            yield _gate_row(state, gate, text)


def _gate_row(state: State, gate: Gate, text: Callable[[str], str]) -> dict[str, Any]:
    task = state.tasks.get(gate.task)
    role = gate.role or (task.role if task is not None else "")
    command: dict[str, Any] = {"cmd": "delegate", "to": [role]}
    if gate.kind is GateKind.ROSTER:
        command = {"cmd": "roster-add", "role_name": role}
    elif task is not None:
        command |= {"task": text(task.text_ref), "brief": task.brief, "id": task.id}
    return {
        "cmd": command,
        "to": role,
        "at": gate.at * _NANOSECONDS,
        "reason": "" if gate.kind is GateKind.ENTRY else gate.why,
        "report": gate.path,
        "mid": gate.task if gate.kind is GateKind.MERGE else "",
    }


# -- reading another deck's ---------------------------------------------------------------------


def read_snapshot(state_dir: Path) -> Snapshot | None:
    """Return what the file says, None when there is none. Blocks. Raises BadSessionFile."""
    path = state_dir / SESSION_FILE
    try:
        data = read_plain(path, MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise BadSessionFile(f"{path} cannot be read: {failure.strerror}") from None
    try:
        document = json.loads(data)
        version = document["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadSessionFile(f"{path} is damaged: it is not the file of a session") from None
    if version != VERSION:
        raise BadSessionFile(
            f"{path} is of version {str(version)[:20]}, and this deck reads version {VERSION}"
        )
    try:
        return _snapshot_of(document)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadSessionFile(f"{path} is damaged: a field has the wrong form") from None


def _snapshot_of(document: Mapping[str, Any]) -> Snapshot:
    rows = [_row(row) for row in document.get("board") or () if row["k"] == "delegate"]
    last = max([_whole(document["task_seq"]), *(int(row.id[1:]) for row in rows)], default=0)
    if last > MAX_TASKS:
        raise ValueError("too many tasks")
    return Snapshot(
        config=_text(document.get("config_path", "")),
        last_task=last,
        roles=tuple(_text(r["name"]) for r in document["roster"] if not r.get("gone")),
        rows=tuple(rows),
        waiting=tuple(
            _waiting(gate)
            for gate in document.get("gates") or ()
            if gate["cmd"].get("cmd") == "delegate"
        ),
        handed_over=document.get("handoff") is True,
    )


def _row(row: Mapping[str, Any]) -> Row:
    name = _text(row["id"])
    if not re.fullmatch(r"T[1-9]\d{0,6}", name):
        raise ValueError("not a task id")
    return Row(
        id=name,
        role=_name(row.get("to", "")),
        text=_text(row.get("t", "")),
        file=_name(row.get("f", "")),
        at=_whole(row["at"]),
        done=row.get("d") is True,
        done_at=_whole(row.get("da", 0)),
    )


def _waiting(gate: Mapping[str, Any]) -> Waiting:
    command = gate["cmd"]
    return Waiting(
        role=_name(gate["to"]),
        text=_text(command.get("task", "")),
        brief=_name(command.get("brief", "")),
        at=_whole(gate["at"]),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    # Half a character has no place in a record.
    return value.encode("utf-8", "replace").decode()


def _name(value: object) -> str:
    """A name or a path, which goes into a record: one that does not fit would cut the import in
    two."""
    name = _text(value)
    if len(name) > MAX_NAME_CHARS:
        raise ValueError("too long for a name")
    return name


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _END_OF_TIME:
        raise ValueError("not a whole number")
    return value
