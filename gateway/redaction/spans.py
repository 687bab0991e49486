"""What a detector says: this stretch of text is a value of that kind.

Invariant: the list a detector hands out is sorted, never overlaps, and never touches a token that
is already in the text. Every character any rule flagged stays covered when two rules disagree:
overlapping finds become one span, so that no tail of a value is left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Span:
    """Code points `start` (inclusive) to `end` (exclusive); score 0 to 1; `rule` names the
    finder."""

    start: int
    end: int
    kind: str
    score: float
    rule: str


def resolve(spans: Iterable[Span]) -> list[Span]:
    """Merge overlapping spans. The longest names the kind; at equal length the highest score."""
    merged: list[Span] = []
    best = 0
    for span in sorted(spans, key=lambda s: (s.start, -s.end, -s.score)):
        if span.end <= span.start:
            continue
        if not merged or span.start >= merged[-1].end:
            merged.append(span)
            best = span.end - span.start
            continue
        last = merged[-1]
        size = span.end - span.start
        if (size, span.score) > (best, last.score):
            last = replace(last, kind=span.kind, score=span.score, rule=span.rule)
            best = size
        merged[-1] = replace(last, end=max(last.end, span.end))
    return merged


def cut_out(spans: Sequence[Span], holes: Sequence[tuple[int, int]], text: str) -> list[Span]:
    """Remove `holes` (sorted, disjoint) from `spans`; pieces without a letter or digit are
    dropped."""
    if not holes:
        return list(spans)
    pieces: list[Span] = []
    for span in spans:
        at = span.start
        for start, end in holes:
            if end <= at or start >= span.end:
                continue
            if start > at:
                pieces.append(replace(span, start=at, end=start))
            at = max(at, end)
        if at == span.start:
            pieces.append(span)
        elif at < span.end:
            pieces.append(replace(span, start=at))
    return [p for p in pieces if any(c.isalnum() for c in text[p.start : p.end])]
