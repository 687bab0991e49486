"""What a rule is: a Presidio recognizer that can also say what it finds as plain spans.

Invariants every rule keeps: pure (no network, no files, no state between texts), and linear: work
is bounded per trigger (a literal or a digit run), never by the length of the text around it.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Final

from ahocorasick_rs import AhoCorasick, Implementation
from presidio_analyzer import EntityRecognizer, RecognizerResult

from gateway.redaction.policy import Policy
from gateway.redaction.spans import Span

#: Stands for each character of a token in the text rules see: no letter, digit, blank or sign.
HIDDEN: Final = "\ufdd0"


#: Digits of other scripts, which are digits to `re` too.
_OTHER_DIGIT: Final = re.compile(r"(?![0-9])\d")
#: What becomes of each byte of a text in its shape: letters `x`, digits `0`, all else itself.
_SHAPES: Final = bytes(
    ord("0") if chr(code).isdigit() else ord("x") if chr(code).isalpha() else code
    for code in range(128)
) + bytes(range(128, 256))
#: Every blank of ASCII that `\s` means, and the sign of a quoted mail.
_BLANKS: Final = bytes(code for code in range(128) if chr(code).isspace()) + b">"
#: Characters kept beside each digit of a shape: more than any of the shapes searched for has.
_BESIDE: Final = 8
#: Stands between what is kept; in no shape that is searched for.
_CUT: Final = b"\xff"
#: In a text with more digits than one in so many characters, a search of all of it is faster.
_SPARSE: Final = 24
#: What is neither, and the letters that base64 is written in.
_SIGNS: Final = bytes(code for code in range(256) if code not in b"x0")
_BASE64: Final = bytes(
    ord("x") if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "+/") else ord(" ")
    for code in range(256)
)


class Source:
    """One text under examination, with the forms that several rules share.

    Most texts hold nothing for most rules, and a look at the text's shape tells so many times
    faster than a rule's own search. The answers are on the safe side: a no is certain.
    """

    __slots__ = (
        "_dense",
        "_digits",
        "_folded",
        "_found",
        "_joined",
        "_near",
        "_plain",
        "_runs",
        "_shape",
        "_words",
        "noted",
        "text",
    )

    def __init__(self, text: str) -> None:
        self.text = text
        self._folded: str | None = None
        self._plain: bytes | None = None
        self._shape: bytes | None = None
        #: The shape around digits, and where the digits are; what to do without is `_look`'s.
        self._near = b""
        self._digits: tuple[int, ...] | None = None
        self._joined: bytes | None = None
        self._dense: bytes | None = None
        self._runs: bytes | None = None
        self._words = -1
        #: The words of each set in the text, for all sets at once.
        self._found: dict[int, list[Found]] | None = None
        #: What one part of the rules found out that others ask too, by a name of its own.
        self.noted: dict[str, Any] = {}

    @property
    def folded(self) -> str:
        """The text in lower case, character for character at the same offsets."""
        if self._folded is None:
            folded = self.text.lower()
            if len(folded) != len(self.text):  # a few capitals have two-character lower forms
                folded = "".join(c.lower() if len(c.lower()) == 1 else c for c in self.text)
            self._folded = folded
        return self._folded

    @property
    def shape(self) -> bytes:
        """One byte a character: letters of ASCII `x`, digits `0`, other characters of ASCII as
        themselves; empty where a digit of another script makes that no use."""
        return self._look() if self._shape is None else self._shape

    @property
    def digits(self) -> tuple[int, ...] | None:
        """Where the digits are, in order; None where they are too many to go from one to the next,
        or not all of them known."""
        if self._shape is None:
            self._look()
        return self._digits

    def at_digits(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Yield what `pattern`, which begins with a digit, finds in the text."""
        places = self.digits
        if places is None:
            yield from pattern.finditer(self.text)
            return
        text, end = self.text, 0
        for at in places:
            if at >= end and (found := pattern.match(text, at)) is not None:
                end = found.end()
                yield found

    def may_hold(self, *shapes: bytes) -> bool:
        """Whether one of `shapes` (see `shape`) is in the text."""
        shape = self.shape
        if not shape:
            return True
        for piece in shapes:
            if piece in (self._near if b"0" in piece and len(piece) <= _BESIDE else shape):
                return True
        return False

    def may_hold_digits(self, least: int) -> bool:
        """Whether so many digits follow each other with signs and blanks between at most."""
        places = self.digits
        if places is not None and len(places) < least:
            return False
        if self._joined is None:
            self._joined = self.shape.translate(None, _SIGNS)
        return not self._shape or b"0" * least in self._joined

    @property
    def dense(self) -> bytes | None:
        """A text of ASCII without its blanks and the signs of quoted mails; None for others."""
        if self._dense is None and self.text.isascii():
            self._dense = self._bytes().translate(None, _BLANKS)
        return self._dense

    def _look(self) -> bytes:
        """Take the shape, and what stands around its digits."""
        shape = self._bytes().translate(_SHAPES)
        if not self.text.isascii() and _OTHER_DIGIT.search(self.text):
            shape = b""
        self._shape = self._near = shape
        if shape.count(b"0") * _SPARSE <= len(shape):
            between = shape.split(b"0")
            self._near = b"0".join(
                [
                    piece if len(piece) < 2 * _BESIDE else piece[:_BESIDE] + _CUT + piece[-_BESIDE:]
                    for piece in between
                ]
            )
            if shape:
                ends = accumulate(map(len, between[:-1]))
                self._digits = tuple([end + passed for passed, end in enumerate(ends)])
        return shape

    def may_hold_run(self, least: int) -> bool:
        """Whether so many letters and digits of base64 follow each other."""
        if self._runs is None:
            self._runs = self._bytes().translate(_BASE64)
        return b"x" * least in self._runs

    def may_hold_words(self, part: int) -> bool:
        """Whether the text holds one of the words of a `part` (see `part_of`)."""
        if self._found is None:
            self._words, self._found = _search_all(self.folded)
        return self._words & part != 0

    def found(self, words: int) -> list[Found]:
        """Return all words of a set (see `set_of`) that are in the text in lower case, those that
        overlap too, in the order of their ends, of each end the longest first."""
        if self._found is None:
            self._words, self._found = _search_all(self.folded)
        return self._found.get(words, [])

    def _bytes(self) -> bytes:
        """One byte a character, `?` for those beyond Latin-1."""
        if self._plain is None:
            self._plain = self.text.encode("latin-1", "replace")
        return self._plain


#: A word in a text: its number in its set, where it begins, where it ends.
Found = tuple[int, int, int]

#: The words that are searched for in every text, each with the bits of the parts of rules that
#: find nothing without one of their words, and with its numbers in the sets it is of.
_WANTED: Final[dict[str, tuple[int, list[tuple[int, int]]]]] = {}
_part_count = 0
_set_count = 0
_search: AhoCorasick | None = None
_masks: tuple[int, ...] = ()
_numbers: tuple[tuple[tuple[int, int], ...], ...] = ()


def part_of(words: Iterable[str]) -> int:
    """Return the bit of a part of a rule that finds something only beside one of `words`, whatever
    their case; all words of all parts and sets are searched for at once
    (`Source.may_hold_words`)."""
    global _part_count, _search  # noqa: PLW0603 - filled while the rules' modules are imported
    bit = 1 << _part_count
    _part_count += 1
    for word in words:
        bits, numbers = _WANTED.get(word.lower(), (0, []))
        _WANTED[word.lower()] = bits | bit, numbers
    _search = None
    return bit


def set_of(words: Iterable[str]) -> int:
    """Return the name of a set of words in lower case, all places of which `Source.found` tells."""
    global _set_count, _search  # noqa: PLW0603 - filled while the rules' modules are imported
    name = _set_count
    _set_count += 1
    for number, word in enumerate(words):
        _WANTED.setdefault(word, (0, []))[1].append((name, number))
    _search = None
    return name


#: Fewer cannot overlap.
_SOME: Final = 2


def leftmost_longest(found: list[Found]) -> list[Found]:
    """Return those of some words that a reader meets who takes at each place the longest, and goes
    on behind it."""
    chosen: list[Found] = []
    at = 0
    if len(found) < _SOME:
        return found
    for one in sorted(found, key=_beginning):
        if one[1] >= at:
            chosen.append(one)
            at = one[2]
    return chosen


def _beginning(found: Found) -> tuple[int, int]:
    return found[1], -found[2]


def _search_all(folded: str) -> tuple[int, dict[int, list[Found]]]:
    global _search, _masks, _numbers  # noqa: PLW0603 - built when all rules are known
    if _search is None:
        _masks = tuple(bits for bits, _ in _WANTED.values())
        _numbers = tuple(tuple(numbers) for _, numbers in _WANTED.values())
        # A DFA is a tenth faster, which is nothing of a scan, and takes 45 MB of each worker.
        _search = AhoCorasick(tuple(_WANTED), implementation=Implementation.ContiguousNFA)
    mask = 0
    places: dict[int, list[Found]] = {}
    for index, start, end in _search.find_matches_as_indexes(folded, overlapping=True):
        mask |= _masks[index]
        for name, number in _numbers[index]:
            if name in places:
                places[name].append((number, start, end))
            else:
                places[name] = [(number, start, end)]
    return mask, places


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggers:
    """What every text holds in which a rule finds something: one of `literals`, whatever their
    case, or at least so many `digits` (0: their number says nothing), and a letter that is not
    small where `capital` says so; or any character beyond ASCII where `foreign` says so."""

    literals: tuple[str, ...] = ()
    digits: int = 0
    capital: bool = False
    foreign: bool = False


class Rule(EntityRecognizer):
    """Base of the built-in rules. `KINDS` are the kinds its spans may have."""

    KINDS: ClassVar[tuple[str, ...]] = ()

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        super().__init__(supported_entities=list(self.KINDS), name=type(self).__name__)

    def load(self) -> None:
        """Nothing to load: the rules are compiled with their module."""

    def triggers(self) -> Triggers | None:
        """Return what a text must hold to be worth asking, or None where nobody can tell."""
        return None

    @abstractmethod
    def spans(self, source: Source) -> Iterator[Span]:
        """Yield finds in any order; they may overlap."""

    def analyze(
        self, text: str, entities: list[str] | None = None, nlp_artifacts: Any = None
    ) -> list[RecognizerResult]:
        """Presidio's entry point."""
        wanted = set(entities or self.KINDS)
        return [
            RecognizerResult(span.kind, span.start, span.end, span.score)
            for span in self.spans(Source(text))
            if span.kind in wanted
        ]


def occurrences(text: str, literals: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield every place any of `literals` begins; `str.find` is far faster than `re` here."""
    for literal in literals:
        at = text.find(literal)
        while at >= 0:
            yield at, literal
            at = text.find(literal, at + 1)
