"""Anthropic Messages: where text lives in requests, answers and stream events.

Invariant: in a request every string is text unless it sits under a structural name *and* looks
like what belongs there (a known id shape, a base64 blob); a block of unknown type is refused;
signed and encrypted fields pass byte for byte and are never restored. The same message gives the
same bytes on every turn, so prompt caches keep hitting.
Sources: the published API reference and the types of the official SDK (2.14), Nov 2026.
Called by the scanning workers (requests) and the pipeline (answers) through the registry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from gateway.wire.base import (
    Location,
    RestorerFactory,
    StreamTransformer,
    Usage,
    WireRefused,
    ignore_signed,
    words,
)
from gateway.wire.body import EVENT_STREAM, Call, JsonFormat
from gateway.wire.errors import Family
from gateway.wire.formats.anthropic_stream import (
    SIGNED_TEXT,
    AnthropicStream,
    signed_text,
    usage_from,
)
from gateway.wire.schema import Schema, SchemaWalk, is_blob, is_seal
from gateway.wire.sse import serialise
from gateway.wire.walk import restore_free, restore_names, restore_string

#: Types of content blocks and of the typed objects inside them. A type that is missing here is
#: refused: nobody knows where its text would be.
BLOCK_TYPES: Final = words(
    """
    text image document search_result thinking redacted_thinking
    tool_use tool_result server_tool_use mcp_tool_use mcp_tool_result mcp_tool_listing
    web_search_tool_result web_search_result web_search_tool_result_error
    web_fetch_tool_result web_fetch_result web_fetch_tool_result_error
    code_execution_tool_result code_execution_result code_execution_output
    code_execution_tool_result_error encrypted_code_execution_result
    bash_code_execution_tool_result bash_code_execution_result bash_code_execution_output
    bash_code_execution_tool_result_error
    text_editor_code_execution_tool_result text_editor_code_execution_view_result
    text_editor_code_execution_create_result text_editor_code_execution_str_replace_result
    text_editor_code_execution_tool_result_error
    tool_search_tool_result tool_search_tool_search_result tool_search_tool_result_error
    tool_reference advisor_tool_result advisor_result advisor_redacted_result
    advisor_tool_result_error container_upload compaction tool_addition tool_removal fallback
    browser_state
    """
)

#: Free-form data: everything in it is text, keys included.
_FREE: Final = frozenset(("input", "input_schema", "input_examples", "schema", "metadata"))

#: Addresses, scanned also with percent-encoding undone.
_URLS: Final = frozenset(("url", "uri", "source"))

#: Names whose value is an id. One of a provider's own random shapes is passed unread; of another
#: that begins like an id the rest is read, in which somebody's number or key may stand.
_IDS: Final = words(
    """
    id tool_use_id file_id container container_id skill_id tool_id previous_message_id message_id
    request_id download_id tab_id memory_store_id
    """
)
_ID_PREFIX: Final = re.compile(
    r"(?:(?:toolu|msg)_(?:bdrk|vrtx)_|(?:toolu|srvtoolu|mcptoolu|msg|file|container|call|skill|req|"
    r"tooluse|fc|memstore|thread)_)?"
)
_ID_BODY: Final = re.compile(
    r"01[A-Za-z0-9]{20,26}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)

#: Names whose value is signed or encrypted by the provider.
_SEALED: Final = frozenset(
    ("signature", "encrypted_content", "encrypted_index", "encrypted_stdout")
)
#: Tags: words out of a fixed set of the API, or a word with the date of its version. Anything
#: else under these names is text.
_TAGS: Final = frozenset(("type", "role", "ttl", "media_type"))
_TAG_WORDS: Final = BLOCK_TYPES | words(
    """
    user assistant system developer tool function message ephemeral 5m 1h
    enabled disabled adaptive auto any none custom url base64 content file
    object array string number integer boolean null json_schema mcp_toolset approximate direct
    char_location page_location content_block_location search_result_location
    web_search_result_location input_tokens tool_uses thinking_turns anthropic
    text/plain text/csv text/html text/markdown application/json application/pdf
    all between_tools billing_policy continue create except only summarize tokens tool_definition
    mcp_tool_reference mcp_toolset_reference tool_search_tool_bm25 tool_search_tool_regex
    tab_opened download_started download_completed download_failed
    image/png image/jpeg image/gif image/webp
    """
)
_DATED_TAG: Final = re.compile(r"[a-z]+(?:_(?:[a-z]+|bm25))*_20\d{6}")

#: Model ids that are passed unread: words, a version of at most three short numbers, a date. No
#: number of a person fits into that. Other names (local models) are read as text too.
_MODEL_PREFIX: Final = re.compile(r"claude-")
_MODEL_BODY: Final = re.compile(
    r"(?:[a-z]{1,24}\d?-){0,4}(?:[a-z]{1,24}\d?|\d{1,2}(?:\.\d{1,2})?)(?:-\d{1,2}(?:\.\d)?){0,2}"
    r"(?:-[a-z]{1,24}\d?){0,4}(?:-20\d{6})?(?:-v\d(?::\d)?)?"
    r"(?:@(?:20\d{6}|latest|default))?"
)

#: Field names of the API, which need no scan as keys. Others are text.
_FIELDS: Final = words(
    """
    active advisor allowed_callers allowed_domains allowed_tools authorization_token betas
    bill_to billing_policy block_binding blocked_domains budget_tokens cache_control caching
    caller citations cited_text city clear_at clear_at_least clear_tool_inputs client_tool_results
    close_tab code compaction configs container content context context_management country
    cursor_position custom data default_config defer_loading definition description diagnostics
    disable_parallel_tool_use display display_height_px display_number display_width_px
    document_index document_title double_click download_id eager_input_streaming edits effort
    enable_zoom enabled encrypted_content encrypted_index encrypted_stdout end_block_index
    end_char_index end_page_number error error_code error_message exclude_tools
    fallback_credit_token fallbacks file_id file_type file_upload filename find form_input format
    from get_page_text hold_key hover id inference_geo input input_examples input_schema
    instructions is_error is_file_update javascript_exec keep left_click left_click_drag
    left_mouse_down left_mouse_up lines list_tabs max_characters max_content_tokens max_tokens
    max_uses mcp_server_name mcp_servers media_type messages metadata middle_click mode model
    mouse_move name navigate new_lines new_start new_tab num_lines old_lines old_start
    output_config oversized_image page_age path pause_after_compaction prefill
    prefix_mismatch_behavior previous_message_id read_console read_network read_page region
    remaining response_inclusion retrieved_at return_code right_click role schema screenshot
    scroll scroll_to search_result_index server_name server_tool_results service_tier signature
    size_bytes skill_id skills source speed start_block_index start_char_index start_line
    start_page_number state_changes stderr stdout stop_reason stop_sequences stream strict
    switch_tab system tab_id tabs task_budget temperature text thinking thread timezone title to
    token tool tool_changes tool_choice tool_configuration tool_id tool_name tool_references
    tool_use_id tools toolset_name top_k top_p total total_lines transformations trigger
    triple_click ttl type url url_sources use_cache use_citations user_id user_input user_location
    user_profile_id value version wait workspace_id zoom
    """
)

#: Fields of the API that say their value is a credential.
_TELLING: Final = frozenset(("authorization_token", "token"))


_SCHEMA: Final = Schema(
    name="anthropic",
    fields=_FIELDS,
    free=_FREE,
    parts=frozenset(("messages", "tools")),
    content=frozenset(("content", "prefill", "system")),
    block_types=BLOCK_TYPES,
    urls=_URLS,
    ids=_IDS,
    id_prefix=_ID_PREFIX,
    id_body=_ID_BODY,
    seals=_SEALED,
    tags=_TAGS,
    tag_words=_TAG_WORDS,
    dated_tag=_DATED_TAG,
    model_prefix=_MODEL_PREFIX,
    model_body=_MODEL_BODY,
    telling=_TELLING,
)


#: Blocks of an answer that return to the provider byte for byte on the next turn.
_SIGNED_BLOCKS: Final = frozenset(("thinking", "redacted_thinking", "compaction"))


def restore_node(value: Any, restore: Callable[[str], str]) -> Any:
    """Return any part of an answer restored: text, tool input, citations, errors."""
    if isinstance(value, str):
        return restore_string(value, restore)
    if isinstance(value, list):
        return [restore_node(item, restore) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    if isinstance(kind, str) and kind in _SIGNED_BLOCKS:
        return value
    restored = {
        name: restore_free(member, restore)
        if name in _FREE
        else member
        if name in _SEALED
        else restore_node(member, restore)
        for name, member in value.items()
    }
    return restore_names(restored, restore)


class AnthropicWalk(SchemaWalk):
    """One Messages request: signed blocks and sources of images and documents beside the rest."""

    SCHEMA = _SCHEMA
    KNOWN_LISTS = frozenset(("system", "tools", "messages"))

    def field(self, name: str, value: Any, place: Location) -> Any:
        """Redact a member; `source` is an object of its own kind, or an address."""
        if name == "source" and isinstance(value, dict):
            return self.source(value, place)
        return super().field(name, value, place)

    def block(self, block: dict[str, Any], place: Location) -> dict[str, Any]:
        """Redact a content block, except in what the provider signed."""
        kind = self.check_type(block, place)
        sealed = _sealed_members(kind, block)
        signed = signed_text(block)
        self.asked += signed is not None
        if signed is None or not self.vouched(*signed):
            # Not what a model thought behind this gateway: somebody's text, read like any other.
            sealed = tuple(
                name for name in sealed if name != SIGNED_TEXT.get(kind) and is_seal(block[name])
            )
        if kind == "redacted_thinking" or sealed:
            self.report.signed_parts += 1
        if sealed:
            # Members keep their order; what the provider signed goes back exactly as it came.
            scanned = self.fields({**block, **dict.fromkeys(sealed, None)}, place)
            return {**scanned, **{name: block[name] for name in sealed}}
        if kind == "container_upload" or (kind.endswith("_output") and "file_id" in block):
            self.opaque("file", place)
        return self.fields(block, place)

    def source(self, source: dict[str, Any], place: Location) -> dict[str, Any]:
        """Redact the source of an image or document."""
        kind = source.get("type")
        data = source.get("data")
        if kind == "base64" and isinstance(data, str):
            media = source.get("media_type")
            rest = self.fields({**source, "data": ""}, place)
            rest["data"] = self.blob(data, media if isinstance(media, str) else "", place)
            return rest
        if kind == "file":
            self.opaque("file", place)
        elif kind not in ("text", "content", "url", None):
            raise WireRefused(
                "source_type",
                f"The source at {place} is of a type this gateway does not know how to scan; "
                "send text, content, url, file or base64.",
                str(place),
            )
        return self.fields(source, place)


def _sealed_members(kind: str, block: dict[str, Any]) -> tuple[str, ...]:
    """Return the members of a block that the provider signed or encrypted, if it did."""
    names: tuple[str, ...] = ()
    if kind == "thinking" and is_blob(block.get("signature")):
        names = ("thinking", "signature")
    elif kind == "redacted_thinking" and is_blob(block.get("data")):
        names = ("data",)
    elif kind == "compaction" and any(
        is_blob(block.get(name)) for name in ("signature", "encrypted_content")
    ):
        names = ("content", "encrypted_content", "signature")
    return tuple(name for name in names if isinstance(block.get(name), str))


class AnthropicMessages(JsonFormat):
    """`POST /v1/messages` and `POST /v1/messages/count_tokens`, which share one request shape."""

    family = Family.ANTHROPIC
    #: A ping event: the only filler all Anthropic clients accept (contracts/clients.md section 3).
    keep_alive = serialise("ping", '{"type": "ping"}')

    walk = AnthropicWalk

    def usage_of(self, document: Any) -> Usage:
        """Return the counts of `usage`; count_tokens answers are no usage."""
        return usage_from(document.get("usage")) if isinstance(document, dict) else Usage()

    def stop_reason_of(self, document: Any) -> str | None:
        """Return `stop_reason` of a whole message."""
        reason = document.get("stop_reason") if isinstance(document, dict) else None
        return reason if isinstance(reason, str) else None

    def restore_response(self, document: Any, restore: Callable[[str], str]) -> Any:
        """Return an answer or error restored, except in what the provider signed."""
        return restore_node(document, restore)

    def signed_texts(self, document: Any) -> Iterator[tuple[str, str]]:
        """Yield thinking and compaction texts with what the provider signed them with."""
        content = document.get("content") if isinstance(document, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and (found := signed_text(block)) is not None:
                yield found

    def new_stream(
        self,
        restorers: RestorerFactory,
        signed: Callable[[str, str], None] = ignore_signed,
        media_type: str = EVENT_STREAM,
    ) -> StreamTransformer:
        """Return the transformer of one event stream."""
        return AnthropicStream(restorers, restore_node, signed)


_BETA: Final = {"beta": "true|false|1|0"}

FORMATS: Final = (
    AnthropicMessages(
        "anthropic.messages",
        (Call(template="/v1/messages", provider="anthropic", query=_BETA, bare=True),),
    ),
    AnthropicMessages(
        "anthropic.count_tokens",
        (Call(template="/v1/messages/count_tokens", provider="anthropic", query=_BETA, bare=True),),
    ),
)
