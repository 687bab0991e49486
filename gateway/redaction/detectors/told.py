"""What people tell each other in an order that `spoken` does not read: the value before its word
(`use admin:… to log in`, "enter `…` when it asks for the password"), a password behind a word of a
language without blanks, and codes: one-time, verification, and lists of backup codes.

Only what looks chosen counts before a word, and only digits or groups of letters and digits as a
code. Invariant: pure and linear; around every word a bounded stretch is read. Called by
`SecretRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.base import Source, leftmost_longest, set_of
from gateway.redaction.detectors.repeats import repeats_of
from gateway.redaction.detectors.values import (
    OPEN_VALUE,
    SPOKEN_MAX,
    Judge,
    dense,
    is_chosen,
    is_technical,
    spoken_word,
)
from gateway.redaction.spans import Span

_LOGINS: Final = ("to log in", "to login", "to sign in", "to log on", "for login", "for the login",
                  "for logging in", "to authenticate")  # fmt: skip
_AS: Final = ("log in as", "login as", "logging in as", "logged in as", "sign in as",
              "signing in as", "connect as", "authenticate as")  # fmt: skip
_PASSWORDS: Final = ("password", "passphrase", "passcode")
_SHORT: Final = ("pw", "mdp")
#: Words for a password in languages whose words are not parted by blanks, or end in particles.
_UNPARTED: Final = (
    "密码",
    "密碼",
    "口令",
    "パスワード",
    "暗証番号",
    "비밀번호",
    "암호",
    "şifre",
    "parola",
)
_CODES: Final = (
    "verification code", "one-time code", "one time code", "onetime code", "one-time password",
    "one-time passcode", "security code", "2fa code", "mfa code", "otp code", "login code",
    "sms code", "otp", "passcode", "access code", "bestätigungscode", "einmalcode",
    "code de vérification", "código de verificación",
)  # fmt: skip
_LISTS: Final = ("backup codes", "recovery codes", "rescue codes", "scratch codes", "2fa codes",
                 "backup-codes", "recovery-codes", "backup_codes", "recovery_codes",
                 "backupcodes", "recoverycodes")  # fmt: skip
_GROUPS: Final = (_LOGINS, _AS, _LISTS, _CODES, _UNPARTED, _SHORT, _PASSWORDS)
_ALL: Final = tuple(dict.fromkeys(word for group in _GROUPS for word in group))
_GROUP_OF: Final = tuple(next(group for group in _GROUPS if word in group) for word in _ALL)
#: What every text holds in which anything is found here.
TRIGGERS: Final = _ALL
_WORDS: Final = set_of(_ALL)

_REACH: Final = 120
#: `admin:value ` before `to log in`; a slash may also stand in a path, so the user must be known.
_PAIR_BEFORE: Final = re.compile(
    r"[`\"'(]?(?:[A-Za-z][\w.@+-]{1,40}:|"
    r"(?:root|admin|administrator|guest|postgres|test|demo)[ ]?/[ ]?)"
    r"(?P<value>[^\s\"'`]{6,64}?)[`\"')]?"
)
#: `enter "value" when it asks for the ` before `password`
_ENTERED: Final = re.compile(
    r"\b(?:enter|type|typed|use|used|try|tried|give|gave|put in)[ ](?P<quote>[\"'`])"
    r"(?P<value>[^\s\"'`]{6,64})(?P=quote)[ ](?:when|if|once|as|at|for|where|in)\b"
    r"[^\n.\"'`]{0,48}\Z",
    re.IGNORECASE,
)
_BEFORE_WORD: Final = ("the ", "for ", "as ", " a ", "your ", "my ", "its ")
#: `log in as root with value`
_WITH: Final = re.compile(
    r"[ ][`\"']?[\w.@+-]{2,64}[`\"']?[ ](?:with|using)[ ](?:the[ ])?(?P<quote>[\"'`]?)"
    r"(?P<value>[^\s\"'`]{6,64})"
)
#: `the password back to value`, `asks for a password, it's value`
_LATER: Final = re.compile(
    r"(?:[ ](?:back|again|over)[ ]to|,[ ](?:it['’]s|it[ ]is|which[ ]is|namely|use|try|enter))[ ]"
    r"(?P<quote>[\"'`]?)(?P<value>[^\s\"'`]{6,64})"
)
_ADDRESS: Final = re.compile(r"://|\A\d+\Z|\A\d+/")
_SHORT_GLUE: Final = re.compile(r"[ ](?P<quote>[\"'`]?)")
#: Particles and verbs behind such a word, or a sign.
_UNPARTED_GLUE: Final = re.compile(
    r"(?:[si]?[ ]?)(?:은|는|이|가|は|が|を|是|为|為|就是|设为|[：:=]|[ ]){1,4}[ ]{0,3}"
    r"(?P<quote>[\"'`「『“«]?)(?P<value>[!-&(-~]{6,64})"
)
_CODE: Final = re.compile(
    r"(?:[ ](?:is|was|lautet|ist|est|es)|[ ]?[:=])?[ ]{1,3}[`\"'*]{0,2}"
    r"(?P<value>\d{3}[ -]\d{3}|\d{4,8})(?![\w.,:/-]{0,8}\w)"
)
_CODE_BEFORE: Final = re.compile(
    r"(?<![\w.,:/#-])(?P<value>\d{3}[ -]\d{3}|\d{5,8})[`\"'*]{0,2}[ ](?:is|as)[ ]"
    r"(?:your|the|my|a|our)[ ](?:[\w-]{1,20}[ ]){0,2}\Z"
)
_ITEM: Final = (
    r"(?:[A-Za-z0-9]{3,10}(?:[-–][A-Za-z0-9]{3,10}){1,4}|\d{4}[ ]\d{4}|[A-Za-z0-9]{6,16})"
)
_LIST_GLUE: Final = re.compile(
    r"[\"'`*]{0,3}(?:[ ]\([^()\n]{1,40}\)|[ ](?:are|sind|for [\w.@ -]{1,30}))?[ ]{0,2}"
    r"(?:[:=]|\n)[*]{0,2}(?=[\s\[\"'`(A-Za-z0-9-])"
)
_NEXT_ITEM: Final = re.compile(
    rf"[\s,;|\[(\"'`*•-]{{0,24}}(?:\d{{1,2}}[.)][ ]{{1,3}})?[\"'`]?"
    rf"(?P<value>{_ITEM})(?![\w@:/.-]{{0,40}}[\w@/])"
)
_ITEMS_MOST: Final = 32
#: More than is ever read before and behind a word.
_BACK: Final = 2 * _REACH
_AHEAD: Final = 4096


def told(source: Source, judge: Judge) -> Iterator[Span]:
    """Look around every word for what it says of a value."""
    text, done = source.text, 0
    words = leftmost_longest(source.found(_WORDS))
    repeats = repeats_of(text, len(words), back=_BACK, ahead=_AHEAD)
    for index, at, end in words:
        if repeats is not None:
            if at < done:
                continue
            done, again = repeats.skip(at)
            yield from again
            if at < done:
                continue
        spans = _around(text, _GROUP_OF[index], at, end, judge)
        if spans:
            if repeats is not None:
                repeats.found += spans
            yield from spans


def _around(text: str, group: tuple[str, ...], at: int, end: int, judge: Judge) -> tuple[Span, ...]:
    """What is told around the word of a group at `at` to `end`."""
    found: tuple[int, int] | None
    if group is _UNPARTED:
        found = _behind(text, end, _UNPARTED_GLUE)
    elif _joined(text, at, end):
        return ()
    elif group is _LOGINS:
        found = _pair(text, at)
    elif group is _PASSWORDS:
        found = _entered(text, at) or _surely(text, end, _LATER)
    elif group is _AS:
        found = _surely(text, end, _WITH)
    elif group is _SHORT:
        found = _short(text, end)
    elif group is _LISTS:
        return tuple(_items(text, end))
    else:
        found = _code(text, at, end)
    if found is None or judge.is_placeholder("", text[found[0] : found[1]]):
        return ()
    return (Span(*found, "SECRET", 0.7, "told"),)


def _joined(text: str, at: int, end: int) -> bool:
    before, after = text[at - 1 : at], text[end : end + 1]
    return before.isalnum() or before in ("_", "$", "-", ".") or after.isalnum() or after == "_"


def _pair(text: str, at: int) -> tuple[int, int] | None:
    words = text[max(0, at - _REACH) : at].split()[-3:]
    for written in (words[-1:], words):
        match = _PAIR_BEFORE.fullmatch(" ".join(written))
        if match is not None and is_chosen(match["value"], surely=True):
            start = text.rfind(match["value"], 0, at)
            return None if _ADDRESS.search(match["value"]) else (start, start + len(match["value"]))
    return None


def _entered(text: str, at: int) -> tuple[int, int] | None:
    if not text.endswith(_BEFORE_WORD, 0, at):  # the search is dear
        return None
    match = _ENTERED.search(text, max(0, at - _REACH), at)
    if match is None or _ADDRESS.search(match["value"]) or not is_chosen(match["value"]):
        return None
    return match.span("value")


def _behind(text: str, at: int, glue: re.Pattern[str]) -> tuple[int, int] | None:
    match = glue.match(text, at)
    if match is None:
        return None
    value = spoken_word(match["value"].rstrip("\"'`"))
    if not (is_chosen(value) or dense(value)):
        return None
    return match.start("value"), match.start("value") + len(value)


def _surely(text: str, at: int, glue: re.Pattern[str]) -> tuple[int, int] | None:
    match = glue.match(text, at)
    if match is None or "://" in match["value"]:
        return None
    value = spoken_word(match["value"])
    if not is_chosen(value, surely=True) or is_technical(value):
        return None
    return match.start("value"), match.start("value") + len(value)


def _short(text: str, at: int) -> tuple[int, int] | None:
    """`ssh root@host, pw …`"""
    glue = _SHORT_GLUE.match(text, at)
    word = OPEN_VALUE.match(text, glue.end(), glue.end() + SPOKEN_MAX) if glue else None
    if word is None:
        return None
    value = spoken_word(word.group())
    if not is_chosen(value, surely=True) or is_technical(value):
        return None
    return word.start(), word.start() + len(value)


def _code(text: str, at: int, end: int) -> tuple[int, int] | None:
    match = _CODE.match(text, end) or _CODE_BEFORE.search(text, max(0, at - 60), at)
    return match.span("value") if match is not None else None


def _items(text: str, at: int) -> Iterator[Span]:
    glue = _LIST_GLUE.match(text, at)
    if glue is None:
        return
    at = glue.end()
    for _ in range(_ITEMS_MOST):
        item = _NEXT_ITEM.match(text, at)
        if item is None or not any(c.isdigit() for c in item["value"]):
            return
        if not (any(c.isalpha() for c in item["value"]) or len(item["value"]) >= 6):
            return
        yield Span(*item.span("value"), "SECRET", 0.7, "code")
        at = item.end()
