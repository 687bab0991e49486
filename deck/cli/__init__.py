"""The `choragos` command line: one module for each group of verbs, registered here.

Owns the list of verbs and how failures look: `error: <sentence>` on stderr and exit 1, nothing
else (contracts/deck.md section 1.3). Each verb's module imports what it needs when it runs, so
that the verbs agents call many times a day start fast.
"""

from __future__ import annotations

import signal
import threading

# Ctrl-C while this loads ends the program like any other, without a traceback.
_QUIET = (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
)
if _QUIET:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import io  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from typing import Annotated, Final  # noqa: E402

import typer  # noqa: E402

from deck.cli import (  # noqa: E402
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
)
from shared import __version__  # noqa: E402

__all__ = ["main"]

#: Switches, and the words for true and false that Go programs accept.
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_SWITCH: Final = re.compile(
    r"(--(?:sphragis|detach|headless|resume|done|all|json|yes|force|auto|transcripts))="
    r"(1|t|T|true|TRUE|True|0|f|F|false|FALSE|False)"
)

#: Set it to get the traceback of a fault of ours.
DEBUG_ENV: Final = "CHORAGOS_DEBUG"

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
    sessions,
    demo,
    manual,
):
    _group.register(_app)

if _QUIET:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> None:
    """Run the command line; the console script's entry point."""
    try:
        _run()
    except KeyboardInterrupt:
        sys.exit(130)


def _run() -> None:
    for stream in (sys.stdout, sys.stderr):
        # A name that is not UTF-8 must not turn an answer into a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        status = _app(with_plain_flags(sys.argv[1:] or ["--help"]), standalone_mode=False)
    except typer.Abort:
        sys.exit(1)
    except Exception as wrong:
        # The class of a usage error has moved between releases of typer; its method has not.
        sentence = getattr(wrong, "format_message", None)
        if sentence is None and os.environ.get(DEBUG_ENV):
            raise
        typer.echo(f"error: {sentence() if sentence else _unexpected(wrong)}", err=True)
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)


def _unexpected(fault: Exception) -> str:
    if isinstance(fault, OSError) and fault.strerror:
        where = f"{fault.filename}: " if fault.filename else ""
        return f"{where}{fault.strerror}"
    kind = type(fault).__name__
    return f"choragos has failed ({kind}); set {DEBUG_ENV}=1 and run it again to see where"


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
