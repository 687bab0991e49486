"""A second opinion on secrets: the scanner of the package kingfisher-secret-scanner, where a policy
has `second_opinion = true`.

Invariants: only its `Scanner` is used, never what asks providers whether a key works, so nothing
reaches the network; its offsets, which count bytes, become ours, which count characters; its
compiled rules are kept in a private directory. Made by the engine where a policy asks for it;
raises PolicyError when the package is not installed.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from gateway.redaction.detectors.base import Rule, Source
from gateway.redaction.policy import Policy, PolicyError
from gateway.redaction.spans import Span
from shared.paths import UnsafeDirectory, private_dir, state_dir

PACKAGE: Final = "kingfisher_sdk"
#: Where its compiled rules are kept; a set variable of its own comes first.
_CACHE: Final = "KF_RULE_CACHE_DIR"
_FOLDER: Final = "second-opinion"


class SecondOpinionRule(Rule):
    """Finds what the other scanner takes for a secret."""

    KINDS: ClassVar = ("SECRET",)

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._scanner, self.package_version = _scanner(policy)

    def spans(self, source: Source) -> Iterator[Span]:
        """Scan the text once."""
        text = source.text
        # A lone surrogate has no bytes; its stand-in is one character too.
        data = text.encode("utf-8", "replace")
        found = sorted(
            (finding.location["start_offset"], finding.location["end_offset"], finding.rule_id)
            for finding in self._scanner.scan(data)
            if finding.visible
        )
        for start, end, rule in _in_characters(data, found):
            if 0 <= start < end <= len(text):
                yield Span(start, end, "SECRET", 0.7, f"second-opinion:{rule}")


def _in_characters(
    data: bytes, found: list[tuple[int, int, str]]
) -> Iterator[tuple[int, int, str]]:
    """The same finds, counted in characters. `found` is sorted."""
    if data.isascii():
        yield from found
        return
    at = characters = 0
    for start, end, rule in found:
        characters += len(data[at:start].decode("utf-8", "ignore"))
        at = start
        yield characters, characters + len(data[start:end].decode("utf-8", "ignore")), rule


def _scanner(policy: Policy) -> tuple[Any, str]:
    if importlib.util.find_spec(PACKAGE) is None:
        raise PolicyError(
            f"The policy '{policy.id}' has second_opinion = true, but the package "
            "kingfisher-secret-scanner is not installed; install the extra [kingfisher] or set "
            "second_opinion = false."
        )
    from kingfisher_sdk import Rules, Scanner, __version__

    folder = _private_folder()
    rules = Rules(cache_dir=folder) if folder else Rules(cache=False)
    return Scanner(rules), __version__


def _private_folder() -> Path | None:
    """A directory only we can read, or None: without one the rules are compiled at every start."""
    named = os.environ.get(_CACHE)
    try:
        return private_dir(Path(named) if named else state_dir("sphragis") / _FOLDER)
    except (OSError, UnsafeDirectory):
        return None
