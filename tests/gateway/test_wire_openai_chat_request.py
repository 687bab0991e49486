"""Chat requests: no canary survives at any position, and nothing else changes."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import FakeRedactor, NamingRedactor, restoring, token_of

from gateway import wire
from gateway.coverage.matrix import applies, clean, planted, positions
from gateway.coverage.openai import SAMPLES
from gateway.redaction.job import ScanJob
from gateway.redaction.policy_file import load_policy
from gateway.redaction.scanner import Scanner
from gateway.wire.base import OpaqueAction, Usage, WireRefused, WireReport
from gateway.wire.openai_schema import MODEL_BODY, MODEL_PREFIX, usage_from
from gateway.wire.strictjson import Number, dumps, loads

FORMAT = wire.get("openai.chat")
C = "CANARY0001Z"
T = token_of(C)
CALL = "call_9Kz0y7aTqcX2bRkLmN4sWvEu"
SEAL = base64.b64encode(bytes(range(256))).decode()
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256))).decode()
WAV = base64.b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(range(256))).decode()
PDF = base64.b64encode(b"%PDF-1.7\n" + bytes(range(256))).decode()


def redact(document: Any, **options: Any) -> Any:
    return FORMAT.redact_request(document, FakeRedactor(), **options)


def message(**members: Any) -> dict[str, Any]:
    return {"model": "gpt-5.1", "messages": [{"role": "user", **members}]}


def parts(*content: Any) -> dict[str, Any]:
    return message(content=list(content))


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


PLACES = [position for sample in SAMPLES for position in positions(sample)]


@pytest.fixture(scope="module")
def scanner() -> Scanner:
    return Scanner(load_policy(None), b"k" * 32)


def test_the_samples_have_a_mark_wherever_text_can_stand() -> None:
    assert len(PLACES) >= 350
    assert {sample.wire for sample in SAMPLES} >= {
        "openai.chat", "openai.completions", "openai.embeddings", "openai.moderations",
        "openai.models", "azure.chat", "azure.completions", "azure.embeddings",
    }  # fmt: skip


@pytest.mark.parametrize("encoding", ["plain", "escapes", "json in json"])
def test_the_real_engine_finds_a_canary_in_every_place(scanner: Scanner, encoding: str) -> None:
    leaked: list[str] = []
    for sample in SAMPLES:
        chosen = [p for p in positions(sample) if p.is_in_body and applies(p, encoding)]
        if not chosen:
            continue
        request = planted(chosen, encoding)
        job = ScanJob(wire=sample.wire, body=request.body, scope="role/coder")
        body = scanner.run(job).body.decode().lower()
        for number, values in request.planted.items():
            place = next(p.place for p in chosen if p.number == number)
            leaked += [f"{sample.path} {place}" for value in values if value.lower() in body]
    assert leaked == []


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.path)
def test_what_holds_nothing_arrives_as_it_was(scanner: Scanner, sample: Any) -> None:
    request = clean(sample)
    out = scanner.run(ScanJob(wire=sample.wire, body=request.body, scope="role/coder"))
    assert json.loads(out.body or b"null") == request.expected
    assert out.counts == {}


def test_the_order_of_members_and_all_numbers_survive() -> None:
    text = (
        b'{"top_p":0.30000000000000004,"messages":[{"content":"hi","role":"user"}],'
        b'"temperature":1.0,"seed":12345,"model":"gpt-4o","logit_bias":{"50256":-100},'
        b'"max_completion_tokens":128000,"presence_penalty":-2.5e-3}'
    )
    assert dumps(redact(loads(text))) == text


def test_a_long_number_is_read_and_a_float_stays() -> None:
    redactor = FakeRedactor()
    document = {"x_number": 4539148803436467, "temperature": Number("0.7000000000"), **message()}
    FORMAT.redact_request(document, redactor)
    assert "4539148803436467" in redactor.shown


def test_unknown_members_are_read_with_their_names() -> None:
    out = FORMAT.redact_request(
        {**message(content="x"), "x_config": {"db_password": "wintergreen", C: [C]}},
        NamingRedactor(),
    )
    assert "wintergreen" not in json.dumps(out)
    assert C not in json.dumps(out)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": f"https://x/?who={C}"}},
        {"type": "image_url", "image_url": {"url": f"data:text/plain,{C}"}},
        {"type": "image_url", "image_url": {"url": f"data:text/plain;base64,{b64(C)}"}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64(C)}"}},
        {"type": "image_url", "image_url": f"DATA:image/svg+xml;base64,{b64('<svg>' + C)}"},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{b64(C)}"}},
        {"type": "file", "file": {"file_data": b64(json.dumps({"deep": C})), "filename": C}},
        {"type": "file", "file": {"file_id": C}},
        {"type": "input_audio", "input_audio": {"data": b64(C), "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": f"https://x/{C}", "format": C}},
        {"type": "audio_url", "audio_url": {"url": f"https://x/{C}"}},
        {"type": "refusal", "refusal": C},
        {"type": "text", "text": C, "later": {C: C}},
        {"type": "thinking", "thinking": [{"type": "text", "text": C}]},
    ],
)
def test_no_kind_of_part_hides_a_text(part: dict[str, Any]) -> None:
    out = json.dumps(redact(parts(part)))
    assert C not in out
    assert b64(C)[:-4] not in out


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}"}},
        {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}},
        {"type": "file", "file": {"file_id": "file-6DPbGZbXhVVrnpuDQ1GSqR"}},
    ],
)
def test_what_nobody_can_read_follows_the_policy(part: dict[str, Any]) -> None:
    report = WireReport()
    assert redact(parts(part), report=report) == parts(part)
    assert report.opaque_parts == 1
    with pytest.raises(WireRefused) as refused:
        redact(parts(part), opaque=OpaqueAction.REFUSE)
    assert refused.value.code == "opaque"


def test_data_that_is_no_base64_is_refused() -> None:
    with pytest.raises(WireRefused) as refused:
        redact(parts({"type": "file", "file": {"file_data": "plain words, not encoded"}}))
    assert refused.value.code == "base64"


@pytest.mark.parametrize("kind", ["hologram", "tool_result", "", 7, None, ["text"]])
def test_a_part_of_unknown_type_is_refused_with_its_place(kind: Any) -> None:
    with pytest.raises(WireRefused) as refused:
        redact(parts({"type": kind, "text": C}))
    assert refused.value.code == "block_type"
    assert "messages[0].content[0]" in refused.value.sentence


@pytest.mark.parametrize("document", [[], "text", 7, None])
def test_a_body_that_is_no_object_is_refused(document: Any) -> None:
    with pytest.raises(WireRefused):
        redact(document)


def test_tool_arguments_stay_json_and_other_literals_stay_as_they_were() -> None:
    arguments = '{"n": 1.50, "to": "' + C + '",  "deep": "{\\"x\\": \\"' + C + '\\"}"}'
    call = {"id": CALL, "type": "function", "function": {"name": "f", "arguments": arguments}}
    out = redact(message(role="assistant", content=None, tool_calls=[call]))
    scanned = out["messages"][0]["tool_calls"][0]["function"]["arguments"]
    assert scanned == arguments.replace(C, T)
    assert json.loads(json.loads(scanned)["deep"]) == {"x": T}


# -- reasoning of the model ---------------------------------------------------------------------


def thought(**members: Any) -> dict[str, Any]:
    return message(role="assistant", content="x", reasoning_details=[members])


@pytest.mark.parametrize("name", ["data", "signature"])
def test_long_seals_pass_byte_for_byte(name: str) -> None:
    report = WireReport()
    document = thought(type="reasoning.encrypted", **{name: SEAL})
    assert redact(document, report=report) == document
    assert report.signed_parts == 1


@pytest.mark.parametrize("value", [C, b64(C), "CANARY0001 not base64 Z"])
def test_a_short_seal_and_one_that_is_no_base64_is_read(value: str) -> None:
    redactor = FakeRedactor()
    FORMAT.redact_request(thought(type="reasoning.encrypted", data=value), redactor)
    assert value in redactor.shown


def test_signed_text_is_read_unless_it_came_through_this_gateway() -> None:
    document = thought(type="reasoning.text", text=C, signature=SEAL)
    assert redact(document)["messages"][0]["reasoning_details"][0] == {
        "type": "reasoning.text",
        "text": T,
        "signature": SEAL,
    }
    vouched: Callable[[str, str], bool] = lambda text, seal: (text, seal) == (C, SEAL)  # noqa: E731
    assert redact(document, vouched=vouched) == document


def test_an_answer_tells_which_thoughts_were_signed() -> None:
    details = [
        {"type": "reasoning.text", "text": T, "signature": SEAL},
        {"type": "reasoning.summary", "summary": T},
    ]
    answer = {"choices": [{"message": {"content": T, "reasoning_details": details}}]}
    assert list(FORMAT.signed_texts(answer)) == [(T, SEAL)]
    restored = FORMAT.restore_response(answer, restoring({T: C}))
    assert restored["choices"][0]["message"] == {"content": C, "reasoning_details": details}


def test_a_thought_signature_of_googles_passes() -> None:
    call = {
        "id": "function-call-1",
        "type": "function",
        "function": {"name": "f", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": SEAL}},
    }
    document = message(role="assistant", tool_calls=[call])
    assert redact(document) == document


# -- ids and models -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["gpt-4o-2024-08-06", "gpt-3.5-turbo-0125", "o3-mini-2025-01-31", "gpt-5.1-codex-max",
     "text-embedding-3-small", "omni-moderation-latest", "models/gemini-2.5-flash",
     "openai/gpt-oss-120b", "deepseek-r1:70b", "qwen2.5-coder:7b"],
)  # fmt: skip
def test_a_known_model_is_not_asked_about(name: str) -> None:
    redactor = FakeRedactor()
    FORMAT.redact_request({**message(content="hi"), "model": name}, redactor)
    assert name not in redactor.shown


@pytest.mark.parametrize("value", ["078-05-1120", "81.2.69.142", "4539148803436467", "12-03-1985"])
@pytest.mark.parametrize("prefix", ["", "gpt-", "gpt-4-", "o1-", "openai/", "llama-"])
def test_a_number_that_poses_as_a_model_is_read(prefix: str, value: str) -> None:
    start = MODEL_PREFIX.match(prefix + value)
    assert start is not None
    assert not MODEL_BODY.fullmatch((prefix + value)[start.end() :])


@pytest.mark.parametrize("value", ["078-05-1120", "ES9121000418450200051332", "4539148803436467"])
@pytest.mark.parametrize("prefix", ["", "call_", "chatcmpl-", "file-"])
def test_a_number_that_poses_as_an_id_is_read(prefix: str, value: str) -> None:
    redactor = FakeRedactor()
    FORMAT.redact_request(message(role="tool", tool_call_id=prefix + value, content=""), redactor)
    assert any(value in shown for shown in redactor.shown)


@pytest.mark.parametrize(
    "value", [CALL, "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
              "call_5f0c2a6e-7d44-4a86-9d54-0a4a2f1d3b77", "file-6DPbGZbXhVVrnpuDQ1GSqR"],
)  # fmt: skip
def test_an_id_of_a_known_shape_is_not_asked_about(value: str) -> None:
    redactor = FakeRedactor()
    FORMAT.redact_request(message(role="tool", tool_call_id=value, content=""), redactor)
    assert redactor.shown == [""] or redactor.shown == []


# -- the same every turn ------------------------------------------------------------------------


def test_a_later_turn_repeats_the_bytes_of_the_turn_before(scanner: Scanner) -> None:
    messages = [
        {"role": "user", "content": f"turn {turn}: jane{turn}@example.com, jane@example.com"}
        for turn in range(6)
    ]
    bodies = [
        scanner.run(
            ScanJob(
                wire="openai.chat",
                body=json.dumps({"model": "gpt-4o", "messages": messages[:count]}).encode(),
                scope="role/coder",
            )
        ).body
        for count in (2, 4, 6)
    ]
    for shorter, longer in pairwise(bodies):
        assert longer.startswith(shorter.removesuffix(b"]}"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.sampled_from(["x", C, f"a {C} b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "name", "text", "input", C, "x_y"]), inner)
    ),
    max_leaves=12,
)
MEMBER = st.sampled_from(
    ["tools", "metadata", "user", "functions", "response_format", "prediction", "stop", "audio",
     "reasoning_details", "x_extra", "messages", "web_search_options", "tool_choice"]
)  # fmt: skip


@given(st.dictionaries(MEMBER, JSON, max_size=4))
@settings(max_examples=150, deadline=None)
def test_no_document_whatever_its_shape_lets_a_canary_through(document: dict[str, Any]) -> None:
    before = copy.deepcopy(document)
    try:
        out = redact(document)
    except WireRefused:
        return
    assert C not in json.dumps(out)
    assert document == before
    assert redact(out) == out


# -- counting -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}, Usage(100, 20)),
        (
            {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
             "prompt_tokens_details": {"cached_tokens": 64},
             "completion_tokens_details": {"reasoning_tokens": 12}},
            Usage(36, 20, 0, 64),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 8,
          "prompt_cache_miss_tokens": 1}, Usage(1, 2, 0, 8)),
        # Thinking that a server counts in the total alone.
        ({"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 20}, Usage(10, 10)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 99}}, Usage(0, 0, 0, 10)),
        ({"prompt_tokens": 7, "total_tokens": 7}, Usage(7, 0)),
        ({"prompt_tokens": "7", "completion_tokens": True}, Usage()),
        (None, Usage()),
    ],
)  # fmt: skip
def test_cached_tokens_are_no_input_and_thinking_is_output(usage: Any, counted: Usage) -> None:
    assert usage_from(usage) == counted
