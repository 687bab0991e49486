"""Prompt caches of the providers: a longer conversation begins with the bytes of the shorter one.

For every format that carries a conversation, through the real scanner, with values in old and new
turns, in one process and in a fresh one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.redaction.job import ScanJob
from gateway.redaction.policy import load_policy
from gateway.redaction.scanner import Scanner

KEY = b"k" * 32
TURNS = [
    "mail jane.roe@kestrel.com about card 4539 1488 0343 6467",
    "password = 'hunter2-Zx9!q' in .env, call +44 20 7946 0958",
    "nothing here, 1.50 and 12345678901234567890",
    "jane.roe@kestrel.com again, and key ghp_a1B2c3D4e5F6a1B2c3D4e5F6a1B2c3D4e5F6",
    "GB82WEST12345698765432 é \u2028 end",
]


def chat(turns: list[str]) -> dict[str, Any]:
    return {
        "model": "gpt-5",
        "messages": [
            {"role": "system", "content": turns[0]},
            *({"role": role, "content": text} for text in turns for role in ("user", "assistant")),
        ],
    }


def responses(turns: list[str]) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for number, text in enumerate(turns):
        call = f"call_{number}abcdefghijklmnopqrstu"
        items += [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
            {
                "type": "function_call",
                "call_id": call,
                "name": "sh",
                "arguments": json.dumps({"command": text}),
            },
            {"type": "function_call_output", "call_id": call, "output": text},
        ]
    return {"model": "gpt-5", "instructions": turns[0], "input": items}


def messages(turns: list[str]) -> dict[str, Any]:
    return {
        "model": "claude-sonnet-5",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": text, "cache_control": None}]}
            for text in turns
        ],
    }


def gemini(turns: list[str]) -> dict[str, Any]:
    return {
        "systemInstruction": {"parts": [{"text": turns[0]}]},
        "contents": [{"role": "user", "parts": [{"text": text}]} for text in turns],
    }


def converse(turns: list[str]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"text": text}]} for text in turns]}


SHAPES: dict[str, Callable[[list[str]], dict[str, Any]]] = {
    "anthropic.messages": messages,
    "openai.chat": chat,
    "openai.responses": responses,
    "gemini.generate": gemini,
    "ollama.chat": chat,
    "bedrock.converse": converse,
    "azure.chat": chat,
}


@pytest.mark.parametrize("wire", SHAPES)
def test_a_longer_conversation_begins_with_the_bytes_of_the_shorter_one(wire: str) -> None:
    scanner = Scanner(load_policy(), KEY)
    before = b""
    for length in range(1, len(TURNS) + 1):
        body = json.dumps(SHAPES[wire](TURNS[:length])).encode()
        job = ScanJob(wire=wire, body=body, content_type="application/json", scope="role/r")
        forwarded = scanner.run(job).body
        assert b"jane.roe" not in forwarded
        # All but the brackets that close the document.
        shared = before.rstrip(b"]}")
        assert forwarded.startswith(shared)
        assert len(shared) > len(before) - 8
        before = forwarded
    job = ScanJob(wire=wire, body=body, content_type="application/json", scope="role/r")
    assert Scanner(load_policy(), KEY).run(job).body == before
