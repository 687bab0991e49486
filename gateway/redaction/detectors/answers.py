"""Passwords that stand further from their word than behind its verb: the answer to a question, on
the same line or the next; what a sentence goes on to tell (`asks for a password, type …`, `with
password …`); and the second of two that are told together (`…, for bob it is …`).

Between a word and a value so far from it may stand anything, so the value must look chosen: with
digits or signs, and be no name of source code. Invariant: pure and linear; behind every word a
bounded stretch is read. Called by `spoken`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.values import (
    CODE,
    OPEN_VALUE,
    SPOKEN_MAX,
    is_chosen,
    is_leet,
    is_technical,
    spoken_word,
)
from gateway.redaction.spans import Span

#: Signs behind a word for a password with which a sentence may go on to its value.
_GOES_ON: Final = frozenset(' ?,\n"')
_DIGIT: Final = re.compile(r"\d")
#: All that is read behind a word.
_REACH: Final = 200
#: All that is read before it.
BACK: Final = 120
_SPEAKER: Final = (
    r"[ \t>]{0,4}(?:\[[\d:. -]{4,20}\][ ])?(?:[-–*][ ]{1,2}|<?[\w.-]{1,20}>?:[ ]{1,2})?"
)
#: What a reply begins with.
_REPLIES: Final = (
    r"(?:(?:(?:→|->|=>)[ ])?(?:(?:yes|yep|yeah|sure|ja|oui|s[ií])[,:]?[ ])?"
    r"(?:(?:it['’]?s|it is|that['’]s|try|use|"
    r"should be|i think|es ist|c['’]est|es)[ ])?)"
)
#: Behind a question mark, on the same line or the next that is not empty.
_ANSWER: Final = re.compile(
    r"(?:[ ][^\n?.!;\"'`(){}=<>]{1,40})?\?[ \t]{0,3}"
    rf"(?P<apart>(?:\r?\n){{1,2}}{_SPEAKER})?{_REPLIES}(?P<quote>[\"'`]?)"
)
#: Two people, one on each line, and no question mark.
_REPLY: Final = re.compile(
    r"(?:[ ][\w .'’/-]{1,40})?\r?\n(?:\[[\d:. -]{4,20}\][ ])?<?[\w.-]{1,20}>?:[ ]{1,2}"
    rf"{_REPLIES}(?P<quote>[\"'`]?)"
)
#: What makes the words before it a question or a request.
_ASKS: Final = re.compile(
    r"\b(?:what|whats|what['’]s|which|who|anyone|anybody|know|remember|remind|need|send|give|tell|"
    r"share|got|have|forgot|wie|was|welches|wer|brauche|quel|c['’]est quoi|cu[aá]l|qual|quale|"
    r"wat|hvad|hva|vad|jakie|jaké|mikä|q)\b",
    re.IGNORECASE,
)
_ASKS_REACH: Final = 60
_ENDS_LINE: Final = re.compile(r"[\"'`]?[.!,;)]{0,2}[ \t]{0,2}(?:\r?\n|\Z)")
#: A sentence that goes on, and says what to type.
_FURTHER: Final = re.compile(
    r"(?:[,;]?[ ][\w'’-]{1,16}){0,5}?(?:(?:[ ]?[,;:–—]|[ ]-|[ ](?:and|then|please|just))[ ]|[ ])"
    r"(?:it['’]?s|it is|it was|which is|which was|that['’]s|namely|try|type|enter|use|put in|"
    r"give|answer with|answer|send|es ist|gib|c['’]est|entrez|tapez|utilisez|es|usa|escribe)[ ]"
    r"(?:in[ ])?(?P<quote>[\"'`]?)"
)
#: `the same password as always, Pelican88!`
_APPENDED: Final = re.compile(r"(?:[ ][\w'’-]{1,16}){0,4},[ ](?P<quote>[\"'`]?)")
#: `log in as sa with password elephant42`
_WITH: Final = ("with ", "with the ", "using ", "using the ", "mit ", "mit dem ", "avec le ",
                "con ", "con la ", "met ", "med ", "by ", "and ", "und ", "et ")  # fmt: skip
#: `Meeting 812 345, passcode h7Kq2P`, `host (password sh3ll-fish)`
_BESIDE: Final = (", ", "; ", "| ", "/ ", "(", "[")
#: `enter "…" into the `, before `password field`
_INTO: Final = (
    "into the ",
    "in the ",
    "for the ",
    "to the ",
    "at the ",
    'into "',
    'in "',
    "into `",
    'the "',
)
_ENTERED: Final = re.compile(
    r"\b(?:enter|type|fill|put|paste|input)(?:s|ed|d|es)?(?: in)?[ ](?P<quote>[\"'`]?)"
    r"(?P<value>[^\s\"'`]{6,64})(?P=quote)[ ](?:into|in|for|to|as|at)[ ][^\n\"'`]{0,24}[\"'`]?\Z",
    re.IGNORECASE,
)
_BLANK: Final = re.compile(r"[ ](?P<quote>[\"'`]?)")
#: Names of ways to keep a password.
_ALGORITHM: Final = re.compile(
    r"(?:(?:sha|md|pbkdf|b?crypt|scrypt|argon|rsa|aes|des|ntlm|lm|oauth|pkcs|utf|base|tls|ssl|http|"
    r"py|python|php|java|win|windows|ip|ipv|u2f|fido|rfc|cve|iso)(?=[\d_.-]|\Z)|v?\d+(?:\.|\Z))",
    re.IGNORECASE,
)
#: Signs of source code and of formats, which no password told in a sentence holds.
_NO_WORD: Final = re.compile(r"[(){}\[\]=<>\\]|::|->|/.*/|\A[-./~#%@]|%[sdr]|\Ahttps?")
_SOME_SIGN: Final = re.compile(r"[!#$%&*?@^+~]")
_INNER_DIGIT: Final = re.compile(r"\d[^\d\W]|[^\w]\d|\d[^\w]\w")
#: What may follow a password and lead to another.
_JOINTS: Final = frozenset("\"'` ,;./")
#: `and for bob it is …`, behind a value that was told
_ALSO: Final = re.compile(
    r"[\"'`]?(?:[ ]?[,;./]|[ ]\([^()\n]{1,24}\))?(?:[ ](?:and|or|but|und|oder|y|et|e|en|i|og|och))?"
    r"(?:[ ](?:for|on|in|at|für|auf|im|pour|sur|para|en|per|voor|op|på|dla|na)[ ]"
    r"(?:[\w@.'’-]{1,24}[ ]){0,3}?[\w@.'’-]{1,24}[ ]?"
    r"(?:,?[ ](?:it['’]s|it is|it was|is|was|ist es|ist|c['’]est|est|es|è|é)[ ]|:[ ])|"
    r",?[ ](?:if that fails|otherwise|or else|alternatively|before that|previously|formerly)"
    r"(?:[ ](?:try|use|it was|was))?[ ])(?P<quote>[\"'`]?)"
)


def answer_to(text: str, at: int, end: int) -> Span | None:
    """What is told of the word for a password at `at` to `end` further on, or before it."""
    sign = text[end : end + 1]
    if sign not in _GOES_ON:
        return None
    if sign == "\n" and not _REPLY.match(text, end):
        return None
    found = None
    if _DIGIT.search(text, end, end + _REACH):  # no value is without
        if sign != ",":
            found = _answer(text, at, end)
        if found is None and sign in (",", " "):
            found = (
                _behind(text, _FURTHER.match(text, end))
                or _appended(text, end)
                or _with(text, at, end)
            )
    if found is None and sign in ('"', " "):
        found = _entered(text, at)
    return Span(*found, "SECRET", 0.7, "answer") if found is not None else None


def also_told(text: str, at: int) -> Iterator[Span]:
    """Yield what is told together with the password that ends at `at`."""
    if text[at : at + 1] not in _JOINTS:
        return
    found = _behind(text, _ALSO.match(text, at))
    if found is not None:
        yield Span(*found, "SECRET", 0.7, "answer")


def _word(text: str, glue: re.Match[str]) -> tuple[int, int, str] | None:
    word = OPEN_VALUE.match(text, glue.end(), glue.end() + SPOKEN_MAX)
    if word is None:
        return None
    value = spoken_word(word.group())
    return word.start(), word.start() + len(value), value


def _is_told(value: str) -> bool:
    """A password somebody tells, and no word, name, number or piece of source code."""
    return (
        (is_chosen(value) or is_leet(value))
        and any(c.isdigit() for c in value)
        and not is_technical(value)
        and _NO_WORD.search(value) is None
        and _ALGORITHM.match(value) is None
        and (CODE.match(value) is None or is_leet(value))
    )


def _is_surely_told(value: str) -> bool:
    """The same where a name with a number is as likely."""
    return (
        len(value) >= 6
        and _is_told(value)
        and (_SOME_SIGN.search(value) is not None or _INNER_DIGIT.search(value) is not None)
    )


def _answer(text: str, at: int, end: int) -> tuple[int, int] | None:
    glue = _ANSWER.match(text, end)
    behind = glue or _REPLY.match(text, end)
    found = _word(text, behind) if behind is not None else None
    if found is None or not _ENDS_LINE.match(text, found[1]):
        return None
    asked = _ASKS.search(text, max(0, at - _ASKS_REACH), at) is not None
    surely = (
        asked or (glue is not None and not glue["apart"]) or _SOME_SIGN.search(found[2]) is not None
    )
    return (found[0], found[1]) if surely and _is_told(found[2]) else None


def _behind(text: str, glue: re.Match[str] | None) -> tuple[int, int] | None:
    found = _word(text, glue) if glue is not None else None
    if found is None or not _is_surely_told(found[2]):
        return None
    return found[0], found[1]


def _appended(text: str, end: int) -> tuple[int, int] | None:
    glue = _APPENDED.match(text, end)
    found = _word(text, glue) if glue is not None else None
    if found is None or not _is_surely_told(found[2]) or not _SOME_SIGN.search(found[2]):
        return None
    return (found[0], found[1]) if _ENDS_LINE.match(text, found[1]) else None


def _with(text: str, at: int, end: int) -> tuple[int, int] | None:
    joined = text.endswith(_WITH, 0, at)
    if not joined and not text.endswith(_BESIDE, 0, at):
        return None
    glue = _BLANK.match(text, end)
    found = _word(text, glue) if glue is not None else None
    if found is None or not (_is_told if joined else _is_surely_told)(found[2]):
        return None
    return found[0], found[1]


def _entered(text: str, at: int) -> tuple[int, int] | None:
    if not text.endswith(_INTO, 0, at):  # the search is dear
        return None
    match = _ENTERED.search(text, max(0, at - BACK), at)
    if match is None:
        return None
    told = _is_told if match["quote"] else _is_surely_told
    return match.span("value") if told(match["value"]) else None
