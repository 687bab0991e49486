"""Names before what is told of a person: `Jane Doe, born on 3 May 1974`, `Jan Kok (geb. 1953)`,
`Jane Doe (SSN …)`, `…, mayor de edad`, and of who speaks in an exported chat.

Owns the words that follow a name, in the languages of the EU. Invariant: a bounded stretch of the
same line is read back from each; an abbreviation (`SSN`, `DOB`) counts only with a digit behind it,
so that `Social Security Number (SSN)` is left alone. Called by `people`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.base import Source, leftmost_longest, set_of
from gateway.redaction.detectors.person_names import (
    LONGEST,
    is_known,
    is_unusual,
    person_at,
)
from gateway.redaction.spans import Span

#: Behind these stands a date or a number.
_WITH_DIGITS: Final = (
    "born", "née", "né", "geb.", "geboren", "nato", "nata", "nacido", "nacida", "nascido",
    "nascida", "urodzony", "urodzona", "ur.", "född", "født", "dob", "d.o.b", "ssn", "passport",
    "passeport", "reisepass", "passaporto", "pasaporte", "pesel", "bsn", "dni", "nif", "nie",
    "cpf", "nhs", "mrn", "con dni", "con nie", "con nif", "identificado con", "legitymujący się",
    "legitymująca się", "portador do", "portadora do", "titulaire du", "titular del",
)  # fmt: skip
#: These say enough.
_ALONE: Final = (
    "mayor de edad", "demeurant", "domicilié", "domiciliée", "wohnhaft", "wonende", "woonachtig",
    "residente in", "residente en", "residente na", "residente em", "zamieszkały", "zamieszkała",
    "residing at", "of full age", "vecino de", "vecina de",
)  # fmt: skip
#: With what must stand before them: that leaves out most words which only hold one of these.
_WORDS: Final = tuple(sign + word for word in (*_WITH_DIGITS, *_ALONE) for sign in " (")
_WORD_SET: Final = set_of(_WORDS)
_NUMBERED: Final = frozenset(range(2 * len(_WITH_DIGITS)))
_DIGIT_BEHIND: Final = re.compile(r"[^\n)\d]{0,40}\d")
_INITIAL: Final = re.compile(r"(?<![^\W_])(?<![.@/\\'’\-])[^\W\d_]")
#: The line of an exported chat: `[12/05/2025, 18:22:31] Jane Doe: …`, `12.05.25, 18:22 - Jane: …`.
_SPEAKER: Final = re.compile(
    r"^[\u200e\u202a]?(?:\[\d{1,4}[./\-]\d{1,2}[./\-]\d{2,4},[ ]\d{1,2}:\d\d(?::\d\d)?"
    r"(?:[ \u202f][AaPp]\.?[Mm]\.?)?\][ ]|"
    r"\d{1,4}[./\-]\d{1,2}[./\-]\d{2,4},[ ]\d{1,2}:\d\d(?::\d\d)?"
    r"(?:[ \u202f][AaPp]\.?[Mm]\.?)?[ ][–\-][ ])(?=[^\W\d_])",
    re.MULTILINE,
)
#: The signs in them as shapes (see `Source.may_hold`).
_SPEAKER_SHAPES: Final = (b", 00:00", b", 0:00")
TRIGGERS: Final = (*_WORDS, "] ", " - ", " – ")


def described_names(source: Source) -> Iterator[Span]:
    """Yield the names before a birth, a number of a person or a residence, "
    "and of a chat's speakers."""
    text = source.text
    for number, at, end in leftmost_longest(source.found(_WORD_SET)):
        if text[end : end + 1].isalnum():
            continue
        last = at - (text[at] == "(" or text[at - 1 : at] == ",")
        if not text[last - 1 : last].isalpha() or not text.startswith((" ", ","), last):
            continue
        if number in _NUMBERED and not _DIGIT_BEHIND.match(text, end):
            continue
        found = _ending_at(text, last)
        if found is not None:
            yield Span(*found, "NAME", 0.75, "described")
    if source.may_hold(*_SPEAKER_SHAPES):
        for line in _SPEAKER.finditer(text):
            parts = person_at(text, line.end(), min(len(text), line.end() + LONGEST))
            if parts and text.startswith(": ", parts[-1][1]) and is_unusual(text, parts):
                yield Span(parts[0][0], parts[-1][1], "NAME", 0.75, "speaker")


def _ending_at(text: str, end: int) -> tuple[int, int] | None:
    """The name of two words or more that ends right at `end`: from the first one people bear on, or
    else the longest, for `Patient Jane Doe` begins with no name."""
    longest: tuple[int, int] | None = None
    floor = max(0, end - LONGEST)
    floor = max(floor, text.rfind("\n", floor, end) + 1)
    for initial in _INITIAL.finditer(text, floor, end):
        if not initial.group().isupper():
            continue
        parts = person_at(text, initial.start(), end)
        if len(parts) < 2 or parts[-1][1] != end:
            continue
        if is_known(text, parts):
            return parts[0][0], end
        if longest is None and is_unusual(text, parts):
            longest = parts[0][0], end
    return longest
