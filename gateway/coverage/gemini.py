"""Sample requests of the Gemini API: every part, tool and setting, in both spellings of its names.

Much of it is also what Vertex requests look like. Values only; read by `matrix`.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from gateway.coverage.sample import MARK, Sample


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


#: A text long enough to be told from a word by its encoding.
_NOTE: Final = _base64(f"A note of this morning: {MARK}\n")
_ROWS: Final = _base64(json.dumps({"rows": [{"note": f"value {MARK}"}]}))
_PIXEL: Final = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(200))).decode()

_SCHEMA: Final[dict[str, Any]] = {
    "type": "OBJECT",
    "title": f"title {MARK}",
    "description": f"description {MARK}",
    "properties": {
        MARK: {"type": "STRING", "description": f"about {MARK}", "default": f"default {MARK}"},
        "kind": {"type": "STRING", "enum": ["a", f"choice {MARK}"], "example": f"such as {MARK}"},
        "code": {"type": "STRING", "pattern": f"^{MARK}$", "format": "enum"},
        "list": {"type": "ARRAY", "items": {"anyOf": [{"description": f"any {MARK}"}]}},
    },
    "required": [MARK],
    "propertyOrdering": [f"order {MARK}"],
}
_JSON_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "$comment": f"comment {MARK}",
    "properties": {"a": {"const": f"const {MARK}", "examples": [f"example {MARK}"]}},
    "$defs": {MARK: {"description": f"definition {MARK}"}},
    "additionalProperties": {"description": f"more {MARK}"},
}

_USER_PARTS: Final[list[dict[str, Any]]] = [
    {"text": f"Write to {MARK} today."},
    {"text": json.dumps({"record": {"note": f"inside {MARK}"}})},
    {"inlineData": {"mimeType": "text/plain", "data": _NOTE, "displayName": f"name {MARK}"}},
    {"inlineData": {"mimeType": "application/json", "data": _ROWS}},
    {"inlineData": {"mimeType": f"text/{MARK}", "data": _base64("nothing in this text")}},
    {"inlineData": {"mimeType": "image/png", "data": _PIXEL}},
    {"inlineData": {"mimeType": "image/svg+xml", "data": _NOTE}},
    {
        "fileData": {
            "mimeType": "application/pdf",
            "fileUri": f"https://files.example/{MARK}?q={MARK}",
            "displayName": f"file {MARK}",
        }
    },
    {
        "text": f"look at {MARK}",
        "videoMetadata": {"startOffset": f"{MARK}", "endOffset": "9s", "fps": 1.5},
        "partMetadata": {MARK: f"meta {MARK}"},
        "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"},
    },
    {"audioTranscription": {"text": f"heard {MARK}", "languageCode": f"code {MARK}"}},
    {"laterPart": {MARK: f"later {MARK}"}},
]

_MODEL_PARTS: Final[list[dict[str, Any]]] = [
    {"text": f"Thinking of {MARK}", "thought": True, "thoughtSignature": f"{MARK}"},
    {
        "functionCall": {
            "id": f"call {MARK}",
            "name": f"save {MARK}",
            "args": {
                "path": f"/srv/{MARK}",
                "text": f"Dear {MARK},",
                MARK: [f"list {MARK}", {MARK: f"deep {MARK}"}],
                "json": json.dumps({"a": [f"in a string {MARK}"]}),
            },
        },
        "thoughtSignature": "c2lnbmF0dXJl" * 40,
    },
    {
        "functionCall": {
            "name": "stream",
            "partialArgs": [{"jsonPath": f"$.{MARK}", "stringValue": f"piece {MARK}"}],
            "willContinue": True,
        }
    },
    {"executableCode": {"language": "PYTHON", "code": f"print({MARK!r})", "id": f"code {MARK}"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": f"printed {MARK}"}},
    {"toolCall": {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"query": f"q {MARK}"}}},
    {"toolResponse": {"id": "t1", "toolType": "URL_CONTEXT", "response": {MARK: f"r {MARK}"}}},
]

_RESULT_PARTS: Final[list[dict[str, Any]]] = [
    {
        "functionResponse": {
            "id": f"call {MARK}",
            "name": f"save {MARK}",
            "response": {
                "output": f"saved for {MARK}",
                "error": json.dumps({"message": f"not for {MARK}"}),
                MARK: {"stdout": [f"line {MARK}"]},
            },
            "parts": [
                {
                    "inlineData": {
                        "mimeType": "text/csv",
                        "data": _NOTE,
                        "displayName": f"rows {MARK}",
                    }
                },
                {"fileData": {"mimeType": "text/csv", "fileUri": f"gs://bucket/{MARK}"}},
            ],
            "scheduling": "SILENT",
        }
    },
]

#: Every kind of tool.
TOOLS: Final[list[dict[str, Any]]] = [
    {
        "functionDeclarations": [
            {
                "name": f"save {MARK}",
                "description": f"Save something for {MARK}",
                "parameters": _SCHEMA,
                "response": _SCHEMA,
                "behavior": "BLOCKING",
            },
            {"name": "other", "parametersJsonSchema": _JSON_SCHEMA},
            {"name": "third", "responseJsonSchema": _JSON_SCHEMA},
        ]
    },
    {"googleSearch": {"excludeDomains": [f"site {MARK}"], "timeRangeFilter": {"startTime": MARK}}},
    {"googleSearchRetrieval": {"dynamicRetrievalConfig": {"mode": "MODE_DYNAMIC"}}},
    {"codeExecution": {}, "urlContext": {}},
    {"fileSearch": {"fileSearchStoreNames": [f"s {MARK}"], "metadataFilter": f"author={MARK}"}},
    {"computerUse": {"environment": MARK, "excludedPredefinedFunctions": [f"f {MARK}"]}},
    {"googleMaps": {"authConfig": {"apiKeyConfig": {"apiKeyString": f"key {MARK}"}}}},
    {
        "retrieval": {
            "externalApi": {
                "endpoint": f"https://api.example/{MARK}",
                "authConfig": {"httpBasicAuthConfig": {"credentialSecret": f"secret {MARK}"}},
            },
            "vertexAiSearch": {"datastore": f"store {MARK}", "filter": f"filter {MARK}"},
            "vertexRagStore": {"ragResources": [{"ragCorpus": f"corpus {MARK}"}]},
        }
    },
    {
        "mcpServers": [
            {
                "name": f"server {MARK}",
                "streamableHttpTransport": {
                    "url": f"https://mcp.example/{MARK}",
                    "headers": {"Authorization": f"Bearer {MARK}", MARK: f"header {MARK}"},
                    "timeout": "30s",
                },
            }
        ]
    },
    {"laterTool": {"setting": f"later {MARK}"}},
]

_GENERATION: Final[dict[str, Any]] = {
    "temperature": 0.5,
    "maxOutputTokens": 4096,
    "candidateCount": 1,
    "stopSequences": [f"stop {MARK}"],
    "responseMimeType": "application/json",
    "responseSchema": _SCHEMA,
    "responseJsonSchema": _JSON_SCHEMA,
    "responseModalities": ["TEXT", f"{MARK}"],
    "speechConfig": {
        "languageCode": f"language {MARK}",
        "voiceConfig": {"prebuiltVoiceConfig": {"voiceName": f"voice {MARK}"}},
        "multiSpeakerVoiceConfig": {"speakerVoiceConfigs": [{"speaker": f"speaker {MARK}"}]},
    },
    "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2048, "thinkingLevel": "LOW"},
    "imageConfig": {"aspectRatio": "16:9", "imageSize": f"{MARK}"},
    "routingConfig": {"manualMode": {"modelName": f"model {MARK}"}},
}

#: A conversation with every kind of part.
CONTENTS: Final[list[dict[str, Any]]] = [
    {"role": "user", "parts": _USER_PARTS},
    {"role": "model", "parts": _MODEL_PARTS},
    {"role": "user", "parts": _RESULT_PARTS},
    {"role": MARK, "parts": [{"text": f"And {MARK}?"}]},
]

#: A request with everything, in camel case.
GENERATE: Final[dict[str, Any]] = {
    "systemInstruction": {"role": "user", "parts": [{"text": f"You work for {MARK}."}]},
    "contents": CONTENTS,
    "tools": TOOLS,
    "toolConfig": {
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [f"save {MARK}"]},
        "retrievalConfig": {
            "latLng": {"latitude": 1.5, "longitude": 2.5},
            "languageCode": f"{MARK}",
        },
    },
    "safetySettings": [
        {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"},
        {"category": MARK, "threshold": MARK},
    ],
    "generationConfig": _GENERATION,
    "cachedContent": f"cachedContents/{MARK}",
    "labels": {MARK: f"label {MARK}"},
    "modelArmorConfig": {"promptTemplateName": f"template {MARK}"},
    "laterSetting": {MARK: [f"later {MARK}"]},
    MARK: f"unknown {MARK}",
}

#: The same kinds of things in the other spelling.
_SNAKE: Final[dict[str, Any]] = {
    "system_instruction": {"parts": [{"text": f"You work for {MARK}."}]},
    "contents": [
        {
            "role": "user",
            "parts": [
                {"text": f"Write to {MARK}."},
                {"inline_data": {"mime_type": "text/plain", "data": _NOTE, "display_name": MARK}},
                {"file_data": {"file_uri": f"https://files.example/{MARK}", "mime_type": MARK}},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"function_call": {"name": f"save {MARK}", "args": {MARK: f"to {MARK}"}}},
                {"executable_code": {"language": "PYTHON", "code": f"print({MARK!r})"}},
                {"code_execution_result": {"outcome": "OUTCOME_OK", "output": f"printed {MARK}"}},
                {"text": "signed", "thought_signature": f"{MARK}"},
            ],
        },
        {
            "role": "function",
            "parts": [
                {"function_response": {"name": "save", "response": {"output": f"out {MARK}"}}},
                {"tool_response": {"id": MARK, "response": {"text": f"out {MARK}"}}},
            ],
        },
    ],
    "tools": [
        {
            "function_declarations": [
                {"name": "save", "description": f"for {MARK}", "parameters_json_schema": _SCHEMA}
            ]
        }
    ],
    "tool_config": {"function_calling_config": {"allowed_function_names": [f"save {MARK}"]}},
    "safety_settings": [{"category": MARK, "threshold": "OFF"}],
    "generation_config": {
        "stop_sequences": [f"stop {MARK}"],
        "response_schema": _SCHEMA,
        "response_json_schema": _JSON_SCHEMA,
    },
    "cached_content": f"cachedContents/{MARK}",
}

_MODEL: Final = "models/gemini-3-flash"
_ONE: Final[dict[str, Any]] = {"parts": [{"text": f"Find {MARK}"}, {"text": f"and {MARK}"}]}
_EMBED: Final[dict[str, Any]] = {
    "model": "models/gemini-embedding-001",
    "content": _ONE,
    "taskType": "RETRIEVAL_DOCUMENT",
    "title": f"title {MARK}",
    "outputDimensionality": 256,
}
_CACHE: Final[dict[str, Any]] = {
    "model": _MODEL,
    "displayName": f"cache {MARK}",
    "contents": [{"role": "user", "parts": _USER_PARTS}],
    "systemInstruction": {"parts": [{"text": f"You work for {MARK}."}]},
    "tools": TOOLS[:1],
    "toolConfig": {"functionCallingConfig": {"allowedFunctionNames": [f"save {MARK}"]}},
    "ttl": "300s",
}
_BATCH: Final[dict[str, Any]] = {
    "batch": {
        "displayName": f"batch {MARK}",
        "inputConfig": {
            "requests": {
                "requests": [
                    {
                        "request": {"contents": [_ONE], "systemInstruction": _ONE},
                        "metadata": {"key": f"request {MARK}"},
                    }
                ]
            }
        },
    }
}

SAMPLES: Final = (
    Sample(wire="gemini.generate", path=f"/v1beta/{_MODEL}:generateContent", body=GENERATE),
    Sample(wire="gemini.generate", path=f"/v1/models/{MARK}:generateContent", body=_SNAKE),
    Sample(wire="gemini.generate", path=f"/v1beta/tunedModels/{MARK}:generateContent", body={}),
    Sample(
        wire="gemini.stream",
        path=f"/v1beta/{_MODEL}:streamGenerateContent?alt=sse",
        body={"contents": [_ONE], "systemInstruction": _ONE, "tools": TOOLS[:1]},
    ),
    Sample(
        wire="gemini.stream",
        path=f"/v1/{_MODEL}:streamGenerateContent",
        body={"contents": f"only {MARK}", "system_instruction": f"also {MARK}"},
    ),
    Sample(
        wire="gemini.count_tokens",
        path=f"/v1beta/{_MODEL}:countTokens",
        body={"contents": [{"role": "user", "parts": _USER_PARTS}]},
    ),
    Sample(
        wire="gemini.count_tokens",
        path=f"/v1beta/{_MODEL}:countTokens",
        body={
            "generateContentRequest": {
                "model": f"models/{MARK}",
                "contents": [_ONE],
                "systemInstruction": _ONE,
                "tools": TOOLS[:1],
                "generationConfig": {"stopSequences": [f"stop {MARK}"]},
            }
        },
    ),
    Sample(
        wire="gemini.embed", path="/v1beta/models/gemini-embedding-001:embedContent", body=_EMBED
    ),
    Sample(
        wire="gemini.embed",
        path="/v1beta/models/gemini-embedding-001:batchEmbedContents",
        body={"requests": [_EMBED, {**_EMBED, "model": f"models/{MARK}"}]},
    ),
    Sample(
        wire="gemini.predict",
        path="/v1beta/models/imagen-4.0-generate-001:predict",
        body={
            "instances": [{"prompt": f"A card for {MARK}", "image": {"bytesBase64Encoded": _NOTE}}],
            "parameters": {"sampleCount": 1, "negativePrompt": f"no {MARK}"},
        },
    ),
    Sample(wire="gemini.cached_contents", path="/v1beta/cachedContents", body=_CACHE),
    Sample(
        wire="gemini.cached_contents",
        method="PATCH",
        path=f"/v1beta/cachedContents/{MARK}?updateMask=ttl",
        body={"ttl": "600s", "displayName": f"cache {MARK}"},
    ),
    Sample(wire="gemini.batches", path=f"/v1beta/{_MODEL}:batchGenerateContent", body=_BATCH),
    Sample(
        wire="gemini.read",
        method="GET",
        path=f"/v1beta/models?pageSize=50&pageToken={MARK}",
        body=None,
    ),
    Sample(wire="gemini.read", method="GET", path=f"/v1beta/models/{MARK}", body=None),
    Sample(wire="gemini.read", method="DELETE", path=f"/v1beta/cachedContents/{MARK}", body=None),
)
