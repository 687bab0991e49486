"""Passwords that programs take by a short option or as `user:password`.

Invariant: pure and linear; work is bounded for every program's name. Called by `SecretRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.base import Source, occurrences
from gateway.redaction.detectors.values import CONSTANTS, SHORTEST, Judge
from gateway.redaction.spans import Span

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


def commands(source: Source, judge: Judge) -> Iterator[Span]:
    """Passwords that programs take by a short option or as `user:password`."""
    for at, program in occurrences(source.folded, _PROGRAMS):
        match = _PROGRAMS[program].match(source.text, at)
        if match is None:
            continue
        value = match["value"]
        if (
            len(value) >= SHORTEST
            and not judge.is_placeholder("", value)
            and value[0] not in "$([{<%-"
            and value.lower() not in CONSTANTS
        ):
            yield Span(match.start("value"), match.end("value"), "SECRET", 0.8, "command")
