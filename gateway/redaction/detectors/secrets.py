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
import string
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Final

from gateway.redaction.detectors.base import HIDDEN, Rule, Source, occurrences
from gateway.redaction.spans import Span

#: Parts of names that may be followed by a secret; searched in lower case.
_HINTS: Final = (
    "pwd", "secret", "token", "credential", "authorization", "auth=", "_auth", "kennwort", "sessid",
    "sessionid", "connect.sid",
)  # fmt: skip
#: `pass`, unless it begins another word (`passed`, `passing`): `password`, `passphrase`, `db_pass`.
_PASS: Final = re.compile(r"pass(?:w|phrase|code|(?=[^a-z\s])|(?=[ \t]))|psk(?![a-z])")
#: `key` behind one of the words that make it a secret, by that word's last two letters.
_KEY_TAILS: Final = frozenset(
    ["pi", "ss", "te", "th", "nt", "on", "ng", "er", "se", "wt", "ie", "pp", "ac", "ed", "ge", "ok",
     "ce", "in", "et"]
)  # fmt: skip

#: Such names only in capitals (`OPENWEATHER_KEY`), and only for values that were generated.
_CAPITAL_HINT: Final = "_KEY"
_CAPITAL_NAME: Final = re.compile(
    r"(?!.*(?:PUBLIC|PUBLISHABLE|PRIMARY|FOREIGN|SORT|PARTITION|HASH|CACHE|UNIQUE|REGISTRY|H|SUB|SITE|KNOWN|"
    r"INDEX|OBJECT|LOOKUP|DEDUPE|ROUTING|GROUP)_KEY)[A-Z][A-Z0-9_]*_KEY\Z"
)

#: The word for a password at the end of a name: any value will do, also a short or plain one.
_PASSWORD: Final = re.compile(
    r"(?:pass(?:w(?:or)?d|wort|phrase|code|wd)?|pwd|kennwort|(?:^|[_.\-])psk|^_auth)\Z",
    re.IGNORECASE,
)
#: The whole name, right to left: what it must end in.
_SECRET_NAME: Final = re.compile(
    r"(?:(?:^|[_.\-]|key|store|user|smtp|mail|db|root|admin|mysql|pg)pass|(?:^|[_.\-])psk|"
    r"passwort|kennwort|phpsessid|jsessionid|asp\.net_session_?id|connect\.sid|"
    r"passw(?:or)?d|passwd|passphrase|passcode|pwd|secrets?|token|api[_.\-]?key|"
    r"(?:access|private|auth|account|encryption|signing|master|subscription|license|jwt|cookie|app|"
    r"session|hmac|shared|storage|webhook|service|admin|secret|client|fernet|server|shared[_.\-]?access)[_.\-]?key|"
    r"access[_.\-]?key[_.\-]?secret|secret[_.\-]?access"
    r"[_.\-]?key|credentials?|authorization|^_auth(?:token)?)"
    r"(?:[_.\-]?(?:\d{1,3}|value|val|prod|dev|staging|live|test|plain|plaintext|raw|base64|b64|string|old|new|"
    r"current|primary|secondary|default|id|base))?\Z",
    re.IGNORECASE,
)
#: Names that end like one and are none.
_NOT_A_SECRET: Final = re.compile(
    r"(?:(?:next|continuation|page|cursor|sync|start|end|stop|pad|eos|bos|unk|mask|cls|sep|csrf_?param|"
    r"max|num|min|per|prev|current|last|first|input|output|special|cancellation|cancel)[_.\-]?token|"
    r"token_id|secret_id|(?:^|[_.\-])(?:no|bad|wrong|invalid|missing|forgot|reset|change|confirm|show|hide|has|is|"
    r"use|with|without|require|needs?)[_.\-]?(?:password|passwd|token|secret)|"
    r"public[_.\-]?key|credential_?id|by_?pass|com_?pass|sur_?pass|tres_?pass)\Z",
    re.IGNORECASE,
)


#: Longer words are no names; reading on in them would cost time for every hint they hold.
_NAME_MAX: Final = 100
_NAME: Final = re.compile(rf"[\w.\-]{{1,{2 * _NAME_MAX}}}", re.ASCII)

#: From the end of the name to its value.
_GLUE: Final = re.compile(
    r"(?P<close>\\{0,7}[\"'`])?\]?[ \t]{0,20}(?:"
    r"(?P<op>=>|:=|<-|={1,3}|!=|\?=|\?\?=|\|\|=|\|\||\?\?|->(?=[ \t]*[\"'])|:|\|)|(?P<arg>[ \t]))"
    r"[ \t]{0,20}(?:[|>][+-]?[ \t]{0,4}\r?\n[ \t]{1,20})?"
    r"(?P<prefix>[rRbBuU]{1,2}(?=[\"']))?(?P<quote>\\{0,7}(?:\"\"\"|'''|[\"'`]))?"
)
#: The same with a type between: `name: str = "…"`, `name string = "…"`, `name { get; set; } = "…"`.
_TYPED: Final = re.compile(
    r"(?::[ \t]{0,4}[&A-Za-z_][\w\[\]., |&'<>]{0,40}|[ \t]{1,4}[Ss]tring|\[\d{0,5}\]|"
    r"[ \t]{0,4}\{ ?get;[ a-z;]{0,20}\})[ \t]{0,4}:?=[ \t]{0,4}(?P<quote>[\"'])"
)

#: `name: DB_PASSWORD` and `value: …` as a pair, as container and pipeline files write them.
_PAIR: Final = re.compile(
    r"[\"']?,?[ \t]{0,8}(?:\{[ \t]{0,4})?"
    r"(?:\r?\n[ \t]{0,60}(?:(?:type|description|sensitive|nullable)[ \t]{0,12}=[^\r\n]{0,200}"
    r"\r?\n[ \t]{0,60}){0,4})?(?:--body[ =]|[\"']?(?:value|default)[\"']?[ \t]{0,12}(?P<op>[:=]))"
    r"[ \t]{0,8}(?P<quote>[\"'])?",
    re.IGNORECASE,
)
#: `define('NAME', 'value')`, `setdefault("NAME", "value")`, `("NAME", "value"),`
_CALL: Final = re.compile(r"(?P<close>\\{0,7}[\"'`])[ \t]{0,4},[ \t]{0,4}(?P<quote>\\{0,7}[\"'`])")
#: `<entry key="NAME">value</entry>`
_NAMED_ELEMENT: Final = re.compile(
    r"[\"'](?:[ \t][\w:-]{1,30}=[\"'][^\"'<>]{0,60}[\"']){0,3}[ \t]{0,4}>(?!\s*<)"
)
#: `the password is …`, `password "…"`, in sentences.
_SPOKEN: Final = re.compile(
    r"[ \t]{1,3}(?:(?:is|was|=|to|will be|set to|for [\w@.\-]{1,40} is)(?::|[ \t]){1,3})?"
    r"(?P<quote>[\"'`])?"
)

#: A value that was replaced before ends where its token does.
_UNQUOTED: Final = re.compile(rf"[^\s\"'`,;<>(){{}}\[\]|{HIDDEN}]{{1,4096}}")
_OPEN_VALUE: Final = re.compile(rf"[^\s\"'`;<>|{HIDDEN}]{{1,4096}}")
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
        yield from _cookies(source)
        yield from _queries(source)
        yield from self._other_languages(source)
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
        hits = [at for at, _ in occurrences(source.folded, _HINTS)]
        hits += [found.start() for found in _PASS.finditer(source.folded)]
        hits += _keys(source)
        hits.sort()
        done = -1
        seen: set[_Window] = set()
        for at in hits:
            if at < done:
                continue
            start = _name_start(text, at)
            name = _NAME.match(text, start)
            if name is None:  # the end of a very long word
                continue
            done = max(name.end(), at + 1)
            written = name.group().rstrip(".-")
            if len(written) > _NAME_MAX or not _is_any_secret_name(written):
                continue
            span = self._value_after(text, written, start + len(written), start, seen)
            if span is not None:
                done = max(done, span.end)
                yield span

    def _value_after(
        self, text: str, name: str, end: int, start: int, seen: set[_Window]
    ) -> Span | None:
        """`seen`: what was judged to be no secret before in this text, where lines repeat."""
        inside = _inside_element(text, end, start)
        if inside is not None:
            return self._element(text, name, inside)
        glue = (
            _PAIR.match(text, end)
            or _TYPED.match(text, end)
            or _CALL.match(text, end)
            or _GLUE.match(text, end)
        )
        if glue is None or text.startswith(name, glue.end()):
            return None
        groups = glue.groupdict()
        at = glue.end()
        quote = groups.get("quote")
        called = glue.re is _CALL
        if called and text[max(0, start - 2) : start - 1] not in ("(", "["):
            return None
        if groups.get("arg") is not None:
            window = _window(text, start, end)
            if window in seen:
                return None
            if not _is_option(text, start, name):
                span = self._spoken(text, name, end, start)
                if span is None:
                    seen.add(window)
                return span
        if quote:
            return self._quoted(text, name, at, quote, chosen=called)
        if glue.re is _PAIR:
            start = end + max(0, glue.group().lower().rfind("value"))
        return self._unquoted_once(text, name, (start, at), groups.get("op") or " ", seen)

    def _unquoted_once(
        self, text: str, name: str, where: tuple[int, int], op: str, seen: set[_Window]
    ) -> Span | None:
        """`where`: where the name starts and where the value does."""
        start, at = where
        window = _window(text, start, at)
        if window in seen:
            return None
        span = self._unquoted(text, name, start, at, op)
        if span is None:
            seen.add(window)
        return span

    def _quoted(self, text: str, name: str, at: int, quote: str, *, chosen: bool) -> Span | None:
        close = _closing(text, at, quote)
        if close is None:
            return None
        value = text[at:close]
        if not self._is_secret(name, value, quoted=True):
            return None
        if chosen and not name.isupper() and not _is_chosen(value):
            return None  # `input("password", "Password")`
        return _trimmed(text, at, close, "quoted")

    def _element(self, text: str, name: str, at: int) -> Span | None:
        """`<password>…</password>`"""
        close = text.find("<", at, at + _VALUE_MAX)
        if close < 0 or not text.startswith("</", close):
            return None
        if not self._is_secret(name, text[at:close], quoted=True):
            return None
        return _trimmed(text, at, close, "element")

    def _spoken(self, text: str, name: str, end: int, start: int) -> Span | None:
        """`the password is x9!kk2`, `ROLE r PASSWORD 'x'`: only what no word looks like."""
        glue = _SPOKEN.match(text, end)
        if glue is None:
            return None
        at = glue.end()
        if name.lower() == "pass" and not glue.group().strip("\"'` \t"):
            return None  # a verb
        bare = not glue.group().strip("\"'` \t")
        statement = False
        if glue["quote"]:
            close = _closing(text, at, glue["quote"])
            if close is None or close - at > _SPOKEN_MAX:
                return None
            value = text[at:close]
            statement = name.isupper() or (
                _STATEMENT.search(text, max(0, start - 80), start) is not None
            )
        else:
            word = _OPEN_VALUE.match(text, at, at + _SPOKEN_MAX)
            if word is None:
                return None
            value = word.group().rstrip(".,:;?)]}")
        if not self._is_secret(name, value, quoted=True):
            return None
        if not statement:
            password = _PASSWORD.search(name) is not None
            if not (_is_chosen(value, surely=bare) if password else _is_generated(value)):
                return None
        return _trimmed(text, at, at + len(value), "spoken")

    def _unquoted(self, text: str, name: str, start: int, at: int, op: str) -> Span | None:
        if text[at : at + 1] == "\\" or _PLACEHOLDER.match(text, at, at + _GLANCE):
            return None
        style = _style(text, name, start, at, op)
        glued = text[at - 1 : at] not in (" ", "\t")
        if style == "open" and text[at : at + 1] == "{":  # `Pwd={…}` of ODBC
            braced = text.find("}", at, at + _SPOKEN_MAX)
            if braced > 0 and self._is_secret(name, text[at + 1 : braced], quoted=True):
                return _trimmed(text, at + 1, braced, "unquoted")
            return None
        shape = {"line": _REST_OF_LINE, "open": _OPEN_VALUE}.get(style, _UNQUOTED)
        match = shape.match(text, at, at + _JUDGED)  # judged by its beginning, read on below
        if match is None:
            return None
        value = _read(match, style, whole=name.isupper() and op == "=" and glued)
        if (
            op == " "
            and not name.isupper()
            and value.isalpha()
            and value.islower()
            and not _is_random(value)
        ):
            return None  # `the --password option`
        after = text[at + len(value) : at + len(value) + 1]
        if not value or (
            style != "open" and _is_variable(name, value, after, glued=glued and op == "=")
        ):
            return None
        data = style == "open" or (style == "line" and op == "=" and glued and name.isupper())
        if not self._is_secret(name, value, quoted=False, strict=style == "code", data=data):
            return None
        end = at + len(value)
        rest = shape.match(text, end) if len(value) >= _JUDGED else None
        return _trimmed(text, at, rest.end() if rest else end, "unquoted")

    def _other_languages(self, source: Source) -> Iterator[Span]:
        """`Passwort: …`, `mot de passe : …` in what people write to each other."""
        for at, word in occurrences(source.folded, _PASSWORD_WORDS):
            glue = _WORD_GLUE.match(source.text, at + len(word))
            if glue is None or source.text[max(0, at - 1) : at].isalnum():
                continue
            value = _OPEN_VALUE.match(source.text, glue.end(), glue.end() + _SPOKEN_MAX)
            if value is None:
                continue
            written = value.group().rstrip(".,:;?)]}")
            if (
                len(written) > _SHORTEST
                and not self._is_placeholder("", written)
                and _CODE.match(written) is None
                and (_is_chosen(written) or _is_random(written))
            ):
                end = value.start() + len(written)
                yield Span(value.start(), end, "SECRET", 0.75, "spoken")

    # -- what a value is --------------------------------------------------------------------------

    def _is_secret(
        self, name: str, value: str, *, quoted: bool, strict: bool = False, data: bool = False
    ) -> bool:
        """`strict`: where code may stand; `data`: where only text can stand."""
        value = value[: _VALUE_MAX + 1].strip()
        scheme = _SCHEME.match(value)
        if scheme:
            value = value[scheme.end() :]
        if len(value) < _SHORTEST or len(value) > _VALUE_MAX:
            return False
        value = value[:_JUDGED]
        if self._is_placeholder(name, value):
            return False
        if "://" in value or _PATH.fullmatch(value) or value.startswith(_SIGNED_SCHEMES):
            return False
        if not _is_secret_name(name):
            return _is_generated(value)  # one of `_CAPITAL_NAME`
        password = _PASSWORD.search(name) is not None
        if quoted:
            return _is_quoted_secret(name, value, password=password)
        if data:
            return _is_data_secret(name, value, password=password)
        random = _is_random if password and not strict else _is_long_random
        if _is_code(value) and not random(value):
            return False
        if strict:
            return _dense(value) or (password and _is_chosen(value))
        if password:
            return not value.isdigit() or len(value) >= 6
        return _dense(value) or (name.isupper() and len(value) >= 8)

    def _is_placeholder(self, name: str, value: str) -> bool:
        folded = value.lower().strip("\"'*<>[]{}()")
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
            if (
                len(value) >= _SHORTEST
                and not self._is_placeholder("", value)
                and value[0] not in "$([{<%-"
                and value.lower() not in _CONSTANTS
            ):
                yield Span(match.start("value"), match.end("value"), "SECRET", 0.8, "command")

    # -- URLs -------------------------------------------------------------------------------------

    def _urls(self, text: str) -> Iterator[Span]:
        for at, _ in occurrences(text, ("@tcp(", "@unix(")):  # Go's `user:password@tcp(host)`
            floor = max(0, at - _DSN_REACH)
            words = text[floor:at].split()
            user, colon, value = (words[-1] if words else "").rpartition("://")[2].partition(":")
            value = value if _DSN_USER.fullmatch(user) else ""
            if colon and len(value) > 1 and not self._is_placeholder("", value):
                yield Span(at - len(value), at, "SECRET", 0.85, "url")
        sign = text.find("@")
        at = text.find("://")
        while at >= 0 <= sign:
            if sign < at:
                sign = text.find("@", at)
            if sign - at > _USERINFO_REACH:
                at = text.find("://", max(at + 3, sign - _USERINFO_REACH))
                continue
            match = _USERINFO.match(text, at + 3)
            if match is not None and not self._is_placeholder("", match["password"]):
                value = match["password"]
                if not _is_expression(value) and len(value) > 1 and value.lower() not in _CONSTANTS:
                    yield Span(match.start("password"), match.end("password"), "SECRET", 0.9, "url")
            at = text.find("://", at + 3)


#: What may stand between a program and its option, and a value behind it.
_ARGS: Final = r"(?: [^\n|;]{0,120}?)?"
_PW: Final = r"[\"']?(?P<value>[^\s\"'|;]{1,128})"
_USER_AND: Final = r"[\"'][^\"'\n]{0,64}[\"'], ?[\"'](?P<value>[^\"'\n]{1,128})[\"']"
_PROGRAMS: Final = {
    "sshpass": re.compile(rf"sshpass[ \t]{{1,4}}-p[ \t]{{0,4}}{_PW}"),
    "curl ": re.compile(
        r"curl (?:[^\n|;]{0,200}? )?(?:-u|--user|--proxy-user)[ =]{0,2}[\"']?[\w.@\-]{1,64}:"
        r"(?P<value>[^\s\"']{1,128})"
    ),
    "mysql": re.compile(rf"mysql(?:dump|admin)?{_ARGS} -p(?P<value>[^\s\"'-][^\s\"']{{3,128}})"),
    "sqlcmd": re.compile(rf"sqlcmd{_ARGS} -P ?{_PW}"),
    "redis-cli": re.compile(rf"redis-cli{_ARGS} -a ?{_PW}"),
    "mongo": re.compile(rf"mongo(?:sh|dump|restore|export|import)?{_ARGS} -p ?{_PW}"),
    "docker login": re.compile(rf"docker login{_ARGS} -p ?{_PW}"),
    "az login": re.compile(rf"az login{_ARGS} -p ?{_PW}"),
    "oc login": re.compile(rf"oc login{_ARGS} -p ?{_PW}"),
    "htpasswd": re.compile(rf"htpasswd -\w{{0,6}}b\w{{0,6}} \S{{1,80}} \S{{1,64}} {_PW}"),
    "smbclient": re.compile(
        rf"smbclient{_ARGS} -U ?[\"']?[\w.\\/@-]{{1,64}}%(?P<value>[^\s\"']{{4,128}})"
    ),
    "net use": re.compile(rf"net use{_ARGS} /user:\S{{1,64}} {_PW}", re.IGNORECASE),
    "ldapsearch": re.compile(rf"ldapsearch{_ARGS} -w ?{_PW}"),
    "openssl": re.compile(rf"openssl{_ARGS} -pass(?:in|out)? pass:(?P<value>[^\s\"']{{4,128}})"),
    "zip ": re.compile(rf"zip{_ARGS} -P ?{_PW}"),
    ":5432:": re.compile(r":5432:[\w*.-]{1,64}:[\w.-]{1,64}:(?P<value>[^\s:\"']{4,128})(?=\s|\Z)"),
    "identified by": re.compile(
        r"identified by (?:password )?[\"'](?P<value>[^\"'\n]{1,128})", re.IGNORECASE
    ),
    "auth=(": re.compile(rf"auth=\({_USER_AND}"),
    "auth = (": re.compile(rf"auth = \({_USER_AND}"),
    "getconnection(": re.compile(rf"getConnection\([^,\n]{{1,160}}, ?{_USER_AND}"),
    "convertto-securestring": re.compile(
        r"ConvertTo-SecureString (?:-String )?[\"'](?P<value>[^\"'\n]{1,128})", re.IGNORECASE
    ),
    "net user": re.compile(rf"net user [\w.-]{{1,64}} {_PW}", re.IGNORECASE),
    "thin:": re.compile(r"thin:[\w$#]{1,30}/(?P<value>[^\s\"'/@]{1,64})@"),
    "echo ": re.compile(
        r"echo (?:-n )?[\"']?(?P<value>[^\s\"'|]{1,128})[\"']? ?\| ?"
        r"(?:sudo -S|[^\n|]{0,100}(?:--password-stdin|--passphrase-fd|chpasswd))"
    ),
}
#: Words for a password where people of the regions we know write to each other.
_PASSWORD_WORDS: Final = (
    "passwort", "kennwort", "mot de passe", "contraseña", "contrasena", "hasło", "haslo", "κωδικός",
    "κωδικό πρόσβασης", "wachtwoord", "lösenord", "salasana", "adgangskode", "passord", "heslo",
    "jelszó", "senha", "palavra-passe", "пароль", "parola", "lozinka", "geslo", "parool",
)  # fmt: skip
_WORD_GLUE: Final = re.compile(
    r"[ \t]{0,2}(?:(?:is|ist|est|es|è|je|to|είναι|on|är|er|jest|lautet)[ \t]|[:=])[ \t]{0,3}[\"'`]?"
)
#: How far behind `://` a user and a password may reach.
_USERINFO_REACH: Final = 400
_DSN_REACH: Final = 160
_DSN_USER: Final = re.compile(r"[^:/@]{0,30}[\w.\-]{1,64}")
_USERINFO: Final = re.compile(
    r"(?P<user>[^\s:/@\"'<>`\\]{0,128}):(?P<password>[^\s\"'<>`]{1,256})@(?=[\w\[$%{.\-])"
)
_SCHEME: Final = re.compile(r"(?:bearer|basic|token|apikey|digest|key)\s+(?=\S)", re.IGNORECASE)
_PATH: Final = re.compile(r"(?:[A-Za-z]:)?(?:~|\.{1,2})?(?:[\\/][\w. \-]++)++")
_PLACEHOLDER: Final = re.compile(
    r"\$\{|\$\(|\$[A-Za-z_]|%\(|%[A-Z_]{2,}%|%[sdrv]\b|\{\{|\{%|<[^>]{1,60}>\Z|\[[A-Z_]+\]\Z|#\{|@\{|@[A-Z_]+@|"
    r"\.{3}|…|[xX*•·#_?\-]{3,}\Z|(?:your|my|the|some|insert|enter|replace|change|put|add|use|example|sample|"
    r"dummy|fake|mock|test|todo|fixme|redacted|placeholder)[_\- ](?:[A-Za-z]+[_\- ])*"
    r"(?:key|token|secret|password|passwd|here|me|this|value|pass|api|id|name|goes|string|code)s?\Z|"
    r"\{[A-Za-z_][\w.]*(?:![rsa])?(?::[^{}]*)?\}\Z|(?:vault|op|ssm|secretsmanager|env|file|arn|ref|projects):|projects/[\w-]{1,60}/|"
    r"lambda\b|!(?:Ref|Sub|GetAtt)\b|(?:process\.env|os\.environ|settings|self|this|var|local|secrets)\.[A-Za-z_]|secretkeyref|valuefrom",
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


def _keys(source: Source) -> Iterator[int]:
    """Where `key` ends a name that may be a secret's."""
    folded = source.folded
    for at, _ in occurrences(folded, ("key",)):
        before = folded[max(0, at - 3) : at]
        if before[-1:] in ("_", ".", "-"):
            before = before[:-1]
            if source.text.startswith(_CAPITAL_HINT, at - 1):
                yield at
                continue
        if before[-2:] in _KEY_TAILS:
            yield at


_NAME_CHARS: Final = string.ascii_letters + string.digits + "_.-"
#: A name's end decides; reading all of a long one would cost time for every hint.
_NAME_END: Final = 64


def _name_start(text: str, at: int) -> int:
    """Where the word that holds the hint at `at` begins."""
    floor = max(0, at - _NAME_MAX)
    return floor + len(text[floor:at].rstrip(_NAME_CHARS))


@lru_cache(maxsize=4096)
def _is_secret_name(name: str) -> bool:
    name = name[-_NAME_END:]
    snake = _CAMEL.sub("_", name)
    return (
        _SECRET_NAME.search(snake) is not None
        and _NOT_A_SECRET.search(name) is None
        and _NOT_A_SECRET.search(snake) is None
    )


def _is_any_secret_name(name: str) -> bool:
    return _is_secret_name(name) or (
        name.endswith(_CAPITAL_HINT) and _CAPITAL_NAME.match(name.rpartition(".")[2]) is not None
    )


_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _is_option(text: str, start: int, name: str) -> bool:
    """`--password value`, `ENV TOKEN value`, `#define TOKEN "…"`: where a space assigns; and in
    netrc."""
    if text[start : start + 1] == "-" or text[max(0, start - 1) : start] == "-":
        return True
    if name.lower() in ("password", "passwd") and "machine " in text[max(0, start - 120) : start]:
        return True
    return _SETTERS.search(text, max(0, start - _SETTER_REACH), start) is not None


_SETTER_REACH: Final = 24
_SETTERS: Final = re.compile(
    r"(?:\b(?:env|arg|setenv|setx|set -[a-z]{1,3}|export|config set|configure set|secrets? set|"
    r"env add)|#define) {1,4}\Z",
    re.IGNORECASE,
)
#: Words before a name by which a shell or a tool sets a variable.
_SETTING: Final = frozenset(["set", "export", "env", "setx", "echo", "arg", "config:set", "secret"])
_GLUED_OPTION: Final = re.compile(r"--?[A-Za-z][\w-]{0,30}=?|[\"'(]*Environment=|putenv\(")


def _is_set_by_a_tool(near: str) -> bool:
    """`-e NAME=`, `--env 'NAME=`, `-DNAME=`, `fly secrets set NAME=`: only text can follow."""
    if near[-1:] in ("'", '"'):
        near = near[:-1]
    words = near.split()
    if not words:
        return False
    if near[-1] not in " \t":
        return _GLUED_OPTION.fullmatch(words[-1]) is not None
    if words[-1].lower() in _SETTING or _GLUED_OPTION.fullmatch(words[-1]):
        return True
    return _ROW_FIELD.fullmatch(words[-1]) is not None


#: Before a name: a connection string, a query, a row of `key=value` fields.
_CONNECTION: Final = re.compile(
    r"\b(?:server|data source|host(?:name)?|user ?(?:id|name)?|uid|database|initial catalog|"
    r"dbname|databasename|endpoint|account ?name|driver|port|provider|sharedaccesskeyname)[ ]?="
    r"[^;\n]{0,80};",
    re.IGNORECASE,
)
#: `key=value` before a name, with a blank between, as logs and psql write rows of them.
_ROW_FIELD: Final = re.compile(r"[\"']?[\w.\-]{1,40}=[^\s,(){}\[\]]{1,80}")
_FIELD_REACH: Final = 180
_ROW_REACH: Final = 60
#: In a query; elsewhere the sign may be part of a password.
_NEXT_PARAMETER: Final = re.compile(r"&(?=(?:amp;)?[\w.%\-\[\]]{1,60}=|\Z)")
_NEXT_FIELD: Final = re.compile(r",(?=[\w.\-]{1,40}[=:])")
_OPENERS: Final = re.compile(r"[(\[{]")
_STATEMENT: Final = re.compile(r"\b(?:create|alter|grant)\b", re.IGNORECASE)
_DOTTED: Final = re.compile(r"[A-Za-z]+(?:[._][A-Za-z]+)+")
_CALLED: Final = re.compile(r"[\w.$:>-]{1,80}\(")
_ENV_LINE: Final = re.compile(r"[ \t>#+-]{0,20}(?:(?:export|set|ENV|ARG) )?")


#: Where a name and its value stand in a stretch of text, and the stretch: all that is judged.
_Window = tuple[int, int, str]


def _window(text: str, start: int, at: int) -> _Window:
    floor = max(0, start - _FIELD_REACH)
    return start - floor, at - start, text[floor : at + _JUDGED + 1]


def _inside_element(text: str, end: int, start: int) -> int | None:
    """Where the content begins of `<name>` or `<entry key="name">`, when the name stands there."""
    if text.startswith(">", end):
        return end + 1 if text.startswith("<", max(0, start - 1)) else None
    element = _NAMED_ELEMENT.match(text, end)
    return element.end() if element else None


def _read(match: re.Match[str], style: str, *, whole: bool) -> str:
    """The value at the beginning of what stands there; empty when it is a call or an index."""
    value = match.group()
    if style == "line":
        value = _COMMENT.split(value, maxsplit=1)[0].rstrip()
        if _BLANK.search(value) and not _scheme_only(value):
            value = _first_or_all(value, whole=whole)
        value = value.rstrip(",;\\")
    elif style == "open":
        value = _NEXT_FIELD.split(value, maxsplit=1)[0].rstrip(",\\")
        value = value if _OPENERS.search(value) else value.rstrip(")]}")
    elif match.string[match.end() : match.end() + 1] in ("(", "[", "{") or _is_code(value):
        return ""
    return _NEXT_PARAMETER.split(value, maxsplit=1)[0].rstrip(".:")


def _style(text: str, name: str, start: int, at: int, op: str) -> str:
    """How the assignment is written: `line` where the value reaches to the end of its line (.env,
    YAML, INI), `open` where only text can stand (options, queries, connection strings), `word`
    and `code` where an expression may."""
    if op == " ":
        return "open"
    line = text.rfind("\n", max(0, start - _FIELD_REACH), start) + 1
    whole = text[max(line, start - _FIELD_REACH) : start]
    glued = text[at - 1 : at] not in " \t"
    near = whole[-_ROW_REACH:]
    if op == "=" and glued and not _ENV_LINE.fullmatch(near):
        if text[start : start + 1] == "-" or near.endswith(("?", "&", "&amp;")):
            return "open"
        if _is_set_by_a_tool(near):
            return "open"
        if near.rstrip().endswith((";", '"', "'")) and _CONNECTION.search(whole):
            return "open"
    before = near.strip()
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
        if quote == "'" and found > at and text.startswith("''", found):
            position = found + 2  # YAML and SQL double a quote within quotes
            continue
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
    """Of several words without quotes: all in a `.env` file unless a sentence or a command goes on
    behind the first (`KEY=hunter2 and then restart`), else the first if it can be one."""
    if value[0].isspace():
        return value if whole and not _is_code(value) else ""
    first, rest = value.split(maxsplit=1)
    if first[0] == HIDDEN:
        return first
    numbered = any(c.isdigit() for c in first)
    if whole and not _is_code(value):
        return first if _goes_on(first, rest, numbered=numbered) else value
    return first if numbered else ""


def _goes_on(first: str, rest: str, *, numbered: bool) -> bool:
    """Whether what follows an unquoted value is no part of it."""
    if _BEYOND.search(rest):
        return True
    words = rest.split()
    if any(any(c.isdigit() for c in word) for word in words[:2]):
        return False
    said = sum(word.strip(".,:;!?()").lower() in _JOINING for word in words)
    if not numbered:
        return said > 1 or (said == 1 and words[-1][-1] in ".!?")
    return said > 0 or words[-1][-1] in ".!?)" or _dense(first)


def holds_secret(text: str) -> bool:
    """Whether a word of `text` looks generated or chosen as a secret; what is left beside a token
    is judged so."""
    return any(_dense(word) or _is_chosen(word) for word in text[:_VALUE_MAX].split())


_BLANK: Final = re.compile(r"[ \t]")
#: What no password of several words holds: an address, an option, the next assignment or command.
_BEYOND: Final = re.compile(
    rf"[{HIDDEN}]|://|(?<!\S)(?:--?[A-Za-z]|[A-Za-z_][\w.]{{1,60}}[=:]|&&|\|\|?(?!\S)|[\"'(`])|;(?:\s|\Z)"
)
#: Words that join a value and a sentence.
_JOINING: Final = frozenset(
    [
        "the",
        "is",
        "are",
        "a",
        "an",
        "was",
        "to",
        "of",
        "for",
        "and",
        "or",
        "but",
        "if",
        "in",
        "on",
        "at",
        "as",
        "it",
        "this",
        "that",
        "then",
        "than",
        "with",
        "from",
        "by",
        "not",
        "please",
        "so",
        "when",
        "because",
        "before",
        "after",
        "which",
        "you",
        "we",
        "i",
        "he",
        "they",
        "have",
        "has",
        "works",
        "worked",
        "does",
        "der",
        "die",
        "das",
        "ist",
        "und",
        "oder",
        "für",
        "mit",
        "auf",
        "bitte",
        "et",
        "le",
        "la",
        "les",
        "est",
        "pour",
        "avec",
        "dans",
        "el",
        "los",
        "y",
        "es",
        "para",
        "con",
        "en",
        "un",
        "una",
    ]
)


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


_WHOLE_CALL: Final = re.compile(r"\[[^\]]{2,80}\][+*]|[A-Za-z_][\w.]{0,60}\([^()]{0,60}\)")


def _is_expression(value: str) -> bool:
    """Inside quotes: interpolation and templates."""
    return (
        _PLACEHOLDER.match(value) is not None
        or _WHOLE_CALL.fullmatch(value) is not None
        or (
            "{" in value
            and "}" in value
            and re.search(r"\$?\{[\w.\[\]()!: ]{0,60}\}", value) is not None
        )
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


def _is_data_secret(name: str, value: str, *, password: bool) -> bool:
    if value.lower() in _CONSTANTS or value[0] in "([{$<%" or _CALLED.match(value):
        return False
    if _ENV_NAME.fullmatch(value) or (
        _DOTTED.fullmatch(value) and _is_secret_name(value)  # `--password user.password`
    ):
        return False
    if password:
        return not value.isdigit() or len(value) >= 6
    return _dense(value) or _is_long_random(value) or (name.isupper() and len(value) >= 8)


def _is_quoted_secret(name: str, value: str, *, password: bool) -> bool:
    if _is_expression(value) or _ENV_NAME.fullmatch(value):
        return False
    if _SNAKE.fullmatch(value) and _is_secret_name(value):
        return False  # `grant = "refresh_token"`: the name of one
    if " " in value:
        return (password or name.isupper() or _dense(value)) and not _is_prose(value)
    return (
        password or _dense(value) or _is_long_random(value) or (name.isupper() and len(value) >= 8)
    )


def _is_generated(value: str) -> bool:
    """Surely made by a generator: no name, no word, no version looks like it."""
    return len(value) >= _GENERATED and _dense(value) and _TOKEN_LIKE.fullmatch(value) is not None


def _is_chosen(value: str, *, surely: bool = False) -> bool:
    """A password as people choose them: letters with digits or signs; `surely` asks for more, as
    between the words of a sentence."""
    if not _CHOSEN_LEAST <= len(value) <= _SPOKEN_MAX or " " in value or "://" in value:
        return False
    if value[0] in "([{<$%/" or _CODE.match(value) or not any(c.isalpha() for c in value):
        return False
    digits = any(c.isdigit() for c in value)
    signs = any(c in "!$#@%*&?+^" for c in value)
    if surely:
        mixed = not value.islower() and not value.isupper()
        return len(value) >= 8 and digits and (mixed or signs)
    if digits and (signs or not _IDENTIFIER.fullmatch(value)):
        return True
    if digits:
        return len(value) >= 8 and not value.isupper()
    return _is_random(value)


_CHOSEN_LEAST: Final = 6
_SHORTEST: Final = 4
#: Characters that are enough to see a variable or a template.
_GLANCE: Final = 24
_SPOKEN_MAX: Final = 128
_TOKEN_LIKE: Final = re.compile(r"[\w+/=.~:\-]+", re.ASCII)
#: Schemes whose signature stands further on (`_queries` finds it).
_SIGNED_SCHEMES: Final = ("AWS4-", "Digest ", "digest ")
_PIECES: Final = re.compile(r"[A-Z]?[a-z]++|[A-Z]++(?![a-z])|[A-Z]")
_UNSPOKEN: Final = re.compile(r"[^aeiouyAEIOUY]{4}|\A[^aeiouyAEIOUY]+\Z")


def _is_random(value: str) -> bool:
    """Letters nobody can pronounce: names and words of source code are made of syllables."""
    if len(value) < 8 or not value.isascii():
        return False
    pieces = _PIECES.findall(value)
    letters = sum(map(len, pieces))
    spoken = sum(len(p) for p in pieces if len(p) >= 3 and _UNSPOKEN.search(p) is None)
    return letters >= 6 and spoken * 2 < letters and len(set(value)) >= 6


def _is_long_random(value: str) -> bool:
    return (
        len(value) >= _GENERATED
        and _TOKEN_LIKE.fullmatch(value) is not None
        and not value.isupper()
        and not value.islower()
        and _is_random(value)
    )


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


# -- cookies and signed addresses -----------------------------------------------------------------

_COOKIE: Final = re.compile(
    r"cookies?[\"'\]]{0,2}[ \t]{0,3}[:= ][ \t]{0,3}(?:[\"'{]|\\\"){0,3}", re.IGNORECASE
)
_COOKIE_PAIR: Final = re.compile(
    r"[ \t]{0,2}(?:\\?[\"'])?(?P<name>[\w.\-%]{1,80})(?:\\?[\"'])?[ \t]{0,2}[=:][ \t]{0,2}"
    r"(?:\\?[\"'])?(?P<value>[\w.%+/~:|=@!*-]{0,4096}+)(?:\\?[\"'])?[ \t]{0,2}(?:[;,]|(?!\w))",
    re.ASCII,
)
_COOKIE_FLAG: Final = re.compile(r"[ \t]{0,2}[A-Za-z-]{1,20}[ \t]{0,2};")
_SESSION: Final = re.compile(
    r"sess|sid\b|auth|token|csrf|xsrf|remember|login|logged|jwt|user|identity|account",
    re.IGNORECASE,
)
_NO_SESSION: Final = re.compile(
    r"_g(?:a|id|at|cl)(?:_|\Z)|_fbp|utm|expires|path|domain|max-age|samesite|theme|lang|locale|consent|_hj",
    re.IGNORECASE,
)
_COOKIES_MOST: Final = 40
_COOKIE_PLACES: Final = ("cookie", "-b '", '-b "')


def _cookies(source: Source) -> Iterator[Span]:
    """Values of sessions in `Cookie:` and `Set-Cookie:`, and where tools are given cookies."""
    text = source.text
    done = 0
    for at, place in sorted(occurrences(source.folded, _COOKIE_PLACES)):
        if at < done:
            continue
        if place == "cookie":
            lead = _COOKIE.match(text, at)
            if lead is None:
                continue
            end = lead.end()
        elif "curl" in text[max(0, at - 120) : at]:
            end = at + len(place)
        else:
            continue
        for found in _pairs(text, end):
            end = found.end()
            if found.re is _COOKIE_PAIR and _is_session(found["name"], found["value"]):
                yield Span(found.start("value"), found.end("value"), "SECRET", 0.85, "cookie")
        done = end


def _pairs(text: str, at: int) -> Iterator[re.Match[str]]:
    """The `name=value` pairs and flags (`HttpOnly;`) of one list of cookies."""
    for _ in range(_COOKIES_MOST):
        found = _COOKIE_PAIR.match(text, at) or _COOKIE_FLAG.match(text, at)
        if found is None:
            return
        yield found
        at = found.end()


def _is_session(name: str, value: str) -> bool:
    if len(value) < 12 or _NO_SESSION.match(name) or not any(c.isdigit() for c in value):
        return False
    value = value[:_JUDGED]
    if _SESSION.search(name):
        return _dense(value) or _is_random(value)
    return len(value) >= 20 and _dense(value) and not value.startswith("/")


_QUERY_NAMES: Final = (
    "sig=", "signature=", "hmac=", "?key=", "&key=", "?code=", "&code=", "response=",
)  # fmt: skip
_QUERY_VALUE: Final = re.compile(r"\"?(?P<value>[A-Za-z0-9%+/_~.\-]{16,1024}={0,2})")


def _queries(source: Source) -> Iterator[Span]:
    """What signs or opens an address or a request: `&sig=…`, `Signature=…`, `?key=…`."""
    text = source.text
    for at, name in occurrences(source.folded, _QUERY_NAMES):
        if name[0] not in "?&" and (at == 0 or text[at - 1] not in "?&- ,"):
            continue
        match = _QUERY_VALUE.match(text, at + len(name))
        if match is None:
            continue
        if name == "response=" and "igest" not in text[max(0, at - 300) : at]:
            continue
        if _is_generated(match["value"][:_JUDGED].replace("%", "")):
            yield Span(match.start("value"), match.end("value"), "SECRET", 0.8, "query")
