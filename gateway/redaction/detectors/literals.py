"""What every text that a pattern matches must hold: literals read off the pattern itself, so that
one search for all of them finds every place where any pattern can match.

Invariant: for every match of the pattern, one of its literals stands between `least` and `most`
characters behind the match's beginning. `tests/gateway/test_detect_providers.py` proves it on
generated matches. Called once for every row of `providers`, when that module is imported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product

# The parser of `re` is the only reader of patterns that agrees with `re` on every detail.
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

#: Most literals one pattern may ask for: more would cost more than they save.
_MOST: Final = 260
#: A longer literal is no better than one of this length.
_LONG: Final = 8
#: A class of characters with more members than this is not written out.
_CLASS_MOST: Final = 20


@dataclass(frozen=True, slots=True)
class Required:
    """`literals`, one of which stands `least` to `most` characters behind a match's beginning."""

    literals: tuple[str, ...]
    least: int
    most: int


class _Run:
    """Texts that must follow each other without a gap, and where they begin."""

    __slots__ = ("least", "most", "texts")

    def __init__(self, least: int, most: int) -> None:
        self.least = least
        self.most = most
        self.texts: tuple[str, ...] = ("",)

    def joined(self, more: tuple[str, ...]) -> bool:
        """Take `more` as the next text; False when that would be too many."""
        if len(self.texts) * len(more) > _MOST:
            return False
        # Writing out a class only helps while the literal is short.
        if len(more) > 2 and min(map(len, self.texts)) >= 4:
            return False
        self.texts = tuple(a + b for a, b in product(self.texts, more))
        return True


def required(shape: str) -> Required:
    """Read the best literals off `shape`. Raises ValueError when there are none worth having."""
    runs: list[_Run] = []
    position = [0, 0]
    _walk(list(parser.parse(shape, re.ASCII)), position, runs, _Run(0, 0))
    best = max(runs, key=_worth, default=None)
    if best is None or _worth(best) < 1.5:
        raise ValueError("a pattern without a literal of its own")
    return Required(tuple(dict.fromkeys(best.texts)), best.least, best.most)


def _worth(run: _Run) -> float:
    least = min(map(len, run.texts))
    return min(least, _LONG) - len(run.texts) / 400 - (run.most - run.least) / 10


def _walk(nodes: list[Any], position: list[int], runs: list[_Run], run: _Run) -> _Run:
    for code, argument in nodes:
        exact = _exact(code, argument)
        if exact is not None and run.joined(exact):
            least, most = min(map(len, exact)), max(map(len, exact))
        elif code is codes.SUBPATTERN and exact is None:
            run = _walk(list(argument[3]), position, runs, run)
            continue
        else:
            least, most = _width(code, argument)
            if most == 0:
                continue  # looks around, takes nothing
            begun = _beginnings(code, argument)
            if begun is not None:
                run.joined(begun)
            runs.append(run)
            run = _Run(position[0] + least, position[1] + most)
        position[0] += least
        position[1] += most
    runs.append(run)
    return run


def _exact(code: Any, argument: Any) -> tuple[str, ...] | None:
    """All texts a node can match, when they are few."""
    if code is codes.LITERAL:
        return (chr(argument),)
    if code is codes.IN:
        return _members(argument)
    if code is codes.SUBPATTERN:
        return _sequence(list(argument[3]))
    if code is codes.BRANCH:
        parts = [_sequence(list(branch)) for branch in argument[1]]
        if any(part is None for part in parts):
            return None
        return tuple(text for part in parts if part is not None for text in part)
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        least, most, inner = argument
        if most == 1:
            once = _sequence(list(inner))
            return None if once is None else (*(("",) if least == 0 else ()), *once)
    return None


def _sequence(nodes: list[Any]) -> tuple[str, ...] | None:
    texts: tuple[str, ...] = ("",)
    for code, argument in nodes:
        exact = _exact(code, argument)
        if exact is None or len(texts) * len(exact) > _MOST:
            return None
        texts = tuple(a + b for a, b in product(texts, exact))
    return texts


def _beginnings(code: Any, argument: Any) -> tuple[str, ...] | None:
    """What a node that is not exact must begin with: its first characters, where those are few."""
    if code is codes.BRANCH:
        firsts: list[str] = []
        for branch in argument[1]:
            run = _Run(0, 0)
            for inner_code, inner in list(branch):
                exact = _exact(inner_code, inner)
                if exact is None or not run.joined(exact):
                    break
            firsts += run.texts
        return tuple(firsts)
    if code in (codes.MAX_REPEAT, codes.POSSESSIVE_REPEAT) and argument[0] >= 1:
        return _sequence(list(argument[2]))
    return None


def _members(items: list[Any]) -> tuple[str, ...] | None:
    members: list[str] = []
    for code, argument in items:
        if code is codes.LITERAL:
            members.append(chr(argument))
        elif code is codes.RANGE:
            members += [chr(point) for point in range(argument[0], argument[1] + 1)]
        elif code is codes.CATEGORY and argument is codes.CATEGORY_DIGIT:
            members += "0123456789"
        else:
            return None
        if len(members) > _CLASS_MOST:
            return None
    return tuple(members)


def _width(code: Any, argument: Any) -> tuple[int, int]:
    if code in (codes.ASSERT, codes.ASSERT_NOT, codes.AT):
        return 0, 0
    pattern = parser.SubPattern(parser.State(), [(code, argument)])
    least, most = pattern.getwidth()
    return int(least), int(most)
