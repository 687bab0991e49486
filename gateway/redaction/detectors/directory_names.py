"""Names in the fields of standards: cards (vCard), calendars, directories (LDAP), FHIR resources.

Owns those fields as the standards write them. Invariant: a text without their signs costs one
search; a bounded stretch is read behind each. Called by `people`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.base import Source, occurrences, part_of
from gateway.redaction.detectors.person_names import is_known, is_unusual, person_at
from gateway.redaction.spans import Span

#: Names of a person in a card (RFC 6350), a calendar (RFC 5545) and a directory (RFC 4519).
DIRECTORY: Final = (
    "fn:", "fn;", "cn=", "\nn:", "\nn;", "displayname=", "sn=", "givenname=", "\ncn: ", "\nsn: ",
)  # fmt: skip
_DIRECTORIES: Final = part_of(DIRECTORY)
_DIRECTORY_VALUE: Final = re.compile(
    r"(?:;[^:\n]{1,60}:)?[\"']?(?P<name>[^\W\d_](?:[^\W\d_]|[ .'’;\-]){1,79})(?=[\"',:;+/\r\n]|\Z)"
)
#: A person in a FHIR resource (R4, HumanName): the family name, and the given ones as a list.
FHIR: Final = ('"family"', '"given"', '"resourcetype"')
_FHIR_PART: Final = part_of(('"family"', '"text"'))
_FHIR_OTHER: Final = part_of(('"given"', '"resourcetype"'))
_FAMILY: Final = re.compile(r'"family"\s{0,4}:\s{0,4}"(?P<name>[^"\\\n]{2,60})"')
_GIVEN: Final = re.compile(
    r'"given"\s{0,20}:\s{0,20}\[(?P<names>\s{0,40}"[^"\\\n]{1,60}"(?:\s{0,40},\s{0,40}"[^"\\\n]{1,60}"){0,5})'
)
_NAME_TEXT: Final = re.compile(
    r'"name"\s{0,4}:\s{0,4}\[\s{0,40}\{[^{}\[\]]{0,160}?"text"\s{0,4}:\s{0,4}"(?P<name>[^"\\\n]{2,80})"'
)
_QUOTED: Final = re.compile(r'"([^"]{2,60})"')


def resource_names(source: Source) -> Iterator[Span]:
    """Yield the names of a FHIR resource."""
    if not (source.may_hold_words(_FHIR_PART) and source.may_hold_words(_FHIR_OTHER)):
        return
    text = source.text
    if _GIVEN.search(text) is None and '"resourcetype"' not in source.folded:
        return  # a font
    for family in _FAMILY.finditer(text):
        if family["name"][0].isupper():
            yield Span(*family.span("name"), "NAME", 0.85, "resource")
    for written in _NAME_TEXT.finditer(text):
        if len(person_at(written["name"], 0, len(written["name"]))) > 1:
            yield Span(*written.span("name"), "NAME", 0.85, "resource")
    for given in _GIVEN.finditer(text):
        for name in _QUOTED.finditer(text, *given.span("names")):
            if name.group(1)[0].isupper():
                yield Span(*name.span(1), "NAME", 0.85, "resource")


def directory_names(source: Source) -> Iterator[Span]:
    """Yield the names in the fields of cards and directories."""
    if not source.may_hold_words(_DIRECTORIES):
        return
    text = source.text
    for at, sign in occurrences(source.folded, DIRECTORY):
        if text[at - 1 : at].isalnum() and sign[0] != "\n":
            continue
        end = at + len(sign) - (sign[-1] == ";")
        match = _DIRECTORY_VALUE.match(text, end)
        if match is None:
            continue
        start, last = match.span("name")
        name = text[start:last].rstrip(" ;")
        words = name.replace(";", " ")
        single = sign in ("sn=", "givenname=", "\nsn: ")
        parts = person_at(words, 0, len(words))
        if (
            parts
            and parts[-1][1] == len(words)
            and (is_known(words, parts) or is_unusual(words, parts))
            and (single or len(parts) > 1)
        ):
            yield Span(start, start + len(name), "NAME", 0.8, "directory")
