"""OpenAI Chat Completions: where text lives in requests and answers, at whoever serves them.

Invariant: in a request every string is text unless it sits under a structural name *and* looks
like what belongs there; a content part of unknown type is refused; sealed reasoning passes byte
for byte; members of other servers' making are read as free-form data. The same message gives the
same bytes on every turn. The same calls exist on Azure (see `azure`) and at Google's compatible
endpoints (Gemini's and Vertex').
Sources: the published API reference, the types of the official SDK (3.57), the references of the
servers that extend it, Nov 2026. Called by the scanning workers and the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gateway.wire import openai_schema
from gateway.wire.base import (
    Location,
    RestorerFactory,
    StreamTransformer,
    Usage,
    ignore_signed,
    words,
)
from gateway.wire.body import EVENT_STREAM, FREE, BodilessFormat, Call, JsonFormat
from gateway.wire.errors import Family
from gateway.wire.formats.openai_chat_stream import (
    SIGNED_LISTS,
    OpenAiStream,
    restore_answer,
    signed_text,
)
from gateway.wire.schema import Schema, SchemaWalk, is_seal

#: Types of content parts: OpenAI's own, then those of OpenRouter, vLLM and Mistral. A type that is
#: missing here is refused: nobody knows where its text would be.
PART_TYPES: Final = words(
    """
    text image_url input_audio file refusal
    input_text output_text input_image input_file video_url input_video audio_url document_url
    reference thinking
    """
)

_FREE: Final = words("parameters schema metadata logit_bias arguments")

#: Field names of the API, which need no scan as keys. Others are text.
_FIELDS: Final = words(
    """
    allowed_tools annotations approximate arguments audio cache_control city content country custom
    data definition description detail document_url effort end_index expires_at extra_content file
    file_data file_id filename format frequency_penalty function function_call functions google
    grammar id image_url include_obfuscation include_usage index input input_audio json_schema
    logit_bias logprobs max_completion_tokens max_tokens messages metadata modalities mode model
    moderation n name output parallel_tool_calls parameters policy prediction presence_penalty
    prompt_cache_breakpoint prompt_cache_key prompt_cache_options prompt_cache_retention reasoning
    reasoning_content reasoning_details reasoning_effort reasoning_opaque reasoning_text refusal
    region response_format role safety_identifier schema search_context_size seed service_tier
    signature start_index stop store stream stream_options strict summary syntax temperature text
    thinking thinking_blocks thought_signature timezone title tool_call_id tool_calls tool_choice
    tools top_logprobs top_p transcript ttl type url url_citation user user_location verbosity
    video_url audio_url voice web_search_options
    """
)

_SCHEMA: Final = Schema(
    name="openai.chat",
    fields=_FIELDS,
    free=_FREE,
    parts=frozenset(("messages", "tools", "functions")),
    content=frozenset(("content",)),
    block_types=PART_TYPES,
    urls=openai_schema.URLS,
    ids=openai_schema.IDS,
    id_prefix=openai_schema.ID_PREFIX,
    id_body=openai_schema.ID_BODY,
    seals=openai_schema.SEALS,
    tags=openai_schema.TAGS,
    tag_words=openai_schema.TAG_WORDS
    | PART_TYPES
    | words("url_citation reasoning.text reasoning.summary reasoning.encrypted ephemeral"),
    model_prefix=openai_schema.MODEL_PREFIX,
    model_body=openai_schema.MODEL_BODY,
    telling=openai_schema.TELLING,
)


class ChatWalk(SchemaWalk):
    """One chat request: files, sounds and sealed reasoning beside the rest."""

    SCHEMA = _SCHEMA
    KNOWN_LISTS = frozenset(("tools", "messages"))

    def field(self, name: str, value: Any, place: Location) -> Any:
        """Redact a member; sounds and lists of thoughts are of their own kind."""
        if name in ("input_audio", "audio") and isinstance(value, dict):
            return self.sound(value, place)
        if name in SIGNED_LISTS and isinstance(value, list):
            return self.each(value, place, self.thought)
        if name == "file" and isinstance(value, dict) and value.get("file_id") is not None:
            self.opaque("file", place)
        return super().field(name, value, place)

    def string(self, name: str, value: str, place: Location) -> str:
        """Redact the string under `name`; a file's data is base64, or an address with some."""
        if name == "file_data":
            return self.data(value, "", place)
        return super().string(name, value, place)

    def data(self, data: str, media_type: str, place: Location) -> str:
        """Redact base64 data, with or without `data:` before it, or an address."""
        if data[:5].lower() == "data:" or "://" in data[:16]:
            return self.url(data, place)
        return self.blob(data, media_type, place)

    def sound(self, sound: dict[str, Any], place: Location) -> dict[str, Any]:
        """Redact an object whose `data` is a sound, if it has any."""
        data = sound.get("data")
        if not isinstance(data, str):
            return self.fields(sound, place)
        kind = sound.get("format")
        scanned = self.fields({**sound, "data": None}, place)
        media = f"audio/{kind}" if isinstance(kind, str) else "audio/wav"
        return {**scanned, "data": self.data(data, media, place)}

    def thought(self, thought: dict[str, Any], place: Location) -> dict[str, Any]:
        """Redact one thought of a model, except in what its provider signed or sealed."""
        sealed = self._sealed_members(thought)
        if not sealed:
            return self.fields(thought, place)
        self.report.signed_parts += 1
        # Members keep their order; what the provider signed goes back exactly as it came.
        scanned = self.fields({**thought, **dict.fromkeys(sealed, None)}, place)
        return {**scanned, **{name: thought[name] for name in sealed}}

    def _sealed_members(self, thought: dict[str, Any]) -> list[str]:
        sealed = [name for name in ("data", "signature") if is_seal(thought.get(name))]
        for member in SIGNED_LISTS.values():
            signed = signed_text(thought, member)
            if signed is not None:
                self.asked += 1
                if self.vouched(*signed):
                    sealed += [member, *(["signature"] if "signature" not in sealed else [])]
        return sealed


class OpenAiFormat(JsonFormat):
    """What the calls of this API that answer with choices, or with no text, have in common."""

    family = Family.OPENAI
    #: A comment: the filler that all clients of this API accept (contracts/clients.md section 3).
    keep_alive = b": keep-alive\n\n"

    def usage_of(self, document: Any) -> Usage:
        """Return the counts of `usage`."""
        return openai_schema.usage_from(document.get("usage") if isinstance(document, dict) else 0)

    def stop_reason_of(self, document: Any) -> str | None:
        """Return the finish reason of the first choice."""
        reason = next((choice.get("finish_reason") for choice in _choices(document)), None)
        return reason if isinstance(reason, str) else None

    def restore_response(self, document: Any, restore: Callable[[str], str]) -> Any:
        """Return an answer or error restored, except in what a model thought."""
        return restore_answer(document, restore)

    def signed_texts(self, document: Any) -> Iterator[tuple[str, str]]:
        """Yield thoughts with what their provider signed them with."""
        for choice in _choices(document):
            message = choice.get("message")
            if not isinstance(message, dict):
                continue
            for name, member in SIGNED_LISTS.items():
                thoughts = message.get(name)
                for thought in thoughts if isinstance(thoughts, list) else ():
                    if (found := signed_text(thought, member)) is not None:
                        yield found

    def new_stream(
        self,
        restorers: RestorerFactory,
        signed: Callable[[str, str], None] = ignore_signed,
        media_type: str = EVENT_STREAM,
    ) -> StreamTransformer:
        """Return the transformer of one event stream."""
        return OpenAiStream(restorers, signed)


class OpenAiChat(OpenAiFormat):
    """`POST /v1/chat/completions`."""

    walk = ChatWalk


def _choices(document: Any) -> list[dict[str, Any]]:
    choices = document.get("choices") if isinstance(document, dict) else None
    return [c for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []


class StoredChats(BodilessFormat):
    """Reading and deleting what a provider keeps of answers: no body, answers like any other."""

    family = Family.OPENAI

    def restore_response(self, document: Any, restore: Callable[[str], str]) -> Any:
        """Return an answer or error restored, except in what a model thought."""
        return restore_answer(document, restore)


_PAGES: Final = {"after": FREE, "limit": r"[0-9]{1,4}", "order": "asc|desc", "model": FREE}
_VERTEX: Final = "projects/{project}/locations/{location}/endpoints/{endpoint}/chat/completions"


def _stored(method: str, template: str = "", query: Mapping[str, str] | None = None) -> Call:
    path = f"/v1/chat/completions{template}"
    return Call(method=method, template=path, provider="openai", query=query or {}, bare=True)


FORMATS: Final = (
    OpenAiChat(
        "openai.chat",
        (
            Call(template="/v1/chat/completions", provider="openai", bare=True),
            Call(template="/v1beta/openai/chat/completions", provider="google"),
            Call(template=f"/v1/{_VERTEX}", provider="vertex"),
            Call(template=f"/v1beta1/{_VERTEX}", provider="vertex"),
        ),
    ),
    # Changing a stored answer's metadata: a body like a request's, an answer like its answer.
    OpenAiChat("openai.chat_update", (_stored("POST", "/{completion}"),)),
    StoredChats(
        "openai.chats",
        (
            _stored("GET", query=_PAGES),
            _stored("GET", "/{completion}"),
            _stored("DELETE", "/{completion}"),
            _stored("GET", "/{completion}/messages", _PAGES),
        ),
    ),
)
