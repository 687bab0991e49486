"""The verbs that read a ledger: `log`, `export`.

Wiring only: what happens is in `shared.exports`. Called by `gateway.cli`.
"""

from __future__ import annotations

import typer

verbs = typer.Typer(rich_markup_mode=None)
