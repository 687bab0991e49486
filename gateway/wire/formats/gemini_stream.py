"""The streamed answer of Gemini: each chunk a whole response, its text a piece of a longer one.

Invariant: text held for a possible token leaves in the chunk that ends its run, or in a chunk of
its own before that; thoughts and their signatures are never touched; a stream without a finish
reason for every candidate, or an array without its bracket, stays visibly incomplete. The same for
server-sent events and for a JSON array. Pure; one object per answer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import cache
from typing import Any, Final

from gateway.wire.base import RestorerFactory, Usage, words
from gateway.wire.formats.gemini_schema import FREE, SEALS, spellings
from gateway.wire.json_array import JsonArrayFraming
from gateway.wire.stream import (
    MAX_WORD,
    DeltaStream,
    Found,
    Frame,
    Framing,
    Path,
    Piece,
    SseFraming,
)
from gateway.wire.walk import restore_free, restore_names, restore_string

#: Members of a chunk that repeat in every chunk, and those of a candidate that say nothing new.
_REPEATED: Final = spellings("modelVersion responseId createTime")
_CHATTER: Final = _REPEATED | spellings("candidates usageMetadata")
_BARE_CANDIDATE: Final = words("content index")
_MEDIA: Final = spellings("mimeType")
_ANSWERS: Final = spellings("candidates inlinedResponses")


def spelling(node: Any, name: str) -> str | None:
    """Return the spelling under which an object has a member, or None when it has not."""
    if not isinstance(node, dict):
        return None
    return name if name in node else next((s for s in _spellings(name) if s in node), None)


def member(node: Any, name: str) -> Any:
    """Return a member of an object under either of its spellings, or None."""
    found = spelling(node, name)
    return None if found is None else node[found]


@cache
def _spellings(name: str) -> frozenset[str]:
    return spellings(name)


def restore_node(value: Any, restore: Callable[[str], str]) -> Any:
    """Return any part of an answer restored, but for thoughts, signatures and base64 data."""
    if isinstance(value, str):
        return restore_string(value, restore)
    if isinstance(value, list):
        return [restore_node(item, restore) for item in value]
    if not isinstance(value, dict):
        return value
    kept = SEALS
    if value.get("thought") is True:
        kept = kept | {"text"}
    if isinstance(value.get("data"), str) and not _MEDIA.isdisjoint(value):
        kept = kept | {"data"}
    restored = {
        name: inside
        if name in kept
        else restore_free(inside, restore)
        if name in FREE and not _holds_answers(inside)
        else restore_node(inside, restore)
        for name, inside in value.items()
    }
    return restore_names(restored, restore)


def _holds_answers(value: Any) -> bool:
    """Tell a batch's `response`, which holds those of its calls, from a function's."""
    return isinstance(value, dict) and not _ANSWERS.isdisjoint(value)


def usage_from(document: Any) -> Usage:
    """Return the counts of `usageMetadata`; cached tokens are not input, thoughts are output."""
    counts = member(document, "usageMetadata")

    def count(name: str) -> int:
        number = member(counts, name)
        if not isinstance(number, int) or isinstance(number, bool):
            return 0
        return max(number, 0)

    cached = count("cachedContentTokenCount")
    prompt = count("promptTokenCount") + count("toolUsePromptTokenCount")
    return Usage(
        input=max(prompt - cached, 0),
        output=count("candidatesTokenCount") + count("thoughtsTokenCount"),
        cache_read=cached,
    )


def stop_reason_of(document: Any) -> str | None:
    """Return the finish reason of the first candidate that has one, or why the prompt was
    blocked."""
    for _, candidate in _candidates(document):
        reason = member(candidate, "finishReason")
        if isinstance(reason, str):
            return reason
    blocked = member(member(document, "promptFeedback"), "blockReason")
    return blocked if isinstance(blocked, str) else None


def _candidates(document: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    candidates = member(document, "candidates")
    for position, candidate in enumerate(candidates if isinstance(candidates, list) else ()):
        if isinstance(candidate, dict):
            yield position, candidate


def _number(position: int, candidate: dict[str, Any]) -> int:
    """Return the index of a candidate; Google leaves zero out."""
    index = candidate.get("index")
    return index if isinstance(index, int) else position


def _parts(candidate: dict[str, Any]) -> list[Any]:
    parts = member(candidate.get("content"), "parts")
    return parts if isinstance(parts, list) else []


class GeminiStream(DeltaStream):
    """Provider bytes in, client bytes out. See `base.StreamTransformer`.

    A run is keyed by the candidate, and for streamed arguments by their path in the call too.
    """

    def __init__(self, restorers: RestorerFactory, framing: Framing) -> None:
        self._array = framing if isinstance(framing, JsonArrayFraming) else None
        self._seen: set[int] = set()
        self._finished: set[int] = set()
        self._has_ended = False
        super().__init__(restorers, framing)

    def find(self, document: Any) -> Found:
        """Look at one chunk."""
        self._watch(document)
        pieces: list[Piece] = []
        ends: list[Hashable] = []
        for position, candidate in _candidates(document):
            chunk = _Chunk(
                _number(position, candidate),
                ("candidates", position, "content", "parts"),
                [key for key in self._runs if isinstance(key, tuple)],
            )
            for place, part in enumerate(_parts(candidate)):
                if isinstance(part, dict):
                    chunk.part(place, part)
            if isinstance(member(candidate, "finishReason"), str):
                chunk.end_all()
            pieces += chunk.pieces
            ends += chunk.ends
        if self._array is not None and self._array.single:
            pieces = _all_last(pieces)
        return Found(pieces, None if self.error is not None or self._has_ended else ends)

    def held(self, key: Hashable, template: Any, text: str) -> Any:
        """Return a chunk with `text` for the candidate of the run."""
        assert isinstance(key, tuple)
        shown = {name: template[name] for name in template if name in _REPEATED}
        index = key[0]
        old = next(
            candidate
            for position, candidate in _candidates(template)
            if _number(position, candidate) == index
        )
        part: dict[str, Any] = {"text": text}
        if len(key) > 1:
            argument = {"jsonPath": key[1], "stringValue": text, "willContinue": True}
            part = {"functionCall": {"partialArgs": [argument], "willContinue": True}}
        content = {**old["content"], "parts": [part]}
        candidate = {"content": content}
        if "index" in old:
            candidate["index"] = index
        return {"candidates": [candidate], **shown}

    def is_bare(self, document: Any) -> bool:
        """Tell whether a chunk is nothing but text: clients stumble over empty text. An element of
        an array cannot be left out without its comma."""
        return (
            self._array is None
            and _CHATTER.issuperset(document)
            and all(
                _BARE_CANDIDATE.issuperset(candidate)
                and all(_names(part) == {"text"} for part in _parts(candidate))
                for _, candidate in _candidates(document)
            )
        )

    def restored(self, document: Any) -> Any:
        """Return a chunk with every string in it restored whole."""
        return restore_node(document, self._restore)

    def unread(self, frame: Frame) -> bytes:
        """Return a comment or the closing bracket, after what is still held."""
        if self._array is None or not self._array.closed:
            return super().unread(frame)
        before = self.flush(None)
        self._settle()
        return before + frame.raw

    def _watch(self, document: Any) -> None:
        """Remember what the record of the call needs."""
        self.usage = self.usage.at_least(usage_from(document))
        model = member(document, "modelVersion")
        self.model = model if isinstance(model, str) else self.model
        self.stop_reason = stop_reason_of(document) or self.stop_reason
        error = member(document, "error")
        if error is not None:
            state = member(error, "status")
            self.error = state[:MAX_WORD] if isinstance(state, str) else "error"
        for position, candidate in _candidates(document):
            self._seen.add(_number(position, candidate))
            if isinstance(member(candidate, "finishReason"), str):
                self._finished.add(_number(position, candidate))
        if member(member(document, "promptFeedback"), "blockReason") is not None:
            self._has_ended = True
        self._settle()

    def _settle(self) -> None:
        # An answer that is no stream is whole when its one document is.
        single = self._array is not None and self._array.single
        finished = bool(self._finished) and self._seen <= self._finished
        whole = self._has_ended or single or finished
        self.complete = whole and (self._array is None or self._array.closed)


class _Chunk:
    """What one candidate of one chunk continues and ends."""

    def __init__(self, index: Any, path: Path, running: list[tuple[Any, ...]]) -> None:
        self.pieces: list[Piece] = []
        self.ends: list[Hashable] = []
        self._index = index
        self._path = path
        #: Runs that are open at this point, with the place of their last piece in this chunk.
        self._open: dict[tuple[Any, ...], int | None] = {
            key: None for key in running if key[0] == index
        }

    def part(self, place: int, part: dict[str, Any]) -> None:
        """Take the next part of the candidate."""
        is_text = isinstance(part.get("text"), str)
        if is_text and part.get("thought") is True:
            return
        if is_text:
            self._piece((self._index,), (*self._path, place, "text"), last=False)
            return
        self._end((self._index,))
        name = spelling(part, "functionCall")
        if name is not None and isinstance(part[name], dict):
            self._call(part[name], (*self._path, place, name))

    def end_all(self) -> None:
        """The candidate says no more."""
        for key in list(self._open):
            self._end(key)

    def _call(self, call: dict[str, Any], path: Path) -> None:
        if isinstance(call.get("name"), str) and call["name"]:
            self._end_arguments()
        name = spelling(call, "partialArgs")
        arguments = member(call, "partialArgs")
        for number, argument in enumerate(arguments if isinstance(arguments, list) else ()):
            value, where = spelling(argument, "stringValue"), member(argument, "jsonPath")
            if name and value and isinstance(argument[value], str) and isinstance(where, str):
                self._piece(
                    (self._index, where),
                    (*path, name, number, value),
                    last=member(argument, "willContinue") is not True,
                )
        if member(call, "willContinue") is not True:
            self._end_arguments()

    def _end_arguments(self) -> None:
        for key in [key for key in self._open if len(key) > 1]:
            self._end(key)

    def _piece(self, key: tuple[Any, ...], path: Path, *, last: bool) -> None:
        self.pieces.append(Piece(path, key, last=last))
        if last:
            self._open.pop(key, None)
        else:
            self._open[key] = len(self.pieces) - 1

    def _end(self, key: tuple[Any, ...]) -> None:
        if key not in self._open:
            return
        at = self._open.pop(key)
        if at is None:
            self.ends.append(key)
        else:
            self.pieces[at] = Piece(self.pieces[at].path, key, last=True)


def _names(node: Any) -> frozenset[str]:
    return frozenset(node) if isinstance(node, dict) else frozenset()


def _all_last(pieces: list[Piece]) -> list[Piece]:
    """End every run with its last piece: nothing can follow."""
    final = {piece.key: piece.path for piece in pieces}
    return [Piece(p.path, p.key, last=final[p.key] == p.path) for p in pieces]


def new_stream(restorers: RestorerFactory, media_type: str) -> GeminiStream:
    """Return the transformer of an answer streamed as `media_type`."""
    framing = JsonArrayFraming() if media_type == "application/json" else SseFraming()
    return GeminiStream(restorers, framing)
