"""Numbers of health care: medical records, patients, insurance, prescriptions.

Those with check digits (NHS number, German and Austrian insurance, Quebec aside) near a word for
them, others right behind it; a US Medicare number as it is printed needs no name. Read by
`labeled`. Check digits are python-stdnum's where it has them.
"""

from __future__ import annotations

import re
from typing import Final

from stdnum import luhn
from stdnum.ca import bc_phn
from stdnum.gb import nhs

from gateway.redaction.detectors.labels import Reach, Value, words

_SIGNS: Final = {ord(c): None for c in " \u00a0-."}
_HEAD: Final = r"(?<![\w])(?<!\w[.\-/])"
_END: Final = r"(?![\w]|[.\-/]\w)"


def _is_nhs(written: str) -> bool:
    bare = written.translate(_SIGNS)
    return len(set(bare)) > 2 and nhs.is_valid(bare)


def _is_chi(written: str) -> bool:
    """Scotland's community health index: a date of birth first, the NHS number's check digit."""
    bare = written.translate(_SIGNS)
    return int(bare[:2]) in range(1, 32) and int(bare[2:4]) in range(1, 13)


def _is_kvnr(written: str) -> bool:
    """German health insurance (SGB V section 290): the letter as two digits, then as Luhn does it
    from the left with weights 1 and 2."""
    bare = written.translate(_SIGNS).upper()
    digits = f"{ord(bare[0]) - 64:02d}{bare[1:9]}"
    total = sum(sum(divmod(int(d) * (1 + i % 2), 10)) for i, d in enumerate(digits))
    return total % 10 == int(bare[9])


def _is_medicare_au(written: str) -> bool:
    """Medicare Australia: weights 1 3 7 9 over the first eight, the ninth is the check digit."""
    bare = written.translate(_SIGNS)
    weights = (1, 3, 7, 9, 1, 3, 7, 9)
    total = sum(int(d) * w for d, w in zip(bare, weights, strict=False))
    return bare[0] in "23456" and total % 10 == int(bare[8])


def _is_phn(written: str) -> bool:
    bare = written.translate(_SIGNS)
    return bool(bc_phn.is_valid(bare)) or luhn.is_valid(bare)


def _is_record(written: str) -> bool:
    """Enough digits to be one person's, and no date."""
    bare = written.translate(_SIGNS)
    digits = sum(c.isdigit() for c in bare)
    return digits >= 5 and len(bare) <= 20 and not _DATE.match(written)


_DATE: Final = re.compile(
    r"(?:19|20)\d\d([-/.]?)\d\d\1\d\d(?![\d\-/])|\d{1,2}([-/.])\d{1,2}\2\d{4}"
)


#: US Medicare beneficiary identifier (CMS): letters without S L O I B Z at set places.
_L: Final = "[AC-HJKMNP-RT-Y]"
MBI: Final = rf"[1-9]{_L}[0-9AC-HJKMNP-RT-Y]\d-?{_L}[0-9AC-HJKMNP-RT-Y]\d-?{_L}{{2}}\d\d"

VALUES: Final = (
    Value(
        "HEALTH",
        "nhs",
        words(
            "nhs|nhs number|nhs no|nhs num|nhs id|nhsnumber|national health service|health number|"
            "patient|patient number|nhs nr"
        ),
        re.compile(rf"{_HEAD}\d{{3}}[ \-.]?\d{{3}}[ \-.]?\d{{4}}{_END}", re.ASCII),
        _is_nhs,
        score=0.92,
    ),
    Value(
        "HEALTH",
        "chi",
        words("chi number|chi no|community health index"),
        re.compile(rf"{_HEAD}(?:\d{{6}}[ \-]?\d{{4}}|\d{{3}}[ ]\d{{3}}[ ]\d{{4}}){_END}", re.ASCII),
        _is_chi,
        Reach.NEXT,
        words("chi"),
    ),
    Value(
        "HEALTH",
        "kvnr",
        words(
            "krankenversichertennummer|versichertennummer|kvnr|krankenkasse|krankenversicherung|"
            "krankenversicherungsnummer|versicherten nr|versichertennr|versicherten id|"
            "versicherungsnummer|egk|kv nummer|gkv|gesundheitskarte|krankenversicherten nr|"
            "health insurance|insurance number|insurance no"
        ),
        re.compile(
            rf"{_HEAD}[A-Z][ ]?\d{{3}}[ ]?\d{{3}}[ ]?\d{{3}}{_END}", re.ASCII | re.IGNORECASE
        ),
        _is_kvnr,
        score=0.92,
    ),
    Value(
        "HEALTH",
        "mbi",
        words(
            "mbi|medicare|medicare number|medicare id|medicare beneficiary identifier|medicare no|"
            "beneficiary identifier"
        ),
        re.compile(rf"{_HEAD}(?:{MBI}){_END}", re.IGNORECASE),
        lambda _: True,
    ),
    Value(
        "HEALTH",
        "medicare-au",
        words("medicare|medicare number|medicare card|medicare no"),
        re.compile(rf"{_HEAD}\d{{4}}[ \-]?\d{{5}}[ \-]?\d(?:[ \-/]?\d)?{_END}", re.ASCII),
        _is_medicare_au,
    ),
    Value(
        "HEALTH",
        "phn",
        words(
            "phn|personal health number|ohip|ohip number|health card|health card number|"
            "health card no|provincial health"
        ),
        re.compile(
            rf"{_HEAD}\d{{4}}[ \-]?\d{{3}}[ \-]?\d{{3}}(?:[ \-]?[A-Z]{{2}})?{_END}", re.ASCII
        ),
        lambda written: _is_phn(written[:12] if written[-1].isalpha() else written),
        Reach.NEXT,
    ),
    Value(
        "HEALTH",
        "patient-code",  # `Patient P-7727194`
        words("patient|patientin|paziente|paciente|pacjent|pacjentka|potilas"),
        re.compile(rf"{_HEAD}[A-Z]{{1,4}}-?\d{{5,10}}{_END}", re.ASCII),
        lambda _: True,
        Reach.NEXT,
        (),
        0.7,
    ),
    Value(
        "HEALTH",
        "record-dashed",  # also the form of a social security number, which it is not here
        words(
            "mrn|medical record|medical record number|medical record no|medical record #|"
            "medical rec|patient mrn|chart number|chart no|chart #|hospital number|mr #"
        ),
        re.compile(rf"{_HEAD}\d{{3}}-\d{{2}}-\d{{4}}{_END}", re.ASCII),
        lambda _: True,
        Reach.NEXT,
        (),
        0.93,
    ),
    Value(
        "HEALTH",
        "record",
        words(
            "mrn|medical rec|medical rec.|med. rec.|med. record|clinical record|clinical file|"
            "hospital record|hospital file|chart #|chart nr|chart id|pat.-nr|pat.-id|pat.nr|"
            "patientenkennung|patienten kennung|fall nr|fall id|behandlungsnummer|"
            "expediente clínico|expediente clinico|historial clínico|historial médico|"
            "historia médica|dossier clinique|dossier hospitalier|numéro de dossier hospitalier|"
            "codice sanitario|numer karty pacjenta|karty pacjenta|patiëntnr|patientnr|"
            "prontuário|número do prontuário|medical record|medical record number|"
            "medical record no|medical rec no|"
            "medical record #|med rec|patient id|patient no|patient number|patient identifier|"
            "patient record|patient mrn|chart number|chart no|hospital number|hospital no|"
            "hospital id|health record|health record number|clinic number|ehr id|emr number|"
            "patientennummer|patienten id|patienten nr|fallnummer|patientnummer|patiëntnummer|"
            "numéro de dossier médical|dossier médical|numéro patient|n° patient"
            "|identifiant patient|"
            "ipp|historia clínica|número de historia clínica|historia clinica|nhc|"
            "cartella clinica|numero cartella|tessera sanitaria|numer pacjenta|"
            "numer kartoteki|potilasnumero|journalnummer|αριθμός μητρώου ασθενούς|"
            "health insurance|health insurance number|health insurance no|health insurance id|"
            "health plan id|health plan|insurance member id|member id|subscriber id|"
            "insurance id|insurance policy|insurance policy number|policy holder id|"
            "policy number|group number|beneficiary id|beneficiary number|hicn|health id|"
            "medicaid id|medicaid|medicaid number|medicare number|medicare id|ehic|ehic number|"
            "european health insurance card|versicherungsnummer|versichertennummer|"
            "kvnr|numéro d'assuré|numéro de mutuelle|mutuelle|"
            "número de seguridad social|naf|seguridad social|tarjeta sanitaria|cip|sns|"
            "número de utente|nº utente|utente|número sns|numero tessera|"
            "zorgverzekering|polisnummer|verzekeringsnummer|klantnummer zorg|"
            "krankenakte|krankenaktennummer|krankenakten nr|krankenblatt nr|patientenakte|"
            "patientenaktennummer|"
            "aufnahmenummer|patiëntendossier|patiëntdossier|numéro de dossier patient|"
            "dossier patient|"
            "numéro d'identification du patient|nº de historia|nº historia clínica|"
            "nº de historia clínica|número de paciente|código de paciente|"
            "número de expediente médico|"
            "expediente médico|"
            "cartella clinica numero|numero cartella clinica|codice paziente|id paziente|"
            "historii choroby|historia choroby|numer historii choroby|karta pacjenta|id pacjenta|"
            "processo clínico|número de processo clínico|patientjournal|journalnr|"
            "medical chart|medical chart number|medical file number|medical file no|patient chart|"
            "patient file|patient file number|patient code|pat id|pat no|pat nr|mr #|mr number|"
            "mr no|"
            "hospital mrn|uhid|unit record number|health record id|clinical record number|"
            "prescription number|rx number|rx no|accession number|specimen id|health card"
        ),
        re.compile(
            r"(?<![\w])(?:[A-Z]{1,6}[\-/ ]?)?\d{1,12}(?:(?:[\-/]?|[ ]"
            r"(?=[A-Z]{0,3}\d))[A-Z0-9]{1,10}){0,4}"
            r"(?![\w]|[.\-/]\w)",
            re.IGNORECASE,
        ),
        _is_record,
        Reach.NEXT,
        (),
        0.75,
    ),
)
