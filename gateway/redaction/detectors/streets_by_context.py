"""Streets told by what stands beside them, without a word for a street: a flat (`450 Edeby 55, Apt.
12`), a box at the post, a phrase (`lives at Sludevej 13`), a corner, a ward of a Japanese town.

Invariant: looks a bounded stretch to both sides, never before what was read; numbers of things
(`Step 3`, `Port 80`) are no houses. Called by `addresses`.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.redaction.detectors.address_forms import (
    NAME_PART,
    NOT_A_STREET,
    NUM,
    NUMBER_BEFORE,
    SEP,
    SMALL_WORD,
    UNIT,
    Found,
    holds_name,
    line_floor,
)
from gateway.redaction.detectors.address_tails import CODE_PLACE, MILITARY, with_tail
from gateway.redaction.detectors.postal import UP

_UNIT_AT: Final = re.compile(UNIT, re.IGNORECASE)
_CORNER_REST: Final = re.compile(
    rf"[ ](?:{NUM}[ ])?[\w'’.\- ]{{2,48}}?[ ](?:and|&)[ ](?:{UP}[\w'’.\-]*|[a-zß-ÿ]+)"
    rf"(?:[ ]{UP}[\w'’.\-]*|[ ][a-zß-ÿ]+){{0,2}}(?=[?!.,;\"\n]|\s*\Z)"
)
_THE_BEFORE: Final = re.compile(r"the[ ]\Z", re.IGNORECASE)
_BOX_REST: Final = re.compile(
    r"\.?(?:[ ](?:no\.?|nr\.?)?[ ]?|[ ]?:?[ ]?)\d{1,6}(?:[ ]\d\d){0,3}(?![\w.]\d)"
    r"(?:,?[ ]Box[ ]\d{1,6})?",
    re.IGNORECASE,
)
_SHIP_REST: Final = re.compile(r"[ ]\w[\w'’.\-]*(?=\n[ ]*(?:FPO|APO|DPO)[ ])", re.IGNORECASE)
_GENERIC: Final = re.compile(
    rf"[:,]?[ \t\n>\"'*`]{{0,4}}(?:(?:in|at|to|on|au|en|na|is|user:)[ ])?(?P<street>"
    rf"(?:{NUM},?[ ]){{0,2}}{NAME_PART}(?:[ ](?:{NAME_PART}|{SMALL_WORD}(?=[ ])))"
    rf"{{0,4}}[ ]{NUM}\.?)(?![\w%]|[.:,]\d|[ ]?(?:%|years?|times|items|days|minutes|hours"
    rf"|[ap]m\b))"
)
_GENERIC_NUMBERED: Final = re.compile(
    rf"[:,]?[ \t\n>\"'*`]{{0,4}}(?:(?:in|at|to|on|au|is|user:)[ ])?(?P<street>{NUM},?[ ]"
    rf"(?>{NAME_PART}[ ]|{SMALL_WORD}[ ]){{0,4}}{UP}[\w'’.\-]{{2,24}})(?={SEP})"
)


def by_flat(text: str, start: int, end: int, done: int) -> Found:
    """`450 Edeby 55`, and on this line or the next `Apt. 12`."""
    if start < 4 or text[start - 1] not in " \n>\t,":
        return None
    unit = _UNIT_AT.match(text, start)
    if unit is None or not any(c.isdigit() for c in unit.group()):
        return None
    if (box := _UNIT_BOX.match(text, start)) is not None and MILITARY.match(text, box.end()):
        return start, box.end()
    first = _street_before(text, start, done)
    if first is None:
        return _before_number(text, start, unit.end())
    return first, unit.end()


_WORDS_BACK: Final = 7
_SENTENCE_WORDS: Final = frozenset(
    {
        "and",
        "as",
        "is",
        "at",
        "in",
        "to",
        "address",
        "my",
        "for",
        "with",
        "on",
        "from",
        "or",
        "into",
    }
)
_ANY_WORD: Final = re.compile(r"[^\s>]+")
_NAME_WORD: Final = re.compile(r"[^\W_][\w'’.\-/()]{0,24},?\Z")


def _street_before(text: str, at: int, done: int) -> int | None:
    """Where the street before a flat begins, on the same line or the one before: at the first
    number among the words that may be of a name."""
    floor = line_floor(text, at, done)
    if not text[floor:at].strip(" \t>,"):
        floor = line_floor(text, max(done, floor - 1), done)
    first: int | None = None
    named = False
    words = list(_ANY_WORD.finditer(text, floor, at))
    for word in reversed(words[-_WORDS_BACK:]):
        written = word.group()
        if _NAME_WORD.match(written) is None or written in _SENTENCE_WORDS:
            break
        if written[0].isdigit():
            first = word.start()
        elif len(written) > 2:
            named = True
    if first is None or not named:
        return None
    before = [word for word in words if word.end() <= first]
    name_first = first
    for word in reversed(before[-3:]):  # `Rua Igreja 25`: a name with capitals before its number
        if not word.group()[0].isupper() or _NAME_WORD.match(word.group()) is None:
            break
        name_first = word.start()
    rest = text[first:at]
    return first if any(len(w) > 2 and w[0].isalpha() for w in rest.split()) else name_first


_UNIT_BOX: Final = re.compile(r"unit[ ]\d{1,5}[ ]box[ ]\d{1,6}", re.IGNORECASE)
_FLAT_THEN_STREET: Final = re.compile(rf"[ ,]{{1,2}}{NUM}[ ]{UP}[\w'’.\- ]{{2,40}}?[ ]{NUM}(?!\w)")


def _before_number(text: str, start: int, end: int) -> Found:
    """`Apt. 675 62314 Mellemvej 32`."""
    street = _FLAT_THEN_STREET.match(text, end)
    return (start, street.end()) if street is not None else None


def by_box(text: str, start: int, end: int, done: int) -> Found:
    """`P.O. Box 12`, `PSC 3117, Box 0609`, `USS Mahler, FPO AA 70489`."""
    if start and (text[start - 1].isalnum() or text[start - 1] in "_-."):
        return None
    word = text[start:end].lower()
    if word in ("uss", "usns", "usnv", "uscgc"):
        ship = _SHIP_REST.match(text, end)
        return (start, ship.end()) if ship is not None else None
    rest = _BOX_REST.match(text, end)
    if rest is None:
        return None
    if (
        word in ("psc", "bp", "b.p.", "postbox")
        and "box" not in rest.group().lower()
        and not (CODE_PLACE.match(text, rest.end()) and text[start].isupper())
    ):
        return None
    before = NUMBER_BEFORE.search(text, max(done, start - 10), start)
    return (before.start() if before is not None else start), rest.end()


def by_phrase(text: str, start: int, end: int, done: int) -> Found:
    """`lives at Sludevej 13`: behind such words a name and a number are a street."""
    if start and (text[start - 1].isalnum() or text[start - 1] in "_-"):
        return None
    match = _GENERIC.match(text, end)
    if match is None:
        match = _GENERIC_NUMBERED.match(text, end)
        if match is None or with_tail(text, match.end("street")) == (match.end("street")):
            return None
    street = match["street"]
    if not holds_name(street) or NOT_A_STREET.search(street):
        return None
    return match.span("street")


def by_corner(text: str, start: int, end: int, done: int) -> Found:
    """`the corner of Dunajska 5 and Mill Road`: a place too."""
    rest = _CORNER_REST.match(text, end)
    if rest is None or not any(c.isdigit() for c in rest.group()):
        return None
    the = _THE_BEFORE.search(text, max(0, start - 4), start)
    return (the.start() if the is not None else start), rest.end()


#: A part of a Japanese address as it is written in Latin letters, from its block to its country.
_JAPANESE: Final = (
    r"(?:〒?\d{1,4}(?:-\d{1,4}){0,3}(?:-(?:chome|chōme|banchi|ban|go|gō))?(?:[ ]chome)?(?!\w)"
    rf"|{UP}[^\W\d_]{{1,20}}(?:-[^\W\d_]{{2,6}})?(?!\w)|\#\d{{1,5}})"
)
_PART_OF_JAPANESE: Final = re.compile(_JAPANESE)
_BEHIND_WARD: Final = re.compile(rf"(?:(?:,[ ]?|[ ]){_JAPANESE}){{0,8}}")
_BLOCK: Final = re.compile(
    r"(?:(?<!\w)(?:Room|Rm|Apt|Unit|Suite)\.?[ ])?\d{1,4}(?:-\d{1,4}|-?[ ]?ch[oō]me|[ ]?F,)"
    rf"|{UP}[^\W\d_]{{1,20}}[ ]\d{{1,3}}(?:-\d{{1,3}}|-?[ ]?ch[oō]me)"
    r"|(?<!\w)(?:Room|Rm|Apt|Unit|Suite)\.?[ ]\d{1,4}"
)
_WARD_REACH: Final = 90


def by_ward(text: str, start: int, end: int, done: int) -> Found:
    """From the first block, or the room, to the last part."""
    if text.find(",", max(done, start - _WARD_REACH), end + _WARD_REACH) < 0:
        return None
    floor = line_floor(text, start, done, _WARD_REACH)
    first = _japanese_before(text, floor, start)
    if text[start] == "-":  # the ward's name before it
        word = _word_start(text, first, start)
        if word == start or not text[word].isupper():
            return None
    behind = _BEHIND_WARD.match(text, end, end + _WARD_REACH)
    last = end if behind is None else behind.end()
    if "," not in text[first:last]:
        return None
    block = _BLOCK.search(text, first, last)
    if block is None:
        return last, last  # the other wards of this stretch need not be looked at
    return block.start() if block.start() < start else first, last


def _word_start(text: str, floor: int, end: int) -> int:
    return max(floor, text.rfind(" ", floor, end) + 1)


def _japanese_before(text: str, floor: int, end: int) -> int:
    """Where the parts before `end` begin, all of them such as a Japanese address has."""
    first = end
    at = end
    for _ in range(_PARTS_MOST):
        start = _word_start(text, floor, at)
        if _PART_OF_JAPANESE.fullmatch(text, start, at - (text[at - 1 : at] == ",")) is None:
            break
        first = start
        at = start - 1
        if at <= floor:
            break
    return first


_PARTS_MOST: Final = 8
