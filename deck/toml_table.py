"""A TOML table being read: typed access that says what is wrong in the file's own words.

Owns the form of every complaint: file, key with its table, problem, fix. Invariants: a value of the
wrong type is an error; a key that nobody asked for is a warning with the nearest known key; values
are never repeated in messages, they may hold secrets. Called by `deck.team_reader` and
`deck.role_reader`, which know what the keys mean.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from deck.config import ConfigError

#: Keys that TOML takes without quotes.
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")

_T = TypeVar("_T")
_E = TypeVar("_E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Document:
    """The file being read, and the warnings so far."""

    path: Path
    warnings: list[str] = field(default_factory=list)

    def warn(self, sentence: str) -> None:
        """Add a warning; the file's name is put before it."""
        self.warnings.append(f"{self.path.name}: {sentence}")


class Table:
    """One TOML table being read: typed access that remembers which keys were asked for.

    Each reader returns the default for a key that is left out, and raises ConfigError for a value
    of the wrong type.
    """

    def __init__(self, document: Document, values: Mapping[str, Any], where: str) -> None:
        self._document = document
        self._values = values
        self._where = where
        self._known: set[str] = set()

    @property
    def path(self) -> Path:
        """The file it is in."""
        return self._document.path

    def of(self, values: Mapping[str, Any], where: str) -> Table:
        """Return a table of the same file that stands at `where`."""
        return Table(self._document, values, where)

    def string(self, key: str, default: str) -> str:
        return self._typed(key, default, lambda value: isinstance(value, str), "a string in quotes")

    def boolean(self, key: str, default: bool) -> bool:
        return self._typed(key, default, lambda value: isinstance(value, bool), "true or false")

    def maybe_boolean(self, key: str) -> bool | None:
        return self.boolean(key, default=False) if self._has(key) else None

    def integer(self, key: str, default: int) -> int:
        return self._typed(
            key,
            default,
            lambda value: isinstance(value, int) and not isinstance(value, bool),
            "a whole number",
        )

    def number(self, key: str) -> Decimal:
        value = self._typed(
            key,
            Decimal(0),
            lambda value: isinstance(value, int | Decimal) and not isinstance(value, bool),
            "a number",
        )
        return Decimal(value)

    def strings(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        value = self._typed(
            key,
            list(default),
            lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
            'a list of strings, like ["a", "b"]',
        )
        return tuple(value)

    def choice(self, key: str, default: _E) -> _E:
        text = self.string(key, default.value)
        try:
            return type(default)(text)
        except ValueError:
            allowed = " or ".join(f'"{item}"' for item in type(default) if item)
            self.warn(key, f"must be {allowed}; using {_shown(default)}")
            return default

    def table(self, key: str) -> Table:
        where = f"{self._where}.{key}" if self._where else key
        value: Mapping[str, Any] = self._typed(
            key, {}, lambda value: isinstance(value, dict), f"a table, written as [{where}]"
        )
        return self.of(value, where)

    def entry(self, key: str) -> Table:
        """Return a table whose key is a person's own word, which TOML may want in quotes."""
        name = key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)
        where = f"{self._where}.{name}"
        value: Mapping[str, Any] = self._typed(
            key, {}, lambda value: isinstance(value, dict), f"a table, written as [{where}]"
        )
        return self.of(value, where)

    def tables(self, key: str) -> list[Mapping[str, Any]]:
        return self._typed(
            key,
            [],
            lambda value: isinstance(value, list) and all(isinstance(item, dict) for item in value),
            f"a list of tables, each starting with [[{key}]]",
        )

    def names(self) -> Iterable[str]:
        return self._values.keys()

    def warn(self, key: str, problem: str) -> None:
        self._document.warn(f"{self._label(key)} {problem}")

    def error(self, key: str, problem: str) -> ConfigError:
        return ConfigError(f"{self._document.path}: {self._label(key)} {problem}.")

    def finish(self) -> None:
        """Warn about each key that nobody asked for."""
        for key in self._values:
            if key not in self._known:
                near = difflib.get_close_matches(key, sorted(self._known), n=1, cutoff=0.6)
                hint = f"; did you mean {near[0]}?" if near else "; remove it"
                self._document.warn(f"unknown key {self._label(key)}{hint}")

    def _has(self, key: str) -> bool:
        self._known.add(key)
        return key in self._values

    def _typed(self, key: str, default: _T, fits: Callable[[Any], bool], wanted: str) -> _T:
        if not self._has(key):
            return default
        value = self._values[key]
        if not fits(value):
            raise self.error(key, f"must be {wanted}")
        typed: _T = value
        return typed

    def _label(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key


def _shown(value: StrEnum) -> str:
    return f'"{value}"' if value else "none"
