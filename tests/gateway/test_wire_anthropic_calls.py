"""Anthropic's calls beside Messages: batches, their results, completions, models."""

from __future__ import annotations

import itertools
import json
import typing
from typing import Any

import pytest
from anthropic.types.beta import beta_content_block_param
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import FakeRedactor, restorers, restoring, token_of

from gateway import routing, wire
from gateway.wire.base import WireRefused
from gateway.wire.formats.anthropic import BLOCK_TYPES
from gateway.wire.schema import Reading
from gateway.wire.sse import SseParser, serialise
from gateway.wire.strictjson import dumps

C = "CANARY0001Z"
NASTY = 'CANARY0002 "q" \\ \n\t{x} é Z'
A, B = token_of(C), token_of(NASTY)
ORIGINALS = {A: C, B: NASTY}
TEXT = f"To {A}, not [EMAIL_zzzzzzzz] [x] but {B}{A} é\U0001f600!"
SHOWN = f"To {C}, not [EMAIL_zzzzzzzz] [x] but {NASTY}{C} é\U0001f600!"
SIGNATURE = "c2ln" * 80
RESULTS = wire.get("anthropic.batch_results")


def redact(name: str, document: Any) -> Any:
    out = wire.get(name).redact_body(json.dumps(document).encode(), "", Reading(FakeRedactor()), {})
    return json.loads(out.body)


# -- block types of the SDK ---


def literal_types(union: Any) -> set[str]:
    """The `type` words of a union of block types."""
    found: set[str] = set()
    for member in typing.get_args(union):
        if "type" not in getattr(member, "__annotations__", {}):
            found |= literal_types(member)
            continue
        annotation = member.__annotations__["type"]
        text = getattr(annotation, "__forward_arg__", str(annotation))
        found.add(text.rpartition("Literal[")[2].split("]")[0].strip("'\""))
    return found


def test_every_content_block_that_the_official_sdk_can_send_is_known() -> None:
    types = literal_types(beta_content_block_param.BetaContentBlockParam)
    assert len(types) > 20
    assert types <= BLOCK_TYPES


# -- batches ---


def test_each_request_of_a_batch_is_read_like_a_message() -> None:
    params = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 5,
        "system": C,
        "messages": [{"role": "user", "content": [{"type": "text", "text": C}]}],
    }
    document = {"requests": [{"custom_id": C, "params": params}, {"custom_id": "b", C: [C]}]}
    assert redact("anthropic.batches", document) == json.loads(json.dumps(document).replace(C, A))
    out = wire.get("anthropic.batches").redact_body(
        dumps(document), "", Reading(FakeRedactor()), {}
    )
    assert (out.model, out.stream) == ("claude-sonnet-4-5", False)


def test_a_block_of_unknown_type_in_a_batch_is_refused_with_its_place() -> None:
    params = {"messages": [{"role": "user", "content": [{"type": "later"}]}]}
    with pytest.raises(WireRefused) as refused:
        redact("anthropic.batches", {"requests": [{"custom_id": "a", "params": params}]})
    assert refused.value.code == "block_type"
    assert "requests[0].params.messages[0].content[0]" in refused.value.sentence


@pytest.mark.parametrize(
    "url", ["https://api.anthropic.com/v1/messages/batches/msgbatch_1/results",
            "http://10.0.0.1:8000/proxy/v1/messages/batches/msgbatch_1/results"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["anthropic.batches", "anthropic.batch"])
def test_results_are_fetched_through_the_gateway_and_not_past_it(name: str, url: str) -> None:
    batch = {"id": "msgbatch_1", "type": "message_batch", "results_url": url}
    here = {**batch, "results_url": "/v1/messages/batches/msgbatch_1/results"}
    for document, expected in (
        (batch, here),
        ({"data": [batch, {**batch, "results_url": None}], "has_more": False},
         {"data": [here, {**batch, "results_url": None}], "has_more": False}),
    ):  # fmt: skip
        whole = wire.get(name).restore_body(dumps(document), "application/json", str)
        assert json.loads(whole.body) == expected


def result_line(custom_id: str, *content: Any) -> bytes:
    message = {"type": "message", "model": "claude-x", "content": list(content),
               "usage": {"input_tokens": 3, "output_tokens": 4}}  # fmt: skip
    return dumps({"custom_id": custom_id, "result": {"type": "succeeded", "message": message}})


THINKING = {"type": "thinking", "thinking": f"about {A}", "signature": SIGNATURE}
TOOL = {"type": "tool_use", "id": "toolu_1", "name": "send", "input": {B: [A], "j": f'["{B}"]'}}
LINES = [
    result_line("a", THINKING, {"type": "text", "text": TEXT}, TOOL),
    result_line("plain", {"type": "text", "text": "nothing"}).replace(b",", b", "),
    dumps({"custom_id": "c", "result": {"type": "errored", "error": {"message": f"bad {A}"}}}),
    dumps({"custom_id": "d", "result": {"type": "expired"}}),
]


@pytest.mark.parametrize("media", sorted(RESULTS.answer_types))
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [b"", b"\n"])
def test_results_are_restored_line_by_line(media: str, end: bytes, last: bytes) -> None:
    told: list[tuple[str, str]] = []
    data = end.join(LINES) + last
    whole = RESULTS.restore_body(
        data, media, restoring(ORIGINALS), lambda t, s: told.append((t, s))
    )
    lines = whole.body.split(b"\n")
    assert lines[1].strip() == LINES[1]
    assert whole.body.endswith(b"\n") is bool(last)
    assert whole.body.count(b"\r\n") == data.count(b"\r\n")
    content = json.loads(lines[0])["result"]["message"]["content"]
    assert content[0] == THINKING
    assert content[1]["text"] == SHOWN
    assert content[2]["input"] == {NASTY: [C], "j": json.dumps([NASTY], ensure_ascii=False)}
    assert json.loads(lines[2])["result"]["error"]["message"] == f"bad {C}"
    assert told == [(f"about {A}", SIGNATURE)]


def test_a_single_result_declared_as_json_is_a_result() -> None:
    whole = RESULTS.restore_body(LINES[0], "application/json", restoring(ORIGINALS))
    assert C in whole.body.decode()


def test_an_error_over_many_lines_is_an_error() -> None:
    error = {"type": "error", "error": {"type": "not_found_error", "message": f"no {A}"}}
    data = json.dumps(error, indent=2).encode()
    whole = RESULTS.restore_body(data, "application/json", restoring(ORIGINALS))
    assert json.loads(whole.body)["error"]["message"] == f"no {C}"


@pytest.mark.parametrize("data", [b'{"custom_id":', b"<html>\n", LINES[0] + b"\nx"])
def test_a_line_that_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(WireRefused):
        RESULTS.restore_body(data, "application/x-jsonl", restoring(ORIGINALS))


# -- completions ---

COMPLETE = wire.get("anthropic.complete")


def completions(size: int, text: str = TEXT) -> bytes:
    def event(text: str, reason: str | None) -> bytes:
        document = {"type": "completion", "id": "compl_1", "completion": text,
                    "stop_reason": reason, "model": "claude-2.1"}  # fmt: skip
        return serialise("completion", json.dumps(document))

    parts = [text[at : at + size] for at in range(0, len(text), size)]
    ping = serialise("ping", '{"type":"ping"}')
    return ping + b"".join(event(part, None) for part in parts) + event("", "stop_sequence")


def transform(data: bytes, cuts: list[int] | None = None) -> tuple[bytes, Any]:
    stream = COMPLETE.new_stream(restorers(ORIGINALS))
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts or [])})
    out = [stream.feed(data[start:end]) for start, end in itertools.pairwise(edges)]
    return b"".join([*out, stream.close()]), stream


def texts(data: bytes) -> list[str]:
    events = [json.loads(event.data or "{}") for event in SseParser().feed(data)]
    return [event["completion"] for event in events if event["type"] == "completion"]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_a_streamed_completion_is_restored(size: int) -> None:
    out, stream = transform(completions(size, TEXT + " [EMA"))
    assert "".join(texts(out)) == SHOWN + " [EMA"
    assert stream.complete
    assert (stream.model, stream.stop_reason) == ("claude-2.1", "stop_sequence")


@given(st.integers(1, 9), st.lists(st.integers(0, 10_000), max_size=30))
@settings(max_examples=40, deadline=None)
def test_chunking_never_changes_a_byte(size: int, cuts: list[int]) -> None:
    assert transform(completions(size), cuts)[0] == transform(completions(size))[0]


def test_a_completion_without_tokens_keeps_its_bytes_and_a_cut_one_stays_incomplete() -> None:
    data = completions(3, "plain [x] text")
    assert transform(data)[0] == data
    out, stream = transform(completions(1000, "see [EMA")[:-60])
    assert "".join(texts(out)) == "see [EMA"
    assert not stream.complete


def test_an_error_in_a_completion_is_restored_and_remembered() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": f"wait {A}"}}
    out, stream = transform(serialise("error", json.dumps(error)))
    assert stream.error == "overloaded_error"
    assert f"wait {C}" in out.decode()


def test_a_prompt_is_text() -> None:
    document = {"model": "claude-2.1", "prompt": f"\n\nHuman: {C}", "stop_sequences": [C],
                "max_tokens_to_sample": 5, "metadata": {"user_id": C}}  # fmt: skip
    assert redact("anthropic.complete", document) == json.loads(json.dumps(document).replace(C, A))


# -- routes ---


@pytest.mark.parametrize(
    ("method", "path", "query", "name"),
    [
        ("POST", "/v1/messages/batches", "", "anthropic.batches"),
        ("POST", "/agent/r/v1/messages/batches", "beta=true", "anthropic.batches"),
        ("GET", "/v1/messages/batches", "limit=20&after_id=msgbatch_1", "anthropic.batch"),
        ("GET", "/v1/messages/batches/msgbatch_1", "", "anthropic.batch"),
        ("DELETE", "/v1/messages/batches/msgbatch_1", "", "anthropic.batch"),
        ("POST", "/v1/messages/batches/msgbatch_1/cancel", "", "anthropic.batch"),
        ("GET", "/v1/messages/batches/msgbatch_1/results", "", "anthropic.batch_results"),
        ("POST", "/v1/complete", "", "anthropic.complete"),
        ("GET", "/v1/models", "limit=1000", "anthropic.models"),
        ("GET", "/v1/models", "lifecycle[]=active&lifecycle[]=retired", "anthropic.models"),
        ("GET", "/models/claude-sonnet-4-5", "", "anthropic.models"),
    ],
)
def test_the_calls_find_their_format(method: str, path: str, query: str, name: str) -> None:
    route = routing.match(method, path, query, {"anthropic-version": "2023-06-01"})
    assert isinstance(route, routing.Route)
    assert (route.wire, route.provider) == (name, "anthropic")


@pytest.mark.parametrize(
    ("method", "path", "family"),
    [
        ("POST", "/api/event_logging/batch", "anthropic"),
        ("POST", "/api/pull", "ollama"),
        ("DELETE", "/api/delete", "ollama"),
        ("POST", "/api/blobs/sha256:1", "ollama"),
        ("GET", "/api/generate", "ollama"),
        ("POST", "/model/m/invoke-with-bidirectional-stream", "bedrock"),
        ("GET", "/model/m/invoke", "bedrock"),
        ("POST", "/model/m%2525x/invoke", "bedrock"),
    ],
)
def test_what_is_not_listed_is_refused_in_its_own_shape(
    method: str, path: str, family: str
) -> None:
    refusal = routing.match(method, path)
    assert isinstance(refusal, routing.Refusal)
    assert (refusal.status, refusal.family) == (403, family)


def test_the_name_of_a_model_may_hold_what_a_path_does_not() -> None:
    arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.x-v1:0"
    for sent in (arn.replace("/", "%2F"), arn.replace("/", "%2f").replace(":", "%3A")):
        route = routing.match("POST", f"/model/{sent}/converse")
        assert isinstance(route, routing.Route)
        assert route.params == {"model": arn}
        assert route.path == f"/model/{arn.replace('/', '%2F')}/converse"
        assert "123456789012" not in route.shown
