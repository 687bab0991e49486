"""Which records a reader asks for, judged on raw bytes first and on the parsed record after.

Owns the filters of `sphragis log` and `sphragis export`, and how times are written in them. Rules:
the canonical line has its keys sorted, so `"seq"` and `"ts"` are found from the right without
parsing, and a value that is asked for stands in the line in exactly one spelling; an outcome
belongs to whoever asked for the request that it ends. Pure. Called by `reading`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from shared.ledger.errors import LedgerError
from shared.ledger.record import TYPE_NAMES

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_AGO: Final = re.compile(r"([0-9]{1,6})\s*([smhdw])(?: ago)?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SECOND: Final = 1_000_000


class FilterRefused(LedgerError):
    """A filter that cannot be understood; the sentence says what would be."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What a record must be. Empty fields ask for nothing.

    `since` (inclusive) and `until` (exclusive) are microseconds UTC, `first` and `last` record
    numbers, both inclusive. `codes` are refusal codes and causes.
    """

    roles: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    decisions: frozenset[str] = frozenset()
    codes: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    since: int = 0
    until: int | None = None
    first: int = 0
    last: int | None = None

    @property
    def names_owner(self) -> bool:
        """Whether it asks for something that an outcome shares with its request."""
        return bool(
            self.roles or self.tasks or self.sessions or self.decisions or self.codes or self.ids
        )

    def as_record(self) -> dict[str, Any]:
        """Return the filter as an `export` record holds it: what was asked for, nothing else."""
        asked: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, frozenset) and value:
                asked[field.name] = sorted(value)
            elif isinstance(value, int) and (value or field.name in ("until", "last")):
                asked[field.name] = value
        return asked


class Selector:
    """Applies a filter to the records of one log in order; remembers the requests it chose."""

    def __init__(self, wanted: Filter) -> None:
        self._wanted = wanted
        self._open: set[int] = set()
        self._owners = _spellings(wanted)
        kinds = wanted.kinds
        if kinds and wanted.names_owner and "outcome" in kinds:
            kinds = kinds | {"request"}  # whose outcome it is, is known from there
        self._kinds = [b'"type":"%s"' % kind.encode() for kind in sorted(kinds)]
        self._is_open_ended = not (
            wanted.since or wanted.until is not None or wanted.first or wanted.last is not None
        )

    def candidates(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """Return the lines that may hold a wanted record, without parsing any."""
        if self._owners:
            lines = self._owned_lines(lines)
        if self._kinds:
            lines = _with_any(lines, self._kinds)
        return lines if self._is_open_ended or not lines else list(filter(self._is_within, lines))

    def _owned_lines(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        kept = lines
        for values in self._owners:
            kept = _with_any(kept, values)
        # A request that was chosen, now or before, may have its outcome in these lines.
        chosen = {_number_after(line, b'"seq":') for line in kept if _REQUEST in line} | self._open
        if not chosen:
            return kept
        numbers = set(map(id, kept))
        return [
            line
            for line in lines
            if id(line) in numbers or (_OUTCOME in line and _may_end(line, chosen))
        ]

    def _is_within(self, line: bytes) -> bool:
        """Judge number and time from the right end of the line; what is unclear is kept."""
        wanted = self._wanted
        if wanted.names_owner and (_REQUEST in line or _OUTCOME in line):
            return True  # one tells about the other, wherever it stands
        seq, ts = _number_after(line, b'"seq":'), _number_after(line, b'"ts":')
        if seq is None or ts is None:
            return True
        return (
            seq >= wanted.first
            and (wanted.last is None or seq <= wanted.last)
            and ts >= wanted.since
            and (wanted.until is None or ts < wanted.until)
        )

    def selects(self, record: Mapping[str, Any]) -> bool:
        """Tell whether a record is wanted."""
        wanted = self._wanted
        kind, seq = record.get("type"), record.get("seq")
        owned = not wanted.names_owner or _is_owned(record, wanted)
        if wanted.names_owner:
            if kind == "request" and owned and type(seq) is int:
                self._open.add(seq)
            elif kind == "outcome":
                ref = record.get("ref")
                if type(ref) is int:
                    owned = owned or ref in self._open
                    self._open.discard(ref)
        return owned and _is_itself(record, wanted)


_REQUEST: Final = b'"type":"request"'
_OUTCOME: Final = b'"type":"outcome"'


def _may_end(line: bytes, requests: set[int | None]) -> bool:
    """Tell whether an outcome may name one of `requests`; objects that sort behind `ref` could
    hold the name too, so with them the answer is yes."""
    return _number_after(line, b'"ref":') in requests or b'"retention":' in line


def _with_any(lines: Sequence[bytes], needles: Sequence[bytes]) -> Sequence[bytes]:
    if len(needles) == 1:
        needle = needles[0]
        return [line for line in lines if needle in line]
    return [line for line in lines if any(needle in line for needle in needles)]


def _number_after(line: bytes, name: bytes) -> int | None:
    """Return the number behind the last `name`. A quote inside a string is escaped, and every key
    that sorts behind these two holds a short text, so the last one is the record's own."""
    at = line.rfind(name)
    if at < 0:
        return None
    end = line.find(b",", at)
    digits = line[at + len(name) : end]
    return int(digits) if digits.isdigit() else None


def _spellings(wanted: Filter) -> list[list[bytes]]:
    """Return, for each thing asked for, the texts of which one must stand in the line."""
    asked = (
        wanted.roles,
        wanted.tasks,
        wanted.sessions,
        wanted.ids,
        wanted.decisions,
        wanted.codes,
    )
    return [[_spelled(name) for name in sorted(names)] for names in asked if names]


def _spelled(value: str) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # a lone surrogate: no record holds one
        raise FilterRefused(
            "A filter holds text that is not valid Unicode; write it anew."
        ) from None


def _is_itself(record: Mapping[str, Any], wanted: Filter) -> bool:
    seq, ts = record.get("seq"), record.get("ts")
    if type(seq) is not int or type(ts) is not int:
        return False
    return (
        (not wanted.kinds or record.get("type") in wanted.kinds)
        and wanted.first <= seq
        and (wanted.last is None or seq <= wanted.last)
        and wanted.since <= ts
        and (wanted.until is None or ts < wanted.until)
    )


def _is_owned(record: Mapping[str, Any], wanted: Filter) -> bool:
    return (
        (not wanted.roles or not wanted.roles.isdisjoint(roles_of(record)))
        and (not wanted.tasks or task_of(record) in wanted.tasks)
        and (not wanted.sessions or not wanted.sessions.isdisjoint(sessions_of(record)))
        and (
            not wanted.ids
            or record.get("id") in wanted.ids
            or at(record, "gate", "id") in wanted.ids
        )
        and (not wanted.decisions or decision_of(record) in wanted.decisions)
        and (not wanted.codes or not wanted.codes.isdisjoint(codes_of(record)))
    )


# -- what a record says, whatever it holds ---------------------------------------------------------


def at(record: Mapping[str, Any], *path: str) -> Any:
    """Return what stands at a path of names in a record, or None."""
    value: Any = record
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def text_at(record: Mapping[str, Any], *path: str) -> str:
    """Return the text at a path, or an empty text."""
    value = at(record, *path)
    return value if type(value) is str else ""


def role_of(record: Mapping[str, Any]) -> str:
    """Return who acted."""
    return text_at(record, "actor", "role")


def roles_of(record: Mapping[str, Any]) -> set[str]:
    """Return all roles that a record is about: who acted, and on whom a deck acted."""
    roles = {role_of(record), text_at(record, "ext", "role")}
    if at(record, "action", "kind") == "deck":
        roles |= {text_at(record, "action", "target")}
    return roles - {""}


def task_of(record: Mapping[str, Any]) -> str:
    """Return the task a record belongs to, or an empty text."""
    return text_at(record, "task")


def sessions_of(record: Mapping[str, Any]) -> set[str]:
    """Return the sessions that a record names."""
    return {text_at(record, "run"), text_at(record, "ext", "run")} - {""}


def decision_of(record: Mapping[str, Any]) -> str:
    """Return what was decided: by policy, or at a gate."""
    return text_at(record, "policy", "decision") or text_at(record, "gate", "state")


def codes_of(record: Mapping[str, Any]) -> set[str]:
    """Return the refusal codes and causes of a record."""
    rules = at(record, "policy", "rules")
    codes = {rule for rule in rules if type(rule) is str} if isinstance(rules, list) else set()
    return (codes | {text_at(record, "outcome", "cause"), text_at(record, "ext", "code")}) - {""}


def redactions_of(record: Mapping[str, Any]) -> dict[str, int]:
    """Return how many values of each kind were replaced."""
    counts = at(record, "ext", "redactions")
    if not isinstance(counts, Mapping):
        return {}
    return {kind: count for kind, count in counts.items() if type(count) is int}


def tokens_of(record: Mapping[str, Any]) -> tuple[int, int]:
    """Return the tokens of an outcome: (input with all caches, output)."""
    usage = at(record, "outcome", "usage")
    if not isinstance(usage, Mapping):
        return 0, 0
    numbers = {name: count for name, count in usage.items() if type(count) is int}
    read = sum(numbers.get(name, 0) for name in ("input", "cache_creation", "cache_read"))
    return read, numbers.get("output", 0)


# -- reading what a person wrote -------------------------------------------------------------------


def parse_kinds(text: str) -> frozenset[str]:
    """Return the record types of a comma-separated list. Raises FilterRefused."""
    kinds = frozenset(part.strip() for part in text.split(",") if part.strip())
    for kind in sorted(kinds - TYPE_NAMES):
        import difflib

        near = difflib.get_close_matches(kind, TYPE_NAMES, 1)
        hint = (
            f"the nearest is {near[0]}." if near else f"there are {', '.join(sorted(TYPE_NAMES))}."
        )
        raise FilterRefused(f"There is no kind of record called {kind[:40]!a}; {hint}")
    return kinds


def parse_range(text: str) -> tuple[int, int | None]:
    """Return (first, last) of `N`, `A:B`, `A:` or `:B`. Raises FilterRefused."""
    match = re.fullmatch(r"([0-9]{0,16})(:?)([0-9]{0,16})", text.strip())
    if match is None or not (match[1] or match[3]):
        raise FilterRefused("A range of record numbers looks like 17, 17:40, 17: or :40.")
    first = int(match[1] or 0)
    if not match[2]:
        return first, first
    return first, int(match[3]) if match[3] else None


def parse_time(text: str, now: datetime, *, is_end: bool = False) -> int:
    """Return a moment in microseconds UTC.

    Understood are ISO dates and times (local unless they name a zone), `2h`, `30m`, `3d` ago,
    `today`, `yesterday` and `now`. `now` must know its zone. As the end of a range, a day means
    its last moment. Raises FilterRefused.
    """
    plain = text.strip().lower()
    ago = _AGO.fullmatch(plain)
    if ago:
        return _microseconds(now) - int(ago[1]) * _UNITS[ago[2]] * _SECOND
    if plain == "now":
        return _microseconds(now)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    day = {"today": midnight, "yesterday": midnight - timedelta(days=1)}.get(plain)
    try:
        moment = day or datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = (
                moment.astimezone() if now.tzinfo is None else moment.replace(tzinfo=now.tzinfo)
            )
        if is_end and (day or _DATE.fullmatch(plain)):
            moment += timedelta(days=1)
        return max(_microseconds(moment), 0)
    except (ValueError, OverflowError):
        raise FilterRefused(
            f"The time {text[:40]!a} is not understood; write 2026-11-29, "
            "2026-11-29T14:00, today, yesterday, 2h, 30m or 3d."
        ) from None


def _microseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * _SECOND + moment.microsecond
