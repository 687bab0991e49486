"""Private keys in armor: PEM, OpenSSH, PGP, PuTTY; whole, cut off at either end, or inside a
string.

A mere mention of the armor line (documentation, a parser's source) is no key: some key material
must follow. Every line of the material is read once, so many BEGIN lines cost no more than one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from gateway.redaction.detectors.base import Rule, Source, Triggers
from gateway.redaction.detectors.key_lines import (
    BREAK,
    SHORTEST_LINE,
    before,
    behind,
    middles,
)
from gateway.redaction.spans import Span

#: A form that was sent has its blanks written as plus signs.
_BEGIN: Final = re.compile(
    r"-----BEGIN[ +](?:[A-Z0-9]{1,12}[ +]){0,3}PRIVATE[ +]KEY(?:[ +]BLOCK)?-----"
)
_END: Final = re.compile(
    r"-----END[ +](?:[A-Z0-9]{1,12}[ +]){0,3}PRIVATE[ +]KEY(?:[ +]BLOCK)?-----"
)

#: What stands before a line: indentation, quote and comment signs, string concatenation.
#: Or the line's number, as tools that show files print it.
_NUMBER: Final = r"[ \t]{0,8}+\d{1,6}(?:[\t→|:]|[ ]{1,3}\|?)[ \t]{0,40}+"
_SIGNS: Final = r"[ \t>|#*+\"',;/.\-]{0,40}"
_LEAD: Final = rf"(?:{_NUMBER}|{_SIGNS})"
#: A line of the body: base64, or a header such as `Proc-Type:` and `Version:`.
_LINE: Final = re.compile(
    rf"(?:[ \t\"'+,;\\]{{0,8}}{BREAK}){{1,3}}(?:{_NUMBER}|{_SIGNS}+)"
    r"(?:(?P<material>[A-Za-z0-9+/=]{1,1000}+)|[A-Za-z][A-Za-z-]{2,24}: [^\r\n\\]{0,200})"
    r"(?=[ \t]{0,40}(?:[\r\n\"'`,;+\\)<.…\[]|\Z))"
)
#: All of the body on one line, as environment variables hold it.
_ONE_LINE: Final = re.compile(
    r"[ \t]{0,4}(?P<material>[A-Za-z0-9+/=]{16,8000}(?: [A-Za-z0-9+/=]{16,80}){0,100}"
    r"(?: [A-Za-z0-9+/=]{1,15}(?= -----END))?)"
)
_TO_END: Final = re.compile(
    rf"[ \t]{{0,8}}(?:[ \t\"'+,;\\]{{0,8}}{BREAK}){{0,3}}{_LEAD}(?=-----END)"
)

#: One of the last lines of a key whose beginning was cut off, and how far back they are looked for.
_TAIL_LINE: Final = re.compile(rf"{_LEAD}(?P<material>[A-Za-z0-9+/=]{{1,200}})[ \t\"'+,;\\]{{0,8}}")
_ANY_BREAK: Final = re.compile(BREAK)
_TAIL_REACH: Final = 4096
_MATERIAL_LEAST: Final = 16
_LINES_MOST: Final = 400

_PUTTY: Final = re.compile(r"Private-Lines: \d{1,4}((?:\r?\n[A-Za-z0-9+/=]{4,80}(?=\s|\Z)){1,200})")


#: A key both sides of a tunnel share.
_STATIC: Final = re.compile(
    r"-----BEGIN OpenVPN Static key V\d-----"
    r"(?P<key>(?:[ \t]{0,8}(?:\\n|\r?\n)[ \t]{0,8}[0-9a-f]{32}){4,32})"
)
#: The private members of .NET's keys in XML.
_RSA_VALUE: Final = re.compile(
    r"<(?P<tag>D|P|Q|DP|DQ|InverseQ)>\s{0,8}(?P<value>[A-Za-z0-9+/\s]{16,1400}={0,2})\s{0,8}</(?P=tag)>"
)
#: The members of a JSON web key that make it a private one (RFC 7518), and how far from `kty` they
#: may be.
_KTY: Final = re.compile(r"(?P<q>\\{0,7}[\"'])kty(?P=q)[ \t]{0,4}:")
_MEMBER: Final = re.compile(
    r"(?P<q>\\{0,7}[\"'])(?:d|p|q|dp|dq|qi|k)(?P=q)[ \t]{0,4}:[ \t]{0,4}"
    r"(?P=q)(?P<value>[\w-]{16,1400})(?P=q)",
    re.ASCII,
)
_KEY_REACH: Final = 5000
#: Three lines of a key hold about thirty.
_DIGITS_LEAST: Final = 8


class PrivateKeyRule(Rule):
    """Finds private keys."""

    KINDS: ClassVar = ("PRIVATEKEY",)

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(
            literals=(
                "PRIVATE KEY",
                "PRIVATE+KEY",
                "Private-Lines: ",
                "kty",
                "RSAKeyValue",
                "Static key V",
            ),
            digits=_DIGITS_LEAST,
        )

    def spans(self, source: Source) -> Iterator[Span]:
        """Look behind every BEGIN, before every END that has none, and at PuTTY's lines."""
        text = source.text
        if "PRIVATE KEY" in text or "PRIVATE+KEY" in text:
            done = 0
            for begin in _BEGIN.finditer(text):
                if begin.start() < done:
                    continue
                end = _end_of_key(text, begin.end())
                if end is None or not text.startswith("-----", end - 5):
                    lines = behind(text, begin.end())
                    for run in lines.runs:
                        yield Span(*run, "PRIVATEKEY", 0.95, "pem-line")
                    end = max(lines.end or 0, end or 0) or None
                if end is not None:
                    done = end
                    yield Span(begin.start(), end, "PRIVATEKEY", 1.0, "pem")
            yield from _tails(text, done)
        if source.may_hold_run(SHORTEST_LINE):
            for start, end in middles(text):
                yield Span(start, end, "PRIVATEKEY", 0.8, "key-lines")
        if "kty" in text:
            yield from _members(text)
        yield from _of_programs(text)


def _of_programs(text: str) -> Iterator[Span]:
    """Keys in the forms of single programs."""
    if "RSAKeyValue" in text:
        for match in _RSA_VALUE.finditer(text):
            yield Span(*match.span("value"), "PRIVATEKEY", 0.95, "rsa-xml")
    if "Static key V" in text:
        for match in _STATIC.finditer(text):
            start = match.end() - len(match["key"].lstrip("\r\n\t \\n"))
            yield Span(start, match.end(), "PRIVATEKEY", 1.0, "static-key")
    if "Private-Lines: " in text:
        for match in _PUTTY.finditer(text):
            yield Span(match.start(1), match.end(1), "PRIVATEKEY", 1.0, "putty")


def _members(text: str) -> Iterator[Span]:
    """The private members of JSON web keys."""
    done = 0
    for kty in _KTY.finditer(text):
        start, end = _object_around(text, kty.start(), max(done, kty.start() - _KEY_REACH))
        for member in _MEMBER.finditer(text, start, end):
            yield Span(member.start("value"), member.end("value"), "PRIVATEKEY", 0.95, "jwk")
        done = max(done, end)


def _object_around(text: str, at: int, floor: int) -> tuple[int, int]:
    end = text.find("}", at, at + _KEY_REACH)
    return max(floor, text.rfind("{", floor, at)), end if end >= 0 else min(
        len(text), at + _KEY_REACH
    )


def _end_of_key(text: str, at: int) -> int | None:
    """Where the key whose armor line ends at `at` ends; None when no material follows."""
    material = 0
    one = _ONE_LINE.match(text, at)
    if one is not None:
        material = len(one["material"])
        at = one.end()
    solid = at
    for _ in range(_LINES_MOST):
        line = _LINE.match(text, at)
        if line is None or (material and _EMPTY_LINE.search(line.group())):
            break
        at = line.end()
        if line["material"] is not None:
            material += len(line["material"])
            solid = at if _SOLID.search(line["material"]) else solid
    if material < _MATERIAL_LEAST:
        return None
    gap = _TO_END.match(text, at)
    if gap is not None:
        end = _END.match(text, gap.end())
        if end is not None:
            return end.end()
    return solid


#: A key's lines follow each other; only its headers are followed by an empty one.
_EMPTY_LINE: Final = re.compile(r"\A[ \t]*(?:\r?\n[ \t]*\r?\n|\\n\\n)")
#: Not just a word that happens to stand alone on the line behind a key that was cut off.
_SOLID: Final = re.compile(r"[0-9+/=]|.{24}")


def _tails(text: str, done: int) -> Iterator[Span]:
    """Keys without a beginning; everything before `done` is part of whole ones."""
    for end in _END.finditer(text, done):
        floor = max(done, end.start() - _TAIL_REACH)
        start = _tail_start(text, floor, end.start())
        if start is not None:
            yield Span(start, end.end(), "PRIVATEKEY", 0.9, "pem-tail")
        else:
            for run in before(text, end.start(), done):
                yield Span(*run, "PRIVATEKEY", 0.9, "pem-line")
        done = end.end()


def _tail_start(text: str, floor: int, end: int) -> int | None:
    """Where the lines of key material right before `end` begin; None when there are too few."""
    lines: list[tuple[int, int]] = []
    at = floor
    for found in _ANY_BREAK.finditer(text, floor, end):
        lines.append((at, found.start()))
        at = found.end()
    material = 0
    start = None
    for first, last in reversed(lines):
        line = _TAIL_LINE.fullmatch(text, first, last)
        if line is None or (material and not _SOLID.search(line["material"])):
            if text[first:last].strip(" \t\"'+,;\\>|#*") == "" and material == 0:
                continue
            break
        material += len(line["material"])
        start = line.start("material")
    return start if material >= _MATERIAL_LEAST else None
