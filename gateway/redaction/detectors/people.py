"""Names of people where a text itself says that one stands there: fields (`"first_name"`, `Kunde:`,
a column), trailers and mail headers (`Signed-off-by:`, `Name <address>`), titles and greetings
(`Herr …`, `Dear …,`), and sentences that introduce somebody (`my name is …`).

No language model: a name outside such places is the business of `ner`. Invariant: pure and linear,
bounded work for every trigger; a word of the trade (`Build`, `Server`) is never part of a name, and
the ambiguous (`name:`, `contact`) counts only with a first name people bear, or beside other
fields of a person. Called by the engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from typing import ClassVar, Final
from unicodedata import combining, normalize

from ahocorasick_rs import AhoCorasick

from gateway.redaction.detectors.base import (
    HIDDEN,
    Rule,
    Source,
    Triggers,
    leftmost_longest,
    occurrences,
    part_of,
    set_of,
)
from gateway.redaction.detectors.eastern import EASTERN_FIELDS, eastern_names
from gateway.redaction.detectors.gatherings import TRIGGERS as GATHERINGS
from gateway.redaction.detectors.gatherings import gathered
from gateway.redaction.detectors.labels import Label, Labels, Reach, Value, columns
from gateway.redaction.lexicon import COMMON, GIVEN, TRADE
from gateway.redaction.policy import Policy
from gateway.redaction.spans import Span


class Place(Enum):
    """How surely a name stands behind a word."""

    FIELD = 1  # `first_name`: one word is enough
    ROLE = 2  # `customer`, `author`: two words of the shape of a name
    VAGUE = 3  # `name`, `user`: also a first name, or other fields of a person beside it


def _field(place: Place, words: str) -> Value:
    names = tuple(word.strip() for word in words.split(","))
    return Value("NAME", place.name, names, re.compile(r"[^\n]+"), lambda _: True, Reach.COLUMN)


_FIELDS: Final = Labels(
    (
        _field(
            Place.FIELD,
            "first name, given name, forename, fname, last name, surname, family name, lname, "
            "middle name, full name, customer name, client name, patient name, contact name, "
            "contact person, employee name, account holder, account holder name, cardholder, "
            "card holder, cardholder name, name on card, holder name, beneficiary name, "
            "recipient name, sender name, owner name, author name, legal name, maiden name, "
            "next of kin, emergency contact, applicant name, passenger name, guest name, "
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
            "attn, bearbeiter, kunde, kundin, patientin, autor, autorin, verfasser, cliente, "
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
            "responsible, lead, doctor, teacher, student, guest, agent, holder, driver, tenant, "
            "patient details, benutzer, kontakt",
        ),
    )
)
_PLACES: Final = {place.name: place for place in Place}

_PARTICLES: Final = frozenset(
    ["van", "von", "de", "der", "den", "del", "della", "di", "da", "das", "dos", "do", "du", "des",
     "la", "le", "el", "al", "bin", "ibn", "ben", "zu", "zur", "vom", "ten", "ter", "af", "av", "y",
     "e", "i", "d'", "'t", "op", "san"]
)  # fmt: skip
#: Those with which a surname may begin.
_LEADING: Final = frozenset(
    ["van", "von", "de", "der", "den", "di", "da", "del", "della", "ter", "ten", "zu", "dos"]
)
#: Words that people's names are not made of, besides those of the trade.
_NO_NAME: Final = frozenset(
    ["string", "premium", "tier", "plan", "basic", "standard", "text", "optional", "none", "null",
     "true", "false", "undefined", "unknown", "anonymous", "default", "test", "tests", "testing",
     "example", "sample", "demo", "admin", "administrator", "root", "guest", "system", "user",
     "users", "customer", "client", "patient", "person", "people", "name", "names", "first", "last",
     "full", "all", "team", "everyone", "everybody", "folks", "there", "world", "sir", "madam",
     "friend", "friends", "colleague", "colleagues", "guys", "diary", "reader", "readers", "editor",
     "editors", "support", "sales", "service", "services", "department", "office", "company", "inc",
     "llc", "ltd", "gmbh", "corp", "corporation", "group", "holding", "bank", "university",
     "institute", "foundation", "project", "projects", "software", "solutions", "technologies",
     "labs", "studio", "media", "network", "networks", "systems", "global", "international",
     "public", "private", "new", "your", "my", "our", "the", "this", "that", "and", "or", "not",
     "for", "with", "from", "to", "in", "on", "at", "by", "please", "thanks", "thank", "hello",
     "hi", "hey", "dear", "regards", "best", "kind", "yes", "no", "ok", "street", "road", "avenue",
     "house", "hall", "city", "town", "county", "state", "north", "south", "east", "west", "lorem",
     "ipsum", "foo", "bar", "baz", "developers", "contributors", "authors", "committee", "board",
     "damen", "herren", "kollegen", "kolleginnen", "kunde", "kundin", "alle", "zusammen", "tous",
     "toutes", "todos", "todas", "tutti", "allemaal", "monday", "tuesday", "wednesday", "thursday",
     "friday", "saturday", "sunday", "january", "february", "march", "june", "july", "august",
     "september", "october", "november", "december", "english", "german", "french", "spanish",
     "italian", "dutch", "greek", "polish", "github", "google", "microsoft", "amazon", "apple",
     "linux", "windows", "python", "java", "javascript", "docker", "kubernetes", "claude", "bot",
     "actions", "security", "vat", "id", "iban", "bic", "ssn", "dob", "mrn", "nhs", "tin", "cvv",
     "pin", "uuid"]
)  # fmt: skip

#: First names that are also a month or a product: only with a last name behind them.
_ALSO_FIRST: Final = frozenset(["claude", "june", "august"])
_PRODUCTS: Final = frozenset(
    ["code", "sonnet", "opus", "haiku", "desktop", "ai", "instant", "agent", "cli", "pro", "max"]
)

_WORD: Final = re.compile(r"[^\W\d_](?:[^\W\d_]|['’ʼ\-](?=[^\W\d_]))*\.?")
_WORDS_MOST: Final = 6
_LONGEST: Final = 80
_ABBREVIATED: Final = frozenset(["jr.", "sr.", "st.", "ph.", "sta.", "sto."])

#: Around the sign of an address, also of one that was replaced before.
#: Up to the last sign before it that no local part holds.
_BEFORE_LOCAL: Final = re.compile(r"(?s:.*)(?:[\s<>()@,;|\"\\]|(?<!\w)'|'(?!\w))")
_DOMAIN: Final = re.compile(r"@[\w.\-]{1,255}")
_REPLACED: Final = re.compile(rf"[<(]{HIDDEN}{{1,64}}[>)]")
#: Between a name and its address: `Name <address>`, `Name (mailto:address)`.
_OPENING: Final = re.compile(r"[ \t]\\?(?:[<(]|\(<)(?:mailto:)?\Z")
#: `Name,address`: a row without a head.
_CELL_BEFORE: Final = re.compile(r"[\"']?[,;\t|][ ]?[\"']?\Z")
#: What stands before a display name.
_BEFORE_NAME: Final = re.compile(
    r"[,;>|(\[\t\n\"“”*=#•]|:(?:\d\d[ ](?:[ap]\.?m\.?,?[ ])?)?|(?<=\s)"
    r"(?:by|and|from|to|cc|with|schrieb|wrote|--?)\s",
    re.IGNORECASE,
)
_CREDIT: Final = re.compile(
    r"^[ \t]*(?:#|//|;;|\*|__author__|dnl |%)[^\n]*\Z|\b(?:by|from|to|and|thanks|author)[ \t]+\Z",
    re.IGNORECASE | re.MULTILINE,
)
#: A commit's trailer in a comment, a patch or a quotation: `# Signed-off-by: …`.
_TRAILED: Final = re.compile(r"(?:\b[A-Za-z]{2,20}(?:-[a-z]{2,12}){0,2}-by|\bCc):[ \t]{0,8}\Z")
_MAILED: Final = re.compile(
    r"(?:author|committer|commit|tagger|[\w-]{3,20}-by|from|to|b?cc|sender|reply-to|maintainer|"
    r"contact|uploaders?|"
    r"von|an|de|à|da|a|od|do|från|till|fra|til)[\"']?[ ]?:?[ \t]*[\"']?\Z",
    re.IGNORECASE,
)
_TRAILER_HEADS: Final = (
    "-by:", "@author", "author:", "committer:", "maintainer:", "from:", "to:", "cc:", "bcc:",
    "sender:", "attn:", "von:", "an:", "de:", "de :", "à:", "à :", "da:", "para:", "van:", "aan:",
    "od:", "do:", "från:", "till:", "fra:", "til:", "από:", "προς:",
)  # fmt: skip
_TRAILERS: Final = part_of(_TRAILER_HEADS)
_TRAILER_SEARCH: Final = AhoCorasick(_TRAILER_HEADS)
_TRAILER: Final = re.compile(
    r"[ \t>*#/+-]{0,12}(?:@author[ \t]+|(?:Author|Committer|Maintainer|Co-authored-by|"
    r"Signed-off-by|Reviewed-by|"
    r"Acked-by|Tested-by|Reported-by|Suggested-by|Helped-by|Approved-by|Merged-by|Requested-by|"
    r"Mentored-by|"
    r"Co-developed-by|Thanks-to|From|To|Cc|Bcc|Reply-To|Sender|Attn|Von|An|De|À|Da|Para|Van|Aan|"
    r"Od|Do|Från|Till|"
    r"Fra|Til|Από|Προς)[ \t]?:[ \t]{1,8})(?=[^\W\d_]|[\"'])",
)

_TITLES: Final = (
    "mr", "mr.", "mrs", "mrs.", "ms", "ms.", "miss", "mx.", "dr", "dr.", "prof", "prof.",
    "professor", "doctor", "sir", "madam", "rev.", "hon.", "herr", "herrn", "frau", "fräulein",
    "hr.", "fr.", "monsieur", "madame", "mademoiselle", "mme", "mme.", "mlle", "mlle.", "señor",
    "señora", "señorita", "sr.", "sra.", "srta.", "sra", "doña", "signor", "signora", "signorina",
    "sig.", "sig.ra", "sig.na", "dott.", "dott", "dott.ssa", "dottor", "dottoressa", "avv.", "ing.",
    "mag.", "arch.", "dipl.-ing.", "senhor", "senhora", "dra.", "dª", "dhr.", "dhr", "mevr.",
    "mevrouw", "meneer", "mw.", "pan", "pani", "panie", "heer", "pana", "panem", "paní", "pán",
    "fru", "fröken", "frøken", "κ.", "κος", "κα", "κύριος", "κύριε", "κυρία", "κυρία.", "г-н",
    "г-жа", "господин", "госпожа", "gospodin", "gospođa", "gospa", "domnul", "doamna", "dl.",
    "dna.", "úr",
)  # fmt: skip
_GREETINGS: Final = (
    "dear", "hi", "hello", "hey", "good morning", "good afternoon", "good evening", "hallo",
    "liebe", "lieber", "guten tag", "guten morgen", "sehr geehrter", "sehr geehrte", "moin",
    "servus", "grüezi", "bonjour", "bonsoir", "salut", "cher", "chère", "hola", "estimado",
    "estimada", "querido", "querida", "buenos días", "ciao", "caro", "cara", "gentile", "egregio",
    "buongiorno", "olá", "prezado", "prezada", "bom dia", "beste", "geachte", "hej", "hejsan",
    "kære", "kjære", "bästa", "hei", "cześć", "drogi", "droga", "szanowny", "szanowna", "ahoj",
    "dobrý den", "vážený", "vážená", "milý", "milá", "kedves", "tisztelt", "szia", "bună", "dragă",
    "stimate", "stimată", "γεια σου", "αγαπητέ", "αγαπητή", "αγαπητό", "здравей", "здравейте",
    "уважаеми", "dragi", "draga", "pozdravljeni", "tere", "labas", "sveiki",
)  # fmt: skip
#: Words that introduce somebody: whoever follows is one.
_INTRODUCTIONS: Final = (
    "my name is", "name is", "i am called", "they call me", "ich heiße", "ich heisse",
    "mein name ist", "je m'appelle", "je m’appelle", "mon nom est", "me llamo", "mi nombre es",
    "mi chiamo", "il mio nome è", "chamo-me", "me chamo", "o meu nome é", "meu nome é", "ik heet",
    "mijn naam is", "nazywam się", "mam na imię", "jag heter", "mitt namn är", "jeg heter",
    "jeg hedder", "mit navn er", "nimeni on", "jmenuji se", "volám sa", "a nevem",
    "numele meu este", "mă numesc", "με λένε", "ονομάζομαι", "меня зовут", "казвам се", "zovem se",
    "ime mi je", "minu nimi on", "mano vardas",
)  # fmt: skip
#: Words behind which often somebody is named; only names with a known first name count.
_MENTIONS: Final = (
    "my manager is", "my boss is", "my colleague is", "opened by", "closed by", "raised by",
    "filed by", "handled by", "according to", "call with",
    "interview with", "conversation with", "gespräch mit", "anruf von", "notre client",
    "notre cliente", "klientka", "rozmowa z", "send it to", "sent it to", "i am", "i'm", "i’m",
    "this is", "contact", "customer", "client", "patient", "employee",
    "colleague", "spoke to", "spoke with", "spoke to", "talk to", "talked to", "meeting with",
    "met with", "assigned to", "signed by", "reported by", "approved by", "ask", "ping", "call",
    "email", "user", "caller", "passenger", "tenant", "member", "applicant", "attendee", "manager",
    "born", "husband", "wife", "daughter", "son", "mother", "father", "witness", "ich bin", "kunde",
    "kundin", "patientin", "kollege", "kollegin", "je suis", "le client", "la cliente",
    "le patient", "soy", "el cliente", "la clienta", "el paciente", "sono", "il cliente",
    "la cliente", "il paziente", "sou", "o cliente", "ik ben", "de klant", "jestem", "klient",
    "jag är", "kunden", "jeg er", "olen", "jsem", "είμαι", "ο πελάτης", "η πελάτισσα",
)  # fmt: skip
#: Words behind which somebody is named whenever two words have the shape of it.
_PARTIES: Final = (
    "customer", "client", "patient", "declined for", "registered to", "belongs to", "issued to",
    "billed to", "shipped to", "account holder", "cardholder", "on behalf of", "policyholder",
    "kunde", "kundin", "patientin", "le client", "la cliente", "el cliente", "la clienta",
    "il cliente", "de klant", "o cliente", "pacjent", "pacjentka", "klientka", "il paziente",
    "la paziente", "el paciente", "la paciente", "o paciente", "a paciente", "le patient",
    "la patiente", "de patiënt", "potilas",
)  # fmt: skip
#: Lines that end a letter; the name stands on the next line, or behind a comma.
_CLOSINGS: Final = (
    "regards", "best", "sincerely", "yours", "cheers", "thanks", "thank you", "cordially", "warmly",
    "grüßen", "grüße", "gruß", "cordialement", "salutations", "saludos", "atentamente", "un saludo",
    "cordiali saluti", "saluti", "distinti saluti", "atenciosamente", "cumprimentos", "groet",
    "groeten", "pozdrawiam", "poważaniem", "hälsningar", "hilsen", "terveisin", "pozdravem",
    "üdvözlettel", "cu stima", "με εκτίμηση", "поздрави",
)  # fmt: skip


#: Titles that are no other word where their language is written in small letters.
_IN_SMALL: Final = frozenset(
    ["señor", "señora", "señorita", "doña", "monsieur", "madame", "mademoiselle", "signor",
     "signora", "senhor", "senhora", "heer", "meneer", "mevrouw", "pani", "panie", "panem", "paní",
     "fru", "fröken", "κύριος", "κύριε", "κυρία", "господин", "госпожа", "gospodin", "gospođa",
     "domnul", "doamna", "mevr.", "dhr.", "sig.", "sig.ra", "dott.", "dott.ssa"]
)  # fmt: skip
_TITLE_WORDS: Final = frozenset(_TITLES)


class _Cue(Enum):
    TITLE = 1
    GREETING = 2
    INTRODUCTION = 3
    MENTION = 4
    CLOSING = 5
    PARTY = 6


_CUES: Final = {
    **dict.fromkeys(_MENTIONS, _Cue.MENTION),
    **dict.fromkeys(_PARTIES, _Cue.PARTY),
    **dict.fromkeys(_CLOSINGS, _Cue.CLOSING),
    **dict.fromkeys(_INTRODUCTIONS, _Cue.INTRODUCTION),
    **dict.fromkeys(_GREETINGS, _Cue.GREETING),
    **dict.fromkeys(_TITLES, _Cue.TITLE),
}
#: Behind a blank or at a line's beginning only: `for` in `before` is not looked at.
_CUE_NAMES: Final = tuple(_CUES)
_CUE_SET: Final = set_of(_CUE_NAMES)
#: Those behind which a signature may stand.
_CLOSING_CUES: Final = frozenset(
    number
    for number, name in enumerate(_CUE_NAMES)
    if _CUES[name] is _Cue.CLOSING or name in _CLOSINGS
)
_AFTER_GREETING: Final = re.compile(r"[ ]?(?:[,!:;–—-]|\.(?!\w)|\r?\n|\Z)")
_AFTER_CLOSING: Final = re.compile(r"[,.!]?[ \t]*(?:\r?\n[ \t>]*){1,3}|,[ ]")
_AFTER_SIGNATURE: Final = re.compile(r"[ \t]*(?:[,|(]|\r?\n|\Z)")
_PERSONAL: Final = re.compile(
    r"e-?mail|phone|mobile|\btel\b|iban|address|birth|\bdob\b|\bssn\b|gender|surname|\bage\b|"
    r"customer|patient|"
    r"telefon|adresse|geburt|téléphone|teléfono|telefono|indirizzo|adres|τηλέφωνο",
    re.IGNORECASE,
)
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
_END_OF_VALUE: Final = re.compile(r"[ \t]*(?:\Z|[\r\n,;&|<}\t(/]|\)(?:\s|\Z)|\s[–—-]\s)")


#: Behind the head of a column.
_HEAD_END: Final = re.compile(r"[\w ]{0,16}[\"'`]?[ ]{0,3}(?:[,;|\t)\r\n]|\Z)")
_HEAD_SIGNS: Final = frozenset(("", *",;|\t)\r\n"))
_HEAD_MORE: Final = frozenset("_ \"'`")
#: A blank, the name of an attribute and its sign.
_ATTRIBUTE_MOST: Final = 1 + 24 + 2
_AFTER_FIELD: Final = frozenset(" \t\r\n:=\"'`*|<>\\().")


class PeopleRule(Rule):
    """Finds the names of people."""

    KINDS: ClassVar = ("NAME",)

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(
            literals=(
                "@",
                HIDDEN,
                *_TRAILER_HEADS,
                *_FIELDS.names,
                *_CUE_NAMES,
                *_DIRECTORY,
                *GATHERINGS,
                *_FHIR,
                *EASTERN_FIELDS,
            )
        )

    def spans(self, source: Source) -> Iterator[Span]:
        """Look behind fields, titles, greetings and introductions, and before addresses."""
        text = source.text
        if "@" in text or HIDDEN in text:
            yield from _mailed(text)
        yield from _trailers(source)
        yield from _fields(source)
        yield from _cued(source)
        yield from _directory(source)
        yield from _of_resource(source)
        yield from gathered(source, _person, _known, _unusual)
        yield from eastern_names(text)

    def value_spans(self, key: str, value: str, *, beside: str = "") -> Iterator[Span]:
        """The whole `value` when `key` is the name of a person's field."""
        if not 2 <= len(value) <= _LONGEST:
            return
        for label in _FIELDS.find(Source(key[-_LONGEST:])):
            place = _PLACES[label.values[0].rule]
            if label.end == len(key[-_LONGEST:]) and _is_name(value, place, beside=beside):
                yield Span(0, len(value), "NAME", 0.8, "field")
                return


def _person(text: str, at: int, limit: int) -> list[tuple[int, int]]:
    """The words from `at` on that have the shape of a name's parts."""
    parts: list[tuple[int, int]] = []
    good = 0
    while len(parts) < _WORDS_MOST:
        match = _WORD.match(text, at, limit)
        if match is None:
            break
        word, end = match.group(), match.end()
        after = text[end : end + 1]
        if after and (
            after.isdigit()
            or after in "_@\\"
            or (after == "." and text[end + 1 : end + 2].isalnum())
        ):
            break
        stop = word.endswith(".") and not (len(word) == 2 or word.lower() in _ABBREVIATED)
        bare = word.rstrip(".") if stop else word
        if word[0].isupper() and _has_shape(bare):
            low = bare.lower().rstrip(".")
            also_first = not parts and low in _ALSO_FIRST
            if not also_first and (low in _NO_NAME or bare.lower() in TRADE):
                return []
            if parts and low in _PRODUCTS:
                return []
            parts.append((at, at + len(bare)))
            good = len(parts)
        elif (parts or word in _LEADING) and word in _PARTICLES:
            parts.append((at, end))
        else:
            break
        if stop or text[end : end + 1] not in (" ", "\u00a0"):
            break
        at = end + 1
    parts = parts[:good]
    while parts and text[parts[0][0] : parts[0][1]].lower() in _TITLE_WORDS:
        del parts[0]
    if len(parts) == 1 and text[parts[0][0] : parts[0][1]].lower() in _ALSO_FIRST:
        return []
    return parts


def _has_shape(word: str) -> bool:
    """`Jane`, `O'Neil`, `McKay`, `Jean-Luc`, `J.`, `DOE`; not `camelCase`, `HTTPServer`."""
    if len(word) <= 2:
        return True
    if word.isupper():
        return len(word) <= 14
    for part in re.split(r"['’ʼ\-]", word):
        inner = part[1:]
        if (
            inner
            and not inner.islower()
            and not re.match(r"(?:Mc|Mac|De|Di|Fitz|Van|La|Le)[^\W\d_]", part)
        ):
            return False
    return True


def _known(text: str, parts: list[tuple[int, int]]) -> bool:
    """Whether the first word is a first name people bear."""
    first = _bare(text[parts[0][0] : parts[0][1]].lower())
    return first in GIVEN or any(
        piece in GIVEN for piece in re.split(r"[-'’]", first) if len(piece) > 2
    )


#: Letters that are no letter of English with an accent.
_LETTERS: Final = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe"})


def _bare(word: str) -> str:
    """Without accents, as `GIVEN` has its names."""
    if word.isascii():
        return word
    return "".join(c for c in normalize("NFKD", word.translate(_LETTERS)) if not combining(c))


#: First names that are also words of source code and of sentences in small letters.
_ALSO_WORDS: Final = frozenset(
    ["said", "max", "min", "per", "line", "ping", "tone", "rob", "bill", "will", "mark", "grace",
     "hope", "faith", "joy", "may", "june", "art", "dot", "rod", "sandy", "rusty", "penny", "iris",
     "ruby", "jasper", "eve", "gene", "guy", "pat", "sue", "dale", "dean", "drew", "glen", "lance",
     "rose", "violet", "crystal", "christian", "angel", "kay", "lee", "ray", "ross", "sky", "bo"]
)  # fmt: skip


def _in_small_letters(text: str, at: int, limit: int) -> list[tuple[int, int]]:
    """A first name people bear and a last name, both without capitals, as people chat."""
    parts: list[tuple[int, int]] = []
    named = 0
    while named < 2:
        match = _WORD.match(text, at, limit)
        word = match.group() if match is not None else ""
        if match is None or not word.islower() or len(word) < 2 or word[-1] == ".":
            break
        if text[match.end() : match.end() + 1] in _GOES_ON:
            break
        if not parts and (
            word in _ALSO_WORDS
            or (_bare(word) not in GIVEN and _bare(word.partition("-")[0]) not in GIVEN)
        ):
            return []
        if word in COMMON or word in TRADE or word in _NO_NAME:
            break
        named += word not in _PARTICLES
        parts.append(match.span())
        if text[match.end() : match.end() + 1] != " ":
            break
        at = match.end() + 1
    return parts if named == 2 else []


_GOES_ON: Final = frozenset("_@\\(=[0123456789")


def _unusual(text: str, parts: list[tuple[int, int]]) -> bool:
    """No word of them begins sentences or is one of the trade."""
    return not any(text[a:b].lower() in COMMON for a, b in parts)


_FIRST_LETTERS: Final = re.compile(r"(?<![^\W\d_])(?<![^\W\d_]['’])[^\W\d_]")


def _is_name(value: str, place: Place, *, beside: str) -> bool:
    """Whether all of `value` is the name of a person."""
    written = value.strip().replace("\\'", "'")
    if "," in written:  # `Doe, Jane`
        last, _, first = written.partition(",")
        written = f"{first.strip()} {last.strip()}" if first.strip() else last
    if written.islower() and (place is not Place.VAGUE or _PERSONAL.search(beside)):
        titled = _FIRST_LETTERS.sub(lambda first: first.group().upper(), written)
        parts = _person(titled, 0, len(titled)) if len(titled) == len(written) else []
        whole = len(parts) > 1 and parts[-1][1] == len(titled)
        return whole and _known(titled, parts) and _unusual(titled, parts)
    parts = _person(written, 0, len(written))
    if not parts or parts[-1][1] < len(written.rstrip(".")):
        return False
    full = [part for part in parts if part[1] - part[0] > 2 and written[part[0]].isupper()]
    if not full:
        return False
    if place is Place.FIELD:
        strange = any(written[a:b].lower() not in COMMON for a, b in parts)
        return _unusual(written, parts) or (len(parts) > 1 and strange) or _known(written, parts)
    if len(parts) < 2 or written.isupper():
        return (
            place is Place.ROLE
            and _known(written, parts)
            and (not written.isupper() or (len(parts) > 1 and _unusual(written, parts)))
        )
    if place is Place.ROLE:
        return _unusual(written, parts) or _known(written, parts)
    return _known(written, parts) or (
        _unusual(written, parts) and _PERSONAL.search(beside) is not None
    )


#: All that is looked at before and behind the name of a field: three tags, each with attributes,
#: and a name.
_FIELD_BEFORE: Final = 16
_FIELD_SEEN: Final = 1200
#: So many cost little, whatever follows them.
_FEW_FIELDS: Final = 500


def _field_window(text: str, label: Label) -> tuple[int, str]:
    before = min(label.start, _FIELD_BEFORE)
    return before, text[label.start - before : label.end + _FIELD_SEEN]


def _fields(source: Source) -> Iterator[Span]:
    text = source.text
    labels: list[Label] = []
    nobody: set[tuple[int, str]] = set()  # where no name follows: lines repeat
    for number, label in enumerate(_FIELDS.find(source)):
        if _ends_head(text, label.end) and (
            text[max(0, label.start - 5) : label.start].lower() != "into "  # the name of a table
        ):
            labels.append(label)
        if (
            text[label.end : label.end + 1] in ("_", "-")
            or text[label.start - 1 : label.start] == "$"
        ):
            continue
        if text[label.end : label.end + 1] not in _AFTER_FIELD or _is_no_glue(text, label.end):
            continue
        window = _field_window(text, label) if number > _FEW_FIELDS else None
        if window in nobody:
            continue
        glue = _GLUE.match(text, label.end)
        element = (
            text.startswith(">", label.end)
            and text[max(0, label.start - 16) : label.start].find("<") >= 0
        )
        if glue is None and not element:
            if window and len(nobody) < _MOST_SEEN:
                nobody.add(window)
            continue
        at = label.end + 1 if glue is None else glue.end()
        quote = None if glue is None else glue["quote"]
        span = _value_span(text, at, quote)
        if span is None:
            near = at - label.end < _FIELD_SEEN - 2 * _LONGEST
            if window and near and len(nobody) < _MOST_SEEN:
                nobody.add(window)
            continue
        place = _PLACES[label.values[0].rule]
        if glue is not None and not _SIGN.search(glue.group()):
            # `Full Name⏎Date Of Birth`: blanks say less than a colon
            row = "|" in glue.group() and place is not Place.VAGUE
            place = Place.ROLE if row else Place.VAGUE
        beside = (
            text[max(0, label.start - _NEIGHBORHOOD) : label.start] + text[at : at + _NEIGHBORHOOD]
        )
        name = text[span[0] : span[1]]
        if _PERSONAL.search(name) is None and _is_name(name, place, beside=beside):
            yield Span(*span, "NAME", 0.8, "field")
    if labels and ("\n" in text or "values" in source.folded):
        yield from _columns(source, labels)


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


def _value_span(text: str, at: int, quote: str | None) -> tuple[int, int] | None:
    if quote:
        end = text.find(quote, at, at + _LONGEST)
        while end > at and text[end - 1] == "\\" and quote in ("'", '"'):
            end = text.find(quote, end + 1, at + _LONGEST)
        return (at, end) if end > at and "\n" not in text[at:end] else None
    limit = min(len(text), at + _LONGEST)
    parts = _person(text, at, limit) or _in_small_letters(text, at, limit)
    if not parts:
        return None
    if text.startswith(", ", parts[-1][1]):  # `Doe, Jane`
        first = _person(text, parts[-1][1] + 2, min(len(text), at + _LONGEST))
        if first and _END_OF_VALUE.match(text, first[-1][1]):
            return at, first[-1][1]
    return (parts[0][0], parts[-1][1]) if _END_OF_VALUE.match(text, parts[-1][1]) else None


#: Heads of columns in tables of things: a `name` there is a person's only with a first name.
_GOODS: Final = part_of(
    ("sku", "price", "qty", "quantity", "in_stock", "unit_cost", "barcode", "product_id", "weight",
     "preis", "menge", "artikel", "prix", "quantité", "precio", "cantidad", "prezzo", "cena")
)  # fmt: skip


def _columns(source: Source, labels: list[Label]) -> Iterator[Span]:
    text = source.text
    goods = source.may_hold_words(_GOODS) and _PERSONAL.search(text) is None
    beside = "" if goods else "email"
    for value, start, end in columns(source, labels):
        cell = text[start:end]
        if (
            (cell[:1].isupper() or (" " in cell and cell.islower()))
            and 2 <= len(cell) <= _LONGEST
            and _is_name(cell, _PLACES[value.rule], beside=beside)
        ):
            yield Span(start, end, "NAME", 0.75, "column")


def _mailed(text: str) -> Iterator[Span]:
    """`Name <address>`, `Name (address)`, `address (Name)`, `Name,address`."""
    known: _Beside = {}
    at = text.find("@")
    while at >= 0:
        floor = max(0, at - _LOCAL_MOST)
        before = _BEFORE_LOCAL.match(text, floor, at)
        start = before.end() if before is not None else floor
        domain = _DOMAIN.match(text, at)
        if start < at and domain is not None:
            yield from _beside_once(text, start, domain.end(), known)
        at = text.find("@", at + 1)
    if HIDDEN in text:
        for replaced in _REPLACED.finditer(text):
            yield from _beside_once(text, replaced.start() + 1, replaced.end() - 1, known)


_LOCAL_MOST: Final = 64
#: All that is looked at around an address.
_SEEN_AROUND: Final = 128
_MOST_SEEN: Final = 4096
#: What was found around an address, counted from it, for the text there: lines repeat.
_Beside = dict[tuple[int, int, str], tuple[Span, ...]]


def _beside_once(text: str, start: int, end: int, known: _Beside) -> Iterator[Span]:
    floor = max(0, start - _SEEN_AROUND)
    key = start - floor, end - start, text[floor : end + _SEEN_AROUND]
    found = known.get(key)
    if found is None:
        if len(known) > _MOST_SEEN:
            known.clear()
        found = known[key] = tuple(
            replace(span, start=span.start - start, end=span.end - start)
            for span in _beside_address(text, start, end)
        )
    for span in found:
        yield replace(span, start=span.start + start, end=span.end + start)


def _beside_address(text: str, start: int, end: int) -> Iterator[Span]:
    """`start` and `end`: of the address."""
    if text.startswith("[mailto:", start) and text[start - 1 : start] == " ":
        span = _before(text, start - 1)
        if span is not None:
            yield Span(*span, "NAME", 0.85, "mailed")
        return
    opening = _OPENING.search(text, max(0, start - 10), start)
    if opening is not None:
        span = _before(text, opening.start())
        if span is not None:
            yield Span(*span, "NAME", 0.85, "mailed")
        return
    if text.startswith(" (", end):
        parts = _person(text, end + 2, end + 2 + _LONGEST)
        if parts and text[parts[-1][1] : parts[-1][1] + 1] == ")":
            if len(parts) > 1 or _known(text, parts):
                yield Span(end + 2, parts[-1][1], "NAME", 0.8, "mailed")
            return
    cell = _CELL_BEFORE.search(text, max(0, start - 4), start)
    if cell is not None:
        yield from _row(text, cell.start())


def _row(text: str, end: int) -> Iterator[Span]:
    """The cell that ends at `end`, before one with an address."""
    start = max(0, end - _LONGEST)
    for sign in "\n,;":
        start = max(start, text.rfind(sign, start, end) + 1)
    if text[end : end + 1] in ("'", '"'):  # `VALUES ('Jane Doe', 'jane@…'`
        start = max(start, text.rfind(text[end], start, end) + 1)
    while start < end and text[start] in " \"'|\t>":
        start += 1
    parts = _person(text, start, end)
    whole = len(parts) > 1 and parts[-1][1] == end
    if whole and (_known(text, parts) or _unusual(text, parts)):
        yield Span(start, end, "NAME", 0.75, "row")


def _before(text: str, end: int) -> tuple[int, int] | None:
    """The name that ends right before `end`."""
    floor = max(0, end - _LONGEST)
    start = floor
    quoted = text[end - 1 : end] in ('"', "'", "”")
    stop = end - 1 if quoted else end
    if quoted:
        opening = (
            text.rfind(text[stop], floor, stop)
            if text[stop] != "”"
            else text.rfind("“", floor, stop)
        )
        if opening < 0:
            return None
        start = opening + 1
        return (start, stop) if _is_name(text[start:stop], Place.ROLE, beside="") else None
    for sign in _BEFORE_NAME.finditer(text, floor, stop):
        start = sign.end()
    if _CREDIT.search(text, floor, start) and not _TRAILED.search(text, floor, start):
        return None  # whoever wrote a piece of code says so in it
    while start < stop and text[start] in " \t":
        start += 1
    name = text[start:stop]
    if _is_name(name, Place.ROLE, beside=""):
        return start, stop
    if _TRAILED.search(text, floor, start):  # `Reviewed-by: Can Aydin <…>`
        parts = _person(text, start, stop)
        if len(parts) > 1 and parts[-1][1] == stop:
            return start, stop
    if (name.islower() or name.isupper()) and _MAILED.search(text, floor, start):
        titled = _FIRST_LETTERS.sub(lambda first: first.group().upper(), name.lower())
        parts = _person(titled, 0, len(titled)) if len(titled) == len(name) else []
        if len(parts) > 1 and parts[-1][1] == len(titled) and _unusual(titled, parts):
            return start, stop
    parts = _person(text, start, stop)
    if len(parts) == 1 and parts[0][1] == stop and _MAILED.search(text, floor, start):
        return start, stop  # `From: Jane <…>`
    return None


def _trailers(source: Source) -> Iterator[Span]:
    """`Reviewed-by: Jane Doe`, without an address too."""
    if not source.may_hold_words(_TRAILERS):
        return
    text = source.text
    for _, found, _end in _TRAILER_SEARCH.find_matches_as_indexes(source.folded):
        line = text.rfind("\n", max(0, found - _LONGEST), found) + 1
        trailer = _TRAILER.match(text, line)
        if trailer is None:
            continue
        at = trailer.end()
        at += text[at : at + 1] in ("'", '"')
        parts = _person(text, at, min(len(text), at + _LONGEST))
        if len(parts) < 2 or not _unusual(text, parts) or trailer.group().lstrip()[0] in "#/":
            continue
        tagged = trailer.group().strip().endswith("author")
        if not (tagged or _END_OF_VALUE.match(text, parts[-1][1])):
            continue
        if "-by" in trailer.group() or "uthor" in trailer.group() or _known(text, parts):
            yield Span(at, parts[-1][1], "NAME", 0.8, "trailer")


#: Names of a person in a card (RFC 6350), a calendar (RFC 5545) and a directory (RFC 4519).
_DIRECTORY: Final = (
    "fn:", "fn;", "cn=", "\nn:", "\nn;", "displayname=", "sn=", "givenname=", "\ncn: ", "\nsn: ",
)  # fmt: skip
_DIRECTORIES: Final = part_of(_DIRECTORY)
_DIRECTORY_VALUE: Final = re.compile(
    r"(?:;[^:\n]{1,60}:)?[\"']?(?P<name>[^\W\d_](?:[^\W\d_]|[ .'’;\-]){1,79})(?=[\"',:;+/\r\n]|\Z)"
)


#: A person in a FHIR resource (R4, HumanName): the family name, and the given ones as a list.
_FHIR: Final = ('"family"', '"given"', '"resourcetype"')
_FHIR_PART: Final = part_of(('"family"', '"text"'))
_FHIR_OTHER: Final = part_of(('"given"', '"resourcetype"'))
_FAMILY: Final = re.compile(r'"family"\s{0,4}:\s{0,4}"(?P<name>[^"\\\n]{2,60})"')
_GIVEN: Final = re.compile(
    r'"given"\s{0,20}:\s{0,20}\[(?P<names>\s{0,40}"[^"\\\n]{1,60}"(?:\s{0,40},\s{0,40}"[^"\\\n]{1,60}"){0,5})'
)
_NAME_TEXT: Final = re.compile(
    r'"name"\s{0,4}:\s{0,4}\[\s{0,40}\{[^{}\[\]]{0,160}?"text"\s{0,4}:\s{0,4}"(?P<name>[^"\\\n]{2,80})"'
)
_QUOTED: Final = re.compile(r'"([^"]{2,60})"')


def _of_resource(source: Source) -> Iterator[Span]:
    if not (source.may_hold_words(_FHIR_PART) and source.may_hold_words(_FHIR_OTHER)):
        return
    text = source.text
    if _GIVEN.search(text) is None and '"resourcetype"' not in source.folded:
        return  # a font
    for family in _FAMILY.finditer(text):
        if family["name"][0].isupper():
            yield Span(*family.span("name"), "NAME", 0.85, "resource")
    for written in _NAME_TEXT.finditer(text):
        if len(_person(written["name"], 0, len(written["name"]))) > 1:
            yield Span(*written.span("name"), "NAME", 0.85, "resource")
    for given in _GIVEN.finditer(text):
        for name in _QUOTED.finditer(text, *given.span("names")):
            if name.group(1)[0].isupper():
                yield Span(*name.span(1), "NAME", 0.85, "resource")


def _directory(source: Source) -> Iterator[Span]:
    if not source.may_hold_words(_DIRECTORIES):
        return
    text = source.text
    for at, sign in occurrences(source.folded, _DIRECTORY):
        if text[at - 1 : at].isalnum() and sign[0] != "\n":
            continue
        end = at + len(sign) - (sign[-1] == ";")
        match = _DIRECTORY_VALUE.match(text, end)
        if match is None:
            continue
        start, last = match.span("name")
        name = text[start:last].rstrip(" ;")
        words = name.replace(";", " ")
        single = sign in ("sn=", "givenname=", "\nsn: ")
        parts = _person(words, 0, len(words))
        if (
            parts
            and parts[-1][1] == len(words)
            and (_known(words, parts) or _unusual(words, parts))
            and (single or len(parts) > 1)
        ):
            yield Span(start, start + len(name), "NAME", 0.8, "directory")


def _cued(source: Source) -> Iterator[Span]:
    text = source.text
    for index, at, end in leftmost_longest(source.found(_CUE_SET)):
        if index in _CLOSING_CUES:
            yield from _signature(text, at, end)
        if not text.startswith(" ", end):
            continue
        cue = _CUES[_CUE_NAMES[index]]
        small = text[end + 1 : end + 2].islower() and _may_be_small(text, cue, at, end)
        if not (small or text[end + 1 : end + 2].isupper()) and (
            cue not in (_Cue.TITLE, _Cue.GREETING)
            or text[end + 1 : end + 6].partition(" ")[0] not in _LEADING
        ):
            continue
        before = text[at - 1 : at]
        if before and (before.isalnum() or before in "_./@$"):
            continue
        limit = min(len(text), end + 1 + _LONGEST)
        if small and (parts := _in_small_letters(text, end + 1, limit)):
            if cue is not _Cue.GREETING or _AFTER_GREETING.match(text, parts[-1][1]):
                yield Span(parts[0][0], parts[-1][1], "NAME", 0.7, cue.name.lower())
            continue
        parts = _person(text, end + 1, limit)
        if parts and _is_told(text, cue, at, parts, _CUE_NAMES[index]):
            yield Span(parts[0][0], parts[-1][1], "NAME", 0.75, cue.name.lower())


def _may_be_small(text: str, cue: _Cue, at: int, end: int) -> bool:
    """Whether behind this cue a name may stand without capitals."""
    return cue is not _Cue.CLOSING and (
        cue is not _Cue.TITLE or text[at:end].rstrip(".").lower() in _SMALL_TITLES
    )


_SMALL_TITLES: Final = frozenset(
    ["mr", "mrs", "ms", "dr", "prof", "herr", "herrn", "frau", "monsieur", "madame", "mme", "señor",
     "señora", "sr", "sra", "signor", "signora", "sig", "senhor", "senhora", "mevrouw", "meneer",
     "pan", "pani", "fru", "fröken"]
)  # fmt: skip


def _is_told(text: str, cue: _Cue, at: int, parts: list[tuple[int, int]], written: str) -> bool:
    end = parts[-1][1]
    if cue is _Cue.TITLE:
        capital = text[at].isupper() or written in _IN_SMALL
        return (
            capital and (end - parts[0][0] > 2) and (_unusual(text, parts) or _known(text, parts))
        )
    if cue is _Cue.GREETING:
        if not _AFTER_GREETING.match(text, end):
            return False
        return _known(text, parts) or (
            _unusual(text, parts)
            and text[at].isupper()
            and text[end : end + 1] in (",", ":", "!")
            and _begins_line(text, at)
        )
    if cue is _Cue.INTRODUCTION:
        return _known(text, parts) or _unusual(text, parts)
    if len(parts) < 2 or not _unusual(text, parts[1:]):
        return False
    return _known(text, parts) or (cue is _Cue.PARTY and _unusual(text, parts))


def _begins_line(text: str, at: int) -> bool:
    line = text.rfind("\n", max(0, at - 12), at) + 1
    return not text[line:at].strip(" \t>\"'*_") if line or at <= 12 else False


def _signature(text: str, at: int, end: int) -> Iterator[Span]:
    """`Kind regards,⏎Jane Doe`"""
    if text[at - 1 : at].isalnum():
        return
    gap = _AFTER_CLOSING.match(text, end)
    if gap is None:
        return
    limit = min(len(text), gap.end() + _LONGEST)
    parts = _person(text, gap.end(), limit)
    if not parts and "\n" in gap.group():
        parts = _in_small_letters(text, gap.end(), limit)
    if not parts or len(parts) > 4 or not _AFTER_SIGNATURE.match(text, parts[-1][1]):
        return
    if _known(text, parts) or (len(parts) > 1 and _unusual(text, parts) and "\n" in gap.group()):
        yield Span(parts[0][0], parts[-1][1], "NAME", 0.7, "signature")
