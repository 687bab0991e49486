"""The operator's own words: names, projects, customers, from the policy's terms.

Neither case nor accents matter, in any script; a term is found only as a whole word, except where a
script writes no blanks between words; where one term begins another, the longest wins. The time
does not depend on how many terms there are. A term with signs that escapes are written with
(`CORP\\tom`, `50%25`) must also be looked for in the text as it is: `is_verbatim`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import ClassVar, Final

from ahocorasick_rs import AhoCorasick

from gateway.redaction.detectors.base import Rule, Source, Triggers
from gateway.redaction.policy import Policy
from gateway.redaction.spans import Span

#: Scripts without blanks between words: Han, Kana, Thai, Lao, Khmer, Burmese, Tibetan.
_UNSPACED: Final = re.compile(
    r"[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af]"
)


#: The backslashes of a quotation, but the one that is quoted: `CORP\\tom`, `the \"Heron\"`.
_QUOTING: Final = re.compile(r"\\+(?=[\\\"'`/])")
#: What escapes, marks of Markdown and of diffs are written with.
_SIGNS: Final = frozenset("\\%&\"'`/_+-=\x1b")


class _Folding(dict[int, str]):
    """What each character is compared as: its base letters in small, without accents. Filled as
    characters are met; `odd` are those that are not compared as one character."""

    def __init__(self) -> None:
        super().__init__()
        self.odd: set[str] = set()

    def __missing__(self, point: int) -> str:
        char = chr(point)
        bare = "".join(c for c in unicodedata.normalize("NFD", char) if not _is_accent(c))
        bare = unicodedata.normalize("NFC", bare).casefold()
        bare = "".join(c for c in unicodedata.normalize("NFD", bare) if not _is_accent(c))
        folded = unicodedata.normalize("NFC", bare)
        if len(folded) != 1:
            self.odd.add(char)
        self[point] = folded
        return folded


def _is_accent(char: str) -> bool:
    """An accent of a letter; the vowels of scripts that write them as marks are none."""
    return 0x300 <= ord(char) <= 0x36F


_FOLDING: Final = _Folding()


class TermRule(Rule):
    """Finds the policy's terms."""

    KINDS: ClassVar = ("TERM",)

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        #: Whether a term may be hidden by how a text is read through escapes.
        self.is_verbatim = any(_SIGNS & set(term) for term in policy.terms)
        folded = {_QUOTING.sub("", term).translate(_FOLDING) for term in policy.terms}
        self._terms = tuple(sorted(term for term in folded if term.strip()))
        self._search = AhoCorasick(self._terms) if self._terms else None

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(literals=self._terms, foreign=bool(self._terms))

    def spans(self, source: Source) -> Iterator[Span]:
        """Yield the longest term at every place."""
        if self._search is None:
            return
        folded, places = (_unquoted if self.is_verbatim else _folded)(source.text)
        longest: dict[int, int] = {}
        for _, start, end in self._search.find_matches_as_indexes(folded, overlapping=True):
            if end > longest.get(start, 0) and _is_apart(folded, start, end):
                longest[start] = end
        done = 0
        for start in sorted(longest):
            if start < done:
                continue
            done = longest[start]
            first, last = (start, done) if places is None else (places[start], places[done])
            yield Span(first, last, "TERM", 1.0, "terms")


def _folded(text: str) -> tuple[str, list[int] | None]:
    """The text as it is compared, and where each of its characters begins in `text`; None where
    every one stands at the same place."""
    if text.isascii():
        return text.lower(), None
    folded = text.translate(_FOLDING)
    if len(folded) == len(text) and not any(char in text for char in _FOLDING.odd):
        return folded, None
    places: list[int] = []
    for at, char in enumerate(text):
        places += [at] * len(_FOLDING[ord(char)])
    places.append(len(text))
    return folded, places


def _unquoted(text: str) -> tuple[str, list[int] | None]:
    """The same without the backslashes of quotations; each belongs to the sign behind it."""
    quoting = [found.span() for found in _QUOTING.finditer(text)]
    if not quoting:
        return _folded(text)
    begins: list[int] = []
    at = 0
    for start, end in quoting:
        begins += (*range(at, start), start)
        at = end + 1
    begins += range(at, len(text) + 1)
    folded, places = _folded(_QUOTING.sub("", text))
    return folded, begins if places is None else [begins[place] for place in places]


def _is_apart(text: str, start: int, end: int) -> bool:
    """Whether what is found is a word, or words, of its own."""
    return not (
        _joins(text[start - 1 : start], text[start]) or _joins(text[end : end + 1], text[end - 1])
    )


def _joins(neighbor: str, edge: str) -> bool:
    """Whether the neighboring character continues the word that ends in `edge`."""
    if not neighbor:
        return False
    if unicodedata.combining(neighbor):
        return True
    if _UNSPACED.match(edge) or _UNSPACED.match(neighbor):
        return False
    return (edge.isalnum() or edge == "_") and (neighbor.isalnum() or neighbor == "_")
