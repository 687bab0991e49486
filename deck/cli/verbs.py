"""All verbs of `choragos`: one module for each group, registered here.

Owns the list of verbs and how failures look: `error: <sentence>` on stderr and exit 1, nothing
else (contracts/deck.md section 1.3). Each verb's module imports what it needs when it runs.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from deck.cli import (
    approver,
    checkpoints,
    demo,
    doctor,
    gates,
    init,
    live,
    manual,
    report,
    roles,
    serve,
    sessions,
    work,
    worktrees,
)
from deck.cli.failure import DEBUG_ENV, unexpected
from shared import __version__
from shared.streams import failure_line

#: Switches, and the words for true and false that Go programs accept.
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_SWITCH: Final = re.compile(
    r"(--(?:sphragis|detach|headless|resume|done|all|json|yes|force|auto|transcripts))="
    r"(1|t|T|true|TRUE|True|0|f|F|false|FALSE|False)"
)

_app = typer.Typer(
    name="choragos",
    help="A team of coding agents in terminals you own.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"choragos {__version__}")
        raise typer.Exit


@_app.callback()
def _top(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """A team of coding agents in terminals you own."""


@_app.command("version")
def _version() -> None:
    """Print the version."""
    _show_version(wanted=True)


for _group in (
    init,
    doctor,
    serve,
    work,
    roles,
    gates,
    approver,
    live,
    report,
    checkpoints,
    worktrees,
    sessions,
    demo,
    manual,
):
    _group.register(_app)


def run(arguments: Sequence[str]) -> None:
    """Run one command line; ends the program with its status."""
    try:
        status = _app(with_plain_flags(arguments or ["--help"]), standalone_mode=False)
    except typer.Abort:
        sys.exit(1)
    except Exception as wrong:
        # The class of a usage error has moved between releases of typer; its method has not.
        sentence = getattr(wrong, "format_message", None)
        if sentence is None and os.environ.get(DEBUG_ENV):
            raise
        words = sentence() if sentence else unexpected(wrong)
        words = words.replace("does not take a value", "takes no value but true or false")
        if not words:
            # A group without a verb: its help has been printed, and nothing was wrong.
            sys.exit(0)
        typer.echo(failure_line(words), err=True)
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)


def with_plain_flags(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with `--flag=true` and `--flag=false` as plain flags.

    Existing scripts write switches so (contracts/deck.md section 1.3: `--sphragis[=bool]`).
    """
    plain: list[str] = []
    for index, argument in enumerate(arguments):
        if argument == "--":
            return [*plain, *arguments[index:]]
        found = _SWITCH.fullmatch(argument)
        if argument == "--bundle":
            # Its value is optional and written with `=`, as existing scripts write it.
            plain.append("--bundle=")
        elif found is None:
            plain.append(argument)
        elif found.group(2) in _TRUE:
            plain.append(found.group(1))
        elif found.group(1) == "--sphragis":
            plain.append("--no-sphragis")
    return plain
