"""Bank account numbers (IBAN): country, its length, and the check digits (ISO 13616, mod 97).

Written together or in groups, in capitals or not. The check digits are python-stdnum's; a chip's
part number that begins like an IBAN fails them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from stdnum.iso7064 import mod_97_10

from gateway.redaction.detectors.base import Rule, Source
from gateway.redaction.spans import Span

#: Length by country: SWIFT IBAN registry.
_LENGTHS: Final = {
    code: int(size)
    for size, codes in {
        "15": "NO", "16": "BE", "18": "DK FK FO FI GL NL SD", "19": "MK SI", "20": "AT BA EE KZ LT "
        "LU MN XK", "21": "CH HR LI LV", "22": "BG BH CR DE GB GE IE ME RS VA", "23": "AE GI IL IQ "
        "OM SO TL", "24": "AD CZ ES MD PK RO SA SE SK TN VG", "25": "LY PT ST", "26": "IS TR",
        "27": "BI DJ FR GR IT MC MR SM", "28": "AL AZ BY CY DO GT HN HU LB NI PL SV", "29": "BR EG "
        "PS QA UA", "30": "JO KW MU YE", "31": "MT SC", "32": "LC", "33": "RU",
    }.items()
    for code in codes.split()
}  # fmt: skip

_START: Final = re.compile(r"(?<![^\W_])[A-Za-z]{2}\d{2}(?=[ -]?[A-Za-z0-9])")
_GROUP_BREAK: Final = " -\u00a0"


class IbanRule(Rule):
    """Finds IBANs."""

    KINDS: ClassVar = ("IBAN",)

    def spans(self, source: Source) -> Iterator[Span]:
        """Look at everything that begins like an IBAN of a country that has them."""
        text = source.text
        for start in _START.finditer(text):
            size = _LENGTHS.get(start.group()[:2].upper())
            if size is not None:
                end = _end_of(text, start.start(), size)
                if end is not None:
                    yield Span(start.start(), end, "IBAN", 0.99, "iban")


def _end_of(text: str, start: int, size: int) -> int | None:
    """Where `size` letters and digits from `start` end, if they are a valid number."""
    compact: list[str] = []
    at = start
    broken = False
    while len(compact) < size:
        c = text[at : at + 1]
        if c.isascii() and c.isalnum():
            compact.append(c.upper())
            broken = False
        elif c and c in _GROUP_BREAK and not broken:
            broken = True
        else:
            return None
        at += 1
    after = text[at : at + 1]
    if after.isalnum():
        return None
    number = "".join(compact)
    return at if mod_97_10.is_valid(number[4:] + number[:4]) else None
