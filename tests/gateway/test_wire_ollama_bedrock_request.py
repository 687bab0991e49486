"""Ollama and Bedrock requests beside the coverage samples: what is refused, passed, remembered."""

from __future__ import annotations

import base64
import copy
import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import FakeRedactor, NamingRedactor, token_of

from gateway import wire
from gateway.redaction.job import ScanJob, ScanRefused
from gateway.redaction.policy_file import load_policy
from gateway.redaction.scanner import Scanner
from gateway.wire.base import OpaqueAction, WireRefused, WireReport
from gateway.wire.body import JSON, BodilessFormat, JsonFormat
from gateway.wire.schema import Reading
from gateway.wire.strictjson import dumps, loads

C = "CANARY0001Z"
T = token_of(C)
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256))).decode()
DOCX = base64.b64encode(b"PK\x03\x04" + bytes(range(256))).decode()
SIGNATURE = base64.b64encode(bytes(range(256))).decode()
FORM = "application/x-www-form-urlencoded"


def redact(name: str, document: Any, redactor: Any = None, **options: Any) -> Any:
    reading = Reading(redactor or FakeRedactor(), **options)
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    out = wire.get(name).redact_body(body, "", reading, {"model": "some-model"})
    return json.loads(out.body)


def turn(*content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(content)}]}


# -- Ollama ---


def test_a_body_that_curl_declares_as_a_form_is_read_and_forwarded_as_json() -> None:
    format_ = wire.get("ollama.generate")
    assert {JSON, FORM, "text/plain"} <= format_.request_types
    out = format_.redact_body(json.dumps({"prompt": C}).encode(), FORM, Reading(FakeRedactor()), {})
    assert (out.media_type, json.loads(out.body), out.stream) == (JSON, {"prompt": T}, True)


@pytest.mark.parametrize("body", [b"prompt=hello", b'{"a":1}&x=2', b"", b'{"a":1,"a":2}', b"[1]"])
def test_a_form_that_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(WireRefused):
        redact("ollama.generate", body)


def test_images_pass_as_bytes_and_text_that_poses_as_one_is_read() -> None:
    report = WireReport()
    text = base64.b64encode(f"<svg>{C}</svg>".encode()).decode()
    images = [PNG, text, f"data:image/png;base64,{PNG}", f"data:image/png;base64,{text}"]
    out = redact("ollama.generate", {"images": images}, report=report)["images"]
    assert (out[0], out[2]) == (PNG, images[2])
    assert base64.b64decode(out[1]).decode() == f"<svg>{T}</svg>"
    assert base64.b64decode(out[3].partition(",")[2]).decode() == f"<svg>{T}</svg>"
    assert report.opaque_parts == 2


def test_images_that_the_policy_refuses_refuse_the_call() -> None:
    with pytest.raises(WireRefused, match="policy refuses") as refused:
        redact("ollama.generate", {"images": [PNG]}, opaque=OpaqueAction.REFUSE)
    assert refused.value.code == "opaque"


def test_a_context_of_token_ids_is_not_read_number_by_number() -> None:
    redactor = FakeRedactor()
    context = [*range(0, 200_000, 97), 4539148803436467]
    assert redact("ollama.generate", {"context": context}, redactor)["context"] == context
    assert redactor.shown == ["4539148803436467"]


def test_tool_arguments_know_the_names_of_their_values() -> None:
    call = {"function": {"name": "login", "arguments": {"password": "hunter2hunter2"}}}
    document = {"messages": [{"role": "assistant", "content": "", "tool_calls": [call]}]}
    assert "hunter2" not in json.dumps(redact("ollama.chat", document, NamingRedactor()))


# -- Bedrock ---


@pytest.mark.parametrize("block", [{"later": C}, {"text": "a", "later": C}, {}, {"type": "text"}])
@pytest.mark.parametrize("inside", ["content", "toolResult", "system"])
def test_a_content_block_of_an_unknown_kind_is_refused(block: Any, inside: str) -> None:
    document = {
        "content": turn(block),
        "toolResult": turn({"toolResult": {"content": [block]}}),
        "system": {"system": [block]},
    }[inside]
    with pytest.raises(WireRefused) as refused:
        redact("bedrock.converse", document)
    assert refused.value.code == "block_type"
    assert "CANARY" not in refused.value.sentence


def test_bytes_of_files_pass_and_text_in_them_is_read() -> None:
    report = WireReport()
    text = base64.b64encode(f"a,b\n{C},1\n".encode()).decode()
    document = turn(
        {"image": {"format": "png", "source": {"bytes": PNG}}},
        {"document": {"format": "docx", "name": "x", "source": {"bytes": DOCX}}},
        {"document": {"format": "docx", "name": "x", "source": {"bytes": text}}},
        {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/k"}}}},
    )
    content = redact("bedrock.converse", document, report=report)["messages"][0]["content"]
    assert content[0] == document["messages"][0]["content"][0]
    assert content[1] == document["messages"][0]["content"][1]
    decoded = base64.b64decode(content[2]["document"]["source"]["bytes"]).decode()
    assert decoded == f"a,b\n{T},1\n"
    assert report.opaque_parts == 3


@pytest.mark.parametrize("name", ["bedrock.converse", "bedrock.invoke"])
def test_a_key_in_the_place_of_bytes_is_found(name: str) -> None:
    key = "CANARY0002abcdefghijklmZ"
    block = {"image": {"format": "png", "source": {"bytes": key}}}
    assert "CANARY" not in json.dumps(redact(name, turn(block)))


def reasoning(text: str, signature: str) -> dict[str, Any]:
    inner = {"text": text, "signature": signature, "later": C}
    return turn({"reasoningContent": {"reasoningText": inner}})


def test_reasoning_passes_only_when_it_was_handed_out_here() -> None:
    document = reasoning(f"about {C}", SIGNATURE)
    own = redact("bedrock.converse", document, vouched=lambda t, s: True)
    (block,) = own["messages"][0]["content"]
    inner = block["reasoningContent"]["reasoningText"]
    assert inner == {"text": f"about {C}", "signature": SIGNATURE, "later": T}
    (block,) = redact("bedrock.converse", document)["messages"][0]["content"]
    inner = block["reasoningContent"]["reasoningText"]
    assert inner == {"text": f"about {T}", "signature": SIGNATURE, "later": T}


def test_a_short_signature_is_read_like_any_text() -> None:
    document = reasoning("thought", "CANARY0001Z")
    assert "CANARY" not in json.dumps(redact("bedrock.converse", document))


def test_redacted_reasoning_passes_when_it_is_long_enough_for_a_seal() -> None:
    document = turn({"reasoningContent": {"redactedContent": SIGNATURE}})
    assert redact("bedrock.converse", document) == document


@pytest.mark.parametrize(
    ("body", "model"),
    [
        ({"anthropic_version": "x", "messages": [{"role": "user", "content": C}]}, "messages"),
        ({"schemaVersion": "messages-v1", "messages": turn({"text": C})["messages"]}, "converse"),
        ({"inputText": C}, "vendor"),
    ],
)
def test_a_body_of_invoke_is_read_as_its_vendor_means_it(body: Any, model: str) -> None:
    assert redact("bedrock.invoke", body) == json.loads(json.dumps(body).replace(C, T))


def test_an_anthropic_block_of_unknown_type_is_refused_in_invoke_too() -> None:
    body = {"anthropic_version": "x", "messages": [{"role": "user", "content": [{"type": "x"}]}]}
    with pytest.raises(WireRefused):
        redact("bedrock.invoke", body)


def test_a_vendors_images_pass_and_prose_under_such_a_name_is_read() -> None:
    report = WireReport()
    body = {"images": [PNG], "data": f"{C} {'words ' * 60}", "image": {"url": f"data:x,{C}"}}
    out = redact("bedrock.invoke", body, report=report)
    assert out["images"] == [PNG]
    assert report.opaque_parts == 1
    assert "CANARY" not in json.dumps(out)


def test_prose_without_punctuation_is_not_taken_for_base64() -> None:
    redactor = FakeRedactor()
    prose = "some words " * 40
    redact("bedrock.invoke", {"data": prose}, redactor)
    assert any(prose in shown for shown in redactor.shown)


@pytest.mark.parametrize("asked", [{"later": {}}, {"invokeModel": {"body": "*"}}, {"converse": 1}])
def test_a_count_of_something_unknown_is_refused(asked: Any) -> None:
    with pytest.raises(WireRefused):
        redact("bedrock.count_tokens", {"input": asked})


def test_the_path_says_whether_an_answer_streams_and_which_model_it_is() -> None:
    body = json.dumps(turn({"text": "hi"})).encode()
    for name, streams in (("converse", False), ("converse_stream", True)):
        out = wire.get(f"bedrock.{name}").redact_body(
            body, JSON, Reading(FakeRedactor()), {"model": "some-model"}
        )
        assert (out.stream, out.model) == (streams, "some-model")
    for name, streams in (("invoke", False), ("invoke_stream", True)):
        out = wire.get(f"bedrock.{name}").redact_body(
            b'{"inputText":"x"}', JSON, Reading(FakeRedactor()), {"model": "some-model"}
        )
        assert (out.stream, out.model) == (streams, "some-model")


MODELS = (
    "anthropic.claude-3-5-sonnet-20240620-v1:0",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "global.anthropic.claude-opus-4-5-20251101-v1:0",
    "amazon.nova-premier-v1:0:8k",
    "meta.llama3-1-405b-instruct-v1:0",
    "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5",
    "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/a1b2c3d4e5f6",
)


def scanned(name: str, document: Any, **params: str) -> Any:
    body = json.dumps(document).encode()
    job = ScanJob(wire=name, body=body, scope="role/coder", params=params)
    return Scanner(load_policy(None), b"k" * 32).run(job)


@pytest.mark.parametrize("model", MODELS)
def test_model_ids_and_arns_pass_in_the_path(model: str) -> None:
    assert scanned("bedrock.converse", turn({"text": "hi"}), model=model).model == model


def test_a_protected_value_in_the_path_is_refused() -> None:
    with pytest.raises(ScanRefused):
        scanned("bedrock.converse", turn({"text": "hi"}), model="jane.doe@kestrel-mail.com")


# -- both ---

JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(max_size=12)
    | st.sampled_from([C, f"x {C} y", json.dumps({C: [C]})]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["text", "content", "messages", "input", "images", "tools", "source",
                         "role", "model", "document", "bytes", C, "x"]),
        inner, max_size=5),
    max_leaves=25,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["messages", "system", "input", "prompt", "x"]), JSONS))
@settings(max_examples=150, deadline=None)
def test_no_body_leaks_and_none_breaks_the_walk(document: dict[str, Any]) -> None:
    before = copy.deepcopy(document)
    for name in ("ollama.chat", "bedrock.converse", "bedrock.invoke", "bedrock.count_tokens"):
        format_ = wire.get(name)
        assert isinstance(format_, JsonFormat)
        try:
            out = format_.redact_body(dumps(document), "", Reading(FakeRedactor()), {})
        except WireRefused:
            continue
        assert b"CANARY" not in out.body
        loads(out.body)
    assert document == before


@pytest.mark.parametrize("body", [b"", b" ", b"{}"])
def test_a_call_without_a_body_sends_none(body: bytes) -> None:
    format_ = wire.get("ollama.models")
    assert isinstance(format_, BodilessFormat)
    assert format_.redact_body(body, "", Reading(FakeRedactor()), {}).body == b""


@pytest.mark.parametrize("body", [b"x", b'{"a":1}', b"[]", b"\x1f\x8b"])
def test_a_body_on_a_call_that_has_none_is_refused(body: bytes) -> None:
    with pytest.raises(WireRefused) as refused:
        wire.get("ollama.models").redact_body(body, "", Reading(FakeRedactor()), {})
    assert refused.value.code == "unexpected_body"


@pytest.mark.parametrize("name", ["ollama.chat", "bedrock.converse", "bedrock.invoke"])
def test_a_later_turn_repeats_the_bytes_of_the_turn_before(name: str) -> None:
    scanner = Scanner(load_policy(None), b"k" * 32)
    mail = "jane.doe@kestrel-mail.com"

    def content(number: int) -> Any:
        text = f"turn {number}: {mail} and {number}@kestrel-mail.com"
        return text if name == "ollama.chat" else [{"text": text}]

    turns = [{"role": "user", "content": content(number)} for number in range(6)]
    bodies = [
        scanner.run(
            ScanJob(wire=name, body=dumps({"messages": turns[:count]}), scope="role/coder")
        ).body
        for count in (2, 4, 6)
    ]
    for shorter, longer in itertools.pairwise(bodies):
        assert mail.encode() not in longer
        assert longer.startswith(shorter.removesuffix(b"]}"))
