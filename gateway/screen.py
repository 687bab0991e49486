"""Drawing on standard output: a console with this program's rules of color.

Invariant: NO_COLOR and SPHRAGIS_NO_COLOR turn colors off in every verb. Called by `log_view`,
`inspecting` and `verbs.reading`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from shared.screen import width

if TYPE_CHECKING:
    from rich.console import Console


def console(*, soft_wrap: bool = False) -> Console:
    """Return what draws on standard output."""
    from rich.console import Console

    plain = bool(os.environ.get("SPHRAGIS_NO_COLOR"))
    return Console(
        highlight=False, no_color=plain or None, soft_wrap=soft_wrap, width=width() or None
    )
