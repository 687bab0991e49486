"""Ordinary values in other forms: broken lines, typesetters' blanks, accents apart, coded letters,
markup between name and value, dumps, cards and calendars; and what only looks like them. Every
value is invented."""

from __future__ import annotations

import json
import re
import unicodedata
from urllib.parse import quote, quote_plus

import pytest

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy_file import load_policy

#: One of each kind that needs no name beside it.
BARE = {
    "EMAIL": "ines.goncalves@kommune.example.pt",
    "PHONE": "+44 20 7946 0958",
    "CARD": "4539 1488 0343 6467",
    "IBAN": "DE89 3704 0044 0532 0130 00",
    "IP": "85.207.191.61",
    "SSN": "219-09-9999",
    "VAT": "DE136695976",
    "ADDRESS": "Hauptstraße 12, 10115 Berlin",
    "WALLET": "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
}
#: And of those that do.
NAMED = {
    "PASSPORT": ("passport_number", "C01X00T47"),
    "BIRTHDATE": ("date_of_birth", "1961-04-08"),
    "NATIONAL_ID": ("bsn", "111222333"),
    "HEALTH": ("patient_id", "A5424485"),
    "TAXID": ("afm", "094259216"),
    "NAME": ("full_name", "Chiara Esposito"),
    "PHONE": ("mobile", "21 234 5812"),
}
SURROUNDINGS = (
    '<ns2:{name} xsi:type="xsd:string">{value}</ns2:{name}>',
    '<input type="text" name="{name}" value="{value}">',
    '<span class="label">{name}:</span> <span class="value">{value}</span>',
    "<dt>{name}</dt>\n<dd>{value}</dd>",
    "<{name}>{value}</{name}>",
    "DETAIL:  Key ({name})=({value}) already exists.",
    'let {name}: String = "{value}";',
    "> {name}: {value}",
    "{name}\t{value}\n",
    "COPY public.users (id, {name}, note) FROM stdin;\n7\t{value}\tx\n\\.",
    "INSERT INTO u (id, note, {name}) VALUES\n(1, 'a (b) c', '{value}');",
    '@pytest.mark.parametrize(("{name}", "ok"), [\n    ("{value}", "yes"),\n])',
    "> | id | {name} |\n> |---|---|\n> | 1 | {value} |",
)


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(load_policy())


def kinds_of(detector: Detector, text: str, value: str) -> set[str]:
    """The kinds of what covers all of `value` in the text."""
    at = text.index(value)
    found = detector.find(text)
    return {s.kind for s in found if s.start <= at and at + len(value) <= s.end}


@pytest.mark.parametrize("surroundings", SURROUNDINGS)
@pytest.mark.parametrize("kind", NAMED)
def test_a_named_value_is_found_whatever_stands_between(
    detector: Detector, kind: str, surroundings: str
) -> None:
    name, value = NAMED[kind]
    assert kind in kinds_of(detector, surroundings.format(name=name, value=value), value)


@pytest.mark.parametrize("blank", ["\u00a0", "\u2007", "\u2009", "\u202f", "\u3000"])
@pytest.mark.parametrize("kind", ["PHONE", "CARD", "IBAN", "ADDRESS"])
def test_any_blank_of_a_typesetter_is_a_blank(detector: Detector, kind: str, blank: str) -> None:
    value = BARE[kind].replace(" ", blank)
    assert kind in kinds_of(detector, f"see{blank}{value}{blank}there", value)


@pytest.mark.parametrize("mark", ["\u200b", "\u200e", "\u200f", "\u202a", "\u2066", "\ufeff"])
@pytest.mark.parametrize("kind", BARE)
def test_marks_without_width_hide_nothing(detector: Detector, kind: str, mark: str) -> None:
    value = BARE[kind]
    half = len(value) // 2
    for written in (f"{mark}{value}{mark}", f"{value[:half]}{mark}{value[half:]}"):
        assert kind in kinds_of(detector, f"x {written} y", written.strip(mark))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("NAME", "full_name: Zdeňka Dvořáková\n", "Zdeňka Dvořáková"),
        ("ADDRESS", "Brīvības iela 12, Rīga, LV-1010", "Brīvības iela 12, Rīga, LV-1010"),
        ("EMAIL", "to inigo@société.fr now", "inigo@société.fr"),
        ("PASSPORT", "číslo pasu je RM5017220.", "RM5017220"),
    ],
)
def test_accents_may_stand_apart_or_be_escaped(
    detector: Detector, kind: str, text: str, value: str
) -> None:
    for written in (
        lambda part: unicodedata.normalize("NFD", part),
        lambda part: json.dumps(part)[1:-1],
        lambda part: part.encode("ascii", "xmlcharrefreplace").decode(),
    ):
        assert kind in kinds_of(detector, written(text), written(value))


def test_a_name_in_a_query_is_read_through_its_percent_signs(detector: Detector) -> None:
    value = quote("Jürgen Müller")
    assert "NAME" in kinds_of(detector, f"/find?full_name={value}&page=2", value)


@pytest.mark.parametrize("kind", ["PHONE", "CARD", "IBAN"])
def test_a_plus_in_a_form_is_a_blank(detector: Detector, kind: str) -> None:
    value = quote_plus(BARE[kind])
    assert kind in kinds_of(detector, f"a=1&field={value}&ok=1", value)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n  ", "\n> "])
@pytest.mark.parametrize("kind", ["CARD", "IBAN"])
def test_groups_on_two_lines_are_one_value(detector: Detector, kind: str, end: str) -> None:
    groups = BARE[kind].split(" ")
    for at in range(1, len(groups)):
        value = " ".join(groups[:at]) + end + " ".join(groups[at:])
        assert kinds_of(detector, f"Details: {value}\nThanks", value) == {kind}


FOUND = (
    ("IBAN", "pay to «GB 29 NWBK 6016 1331 9268 19» today"),
    ("EMAIL", "mail «jane.doe [at] corp-mail [dot] org» please"),
    ("EMAIL", "mail «jane.doe at corp-mail dot org» please"),
    ("EMAIL", 'x = "«\\"jane doe\\"@corp-mail.org»"'),
    ("IP", 'assert user.last_login_ip == "«85.207.191.61»"'),
    ("IP", "EV\t«60.88.7.247»\tx"),
    ("PHONE", "(«06 11129198»)"),
    ("PHONE", "ring («(201) 395-8195»)"),
    ("PHONE", "phone: '«27.66.68.26»'"),
    ("PHONE", "sími\t«611 1516»"),
    ("PHONE", "tel. ０20 7946 0958"[:5] + "«０20 7946 0958»"),
    ("PHONE", "dial «+33.1.24.92.72.81»"),
    ("NATIONAL_ID", "TC Kimlik No: «10000000146»"),
    ("NATIONAL_ID", "kennitala «120174-3399»"),
    ("TAXID", "orgnr «988 077 917»"),
    ("TAXID", "KBO «0403.019.261»"),
    ("PASSPORT", "(passport: «HVFMHF370»)"),
    ("PASSPORT", "enter «RZ6761179» as passport"),
    ("BIRTHDATE", "«1961-04-08» (date of birth)"),
    ("BIRTHDATE", "doğum tarihi «25-06-1958»"),
    ("BIRTHDATE", "DOB (old): «03-08-1970»"),
    ("NAME", "ATTENDEE;CN=«Gianluca Esposito»;ROLE=REQ-PARTICIPANT:x"),
    ("NAME", "BEGIN:VCARD\nFN:«Maarten Claes»\nEND:VCARD"),
    ("NAME", "author: «niamh murphy» <niamh@corp-mail.org>"),
    ("ADDRESS", "«Dlouhá 245\n110 00 Praha 1»\n"),
    ("ADDRESS", "«Ερμού 164, 105 63 Αθήνα»"),
    ("ADDRESS", "ship to «1055 Budapest, Kossuth Lajos utca 97.»"),
    ("ADDRESS", "to «storgatan 32, 111 51 stockholm»."),
    ("ADDRESS", "to «av. da liberdade, 112, 1100-048 lisboa»"),
    ("ADDRESS", "«30, Triq ir-Repubblika\nValletta\nVLT 1117»"),
    ("ADDRESS", "«Laugavegur 108c, 101 Reykjavík»"),
    ("ADDRESS", "«Bağdat Cad. No:157, 34710 İstanbul»"),
    ("ADDRESS", "'«Lindenallee 253»\n"),
    ("WALLET", "https://chain.example/address/«1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa»"),
    ("WALLET", "BTC=«1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa»"),
)  # fmt: skip

LEFT_ALONE = (
    "Release 7\n1204 Commits since\n",
    "Step 12, 50000 Iterations done",
    "Figure 3, 10000 Samples",
    "Area 51, 2024 Edition",
    "EAN 4036525992764",
    "seed=01940688634",
    "math.sin(046454286)",
    "-325.5700464",
    "Customer Name | Order Date",
    "Full Name\nDate Of Birth\nHome Address\n",
    "full_name: string;",
    "let fn: Fn(i32) -> i32",
    "dn: cn=module{0},cn=config",
    "look at the dot product of two vectors",
    "(at) sign and [dot] syntax",
    "Co-authored-by: Claude Code",
    "a+b=12&c+d=34",
    "1234 5678 9012\n3456 7890 1234\n",
    "IP-Adresse\tWert 12 ist da, danke",
)


@pytest.mark.parametrize(("kind", "line"), FOUND, ids=[line for _, line in FOUND])
def test_a_value_in_another_form_is_found(detector: Detector, kind: str, line: str) -> None:
    before, value, _ = re.split("[«»]", line)
    text = line.replace("«", "").replace("»", "")
    found = [(s.kind, s.start, s.end) for s in detector.find(text)]
    assert (kind, len(before), len(before) + len(value)) in found


@pytest.mark.parametrize("line", LEFT_ALONE)
def test_what_only_looks_like_a_value_is_left_alone(detector: Detector, line: str) -> None:
    assert detector.find(line) == []
