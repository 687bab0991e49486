"""The `sphragis` command: verbs, options and exit codes. Wiring only.

Invariants: every failure is one sentence, `error: …`, on standard error; `verify` exits 0 intact,
1 tampered, 2 incomplete, 3 wrongly called; every other verb exits 0 or 1. Nothing heavy is
imported before the verb that needs it runs, because decks probe this program often.
`main` is the console script; `run` is the same with arguments and result as values.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
from typer.exceptions import TyperException

from gateway.errors import GatewayError
from shared import __version__

#: `verify` called wrongly (contracts/ledger.md section 2.10).
VERIFY_USAGE: Final = 3

app = typer.Typer(
    name="sphragis",
    help="A gateway that scans, replaces and records every call your agents make to a model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; return the exit code."""
    failure = VERIFY_USAGE if list(arguments[:1]) == ["verify"] else 1
    if not arguments:
        arguments = ["--help"]
    try:
        code = app(args=list(arguments), prog_name="sphragis", standalone_mode=False)
    except TyperException as wrong:
        return _fail(f"{wrong.format_message()} Run `sphragis --help` for the verbs.", failure)
    except GatewayError as wrong:
        return _fail(str(wrong), failure)
    except (typer.Abort, KeyboardInterrupt):
        return 130
    return code if isinstance(code, int) else 0


def _fail(sentence: str, code: int) -> int:
    print(f"error: {' '.join(sentence.split())}", file=sys.stderr)
    return code


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"sphragis {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool,
        typer.Option(
            "--version", "-v", help="Print the version.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


@app.command()
def version() -> None:
    """Print the version."""
    _show_version(True)


@app.command("offline-provider")
def offline_provider(
    listen: Annotated[
        str, typer.Option(help="HOST:PORT on this machine; port 0 takes a free one.")
    ] = "127.0.0.1:0",
    record: Annotated[
        Path | None, typer.Option(help="Append every request received to this JSON lines file.")
    ] = None,
    delay_ms: Annotated[
        int, typer.Option(min=0, max=10_000, help="Pause between two streamed events.")
    ] = 0,
) -> None:
    """Run a model provider that answers by rule: no network, key or account needed."""
    from gateway.app import run_offline_provider

    run_offline_provider(listen, record, delay_ms / 1000)


if __name__ == "__main__":
    main()
