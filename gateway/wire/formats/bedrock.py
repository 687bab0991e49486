"""Amazon Bedrock: `converse`, `invoke` with the vendors' own bodies, and `count-tokens`.

Invariants: a content block of `converse` is told by its member names, and one with an unknown name
is refused; a body of `invoke` with `anthropic_version` is read as a Messages request, one in the
shape of Amazon's own models as `converse`, and of any other everything is read as free-form data.
Requests signed with AWS keys cannot be changed and are refused elsewhere (`gateway.credentials`).
Sources: the published API reference and the service model of botocore, Nov 2026.
Called by the scanning workers (requests) and the pipeline (answers) through the registry.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from gateway.wire.base import (
    Location,
    RestorerFactory,
    StreamTransformer,
    Usage,
    WireRefused,
    ignore_signed,
    words,
)
from gateway.wire.body import EVENT_STREAM, JSON, Call, JsonFormat, RedactedBody
from gateway.wire.errors import Family
from gateway.wire.event_stream import EVENT_STREAM_BINARY
from gateway.wire.formats.anthropic import AnthropicMessages, AnthropicWalk, restore_node
from gateway.wire.formats.anthropic_stream import usage_from as anthropic_usage
from gateway.wire.formats.bedrock_stream import (
    ConverseStream,
    InvokeStream,
    count,
    restore_answer,
    signed_reasoning,
    usage_from,
)
from gateway.wire.schema import Reading, Schema, SchemaWalk, is_blob, is_seal
from gateway.wire.strictjson import dumps, loads
from gateway.wire.walk import Scanner

#: Names of content blocks. A block is an object with one of them.
BLOCKS: Final = words(
    """
    text image document video audio toolUse toolResult guardContent cachePoint reasoningContent
    citationsContent searchResult json toolAddition toolRemoval
    """
)
_MEDIA: Final = frozenset(("image", "document", "video", "audio"))
#: Media types of the formats whose bytes are an image, a sound, a film or text. The rest (office
#: files) is looked at and, when it is no text, passed as the policy says.
_MEDIA_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("txt", "csv", "html", "md"), "text/plain"),
    **{name: f"image/{name}" for name in ("png", "jpeg", "gif", "webp")},
    "pdf": "application/pdf",
    **dict.fromkeys(
        words("mkv mov mp4 webm flv mpeg mpg wmv three_gp"),
        "video/mp4",
    ),
    **dict.fromkeys(
        words("mp3 opus wav aac flac m4a ogg pcm mka x-aac mpga"),
        "audio/mpeg",
    ),
}

_SCHEMA: Final = Schema(
    name="bedrock.converse",
    fields=words(
        """
        additionalModelRequestFields additionalModelResponseFieldPaths any audio auto bucketOwner
        bytes cachePoint citations citationsContent content context converse description document
        documentChar documentChunk documentIndex documentPage domain effort enabled end error
        format guardContent guardrailConfig guardrailIdentifier guardrailVersion image
        inferenceConfig input inputSchema invokeModel json jsonSchema latency location maxTokens
        message messages modelId name outputConfig performanceConfig projectIdentifier
        promptVariables qualifiers reasoningContent reasoningText redactedContent requestMetadata
        role s3Location schema schemaVersion searchResult searchResultIndex searchResultLocation
        serverName serviceTier signature source sourceContent start status stopSequences strict
        streamProcessingMode structure system systemTool temperature text textFormat title tool
        toolAddition toolChoice toolConfig toolRemoval toolResult toolSpec toolUse toolUseId tools
        topK topP trace ttl type uri url video web
        """
    ),
    free=words("input json additionalModelRequestFields promptVariables requestMetadata"),
    parts=frozenset(("messages", "tools")),
    content=frozenset(("content", "system")),
    urls=frozenset(("uri", "url")),
    ids=frozenset(("toolUseId",)),
    seals=frozenset(("signature", "redactedContent")),
    tags=words("role type format status ttl qualifiers trace latency effort streamProcessingMode"),
    tag_words=frozenset(_MEDIA_TYPES)
    | words(
        """
        user assistant system docx doc xlsx xls server_tool_use default reserved priority flex
        json_schema success error guard_content grounding_source query 1h 5m enabled enabled_full
        disabled standard optimized async sync low medium high max
        """
    ),
)


class ConverseWalk(SchemaWalk):
    """A request of `converse` or `converse-stream`."""

    SCHEMA = _SCHEMA

    def field(self, name: str, value: Any, place: Location) -> Any:
        """Redact a member; images, documents, films and sounds hold bytes in base64."""
        if name in _MEDIA and isinstance(value, dict) and isinstance(value.get("source"), dict):
            return self._medium(value, place)
        return super().field(name, value, place)

    def content(self, value: Any, place: Location) -> Any:
        """Redact content: a list of blocks, or one."""
        return (
            self.block(value, place) if isinstance(value, dict) else super().content(value, place)
        )

    def block(self, block: dict[str, Any], place: Location) -> dict[str, Any]:
        """Redact a content block, except in reasoning that came from the provider."""
        self.check_type(block, place)
        reasoning = block.get("reasoningContent")
        if not isinstance(reasoning, dict):
            return self.fields(block, place)
        signed = signed_reasoning(reasoning)
        self.asked += signed is not None
        if signed is None:
            return self.fields(block, place)
        inner: dict[str, Any] = reasoning["reasoningText"]
        sealed = [
            name
            for name, passes in (
                ("text", self.vouched(*signed)),
                ("signature", self.vouched(*signed) or is_seal(signed[1])),
            )
            if passes
        ]
        self.report.signed_parts += bool(sealed)
        # Members keep their order; what the provider signed goes back exactly as it came.
        rest = self.fields({**inner, **dict.fromkeys(sealed, None)}, place)
        whole = {**rest, **{name: inner[name] for name in sealed}}
        outer = self.fields({**reasoning, "reasoningText": None}, place)
        others = self.fields({**block, "reasoningContent": None}, place)
        return {**others, "reasoningContent": {**outer, "reasoningText": whole}}

    def check_type(self, block: dict[str, Any], place: Location) -> str:
        """Return a block's name. Raises WireRefused for a block that has another member."""
        if not block or not block.keys() <= BLOCKS:
            raise WireRefused(
                "block_type",
                f"The content block at {place} is of a kind this gateway does not know, so its "
                "text cannot be scanned; remove the block or update the gateway.",
                str(place),
            )
        return next(iter(block))

    def _medium(self, medium: dict[str, Any], place: Location) -> dict[str, Any]:
        source: dict[str, Any] = medium["source"]
        if "s3Location" in source:
            self.opaque("file", place)
        data = source.get("bytes")
        if not isinstance(data, str):
            return self.fields(medium, place)
        kind = medium.get("format")
        media = _MEDIA_TYPES.get(kind, "") if isinstance(kind, str) else ""
        bare = self.fields({**medium, "source": {**source, "bytes": None}}, place)
        return {**bare, "source": {**bare["source"], "bytes": self.blob(data, media, place)}}

    def string(self, name: str, value: str, place: Location) -> str:
        """Redact a string; `bytes` anywhere else are base64 too."""
        if name == "bytes":
            return self.blob(value, "", place)
        return super().string(name, value, place)


class AnthropicInvokeWalk(AnthropicWalk):
    """A Messages (or older) request with the two members that Bedrock puts beside it."""

    SCHEMA = replace(
        AnthropicWalk.SCHEMA,
        name="bedrock.anthropic",
        fields=AnthropicWalk.SCHEMA.fields
        | words("anthropic_version anthropic_beta max_tokens_to_sample prompt"),
    )


class VendorWalk(SchemaWalk):
    """A body of a vendor whose schema is not known here: everything in it is read."""

    SCHEMA = Schema(name="bedrock.vendor", fields=frozenset())

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self.scan = _VendorScanner(reading, self)

    def fields(self, node: dict[str, Any], place: Location) -> dict[str, Any]:
        """Read everything: keys, values and numbers."""
        scanned: dict[str, Any] = self.scan.free(node)
        return scanned


class _VendorScanner(Scanner):
    """Sees images and base64 text among free-form data by the names they are stored under."""

    _NAMES: ClassVar[frozenset[str]] = words(
        """
        image images inputImage maskImage conditionImage referenceImages bytes data inputVideo
        inputAudio b64 b64_json base64 init_image mask_image file
        """
    )
    #: Shorter values are read as they stand; no file is that short.
    _SHORTEST: ClassVar[int] = 24

    def __init__(self, reading: Reading, walk: VendorWalk) -> None:
        super().__init__(reading.redactor)
        self._walk = walk

    def string(self, text: str, key: str | None = None, depth: int = 0) -> str:
        """Read a string; one that is base64 of text is decoded, read and encoded again."""
        head, comma, data = text.partition(",") if text[:5].lower() == "data:" else ("", "", text)
        named = comma != "" and head.lower().endswith(";base64")
        blob = key in self._NAMES and len(text) >= self._SHORTEST and is_blob(text)
        if not named and not blob:
            return super().string(text, key, depth)
        media = head[5:].split(";", 1)[0] if named else "image/unknown"
        data = data if named else text
        try:
            return super().string(head) + comma + self._walk.blob(data, media, Location())
        except WireRefused as refused:
            if refused.code != "base64":
                raise
        return super().string(text, key, depth)


def walk_for(document: Any) -> type[SchemaWalk]:
    """Return how a body of `invoke` is read."""
    if not isinstance(document, dict):
        return VendorWalk
    if "anthropic_version" in document:
        return AnthropicInvokeWalk
    if "schemaVersion" in document or "inferenceConfig" in document:
        return ConverseWalk
    return VendorWalk


class CountWalk(ConverseWalk):
    """A request of `count-tokens`: a `converse` request, or a body of `invoke` in base64."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self._reading = reading

    def document(self, document: Any) -> Any:
        """Return the request redacted. Raises WireRefused."""
        asked = document.get("input") if isinstance(document, dict) else None
        if not isinstance(asked, dict):
            return super().document(document)
        place = Location().key("input")
        inside = {name: self._counted(name, value, place) for name, value in asked.items()}
        rest = super().document({**document, "input": None})
        return {**rest, "input": inside}

    def _counted(self, name: str, value: Any, place: Location) -> Any:
        if name == "converse" and isinstance(value, dict):
            return self.fields(value, place)
        body = value.get("body") if isinstance(value, dict) else None
        if name == "invokeModel" and isinstance(body, str):
            return {**self.fields({**value, "body": None}, place), "body": self._body(body)}
        raise WireRefused(
            "count_input",
            "The input of this count is of a kind this gateway does not know; send `converse` or "
            "`invokeModel`.",
        )

    def _body(self, body: str) -> str:
        try:
            document = loads(base64.b64decode(body, validate=True))
        except (binascii.Error, ValueError):
            raise WireRefused(
                "base64", "The body to count is not valid base64; encode it again."
            ) from None
        scanned = walk_for(document)(self._reading).document(document)
        return body if scanned is document else base64.b64encode(dumps(scanned)).decode()


class BedrockConverse(JsonFormat):
    """`POST /model/{model}/converse` and its streamed form."""

    family = Family.BEDROCK
    stream_types = frozenset((EVENT_STREAM_BINARY,))
    walk = ConverseWalk
    #: Whether the answer streams: the path says so.
    streams: ClassVar[bool] = False

    def wants_stream(self, document: Any) -> bool:
        """Tell whether the path is that of a streamed answer."""
        return self.streams

    def model_of(self, document: Any) -> str:
        """The model stands in the path alone, and answers name none."""
        return ""

    def usage_of(self, document: Any) -> Usage:
        """Return the counts of `usage`."""
        return usage_from(document.get("usage")) if isinstance(document, dict) else Usage()

    def stop_reason_of(self, document: Any) -> str | None:
        """Return `stopReason`."""
        reason = document.get("stopReason") if isinstance(document, dict) else None
        return reason if isinstance(reason, str) else None

    def restore_response(self, document: Any, restore: Callable[[str], str]) -> Any:
        """Return an answer restored, except reasoning."""
        return restore_answer(document, restore)

    def signed_texts(self, document: Any) -> Iterator[tuple[str, str]]:
        """Yield reasoning with its signature."""
        for block in _content_of(document):
            reasoning = block.get("reasoningContent") if isinstance(block, dict) else None
            if (found := signed_reasoning(reasoning)) is not None:
                yield found

    def new_stream(
        self,
        restorers: RestorerFactory,
        signed: Callable[[str, str], None] = ignore_signed,
        media_type: str = EVENT_STREAM,
    ) -> StreamTransformer:
        """Return the transformer of one answer."""
        return ConverseStream(restorers, signed)


class BedrockConverseStream(BedrockConverse):
    """`POST /model/{model}/converse-stream`."""

    streams = True


class BedrockCount(BedrockConverse):
    """`POST /model/{model}/count-tokens`."""

    walk = CountWalk


class BedrockInvoke(BedrockConverse):
    """`POST /model/{model}/invoke`: the body and the answer are those of the model's vendor."""

    def redact_body(
        self, body: bytes, content_type: str, reading: Reading, params: Mapping[str, str]
    ) -> RedactedBody:
        """Read the body as its vendor means it. Raises WireRefused."""
        document = loads(body)
        scanned = walk_for(document)(reading).document(document)
        return RedactedBody(dumps(scanned), JSON, params.get("model", ""), self.streams)

    def model_of(self, document: Any) -> str:
        """Return the model an answer names; not every vendor's does."""
        model = document.get("model") if isinstance(document, dict) else None
        return model if isinstance(model, str) else ""

    def usage_of(self, document: Any) -> Usage:
        """Return the counts in the vendor's own shape."""
        if not isinstance(document, dict):
            return Usage()
        usage = document.get("usage")
        if isinstance(usage, dict) and "input_tokens" in usage:
            return anthropic_usage(usage)
        if isinstance(usage, dict) and "prompt_tokens" in usage:
            return Usage(count(usage, "prompt_tokens"), count(usage, "completion_tokens"))
        if isinstance(usage, dict):
            return usage_from(usage)
        if "prompt_token_count" in document:
            output = count(document, "generation_token_count")
            return Usage(count(document, "prompt_token_count"), output)
        results = document.get("results")
        parts = results if isinstance(results, list) else []
        output = sum(count(part, "tokenCount") for part in parts if isinstance(part, dict))
        return Usage(count(document, "inputTextTokenCount"), output)

    def stop_reason_of(self, document: Any) -> str | None:
        """Return the reason where the vendor puts it at the top."""
        if not isinstance(document, dict):
            return None
        reason = document.get("stop_reason", document.get("stopReason"))
        return reason if isinstance(reason, str) else None

    def restore_response(self, document: Any, restore: Callable[[str], str]) -> Any:
        """Return an answer restored, except thinking."""
        if isinstance(document, dict) and isinstance(document.get("type"), str):
            return restore_node(document, restore)
        return restore_answer(document, restore)

    def signed_texts(self, document: Any) -> Iterator[tuple[str, str]]:
        """Yield thinking with its signature."""
        yield from AnthropicMessages("").signed_texts(document)
        yield from super().signed_texts(document)

    def new_stream(
        self,
        restorers: RestorerFactory,
        signed: Callable[[str, str], None] = ignore_signed,
        media_type: str = EVENT_STREAM,
    ) -> StreamTransformer:
        """Return the transformer of one answer."""
        return InvokeStream(restorers, signed)


class BedrockInvokeStream(BedrockInvoke):
    """`POST /model/{model}/invoke-with-response-stream`."""

    streams = True


def _content_of(document: Any) -> list[Any]:
    """Return the content blocks of a `converse` answer."""
    for name in ("output", "message", "content"):
        document = document.get(name) if isinstance(document, dict) else None
    return document if isinstance(document, list) else []


def _calls(verb: str) -> tuple[Call, ...]:
    return (Call(template=f"/model/{{model}}/{verb}", provider="bedrock"),)


FORMATS: Final = (
    BedrockInvoke("bedrock.invoke", _calls("invoke")),
    BedrockInvokeStream("bedrock.invoke_stream", _calls("invoke-with-response-stream")),
    BedrockConverse("bedrock.converse", _calls("converse")),
    BedrockConverseStream("bedrock.converse_stream", _calls("converse-stream")),
    BedrockCount("bedrock.count_tokens", _calls("count-tokens")),
)
