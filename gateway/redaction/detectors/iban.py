"""Bank account numbers (IBAN): country, its length, and the check digits (ISO 13616, mod 97).

Written together or in groups, in capitals or not. The check digits are python-stdnum's; a chip's
part number that begins like an IBAN fails them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import ClassVar, Final

from stdnum import numdb
from stdnum.iso7064 import mod_97_10

from gateway.redaction.detectors.base import Rule, Source, Triggers
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

_START: Final = re.compile(  # from the check digits, which are rarer than letters
    r"\d\d(?:(?<=[A-Za-z]{2}\d\d)(?<![^\W_][A-Za-z]{2}\d\d)(?=[ \u00a0.\r\n>-]{0,6}[A-Za-z0-9])"
    r"|(?<=[A-Z]{2}[ ]\d\d)(?<![^\W_][A-Z]{2}[ ]\d\d)(?=[ ][A-Z0-9]{4}[ ]))",  # `GB 29 NWBK 6016 …`
    re.ASCII,
)
#: What follows the check digits, by how many characters it has: together or with blanks or the end
#: of a line between, or in groups of four with another sign.
_BODIES: Final = {
    size: re.compile(
        rf"(?:(?:[ \u00a0]{{0,2}}+(?:\r?\n[ \t>|#*/]{{0,8}}+)?+[A-Za-z0-9]){{{size - 4}}}"
        rf"|(?:(?:[.\-]|[ ]-[ ])[A-Za-z0-9]{{4}}){{{(size - 4) // 4}}}"
        + (rf"(?:[.\-]|[ ]-[ ])[A-Za-z0-9]{{{(size - 4) % 4}}}" if size % 4 else "")
        + r")(?![A-Za-z0-9])"
    )
    for size in set(_LENGTHS.values())
}
_SEPARATORS: Final = {ord(c): None for c in " -.\u00a0\r\n\t>|#*/"}
_CLASSES: Final = {"n": "[0-9]", "a": "[A-Z]", "c": "[A-Z0-9]"}


class IbanRule(Rule):
    """Finds IBANs."""

    KINDS: ClassVar = ("IBAN",)

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(digits=2)

    def spans(self, source: Source) -> Iterator[Span]:
        """Look at everything that begins like an IBAN of a country that has them."""
        if not source.may_hold(b"xx00", b"xx 00"):
            return
        text = source.text
        judged: dict[str, bool] = {}
        for start in source.at_digits(_START):
            first = start.start() - (2 if text[start.start() - 1] != " " else 3)
            country = text[first : first + 2].upper()
            size = _LENGTHS.get(country)
            if size is None:
                continue
            body = _BODIES[size].match(text, start.end())
            if body is None:
                continue
            number = text[first : body.end()].translate(_SEPARATORS).upper()
            if number not in judged:
                judged[number] = _is_valid(country, number)
            if judged[number]:
                yield Span(first, body.end(), "IBAN", 0.99, "iban")


def _is_valid(country: str, number: str) -> bool:
    """The country's own structure first: it is cheaper to test than the check digits."""
    return _structure(country).fullmatch(number, 4) is not None and mod_97_10.is_valid(
        number[4:] + number[:4]
    )


@cache
def _structure(country: str) -> re.Pattern[str]:
    """The country's account number, from python-stdnum's copy of the registry (`8!n10!n`)."""
    (_, found), *_ = numdb.get("iban").info(country)
    parts = re.findall(r"(\d+)!([nac])", found.get("bban", ""))
    return re.compile("".join(f"{_CLASSES[kind]}{{{size}}}" for size, kind in parts) or "[A-Z0-9]+")
