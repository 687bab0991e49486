"""Numbers that states give to persons: national ids and tax numbers.

What is written as only one country writes it, with check digits that hold (codice fiscale, hetu,
NIE, `85.07.30-033.28`), counts anywhere. Plain digits with one check digit count only where a word
for them stands by (`VALUES`, read by `labeled`). Check digits and dates are python-stdnum's, except
the UK's NINO, which has none. Left alone: digits of one kind only, parts of longer words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import ClassVar, Final

from stdnum.ar import cuit as ar_cuit
from stdnum.at import tin as at_tin
from stdnum.at import vnr as at_vnr
from stdnum.au import tfn as au_tfn
from stdnum.be import nn as be_nn
from stdnum.be import vat as be_vat
from stdnum.bg import egn as bg_egn
from stdnum.br import cnpj as br_cnpj
from stdnum.br import cpf as br_cpf
from stdnum.ca import sin as ca_sin
from stdnum.ch import ssn as ch_ssn
from stdnum.ch import uid as ch_uid
from stdnum.cl import rut as cl_rut
from stdnum.cn import ric as cn_ric
from stdnum.cz import rc as cz_rc
from stdnum.de import idnr as de_idnr
from stdnum.de import stnr as de_stnr
from stdnum.dk import cpr as dk_cpr
from stdnum.ee import ik as ee_ik
from stdnum.es import dni as es_dni
from stdnum.es import nie as es_nie
from stdnum.fi import hetu as fi_hetu
from stdnum.fr import nif as fr_nif
from stdnum.fr import nir as fr_nir
from stdnum.gb import utr as gb_utr
from stdnum.gr import amka as gr_amka
from stdnum.gr import vat as gr_vat
from stdnum.hr import oib as hr_oib
from stdnum.ie import pps as ie_pps
from stdnum.in_ import aadhaar as in_aadhaar
from stdnum.in_ import pan as in_pan
from stdnum.is_ import kennitala as is_kennitala
from stdnum.it import codicefiscale as it_cf
from stdnum.lt import asmens as lt_asmens
from stdnum.lv import pvn as lv_pvn
from stdnum.mx import curp as mx_curp
from stdnum.nl import bsn as nl_bsn
from stdnum.no import fodselsnummer as no_fnr
from stdnum.no import orgnr as no_orgnr
from stdnum.pl import nip as pl_nip
from stdnum.pl import pesel as pl_pesel
from stdnum.pt import cc as pt_cc
from stdnum.pt import nif as pt_nif
from stdnum.ro import cnp as ro_cnp
from stdnum.se import personnummer as se_pnr
from stdnum.si import emso as si_emso
from stdnum.tr import tckimlik as tr_tckimlik
from stdnum.us import ein as us_ein
from stdnum.us import itin as us_itin

from gateway.redaction.detectors.base import Rule, Source, Triggers
from gateway.redaction.detectors.labels import Reach, Value
from gateway.redaction.detectors.labels import words as split
from gateway.redaction.spans import Span

Validator = Callable[[str], bool]

#: Between the groups of a number as people write it.
_S: Final = "[ \u00a0.\\-/]?"
#: Before and behind a number: not the middle of a longer word, decimal or identifier.
_HEAD: Final = r"(?<![\w])(?<!\w[.\-/])"
_END: Final = r"(?![\w]|[.\-/]\w)"
_SIGNS: Final = {ord(c): None for c in " \u00a0.-/+"}


def _form(body: str) -> re.Pattern[str]:
    return re.compile(f"{_HEAD}(?:{body}){_END}", re.ASCII | re.IGNORECASE)


def _digits(*groups: int) -> str:
    return _S.join(rf"\d{{{size}}}" for size in groups)


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


def _is_nino_in_context(written: str) -> bool:
    return _NINO_PREFIX.match(written.translate(_SIGNS).upper()) is not None


def _is_sin(written: str) -> bool:
    return len(set(written)) > 2 and ca_sin.is_valid(written.translate(_SIGNS))


def _is_personnummer(written: str) -> bool:
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


def _is_rodne_cislo(written: str) -> bool:
    return bool(cz_rc.is_valid(written.translate(_SIGNS)))


def _is_cpr(written: str) -> bool:
    """Since 2007 the check digit no longer holds for all: where it is named, the date decides."""
    bare = written.translate(_SIGNS)
    try:
        dk_cpr.get_birth_date(bare)
    except ValueError:  # includes python-stdnum's own
        return False
    return True


def _is_cpr_alone(written: str) -> bool:
    bare = written.translate(_SIGNS)
    return _is_cpr(bare) and dk_cpr.checksum(bare) == 0


#: Letters that end a number in source code (`86400000L`, `1.0F`) or belong to hexadecimal.
_CODE_LETTERS: Final = frozenset("ABCDEFLU")


def _is_rrn(written: str) -> bool:
    """Since October 2020 South Korea gives numbers without a check digit: the date decides."""
    bare = written.replace("-", "")
    return 1 <= int(bare[2:4]) <= 12 and 1 <= int(bare[4:6]) <= 31


def _is_dni_alone(written: str) -> bool:
    plain = written[:-1].isdigit()
    return not (plain and written[-1] in _CODE_LETTERS) and checked(es_dni)(written)


def _is_pps_alone(written: str) -> bool:
    plain = written[:-1].isdigit()
    return not (plain and written[-1] in _CODE_LETTERS) and checked(ie_pps)(written)


def _is_pan_alone(written: str) -> bool:
    return written[3] == "P" and in_pan.is_valid(written)


def _is_id_document(written: str) -> bool:
    bare = written.translate(_SIGNS)
    return (
        6 <= len(bare) <= 16
        and sum(c.isdigit() for c in bare) >= 5
        and len(set(bare)) > 2
        and not _YEARS.fullmatch(written)
    )


_YEARS: Final = re.compile(r"(?:19|20)\d\d[-/.]?\d\d[-/.]?\d\d|(?:19|20)\d\d[-/](?:19|20)\d\d")


def _is_driving_licence(written: str) -> bool:
    return _is_id_document(written)


def _value(
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
    return Value(kind, rule, split(words), _form(body), is_valid, reach, split(loud), score)


#: Names any country's number may stand behind.
_ANY_TAX: Final = (
    "tax id|taxid|tax identification|tax identification number|tax number|tax no|taxpayer id"
    "|tin no|"
    "tax ref|tax reference|tax code|taxpayer|fiscal number|fiscal code|fiscal id"
)
_ANY_ID: Final = (
    "national id|national identity|national identifier|national identification|"
    "personal id|personal code|personal identity code|personal number|personal identification|"
    "identity number|identification number|citizen id|citizen number|civil registration|"
    "id number|person number|personal no|government id|nin|national number|national id number|"
    "personal identification number|identity code|national identity number|"
    "national identification number|national registration number"
)
#: Names of the US's own number, by which other countries' are called too.
_ANY_SECURITY: Final = (
    "social security|social security number|social security no|ssn|social insurance|"
    "social insurance number|insurance number|national insurance"
)
#: Which countries' numbers a number may be, by how many characters it has.
_BY_SIZE: Final[dict[int, tuple[ModuleType, ...]]] = {
    9: (nl_bsn,),
    10: (at_vnr,),
    11: (be_nn, gr_amka, pl_pesel),
    13: (ch_ssn,),
    15: (fr_nir,),
    16: (it_cf,),
}


def _is_social_security(written: str) -> bool:
    bare = written.translate(_SIGNS).upper()
    return len(set(bare)) > 2 and (
        any(module.is_valid(bare) for module in _BY_SIZE.get(len(bare), ()))
        or _is_nino_in_context(bare)
    )


def _is_named_id(written: str) -> bool:
    """The name says what it is; what is left to tell are dates and short numbers."""
    bare = written.translate(_SIGNS)
    return (
        8 <= len(bare) <= 18
        and sum(c.isdigit() for c in bare) >= 6
        and len(set(bare)) > 2
        and _YEARS.fullmatch(written) is None
    )


_ANY_FORM: Final = r"[A-Z]{0,6}[ ]?\d(?:[ \u00a0.\-/+]?[A-Z0-9]){6,16}"


def _is_german_pension(written: str) -> bool:
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


def _is_hungarian_tax(written: str) -> bool:
    """Act CL of 2017, annex: digits times their place, mod 11."""
    return sum(int(d) * (i + 1) for i, d in enumerate(written[:9])) % 11 == int(written[9])


def _is_hungarian_id(written: str) -> bool:
    """Personal id (Act XX of 1996: places, mod 11, either direction by year) or TAJ (3 and 7)."""
    bare = written.translate(_SIGNS)
    if len(bare) == 9:
        return sum(int(d) * (3, 7)[i % 2] for i, d in enumerate(bare[:8])) % 10 == int(bare[8])
    up = sum(int(d) * (i + 1) for i, d in enumerate(bare[:10])) % 11
    down = sum(int(d) * (10 - i) for i, d in enumerate(bare[:10])) % 11
    return int(bare[10]) in (up, down)


VALUES: Final = (
    _value(
        "NATIONAL_ID",
        "nino",
        "nino|national insurance|national insurance number|ni number|ni no|n i number|"
        "insurance number",
        rf"[A-Z]{{2}}{_S}{_digits(2, 2, 2)}{_S}[A-D]?",
        _is_nino_in_context,
    ),
    _value(
        "TAXID",
        "utr",
        "utr|unique taxpayer reference|unique taxpayer",
        rf"{_digits(5, 5)}|{_digits(3, 3, 4)}",
        checked(gb_utr),
    ),
    _value(
        "NATIONAL_ID",
        "nir",
        "nir|sécurité sociale|securite sociale|numéro de sécu|numero de secu|n sécu|sécu|"
        "carte vitale|numéro insee|num secu|insee",
        rf"[1-478]{_S}\d\d{_S}\d\d{_S}(?:\d\d|2[AB]){_S}\d{{3}}{_S}\d{{3}}{_S}\d\d",
        checked(fr_nir),
    ),
    _value(
        "TAXID",
        "fr-nif",
        "numéro fiscal|numero fiscal|spi|référence fiscale|identifiant fiscal|nif",
        rf"[0-3]\d{_S}\d\d{_S}\d{{3}}{_S}\d{{3}}{_S}\d{{3}}",
        checked(fr_nif),
    ),
    _value(
        "TAXID",
        "steuer-id",
        "steuer id|steuerid|steueridentifikationsnummer|steuer identifikationsnummer|idnr|"
        "steuerliche identifikationsnummer|identifikationsnummer|steuer idnr|tin|"
        "persönliche identifikationsnummer|steuer identnummer|steuer ident",
        rf"{_digits(2, 3, 3, 3)}|\d{{11}}",
        checked(de_idnr),
    ),
    _value(
        "TAXID",
        "steuernummer",
        "steuernummer|steuer nr|st nr|stnr|steuernr",
        rf"\d{{2,3}}{_S}\d{{3,4}}{_S}\d{{4,5}}|\d{{13}}",
        checked(de_stnr),
    ),
    _value(
        "NATIONAL_ID",
        "dni",
        "dni|nif|nie|documento nacional|documento de identidad|nif nie|dni nif|documento|cif",
        r"\d{8}[ \-]?[A-Z]|\d{1,2}\.\d{3}\.\d{3}[ \-]?[A-Z]|[XYZ][ \-]?\d{7}[ \-]?[A-Z]",
        checked(es_dni, es_nie),
    ),
    _value(
        "NATIONAL_ID",
        "codice-fiscale",
        "codice fiscale|cod fiscale|cod fisc|c f|cf|codicefiscale|fiscal code|tax code",
        r"[A-Z]{3}[ ]?[A-Z]{3}[ ]?[\dL-V]{2}[A-Z][\dL-V]{2}[ ]?[A-Z][\dL-V]{3}[A-Z]",
        checked(it_cf),
    ),
    _value(
        "NATIONAL_ID",
        "pesel",
        "pesel|numer ewidencyjny",
        rf"\d{{11}}|{_digits(6, 5)}|{_digits(2, 2, 2, 5)}",
        checked(pl_pesel),
    ),
    _value("TAXID", "nip", "nip", rf"{_digits(3, 3, 2, 2)}|{_digits(3, 2, 2, 3)}", checked(pl_nip)),
    _value(
        "NATIONAL_ID",
        "bsn",
        "bsn|burgerservicenummer|burger service nummer|sofinummer|sofi nummer|sofi|citizen service",
        rf"{_digits(3, 3, 3)}|{_digits(4, 2, 3)}|{_digits(2, 3, 4)}|{_digits(4, 5)}|\d{{8}}",
        checked(nl_bsn),
    ),
    _value(
        "AMKA",
        "amka",
        "amka|αμκα|α.μ.κ.α|α.μ.κ.α.|αριθμός μητρώου κοινωνικής ασφάλισης|a.m.k.a|a.m.k.a.",
        rf"\d{{11}}|{_digits(6, 5)}|{_digits(6, 3, 2)}|{_digits(2, 2, 2, 5)}",
        checked(gr_amka),
        score=0.92,
    ),
    _value(
        "TAXID",
        "afm",
        "afm|αφμ|α.φ.μ|α.φ.μ.|a.f.m|a.f.m.|αριθμός φορολογικού μητρώου",
        rf"{_digits(3, 3, 3)}|\d{{9}}",
        checked(gr_vat),
    ),
    _value(
        "NATIONAL_ID",
        "personnummer",
        "personnummer|person nummer|personnr|pnr|samordningsnummer|födelsenummer|pers nr"
        "|personnumret",
        r"(?:19|20)?\d{6}[ \-+]?\d{4}",
        _is_personnummer,
    ),
    _value(
        "NATIONAL_ID",
        "hetu",
        "hetu|henkilötunnus|henkilotunnus|sotu|personbeteckning|hetunne",
        r"\d{6}[\-+A-FU-Y]\d{3}[0-9A-Z]",
        checked(fi_hetu),
    ),
    _value(
        "NATIONAL_ID",
        "cpr",
        "cpr|cpr nummer|cpr nr|cprnr|cpr number|personnummer",
        r"\d{6}[ \-]?\d{4}",
        _is_cpr,
    ),
    _value(
        "NATIONAL_ID",
        "fodselsnummer",
        "fødselsnummer|fodselsnummer|fnr|fødselsnr|personnummer|d nummer",
        rf"\d{{11}}|{_digits(6, 5)}|{_digits(6, 3, 2)}",
        checked(no_fnr),
    ),
    _value(
        "TAXID",
        "pt-nif",
        "nif|nipc|contribuinte|número de contribuinte|numero de contribuinte|nº contribuinte|"
        "identificação fiscal|número fiscal",
        rf"{_digits(3, 3, 3)}|\d{{9}}",
        checked(pt_nif),
    ),
    _value(
        "NATIONAL_ID",
        "pt-cc",
        "cartão de cidadão|cartao de cidadao|cartão cidadão|cc",
        rf"\d{{8}}{_S}\d{_S}[A-Z0-9]{{2}}\d",
        checked(pt_cc),
    ),
    _value(
        "NATIONAL_ID",
        "rijksregister",
        "rijksregisternummer|rijksregister|numéro de registre national|registre national|niss|"
        "numéro national|insz|rrn|nationaal nummer|numero national|nationalregisternummer"
        "|bis nummer",
        rf"{_digits(2, 2, 2, 3, 2)}|{_digits(6, 3, 2)}|{_digits(6, 5)}|\d{{11}}",
        checked(be_nn),
    ),
    _value(
        "NATIONAL_ID",
        "svnr",
        "svnr|sozialversicherungsnummer|sozialversicherungs|sv nummer|sv nr|"
        "versicherungsnummer|vsnr|svnummer|sozialversicherung",
        rf"{_digits(4, 6)}|\d{{10}}|{_digits(4, 2, 2, 2)}",
        checked(at_vnr),
    ),
    _value(
        "TAXID",
        "at-tin",
        "abgabenkontonummer|steuernummer|st nr|stnr|finanzamt",
        rf"{_digits(2, 3, 4)}|{_digits(2, 7)}|\d{{9}}",
        checked(at_tin),
    ),
    _value(
        "NATIONAL_ID",
        "de-rvnr",
        "rentenversicherungsnummer|versicherungsnummer|sozialversicherungsnummer|rvnr|svnr|"
        "sozialversicherungs|rv nummer",
        r"\d{2}[ ]?\d{6}[ ]?[A-Z][ ]?\d{3}",
        _is_german_pension,
    ),
    _value(
        "NATIONAL_ID",
        "pps",
        "pps|ppsn|personal public service|pps number|pps no|pps nr",
        r"\d{7}[ \-]?[A-W][A-IW]?|\d{7}[A-W][A-IW]?",
        checked(ie_pps),
    ),
    _value(
        "NATIONAL_ID",
        "rodne-cislo",
        "rodné číslo|rodne cislo|rodného čísla|rodným číslem|rodné č|r č|rč|rc|birth number",
        r"\d{6}[ ]?/?[ ]?\d{3,4}",
        _is_rodne_cislo,
    ),
    _value("NATIONAL_ID", "cnp", "cnp|cod numeric personal", r"\d{13}", checked(ro_cnp)),
    _value(
        "NATIONAL_ID",
        "egn",
        "egn|егн|единен граждански номер|е г н",
        r"\d{10}",
        checked(bg_egn),
    ),
    _value("NATIONAL_ID", "oib", "oib|osobni identifikacijski broj", r"\d{11}", checked(hr_oib)),
    _value(
        "NATIONAL_ID",
        "baltic",
        "asmens kodas|asmens kodą|isikukood|personas kods|personas kodu|isikukoodi|asmens kodo|a k|"
        "personal code",
        r"\d{11}|\d{6}-\d{5}",
        checked(lt_asmens, ee_ik, lv_pvn),
    ),
    _value(
        "TAXID",
        "adoazonosito",
        "adóazonosító jel|adóazonosító|adoazonosito|adóazonosító jele",
        r"8\d{9}",
        _is_hungarian_tax,
    ),
    _value(
        "NATIONAL_ID",
        "szemelyi",
        "személyi szám|személyi azonosító|személyi|szemelyi szam|taj szám|taj|tajszám",
        rf"[1-8][ \-]?\d{{6}}[ \-]?\d{{4}}|{_digits(3, 3, 3)}",
        _is_hungarian_id,
    ),
    _value("NATIONAL_ID", "emso", "emšo|emso|jmbg|matična številka", r"\d{13}", checked(si_emso)),
    _value(
        "NATIONAL_ID",
        "ahv",
        "ahv|avs|ahv nummer|avs nr|navs|ahvn13|sozialversicherungsnummer|numéro avs|oasi",
        rf"756{_S}\d{{4}}{_S}\d{{4}}{_S}\d\d",
        checked(ch_ssn),
    ),
    _value(
        "NATIONAL_ID",
        "sin",
        "social insurance|social insurance number|numéro d'assurance sociale|assurance sociale",
        _digits(3, 3, 3),
        _is_sin,
        loud="sin|nas",
    ),
    _value(
        "TAXID",
        "tfn",
        "tfn|tax file|tax file number",
        rf"{_digits(3, 3, 3)}|{_digits(3, 3, 2)}",
        checked(au_tfn),
    ),
    _value(
        "NATIONAL_ID",
        "aadhaar",
        "aadhaar|aadhar|adhaar|uidai|आधार",
        _digits(4, 4, 4),
        checked(in_aadhaar),
        loud="uid",
    ),
    _value(
        "TAXID",
        "in-pan",
        "pan card|pan number|pan no|permanent account",
        r"[A-Z]{5}\d{4}[A-Z]",
        checked(in_pan),
        loud="pan",
    ),
    _value(
        "NATIONAL_ID",
        "tckimlik",
        "tc kimlik|tc kimlik no|t.c. kimlik no|t c kimlik no|t.c. kimlik|kimlik no|tckn|tckimlik|"
        "tc kimlik numarası|kimlik numarası|tc no|vatandaşlık numarası|tc kimlik numarasi",
        r"[1-9]\d{10}|[1-9]\d{2}[ ]\d{3}[ ]\d{3}[ ]\d\d",
        checked(tr_tckimlik),
    ),
    _value(
        "NATIONAL_ID",
        "kennitala",
        "kennitala|kennitalan|kennitölu|kt|icelandic id",
        r"[0-7]\d{5}[ \-]?\d{4}",
        checked(is_kennitala),
    ),
    _value(
        "TAXID",
        "enterprise",
        "kbo|kbo nummer|ondernemingsnummer|numéro d'entreprise|numero d'entreprise|"
        "enterprise number|unternehmensnummer",
        rf"{_digits(4, 3, 3)}|[01]\d{{9}}",
        checked(be_vat),
        loud="bce",
        score=0.92,
    ),
    _value(
        "TAXID",
        "orgnr",
        "orgnr|org nr|org.nr|organisasjonsnummer|organisasjonsnr|organisasjonsnummeret",
        _digits(3, 3, 3),
        checked(no_orgnr),
        score=0.92,
    ),
    _value(
        "TAXID",
        "ch-uid",
        "uid|uid nummer|uid nr|unternehmens identifikationsnummer|numéro ide|ide",
        r"CHE[ \-]?\d{3}[. ]?\d{3}[. ]?\d{3}(?![ ]?(?:MWST|TVA|IVA|VAT))",
        checked(ch_uid),
        score=0.92,
    ),
    _value(
        "TAXID",
        "cuit",
        "cuit|cuil|clave única de identificación",
        r"(?:20|2[3-7]|3[034])-?\d{8}-?\d",
        checked(ar_cuit),
    ),
    _value(
        "NATIONAL_ID",
        "rut",
        "rol único tributario|rol único nacional",
        r"\d{1,2}\.\d{3}\.\d{3}-[\dKk]|\d{7,8}-[\dKk]",
        checked(cl_rut),
        loud="rut|run",
    ),
    _value(
        "NATIONAL_ID",
        "curp",
        "curp|clave única de registro",
        r"[A-Z]{4}\d{6}[HMX][A-Z]{5}[A-Z0-9]\d",
        checked(mx_curp),
    ),
    _value(
        "NATIONAL_ID",
        "rrn",
        "rrn|resident registration number|resident registration|주민등록번호|"
        "주민번호|외국인등록번호",
        r"\d{6}-?[1-8]\d{6}",
        _is_rrn,
    ),
    _value("NATIONAL_ID", "cpf", "cpf", rf"{_digits(3, 3, 3, 2)}|\d{{11}}", checked(br_cpf)),
    _value("TAXID", "cnpj", "cnpj", rf"{_digits(2, 3, 3, 4, 2)}", checked(br_cnpj)),
    _value(
        "TAXID",
        "itin",
        "itin|individual taxpayer",
        r"9\d\d[ \-]?[5-9]\d[ \-]?\d{4}",
        checked(us_itin),
    ),
    _value(
        "TAXID",
        "ein",
        "fein|employer identification|employer id|employer identification number|federal tax id|"
        "federal ein|ein number",
        r"\d\d-\d{7}|\d{9}",
        us_ein.is_valid,
        loud="ein|tin",
        score=0.8,
    ),
    _value(
        "NATIONAL_ID",
        "any-id",
        _ANY_ID,
        _ANY_FORM,
        _is_named_id,
        reach=Reach.NEXT,
        score=0.75,
    ),
    _value(
        "NATIONAL_ID",
        "any-security",
        _ANY_SECURITY,
        _ANY_FORM,
        _is_social_security,
        reach=Reach.NEXT,
        score=0.8,
    ),
    _value("TAXID", "any-tax", _ANY_TAX, _ANY_FORM, _is_named_id, reach=Reach.NEXT, score=0.74),
    _value(
        "NATIONAL_ID",
        "id-document",
        "national id|national identity|national identity card|national id number|national id no|"
        "id card|identity card|id card number|identity card number|identity document|"
        "personalausweis|personalausweisnummer|ausweisnummer|ausweis|ausweis nr|carta d'identità|"
        "carta di identità|carta identità|carte d'identité|carte nationale d'identité|cni|cnie|"
        "dowód osobisty|dowodu osobistego|dowód|seria i numer|identiteitskaart|id kaart|"
        "número de soporte|idesp|αριθμός ταυτότητας|ταυτότητα|αδτ|α.δ.τ|α.δ.τ.|"
        "bilhete de identidade|občanský průkaz|číslo op|občanského průkazu|residence permit|"
        "aufenthaltstitel|titre de séjour|permesso di soggiorno|henkilökortti|national identifier|"
        "buletin|personal id|osobna iskaznica|citizen id|citizen card|government id",
        r"[A-ZΑ-Ω]{0,3}[ \-]?\d{5,12}[A-Z]{0,2}\d?|[A-Z0-9]{8,12}|[A-Z]{2}\d{5}[A-Z]{2}"
        r"|\d{8}[ \-]\d[ \-][A-Z]{2}\d|[A-Z]{3}[ ]\d{6}|[ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ]{1,2}[ \-]?\d{6}",
        _is_id_document,
        reach=Reach.NEXT,
        score=0.75,
    ),
    _value(
        "NATIONAL_ID",
        "driving-licence",
        "driving licence|driver licence|driver license|driving license|drivers license|"
        "drivers licence|driver's license|driver's licence|driving licence number|dvla|"
        "driver license number|drivers license number|license number|führerschein|"
        "führerscheinnummer|führerschein nr|permis de conduire|permiso de conducir|"
        "carnet de conducir|patente di guida|patente|prawo jazdy|rijbewijs|rijbewijsnummer|"
        "körkort|ajokortti|kørekort|førerkort|carta de condução|δίπλωμα οδήγησης|"
        "άδεια οδήγησης|řidičský průkaz|dl number|driver lic|dln|dl no",
        r"[A-Z0-9](?:[ \-]?[A-Z0-9]){5,19}",
        _is_driving_licence,
        reach=Reach.NEXT,
        loud="dl",
        score=0.75,
    ),
)


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
        1900 <= int(written[:4]) <= 2012
        and not _CLOCK.search(written)
        and _is_personnummer(written)
    )


_CLOCK: Final = re.compile(r"(?:20[0-2]\d|[0-3]\d)[01]\d[0-3]\d-(?:[01]\d|2[0-3])[0-5]\d\Z")


def _six_four(written: str) -> bool:
    return not _CLOCK.match(written) and (_is_personnummer(written) or _is_cpr_alone(written))


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
    "pan": ("TAXID", "in-pan", _is_pan_alone),
    "dvla": ("NATIONAL_ID", "driving-licence", lambda w: int(w[6:8]) % 50 in range(1, 13)),
    "dni": ("NATIONAL_ID", "dni", _is_dni_alone),
    "dni2": ("NATIONAL_ID", "dni", checked(es_dni)),
    "pps": ("NATIONAL_ID", "pps", _is_pps_alone),
    "hetu": ("NATIONAL_ID", "hetu", _hetu_or_other),
    "six": ("NATIONAL_ID", "personnummer", _six_four),
    "old": ("NATIONAL_ID", "personnummer", _is_personnummer),
    "long": ("NATIONAL_ID", "personnummer", _is_long_pnr),
    "rc": ("NATIONAL_ID", "rodne-cislo", _is_rodne_cislo),
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
