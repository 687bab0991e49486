"""What kind of project a directory holds, for `init --auto`.

Owns the signs of a language: a manifest that says the project uses it, and source files that say
how much. The language with a manifest and the most source files leads; the others are named.
Dependencies, build output and dot directories are not looked into, and after 20,000 files the
count is good enough. Only reads directories; `choragos init` calls it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Existing decks stop counting here (contracts/deck.md section 1.3).
FILE_CAP: Final = 20_000

_SKIPPED: Final = frozenset(
    {
        "node_modules",
        "bower_components",
        "vendor",
        "target",
        "dist",
        "build",
        "out",
        "venv",
        "env",
        "virtualenv",
        "site-packages",
        "__pycache__",
        "third_party",
    }
)


@dataclass(frozen=True, slots=True)
class Language:
    """One language `init --auto` has a team for."""

    key: str
    name: str
    manifests: tuple[str, ...]
    suffixes: tuple[str, ...]


LANGUAGES: Final = (
    Language("go", "Go", ("go.mod",), (".go",)),
    Language(
        "node",
        "Node",
        ("package.json",),
        (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".vue", ".svelte"),
    ),
    Language("rust", "Rust", ("Cargo.toml",), (".rs",)),
    Language(
        "python", "Python", ("pyproject.toml", "setup.py", "requirements.txt"), (".py", ".pyi")
    ),
)


def detect(directory: Path) -> tuple[Language, ...]:
    """Return the languages the project has a manifest of, the one with most source files first."""
    manifests: set[str] = set()
    sources = dict.fromkeys((language.key for language in LANGUAGES), 0)
    for name in _file_names(directory):
        for language in LANGUAGES:
            if name in language.manifests:
                manifests.add(language.key)
            # A setup.py alone is a manifest, not yet a program.
            elif name.endswith(language.suffixes):
                sources[language.key] += 1
    found = [language for language in LANGUAGES if language.key in manifests]
    return tuple(sorted(found, key=lambda language: -sources[language.key]))


def _file_names(directory: Path) -> Iterator[str]:
    seen = 0
    for _, folders, files in os.walk(directory):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _SKIPPED)
        for name in sorted(files):
            seen += 1
            if seen > FILE_CAP:
                return
            yield name
