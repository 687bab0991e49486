"""The operator's own words: names, projects, customers, from the policy's terms.

Case does not matter, in any script; a term is found only as a whole word; where one term begins
another, the longest wins. The time does not depend on how many terms there are.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from typing import ClassVar, Final

from gateway.redaction.detectors.base import Rule, Source, Triggers
from gateway.redaction.policy import Policy
from gateway.redaction.spans import Span

_WORD: Final = re.compile(r"\w+")


class TermRule(Rule):
    """Finds the policy's terms."""

    KINDS: ClassVar = ("TERM",)

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        #: By first word; terms that begin with a sign are searched for one by one.
        self._by_word: dict[str, list[str]] = defaultdict(list)
        self._other: list[str] = []
        forms = {
            unicodedata.normalize(form, term).lower()
            for term in policy.terms
            for form in ("NFC", "NFD")
        }
        for term in sorted(forms, key=lambda t: (-len(t), t)):
            word = _WORD.match(term)
            if word is None:
                self._other.append(term)
            else:
                self._by_word[word.group()].append(term)

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(
            literals=tuple(
                term for terms in (*self._by_word.values(), self._other) for term in terms
            )
        )

    def spans(self, source: Source) -> Iterator[Span]:
        """Yield the longest term at every word."""
        if self._by_word:
            for word in _WORD.finditer(source.folded):
                for term in self._by_word.get(word.group(), ()):
                    if self._is_here(source.folded, word.start(), term):
                        yield self._span(word.start(), term)
                        break
        for term in self._other:
            at = source.folded.find(term)
            while at >= 0:
                if self._is_here(source.folded, at, term):
                    yield self._span(at, term)
                at = source.folded.find(term, at + 1)

    def _is_here(self, text: str, at: int, term: str) -> bool:
        if not text.startswith(term, at):
            return False
        return not (
            _joins(text[at - 1 : at], term[0])
            or _joins(text[at + len(term) : at + len(term) + 1], term[-1])
        )

    def _span(self, at: int, term: str) -> Span:
        return Span(at, at + len(term), "TERM", 1.0, "terms")


def _joins(neighbor: str, edge: str) -> bool:
    """Whether the neighboring character continues the word that ends in `edge`."""
    if not neighbor:
        return False
    if unicodedata.combining(neighbor):
        return True
    return (edge.isalnum() or edge == "_") and (neighbor.isalnum() or neighbor == "_")
