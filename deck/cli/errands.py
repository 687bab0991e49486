"""What agents run many times a day: `choragos delegate` and `choragos work-done`, quickly.

Owns what the two verbs do and print, and how a command is sent. Rule: nothing here loads the
command line's machinery, which takes longer than the errand itself. `errand` reads the plain forms
of the two command lines and nothing else; whatever it leaves alone (help, mistakes, odd spellings)
goes the long way, through the same functions. The ack decides: a refused target is exit 1 with the
reason on stderr, so neither an agent nor a script can take a refusal for a delivery.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from deck import briefs
from deck.cli.failure import fail
from deck.protocol import Command, Verb
from deck.sessions import (
    SessionError,
    control_socket,
    exchange,
    paths_for,
    working_directory,
)

TOKEN_ENV: Final = "CHORAGOS_ROLE_TOKEN"  # noqa: S105 - the name of a variable

#: By verb: its options, each with the parameter it fills, and whether it takes a value.
_OPTIONS: Final[Mapping[str, Mapping[str, tuple[str, bool]]]] = {
    "delegate": {
        "--to": ("to", True),
        "--task": ("task", True),
        "--brief": ("brief", True),
        "--json": ("as_json", False),
    },
    "work-done": {
        "--task": ("task", True),
        "--report": ("report", True),
        "--done": ("done", False),
        "--id": ("task_id", True),
        "--json": ("as_json", False),
    },
}


def errand(line: Sequence[str]) -> Callable[[], None] | None:
    """Return the errand of a command line, or None when it has to go the long way."""
    options = _OPTIONS.get(line[0]) if line else None
    given = plain(line[1:], options) if options is not None else None
    if given is None:
        return None
    return partial(delegate if line[0] == "delegate" else work_done, **given)


def plain(words: Sequence[str], options: Mapping[str, tuple[str, bool]]) -> dict[str, Any] | None:
    """Return the parameters that plain words give; None if any word is not plain."""
    given: dict[str, Any] = {}
    left = list(words)
    while left:
        name, equals, value = left.pop(0).partition("=")
        if name not in options:
            return None
        parameter, takes_value = options[name]
        if takes_value and not equals:
            if not left:
                return None
            value = left.pop(0)
        if value.startswith("-") or (equals and not takes_value):
            return None
        if parameter == "to":
            given.setdefault("to", []).append(value)
        elif parameter in given:
            return None
        else:
            given[parameter] = value if takes_value else True
    return given


def delegate(
    to: Sequence[str] = (), task: str = "", brief: str = "", *, as_json: bool = False
) -> None:
    """Hand a task to one or more roles."""
    roles = tuple(name.strip() for item in to for name in item.split(",") if name.strip())
    if not roles:
        fail("delegate needs --to <role>")
    if not task.strip() and not brief:
        fail("delegate needs --task <text> or --brief <file>")
    ack = send(Command(Verb.DELEGATE, to=roles, task=task, brief=_file(brief, "brief")))
    if as_json:
        print(json.dumps(ack, ensure_ascii=False))
    targets = _targets(ack)
    accepted = [str(t.get("to")) for t in targets if t.get("state") != "refused"]
    refused = [t for t in targets if t.get("state") == "refused"]
    if not targets:
        # An existing deck says only that it heard.
        accepted = list(roles)
    if accepted and not as_json:
        print(f"delegated to {', '.join(accepted)}")
    for target in targets:
        if target.get("state") == "gated":
            print(f"note: {target.get('id')} {target.get('reason')}", file=sys.stderr)
    for target in refused:
        print(f"error: {target.get('to')} refused: {target.get('reason')}", file=sys.stderr)
    if refused:
        raise SystemExit(1)


def work_done(
    task: str = "",
    report: str = "",
    task_id: str = "",
    *,
    done: bool = False,
    as_json: bool = False,
) -> None:
    """Report a task, or with `done` the whole assignment."""
    if not task.strip() and not report:
        fail("work-done needs --task <text> or --report <file>")
    ack = send(
        Command(Verb.WORK_DONE, task=task, report=_file(report, "report"), done=done, id=task_id)
    )
    print(json.dumps(ack, ensure_ascii=False) if as_json else "reported to orchestrator")
    if reason := ack.get("reason"):
        print(f"the report is kept, but not passed on: {reason}", file=sys.stderr)
    if waiting := ack.get("open_reviews"):
        print(f"still under review: {', '.join(waiting)}", file=sys.stderr)


def ask(command: Command) -> dict[str, Any]:
    """Send a command to the session of this directory and return its ack, whatever it says."""
    try:
        command = replace(command, token=os.environ.get(TOKEN_ENV, ""), reads_ack=True)
        return exchange(control_socket(paths_for(working_directory())), command)
    except SessionError as error:
        fail(error)


def send(command: Command) -> dict[str, Any]:
    """Send a command to the session of this directory; an error ack ends the program with 1."""
    ack = ask(command)
    if "status" not in ack:
        # A deck that dies before it answers has perhaps recorded nothing: never told as done.
        fail(
            "the session ended before it answered; look at `choragos board` whether it took this, "
            "and give it again if not"
        )
    if ack.get("status") == "error":
        fail(ack.get("reason") or "the deck refused without a reason")
    return ack


def _file(path: str, what: str) -> str:
    if not path:
        return ""
    try:
        return str(briefs.attachment(path, what, Path(working_directory())))
    except (briefs.BadAttachment, SessionError) as bad:
        fail(bad)


def _targets(ack: dict[str, Any]) -> list[dict[str, Any]]:
    targets = ack.get("targets")
    return [t for t in targets if isinstance(t, dict)] if isinstance(targets, list) else []
