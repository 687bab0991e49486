"""Presidio's recognizer interface without the language models it imports beside it.

Importing `presidio_analyzer` imports spaCy, half a second and 60 MB for each worker, while our own
rules need two small classes of it. `import_lightly` puts a package into place that gives out these
and becomes the whole package when anything else is asked of it. Invariant: every class is the one
the whole package has. Called by `worker` and `inspecting` before the rules are imported; `plugins`
and `ner` make the package whole before anything else imports parts of it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any, Final

_NAME: Final = "presidio_analyzer"
#: What the rules and these modules themselves need, and the module each is in.
_LIGHT: Final = {
    "EntityRecognizer": "entity_recognizer",
    "RecognizerResult": "recognizer_result",
    "AnalysisExplanation": "analysis_explanation",
}


class _Package(ModuleType):
    """Stands for the package until more is wanted than `_LIGHT`."""

    def __getattr__(self, name: str) -> Any:
        if name in _LIGHT:
            value = getattr(importlib.import_module(f"{_NAME}.{_LIGHT[name]}"), name)
            setattr(self, name, value)
            return value
        if name.startswith("__") or self.__spec__ is None or self.__spec__.loader is None:
            raise AttributeError(f"module {_NAME!r} has no attribute {name!r}")
        self.__class__ = ModuleType  # type: ignore[assignment]
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def import_lightly() -> None:
    """Put the light package into place, unless the whole one is there already."""
    if _NAME in sys.modules:
        return
    spec = importlib.util.find_spec(_NAME)
    if spec is None or spec.submodule_search_locations is None:
        return  # the import itself will say what is wrong
    package = _Package(_NAME)
    package.__spec__, package.__file__ = spec, spec.origin
    package.__path__ = spec.submodule_search_locations
    package.__package__, package.__loader__ = _NAME, spec.loader
    sys.modules[_NAME] = package


def import_whole() -> None:
    """Make the package whole, before anything imports modules of it in an order of its own: spaCy
    does as it loads a model, because the package registers a part of a pipeline; operators'
    recognizers may, and the package's own loader of them."""
    package = importlib.import_module(_NAME)
    _ = package.PatternRecognizer
