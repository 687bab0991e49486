"""Passport numbers where a text names them, and the machine-readable lines of passports and cards.

A number has no check digits of its own, so it must stand right behind its name (`VALUES`, read by
`labeled`). The machine-readable zone (ICAO 9303) has: its lines are found anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from gateway.redaction.detectors.base import Rule, Source, Triggers
from gateway.redaction.detectors.labels import Reach, Value, words
from gateway.redaction.spans import Span

#: Letters and digits in the orders countries use; at most one blank or dash between them.
_NUMBER: Final = re.compile(
    r"(?<![\w])(?:[A-Z]{1,3}[ \-]?\d{5,9}[A-Z]?\d?|\d{2}[ ]?[A-Z]{2}[ ]?\d{5}|\d{7,10}[A-Z]?"
    r"|\d{2}[ ]\d{2}[ ]\d{6,7}|\d{2}[ ]\d{7}|\d{3}[ ]\d{3}[ ]\d{3}|\d{4}[ ]\d{4,6}"
    r"|[CFGHJKLMNPRTVWXYZ][CFGHJKLMNPRTVWXYZ0-9]{8}|[A-Z]\d[A-Z0-9]{6,8}|[A-Z]{2}[A-Z0-9]{7})"
    r"(?![\w]|[.\-/]\w)",
    re.IGNORECASE,
)


def is_passport(written: str) -> bool:
    """Whether the characters are of a passport: mostly digits, not all the same, no date."""
    bare = written.replace(" ", "").replace("-", "")
    digits = [c for c in bare if c.isdigit()]
    return (
        (len(digits) >= 4 or (bool(digits) and _FEW_DIGITS.fullmatch(bare) is not None))
        and len(set(bare)) > 2
        and not _DATE.fullmatch(bare)
    )


#: Germany's use of letters only those that make no words and look like no digit (PassVwV); those of
#: the Netherlands are two letters, six of both, and a digit, never an O. In capitals, as printed.
_FEW_DIGITS: Final = re.compile(
    r"[CFGHJKLMNPRTVWXYZ][CFGHJKLMNPRTVWXYZ0-9]{8}|[A-NP-Z]{2}[A-NP-Z0-9]{6}\d"
)
_DATE: Final = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])")

VALUES: Final = (
    Value(
        "PASSPORT",
        "passport",
        words(
            "passport|passport no|passport number|passport nr|passport id|passport book|"
            "travel document|travel document number|travel document no|passnummer|pass nr|"
            "passport #|ppt|ppt no|ppt nr|ppt number|ppt #|passport document|passport card|pp no|"
            "pp number|pp nr|pp #|"
            "reisepass|reisepassnummer|reisepass nr|reisepassnr|pass nummer|"
            "passeport|numéro de passeport|n° de passeport|passeport n|passeport no|"
            "pasaporte|número de pasaporte|nº de pasaporte|passaporto|numero di passaporto|"
            "passaporte|número do passaporte|paspoort|paspoortnummer|paspoort nummer|"
            "paszport|numer paszportu|paszportu|nr paszportu|διαβατήριο|διαβατηρίου|"
            "αριθμός διαβατηρίου|cestovní pas|číslo pasu|cestovný pas|útlevél|útlevélszám|"
            "útlevél száma|pașaport|pasaport|passinumero|passi nro|passi|pasnummer|pas nr|"
            "pas nummer|pasnr|passinr|putovnica|broj putovnice|potni list|паспорт|паспорта|"
            "номер паспорта|pasport|pases numurs|paso numeris|passin numero|passin nro|putovnice|"
            "pasaport no|"
            "pașaportului|pasaport numarası|passaporto n|numero passaporto|n. passaporto|"
            "cestovného pasu|potnega lista|"
            "passi number|vegabréf"
        ),
        _NUMBER,
        is_passport,
        Reach.NEXT,
        (),
        0.8,
    ),
)

#: A second line of a passport (TD3) or visa, a second line of a card (TD1, TD2), and first lines.
_SECOND: Final = re.compile(
    r"(?P<number>[A-Z0-9<]{9})(?P<check>\d)[A-Z<]{3}(?P<born>\d{6})(?P<check2>\d)[MFX<]"
    r"(?P<until>\d{6})(?P<check3>\d)[A-Z0-9<]{0,14}[0-9<]{1,2}"
)
_CARD_SECOND: Final = re.compile(
    r"(?P<born>\d{6})(?P<check2>\d)[MFX<](?P<until>\d{6})(?P<check3>\d)[A-Z<]{3}[A-Z0-9<]{11}\d"
)
_FIRST: Final = re.compile(r"[PVAIC][A-Z<][A-Z<]{3}[A-Z0-9<]{25,39}")
_NAMES: Final = re.compile(r"[A-Z]{1,28}(?:<{1,2}[A-Z]{1,28}){1,8}<{2,28}")
_ZONE_LINE: Final = re.compile(r"[A-Z0-9<]{28,44}(?![A-Z0-9<])")
_WEIGHTS: Final = (7, 3, 1)


class PassportRule(Rule):
    """Finds machine-readable zones."""

    KINDS: ClassVar = ("PASSPORT",)

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(literals=("<<",))

    def spans(self, source: Source) -> Iterator[Span]:
        """Look at the words that hold two of the zone's filler signs, or its line of dates."""
        text = source.text
        if "<" not in text:
            return
        read = 0
        at = text.find("<<")
        while at >= 0:
            start = max(read, at - 44)
            start += len(text[start:at]) - len(_BEFORE.search(text, start, at).group())  # type: ignore[union-attr]
            line = _ZONE_LINE.match(text, start)
            if line is not None and line.end() > at:
                read = line.end()
                if _is_zone(line.group()):
                    yield Span(start, line.end(), "PASSPORT", 0.95, "mrz")
            else:
                read = at + 2
            at = text.find("<<", read)


_BEFORE: Final = re.compile(r"[A-Z0-9<]*\Z")


def _is_zone(line: str) -> bool:
    second = _SECOND.match(line)
    if second is not None and _holds(second["number"], second["check"]):
        return _holds(second["born"], second["check2"])
    card = _CARD_SECOND.match(line)
    if card is not None:
        return _holds(card["born"], card["check2"]) and _holds(card["until"], card["check3"])
    return (_FIRST.fullmatch(line) is not None or _NAMES.fullmatch(line) is not None) and any(
        c.isalpha() for c in line
    )


def _holds(field: str, check: str) -> bool:
    """ICAO 9303 part 3, section 4.9: weights 7 3 1, letters from 10 on, fillers 0."""
    total = sum((0 if c == "<" else int(c, 36)) * _WEIGHTS[i % 3] for i, c in enumerate(field))
    return total % 10 == int(check)
