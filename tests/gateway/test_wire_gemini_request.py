"""Gemini and Vertex requests: no canary survives at any position, and nothing else changes."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import FakeRedactor, NamingRedactor, token_of

from gateway import wire
from gateway.coverage import gemini, vertex
from gateway.coverage.sample import MARK, Sample
from gateway.redaction.job import ScanJob, ScanRefused
from gateway.redaction.policy_file import load_policy
from gateway.redaction.scanner import Scanner
from gateway.routing import Refusal, Route, match
from gateway.wire.base import OpaqueAction, WireRefused, WireReport
from gateway.wire.body import JsonFormat
from gateway.wire.errors import Family
from gateway.wire.formats.gemini_schema import SCHEMA, spellings
from gateway.wire.schema import Reading
from gateway.wire.strictjson import Number, dumps, loads_object

FORMAT = wire.get("gemini.generate")
C = "CANARY0001Z"
T = token_of(C)
SAMPLES = [sample for sample in (*gemini.SAMPLES, *vertex.SAMPLES) if sample.body is not None]
IDS = [f"{sample.wire} {number}" for number, sample in enumerate(SAMPLES)]
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256))).decode()
SIGNATURE = "Cp8BAVSoXO4" * 30 + "=="


@pytest.fixture(scope="module")
def scanner() -> Scanner:
    return Scanner(load_policy(None), b"k" * 32)


def redact(document: Any, **options: Any) -> Any:
    assert isinstance(FORMAT, JsonFormat)
    return FORMAT.redact_request(document, FakeRedactor(), **options)


def part(body: dict[str, Any]) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [body]}]}


def b64(text: str, encoding: str = "utf-8") -> str:
    return base64.b64encode(text.encode(encoding)).decode()


def planted(node: Any, value: str) -> Any:
    """The sample with every mark replaced, also where base64 hides it."""
    if isinstance(node, list):
        return [planted(item, value) for item in node]
    if isinstance(node, dict):
        return {key.replace(MARK, value): planted(inside, value) for key, inside in node.items()}
    if not isinstance(node, str):
        return node
    for text in list(opened(node))[1:]:
        if MARK in text:
            return b64(text.replace(MARK, value))
    return node.replace(MARK, value)


def strings(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inside in value.items():
            yield f"{place} key", key
            yield from strings(inside, f"{place}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from strings(item, f"{place}[{number}]")
    elif isinstance(value, str):
        yield place, value


def opened(text: str) -> Iterator[str]:
    yield text
    try:
        yield base64.b64decode(text, validate=True).decode()
    except ValueError:
        return


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_no_canary_survives_at_any_position(sample: Sample) -> None:
    format_ = wire.get(sample.wire)
    assert isinstance(format_, JsonFormat)
    document = planted(sample.body, C)
    out = format_.redact_request(document, FakeRedactor())
    leaks = [place for place, text in strings(out) if any("CANARY" in t for t in opened(text))]
    assert leaks == []
    assert [place for place, text in strings(document)] == [
        place.replace(T, C) for place, _ in strings(out)
    ]


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_a_request_without_findings_comes_back_byte_for_byte(sample: Sample) -> None:
    format_ = wire.get(sample.wire)
    body = dumps(planted(sample.body, "word"))
    reading = Reading(FakeRedactor())
    assert format_.redact_body(body, "application/json", reading, {}).body == body


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_every_sample_is_routed_to_its_own_format(sample: Sample) -> None:
    path, _, query = sample.path.replace(MARK, "word").partition("?")
    found = match(sample.method, f"/agent/coder{path}", query, {"x-goog-api-key": "k"})
    assert isinstance(found, Route)
    assert (found.wire, found.provider) == (sample.wire, sample.wire.partition(".")[0].replace(
        "gemini", "google"))  # fmt: skip
    assert found.path == path


def test_the_real_engine_changes_nothing_in_requests_of_plain_words(scanner: Scanner) -> None:
    for sample in SAMPLES:
        body = dumps(planted(sample.body, "word"))
        assert scanner.run(ScanJob(wire=sample.wire, body=body, scope="r")).body == body


@pytest.mark.parametrize("value", ["jane.doe@example.com", "078-05-1120", "4539148803436467"])
@pytest.mark.parametrize("prefix", ["", "gemini-", "models/gemini-", "gemini-2.5-"])
def test_a_value_that_poses_as_a_model_or_id_is_found(
    scanner: Scanner, prefix: str, value: str
) -> None:
    body = dumps({"model": prefix + value, **part({"functionCall": {"id": value, "name": "x"}})})
    assert value.encode() not in scanner.run(ScanJob(wire="gemini.embed", body=body)).body


@pytest.mark.parametrize(
    "model",
    [
        "gemini-3.8-flash", "gemini-2.5-flash-lite", "gemini-2.5-flash-preview-05-20",
        "gemini-2.5-flash-preview-09-2025", "gemini-embedding-001", "text-embedding-004",
        "gemma-3-27b-it", "gemini-3-pro-image-preview", "imagen-4.0-generate-001",
    ],
)  # fmt: skip
def test_models_of_google_pass_unread(model: str) -> None:
    redactor = FakeRedactor()
    FORMAT.redact_body(
        dumps({"model": f"models/{model}"}), "application/json", Reading(redactor), {}
    )
    assert redactor.shown == []


def test_names_have_both_spellings() -> None:
    assert spellings("inlineData topP") == {"inlineData", "inline_data", "topP", "top_p"}
    assert {"systemInstruction", "system_instruction"} <= SCHEMA.fields


@pytest.mark.parametrize("name", ["inlineData", "inline_data"])
@pytest.mark.parametrize("media", ["mimeType", "mime_type"])
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("text/plain", b64(f"dear {C}")),
        ("text/csv; charset=latin-1", b64("é" + C, "latin-1")),
        ("application/json", b64(json.dumps({C: [C]}))),
        ("application/octet-stream", b64(f"dear {C}")),
        ("image/png", b64(f"dear {C}")),
        ("", b64(f"dear {C}", "utf-16")),
        (C, base64.urlsafe_b64encode(f"dear {C} ÿþ".encode()).decode()),
    ],
)
def test_text_in_inline_data_is_read_decoded(name: str, media: str, kind: str, data: str) -> None:
    out = redact(part({name: {media: kind, "data": data}}))
    inside = out["contents"][0]["parts"][0][name]
    raw = base64.b64decode(inside["data"])
    assert C.encode() not in raw
    assert C.encode("utf-16-le") not in raw
    assert C not in inside[media]
    assert list(inside) == [media, "data"]


def test_images_and_files_pass_unread_and_are_counted_or_refused() -> None:
    report = WireReport()
    body = part({"inlineData": {"mimeType": "image/png", "data": PNG}})
    body["contents"][0]["parts"].append({"fileData": {"fileUri": "https://x.example/files/a"}})
    assert redact(body, report=report) == body
    assert report.opaque_parts == 2
    for number in (0, 1):
        only = {"contents": [{"parts": [body["contents"][0]["parts"][number]]}]}
        with pytest.raises(WireRefused) as refused:
            redact(only, opaque=OpaqueAction.REFUSE)
        assert refused.value.code == "opaque"


def test_inline_data_that_is_no_base64_is_refused_with_its_place() -> None:
    with pytest.raises(WireRefused) as refused:
        redact(part({"inlineData": {"mimeType": "image/png", "data": f"?? {C}"}}))
    assert refused.value.code == "base64"
    assert "contents[0].parts[0]" in refused.value.sentence
    assert C not in refused.value.sentence


@pytest.mark.parametrize("name", ["thoughtSignature", "thought_signature"])
def test_a_thought_signature_goes_back_byte_for_byte(name: str) -> None:
    body = part({"functionCall": {"name": "f", "args": {}}, name: SIGNATURE})
    report, redactor = WireReport(), FakeRedactor()
    assert isinstance(FORMAT, JsonFormat)
    assert FORMAT.redact_request(body, redactor, report=report) == body
    assert SIGNATURE not in redactor.shown
    assert report.signed_parts == 1


def test_a_short_signature_cannot_carry_what_the_redactor_would_find() -> None:
    assert C not in dumps(redact(part({"text": "x", "thoughtSignature": C}))).decode()


def test_a_token_in_a_thought_stays_and_a_value_does_not() -> None:
    thought = {"text": f"about {T}, {C}", "thought": True, "thoughtSignature": SIGNATURE}
    inside = redact(part(thought))["contents"][0]["parts"][0]
    assert inside == {**thought, "text": f"about {T}, {T}"}


def test_an_api_key_in_a_tool_is_taken_for_one_by_its_name() -> None:
    assert isinstance(FORMAT, JsonFormat)
    tool = {"retrieval": {"x_password": "hunter2", "headers": {"password": "hunter3"}}}
    out = dumps(FORMAT.redact_request({"tools": [tool]}, NamingRedactor())).decode()
    assert "hunter" not in out


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"3", b"null"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(WireRefused) as refused:
        FORMAT.redact_body(body, "application/json", Reading(FakeRedactor()), {})
    assert refused.value.code == "not_an_object"


@pytest.mark.parametrize("shape", [C, [C], {C: C}, [[{"text": C}]], {"parts": C}, 1234567890, None])
@pytest.mark.parametrize("name", ["contents", "systemInstruction", "tools", "generationConfig"])
def test_odd_shapes_are_read_too(name: str, shape: Any) -> None:
    assert "CANARY" not in dumps(redact({name: shape})).decode()


def test_the_same_prefix_gives_the_same_bytes_on_every_turn() -> None:
    def turn(count: int) -> bytes:
        contents = [
            {"role": "user", "parts": [{"text": f"{n} CANARY{n:04}Z"}]} for n in range(count)
        ]
        return dumps(redact({"systemInstruction": {"parts": [{"text": C}]}, "contents": contents}))

    for count in range(1, 6):
        assert turn(count + 1).startswith(turn(count).removesuffix(b"]}"))


def test_redacting_again_changes_nothing() -> None:
    once = redact(planted(gemini.GENERATE, C))
    assert dumps(redact(once)) == dumps(once)


def test_numbers_and_order_survive_exactly() -> None:
    body = b'{"generationConfig":{"topP":1.0,"seed":9007199254740993,"topK":-0},"contents":[]}'
    assert FORMAT.redact_body(body, "", Reading(FakeRedactor()), {}).body == body


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=5) | st.just(C),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(sorted(SCHEMA.fields - {"data"})) | st.text(max_size=4) | st.just(C),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(sorted(SCHEMA.fields)), JSON, max_size=4))
@settings(max_examples=150, deadline=None)
def test_whatever_the_shape_nothing_leaks(document: dict[str, Any]) -> None:
    out = {}
    with contextlib.suppress(WireRefused):
        out = redact(document)
    assert "CANARY" not in dumps(out).decode()
    assert isinstance(loads_object(dumps(out)), dict)


# -- routes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
@pytest.mark.parametrize(
    ("method", "path", "query", "name"),
    [
        ("POST", "models/gemini-3-flash:generateContent", "", "gemini.generate"),
        ("POST", "models/gemini-3-flash:streamGenerateContent", "alt=sse", "gemini.stream"),
        ("POST", "models/gemini-3-flash:streamGenerateContent", "", "gemini.stream"),
        ("POST", "models/gemini-3-flash:streamGenerateContent", "%24alt=sse", None),
        ("POST", "models/gemini-3-flash:streamGenerateContent", "$alt=sse", "gemini.stream"),
        ("POST", "models/gemini-3-flash:countTokens", "prettyPrint=false", "gemini.count_tokens"),
        ("POST", "models/gemini-3-flash:embedContent", "", "gemini.embed"),
        ("POST", "models/gemini-3-flash:generateContent", "alt=media", None),
        ("POST", "models/gemini-3-flash:generateContent", "alt=sse", None),
        ("POST", "models/gemini-3-flash:unknownVerb", "", None),
        ("GET", "models", "pageSize=1000", "gemini.read"),
        ("GET", "models/gemini-3-flash", "", "gemini.read"),
    ],
)
def test_gemini_calls_are_routed_by_verb(
    version: str, method: str, path: str, query: str, name: str | None
) -> None:
    headers = {"x-goog-api-key": "k"}
    found = match(method, f"/agent/coder/{version}/{path}", query, headers)
    if name is None:
        assert isinstance(found, Refusal)
        assert found.family is Family.GEMINI
        assert json.loads(found.body())["error"]["status"] == "PERMISSION_DENIED"
    else:
        assert isinstance(found, Route)
        assert (found.wire, found.provider, found.query) == (name, "google", query)
        assert "gemini-3" not in found.shown


def test_a_key_in_the_query_is_taken_out_of_it() -> None:
    found = match("GET", "/v1/models", "key=AIzaXYZ&pageSize=5", {})
    assert isinstance(found, Route)
    assert (found.provider, found.key, found.query) == ("google", "AIzaXYZ", "pageSize=5")


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize(
    ("path", "name", "family"),
    [
        ("publishers/google/models/g:generateContent", "vertex.generate", Family.GEMINI),
        ("publishers/google/models/g:streamGenerateContent", "vertex.stream", Family.GEMINI),
        ("publishers/google/models/g:countTokens", "vertex.count_tokens", Family.GEMINI),
        ("publishers/google/models/g:predict", "vertex.predict", Family.GEMINI),
        ("endpoints/123:streamGenerateContent", "vertex.stream", Family.GEMINI),
        ("publishers/anthropic/models/c@1:rawPredict", "vertex.anthropic", Family.ANTHROPIC),
        ("publishers/anthropic/models/c:streamRawPredict", "vertex.anthropic", Family.ANTHROPIC),
        ("publishers/mistralai/models/m:streamRawPredict", "vertex.mistral", Family.OPENAI),
        ("endpoints/openapi/chat/completions", "openai.chat", Family.OPENAI),
    ],
)
def test_vertex_calls_are_routed_by_publisher(
    version: str, path: str, name: str, family: Family
) -> None:
    whole = f"/{version}/projects/p-1/locations/us-central1/{path}"
    found = match("POST", whole)
    assert isinstance(found, Route)
    assert (found.wire, found.provider, found.family) == (name, "vertex", family)
    assert found.path == whole
    assert found.params["project"] == "p-1"


def test_the_verb_alone_makes_a_stream() -> None:
    for name, streams in (("gemini.stream", True), ("gemini.generate", False)):
        body = wire.get(name).redact_body(
            b'{"stream":true}', "", Reading(FakeRedactor()), {"model": "gemini-3-flash"}
        )
        assert (body.stream, body.model) == (streams or name == "gemini.generate", "gemini-3-flash")


def test_a_value_in_the_path_or_query_is_refused(scanner: Scanner) -> None:
    job = ScanJob(wire="gemini.read", body=b"", params={"model": "jane.doe@example.com"})
    with pytest.raises(ScanRefused) as refused:
        scanner.run(job)
    assert refused.value.code == "request_line"


def test_a_float_of_a_place_keeps_its_text() -> None:
    body = {"toolConfig": {"retrievalConfig": {"latLng": {"latitude": Number("37.4220")}}}}
    assert redact(body) == body
