"""Runs every rule over a text and settles what they disagree on.

Owns the list of rules, the order in which a tie is settled, and the treatment of tokens that are
already in the text. Invariant: the spans handed out are sorted, do not overlap, and touch no token.
Called by `redactor` through `find` and `find_value`, in scanning workers.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from gateway.redaction.detectors.addresses import AddressRule
from gateway.redaction.detectors.base import HIDDEN, Rule, Source
from gateway.redaction.detectors.card import CardRule
from gateway.redaction.detectors.email import EmailRule
from gateway.redaction.detectors.escapes import read_through
from gateway.redaction.detectors.handed import HANDED
from gateway.redaction.detectors.iban import IbanRule
from gateway.redaction.detectors.ip import IpRule
from gateway.redaction.detectors.keys import PrivateKeyRule
from gateway.redaction.detectors.labeled import LabeledRule
from gateway.redaction.detectors.mac import MacRule
from gateway.redaction.detectors.national_ids import NationalIdRule
from gateway.redaction.detectors.passports import PassportRule
from gateway.redaction.detectors.people import PeopleRule
from gateway.redaction.detectors.phone import PhoneRule
from gateway.redaction.detectors.prefilter import SHORT, Prefilter
from gateway.redaction.detectors.providers import ProviderKeyRule
from gateway.redaction.detectors.secrets import SecretRule
from gateway.redaction.detectors.segments import SegmentRule
from gateway.redaction.detectors.ssn import SsnRule
from gateway.redaction.detectors.terms import TermRule
from gateway.redaction.detectors.values import holds_secret
from gateway.redaction.detectors.vat import VatRule
from gateway.redaction.detectors.wallets import WalletRule
from gateway.redaction.plugins import digest, load_own
from gateway.redaction.policy import Policy
from gateway.redaction.spans import Span, cut_out, resolve
from gateway.redaction.tokens import WRITTEN

#: Part of every cache key: change it with any change of any rule.
RULES_VERSION: Final = "17"

RULES: Final[tuple[type[Rule], ...]] = (
    PrivateKeyRule,
    ProviderKeyRule,
    SecretRule,
    IbanRule,
    CardRule,
    SsnRule,
    EmailRule,
    PhoneRule,
    IpRule,
    LabeledRule,
    NationalIdRule,
    VatRule,
    PassportRule,
    MacRule,
    WalletRule,
    AddressRule,
    SegmentRule,
    PeopleRule,
    TermRule,
)

#: These know how their values are quoted and see the text as it is; others read through escapes.
_RAW: Final = (PrivateKeyRule, SecretRule)

#: Ways of writing a character that even those rules do not know as a way of quoting.
#: In plain text every branch begins with a letter of its own, which is found many times faster.
_CODED_PLAIN: Final = re.compile(
    r"%[2-7][0-9a-fA-F]|%0[aAdD]|&(?:#[0-9xX]|[a-zA-Z]{2,7};)|\\(?:u00|x)[2-7]|\x1b\["
    r"|\\(?:u001[bB]|x1[bB]|033|e)\[|\\u(?:00[aA][dD]|20[06]|[fF][eEfF])|quoted-printable"
)
_CODED: Final = re.compile(
    _CODED_PLAIN.pattern
    + r"|[\u00ad\u034f\u061c\u180e\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff"
    r"\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]"
)
#: With what all of them begin in plain text but the name of a mail's encoding.
_CODED_SIGNS: Final = (b"%", b"&", b"\\", b"\x1b")
#: A sign for a hundredth may also stand before a card's own digits: `%4012 …` is no `@12 …`.
_PERCENT_NUMBER: Final = re.compile(r"%\d{4}")

#: Digits of an identifier are no number of a person's.
_UUID: Final = re.compile(
    r"(?<![0-9A-Za-z])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![0-9A-Za-z])"
)
_UUID_SIZE: Final = 36
_ADDRESSES: Final = frozenset({"CARD", "IBAN", "PHONE", "SSN", "IP", "EMAIL"})
_NUMBERS: Final = frozenset(
    {"CARD", "IBAN", "PHONE", "SSN", "NATIONAL_ID", "TAXID", "AMKA", "VAT", "HEALTH", "MAC"}
)

#: Longest value and name that are read together: `{"phone": "0161 4960974"}`.
_NAMED_VALUE: Final = 80
_BETWEEN_WORDS: Final = re.compile(r"[_.\-]|(?<=[a-z])(?=[A-Z])")


#: Every rule is asked.
_ALL: Final = -1

#: Longer texts are read in parts of this many characters, because what is known of a text while it
#: is read takes many times its own memory; each part with so much of what is beside it that nothing
#: across its borders is missed.
PART: Final = 4 << 20
_BESIDE: Final = 64 << 10


class Detector:
    """All rules of one policy. Texts of up to `short` characters are shown only to the rules that
    may find something in them; longer ones are read in parts of `part`. Raises PolicyError for an
    operator's recognizer that fails."""

    def __init__(self, policy: Policy, *, short: int = SHORT, part: int = PART) -> None:
        #: Part of every cache key: the rules, and what an operator or a model adds to them.
        self.version = RULES_VERSION
        self._rules = [rule(policy) for rule in RULES]
        self._secrets = next(rule for rule in self._rules if isinstance(rule, SecretRule))
        self._raw = [rule for rule in self._rules if isinstance(rule, _RAW)]
        self._people = next(rule for rule in self._rules if isinstance(rule, PeopleRule))
        self._reading = [rule for rule in self._rules if not isinstance(rule, _RAW)]
        self._terms = next(rule for rule in self._rules if isinstance(rule, TermRule))
        self._cards = next(rule for rule in self._rules if isinstance(rule, CardRule))
        named = (PhoneRule, SsnRule, CardRule, IpRule, MacRule, LabeledRule)
        self._by_context = [rule for rule in self._rules if isinstance(rule, named)]
        self._own = load_own(policy)
        if policy.recognizers_file is not None:
            self.version += f" {digest(policy)}"
        if policy.ner is not None:
            self._read_names(policy)
        if policy.second_opinion:
            self._ask_another(policy)
        self._policy = policy
        self._short = short
        self._part = part
        self._prefilter = Prefilter(self._rules)
        self._bits = {id(rule): self._prefilter.bit(rule) for rule in self._rules}

    def _ask_another(self, policy: Policy) -> None:
        """Add the other scanner for secrets: it reads the text as it is."""
        from gateway.redaction.detectors.second_opinion import SecondOpinionRule

        rule = SecondOpinionRule(policy)
        self._rules.append(rule)
        self._reading.append(rule)
        self.version += f" second-opinion {rule.package_version}"

    def _read_names(self, policy: Policy) -> None:
        """Add the rule that asks a language model: seconds and a hundred megabytes."""
        from gateway.redaction.models import identify
        from gateway.redaction.ner import NameRule

        rule = NameRule(policy)
        self._rules.append(rule)
        self._reading.append(rule)
        self.version += "".join(f" {facts['sha256']}" for facts in identify(policy))

    def find(self, text: str) -> list[Span]:
        """Return what is found in `text`: sorted, apart from each other and from tokens."""
        return self._settle(text, list(self._all(text)))

    def find_value(self, key: str, value: str) -> list[Span]:
        """The same for a string stored under `key`, whose name may say what it is."""
        hidden = _without_tokens(value)
        from_above = self._secrets.value_spans(key, hidden)
        key = key.rpartition(HANDED)[2]
        found = [
            *self._all(value),
            *from_above,
            *self._people.value_spans(key, hidden),
        ]
        if len(value) <= _NAMED_VALUE:
            lead = f"{_BETWEEN_WORDS.sub(' ', key[-_NAMED_VALUE:])}: "
            found += [
                replace(span, start=span.start - len(lead), end=span.end - len(lead))
                for span in self._through_escapes(Source(lead + hidden), self._by_context)
                if span.start >= len(lead)
            ]
        return self._settle(value, found)

    def _all(self, text: str) -> Iterator[Span]:
        if len(text) <= self._part + _BESIDE:
            yield from self._read(text)
            return
        for at in range(0, len(text), self._part):
            first = max(0, at - _BESIDE)
            for span in self._read(text[first : at + self._part + _BESIDE]):
                if at <= span.start + first < at + self._part:
                    yield replace(span, start=span.start + first, end=span.end + first)

    def _read(self, text: str) -> Iterator[Span]:
        """Tokens are hidden from the rules: neither the name of a kind (`[CARD_…]`) nor a token's
        letters may speak for what stands beside it, else a text would change at every turn."""
        if not text:
            return
        own_text, text = text, _without_tokens(text)
        source = Source(text)
        wanted = self._wanted(source)
        for rule in self._raw:
            if wanted & self._bits[id(rule)]:
                yield from rule.spans(source)
        yield from self._through_escapes(
            source, self._rules if _is_coded(source) else self._reading, wanted
        )
        if _PERCENT_NUMBER.search(text):
            yield from self._cards.spans(source)
        if self._terms.is_verbatim:
            yield from self._terms.spans(source)
        for own in self._own:
            yield from own.spans(own_text)

    def _wanted(self, source: Source) -> int:
        return _ALL if len(source.text) > self._short else self._prefilter.wanted(source)

    def _through_escapes(
        self, source: Source, rules: Iterable[Rule], wanted: int | None = None
    ) -> Iterator[Span]:
        """Yield what `rules` find in the text as it will be read, as spans of the text as it is.
        `wanted` is what the prefilter says of the text as it is."""
        reading = read_through(source)
        source = Source(reading.text) if reading else source
        if wanted is None or reading is not None:
            wanted = self._wanted(source)
        if not wanted:
            return
        asked = (
            list(rules)
            if wanted == _ALL
            else [rule for rule in rules if wanted & self._bits[id(rule)]]
        )
        found = [
            span
            for rule in asked
            for span in rule.spans(source)
            if span.kind not in _NUMBERS or not _in_uuid(source.text, span.start)
        ]
        if any(_beside_digits(source.text, span) for span in found if span.kind in _ADDRESSES):
            hidden = Source(_without(source.text, resolve(found)))
            for rule in asked:
                if isinstance(rule, PhoneRule):
                    found += rule.spans(hidden)
        for span in found:
            yield reading.back(span) if reading else span

    def _settle(self, text: str, found: list[Span]) -> list[Span]:
        if not found:
            return found
        overlooks = self._policy.overlooks
        found = [s for s in found if not overlooks(s.kind, s.score, text[s.start : s.end])]
        spans = resolve(found)
        if "[" not in text:
            return spans
        tokens = [match.span() for match in WRITTEN.finditer(text)]
        starts, ends = [start for start, _ in tokens], [end for _, end in tokens]
        pieces: list[Span] = []
        for span in spans:  # only the tokens it touches: a long text may hold thousands of each
            near = tokens[bisect_right(ends, span.start) : bisect_left(starts, span.end)]
            parts = cut_out([span], near, text)
            if near and span.kind == "SECRET":  # its value was replaced before; words follow it
                parts = [part for part in parts if holds_secret(text[part.start : part.end])]
            pieces += parts
        return pieces


def _is_coded(source: Source) -> bool:
    """Whether a character is written in a way that even the rules for quoted values do not know."""
    text = source.text
    if not text.isascii():
        return _CODED.search(text) is not None
    if not source.may_hold(*_CODED_SIGNS):
        return "quoted-printable" in text
    return _CODED_PLAIN.search(text) is not None


def _beside_digits(text: str, span: Span) -> bool:
    """Whether the digits of a number before or behind it could not be told from the value's."""
    near = text[max(0, span.start - 2) : span.start] + text[span.end : span.end + 2]
    return any(c.isdigit() for c in near)


def _without(text: str, spans: list[Span]) -> str:
    """The text with what was found hidden, as tokens are."""
    parts: list[str] = []
    at = 0
    for span in spans:
        parts += (text[at : span.start], HIDDEN * (span.end - span.start))
        at = span.end
    return "".join((*parts, text[at:]))


def _without_tokens(text: str) -> str:
    """The text with every token hidden, at the same offsets."""
    if "[" not in text:
        return text
    return WRITTEN.sub(lambda token: HIDDEN * len(token.group()), text)


def _in_uuid(text: str, at: int) -> bool:
    floor = max(0, at - _UUID_SIZE)
    return any(
        found.start() <= at < found.end() for found in _UUID.finditer(text, floor, at + _UUID_SIZE)
    )
