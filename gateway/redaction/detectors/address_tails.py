"""What belongs to a street that was found: flats before and behind it, its postal place, code and
country, on either side.

Invariant: at most five pieces are taken, each of a bounded form, and where lines repeat each tail
is read once. Called by `addresses` and the finders of streets.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.redaction.detectors.address_forms import BREAK, MOST_SEEN, PLACE, SEP, UNIT
from gateway.redaction.detectors.postal import CODE, UK_CODE, UP

UNITS: Final = re.compile(rf"(?:{SEP}{UNIT}){{1,3}}", re.IGNORECASE)
_COUNTRY: Final = (
    r"(?i:Austria|Belgium|Bulgaria|Croatia|Cyprus(?: \(Greek\))?|Czech Republic|Czechia|Denmark"
    r"|Estonia|Finland|"
    r"France|Germany|Greece|Hungary|Ireland|Italy|Latvia|Lithuania|Luxembourg|Malta|Netherlands|"
    r"The Netherlands|Poland|Portugal|Romania|Slovakia|Slovenia|Spain|Sweden|United Kingdom|UK"
    r"|U\.K\.|"
    r"Great Britain|England|Scotland|Wales|Northern Ireland|Norway|Switzerland|Iceland|"
    r"Liechtenstein|USA|U\.S\.A\.|US|United States(?: of America)?|Canada|Australia|New Zealand|"
    r"South Africa|Brazil|Brasil|Mexico|Argentina|Uruguay|Tunisia|Greenland(?:er)?|Deutschland|"
    r"Österreich|Schweiz|Suisse|Svizzera|Italia|España|Polska|Nederland|België|Belgique|Danmark|"
    r"Sverige|Norge|Suomi|Ελλάδα|Κύπρος|Magyarország|România|Česko|Slovensko|Hrvatska|Slovenija|"
    r"Éire|Japan|China|India|Turkey|Türkiye)(?!\w)"
)
#: What may follow a street, tried again and again: a code and its place (Iceland's are short), a
#: place and its code.
CODE_PLACE: Final = re.compile(
    rf"{SEP}(?:(?:te|à)[ ])?(?:{CODE})(?:[ ]{{1,2}}|,[ ]?){PLACE}(?:[ ]\d{{1,2}}(?!\w|\.\d))?"
    rf"|{SEP}\d{{3}}[ ]{UP}(?=[\w.]{{0,20}}[ðþæöáéíóúýÐÞÆÖÁÉÍÓÚÝ])\w{{2,24}}"
)
PLACE_CODE: Final = re.compile(
    rf"{SEP}{PLACE}(?:[ ]\d{{1,2}}(?!\w))?(?:(?:{SEP}|[ ]?[-–/][ ]?)"
    rf"(?:[A-Z]{{2,3}}|nan|{PLACE})){{0,2}}{SEP}{CODE}(?!\w)"
)
PLACE_COUNTRY: Final = re.compile(
    rf"{SEP}{PLACE}?(?:{SEP}(?:[A-Z]{{2,3}}|nan|\d\d))?{SEP}{_COUNTRY}(?:[ ]{CODE})?(?!\w)"
)
_COUNTRY_ONLY: Final = re.compile(rf"{SEP}{_COUNTRY}(?:[ ]{CODE})?(?!\w)")
CODE_ONLY: Final = re.compile(
    rf"{SEP}(?:{UK_CODE}|[A-Z]\d[A-Z][ ]\d[A-Z]\d|[A-Z]\d[\dW][ ]?[A-Z0-9]{{4}})(?!\w)"
)
PLACE_ONLY: Final = re.compile(rf",[ ]{{1,2}}{PLACE}(?=[,.;:!?)\n\r\"'<|]|\s*\Z)")
LOWER_PLACE_CODE: Final = re.compile(
    rf"{SEP}[^\W\d_]{{3,20}}(?:[ ][^\W\d_]{{2,20}}){{0,3}}(?:{SEP}(?:[a-z]{{2}}"
    rf"|{_COUNTRY}))?(?:[ ]\d{{4,6}}|,?[ ](?i:{UK_CODE}))(?!\w)"
    rf"|{SEP}[^\W\d_]{{3,20}}(?:[ ][^\W\d_]{{2,20}}){{0,3}}{SEP}{_COUNTRY}"
)
_ORPHAN: Final = re.compile(  # `Suite 039 CHARLEROI Victoria`, `Apt. 909 Paola KA`
    rf"[ ]{PLACE}(?=[?!.,;\"]|\s*\Z|\n)"
)
_FLAT_BEFORE: Final = re.compile(rf"(?<!\w){UNIT}(?:,[ ]|[ ]|\n[ ]*)\Z", re.IGNORECASE)
_FLAT_WORD: Final = re.compile(
    r"(?<!\w)(?:flat|unit|apt\.?|apartment|suite|room|studio)[ ]\Z", re.IGNORECASE
)
MILITARY: Final = re.compile(
    rf"{SEP}(?:[A-Z]?PO|DPO|APO|FPO)[ ]A[AEP][ ]\d{{5}}(?:-\d{{4}})?", re.IGNORECASE
)
#: All that is looked at behind a street whose tail is no longer than `_SHORT_TAIL` (five pieces
#: are tried, the longest is three places and a code, 700 characters), and before it.
_TAIL_SEEN: Final = 1000
_SHORT_TAIL: Final = 100
_TAIL_BEFORE: Final = 4


def with_tail_once(text: str, end: int, known: dict[str, int]) -> int:
    """`with_tail`, which knows what it found where the text went on alike: lines repeat."""
    window = text[max(0, end - _TAIL_BEFORE) : end + _TAIL_SEEN]
    size = known.get(window)
    if size is None:
        size = with_tail(text, end) - end
        whole = len(window) == _TAIL_BEFORE + _TAIL_SEEN and not window[-1].isspace()
        if whole and size <= _SHORT_TAIL and len(known) < MOST_SEEN:
            known[window] = size
    return end + size


def with_tail(text: str, end: int) -> int:
    """Take the flat and the postal place behind a street with it."""
    placed = False
    unit = False
    for _ in range(5):
        match = UNITS.match(text, end)
        if match is not None:
            end = match.end()
            unit = True
            continue
        if placed:
            match = _COUNTRY_ONLY.match(text, end) or CODE_ONLY.match(text, end)
            match = match or CODE_PLACE.match(text, end)
        else:
            match = (
                MILITARY.match(text, end)
                or CODE_PLACE.match(text, end)
                or PLACE_COUNTRY.match(text, end)
                or PLACE_CODE.match(text, end)
                or CODE_ONLY.match(text, end)
                or _COUNTRY_ONLY.match(text, end)
                or PLACE_ONLY.match(text, end)
                or LOWER_PLACE_CODE.match(text, end)
                or (_ORPHAN.match(text, end) if unit else None)
            )
        if match is None:
            break
        placed = True
        end = match.end()
    return end


#: `1055 Budapest, Kossuth Lajos utca 12`: there the place stands first.
_PLACE_BEFORE: Final = re.compile(
    rf"(?<![\w.:/\-])(?:[A-Z]{{1,2}}-)?(?:\d{{4,6}}|\d{{3}}[ ]\d\d)[ ]{UP}[\w'’.\-]{{2,24}}"
    rf"(?:[ ]{UP}[\w'’.\-]{{1,24}}){{0,2}}(?:,[ ]{{1,2}}|{BREAK})\Z"
)


def with_place_before(text: str, first: int, done: int) -> int:
    """Where the code and place before the street at `first` begin, or `first`."""
    place = _PLACE_BEFORE.search(text, max(done, first - 70), first)
    return place.start() if place is not None else first


def with_flat_before(text: str, first: int, done: int) -> int:
    """Where the flat before the street at `first` begins, or `first`."""
    floor = max(done, first - 24)
    flat = _FLAT_BEFORE.search(text, floor, first) or _FLAT_WORD.search(text, floor, first)
    return flat.start() if flat is not None else first
