"""Strict JSON: what it refuses, and that everything else survives exactly."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.wire.base import WireRefused
from gateway.wire.strictjson import (
    MAX_DEPTH,
    Number,
    dumps,
    glance,
    loads,
    loads_object,
    read_answer,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def numbers() -> st.SearchStrategy[Any]:
    spelled = st.from_regex(
        r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,8})?([eE][+-]?[0-9]{1,4})?", fullmatch=True
    )
    return spelled.map(Number)


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | numbers() | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=30,
)


def reference(document: Any) -> Any:
    """The structure with numbers as exact decimals, to compare values and spellings apart."""
    if isinstance(document, dict):
        return [(key, reference(value)) for key, value in document.items()]
    if isinstance(document, list):
        return [reference(value) for value in document]
    if isinstance(document, bool) or document is None or isinstance(document, str):
        return document
    return str(document.text if isinstance(document, Number) else document)


@given(DOCUMENTS)
@settings(max_examples=300, deadline=None)
def test_writing_and_reading_again_keeps_order_strings_and_number_spelling(document: Any) -> None:
    data = dumps(document)
    again = loads(data)
    assert reference(again) == reference(document)
    assert dumps(again) == data


@given(DOCUMENTS)
@settings(max_examples=200, deadline=None)
def test_any_json_means_the_same_to_another_parser_after_the_round_trip(document: Any) -> None:
    spaced = json.dumps(json.loads(dumps(document), parse_float=str, parse_int=str), indent=2)
    assert json.loads(dumps(loads(spaced.encode()))) == json.loads(spaced)


@pytest.mark.parametrize(
    "text",
    [
        "1.0",
        "1e0",
        "1E400",
        "-0",
        "-0.0",
        "0.1000",
        "9007199254740993",
        "1" * 400,
        "-" + "9" * 5000,
    ],
)
def test_numbers_keep_their_text(text: str) -> None:
    assert dumps(loads(f'{{"n":{text}}}'.encode())) == f'{{"n":{text}}}'.encode()


def test_big_integers_are_not_rounded() -> None:
    assert Decimal(loads(b"[9007199254740993]")[0]) == Decimal("9007199254740993")


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (b'{"a":1,"a":1}', "duplicate_key", "the top level"),
        (
            b'{"messages":[{},{"role":"user","content":[{"text":"x","text":"y"}]}]}',
            "duplicate_key",
            "messages[1].content[0]",
        ),
        (b'{"a":1,"\\u0061":2}', "duplicate_key", "the top level"),
        (b'{"a":"\xff"}', "invalid_utf8", "byte 6"),
        (b'{"a":"\xed\xa0\x80"}', "invalid_utf8", "byte 6"),
        (b'{"a":"\xc0\xaf"}', "invalid_utf8", "byte 6"),
        (b'{"text":"\\ud800"}', "lone_surrogate", "text"),
        (b'{"messages":[{"content":"a\\udc00b"}]}', "lone_surrogate", "messages[0].content"),
        (b'{"input":{"\\uDFFF":1}}', "lone_surrogate", "input"),
        (b'{"a":"\\ud83d \\ude00"}', "lone_surrogate", "(key 1)"),
        (b"\xef\xbb\xbf{}", "byte_order_mark", "byte order mark"),
        ("{}".encode("utf-16"), "byte_order_mark", "byte order mark"),
        (b'{"a":NaN}', "not_a_number", "NaN"),
        (b'{"a":[Infinity]}', "not_a_number", "Infinity"),
        (b'{"a":-Infinity}', "not_a_number", "Infinity"),
        (b"{} {}", "trailing_bytes", "column 4"),
        (b"{}\x00", "trailing_bytes", "column 3"),
        (b'{"a":1', "invalid_json", "line 1"),
        (b"", "invalid_json", "line 1"),
        (b"{'a':1}", "invalid_json", "line 1"),
        (b'{"a":01}', "invalid_json", "line 1"),
        (b'{"a":1,}', "invalid_json", "line 1"),
        (b'{"a":"\n"}', "invalid_json", "line 1"),
        (b'{"a":"\\x41"}', "invalid_json", "line 1"),
        (b'{"a":/**/1}', "invalid_json", "line 1"),
        (b"[]", "not_an_object", "object"),
        (b'"x"', "not_an_object", "object"),
        (b"7", "not_an_object", "object"),
        (b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}", "too_deep", "128"),
        (b"[" * 1_000_000, "too_deep", "128"),
        (b'{"a":' * 100_000, "too_deep", "128"),
    ],
)
def test_what_parsers_may_read_differently_is_refused(body: bytes, code: str, words: str) -> None:
    with pytest.raises(WireRefused) as caught:
        loads_object(body)
    assert caught.value.code == code
    assert words in str(caught.value)


def test_a_whole_surrogate_pair_is_text() -> None:
    assert loads(b'{"a":"\\ud83d\\ude00"}') == {"a": "\U0001f600"}
    assert dumps({"a": "\U0001f600é"}) == '{"a":"\U0001f600é"}'.encode()


def test_a_backslash_before_what_looks_like_an_escape_is_text() -> None:
    assert loads(b'{"a":"\\\\ud800"}') == {"a": "\\ud800"}


def test_the_deepest_accepted_body_survives() -> None:
    body = b'{"a":' + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b"}"
    assert dumps(loads_object(body)) == body


def test_a_refusal_names_no_key_or_value_of_the_user() -> None:
    body = b'{"input":{"jane@example.com":{"k":"4111111111111111","k":"hunter2"}}}'
    with pytest.raises(WireRefused) as caught:
        loads_object(body)
    text = f"{caught.value} {caught.value.location}"
    assert "input.(key 1)" in text
    assert not any(secret in text for secret in ("jane", "4111", "hunter2"))


def test_a_refusal_crosses_a_process_border_whole() -> None:
    refused = WireRefused("code", "A sentence.", "messages[0]")
    again = pickle.loads(pickle.dumps(refused))
    assert (again.code, str(again), again.location) == ("code", "A sentence.", "messages[0]")


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"b":[true,null,"x"]}',
        b'{"a":"\\ud800"}',
        b'{"a":NaN,"b":2}',
        b'{"a":1,"a":2}',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":"\xff"}',
        b"[" * 100 + b"]" * 100,
    ],
)
def test_a_glance_sees_what_a_reading_does(data: bytes) -> None:
    assert glance(data) == read_answer(data)


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 129 + b"]" * 129, b"<html>"])
def test_a_glance_refuses_what_a_reading_does(data: bytes) -> None:
    with pytest.raises(WireRefused) as glanced:
        glance(data)
    with pytest.raises(WireRefused) as read:
        read_answer(data)
    assert glanced.value.code == read.value.code
