"""Samples of Anthropic's calls: Messages with every kind of block, token counts, batches, the older
completions, and the calls that have only a path. Read by `matrix`."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from gateway.coverage.sample import MARK, TOOL_SCHEMA, Sample

_HEADERS: Final = {"anthropic-version": "2023-06-01", "x-api-key": "key-of-the-sample"}
_CACHE: Final = {"type": "ephemeral", "ttl": "5m"}
_RESULT_OF: Final = "toolu_01A09q90qw90lq917835lq9a"
_CITATIONS: Final = (
    "char_location",
    "page_location",
    "content_block_location",
    "search_result_location",
    "web_search_result_location",
)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _json(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False)


def _text(text: str = MARK) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _citation(kind: str) -> dict[str, Any]:
    citation: dict[str, Any] = {"type": kind, "cited_text": MARK}
    if kind == "web_search_result_location":
        return citation | {"url": f"https://kestrel.example/{MARK}", "title": MARK}
    if kind == "search_result_location":
        return citation | {"source": MARK, "title": MARK, "search_result_index": 0}
    return citation | {"document_title": MARK, "document_index": 0}


def _result(kind: str, content: Any) -> dict[str, Any]:
    return {"type": kind, "tool_use_id": _RESULT_OF, "content": content}


_DOCUMENTS: Final[list[dict[str, Any]]] = [
    {"type": "document", "title": MARK, "context": MARK, "citations": {"enabled": True},
     "source": {"type": "text", "media_type": "text/plain", "data": MARK}},
    {"type": "document", "source": {"type": "url", "url": f"https://kestrel.example/{MARK}.pdf"}},
    {"type": "document", "source": {"type": "content", "content": MARK}},
    {"type": "document", "source": {"type": "content", "content": [_text()]}},
    {"type": "document", "source": {"type": "base64", "media_type": "text/plain",
                                    "data": _base64(f"Dear {MARK},\nand {MARK}.\n")}},
    {"type": "document", "source": {"type": "base64", "media_type": "application/json",
                                    "data": _base64(_json({MARK: [MARK]}))}},
    {"type": "document", "source": {"type": "base64", "media_type": "text/csv",
                                    "data": _base64(f"name,mail\nx,{MARK}\n")}},
]  # fmt: skip

_USER_BLOCKS: Final[list[dict[str, Any]]] = [
    _text(f"Write to {MARK} about it.") | {"cache_control": _CACHE},
    {"type": "image", "source": {"type": "url", "url": f"https://kestrel.example/?for={MARK}"}},
    {"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml",
                                 "data": _base64(f"<svg><text>{MARK}</text></svg>")}},
    *_DOCUMENTS,
    {"type": "search_result", "source": f"https://kestrel.example/{MARK}", "title": MARK,
     "citations": {"enabled": True}, "content": [_text()]},
    _result("tool_result", MARK) | {"is_error": True},
    _result("tool_result", _json({"rows": [{"mail": MARK, MARK: 1}], "log": _json([MARK])})),
    _result("tool_result", f'first line\n{{"mail": "{MARK}"}}\nlast line {MARK}\n'),
    _result("tool_result", [
        _text(),
        {"type": "image", "source": {"type": "url", "url": f"https://kestrel.example/{MARK}.png"}},
        {"type": "tool_reference", "tool_name": MARK},
        {"type": "search_result", "source": MARK, "title": MARK, "content": [_text()]},
        {"type": "document", "title": MARK,
         "source": {"type": "text", "media_type": "text/plain", "data": MARK}},
    ]),
    {"type": "tool_result", "tool_use_id": MARK, "content": []},
    {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {
        "name": MARK, "description": MARK, "input_schema": TOOL_SCHEMA}}},
    {"type": "tool_removal", "tool": {"type": "tool_reference", "name": MARK}},
    {"type": "browser_state", "tabs": [{"tab_id": "1", "title": MARK, "url": MARK}],
     "state_changes": [{"type": "download_failed", "url": MARK, "error": MARK, "path": MARK}]},
]  # fmt: skip

_ASSISTANT_BLOCKS: Final[list[dict[str, Any]]] = [
    {"type": "thinking", "thinking": MARK},
    _text() | {"citations": [_citation(kind) for kind in _CITATIONS]},
    {"type": "tool_use", "id": _RESULT_OF, "name": MARK, "caller": {"type": "direct"}, "input": {
        MARK: MARK,
        "command": f"curl -d 'to={MARK}' https://kestrel.example",
        "nested": {"list": [MARK, {MARK: MARK}]},
        "json": _json({"deep": _json([MARK]), MARK: MARK}),
    }},
    {"type": "tool_use", "id": MARK, "name": "Write", "input": {"content": MARK}},
    {"type": "server_tool_use", "id": "srvtoolu_01A09q90qw90lq917835lq9a", "name": "web_search",
     "input": {"query": MARK, MARK: 1}},
    _result("web_search_tool_result", [
        {"type": "web_search_result", "url": f"https://kestrel.example/{MARK}", "title": MARK,
         "page_age": MARK, "encrypted_content": MARK}]),
    _result("web_search_tool_result", {"type": "web_search_tool_result_error",
                                       "error_code": MARK}),
    _result("web_fetch_tool_result", {
        "type": "web_fetch_result", "url": MARK, "retrieved_at": MARK,
        "content": {"type": "document", "title": MARK, "source": {
            "type": "base64", "media_type": "text/plain", "data": _base64(f"Page of {MARK}")}}}),
    _result("web_fetch_tool_result", {"type": "web_fetch_tool_result_error",
                                      "error_code": MARK}),
    _result("code_execution_tool_result", {
        "type": "code_execution_result", "stdout": MARK, "stderr": MARK, "return_code": 0,
        "content": [{"type": "code_execution_output", "file_id": MARK}]}),
    _result("code_execution_tool_result", {
        "type": "encrypted_code_execution_result", "encrypted_stdout": MARK, "stderr": MARK,
        "return_code": 0, "content": []}),
    _result("code_execution_tool_result", {"type": "code_execution_tool_result_error",
                                           "error_code": MARK}),
    _result("bash_code_execution_tool_result", {
        "type": "bash_code_execution_result", "stdout": MARK, "stderr": MARK, "return_code": 1,
        "content": [{"type": "bash_code_execution_output", "file_id": MARK}]}),
    _result("bash_code_execution_tool_result", {"type": "bash_code_execution_tool_result_error",
                                                "error_code": MARK}),
    _result("text_editor_code_execution_tool_result", {
        "type": "text_editor_code_execution_view_result", "file_type": "text", "content": MARK}),
    _result("text_editor_code_execution_tool_result", {
        "type": "text_editor_code_execution_str_replace_result", "lines": [MARK, f"-{MARK}"]}),
    _result("text_editor_code_execution_tool_result", {
        "type": "text_editor_code_execution_tool_result_error", "error_code": "unavailable",
        "error_message": MARK}),
    _result("tool_search_tool_result", {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": MARK}]}),
    _result("tool_search_tool_result", {"type": "tool_search_tool_result_error",
                                        "error_code": "unavailable", "error_message": MARK}),
    _result("advisor_tool_result", {"type": "advisor_result", "text": MARK}),
    _result("advisor_tool_result", {"type": "advisor_redacted_result",
                                    "encrypted_content": MARK}),
    {"type": "mcp_tool_use", "id": MARK, "name": MARK, "server_name": MARK,
     "input": {MARK: MARK}},
    _result("mcp_tool_result", MARK),
    _result("mcp_tool_result", [_text()]) | {"is_error": False},
    {"type": "mcp_tool_listing", "mcp_server_name": MARK, "tools": [
        {"name": MARK, "description": MARK, "input_schema": TOOL_SCHEMA}]},
    {"type": "container_upload", "file_id": MARK},
    {"type": "compaction", "content": MARK},
    {"type": "fallback", "from": {"model": "claude-opus-4-5"}, "to": {"model": MARK},
     "trigger": {"why": MARK}},
]  # fmt: skip

_TOOLS: Final[list[dict[str, Any]]] = [
    {"name": MARK, "description": MARK, "input_schema": TOOL_SCHEMA,
     "input_examples": [{MARK: MARK}, {"to": [MARK]}], "cache_control": _CACHE,
     "defer_loading": True},
    {"type": "custom", "name": "Write", "description": f"Writes as {MARK}.",
     "input_schema": {"type": "object"}},
    {"type": "web_search_20260318", "name": "web_search", "allowed_domains": [MARK],
     "user_location": {"type": "approximate", "city": MARK, "region": MARK, "country": "US",
                       "timezone": MARK}},
    {"type": "web_fetch_20260318", "name": "web_fetch", "blocked_domains": [MARK]},
    {"type": "mcp_toolset", "mcp_server_name": MARK, "configs": {MARK: {"enabled": True}}},
    {"type": "computer_20251124", "name": "computer", "display_width_px": 1024,
     "display_height_px": 768, "later": MARK},
]  # fmt: skip

_MESSAGES: Final[dict[str, Any]] = {
    "model": "claude-sonnet-4-5-20250929",
    "system": [
        _text(f"You help {MARK}.") | {"cache_control": _CACHE},
        _text(f"x-anthropic-billing-header: cc_version=2.1.332.abc; {MARK};"),
    ],
    "messages": [
        {"role": "user", "content": f"My mail is {MARK}."},
        {"role": "system", "content": MARK, "output_config": {"effort": "high"}},
        {"role": "system", "content": [_text()]},
        {"role": "assistant", "content": _ASSISTANT_BLOCKS},
        {"role": "user", "content": _USER_BLOCKS},
        {"role": "user", "content": [MARK], "name": MARK},
        {"role": MARK, "content": "hello"},
    ],
    "tools": _TOOLS,
    "tool_choice": {"type": "tool", "name": MARK},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
}

_MORE: Final[dict[str, Any]] = {
    "max_tokens": 1024,
    "stream": False,
    "temperature": 1,
    "metadata": {"user_id": MARK, MARK: MARK},
    "stop_sequences": [MARK, "END"],
    "context_management": {"edits": [
        {"type": "compact_20260112", "instructions": MARK},
        {"type": "clear_tool_uses_20250919", "exclude_tools": [MARK]}]},
    "output_config": {"format": {"type": "json_schema", "schema": TOOL_SCHEMA}},
    "mcp_servers": [{"type": "url", "name": MARK, "url": f"https://kestrel.example/?as={MARK}",
                     "authorization_token": MARK, "tool_configuration": {"allowed_tools": [MARK]}}],
    "container": {"id": MARK, "skills": [{"type": "custom", "skill_id": MARK, "version": MARK}]},
    "diagnostics": {"previous_message_id": MARK},
    "service_tier": MARK,
    "inference_geo": MARK,
    "user_profile_id": MARK,
    "later": {MARK: [MARK, {"x": MARK}]},
    MARK: MARK,
}  # fmt: skip

_PLAIN: Final[dict[str, Any]] = {
    "model": "claude-opus-4-5",
    "max_tokens": 64,
    "messages": [{"role": "user", "content": MARK}],
}

SAMPLES: Final = (
    Sample(
        wire="anthropic.messages",
        path="/v1/messages?beta=true",
        body=_MESSAGES | _MORE,
        headers=_HEADERS,
    ),
    Sample(
        wire="anthropic.messages",
        path="/v1/messages",
        body=_PLAIN | {"model": MARK, "system": MARK, "container": MARK},
        headers=_HEADERS | {"anthropic-beta": MARK, "x-claude-code-session-id": MARK},
    ),
    Sample(
        wire="anthropic.count_tokens",
        path="/v1/messages/count_tokens?beta=true",
        body={
            "model": "claude-sonnet-4-5",
            "system": MARK,
            "messages": [{"role": "user", "content": MARK}],
            "tools": _TOOLS[:1],
            "mcp_servers": [{"type": "url", "name": MARK, "url": MARK}],
        },
        headers=_HEADERS,
    ),
    Sample(
        wire="anthropic.batches",
        path="/v1/messages/batches",
        body={
            "requests": [
                {"custom_id": MARK, "params": _PLAIN | {"system": [_text()], "tools": _TOOLS}},
                {
                    "custom_id": "second",
                    "params": _PLAIN
                    | {"messages": [{"role": "user", "content": _USER_BLOCKS}]}
                    | {"metadata": {"user_id": MARK}, "stop_sequences": [MARK]},
                    "later": MARK,
                },
            ],
            MARK: MARK,
        },
        headers=_HEADERS,
    ),
    Sample(
        wire="anthropic.batch",
        method="GET",
        path=f"/v1/messages/batches?limit=20&before_id={MARK}&after_id={MARK}",
        body=None,
        headers=_HEADERS,
    ),
    Sample(
        wire="anthropic.batch",
        method="GET",
        path=f"/v1/messages/batches/{MARK}",
        body=None,
        headers=_HEADERS,
    ),
    Sample(
        wire="anthropic.batch",
        path=f"/v1/messages/batches/{MARK}/cancel",
        body=None,
        headers=_HEADERS,
    ),
    Sample(
        wire="anthropic.batch",
        method="DELETE",
        path=f"/v1/messages/batches/{MARK}",
        body=None,
        headers=_HEADERS,
    ),
    Sample(
        wire="anthropic.batch_results",
        method="GET",
        path=f"/v1/messages/batches/{MARK}/results",
        body=None,
        headers=_HEADERS,
    ),
    Sample(
        wire="anthropic.complete",
        path="/v1/complete",
        body={
            "model": MARK,
            "prompt": f"\n\nHuman: I am {MARK}.\n\nAssistant:",
            "max_tokens_to_sample": 64,
            "stop_sequences": ["\n\nHuman:", MARK],
            "metadata": {"user_id": MARK, MARK: MARK},
            "later": {MARK: MARK},
        },
        headers=_HEADERS,
    ),
    Sample(
        wire="anthropic.models",
        method="GET",
        path=f"/v1/models?limit=20&before_id={MARK}&after_id={MARK}",
        body=None,
        headers=_HEADERS,
    ),
    Sample(
        wire="anthropic.models",
        method="GET",
        path=f"/v1/models/{MARK}",
        body=None,
        headers=_HEADERS,
    ),
)
