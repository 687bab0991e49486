"""Samples of OpenAI's calls: chat, the older completions, embeddings, moderations; also on Azure
and at Google's compatible endpoint. Read by `matrix`."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from gateway.coverage.sample import MARK, TOOL_SCHEMA, Sample

_CALL_ID: Final = "call_9Kz0y7aTqcX2bRkLmN4sWvEu"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


_TEXT: Final = {"type": "text", "text": f"Please ask {MARK} about it."}

_USER_PARTS: Final[list[Any]] = [
    _TEXT,
    {"type": "image_url", "image_url": {"url": f"https://img.kestrel.example/?for={MARK}"}},
    {"type": "image_url", "image_url": f"https://img.kestrel.example/{MARK}"},
    {
        "type": "image_url",
        "image_url": {
            "url": "data:text/plain;base64," + _base64(f"<svg>{MARK} and {MARK}</svg>"),
            "detail": "low",
        },
    },
    {
        "type": "file",
        "file": {
            "file_data": "data:text/csv;base64," + _base64(f"a,b\n{MARK},1"),
            "filename": MARK,
        },
    },
    {"type": "file", "file": {"file_data": _base64(f"Notes about {MARK}"), "filename": "n.txt"}},
    {"type": "file", "file": {"file_id": MARK}},
    {
        "type": "input_audio",
        "input_audio": {"data": _base64(f"not a sound: {MARK}"), "format": "wav"},
    },
    {"type": "video_url", "video_url": {"url": f"https://v.kestrel.example/{MARK}"}},
    {"type": "text", "text": "cached", "cache_control": {"type": "ephemeral", "note": MARK}},
]

_ASSISTANT: Final[list[Any]] = [
    {
        "role": "assistant",
        "name": MARK,
        "content": f"I will write to {MARK}.",
        "refusal": MARK,
        "reasoning_content": f"The user said {MARK}.",
        "reasoning": MARK,
        "reasoning_details": [
            {"type": "reasoning.text", "text": MARK, "signature": MARK, "index": 0},
            {"type": "reasoning.summary", "summary": MARK, "id": MARK, "format": MARK},
            {"type": "reasoning.encrypted", "data": MARK},
        ],
        "annotations": [
            {
                "type": "url_citation",
                "url_citation": {
                    "url": f"https://kestrel.example/{MARK}",
                    "title": MARK,
                    "start_index": 0,
                    "end_index": 9,
                },
            }
        ],
        "tool_calls": [
            {
                "id": _CALL_ID,
                "type": "function",
                "function": {
                    "name": "send",
                    "arguments": json.dumps(
                        {"to": [MARK], MARK: {"deep": MARK}, "body": json.dumps({"in": MARK})}
                    ),
                },
                "extra_content": {"google": {"thought_signature": MARK}},
            },
            {"id": MARK, "type": "custom", "custom": {"name": MARK, "input": f"x = {MARK}"}},
            {
                "id": _CALL_ID,
                "type": "function",
                "function": {"name": MARK, "arguments": f'{{"cut": "{MARK}'},
            },
        ],
    },
    {"role": "assistant", "content": [_TEXT, {"type": "refusal", "refusal": MARK}]},
    {"role": "assistant", "content": None, "function_call": {"name": MARK, "arguments": MARK}},
    {"role": "assistant", "audio": {"id": MARK, "transcript": MARK}},
    {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": [{"type": "text", "text": MARK}]}],
    },
    {"role": "assistant", "thinking_blocks": [{"type": "thinking", "thinking": MARK}]},
]

_TOOLS: Final[list[Any]] = [
    {
        "type": "function",
        "function": {
            "name": "send",
            "description": f"Sends to {MARK}",
            "parameters": TOOL_SCHEMA,
            "strict": False,
        },
    },
    {"type": "function", "function": {"name": MARK}},
    {
        "type": "custom",
        "custom": {
            "name": MARK,
            "description": MARK,
            "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": MARK}},
        },
    },
]

_CHAT: Final[dict[str, Any]] = {
    "model": "gpt-5.1",
    "messages": [
        {"role": "system", "content": f"You serve {MARK}.", "name": MARK},
        {"role": "developer", "content": [_TEXT]},
        {"role": "user", "content": MARK, "name": MARK},
        {"role": "user", "content": _USER_PARTS},
        *_ASSISTANT,
        {"role": "tool", "tool_call_id": _CALL_ID, "content": f"sent to {MARK}"},
        {"role": "tool", "tool_call_id": MARK, "content": [_TEXT]},
        {"role": "tool", "tool_call_id": _CALL_ID, "content": json.dumps({"rows": [{"to": MARK}]})},
        {"role": "function", "name": MARK, "content": MARK},
        {"role": MARK, "content": "plain", "x_vendor": {"note": MARK, MARK: 1}},
    ],
    "tools": _TOOLS,
    "tool_choice": {"type": "function", "function": {"name": MARK}},
    "functions": [{"name": MARK, "description": MARK, "parameters": TOOL_SCHEMA}],
    "function_call": {"name": MARK},
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": MARK, "description": MARK, "schema": TOOL_SCHEMA, "strict": True},
    },
    "prediction": {"type": "content", "content": [_TEXT]},
    "metadata": {"case": MARK, MARK: "plain"},
    "user": MARK,
    "safety_identifier": MARK,
    "prompt_cache_key": MARK,
    "stop": ["END", MARK],
    "logit_bias": {"50256": -100, MARK: 1},
    "web_search_options": {
        "search_context_size": "low",
        "user_location": {
            "type": "approximate",
            "approximate": {
                "city": MARK,
                "region": MARK,
                "country": MARK,
                "timezone": MARK,
            },
        },
    },
    "modalities": ["text", "audio"],
    "audio": {"voice": {"id": MARK}, "format": "mp3"},
    "stream_options": {"include_usage": True, "note": MARK},
    "temperature": 0.7,
    "seed": 7,
    "extra_body": {"google": {"cached_content": MARK}},
    "chat_template_kwargs": {MARK: MARK},
    "guided_json": TOOL_SCHEMA,
    "documents": [{"title": MARK, "text": MARK}],
    MARK: MARK,
}

#: What is not in `_CHAT` because a member can have one value only.
_CHAT_OTHERS: Final[dict[str, Any]] = {
    "model": MARK,
    "messages": [
        {"role": "user", "content": json.dumps({"log": f"by {MARK}", MARK: [MARK]})},
        {"role": "assistant", "content": MARK, "tool_calls": []},
        {"role": "tool", "tool_call_id": _CALL_ID, "content": f'{{"a": "{MARK}"}}\n{{"b": 1}}\n'},
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [{"type": "function", "function": {"name": MARK}}],
        },
    },
    "prediction": {"type": "content", "content": MARK},
    "stop": MARK,
    "response_format": {"type": MARK},
    "audio": {"voice": MARK, "format": MARK},
    "reasoning_effort": MARK,
    "service_tier": MARK,
}

#: A short conversation, for the same call at other addresses.
_SHORT: Final[dict[str, Any]] = {
    "messages": [
        {"role": "system", "content": MARK},
        {"role": "user", "content": [_TEXT]},
        *_ASSISTANT[:1],
        {"role": "tool", "tool_call_id": _CALL_ID, "content": MARK},
    ],
    "tools": _TOOLS[:1],
    "user": MARK,
}
_ON_YOUR_DATA: Final[list[Any]] = [
    {
        "type": "azure_search",
        "parameters": {
            "endpoint": f"https://kestrel.example/{MARK}",
            "index_name": MARK,
            "role_information": MARK,
            "filter": f"owner eq '{MARK}'",
            "authentication": {"type": "access_token", "access_token": MARK},
        },
    }
]

_COMPLETION: Final[dict[str, Any]] = {
    "model": "gpt-3.5-turbo-instruct",
    "prompt": [f"Write to {MARK}", MARK],
    "suffix": MARK,
    "stop": [MARK],
    "user": MARK,
    "logit_bias": {MARK: 1},
    "x_vendor": {MARK: [MARK]},
}
_EMBEDDING: Final[dict[str, Any]] = {
    "model": "text-embedding-3-small",
    "input": [MARK, f"about {MARK}", json.dumps({"row": MARK})],
    "user": MARK,
    "encoding_format": "float",
    "input_type": MARK,
}
_MODERATION: Final[dict[str, Any]] = {
    "model": "omni-moderation-latest",
    "input": [
        _TEXT,
        {"type": "image_url", "image_url": {"url": f"https://img.kestrel.example/{MARK}"}},
        {
            "type": "image_url",
            "image_url": {"url": "data:text/html;base64," + _base64(f"<p>{MARK} said so</p>")},
        },
    ],
}

_AZURE: Final = "/openai/deployments/gpt-4o"
_VERSION: Final = "api-version=2024-10-21"

SAMPLES: Final = (
    Sample(wire="openai.chat", path="/v1/chat/completions", body=_CHAT),
    Sample(wire="openai.chat", path="/chat/completions", body=_CHAT_OTHERS),
    Sample(
        wire="openai.chat",
        path="/v1beta/openai/chat/completions",
        body={"model": "gemini-2.5-flash", **_SHORT},
    ),
    Sample(
        wire="openai.chat",
        path="/v1/projects/home/locations/global/endpoints/openapi/chat/completions",
        body={"model": "google/gemini-2.5-flash", **_SHORT},
    ),
    Sample(
        wire="openai.chat_update",
        path=f"/v1/chat/completions/{MARK}",
        body={"metadata": {MARK: MARK}},
    ),
    Sample(
        wire="openai.chats",
        path=f"/v1/chat/completions?model={MARK}&limit=20",
        method="GET",
        body=None,
    ),
    Sample(
        wire="openai.chats",
        path=f"/v1/chat/completions/{MARK}/messages?after={MARK}",
        method="GET",
        body=None,
    ),
    Sample(wire="openai.completions", path="/v1/completions", body=_COMPLETION),
    Sample(
        wire="openai.completions",
        path="/v1/completions",
        body={"model": "gpt-3.5-turbo-instruct", "prompt": f"Write to {MARK}", "stop": MARK},
    ),
    Sample(wire="openai.embeddings", path="/v1/embeddings", body=_EMBEDDING),
    Sample(
        wire="openai.embeddings",
        path="/v1/embeddings",
        body={"model": "text-embedding-3-small", "input": f"by {MARK}"},
    ),
    Sample(
        wire="openai.embeddings",
        path="/v1beta/openai/embeddings",
        body={"model": "gemini-embedding-001", "input": [MARK]},
    ),
    Sample(wire="openai.moderations", path="/v1/moderations", body=_MODERATION),
    Sample(wire="openai.moderations", path="/v1/moderations", body={"input": MARK}),
    Sample(wire="openai.moderations", path="/v1/moderations", body={"input": ["plain", MARK]}),
    Sample(wire="openai.models", path=f"/v1/models/{MARK}", method="GET", body=None),
    Sample(
        wire="azure.chat",
        path=f"{_AZURE}/chat/completions?{_VERSION}",
        body={**_SHORT, "data_sources": _ON_YOUR_DATA},
    ),
    Sample(
        wire="azure.chat",
        path=f"/openai/deployments/{MARK}/chat/completions?{_VERSION}",
        body={"messages": [{"role": "user", "content": MARK}]},
    ),
    Sample(
        wire="azure.chat",
        path="/openai/v1/chat/completions",
        body={"model": "gpt-4o", **_SHORT},
    ),
    Sample(
        wire="azure.chat",
        path="/models/chat/completions?api-version=2024-05-01-preview",
        body={"model": "gpt-4o", **_SHORT},
    ),
    Sample(
        wire="azure.completions",
        path=f"{_AZURE}/completions?{_VERSION}",
        body={"prompt": MARK, "suffix": MARK},
    ),
    Sample(
        wire="azure.embeddings",
        path=f"{_AZURE}/embeddings?{_VERSION}",
        body={"input": [MARK, MARK], "user": MARK},
    ),
    Sample(
        wire="azure.embeddings",
        path="/openai/v1/embeddings",
        body={"model": "text-embedding-3-large", "input": MARK},
    ),
    Sample(
        wire="azure.models",
        path=f"/openai/models/{MARK}?{_VERSION}",
        method="GET",
        body=None,
    ),
)
