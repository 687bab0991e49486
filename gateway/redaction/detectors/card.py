"""Payment card numbers: digit groups as cards are written, an issuer's prefix, the Luhn digit.

All three must hold, so that timestamps in milliseconds, ids and longer numbers stay. Issuer ranges:
ISO/IEC 7812 as published by the networks, with Mastercard's 2-series (2221-2720).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from stdnum import luhn

from gateway.redaction.detectors.base import HIDDEN, Rule, Source, Triggers
from gateway.redaction.spans import Span

#: A run of digit groups, as long as people write rows of them. Letters of scripts that write no
#: blanks between words may touch it.
_RUN: Final = re.compile(
    r"\d(?<![A-Za-z0-9_]\d)(?<![A-Za-z0-9_]\.\d)\d{0,18}"
    r"(?:(?:[ ]{1,2}|[.\u00a0\u202f-]|[ ]-[ ])\d{1,7}){0,60}(?![A-Za-z\d_])"
)
_LINE: Final = r"[ \-]?\r?\n[ \t>|#*/]{0,8}"
#: Four groups with a line's end between two of them, and no other number beside them.
_BROKEN: Final = re.compile(
    rf"\d{{4}}(?<![\w.\-]\d{{4}})(?<!\d[ ]\d{{4}})(?:[ \-]\d{{4}}[ \-]\d{{4}}{_LINE}\d{{4}}"
    rf"|[ \-]\d{{4}}{_LINE}\d{{4}}[ \-]\d{{4}}|{_LINE}\d{{4}}[ \-]\d{{4}}[ \-]\d{{4}})"
    r"(?![\w]|[ \-]\d|[.,]\d|\r?\n[ \t]{0,8}\d{4}\b)",
    re.ASCII,
)

#: How issuers group the digits in print; an ungrouped number is one group.
_GROUPINGS: Final = frozenset(
    {(4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3), (4, 4, 4, 3), (4, 4, 4, 1), (4, 4, 5),
     (4, 4, 4), (6, 13), (8, 8), (4, 5, 6), (4, 4, 4, 4, 2), (4, 4, 4, 4, 1), (4, 4, 4, 2)}
)  # fmt: skip

#: Every way such a grouping may begin.
_BEGINNINGS: Final = frozenset(sizes[:n] for sizes in _GROUPINGS for n in range(1, len(sizes) + 1))

#: (first prefix, last prefix, lengths); prefixes compared on as many digits as they have.
_ISSUERS: Final = (
    (4, 4, (13, 16, 19)),  # Visa
    (51, 55, (16,)),  # Mastercard
    (2221, 2720, (16,)),  # Mastercard 2-series
    (34, 34, (15,)),  # American Express
    (37, 37, (15,)),
    (300, 305, (14,)),  # Diners Club
    (3095, 3095, (14,)),
    (36, 36, (14, 16, 19)),
    (38, 39, (14, 16, 19)),
    (6011, 6011, (16, 19)),  # Discover
    (622126, 622925, (16, 19)),
    (644, 649, (16, 19)),
    (65, 65, (16, 19)),
    (62, 62, (16, 17, 18, 19)),  # UnionPay
    (3528, 3589, (16, 17, 18, 19)),  # JCB
    (1800, 1800, (15,)),
    (2131, 2131, (15,)),
    (2200, 2204, (16, 17, 18, 19)),  # Mir
    (5018, 5018, (12, 13, 14, 15, 16, 17, 18, 19)),  # Maestro
    (5020, 5020, (12, 13, 14, 15, 16, 17, 18, 19)),
    (5038, 5038, (12, 13, 14, 15, 16, 17, 18, 19)),
    (5893, 5893, (12, 13, 14, 15, 16, 17, 18, 19)),
    (6304, 6304, (12, 13, 14, 15, 16, 17, 18, 19)),
    (6759, 6759, (12, 13, 14, 15, 16, 17, 18, 19)),
    (6761, 6763, (12, 13, 14, 15, 16, 17, 18, 19)),
    (508500, 508999, (16,)),  # RuPay
    (606985, 607984, (16,)),
    (608001, 608500, (16,)),
    (652150, 653149, (16,)),
    (9792, 9792, (16,)),  # Troy
    (636368, 636368, (16,)),  # Elo
    (636297, 636297, (16,)),
)
_LONGEST: Final = 19
_SHORTEST: Final = 12


class CardRule(Rule):
    """Finds payment card numbers."""

    KINDS: ClassVar = ("CARD",)

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(digits=_SHORTEST)

    def spans(self, source: Source) -> Iterator[Span]:
        """Look at every run of digit groups."""
        if not source.may_hold_digits(_SHORTEST):
            return
        judged: dict[str, tuple[bool, bool]] = {}
        for run in _RUN.finditer(source.text):
            if run.end() - run.start() >= _SHORTEST:
                yield from _in_run(source.text, run.start(), run.end(), judged)
            if source.text[run.end() : run.end() + 1] in ("\n", "\r"):
                broken = _BROKEN.match(source.text, run.start())
                if broken is not None and is_card("".join(_GROUP.findall(broken.group()))):
                    yield Span(*broken.span(), "CARD", 0.95, "card")


def _in_run(
    text: str, start: int, end: int, judged: dict[str, tuple[bool, bool]]
) -> Iterator[Span]:
    """A card may have neighbors (`4242 4242 4242 4242 12/27`): any group may be first. `judged`
    remembers numbers within one text, where rows repeat them."""
    groups = [(m.start(), m.end()) for m in _GROUP.finditer(text, start, end)]
    if sum(last - first for first, last in groups) < _SHORTEST:
        return
    if len(groups) >= _SHORTEST_SPACED and all(last - first == 1 for first, last in groups):
        yield from _spaced(text, start, groups[-1][1])
        return
    named: bool | None = None
    first = 0
    while first < len(groups):
        found = None
        sizes: tuple[int, ...] = ()
        digits = ""
        for index in range(first, len(groups)):
            at, to = groups[index]
            sizes += (to - at,)
            if sizes not in _BEGINNINGS and index > first:
                break
            digits += text[at:to]
            if len(digits) > _LONGEST:
                break
            if len(digits) < _SHORTEST or (index > first and sizes not in _GROUPINGS):
                continue
            if digits not in judged:
                judged[digits] = (is_card(digits), is_card(digits, named=True))
            issued, any_issuer = judged[digits]
            if any_issuer and not issued and named is None:
                named = _is_named(text, start)
            if issued or (any_issuer and named):
                found = index
        if found is None:
            first += 1
            continue
        span = Span(groups[first][0], groups[found][1], "CARD", 0.95, "card")
        if not _is_number_in_code(text, span):
            yield span
        first = found + 1


def _spaced(text: str, start: int, end: int) -> Iterator[Span]:
    """`4 5 3 9 …`: a row of digits is only a card's when it is all of the row."""
    digits = "".join(_GROUP.findall(text, start, end))
    if is_card(digits) and (len(set(digits)) >= _SPACED_KINDS or _is_named(text, start)):
        yield Span(start, end, "CARD", 0.9, "card-spaced")


_GROUP: Final = re.compile(r"\d+")
_SHORTEST_SPACED: Final = 14
_SPACED_KINDS: Final = 5


#: With such a word before it, a number needs no known issuer.
_WORDS: Final = re.compile(
    r"(?:card|credit|debit|\bcc\b|visa|amex|maestro|\bpan\b|karte|carte|tarjeta|carta)"
    rf"[^\r\n{HIDDEN}]*\Z",
    re.IGNORECASE,
)
_REACH: Final = 40


def is_card(digits: str, *, named: bool = False) -> bool:
    """Whether an issuer gives out such a number (prefix, length) and its check digit holds; `named`
    numbers stand behind a word for a card, and any issuer will do."""
    size = len(digits)
    if not _SHORTEST <= size <= _LONGEST or len(set(digits)) < 2 or not luhn.is_valid(digits):
        return False
    if named:
        return True
    return any(
        size in lengths and low <= int(digits[: len(str(low))]) <= high
        for low, high, lengths in _ISSUERS
    )


def _is_named(text: str, at: int) -> bool:
    return _WORDS.search(text, max(0, at - _REACH), at) is not None


def _is_number_in_code(text: str, span: Span) -> bool:
    """`x = 4005415423578`: of the old 13-digit form one number in a hundred passes as a card."""
    if span.end - span.start != _OLD_VISA or _is_named(text, span.start):
        return False
    if _ARTICLE.search(text, max(0, span.start - _ARTICLE_REACH), span.start):
        return True
    return text[max(0, span.start - 3) : span.start].rstrip()[-1:] in ("=", "(", "<", ">", "+", "*")


#: Numbers of goods have 13 digits too.
_ARTICLE: Final = re.compile(r"\b(?:ean|gtin|upc|isbn|barcode|jan)\W*(?:13)?\W*\Z", re.IGNORECASE)
_ARTICLE_REACH: Final = 14
_OLD_VISA: Final = 13
