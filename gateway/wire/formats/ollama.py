"""Ollama's own API: chat, generate, embeddings, and the calls that look at the local models.

Invariant: every string of a request is text but for roles; the calls that change what the server
holds (pull, push, create, copy, delete, blobs) are not listed and so are refused. An answer is a
stream of JSON lines unless the request says otherwise; a tool call in it comes whole.
Bodies are JSON whatever they are declared as: `curl -d`, as Ollama's own documentation uses it,
declares a form. Source: the published API reference, Nov 2026. Called through the registry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gateway.wire.base import (
    Location,
    RestorerFactory,
    StreamTransformer,
    Usage,
    ignore_signed,
    words,
)
from gateway.wire.body import EVENT_STREAM, JSON, BodilessFormat, Call, JsonFormat
from gateway.wire.errors import Family
from gateway.wire.ndjson import NdjsonFraming
from gateway.wire.schema import Schema, SchemaWalk
from gateway.wire.stream import DeltaStream, Found, Path, Piece, SseFraming, put
from gateway.wire.walk import restore_free

NDJSON: Final = "application/x-ndjson"
_REQUEST_TYPES: Final = frozenset((JSON, "application/x-www-form-urlencoded", "text/plain"))

#: Numbers of `context` that are token ids for certain: vocabularies end below a million.
_TOKEN_IDS: Final = 1_000_000

#: Where the text of one line stands, in `chat` and in `generate`.
_TEXTS: Final[tuple[Path, ...]] = (("message", "content"), ("response",))
#: Where the model's thinking stands: a token in it stays one.
_THINKING: Final[tuple[Path, ...]] = (("message", "thinking"), ("thinking",))


class OllamaWalk(SchemaWalk):
    """A request of any of the calls."""

    SCHEMA = Schema(
        name="ollama",
        fields=words(
            """
            arguments content context description dimensions format function id images index
            input keep_alive logprobs messages model name options parameters prompt raw role
            shift stream suffix system template think thinking tool_call_id tool_calls tool_name
            tools top_logprobs truncate type verbose
            """
        ),
        free=frozenset(("arguments", "format", "options", "parameters")),
        parts=frozenset(("messages", "tools")),
        tags=frozenset(("role", "type")),
        tag_words=words("system user assistant tool function"),
    )

    def field(self, name: str, value: Any, place: Location) -> Any:
        """Redact a member; images are base64, and `context` is a long list of token ids."""
        if name == "images" and isinstance(value, list):
            return [self._image(item, place.index(number)) for number, item in enumerate(value)]
        if name == "context" and isinstance(value, list):
            return [item if _is_token_id(item) else self.scan.free(item) for item in value]
        return super().field(name, value, place)

    def string(self, name: str, value: str, place: Location) -> str:
        """Redact a string; `images` may hold one alone."""
        return self._image(value, place) if name == "images" else super().string(name, value, place)

    def _image(self, image: Any, place: Location) -> Any:
        if not isinstance(image, str):
            return self.scan.free(image)
        if image[:5].lower() == "data:":
            return self.url(image, place)
        return self.blob(image, "image/unknown", place)


def _is_token_id(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value < _TOKEN_IDS


def usage_from(document: Any) -> Usage:
    """Return the counts of the last line, or of a whole answer."""

    def count(name: str) -> int:
        number = document.get(name)
        return number if isinstance(number, int) and number > 0 else 0

    if not isinstance(document, dict):
        return Usage()
    return Usage(count("prompt_eval_count"), count("eval_count"))


def restore_answer(document: Any, restore: Callable[[str], str]) -> Any:
    """Return an answer restored, except in what the model thought."""
    kept = [(path, text) for path in _THINKING if (text := _text(document, path)) is not None]
    for path, _ in kept:
        document = put(document, path, None)
    restored = restore_free(document, restore)
    for path, text in kept:
        restored = put(restored, path, text)
    return restored


def _text(document: Any, path: Path) -> str | None:
    """Return the string at `path`, if there is one."""
    for step in path:
        document = document.get(step) if isinstance(document, dict) else None
    return document if isinstance(document, str) else None


class OllamaStream(DeltaStream):
    """One document a line; the one with `done` is the last."""

    def find(self, document: Any) -> Found:
        """See the base class."""
        if not isinstance(document, dict):
            return Found()
        if "error" in document:
            self.error = "error"
            return Found(ends=None)
        model = document.get("model")
        self.model = model if isinstance(model, str) else self.model
        is_last = document.get("done") is True
        if is_last:
            self._end(document)
        texts = [path for path in _TEXTS if _text(document, path) is not None]
        pieces = [Piece(path, path, last=is_last) for path in texts]
        untouched = [path for path in _THINKING if _text(document, path) is not None]
        # A tool call stands after the text before it, also when that text is still held.
        message = document.get("message")
        calls = isinstance(message, dict) and bool(message.get("tool_calls"))
        return Found(pieces, _TEXTS if calls else (), untouched)

    def held(self, key: Any, template: Any, text: str) -> Any:
        """Return a line with the members every line has."""
        kept = {name: template[name] for name in ("model", "created_at") if name in template}
        if key == ("message", "content"):
            return {**kept, "message": {"role": "assistant", "content": text}, "done": False}
        return {**kept, "response": text, "done": False}

    def is_bare(self, document: Any) -> bool:
        """A line says nothing but its text when it has no other member."""
        message = document.get("message", {})
        return (
            isinstance(message, dict)
            and document.get("done") is not True
            and document.keys() <= {"model", "created_at", "message", "response", "done"}
            and message.keys() <= {"role", "content"}
        )

    def _end(self, document: dict[str, Any]) -> None:
        self.complete = True
        self.usage = usage_from(document)
        reason = document.get("done_reason")
        self.stop_reason = reason if isinstance(reason, str) else None


class OllamaGenerate(JsonFormat):
    """`POST /api/chat` and `POST /api/generate`."""

    family = Family.OLLAMA
    request_types = _REQUEST_TYPES
    stream_types = frozenset((NDJSON, EVENT_STREAM))
    walk = OllamaWalk

    def wants_stream(self, document: Any) -> bool:
        """Tell whether the answer streams: it does unless the request says no."""
        return isinstance(document, dict) and document.get("stream") is not False

    def usage_of(self, document: Any) -> Usage:
        """Return the counts of a whole answer."""
        return usage_from(document)

    def stop_reason_of(self, document: Any) -> str | None:
        """Return `done_reason`."""
        reason = document.get("done_reason") if isinstance(document, dict) else None
        return reason if isinstance(reason, str) else None

    def restore_response(self, document: Any, restore: Callable[[str], str]) -> Any:
        """Return an answer restored, except in what the model thought."""
        return restore_answer(document, restore)

    def new_stream(
        self,
        restorers: RestorerFactory,
        signed: Callable[[str, str], None] = ignore_signed,
        media_type: str = EVENT_STREAM,
    ) -> StreamTransformer:
        """Return the transformer of one answer."""
        framing = SseFraming() if media_type == EVENT_STREAM else NdjsonFraming()
        return OllamaStream(restorers, framing)


class OllamaAsk(JsonFormat):
    """The calls that take a document and answer with one: embeddings, and what a model is."""

    family = Family.OLLAMA
    request_types = _REQUEST_TYPES
    walk = OllamaWalk

    def wants_stream(self, document: Any) -> bool:
        """These never stream."""
        return False

    def usage_of(self, document: Any) -> Usage:
        """Return the counts of an embedding."""
        return usage_from(document)


class OllamaLook(BodilessFormat):
    """The calls that list the models and tell the version."""

    family = Family.OLLAMA


def _call(template: str, method: str = "POST") -> Call:
    return Call(method=method, template=template, provider="ollama")


FORMATS: Final = (
    OllamaGenerate("ollama.chat", (_call("/api/chat"),)),
    OllamaGenerate("ollama.generate", (_call("/api/generate"),)),
    OllamaAsk("ollama.embed", (_call("/api/embed"), _call("/api/embeddings"))),
    OllamaAsk("ollama.show", (_call("/api/show"),)),
    OllamaLook(
        "ollama.models",
        (_call("/api/tags", "GET"), _call("/api/ps", "GET"), _call("/api/version", "GET")),
    ),
)
