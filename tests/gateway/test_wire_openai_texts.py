"""Completions, embeddings, moderations and models of OpenAI; the same calls on Azure."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from wire_fakes import FakeRedactor, restoring, token_of

from gateway import routing, wire
from gateway.wire.base import Usage, WireRefused
from gateway.wire.errors import Family
from gateway.wire.schema import Reading
from gateway.wire.strictjson import Number, dumps, loads

C = "CANARY0001Z"
T = token_of(C)
VERSION = "api-version=2024-10-21"


def redact(name: str, document: Any) -> Any:
    format_ = wire.get(name)
    out = format_.redact_body(json.dumps(document).encode(), "", Reading(FakeRedactor()), {})
    return json.loads(out.body)


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("openai.completions", {"prompt": C, "suffix": C, "stop": [C], "user": C, "x": {C: C}}),
        ("openai.completions", {"prompt": [C, C], "stop": C, "logit_bias": {C: 1}}),
        ("openai.embeddings", {"input": C, "user": C}),
        ("openai.embeddings", {"input": [C, json.dumps({"deep": C})], "input_type": C}),
        ("openai.moderations", {"input": C}),
        ("openai.moderations", {"input": [C, C]}),
        ("openai.moderations", {"input": [
            {"type": "text", "text": C},
            {"type": "image_url", "image_url": {"url": f"https://x/{C}"}},
            {"type": "image_url", "image_url": {
                "url": "data:text/html;base64," + base64.b64encode(C.encode()).decode()}},
        ]}),
    ],
)  # fmt: skip
def test_no_text_leaves_unread(name: str, document: dict[str, Any]) -> None:
    out = json.dumps(redact(name, {"model": "m", **document}))
    assert "CANARY" not in out
    assert base64.b64encode(C.encode()).decode() not in out


@pytest.mark.parametrize("name", ["openai.completions", "openai.embeddings", "openai.moderations"])
@pytest.mark.parametrize("value", [[1, 2, 3], [[1, 2], [3]], ["text", [5]], 7, [[[1]]]])
def test_a_text_in_token_numbers_is_refused_because_nobody_can_read_it(
    name: str, value: Any
) -> None:
    member = "prompt" if name == "openai.completions" else "input"
    with pytest.raises(WireRefused) as refused:
        redact(name, {"model": "m", member: value})
    assert refused.value.code == "tokens"
    assert "send it as text" in refused.value.sentence


def test_an_unknown_part_of_a_moderation_is_refused() -> None:
    with pytest.raises(WireRefused) as refused:
        redact("openai.moderations", {"input": [{"type": "hologram", "x": C}]})
    assert refused.value.code == "block_type"


def test_vectors_come_back_digit_for_digit() -> None:
    text = (
        b'{"object":"list","data":[{"object":"embedding","index":0,'
        b'"embedding":[0.0023064255,-1.0e-05,0.30000000000000004]}],"model":"m",'
        b'"usage":{"prompt_tokens":8,"total_tokens":8}}'
    )
    answer = wire.get("openai.embeddings").restore_body(text, "application/json", restoring({}))
    assert answer.body == text
    assert answer.usage == Usage(8)
    assert answer.model == "m"


def test_an_error_is_restored() -> None:
    document = {"error": {"message": f"no {T}", "type": "invalid_request_error"}}
    out = wire.get("openai.embeddings").restore_body(
        dumps(document), "application/json", restoring({T: C})
    )
    assert json.loads(out.body)["error"]["message"] == f"no {C}"


def test_a_whole_completion_is_restored_and_counted() -> None:
    choices = [
        {"index": 0, "text": f"to {T}", "logprobs": {"tokens": [T]}, "finish_reason": "stop"},
        {"index": 1, "text": json.dumps({"to": T}), "logprobs": None, "finish_reason": "length"},
    ]
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    document = {"id": "cmpl-1", "model": "m", "choices": choices, "usage": usage}
    nasty = 'CANARY "q" \\ Z'
    out = wire.get("openai.completions").restore_body(
        dumps(document), "application/json", restoring({T: nasty})
    )
    restored = json.loads(out.body)["choices"]
    assert restored[0]["text"] == f"to {nasty}"
    assert restored[0]["logprobs"] == {"tokens": [T]}
    assert json.loads(restored[1]["text"]) == {"to": nasty}
    assert (out.usage, out.stop_reason) == (Usage(5, 7), "stop")


def test_numbers_keep_their_digits() -> None:
    format_ = wire.get("openai.completions")
    document = {"model": "m", "prompt": "x", "temperature": Number("0.10"), "n": 2}
    out = format_.redact_body(dumps(document), "", Reading(FakeRedactor()), {})
    assert loads(out.body) == document


# -- which call is read with what ---------------------------------------------------------------


def route(method: str, target: str, **headers: str) -> routing.Route | routing.Refusal:
    path, _, query = target.partition("?")
    found = routing.match(method, path, query, {k.replace("_", "-"): v for k, v in headers.items()})
    assert isinstance(found, routing.Route | routing.Refusal)
    return found


@pytest.mark.parametrize(
    ("method", "target", "provider", "name", "forwarded"),
    [
        ("POST", "/v1/chat/completions", "openai", "openai.chat", "/v1/chat/completions"),
        ("POST", "/agent/a/chat/completions", "openai", "openai.chat", "/v1/chat/completions"),
        ("POST", "/agent/a/v1/completions", "openai", "openai.completions", "/v1/completions"),
        ("POST", "/completions", "openai", "openai.completions", "/v1/completions"),
        ("POST", "/v1/embeddings", "openai", "openai.embeddings", "/v1/embeddings"),
        ("POST", "/moderations", "openai", "openai.moderations", "/v1/moderations"),
        ("GET", "/v1/models", "openai", "openai.models", "/v1/models"),
        ("GET", "/models?client_version=0.171.0", "openai", "openai.models",
         "/v1/models?client_version=0.171.0"),
        ("GET", "/v1/models/gpt-4o", "openai", "openai.models", "/v1/models/gpt-4o"),
        ("POST", "/v1beta/openai/chat/completions", "google", "openai.chat",
         "/v1beta/openai/chat/completions"),
        ("GET", "/v1/chat/completions?limit=5&order=asc", "openai", "openai.chats",
         "/v1/chat/completions?limit=5&order=asc"),
        ("DELETE", "/v1/chat/completions/chatcmpl-1", "openai", "openai.chats",
         "/v1/chat/completions/chatcmpl-1"),
        ("POST", "/v1/chat/completions/chatcmpl-1", "openai", "openai.chat_update",
         "/v1/chat/completions/chatcmpl-1"),
        ("POST", "/v1/projects/p/locations/l/endpoints/openapi/chat/completions", "vertex",
         "openai.chat", "/v1/projects/p/locations/l/endpoints/openapi/chat/completions"),
        ("POST", "/v1beta/openai/embeddings", "google", "openai.embeddings",
         "/v1beta/openai/embeddings"),
        ("GET", "/v1beta/openai/models", "google", "openai.models", "/v1beta/openai/models"),
        *(
            ("POST", f"/agent/a/openai/deployments/gpt-4o/{call}?{VERSION}", "azure", name,
             f"/openai/deployments/gpt-4o/{call}?{VERSION}")
            for call, name in (("chat/completions", "azure.chat"),
                               ("completions", "azure.completions"),
                               ("embeddings", "azure.embeddings"))
        ),
        ("POST", "/openai/v1/chat/completions?api-version=preview", "azure", "azure.chat",
         "/openai/v1/chat/completions?api-version=preview"),
        ("POST", "/openai/v1/embeddings", "azure", "azure.embeddings", "/openai/v1/embeddings"),
        ("POST", "/openai/v1/completions", "azure", "azure.completions", "/openai/v1/completions"),
        ("POST", "/models/chat/completions?api-version=2024-05-01-preview", "azure", "azure.chat",
         "/models/chat/completions?api-version=2024-05-01-preview"),
        ("GET", f"/openai/models?{VERSION}", "azure", "azure.models", f"/openai/models?{VERSION}"),
    ],
)  # fmt: skip
def test_every_call_goes_where_it_belongs(
    method: str, target: str, provider: str, name: str, forwarded: str
) -> None:
    found = route(method, target)
    assert isinstance(found, routing.Route), found
    assert (found.provider, found.wire, found.target) == (provider, name, forwarded)
    assert found.family == Family.OPENAI


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("PUT", "/v1/chat/completions"),
        ("POST", "/v1/chat/completions?user=jane@example.com"),
        ("POST", "/openai/deployments/gpt-4o/chat/completions?api-version=jane@example.com"),
        ("POST", "/openai/deployments/gpt-4o/images/generations?" + VERSION),
        ("POST", "/v1/images/generations"),
        ("POST", "/v1/audio/transcriptions"),
        ("DELETE", "/v1/models/gpt-4o"),
        ("GET", "/v1/models?client_version=jane@example.com"),
    ],
)
def test_what_is_not_listed_is_refused_in_openais_own_shape(method: str, target: str) -> None:
    found = route(method, target)
    assert isinstance(found, routing.Refusal)
    assert found.family == Family.OPENAI
    assert found.headers["x-should-retry"] == "false"
    error = json.loads(found.body())["error"]
    assert error["message"] == found.message
    assert "jane" not in error["message"]


def test_the_deployment_is_the_model_of_a_call_that_names_none() -> None:
    body = json.dumps({"messages": [{"role": "user", "content": C}], "stream": True}).encode()
    found = route("POST", f"/openai/deployments/my-gpt/chat/completions?{VERSION}")
    assert isinstance(found, routing.Route)
    out = wire.get(found.wire).redact_body(
        body, "application/json", Reading(FakeRedactor()), found.params
    )
    assert (out.model, out.stream) == ("my-gpt", True)
    assert C.encode() not in out.body


@pytest.mark.parametrize("name", ["openai.models", "azure.models"])
def test_a_list_of_models_takes_no_body_and_is_restored(name: str) -> None:
    format_ = wire.get(name)
    assert format_.request_types == frozenset()
    empty = format_.redact_body(b"", "", Reading(FakeRedactor()), {"model": "gpt-4o"})
    assert (empty.body, empty.model) == (b"", "gpt-4o")
    with pytest.raises(WireRefused):
        format_.redact_body(json.dumps({"q": C}).encode(), "", Reading(FakeRedactor()), {})
    out = format_.restore_body(dumps({"data": [{"id": T}]}), "application/json", restoring({T: C}))
    assert json.loads(out.body) == {"data": [{"id": C}]}


@pytest.mark.parametrize("name", ["openai.chat", "openai.completions", "azure.chat"])
def test_the_filler_of_a_stream_is_a_comment(name: str) -> None:
    assert wire.get(name).keep_alive == b": keep-alive\n\n"
