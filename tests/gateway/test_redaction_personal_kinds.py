"""Personal data as tickets, letters, fixtures and chats write it, and what only looks alike.

Every test is of a whole kind: the forms a language or a medium has for the same thing.
"""

from __future__ import annotations

import pytest

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy_file import load_policy

DETECTOR = Detector(load_policy(None))


def found(text: str, kind: str) -> list[str]:
    return [text[s.start : s.end] for s in DETECTOR.find(text) if s.kind == kind]


@pytest.mark.parametrize("reason", ["404 Not Found", "500 Internal Server Error", "200 OK",
    "503 Service Unavailable", "301 Moved Permanently", "429 Too Many Requests"])  # fmt: skip
@pytest.mark.parametrize("word", ["Drive", "Place", "Close", "Court", "Way"])
def test_a_status_of_http_before_a_word_for_a_street_is_no_address(reason: str, word: str) -> None:
    assert found(f"HTTP/1.1 {reason} {word} sync failed, retrying", "ADDRESS") == []


def test_a_house_with_the_number_of_a_status_is_an_address() -> None:
    assert found("Ship to 404 Foxglove Drive, Leeds LS6 1QP", "ADDRESS")


@pytest.mark.parametrize("named", [
    "Numéro de commande {}", "numéro de suivi {}", "Numéro de facture : {}", "dossier n° {}",
    "Número de pedido {}", "número de expediente {}", "Número da encomenda: {}",
    "Numero d'ordine {}", "numero di pratica {}", "Bank: routing {}", "Bestellnummer: {}",
    "nummer van de bestelling {}", "numer zamówienia {}",
])  # fmt: skip
@pytest.mark.parametrize("number", ["123456789", "0612345098", "501964843"])
def test_the_number_of_an_order_a_file_or_an_account_is_no_phone(named: str, number: str) -> None:
    assert found(f"{named.format(number)} ok", "PHONE") == []


@pytest.mark.parametrize("text", [
    "Mon numéro est le 0612345098", "mi número: 612449803", "Numéro de téléphone : 0612345098",
    "Tfno: 981 55 01 02.", "O meu número é 912845033",
])  # fmt: skip
def test_the_number_of_a_person_stays_a_phone(text: str) -> None:
    assert found(text, "PHONE")


@pytest.mark.parametrize(("before", "address", "behind"), [
    ("die Wohnung in der ", "Lindenallee 44, 3. OG links, 50968 Köln", " zum 31.12.2025."),
    ("Anschrift: ", "Rabenweg 7, EG rechts, 70193 Stuttgart", ""),
    ("of ", "41 Marine Parade, Brighton BN2 1TL", ". Our client"),
    ("residente in ", "via Nazionale n. 45, 00184 Roma", ", tel."),
    ("wonende aan de ", "Nieuwestad 44 te 8911 CP Leeuwarden", ""),
    ("residente na ", "Rua Augusta, 1508, apto 82, São Paulo - SP, 01304-001", ""),
    ("office: ", "Level 14, 55 Collins Street, Melbourne VIC 3000", ". Reception: (03) 5550 1234."),
])  # fmt: skip
def test_an_address_is_found_with_its_floor_and_place(
    before: str, address: str, behind: str
) -> None:
    values = found(f"Hello, {before}{address}{behind}", "ADDRESS")
    assert any(set(address.split()[-2:]) <= set(value.split()) for value in values), values


@pytest.mark.parametrize("text", [
    "vivo en C/ Mayor 15, 2ºA, 50001 Zaragoza. Nací el 25-06-1999.",
    "habite au 8 impasse du Moulin, 31400 Toulouse. Son numéro : 06 44 60 17 92",
    "Ze woont op Oudegracht 201, 3511 NG Utrecht. Groet, Sanne Hoekstra",
    "residente in Corso Umberto I, 77, 80138 Napoli. Codice fiscale: RSSMRA85T10A562S",
])  # fmt: skip
def test_an_address_ends_with_its_sentence(text: str) -> None:
    (address,) = found(text, "ADDRESS")
    assert text.partition(". ")[0].endswith(address.rstrip("."))


def test_the_cell_before_a_street_is_no_part_of_it() -> None:
    text = "email,phone,street\na@fastpost.net,(503) 555-0187,4821 Alder Creek Rd,Portland"
    assert found(text, "PHONE") == ["(503) 555-0187"]
    assert all("0187" not in value for value in found(text, "ADDRESS"))


@pytest.mark.parametrize("street", ["Nørregade 12", "Hauptstraße 3", "Via Roma 18", "Storgatan 4"])
@pytest.mark.parametrize("number", ["+45 22 55 01 93", "+49 30 901820 33", "06 12 34 50 98"])
def test_the_end_of_a_phone_is_no_house_of_the_next_cell(street: str, number: str) -> None:
    text = f"name,phone,street\nTobias Lund,{number},{street}\n"
    assert found(text, "PHONE") == [number]
    assert found(text, "ADDRESS") == [street]


@pytest.mark.parametrize("text", [
    "Nací el {}.", "Nasci em {}", "Urodziłam się {} w Łodzi", "urodziłem się {}",
])  # fmt: skip
@pytest.mark.parametrize("date", ["25-06-1999", "03.04.1968"])
def test_a_birth_told_by_the_person_is_found(text: str, date: str) -> None:
    assert found(text.format(date), "BIRTHDATE") == [date]


@pytest.mark.parametrize(("text", "number"), [
    ("NSS: 28/12345678/40", "28/12345678/40"),
    ("número de afiliación 281234567840", "281234567840"),
    ("dowodem osobistym nr CCA720573", "CCA720573"),
    ("n° fiscal : 2577966971076", "2577966971076"),
])  # fmt: skip
def test_a_number_of_a_state_is_found_by_the_names_people_write(text: str, number: str) -> None:
    assert found(text, "NATIONAL_ID") + found(text, "TAXID") == [number]


def test_a_spanish_number_of_affiliation_must_hold_its_check_digits() -> None:
    assert found("NSS: 28/12345678/41", "NATIONAL_ID") == []


@pytest.mark.parametrize("text", [
    "Arrendatario: D. {}, mayor de edad", "{} (SSN 161-89-4374) moved", "{} (geb. 19-05-2001) wil",
    "{}, née le 3 mai 1974 à Lyon", "{} nato il 22 gennaio 1976 a Bari",
    "{}, geboren te Leeuwarden op 7 maart 1953",
    "{}, demeurant 5, avenue Foch", "{}, portador do RG 12.345.678-9",
    "{} (passport A09918273) has left",
    "{}, urodzony 15.08.1982", "Patient {} (DOB 05/14/1978)", "{}, born on 6 January 1970,",
])  # fmt: skip
@pytest.mark.parametrize("name", ["Marta Castelnuovo", "Rafael Domínguez Peña"])
def test_a_name_before_what_is_told_of_a_person_is_found(text: str, name: str) -> None:
    assert name in found(text.format(name), "NAME")


@pytest.mark.parametrize("text", [
    "Social Security Number (SSN) is required", "Supported Documents (passport, visa)",
    "The Birth Registry (DOB field) is empty", "Passport Strategy (passport-local)",
    "New Feature born out of need",
])  # fmt: skip
def test_words_before_an_abbreviation_are_no_name(text: str) -> None:
    assert found(text, "NAME") == []


@pytest.mark.parametrize("text", [
    "L'utilisateur {} n'arrive pas à se connecter", "La usuaria {} no recibe el SMS",
    "L'utente {} chiede il cambio", "Gebruiker {} wil verhuizen",
    "Referto: paziente {}, ricoverata",
    "documento rilasciata a {} il 3 giugno", "I certify that {} has been employed",
    "counsel for Defendant {} will appear", "emergency contact for {}: her husband",
    "her husband {}, who", "Ondergetekende, {},", "Je soussigné {}, atteste",
    "Klantnaam: {}", "kontonavn: {}", "Inhaber: {}", "Zeugin: {}, Rentnerin", "assigned to: {}",
    "Signed: {}\nDate: 12/03/2025", "Paciente: {}. F. nac.: 30/11/1939", "Utente: {}",
])  # fmt: skip
@pytest.mark.parametrize("name", ["Lindiwe Nkosi", "Federica Galli"])
def test_a_name_behind_a_word_for_who_somebody_is_is_found(text: str, name: str) -> None:
    assert found(text.format(name), "NAME") == [name]


@pytest.mark.parametrize("text", [
    "Acompañada por su hijo {}.", "sa fille {} est venue", "her daughter {} called",
    "il figlio {},",
])  # fmt: skip
def test_a_first_name_alone_is_found_behind_a_word_for_a_relative(text: str) -> None:
    assert found(text.format("Manuel"), "NAME") == ["Manuel"]


@pytest.mark.parametrize("line", [
    "[12/05/2025, 18:22:31] {}: meine neue Adresse", "12.05.25, 18:22 - {}: danke!",
    "[5/12/25, 6:22:31 PM] {}: see you", "- {} — jane@example.org", "dana: {}, jane@example.org",
])  # fmt: skip
def test_a_name_in_a_chat_or_a_list_is_found(line: str) -> None:
    assert found(line.format("Paula Schreiber"), "NAME") == ["Paula Schreiber"]


@pytest.mark.parametrize("line", [
    "[2025-06-11 09:14:22] Main Thread: started", "2025-06-11 09:14:22,482 - Build Server: done",
    "[12/05/2025, 18:22:31] Support: please wait", "Billing Contact: jane@example.org",
])  # fmt: skip
def test_a_logger_or_a_role_is_no_name(line: str) -> None:
    assert found(line, "NAME") == []


@pytest.mark.parametrize(("text", "names"), [
    ('{"nom": "Petit", "prenom": "Samuel"}', ["Petit", "Samuel"]),
    ('{"naam": "Bakker", "voornaam": "Femke"}', ["Bakker", "Femke"]),
    ("nombre,apellidos,nif\nLucía,Fernández Prado,x\nAndrés,Gil Montero,y",
     ["Lucía", "Fernández Prado", "Andrés", "Gil Montero"]),
])  # fmt: skip
def test_a_word_for_a_name_is_half_of_it_where_the_other_half_stands_by(
    text: str, names: list[str]
) -> None:
    assert found(text, "NAME") == names


def test_a_name_in_a_manifest_is_no_persons() -> None:
    assert found('{"name": "Petit", "version": "1.2.0"}', "NAME") == []
