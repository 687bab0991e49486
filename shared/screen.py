"""The terminal that standard output goes to: how wide it is, and text folded to fit it.

Invariant: what is no terminal has no width, so that output for programs is never folded. Called by
whatever prints sentences and tables for people.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import Final

#: Narrower than this no text is folded: the words would stand one below the other.
_NARROWEST: Final = 20


def width() -> int | None:
    """Return the columns of the terminal, or None if standard output is none."""
    if not sys.stdout.isatty():
        return None
    return max(_NARROWEST, shutil.get_terminal_size().columns)


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
