"""Street addresses of many countries, and what only looks like one."""

from __future__ import annotations

import re

import pytest

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy_file import load_policy

#: The address stands between the marks, and nothing else is found in the line.
FOUND = [
    ("ADDRESS", "«742 Evergreen Terrace, Springfield, IL 62704»"),
    ("ADDRESS", "ship to «10 Downing Street, London SW1A 2AA» please"),
    ("ADDRESS", "«Unter den Linden 77, 10117 Berlin»"),
    ("ADDRESS", "«Lindenstr. 5, 60325 Frankfurt am Main»"),
    ("ADDRESS", "«Königsallee 27, 40212 Düsseldorf»"),
    ("ADDRESS", "«8 bis avenue Foch, 75116 Paris»"),
    ("ADDRESS", "«25, boulevard Saint-Michel, 75005 Paris»"),
    ("ADDRESS", "«Calle Mayor 12, 3ºA, 28013 Madrid»"),
    ("ADDRESS", "«C/ Serrano, 45, 28001 Madrid»"),
    ("ADDRESS", "«Avda. de América 115, 28002 Madrid»"),
    ("ADDRESS", "«Via Garibaldi 12, 20121 Milano (MI)»"),
    ("ADDRESS", "«Corso Vittorio Emanuele II, 15, 00186 Roma»"),
    ("ADDRESS", "«Herengracht 182, 1016 BR Amsterdam»"),
    ("ADDRESS", "«Kalverstraat 92, 1012 PH Amsterdam»"),
    ("ADDRESS", "«ul. Marszałkowska 10/12, 00-590 Warszawa»"),
    ("ADDRESS", "«al. Jerozolimskie 65, 00-697 Warszawa»"),
    ("ADDRESS", "«Viale Mazzini, 56/A, 20142 Milano MI»"),
    ("ADDRESS", "przy «al. Kościuszki 30 m. 2, 00-170 Warszawa»"),
    ("ADDRESS", "Wien office: «Gartengasse 26/5/10, 1070 Wien»"),
    ("ADDRESS", "woonachtig te «Dorpslaan 46-II, 3856RN Haarlem»"),
    ("ADDRESS", "Office: «7-43-7 Azabudai, Shibuya-ku, Tokyo 150-0021»"),
    ("ADDRESS", "at «Kitahama 3-chome 12-4, Chuo-ku, Osaka 541-0033»"),
    ("ADDRESS", "to «Room 1201, 5-34-5 Roppongi, Minato-ku, Tokyo 106-0010, Japan»"),
    ("ADDRESS", "«Drottninggatan 71, 111 36 Stockholm»"),
    ("ADDRESS", "«Nørrebrogade 44, 2200 København N»"),
    ("ADDRESS", "«Karl Johans gate 22, 0159 Oslo»"),
    ("ADDRESS", "«Aleksanterinkatu 15 B 3, 00100 Helsinki»"),
    ("ADDRESS", "«Rua de Santa Catarina 312, 4000-443 Porto»"),
    ("ADDRESS", "«Avenida da Liberdade, 110, 1269-046 Lisboa»"),
    ("ADDRESS", "«Ερμού 25, 105 63 Αθήνα»"),
    ("ADDRESS", "Οδός: «Ερμού 25, 105 63 Αθήνα»"),
    ("ADDRESS", "«Flat 3, 45 Gloucester Road, Bristol BS7 8AD»"),
    ("ADDRESS", "«123 Main St Apt 4B, Brooklyn, NY 11201»"),
    ("ADDRESS", "«1 Infinite Loop, Cupertino, CA 95014»"),
    ("ADDRESS", "«350 Fifth Avenue, 34th Floor, New York, NY 10118»"),
    ("ADDRESS", "«PO Box 1234, Portland, OR 97207»"),
    ("ADDRESS", "«Postfach 10 01 02, 50441 Köln»"),
    ("ADDRESS", '"street": "«Hauptstr. 5»"'),
    ("ADDRESS", '"address": "«Václavské náměstí 1, Praha»"'),
    ("ADDRESS", "INSERT INTO c VALUES ('Ann', '«12 Rue Victor Hugo»');"),
    ("ADDRESS", "my zip code is «90210»"),
    ("ADDRESS", "PLZ «10115»"),
    ("ADDRESS", "«Andrássy út 60, 1062 Budapest»"),
    ("ADDRESS", "«Bahnhofstrasse 21, 8001 Zürich»"),
    ("ADDRESS", "wohnt in der «Goethestraße 14a»"),
    ("ADDRESS", "j'habite au «17 rue des Lilas»"),
    ("ADDRESS", "vivo en «calle Olmo 8, 2º izq»"),
    ("ADDRESS", "«12 O'Connell Street Upper», Dublin 1"),
]

LEFT_ALONE = [
    "set the -ku flag, version 1-2-3 Foo, bar-shi",
    "12 Points",
    "There are 3 Ways to do it",
    "5 Keys and 2 Locks",
    "see RFC 2965, section 1:",
    "PEP 302 loader and",
    "address = 0x7fff5694dc58",
    "address: 127.0.0.1:8080",
    '"address": "tcp://0.0.0.0:9000"',
    "the address of line 12",
    "Address4 object. Throws",
    "on the street",
    "Wall Street fell",
    "drive 2 of 3",
    "Copyright 2001 Python Software Foundation",
    "March 12, 2024 Release",
    "Python 3, 2023 Edition",
    "suite 12 passed",
    "unit 5 of the tests",
    "zip 3 files",
    "zip(a, b)",
    "via Route 53",
    "51 Franklin St, Fifth Floor, Boston, MA 02110-1301 USA",
    "import 5 Place",
    "5 Close calls",
    "class Street: number = 12",
    "Smith et al. Nature 12, 345",
    "2 Run the tests",
    "E1 2AB in hexadecimal is e12ab"[:0] or "0xE1 0x2A",
    "type: string",
    "location: eu-west-1",
    "rue = 12",
    "im Jahr 2024",
    "am Montag 12",
    "os.open(TESTMOD, os.O_CREAT, 000)",
    "self.assertEqual(C.DECIMAL128, 128)",
    "self.assertNotEqual(Season.SPRING, 1)",
    "tuples = list(zip(range(100), range(99, -1)))",
    "localAddress, // TODO(HTTP/2): Add support for h2c",
]


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(load_policy())


def is_exactly_found(detector: Detector, kind: str, line: str) -> bool:
    """Whether the one thing found in `line` is what stands between the marks."""
    before, value, _ = re.split("[«»]", line)
    text = line.replace("«", "").replace("»", "")
    wanted = (kind, len(before), len(before) + len(value))
    return [(span.kind, span.start, span.end) for span in detector.find(text)] == [wanted]


@pytest.mark.parametrize(("kind", "line"), FOUND, ids=[line for _, line in FOUND])
def test_an_address_is_found_whole(detector: Detector, kind: str, line: str) -> None:
    assert is_exactly_found(detector, kind, line)


@pytest.mark.parametrize("line", LEFT_ALONE)
def test_what_is_no_address_is_left_alone(detector: Detector, line: str) -> None:
    assert detector.find(line) == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n  ", "\n> "])
def test_an_address_over_several_lines_is_one_value(detector: Detector, end: str) -> None:
    for lines in (
        ["Hauptstraße 12", "10115 Berlin"],
        ["12 rue de la Paix", "75002 Paris"],
        ["221 Baker Street", "London NW1 6XE"],
        ["1600 Amphitheatre Parkway", "Mountain View, CA 94043"],
    ):
        text = end.join(lines)
        assert [(s.start, s.end) for s in detector.find(text)] == [(0, len(text))], text
