"""What secrets are called: words for one at the end of a name (`DB_PASSWORD`, `x-api-key`), and
where in a text such a name may be.

Invariant: pure and linear; work is bounded for every hint. Called by `assignments` and `values`.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from ahocorasick_rs import AhoCorasick

from gateway.redaction.detectors.base import Source, part_of

#: Parts of names that may be followed by a secret; searched in lower case.
HINTS: Final = (
    "pwd", "secret", "token", "credential", "authorization", "auth=", "_auth", "kennwort",
    "sessid", "sessionid", "connect.sid", "senha", "contrasen", "wachtwoord", "haslo", "heslo",
    "salasana", "losenord", "adgangskode", "motdepasse", "mot_de_passe", "_salt", "signature_key",
)  # fmt: skip
#: `pass`, unless it begins another word (`passed`, `passing`): `password`, `passphrase`, `db_pass`.
PASS: Final = re.compile(
    r"(?:auth|bearer|cookie|session|seed)(?=(?:[_.\-]?(?:value|val|str|string))?"
    r"[\"'`\]]{0,2}[ \t]{0,4}[:=])|"
    r"pass(?:w|phrase|code|(?=[^a-z\s])|(?=[ \t])|(?<=[_.\-]pass)(?=[\r\n]))|psk(?![a-z])|"
    r"(?:(?<![a-z])|(?<=root)|(?<=bind)|(?<=user)|(?<=admin)|(?<=db))"
    r"pw(?=[\"'`\]]{0,2}[ \t]{0,12}[:=,|?<>]|(?<=bindpw)[ \t])|"
    r"presharedkey|(?<![a-z])privatekey(?= =)"
)
#: What every text that `PASS` or a hint matches holds, found in one search.
TRIGGERS: Final = (
    *HINTS, "auth", "bearer", "cookie", "session", "seed", "pass", "psk", "pw", "presharedkey",
    "privatekey", "key",
)  # fmt: skip
_PART: Final = part_of(TRIGGERS)
_SEARCH: Final = AhoCorasick(TRIGGERS)
#: `key` behind one of the words that make it a secret, by that word's last two letters.
_KEY_TAILS: Final = frozenset(
    ["pi", "ss", "te", "th", "nt", "on", "ng", "er", "se", "wt", "ie", "pp", "ac", "ed", "ge", "ok",
     "ce", "in", "et", "es", "ns", "im", "oy"]
)  # fmt: skip
#: Such names only in capitals (`OPENWEATHER_KEY`), and only for values that were generated.
_CAPITAL_HINT: Final = "_KEY"
CAPITAL_NAME: Final = re.compile(
    r"(?!.*(?:PUBLIC|PUBLISHABLE|PRIMARY|FOREIGN|SORT|PARTITION|HASH|CACHE|UNIQUE|REGISTRY|H|SUB|SITE|KNOWN|"
    r"INDEX|OBJECT|LOOKUP|DEDUPE|ROUTING|GROUP)_KEY)[A-Z][A-Z0-9_]*_KEY\Z"
)
#: The word for a password at the end of a name: any value will do, also a short or plain one.
PASSWORD: Final = re.compile(
    r"(?:pass(?:w(?:or)?d|wort|phrase|code|wd)?|pwd|kennwort|(?:^|[_.\-]|root|bind|user|admin|db)(?:psk|pw)|^_auth|senha|"
    r"contrasena|wachtwoord|haslo|heslo|salasana|losenord|adgangskode|mot_?de_?passe|passord)"
    r"(?:_?v?\d{1,3}|[_.\-](?:plain|raw|old|new|default|value|prod|dev|staging|test|live|"
    r"db|root|admin|mysql|postgres|redis|smtp|ftp|main))?\Z",
    re.IGNORECASE,
)
#: The whole name, right to left: what it must end in.
_SECRET_NAME: Final = re.compile(
    r"(?:(?:^|[_.\-]|key|store|user|smtp|mail|db|root|admin|mysql|pg)pass|(?:^|[_.\-]|root|bind|user|admin|db)(?:psk|pw)|"
    r"passwort|kennwort|senha|contrasena|wachtwoord|haslo|heslo|salasana|losenord|adgangskode|passord|"
    r"mot_?de_?passe|(?:secure_)?(?:auth|logged_in|nonce)_salt|preshared_?key|phpsessid|jsessionid|asp\.net_session_?id|connect\.sid|"
    r"passw(?:or)?d|passwd|passphrase|passcode|pwd|secrets?|token|api[_.\-]?key|"
    r"(?:access|private|auth|account|encryption|signing|master|subscription|license|jwt|cookie|app|"
    r"session|hmac|cipher|aes|functions?|apim|shared|deploy|instrumentation|connection|storage|webhook|service|admin|secret|client|fernet|server|shared[_.\-]?access)[_.\-]?key|"
    r"rediscli_auth|client-key-data|access[_.\-]?key[_.\-]?secret|secret[_.\-]?access"
    r"[_.\-]?key|credentials?|authorization|^_auth(?:token)?)"
    r"(?:[_.\-]?(?:v?\d{1,3}|value|val|prod|dev|staging|live|test|plain|plaintext|raw|base64|b64|string|old|new|"
    r"current|primary|secondary|default|id|base|"
    r"db|root|admin|mysql|postgres|redis|smtp|ftp|main))?\Z",
    re.IGNORECASE,
)
#: One of these is in every text that `_SECRET_NAME` matches, and is found far faster.
_STEMS: Final = (
    "pass", "psk", "pw", "kennwort", "senha", "contrasena", "wachtwoord", "haslo", "heslo",
    "salasana", "losenord", "adgangskode", "salt", "key", "sess", "connect.sid", "secret", "token",
    "credential", "auth",
)  # fmt: skip
_STEM_SEARCH: Final = AhoCorasick(_STEMS)
#: Names that end like one and are none.
_NOT_A_SECRET: Final = re.compile(
    r"(?:(?:next|continuation|page|cursor|sync|start|end|stop|pad|eos|bos|unk|mask|cls|sep|csrf_?param|"
    r"max|num|min|per|prev|current|last|first|input|output|special|cancellation|cancel)[_.\-]?token|"
    r"(?:request|idempotency)[_.\-]?token|token_id|secret_id|(?:^|[_.\-])(?:no|bad|wrong|invalid|missing|forgot|reset|change|confirm|show|hide|has|is|"
    r"use|with|without|require|needs?)[_.\-]?(?:password|passwd|token|secret)|"
    r"public[_.\-]?key(?:[_.\-]?token)?|(?:checksum|digest|sha\d{0,3})[_.\-/]?(?:password|token|secret)s?|credential_?id|by_?pass|com_?pass|sur_?pass|tres_?pass)\Z",
    re.IGNORECASE,
)
#: Words for a password where people of the regions we know write to each other.
PASSWORD_WORDS: Final = (
    "password", "wpa key", "wpa2 key", "wifi key", "wi-fi key", "pre-shared key", "passphrase",
    "passcode", "pass phrase", "pass code", "pwd", "pw", "passwd", "passwort", "kennwort",
    "zugangscode", "mot de passe", "mdp", "code d'accès", "code d’accès", "contraseña",
    "contrasena", "clave", "senha", "palavra-passe", "palavra passe", "parola d'ordine", "parola",
    "parolă", "hasło", "haslo", "hasła", "wachtwoord", "lösenord", "lösenordet", "salasana",
    "salasanan", "adgangskode", "adgangskoden", "passord", "passordet", "kodeord", "kodeordet",
    "heslo", "jelszó", "jelszava", "jelszavam", "lozinka", "geslo", "parool", "salasõna",
    "slaptažodis", "parole", "κωδικός", "κωδικό", "κωδικός πρόσβασης", "κωδικό πρόσβασης",
    "συνθηματικό", "συνθηματικό μου", "пароль", "парола", "паролата", "лозинка", "pasfhocal",
    "lykilorð", "şifre", "şifresi",
)  # fmt: skip
#: Longer words are no names; reading on in them would cost time for every hint they hold.
NAME_MAX: Final = 100
NAME: Final = re.compile(rf"[\w.\-]{{1,{2 * NAME_MAX}}}", re.ASCII)
_NAME_CHARS: Final = string.ascii_letters + string.digits + "_.-"
#: A name's end decides; reading all of a long one would cost time for every hint.
_NAME_END: Final = 64
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def places(source: Source) -> Iterator[int]:
    """Where the name of a secret may be, in order."""
    if not source.may_hold_words(_PART):
        return
    folded = source.folded
    for index, at, _end in _SEARCH.find_matches_as_indexes(folded, overlapping=True):
        if index < len(HINTS):
            yield at
        elif index == len(TRIGGERS) - 1:
            if _is_secret_key(source, at):
                yield at
        elif PASS.match(folded, at):
            yield at


def _is_secret_key(source: Source, at: int) -> bool:
    """Whether the `key` at `at` ends a name that may be a secret's."""
    before = source.folded[max(0, at - 3) : at]
    if before[-1:] in ("_", ".", "-"):
        before = before[:-1]
        if source.text.startswith(_CAPITAL_HINT, at - 1):
            return True
    return before[-2:] in _KEY_TAILS


def name_start(text: str, at: int) -> int:
    """Where the word that holds the hint at `at` begins."""
    floor = max(0, at - NAME_MAX)
    return floor + len(text[floor:at].rstrip(_NAME_CHARS))


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether `name` ends in a word for a secret, however its words are joined."""
    name = name[-_NAME_END:]
    if name.isascii() and not _STEM_SEARCH.find_matches_as_indexes(name.lower()):
        return False
    snake = _CAMEL.sub("_", name)
    return (
        _SECRET_NAME.search(snake) is not None
        and _NOT_A_SECRET.search(name) is None
        and _NOT_A_SECRET.search(snake) is None
    )


#: Names of what opens a session, among others: only values that were generated count.
_OPENING_NAME: Final = re.compile(
    r"(?:(?:^|[_.\-])(?:auth|bearer|session|seed)|cookie)(?:[_.\-]?(?:value|val|string|str))?\Z",
    re.IGNORECASE,
)


def is_any_secret_name(name: str) -> bool:
    """The same, or a name whose value counts only when it was generated."""
    return (
        is_secret_name(name)
        or (
            name.endswith(_CAPITAL_HINT) and CAPITAL_NAME.match(name.rpartition(".")[2]) is not None
        )
        or opens_session(name)
    )


def opens_session(name: str) -> bool:
    """Whether `name` is one of a session, whose value may also be its harmless number."""
    return _OPENING_NAME.search(_CAMEL.sub("_", name[-_NAME_END:])) is not None
