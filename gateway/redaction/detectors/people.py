"""Names of people where a text itself says that one stands there: fields (`"first_name"`, `Kunde:`,
a column), trailers and mail headers (`Signed-off-by:`, `Name <address>`), titles and greetings
(`Herr …`, `Dear …,`), and sentences that introduce somebody (`my name is …`) or describe them
(`…, born on …`).

Owns the rule; each place where names stand is a module of its own, and `person_names` judges the
words. No language model: a name outside such places is the business of `ner`. Invariant: pure and
linear, bounded work for every trigger. Called by the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from gateway.redaction.detectors.base import HIDDEN, Rule, Source, Triggers
from gateway.redaction.detectors.cued_names import CUE_NAMES, cued_names
from gateway.redaction.detectors.described_names import TRIGGERS as DESCRIBED
from gateway.redaction.detectors.described_names import described_names
from gateway.redaction.detectors.directory_names import (
    DIRECTORY,
    FHIR,
    directory_names,
    resource_names,
)
from gateway.redaction.detectors.eastern import EASTERN_FIELDS, eastern_names
from gateway.redaction.detectors.gatherings import TRIGGERS as GATHERINGS
from gateway.redaction.detectors.gatherings import gathered
from gateway.redaction.detectors.mail_names import TRAILER_HEADS, mailed_names, trailer_names
from gateway.redaction.detectors.person_fields import PERSON_FIELDS, PLACES, field_names
from gateway.redaction.detectors.person_names import LONGEST, is_name
from gateway.redaction.policy import Policy
from gateway.redaction.spans import Span


class PeopleRule(Rule):
    """Finds the names of people."""

    KINDS: ClassVar = ("NAME",)

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(
            literals=(
                "@",
                HIDDEN,
                *TRAILER_HEADS,
                *PERSON_FIELDS.names,
                *CUE_NAMES,
                *DIRECTORY,
                *GATHERINGS,
                *DESCRIBED,
                *FHIR,
                *EASTERN_FIELDS,
            )
        )

    def spans(self, source: Source) -> Iterator[Span]:
        """Look behind fields, titles, greetings and introductions, and before addresses."""
        text = source.text
        if "@" in text or HIDDEN in text:
            yield from mailed_names(text)
        yield from trailer_names(source)
        yield from field_names(source)
        yield from cued_names(source)
        yield from directory_names(source)
        yield from resource_names(source)
        yield from gathered(source)
        yield from described_names(source)
        yield from eastern_names(text)

    def value_spans(self, key: str, value: str, *, beside: str = "") -> Iterator[Span]:
        """The whole `value` when `key` is the name of a person's field."""
        if not 2 <= len(value) <= LONGEST:
            return
        for label in PERSON_FIELDS.find(Source(key[-LONGEST:])):
            place = PLACES[label.values[0].rule]
            if label.end == len(key[-LONGEST:]) and is_name(value, place, beside=beside):
                yield Span(0, len(value), "NAME", 0.8, "field")
                return
