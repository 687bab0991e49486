"""OpenAI's calls about plain texts: the older Completions, Embeddings and Moderations.

Invariant: a text given as the numbers of a model's own vocabulary cannot be read here and would be
read in full at the provider, so it is refused; every other string is text, as in chat.
Source: the published API reference and the types of the official SDK (3.57), Nov 2026.
Called by the scanning workers and the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gateway.wire import openai_schema
from gateway.wire.base import Location, WireRefused, words
from gateway.wire.body import Call
from gateway.wire.formats.openai_chat import OpenAiFormat
from gateway.wire.formats.openai_chat_stream import restore_answer
from gateway.wire.schema import Schema, SchemaWalk

#: Types of the parts of a moderation's (or a multimodal embedding's) input.
PART_TYPES: Final = words("text image_url video_url")

_FIELDS: Final = words(
    """
    best_of dimensions echo encoding_format frequency_penalty image_url include_obfuscation
    include_usage input input_type logit_bias logprobs max_tokens model n presence_penalty prompt
    seed stop stream stream_options suffix temperature text top_p type url user
    """
)

_SCHEMA: Final = Schema(
    name="openai.texts",
    fields=_FIELDS,
    free=frozenset(("logit_bias",)),
    content=frozenset(("input",)),
    block_types=PART_TYPES,
    urls=openai_schema.URLS,
    tags=openai_schema.TAGS,
    tag_words=openai_schema.TAG_WORDS | PART_TYPES,
    model_prefix=openai_schema.MODEL_PREFIX,
    model_body=openai_schema.MODEL_BODY,
    telling=openai_schema.TELLING,
)


class TextsWalk(SchemaWalk):
    """One request about texts."""

    SCHEMA = _SCHEMA

    def field(self, name: str, value: Any, place: Location) -> Any:
        """Redact a member. Raises WireRefused for text in numbers."""
        if name in ("prompt", "input") and _holds_numbers(value):
            raise WireRefused(
                "tokens",
                f"The text at {place} is a list of token numbers, which the gateway cannot read; "
                "send it as text (in LangChain: check_embedding_ctx_length=False).",
                str(place),
            )
        return super().field(name, value, place)


def _holds_numbers(value: Any) -> bool:
    """Tell whether a text is given as a number, or as lists with one in them, at any depth."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif not isinstance(item, str | dict) and item is not None:
            return True
    return False


class OpenAiTexts(OpenAiFormat):
    """`POST /v1/completions`, `/v1/embeddings` and `/v1/moderations`."""

    walk = TextsWalk

    def restore_response(self, document: Any, restore: Callable[[str], str]) -> Any:
        """Return an answer or error restored; vectors are no text."""
        data = document.get("data") if isinstance(document, dict) else None
        if not isinstance(data, list):
            return restore_answer(document, restore)
        return {**restore_answer({**document, "data": None}, restore), "data": data}


FORMATS: Final = (
    OpenAiTexts(
        "openai.completions",
        (Call(template="/v1/completions", provider="openai", bare=True),),
    ),
    OpenAiTexts(
        "openai.embeddings",
        (
            Call(template="/v1/embeddings", provider="openai", bare=True),
            Call(template="/v1beta/openai/embeddings", provider="google"),
        ),
    ),
    OpenAiTexts(
        "openai.moderations",
        (Call(template="/v1/moderations", provider="openai", bare=True),),
    ),
)
