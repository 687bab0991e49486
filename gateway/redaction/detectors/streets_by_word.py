"""Streets told by the word that makes them one: `12 Baker Street`, `rue de la Paix 12`,
`Hauptstraße 12`.

Owns what must stand around such a word: the number of a house and a name with a capital; where the
word is a common one too, a flat or a place as well. Invariant: looks a bounded stretch to both
sides, never before what was read. Called by `addresses`.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.redaction.detectors.address_forms import (
    HEAD_NUM,
    NAME_PART,
    NUM,
    NUMBER_BEFORE,
    SMALL_WORD,
    Found,
    holds_name,
    line_floor,
)
from gateway.redaction.detectors.address_tails import (
    CODE_ONLY,
    CODE_PLACE,
    LOWER_PLACE_CODE,
    PLACE_CODE,
    PLACE_COUNTRY,
    PLACE_ONLY,
    UNITS,
    with_flat_before,
)
from gateway.redaction.detectors.postal import UP

_BEFORE_LAST: Final = re.compile(
    rf"{HEAD_NUM}(?:{NUM},?[ ])?{NUM}(?:,[ ]|[ ]|[ ]?,(?!\d))"
    rf"(?>{NAME_PART}[ ]|{SMALL_WORD}[ ]){{1,5}}\Z"
)
_NAMES_BEFORE_LAST: Final = re.compile(
    rf"(?<![\w.\-])(?:{NUM},?[ ])?(?>{NAME_PART}[ ]|{SMALL_WORD}[ ]){{1,4}}\Z"
)
_LOWER_BEFORE_LAST: Final = re.compile(
    rf"{HEAD_NUM}(?:{NUM}[ ]){{1,2}}(?:[a-zß-öø-ÿ'’.\-]{{2,20}}[ ]){{1,3}}\Z"
)
_NUMBER_BEHIND: Final = re.compile(  # and the stair and flat of `15 B 3`
    rf"\.?,?[ ](?:[Nn][OoRr][.:]?[ ]?)?{NUM}(?:(?<=[A-Ha-h])[ ]\d{{1,3}}(?=,|\s*\Z|\n))?\.?"
    rf"(?![\w%]|[.:,]\d|[ ]?(?:%|km|kg|MB|GB|ms|px|years|times|items))"
)
_DIRECTION: Final = re.compile(
    r"[ ](?:North|South|East|West|Upper|Lower|N|S|E|W|NE|NW|SE|SW)\b\.?(?!\w)"
)
_FIRST_REST: Final = re.compile(
    rf"[ ]?(?:(?:{UP}[\w'’.\-/]{{0,24}}|{SMALL_WORD}(?=[ '’])|\d{{1,2}}(?=[ ](?:de|di)[ ])"
    rf"|[^\W\d_A-Z][^\W\d_]{{2,14}}(?=[ ]{UP}[^\W\d_]{{2}})|\d{{1,2}}\.[ ]?[^\W\d_]{{3,12}}"
    rf"|[dl]['’]\w{{2,24}}|[a-z]{{1,3}}-{UP}[\w'’\-]{{2,24}}|{UP}\.)[ ]?){{1,6}}"
)
_FIRST_NUMBER: Final = re.compile(
    rf"(?:,[ ]?|[ ]?)(?:n[º°r]?\.?[ ]?|nº[ ]?|no\.?[ ])?{NUM}\.?(?![\w%]|[.:]\d)", re.IGNORECASE
)
_ENDING_WORD: Final = re.compile(
    rf"(?<![\w])(?:{UP}[\w'’.\-]{{0,24}}[ \-]){{0,3}}{UP}?[\w'’.\-]{{0,30}}\Z"
)


def word_last(text: str, start: int, end: int, done: int) -> Found:
    """`12 Baker Street`, `Diakou Street 74`."""
    if start < 2 or text[start - 1] != " ":
        return None
    if text[end : end + 1] == "." and text[end - 1] != ".":
        end += 1
    floor = line_floor(text, start, done)
    named = _CAPITAL.search(text, floor, start) is not None
    if not named and text[start:end] not in _LOWER_STRONG:
        return None
    strong = text[start].isupper() or end - start > _SHORT
    before = _BEFORE_LAST.search(text, floor, start) if strong and named else None
    if before is None and text[start].islower() and text[start:end] in _LOWER_STRONG:
        before = _LOWER_BEFORE_LAST.search(text, floor, start)
        if before is not None and LOWER_PLACE_CODE.match(text, end) is None:
            before = None
    if before is not None and holds_name(before.group()) and not _STATUS.search(before.group()):
        if (direction := _DIRECTION.match(text, end)) is not None:
            end = direction.end()
        if (number := _NUMBER_BEHIND.match(text, end)) is not None:
            end = number.end()
        return with_flat_before(text, before.start(), done), end
    if not named or text[start:end].lower().rstrip(".") in _ABBREVIATED:
        return None
    number = _NUMBER_BEHIND.match(text, end)
    if number is None:
        return None
    names = _NAMES_BEFORE_LAST.search(text, floor, start)
    if names is None or not holds_name(names.group()):
        return None
    return names.start(), number.end()


#: A status of HTTP and its reason (RFC 9110, section 15, and those registered since):
#: `404 Not Found Drive sync failed`.
_STATUS: Final = re.compile(
    r"(?<!\d)[1-5]\d\d[ ](?:Continue|Switching Protocols|Processing|Early Hints|OK|"
    r"Created|Accepted|Non-Authoritative Information|(?:No|Reset|Partial) Content|Multi-Status|"
    r"Already Reported|"
    r"IM Used|Multiple Choices|Moved (?:Permanently|Temporarily)|Found|See Other|"
    r"Not (?:Modified|Found|Acceptable|Implemented|Extended)|Use Proxy|"
    r"(?:Temporary|Permanent) Redirect|(?:Bad|Misdirected) Request|Unauthorized|"
    r"(?:Payment|Length|Upgrade|Precondition) Required|Forbidden|Method Not Allowed|"
    r"(?:Proxy|Network) Authentication Required|(?:Request|Gateway) Time-?out|Conflict|Gone|"
    r"(?:Precondition|Expectation) Failed|(?:Payload|Content|Request Header Fields) Too Large|"
    r"URI Too Long|Unsupported Media Type|Range Not Satisfiable|Unprocessable (?:Content|Entity)|"
    r"Locked|Failed Dependency|Too (?:Early|Many Requests)|Unavailable For Legal Reasons|"
    r"Internal Server Error|Bad Gateway|Service Unavailable|HTTP Version Not Supported|"
    r"Variant Also Negotiates|Insufficient Storage|Loop Detected)[ ]",
    re.IGNORECASE,
)
_SHORT: Final = 3
_CAPITAL: Final = re.compile(UP)
_LOWER_STRONG: Final = frozenset(
    {
        "street",
        "avenue",
        "road",
        "boulevard",
        "lane",
        "drive",
        "court",
        "ave",
        "rd",
        "blvd",
        "dr",
        "ln",
        "st",
        "crescent",
        "terrace",
        "close",
        "square",
        "quay",
        "grove",
        "gardens",
    }
)
_ABBREVIATED: Final = frozenset(
    {"st", "ave", "rd", "dr", "ln", "ct", "ter", "pl", "sq", "cir", "place", "square", "close",
     "drive", "court", "circle", "lane", "u", "alley", "terrace", "hwy", "highway"}
)  # fmt: skip


def word_seldom_last(text: str, start: int, end: int, done: int) -> Found:
    """`289 Rachel Ridges Suite 4`, `12 Mill Row, Leeds LS1 4AB`: a flat or a place must follow."""
    if start < 2 or text[start - 1] != " " or not text[start].isupper():
        return None
    before = _BEFORE_LAST.search(text, line_floor(text, start, done), start)
    if before is None or not holds_name(before.group()) or _STATUS.search(before.group()):
        return None
    if (direction := _DIRECTION.match(text, end)) is not None:
        end = direction.end()
    placed = (
        UNITS.match(text, end)
        or CODE_PLACE.match(text, end)
        or PLACE_CODE.match(text, end)
        or CODE_ONLY.match(text, end)
        or PLACE_COUNTRY.match(text, end)
        or PLACE_ONLY.match(text, end)
    )
    if placed is None:
        return None
    return with_flat_before(text, before.start(), done), end


def word_first(text: str, start: int, end: int, done: int) -> Found:
    """`12, rue de la Paix`, `Via Roma 131`, `ul. Cicha 86`."""
    if start and (text[start - 1].isalnum() or text[start - 1] in "_-"):
        return None
    word = text[start:end].lower()
    if text[start].islower() and (word in _ARTICLES or text[max(0, start - 3) : start] == "et "):
        return None
    if word in _ARTICLES and _GERMAN_DATE.match(text, end):
        return None  # `Am Mo., 2. Feb. 2026`, `Zum 1. April 2026`
    if word[-1] == "." and text[end : end + 1] not in (" ", "\u00a0"):
        return None  # `os.O_RDONLY, 0`
    number = NUMBER_BEFORE.search(text, max(done, start - 20), start)
    names = _FIRST_REST.match(text, end)
    if names is None:
        return None
    rest = names.group()
    if not any(len(w) > 2 and w[0].isupper() for w in re.split(r"[ '’\-]", rest)) and not (
        _HOLIDAY.match(rest)
    ):
        return None
    behind = None
    if number is None or CODE_PLACE.match(text, len(rest.rstrip(" ,")) + end) is None:
        behind = _FIRST_NUMBER.match(text, len(rest.rstrip()) + end)
    plain = word in _PLAIN_FIRST
    if behind is not None:
        first = number.start() if number is not None else start
        small = number is None and text[start].islower() and word in _LOWER_REFUSED
        if small and CODE_PLACE.match(text, behind.end()) is None:
            return None  # in `via Nazionale n. 45, 00184 Roma` the place says that it is a street
        return with_flat_before(text, first, done), behind.end()
    if number is None or word in _PHRASES_FIRST or (plain and word in _ENGLISH_TOO):
        return None
    last = len(rest.rstrip(" .,'’")) + end
    return with_flat_before(text, number.start(), done), last


#: `ulice 28. října`: streets named for a day.
_HOLIDAY: Final = re.compile(r"[ ]?\d{1,2}\.[ ]?[^\W\d_]{3}")
#: Also words of English or of code: only with a capital and a number, or behind a number.
_PLAIN_FIRST: Final = frozenset(
    {"via", "place", "passage", "square", "avenue", "boulevard", "am", "im", "r.", "c.", "av", "ul",
     "al.", "pl.", "os.", "λ.", "πλ.", "str.", "plaza", "cours", "route de", "alte", "alter", "c/",
     "ronda", "strada", "quai", "corso", "largo", "lange", "zum", "zur", "blvd", "altes", "rue"}
)  # fmt: skip
_PHRASES_FIRST: Final = frozenset(
    {"am", "an der", "im", "in der", "zum", "zur", "auf der", "unter den", "alte", "alter", "altes",
     "obere", "untere", "lange", "große", "place", "r.", "c.", "passage", "square"}
)  # fmt: skip
_ARTICLES: Final = frozenset({"am", "an der", "im", "in der", "zum", "zur", "auf der", "unter den"})
#: What stands behind `Am` where it is a day.
_GERMAN_DATE: Final = re.compile(
    r"[ ](?:[^\W\d_]{2,10}\.?,?[ ])?(?:den[ ])?\d{1,2}\.[ ]?(?:\d|(?:Quartal|Halbj|"
    r"Semester|Jahr|Jan|Jän|Feb|Mär|Mrz|Apr|Mai|Jun|Jul|Aug|"
    r"Sep|Okt|Nov|Dez)[^\W\d_]{0,7}\.?(?:[ ](?:19|20)\d\d|[ ,]))"
)
_LOWER_REFUSED: Final = frozenset(
    {"via", "place", "passage", "square", "avenue", "boulevard", "r.", "c.", "str.", "plaza", "av",
     "alte", "alter", "altes", "obere", "untere", "lange", "große", "blvd", "strada", "cours"}
)  # fmt: skip
_ENGLISH_TOO: Final = frozenset(
    {"via", "place", "passage", "square", "plaza", "r.", "c.", "al.", "os."}
)


def word_ending(text: str, start: int, end: int, done: int) -> Found:
    """`Hauptstraße 12`, `Vana Lõuna tee 87`, `Lange Gasse 4`."""
    number = _NUMBER_BEHIND.match(text, end)
    if number is None:
        return None
    word = _ENDING_WORD.search(text, line_floor(text, start, done, 80), start)
    if word is None:
        return None
    first = word.start()
    while first < start and text[first] in "'’.-":  # an opening quote is no part of it
        first += 1
    name = text[first:start]
    if not name.strip() or not (name[0].isupper() or name[:1].isdigit()):
        return None
    if sum(c.isalpha() for c in name) < _FEWEST_LETTERS or _MEMBER.search(name):
        return None
    if name[-1:] not in (" ", "-") and len(name.split()[-1]) < _FEWEST_LETTERS:
        return None
    if end - start <= _SHORT and name[-1:] == " ":
        return None  # `The Tie 5`
    before = NUMBER_BEFORE.search(text, max(done, first - 10), first)
    if before is not None:
        first = before.start()
    return with_flat_before(text, first, done), number.end()


_FEWEST_LETTERS: Final = 3
_MEMBER: Final = re.compile(r"\.[^\W\d_]|_")  # `Season.SPRING`
