"""Lines of many kinds and countries, written after the rules: all marked values are found, each
exactly, and nothing else is. Every value is invented."""

from __future__ import annotations

import re

import pytest

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy_file import load_policy

LINES = [
    '{"person":{"identifiers":[{"type":"BSN","value":"«111222333»"}]}}',
    "// TODO remove test customer with CPR «211062-5629»",
    "<nino>«JG103759A»</nino>",
    "nif=«54362315K»&x=1",
    "https://x.example/p?pesel=«44051401458»&y=2",
    '"DateOfBirth" : "«1979-06-07T00:00:00»"',
    "dob=«1979-06-07»&email=",
    'user.dob = "«07/06/1979»"',
    "age: 44, born: «7.6.1979»",
    "geb.: «7.6.79»",
    "**DOB:** «June 7, 1979»",
    "| Date of birth | «07 Jun 1979» |",
    "Geburtsdatum des Patienten: «07.06.1979»",
    "birthdate (yyyy-mm-dd): «1979-06-07»",
    "Date de naissance du patient : «07/06/1979»",
    "patient_birth_date: «19790607»",
    "Her passport, number «533012345», expires 2030",
    "Passport Number / Passeport No. «GA302922»",
    "travel document no «L8988901C»",
    "LatLng 40.7128",
    "his SSN is «536-90-4399» and EIN «91-1144442»",
    "national insurance number «JG 10 37 59 A»",
    "TIN «36574261809»",
    "taxpayer_id: «36574261809»",
    "Medicare Number: «1EG4TE5MK73»",
    'health_insurance_id="«A123456780»"',
    "hospital no. «RX2281934»",
    "Deliver to «Rosenweg 3, 4051 Basel»",
    "Lieferadresse: «Am Markt 5, 28195 Bremen»",
    "«Platz der Republik 1, 11011 Berlin»",
    "«5 Avenue Anatole France, 75007 Paris, France»",
    "Adresse : «3 place Bellecour, 69002 Lyon»",
    "«Piazza del Duomo 1, 20122 Milano»",
    "«Paseo de la Castellana 89, 28046 Madrid»",
    "«Plaza Mayor 3, 37001 Salamanca»",
    "«Oudegracht 112 bis, 3511 AW Utrecht»",
    "«Strandvejen 100, 2900 Hellerup»",
    "«Rynek 12, 50-101 Wrocław»",
    "«4821 Oak Ridge Road, Suite 200, Austin, TX 78701-4321»",
    "«P.O. Box 445, Boise, ID 83701»",
    "«27B Elm Grove, Leeds LS6 2AB»",
    '"line1": "«88 Colin P Kelly Jr St»", "postal_code": "«94107»"',
    '"postcode": "«SW1A 1AA»"',
    "address line: «18 Queen's Road»",
    "«1060 West Addison Street, Chicago, IL 60613»",
    "«77 Massachusetts Ave, Cambridge, MA 02139»",
    "Ethernet adapter: «F0-9F-C2-11-22-33»",
    "arp: «192.0.3.9» at «f0:9f:c2:11:22:33»",
    "fingerprint SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8",
    "TRX «TJRabPrwbZy45sbavfcjinPJC18kjpRTv8»",
    'contract = "«0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48»"',
    "hash 0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48a0b86991c6218b36c1d19d4a",
    "Phone (home): «(02) 9374 4000»",
    "Mob: «0412 345 678»",
    "T: «01 234 5678»",
    "tel «+1.415.555.2671»",
    "WhatsApp «+55 11 91234-5678»",
    "ring me on oh two oh",
    "Call «1 (800) 555-0199»",
    '"telefono": "«333 123 4567»"',
    "№ тел. «+359 88 123 4567»",
    "Kontakt tel.: «22 123 45 67»",
    "Amex «3714-496353-98431»",
    "card_number: «4111111111111111»",
    "credit card 4111 1111 1111 1112",
    "2026-01-02T10:00:00Z WARN kyc failed user=81 doc=passport num=«P1234567» dob=«1979-06-07»",
    '  "birth": {"date": "«1979-06-07»"},',
    "customer.setBirthDate(LocalDate.of(«1979, 6, 7»));",
    "UPDATE kunden SET steuer_id='«36574261809»', geburtsdatum='«07.06.1979»' WHERE id=5;",
    "Jmeno: x, rodne cislo «710319/2745»",
    "I"
    "l"
    " "
    "s"
    "o"
    "t"
    "t"
    "o"
    "s"
    "c"
    "r"
    "i"
    "t"
    "t"
    "o"
    ","
    " "
    "n"
    "a"
    "t"
    "o"
    " "
    "a"
    " Napoli il «07/06/1979», C.F. «RCCMNL83S18D969H», residente in «Via Toledo 156, 80134 Napoli»",
    "E"
    "l"
    " "
    "p"
    "a"
    "c"
    "i"
    "e"
    "n"
    "te con DNI «54362315K», nacido el «07/06/1979», domiciliado en «Calle Larios 4, 29015 Málaga»",
    "M"
    "m"
    "e"
    " "
    "X"
    ","
    " "
    "n"
    "é"
    "e"
    " "
    "l"
    "e"
    " «7 juin 1979» à Lyon, demeurant «14 rue Mercière, 69002 Lyon», n° SS «1 85 05 78 006 084 91»",
    "Herr Y, geb. «07.06.1979», wohnhaft «Schillerstraße 8, 04109 Leipzig», Tel. «0341 1234567»",
    "Sehr geehrte Frau Z, Ihre Steuer-Identifikationsnummer «36 574 261 809»",
    "mijn bsn is «111222333» en ik woon op «Prinsengracht 263, 1016 GV Amsterdam»",
    "Mieszkam przy «ul. Długiej 7/3, 31-147 Kraków», PESEL «44051401458»",
    "bor på «Sveavägen 44, 113 50 Stockholm»",
    "Osoite: «Mannerheimintie 3 B 14, 00100 Helsinki»",
    "Bopæl: «Vestergade 12, 1. th, 8000 Aarhus C»",
    "Morada: «Rua do Ouro 88, 2.º Esq., 1100-063 Lisboa»",
    "Η διεύθυνσή μου: «Σόλωνος 12, 106 73 Αθήνα»",
    "Cím: «1052 Budapest, Váci utca 10.»",
    "Adresa: «Str. Lipscani nr. 25, București»",
    "Bydliště: «Dlouhá 12, 110 00 Praha 1»",
    "mac address «a4:83:e7:0b:9c:21» joined ssid",
    "[wifi] BSSID «A4-83-E7-0B-9C-21» rssi -60",
    "eth wallet: «0x71c7656ec7ab88b098defb751b7401b5f6d8976f»",
    "Send BTC to «bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq» thanks",
    "VAT ID: «IE6433435F»",
    "USt-ID «DE 136 695 976»",
    "N° TVA intracommunautaire : «FR40303265045»",
    "KVNR: «A123456780»",
    "NHS «9434765870»",
    'insurance_member_id = "«HPX-20491823»"',
    "Medicaid ID «12345678A»",
    "Driver License: «S530-4209-7812»",
    "license_number: «D08954796»",
    "permis de conduire n° «13AA00002»",
    "carta d'identità «CA00000AA»",
    "CNI n° «880692310285»",
    "Passport («L01X00T47»)",
    'reisepassnummer = "«C01X0006H»"',
    "Паспорт «4510 123456»",
    "Nr paszportu: «ZS 0000177»",
    "call «+351 912 345 678» or «+353 86 123 4567»",
    "mob. «0049 176 123 456 78»",
    "Fax «+39 06 6982 1234»",
    "contact=«07700 900 982»;",
    "Anna Berg, «070-174 06 35», Malmö",
    '"mobile": "«+45 20 12 34 56»"',
    "tlf. «22 33 44 55»",
    "GSM: «0486 12 34 56»",
    "|  Ola | «912 34 567» |",
    "sms naar «06 1234 5678»",
    "ruf mich an: «0151/12345678»",
    "Tel: «(0341) 12 34 567»",
    "'«+3616123456»', 'x'",
    "kontakt: «601 123 456»",
    "Card: «4000 0566 5566 5556» exp 09/28",
    "pan=«3056 9309 0259 04»",
    "«6759 6498 2643 8453»",
    "«3566 0020 2036 0505»",
    "visa ending 4242",
    "IBAN: «nl91 abna 0417 1643 00»",
    "iban=«PL61 1090 1014 0000 0712 1981 2874»",
    "src=«203.0.114.77» dst=10.0.0.1",
    "remote «2a00:1450:4009:81f::200e» closed",
    "build 5.6.7.8",
    '"id": 44051401458',
    "order 2110625629",
    "sku 12345678Z9",
    "version 10.0.22621.1",
    "epoch 1751328000000",
    "uuid 123e4567-e89b-12d3-a456-426614174000",
    "lat=48.858844, lng=2.294351",
    "git 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "0x5f3759df",
    "1,234,567,890.12",
    "1 234 567,89 EUR",
    "ISBN 978-3-16-148410-0",
    "EAN 4006381333931",
    "FF D8 FF E0 00 10 4A 46 49 46",
    "12:34:56.789012",
    "2026-11-29 19:20:03,123",
    "#!/usr/bin/env 3.11.7",
    '"checksum": "3c22fb1a2b3c"',
    "color: #12345678",
    "range(1000000000, 2000000000)",
    "port 8080, 8443, 9000",
    "Fixes #12345678",
    "[0.123456, 1.234567, 2.345678]",
    "12 July 2024 meeting notes",
    "5 Main branches",
    "3 Park items",
    "Drive 12 GB",
    "Court case 12",
    "see Section 12, Highway 5",
]

VATS = [
    "ATU13585627", "BE0428759497", "BG175074752", "CY10259033P", "CZ25123891",
    "DE136695976", "DK13585628", "EE100931558", "EL094259216", "ESB58378431",
    "FI20774740", "FR40303265045", "GB980780684", "HR33392005961", "HU12892312",
    "IE6433435F", "IT00743110157", "LT119511515", "LU15027442", "LV40003521600",
    "MT11679112", "NL004495445B01", "PL8567346215", "PT501964843", "RO18547290",
    "SE123456789701", "SI50223054", "SK2022749619", "XI980780684",
]  # fmt: skip


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(load_policy())


@pytest.mark.parametrize("line", LINES)
def test_what_is_marked_is_found_and_nothing_else(detector: Detector, line: str) -> None:
    wanted = []
    text = ""
    for number, part in enumerate(re.split("[«»]", line)):
        if number % 2:
            wanted.append((len(text), len(text) + len(part)))
        text += part
    found = [(s.start, s.end) for s in detector.find(text) if s.kind != "NAME"]
    assert found == wanted


@pytest.mark.parametrize("vat", VATS)
def test_a_vat_number_of_every_state_is_found_with_its_prefix_or_its_name(
    detector: Detector, vat: str
) -> None:
    for text in (vat, f"{vat[:2]} {vat[2:]} is ours", f'"vat": "{vat}"'):
        assert [span.kind for span in detector.find(text)] == ["VAT"]
    named = f"VAT number: {vat[2:]}"
    assert [named[span.start : span.end] for span in detector.find(named)] == [vat[2:]]
    wrong = f"{vat[:5]}{(int(vat[5]) + 1) % 10}{vat[6:]}"
    assert "VAT" not in [span.kind for span in detector.find(wrong)]
