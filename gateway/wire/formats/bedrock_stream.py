"""The streamed answers of Amazon Bedrock: `converse-stream` and `invoke-with-response-stream`.

Owns what is text in an event of either. An invoke stream carries the model vendor's own events in
base64, each in a frame with checksums: Anthropic's go through the Anthropic stream, Amazon's own
models send the events of `converse`, and of the others the text members are listed here.
Invariants: as in `stream`; reasoning passes byte for byte, and what of it is signed is told.
Pure; one object per answer.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.wire.base import RestorerFactory, Usage, WireRefused
from gateway.wire.event_stream import (
    EventFrame,
    EventMessage,
    EventStreamFraming,
    encode,
    event_head,
    payload_of,
)
from gateway.wire.formats.anthropic import restore_node
from gateway.wire.formats.anthropic_stream import AnthropicStream
from gateway.wire.schema import is_blob
from gateway.wire.sse import SseParser, serialise
from gateway.wire.stream import MAX_WORD, DeltaStream, Found, Frame, Framing, Path, Piece
from gateway.wire.strictjson import read_answer, write_answer
from gateway.wire.walk import restore_free, restore_names, restore_string

#: Members of answers that go back to the provider byte for byte, or are a model's thinking.
_KEPT: Final = frozenset(
    ("reasoningContent", "redactedContent", "signature", "reasoning", "reasoning_content")
)
#: Members that are free-form data, in which those names mean nothing.
_FREE: Final = frozenset(("input", "json", "arguments", "additionalModelResponseFields"))

_DELTA: Final = "contentBlockDelta"
#: Bedrock adds this to the last chunk of every invoke stream.
_METRICS: Final = "amazon-bedrock-invocationMetrics"
_EVENTS: Final = frozenset(
    ("messageStart", "contentBlockStart", _DELTA, "contentBlockStop", "messageStop", "metadata")
)


def restore_answer(value: Any, restore: Callable[[str], str]) -> Any:
    """Return any part of an answer restored, except reasoning."""
    if isinstance(value, str):
        return restore_string(value, restore)
    if isinstance(value, list):
        return [restore_answer(item, restore) for item in value]
    if not isinstance(value, dict):
        return value
    restored = {
        name: member
        if name in _KEPT
        else restore_free(member, restore)
        if name in _FREE
        else restore_answer(member, restore)
        for name, member in value.items()
    }
    return restore_names(restored, restore)


def usage_from(document: Any) -> Usage:
    """Return the counts of a `usage` object, whose input is without cached tokens."""
    if not isinstance(document, dict):
        return Usage()
    return Usage(
        count(document, "inputTokens"),
        count(document, "outputTokens"),
        count(document, "cacheWriteInputTokens"),
        count(document, "cacheReadInputTokens"),
    )


def count(document: dict[str, Any], name: str) -> int:
    """Return a count; an absent or odd one is zero."""
    number = document.get(name)
    return number if isinstance(number, int) and number > 0 else 0


def signed_reasoning(content: Any) -> tuple[str, str] | None:
    """Return the readable text and the signature of a `reasoningContent`, if it has both."""
    inner = content.get("reasoningText") if isinstance(content, dict) else None
    if not isinstance(inner, dict):
        return None
    text, signature = inner.get("text"), inner.get("signature")
    if not isinstance(text, str) or not isinstance(signature, str):
        return None
    return (text, signature) if text and is_blob(signature) else None


class ConverseStream(DeltaStream):
    """The events of `converse-stream`; a document is `{kind of event: payload}`."""

    def __init__(
        self,
        restorers: RestorerFactory,
        signed: Callable[[str, str], None],
        framing: Framing | None = None,
    ) -> None:
        super().__init__(restorers, framing or EventStreamFraming())
        self._signed = signed
        self._reasoning: dict[Any, dict[str, str]] = {}

    def find(self, document: Any) -> Found:
        """See the base class."""
        kind = next((name for name in document if name in _EVENTS), "")
        body = document[kind] if kind else None
        if not isinstance(body, dict):
            return Found()
        if kind == _DELTA:
            return self._delta(body)
        if kind == "messageStart":
            return Found()
        if kind == "metadata":
            self.usage = self.usage.at_least(usage_from(body.get("usage")))
        elif kind == "messageStop":
            reason = body.get("stopReason")
            self.stop_reason = reason if isinstance(reason, str) else self.stop_reason
            self.complete = True
        else:
            return self._boundary(kind, body.get("contentBlockIndex"))
        return Found(ends=None)

    def held(self, key: Hashable, template: Any, text: str) -> Any:
        """Return a delta of the same block."""
        assert isinstance(key, tuple)
        index, kind, number = key
        delta: dict[str, Any] = {"text": text}
        if kind == "toolUse":
            delta = {"toolUse": {"input": text}}
        elif kind == "toolResult":
            delta = {"toolResult": [{"text": ""}] * number + [{"text": text}]}
        return {_DELTA: {"contentBlockIndex": index, "delta": delta}}

    def is_bare(self, document: Any) -> bool:
        """A delta says nothing but its text."""
        body = document.get(_DELTA)
        delta = body.get("delta") if isinstance(body, dict) else None
        return len(document) == 1 and isinstance(delta, dict) and len(delta) == 1

    def restored(self, document: Any) -> Any:
        """Return a document restored, except reasoning."""
        return restore_answer(document, self._restore)

    def _frame(self, frame: Frame) -> bytes:
        if isinstance(frame, EventFrame) and (failure := frame.message.failure):
            self.error = failure[:MAX_WORD]
            before = self.flush(None)
            if frame.document is None:
                return before + frame.raw
            restored = self.restored(frame.document)
            unchanged = restored == frame.document
            return before + (frame.raw if unchanged else frame.rewritten(restored))
        return super()._frame(frame)

    def _delta(self, body: dict[str, Any]) -> Found:
        index, delta = body.get("contentBlockIndex"), body.get("delta")
        if not isinstance(delta, dict):
            return Found()
        at: Path = (_DELTA, "delta")
        pieces: list[Piece] = []
        if isinstance(delta.get("text"), str):
            pieces.append(Piece((*at, "text"), (index, "text", 0)))
        tool = delta.get("toolUse")
        if isinstance(tool, dict) and isinstance(tool.get("input"), str):
            path = (*at, "toolUse", "input")
            pieces.append(Piece(path, (index, "toolUse", 0), json=True))
        results = delta.get("toolResult")
        for number, result in enumerate(results if isinstance(results, list) else ()):
            if isinstance(result, dict) and isinstance(result.get("text"), str):
                path = (*at, "toolResult", number, "text")
                pieces.append(Piece(path, (index, "toolResult", number)))
        reasoning = delta.get("reasoningContent")
        if isinstance(reasoning, dict):
            self._gather(index, reasoning)
        return Found(pieces)

    def _gather(self, index: Any, reasoning: dict[str, Any]) -> None:
        block = self._reasoning.setdefault(index, {"text": "", "signature": ""})
        for name in block:
            piece = reasoning.get(name)
            if isinstance(piece, str):
                block[name] += piece

    def _boundary(self, kind: str, index: Any) -> Found:
        if kind == "contentBlockStop":
            found = signed_reasoning({"reasoningText": self._reasoning.pop(index, {})})
            if found is not None:
                self._signed(*found)
        return Found(ends=[key for key in self._runs if isinstance(key, tuple) and key[0] == index])


@dataclass(frozen=True, slots=True)
class ChunkFrame(EventFrame):
    """A `chunk` message: its document is what stands in its `bytes`."""

    envelope: dict[str, Any]

    def rewritten(self, document: Any) -> bytes:
        """Return the message with another document in its `bytes`."""
        envelope = {**self.envelope, "bytes": _packed(document)}
        return encode(self.message.head, write_answer(envelope))


class ChunkFraming(EventStreamFraming):
    """The messages of an invoke stream."""

    def frame(self, message: EventMessage) -> Frame:
        """Return the message with the document of its chunk."""
        envelope = payload_of(message)
        data = envelope.get("bytes") if isinstance(envelope, dict) else None
        if message.event != "chunk" or not isinstance(data, str):
            return super().frame(message)
        try:
            document = read_answer(base64.b64decode(data, validate=True))
        except (binascii.Error, ValueError, WireRefused):
            document = None
        return ChunkFrame(message, document, envelope)

    def write(self, document: Any) -> bytes:
        """Return a new chunk."""
        return encode(event_head("chunk"), write_answer({"bytes": _packed(document)}))


def _packed(document: Any) -> str:
    return base64.b64encode(write_answer(document)).decode()


#: Where the vendors' chunks hold text. `*` is any element of a list.
_TEXTS: Final[tuple[tuple[str, ...], ...]] = (
    ("outputText",),
    ("generation",),
    ("completion",),
    ("text",),
    ("outputs", "*", "text"),
    ("generations", "*", "text"),
    ("choices", "*", "text"),
    ("choices", "*", "message", "content"),
    ("choices", "*", "delta", "content"),
    ("choices", "*", "delta", "refusal"),
)
_ARGUMENTS: Final[tuple[tuple[str, ...], ...]] = (
    ("choices", "*", "delta", "tool_calls", "*", "function", "arguments"),
    ("tool_call_delta", "parameters"),
)
#: Lists of choices, and a choice by its list and number.
_LISTS: Final = ("choices", "outputs", "generations")
_Part = tuple[str, int]
#: Members that say which answer a chunk belongs to.
_IDENTITY: Final = ("id", "object", "created", "model")
_REASONS: Final = ("completionReason", "stop_reason", "finish_reason", "stopReason")


class InvokeStream(ConverseStream):
    """The chunks of `invoke-with-response-stream`, whoever made the model."""

    def __init__(self, restorers: RestorerFactory, signed: Callable[[str, str], None]) -> None:
        super().__init__(restorers, signed, ChunkFraming())
        self._anthropic: AnthropicStream | None = None

    def find(self, document: Any) -> Found:
        """See the base class."""
        if not isinstance(document, dict):
            return Found()
        self._metrics(document.get(_METRICS))
        if any(name in _EVENTS for name in document):
            return super().find(document)
        model = document.get("model")
        self.model = model if isinstance(model, str) else self.model
        finished = _reasons(document)
        if finished:
            self.stop_reason, self.complete = next(iter(finished.values()))[:MAX_WORD], True
        found = [(path, False) for pattern in _TEXTS for path in _matches(document, pattern)]
        found += [(path, True) for pattern in _ARGUMENTS for path in _matches(document, pattern)]
        pieces: list[Piece] = []
        for path, is_json in found:
            key = _key(path, document)
            pieces.append(Piece(path, key, is_json, last=_part(key) in finished))
        return Found(pieces, self._ended(document, pieces, finished))

    def held(self, key: Hashable, template: Any, text: str) -> Any:
        """Return a chunk like the last one of its run, with nothing in it but the text."""
        assert isinstance(key, tuple)
        if key[0] != "vendor":
            return super().held(key, template, text)
        _, pattern, numbers = key
        document: Any = text
        rest = list(numbers)
        for step in reversed(pattern):
            if step != "*":
                document = {step: document}
                continue
            number = rest.pop()
            document = [{"index": number, **document}]
        return {name: template[name] for name in _IDENTITY if name in template} | document

    def is_bare(self, document: Any) -> bool:
        """Chunks of other vendors are sent with an empty text rather than left out."""
        return _DELTA in document and super().is_bare(document)

    def close(self) -> bytes:
        """Return what is held."""
        return self._rest() + super().close()

    def _frame(self, frame: Frame) -> bytes:
        if isinstance(frame, EventFrame) and frame.message.failure:
            return self._rest() + super()._frame(frame)
        document = frame.document
        kind = document.get("type") if isinstance(document, dict) else None
        if not isinstance(frame, ChunkFrame) or not isinstance(kind, str):
            return super()._frame(frame)
        if self._anthropic is None:
            self._anthropic = AnthropicStream(self._restorers, restore_node, self._signed)
        return self._as_anthropic(self._anthropic, frame, kind)

    def _as_anthropic(self, stream: AnthropicStream, frame: ChunkFrame, kind: str) -> bytes:
        """Restore an Anthropic event as it would be on the provider's own stream."""
        event = serialise(kind, write_answer(frame.document).decode())
        shown = SseParser().feed(stream.feed(event))
        self.usage, self.stop_reason = stream.usage, stream.stop_reason
        self.model, self.complete, self.error = stream.model, stream.complete, stream.error
        self._metrics(frame.document.get(_METRICS))
        out: list[bytes] = []
        for item in shown:
            if item.raw == event:
                out.append(frame.raw)
                continue
            document = read_answer((item.data or "").encode())
            is_own = item is shown[-1] and document.get("type") == kind
            out.append(frame.rewritten(document) if is_own else self._framing.write(document))
        return b"".join(out)

    def _rest(self) -> bytes:
        """Return what the Anthropic stream still holds."""
        if self._anthropic is None:
            return b""
        events = SseParser().feed(self._anthropic.close())
        return b"".join(self._framing.write(read_answer((e.data or "").encode())) for e in events)

    def _metrics(self, metrics: Any) -> None:
        if not isinstance(metrics, dict):
            return
        if self._anthropic is None:
            self.complete = True
        found = Usage(
            count(metrics, "inputTokenCount"),
            count(metrics, "outputTokenCount"),
            count(metrics, "cacheWriteInputTokenCount"),
            count(metrics, "cacheReadInputTokenCount"),
        )
        self.usage = self.usage.at_least(found)

    def _ended(
        self, document: dict[str, Any], pieces: Sequence[Piece], finished: Collection[_Part]
    ) -> list[Hashable] | None:
        """Return the runs that a chunk ends before it: those of a choice that is finished, the text
        of one that goes on to call a tool, and all of them when it is about no choice at all."""
        if not pieces and not any(name in document for name in _LISTS):
            return None
        mine = {piece.key for piece in pieces}
        calling = {_part(piece.key) for piece in pieces if piece.json}
        return [
            key
            for key in self._runs
            if key not in mine
            and (
                _part(key) in finished
                or (_part(key) in calling and isinstance(key, tuple) and key[1] not in _ARGUMENTS)
            )
        ]


def _part(key: Hashable) -> _Part:
    """Return which choice of the answer a run belongs to."""
    assert isinstance(key, tuple)
    return (key[1][0], key[2][0]) if key[0] == "vendor" and key[2] else ("", 0)


def _reasons(document: dict[str, Any]) -> dict[_Part, str]:
    """Return why the model stopped, for each choice that a chunk finishes."""
    places: list[tuple[_Part, Any]] = [(("", 0), document)]
    for name in _LISTS:
        items = document.get(name)
        for number, item in enumerate(items if isinstance(items, list) else ()):
            own = item.get("index") if isinstance(item, dict) else None
            places.append(((name, own if isinstance(own, int) else number), item))
    found: dict[_Part, str] = {}
    for part, place in places:
        for name in _REASONS:
            reason = place.get(name) if isinstance(place, dict) else None
            if isinstance(reason, str) and reason:
                found[part] = reason
    return found


def _matches(document: Any, pattern: Sequence[str]) -> list[Path]:
    """Return the paths of the strings that a pattern names."""
    if not pattern:
        return [()] if isinstance(document, str) else []
    step, rest = pattern[0], pattern[1:]
    if step == "*":
        items = document if isinstance(document, list) else []
        return [(n, *path) for n, item in enumerate(items) for path in _matches(item, rest)]
    if not isinstance(document, dict) or step not in document:
        return []
    return [(step, *path) for path in _matches(document[step], rest)]


def _key(path: Path, document: Any) -> Hashable:
    """Return the key of the run a path belongs to: list elements go by their own `index`."""
    pattern: list[str] = []
    numbers: list[int] = []
    for step in path:
        document = document[step]
        if isinstance(step, str):
            pattern.append(step)
            continue
        own = document.get("index") if isinstance(document, dict) else None
        pattern.append("*")
        numbers.append(own if isinstance(own, int) else step)
    return ("vendor", tuple(pattern), tuple(numbers))
