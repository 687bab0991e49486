"""A table of the policy file, read key by key: each value is what it must be, or an error names it.

Owns the form of every complaint about a value: the file, the key with its tables, what it must be.
Invariant: a key that is not known where it stands is an error naming it, so a typo can never switch
a protection off. Pure. Called by `policy_file` and `policy_evidence`, which know what keys mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from gateway.redaction.policy import PolicyError
from shared.paths import expanded

E = TypeVar("E", bound=StrEnum)

_TIME: Final = re.compile(r"([1-9]\d{0,5})([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True)
class PolicyTable:
    """One table of the policy `source`. `path` is its name with those around it, empty for the
    whole file. Each reader returns the default for a key that is left out and raises PolicyError
    for a value that it cannot be."""

    values: Mapping[str, Any]
    source: str
    path: str = ""

    def name(self, key: str) -> str:
        """Return the key with its tables, as messages name it."""
        return f"{self.path}.{key}" if self.path else key

    def wrong(self, key: str, problem: str) -> PolicyError:
        """Return the error that says what is wrong with the value of `key`."""
        return PolicyError(f"In the policy {self.source}, {self.name(key)} {problem}")

    def only(self, known: frozenset[str]) -> PolicyTable:
        """Return this table if it has none but `known` keys. Raises PolicyError."""
        for key in self.values:
            if key not in known:
                raise PolicyError(
                    f"The policy {self.source} has the unknown key '{self.name(key)}'; known here: "
                    f"{', '.join(sorted(known))}."
                )
        return self

    def table(self, key: str) -> PolicyTable:
        """Return the table at `key`, an empty one if it is left out."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "must be a table.")
        return PolicyTable(value, self.source, self.name(key))

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value as it is."""
        return self.values.get(key, default)

    def needed_text(self, key: str) -> str:
        """Return a text that every policy has."""
        value = self.values.get(key)
        if not isinstance(value, str) or not value.strip():
            raise PolicyError(f"The policy {self.source} needs '{key}', a text in quotes.")
        return value

    def texts(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return a list of texts."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(key, "must be a list of texts.")
        return tuple(value)

    def flag(self, key: str, *, default: bool) -> bool:
        """Return whether it is so."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "must be true or false.")
        return value

    def choice(self, key: str, default: E) -> E:
        """Return one of the words of `default`'s kind."""
        value = self.values.get(key, default)
        options = type(default)
        try:
            return options(value)
        except ValueError:
            known = ", ".join(sorted(options))
            raise self.wrong(key, f"is '{value}'; use one of {known}.") from None

    def fraction(self, key: str, default: float) -> float:
        """Return a number from 0 to 1."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise self.wrong(key, "must be a number from 0 to 1.")
        return float(value)

    def seconds(self, key: str) -> int | None:
        """Return a time in seconds, or None if it is left out."""
        value = self.values.get(key)
        if value is None:
            return None
        found = _TIME.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise self.wrong(key, "must be a time such as '12h', '30d' or '8w'.")
        return int(found[1]) * _SECONDS[found[2]]

    def file(self, key: str, directory: Path | None) -> Path | None:
        """Return a path, which begins in `directory` if it is relative; None if it is left out."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "must be a path in quotes.")
        return (directory or Path()) / expanded(value)

    def patterns(self, key: str) -> re.Pattern[str] | None:
        """Return what matches any of a list of texts: as they are, in any letter case; one `*` in
        each may stand for any run of characters (more would let a pattern take time that grows
        with their number)."""
        texts = self.texts(key)
        for text in texts:
            if text.count("*") > 1 or not text.strip("* "):
                raise self.wrong(
                    key,
                    f"holds '{text}'; write a text with at most one '*' and something beside it.",
                )
        if not texts:
            return None
        alternatives = (".*".join(map(re.escape, text.split("*"))) for text in texts)
        return re.compile("|".join(alternatives), re.IGNORECASE | re.DOTALL)
