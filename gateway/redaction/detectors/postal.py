"""Postal codes and whole addresses where a text names them: `zip code is 35350`, `"address": "…"`.

The forms by which streets and places are known without a name are in `addresses`. Read by
`labeled`. An address that is named counts to the end of its field: a quote, a line's end, a column.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.redaction.detectors.labels import Reach, Value, words

#: Capital letters of any script, near enough: no lower-case letter of Latin-1.
UP: Final = r"[^\W\d_a-zß-öø-ÿ]"
UK_CODE: Final = (
    r"(?:A[BL]|B[ABDHLNRST]?|C[ABFHMORTVW]|D[ADEGHLNTY]|E[CHNX]?|F[KY]|G[LUY]?|H[ADGPRSUX]|I[GPV]|"
    r"K[ATWY]|L[ADELNSU]?|M[EKL]?|N[EGNPRW]?|O[LX]|P[AEHLOR]|R[GHM]|S[AEGKLMNOPRSTWY]?|T[ADFNQRSW]|"
    r"UB|W[ACDFNRSV]?|YO|ZE|BT|BH|GIR|JE|IM|CF|LL|SY|NP|WD)\d[A-Z\d]?[ ]\d[ABD-HJLNP-UW-Z]{2}"
)
CODE: Final = (
    rf"(?:(?:[A-Z]{{1,3}}-)?\d{{3}}[ ]\d{{2}}|(?:[A-Z]{{1,3}}-)?\d{{4,6}}(?:-\d{{3,4}})?"
    rf"|\d{{2}}-\d{{3}}|{UK_CODE}"
    r"|\d{4}[ ]?[A-Z]{2}|[A-Z]\d[A-Z][ ]?\d[A-Z]\d|[A-Z]{2}-?\d{4}|[A-Z]{3}[ ]\d{4}"
    r"|[ACDEFHKNPRTVWXY]\d[\dW][ ][0-9AC-FHKNPRTV-Y]{4})"
)


def is_address(written: str) -> bool:
    """A word, a number of a house, and nothing of source code."""
    return (
        _WORD.search(written) is not None
        and _HOUSE.search(written) is not None
        and _CODE_SIGNS.search(written) is None
        and len(written.split()) >= 2
        and _ROOM.fullmatch(written) is None
        and _PHONE_CELL.search(written) is None
    )


#: A place in a calendar, in a house that everybody knows.
_ROOM: Final = re.compile(
    r"(?:(?:meeting|conference|class|board|hot)[ ]?)?(?:room|raum|salle|sala|saal|zimmer|sal|zaal|"
    r"hall|desk|floor|level|gate|rack|lab)[ ][A-Z]?\d{1,4}[A-Za-z]?",
    re.IGNORECASE,
)
#: A cell with a phone: the row below the head of a table, whose last column is the address.
_PHONE_CELL: Final = re.compile(r"[,;|]\+?[\d(][\d ()./\-]{7,20}\d[,;|]")
_WORD: Final = re.compile(r"[^\W\d_]{3}")
_HOUSE: Final = re.compile(r"(?<![\w.:])\d{1,6}[A-Za-z]?(?![\w:]|\.\d)")
_CODE_SIGNS: Final = re.compile(
    r"://|@|0x|[={}<>\[\]%$*+^~`]|\w\(|::|\.\w{1,4}:\d|\b(?:\d{1,3}\.){3}\d|\b(?:byte|bit|offset|"
    r"port|address|pointer|range|type|int|field|register|line|memory|size|index|length|must|"
    r"should|iban|bic|vat|ip|ipv4|ipv6|family|space|block|column|table|page|version)s?\b",
    re.IGNORECASE,
)

VALUES: Final = (
    Value(
        "ADDRESS",
        "postal-code",
        words(
            "zip code|zip|postal code|postcode|post code|zip/postal code|postleitzahl|plz|"
            "code postal|código postal|codigo postal|c.a.p.|código postal|kod pocztowy|"
            "postinumero|postnummer|postnr|irányítószám|psč|psc|ταχυδρομικός κώδικας|τ.κ.|τκ|"
            "cod poștal|cod postal|eircode|cep|poštanski broj|poštna številka|indeks|pin code|"
            "postcode is|zip is|zip code is|zip plus four|zip4"
        ),
        re.compile(rf"(?<![\w.])(?<!\w\()(?:{CODE}|\d{{3}})(?![\w]|[.\-/]\w)"),
        lambda written: any(c.isdigit() for c in written) and len(set(written)) > 1,
        Reach.NEXT,
        (),
        0.7,
    ),
    Value(
        "ADDRESS",
        "named-address",
        words(
            "address|home address|street address|billing address|shipping address|mailing address|"
            "delivery address|postal address|residential address|street|street name|address line|"
            "address line 1|address1|addr|address_line_1|addressline1|street1|line1|"
            "current address|full address|office address|residence|adresse|anschrift|wohnadresse|"
            "lieferadresse|rechnungsadresse|straße|strasse|adresse postale|domicile|dirección|"
            "direccion|domicilio|calle|indirizzo|indirizzo di residenza|residenza|via|adres|"
            "adres zamieszkania|ulica|woonadres|straat|straatnaam|endereço|endereco|morada|rua|"
            "διεύθυνση|οδός|adress|gatuadress|adresse|osoite|katuosoite|cím|lakcím|adresa|bydliště|"
            "heimilisfang|адрес|rue|location"
        ),
        re.compile(
            r"(?:(?<=[:=>\"'|,;\t\n`])|(?<=[:=>|,;\t][ ])|\A)"
            rf"(?:\d{{1,6}}[A-Za-z]?(?:[-/]\d{{1,4}}[A-Za-z]?)?,?[ ])?(?:{UP}"
            rf"|[a-z]{{2,12}}[ .]{{1,2}}{UP}|"
            rf"\d{{1,3}}(?:st|nd|rd|th)[ ])"
            r"[^\n\r\"<>{}|;=\t]{3,120}?(?=[\"<|;\t\n\r]|'[\s,;)\]}]|',|\Z"
            # A sentence that ends, not `St. Louis`.
            rf"|(?:(?<=[^\W\d_]{{5}})|(?<=\d\d\d))\.[ ]{{1,2}}{UP}[^\W\d_])"
        ),
        is_address,
        Reach.NEXT,
        (),
        0.7,
    ),
)
