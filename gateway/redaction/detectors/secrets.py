"""Secrets by what they are called or where they stand: assignments in any syntax, `Bearer` and
`Basic` headers, passwords in URLs.

A name ends in a word for a secret (`DB_PASSWORD`, `refresh_token`, `x-api-key`); its value is
judged: code (`get_token()`, `os.environ[...]`, `None`), placeholders (`${VAR}`, `<password>`, the
policy's list) and sentences are left alone, everything a person or a generator would use as a
secret is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from gateway.redaction.detectors import codes as numbers
from gateway.redaction.detectors import commands as programs
from gateway.redaction.detectors import filled as typed
from gateway.redaction.detectors import handed as lists
from gateway.redaction.detectors import headers as fields
from gateway.redaction.detectors import logins as pairs
from gateway.redaction.detectors import manifests, names, phrases, tables, urls
from gateway.redaction.detectors import mocked as doubles
from gateway.redaction.detectors import spoken as speech
from gateway.redaction.detectors import told as telling
from gateway.redaction.detectors.assignments import Assignments
from gateway.redaction.detectors.base import Rule, Source, Triggers
from gateway.redaction.detectors.codes import codes
from gateway.redaction.detectors.commands import commands
from gateway.redaction.detectors.filled import filled
from gateway.redaction.detectors.handed import HANDED, handed, is_handed_secret, is_telling
from gateway.redaction.detectors.headers import cookies, headers
from gateway.redaction.detectors.logins import logins
from gateway.redaction.detectors.manifests import manifest_secrets
from gateway.redaction.detectors.mocked import mocked
from gateway.redaction.detectors.names import is_any_secret_name
from gateway.redaction.detectors.phrases import phrases_in
from gateway.redaction.detectors.spoken import spoken
from gateway.redaction.detectors.tables import table_secrets
from gateway.redaction.detectors.told import told
from gateway.redaction.detectors.urls import passwords, queries
from gateway.redaction.detectors.values import SCHEME, Judge
from gateway.redaction.policy import Policy
from gateway.redaction.spans import Span

_TRIGGERS: Final = tuple(
    trigger
    for part in (
        names,
        fields,
        urls,
        speech,
        programs,
        manifests,
        tables,
        lists,
        phrases,
        typed,
        telling,
        pairs,
        numbers,
        doubles,
    )
    for trigger in part.TRIGGERS
)


class SecretRule(Rule):
    """Finds secrets by name and place."""

    KINDS: ClassVar = ("SECRET",)

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._judge = Judge(policy.allowed.placeholders)
        self._assignments = Assignments(self._judge)

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(literals=_TRIGGERS)

    def spans(self, source: Source) -> Iterator[Span]:
        """Look behind every name, every authorization scheme, and into every URL."""
        yield from self._assignments.spans(source)
        yield from headers(source)
        yield from cookies(source)
        yield from queries(source)
        yield from spoken(source, self._judge)
        yield from logins(source, self._judge)
        yield from codes(source)
        yield from commands(source, self._judge)
        yield from passwords(source.text, self._judge)
        yield from manifest_secrets(source, self._judge)
        yield from table_secrets(source, self._judge)
        yield from handed(source, self._judge)
        yield from phrases_in(source)
        yield from filled(source)
        yield from mocked(source, self._judge)
        yield from told(source, self._judge)

    def value_spans(self, key: str, value: str) -> Iterator[Span]:
        """The whole `value` when `key` is a secret's name and the value can be one."""
        head, sign, own = key.partition(HANDED)
        name = own.strip()[-100:] if sign else key.strip()[-100:]
        word = value.strip()
        if is_telling(head) and is_handed_secret(self._judge, head[-64:], own, word):
            start = len(value) - len(value.lstrip())
            yield Span(start, start + len(word), "SECRET", 0.8, "handed")
        if value and is_any_secret_name(name) and self._judge.is_secret(name, value, quoted=True):
            start = len(value) - len(value.lstrip())
            scheme = SCHEME.match(value, start)
            yield Span(
                scheme.end() if scheme else start, len(value.rstrip()), "SECRET", 0.8, "named-value"
            )
