"""Uploads, batches and stored files: forms are read part by part and written anew."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import FakeRedactor, restoring

from gateway import wire
from gateway.wire import WireRefused
from gateway.wire.base import OpaqueAction, WireReport
from gateway.wire.formats.files import restore_lines
from gateway.wire.multipart import Part, read_form, write_form
from gateway.wire.schema import Reading

C = "CANARY0001xZ"
UPLOAD = wire.get("openai.upload")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def upload(*parts: Part, redactor: FakeRedactor | None = None, **options: object) -> list[Part]:
    body, content_type = write_form(parts)
    reading = Reading(redactor or FakeRedactor(), **options)  # type: ignore[arg-type]
    redacted = UPLOAD.redact_body(body, content_type, reading, {})
    return read_form(redacted.body, redacted.media_type)


def file(data: bytes, media_type: str = "", filename: str = "a.txt") -> Part:
    return Part("file", data, filename, media_type)


@pytest.mark.parametrize("media_type", ["", "text/plain", "application/octet-stream"])
def test_a_text_file_is_read_whatever_it_is_declared_as(media_type: str) -> None:
    (part,) = upload(file(f"name: {C}\nrest".encode(), media_type))
    assert C.encode() not in part.data
    assert part.data.endswith(b"\nrest")


def test_name_file_name_and_fields_are_text_but_words_of_the_api_stay() -> None:
    purpose, other, sent = upload(
        Part("purpose", b"batch"), Part("note", C.encode()), file(b"x", filename=f"{C}.txt")
    )
    assert purpose.data == b"batch"
    assert C.encode() not in other.data
    assert sent.filename is not None
    assert C not in sent.filename
    assert sent.filename.endswith(".txt")


def test_a_batch_is_read_line_by_line_each_by_its_own_format() -> None:
    lines = [
        {
            "custom_id": C,
            "method": "POST",
            "url": "/v1/files-unknown",
            "body": {"model": "m-1", "messages": [{"role": "user", "content": C}]},
        },
        {"text": C, "n": 12345678901234567890},
    ]
    body = "\n".join(json.dumps(line) for line in lines).encode() + b"\n"
    (part,) = upload(file(body, filename="batch.jsonl"))
    assert C.encode() not in part.data
    first, second, empty = part.data.split(b"\n")
    assert json.loads(first)["body"]["model"] == "m-1"
    assert json.loads(second)["n"] == 12345678901234567890
    assert empty == b""


def test_a_clean_file_keeps_its_bytes() -> None:
    for data in (b'{"a":  1}\r\n{"b":2}', b"plain \xc3\xa9\r\n", PNG, b"\xff\xfea\x00b\x00"):
        (part,) = upload(file(data))
        assert part.data == data


@pytest.mark.parametrize("odd", [b"\0", b"\xff", b"\xe9", b"\x01\xc3"])
@pytest.mark.parametrize("media_type", ["", "application/octet-stream", "image/png", "text/csv"])
def test_an_odd_byte_does_not_make_a_text_unreadable(odd: bytes, media_type: str) -> None:
    text = b"name,mail\n" + b"some more words of a table, " * 3
    (part,) = upload(file(text + odd + f"\n{C}\n".encode(), media_type))
    assert C.encode() not in part.data
    assert part.data.startswith(text + odd)


def test_a_line_of_a_batch_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(WireRefused):
        upload(file(b'{"ok": "' + b"x" * 60 + b'\xff"}\n', filename="b.jsonl"))


def test_bytes_nobody_can_read_follow_the_policy() -> None:
    report = WireReport()
    upload(file(PNG, "image/png"), report=report)
    assert report.opaque_parts == 1
    with pytest.raises(WireRefused) as refused:
        upload(file(PNG, "image/png"), opaque=OpaqueAction.REFUSE)
    assert refused.value.code == "opaque"


@pytest.mark.parametrize("line", ['{"a":1,"a":2}', '{"a":', '{"a":"\\ud800"}', '{"a":1} {"b":2}'])
def test_a_line_that_two_programs_could_read_differently_is_refused(line: str) -> None:
    with pytest.raises(WireRefused):
        upload(file(f'{{"ok":1}}\n{line}'.encode(), filename="b.jsonl"))


def form(*lines: str, boundary: str = "b") -> tuple[bytes, str]:
    return "\r\n".join(lines).encode(), f"multipart/form-data; boundary={boundary}"


PLAIN = ("--b", 'Content-Disposition: form-data; name="a"', "", "x")


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", "multipart/form-data; boundary=b"),
        (b"x", "multipart/form-data"),
        form(*PLAIN),
        form("before", *PLAIN, "--b--"),
        form(*PLAIN, "--b--", "behind"),
        form(*PLAIN, "--b--", "", *PLAIN, "--b--"),
        form("--b", PLAIN[1] + "; filename*=UTF-8''x", "", "", "--b--"),
        form("--b", "Content-Disposition: form-data", "", "x", "--b--"),
        form("--b", "Content-Disposition: attachment; name=a", "", "x", "--b--"),
        form("--b", "X-Other: 1", PLAIN[1], "", "x", "--b--"),
        form("--b", PLAIN[1], PLAIN[1], "", "x", "--b--"),
        form("--b", PLAIN[1], "Content-Transfer-Encoding: base64", "", "eA==", "--b--"),
    ],
)  # fmt: skip
def test_a_form_that_cannot_be_read_for_certain_is_refused(body: bytes, content_type: str) -> None:
    with pytest.raises(WireRefused) as refused:
        read_form(body, content_type)
    assert refused.value.code == "multipart"


def test_a_form_as_clients_write_it_is_read() -> None:
    parts = read_form(*form(*PLAIN, "--b--", ""))
    assert parts == [Part("a", b"x")]


@given(
    st.lists(
        st.builds(
            Part,
            st.text("abc_[]", min_size=1),
            st.binary(max_size=60) | st.sampled_from([b"--b\r\n", b"\r\n--b--", b"-" * 40]),
            st.none() | st.text("ab.c é", min_size=1),
            st.sampled_from(["", "text/plain"]),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_form_that_was_written_is_read_the_same(parts: list[Part]) -> None:
    assert read_form(*write_form(parts)) == parts


@given(st.binary(max_size=200) | st.lists(st.sampled_from(
    [b"--b", b"--b--", b"\r\n", b"\n", b"--", PLAIN[1].encode(), b"x", b":"]
)).map(b"".join))  # fmt: skip
@settings(max_examples=300)
def test_no_bytes_make_the_reader_fail_otherwise(body: bytes) -> None:
    try:
        read_form(body, "multipart/form-data; boundary=b")
    except WireRefused:
        return


def test_lines_of_an_answer_are_restored_as_the_json_they_are() -> None:
    redactor = FakeRedactor()
    token = redactor.token('a"b')
    text = json.dumps({"x": f"<{token}>"}) + f"\nplain {token}\n" + json.dumps({"y": 1})
    restored = restore_lines(text, restoring(redactor.originals))
    first, second, third = restored.split("\n")
    assert json.loads(first) == {"x": '<a"b>'}
    assert second == 'plain a"b'
    assert third == '{"y": 1}'


@pytest.mark.parametrize("media_type", ["application/json", "application/jsonl", "text/plain"])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_stored_document_keeps_its_spelling(media_type: str, indent: int | None) -> None:
    redactor = FakeRedactor()
    token = redactor.token('a"b\\n')
    written = json.dumps(
        {"x": f"<{token}>", "n": 1.50, "é": [json.dumps({"y": token})]}, indent=indent
    )
    text = f"{written}\r\n" + ("" if indent else f"{written}\n")
    answer = wire.get("openai.stored").restore_body(
        text.encode(), media_type, restoring(redactor.originals)
    )
    once = json.dumps('a"b\\n')[1:-1]
    twice = json.dumps(once)[1:-1]
    assert answer.body.decode() == text.replace(f"<{token}>", f"<{once}>").replace(token, twice)


def test_answers_in_the_output_of_a_batch_keep_a_models_thoughts() -> None:
    redactor = FakeRedactor()
    token = redactor.token('a"b')
    arguments = json.dumps({"to": token})
    tool = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    chat = {"reasoning_content": token, "content": token, "tool_calls": [tool]}
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": token}]}
    call = {"type": "function_call", "arguments": arguments}
    bodies = [
        {"object": "chat.completion", "choices": [{"index": 0, "message": chat}]},
        {"object": "response", "output": [thought, call]},
        {"object": "later", "text": token},
        {"object": ["odd"], "text": token},
    ]
    lines = [
        json.dumps({"custom_id": token, "response": {"status_code": 200, "body": body}})
        for body in bodies
    ]
    restored = restore_lines("\n".join(lines), restoring(redactor.originals)).split("\n")
    found = [json.loads(line) for line in restored]
    assert {line["custom_id"] for line in found} == {'a"b'}
    first, second, *others = [line["response"]["body"] for line in found]
    message = first["choices"][0]["message"]
    assert message["reasoning_content"] == token
    assert message["content"] == 'a"b'
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"to": 'a"b'}
    assert second["output"][0] == thought
    assert json.loads(second["output"][1]["arguments"]) == {"to": 'a"b'}
    assert [body["text"] for body in others] == ['a"b', 'a"b']


def test_a_call_without_a_body_has_none() -> None:
    stored = wire.get("openai.stored")
    reading = Reading(FakeRedactor())
    assert stored.redact_body(b"", "", reading, {}).body == b""
    with pytest.raises(WireRefused):
        stored.redact_body(b'{"a":1}', "application/json", reading, {})
