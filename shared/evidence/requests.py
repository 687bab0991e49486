"""Reading the fields of an operator's request, wherever it came from.

Owns the checks that every operation shares. Pure. Invariant: a field that is missing or of the
wrong kind is an error naming it; no value is ever in the sentence, because it may be somebody's
name. Called by the operations of this package.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Mapping
from typing import Any, Final

from shared.evidence.errors import EvidenceError

#: Longest text of a field, in characters: it goes into a record.
MAX_TEXT: Final = 1_000


def optional_text(request: Mapping[str, Any], name: str) -> str:
    """Return the text of a field, empty when it is missing. Raises EvidenceError."""
    value = request.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MAX_TEXT or not value.isprintable():
        raise EvidenceError(f"{_option(name)} must be one line of text.")
    return value.strip()


def required_text(request: Mapping[str, Any], name: str) -> str:
    """Return the text of a field. Raises EvidenceError."""
    value = optional_text(request, name)
    if not value:
        raise EvidenceError(f"{_option(name)} is missing; give it.")
    return value


def flag(request: Mapping[str, Any], name: str) -> bool:
    """Return a field that is true or false; missing is false. Raises EvidenceError."""
    value = request.get(name, False)
    if not isinstance(value, bool):
        raise EvidenceError(f"{_option(name)} must be true or false.")
    return value


def time_of(request: Mapping[str, Any], name: str) -> int | None:
    """Return the beginning of a date (YYYY-MM-DD, UTC) in microseconds since 1970, or None.

    Raises EvidenceError."""
    text = optional_text(request, name)
    if not text:
        return None
    try:
        return calendar.timegm(time.strptime(text, "%Y-%m-%d")) * 1_000_000
    except ValueError:
        raise EvidenceError(f"{_option(name)} must be a date such as 2027-01-31.") from None


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
