"""What a telling name hands down to the list or the map that stands behind it: `tokens: ["…"]`,
`secrets: {"a": "…"}`, the same as lines of YAML, and members of requests (`tokens[].a`).

The values are judged as behind the name itself, without what only a name of their own could say:
numbers, words, schemas, dates and references stay. Invariant: pure and linear; a list is read once,
a bounded way. Called by `SecretRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ahocorasick_rs import AhoCorasick

from gateway.redaction.detectors.base import HIDDEN, Source, part_of
from gateway.redaction.detectors.names import PASSWORD
from gateway.redaction.detectors.values import Judge, dense, is_chosen, is_long_random, is_random
from gateway.redaction.spans import Span

#: Between the name that was handed down and a member's own, in the key of a value.
HANDED: Final = "[]."

_TELLING: Final = (
    r"(?:secret|token|passw(?:or)?d|passwort|passphrase|passcode|pwd|credential|"
    r"(?:api|access|auth|private|signing|encryption|secret|ssh|service|webhook|license)[_\-]?key)s?"
)
_TELLING_NAME: Final = re.compile(rf"(?:.*[_.\-\W]|.*?){_TELLING}\Z", re.IGNORECASE)
#: What every text holds in which anything is found here.
TRIGGERS: Final = ("secret", "token", "passw", "passphrase", "passcode", "pwd", "credential", "key")
#: Behind the name: the beginning of a list, of a map, or of the lines below.
_OPENING: Final = re.compile(
    rf"{_TELLING}\\{{0,3}}[\"'`]?\]?[ \t]{{0,4}}"
    r"(?::[ \t]{0,2}(?:[\w.]{1,30}(?:\[[\w., ]{1,40}\])?|\[\]\w{1,20})[ \t]{0,2}=|:=|=>|[:=])"
    r"[ \t]{0,4}(?:(?:tuple|list|(?:frozen)?set|dict|array|vec!|(?:Set|List|Map)\.of|"
    r"Arrays\.asList|(?:list|set|map|array)Of|\[\](?:string|byte))\(?(?=[\[{(])|"
    r"(?:list|set|map|array)Of(?=\()|new [\w<>\[\], ]{1,40})?"
    r"(?:(?P<open>[\[{(])|(?P<lines>\r?\n(?=[ \t]{1,40}\S|- )))",
    re.IGNORECASE,
)
#: More than an opening is long.
_OPENING_REACH: Final = 256
_SIGNS: Final = re.compile(
    r"[\[\]{}()]|\"(?:[^\"\\\n]|\\.){0,600}\"|'(?:[^'\\\n]|\\.){0,600}'|`[^`\n]{0,600}`"
)
#: A list of YAML without quotes, as recordings of requests hold headers.
_BARE: Final = re.compile(r"[ ]?[\w+/=.~:\-]{12,512}(?:, ?[\w+/=.~:\-]{12,512}){0,15}[ ]?\]")
_BARE_ITEM: Final = re.compile(r"[^ ,\]]+")
_OWN: Final = re.compile(r"[\"'`]?(?P<own>[\w.\-$]{1,64})[\"'`]?[ \t]{0,3}(?:=>|[:=])[ \t]{0,3}\Z")
_IS_NAME: Final = re.compile(r"\\?[ \t]{0,3}(?:=>|[:=](?!=))")
_REACH: Final = 6000
_LINE: Final = re.compile(
    r"(?P<indent>[ \t]{0,60})(?:-[ ]{1,3})?"
    r"(?:[\"']?(?P<own>[\w.\-]{1,64})[\"']?:(?:[ ]{1,4}|(?=\r?\n)))?"
    rf"(?P<quote>[\"']?)(?P<value>[^\s\"'{HIDDEN}]{{0,512}})(?P=quote),?"
    r"[ \t]*(?:#[^\r\n]*)?(?:\r?\n|\Z)"
)
_LINES_MOST: Final = 80

#: Members that say something else about a secret.
_NOT_HANDED: Final = re.compile(
    r"(?:\A|[_\-.$]|(?<=[a-z0-9])(?=[A-Z]))(?:id|ids|email|url|uri|urls|host|name|type|region|user|username|"
    r"description|desc|ref|version|at|on|date|time|expires|expiry|expiration|created|updated|format|"
    r"algorithm|alg|pattern|path|file|scope|scopes|issuer|audience|kind|title|label|comment|domain|"
    r"endpoint|hash|sha|digest|fingerprint|checksum|class|style|color|status|state|role|arn)\Z",
    re.IGNORECASE,
)
_DATE: Final = re.compile(
    r"\d{4}-\d\d-\d\d|\d\d:\d\d|v?\d+(?:\.\d+)+|#[0-9a-fA-F]{3,8}\Z|\d+\D{0,3}\Z"
)
_WORD: Final = re.compile(r"[\w+/=.~:\-!#$%&*?@^]{8,512}", re.ASCII)
_FILE: Final = re.compile(r"\.[a-z][a-z0-9]{1,6}\Z|\A@|\A\.{0,2}/")
_LEAST: Final = 12
#: `PackedVector2Array`, `base64encode`: names of source code hold no more digits.
_DIGITS_OF_NAMES: Final = 2


def is_telling(name: str) -> bool:
    """Whether `name` hands down what it says: `tokens`, `apiKeys`, `db_password`."""
    return _TELLING_NAME.match(name[-64:]) is not None


def is_handed_secret(judge: Judge, head: str, own: str, value: str) -> bool:
    """Whether `value`, a member called `own` (or an item, without a name) of what stands behind
    `head`, is a secret."""
    if own and _NOT_HANDED.search(own):
        return False
    if not _WORD.fullmatch(value) or _DATE.match(value) or _FILE.search(value):
        return False
    singular = head[:-1] if head[-1:] in ("s", "S") and head[-2:-1] not in ("s", "S") else head
    made = len(value) >= _LEAST and (dense(value) or is_long_random(value))
    made = made and (sum(c.isdigit() for c in value) > _DIGITS_OF_NAMES or is_random(value))
    if not made and not (not own and PASSWORD.search(singular) and is_chosen(value)):
        return False
    return judge.is_secret(singular, value, quoted=True)


def handed(source: Source, judge: Judge) -> Iterator[Span]:
    """Yield the secrets of every list and map behind a telling name."""
    if not source.may_hold_words(_PART):
        return
    text, folded, done = source.text, source.folded, 0
    seen: set[str] = set()
    for at in _places(folded):
        if at < done:
            continue
        window = text[at : at + _OPENING_REACH]  # lines repeat
        if window in seen:
            continue
        opening = _OPENING.match(text, at)
        if opening is None:
            seen.add(window)
            continue
        head = re.match(_TELLING, text[at : opening.end()], re.IGNORECASE)
        name = head.group() if head is not None else ""
        if opening["open"]:
            done, found = _in_brackets(text, opening.end(), name, judge)
        else:
            done, found = _in_lines(text, at, opening.end(), name, judge)
        yield from found


_PART: Final = part_of(TRIGGERS)
_SEARCH: Final = AhoCorasick(TRIGGERS)
_KEY: Final = TRIGGERS.index("key")
_OF_KEYS: Final = (
    "api", "access", "auth", "private", "signing", "encryption", "secret", "ssh", "service",
    "webhook", "license",
)  # fmt: skip
_BEHIND: Final = re.compile(r"\w{0,7}\\{0,3}[\"'`]?\]?[ \t]{0,4}[:=]")


def _places(folded: str) -> Iterator[int]:
    """Where a telling name begins that something is assigned to, in order."""
    for index, at, end in _SEARCH.find_matches_as_indexes(folded):
        if _BEHIND.match(folded, end) is None:
            continue
        if index != _KEY:
            yield at
            continue
        before = folded[max(0, at - 12) : at]
        before = before[:-1] if before[-1:] in ("_", "-") else before
        word = next((word for word in _OF_KEYS if before.endswith(word)), None)
        if word is not None:
            yield at - len(word) - (folded[at - 1] in "_-")


def _in_brackets(text: str, at: int, name: str, judge: Judge) -> tuple[int, list[Span]]:
    found: list[Span] = []
    bare = _BARE.match(text, at) if text[at - 1] == "[" else None
    if bare is not None:
        items = _BARE_ITEM.finditer(text, at, bare.end())
        made = [item for item in items if is_handed_secret(judge, name, "", item.group())]
        return bare.end(), [Span(*item.span(), "SECRET", 0.8, "handed") for item in made]
    depth, done = 1, at
    for sign in _SIGNS.finditer(text, at, min(len(text), at + _REACH)):
        written = sign.group()
        done = sign.end()
        if len(written) == 1:
            depth += 1 if written in "[{(" else -1
            if depth == 0:
                break
            continue
        if _IS_NAME.match(text, sign.end()):
            continue
        own = _OWN.search(text, max(at, sign.start() - 76), sign.start())
        start, end = sign.start() + 1, sign.end() - 1
        if is_handed_secret(judge, name, own["own"] if own else "", text[start:end]):
            found.append(Span(start, end, "SECRET", 0.8, "handed"))
    return done, found


def _in_lines(text: str, start: int, at: int, name: str, judge: Judge) -> tuple[int, list[Span]]:
    found: list[Span] = []
    line = text[text.rfind("\n", max(0, start - 100), start) + 1 : start]
    outer = len(line) - len(line.lstrip(" \t"))
    for _ in range(_LINES_MOST):
        member = _LINE.match(text, at)
        if member is None:
            break
        dash = text[member.end("indent") : member.end("indent") + 1] == "-"
        if len(member["indent"]) + dash <= outer:
            break
        at = member.end()
        if not member.group():
            break
        value = member["value"]
        if value and is_handed_secret(judge, name, member["own"] or "", value):
            found.append(Span(*member.span("value"), "SECRET", 0.8, "handed"))
    return at, found
