"""The Gemini API: generate, stream, count, embed, models, cached contents and batches.

Invariant: where text lives is said by `gemini_schema`; the verb at the end of the path says what is
asked and whether the answer is a stream, so nothing in a body can turn one call into another.
A stream is server-sent events with `alt=sse` and a JSON array without.
Called by the scanning workers (requests) and the pipeline (answers) through the registry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gateway.wire.base import RestorerFactory, StreamTransformer, Usage, ignore_signed
from gateway.wire.body import EVENT_STREAM, FREE, JSON, BodilessFormat, Call, JsonFormat
from gateway.wire.errors import Family
from gateway.wire.formats.gemini_schema import GeminiWalk
from gateway.wire.formats.gemini_stream import (
    member,
    new_stream,
    restore_node,
    stop_reason_of,
    usage_from,
)

#: Blank lines, which are white space in a JSON array too: the only filler that the clients of this
#: API accept (contracts/clients.md section 3).
KEEP_ALIVE: Final = b"\n\n"

#: Query keys of every call. `key` is a credential, which the route table takes out.
QUERY: Final = {
    "alt": "json",
    "$alt": r"json(?:(?:;|%3B)enum-encoding(?:=|%3D)int)?",
    "prettyPrint": "true|false",
}
STREAM_QUERY: Final = {**QUERY, "alt": "sse|json", "$alt": "sse|json"}
LIST_QUERY: Final = {**QUERY, "pageSize": r"\d{1,5}", "pageToken": FREE, "filter": FREE}


class GeminiFormat(JsonFormat):
    """Calls whose answer is one document."""

    family = Family.GEMINI
    keep_alive = KEEP_ALIVE
    stream_types = frozenset()
    walk = GeminiWalk

    def model_of(self, document: Any) -> str:
        """Return `modelVersion` of an answer, or `model` of a request."""
        version = member(document, "modelVersion")
        return version if isinstance(version, str) else super().model_of(document)

    def usage_of(self, document: Any) -> Usage:
        """Return the counts of `usageMetadata`."""
        return usage_from(document)

    def stop_reason_of(self, document: Any) -> str | None:
        """Return the finish reason of the first candidate."""
        return stop_reason_of(document)

    def restore_response(self, document: Any, restore: Callable[[str], str]) -> Any:
        """Return an answer or error restored, but for thoughts and signatures."""
        return restore_node(document, restore)


class GeminiStreamFormat(GeminiFormat):
    """`:streamGenerateContent`, whose answer is a stream whatever the body says."""

    stream_types = frozenset((EVENT_STREAM, JSON))

    def wants_stream(self, document: Any) -> bool:
        """Tell that the answer is a stream: the verb says so."""
        return True

    def new_stream(
        self,
        restorers: RestorerFactory,
        signed: Callable[[str, str], None] = ignore_signed,
        media_type: str = EVENT_STREAM,
    ) -> StreamTransformer:
        """Return the transformer of one answer, by its media type."""
        return new_stream(restorers, media_type)


class GeminiReading(BodilessFormat):
    """Calls that only name something: models, cached contents, batches."""

    family = Family.GEMINI
    stream_types = frozenset()

    def restore_response(self, document: Any, restore: Callable[[str], str]) -> Any:
        """Return an answer restored; a batch's answer holds those of its requests."""
        return restore_node(document, restore)


def _calls(
    *templates: str,
    versions: tuple[str, ...] = ("v1", "v1beta", "v1alpha"),
    method: str = "POST",
    query: dict[str, str] = QUERY,
) -> tuple[Call, ...]:
    return tuple(
        Call(method=method, template=f"/{version}/{template}", provider="google", query=query)
        for version in versions
        for template in templates
    )


_PREVIEW: Final = ("v1beta", "v1alpha")

FORMATS: Final = (
    GeminiFormat(
        "gemini.generate",
        _calls("models/{model}:generateContent", "tunedModels/{model}:generateContent"),
    ),
    GeminiStreamFormat(
        "gemini.stream",
        _calls(
            "models/{model}:streamGenerateContent",
            "tunedModels/{model}:streamGenerateContent",
            query=STREAM_QUERY,
        ),
    ),
    GeminiFormat("gemini.count_tokens", _calls("models/{model}:countTokens")),
    GeminiFormat(
        "gemini.embed",
        _calls("models/{model}:embedContent", "models/{model}:batchEmbedContents"),
    ),
    GeminiFormat("gemini.predict", _calls("models/{model}:predict")),
    GeminiFormat(
        "gemini.batches",
        _calls(
            "models/{model}:batchGenerateContent",
            "models/{model}:asyncBatchEmbedContent",
            versions=_PREVIEW,
        ),
    ),
    GeminiFormat(
        "gemini.cached_contents",
        (
            *_calls("cachedContents", versions=_PREVIEW),
            *_calls(
                "cachedContents/{name}",
                versions=_PREVIEW,
                method="PATCH",
                query={**QUERY, "updateMask": r"[A-Za-z_,.]{1,64}"},
            ),
        ),
    ),
    GeminiReading(
        "gemini.read",
        (
            *_calls("models", method="GET", query=LIST_QUERY),
            *_calls("models/{model}", method="GET"),
            *_calls("tunedModels", versions=_PREVIEW, method="GET", query=LIST_QUERY),
            *_calls("tunedModels/{model}", versions=_PREVIEW, method="GET"),
            *_calls("cachedContents", "batches", versions=_PREVIEW, method="GET", query=LIST_QUERY),
            *_calls("cachedContents/{name}", "batches/{name}", versions=_PREVIEW, method="GET"),
            *_calls("cachedContents/{name}", "batches/{name}", versions=_PREVIEW, method="DELETE"),
            *_calls("batches/{name}:cancel", versions=_PREVIEW),
        ),
    ),
)
