"""Numbers and documents told by a name alone: `national id`, `tax number`, `Personalausweis`,
driving licences of any country.

Owns names behind which a number of any country may stand. Invariant: only what stands right behind
the name counts, never a year or a date. Read by `labeled`.
"""

from __future__ import annotations

from typing import Final

from gateway.redaction.detectors.id_checks import (
    is_driving_licence,
    is_id_document,
    is_named_id,
    is_social_security,
    row,
)
from gateway.redaction.detectors.labels import Reach

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
ANY_FORM: Final = r"[A-Z]{0,6}[ ]?\d(?:[ \u00a0.\-/+]?[A-Z0-9]){6,16}"
VALUES: Final = (
    row(
        "NATIONAL_ID",
        "any-id",
        _ANY_ID,
        ANY_FORM,
        is_named_id,
        reach=Reach.NEXT,
        score=0.75,
    ),
    row(
        "NATIONAL_ID",
        "any-security",
        _ANY_SECURITY,
        ANY_FORM,
        is_social_security,
        reach=Reach.NEXT,
        score=0.8,
    ),
    row("TAXID", "any-tax", _ANY_TAX, ANY_FORM, is_named_id, reach=Reach.NEXT, score=0.74),
    row(
        "NATIONAL_ID",
        "id-document",
        "national id|national identity|national identity card|national id number|national id no|"
        "id card|identity card|id card number|identity card number|identity document|"
        "personalausweis|personalausweisnummer|ausweisnummer|ausweis|ausweis nr|carta d'identità|"
        "carta di identità|carta identità|carte d'identité|carte nationale d'identité|cni|cnie|"
        "dowód osobisty|dowodu osobistego|dowodem osobistym|dowodem osobistym nr|dowód osobisty nr|"
        "dowodu osobistego nr|dowód|seria i numer|identiteitskaart|id kaart|"
        "número de soporte|idesp|αριθμός ταυτότητας|ταυτότητα|αδτ|α.δ.τ|α.δ.τ.|"
        "bilhete de identidade|občanský průkaz|číslo op|občanského průkazu|residence permit|"
        "aufenthaltstitel|titre de séjour|permesso di soggiorno|henkilökortti|national identifier|"
        "buletin|personal id|osobna iskaznica|citizen id|citizen card|government id",
        r"[A-ZΑ-Ω]{0,3}[ \-]?\d{5,12}[A-Z]{0,2}\d?|[A-Z0-9]{8,12}|[A-Z]{2}\d{5}[A-Z]{2}"
        r"|\d{8}[ \-]\d[ \-][A-Z]{2}\d|[A-Z]{3}[ ]\d{6}|[ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ]{1,2}[ \-]?\d{6}",
        is_id_document,
        reach=Reach.NEXT,
        score=0.75,
    ),
    row(
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
        is_driving_licence,
        reach=Reach.NEXT,
        loud="dl",
        score=0.75,
    ),
)
