"""Which records were changed: what the links and the signed root say of those in between.

Owns the search for the fewest changed records that explain both. A record names, by its link, the
leaf of the record before it, so there are at most two leaves that each may have had: the one its
bytes give and the one its successor names. Pure. Called by `tail`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shared.ledger.merkle import Frontier

#: Two ways to read each doubtful record; 2^6 trees are built in well under a second.
MAX_DOUBTS: Final = 6
_LEAF: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(slots=True)
class Item:
    """A record since the last good checkpoint: its number, the leaf its bytes give (None when
    there are no good bytes), the leaf it names for the record before it, and what it says."""

    seq: int
    leaf: bytes | None
    prev: str | None
    record: dict[str, Any] | None = None


def claims_of(items: Sequence[Item], next_prev: str | None) -> list[str | None]:
    """Return, for each item, the leaf that its successor names for it; `next_prev` is what the
    record behind the last one names."""
    return [item.prev for item in items[1:]] + ([next_prev] if items else [])


def contradicted(items: Sequence[Item], next_prev: str | None) -> Iterator[int]:
    """Yield the number of each record that its successor's link contradicts."""
    for item, claim in zip(items, claims_of(items, next_prev), strict=True):
        if item.leaf is not None and claim is not None and claim != item.leaf.hex():
            yield item.seq


def explain(
    items: Sequence[Item], next_prev: str | None, base: Frontier, root: bytes
) -> list[bytes] | None:
    """Return the leaves that the items had when the log signed `root` over `base` and them, or
    None where no reading of few enough doubtful ones gives it."""
    choices = _choices(items, claims_of(items, next_prev))
    doubtful = [index for index, options in enumerate(choices) if len(options) != 1]
    if len(doubtful) > MAX_DOUBTS or not all(choices):
        return None
    return _solve(choices, doubtful, base, root)


def _choices(items: Sequence[Item], claims: Sequence[str | None]) -> list[list[bytes]]:
    """Return, for each item, the leaves it may have had: by its bytes, by its successor."""
    choices = []
    for item, claim in zip(items, claims, strict=True):
        options = [] if item.leaf is None else [item.leaf]
        if claim is not None and _LEAF.fullmatch(claim):
            claimed = bytes.fromhex(claim)
            if claimed not in options:
                options.append(claimed)
        choices.append(options)
    return choices


def _solve(
    choices: Sequence[list[bytes]], doubtful: Sequence[int], base: Frontier, root: bytes
) -> list[bytes] | None:
    """Return the leaves that give the signed root, preferring those the stored bytes give."""
    picks = sorted(itertools.product((0, 1), repeat=len(doubtful)), key=sum)
    for pick in picks:
        leaves = [options[0] for options in choices]
        for index, chosen in zip(doubtful, pick, strict=True):
            leaves[index] = choices[index][chosen]
        frontier = base.copy()
        frontier.extend(leaves)
        if frontier.root() == root:
            return leaves
    return None
