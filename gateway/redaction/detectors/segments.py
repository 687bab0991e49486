"""Patients in HL7 v2 messages: what the standard keeps at a numbered field of a segment.

Owns which field of which segment holds whose name, number, date, address or phone (HL7 v2.5,
chapters 3 and 6). Invariant: one pass over the lines that begin like a segment, a bounded stretch
of each; a segment counts only when a name is where the standard puts it, so that `PID|1|running`
of a process table is left alone. Called by the engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import ClassVar, Final

from gateway.redaction.detectors.base import Rule, Source, Triggers, occurrences, part_of
from gateway.redaction.spans import Span

#: For each segment the field with a name that must be there, and the kinds of the other fields.
_SEGMENTS: Final[Mapping[str, tuple[int, Mapping[int, str]]]] = MappingProxyType(
    {
        "pid|": (
            5,
            {2: "HEALTH", 3: "HEALTH", 4: "HEALTH", 5: "NAME", 6: "NAME", 7: "BIRTHDATE",
             9: "NAME", 11: "ADDRESS", 13: "PHONE", 14: "PHONE", 18: "HEALTH", 19: "SSN"},
        ),
        "nk1|": (2, {2: "NAME", 4: "ADDRESS", 5: "PHONE", 6: "PHONE", 16: "BIRTHDATE"}),
        "gt1|": (
            3,
            {2: "HEALTH", 3: "NAME", 4: "NAME", 5: "ADDRESS", 6: "PHONE", 7: "PHONE",
             8: "BIRTHDATE", 12: "SSN"},
        ),
        "in1|": (16, {16: "NAME", 18: "BIRTHDATE", 19: "ADDRESS", 36: "HEALTH", 49: "HEALTH"}),
        "pv1|": (7, {7: "NAME", 8: "NAME", 9: "NAME", 17: "NAME", 19: "HEALTH"}),
        "obr|": (16, {16: "NAME"}),
        "orc|": (12, {12: "NAME"}),
        "mrg|": (7, {1: "HEALTH", 4: "HEALTH", 7: "NAME"}),
    }
)  # fmt: skip
_HEADS: Final = tuple(_SEGMENTS)
_PART: Final = part_of(_HEADS)
#: A segment that is read; real ones are seldom half as long.
_LONGEST: Final = 2000
_LINE_END: Final = re.compile(r"[\r\n]|\\r|\\n|\Z")
#: `Doe^Jane^Q`, also behind a number as `0148^Doe^Jane` names a physician.
_NAME: Final = re.compile(
    r"(?:[A-Z]{0,6}\d[\w.\-]{0,18}\^)?"
    r"(?P<name>[^\W\d_][^\^|~&\n\r\d]{0,39}\^[^\W\d_][^\^|~&\n\r\d]{0,39}"
    r"(?:\^[^\W\d_][^\^|~&\n\r\d]{0,39})?)"
)
_FORMS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "NAME": _NAME,
        "HEALTH": re.compile(r"(?=[A-Z\-]{0,8}\d)[A-Za-z0-9][A-Za-z0-9\-/]{3,24}(?=[\^~|&]|\Z)"),
        "BIRTHDATE": re.compile(r"(?:18|19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"),
        "ADDRESS": re.compile(r"[^|~\n\r]{0,160}[^|~\n\r\^ ]"),
        "PHONE": re.compile(r"[+(]?\d[\d() .\-]{5,22}\d(?=[\^~|]|\Z)"),
        "SSN": re.compile(r"\d{3}-?\d{2}-?\d{4}(?=[\^~|]|\Z)"),
    }
)


class SegmentRule(Rule):
    """Finds the values of persons in HL7 v2 segments."""

    KINDS: ClassVar = ("NAME", "HEALTH", "BIRTHDATE", "ADDRESS", "PHONE", "SSN")

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(literals=_HEADS)

    def spans(self, source: Source) -> Iterator[Span]:
        """Read every segment of a kind that holds persons."""
        if not source.may_hold_words(_PART):
            return
        text = source.text
        done = 0
        for at, head in occurrences(source.folded, _HEADS):
            if done - _LONGEST <= at < done:
                continue  # inside of the one before
            if text[at].isupper() and _may_begin(text, at):
                limit = min(len(text), at + _LONGEST)
                line = _LINE_END.search(text, at, limit)
                done = limit if line is None else line.start()
                yield from _segment(text, at, head, done)


def _may_begin(text: str, at: int) -> bool:
    """At a line's beginning, also of one that is written as `\\r` or `\\n`."""
    before = text[max(0, at - 2) : at]
    return before in ("\\r", "\\n") or not (before[-1:].isalnum() or before[-1:] in ("|", "_"))


def _segment(text: str, at: int, head: str, end: int) -> Iterator[Span]:
    fields = _fields(text, at + len(head), end)
    named, kinds = _SEGMENTS[head]
    if named > len(fields) or not _NAME.match(text, *fields[named - 1]):
        return
    for number, kind in kinds.items():
        if number <= len(fields):
            yield from _values(text, *fields[number - 1], kind)


def _fields(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where the fields are; the first is number 1."""
    fields = []
    for field in text[start:end].split("|"):
        fields.append((start, start + len(field)))
        start += len(field) + 1
    return fields


def _values(text: str, start: int, end: int, kind: str) -> Iterator[Span]:
    """Every repetition of a field."""
    for value in text[start:end].split("~"):
        found = _FORMS[kind].match(text, start, start + len(value))
        if found is not None:
            group = "name" if kind == "NAME" else 0
            yield Span(*found.span(group), kind, 0.85, "segment")
        start += len(value) + 1
