"""Reading through escapes: `\\n+44 20 …` in source code, `%0A` in a URL, `&#64;` in a page, the
color codes of a terminal, the underscores of Markdown, the marks of a diff; and through characters
that look like others or like nothing: blanks and dashes of typesetters, wide digits, accents
written apart from their letters, marks of direction.

A value often stands in a text inside a text, where the last letter of an escape touches it and
hides where it begins, or where one of its own characters is written as an escape. `read_through`
gives the text as its reader will see it, and the way back from there. Invariants: pure and linear;
every span that comes back covers whole escapes, so what surrounds it stays as well-formed as it
was; nothing is decoded twice. Called by the engine.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from html.entities import name2codepoint
from typing import Final

from gateway.redaction.detectors.base import HIDDEN, Source
from gateway.redaction.spans import Span

#: The look ahead at its first character lets `re` skip all others quickly. A run of backslashes
#: (each level of quoting doubles them) is entered at its head only, never given back.
_ESCAPE: Final = re.compile(
    r"(?=[\x1b\\%&_+\-])(?:"
    r"(?P<color>(?:\x1b|\\(?<!\\\\)\\*+(?:u001[bB]|x1[bB]|033|e))\[[0-9;:]{0,32}[A-Za-z])"
    r"|\\(?<!\\\\)\\*+"
    r"(?:u(?P<u>[0-9a-fA-F]{4})|x(?P<x>[0-7][0-9a-fA-F])|(?P<letter>[nrtbfv]))"
    # Letters and digits are escaped only together with what is beside them; `%4539 …` is a number.
    r"|%(?:25){0,3}(?P<percent>(?:[01][0-9a-fA-F]|2[0-9a-fA-F]|3[A-Fa-f]|[46]0|[57][B-Fb-f]|5[fF])"
    r"|[3-7][0-9a-fA-F](?:(?=%[0-7][0-9a-fA-F])|(?<=%[0-7][0-9a-fA-F]%..)))"
    r"|(?P<pair>%(?:25){0,3}[cCdD][0-9a-fA-F]%(?:25){0,3}[89abAB][0-9a-fA-F])"
    r"|&(?:#0{0,4}(?P<decimal>\d{1,5})|#[xX]0{0,4}(?P<hex>[0-9a-fA-F]{1,4})"
    r"|(?P<name>[A-Za-z]{2,7}));"
    # `_4539 …_` is italic in Markdown; `user_4539`, `4539_x` and the end of a key are names.
    r"|(?P<open>_(?<![A-Za-z0-9_-]_)_{0,2}(?=[\d+(]))"
    r"|(?P<close>_(?<=\d_)_{0,2}(?![^\W_]))"
    # A removed or added line. A single plus before a digit may be a phone number's own.
    r"|(?P<diff>-(?<![^\n]-)(?=[\d+(])|\+(?<![^\n]\+)(?=[+(])))"
)
#: Where one of these can begin. Every branch begins with a letter of its own, so that `re` passes
#: over all other characters at once.
_SIGN: Final = re.compile(r"\x1b|\\|%|&|_(?=_{0,2}[\d+(])|_(?<=\d_)|-(?=[\d+(])|\+(?=[+(])")
#: The first four of these, and the shapes of the others (see `Source.shape`) that hold no digit.
_LEADS: Final = (b"\x1b", b"\\", b"%", b"&")
_JOINED: Final = (b"_(", b"-(")
_PLUS: Final = b"+"
_JOINED_PLUS: Final = (b"_+", b"-+", b"++", b"+(")
_LINE: Final = ord("_")
_DASH: Final = ord("-")
#: An accent or underline behind its letter (Unicode's form D), and what has no width: marks of
#: direction, joiners, the soft hyphen.
_APART: Final = (
    r"[^\W_][\u0300-\u034e\u0350-\u036f]{1,3}"
    "|[\u00ad\u0300-\u036f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e007f]"
)
_ANY_APART: Final = re.compile(_APART)
#: Signs and ends of lines of a mail (RFC 2045 section 6.7). Elsewhere `=45` begins a number.
_PRINTABLE: Final = r"(?P<soft>=\r?\n)|=(?P<quoted>0[9AD]|2[0-9A-F]|3[A-F]|40|5[B-F]|6[0]|7[B-E])"
_IS_MAIL: Final = re.compile(r"quoted-printable", re.IGNORECASE)
#: The zeros of the scripts that have digits of their own, and those of mathematics.
_ZEROS: Final = (
    0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xE50,
    0xED0, 0xF20, 0x1040, 0x17E0, 0x1810, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6,
)  # fmt: skip
#: What numbers and addresses consist of; brackets and commas around them may stay wide.
_WIDE: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-./:@_="
#: Characters read as another one: blanks and dashes of typesetters, wide forms (U+FF01 and on), the
#: digits of Arabic, Persian and Devanagari.
_ALIKE: Final = {
    **{ord(c): " " for c in "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
       "\u200a\u202f\u205f\u3000"},
    **{ord(c): "-" for c in "\u2010\u2011\u2012\u2013\u2212"},
    **{0xFEE0 + ord(c): c for c in _WIDE},
    0xFE6B: "@", 0xFE52: ".", 0xFE55: ":", 0xFE62: "+", 0xFE63: "-", 0x2024: ".",
    **{zero + i: str(i) for zero in _ZEROS for i in range(10)},
}  # fmt: skip
_ANY_ALIKE: Final = re.compile(f"[{''.join(map(chr, _ALIKE))}]")
_LETTERS: Final = {"n": "\n", "r": "\r", "t": "\t", "b": " ", "f": " ", "v": " "}
_NAMES: Final = {
    "amp": "&",
    "quot": '"',
    "apos": "'",
    "lt": "<",
    "gt": ">",
    "nbsp": " ",
    "commat": "@",
    "plus": "+",
    "equals": "=",
    "colon": ":",
    "semi": ";",
    "comma": ",",
    "period": ".",
    "lowbar": "_",
    "sol": "/",
    "bsol": "\\",
    "lpar": "(",
    "rpar": ")",
    "num": "#",
    "dollar": "$",
    "percnt": "%",
    "excl": "!",
    "quest": "?",
    "ast": "*",
    "dash": "-",
    "Tab": "\t",
    "NewLine": "\n",
}
#: Letters with accents: `&uuml;`.
_LETTER_NAMES: Final = {
    name: chr(code) for name, code in name2codepoint.items() if chr(code).isalpha()
}
#: What a reader does not see at all.
_UNSEEN: Final = frozenset({"color", "open", "diff", "soft"})
#: What a number in italics consists of, from its first underscore to its last.
_EMPHASIZED: Final = re.compile(r"[0-9A-Fa-f+().,:/ \u00a0\-]{3,60}")


@dataclass(frozen=True, slots=True)
class Reading:
    """A text with its escapes read. From the view's offset `_ends[i]` on, the original is
    `_shifts[i]` characters further; `_shown[i]` tells whether the escape before it shows a
    character or nothing."""

    text: str
    _ends: tuple[int, ...]
    _shifts: tuple[int, ...]
    _shown: tuple[bool, ...]

    def back(self, span: Span) -> Span:
        """Return the span in the original text: an escape that is one of its characters belongs to
        it, one that only stands beside it does not."""
        return replace(span, start=self._start(span.start), end=self._end(span.end))

    def _start(self, offset: int) -> int:
        passed = bisect_right(self._ends, offset)
        return offset + (self._shifts[passed - 1] if passed else 0)

    def _end(self, offset: int) -> int:
        passed = bisect_left(self._ends, offset)
        if passed < len(self._ends) and self._ends[passed] == offset and self._shown[passed]:
            passed += 1
        return offset + (self._shifts[passed - 1] if passed else 0)


def read_through(source: Source) -> Reading | None:
    """Return the text with its escapes read, or None when there are none."""
    text = source.text
    plain = text.isascii()
    mail = "=" in text and _is_mail(source)
    signs = _signs(source) if plain else None
    if plain and not mail and signs is not None and not signs:
        return None
    alike = apart = False
    if "+" in text and "&" in text and _FORM_BLANK.search(text):
        text = _FORM_VALUE.sub(_without_plus, text)
        alike = True
    if not plain:
        alike = _ANY_ALIKE.search(text) is not None
        text = text.translate(_ALIKE) if alike else text
        apart = _ANY_APART.search(text) is not None
    escape = _escape(apart, mail)
    parts: list[str] = []
    ends: list[int] = []
    shifts: list[int] = []
    shown: list[bool] = []
    at = length = 0
    opened = -1
    if text is not source.text:
        signs = None
    for found in _escapes(text, signs) if escape is _ESCAPE else escape.finditer(text):
        if found.lastgroup == "open":
            opened = found.end()
        elif found.lastgroup == "close":
            if opened < 0 or not _EMPHASIZED.fullmatch(text, opened, found.start()):
                continue
            opened = -1
        char = _decoded(found)
        if char is None:
            continue
        before = text[at : found.start()]
        parts += (before, char)
        at = found.end()
        length += len(before) + len(char)
        ends.append(length)
        shifts.append(at - length)
        shown.append(char != "")
    if not parts and not alike:
        return None
    parts.append(text[at:])
    return Reading("".join(parts), tuple(ends), tuple(shifts), tuple(shown))


def _is_mail(source: Source) -> bool:
    if source.text.isascii():
        return "quoted-printable" in source.folded
    return _IS_MAIL.search(source.text) is not None


def _signs(source: Source) -> list[int] | None:
    """Return all places where an escape may begin, and others, in order; None where a search of
    the whole text would be faster."""
    shape, digits = source.shape, source.digits
    if not shape or digits is None:
        return None
    places: list[int] = []
    for sign in _LEADS:
        at = shape.find(sign)
        while at >= 0:
            places.append(at)
            at = shape.find(sign, at + 1)
    for pair in (*_JOINED, *_JOINED_PLUS) if _PLUS in shape else _JOINED:
        at = shape.find(pair)
        while at >= 0:
            _add_run(places, shape, at)
            at = shape.find(pair, at + 1)
    for digit in digits:
        if digit and shape[digit - 1] in (_LINE, _DASH):
            _add_run(places, shape, digit - 1)
        if shape[digit + 1 : digit + 2] == b"_":
            places.append(digit + 1)
    places.sort()
    return places


def _add_run(places: list[int], shape: bytes, at: int) -> None:
    """Add a place, and those of the two underscores before it."""
    places.append(at)
    for before in (at - 1, at - 2):
        if before < 0 or shape[before] != _LINE:
            return
        places.append(before)


def _escapes(text: str, signs: list[int] | None) -> Iterator[re.Match[str]]:
    """Yield what `_ESCAPE` finds: its many branches are tried only where one can begin, which is at
    `signs` if they are known."""
    at = 0
    for sign in (found.start() for found in _SIGN.finditer(text)) if signs is None else signs:
        if sign >= at and (found := _ESCAPE.match(text, sign)) is not None:
            at = found.end()
            yield found


@cache
def _escape(apart: bool, mail: bool) -> re.Pattern[str]:
    """Return what is read in a text with characters of no width, in a mail, in any other."""
    more = (rf"|(?P<apart>{_APART})" if apart else "") + (f"|{_PRINTABLE}" if mail else "")
    return (
        re.compile(_ESCAPE.pattern.replace(r"(?=[\x1b\\%&_+\-])", "", 1) + more)
        if more
        else _ESCAPE
    )


#: In a form's fields a plus is a blank: `card=4539+1488+…&phone=0121+234+1508`.
_FORM_BLANK: Final = re.compile(r"=[^&\s]{1,80}(?<=[\dA-Z)])\+[\dA-Z(]")
_FORM_VALUE: Final = re.compile(
    r"(?:(?<=[?&\s\"'])|\A)[\w.\-%\[\]]{1,60}=[^&\s\"'<>@]{1,200}(?=&)|&[\w.\-%\[\]]{1,60}="
    r"[^&\s\"'<>@]{1,200}"
)
_GROUPED_PLUS: Final = re.compile(r"(?<=[\dA-Z)])\+(?=[\dA-Z(])|(?<=%29)\+(?=\d)")


def _without_plus(value: re.Match[str]) -> str:
    return _GROUPED_PLUS.sub(" ", value.group())


def _decoded(found: re.Match[str]) -> str | None:
    if found.lastgroup == "apart":
        whole = unicodedata.normalize("NFC", found.group())
        return "" if len(found.group()) == 1 else whole[0]
    if found.lastgroup == "quoted":
        return chr(int(found["quoted"], 16))
    if found.lastgroup in _UNSEEN or found.lastgroup == "close":
        return ""
    if pair := found["pair"]:
        try:
            return _shown_as(ord(bytes.fromhex(pair.replace("%25", "%").replace("%", "")).decode()))
        except ValueError:  # no character's two bytes
            return None
    if letter := found["letter"]:
        return _LETTERS[letter]
    if name := found["name"]:
        return _NAMES.get(name) or _LETTER_NAMES.get(name)
    if decimal := found["decimal"]:
        code = int(decimal)
    else:
        code = int(found["u"] or found["x"] or found["percent"] or found["hex"], 16)
    return _shown_as(code)


def _shown_as(code: int) -> str | None:
    if code in (0x09, 0x0A, 0x0D) or 0x20 <= code < 0x7F:
        return chr(code)
    if code >= 0xA0 and _ANY_APART.fullmatch(chr(code)):
        return ""
    if 0xFE50 <= code < 0xFFE7:  # small and wide forms
        return _ALIKE.get(code)
    if 0xA0 <= code < ord(HIDDEN) and not 0xD800 <= code < 0xE000:  # no half of a character
        return _ALIKE.get(code, chr(code))
    return None
