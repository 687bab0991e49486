"""Passwords and keys in the doubles and tables of tests: what a patched function returns
(`patch("….get_password", return_value="…")`, `when(….getPassword()).thenReturn("…")`), what a
program at a prompt is sent (`expect("Password:"); sendline("…")`), and the columns of
`parametrize("user,password", […])`.

The name is that of a function, a prompt or a parameter, so only what looks chosen or generated
counts. Invariant: pure and linear; around every word a bounded stretch is read. Called by
`SecretRule`.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.base import Source, leftmost_longest, set_of
from gateway.redaction.detectors.names import is_secret_name
from gateway.redaction.detectors.repeats import repeats_of
from gateway.redaction.detectors.values import (
    Judge,
    dense,
    is_chosen,
    is_expression,
    is_random,
)
from gateway.redaction.spans import Span

#: Behind a function's name, what says what it returns.
_RETURNS: Final = (
    "thenreturn(", "mockreturnvalue", "mockresolvedvalue", "mockimplementation(", "return_value",
    "side_effect", "and_return(", "andreturn(", "willreturn(", ".returns(", ".resolves(",
    "_returns(", ".return(", "lambda", "doreturn(", ".callsfake(", "returns async(", "and_yield(",
)  # fmt: skip
_SENDS: Final = ("sendline(", ".send(", "send_text(", ".feed(", "waitfor(", "responder(")
_TABLES: Final = ("parametrize(", "parameterized.expand", "@testwith", "data_provider(")
#: What every text holds in which anything is found here.
TRIGGERS: Final = (*_RETURNS, *_SENDS, *_TABLES)
_WORDS: Final = set_of(TRIGGERS)

_VALUE: Final = r"b?(?P<quote>[\"'`])(?P<value>[^\"'`\n]{6,256})(?P=quote)"
#: From there to the value: a function without much of a body, a list whose first item counts.
_RETURNED: Final = re.compile(
    r"(?:Once)?\(?[ ]?(?:=[ ]?)?[\[(]?"
    r"(?:\*{0,2}\w{1,12}(?:=(?:\"\"|''|None))?(?:, ?\*{0,2}\w{1,12}(?:=\w{1,8})?){0,3}|)?[ ]?:?[ ]?"
    r"(?:(?:async )?\(\w{0,12}\) => )?(?:Promise\.resolve\(|Mono\.just\(|Optional\.of\()?" + _VALUE
)
#: What stands between the name of what is patched and what says that it returns something.
_BETWEEN: Final = " \t\r\n.,=()'\"`"
_PATCHED_REACH: Final = 120
_NEW: Final = "new"
#: Words that a function begins with that tells a secret.
_VERB: Final = re.compile(r"\A(?:get|fetch|read|load|ask|prompt|find|lookup|resolve|_)+_?", re.I)
_LETTERS: Final = string.ascii_letters + string.digits + "_"
_GETPASS: Final = frozenset(["getpass", "get_pass", "askpass", "pass"])
_PROMPT: Final = re.compile(
    r"(?:assw(?:or)?d|passphrase|passcode|passwort|mot de passe|contraseña|token)[^\n\"'`]{0,24}"
    r"[\"'`]\]?(?:, ?\w{1,12}=[\w.]{1,12}){0,2}\)?[;,]?\s{1,24}(?:await[ ])?"
    r"(?:\w{1,24}\.){0,2}\w{0,24}\Z",
    re.IGNORECASE,
)
_PROMPT_REACH: Final = 120
_SENT: Final = re.compile(
    r"[ ]?b?(?P<quote>[\"'`])(?P<value>[^\"'`\\\n]{6,128})(?:\\[nr]){0,2}(?P=quote)"
)
#: The names of the columns: one text with commas, or a list.
_COLUMNS: Final = re.compile(
    r"\s{0,12}(?:(?P<quote>[\"'])(?P<names>[\w, ]{4,160})(?P=quote)|"
    r"[\[(](?P<list>(?:\s{0,8}[\"']\w{1,40}[\"'],?){1,12})\s{0,8}[\])])\s{0,4},\s{0,16}[\[(]"
)
_NAME: Final = re.compile(r"\w+")
_ROWS_REACH: Final = 4000
#: More than is ever read before and behind a word.
_BACK: Final = 256
_AHEAD: Final = 2 * _ROWS_REACH
#: An item of a row, or a sign that begins or ends one.
_ITEM: Final = re.compile(
    r"[rbu]?(?P<quote>[\"'])(?P<text>(?:(?!(?P=quote))[^\\\n]|\\.){0,256})(?P=quote)|"
    r"(?P<sign>[\[\](){},])|(?P<other>[^\s\"'\[\](){},#]{1,64})|#[^\n]{0,200}"
)


def mocked(source: Source, judge: Judge) -> Iterator[Span]:
    """Yield what tests let functions return, send to prompts, and hold in tables of parameters."""
    text, done = source.text, 0
    words = leftmost_longest(source.found(_WORDS))
    repeats = repeats_of(text, len(words), back=_BACK, ahead=_AHEAD)
    for word in words:
        if repeats is not None:
            if word[1] < done:
                continue
            done, again = repeats.skip(word[1])
            yield from again
            if word[1] < done:
                continue
        for span in _at_word(text, word, judge):
            if repeats is not None:
                repeats.found.append(span)
            yield span


def _at_word(text: str, word: tuple[int, int, int], judge: Judge) -> Iterator[Span]:
    """What stands beside a word: its number, where it begins, where it ends."""
    index, at, end = word
    if index < len(_RETURNS):
        found = _returned(text, at, end, judge)
    elif index < len(_RETURNS) + len(_SENDS):
        found = _sent(text, at, end)
    else:
        yield from _table(text, end, judge)
        return
    if found is not None:
        yield Span(*found, "SECRET", 0.75, "mocked")


def _looks_secret(value: str) -> bool:
    return not is_expression(value) and (is_chosen(value) or dense(value) or is_random(value))


def _returned(text: str, at: int, end: int, judge: Judge) -> tuple[int, int] | None:
    match = _RETURNED.match(text, end)
    if match is None or not _looks_secret(match["value"]):
        return None
    name = _patched(text, at)
    name = _VERB.sub("", name) or name
    if name.lower() in _GETPASS:
        name = "password"
    if not is_secret_name(name) or not judge.is_secret(name, match["value"], quoted=True):
        return None
    return match.span("value")


def _patched(text: str, at: int) -> str:
    """The last word of what is patched before `at`."""
    lead = text[max(0, at - _PATCHED_REACH) : at].rstrip(_BETWEEN)
    if lead.endswith(_NEW):  # `patch("….get_password", new=lambda: "…")`
        lead = lead.removesuffix(_NEW).rstrip(_BETWEEN)
    return lead[len(lead.rstrip(_LETTERS)) :]


def _sent(text: str, at: int, end: int) -> tuple[int, int] | None:
    match = _SENT.match(text, end)
    if match is None or not _PROMPT.search(text, max(0, at - _PROMPT_REACH), at):
        return None
    return match.span("value") if _looks_secret(match["value"]) else None


def _table(text: str, at: int, judge: Judge) -> Iterator[Span]:
    head = _COLUMNS.match(text, at)
    if head is None:
        return
    names = _NAME.findall(head["names"] or head["list"])
    wanted = {number: name for number, name in enumerate(names) if is_secret_name(name)}
    if not wanted:
        return
    single = len(names) == 1
    depth, column = 1, 0
    for item in _ITEM.finditer(text, head.end(), head.end() + _ROWS_REACH):
        sign = item["sign"]
        if sign is not None:
            depth += (sign in "[({") - (sign in "])}")
            if depth == 0:
                return
            column = 0 if sign in "[({" else column + (sign == ",")
        elif item["text"] and (single or depth > 1):
            name = wanted.get(0 if single else column)
            value = item["text"]
            if name and _looks_secret(value) and judge.is_secret(name, value, quoted=True):
                yield Span(*item.span("text"), "SECRET", 0.75, "parameter")
