"""US social security numbers: `AAA-GG-SSSS` with the parts the administration gives out.

Other spellings (spaces, no separator) only where the words around them say what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from gateway.redaction.detectors.base import Rule, Source, Triggers
from gateway.redaction.spans import Span

#: Never given out: area 000, 666, 900-999; group 00; serial 0000 (20 CFR 422.103).
_DASHED: Final = re.compile(
    r"(?<!\w)(?<!\w[.-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?!\w|-\w|\.\d)", re.ASCII
)
#: Searched first: a dash is rarer than a digit.
_MIDDLE: Final = re.compile(r"-\d\d-\d{4}", re.ASCII)
_ANY: Final = re.compile(
    r"(?<![\w.-])(?!000|666|9)\d{3}[ .]?(?!00)\d{2}[ .]?(?!0000)\d{4}(?![\w-]|\.\d)", re.ASCII
)
_WORDS: Final = ("ssn", "social security", "social_security", "social-security", "socialsecurity")
#: How far behind such a word the number may stand, in characters.
_REACH: Final = 40
_LONGEST: Final = 11
_DIGITS: Final = 9


class SsnRule(Rule):
    """Finds US social security numbers."""

    KINDS: ClassVar = ("SSN",)

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(digits=_DIGITS)

    def spans(self, source: Source) -> Iterator[Span]:
        """Dashed numbers anywhere, others behind their name."""
        if not source.may_hold_digits(_DIGITS):
            return
        for middle in _MIDDLE.finditer(source.text):
            match = _DASHED.match(source.text, max(0, middle.start() - 3))
            if match is not None:
                yield Span(match.start(), match.end(), "SSN", 0.9, "ssn")
        for word in _WORDS:
            read = 0  # up to here the text has been looked at for this word
            at = source.folded.find(word)
            while at >= 0:
                start = at + len(word)
                for match in _ANY.finditer(source.text, max(start, read), start + _REACH):
                    yield Span(match.start(), match.end(), "SSN", 0.9, "ssn")
                read = start + _REACH - _LONGEST
                at = source.folded.find(word, start)
