"""Anthropic Messages: where text lives in requests, answers and stream events.

Invariant: in a request every string is text unless it sits under a structural name *and* looks
like what belongs there (a known id shape, a base64 blob); a block of unknown type is refused;
signed and encrypted fields pass byte for byte and are never restored. The same message gives the
same bytes on every turn, so prompt caches keep hitting.
Sources: the published API reference and the types of the official SDK (2.14), Nov 2026.
Called by the scanning workers (requests) and the pipeline (answers) through the registry.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from gateway.wire.anthropic_stream import (
    SIGNED_TEXT,
    AnthropicStream,
    is_blob,
    signed_text,
    usage_from,
)
from gateway.wire.base import (
    Location,
    OpaqueAction,
    OpaqueRedactor,
    PartMemory,
    RestorerFactory,
    StreamTransformer,
    TextRedactor,
    Usage,
    Vouched,
    WireRefused,
    WireReport,
    ignore_signed,
    nothing_vouched,
    offers,
    words,
)
from gateway.wire.errors import Family, error_body
from gateway.wire.sse import serialise
from gateway.wire.strictjson import dumps
from gateway.wire.walk import (
    Scanner,
    distinct_keys,
    restore_free,
    restore_string,
    same_or_new,
)

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

#: Lists of, or single, content blocks.
_CONTENT: Final = frozenset(("content", "prefill"))

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
#: Seals this long pass unread; in a shorter one a key or number could pose as one. Those of the
#: provider seen so far have 100 characters and more, and random ones hold nothing to find.
SHORTEST_SEAL: Final = 200

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

#: Beginnings, in base64, of the image and PDF formats the API takes.
_BINARY: Final = re.compile(
    rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|RIFF.{4}WEBP|%PDF-\d", re.DOTALL
)

#: Media types whose bytes are text in some encoding.
_TEXT_MEDIA: Final = re.compile(
    r"^text/|json|xml|yaml|toml|csv|javascript|x-sh|sql|form-urlencoded"
)

#: Field names of the API, which need no scan as keys. Others are text.
_FIELDS: Final = words(
    """
    active advisor allowed_callers allowed_domains allowed_tools authorization_token betas
    bill_to billing_policy block_binding blocked_domains budget_tokens cache_control caching
    caller citations cited_text city clear_at clear_at_least clear_tool_inputs code compaction
    configs container content context context_management country custom data default_config
    defer_loading definition description diagnostics disable_parallel_tool_use display
    display_height_px display_number display_width_px document_index document_title download_id
    eager_input_streaming edits effort enable_zoom enabled encrypted_content encrypted_index
    encrypted_stdout end_block_index end_char_index end_page_number error error_code
    error_message exclude_tools fallback_credit_token fallbacks file_id file_type filename
    format id inference_geo input input_examples input_schema instructions is_error
    is_file_update keep lines max_characters max_content_tokens max_tokens max_uses
    mcp_server_name mcp_servers media_type messages metadata mode model name new_lines new_start
    num_lines old_lines old_start output_config oversized_image page_age path
    pause_after_compaction prefill prefix_mismatch_behavior previous_message_id region remaining
    response_inclusion retrieved_at return_code role schema search_result_index server_name
    service_tier signature size_bytes skill_id skills source speed start_block_index
    start_char_index start_line start_page_number state_changes stderr stdout stop_reason
    stop_sequences stream strict system tab_id tabs task_budget temperature text thinking thread
    timezone title to token tool tool_changes tool_choice tool_configuration tool_id tool_name
    tool_references tool_use_id tools toolset_name top_k top_p total total_lines transformations
    trigger ttl type url use_citations user_id user_location user_profile_id value version
    workspace_id
    """
)

#: Fields of the API that say their value is a credential.
_TELLING: Final = frozenset(("authorization_token", "token"))


@dataclass(frozen=True, slots=True)
class AnthropicMessages:
    """`POST /v1/messages` and `POST /v1/messages/count_tokens`, which share one request shape."""

    name: str

    @property
    def keep_alive(self) -> bytes:
        """A ping event: the only filler all Anthropic clients accept (contracts/clients.md 3)."""
        return serialise("ping", '{"type": "ping"}')

    def redact_request(
        self,
        document: Any,
        redactor: TextRedactor,
        *,
        opaque: OpaqueAction = OpaqueAction.PASS,
        report: WireReport | None = None,
        vouched: Vouched = nothing_vouched,
    ) -> Any:
        """Return the request redacted; the input is not changed. Raises WireRefused."""
        if not isinstance(document, dict):
            raise WireRefused(
                "not_an_object",
                "The body is JSON but not an object; send one JSON object as the API describes.",
            )
        note = cast(OpaqueRedactor, redactor).opaque if offers(redactor, OpaqueRedactor) else None
        memory = cast(PartMemory, redactor) if offers(redactor, PartMemory) else None
        report = report or WireReport()
        walk = _RequestWalk(Scanner(redactor), opaque, report, note, vouched=vouched, memory=memory)
        return walk.fields(document, Location())

    def model_of(self, document: Any) -> str:
        """Return `model`, or an empty string when there is none."""
        model = document.get("model") if isinstance(document, dict) else None
        return model if isinstance(model, str) else ""

    def wants_stream(self, document: Any) -> bool:
        """Tell whether `stream` is true."""
        return isinstance(document, dict) and document.get("stream") is True

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
        self, restorers: RestorerFactory, signed: Callable[[str, str], None] = ignore_signed
    ) -> StreamTransformer:
        """Return the transformer of one event stream."""
        return AnthropicStream(restorers, restore_node, signed)

    def error_body(self, status: int, kind: str, message: str, request_id: str = "") -> bytes:
        """Return `{"type":"error", ...}`."""
        return error_body(Family.ANTHROPIC, status, kind, message, request_id)

    def error_event(self, status: int, kind: str, message: str, request_id: str = "") -> bytes:
        """Return the `error` event that ends a failed stream."""
        return serialise("error", self.error_body(status, kind, message, request_id).decode())


#: Blocks of an answer that return to the provider byte for byte on the next turn.
_SIGNED_BLOCKS: Final = frozenset(("thinking", "redacted_thinking", "compaction"))


def restore_node(value: Any, restore: Callable[[str], str]) -> Any:
    """Return any part of an answer restored: text, tool input, citations, errors."""
    if isinstance(value, str):
        return restore_string(value, restore)
    if isinstance(value, list):
        return [restore_node(item, restore) for item in value]
    if not isinstance(value, dict) or value.get("type") in _SIGNED_BLOCKS:
        return value
    return {
        name: restore_free(member, restore)
        if name in _FREE
        else member
        if name in _SEALED
        else restore_node(member, restore)
        for name, member in value.items()
    }


class _RequestWalk:
    """One request: knows the schema, hands every text to the scanner."""

    def __init__(
        self,
        scanner: Scanner,
        opaque: OpaqueAction,
        report: WireReport,
        note: Callable[[str], None] | None,
        *,
        vouched: Vouched,
        memory: PartMemory | None,
    ) -> None:
        self._scan = scanner
        self._vouched = vouched
        self._memory = memory
        self._asked = 0
        self._note = note
        self._opaque = opaque
        self._report = report

    def fields(self, node: dict[str, Any], place: Location) -> dict[str, Any]:
        """Redact an object of the API's schema; unknown members are free-form data."""
        members: list[tuple[str, Any]] = []
        same, renamed = True, False
        for position, (name, value) in enumerate(node.items()):
            key = name if name in _FIELDS else self._scan.key(name)
            if isinstance(value, str):
                scanned: Any = self._string(name, value, place)
            elif value is None or isinstance(value, bool):
                scanned = value
            else:
                scanned = self._field(name, value, place.key(name, position))
            members.append((key, scanned))
            same = same and scanned is value
            renamed = renamed or key != name
        if renamed:
            return dict(distinct_keys(node, members))
        return node if same else dict(members)

    def _field(self, name: str, value: Any, place: Location) -> Any:
        if name in _FREE:
            return self._scan.free(value)
        if name in ("messages", "tools"):
            return self._each(value, place, self.fields)
        if name in _CONTENT or name == "system":
            return self._content(value, place)
        if name == "source" and isinstance(value, dict):
            return self._source(value, place)
        return self._any(name, value, place)

    def _any(self, name: str, value: Any, place: Location) -> Any:
        """Redact an object or list of the schema; of what the schema does not know, everything."""
        if name and name not in _FIELDS:
            return self._scan.free(value, name)
        if isinstance(value, dict):
            return self.fields(value, place)
        if isinstance(value, list):
            return same_or_new(value, [self._item(name, v, place, n) for n, v in enumerate(value)])
        # A number: the API's own counts are small, anything longer is somebody's data.
        return self._scan.free(value)

    def _item(self, name: str, item: Any, place: Location, number: int) -> Any:
        if isinstance(item, str):
            return self._string(name, item, place)
        return self._any(name, item, place.index(number))

    def _each(
        self, value: Any, place: Location, walk: Callable[[dict[str, Any], Location], Any]
    ) -> Any:
        if not isinstance(value, list):
            return self._any("", value, place)
        items = [
            self._part(item, place.index(number), walk)
            if isinstance(item, dict)
            else self._item("", item, place, number)
            for number, item in enumerate(value)
        ]
        return same_or_new(value, items)

    def _part(
        self,
        part: dict[str, Any],
        place: Location,
        walk: Callable[[dict[str, Any], Location], dict[str, Any]],
    ) -> dict[str, Any]:
        """Walk a message, tool or block, unless nothing was found in the very same one before.

        Not remembered: parts with something that was noted, or that depend on what is vouched for.
        """
        memory = self._memory
        if memory is None:
            return walk(part, place)
        written = dumps(part)
        mark = memory.mark(f"anthropic {walk.__name__} {self._opaque}", written)
        if memory.is_clean(mark):
            return part
        before = memory.touched, self._noted()
        scanned = walk(part, place)
        if (memory.touched, self._noted()) == before and dumps(scanned) == written:
            memory.remember_clean(mark)
        return scanned

    def _noted(self) -> tuple[int, int, int]:
        return self._asked, self._report.signed_parts, self._report.opaque_parts

    def _content(self, value: Any, place: Location) -> Any:
        """Redact `content`: a list of blocks, one block, or strings among them."""
        if isinstance(value, dict):
            return self._block(value, place) if "type" in value else self._scan.free(value)
        return self._each(value, place, self._block)

    def _block(self, block: dict[str, Any], place: Location) -> dict[str, Any]:
        kind = block.get("type")
        if not isinstance(kind, str) or kind not in BLOCK_TYPES:
            raise _unknown_block(place)
        sealed = _sealed_members(kind, block)
        signed = signed_text(block)
        self._asked += signed is not None
        if signed is None or not self._vouched(*signed):
            # Not what a model thought behind this gateway: somebody's text, read like any other.
            sealed = tuple(
                name
                for name in sealed
                if name != SIGNED_TEXT.get(kind) and len(block[name]) >= SHORTEST_SEAL
            )
        if kind == "redacted_thinking" or sealed:
            self._report.signed_parts += 1
        if sealed:
            # Members keep their order; what the provider signed goes back exactly as it came.
            scanned = self.fields({**block, **dict.fromkeys(sealed, None)}, place)
            return {**scanned, **{name: block[name] for name in sealed}}
        if kind == "container_upload" or (kind.endswith("_output") and "file_id" in block):
            self._opaque_part("file", place)
        return self.fields(block, place)

    def _string(self, name: str, value: str, place: Location) -> str:
        if name in _TAGS and (value in _TAG_WORDS or _DATED_TAG.fullmatch(value)):
            return value
        if name in _IDS:
            return self._named(value, _ID_PREFIX, _ID_BODY)
        if name in _SEALED and is_blob(value):
            self._report.signed_parts += 1
            if len(value) >= SHORTEST_SEAL:
                return value
        if name == "model":
            return self._named(value, _MODEL_PREFIX, _MODEL_BODY)
        if name in _URLS:
            return self._url(value, place)
        return self._scan.string(value, name if name in _TELLING or name not in _FIELDS else None)

    def _named(self, value: str, prefix: re.Pattern[str], known: re.Pattern[str]) -> str:
        """Redact an id or model: of a known shape it passes, else what follows its prefix is
        read, because letters before a number can hide it."""
        found = prefix.match(value)
        at = found.end() if found is not None else 0
        body = value[at:]
        if known.fullmatch(body):
            return value
        return value[:at] + self._scan.string(body) if at else self._scan.string(value)

    def _url(self, url: str, place: Location) -> str:
        if url[:5].lower() != "data:":
            return self._scan.url(url)
        head, comma, data = url.partition(",")
        if not comma or not head.lower().endswith(";base64"):
            return self._scan.url(url)
        media = head[5:].split(";", 1)[0].lower()
        return self._scan.string(head) + comma + self._base64(data, media, place)

    def _source(self, source: dict[str, Any], place: Location) -> dict[str, Any]:
        """Redact the source of an image or document."""
        kind = source.get("type")
        data = source.get("data")
        if kind == "base64" and isinstance(data, str):
            media = source.get("media_type")
            rest = self.fields({**source, "data": ""}, place)
            rest["data"] = self._base64(data, media if isinstance(media, str) else "", place)
            return rest
        if kind == "file":
            self._opaque_part("file", place)
        elif kind not in ("text", "content", "url", None):
            raise WireRefused(
                "source_type",
                f"The source at {place} is of a type this gateway does not know how to scan; "
                "send text, content, url, file or base64.",
                str(place),
            )
        return self.fields(source, place)

    def _base64(self, data: str, media_type: str, place: Location) -> str:
        """Return base64 data: text decoded, scanned and encoded again; binary by policy."""
        media_type = media_type.lower()
        binary = media_type.startswith(("image/", "audio/", "video/")) or "pdf" in media_type
        if not (binary and is_blob(data) and _is_binary(data)):
            raw = _decoded(data)
            if raw is None:
                raise WireRefused(
                    "base64",
                    f"The data at {place} is not valid base64, so nobody can tell what it holds; "
                    "encode it again.",
                    str(place),
                )
            decoded = _as_text(raw, media_type)
            if decoded is not None:
                text, encoding = decoded
                scanned = self._scan.string(text)
                if scanned == text:
                    return data
                return base64.b64encode(scanned.encode(encoding, "replace")).decode()
        self._opaque_part(media_type or "application/octet-stream", place)
        return data

    def _opaque_part(self, media_type: str, place: Location) -> None:
        if self._opaque is OpaqueAction.REFUSE:
            raise WireRefused(
                "opaque",
                f"The content at {place} is an image, a PDF or another file that cannot be read as "
                "text, and the policy refuses such content; send it as text or remove it.",
                str(place),
            )
        if self._note is not None:
            self._note(media_type)
        self._report.opaque_parts += 1


def _unknown_block(place: Location) -> WireRefused:
    return WireRefused(
        "block_type",
        f"The content block at {place} has a type this gateway does not know, so its text cannot "
        "be scanned; remove the block or update the gateway.",
        str(place),
    )


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


def _is_binary(data: str) -> bool:
    """Tell whether base64 data is a file of a known format, not a text that begins like one."""
    head = _decoded(data[:64]) or b""
    if not _BINARY.match(head):
        return False
    if not head.isascii():
        return True
    raw = _decoded(data) or b""
    return _as_text(raw, "") is None or b"startxref" in raw


def _wide_encoding(raw: bytes) -> str | None:
    """Return the encoding of text in units of two or four bytes, told by its mark or its zeros."""
    if raw.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "utf-32"
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    zeros = [raw[at::4].count(0) * 8 > len(raw) for at in range(4)]
    return _ZEROS.get((zeros[0], zeros[1], zeros[2], zeros[3]))


#: Which bytes of four are mostly zero in text of Western letters and digits.
_ZEROS: Final[Mapping[tuple[bool, bool, bool, bool], str]] = {
    (False, True, False, True): "utf-16-le",
    (True, False, True, False): "utf-16-be",
    (False, True, True, True): "utf-32-le",
    (True, True, True, False): "utf-32-be",
}


def _as_text(raw: bytes, media_type: str) -> tuple[str, str] | None:
    """Return bytes as text with the encoding they are in, or None when they are not text."""
    wide = _wide_encoding(raw)
    encodings = ["utf-8"] if wide is None else [wide, "utf-8"]
    if _TEXT_MEDIA.search(media_type):
        # Declared as text, so it is read as text; Latin-1 gives every byte a character and back.
        encodings.append("latin-1")
    for encoding in encodings:
        with contextlib.suppress(UnicodeDecodeError):
            text = raw.decode(encoding)
            if encoding != "utf-8" or "\0" not in text or _TEXT_MEDIA.search(media_type):
                return text, encoding
    return None


def _decoded(data: str) -> bytes | None:
    """Return the bytes of a base64 text as a lenient provider would read them, or None."""
    compact = "".join(data.split()).translate({0x2D: "+", 0x5F: "/"}).rstrip("=")
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
