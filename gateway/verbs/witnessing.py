"""The verbs that take checkpoints off the machine: `witness`, `anchor`.

Wiring only: what happens is in `shared.anchors`. Called by `gateway.cli`.
"""

from __future__ import annotations

import typer

verbs = typer.Typer(rich_markup_mode=None)
