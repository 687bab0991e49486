"""Streamed Gemini answers: restored over any chunking, as events or array, honest at the end."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import restorers, restoring, token_of

from gateway import wire
from gateway.wire.base import Usage
from gateway.wire.body import JsonFormat
from gateway.wire.formats.gemini_stream import GeminiStream
from gateway.wire.sse import SseParser

FORMAT = wire.get("gemini.stream")
SSE, ARRAY = "text/event-stream", "application/json"
MAIL = "CANARY0001Z"
NASTY = 'CANARY0002 "q" \\ \n\t{x} é\U0001f600 Z'
ORIGINALS = {token_of(MAIL): MAIL, token_of(NASTY): NASTY}
A, B = token_of(MAIL), token_of(NASTY)
UNKNOWN = "[EMAIL_zzzzzzzz]"
USAGE = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 40,
    "candidatesTokenCount": 7,
    "thoughtsTokenCount": 5,
    "toolUsePromptTokenCount": 3,
    "totalTokenCount": 115,
}


def chunk(*parts: dict[str, Any], index: int = 0, finish: str = "", **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if finish:
        candidate["finishReason"] = finish
    if index:
        candidate["index"] = index
    return {"candidates": [candidate], "modelVersion": "gemini-3-flash", "responseId": "r1", **more}


def pieces(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def texts(text: str, size: int, **more: Any) -> list[dict[str, Any]]:
    return [chunk({"text": piece, **more}) for piece in pieces(text, size)]


def framed(documents: list[dict[str, Any]], media: str, end: str = "\n") -> bytes:
    written = [json.dumps(document, ensure_ascii=False) for document in documents]
    if media == ARRAY:
        return ("[" + f"{end},{end}".join(written) + f"{end}]{end}").encode()
    return "".join(f"data: {text}{end}{end}" for text in written).encode()


def chunks(stream: bytes, cuts: list[int]) -> Iterator[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    for start, end in pairwise(edges):
        yield stream[start:end]


def transform(
    stream: bytes, media: str, cuts: list[int] | None = None
) -> tuple[bytes, GeminiStream]:
    transformer = FORMAT.new_stream(restorers(ORIGINALS), media_type=media)
    assert isinstance(transformer, GeminiStream)
    out = b"".join(transformer.feed(piece) for piece in chunks(stream, cuts or []))
    return out + transformer.close(), transformer


def read(out: bytes, media: str) -> list[dict[str, Any]]:
    """What a client reads; raises when the frames are not legal."""
    if media == ARRAY:
        found: list[dict[str, Any]] = json.loads(out)
        return found
    return [json.loads(e.data) for e in SseParser().feed(out) if e.data is not None]


def run(documents: list[dict[str, Any]], media: str, cuts: list[int] | None = None) -> list[Any]:
    out, _ = transform(framed(documents, media), media, cuts)
    return read(out, media)


def told(documents: list[Any], index: int = 0) -> list[Any]:
    """The parts of a candidate, texts of one kind put together as clients do."""
    merged: list[Any] = []
    for document in documents:
        for number, candidate in enumerate(document.get("candidates", [])):
            if candidate.get("index", number) != index:
                continue
            for part in candidate.get("content", {}).get("parts", []):
                last = merged[-1] if merged else {}
                if part.keys() == last.keys() and "text" in part:
                    last["text"] += part["text"]
                elif part != {"text": ""}:
                    merged.append(copy.deepcopy(part))
    return merged


SIGNATURE = "Cp8BAVSoXO4" * 20
TEXT = f"Dear {A}, [EMAIL_ [x] {B}{A} {UNKNOWN} é[[{A}]"
CALL = {
    "functionCall": {
        "id": A,
        "name": f"save {A}",
        "args": {A: [B], "json": json.dumps({"deep": [B]}), "n": 1.0, "thought": True, "text": A},
    },
    "thoughtSignature": SIGNATURE,
}


def answer(size: int) -> list[dict[str, Any]]:
    return [
        *texts(f"about {A}", size, thought=True),
        *texts(TEXT, size),
        chunk({"executableCode": {"language": "PYTHON", "code": f"print('{A}')"}}),
        chunk({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": f"{A}\n"}}),
        *texts(json.dumps({"answer": B, "n": [A]}), size),
        chunk(CALL),
        chunk(CALL, {"text": f"after {A}"}),
        *texts(f"ends with {A} and a beginning [EMAIL_0", size),
        chunk({"text": ""}, finish="STOP", usageMetadata=USAGE),
    ]


def whole_answer() -> dict[str, Any]:
    return {**chunk(*told(answer(9999)), finish="STOP", usageMetadata=USAGE)}


def restored_parts() -> list[Any]:
    assert isinstance(FORMAT, JsonFormat)
    out = FORMAT.restore_response(whole_answer(), restoring(ORIGINALS))
    parts: list[Any] = out["candidates"][0]["content"]["parts"]
    return parts


def test_a_whole_answer_is_restored_but_thoughts_and_signatures() -> None:
    parts = restored_parts()
    assert parts[0] == {"text": f"about {A}", "thought": True}
    assert parts[1]["text"].startswith(f"Dear {MAIL}, [EMAIL_ [x] {NASTY}{MAIL} {UNKNOWN}")
    assert parts[2]["executableCode"]["code"] == f"print('{MAIL}')"
    assert json.loads(parts[4]["text"]) == {"answer": NASTY, "n": [MAIL]}
    call = parts[5]
    assert call["thoughtSignature"] == SIGNATURE
    assert call["functionCall"]["name"] == f"save {MAIL}"
    args = call["functionCall"]["args"]
    assert args[MAIL] == [NASTY]
    assert args["text"] == MAIL
    assert json.loads(args["json"]) == {"deep": [NASTY]}


@pytest.mark.parametrize("media", [SSE, ARRAY])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 16, 9999])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_stream_reads_like_the_whole_answer(media: str, size: int, end: str) -> None:
    out, transformer = transform(framed(answer(size), media, end), media)
    assert told(read(out, media)) == restored_parts()
    assert transformer.complete
    assert transformer.error is None
    assert transformer.usage == Usage(input=63, output=12, cache_read=40)
    assert (transformer.model, transformer.stop_reason) == ("gemini-3-flash", "STOP")


@given(
    st.sampled_from([SSE, ARRAY]),
    st.integers(1, 9),
    st.lists(st.integers(0, 30_000), max_size=60),
)
@settings(max_examples=80, deadline=None)
def test_chunking_never_changes_a_byte_of_the_output(
    media: str, size: int, cuts: list[int]
) -> None:
    stream = framed(answer(size), media)
    assert transform(stream, media, cuts)[0] == transform(stream, media)[0]


@pytest.mark.parametrize("media", [SSE, ARRAY])
def test_one_byte_at_a_time_gives_the_same(media: str) -> None:
    stream = framed(answer(4), media, "\r\n")
    out, _ = transform(stream, media, list(range(len(stream))))
    assert told(read(out, media)) == restored_parts()


@pytest.mark.parametrize("media", [SSE, ARRAY])
def test_a_stream_without_tokens_keeps_its_bytes(media: str) -> None:
    documents = [
        chunk({"text": "plain [x] é\U0001f600"}, usageMetadata=USAGE),
        chunk({"functionCall": {"name": "n", "args": {"a": [1.0, "[b]"]}}}),
        chunk({"text": ""}, finish="STOP"),
    ]
    stream = framed(documents, media, "\r\n")
    if media == SSE:
        stream = b"\n\n" + stream + b": note\n\ndata: not json\n\n"
    assert transform(stream, media)[0] == stream


@pytest.mark.parametrize("media", [SSE, ARRAY])
@pytest.mark.parametrize("text", [A, "x [", "x [EMAIL_", f"x [{A[:-1]}", "{[", '{"a":"' + A[:-1]])
@pytest.mark.parametrize("size", [1, 4, 999])
def test_held_text_leaves_in_or_before_the_chunk_that_finishes(
    media: str, text: str, size: int
) -> None:
    documents = texts(text, size)
    documents[-1]["candidates"][0]["finishReason"] = "MAX_TOKENS"
    out = run(documents, media)
    assert "finishReason" in out[-1]["candidates"][0]
    assert told(out) == [{"text": restoring(ORIGINALS)(text)}]
    late = run([*texts(text, size), chunk(finish="MAX_TOKENS")], media)
    assert told(late) == [{"text": restoring(ORIGINALS)(text)}]
    assert "finishReason" in late[-1]["candidates"][0]
    for document in late[:-1]:
        assert document["modelVersion"] == "gemini-3-flash"
        assert document["candidates"][0]["content"]["role"] == "model"


@pytest.mark.parametrize("media", [SSE, ARRAY])
def test_candidates_do_not_mix_their_text(media: str) -> None:
    documents = []
    for left, right in zip(pieces(A, 3), pieces(B, 3), strict=False):
        both = chunk({"text": left})
        both["candidates"].append({"index": 1, "content": {"parts": [{"text": right}]}})
        documents.append(both)
    documents.append(chunk({"text": "."}, finish="STOP"))
    documents.append(chunk({"text": "!"}, index=1, finish="STOP"))
    stream = framed(documents, media)
    out, transformer = transform(stream, media)
    assert told(read(out, media)) == [{"text": MAIL + "."}]
    assert told(read(out, media), 1) == [{"text": NASTY + "!"}]
    assert transformer.complete
    _, half = transform(framed(documents[:-1], media), media)
    assert not half.complete


def test_a_thought_between_two_pieces_does_not_cut_a_token() -> None:
    documents = [
        chunk({"text": A[:6]}),
        chunk({"text": f"hm {A}", "thought": True}),
        chunk({"text": A[6:]}, finish="STOP"),
    ]
    parts = told(run(documents, SSE))
    assert "".join(part["text"] for part in parts if "thought" not in part) == MAIL
    assert {"text": f"hm {A}", "thought": True} in parts


def test_a_call_under_a_thought_is_restored_all_the_same() -> None:
    (part,) = told(run([chunk({**CALL, "thought": True}, finish="STOP")], SSE))
    assert part == {**restored_parts()[5], "thought": True}


def test_text_before_a_call_is_complete_before_it() -> None:
    for documents in (
        [chunk({"text": "see ["}), chunk(CALL), chunk(finish="STOP")],
        [chunk({"text": "see ["}, CALL), chunk(finish="STOP")],
    ):
        parts = told(run(documents, SSE))
        assert parts[0] == {"text": "see ["}
        assert "functionCall" in parts[1]


@pytest.mark.parametrize("media", [SSE, ARRAY])
@pytest.mark.parametrize("size", [1, 3, 8, 99])
def test_streamed_arguments_are_restored_along_their_path(media: str, size: int) -> None:
    documents = [chunk({"functionCall": {"name": "save", "willContinue": True}})]
    values = {"$.to": A, "$.body": f"see {B}", "$.list[0]": "ends ["}
    for path, value in values.items():
        found = list(pieces(value, size))
        for number, piece in enumerate(found):
            argument = {"jsonPath": path, "stringValue": piece}
            if number + 1 < len(found):
                argument["willContinue"] = True
            documents.append(
                chunk({"functionCall": {"partialArgs": [argument], "willContinue": True}})
            )
    documents.append(
        chunk({"functionCall": {"partialArgs": [{"jsonPath": "$.n", "numberValue": 1}]}})
    )
    documents.append(chunk({"functionCall": {}}))
    documents.append(chunk(finish="STOP"))
    shown: dict[str, str] = {}
    for document in run(documents, media):
        for part in document["candidates"][0]["content"]["parts"]:
            for argument in part["functionCall"].get("partialArgs", []):
                text = argument.get("stringValue", "")
                shown[argument["jsonPath"]] = shown.get(argument["jsonPath"], "") + text
    assert shown == {"$.to": MAIL, "$.body": f"see {NASTY}", "$.list[0]": "ends [", "$.n": ""}


def test_arguments_that_the_call_ends_are_not_lost() -> None:
    argument = {"jsonPath": "$.a", "stringValue": "x [", "willContinue": True}
    documents = [
        chunk({"functionCall": {"name": "f", "partialArgs": [argument], "willContinue": True}}),
        chunk({"functionCall": {}}, finish="STOP"),
    ]
    shown = [
        argument["stringValue"]
        for document in run(documents, SSE)
        for part in document["candidates"][0]["content"]["parts"]
        for argument in part["functionCall"].get("partialArgs", [])
    ]
    assert "".join(shown) == "x ["


def test_grounding_citations_and_feedback_are_restored() -> None:
    document = chunk({"text": "x"}, finish="STOP")
    document["candidates"][0] |= {
        "groundingMetadata": {
            "webSearchQueries": [f"who is {A}"],
            "groundingChunks": [{"web": {"uri": f"https://x.example/{A}", "title": A}}],
            "groundingSupports": [{"segment": {"text": A}}],
            "searchEntryPoint": {"renderedContent": f"<b>{A}</b>"},
        },
        "citationMetadata": {"citationSources": [{"uri": A}]},
        "urlContextMetadata": {"urlMetadata": [{"retrievedUrl": A}]},
        "finishMessage": f"done for {A}",
    }
    for out in (
        run([document], SSE)[0],
        FORMAT.restore_response(document, restoring(ORIGINALS)),  # type: ignore[attr-defined]
    ):
        assert A not in json.dumps(out)
        assert json.dumps(out).count(MAIL) == 8


def test_the_first_text_is_not_kept_back() -> None:
    for media, expected in ((SSE, framed([chunk({"text": "Hi "})], SSE)), (ARRAY, None)):
        transformer = FORMAT.new_stream(restorers(ORIGINALS), media_type=media)
        stream = framed([chunk({"text": "Hi "}), chunk({"text": "you"})], media)
        first = stream[: stream.index(b'"r1"}') + 5] if media == ARRAY else expected
        assert first is not None
        assert transformer.feed(first) == first


@pytest.mark.parametrize("media", [SSE, ARRAY])
def test_a_stream_without_an_end_is_not_complete(media: str) -> None:
    documents = texts(f"one {A[:-2]}", 5)
    stream = framed(documents, media)
    cut = stream.rstrip().removesuffix(b"]") if media == ARRAY else stream
    out, transformer = transform(cut, media)
    assert not transformer.complete
    assert transformer.error is None
    shown = read(out + (b"]" if media == ARRAY else b""), media)
    assert told(shown) == [{"text": f"one {A[:-2]}"}]


def test_an_array_without_its_bracket_is_not_complete() -> None:
    stream = framed([chunk({"text": "x"}, finish="STOP")], ARRAY)
    assert transform(stream, ARRAY)[1].complete
    assert not transform(stream.rstrip().removesuffix(b"]"), ARRAY)[1].complete
    assert not transform(b"[]", ARRAY)[1].complete


def test_held_text_goes_before_the_bracket_when_no_reason_came() -> None:
    out, transformer = transform(framed([chunk({"text": "x ["})], ARRAY), ARRAY)
    assert told(json.loads(out)) == [{"text": "x ["}]
    assert not transformer.complete


def test_a_blocked_prompt_ends_a_stream() -> None:
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": USAGE}
    _, transformer = transform(framed([blocked], SSE), SSE)
    assert transformer.complete
    assert transformer.stop_reason == "SAFETY"


@pytest.mark.parametrize("media", [SSE, ARRAY])
def test_an_error_passes_after_the_text_before_it_and_is_remembered(media: str) -> None:
    error = {"error": {"code": 503, "message": f"overloaded, {A}", "status": "UNAVAILABLE"}}
    out, transformer = transform(framed([chunk({"text": "a ["}), error], media), media)
    shown = read(out, media)
    assert told(shown[:-1]) == [{"text": "a ["}]
    assert shown[-1]["error"]["message"] == f"overloaded, {MAIL}"
    assert transformer.error == "UNAVAILABLE"


def test_one_object_instead_of_an_array_is_restored() -> None:
    document = chunk({"text": f"x {A} ["}, CALL, finish="STOP")
    out, transformer = transform(json.dumps(document).encode(), ARRAY)
    assert json.loads(out)["candidates"][0]["content"]["parts"][0] == {"text": f"x {MAIL} ["}
    assert transformer.complete
    unfinished = json.dumps(chunk({"text": "x ["})).encode()
    assert json.loads(transform(unfinished, ARRAY)[0])["candidates"]


@pytest.mark.parametrize(
    "odd",
    [
        {}, [], 3, None, "text", {"candidates": None}, {"candidates": [None, 1]},
        {"candidates": [{}]}, {"candidates": [{"content": None}]}, {"candidates": {"0": {}}},
        {"candidates": [{"content": {"parts": [None, 1, {"text": 1}, {"functionCall": 1}]}}]},
        {"candidates": [{"content": {"parts": [{"functionCall": {"partialArgs": [1, {}]}}]}}]},
        {"candidates": [{"index": "x", "finishReason": 1}]}, {"usageMetadata": 1},
        {"usageMetadata": {"promptTokenCount": "9", "candidatesTokenCount": True}},
        {"error": 1}, {"promptFeedback": 1}, {"modelVersion": 1},
    ],
)  # fmt: skip
@pytest.mark.parametrize("media", [SSE, ARRAY])
def test_odd_chunks_pass_untouched(odd: Any, media: str) -> None:
    stream = framed([odd, odd], media)
    assert transform(stream, media)[0] == stream
    assert isinstance(FORMAT, JsonFormat)
    assert FORMAT.restore_response(odd, restoring(ORIGINALS)) == odd
    assert FORMAT.usage_of(odd) == Usage()


def test_snake_case_answers_are_restored_too() -> None:
    documents = [
        {"candidates": [{"content": {"parts": [{"text": piece}]}}]} for piece in pieces(A, 4)
    ]
    call = {"function_call": {"name": "f", "args": {"to": A}}}
    documents.append({"candidates": [{"content": {"parts": [call]}, "finish_reason": "STOP"}]})
    out, transformer = transform(framed(documents, SSE), SSE)
    assert MAIL in out.decode()
    assert A not in out.decode()
    assert transformer.complete


def test_images_in_an_answer_keep_their_bytes() -> None:
    data = {"inlineData": {"mimeType": "image/png", "data": f"abc{A}"}}
    assert run([chunk(data, finish="STOP")], SSE)[0]["candidates"][0]["content"]["parts"] == [data]


def test_whole_answers_tell_usage_model_and_reason() -> None:
    body = FORMAT.restore_body(json.dumps(whole_answer()).encode(), ARRAY, restoring(ORIGINALS))
    assert body.usage == Usage(input=63, output=12, cache_read=40)
    assert (body.model, body.stop_reason) == ("gemini-3-flash", "STOP")
    error = b'[{"error":{"code":400,"message":"no ' + A.encode() + b'"}}]'
    assert MAIL.encode() in FORMAT.restore_body(error, ARRAY, restoring(ORIGINALS)).body


def test_predictions_count_their_tokens() -> None:
    answer = {
        "predictions": [{"embeddings": {"values": [1], "statistics": {"token_count": 4}}}] * 2
    }
    predict = wire.get("vertex.predict")
    assert isinstance(predict, JsonFormat)
    assert predict.usage_of(answer) == Usage(input=8)
    assert predict.usage_of({"predictions": [1]}) == Usage()


def test_thoughts_stay_as_they_are_in_the_answers_of_a_batch() -> None:
    parts = [{"text": A, "thought": True}, {"text": A}]
    answer = {"response": {"candidates": [{"content": {"parts": parts}}]}, "metadata": {"key": A}}
    batch = {"name": "batches/1", "response": {"inlinedResponses": {"inlinedResponses": [answer]}}}
    body = wire.get("gemini.read").restore_body(
        json.dumps(batch).encode(), "application/json", restoring(ORIGINALS)
    )
    (found,) = json.loads(body.body)["response"]["inlinedResponses"]["inlinedResponses"]
    assert found["metadata"] == {"key": MAIL}
    assert found["response"]["candidates"][0]["content"]["parts"] == [parts[0], {"text": MAIL}]
