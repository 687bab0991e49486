"""Names in the fields of people: `"first_name": "…"`, `Kunde: …`, a column of a table, an
attribute.

Owns the names of such fields and what may stand between one and its value. Invariant: the ambiguous
(`name:`, `contact`) count only with a first name people bear, or beside other fields of a person;
bounded work for every field. Called by `people`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.base import Source, part_of
from gateway.redaction.detectors.labels import Label, Labels, Reach, Value, columns
from gateway.redaction.detectors.person_names import (
    END_OF_VALUE,
    LONGEST,
    MOST_SEEN,
    PERSONAL,
    Place,
    is_known,
    is_name,
    person_at,
    small_person_at,
)
from gateway.redaction.detectors.repeats import repeats_of
from gateway.redaction.spans import Span


def _field(place: Place, words: str) -> Value:
    names = tuple(word.strip() for word in words.split(","))
    return Value("NAME", place.name, names, re.compile(r"[^\n]+"), lambda _: True, Reach.COLUMN)


PERSON_FIELDS: Final = Labels(
    (
        _field(
            Place.FIELD,
            "first name, given name, forename, fname, last name, surname, family name, lname, "
            "middle name, full name, customer name, client name, patient name, contact name, "
            "contact person, employee name, account holder, account holder name, cardholder, "
            "card holder, cardholder name, name on card, holder name, beneficiary name, "
            "recipient name, sender name, owner name, author name, legal name, maiden name, "
            "next of kin, emergency contact, applicant name, klantnaam, naam klant, kontonavn, "
            "kundenavn, "
            "kundnamn, rekeninghouder, nom du titulaire, nombre del titular, nome do titular, "
            "nome del cliente, nome cliente, właściciel rachunku, nazwisko i imię, asiakkaan nimi, "
            " passenger name, guest name, "
            "student name, teacher name, doctor name, attending physician, manager name, "
            "real name, realname, signatory, assignee name, reviewer name, reporter name, "
            "billing name, shipping name, "
            "vorname, nachname, familienname, vollständiger name, vorname und nachname, "
            "ad soyad, adı soyadı, soyad, soyadı, kontoinhaber, ansprechpartner, "
            "ansprechpartnerin, kundenname, karteninhaber, prénom, prenom, nom de famille, "
            "nom complet, nom du client, nom et prénom, titulaire, nombre completo, apellido, "
            "apellidos, primer apellido, segundo apellido, nombre y apellidos, nombre del cliente, "
            "titular, cognome, nome completo, nome e cognome, cognome e nome, intestatario, "
            "sobrenome, apelido, nome do cliente, primeiro nome, voornaam, achternaam, "
            "volledige naam, contactpersoon, imię, nazwisko, imię i nazwisko, imie i nazwisko, "
            "förnamn, efternamn, fornavn, etternavn, efternavn, etunimi, sukunimi, jméno, "
            "příjmení, jméno a příjmení, meno a priezvisko, priezvisko, vezetéknév, keresztnév, "
            "teljes név, prenume, nume complet, nume de familie, ονοματεπώνυμο, επώνυμο, "
            "μικρό όνομα, фамилия, фио, име и фамилия, ime i prezime, prezime, "
            "ime in priimek, priimek, eesnimi, "
            "perekonnanimi, uzvārds, pavardė",
        ),
        _field(
            Place.ROLE,
            "customer, client, patient, klant, müşteri, "
            "author, assignee, reviewer, reporter, recipient, employee, "
            "applicant, beneficiary, passenger, attendee, signed by, prepared by, approved by, "
            "submitted by, reported by, requested by, created by, updated by, written by, "
            "reviewed by, maintainer, committer, contributor, spouse, guardian, physician, caller, "
            "attn, signed, witness, defendant, plaintiff, claimant, appellant, respondent, "
            "petitioner, "
            "assigned to, opened by, closed by, escalated to, holder, "
            "inhaber, inhaberin, zeuge, zeugin, kläger, klägerin, beklagter, beklagte, "
            "antragsteller, antragstellerin, unterzeichnet, témoin, défendeur, requérant, signé, "
            "testigo, demandante, demandado, firmado, testimone, ricorrente, convenuto, firmato, "
            "testemunha, assinado, getuige, eiser, gedaagde, getekend, ondertekend, świadek, "
            "powód, "
            "pozwany, wnioskodawca, podpisano, utilisateur, utilisatrice, usuario, usuaria, "
            "utente, "
            "gebruiker, utilizador, usuário, użytkownik, nutzer, nutzerin, "
            "bearbeiter, kunde, kundin, patientin, autor, autorin, verfasser, cliente, "
            "paciente, paziente, klient, klientka, pacjent, pacjentka, asiakas, potilas, kund, "
            "πελάτης, ασθενής, auteur, autore, demandeur, empleado, dipendente, funcionário, "
            "zahlungspflichtiger, auftraggeber, rechnungsempfänger, empfänger, absender, "
            "destinataire, expéditeur, destinatario, mittente, odbiorca, nadawca, "
            "geadresseerde, mottagare, modtager, "
            "mitarbeiter, mitarbeiterin, sachbearbeiter, sachbearbeiterin, salarié, collaborateur, "
            "trabajador, werknemer, besteller, käufer, verkäufer, mieter, mieterin, vermieter, "
            "acheteur, vendeur, locataire, comprador, vendedor, acquirente, venditore, koper, "
            "huurder, kupujący, sprzedawca, najemca, buyer, seller, landlord, "
            "medewerker, pracownik, zaměstnanec, anställd, medarbejder",
        ),
        _field(
            Place.VAGUE,
            "name, display name, contact, owner, sender, manager, user, member, participant, nom, "
            "nombre, nome, naam, namn, navn, nimi, név, nume, όνομα, име, имя, ime, "
            "responsible, lead, doctor, teacher, student, guest, agent, driver, tenant, "
            "patient details, benutzer, kontakt",
        ),
    )
)
PLACES: Final = {place.name: place for place in Place}
_NEIGHBORHOOD: Final = 160
#: Between the name of a field and its value.
_ATTRIBUTE: Final = r"[ ](?!value=)[\w:.\-]{1,24}=\"[^\"<>\n]{0,40}\""
_TAG: Final = rf"</?[\w:.\-]{{1,24}}(?:{_ATTRIBUTE}){{0,3}}>"
_GLUE: Final = re.compile(
    rf"(?:(?P<close>\\{{0,7}}[\"'`]|{_TAG}|\*\*)?[ \t]{{0,3}}"
    r"(?::=|==|=>|:[ ]?&?[A-Za-z]\w{1,15}\??[ ]?=|[:=]|\||\)=\(|\.{3,40}|\t|[ ]{2,8}|\((?=[\"'])"
    rf"|[ ](?=[\"'])|[ ](?:IN|in)[ ]?\(|[ ]value=|\r?\n(?=[^\W\d_])|{_TAG}\s{{0,4}}"
    rf"|(?:{_ATTRIBUTE}){{1,3}}>)"
    rf"(?:\*\*)?[ \t]{{0,8}}(?:{_TAG}\s{{0,3}}){{0,2}}(?P<quote>\\{{0,7}}[\"'`])?(?:<\w{{1,12}}>)?)"
)
_SIGN: Final = re.compile(r"[:=>.(\"'`]")
#: Behind the head of a column.
_HEAD_END: Final = re.compile(r"[\w ]{0,16}[\"'`]?[ ]{0,3}(?:[,;|\t)\r\n]|\Z)")
_HEAD_SIGNS: Final = frozenset(("", *",;|\t)\r\n"))
_HEAD_MORE: Final = frozenset("_ \"'`")
#: A blank, the name of an attribute and its sign.
_ATTRIBUTE_MOST: Final = 1 + 24 + 2
_AFTER_FIELD: Final = frozenset(" \t\r\n:=\"'`*|<>\\().")
#: All that is looked at before and behind the name of a field: three tags, each with attributes,
#: and a name.
_FIELD_BEFORE: Final = 16
_FIELD_SEEN: Final = 1200
#: So many cost little, whatever follows them.
_FEW_FIELDS: Final = 500
#: More than is ever read before and behind a field.
_BACK: Final = 256
_AHEAD: Final = 4096


def _field_window(text: str, label: Label) -> tuple[int, str]:
    before = min(label.start, _FIELD_BEFORE)
    return before, text[label.start - before : label.end + _FIELD_SEEN]


def field_names(source: Source) -> Iterator[Span]:
    """Yield the names behind the fields of people, and below the heads of their columns."""
    text = source.text
    labels: list[Label] = []
    known = _Known()
    fields = list(PERSON_FIELDS.find(source))
    repeats = repeats_of(text, len(fields), back=_BACK, ahead=_AHEAD)
    done = 0
    for number, label in enumerate(fields):
        if _ends_head(text, label.end) and (
            text[max(0, label.start - 5) : label.start].lower() != "into "  # the name of a table
        ):
            labels.append(label)
        if repeats is not None and label.start >= done:
            done, again = repeats.skip(label.start)
            yield from again
        if label.start < done:
            continue
        span = _behind(text, label, known, often=number > _FEW_FIELDS)
        if span is not None:
            if repeats is not None:
                repeats.found.append(span)
            yield span
    if labels and ("\n" in text or "values" in source.folded):
        yield from _columns(source, labels)


class _Known:
    """What was found out about one text, whose lines repeat."""

    def __init__(self) -> None:
        #: Where no name follows.
        self.nobody: set[tuple[int, str]] = set()
        self.persons: dict[tuple[str, int, str, str], bool] = {}


def _behind(text: str, label: Label, known: _Known, *, often: bool) -> Span | None:
    """The name behind a field; `often`: where there are many fields."""
    nobody = known.nobody
    if (
        text[label.start - 1 : label.start] == "$"
        or text[label.end : label.end + 1] not in _AFTER_FIELD
        or _is_no_glue(text, label.end)
    ):
        return None
    window = _field_window(text, label) if often else None
    if window in nobody:
        return None
    glue = _GLUE.match(text, label.end)
    element = (
        text.startswith(">", label.end)
        and text[max(0, label.start - 16) : label.start].find("<") >= 0
    )
    if glue is None and not element:
        if window and len(nobody) < MOST_SEEN:
            nobody.add(window)
        return None
    at = label.end + 1 if glue is None else glue.end()
    span = _value_span(text, at, None if glue is None else glue["quote"])
    if span is None:
        near = at - label.end < _FIELD_SEEN - 2 * LONGEST
        if window and near and len(nobody) < MOST_SEEN:
            nobody.add(window)
        return None
    return _named(text, label, glue, span, known)


def _named(
    text: str,
    label: Label,
    glue: re.Match[str] | None,
    span: tuple[int, int],
    known: _Known,
) -> Span | None:
    """The value of a field at `span`, if it is a name."""
    at = label.end + 1 if glue is None else glue.end()
    place = PLACES[label.values[0].rule]
    if glue is not None and not _SIGN.search(glue.group()):
        # `Full Name⏎Date Of Birth`: blanks say less than a colon
        row = "|" in glue.group() and place is not Place.VAGUE
        place = Place.ROLE if row else Place.VAGUE
    beside = text[max(0, label.start - _NEIGHBORHOOD) : label.start] + text[at : at + _NEIGHBORHOOD]
    name = text[span[0] : span[1]]
    if PERSONAL.search(name) is not None:
        return None
    half = text[label.start : label.end] if glue is not None and glue["quote"] else ""
    key = name, place.value, half, beside
    if key not in known.persons:
        if len(known.persons) > MOST_SEEN:
            known.persons.clear()
        known.persons[key] = _is_persons(name, place, half, beside)
    return Span(*span, "NAME", 0.8, "field") if known.persons[key] else None


def _is_persons(name: str, place: Place, label: str, beside: str) -> bool:
    """Whether a field holds the name of a person. `label` is what the field is called, where its
    value stands in quotes."""
    return is_name(name, place, beside=beside) or (
        label != ""
        and place is Place.VAGUE
        and name[:1].isupper()
        and is_name(name, Place.FIELD, beside=beside)
        and _is_half(label, beside)
    )


#: Words for a name that are words for one half of it where the other half stands beside them:
#: `"nom": "Petit", "prenom": "Samuel"`.
_HALVES: Final = frozenset(["nom", "nombre", "nome", "name", "naam", "navn", "namn"])
_OTHER_HALF: Final = re.compile(
    r"\b(?:pr[ée]nom|apellidos?|cognome|sobrenome|apelido|vorname|voornaam|fornavn|förnamn|surname|"
    r"last_?name)s?\b",
    re.IGNORECASE,
)


def _is_half(label: str, beside: str) -> bool:
    return label.lower() in _HALVES and _OTHER_HALF.search(beside) is not None


def _ends_head(text: str, end: int) -> bool:
    """Whether the head of a column may end behind a name: most characters tell by themselves."""
    sign = text[end : end + 1]
    if sign in _HEAD_SIGNS:
        return True
    return (sign in _HEAD_MORE or sign.isalnum()) and _HEAD_END.match(text, end) is not None


def _is_no_glue(text: str, end: int) -> bool:
    """Whether the first characters behind a name tell that no value follows it. What stands there
    is one of `_AFTER_FIELD`."""
    sign = text[end : end + 1]
    if sign == ")":
        return not text.startswith(")=(", end)
    if sign == ".":
        return not text.startswith("...", end)
    if sign == "(":
        return text[end + 1 : end + 2] not in ('"', "'")
    if sign == " " and text[end + 1 : end + 2].isalnum():  # a sentence, mostly
        return (
            not text.startswith((" in", " IN", " value="), end)
            and text.find('="', end, end + _ATTRIBUTE_MOST) < 0
        )
    return False


_JUNIOR: Final = re.compile(r", (?:Jr|Sr|I{2,3})\b")


def _value_span(text: str, at: int, quote: str | None) -> tuple[int, int] | None:
    if quote:
        end = text.find(quote, at, at + LONGEST)
        while end > at and text[end - 1] == "\\" and quote in ("'", '"'):
            end = text.find(quote, end + 1, at + LONGEST)
        return (at, end) if end > at and "\n" not in text[at:end] else None
    limit = min(len(text), at + LONGEST)
    parts = person_at(text, at, limit) or small_person_at(text, at, limit)
    if not parts:
        return None
    titled = _JUNIOR.match(text, parts[-1][1]) is not None
    whole = len(parts) > 1 and not titled and is_known(text, parts)  # `Jane Doe, Nurse`
    if not whole and text.startswith(", ", parts[-1][1]):  # `Doe, Jane`
        first = person_at(text, parts[-1][1] + 2, min(len(text), at + LONGEST))
        told = len(parts) == 1 or titled or (bool(first) and is_known(text, first))
        if first and told and END_OF_VALUE.match(text, first[-1][1]):
            return at, first[-1][1]
    return (parts[0][0], parts[-1][1]) if END_OF_VALUE.match(text, parts[-1][1]) else None


#: Heads of columns in tables of things: a `name` there is a person's only with a first name.
_GOODS: Final = part_of(
    ("sku", "price", "qty", "quantity", "in_stock", "unit_cost", "barcode", "product_id", "weight",
     "preis", "menge", "artikel", "prix", "quantité", "precio", "cantidad", "prezzo", "cena")
)  # fmt: skip


def _columns(source: Source, labels: list[Label]) -> Iterator[Span]:
    text = source.text
    goods = source.may_hold_words(_GOODS) and PERSONAL.search(text) is None
    beside = "" if goods else "email"
    halved: bool | None = None
    for value, start, end in columns(source, labels):
        cell = text[start:end]
        if not (
            (cell[:1].isupper() or (" " in cell and cell.islower())) and 2 <= len(cell) <= LONGEST
        ):
            continue
        if is_name(cell, PLACES[value.rule], beside=beside):
            yield Span(start, end, "NAME", 0.75, "column")
        elif not goods:
            if halved is None:
                halved = any(
                    _OTHER_HALF.fullmatch(text, label.start, label.end) for label in labels
                )
            if halved and is_name(cell, Place.FIELD, beside=beside):
                yield Span(start, end, "NAME", 0.75, "column")
