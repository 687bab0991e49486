"""National ids and tax numbers of the EU, the UK, Norway, Iceland and Switzerland, with the words
for them in their languages.

Owns one row for each number: kind, rule, words, form, check. Invariant: the form is bounded and
parts of longer words are never matched. Read by `labeled`, near a word.
"""

from __future__ import annotations

from typing import Final

from stdnum.at import tin as at_tin
from stdnum.at import vnr as at_vnr
from stdnum.be import nn as be_nn
from stdnum.be import vat as be_vat
from stdnum.bg import egn as bg_egn
from stdnum.ch import ssn as ch_ssn
from stdnum.ch import uid as ch_uid
from stdnum.de import idnr as de_idnr
from stdnum.de import stnr as de_stnr
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
from stdnum.is_ import kennitala as is_kennitala
from stdnum.it import codicefiscale as it_cf
from stdnum.lt import asmens as lt_asmens
from stdnum.lv import pvn as lv_pvn
from stdnum.nl import bsn as nl_bsn
from stdnum.no import fodselsnummer as no_fnr
from stdnum.no import orgnr as no_orgnr
from stdnum.pl import nip as pl_nip
from stdnum.pl import pesel as pl_pesel
from stdnum.pt import cc as pt_cc
from stdnum.pt import nif as pt_nif
from stdnum.ro import cnp as ro_cnp
from stdnum.si import emso as si_emso

from gateway.redaction.detectors.id_checks import (
    SIGN,
    checked,
    digits,
    is_cpr,
    is_german_pension,
    is_hungarian_id,
    is_hungarian_tax,
    is_nino_in_context,
    is_personnummer,
    is_rodne_cislo,
    is_spanish_security,
    row,
)

VALUES: Final = (
    row(
        "NATIONAL_ID",
        "nino",
        "nino|national insurance|national insurance number|ni number|ni no|n i number|"
        "insurance number",
        rf"[A-Z]{{2}}{SIGN}{digits(2, 2, 2)}{SIGN}[A-D]?",
        is_nino_in_context,
    ),
    row(
        "TAXID",
        "utr",
        "utr|unique taxpayer reference|unique taxpayer",
        rf"{digits(5, 5)}|{digits(3, 3, 4)}",
        checked(gb_utr),
    ),
    row(
        "NATIONAL_ID",
        "nir",
        "nir|sécurité sociale|securite sociale|numéro de sécu|numero de secu|n sécu|sécu|"
        "carte vitale|numéro insee|num secu|insee",
        rf"[1-478]{SIGN}\d\d{SIGN}\d\d{SIGN}(?:\d\d|2[AB]){SIGN}\d{{3}}{SIGN}\d{{3}}{SIGN}\d\d",
        checked(fr_nir),
    ),
    row(
        "TAXID",
        "fr-nif",
        "numéro fiscal|numero fiscal|n fiscal|n° fiscal|nº fiscal|"
        "no fiscal|spi|référence fiscale|identifiant fiscal|nif",
        rf"[0-3]\d{SIGN}\d\d{SIGN}\d{{3}}{SIGN}\d{{3}}{SIGN}\d{{3}}",
        checked(fr_nif),
    ),
    row(
        "TAXID",
        "steuer-id",
        "steuer id|steuerid|steueridentifikationsnummer|steuer identifikationsnummer|idnr|"
        "steuerliche identifikationsnummer|identifikationsnummer|steuer idnr|tin|"
        "persönliche identifikationsnummer|steuer identnummer|steuer ident",
        rf"{digits(2, 3, 3, 3)}|\d{{11}}",
        checked(de_idnr),
    ),
    row(
        "TAXID",
        "steuernummer",
        "steuernummer|steuer nr|st nr|stnr|steuernr",
        rf"\d{{2,3}}{SIGN}\d{{3,4}}{SIGN}\d{{4,5}}|\d{{13}}",
        checked(de_stnr),
    ),
    row(
        "NATIONAL_ID",
        "dni",
        "dni|nif|nie|documento nacional|documento de identidad|nif nie|dni nif|documento|cif",
        r"\d{8}[ \-]?[A-Z]|\d{1,2}\.\d{3}\.\d{3}[ \-]?[A-Z]|[XYZ][ \-]?\d{7}[ \-]?[A-Z]",
        checked(es_dni, es_nie),
    ),
    row(
        "NATIONAL_ID",
        "nuss",
        "nss|nuss|naf|seguridad social|número de afiliación|nº afiliación|"
        "número de la seguridad social|número de seguridad social",
        rf"\d\d{SIGN}\d{{7,8}}{SIGN}\d\d",
        is_spanish_security,
    ),
    row(
        "NATIONAL_ID",
        "codice-fiscale",
        "codice fiscale|cod fiscale|cod fisc|c f|cf|codicefiscale|fiscal code|tax code",
        r"[A-Z]{3}[ ]?[A-Z]{3}[ ]?[\dL-V]{2}[A-Z][\dL-V]{2}[ ]?[A-Z][\dL-V]{3}[A-Z]",
        checked(it_cf),
    ),
    row(
        "NATIONAL_ID",
        "pesel",
        "pesel|numer ewidencyjny",
        rf"\d{{11}}|{digits(6, 5)}|{digits(2, 2, 2, 5)}",
        checked(pl_pesel),
    ),
    row("TAXID", "nip", "nip", rf"{digits(3, 3, 2, 2)}|{digits(3, 2, 2, 3)}", checked(pl_nip)),
    row(
        "NATIONAL_ID",
        "bsn",
        "bsn|burgerservicenummer|burger service nummer|sofinummer|sofi nummer|sofi|citizen service",
        rf"{digits(3, 3, 3)}|{digits(4, 2, 3)}|{digits(2, 3, 4)}|{digits(4, 5)}|\d{{8}}",
        checked(nl_bsn),
    ),
    row(
        "AMKA",
        "amka",
        "amka|αμκα|α.μ.κ.α|α.μ.κ.α.|αριθμός μητρώου κοινωνικής ασφάλισης|a.m.k.a|a.m.k.a.",
        rf"\d{{11}}|{digits(6, 5)}|{digits(6, 3, 2)}|{digits(2, 2, 2, 5)}",
        checked(gr_amka),
        score=0.92,
    ),
    row(
        "TAXID",
        "afm",
        "afm|αφμ|α.φ.μ|α.φ.μ.|a.f.m|a.f.m.|αριθμός φορολογικού μητρώου",
        rf"{digits(3, 3, 3)}|\d{{9}}",
        checked(gr_vat),
    ),
    row(
        "NATIONAL_ID",
        "personnummer",
        "personnummer|person nummer|personnr|pnr|samordningsnummer|födelsenummer|pers nr"
        "|personnumret",
        r"(?:19|20)?\d{6}[ \-+]?\d{4}",
        is_personnummer,
    ),
    row(
        "NATIONAL_ID",
        "hetu",
        "hetu|henkilötunnus|henkilotunnus|sotu|personbeteckning|hetunne",
        r"\d{6}[\-+A-FU-Y]\d{3}[0-9A-Z]",
        checked(fi_hetu),
    ),
    row(
        "NATIONAL_ID",
        "cpr",
        "cpr|cpr nummer|cpr nr|cprnr|cpr number|personnummer",
        r"\d{6}[ \-]?\d{4}",
        is_cpr,
    ),
    row(
        "NATIONAL_ID",
        "fodselsnummer",
        "fødselsnummer|fodselsnummer|fnr|fødselsnr|personnummer|d nummer",
        rf"\d{{11}}|{digits(6, 5)}|{digits(6, 3, 2)}",
        checked(no_fnr),
    ),
    row(
        "TAXID",
        "pt-nif",
        "nif|nipc|contribuinte|número de contribuinte|numero de contribuinte|nº contribuinte|"
        "identificação fiscal|número fiscal",
        rf"{digits(3, 3, 3)}|\d{{9}}",
        checked(pt_nif),
    ),
    row(
        "NATIONAL_ID",
        "pt-cc",
        "cartão de cidadão|cartao de cidadao|cartão cidadão|cc",
        rf"\d{{8}}{SIGN}\d{SIGN}[A-Z0-9]{{2}}\d",
        checked(pt_cc),
    ),
    row(
        "NATIONAL_ID",
        "rijksregister",
        "rijksregisternummer|rijksregister|numéro de registre national|registre national|niss|"
        "numéro national|insz|rrn|nationaal nummer|numero national|nationalregisternummer"
        "|bis nummer",
        rf"{digits(2, 2, 2, 3, 2)}|{digits(6, 3, 2)}|{digits(6, 5)}|\d{{11}}",
        checked(be_nn),
    ),
    row(
        "NATIONAL_ID",
        "svnr",
        "svnr|sozialversicherungsnummer|sozialversicherungs|sv nummer|sv nr|"
        "versicherungsnummer|vsnr|svnummer|sozialversicherung",
        rf"{digits(4, 6)}|\d{{10}}|{digits(4, 2, 2, 2)}",
        checked(at_vnr),
    ),
    row(
        "TAXID",
        "at-tin",
        "abgabenkontonummer|steuernummer|st nr|stnr|finanzamt",
        rf"{digits(2, 3, 4)}|{digits(2, 7)}|\d{{9}}",
        checked(at_tin),
    ),
    row(
        "NATIONAL_ID",
        "de-rvnr",
        "rentenversicherungsnummer|versicherungsnummer|sozialversicherungsnummer|rvnr|svnr|"
        "sozialversicherungs|rv nummer",
        r"\d{2}[ ]?\d{6}[ ]?[A-Z][ ]?\d{3}",
        is_german_pension,
    ),
    row(
        "NATIONAL_ID",
        "pps",
        "pps|ppsn|personal public service|pps number|pps no|pps nr",
        r"\d{7}[ \-]?[A-W][A-IW]?|\d{7}[A-W][A-IW]?",
        checked(ie_pps),
    ),
    row(
        "NATIONAL_ID",
        "rodne-cislo",
        "rodné číslo|rodne cislo|rodného čísla|rodným číslem|rodné č|r č|rč|rc|birth number",
        r"\d{6}[ ]?/?[ ]?\d{3,4}",
        is_rodne_cislo,
    ),
    row("NATIONAL_ID", "cnp", "cnp|cod numeric personal", r"\d{13}", checked(ro_cnp)),
    row(
        "NATIONAL_ID",
        "egn",
        "egn|егн|единен граждански номер|е г н",
        r"\d{10}",
        checked(bg_egn),
    ),
    row("NATIONAL_ID", "oib", "oib|osobni identifikacijski broj", r"\d{11}", checked(hr_oib)),
    row(
        "NATIONAL_ID",
        "baltic",
        "asmens kodas|asmens kodą|isikukood|personas kods|personas kodu|isikukoodi|asmens kodo|a k|"
        "personal code",
        r"\d{11}|\d{6}-\d{5}",
        checked(lt_asmens, ee_ik, lv_pvn),
    ),
    row(
        "TAXID",
        "adoazonosito",
        "adóazonosító jel|adóazonosító|adoazonosito|adóazonosító jele",
        r"8\d{9}",
        is_hungarian_tax,
    ),
    row(
        "NATIONAL_ID",
        "szemelyi",
        "személyi szám|személyi azonosító|személyi|szemelyi szam|taj szám|taj|tajszám",
        rf"[1-8][ \-]?\d{{6}}[ \-]?\d{{4}}|{digits(3, 3, 3)}",
        is_hungarian_id,
    ),
    row("NATIONAL_ID", "emso", "emšo|emso|jmbg|matična številka", r"\d{13}", checked(si_emso)),
    row(
        "NATIONAL_ID",
        "ahv",
        "ahv|avs|ahv nummer|avs nr|navs|ahvn13|sozialversicherungsnummer|numéro avs|oasi",
        rf"756{SIGN}\d{{4}}{SIGN}\d{{4}}{SIGN}\d\d",
        checked(ch_ssn),
    ),
    row(
        "NATIONAL_ID",
        "kennitala",
        "kennitala|kennitalan|kennitölu|kt|icelandic id",
        r"[0-7]\d{5}[ \-]?\d{4}",
        checked(is_kennitala),
    ),
    row(
        "TAXID",
        "enterprise",
        "kbo|kbo nummer|ondernemingsnummer|numéro d'entreprise|numero d'entreprise|"
        "enterprise number|unternehmensnummer",
        rf"{digits(4, 3, 3)}|[01]\d{{9}}",
        checked(be_vat),
        loud="bce",
        score=0.92,
    ),
    row(
        "TAXID",
        "orgnr",
        "orgnr|org nr|org.nr|organisasjonsnummer|organisasjonsnr|organisasjonsnummeret",
        digits(3, 3, 3),
        checked(no_orgnr),
        score=0.92,
    ),
    row(
        "TAXID",
        "ch-uid",
        "uid|uid nummer|uid nr|unternehmens identifikationsnummer|numéro ide|ide",
        r"CHE[ \-]?\d{3}[. ]?\d{3}[. ]?\d{3}(?![ ]?(?:MWST|TVA|IVA|VAT))",
        checked(ch_uid),
        score=0.92,
    ),
)
