"""The verbs for kept evidence: `evidence`, `erase`, `hold`, `prune`.

Wiring only: what happens is in `shared.evidence`. Called by `gateway.cli`.
"""

from __future__ import annotations

import typer

verbs = typer.Typer(rich_markup_mode=None)
