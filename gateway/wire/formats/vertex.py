"""Vertex AI: the formats of Gemini, Anthropic and Mistral under a project's own paths.

Owns the route table of Vertex and the few things its answers do differently. Publisher models keep
the format of their publisher: `rawPredict` of an Anthropic model takes a Messages body, read by the
very same walk. The compatible chat endpoint is listed with the chat format. Credentials are bearer
tokens. Called like every format, through the registry.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.wire.base import Usage
from gateway.wire.body import Call
from gateway.wire.formats.anthropic import AnthropicMessages
from gateway.wire.formats.gemini import (
    LIST_QUERY,
    QUERY,
    STREAM_QUERY,
    GeminiFormat,
    GeminiReading,
    GeminiStreamFormat,
)
from gateway.wire.formats.gemini_stream import member
from gateway.wire.formats.openai_chat import OpenAiChat

_VERSIONS: Final = ("v1", "v1beta1")
_HOME: Final = "projects/{project}/locations/{location}"
#: Models under a project, and without one for clients that have an API key (express mode).
_GOOGLE: Final = f"{_HOME}/publishers/google/models/{{model}}"
_EXPRESS: Final = "publishers/google/models/{model}"
_ENDPOINT: Final = f"{_HOME}/endpoints/{{endpoint}}"
_CLAUDE: Final = f"{_HOME}/publishers/anthropic/models/{{model}}"
_MISTRAL: Final = f"{_HOME}/publishers/mistralai/models/{{model}}"


class VertexPredict(GeminiFormat):
    """`:predict`: instances in, predictions out; the counts stand beside each embedding."""

    def usage_of(self, document: Any) -> Usage:
        """Return the tokens of all instances as input."""
        predictions = member(document, "predictions")
        total = 0
        for prediction in predictions if isinstance(predictions, list) else ():
            counts = member(member(prediction, "embeddings"), "statistics")
            number = member(counts, "tokenCount")
            total += number if isinstance(number, int) and not isinstance(number, bool) else 0
        return Usage(input=total) if total else super().usage_of(document)


def _calls(
    *templates: str, method: str = "POST", query: dict[str, str] = QUERY
) -> tuple[Call, ...]:
    return tuple(
        Call(method=method, template=f"/{version}/{template}", provider="vertex", query=query)
        for version in _VERSIONS
        for template in templates
    )


FORMATS: Final = (
    GeminiFormat(
        "vertex.generate",
        _calls(
            f"{_GOOGLE}:generateContent",
            f"{_EXPRESS}:generateContent",
            f"{_ENDPOINT}:generateContent",
        ),
    ),
    GeminiStreamFormat(
        "vertex.stream",
        _calls(
            f"{_GOOGLE}:streamGenerateContent",
            f"{_EXPRESS}:streamGenerateContent",
            f"{_ENDPOINT}:streamGenerateContent",
            query=STREAM_QUERY,
        ),
    ),
    GeminiFormat(
        "vertex.count_tokens",
        _calls(
            f"{_GOOGLE}:countTokens",
            f"{_EXPRESS}:countTokens",
            f"{_GOOGLE}:computeTokens",
            f"{_ENDPOINT}:countTokens",
            f"{_ENDPOINT}:computeTokens",
        ),
    ),
    GeminiFormat("vertex.embed", _calls(f"{_GOOGLE}:embedContent")),
    VertexPredict("vertex.predict", _calls(f"{_GOOGLE}:predict", f"{_ENDPOINT}:predict")),
    GeminiFormat(
        "vertex.cached_contents",
        (
            *_calls(f"{_HOME}/cachedContents"),
            *_calls(
                f"{_HOME}/cachedContents/{{name}}",
                method="PATCH",
                query={**QUERY, "updateMask": r"[A-Za-z_,.]{1,64}"},
            ),
        ),
    ),
    GeminiReading(
        "vertex.read",
        (
            *_calls(_GOOGLE, _EXPRESS, f"{_HOME}/cachedContents/{{name}}", method="GET"),
            *_calls(
                "publishers/google/models",
                f"{_HOME}/cachedContents",
                method="GET",
                query=LIST_QUERY,
            ),
            *_calls(f"{_HOME}/cachedContents/{{name}}", method="DELETE"),
        ),
    ),
    AnthropicMessages(
        "vertex.anthropic", _calls(f"{_CLAUDE}:rawPredict", f"{_CLAUDE}:streamRawPredict")
    ),
    OpenAiChat("vertex.mistral", _calls(f"{_MISTRAL}:rawPredict", f"{_MISTRAL}:streamRawPredict")),
)
