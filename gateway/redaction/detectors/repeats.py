"""What was found beside a word is found again wherever the text around it repeats, without another
look.

A reader that goes from word to word through a text in which words are dense asks at each of them
whether its surroundings are those of an earlier one, and how far both go on alike; over that far it
takes what it found there. Invariant: exact for a reader that decides by `back` characters before a
word and `ahead` behind it; and linear. Called by the parts of `SecretRule`, one for each text.
"""

from __future__ import annotations

from typing import Final

from gateway.redaction.spans import Span

#: Shorter texts, and those with fewer words than one in so many characters, are read word by word.
_LONG: Final = 12_000
_DENSE: Final = 64
#: What tells at once that most words stand elsewhere.
_BESIDE: Final = 16
_MOST_PLACES: Final = 4096


class Repeats:
    """What one reader found in one text so far. `found` is the reader's to fill, in the order in
    which it finds."""

    __slots__ = ("_ahead", "_back", "_places", "_text", "found")

    def __init__(self, text: str, *, back: int, ahead: int) -> None:
        self.found: list[Span] = []
        self._text = text
        self._back = back
        self._ahead = ahead
        #: Where a word with the same text beside it was last, and how much was found before it.
        self._places: dict[str, tuple[int, int]] = {}

    def skip(self, at: int) -> tuple[int, list[Span]]:
        """Return where the reader, free to read the word at `at`, may go on instead, and what it
        would have found until there."""
        text = self._text
        if at < _BESIDE:
            return at, []
        beside = text[at - _BESIDE : at + _BESIDE]
        known = self._places.get(beside)
        if known is not None and known[0] == at:
            return at, []
        if len(self._places) > _MOST_PLACES:
            self._places.clear()
        self._places[beside] = at, len(self.found)
        if known is None:
            return at, []
        first, count = known
        by = at - first
        times = (self._alike(first, at) - self._ahead) // by
        if times < 1:
            return at, []
        again = self.found[count:]
        copies = [moved(span, by * time) for time in range(1, times + 1) for span in again]
        self.found += copies
        return at + by * times, copies

    def _alike(self, first: int, second: int) -> int:
        """How far behind two places the text is the same; 0 where it differs close to them."""
        text, ahead = self._text, self._ahead
        begin = first - self._back
        if (
            begin < 0
            or second + ahead > len(text)
            or text[begin : first + ahead] != text[second - self._back : second + ahead]
        ):
            return 0
        end, step = ahead, ahead
        while self._is_alike(first + end, second + end, step):
            end += step
            step *= 2
        while step:
            if self._is_alike(first + end, second + end, step):
                end += step
            step //= 2
        return end

    def _is_alike(self, first: int, second: int, length: int) -> bool:
        text = self._text
        return second + length <= len(text) and (
            text[first : first + length] == text[second : second + length]
        )


def repeats_of(text: str, words: int, *, back: int, ahead: int) -> Repeats | None:
    """Return what to ask in a text with so many `words`; None where that would cost more than it
    saves."""
    if len(text) < max(_LONG, 2 * ahead) or words * _DENSE < len(text):
        return None
    return Repeats(text, back=back, ahead=ahead)


def moved(span: Span, by: int) -> Span:
    """The same, so many characters further on."""
    return Span(span.start + by, span.end + by, span.kind, span.score, span.rule)
