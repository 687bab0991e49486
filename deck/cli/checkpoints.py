"""`choragos checkpoints`, `checkpoints prune` and `rollback`: look at snapshots, undo a task.

Owns these verbs' options, the confirmation and what is printed: every file is listed before
anything changes, and a plan with conflicts is never asked about, only explained. The work is in
`deck.checkpoints` and `deck.rollback`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from deck.cli.failure import fail, here

if TYPE_CHECKING:
    from deck.checkpoints import Checkpoint, Checkpoints
    from deck.rollback import Outcome
    from deck.rollback_plan import Finding, Plan

#: Beyond this many files a list is a wall.
_LISTED: Final = 40

_group = typer.Typer(help="Show or prune the snapshots taken before each task.")


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.add_typer(_group, name="checkpoints")
    app.command("rollback")(rollback)


@_group.callback(invoke_without_command=True)
def checkpoints(context: typer.Context) -> None:
    """List the checkpoints, newest first."""
    if context.invoked_subcommand is None:
        list_them()


@_group.command("list")
def list_them() -> None:
    """List the checkpoints, newest first."""
    from deck.checkpoints import GitError
    from deck.durations import format_age

    try:
        found = _listed(_store())
    except GitError as failure:
        fail(failure)
    for item in found:
        age = format_age(time.time() - item.at / 1e9)
        typer.echo(f"{item.name:<18} {age:<9} {item.subject}")
    if not found:
        typer.echo("no checkpoints")


@_group.command("prune")
def prune(
    keep: Annotated[
        int | None, typer.Option("--keep", min=0, help="How many of each kind stay.")
    ] = None,
) -> None:
    """Delete all but the newest checkpoints; undos have a budget of their own."""
    from deck.checkpoints import GitError
    from deck.config import ConfigError
    from deck.team_reader import load_config

    try:
        limit = load_config(None, here()).checkpoints.keep if keep is None else keep
        store = _store()
        before = len(_listed(store))
        _record("checkpoints-pruned", "", f"all but {limit} of each kind")
        store.prune(limit)
        left = len(_listed(store))
    except (ConfigError, GitError) as failure:
        fail(failure)
    typer.echo(f"pruned {before - left} checkpoint(s), kept {left}")


def rollback(
    target: Annotated[str, typer.Argument(help="Task id, name or ref of a checkpoint.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="Put every file back, not only the task's.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite later changes to the same files.")
    ] = False,
) -> None:
    """Undo what one task did to the files; HEAD, index and branches stay."""
    from deck.checkpoints import GitError
    from deck.rollback_plan import Overlap, Scope
    from deck.undoing import choose

    _warn_if_live()
    try:
        choice = choose(here(), target)
        store = choice.store
        plan = store.plan_rollback(
            choice.target,
            Scope.WHOLE if whole else Scope.TASK,
            Overlap.OVERWRITE if force else Overlap.REFUSE,
        )
    except GitError as failure:
        fail(failure)
    _show(plan, choice.notes)
    if plan.conflicts:
        fail(
            f"{len(plan.conflicts)} file(s) of {plan.target.name} were changed again later; "
            "nothing was rolled back: look at them, or use --force to overwrite them"
        )
    if not plan.changes and plan.resumes is None:
        _explain_nothing(plan)
        return
    if not yes and not _confirmed():
        typer.echo("aborted")
        return
    _carry_out(store, plan)


def _carry_out(store: Checkpoints, plan: Plan) -> None:
    """Roll back, with its beginning and its end on record, and say what came of it."""
    from deck.checkpoints import GitError

    name = plan.target.name
    _record("rollback-begun", name, f"{plan.scope.value}, {len(plan.changes)} file(s)")
    try:
        outcome = store.rollback(plan)
    except GitError as failure:
        _record("rollback-ended", name, f"failed: {failure}")
        fail(failure)
    _note_in_log(plan, outcome)
    done = _counted(outcome.restored, outcome.deleted)
    _record("rollback-ended", name, f"{done}; undo: {outcome.undo and outcome.undo.name}")
    typer.echo(f"rolled back {name}: {done}")
    if outcome.undo is not None:
        typer.echo(f"undo this with `choragos rollback {outcome.undo.name}`")


def _store() -> Checkpoints:
    from deck.checkpoints import Checkpoints

    return Checkpoints(here())


def _listed(store: Checkpoints) -> list[Checkpoint]:
    """The end of a task is there for its undo; nobody goes back to it by itself."""
    from deck.checkpoints import Kind

    return [item for item in store.list() if item.kind is not Kind.DONE]


def _show(plan: Plan, notes: Sequence[str]) -> None:
    kind = "every file" if plan.scope.value == "whole" else "the task's files"
    typer.echo(f"{plan.target.subject}  ({kind})")
    _list(
        f"  {'delete ' if change.wanted is None else 'restore'}  {_printable(change.path)}"
        for change in plan.changes
    )
    _list(_finding("left alone", found) for found in plan.left_alone)
    _list(_finding("conflict", found) for found in plan.conflicts)
    for note in (*notes, *plan.notes):
        typer.echo(f"note: {note}")


def _list(lines: Iterable[str]) -> None:
    every = list(lines)
    for line in every[:_LISTED]:
        typer.echo(line)
    if len(every) > _LISTED:
        typer.echo(f"  … and {len(every) - _LISTED} more")


def _finding(word: str, found: Finding) -> str:
    return f"  {word}: {_printable(found.path)} ({found.reason})"


def _printable(path: str) -> str:
    """Return a path that cannot move the cursor or forge a line, whatever the file is called."""
    from deck.events import quote

    return path if path.isprintable() else quote(path)


def _explain_nothing(plan: Plan) -> None:
    if plan.left_alone:
        fail(
            "nothing could be rolled back without touching what others did or what git does not "
            "keep; see above (--force includes what others may have changed)"
        )
    typer.echo(f"nothing to do: the files are as they were before {plan.target.name}")


def _confirmed() -> bool:
    typer.echo("proceed? [y/N] ", nl=False)
    answer = sys.stdin.readline().strip().lower()
    if not sys.stdin.isatty():
        typer.echo()
    return answer in ("y", "yes")


def _counted(restored: int, deleted: int) -> str:
    return f"{restored} file(s) restored, {deleted} deleted"


def _warn_if_live() -> None:
    from deck.sessions import SessionError, is_alive, paths_for, working_directory
    from shared.paths import UnsafeDirectory

    try:
        live = is_alive(paths_for(working_directory()).socket)
    except (SessionError, UnsafeDirectory, OSError):
        return
    if live:
        typer.echo(
            "warning: a session runs here; its agents may be changing the same files", err=True
        )


def _record(kind: str, target: str, why: str) -> None:
    """Put a change on the deck's record; one that cannot be put there beforehand is not made."""
    from deck.entries import Op
    from deck.notes import NotRecorded, note
    from deck.sessions import SessionError, working_directory

    try:
        note(working_directory(), Op(kind), target, why)
    except (NotRecorded, SessionError) as wrong:
        if kind == "rollback-ended":
            typer.echo(f"warning: the end of this rollback is not on record: {wrong}", err=True)
            return
        fail(f"the deck's record cannot be written, so nothing was changed: {wrong}")


def _note_in_log(plan: Plan, outcome: Outcome) -> None:
    from deck.cli.report import DEFAULT_LOG
    from deck.events import append_event

    append_event(
        here() / DEFAULT_LOG,
        "WARN",
        "rollback",
        task=plan.target.task_id,
        ref=plan.target.ref,
        scope=plan.scope.value,
        restored=outcome.restored,
        deleted=outcome.deleted,
        undo=outcome.undo.name if outcome.undo else None,
    )
