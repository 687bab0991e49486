"""Addresses told by the code of their place: `Dlouhá 12, 110 00 Praha`, `…, Boise, ID 83702`, and
British postcodes on their own.

Owns how a code and its place are recognized, and where the street before them begins. Invariant:
the search begins at digits, looks a bounded stretch around them, and repeating lines are judged
once. Called by `addresses`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.address_forms import (
    BEFORE_REACH,
    HEAD_NUM,
    MOST_SEEN,
    NOT_A_STREET,
    NUM,
    PLACE,
    SMALL_WORD,
    holds_name,
    is_no_ones,
)
from gateway.redaction.detectors.address_tails import with_tail
from gateway.redaction.detectors.base import Source
from gateway.redaction.detectors.postal import CODE, UK_CODE, UP
from gateway.redaction.spans import Span


def by_place(source: Source) -> Iterator[Span]:
    """Addresses told by the code of their place."""
    text = source.text
    known: dict[tuple[int, str], tuple[int, int, str] | None] = {}
    for hint in source.at_digits(_PLACE_HINT) if source.may_hold(b"00 ") else ():
        at = hint.end()
        window = text[max(0, at - _SEEN_BEFORE) : at + _SEEN_BEHIND]  # lines repeat
        key = min(at, _SEEN_BEFORE), window
        if key not in known or window[-1] in " \t":  # blanks may go on for any length
            if len(known) > MOST_SEEN:
                known.clear()
            span = next(_at_code(text, hint), None)
            known[key] = None if span is None else (span.start - at, span.end - at, span.rule)
        found = known[key]
        if found is not None:
            score = 0.7 if found[2] == _SMALL_PLACE else 0.75
            yield Span(at + found[0], at + found[1], "ADDRESS", score, found[2])
    for match in _US_TAIL.finditer(text) if source.may_hold(b" 00000") else ():
        head = _before_us_tail(text, match)
        if head is not None and not is_no_ones(text, head):
            yield Span(head, match.end(), "ADDRESS", 0.85, "street-zip")
    done = 0
    for match in _PLACE_BEHIND.finditer(text) if source.may_hold(b", 0") else ():
        if match.start() < done:
            continue
        street = _street_of_place(text, match.start())
        if street is not None:
            done = with_tail(text, match.start())
            yield Span(street, done, "ADDRESS", 0.75, "place")
    for match in _UK_SECOND.finditer(text) if source.may_hold(b" 0xx") else ():
        code = _UK_ALONE.search(text, max(0, match.start() - 4), match.end())
        if code is not None:
            yield Span(code.start(), code.end(), "ADDRESS", 0.7, "uk-postcode")


#: What is looked at around the end of a code: a street before it, a place behind it.
_SEEN_BEFORE: Final = 100
_SEEN_BEHIND: Final = 200
_SMALL_PLACE: Final = "street-small"


def _at_code(text: str, hint: re.Match[str]) -> Iterator[Span]:
    """The street and the place around a code that ends with `hint`, if there are any."""
    code = _CODE_AHEAD.search(text, max(0, hint.start() - _CODE_REACH), hint.end())
    if code is None:
        return
    if _HOUSE_AHEAD.search(text, max(0, code.start() - _HOUSE_REACH), code.start()) is None:
        return
    if text[hint.end() + 1].islower():
        yield from _in_small(text, code)
        return
    place = _PLACE_AHEAD.match(text, hint.end())
    street = None if place is None else _street_before_place(text, code, place.end())
    if place is not None and street is not None:
        yield Span(street, place.end(), "ADDRESS", 0.75, "street-place")


#: A code and its place behind a number tell of a street without any word for one:
#: `Ermou 25, 105 63 Athina`.
_PLACE_BEHIND: Final = re.compile(rf",[ ](?=\d)(?<=\w,[ ])(?!(?:19|20)\d\d[ ]){CODE}[ ]{PLACE}")
_STREET_OF_PLACE: Final = re.compile(
    rf"(?<![\w.\-]){UP}[\w'’.\-]{{1,24}}[ ]"
    rf"(?:{UP}[\w'’.\-]{{1,24}}[ ]|{SMALL_WORD}[ ]){{0,3}}{NUM}\Z"
)


def _street_of_place(text: str, at: int) -> int | None:
    street = _STREET_OF_PLACE.search(text, max(0, at - BEFORE_REACH), at)
    if street is None or NOT_A_STREET.search(street.group()) or not holds_name(street.group()):
        return None
    return street.start()


#: From the second half of a code, which is rarer than the capitals of the first.
_UK_SECOND: Final = re.compile(
    r" (?=\d[ABD-HJLNP-UW-Z]{2}(?![\w]|[.\-/]\w))(?<=[A-Z\d] )\d[A-Z]{2}"
)
_UK_ALONE: Final = re.compile(rf"(?<![\w.\-/]){UK_CODE}\Z")
_STATES: Final = (
    "A[KLRSZAEP]|C[AOT]|D[CE]|F[LM]|G[AU]|HI|I[ADLN]|K[SY]|LA|M[ADEHINOPST]|N[CDEHJMVY]|O[HKR]"
    "|P[ARW]|RI|S[CD]|"
    "T[NX]|UT|V[AIT]|W[AIVY]"
)
_US_TAIL: Final = re.compile(rf",[ ](?:{_STATES})[ ]\d{{5}}(?:-\d{{4}})?(?![\w-]|\.\d)")
#: What an address before its `, ST 12345` does not hold.
_US_STOP: Final = re.compile(r"[^\w'’.#\-/ ,\n>]")
_US_NUMBER: Final = re.compile(rf"{HEAD_NUM}\d{{1,6}}[A-Za-z]?[ ](?=[\w.]{{0,12}}[ ]?[\w'’.\-]*)")
_US_REACH: Final = 120
_US_WORDS: Final = 14
_SENTENCE_END: Final = re.compile(r"[a-z]{3}\.[ ]")
_CITY: Final = re.compile(rf"(?<!\w){PLACE}\Z")


def _before_us_tail(text: str, match: re.Match[str]) -> int | None:
    """Where the address ends in `, ST 12345` begins: at its first number, or at the town."""
    floor = max(0, match.start() - _US_REACH)
    line = text.rfind("\n", floor, match.start())
    if line >= 0:  # one line's end may be within it
        floor = max(floor, text.rfind("\n", floor, line) + 1)
    for stop in _US_STOP.finditer(text, floor, match.start()):
        floor = stop.end()
    for number in _US_NUMBER.finditer(text, floor, match.start()):
        between = text[number.end() : match.start()]
        if len(between.split()) <= _US_WORDS and _SENTENCE_END.search(between) is None:
            return number.start()
    city = _CITY.search(text, max(0, match.start() - 60), match.start())
    if city is None:
        return None
    start = city.start()
    return start if _PLACE_CONTEXT.search(text, max(0, start - 12), start) else None


#: The end of a code with its place behind it; searched for from the digits.
_PLACE_HINT: Final = re.compile(
    r"\d\d(?=[ ](?:[A-Za-z]{2}[ ])?[^\W\d_]{3})(?:[ ][A-Za-z]{2}(?=[ ]))?"
)
_CODE_REACH: Final = 24
_HOUSE_AHEAD: Final = re.compile(r"\d[A-Za-z]?\.?,?[ ]?\r?\Z")
_HOUSE_REACH: Final = 6
#: On the line of a street or the next one.
_CODE_AHEAD: Final = re.compile(
    r"(?:,[ ]{1,2}|(?P<line>\n)[ \t>|#*]{0,8})(?P<code>(?:[A-Za-z]{1,2}-)?(?:\d{5}|\d{3}[ ]\d\d"
    r"|\d\d-\d{3}|\d{4}-\d{3}|\d{4}[ ][A-Za-z]{2}|\d{4}|\d{6}))\Z"
)
_PLACE_AHEAD: Final = re.compile(
    rf"[ ]{UP}[^\W\d_]{{2,24}}(?:[ \-](?:{UP}[\w'’.\-]{{0,24}}|{SMALL_WORD}(?=[ '’]))){{0,4}}"
    r"(?:[ ]\d{1,2}(?!\w))?(?=[ \t]*(?:[,.;:!?)\r\n\"'`<|/]|\Z|\\|[ ][^\W\d_A-Z]))"
)
_STREET_AHEAD: Final = re.compile(
    rf"(?P<before>\A|[\n\"'`:;,=>|(\t.]|[ ])[ \t>|#*]{{0,8}}(?P<street>{UP}[^\W\d_]{{2,24}}[.]?"
    rf"(?:[ \-](?:{UP}[\w'’.\-]{{0,24}}|{SMALL_WORD}(?=[ '’])|\d{{1,2}}\.)){{0,4}},?[ ]{NUM}\.?)"
    r",?[ ]?\r?\Z"
)
_STREET_REACH: Final = 56
_ENDS_LINE: Final = re.compile(r"[ \t]*(?:[\r\n\"'`<|,]|\\|\Z)")


def _street_before_place(text: str, match: re.Match[str], place_end: int) -> int | None:
    """Where `Dlouhá 12` before `, 110 00 Praha` begins, a street without a word for one. A number
    of four digits is more often a year, so that the street must have a line of its own."""
    line = match["line"] is not None
    year = len(match["code"]) == _YEAR_SIZE and match["code"] < "2100"
    if year and not line:
        return None
    floor = max(0, match.start() - _STREET_REACH)
    if line:
        floor = max(floor, text.rfind("\n", floor, match.start()))
    street = _STREET_AHEAD.search(text, floor, match.start())
    if street is None or NOT_A_STREET.search(street["street"]):
        return None
    alone = street["before"] in ("", "\n")
    if year and not alone:
        return None
    if line and not alone:
        return None
    if line and len(match["code"]) == _YEAR_SIZE and not _ENDS_LINE.match(text, place_end):
        return None  # `Release 7⏎1204 Commits since`
    return street.start("street")


#: The same all in small letters, as people chat: there a word for a street is needed.
_LOWER_PLACE: Final = re.compile(
    r"[ ][a-zß-öø-ÿ][^\W\d_]{2,24}(?:[ \-][a-zß-öø-ÿ][\w'’.\-]{1,24}){0,2}"
    r"(?:[ ]\([a-z]{2}\)|[ ]\d{1,2}(?!\w))?(?=[ \t]*(?:[,.;:!?)\r\n\"'`<|]|\Z|[ ]))"
)
_SMALL_LEAD: Final = re.compile(
    r"(?:[a-z]{2,10}[ ]){0,3}(?:to|at|in|from|is|my|by|on|nach|au|en|i|på|na|em|op)[ ]"
)


def _in_small(text: str, code: re.Match[str]) -> Iterator[Span]:
    place = _LOWER_PLACE.match(text, code.end())
    street = _LOWER_STREET.search(text, max(0, code.start() - _STREET_REACH), code.start())
    if place is not None and street is not None and _LOWER_WORD.search(street.group()):
        lead = _SMALL_LEAD.match(text, street.start())
        start = street.start() if lead is None else lead.end()
        yield Span(start, place.end(), "ADDRESS", 0.7, _SMALL_PLACE)


_LOWER_STREET: Final = re.compile(
    rf"(?<![\w.:/\-])(?:{NUM},?[ ](?:[^\W\d_][\w'’.\-]{{1,24}}[ ]){{0,4}}[^\W\d_][\w'’.\-]{{2,24}}"
    rf"|[^\W\d_][\w'’./\-]{{1,30}}(?:[ ][\w'’.\-]{{1,24}}){{0,4}},?[ ]{NUM}\.?),?[ ]?\r?\Z"
)
_LOWER_WORD: Final = re.compile(
    r"\b(?:(?:rue|avenue|boulevard|bd|impasse|place|chemin|quai|via|viale|corso|piazza|calle|"
    r"avenida|paseo|plaza|rua|travessa|praça|ulica|ulice|triq|am|an der)\b|"
    r"(?:c/|avd?a?\.|ul\.|al\.|os\.))|(?:"
    r"straße|strasse|str\.|gasse|platz|allee|weg|damm|ring|ufer|straat|laan|plein|gracht|kade|vej|gade|"
    r"vænget|gatan|gata|vägen|veien|vegen|gaten|gate|katu|tie|kuja|vegur|utca|út|tér|iela|mnt|maantee|"
    r"tänav| pr\.| g\.|náměstí|třída|cesta|caddesi|street|road|lane)(?!\w)"
)
_YEAR_SIZE: Final = 4
_PLACE_CONTEXT: Final = re.compile(
    r"\b(?:in|to|from|at|near|of|city|town|address|location)\b[\"']?[:=]?\s{0,2}[\"']?\Z",
    re.IGNORECASE,
)
