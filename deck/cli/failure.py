"""How a verb fails: `error: <sentence>` on stderr, exit 1 (contracts/deck.md section 1.3)."""

from __future__ import annotations

from typing import NoReturn

import typer


def fail(sentence: object) -> NoReturn:
    """Print the sentence and end the program with 1."""
    typer.echo(f"error: {sentence}", err=True)
    raise typer.Exit(1)
