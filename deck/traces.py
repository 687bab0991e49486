"""What was written about a task: its file, its brief, its report and their lines in the event log.

Owns the search of those texts for a path. It is a hint for the reader, never a proof: where two
tasks worked at the same time and the snapshots cannot tell whose a change is, the undo says which
tasks name the file, and leaves it alone. Missing files are passed over; nothing is written.
`deck.attribution` calls it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from deck.events import EVENTS_NAME, Event, parse_events

#: Briefs and reports are prose; more of one is not read.
_TEXT_LIMIT: Final = 256 << 10


class Traces:
    """The texts about the tasks of the deck in one directory, read once."""

    def __init__(self, deck_directory: Path) -> None:
        self._directory = deck_directory
        self._texts: dict[str, str] = {}
        self._events: list[Event] | None = None

    def score(self, task_id: str, path: str) -> int:
        """Return how clearly the task's texts name a path: 2 in full, 1 by its last part, or 0."""
        text = self._texts.get(task_id)
        if text is None:
            text = self._texts[task_id] = self._read(task_id)
        if _names(text, path):
            return 2
        return 1 if _names(text, path.rsplit("/", 1)[-1]) else 0

    def _read(self, task_id: str) -> str:
        state = self._directory / ".choragos"
        parts = [_text_of(state / "tasks" / f"{task_id}.md")]
        if self._events is None:
            try:
                self._events = parse_events(state / "logs" / EVENTS_NAME)
            except OSError:
                self._events = []
        for event in _last_run(self._events):
            if event.msg in ("delegate", "work-done") and event.fields.get("id") == task_id:
                parts.append(event.fields.get("task", ""))
                files = [event.fields.get(name, "") for name in ("brief", "report")]
                parts += [_text_of(self._directory / file) for file in files if file]
        return "\n".join(parts)


def _last_run(events: list[Event]) -> list[Event]:
    # Task ids go on over a resumed run, and begin again in any other.
    starts = [index for index, event in enumerate(events) if event.msg == "deck starting"]
    return events[starts[-1] :] if starts else events


def _names(text: str, path: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(path)}(?![\w-])", text) is not None


def _text_of(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_TEXT_LIMIT).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
