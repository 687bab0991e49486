"""Anthropic requests: no canary survives at any position, and nothing else changes."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import FakeRedactor, NamingRedactor, token_of

from gateway import wire
from gateway.wire.base import OpaqueAction, WireRefused, WireReport
from gateway.wire.formats.anthropic import BLOCK_TYPES
from gateway.wire.strictjson import Number, dumps, loads_object

FORMAT = wire.get("anthropic.messages")
C = "CANARY0001Z"
T = token_of(C)
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256))).decode()
PDF = base64.b64encode(b"%PDF-1.7\n" + bytes(range(256))).decode()
CACHE = {"type": "ephemeral", "ttl": "5m"}


def redact(document: Any, **options: Any) -> Any:
    return FORMAT.redact_request(document, FakeRedactor(), **options)


def b64(text: str, encoding: str = "utf-8") -> str:
    return base64.b64encode(text.encode(encoding)).decode()


def citation(kind: str) -> dict[str, Any]:
    return {"type": kind, "cited_text": C, "document_title": C, "document_index": 0, "source": C,
            "url": f"https://x/{C}", "title": C, "encrypted_index": "ZW5j"}  # fmt: skip


#: One block of every type, with a canary in every string that is not structural.
BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": C, "cache_control": CACHE, "citations": [
        citation(kind) for kind in ("char_location", "page_location", "content_block_location",
                                    "search_result_location", "web_search_result_location")]},
    {"type": "image", "source": {"type": "url", "url": f"https://x/?e={C}"}},
    {"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": b64(C)}},
    {"type": "document", "title": C, "context": C, "citations": {"enabled": True},
     "source": {"type": "text", "media_type": "text/plain", "data": C}},
    {"type": "document", "source": {"type": "url", "url": C}},
    {"type": "document", "source": {"type": "content", "content": C}},
    {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": C}]}},
    {"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": b64(C)}},
    {"type": "document", "source": {"type": "base64", "media_type": "text/csv",
                                    "data": b64("é" + C, "latin-1")}},
    {"type": "document", "source": {"type": "base64", "media_type": "text/plain",
                                    "data": b64(C, "utf-16")}},
    {"type": "document", "source": {"type": "base64", "media_type": "application/json",
                                    "data": b64(json.dumps({C: [C]}))}},
    {"type": "document", "source": {"type": "base64", "media_type": "application/octet-stream",
                                    "data": b64(C)}},
    {"type": "document", "source": {"type": "base64", "media_type": C, "data": b64(C)}},
    {"type": "search_result", "source": C, "title": C, "citations": {"enabled": True},
     "content": [{"type": "text", "text": C}]},
    {"type": "thinking", "thinking": C, "signature": ""},
    {"type": "thinking", "thinking": C},
    {"type": "thinking", "thinking": "signed", "signature": "c2ln", "later": C},
    {"type": "redacted_thinking", "data": "ZGF0YQ==", "later": C},
    {"type": "tool_use", "id": "toolu_01", "name": C, "caller": {"type": "direct"}, "input": {
        C: C, "nested": {C: [C, {C: C}]}, "json": json.dumps({C: json.dumps([C])}), "n": 1.5}},
    {"type": "tool_use", "id": C, "name": "n", "input": C},
    {"type": "tool_result", "tool_use_id": "toolu_01", "content": C, "is_error": False},
    {"type": "tool_result", "tool_use_id": C, "content": [
        C, {"type": "text", "text": C}, {"type": "image", "source": {"type": "url", "url": C}},
        {"type": "tool_reference", "tool_name": C},
        {"type": "search_result", "source": C, "title": C,
         "content": [{"type": "text", "text": C}]},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": C}}]},
    {"type": "tool_result", "tool_use_id": "toolu_01", "content": {"stdout": C, C: [C]}},
    {"type": "tool_result", "tool_use_id": "toolu_01", "content": json.dumps({"a": C}, indent=2)},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": C}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
        {"type": "web_search_result", "url": C, "title": C, "page_age": C,
         "encrypted_content": "ZW5j"}]},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1",
     "content": {"type": "web_search_tool_result_error", "error_code": C}},
    {"type": "web_fetch_tool_result", "tool_use_id": "srvtoolu_1", "content": {
        "type": "web_fetch_result", "url": C, "retrieved_at": C, "content": {
            "type": "document", "title": C,
            "source": {"type": "base64", "media_type": "text/plain", "data": b64(C)}}}},
    {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {
        "type": "code_execution_result", "stdout": C, "stderr": C, "return_code": 0,
        "content": [{"type": "code_execution_output", "file_id": "file_01"}]}},
    {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {
        "type": "encrypted_code_execution_result", "encrypted_stdout": "ZW5j", "stderr": C,
        "return_code": 0, "content": []}},
    {"type": "bash_code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {
        "type": "bash_code_execution_result", "stdout": C, "stderr": C, "return_code": 1,
        "content": [{"type": "bash_code_execution_output", "file_id": C}]}},
    {"type": "text_editor_code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {
        "type": "text_editor_code_execution_view_result", "file_type": "text", "content": C}},
    {"type": "text_editor_code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {
        "type": "text_editor_code_execution_str_replace_result", "lines": [C, f"-{C}"]}},
    {"type": "text_editor_code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {
        "type": "text_editor_code_execution_tool_result_error", "error_message": C}},
    {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": C}]}},
    {"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1",
     "content": {"type": "advisor_result", "text": C}},
    {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": C, "server_name": C, "input": {C: C}},
    {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "content": C},
    {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1",
     "content": [{"type": "text", "text": C}]},
    {"type": "mcp_tool_listing", "mcp_server_name": C, "tools": [
        {"name": C, "description": C, "input_schema": {"properties": {C: {"default": C}}}}]},
    {"type": "container_upload", "file_id": "file_01"},
    {"type": "compaction", "content": C},
    {"type": "compaction", "content": "sealed", "signature": "c2ln",
     "tool_changes": [{"type": "tool_definition", "definition": {"name": "n", "description": C}}]},
    {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {
        "name": "n", "description": C, "input_schema": {"enum": [C]}}}},
    {"type": "tool_removal", "tool": {"type": "tool_reference", "name": C}},
    {"type": "fallback", "to": {"model": "claude-y"}, "trigger": {"why": C}},
    {"type": "browser_state", "tabs": [{"tab_id": "1", "title": C, "url": C}],
     "state_changes": [{"type": "download_failed", "url": C, "error": C, "path": C}]},
]  # fmt: skip

REQUEST: dict[str, Any] = {
    "model": "claude-x-4@20260101",
    "max_tokens": 32000,
    "stream": True,
    "temperature": Number("1.0"),
    "system": [
        {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.332.abc; {C};"},
        {"type": "text", "text": C, "cache_control": CACHE},
    ],
    "messages": [
        {"role": "user", "content": C},
        {"role": "system", "content": C, "output_config": {"effort": "high"}},
        {"role": "system", "content": [{"type": "text", "text": C}]},
        {"role": "assistant", "content": BLOCKS},
        {"role": "user", "content": [C]},
    ],
    "tools": [
        {
            "name": C,
            "description": C,
            "defer_loading": True,
            "cache_control": CACHE,
            "input_examples": [{C: C}],
            "input_schema": {
                "type": "object",
                "description": C,
                "properties": {
                    C: {"type": "string", "default": C, "enum": [C], "examples": [C], "const": C},
                    "a": {"pattern": C, "$comment": C, "anyOf": [{"title": C}]},
                },
                "required": [C],
            },
        },
        {
            "type": "web_search_20260318",
            "name": "web_search",
            "allowed_domains": [C],
            "user_location": {"type": "approximate", "city": C, "timezone": C},
        },
        {"type": "mcp_toolset", "mcp_server_name": C, "configs": {C: {"enabled": True}}},
    ],
    "tool_choice": {"type": "tool", "name": C},
    "metadata": {"user_id": C, C: C},
    "stop_sequences": [C],
    "thinking": {"type": "adaptive", "display": "omitted", "later": C},
    "context_management": {"edits": [{"type": "compact_20260112", "instructions": C}]},
    "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {C: C}}},
    "mcp_servers": [{"type": "url", "name": C, "url": C, "authorization_token": C}],
    "container": {
        "id": "container_01",
        "skills": [{"type": "custom", "skill_id": C, "version": C}],
    },
    "service_tier": C,
    "inference_geo": C,
    "later": {C: [C, {"x": C}]},
    C: C,
}


def strings(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield f"{place} key", key
            yield from strings(member, f"{place}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from strings(item, f"{place}[{number}]")
    elif isinstance(value, str):
        yield place, value


def opened(text: str) -> Iterator[str]:
    """A string, and what a curious provider would find inside it."""
    yield text
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        return
    for encoding in ("utf-8", "latin-1", "utf-16"):
        yield raw.decode(encoding, "ignore")


def test_no_canary_survives_at_any_position() -> None:
    before = copy.deepcopy(REQUEST)
    out = redact(REQUEST)
    leaks = [place for place, text in strings(out) if any("CANARY" in t for t in opened(text))]
    assert leaks == []
    assert before == REQUEST
    assert b"CANARY" not in dumps(out)


def test_everything_else_is_as_it_was_in_the_same_order() -> None:
    restored = dumps(redact(REQUEST)).decode().replace(T, C)
    assert blind(json.loads(restored)) == blind(json.loads(dumps(REQUEST)))


def blind(value: Any) -> Any:
    """The structure in order, base64 texts opened where they hold the canary or its token."""
    if isinstance(value, dict):
        return [(key, blind(member)) for key, member in value.items()]
    if isinstance(value, list):
        return [blind(item) for item in value]
    if isinstance(value, str):
        for text in opened(value):
            if C in text or T in text:
                return text.replace(T, C)
    return value


def test_every_known_block_type_is_tried_here() -> None:
    tried = {text for place, text in strings(BLOCKS) if place.endswith(".type")}
    errors = {kind for kind in BLOCK_TYPES if kind.endswith("_error")}
    rest = {"text_editor_code_execution_create_result", "advisor_redacted_result"}
    assert tried >= BLOCK_TYPES - errors - rest


def test_redacting_again_changes_nothing() -> None:
    once = redact(REQUEST)
    assert dumps(redact(once)) == dumps(once)


def test_a_request_without_findings_comes_back_byte_for_byte() -> None:
    class FindsNothing(FakeRedactor):
        def text(self, s: str) -> str:
            return s

    body = dumps(REQUEST)
    assert dumps(FORMAT.redact_request(loads_object(body), FindsNothing())) == body


def test_the_same_prefix_gives_the_same_bytes_on_every_turn() -> None:
    def turn(count: int) -> bytes:
        messages = [{"role": "user", "content": f"{n} CANARY{n:04}Z"} for n in range(count)]
        return dumps(redact({"system": C, "messages": messages}))

    for count in range(1, 8):
        assert turn(count + 1).startswith(turn(count).removesuffix(b"]}"))


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": C, "signature": "c2lnbmVk+/=="},
        {"type": "thinking", "thinking": f"token {T}", "signature": "EqQB"},
        {"type": "redacted_thinking", "data": "/v8AQ0FO+gE="},
        {"type": "compaction", "content": C, "signature": "c2ln"},
        {
            "type": "compaction",
            "content": None,
            "encrypted_content": "c2ln",
            "cache_control": CACHE,
        },
    ],
)
def test_what_the_provider_signed_goes_back_byte_for_byte(block: dict[str, Any]) -> None:
    document = {"messages": [{"role": "assistant", "content": [block]}]}
    report = WireReport()
    redactor = FakeRedactor()
    out = FORMAT.redact_request(document, redactor, report=report, vouched=lambda *_: True)
    assert dumps(out) == dumps(document)
    assert report.signed_parts == 1
    assert not redactor.originals


@pytest.mark.parametrize(("kind", "member"), [("thinking", "thinking"), ("compaction", "content")])
def test_signed_text_that_nobody_vouches_for_is_read_like_any_other(kind: str, member: str) -> None:
    block = {"type": kind, member: f"see {C}", "signature": "c2lnbmVk"}
    asked: list[tuple[str, str]] = []

    def vouched(text: str, signature: str) -> bool:
        asked.append((text, signature))
        return False

    document = {"messages": [{"role": "assistant", "content": [block]}]}
    out = FORMAT.redact_request(document, FakeRedactor(), vouched=vouched)
    assert C not in dumps(out).decode()
    assert out["messages"][0]["content"][0]["signature"] == "c2lnbmVk"
    assert asked == [(f"see {C}", "c2lnbmVk")]


def test_signed_text_in_which_nothing_is_found_keeps_its_bytes_vouched_for_or_not() -> None:
    block = {"type": "thinking", "thinking": "plain  text\n", "signature": "EqQB" * 99}
    document = {"messages": [{"role": "assistant", "content": [block]}]}
    assert dumps(FORMAT.redact_request(document, FakeRedactor())) == dumps(document)


def test_a_short_seal_cannot_carry_what_the_redactor_would_find() -> None:
    block = {"type": "thinking", "thinking": "", "signature": C}
    document = {"messages": [{"role": "assistant", "content": [block]}]}
    assert C not in dumps(FORMAT.redact_request(document, FakeRedactor())).decode()


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ([{"type": "jane_doe"}], "messages[0].content[0]"),
        ([{"type": "text", "text": "x"}, {"text": "x"}], "messages[0].content[1]"),
        ([{"type": None}], "messages[0].content[0]"),
        ([{"type": ["text"]}], "messages[0].content[0]"),
        (
            [{"type": "tool_result", "content": [{"type": "x"}]}],
            "messages[0].content[0].content[0]",
        ),
        ({"type": "x"}, "messages[0].content"),
    ],
)
def test_an_unknown_block_is_refused_with_its_place(content: Any, place: str) -> None:
    with pytest.raises(WireRefused) as caught:
        redact({"messages": [{"role": "user", "content": content}]})
    assert (caught.value.code, caught.value.location) == ("block_type", place)
    assert place in str(caught.value)
    assert "jane" not in str(caught.value)


def test_an_unknown_source_and_broken_base64_are_refused() -> None:
    for source, code in (
        ({"type": "blob", "data": C}, "source_type"),
        ({"type": "base64", "media_type": "text/plain", "data": "a*b"}, "base64"),
    ):
        with pytest.raises(WireRefused) as caught:
            redact({"messages": [{"content": [{"type": "document", "source": source}]}]})
        assert caught.value.code == code


OPAQUE: list[dict[str, Any]] = [
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
    },
    {"type": "image", "source": {"type": "file", "file_id": "file_01"}},
    {"type": "container_upload", "file_id": "file_01"},
]


@pytest.mark.parametrize("block", OPAQUE)
def test_opaque_content_is_counted_or_refused_by_policy(block: dict[str, Any]) -> None:
    document = {
        "messages": [{"role": "user", "content": [{"type": "tool_result", "content": [block]}]}]
    }
    report = WireReport()
    assert redact(document, report=report) == document
    assert report.opaque_parts == 1
    with pytest.raises(WireRefused) as caught:
        redact(document, opaque=OpaqueAction.REFUSE)
    assert caught.value.code == "opaque"
    assert "messages[0].content[0].content[0]" in str(caught.value)


def test_an_engine_with_a_policy_of_its_own_is_asked_about_opaque_content() -> None:
    class Noting(FakeRedactor):
        def __init__(self) -> None:
            super().__init__()
            self.noted: list[str] = []

        def opaque(self, media_type: str) -> None:
            self.noted.append(media_type)

    redactor = Noting()
    FORMAT.redact_request({"messages": [{"content": OPAQUE}]}, redactor)
    assert redactor.noted == ["image/png", "application/pdf", "file", "file"]


def test_text_posing_as_an_image_is_read_as_text() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": b64(C)}
    out = redact({"messages": [{"content": [{"type": "image", "source": source}]}]})
    assert out["messages"][0]["content"][0]["source"]["data"] == b64(T)


@pytest.mark.parametrize("magic", ["GIF89a", "GIF87a ", "RIFF1234WEBP", "%PDF-1.7\n"])
def test_text_that_begins_like_a_file_is_still_text(magic: str) -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": b64(f"{magic} {C}")}
    out = redact({"messages": [{"content": [{"type": "document", "source": source}]}]})
    assert out["messages"][0]["content"][0]["source"]["data"] == b64(f"{magic} {T}")


@pytest.mark.parametrize(
    "raw",
    [
        b"GIF89a\1\0\1\0\0\0\0!\xf9\4\0\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;",
        b"GIF89a\1\0\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;",
        b"%PDF-1.4\n1 0 obj <<>> endobj\nstartxref\n9\n%%EOF",
    ],
)
def test_a_small_real_file_keeps_its_bytes(raw: bytes) -> None:
    data = base64.b64encode(raw).decode()
    source = {"type": "base64", "media_type": "image/gif", "data": data}
    report = WireReport()
    document = {"messages": [{"content": [{"type": "image", "source": source}]}]}
    assert redact(document, report=report) == document
    assert report.opaque_parts == 1


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"],
)
@pytest.mark.parametrize("media", ["text/plain", "application/octet-stream", "image/png"])
def test_text_in_any_unicode_encoding_is_read_and_stays_in_it(encoding: str, media: str) -> None:
    source = {"type": "base64", "media_type": media, "data": b64(f"Grüße, {C}\n", encoding)}
    out = redact({"messages": [{"content": [{"type": "document", "source": source}]}]})
    data = base64.b64decode(out["messages"][0]["content"][0]["source"]["data"])
    assert data.decode(encoding) == f"Grüße, {T}\n"


def test_a_data_url_is_opened() -> None:
    url = f"data:text/plain;base64,{b64(C)}"
    out = redact(
        {"messages": [{"content": [{"type": "image", "source": {"type": "url", "url": url}}]}]}
    )
    assert out["messages"][0]["content"][0]["source"]["url"] == f"data:text/plain;base64,{b64(T)}"


def test_names_reach_the_engine_for_free_form_data_and_credentials() -> None:
    out = FORMAT.redact_request(
        {
            "messages": [{"content": [{"type": "tool_use", "input": {"db_password": "x y"}}]}],
            "name": "password",
        },
        NamingRedactor(),
    )
    assert out["messages"][0]["content"][0]["input"] == {"db_password": token_of("x y")}
    assert out["name"] == "password"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", "claude-sonnet-5"),
        ("model", "claude-x@20260101"),
        ("id", "toolu_01A09q90qw90lq917835lq9AbC"),
        ("tool_use_id", "toolu_bdrk_01A09q90qw90lq917835lq9A"),
        ("tool_use_id", "call_0f8fad5b-d9cb-469f-a165-70867728950e"),
        ("model", "claude-3-5-haiku-20241022"),
        ("model", "claude-instant-1.2"),
        ("type", "tool_search_tool_bm25_20251119"),
        ("role", "assistant"),
    ],
)
def test_structural_values_are_not_shown_to_the_engine(field: str, value: str) -> None:
    redactor = FakeRedactor()
    FORMAT.redact_request({field: value}, redactor)
    assert redactor.shown == []


@pytest.mark.parametrize("field", ["type", "role", "ttl", "media_type"])
@pytest.mark.parametrize("value", ["bluebird", "project-bluebird", "text/bluebird", "9m"])
def test_a_tag_that_the_api_does_not_have_is_text(field: str, value: str) -> None:
    redactor = FakeRedactor()
    FORMAT.redact_request({"messages": [{field: value}]}, redactor)
    assert redactor.shown == [value]


def test_what_the_schema_does_not_know_is_free_form_and_never_refused() -> None:
    unknown = {"content": [{"type": "later", C: C}], "source": {"type": "git"}, "id": C}
    out = redact({"later": unknown, "messages": [{"role": "user", "content": "", "x": unknown}]})
    scanned = {"content": [{"type": "later", T: T}], "source": {"type": "git"}, "id": T}
    assert out == {"later": scanned, "messages": [{"role": "user", "content": "", "x": scanned}]}


@pytest.mark.parametrize(
    "tail", ["\n" * 200_000 + "*", "=" * 200_000, "} " * 100_000, "\\" * 200_000]
)
@pytest.mark.parametrize("head", ["", "[", '{"', "\n[", "data:x;base64,"])
def test_no_pattern_of_the_walk_takes_quadratic_time(head: str, tail: str) -> None:
    # With a quadratic pattern one of these takes minutes.
    text = head + tail
    out = redact({"later": text, "mcp_servers": [{"url": f"https://{text}", "signature": text}]})
    assert out["later"] == text


@pytest.mark.parametrize("body", [[], "x", 1, None])
def test_a_body_that_is_no_object_is_refused(body: Any) -> None:
    with pytest.raises(WireRefused, match="object"):
        redact(body)


def test_what_the_pipeline_reads_of_a_request() -> None:
    assert FORMAT.model_of({"model": "m"}) == "m"
    assert FORMAT.model_of({"model": 1}) == ""
    assert FORMAT.model_of([]) == ""
    assert FORMAT.wants_stream({"stream": True})
    assert not FORMAT.wants_stream({"stream": "true"})
    assert not FORMAT.wants_stream({})


def test_an_unregistered_format_is_refused() -> None:
    with pytest.raises(WireRefused):
        wire.get("no.such_format")
    assert wire.get("anthropic.count_tokens").name == "anthropic.count_tokens"


# -- random requests -----------------------------------------------------------------------------

PLANTED = st.integers(2, 9999).map(lambda n: f"CANARY{n:04}Z")
WORDS = st.sampled_from(
    ["", "x", 'a "b"\\', "é\U0001f600", "[EMAIL_0", '{"a":', "line\nline", "[]"]
)
TEXTS = st.builds("{}{}{}".format, WORDS, PLANTED, WORDS)
FREE = st.recursive(
    TEXTS | st.integers(-9, 9999) | st.none() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            TEXTS | st.sampled_from(["a", "name", "value", "default"]), inner, max_size=3
        )
        | inner.map(json.dumps)
        | inner.map(lambda value: json.dumps(value, ensure_ascii=False, indent=1))
    ),
    max_leaves=8,
)
SOURCES = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "media_type": TEXTS, "data": TEXTS}),
    st.fixed_dictionaries({"type": st.just("url"), "url": TEXTS}),
    st.fixed_dictionaries(
        {
            "type": st.just("base64"),
            "media_type": st.sampled_from(["text/plain", "image/png", "application/pdf", "x"]),
            "data": TEXTS.map(b64),
        }
    ),
)
LEAF_BLOCKS = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS}),
    st.fixed_dictionaries({"type": st.just("tool_use"), "id": TEXTS, "name": TEXTS, "input": FREE}),
    st.fixed_dictionaries({"type": st.just("document"), "title": TEXTS, "source": SOURCES}),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": TEXTS}),
    st.fixed_dictionaries({"type": st.sampled_from(sorted(BLOCK_TYPES)), "later": FREE}),
)
BLOCK = st.recursive(
    LEAF_BLOCKS,
    lambda inner: st.fixed_dictionaries(
        {
            "type": st.sampled_from(["tool_result", "mcp_tool_result", "web_search_tool_result"]),
            "content": st.lists(inner | TEXTS, max_size=3) | inner | TEXTS,
        }
    ),
    max_leaves=5,
)
REQUESTS = st.fixed_dictionaries(
    {"messages": st.lists(st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "assistant"]) | TEXTS,
         "content": TEXTS | st.lists(BLOCK, max_size=3)}), max_size=3)},
    optional={
        "model": TEXTS, "system": TEXTS | st.lists(BLOCK, max_size=2), "tools": FREE,
        "metadata": FREE, "tool_choice": FREE, "stop_sequences": FREE, "later": FREE,
        "mcp_servers": FREE, "container": FREE, "output_config": FREE, "thinking": FREE,
    },
)  # fmt: skip


@given(REQUESTS)
@settings(max_examples=400, deadline=None)
def test_random_requests_leak_nothing_and_change_nothing_else(document: dict[str, Any]) -> None:
    try:
        out = redact(document)
    except WireRefused as refused:
        # Free data under a name of the API, such as `content`, may not be a block.
        if refused.code not in ("block_type", "source_type", "base64"):
            raise
        return
    data = dumps(out)
    assert not any("CANARY" in t for _, text in strings(json.loads(data)) for t in opened(text))
    assert count(json.loads(data)) == count(document)
    assert data == dumps(redact(copy.deepcopy(document)))


def count(value: Any) -> Any:
    if isinstance(value, dict):
        return {"members": [count(member) for member in value.values()]}
    if isinstance(value, list):
        return [count(item) for item in value]
    return type(value).__name__ if isinstance(value, str) else value
