"""A user and a password told together: `log in with anna / …`, `creds: anna:…`, `user deploy, pass
…`, `in with demo@… and …`.

The user is a word, so the password must look chosen, the more surely the less the two are set
apart. Invariant: pure and linear; behind every word a bounded stretch is read. Called by
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
    is_chosen,
    is_leet,
    is_technical,
    spoken_word,
)
from gateway.redaction.spans import Span

_PAIRS: Final = (
    "login", "log in", "logged in", "logins", "sign in", "signin", "signed in", "cred", "creds",
    "credential", "log on", "logon",
    "credentials", "zugangsdaten", "anmeldedaten", "identifiants", "credenciales", "credenziali",
    "credenciais", "inloggegevens", "account", "user/pass", "username/password", "einloggen",
    "inloggen", "connexion", "acceso", "accesso", "acesso", "dane logowania", "inloggning",
    "user / pass", "username / password", "user / password", "login / password",
    "user/password", "login/password", "login/pass",
)  # fmt: skip
#: `pass` as the noun that it is beside a user, and not as a verb or a statement.
_PASS: Final = (
    ", pass ", "; pass ", " and pass ", "/ pass ", "the pass ", "root pass ", "admin pass ",
    "my pass ", "wifi pass ", "sudo pass ", "db pass ", "user pass ", "old pass ", "new pass ",
    "current pass ", "their pass ", "your pass ",
)  # fmt: skip
#: Users that every machine has, and what joins them to their passwords.
_KNOWN: Final = tuple(
    user + joint
    for user in ("admin", "root", "administrator", "postgres", "guest", "demo")
    for joint in (" / ", "` / `", " und ", " and ", " et ", " y ", "` and `")
)
#: What every text holds in which anything is found here.
TRIGGERS: Final = (*_PAIRS, *_PASS, *_KNOWN)
_WORDS: Final = set_of(TRIGGERS)

_PAIR: Final = re.compile(
    r"[^\n]{0,24}?[ :=(\"'`](?P<user>[A-Za-z][\w.@+-]{1,64})[\"'`]?"
    r"(?P<sign> ?[/:|] ?|[ ](?:and|und|et|y|con|mit|with|e|en|och|og|i)[ ])"
    r"[\"'`]?(?P<value>[^\s\"'`]{6,64})"
)
#: A password in small letters only, with a number, is at least so long.
_PAIR_LEAST: Final = 10
#: Behind users that every machine has, it may be shorter.
_USERS: Final = frozenset(["admin", "root", "administrator", "sa", "postgres"])
_KNOWN_LEAST: Final = 7
#: Behind `pass`: nothing, or a verb.
_GLUE: Final = re.compile(
    r"(?:(?:(?:is|was|got|has been) (?:changed|set|reset|rotated|updated) to|"
    r"is now|is still|used to be|is|was|to|for [\w.@-]{1,30} is|=|:)[ ])?(?P<quote>[\"'`]?)"
)
_PATH: Final = re.compile(r"[/\\].|\A[\d.:/-]+\Z")
_SIGN: Final = re.compile(r"[!#$%&*?@^+~]")
#: More than is ever read before and behind a word.
_BACK: Final = 64
_AHEAD: Final = 512


def logins(source: Source, judge: Judge) -> Iterator[Span]:
    """Yield the passwords that stand beside their users."""
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
        if index < len(_PAIRS):
            if _joined(text, at, end):
                continue
            found = _pair(text, end)
        elif index < len(_PAIRS) + len(_PASS):
            found = _behind_pass(text, end)
        else:
            found = _behind_user(text, at, end)
        if found is not None and not judge.is_placeholder("", text[found[0] : found[1]]):
            span = Span(*found, "SECRET", 0.7, "pair")
            if repeats is not None:
                repeats.found.append(span)
            yield span


def _joined(text: str, at: int, end: int) -> bool:
    """Part of a longer word or name: another rule's business."""
    before, after = text[at - 1 : at], text[end : end + 1]
    return (
        before.isalnum() or before in ("_", "$", "@", "/", "-") or after.isalnum() or after == "_"
    )


def _pair(text: str, at: int) -> tuple[int, int] | None:
    match = _PAIR.match(text, at)
    if match is None:
        return None
    written = spoken_word(match["value"])
    known = match["user"].lower() in _USERS
    place = match.start("value"), match.start("value") + len(written)
    if match["sign"][-2:-1].isalpha():  # a word may join any two
        mail = "@" in match["user"] and "." in match["user"]
        return place if (known or mail) and is_chosen(written, surely=True) else None
    apart = match["sign"] == " / " or (match["sign"] == ":" and match["user"].isalnum())
    least = _KNOWN_LEAST if known else _PAIR_LEAST
    worded = (apart or known) and (
        is_leet(written) or (len(written) >= least and _is_worded(written, known=known))
    )
    return place if worded or is_chosen(written, surely=True) else None


def _is_worded(written: str, *, known: bool) -> bool:
    if is_chosen(written):
        return True
    return known and len(written) < _KNOWN_LEAST + 1 and _is_word_and_number(written)


def _is_word_and_number(written: str) -> bool:
    """`calvin2`"""
    return (
        written.isalnum()
        and written[0].isalpha()
        and written[-1].isdigit()
        and not is_technical(written)
    )


def _behind_user(text: str, at: int, end: int) -> tuple[int, int] | None:
    before = text[at - 1 : at]
    word = OPEN_VALUE.match(text, end, end + SPOKEN_MAX)
    if word is None or before.isalnum() or before in ("_", "/", "-", ".", "$"):
        return None
    value = spoken_word(word.group())
    slash = text[end - 2 : end].strip("` ") == "/" or text[end - 3 : end].strip("` ") == "/"
    if _PATH.search(value) or is_technical(value) or not any(c.isdigit() for c in value):
        return None
    if not (is_chosen(value) or is_leet(value) if slash else is_chosen(value, surely=True)):
        return None
    return word.start(), word.start() + len(value)


def _behind_pass(text: str, end: int) -> tuple[int, int] | None:
    glue = _GLUE.match(text, end)
    word = OPEN_VALUE.match(text, glue.end(), glue.end() + SPOKEN_MAX) if glue else None
    if glue is None or word is None:
        return None
    value = spoken_word(word.group())
    if _PATH.search(value) or is_technical(value) or not any(c.isdigit() for c in value):
        return None
    told = len(glue.group()) > len(glue["quote"])
    surely = is_chosen(value, surely=not told and not glue["quote"])
    if not surely and not is_leet(value) and not (is_chosen(value) and _SIGN.search(value)):
        return None
    return word.start(), word.start() + len(value)
