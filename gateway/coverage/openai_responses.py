"""Sample requests of OpenAI Responses and Conversations: every item, part and tool type."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from gateway.coverage.sample import MARK, Sample

_CALLER: Final = {"type": "program", "caller_id": f"call_{MARK}"}
_BREAK: Final = {"mode": "explicit", "ttl": "30m"}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _data(media: str, text: str = f"Reported by {MARK} yesterday.") -> str:
    return f"data:{media};base64,{_base64(text)}"


_ARGUMENTS: Final = json.dumps({"to": MARK, "nested": {MARK: [MARK]}, "raw": json.dumps([MARK])})
_SHAPE: Final = {
    "type": "object",
    "description": MARK,
    "properties": {
        MARK: {
            "type": "string",
            "description": MARK,
            "default": MARK,
            "enum": [MARK],
            "const": MARK,
            "examples": [MARK],
            "pattern": MARK,
        }
    },
    "required": [MARK],
    "$defs": {MARK: {"title": MARK}},
}

_PARTS: Final[list[dict[str, Any]]] = [
    {"type": "input_text", "text": MARK, "prompt_cache_breakpoint": _BREAK},
    {"type": "input_image", "detail": "auto", "image_url": f"https://pictures.example/{MARK}.png"},
    {
        "type": "input_image",
        "detail": "auto",
        "image_url": _data("image/svg+xml", f"<a>{MARK}</a>"),
    },
    {"type": "input_file", "filename": MARK, "file_data": _data("text/plain")},
    {
        "type": "input_file",
        "filename": "people.csv",
        "file_data": _base64(f"name,mail\nx,{MARK}\n"),
    },
    {"type": "input_file", "file_url": f"https://files.example/?of={MARK}"},
    {"type": "input_file", "file_id": f"file-{MARK}"},
    {"type": "input_audio", "input_audio": {"format": "wav", "data": _base64(f"spoken {MARK}")}},
]

_ANNOTATIONS: Final = [
    {"type": "url_citation", "title": MARK, "url": f"https://x.example/{MARK}", "start_index": 0},
    {"type": "file_citation", "file_id": f"file-{MARK}", "filename": MARK, "index": 1},
    {"type": "container_file_citation", "container_id": MARK, "filename": MARK, "end_index": 2},
    {"type": "file_path", "file_id": MARK, "index": 0},
]

_COMMANDS: Final = ["bash", "-lc", MARK, "--title", MARK]

_ITEMS: Final[list[dict[str, Any]]] = [
    {"role": "user", "content": MARK},
    {"role": "system", "content": [{"type": "input_text", "text": MARK}]},
    {"type": "message", "role": "developer", "content": MARK},
    {"type": "message", "role": "user", "status": "completed", "content": _PARTS},
    {
        "type": "message",
        "id": f"msg_{MARK}",
        "role": "assistant",
        "status": "completed",
        "phase": "final_answer",
        "content": [
            {
                "type": "output_text",
                "text": MARK,
                "annotations": _ANNOTATIONS,
                "logprobs": [{"token": MARK, "bytes": [1], "logprob": 0, "top_logprobs": []}],
            },
            {"type": "refusal", "refusal": MARK},
        ],
    },
    {
        "type": "agent_message",
        "author": MARK,
        "recipient": MARK,
        "content": [
            {"type": "input_text", "text": MARK},
            {"type": "encrypted_content", "encrypted_content": MARK},
        ],
        "internal_chat_message_metadata_passthrough": {"turn_id": MARK},
    },
    {
        "type": "reasoning",
        "id": f"rs_{MARK}",
        "summary": [{"type": "summary_text", "text": MARK}],
        "content": [{"type": "reasoning_text", "text": MARK}],
        "encrypted_content": f"not sealed: {MARK}",
    },
    {
        "type": "function_call",
        "id": f"fc_{MARK}",
        "call_id": f"call_{MARK}",
        "namespace": MARK,
        "name": MARK,
        "arguments": _ARGUMENTS,
        "caller": _CALLER,
        "encrypted_function_args": f"not sealed: {MARK}",
    },
    {"type": "function_call_output", "call_id": f"call_{MARK}", "name": MARK, "output": MARK},
    {"type": "function_call_output", "call_id": "call_2", "output": _ARGUMENTS},
    {
        "type": "function_call_output",
        "call_id": "call_3",
        "output": [*_PARTS, {"type": "encrypted_content", "encrypted_content": f"open {MARK}"}],
    },
    {"type": "function_call_output", "call_id": "call_4", "output": {MARK: MARK}},
    {
        "type": "custom_tool_call",
        "call_id": "call_5",
        "name": MARK,
        "namespace": MARK,
        "input": f"*** Begin Patch\n*** Add File: {MARK}\n+{MARK}\n*** End Patch",
    },
    {"type": "custom_tool_call_output", "call_id": "call_5", "output": MARK},
    {
        "type": "custom_tool_call_output",
        "call_id": "call_6",
        "output": [{"type": "input_text", "text": MARK}],
    },
    {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "call_7",
        "status": "completed",
        "action": {
            "type": "exec",
            "command": _COMMANDS,
            "env": {MARK: MARK},
            "user": MARK,
            "working_directory": MARK,
            "timeout_ms": 1000,
        },
    },
    {"type": "local_shell_call_output", "id": "lsh_1", "output": json.dumps({"stdout": MARK})},
    {
        "type": "shell_call",
        "call_id": "call_8",
        "action": {"commands": [MARK, f"echo {MARK}"], "max_output_length": 100},
        "environment": {
            "type": "local",
            "skills": [{"name": MARK, "description": MARK, "path": MARK}],
        },
    },
    {
        "type": "shell_call_output",
        "call_id": "call_8",
        "output": [
            {"stdout": MARK, "stderr": MARK, "outcome": {"type": "exit", "exit_code": 0}},
            {"stdout": MARK, "stderr": "", "outcome": {"type": "timeout"}},
        ],
    },
    {
        "type": "apply_patch_call",
        "call_id": "call_9",
        "status": "completed",
        "operation": {"type": "create_file", "path": MARK, "diff": f"+{MARK}"},
    },
    {
        "type": "apply_patch_call",
        "call_id": "call_10",
        "status": "completed",
        "operation": {"type": "delete_file", "path": MARK},
    },
    {"type": "apply_patch_call_output", "call_id": "call_9", "status": "failed", "output": MARK},
    {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "call_11",
        "action": {"type": "type", "text": MARK},
        "actions": [{"type": "keypress", "keys": [MARK]}, {"type": "click", "button": "left"}],
        "pending_safety_checks": [{"id": MARK, "code": MARK, "message": MARK}],
    },
    {
        "type": "computer_call_output",
        "call_id": "call_11",
        "acknowledged_safety_checks": [{"id": "x", "code": MARK, "message": MARK}],
        "output": {
            "type": "computer_screenshot",
            "image_url": f"https://shots.example/{MARK}",
        },
    },
    {
        "type": "file_search_call",
        "id": "fs_1",
        "queries": [MARK],
        "results": [
            {
                "file_id": MARK,
                "filename": MARK,
                "text": MARK,
                "attributes": {MARK: MARK},
                "score": 1,
            }
        ],
    },
    {
        "type": "web_search_call",
        "id": "ws_1",
        "action": {
            "type": "search",
            "query": MARK,
            "queries": [MARK],
            "sources": [{"type": "url", "url": f"https://s.example/?q={MARK}"}],
        },
    },
    {
        "type": "web_search_call",
        "id": "ws_2",
        "action": {"type": "find_in_page", "pattern": MARK, "url": f"https://s.example/{MARK}"},
    },
    {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "container_id": f"cntr_{MARK}",
        "code": f"print('{MARK}')",
        "outputs": [
            {"type": "logs", "logs": MARK},
            {"type": "image", "url": f"https://i.example/{MARK}"},
        ],
    },
    {
        "type": "image_generation_call",
        "id": "ig_1",
        "revised_prompt": MARK,
        "result": _base64(f"<svg>{MARK}</svg>"),
        "output_format": "svg",
        "error": {"code": MARK, "message": MARK, "param": MARK, "type": MARK},
    },
    {
        "type": "mcp_list_tools",
        "id": "mcpl_1",
        "server_label": MARK,
        "error": MARK,
        "tools": [
            {
                "name": MARK,
                "description": MARK,
                "input_schema": _SHAPE,
                "annotations": {"title": MARK, MARK: MARK},
            }
        ],
    },
    {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "name": MARK,
        "server_label": MARK,
        "arguments": _ARGUMENTS,
    },
    {
        "type": "mcp_approval_response",
        "approval_request_id": f"mcpr_{MARK}",
        "approve": False,
        "reason": MARK,
    },
    {
        "type": "mcp_call",
        "id": "mcp_1",
        "name": MARK,
        "server_label": MARK,
        "arguments": _ARGUMENTS,
        "output": MARK,
        "error": {
            "type": "mcp_tool_execution_error",
            "content": [{"type": "resource", "resource": {"uri": MARK, "text": MARK}}],
        },
    },
    {"type": "mcp_call", "id": "mcp_2", "name": "n", "server_label": "s", "error": MARK},
    {
        "type": "tool_search_call",
        "call_id": "call_12",
        "execution": "client",
        "arguments": {"query": MARK, MARK: [MARK]},
    },
    {
        "type": "tool_search_output",
        "call_id": "call_12",
        "tools": [
            {
                "type": "namespace",
                "name": MARK,
                "description": MARK,
                "tools": [
                    {"type": "function", "name": MARK, "description": MARK, "parameters": _SHAPE}
                ],
            }
        ],
    },
    {
        "type": "additional_tools",
        "role": "developer",
        "tools": [{"type": "function", "name": MARK, "description": MARK, "parameters": _SHAPE}],
    },
    {
        "type": "program",
        "id": "p_1",
        "call_id": "call_13",
        "code": MARK,
        "fingerprint": f"x {MARK}",
    },
    {"type": "program_output", "id": "p_2", "call_id": "call_13", "result": MARK},
    {
        "type": "configuration_update",
        "text": {"format": {"type": "json_schema", "name": MARK, "schema": _SHAPE}},
    },
    {"type": "compaction", "id": "cmp_1", "encrypted_content": f"not sealed: {MARK}"},
    {"type": "context_compaction", "encrypted_content": f"not sealed: {MARK}"},
    {"type": "item_reference", "id": f"msg_{MARK}"},
    {"type": "compaction_trigger", "id": MARK},
]

_TOOLS: Final[list[dict[str, Any]]] = [
    {
        "type": "function",
        "name": MARK,
        "description": MARK,
        "strict": False,
        "parameters": _SHAPE,
        "output_schema": _SHAPE,
    },
    {
        "type": "custom",
        "name": MARK,
        "description": MARK,
        "format": {"type": "grammar", "syntax": "lark", "definition": f'start: "{MARK}"'},
    },
    {
        "type": "namespace",
        "name": MARK,
        "description": MARK,
        "tools": [
            {"type": "function", "name": MARK, "description": MARK, "parameters": _SHAPE},
            {"type": "custom", "name": MARK, "description": MARK},
        ],
    },
    {
        "type": "web_search",
        "filters": {"allowed_domains": [MARK]},
        "user_location": {"type": "approximate", "city": MARK, "region": MARK, "timezone": MARK},
    },
    {
        "type": "file_search",
        "vector_store_ids": [f"vs_{MARK}"],
        "filters": {
            "type": "and",
            "filters": [
                {"type": "eq", "key": MARK, "value": MARK},
                {"type": "in", "key": "city", "value": [MARK]},
            ],
        },
    },
    {
        "type": "code_interpreter",
        "container": {
            "type": "auto",
            "file_ids": [f"file-{MARK}"],
            "network_policy": {
                "type": "allowlist",
                "allowed_domains": [MARK],
                "domain_secrets": [{"domain": MARK, "name": MARK, "value": MARK}],
            },
        },
    },
    {"type": "code_interpreter", "container": f"cntr_{MARK}"},
    {"type": "computer_use_preview", "display_width": 800, "environment": "browser"},
    {
        "type": "mcp",
        "server_label": MARK,
        "server_description": MARK,
        "server_url": f"https://mcp.example/{MARK}?key={MARK}",
        "authorization": MARK,
        "headers": {"Authorization": f"Bearer {MARK}", "X-Team": MARK},
        "allowed_tools": {"tool_names": [MARK]},
        "require_approval": {"always": {"tool_names": [MARK]}, "never": {"tool_names": [MARK]}},
        "connector_id": MARK,
    },
    {
        "type": "image_generation",
        "input_image_mask": {"image_url": f"https://i.example/{MARK}", "file_id": f"file-{MARK}"},
    },
    {"type": "local_shell"},
    {
        "type": "shell",
        "environment": {
            "type": "container_auto",
            "skills": [
                {
                    "type": "inline",
                    "name": MARK,
                    "description": MARK,
                    "source": {
                        "type": "base64",
                        "media_type": "application/zip",
                        "data": _base64(f"not zipped: {MARK}"),
                    },
                },
                {"type": "skill_reference", "skill_id": f"skill_{MARK}", "version": MARK},
            ],
        },
    },
    {"type": "apply_patch"},
    {"type": "tool_search", "description": MARK, "parameters": _SHAPE},
    {"type": "programmatic_tool_calling"},
    {"type": MARK, "later": {MARK: MARK}},
]

_WHOLE: Final[dict[str, Any]] = {
    "model": f"gpt-{MARK}",
    "instructions": MARK,
    "input": _ITEMS,
    "tools": _TOOLS,
    "tool_choice": {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "mcp", "server_label": MARK, "name": MARK}],
    },
    "text": {
        "verbosity": MARK,
        "format": {
            "type": "json_schema",
            "name": MARK,
            "description": MARK,
            "schema": _SHAPE,
        },
    },
    "prompt": {
        "id": f"pmpt_{MARK}",
        "version": MARK,
        "variables": {
            MARK: MARK,
            "picture": {"type": "input_image", "image_url": f"https://p.example/{MARK}"},
            "file": {"type": "input_file", "filename": MARK, "file_data": _data("text/csv")},
        },
    },
    "metadata": {MARK: MARK},
    "client_metadata": {"x-codex-installation-id": MARK, MARK: MARK},
    "user": MARK,
    "safety_identifier": MARK,
    "prompt_cache_key": MARK,
    "prompt_cache_options": {"comparison_response_id": f"resp_{MARK}"},
    "previous_response_id": f"resp_{MARK}",
    "conversation": {"id": f"conv_{MARK}"},
    "include": [MARK],
    "reasoning": {"effort": MARK, "summary": MARK},
    "truncation": MARK,
    "service_tier": MARK,
    "moderation": {"model": MARK},
    "background_options": {"continuation_id": MARK},
    "context_management": [{"type": MARK}],
    "stream": False,
    "store": False,
    "later": {MARK: [MARK]},
}

_SHORT: Final = {"model": "gpt-6.2-astra", "input": f"Hello {MARK}", "instructions": MARK}
_CONVERSATION: Final = {"items": _ITEMS[:6], "metadata": {MARK: MARK}}

SAMPLES: Final = (
    Sample(wire="openai.responses", path="/v1/responses", body=_WHOLE),
    Sample(wire="openai.responses", path="/responses", body=_SHORT),
    Sample(
        wire="openai.responses",
        path="/v1/responses",
        body=_SHORT,
        headers={"x-codex-turn-metadata": f'{{"cwd":"{MARK}"}}', "session-id": MARK},
    ),
    Sample(
        wire="openai.responses",
        path="/openai/responses?api-version=2025-04-01-preview",
        body={**_SHORT, "metadata": {MARK: MARK}},
    ),
    Sample(
        wire="openai.responses",
        path="/openai/v1/responses",
        body={**_SHORT, "input": _ITEMS[:8]},
    ),
    Sample(
        wire="openai.responses_compact",
        path="/v1/responses/compact",
        body={**_SHORT, "input": _ITEMS[:14], "prompt_cache_key": MARK},
    ),
    Sample(
        wire="openai.responses_count",
        path="/v1/responses/input_tokens",
        body={**_SHORT, "tools": _TOOLS[:3], "personality": MARK},
    ),
    Sample(
        wire="openai.responses_stored",
        method="GET",
        path=f"/v1/responses/resp_{MARK}?stream=true&starting_after=4",
        body=None,
    ),
    Sample(
        wire="openai.responses_stored",
        method="GET",
        path=f"/v1/responses/resp_1/input_items?after=msg_{MARK}&limit=10",
        body=None,
    ),
    Sample(
        wire="openai.responses_stored",
        path=f"/v1/responses/resp_{MARK}/cancel",
        body=None,
    ),
    Sample(
        wire="openai.responses_stored",
        method="DELETE",
        path=f"/v1/responses/resp_{MARK}",
        body=None,
    ),
    Sample(wire="openai.conversations", path="/v1/conversations", body=_CONVERSATION),
    Sample(
        wire="openai.conversations",
        path=f"/v1/conversations/conv_{MARK}",
        body={"metadata": {MARK: MARK}},
    ),
    Sample(
        wire="openai.conversations",
        path="/v1/conversations/conv_1/items",
        body={"items": _ITEMS[6:12]},
    ),
    Sample(
        wire="openai.conversations_stored",
        method="GET",
        path=f"/v1/conversations/conv_1/items/msg_{MARK}",
        body=None,
    ),
)
