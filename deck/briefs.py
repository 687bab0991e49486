"""The files agents read: boot briefs, the orchestrator's context, one file for each task.

Owns their names and shape (contracts/deck.md section 1.5). Building is pure; writing is atomic,
so an agent never reads half a file. No metadata, no front matter: an agent takes every line of
these files as an instruction. Called by `deck.session`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deck.plain_files import replace_own

if TYPE_CHECKING:
    from deck.config import Role

STATE_DIR: Final = ".choragos"
ORCHESTRATOR_FILE: Final = "orchestrator-context.md"
#: Written by the start role when a session is handed over.
HANDOFF_FILE: Final = "handoff-session.md"

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
#: A file name has at most 255 bytes, and ours put words before and after the role.
_NAME_CHARS: Final = 200


class BadAttachment(Exception):
    """A brief or report file that cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a task file says: `text` may be empty when a brief is given and the reverse."""

    id: str
    text: str
    brief: str = ""
    #: What a fresh role's last process wrote for its next one, if it is there.
    handoff: str = ""


#: Who may change a file: literal paths of the project, each with its role.
Owners = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Standing:
    """What a start role is told besides the team: `recap` where a resumed run stands, `handoff`
    and `memory` whether there is such a file to read, `propose` whether it may propose roles."""

    owners: Owners = field(default_factory=dict)
    propose: bool = True
    recap: str = ""
    handoff: bool = False
    memory: bool = False


def safe_name(role: str) -> str:
    """Return a role's name as it appears in file names: `[A-Za-z0-9_-]` kept, the rest `-`, cut
    to what a file name can hold."""
    return _UNSAFE.sub("-", role)[:_NAME_CHARS] or "role"


def brief_name(role: str, number: int = 1) -> str:
    """Return the file name of a worker's boot brief; `number` tells apart roles whose names are
    the same as file names."""
    return f"{safe_name(role)}{f'-{number}' if number > 1 else ''}-brief.md"


def task_name(task_id: str) -> str:
    """Return the name of a task's own file, relative to the state directory."""
    return f"tasks/{task_id}.md"


def approved_brief_name(task_id: str) -> str:
    """Return the name of the copy of a brief that people approved."""
    return f"tasks/{task_id}-brief.md"


def latest_task_name(role: str) -> str:
    """Return the name existing agents read: always a copy of the role's latest task."""
    return f"worker-task-{safe_name(role)}.md"


def fresh_handoff_name(role: str) -> str:
    """Return the name of the file in which a fresh role leaves word for its next process."""
    return f"handoff-{safe_name(role)}.md"


def boot_line(file_name: str, state_dir: str = STATE_DIR) -> str:
    """Return the line typed into a fresh pane. `state_dir` is where the deck's files are as seen
    from the role: a role that works elsewhere needs the whole path."""
    return f"Read {state_dir}/{file_name} for your role and how this team works."


def task_line(task_id: str, state_dir: str = STATE_DIR) -> str:
    """Return the line that hands a task to a pane; it names the task's own file, so a second
    task can never replace the first one unread. `state_dir` as for `boot_line`."""
    return f"Read {state_dir}/{task_name(task_id)} for your task."


def report_line(label: str, report: str) -> str:
    """Return the line that tells the start role about a report."""
    line = f"A worker reports: {label or 'see report'}"
    return f"{line} Full report: read {report}" if report else line


def owners_of(roles: Sequence[Role]) -> dict[str, str]:
    """Return who owns which file in a team."""
    return {path: role.name for role in roles for path in role.owns_files}


def ownership(owners: Owners, reader: str) -> str:
    """Return the section that tells `reader` who may change what; empty when nobody owns files."""
    if not owners:
        return ""
    mine = [path for path, role in owners.items() if role == reader]
    others = [f"- `{path}`: {role}" for path, role in owners.items() if role != reader]
    parts = []
    if mine:
        parts.append(
            "You own these files, and only you change them:\n"
            + "\n".join(f"- `{path}`" for path in mine)
        )
    if others:
        parts.append(
            "Do not change these files; each belongs to the role behind it. What has to change in\n"
            "one of them goes into your report:\n" + "\n".join(others)
        )
    return join_sections("## File ownership", *parts)


def worker_brief(role: Role, owners: Owners | None = None) -> str:
    """Return the text of a worker's boot brief."""
    return join_sections(
        role.prompt_template,
        ownership(owners or {}, role.name),
        "## Protocol\n"
        "Do nothing yet: wait until a line names your task file, then read that file and do\n"
        "only what it says. When the task is finished, or when you cannot go on, report with\n"
        "the command at the end of the task file:\n\n"
        '    choragos work-done --id <task id> --task "<one line: what you did>"\n\n'
        "Never report a task that is not yours, and report each task once.",
        _CHECKOUT.format(branch=f"choragos/{safe_name(role.name)}") if role.worktree else "",
    )


#: After the contract's sections: what keeps a role's branch usable.
_CHECKOUT: Final = (
    "## Your checkout\n"
    "You work in a git checkout of your own, on the branch {branch}. Change only files below the\n"
    "directory you were started in, and stay on that branch: do not switch, rebase or reset it.\n"
    "You need not commit: each report is committed for you, and merged once it is accepted."
)


def task_file(role: Role, assignment: Assignment, owners: Owners | None = None) -> str:
    """Return the text of a task file."""
    body = [f"Task id: {assignment.id}", ""]
    if assignment.brief:
        body += [f"Read the full brief first: {assignment.brief}"]
        if assignment.text:
            body += ["", assignment.text]
    else:
        body.append(assignment.text)
    if assignment.handoff:
        body += ["", f"What was learned in your earlier tasks: read {assignment.handoff} first."]
    return join_sections(
        role.prompt_template,
        ownership(owners or {}, role.name),
        "## Task\n" + "\n".join(body),
        "## When done\n"
        "Run this command exactly once, with your own summary:\n\n"
        f'    choragos work-done --id {assignment.id} --task "<one line: what you did>"\n\n'
        "For more than a line, write it to a file and add `--report <file>`.",
    )


def orchestrator_context(
    role: Role, workers: Sequence[Role], standing: Standing | None = None
) -> str:
    """Return the text of the start role's context, in the order of contracts/deck.md 1.5."""
    told = standing or Standing()
    agents = "\n".join(_agent_bullet(worker) for worker in workers) or "- none yet"
    return join_sections(
        role.prompt_template,
        ownership(told.owners, role.name),
        "## Available agents\n" + agents,
        "## Delegation protocol\n"
        "Hand out work with one command for each piece:\n\n"
        '    choragos delegate --to <role> --task "<the task in one line>"\n\n'
        "For a longer task write it to a file first:\n\n"
        '    choragos delegate --to <role> --brief <file> --task "<short label>"\n\n'
        "For work that can run in parallel, make one such call for each role. Use only the roles\n"
        "listed above. The command exits with 1 and says why when it was refused: nothing was\n"
        "handed out then. After delegating, wait: each result arrives here as a line that starts\n"
        "with `A worker reports:`. When the whole assignment is complete, finish with:\n\n"
        '    choragos work-done --done --task "<the outcome in one line>"',
        _fresh_handoffs(workers),
        _TEAM_CHANGES if told.propose else "",
        "## Important\n"
        "Do not do the workers' tasks yourself, and do not poll: results are brought to you.\n"
        "Lines that start with `[choragos]` come from the deck, not from a person.",
        told.recap,
        _HANDOFF_POINTER if told.handoff else "",
        _MEMORY_POINTER if told.memory else "",
    )


_TEAM_CHANGES: Final = (
    "## Team changes\n"
    "When the work needs a role that the team does not have, propose it:\n\n"
    "    choragos roster add --name <role> --command <program> --arg <argument> "
    '--prompt-template "<what it does>"\n\n'
    "Wait for the `[choragos]` line that says what became of it; a person may have to approve it\n"
    "first. Delegate to the new role only after that line."
)
_HANDOFF_POINTER: Final = (
    "## Handover\n"
    f"This session goes on from an earlier one. Read {STATE_DIR}/{HANDOFF_FILE} before anything\n"
    "else: your predecessor wrote down there where things stand."
)
_MEMORY_POINTER: Final = (
    "## Project memory\n"
    f"Read {STATE_DIR}/memory.md: what earlier sessions in this project found worth keeping."
)


def _fresh_handoffs(workers: Sequence[Role]) -> str:
    fresh = [worker.name for worker in workers if worker.fresh]
    if not fresh:
        return ""
    files = "\n".join(f"- {name}: {STATE_DIR}/{fresh_handoff_name(name)}" for name in fresh)
    return (
        "## Fresh agents\n"
        "These roles start anew for each task and remember nothing of the one before. Write into\n"
        "each task all that it needs, and ask the role to keep what its next task must know in\n"
        "its file; it is told to read the file when there is one:\n" + files
    )


def attachment(path: str, what: str, base: Path | None = None) -> Path:
    """Return the absolute path of a brief or report file.

    Raises BadAttachment unless it is an existing, non-empty, regular file
    (contracts/deck.md section 1.3). `what` names the option in the sentence.
    """
    absolute = Path(os.path.abspath(os.path.join(base or Path.cwd(), path)))
    try:
        info = absolute.stat()
    except (OSError, ValueError):
        raise BadAttachment(
            f"The {what} file {path[:200]} does not exist; {what} takes the path of a file, "
            "not the text itself."
        ) from None
    if not absolute.is_file():
        raise BadAttachment(f"The {what} {absolute} is not a regular file.")
    if info.st_size == 0:
        raise BadAttachment(f"The {what} file {absolute} is empty.")
    if not os.access(absolute, os.R_OK):
        raise BadAttachment(f"The {what} file {absolute} cannot be read; check its permissions.")
    return absolute


def write(directory: Path, name: str, text: str) -> Path:
    """Write one of these files atomically below `directory` and return its path. Blocks."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_own(path, text.encode("utf-8", "replace"), mode=0o644)
    return path


def _agent_bullet(role: Role) -> str:
    first = next((line.strip() for line in role.prompt_template.splitlines() if line.strip()), "")
    marks = ["fresh: starts anew for each task"] if role.fresh else []
    marks += ["each task waits for a person's approval"] if role.approve else []
    marked = f" ({'; '.join(marks)})" if marks else ""
    return f"- {role.name}: {first or 'no description'}{marked}"


def join_sections(*sections: str) -> str:
    """Return a file made of sections, a blank line between them; empty ones are left out."""
    return "\n\n".join(section.strip("\n") for section in sections if section.strip()) + "\n"
