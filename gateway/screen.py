"""The screen that standard output goes to: how wide it is, whether it has colors, folded text.

Invariants: what is no terminal has no width, so that output for programs is never folded or
colored; NO_COLOR and SPHRAGIS_NO_COLOR turn colors off in every verb. Called by `log_view`,
`inspecting` and the verbs that print sentences.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

#: Narrower than this no text is folded: the words would stand one below the other.
_NARROWEST: Final = 20


def width() -> int | None:
    """Return the columns of the terminal, or None if standard output is none."""
    if not sys.stdout.isatty():
        return None
    return max(_NARROWEST, shutil.get_terminal_size().columns)


def console(*, soft_wrap: bool = False) -> Console:
    """Return what draws on standard output."""
    from rich.console import Console

    plain = bool(os.environ.get("SPHRAGIS_NO_COLOR"))
    return Console(
        highlight=False, no_color=plain or None, soft_wrap=soft_wrap, width=width() or None
    )


def folded(text: str, indent: int) -> str:
    """Return a line folded between words to the terminal's width, what follows the first line
    indented; as it is where there is no terminal."""
    columns = width()
    if columns is None or len(text) <= columns:
        return text
    hanging = " " * min(indent, columns // 2)
    return textwrap.fill(
        text,
        columns,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=True,
    )
