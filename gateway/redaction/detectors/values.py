"""Whether a value is a secret: generated, or chosen by a person; and not code, a constant, a
placeholder or a sentence.

Invariant: pure; a value is judged by its first characters, however long it is. Called by the other
modules that find secrets, and by the engine for what is left beside a token.
"""

from __future__ import annotations

import re
from collections.abc import Container
from itertools import pairwise
from typing import Final

from gateway.redaction.detectors.base import HIDDEN
from gateway.redaction.detectors.names import (
    PASSWORD,
    PASSWORD_WORDS,
    is_secret_name,
    opens_session,
)

OPEN_VALUE: Final = re.compile(rf"[^\s\"'`;<>|{HIDDEN}]{{1,4096}}")
VALUE_MAX: Final = 4096
SCHEME: Final = re.compile(r"(?:bearer|basic|token|apikey|digest|key)\s+(?=\S)", re.IGNORECASE)
_PATH: Final = re.compile(r"(?:[A-Za-z]:)?(?:~|\.{1,2})?(?:[\\/][\w. \-]++)+")
PLACEHOLDER: Final = re.compile(
    r"\$\{|\$\(|\$[A-Za-z_]|%\(|%env\(|%[A-Z_]{2,}%|%[sdrv]\b|\{\{|\{%|<[^>]{1,60}>\Z|"
    r"\[[A-Z_]+\]\Z|#\{|@\{|@[A-Z_]+@|"
    r"\.{3}|…|[xX*•·#_?\-]{3,}\Z|(?:your|my|the|some|insert|enter|replace|change|put|add|use|"
    r"example|sample|"
    r"dummy|fake|mock|test|todo|fixme|redacted|placeholder)[_\- ](?:[A-Za-z]+[_\- ])*"
    r"(?:key|token|secret|password|passwd|here|me|this|value|pass|api|id|name|goes|string|"
    r"code)s?\Z|"
    r"ENC\[[A-Z\d_]+,|\{cipher\}|"
    r"\{[A-Za-z_][\w.]*(?:![rsa])?(?::[^{}]*)?\}\Z|(?:vault|op|ssm|secretsmanager|env|file|arn|"
    r"ref|projects):|projects/[\w-]{1,60}/|"
    r"lambda\b|:[A-Za-z_]{2,40}\Z|!(?:Ref|Sub|GetAtt)\b|(?:process\.env|os\.environ|settings|self|"
    r"this|var|local|"
    r"secrets)\.[A-Za-z_]|secretkeyref|valuefrom",
    re.IGNORECASE,
)
CODE: Final = re.compile(
    r"(?:[A-Za-z_$][\w$]*(?:\??\.|::|->)[A-Za-z_$]|[A-Za-z_$][\w$.]*[\[(]|[-+!&|~^]?[A-Za-z_]\w*\(|"
    r"[A-Z]\w{1,40}<[A-Z]\w{1,40}|"
    r"(?:self|this|os|process|env|config|settings|request|args|kwargs|options|ctx|data|params|"
    r"cls|props|state|"
    r"import|new|await|typeof|lambda|function|return|not|async)\b(?:[.\[(\s]|\Z))"
)
_WORDS: Final = re.compile(r"[A-Za-z_$][\w$]*\Z", re.ASCII)
_ENV_NAME: Final = re.compile(r"[A-Z]+(?:_[A-Z]+)+")
_SNAKE: Final = re.compile(r"[A-Za-z]+(?:[_\-.][A-Za-z]+)*")
CONSTANTS: Final = frozenset(
    ["true", "false", "none", "null", "nil", "undefined", "nan", "yes", "no", "on", "off", "str",
     "string", "bytes", "int", "bool", "float", "any", "object", "optional", "list", "dict",
     "self", "this", "void", "never", "unknown", "number", "text", "type", "char", "varchar",
     "symbol"]
)  # fmt: skip
_DOTTED: Final = re.compile(r"[A-Za-z]+(?:[._][A-Za-z]+)+")
_CALLED: Final = re.compile(r"[\w.$:>-]{1,80}\(")
_WHOLE_CALL: Final = re.compile(r"\[[^\]]{2,80}\][+*]|[A-Za-z_][\w.]{0,60}\([^()]{0,60}\)")
_CHOSEN_LEAST: Final = 6
SHORTEST: Final = 4
#: Characters that are enough to see a variable or a template.
GLANCE: Final = 24
SPOKEN_MAX: Final = 128
_TOKEN_LIKE: Final = re.compile(r"[\w+/=.~:\-]+", re.ASCII)
#: Schemes whose signature stands further on (`queries` finds it).
_SIGNED_SCHEMES: Final = ("AWS4-", "Digest ", "digest ")
_PIECES: Final = re.compile(r"[A-Z]?[a-z]++|[A-Z]++(?![a-z])|[A-Z]")
_UNSPOKEN: Final = re.compile(r"[^aeiouyAEIOUY]{4}|\A[^aeiouyAEIOUY]+\Z")
#: Words have at least this part of vowels; letters drawn at random about a quarter.
_VOWELS: Final = 0.3
#: Characters of a value that are enough to judge it.
JUDGED: Final = 256
#: Generated secrets are at least this long when they hold a single digit.
_GENERATED: Final = 16
# No group is possessive here: Python before 3.11.5 matches less of it (gh-106052).
#: `sha256_digest`, `utf8Decoder`, `step-2-name`: words with a number, not a secret.
_IDENTIFIER: Final = re.compile(
    r"[A-Za-z]++(?:[_.\-][A-Za-z]++){0,12}[_.\-]?\d{0,3}(?:[_.\-][A-Za-z]++){0,6}"
)
#: Words of programs that hold a digit.
_PARTS: Final = (
    r"base(?:32|58|64)|sha[-_]?\d|md5|utf[-_]?(?:8|16|32)|x509|oauth2|u?int\d|pkcs\d|p12(?!\d)|"
    r"ed25519|aes\d|rsa\d|ipv[46]|http2|argon2|i18n|l10n|k8s|(?<![A-Za-z])es\d{1,2}\b|"
    r"(?:ec2|mp[34])(?!\d)|h264|win32|x86|x64|amd64|arm64|rfc\d|iso\d|latin1|log4j|web3|vue\d|"
    r"py\d|step\d|test\d|option\d|value\d|example\d|param\d|arg\d|str\d"
)
#: A store's name, and no `s3cret`.
_STORE: Final = r"(?-i:(?<![A-Za-z])s3|S3)(?!\d|cr[e3]t)"
_TECHNICAL: Final = re.compile(rf"{_PARTS}|{_STORE}", re.IGNORECASE)
#: Whether there may be one in a text in small letters, which `re` finds several times faster.
_MAYBE_TECHNICAL: Final = re.compile(rf"{_PARTS}|s3")
#: What other rules read: signatures, and texts whose own members are judged.
_OTHERS: Final = (*_SIGNED_SCHEMES, '{"', '{\\"', "{'", '[{"', '[{\\"', ".*")
#: Names of what a person may have chosen, as a password.
_CHOSEN_NAME: Final = re.compile(r"(?:secret|credentials?)\Z", re.IGNORECASE)
_CHOSEN_SECRET: Final = 8
#: What variables are called that hold secrets.
_A_NAME: Final = re.compile(
    r"(?:user_?|new_?|old_?|my_?|db_?)?(?:password|passphrase|passcode|passwd|pwd|pass|token|"
    r"secret|credentials?|"
    r"api_?key|key|user(?:name)?|login|email|salt|hash)s?"
)
#: `walnut.harbor38`, `walnut.Harbor3`: words and a number, as people choose a password; no member's
#: name ends so.
_DOTTED_WORDS: Final = re.compile(
    r"(?P<first>[^\W\d_]{3,})(?:\.[^\W\d_]{3,}){0,3}\.(?P<last>[^\W\d_]{3,})"
    r"(?P<number>\d{1,4})[!#$%&*?]?"
)
_OBJECTS: Final = frozenset(
    ["self", "this", "user", "form", "data", "config", "settings", "request", "req", "res", "body",
     "event", "args", "params", "props", "state", "env", "process", "options", "opts", "ctx",
     "context", "model", "values", "input", "fields", "row", "record", "item", "obj", "test",
     "www", "auth", "account", "credentials", "creds", "cfg", "conf", "var", "local", "module"]
)  # fmt: skip
#: What joins the words of a name.
_JOINTS: Final = "_.-: "
_SIGNS: Final = re.compile(r"[_.\-: ]+")
#: Signs that only patterns for other texts hold together.
_REGEX: Final = re.compile(
    r"\(\?[=!:<]|\[\^?[A-Za-z0]-[A-Za-z9]|\\{1,4}[dwsbDWS][+*{?\])]|\]\{\d+,|\.[*+]\)|\A\^.*\$\Z|"
    r"\A(?:required|nullable|sometimes|string|omitempty|confirmed|min|max)\b[|,:=]"
)
#: Keys that providers mean to be public.
_PUBLISHABLE: Final = re.compile(r"pk[_.](?:live|test|eyJ)|phc_|G-[A-Z0-9]{10}\Z|UA-\d")
#: What only a cluster can open: an entry of a sealed secret.
_SEALED: Final = re.compile(r"Ag[A-D][A-Za-z0-9+/]{100}")
#: `app:v1:sidebar-width`: the name of what is stored.
_NAMESPACED: Final = re.compile(
    r"@?[a-z][a-z0-9]*(?:[-_./][a-z0-9]+)*(?::[a-z0-9]+(?:[-_.][a-z0-9]+)*)+"
)
#: `auth-request-type/at`: the name of a header, a route, a metric.
_LISTED: Final = re.compile(
    r"[a-z]+(?:[-/.][a-z]+){2,}|[a-z]+(?:-[a-z]+)*(?:/[a-z]+(?:-[a-z]+)*)+|"
    r"[a-z]+(?:[-/.][a-z]+)*[-/.]v\d{1,2}"
)
#: `OAuth2Auth$inboundSchema`: a member of something, in source code.
_MEMBER: Final = re.compile(r"[A-Za-z_]\w*\$[a-z][A-Za-z]{3,}")
#: `AmberMarble!`
_EXCLAIMED: Final = re.compile(r"(?:[A-Z][a-z]{2,}){2,}[!#$%&*?]{1,2}")
#: A word, or several joined by capitals, and a number: `Welcome1`, `BlueRiver2798`, `amber_Trail6`.
_WORDED: Final = re.compile(
    r"(?:(?:[A-Z][a-z]{3,}){1,3}|[A-Za-z][a-z]{2,}(?:_[A-Z][a-z]{2,}){1,3})\d{1,6}"
)
_PROSE: Final = frozenset(
    ["your", "the", "is", "are", "enter", "please", "must", "not", "for", "to", "of", "a", "an",
     "was", "has", "be", "this", "that", "with", "or", "and", "can", "if", "in", "required",
     "invalid", "incorrect", "wrong", "forgot", "reset", "change", "confirm", "new", "old",
     "current", "cannot", "should", "will"]
)  # fmt: skip


#: Words of labels and hints, in the languages forms are written in.
_LABEL_WORDS: Final = frozenset(
    [word for word in PASSWORD_WORDS if len(word) >= 5 and " " not in word]
) | frozenset(
    ["passe", "characters", "chars", "zeichen", "caractères", "caracteres", "caratteri", "tekens",
     "znaków", "tecken", "tegn", "merkkiä"]
)  # fmt: skip


class Judge:
    """Judges what stands behind a name: a secret, or code, a placeholder, a sentence."""

    def __init__(self, placeholders: Container[str]) -> None:
        self._placeholders = placeholders

    def is_secret(
        self, name: str, value: str, *, quoted: bool, strict: bool = False, data: bool = False
    ) -> bool:
        """`strict`: where code may stand; `data`: where only text can stand."""
        value = value[: VALUE_MAX + 1].strip()
        scheme = SCHEME.match(value)
        if scheme:
            value = value[scheme.end() :]
        if len(value) < SHORTEST or len(value) > VALUE_MAX:
            return False
        value = value[:JUDGED]
        if self.is_placeholder(name, value):
            return False
        if "://" in value or _PATH.fullmatch(value) or value.startswith(_OTHERS):
            return False
        if _PUBLISHABLE.match(value) or is_pattern(value):
            return False
        if not is_secret_name(name):  # one of `CAPITAL_NAME`, or of a session
            return is_generated(value) and (not opens_session(name) or _holds_run(value))
        password = PASSWORD.search(name) is not None
        if quoted and _CHOSEN_NAME.search(name) and _is_chosen_secret(value):
            return not is_expression(value)
        if quoted:
            return _is_quoted_secret(name, value, password=password)
        if data:
            return _is_data_secret(name, value, password=password)
        return self._is_bare_secret(name, value, password=password, strict=strict)

    def _is_bare_secret(self, name: str, value: str, *, password: bool, strict: bool) -> bool:
        """Without quotes, where code may stand or the end of a line does."""
        random = is_random if password and not strict else is_long_random
        if strict and _MEMBER.fullmatch(value) and not is_random(value):
            return False
        if password and is_dotted_words(value):
            return True
        if is_code(value) and not random(value):
            return False
        if _WORDS.match(value) and (
            _A_NAME.fullmatch(value)
            or (
                (not value.islower() or ("_" in value and not name.isupper()))
                and is_secret_name(value)
            )
        ):
            return False  # `password = passphrase`, `password = user2Password`
        if strict:
            numeric = value.isdigit() and len(value) >= _CHOSEN_LEAST
            return dense(value) or (password and (numeric or is_chosen(value)))
        if password:
            return not value.isdigit() or len(value) >= 6
        return dense(value) or (name.isupper() and len(value) >= 8)

    def is_placeholder(self, name: str, value: str) -> bool:
        """Whether `value` stands for one: the policy's list, a variable, a template."""
        folded = value.lower().strip("\"'*<>[]{}()")
        if folded in self._placeholders or folded in PASSWORD_WORDS:
            return True
        if _is_called_so(name, folded) if name else not folded.strip(_JOINTS):
            return True
        if PASSWORD.search(name) is None and is_stand_in(value):
            return not value.endswith("EXAMPLEKEY")
        if PLACEHOLDER.match(value) is not None or _SEALED.match(value) is not None:
            return True
        return len(set(value)) <= 2


def _is_called_so(name: str, folded: str) -> bool:
    """Whether a value is its own name, however the words of the two are joined."""
    named = name.lower()
    if folded.lstrip(_JOINTS)[:1] != named.lstrip(_JOINTS)[:1]:
        return False
    return _SIGNS.sub("", folded) == _SIGNS.sub("", named)


#: What people write where a key will be. Letters in both cases stand in the rest of the pattern
#: only where no generator would put them: a whole word between signs.
_STAND_IN: Final = re.compile(
    r"(?i:x{6}|\*{4}|\.{3}|(?<![a-z0-9])(?:your|my|example|dummy|fake|placeholder|insert|replace|"
    r"redacted|changeme|sample|not-a-real)[_-]|"
    r"[_-](?:here|token|secret|goes|example|placeholder|real|key)(?![a-z0-9]))|"
    r"EXAMPLE(?:KEY)?(?![A-Za-z0-9])|YOUR|PLACEHOLDER|REDACTED|0{12}"
)
#: What such a text consists of; the same letters inside a generated key leave most of it over.
_STAND_IN_WORDS: Final = re.compile(
    r"(?i:x{3,}|0{4,}|your|my|the|example|dummy|fake|placeholder|insert|replace|redacted|changeme|"
    r"sample|here|goes|with|not|real|token|secret|password|access|project|service|account|api|key|"
    r"bot|live|test|abcdef(?:g[a-z]*)?|0?123456(?:7890?)?(?:123456(?:7890?)?)*)|[^A-Za-z0-9]"
)
#: A generator's part of a key: at least so much of it, and never fewer characters.
_MADE_SHARE: Final = 0.5
_MADE_LEAST: Final = 14


def is_stand_in(body: str) -> bool:
    """Whether a key (without its prefix) is one of documentation: `YOUR_TOKEN_HERE`, `xxxxxxxx`."""
    if _STAND_IN.search(body) is None:
        return False
    if body.endswith(("EXAMPLE", "EXAMPLEKEY")):
        return True
    made = len(_STAND_IN_WORDS.sub("", body))
    return made < _MADE_LEAST or made < len(body) * _MADE_SHARE


#: Line ends and tabs of texts inside strings, and the quotation marks of pages.
ESCAPED_END: Final = re.compile(r"\\{1,16}[nrt]|&(?:quot|apos|#34|#39|#[xX]2[27]|lt|#60);")


def spoken_word(written: str) -> str:
    """What of a word in a sentence can be a password: no sign that ends a clause, and nothing of a
    row's next fields where one is an address."""
    if "://" in written:
        written = written.partition(",")[0]
    if "\\" in written or "&" in written:
        written = ESCAPED_END.split(written, maxsplit=1)[0]
    return written.rstrip(".,:;?)]}")


def holds_secret(text: str) -> bool:
    """Whether a word of `text` looks generated or chosen as a secret; what is left beside a token
    is judged so."""
    return any(dense(word) or is_chosen(word) for word in text[:VALUE_MAX].split())


def is_expression(value: str) -> bool:
    """Inside quotes: interpolation and templates."""
    return (
        PLACEHOLDER.match(value) is not None
        or _WHOLE_CALL.fullmatch(value) is not None
        or (
            "{" in value
            and "}" in value
            and re.search(r"\$?\{[\w.\[\]()!: ]{0,60}\}", value) is not None
        )
    )


def is_pattern(value: str) -> bool:
    """A regular expression, as forms and schemas hold under such names."""
    return _REGEX.search(value) is not None


def is_code(value: str) -> bool:
    """Without quotes: a name, a call, a constant, an expression."""
    if value.lower() in CONSTANTS or CODE.match(value):
        return True
    if value[0] in "([{":
        return True
    if value[0] in "$&*!@%^|>~=":
        return not dense(value)
    return (
        _WORDS.match(value) is not None
        and not dense(value)
        and not value.islower()
        and not _holds_digit_as_a_password(value)
    )


def _holds_digit_as_a_password(value: str) -> bool:
    """`Mk7tundra`, `Wint3rsun`; not `utf8Value`, `Step2`, `userId1`."""
    return (
        any(c.isdigit() for c in value)
        and (_IDENTIFIER.fullmatch(value) is None or is_worded(value))
        and not is_technical(value)
    )


def is_technical(value: str) -> bool:
    """`base64Encoded`, `x509_cert`: a digit only as part of a word of programs."""
    if not _MAYBE_TECHNICAL.search(value.lower()):
        return False
    rest, count = _TECHNICAL.subn("", value)
    if not count:
        return False
    rest = rest.strip("_-.")
    return not any(c.isdigit() for c in rest) or _IDENTIFIER.fullmatch(rest) is not None


def is_worded(value: str) -> bool:
    """`Welcome1`: a word and a number, as a person chooses a password; no type is called so."""
    return len(value) >= 7 and _WORDED.fullmatch(value) is not None and not is_technical(value)


def dense(value: str) -> bool:
    """Looks generated or chosen as a secret: letters with digits or signs, long enough."""
    if len(value) < 8:
        return False
    letters, digits = _letters_and_digits(value)
    if letters and digits >= 2 and not _IDENTIFIER.fullmatch(value):
        return True
    if (
        digits
        and len(value) >= _GENERATED
        and _mixed_case(value, every=4)
        and not _IDENTIFIER.fullmatch(value)
    ):
        return True
    if digits and len(set(value)) >= 6 and any(not c.isalnum() and c not in "_-. /" for c in value):
        return True
    return (
        len(value) >= 20
        and len(set(value)) >= 10
        and _mixed_case(value)
        and not _is_camel_case(value)
    )


#: What becomes of each byte of a text of ASCII that is counted.
_COUNTED: Final = bytes(
    ord("x") if chr(code).isalpha() else ord("0") if chr(code).isdigit() else 0
    for code in range(128)
) + bytes(128)


def _letters_and_digits(value: str) -> tuple[int, int]:
    if value.isascii():
        counted = value.encode().translate(_COUNTED)
        return counted.count(b"x"), counted.count(b"0")
    return sum(c.isalpha() for c in value), sum(c.isdigit() for c in value)


def is_dotted_words(value: str) -> bool:
    """`walnut.harbor38`, where a password is expected; not `form.password12`, `hash.sha256`."""
    match = _DOTTED_WORDS.fullmatch(value)
    return (
        match is not None
        and (len(match["number"]) > 1 or match["last"].istitle())
        and match["first"].lower() not in _OBJECTS
        and not is_secret_name(match["last"])
        and not is_technical(value)
    )


#: Digits that stand for letters: 0 o, 1 i, 3 e, 4 a, 5 s, 7 t.
_LEET: Final = re.compile(r"[A-Za-z]+[013457]{1,2}[a-z][A-Za-z013457]*")
_LEET_WORDS: Final = re.compile(r"[A-Za-z013457]{4,}(?:[.][A-Za-z\d]{3,}){0,2}[!?#$%&*]{0,2}")


def is_leet(value: str) -> bool:
    """`W0nder.Land`, `M0untain`: a word with digits for letters, where a password is expected."""
    return (
        len(value) >= _CHOSEN_LEAST
        and _LEET_WORDS.fullmatch(value) is not None
        and any(_LEET.fullmatch(part) for part in value.rstrip("!?#$%&*").split("."))
        and not is_technical(value)
    )


def _is_camel_case(value: str) -> bool:
    """`apiKeyFromAuthStorage`: short words joined by capitals."""
    spoken = sum(len(p) for p in _PIECES.findall(value) if len(p) >= 3 and not _UNSPOKEN.search(p))
    return spoken * 5 >= len(value) * 4


def _is_data_secret(name: str, value: str, *, password: bool) -> bool:
    if value.lower() in CONSTANTS or value[0] in "([{$<%" or _CALLED.match(value):
        return False
    if _ENV_NAME.fullmatch(value) or (
        _DOTTED.fullmatch(value) and is_secret_name(value)  # `--password user.password`
    ):
        return False
    if password:
        return not value.isdigit() or len(value) >= 6
    return dense(value) or is_long_random(value) or (name.isupper() and len(value) >= 8)


def _is_quoted_secret(name: str, value: str, *, password: bool) -> bool:
    if is_expression(value) or _ENV_NAME.fullmatch(value) or value.lower() in CONSTANTS:
        return False
    if (
        not password
        and _NAMESPACED.fullmatch(value)
        and not any(dense(part) for part in value.split(":"))
    ):
        return False
    if _SNAKE.fullmatch(value) and is_secret_name(value):
        return False  # `grant = "refresh_token"`: the name of one
    if " " in value:
        made = any(dense(word) for word in value.split())
        if name.lower().endswith("authorization"):
            return made
        return (password or name.isupper() or made) and not _is_prose(value)
    if password or dense(value) or is_long_random(value):
        return True
    listed = "SECRET" not in name and _LISTED.fullmatch(value) is not None
    return name.isupper() and len(value) >= 8 and not listed


def _is_chosen_secret(value: str) -> bool:
    """`keyboard-moose-77` as the secret of sessions; not `client-secret-2`, the name of one."""
    return (
        len(value) >= _CHOSEN_SECRET
        and any(c.isdigit() for c in value)
        and is_chosen(value)
        and not any(word in value.lower() for word in ("secret", "token", "step", "test"))
    )


def is_generated(value: str) -> bool:
    """Surely made by a generator: no name, no word, no version looks like it."""
    return len(value) >= _GENERATED and dense(value) and _TOKEN_LIKE.fullmatch(value) is not None


def is_mixed(value: str) -> bool:
    """Capitals, small letters and digits: no digest, no identifier."""
    return (
        any(c.isupper() for c in value)
        and any(c.islower() for c in value)
        and sum(c.isdigit() for c in value) >= 2
    )


def _holds_run(value: str) -> bool:
    """Letters and digits without a sign between: no UUID, no date, no list of words, no cookie
    with its name."""
    return _COOKIE.match(value) is None and any(
        sum(c.isdigit() for c in run.group()) >= 2 and not run.group().isdigit()
        for run in _RUN.finditer(value)
    )


_COOKIE: Final = re.compile(r"[\w.%\-]{1,64}=[^=]")
_RUN: Final = re.compile(rf"[A-Za-z0-9]{{{_GENERATED},}}")

_LETTER: Final = re.compile(r"[^\W\d_]")
_DIGIT: Final = re.compile(r"[\d²³¹]")
_PASSWORD_SIGNS: Final = frozenset("!$#@%*&?+^")


def is_chosen(value: str, *, surely: bool = False) -> bool:
    """A password as people choose them: letters with digits or signs; `surely` asks for more, as
    between the words of a sentence."""
    if not _CHOSEN_LEAST <= len(value) <= SPOKEN_MAX or " " in value or "://" in value:
        return False
    if is_dotted_words(value):
        return not surely
    if value[0] in "([{<$/" or CODE.match(value) or not _LETTER.search(value):
        return False
    digits = _DIGIT.search(value) is not None
    if surely and (not digits or len(value) < 8):
        return False
    signs = not _PASSWORD_SIGNS.isdisjoint(value)
    if not signs and is_technical(value):
        return False
    if surely:
        return signs or (not value.islower() and not value.isupper())
    if signs and _EXCLAIMED.fullmatch(value):
        return not surely
    if digits and (signs or not _IDENTIFIER.fullmatch(value)):
        return True
    if digits:
        return len(value) >= 8 and not value.isupper()
    return is_random(value)


def is_random(value: str) -> bool:
    """Letters nobody can pronounce: names and words of source code are made of syllables."""
    if len(value) < 8 or not value.isascii():
        return False
    if value.islower() and sum(c in "aeiouy" for c in value) >= len(value) * _VOWELS:
        return False  # `upstream`, `passphrase`
    pieces = _PIECES.findall(value)
    letters = sum(map(len, pieces))
    spoken = sum(len(p) for p in pieces if len(p) >= 3 and _UNSPOKEN.search(p) is None)
    return letters >= 6 and spoken * 2 < letters and len(set(value)) >= 6


def is_long_random(value: str) -> bool:
    """Letters of both cases that nobody can pronounce, as many as a generator makes."""
    return (
        len(value) >= _GENERATED
        and _TOKEN_LIKE.fullmatch(value) is not None
        and not value.isupper()
        and not value.islower()
        and is_random(value)
    )


def _mixed_case(value: str, every: int = 3) -> bool:
    """Capitals scattered as a generator does, not as CamelCase does."""
    if not value.isascii() or any(c.isspace() for c in value):
        return False
    changes = sum(
        a.islower() != b.islower() for a, b in pairwise(value) if a.isalnum() and b.isalnum()
    )
    return changes * every >= len(value)


def _is_prose(value: str) -> bool:
    """A sentence or a label, as interfaces and documentation hold under such names."""
    words = [word.strip(".,:;!?()'\"").lower() for word in value.split()]
    if any(any(c.isdigit() for c in word) and not word.isdigit() for word in words):
        return False
    if any(word in _LABEL_WORDS for word in words):
        return True
    hits = sum(word in _PROSE for word in words)
    return hits >= 2 or (hits >= 1 and (value[:1].isupper() or len(words) <= 3))
