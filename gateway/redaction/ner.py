"""Names by a language model: the rule that asks one, in workers.

Off unless the policy has `[ner]`. Invariants: a model is loaded from files `models` has found on
this machine, and from nowhere else; a line is judged by itself alone and its result kept by its
content, so that the same line gives the same names on every turn and in every worker. What the
model says is weighed by `naming`, and only lines that `prose` finds worth it are read at all: a
fortieth of source code. Made by the engine where a policy asks for it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from gateway.redaction import naming, prose
from gateway.redaction.detectors.base import HIDDEN, Rule, Source
from gateway.redaction.models import places, read_config, shown
from gateway.redaction.naming import Entity
from gateway.redaction.policy import Policy, PolicyError
from gateway.redaction.presidio import import_whole
from gateway.redaction.redactor import SpanCache
from gateway.redaction.spans import Span

#: Parts of a pipeline that names do not need: without them it is twice as fast and finds the same
#: (sm: the same names on 40 KB; md: 6 of 2,098 differ).
_NOT_NEEDED: Final = (
    "tagger",
    "parser",
    "attribute_ruler",
    "lemmatizer",
    "trainable_lemmatizer",
    "morphologizer",
    "senter",
    "sentencizer",
    "textcat",
    "textcat_multilabel",
)
#: What models and Presidio call what they find, and what a policy calls it.
_LABELS: Final = {
    "PER": "PERSON",
    "GPE": "LOCATION",
    "LOC": "LOCATION",
    "FAC": "LOCATION",
    "ORG": "ORGANIZATION",
}
_KINDS: Final = {"PERSON": "NAME", "LOCATION": "ADDRESS", "ORGANIZATION": "ORGANIZATION"}
#: spaCy gives no probability; Presidio gives all its finds this score.
_SCORE: Final = 0.85
#: Longest stretch of a line read at once, in characters: speed is best there and nothing is lost.
_STRETCH: Final = 2000
#: Lines read together; more only needs memory (measured 50 KB/s at 16, 61 at 64).
_BATCH: Final = 64
#: Lines remembered, with the places of their names.
_LINES: Final = 65_536
_SPACE: Final = re.compile(r"\s")


class Model(Protocol):
    """Something that finds entities in texts."""

    def entities(self, texts: Sequence[str]) -> list[list[Entity]]:
        """Return what is found in each text, under Presidio's names."""


def load_model(policy: Policy) -> Model:
    """Load what `[ner]` of the policy names, from files of this machine. Raises PolicyError."""
    assert policy.ner is not None
    found = places(policy, policy.ner)
    try:
        if policy.ner.nlp_config is not None:
            return _PresidioModel(read_config(policy, policy.ner.nlp_config), policy.languages)
        return _SpacyModel(found[0].path)
    except PolicyError:
        raise
    except Exception as error:
        raise PolicyError(
            f"The language model {shown(policy.ner)} of the policy '{policy.id}' cannot be loaded "
            f"({type(error).__name__}); install one made for the installed spaCy."
        ) from None


class NameRule(Rule):
    """Finds names with a model. `model` is given by tests; else the policy's is loaded."""

    KINDS = tuple(_KINDS.values())

    def __init__(self, policy: Policy, model: Model | None = None) -> None:
        super().__init__(policy)
        assert policy.ner is not None
        self._wanted = frozenset(policy.ner.kinds)
        self._least = policy.ner.min_score
        self._model = load_model(policy) if model is None else model
        self._known = SpanCache(_LINES)

    def spans(self, source: Source) -> Iterator[Span]:
        """Yield the names of every line that may hold one."""
        places: list[tuple[int, bytes]] = []
        marks: dict[str, bytes | None] = {}
        unread: dict[bytes, str] = {}
        for at, line in _stretches(source.text):
            if line not in marks:
                marks[line] = mark = _mark(line)
                if mark is not None and self._known.get(mark) is None:
                    unread[mark] = line
            if (known := marks[line]) is not None:
                places.append((at, known))
        fresh = dict(zip(unread, self._read(list(unread.values())), strict=True))
        for mark, spans in fresh.items():
            self._known.put(mark, spans)
        for at, mark in places:
            for span in fresh.get(mark) or self._known.get(mark) or ():
                yield Span(at + span.start, at + span.end, span.kind, span.score, span.rule)

    def _read(self, lines: list[str]) -> list[list[Span]]:
        readings: list[tuple[str, bool, naming.Reading, list[Span]]] = []
        for line, said in zip(
            lines, self._model.entities([_visible(s) for s in lines]), strict=True
        ):
            is_prose = prose.is_prose(line)
            reading = naming.read(line, prose.words(line), is_prose, said)
            readings.append((line, is_prose, reading, self._others(line, said)))
        asked = [
            line[group.start : group.end]
            for line, _, reading, _ in readings
            for group in reading.doubtful
        ]
        answers = iter(self._confirmed(asked))
        results: list[list[Span]] = []
        for line, is_prose, reading, others in readings:
            confirmed = [next(answers) for _ in reading.doubtful]
            names = naming.finish(line, is_prose, reading, confirmed)
            spans = (names if "NAME" in self._wanted else []) + others
            results.append([span for span in spans if span.score >= self._least])
        return results

    def _confirmed(self, asked: list[str]) -> list[bool]:
        """Whether each of `asked` is a person in a plain sentence."""
        if not asked:
            return []
        start = naming.PLAIN.index("{")
        told = self._model.entities([naming.PLAIN.format(words) for words in asked])
        return [
            any(
                e.label == naming.PERSON and e.start <= start and e.end >= start + len(words)
                for e in entities
            )
            for words, entities in zip(asked, told, strict=True)
        ]

    def _others(self, line: str, said: Sequence[Entity]) -> list[Span]:
        """Places and companies, which the model alone decides."""
        return [
            Span(e.start, e.end, kind, e.score, "model")
            for e in said
            if (kind := _KINDS.get(e.label, "")) in self._wanted
            and kind != "NAME"
            and prose.words(line[e.start : e.end])
        ]


def _mark(line: str) -> bytes | None:
    """The name under which the names of a line are remembered; None is not worth reading."""
    found = prose.words(line)
    if not found or not prose.worth_reading(line, found, prose.is_prose(line)):
        return None
    return hashlib.blake2b(line.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _stretches(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text with their offsets; longer ones in pieces that end at a blank."""
    at = 0
    while at <= len(text):
        end = text.find("\n", at)
        if end < 0:
            end = len(text)
        while end - at > _STRETCH:
            cut = max(text.rfind(". ", at, at + _STRETCH), text.rfind("\u3002", at, at + _STRETCH))
            if cut < at + _STRETCH // 2:
                cut = text.rfind(" ", at, at + _STRETCH)
            cut = at + _STRETCH if cut <= at else cut + 1
            yield at, text[at:cut]
            at = cut
        if end > at:
            yield at, text[at:end]
        at = end + 1


def _visible(line: str) -> str:
    """The line as the model sees it, at the same offsets: hidden tokens are blanks."""
    return _SPACE.sub(" ", line.replace(HIDDEN, " "))


class _SpacyModel:
    """A spaCy pipeline reduced to what names need."""

    def __init__(self, path: Path) -> None:
        import_whole()
        import spacy

        config = spacy.util.load_config(path / "config.cfg")
        pipeline = list(config.get("nlp", {}).get("pipeline", []))
        exclude = [name for name in _NOT_NEEDED if name in pipeline]
        if "tok2vec" in pipeline and not _listens(config):
            exclude.append("tok2vec")
        self._nlp = spacy.load(path, exclude=exclude)
        if not set(self._nlp.pipe_names) & {"ner", "entity_ruler", "beam_ner"}:
            raise PolicyError(f"The language model in {path} has no part that finds names.")

    def entities(self, texts: Sequence[str]) -> list[list[Entity]]:
        # Words seen are forgotten again: the vocabulary would grow with every call.
        with self._nlp.memory_zone():
            return [
                [
                    Entity(e.start_char, e.end_char, _LABELS.get(e.label_, e.label_), _SCORE)
                    for e in doc.ents
                ]
                for doc in self._nlp.pipe(texts, batch_size=_BATCH)
            ]


class _PresidioModel:
    """An operator's own Presidio NLP engine; several languages are asked one after another."""

    def __init__(self, configuration: dict[str, Any], languages: Sequence[str]) -> None:
        import_whole()
        from presidio_analyzer.nlp_engine import NlpEngineProvider

        self._engine = NlpEngineProvider(nlp_configuration=configuration).create_engine()
        served = self._engine.get_supported_languages()
        self._languages = [code for code in served if code in languages] or list(served)

    def entities(self, texts: Sequence[str]) -> list[list[Entity]]:
        found: list[list[Entity]] = [[] for _ in texts]
        for language in self._languages:
            batch = self._engine.process_batch(list(texts), language, batch_size=_BATCH)
            for place, (_, artifacts) in enumerate(batch):
                found[place] += [
                    Entity(e.start_char, e.end_char, _LABELS.get(e.label_, e.label_), float(score))
                    for e, score in zip(artifacts.entities, artifacts.scores, strict=True)
                ]
        return found


def _listens(config: Any) -> bool:
    """Whether the part that finds names reads the vectors of a part shared with others."""
    model = config.get("components", {}).get("ner", {}).get("model", {})
    return "Listener" in str(model.get("tok2vec", {}).get("@architectures", ""))
