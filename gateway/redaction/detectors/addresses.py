"""Street addresses, with the flat before them and the postal place behind them as one value.

Owns the rule: the walk over the words of `street_words`, which finder looks around which of them
(`streets_by_word`, `streets_by_context`), addresses told by their place (`streets_by_place`), and
the address of a card. Left alone: streets without a number, numbers of things (`12 Points`), source
code. Invariant: one pass for all words, bounded work at each. Called by the engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from gateway.redaction.detectors.address_forms import ANY_DIGIT, MOST_SEEN, Found, is_no_ones
from gateway.redaction.detectors.address_tails import with_place_before, with_tail_once
from gateway.redaction.detectors.base import Rule, Source, Triggers, part_of, set_of
from gateway.redaction.detectors.eastern import eastern_addresses
from gateway.redaction.detectors.street_words import STREET_WORDS, Sort
from gateway.redaction.detectors.streets_by_context import (
    by_box,
    by_corner,
    by_flat,
    by_phrase,
    by_ward,
)
from gateway.redaction.detectors.streets_by_place import by_place
from gateway.redaction.detectors.streets_by_word import (
    word_ending,
    word_first,
    word_last,
    word_seldom_last,
)
from gateway.redaction.policy import Policy
from gateway.redaction.spans import Span

_WORD_LIST: Final = tuple(STREET_WORDS)
_WORD_SET: Final = set_of(_WORD_LIST)


class AddressRule(Rule):
    """Finds street addresses."""

    KINDS: ClassVar = ("ADDRESS",)

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._words = _WORD_LIST

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(digits=1)

    def spans(self, source: Source) -> Iterator[Span]:
        """Look around every word that has to do with streets."""
        text, folded = source.text, source.folded
        if not ANY_DIGIT.search(text):
            return
        done = barren = 0
        tails: dict[str, int] = {}
        no_flats: set[tuple[int, str]] = set()
        for index, at, to in source.found(_WORD_SET):
            if to < done:
                continue
            word = self._words[index]
            start = at + (word[0] == " ")
            end = to - (2 if word[-2:] == ", " else word[-1] == " ")
            if folded[end : end + 1].isalpha() and text[end - 1] not in "./":
                continue
            for sort in STREET_WORDS[word]:
                if start < barren and sort is Sort.WARD:
                    continue
                found = _found_once(sort, text, (start, end, done), no_flats)
                if found is None:
                    continue
                first, last = found
                if first == last:
                    barren = last
                    continue
                last = with_tail_once(text, last, tails)
                first = with_place_before(text, first, done)
                done = last
                if is_no_ones(text, first):
                    break
                yield Span(first, last, "ADDRESS", 0.8, f"street-{sort.name.lower()}")
                break
        yield from by_place(source)
        yield from eastern_addresses(text)
        if source.may_hold_words(_CARD):
            yield from _of_cards(text)


#: The address of a card (RFC 6350 section 6.3.1): box, extended, street, place, region, code.
_CARD: Final = part_of(("adr;", "adr:"))
_CARD_LINE: Final = re.compile(
    r"^(?:item\d{1,2}\.)?ADR(?:;[^:\r\n]{1,80})?:(?P<parts>[^;\r\n]{0,80}(?:;[^;\r\n]{0,80}){4,6})",
    re.IGNORECASE | re.MULTILINE,
)


def _of_cards(text: str) -> Iterator[Span]:
    for card in _CARD_LINE.finditer(text):
        parts = card["parts"].split(";")[:6]
        written = ";".join(parts)
        if ANY_DIGIT.search(written) and any(part.strip() for part in parts[2:4]):
            start = card.start("parts") + len(written) - len(written.lstrip("; "))
            end = card.start("parts") + len(written.rstrip("; "))
            yield Span(start, end, "ADDRESS", 0.85, "card")


#: More than is looked at before and behind the word for a flat.
_FLAT_SEEN: Final = 200


def _found_once(
    sort: Sort, text: str, where: tuple[int, int, int], no_flats: set[tuple[int, str]]
) -> Found:
    """What the finder of `sort` finds; `where` is its word and what was read. Flats that belong to
    no street are looked at once, for lines repeat."""
    start, end, done = where
    if sort is not Sort.FLAT:
        return _FINDERS[sort](text, start, end, done)
    key = min(start - done, _FLAT_SEEN), text[max(0, start - _FLAT_SEEN) : end + _FLAT_SEEN]
    if key in no_flats:
        return None
    found = by_flat(text, start, end, done)
    if found is None and len(no_flats) < MOST_SEEN:
        no_flats.add(key)
    return found


_FINDERS: Final = {
    Sort.LAST: word_last,
    Sort.SELDOM_LAST: word_seldom_last,
    Sort.FIRST: word_first,
    Sort.ENDING: word_ending,
    Sort.FLAT: by_flat,
    Sort.BOX: by_box,
    Sort.PHRASE: by_phrase,
    Sort.CORNER: by_corner,
    Sort.WARD: by_ward,
}
