"""Passwords and keys in what people write to each other, in the languages of the EU: `the password
is …`, `Passwort lautet …`, `API key: …`.

A plain word counts as a password only where a sentence can mean nothing else: behind a colon, in
quotes, or as the last word behind `is`; words that describe a password never do. Invariant: pure
and linear; every phrase is read behind once, a bounded way. Called by `SecretRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ahocorasick_rs import AhoCorasick, Implementation, MatchKind

from gateway.redaction.detectors.answers import BACK, also_told, answer_to
from gateway.redaction.detectors.base import Source, part_of
from gateway.redaction.detectors.names import PASSWORD_WORDS, is_secret_name
from gateway.redaction.detectors.phrases import drawn_words
from gateway.redaction.detectors.repeats import moved, repeats_of
from gateway.redaction.detectors.values import (
    CODE,
    CONSTANTS,
    JUDGED,
    OPEN_VALUE,
    SHORTEST,
    SPOKEN_MAX,
    Judge,
    dense,
    is_chosen,
    is_dotted_words,
    is_generated,
    is_leet,
    is_long_random,
    is_mixed,
    is_pattern,
    is_random,
    is_technical,
    spoken_word,
)
from gateway.redaction.spans import Span

#: Words for what a generator made.
_KEYS: Final = (
    "api key", "api-key", "apikey", "api secret", "api token", "access key", "access token",
    "secret key", "secret access key", "auth token", "auth key", "bearer token", "client secret",
    "app secret", "token", "secret", "license key", "licence key", "encryption key", "signing key",
    "signing secret", "webhook secret", "private key", "refresh token", "session token",
    "deploy key",
    "fernet key", "hmac key", "aes key", "master key", "service key", "app password",
    "recovery code", "backup code", "2fa seed", "totp seed", "otp seed", "mfa seed", "2fa key",
    "totp key", "unseal key",
    "subscription key", "account key", "storage key", "connection key", "api-schlüssel",
    "zugangsschlüssel", "geheimer schlüssel", "clé api", "clé secrète", "clave de api",
    "clave secreta", "chiave api", "chiave segreta", "chave de api", "chave secreta", "klucz api",
    "api-sleutel", "api-nyckel", "api-nøgle", "api-avain", "api klíč", "api kulcs", "κλειδί api",
)  # fmt: skip
_WORDS: Final = (*PASSWORD_WORDS, *_KEYS)

#: `still`, `now`, and the like behind the verb.
_NOW: Final = (
    r"(?: (?:now|still|currently|actually|just|simply|again|probably|literally|really|jetzt|noch|"
    r"immer noch|aktuell|weiterhin|nun|maintenant|toujours|encore|actuellement|ahora|todav[ií]a|"
    r"sigue siendo|ora|ancora|adesso|agora|ainda|nu|nog|nog steeds|teraz|nadal|fortfarande|"
    r"stadig|fortsatt|nyt|edelleen))"
)
_VERBS: Final = (
    r"(?:(?:wurde|wird)(?: jetzt)? auf|a été (?:changé|remplacé|réinitialisé|modifié) (?:en|par|à)|"
    r"(?:ha sido|fue|se) (?:cambiad[oa]|cambió) (?:a|por)|è stata (?:cambiata|impostata) (?:in|a)|"
    r"foi (?:alterada|mudada|trocada) para|is (?:gewijzigd|veranderd|aangepast) (?:naar|in)|"
    r"zmienion[oe] na|(?:har )?ändrats till|(?:er |blev )?ændret til|"
    r"is set to|(?:is|was|got|gets|has been|had been|will be|to be) "
    r"(?:changed|set|reset|rotated|updated|switched) (?:back )?to|"
    rf"(?:is|was|will be|should be|has been|had been|used to be|must be|might be|may be|could be|"
    rf"remains|stays|became|becomes){_NOW}?|changed to|rotated to|reset to|set to|'s|"
    r"equals|are|(?<=has[łl]o )to|"
    rf"(?:ist|lautet|war|bleibt|heißt|heisst|est|sera|reste|était|c'est|es|será|era|sigue siendo|"
    rf"è|é|e'|sarà|este|e|jest|to|brzmi|είναι|on|är|er|blir|je|a|az|есть|е|yra|ir|bydd){_NOW}?)"
)
#: What may stand between the word and its verb: `for the staging box`, `du serveur`.
_OF: Final = (
    r"(?: (?:for|of|to|on|at|für|fuer|zum|zur|vom|von|des|der|di|dello|av|af|του|της|για|"
    r"от|для|до|к|на|за|pour|du|"
    r"de la|de|para|del|da|do|per|"
    r"della|voor|van|til|"
    r"för|do|dla|na|pro|k|za|pentru)(?: [\w@.'’/-]{1,30}){1,4}?|"
    r" [а-яё]{4,20}(?=:)|"
    r" (?:that )?(?:you|we|i|they) (?:\w{1,12} ){0,2}\w{1,12}|"
    r" (?:itself|here|there|below|in question|wi-?fi|wlan|ssh|vpn|admin|root|"
    r"tempor(?:aire|al|ário|anea|är)|provisoire|provisional|"
    r"μου|σου|μας))?"
)
_GLUE: Final = re.compile(
    rf"(?P<closed>[\"'`*_]{{0,3}})(?:[ \t]{{1,2}}\([^()\n]{{1,30}}\))?"
    rf"(?:{_OF}[ \t]{{1,3}}(?P<verb>{_VERBS})(?P<colon>[ ]?:)?[ \t]{{1,3}}|"
    rf"{_OF}[ \t]{{0,3}}(?P<sign>:|(?<=[ ])=(?=[ ])|→|-{{1,2}}>|[ \t][–—-]{{1,2}}(?=[ \t])|"
    rf"\.{{3,60}}|\|)[*_]{{0,3}}[ \t]{{0,4}}|"
    rf"(?P<is>['’]s[ \t]{{1,3}})|(?P<none>[ \t]{{1,2}}(?=[\"'`«“]|[\w+/\-]{{20}})))"
    r"(?P<quote>\*\*|[\"'`«“„]|<code>)?",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(r"[^\"'`«»“”„\n<>]{4,128}")
#: Before a name that is a member's in source code, as minified programs hold them.
_MEMBER_OF: Final = ("{", ",", "(")
_CLOSERS: Final = "\"'`»”“*<"
#: Words that say something about a password. Longer than what a dictionary would call adjectives.
_ABOUT: Final = frozenset(
    ["required", "requires", "optional", "invalid", "valid", "incorrect", "correct", "wrong",
     "empty", "missing", "needed", "hidden", "masked", "hashed", "encrypted", "stored",
     "expired", "expire", "expiring", "improve", "default", "secret", "secure", "insecure",
     "strong", "weak", "short", "long", "longer", "shorter", "blank", "unset", "null", "none",
     "undefined", "provided", "given", "known", "unknown", "shared", "saved", "changed",
     "reset", "rotated", "revoked", "leaked", "compromised", "used", "unused", "accepted",
     "rejected", "denied", "allowed", "checked", "verified", "ignored", "redacted", "removed",
     "deleted", "disabled", "enabled", "protected", "available", "unavailable", "temporary",
     "permanent", "random", "generated", "custom", "different", "identical", "same", "plain",
     "plaintext", "string", "always", "never", "already", "still", "usually", "often", "also",
     "just", "only", "really", "about", "here", "there", "below", "above", "following",
     "somewhere", "everywhere", "inside", "sent", "passed", "read", "written", "shown",
     "displayed", "printed", "logged", "typed", "entered", "asked", "requested", "prompted",
     "supported", "deprecated", "mandatory", "necessary", "important", "sensitive",
     "confidential", "private", "public", "okay", "fine", "good", "safe", "unsafe", "true",
     "false", "authentication", "login", "username", "password", "token", "value", "field",
     "prompt", "from", "with", "when", "that", "this", "what", "which", "your", "their",
     "there's", "something", "anything", "everything", "nothing", "everyone", "someone",
     "another", "case-sensitive", "obligatoire", "obligatorio", "obligatoria", "erforderlich",
     "pflichtfeld", "falsch", "richtig", "incorrecte", "incorrecta", "obbligatoria",
     "obrigatória", "wymagane", "verplicht", "virheellinen", "krävs", "enter", "type", "choose",
     "confirm", "change", "forgot", "show", "hide", "minimum", "maximum", "length",
     "characters", "letters", "digits", "whatever", "anyway", "example", "placeholder",
     "pending", "unchanged", "consists", "contains", "expected", "present", "absent", "ready",
     "over", "under", "between", "within", "tbd", "todo", "varies", "n/a", "hover", "focus",
     "active", "see", "ask", "text", "input", "label", "object", "boolean", "number", "kept",
     "kaputt", "abgelaufen", "geheim", "обязательно", "обязателен", "требуется", "неверный",
     "неверен", "скрыт", "изменён", "secreto", "secreta", "segreta", "segreto", "personal",
     "nope", "yes", "ungültig", "gültig", "fehlt", "leer", "gesperrt", "gespeichert",
     "verschlüsselt", "geändert", "zurückgesetzt", "unbekannt", "bekannt", "gesetzt",
     "notwendig", "nötig", "sicher", "unsicher", "stark", "schwach", "identisch", "korrekt",
     "verloren", "vergessen", "hinterlegt", "invalide", "valide", "requis", "requise", "expiré",
     "expirée", "oublié", "perdu", "vide", "manquant", "faible", "faux", "erroné", "chiffré",
     "stocké", "enregistré", "modifié", "réinitialisé", "protégé", "caché", "facultatif",
     "identique", "sécurisé", "inválida", "inválido", "válida", "válido", "caducada",
     "caducado", "expirada", "expirado", "vacía", "vacío", "errónea", "erróneo", "olvidada",
     "débil", "segura", "seguro", "única", "único", "cifrada", "cifrado", "requerida",
     "requerido", "opcional", "valor", "cambiada", "guardada", "almacenada", "distinta",
     "diferente", "scaduta", "scaduto", "errata", "errato", "sbagliata", "sbagliato", "vuota",
     "vuoto", "debole", "sicura", "sicuro", "valida", "valido", "richiesta", "richiesto",
     "dimenticata", "cambiata", "salvata", "cifrata", "diversa", "diverso", "corretta",
     "corretto", "facoltativa", "vazia", "vazio", "errada", "errado", "esquecida", "fraca",
     "forte", "criptografada", "necessária", "incorreta", "correta", "alterada", "salva",
     "armazenada", "verlopen", "ongeldig", "geldig", "onjuist", "juist", "fout", "verkeerd",
     "leeg", "vergeten", "zwak", "sterk", "veilig", "onveilig", "vereist", "optioneel",
     "gewijzigd", "opgeslagen", "versleuteld", "onbekend", "bekend", "geblokkeerd", "hetzelfde",
     "anders", "nieprawidłowe", "prawidłowe", "niepoprawne", "poprawne", "błędne", "puste",
     "słabe", "silne", "wygasło", "nieważne", "ważne", "zapomniane", "zmienione", "zapisane",
     "zaszyfrowane", "takie", "ogiltigt", "giltigt", "felaktigt", "fel", "tomt", "svagt",
     "starkt", "glömt", "obligatoriskt", "ändrat", "sparat", "krypterat", "ugyldig", "ugyldigt",
     "gyldig", "forkert", "feil", "utløpt", "udløbet", "påkrevd", "påkrævet", "glemt", "endret",
     "ændret", "lagret", "väärä", "oikea", "tyhjä", "vanhentunut", "pakollinen", "heikko",
     "vahva", "unohtunut", "neplatné", "platné", "nesprávné", "správné", "prázdné", "slabé",
     "silné", "povinné", "vypršelo", "érvénytelen", "hibás", "üres", "kötelező", "gyenge",
     "lejárt", "greșită", "invalidă", "incorectă", "obligatorie", "expirată", "goală", "slabă",
     "неправильный", "верный", "пустой", "слабый", "истёк", "истек", "обязательный", "изменен",
     "невалидна", "грешна", "празна", "задължителна", "λάθος", "άκυρος", "κενός",
     "υποχρεωτικός"]
)  # fmt: skip
_PLAIN: Final = re.compile(r"[^\W\d_]+(?:[-_.][^\W_]+){0,4}")
#: `dragon1`, and numbers no sentence counts with.
_NUMBERED: Final = re.compile(r"[^\W\d_]{4,}\d{1,4}|\d{6,16}")
_ENDS: Final = re.compile(
    r"[ \t]{0,2}(?:\Z|[\r\n.!;,)|\]\"'`*]|\((?=\w)|[–—-]\s|(?:and|und|et|y|e|og|och|i|then|so|"
    r"but)\b)"
)
_TOLD: Final = re.compile(r"\b(?:use|using|enter|type|with|set)\b", re.IGNORECASE)
_TOLD_REACH: Final = 40
#: All that decides about a word, unless much stands between it and its value.
_WINDOW: Final = 300
_AFTER_WORD: Final = frozenset(" \t:=\"'`*_(→-–—.|")
_DESCRIBES: Final = ("able", "ible", "ive", "ory", "ary", "ful", "less", "ingly", "ally", "edly")

#: `use Mk7tundra as the password`
_AS: Final = re.compile(
    r"(?<=\s)(?P<quote>[\"'`]?)(?P<value>[^\s\"'`]{6,128})(?P=quote)[ \t]as[ \t]"
    r"(?:(?:the|your|my|a|its|his|her|our|their|new|root|admin|db|wifi|login)[ \t]){0,3}\Z",
    re.IGNORECASE,
)
_AS_REACH: Final = 160
_SEARCH: Final = AhoCorasick(
    _WORDS,
    matchkind=MatchKind.LeftmostLongest,
    implementation=Implementation.DFA,
)
_PART: Final = part_of(_WORDS)
#: What every text holds in which anything is found here.
TRIGGERS: Final = _WORDS


#: What was found beside a word: where the word was, where reading went on, and the finds.
_Known = tuple[int, int, list[Span]]
#: Behind a find so near to its word, all that is read stands within the stretch.
_NEAR: Final = 40
#: More than is ever read before and behind a word.
_BEFORE: Final = 256
_AHEAD: Final = 4096


def spoken(source: Source, judge: Judge) -> Iterator[Span]:
    """Look behind every word for a password or a key."""
    text, done = source.text, 0
    seen: dict[str, _Known] = {}
    found = _SEARCH.find_matches_as_indexes(source.folded) if source.may_hold_words(_PART) else ()
    repeats = repeats_of(text, len(found), back=_BEFORE, ahead=_AHEAD)
    for word in found:
        _, at, end = word
        if at < done or _joined(text, at, end):
            continue
        if repeats is not None:
            done, again = repeats.skip(at)
            yield from again
            if at < done:
                continue
        spans, done = _at_word(text, word, judge, seen)
        if spans:
            if repeats is not None:
                repeats.found += spans
            yield from spans


def _at_word(
    text: str, word: tuple[int, int, int], judge: Judge, seen: dict[str, _Known]
) -> tuple[list[Span], int]:
    """What is told with a word (its number, where it begins, where it ends), and where reading goes
    on."""
    index, at, end = word
    password = index < len(PASSWORD_WORDS)
    spans = _used_as(text, at) if password else []
    if text[end : end + 1] not in _AFTER_WORD:
        if password and (answer := answer_to(text, at, end)) is not None:
            spans.append(answer)
        return spans, at
    window = text[max(0, at - BACK) : end + _WINDOW]  # lines repeat
    known = seen.get(window)
    if known is not None:
        by = at - known[0]
        return spans + [moved(span, by) for span in known[2]], known[1] + by
    beside, read, surely = _beside(text, at, end, judge, password=password)
    if surely:
        seen[window] = at, read, beside
    return spans + beside, read


def _beside(
    text: str, at: int, end: int, judge: Judge, *, password: bool
) -> tuple[list[Span], int, bool]:
    """What stands beside the word at `at` to `end`, where reading goes on, and whether the text
    close to the word said so."""
    spans = list(_changes(text, end)) if password and text[end] == " " else []
    span, surely = _behind(text, at, end, judge, password=password)
    if span is not None:
        spans.append(span)
        if password:
            spans.extend(also_told(text, span.end))
        return spans, span.end, span.end - end <= _NEAR
    if password and (answer := answer_to(text, at, end)) is not None:
        spans.append(answer)
        surely = surely and answer.end - end <= _NEAR
    return spans, at, surely


def _behind(
    text: str, at: int, end: int, judge: Judge, *, password: bool
) -> tuple[Span | None, bool]:
    """What stands behind the word at `at` to `end`, and whether the text close to it said so."""
    glue = _GLUE.match(text, end)
    if glue is None or (glue.group() == ":" and text[at - 1 : at] in _MEMBER_OF):
        return None, True
    span = _value(text, glue, judge, password=password)
    if span is None and password and glue["none"] is None:
        span = _phrase(text, glue.end())
    return span, glue.end() - end < _WINDOW - SPOKEN_MAX - 40


#: `password changed from … to …`
_CHANGE: Final = re.compile(
    r"[ ](?:(?:was |has been |is )?(?:changed|rotated|updated|reset|"
    r"switched)[ \t])?from[ \t][\"'`]?(?P<old>[^\s\"'`]{6,128})"
    r"[\"'`]?[ \t]to[ \t][\"'`]?(?P<new>[^\s\"'`]{6,128})"
)


#: `the password (otter743)`
_BRACKETED: Final = re.compile(
    r"[ ]\((?:(?:was|is|now|currently|formerly) )?(?P<value>[^\s()]{6,64})\)"
)


def _changes(text: str, at: int) -> Iterator[Span]:
    bracketed = _BRACKETED.match(text, at)
    if bracketed is not None and is_chosen(bracketed["value"]):
        yield Span(*bracketed.span("value"), "SECRET", 0.7, "spoken")
    match = _CHANGE.match(text, at)
    if match is None:
        return
    for part in ("old", "new"):
        written = spoken_word(match[part])
        if is_chosen(written):
            start = match.start(part)
            yield Span(start, start + len(written), "SECRET", 0.7, "spoken")


def _used_as(text: str, at: int) -> list[Span]:
    """What stands before `as the password`."""
    if " as " not in text[max(0, at - 24) : at]:
        return []
    match = _AS.search(text, max(0, at - _AS_REACH), at)
    if match is None or not _is_told(match["value"]):
        return []
    return [Span(match.start("value"), match.end("value"), "SECRET", 0.7, "spoken")]


def _is_told(value: str) -> bool:
    return is_chosen(value) or is_random(value) or is_leet(value)


def _joined(text: str, at: int, end: int) -> bool:
    """Part of a longer word or name: another rule's business."""
    before, after = text[at - 1 : at], text[end : end + 1]
    return (
        before.isalnum() or before in ("_", "$", "@", "/", "-") or after.isalnum() or after == "_"
    )


def _phrase(text: str, at: int) -> Span | None:
    """`the password is walnut harbor velvet otter`"""
    said = drawn_words(text, at)
    if not said or any(
        word in _ABOUT or word in _WORDS or word.endswith((*_DESCRIBES, "ed", "ing", "ly"))
        for word in said
    ):
        return None
    return Span(at, at + len(" ".join(said)), "SECRET", 0.7, "spoken")


def _value(text: str, glue: re.Match[str], judge: Judge, *, password: bool) -> Span | None:
    at = glue.end()
    quoted = glue["quote"] is not None
    if quoted:
        match = _QUOTED.match(text, at, at + SPOKEN_MAX)
        if match is None or text[match.end() : match.end() + 1] not in _CLOSERS:
            return None
        written = match.group().rstrip()
    else:
        match = OPEN_VALUE.match(text, at, at + SPOKEN_MAX)
        if match is None:
            return None
        written = spoken_word(match.group().rstrip("*_"))
    if len(written) < SHORTEST + (not password) or judge.is_placeholder("", written):
        return None
    if not _is_value(text, glue, at + len(written), written, password=password):
        return None
    return Span(at, at + len(written), "SECRET", 0.75, "spoken")


def _is_value(text: str, glue: re.Match[str], end: int, written: str, *, password: bool) -> bool:
    quoted = glue["quote"] is not None
    if glue["none"] is not None and not quoted:  # `rotate the api key Jr4…`
        return not password and is_generated(written) and is_mixed(written)
    if password and is_dotted_words(written):
        return True
    if (
        written.lower() in CONSTANTS
        or written[0] in ("$<{([,)+;" if quoted else "$<{([")
        or (CODE.match(written) and not (password and is_leet(written)))
    ):
        return False
    if (written[0] == "%" and not dense(written)) or is_pattern(written):
        return False
    if "_" in written and is_secret_name(written):
        return False  # `password = passphrase_val`
    if not password:
        made = dense(written[:JUDGED]) or is_long_random(written[:JUDGED])
        return made and " " not in written and "://" not in written
    surely = glue["none"] is None and glue["verb"] is None and glue["is"] is None
    if is_chosen(written) or is_leet(written) or (is_random(written) and not written.isupper()):
        return True
    if glue["sign"] in ("=", "|") or (glue["is"] is not None and written.isalpha()):
        return False  # other rules know these; `the password's strength`
    if glue["none"] is not None and not _TOLD.search(
        text, max(0, glue.start() - _TOLD_REACH), glue.start()
    ):
        return False
    said = quoted or surely or glue["colon"] is not None
    return _is_plain_password(text, written, end, quoted=quoted, said=said)


def _is_plain_password(text: str, written: str, end: int, *, quoted: bool, said: bool) -> bool:
    """A word that nothing tells from others but its place."""
    if _NUMBERED.fullmatch(written):
        return _ENDS.match(text, end) is not None and not is_technical(written)
    if not _PLAIN.fullmatch(written) or len(written) < 5 or written.isupper():
        return False
    folded = written.lower()
    if written[1:] != folded[1:]:
        return False  # `readPassword`
    if folded in _ABOUT or folded in _WORDS or folded.endswith(_DESCRIBES):
        return False
    if quoted:
        return True
    if not _ENDS.match(text, end):
        return False
    return said or not folded.endswith(("ed", "ly"))
