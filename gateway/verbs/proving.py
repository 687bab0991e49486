"""The verbs that prove: `proof`, `receipt`.

Wiring only: what happens is in `shared.ledger`. Called by `gateway.cli`.
"""

from __future__ import annotations

import typer

verbs = typer.Typer(rich_markup_mode=None)
