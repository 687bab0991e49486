"""Secrets by what they are called or where they stand: assignments in any syntax, `Bearer` and
`Basic` headers, passwords in URLs.

A name ends in a word for a secret (`DB_PASSWORD`, `refresh_token`, `x-api-key`); its value is
judged: code (`get_token()`, `os.environ[...]`, `None`), placeholders (`${VAR}`, `<password>`, the
policy's list) and sentences are left alone, everything a person or a generator would use as a
secret is not.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import ClassVar, Final

from gateway.redaction.detectors.base import Rule, Source, occurrences
from gateway.redaction.spans import Span

#: Parts of names that may be followed by a secret; searched in lower case.
_HINTS: Final = (
    "passw", "passphrase", "passcode", "pwd", "secret", "token", "apikey", "api_key", "api-key",
    "access_key", "accesskey", "access-key", "private_key", "privatekey", "auth_key", "authkey",
    "account_key", "accountkey", "encryption_key", "encryptionkey", "signing_key", "signingkey",
    "master_key", "masterkey", "credential", "authorization", "subscription_key", "license_key",
    "pgpass", "mysql_pass", "smtp_pass", "db_pass", "_pass", "pass:", "pass=", "jwt_key",
    "cookie_key",
    "app_key", "appkey", "session_key", "hmac_key", "shared_key", "sharedkey", "storage_key",
    "primary_key_", "connection_string_key", "webhook_key", "service_key", "admin_key", "auth=",
    "_auth",
)  # fmt: skip

#: The word for a password at the end of a name: any value will do, also a short or plain one.
_PASSWORD: Final = re.compile(
    r"(?:pass(?:w(?:or)?d|phrase|code|wd)?|pwd|passwd|kennwort|^_auth)\Z", re.IGNORECASE
)
#: The whole name, right to left: what it must end in.
_SECRET_NAME: Final = re.compile(
    r"(?:(?:^|[_.])pass|passw(?:or)?d|passwd|passphrase|passcode|pwd|secrets?|token|api[_.\-]?key|"
    r"(?:access|private|auth|account|encryption|signing|master|subscription|license|jwt|cookie|app|"
    r"session|hmac|shared|storage|webhook|service|admin|secret|client)[_.\-]?key|secret[_.\-]?access"
    r"[_.\-]?key|credentials?|authorization|^_auth(?:token)?)"
    r"(?:[_.\-]?(?:\d{1,3}|value|val|prod|dev|staging|live|test|plain|plaintext|raw|base64|b64|string|old|new|"
    r"current|primary|secondary|default|id))?\Z",
    re.IGNORECASE,
)
#: Names that end like one and are none.
_NOT_A_SECRET: Final = re.compile(
    r"(?:(?:next|continuation|page|cursor|sync|start|end|stop|pad|eos|bos|unk|mask|cls|sep|csrf_?param|"
    r"max|num|min|per|prev|current|last|first|input|output|special|cancellation|cancel)[_.\-]?token|"
    r"token_id|secret_id|(?:no|bad|wrong|invalid|missing|forgot|reset|change|confirm|show|hide|has|is|"
    r"use|with|without|require|needs?)[_.\-]?(?:password|passwd|token|secret)|"
    r"public[_.\-]?key|credential_?id|by_?pass|com_?pass|sur_?pass|tres_?pass)\Z",
    re.IGNORECASE,
)


#: Longer words are no names; reading on in them would cost time for every hint they hold.
_NAME_MAX: Final = 100
_NAME: Final = re.compile(rf"[\w.\-]{{1,{2 * _NAME_MAX}}}", re.ASCII)
_NAME_LEFT: Final = re.compile(rf"[\w.\-]{{0,{_NAME_MAX}}}\Z", re.ASCII)

#: From the end of the name to its value.
_GLUE: Final = re.compile(
    r"(?P<close>\\{0,7}[\"'`])?\]?[ \t]{0,20}(?:"
    r"(?P<op>=>|:=|={1,3}|!=|\?=|\|\|=|:)|(?P<arg>[ \t]))"
    r"[ \t]{0,20}(?P<prefix>[rRbBuU]{1,2}(?=[\"']))?(?P<quote>\\{0,7}(?:\"\"\"|'''|[\"'`]))?"
)
#: The same inside `name: str = "…"`, where a type stands between.
_TYPED: Final = re.compile(
    r":[ \t]{0,4}[A-Za-z_][\w\[\]., |]{0,40}[ \t]{0,4}=[ \t]{0,4}(?P<quote>[\"'])"
)

#: `name: DB_PASSWORD` and `value: …` as a pair, as container and pipeline files write them.
_PAIR: Final = re.compile(
    r"[\"']?,?[ \t]{0,8}(?:\r?\n[ \t]{0,60})?[\"']?value[\"']?[ \t]{0,8}(?P<op>[:=])"
    r"[ \t]{0,8}(?P<quote>[\"'])?",
    re.IGNORECASE,
)

_UNQUOTED: Final = re.compile(r"[^\s\"'`,;<>(){}\[\]|]{1,4096}")
_REST_OF_LINE: Final = re.compile(r"[^\r\n]{1,4096}")
_VALUE_MAX: Final = 4096
_COMMENT: Final = re.compile(r"\s+(?:#|//)")
_NAME_ONLY: Final = re.compile(r"[A-Za-z_$][A-Za-z_$.]*\d?", re.ASCII)


class SecretRule(Rule):
    """Finds secrets by name and place."""

    KINDS: ClassVar = ("SECRET",)

    def spans(self, source: Source) -> Iterator[Span]:
        """Look behind every name, every authorization scheme, and into every URL."""
        yield from self._assignments(source)
        yield from _headers(source)
        yield from self._commands(source)
        yield from self._urls(source.text)

    def value_spans(self, key: str, value: str) -> Iterator[Span]:
        """The whole `value` when `key` is a secret's name and the value can be one."""
        name = key.strip()[-100:]
        if value and _is_secret_name(name) and self._is_secret(name, value, quoted=True):
            start = len(value) - len(value.lstrip())
            scheme = _SCHEME.match(value, start)
            yield Span(
                scheme.end() if scheme else start, len(value.rstrip()), "SECRET", 0.8, "named-value"
            )

    # -- assignments ------------------------------------------------------------------------------

    def _assignments(self, source: Source) -> Iterator[Span]:
        text = source.text
        done = -1
        for at, _hint in sorted(occurrences(source.folded, _HINTS)):
            if at < done:
                continue
            name = _name_around(text, at)
            done = max(name.end(), at + 1)
            written = name.group().rstrip(".-")
            if len(written) > _NAME_MAX or not _is_secret_name(written):
                continue
            span = self._value_after(text, written, name.start() + len(written), name.start())
            if span is not None:
                done = max(done, span.end)
                yield span

    def _value_after(self, text: str, name: str, end: int, start: int) -> Span | None:
        if text[end : end + 1] == ">" and text[max(0, start - 1) : start] == "<":
            return self._element(text, name, end + 1)
        glue = _PAIR.match(text, end) or _TYPED.match(text, end) or _GLUE.match(text, end)
        if glue is None:
            return None
        groups = glue.groupdict()
        at = glue.end()
        quote = groups.get("quote")
        if groups.get("arg") is not None and not _is_option(text, start, name):
            return None
        if quote:
            close = _closing(text, at, quote)
            if close is None:
                return None
            value = text[at:close]
            if not self._is_secret(name, value, quoted=True):
                return None
            return _trimmed(text, at, close, "quoted")
        if glue.re is _PAIR:
            start = end + glue.group().lower().rfind("value")
        return self._unquoted(text, name, start, at, groups.get("op") or " ")

    def _element(self, text: str, name: str, at: int) -> Span | None:
        """`<password>…</password>`"""
        close = text.find("</", at, at + _VALUE_MAX)
        if close < 0 or not self._is_secret(name, text[at:close], quoted=True):
            return None
        return _trimmed(text, at, close, "element")

    def _unquoted(self, text: str, name: str, start: int, at: int, op: str) -> Span | None:
        style = _style(text, name, start, at, op)
        glued = text[at - 1 : at] not in (" ", "\t")
        match = (_REST_OF_LINE if style == "line" else _UNQUOTED).match(text, at)
        if match is None:
            return None
        value = match.group()
        if style == "line":
            value = _COMMENT.split(value, maxsplit=1)[0].rstrip()
            if " " in value and not _scheme_only(value):
                value = _first_or_all(value, whole=name.isupper() and op == "=" and glued)
            value = value.rstrip(",;\\")
        elif text[match.end() : match.end() + 1] in ("(", "[", "{") or _is_code(value):
            return None  # a call or an index
        value = value.split("&", 1)[0].rstrip(".:")
        after = text[at + len(value) : at + len(value) + 1]
        if _is_variable(name, value, after, glued=glued and op == "="):
            return None
        if not self._is_secret(name, value, quoted=False, strict=style == "code"):
            return None
        return _trimmed(text, at, at + len(value), "unquoted")

    # -- what a value is --------------------------------------------------------------------------

    def _is_secret(self, name: str, value: str, *, quoted: bool, strict: bool = False) -> bool:
        value = value.strip()
        scheme = _SCHEME.match(value)
        if scheme:
            value = value[scheme.end() :]
        if len(value) < 4 or len(value) > _VALUE_MAX:
            return False
        value = value[:_JUDGED]
        if self._is_placeholder(name, value):
            return False
        if "://" in value or _PATH.fullmatch(value):
            return False
        password = _PASSWORD.search(name) is not None
        if quoted:
            if _is_expression(value) or _ENV_NAME.fullmatch(value):
                return False
            if _SNAKE.fullmatch(value) and _is_secret_name(value):
                return False  # `grant = "refresh_token"`: the name of one
            if " " in value:
                return (password or name.isupper() or _dense(value)) and not _is_prose(value)
            return password or _dense(value) or (name.isupper() and len(value) >= 8)
        if _is_code(value):
            return False
        if strict:
            return _dense(value) and len(value) >= 8
        if password:
            return not value.isdigit() or len(value) >= 6
        return _dense(value) or (name.isupper() and len(value) >= 8)

    def _is_placeholder(self, name: str, value: str) -> bool:
        folded = value.lower().strip("\"'")
        if folded in self.policy.allowed.placeholders or folded == name.lower():
            return True
        return _PLACEHOLDER.match(value) is not None or len(set(value)) <= 2

    def _commands(self, source: Source) -> Iterator[Span]:
        """Passwords that programs take by a short option or as `user:password`."""
        for at, program in occurrences(source.folded, _PROGRAMS):
            match = _PROGRAMS[program].match(source.text, at)
            if match is None:
                continue
            value = match["value"]
            if len(value) > 3 and not self._is_placeholder("", value) and not _is_code(value):
                yield Span(match.start("value"), match.end("value"), "SECRET", 0.8, "command")

    # -- URLs -------------------------------------------------------------------------------------

    def _urls(self, text: str) -> Iterator[Span]:
        at = text.find("://")
        while at >= 0:
            match = _USERINFO.match(text, at + 3)
            if match is not None and not self._is_placeholder("", match["password"]):
                value = match["password"]
                if not _is_expression(value) and len(value) > 1:
                    yield Span(match.start("password"), match.end("password"), "SECRET", 0.9, "url")
            at = text.find("://", at + 3)


_PROGRAMS: Final = {
    "sshpass": re.compile(r"sshpass[ \t]{1,4}-p[ \t]{0,4}[\"']?(?P<value>[^\s\"']{1,128})"),
    "curl ": re.compile(
        r"curl (?:[^\n|;]{0,200}? )?(?:-u|--user)[ =]?[\"']?[\w.@\-]{1,64}:"
        r"(?P<value>[^\s\"']{1,128})"
    ),
    "mysql": re.compile(r"mysql(?:dump|admin)?(?: [^\n|;]{0,120}?)? -p(?P<value>[^\s\"'-]{4,128})"),
}
_USERINFO: Final = re.compile(
    r"(?P<user>[^\s:/@\"'<>`\\]{0,128}):(?P<password>[^\s\"'<>`]{1,256})@(?=[\w\[$%{.\-])"
)
_SCHEME: Final = re.compile(r"(?:bearer|basic|token|apikey|digest|key)\s+(?=\S)", re.IGNORECASE)
_PATH: Final = re.compile(r"(?:[A-Za-z]:)?(?:~|\.{1,2})?(?:[\\/][\w. \-]+)+\.?[\w]*")
_PLACEHOLDER: Final = re.compile(
    r"\$\{|\$\(|\$[A-Za-z_]|%\(|%[A-Z_]{2,}%|%[sdrv]\b|\{\{|\{%|<[^>]{1,60}>\Z|\[[A-Z_]+\]\Z|#\{|@\{|@[A-Z_]+@|"
    r"\.{3}|…|[xX*•·#_?\-]{3,}\Z|(?:your|my|the|some|insert|enter|replace|change|put|add|use|example|sample|"
    r"dummy|fake|mock|test|todo|fixme|redacted|placeholder)[_\- ](?:[A-Za-z]+[_\- ])*"
    r"(?:key|token|secret|password|passwd|here|me|this|value|pass|api|id)s?\Z|"
    r"\{[A-Za-z_][\w.]*(?:![rsa])?(?::[^{}]*)?\}\Z|(?:vault|op|ssm|secretsmanager|env|file|arn|ref|projects):",
    re.IGNORECASE,
)
_CODE: Final = re.compile(
    r"(?:[A-Za-z_$][\w$]*(?:\??\.|::|->)[A-Za-z_$]|[A-Za-z_$][\w$.]*[\[(]|[-+!&|~^]?[A-Za-z_]\w*\(|"
    r"(?:self|this|os|process|env|config|settings|request|args|kwargs|options|ctx|data|params|cls|props|state|"
    r"import|new|await|typeof|lambda|function|return|not|async)\b(?:[.\[(\s]|\Z))"
)
_WORDS: Final = re.compile(r"[A-Za-z_$][\w$]*\Z", re.ASCII)
_ENV_NAME: Final = re.compile(r"[A-Z]+(?:_[A-Z]+)+")
_SNAKE: Final = re.compile(r"[A-Za-z]+(?:[_\-.][A-Za-z]+)*")
_CONSTANTS: Final = frozenset(
    [
        "true",
        "false",
        "none",
        "null",
        "nil",
        "undefined",
        "nan",
        "yes",
        "no",
        "on",
        "off",
        "str",
        "string",
        "bytes",
        "int",
        "bool",
        "float",
        "any",
        "object",
        "optional",
        "list",
        "dict",
        "self",
        "this",
        "void",
        "never",
        "unknown",
        "number",
        "text",
        "type",
        "char",
        "varchar",
        "symbol",
    ]
)


def _name_around(text: str, at: int) -> re.Match[str]:
    """The word that holds the hint at `at`."""
    left = _NAME_LEFT.search(text, max(0, at - _NAME_MAX), at)
    name = _NAME.match(text, left.start() if left else at)
    assert name is not None  # a hint begins with a letter or an underscore
    return name


def _is_secret_name(name: str) -> bool:
    snake = _CAMEL.sub("_", name)
    return (
        _SECRET_NAME.search(snake) is not None
        and _NOT_A_SECRET.search(name) is None
        and _NOT_A_SECRET.search(snake) is None
    )


_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _is_option(text: str, start: int, name: str) -> bool:
    """`--password value`, `-token value`: a space assigns only behind a dash; and in netrc."""
    return (
        text[start : start + 1] == "-"
        or text[max(0, start - 1) : start] == "-"
        or (
            name.lower() in ("password", "passwd")
            and "machine " in text[max(0, start - 120) : start]
        )
        or text[max(0, start - 4) : start].upper() in ("ENV ", "ARG ")
    )


def _style(text: str, name: str, start: int, at: int, op: str) -> str:
    """How the assignment is written: `line` where the value reaches to the end of its line (.env,
    YAML, INI), `word` where it ends with the word (options, query strings), `code` everywhere
    else."""
    if op == " ":
        return "word"
    line = text.rfind("\n", max(0, start - 60), start) + 1
    before = text[max(line, start - 60) : start].strip()
    glued = text[at - 1 : at] not in " \t"
    if text[start : start + 1] == "-" or before.endswith(("-", "?", "&", "--")):
        return "word"
    lead = before.removeprefix("export").removeprefix("set").removeprefix("ENV").removeprefix("ARG")
    if lead.strip(" \t-+>#$\"'\\") == "" and op in ("=", ":"):
        if op == "=" and (glued or name.isupper()):
            return "line"
        if op == ":" and not glued:
            return "line"
        return "word" if op == "=" and not glued else "code"
    if op == "=" and glued and name.isupper():
        return "word"
    if (
        op == "="
        and glued
        and (before.endswith(";") or text[max(0, start - 1) : start] in (" ", ";"))
    ):
        return "code"
    return "code"


def _closing(text: str, at: int, quote: str) -> int | None:
    """Where the quotation that began before `at` ends, on the same line for short quotes."""
    limit = at + _VALUE_MAX
    position = at
    while True:
        found = text.find(quote, position, limit)
        if found < 0:
            return None
        if len(quote.lstrip("\\")) == 1 and "\n" in text[at:found]:
            return None
        backslashes = 0
        while found - backslashes > at and text[found - backslashes - 1] == "\\":
            backslashes += 1
        if backslashes % 2 == 0 or quote[0] == "\\":
            return found
        position = found + 1


def _trimmed(text: str, start: int, end: int, rule: str) -> Span | None:
    """The span without blanks around it and without an authorization scheme before it."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    scheme = _SCHEME.match(text, start, end)
    if scheme:
        start = scheme.end()
    return Span(start, end, "SECRET", 0.85, rule) if end > start else None


def _first_or_all(value: str, *, whole: bool) -> str:
    """Of several words without quotes: all in a `.env` file, else the first if it can be one."""
    first = value.split(" ", 1)[0]
    if whole and not _is_code(value):
        return value
    return first if any(c.isdigit() for c in first) else ""


def _is_variable(name: str, value: str, after: str, *, glued: bool) -> bool:
    """`password = fallback`, `password=user_password,`, `KEY: Type`: a name of source code."""
    if after in (",", ")") and _TYPE_NAME.fullmatch(value) and not _PASSWORD.search(name):
        return True
    if not _NAME_ONLY.fullmatch(value):
        return False
    if not glued:
        if name.isupper() and value.islower():
            return not _ends_line(after)  # `ROOT_PASSWORD: example_pw`
        return not value.islower() or "_" in value or not _ends_line(after)
    return not name.isupper() and (after in (",", ")") or _is_secret_name(value))


_TYPE_NAME: Final = re.compile(r"[A-Z]\w{0,8}[a-z]{3}\w*[a-z]{2}")


def _ends_line(after: str) -> bool:
    return after in ("", "\r", "\n", " ", "#")


def _scheme_only(value: str) -> bool:
    scheme = _SCHEME.match(value)
    return scheme is not None and " " not in value[scheme.end() :]


def _is_expression(value: str) -> bool:
    """Inside quotes: interpolation and templates."""
    return _PLACEHOLDER.match(value) is not None or (
        "{" in value
        and "}" in value
        and re.search(r"\$?\{[\w.\[\]()!: ]{0,60}\}", value) is not None
    )


def _is_code(value: str) -> bool:
    """Without quotes: a name, a call, a constant, an expression."""
    if value.lower() in _CONSTANTS or _CODE.match(value):
        return True
    if value[0] in "([{":
        return True
    if value[0] in "$&*!@%^|>~=":
        return not _dense(value)
    return _WORDS.match(value) is not None and not _dense(value) and not value.islower()


def _dense(value: str) -> bool:
    """Looks generated or chosen as a secret: letters with digits or signs, long enough."""
    if len(value) < 8:
        return False
    letters = sum(c.isalpha() for c in value)
    digits = sum(c.isdigit() for c in value)
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
    return len(value) >= 20 and len(set(value)) >= 10 and _mixed_case(value)


#: Characters of a value that are enough to judge it.
_JUDGED: Final = 256
#: Generated secrets are at least this long when they hold a single digit.
_GENERATED: Final = 16
#: `sha256_digest`, `utf8Decoder`, `step-2-name`: words with a number, not a secret.
_IDENTIFIER: Final = re.compile(
    r"[A-Za-z]++(?:[_.\-][A-Za-z]++){0,12}+[_.\-]?\d{0,3}(?:[_.\-][A-Za-z]++){0,6}+"
)


def _mixed_case(value: str, every: int = 3) -> bool:
    """Capitals scattered as a generator does, not as CamelCase does."""
    if not value.isascii() or any(c.isspace() for c in value):
        return False
    changes = sum(a.islower() != b.islower() for a, b in pairwise(value))
    return changes * every >= len(value)


_PROSE: Final = frozenset(
    [
        "your",
        "the",
        "is",
        "are",
        "enter",
        "please",
        "must",
        "not",
        "for",
        "to",
        "of",
        "a",
        "an",
        "was",
        "has",
        "be",
        "this",
        "that",
        "with",
        "or",
        "and",
        "can",
        "if",
        "in",
        "required",
        "invalid",
        "incorrect",
        "wrong",
        "forgot",
        "reset",
        "change",
        "confirm",
        "new",
        "old",
        "current",
        "cannot",
        "should",
        "will",
    ]
)


def _is_prose(value: str) -> bool:
    """A sentence or a label, as interfaces and documentation hold under such names."""
    words = [word.strip(".,:;!?()'\"").lower() for word in value.split()]
    if any(any(c.isdigit() for c in word) for word in words):
        return False
    hits = sum(word in _PROSE for word in words)
    return hits >= 2 or (hits >= 1 and (value[:1].isupper() or len(words) <= 3))


# -- authorization headers ------------------------------------------------------------------------

_CREDENTIAL: Final = re.compile(r"[ \t]{1,4}(?P<value>[A-Za-z0-9._~+/\-]{8,4096}={0,2})")


def _headers(source: Source) -> Iterator[Span]:
    for at, scheme in occurrences(source.folded, ("bearer", "basic")):
        match = _CREDENTIAL.match(source.text, at + len(scheme))
        if match is None or source.text[max(0, at - 1) : at].isalnum():
            continue
        value = match["value"]
        good = _is_basic(value) if scheme == "basic" else _dense(value)
        if good:
            yield Span(match.start("value"), match.end("value"), "SECRET", 0.9, scheme)


def _is_basic(value: str) -> bool:
    """`user:password` in base64."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in decoded and all(byte >= 32 for byte in decoded)
