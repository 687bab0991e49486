"""The event stream of Anthropic Messages: restored block by block, legally framed.

Invariant: text held for a possible token is sent as a delta of its own block before that block's
stop event; events that need no change keep their bytes; thinking, signatures and compaction are
never touched; an upstream that ends without `message_stop` stays visibly incomplete.
Usage is the maximum of each cumulative count over the events. Pure; one object per answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from gateway.wire.base import RestorerFactory, Usage, WireRefused
from gateway.wire.schema import is_blob
from gateway.wire.sse import SseEvent, SseParser, serialise
from gateway.wire.stream import Run
from gateway.wire.strictjson import read_answer, write_answer
from gateway.wire.walk import restore_string

#: Delta types whose text is restored piece by piece, and the member that holds it. Of a type that
#: is not known here it is the only string beside the type.
_PIECES: Final = {"text_delta": "text", "input_json_delta": "partial_json"}
#: Delta types that are whole in themselves.
_WHOLE: Final = frozenset(("citations_delta",))

#: The readable member of a block that its provider signs or seals.
SIGNED_TEXT: Final = {"thinking": "thinking", "compaction": "content"}
#: Where the seal is, first found first.
_SEALS: Final = ("signature", "encrypted_content")
#: Deltas that make up a signed block, with the member each adds to.
_SIGNED_DELTAS: Final = {
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "compaction_delta": ("content", "content"),
}

#: Longest error type word kept for records.
_MAX_WORD: Final = 48


def usage_from(value: Any) -> Usage:
    """Return the counts of an Anthropic `usage` object; absent or odd members count zero."""
    if not isinstance(value, dict):
        return Usage()
    return Usage(*[_count(value.get(name)) for name in _COUNTS])


_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)


def _count(number: Any) -> int:
    if type(number) is int:
        return number if number > 0 else 0
    return max(int(number), 0) if isinstance(number, int) and not isinstance(number, bool) else 0


def signed_text(block: dict[str, Any]) -> tuple[str, str] | None:
    """Return a block's readable signed text and its seal, or None when it has not both."""
    kind = block.get("type")
    text = block.get(SIGNED_TEXT[kind]) if isinstance(kind, str) and kind in SIGNED_TEXT else None
    if not isinstance(text, str) or not text:
        return None
    seal = next((block[name] for name in _SEALS if is_blob(block.get(name))), None)
    return (text, seal) if seal is not None else None


def _only_text(kind: str, delta: dict[str, Any]) -> str:
    """Return the member that holds the text of a delta of an unknown type, or an empty string."""
    names = [name for name, value in delta.items() if isinstance(value, str) and name != "type"]
    return names[0] if len(names) == 1 and kind not in _WHOLE else ""


class AnthropicStream:
    """Provider bytes in, client bytes out. See `base.StreamTransformer`."""

    def __init__(
        self,
        restorers: RestorerFactory,
        restore_node: Callable[[Any, Callable[[str], str]], Any],
        signed: Callable[[str, str], None],
    ) -> None:
        self._signed = signed
        self._sealing: dict[int, dict[str, Any]] = {}
        self._restorers = restorers
        self._restore_node = restore_node
        self._parser = SseParser()
        self._runs: dict[int, tuple[str, str, Run]] = {}
        self._usage = Usage()
        self._stop_reason: str | None = None
        self._model: str | None = None
        self._complete = False
        self._error: str | None = None

    @property
    def usage(self) -> Usage:
        """Cumulative token counts seen so far."""
        return self._usage

    @property
    def stop_reason(self) -> str | None:
        """`stop_reason` of the last `message_delta`."""
        return self._stop_reason

    @property
    def model(self) -> str | None:
        """`model` of `message_start`."""
        return self._model

    @property
    def complete(self) -> bool:
        """True once `message_stop` was seen."""
        return self._complete

    @property
    def error(self) -> str | None:
        """Type of the `error` event, if one came."""
        return self._error

    def feed(self, data: bytes) -> bytes:
        """Take any chunk; return whole events only. Raises WireRefused on an oversized event."""
        return b"".join(self._event(event) for event in self._parser.feed(data))

    def close(self) -> bytes:
        """Return what is held. An event cut off by the end is dropped: it cannot be restored."""
        out = [self._event(event, cut=True) for event in self._parser.close()]
        return b"".join([*out, self._flush_all()])

    def _event(self, event: SseEvent, *, cut: bool = False) -> bytes:
        if event.data is None:
            return event.raw if not cut or not event.raw.strip() else b""
        try:
            document = read_answer(event.data.encode())
        except WireRefused:
            return b"" if cut else self._plain(event, event.data)
        if cut:
            event = replace(event, raw=serialise(event.event, event.data, event.id))
        if not isinstance(document, dict):
            return self._other(event, document)
        kind = document.get("type", event.event)
        if not isinstance(kind, str):
            return self._other(event, document)
        self._watch(kind, document)
        handler = self._HANDLERS.get(kind)
        return handler(self, event, document) if handler else self._other(event, document)

    def _watch(self, kind: str, document: dict[str, Any]) -> None:
        """Remember what the record of the call needs."""
        message = document.get("message")
        if kind == "message_start" and isinstance(message, dict):
            self._usage = self._usage.at_least(usage_from(message.get("usage")))
            model = message.get("model")
            self._model = model if isinstance(model, str) else self._model
        elif kind == "message_delta":
            self._usage = self._usage.at_least(usage_from(document.get("usage")))
            delta = document.get("delta")
            reason = delta.get("stop_reason") if isinstance(delta, dict) else None
            self._stop_reason = reason if isinstance(reason, str) else self._stop_reason
        elif kind == "message_stop":
            self._complete = True
        elif kind == "error":
            error = document.get("error")
            word = error.get("type") if isinstance(error, dict) else None
            self._error = word[:_MAX_WORD] if isinstance(word, str) else "error"

    def _start(self, event: SseEvent, document: dict[str, Any]) -> bytes:
        index, block = document.get("index"), document.get("content_block")
        if not isinstance(index, int) or not isinstance(block, dict):
            return self._other(event, document)
        kind = block.get("type")
        if isinstance(kind, str) and kind in SIGNED_TEXT:
            self._sealing[index] = dict(block)
        before = self._flush(index)
        text = block.get("text")
        if block.get("type") == "text" and isinstance(text, str):
            shown = self._run(index, "text_delta", "text").feed(text)
            block = {**{k: self._restored(v) for k, v in block.items()}, "text": shown}
        else:
            block = self._restored(block)
        return before + self._changed(event, document, {**document, "content_block": block})

    def _delta(self, event: SseEvent, document: dict[str, Any]) -> bytes:
        index, delta = document.get("index"), document.get("delta")
        kind = delta.get("type") if isinstance(delta, dict) else None
        if not isinstance(index, int) or not isinstance(delta, dict) or not isinstance(kind, str):
            return self._other(event, document)
        if kind in _SIGNED_DELTAS or index in self._sealing:
            self._seal(index, kind, delta)
            return event.raw
        member = _PIECES.get(kind) or _only_text(kind, delta)
        piece = delta.get(member)
        if not isinstance(piece, str):
            return self._other(event, document)
        known = self._runs.get(index)
        before = self._flush(index) if known is not None and known[:2] != (kind, member) else b""
        shown = self._run(index, kind, member).feed(piece)
        if not shown and piece and len(delta) == 2:
            return before
        restored = {**self._restored({**delta, member: None}), member: shown}
        return before + self._changed(event, document, {**document, "delta": restored})

    def _stop(self, event: SseEvent, document: dict[str, Any]) -> bytes:
        index = document.get("index")
        if not isinstance(index, int):
            return self._other(event, document)
        found = signed_text(self._sealing.pop(index, {}))
        if found is not None:
            self._signed(*found)
        return self._flush(index) + self._other(event, document)

    def _seal(self, index: int, kind: str, delta: dict[str, Any]) -> None:
        """Gather what belongs to a signed block, to know it when it comes back."""
        block = self._sealing.get(index)
        if block is None or kind not in _SIGNED_DELTAS:
            return
        source, target = _SIGNED_DELTAS[kind]
        before, piece = block.get(target), delta.get(source)
        if isinstance(piece, str):
            block[target] = (before if isinstance(before, str) else "") + piece
        if kind == "compaction_delta" and isinstance(delta.get("encrypted_content"), str):
            block["encrypted_content"] = delta["encrypted_content"]

    def _whole(self, event: SseEvent, document: dict[str, Any]) -> bytes:
        return self._flush_all() + self._other(event, document)

    def _other(self, event: SseEvent, document: Any) -> bytes:
        """Restore an event that is whole in itself, known or not."""
        return self._changed(event, document, self._restored(document))

    def _plain(self, event: SseEvent, text: str) -> bytes:
        """Restore an event whose data is not JSON."""
        restored = restore_string(text, self._restore)
        return event.raw if restored == text else event.with_data(restored)

    def _restore(self, text: str) -> str:
        restorer = self._restorers(str)
        return restorer.feed(text) + restorer.flush()

    def _restored(self, value: Any) -> Any:
        return self._restore_node(value, self._restore)

    def _run(self, index: int, delta_type: str, member: str) -> Run:
        known = self._runs.get(index)
        if known is None or known[0] != delta_type:
            run = Run(self._restorers, must_be_json=delta_type == "input_json_delta")
            known = self._runs[index] = (delta_type, member, run)
        return known[2]

    def _flush(self, index: int) -> bytes:
        delta_type, member, run = self._runs.pop(index, ("", "", None))
        held = run.flush() if run is not None else ""
        if not held:
            return b""
        document = {
            "type": "content_block_delta",
            "index": index,
            "delta": {"type": delta_type, member: held},
        }
        return serialise("content_block_delta", write_answer(document).decode())

    def _flush_all(self) -> bytes:
        return b"".join(self._flush(index) for index in list(self._runs))

    @staticmethod
    def _changed(event: SseEvent, before: Any, after: Any) -> bytes:
        return event.raw if after == before else event.with_data(write_answer(after).decode())

    _HANDLERS: Final[dict[str, Callable[[AnthropicStream, SseEvent, dict[str, Any]], bytes]]] = {
        "message_start": _whole,
        "content_block_start": _start,
        "content_block_delta": _delta,
        "content_block_stop": _stop,
        "message_delta": _whole,
        "message_stop": _whole,
        "error": _whole,
    }
