"""Anthropic's older calls beside Messages: text completions, and the list of models.

Invariant: as in Messages, every string of a request that is not a tag, a model or a count is text.
A completion streams as one run of text; the event with a stop reason is its end.
Source: the published API reference. Called through the registry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gateway.wire.base import RestorerFactory, StreamTransformer, ignore_signed, words
from gateway.wire.body import EVENT_STREAM, FREE, BodilessFormat, Call, JsonFormat
from gateway.wire.errors import Family
from gateway.wire.formats.anthropic import AnthropicWalk
from gateway.wire.schema import Schema, SchemaWalk
from gateway.wire.sse import serialise
from gateway.wire.stream import MAX_WORD, DeltaStream, Found, Piece, SseFraming

_KIND: Final = "completion"


class CompleteWalk(SchemaWalk):
    """A request of `POST /v1/complete`."""

    SCHEMA = Schema(
        name="anthropic.complete",
        fields=words(
            "max_tokens_to_sample metadata model prompt stop_sequences stream temperature top_k "
            "top_p"
        ),
        free=frozenset(("metadata",)),
        model_prefix=AnthropicWalk.SCHEMA.model_prefix,
        model_body=AnthropicWalk.SCHEMA.model_body,
    )


class CompletionStream(DeltaStream):
    """The events `completion`, `ping` and `error`."""

    def __init__(self, restorers: RestorerFactory) -> None:
        super().__init__(restorers, SseFraming(lambda _document: _KIND))

    def find(self, document: Any) -> Found:
        """See the base class."""
        if not isinstance(document, dict):
            return Found()
        # Earlier versions of the API name no type in the data.
        kind = document.get("type") or ("error" if "error" in document else _KIND)
        if kind == "error":
            error = document.get("error")
            word = error.get("type") if isinstance(error, dict) else None
            self.error = word[:MAX_WORD] if isinstance(word, str) else "error"
            return Found(ends=None)
        if kind != _KIND or not isinstance(document.get(_KIND), str):
            return Found()
        model, reason = document.get("model"), document.get("stop_reason")
        self.model = model if isinstance(model, str) else self.model
        if isinstance(reason, str):
            self.stop_reason, self.complete = reason, True
        return Found([Piece((_KIND,), _KIND, last=isinstance(reason, str))])

    def held(self, key: Any, template: Any, text: str) -> Any:
        """Return a completion event."""
        return {**template, _KIND: text}

    def is_bare(self, document: Any) -> bool:
        """A completion event says nothing but its text until the last one."""
        return document.get("stop_reason") is None


class AnthropicComplete(JsonFormat):
    """`POST /v1/complete`."""

    family = Family.ANTHROPIC
    keep_alive = serialise("ping", '{"type": "ping"}')
    walk = CompleteWalk

    def stop_reason_of(self, document: Any) -> str | None:
        """Return `stop_reason`."""
        reason = document.get("stop_reason") if isinstance(document, dict) else None
        return reason if isinstance(reason, str) else None

    def new_stream(
        self,
        restorers: RestorerFactory,
        signed: Callable[[str, str], None] = ignore_signed,
        media_type: str = EVENT_STREAM,
    ) -> StreamTransformer:
        """Return the transformer of one event stream."""
        return CompletionStream(restorers)


class AnthropicModels(BodilessFormat):
    """`GET /v1/models` and `GET /v1/models/{model}`."""

    family = Family.ANTHROPIC


_BETA: Final = {"beta": "true|false|1|0"}
_PAGE: Final = {
    **_BETA,
    "limit": r"\d{1,4}",
    "before_id": FREE,
    "after_id": FREE,
    "lifecycle[]": "active|deprecated|retired",
}

FORMATS: Final = (
    AnthropicComplete(
        "anthropic.complete", (Call(template="/v1/complete", provider="anthropic", bare=True),)
    ),
    AnthropicModels(
        "anthropic.models",
        (
            Call(method="GET", template="/v1/models", provider="anthropic", query=_PAGE, bare=True),
            Call(
                method="GET",
                template="/v1/models/{model}",
                provider="anthropic",
                query=_BETA,
                bare=True,
            ),
        ),
    ),
)
