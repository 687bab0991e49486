"""Samples of Amazon Bedrock: `converse`, `invoke` with the bodies of several vendors, token counts.
Read by `matrix`."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from gateway.coverage import anthropic
from gateway.coverage.sample import MARK, Sample

_HEADERS: Final = {"authorization": "Bearer key-of-the-sample"}
_CLAUDE: Final = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1:0"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _json(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False)


_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "description": MARK,
    "properties": {
        "to": {"type": "string", "description": MARK, "default": MARK, "enum": [MARK]},
        MARK: {"const": MARK, "examples": [MARK]},
    },
    "required": [MARK],
}
_S3: Final = {"s3Location": {"uri": f"s3://kestrel/{MARK}", "bucketOwner": MARK}}
_DOCUMENT: Final[dict[str, Any]] = {
    "format": "txt",
    "name": MARK,
    "context": MARK,
    "citations": {"enabled": True},
    "source": {"bytes": _base64(f"Dear {MARK},\nand {MARK}.\n")},
}

_CONTENT: Final[list[dict[str, Any]]] = [
    {"text": f"Write to {MARK}."},
    {"document": _DOCUMENT},
    {"document": {"format": "md", "name": MARK, "source": {"text": MARK}}},
    {"document": {"format": "md", "name": MARK, "source": {"content": [{"text": MARK}]}}},
    {"document": {"format": "pdf", "name": MARK, "source": _S3}},
    {"image": {"format": "png", "source": {"bytes": _base64(f"<svg>{MARK} {MARK}</svg>")}}},
    {"image": {"format": "png", "source": _S3}},
    {"video": {"format": "mp4", "source": _S3}},
    {"audio": {"format": "mp3", "source": {"bytes": _base64(f"no sound but {MARK}")}}},
    {"guardContent": {"text": {"text": MARK, "qualifiers": ["query", MARK]}}},
    {"cachePoint": {"type": "default", "ttl": "5m"}},
    {"searchResult": {"source": MARK, "title": MARK, "content": [{"text": MARK}],
                      "citations": {"enabled": True}}},
    {"toolResult": {"toolUseId": MARK, "status": "success", "type": MARK, "content": [
        {"text": MARK},
        {"json": {MARK: MARK, "rows": [MARK], "log": _json({MARK: [MARK]})}},
        {"document": _DOCUMENT},
        {"image": {"format": "png", "source": {"bytes": _base64(f"<svg>{MARK} {MARK}</svg>")}}},
        {"searchResult": {"source": MARK, "title": MARK, "content": [{"text": MARK}]}},
    ]}},
]  # fmt: skip

_ASSISTANT: Final[list[dict[str, Any]]] = [
    {"text": MARK},
    {"reasoningContent": {"reasoningText": {"text": MARK, "signature": MARK}}},
    {"reasoningContent": {"redactedContent": MARK}},
    {"toolUse": {"toolUseId": MARK, "name": MARK, "input": {
        MARK: MARK, "list": [MARK, {"x": MARK}], "json": _json({MARK: MARK})}}},
    {"citationsContent": {"content": [{"text": MARK}], "citations": [
        {"title": MARK, "source": MARK, "sourceContent": [{"text": MARK}],
         "location": {"web": {"url": f"https://kestrel.example/{MARK}", "domain": MARK}}}]}},
]  # fmt: skip

_CONVERSE: Final[dict[str, Any]] = {
    "messages": [
        {"role": "user", "content": _CONTENT},
        {"role": "assistant", "content": _ASSISTANT},
        {"role": "user", "content": [{"text": MARK}], "later": MARK},
    ],
    "system": [
        {"text": MARK},
        {"guardContent": {"text": {"text": MARK}}},
        {"cachePoint": {"type": "default"}},
    ],
    "toolConfig": {
        "tools": [
            {
                "toolSpec": {
                    "name": MARK,
                    "description": MARK,
                    "inputSchema": {"json": _SCHEMA},
                    "strict": True,
                }
            },
            {"systemTool": {"name": MARK}},
            {"cachePoint": {"type": "default"}},
        ],
        "toolChoice": {"tool": {"name": MARK}},
    },
    "additionalModelRequestFields": {MARK: MARK, "top_k": 5, "note": [MARK]},
}
_MORE: Final[dict[str, Any]] = {
    "inferenceConfig": {"maxTokens": 64, "temperature": 0.5, "stopSequences": [MARK, "END"]},
    "guardrailConfig": {"guardrailIdentifier": MARK, "guardrailVersion": MARK, "trace": MARK},
    "promptVariables": {MARK: {"text": MARK}},
    "additionalModelResponseFieldPaths": [MARK],
    "requestMetadata": {MARK: MARK, "team": MARK},
    "performanceConfig": {"latency": MARK},
    "serviceTier": {"type": MARK},
    "outputConfig": {
        "textFormat": {
            "type": "json_schema",
            "structure": {
                "jsonSchema": {"schema": _json(_SCHEMA), "name": MARK, "description": MARK}
            },
        }
    },
    "later": {MARK: [MARK]},
    MARK: MARK,
}

_MESSAGES: Final = next(
    sample.body for sample in anthropic.SAMPLES if sample.wire == "anthropic.messages"
)
_INVOKE: Final[dict[str, Any]] = {
    "anthropic_version": "bedrock-2023-05-31",
    "anthropic_beta": ["context-1m-2025-08-07", MARK],
    **{name: value for name, value in _MESSAGES.items() if name not in ("model", "stream")},
}

#: Bodies of other vendors.
_VENDORS: Final[dict[str, dict[str, Any]]] = {
    "amazon.titan-text-express-v1": {
        "inputText": f"Write to {MARK}.",
        "textGenerationConfig": {"maxTokenCount": 64, "stopSequences": [MARK]},
        MARK: MARK,
    },
    "amazon.titan-embed-image-v1": {
        "inputText": MARK,
        "inputImage": _base64(f"<svg>{MARK} and {MARK}</svg>"),
    },
    "amazon.nova-lite-v1:0": {
        "schemaVersion": "messages-v1",
        "system": [{"text": MARK}],
        "messages": [{"role": "user", "content": _CONTENT}],
        "inferenceConfig": {"maxTokens": 64, "stopSequences": [MARK]},
        "toolConfig": _CONVERSE["toolConfig"],
    },
    "meta.llama3-1-8b-instruct-v1:0": {
        "prompt": f"<|begin_of_text|>{MARK}",
        "max_gen_len": 64,
        "images": [_base64(f"<svg>{MARK} and {MARK}</svg>")],
    },
    "mistral.mistral-large-2407-v1:0": {
        "messages": [
            {"role": "user", "content": MARK},
            {"role": "user", "content": [
                {"type": "text", "text": MARK},
                {"type": "image_url", "image_url": {
                    "url": "data:text/plain;base64," + _base64(f"Dear {MARK} and {MARK}")}}]},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": MARK, "function": {"name": MARK, "arguments": _json({MARK: MARK})}}]},
            {"role": "tool", "tool_call_id": MARK, "content": _json({"mail": MARK})},
        ],
        "tools": [{"type": "function", "function": {
            "name": MARK, "description": MARK, "parameters": _SCHEMA}}],
        "stop": [MARK],
    },
    "cohere.command-r-v1:0": {
        "message": MARK,
        "preamble": MARK,
        "chat_history": [{"role": "USER", "message": MARK}],
        "documents": [{"title": MARK, "snippet": MARK}],
        "tools": [{"name": MARK, "description": MARK,
                   "parameter_definitions": {MARK: {"description": MARK, "type": "str"}}}],
        "tool_results": [{"call": {"name": MARK, "parameters": {MARK: MARK}},
                          "outputs": [{"text": MARK}]}],
        "stop_sequences": [MARK],
    },
    "cohere.embed-english-v3": {"texts": [MARK, MARK], "input_type": "search_document"},
    "ai21.jamba-1-5-mini-v1:0": {
        "messages": [{"role": "user", "content": MARK}],
        "documents": [{"content": MARK, "metadata": {MARK: MARK}}],
    },
}  # fmt: skip

SAMPLES: Final = (
    Sample(
        wire="bedrock.converse",
        path=f"{_CLAUDE}/converse",
        body=_CONVERSE | _MORE,
        headers=_HEADERS,
    ),
    Sample(
        wire="bedrock.converse",
        path=f"/model/{MARK}/converse",
        body={"messages": [{"role": "user", "content": [{"text": MARK}]}]},
        headers=_HEADERS,
    ),
    Sample(
        wire="bedrock.converse_stream",
        path=f"{_CLAUDE}/converse-stream",
        body={
            "system": [{"text": MARK}],
            "messages": [
                {"role": "user", "content": [{"text": MARK}, {"document": _DOCUMENT}]},
                {"role": "assistant", "content": _ASSISTANT},
            ],
        },
        headers=_HEADERS,
    ),
    Sample(
        wire="bedrock.invoke",
        path=f"{_CLAUDE}/invoke",
        body=_INVOKE,
        headers=_HEADERS | {"x-amzn-bedrock-request-metadata": MARK},
    ),
    Sample(
        wire="bedrock.invoke_stream",
        path=f"{_CLAUDE}/invoke-with-response-stream",
        body={
            "anthropic_version": "bedrock-2023-05-31",
            "max_tokens": 64,
            "system": MARK,
            "messages": [{"role": "user", "content": [{"type": "text", "text": MARK}]}],
            "stop_sequences": [MARK],
        },
        headers=_HEADERS,
    ),
    *(
        Sample(wire="bedrock.invoke", path=f"/model/{model}/invoke", body=body, headers=_HEADERS)
        for model, body in _VENDORS.items()
    ),
    Sample(
        wire="bedrock.count_tokens",
        path=f"{_CLAUDE}/count-tokens",
        body={
            "input": {
                "converse": {
                    "system": [{"text": MARK}],
                    "messages": [{"role": "user", "content": _CONTENT}],
                    "toolConfig": _CONVERSE["toolConfig"],
                }
            },
            "later": MARK,
        },
        headers=_HEADERS,
    ),
    Sample(
        wire="bedrock.count_tokens",
        path=f"{_CLAUDE}/count-tokens",
        body={"input": {"invokeModel": {"body": _base64(_json({"prompt": f"Ask {MARK}"}))}}},
        headers=_HEADERS,
    ),
)
