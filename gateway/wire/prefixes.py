"""Bodies that begin as an earlier one did: what of them need not be read again.

Agents send the whole conversation on every turn, with something new at its end. `Prefixes`
remembers, by a digest of all bytes up to the end of each message (never the bytes), how long that
message is and whether nothing was found in it. `reduced` leaves those out of what is parsed and
walked, and `completed` puts their bytes back where they were.
Invariants: a message is left out only behind bytes that are the same from the body's beginning on,
under the same rules, policy, scope and format, where a strict reading of all of it found nothing
and would write it anew as the very same bytes; whoever reads what is left reads the rest of the
same JSON text. Used by `body` with the walks that name their lists in `KNOWN_LISTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from gateway.wire.strictjson import dumps

#: A shorter body costs less to read than to look up.
SHORTEST: Final = 16 << 10
#: Beginnings remembered; a step takes about 300 bytes, a conversation a few hundred steps.
_MOST: Final = 16_384
#: Ways a conversation may go on that are remembered, the newest first.
_MOST_WAYS: Final = 4
#: Stands for what was left out, so that lists keep their lengths.
_LEFT_OUT: Final = 0


@dataclass(frozen=True, slots=True)
class Step:
    """From one remembered place of a body to the next: to the end of element `index` of the list
    `name`, `size` bytes further, of which the last `length` are the element; `after` is the digest
    of all bytes up to there. clean: nothing was found in the element."""

    size: int
    length: int
    name: str
    index: int
    clean: bool
    after: bytes = field(repr=False)


class Prefixes:
    """The steps known from each beginning. Two generations, as in `redactor.SpanCache`: what is
    asked for stays. `hash_of` makes a running digest from its first bytes."""

    def __init__(self, hash_of: Callable[[bytes], Any], limit: int = _MOST) -> None:
        self.hash_of = hash_of
        self._limit = max(1, limit // 2)
        self._young: dict[bytes, tuple[Step, ...]] = {}
        self._old: dict[bytes, tuple[Step, ...]] = {}

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def steps(self, state: bytes) -> tuple[Step, ...]:
        """Return the steps that lead on from a beginning, the newest first."""
        known = self._young.get(state)
        if known is None:
            known = self._old.get(state, ())
            if known:
                self._put(state, known)
        return known

    def learn(self, state: bytes, step: Step) -> None:
        """Remember a step."""
        others = [known for known in self.steps(state) if known.after != step.after]
        self._put(state, (step, *others[: _MOST_WAYS - 1]))

    def _put(self, state: bytes, steps: tuple[Step, ...]) -> None:
        if len(self._young) >= self._limit:
            self._old, self._young = self._young, {}
        self._young[state] = steps


class Known:
    """One body, and what is known of its beginning. `mark` names who reads it and how."""

    def __init__(self, prefixes: Prefixes, body: bytes, mark: bytes) -> None:
        self._prefixes = prefixes
        self._body = body
        self._running = prefixes.hash_of(mark)
        self._state = _digest(self._running)
        self._end = 0
        self._elements: set[tuple[str, int]] = set()
        #: The elements left out: list, index, and place in the body.
        self._out: list[tuple[str, int, int, int]] = []
        while self._step():
            pass

    def _step(self) -> bool:
        for step in self._prefixes.steps(self._state):
            end = self._end + step.size
            if end > len(self._body):
                continue
            running = self._running.copy()
            running.update(memoryview(self._body)[self._end : end])
            if _digest(running) != step.after:
                continue
            self._running, self._state, self._end = running, step.after, end
            self._elements.add((step.name, step.index))
            if step.clean:
                self._out.append((step.name, step.index, end - step.length, end))
            return True
        return False

    @property
    def left_out(self) -> bool:
        """Whether anything of the body need not be read."""
        return bool(self._out)

    def forget(self) -> None:
        """Read all of it after all."""
        self._out = []

    def reduced(self) -> bytes:
        """Return the body with a number for each element that need not be read."""
        if not self._out:
            return self._body
        parts: list[bytes] = []
        at = 0
        for _, _, start, end in self._out:
            parts += (self._body[at:start], b"%d" % _LEFT_OUT)
            at = end
        return b"".join((*parts, self._body[at:]))

    def found_in(self, document: Any) -> set[int]:
        """Return the ids of the elements of a document in which something was found before."""
        if not isinstance(document, dict):
            return set()
        known = self._elements.difference((name, index) for name, index, *_ in self._out)
        return {id(document[name][index]) for name, index in known}

    def completed(self, document: Any) -> Any:
        """Return a walked document with what was left out in its place, ready to be written."""
        if not self._out:
            return document
        whole = dict(document)
        for name in {name for name, *_ in self._out}:
            whole[name] = list(whole[name])
        for name, index, start, end in self._out:
            whole[name][index] = orjson.Fragment(self._body[start:end])
        return whole

    def learn(
        self, document: Any, reduced: bytes, lists: Collection[str], clean: Collection[int]
    ) -> None:
        """Remember the elements of `lists` behind the known beginning. `document` is what was read
        from `reduced`; `clean` are the ids of the objects in it in which nothing was found. Bodies
        that are not written as we write them are not remembered."""
        if self._knows_all(document, lists) or dumps(document) != reduced:
            return
        left_out = len(self._body) - len(reduced)
        for name, index, element, start, end in _places(document, lists):
            if (name, index) in self._elements:
                continue
            at = end + left_out
            self._running.update(memoryview(self._body)[self._end : at])
            after = _digest(self._running)
            size, is_clean = at - self._end, id(element) in clean
            step = Step(size, end - start, name, index, is_clean, after)
            self._prefixes.learn(self._state, step)
            self._state, self._end = after, at

    def _knows_all(self, document: dict[str, Any], lists: Collection[str]) -> bool:
        return all(
            (name, len(value) - 1) in self._elements
            for name, value in document.items()
            if name in lists and isinstance(value, list) and value
        )


def _places(
    document: dict[str, Any], lists: Collection[str]
) -> Iterator[tuple[str, int, Any, int, int]]:
    """Yield the objects in some lists of a document with their places in its bytes."""
    at = 1
    for name, value in document.items():
        at += len(dumps(name)) + 1
        if name in lists and isinstance(value, list) and value:
            at += 1
            for index, element in enumerate(value):
                size = len(dumps(element))
                if isinstance(element, dict):
                    yield name, index, element, at, at + size
                at += size + 1  # and a comma, or the bracket behind the last
        else:
            at += len(dumps(value))
        at += 1


def _digest(running: Any) -> bytes:
    return bytes(running.digest()[:16])
