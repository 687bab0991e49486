"""Names behind words that announce one: titles (`Herr …`), greetings, introductions (`my name is
…`), mentions (`reported by …`), parties of a contract, and signatures below a letter's end.

Owns those words, in the languages of the EU, and what each asks of the name behind it. Invariant:
bounded work for every word. Called by `people`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final

from gateway.redaction.detectors.base import Source, leftmost_longest, set_of
from gateway.redaction.detectors.person_names import (
    LEADING,
    LONGEST,
    TITLES,
    is_known,
    is_unusual,
    person_at,
    small_person_at,
)
from gateway.redaction.spans import Span

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
    "ime mi je", "minu nimi on", "mano vardas", "je soussigné", "je soussignée",
    "je soussigné(e)", "il sottoscritto",
    "la sottoscritta", "ondergetekende", "niżej podpisany", "niżej podpisana", "el abajo firmante",
    "la abajo firmante", "o abaixo assinado", "a abaixo assinada",
)  # fmt: skip
#: Words behind which often somebody is named; only names with a known first name count.
_MENTIONS: Final = (
    "worked with", "works with", "eu,", "yo,", "ich,", "sou a", "sou o", "benutzer", "benutzerin",
    "nutzer", "nutzerin", "mitarbeiter", "mitarbeiterin", "bewerber", "bewerberin", "mieter",
    "mieterin", "zeuge", "zeugin", "my manager is", "my boss is", "my colleague is",
    "opened by", "closed by", "raised by",
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
    "la patiente", "de patiënt", "potilas", "paziente", "paciente",
    "utilisateur", "utilisatrice", "usuario", "usuaria", "utente", "gebruiker", "utilizador",
    "utilizadora", "usuário", "usuária", "użytkownik", "użytkowniczka", "empleado", "empleada",
    "salarié", "salariée", "dipendente", "medewerker", "pracownik", "emergency contact for",
    "certify that", "certifie que", "certifico que", "certifico che", "rilasciata a",
    "rilasciato a", "délivré à", "délivrée à", "expedido a", "expedida a", "ausgestellt auf",
    "ausgestellt für", "afgegeven aan", "wydany dla", "wydana dla", "intestato a", "intestata a",
    "au nom de", "a nombre de", "em nome de", "a nome di", "op naam van", "auf den namen",
    "in the name of", "payable to", "defendant", "plaintiff", "claimant", "appellant", "respondent",
    "petitioner", "husband", "wife", "daughter", "mother", "father", "ehemann", "ehefrau",
    "tochter", "sohn", "mon mari", "son mari", "épouse", "époux", "ma fille", "sa fille",
    "mon fils", "son fils", "marido", "esposa", "hijo",
    "hija", "marito", "moglie", "figlio", "figlia", "filho", "filha", "echtgenoot", "echtgenote",
    "dochter", "zoon", "mąż", "żona", "córka",
)  # fmt: skip
#: Whom others are called by: a first name alone is enough, and a comma may stand before the name.
_RELATIONS: Final = frozenset(
    ["husband", "wife", "daughter", "son", "mother", "father", "ehemann", "ehefrau", "tochter",
     "sohn", "mon mari", "son mari", "épouse", "époux", "ma fille", "sa fille", "mon fils",
     "son fils", "marido", "esposa", "hijo", "hija",
     "marito", "moglie", "figlio", "figlia", "filho", "filha", "echtgenoot", "echtgenote",
     "dochter", "zoon", "mąż", "żona", "córka", "manager", "ondergetekende", "il sottoscritto",
     "la sottoscritta", "eu,", "yo,", "ich,"]
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
    **dict.fromkeys(TITLES, _Cue.TITLE),
}
#: Behind a blank or at a line's beginning only: `for` in `before` is not looked at.
CUE_NAMES: Final = tuple(_CUES)
_CUE_SET: Final = set_of(CUE_NAMES)
#: Those behind which a signature may stand.
_CLOSING_CUES: Final = frozenset(
    number
    for number, name in enumerate(CUE_NAMES)
    if _CUES[name] is _Cue.CLOSING or name in _CLOSINGS
)
_AFTER_GREETING: Final = re.compile(r"[ ]?(?:[,!:;–—-]|\.(?!\w)|\r?\n|\Z)")
_AFTER_CLOSING: Final = re.compile(r"[,.!]?[ \t]*(?:\r?\n[ \t>]*){1,3}|,[ ]")
_AFTER_SIGNATURE: Final = re.compile(r"[ \t]*(?:[,|(]|\r?\n|\Z)")


def cued_names(source: Source) -> Iterator[Span]:
    """Yield the names behind titles, greetings, introductions and mentions, and below a letter."""
    text = source.text
    for index, at, cue_end in leftmost_longest(source.found(_CUE_SET)):
        end = cue_end
        if index in _CLOSING_CUES:
            yield from _signature(text, at, end)
        if not text.startswith(" ", end):
            if not text.startswith(", ", end) or CUE_NAMES[index] not in _RELATIONS:
                continue
            end += 1
        cue = _CUES[CUE_NAMES[index]]
        small = text[end + 1 : end + 2].islower() and _may_be_small(text, cue, at, end)
        if not (small or text[end + 1 : end + 2].isupper()) and (
            cue not in (_Cue.TITLE, _Cue.GREETING)
            or text[end + 1 : end + 6].partition(" ")[0] not in LEADING
        ):
            continue
        before = text[at - 1 : at]
        if before and (before.isalnum() or before in "_./@$"):
            continue
        limit = min(len(text), end + 1 + LONGEST)
        if small and (parts := small_person_at(text, end + 1, limit)):
            if cue is not _Cue.GREETING or _AFTER_GREETING.match(text, parts[-1][1]):
                yield Span(parts[0][0], parts[-1][1], "NAME", 0.7, cue.name.lower())
            continue
        parts = person_at(text, end + 1, limit)
        if parts and _is_told(text, cue, at, parts, CUE_NAMES[index]):
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
            capital
            and (end - parts[0][0] > 2)
            and (is_unusual(text, parts) or is_known(text, parts))
        )
    if cue is _Cue.GREETING:
        if not _AFTER_GREETING.match(text, end):
            return False
        return is_known(text, parts) or (
            is_unusual(text, parts)
            and text[at].isupper()
            and text[end : end + 1] in (",", ":", "!")
            and _begins_line(text, at)
        )
    if cue is _Cue.INTRODUCTION:
        return is_known(text, parts) or is_unusual(text, parts)
    if len(parts) < 2 and written in _RELATIONS:
        return is_known(text, parts) and is_unusual(text, parts)
    if len(parts) < 2 or not is_unusual(text, parts[1:]):
        return False
    return is_known(text, parts) or (cue is _Cue.PARTY and is_unusual(text, parts))


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
    limit = min(len(text), gap.end() + LONGEST)
    parts = person_at(text, gap.end(), limit)
    if not parts and "\n" in gap.group():
        parts = small_person_at(text, gap.end(), limit)
    if not parts or len(parts) > 4 or not _AFTER_SIGNATURE.match(text, parts[-1][1]):
        return
    if is_known(text, parts) or (
        len(parts) > 1 and is_unusual(text, parts) and "\n" in gap.group()
    ):
        yield Span(parts[0][0], parts[-1][1], "NAME", 0.7, "signature")
