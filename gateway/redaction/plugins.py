"""Operators' own recognizers: Presidio classes, named in the policy, installed, or in a YAML file.

Owns where they come from (`recognizers` of the policy, the entry points of the group
`choragos.recognizers`, `recognizers_file` in Presidio's registry format) and how they are asked.
Invariants: one that cannot be made refuses the start with a sentence, because a protection that is
silently off is none; none that works over a network or downloads is made; what a recognizer calls
an entity becomes a kind of ours. A slow pattern is bounded by the time limit of the whole scan,
after which the call is refused: Presidio's own limit would let the text pass unread. Called by the
engine, in scanning workers.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

import yaml
from presidio_analyzer import EntityRecognizer

from gateway.redaction.policy import Policy, PolicyError
from gateway.redaction.presidio import import_whole
from gateway.redaction.spans import Span

GROUP: Final = "choragos.recognizers"

#: What Presidio's own recognizers call things that we have a kind for.
KINDS: Final = {
    "EMAIL_ADDRESS": "EMAIL",
    "PHONE_NUMBER": "PHONE",
    "CREDIT_CARD": "CARD",
    "IBAN_CODE": "IBAN",
    "IP_ADDRESS": "IP",
    "MAC_ADDRESS": "MAC",
    "CRYPTO": "WALLET",
    "US_SSN": "SSN",
    "US_ITIN": "TAXID",
    "US_PASSPORT": "PASSPORT",
    "UK_PASSPORT": "PASSPORT",
    "IT_PASSPORT": "PASSPORT",
    "IN_PASSPORT": "PASSPORT",
    "UK_NINO": "NATIONAL_ID",
    "UK_NHS": "HEALTH",
    "US_MBI": "HEALTH",
    "MEDICAL_LICENSE": "HEALTH",
    "ES_NIF": "NATIONAL_ID",
    "ES_NIE": "NATIONAL_ID",
    "IT_FISCAL_CODE": "NATIONAL_ID",
    "IT_VAT_CODE": "VAT",
    "PL_PESEL": "NATIONAL_ID",
    "FI_PERSONAL_IDENTITY_CODE": "NATIONAL_ID",
    "PERSON": "NAME",
    "LOCATION": "ADDRESS",
}
_NOT_IN_A_KIND: Final = re.compile(r"[^A-Z]+")
#: Below this nothing counts: patterns so weak ("five digits", 0.01) are meant to count only beside
#: a word of their context.
LEAST: Final = 0.3
#: Presidio's own weight of a context word, the least score beside one, and how many words before
#: a find it looks at (LemmaContextAwareEnhancer).
_CONTEXT_SCORE: Final = 0.35
_CONTEXT_LEAST: Final = 0.4
_CONTEXT_WORDS: Final = 5
_CONTEXT_CHARACTERS: Final = 120
_WORD: Final = re.compile(r"\w+")
#: Longer than any scan may take: see the module's invariants.
_PATTERN_SECONDS: Final = 3600
_FILE_BYTES: Final = 4 * 1024 * 1024
#: Modules of Presidio whose recognizers ask a service, or a model they would fetch.
_REMOTE: Final = (".third_party.", ".ner.", ".nlp_engine_recognizers.")
_REGEX_FLAGS: Final = re.DOTALL | re.MULTILINE | re.IGNORECASE


class OwnRecognizer:
    """One operator's recognizer, asked for spans."""

    def __init__(self, recognizer: EntityRecognizer) -> None:
        self._recognizer = recognizer
        self.name = str(getattr(recognizer, "name", "") or type(recognizer).__name__)
        self._context = [str(word).lower() for word in getattr(recognizer, "context", None) or ()]

    def spans(self, text: str) -> Iterator[Span]:
        """Yield what it finds in `text`, under our kinds."""
        # No language model runs here; recognizers that need one are not for this engine.
        nothing: Any = None
        entities = self._recognizer.supported_entities
        for result in self._recognizer.analyze(text, entities, nothing) or ():
            score = self._score(text, result.start, float(result.score))
            if score >= LEAST:
                yield Span(result.start, result.end, kind_of(result.entity_type), score, self.name)

    def _score(self, text: str, start: int, score: float) -> float:
        """Raise the score where a word of the context stands before the find."""
        if not self._context:
            return score
        before = text[max(0, start - _CONTEXT_CHARACTERS) : start].lower()
        near = _WORD.findall(before)[-_CONTEXT_WORDS:]
        if not any(word in said for said in near for word in self._context):
            return score
        return min(1.0, max(score + _CONTEXT_SCORE, _CONTEXT_LEAST))


def kind_of(entity: str) -> str:
    """Return the kind for what Presidio calls `entity`."""
    known = KINDS.get(entity)
    if known is not None:
        return known
    return _NOT_IN_A_KIND.sub("_", entity.upper()).strip("_")[:32].rstrip("_") or "CUSTOM"


def load_own(policy: Policy) -> list[OwnRecognizer]:
    """Make every recognizer an operator added. Raises PolicyError."""
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    if policy.recognizers or points or policy.recognizers_file is not None:
        import_whole()  # they import modules of Presidio in an order of their own
    made = [_named(name, policy) for name in policy.recognizers]
    made += [_installed(point) for point in points if point.value not in policy.recognizers]
    if policy.recognizers_file is not None:
        made += _from_file(policy.recognizers_file, policy)
    if made:
        _leave_time_to_the_scan()
    return [OwnRecognizer(recognizer) for recognizer in made]


def digest(policy: Policy) -> str:
    """Return a digest of the recognizers file, for cache keys."""
    if policy.recognizers_file is None:
        return ""
    return hashlib.sha256(_read(policy.recognizers_file, policy).encode()).hexdigest()


def _named(name: str, policy: Policy) -> EntityRecognizer:
    """Make the recognizer `package.module:Class` an operator's policy names."""
    module, _, attribute = name.partition(":")
    try:
        made: Any = getattr(importlib.import_module(module), attribute)()
    except Exception as error:
        raise PolicyError(
            f"The recognizer '{name}' of the policy '{policy.id}' cannot be loaded "
            f"({type(error).__name__}); install its package or correct the name."
        ) from None
    if not isinstance(made, EntityRecognizer):
        raise PolicyError(
            f"The recognizer '{name}' of the policy '{policy.id}' is not a Presidio "
            "EntityRecognizer; name a class that is one."
        )
    return made


def _installed(point: Any) -> EntityRecognizer:
    try:
        made: Any = point.load()()
    except Exception as error:
        raise PolicyError(
            f"The installed recognizer '{point.name}' ({point.value}) cannot be loaded "
            f"({type(error).__name__}); update its package or remove it."
        ) from None
    if not isinstance(made, EntityRecognizer):
        raise PolicyError(
            f"The installed recognizer '{point.name}' ({point.value}) is not a Presidio "
            "EntityRecognizer; update its package or remove it."
        )
    return made


# -- the YAML file --------------------------------------------------------------------------------


def _read(path: Path, policy: Policy) -> str:
    try:
        if path.stat().st_size > _FILE_BYTES:
            raise PolicyError(f"The recognizers file {path} is larger than 4 MiB; shorten it.")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not UTF-8"
        raise PolicyError(
            f"The recognizers file {path} of the policy '{policy.id}' cannot be read ({reason}); "
            "correct the path or the file."
        ) from None


def _from_file(path: Path, policy: Policy) -> list[EntityRecognizer]:
    """Make the recognizers of a file in the format of Presidio's recognizer registry."""
    try:
        document = yaml.safe_load(_read(path, policy))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark is not None else ""
        raise PolicyError(f"The recognizers file {path} is not YAML{line}; correct it.") from None
    entries = document.get("recognizers") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries:
        raise PolicyError(
            f"The recognizers file {path} needs 'recognizers', a list in Presidio's format."
        )
    made: list[EntityRecognizer] = []
    for number, entry in enumerate(entries, start=1):
        if isinstance(entry, str):
            entry = {"name": entry, "type": "predefined"}  # noqa: PLW2901 - the short form
        if not isinstance(entry, dict):
            raise PolicyError(f"Entry {number} of the recognizers file {path} is not a table.")
        if entry.get("enabled", True):
            where = f"'{str(entry.get('name', number))[:64]}' of the recognizers file {path}"
            made += _from_entry(entry, document, policy, where)
    return made


def _from_entry(
    entry: Mapping[str, Any], document: Mapping[str, Any], policy: Policy, where: str
) -> list[EntityRecognizer]:
    from presidio_analyzer.recognizer_registry.recognizers_loader_utils import RecognizerListLoader

    predefined = entry.get("type", "custom") == "predefined"
    if predefined:
        _refuse_remote(str(entry.get("class_name") or entry.get("name")), where)
    else:
        _check_patterns(entry, where)
    languages = {
        *(document.get("supported_languages") or policy.languages),
        *([entry["supported_language"]] if entry.get("supported_language") else ()),
        *(
            named["language"] if isinstance(named, dict) else named
            for named in entry.get("supported_languages") or ()
        ),
    }
    flags = document.get("global_regex_flags", _REGEX_FLAGS)
    try:
        listed: Any = [dict(entry)]
        made = list(RecognizerListLoader.get(listed, sorted(languages), flags))
    except Exception as error:
        raise PolicyError(
            f"The recognizer {where} cannot be made ({type(error).__name__}); compare it with "
            "Presidio's format."
        ) from None
    if not made:
        raise PolicyError(f"The recognizer {where} serves none of its languages; correct them.")
    return made


def _refuse_remote(name: str, where: str) -> None:
    import presidio_analyzer.predefined_recognizers as shelf

    known: Any = getattr(shelf, name, None)
    if not isinstance(known, type) or not issubclass(known, EntityRecognizer):
        raise PolicyError(
            f"The recognizer {where} is not one of Presidio's; correct its name, or give it "
            "type: custom."
        )
    if any(part in f".{known.__module__}." for part in _REMOTE):
        raise PolicyError(
            f"The recognizer {where} asks a service or fetches a model, which nothing here may "
            "do; remove it, or use [ner] of the policy for names."
        )


def _check_patterns(entry: Mapping[str, Any], where: str) -> None:
    """Presidio compiles patterns when they are first used, which is too late to say so."""
    regex: Any = importlib.import_module("regex")  # it comes with Presidio, without types
    entity = entry.get("supported_entity") or (entry.get("supported_entities") or [None])[0]
    patterns, words = entry.get("patterns") or [], entry.get("deny_list") or []
    if not isinstance(entity, str) or not (patterns or words):
        raise PolicyError(
            f"The recognizer {where} needs supported_entity and patterns or deny_list."
        )
    for pattern in patterns:
        try:
            regex.compile(pattern["regex"], entry.get("global_regex_flags", _REGEX_FLAGS))
            float(pattern["score"])
        except (regex.error, KeyError, TypeError, ValueError):
            raise PolicyError(
                f"A pattern of the recognizer {where} cannot be used; each needs a valid regex and "
                "a score."
            ) from None


def _leave_time_to_the_scan() -> None:
    """Presidio gives up on a slow pattern and goes on as if it had found nothing; the scan's own
    limit refuses the call instead. Its e-mail rule must not fetch the list of domains either."""
    pattern: Any = importlib.import_module("presidio_analyzer.pattern_recognizer")
    pattern.REGEX_TIMEOUT_SECONDS = _PATTERN_SECONDS
    domains: Any = importlib.import_module("tldextract")
    domains.extract = domains.TLDExtract(suffix_list_urls=(), cache_dir=None)
