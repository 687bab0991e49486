"""Values that count where a text names them: national ids, tax numbers, passports, dates of birth,
numbers of health care.

Owns nothing but the list of such values and the walk over their names; each module of the list
owns its values' forms and validators. Invariant: one pass over the text for all names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from gateway.redaction.detectors import (
    birthdates,
    european_ids,
    health,
    ip,
    named_ids,
    passports,
    phone,
    postal,
    vat,
    wallets,
    world_ids,
)
from gateway.redaction.detectors.base import Rule, Source, Triggers
from gateway.redaction.detectors.labels import (
    Label,
    Labels,
    Reach,
    Value,
    columns,
    following,
    near,
    value_starts,
)
from gateway.redaction.detectors.repeats import repeats_of
from gateway.redaction.policy import Policy
from gateway.redaction.spans import Span

VALUES: Final = (
    *european_ids.VALUES,
    *world_ids.VALUES,
    *named_ids.VALUES,
    *vat.VALUES,
    *passports.VALUES,
    *birthdates.VALUES,
    *health.VALUES,
    *wallets.VALUES,
    *phone.VALUES,
    *postal.VALUES,
    *ip.VALUES,
)


#: `IP-Adresse`, `mac_address`: no names of a place. Other rules know these values by their forms.
_OTHER_ADDRESS: Final = re.compile(
    r"(?<![A-Za-z])(?:ip|ipv4|ipv6|mac|e-?mail|mail|web|host|memory|server|base|remote|client|source|"
    r"peer|bind|listen|dest|destination|local|physical|virtual|contract)[ _\-]\Z",
    re.IGNORECASE,
)
_OTHER_REACH: Final = 14


def _is_of_machine(text: str, label: Label) -> bool:
    return label.values[0].rule == "named-address" and (
        _OTHER_ADDRESS.search(text, max(0, label.start - _OTHER_REACH), label.start) is not None
    )


#: `C01X00T47 (passport)`, `1990-04-01 as date of birth`: the value stands before its name.
_LEADS: Final = re.compile(
    r"[\"'`)}\]]{0,3}(?:[ ]?[(\[](?:[A-Z][a-z]{2,12}[ ])?|"
    r"[ ](?:as|is)[ ](?:(?:my|the|his|her|your|a)[ ])?)\Z"
)
_LED_REACH: Final = 48
#: A form may look at what stands before it.
_LED_BESIDE: Final = 16
#: `am 12.08.1945 geboren`
_BORN_BEHIND: Final = re.compile(r"[ ](?:geboren|született|syntynyt|gimęs|dzimis)\Z")
_LEAD_MOST: Final = 20
_LEAD_ENDS: Final = frozenset("([ ")
#: Between a value and the one that takes its place: `date of birth from … to …`, `… → …`.
_CORRECTED: Final = re.compile(
    r"[\"'`]?(?:[ ]?,?[ ](?:to|not|but|and|or|zu|auf|in|à|a|en|naar|na|till|should be|instead of)"
    r"|[ ]?(?:->|=>|→))[ ][\"'`]?"
)


#: What was found before a name, counted from it, for a rule and the text there: lines repeat.
_Led = dict[tuple[str, str], tuple[int, int] | None]
_MOST_LED: Final = 4096
#: More than is ever read before and behind a name.
_BACK: Final = 256
_AHEAD: Final = 4096


def _corrected(text: str, end: int, value: Value) -> Iterator[tuple[int, int]]:
    """The value behind another one that it corrects."""
    between = _CORRECTED.match(text, end)
    match = value.form.match(text, between.end()) if between is not None else None
    if match is not None and value.is_valid(match.group()):
        yield match.span()


def _beside(text: str, labels: list[Label]) -> Iterator[Span]:
    """The values right beside their names."""
    starts_known: dict[str, tuple[int, ...]] = {}
    led: _Led = {}
    repeats = repeats_of(text, len(labels), back=_BACK, ahead=_AHEAD)
    done = 0
    for label in labels:
        if repeats is not None and label.start >= done:
            done, again = repeats.skip(label.start)
            yield from again
        if label.start < done:
            continue
        starts: tuple[int, ...] | None = None
        for value in label.values:
            if value.reach is Reach.NEXT:
                starts = value_starts(text, label, starts_known) if starts is None else starts
                for span in _next(text, label, value, starts, led):
                    if repeats is not None:
                        repeats.found.append(span)
                    yield span


def _next(
    text: str, label: Label, value: Value, starts: tuple[int, ...], known: _Led
) -> Iterator[Span]:
    """The value right behind or before a name, and one that corrects it."""
    found = next(following(text, starts, value), None) or _led(text, label, value, known)
    if found is not None:
        yield Span(*found, value.kind, value.score, value.rule)
        for other in _corrected(text, found[1], value):
            yield Span(*other, value.kind, value.score, value.rule)


def _led(text: str, label: Label, value: Value, known: _Led) -> tuple[int, int] | None:
    if text[label.start - 1 : label.start] not in _LEAD_ENDS:
        return None
    before = value.rule, text[max(0, label.start - _LED_REACH - _LED_BESIDE) : label.start]
    if before not in known:
        if len(known) > _MOST_LED:
            known.clear()
        found = _led_here(text, label, value)
        known[before] = found and (found[0] - label.start, found[1] - label.start)
    span = known[before]
    return span and (span[0] + label.start, span[1] + label.start)


def _led_here(text: str, label: Label, value: Value) -> tuple[int, int] | None:
    floor = max(0, label.start - _LED_REACH)
    lead = _LEADS.search(text, max(floor, label.start - _LEAD_MOST), label.start)
    if lead is None:
        lead = _BORN_BEHIND.search(text, max(floor, label.start - 1), label.end)
    if lead is None:
        return None
    for match in value.form.finditer(text, floor, lead.start()):
        if match.end() == lead.start() and value.is_valid(match.group()):
            return match.span()
    return None


def _born(text: str) -> Iterator[Span]:
    if birthdates.BORN in text:
        for born in birthdates.BORN_SIGN.finditer(text):
            yield Span(*born.span("date"), "BIRTHDATE", 0.75, "born-sign")


_LABELS: Final = Labels(VALUES)


class LabeledRule(Rule):
    """Finds values beside their names."""

    KINDS: ClassVar = tuple(dict.fromkeys(value.kind for value in VALUES))

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._labels = _LABELS
        self._machines = ip.IpRule(policy)

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(literals=(*self._labels.names, birthdates.BORN))

    def spans(self, source: Source) -> Iterator[Span]:
        """Look near, right behind, and below every name."""
        text = source.text
        labels = [label for label in self._labels.find(source) if not _is_of_machine(text, label)]
        yield from _born(text)
        named: dict[str, tuple[Value, list[Label]]] = {}
        for label in labels:
            for value in label.values:
                if value.reach is Reach.NEAR:
                    named.setdefault(value.rule, (value, []))[1].append(label)
        yield from _beside(text, labels)
        for value, its in named.values():
            for start, end in near(text, its, value):
                yield Span(start, end, value.kind, value.score, value.rule)
        if "\n" not in text and "values" not in source.folded:
            return
        for value, start, end in columns(source, labels):
            match = value.form.match(text, start, end)
            if match is None or match.end() != end or not value.is_valid(match.group()):
                continue
            if value.kind != "IP" or self._machines.points_at_someone(match.group()):
                yield Span(start, end, value.kind, value.score, value.rule)
