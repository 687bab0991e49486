"""Sample requests of Vertex AI: Gemini, embeddings and Anthropic models under a project's paths.

Values only; read by `matrix`.
"""

from __future__ import annotations

import json
from typing import Any, Final

from gateway.coverage.gemini import CONTENTS, TOOLS
from gateway.coverage.sample import MARK, Sample

_HOME: Final = "/v1/projects/p-1/locations/global"
_GOOGLE: Final = f"{_HOME}/publishers/google/models"
_CLAUDE: Final = f"{_HOME}/publishers/anthropic/models"
_MISTRAL: Final = f"{_HOME}/publishers/mistralai/models"
_MARKED: Final = f"/v1beta1/projects/{MARK}/locations/{MARK}"

_ONE: Final[dict[str, Any]] = {"role": "user", "parts": [{"text": f"Write to {MARK}"}]}

_MESSAGES: Final[dict[str, Any]] = {
    "anthropic_version": "vertex-2023-10-16",
    "anthropic_beta": [f"beta {MARK}"],
    "max_tokens": 1024,
    "stream": True,
    "system": [{"type": "text", "text": f"You work for {MARK}."}],
    "messages": [
        {"role": "user", "content": f"Write to {MARK}"},
        {
            "role": "assistant",
            "content": [
                {
                    "type": "tool_use",
                    "id": "toolu_vrtx_01",
                    "name": f"save {MARK}",
                    "input": {MARK: f"deep {MARK}", "json": json.dumps({"a": f"string {MARK}"})},
                }
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_vrtx_01",
                    "content": [{"type": "text", "text": f"saved for {MARK}"}],
                }
            ],
        },
    ],
    "tools": [
        {
            "name": "save",
            "description": f"Save for {MARK}",
            "input_schema": {"type": "object", "properties": {MARK: {"default": f"d {MARK}"}}},
        }
    ],
    "stop_sequences": [f"stop {MARK}"],
    "metadata": {"user_id": f"user {MARK}"},
}

_CHAT: Final[dict[str, Any]] = {
    "model": f"mistral {MARK}",
    "messages": [
        {"role": "system", "content": f"You work for {MARK}."},
        {"role": "user", "content": [{"type": "text", "text": f"Write to {MARK}"}]},
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "save", "arguments": json.dumps({"a": f"to {MARK}"})},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": f"saved for {MARK}"},
    ],
    "tools": [{"type": "function", "function": {"name": "save", "description": f"for {MARK}"}}],
}

SAMPLES: Final = (
    Sample(
        wire="vertex.generate",
        path=f"{_GOOGLE}/gemini-3-flash:generateContent",
        body={"contents": CONTENTS, "systemInstruction": _ONE, "tools": TOOLS[-4:-1]},
    ),
    Sample(
        wire="vertex.generate",
        path=f"{_MARKED}/endpoints/{MARK}:generateContent",
        body={"contents": [_ONE], "labels": {MARK: f"label {MARK}"}},
    ),
    Sample(
        wire="vertex.stream",
        path=f"{_MARKED}/publishers/google/models/{MARK}:streamGenerateContent?alt=sse",
        body={"contents": [_ONE], "systemInstruction": _ONE},
    ),
    Sample(
        wire="vertex.count_tokens",
        path=f"{_GOOGLE}/gemini-3-flash:countTokens",
        body={
            "model": f"projects/p-1/locations/global/publishers/google/models/{MARK}",
            "contents": [_ONE],
            "instances": [{"content": f"count {MARK}"}],
        },
    ),
    Sample(
        wire="vertex.embed",
        path=f"{_GOOGLE}/gemini-embedding-2:embedContent",
        body={"content": _ONE, "title": f"title {MARK}", "taskType": "RETRIEVAL_DOCUMENT"},
    ),
    Sample(
        wire="vertex.predict",
        path=f"{_GOOGLE}/text-embedding-005:predict",
        body={
            "instances": [
                {"content": f"Find {MARK}", "title": f"title {MARK}", "task_type": MARK},
                {MARK: f"unknown {MARK}"},
                f"a plain one {MARK}",
            ],
            "parameters": {"autoTruncate": True, MARK: f"setting {MARK}"},
        },
    ),
    Sample(
        wire="vertex.cached_contents",
        path=f"{_HOME}/cachedContents",
        body={"displayName": f"cache {MARK}", "contents": [_ONE], "ttl": "300s"},
    ),
    Sample(wire="vertex.read", method="GET", path=f"{_HOME}/cachedContents/{MARK}", body=None),
    Sample(
        wire="vertex.anthropic",
        path=f"{_CLAUDE}/claude-sonnet-4-5@20250929:streamRawPredict",
        body=_MESSAGES,
    ),
    Sample(
        wire="vertex.anthropic",
        path=f"{_CLAUDE}/count-tokens:rawPredict",
        body={
            "model": f"claude-{MARK}",
            "messages": [{"role": "user", "content": [{"type": "text", "text": f"c {MARK}"}]}],
        },
    ),
    Sample(
        wire="vertex.anthropic",
        path=f"{_MARKED}/publishers/anthropic/models/{MARK}:rawPredict",
        body={"messages": []},
    ),
    Sample(wire="vertex.mistral", path=f"{_MISTRAL}/mistral-medium-3:streamRawPredict", body=_CHAT),
    Sample(
        wire="vertex.mistral",
        path=f"{_MISTRAL}/codestral-2:rawPredict",
        body={"prompt": f"def {MARK}", "suffix": f"return {MARK}"},
    ),
)
