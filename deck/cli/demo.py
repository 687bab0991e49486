"""`choragos demo`: the whole story in half a minute, every statement checked.

Owns the verb's options and nothing else; the demo is `deck.demo.telling`, imported only when the
verb runs. Called by the command line.
"""

from __future__ import annotations

import importlib.util
import shutil
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command()(demo)


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the session up and say how to look around.")
    ] = False,
) -> None:
    """Show a team working behind the gateway, and check everything that is said about it."""
    if importlib.util.find_spec("anthropic") is None:
        _give_up("the demo's agents need the anthropic SDK: pip install 'anthropic>=0.80'")
    if shutil.which("git") is None:
        _give_up("the demo works in a git repository and git is not on PATH: install git")
    from deck.demo.telling import run

    raise typer.Exit(run(keep=keep))


def _give_up(sentence: str) -> None:
    typer.echo(f"error: {sentence}", err=True)
    raise typer.Exit(1)
