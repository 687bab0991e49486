"""VAT numbers of the EU's member states, Northern Ireland, Great Britain, Norway and Switzerland.

With its country before it and check digits that hold, a number counts anywhere; without, where a
word for it stands by. Validators are python-stdnum's, one for each country.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType
from typing import ClassVar, Final

from stdnum.at import uid as at
from stdnum.be import vat as be
from stdnum.bg import vat as bg
from stdnum.ch import vat as ch
from stdnum.cy import vat as cy
from stdnum.cz import dic as cz
from stdnum.de import vat as de
from stdnum.dk import cvr as dk
from stdnum.ee import kmkr as ee
from stdnum.es import nif as es
from stdnum.fi import alv as fi
from stdnum.fr import tva as fr
from stdnum.gb import vat as gb
from stdnum.gr import vat as gr
from stdnum.hr import oib as hr
from stdnum.hu import anum as hu
from stdnum.ie import vat as ie
from stdnum.it import iva as it
from stdnum.lt import pvm as lt
from stdnum.lu import tva as lu
from stdnum.lv import pvn as lv
from stdnum.mt import vat as mt
from stdnum.nl import btw as nl
from stdnum.no import mva as no
from stdnum.no import orgnr as no_orgnr
from stdnum.pl import nip as pl
from stdnum.pt import nif as pt
from stdnum.ro import cf as ro
from stdnum.se import vat as se
from stdnum.si import ddv as si
from stdnum.sk import dph as sk

from gateway.redaction.detectors.base import Rule, Source, Triggers
from gateway.redaction.detectors.labels import Reach, Value, words
from gateway.redaction.spans import Span

#: By prefix: python-stdnum's module, and how many characters follow the prefix.
_COUNTRIES: Final[dict[str, tuple[ModuleType, tuple[int, ...]]]] = {
    "AT": (at, (9,)), "BE": (be, (10,)), "BG": (bg, (9, 10)), "CY": (cy, (9,)),
    "CZ": (cz, (8, 9, 10)), "DE": (de, (9,)), "DK": (dk, (8,)), "EE": (ee, (9,)), "EL": (gr, (9,)),
    "GR": (gr, (9,)), "ES": (es, (9,)), "FI": (fi, (8,)), "FR": (fr, (11,)), "GB": (gb, (5, 9, 12)),
    "XI": (gb, (9, 12)), "HR": (hr, (11,)), "HU": (hu, (8,)), "IE": (ie, (8, 9)),
    "IT": (it, (11,)), "LT": (lt, (9, 12)), "LU": (lu, (8,)), "LV": (lv, (11,)), "MT": (mt, (8,)),
    "NL": (nl, (12,)), "NO": (no_orgnr, (9,)), "PL": (pl, (10,)), "PT": (pt, (9,)),
    "RO": (ro, (6, 7, 8, 9, 10)), "SE": (se, (12,)), "SI": (si, (8,)), "SK": (sk, (10,)),
}  # fmt: skip

_PREFIXED: Final = re.compile(
    "(?:" + "|".join(_COUNTRIES) + r")(?<![A-Za-z0-9_][A-Z]{2})[ \u00a0.\-]?"
    r"(?=[A-Z0-9+*]{0,2}[ .\-]?\d)[A-Z0-9](?:[ \u00a0.\-]?[A-Z0-9]){4,14}(?![A-Za-z0-9_])"
)
_SWISS: Final = re.compile(
    r"CHE[- ]?\d{3}[. ]?\d{3}[. ]?\d{3}(?:[ ]?(?:MWST|TVA|IVA|TPV|VAT))?(?!\w)", re.ASCII
)
_NORWEGIAN: Final = re.compile(
    r"(?:NO ?)?\d(?<!\w\d)(?<!\w[.-]\d)\d\d ?\d{3} ?\d{3} ?MVA(?!\w)", re.ASCII
)
_SIGNS: Final = {ord(c): None for c in " \u00a0.-/"}
#: Behind such a number, groups in capitals may belong to the text (`DE 136 695 976 HRB 1234`).
_GROUP_END: Final = re.compile(r"[ \u00a0.\-]")


def is_vat(written: str) -> bool:
    """Whether this is a VAT number with its country's prefix."""
    bare = written.translate(_SIGNS).upper()
    if bare.startswith("CHE"):
        return bool(ch.is_valid(bare if not bare[-1].isdigit() else bare + "MWST"))
    if bare.endswith("MVA"):
        return bool(no.is_valid(bare))
    country = _COUNTRIES.get(bare[:2])
    if country is None or len(bare) - 2 not in country[1] or len(set(bare[2:])) < 3:
        return False
    return bool(country[0].is_valid(bare[2:]))


def is_unprefixed(written: str) -> bool:
    """Whether any country's check digits hold, of a number that is named a VAT number."""
    bare = written.translate(_SIGNS).upper()
    if sum(c.isdigit() for c in bare) < _FEWEST_DIGITS:
        return False
    if is_vat(bare):
        return True
    return len(set(bare)) > 2 and any(
        len(bare) in sizes and module.is_valid(bare) for module, sizes in _COUNTRIES.values()
    )


_FEWEST_DIGITS: Final = 7
#: Of Irish numbers, with a letter behind the first digit.
_FEWEST_IN_ROW: Final = 5

VALUES: Final = (
    Value(
        "VAT",
        "vat",
        words(
            "vat|vat id|vat number|vat no|vat reg|vat registration|vat registration number|"
            "vatin|ust id|ustid|ust idnr|ust id nr|ust-idnr|ust-id-nr|umsatzsteuer id|"
            "uid nummer|umsatzsteuer identifikationsnummer|umsatzsteuer|mwst|mwst nr|tva|"
            "n° tva|numéro de tva|tva intracommunautaire|tva intracom|iva|partita iva|p.iva|"
            "p. iva|p.iva.|p iva|btw|btw nummer|btw nr|momsnummer|moms|momsnr|vat nr|"
            "alv numero|alv tunnus|y tunnus|cvr|cvr nr|cvr nummer|dič|dic|ič dph|nip|nif|"
            "nipc|cif|cif nif|número de iva|pvn|pvm|kmkr|käibemaksukohustuslase|ddv|"
            "id za ddv|oib|pdv|pdv id|adószám|adoszam|közösségi adószám|ддс|ид номер|cui|"
            "cod fiscal|αφμ|α.φ.μ.|orgnr|org nr|organisasjonsnummer|mva|organisationsnummer|"
            "company vat|btw id|eu vat|gst vat|ondernemingsnummer|numéro d'entreprise|"
            "mwst nummer|uid"
        ),
        re.compile(
            r"(?<![\w])(?<!\w[.\-/])(?:CHE[ .\-]?|[A-Z]{2}[ .\-]?)?U?[A-Z0-9]{0,2}\d"
            r"(?:[ \u00a0.\-/]?[A-Z0-9])"
            r"{5,12}(?![\w]|[.\-/]\w)",
            re.ASCII | re.IGNORECASE,
        ),
        is_unprefixed,
        Reach.NEXT,
        (),
        0.8,
    ),
)


class VatRule(Rule):
    """Finds VAT numbers with their country before them."""

    KINDS: ClassVar = ("VAT",)

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(digits=2)

    def spans(self, source: Source) -> Iterator[Span]:
        """Look behind every country's two letters."""
        text = source.text
        # Those of British departments are three digits.
        if not source.may_hold_digits(_FEWEST_IN_ROW) and "GB" not in text:
            return
        judged: dict[str, bool] = {}
        for match in _PREFIXED.finditer(text):
            end = _valid_end(text, match, judged)
            if end:
                yield Span(match.start(), end, "VAT", 0.9, "vat")
        if "CHE" in text:
            for match in _SWISS.finditer(text):
                if _is_free(text, match.start()) and is_vat(match.group()):
                    yield Span(match.start(), match.end(), "VAT", 0.9, "vat")
        if "MVA" in text:
            for match in _NORWEGIAN.finditer(text):
                if is_vat(match.group()):
                    yield Span(match.start(), match.end(), "VAT", 0.9, "vat")


def _is_free(text: str, start: int) -> bool:
    return start == 0 or not (text[start - 1].isalnum() or text[start - 1] == "_")


def _valid_end(text: str, match: re.Match[str], judged: dict[str, bool]) -> int:
    """Where the number ends: at the end of what was matched, or at a sign within it."""
    start, end = match.span()
    sizes = {size + 2 for size in _COUNTRIES[match.group()[:2]][1]}
    while True:
        written = text[start:end]
        if len(written.translate(_SIGNS)) in sizes:
            if written not in judged:
                judged[written] = is_vat(written)
            if judged[written]:
                return end
        cut = max(text.rfind(sign, start + 4, end) for sign in (" ", "\u00a0", "."))
        if cut < 0:
            return 0
        end = cut
