"""What a rule is: a Presidio recognizer that can also say what it finds as plain spans.

Invariants every rule keeps: pure (no network, no files, no state between texts), and linear: work
is bounded per trigger (a literal or a digit run), never by the length of the text around it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from presidio_analyzer import EntityRecognizer, RecognizerResult

from gateway.redaction.policy import Policy
from gateway.redaction.spans import Span

#: Stands for each character of a token in the text rules see: no letter, digit, blank or sign.
HIDDEN: Final = "\ufdd0"


class Source:
    """One text under examination, with the forms that several rules share."""

    __slots__ = ("_folded", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._folded: str | None = None

    @property
    def folded(self) -> str:
        """The text in lower case, character for character at the same offsets."""
        if self._folded is None:
            folded = self.text.lower()
            if len(folded) != len(self.text):  # a few capitals have two-character lower forms
                folded = "".join(c.lower() if len(c.lower()) == 1 else c for c in self.text)
            self._folded = folded
        return self._folded


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
