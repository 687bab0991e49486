"""Retention: how long kept evidence must stay, and whether it may go now.

Owns the classes with their shortest times, and the one decision about a deletion. Pure. Invariant:
a hold comes before everything, then the class of what is kept; whoever asks for a deletion is told
which of them forbids it, until when, and for which records. Called by `erase`, `prune` and the
policy.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shared.evidence.holds import Hold

DAY_US: Final = 86_400_000_000
#: Shortest days of the classes that come with the program. EU AI Act articles 19 and 26(6): logs
#: for at least six months. SEC rule 17a-4(b): three years (some records six: give the days).
CLASSES: Final[Mapping[str, int]] = {"ai-act": 184, "sec-17a-4": 3 * 365 + 1}
#: A hundred years: more is a typing error.
MAX_DAYS: Final = 36_525
#: Record numbers named in a sentence.
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Retention:
    """How long evidence stays at least: the name of its class and days; no name, no duty."""

    name: str = ""
    days: int = 0

    def until(self, day_end_us: int) -> int:
        """Return the end, in microseconds since 1970, for what is kept up to `day_end_us`; 0 when
        nothing must stay."""
        return day_end_us + self.days * DAY_US if self.name else 0


@dataclass(frozen=True, slots=True)
class Kept:
    """One group of evidence as a decision sees it: its key, whose it is (keyed hashes), when it
    was kept and until when its class holds it (microseconds since 1970), which records name it."""

    keyid: str
    subject_c: str
    session_c: str
    created: int
    retention: str
    until: int
    records: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a group must stay; `until` in microseconds since 1970, 0: until what `ends` says."""

    keyid: str
    reason: str
    until: int
    records: Sequence[int]
    ends: str = "it is released"


def holding(kept: Kept, holds: Iterable[Hold], now: int) -> Blocked | None:
    """Return what forbids deleting one group at `now`, or None. A hold comes first."""
    for hold in holds:
        if hold.is_active(now) and hold.covers(kept.subject_c, kept.session_c):
            return Blocked(kept.keyid, f'the hold "{hold.id}"', hold.until, kept.records)
    if kept.retention and now < kept.until:
        reason = f'the retention class "{kept.retention}"'
        return Blocked(kept.keyid, reason, kept.until, kept.records)
    return None


def decide(kept: Iterable[Kept], holds: Iterable[Hold], now: int) -> list[Blocked]:
    """Return what forbids deleting these groups at `now`; empty means that all may go."""
    known = list(holds)
    return [found for item in kept if (found := holding(item, known, now)) is not None]


def sentence(blocked: Sequence[Blocked], what: str) -> str:
    """Say in one sentence why `what` was refused: by what, until when, for which records."""
    first = max(blocked, key=lambda item: (item.until == 0, item.until))
    same = [item for item in blocked if item.reason == first.reason]
    records = sorted({seq for item in same for seq in item.records})
    until = f"until {date_of(first.until) if first.until else first.ends}"
    others = len({item.reason for item in blocked}) - 1
    more = f" (and {others} other reason(s))" if others else ""
    named = f" for {_numbers(records)}" if records else ""
    return f"{what} was refused: {first.reason} forbids it {until}{named}{more}."


def _numbers(records: Sequence[int]) -> str:
    shown = ", ".join(map(str, records[:_NAMED]))
    more = f" and {len(records) - _NAMED} more" if len(records) > _NAMED else ""
    return f"record{'s' if len(records) > 1 else ''} {shown}{more}"


def date_of(us: int) -> str:
    """Return a time (microseconds since 1970) as a UTC date."""
    return time.strftime("%Y-%m-%d", time.gmtime(us // 1_000_000))
