"""Secrets in headers: `Authorization: Bearer` and `Basic`, cookies of sessions.

Invariant: pure and linear; work is bounded for every header. Called by `SecretRule`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.base import Source, occurrences, part_of
from gateway.redaction.detectors.values import JUDGED, dense, is_random
from gateway.redaction.spans import Span

_CREDENTIAL: Final = re.compile(r",?[ \t]{1,4}(?P<value>[A-Za-z0-9._~+/\-]{8,4096}={0,2})")
#: `Authorization: token …`: any scheme, and none.
_AUTHORIZATION: Final = re.compile(
    r"[\"'\]]{0,2}[ \t]{0,3}[:=,][ \t]{0,3}[\"'`]{0,2}(?:(?!AWS4)[A-Za-z][\w-]{1,20}[ \t]{1,3})?"
    r"(?!AWS4-HMAC)(?P<value>[\w.~+/:|\-]{8,4096}={0,2})(?![\w(\[.])",
    re.ASCII,
)
_REGISTRY: Final = re.compile(r"[ \t]{0,3}:[ \t]{0,3}\"(?P<value>[A-Za-z0-9+/]{8,2000}={0,2})\"")
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
#: More than one of them is long.
_PAIR_MOST: Final = 4400
_COOKIE_PLACES: Final = ("cookie", "-b '", '-b "')
_SCHEMES: Final = ("bearer", "basic")
#: What every text holds in which anything is found here.
TRIGGERS: Final = (*_SCHEMES, "authorization", '"auth"', *_COOKIE_PLACES)
_PART: Final = part_of((*_SCHEMES, "authorization", '"auth"'))
_COOKIES: Final = part_of(_COOKIE_PLACES)


def headers(source: Source) -> Iterator[Span]:
    if not source.may_hold_words(_PART):
        return
    for at, scheme in occurrences(source.folded, _SCHEMES):
        match = _CREDENTIAL.match(source.text, at + len(scheme))
        if match is None or source.text[max(0, at - 1) : at].isalnum():
            continue
        value = match["value"]
        good = _is_basic(value) if scheme == "basic" else dense(value)
        if good:
            yield Span(match.start("value"), match.end("value"), "SECRET", 0.9, scheme)

    for at, _ in occurrences(source.folded, ("authorization",)):
        match = _AUTHORIZATION.match(source.text, at + len("authorization"))
        if match is not None and dense(match["value"][:JUDGED]):
            yield Span(match.start("value"), match.end("value"), "SECRET", 0.85, "authorization")
    for at, _ in occurrences(source.text, ('"auth"',)):  # of a container registry
        match = _REGISTRY.match(source.text, at + len('"auth"'))
        if match is not None and _is_basic(match["value"]):
            yield Span(match.start("value"), match.end("value"), "SECRET", 0.9, "basic")


def _is_basic(value: str) -> bool:
    """`user:password` in base64."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in decoded and all(byte >= 32 for byte in decoded)


def cookies(source: Source) -> Iterator[Span]:
    """Values of sessions in `Cookie:` and `Set-Cookie:`, and where tools are given cookies."""
    if not source.may_hold_words(_COOKIES):
        return
    text = source.text
    done, unpaired = 0, None
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
        window = text[end : end + _PAIR_MOST]
        if window == unpaired:  # lines repeat, and these are long
            done = end
            continue
        first = end
        for found in _pairs(text, end):
            end = found.end()
            if found.re is _COOKIE_PAIR and _is_session(found["name"], found["value"]):
                yield Span(found.start("value"), found.end("value"), "SECRET", 0.85, "cookie")
        if end == first:
            unpaired = window
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
    value = value[:JUDGED]
    if _SESSION.search(name):
        return dense(value) or is_random(value)
    return len(value) >= 20 and dense(value) and not value.startswith("/")
