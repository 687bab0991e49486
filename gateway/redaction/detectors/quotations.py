"""Where a quotation ends, and whether a mark begins one or ends one.

Invariant: pure and linear; reads a bounded way. Called by `assignments`.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.redaction.detectors.styles import FIELD_REACH
from gateway.redaction.detectors.values import VALUE_MAX

#: What follows a string in source code, and begins no password.
AFTER_STRING: Final = frozenset(",)+")
_CODE_SIGN: Final = re.compile(r"[()=;{}]")


def ends_string(text: str, at: int, value: str, quote: str) -> bool:
    """Whether the quotation mark at `at` is the second of its line rather than the first."""
    floor = max(0, at - FIELD_REACH)
    line = text.rfind("\n", floor, at) + 1
    if floor and not line:  # a program without lines
        return text[at - 1 : at] == ":" or _CODE_SIGN.search(value) is not None
    return text.count(quote, line, at) % 2 == 1


def closing(text: str, at: int, quote: str) -> int | None:
    """Where the quotation that began before `at` ends, on the same line for short quotes."""
    limit = at + VALUE_MAX
    position = at
    while True:
        found = text.find(quote, position, limit)
        if found < 0:
            return None
        if len(quote.lstrip("\\")) == 1 and "\n" in text[at:found]:
            return None
        backslashes = 0
        while found - backslashes > at and text[found - backslashes - 1] == "\\":
            backslashes += 1
        if quote == "'" and found > at and text.startswith("''", found):
            position = found + 2  # YAML and SQL double a quote within quotes
            continue
        if backslashes % 2 == 0 or quote[0] == "\\":
            return found
        position = found + 1


def closes_within(text: str, at: int, limit: int, quote: str) -> bool:
    """Whether the first such mark surely ends the quotation, and stands before `limit`."""
    found = text.find(quote, at, limit)
    return found > at and text[found - 1] != "\\" and not text.startswith(quote, found + len(quote))
