"""What has the shape of a person's name, and how much of it is known.

Owns the words no name is made of, titles and particles, and the judgement of a whole value.
Invariant: a word of the trade (`Build`, `Server`) is never part of a name; what is judged is
bounded. Called by every module that looks where names stand.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final
from unicodedata import combining, normalize

from gateway.redaction.lexicon import COMMON, GIVEN, TRADE


class Place(Enum):
    """How surely a name stands behind a word."""

    FIELD = 1  # `first_name`: one word is enough
    ROLE = 2  # `customer`, `author`: two words of the shape of a name
    VAGUE = 3  # `name`, `user`: also a first name, or other fields of a person beside it


PARTICLES: Final = frozenset(
    ["van", "von", "de", "der", "den", "del", "della", "di", "da", "das", "dos", "do", "du", "des",
     "la", "le", "el", "al", "bin", "ibn", "ben", "zu", "zur", "vom", "ten", "ter", "af", "av", "y",
     "e", "i", "d'", "'t", "op", "san"]
)  # fmt: skip
#: Those with which a surname may begin.
LEADING: Final = frozenset(
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
LONGEST: Final = 80
_ABBREVIATED: Final = frozenset(["jr.", "sr.", "st.", "ph.", "sta.", "sto."])
TITLES: Final = (
    "mr", "mr.", "mrs", "mrs.", "ms", "ms.", "miss", "mx.", "dr", "dr.", "prof", "prof.",
    "professor", "doctor", "sir", "madam", "rev.", "hon.", "herr", "herrn", "frau", "fräulein",
    "hr.", "fr.", "familie", "fam.", "famille", "famiglia", "família", "monsieur", "madame",
    "mademoiselle", "mme", "mme.", "mlle", "mlle.", "señor",
    "señora", "señorita", "sr.", "sra.", "srta.", "sra", "doña", "signor", "signora", "signorina",
    "sig.", "sig.ra", "sig.na", "dott.", "dott", "dott.ssa", "dottor", "dottoressa", "avv.", "ing.",
    "mag.", "arch.", "dipl.-ing.", "senhor", "senhora", "dra.", "dª", "dhr.", "dhr", "mevr.",
    "mevrouw", "meneer", "mw.", "pan", "pani", "panie", "heer", "pana", "panem", "paní", "pán",
    "fru", "fröken", "frøken", "κ.", "κος", "κα", "κύριος", "κύριε", "κυρία", "κυρία.", "г-н",
    "г-жа", "господин", "госпожа", "gospodin", "gospođa", "gospa", "domnul", "doamna", "dl.",
    "dna.", "úr",
)  # fmt: skip
TITLE_WORDS: Final = frozenset(TITLES)
PERSONAL: Final = re.compile(
    r"e-?mail|phone|mobile|\btel\b|iban|address|birth|\bdob\b|\bssn\b|gender|surname|\bage\b|"
    r"customer|patient|"
    r"telefon|adresse|geburt|téléphone|teléfono|telefono|indirizzo|adres|τηλέφωνο",
    re.IGNORECASE,
)
#: The same of fewer countries, for stretches near a field: a search of all of a text would be slow.
_PERSONAL_TOO: Final = re.compile(
    r"\b(?:(?:nif|nie|dni|nss|bsn|pesel|cpf|nino|nhs|cpr|amka|oib)\b|codice fiscale|passport|"
    r"pasaporte|reisepass|passaporto|paszport|paspoort|direcci[óo]n|domicilio|morada|endere[çc]o|telem[óo]vel|"
    r"m[óo]vil|cellulare|portable|handy|naissance|nascita|nascimento|nacimiento|geboorte|urodzenia)",
    re.IGNORECASE,
)
END_OF_VALUE: Final = re.compile(
    r"[ \t]*(?:\Z|[\r\n,;&|<}\t(/]|\)(?:\s|\Z)|\.(?:\s|\Z)|[ ]{2}|\s[–—-]\s)"
)


def person_at(text: str, at: int, limit: int) -> list[tuple[int, int]]:
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
        elif (parts or word in LEADING) and word in PARTICLES:
            parts.append((at, end))
        else:
            break
        if stop or text[end : end + 1] not in (" ", "\u00a0"):
            break
        at = end + 1
    parts = parts[:good]
    while parts and text[parts[0][0] : parts[0][1]].lower() in TITLE_WORDS:
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
            and not re.fullmatch(
                r"(?:Mc|Mac|De|Di|Fitz|Van|La|Le)(?:[^\W\d_a-z][^\W\d_A-Z]{1,20}){1,2}", part
            )
        ):
            return False
    return True


def is_known(text: str, parts: list[tuple[int, int]]) -> bool:
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


def small_person_at(text: str, at: int, limit: int) -> list[tuple[int, int]]:
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
        named += word not in PARTICLES
        parts.append(match.span())
        if text[match.end() : match.end() + 1] != " ":
            break
        at = match.end() + 1
    return parts if named == 2 else []


_GOES_ON: Final = frozenset("_@\\(=[0123456789")


def is_unusual(text: str, parts: list[tuple[int, int]]) -> bool:
    """No word of them begins sentences or is one of the trade."""
    return not any(text[a:b].lower() in COMMON for a, b in parts)


FIRST_LETTERS: Final = re.compile(r"(?<![^\W\d_])(?<![^\W\d_]['’])[^\W\d_]")


def is_name(value: str, place: Place, *, beside: str) -> bool:
    """Whether all of `value` is the name of a person."""
    written = value.strip().replace("\\'", "'")
    if "," in written:  # `Doe, Jane`
        last, _, first = written.partition(",")
        written = f"{first.strip()} {last.strip()}" if first.strip() else last
    if written.islower() and (place is not Place.VAGUE or PERSONAL.search(beside)):
        titled = FIRST_LETTERS.sub(lambda first: first.group().upper(), written)
        parts = person_at(titled, 0, len(titled)) if len(titled) == len(written) else []
        whole = len(parts) > 1 and parts[-1][1] == len(titled)
        return whole and is_known(titled, parts) and is_unusual(titled, parts)
    parts = person_at(written, 0, len(written))
    if not parts or parts[-1][1] < len(written.rstrip(".")):
        return False
    full = [part for part in parts if part[1] - part[0] > 2 and written[part[0]].isupper()]
    if not full:
        return False
    if place is Place.FIELD:
        strange = any(written[a:b].lower() not in COMMON for a, b in parts)
        return (
            is_unusual(written, parts) or (len(parts) > 1 and strange) or is_known(written, parts)
        )
    if len(parts) < 2 or written.isupper():
        return (
            place is Place.ROLE
            and is_known(written, parts)
            and (not written.isupper() or (len(parts) > 1 and is_unusual(written, parts)))
        )
    if place is Place.ROLE:
        return is_unusual(written, parts) or is_known(written, parts)
    return is_known(written, parts) or (
        is_unusual(written, parts)
        and (PERSONAL.search(beside) or _PERSONAL_TOO.search(beside)) is not None
    )


MOST_SEEN: Final = 4096
