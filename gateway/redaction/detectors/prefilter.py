"""Tells with one search which rules can find anything at all in a short text.

Most strings of a request are short (ids, paths, words of an enumeration), and asking every rule
about each of them would cost more than reading the long ones. Every rule says in its `triggers`
what all texts hold in which it finds something, read off its own tables and forms; the literals of
all rules are searched for at once. Invariant: no find is lost
(`tests/gateway/test_redaction_prefilter.py`). Called by `engine`; nothing is remembered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ahocorasick_rs import AhoCorasick

from gateway.redaction.detectors.base import Rule, Source

#: Longer texts hold a trigger of nearly every rule, so the search would only cost time.
SHORT: Final = 400

_DIGIT: Final = re.compile(r"\d")


class Prefilter:
    """What the rules' triggers say together."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._bits: dict[int, int] = {}
        self._always = 0
        self._capital = 0
        self._foreign = 0
        signs: dict[str, int] = {}
        words: dict[str, int] = {}
        digits: dict[int, int] = {}
        for number, rule in enumerate(rules):
            bit = self._bits[id(rule)] = 1 << number
            triggers = rule.triggers()
            if triggers is None:
                self._always |= bit
                continue
            for literal in {written.lower() for written in triggers.literals}:
                held = signs if len(literal) == 1 else words
                held[literal] = held.get(literal, 0) | bit
            if triggers.digits:
                digits[triggers.digits] = digits.get(triggers.digits, 0) | bit
            if triggers.capital:
                self._capital |= bit
            if triggers.foreign:
                self._foreign |= bit
        self._signs = tuple(signs.items())
        self._digits = tuple(sorted(digits.items()))
        self._masks = tuple(words.values())
        self._search = AhoCorasick(tuple(words))

    def bit(self, rule: Rule) -> int:
        """Return the bit of `rule` in what `wanted` returns."""
        return self._bits[id(rule)]

    def wanted(self, source: Source) -> int:
        """Return the bits of the rules that may find something in the text."""
        text, folded = source.text, source.folded
        mask = 0
        for index, _start, _end in self._search.find_matches_as_indexes(folded, overlapping=True):
            mask |= self._masks[index]
        for sign, bits in self._signs:
            if sign in folded:
                mask |= bits
        count = len(_DIGIT.findall(text))
        for least, bits in self._digits:
            if count < least:
                break
            mask |= bits
        if text == folded:
            mask &= ~self._capital
        if self._foreign and not text.isascii():
            mask |= self._foreign
        return mask | self._always
