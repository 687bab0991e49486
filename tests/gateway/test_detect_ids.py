"""National ids, tax and VAT numbers, passports, dates of birth, hardware addresses, wallets, health
numbers: what is found in which words, and what is left alone. Every value is invented."""

from __future__ import annotations

import re

import pytest
from presidio_analyzer import EntityRecognizer

from gateway.redaction.detectors.engine import RULES, Detector
from gateway.redaction.policy_file import load_policy

#: The value stands between the marks, and nothing else is found in the line.
FOUND = [
    ("NATIONAL_ID", "Her NINO is «AB 12 34 56 C», see file"),
    ("NATIONAL_ID", "nino=«ab123456c»"),
    ("NATIONAL_ID", '{"nationalInsuranceNumber": "«JG103759A»"}'),
    ("NATIONAL_ID", "num sécu : «1 85 05 78 006 084 91»"),
    ("NATIONAL_ID", "NIR «185057800608491»"),
    ("TAXID", "Meine Steueridentifikationsnummer lautet «36574261809»"),
    ("NATIONAL_ID", "con DNI «54.362.315-K» y"),
    ("NATIONAL_ID", "DNI: «54362315k»"),
    ("NATIONAL_ID", "NIE «X-2482300-W»"),
    ("NATIONAL_ID", "codice fiscale «rccmnl83s18d969h»"),
    ("NATIONAL_ID", '{"cf": "«RCCMNL83S18D969H»"}'),
    ("NATIONAL_ID", "PESEL nr «44 05 14 01458»"),
    ("NATIONAL_ID", "SELECT * FROM osoby WHERE pesel = '«44051401458»'"),
    ("NATIONAL_ID", "BSN «1112.22.333»"),
    ("NATIONAL_ID", '"bsn": «111222333»,'),
    ("NATIONAL_ID", "citizenServiceNumber... burgerservicenummer («111222333»)"),
    ("AMKA", "ΑΜΚΑ: «01013099997»"),
    ("AMKA", '{"amka": "«01013099997»"}'),
    ("TAXID", "ΑΦΜ «094259216»"),
    ("NATIONAL_ID", "personnummer «880320-0016»"),
    ("NATIONAL_ID", "pnr: «19880320-0016»"),
    ("NATIONAL_ID", "svensk medborgare «880320-0016» enligt"),
    ("NATIONAL_ID", "hetu «131052-308T»"),
    ("NATIONAL_ID", "CPR-nr. «211062-5629»"),
    ("NATIONAL_ID", "cpr = «2110625629»"),
    ("NATIONAL_ID", "fødselsnummer «151086 95088»"),
    ("TAXID", "NIF «501 964 843»"),
    ("TAXID", "contribuinte nº «501964843»"),
    ("NATIONAL_ID", "rijksregisternummer «85.07.30-033.28»"),
    ("NATIONAL_ID", "NISS «85073003328»"),
    ("NATIONAL_ID", "SVNR «1237 010180»"),
    ("NATIONAL_ID", "PPS number «1234567FA»"),
    ("NATIONAL_ID", "PPSN: «6433435F»"),
    ("NATIONAL_ID", "rodné číslo «710319/2745»"),
    ("NATIONAL_ID", "RČ: «7103192745»"),
    ("NATIONAL_ID", "CNP «1630615123457»"),
    ("NATIONAL_ID", "ЕГН «7523169263»"),
    ("NATIONAL_ID", "OIB: «33392005961»"),
    ("NATIONAL_ID", "isikukood «36805280109»"),
    ("NATIONAL_ID", "asmens kodas «33309240064»"),
    ("NATIONAL_ID", "AHV «756.9217.0769.85»"),
    ("TAXID", "TFN: «123 456 782»"),
    ("NATIONAL_ID", "Aadhaar «2341 2341 2346»"),
    ("NATIONAL_ID", "cpf: «390.533.447-05»"),
    ("TAXID", "CNPJ «16.727.230/0001-97»"),
    ("TAXID", "ITIN «912-90-3456»"),
    ("TAXID", "EIN: «91-1144442»"),
    ("TAXID", '"tax_id": "«12-3456789»"'),
    ("NATIONAL_ID", '"nationalId": "«T220001293»"'),
    ("NATIONAL_ID", "Personalausweis Nr. «T220001293»"),
    ("NATIONAL_ID", "Αριθμός ταυτότητας «ΑΒ 123456»"),
    ("NATIONAL_ID", "dowód osobisty «ABA300000»"),
    ("NATIONAL_ID", "driver's license «D1234-56789-01234»"),
    ("NATIONAL_ID", "driving licence no: «MORGA657054SM9IJ»"),
    ("VAT", "USt-IdNr.: «DE136695976»"),
    ("VAT", "VAT no «GB 980 7806 84»"),
    ("VAT", "P.IVA «00743110157»"),
    ("VAT", "TVA «FR 40 303 265 045»"),
    ("VAT", "«NL004495445B01»"),
    ("VAT", "«ATU13585627»"),
    ("VAT", "BTW «BE 0403.019.261»"),
    ("VAT", "«CHE-107.787.577 MWST»"),
    ("VAT", "mva: «NO 995 525 828 MVA»"),
    ("VAT", "CIF «ESB58378431»"),
    ("VAT", "vat_number: «PL8567346215»"),
    ("VAT", "«IE6433435F» is ours"),
    ("PASSPORT", "passport number «AB1234567»"),
    ("PASSPORT", "Reisepass-Nr.: «C01X00T47»"),
    ("PASSPORT", "n° de passeport : «12AB34567»"),
    ("PASSPORT", "pasaporte «AAA123456»"),
    ("PASSPORT", '"passportNo":"«YA1234567»"'),
    ("PASSPORT", "Passaporto: «YA 1234567»"),
    ("PASSPORT", "she holds US passport «567890123»."),
    ("PASSPORT", "numer paszportu «EM1234567»"),
    ("PASSPORT", "Reisepass-Nr. «CJ3TZZ87C», ausgestellt in Hamburg"),
    ("PASSPORT", "Mein Reisepass hat die Nummer «CMYYJRW9Y» und ist gültig."),
    ("PASSPORT", "paspoortnummer: «XEWKFKPB5»"),
    ("PASSPORT", "Passport (IND) «U5664519»"),
    ("PASSPORT", "Document type: passport\nDocument number: «24PN06637»"),
    ("PASSPORT", "pass no. «HC485303» (Canadian passport)"),
    ("PASSPORT", "My passport #«N2630036» was rejected"),
    ("BIRTHDATE", "DOB: «03/14/1986»"),
    ("BIRTHDATE", "d.o.b. «14-Mar-1986»"),
    ("BIRTHDATE", "born on the «14th of March 1986»"),
    ("BIRTHDATE", "She was born «March 14th, 1986» in Leeds"),
    ("BIRTHDATE", "geb. am «14.3.1986»"),
    ("BIRTHDATE", "geboren «14. März 1986»"),
    ("BIRTHDATE", "née le «14 mars 1986»"),
    ("BIRTHDATE", "né(e) le : «14/03/1986»"),
    ("BIRTHDATE", "nacida el «14 de marzo de 1986»"),
    ("BIRTHDATE", "nato a Roma il «14/03/1986»"),
    ("BIRTHDATE", "nata il «14 marzo 1986»"),
    ("BIRTHDATE", "geboren op «14 maart 1986»"),
    ("BIRTHDATE", "urodzony «14 marca 1986»"),
    ("BIRTHDATE", "ur. «14.03.1986» r."),
    ("BIRTHDATE", "född «1986-03-14»"),
    ("BIRTHDATE", 'birth_date = date.fromisoformat("«1953-03-18»")'),
    ("BIRTHDATE", "Jane Doe (b. «15 February 1993»)"),
    ("BIRTHDATE", "DOB/Sex: «08/21/1991» / M"),
    ("HEALTH", "Cartella clinica n. «2018-114803»"),
    ("HEALTH", "nr historii choroby: «52381926»"),
    ("HEALTH", "Krankenaktennummer «1962303»"),
    ("HEALTH", "MR# «1962303»"),
    ("HEALTH", "medical rec. no.: «5883471»"),
    ("HEALTH", "Pat.-Nr. «41689175»"),
    ("HEALTH", "expediente clínico «6383177»"),
    ("HEALTH", "chart #«33710353»"),
    ("HEALTH", "medical record no «813-03-5790»"),
    ("BIRTHDATE", "ist am «12.08.1945» geboren"),
    ("BIRTHDATE", "née en France le «4 août 2004»"),
    ("BIRTHDATE", "fecha de nac.: «24/08/2004»"),
    ("BIRTHDATE", "geboortedatum klant = «14-03-1988»"),
    ("PASSPORT", "paszport seria «VO2811595»"),
    ("HEALTH", "Patient «P-7727194» readmitted"),
    ("BIRTHDATE", "Heike (* «03.11.1996») kam dazu"),
    ("BIRTHDATE", "Geb.-Dat. «17.02.1976»"),
    ("BIRTHDATE", "Luogo e data di nascita: Parma, «28/10/1981»"),
    ("BIRTHDATE", "age 43, b. «Jul 8, 1985»"),
    ("PASSPORT", "PPT «296420135»"),
    ("BIRTHDATE", "syntynyt «14.3.1986»"),
    ("BIRTHDATE", "γεννήθηκε στις «14 Μαρτίου 1986»"),
    ("BIRTHDATE", "Data de nascimento: «14/03/1986»"),
    ("BIRTHDATE", "data urodzenia: «14 marca 1986»"),
    ("BIRTHDATE", "birth_date = date(«1986, 3, 14»)"),
    ("BIRTHDATE", '<birthDate value="«1986-03-14»"/>'),
    ("BIRTHDATE", '"dob": "«19860314»"'),
    ("BIRTHDATE", "datum narození «14. 3. 1986»"),
    ("BIRTHDATE", "született: «1986. március 14.»"),
    ("BIRTHDATE", "născut la «14.03.1986»"),
    ("BIRTHDATE", "Date of Birth (MM/DD/YYYY): «03/14/1986»"),
    ("BIRTHDATE", "dob TEXT: '«1986/03/14»'"),
    ("BIRTHDATE", "my birthday is «March 14, 1986»"),
    ("BIRTHDATE", "fødselsdato «14.03.1986»"),
    ("MAC", "ether «3c:22:fb:1a:2b:3c» txqueuelen"),
    ("MAC", "MAC=«3C-22-FB-1A-2B-3C»"),
    ("MAC", "cisco «3c22.fb1a.2b3c» up"),
    ("MAC", '"mac":"«3c22fb1a2b3c»"'),
    ("MAC", "client «b8:27:eb:12:34:56», lease"),
    ("WALLET", "pay «1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa»"),
    ("WALLET", "«3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy»"),
    ("WALLET", "«bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq»"),
    ("WALLET", "«0xde0B295669a9FD93d5F28D9Ec85E40f4cb697BAe»"),
    ("WALLET", "«bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr»"),
    ("WALLET", "sol wallet: «7EcDhSYGxXyscszYEp35KHN8vvw3svAuLKTzXwCFLtV»"),
    ("WALLET", "xrp «rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh»"),
    ("WALLET", "«LVuDpNCSSj6pQ7t9Pv6d6sUkLKoqDEVUnJ» ltc"),
    (
        "WALLET",
        "«44AFFq5kSiGBoZ4NMDwYtN18obc8AemS33DBLWs3H7otXft3XjrpDtQGv7SqSsaBYBb98uNbr2VBBEt7f2wfn3RVGQBEP3A»",
    ),
    ("HEALTH", "NHS No: «943 476 5870»"),
    ("HEALTH", "nhs_number,«9434765870»"),
    ("HEALTH", "MRN «00482913» admitted"),
    ("HEALTH", "medical record number: «MR-1029384»"),
    ("HEALTH", '"patientId": "«P-0049213»"'),
    ("HEALTH", "Versichertennummer «A123456780»"),
    ("HEALTH", "Medicare «1EG4-TE5-MK73»"),
    ("HEALTH", "member id «XYZ123456789»"),
    ("NATIONAL_ID", "SIN «123-456-782»"),
]

#: A row for each kind below the head of its column.
COLUMNS = [
    ("NATIONAL_ID", "bsn", "111222333"),
    ("NATIONAL_ID", "pesel", "44051401458"),
    ("NATIONAL_ID", "personnummer", "8803200016"),
    ("BIRTHDATE", "date_of_birth", "1986-03-14"),
    ("BIRTHDATE", "Geburtsdatum", "14.03.1986"),
    ("PASSPORT", "passport_no", "C01X00T47"),
    ("HEALTH", "nhs_number", "943 476 5870"),
    ("HEALTH", "mrn", "00482913"),
    ("TAXID", "tax_id", "36574261809"),
    ("AMKA", "AMKA", "01013099997"),
    ("PHONE", "mobile", "601123456"),
    ("ADDRESS", "zip", "90210"),
]

#: The name of a field says what its value is.
NAMED = [
    ("NATIONAL_ID", "bsn", "111222333"),
    ("NATIONAL_ID", "PESEL", "44051401458"),
    ("NATIONAL_ID", "nationalId", "44051401458"),
    ("NATIONAL_ID", "driversLicense", "D1234-56789"),
    ("NATIONAL_ID", "ssn", "85073003328"),
    ("TAXID", "steuerId", "36574261809"),
    ("VAT", "vatNumber", "136695976"),
    ("VAT", "taxId", "DE136695976"),
    ("BIRTHDATE", "dateOfBirth", "1980-05-12"),
    ("BIRTHDATE", "birth_date", "14 mars 1986"),
    ("PASSPORT", "passport_number", "C01X00T47"),
    ("HEALTH", "mrn", "00482913"),
    ("MAC", "macAddress", "3c22fb1a2b3c"),
    ("IP", "ip", "5.2.1.1"),
    ("WALLET", "walletAddress", "7EcDhSYGxXyscszYEp35KHN8vvw3svAuLKTzXwCFLtV"),
    ("ADDRESS", "homeAddress", "12 Baker Street, London"),
    ("ADDRESS", "zipCode", "90210"),
    ("ADDRESS", "street", "Lange Gasse 4"),
    ("PHONE", "phone", "601123456"),
]

LEFT_ALONE = [
    "(* 03.11.1996 fixed the parser *)",
    "x = f(a,b.c, d)",
    "PTR 1.0.0.127.in-addr.arpa",
    "64:ff9b::c000:221 stands for 192.0.2.33",
    "const EXTENSION_OID_AUTHORITY_KEY_ID = '2.5.29.35';",
    "// Client workflow 5.4.3.1: check for role",
    "dateOfBirth default 1900-01-01",
    "PESEL: 44051401459",
    "BSN 111222334",
    "bsn = 000000000",
    "RCCMNL83S18D969A",
    "X2482300A",
    "131052-308U",
    "DE136695977",
    "FR41303265045",
    "ATU13585628",
    "NL004495446B01",
    "111222333",
    "44051401458",
    "8803200016",
    "9434765870 rows",
    "12345678L",
    "86400000L",
    "0x12345678A",
    "math.sin(046454286)",
    "tin = 123",
    "released 2024-03-14",
    "created_at: 1986-03-14T10:00:00Z",
    "last_login,1986-03-14",
    "born to run",
    "date of birth: unknown",
    "birth_date: date | None = None",
    "passport.js 0.7.0",
    "passport.use(new Strategy(options))",
    "passport required",
    "nie wiem 1234",
    "patient = Patient(id=17)",
    "member id 12",
    "00:00:00:00:00:00",
    "ff:ff:ff:ff:ff:ff",
    "01:00:5e:00:00:fb",
    "SHA1: 3c:22:fb:1a:2b:3c:4d:5e:6f:70:81:92:a3:b4:c5:d6:e7:f8:09:1a",
    "16:27:43:9c:f8:f1:2d:a9:d8:2c:11:0a:ee:00:12:34",
    "550e8400-e29b-41d4-a716-446655440000",
    "10:20:30 12:34:56",
    "0x0000000000000000000000000000000000000000",
    "commit 7EcDhSYGxXyscszYEp35KHN8vvw3svAuLKTzXwCFLtV",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb",
    "base64: MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkw",
    "20231201-1530",
    "231201-1530.log",
    "2023120115304512345",
    "BE0123456789ABCDEF",
    "std::cout << a << b << c;",
    "P<T> << stream",
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
def test_a_value_and_nothing_else_is_found(detector: Detector, kind: str, line: str) -> None:
    assert is_exactly_found(detector, kind, line)


@pytest.mark.parametrize("line", LEFT_ALONE)
def test_what_names_no_one_is_left_alone(detector: Detector, line: str) -> None:
    assert detector.find(line) == []


def test_what_corrects_a_value_is_one_too(detector: Detector) -> None:
    text = "please change my date of birth from 26 September 2001 to 22 July 1994, thanks"
    assert [text[s.start : s.end] for s in detector.find(text)] == [
        "26 September 2001",
        "22 July 1994",
    ]


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
@pytest.mark.parametrize(("kind", "head", "value"), COLUMNS)
def test_the_head_of_a_column_names_the_values_below_it(
    detector: Detector, kind: str, head: str, value: str, sign: str
) -> None:
    text = f"name{sign}{head}{sign}note\nxx{sign}{value}{sign}yy\nzz{sign}{value}{sign}ww\n"
    found = [(s.kind, text[s.start : s.end]) for s in detector.find(text)]
    assert found == [(kind, value)] * 2


def test_the_head_of_a_table_in_markdown_names_the_values_below_it(detector: Detector) -> None:
    text = "| name | pesel | dob |\n|---|:--:|---|\n| x | 44051401458 | 1986-03-14 |\n"
    assert [span.kind for span in detector.find(text)] == ["NATIONAL_ID", "BIRTHDATE"]


def test_the_columns_of_an_insert_name_its_values(detector: Detector) -> None:
    text = (
        "INSERT INTO people (name, bsn, birth_date, created) VALUES\n"
        "  ('x', '111222333', '1986-03-14', '2024-01-01'),\n"
        "  ('y', '123456782', '1987-03-14', '2024-01-02');"
    )
    found = [text[span.start : span.end] for span in detector.find(text)]
    assert found == ["111222333", "1986-03-14", "123456782", "1987-03-14"]


def test_other_columns_of_dates_are_left_alone(detector: Detector) -> None:
    text = "dob,joined\n1986-03-14,2020-01-02\n"
    assert [text[s.start : s.end] for s in detector.find(text)] == ["1986-03-14"]


@pytest.mark.parametrize(("kind", "key", "value"), NAMED)
def test_the_name_of_a_field_says_what_its_value_is(
    detector: Detector, kind: str, key: str, value: str
) -> None:
    spans = detector.find_value(key, value)
    assert [(s.kind, s.start, s.end) for s in spans] == [(kind, 0, len(value))]


def test_a_machine_readable_zone_is_found_whole(detector: Detector) -> None:
    zone = (
        "P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<\nL898902C36UTO7408122F1204159ZE184226B<<<<<10"
    )
    found = [zone[s.start : s.end] for s in detector.find(zone) if s.kind == "PASSPORT"]
    assert "\n".join(found) == zone


SURROUNDINGS = [
    "{}", "{}.", "({})", '"{}"', "'{}'", "<b>{}</b>", "// {}", "# {} is it", "- {}\n- next",
    "x\n{}\ny", "| {} |", "**{}**", "`{}`",
]  # fmt: skip
ALONE = [
    "RCCMNL83S18D969H", "X2482300W", "131052-308T", "JG103759A", "DE136695976", "NL004495445B01",
    "85.07.30-033.28", "390.533.447-05", "756.9217.0769.85", "185057800608491", "912-90-3456",
    "3c:22:fb:1a:2b:3c", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "880320-0016", "710319/2745",
]  # fmt: skip


@pytest.mark.parametrize("value", ALONE)
def test_what_needs_no_name_is_found_in_any_surroundings(detector: Detector, value: str) -> None:
    for around in SURROUNDINGS:
        text = around.format(value)
        start = text.index(value)
        assert [(s.start, s.end) for s in detector.find(text)] == [(start, start + len(value))], (
            text
        )


@pytest.mark.parametrize("rule", RULES, ids=[rule.__name__ for rule in RULES])
def test_every_rule_is_a_recognizer_of_presidio(rule: type) -> None:
    made = rule(load_policy())
    assert isinstance(made, EntityRecognizer)
    text = "PESEL 44051401458, dob 1986-03-14, 12 Baker Street, DE136695976, 3c:22:fb:1a:2b:3c"
    for found in made.analyze(text, made.supported_entities, None):
        assert found.entity_type in made.supported_entities
        assert 0 <= found.start < found.end <= len(text)
