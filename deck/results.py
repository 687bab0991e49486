"""Results: what a person is shown of finished work, and what exactly an acceptance is of.

Owns the commitment and the words of gates about results (contracts/deck.md sections 1.9 and 2.4).
Invariant: the commitment covers the report's text, the bytes of its file, and each changed file of
another role with what it holds, so an acceptance is of these and of nothing else; its text is kept,
so that later the very same files are compared. `with_file` blocks on the disk, the rest is pure;
`deck.settling` opens the gates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from deck import ownership
from deck.board import Loop, Task


@dataclass(frozen=True, slots=True)
class Foreign:
    """A changed file of another role: whose it is, and what it holds now."""

    owner: str
    value: str

    def __str__(self) -> str:
        said = {
            ownership.ABSENT: "is gone",
            ownership.UNREADABLE: "cannot be compared: it is no readable file of the project",
        }
        return f"belongs to {self.owner}, {said.get(self.value, 'was changed')}"


@dataclass(frozen=True, slots=True)
class Result:
    """What a task came back with: its report's text and file (`file` is its hash), and the files
    of others that changed in the place of `worker`."""

    text: str = ""
    path: str = ""
    file: str = ""
    worker: str = ""
    foreign: Mapping[str, Foreign] = field(default_factory=dict)

    def as_text(self) -> str:
        """Return the text that is committed to; `parse` takes it."""
        return json.dumps(
            {
                "text": self.text,
                "path": self.path,
                "file": self.file,
                "worker": self.worker,
                "foreign": {path: [one.owner, one.value] for path, one in self.foreign.items()},
            },
            sort_keys=True,
        )


def parse(text: str | None) -> Result | None:
    """Return the result that `as_text` wrote; None for a text that is gone or is something else."""
    try:
        found = json.loads(text or "")
        foreign = {path: Foreign(*pair) for path, pair in found.pop("foreign").items()}
        return Result(**found, foreign=foreign)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def with_file(result: Result) -> Result:
    """Return a result with the hash that its report's file has now. Blocks; never raises."""
    return replace(result, file=ownership.file_hash(result.path) if result.path else "")


def with_values(result: Result, now: Mapping[str, str]) -> Result:
    """Return a result with what its files of others hold now."""
    foreign = {
        path: replace(one, value=now.get(path, ownership.UNREADABLE))
        for path, one in result.foreign.items()
    }
    return replace(result, foreign=foreign)


def listed(foreign: Mapping[str, Foreign]) -> str:
    """Return the changed files in one line, with their owners."""
    return "; ".join(f"{path} {one}" for path, one in foreign.items())


def words(task: Task, label: str, why: str, result: Result, judged: str) -> str:
    """Return what a person reads before deciding; `judged` is the text of `verdict_words`."""
    parts = [
        f"{task.id} of {task.role}: {label}",
        f"A person decides because {why}.",
        f"Reported: {result.text.strip() or '(no words)'}",
    ]
    if result.path:
        parts.append(f"Report file: {result.path}")
    if result.foreign:
        rows = "\n".join(f"- {path}: {one}" for path, one in result.foreign.items())
        parts.append(f"Files of other roles:\n{rows}")
    parts.append(judged)
    parts.append(
        "Approving accepts the work: the report goes to the start role, and a branch goes on to "
        "its merge. Rejecting refuses the work: its files stay as they are, and the start role is "
        "told why."
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def verdict_words(loop: Loop | None, text: str) -> str:
    """Return the part about the judge; empty where none gave a verdict."""
    if loop is None or not text:
        return ""
    return f"The last verdict of {loop.judge}:\n\n{text.strip()}"
