"""National ids and tax numbers of countries outside Europe, with the words for them.

Owns one row for each number: kind, rule, words, form, check. Invariant: the form is bounded and
parts of longer words are never matched. Read by `labeled`, near a word.
"""

from __future__ import annotations

from typing import Final

from stdnum.ar import cuit as ar_cuit
from stdnum.au import tfn as au_tfn
from stdnum.br import cnpj as br_cnpj
from stdnum.br import cpf as br_cpf
from stdnum.cl import rut as cl_rut
from stdnum.in_ import aadhaar as in_aadhaar
from stdnum.in_ import pan as in_pan
from stdnum.mx import curp as mx_curp
from stdnum.tr import tckimlik as tr_tckimlik
from stdnum.us import ein as us_ein
from stdnum.us import itin as us_itin

from gateway.redaction.detectors.id_checks import checked, digits, is_rrn, is_sin, row

VALUES: Final = (
    row(
        "NATIONAL_ID",
        "sin",
        "social insurance|social insurance number|numéro d'assurance sociale|assurance sociale",
        digits(3, 3, 3),
        is_sin,
        loud="sin|nas",
    ),
    row(
        "TAXID",
        "tfn",
        "tfn|tax file|tax file number",
        rf"{digits(3, 3, 3)}|{digits(3, 3, 2)}",
        checked(au_tfn),
    ),
    row(
        "NATIONAL_ID",
        "aadhaar",
        "aadhaar|aadhar|adhaar|uidai|आधार",
        digits(4, 4, 4),
        checked(in_aadhaar),
        loud="uid",
    ),
    row(
        "TAXID",
        "in-pan",
        "pan card|pan number|pan no|permanent account",
        r"[A-Z]{5}\d{4}[A-Z]",
        checked(in_pan),
        loud="pan",
    ),
    row(
        "NATIONAL_ID",
        "tckimlik",
        "tc kimlik|tc kimlik no|t.c. kimlik no|t c kimlik no|t.c. kimlik|kimlik no|tckn|tckimlik|"
        "tc kimlik numarası|kimlik numarası|tc no|vatandaşlık numarası|tc kimlik numarasi",
        r"[1-9]\d{10}|[1-9]\d{2}[ ]\d{3}[ ]\d{3}[ ]\d\d",
        checked(tr_tckimlik),
    ),
    row(
        "TAXID",
        "cuit",
        "cuit|cuil|clave única de identificación",
        r"(?:20|2[3-7]|3[034])-?\d{8}-?\d",
        checked(ar_cuit),
    ),
    row(
        "NATIONAL_ID",
        "rut",
        "rol único tributario|rol único nacional",
        r"\d{1,2}\.\d{3}\.\d{3}-[\dKk]|\d{7,8}-[\dKk]",
        checked(cl_rut),
        loud="rut|run",
    ),
    row(
        "NATIONAL_ID",
        "curp",
        "curp|clave única de registro",
        r"[A-Z]{4}\d{6}[HMX][A-Z]{5}[A-Z0-9]\d",
        checked(mx_curp),
    ),
    row(
        "NATIONAL_ID",
        "rrn",
        "rrn|resident registration number|resident registration|주민등록번호|"
        "주민번호|외국인등록번호",
        r"\d{6}-?[1-8]\d{6}",
        is_rrn,
    ),
    row("NATIONAL_ID", "cpf", "cpf", rf"{digits(3, 3, 3, 2)}|\d{{11}}", checked(br_cpf)),
    row("TAXID", "cnpj", "cnpj", rf"{digits(2, 3, 3, 4, 2)}", checked(br_cnpj)),
    row(
        "TAXID",
        "itin",
        "itin|individual taxpayer",
        r"9\d\d[ \-]?[5-9]\d[ \-]?\d{4}",
        checked(us_itin),
    ),
    row(
        "TAXID",
        "ein",
        "fein|employer identification|employer id|employer identification number|federal tax id|"
        "federal ein|ein number",
        r"\d\d-\d{7}|\d{9}",
        us_ein.is_valid,
        loud="ein|tin",
        score=0.8,
    ),
)
