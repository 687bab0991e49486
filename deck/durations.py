"""Durations as people write them in a team file: Go's syntax (`45m`, `1h30m`, `1.5s`).

Owns the parsing of that syntax and the two ways a duration is shown: in Go's form, which the
parser reads back, and as a short age (`5s`, `3m`, `2h`, `4d`). Pure. The config, the report, the
checkpoint list and the session list use it.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_UNITS: Final = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),  # U+00B5, micro sign
    "μs": Decimal("1e-6"),  # U+03BC, Greek mu
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
#: Go keeps a duration in a signed 64-bit count of nanoseconds.
_MAX_SECONDS: Final = Decimal((1 << 63) - 1) / Decimal(1_000_000_000)


class BadDuration(ValueError):
    """A text that is not a duration; the message says how to write one."""


def parse_duration(text: str) -> float:
    """Return the seconds that `text` stands for, in Go's syntax; a sign is allowed, `0` too.

    Raises BadDuration for an empty text, a number without a unit, an unknown unit, or more than
    Go can hold (about 292 years).
    """
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    total, position = Decimal(0), 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None:
            raise BadDuration(_advice(text))
        total += Decimal(part.group(1)) * _UNITS[part.group(2)]
        position = part.end()
    if position == 0 or total > _MAX_SECONDS:
        raise BadDuration(_advice(text))
    return sign * float(total)


def format_duration(seconds: float) -> str:
    """Return whole seconds in Go's form: `0s`, `45s`, `3m0s`, `26h0m5s`."""
    whole = round(abs(seconds))
    sign = "-" if seconds < 0 and whole else ""
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{sign}{hours}h{minutes}m{rest}s"
    if minutes:
        return f"{sign}{minutes}m{rest}s"
    return f"{sign}{rest}s"


def format_age(seconds: float) -> str:
    """Return an age in its largest unit: `5s`, `3m`, `2h` or `4d`; a negative age is `0s`."""
    whole = max(0, int(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def _advice(text: str) -> str:
    return f"{text!r} is not a duration; write it like 45m, 1h30m or 90s"
