"""Passwords and keys in what people write to each other, in the languages of the EU: `the password
is …`, `Passwort lautet …`, `API key: …`, `log in with anna / …`.

A plain word counts as a password only where a sentence can mean nothing else: behind a colon, in
quotes, or as the last word behind `is`; words that describe a password never do. Invariant: pure
and linear; every phrase is read behind once, a bounded way. Called by `SecretRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ahocorasick_rs import AhoCorasick, Implementation, MatchKind

from gateway.redaction.detectors.base import Source, part_of
from gateway.redaction.detectors.names import PASSWORD_WORDS, is_secret_name
from gateway.redaction.detectors.phrases import drawn_words
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

_VERBS: Final = (
    r"(?:is now|is set to|is|(?:was|got) (?:changed|set|reset|rotated|updated) to|was|will be|"
    r"has been changed to|changed to|set to|should be|'s|"
    r"equals|are|(?<=has[łl]o )to|"
    r"ist jetzt|ist|lautet|war|heißt|heisst|est|sera|c'est|es ahora|es|será|è|é|e'|este|e|"
    r"jest|to|brzmi|είναι|on|är|er|blir|je|a|az|есть|е|yra|ir|bydd)"
)
#: What may stand between the word and its verb: `for the staging box`, `du serveur`.
_OF: Final = (
    r"(?: (?:for|of|to|on|at|für|fuer|zum|zur|vom|von|des|der|di|dello|av|af|του|της|για|"
    r"от|для|до|к|на|за|pour|du|"
    r"de la|de|para|del|da|do|per|"
    r"della|voor|van|til|"
    r"för|do|dla|na|pro|k|za|pentru)(?: [\w@.'’/-]{1,30}){1,4}?|"
    r" [а-яё]{4,20}(?=:)|"
    r" (?:wi-?fi|wlan|ssh|vpn|admin|root|tempor(?:aire|al|ário|anea|är)|provisoire|provisional|"
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
     "expired", "expire",
     "expiring", "improve", "default", "secret", "secure", "insecure", "strong", "weak", "short",
     "long", "longer",
     "shorter", "blank", "unset", "null", "none", "undefined", "provided", "given", "known",
     "unknown", "shared", "saved", "changed", "reset", "rotated", "revoked", "leaked",
     "compromised", "used", "unused", "accepted", "rejected", "denied", "allowed", "checked",
     "verified", "ignored", "redacted", "removed", "deleted", "disabled", "enabled", "protected",
     "available", "unavailable", "temporary", "permanent", "random", "generated", "default",
     "custom", "different", "identical", "same", "plain", "plaintext", "string", "always", "never",
     "already", "still", "usually", "often", "also", "just", "only", "really", "about", "here",
     "there", "below", "above", "following", "somewhere", "everywhere", "inside", "sent", "passed",
     "read", "written", "shown", "displayed", "printed", "logged", "typed", "entered", "asked",
     "requested", "prompted", "supported", "deprecated", "mandatory", "necessary", "important",
     "sensitive", "confidential", "private", "public", "okay", "fine", "good", "safe", "unsafe",
     "true", "false", "authentication", "login", "username", "password", "token", "value", "field",
     "prompt", "from", "with", "when", "that", "this", "what", "which", "your", "their", "there's",
     "something", "anything", "everything", "nothing", "everyone", "someone", "another",
     "case-sensitive", "obligatoire", "obligatorio", "obligatoria", "erforderlich", "pflichtfeld",
     "falsch", "richtig", "incorrecte", "incorrecta", "obbligatoria", "obrigatória", "wymagane",
     "verplicht", "virheellinen", "krävs", "enter", "type", "choose", "confirm", "change", "forgot",
     "show", "hide", "minimum", "maximum", "length", "characters", "letters", "digits", "whatever",
     "anyway", "example", "placeholder", "pending", "unchanged", "consists", "contains", "expected",
     "present", "absent", "ready", "over", "under", "between", "within", "tbd", "todo", "varies",
     "n/a", "hover", "focus", "active", "see",
     "ask", "text", "input", "label", "object", "boolean", "number", "kept", "kaputt",
     "abgelaufen", "geheim", "обязательно", "обязателен", "требуется", "неверный",
     "неверен", "скрыт", "изменён", "secreto", "secreta", "segreta", "segreto", "personal",
     "nope", "yes"]
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

#: `log in with anna / Kx9!…`, `creds: anna:Kx9!…`
_PAIR_WORDS: Final = (
    "login", "log in", "logged in", "logins", "sign in", "signin", "cred", "creds", "credential",
    "credentials", "zugangsdaten", "anmeldedaten", "identifiants", "credenciales", "credenziali",
    "credenciais", "inloggegevens", "account", "user/pass", "username/password",
)  # fmt: skip
_PAIR: Final = re.compile(
    r"[^\n]{0,24}?[ :=(\"'`](?P<user>[A-Za-z][\w.@+-]{1,64}) ?[/:|] ?(?P<value>[^\s\"'`]{6,64})"
)
#: A password in small letters only, with a number, is at least so long.
_PAIR_LEAST: Final = 10
#: Behind users that every machine has, it may be shorter.
_USERS: Final = frozenset(["admin", "root", "administrator", "sa", "postgres"])
_KNOWN_LEAST: Final = 8
#: `use Mk7tundra as the password`
_AS: Final = re.compile(
    r"(?<=\s)(?P<quote>[\"'`]?)(?P<value>[^\s\"'`]{6,128})(?P=quote)[ \t]as[ \t]"
    r"(?:(?:the|your|my|a|its|his|her|our|their|new|root|admin|db|wifi|login)[ \t]){1,3}\Z",
    re.IGNORECASE,
)
_AS_REACH: Final = 160
_SEARCH: Final = AhoCorasick(
    (*_WORDS, *_PAIR_WORDS),
    matchkind=MatchKind.LeftmostLongest,
    implementation=Implementation.DFA,
)
_PART: Final = part_of((*_WORDS, *_PAIR_WORDS))
#: What every text holds in which anything is found here.
TRIGGERS: Final = (*_WORDS, *_PAIR_WORDS, "PIN")
_PIN: Final = re.compile(
    r"(?<![\w-])PIN(?:[ -]?code)?(?: is|:| ist| est| es| è)[ \t]{1,3}(?P<value>\d{4,8})(?!\w)"
)


def spoken(source: Source, judge: Judge) -> Iterator[Span]:
    """Look behind every word for a password or a key."""
    text, done = source.text, 0
    seen: set[str] = set()
    found = _SEARCH.find_matches_as_indexes(source.folded) if source.may_hold_words(_PART) else ()
    for index, at, end in found:
        if at < done or _joined(text, at, end):
            continue
        if index >= len(_WORDS):
            yield from _pair(text, end, judge)
            continue
        yield from _used_as(text, at, index)
        if text[end : end + 1] not in _AFTER_WORD:
            continue
        window = text[max(0, at - _TOLD_REACH) : end + _WINDOW]  # lines repeat
        if window in seen:
            continue
        if index < len(PASSWORD_WORDS):
            yield from _changes(text, end)
        glue = _GLUE.match(text, end)
        if glue is None or (glue.group() == ":" and text[at - 1 : at] in _MEMBER_OF):
            seen.add(window)
            continue
        password = index < len(PASSWORD_WORDS)
        span = _value(text, glue, judge, password=password)
        if span is None and password and glue["none"] is None:
            span = _phrase(text, glue.end())
        if span is not None:
            done = span.end
            yield span
        elif glue.end() - end < _WINDOW - SPOKEN_MAX - 40:
            seen.add(window)
    if "PIN" in text:
        for match in _PIN.finditer(text):
            yield Span(match.start("value"), match.end("value"), "SECRET", 0.6, "pin")


#: `password changed from … to …`
_CHANGE: Final = re.compile(
    r"[ \t](?:(?:was |has been |is )?(?:changed|rotated|updated|reset|"
    r"switched)[ \t])?from[ \t][\"'`]?(?P<old>[^\s\"'`]{6,128})"
    r"[\"'`]?[ \t]to[ \t][\"'`]?(?P<new>[^\s\"'`]{6,128})"
)


#: `the password (otter743)`
_BRACKETED: Final = re.compile(r"[ \t]\((?P<value>[^\s()]{6,64})\)")


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


def _used_as(text: str, at: int, index: int) -> Iterator[Span]:
    """What stands before `as the password`."""
    if index >= len(PASSWORD_WORDS) or " as " not in text[max(0, at - 24) : at]:
        return
    match = _AS.search(text, max(0, at - _AS_REACH), at)
    if match is not None and (is_chosen(match["value"]) or is_random(match["value"])):
        yield Span(match.start("value"), match.end("value"), "SECRET", 0.7, "spoken")


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
        or CODE.match(written)
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
    if is_chosen(written) or (is_random(written) and not written.isupper()):
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


def _pair(text: str, at: int, judge: Judge) -> Iterator[Span]:
    match = _PAIR.match(text, at)
    if match is None:
        return
    written = spoken_word(match["value"])
    sign = text[match.end("user") : match.start("value")]
    apart = sign == " / " or (sign == ":" and match["user"].isalnum())
    known = match["user"] in _USERS
    least = _KNOWN_LEAST if known else _PAIR_LEAST
    worded = (apart or known) and len(written) >= least and is_chosen(written)
    if (worded or is_chosen(written, surely=True)) and not judge.is_placeholder("", written):
        start = match.start("value")
        yield Span(start, start + len(written), "SECRET", 0.7, "pair")
