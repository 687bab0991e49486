"""Secrets in addresses: passwords before the host, what signs or opens a request.

Invariant: pure and linear; work is bounded for every sign that begins one. Called by `SecretRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.base import HIDDEN, Source, occurrences, part_of
from gateway.redaction.detectors.values import CONSTANTS, JUDGED, Judge, is_expression, is_generated
from gateway.redaction.spans import Span

#: How far behind `://` a user and a password may reach.
_USERINFO_REACH: Final = 400
_DSN_REACH: Final = 160
_DSN_USER: Final = re.compile(r"[^:/@]{0,30}[\w.\-]{1,64}")
_USERINFO: Final = re.compile(
    rf"(?P<user>[^\s:/@\"'<>`\\{HIDDEN}]{{0,128}}):(?P<password>[^\s\"'<>`{HIDDEN}]{{1,256}})"
    r"@(?=[\w\[$%{.\-])"
)
#: `https://token@host`: a user without a password that only a generator can have made.
_USER_ONLY: Final = re.compile(r"(?P<value>[\w\-]{16,256})@(?=[\w\[$%{.\-])", re.ASCII)
_QUERY_NAMES: Final = (
    "sig=", "signature=", "hmac=", "?key=", "&key=", "?code=", "&code=", "response=",
)  # fmt: skip
_QUERIES: Final = part_of(_QUERY_NAMES)
_DSN_SIGNS: Final = ("@tcp(", "@unix(")
#: What every text holds in which anything is found here.
TRIGGERS: Final = (*_QUERY_NAMES, *_DSN_SIGNS, "://")
_QUERY_VALUE: Final = re.compile(r"\"?(?P<value>[A-Za-z0-9%+/_~.\-]{16,1024}={0,2})")


def passwords(text: str, judge: Judge) -> Iterator[Span]:
    """Yield `password` of `scheme://user:password@host`, and of Go's data source names."""
    sign = text.find("@")
    if sign < 0:
        return
    for at, _ in occurrences(text, _DSN_SIGNS):  # Go's `user:password@tcp(host)`
        floor = max(0, at - _DSN_REACH)
        words = text[floor:at].split()
        user, colon, value = (words[-1] if words else "").rpartition("://")[2].partition(":")
        value = value if _DSN_USER.fullmatch(user) else ""
        if colon and len(value) > 1 and not judge.is_placeholder("", value):
            yield Span(at - len(value), at, "SECRET", 0.85, "url")
    at = text.find("://")
    while at >= 0 <= sign:
        if sign < at:
            sign = text.find("@", at)
        if sign - at > _USERINFO_REACH:
            at = text.find("://", max(at + 3, sign - _USERINFO_REACH))
            continue
        match = _USERINFO.match(text, at + 3)
        alone = _USER_ONLY.match(text, at + 3) if match is None else None
        if alone is not None and is_generated(alone["value"]):
            yield Span(alone.start("value"), alone.end("value"), "SECRET", 0.85, "url")
        if match is not None and not judge.is_placeholder("", match["password"]):
            value = match["password"]
            if not is_expression(value) and len(value) > 1 and value.lower() not in CONSTANTS:
                yield Span(match.start("password"), match.end("password"), "SECRET", 0.9, "url")
                at = match.end() - 3  # what else it holds is part of it
        at = text.find("://", at + 3)


def queries(source: Source) -> Iterator[Span]:
    """What signs or opens an address or a request: `&sig=…`, `Signature=…`, `?key=…`."""
    if not source.may_hold_words(_QUERIES):
        return
    text = source.text
    for at, name in occurrences(source.folded, _QUERY_NAMES):
        if name[0] not in "?&" and (at == 0 or text[at - 1] not in "?&- ,"):
            continue
        match = _QUERY_VALUE.match(text, at + len(name))
        if match is None:
            continue
        if name == "response=" and "igest" not in text[max(0, at - 300) : at]:
            continue
        if is_generated(match["value"][:JUDGED].replace("%", "")):
            yield Span(match.start("value"), match.end("value"), "SECRET", 0.8, "query")
