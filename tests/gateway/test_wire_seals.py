"""What passes as signed or encrypted by a provider, and what only poses as that."""

from __future__ import annotations

import base64
import random

import pytest
from wire_fakes import FakeRedactor

from gateway import wire
from gateway.wire.base import WireReport
from gateway.wire.schema import Reading, is_seal
from gateway.wire.strictjson import dumps, loads

C = "CANARY0001Z"
TEXT = f"a text about {C} and more of it " * 12


def sealed(size: int, seed: int = 7) -> str:
    return base64.b64encode(random.Random(seed).randbytes(size)).decode()


@pytest.mark.parametrize("size", [64, 66, 75, 100, 150, 151, 152, 1000])
def test_random_bytes_are_a_seal(size: int) -> None:
    assert is_seal(sealed(size))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "4539578763621486",
        f"ghp_{'a1B2' * 9}",
        f"sk-ant-api03-{'aB3_' * 24}AA",
        "a1B2" * 20,
        base64.b64encode(TEXT.encode()).decode(),
        base64.urlsafe_b64encode(TEXT.encode()).decode().rstrip("="),
        TEXT.encode().hex(),
    ],
)
def test_numbers_keys_and_texts_are_none(value: str) -> None:
    assert not is_seal(value)


def _requests(seal: str) -> list[tuple[str, dict[str, object]]]:
    return [
        (
            "anthropic.messages",
            {
                "messages": [
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "thinking", "thinking": "x", "signature": seal},
                            {"type": "redacted_thinking", "data": seal},
                        ],
                    }
                ]
            },
        ),
        (
            "openai.chat",
            {
                "messages": [
                    {
                        "role": "assistant",
                        "content": "x",
                        "reasoning_details": [{"type": "reasoning.encrypted", "data": seal}],
                    }
                ]
            },
        ),
        (
            "openai.responses",
            {"input": [{"type": "reasoning", "summary": [], "encrypted_content": seal}]},
        ),
        ("gemini.generate", {"contents": [{"parts": [{"text": "x", "thoughtSignature": seal}]}]}),
        (
            "bedrock.converse",
            {
                "messages": [
                    {
                        "role": "assistant",
                        "content": [
                            {
                                "reasoningContent": {
                                    "reasoningText": {"text": "x", "signature": seal}
                                }
                            }
                        ],
                    }
                ]
            },
        ),
    ]


@pytest.mark.parametrize("number", range(5))
def test_every_format_passes_a_short_seal_and_reads_a_text_in_its_place(number: int) -> None:
    for size in (64, 75, 300):
        name, document = _requests(sealed(size))[number]
        out = wire.get(name).redact_body(
            dumps(document), "application/json", Reading(FakeRedactor(), report=WireReport()), {}
        )
        assert out.body == dumps(document)
    for posing in (base64.b64encode(TEXT.encode()).decode(), TEXT.encode().hex()):
        name, document = _requests(posing)[number]
        redactor = FakeRedactor()
        out = wire.get(name).redact_body(
            dumps(document), "application/json", Reading(redactor, report=WireReport()), {}
        )
        assert posing not in out.body.decode()
        assert redactor.originals
        assert loads(out.body)
