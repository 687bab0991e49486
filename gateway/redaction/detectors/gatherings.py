"""Names that stand together or over a quotation: `Attendees: …, …`, `On … Jane Doe wrote:`.

Owns the heads of such lists and the verbs that follow whoever is quoted, in the languages of the
EU. Whether words have the shape of a name is the judgement of `person_names`.
Invariant: bounded work for every head and verb; a list of roles or teams holds no known first name
and is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.base import Source, leftmost_longest, part_of, set_of
from gateway.redaction.detectors.person_names import is_known, is_unusual, person_at
from gateway.redaction.spans import Span

_HEADS: Final = (
    "attendees", "participants", "participants ", "present", "absent", "invitees", "invited",
    "reviewers", "assignees", "speakers", "panelists", "interviewers", "interviewees", "members",
    "passengers", "guests", "patients", "signatories", "apologies",
    "owners", "approvers", "maintainers", "witnesses", "beneficiaries", "contacts", "students",
    "employees", "cc", "team", "on call", "on-call", "facilitator", "note taker", "scribe",
    "teilnehmer", "teilnehmerinnen", "teilnehmende", "anwesend", "anwesende", "abwesend",
    "entschuldigt", "eingeladen", "mitglieder", "gäste", "présents", "présents ", "absents",
    "excusés", "invités", "membres", "asistentes", "presentes", "ausentes", "participantes",
    "invitados", "miembros", "partecipanti", "presenti", "assenti", "invitati", "membri",
    "convidados", "membros", "aanwezig", "aanwezigen", "afwezig", "deelnemers", "leden", "obecni",
    "nieobecni", "uczestnicy", "członkowie", "deltagare", "närvarande", "deltagere", "deltakere",
    "til stede", "osallistujat", "läsnä", "přítomni", "účastníci", "prítomní", "résztvevők",
    "jelen", "participanți", "prezenți", "παρόντες", "συμμετέχοντες", "участници", "присъстващи",
    "deliver to", "ship to", "bill to", "sold to", "shipped to", "billed to", "invoice to",
    "rechnung an", "lieferung an", "lieferadresse", "facturer à", "livrer à", "facturé à",
    "facturar a", "enviar a", "fatturare a", "spedire a", "factuur aan",
    "sudionici", "prisotni", "osalejad", "dalyviai", "dalībnieki",
)  # fmt: skip
_HEAD_SET: Final = set_of(_HEADS)
#: Those behind which only people stand: nobody in the list needs a first name that is known.
_STRONG: Final = frozenset(
    number
    for number, head in enumerate(_HEADS)
    if head.startswith(
        ("attend", "participa", "invit", "apolog", "intervie", "panel", "signator", "teilnehm",
         "anwesend", "abwesend", "entschuldigt", "présents", "absents", "excusés", "asistentes",
         "partecipanti", "presenti", "aanwezig", "afwezig", "deelnemers", "obecni", "nieobecni",
         "uczestnicy", "deltag", "deltakere", "närvarande", "osallistujat", "účastníci",
         "přítomni", "prítomní", "résztvevők", "παρόντες", "συμμετέχοντες", "участници",
         "sudionici")
    )
)  # fmt: skip
_AFTER_HEAD: Final = re.compile(
    r"[\"'`*_]{0,3}[ ]?(?:\(\d{1,3}\)[ ]?)?(?::|=|\uff1a)[*_]{0,3}[ \t]{0,4}[\[(]?"
    r"(?:\r?\n[ \t]{0,8}(?:(?:[-*•+]|\d{1,2}[.)])[ \t]{1,3}(?:\[[ x]\][ ])?)?)?"
    r"|(?<=[ ]to)\r?\n[ \t]{0,8}"
)
_BETWEEN: Final = re.compile(
    r"[\"']?(?:[ ]?\([^()\n]{1,40}\)|[ ]?<[^<>\n]{1,80}>|[ ][–—-][ ][^\n,;]{1,40}?(?=[\n,;]))?"
    r"(?:[ ]?[,;/&|][ ]?(?:(?:and|und|et|y|e|en|i|och|og|ja|a)[ ])?"
    r"|[ ](?:and|und|et|y|e|en|i|och|og|ja|a|και|и)[ ]"
    r"|\r?\n[ \t]{0,8}(?:[-*•+]|\d{1,2}[.)])[ \t]{1,3}(?:\[[ x]\][ ])?)[\"'@]?"
)
#: With what `_AFTER_HEAD` begins: most words are followed by others.
_BEHIND_HEAD: Final = frozenset("\"'`*_ (:=\uff1a\r\n")
_MOST: Final = 60
_LONGEST: Final = 80
_NAME_WORDS: Final = 4

#: Behind whoever is quoted.
_VERBS_BEHIND: Final = (
    " wrote:", " writes:", " a écrit", " escribió:", " ha scritto:", " escreveu:", " schreef:",
    " napisał:", " napisała:", " pisze:", " piše:", " píše:", " napisał(a):", " skrev:",
    " kirjoitti:", " napsal:", " napsal(a):",
    " napísal:", " ezt írta", " a scris:", " έγραψε:", " написа:", " написал:", " schrieb:",
    " commented:", " replied:", " said:", " napisao je:", " je napisal:", " kirjutas:", " rašė:",
)  # fmt: skip
#: Before them.
_VERBS_BEFORE: Final = (
    "schrieb ", "skrev ", "schreef ", "escribió ", "napisał(a) ", "napsal ", "írta ",
)  # fmt: skip
_BEHIND_SET: Final = set_of(_VERBS_BEHIND)
_BEFORE_SET: Final = set_of(_VERBS_BEFORE)
TRIGGERS: Final = (*_HEADS, *_VERBS_BEHIND, *_VERBS_BEFORE)
_ANY: Final = part_of(TRIGGERS)
#: After what the name over a quotation begins.
_START: Final = re.compile(r"[,>:;|*\t\n\"“(\]]|(?<=\d)[ ](?:[AaPp]\.?[Mm]\.?,?[ ])?")
_AFTER_NAME: Final = re.compile(r"[ ]?(?::|<|\(|\[|\r?\n>)")


def gathered(source: Source) -> Iterator[Span]:
    """Yield the names of lists and of those who are quoted."""
    if not source.may_hold_words(_ANY):
        return
    text = source.text
    for number, at, end in leftmost_longest(source.found(_HEAD_SET)):
        if text[end : end + 1] not in _BEHIND_HEAD:
            continue
        if not (text[at - 1 : at].isalnum() or text[at - 1 : at] in ("_", "-", ".", "$", "@")):
            sure = number in _STRONG
            yield from _list(text, end, sure=sure)
    for _, at, _end in source.found(_BEHIND_SET):
        floor = max(0, at - _LONGEST)
        start = floor
        for sign in _START.finditer(text, floor, at):
            start = sign.end()
        while start < at and text[start] in " \t":
            start += 1
        parts = person_at(text, start, at)
        whole = bool(parts) and parts[-1][1] == at and (start > floor or floor == 0)
        if whole and _is_someone(text, parts):
            yield Span(parts[0][0], at, "NAME", 0.75, "quoted")
    for _, at, end in source.found(_BEFORE_SET):
        if text[at - 1 : at].isalnum():
            continue
        parts = person_at(text, end, min(len(text), end + _LONGEST))
        if parts and _AFTER_NAME.match(text, parts[-1][1]) and _is_someone(text, parts):
            yield Span(parts[0][0], parts[-1][1], "NAME", 0.75, "quoted")


def _is_someone(text: str, parts: list[tuple[int, int]]) -> bool:
    if not 1 <= len(parts) <= _NAME_WORDS:
        return False
    return is_unusual(text, parts) and (len(parts) > 1 or is_known(text, parts))


def _apart(text: str, parts: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """`Pablo Vega y Inés Soler` are two; `Ortega y Gasset` is one."""
    for number in range(2, len(parts) - 2):
        if text[parts[number][0] : parts[number][1]] in ("y", "e", "i"):
            yield parts[0][0], parts[number - 1][1]
            yield parts[number + 1][0], parts[-1][1]
            return
    yield parts[0][0], parts[-1][1]


def _list(text: str, end: int, *, sure: bool) -> Iterator[Span]:
    opening = _AFTER_HEAD.match(text, end)
    if opening is None:
        return
    at = opening.end()
    at += text[at : at + 1] in ("'", '"', "@")
    names: list[tuple[int, int]] = []
    first_names = 0
    while len(names) < _MOST:
        parts = person_at(text, at, min(len(text), at + _LONGEST))
        if not parts or not is_unusual(text, parts):
            break
        has_known = is_known(text, parts)
        if len(parts) == 1 and not has_known:
            break
        first_names += has_known
        names.extend(_apart(text, parts))
        between = _BETWEEN.match(text, parts[-1][1])
        if between is None:
            break
        at = between.end()
    # Teams and products stand in lists too: somebody in it must have a name people bear.
    single = len(names) == 1 and " " not in text[names[0][0] : names[0][1]]
    last = {text[start:stop].rpartition(" ")[2] for start, stop in names}
    sure = sure and len(last) == len(names)  # `Frontend Guild, Data Guild`
    if names and not single and (sure or first_names * 3 >= len(names) > 0):
        for name in names:
            yield Span(*name, "NAME", 0.75, "list")
