"""How a verb fails: `error: <sentence>` on stderr, exit 1 (contracts/deck.md section 1.3)."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import typer


def fail(sentence: object) -> NoReturn:
    """Print the sentence and end the program with 1."""
    typer.echo(f"error: {sentence}", err=True)
    raise typer.Exit(1)


def here() -> Path:
    """Return the working directory, or fail with what is wrong with it."""
    from deck.sessions import SessionError, working_directory

    try:
        return Path(working_directory())
    except SessionError as problem:
        fail(problem)
