"""Names beside mail addresses and behind the trailers of commits and mails: `Jane Doe <jane@…>`,
`Jane Doe,jane@…`, `Reviewed-by: Jane Doe`.

Invariant: looks a bounded stretch around an address, and where lines repeat once; whoever wrote a
piece of code and says so in it is left alone. Called by `people`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ahocorasick_rs import AhoCorasick

from gateway.redaction.detectors.base import HIDDEN, Source, part_of
from gateway.redaction.detectors.person_names import (
    END_OF_VALUE,
    FIRST_LETTERS,
    LONGEST,
    MOST_SEEN,
    Place,
    is_known,
    is_name,
    is_unusual,
    person_at,
)
from gateway.redaction.spans import Span

#: Around the sign of an address, also of one that was replaced before.
#: Up to the last sign before it that no local part holds.
_BEFORE_LOCAL: Final = re.compile(r"(?s:.*)(?:[\s<>()@,;|\"\\]|(?<!\w)'|'(?!\w))")
_DOMAIN: Final = re.compile(r"@[\w.\-]{1,255}")
_REPLACED: Final = re.compile(rf"[<(]{HIDDEN}{{1,64}}[>)]")
#: Between a name and its address: `Name <address>`, `Name (mailto:address)`.
_OPENING: Final = re.compile(r"[ \t]\\?(?:[<(]|\(<)(?:mailto:)?\Z")
#: `Name — address`, `Name: address`: only with a first name people bear.
_DASH: Final = re.compile(r"(?:[ ][–—-]|:)[ ]\Z")
#: `Name,address`: a row without a head.
_CELL_BEFORE: Final = re.compile(r"[\"']?[,;\t|][ ]?[\"']?\Z")
#: What stands before a display name.
_BEFORE_NAME: Final = re.compile(
    r"[,;>|(\[\t\n\"“”*=#•]|:(?:\d\d[ ](?:[ap]\.?m\.?,?[ ])?)?|(?<!\S)"
    r"(?:by|and|from|to|cc|with|schrieb|wrote|--?)\s",
    re.IGNORECASE,
)
_CREDIT: Final = re.compile(
    r"^[ \t]*(?:#|//|;;|\*|__author__|dnl |%)[^\n]*\Z|\b(?:by|from|to|and|thanks|author)[ \t]+\Z",
    re.IGNORECASE | re.MULTILINE,
)
#: A commit's trailer in a comment, a patch or a quotation: `# Signed-off-by: …`.
_TRAILED: Final = re.compile(r"(?:\b[A-Za-z]{2,20}(?:-[a-z]{2,12}){0,2}-by|\bCc):[ \t]{0,8}\Z")
_MAILED: Final = re.compile(
    r"(?:author|committer|commit|tagger|[\w-]{3,20}-by|from|to|b?cc|sender|reply-to|maintainer|"
    r"contact|uploaders?|"
    r"von|an|de|à|da|a|od|do|från|till|fra|til)[\"']?[ ]?:?[ \t]*[\"']?\Z",
    re.IGNORECASE,
)
TRAILER_HEADS: Final = (
    "-by:", "@author", "author:", "committer:", "maintainer:", "from:", "to:", "cc:", "bcc:",
    "sender:", "attn:", "von:", "an:", "de:", "de :", "à:", "à :", "da:", "para:", "van:", "aan:",
    "od:", "do:", "från:", "till:", "fra:", "til:", "από:", "προς:",
)  # fmt: skip
_TRAILERS: Final = part_of(TRAILER_HEADS)
_TRAILER_SEARCH: Final = AhoCorasick(TRAILER_HEADS)
_TRAILER: Final = re.compile(
    r"[ \t>*#/+-]{0,12}(?:@author[ \t]+|(?:Author|Committer|Maintainer|Co-authored-by|"
    r"Signed-off-by|Reviewed-by|"
    r"Acked-by|Tested-by|Reported-by|Suggested-by|Helped-by|Approved-by|Merged-by|Requested-by|"
    r"Mentored-by|"
    r"Co-developed-by|Thanks-to|From|To|Cc|Bcc|Reply-To|Sender|Attn|Von|An|De|À|Da|Para|Van|Aan|"
    r"Od|Do|Från|Till|"
    r"Fra|Til|Από|Προς)[ \t]?:[ \t]{1,8})(?=[^\W\d_]|[\"'])",
)


def mailed_names(text: str) -> Iterator[Span]:
    """`Name <address>`, `Name (address)`, `address (Name)`, `Name,address`."""
    known: _Beside = {}
    at = text.find("@")
    while at >= 0:
        floor = max(0, at - _LOCAL_MOST)
        before = _BEFORE_LOCAL.match(text, floor, at)
        start = before.end() if before is not None else floor
        domain = _DOMAIN.match(text, at)
        if start < at and domain is not None:
            yield from _beside_once(text, start, domain.end(), known)
        at = text.find("@", at + 1)
    if HIDDEN in text:
        for replaced in _REPLACED.finditer(text):
            yield from _beside_once(text, replaced.start() + 1, replaced.end() - 1, known)


_LOCAL_MOST: Final = 64
#: All that is looked at around an address.
_SEEN_AROUND: Final = 128
#: What was found around an address, counted from it, for the text there: lines repeat.
_Beside = dict[tuple[int, int, str], tuple[Span, ...]]


def _beside_once(text: str, start: int, end: int, known: _Beside) -> Iterator[Span]:
    floor = max(0, start - _SEEN_AROUND)
    key = start - floor, end - start, text[floor : end + _SEEN_AROUND]
    found = known.get(key)
    if found is None:
        if len(known) > MOST_SEEN:
            known.clear()
        found = known[key] = tuple(
            replace(span, start=span.start - start, end=span.end - start)
            for span in _beside_address(text, start, end)
        )
    for span in found:
        yield replace(span, start=span.start + start, end=span.end + start)


def _beside_address(text: str, start: int, end: int) -> Iterator[Span]:
    """`start` and `end`: of the address."""
    if text.startswith("[mailto:", start) and text[start - 1 : start] == " ":
        span = _before(text, start - 1)
        if span is not None:
            yield Span(*span, "NAME", 0.85, "mailed")
        return
    opening = _OPENING.search(text, max(0, start - 10), start)
    if opening is not None:
        span = _before(text, opening.start())
        if span is not None:
            yield Span(*span, "NAME", 0.85, "mailed")
        return
    if text.startswith(" (", end):
        parts = person_at(text, end + 2, end + 2 + LONGEST)
        if parts and text[parts[-1][1] : parts[-1][1] + 1] == ")":
            if len(parts) > 1 or is_known(text, parts):
                yield Span(end + 2, parts[-1][1], "NAME", 0.8, "mailed")
            return
    dash = _DASH.search(text, max(0, start - 4), start)
    if dash is not None:
        span = _before(text, dash.start())
        parts = person_at(text, *span) if span is not None else []
        if span is not None and parts and is_known(text, parts):
            yield Span(*span, "NAME", 0.8, "mailed")
        return
    cell = _CELL_BEFORE.search(text, max(0, start - 4), start)
    if cell is not None:
        yield from _row(text, cell.start())


def _row(text: str, end: int) -> Iterator[Span]:
    """The cell that ends at `end`, before one with an address."""
    start = max(0, end - LONGEST)
    for sign in ("\n", ",", ";", ": "):  # the last: `dana: Jane Doe, jane@…`
        start = max(start, text.rfind(sign, start, end) + 1)
    if text[end : end + 1] in ("'", '"'):  # `VALUES ('Jane Doe', 'jane@…'`
        start = max(start, text.rfind(text[end], start, end) + 1)
    while start < end and text[start] in " \"'|\t>":
        start += 1
    parts = person_at(text, start, end)
    whole = len(parts) > 1 and parts[-1][1] == end
    if whole and (is_known(text, parts) or is_unusual(text, parts)):
        yield Span(start, end, "NAME", 0.75, "row")


def _before(text: str, end: int) -> tuple[int, int] | None:
    """The name that ends right before `end`."""
    floor = max(0, end - LONGEST)
    start = floor
    quoted = text[end - 1 : end] in ('"', "'", "”")
    stop = end - 1 if quoted else end
    if quoted:
        opening = (
            text.rfind(text[stop], floor, stop)
            if text[stop] != "”"
            else text.rfind("“", floor, stop)
        )
        if opening < 0:
            return None
        start = opening + 1
        return (start, stop) if is_name(text[start:stop], Place.ROLE, beside="") else None
    for sign in _BEFORE_NAME.finditer(text, floor, stop):
        start = sign.end()
    if _CREDIT.search(text, floor, start) and not _TRAILED.search(text, floor, start):
        return None  # whoever wrote a piece of code says so in it
    while start < stop and text[start] in " \t":
        start += 1
    name = text[start:stop]
    if is_name(name, Place.ROLE, beside=""):
        return start, stop
    if _TRAILED.search(text, floor, start):  # `Reviewed-by: Can Aydin <…>`
        parts = person_at(text, start, stop)
        if len(parts) > 1 and parts[-1][1] == stop:
            return start, stop
    if (name.islower() or name.isupper()) and _MAILED.search(text, floor, start):
        titled = FIRST_LETTERS.sub(lambda first: first.group().upper(), name.lower())
        parts = person_at(titled, 0, len(titled)) if len(titled) == len(name) else []
        if len(parts) > 1 and parts[-1][1] == len(titled) and is_unusual(titled, parts):
            return start, stop
    parts = person_at(text, start, stop)
    if len(parts) == 1 and parts[0][1] == stop and _MAILED.search(text, floor, start):
        return start, stop  # `From: Jane <…>`
    return None


def trailer_names(source: Source) -> Iterator[Span]:
    """`Reviewed-by: Jane Doe`, without an address too."""
    if not source.may_hold_words(_TRAILERS):
        return
    text = source.text
    for _, found, _end in _TRAILER_SEARCH.find_matches_as_indexes(source.folded):
        line = text.rfind("\n", max(0, found - LONGEST), found) + 1
        trailer = _TRAILER.match(text, line)
        if trailer is None:
            continue
        at = trailer.end()
        at += text[at : at + 1] in ("'", '"')
        parts = person_at(text, at, min(len(text), at + LONGEST))
        if len(parts) < 2 or not is_unusual(text, parts) or trailer.group().lstrip()[0] in "#/":
            continue
        tagged = trailer.group().strip().endswith("author")
        if not (tagged or END_OF_VALUE.match(text, parts[-1][1])):
            continue
        if "-by" in trailer.group() or "uthor" in trailer.group() or is_known(text, parts):
            yield Span(at, parts[-1][1], "NAME", 0.8, "trailer")
