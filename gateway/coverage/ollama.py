"""Samples of Ollama's own API: chat, generate, embeddings, show. Read by `matrix`."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from gateway.coverage.sample import MARK, Sample


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
_OPTIONS: Final[dict[str, Any]] = {"temperature": 0.5, "num_ctx": 4096, "stop": [MARK], MARK: MARK}
_MORE: Final[dict[str, Any]] = {
    "options": _OPTIONS,
    "format": _SCHEMA,
    "keep_alive": MARK,
    "think": MARK,
    "later": {MARK: [MARK]},
    MARK: MARK,
}

_CHAT: Final[dict[str, Any]] = {
    "model": "llama3.2:3b",
    "messages": [
        {"role": "system", "content": f"You help {MARK}."},
        {"role": "user", "content": MARK, "images": [_base64(f"<svg>{MARK} and {MARK}</svg>")]},
        {
            "role": "assistant",
            "content": MARK,
            "thinking": MARK,
            "tool_calls": [
                {
                    "id": MARK,
                    "type": "function",
                    "function": {
                        "name": MARK,
                        "description": MARK,
                        "arguments": {MARK: MARK, "list": [MARK], "json": _json({MARK: [MARK]})},
                    },
                },
                {"function": {"name": "send", "arguments": _json({"to": MARK})}},
            ],
        },
        {"role": "tool", "content": _json({"mail": MARK}), "tool_name": MARK, "name": MARK},
        {"role": "tool", "content": MARK, "tool_call_id": MARK},
        {"role": MARK, "content": "hello", "later": MARK},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": MARK, "description": MARK, "parameters": _SCHEMA},
        }
    ],
    "stream": False,
}

_GENERATE: Final[dict[str, Any]] = {
    "model": MARK,
    "prompt": f"Write to {MARK}.",
    "suffix": MARK,
    "system": MARK,
    "template": MARK,
    "images": [_base64(f"plain text of {MARK}")],
    "context": [1, 2, 128009],
    "raw": False,
    "stream": False,
}

SAMPLES: Final = (
    Sample(wire="ollama.chat", path="/api/chat", body=_CHAT | _MORE),
    Sample(
        wire="ollama.chat",
        path="/api/chat",
        body={"model": MARK, "messages": [{"role": "user", "content": MARK}], "format": MARK},
        headers={"authorization": "Bearer ollama"},
    ),
    Sample(wire="ollama.generate", path="/api/generate", body=_GENERATE | _MORE),
    Sample(
        wire="ollama.generate",
        path="/api/generate",
        body=_json({"model": "llama3.2", "prompt": f"Ask {MARK}", "stream": False}).encode(),
        media_type="application/x-www-form-urlencoded",
    ),
    Sample(
        wire="ollama.embed",
        path="/api/embed",
        body={"model": MARK, "input": [MARK, f"and {MARK}"], "options": _OPTIONS, MARK: MARK},
    ),
    Sample(
        wire="ollama.embed",
        path="/api/embed",
        body={"model": "all-minilm", "input": MARK, "keep_alive": MARK},
    ),
    Sample(
        wire="ollama.embed",
        path="/api/embeddings",
        body={"model": MARK, "prompt": MARK, "options": _OPTIONS},
    ),
    Sample(
        wire="ollama.show",
        path="/api/show",
        body={"model": MARK, "name": MARK, "verbose": True, "system": MARK, MARK: MARK},
    ),
    # A call without a value of its own: what else a client sends beside it.
    Sample(
        wire="ollama.models",
        path="/api/tags",
        method="GET",
        body=None,
        headers={"user-agent": MARK, "x-title": MARK},
    ),
)
