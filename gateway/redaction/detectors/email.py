"""E-mail addresses: found at the `@`, so text without one costs a search for one character.

Presidio's own recognizer asks the network for the list of public suffixes; this one checks the
shape only. Left alone: SSH remotes (`git@github.com:owner/repo`), user and password in URLs
(those are `secrets`'), decorators and package scopes (`@app.route`, `name@1.2.3`), hosts without
a top level.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from phonenumbers import SUPPORTED_REGIONS

from gateway.redaction.detectors.base import Rule, Source, Triggers, occurrences, part_of
from gateway.redaction.spans import Span

#: RFC 5321 limits; they also bound the work per `@`.
_LOCAL_MAX: Final = 64
_DOMAIN_MAX: Final = 253

_LOCAL_SIGNS: Final = frozenset(".!#$%&'*+/=?^_`{|}~-")
_DOMAIN: Final = re.compile(
    r"(?!\d+\.\d)(?:[^\W_](?:[\w\-]{0,61}[^\W_])?\.){1,8}"
    r"(?:xn--[a-z0-9\-]{2,59}|[^\W\d_]{2,24})(?![^\W_]|\()",
    re.IGNORECASE,
)
_DOMAIN_LITERAL: Final = re.compile(r"\[(?:IPv6:)?[0-9A-Fa-f.:]{3,45}\]")
_QUOTED: Final = re.compile(r'"(?:[^"\\\r\n]|\\.){1,62}"\Z')
#: The same in a string of source code, or in a field of CSV.
_QUOTED_TWICE: Final = re.compile(r"(?P<quote>\\\"|\"\")[^\"\\\r\n]{1,62}(?P=quote)\Z")

#: The sign between what may end a mailbox's name and what may begin a host's.
_AT: Final = re.compile(r"@(?<=[\w!#$%&'*+/=?^`{|}~\"-]@)(?=[\w\-]{1,63}+\.|\[)")
#: The same as mail is sent; without its sign only a well-known top level tells it from a sum.
_QUOTED_AT: Final = re.compile(
    r"=40(?<=[A-Za-z0-9_+\-]=40)(?=(?:[A-Za-z0-9\-]{1,63}\.){1,4}"
    r"(?:com|org|net|edu|gov|eu|de|fr|es|it|nl|pl|gr|uk|io|info)(?![\w(]))"
)
_PERCENT_AT: Final = re.compile(r"%40(?<=[\w!#$%&'*+/=?^`{|}~\"-]%40)(?=[\w\-]{1,63}+\.|\[)")

#: File endings that are no top-level domain but look like one behind an `@` (`logo@2x.png`).
_FILE_ENDINGS: Final = frozenset(
    ["png", "jpg", "jpeg", "gif", "svg", "webp", "css", "js", "mjs", "cjs", "ts", "tsx", "jsx",
     "json", "html", "htm", "txt", "yml", "yaml", "toml", "lock", "tgz", "gz", "whl", "rb", "go",
     "java", "kt", "php", "vue", "scss", "less", "service", "socket", "timer"]
)  # fmt: skip
#: `user@host:/path` and `user@host:~/path` are places to copy to.
_PATH_AFTER: Final = re.compile(r":[/~]")
#: Accounts that are no person, behind which `host:path` is a repository or a machine.
_SERVICE_USERS: Final = frozenset(
    ["git", "hg", "svn", "gitea", "gitlab", "aur", "root", "ubuntu", "ec2-user", "deploy"]
)
#: An escape sequence of source code or JSON right before the address: `"\\nbob@…"`.
_ESCAPED: Final = re.compile(r"u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrtbfv0]")


#: `jane [at] host [dot] com`, `jane at host dot com`: written so that programs do not read it.
_SPELLED_SIGNS: Final = ("[at]", "(at)", "{at}", "[ at ]", "( at )", " dot ")
_SPELLED: Final = part_of(_SPELLED_SIGNS)
_SPELLED_LOCAL: Final = re.compile(r"[\w.+\-]{1,64}[ ]?\Z")
_SPELLED_HOST: Final = re.compile(
    r"[ ]?(?:[\w\-]{1,63}(?:[ ]?[\[({][ ]?dot[ ]?[\])}][ ]?|[ ]dot[ ]|\.)){1,4}"
    r"[a-z]{2,12}(?![\w(])",
    re.IGNORECASE,
)
_IN_WORDS: Final = re.compile(r"(?<!\S)[\w.+\-]{2,64}[ ]at[ ]\w[\w\-]{0,62}\Z", re.IGNORECASE)
_IN_WORDS_END: Final = re.compile(
    r"dot[ ](?:[\w\-]{1,63}[ ]dot[ ]){0,3}(?:com|org|net|edu|gov|info|io|eu|dev|app|biz|co|uk|de"
    r"|fr|es"
    r"|nl|pl|se|dk|fi|cz|ie|pt|gr|ch|ca|au|nz|br|jp)(?!\w)",
    re.IGNORECASE,
)


def _spelled(source: Source) -> Iterator[Span]:
    if not source.may_hold_words(_SPELLED):
        return
    text = source.text
    for at, sign in occurrences(source.folded, _SPELLED_SIGNS):
        if sign == " dot ":
            words = _IN_WORDS.search(text, max(0, at - 132), at)
            end = _IN_WORDS_END.match(text, at + 1)
            if words is not None and end is not None:
                yield Span(words.start(), end.end(), "EMAIL", 0.8, "spelled")
            continue
        local = _SPELLED_LOCAL.search(text, max(0, at - 66), at)
        host = _SPELLED_HOST.match(text, at + len(sign))
        if local is not None and host is not None:
            yield Span(local.start(), host.end(), "EMAIL", 0.8, "spelled")


class EmailRule(Rule):
    """Finds e-mail addresses."""

    KINDS: ClassVar = ("EMAIL",)

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(literals=("@", "%40", "=40", *_SPELLED_SIGNS))

    def spans(self, source: Source) -> Iterator[Span]:
        """Look left and right of every `@`, also where a URL wrote it `%40`."""
        yield from _spelled(source)
        text = source.text
        marks = [_AT] if "@" in text else []
        marks += [_PERCENT_AT] if "%40" in text else []
        marks += [_QUOTED_AT] if "=40" in text else []
        for mark in marks:
            for found in mark.finditer(text):
                span = self._around(text, found.start(), found.end())
                if span is not None:
                    yield span

    def _around(self, text: str, at: int, after: int) -> Span | None:
        domain = _DOMAIN.match(text, after, after + _DOMAIN_MAX) or _DOMAIN_LITERAL.match(
            text, after
        )
        end = _domain_end(domain) if domain else None
        if end is None:
            return None
        start = _local_start(text, at)
        if start == at:
            return None
        if _is_place(text, text[start:at], end):
            return None
        if _in_url(text, start) and not _BEFORE_HOST.match(text, end):
            return None
        address = text[start:end]
        if address.lower() in self.policy.allowed.emails:
            return None
        return Span(start, end, "EMAIL", 0.9, "email")


def _domain_end(domain: re.Match[str]) -> int | None:
    """Where the host ends; before a file's ending only a well-known top level is one, so that
    `jane@corp.eu.png` has an address in it and `logo@2x.min.css` has none."""
    host, _, ending = domain.group().rpartition(".")
    if ending.lower() not in _FILE_ENDINGS:
        return domain.end()
    host = host.removesuffix(".tar")
    name, _, top = host.rpartition(".")
    if not name or (top.lower() not in _TOP_LEVELS and top.upper() not in SUPPORTED_REGIONS):
        return None
    return domain.start() + len(host)


#: Beside the countries', which `phonenumbers` lists.
_TOP_LEVELS: Final = frozenset(
    ["com", "org", "net", "edu", "gov", "info", "biz", "name", "eu", "uk", "app", "cloud", "online",
     "example", "test", "agency", "shop", "store", "tech", "dev", "email", "xyz"]
)  # fmt: skip


def _local_start(text: str, at: int) -> int:
    """Where the local part left of `at` begins; `at` itself when there is none."""
    if at and text[at - 1] == '"':
        floor = max(0, at - _LOCAL_MAX - 4)
        quoted = _QUOTED_TWICE.search(text, floor, at) or _QUOTED.search(text, floor, at)
        return quoted.start() if quoted else at
    start = at
    floor = max(0, at - _LOCAL_MAX - 1)
    while start > floor and (text[start - 1].isalnum() or text[start - 1] in _LOCAL_SIGNS):
        start -= 1
    if start and text[start - 1] == "\\":
        escape = _ESCAPED.match(text, start, at)
        start = escape.end() if escape else start
    return _trimmed(text, start, at)


def _trimmed(text: str, start: int, at: int) -> int:
    """Drop what is not the address: quotes, `key=` before it, a path, dots at the ends."""
    local = text[start:at]
    if local.isalnum() and len(local) <= _LOCAL_MAX:
        return start
    for mark in "=`{}|/?&#*!$%^":
        local = local.rpartition(mark)[2]
    quote = local.rfind("'")
    if quote >= 0 and not local[max(0, quote - 1) : quote].isalnum():  # but o'brien@…
        local = local[quote + 1 :]
    local = local.lstrip(".-~+'")
    if not local or local[-1] == "." or len(local) > _LOCAL_MAX:
        return at
    return at - len(local)


def _is_place(text: str, user: str, end: int) -> bool:
    """`git@github.com:owner/repo.git`, `anna@host.example:/var/www`: a place, not a mailbox."""
    if _PATH_AFTER.match(text, end) and text[end + 1 : end + 3] != "//":
        return True
    return user in _SERVICE_USERS and text[end : end + 1] == ":"


def _in_url(text: str, start: int) -> bool:
    """`scheme://user:password@host`: what is before the `@` is not a mailbox."""
    scheme = text.rfind("://", max(0, start - 300), start)
    return scheme >= 0 and _OUTSIDE_USERINFO.search(text[scheme + 3 : start]) is None


#: An address that is the user of a URL has the host's own sign behind it.
_BEFORE_HOST: Final = re.compile(r"[^\s/?#\"'<>@]{0,256}@")
#: Passwords may hold `?` and `#`, also as `%3F` and `%23`; a host and its port end before them.
_OUTSIDE_USERINFO: Final = re.compile(r"[\s/\"'<>]|\A[^:?#]*(?::\d{1,5})?[?#]")
