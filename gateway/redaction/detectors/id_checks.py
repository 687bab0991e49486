"""Which numbers a state can have given to a person: forms, check digits and dates.

Check digits and dates are python-stdnum's, except the UK's NINO, which has none, and those whose
law is cited. Invariant: pure; digits of one kind only are no one's number. Read by the tables of
personal numbers (`european_ids`, `world_ids`, `named_ids`) and by `national_ids`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType
from typing import Final

from stdnum.at import vnr as at_vnr
from stdnum.be import nn as be_nn
from stdnum.ca import sin as ca_sin
from stdnum.ch import ssn as ch_ssn
from stdnum.cz import rc as cz_rc
from stdnum.dk import cpr as dk_cpr
from stdnum.es import dni as es_dni
from stdnum.fr import nir as fr_nir
from stdnum.gr import amka as gr_amka
from stdnum.ie import pps as ie_pps
from stdnum.in_ import pan as in_pan
from stdnum.it import codicefiscale as it_cf
from stdnum.nl import bsn as nl_bsn
from stdnum.pl import pesel as pl_pesel
from stdnum.se import personnummer as se_pnr

from gateway.redaction.detectors.labels import Reach, Value
from gateway.redaction.detectors.labels import words as split

Validator = Callable[[str], bool]
#: Between the groups of a number as people write it.
SIGN: Final = "[ \u00a0.\\-/]?"
#: Before and behind a number: not the middle of a longer word, decimal or identifier.
_HEAD: Final = r"(?<![\w])(?<!\w[.\-/])"
_END: Final = r"(?![\w]|[.\-/]\w)"
_SIGNS: Final = {ord(c): None for c in " \u00a0.-/+"}


def form(body: str) -> re.Pattern[str]:
    """The pattern of a number that is no part of a longer word, decimal or identifier."""
    return re.compile(f"{_HEAD}(?:{body}){_END}", re.ASCII | re.IGNORECASE)


def digits(*groups: int) -> str:
    """Groups of so many digits, with at most one sign between two of them."""
    return SIGN.join(rf"\d{{{size}}}" for size in groups)


def checked(*modules: ModuleType) -> Validator:
    """Whether any of the python-stdnum modules takes the number, whatever signs are in it."""

    def is_valid(written: str) -> bool:
        bare = written.translate(_SIGNS).upper()
        if len(set(bare)) < 3:
            return False
        return any(module.is_valid(bare) or module.is_valid(written) for module in modules)

    return is_valid


_NINO_PREFIX: Final = re.compile(r"(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]")


def is_nino(written: str) -> bool:
    """UK national insurance number: letters HMRC gives out (NIM39110); it has no check digit."""
    bare = written.translate(_SIGNS).upper()
    return _NINO_PREFIX.match(bare) is not None and len(set(bare[2:8])) > 1


def is_nino_in_context(written: str) -> bool:
    """The letters of a UK national insurance number, where a word for one stands by."""
    return _NINO_PREFIX.match(written.translate(_SIGNS).upper()) is not None


def is_sin(written: str) -> bool:
    """Canada's social insurance number: the Luhn digit."""
    return len(set(written)) > 2 and ca_sin.is_valid(written.translate(_SIGNS))


def is_personnummer(written: str) -> bool:
    """A Swedish personal or coordination number, with its sign or without it."""
    bare = written.replace(" ", "-") if len(written) in (11, 13) else written
    if len(bare) in (10, 12):
        bare = bare[:-4] + "-" + bare[-4:]
    try:
        return bool(se_pnr.is_valid(bare) or _is_coordination(bare))
    except ValueError:
        return False


def _is_coordination(bare: str) -> bool:
    """A Swedish coordination number is a personal number with 60 added to the day."""
    day = bare[-7:-5]
    if not day.isdigit() or not 61 <= int(day) <= 91:
        return False
    from stdnum import luhn

    return bool(luhn.is_valid(bare.translate(_SIGNS)[-10:]))


def is_rodne_cislo(written: str) -> bool:
    """The number of birth of the Czech Republic and Slovakia."""
    return bool(cz_rc.is_valid(written.translate(_SIGNS)))


def is_cpr(written: str) -> bool:
    """Since 2007 the check digit no longer holds for all: where it is named, the date decides."""
    bare = written.translate(_SIGNS)
    try:
        dk_cpr.get_birth_date(bare)
    except ValueError:  # includes python-stdnum's own
        return False
    return True


def is_cpr_alone(written: str) -> bool:
    """A Danish number without a word for it: the check digit must hold too."""
    bare = written.translate(_SIGNS)
    return is_cpr(bare) and dk_cpr.checksum(bare) == 0


#: Letters that end a number in source code (`86400000L`, `1.0F`) or belong to hexadecimal.
_CODE_LETTERS: Final = frozenset("ABCDEFLU")


def is_rrn(written: str) -> bool:
    """Since October 2020 South Korea gives numbers without a check digit: the date decides."""
    bare = written.replace("-", "")
    return 1 <= int(bare[2:4]) <= 12 and 1 <= int(bare[4:6]) <= 31


def is_dni_alone(written: str) -> bool:
    """A Spanish number without a word for it: its letter ends no number of source code."""
    plain = written[:-1].isdigit()
    return not (plain and written[-1] in _CODE_LETTERS) and checked(es_dni)(written)


def is_pps_alone(written: str) -> bool:
    """An Irish number without a word for it: its letter ends no number of source code."""
    plain = written[:-1].isdigit()
    return not (plain and written[-1] in _CODE_LETTERS) and checked(ie_pps)(written)


def is_pan_alone(written: str) -> bool:
    """An Indian taxpayer's number of a person, which has `P` for its fourth letter."""
    return written[3] == "P" and in_pan.is_valid(written)


def is_id_document(written: str) -> bool:
    """Enough digits for the number of a document, and no year or date."""
    bare = written.translate(_SIGNS)
    return (
        6 <= len(bare) <= 16
        and sum(c.isdigit() for c in bare) >= 5
        and len(set(bare)) > 2
        and not _YEARS.fullmatch(written)
    )


_YEARS: Final = re.compile(r"(?:19|20)\d\d[-/.]?\d\d[-/.]?\d\d|(?:19|20)\d\d[-/](?:19|20)\d\d")


def is_driving_licence(written: str) -> bool:
    """The same for a driving licence."""
    return is_id_document(written)


def row(
    kind: str,
    rule: str,
    words: str,
    body: str,
    is_valid: Validator,
    *,
    loud: str = "",
    reach: Reach = Reach.NEAR,
    score: float = 0.9,
) -> Value:
    """One number of a table: `words` and `loud` are names of it, `body` its form."""
    return Value(kind, rule, split(words), form(body), is_valid, reach, split(loud), score)


#: Which countries' numbers a number may be, by how many characters it has.
_BY_SIZE: Final[dict[int, tuple[ModuleType, ...]]] = {
    9: (nl_bsn,),
    10: (at_vnr,),
    11: (be_nn, gr_amka, pl_pesel),
    13: (ch_ssn,),
    15: (fr_nir,),
    16: (it_cf,),
}


def is_social_security(written: str) -> bool:
    """A number of any country that is called by the name of the US's own."""
    bare = written.translate(_SIGNS).upper()
    return len(set(bare)) > 2 and (
        any(module.is_valid(bare) for module in _BY_SIZE.get(len(bare), ()))
        or is_nino_in_context(bare)
    )


def is_named_id(written: str) -> bool:
    """The name says what it is; what is left to tell are dates and short numbers."""
    bare = written.translate(_SIGNS)
    return (
        8 <= len(bare) <= 18
        and sum(c.isdigit() for c in bare) >= 6
        and len(set(bare)) > 2
        and _YEARS.fullmatch(written) is None
    )


def is_german_pension(written: str) -> bool:
    """`12 190367 K 006`: area, date of birth, letter (VKVV section 2); the last digit is made from
    the quersummen of all products with 2 1 2 5 7 1 2 1 2 1 2 1."""
    bare = written.replace(" ", "").upper()
    letter = f"{ord(bare[8]) - 64:02d}"
    factors = (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1)
    numbers = bare[:8] + letter + bare[9:11]
    total = sum(
        sum(divmod(int(digit) * factor, 10)) for digit, factor in zip(numbers, factors, strict=True)
    )
    return total % 10 == int(bare[11])


def is_spanish_security(written: str) -> bool:
    """Spain's number of affiliation (Real Decreto 84/1996, article 21): province, number, mod 97;
    numbers below ten million are written with seven digits or with a zero before them."""
    bare = written.translate(_SIGNS)
    province, number, control = int(bare[:2]), int(bare[2:-2]), int(bare[-2:])
    shift = 10**7 if number < 10**7 else 10**8
    return 1 <= province <= 66 and (province * shift + number) % 97 == control


def is_hungarian_tax(written: str) -> bool:
    """Act CL of 2017, annex: digits times their place, mod 11."""
    return sum(int(d) * (i + 1) for i, d in enumerate(written[:9])) % 11 == int(written[9])


def is_hungarian_id(written: str) -> bool:
    """Personal id (Act XX of 1996: places, mod 11, either direction by year) or TAJ (3 and 7)."""
    bare = written.translate(_SIGNS)
    if len(bare) == 9:
        return sum(int(d) * (3, 7)[i % 2] for i, d in enumerate(bare[:8])) % 10 == int(bare[8])
    up = sum(int(d) * (i + 1) for i, d in enumerate(bare[:10])) % 11
    down = sum(int(d) * (10 - i) for i, d in enumerate(bare[:10])) % 11
    return int(bare[10]) in (up, down)
