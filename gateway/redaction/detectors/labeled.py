"""Values that count where a text names them: national ids, tax numbers, passports, dates of birth,
numbers of health care.

Owns nothing but the list of such values and the walk over their names; each module of the list
owns its values' forms and validators. Invariant: one pass over the text for all names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from gateway.redaction.detectors import (
    birthdates,
    health,
    national_ids,
    passports,
    phone,
    postal,
    vat,
    wallets,
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
from gateway.redaction.policy import Policy
from gateway.redaction.spans import Span

VALUES: Final = (
    *national_ids.VALUES,
    *vat.VALUES,
    *passports.VALUES,
    *birthdates.VALUES,
    *health.VALUES,
    *wallets.VALUES,
    *phone.VALUES,
    *postal.VALUES,
)


class LabeledRule(Rule):
    """Finds values beside their names."""

    KINDS: ClassVar = tuple(dict.fromkeys(value.kind for value in VALUES))

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._labels = Labels(VALUES)

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(literals=self._labels.names)

    def spans(self, source: Source) -> Iterator[Span]:
        """Look near, right behind, and below every name."""
        text = source.text
        labels: list[Label] = list(self._labels.find(source))
        named: dict[str, tuple[Value, list[Label]]] = {}
        for label in labels:
            starts: tuple[int, ...] | None = None
            for value in label.values:
                if value.reach is Reach.NEAR:
                    named.setdefault(value.rule, (value, []))[1].append(label)
                elif value.reach is Reach.NEXT:
                    starts = value_starts(text, label) if starts is None else starts
                    for start, end in following(text, starts, value):
                        yield Span(start, end, value.kind, value.score, value.rule)
        for value, its in named.values():
            for start, end in near(text, its, value):
                yield Span(start, end, value.kind, value.score, value.rule)
        if "\n" not in text and "values" not in source.folded:
            return
        for value, start, end in columns(text, labels):
            match = value.form.match(text, start, end)
            if match is not None and match.end() == end and value.is_valid(match.group()):
                yield Span(start, end, value.kind, value.score, value.rule)
