"""OpenAI Responses and Conversations: where text lives in requests and whole answers.

Invariant: in a request every string is text unless it sits under a structural name *and* looks
like what belongs there; an item or content part of unknown type is refused. Only encrypted content
is sealed: the summary of a reasoning is unsigned, so it is scanned on its way out like any text,
and keeps its tokens on its way back. Sources: the published API reference, the types of the
official SDK (3.57) and what Codex 0.171 sends, Nov 2026.
Called by the scanning workers (requests) and the pipeline (answers) through the registry.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Callable
from typing import Any, Final

from gateway.wire import openai_schema as openai
from gateway.wire.base import (
    Location,
    RestorerFactory,
    StreamTransformer,
    Usage,
    WireRefused,
    ignore_signed,
    words,
)
from gateway.wire.body import EVENT_STREAM, FREE, BodilessFormat, Call, JsonFormat
from gateway.wire.errors import Family
from gateway.wire.formats.openai_responses_stream import (
    ResponsesStream,
    restore_node,
    stop_reason_of,
)
from gateway.wire.schema import Schema, SchemaWalk
from gateway.wire.walk import distinct_keys, restore_string

#: Types of items, those that only Codex sends included. Of another nobody knows where its text is.
ITEM_TYPES: Final = words(
    """
    message reasoning item_reference compaction compaction_summary compaction_trigger
    context_compaction configuration_update additional_tools agent_message program program_output
    function_call function_call_output custom_tool_call custom_tool_call_output
    tool_search_call tool_search_output local_shell_call local_shell_call_output
    shell_call shell_call_output apply_patch_call apply_patch_call_output
    computer_call computer_call_output file_search_call web_search_call code_interpreter_call
    image_generation_call mcp_list_tools mcp_approval_request mcp_approval_response mcp_call
    ghost_snapshot
    """
)
#: Types of content parts.
PART_TYPES: Final = words(
    """
    input_text output_text text refusal summary_text reasoning_text input_image input_file
    input_audio output_audio computer_screenshot encrypted_content image
    """
)

#: Free-form data: everything in it is text, keys included, and names what stands beside it.
_FREE: Final = words(
    """
    parameters schema input_schema output_schema metadata attributes env headers arguments filters
    command commands error client_metadata internal_chat_message_metadata_passthrough
    access_programs
    """
)

#: Field names of the API, which need no scan as keys. Others are text.
_FIELDS: Final = words(
    """
    access_programs acknowledged_safety_checks action actions allowed_callers allowed_tools always
    annotations approval_request_id approve arguments attributes author authorization background
    background_options call_id caller caller_id city client_metadata code command commands
    compact_threshold comparison_response_id completion_window complexity connector_id container
    container_id content content_index context context_compression context_management
    continuation_id conversation conversation_id country created_by data defer_loading definition
    description detail diff display_height display_width domain domain_secrets effort
    embedding_weight encrypted_content encrypted_function_args end_index env environment error
    execution exit_code external_web_access file_data file_id file_ids file_url filename filters
    fingerprint format frame_count frame_duration_ms generate generate_summary grammar headers
    hybrid_search id image image_url include include_obfuscation index input input_audio
    input_fidelity input_image_mask input_schema instructions
    internal_chat_message_metadata_passthrough items keys logprobs logs max_num_results
    max_output_length max_output_tokens max_tool_calls media_type memory_limit message metadata
    mode model moderation name namespace network_policy never object operation order outcome output
    output_compression output_format output_schema outputs parallel_tool_calls parameters
    partial_images path pattern pending_safety_checks personality phase policy
    previous_response_id prewarm prompt prompt_cache_breakpoint prompt_cache_key
    prompt_cache_options prompt_cache_retention quality queries query ranker ranking_options
    read_only reason reasoning recipient refusal region request_country require_approval result
    results revised_prompt role safety_identifier schema score score_threshold scroll_x scroll_y
    search_content_types search_context_size server_description server_label server_url
    service_tier size skill_id skills source sources start_index status stderr stdout store stream
    stream_options strict summary svg svg_usage syntax temperature text text_weight timeout_ms
    timezone title tool_choice tool_names tools top_logprobs top_p truncation ttl tunnel_id type
    url user user_location variables vector_store_ids verbosity version working_directory x y
    """
)

#: More words of the API than the OpenAI APIs share.
_TAG_WORDS: Final = (
    openai.TAG_WORDS
    | ITEM_TYPES
    | PART_TYPES
    | words(
        """
        namespace web_search web_search_preview file_search code_interpreter computer
        computer_use computer_use_preview mcp image_generation local_shell shell apply_patch
        tool_search programmatic_tool_calling container_auto container_reference local allowlist
        disabled enabled skill_reference inline exec direct click double_click drag keypress move
        screenshot scroll wait search open_page find_in_page logs url exit timeout create_file
        delete_file update_file url_citation file_citation container_file_citation file_path and or
        eq ne gt gte lt lte in nin searching interpreting calling generating commentary
        partial_answer final_answer server client original critic discriminator unknown
        mcp_protocol_error mcp_tool_execution_error http_error response conversation list
        application/zip
        """
    )
)

_SCHEMA: Final = Schema(
    name="openai.responses",
    fields=_FIELDS,
    free=_FREE,
    parts=frozenset(("tools",)),
    content=frozenset(("content", "summary")),
    block_types=PART_TYPES,
    urls=openai.URLS,
    ids=openai.IDS
    | words(
        """
        caller_id comparison_response_id continuation_id connector_id tunnel_id file_ids
        vector_store_ids
        """
    ),
    id_prefix=openai.ID_PREFIX,
    id_body=openai.ID_BODY,
    seals=openai.SEALS | words("fingerprint encrypted_function_args"),
    tags=openai.TAGS | frozenset(("phase",)),
    tag_words=_TAG_WORDS,
    dated_tag=re.compile(r"[a-z]+(?:_[a-z]+)*_20\d\d_[01]\d_[0-3]\d"),
    model_prefix=openai.MODEL_PREFIX,
    model_body=openai.MODEL_BODY,
    telling=frozenset(("authorization",)),
)

#: Members that hold a list of items.
_ITEMS: Final = frozenset(("input", "items"))
#: Parts and items that may point at an uploaded file, which nobody reads here.
_FILES: Final = frozenset(("input_image", "input_file", "computer_screenshot"))
#: Headers whose name alone does not say that the whole value is one.
_COOKIES: Final = {"cookie": "secret", "set-cookie": "secret"}


class ResponsesWalk(SchemaWalk):
    """One request: items of every type, and files, sound and pictures inside them."""

    SCHEMA = _SCHEMA
    KNOWN_LISTS = frozenset(("tools", "input"))

    def field(self, name: str, value: Any, place: Location) -> Any:
        """Redact a member; those the API gives a meaning of their own have a method here."""
        if name in _ITEMS and isinstance(value, list):
            return self.each(value, place, self.entry)
        if name == "output":
            return self.output(value, place)
        if name == "logprobs":
            return self.logprobs(value)
        if isinstance(value, dict):
            if name == "variables":
                return self.variables(value, place)
            if name == "headers":
                return self.headers(value)
            if name == "input_audio":
                return self.data(value, f"audio/{value.get('format')}", place)
            if name == "source" and value.get("type") == "base64":
                return self.data(value, str(value.get("media_type")), place)
        if name == "domain_secrets" and isinstance(value, list):
            return [self.secret(each, place) for each in value]
        return super().field(name, value, place)

    def entry(self, entry: dict[str, Any], place: Location) -> dict[str, Any]:
        """Redact an item. Raises WireRefused for a type the API does not have."""
        kind = entry.get("type")
        # The short forms: a message is known by its role, a reference by its lonely id.
        short = "type" not in entry and ("role" in entry or set(entry) == {"id"})
        if not short and (not isinstance(kind, str) or kind not in ITEM_TYPES):
            raise WireRefused(
                "block_type",
                f"The item at {place} has a type this gateway does not know, so its text cannot be "
                "scanned; remove the item or update the gateway.",
                str(place),
            )
        result = entry.get("result")
        if kind == "image_generation_call" and isinstance(result, str) and result:
            media = f"image/{entry.get('output_format') or 'png'}"
            rest = self.fields({**entry, "result": ""}, place)
            rest["result"] = self.blob(result, media, place)
            return rest
        return self.fields(entry, place)

    def block(self, block: dict[str, Any], place: Location) -> dict[str, Any]:
        """Redact a content part and the file in it."""
        kind = self.check_type(block, place)
        if kind in _FILES and block.get("file_id"):
            self.opaque("file", place)
        file = block.get("file_data")
        if not isinstance(file, str) or file[:5].lower() == "data:":
            return self.fields(block, place)
        named = block.get("filename")
        media = mimetypes.guess_type(named)[0] if isinstance(named, str) else None
        rest = self.fields({**block, "file_data": ""}, place)
        rest["file_data"] = self.blob(file, media or "", place)
        return rest

    def string(self, name: str, value: str, place: Location) -> str:
        """Redact a string; `file_data` is an address with the data in it."""
        return self.url(value, place) if name == "file_data" else super().string(name, value, place)

    def output(self, value: Any, place: Location) -> Any:
        """Redact what a tool returned: content parts, a screenshot, pieces of a shell's output,
        or data of the tool's own."""
        if isinstance(value, dict) and not _is_part(value):
            return self.scan.free(value)
        if isinstance(value, dict):
            return self.block(value, place)
        return self.each(value, place, self.output_part)

    def output_part(self, part: dict[str, Any], place: Location) -> dict[str, Any]:
        """Redact one part of a list that a tool returned."""
        return self.block(part, place) if "type" in part else self.fields(part, place)

    def variables(self, values: dict[str, Any], place: Location) -> dict[str, Any]:
        """Redact the variables of a stored prompt: texts, or content parts."""
        scanned = [
            (self.scan.key(name), self._variable(name, value, place.key(name, position)))
            for position, (name, value) in enumerate(values.items())
        ]
        return dict(distinct_keys(values, scanned))

    def _variable(self, name: str, value: Any, place: Location) -> Any:
        is_part = isinstance(value, dict) and _is_part(value)
        return self.block(value, place) if is_part else self.scan.free(value, name)

    def data(self, holder: dict[str, Any], media_type: str, place: Location) -> dict[str, Any]:
        """Redact an object whose `data` is base64."""
        data = holder.get("data")
        if not isinstance(data, str):
            return self.fields(holder, place)
        rest = self.fields({**holder, "data": ""}, place)
        rest["data"] = self.blob(data, media_type, place)
        return rest

    def secret(self, value: Any, place: Location) -> Any:
        """Redact a secret that is meant for one domain: whatever its name, its value is one."""
        if not isinstance(value, dict):
            return self.scan.free(value, "secret")
        return {
            self.scan.key(name): self.scan.free(member, "secret")
            if name == "value"
            else self.scan.free(member)
            for name, member in value.items()
        }

    def headers(self, values: dict[str, Any]) -> dict[str, Any]:
        """Redact the headers sent to a server of tools; all of a cookie is a credential."""
        scanned = [
            (self.scan.key(name), self.scan.free(value, _COOKIES.get(name.lower(), name)))
            for name, value in values.items()
        ]
        return dict(distinct_keys(values, scanned))

    def logprobs(self, value: Any) -> Any:
        """Redact the tokens of an earlier answer, which spell its text in pieces: when the whole
        holds something, all of them go."""
        if not isinstance(value, list):
            return self.scan.free(value)
        for spelled in (_spelled(value, "token"), _spelled(value, "bytes")):
            if spelled and self.scan.string(spelled) != spelled:
                return []
        return self.scan.free(value)


def _is_part(value: dict[str, Any]) -> bool:
    """Tell whether an object says that it is a content part; a type may be anything, a list too."""
    kind = value.get("type")
    return isinstance(kind, str) and kind in PART_TYPES


def _spelled(tokens: list[Any], member: str) -> str:
    """Return the text that a list of tokens spells, by their texts or by their bytes."""
    pieces: list[bytes] = []
    for token in tokens:
        piece = token.get(member) if isinstance(token, dict) else None
        if isinstance(piece, str):
            pieces.append(piece.encode("utf-8", "replace"))
        elif isinstance(piece, list):
            pieces.append(bytes(n for n in piece if isinstance(n, int) and 0 <= n < 256))
    return b"".join(pieces).decode("utf-8", "replace")


class _Answers(JsonFormat):
    """What the calls share: answers are responses, items, or lists of items."""

    family = Family.OPENAI
    #: A comment: the one filler all clients of the OpenAI APIs accept (contracts/clients.md 3).
    keep_alive = b": keep-alive\n\n"
    walk = ResponsesWalk

    def stop_reason_of(self, document: Any) -> str | None:
        """Return why a response is incomplete, or its status."""
        return stop_reason_of(document)

    def restore_response(self, document: Any, restore: Callable[[str], str]) -> Any:
        """Return an answer restored, except for what a model thought and what is encrypted."""
        return restore_node(
            document,
            lambda text: restore_string(text, restore),
            lambda text: restore_string(text, restore, must_be_json=True),
        )

    def new_stream(
        self,
        restorers: RestorerFactory,
        signed: Callable[[str, str], None] = ignore_signed,
        media_type: str = EVENT_STREAM,
    ) -> StreamTransformer:
        """Return the transformer of one event stream."""
        return ResponsesStream(restorers)


class OpenAIResponses(_Answers):
    """Calls that make a response, compact a conversation or count its tokens."""

    def usage_of(self, document: Any) -> Usage:
        """Return the counts of `usage`."""
        usage = document.get("usage") if isinstance(document, dict) else None
        return openai.usage_from(usage)


class Conversations(_Answers):
    """Calls that keep items on the provider's side."""


class ResponsesReading(_Answers, BodilessFormat):
    """Calls without a body. What they return was counted when it was made."""


_INCLUDE: Final = r"[a-z_]{1,32}(?:\.[a-z_]{1,32}){0,4}"
_ORDER: Final = "asc|desc"
_LISTING: Final = {
    "after": FREE,
    "before": FREE,
    "include": _INCLUDE,
    "include[]": _INCLUDE,
    "limit": r"\d{1,3}",
    "order": _ORDER,
}
_READING: Final = {
    "include": _INCLUDE,
    "include[]": _INCLUDE,
    "include_obfuscation": "true|false",
    # No number of a person has six digits or less.
    "starting_after": r"\d{1,6}",
    "stream": "true|false",
}
#: Azure dates its APIs; the newer paths have words instead.
_AZURE: Final = {"api-version": r"20\d\d-\d\d-\d\d(?:-preview)?|preview|latest|v1"}


def _calls(path: str, method: str = "POST", **query: str) -> tuple[Call, ...]:
    """Return a call at OpenAI and its twins at Azure."""
    return (
        Call(
            method=method,
            template=f"/v1{path}",
            provider="openai",
            query=query,
            bare=True,
        ),
        *(
            Call(
                method=method,
                template=f"{prefix}{path}",
                provider="azure",
                query={**query, **_AZURE},
            )
            for prefix in ("/openai", "/openai/v1")
        ),
    )


_RESPONSE: Final = "/responses/{response_id}"
_CONVERSATION: Final = "/conversations/{conversation_id}"

FORMATS: Final = (
    OpenAIResponses("openai.responses", _calls("/responses")),
    OpenAIResponses("openai.responses_compact", _calls("/responses/compact")),
    OpenAIResponses("openai.responses_count", _calls("/responses/input_tokens")),
    ResponsesReading(
        "openai.responses_stored",
        (
            *_calls(_RESPONSE, "GET", **_READING),
            *_calls(_RESPONSE, "DELETE"),
            *_calls(f"{_RESPONSE}/cancel"),
            *_calls(f"{_RESPONSE}/input_items", "GET", **_LISTING),
        ),
    ),
    Conversations(
        "openai.conversations",
        (
            *_calls("/conversations"),
            *_calls(_CONVERSATION),
            *_calls(f"{_CONVERSATION}/items", include=_INCLUDE, **{"include[]": _INCLUDE}),
        ),
    ),
    ResponsesReading(
        "openai.conversations_stored",
        (
            *_calls(_CONVERSATION, "GET"),
            *_calls(_CONVERSATION, "DELETE"),
            *_calls(f"{_CONVERSATION}/items", "GET", **_LISTING),
            *_calls(f"{_CONVERSATION}/items/{{item_id}}", "GET", **_READING),
            *_calls(f"{_CONVERSATION}/items/{{item_id}}", "DELETE"),
        ),
    ),
)
