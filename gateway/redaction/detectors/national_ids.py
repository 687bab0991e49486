"""Personal numbers that need no name beside them.

What is written as only one country writes it, with check digits that hold (codice fiscale, hetu,
NIE, `85.07.30-033.28`), counts anywhere. Plain digits with one check digit count only where a word
for them stands by: those are the tables `european_ids`, `world_ids` and `named_ids`, read by
`labeled`. Invariant: one pass for all forms, each number judged once. Called by the engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from stdnum.be import nn as be_nn
from stdnum.br import cnpj as br_cnpj
from stdnum.br import cpf as br_cpf
from stdnum.ch import ssn as ch_ssn
from stdnum.cn import ric as cn_ric
from stdnum.es import dni as es_dni
from stdnum.es import nie as es_nie
from stdnum.fi import hetu as fi_hetu
from stdnum.fr import nir as fr_nir
from stdnum.it import codicefiscale as it_cf
from stdnum.lv import pvn as lv_pvn
from stdnum.no import fodselsnummer as no_fnr
from stdnum.pt import cc as pt_cc
from stdnum.us import itin as us_itin

from gateway.redaction.detectors.base import Rule, Source, Triggers
from gateway.redaction.detectors.id_checks import (
    Validator,
    checked,
    is_cpr_alone,
    is_dni_alone,
    is_nino,
    is_pan_alone,
    is_personnummer,
    is_pps_alone,
    is_rodne_cislo,
)
from gateway.redaction.spans import Span

#: Written so that nothing else is: every alternative begins at a digit.
_ALONE: Final = re.compile(
    r"\d(?=\d|[. ]\d)(?<!\d\d\d)"
    # How any of them goes on; most numbers end here.
    r"(?=\d{4}|\d{3}[A-Z]|\d[A-Za-z]\d\d|\d[ .\-]\d\d|\d\d[.\-]\d|[ ]\d\d[ ])(?:"
    r"(?<=[A-Z]{2}\d)\d\d{4}[A-D](?P<nino>)"
    r"|(?<=[A-Z]{2}\d)\d \d\d \d\d ?[A-D](?P<nino2>)"
    r"|(?<=[A-Z]{2} \d)\d(?: \d\d \d\d|\d{4}) ?[A-D](?P<nino3>)"
    r"|(?<=[A-Z]{2}-\d)\d-\d\d-\d\d-[A-D](?P<nino4>)"
    r"|(?<=[A-Za-z]{6}\d)\d[A-EHLMPR-Ta-ehlmpr-t]\d\d[A-Za-z]\d{3}[A-Za-z](?P<cf>)"
    r"|(?<=[A-Za-z]{3} [A-Za-z]{3} \d)\d[A-EHLMPR-Ta-ehlmpr-t]\d\d [A-Za-z]\d{3}[A-Za-z](?P<cf2>)"
    r"|(?<=[XYZ]\d)\d{6}-?[A-Z](?P<nie>)"
    r"|(?<=[XYZ]-\d)\d{6}-?[A-Z](?P<nie2>)"
    r"|(?<=[A-Z]{5}\d)\d{3}[A-Z](?P<pan>)"
    r"|(?<=[A-Z9]{5}\d)\d{5}[A-Z9]{2}\d[A-Z]{2}(?P<dvla>)"
    r"|\d{7}[ -]?[A-Z](?P<dni>)"
    r"|\d\.\d{3}\.\d{3}[ -]?[A-Z](?P<dni2>)"
    r"|\d{6}[A-W][A-IW]?(?P<pps>)"
    r"|\d{5}[-+A-FU-Y]\d{3}[0-9A-FHJ-NPR-Y](?P<hetu>)"
    r"|\d{5}-\d{4}(?P<six>)"
    r"|\d{5}\+\d{4}(?P<old>)"
    r"|\d{7}[-+]\d{4}(?P<long>)"
    r"|\d{5}/\d{4}(?P<rc>)"
    r"|\d{5}-\d{5}(?P<lv>)"
    r"|\d\.\d\d\.\d\d-\d{3}\.\d\d(?P<be>)"
    r"|\d\d\.\d{3}\.\d{3}-\d\d(?P<cpf>)"
    r"|\d\.\d{3}\.\d{3}/\d{4}-\d\d(?P<cnpj>)"
    r"|(?<=7)56\.\d{4}\.\d{4}\.\d\d(?P<ahv>)"
    r"|(?<=[12]) \d\d \d\d (?:\d\d|2[AB]) \d{3} \d{3}(?: \d\d| ?/ ?\d\d)(?P<nir>)"
    r"|(?<=[12])\d{4}(?:\d\d|2[AB])\d{6}(?: ?\d\d)(?P<nir2>)"
    r"|(?<=9)\d\d-[5-9]\d-\d{4}(?P<itin>)"
    r"|\d{10}(?P<eleven>)"
    r"|\d{5} \d{5}(?P<no>)"
    r"|\d{7} \d [A-Z0-9]{2}\d(?P<cc>)"
    r"|\d{16}[\dX](?P<ric>)"
    r")(?![\w]|[.\-/]\w)",
    re.ASCII,
)
#: In each of these forms but two.
_FEWEST_IN_ROW: Final = 6
#: How many characters before the digit where a find begins belong to it.
_LEAD: Final = {
    "nino": 2, "nino2": 2, "nino3": 3, "nino4": 3, "cf": 6, "cf2": 8, "nie": 1, "nie2": 2, "pan": 5,
    "dvla": 5,
}  # fmt: skip


def _is_long_pnr(written: str) -> bool:
    """`20231201-1530` is a date and a time of day: only of years whose children write none."""
    return (
        1900 <= int(written[:4]) <= 2012 and not _CLOCK.search(written) and is_personnummer(written)
    )


_CLOCK: Final = re.compile(r"(?:20[0-2]\d|[0-3]\d)[01]\d[0-3]\d-(?:[01]\d|2[0-3])[0-5]\d\Z")


def _six_four(written: str) -> bool:
    return not _CLOCK.match(written) and (is_personnummer(written) or is_cpr_alone(written))


def _hetu_or_other(written: str) -> bool:
    """The forms of several countries' numbers meet where the last sign is a digit."""
    return checked(fi_hetu)(written) or (
        written[6] == "-" and written[-1].isdigit() and _six_four(written)
    )


_ALONE_CHECKS: Final[dict[str, tuple[str, str, Validator]]] = {
    "nino": ("NATIONAL_ID", "nino", is_nino),
    "nino2": ("NATIONAL_ID", "nino", is_nino),
    "nino3": ("NATIONAL_ID", "nino", is_nino),
    "nino4": ("NATIONAL_ID", "nino", is_nino),
    "cf": ("NATIONAL_ID", "codice-fiscale", checked(it_cf)),
    "cf2": ("NATIONAL_ID", "codice-fiscale", checked(it_cf)),
    "nie": ("NATIONAL_ID", "dni", checked(es_nie)),
    "nie2": ("NATIONAL_ID", "dni", checked(es_nie)),
    "pan": ("TAXID", "in-pan", is_pan_alone),
    "dvla": ("NATIONAL_ID", "driving-licence", lambda w: int(w[6:8]) % 50 in range(1, 13)),
    "dni": ("NATIONAL_ID", "dni", is_dni_alone),
    "dni2": ("NATIONAL_ID", "dni", checked(es_dni)),
    "pps": ("NATIONAL_ID", "pps", is_pps_alone),
    "hetu": ("NATIONAL_ID", "hetu", _hetu_or_other),
    "six": ("NATIONAL_ID", "personnummer", _six_four),
    "old": ("NATIONAL_ID", "personnummer", is_personnummer),
    "long": ("NATIONAL_ID", "personnummer", _is_long_pnr),
    "rc": ("NATIONAL_ID", "rodne-cislo", is_rodne_cislo),
    "lv": ("NATIONAL_ID", "baltic", lambda w: int(w[:2]) < 32 and 0 < int(w[2:4]) < 13
           and checked(lv_pvn)(w)),
    "be": ("NATIONAL_ID", "rijksregister", checked(be_nn)),
    "cpf": ("NATIONAL_ID", "cpf", checked(br_cpf)),
    "cnpj": ("TAXID", "cnpj", checked(br_cnpj)),
    "ahv": ("NATIONAL_ID", "ahv", checked(ch_ssn)),
    "nir": ("NATIONAL_ID", "nir", checked(fr_nir)),
    "nir2": ("NATIONAL_ID", "nir", lambda w: 1 <= int(w[3:5]) <= 12 and checked(fr_nir)(w)),
    "itin": ("TAXID", "itin", checked(us_itin)),
    "eleven": ("NATIONAL_ID", "fodselsnummer", checked(no_fnr, be_nn)),
    "no": ("NATIONAL_ID", "fodselsnummer", checked(no_fnr)),
    "cc": ("NATIONAL_ID", "pt-cc", checked(pt_cc)),
    "ric": ("NATIONAL_ID", "ric", lambda w: w[6:8] in ("19", "20") and _chinese(w)),
}  # fmt: skip


def _chinese(written: str) -> bool:
    """The check digit first: python-stdnum also looks up the place, which is slow."""
    return cn_ric.calc_check_digit(written) == written[-1] and cn_ric.is_valid(written)


class NationalIdRule(Rule):
    """Finds personal numbers that need no name beside them."""

    KINDS: ClassVar = ("NATIONAL_ID", "TAXID")

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(digits=4)

    def spans(self, source: Source) -> Iterator[Span]:
        """Look at every group of digits that begins like one."""
        if not (
            source.may_hold_digits(_FEWEST_IN_ROW) or source.may_hold(b"x0000x", b"x00x00")
        ):  # `pan` and `cf` are written with fewer
            return
        text = source.text
        judged: dict[str, bool] = {}
        for match in _ALONE.finditer(text):
            form = match.lastgroup or ""
            start = match.start() - _LEAD.get(form, 0)
            if start and _is_joined(text, start):
                continue
            written = text[start : match.end()]
            kind, rule, is_valid = _ALONE_CHECKS[form]
            if written not in judged:
                judged[written] = is_valid(written) and len(set(written)) > 4
            if judged[written]:
                yield Span(start, match.end(), kind, 0.85, rule)


def _is_joined(text: str, start: int) -> bool:
    before = text[start - 1]
    if before.isalnum() or before in "_$€£#@\\":
        return before.isascii()
    return before in ".-/+%" and start > 1 and text[start - 2].isalnum()
