"""Counting what a log holds: per role and per day, in one pass and little memory.

Owns the figures of `sphragis log stats`. Invariant: memory grows with roles, days, kinds and open
requests, never with records; durations are kept as a histogram with three significant digits, so
a percentile is right to one percent. Called by `sphragis log stats`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

from shared.ledger.reading import Item
from shared.ledger.segment import HEAD, list_segments, seal_path
from shared.ledger.selecting import at, codes_of, redactions_of, role_of, text_at, tokens_of


@dataclass(slots=True)
class Tally:
    """The figures of one role or one day. Durations in microseconds, rounded."""

    calls: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    redactions: Counter[str] = field(default_factory=Counter)
    tokens_in: int = 0
    tokens_out: int = 0
    durations: Counter[int] = field(default_factory=Counter)

    def percentile(self, share: float) -> int | None:
        """Return the duration in microseconds that `share` of the calls (0 to 1) did not exceed,
        or None without calls that ended."""
        rank = share * self.durations.total()
        passed = 0
        for took, count in sorted(self.durations.items()):
            passed += count
            if passed >= rank:
                return took
        return None

    def as_json(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        return {
            "calls": self.calls,
            "refusals": dict(self.refusals),
            "redactions": dict(self.redactions),
            "tokens": {"input": self.tokens_in, "output": self.tokens_out},
            "latency_us": {"p50": self.percentile(0.5), "p95": self.percentile(0.95)},
        }


@dataclass(slots=True)
class Stats:
    """The figures of a log."""

    records: int = 0
    first: int | None = None
    last: int | None = None
    kinds: Counter[str] = field(default_factory=Counter)
    roles: dict[str, Tally] = field(default_factory=dict)
    days: dict[str, Tally] = field(default_factory=dict)
    #: Requests without an outcome: number to (role, day).
    open: dict[int, tuple[str, str]] = field(default_factory=dict)
    gates_open: set[str] = field(default_factory=set)
    anchors: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        return {
            "records": self.records,
            "first": self.first,
            "last": self.last,
            "kinds": dict(self.kinds),
            "roles": {name: tally.as_json() for name, tally in sorted(self.roles.items())},
            "days": {name: tally.as_json() for name, tally in sorted(self.days.items())},
            "open_requests": sorted(self.open),
            "open_gates": sorted(self.gates_open),
            "anchors": dict(self.anchors),
        }


def collect(items: Iterable[Item], zone: tzinfo | None = None) -> Stats:
    """Return the figures of records in order. Days are of `zone`, by default the local one."""
    stats = Stats()
    for item in items:
        _take(stats, item.record, zone)
    return stats


def _take(stats: Stats, record: dict[str, Any], zone: tzinfo | None) -> None:
    kind, seq = text_at(record, "type"), record["seq"]
    stats.records += 1
    stats.first = seq if stats.first is None else stats.first
    stats.last = seq
    stats.kinds[kind] += 1
    if kind == "request":
        owner = role_of(record), _day(record, zone)
        stats.open[seq] = owner
        for tally in _tallies(stats, owner):
            tally.calls += 1
            tally.redactions.update(redactions_of(record))
    elif kind == "deny":
        for tally in _tallies(stats, (role_of(record), _day(record, zone))):
            tally.refusals.update(codes_of(record) or {"unnamed"})
    elif kind == "outcome":
        _end(stats, record, zone)
    elif kind == "gate_open":
        stats.gates_open.add(text_at(record, "gate", "id"))
    elif kind == "gate_decision":
        stats.gates_open.discard(text_at(record, "gate", "id"))
    elif kind == "anchor":
        stats.anchors[text_at(record, "ext", "kind") or "unnamed"] += 1


def _end(stats: Stats, record: dict[str, Any], zone: tzinfo | None) -> None:
    ref = record.get("ref")
    known = stats.open.pop(ref, None) if type(ref) is int else None
    read, written = tokens_of(record)
    took = at(record, "outcome", "dur_us")
    for tally in _tallies(stats, known or (role_of(record), _day(record, zone))):
        tally.tokens_in += read
        tally.tokens_out += written
        if type(took) is int and took >= 0:
            tally.durations[_rounded(took)] += 1


def _tallies(stats: Stats, owner: tuple[str, str]) -> tuple[Tally, Tally]:
    role, day = owner
    return stats.roles.setdefault(role, Tally()), stats.days.setdefault(day, Tally())


def _day(record: dict[str, Any], zone: tzinfo | None) -> str:
    try:
        when = datetime.fromtimestamp(record["ts"] // 1_000_000, UTC).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return "?"
    return f"{when:%Y-%m-%d}"


def _rounded(number: int) -> int:
    """Keep three significant digits."""
    unit: int = 10 ** max(len(str(number)) - 3, 0)
    return (number + unit // 2) // unit * unit


@dataclass(frozen=True, slots=True)
class Files:
    """What a log takes on disk. Sizes in bytes."""

    bytes: int
    segments: int
    sealed: int
    pruned_to: int
    head_size: int
    cosignatures: int
    stamps: int
    timestamps: int

    def as_json(self) -> dict[str, int]:
        """Return the figures as a JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}


def files_of(directory: Path) -> Files:
    """Return what the log in `directory` takes on disk. Raises nothing for files that go away."""
    segments = list_segments(directory)
    anchors = [path.suffix for path in _listed(directory / "anchors")]
    return Files(
        bytes=sum(_size(path) for path in segments),
        segments=len(segments),
        sealed=sum(seal_path(path).exists() for path in segments),
        pruned_to=int(segments[0].stem) if segments else 0,
        head_size=_head_size(directory),
        cosignatures=anchors.count(".cosig"),
        stamps=anchors.count(".tsr"),
        timestamps=anchors.count(".ots"),
    )


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _head_size(directory: Path) -> int:
    """Return how many records the published head covers, 0 without one."""
    try:
        text = (directory / HEAD).read_text("utf-8", "replace").split("\n")
        return int(text[1]) if len(text) > 1 and text[1].isdigit() else 0
    except OSError:
        return 0
