"""Keys that say whose they are: a provider's prefix and the shape it gives them; JSON web tokens,
whose first bytes are always `eyJ`; stored password hashes; private keys without their armor.

One search for the literals that the shapes must hold (`literals` reads them off the shapes) finds
where each shape is tried, so a text without keys costs next to nothing. Stand-ins of documentation
(`sk-xxxxxxxx`, `ghp_YOUR_TOKEN`, `…EXAMPLE`) are no keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from ahocorasick_rs import AhoCorasick, Implementation

from gateway.redaction.detectors.base import Rule, Source, Triggers
from gateway.redaction.detectors.literals import required
from gateway.redaction.detectors.provider_table import HASHES, KEYS, UNARMORED
from gateway.redaction.detectors.repeats import repeats_of
from gateway.redaction.detectors.values import is_stand_in
from gateway.redaction.spans import Span

#: A key ends where its word ends.
_NOT_AFTER: Final = r"(?![A-Za-z0-9])"


class Row:
    """One compiled row: the match begins `least` to `most` characters before a literal."""

    __slots__ = ("kind", "least", "literals", "most", "name", "part", "pattern")

    def __init__(self, name: str, shape: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.pattern = re.compile(f"(?:{shape}){_NOT_AFTER}", re.ASCII)
        self.part = "key" if "key" in self.pattern.groupindex else 0
        found = required(shape)
        self.literals = found.literals
        self.least = found.least
        self.most = found.most


#: In the order of preference where two rows match at the same place.
TABLE: Final = (
    *(Row(name, shape, "JWT" if name == "jwt" else "APIKEY") for name, shape in KEYS),
    *(Row(name, shape, "SECRET") for name, shape in HASHES),
    *(Row(name, shape, "PRIVATEKEY") for name, shape in UNARMORED),
)


def _by_literal() -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for row in TABLE:
        for literal in row.literals:
            rows.setdefault(literal, []).append(row)
    return rows


_ROWS_OF: Final = _by_literal()
_LITERALS: Final = tuple(_ROWS_OF)
_ROWS: Final = tuple(_ROWS_OF[literal] for literal in _LITERALS)
_SEARCH: Final = AhoCorasick(_LITERALS, implementation=Implementation.DFA)


#: More than is ever read before and behind a literal.
_BACK: Final = 512
_AHEAD: Final = 16_384


class ProviderKeyRule(Rule):
    """Finds keys by their provider's prefix, web tokens, password hashes, bare private keys."""

    KINDS: ClassVar = ("APIKEY", "JWT", "SECRET", "PRIVATEKEY")

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(literals=_LITERALS)

    def spans(self, source: Source) -> Iterator[Span]:
        """Search all literals at once, then the shapes of those found, at their places."""
        text = source.text
        done: dict[str, int] = {}
        places = _SEARCH.find_matches_as_indexes(text, overlapping=True)
        repeats = repeats_of(text, len(places), back=_BACK, ahead=_AHEAD)
        passed = 0
        for index, at, after in places:
            if after < passed:
                continue
            # What was found hides what begins in it, and that may begin before this literal.
            if repeats is not None and max(done.values(), default=0) <= after - _BACK:
                passed, again = repeats.skip(after)
                yield from again
                if after < passed:
                    continue
            for row in _ROWS[index]:
                if at < done.get(row.name, 0):
                    continue
                match = _match(text, at, row)
                if match is None:
                    if row.kind == "JWT":  # its word may hold the literal many times
                        word = _TOKEN_WORD.match(text, at)
                        done[row.name] = word.end() if word else at + 1
                    continue
                done[row.name] = max(match.end(), at + 1)
                spans = list(_keys(text, row, match, after))
                if repeats is not None:
                    repeats.found += spans
                yield from spans


def _keys(text: str, row: Row, match: re.Match[str], after: int) -> Iterator[Span]:
    """What a row matched; `after` is where its literal ends."""
    start, end = match.span(row.part)
    if _is_stand_in(text[max(start, min(after, end - 8)) : end], row) or (
        row.name == "azure-storage" and _CHECKSUM.search(text, max(0, start - 60), start)
    ):
        return
    yield Span(start, end, row.kind, 0.95, row.name)
    if row.name == "aws":
        yield from _other_half(text, start, end)


def _match(text: str, at: int, row: Row) -> re.Match[str] | None:
    for lead in range(row.least, row.most + 1):
        start = at - lead
        if start < 0:
            break
        if _begins(text, start):
            match = row.pattern.match(text, start)
            if match is not None:
                return match
    return None


def _begins(text: str, start: int) -> bool:
    """Whether a key may begin here: not in the middle of a word."""
    if start == 0:
        return True
    before = text[start - 1]
    if not (before.isascii() and before.isalnum()):
        return before not in "+/=" or text[start] not in "+/="
    if not text[start].isalnum():
        return True
    return start > 1 and text[start - 2] == "\\" and before in "nrt"


#: The checksums that packages are locked with have the shape of some keys.
_SUM_LIKE: Final = frozenset({"azure-storage"})
_CHECKSUM: Final = re.compile(r"sha-?\d{3}|integrity|checksum|digest|hash|ENC\[", re.IGNORECASE)
_SUM_REACH: Final = 60


def _is_sum(text: str, start: int) -> bool:
    return _CHECKSUM.search(text, max(0, start - _SUM_REACH), start) is not None


def _is_stand_in(body: str, row: Row) -> bool:
    """`body` is the key without its prefix."""
    if row.kind != "APIKEY":
        return False
    return len(set(body)) <= 2 or is_stand_in(body)


#: The secret of an AWS pair has no prefix; it is found beside its key's id.
_AWS_SECRET: Final = re.compile(r"(?<![A-Za-z0-9/+_-])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=_-])")
_PAIR_REACH: Final = 160


def _other_half(text: str, start: int, end: int) -> Iterator[Span]:
    for first, last in ((end, end + _PAIR_REACH), (max(0, start - _PAIR_REACH), start)):
        match = _AWS_SECRET.search(text, first, last)
        if match is not None:
            value = match.group()
            if any(c.isupper() for c in value) and any(c.islower() for c in value):
                yield Span(match.start(), match.end(), "APIKEY", 0.9, "aws-secret")
                return


_TOKEN_WORD: Final = re.compile(r"[\w-]+", re.ASCII)
