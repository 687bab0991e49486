"""Phone numbers: international ones by their `+`, national ones by how they are written or what
stands around them.

A run of digit groups is looked at only when it has the shape of a phone number: a country code; an
area code in parentheses; North American or trunk-zero grouping; or words (`phone`, `call … on`,
`fax`) or an e-mail address beside it. `phonenumbers` judges what the shape leaves open. Left alone:
dates, times, versions, identifiers, hexadecimal, epoch times, amounts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

import phonenumbers

from gateway.redaction.detectors.base import Rule, Source
from gateway.redaction.spans import Span

#: One number as written: groups of digits with at most two separators between them.
_RUN: Final = re.compile(
    r"(?<![\w+.$€£#@\\])(?P<plus>\+|00(?=[1-9]))?(?P<rest>\(?\d{1,15}\)?"
    r"(?:[ \u00a0.\-/]{1,2}\(?\d{1,12}\)?|\(\d{1,5}\)[ \u00a0.\-/]?\d{1,12}|(?<=\))\d{1,12}){0,7})"
    r"(?P<ext>[ ,]{0,2}(?:x|ext\.? ?|#)\d{1,6})?",
    re.ASCII,
)
_FEWEST: Final = 7
_MOST: Final = 15

_NANP: Final = re.compile(
    r"(?:(?:001|1)[ .\-]?)?(?:\([2-9]\d\d\) ?|[2-9]\d\d(?P<sep>[.\- ]))\d{3}"
    r"(?(sep)(?P=sep)|[.\- ])\d{4}"
)
#: A trunk zero and groups: `01 76 42 87 03`, `(06712) 635593`, `07150 21107`, `030/1234567`.
_TRUNK: Final = re.compile(
    r"\(0\d{1,5}\)[ ]?\d{2,8}(?:[ \-]\d{2,8}){0,3}"
    r"|0[1-9](?:[ .\-]\d\d){4}"
    r"|0\d{2,5}[ \-/]\d{3,8}(?:[ \-]\d{2,6}){0,3}"
)
_ZIP_CODE: Final = re.compile(r"\d{5}-\d{4}")  # `Boston, MA 02110-1301`
_DATE: Final = re.compile(
    r"(?:19|20)\d\d([-/. ])\d{1,2}\1\d{1,2}(?:\D|\Z)"
    r"|\d{1,2}([-/.])\d{1,2}\2(?:(?:19|20)\d\d(?:\D|\Z)|\d\d\Z)"
)

_WORDS: Final = re.compile(
    r"(?:phone|mobile|\bmob\b|\bcell|\btel\b|\btel[.:]|telef|t[ée]l[ée]phone|\bfax|\bcall|\bdial|\bsms\b|"
    r"whats ?app|\bhandy\b|\bhotline|\bm[óo]vil|cellulare|portable|\breach|\bring\b|\bcontact|"
    r"\bmessages? (?:on|to|at)\b|\bregistered|\btext (?:me|him|her|us|them)|\bdesk:|\boffice:|"
    r"\bvoicemail|"
    r"\bfono|\bnumero\b|rufnummer|\btelnr|msisdn|\bpager|\bhome:|\bwork:|\bnummer:)"
    r"[^\d\r\n]{0,28}(?:\r?\n[ \t]{0,8})?\Z",
    re.IGNORECASE,
)
_WORDS_AFTER: Final = re.compile(
    r"(?:[ \t]{0,2}[-(]?[ \t]?(?:fax|mobile|office|cell|phone|home|work|tel|desk|direct)\b)",
    re.IGNORECASE,
)
_REACH: Final = 52
#: The field before in a row of a table: an e-mail address ends right here.
_EMAIL_BEFORE: Final = re.compile(r"@[\w.\-]{3,60}['\"]?[ \t]{0,2}[,;|\t][ \t]{0,2}['\"]?\Z")
_EMAIL_REACH: Final = 72

#: Where nationally written numbers are tried: EU, EFTA, UK, US/CA and large neighbors.
_REGIONS: Final = [
    "US",
    "GB",
    "DE",
    "FR",
    "IT",
    "ES",
    "NL",
    "PL",
    "BE",
    "AT",
    "CH",
    "SE",
    "DK",
    "NO",
    "FI",
    "PT",
    "IE",
    "GR",
    "CZ",
    "HU",
    "RO",
    "BG",
    "HR",
    "SK",
    "SI",
    "LT",
    "LV",
    "EE",
    "LU",
    "CY",
    "MT",
    "IS",
    "AU",
    "NZ",
    "ZA",
    "BR",
    "IN",
    "MX",
    "TR",
]


class PhoneRule(Rule):
    """Finds phone numbers."""

    KINDS: ClassVar = ("PHONE",)

    def spans(self, source: Source) -> Iterator[Span]:
        """Look at every run of digit groups."""
        text = source.text
        for run in _RUN.finditer(text):
            start, end = run.span()
            if end - start < _FEWEST:
                continue
            score = _score(text, run)
            if score:
                yield Span(start, end, "PHONE", score, "phone")
            elif sum(c.isdigit() for c in run.group()) > _MOST - 4:
                yield from _among_neighbors(text, run)


def _among_neighbors(text: str, run: re.Match[str]) -> Iterator[Span]:
    """A number with other numbers beside it, as in a row of columns: try it without them."""
    spaces = [i for i in range(run.start(), run.end()) if text[i] in " \u00a0"]
    start = run.start()
    for end in reversed(spaces):
        part = _RUN.match(text, start, end)
        if part is not None and part.end() == end and _score(text, part):
            yield Span(start, end, "PHONE", 0.6, "phone")
            return
    for space in spaces:
        for shape in (_NANP, _TRUNK):
            match = shape.match(text, space + 1, run.end())
            if match is not None and not text[match.end() : match.end() + 1].isalnum():
                yield Span(match.start(), match.end(), "PHONE", 0.6, "phone")
                return


def _score(text: str, run: re.Match[str]) -> float:
    """How sure we are that this run is a phone number; 0 for not at all."""
    written = run["rest"]
    digits = "".join(c for c in written if c.isdigit())
    if not _FEWEST <= len(digits) <= _MOST or _joined(text, run) or len(set(digits)) < 3:
        return 0.0
    plus = run["plus"]
    if plus == "+":
        return 0.8 if _international(digits, written) else 0.0
    if plus and _is_valid(digits):
        return 0.8
    written, digits = (plus or "") + written, (plus or "") + digits
    if _DATE.match(written):
        return 0.0
    if _NANP.fullmatch(written):
        return 0.7
    if _ZIP_CODE.fullmatch(written):
        return 0.0
    if _TRUNK.fullmatch(written) and 9 <= len(digits) <= 12 and _stands_alone(text, run):
        return 0.65
    return _by_context(text, run, written, digits)


def _joined(text: str, run: re.Match[str]) -> bool:
    """Part of something longer: an identifier, a decimal, a time, a GUID."""
    start, end = run.span()
    if _GOES_ON.match(text, end):
        return True
    before = text[max(0, start - 2) : start]
    return len(before) == 2 and before[1] in ".:-/," and before[0].isdigit()


_GOES_ON: Final = re.compile(r"\w|[+%]|[.:/]\d|-(?:\d|[0-9a-fA-F]{4}(?![a-zA-Z]))")


def _international(digits: str, written: str) -> bool:
    """A number with its country code; a decimal with a sign is none."""
    if "." in written and re.search(r"\.\d(?:\D|\Z)", written):
        return False
    if "(0)" in written:
        digits = "".join(c for c in written.replace("(0)", "", 1) if c.isdigit())
    try:
        number = phonenumbers.parse("+" + digits, None)
    except phonenumbers.NumberParseException:
        return False
    return phonenumbers.is_possible_number(number) and len(digits) >= 8


def _is_valid(digits: str) -> bool:
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse("+" + digits, None))
    except phonenumbers.NumberParseException:
        return False


def _stands_alone(text: str, run: re.Match[str]) -> bool:
    """Not one of many numbers in a row (a hex dump, a matrix)."""
    before = text[max(0, run.start() - 6) : run.start()].rstrip()
    after = text[run.end() : run.end() + 6].lstrip()
    return not before[-1:].isdigit() and not after[:1].isdigit()


def _by_context(text: str, run: re.Match[str], written: str, digits: str) -> float:
    start, end = run.span()
    spoken = _WORDS.search(text, max(0, start - _REACH), start) is not None or (
        _WORDS_AFTER.match(text, end) is not None
    )
    beside = not spoken and _EMAIL_BEFORE.search(text, max(0, start - _EMAIL_REACH), start)
    if not spoken and not beside:
        return 0.0
    if len(digits) > 13 or (len(digits) in (10, 13) and digits == written and digits[0] == "1"):
        return 0.0  # epoch seconds and milliseconds
    if digits == written and len(digits) < 8:
        return 0.0
    if beside:
        return 0.55 if _possible(digits) else 0.0
    return 0.6


def _possible(digits: str) -> bool:
    """Whether some region we know gives out such a number."""
    for region in _REGIONS:
        try:
            if phonenumbers.is_possible_number(phonenumbers.parse(digits, region)):
                return True
        except phonenumbers.NumberParseException:
            continue
    return False
